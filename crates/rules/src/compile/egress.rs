//! A FAR becomes a forward: where its packets leave, by which next hop, inside what.

use std::net::IpAddr;

use flow::{AdjacencyId, Forward, ForwardFlags, ForwardKind, InstanceId, Template};
use packet::Teid;
use smallvec::SmallVec;

use super::next_hops::{NextHops, Peer};
use crate::compile_error::CompileFault;
use crate::model::{
    ApplyAction, DestinationInterface, Far, ForwardingParameters, OuterHeaderCreation, OuterHeaderKind, Pdr,
    SessionRules, SourceInterface, Verb,
};
use crate::network::multipath::{NextHop, Spread};
use crate::network::{ForwardingPolicy, Instance, Network, Roles};

/// A FAR whose packets no route leads to their peer any more.
pub(super) const NO_ROUTE: Forward = Forward {
    flags: ForwardFlags::NO_ROUTE,
    ..Forward::DROP
};

/// Compiles one FAR (TS 29.244 §5.2.1, §8.2.26, §8.2.56).
pub(super) fn forward(
    far: &Far,
    rules: &SessionRules,
    network: &Network,
    next_hops: &mut NextHops<'_>,
) -> Result<Forward, CompileFault> {
    let named = far.forwarding.and_then(|parameters| parameters.instance);
    if let Some(unknown) = named.filter(|&id| network.instance(id).is_none()) {
        return Err(CompileFault::UnknownInstance(unknown));
    }
    if let Some(unknown) = far.bar.filter(|&id| rules.bar(id).is_none()) {
        return Err(CompileFault::Missing(unknown.into()));
    }
    match far.action.verb().ok_or(CompileFault::ApplyAction)? {
        Verb::Drop => {
            let notify = far.action.contains(ApplyAction::DDPN) || counts_dropped(far, rules);
            Ok(drop_because(
                ForwardFlags::NONE.with_if(ForwardFlags::NOTIFY, notify),
            ))
        }
        Verb::MulticastAccept | Verb::MulticastDeny => Ok(drop_because(ForwardFlags::UNSUPPORTED)),
        Verb::Buffer => Ok(buffer(far)),
        Verb::Forward if far.optional.redirect.is_some() => redirect(far, rules, network, next_hops),
        Verb::Forward => match far.forwarding {
            None => Ok(drop_because(ForwardFlags::NO_TUNNEL)),
            Some(parameters) => {
                let egress = Egress {
                    parameters,
                    rules,
                    network,
                    is_uplink: is_uplink(far, parameters.destination, rules),
                };
                if is_of_cp_function(far, rules) {
                    egress.unchanged()
                } else {
                    egress.forward(next_hops)
                }
            }
        },
    }
}

/// Compiles a FAR that redirects: its answers come in by the instance that the session's packets from the data network
/// come in by (TS 29.244 §5.4.7).
fn redirect(
    far: &Far,
    rules: &SessionRules,
    network: &Network,
    next_hops: &mut NextHops<'_>,
) -> Result<Forward, CompileFault> {
    if far.action.contains(ApplyAction::DUPL) {
        return Err(CompileFault::RedirectedDuplicate);
    }
    let mut plain = rules
        .pdrs()
        .iter()
        .filter(|pdr| pdr.pdi.f_teid.is_none() && pdr.pdi.source_interface.is_data_network());
    let named = plain.next().and_then(|pdr| pdr.pdi.instance);
    let instance = network
        .data_network_instance(named)
        .ok_or(CompileFault::NoEgress)?;
    let own = instance.addresses().next().ok_or(CompileFault::NoEgress)?;
    let adjacency = next_hops.resolve(instance.id, own);
    Ok(Forward {
        kind: ForwardKind::Redirect,
        egress: instance.id,
        adjacency: adjacency.ok_or(CompileFault::NoAdjacency(own))?,
        ..Forward::DROP
    })
}

