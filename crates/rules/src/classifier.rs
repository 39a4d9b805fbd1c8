//! Finds the PDR of a packet among those of its session, and the widest flow key that the answer is right for.
//!
//! A session has few PDRs, so they are tried one by one in the order of their precedence. The classifier
//! records each field of the packet that it reads; whatever a packet's other fields hold, the same fields lead
//! along the same way to the same PDR. So the fields that were read, with the tunnel or the address space and
//! the IP version that every key has, are a correct flow key, and no narrower one is needed.
//!
//! Control makes a [`Classifier`] and a worker uses it for the first packets of flows; it holds no state. All that is
//! the session's own is in one piece of memory (`packed`). Control keeps a reference to it, and shares it with the next
//! image if a change leaves it as it is. Rulebases that its PDRs activate are shared by all sessions (`activations`),
//! and so are the names by which applications are known (`named_applications`) and access lists. What refers to them is
//! there once for all sessions that refer to them alike (`shared`): a first packet finds it in a cache.

mod activations;
mod build;
mod decision;
mod exemption;
mod filters;
mod key;
mod named_applications;
mod packed;
mod shared;
mod source_check;
mod tunnels;

use std::net::IpAddr;
use std::sync::Arc;

use flow::{KeyFields, prefetch};
use packet::{Qfi, Teid};

use self::activations::Activations;
pub use self::decision::Decision;
pub use self::exemption::Exemption;
pub use self::key::{Key, flow_key, tuple_of_v4, tuple_of_v6, whole_key, whole_key_of_previewed};
use self::packed::{OwnTunnel, Rule, View};
use self::shared::Shared;
pub use self::source_check::SourceCheck;
use self::source_check::allows_source;
pub(crate) use self::source_check::have_same_directions;
pub(crate) use self::source_check::source_check;
use self::tunnels::Interfaces;
pub(crate) use self::tunnels::{Tunnel, tunnels};
use crate::compile_error::CompileError;
use crate::model::{AccessDecision, AccessList, ConnectionPolicy, DetectionReads, SessionRules};
use crate::network::{LocalId, Network};
pub use crate::packet_view::{DetectedFlow, Detection, NameSource, PacketView, Side};
use crate::sdf::{FieldReader, matches, ue_end};

/// The PDR that detects a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Match {
    /// What it leads to; [`Decision::pdr`] is its slot.
    pub decision: Decision,
    /// The widest correct flow key: every packet of the same tunnel or address space and IP version that agrees in
    /// these fields gets the same PDR, and passes or fails its [`SourceCheck`] alike. A key with more fields is
    /// correct too. [`flow_key`] defines the fields of a key.
    pub key: KeyFields,
    /// Whether the answer would be another with other ports or another SPI. Fragments behind the first have neither,
    /// so theirs is the answer that their first fragment gets.
    pub reads_ports: bool,
    /// Whether the answer would be another if the flow were found to be something else ([`Detection`]). The key is the
    /// 5-tuple then.
    pub reads_detection: bool,
    /// What the access list says, if the session has one. What it denies has a decision that
    /// [is denied](Decision::is_denied).
    pub access: Option<AccessDecision>,
}

impl Match {
    /// Whether a PDR detects the packet, or the access list denies it. Else there is no PDR for it, and the list asks
    /// for its connection first.
    pub fn is_decided(&self) -> bool {
        !self.decision.is_denied() || self.access.is_some_and(|access| access.effect.denies())
    }

    /// What becomes of a packet that belongs to no connection, where the access list asks for one.
    #[must_use]
    pub fn unsolicited(self) -> Self {
        Self {
            decision: Decision::denied(self.decision.direction),
            reads_detection: false,
            ..self
        }
    }
}

/// The PDRs of a session, made ready for matching.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Classifier {
    /// The session's own, in one piece.
    words: Arc<[u64]>,
    /// What its PDRs refer to of things that sessions share. Most sessions have nothing of it.
    shared: Option<Arc<Shared>>,
}

const _: () = assert!(size_of::<Classifier>() == 3 * size_of::<usize>());

impl Classifier {
    #[inline]
    fn words(&self) -> &[u64] {
        &self.words
    }

    #[inline]
    fn shared(&self) -> Option<&Shared> {
        self.shared.as_deref()
    }

