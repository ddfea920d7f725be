//! The devices at the rim: admission decided and made durable, pairing windows with their askers, open links that a revocation ends (wire §9).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shared::channel::{Admission as _, StaticKey};
use shared::failure::{Failure, FailureCode};
use shared::fingerprint::{Fingerprint, PublicKey};
use shared::frame::Hello;
use shared::link::Now;
use shared::name::DeviceName;
use shared::pairing::{PairingCode, PairingError};
use shared::request::{Device, Paired};
use tokio::sync::{oneshot, watch};

use super::admission::{Admitted, Caller, Decision, Via, decide};
use crate::identity::{Audit, AuditEvent, Peer, Peers, PeersError, WindowClosed, WindowId, Windows};

/// The devices of this machine.
pub(crate) struct Devices {
    machine: Fingerprint,
    state: Mutex<State>,
}

struct State {
    peers: Peers,
    windows: Windows,
    askers: BTreeMap<WindowId, oneshot::Sender<Outcome>>,
    links: BTreeMap<u64, (Fingerprint, Arc<Standing>)>,
    last_link: u64,
    audit: Audit,
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
            peers,
            windows: Windows::default(),
            askers: BTreeMap::new(),
            links: BTreeMap::new(),
            last_link: 0,
            audit,
        };
        Arc::new(Self { machine: key.fingerprint(), state: Mutex::new(state) })
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
        let mut state = self.lock();
        let caller = Caller { via, peer, machine: self.machine, is_listed: state.peers.lists(peer) };
        let right = match decide(caller, hello, &mut state.windows, now.steady) {
            Decision::Admit(right) => right,
            Decision::Pair(right, window) => {
                state.pair(key, hello, window, now)?;
                right
            }
            Decision::Refuse(detail, closed) => {
                if let Some((window, closed)) = closed {
                    state.tell(window, Outcome::Closed(closed));
                }
                state.note(now, &AuditEvent::Refuse { device: peer, detail: detail.to_owned() });
                return Err(Failure::new(FailureCode::Unauthorised, detail));
            }
        };
        // Under the same lock as the decision, so that a revocation finds every link that was let in before it.
        state.last_link += 1;
        let number = state.last_link;
        let standing = Arc::new(Standing::new());
        state.links.insert(number, (right.fingerprint(), Arc::clone(&standing)));
        Ok(Pass { devices: Arc::clone(self), number, right, standing })
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
        let mut state = self.lock();
        let gone: Vec<Fingerprint> = match which {
            Device::All => state.peers.devices().keys().copied().collect(),
            Device::One(device) => {
                Some(*device).into_iter().filter(|device| state.peers.lists(*device)).collect()
            }
        };
        if gone.is_empty() && matches!(which, Device::One(_)) {
            return Ok(gone);
        }
        state.peers.remove(&gone)?;
        for (device, standing) in state.links.values() {
            if gone.contains(device) {
                standing.revoke();
            }
        }
        for device in &gone {
            state.note(now, &AuditEvent::Revoke { device: *device });
        }
        Ok(gone)
    }

    /// Whether what a device sent is still to be carried out.
    pub(crate) fn trusts(&self, device: Fingerprint) -> bool {
        device == self.machine || self.lock().peers.lists(device)
    }

    /// Writes what happened into the audit log. Blocks for the disk.
    pub(crate) fn note(&self, now: Now, event: &AuditEvent) {
        self.lock().note(now, event);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pair(&mut self, key: PublicKey, hello: &Hello, window: WindowId, now: Now) -> Result<(), Failure> {
        let name = match hello {
            Hello::Machine(hello) => DeviceName::clean(&hello.name),
            Hello::Session(_) | Hello::Host(_) | Hello::Home(_) => DeviceName::clean(""),
        };
        let paired = Paired { name: name.as_str().to_owned(), fingerprint: key.fingerprint() };
        if let Err(error) = self.peers.add(Peer { name, key, paired: now.date }) {
            tracing::error!(%error, "a device could not be listed");
            self.tell(window, Outcome::Failed(error.to_string()));
            return Err(internal(&error));
        }
        let (device, name) = (paired.fingerprint, paired.name.clone());
        tracing::info!(%device, name, "paired a device");
        self.note(now, &AuditEvent::Pair { device, name });
        self.tell(window, Outcome::Paired(paired));
        Ok(())
    }

    fn tell(&mut self, window: WindowId, outcome: Outcome) {
        if let Some(asker) = self.askers.remove(&window) {
            // An asker that is gone does not want to know.
            let _ = asker.send(outcome);
        }
    }

    fn note(&mut self, now: Now, event: &AuditEvent) {
        if let Err(error) = self.audit.append(now.date, event) {
            tracing::error!(%error, ?event, "the audit log could not be written");
        }
    }
}

/// The failure of whoever needs `peers.json` written (wire §8).
pub(crate) fn internal(error: &PeersError) -> Failure {
    Failure::new(FailureCode::Internal, error.to_string())
}
