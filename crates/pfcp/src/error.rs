//! What can be wrong with an IE, and the cause that the peer receives for it.
//!
//! A decode error is total: it always names a cause, and the offending IE wherever one is known, so that the
//! endpoint can build the rejection without looking at the message again (TS 29.244 §7.6).

use core::fmt;

use crate::ie::Cause;
use crate::ie_type::IeType;

/// Why a message or grouped IE was not accepted, ready to be put into a response (TS 29.244 §7.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The Cause to answer with: 66, 67, 68 or 69 (TS 29.244 §8.2.1).
    pub cause: Cause,
    /// The Offending IE to answer with. `None` only where fewer than two octets of an IE header are left.
    pub offending: Option<IeType>,
    /// The bound that was violated, for people.
    pub detail: Detail,
}

/// The bound that a foreign message violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The IE is required where it is absent (TS 29.244 §7.6.6).
    Missing,
    /// The value has fewer octets than its fields take (TS 29.244 §7.6.7).
    TooShort {
        /// Octets needed, at least.
        need: u16,
        /// Octets there.
        have: u16,
    },
    /// The IE claims more octets than the message or group around it has left (TS 29.244 §7.6.7).
    Overrun {
        /// What the Length field says, in octets.
        length: u16,
        /// Octets left.
        left: u16,
    },
    /// The value is reserved or contradicts itself (TS 29.244 §7.6.8).
    Value,
}

impl Error {
    pub(crate) const UNKNOWN_MESSAGE: Self = Self {
        cause: Cause::REQUEST_REJECTED,
        offending: None,
        detail: Detail::Value,
    };

    /// A mandatory IE is absent: cause 66.
    pub const fn missing(ie: IeType) -> Self {
        Self {
            cause: Cause::MANDATORY_IE_MISSING,
            offending: Some(ie),
            detail: Detail::Missing,
        }
    }

    /// An IE is absent whose condition, which the session knows, is met: cause 67.
    pub const fn conditional_missing(ie: IeType) -> Self {
        Self {
            cause: Cause::CONDITIONAL_IE_MISSING,
            offending: Some(ie),
            detail: Detail::Missing,
        }
    }

    /// An IE has a value that the session knows to be wrong: cause 69.
    pub const fn incorrect(ie: IeType) -> Self {
        Self {
            cause: Cause::MANDATORY_IE_INCORRECT,
            offending: Some(ie),
            detail: Detail::Value,
        }
    }

    pub(crate) const fn overrun(ie: Option<IeType>, length: u16, left: u16) -> Self {
        Self {
            cause: Cause::INVALID_LENGTH,
            offending: ie,
            detail: Detail::Overrun { length, left },
        }
    }

    #[cold]
    pub(crate) fn at(fault: Fault, ie: IeType, have: usize) -> Self {
        let have = u16::try_from(have).unwrap_or(u16::MAX);
        let (cause, detail) = match fault {
            Fault::Short { need } => (Cause::INVALID_LENGTH, Detail::TooShort { need, have }),
            Fault::Value => (Cause::MANDATORY_IE_INCORRECT, Detail::Value),
        };
        Self {
            cause,
            offending: Some(ie),
            detail,
        }
    }

    /// Seen from a conditional IE: what was mandatory in it counts as conditional (TS 29.244 §7.2.3.2).
    pub(crate) fn within_conditional(mut self) -> Self {
        if self.cause == Cause::MANDATORY_IE_MISSING {
            self.cause = Cause::CONDITIONAL_IE_MISSING;
        }
        self
    }

    /// Seen from an optional IE: all but a bad length makes the IE count as absent (TS 29.244 §7.6.8).
    pub(crate) fn forgiven_in_optional(&self) -> bool {
        self.cause != Cause::INVALID_LENGTH
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offending {
            Some(ie) => write!(f, "IE {} ({}): ", ie.name(), ie.0)?,
            None => write!(f, "IE: ")?,
        }
        match self.detail {
            Detail::Missing if self.cause == Cause::MANDATORY_IE_MISSING => write!(f, "mandatory, missing")?,
            Detail::Missing => write!(f, "conditional, missing")?,
            Detail::TooShort { need, have } => write!(f, "{have} octets, at least {need} needed")?,
            Detail::Overrun { length, left } => write!(f, "length {length}, {left} octets left")?,
            Detail::Value => write!(f, "reserved or contradictory value")?,
        }
        match self.offending.map(IeType::clause) {
            Some(clause) if !clause.is_empty() => write!(f, " (TS 29.244 {clause})"),
            _ => Ok(()),
        }
    }
}

impl core::error::Error for Error {}

/// What is wrong with one value, before it is known whose value it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Fewer octets than `need`.
    Short {
        /// Octets needed, at least.
        need: u16,
    },
    /// A reserved value, or fields that contradict each other.
    Value,
}

/// The buffer is full, or a length field of the message cannot hold the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "message does not fit: buffer full, or longer than its length field can say"
        )
    }
}

impl core::error::Error for NoRoom {}
