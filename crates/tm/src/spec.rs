//! What a manager is made of: its limits, shapers, nodes and queues, and what is wrong with them.

use core::fmt;

use flow::meter::Rate;
use flow::slab::OutOfMemory;

use crate::aqm::AqmTimes;
use crate::aqm::wred::RedCurve;
use crate::ids::{Class, NodeId, QueueId, UeId, WredId};

/// The slots of the fast wheel are this long, in nanoseconds, as a power of two.
pub(crate) const FAST_SHIFT: u32 = 10;
/// Those of the slow one.
pub(crate) const SLOW_SHIFT: u32 = 20;
/// Slots of the fast wheel.
pub(crate) const FAST_SLOTS: usize = 1 << 16;
/// Slots of the slow one.
pub(crate) const SLOW_SLOTS: usize = 1 << 14;
/// What waits as long, in nanoseconds, waits in the slow wheel.
pub(crate) const FAST_REACH: u64 = ((FAST_SLOTS - 2) as u64) << FAST_SHIFT;

/// Bounds of a manager. All memory is taken when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// UE nodes, 1 to 2^24.
    pub ues: u32,
    /// Queues of all UEs, 1 to 2^25. A UE with three takes the room of four, one with five to seven that of eight.
    pub queues: u32,
    /// Of these, those with rates of their own.
    pub shapers: u32,
    /// Shared nodes, 1 to 4096.
    pub nodes: u16,
    /// Packets held, 1 to 2^28.
    pub packets: u32,
    /// Octets held.
    pub pool: u64,
    /// The longest packet in octets, 64 to 16,383.
    pub largest: u16,
    /// Octets that a turn of a UE, or of a queue or node of weight 1, is worth: 64 to 16,383.
    pub quantum: u16,
    /// Losses that wait for the caller, 64 or more.
    pub losses: u32,
    /// Times of active queue management.
    pub aqm: AqmTimes,
}

impl Limits {
    /// Limits for this number of UEs, queues and packets, with a pool of 1 KiB a packet, frames of up to 1,518 octets,
    /// and rates of their own for a quarter of the queues.
    pub const fn new(ues: u32, queues: u32, packets: u32) -> Self {
        Self {
            ues,
            queues,
            shapers: queues.div_ceil(4),
            nodes: 64,
            packets,
            pool: packets as u64 * 1024,
            largest: 1_518,
            quantum: 1_518,
            losses: 1_024,
            aqm: AqmTimes::STANDARD,
        }
    }

    pub(crate) fn check(&self) -> Result<(), TmError> {
        let bounds = [
            ("ues", u64::from(self.ues), 1, 1 << 24),
            ("queues", u64::from(self.queues), 1, 1 << 25),
            ("shapers", u64::from(self.shapers), 0, 1 << 25),
            ("nodes", u64::from(self.nodes), 1, 4_096),
            ("packets", u64::from(self.packets), 1, 1 << 28),
            ("pool", self.pool, 1, u64::from(u32::MAX) << 8),
            ("largest", u64::from(self.largest), 64, 16_383),
            ("quantum", u64::from(self.quantum), 64, 16_383),
            ("losses", u64::from(self.losses), 64, 1 << 20),
        ];
        for (field, value, least, most) in bounds {
            if !(least..=most).contains(&value) {
                return Err(TmError::Limit {
                    field,
                    value,
                    least,
                    most,
                });
            }
        }
        Ok(())
    }
}

/// A shaper: rate and burst of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaper {
    /// The rate. One above 4.29 Tbit/s is no limit.
    pub rate: Rate,
    /// Octets that leave at once after a pause; see [`effective_burst`](Self::effective_burst).
    pub burst: u32,
}

impl Shaper {
    /// No limit.
    pub const UNLIMITED: Self = Self {
        rate: Rate::UNLIMITED,
        burst: 0,
    };

    /// The burst that counts for packets of up to `largest` octets: in any time t, no more than it + rate x t leaves.
    /// It is `burst`, or where that is less, the largest packet and what the rate earns in a slot of the timing wheel
    /// that the shaper waits in: 1.024 us, or where a packet takes over 67 ms at the rate, 1.05 ms.
    pub fn effective_burst(self, largest: u16) -> u32 {
        let kbit = self.rate.kbit();
        let wait = (u64::from(largest) * 8_000_000)
            .checked_div(kbit)
            .unwrap_or(u64::MAX);
        let shift = if wait < FAST_REACH { FAST_SHIFT } else { SLOW_SHIFT };
        let slack = kbit.saturating_mul(1 << shift).div_ceil(8_000_000);
        let least = slack.saturating_add(u64::from(largest));
        self.burst.max(u32::try_from(least).unwrap_or(u32::MAX))
    }
}

/// A shared node. Without a parent it is a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// The node above: a VLAN's is its port, a slice's its VLAN or port, a data network's its slice. At most
    /// [`MOST_LEVELS`] nodes are above each other: these, and a data network's of a slice.
    pub parent: Option<NodeId>,
    /// Its shared shaper.
    pub shaper: Shaper,
    /// Its part among the nodes below the same parent, 1 to 255.
    pub weight: u8,
    /// Octets that a packet takes here beyond its own: 20 for preamble and gap of an Ethernet.
    pub overhead: u8,
}

