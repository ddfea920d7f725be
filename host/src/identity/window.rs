//! The pairing window as a pure machine: one code at a time, short-lived, single-use, dead after five wrong tries (wire §9).

use shared::limits;
use shared::pairing::{OfferedCode, PairingCode};

/// Names one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowId(u64);

/// Why a window closed without a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowClosed {
    /// A newer one replaced it.
    Replaced,
    /// Its time was over.
    Expired,
    /// Five wrong codes.
    TooManyTries,
}

/// What became of a code that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// It was right; the window is spent and closed.
    Right(WindowId),
    /// It was wrong, late, or no window is open; with the window that closes by it.
    Wrong(Option<(WindowId, WindowClosed)>),
}

/// How a wrong code counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Try {
    /// An unlisted device tries to pair.
    Counted,
    /// A listed device, or a link on which nobody pairs: neither counts nor spends when it is wrong.
    Free,
}

/// The one pairing window of the machine.
#[derive(Debug, Default)]
pub struct Windows {
    last: u64,
    open: Option<Window>,
}

#[derive(Debug)]
struct Window {
    id: WindowId,
    code: PairingCode,
    expires: u64,
    wrong: u32,
}

impl Windows {
    /// Opens a window with that code at `now` (steady milliseconds); gives its id and the window that it replaces.
    pub fn open(&mut self, code: PairingCode, now: u64) -> (WindowId, Option<(WindowId, WindowClosed)>) {
        let closed =
            self.expire(now).or_else(|| self.open.take().map(|window| (window.id, WindowClosed::Replaced)));
        self.last += 1;
        let id = WindowId(self.last);
        let expires = now.saturating_add(limits::WINDOW_MILLISECONDS);
        self.open = Some(Window { id, code, expires, wrong: 0 });
        (id, closed)
    }

    /// A device offers a code at `now`. The first right one closes the window.
    pub fn offer(&mut self, code: &OfferedCode, counts: Try, now: u64) -> Offer {
        if let Some(expired) = self.expire(now) {
            return Offer::Wrong(Some(expired));
        }
        let Some(window) = &mut self.open else { return Offer::Wrong(None) };
        let id = window.id;
        if window.code.matches(code.expose()) {
            self.open = None;
            return Offer::Right(id);
        }
        if counts == Try::Counted && !code.expose().is_empty() {
            window.wrong += 1;
            if window.wrong >= limits::WRONG_CODES {
                self.open = None;
                return Offer::Wrong(Some((id, WindowClosed::TooManyTries)));
            }
        }
        Offer::Wrong(None)
    }

    /// The asker of a window is gone or has its answer.
    pub fn close(&mut self, id: WindowId) {
        if self.open.as_ref().is_some_and(|window| window.id == id) {
            self.open = None;
        }
    }

    /// Closes the window whose time is over at `now`.
    pub fn expire(&mut self, now: u64) -> Option<(WindowId, WindowClosed)> {
        let window = self.open.take_if(|window| now >= window.expires)?;
        Some((window.id, WindowClosed::Expired))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(text: &str) -> OfferedCode {
        serde_json::from_value(text.into()).unwrap()
    }

    fn opened(now: u64) -> (Windows, WindowId, OfferedCode) {
        let code = PairingCode::random().unwrap();
        let mut windows = Windows::default();
        let (id, closed) = windows.open(code.clone(), now);
        assert_eq!(closed, None);
        (windows, id, OfferedCode::from(&code))
    }

    #[test]
    fn a_code_is_used_once() {
        let (mut windows, id, code) = opened(0);
        assert_eq!(windows.offer(&code, Try::Counted, 1), Offer::Right(id));
        assert_eq!(windows.offer(&code, Try::Counted, 2), Offer::Wrong(None));
    }

    #[test]
    fn a_code_dies_with_its_time() {
        let (mut windows, id, code) = opened(10);
        let end = 10 + limits::WINDOW_MILLISECONDS;
        assert_eq!(windows.expire(end - 1), None);
        assert_eq!(windows.offer(&code, Try::Counted, end), Offer::Wrong(Some((id, WindowClosed::Expired))));
        assert_eq!(windows.offer(&code, Try::Counted, end), Offer::Wrong(None));
    }

    #[test]
    fn five_wrong_codes_close_it_and_four_do_not() {
        let (mut windows, id, code) = opened(0);
        for _ in 0..4 {
            assert_eq!(windows.offer(&offered("aaaaaaaaaaaaaaaaaaaa"), Try::Counted, 0), Offer::Wrong(None));
        }
        for _ in 0..10 {
            assert_eq!(windows.offer(&offered(""), Try::Counted, 0), Offer::Wrong(None));
            assert_eq!(windows.offer(&offered("wrong"), Try::Free, 0), Offer::Wrong(None));
        }
        assert_eq!(
            windows.offer(&offered("x"), Try::Counted, 0),
            Offer::Wrong(Some((id, WindowClosed::TooManyTries)))
        );
        assert_eq!(windows.offer(&code, Try::Counted, 0), Offer::Wrong(None));
    }

    #[test]
    fn a_newer_window_replaces_the_older_and_its_code() {
        let (mut windows, first, code) = opened(0);
        let (second, closed) = windows.open(PairingCode::random().unwrap(), 1);
        assert_eq!(closed, Some((first, WindowClosed::Replaced)));
        assert_eq!(windows.offer(&code, Try::Counted, 2), Offer::Wrong(None));
        windows.close(first);
        assert!(windows.expire(1 + limits::WINDOW_MILLISECONDS).is_some_and(|(id, _)| id == second));
    }
}
