//! The ledger of usage and ends of sessions ([`session::LedgerEntry`]), with the names of those who control them.
//!
//! A usage report is entered when it is made. What its control plane has not taken then is entered once more: refused, or
//! answered with what cannot be read (TS 29.244 §7.6.1: the sender is told that its request has got an answer, though
//! that is discarded), or not answered before the session or its association was gone. None of these is sent again.

use flow::Nanos;
use session::{AssociationId, CpFSeid, LedgerEntry, ReportedSession, Seid, Unreported, UsageReport};
use std::collections::BTreeMap;

use crate::endpoint::Endpoint;
use crate::node::NodeName;

/// Names of associations that are gone which are remembered: workers may yet tell the last usage of their sessions.
const MOST_REMEMBERED: usize = 1_024;

/// An entry of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageEntry {
    /// The control plane's Node ID; `None`: its association has been gone for too long.
    pub smf: Option<NodeName>,
    /// What happened to which session.
    pub entry: LedgerEntry,
}

/// Usage reports that control planes have not taken since that was asked last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnacceptedUsage {
    /// How many reports.
    pub reports: u64,
    /// The last one's session,
    pub seid: Seid,
    /// the Node ID of its control plane, where that is known,
    pub smf: Option<NodeName>,
    /// and why it was not taken.
    pub why: Unreported,
}

/// Usage on its way whose session is gone.
#[derive(Debug)]
struct LastUsage {
    seid: Seid,
    association: AssociationId,
    cp: CpFSeid,
    reports: Vec<UsageReport>,
}

/// Who associations were with that are gone.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    gone: BTreeMap<AssociationId, NodeName>,
    /// By number; as many as there are requests without an answer.
    last: BTreeMap<u64, LastUsage>,
    last_number: u64,
    untaken: Option<UnacceptedUsage>,
}

impl Ledger {
    /// An association has ended. Numbers are not used twice.
    pub(crate) fn remember(&mut self, id: AssociationId, node: NodeName) {
        self.gone.insert(id, node);
        if self.gone.len() > MOST_REMEMBERED {
            self.gone.pop_first();
        }
    }

    /// Keeps usage of a session that is gone until the request that it goes in is answered. Gives the number for
    /// [`Endpoint::last_usage_over`].
    pub(crate) fn keep(
        &mut self,
        (seid, association, cp): (Seid, AssociationId, CpFSeid),
        reports: &[UsageReport],
    ) -> u64 {
        self.last_number += 1;
        if !reports.is_empty() {
            let reports = reports.to_vec();
            self.last.insert(
                self.last_number,
                LastUsage {
                    seid,
                    association,
                    cp,
                    reports,
                },
            );
        }
        self.last_number
    }
}

impl Endpoint {
    /// The next usage report or end of a session, if [`session::Config::ledger`] asks for them.
    pub fn poll_usage(&mut self) -> Option<UsageEntry> {
        let entry = self.sessions.poll_ledger()?;
        let known = self.associations.get(entry.association).map(|one| &one.node);
        let smf = known
            .or_else(|| self.ledger.gone.get(&entry.association))
            .cloned();
        Some(UsageEntry { smf, entry })
    }

    /// Usage reports that control planes have not taken since this was asked last, whether or not there is a ledger.
    pub fn take_unaccepted_usage(&mut self) -> Option<UnacceptedUsage> {
        self.ledger.untaken.take()
    }

    /// A control plane has not taken usage reports of a session, and they are not sent again.
    pub(crate) fn not_taken(
        &mut self,
        now: Nanos,
        (seid, association, cp): (Seid, AssociationId, Option<CpFSeid>),
        reports: &[UsageReport],
        why: Unreported,
    ) {
        if reports.is_empty() {
            return;
        }
        let count = reports.len() as u64;
        *match why {
            Unreported::Refused(_) => &mut self.counters.usage_refused,
            Unreported::Unreadable => &mut self.counters.usage_unreadable,
            Unreported::Unanswered => &mut self.counters.usage_unanswered,
        } += count;
        let smf = self.associations.get(association).map(|one| &one.node);
        let smf = smf.or_else(|| self.ledger.gone.get(&association)).cloned();
        let before = self.ledger.untaken.as_ref().map_or(0, |one| one.reports);
        self.ledger.untaken = Some(UnacceptedUsage {
            reports: before + count,
            seid,
            smf,
            why,
        });
        let of = ReportedSession {
            seid,
            association,
            cp,
        };
        self.sessions.enter_unreported(now, of, reports, why);
    }

    /// Nobody awaits the answers any more that usage of sessions which are gone is on its way to.
    pub(crate) fn forget_last_usage(&mut self, now: Nanos) {
        let numbers: Vec<u64> = self.ledger.last.keys().copied().collect();
        for number in numbers {
            self.last_usage_over(now, number, Some(Unreported::Unanswered));
        }
    }

    /// The request is answered, or given up, that usage of a session which is gone was on its way in.
    pub(crate) fn last_usage_over(&mut self, now: Nanos, number: u64, why: Option<Unreported>) {
        let last = self.ledger.last.remove(&number);
        if let Some((why, last)) = why.zip(last) {
            let LastUsage {
                seid,
                association,
                cp,
                reports,
            } = last;
            self.not_taken(now, (seid, association, Some(cp)), &reports, why);
        }
    }

    /// Refuses new sessions with cause 75 (No resources available), or takes them again.
    pub fn refuse_new_sessions(&mut self, refused: bool) {
        self.no_new_sessions = refused;
    }
}
