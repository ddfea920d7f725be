//! The devices at the rim: admission decided and made durable, pairing windows with their askers, open links that a revocation ends (wire §9).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shared::channel::{Admission as _, StaticKey};
use shared::failure::{Failure, FailureCode};
use shared::fingerprint::{Fingerprint, PublicKey};
use shared::frame::Hello;
use shared::link::Now;
use shared::name::DeviceName;
use shared::pairing::{OfferedCode, PairingCode, PairingError};
use shared::request::{Device, Paired};
use tokio::sync::{oneshot, watch};

use super::admission::{Admitted, Caller, Decision, Via, decide};
use crate::identity::{Audit, AuditEvent, Peer, Peers, PeersError, WindowClosed, WindowId, Windows};

/// The devices of this machine.
pub(crate) struct Devices {
    machine: Fingerprint,
    /// `peers.json`. Held while the disk works, so only tasks that may block take it, and before `state`.
    peers: Mutex<Peers>,
    /// The audit log. The same, and nothing is taken while it is held.
    audit: Mutex<Audit>,
    /// Everything else. Never held while the disk works, so everybody may look.
    state: Mutex<State>,
}

struct State {
    /// The devices that `peers.json` durably lists.
    listed: BTreeSet<Fingerprint>,
    windows: Windows,
    askers: BTreeMap<WindowId, oneshot::Sender<Outcome>>,
    links: BTreeMap<u64, (Fingerprint, Arc<Standing>)>,
    last_link: u64,
}

/// What became of a pairing window.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A device was paired.
    Paired(Paired),
    /// It closed without one.
    Closed(WindowClosed),
    /// The right code came, and the device could not be listed.
    Failed(String),
}

/// Whether the device of a link is still trusted.
#[derive(Debug)]
pub(crate) struct Standing {
    is_revoked: AtomicBool,
    revoked: watch::Sender<bool>,
}

impl Standing {
    fn new() -> Self {
        Self { is_revoked: AtomicBool::new(false), revoked: watch::Sender::new(false) }
    }

    /// Whether it was revoked.
    pub(crate) fn is_revoked(&self) -> bool {
        self.is_revoked.load(Ordering::SeqCst)
    }

    /// Waits until it is.
    pub(crate) async fn revoked(&self) {
        // The sender lives as long as we do, so this ends by a revocation only.
        let _ = self.revoked.subscribe().wait_for(|revoked| *revoked).await;
    }

    fn revoke(&self) {
        self.is_revoked.store(true, Ordering::SeqCst);
        self.revoked.send_replace(true);
    }
}

/// The place of one admitted link among the open ones; dropping it gives the place up.
pub(crate) struct Pass {
    devices: Arc<Devices>,
    number: u64,
    /// The proof.
    pub right: Admitted,
    /// Whether it still holds.
    pub standing: Arc<Standing>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.devices.lock().links.remove(&self.number);
    }
}

/// An open pairing window, with its asker; dropping it closes the window.
pub(crate) struct Asker {
    devices: Arc<Devices>,
    window: WindowId,
    /// The secret.
    pub code: PairingCode,
    /// What becomes of it.
    pub outcome: oneshot::Receiver<Outcome>,
}

impl Drop for Asker {
    fn drop(&mut self) {
        let mut state = self.devices.lock();
        state.windows.close(self.window);
        state.askers.remove(&self.window);
    }
}

impl Devices {
    /// The devices that `peers.json` lists.
    pub(crate) fn new(key: &StaticKey, peers: Peers, audit: Audit) -> Arc<Self> {
        let state = State {
            listed: peers.devices().keys().copied().collect(),
            windows: Windows::default(),
            askers: BTreeMap::new(),
            links: BTreeMap::new(),
            last_link: 0,
        };
        Arc::new(Self {
            machine: key.fingerprint(),
            peers: Mutex::new(peers),
            audit: Mutex::new(audit),
            state: Mutex::new(state),
        })
    }

