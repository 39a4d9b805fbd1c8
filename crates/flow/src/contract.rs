//! The FlowOp contract: how flows and what they name are given to what runs the fast path.
//!
//! The local backend is the typed methods of [`FlowTable`](crate::FlowTable) and [`Blocks`](crate::Blocks); these types
//! are what the same calls look like on the way to a backend elsewhere (a SmartNIC, a program in the kernel, another
//! core), and [`Backend`] is how such a one is driven. There is none yet but [`local_backend`](crate::local_backend),
//! so nothing here is encoded or sent. One suite, `tests/conformance`, holds every backend to what follows.
//!
//! # What a backend promises
//!
//! - Requests of one session take effect in the order in which they were given; of different sessions, in any order.
//! - A request takes effect whole or not at all; its [`Reply`] says which, once.
//! - [`FlowOp::Fence`] is answered when no packet can meet anything older than what was given before it.
//! - What a flow names has to be there before it ([`Refusal::Missing`]), and stays as long as it
//!   ([`Refusal::InUse`]).
//! - `Update` and `Remove` of a counter answer with its final counts; after `Update` it counts from zero. Every packet
//!   is counted exactly once, here or there, within the backend's [`Exactness`].
//! - A limit on a counter acts by itself, at the packet that does not fit under it: the event may come later.
//! - Meters are asked together, and charged all or none. They are asked after gates, stopped counters and the action
//!   of the forward; what they let pass is counted.
//! - A meter has one home: a flow is taken only with all meters of its QERs. `Remove` of a meter returns what it holds,
//!   and `Install` elsewhere continues with that.
//! - BUFF always traps to the host.
//! - A request with an [`Epoch`] other than the backend's is refused, also one that it had not come to. The epoch
//!   changes when the backend loses its state ([`Event::BackendReset`]), so that no request meant for the old state
//!   meets the new.
//!
//! # What it does not promise
//!
//! A session that needs a key field, an action or an exactness that a backend lacks stays in software. Replies and
//! events of different sessions come in any order. Meters that sessions share are the host's affair: flows under them
//! stay in software.

use crate::entry::FlowFlags;
use crate::flags::flags;
use crate::meter::{Colour, MeterSpec, MeterState};
use crate::{
    Bounds, Direction, FlowKey4, FlowKey6, Forward, ForwardKind, KeyFields, LimitAction, Mark, Nanos, Nat,
    OpId, SessionIndex, UrrCount,
};

/// Which life of a backend's state a request is meant for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

/// One request to a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// By which the reply is known.
    pub id: OpId,
    /// The life of the backend's state that it is meant for.
    pub epoch: Epoch,
    /// The session whose order it keeps.
    pub session: SessionIndex,
    /// What to do.
    pub op: FlowOp,
}

/// What can be asked of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowOp {
    /// Add an object that is not there.
    Install(Object),
    /// Change an object that is there.
    Update(Object),
    /// Take an object away; a flow with its counts.
    Remove(ObjectId),
    /// Read counts, which continue.
    Query(ObjectId),
    /// Answer when everything before it, of this session, is what every packet meets.
    Fence,
}

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
}

/// Something that a backend holds for a session.
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
        /// Where it raises [`Event::Watermark`] and [`Event::Limit`], once, and acts. Counted from its last `Install`
        /// or `Update`.
        bounds: Bounds,
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
    /// All that the session has.
    Session,
}

/// The one answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request's.
    pub id: OpId,
    /// What became of it.
    pub outcome: Result<Outcome, Refusal>,
}

/// What a request that took effect gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to report.
    Done,
    /// Counts by slot: final ones for `Update` and `Remove`, passing ones for `Query`.
    Counts(Vec<(u8, UrrCount)>),
    /// What a meter holds: finally after `Remove`, in passing after `Query`.
    Meter(MeterState),
}

/// Why a request took no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It asks for what is not among the [`Capabilities`].
    Unsupported,
    /// No room.
    Full,
    /// `Install` of what is there.
    Exists,
    /// `Update`, `Remove` or `Query` of what is not there, or a flow that names what is not there.
    Missing,
    /// `Remove` of what a flow names.
    InUse,
    /// It was meant for another epoch.
    OtherEpoch,
}

