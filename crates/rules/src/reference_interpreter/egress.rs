//! Where a FAR sends a packet: by which instance, to which neighbour, in which tunnel.

use std::net::IpAddr;

use flow::PortId;
use flow::meter::Colour;
use packet::gtpu::MessageType;
use packet::{DropReason, IpTuple, Qfi, Teid};

use super::build::{Extension, OuterTunnel, outer_headers, set_dscp};
use super::session::Session;
use super::verdict::{Duplicate, Outcome};
use crate::model::{
    ApplyAction, DestinationInterface, Far, ForwardingParameters, OuterHeaderCreation, OuterHeaderKind, Pdr,
    Redirect, SourceInterface, Verb,
};
use crate::network::multipath::Spread;
use crate::network::{Instance, InstanceId, Network, PlainRoute, Roles, UeRoute};

/// A FAR's way out.
pub(super) enum Egress {
    /// As plain IP.
    Plain(PlainEgress),
    /// In a tunnel.
    Tunnel(NextTunnel),
    /// As it is, from this instance to the node that it is addressed to.
    Unchanged(InstanceId),
    /// Answered, as if a web server behind this instance redirected to this URL.
    Redirect(InstanceId, Redirect),
}

/// The way to a data network.
pub(super) struct PlainEgress {
    instance: InstanceId,
    /// Where a forwarding policy leads, instead of routes.
    next_hop: Option<IpAddr>,
    /// What the FAR's Transport Level Marking says, or its forwarding policy.
    tos: Option<u8>,
}

/// The treatment of a user packet.
#[derive(Clone, Copy)]
pub(super) struct Treatment {
    pub(super) qfi: Option<Qfi>,
    pub(super) colour: Colour,
}

/// A tunnel to a peer.
pub(super) struct NextTunnel {
    pub(super) instance: InstanceId,
    pub(super) source: IpAddr,
    pub(super) peer: IpAddr,
    pub(super) teid: Teid,
    /// What the FAR's Transport Level Marking says.
    tos: Option<u8>,
    /// Away from the UE.
    pub(super) is_uplink: bool,
    /// To the CP function: over N4-u or Sx-u.
    pub(super) is_to_cp: bool,
}

impl NextTunnel {
    /// What its outer headers say.
    const fn outer(&self, tos: u8) -> OuterTunnel {
        OuterTunnel {
            source: self.source,
            peer: self.peer,
            teid: self.teid,
            tos,
        }
    }
}

/// What the PDR's FAR does (TS 29.244 §8.2.26).
pub(super) fn egress(session: Session<'_>, pdr: &Pdr) -> Result<Egress, DropReason> {
    let far = pdr
        .far
        .and_then(|id| session.rules.far(id))
        .ok_or(DropReason::UnsupportedAction)?;
    match far.action.verb() {
        Some(Verb::Drop) => Err(DropReason::FarDrop),
        Some(Verb::Buffer) => Err(DropReason::FarBuffer),
        Some(Verb::Forward) if far.optional.redirect.is_some() => egress_of_redirected(session, far),
        Some(Verb::Forward) => {
            let to = far.forwarding.ok_or(DropReason::FarNoTunnel)?;
            let mut users = session.rules.users(far.id);
            let by_cp = users
                .clone()
                .all(|user| user.pdi.source_interface == SourceInterface::CpFunction);
            let mut way = match (to.destination, to.outer_header_creation) {
                (DestinationInterface::Access, None) if by_cp => egress_to_nodes(session, to),
                _ => egress_of(session, to),
            };
            if let Ok(Egress::Tunnel(tunnel)) = &mut way
                && to.destination == DestinationInterface::CpFunction
            {
                // What waits there is on its way down (TS 29.244 §5.3.3.2).
                tunnel.is_uplink = users.any(|user| user.pdi.source_interface == SourceInterface::Access);
            }
            way
        }
        _ => Err(DropReason::UnsupportedAction),
    }
}

