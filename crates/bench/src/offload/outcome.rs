//! What a run found.

use serde::Serialize;

use super::super::clock::Spread;
use super::delay::AcceleratorDelay;

/// First packets of flows of sessions that are away: the host decides about each, by its first octets or the whole of
/// it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Installs {
    /// Flows.
    pub flows: u64,
    /// Nanoseconds a flow that the accelerator takes, its port subtracted.
    pub accelerator: Spread,
    /// Nanoseconds a flow that the host takes.
    pub host: Spread,
    /// Nanoseconds a flow of a worker that is alone.
    pub local: Spread,
}

impl Installs {
    /// Flows a second, each end on a core of its own.
    #[must_use]
    pub fn rate(&self) -> f64 {
        1e9 / self.accelerator.median.max(self.host.median).max(0.001)
    }

    /// That rate, of the one of a worker that is alone.
    #[must_use]
    pub fn of_local(&self) -> f64 {
        self.rate() * self.local.median / 1e9
    }

    /// The share of the accelerator's core that as many flows a second take.
    #[must_use]
    pub fn share_at(&self, rate: u32) -> f64 {
        f64::from(rate) * self.accelerator.median / 1e9
    }
}

/// Established traffic with new flows and without, in turn.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Beside {
    /// Nanoseconds a packet of established flows, without new ones.
    pub without: Spread,
    /// The same with new flows: what they take is in it.
    pub with: Spread,
    /// The rate with new flows, of that without, in pairs.
    pub kept: Spread,
    /// New flows a second of the accelerator's time.
    pub rate: f64,
    /// Nanoseconds a packet of a worker that is alone, with as many flows.
    pub alone: Spread,
    /// Packets that were dropped, and that should have passed.
    pub dropped: u64,
}

/// What sessions have counted when control frames were lost.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counted {
    /// Packets that passed at the accelerator.
    pub passed: u64,
    /// Those that sessions have counted.
    pub counted: u64,
    /// Control frames that were lost.
    pub control_lost: u64,
    /// Contacts: one, where none was lost.
    pub contacts: u64,
}

/// One end of an accelerator's process under traffic; another one begins at once.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ended {
    /// Packets that passed, before and after.
    pub passed: u64,
    /// Those that sessions have counted.
    pub counted: u64,
    /// Milliseconds until a packet passed again, and until nine of ten that came in did.
    pub first_ms: f64,
    /// See [`first_ms`](Self::first_ms).
    pub most_ms: f64,
}

/// All parts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Offloaded {
    /// Sessions, all away.
    pub sessions: u32,
    /// Flow entries at the accelerator.
    pub flows: usize,
    /// New flows a second that were asked for.
    pub asked_rate: u32,
    /// First packets.
    pub installs: Installs,
    /// First packets where the accelerator asks nothing, and gives them to the host whole.
    pub installs_whole: Installs,
    /// Established traffic.
    pub beside: Beside,
    /// One control frame of a hundred lost, each way.
    pub lossy: Counted,
    /// Ends of the accelerator.
    pub ended: Vec<Ended>,
    /// Packets whose counts may be lost with an accelerator, by its capabilities.
    pub bound: u32,
    /// Delays through it.
    pub delay: AcceleratorDelay,
}
