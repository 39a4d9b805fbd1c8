//! Finds the PDR of a packet among those of its session, and the widest flow key that the answer is right for.
//!
//! A session has few PDRs, so they are tried one by one in the order of their precedence. On the way the classifier
//! notes each field of the packet that it looked at; whatever a packet's other fields hold, the same fields lead
//! along the same way to the same PDR. So the fields that were looked at, with the tunnel or the address space and
//! the IP version that every key has, are a correct flow key, and no narrower one is needed.
//!
//! Control makes a [`Classifier`] and a worker uses it for the first packets of flows; it holds no state. All that is
//! the session's own is in one piece of memory (`packed`), which control keeps a hold of, so that a change that leaves it
//! as it is need not make it anew; rulebases that its PDRs activate are shared (`rulebase`).

mod exemption;
mod filter;
mod key;
mod packed;
mod reads;
mod rulebase;

use std::net::IpAddr;
use std::sync::Arc;

use flow::{KeyFields, prefetch};
use packet::{IpTuple, Qfi, Teid};
use smallvec::SmallVec;

pub use self::exemption::Exemption;
pub use self::key::{Key, flow_key, tuple_of_v4, tuple_of_v6, whole_key};
use self::packed::{Builder, OwnTunnel, Rule, Span, TooMany, View, Wanted};
use self::reads::{Orientation, Reads, is_long};
use self::rulebase::Hosts;
pub(crate) use self::rulebase::{Matcher, TooManyFilters};
use crate::compile::plain_instance;
use crate::image::{CompileError, CompileFault, Decision, SourceCheck};
use crate::model::{Application, FTeid, Pdi, Pdr, RuleRef, SessionRules, SourceInterface};
use crate::network::{LocalId, Network, VrfId};
use crate::prefix::IpPrefix;
use crate::ue;

/// A packet as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<'a> {
    /// Where it came in.
    pub side: Side,
    /// The user's packet: what the tunnel carried, or the packet itself.
    pub tuple: &'a IpTuple,
}

/// Where a packet came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// In a GTP-U tunnel.
    Tunnel {
        /// This node's address that it came to.
        local: LocalId,
        /// The TEID in the header.
        teid: Teid,
        /// The QFI in its PDU Session Container, if it had one.
        qfi: Option<Qfi>,
    },
    /// As plain IP.
    Plain {
        /// The address space of the network instance that it came from.
        vrf: VrfId,
    },
}

/// The PDR that detects a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Match {
    /// What it leads to; [`Decision::pdr`] is its slot.
    pub decision: Decision,
    /// The widest correct flow key: every packet of the same tunnel or address space and IP version that agrees in
    /// these fields gets the same PDR, and passes or fails its [`SourceCheck`] alike. A key with more fields is
    /// correct too. What a field means in a key is told by [`flow_key`].
    pub key: KeyFields,
    /// Whether the answer would be another with other ports or another SPI. Fragments behind the first have neither,
    /// so theirs is the answer that their first fragment gets.
    pub reads_ports: bool,
}

/// The PDRs of a session, made ready for matching.
#[derive(Clone, PartialEq, Debug)]
pub struct Classifier(Form);

/// What a classifier is made of. Most sessions have the first: a worker comes to it in one step.
#[derive(Clone, PartialEq, Debug)]
enum Form {
    /// The session's own, in one piece.
    Alone(Arc<[u64]>),
    /// The same, and the PDRs that activate rulebases.
    WithRulebases(Arc<(Arc<[u64]>, Hosts)>),
}

const _: () = assert!(size_of::<Classifier>() == size_of::<Arc<[u64]>>());

impl Default for Classifier {
    /// Of no PDRs.
    fn default() -> Self {
        Self(Form::Alone(Arc::default()))
    }
}

type Tunnel = (LocalId, Teid);

/// The tunnels of one F-TEID.
pub(crate) type Ends = SmallVec<[Tunnel; 2]>;

/// A set of source interfaces: bit n is value n.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Interfaces(u16);

impl Interfaces {
    /// What plain packets come from: the data network, in either word.
    const PLAIN: Self = Self(1 << SourceInterface::Core.value() | 1 << SourceInterface::SgiLan.value());

