//! Downlink data delivery status (TS 29.244 §5.28): what Control was notified of.

/// What became of a downlink packet, for the delivery status (TS 29.244 §5.28, §8.2.179).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DataStatus {
    /// The first one since its FAR was changed is buffered.
    Buffered,
    /// The first one is discarded.
    Discarded,
}

/// The statuses of one PDR that Control was notified of: bit n is the [`DataStatus`] n.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReportedStatuses(u8);

impl ReportedStatuses {
    /// Adds a status; whether it was absent.
    pub fn insert(&mut self, status: DataStatus) -> bool {
        let before = self.0;
        self.0 |= 1 << status as u8;
        self.0 != before
    }

    /// Takes a status away: the notification could not be sent.
    pub fn remove(&mut self, status: DataStatus) {
        self.0 &= !(1 << status as u8);
    }
}
