//! `Node`: a shared node, with a ring of UEs and nodes for each class.

use crate::bucket::Bucket;
use crate::chunks::Fifo;
use crate::ids::Class;
use crate::wheel::Waits;

/// A shared node. What is in its rings was ready when it was put there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) bucket: Bucket,
    /// Of what time the level is.
    pub(crate) since: u64,
    /// Where it waits for its shaper: then it serves nothing. A port waits nowhere.
    pub(crate) waits: Waits,
    /// Bit n: the ring of class n is not empty.
    pub(crate) ready: u8,
    /// Bit n: it is in the ring of class n of its parent.
    pub(crate) joined: u8,
    pub(crate) parent: Option<u16>,
    /// Its port.
    pub(crate) root: u16,
    /// Nodes above it.
    pub(crate) level: u8,
    /// Octets that a packet takes beyond its own.
    pub(crate) overhead: u8,
    /// What a turn is worth, in octets.
    pub(crate) quantum: i32,
    /// Nodes and UEs below it.
    pub(crate) children: u32,
    /// UEs in its rings, in whatever number of them.
    pub(crate) ues: u32,
    /// Octets that its shaper has let pass since [`Manager::take_demands`](crate::Manager::take_demands).
    pub(crate) passed: u64,
    /// Whether its shaper has refused another packet since then.
    pub(crate) has_refused: bool,
    /// By class: octets that are left of a turn.
    pub(crate) deficits: [i32; Class::COUNT],
    pub(crate) rings: [Fifo; Class::COUNT],
}

/// Who is in a ring or a wheel: the kind in the upper bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Ue(u32),
    Shaper(u32),
    Node(u16),
}

const KIND: u32 = 30;
const NUMBER: u32 = (1 << KIND) - 1;

impl Entry {
    #[inline(always)]
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Ue(ue) => ue,
            Self::Shaper(shaper) => shaper | 1 << KIND,
            Self::Node(node) => node as u32 | 2 << KIND,
        }
    }

    #[inline(always)]
    pub(crate) const fn from_number(number: u32) -> Self {
        match number >> KIND {
            0 => Self::Ue(number),
            1 => Self::Shaper(number & NUMBER),
            _ => Self::Node((number & NUMBER) as u16),
        }
    }
}
