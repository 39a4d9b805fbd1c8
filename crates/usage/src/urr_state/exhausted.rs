//! Which quotas of a URR are exhausted.

/// What is used up: no packet of it passes any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Exhausted(pub u8);

impl Exhausted {
    /// The volume quota of both directions together.
    pub const TOTAL: u8 = 1;
    /// That of uplink.
    pub const UPLINK: u8 = 1 << 1;
    /// That of downlink.
    pub const DOWNLINK: u8 = 1 << 2;
    /// The time quota.
    pub const TIME: u8 = 1 << 3;
    /// All quotas, by the Quota Holding Time or the Quota Validity Time.
    pub const VOID: u8 = 1 << 4;
    /// The event quota.
    pub const EVENTS: u8 = 1 << 5;

    pub(super) const VOLUME: u8 = Self::TOTAL | Self::UPLINK | Self::DOWNLINK;
    pub(super) const STOPS_TIME: u8 = Self::TIME | Self::VOID;
    pub(super) const STOPS_ALL: u8 = Self::STOPS_TIME | Self::TOTAL | Self::EVENTS;

    pub(super) const fn has(self, any: u8) -> bool {
        self.0 & any != 0
    }
}
