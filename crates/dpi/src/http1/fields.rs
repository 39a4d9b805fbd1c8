//! Header fields that say the host and the length of the body (RFC 9112 §3.2, §6).

use memchr::memchr;

use crate::fault::Fault;
use crate::host_name::HostName;

/// How long the body of a request is (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// As many octets; without a body none.
    Octets(u64),
    /// In chunks, each with its length.
    Chunked,
    /// Not known from the request, or no HTTP follows: CONNECT, Upgrade; or none, if the server does not ask for it:
    /// Expect.
    Unknown,
}

/// What the header fields say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields {
    /// The host of the Host field, once there was one.
    pub(super) host: Option<Option<HostName>>,
    content_length: Option<u64>,
    transfer_encoding: Option<bool>,
    depends_on_answer: bool,
}

impl Fields {
    /// Takes what a line says, which is not empty.
    pub(super) fn add(&mut self, line: &[u8]) -> Result<(), Fault> {
        if matches!(line.first(), Some(b' ' | b'\t')) {
            // obs-fold (RFC 9112 §5.2).
            return Err(Fault::Ambiguous);
        }
        let colon = memchr(b':', line).ok_or(Fault::Malformed)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.is_empty() || name.ends_with(b" ") || name.ends_with(b"\t") {
            // RFC 9112 §5.1.
            return Err(Fault::Ambiguous);
        }
        if name.eq_ignore_ascii_case(b"host") {
            self.add_host(value)
        } else if name.eq_ignore_ascii_case(b"content-length") {
            self.add_content_length(value)
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let is_chunked = value.eq_ignore_ascii_case(b"chunked");
            // Several codings: only if all of it is one `chunked` is the end of the body known here.
            self.transfer_encoding = Some(is_chunked && self.transfer_encoding.is_none());
            Ok(())
        } else {
            let depends = [&b"upgrade"[..], b"expect"];
            self.depends_on_answer |= depends.iter().any(|field| name.eq_ignore_ascii_case(field));
            Ok(())
        }
    }

    /// One field with one value (RFC 9112 §3.2).
    fn add_host(&mut self, value: &[u8]) -> Result<(), Fault> {
        if self.host.is_some() {
            return Err(Fault::Ambiguous);
        }
        self.host = Some(host_of(value)?);
        Ok(())
    }

    /// RFC 9110 §8.6: digits; the same value twice does no harm, another is an attack (RFC 9112 §6.3).
    fn add_content_length(&mut self, value: &[u8]) -> Result<(), Fault> {
        let octets = decimal(value).ok_or(Fault::Malformed)?;
        if self.content_length.is_some_and(|other| other != octets) {
            return Err(Fault::Ambiguous);
        }
        self.content_length = Some(octets);
        Ok(())
    }

    /// RFC 9112 §6.3. Both ways at once is how requests are smuggled: the body is not followed.
    pub(super) fn body(&self) -> Body {
        match (self.transfer_encoding, self.content_length) {
            _ if self.depends_on_answer => Body::Unknown,
            (None, None) => Body::Octets(0),
            (None, Some(octets)) => Body::Octets(octets),
            (Some(true), None) => Body::Chunked,
            (Some(_), _) => Body::Unknown,
        }
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0, |value, digit| match digit {
        b'0'..=b'9' => Some(value * 10 + u64::from(digit - b'0')),
        _ => None,
    })
}

/// The host of an authority without user information (RFC 9110 §7.2, §4.2.4), its port left out; none of an empty one.
pub(super) fn host_of(authority: &[u8]) -> Result<Option<HostName>, Fault> {
    if authority.is_empty() {
        return Ok(None);
    }
    let port = authority.iter().rposition(|octet| !octet.is_ascii_digit());
    let host = match port {
        Some(colon) if authority[colon] == b':' => &authority[..colon],
        _ => authority,
    };
    HostName::parse(host).map(Some).map_err(|_| Fault::Malformed)
}
