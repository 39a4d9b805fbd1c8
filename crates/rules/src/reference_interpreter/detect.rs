//! Which PDR detects a packet (TS 29.244 §5.2.1), and whether the UE may send from that address.

use std::borrow::Cow;
use std::net::IpAddr;

use dpi::domain_lists::DomainLists;
use packet::tuple::proto;
use packet::{DropReason, IpTuple, Qfi};

use super::arrival::{Arrival, Tunnelled};
use super::session::Session;
use crate::model::{Application, DestinationInterface, FTeid, Pdr, SdfFilter, SourceInterface};
use crate::model::{Content, DetectionPattern, NamedPfd, PredefinedRule};
use crate::network::{Roles, VrfId};
use crate::packet_view::DetectedFlow;
use crate::sdf::{Address, Endpoint, FlowDescription};

/// A PDR with what a predefined rule adds to it, and what that rule's packets are billed as.
pub(super) type Detected<'a> = (Cow<'a, Pdr>, Option<&'a Content>);

/// Whether a PDR or a Traffic Endpoint names the tunnel.
pub(super) fn owns_tunnel(session: Session<'_>, tunnel: &Tunnelled<'_>) -> bool {
    let mut endpoints = session.rules.endpoints().iter();
    session.rules.pdrs().iter().any(|pdr| names(pdr, tunnel))
        || endpoints.any(|endpoint| endpoint.f_teid.is_some_and(|own| leads(own, tunnel)))
}

/// Whether plain packets to `address` in `vrf` are for this session's UE.
pub(super) fn owns_address(session: Session<'_>, vrf: VrfId, address: IpAddr) -> bool {
    let plain = session.rules.pdrs().iter().filter(|pdr| pdr.pdi.f_teid.is_none());
    plain
        .filter(|pdr| is_from_data_network(pdr.pdi.source_interface))
        .any(|pdr| {
            let instances = || {
                session
                    .network
                    .instances()
                    .iter()
                    .filter(|one| one.roles.intersects(Roles::N6))
            };
            let named = instances().find(|instance| Some(instance.id) == pdr.pdi.instance);
            let instance = named.or_else(|| instances().next());
            instance.is_some_and(|instance| instance.vrf == vrf) && has_ue_address(pdr, address)
        })
}

/// The first PDR that matches, by precedence, then by age; with what a predefined rule adds to it.
pub(super) fn detect<'a>(
    session: Session<'a>,
    arrival: &Arrival<'_>,
    tuple: &IpTuple,
) -> Option<Detected<'a>> {
    let pdrs = session.rules.pdrs().iter();
    let mut matching: Vec<&Pdr> = pdrs.filter(|pdr| matches(session, pdr, arrival, tuple)).collect();
    matching.sort_by_key(|pdr| pdr.precedence);
    let mut with_rules = matching
        .into_iter()
        .map(|pdr| with_rule(session, pdr, Some(tuple)));
    with_rules.find_map(|pdr| pdr)
}

/// What a PDR is with the predefined rule that the packet is of (TS 29.244 §5.19): itself, if it activates no
/// rulebase; `None`, if the packet is of no rule. Without a packet any rule is the one.
pub(super) fn with_rule<'a>(
    session: Session<'a>,
    pdr: &'a Pdr,
    tuple: Option<&IpTuple>,
) -> Option<Detected<'a>> {
    if pdr.rulebases.is_empty() {
        return Some((Cow::Borrowed(pdr), None));
    }
    let describes = |(lists, rule): &(&DomainLists, &PredefinedRule)| {
        let interface = pdr.pdi.source_interface;
        let fits_filter = |filter| tuple.is_none_or(|tuple| fits(session, filter, interface, tuple));
        let is_for = tuple.is_none_or(|tuple| is_found(session, (&rule.detection, lists), tuple));
        is_for && (rule.filters.is_empty() || rule.filters.iter().any(fits_filter))
    };
    let rules = pdr.rulebases.iter().flat_map(|rulebase| {
        let rules = rulebase.rules().iter();
        rules.map(|rule| (&**rulebase.lists(), rule))
    });
    let (_, rule) = rules.filter(describes).min_by_key(|(_, rule)| rule.precedence)?;
    let mut pdr = pdr.clone();
    pdr.far = pdr.far.or(rule.far);
    pdr.qers.extend(rule.qers.iter().copied());
    pdr.urrs.extend(rule.urrs.iter().copied());
    Some((Cow::Owned(pdr), rule.content.as_ref()))
}

/// Whether the packet's flow is found to be what a rule asks for, if it asks for anything.
pub(super) fn is_found(
    session: Session<'_>,
    (pattern, lists): (&DetectionPattern, &DomainLists),
    tuple: &IpTuple,
) -> bool {
    let describes = |flow: DetectedFlow<'_>| may_be_found(tuple) && pattern.matches(&flow, lists);
    pattern.is_empty() || session.detection.flow().is_some_and(describes)
}

