//! The HTTP interface of a server, `/v1` ("HTTP API"): the token comes first, then the route, then strict reading, then the core.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::Serialize;
use shared::time::Timestamp;

use super::core::{Handle, Overview};
use super::error::{AutomationError, Code, Details};
use super::event::{Status, StopReason};
use super::journal::Recorded;
use super::ready::Whereabouts;
use super::run::RunId;
use super::shown::Shown;
use super::store::{Store, StoredId, Summary};
use super::token::Token;

mod door;
mod input;
mod openapi;
mod stream;

pub use door::serve;
use input::Query;
pub use openapi::document;

/// Bytes of a request's body at most.
const BODY_BYTES: usize = 2 * 1024 * 1024;
/// Events of one answer where nothing is asked for.
const EVENTS: u64 = 500;
/// Events of one answer at most.
const EVENTS_MOST: u64 = 5000;
/// Seconds that a request may wait for an event.
const WAIT_MOST: u64 = 60;
/// The header that tells the answer to a repeated request.
const REPLAY: HeaderName = HeaderName::from_static("idempotent-replay");

/// What every request is answered from.
pub struct Station {
    /// The core.
    pub handle: Handle,
    /// The token.
    pub token: Token,
    /// The store of the session.
    pub store: Store,
    /// The session.
    pub session: StoredId,
    /// Where the server is.
    pub whereabouts: Whereabouts,
    /// When it started.
    pub started_at: Timestamp,
}

/// The answer of `GET /v1/server`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ServerInfo {
    /// What the ready file holds.
    #[serde(flatten)]
    pub whereabouts: Whereabouts,
    /// When it started.
    pub started_at: Timestamp,
    /// Whether it takes no more runs.
    pub stopping: bool,
    /// The last event that can be read.
    pub last_seq: u64,
    /// The run that has not settled.
    pub active_run: Option<RunId>,
}

/// The answer of `GET /v1/session`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SessionInfo {
    /// The session as it is stored.
    #[serde(flatten)]
    pub summary: Summary,
    /// The event that told of the last save.
    pub persisted_seq: u64,
    /// How the session is set.
    pub meta: Meta,
    /// How it works.
    pub status: Status,
}

/// How a session is set.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Meta {
    /// The agent of the configuration.
    pub agent: Option<String>,
    /// The mode.
    pub mode: Option<String>,
    /// The provider.
    pub provider: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The title.
    pub title: String,
}

/// The answer of `GET /v1/session/messages`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Messages {
    /// Those after the asked-for one, in order.
    pub messages: Vec<Shown>,
    /// How many there are.
    pub total: u64,
}

/// The answer of `GET /v1/journal`.
#[derive(Debug, Clone, Serialize)]
pub struct Events {
    /// In order.
    pub events: Vec<Recorded>,
    /// The last event that can be read.
    pub last_seq: u64,
}

#[derive(Serialize)]
struct Failed {
    error: AutomationError,
}

/// An answer with nothing in it.
#[derive(Serialize)]
struct Nothing {}

/// A refused request.
struct Refused(StatusCode, Box<AutomationError>);

impl From<AutomationError> for Refused {
    fn from(error: AutomationError) -> Self {
        Self(status_of(error.code), Box::new(error))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = (self.0, Json(Failed { error: *self.1 })).into_response();
        if self.0 == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

type Answer = Result<Response, Refused>;
type Shared = State<Arc<Station>>;

/// The interface.
pub fn router(station: Arc<Station>) -> Router {
    Router::new()
        .route("/v1/server", get(server))
        .route("/v1/session", get(session))
        .route("/v1/session/messages", get(messages))
        .route("/v1/runs", post(submit).get(find))
        .route("/v1/runs/{id}", get(run))
        .route("/v1/runs/{id}/cancel", post(cancel))
        .route("/v1/runs/{id}/inputs/{input_id}", post(answer))
        .route("/v1/journal", get(journal))
        .route("/v1/events", get(stream::events))
        .route("/v1/shutdown", post(shutdown))
        .route("/v1/openapi.json", get(openapi))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Arc::clone(&station), admit))
        .with_state(station)
}

