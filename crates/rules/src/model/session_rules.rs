//! All rules of one session, and the edits that a PFCP request makes on them.
//!
//! An edit checks that ids are new or known; whether the rules hang together (a PDR's FAR exists, a tunnel's address
//! is ours) is `compile`'s to say, once all edits of a request are made. So a caller edits a copy, compiles it, and
//! throws the copy away on an error: all or nothing.

use core::num::NonZeroU32;
use std::collections::BTreeSet;
use std::sync::Arc;

use flow::InstanceId;
use flow::meter::SharedId;
use nat::pools::NatPoolId;
use smallvec::SmallVec;

use super::access_list::AccessList;
use super::endpoint::{TrafficEndpoint, TrafficEndpointUpdate};
use super::far::{Bar, ChosenNat, Far, NatChoice};
use super::fault::{EditError, EditFault};
use super::ids::{BarId, CorrelationId, FarId, PdrId, QerId, RuleRef, TrafficEndpointId, UrrId};
use super::interfaces::SourceInterface;
use super::measurement::ReportingTriggers;
use super::pdr::{FTeid, Pdr, UeIpAddress};
use super::predefined::{Predefined, Removed, RemovedName};
use super::qer::{PacketRates, Qer};
use super::rule_list::{Instances, create, create_all, find, remove, update};
use super::rulebase::Rulebase;
use super::shared_rules::{NonFarRules, SharedRules};
use super::update::{BarUpdate, FarUpdate, PdiUpdate, PdrUpdate, QerUpdate};
use super::urr::Urr;
use super::urr_update::UrrUpdate;
use crate::prefix::IpPrefix;
use crate::sdf::{SdfFilter, SdfFilterId};

/// The rules of one session, in the order of their creation; each kind has unique ids.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionRules {
    fars: Vec<Far>,
    shared: SharedRules,
    policers: SharedId,
    nat: Option<NatPoolId>,
    chosen_nat: Option<ChosenNat>,
    inactivity_timer: Option<InactivityTimer>,
}

/// A User Plane Inactivity Timer (TS 29.244 §5.11.2, §8.2.83).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InactivityTimer {
    /// After how many seconds without a packet inactivity is reported.
    pub seconds: NonZeroU32,
    /// Which one of the session's it is, from 1: another number means that it was provisioned anew, and begins anew.
    pub number: u32,
}

/// What the configuration has for a session, by its slice and its data network: no control plane knows of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LocalPolicy {
    /// The number of the policers that its packets pass.
    pub policers: SharedId,
    /// What decides which of its packets PDRs may detect.
    pub access_list: Option<Arc<AccessList>>,
    /// The pool of public addresses that its packets to data networks get theirs of.
    pub nat: Option<NatPoolId>,
}

/// What a URR says is what it can do.
fn check_urr(urr: &Urr) -> Result<(), EditError> {
    urr.fault().map_or(Ok(()), |fault| {
        Err(EditError {
            rule: urr.id.into(),
            fault,
        })
    })
}

/// Those of `filters` that other PDRs can name.
fn definitions(filters: &[SdfFilter]) -> Vec<(SdfFilterId, SdfFilter)> {
    let with_pattern = filters.iter().filter(|filter| filter.has_pattern());
    with_pattern
        .filter_map(|filter| Some((filter.filter_id?, filter.clone())))
        .collect()
}

/// Copies into `pdr` what its Traffic Endpoint says, if it names one.
fn fill(endpoints: &[TrafficEndpoint], pdr: &mut Pdr) -> Result<(), EditError> {
    let Some(named) = pdr.pdi.endpoint else {
        return Ok(());
    };
    let endpoint = find(endpoints, named).ok_or(EditError {
        rule: pdr.id.into(),
        fault: EditFault::NoEndpoint(named),
    })?;
    endpoint.fill(&mut pdr.pdi, None);
    Ok(())
}

