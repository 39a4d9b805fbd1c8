//! `ChargeId`: what a packet has counted.

/// Names what a packet has counted, in its buffer's metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChargeId(pub u32);

impl ChargeId {
    /// The packet has counted nothing.
    pub const NONE: Self = Self(0);
}