/// The token, before anything else is looked at.
async fn admit(State(station): Shared, request: Request, next: Next) -> Response {
    let authorization = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let mut response = if station.token.admits(authorization) {
        next.run(request).await
    } else {
        let message = "the token is missing or wrong: send Authorization: Bearer with AURA_SERVE_TOKEN";
        Refused::from(AutomationError::new(Code::Unauthorized, message)).into_response()
    };
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn server(State(station): Shared, request: Request) -> Answer {
    Query::of(&request, &[])?;
    let overview = station.handle.overview().await?;
    Ok(Json(ServerInfo {
        whereabouts: station.whereabouts.clone(),
        started_at: station.started_at,
        stopping: overview.is_stopping,
        last_seq: station.handle.last_seq(),
        active_run: overview.active_run,
    })
    .into_response())
}

async fn session(State(station): Shared, request: Request) -> Answer {
    Query::of(&request, &[])?;
    let Overview { stored, persisted_seq, title, status, .. } = station.handle.overview().await?;
    let meta = Meta {
        agent: status.agent.clone(),
        mode: status.mode.clone(),
        provider: status.provider.clone(),
        model: status.model.clone(),
        title,
    };
    Ok(Json(SessionInfo { summary: stored, persisted_seq, meta, status }).into_response())
}

async fn messages(State(station): Shared, request: Request) -> Answer {
    let query = Query::of(&request, &["after", "thinking"])?;
    let (after, with_thinking) = (query.cursor("after")?, query.flag("thinking")?);
    let (store, id) = (station.store.clone(), station.session.clone());
    let read = tokio::task::spawn_blocking(move || store.read(&id)).await;
    let (document, _) = read.map_err(|_| internal("the session could not be read"))??;
    let total = u64::try_from(document.messages.len()).unwrap_or(u64::MAX);
    let after = match after {
        None => 0,
        Some(after) => in_range(after, total, "there is no such message", None)?,
    };
    let numbered = (1_u64..).zip(document.messages);
    let messages = numbered
        .filter(|(index, _)| *index > after)
        .map(|(index, message)| Shown::of(index, message, with_thinking))
        .collect();
    Ok(Json(Messages { messages, total }).into_response())
}

async fn submit(State(station): Shared, request: Request) -> Answer {
    Query::of(&request, &[])?;
    let request = input::submission(&body(request).await?)?;
    let (run, is_replay) = station.handle.submit(request).await?;
    if is_replay {
        return Ok((StatusCode::OK, [(REPLAY, "true")], Json(run)).into_response());
    }
    Ok((StatusCode::ACCEPTED, Json(run)).into_response())
}

async fn find(State(station): Shared, request: Request) -> Answer {
    let request_id = input::request_id(Query::of(&request, &["request_id"])?.text("request_id"))?;
    Ok(Json(station.handle.of_request(request_id).await?).into_response())
}

async fn run(State(station): Shared, Path(id): Path<String>, request: Request) -> Answer {
    Query::of(&request, &[])?;
    Ok(Json(station.handle.of_id(RunId::sought(&id)).await?).into_response())
}

async fn cancel(State(station): Shared, Path(id): Path<String>, request: Request) -> Answer {
    Query::of(&request, &[])?;
    input::nothing(&body(request).await?)?;
    let run = station.handle.cancel(RunId::sought(&id)).await?;
    Ok((StatusCode::ACCEPTED, Json(run)).into_response())
}

async fn answer(
    State(station): Shared,
    Path((id, input_id)): Path<(String, String)>,
    request: Request,
) -> Answer {
    Query::of(&request, &[])?;
    let answer = input::answer(&body(request).await?)?;
    station.handle.answer(RunId::sought(&id), input_id, answer).await?;
    Ok(Json(Nothing {}).into_response())
}

async fn journal(State(station): Shared, request: Request) -> Answer {
    let query = Query::of(&request, &["after", "limit", "wait"])?;
    let after = query.cursor("after")?.unwrap_or(0);
    let limit = query.number("limit", 1, EVENTS_MOST)?.unwrap_or(EVENTS);
    let wait = query.number("wait", 0, WAIT_MOST)?.unwrap_or(0);
    let after = event_cursor(&station.handle, after)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let events = station.handle.events(after, limit, Duration::from_secs(wait)).await?;
    Ok(Json(Events { events, last_seq: station.handle.last_seq() }).into_response())
}

async fn shutdown(State(station): Shared, request: Request) -> Answer {
    Query::of(&request, &[])?;
    input::nothing(&body(request).await?)?;
    station.handle.stop(StopReason::Request).await;
    Ok((StatusCode::ACCEPTED, Json(Nothing {})).into_response())
}

async fn openapi(request: Request) -> Answer {
    Query::of(&request, &[])?;
    Ok(Json(openapi::document()).into_response())
}

async fn unknown() -> Refused {
    AutomationError::new(Code::NotFound, "there is no such path; GET /v1/openapi.json describes all").into()
}

async fn wrong_method(method: Method) -> Refused {
    let message = format!("this path takes no {method}");
    Refused(StatusCode::METHOD_NOT_ALLOWED, Box::new(AutomationError::new(Code::NotFound, message)))
}

/// The body of a request, bounded.
async fn body(request: Request<Body>) -> Result<Vec<u8>, Refused> {
    let body = to_bytes(request.into_body(), BODY_BYTES).await;
    let too_much =
        |_| AutomationError::new(Code::BadRequest, "a body has at most 2 MiB, and must come whole");
    Ok(body.map_err(too_much)?.to_vec())
}

/// A cursor of events that is in the journal.
fn event_cursor(handle: &Handle, after: i128) -> Result<u64, Refused> {
    let last = handle.last_seq();
    in_range(after, last, "the journal has no such event", Some(last))
}

fn in_range(cursor: i128, last: u64, message: &str, last_seq: Option<u64>) -> Result<u64, Refused> {
    match u64::try_from(cursor) {
        Ok(cursor) if cursor <= last => Ok(cursor),
        Ok(_) | Err(_) => {
            let details = Details { last_seq, ..Details::default() };
            Err(AutomationError::new(Code::CursorOutOfRange, message).with(details).into())
        }
    }
}

fn internal(message: &str) -> AutomationError {
    AutomationError::new(Code::Internal, message)
}

/// The status of each code, where it is an answer.
fn status_of(code: Code) -> StatusCode {
    match code {
        Code::BadRequest | Code::InvalidId => StatusCode::BAD_REQUEST,
        Code::Unauthorized => StatusCode::UNAUTHORIZED,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Busy
        | Code::RequestConflict
        | Code::CursorOutOfRange
        | Code::NotPending
        | Code::Exists
        | Code::RevisionMismatch
        | Code::SessionLocked
        | Code::SessionFrozen => StatusCode::CONFLICT,
        Code::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        Code::InvalidSession
        | Code::ResumeFailed
        | Code::McpUnavailable
        | Code::ConfigInvalid
        | Code::LauncherLost
        | Code::StartupFailed
        | Code::Cancelled
        | Code::InputRejected
        | Code::GuardrailBlocked
        | Code::InputRequired
        | Code::PolicyStop
        | Code::ProviderNetwork
        | Code::ProviderServer
        | Code::ProviderRateLimit
        | Code::ProviderAuth
        | Code::ProviderCredit
        | Code::ProviderModelUnavailable
        | Code::ContentFilter
        | Code::ContextExhausted
        | Code::CompactionFailed
        | Code::MaxSteps
        | Code::TokenBudget
        | Code::CommandFailed
        | Code::PersistFailed
        | Code::ServerLost
        | Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
