//! From a request to a compiled change: everything that can be refused is refused here, before a worker gets a command.

use flow::{Bucket, SessionIndex, bucket};
use rules::compile::{Previous, compile_after};
use rules::image::SessionImage;
use rules::model::{
    CorrelationId, Edit, EditError, EditFault, FTeid, Far, FarId, PdrId, QerId, RuleRef, SNssai,
    SessionRules, SourceInterface, UrrId, Verb,
};
use rules::network::Network;
use rules::prefix::IpPrefix;
use std::net::IpAddr;
use std::sync::Arc;

use crate::buckets::BucketTable;
use crate::config::{Config, Environment};
use crate::correlations::Parties;
use crate::f_teid_choice::{Allocation, ChosenFTeids};
use crate::ids::{AssociationId, Seid};
use crate::live_session::Live;
use crate::pending_change::Prepared;
use crate::random::Random;
use crate::refusal::{Refusal, RuleFault};
use crate::resources::Resources;
use crate::rule_changes::{Changes, Follow, Query, Recipient};
use crate::session_table::SessionTable;
use crate::tunnels::Tunnel;
use crate::ue_addresses::UeAddress;
use crate::ue_ip_choice::Assignment;
use usage::{UsageAccounts, UsageTriggers};

/// The session that a request is about, as it is before.
pub(crate) struct Subject<'a> {
    pub(crate) index: SessionIndex,
    pub(crate) seid: Seid,
    /// `None` before the session is established: the request decides.
    pub(crate) bucket: Option<Bucket>,
    /// The slice that it is of then.
    pub(crate) slice: Option<SNssai>,
    /// The association whose quota it counts against.
    pub(crate) charged_to: AssociationId,
    /// The association that it belongs to.
    pub(crate) owner: AssociationId,
    pub(crate) live: &'a Live,
    pub(crate) shared: ChosenFTeids,
}

/// A change that is ready to be applied.
pub(crate) struct Ready {
    pub(crate) image: Box<SessionImage>,
    pub(crate) prepared: Box<Prepared>,
}

/// The URRs that `query` wants reported.
pub(crate) fn queried(live: &Live, query: &Query) -> Result<Vec<(UrrId, UsageTriggers)>, Refusal> {
    let (named, all): (&[UrrId], bool) = match query {
        Query::Nothing => (&[], false),
        Query::These(urrs) => (urrs, false),
        Query::All(named) => (named, true),
    };
    if let Some(unknown) = named.iter().find(|urr| live.rules.urr(**urr).is_none()) {
        return Err(Refusal::rule(*unknown, RuleFault::UnknownUrr));
    }
    let of = |urr| (urr, UsageTriggers::IMMER);
    Ok(if all {
        live.urrs().map(of).collect()
    } else {
        named.iter().copied().map(of).collect()
    })
}

/// That the QERs exist whose Packet Rate Status is wanted.
pub(crate) fn check_queried(live: &Live, qers: &[QerId]) -> Result<(), Refusal> {
    match qers.iter().find(|qer| live.rules.qer(**qer).is_none()) {
        Some(unknown) => Err(Refusal::rule(*unknown, RuleFault::UnknownQer)),
        None => Ok(()),
    }
}

/// The URRs that a request removes and creates anew: two of one number, of which the old one is reported last.
fn recreated(changes: &Changes) -> Vec<UrrId> {
    let removed = changes.remove_urrs.iter().copied();
    removed
        .filter(|urr| changes.create_urrs.iter().any(|new| new.id == *urr))
        .collect()
}

/// The URRs that both have, but for the `fresh`, and that only the old rules' PDRs use: their usage ends
/// (TS 29.244 §5.2.2.3.1).
fn dissociated(live: &Live, next: &SessionRules, fresh: &[UrrId]) -> Vec<(UrrId, UsageTriggers)> {
    let used = |rules: &SessionRules, urr| rules.pdrs().iter().any(|pdr| pdr.may_count_in(urr));
    let both = live
        .urrs()
        .filter(|urr| next.urr(*urr).is_some() && !fresh.contains(urr));
    // A credit pool counts what its members count, whatever PDRs name it.
    let is_pool = |urr| next.urr(urr).is_some_and(|urr| urr.pool().is_some());
    let both = both.filter(|urr| !is_pool(*urr));
    let lost = both.filter(|urr| used(&live.rules, *urr) && !used(next, *urr));
    lost.map(|urr| (urr, UsageTriggers::TERMR)).collect()
}

