//! The embedded page: compressed as it was built, cached by its names, never HTML for a missing file, and no script but its own (wire §1).

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use data_encoding::HEXLOWER;
use rust_embed::{EmbeddedFile, RustEmbed};

use super::authority::LinkSource;

/// What Trunk has built; read from the disk in debug builds.
#[derive(RustEmbed)]
#[folder = "../web/dist"]
struct Dist;

const INDEX: &str = "index.html";
/// Names with a hash never change their content.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";
/// Anything else is asked for again each time.
const REVALIDATE: &str = "no-cache";
/// The page that stands where the client was not built.
const NOT_BUILT: &str = "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
    <title>aude</title></head>\n<body>\n<h1>aude runs, but its page was not built</h1>\n<p>On the machine, in the folder of the project, run \
    <code>cargo xtask up</code>. It builds the page and starts aude again.</p>\n</body>\n</html>\n";

/// Whether the page was built.
pub(super) fn has_page() -> bool {
    Dist::get(INDEX).is_some()
}

/// Answers a request for anything but `/wire`.
pub(super) fn serve(method: &Method, path: &str, headers: &HeaderMap, link: &LinkSource) -> Response {
    serve_from::<Dist>(method, path, headers, link)
}

fn serve_from<D: RustEmbed>(method: &Method, path: &str, headers: &HeaderMap, link: &LinkSource) -> Response {
    if method != Method::GET && method != Method::HEAD {
        let mut response =
            plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here\n", link);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let mut response = find::<D>(path, headers, link);
    if method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    response
}

fn find<D: RustEmbed>(path: &str, headers: &HeaderMap, link: &LinkSource) -> Response {
    let name = path.strip_prefix('/').unwrap_or(path);
    // The file system of a debug build must not be asked for anything but plain names.
    let is_plain = !name.split('/').any(|part| part.starts_with('.')) && !name.contains(['\\', '%', '\0']);
    let last = name.rsplit('/').next().unwrap_or_default();
    if !name.is_empty() && is_plain && last.contains('.') {
        return match choose::<D>(name, headers) {
            Some(chosen) => file(name, chosen, headers, link),
            None => plain(StatusCode::NOT_FOUND, "there is no such file\n", link),
        };
    }
    if !is_plain {
        return plain(StatusCode::NOT_FOUND, "there is no such file\n", link);
    }
    // The client finds its page by the path itself.
    match choose::<D>(INDEX, headers) {
        Some(chosen) => file(INDEX, chosen, headers, link),
        None => not_built(link),
    }
}

/// A file in the encoding that was chosen for it.
struct Chosen {
    file: EmbeddedFile,
    encoding: Option<&'static str>,
}

/// The smallest form that the client takes.
fn choose<D: RustEmbed>(name: &str, headers: &HeaderMap) -> Option<Chosen> {
    let plain = D::get(name)?;
    for (encoding, extension) in [("br", "br"), ("gzip", "gz")] {
        if accepts(headers, encoding)
            && let Some(file) = D::get(&format!("{name}.{extension}"))
        {
            return Some(Chosen { file, encoding: Some(encoding) });
        }
    }
    Some(Chosen { file: plain, encoding: None })
}

fn accepts(headers: &HeaderMap, encoding: &str) -> bool {
    headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|part| {
            let mut fields = part.split(';').map(str::trim);
            let is_named = fields.next().is_some_and(|name| name.eq_ignore_ascii_case(encoding));
            let is_refused = fields.any(|field| {
                field.strip_prefix("q=").is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0))
            });
            is_named && !is_refused
        })
    })
}

fn file(name: &str, chosen: Chosen, headers: &HeaderMap, link: &LinkSource) -> Response {
    let tag = format!("\"{}\"", HEXLOWER.encode(&chosen.file.metadata.sha256_hash()[..16]));
    let caching = if has_hash(name) { IMMUTABLE } else { REVALIDATE };
    let is_known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.split(',').any(|known| known.trim().trim_start_matches("W/") == tag));
    let mut response = if is_known {
        with_status(StatusCode::NOT_MODIFIED, Body::empty())
    } else {
        let length = chosen.file.data.len();
        let body = match chosen.file.data {
            Cow::Borrowed(bytes) => Body::from(bytes),
            Cow::Owned(bytes) => Body::from(bytes),
        };
        let mut response = with_status(StatusCode::OK, body);
        set(&mut response, header::CONTENT_LENGTH, &length.to_string());
        set(&mut response, header::CONTENT_TYPE, content_type(name));
        if let Some(encoding) = chosen.encoding {
            set(&mut response, header::CONTENT_ENCODING, encoding);
        }
        response
    };
    set(&mut response, header::ETAG, &tag);
    set(&mut response, header::CACHE_CONTROL, caching);
    set(&mut response, header::VARY, "Accept-Encoding");
    secure(&mut response, link);
    response
}

/// Whether a name is one that Trunk made from the content: `web-0123456789abcdef_bg.wasm`.
fn has_hash(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or_default();
    let stem = last.split('.').next().unwrap_or_default();
    let stem = stem.strip_suffix("_bg").unwrap_or(stem);
    stem.rsplit_once('-').is_some_and(|(_, hash)| {
        hash.len() >= 8 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "wasm" => "application/wasm",
        "webmanifest" => "application/manifest+json",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/vnd.microsoft.icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

fn not_built(link: &LinkSource) -> Response {
    let mut response = with_status(StatusCode::SERVICE_UNAVAILABLE, Body::from(NOT_BUILT));
    set(&mut response, header::CONTENT_LENGTH, &NOT_BUILT.len().to_string());
    set(&mut response, header::CONTENT_TYPE, content_type(INDEX));
    set(&mut response, header::CACHE_CONTROL, "no-store");
    secure(&mut response, link);
    response
}

/// A short text, as for what is not there.
pub(super) fn plain(status: StatusCode, text: &'static str, link: &LinkSource) -> Response {
    let mut response = with_status(status, Body::from(text));
    set(&mut response, header::CONTENT_LENGTH, &text.len().to_string());
    set(&mut response, header::CONTENT_TYPE, content_type("a.txt"));
    set(&mut response, header::CACHE_CONTROL, "no-store");
    secure(&mut response, link);
    response
}

fn with_status(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

fn set(response: &mut Response, name: HeaderName, value: &str) {
    // Every value is ASCII: constants, numbers, hex digits, and an authority that was matched exactly.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// What every page is bound to: its own scripts, its own link, nobody's frame.
fn secure(response: &mut Response, link: &LinkSource) {
    let link = link.as_str().map(|source| format!(" {source}")).unwrap_or_default();
    let policy = format!(
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
         connect-src 'self'{link}; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    set(response, header::CONTENT_SECURITY_POLICY, &policy);
    set(response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(response, header::REFERRER_POLICY, "no-referrer");
    set(response, HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(response, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
}

#[cfg(test)]
mod tests;