    const fn contains(self, interface: SourceInterface) -> bool {
        self.0 >> (interface.value() & 0x0f) & 1 != 0
    }

    const fn with(self, interface: SourceInterface) -> Self {
        Self(self.0 | 1 << (interface.value() & 0x0f))
    }
}

impl Classifier {
    #[inline]
    fn words(&self) -> &[u64] {
        match &self.0 {
            Form::Alone(words) => words,
            Form::WithRulebases(both) => &both.0,
        }
    }

    #[inline]
    fn hosts(&self) -> Option<&Hosts> {
        match &self.0 {
            Form::Alone(_) => None,
            Form::WithRulebases(both) => Some(&both.1),
        }
    }

    /// Makes the PDRs of `rules` ready; `decisions` tells what each of them leads to, in the same order.
    ///
    /// # Errors
    /// A PDR has an F-TEID that is incomplete or not this node's, names a network instance that is not configured,
    /// or uses an SDF filter that nothing defines; a rule of a rulebase names one that is not there, or there is no FAR
    /// for it; or there is too much in all of them.
    pub fn new(
        rules: &SessionRules,
        decisions: &[Decision],
        network: &Network,
    ) -> Result<Self, CompileError> {
        let failed = |pdr: &Pdr| {
            let rule = RuleRef::Pdr(pdr.id);
            move |reason| CompileError { rule, reason }
        };
        let mut ends: SmallVec<[Ends; 8]> = SmallVec::with_capacity(rules.pdrs().len());
        for pdr in rules.pdrs() {
            let own = pdr.pdi.f_teid.map(|own| tunnels(own, network)).transpose();
            ends.push(own.map_err(failed(pdr))?.unwrap_or_default());
        }
        let mut pdrs: SmallVec<[_; 8]> = rules.pdrs().iter().zip(decisions).zip(&ends).collect();
        // Stable: of equal precedences, the PDR that was created first is tried first.
        pdrs.sort_by_key(|((pdr, _), _)| pdr.precedence);
        let Some(&((first, _), _)) = pdrs.first() else {
            return Ok(Self::default());
        };
        let prefixes = rules.ue_prefixes();
        let has_long = prefixes.iter().any(is_long);
        let too_many = |_| failed(first)(TooMany.into());
        let mut builder = Builder::new(&prefixes, has_long, pdrs.len()).map_err(too_many)?;
        let own = pdrs
            .iter()
            .map(|((pdr, _), ends)| (pdr.pdi.source_interface, ends.as_slice()));
        builder.own_tunnels(own_tunnels(own)).map_err(too_many)?;
        for &((pdr, decision), ends) in &pdrs {
            add(&mut builder, (pdr, decision), ends, rules, network).map_err(failed(pdr))?;
        }
        let (words, hosts) = (builder.pack(), Hosts::new(rules, !prefixes.is_empty())?);
        Ok(Self(if hosts.is_empty() {
            Form::Alone(words)
        } else {
            Form::WithRulebases(Arc::new((words, hosts)))
        }))
    }

