//! What the person at the page does and has: mouse, finger, keyboard, input method, screen, network.

use std::time::Duration;

use serde_json::json;

use super::keys::Key;
use super::{Page, first};

/// How the page reaches the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// As fast as the machine.
    Online,
    /// Not at all.
    Offline,
    /// As a bad phone network: the time to wait, and bytes a second in each direction.
    Slow(Duration, u32),
}

/// What the person prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorScheme {
    /// Dark text on light ground.
    Light,
    /// Light text on dark ground.
    Dark,
}

/// What holds the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Screen {
    /// A window of that width and height, used with a mouse.
    Desktop(u32, u32),
    /// A phone of that width and height, used with a finger.
    Phone(u32, u32),
}

impl Page {
    /// Clicks the middle of the first element once it is there and nothing covers it.
    pub async fn click(&self, selector: &str) {
        let (x, y) = self.middle(selector).await;
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1 });
            self.command("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Taps it with a finger.
    pub async fn tap(&self, selector: &str) {
        let (x, y) = self.middle(selector).await;
        let touch = json!({ "type": "touchStart", "touchPoints": [{ "x": x, "y": y }] });
        self.command("Input.dispatchTouchEvent", touch).await;
        self.command("Input.dispatchTouchEvent", json!({ "type": "touchEnd", "touchPoints": [] })).await;
    }

    /// The middle of the first element, scrolled into view, when a click there reaches it.
    async fn middle(&self, selector: &str) -> (f64, f64) {
        let script = format!(
            "(() => {{
                const element = {};
                element.scrollIntoView({{ block: 'center', inline: 'center', behavior: 'instant' }});
                const box = element.getBoundingClientRect();
                const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
                const hit = document.elementFromPoint(x, y);
                return element.contains(hit) && !element.disabled ? [x, y] : null;
            }})()",
            first(selector)
        );
        let middle = self.wait_for_script(&format!("{selector} to be clickable"), &script).await;
        serde_json::from_value(middle).expect("two numbers")
    }

    /// Presses a key: `Enter`, `Shift+Enter`, `Tab`, `Escape`, `ArrowDown`, `Control+a`, …
    pub async fn press(&self, key: &str) {
        self.stroke(&Key::named(key)).await;
    }

    /// Types a text key by key where the focus is.
    pub async fn type_text(&self, text: &str) {
        for character in text.chars() {
            self.stroke(&Key::character(character)).await;
        }
    }

    async fn stroke(&self, key: &Key) {
        self.command("Input.dispatchKeyEvent", key.down()).await;
        self.command("Input.dispatchKeyEvent", key.up()).await;
    }

    /// Shows a text that an input method composes and that is not decided yet.
    pub async fn compose(&self, text: &str) {
        let end = text.encode_utf16().count();
        let composition = json!({ "text": text, "selectionStart": end, "selectionEnd": end });
        self.command("Input.imeSetComposition", composition).await;
    }

    /// Confirms the composition with Enter as Chromium and Firefox do: the key comes while the page is composing.
    pub async fn confirm_composition(&self, text: &str) {
        let enter = Key::named("Enter").handled_by_input_method();
        self.command("Input.dispatchKeyEvent", enter.down()).await;
        self.command("Input.insertText", json!({ "text": text })).await;
        self.command("Input.dispatchKeyEvent", Key::named("Enter").up()).await;
    }

    /// Confirms the composition with Enter as Safari does: the composition has ended when the key comes, with code 229.
    pub async fn confirm_composition_like_safari(&self, text: &str) {
        self.command("Input.insertText", json!({ "text": text })).await;
        let enter = Key::named("Enter").handled_by_input_method();
        self.command("Input.dispatchKeyEvent", enter.down()).await;
        self.command("Input.dispatchKeyEvent", Key::named("Enter").up()).await;
    }

    /// Changes the page's network and tells the page. As on a phone, a WebSocket that is open is not told: cut it with
    /// `FaultProxy`. A service worker has a network of its own.
    pub async fn network(&self, network: Network) {
        let (is_offline, latency, throughput) = match network {
            Network::Online => (false, 0, -1),
            Network::Offline => (true, 0, 0),
            Network::Slow(latency, bytes) => (false, latency.as_millis(), i64::from(bytes)),
        };
        let conditions = json!({
            "offline": is_offline, "latency": latency, "downloadThroughput": throughput, "uploadThroughput": throughput,
        });
        self.command("Network.emulateNetworkConditions", conditions).await;
    }

    /// Changes the size of the page, and whether it is touched.
    pub async fn screen(&self, screen: Screen) {
        let (width, height, is_phone) = match screen {
            Screen::Desktop(width, height) => (width, height, false),
            Screen::Phone(width, height) => (width, height, true),
        };
        let scale = if is_phone { 2 } else { 1 };
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone });
        self.command("Emulation.setDeviceMetricsOverride", metrics).await;
        self.command("Emulation.setTouchEmulationEnabled", json!({ "enabled": is_phone })).await;
    }

    /// Changes `prefers-color-scheme`.
    pub async fn prefer(&self, scheme: ColorScheme) {
        let value = match scheme {
            ColorScheme::Light => "light",
            ColorScheme::Dark => "dark",
        };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
        self.command("Emulation.setEmulatedMedia", features).await;
    }

    /// Freezes the page as a phone does with an app in the background.
    pub async fn freeze(&self) {
        self.command("Page.setWebLifecycleState", json!({ "state": "frozen" })).await;
    }

    /// Brings a frozen page back.
    pub async fn thaw(&self) {
        self.command("Page.setWebLifecycleState", json!({ "state": "active" })).await;
    }
}
