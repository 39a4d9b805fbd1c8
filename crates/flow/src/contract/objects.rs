//! What a backend holds for a session, and the names of all that it holds.

use std::net::IpAddr;

use super::network::{Adjacency, Instance, PathMtu, Route, RoutePrefix};
use super::queues::{QueueClass, QueueTokens, Queues, SharedNode, SharedNodeId};
use crate::entry::FlowFlags;
use crate::meter::{Chain, MeterSpec, MeterState, Rate, SharedId};
use crate::{
    AdjacencyId, Bounds, ContentId, Direction, FlowKey4, FlowKey6, Forward, InstanceId, KeyFields, Mark, Nat,
    SessionIndex,
};

/// A flow's key, of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnyKey {
    /// IPv4.
    V4(FlowKey4),
    /// IPv6.
    V6(FlowKey6),
}

impl AnyKey {
    /// Which fields take part.
    pub const fn fields(&self) -> KeyFields {
        match self {
            Self::V4(key) => key.fields,
            Self::V6(key) => key.fields,
        }
    }
}

/// A decision: a [`FlowEntry`](crate::FlowEntry) without what is the local backend's own affair. The slots are those
/// of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// What packets match.
    pub key: AnyKey,
    /// The QERs that apply.
    pub qers: u64,
    /// The URRs that count.
    pub urrs: u64,
    /// How long it may idle, in ticks.
    pub idle: u16,
    /// What kind of flow this is.
    pub flags: FlowFlags,
    /// The slot of the forward.
    pub forward: u8,
    /// The slot of the QER that marks, if any.
    pub marking: Option<u8>,
    /// What a NAT does to its packets, which are IPv4 and have one 5-tuple: that of the key.
    pub nat: Option<Nat>,
    /// The content that its packets count as, if any.
    pub content: ContentId,
    /// The generation of its session that it was decided in.
    pub generation: u32,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterKind {
    /// Packets before gates and meters; else those that leave. The slots of these are behind those of all others.
    pub before_qos: bool,
    /// One for each packet ([`UrrCount::events`](crate::UrrCount::events)), and not its octets.
    pub events: bool,
    /// Of a counter `before_qos`: its packets count with a multiple of their octets in another one that counts after
    /// QoS and that their flow names, too. A counter for which there are weights counts what has none as nothing;
    /// several add up.
    pub weight: Option<CounterWeight>,
}

/// How packets of one counter count in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterWeight {
    /// The slot of the other counter.
    pub of: u8,
    /// How many times.
    pub times: u16,
}

/// Whose order a request keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The node's: behind all requests before it, and before all behind it, of whichever session.
    Node,
    /// That of a session.
    Session(SessionIndex),
}

/// Something that a backend holds: for a session, or, from [`Object::Instance`] on, for the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A flow.
    Flow(Flow),
    /// A FAR.
    Forward {
        /// Its slot.
        slot: u8,
        /// What it does.
        forward: Forward,
    },
    /// A QER's marking and gates.
    Qer {
        /// Its slot.
        slot: u8,
        /// What it marks packets with.
        mark: Mark,
        /// Its closed gates, by [`Direction`].
        closed: [bool; 2],
        /// In which directions it has a meter: flows that pass it need that meter here.
        metered: [bool; 2],
    },
    /// The meter of a QER in one direction.
    Meter {
        /// The QER's slot.
        qer: u8,
        /// The direction.
        direction: Direction,
        /// What it polices to.
        spec: MeterSpec,
        /// What it held at its last home; else it starts full. `Update` without it continues with what it holds, as far
        /// as it fits.
        state: Option<MeterState>,
    },
    /// A URR's counter.
    Counter {
        /// Its slot.
        slot: u8,
        /// What it counts. It stays: `Update` with another is refused.
        kind: CounterKind,
        /// Where it raises [`Event::Watermark`](super::Event::Watermark) and [`Event::Limit`](super::Event::Limit),
        /// once, and acts. Counted from its last `Install` or `Update`.
        bounds: Bounds,
    },
    /// The generation of the session's flows; without one it is 0. A flow of another is refused, and an `Update` to
    /// another removes all flows that are there.
    Generation(u32),
    /// The shared meter, or the chain of them, that all packets of a session pass beside those of its QERs.
    Share(SharedId),
    /// The queues in which packets of one direction wait. They begin full of tokens where none are given.
    Queues {
        /// The direction.
        direction: Direction,
        /// The queues.
        queues: Box<Queues>,
        /// What was left of their rates elsewhere. `Update` without it continues with what there is.
        tokens: Option<Box<QueueTokens>>,
    },
    /// A network instance.
    Instance {
        /// Its number.
        id: InstanceId,
        /// What it is.
        instance: Box<Instance>,
    },
    /// A route.
    Route(Route),
    /// A neighbour or a path.
    Adjacency {
        /// Its number, which forwards and routes have.
        id: AdjacencyId,
        /// What it is.
        adjacency: Adjacency,
    },
    /// How long packets to a peer may be.
    PathMtu(PathMtu),
    /// A meter that sessions share: the backend's share of a rate that is enforced in several places. What it holds
    /// stays at an `Update`, as far as it fits.
    SharedMeter {
        /// Its number, from 1.
        id: SharedId,
        /// The rate of each [`Direction`].
        rates: [Rate; 2],
        /// The burst of each, octets.
        bursts: [u64; 2],
    },
    /// The shared meters that sessions pass which name this number, in the place of its own one.
    SharedChain {
        /// The number.
        id: SharedId,
        /// The meters.
        chain: Chain,
    },
    /// A class of queues. It stays as it is while a session has queues.
    QueueClass {
        /// Its number, below [`QueueClass::MOST`].
        id: u8,
        /// What it is.
        class: QueueClass,
    },
    /// A shared node, which stays below the same one, with the same weight: `Update` sets its rate.
    SharedNode {
        /// Its number.
        id: SharedNodeId,
        /// What it is.
        node: SharedNode,
    },
}

