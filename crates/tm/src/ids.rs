//! Numbers of what a manager holds, and what is said of a packet.

/// A shared node: a port, or a VLAN, slice or data network below one. Dense from 0, in the order of making.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

/// A UE's node, of one session. A number is used again some time after its UE was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UeId(pub u32);

/// A queue: the UE's node, and the place below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId {
    /// The UE.
    pub ue: UeId,
    /// 0 to 7.
    pub place: u8,
}

/// Where a queue is: [`Manager::line_of`](crate::Manager::line_of). Who has it queues packets without a look at the UE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueLine(pub u32);

/// A WRED profile, dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WredId(pub u8);

/// The number of a packet that is held: below [`Limits::packets`](crate::Limits::packets). The caller keeps what it
/// knows of the packet under this number until the manager gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// The number as an index into an array.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A traffic class: 0, the highest priority, to 7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u8);

impl Class {
    /// How many there are.
    pub const COUNT: usize = 8;

    /// The class of a number from 0 to 7; what is beyond is 7.
    pub const fn new(number: u8) -> Self {
        Self(if number < 8 { number } else { 7 })
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The ECN field of an IP header (RFC 3168 §5), by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not know ECN.
    #[default]
    NotEct = 0,
    /// ECT(1): it is a scalable one (RFC 9331 §4.1).
    Ect1 = 1,
    /// ECT(0).
    Ect0 = 2,
    /// Congestion was experienced.
    Ce = 3,
}

impl Ecn {
    /// The field of these two bits; others do not count.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// Why a packet is refused, or lost after it was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LossReason {
    /// There is no such queue.
    NoQueue,
    /// The packet is longer than the manager is made for, or has no octet.
    Length,
    /// The queue holds as many octets as it may.
    QueueFull,
    /// The queue has its share of what is left of the pool.
    PoolShare,
    /// The pool has no room for another packet.
    PoolFull,
    /// A yellow packet made room for a green one of its queue.
    PushedOut,
    /// Active queue management dropped it: it had waited too long, or has found a queue too long on average, and a mark
    /// could not take the place of that.
    Aqm,
}

impl LossReason {
    /// How many there are.
    pub const COUNT: usize = 7;

    /// Every reason, in the order of its number.
    pub const ALL: [Self; Self::COUNT] = [
        Self::NoQueue,
        Self::Length,
        Self::QueueFull,
        Self::PoolShare,
        Self::PoolFull,
        Self::PushedOut,
        Self::Aqm,
    ];
}
