//! The head of a request: request line and header fields (RFC 9112 §3, §5).

use memchr::{memchr, memchr2};

use super::fields::{Body, Fields, host_of};
use crate::fault::Fault;
use crate::host_name::HostName;

/// The longest head that is read, octets.
pub const LONGEST_HEAD: usize = 8192;
/// The longest method, octets. The longest one that is registered has 17 (RFC 3253 §8).
const LONGEST_METHOD: usize = 24;

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'o> {
    /// The method, as it is sent.
    pub method: &'o [u8],
    /// The target, as it is sent (RFC 9112 §3.2).
    pub target: &'o [u8],
    /// The host: of the target if it has one, else of the Host field. A request of HTTP/1.0 may have none.
    pub host: Option<HostName>,
    /// Path and query of the target, as they are sent: from its slash on, or nothing.
    pub path: &'o [u8],
    /// How long the body is that follows.
    pub body: Body,
    /// Octets of the head, its empty line and those in front of it included.
    pub octets: usize,
}

/// What is behind the empty lines that servers pass over in front of a request (RFC 9112 §2.2).
fn behind_empty_lines(octets: &[u8]) -> &[u8] {
    let is_end = |octet: &u8| matches!(octet, b'\r' | b'\n');
    let lines = octets.iter().take_while(|octet| is_end(octet)).count();
    octets.get(lines..).unwrap_or_default()
}

/// Whether octets may be the start of a request: a method of upper-case letters and hyphens, as all registered ones
/// are, and a space; behind empty lines, or in part.
pub fn may_start_request(octets: &[u8]) -> bool {
    let octets = match behind_empty_lines(octets) {
        [] => return !octets.is_empty(),
        behind => behind,
    };
    let method = octets.iter().take(LONGEST_METHOD + 1);
    let letters = method
        .take_while(|octet| octet.is_ascii_uppercase() || **octet == b'-')
        .count();
    let is_method = matches!(octets.get(letters), None | Some(b' '));
    (1..=LONGEST_METHOD).contains(&letters) && is_method
}

/// The head that `octets` start with; nothing if they end before it does.
///
/// # Errors
///
/// [`Fault::Malformed`] also of what is no HTTP/1, [`Fault::TooLong`] of more than [`LONGEST_HEAD`] octets,
/// [`Fault::Ambiguous`] as the module says.
pub fn read_head(octets: &[u8]) -> Result<Option<Head<'_>>, Fault> {
    if octets.is_empty() {
        return Ok(None);
    }
    if !may_start_request(octets) {
        return Err(Fault::Malformed);
    }
    let mut lines = Lines::behind(octets, octets.len() - behind_empty_lines(octets).len());
    let Some(request_line) = lines.next()? else {
        return Ok(None);
    };
    let head = request_line_of(request_line)?;
    let mut fields = Fields::default();
    while let Some(line) = lines.next()? {
        if line.is_empty() {
            return finished(head, &fields, lines.read()).map(Some);
        }
        fields.add(line)?;
    }
    Ok(None)
}

/// The lines of a head, each without its end. A line feed alone ends one, too (RFC 9112 §2.2).
struct Lines<'o> {
    octets: &'o [u8],
    at: usize,
}

impl<'o> Lines<'o> {
    /// Those from this place on.
    fn behind(octets: &'o [u8], at: usize) -> Lines<'o> {
        Lines { octets, at }
    }

    fn read(&self) -> usize {
        self.at
    }

    fn next(&mut self) -> Result<Option<&'o [u8]>, Fault> {
        let window = self.octets.get(..LONGEST_HEAD).unwrap_or(self.octets);
        let rest = window.get(self.at..).unwrap_or_default();
        let Some(end) = memchr(b'\n', rest) else {
            return match window.len() {
                LONGEST_HEAD => Err(Fault::TooLong),
                _ => Ok(None),
            };
        };
        self.at += end + 1;
        let line = rest.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match memchr2(b'\r', 0, line) {
            Some(_) => Err(Fault::Ambiguous),
            None => Ok(Some(line)),
        }
    }
}

