//! What sessions hold beside their rules: tunnels, UE addresses, quotas of associations, and correlated rates.

use flow::{Nanos, SessionIndex};
use rules::model::{CorrelationId, SessionRules};
use rules::worker_selection::{WorkerSelectionChange, WorkerSelectionKey};

use crate::buckets::BucketTable;
use crate::correlations::{CorrelationName, Correlations, Parties};
use crate::pending_change::Prepared;
use crate::quotas::{Quotas, ResourceCounts};
use crate::refusal::Refusal;
use crate::session::Session;
use crate::tunnels::{Tunnel, Tunnels};
use crate::ue_addresses::{Addresses, UeAddress};
use crate::worker_selection_keys::keys;

/// Who holds what is reserved for sessions that are yet to come from a store. No session has this index: a node may
/// have fewer sessions.
pub(crate) const ABSENT: SessionIndex = SessionIndex(u32::MAX);

/// Tunnels and UE addresses of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<'a> {
    pub(crate) tunnels: &'a [Tunnel],
    pub(crate) addresses: &'a [UeAddress],
}

impl<'a> Held<'a> {
    pub(crate) fn of(tunnels: &'a [Tunnel], addresses: &'a [UeAddress]) -> Held<'a> {
        Held { tunnels, addresses }
    }
}

/// The resources of all sessions.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) tunnels: Tunnels,
    pub(crate) addresses: Addresses,
    pub(crate) quotas: Quotas,
    pub(crate) correlations: Correlations,
}

impl Resources {
    /// A session has taken resources: they count against the quota of its association.
    pub(crate) fn charge(&mut self, session: &mut Session, buckets: &BucketTable, taken: ResourceCounts) {
        session.charged = session.counts().and(taken).into();
        let worker = buckets.owner(session.bucket);
        self.quotas.add(session.charged_to, worker, taken);
    }

    /// A session has given resources back, of those that it is charged for.
    pub(crate) fn discharge(&mut self, session: &mut Session, buckets: &BucketTable, given: ResourceCounts) {
        let charged = session.counts();
        let given = given.within(charged);
        session.charged = charged.without(given).into();
        let worker = buckets.owner(session.bucket);
        self.quotas.remove(session.charged_to, worker, given);
    }

    /// Gives these to a session, also if others hold them.
    pub(crate) fn give(&mut self, index: SessionIndex, held: Held<'_>) {
        let tunnels = held.tunnels.iter();
        tunnels.for_each(|tunnel| self.tunnels.give(*tunnel, index));
        let addresses = held.addresses.iter();
        addresses.for_each(|address| self.addresses.give(*address, index));
    }

    /// Frees what the session still holds of these.
    pub(crate) fn free(&mut self, now: Nanos, session: &mut Session, buckets: &BucketTable, held: Held<'_>) {
        let index = session.index;
        let bucket = buckets.with_exceptions(session.bucket);
        let mut given = ResourceCounts::default();
        for tunnel in held.tunnels {
            if self.tunnels.release(now, *tunnel, index) {
                given = given.and(ResourceCounts::of(&[*tunnel], &[], bucket));
            }
        }
        for address in held.addresses {
            if self.addresses.release(*address, index) {
                given = given.and(ResourceCounts::of(&[], &[*address], bucket));
            }
        }
        if given != ResourceCounts::default() {
            self.discharge(session, buckets, given);
        }
    }

    /// The worker selection exceptions that end with these, where they are still the session's.
    pub(crate) fn ended_exceptions(
        &self,
        session: &Session,
        buckets: &BucketTable,
        held: Held<'_>,
    ) -> Vec<WorkerSelectionChange> {
        let Some(bucket) = buckets.with_exceptions(session.bucket) else {
            return Vec::new();
        };
        let keys = keys(held.tunnels, held.addresses).filter(|key| key.needs_exception(bucket));
        let ours = keys.filter(|key| self.holder(*key) == Some(session.index));
        ours.map(|key| WorkerSelectionChange::Exception { key, bucket: None })
            .collect()
    }

    fn holder(&self, key: WorkerSelectionKey) -> Option<SessionIndex> {
        match key {
            WorkerSelectionKey::Tunnel(local, teid) => self.tunnels.holder((local, teid)),
            WorkerSelectionKey::Address(vrf, prefix) => self.addresses.holder((vrf, prefix)),
        }
    }

    /// Gives back what a change took that never reached a worker.
    pub(crate) fn unclaim(&mut self, index: SessionIndex, prepared: &Prepared) {
        let tunnels = prepared.claimed.iter();
        tunnels.for_each(|tunnel| self.tunnels.undo(*tunnel, index));
        for address in &prepared.addresses {
            self.addresses.release(*address, index);
        }
        for correlation in &prepared.joined {
            self.correlations.leave(index, *correlation);
        }
    }

    /// Gives back what a change took and its own updates then did without.
    pub(crate) fn give_back_unused(&mut self, index: SessionIndex, prepared: &mut Prepared) {
        let Prepared {
            live,
            claimed,
            addresses,
            created,
            ..
        } = prepared;
        let (tunnels, held) = (live.tunnels.get(), live.addresses.get());
        for tunnel in claimed.extract_if(.., |tunnel| !tunnels.contains(tunnel)) {
            self.tunnels.undo(tunnel, index);
        }
        for address in addresses.extract_if(.., |address| !held.contains(address)) {
            self.addresses.release(address, index);
        }
        created.retain(|(_, chosen)| live.rules.f_teids().any(|used| used == *chosen));
    }

    /// Joins a session to the correlations of its `rules`, and enters in `joined` those that are new to it, also on an
    /// error.
    ///
    /// # Errors
    /// No room, or a quota is reached.
    pub(crate) fn correlate(
        &mut self,
        index: SessionIndex,
        parties: Parties,
        rules: &SessionRules,
        joined: &mut Vec<CorrelationId>,
    ) -> Result<(), Refusal> {
        let Parties {
            owner,
            charged_to,
            is_limited,
        } = parties;
        for (correlation, _) in rules.correlations() {
            let most = self.correlations.most();
            let held = |association| self.correlations.held(association);
            let may_create = !is_limited || self.quotas.allows_of(most, charged_to, held);
            let creator = may_create.then_some(charged_to);
            let name = CorrelationName {
                association: owner,
                id: correlation,
            };
            let is_new = self.correlations.join(index, name, creator);
            if is_new.ok_or(Refusal::NoResources)? {
                joined.push(correlation);
            }
        }
        Ok(())
    }
}
