//! When sessions leave for an accelerator.

use std::time::Duration;

/// When sessions leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadPolicy {
    /// Packets of a session that pass here before it leaves; 0: it leaves with its first packet.
    pub after_packets: u16,
    /// How long a session stays that had to come home, or was refused.
    pub stays_for: Duration,
    /// Sessions that are away, at most.
    pub sessions: usize,
}

impl Default for OffloadPolicy {
    fn default() -> Self {
        Self {
            after_packets: 0,
            stays_for: Duration::from_secs(10),
            sessions: usize::MAX,
        }
    }
}