impl SessionRules {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether these and `other` are known to differ in FARs, policers and the inactivity timer alone: the one was made
    /// of the other without a change of anything else.
    pub(crate) fn shares_all_but_fars_with(&self, other: &Self) -> bool {
        self.shared.is_shared_with(&other.shared)
    }

    /// What the configuration has for the slice and the data network that the session belongs to.
    pub fn local_policy(&self) -> LocalPolicy {
        LocalPolicy {
            policers: self.policers,
            access_list: self.access_list().cloned(),
            nat: self.nat,
        }
    }

    /// Says what the configuration has for the session.
    pub fn set_local_policy(&mut self, policy: LocalPolicy) {
        let LocalPolicy {
            policers,
            access_list,
            nat,
        } = policy;
        self.policers = policers;
        self.nat = nat;
        if self.access_list() != access_list.as_ref() {
            self.shared.access_list = access_list;
        }
    }

    /// The network instances that its rules name.
    pub fn named_instances(&self) -> impl Iterator<Item = InstanceId> + '_ {
        let of_pdrs = self.pdrs().iter().map(|pdr| pdr.pdi.instance);
        let of_fars = self.fars().iter().map(|far| far.forwarding.as_ref()?.instance);
        of_pdrs.chain(of_fars).flatten()
    }

    /// The policers of the slice and the data network that the session belongs to.
    pub const fn policers(&self) -> SharedId {
        self.policers
    }

    /// Says to which slice and data network the session belongs: the number of [`Policers`](crate::network::Policers).
    pub const fn set_policers(&mut self, policers: SharedId) {
        self.policers = policers;
    }

    /// The access list of the slice and the data network that the session belongs to.
    pub fn access_list(&self) -> Option<&Arc<AccessList>> {
        self.shared.access_list.as_ref()
    }

    /// The pool of public addresses of the session: that which a FAR chooses, else that of the slice and the data
    /// network that the session belongs to.
    pub const fn nat(&self) -> Option<NatPoolId> {
        match self.chosen_nat {
            None => self.nat,
            Some(chosen) => match chosen.choice {
                NatChoice::Untranslated => None,
                NatChoice::Pool(pool) => Some(pool),
            },
        }
    }

    /// What a FAR chooses of public addresses, if one does.
    pub const fn chosen_nat(&self) -> Option<ChosenNat> {
        self.chosen_nat
    }

    /// Says what a FAR chooses of public addresses: see [`Network::nat_choice`](crate::network::Network::nat_choice).
    pub const fn set_chosen_nat(&mut self, chosen: Option<ChosenNat>) {
        self.chosen_nat = chosen;
    }

    /// The PDRs. A PDR's place here is its *slot*.
    pub fn pdrs(&self) -> &[Pdr] {
        &self.shared.pdrs
    }

    /// The FARs. A FAR's place here is its *slot*.
    pub fn fars(&self) -> &[Far] {
        &self.fars
    }

    /// By what a QER keeps its maximum bit rate together with QERs of other sessions: its correlation, while the UE is
    /// in EPC; in 5GC every session has a rate of its own (TS 29.244 §5.2.1). There it is while downlink packets of the
    /// QER's PDRs, or if it has none, any packets, get a QoS flow.
    pub fn correlation(&self, qer: &Qer) -> Option<CorrelationId> {
        let correlation = qer.correlation?;
        let has_flow = |pdr: &&Pdr| {
            let mut qers = pdr.qers.iter().filter_map(|id| self.qer(*id));
            qers.any(|qer| qer.qfi.is_some())
        };
        let theirs = || self.pdrs().iter().filter(|pdr| pdr.qers.contains(&qer.id));
        let is_downlink = |pdr: &&Pdr| pdr.pdi.source_interface != SourceInterface::Access;
        let mut downlink = theirs().filter(is_downlink).peekable();
        let is_in_5gc = if downlink.peek().is_some() {
            downlink.any(|pdr| has_flow(&pdr))
        } else {
            theirs().any(|pdr| has_flow(&pdr))
        };
        (!is_in_5gc).then_some(correlation)
    }

    /// The correlations that act, each with its QER.
    pub fn correlations(&self) -> impl Iterator<Item = (CorrelationId, &Qer)> {
        let qers = self.qers().iter();
        qers.filter_map(|qer| Some((self.correlation(qer)?, qer)))
    }

    /// The QERs with packet rates, in the order of their slots.
    pub fn packet_rated(&self) -> impl Iterator<Item = (QerId, PacketRates)> + '_ {
        self.shared
            .qers
            .iter()
            .filter_map(|qer| Some((qer.id, qer.optional.packet_rates?)))
    }

    /// The slot of a QER's packet rates, behind those of all QERs.
    pub fn packet_slot(&self, id: QerId) -> Option<usize> {
        let place = self.packet_rated().position(|(qer, _)| qer == id)?;
        Some(self.shared.qers.len() + place)
    }

    /// The QERs. A QER's place here is its *slot*.
    pub fn qers(&self) -> &[Qer] {
        &self.shared.qers
    }

    /// The URRs. A URR's place here is its *slot*.
    pub fn urrs(&self) -> &[Urr] {
        &self.shared.urrs
    }

    /// The BARs.
    pub fn bars(&self) -> &[Bar] {
        &self.shared.optional.bars
    }

    /// The Traffic Endpoints.
    pub fn endpoints(&self) -> &[TrafficEndpoint] {
        &self.shared.optional.endpoints
    }

    /// The User Plane Inactivity Timer, if there is one.
    pub fn inactivity_timer(&self) -> Option<InactivityTimer> {
        self.inactivity_timer
    }

    /// Provisions a User Plane Inactivity Timer, in seconds; 0: none.
    pub fn set_inactivity_timer(&mut self, seconds: u32) {
        let last = self.inactivity_timer.map_or(0, |timer| timer.number);
        let number = last.wrapping_add(1);
        self.inactivity_timer = NonZeroU32::new(seconds).map(|seconds| InactivityTimer { seconds, number });
    }

    /// The PDR with this id.
    pub fn pdr(&self, id: PdrId) -> Option<&Pdr> {
        find(&self.shared.pdrs, id)
    }

    /// The FAR with this id.
    pub fn far(&self, id: FarId) -> Option<&Far> {
        find(&self.fars, id)
    }

    /// The QER with this id.
    pub fn qer(&self, id: QerId) -> Option<&Qer> {
        find(&self.shared.qers, id)
    }

    /// The URRs of a PDR that report End Markers (TS 29.244 §5.2.2.5).
    pub fn reports_end_markers<'a>(&'a self, pdr: &'a Pdr) -> impl Iterator<Item = UrrId> + 'a {
        let rules = self.urrs().iter();
        let asked = rules.filter(|urr| urr.triggers.contains(ReportingTriggers::REEMR));
        asked.map(|urr| urr.id).filter(|urr| pdr.urrs.contains(urr))
    }

    /// Whether a Pause of Charging is for any of its URRs (TS 29.244 §5.30).
    pub fn heeds_pause(&self) -> bool {
        self.shared.urrs.iter().any(Urr::heeds_pause)
    }

    /// Whether a URR counts that does not while charging is paused.
    pub fn is_charging(&self) -> bool {
        self.shared
            .urrs
            .iter()
            .any(|urr| urr.heeds_pause() && !urr.is_paused())
    }

    /// Stops the measurement of all URRs that a Pause of Charging is for, or resumes it, whatever stopped it (TS 29.244
    /// §5.30, NOTE 4).
    pub fn pause_charging(&mut self, is_paused: bool) {
        for urr in self.shared.urrs.iter_mut().filter(|urr| urr.heeds_pause()) {
            urr.set_paused(is_paused);
        }
    }

    /// The URR with this id.
    pub fn urr(&self, id: UrrId) -> Option<&Urr> {
        find(&self.shared.urrs, id)
    }

    /// The BAR with this id.
    pub fn bar(&self, id: BarId) -> Option<&Bar> {
        find(&self.shared.optional.bars, id)
    }

    /// The Traffic Endpoint with this id.
    pub fn endpoint(&self, id: TrafficEndpointId) -> Option<&TrafficEndpoint> {
        find(&self.shared.optional.endpoints, id)
    }

    /// The filter that `filter` refers to: itself, or the definition shared under its id. `None` when it has only
    /// an id, and nothing has defined that.
    pub fn resolve<'a>(&'a self, filter: &'a SdfFilter) -> Option<&'a SdfFilter> {
        match filter.filter_id {
            Some(id) => self.shared.optional.shared_filters.get(&id),
            None => Some(filter),
        }
    }

    /// The definitions of SDF filters that PDRs use by id, in the order of their ids.
    pub fn shared_filters(&self) -> impl Iterator<Item = &SdfFilter> {
        self.shared.optional.shared_filters.values()
    }

    /// The PDRs whose packets a FAR may be applied to: as their own, or since a quota is used up.
    pub fn users(&self, far: FarId) -> impl Iterator<Item = &Pdr> + Clone {
        let acting = self.shared.urrs.iter();
        let acting = acting.filter(move |urr| urr.terms().quota_action == Some(far));
        // What stops for a credit pool are the packets of its members.
        let members = |urr: &'_ Urr| -> SmallVec<[UrrId; 4]> {
            match urr.pool() {
                None => SmallVec::from_slice(&[urr.id]),
                Some(pool) => pool.iter().map(|one| one.urr).collect(),
            }
        };
        let acting: SmallVec<[UrrId; 4]> = acting.flat_map(members).collect();
        let substitutes = move |pdr: &Pdr| acting.iter().any(|urr| pdr.may_count_in(*urr));
        let pdrs = self.shared.pdrs.iter();
        pdrs.filter(move |pdr| pdr.may_follow(far) || substitutes(pdr))
    }

    /// The F-TEIDs of PDRs and Traffic Endpoints.
    pub fn f_teids(&self) -> impl Iterator<Item = FTeid> + '_ {
        let endpoints = self
            .shared
            .optional
            .endpoints
            .iter()
            .filter_map(|endpoint| endpoint.f_teid);
        self.shared
            .pdrs
            .iter()
            .filter_map(|pdr| pdr.pdi.f_teid)
            .chain(endpoints)
    }

    /// The UE IP Addresses of PDRs and Traffic Endpoints, without framed routes, sorted, each once.
    pub fn ue_ip_prefixes(&self) -> Vec<IpPrefix> {
        let endpoints = self
            .shared
            .optional
            .endpoints
            .iter()
            .flat_map(|endpoint| &endpoint.ue_ip);
        let all = self
            .shared
            .pdrs
            .iter()
            .flat_map(|pdr| &pdr.pdi.ue_ip)
            .chain(endpoints);
        let mut prefixes: Vec<IpPrefix> = all.flat_map(UeIpAddress::prefixes).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        prefixes
    }

    /// The session's UE addresses and framed routes, from all PDRs, sorted, each once.
    pub fn ue_prefixes(&self) -> SmallVec<[IpPrefix; 4]> {
        let mut prefixes = SmallVec::new();
        for pdr in &self.shared.pdrs {
            for prefix in pdr.pdi.ue_prefixes() {
                // The usual one is everywhere the same.
                if prefixes.last() != Some(&prefix) {
                    prefixes.push(prefix);
                }
            }
        }
        prefixes.sort_unstable();
        prefixes.dedup();
        prefixes
    }

    /// Adds a PDR (Create PDR).
    ///
    /// # Errors
    /// [`EditFault::Exists`] when the id is taken; so for every `create_`. [`EditFault::NoEndpoint`].
    pub fn create_pdr(&mut self, mut pdr: Pdr) -> Result<(), EditError> {
        fill(&self.shared.optional.endpoints, &mut pdr)?;
        let filters = definitions(&pdr.pdi.sdf_filters);
        create(&mut self.shared.pdrs, pdr)?;
        self.shared.share(filters);
        Ok(())
    }

    /// Adds several PDRs, as [`create_pdr`](Self::create_pdr) does one; after an error the rules are to be thrown away.
    pub fn create_pdrs(&mut self, pdrs: Vec<Pdr>) -> Result<(), EditError> {
        if pdrs.is_empty() {
            return Ok(());
        }
        let shared = &mut *self.shared;
        let NonFarRules {
            pdrs: own, optional, ..
        } = shared;
        let mut filters = Vec::new();
        create_all(own, pdrs, |pdr| {
            fill(&optional.endpoints, pdr)?;
            filters.extend(definitions(&pdr.pdi.sdf_filters));
            Ok(())
        })?;
        shared.share(filters);
        Ok(())
    }

    /// Adds several FARs.
    pub fn create_fars(&mut self, fars: Vec<Far>) -> Result<(), EditError> {
        create_all(&mut self.fars, fars, |_| Ok(()))
    }

    /// Adds several QERs.
    pub fn create_qers(&mut self, qers: Vec<Qer>) -> Result<(), EditError> {
        if qers.is_empty() {
            return Ok(());
        }
        create_all(&mut self.shared.qers, qers, |_| Ok(()))
    }

    /// Adds several URRs, as [`create_urr`](Self::create_urr) does one.
    pub fn create_urrs(&mut self, urrs: Vec<Urr>) -> Result<(), EditError> {
        if urrs.is_empty() {
            return Ok(());
        }
        let shared = &mut *self.shared;
        let mut filters = Vec::new();
        create_all(&mut shared.urrs, urrs, |urr| {
            check_urr(urr)?;
            filters.extend(definitions(&urr.terms().exempt_filters));
            Ok(())
        })?;
        shared.share(filters);
        Ok(())
    }

    /// Adds a FAR (Create FAR).
    pub fn create_far(&mut self, far: Far) -> Result<(), EditError> {
        create(&mut self.fars, far)
    }

    /// Adds a QER (Create QER).
    pub fn create_qer(&mut self, qer: Qer) -> Result<(), EditError> {
        create(&mut self.shared.qers, qer)
    }

    /// Adds a URR (Create URR).
    ///
    /// # Errors
    /// Also [`EditFault::Unmeasured`] and [`EditFault::NoMonitoringTime`].
    pub fn create_urr(&mut self, urr: Urr) -> Result<(), EditError> {
        check_urr(&urr)?;
        let filters = definitions(&urr.terms().exempt_filters);
        create(&mut self.shared.urrs, urr)?;
        self.shared.share(filters);
        Ok(())
    }

    /// Adds a BAR (Create BAR).
    pub fn create_bar(&mut self, bar: Bar) -> Result<(), EditError> {
        create(&mut self.shared.optional.get_or_insert_default().bars, bar)
    }

    /// Adds a Traffic Endpoint (Create Traffic Endpoint).
    pub fn create_endpoint(&mut self, endpoint: TrafficEndpoint) -> Result<(), EditError> {
        create(
            &mut self.shared.optional.get_or_insert_default().endpoints,
            endpoint,
        )
    }

    /// Changes a PDR (Update PDR).
    ///
    /// # Errors
    /// [`EditFault::Unknown`] when there is no such rule; so for every `update_` and `remove_`.
    /// [`EditFault::NoEndpoint`].
    pub fn update_pdr(&mut self, change: PdrUpdate) -> Result<(), EditError> {
        let filters = change
            .pdi
            .as_ref()
            .and_then(|pdi| pdi.sdf_filters.as_deref())
            .map(definitions)
            .unwrap_or_default();
        let (id, renames) = (change.id, change.pdi.as_ref().is_some_and(PdiUpdate::is_whole));
        update(&mut self.shared.pdrs, id, |pdr| change.apply(pdr))?;
        let shared = &mut *self.shared;
        let NonFarRules { pdrs, optional, .. } = shared;
        if let Some(pdr) = pdrs.iter_mut().find(|pdr| renames && pdr.id == id) {
            fill(&optional.endpoints, pdr)?;
        }
        shared.share(filters);
        Ok(())
    }

    /// Changes a FAR (Update FAR).
    pub fn update_far(&mut self, change: FarUpdate) -> Result<(), EditError> {
        update(&mut self.fars, change.id, |far| change.apply(far))
    }

    /// Changes a QER (Update QER).
    pub fn update_qer(&mut self, change: QerUpdate) -> Result<(), EditError> {
        update(&mut self.shared.qers, change.id, |qer| change.apply(qer))
    }

    /// Changes a URR (Update URR).
    ///
    /// # Errors
    /// Also [`EditFault::Unmeasured`] and [`EditFault::NoMonitoringTime`].
    pub fn update_urr(&mut self, change: UrrUpdate) -> Result<(), EditError> {
        if let Some(urr) = find(&self.shared.urrs, change.id) {
            change.check(urr).map_err(|fault| EditError {
                rule: change.id.into(),
                fault,
            })?;
        }
        let exempt = change
            .terms
            .as_deref()
            .and_then(|terms| terms.exempt_filters.as_deref());
        let filters = definitions(exempt.unwrap_or_default());
        update(&mut self.shared.urrs, change.id, |urr| change.apply(urr))?;
        self.shared.share(filters);
        Ok(())
    }

    /// Changes a BAR (Update BAR).
    pub fn update_bar(&mut self, change: BarUpdate) -> Result<(), EditError> {
        update(
            &mut self.shared.optional.get_or_insert_default().bars,
            change.id,
            |bar| change.apply(bar),
        )
    }

    /// Changes a Traffic Endpoint, and with it all PDRs that name it (Update Traffic Endpoint).
    pub fn update_endpoint(&mut self, change: TrafficEndpointUpdate) -> Result<(), EditError> {
        let id = change.id;
        let before = self.endpoint(id).cloned();
        let NonFarRules { pdrs, optional, .. } = &mut *self.shared;
        let endpoints = &mut optional.get_or_insert_default().endpoints;
        update(endpoints, id, |endpoint| change.apply(endpoint))?;
        if let Some(endpoint) = find(endpoints, id) {
            let named = pdrs.iter_mut().filter(|pdr| pdr.pdi.endpoint == Some(id));
            named.for_each(|pdr| endpoint.fill(&mut pdr.pdi, before.as_ref()));
        }
        Ok(())
    }

    /// Takes a PDR out (Remove PDR).
    pub fn remove_pdr(&mut self, id: PdrId) -> Result<Pdr, EditError> {
        remove(&mut self.shared.pdrs, id)
    }

    /// Takes a FAR out (Remove FAR). A PDR that still names it makes the rules fail to compile; but a predefined one
    /// goes off the PDRs that name it, so that those of their rulebases apply (TS 29.244 §5.4.9). A URR whose quota
    /// action it was has none any more (Table 7.5.2.4-1, NOTE 3).
    pub fn remove_far(&mut self, id: FarId) -> Result<Far, EditError> {
        let removed = remove(&mut self.fars, id)?;
        let acts = |urr: &Urr| urr.terms().quota_action == Some(id);
        if self.shared.urrs.iter().any(acts) {
            for urr in &mut self.shared.urrs {
                urr.forget_quota_action(id);
            }
        }
        if RuleRef::Far(id).is_predefined() {
            for pdr in &mut self.shared.pdrs {
                pdr.far = pdr.far.filter(|&named| named != id);
            }
        }
        Ok(removed)
    }

    /// Takes a QER out, and off the PDRs that name it (Remove QER).
    pub fn remove_qer(&mut self, id: QerId) -> Result<Qer, EditError> {
        let removed = remove(&mut self.shared.qers, id)?;
        for pdr in &mut self.shared.pdrs {
            pdr.qers.retain(|named| named != id);
        }
        Ok(removed)
    }

    /// Takes a URR out, and off the PDRs that name it, the URRs that are linked to it, and the credit pools that it is
    /// of (Remove URR).
    pub fn remove_urr(&mut self, id: UrrId) -> Result<Urr, EditError> {
        let removed = remove(&mut self.shared.urrs, id)?;
        for urr in &mut self.shared.urrs {
            urr.unlink(id);
            urr.leave(id);
        }
        for pdr in &mut self.shared.pdrs {
            pdr.urrs.retain(|named| named != id);
        }
        Ok(removed)
    }

    /// Takes a BAR out, and off the FARs that name it (Remove BAR).
    pub fn remove_bar(&mut self, id: BarId) -> Result<Bar, EditError> {
        let removed = remove(&mut self.shared.optional.get_or_insert_default().bars, id)?;
        for far in &mut self.fars {
            far.bar = far.bar.filter(|&named| named != id);
        }
        Ok(removed)
    }

    /// Takes a Traffic Endpoint out, and all PDRs that name it (Remove Traffic Endpoint, TS 29.244 §5.2.1A.2).
    pub fn remove_endpoint(&mut self, id: TrafficEndpointId) -> Result<TrafficEndpoint, EditError> {
        let removed = remove(&mut self.shared.optional.get_or_insert_default().endpoints, id)?;
        self.shared.pdrs.retain(|pdr| pdr.pdi.endpoint != Some(id));
        Ok(removed)
    }

    /// Makes the instances of predefined rules those that PDRs use: by number, or by the rulebases that they activate.
    /// Other rules stay as they are, so do those instances that are there already. To be called when all edits of a
    /// request are made. A number that is not among `predefined` either is for `compile` to find.
    pub fn instantiate(&mut self, predefined: &Predefined) {
        if predefined.is_empty() {
            return;
        }
        let pdrs = &self.shared.pdrs;
        let fars = pdrs.iter().flat_map(|pdr| {
            let rulebases = pdr.rulebases.iter().filter(|_| pdr.far.is_none());
            pdr.far
                .into_iter()
                .chain(rulebases.flat_map(|rulebase| rulebase.fars().iter().copied()))
        });
        let qers = pdrs.iter().flat_map(|pdr| {
            let rulebases = pdr.rulebases.iter().flat_map(|rulebase| rulebase.qers());
            pdr.qers.iter().chain(rulebases).copied()
        });
        let urrs = pdrs.iter().flat_map(|pdr| {
            let rulebases = pdr.rulebases.iter().flat_map(|rulebase| rulebase.urrs());
            pdr.urrs.iter().chain(rulebases).copied()
        });
        let fars = Instances::of(&self.fars, fars, |id| predefined.far(id).cloned());
        let qers = Instances::of(&self.shared.qers, qers, |id| predefined.qer(id).cloned());
        let urrs = Instances::of(&self.shared.urrs, urrs, |id| predefined.urr(id).cloned());
        fars.apply(&mut self.fars);
        if !qers.is_empty() {
            qers.apply(&mut self.shared.qers);
        }
        if !urrs.is_empty() {
            urrs.apply(&mut self.shared.urrs);
        }
    }

    /// Whether the rulebases and the instances of predefined rules are those of `predefined`, as far as it has them.
    pub fn are_up_to_date(&self, predefined: &Predefined) -> bool {
        let mut rulebases = self.pdrs().iter().flat_map(|pdr| pdr.rulebases.iter());
        let is_same = |one: &Arc<Rulebase>| {
            let own = predefined.rulebase(one.name());
            own.is_none_or(|own| Arc::ptr_eq(own, one))
        };
        let mut fars = self.fars().iter();
        let mut qers = self.qers().iter();
        rulebases.all(is_same)
            && fars.all(|far| predefined.far(far.id).is_none_or(|own| own == far))
            && qers.all(|qer| predefined.qer(qer.id).is_none_or(|own| own == qer))
    }

    /// The first of what was `removed` that these rules use.
    pub fn first_used<'a>(&self, removed: &'a Removed) -> Option<RemovedName<'a>> {
        let has = |rule: RuleRef| match rule {
            RuleRef::Far(id) => self.far(id).is_some(),
            RuleRef::Qer(id) => self.qer(id).is_some(),
            RuleRef::Urr(id) => self.urr(id).is_some(),
            RuleRef::Pdr(_) | RuleRef::Bar(_) | RuleRef::Endpoint(_) => false,
        };
        let activates = |name: &[u8]| {
            let mut rulebases = self.pdrs().iter().flat_map(|pdr| pdr.rulebases.iter());
            rulebases.any(|one| one.name() == name)
        };
        let rulebase = removed.rulebases.iter().find(|name| activates(name));
        let rulebase = rulebase.map(|name| RemovedName::Rulebase(name));
        rulebase.or_else(|| {
            let rule = removed.rules.iter().find(|rule| has(**rule));
            rule.map(|rule| RemovedName::Rule(*rule))
        })
    }

    /// Takes over what has changed of the `predefined` rules that PDRs use, of another configuration: rulebases by
    /// their names, FARs and QERs by their numbers, in the slots that they have. (Predefined URRs have nothing that
    /// could change.) Then as [`instantiate`](Self::instantiate).
    pub fn renew(&mut self, predefined: &Predefined) {
        if !self.are_up_to_date(predefined) {
            for far in &mut self.fars {
                if let Some(own) = predefined.far(far.id) {
                    far.clone_from(own);
                }
            }
            let shared = &mut *self.shared;
            for qer in &mut shared.qers {
                if let Some(own) = predefined.qer(qer.id) {
                    qer.clone_from(own);
                }
            }
            let own = shared.pdrs.iter_mut().filter_map(|pdr| pdr.rulebases.as_mut());
            for rulebase in own.flatten() {
                let known = predefined.rulebase(rulebase.name());
                *rulebase = Arc::clone(known.unwrap_or(rulebase));
            }
        }
        self.instantiate(predefined);
    }

    /// Notes the definitions among `filters`; the latest one of an id is everyone's.
    pub fn share_filters(&mut self, filters: &[SdfFilter]) {
        let shared = definitions(filters);
        if !shared.is_empty() {
            self.shared.share(shared);
        }
    }

    /// Forgets the definitions of filters that neither a PDR nor what a quota exempts uses (TS 29.244 §8.2.5). To be
    /// called when rules have been removed, and when all edits of a request are made: it looks at all filters.
    pub fn forget_unused_filters(&mut self) {
        if self.shared.optional.shared_filters.is_empty() {
            return;
        }
        let filters = self.shared.pdrs.iter().flat_map(|pdr| &pdr.pdi.sdf_filters);
        let exempt = self
            .shared
            .urrs
            .iter()
            .flat_map(|urr| &urr.terms().exempt_filters);
        let used: BTreeSet<SdfFilterId> = filters
            .chain(exempt)
            .filter_map(|filter| filter.filter_id)
            .collect();
        if !self
            .shared
            .optional
            .shared_filters
            .keys()
            .all(|id| used.contains(id))
        {
            let filters = &mut self.shared.optional.get_or_insert_default().shared_filters;
            filters.retain(|id, _| used.contains(id));
        }
    }
}
