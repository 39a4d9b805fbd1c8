//! Associations that end in order (TS 29.244 §5.18, §6.2.7): which ones do, how far they are, and which sessions leave.
//!
//! Sessions end some at a time, so that neither the workers nor the peer get all of them at once. Belongs to the
//! endpoint; messages and sessions are `association_release`'s.

use flow::Nanos;
use session::{AssociationId, Seid, Ticket};
use std::collections::BTreeMap;

use crate::own_requests::ReleaseId;
use crate::smf_sets::Route;
use crate::transactions::Request;

/// How far the end of an association is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It has been requested of the peer: with PARPS if the sessions are to end at our side, else with SARR.
    Announced { prepares: bool },
    /// Sessions end, and their last usage is reported.
    Reporting {
        /// Those whose turn is yet to come.
        sessions: Vec<Seid>,
        /// Sessions that are ending, and reports without an answer.
        open: usize,
    },
    /// The peer is to release it.
    Awaited,
}

#[derive(Debug)]
pub(crate) struct Release {
    number: u64,
    /// When it ends at our side alone.
    pub(crate) deadline: Option<Nanos>,
    pub(crate) stage: Stage,
}

/// A session that ends because its association does.
#[derive(Debug)]
pub(crate) struct EndingSession {
    pub(crate) of: ReleaseId,
    pub(crate) seid: Seid,
    /// Where its last usage is reported.
    pub(crate) route: Option<Route>,
}

/// An association that is released and gone, whose peer gets the response when no worker has its sessions any more.
#[derive(Debug)]
pub(crate) struct Released {
    pub(crate) id: AssociationId,
    pub(crate) request: Request,
    pub(crate) ticket: Ticket,
    /// When it is answered at the latest.
    pub(crate) until: Nanos,
}

/// All associations that end.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    releases: BTreeMap<AssociationId, Release>,
    /// Sessions that are ending, by the number of their tickets.
    ending_sessions: BTreeMap<u64, EndingSession>,
    last: u64,
}

impl Releases {
    /// An association is to end; one that does already continues from `stage`.
    pub(crate) fn begin(&mut self, id: AssociationId, stage: Stage, deadline: Option<Nanos>) -> ReleaseId {
        let number = match self.releases.get(&id) {
            Some(release) => release.number,
            None => {
                self.last += 1;
                self.last
            }
        };
        self.releases.insert(
            id,
            Release {
                number,
                deadline,
                stage,
            },
        );
        ReleaseId {
            association: id,
            number,
        }
    }

    pub(crate) fn contains(&self, id: AssociationId) -> bool {
        self.releases.contains_key(&id)
    }

    /// That end of that association, unless it is over.
    pub(crate) fn get_mut(&mut self, of: ReleaseId) -> Option<&mut Release> {
        self.releases
            .get_mut(&of.association)
            .filter(|release| release.number == of.number)
    }

    /// How an association ends.
    pub(crate) fn of(&self, id: AssociationId) -> Option<(ReleaseId, &Release)> {
        let release = self.releases.get(&id)?;
        let of = ReleaseId {
            association: id,
            number: release.number,
        };
        Some((of, release))
    }

    /// The association has ended, or continues after all.
    pub(crate) fn end(&mut self, id: AssociationId) {
        self.releases.remove(&id);
    }

    /// A session is ending.
    pub(crate) fn leave(&mut self, ticket: Ticket, ending: EndingSession) {
        self.ending_sessions.insert(ticket.0, ending);
    }

    /// The session that the sessions' answer to `ticket` is about.
    pub(crate) fn left(&mut self, ticket: Ticket) -> Option<EndingSession> {
        self.ending_sessions.remove(&ticket.0)
    }

    /// A session has left, or an answer has come; `more` reports wait for theirs.
    pub(crate) fn count(&mut self, of: ReleaseId, more: usize) {
        if let Some(Release {
            stage: Stage::Reporting { open, .. },
            ..
        }) = self.get_mut(of)
        {
            *open = (*open + more).saturating_sub(1);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.releases
            .values()
            .filter_map(|release| release.deadline)
            .min()
    }

    /// An association whose peer has had its time.
    pub(crate) fn due(&self, now: Nanos) -> Option<AssociationId> {
        let is_due = |release: &Release| release.deadline.is_some_and(|at| at <= now);
        let mut all = self.releases.iter();
        all.find(|(_, release)| is_due(release)).map(|(id, _)| *id)
    }
}
