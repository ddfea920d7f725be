//! A page in real Chromium, driven over the DevTools protocol as a person would use it; what the page complains about fails the test.

mod browser;
mod cdp;
mod keys;
mod person;
mod seen;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{programs, wait};
use browser::Browser;
use cdp::CommandError;
use seen::Seen;

pub use person::{ColorScheme, Network, Screen};

/// How often a condition is looked at: a page draws that often.
const LOOK_EVERY: Duration = Duration::from_millis(16);
/// Characters of a page that a failed wait shows.
const SHOWN: usize = 2000;

/// The selector of the element that has `data-test="name"`.
#[must_use]
pub fn marked(name: &str) -> String {
    format!("[data-test={}]", quoted(name))
}

/// One page (a tab) of a browser. What it complains about (errors, exceptions, violations of the Content-Security-Policy)
/// fails the test when the page is dropped, unless it was [tolerated](Self::tolerate).
pub struct Page {
    session: String,
    frame: String,
    seen: Arc<Mutex<Seen>>,
    tolerated: Mutex<Vec<String>>,
    // Last: the browser ends after everything else.
    browser: Arc<Browser>,
}

impl Page {
    /// An empty page in a browser with a new profile.
    pub async fn open() -> Self {
        Self::in_browser(Arc::new(Browser::start(Vec::new()))).await
    }

    /// An empty page in a browser that finds a [`FaultProxy`](crate::proxy::FaultProxy) where it looks for that port of 127.0.0.1. Its
    /// requests name the port all the same, as they would where the network between browser and machine is bad.
    pub async fn open_through(proxy: u16, port: u16) -> Self {
        let rule = format!("--host-resolver-rules=MAP 127.0.0.1:{port} 127.0.0.1:{proxy}");
        Self::in_browser(Arc::new(Browser::start(vec![rule]))).await
    }

    /// Another tab in the same browser.
    pub async fn another(&self) -> Self {
        Self::in_browser(Arc::clone(&self.browser)).await
    }

    /// Closes the browser, which has this one page, as a person does, and opens it again with the same profile.
    pub async fn restart_browser(self) -> Self {
        self.complain();
        let browser = Arc::clone(&self.browser);
        let tolerated = self.tolerated.lock().expect("no holder panics").clone();
        self.seen.lock().expect("no holder panics").faults.clear();
        drop(self);
        let browser = Arc::into_inner(browser).expect("the browser has no other page");
        let folder: Arc<TempDir> = browser.folder();
        let flags = browser.flags();
        browser.close().await;
        let page = Self::in_browser(Arc::new(Browser::with_folder(folder, flags))).await;
        page.tolerated.lock().expect("no holder panics").extend(tolerated);
        page
    }

    async fn in_browser(browser: Arc<Browser>) -> Self {
        let target = browser.command("Target.createTarget", json!({ "url": "about:blank" })).await;
        let target = &target["targetId"];
        let attached =
            browser.command("Target.attachToTarget", json!({ "targetId": target, "flatten": true })).await;
        let session = attached["sessionId"].as_str().expect("a session").to_owned();
        // The main frame of a page has its target's id.
        let frame = target.as_str().expect("a target").to_owned();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (events, main) = (Arc::clone(&seen), frame.clone());
        let take = move |method: &str, event: &Value| {
            events.lock().expect("no holder panics").take(&main, method, event);
        };
        browser.cdp.listen(&session, Box::new(take));
        let page = Self { session, frame, seen, tolerated: Mutex::default(), browser };
        for domain in ["Page", "Runtime", "Log", "Network", "Audits", "Inspector"] {
            page.command(&format!("{domain}.enable"), json!({})).await;
        }
        page.command("Page.setLifecycleEventsEnabled", json!({ "enabled": true })).await;
        // A page in a test is always looked at, also when another one is in front of it.
        page.command("Emulation.setFocusEmulationEnabled", json!({ "enabled": true })).await;
        page
    }

