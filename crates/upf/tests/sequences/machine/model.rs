//! The sessions that ought to exist: rules in lists, and what TS 29.244 says that a request does to them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use packet::Teid;
use rules::model::{
    Bar, DestinationInterface, Edit, FTeid, Far, FarUpdate, ForwardingParameters, Pdi, PdiUpdate, Pdr, PdrId,
    PdrUpdate, Qer, QerUpdate, SessionRules, SourceInterface, TrafficEndpoint, TrafficEndpointId,
    UeIpAddress, Urr, UrrId, Verb,
};
use rules::prefix::IpPrefix;

use super::op::{Op, Wish, own};

/// What the UPF chose for a PDR or Traffic Endpoint.
#[derive(Clone, Debug, Default)]
pub struct Grant {
    pub f_teid: Option<FTeid>,
    pub ue_ip: Option<UeIpAddress>,
}

/// What one answer says that was chosen.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    pub pdrs: BTreeMap<u16, Grant>,
    pub endpoints: BTreeMap<u8, Grant>,
}

impl Grants {
    /// Something for every wish, to see whether the rest of a request is good.
    pub fn placeholders(ops: &[Op]) -> Self {
        let grant = |wish: &Wish| Grant {
            f_teid: wish.f_teid.map(|_| own(u32::MAX)),
            ue_ip: wish.has_ue().then_some(UeIpAddress {
                ipv4: wish.ue_v4.then_some([10, 46, 0, 255].into()),
                ipv6: None,
                is_destination: false,
            }),
        };
        let mut grants = Self::default();
        for op in ops {
            match op {
                Op::CreatePdr(pdr, wish) if *wish != Wish::NONE => {
                    grants.pdrs.insert(pdr.id.0, grant(wish));
                }
                Op::CreateEndpoint(endpoint, wish) if *wish != Wish::NONE => {
                    grants.endpoints.insert(endpoint.id.0, grant(wish));
                }
                _ => {}
            }
        }
        grants
    }
}

/// All but the repetitions of what a request has once: those are ignored (TS 29.244 §7.6.10). Of the IEs that make
/// changes these are the ones about BARs (Table 7.5.4.1-1).
fn heeded(ops: &[Op]) -> impl Iterator<Item = &Op> {
    let is_once = |op: &Op| matches!(op, Op::CreateBar(_) | Op::UpdateBar(_) | Op::RemoveBar(_));
    let is_repetition = move |at: usize| {
        let kind = std::mem::discriminant(&ops[at]);
        is_once(&ops[at])
            && ops[..at]
                .iter()
                .any(|before| std::mem::discriminant(before) == kind)
    };
    ops.iter()
        .enumerate()
        .filter(move |(at, _)| !is_repetition(*at))
        .map(|(_, op)| op)
}

/// The rules of a session, in the order of their creation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    pub pdrs: Vec<Pdr>,
    pub fars: Vec<Far>,
    pub qers: Vec<Qer>,
    pub urrs: Vec<UrrId>,
    pub bars: Vec<Bar>,
    pub endpoints: Vec<TrafficEndpoint>,
}

type Wrong = &'static str;

fn add<T>(all: &mut Vec<T>, one: T, is_it: impl Fn(&T) -> bool) -> Result<(), Wrong> {
    if all.iter().any(is_it) {
        return Err("it exists");
    }
    all.push(one);
    Ok(())
}

fn take<T>(all: &mut Vec<T>, is_it: impl Fn(&T) -> bool) -> Result<(), Wrong> {
    let place = all.iter().position(is_it).ok_or("there is none to remove")?;
    all.remove(place);
    Ok(())
}

fn find<T>(all: &mut [T], is_it: impl Fn(&&mut T) -> bool) -> Result<&mut T, Wrong> {
    all.iter_mut().find(is_it).ok_or("there is none to update")
}

fn set<T>(field: &mut Option<T>, edit: Edit<T>) {
    match edit {
        Edit::Keep => {}
        Edit::Set(value) => *field = Some(value),
        Edit::Clear => *field = None,
    }
}

impl Rules {
    /// The rules after a request: removals, then creations, then updates; an error if it must be refused.
    pub fn after(&self, ops: &[Op], grants: &Grants) -> Result<Self, Wrong> {
        let mut next = self.clone();
        for stage in [
            Self::remove,
            Self::remove_endpoint,
            Self::create,
            Self::create_pdr,
            Self::update,
        ] {
            heeded(ops).try_for_each(|op| stage(&mut next, op, grants))?;
        }
        let is_queried = |op: &Op| matches!(op, Op::Query(id) if !self.urrs.contains(&UrrId(*id)));
        if ops.iter().any(is_queried) {
            return Err("a URR to be queried is not there");
        }
        next.check()?;
        Ok(next)
    }

