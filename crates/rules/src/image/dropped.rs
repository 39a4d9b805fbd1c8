//! Dropped downlink packets of URRs that report them (TS 29.244 §5.2.2.2.1).

use crate::model::{DroppedDlThreshold, Urr, UrrId};

/// The downlink packets of a URR that were dropped since its last report (TS 29.244 §5.2.2.2.1): those that FARs drop,
/// and those that wait for Control in vain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// The URR.
    pub urr: UrrId,
    /// When they are reported.
    pub threshold: DroppedDlThreshold,
    /// Whether they are reported to the control plane (DROTH).
    pub reports: bool,
    /// Whether the nodes upstream are requested to pause charging (SSPOC).
    pub sends_pause: bool,
    /// Packets.
    pub packets: u64,
    /// Their octets, of inner IP packets.
    pub octets: u64,
}

impl Dropped {
    /// None yet, of a URR that reports them.
    pub fn of(urr: &Urr) -> Option<Self> {
        let threshold = urr.dropped_threshold()?;
        Some(Self {
            urr: urr.id,
            threshold,
            reports: urr.reports_dropped(),
            sends_pause: urr.sends_pause(),
            packets: 0,
            octets: 0,
        })
    }

    /// What is counted, for the worker that continues with it.
    pub const fn count(&self) -> DroppedCount {
        DroppedCount {
            urr: self.urr,
            packets: self.packets,
            octets: self.octets,
        }
    }

    pub(super) fn add_count(&mut self, count: DroppedCount) {
        self.packets = self.packets.saturating_add(count.packets);
        self.octets = self.octets.saturating_add(count.octets);
    }

    /// One packet more.
    pub fn add(&mut self, octets: u16) {
        self.packets = self.packets.saturating_add(1);
        self.octets = self.octets.saturating_add(octets.into());
    }

    /// Whether the threshold of packets or that of octets is reached.
    pub fn is_reached(&self) -> bool {
        let reached = |bound: Option<u64>, count| bound.is_some_and(|bound| count >= bound);
        reached(self.threshold.packets, self.packets) || reached(self.threshold.octets, self.octets)
    }

    /// It is reported: the threshold starts again.
    pub fn reset(&mut self) {
        (self.packets, self.octets) = (0, 0);
    }
}

/// How much was dropped of a URR since its last report, where the session moves to another worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DroppedCount {
    /// The URR.
    pub urr: UrrId,
    /// Packets.
    pub packets: u64,
    /// Their octets, of inner IP packets.
    pub octets: u64,
}
