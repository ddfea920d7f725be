//! The rim of HTTP: `Host`, then `Origin`, then the route, on every request; `/wire` becomes a link, the rest is the page (wire §1).

use std::sync::Arc;

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{ConnectInfo, FromRequestParts as _, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use shared::limits;

use super::authority::{Foreign, LinkSource};
use super::bind::Arrival;
use super::{Station, assets, wire};

/// Where links are opened.
const WIRE: &str = "/wire";

/// The one service behind every door.
pub(super) fn router(station: Arc<Station>) -> Router {
    Router::new().fallback(answer).with_state(station)
}

async fn answer(
    State(station): State<Arc<Station>>,
    ConnectInfo(arrival): ConnectInfo<Arrival>,
    request: Request,
) -> Response {
    let (parts, _body) = request.into_parts();
    let link = match station.authorities.judge(arrival.via, &parts.uri, &parts.headers) {
        Ok(link) => link,
        Err(Foreign) => {
            tracing::warn!("refused a request for or from a page that is not ours");
            return assets::plain(
                StatusCode::FORBIDDEN,
                "this address or this page is not one of aude's\n",
                &LinkSource::default(),
            );
        }
    };
    if parts.uri.path() == WIRE {
        return upgrade(station, arrival, parts, &link).await;
    }
    assets::serve(&parts.method, parts.uri.path(), &parts.headers, &link)
}

async fn upgrade(station: Arc<Station>, arrival: Arrival, mut parts: Parts, link: &LinkSource) -> Response {
    let Ok(upgrade) = WebSocketUpgrade::from_request_parts(&mut parts, &()).await else {
        let mut response = assets::plain(
            StatusCode::UPGRADE_REQUIRED,
            "here links are opened: a WebSocket of version 13 is needed\n",
            link,
        );
        response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        return response;
    };
    // Of a connection that has served pages before, the time for `hello` runs from here: when it was accepted says nothing.
    let began = arrival.traffic.link_began();
    upgrade
        .max_message_size(limits::NOISE_MESSAGE_BYTES)
        .max_frame_size(limits::NOISE_MESSAGE_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * limits::NOISE_MESSAGE_BYTES)
        .on_upgrade(move |socket| wire::serve(station, socket, arrival, began))
}
