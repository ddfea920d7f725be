//! Who the machine is and whom it trusts: its key, the paired devices, the pairing window, the audit log, what was retired (wire §9, §10).

pub mod audit;
pub mod key;
pub mod peers;
pub mod retired;
pub mod window;

pub use audit::{Audit, AuditEvent};
pub use key::{KeyError, machine_key};
pub use peers::{Peer, Peers, PeersError};
pub use retired::{Retired, RetiredError};
pub use window::{Offer, WindowClosed, WindowId, Windows};