/// Compiles where the duplicates of a FAR's packets go, if it makes any: into a tunnel, without a PDU Session Container
/// (TS 29.244 Table 7.5.2.3-3).
pub(super) fn duplicate(
    far: &Far,
    rules: &SessionRules,
    network: &Network,
    next_hops: &mut NextHops<'_>,
) -> Result<Option<Forward>, CompileFault> {
    if !far.action.contains(ApplyAction::DUPL) {
        return Ok(None);
    }
    let parameters = far.optional.duplicating.ok_or(CompileFault::NoDuplicate)?;
    let egress = Egress {
        parameters,
        rules,
        network,
        is_uplink: false,
    };
    let header = parameters
        .outer_header_creation
        .ok_or(CompileFault::NoDuplicate)?;
    let peers = peer(&header)?.ok_or(CompileFault::HeaderIncomplete)?;
    let tunnel = egress.tunnel(header.teid, &peers, next_hops)?;
    Ok(Some(Forward {
        flags: ForwardFlags::NONE,
        mirror: None,
        ..tunnel
    }))
}

/// Whether a FAR is for messages that the CP function made for other nodes: of PDRs for its side alone, towards Access,
/// without an outer header (TS 29.244 §5.3.2).
fn is_of_cp_function(far: &Far, rules: &SessionRules) -> bool {
    let to_nodes = |to: ForwardingParameters| {
        to.destination == DestinationInterface::Access && to.outer_header_creation.is_none()
    };
    if !far.forwarding.is_some_and(to_nodes) {
        return false;
    }
    let mut pdrs = rules.users(far.id).peekable();
    pdrs.peek().is_some() && pdrs.all(|pdr| pdr.pdi.source_interface == SourceInterface::CpFunction)
}

/// Whether a FAR's packets are on their way from the UE, as the PDU Session Container says. To the CP function go those
/// of the UE, and those for it that are buffered there (TS 29.244 §5.3.3.2).
fn is_uplink(far: &Far, to: DestinationInterface, rules: &SessionRules) -> bool {
    match to {
        DestinationInterface::Access => false,
        DestinationInterface::CpFunction => {
            let mut pdrs = rules.users(far.id);
            pdrs.any(|pdr| pdr.pdi.source_interface == SourceInterface::Access)
        }
        _ => true,
    }
}

/// Whether a URR reports the packets that a FAR drops.
fn counts_dropped(far: &Far, rules: &SessionRules) -> bool {
    let urrs = rules.urrs().iter();
    let mut telling = urrs.filter(|urr| urr.dropped_threshold().is_some());
    let drops = |pdr: &&Pdr| pdr.may_follow(far.id);
    telling.any(|urr| {
        rules
            .pdrs()
            .iter()
            .filter(drops)
            .any(|pdr| pdr.may_count_in(urr.id))
    })
}

fn drop_because(flags: ForwardFlags) -> Forward {
    Forward {
        flags,
        ..Forward::DROP
    }
}

fn buffer(far: &Far) -> Forward {
    let notify = far.action.contains(ApplyAction::NOCP);
    let flags = ForwardFlags::NONE.with_if(ForwardFlags::NOTIFY, notify);
    Forward {
        kind: ForwardKind::Buffer,
        flags,
        ..Forward::DROP
    }
}

/// A FAR that forwards, with what its parameters leave open.
struct Egress<'a> {
    parameters: ForwardingParameters,
    rules: &'a SessionRules,
    network: &'a Network,
    is_uplink: bool,
}