    /// Packs the PDRs of `rules`; `decisions` has what each of them leads to, in the same order.
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
        let Some(build::Packed { words, named }) = build::pack(rules, decisions, network)? else {
            return Ok(Self::default());
        };
        let activations = Activations::new(rules, View::of(&words).patterns.has_ue_prefixes())?;
        let access_list = rules.access_list().cloned();
        let is_alone = activations.is_empty() && named.is_empty() && access_list.is_none();
        let shared = (!is_alone).then(|| Shared::new(activations, named.into(), access_list).once());
        Ok(Self { words, shared })
    }

    /// Whether it is the same piece of memory.
    #[cfg(test)]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.words(), other.words())
    }

    /// Whether it was made of these `decisions`, and of no rulebase, with or without NAT: of PDRs, definitions of
    /// filters and a network that are still the same, it is still right then.
    pub(crate) fn is_of(&self, decisions: &[Decision], has_nat: bool) -> bool {
        self.has_nat() == has_nat
            && self.shared().is_none_or(|shared| shared.activations.is_empty())
            && View::of(self.words()).rules.len() == decisions.len()
            && self
                .decisions()
                .all(|own| decisions.get(usize::from(own.pdr)) == Some(&own))
    }

    /// The PDR of a packet that belongs to this session, if its access list permits it: the one with the lowest
    /// precedence value of those that match (TS 29.244 §5.2.1). Nothing is known of its flow yet.
    pub fn classify(&self, packet: &PacketView<'_>) -> Option<Match> {
        self.classify_with(packet, Detection::Undecided)
    }

    /// The same of a packet of a flow of which this is known.
    pub fn classify_with(&self, packet: &PacketView<'_>, detection: Detection<'_>) -> Option<Match> {
        let list = self.shared().and_then(|shared| shared.access_list.as_deref());
        self.find(packet, detection, list)
    }

    /// The same of a message of this node, about which no access list is asked: an answer for this packet alone.
    pub fn classify_own(&self, packet: &PacketView<'_>) -> Option<Match> {
        self.find(packet, Detection::Undecided, None)
    }

    #[inline]
    fn find(
        &self,
        packet: &PacketView<'_>,
        detection: Detection<'_>,
        list: Option<&AccessList>,
    ) -> Option<Match> {
        let view = View::of(self.words());
        let reader = FieldReader::new(packet, &view.patterns, view.has_long_prefix);
        let mut reader = reader.with_detection(detection.of_access_lists());
        let interfaces = interfaces(&view, packet.side);
        let shared = self.shared();
        let access = list.map(|list| list.judge(interfaces.direction(), &mut reader));
        if let Some(access) = access.filter(|access| access.effect.denies()) {
            return Some(Match {
                decision: Decision::denied(access.direction),
                key: reader.fields(),
                reads_ports: reader.has_read_ports(),
                reads_detection: reader.has_read_detection(),
                access: Some(access),
            });
        }
        let asks = access.filter(|access| access.connections.is_some());
        if asks.is_some() {
            reader.note_connection();
        }
        let mut reader = reader.with_detection(detection);
        let detected = view.rules.iter().find_map(|rule| {
            let is_match = interfaces.contains(rule.interface())
                && detects(rule, &view, packet.side, &mut reader)
                && detects_application(rule, (&view, shared), &mut reader);
            let direction = rule.interface().direction();
            let base = is_match.then(|| rule.decision(&view))?;
            match shared {
                None => Some(base),
                Some(shared) => shared.activations.decide(base, direction, &mut reader),
            }
        });
        // Whether it belongs to a connection comes before that no PDR detects it.
        let decision = detected.or_else(|| asks.map(|access| Decision::denied(access.direction)))?;
        if decision.source_check != SourceCheck::Anyone {
            reader.note_source();
        }
        Some(Match {
            decision,
            key: reader.fields(),
            reads_ports: reader.has_read_ports(),
            reads_detection: reader.has_read_detection(),
            access,
        })
    }

    /// How the session's access list takes connections, if one of its rules asks for them.
    pub fn connections(&self) -> Option<ConnectionPolicy> {
        self.shared()?.access_list.as_deref()?.connections()
    }

    /// Whether the session has a pool of public addresses ([`SessionRules::nat`]).
    #[inline]
    pub fn has_nat(&self) -> bool {
        View::of(self.words()).has_nat
    }

    /// Whether packets pass an access list.
    pub fn has_access_list(&self) -> bool {
        self.shared().is_some_and(|shared| shared.access_list.is_some())
    }

    /// Whether there may be packets for which [`classify_with`](Self::classify_with) finds something of one flow, and
    /// nothing of another.
    pub fn may_read_detection(&self) -> bool {
        let asks = |list: &Arc<AccessList>| list.asks();
        self.shared().is_some_and(|shared| {
            shared.activations.asks()
                || !shared.named.is_empty()
                || shared.access_list.as_ref().is_some_and(asks)
        })
    }

    /// The counter slot of packets whose content finds no room for a counter of its own; `None` where no rule is of
    /// one.
    pub fn content_rest(&self) -> Option<u8> {
        self.shared()?.activations.content_rest()
    }

    /// What its rules read of flows that need not be known for others.
    #[inline]
    pub fn reads(&self) -> DetectionReads {
        self.shared().map(|shared| shared.reads).unwrap_or_default()
    }

    /// The PDR of a GTP-U message without a user packet (End Marker, Tunnel Status), and what it leads to: the first
    /// one that names the tunnel, and the QFI if the message has one; what it wants of a user packet does not count.
    /// Where such a PDR has no FAR of its own it is that of the first predefined rule that it activates.
    pub fn classify_signalling(&self, local: LocalId, teid: Teid, qfi: Option<Qfi>) -> Option<Decision> {
        let view = View::of(self.words());
        let mut named = view.rules.iter().filter(|rule| rule.names((local, teid), &view));
        let fits = |rule: &&Rule| {
            let qfis = rule.qfis(&view);
            qfi.is_none() || qfis == 0 || has_qfi(qfis, qfi)
        };
        named.find(fits).map(|rule| rule.decision(&view))
    }

    /// Whether `check` lets a packet from `source` pass.
    #[inline]
    pub fn allows_source(&self, check: SourceCheck, source: IpAddr) -> bool {
        check == SourceCheck::Anyone
            || allows_source(View::of(self.words()).patterns.ue_prefixes(), check, source)
    }

    /// Asks for the memory that [`classify`](Self::classify) reads: all of a usual session's; where PDRs have what
    /// sessions share only for the first step of the way to it.
    #[inline]
    pub fn prefetch(&self) {
        prefetch::lines(&self.words, 8);
        if let Some(shared) = &self.shared {
            prefetch::whole(&**shared);
        }
    }

    /// Asks for the rest of it. That reads what [`prefetch`](Self::prefetch) asks for.
    #[inline]
    pub fn prefetch_rest(&self) {
        if let Some(shared) = &self.shared {
            shared.activations.prefetch();
        }
    }

    /// The tunnels that lead to the session, each once.
    pub fn tunnels(&self) -> impl Iterator<Item = (LocalId, Teid)> + '_ {
        View::of(self.words()).own_tunnels().iter().map(OwnTunnel::tunnel)
    }

    /// What its PDRs lead to, in the order of matching.
    pub fn decisions(&self) -> impl Iterator<Item = Decision> + '_ {
        let view = View::of(self.words());
        view.rules.iter().map(move |rule| rule.decision(&view))
    }
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