/// RFC 9112 §3: method, target and version, with one space between them.
fn request_line_of(line: &[u8]) -> Result<Head<'_>, Fault> {
    let mut parts = line.split(|octet| *octet == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Fault::Malformed);
    };
    let is_known = matches!(version, b"HTTP/1.1" | b"HTTP/1.0");
    if target.is_empty() || !is_known {
        return Err(Fault::Malformed);
    }
    let (authority, path) = parts_of_target(method, target)?;
    let host = authority.map(host_of).transpose()?.flatten();
    let body = match method {
        b"CONNECT" => Body::Unknown,
        _ => Body::Octets(0),
    };
    Ok(Head {
        method,
        target,
        host,
        path,
        body,
        octets: 0,
    })
}

/// Authority, and path with query, of a target: origin-form, absolute-form, authority-form of CONNECT, and `*` (RFC
/// 9112 §3.2).
fn parts_of_target<'o>(method: &[u8], target: &'o [u8]) -> Result<(Option<&'o [u8]>, &'o [u8]), Fault> {
    if method == b"CONNECT" {
        return Ok((Some(target), &[]));
    }
    if target.starts_with(b"/") || target == b"*" {
        return Ok((None, target));
    }
    let scheme = memchr(b':', target).ok_or(Fault::Malformed)?;
    let after = target.get(scheme..).and_then(|rest| rest.strip_prefix(b"://"));
    let after = after.ok_or(Fault::Malformed)?;
    let end = memchr2(b'/', b'?', after);
    // Without a path it is that of the root (RFC 9110 §4.2.3).
    let (authority, path) = match end {
        Some(end) => after.split_at_checked(end).unwrap_or_default(),
        None => (after, &b"/"[..]),
    };
    Ok((Some(authority), path))
}