/// The way of what is redirected (TS 29.244 §5.4.7): in again where the UE's packets come from the data network.
fn egress_of_redirected(session: Session<'_>, far: &Far) -> Result<Egress, DropReason> {
    let from_outside = |pdr: &&Pdr| {
        let interface = pdr.pdi.source_interface;
        pdr.pdi.f_teid.is_none()
            && (interface == SourceInterface::Core || interface == SourceInterface::SgiLan)
    };
    let first = session.rules.pdrs().iter().find(from_outside);
    let name = first.and_then(|pdr| pdr.pdi.instance);
    let all = || session.network.instances().iter();
    let mut n6 = all().filter(|instance| instance.roles.intersects(Roles::N6));
    let named = n6.clone().find(|instance| Some(instance.id) == name);
    let instance = named.or_else(|| n6.next()).ok_or(DropReason::UnsupportedAction)?;
    let to = far
        .optional
        .redirect
        .clone()
        .ok_or(DropReason::UnsupportedAction)?;
    Ok(Egress::Redirect(instance.id, to))
}

/// The duplicate of a packet (TS 29.244 §5.2.3.1), if the PDR's FAR asks for one: in its own tunnel.
pub(super) fn duplicate(session: Session<'_>, pdr: &Pdr, user: &[u8]) -> Option<Duplicate> {
    let far = pdr.far.and_then(|id| session.rules.far(id))?;
    let wanted = far
        .optional
        .duplicating
        .filter(|_| far.action.contains(ApplyAction::DUPL))?;
    let Ok(Egress::Tunnel(tunnel)) = egress_of(session, wanted) else {
        return None;
    };
    let (egress, next_hop) = route(session, &tunnel).ok()?;
    let outer = tunnel.outer(tunnel.tos.unwrap_or(0));
    let bytes = outer_headers(&outer, MessageType::G_PDU, &[], user).ok()?;
    Some(Duplicate {
        bytes,
        egress,
        next_hop,
    })
}

/// The way of a message that the CP function made for another node (TS 29.244 §5.3.2).
fn egress_to_nodes(session: Session<'_>, to: ForwardingParameters) -> Result<Egress, DropReason> {
    let all = || session.network.instances().iter();
    let first = |roles| all().find(|one| one.roles.intersects(roles));
    let named = all().find(|one| Some(one.id) == to.instance && one.roles.intersects(Roles::GTPU));
    let instance = named.or_else(|| first(Roles::N3)).or_else(|| first(Roles::N9));
    instance
        .map(|instance| Egress::Unchanged(instance.id))
        .ok_or(DropReason::UnsupportedAction)
}

pub(super) fn leave_unchanged(
    session: Session<'_>,
    instance: InstanceId,
    tuple: &IpTuple,
    bytes: Vec<u8>,
) -> Result<Outcome, DropReason> {
    let vrf = session.network.instance(instance).ok_or(DropReason::NoRoute)?.vrf;
    let way = session
        .network
        .plain_route(vrf, tuple.addrs.src(), tuple.addrs.dst());
    let Some(PlainRoute::Out(egress, next_hop)) = way else {
        return Err(DropReason::NoRoute);
    };
    let ends_tunnels = |one: &Instance| one.roles.intersects(Roles::GTPU);
    if !session.network.instance(egress).is_some_and(ends_tunnels) {
        return Err(DropReason::NoRoute);
    }
    Ok(Outcome::Forwarded {
        bytes,
        egress,
        next_hop,
        mirror: None,
    })
}

fn egress_of(session: Session<'_>, parameters: ForwardingParameters) -> Result<Egress, DropReason> {
    if let Some(header) = parameters.outer_header_creation {
        return tunnel(session, parameters, header).map(Egress::Tunnel);
    }
    match parameters.destination {
        DestinationInterface::Access | DestinationInterface::CpFunction => Err(DropReason::FarNoTunnel),
        DestinationInterface::Other(_) => Err(DropReason::UnsupportedAction),
        DestinationInterface::Core | DestinationInterface::SgiLan => {
            let mut n6 = session
                .network
                .instances()
                .iter()
                .filter(|instance| instance.roles.intersects(Roles::N6));
            let policy = parameters.policy.and_then(|id| session.network.policy(id));
            let by_policy = policy.and_then(|policy| policy.instance);
            let name = by_policy.or(parameters.instance);
            let named = n6.clone().find(|instance| Some(instance.id) == name);
            let instance = named.or_else(|| n6.next()).ok_or(DropReason::UnsupportedAction)?;
            Ok(Egress::Plain(PlainEgress {
                instance: instance.id,
                next_hop: policy.and_then(|policy| policy.next_hop),
                tos: tos(session, &parameters),
            }))
        }
    }
}