    /// Whether it is the same piece of memory.
    #[cfg(test)]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.words(), other.words())
    }

    /// Whether it was made of these `decisions`, and of no rulebase: of PDRs, definitions of filters and a network that
    /// are still the same, it is still right then.
    pub(crate) fn is_of(&self, decisions: &[Decision]) -> bool {
        self.hosts().is_none()
            && View::of(self.words()).rules.len() == decisions.len()
            && self
                .decisions()
                .all(|own| decisions.get(usize::from(own.pdr)) == Some(&own))
    }

    /// The PDR of a packet that belongs to this session, the one with the lowest precedence value of those that
    /// match (TS 29.244 §5.2.1).
    pub fn classify(&self, packet: &PacketView<'_>) -> Option<Match> {
        let view = View::of(self.words());
        let mut reads = Reads::new(packet, &view);
        let interfaces = interfaces(&view, packet.side);
        let decision = view.rules.iter().find_map(|rule| {
            let is_it = detects(rule, &view, (packet, interfaces), &mut reads);
            let orientation = Orientation::of(rule.interface());
            let base = is_it.then(|| rule.decision())?;
            match self.hosts() {
                None => Some(base),
                Some(hosts) => hosts.decide(base, orientation, &mut reads),
            }
        })?;
        if decision.source_check != SourceCheck::Anyone {
            reads.note_source();
        }
        Some(Match {
            decision,
            key: reads.fields(),
            reads_ports: reads.has_read_ports(),
        })
    }

    /// The PDR of a GTP-U message without a user packet (End Marker, Tunnel Status), and what it leads to: the first
    /// one that names the tunnel, and the QFI if the message has one; what it wants of a user packet does not count.
    /// Where such a PDR has no FAR of its own it is that of the first predefined rule that it activates.
    pub fn classify_signalling(&self, local: LocalId, teid: Teid, qfi: Option<Qfi>) -> Option<Decision> {
        let view = View::of(self.words());
        let mut named = view.rules.iter().filter(|rule| rule.names((local, teid), &view));
        let fits = |rule: &&Rule| qfi.is_none() || rule.qfis == 0 || has_qfi(rule.qfis, qfi);
        named.find(fits).map(Rule::decision)
    }

    /// Whether `check` lets a packet from `source` pass.
    #[inline]
    pub fn allows_source(&self, check: SourceCheck, source: IpAddr) -> bool {
        check == SourceCheck::Anyone
            || ue::allows_source(View::of(self.words()).own_prefixes(), check, source)
    }

    /// Asks for the memory that [`classify`](Self::classify) reads: all of a usual session's.
    #[inline]
    pub fn prefetch(&self) {
        prefetch::lines(self.words(), 8);
    }

    /// The tunnels that lead to the session, each once.
    pub fn tunnels(&self) -> impl Iterator<Item = (LocalId, Teid)> + '_ {
        View::of(self.words()).own_tunnels().iter().map(OwnTunnel::tunnel)
    }

    /// What its PDRs lead to, in the order of matching.
    pub fn decisions(&self) -> impl Iterator<Item = Decision> + '_ {
        View::of(self.words()).rules.iter().map(Rule::decision)
    }
}

/// Adds a PDR and what it names.
fn add(
    builder: &mut Builder,
    (pdr, decision): (&Pdr, &Decision),
    ends: &[Tunnel],
    rules: &SessionRules,
    network: &Network,
) -> Result<(), CompileFault> {
    let pdi = &pdr.pdi;
    let mut filters: SmallVec<[_; 4]> = SmallVec::with_capacity(pdi.sdf_filters.len());
    for filter in &pdi.sdf_filters {
        filters.push(filter::packed(builder, filter, rules)?);
    }
    let application = pdi.application.as_ref();
    let flows = application
        .map(|application| flows(builder, application))
        .transpose()?;
    let mut prefixes = SmallVec::<[IpPrefix; 4]>::with_capacity(pdi.ue_prefix_count());
    for prefix in pdi.ue_prefixes() {
        prefixes.push(prefix);
    }
    let wanted = Wanted {
        interface: pdi.source_interface,
        tunnels: pdi.f_teid.map(|_| ends),
        vrf: vrf(pdi, network)?,
        qfis: pdi.qfis.iter().fold(0, |qfis, qfi| qfis | 1 << qfi.get()),
        ue: builder.prefixes(&prefixes)?,
        filters: builder.filters(&filters)?,
        application: flows,
    };
    Ok(builder.rule(&wanted, decision)?)
}

fn flows(builder: &mut Builder, application: &Application) -> Result<Span, TooMany> {
    let mut flows = Vec::with_capacity(application.flows.len());
    for flow in application.flows.iter() {
        flows.push(filter::flow(builder, flow)?);
    }
    builder.filters(&flows)
}

/// The source interfaces that packets of this side may be taken to come from.
fn interfaces(view: &View<'_>, side: Side) -> Interfaces {
    match side {
        Side::Plain { .. } => Interfaces::PLAIN,
        Side::Tunnel { local, teid, .. } => {
            let own = view
                .own_tunnels()
                .iter()
                .find(|own| own.tunnel() == (local, teid));
            own.map(OwnTunnel::interfaces).unwrap_or_default()
        }
    }
}