/// What a backend reports without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A flow idled for too long and is gone.
    Aged {
        /// Whose it was.
        session: SessionIndex,
        /// Which it was.
        key: AnyKey,
        /// Its final counts by slot, where the backend counts by flow.
        counts: Vec<(u8, UrrCount)>,
    },
    /// A counter passed its watermark. Raised once for each watermark that is set.
    Watermark {
        /// Whose it is.
        session: SessionIndex,
        /// Which it is.
        counter: u8,
    },
    /// A counter reached its limit, which acts since then.
    Limit {
        /// Whose it is.
        session: SessionIndex,
        /// Which it is.
        counter: u8,
        /// The direction of the packet that reached it.
        direction: Direction,
    },
    /// A packet that matched nothing went to the slow path.
    Miss {
        /// What it would have matched.
        key: AnyKey,
    },
    /// The backend lost its state: nothing that it was given is there any more.
    BackendReset {
        /// The epoch of the new, empty state.
        epoch: Epoch,
    },
}

flags! {
    /// What a backend can do with a packet.
    Actions(u16) {
        /// Removes the outer GTP-U, UDP and IP header.
        DECAPSULATE = 1;
        /// Adds an outer header over IPv4.
        ENCAPSULATE_V4 = 1 << 1;
        /// Adds an outer header over IPv6.
        ENCAPSULATE_V6 = 1 << 2;
        /// Adds a PDU Session Container.
        MARK = 1 << 3;
        /// From tunnel to tunnel, with extension headers created again.
        KEEP_EXTENSIONS = 1 << 4;
        /// Drops at closed gates.
        GATE = 1 << 5;
        /// Polices to a rate.
        METER = 1 << 6;
        /// Copies to the mirror of a forward.
        MIRROR = 1 << 7;
        /// Rewrites addresses and ports.
        NAT = 1 << 8;
    }
}

/// Which octets a backend counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteBasis {
    /// The inner IP packet, as charging wants it.
    InnerIp,
    /// The frame as it came or went: the difference per packet has to be known and taken off.
    Frame,
}

/// How exactly a backend counts when it loses its state, or a flow moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// Every packet is counted once.
    Exact,
    /// At most this many packets may be lost from the counts.
    Bounded {
        /// Packets.
        loss: u32,
    },
}

/// What a backend can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Fields that may take part in a key.
    pub key_fields: KeyFields,
    /// What it can do with a packet.
    pub actions: Actions,
    /// IPv4 flows that it can hold.
    pub ipv4_flows: u32,
    /// IPv6 flows that it can hold.
    pub ipv6_flows: u32,
    /// Sessions that it can hold.
    pub sessions: u32,
    /// URRs that one flow may count in.
    pub counters_per_flow: u8,
    /// QERs that one flow may pass.
    pub qers_per_flow: u8,
    /// What octets mean.
    pub byte_basis: ByteBasis,
    /// Whether counters can have watermarks and limits.
    pub limits: bool,
    /// Whether `Fence` is answered.
    pub fence: bool,
    /// How exactly it counts.
    pub exactness: Exactness,
}

impl Capabilities {
    /// What the local backend can do when its tables have these sizes.
    pub const fn local(ipv4_flows: u32, ipv6_flows: u32, sessions: u32) -> Self {
        Self {
            key_fields: KeyFields::from_bits(0x3f),
            actions: Actions::from_bits(0x1ff),
            ipv4_flows,
            ipv6_flows,
            sessions,
            counters_per_flow: 64,
            qers_per_flow: 64,
            byte_basis: ByteBasis::InnerIp,
            limits: true,
            fence: true,
            exactness: Exactness::Exact,
        }
    }

    /// Whether `forward` can be given to it, as far as its mirror goes.
    pub const fn can_mirror(&self, forward: &Forward) -> bool {
        forward.mirror.is_none() || self.actions.contains(Actions::MIRROR)
    }

    /// Whether `flow`, which needs `actions` beside a NAT, can be given to it.
    pub const fn can_hold(&self, flow: &Flow, actions: Actions) -> bool {
        let room = match flow.key {
            AnyKey::V4(_) => self.ipv4_flows > 0,
            AnyKey::V6(_) => self.ipv6_flows > 0,
        };
        let can_translate = match flow.key {
            AnyKey::V4(key) => key.fields.contains(KeyFields::TUPLE) && self.actions.contains(Actions::NAT),
            AnyKey::V6(_) => false,
        };
        room && (flow.nat.is_none() || can_translate)
            && self.key_fields.contains(flow.key.fields())
            && self.actions.contains(actions)
            && flow.urrs.count_ones() <= self.counters_per_flow as u32
            && flow.qers.count_ones() <= self.qers_per_flow as u32
    }
}

