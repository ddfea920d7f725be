use super::*;
use crate::listener::admission::Via;
use crate::listener::authority::Authorities;
use axum::http::Uri;

/// A build as Trunk makes it, in memory.
struct Built;
/// None.
struct Empty;

fn content(name: &str) -> Option<&'static [u8]> {
    Some(match name {
        "index.html" => b"<!doctype html>",
        "index.html.br" => b"br of the page",
        "index.html.gz" => b"gz of the page",
        "web-0123456789abcdef_bg.wasm" => b"\0asm",
        "web-0123456789abcdef.js" => b"script",
        "sw.js" => b"worker",
        "manifest.webmanifest" => b"{}",
        "icons/icon.svg" => b"<svg/>",
        _ => return None,
    })
}

impl RustEmbed for Built {
    fn get(name: &str) -> Option<EmbeddedFile> {
        let data = content(name)?;
        let hash: [u8; 32] =
            sha2::Digest::finalize(sha2::Digest::chain_update(<sha2::Sha256 as sha2::Digest>::new(), data))
                .into();
        Some(EmbeddedFile {
            data: Cow::Borrowed(data),
            metadata: rust_embed::Metadata::__rust_embed_new(hash, None, None),
        })
    }

    fn iter() -> impl Iterator<Item = Cow<'static, str>> + 'static {
        std::iter::empty()
    }
}

impl RustEmbed for Empty {
    fn get(_: &str) -> Option<EmbeddedFile> {
        None
    }

    fn iter() -> impl Iterator<Item = Cow<'static, str>> + 'static {
        std::iter::empty()
    }
}

fn link() -> LinkSource {
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("127.0.0.1:4310"));
    Authorities::loopback(4310).judge(Via::Port, &Uri::from_static("/"), &headers).unwrap()
}

fn ask(method: Method, path: &str, pairs: &[(&'static str, &str)]) -> Response {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    serve_from::<Built>(&method, path, &headers, &link())
}

fn get(path: &str, pairs: &[(&'static str, &str)]) -> Response {
    ask(Method::GET, path, pairs)
}

fn value<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

async fn body(response: Response) -> Vec<u8> {
    axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec()
}

#[tokio::test]
async fn the_page_is_served_compressed_as_the_client_takes_it() {
    for (accepted, encoding, content) in [
        ("", "", "<!doctype html>"),
        ("gzip, deflate, br", "br", "br of the page"),
        ("gzip", "gzip", "gz of the page"),
        ("br;q=0, gzip;q=0.5", "gzip", "gz of the page"),
        ("brotli", "", "<!doctype html>"),
    ] {
        let response = get("/", &[("accept-encoding", accepted)]);
        assert_eq!(response.status(), 200);
        assert_eq!(value(&response, "content-encoding"), encoding, "{accepted}");
        assert_eq!(value(&response, "content-type"), "text/html; charset=utf-8");
        assert_eq!(value(&response, "cache-control"), REVALIDATE);
        assert_eq!(value(&response, "vary"), "Accept-Encoding");
        assert_eq!(value(&response, "content-length"), content.len().to_string());
        assert_eq!(body(response).await, content.as_bytes());
    }
}

#[tokio::test]
async fn a_known_tag_is_not_sent_again_and_every_form_has_its_own() {
    let tag = value(&get("/", &[]), "etag").to_owned();
    assert_ne!(value(&get("/", &[("accept-encoding", "br")]), "etag"), tag);
    for known in [tag.clone(), format!("\"other\", W/{tag}")] {
        let response = get("/", &[("if-none-match", &known)]);
        assert_eq!(response.status(), 304);
        assert_eq!(value(&response, "etag"), tag);
        assert!(body(response).await.is_empty());
    }
    assert_eq!(get("/", &[("if-none-match", "\"other\"")]).status(), 200);
}

#[test]
fn hashed_names_are_immutable_and_others_are_not() {
    for name in ["/web-0123456789abcdef.js", "/web-0123456789abcdef_bg.wasm"] {
        assert_eq!(value(&get(name, &[]), "cache-control"), IMMUTABLE, "{name}");
    }
    for name in ["/sw.js", "/manifest.webmanifest", "/icons/icon.svg"] {
        assert_eq!(value(&get(name, &[]), "cache-control"), REVALIDATE, "{name}");
    }
    assert_eq!(value(&get("/web-0123456789abcdef_bg.wasm", &[]), "content-type"), "application/wasm");
    assert_eq!(value(&get("/manifest.webmanifest", &[]), "content-type"), "application/manifest+json");
}

#[test]
fn a_missing_file_is_never_html_and_a_page_of_the_client_always_is() {
    for path in [
        "/web-ffffffffffffffff.js",
        "/icons/none.png",
        "/../Cargo.toml",
        "/.git/config",
        "/%2e%2e/a.txt",
        "/..",
        "/a\\b",
    ] {
        let response = get(path, &[]);
        assert_eq!(response.status(), 404, "{path}");
        assert_eq!(value(&response, "content-type"), "text/plain; charset=utf-8", "{path}");
    }
    for path in ["/", "/sessions", "/sessions/6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "/pair"] {
        assert_eq!(value(&get(path, &[]), "content-type"), "text/html; charset=utf-8", "{path}");
    }
}

#[tokio::test]
async fn head_has_no_body_and_other_methods_are_refused() {
    let response = ask(Method::HEAD, "/", &[]);
    assert_eq!((response.status().as_u16(), value(&response, "content-length")), (200, "15"));
    assert!(body(response).await.is_empty());
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::TRACE] {
        let response = ask(method, "/", &[]);
        assert_eq!((response.status().as_u16(), value(&response, "allow")), (405, "GET, HEAD"));
    }
}

#[test]
fn every_answer_is_bound_to_its_own_scripts_and_its_own_link() {
    for path in ["/", "/none.js", "/sw.js"] {
        let response = get(path, &[]);
        let policy = value(&response, "content-security-policy");
        assert!(policy.contains("script-src 'self' 'wasm-unsafe-eval';"), "{policy}");
        assert!(policy.contains("connect-src 'self' ws://127.0.0.1:4310;"), "{policy}");
        assert!(!policy.contains("unsafe-inline"), "{policy}");
        assert_eq!(value(&response, "x-content-type-options"), "nosniff");
        assert_eq!(value(&response, "referrer-policy"), "no-referrer");
        assert_eq!(value(&response, "cross-origin-opener-policy"), "same-origin");
    }
}

#[tokio::test]
async fn a_client_that_was_not_built_is_said_with_its_command() {
    let response = serve_from::<Empty>(&Method::GET, "/", &HeaderMap::new(), &link());
    assert_eq!(response.status(), 503);
    assert_eq!(value(&response, "content-type"), "text/html; charset=utf-8");
    let text = String::from_utf8(body(response).await).unwrap();
    assert!(text.contains("cargo xtask up") && !text.contains("<script"), "{text}");
}