/// Each tunnel once, with the interfaces of the PDRs that name it.
fn own_tunnels<'a>(pdrs: impl Iterator<Item = (SourceInterface, &'a [Tunnel])>) -> SmallVec<[OwnTunnel; 4]> {
    let mut all: SmallVec<[(Tunnel, Interfaces); 4]> = SmallVec::new();
    for (interface, tunnels) in pdrs {
        for &tunnel in tunnels {
            match all.iter_mut().find(|(known, _)| *known == tunnel) {
                Some((_, interfaces)) => *interfaces = interfaces.with(interface),
                None => all.push((tunnel, Interfaces::default().with(interface))),
            }
        }
    }
    let packed = |(tunnel, interfaces)| OwnTunnel::new(tunnel, interfaces);
    all.into_iter().map(packed).collect()
}

fn has_qfi(qfis: u64, qfi: Option<Qfi>) -> bool {
    qfi.is_some_and(|qfi| qfis >> qfi.get() & 1 != 0)
}

fn detects(
    rule: &Rule,
    view: &View<'_>,
    (packet, interfaces): (&PacketView<'_>, Interfaces),
    reads: &mut Reads<'_>,
) -> bool {
    interfaces.contains(rule.interface())
        && detects_side(rule, view, packet.side)
        && detects_qfi(rule, packet.side, reads)
        && detects_ue(rule, view, reads)
        && detects_flow(rule, view, reads)
        && detects_application(rule, view, reads)
}

fn detects_side(rule: &Rule, view: &View<'_>, side: Side) -> bool {
    match side {
        Side::Tunnel { local, teid, .. } => rule.takes(Some((local, teid)), view),
        Side::Plain { vrf } => rule.takes(None, view) && rule.vrf().is_none_or(|own| own == vrf),
    }
}

fn detects_qfi(rule: &Rule, side: Side, reads: &mut Reads<'_>) -> bool {
    if rule.qfis == 0 {
        return true;
    }
    match side {
        Side::Plain { .. } => false,
        Side::Tunnel { qfi, .. } => {
            reads.note(KeyFields::QFI);
            has_qfi(rule.qfis, qfi)
        }
    }
}

fn detects_ue(rule: &Rule, view: &View<'_>, reads: &mut Reads<'_>) -> bool {
    let end = Orientation::of(rule.interface()).ue_end();
    rule.ue.is_empty() || view.prefixes(rule.ue).any(|prefix| reads.is_in(end, &prefix))
}

fn detects_flow(rule: &Rule, view: &View<'_>, reads: &mut Reads<'_>) -> bool {
    let orientation = Orientation::of(rule.interface());
    let filters = view.filters(rule.filters);
    filters.is_empty()
        || filters
            .iter()
            .any(|filter| filter::matches(filter, orientation, view, reads))
}

fn detects_application(rule: &Rule, view: &View<'_>, reads: &mut Reads<'_>) -> bool {
    let orientation = Orientation::of(rule.interface());
    let mut flows = view.filters(rule.application).iter();
    !rule.has_application() || flows.any(|flow| filter::matches(flow, orientation, view, reads))
}

impl From<TooMany> for CompileFault {
    fn from(_: TooMany) -> Self {
        Self::TooMany { max: u16::MAX }
    }
}

/// The tunnels of an F-TEID: one for each of its addresses.
pub(crate) fn tunnels(f_teid: FTeid, network: &Network) -> Result<Ends, CompileFault> {
    let own = |address| match network.local(address) {
        Some((instance, local)) if network.ends_tunnels(instance) => Ok((local, f_teid.teid)),
        _ => Err(CompileFault::NotLocal(address)),
    };
    let mut tunnels = Ends::new();
    for address in f_teid.addresses() {
        tunnels.push(own(address)?);
    }
    if tunnels.is_empty() || f_teid.teid == Teid::ZERO {
        return Err(CompileFault::FTeidIncomplete);
    }
    Ok(tunnels)
}

/// The address space that plain packets come from by a PDI's network instance.
fn vrf(pdi: &Pdi, network: &Network) -> Result<Option<VrfId>, CompileFault> {
    let Some(id) = pdi.instance else { return Ok(None) };
    network.instance(id).ok_or(CompileFault::UnknownInstance(id))?;
    Ok(plain_instance(Some(id), network).map(|instance| instance.vrf))
}

#[cfg(test)]
mod tests;