/// The head with what its fields say.
fn finished<'o>(mut head: Head<'o>, fields: &Fields, octets: usize) -> Result<Head<'o>, Fault> {
    if let Some(in_field) = fields.host {
        // A target with a host and a Host field are the same (RFC 9112 §3.2.2), or servers and proxies differ.
        if head.host.is_some() && head.host != in_field {
            return Err(Fault::Ambiguous);
        }
        head.host = in_field;
    }
    if head.body != Body::Unknown {
        head.body = fields.body();
    }
    head.octets = octets;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host_and_path(request: &str) -> Result<Option<(Option<String>, String)>, Fault> {
        let head = read_head(request.as_bytes())?;
        Ok(head.map(|head| {
            let path = String::from_utf8_lossy(head.path).into_owned();
            (head.host.map(|host| host.to_string()), path)
        }))
    }

    fn found(host: &str, path: &str) -> Result<Option<(Option<String>, String)>, Fault> {
        Ok(Some((Some(host.to_string()), path.to_string())))
    }

    /// RFC 9112 §2.2.
    #[test]
    fn empty_lines_in_front_of_a_request_are_passed_over() {
        let request = "\r\n\n\r\nGET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
        assert_eq!(host_and_path(request), found("a.example", "/a"));
        let head = read_head(request.as_bytes()).expect("a head").expect("all of it");
        assert_eq!(head.octets, request.len());
        for end in 1..request.len() {
            assert!(may_start_request(&request.as_bytes()[..end]), "{end}");
            assert_eq!(host_and_path(&request[..end]), Ok(None));
        }
        assert!(!may_start_request(b"\r\nget / HTTP/1.1\r\n"));
    }

    #[test]
    fn all_forms_of_targets_have_their_host() {
        assert_eq!(
            host_and_path("GET /a/b?c HTTP/1.1\r\nAccept: */*\r\nhOsT:  WWW.Example.com:8080 \r\n\r\n"),
            found("www.example.com", "/a/b?c")
        );
        assert_eq!(
            host_and_path("GET http://example.com/x HTTP/1.1\r\nHost: example.com\r\n\r\n"),
            found("example.com", "/x")
        );
        assert_eq!(
            host_and_path("GET http://example.com?q HTTP/1.0\r\n\r\n"),
            found("example.com", "?q")
        );
        assert_eq!(
            host_and_path("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"),
            found("example.com", "")
        );
        assert_eq!(
            host_and_path("OPTIONS * HTTP/1.1\nHost: [2001:db8::1]:80\n\n"),
            found("2001:db8::1", "*")
        );
        assert_eq!(
            host_and_path("GET / HTTP/1.0\r\n\r\n"),
            Ok(Some((None, "/".to_string())))
        );
    }

    #[test]
    fn a_target_without_a_path_is_of_the_root() {
        assert_eq!(
            host_and_path("GET http://example.com HTTP/1.0\r\n\r\n"),
            found("example.com", "/")
        );
    }

    #[test]
    fn heads_that_servers_read_differently_are_ambiguous() {
        for fields in [
            "Host: a.example\r\nHost: a.example\r\n",
            "Host: a.example\r\nX: 1\r\n folded\r\n",
            "Host : a.example\r\n",
            " Host: a.example\r\n",
            "Host: a.example\r\nX: 1\rHost: b.example\r\n",
            "Host: a.example\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
            "Host: a.example\0\r\n",
        ] {
            assert_eq!(
                host_and_path(&format!("GET / HTTP/1.1\r\n{fields}\r\n")),
                Err(Fault::Ambiguous),
                "{fields:?}"
            );
        }
        assert_eq!(
            host_and_path("GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n"),
            Err(Fault::Ambiguous)
        );
    }

    #[test]
    fn what_is_no_request_is_malformed() {
        for octets in [
            "get / HTTP/1.1\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET /\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "GET a.example/ HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: user@a.example\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "SSH-2.0-OpenSSH_9.2\r\n",
        ] {
            assert_eq!(host_and_path(octets), Err(Fault::Malformed), "{octets:?}");
        }
    }

    #[test]
    fn a_head_is_bounded() {
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(LONGEST_HEAD));
        assert_eq!(host_and_path(&long), Err(Fault::TooLong));
        assert_eq!(host_and_path(&long[..LONGEST_HEAD - 1]), Ok(None));
    }

    #[test]
    fn bodies_are_known_as_far_as_the_head_says() {
        let body = |fields: &str| {
            let request = format!("POST / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
            read_head(request.as_bytes())
                .expect("a request")
                .expect("a whole head")
                .body
        };
        assert_eq!(body(""), Body::Octets(0));
        assert_eq!(
            body("Content-Length: 17\r\nContent-Length: 17\r\n"),
            Body::Octets(17)
        );
        assert_eq!(body("Transfer-Encoding: Chunked\r\n"), Body::Chunked);
        assert_eq!(body("Transfer-Encoding: gzip, chunked\r\n"), Body::Unknown);
        assert_eq!(
            body("Transfer-Encoding: chunked\r\nContent-Length: 17\r\n"),
            Body::Unknown
        );
        assert_eq!(body("Upgrade: websocket\r\n"), Body::Unknown);
        assert_eq!(
            body("Expect: 100-continue\r\nContent-Length: 17\r\n"),
            Body::Unknown
        );
    }

    proptest! {
        #[test]
        fn a_head_that_is_cut_is_waited_for(cut in 0usize..64) {
            let request = "GET /a HTTP/1.1\r\nHost: a.example\r\nAccept: text/html, */*;q=0\r\n\r\n";
            prop_assume!(cut < request.len());
            prop_assert_eq!(host_and_path(&request[..cut]), Ok(None));
        }

        #[test]
        fn any_octets_are_read(octets in "[A-Z]{1,4} [ -~\r\n\t]{0,100}") {
            let _ = read_head(octets.as_bytes());
        }
    }
}