    /// Decides about a `hello` and makes durable what follows from it. Blocks for the disk when a device is paired or refused.
    pub(crate) fn admit(
        self: &Arc<Self>,
        via: Via,
        key: PublicKey,
        hello: &Hello,
        now: Now,
    ) -> Result<Pass, Failure> {
        let peer = key.fingerprint();
        // Only a code can pair. From the decision until the device is listed, nobody may revoke it.
        let mut peers = code_of(hello).map(|_| self.peers());
        let decision = {
            let mut state = self.lock();
            let caller = Caller { via, peer, machine: self.machine, is_listed: state.listed.contains(&peer) };
            match decide(caller, hello, &mut state.windows, now.steady) {
                // Under the same lock as the decision, so that a revocation finds every link that was let in before it.
                Decision::Admit(right) => return Ok(self.let_in(&mut state, right)),
                decision @ (Decision::Pair(..) | Decision::Refuse(..)) => decision,
            }
        };
        match (decision, &mut peers) {
            (Decision::Pair(right, window), Some(peers)) => {
                let paired = self.list(peers, key, hello, window, now)?;
                let mut state = self.lock();
                state.listed.insert(peer);
                state.tell(window, Outcome::Paired(paired));
                Ok(self.let_in(&mut state, right))
            }
            (Decision::Refuse(detail, closed), _) => {
                drop(peers);
                if let Some((window, closed)) = closed {
                    self.lock().tell(window, Outcome::Closed(closed));
                }
                self.note(now, &AuditEvent::Refuse { device: peer, detail: detail.to_owned() });
                Err(Failure::new(FailureCode::Unauthorised, detail))
            }
            (Decision::Pair(..) | Decision::Admit(_), _) => {
                Err(Failure::new(FailureCode::Internal, "a device was paired without a code"))
            }
        }
    }

    fn let_in(self: &Arc<Self>, state: &mut State, right: Admitted) -> Pass {
        state.last_link += 1;
        let number = state.last_link;
        let standing = Arc::new(Standing::new());
        state.links.insert(number, (right.fingerprint(), Arc::clone(&standing)));
        Pass { devices: Arc::clone(self), number, right, standing }
    }

    /// Lists a device, durably. Blocks for the disk.
    fn list(
        &self,
        peers: &mut Peers,
        key: PublicKey,
        hello: &Hello,
        window: WindowId,
        now: Now,
    ) -> Result<Paired, Failure> {
        let name = match hello {
            Hello::Machine(hello) => DeviceName::clean(&hello.name),
            Hello::Session(_) | Hello::Host(_) | Hello::Home(_) => DeviceName::clean(""),
        };
        let paired = Paired { name: name.as_str().to_owned(), fingerprint: key.fingerprint() };
        if let Err(error) = peers.add(Peer { name, key, paired: now.date }) {
            tracing::error!(%error, "a device could not be listed");
            self.lock().tell(window, Outcome::Failed(error.to_string()));
            return Err(internal(&error));
        }
        let (device, name) = (paired.fingerprint, paired.name.clone());
        tracing::info!(%device, name, "paired a device");
        self.note(now, &AuditEvent::Pair { device, name });
        Ok(paired)
    }

    /// Opens a pairing window.
    pub(crate) fn open_window(self: &Arc<Self>, now: u64) -> Result<Asker, PairingError> {
        let code = PairingCode::random()?;
        let (sender, outcome) = oneshot::channel();
        let mut state = self.lock();
        let (window, closed) = state.windows.open(code.clone(), now);
        if let Some((replaced, closed)) = closed {
            state.tell(replaced, Outcome::Closed(closed));
        }
        state.askers.insert(window, sender);
        Ok(Asker { devices: Arc::clone(self), window, code, outcome })
    }

