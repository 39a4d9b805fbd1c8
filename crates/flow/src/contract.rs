//! The FlowOp contract: how flows and what they name are given to what runs the fast path.
//!
//! The local backend is the typed methods of [`FlowTable`](crate::FlowTable) and [`Blocks`](crate::Blocks); these types
//! are what the same calls look like on the way to a backend elsewhere (a SmartNIC, a program in the kernel, another
//! core), and [`Backend`] is how such a one is driven. Crate `offload` has the one that is driven in-band. One suite,
//! `conformance`, holds every backend to what follows.
//!
//! # What a backend promises
//!
//! - Requests of one session take effect in the order in which they were given; of different sessions, in any order.
//!   Those of the node ([`Subject::Node`]) keep their order with all others.
//! - A request takes effect whole or not at all; its [`Reply`] says which, once.
//! - [`FlowOp::Fence`] is answered when no packet can meet anything older than what was given before it: of its
//!   session, or, where it is the node's, of all.
//! - What a flow names has to be there before it ([`Refusal::Missing`]), and stays as long as it
//!   ([`Refusal::InUse`]). Instances, routes and adjacencies may come and go as they like: a packet that needs one
//!   that is not there, or a neighbour that is not resolved, traps.
//! - `Update` and `Remove` of a counter answer with its final counts; after `Update` it counts from zero. Every packet
//!   is counted exactly once, here or there, within the backend's [`Exactness`]. What traps is not counted here.
//! - A backend with [`Capabilities::counts_every`] reports by itself what has changed of counters ([`Event::Counts`]),
//!   so that a reset loses no more than was counted since.
//! - A limit on a counter acts by itself, at the packet that does not fit under it: the event may come later. A host
//!   that gives away a part of a quota renews it by `Update`.
//! - Meters are asked together, and charged all or none. They are asked after gates, stopped counters and the action
//!   of the forward; what they let pass is counted. A backend may find only then that the next hop is not known, or
//!   that the packet is too long: the packet traps, and its tokens are spent.
//! - A meter has one home: a flow is taken only with all meters of its QERs. `Remove` of a meter returns what it holds,
//!   and `Install` elsewhere continues with that. A [shared meter](Object::SharedMeter) is here with a share of its
//!   rate, which the host sets by the demand that `Query` tells.
//! - BUFF always traps to the host.
//! - A backend with [`QueueRoom`] lets packets of a session that has [queues](Object::Queues) wait, where the instance
//!   that they leave by [says so](InstanceUses::QUEUES): they are counted when they come. One that is lost there is
//!   taken back from the counters. What a backend says of counters is without what waits, so that no count ever falls,
//!   and is of packets that have left. A queue keeps its order.
//! - What waits of a session leaves at once, in order and at the expense of its rates, when its flows are removed, when
//!   a counter begins anew or goes, and when its queues go or become others: so nothing overtakes it, and final counts
//!   are final. `Remove` and `Query` of queues return what is left of their rates, with which they continue elsewhere.
//! - What waits is lost with the backend's state, and counted nowhere.
//! - A request with an [`Epoch`] other than the backend's is refused, also one that it had not come to. The epoch
//!   changes when the backend loses its state ([`Event::BackendReset`]), so that no request meant for the old state
//!   meets the new.
//!
//! # What it does not promise
//!
//! A session that needs a key field, an action or an exactness that a backend lacks stays in software. Replies and
//! events of different sessions come in any order.

mod capabilities;
mod fate;
mod network;
mod objects;
mod queues;
mod refusal;

use std::collections::HashSet;

use crate::meter::MeterState;
use crate::{ContentUsage, Direction, Nanos, OpId, SessionIndex, UrrCount};

pub use self::capabilities::{Actions, ByteBasis, Capabilities, Exactness};
pub use self::fate::{Fate, Why};
pub use self::network::{
    Adjacency, Instance, InstanceUses, Mss, OwnAddress, PathMtu, QfiMark, Route, RoutePrefix, RouteTarget,
    TooLong,
};
pub use self::objects::{AnyKey, CounterKind, CounterWeight, Flow, Object, ObjectId, Subject};
pub use self::queues::{
    Management, Managements, Queue, QueueClass, QueueRoom, QueueTokens, Queues, RedCurve, Shaper, SharedNode,
    SharedNodeId,
};
pub use self::refusal::Refusal;

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
    /// Whose order it keeps, and whose the object is.
    pub subject: Subject,
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
    /// Add an object, or change it where it is there.
    Put(Object),
    /// Take an object away; a flow with its counts.
    Remove(ObjectId),
    /// Read counts, which continue.
    Query(ObjectId),
    /// Answer when everything before it is what every packet meets.
    Fence,
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
    /// What was counted of contents since that was asked for last.
    Contents(Vec<ContentUsage>),
    /// The octets that packets wanted to pass of a shared meter since that was asked for last, by [`Direction`].
    Demand([u64; 2]),
    /// What is left of the rates of queues: finally after `Remove`, in passing after `Query`.
    Tokens(QueueTokens),
}

