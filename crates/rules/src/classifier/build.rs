//! Packs a session's PDRs.

use std::sync::Arc;

use smallvec::SmallVec;

use super::decision::Decision;
use super::filters::{pack_application, pack_shared};
use super::named_applications::NamedApplication;
use super::packed::{Builder, OwnTunnel, PackedPdi};
use super::source_check::leads_to_access;
use super::tunnels::{Interfaces, Tunnel, Tunnels, tunnels};
use crate::compile_error::{CompileError, CompileFault};
use crate::model::{Pdi, Pdr, RuleRef, SessionRules, SourceInterface};
use crate::network::{Network, VrfId};
use crate::prefix::IpPrefix;

/// A PDR with what it leads to and the tunnels of its F-TEID.
#[derive(Clone, Copy)]
struct Entry<'a> {
    pdr: &'a Pdr,
    decision: &'a Decision,
    tunnels: &'a [Tunnel],
}

/// Packed PDRs.
pub(super) struct Packed {
    pub words: Arc<[u64]>,
    /// The applications that are known by names.
    pub named: Vec<NamedApplication>,
}

/// Packs the PDRs of `rules`; `decisions` has what each of them leads to, in the same order. `None` where there are
/// none.
pub(super) fn pack(
    rules: &SessionRules,
    decisions: &[Decision],
    network: &Network,
) -> Result<Option<Packed>, CompileError> {
    let failed = |pdr: &Pdr| {
        let rule = RuleRef::Pdr(pdr.id);
        move |reason| CompileError { rule, reason }
    };
    let mut ends: SmallVec<[Tunnels; 8]> = SmallVec::with_capacity(rules.pdrs().len());
    for pdr in rules.pdrs() {
        let own = pdr.pdi.f_teid.map(|own| tunnels(own, network)).transpose();
        ends.push(own.map_err(failed(pdr))?.unwrap_or_default());
    }
    let all = rules.pdrs().iter().zip(decisions).zip(&ends);
    let mut entries: SmallVec<[Entry<'_>; 8]> = all
        .map(|((pdr, decision), tunnels)| Entry {
            pdr,
            decision,
            tunnels,
        })
        .collect();
    // Stable: of equal precedences, the PDR that was created first is tried first.
    entries.sort_by_key(|entry| entry.pdr.precedence);
    let Some(first) = entries.first() else {
        return Ok(None);
    };
    let of_session = (&*rules.ue_prefixes(), rules.nat().is_some());
    let builder = Builder::new(of_session, own_tunnels(&entries, rules), entries.len());
    let mut builder = builder.map_err(|fault| failed(first.pdr)(fault.into()))?;
    let mut named = Vec::new();
    for entry in &entries {
        named.extend(add(&mut builder, entry, rules, network).map_err(failed(entry.pdr))?);
    }
    let words = builder.pack();
    Ok(Some(Packed { words, named }))
}

/// Adds a PDR and what it names. Gives its application, if that is known by names.
fn add(
    builder: &mut Builder,
    entry: &Entry<'_>,
    rules: &SessionRules,
    network: &Network,
) -> Result<Option<NamedApplication>, CompileFault> {
    let pdi = &entry.pdr.pdi;
    let mut filters: SmallVec<[_; 4]> = SmallVec::with_capacity(pdi.sdf_filters.len());
    for filter in &pdi.sdf_filters {
        filters.push(pack_shared(&mut builder.patterns, filter, rules)?);
    }
    let named = match &pdi.optional.application {
        Some(application) => NamedApplication::new(&mut builder.patterns, entry.decision.pdr, application)?,
        None => None,
    };
    let application = pdi.optional.application.as_ref();
    let application = application
        .map(|application| pack_application(&mut builder.patterns, application))
        .transpose()?;
    let mut prefixes = SmallVec::<[IpPrefix; 4]>::with_capacity(pdi.ue_prefix_count());
    prefixes.extend(pdi.ue_prefixes());
    let packed = PackedPdi {
        interface: pdi.source_interface,
        tunnels: pdi.f_teid.map(|_| entry.tunnels),
        vrf: vrf(pdi, network)?,
        qfis: pdi.qfis.bits(),
        ue: builder.patterns.prefixes(&prefixes)?,
        filters: builder.patterns.filters(&filters)?,
        application,
    };
    builder.add(&packed, entry.decision)?;
    Ok(named)
}

/// Each tunnel once, with the interfaces of the PDRs that name it.
fn own_tunnels(entries: &[Entry<'_>], rules: &SessionRules) -> SmallVec<[OwnTunnel; 4]> {
    let mut all: SmallVec<[(Tunnel, Interfaces); 4]> = SmallVec::new();
    for entry in entries {
        let interface: SourceInterface = entry.pdr.pdi.source_interface;
        let is_uplink = interface == SourceInterface::Access && !leads_to_access(rules, entry.pdr);
        for &tunnel in entry.tunnels {
            let place = all.iter().position(|(known, _)| *known == tunnel);
            let place = place.unwrap_or_else(|| {
                all.push((tunnel, Interfaces::default()));
                all.len() - 1
            });
            let (_, interfaces) = &mut all[place];
            *interfaces = interfaces.with(interface).with_uplink(is_uplink);
        }
    }
    let packed = |(tunnel, interfaces)| OwnTunnel::new(tunnel, interfaces);
    all.into_iter().map(packed).collect()
}

/// The address space that plain packets come from by a PDI's network instance.
fn vrf(pdi: &Pdi, network: &Network) -> Result<Option<VrfId>, CompileFault> {
    let Some(id) = pdi.instance else { return Ok(None) };
    network.instance(id).ok_or(CompileFault::UnknownInstance(id))?;
    let instance = network.data_network_instance(Some(id));
    Ok(instance.map(|instance| instance.vrf))
}
