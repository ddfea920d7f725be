//! HTTP as model services need it: one POST, an answer that may stream, bounds on all of it, and faults told apart.

use std::collections::BTreeMap;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;

use super::{Fault, ModelError};
use crate::engine::config::ProviderConfig;
use crate::text;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(15);
/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(30);
/// Bytes of the body of an error that are read: its sentence is near the beginning.
const ERROR_BYTES: usize = 64 * 1024;
/// Bytes of a whole answer that is no stream.
pub(super) const ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a body that are shown.
const EXCERPT_BYTES: usize = 4 * 1024;
/// The longest hint that is believed: a day.
const HINT_MAX: Duration = Duration::from_secs(24 * 3600);

/// A service, with all that each of its requests carries.
#[derive(Clone)]
pub(super) struct Service {
    wire: Wire,
    kind: &'static str,
    base_url: String,
    headers: HeaderMap,
    silence: Duration,
}

/// Why a service cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(in crate::engine) struct ServiceError(String);

/// A body that streams.
pub(super) struct Body {
    incoming: Incoming,
    silence: Duration,
}

impl Service {
    /// The service of a section of the settings. Keys are read from the environment by `lookup`.
    pub(super) fn new(
        section: &ProviderConfig,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ServiceError> {
        let mut headers = HeaderMap::new();
        let plain = |name: &String, value: &String| {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_str(value);
            name.ok().zip(value.ok()).ok_or_else(|| ServiceError("a header cannot be sent".to_owned()))
        };
        for (name, value) in &section.headers {
            let (name, value) = plain(name, value)?;
            headers.insert(name, value);
        }
        let secret = |variable: &str, before: &str| {
            let Some(value) = lookup(variable).filter(|value| !value.is_empty()) else {
                return Err(ServiceError(format!("the environment variable {variable} is not set")));
            };
            let mut value = HeaderValue::from_str(&format!("{before}{}", value.trim())).map_err(|_| {
                ServiceError(format!("the environment variable {variable} holds what no header can"))
            })?;
            value.set_sensitive(true);
            Ok(value)
        };
        for (name, variable) in &section.headers_env {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| ServiceError("a header cannot be sent".to_owned()))?;
            headers.insert(name, secret(variable, "")?);
        }
        if let Some(variable) = &section.api_key_env {
            headers.insert("authorization", secret(variable, "Bearer ")?);
        }
        Ok(Self {
            wire: Wire::to(&section.base_url)?,
            kind: section.kind.word(),
            base_url: section.base_url.clone(),
            headers,
            silence: section.timeout,
        })
    }