    /// Accepts complaints that hold this text.
    pub fn tolerate(&self, text: &str) {
        self.tolerated.lock().expect("no holder panics").push(text.to_owned());
    }

    /// Everything that the page said, in order: console, errors, warnings of the browser.
    pub fn said(&self) -> Vec<String> {
        self.seen.lock().expect("no holder panics").lines.clone()
    }

    /// The addresses that the page asked the network for, in order; those of sockets are not among them.
    pub fn requests(&self) -> Vec<String> {
        self.seen.lock().expect("no holder panics").requests.clone()
    }

    /// What the page complains about and nobody tolerates.
    pub fn faults(&self) -> Vec<String> {
        let tolerated = self.tolerated.lock().expect("no holder panics");
        let is_fault = |fault: &&String| !tolerated.iter().any(|text| fault.contains(text.as_str()));
        self.seen.lock().expect("no holder panics").faults.iter().filter(is_fault).cloned().collect()
    }

    /// Fails the test if the page complains; dropping the page does this too.
    ///
    /// # Panics
    /// With the complaints.
    pub fn complain(&self) {
        let faults = self.faults();
        assert!(
            faults.is_empty(),
            "the page complains:\n{}\nit said:\n{}",
            faults.join("\n"),
            self.said().join("\n")
        );
    }

    /// Runs a command of the DevTools protocol that has no method here.
    ///
    /// # Panics
    /// When the browser refuses it.
    pub async fn command(&self, method: &str, parameters: Value) -> Value {
        match self.try_command(method, parameters).await {
            Ok(answer) => answer,
            Err(error) => panic!("the page did not do {method}: {error:?}"),
        }
    }

    async fn try_command(&self, method: &str, parameters: Value) -> Result<Value, CommandError> {
        self.browser.cdp.command(Some(&self.session), method, parameters).await
    }

    /// The folder of the browser's profile; it goes with the browser, and every process of the browser names it.
    pub fn profile(&self) -> PathBuf {
        self.browser.profile()
    }

    // --- Where the page is

    /// Goes to an address and waits until the document has loaded; a change of the fragment alone loads nothing.
    ///
    /// # Panics
    /// When the browser cannot go there.
    pub async fn goto(&self, url: &str) {
        if let Err(error) = self.try_goto(url).await {
            panic!("cannot go to {url}: {error}");
        }
    }

    /// As [`Self::goto`].
    ///
    /// # Errors
    /// The browser's word, for example `net::ERR_CONNECTION_REFUSED`.
    pub async fn try_goto(&self, url: &str) -> Result<(), String> {
        let answer = self.command("Page.navigate", json!({ "url": url })).await;
        if let Some(error) = answer["errorText"].as_str() {
            return Err(error.to_owned());
        }
        if let Some(document) = answer["loaderId"].as_str() {
            self.until(&format!("{url} to load"), async || {
                self.seen.lock().expect("no holder panics").loaded.contains(document).then_some(())
            })
            .await;
        }
        Ok(())
    }

    /// Reloads and waits until the document has loaded again.
    pub async fn reload(&self) {
        let before = self.loads();
        self.command("Page.reload", json!({})).await;
        self.until("the page to load again", async || (self.loads() > before).then_some(())).await;
    }

    fn loads(&self) -> usize {
        self.seen.lock().expect("no holder panics").loads
    }

    /// The address in the address bar.
    pub async fn url(&self) -> String {
        self.eval_as("location.href").await
    }

    /// The addresses that going back and forth can reach.
    pub async fn history(&self) -> Vec<String> {
        let history = self.command("Page.getNavigationHistory", json!({})).await;
        let entries = history["entries"].as_array().into_iter().flatten();
        entries.filter_map(|entry| entry["url"].as_str().map(str::to_owned)).collect()
    }

    // --- What the page shows

