//! The ledger of usage and ends of sessions ([`session::LedgerEntry`]), with the names of those who control them.

use session::{AssociationId, LedgerEntry};
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

/// Who associations were with that are gone.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    gone: BTreeMap<AssociationId, NodeName>,
}

impl Ledger {
    /// An association has ended. Numbers are not used twice.
    pub(crate) fn remember(&mut self, id: AssociationId, node: NodeName) {
        self.gone.insert(id, node);
        if self.gone.len() > MOST_REMEMBERED {
            self.gone.pop_first();
        }
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

    /// Refuses new sessions with cause 75 (No resources available), or takes them again.
    pub fn refuse_new_sessions(&mut self, refused: bool) {
        self.no_new_sessions = refused;
    }
}