impl Object {
    /// Its name.
    pub const fn id(&self) -> ObjectId {
        match self {
            Self::Flow(flow) => ObjectId::Flow(flow.key),
            Self::Forward { slot, .. } => ObjectId::Forward(*slot),
            Self::Qer { slot, .. } => ObjectId::Qer(*slot),
            Self::Meter { qer, direction, .. } => ObjectId::Meter(*qer, *direction),
            Self::Counter { slot, .. } => ObjectId::Counter(*slot),
            Self::Generation(_) => ObjectId::Generation,
            Self::Share(_) => ObjectId::Share,
            Self::Instance { id, .. } => ObjectId::Instance(*id),
            Self::Route(route) => ObjectId::Route(route.prefix),
            Self::Adjacency { id, .. } => ObjectId::Adjacency(*id),
            Self::PathMtu(PathMtu { local, peer, .. }) => ObjectId::PathMtu(*local, *peer),
            Self::SharedMeter { id, .. } => ObjectId::SharedMeter(*id),
            Self::SharedChain { id, .. } => ObjectId::SharedChain(*id),
            Self::Queues { direction, .. } => ObjectId::Queues(*direction),
            Self::QueueClass { id, .. } => ObjectId::QueueClass(*id),
            Self::SharedNode { id, .. } => ObjectId::SharedNode(*id),
        }
    }
}

/// The name of what a backend holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectId {
    /// A flow.
    Flow(AnyKey),
    /// The forward in a slot.
    Forward(u8),
    /// The QER in a slot: marking and gates.
    Qer(u8),
    /// The meter of the QER in a slot, of one direction.
    Meter(u8, Direction),
    /// The counter in a slot.
    Counter(u8),
    /// The generation of the session's flows.
    Generation,
    /// The shared meter of the session.
    Share,
    /// The queues of the session in a direction.
    Queues(Direction),
    /// All flows of the session, which has none then; what they name stays.
    Flows,
    /// What the session has counted of contents. `Query` takes it: it begins from nothing. What was not taken
    /// when the session was removed is lost: first go the flows, then this is asked for, then the session goes.
    Contents,
    /// All that the session has.
    Session,
    /// A network instance.
    Instance(InstanceId),
    /// The route of a prefix.
    Route(RoutePrefix),
    /// A neighbour or a path.
    Adjacency(AdjacencyId),
    /// The path between an own address and a peer's.
    PathMtu(IpAddr, IpAddr),
    /// A shared meter.
    SharedMeter(SharedId),
    /// The chain of a number.
    SharedChain(SharedId),
    /// A class of queues.
    QueueClass(u8),
    /// A shared node.
    SharedNode(SharedNodeId),
}

impl ObjectId {
    /// Whether the node has it, and no session.
    pub const fn is_of_node(&self) -> bool {
        matches!(
            self,
            Self::Instance(_)
                | Self::Route(_)
                | Self::Adjacency(_)
                | Self::PathMtu(..)
                | Self::SharedMeter(_)
                | Self::SharedChain(_)
                | Self::QueueClass(_)
                | Self::SharedNode(_)
        )
    }
}
