//! Finds the PDR of a packet among those of its session, and the widest flow key that the answer is right for.
//!
//! A session has few PDRs, so they are tried one by one in the order of their precedence. On the way the classifier
//! notes each field of the packet that it looked at; whatever a packet's other fields hold, the same fields lead
//! along the same way to the same PDR. So the fields that were looked at, with the tunnel or the address space and
//! the IP version that every key has, are a correct flow key, and no narrower one is needed.
//!
//! Control makes a [`Classifier`] and a worker uses it for the first packets of flows; it holds no state.

mod filter;
mod key;
mod reads;

use flow::{KeyFields, prefetch};
use packet::{IpTuple, Qfi, Teid};

use self::filter::Filter;
pub use self::key::{Key, flow_key, tuple_of_v4, tuple_of_v6, whole_key};
use self::reads::{Orientation, Reads, UeAddresses};
use crate::compile::plain_instance;
use crate::image::{CompileError, CompileFault, SourceCheck};
use crate::model::{FTeid, Pdi, Pdr, RuleRef, SessionRules, SourceInterface};
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
    /// Its slot, the place in [`SessionRules::pdrs`].
    pub slot: u16,
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
pub struct Classifier {
    /// In the order of matching.
    pdrs: Vec<Detector>,
    /// Each tunnel of the session with the source interfaces that its PDRs name.
    tunnels: Vec<(Tunnel, Interfaces)>,
    ue: UeAddresses,
}

type Tunnel = (LocalId, Teid);

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

/// One PDR, made ready.
#[derive(Clone, PartialEq, Debug)]
struct Detector {
    slot: u16,
    interface: SourceInterface,
    /// `None`: the PDI has no F-TEID.
    tunnels: Option<Vec<Tunnel>>,
    vrf: Option<VrfId>,
    /// Bit n: QFI n. Zero: the PDI has none.
    qfis: u64,
    /// Empty: the PDI has none.
    ue_ip: Vec<IpPrefix>,
    /// Empty: the PDI has none.
    filters: Vec<Filter>,
    source_check: SourceCheck,
}

impl Classifier {
    /// Makes the PDRs of `rules` ready.
    ///
    /// # Errors
    /// A PDR has an F-TEID that is incomplete or not this node's, names a network instance that is not configured,
    /// or uses an SDF filter that nothing defines.
    pub fn new(rules: &SessionRules, network: &Network) -> Result<Self, CompileError> {
        let ue = UeAddresses::new(rules.ue_prefixes());
        let knows_ue = !ue.is_empty();
        let mut pdrs = Vec::with_capacity(rules.pdrs().len());
        for (slot, pdr) in rules.pdrs().iter().enumerate() {
            let failed = |reason| CompileError {
                rule: RuleRef::Pdr(pdr.id),
                reason,
            };
            pdrs.push((
                pdr.precedence,
                Detector::new(slot, pdr, rules, knows_ue, network).map_err(failed)?,
            ));
        }
        // Stable: of equal precedences, the PDR that was created first is tried first.
        pdrs.sort_by_key(|&(precedence, _)| precedence);
        let pdrs: Vec<Detector> = pdrs.into_iter().map(|(_, detector)| detector).collect();
        let tunnels = interfaces_of_tunnels(&pdrs);
        Ok(Self { pdrs, tunnels, ue })
    }

    /// The PDR of a packet that belongs to this session, the one with the lowest precedence value of those that
    /// match (TS 29.244 §5.2.1).
    pub fn classify(&self, packet: &PacketView<'_>) -> Option<Match> {
        let mut reads = Reads::new(packet, &self.ue);
        let interfaces = self.interfaces(packet.side);
        let detector = self
            .pdrs
            .iter()
            .find(|pdr| pdr.detects(packet, interfaces, &mut reads))?;
        if detector.source_check != SourceCheck::Anyone {
            reads.note_source();
        }
        Some(Match {
            slot: detector.slot,
            key: reads.fields(),
            reads_ports: reads.has_read_ports(),
        })
    }

    /// The PDR of a GTP-U message without a user packet (End Marker, Tunnel Status): the first one that names the
    /// tunnel, and the QFI if the message has one; what it wants of a user packet does not count.
    pub fn classify_signalling(&self, local: LocalId, teid: Teid, qfi: Option<Qfi>) -> Option<u16> {
        let named = |pdr: &&Detector| {
            pdr.tunnels
                .as_ref()
                .is_some_and(|own| own.contains(&(local, teid)))
        };
        let fits = |pdr: &&Detector| qfi.is_none() || pdr.qfis == 0 || has_qfi(pdr.qfis, qfi);
        self.pdrs.iter().filter(named).find(fits).map(|pdr| pdr.slot)
    }

    /// Asks for the memory that [`classify`](Self::classify) reads first.
    pub fn prefetch(&self) {
        prefetch::lines(&self.tunnels, 1);
        prefetch::lines(&self.pdrs, 8);
    }

    /// Asks for what it reads then, once that is there.
    pub fn prefetch_filters(&self) {
        for pdr in self.pdrs.iter().take(2) {
            prefetch::lines(&pdr.filters, 8);
            prefetch::lines(&pdr.ue_ip, 1);
            prefetch::lines(pdr.tunnels.as_deref().unwrap_or_default(), 1);
        }
    }

