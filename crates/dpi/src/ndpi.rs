//! What nDPI calls protocols: numbers. Its library, and what they are named, is the crate `ndpi`'s business.

use core::fmt;
use core::num::NonZeroU16;

/// The number of a protocol of nDPI, 1 to [`NdpiId::LAST`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NdpiId(NonZeroU16);

impl NdpiId {
    /// The highest one that there is room for in sets of protocols. nDPI 4.2 has numbers up to 281.
    pub const LAST: u16 = 504;

    /// The protocol with this number; 0 is none.
    pub const fn new(number: u16) -> Option<NdpiId> {
        match NonZeroU16::new(number) {
            Some(id) if number <= NdpiId::LAST => Some(NdpiId(id)),
            _ => None,
        }
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Debug for NdpiId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What nDPI says that a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NdpiProtocol {
    /// What it is, at the most exact.
    pub application: NdpiId,
    /// What carries that, if it is something else.
    pub carrier: Option<NdpiId>,
}

impl NdpiProtocol {
    /// The numbers that it goes by.
    pub fn ids(self) -> impl Iterator<Item = NdpiId> {
        [Some(self.application), self.carrier].into_iter().flatten()
    }
}

impl From<NdpiId> for NdpiProtocol {
    fn from(application: NdpiId) -> NdpiProtocol {
        NdpiProtocol {
            application,
            carrier: None,
        }
    }
}
