//! Why an engine does not take a flow.

use core::fmt;

/// Why a flow is not taken. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutError {
    /// Its session block is not there, or of another generation.
    NoBlock,
    /// Its session block has no such forward.
    NoForward,
    /// Packets of its key pass by a flow of another session.
    Taken,
    /// The table has no room, or no more flows may settle.
    Full,
}

impl fmt::Display for PutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoBlock => "there is no session block of this generation",
            Self::NoForward => "the session block has no such forward",
            Self::Taken => "the key leads to another session",
            Self::Full => "there is no room for another flow",
        })
    }
}

impl core::error::Error for PutError {}
