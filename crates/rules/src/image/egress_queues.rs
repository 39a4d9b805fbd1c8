//! The queues in which packets of a session wait before they leave, and the rates at which they leave.

use flow::InstanceId;
use flow::meter::{Chain, Rate};

use crate::model::QerId;

/// The queues of one direction of a session: by what its verdicts say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EgressQueues {
    /// The network instance that packets leave by; of several, that of the first PDR.
    pub instance: InstanceId,
    /// The policers of slices and data networks that shape its packets, the narrowest first.
    pub policers: Chain,
    /// The rates that several queues share: those of QERs of no QoS flow, such as a Session-AMBR.
    pub shapers: Vec<EgressShaper>,
    /// 1 to [`EgressQueues::MAX`] queues. A packet waits in the [first that fits](Self::of).
    pub queues: Vec<EgressQueue>,
}

/// A rate that queues share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EgressShaper {
    /// The QER whose maximum bit rate it is.
    pub qer: QerId,
    /// The slot of that QER.
    pub slot: u8,
    /// The rate.
    pub maximum: Rate,
    /// How much of it may come at once, in milliseconds of the rate.
    pub burst_millis: u64,
}

/// A queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EgressQueue {
    /// The slot of the QER whose mark its packets get, or [`Verdict::NO_MARK`](flow::Verdict::NO_MARK).
    pub marking: u8,
    /// That QER.
    pub qer: Option<QerId>,
    /// The place in [`shapers`](EgressQueues::shapers) of the rate that it shares, if it shares one.
    pub shaper: Option<u8>,
    /// Its class: a place in [`EgressClasses::all`](crate::network::EgressClasses::all).
    pub class: u8,
    /// What leaves it before others of its session get anything; [`Rate::ZERO`]: nothing is guaranteed.
    pub guaranteed: Rate,
    /// The most that leaves it; all, if it is [`Rate::UNLIMITED`].
    pub maximum: Rate,
    /// How much of these rates may come at once, in milliseconds of the rate.
    pub burst_millis: u64,
}

impl EgressQueue {
    /// Whether it has rates of its own.
    pub fn is_limited(&self) -> bool {
        self.maximum != Rate::UNLIMITED || self.guaranteed != Rate::ZERO
    }
}

impl EgressQueues {
    /// The most queues of a session in one direction.
    pub const MAX: usize = 8;

    /// The slots of the QERs whose rates queues share: bit n is slot n.
    pub fn shared_slots(&self) -> u64 {
        let slots = self.shapers.iter().map(|shaper| 1 << (shaper.slot & 63));
        slots.fold(0, |mask, slot: u64| mask | slot)
    }

    /// The place of the queue for packets that get the mark of the QER in slot `marking` and that these QERs apply to:
    /// that for both, else one that shares their rate, of such preferably one without rates of its own, else the first.
    pub fn of(&self, marking: u8, qers: u64) -> usize {
        let shares = |queue: &EgressQueue| {
            let shaper = queue
                .shaper
                .and_then(|place| self.shapers.get(usize::from(place)));
            match shaper {
                Some(shaper) => qers >> (shaper.slot & 63) & 1 == 1,
                None => qers & self.shared_slots() == 0,
            }
        };
        let fitting = self.queues.iter().enumerate().filter(|(_, queue)| shares(queue));
        let exact = fitting.clone().find(|(_, queue)| queue.marking == marking);
        let free = || {
            fitting
                .clone()
                .find(|(_, queue)| queue.maximum == Rate::UNLIMITED)
        };
        let found = exact.or_else(free).or_else(|| fitting.clone().next());
        found.map_or(0, |(place, _)| place)
    }
}