    /// PDRs and endpoints in any order come to the same: PDRs first, as an endpoint takes its PDRs along.
    fn remove(&mut self, op: &Op, _: &Grants) -> Result<(), Wrong> {
        match op {
            Op::RemovePdr(id) => take(&mut self.pdrs, |pdr| pdr.id.0 == *id),
            Op::RemoveFar(id) => take(&mut self.fars, |far| far.id.0 == *id),
            Op::RemoveQer(id) => {
                let named = self.pdrs.iter_mut().map(|pdr| &mut pdr.qers);
                named.for_each(|qers| qers.retain(|qer| qer.0 != *id));
                take(&mut self.qers, |qer| qer.id.0 == *id)
            }
            Op::RemoveUrr(id) => {
                let named = self.pdrs.iter_mut().map(|pdr| &mut pdr.urrs);
                named.for_each(|urrs| urrs.retain(|urr| urr.0 != *id));
                take(&mut self.urrs, |urr| urr.0 == *id)
            }
            Op::RemoveBar(id) => {
                let named = self.fars.iter_mut().map(|far| &mut far.bar);
                named.for_each(|bar| *bar = bar.filter(|bar| bar.0 != *id));
                take(&mut self.bars, |bar| bar.id.0 == *id)
            }
            _ => Ok(()),
        }
    }

    fn remove_endpoint(&mut self, op: &Op, _: &Grants) -> Result<(), Wrong> {
        let Op::RemoveEndpoint(id) = op else {
            return Ok(());
        };
        self.pdrs
            .retain(|pdr| pdr.pdi.endpoint != Some(TrafficEndpointId(*id)));
        take(&mut self.endpoints, |endpoint| endpoint.id.0 == *id)
    }

    fn create(&mut self, op: &Op, grants: &Grants) -> Result<(), Wrong> {
        match op {
            Op::CreateFar(far) => add(&mut self.fars, far.clone(), |one| one.id == far.id),
            Op::CreateQer(qer) => add(&mut self.qers, qer.clone(), |one| one.id == qer.id),
            Op::CreateUrr(id) => add(&mut self.urrs, UrrId(*id), |one| one.0 == *id),
            Op::CreateBar(bar) => add(&mut self.bars, *bar, |one| one.id == bar.id),
            Op::CreateEndpoint(endpoint, _) => {
                let mut endpoint = endpoint.clone();
                if let Some(grant) = grants.endpoints.get(&endpoint.id.0) {
                    endpoint.f_teid = endpoint.f_teid.or(grant.f_teid);
                    endpoint.ue_ip.extend(grant.ue_ip);
                }
                let id = endpoint.id;
                add(&mut self.endpoints, endpoint, |one| one.id == id)
            }
            Op::Bad(_) => Err("it is no good"),
            _ => Ok(()),
        }
    }

    fn create_pdr(&mut self, op: &Op, grants: &Grants) -> Result<(), Wrong> {
        let Op::CreatePdr(pdr, _) = op else {
            return Ok(());
        };
        let mut pdr = pdr.clone();
        if let Some(grant) = grants.pdrs.get(&pdr.id.0) {
            pdr.pdi.f_teid = pdr.pdi.f_teid.or(grant.f_teid);
            let is_destination = pdr.pdi.source_interface != SourceInterface::Access;
            pdr.pdi
                .ue_ip
                .extend(grant.ue_ip.map(|ue| UeIpAddress { is_destination, ..ue }));
        }
        if let Some(id) = pdr.pdi.endpoint {
            let mut named = self.endpoints.iter();
            let endpoint = named
                .find(|one| one.id == id)
                .ok_or("there is no such endpoint")?;
            pdr.pdi.f_teid = endpoint.f_teid;
            pdr.pdi.ue_ip.clone_from(&endpoint.ue_ip);
        }
        let id = pdr.id;
        add(&mut self.pdrs, pdr, |one| one.id == id)
    }