impl Egress<'_> {
    fn forward(&self, next_hops: &mut NextHops<'_>) -> Result<Forward, CompileFault> {
        match (self.parameters.outer_header_creation, self.parameters.destination) {
            (Some(header), _) => match peer(&header)? {
                Some(peers) => self.tunnel(header.teid, &peers, next_hops),
                None => Ok(drop_because(ForwardFlags::NO_TUNNEL)),
            },
            (None, DestinationInterface::Access | DestinationInterface::CpFunction) => {
                Ok(drop_because(ForwardFlags::NO_TUNNEL))
            }
            (None, DestinationInterface::Core | DestinationInterface::SgiLan) => self.plain(next_hops),
            (None, DestinationInterface::Other(_)) => Ok(drop_because(ForwardFlags::UNSUPPORTED)),
        }
    }

    fn plain(&self, next_hops: &mut NextHops<'_>) -> Result<Forward, CompileFault> {
        let policy = self.policy();
        let named = policy
            .and_then(|policy| policy.instance)
            .or(self.parameters.instance);
        let instance = self
            .network
            .data_network_instance(named)
            .ok_or(CompileFault::NoEgress)?;
        let adjacency = match policy.and_then(|policy| policy.next_hop) {
            None => AdjacencyId::BY_DESTINATION,
            Some(next_hop) => next_hops
                .resolve(instance.id, next_hop)
                .ok_or(CompileFault::NoAdjacency(next_hop))?,
        };
        Ok(Forward {
            kind: ForwardKind::Plain,
            flags: self.dscp_marking(instance.id),
            egress: instance.id,
            adjacency,
            template: None,
            dscp: self.marking().map(|tos| tos >> 2),
            mirror: instance.mirror,
        })
    }

    fn unchanged(&self) -> Result<Forward, CompileFault> {
        let named = self.parameters.instance.and_then(|id| self.network.instance(id));
        let named = named.filter(|instance| instance.roles.intersects(Roles::GTPU));
        let by_role = || {
            let mut roles = roles_towards(DestinationInterface::Access).into_iter();
            roles.find_map(|roles| self.network.first_with(roles))
        };
        let instance = named.or_else(by_role).ok_or(CompileFault::NoEgress)?;
        Ok(Forward {
            kind: ForwardKind::Unchanged,
            egress: instance.id,
            ..Forward::DROP
        })
    }

    fn tunnel(
        &self,
        teid: Teid,
        peers: &[IpAddr],
        next_hops: &mut NextHops<'_>,
    ) -> Result<Forward, CompileFault> {
        let own = |&peer: &IpAddr| {
            self.source(peer)
                .map(|(instance, source)| (instance, source, peer))
        };
        let (instance, source, peer) = peers.iter().find_map(own).ok_or(CompileFault::NoEgress)?;
        let (egress, adjacency) = self.next_node(instance, peer, teid, next_hops)?;
        let mut template = template(teid, source, peer).ok_or(CompileFault::NoEgress)?;
        template.tos = self.marking().unwrap_or(0);
        let flags = ForwardFlags::NEEDS_MARKING | ForwardFlags::KEEP_EXTENSIONS | self.dscp_marking(egress);
        let to_cp = self.parameters.destination == DestinationInterface::CpFunction;
        let flags = flags
            .with_if(ForwardFlags::UPLINK_CONTAINER, self.is_uplink)
            .with_if(ForwardFlags::TO_CP_FUNCTION, to_cp);
        Ok(Forward {
            kind: ForwardKind::Tunnel,
            flags,
            egress,
            adjacency,
            template: Some(template),
            dscp: None,
            mirror: self.network.instance(egress).and_then(|instance| instance.mirror),
        })
    }

    /// Where the way to a tunnel's peer begins: the instance that it leaves by, while all next hops answer, and the
    /// number of the next hop. An address of our own that tunnels end at is its own next hop.
    fn next_node(
        &self,
        from: &Instance,
        peer: IpAddr,
        teid: Teid,
        next_hops: &mut NextHops<'_>,
    ) -> Result<(InstanceId, AdjacencyId), CompileFault> {
        let neighbour = |next_hops: &mut NextHops<'_>, instance, address| {
            let id = next_hops.resolve(instance, address);
            id.map(|id| (instance, id))
                .ok_or(CompileFault::NoAdjacency(address))
        };
        if let Some(owner) = self.network.tunnel_to_ourselves(from.vrf, peer) {
            return neighbour(next_hops, owner, peer);
        }
        if !self.network.may_be_another(from.vrf, peer) {
            return Err(CompileFault::NoPeer(peer));
        }
        let (vrf, address) = (from.vrf, peer);
        let next_hop = next_hops.next_hop(self.network, Peer { vrf, address });
        match next_hop.ok_or(CompileFault::NoRoute(peer))? {
            NextHop::Neighbour(instance, address) => neighbour(next_hops, instance, address),
            NextHop::Group(group) => {
                let spread = Spread::of_tunnel(peer, teid.0);
                let hop = self.network.hop_of_path(group, spread.path());
                let (egress, address) = hop.ok_or(CompileFault::NoRoute(peer))?;
                let id = next_hops.path(group, spread);
                id.map(|id| (egress, id))
                    .ok_or(CompileFault::NoAdjacency(address))
            }
        }
    }

    /// The forwarding policy that the FAR names.
    fn policy(&self) -> Option<&ForwardingPolicy> {
        self.parameters.policy.and_then(|id| self.network.policy(id))
    }

    /// The TOS that the FAR says (TS 29.244 §8.2.12), else its forwarding policy.
    fn marking(&self) -> Option<u8> {
        let by_policy = || Some(self.policy()?.dscp?.get() << 2);
        let marking = self.parameters.transport_level_marking;
        marking
            .map(|marking| marking.value & marking.mask)
            .or_else(by_policy)
    }

    /// Whether `egress` marks packets: what the FAR says wins (TS 29.244 §5.4.13).
    fn dscp_marking(&self, egress: InstanceId) -> ForwardFlags {
        let instance = self.network.instance(egress);
        let marks = instance.is_some_and(|instance| instance.dscp.is_some());
        let marks = marks && self.marking().is_none();
        ForwardFlags::NONE.with_if(ForwardFlags::MARKS_DSCP, marks)
    }

    /// This node's end of a tunnel to `peer`: the FAR's instance, else where the session's own tunnel on that side
    /// ends, else the first instance for that side; each only if it has an address of the peer's family.
    fn source(&self, peer: IpAddr) -> Option<(&Instance, IpAddr)> {
        let own = |instance: &Instance| instance.address_towards(peer);
        let named = self.parameters.instance.and_then(|id| self.network.instance(id));
        let named = named.filter(|instance| instance.roles.intersects(Roles::GTPU));
        let named = named.and_then(|instance| Some((instance, own(instance)?)));
        named.or_else(|| self.session_tunnel(peer)).or_else(|| {
            let by_role = |&roles: &Roles| {
                let fitting = self
                    .network
                    .instances()
                    .iter()
                    .filter(move |one| one.roles.intersects(roles));
                fitting
                    .filter_map(|instance| Some((instance, own(instance)?)))
                    .next()
            };
            roles_towards(self.parameters.destination)
                .iter()
                .find_map(by_role)
        })
    }

    /// The address of the session's first tunnel from the side that this FAR sends to.
    fn session_tunnel(&self, peer: IpAddr) -> Option<(&Instance, IpAddr)> {
        let side = SourceInterface::from_value(self.parameters.destination.value());
        let pdrs = self
            .rules
            .pdrs()
            .iter()
            .filter(|pdr| pdr.pdi.source_interface == side);
        let ends = pdrs
            .filter_map(|pdr| pdr.pdi.f_teid)
            .flat_map(|f_teid| f_teid.addresses());
        let mut fitting = ends.filter(|own| own.is_ipv4() == peer.is_ipv4());
        let (own, instance) = fitting.find_map(|own| Some((own, self.network.local(own)?.0)))?;
        Some((self.network.instance(instance)?, own))
    }
}

