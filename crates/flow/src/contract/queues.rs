//! Queues before ports: what a backend holds so that packets of a session wait for their turn.
//!
//! Terms are those of DPDK's `rte_tm`. A *shared node* is a port, or an instance, a slice or a data network below one,
//! with a shaper that all below it share. Below one of them a session has its *shapers*, each for several of its queues
//! (a Session-AMBR), and its *queues*, some with rates of their own (those of a GBR QoS flow). A queue is of a *class*:
//! its priority, its part among equals, its capacity and its management.
//!
//! A flow names no queue: the queue follows from the slots of the QERs that the flow has ([`Queues::of`]), so it does
//! not change with the forward.

use crate::Nanos;
use crate::flags::flags;
use crate::meter::Rate;

flags! {
    /// What queues of a backend can do against standing delay, beside dropping at their tails.
    Managements(u8) {
        /// CoDel (RFC 8289).
        CODEL = 1;
        /// Coupled dual queues (RFC 9332).
        DUAL_QUEUE = 1 << 1;
        /// WRED (RFC 2309).
        WRED = 1 << 2;
    }
}

/// What a backend has for queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRoom {
    /// Queues of all sessions together.
    pub queues: u32,
    /// Shared nodes: numbers are below this.
    pub nodes: u16,
    /// Packets that may wait.
    pub packets: u32,
    /// Their octets.
    pub octets: u64,
    /// What its queues can do.
    pub managements: Managements,
}

impl QueueRoom {
    /// Whether there can be such a class.
    pub const fn can_be(&self, class: &QueueClass) -> bool {
        class.is_valid() && self.managements.contains(class.management.needs())
    }
}

/// The number of a shared node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedNodeId(pub u16);

/// A shared node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedNode {
    /// The node above; without one it is a port, and no packet waits for one of another port.
    pub parent: Option<SharedNodeId>,
    /// The most that leaves through it.
    pub rate: Rate,
    /// What leaves at once after a pause, octets.
    pub burst: u32,
    /// Its part among the nodes below the same one, from 1.
    pub weight: u8,
    /// Octets that a packet takes here beyond those of its IP packet.
    pub overhead: u8,
}

impl SharedNode {
    /// Nodes above each other, at most.
    pub const MOST_LEVELS: usize = 4;

    /// Whether another one differs in its rate and burst alone.
    pub const fn differs_in_rate_alone(&self, other: &Self) -> bool {
        let is_below_same = match (self.parent, other.parent) {
            (Some(one), Some(other)) => one.0 == other.0,
            (None, None) => true,
            _ => false,
        };
        is_below_same && self.weight == other.weight && self.overhead == other.overhead
    }
}

/// A curve of WRED, by the average of the octets in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedCurve {
    /// Below these octets no packet is hit.
    pub min: u32,
    /// From these on each is dropped.
    pub max: u32,
    /// Just below `max`, of this many packets one is hit; from 1.
    pub one_in: u8,
}

/// What a queue does against standing delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Management {
    /// What does not fit is dropped.
    #[default]
    TailDrop,
    /// What has waited for too long is marked or dropped.
    CoDel,
    /// Two queues: one for senders that heed the marks of L4S.
    DualQueue,
    /// Packets are hit by a chance that grows with the queue.
    Wred {
        /// Of packets within their guaranteed rates, and of those that have none.
        green: RedCurve,
        /// Of packets above their guaranteed rates.
        yellow: RedCurve,
        /// A packet that comes is worth 2^-n in the average.
        weight_log2: u8,
    },
}

impl Management {
    /// What a backend needs for it.
    pub const fn needs(&self) -> Managements {
        match self {
            Self::TailDrop => Managements::NONE,
            Self::CoDel => Managements::CODEL,
            Self::DualQueue => Managements::DUAL_QUEUE,
            Self::Wred { .. } => Managements::WRED,
        }
    }

