//! What sessions ask of workers and hear from them, in the words of each: `session` and `worker` do not know each
//! other.
//!
//! Nothing is kept and nothing is decided here.

use session::{Effect, SteerKey, WorkerFault};
use worker::{ApplyError, Command, SteerChange};

/// The command that carries an effect out, for the worker that [`Effect::worker`] names.
#[must_use]
pub fn command(effect: Effect) -> Command {
    match effect {
        Effect::Apply { op, change, .. } => Command::Session { op, change },
        Effect::Query { op, session, .. } => Command::Query { op, session },
        Effect::Fence { op, .. } => Command::Fence { op },
        Effect::Drain { op, .. } => Command::Drain { op },
        Effect::Steer { change, .. } => Command::Steer(steering(change)),
    }
}

/// A change of the steering as workers are told.
fn steering(change: session::SteerChange) -> SteerChange {
    let (key, bucket) = match change {
        session::SteerChange::Add { key, bucket } => (key, Some(bucket)),
        session::SteerChange::Remove { key } => (key, None),
        session::SteerChange::Bucket { bucket, owner } => return SteerChange::Bucket { bucket, owner },
    };
    match key {
        SteerKey::Tunnel(local, teid) => SteerChange::Tunnel { local, teid, bucket },
        SteerKey::Address(vrf, prefix) => SteerChange::Address { vrf, prefix, bucket },
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
