//! F-TEIDs that the user plane allocates (TS 29.244 §5.5.3, §8.2.3).
//!
//! The Network Instance of a PDI relates to the address of its F-TEID (Table 7.5.2.2-2, NOTE 2): the address is one of
//! that instance, and a PDR is refused if the instance has no address of the requested family. Without a Network
//! Instance, or with one that has no GTP-U role (SMFs name the instance of the data network on access PDRs, too), the
//! address is of the first instance whose role goes with the source interface and that has an address of the requested
//! family.
//!
//! PDRs with the same CHOOSE ID in a message have the same F-TEID (§8.2.3), whatever source interfaces and network
//! instances they name; a PDR whose F-TEID would have another address is refused. By configuration a CHOOSE ID names an
//! F-TEID across the messages of a session, too, for each source interface and network instance, as SMFs with one N3
//! tunnel per PDU session expect.

use flow::{Bucket, InstanceId, LocalId, SessionIndex};
use packet::Teid;
use rules::model::{
    Edit, FTeid, Pdi, PdiUpdate, PdrUpdate, SessionRules, SourceInterface, TrafficEndpointId,
};
use rules::network::{Instance, Network, Roles};
use smallvec::SmallVec;
use std::net::IpAddr;

use crate::refusal::{Refusal, RuleFault};
use crate::rule_changes::{Changes, Choose, Recipient};
use crate::tunnels::{Tunnel, Tunnels};

/// What has one F-TEID across messages: a CHOOSE ID of one source interface and network instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChooseScope {
    pub(crate) id: u8,
    pub(crate) source: SourceInterface,
    pub(crate) instance: Option<InstanceId>,
}

/// The F-TEIDs that a session's CHOOSE IDs stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChosenFTeids(Vec<(ChooseScope, FTeid)>);

impl FromIterator<(ChooseScope, FTeid)> for ChosenFTeids {
    fn from_iter<I: IntoIterator<Item = (ChooseScope, FTeid)>>(entries: I) -> ChosenFTeids {
        ChosenFTeids(entries.into_iter().collect())
    }
}

impl ChosenFTeids {
    /// Forgets F-TEIDs that no PDR of `rules` uses any more.
    pub(crate) fn retain_used(&mut self, rules: &SessionRules) {
        self.0
            .retain(|(_, chosen)| rules.f_teids().any(|used| used == *chosen));
    }

    /// The F-TEIDs and their scopes.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &(ChooseScope, FTeid)> {
        self.0.iter()
    }

    /// Most sessions have one.
    fn enter(&mut self, scope: ChooseScope, chosen: FTeid) {
        if self.get(scope).is_none() {
            self.0.reserve_exact(1);
            self.0.push((scope, chosen));
        }
    }

    fn get(&self, scope: ChooseScope) -> Option<FTeid> {
        self.0
            .iter()
            .find(|(known, _)| *known == scope)
            .map(|(_, chosen)| *chosen)
    }
}

/// One request's allocations.
pub(crate) struct Allocation<'a> {
    pub(crate) network: &'a Network,
    pub(crate) tunnels: &'a mut Tunnels,
    pub(crate) session: SessionIndex,
    /// The session's bucket; without one the first TEID drawn decides.
    pub(crate) bucket: Option<Bucket>,
    /// The rules before the request.
    pub(crate) rules: &'a SessionRules,
    pub(crate) shared: ChosenFTeids,
    /// What each CHOOSE ID of the request has got.
    pub(crate) of_request: Vec<(u8, FTeid)>,
    /// Allocated so far, for the response.
    pub(crate) created: Vec<(Recipient, FTeid)>,
    /// Drawn so far, to be undone if the request fails.
    pub(crate) drawn: Vec<Tunnel>,
}

