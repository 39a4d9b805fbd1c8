//! What a line says.

use serde::{Deserialize, Serialize};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The name: `uid:` and a number on the Unix socket, that of a token, or one in a certificate.
    pub name: String,
    /// What the caller may do: viewer, operator or admin.
    pub role: String,
    /// Where the request comes from: `unix`, or address and port.
    pub from: String,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Entry {
    /// A process begins to write. What it found is said.
    Start {
        /// Its version.
        version: String,
        /// Octets of a line that was not whole, which are removed.
        torn_octets: u64,
        /// Lines that `head` knew and that are not there: the numbers that are left out.
        missing: u64,
    },
    /// A request, before it is served.
    Request {
        /// Who asks.
        caller: Caller,
        /// By which method.
        method: String,
        /// For what: path and query.
        target: String,
    },
    /// How a request was answered.
    Result {
        /// The number of its line.
        request: u64,
        /// The HTTP status of the answer.
        status: u16,
    },
    /// Refusals that have no lines of their own, since the last line of this kind.
    Refused {
        /// Where they came from: an address, a prefix, or `others`.
        from: String,
        /// What was refused: `credentials`, or `role`.
        what: String,
        /// How many.
        count: u64,
    },
    /// Lines that could not be written, since the last one that could.
    Missed {
        /// How many.
        count: u64,
    },
}