/// Whether a FAR sends no longer into the tunnel that it has sent into, nor does another: then only an End Marker is
/// due there (SNDEM, TS 29.244 §5.3.2).
fn leaves_tunnel(before: &SessionRules, after: &SessionRules, far: FarId) -> bool {
    let tunnel = |far: &Far| {
        let header = far.forwarding?.outer_header_creation?;
        let peer = (header.teid, header.ipv4, header.ipv6);
        header.kind.is_gtpu().then_some(peer)
    };
    let Some(old) = before.far(far).and_then(tunnel) else {
        return false;
    };
    let still = |one: &Far| one.id == far || one.action.verb() == Some(Verb::Forward);
    let mut into = after.fars().iter().filter(|one| tunnel(one) == Some(old));
    !into.any(still)
}

/// The UE addresses that `changes` brings.
pub(crate) fn prefixes_named(changes: &Changes) -> impl Iterator<Item = IpPrefix> + '_ {
    let pdrs = changes.create_pdrs.iter().flat_map(|pdr| &pdr.pdi.ue_ip);
    let endpoints = changes.create_endpoints.iter();
    let endpoints = endpoints.flat_map(|endpoint| &endpoint.ue_ip);
    pdrs.chain(endpoints).flat_map(|ue| ue.prefixes())
}

/// The URRs that both have and that only the new rules' PDRs use: their quotas are as they were provisioned
/// (TS 29.244 §5.2.2.3.1, NOTE 5).
fn associated(live: &Live, next: &SessionRules, fresh: &[UrrId]) -> Vec<UrrId> {
    let used = |rules: &SessionRules, urr| rules.pdrs().iter().any(|pdr| pdr.may_count_in(urr));
    let both = live
        .urrs()
        .filter(|urr| next.urr(*urr).is_some_and(|urr| urr.pool().is_none()) && !fresh.contains(urr));
    both.filter(|urr| !used(&live.rules, *urr) && used(next, *urr))
        .collect()
}

/// The URRs that `next` has no more, or has anew, if others are to report because they do (TS 29.244 §5.2.2.4).
fn ended_with_links(live: &Live, next: &SessionRules, fresh: &[UrrId]) -> Vec<UrrId> {
    let gone = |urr: &UrrId| next.urr(*urr).is_none() || fresh.contains(urr);
    let ended: Vec<UrrId> = live.urrs().filter(gone).collect();
    match UsageAccounts::has_links_to(live.rules.urrs(), &ended) {
        true => ended,
        false => Vec::new(),
    }
}

/// Says in the rules what their FARs choose of public addresses. Rules that a configuration makes choose several, as
/// those before did, have the first.
fn choose_nat(
    rules: &mut SessionRules,
    before: &SessionRules,
    network: &Network,
    follow: Follow,
) -> Result<(), EditError> {
    let (chosen, other) = network.nat_choice(rules);
    rules.set_chosen_nat(chosen);
    let is_brought = || follow == Follow::Nothing && network.nat_choice(before).1.is_none();
    match (chosen, other) {
        (Some(first), Some(other)) if is_brought() => Err(EditError {
            rule: other.into(),
            fault: EditFault::OtherNat(first.far),
        }),
        _ => Ok(()),
    }
}

/// The bucket of the first UE address that `changes` brings, IPv4 before IPv6.
fn home(changes: &Changes) -> Option<Bucket> {
    prefixes_named(changes)
        .find(|prefix| prefix.is_ipv4())
        .or_else(|| prefixes_named(changes).next())
        .map(|prefix| bucket::of_address(prefix.address()))
}

/// What prepares a change: it reads what all sessions have, and takes resources.
pub(crate) struct Preparation<'a> {
    pub(crate) config: &'a Config,
    pub(crate) environment: &'a Environment,
    pub(crate) buckets: &'a BucketTable,
    pub(crate) table: &'a SessionTable,
    pub(crate) resources: &'a mut Resources,
    pub(crate) random: &'a mut Random,
}