/// Shared nodes above each other, at most.
pub const MOST_LEVELS: usize = 5;

/// WRED profiles of a manager, at most.
pub const MOST_WRED_PROFILES: usize = 16;

/// A UE's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UeSpec {
    /// The innermost shared node that it is below.
    pub node: NodeId,
    /// Its private shaper: the session AMBR (TS 23.501 §5.7.2.6).
    pub shaper: Shaper,
}

/// Rates of a queue's own: those of a GBR QoS flow (TS 23.501 §5.7.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRates {
    /// What is within the guaranteed rate is of the queue's class.
    pub guaranteed: Option<Shaper>,
    /// What is above the guaranteed rate is of this class.
    pub excess_class: Class,
    /// What is above the maximum rate waits.
    pub maximum: Shaper,
}

/// What a queue does against standing delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aqm {
    /// Nothing: what does not fit is dropped.
    #[default]
    TailDrop,
    /// CoDel (RFC 8289), with ECN.
    CoDel,
    /// The classic queue of a coupled dual queue (RFC 9332). Its low latency queue is at the next place: both are added
    /// at once, and what is sent to this one as ECT(1) or CE is queued in the other.
    DualQueue,
    /// WRED (RFC 2309) with this [profile](crate::Manager::add_wred), with ECN.
    Wred(WredId),
}

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// Strict priority.
    pub class: Class,
    /// Its part among queues of the class, 1 to 255.
    pub weight: u8,
    /// Rates of its own.
    pub rates: Option<QueueRates>,
    /// Whether it is outside the UE's shaper, as GBR flows are.
    pub is_exempt: bool,
    /// Octets that it holds, at most.
    pub cap: u32,
    /// Its share of what the pool has left, as a power of two: -8 to 8. It holds no more than 2^share of that.
    pub share: i8,
    /// Active queue management.
    pub aqm: Aqm,
}

impl QueueSpec {
    /// A queue of this class for up to `cap` octets that drops at its tail.
    pub const fn new(class: Class, cap: u32) -> Self {
        Self {
            class,
            weight: 1,
            rates: None,
            is_exempt: false,
            cap,
            share: 0,
            aqm: Aqm::TailDrop,
        }
    }
}

/// What is wrong with a change of a manager's nodes and queues. It leaves all as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TmError {
    /// A limit is out of its bounds.
    Limit {
        /// The field of [`Limits`].
        field: &'static str,
        /// What it says.
        value: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// The memory cannot be had.
    Memory(OutOfMemory),
    /// There is no such node.
    NoNode(NodeId),
    /// There is no such UE.
    NoUe(UeId),
    /// There is no such queue.
    NoQueue(QueueId),
    /// More than [`MOST_LEVELS`] nodes above each other.
    TooDeep,
    /// A node has more below it than can be removed with it.
    InUse(NodeId),
    /// All nodes of [`Limits::nodes`] are there.
    NodesFull,
    /// All UEs of [`Limits::ues`] are there.
    UesFull,
    /// There is no room for the queue, by [`Limits::queues`].
    QueuesFull,
    /// All queues with rates of their own of [`Limits::shapers`] are there.
    ShapersFull,
    /// A UE has eight queues at most.
    NoPlace(UeId),
    /// A weight of 0.
    Weight,
    /// There is no such WRED profile.
    NoWred(WredId),
    /// All WRED profiles are there.
    WredFull,
    /// A WRED profile is out of its bounds.
    WredBounds,
}

impl fmt::Display for TmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit {
                field,
                value,
                least,
                most,
            } => {
                write!(
                    f,
                    "{field} of a traffic manager is {value}: {least} to {most} are allowed"
                )
            }
            Self::Memory(error) => error.fmt(f),
            Self::NoNode(node) => write!(f, "no shared node {}", node.0),
            Self::NoUe(ue) => write!(f, "no UE node {}", ue.0),
            Self::NoQueue(queue) => write!(f, "no queue {} of UE node {}", queue.place, queue.ue.0),
            Self::TooDeep => write!(f, "more than {MOST_LEVELS} shared nodes above each other"),
            Self::InUse(node) => write!(f, "shared node {} has nodes below it", node.0),
            Self::NodesFull => f.write_str("no shared node is free"),
            Self::UesFull => f.write_str("no UE node is free"),
            Self::QueuesFull => f.write_str("no queues are free"),
            Self::ShapersFull => f.write_str("no private shaper of a queue is free"),
            Self::NoPlace(ue) => write!(f, "UE node {} has all of its 8 queues", ue.0),
            Self::Weight => f.write_str("a weight of 0: 1 to 255 are allowed"),
            Self::NoWred(profile) => write!(f, "no WRED profile {}", profile.0),
            Self::WredFull => write!(f, "all of {MOST_WRED_PROFILES} WRED profiles are there"),
            Self::WredBounds => write!(
                f,
                "a WRED profile is out of its bounds: min below max, max up to {}, one_in of 1 to 255, weight_log2 of 1 \
                 to 12",
                RedCurve::MOST_OCTETS
            ),
        }
    }
}

impl core::error::Error for TmError {}

impl From<OutOfMemory> for TmError {
    fn from(error: OutOfMemory) -> Self {
        Self::Memory(error)
    }
}
