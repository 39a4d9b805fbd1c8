//! Conversion between the effects and faults of `session` and the commands and errors of `worker`, which do not know
//! each other.
//!
//! Nothing is kept and nothing is decided here.

use session::{Effect, WorkerFault};
use worker::{ApplyError, Command};

/// The command that carries an effect out, for the worker that [`Effect::worker`] names.
#[must_use]
pub fn command(effect: Effect) -> Command {
    match effect {
        Effect::Apply { op, change, .. } => Command::Session { op, change },
        Effect::Query { op, session, .. } => Command::Query { op, session },
        Effect::Fence { op, .. } => Command::Fence { op },
        Effect::Drain { op, .. } => Command::Drain { op },
        Effect::SelectWorker { change, .. } => Command::SelectWorker(change),
        Effect::PortBlock { session, block, .. } => Command::PortBlock { session, block },
    }
}

/// What a worker's refusal means to sessions.
pub(super) fn fault(error: ApplyError) -> WorkerFault {
    match error {
        ApplyError::NoBlock | ApplyError::TableFull | ApplyError::NoSuchSlot => WorkerFault::NoSpace,
        ApplyError::Exists | ApplyError::NotFound | ApplyError::Taken | ApplyError::OutOfBounds => {
            WorkerFault::Failed
        }
    }
}