    fn update(&mut self, op: &Op, _: &Grants) -> Result<(), Wrong> {
        match op {
            Op::UpdatePdr(update) => {
                let pdr = find(&mut self.pdrs, |pdr| pdr.id == update.id)?;
                update_pdr(pdr, update.clone());
            }
            Op::UpdateFar(update) => {
                update_far(find(&mut self.fars, |far| far.id == update.id)?, update.clone())
            }
            Op::UpdateQer(update) => update_qer(find(&mut self.qers, |qer| qer.id == update.id)?, *update),
            Op::UpdateBar(update) => {
                let bar = find(&mut self.bars, |bar| bar.id == update.id)?;
                set(&mut bar.suggested_packets, update.suggested_packets);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the rules hang together.
    fn check(&self) -> Result<(), Wrong> {
        for pdr in &self.pdrs {
            let far = pdr.far.ok_or("a PDR without FAR")?;
            if !self.fars.iter().any(|one| one.id == far) {
                return Err("a PDR's FAR is missing");
            }
            if !pdr
                .qers
                .iter()
                .all(|id| self.qers.iter().any(|one| one.id == *id))
            {
                return Err("a PDR's QER is missing");
            }
            if !pdr.urrs.iter().all(|id| self.urrs.contains(id)) {
                return Err("a PDR's URR is missing");
            }
        }
        let has_bar = |far: &Far| far.bar.is_none_or(|id| self.bars.iter().any(|bar| bar.id == id));
        if !self.fars.iter().all(has_bar) {
            return Err("a FAR's BAR is missing");
        }
        if self.fars.iter().any(|far| far.action.verb().is_none()) {
            return Err("a FAR with several actions or none");
        }
        let leads = |pdr: &Pdr| pdr.pdi.f_teid.is_some() || !pdr.pdi.ue_ip.is_empty();
        if !self.pdrs.is_empty() && !self.pdrs.iter().any(leads) {
            return Err("nothing leads to the session");
        }
        Ok(())
    }

    /// As the interpreter takes them, and as workers should have them.
    pub fn whole(&self) -> SessionRules {
        let mut rules = SessionRules::new();
        let all = "ids are unique";
        self.fars
            .iter()
            .for_each(|far| rules.create_far(far.clone()).expect(all));
        self.qers
            .iter()
            .for_each(|qer| rules.create_qer(qer.clone()).expect(all));
        let urr = |id| Urr {
            triggers: rules::model::ReportingTriggers(2),
            ..Urr::volume(id)
        };
        self.urrs
            .iter()
            .for_each(|id| rules.create_urr(urr(*id)).expect(all));
        self.bars
            .iter()
            .for_each(|bar| rules.create_bar(*bar).expect(all));
        let endpoints = self.endpoints.iter().cloned();
        endpoints.for_each(|endpoint| rules.create_endpoint(endpoint).expect(all));
        let pdrs = self.pdrs.iter().cloned();
        pdrs.for_each(|pdr| rules.create_pdr(pdr).expect(all));
        rules
    }

    /// The TEIDs that lead to the session, each once.
    pub fn teids(&self) -> Vec<Teid> {
        let endpoints = self.endpoints.iter().filter_map(|endpoint| endpoint.f_teid);
        let pdrs = self.pdrs.iter().filter_map(|pdr| pdr.pdi.f_teid);
        let mut teids: Vec<Teid> = pdrs.chain(endpoints).map(|own| own.teid).collect();
        teids.sort_unstable();
        teids.dedup();
        teids
    }

    /// The prefixes that plain packets reach the session by, each once.
    pub fn plain(&self) -> Vec<IpPrefix> {
        let plain = self.pdrs.iter().map(|pdr| &pdr.pdi);
        let plain = plain.filter(|pdi| pdi.f_teid.is_none() && pdi.source_interface == SourceInterface::Core);
        sorted(plain.flat_map(|pdi| &pdi.ue_ip))
    }

    /// All the UE addresses that rules name.
    pub fn ue_prefixes(&self) -> Vec<IpPrefix> {
        let pdrs = self.pdrs.iter().flat_map(|pdr| &pdr.pdi.ue_ip);
        sorted(pdrs.chain(self.endpoints.iter().flat_map(|endpoint| &endpoint.ue_ip)))
    }

    pub fn pdr(&self, id: PdrId) -> Option<&Pdr> {
        self.pdrs.iter().find(|pdr| pdr.id == id)
    }
}

fn sorted<'a>(all: impl Iterator<Item = &'a UeIpAddress>) -> Vec<IpPrefix> {
    let mut prefixes: Vec<IpPrefix> = all.flat_map(prefixes).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    prefixes
}

/// An IPv4 address as a host, an IPv6 prefix as it is.
pub fn prefixes(ue: &UeIpAddress) -> Vec<IpPrefix> {
    let v4 = ue.ipv4.map(|address| IpPrefix::host(IpAddr::V4(address)));
    let v6 = ue
        .ipv6
        .and_then(|(address, len)| IpPrefix::new(address.into(), len));
    v4.into_iter().chain(v6).collect()
}

fn update_pdr(pdr: &mut Pdr, update: PdrUpdate) {
    set(&mut pdr.outer_header_removal, update.outer_header_removal);
    pdr.precedence = update.precedence.unwrap_or(pdr.precedence);
    if let Some(pdi) = update.pdi {
        update_pdi(&mut pdr.pdi, pdi);
    }
    set(&mut pdr.far, update.far);
    pdr.qers = update.qers.map_or(std::mem::take(&mut pdr.qers), Into::into);
    pdr.urrs = update.urrs.map_or(std::mem::take(&mut pdr.urrs), Into::into);
}

/// A PDI that can stand for itself replaces the other (TS 29.244 Table 7.5.4.2-1); one that names neither tunnel nor
/// UE is a part, and replaces what it has.
fn update_pdi(pdi: &mut Pdi, update: PdiUpdate) {
    if matches!(update.f_teid, Edit::Set(_)) || update.ue_ip.is_some() {
        *pdi = Pdi::new(pdi.source_interface);
    }
    pdi.source_interface = update.source_interface.unwrap_or(pdi.source_interface);
    set(&mut pdi.f_teid, update.f_teid);
    pdi.ue_ip = update.ue_ip.map_or(std::mem::take(&mut pdi.ue_ip), Into::into);
    pdi.sdf_filters = update
        .sdf_filters
        .map_or(std::mem::take(&mut pdi.sdf_filters), Into::into);
}

fn update_far(far: &mut Far, update: FarUpdate) {
    far.action = update.action.unwrap_or(far.action);
    set(&mut far.bar, update.bar);
    if let Edit::Set(sent) = update.forwarding {
        let mut to = far
            .forwarding
            .unwrap_or(ForwardingParameters::new(DestinationInterface::Access));
        to.destination = sent.destination.unwrap_or(to.destination);
        set(&mut to.outer_header_creation, sent.outer_header_creation);
        far.forwarding = Some(to);
    }
}

fn update_qer(qer: &mut Qer, update: QerUpdate) {
    (qer.gate_ul, qer.gate_dl) = update.gates.unwrap_or((qer.gate_ul, qer.gate_dl));
    set(&mut qer.qfi, update.qfi);
    set(&mut qer.mbr, update.mbr);
}

/// Whether a FAR keeps packets.
pub fn buffers(far: &Far) -> bool {
    far.action.verb() == Some(Verb::Buffer)
}

/// A packet that waits.
#[derive(Clone, Debug)]
pub struct Kept {
    pub number: u32,
    pub ingress: rules::network::InstanceId,
    pub bytes: Vec<u8>,
}

/// A session that ought to exist.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Our name for it: the CP F-SEID's.
    pub cp: u64,
    /// The UPF's.
    pub up: u64,
    pub rules: Rules,
    /// Addresses from the UPF's pools.
    pub leases: Vec<IpPrefix>,
    /// What the CHOOSE IDs stand for.
    pub shared: BTreeMap<u8, FTeid>,
    /// Packets that wait, by FAR.
    pub waiting: BTreeMap<u32, Vec<Kept>>,
    /// Octets that each URR should have counted, and those that were reported.
    pub counted: BTreeMap<u32, u64>,
    pub reported: BTreeMap<u32, u64>,
    /// Packets have come while its rules may have been changing: what was counted is not known.
    pub is_vague: bool,
}

impl Session {
    /// The session after an accepted request.
    pub fn becomes(&mut self, next: Rules, ops: &[Op], grants: &Grants) {
        for op in ops {
            match op {
                Op::CreatePdr(pdr, wish) => {
                    if let Some(Grant { ue_ip: Some(ue), .. }) = grants.pdrs.get(&pdr.id.0)
                        && wish.has_ue()
                    {
                        self.leases.extend(prefixes(ue));
                    }
                    if let Some(Some(id)) = wish.f_teid
                        && let Some(Grant {
                            f_teid: Some(chosen), ..
                        }) = grants.pdrs.get(&pdr.id.0)
                    {
                        let known = self.shared.insert(id, *chosen);
                        let is_used = |one: &FTeid| self.rules.teids().contains(&one.teid);
                        let known = known.filter(is_used);
                        assert!(
                            known.is_none_or(|known| known == *chosen),
                            "CHOOSE ID {id} is {chosen:?}"
                        );
                    }
                }
                Op::Rename(cp) => self.cp = *cp,
                _ => {}
            }
        }
        let named = next.ue_prefixes();
        self.leases.retain(|lease| named.contains(lease));
        self.leases.sort_unstable();
        self.leases.dedup();
        self.rules = next;
    }

    /// All the addresses that no other session may have.
    pub fn held(&self) -> Vec<IpPrefix> {
        let mut all = self.rules.plain();
        all.extend(&self.leases);
        all.sort_unstable();
        all.dedup();
        all
    }
}