/// Whether flows of such packets are looked into.
pub(super) fn may_be_found(tuple: &IpTuple) -> bool {
    matches!(tuple.proto, proto::TCP | proto::UDP)
}

/// The first PDR that names the tunnel of a message without a user packet, and its QFI if it has one.
pub(super) fn detect_signalling<'a>(session: Session<'a>, tunnel: &Tunnelled<'_>) -> Option<Detected<'a>> {
    let pdrs = session.rules.pdrs().iter().filter(|pdr| names(pdr, tunnel));
    let pdrs = pdrs.filter(|pdr| tunnel.qfi.is_none() || has_qfi(pdr, tunnel.qfi));
    let first = pdrs.min_by_key(|pdr| pdr.precedence)?;
    with_rule(session, first, None)
}

fn matches(session: Session<'_>, pdr: &Pdr, arrival: &Arrival<'_>, tuple: &IpTuple) -> bool {
    comes_from(session, pdr, arrival)
        && comes_in(session, pdr, arrival)
        && (pdr.pdi.ue_prefixes().next().is_none()
            || has_ue_address(pdr, ue_end(pdr.pdi.source_interface, tuple)))
        && (pdr.pdi.sdf_filters.is_empty()
            || pdr
                .pdi
                .sdf_filters
                .iter()
                .any(|filter| fits(session, filter, pdr.pdi.source_interface, tuple)))
        && pdr
            .pdi
            .optional
            .application
            .as_ref()
            .is_none_or(|application| is_of(session, application, pdr.pdi.source_interface, tuple))
}

/// Whether the packet is from the PDI's source interface. A tunnel is from the interfaces that the PDRs with its
/// F-TEID say; a plain packet is from the data network.
pub(super) fn comes_from(session: Session<'_>, pdr: &Pdr, arrival: &Arrival<'_>) -> bool {
    let interface = pdr.pdi.source_interface;
    match arrival {
        Arrival::Plain { .. } => is_from_data_network(interface),
        Arrival::Tunnel(tunnel) => {
            let same = |other: &&Pdr| other.pdi.source_interface == interface;
            session
                .rules
                .pdrs()
                .iter()
                .filter(same)
                .any(|other| names(other, tunnel))
        }
    }
}

/// Whether the F-TEID, the network instance and the QFI agree.
fn comes_in(session: Session<'_>, pdr: &Pdr, arrival: &Arrival<'_>) -> bool {
    match arrival {
        Arrival::Tunnel(tunnel) => {
            (pdr.pdi.f_teid.is_none() || names(pdr, tunnel)) && has_qfi(pdr, tunnel.qfi)
        }
        Arrival::Plain { vrf, .. } => {
            pdr.pdi.f_teid.is_none() && pdr.pdi.qfis.is_empty() && is_instance(session, pdr, *vrf)
        }
    }
}

pub(super) fn is_instance(session: Session<'_>, pdr: &Pdr, vrf: VrfId) -> bool {
    let Some(id) = pdr.pdi.instance else { return true };
    let named = session
        .network
        .instance(id)
        .filter(|instance| instance.roles.intersects(Roles::N6));
    let default = session
        .network
        .instances()
        .iter()
        .find(|instance| instance.roles.intersects(Roles::N6));
    named.or(default).is_none_or(|instance| instance.vrf == vrf)
}

pub(super) fn fits(
    session: Session<'_>,
    filter: &SdfFilter,
    interface: SourceInterface,
    tuple: &IpTuple,
) -> bool {
    let Some(filter) = session.rules.resolve(filter) else {
        return false;
    };
    let has_spi = tuple.proto == proto::ESP || tuple.proto == proto::AH;
    filter
        .flow_description
        .as_ref()
        .is_none_or(|rule| describes(session, rule, interface, tuple))
        && filter
            .tos_traffic_class
            .is_none_or(|class| class.matches(tuple.tos))
        && filter.spi.is_none_or(|spi| has_spi && tuple.spi == spi)
        && filter
            .flow_label
            .is_none_or(|label| !tuple.addrs.is_v4() && tuple.flow_label == label)
}

pub(super) fn is_of(
    session: Session<'_>,
    application: &Application,
    interface: SourceInterface,
    tuple: &IpTuple,
) -> bool {
    let describes = |flow: &FlowDescription| describes(session, flow, interface, tuple);
    let mut named = application.named.all().iter();
    is_of_flows(session, application, interface, tuple)
        || named.any(|pfd| is_named(session, pfd, describes, tuple))
}

/// Whether a packet is of an application by its PFDs without names.
pub(super) fn is_of_flows(
    session: Session<'_>,
    application: &Application,
    interface: SourceInterface,
    tuple: &IpTuple,
) -> bool {
    let mut flows = application.flows.iter();
    flows.any(|flow| describes(session, flow, interface, tuple))
}

