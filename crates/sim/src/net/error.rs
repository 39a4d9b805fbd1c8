//! Why a run ends early.

use crate::smf::{ConfigError, Failure};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Why a run ended early.
#[derive(Debug)]
pub enum Error {
    /// A value is out of bounds.
    Config(ConfigError),
    /// A socket could not be bound.
    Bind {
        /// Where.
        address: SocketAddr,
        /// The operating system's error.
        error: io::Error,
    },
    /// The N4 socket failed.
    N4(io::Error),
    /// The association failed.
    Association(Failure),
    /// No session came up; why the first one did not.
    NoSession(Option<Failure>),
    /// A session's F-TEID is not at the user plane's N3 address.
    ForeignTunnel(IpAddr),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Config(error) => error.fmt(f),
            Error::Bind { address, error } => write!(f, "cannot bind {address}: {error}"),
            Error::N4(error) => write!(f, "N4: {error}"),
            Error::Association(failure) => write!(f, "the association failed: {failure}"),
            Error::NoSession(Some(failure)) => write!(f, "no session came up: {failure}"),
            Error::NoSession(None) => f.write_str("no session came up"),
            Error::ForeignTunnel(address) => {
                write!(
                    f,
                    "the UPF chose an F-TEID at {address}, which is not the N3 address that was given"
                )
            }
        }
    }
}

impl std::error::Error for Error {}
