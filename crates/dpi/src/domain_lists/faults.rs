//! How much lists may have, and why domains are not taken.

use core::fmt;

use crate::host_name::InvalidName;
use crate::suffixes::MOST_LABELS;

/// The most domains of all lists together; one that is on two lists counts twice.
pub const MOST_DOMAINS: usize = 4 << 20;
/// The most octets of all lists' domains together.
pub const LONGEST_TEXT: usize = 256 << 20;
/// The most sets of categories that domains have.
pub const MOST_SETS: usize = 1 << 16;

/// Why text is no domain that lists have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidDomain {
    /// It is no host.
    Name(InvalidName),
    /// It is an address where a name is.
    Address,
    /// It has one label: all of a top-level domain.
    OneLabel,
    /// It has more than [`MOST_LABELS`] labels.
    TooManyLabels,
}

impl fmt::Display for InvalidDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(why) => write!(f, "it is no host: {why}"),
            Self::Address => f.write_str("it is an address in the place of a name"),
            Self::OneLabel => f.write_str("it is a top-level domain"),
            Self::TooManyLabels => write!(f, "it has more than {MOST_LABELS} labels"),
        }
    }
}

impl core::error::Error for InvalidDomain {}

/// Why the builder takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// It has [`MOST_DOMAINS`].
    Domains,
    /// Its domains would have more than [`LONGEST_TEXT`] octets.
    Text,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Domains => write!(f, "all lists together have more than {MOST_DOMAINS} domains"),
            Self::Text => write!(f, "the domains of all lists have more than {LONGEST_TEXT} octets"),
        }
    }
}

impl core::error::Error for Full {}

/// Why a domain is not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdded {
    /// It is none that lists have.
    Invalid(InvalidDomain),
    /// The builder takes no more.
    Full(Full),
}

impl fmt::Display for NotAdded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => why.fmt(f),
            Self::Full(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for NotAdded {}

/// Why there is no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBuilt {
    /// Domains have more than [`MOST_SETS`] different sets of categories.
    Sets,
    /// Two domains have one hash, whatever it is keyed by: they are made so.
    Hashes,
}

impl fmt::Display for NotBuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sets => write!(
                f,
                "the domains of the lists have more than {MOST_SETS} different sets of categories"
            ),
            Self::Hashes => f.write_str("two domains of the lists have the same hash under each key"),
        }
    }
}

impl core::error::Error for NotBuilt {}
