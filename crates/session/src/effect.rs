//! What control asks of the workers, and what it answers to its own caller.

use flow::{Nanos, OpId, SessionIndex, WorkerId};
use packet::Teid;
use rules::image::SessionChange;
use rules::model::FTeid;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::changes::{Assigned, Recipient};
use crate::packets::PacketRateStatus;
use crate::record::SessionRecord;
use crate::refusal::Refusal;
use rules::steering::SteerChange;
use usage::UsageReport;

/// One command for one worker. Commands for one worker must reach it in the order they were polled.
#[derive(Debug)]
pub enum Effect {
    /// Change a session, whole or not at all; told by [`Sessions::applied`](crate::Sessions::applied), with the final
    /// counts of a Remove and of the URRs that a Replace takes away.
    Apply {
        /// The owner of the session.
        worker: WorkerId,
        /// The operation to report as applied.
        op: OpId,
        /// What to do.
        change: SessionChange,
    },
    /// Read all counters of a session; told by [`Sessions::applied`](crate::Sessions::applied).
    Query {
        /// The owner of the session.
        worker: WorkerId,
        /// The operation to report as applied.
        op: OpId,
        /// The session.
        session: SessionIndex,
    },
    /// Change the steering; not reported.
    Steer {
        /// One worker; every worker gets its own effect.
        worker: WorkerId,
        /// What changes.
        change: SteerChange,
    },
    /// Report, by [`Sessions::applied`](crate::Sessions::applied), when no packet can meet a state from before any
    /// earlier effect.
    Fence {
        /// One worker; every worker gets its own effect and operation.
        worker: WorkerId,
        /// The operation to report as applied.
        op: OpId,
    },
    /// Report, by [`Sessions::applied`](crate::Sessions::applied), when all packets that other workers have handed over
    /// to this one so far are served.
    Drain {
        /// The worker.
        worker: WorkerId,
        /// The operation to report as applied.
        op: OpId,
    },
}

impl Effect {
    /// The worker that it is for.
    pub fn worker(&self) -> WorkerId {
        match self {
            Effect::Apply { worker, .. }
            | Effect::Query { worker, .. }
            | Effect::Steer { worker, .. }
            | Effect::Fence { worker, .. }
            | Effect::Drain { worker, .. } => *worker,
        }
    }
}

/// Why a worker could not apply a change. It has then changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerFault {
    /// Its memory for sessions is full.
    NoSpace,
    /// Anything else, such as a session that it does not know: a bug.
    Failed,
}

/// The caller's own number for a request, by which the outcome is told. Unique among requests in work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A local SEID: random, unguessable and never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seid(pub u64);

/// The number of an association, the caller's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId(pub u32);

/// The control plane's F-SEID (TS 29.244 §8.2.37).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CpFSeid {
    /// Its SEID.
    pub seid: u64,
    /// Its IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
}

/// What came of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The request.
    pub ticket: Ticket,
    /// Done, live in the workers; or refused, with nothing changed.
    pub result: Result<Done, Refusal>,
}

/// A request that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The local SEID.
    pub seid: Seid,
    /// The control plane's F-SEID, after the request.
    pub cp: CpFSeid,
    /// The F-TEIDs that the user plane allocated.
    pub created: Vec<(Recipient, FTeid)>,
    /// The UE addresses that the user plane has allocated to what asked for one now.
    pub assigned: Vec<Assigned>,
    /// Usage to report in the response.
    pub usage: Vec<UsageReport>,
    /// What is left of packet rates, to tell in the response.
    pub packets: Vec<PacketRateStatus>,
    /// The record of an export, with the association that the session belongs or belonged to.
    pub record: Option<(AssociationId, Box<SessionRecord>)>,
}

/// A peer's tunnel endpoint, as Outer Header Creation names it.
pub(crate) type Remote = (IpAddr, Teid);

/// When a change is given up, and which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) at: Nanos,
    pub(crate) session: SessionIndex,
    pub(crate) ticket: Ticket,
}