impl Preparation<'_> {
    /// Allocates, edits, compiles and claims; on an error nothing is left behind. Of `changes` it takes what it needs.
    /// Nothing is looked up in the session itself: a caller may have taken its rules out.
    pub(crate) fn prepare(
        &mut self,
        mut subject: Subject<'_>,
        changes: &mut Changes,
    ) -> Result<Ready, Refusal> {
        self.check_chosen(subject.live, changes)?;
        let mut prepared = Box::new(Prepared::default());
        match self.make_ready(&mut subject, changes, &mut prepared) {
            Ok(image) => Ok(Ready { image, prepared }),
            Err(refusal) => {
                self.resources.unclaim(subject.index, &prepared);
                Err(refusal)
            }
        }
    }

    /// The same step by step; what the steps take is in `prepared`, also on an error.
    fn make_ready(
        &mut self,
        subject: &mut Subject<'_>,
        changes: &mut Changes,
        prepared: &mut Prepared,
    ) -> Result<Box<SessionImage>, Refusal> {
        self.assign(subject, changes, prepared)?;
        let own = subject.live.leases.iter().chain(&prepared.addresses);
        let mut leases: Vec<UeAddress> = own.copied().collect();
        prepared.immediate = std::mem::take(&mut changes.immediate);
        prepared.fresh = recreated(changes);
        let bucket = self.allocate(subject, changes, prepared)?;
        let mut image = self.build(subject, bucket, changes, &mut prepared.joined)?;
        let before = &subject.live.rules;
        let end_markers = &mut prepared.immediate.end_markers;
        end_markers.retain(|far| leaves_tunnel(before, &image.rules, *far));
        if !prepared.fresh.is_empty() {
            image
                .installation
                .get_or_insert_default()
                .fresh_urrs
                .clone_from(&prepared.fresh);
        }
        self.claim(subject.index, &image, prepared)?;
        self.check_quota(subject, &image, prepared)?;
        if changes.restores {
            // An address of our pools, which the session had before our restart, is its lease again.
            let own = image.ue_addresses.iter();
            leases.extend(own.filter(|address| self.resources.addresses.is_of_pool(**address)));
            image.comes_from_elsewhere();
        }
        prepared.queried = dissociated(subject.live, &image.rules, &prepared.fresh);
        prepared.associated = associated(subject.live, &image.rules, &prepared.fresh);
        prepared.ended = ended_with_links(subject.live, &image.rules, &prepared.fresh);
        prepared.live = Live::of(&image, leases);
        prepared.shared.retain_used(&image.rules);
        self.resources.give_back_unused(subject.index, prepared);
        Ok(image)
    }

    /// The session's bucket as far as it is known: its own, or that of its UE address, or the one that stands for that
    /// among those of the slice's workers.
    fn bucket_of(&self, subject: &Subject<'_>, changes: &Changes) -> Option<Bucket> {
        let nearest = |home| self.buckets.allowed(subject.slice).nearest(home);
        subject.bucket.or_else(|| home(changes).and_then(nearest))
    }

    /// Any bucket that a new session may be in, where these are not all and F-TEIDs are to be drawn.
    fn any_bucket(&mut self, subject: &Subject<'_>, changes: &Changes) -> Option<Bucket> {
        let allowed = self.buckets.allowed(subject.slice);
        let is_drawn = allowed.set().is_some() && !changes.choose.is_empty();
        let any = is_drawn.then(|| Bucket::of_rss_hash(self.random.next_u32()));
        any.and_then(|any| allowed.nearest(any))
    }

    /// Gives UE addresses to what wants them.
    fn assign(
        &mut self,
        subject: &Subject<'_>,
        changes: &mut Changes,
        prepared: &mut Prepared,
    ) -> Result<(), Refusal> {
        let bucket = self.bucket_of(subject, changes);
        let mut assignment = Assignment {
            pools: &self.config.pools,
            addresses: &mut self.resources.addresses,
            session: subject.index,
            bucket,
            allowed: self.buckets.allowed(subject.slice),
            live: subject.live,
            assigned: Vec::new(),
            drawn: Vec::new(),
            shared: Vec::new(),
        };
        let result = assignment.fill(changes);
        prepared.assigned = assignment.assigned;
        prepared.addresses = assignment.drawn;
        result
    }

    /// Gives F-TEIDs to what wants them. Answers the session's bucket, if it has come clear which one that is.
    fn allocate(
        &mut self,
        subject: &mut Subject<'_>,
        changes: &mut Changes,
        prepared: &mut Prepared,
    ) -> Result<Option<Bucket>, Refusal> {
        let known = std::mem::take(&mut subject.shared);
        let bucket = self.bucket_of(subject, changes);
        let bucket = bucket.or_else(|| self.any_bucket(subject, changes));
        let mut allocation = Allocation {
            network: &self.environment.network,
            tunnels: &mut self.resources.tunnels,
            session: subject.index,
            bucket,
            rules: &subject.live.rules,
            shared: if self.config.choose_id_spans_session {
                known
            } else {
                ChosenFTeids::default()
            },
            of_request: Vec::new(),
            created: Vec::new(),
            drawn: Vec::new(),
        };
        let result = allocation.fill(changes);
        prepared.created = allocation.created;
        prepared.shared = allocation.shared;
        prepared.claimed = allocation.drawn;
        result.map(|()| allocation.bucket)
    }

    /// That the session's association may have what the change takes.
    fn check_quota(
        &self,
        subject: &Subject<'_>,
        image: &SessionImage,
        prepared: &Prepared,
    ) -> Result<(), Refusal> {
        let worker = self.buckets.owner(image.bucket);
        let taken = prepared.takes(self.buckets.with_exceptions(image.bucket));
        match self.resources.quotas.allows(subject.charged_to, worker, taken) {
            true => Ok(()),
            false => Err(Refusal::NoResources),
        }
    }

    /// F-TEIDs that the control plane chose must be allowed, or be the session's already.
    fn check_chosen(&self, live: &Live, changes: &Changes) -> Result<(), Refusal> {
        if self.config.accept_cp_f_teids || changes.restores {
            return Ok(());
        }
        let known = |chosen: &FTeid| live.rules.f_teids().any(|used| used == *chosen);
        let chooses = |to: &Recipient| changes.choose.iter().any(|choose| choose.to == *to);
        let named = f_teids_named(changes).filter(|(to, _)| !chooses(to));
        match named.into_iter().find(|(_, f_teid)| !known(f_teid)) {
            Some((to, _)) => Err(Refusal::rule(to, RuleFault::ChosenByPeer)),
            None => Ok(()),
        }
    }

    fn build(
        &mut self,
        subject: &Subject<'_>,
        bucket: Option<Bucket>,
        changes: &mut Changes,
        joined: &mut Vec<CorrelationId>,
    ) -> Result<Box<SessionImage>, Refusal> {
        let (index, live) = (subject.index, subject.live);
        let mut rules = SessionRules::clone(&live.rules);
        let packets = std::mem::take(&mut changes.packets);
        changes.make(&mut rules, &self.config.predefined)?;
        let network = &self.environment.network;
        choose_nat(&mut rules, &live.rules, network, changes.follow)?;
        let before = Previous {
            rules: &live.rules,
            classifier: &live.classifier,
        };
        let mut image = compile_after(before, &Arc::new(rules), network, &*self.environment.adjacencies)?;
        let parties = Parties {
            owner: subject.owner,
            charged_to: subject.charged_to,
            is_limited: true,
        };
        self.resources.correlate(index, parties, &image.rules, joined)?;
        let correlations = &self.resources.correlations;
        image.share_rates(|correlation| correlations.meter(index, correlation));
        image.bring_packets(packets);
        image.session = index;
        image.seid = subject.seid.0;
        let own = match (bucket, image.tunnels.first()) {
            (Some(bucket), _) => bucket,
            (None, Some((_, teid))) => bucket::of_teid(teid.0),
            (None, None) => Bucket::of_rss_hash(self.random.next_u32()),
        };
        let allowed = self.buckets.allowed(subject.slice);
        image.bucket = allowed.nearest(own).ok_or(Refusal::NoResources)?;
        let alike = image.is_classified_like(&live.rules, &live.classifier);
        image.classification_generation = live.generation.wrapping_add(u32::from(!alike));
        Ok(Box::new(image))
    }

    /// Takes the tunnels and UE addresses of `image` that the session does not have yet.
    fn claim(
        &mut self,
        index: SessionIndex,
        image: &SessionImage,
        prepared: &mut Prepared,
    ) -> Result<(), Refusal> {
        for tunnel in &image.tunnels {
            let holder = self.resources.tunnels.holder(*tunnel);
            if holder == Some(index) {
                continue;
            }
            if holder.is_some_and(|holder| !self.table.has_lost(holder)) {
                return Err(Refusal::rule(
                    rule_of_tunnel(image, &self.environment.network, *tunnel),
                    RuleFault::TunnelTaken,
                ));
            }
            self.resources.tunnels.give(*tunnel, index);
            prepared.claimed.push(*tunnel);
        }
        for address in &image.ue_addresses {
            if self.resources.addresses.holder(*address) == Some(index) {
                continue;
            }
            let is_other = |holder| holder != index && !self.table.has_lost(holder);
            if self.resources.addresses.is_taken(*address, is_other) {
                return Err(Refusal::rule(
                    pdr_of_address(image, *address),
                    RuleFault::AddressTaken,
                ));
            }
            self.resources.addresses.give(*address, index);
            prepared.addresses.push(*address);
        }
        Ok(())
    }
}