    /// Closes the window whose time is over.
    pub(crate) fn expire_window(&self, now: u64) {
        let mut state = self.lock();
        if let Some((window, closed)) = state.windows.expire(now) {
            state.tell(window, Outcome::Closed(closed));
        }
    }

    /// Takes devices off the list and ends their links; gives those that were listed. Blocks for the disk.
    pub(crate) fn revoke(&self, which: &Device, now: Now) -> Result<Vec<Fingerprint>, PeersError> {
        let mut peers = self.peers();
        let gone: Vec<Fingerprint> = match which {
            Device::All => peers.devices().keys().copied().collect(),
            Device::One(device) => Some(*device).into_iter().filter(|device| peers.lists(*device)).collect(),
        };
        if gone.is_empty() && matches!(which, Device::One(_)) {
            return Ok(gone);
        }
        peers.remove(&gone)?;
        {
            let mut state = self.lock();
            state.listed.retain(|device| !gone.contains(device));
            for (device, standing) in state.links.values() {
                if gone.contains(device) {
                    standing.revoke();
                }
            }
        }
        for device in &gone {
            self.note(now, &AuditEvent::Revoke { device: *device });
        }
        Ok(gone)
    }

    /// Whether what a device sent is still to be carried out.
    pub(crate) fn trusts(&self, device: Fingerprint) -> bool {
        device == self.machine || self.lock().listed.contains(&device)
    }

    /// Writes what happened into the audit log. Blocks for the disk.
    pub(crate) fn note(&self, now: Now, event: &AuditEvent) {
        let noted = self.audit.lock().unwrap_or_else(PoisonError::into_inner).append(now.date, event);
        if let Err(error) = noted {
            tracing::error!(%error, ?event, "the audit log could not be written");
        }
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell(&mut self, window: WindowId, outcome: Outcome) {
        if let Some(asker) = self.askers.remove(&window) {
            // An asker that is gone does not want to know.
            let _ = asker.send(outcome);
        }
    }
}

/// The code that a `hello` offers.
fn code_of(hello: &Hello) -> Option<&OfferedCode> {
    match hello {
        Hello::Machine(hello) => hello.code.as_ref(),
        Hello::Session(_) | Hello::Host(_) | Hello::Home(_) => None,
    }
}

/// The failure of whoever needs `peers.json` written (wire §8).
pub(crate) fn internal(error: &PeersError) -> Failure {
    Failure::new(FailureCode::Internal, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use serde_json::json;
    use std::time::Duration;

    /// A slow disk keeps its files to itself; nobody who only looks may wait for it, and a listed device comes in.
    #[test]
    fn whoever_looks_at_the_devices_does_not_wait_for_the_disk() {
        let scratch = tempfile::tempdir().unwrap();
        let home = crate::home::Home::open(&scratch.path().join("home")).unwrap();
        let mut peers = Peers::read(&home.peers()).unwrap();
        let (machine, phone) = (StaticKey::generate().unwrap(), StaticKey::generate().unwrap());
        let key = phone.public();
        peers.add(Peer { name: DeviceName::clean("phone"), key, paired: clock::now() }).unwrap();
        let devices = Devices::new(&machine, peers, Audit::open(&home.audit()).unwrap());
        let (writing, auditing) = (devices.peers(), devices.audit.lock().unwrap());
        let (looked, has_looked) = std::sync::mpsc::channel();
        let other = Arc::clone(&devices);
        std::thread::spawn(move || {
            let hello: Hello = serde_json::from_value(json!({"machine": {"name": "phone"}})).unwrap();
            let now = Now { date: clock::now(), steady: 0 };
            let pass = other.admit(Via::Port, key, &hello, now);
            drop(other.open_window(0));
            other.expire_window(1);
            looked.send((pass.is_ok(), other.trusts(key.fingerprint())))
        });
        assert_eq!(has_looked.recv_timeout(Duration::from_secs(30)), Ok((true, true)));
        drop((writing, auditing));
    }
}