    /// The word of its type.
    pub(super) fn kind(&self) -> &'static str {
        self.kind
    }

    /// A fault of this service.
    pub(super) fn fault(&self, fault: Fault, message: impl Into<String>) -> ModelError {
        ModelError { provider: self.kind, fault, status: None, message: message.into(), retry_after: None }
    }

    /// POSTs JSON and gives the answer once its head is there and says that it is no error.
    pub(super) async fn post(
        &self,
        path: &str,
        more: &BTreeMap<&'static str, &'static str>,
        body: &Value,
    ) -> Result<(HeaderMap, Body), ModelError> {
        let body = Bytes::from(body.to_string());
        self.send(Method::POST, path, more, body).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        more: &BTreeMap<&'static str, &'static str>,
        body: Bytes,
    ) -> Result<(HeaderMap, Body), ModelError> {
        let mut is_again = false;
        let response = loop {
            let request = self.request(&method, path, more, body.clone())?;
            match tokio::time::timeout(self.silence, self.wire.request(request)).await {
                Ok(Ok(response)) => break response,
                // Nothing was sent, so nothing can happen twice.
                Ok(Err(error)) if error.is_connect() && !is_again => is_again = true,
                Ok(Err(error)) => return Err(self.fault(Fault::Network, self.unreached(&error))),
                Err(_) => return Err(self.fault(Fault::Network, self.silent())),
            }
        };
        let status = response.status();
        let headers = response.headers().clone();
        if status.is_redirection() {
            let mut fault = self.fault(
                Fault::of_status(status.as_u16()),
                "the service redirects elsewhere; put the address it redirects to into base_url",
            );
            fault.status = Some(status.as_u16());
            return Err(fault);
        }
        if status.is_success() {
            return Ok((headers, self.body(response)));
        }
        let body = self.body(response).beginning(ERROR_BYTES).await;
        Err(self.refused(status, &headers, &body))
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        more: &BTreeMap<&'static str, &'static str>,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ModelError> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base_url));
        if let Some(headers) = request.headers_mut() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers
                .insert("user-agent", HeaderValue::from_static(concat!("aura/", env!("CARGO_PKG_VERSION"))));
            for (name, value) in more {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            for (name, value) in &self.headers {
                headers.insert(name.clone(), value.clone());
            }
        }
        request.body(Full::new(body)).map_err(|error| self.fault(Fault::Internal, error.to_string()))
    }

    fn body(&self, response: Response<Incoming>) -> Body {
        Body { incoming: response.into_body(), silence: self.silence }
    }

    fn unreached(&self, error: &hyper_util::client::legacy::Error) -> String {
        // The sources say what happened, the error itself only where.
        let mut why = String::new();
        let mut source: Option<&dyn std::error::Error> = std::error::Error::source(error);
        while let Some(error) = source {
            why = error.to_string();
            source = error.source();
        }
        format!("{} cannot be reached: {}", self.base_url, text::one_line(&why, 300))
    }

    fn silent(&self) -> String {
        format!("{} said nothing for {} seconds", self.base_url, self.silence.as_secs())
    }

    /// An error with a status.
    fn refused(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ModelError {
        let mut fault = Fault::of_status(status.as_u16());
        let json: Option<Value> = serde_json::from_slice(body).ok();
        let message = match json.as_ref().and_then(said_in) {
            Some(said) => text::strip_controls(text::cut(said, EXCERPT_BYTES)).into_owned(),
            None => match excerpt(body) {
                said if said.is_empty() => {
                    status.canonical_reason().unwrap_or("an error without a word").to_owned()
                }
                said => said,
            },
        };
        if let Some(json) = &json {
            fault = refined(fault, json, self.kind);
        }
        ModelError {
            provider: self.kind,
            fault,
            status: Some(status.as_u16()),
            message,
            retry_after: hint(headers),
        }
    }

    /// A 200 that is nothing that a model says: shown as it is, and taken for nothing else.
    pub(super) fn unexpected(&self, body: &[u8]) -> ModelError {
        let mut fault =
            self.fault(Fault::Internal, format!("an answer that no model gives: {}", excerpt(body)));
        fault.status = Some(200);
        fault
    }

    /// An error in the middle of a stream, or in a body with status 200.
    pub(super) fn told(&self, json: &Value) -> ModelError {
        let error = json.get("error").unwrap_or(json);
        let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let by_status = code.filter(|code| (400..600).contains(code)).map(Fault::of_status);
        let fault = refined(by_status.unwrap_or(Fault::Server), json, self.kind);
        let said = said_in(json).unwrap_or("the service broke off with an error");
        let message = text::strip_controls(text::cut(said, EXCERPT_BYTES)).into_owned();
        ModelError { provider: self.kind, fault, status: code, message, retry_after: None }
    }
}

