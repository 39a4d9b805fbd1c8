//! What the log is given, and what it answers. Times are milliseconds since 1970 (UTC).

use std::net::Ipv4Addr;

use flow::VrfId;
use nat::pools::PortBlock;

/// Who holds a block. Texts that are too long are cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The UE's own address.
    pub inside: Ipv4Addr,
    /// The session: the SEID that this node has given it.
    pub seid: u64,
    /// IMSI or SUPI, at most [`MOST_SUBSCRIBER`](Self::MOST_SUBSCRIBER) octets.
    pub subscriber: String,
    /// Data network name, at most [`MOST_DNN`](Self::MOST_DNN) octets.
    pub dnn: String,
    /// The network instance by which translated packets leave, at most [`MOST_INSTANCE`](Self::MOST_INSTANCE) octets:
    /// the number of its address space is another after some changes of the configuration.
    pub instance: String,
}

impl Holder {
    /// The longest subscriber, octets.
    pub const MOST_SUBSCRIBER: usize = 64;
    /// The longest data network name, octets (TS 23.003 §9.1).
    pub const MOST_DNN: usize = 100;
    /// The longest name of a network instance, octets.
    pub const MOST_INSTANCE: usize = 100;
}

/// A block that a session holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Since when.
    pub since_ms: u64,
    /// The address space of the block.
    pub vrf: VrfId,
    /// The block.
    pub block: PortBlock,
    /// Who holds it.
    pub holder: Holder,
}

/// What happened to a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A session got it. A session that held it by the log holds it no longer.
    Assigned(Assignment),
    /// Its session gave it back.
    Released {
        /// When: the first moment at which the session held it no longer.
        at_ms: u64,
        /// The address space of the block.
        vrf: VrfId,
        /// The block.
        block: PortBlock,
        /// Who held it, for collectors: the log goes by what it has.
        holder: Holder,
    },
    /// A session holds it at this time, as is reported of all blocks that are held when events were lost
    /// ([`NatLog::lose`](crate::NatLog::lose)). An assignment that the log has keeps the start it has there.
    Held(Assignment),
}

impl Event {
    /// When it happened.
    pub fn at_ms(&self) -> u64 {
        match self {
            Event::Assigned(assignment) | Event::Held(assignment) => assignment.since_ms,
            Event::Released { at_ms, .. } => *at_ms,
        }
    }
}

/// A time of which not all events are in the log: they were lost, or it is not known whether there were any, as when
/// the process or the machine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first moment of which not all is known.
    pub from_ms: u64,
    /// The first moment behind it of which all is known again. None: it is not known yet.
    pub to_ms: Option<u64>,
    /// How many events are known to be lost. 0 where that is not known.
    pub lost: u64,
}

/// What the log says of a port at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who held it by what is in the log. An assignment whose beginning is lost is there from when it was reported as
    /// held, one whose end is lost up to the beginning of the gap.
    pub found: Option<Found>,
    /// The time is in this gap: what was found, or that nothing was, is not certain.
    pub gap: Option<Gap>,
    /// What was found was there before the gap and still is behind it, by the file that has the end of the gap.
    pub is_held_around_gap: bool,
}

/// The assignment that was in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The block, who held it, and since when.
    pub assignment: Assignment,
    /// The first moment at which it was no longer held. None: it was held at the end of the period that was asked for,
    /// or still is.
    pub until_ms: Option<u64>,
}
