//! QR codes for the terminal, two modules a character.

use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};

use super::render::Colour;

/// The code of that text with its quiet zone, dark on light whatever the terminal's own colours are; `None` where the text is too long for one.
pub(super) fn code(text: &str, colour: Colour) -> Option<String> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let mut drawing = code.render::<Dense1x2>();
    match colour {
        Colour::On => {
            let drawing = drawing.dark_color(Dense1x2::Dark).light_color(Dense1x2::Light).build();
            let lines = drawing.lines().map(|line| format!("\u{1b}[30;107m{line}\u{1b}[0m"));
            Some(lines.collect::<Vec<_>>().join("\n"))
        }
        // Without colours the characters must be the light part, as most terminals write light on dark.
        Colour::Off => Some(drawing.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pairing_url_fits_into_half_a_terminal() {
        let url = format!("http://127.0.0.1:4310/#pair={}.{}", "a".repeat(28), "b".repeat(20));
        let drawing = code(&url, Colour::Off).unwrap();
        assert!(drawing.lines().all(|line| line.chars().count() <= 50), "{drawing}");
        assert!(drawing.lines().count() <= 25);
    }

    #[test]
    fn the_corner_is_light_and_the_finder_dark() {
        let plain = code("http://127.0.0.1:4310/", Colour::Off).unwrap();
        assert!(plain.starts_with('█'), "{plain}");
        let coloured = code("http://127.0.0.1:4310/", Colour::On).unwrap();
        assert!(coloured.starts_with("\u{1b}[30;107m "), "{coloured}");
        assert!(coloured.lines().nth(2).unwrap().contains("█▀▀▀▀▀█"), "{coloured}");
    }
}