impl Allocation<'_> {
    /// Chooses an F-TEID for each PDR and Traffic Endpoint with CHOOSE.
    pub(crate) fn fill(&mut self, changes: &mut Changes) -> Result<(), Refusal> {
        for choose in std::mem::take(&mut changes.choose) {
            match choose.to {
                Recipient::Pdr(id) => {
                    let mut created = changes.create_pdrs.iter_mut();
                    if let Some(pdr) = created.find(|pdr| pdr.id == id) {
                        let chosen = self.choose(choose, &pdr.pdi)?;
                        pdr.pdi.f_teid = Some(chosen);
                        self.created.push((choose.to, chosen));
                    } else if let Some(update) = changes.update_pdrs.iter_mut().find(|pdr| pdr.id == id) {
                        self.keep(update)?;
                    }
                }
                Recipient::Endpoint(id) => self.choose_for_endpoint(choose, id, changes)?,
            }
        }
        Ok(())
    }

    /// A Traffic Endpoint has no source interface: that of the first PDR that names it counts, PDRs of the request
    /// before those of the session. An update with CHOOSE gets another F-TEID (TS 29.244 Table 7.5.4.13-1).
    fn choose_for_endpoint(
        &mut self,
        choose: Choose,
        id: TrafficEndpointId,
        changes: &mut Changes,
    ) -> Result<(), Refusal> {
        let pdis = changes
            .create_pdrs
            .iter()
            .chain(self.rules.pdrs())
            .map(|pdr| &pdr.pdi);
        let mut sources = pdis
            .filter(|pdi| pdi.endpoint == Some(id))
            .map(|pdi| pdi.source_interface);
        let mut pdi = Pdi::new(sources.next().unwrap_or(SourceInterface::Access));
        let created = changes
            .create_endpoints
            .iter_mut()
            .find(|endpoint| endpoint.id == id);
        let updated = changes
            .update_endpoints
            .iter_mut()
            .find(|endpoint| endpoint.id == id);
        match (created, updated) {
            (Some(endpoint), _) => {
                pdi.instance = endpoint.instance;
                let chosen = self.choose(choose, &pdi)?;
                endpoint.f_teid = Some(chosen);
                self.created.push((choose.to, chosen));
            }
            (None, Some(update)) => {
                pdi.instance = self.rules.endpoint(id).and_then(|before| before.instance);
                update.instance.apply(&mut pdi.instance);
                let chosen = self.choose(choose, &pdi)?;
                update.f_teid = Edit::Set(chosen);
                self.created.push((choose.to, chosen));
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// An update of a PDR with CHOOSE keeps the F-TEID of the PDR.
    fn keep(&self, update: &mut PdrUpdate) -> Result<(), Refusal> {
        let has = self.rules.pdr(update.id).and_then(|pdr| pdr.pdi.f_teid);
        match (has, &mut update.pdi) {
            (Some(f_teid), Some(PdiUpdate { f_teid: wanted, .. })) => *wanted = Edit::Set(f_teid),
            (None, Some(_)) => return Err(Refusal::rule(update.id, RuleFault::ChooseInUpdate)),
            (_, None) => {}
        }
        Ok(())
    }

    fn choose(&mut self, choose: Choose, pdi: &Pdi) -> Result<FTeid, Refusal> {
        let scope = choose.id.map(|id| ChooseScope {
            id,
            source: pdi.source_interface,
            instance: pdi.instance,
        });
        if let Some(scope) = scope
            && let Some(known) = self.known(scope, choose, pdi)?
        {
            return Ok(known);
        }
        let (locals, mut chosen) = local_addresses(self.network, choose, pdi)
            .ok_or(Refusal::rule(choose.to, RuleFault::NoLocalAddress))?;
        chosen.teid = self
            .tunnels
            .draw(&locals, self.bucket, self.session)
            .map_err(|_| Refusal::NoResources)?;
        self.bucket.get_or_insert(flow::bucket::of_teid(chosen.teid.0));
        self.drawn
            .extend(locals.iter().map(|local| (*local, chosen.teid)));
        if let Some(scope) = scope {
            self.of_request.push((scope.id, chosen));
            self.shared.enter(scope, chosen);
        }
        Ok(chosen)
    }

    /// The F-TEID that a CHOOSE ID names already, if it does: of the request itself, or across messages.
    fn known(&mut self, scope: ChooseScope, choose: Choose, pdi: &Pdi) -> Result<Option<FTeid>, Refusal> {
        let mut of_request = self.of_request.iter();
        if let Some((_, known)) = of_request.find(|(id, _)| *id == scope.id).copied() {
            if !ends_at(self.network, known, choose, pdi) {
                return Err(Refusal::rule(choose.to, RuleFault::ChosenElsewhere));
            }
            self.shared.enter(scope, known);
            return Ok(Some(known));
        }
        let known = self.shared.get(scope);
        self.of_request.extend(known.map(|known| (scope.id, known)));
        Ok(known)
    }
}

/// The addresses of the F-TEID; its TEID is still 0. `None`: no instance has an address of the requested family.
fn local_addresses(network: &Network, choose: Choose, pdi: &Pdi) -> Option<(SmallVec<[LocalId; 2]>, FTeid)> {
    let any = !choose.ipv4 && !choose.ipv6;
    candidates(network, pdi).find_map(|instance| {
        let ipv4 = instance
            .ipv4
            .map(|(address, _)| address)
            .filter(|_| choose.ipv4 || any);
        let ipv6 = instance.ipv6.map(|(address, _)| address);
        let ipv6 = ipv6.filter(|_| choose.ipv6 || (any && ipv4.is_none()));
        let addresses = ipv4.map(IpAddr::V4).into_iter().chain(ipv6.map(IpAddr::V6));
        let locals: SmallVec<[LocalId; 2]> = addresses
            .filter_map(|own| network.local(own))
            .map(|(_, id)| id)
            .collect();
        (!locals.is_empty()).then_some((
            locals,
            FTeid {
                teid: Teid::ZERO,
                ipv4,
                ipv6,
            },
        ))
    })
}

/// Whether `known` is at the addresses that `pdi` would be given.
fn ends_at(network: &Network, known: FTeid, choose: Choose, pdi: &Pdi) -> bool {
    let choose = Choose {
        ipv4: known.ipv4.is_some(),
        ipv6: known.ipv6.is_some(),
        ..choose
    };
    local_addresses(network, choose, pdi)
        .is_some_and(|(_, own)| (own.ipv4, own.ipv6) == (known.ipv4, known.ipv6))
}

/// The instances whose addresses the F-TEID may have, the best first: the one that the PDI names if it has a GTP-U
/// role, else those whose role goes with the source interface.
fn candidates<'n>(network: &'n Network, pdi: &Pdi) -> impl Iterator<Item = &'n Instance> + use<'n> {
    let tunnelled = |instance: &&Instance| instance.roles.intersects(Roles::GTPU);
    let named = pdi.instance.and_then(|id| network.instance(id)).filter(tunnelled);
    let of_roles = preference(pdi.source_interface).iter().flat_map(|role| {
        network
            .instances()
            .iter()
            .filter(move |instance| instance.roles.intersects(*role))
    });
    named.into_iter().chain(of_roles.filter(move |_| named.is_none()))
}

/// Roles that go with a source interface, the best first.
fn preference(source: SourceInterface) -> &'static [Roles] {
    match source {
        SourceInterface::Access => &[Roles::N3, Roles::N9],
        SourceInterface::Core | SourceInterface::SgiLan => &[Roles::N9, Roles::N3],
        SourceInterface::CpFunction => &[Roles::N4U, Roles::N3, Roles::N9],
        SourceInterface::Other(_) => &[Roles::GTPU],
    }
}
