//! When packets of a URR came, and whether its traffic has started or stopped.

use crate::moment::{Moment, NANOS};

/// When packets were last known to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// When it was seen that some had come since it was seen before.
    pub at: Moment,
    /// How many had come since the last report.
    pub packets: u64,
    /// When it was last checked.
    pub checked: Moment,
}

impl Activity {
    pub(super) fn from(now: Moment, packets: u64) -> Self {
        Self {
            at: now,
            packets,
            checked: now,
        }
    }

    /// Takes note of how many packets there are; whether there are more than before.
    pub(super) fn update(&mut self, packets: u64, now: Moment) -> bool {
        self.checked = now;
        let is_new = self.packets != packets;
        if is_new {
            (self.at, self.packets) = (now, packets);
        }
        is_new
    }

    /// When to check next, to detect `silence` nanoseconds without packets.
    pub(super) fn next_look(&self, silence: i64) -> Moment {
        let step = (silence / 8).max(NANOS);
        self.at.after(silence).min(self.checked.after(step))
    }
}

/// The traffic of a URR that reports its start or stop (TS 29.244 §5.4.11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrafficDetection {
    /// Neither is reported.
    #[default]
    Off,
    /// None has come yet, or it has stopped.
    Awaited,
    /// Packets come.
    Ongoing(Activity),
    /// The same, and the quotas are lost: what was counted until then is none, but what comes next is a start
    /// (§5.2.2.2.1, NOTE 8).
    Voided(Activity),
    /// The same, and all that was counted until then is known.
    Resumed(Activity),
}

impl TrafficDetection {
    /// Whether the next packet is a start.
    pub(super) const fn is_awaited(self) -> bool {
        matches!(self, Self::Awaited | Self::Voided(_) | Self::Resumed(_))
    }

    pub(super) const fn activity_mut(&mut self) -> Option<&mut Activity> {
        match self {
            Self::Ongoing(activity) | Self::Voided(activity) | Self::Resumed(activity) => Some(activity),
            Self::Off | Self::Awaited => None,
        }
    }

    /// The quotas are lost.
    pub(super) fn void(&mut self) {
        if let Self::Ongoing(activity) = *self {
            *self = Self::Voided(activity);
        }
    }
}
