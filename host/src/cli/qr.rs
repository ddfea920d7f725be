//! QR codes for the terminal, two modules a character.

use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};

/// The code of that text, with its quiet zone; `None` where the text is too long for one.
pub(super) fn code(text: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    // Light modules are drawn, so that the code is dark on light also on a dark terminal.
    let mut drawing = code.render::<Dense1x2>();
    Some(drawing.dark_color(Dense1x2::Dark).light_color(Dense1x2::Light).quiet_zone(true).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pairing_url_fits_into_half_a_terminal() {
        let url = format!("http://127.0.0.1:4310/#pair={}.{}", "a".repeat(28), "b".repeat(20));
        let drawing = code(&url).unwrap();
        assert!(drawing.lines().all(|line| line.chars().count() <= 50), "{drawing}");
        assert!(drawing.lines().count() <= 25);
    }
}
