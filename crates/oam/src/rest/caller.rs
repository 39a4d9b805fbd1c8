//! Who asks, as a listener has found out.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::Role;

/// Who asks. A listener puts it into the extensions of a request, which has none where the caller is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// `uid:` and a number on the Unix socket; the name of a token, or the name in a certificate.
    pub name: Arc<str>,
    /// What the caller may do.
    pub role: Role,
    /// Where the request comes from.
    pub address: PeerAddress,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// The Unix socket.
    Unix,
    /// Another host, or this one by its own addresses.
    Tcp(SocketAddr),
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix => f.write_str("unix"),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}