/// The roles of an instance towards `destination`, the most likely first.
fn roles_towards(destination: DestinationInterface) -> [Roles; 2] {
    match destination {
        DestinationInterface::Access => [Roles::N3, Roles::N9],
        DestinationInterface::CpFunction => [Roles::N4U, Roles::GTPU],
        _ => [Roles::N9, Roles::GTPU],
    }
}

/// The peer's addresses in the order of liking. `None` when the SMF gives a place holder: TEID 0 or an address of
/// all zeros, as some do before the gNB has answered.
fn peer(header: &OuterHeaderCreation) -> Result<Option<SmallVec<[IpAddr; 2]>>, CompileFault> {
    if !header.kind.is_gtpu() {
        return Err(CompileFault::UnsupportedHeader);
    }
    let v4 = header
        .ipv4
        .filter(|_| header.kind.contains(OuterHeaderKind::GTPU_IPV4))
        .map(IpAddr::V4);
    let v6 = header
        .ipv6
        .filter(|_| header.kind.contains(OuterHeaderKind::GTPU_IPV6))
        .map(IpAddr::V6);
    let mut peers: SmallVec<[IpAddr; 2]> = v4.into_iter().chain(v6).collect();
    if peers.is_empty() {
        return Err(CompileFault::HeaderIncomplete);
    }
    peers.retain(|peer| !peer.is_unspecified());
    Ok(Some(peers).filter(|peers| !peers.is_empty() && header.teid != Teid::ZERO))
}

fn template(teid: Teid, source: IpAddr, peer: IpAddr) -> Option<Template> {
    match (source, peer) {
        (IpAddr::V4(source), IpAddr::V4(peer)) => {
            Some(Template::ipv4(teid.0, source.octets(), peer.octets()))
        }
        (IpAddr::V6(source), IpAddr::V6(peer)) => {
            Some(Template::ipv6(teid.0, source.octets(), peer.octets()))
        }
        _ => None,
    }
}
