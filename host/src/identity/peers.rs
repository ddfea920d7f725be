//! The paired devices in `rc/peers.json`: an object by fingerprint, rewritten as a whole, never over a change by another hand (wire §9, §10).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use shared::fingerprint::{Fingerprint, PublicKey};
use shared::name::DeviceName;
use shared::time::Timestamp;

use crate::files::{self, FilesError};

/// Far more devices than anybody pairs, in bytes.
const PEERS_BYTES: u64 = 4 * 1024 * 1024;

/// One paired device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its name for itself.
    pub name: DeviceName,
    /// Its public key, from which the fingerprints of both versions are made.
    #[serde(serialize_with = "write_key", deserialize_with = "read_key")]
    pub key: PublicKey,
    /// When it was paired.
    pub paired: Timestamp,
}

/// Why the list of devices cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PeersError {
    /// The file cannot be read or written, or others can read it.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The file is no such list.
    #[error("{} is not a list of devices: {detail}; mend it, or move it away and pair every device anew", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// Somebody else changed the file after we read or wrote it; it was left as it is.
    #[error("{} was changed by another hand: look at it, then restart the listener", .0.display())]
    Changed(PathBuf),
}

/// The paired devices, and what of them is on the disk.
#[derive(Debug)]
pub struct Peers {
    path: PathBuf,
    /// The digest of the file as we last read or wrote it; `None` when there was none.
    digest: Option<[u8; 32]>,
    devices: BTreeMap<Fingerprint, Peer>,
}

impl Peers {
    /// Reads the list; one that is not there is empty.
    ///
    /// # Errors
    /// [`PeersError`] where it cannot be read, is no list, or others can read it.
    pub fn read(path: &Path) -> Result<Self, PeersError> {
        let content = files::read_private(path, PEERS_BYTES)?;
        let devices = content.as_deref().map(|content| parse(path, content)).transpose()?.unwrap_or_default();
        Ok(Self { path: path.to_path_buf(), digest: content.as_deref().map(digest), devices })
    }

    /// Whether a device is listed.
    #[must_use]
    pub fn lists(&self, device: Fingerprint) -> bool {
        self.devices.contains_key(&device)
    }

    /// The devices by fingerprint.
    #[must_use]
    pub fn devices(&self) -> &BTreeMap<Fingerprint, Peer> {
        &self.devices
    }

    /// Lists a device or renames it. Durable on return; on an error nothing has changed.
    ///
    /// # Errors
    /// [`PeersError`] where the list cannot be written or was changed by another hand.
    pub fn add(&mut self, peer: Peer) -> Result<(), PeersError> {
        let mut devices = self.devices.clone();
        devices.insert(peer.key.fingerprint(), peer);
        self.write(devices)
    }

    /// Takes devices off the list. Durable on return; on an error nothing has changed.
    ///
    /// # Errors
    /// [`PeersError`] where the list cannot be written or was changed by another hand.
    pub fn remove(&mut self, gone: &[Fingerprint]) -> Result<(), PeersError> {
        let mut devices = self.devices.clone();
        devices.retain(|fingerprint, _| !gone.contains(fingerprint));
        self.write(devices)
    }

    fn write(&mut self, devices: BTreeMap<Fingerprint, Peer>) -> Result<(), PeersError> {
        let found = files::read_private(&self.path, PEERS_BYTES)?;
        if found.as_deref().map(digest) != self.digest {
            return Err(PeersError::Changed(self.path.clone()));
        }
        let mut content = serde_json::to_vec_pretty(&devices)
            .map_err(|error| PeersError::Wrong { path: self.path.clone(), detail: error.to_string() })?;
        content.push(b'\n');
        files::write_private(&self.path, &content)?;
        self.digest = Some(digest(&content));
        self.devices = devices;
        Ok(())
    }
}

fn parse(path: &Path, content: &[u8]) -> Result<BTreeMap<Fingerprint, Peer>, PeersError> {
    let wrong = |detail: String| PeersError::Wrong { path: path.to_path_buf(), detail };
    let devices: BTreeMap<Fingerprint, Peer> =
        serde_json::from_slice(content).map_err(|error| wrong(error.to_string()))?;
    // A name under which another key stands would let that key in under a false name.
    match devices.iter().find(|(fingerprint, peer)| peer.key.fingerprint() != **fingerprint) {
        Some((fingerprint, _)) => Err(wrong(format!("the key of {fingerprint} is another device's"))),
        None => Ok(devices),
    }
}

fn digest(content: &[u8]) -> [u8; 32] {
    Sha256::digest(content).into()
}

fn write_key<S: Serializer>(key: &PublicKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&HEXLOWER.encode(key.as_bytes()))
}

fn read_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PublicKey, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = || D::Error::custom("a key is 64 hexadecimal characters");
    let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| wrong())?;
    PublicKey::from_bytes(bytes.try_into().map_err(|_| wrong())?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::channel::StaticKey;

    fn peer(name: &str) -> Peer {
        let key = StaticKey::generate().unwrap().public();
        Peer { name: DeviceName::clean(name), key, paired: Timestamp::from_milliseconds(1_767_268_800_000) }
    }

    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("peers.json");
        (scratch, path)
    }

    #[test]
    fn devices_come_and_go_and_are_found_again() {
        let (_scratch, path) = scratch();
        let mut peers = Peers::read(&path).unwrap();
        let (phone, tablet) = (peer("phone"), peer("tablet"));
        peers.add(phone.clone()).unwrap();
        peers.add(tablet.clone()).unwrap();
        peers.add(Peer { name: DeviceName::clean("new name"), ..phone.clone() }).unwrap();
        assert_eq!(Peers::read(&path).unwrap().devices(), peers.devices());
        assert_eq!(peers.devices()[&phone.key.fingerprint()].name.as_str(), "new name");
        peers.remove(&[phone.key.fingerprint()]).unwrap();
        let again = Peers::read(&path).unwrap();
        assert!(again.lists(tablet.key.fingerprint()) && !again.lists(phone.key.fingerprint()));
    }

    #[test]
    fn a_change_by_another_hand_is_noticed_and_never_overwritten() {
        let (_scratch, path) = scratch();
        let mut peers = Peers::read(&path).unwrap();
        peers.add(peer("phone")).unwrap();
        let by_another_hand = b"{ }\n";
        files::write_private(&path, by_another_hand).unwrap();
        assert!(matches!(peers.add(peer("tablet")), Err(PeersError::Changed(_))));
        assert_eq!(std::fs::read(&path).unwrap(), by_another_hand);
        assert_eq!(peers.devices().len(), 1, "listed devices go on");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(peers.remove(&[]), Err(PeersError::Changed(_))));
    }

    #[test]
    fn a_wrong_list_is_refused() {
        let (_scratch, path) = scratch();
        let (one, other) = (peer("one"), peer("other"));
        let swapped = serde_json::json!({ one.key.fingerprint().as_str(): other });
        for content in ["[]", "{", &swapped.to_string()] {
            files::write_private(&path, content.as_bytes()).unwrap();
            assert!(matches!(Peers::read(&path), Err(PeersError::Wrong { .. })), "{content}");
        }
    }
}