/// The tunnel that an Outer Header Creation asks for: IPv4 if it can be, and towards the peer's address that this
/// node has one of the same family for.
fn tunnel(
    session: Session<'_>,
    to: ForwardingParameters,
    header: OuterHeaderCreation,
) -> Result<NextTunnel, DropReason> {
    let mut peers: Vec<IpAddr> = Vec::new();
    if header.kind.contains(OuterHeaderKind::GTPU_IPV4) {
        peers.extend(header.ipv4.map(IpAddr::V4));
    }
    if header.kind.contains(OuterHeaderKind::GTPU_IPV6) {
        peers.extend(header.ipv6.map(IpAddr::V6));
    }
    peers.retain(|peer| !peer.is_unspecified());
    if peers.is_empty() || header.teid == Teid::ZERO {
        return Err(DropReason::FarNoTunnel);
    }
    for peer in peers {
        if let Some((instance, source)) = own_end(session, &to, peer) {
            return Ok(NextTunnel {
                instance,
                source,
                peer,
                teid: header.teid,
                tos: tos(session, &to),
                is_uplink: to.destination != DestinationInterface::Access,
                is_to_cp: to.destination == DestinationInterface::CpFunction,
            });
        }
    }
    Err(DropReason::UnsupportedAction)
}

/// This node's end of a tunnel: at the FAR's instance, else where the session's tunnel of that side ends, else at
/// the first instance of that side.
fn own_end(session: Session<'_>, to: &ForwardingParameters, peer: IpAddr) -> Option<(InstanceId, IpAddr)> {
    let family = |own: &IpAddr| own.is_ipv4() == peer.is_ipv4();
    let at = |instance: &Instance| Some((instance.id, instance.addresses().find(family)?));
    let named = to.instance.and_then(|id| session.network.instance(id));
    if let Some(end) = named
        .filter(|instance| instance.roles.intersects(Roles::GTPU))
        .and_then(at)
    {
        return Some(end);
    }
    for pdr in session.rules.pdrs() {
        let is_that_side = pdr.pdi.source_interface == SourceInterface::from_value(to.destination.value());
        let mut ends = pdr
            .pdi
            .f_teid
            .into_iter()
            .filter(|_| is_that_side)
            .flat_map(|own| own.addresses());
        if let Some(own) = ends.find(family) {
            return Some((session.network.local(own)?.0, own));
        }
    }
    let sides = match to.destination {
        DestinationInterface::Access => [Roles::N3, Roles::N9],
        DestinationInterface::CpFunction => [Roles::N4U, Roles::GTPU],
        _ => [Roles::N9, Roles::GTPU],
    };
    sides
        .into_iter()
        .find_map(|side| first_at(session.network, side, at))
}

pub(super) fn leave_plain(
    session: Session<'_>,
    way: &PlainEgress,
    tuple: &IpTuple,
    treatment: Treatment,
    mut bytes: Vec<u8>,
) -> Result<Outcome, DropReason> {
    let egress = match way.next_hop {
        Some(next_hop) => PlainRoute::Out(way.instance, next_hop),
        None => route_plain(session, way.instance, tuple)?,
    };
    let by_flow = || dscp(session, way.instance, treatment);
    if let Some(dscp) = way.tos.map(|tos| tos >> 2).or_else(by_flow) {
        set_dscp(&mut bytes, dscp)?;
    }
    // Towards data networks alone, also where N3 shares the VRF: no UE talks to gNBs.
    let leads_to_n6 = |instance: &Instance| instance.roles.intersects(Roles::N6);
    let (PlainRoute::Out(instance, _) | PlainRoute::ToUe(instance, _)) = egress;
    if !session.network.instance(instance).is_some_and(leads_to_n6) {
        return Err(DropReason::NoRoute);
    }
    let mirror = mirror(session, way.instance);
    match egress {
        PlainRoute::Out(egress, next_hop) => Ok(Outcome::Forwarded {
            bytes,
            egress,
            next_hop,
            mirror,
        }),
        PlainRoute::ToUe(ingress, UeRoute::Ourselves(_)) => Ok(Outcome::Recirculated {
            bytes,
            ingress,
            mirror,
            is_answer: false,
        }),
        PlainRoute::ToUe(_, UeRoute::Nowhere) => Err(DropReason::UeToUe),
    }
}