/// The F-TEIDs that a request names, with what they are for.
pub(crate) fn f_teids_named(changes: &Changes) -> impl Iterator<Item = (Recipient, FTeid)> + '_ {
    fn set(edit: Edit<FTeid>) -> Option<FTeid> {
        match edit {
            Edit::Set(f_teid) => Some(f_teid),
            Edit::Keep | Edit::Clear => None,
        }
    }
    let pdrs = changes.create_pdrs.iter().map(|pdr| (pdr.id, pdr.pdi.f_teid));
    let updates = changes.update_pdrs.iter();
    let updates = updates.map(|pdr| (pdr.id, pdr.pdi.as_ref().and_then(|pdi| set(pdi.f_teid))));
    let endpoints = changes.create_endpoints.iter().map(|one| (one.id, one.f_teid));
    let endpoint_updates = changes
        .update_endpoints
        .iter()
        .map(|one| (one.id, set(one.f_teid)));
    let pdrs = pdrs
        .chain(updates)
        .filter_map(|(id, f_teid)| Some((id.into(), f_teid?)));
    let endpoints = endpoints.chain(endpoint_updates);
    pdrs.chain(endpoints.filter_map(|(id, f_teid)| Some((id.into(), f_teid?))))
}

/// The first PDR or Traffic Endpoint with this tunnel, to be named in a refusal.
fn rule_of_tunnel(image: &SessionImage, network: &Network, (local, teid): Tunnel) -> RuleRef {
    let is_local = |address: IpAddr| network.local(address).is_some_and(|(_, id)| id == local);
    let is_it = |own: FTeid| own.teid == teid && own.addresses().any(is_local);
    let mut pdrs = image.rules.pdrs().iter();
    let mut endpoints = image.rules.endpoints().iter();
    let pdr = pdrs
        .find(|pdr| pdr.pdi.f_teid.is_some_and(is_it))
        .map(|pdr| pdr.id.into());
    let endpoint = || {
        endpoints
            .find(|one| one.f_teid.is_some_and(is_it))
            .map(|one| one.id.into())
    };
    pdr.or_else(endpoint).unwrap_or(PdrId(0).into())
}

/// The first PDR that plain packets with this UE address come to, to be named in a refusal.
fn pdr_of_address(image: &SessionImage, (_, prefix): UeAddress) -> PdrId {
    let mut pdrs = image.rules.pdrs().iter().filter(|pdr| pdr.pdi.f_teid.is_none());
    let found = pdrs.find(|pdr| {
        let is_plain = pdr.pdi.source_interface != SourceInterface::Access;
        is_plain && pdr.pdi.ue_prefixes().any(|own| own == prefix)
    });
    found.map_or(PdrId(0), |pdr| pdr.id)
}
