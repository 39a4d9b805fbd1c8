//! When packets of a URR came, and whether its traffic goes on.

use super::NANOS;
use crate::Moment;

/// When packets were last known to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// When it was seen that some had come since it was seen before.
    pub at: Moment,
    /// How many had come since the last report.
    pub packets: u64,
    /// When it was last looked.
    pub looked: Moment,
}

impl Heard {
    pub(super) fn from(now: Moment, packets: u64) -> Self {
        Self {
            at: now,
            packets,
            looked: now,
        }
    }

    /// Takes note of how many packets there are; whether there are more than before.
    pub(super) fn hears(&mut self, packets: u64, now: Moment) -> bool {
        self.looked = now;
        let is_new = self.packets != packets;
        if is_new {
            (self.at, self.packets) = (now, packets);
        }
        is_new
    }

    /// When to look next, to find `silence` of so many nanoseconds.
    pub(super) fn next_look(&self, silence: i64) -> Moment {
        let step = (silence / 8).max(NANOS);
        self.at.after(silence).min(self.looked.after(step))
    }
}

/// The traffic of a URR that is to tell of its start or stop (TS 29.244 §5.4.11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Traffic {
    /// Nobody wants to know.
    #[default]
    Unwatched,
    /// None has come yet, or it has stopped.
    Awaited,
    /// It goes on.
    On(Heard),
    /// The same, and the quotas are lost: what was counted until then is none, but what comes next is a start
    /// (§5.2.2.2.1, NOTE 8).
    Voided(Heard),
    /// The same, and all that was counted until then is known.
    Again(Heard),
}

impl Traffic {
    /// Whether the next packet is a start.
    pub(super) const fn is_awaited(self) -> bool {
        matches!(self, Self::Awaited | Self::Voided(_) | Self::Again(_))
    }

    pub(super) const fn heard(&mut self) -> Option<&mut Heard> {
        match self {
            Self::On(heard) | Self::Voided(heard) | Self::Again(heard) => Some(heard),
            Self::Unwatched | Self::Awaited => None,
        }
    }

    /// The quotas are lost.
    pub(super) fn void(&mut self) {
        if let Self::On(heard) = *self {
            *self = Self::Voided(heard);
        }
    }
}
