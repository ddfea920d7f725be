//! Who may open which link: rules 1 to 6 of wire §9 as a pure decision, and the values that prove it.

use shared::channel::Admission;
use shared::failure::{CODE_REJECTED, NOT_LISTED};
use shared::fingerprint::Fingerprint;
use shared::frame::{Hello, HelloHome, HelloHost, HelloSession};
use shared::pairing::OfferedCode;

use crate::identity::window::Try;
use crate::identity::{Offer, WindowClosed, WindowId, Windows};

/// Where a connection came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// The port, which anybody may reach.
    Port,
    /// `listener.socket`, which only the machine's user can open.
    Socket,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    /// Where the link came in.
    pub via: Via,
    /// The key that it has proved.
    pub peer: Fingerprint,
    /// The machine's own key.
    pub machine: Fingerprint,
    /// Whether `peers.json` has the caller's key.
    pub is_listed: bool,
}

/// The proof that a peer was admitted, with what it is: made by [`decide`] alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Admitted {
    fingerprint: Fingerprint,
    role: Role,
}

/// What an admitted peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The machine's own user, on the socket.
    Machine,
    /// A paired device, on the port.
    Device,
}

impl Admitted {
    /// What the peer is.
    pub(crate) fn role(&self) -> Role {
        self.role
    }
}

