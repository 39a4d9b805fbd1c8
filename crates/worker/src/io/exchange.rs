//! How a packet came from an accelerator: in its buffer's metadata until it is queued to be sent.

use offload::exception::Reason;

use crate::io::charge::ChargeId;

/// How a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Why it was not passed there.
    pub reason: Reason,
    /// How often it has been exchanged before.
    pub hops: u8,
}

/// What an accelerator asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The number of the question.
    pub number: u32,
    /// Octets of the packet that are known.
    pub known: u16,
}

impl Exchange {
    pub(super) const fn to_charge(self) -> ChargeId {
        ChargeId((self.reason as u32) << 8 | self.hops as u32)
    }

    pub(crate) fn of_charge(charge: ChargeId) -> Option<Self> {
        Some(Self {
            reason: Reason::from_number((charge.0 >> 8) as u8)?,
            hops: charge.0 as u8,
        })
    }
}