    /// Whether its numbers are within their bounds.
    pub const fn is_valid(&self) -> bool {
        match self {
            Self::Wred {
                green,
                yellow,
                weight_log2,
            } => {
                green.min < green.max
                    && yellow.min < yellow.max
                    && green.one_in > 0
                    && yellow.one_in > 0
                    && green.max < 1 << 26
                    && yellow.max < 1 << 26
                    && *weight_log2 >= 1
                    && *weight_log2 <= 12
            }
            _ => true,
        }
    }
}

/// A class of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueClass {
    /// 0 goes first: strictly, before every class with a higher number of the same port. Up to 7.
    pub priority: u8,
    /// Its part of what classes of the same priority and shaper get; from 1.
    pub weight: u8,
    /// The most octets that wait in one queue.
    pub octets: u32,
    /// What else limits it.
    pub management: Management,
}

impl QueueClass {
    /// Classes: numbers are below this.
    pub const MOST: u8 = 8;
    /// The highest priority's number.
    pub const LAST_PRIORITY: u8 = 7;

    /// Whether its numbers are within their bounds.
    pub const fn is_valid(&self) -> bool {
        self.priority <= Self::LAST_PRIORITY && self.weight > 0 && self.management.is_valid()
    }
}

/// A rate that queues of a session share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaper {
    /// The slot of the QER whose rate it is: packets that it applies to share it.
    pub qer: u8,
    /// The rate.
    pub maximum: Rate,
    /// How much of it may leave at once after a pause, in milliseconds of the rate.
    pub burst_millis: u16,
}

/// A queue of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The slot of the QER whose mark its packets get, if any.
    pub marking: Option<u8>,
    /// The place of the shaper that it shares, if it shares one.
    pub shaper: Option<u8>,
    /// Its class.
    pub class: u8,
    /// What leaves it with the priority of its class, and the rest with that of the last class; [`Rate::ZERO`]: all
    /// leaves with that of its class.
    pub guaranteed: Rate,
    /// The most that leaves it.
    pub maximum: Rate,
    /// How much of these rates may leave at once after a pause, in milliseconds of the rate.
    pub burst_millis: u16,
}

impl Queue {
    /// Whether it has rates of its own.
    pub fn is_limited(&self) -> bool {
        self.maximum != Rate::UNLIMITED || self.guaranteed != Rate::ZERO
    }
}

/// The queues of a session in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queues {
    /// The shared node that they are below.
    pub node: SharedNodeId,
    /// Up to [`Queues::MOST`] rates that queues share.
    pub shapers: Vec<Shaper>,
    /// 1 to [`Queues::MOST`] queues.
    pub queues: Vec<Queue>,
}

impl Queues {
    /// The most queues, and the most shapers, of a session in one direction.
    pub const MOST: usize = 8;

    /// Whether they name nothing beyond their own.
    pub fn is_valid(&self) -> bool {
        let has_place = |place: u8| usize::from(place) < self.shapers.len();
        let is_slot = |slot: u8| usize::from(slot) < crate::BlockImage::MAX_QERS;
        let is_right = |queue: &Queue| {
            queue.shaper.is_none_or(has_place)
                && queue.marking.is_none_or(is_slot)
                && queue.class < QueueClass::MOST
        };
        (1..=Self::MOST).contains(&self.queues.len())
            && self.shapers.len() <= Self::MOST
            && self.shapers.iter().all(|shaper| is_slot(shaper.qer))
            && self.queues.iter().all(is_right)
    }