fn has_qfi(qfis: u64, qfi: Option<Qfi>) -> bool {
    qfi.is_some_and(|qfi| qfis >> qfi.get() & 1 != 0)
}

/// Whether the PDI of a PDR for the packet's source interface matches the packet.
fn detects(rule: &Rule, view: &View<'_>, side: Side, reader: &mut FieldReader<'_>) -> bool {
    detects_side(rule, view, side)
        && detects_qfi(rule, view, side, reader)
        && detects_ue(rule, view, reader)
        && detects_flow(rule, view, reader)
}

fn detects_side(rule: &Rule, view: &View<'_>, side: Side) -> bool {
    match side {
        Side::Tunnel { local, teid, .. } => rule.matches_tunnel(Some((local, teid)), view),
        Side::Plain { vrf } => rule.matches_tunnel(None, view) && rule.vrf().is_none_or(|own| own == vrf),
    }
}

fn detects_qfi(rule: &Rule, view: &View<'_>, side: Side, reader: &mut FieldReader<'_>) -> bool {
    let qfis = rule.qfis(view);
    if qfis == 0 {
        return true;
    }
    match side {
        Side::Plain { .. } => false,
        Side::Tunnel { qfi, .. } => {
            reader.note(KeyFields::QFI);
            has_qfi(qfis, qfi)
        }
    }
}

fn detects_ue(rule: &Rule, view: &View<'_>, reader: &mut FieldReader<'_>) -> bool {
    let end = ue_end(rule.interface().direction());
    rule.ue.is_empty()
        || view
            .patterns
            .prefixes(rule.ue)
            .any(|prefix| reader.is_in(end, &prefix))
}

fn detects_flow(rule: &Rule, view: &View<'_>, reader: &mut FieldReader<'_>) -> bool {
    let direction = rule.interface().direction();
    let filters = view.patterns.filters(rule.filters);
    filters.is_empty()
        || filters
            .iter()
            .any(|filter| matches(filter, direction, &view.patterns, reader))
}

fn detects_application(
    rule: &Rule,
    (view, shared): (&View<'_>, Option<&Shared>),
    reader: &mut FieldReader<'_>,
) -> bool {
    if !rule.has_application() {
        return true;
    }
    let direction = rule.interface().direction();
    let mut flows = view.patterns.filters(rule.application).iter();
    let named = || shared?.named.iter().find(|one| one.is_of(rule.slot()));
    flows.any(|flow| matches(flow, direction, &view.patterns, reader))
        || named().is_some_and(|one| one.detects(direction, &view.patterns, reader))
}

#[cfg(test)]
mod tests;
