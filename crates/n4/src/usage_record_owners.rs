//! The owners of usage record entries ([`session::UsageRecordEntry`]): Node IDs of associations that have ended, and
//! usage reports that a control plane has not accepted.
//!
//! A usage report is entered when it is made. What its control plane has not taken then is entered once more: refused,
//! or answered with what cannot be read (TS 29.244 §7.6.1: the request counts as responded to, though that is
//! discarded), or not answered before the session or its association was gone. None of these is sent again.

use session::{AssociationId, ReportedSession, Seid, Unreported, UsageRecordEntry, UsageReport};
use std::collections::BTreeMap;

use crate::kept_usage::UsagePart;
use crate::node::NodeName;

/// Names of associations that are gone which are remembered: workers may yet report the last usage of their sessions.
const MOST_REMEMBERED: usize = 1_024;

/// An entry for a usage record, with its control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageEntry {
    /// The control plane's Node ID; `None`: its association has been gone for too long.
    pub smf: Option<NodeName>,
    /// What happened to which session.
    pub entry: UsageRecordEntry,
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
pub(crate) struct LastUsage {
    pub(crate) owner: ReportedSession,
    pub(crate) reports: Vec<UsageReport>,
    /// What it is kept as beyond the process, if it is.
    pub(crate) kept: Option<UsagePart>,
    /// Whether it is of the process before.
    pub(crate) is_sent_again: bool,
}

impl LastUsage {
    pub(crate) fn new(owner: ReportedSession, reports: &[UsageReport]) -> LastUsage {
        LastUsage {
            owner,
            reports: reports.to_vec(),
            kept: None,
            is_sent_again: false,
        }
    }
}

/// Who associations were with that are gone.
#[derive(Debug, Default)]
pub(crate) struct UsageRecordOwners {
    gone: BTreeMap<AssociationId, NodeName>,
    /// By number; as many as there are requests without an answer.
    last: BTreeMap<u64, LastUsage>,
    last_number: u64,
    unaccepted: Option<UnacceptedUsage>,
}

impl UsageRecordOwners {
    /// An association has ended. Numbers are not used twice.
    pub(crate) fn remember(&mut self, id: AssociationId, node: NodeName) {
        self.gone.insert(id, node);
        if self.gone.len() > MOST_REMEMBERED {
            self.gone.pop_first();
        }
    }

    /// Keeps usage of a session that is gone until the request that it goes in is answered. Gives the number for
    /// [`take_last`](Self::take_last).
    pub(crate) fn keep(&mut self, usage: LastUsage) -> u64 {
        self.last_number += 1;
        if !usage.reports.is_empty() || usage.is_sent_again {
            self.last.insert(self.last_number, usage);
        }
        self.last_number
    }

    /// The usage under this number.
    pub(crate) fn last(&self, number: u64) -> Option<&LastUsage> {
        self.last.get(&number)
    }

    /// The usage under this number is kept beyond the process, as this.
    pub(crate) fn note_kept(&mut self, number: u64, part: UsagePart) {
        if let Some(last) = self.last.get_mut(&number) {
            last.kept = Some(part);
        }
    }

    /// The usage that is kept under this number.
    pub(crate) fn take_last(&mut self, number: u64) -> Option<LastUsage> {
        self.last.remove(&number)
    }

    /// The numbers of all usage that is kept.
    pub(crate) fn last_numbers(&self) -> Vec<u64> {
        self.last.keys().copied().collect()
    }

    /// The Node ID of an association that is gone, as far as it is remembered.
    pub(crate) fn node_of(&self, association: AssociationId) -> Option<&NodeName> {
        self.gone.get(&association)
    }

    /// Enters usage that a control plane has not accepted.
    pub(crate) fn enter_unaccepted(
        &mut self,
        seid: Seid,
        smf: Option<NodeName>,
        reports: u64,
        why: Unreported,
    ) {
        let before = self.unaccepted.as_ref().map_or(0, |one| one.reports);
        self.unaccepted = Some(UnacceptedUsage {
            reports: before + reports,
            seid,
            smf,
            why,
        });
    }

    /// The usage reports that control planes have not accepted since the last call.
    pub(crate) fn take_unaccepted(&mut self) -> Option<UnacceptedUsage> {
        self.unaccepted.take()
    }
}
