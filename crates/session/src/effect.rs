//! Commands for the workers, as [`Sessions::poll_effect`](crate::Sessions::poll_effect) gives them.

use flow::{OpId, SessionIndex, WorkerId};
use nat::pools::BlockId;
use rules::image::SessionChange;
use rules::worker_selection::WorkerSelectionChange;

/// One command for one worker. Commands for one worker must reach it in the order they were polled.
#[derive(Debug)]
pub enum Effect {
    /// Change a session, whole or not at all; answered by [`Sessions::applied`](crate::Sessions::applied), with the
    /// final counts of a Remove and of the URRs that a Replace takes away.
    Apply {
        /// The owner of the session.
        worker: WorkerId,
        /// The operation to report as applied.
        op: OpId,
        /// What to do.
        change: SessionChange,
    },
    /// Read all counters of a session; answered by [`Sessions::applied`](crate::Sessions::applied).
    Query {
        /// The owner of the session.
        worker: WorkerId,
        /// The operation to report as applied.
        op: OpId,
        /// The session.
        session: SessionIndex,
    },
    /// Change worker selection; not reported.
    SelectWorker {
        /// One worker; every worker gets its own effect.
        worker: WorkerId,
        /// What changes.
        change: WorkerSelectionChange,
    },
    /// A session has one more port block; not reported.
    PortBlock {
        /// The owner of the session.
        worker: WorkerId,
        /// The session.
        session: SessionIndex,
        /// The block.
        block: BlockId,
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
            | Effect::SelectWorker { worker, .. }
            | Effect::PortBlock { worker, .. }
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
    /// Anything else, such as an unknown session: a bug.
    Failed,
}
