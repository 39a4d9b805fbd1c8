//! Requests for the status of single sessions, which their workers answer.

use flow::SessionIndex;
use session::Seid;
use std::fmt;
use worker::{Command, MappingsWanted, SessionStatus};

/// Inspections under way at most.
const MAX_INSPECTIONS: usize = 64;

/// Why a session cannot be inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InspectError {
    /// There is no session with this SEID.
    UnknownSession,
    /// As many inspections as there may be are under way.
    Busy,
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownSession => "there is no session with this SEID",
            Self::Busy => "too many inspections are under way",
        })
    }
}

impl std::error::Error for InspectError {}

/// The result of an inspection.
#[derive(Debug)]
pub struct Inspection {
    /// The number that [`Control::inspect`](crate::Control::inspect) gave.
    pub number: u64,
    /// The session.
    pub seid: Seid,
    /// What its worker says; `None` where the worker does not have it.
    pub status: Option<Box<SessionStatus>>,
}

/// A request whose answer is not there yet.
#[derive(Debug)]
struct Pending {
    number: u64,
    seid: Seid,
}

/// The question to a worker.
pub(super) const fn inspect(question: u64, session: SessionIndex, mappings: MappingsWanted) -> Command {
    Command::Inspect {
        question,
        session,
        mappings,
    }
}

/// All inspections under way.
#[derive(Debug, Default)]
pub(super) struct Inspections {
    last: u64,
    pending: Vec<Pending>,
    done: Vec<Inspection>,
}

impl Inspections {
    /// Takes a request. Returns its number.
    pub(super) fn begin(&mut self, seid: Seid) -> Result<u64, InspectError> {
        if self.pending.len() + self.done.len() >= MAX_INSPECTIONS {
            return Err(InspectError::Busy);
        }
        self.last += 1;
        let number = self.last;
        self.pending.push(Pending { number, seid });
        Ok(number)
    }

    /// A worker has answered.
    pub(super) fn handle_status(&mut self, number: u64, status: Option<Box<SessionStatus>>) {
        if let Some(place) = self.pending.iter().position(|one| one.number == number) {
            let Pending { seid, .. } = self.pending.swap_remove(place);
            self.done.push(Inspection { number, seid, status });
        }
    }

    /// Forgets a request, answered or not.
    pub(super) fn cancel(&mut self, number: u64) {
        self.pending.retain(|one| one.number != number);
        self.done.retain(|one| one.number != number);
    }

    /// One that is done.
    pub(super) fn poll(&mut self) -> Option<Inspection> {
        self.done.pop()
    }
}