    /// The place of the queue for packets of a flow with this marking and these QERs: that for both, else one that
    /// shares their rate, of such preferably one without a maximum of its own, else the first.
    pub fn of(&self, marking: Option<u8>, qers: u64) -> usize {
        let shared = self
            .shapers
            .iter()
            .fold(0, |mask, shaper| mask | 1_u64 << (shaper.qer & 63));
        let shares = |queue: &Queue| {
            let shaper = queue
                .shaper
                .and_then(|place| self.shapers.get(usize::from(place)));
            match shaper {
                Some(shaper) => qers >> (shaper.qer & 63) & 1 == 1,
                None => qers & shared == 0,
            }
        };
        let fitting = || self.queues.iter().enumerate().filter(|(_, queue)| shares(queue));
        let exact = fitting().find(|(_, queue)| queue.marking == marking);
        let free = || fitting().find(|(_, queue)| queue.maximum == Rate::UNLIMITED);
        let found = exact.or_else(free).or_else(|| fitting().next());
        found.map_or(0, |(place, _)| place)
    }

    /// Whether others are the same queues, at whatever rates: packets that wait stay where they are.
    pub fn are_same(&self, other: &Self) -> bool {
        let kind = |queue: &Queue| (queue.marking, queue.shaper, queue.class, queue.is_limited());
        let slots = |of: &Self| -> Vec<u8> { of.shapers.iter().map(|shaper| shaper.qer).collect() };
        self.node == other.node
            && slots(self) == slots(other)
            && self.queues.iter().map(kind).eq(other.queues.iter().map(kind))
    }
}

/// What is left of the rates of a session's queues: millionths of bits, below zero where more has left than was earned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueTokens {
    /// When this was so: more has been earned since.
    pub at: Nanos,
    /// Of each shaper, in their order.
    pub shapers: Vec<i64>,
    /// Of the guaranteed and of the maximum rate of each queue, in their order.
    pub queues: Vec<[i64; 2]>,
}

impl QueueTokens {
    /// Whether there are as many as these queues have.
    pub fn fit(&self, queues: &Queues) -> bool {
        self.shapers.len() == queues.shapers.len() && self.queues.len() == queues.queues.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: Queue = Queue {
        marking: Some(1),
        shaper: Some(0),
        class: 0,
        guaranteed: Rate::ZERO,
        maximum: Rate::UNLIMITED,
        burst_millis: 20,
    };
    const SHAPER: Shaper = Shaper {
        qer: 5,
        maximum: Rate::UNLIMITED,
        burst_millis: 20,
    };

    fn queues(queues: Vec<Queue>) -> Queues {
        Queues {
            node: SharedNodeId(0),
            shapers: vec![SHAPER],
            queues,
        }
    }

    #[test]
    fn a_queue_follows_from_the_slots_of_a_flow() {
        let own = Queue {
            marking: Some(2),
            shaper: None,
            maximum: Rate::from_kbit(100),
            ..QUEUE
        };
        let of = queues(vec![own, QUEUE]);
        assert_eq!(of.of(Some(2), 1 << 2), 0, "by its mark");
        assert_eq!(of.of(Some(1), 1 << 5), 1, "by both");
        assert_eq!(of.of(Some(9), 1 << 5), 1, "shares the rate");
        assert_eq!(of.of(None, 0), 0, "shares none");
    }

    #[test]
    fn what_names_something_beyond_is_not_valid() {
        assert!(queues(vec![QUEUE]).is_valid());
        assert!(!queues(vec![]).is_valid());
        assert!(!queues(vec![QUEUE; 9]).is_valid());
        for wrong in [
            Queue {
                shaper: Some(1),
                ..QUEUE
            },
            Queue {
                marking: Some(64),
                ..QUEUE
            },
            Queue { class: 8, ..QUEUE },
        ] {
            assert!(!queues(vec![wrong]).is_valid(), "{wrong:?}");
        }
    }

    #[test]
    fn queues_at_other_rates_are_the_same() {
        let limited = |kbit| Queue {
            maximum: Rate::from_kbit(kbit),
            ..QUEUE
        };
        assert!(queues(vec![limited(1)]).are_same(&queues(vec![limited(2)])));
        assert!(!queues(vec![limited(1)]).are_same(&queues(vec![QUEUE])));
        assert!(!queues(vec![QUEUE]).are_same(&queues(vec![QUEUE; 2])));
    }
}
