//! Requests that no route is to see: those in forms that servers and proxies read differently, and those that a page of
//! another origin has a browser send. And the headers that keep browsers from making more of an answer than it is.
//!
//! Tokens are in the header `Authorization`, which a page has to set itself: no cookie and no password that a browser
//! adds by itself, so no other page can act in a user's name with them. A client certificate and the Unix socket (which
//! `sluice ui` forwards to a browser) are different: such requests are recognised by `Origin`, `Sec-Fetch-Site` and
//! `Host`.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, HOST, HeaderName, ORIGIN, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use axum::response::IntoResponse;

use crate::values::Problem;

/// What a request has come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    /// The Unix socket, or what forwards it to this host.
    Unix,
    /// TLS.
    #[cfg(feature = "tls")]
    Tls,
}

impl Listener {
    /// How the origins begin whose pages this listener serves.
    const fn scheme(self) -> &'static str {
        match self {
            Self::Unix => "http://",
            #[cfg(feature = "tls")]
            Self::Tls => "https://",
        }
    }
}

/// Whether routes may see a request.
///
/// # Errors
/// Why not. The connection is not to be used any more.
pub(super) fn check<B>(listener: Listener, request: &Request<B>) -> Result<(), Problem> {
    let headers = request.headers();
    let refused = |status, words: &str| Err(Problem::new(status, words));
    if headers.contains_key(TRANSFER_ENCODING) {
        // RFC 9112 §6.1: beside a Content-Length it is how requests are smuggled past proxies. No client needs it.
        return refused(
            StatusCode::LENGTH_REQUIRED,
            "a request's body has a Content-Length",
        );
    }
    if request.method() == Method::CONNECT || request.method() == Method::TRACE {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "this method is not served");
    }
    // RFC 9112 §3.2: exactly one, in requests of HTTP/1.1.
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    if hosts.next().is_some() || (host.is_none() && request.version() >= Version::HTTP_11) {
        return refused(StatusCode::BAD_REQUEST, "a request has one header Host");
    }
    if listener == Listener::Unix && host.is_some_and(|host| !is_local(host)) {
        return refused(
            StatusCode::MISDIRECTED_REQUEST,
            "Host on the Unix socket is sluice, localhost, 127.0.0.1 or [::1]",
        );
    }
    if is_foreign(listener, headers, host, request.uri().path()) {
        return refused(StatusCode::FORBIDDEN, "a page of another origin has sent this");
    }
    Ok(())
}

/// Whether a name is one by which the socket is reached: else a page's own name was made to lead here (DNS rebinding).
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let names = ["sluice", "localhost", "127.0.0.1", "[::1]"];
    names.iter().any(|local| name.eq_ignore_ascii_case(local))
}

/// Whether a browser says that a page of another origin asks.
fn is_foreign(listener: Listener, headers: &HeaderMap, host: Option<&str>, path: &str) -> bool {
    let site = headers.get(HeaderName::from_static("sec-fetch-site"));
    // A link may lead to a page; what the page asks for then is of its own origin.
    let mode = headers.get(HeaderName::from_static("sec-fetch-mode"));
    let is_link = mode.is_some_and(|mode| mode == "navigate") && !path.starts_with("/v1/");
    let is_foreign_site = site.is_some_and(|site| site != "same-origin" && site != "none");
    let origin = headers
        .get(ORIGIN)
        .map(|origin| origin.to_str().unwrap_or_default());
    let is_foreign_origin = origin.is_some_and(|origin| {
        let own = origin.strip_prefix(listener.scheme());
        own.zip(host)
            .is_none_or(|(own, host)| !own.eq_ignore_ascii_case(host))
    });
    (is_foreign_site && !is_link) || is_foreign_origin
}

/// An answer behind which the connection ends.
pub(super) fn last(mut response: Response<Body>) -> Response<Body> {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// The answer to a request for which there is no room.
pub(super) fn too_many() -> Response<Body> {
    let words = "too many requests wait for their answers; ask again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, words).into_response()
}

/// Adds what keeps browsers from making more of an answer than it is, where the answer does not say it itself.
pub(super) async fn guard_browsers(mut response: Response<Body>) -> Response<Body> {
    let guards = [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in guards {
        let value = HeaderValue::from_static(value);
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

/// Has browsers ask this host by TLS alone for a year.
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there is no TLS"))]
pub(super) fn keep_to_tls(response: &mut Response<Body>) {
    let year = HeaderValue::from_static("max-age=31536000");
    response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, year);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(listener: Listener, headers: &[(&'static str, &str)]) -> Option<u16> {
        status_of("/v1/log", listener, headers)
    }

    fn status_of(path: &str, listener: Listener, headers: &[(&'static str, &str)]) -> Option<u16> {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(listener, &request.body(()).unwrap())
            .err()
            .map(|problem| problem.status)
    }

    #[test]
    fn the_socket_is_reached_by_local_names_alone() {
        for host in [
            "sluice",
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:1",
            "[::1]:1",
            "[::1]",
        ] {
            assert_eq!(status(Listener::Unix, &[("host", host)]), None, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "",
            "::1",
            "sluice.evil",
        ] {
            assert_eq!(status(Listener::Unix, &[("host", host)]), Some(421), "{host}");
        }
        assert_eq!(status(Listener::Unix, &[]), Some(400));
        assert_eq!(
            status(Listener::Unix, &[("host", "sluice"), ("host", "localhost")]),
            Some(400)
        );
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let with = |name, value| status(Listener::Unix, &[("host", "localhost:8080"), (name, value)]);
        for (name, value, refused) in [
            ("origin", "http://localhost:8080", None),
            ("origin", "http://localhost:8081", Some(403)),
            ("origin", "https://localhost:8080", Some(403)),
            ("origin", "http://evil.example", Some(403)),
            ("origin", "null", Some(403)),
            ("sec-fetch-site", "same-origin", None),
            ("sec-fetch-site", "none", None),
            ("sec-fetch-site", "same-site", Some(403)),
            ("sec-fetch-site", "cross-site", Some(403)),
        ] {
            assert_eq!(with(name, value), refused, "{name}: {value}");
        }
        let followed = [
            ("host", "localhost"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
        ];
        assert_eq!(status_of("/", Listener::Unix, &followed), None);
        assert_eq!(status_of("/v1/trace", Listener::Unix, &followed), Some(403));
    }

    #[test]
    fn bodies_in_chunks_are_refused() {
        let chunked = [("host", "sluice"), ("transfer-encoding", "chunked")];
        assert_eq!(status(Listener::Unix, &chunked), Some(411));
    }
}
