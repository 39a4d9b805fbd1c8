//! Requests about sessions that have no response yet, by ticket, and how many each association has.

use pfcp::ie::QueryUrrReference;
use session::{AssociationId, Keyed, Ticket, keyed};
use std::collections::BTreeMap;

use crate::named_sets::NamedSets;
use crate::transactions::Request;

/// A request that the sessions have not completed yet.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) request: Request,
    /// The association that it counts for.
    pub(crate) association: Option<AssociationId>,
    /// The peer's SEID, for a rejection.
    pub(crate) cp_seid: u64,
    /// Whether a session is being restored.
    pub(crate) restores: bool,
    /// Query URR Reference, to be repeated in reports.
    pub(crate) reference: Option<QueryUrrReference>,
    /// The association that takes the session over.
    pub(crate) taker: Option<AssociationId>,
    /// The sets that the session is to belong to.
    pub(crate) sets: Option<Box<NamedSets>>,
    /// The version of the PFDs that the request was read with.
    pub(crate) pfds: u64,
}

/// All pending requests.
#[derive(Debug)]
pub(crate) struct PendingRequests {
    requests: Keyed<Ticket, PendingRequest>,
    /// How many each association has; 0 is not entered.
    by_association: BTreeMap<AssociationId, usize>,
}

impl PendingRequests {
    pub(crate) fn new(seed: u64) -> PendingRequests {
        PendingRequests {
            requests: keyed(seed),
            by_association: BTreeMap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// How many an association has.
    pub(crate) fn count_of(&self, association: AssociationId) -> usize {
        self.by_association.get(&association).copied().unwrap_or_default()
    }

    pub(crate) fn insert(&mut self, ticket: Ticket, request: PendingRequest) {
        if let Some(association) = request.association {
            *self.by_association.entry(association).or_default() += 1;
        }
        self.requests.insert(ticket, request);
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<PendingRequest> {
        let request = self.requests.remove(&ticket)?;
        if let Some(association) = request.association
            && let Some(count) = self.by_association.get_mut(&association)
        {
            *count -= 1;
            if *count == 0 {
                self.by_association.remove(&association);
            }
        }
        Some(request)
    }
}