    /// Evaluates JavaScript, awaits it if it is a promise, and gives its value.
    ///
    /// # Panics
    /// When it throws.
    pub async fn eval(&self, script: &str) -> Value {
        match self.try_eval(script).await {
            Ok(value) => value,
            Err(error) => panic!("{script}\nthrew {error}"),
        }
    }

    /// As [`Self::eval`], as a type.
    ///
    /// # Panics
    /// When it throws or gives something else.
    pub async fn eval_as<T: DeserializeOwned>(&self, script: &str) -> T {
        let value = self.eval(script).await;
        serde_json::from_value(value).unwrap_or_else(|error| panic!("{script}\ngave something else: {error}"))
    }

    async fn try_eval(&self, script: &str) -> Result<Value, String> {
        let parameters = json!({
            "expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let mut answer =
            self.try_command("Runtime.evaluate", parameters).await.map_err(|error| format!("{error:?}"))?;
        match answer.get("exceptionDetails") {
            Some(details) => {
                Err(details["exception"]["description"].as_str().unwrap_or("an exception").to_owned())
            }
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Waits until a script gives something that is neither `null`, `undefined`, `false` nor an exception, and gives it.
    ///
    /// # Panics
    /// When it does not within [`wait::LIMIT`]; the message names `what` and shows the page.
    pub async fn wait_for_script(&self, what: &str, script: &str) -> Value {
        self.until(what, async || {
            let value = self.try_eval(script).await.ok()?;
            (!value.is_null() && value != false).then_some(value)
        })
        .await
    }

    /// Waits until an element fits the selector and can be seen.
    pub async fn wait_for(&self, selector: &str) {
        let script = format!("{}?.checkVisibility({{ visibilityProperty: true }})", first(selector));
        self.wait_for_script(&format!("an element {selector}"), &script).await;
    }

    /// Waits until no element that fits the selector can be seen.
    pub async fn wait_until_gone(&self, selector: &str) {
        let script = format!("!({}?.checkVisibility({{ visibilityProperty: true }}))", first(selector));
        self.wait_for_script(&format!("no element {selector}"), &script).await;
    }

    /// Waits until an element that fits the selector shows this text, among other text perhaps.
    pub async fn wait_for_text(&self, selector: &str, text: &str) {
        let script = format!(
            "Array.from(document.querySelectorAll({})).some((element) => element.innerText.includes({}))",
            quoted(selector),
            quoted(text)
        );
        self.wait_for_script(&format!("the text {text:?} in {selector}"), &script).await;
    }

    /// Waits until an element that fits the selector has an attribute with this value.
    pub async fn wait_for_attribute(&self, selector: &str, name: &str, value: &str) {
        let script = format!(
            "Array.from(document.querySelectorAll({})).some((element) => element.getAttribute({}) === {})",
            quoted(selector),
            quoted(name),
            quoted(value)
        );
        self.wait_for_script(&format!("{name}={value:?} on {selector}"), &script).await;
    }

    /// What the first element shows.
    ///
    /// # Panics
    /// When there is none.
    pub async fn text(&self, selector: &str) -> String {
        self.eval_as(&format!("{}.innerText", first(selector))).await
    }

    /// What each element shows.
    pub async fn texts(&self, selector: &str) -> Vec<String> {
        let script = format!(
            "Array.from(document.querySelectorAll({}), (element) => element.innerText)",
            quoted(selector)
        );
        self.eval_as(&script).await
    }

    /// An attribute of the first element.
    ///
    /// # Panics
    /// When there is no such element.
    pub async fn attribute(&self, selector: &str, name: &str) -> Option<String> {
        self.eval_as(&format!("{}.getAttribute({})", first(selector), quoted(name))).await
    }

    /// The value of the first field.
    ///
    /// # Panics
    /// When there is none.
    pub async fn value(&self, selector: &str) -> String {
        self.eval_as(&format!("{}.value", first(selector))).await
    }

    /// How many elements fit the selector.
    pub async fn count(&self, selector: &str) -> usize {
        self.eval_as(&format!("document.querySelectorAll({}).length", quoted(selector))).await
    }

    /// Writes what is seen into a PNG file.
    ///
    /// # Panics
    /// When it cannot be written.
    pub async fn screenshot(&self, path: &Path) {
        if let Err(error) = self.try_screenshot(path).await {
            panic!("{}: {error}", path.display());
        }
    }

    async fn try_screenshot(&self, path: &Path) -> Result<(), String> {
        let answer = self.try_command("Page.captureScreenshot", json!({ "format": "png" })).await;
        let answer = answer.map_err(|error| format!("{error:?}"))?;
        let data = answer["data"].as_str().unwrap_or_default();
        let bytes = data_encoding::BASE64.decode(data.as_bytes()).map_err(|error| error.to_string())?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        std::fs::write(path, bytes).map_err(|error| error.to_string())
    }

    /// What assistive technology is told, one element a line: `role "name"`, indented by depth.
    pub async fn accessibility(&self) -> String {
        let tree = self.command("Accessibility.getFullAXTree", json!({})).await;
        let nodes = tree["nodes"].as_array().cloned().unwrap_or_default();
        let mut outline = String::new();
        let mut open: Vec<(&Value, usize)> = nodes.first().map(|root| (root, 0)).into_iter().collect();
        while let Some((node, depth)) = open.pop() {
            let role = node["role"]["value"].as_str().unwrap_or_default();
            let is_shown = node["ignored"] != true && !matches!(role, "InlineTextBox" | "none" | "generic");
            if is_shown {
                let name = node["name"]["value"].as_str().unwrap_or_default();
                outline.push_str(&format!("{}{role} {name:?}\n", "  ".repeat(depth)));
            }
            let children = node["childIds"].as_array().into_iter().flatten().rev();
            let below = depth + usize::from(is_shown);
            open.extend(
                children
                    .filter_map(|id| nodes.iter().find(|node| node["nodeId"] == *id))
                    .map(|node| (node, below)),
            );
        }
        outline
    }

    /// Why Chromium would not install the page as an app; empty if it would.
    pub async fn installability_errors(&self) -> Vec<String> {
        let answer = self.command("Page.getInstallabilityErrors", json!({})).await;
        let errors = answer["installabilityErrors"].as_array().into_iter().flatten();
        errors.filter_map(|error| error["errorId"].as_str().map(str::to_owned)).collect()
    }

    /// All that the origin keeps in the browser: `local`, `session`, `cookies`, `databases` (name → store → `key` and `value`) and
    /// `caches`. A `CryptoKey` says what it is, bytes are hexadecimal under `bytes`.
    pub async fn storage(&self) -> Value {
        self.eval(include_str!("page/storage.js")).await
    }

    async fn until<T>(&self, what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = condition().await {
                return found;
            }
            if began.elapsed() > wait::LIMIT {
                let text = self.try_eval("`${location.href}\n${document.body.innerText}`").await;
                let text: String = text
                    .ok()
                    .as_ref()
                    .and_then(Value::as_str)
                    .unwrap_or("nothing")
                    .chars()
                    .take(SHOWN)
                    .collect();
                let name = std::thread::current().name().unwrap_or("page").replace("::", "-");
                let picture = programs::workspace().join("target/page-failures").join(format!("{name}.png"));
                let picture = match self.try_screenshot(&picture).await {
                    Ok(()) => picture.display().to_string(),
                    Err(error) => error,
                };
                panic!("waited in vain for {what}; picture: {picture}; the page shows: {text}");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "the runner shows it beside the failure")]
            {
                eprintln!("page {} said:\n{}", self.frame, self.said().join("\n"));
            }
        } else {
            self.complain();
        }
    }
}

/// JavaScript for the first element that fits a selector.
fn first(selector: &str) -> String {
    format!("document.querySelector({})", quoted(selector))
}

/// A text as a literal of JavaScript, which fits CSS too.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