impl Body {
    /// The next bytes; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            match tokio::time::timeout(self.silence, self.incoming.frame()).await {
                Err(_) => {
                    return Err(format!("the answer stopped for {} seconds", self.silence.as_secs()));
                }
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => {
                    return Err("the connection broke in the middle of an answer".to_owned());
                }
                Ok(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// Its beginning, as far as it comes.
    pub(super) async fn beginning(mut self, limit: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while let Ok(Some(bytes)) = self.next().await {
            let room = limit.saturating_sub(all.len());
            all.extend_from_slice(bytes.get(..room).unwrap_or(&bytes));
            if all.len() >= limit {
                break;
            }
        }
        all
    }
}

/// The way to a service: one without TLS needs no certificates, and a machine may have none.
#[derive(Clone)]
enum Wire {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl Wire {
    fn to(base_url: &str) -> Result<Self, ServiceError> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_nodelay(true);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        if !base_url.starts_with("https:") {
            return Ok(Self::Plain(builder.build(tcp)));
        }
        tcp.enforce_http(false);
        let tls = hyper_rustls::HttpsConnectorBuilder::new().with_native_roots().map_err(|error| {
            ServiceError(format!(
                "the certificates of this system cannot be read ({error}): install ca-certificates"
            ))
        })?;
        Ok(Self::Tls(builder.build(tls.https_only().enable_http1().wrap_connector(tcp))))
    }

    fn request(&self, request: Request<Full<Bytes>>) -> ResponseFuture {
        match self {
            Self::Plain(client) => client.request(request),
            Self::Tls(client) => client.request(request),
        }
    }
}

/// What an error in JSON says: `error.message`, `error` or `message`.
fn said_in(json: &Value) -> Option<&str> {
    let error = json.get("error");
    error
        .and_then(|error| error.get("message"))
        .or(error)
        .and_then(Value::as_str)
        .or_else(|| json.get("message").and_then(Value::as_str))
        .filter(|said| !said.is_empty())
}

/// The fault behind an error whose JSON says more than its status.
fn refined(fault: Fault, json: &Value, kind: &str) -> Fault {
    let error = json.get("error").unwrap_or(json);
    let word = |field: &str| error.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind_word, code) = (word("type"), word("code"));
    if kind_word == "exceed_context_size_error" {
        return Fault::ContextExhausted;
    }
    // A local server classifies by its status alone.
    if matches!(kind, "llamacpp" | "llamaswap") {
        return fault;
    }
    let message = word("message");
    match (kind_word, code) {
        (_, "context_length_exceeded") | ("request_too_large", _) => Fault::ContextExhausted,
        (_, "insufficient_quota") | ("insufficient_quota" | "billing_error", _) => Fault::Credit,
        (_, "content_filter" | "content_policy_violation") => Fault::ContentFilter,
        (_, "model_not_found") | ("not_found_error", _) => Fault::ModelUnavailable,
        ("authentication_error" | "permission_error", _) => Fault::Auth,
        ("rate_limit_error", _) | (_, "rate_limit_exceeded") => Fault::RateLimit,
        ("overloaded_error" | "api_error" | "timeout_error", _) => Fault::Server,
        ("invalid_request_error", _) if message.starts_with("prompt is too long") => Fault::ContextExhausted,
        ("invalid_request_error", _) if message.contains("credit balance is too low") => Fault::Credit,
        _ => fault,
    }
}

/// The beginning of a body as one piece of clean text.
fn excerpt(body: &[u8]) -> String {
    let said = String::from_utf8_lossy(body);
    text::strip_controls(text::cut(said.trim(), EXCERPT_BYTES)).into_owned()
}

/// When it may be tried again: milliseconds, seconds, or a date.
fn hint(headers: &HeaderMap) -> Option<Duration> {
    let word = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    let after = match word("retry-after-ms").and_then(number) {
        Some(milliseconds) => Duration::try_from_secs_f64(milliseconds / 1000.0).ok(),
        None => {
            let text = word(RETRY_AFTER.as_str())?;
            match number(text) {
                Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
                None => {
                    let format = &time::format_description::well_known::Rfc2822;
                    let date = time::OffsetDateTime::parse(&text.replace("GMT", "+0000"), format).ok()?;
                    let ahead =
                        date.unix_timestamp().saturating_mul(1000) - crate::clock::now().milliseconds();
                    Some(Duration::from_millis(u64::try_from(ahead).unwrap_or_default()))
                }
            }
        }
    };
    after.map(|after| after.min(HINT_MAX))
}