pub(super) fn leave_in(
    session: Session<'_>,
    tunnel: &NextTunnel,
    message_type: MessageType,
    extensions: &[Extension],
    treatment: Option<Treatment>,
    payload: &[u8],
) -> Result<Outcome, DropReason> {
    let home = our_tunnels_at(session, tunnel.instance, tunnel.peer);
    let (egress, next_hop) = match home {
        Some(home) => (home, tunnel.peer),
        None => route(session, tunnel)?,
    };
    let by_flow = || Some(dscp(session, egress, treatment?)? << 2);
    let tos = tunnel.tos.or_else(by_flow).unwrap_or(0);
    let bytes = outer_headers(&tunnel.outer(tos), message_type, extensions, payload)?;
    let mirror = treatment.and_then(|_| mirror(session, egress));
    Ok(match home {
        Some(ingress) => Outcome::Recirculated {
            bytes,
            ingress,
            mirror,
            is_answer: false,
        },
        None => Outcome::Forwarded {
            bytes,
            egress,
            next_hop,
            mirror,
        },
    })
}

/// The instance with this address of our own, if tunnels end there and `from` is in the same address space.
fn our_tunnels_at(session: Session<'_>, from: InstanceId, address: IpAddr) -> Option<InstanceId> {
    let vrf = session.network.instance(from)?.vrf;
    let instances = session.network.instances().iter();
    let mut ours = instances.filter(|one| one.vrf == vrf && one.roles.intersects(Roles::GTPU));
    ours.find(|one| one.addresses().any(|own| own == address))
        .map(|one| one.id)
}

/// The DSCP that an instance marks a packet with.
fn dscp(session: Session<'_>, instance: InstanceId, treatment: Treatment) -> Option<u8> {
    let table = session.network.instance(instance)?.dscp.as_ref()?;
    let mark = table.get(treatment.qfi?)?;
    Some(match treatment.colour {
        Colour::Yellow => mark.yellow.get(),
        _ => mark.green.get(),
    })
}

/// Where copies of user packets go that rules send to an instance.
fn mirror(session: Session<'_>, instance: InstanceId) -> Option<PortId> {
    session.network.instance(instance)?.mirror
}

/// What a FAR's Transport Level Marking says, or else its forwarding policy.
fn tos(session: Session<'_>, parameters: &ForwardingParameters) -> Option<u8> {
    if let Some(marking) = parameters.transport_level_marking {
        return Some(marking.value & marking.mask);
    }
    let policy = session.network.policy(parameters.policy?)?;
    Some(policy.dscp?.get() << 2)
}

fn route_plain(
    session: Session<'_>,
    instance: InstanceId,
    tuple: &IpTuple,
) -> Result<PlainRoute, DropReason> {
    let vrf = session.network.instance(instance).ok_or(DropReason::NoRoute)?.vrf;
    session
        .network
        .plain_route(vrf, tuple.addrs.src(), tuple.addrs.dst())
        .ok_or(DropReason::NoRoute)
}

fn route(session: Session<'_>, tunnel: &NextTunnel) -> Result<(InstanceId, IpAddr), DropReason> {
    let from = session.network.instance(tunnel.instance);
    let vrf = from.ok_or(DropReason::NoRoute)?.vrf;
    let spread = Spread::of_tunnel(tunnel.peer, tunnel.teid.0);
    session
        .network
        .route(vrf, tunnel.peer, spread)
        .ok_or(DropReason::NoRoute)
}

fn first_at<T>(network: &Network, roles: Roles, at: impl Fn(&Instance) -> Option<T>) -> Option<T> {
    network
        .instances()
        .iter()
        .filter(|instance| instance.roles.intersects(roles))
        .find_map(at)
}