/// How a backend is driven. It does nothing by itself: all happens within these calls.
pub trait Backend {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// The life of its state.
    fn epoch(&self) -> Epoch;

    /// Gives it a request, which takes effect at some later `poll`.
    fn submit(&mut self, request: Request);

    /// Lets it work for a moment, and returns what it has to report. `None` does not mean that it has finished.
    fn poll(&mut self, now: Nanos) -> Option<Notice>;

    /// Passes a packet of `octets` octets (of the inner IP packet) through the flow with this key.
    fn process(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate;

    /// Makes it lose its state, as a failure of it would.
    fn reset(&mut self);
}

/// What a backend reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A request is done, or refused.
    Reply(Reply),
    /// Something happened.
    Event(Event),
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No flow has this key.
    Missed,
    /// It is counted and leaves.
    Passed {
        /// How.
        forward: Forward,
        /// What it is marked with.
        mark: Mark,
        /// The worst colour that its meters gave it.
        colour: Colour,
        /// What a NAT does to it.
        nat: Option<Nat>,
    },
    /// It goes to the host's slow path, uncounted.
    Trapped(Why),
    /// It is dropped, uncounted.
    Dropped(Why),
}

/// Why a packet does not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The action of its forward.
    Action,
    /// A closed gate.
    Gate,
    /// A meter.
    Meter,
    /// A counter's limit.
    Limit,
}

impl Fate {
    /// What a limit makes of a packet.
    pub(crate) const fn of_limit(action: LimitAction) -> Self {
        match action {
            LimitAction::Trap => Self::Trapped(Why::Limit),
            _ => Self::Dropped(Why::Limit),
        }
    }

    /// What a forward's action makes of a packet that does not leave.
    pub(crate) const fn of_action(kind: ForwardKind) -> Option<Self> {
        match kind {
            ForwardKind::Tunnel | ForwardKind::Plain => None,
            ForwardKind::Buffer | ForwardKind::Punt | ForwardKind::Unchanged | ForwardKind::Redirect => {
                Some(Self::Trapped(Why::Action))
            }
            ForwardKind::Drop => Some(Self::Dropped(Why::Action)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_needs_more_stays_in_software() {
        let flow = Flow {
            key: AnyKey::V4(FlowKey4 {
                fields: KeyFields::TUPLE | KeyFields::QFI,
                ..FlowKey4::default()
            }),
            qers: 0b11,
            urrs: 0b101,
            idle: 1,
            flags: FlowFlags::DOWNLINK,
            forward: 0,
            marking: Some(0),
            nat: None,
        };
        let actions = Actions::ENCAPSULATE_V4 | Actions::MARK | Actions::GATE;
        let local = Capabilities::local(1000, 1000, 10);
        assert!(local.can_hold(&flow, actions));
        assert!(local.can_hold(&flow, actions | Actions::METER));
        let translated = Flow {
            nat: Some(Nat::default()),
            ..flow
        };
        let without_nat = Capabilities {
            actions: Actions::from_bits(local.actions.bits() & !Actions::NAT.bits()),
            ..local
        };
        assert!(local.can_hold(&translated, actions) && without_nat.can_hold(&flow, actions));
        assert!(!without_nat.can_hold(&translated, actions));
        assert!(!without_nat.can_hold(&flow, actions | Actions::NAT));
        for key in [
            AnyKey::V4(FlowKey4 {
                fields: KeyFields::ADDRESS,
                ..FlowKey4::default()
            }),
            AnyKey::V6(FlowKey6 {
                fields: KeyFields::TUPLE,
                ..FlowKey6::default()
            }),
        ] {
            assert!(!local.can_hold(&Flow { key, ..translated }, actions));
        }
        assert!(
            !Capabilities {
                counters_per_flow: 1,
                ..local
            }
            .can_hold(&flow, actions)
        );
        assert!(
            !Capabilities {
                qers_per_flow: 1,
                ..local
            }
            .can_hold(&flow, actions)
        );
        assert!(
            !Capabilities {
                key_fields: KeyFields::TUPLE,
                ..local
            }
            .can_hold(&flow, actions)
        );
        assert!(
            !Capabilities {
                ipv4_flows: 0,
                ..local
            }
            .can_hold(&flow, actions)
        );
    }
}
