//! `aude pair`: a window in which one browser or phone may pair, as a link and a QR code.

use clap::Args;
use shared::frame::{Frame, OpenerBody};
use shared::kind::{Empty, Open};
use shared::pairing::PairingUrl;
use shared::request::{Request, Response, Window};

use super::connect::{Here, answer, ask};
use super::error::CliError;
use super::{output, qr};
use crate::clock;

/// Arguments of `aude pair`.
#[derive(Debug, Args)]
pub(super) struct Pair {
    /// Print each response as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Pair {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let here = Here::open()?;
        let json = self.json;
        let paired = pair(&here, |window| {
            if json {
                output::json(&Response::Window(window.clone()));
            } else {
                show(window);
                output::note("Waiting for the browser; Ctrl-C closes the link.");
            }
        })
        .await?;
        if self.json {
            output::json(&Open::Known(Response::Paired(paired)));
        } else {
            output::note(format!(
                "Paired with {} ({}).",
                crate::text::one_line(&paired.name, 48),
                paired.fingerprint
            ));
        }
        Ok(())
    }
}

/// Opens a window, hands it to `shown`, and waits until a device is paired.
pub(super) async fn pair(
    here: &Here,
    shown: impl FnOnce(&Window),
) -> Result<shared::request::Paired, CliError> {
    let mut link = here.home_link().await?;
    let frame = Frame::new(clock::now(), OpenerBody::Request(Request::Pair(Empty {})));
    let id = frame.id.clone();
    let response = ask(&mut link, frame, |_| {}).await?;
    let Open::Known(Response::Window(window)) = response else {
        return Err(CliError::from_response(&response));
    };
    shown(&window);
    let response = answer(&mut link, &id, &mut |_| {}).await?;
    if let Open::Known(Response::Paired(paired)) = response {
        Ok(paired)
    } else {
        Err(CliError::from_response(&response))
    }
}

/// Prints the link and its QR code.
pub(super) fn show(window: &Window) {
    let url = PairingUrl { endpoint: window.url.endpoint.clone(), code: window.url.code.clone() }.expose();
    if output::is_terminal()
        && let Some(code) = qr::code(&url)
    {
        output::line(code);
    }
    output::line(format!("Open this link in a browser to pair it (once, within 5 minutes):\n\n  {url}\n"));
}
