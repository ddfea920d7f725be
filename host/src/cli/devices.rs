//! `aude devices` and `aude revoke`.

use clap::Args;
use serde_json::json;
use shared::request::{Device, Request, Revoke as RevokeDevice};

use super::connect::{Here, request};
use super::error::CliError;
use super::output;
use crate::identity::Peers;
use crate::text::one_line;

/// Arguments of `aude devices`.
#[derive(Debug, Args)]
pub(super) struct Devices {
    /// Print each device as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Devices {
    pub(super) fn run(self) -> Result<(), CliError> {
        let here = Here::open()?;
        let peers = peers(&here)?;
        let devices = peers.devices();
        if self.json {
            for (fingerprint, device) in devices {
                output::json(
                    &json!({ "fingerprint": fingerprint, "name": device.name.as_str(), "paired": device.paired }),
                );
            }
            return Ok(());
        }
        if devices.is_empty() {
            output::note("No device is paired. `aude pair` makes a pairing link.");
        }
        for (fingerprint, device) in devices {
            output::line(format!("{fingerprint}  {}  {}", device.paired, one_line(device.name.as_str(), 48)));
        }
        Ok(())
    }
}

/// Arguments of `aude revoke`.
#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// The device: its fingerprint, the beginning of it, its name where only one has it, or `all`
    device: String,
    /// Print the response as JSON
    #[arg(long)]
    json: bool,
}

impl Revoke {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let here = Here::open()?;
        let device = self.chosen(&here)?;
        let mut link = here.home_link().await?;
        let response = request(&mut link, Request::Revoke(RevokeDevice { device })).await?;
        if self.json {
            output::json(&response);
        } else {
            output::note("Revoked; its links are closed.");
        }
        Ok(())
    }

    fn chosen(&self, here: &Here) -> Result<Device, CliError> {
        if self.device == "all" {
            return Ok(Device::All);
        }
        if let Ok(fingerprint) = self.device.parse() {
            return Ok(Device::One(fingerprint));
        }
        let peers = peers(here)?;
        let mut fits = peers.devices().iter().filter(|(fingerprint, device)| {
            device.name.as_str() == self.device
                || (self.device.len() >= 4 && fingerprint.as_str().starts_with(&self.device))
        });
        match (fits.next(), fits.next()) {
            (Some((fingerprint, _)), None) => Ok(Device::One(*fingerprint)),
            (Some(_), Some(_)) => {
                Err(CliError::not_found(format!("more than one device is called {}", self.device))
                    .hint("give the fingerprint; `aude devices` lists them"))
            }
            (None, _) => Err(CliError::not_found(format!("no device is called {}", self.device))
                .hint("`aude devices` lists the paired devices")),
        }
    }
}

fn peers(here: &Here) -> Result<Peers, CliError> {
    Peers::read(&here.home.peers()).map_err(|error| CliError::failed(error.to_string()))
}