impl Admission for Admitted {
    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

/// What admission decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The link may go on.
    Admit(Admitted),
    /// The link may go on once the device was listed under its name; its code has spent that window.
    Pair(Admitted, WindowId),
    /// A fatal `unauthorised` with this detail; with the window that its wrong code closed.
    Refuse(&'static str, Option<(WindowId, WindowClosed)>),
}

/// The first rule that matches decides.
pub(crate) fn decide(caller: Caller, hello: &Hello, windows: &mut Windows, now: u64) -> Decision {
    let Caller { via, peer, machine, is_listed } = caller;
    let refuse = |detail| Decision::Refuse(detail, None);
    match via {
        Via::Socket if peer == machine => {
            Decision::Admit(Admitted { fingerprint: peer, role: Role::Machine })
        }
        Via::Socket => refuse(NOT_LISTED),
        Via::Port if peer == machine => refuse(NOT_LISTED),
        Via::Port => {
            let right = Admitted { fingerprint: peer, role: Role::Device };
            match (hello, is_listed) {
                (Hello::Machine(hello), true) => listed(right, hello.code.as_ref(), windows, now),
                (Hello::Session(_), true) => Decision::Admit(right),
                (Hello::Machine(hello), false) => stranger(right, hello.code.as_ref(), windows, now),
                (Hello::Session(HelloSession { code, .. }), false)
                | (Hello::Host(HelloHost { code, .. }) | Hello::Home(HelloHome { code }), _) => {
                    // A code has no place here: it is neither spent nor counted.
                    refuse(if code.is_some() { CODE_REJECTED } else { NOT_LISTED })
                }
            }
        }
    }
}

/// A listed device with a right code is paired anew, which renews its name; with a wrong one it is only let in.
fn listed(right: Admitted, code: Option<&OfferedCode>, windows: &mut Windows, now: u64) -> Decision {
    match code.map(|code| windows.offer(code, Try::Free, now)) {
        Some(Offer::Right(window)) => Decision::Pair(right, window),
        Some(Offer::Wrong(_)) | None => Decision::Admit(right),
    }
}

fn stranger(right: Admitted, code: Option<&OfferedCode>, windows: &mut Windows, now: u64) -> Decision {
    match code.map(|code| windows.offer(code, Try::Counted, now)) {
        None => Decision::Refuse(NOT_LISTED, None),
        Some(Offer::Right(window)) => Decision::Pair(right, window),
        Some(Offer::Wrong(closed)) => Decision::Refuse(CODE_REJECTED, closed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use shared::channel::StaticKey;
    use shared::pairing::PairingCode;

    const SESSION: &str = "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb";

    fn hello(link: &str, code: Option<&str>) -> Hello {
        let mut fields = match link {
            "machine" => json!({"name": "d"}),
            "session" => json!({"name": "d", "session": SESSION, "since": 0}),
            "host" => json!({"session": SESSION}),
            _ => json!({}),
        };
        if let Some(code) = code {
            fields["code"] = json!(code);
        }
        serde_json::from_value(json!({ link: fields })).unwrap()
    }

    struct Table {
        machine: Fingerprint,
        device: Fingerprint,
        windows: Windows,
        code: String,
    }

    impl Table {
        fn new() -> Self {
            let key = || StaticKey::generate().unwrap().fingerprint();
            let code = PairingCode::random().unwrap();
            let mut windows = Windows::default();
            windows.open(code.clone(), 0);
            Self { machine: key(), device: key(), windows, code: code.expose().to_owned() }
        }

        fn decide(&mut self, via: Via, peer: Fingerprint, is_listed: bool, hello: &Hello) -> Decision {
            decide(Caller { via, peer, machine: self.machine, is_listed }, hello, &mut self.windows, 1)
        }
    }

    fn is_admitted(decision: &Decision) -> bool {
        matches!(decision, Decision::Admit(_))
    }

    #[test]
    fn on_the_socket_only_the_machine_key_opens_links_and_it_opens_all() {
        let mut table = Table::new();
        for link in ["machine", "session", "host", "home"] {
            let (machine, device) = (table.machine, table.device);
            let decision = table.decide(Via::Socket, machine, false, &hello(link, None));
            assert!(matches!(decision, Decision::Admit(right) if right.role() == Role::Machine), "{link}");
            for is_listed in [true, false] {
                let decision = table.decide(Via::Socket, device, is_listed, &hello(link, None));
                assert_eq!(decision, Decision::Refuse(NOT_LISTED, None), "{link}");
            }
        }
    }

    #[test]
    fn on_the_port_the_machine_key_is_refused_also_with_a_right_code() {
        let mut table = Table::new();
        let (machine, code) = (table.machine, table.code.clone());
        for link in ["machine", "session", "host", "home"] {
            let decision = table.decide(Via::Port, machine, true, &hello(link, Some(&code)));
            assert_eq!(decision, Decision::Refuse(NOT_LISTED, None), "{link}");
        }
    }

    #[test]
    fn a_listed_device_opens_machine_and_session_links_only() {
        let mut table = Table::new();
        let device = table.device;
        for (link, is_open) in [("machine", true), ("session", true), ("host", false), ("home", false)] {
            let decision = table.decide(Via::Port, device, true, &hello(link, None));
            assert_eq!(is_admitted(&decision), is_open, "{link}");
        }
        for _ in 0..9 {
            assert!(is_admitted(&table.decide(Via::Port, device, true, &hello("machine", Some("wrong")))));
        }
        let code = table.code.clone();
        let again = table.decide(Via::Port, device, true, &hello("machine", Some(&code)));
        assert!(matches!(again, Decision::Pair(..)), "a right code renews the name");
    }

    #[test]
    fn another_key_is_paired_by_the_right_code_on_a_machine_link_once() {
        let mut table = Table::new();
        let (device, code) = (table.device, table.code.clone());
        let refused = Decision::Refuse(CODE_REJECTED, None);
        for link in ["session", "host", "home"] {
            assert_eq!(table.decide(Via::Port, device, false, &hello(link, Some(&code))), refused, "{link}");
        }
        assert_eq!(table.decide(Via::Port, device, false, &hello("machine", Some(""))), refused);
        assert_eq!(table.decide(Via::Port, device, false, &hello("machine", Some("wrong"))), refused);
        let refused = Decision::Refuse(NOT_LISTED, None);
        for link in ["machine", "session", "host", "home"] {
            assert_eq!(table.decide(Via::Port, device, false, &hello(link, None)), refused, "{link}");
        }
        let paired = table.decide(Via::Port, device, false, &hello("machine", Some(&code)));
        assert!(matches!(paired, Decision::Pair(..)));
        let late = table.decide(Via::Port, device, false, &hello("machine", Some(&code)));
        assert_eq!(late, Decision::Refuse(CODE_REJECTED, None));
    }

    #[test]
    fn the_fifth_wrong_code_closes_the_window() {
        let mut table = Table::new();
        let device = table.device;
        let wrong = hello("machine", Some("aaaaaaaaaaaaaaaa"));
        for _ in 0..4 {
            let decision = table.decide(Via::Port, device, false, &wrong);
            assert_eq!(decision, Decision::Refuse(CODE_REJECTED, None));
        }
        let decision = table.decide(Via::Port, device, false, &wrong);
        assert!(matches!(decision, Decision::Refuse(CODE_REJECTED, Some((_, WindowClosed::TooManyTries)))));
    }
}