    /// Asks for what it reads last, once that is there.
    pub fn prefetch_ports(&self) {
        let filters = self
            .pdrs
            .iter()
            .take(2)
            .flat_map(|pdr| pdr.filters.iter().take(2));
        filters.for_each(Filter::prefetch);
    }

    /// The tunnels that lead to the session, each once.
    pub fn tunnels(&self) -> impl Iterator<Item = (LocalId, Teid)> + '_ {
        self.tunnels.iter().map(|&(tunnel, _)| tunnel)
    }

    fn interfaces(&self, side: Side) -> Interfaces {
        match side {
            Side::Plain { .. } => Interfaces::PLAIN,
            Side::Tunnel { local, teid, .. } => {
                let own = self.tunnels.iter().find(|&&(tunnel, _)| tunnel == (local, teid));
                own.map(|&(_, interfaces)| interfaces).unwrap_or_default()
            }
        }
    }
}

/// Each tunnel with the interfaces of the PDRs that name it.
fn interfaces_of_tunnels(pdrs: &[Detector]) -> Vec<(Tunnel, Interfaces)> {
    let mut all: Vec<(Tunnel, Interfaces)> = Vec::new();
    for pdr in pdrs {
        for &tunnel in pdr.tunnels.iter().flatten() {
            match all.iter_mut().find(|(known, _)| *known == tunnel) {
                Some((_, interfaces)) => *interfaces = interfaces.with(pdr.interface),
                None => all.push((tunnel, Interfaces::default().with(pdr.interface))),
            }
        }
    }
    all
}

fn has_qfi(qfis: u64, qfi: Option<Qfi>) -> bool {
    qfi.is_some_and(|qfi| qfis >> qfi.get() & 1 != 0)
}

impl Detector {
    fn new(
        slot: usize,
        pdr: &Pdr,
        rules: &SessionRules,
        knows_ue: bool,
        network: &Network,
    ) -> Result<Self, CompileFault> {
        let filters = pdr
            .pdi
            .sdf_filters
            .iter()
            .map(|filter| Filter::new(filter, rules));
        Ok(Self {
            slot: u16::try_from(slot).map_err(|_| CompileFault::TooMany { max: u16::MAX })?,
            interface: pdr.pdi.source_interface,
            tunnels: pdr.pdi.f_teid.map(|own| tunnels(own, network)).transpose()?,
            vrf: vrf(&pdr.pdi, network)?,
            qfis: pdr.pdi.qfis.iter().fold(0, |qfis, qfi| qfis | 1 << qfi.get()),
            ue_ip: pdr.pdi.ue_prefixes().collect(),
            filters: filters.collect::<Result<_, _>>()?,
            source_check: ue::source_check(rules, pdr, knows_ue),
        })
    }

    /// Whether the PDI takes packets of this tunnel (or of none), as far as its F-TEID goes.
    fn takes(&self, tunnel: Option<Tunnel>) -> bool {
        match (&self.tunnels, tunnel) {
            (None, _) => true,
            (Some(own), Some(tunnel)) => own.contains(&tunnel),
            (Some(_), None) => false,
        }
    }

    fn detects(&self, packet: &PacketView<'_>, interfaces: Interfaces, reads: &mut Reads<'_>) -> bool {
        interfaces.contains(self.interface)
            && self.detects_side(packet.side)
            && self.detects_qfi(packet.side, reads)
            && self.detects_ue(reads)
            && self.detects_flow(reads)
    }

    fn detects_side(&self, side: Side) -> bool {
        match side {
            Side::Tunnel { local, teid, .. } => self.takes(Some((local, teid))),
            Side::Plain { vrf } => self.takes(None) && self.vrf.is_none_or(|own| own == vrf),
        }
    }

    fn detects_qfi(&self, side: Side, reads: &mut Reads<'_>) -> bool {
        if self.qfis == 0 {
            return true;
        }
        match side {
            Side::Plain { .. } => false,
            Side::Tunnel { qfi, .. } => {
                reads.note(KeyFields::QFI);
                has_qfi(self.qfis, qfi)
            }
        }
    }

    fn detects_ue(&self, reads: &mut Reads<'_>) -> bool {
        let end = Orientation::of(self.interface).ue_end();
        self.ue_ip.is_empty() || self.ue_ip.iter().any(|prefix| reads.is_in(end, prefix))
    }

    fn detects_flow(&self, reads: &mut Reads<'_>) -> bool {
        let orientation = Orientation::of(self.interface);
        self.filters.is_empty()
            || self
                .filters
                .iter()
                .any(|filter| filter.matches(orientation, reads))
    }
}

/// The tunnels of an F-TEID: one for each of its addresses.
pub(crate) fn tunnels(f_teid: FTeid, network: &Network) -> Result<Vec<Tunnel>, CompileFault> {
    let own = |address| match network.local(address) {
        Some((instance, local)) if network.ends_tunnels(instance) => Ok((local, f_teid.teid)),
        _ => Err(CompileFault::NotLocal(address)),
    };
    let tunnels: Vec<Tunnel> = f_teid.addresses().map(own).collect::<Result<_, _>>()?;
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
