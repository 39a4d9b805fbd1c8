//! Network slices (S-NSSAI, TS 23.003 §28.4.2).

use core::fmt;

/// A slice of the network (S-NSSAI, TS 23.003 §28.4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SNssai {
    /// Slice/Service Type.
    pub sst: u8,
    /// Slice Differentiator; [`NO_SD`](Self::NO_SD) where there is none.
    pub sd: [u8; 3],
}

impl SNssai {
    /// The value for an absent Slice Differentiator (TS 23.003 §28.4.2).
    pub const NO_SD: [u8; 3] = [0xff; 3];

    /// The Slice Differentiator, if there is one.
    pub fn differentiator(self) -> Option<[u8; 3]> {
        Some(self.sd).filter(|sd| *sd != Self::NO_SD)
    }
}

impl fmt::Display for SNssai {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c] = self.sd;
        match self.sd {
            Self::NO_SD => write!(f, "{}", self.sst),
            _ => write!(f, "{}-{a:02x}{b:02x}{c:02x}", self.sst),
        }
    }
}