/// What a backend reports without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A flow idled for too long and is gone. It may be left out where very many do at once.
    Aged {
        /// Whose it was.
        session: SessionIndex,
        /// Which it was.
        key: AnyKey,
        /// Its final counts by slot, where the backend counts by flow.
        counts: Vec<(u8, UrrCount)>,
    },
    /// A counter passed its watermark. Raised once for each watermark that is set, or once for several that packets
    /// reach at about the same time.
    Watermark {
        /// Whose it is.
        session: SessionIndex,
        /// Which it is.
        counter: u8,
    },
    /// A counter reached its limit, which acts since then. Of several, as of watermarks, but for each direction.
    Limit {
        /// Whose it is.
        session: SessionIndex,
        /// Which it is.
        counter: u8,
        /// The direction of the packet that reached it.
        direction: Direction,
    },
    /// What counters have counted since they were installed or updated; those that have not changed since the last
    /// such event may be left out. A later event supersedes an earlier one.
    Counts {
        /// Whose they are.
        session: SessionIndex,
        /// By slot.
        counts: Vec<(u8, UrrCount)>,
    },
    /// A packet that matched nothing went to the slow path.
    Miss {
        /// What it would have matched.
        key: AnyKey,
    },
    /// The links of the backend's ports are not what they were; all are up until it says otherwise.
    Links {
        /// Ports without a link, a bit each.
        down: u64,
    },
    /// The backend does not answer. Until it does nothing can be given to it, and then it will have lost its state:
    /// [`Event::BackendReset`] follows.
    Unreachable,
    /// The backend lost its state: nothing that it was given is there any more.
    BackendReset {
        /// The epoch of the new, empty state.
        epoch: Epoch,
    },
}

impl Event {
    /// Whose it is; `None` of what is no session's.
    pub const fn session(&self) -> Option<SessionIndex> {
        match self {
            Self::Aged { session, .. }
            | Self::Watermark { session, .. }
            | Self::Limit { session, .. }
            | Self::Counts { session, .. } => Some(*session),
            Self::Miss { .. } | Self::Links { .. } | Self::Unreachable | Self::BackendReset { .. } => None,
        }
    }
}

/// How a backend is driven. It does nothing by itself: all happens within these calls.
pub trait Backend {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// The life of its state.
    fn epoch(&self) -> Epoch;

    /// Requests that can be given to it now; more are refused ([`Refusal::Full`]).
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Gives it a request, which takes effect at some later `poll`.
    fn submit(&mut self, request: Request);

    /// Lets it work for a moment, and returns what it has to report. `None` does not mean that it has finished.
    fn poll(&mut self, now: Nanos) -> Option<Notice>;

    /// Makes it lose its state, as a failure of it would.
    fn reset(&mut self);
}

/// A backend that several drive, each with sessions of its own.
pub trait SharedBackend: Backend {
    /// How many they are from now on: none takes all of the room for flows. One, until this is said.
    fn share_among(&mut self, sharers: usize);

    /// A session without flows is one of theirs, by number.
    fn assign(&mut self, session: SessionIndex, sharer: usize);

    /// Who has given these sessions is gone: so are they at once, with what was asked of them and not carried out, to
    /// which no reply is given. Nothing more is reported of them. All else stays.
    fn end_sessions(&mut self, sessions: &HashSet<SessionIndex>);
}

/// A backend whose packet path is at hand: for the suite that holds it to its promises.
pub trait PacketPath: Backend {
    /// Passes a packet of `octets` octets (of the inner IP packet) through the flow with this key.
    fn process(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate;

    /// The same of a packet whose sender heeds marks: ECT(0).
    fn process_ect(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate {
        self.process(key, octets, now)
    }

    /// The packets that have left queues until now and since this was asked last, in order.
    fn departed(&mut self, _now: Nanos) -> Vec<Departed> {
        Vec::new()
    }
}

/// A packet that has left a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departed {
    /// Its octets.
    pub octets: u32,
    /// Whether it says that congestion was experienced.
    pub is_marked: bool,
}

/// What a backend reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A request is done, or refused.
    Reply(Reply),
    /// Something happened.
    Event(Event),
}