/// Whether a PFD with names describes the packet.
fn is_named(
    session: Session<'_>,
    pfd: &NamedPfd,
    describes: impl Fn(&FlowDescription) -> bool,
    tuple: &IpTuple,
) -> bool {
    let describes_flow = |flow: DetectedFlow<'_>| may_be_found(tuple) && pfd.is_of(&flow);
    let is_for = session.detection.flow().is_some_and(describes_flow);
    is_for && (pfd.flows.is_empty() || pfd.flows.iter().any(describes))
}

/// Flow Descriptions are for the downlink; for what comes from Access the sides are swapped (TS 29.244
/// §5.2.1A.2A).
fn describes(
    session: Session<'_>,
    rule: &FlowDescription,
    interface: SourceInterface,
    tuple: &IpTuple,
) -> bool {
    let (source, destination) = match interface {
        SourceInterface::Access => (rule.ue_side(), rule.remote_side()),
        _ => (rule.remote_side(), rule.ue_side()),
    };
    rule.protocol.is_none_or(|protocol| protocol == tuple.proto)
        && is_at(session, source, tuple.addrs.src(), true)
        && is_at(session, destination, tuple.addrs.dst(), false)
        && (source.ports.is_empty() || source.ports.iter().any(|range| range.contains(tuple.src_port)))
        && (destination.ports.is_empty()
            || destination
                .ports
                .iter()
                .any(|range| range.contains(tuple.dst_port)))
}

fn is_at(session: Session<'_>, side: &Endpoint, address: IpAddr, is_source: bool) -> bool {
    match side.address {
        Address::Any => true,
        Address::Prefix(prefix) => prefix.contains(address),
        Address::Assigned => {
            let knows_ue = !session.rules.ue_prefixes().is_empty();
            !knows_ue || is_ue(session, address) || (is_source && is_link_local(session, address))
        }
    }
}

fn is_ue(session: Session<'_>, address: IpAddr) -> bool {
    session
        .rules
        .pdrs()
        .iter()
        .any(|pdr| has_ue_address(pdr, address))
}

fn is_link_local(session: Session<'_>, address: IpAddr) -> bool {
    let has_ipv6 = session.rules.ue_prefixes().iter().any(|prefix| !prefix.is_ipv4());
    has_ipv6 && matches!(address, IpAddr::V6(v6) if v6.segments()[0] & 0xffc0 == 0xfe80)
}

/// Refuses what the UE sends from another's address. Link-local ones are good only towards the control plane
/// function, which answers router solicitations. From Access to Access go packets *to* the UE.
pub(super) fn check_source(session: Session<'_>, pdr: &Pdr, tuple: &IpTuple) -> Result<(), DropReason> {
    if pdr.pdi.source_interface != SourceInterface::Access || session.rules.ue_prefixes().is_empty() {
        return Ok(());
    }
    let far = pdr.far.and_then(|id| session.rules.far(id));
    let destination = far
        .and_then(|far| far.forwarding)
        .map(|parameters| parameters.destination);
    let source = tuple.addrs.src();
    let allowed = match destination {
        Some(DestinationInterface::Access) => true,
        Some(DestinationInterface::CpFunction) => is_ue(session, source) || is_link_local(session, source),
        _ => is_ue(session, source),
    };
    if allowed {
        Ok(())
    } else {
        Err(DropReason::SpoofedSource)
    }
}

fn is_from_data_network(interface: SourceInterface) -> bool {
    interface == SourceInterface::Core || interface == SourceInterface::SgiLan
}

pub(super) fn names(pdr: &Pdr, tunnel: &Tunnelled<'_>) -> bool {
    pdr.pdi.f_teid.is_some_and(|own| leads(own, tunnel))
}

fn leads(f_teid: FTeid, tunnel: &Tunnelled<'_>) -> bool {
    f_teid.teid == tunnel.teid && f_teid.addresses().any(|own| own == tunnel.local)
}

pub(super) fn has_qfi(pdr: &Pdr, qfi: Option<Qfi>) -> bool {
    pdr.pdi.qfis.is_empty() || qfi.is_some_and(|qfi| pdr.pdi.qfis.contains(qfi))
}

pub(super) fn has_ue_address(pdr: &Pdr, address: IpAddr) -> bool {
    pdr.pdi.ue_prefixes().any(|prefix| prefix.contains(address))
}

/// The tuple's end of the UE: the source of what comes from Access.
pub(super) fn ue_end(interface: SourceInterface, tuple: &IpTuple) -> IpAddr {
    match interface {
        SourceInterface::Access => tuple.addrs.src(),
        _ => tuple.addrs.dst(),
    }
}
