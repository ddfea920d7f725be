//! Which `Host` and `Origin` are ours: exact matches against the authorities that the listener serves (wire §1 and the settled points, Transport).

use axum::http::{HeaderMap, Uri, header};

use super::admission::Via;

/// The origins under which this listener serves its page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Authorities {
    served: Vec<Served>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Served {
    authority: String,
    scheme: Scheme,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// A request came for an authority that is not ours, or from a page that is not ours: 403.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Foreign;

/// The address of our own WebSocket for the page that was asked for, as a source of its security policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LinkSource(Option<String>);

impl LinkSource {
    /// `ws://AUTHORITY` or `wss://AUTHORITY`; none on the socket, where no browser comes.
    pub(crate) fn as_str(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl Authorities {
    /// This machine's own names at that port.
    pub(crate) fn loopback(port: u16) -> Self {
        let mut served = Vec::new();
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            served.push(Served { authority: format!("{host}:{port}"), scheme: Scheme::Http });
            if port == 80 {
                // A browser leaves the scheme's own port out.
                served.push(Served { authority: host.to_owned(), scheme: Scheme::Http });
            }
        }
        Self { served }
    }

    /// Also the name of the tunnel that is up.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the tunnels of a later change register their name here")
    )]
    pub(crate) fn with_tunnel(mut self, name: &str) -> Self {
        for authority in [name.to_owned(), format!("{name}:443")] {
            self.served.push(Served { authority, scheme: Scheme::Https });
        }
        self
    }

    /// Judges a request before anything else of it is looked at.
    pub(crate) fn judge(&self, via: Via, uri: &Uri, headers: &HeaderMap) -> Result<LinkSource, Foreign> {
        let origin = only(headers, &header::ORIGIN)?;
        if via == Via::Socket {
            return if origin.is_some() { Err(Foreign) } else { Ok(LinkSource(None)) };
        }
        let host = only(headers, &header::HOST)?.ok_or(Foreign)?;
        // A request line with a whole URL must not name another authority than the header.
        if uri.authority().is_some_and(|authority| authority.as_str() != host) {
            return Err(Foreign);
        }
        let served = self.served.iter().find(|served| served.authority == host).ok_or(Foreign)?;
        let (http, link) = match served.scheme {
            Scheme::Http => ("http", "ws"),
            Scheme::Https => ("https", "wss"),
        };
        // The browser writes the origin of NAME:443 without the port.
        let own = |authority: &str| origin == Some(format!("{http}://{authority}").as_str());
        let short = served.authority.strip_suffix(":443").filter(|_| served.scheme == Scheme::Https);
        if origin.is_none() || own(host) || short.is_some_and(own) {
            Ok(LinkSource(Some(format!("{link}://{host}"))))
        } else {
            Err(Foreign)
        }
    }
}

/// The one value of a header, or that there is none; several or an unreadable one are foreign.
fn only<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Result<Option<&'a str>, Foreign> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Foreign);
    }
    first.to_str().map(Some).map_err(|_| Foreign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn judge(via: Via, pairs: &[(&'static str, &str)]) -> bool {
        let authorities = Authorities::loopback(4310).with_tunnel("a.example");
        authorities.judge(via, &Uri::from_static("/"), &headers(pairs)).is_ok()
    }

    #[test]
    fn only_our_own_authorities_are_served() {
        for host in ["127.0.0.1:4310", "localhost:4310", "[::1]:4310", "a.example", "a.example:443"] {
            assert!(judge(Via::Port, &[("host", host)]), "{host}");
        }
        for host in [
            "",
            "null",
            "127.0.0.1",
            "127.0.0.1:4311",
            "127.0.0.1:04310",
            "127.0.0.1:4310.",
            "LOCALHOST:4310",
            "localhost.:4310",
            "localhost:4310.evil.example",
            "evil.example",
            "127.0.0.1:4310@evil.example",
            "a.example:4310",
            "a.example.",
            "b.a.example",
            "::1:4310",
            "127.1:4310",
            "127.0.0.1:4310, evil",
        ] {
            assert!(!judge(Via::Port, &[("host", host)]), "{host}");
        }
        assert!(!judge(Via::Port, &[]));
        assert!(!judge(Via::Port, &[("host", "127.0.0.1:4310"), ("host", "127.0.0.1:4310")]));
    }

    #[test]
    fn an_origin_must_be_the_one_that_was_asked_for() {
        for (host, origin) in [
            ("127.0.0.1:4310", "http://127.0.0.1:4310"),
            ("localhost:4310", "http://localhost:4310"),
            ("[::1]:4310", "http://[::1]:4310"),
            ("a.example", "https://a.example"),
            ("a.example:443", "https://a.example"),
            ("a.example:443", "https://a.example:443"),
        ] {
            assert!(judge(Via::Port, &[("host", host), ("origin", origin)]), "{host} {origin}");
        }
        for (host, origin) in [
            ("127.0.0.1:4310", "http://localhost:4310"),
            ("127.0.0.1:4310", "https://127.0.0.1:4310"),
            ("127.0.0.1:4310", "http://127.0.0.1"),
            ("127.0.0.1:4310", "http://127.0.0.1:4310/"),
            ("127.0.0.1:4310", "HTTP://127.0.0.1:4310"),
            ("127.0.0.1:4310", "http://127.0.0.1:43100"),
            ("127.0.0.1:4310", "http://evil.example"),
            ("127.0.0.1:4310", "null"),
            ("127.0.0.1:4310", ""),
            ("a.example", "http://a.example"),
            ("a.example", "https://evil.example"),
        ] {
            assert!(!judge(Via::Port, &[("host", host), ("origin", origin)]), "{host} {origin}");
        }
        let twice = [
            ("host", "127.0.0.1:4310"),
            ("origin", "http://127.0.0.1:4310"),
            ("origin", "http://127.0.0.1:4310"),
        ];
        assert!(!judge(Via::Port, &twice));
    }

    #[test]
    fn the_socket_takes_any_host_and_no_origin() {
        assert!(judge(Via::Socket, &[("host", "anything")]) && judge(Via::Socket, &[]));
        for origin in ["http://127.0.0.1:4310", "null", ""] {
            assert!(!judge(Via::Socket, &[("origin", origin)]), "{origin}");
        }
    }

    #[test]
    fn a_whole_url_must_agree_and_forwarded_headers_are_never_believed() {
        let authorities = Authorities::loopback(4310);
        let host = headers(&[("host", "127.0.0.1:4310"), ("x-forwarded-host", "evil.example")]);
        assert!(authorities.judge(Via::Port, &Uri::from_static("http://evil.example/"), &host).is_err());
        assert!(authorities.judge(Via::Port, &Uri::from_static("http://127.0.0.1:4310/"), &host).is_ok());
        let evil = headers(&[("host", "evil.example"), ("x-forwarded-host", "127.0.0.1:4310")]);
        assert!(authorities.judge(Via::Port, &Uri::from_static("/"), &evil).is_err());
    }
}
