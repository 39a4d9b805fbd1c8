//! What an SMF asks for: the requests behind steps.

use std::net::{Ipv4Addr, Ipv6Addr};

use packet::{Qfi, Teid};
use rules::model::{
    ApplyAction, Bar, BarId, BarUpdate, BitRates, BitsPerSecond, DestinationInterface, Edit as To, Far,
    FarId, FarUpdate, ForwardingParameters, ForwardingParametersUpdate, Gate, OuterHeader,
    OuterHeaderCreation, OuterHeaderRemoval, Pdi, PdiUpdate, Pdr, PdrId, PdrUpdate, Precedence, Qer, QerId,
    QerUpdate, SourceInterface, TrafficEndpoint, TrafficEndpointId, UeIpAddress, UrrId,
};

use super::model::Session;
use super::op::{Op, Wish, filter, own};
use super::step::{Edit, Shape};
use super::wire::{self, group, ie};

/// Whose session it is: SMF and slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub smf: u8,
    pub slot: u8,
}

const REMOVAL: OuterHeaderRemoval = OuterHeaderRemoval {
    header: OuterHeader::GtpuUdpIpv4,
    deletes_psc: false,
};

impl Place {
    /// The CP F-SEID's number, as a freshly started SMF begins to count.
    pub fn cp(self) -> u64 {
        u64::from(self.slot) + 1
    }

    /// The first and the second IPv4 address of the UE.
    pub fn ue(self, second: bool) -> Ipv4Addr {
        Ipv4Addr::new(10, 45, self.smf, self.slot * 2 + 1 + u8::from(second))
    }

    fn ue_v6(self) -> Ipv6Addr {
        Ipv6Addr::new(
            0x2001,
            0xdb8,
            0x45,
            u16::from(self.smf) << 8 | u16::from(self.slot),
            0,
            0,
            0,
            0,
        )
    }

    fn given_teid(self) -> u32 {
        0x5000 + u32::from(self.smf) * 16 + u32::from(self.slot)
    }

    fn ue_ip(self, is_destination: bool) -> UeIpAddress {
        UeIpAddress {
            ipv4: Some(self.ue(false)),
            ipv6: Some((self.ue_v6(), 64)),
            is_destination,
        }
    }
}

/// A tunnel to one of a few gNBs: every other one is on the link of N3, the others are behind a router.
fn tunnel(number: u8) -> OuterHeaderCreation {
    let gnb = match number % 2 {
        0 => Ipv4Addr::new(10, 201, 0, 20 + number % 6),
        _ => Ipv4Addr::new(10, 0, 3, 20 + number % 6),
    };
    OuterHeaderCreation::gtpu_ipv4(Teid(0x200 + u32::from(number)), gnb)
}

fn pdr(id: u16, precedence: u32, pdi: Pdi, far: u32) -> Pdr {
    Pdr {
        id: PdrId(id),
        precedence: Precedence(precedence),
        outer_header_removal: (pdi.source_interface == SourceInterface::Access).then_some(REMOVAL),
        pdi,
        far: Some(FarId(far)),
        qers: vec![QerId(1)].into(),
        urrs: vec![UrrId(1)].into(),
        rulebases: Default::default(),
    }
}

fn to_core(id: u32) -> Far {
    Far {
        id: FarId(id),
        action: ApplyAction::FORW,
        forwarding: Some(ForwardingParameters::new(DestinationInterface::Core)),
        optional: Default::default(),
        bar: None,
    }
}

fn to_access(id: u32, number: u8) -> Far {
    let mut to = ForwardingParameters::new(DestinationInterface::Access);
    to.outer_header_creation = Some(tunnel(number));
    Far {
        forwarding: Some(to),
        ..to_core(id)
    }
}

fn notify() -> ApplyAction {
    ApplyAction::BUFF.with(ApplyAction::NOCP)
}

/// An uplink and a downlink PDR with what they need; the last are the FARs.
struct Parts {
    up: (Pdr, Wish),
    down: (Pdr, Wish),
    fars: [Far; 2],
}

impl Parts {
    fn new(place: Place) -> Self {
        let mut up = Pdi::new(SourceInterface::Access);
        up.ue_ip = vec![place.ue_ip(false)].into();
        let mut down = Pdi::new(SourceInterface::Core);
        down.ue_ip = vec![place.ue_ip(true)].into();
        let chosen = Wish {
            f_teid: Some(None),
            ..Wish::NONE
        };
        Self {
            up: (pdr(1, 200, up, 1), chosen),
            down: (pdr(2, 200, down, 2), Wish::NONE),
            fars: [to_core(1), to_access(2, place.smf * 4 + place.slot)],
        }
    }

    fn ops(self) -> Vec<Op> {
        let qer = Qer {
            qfi: Qfi::new(9),
            ..Qer::new(QerId(1))
        };
        let [first, second] = self.fars;
        vec![
            Op::CreatePdr(self.up.0, self.up.1),
            Op::CreatePdr(self.down.0, self.down.1),
            Op::CreateFar(first),
            Op::CreateFar(second),
            Op::CreateQer(qer),
            Op::CreateUrr(1),
        ]
    }
}

/// The rules of a new session.
pub fn establishment(place: Place, shape: Shape) -> Vec<Op> {
    let mut parts = Parts::new(place);
    let mut more = Vec::new();
    match shape {
        Shape::Plain | Shape::UnknownNode => {}
        Shape::Idle(reports) => {
            parts.fars[1].action = if reports { notify() } else { ApplyAction::BUFF };
            parts.fars[1].forwarding = None;
            parts.fars[1].bar = Some(BarId(1));
            more.push(Op::CreateBar(bar(1)));
        }
        Shape::Pooled(with_v6) => {
            let wish = Wish {
                ue_v4: true,
                ue_v6: with_v6,
                ..Wish::NONE
            };
            parts.up.0.pdi.ue_ip.clear();
            parts.down.0.pdi.ue_ip.clear();
            parts.up.1 = Wish {
                f_teid: Some(None),
                ..wish
            };
            parts.down.1 = wish;
        }
        Shape::GivenTeid => {
            parts.up.0.pdi.f_teid = Some(own(place.given_teid()));
            parts.up.1 = Wish::NONE;
        }
        Shape::Endpoints => more = endpoints(place, &mut parts),
        Shape::SharedTunnel => {
            parts.up.1.f_teid = Some(Some(7));
            let mut dropped = parts.up.0.clone();
            (dropped.id, dropped.precedence, dropped.far) = (PdrId(3), Precedence(100), Some(FarId(3)));
            dropped.pdi.sdf_filters = [filter(1)].into();
            more.push(Op::CreatePdr(dropped, parts.up.1));
            more.push(Op::CreateFar(Far {
                action: ApplyAction::DROP,
                forwarding: None,
                ..to_core(3)
            }));
        }
        Shape::NoFar => parts.up.0.far = Some(FarId(9)),
        Shape::TwoActions => parts.fars[0].action = ApplyAction::FORW.with(ApplyAction::DROP),
        Shape::TakenAddress => {
            let other = Place {
                slot: (place.slot + 1) % 4,
                ..place
            };
            let ue = other.ue_ip(true);
            parts.down.0.pdi.ue_ip = vec![ue].into();
        }
        Shape::UnknownInstance => more.push(Op::Bad(wire::create_far(&[
            wire::far_id(9),
            wire::apply_action(&[wire::FORW]),
            wire::forwarding(&[
                wire::destination_if(wire::CORE),
                wire::network_instance("nowhere"),
            ]),
        ]))),
        Shape::NoAction => more.push(Op::Bad(wire::create_far(&[wire::far_id(9)]))),
        Shape::Torn => more.push(Op::Bad(vec![0, 1, 0, 50, 1])),
        Shape::Unsupported => more.push(Op::Bad(group(
            165,
            &[ie(170, [0, 1]), ie(171, [1]), ie(172, [0])],
        ))),
    }
    let mut ops = parts.ops();
    ops.extend(more);
    ops
}

/// The tunnel is one endpoint, the UE's address another.
fn endpoints(place: Place, parts: &mut Parts) -> Vec<Op> {
    let tunnel = TrafficEndpoint::new(TrafficEndpointId(1));
    let mut ue = TrafficEndpoint::new(TrafficEndpointId(2));
    ue.ue_ip = vec![place.ue_ip(true)].into();
    (parts.up.0.pdi.endpoint, parts.up.0.pdi.ue_ip) = (Some(tunnel.id), Default::default());
    (parts.down.0.pdi.endpoint, parts.down.0.pdi.ue_ip) = (Some(ue.id), Default::default());
    let wish = std::mem::take(&mut parts.up.1);
    vec![
        Op::CreateEndpoint(tunnel, wish),
        Op::CreateEndpoint(ue, Wish::NONE),
    ]
}

fn bar(id: u8) -> Bar {
    Bar {
        id: BarId(id),
        notification_delay: None,
        suggested_packets: Some(255),
        extended_packets: None,
    }
}

/// The changes of an edit of a session.
pub fn modification(place: Place, session: &Session, edit: Edit) -> Vec<Op> {
    let far = |number: u8| FarId(u32::from(number) % 4 + 1);
    let qer = |number: u8| QerId(u32::from(number) % 3 + 1);
    let pdr = |number: u8| PdrId(u16::from(number) % 5 + 1);
    let urr = |number: u8| u32::from(number) % 3 + 1;
    vec![match edit {
        Edit::Tunnel(id, number) => Op::UpdateFar(tunnel_of(far(id), To::Set(tunnel(number)))),
        Edit::NoTunnel(id) => Op::UpdateFar(tunnel_of(far(id), To::Clear)),
        Edit::Action(id, how) => Op::UpdateFar(FarUpdate {
            action: Some(action(how)),
            ..FarUpdate::new(far(id))
        }),
        Edit::Buffering(id, how) if how % 4 == 3 => Op::UpdateBar(BarUpdate {
            suggested_packets: [To::Clear, To::Set(250)][usize::from(id % 2)],
            ..BarUpdate::new(BarId(id % 2 + 1))
        }),
        Edit::Buffering(id, how) => Op::UpdateFar(FarUpdate {
            bar: [To::Clear, To::Set(BarId(1)), To::Set(BarId(2))][usize::from(how % 4)],
            ..FarUpdate::new(far(id))
        }),
        Edit::Gates(id, closed) => Op::UpdateQer(QerUpdate {
            gates: Some((gate(closed >> 1), gate(closed))),
            ..QerUpdate::new(qer(id))
        }),
        Edit::Qfi(id, qfi) => Op::UpdateQer(QerUpdate {
            qfi: if qfi == 0 {
                To::Clear
            } else {
                To::Set(Qfi::from_low_bits(qfi))
            },
            ..QerUpdate::new(qer(id))
        }),
        Edit::Rate(id, has) => Op::UpdateQer(QerUpdate {
            mbr: if has { To::Set(FAST) } else { To::Clear },
            ..QerUpdate::new(qer(id))
        }),
        Edit::Precedence(id, value) => Op::UpdatePdr(PdrUpdate {
            precedence: Some(Precedence(u32::from(value) * 10 + 1)),
            ..PdrUpdate::new(pdr(id))
        }),
        Edit::Filters(id, number) => Op::UpdatePdr(part(session, pdr(id), number)),
        Edit::Pdi(id, how) => Op::UpdatePdr(whole(place, session, pdr(id), how)),
        Edit::Names(id, bits) => Op::UpdatePdr(PdrUpdate {
            qers: Some((0..3).filter(|bit| bits >> bit & 1 != 0).map(qer).collect()),
            urrs: Some(
                (0..3)
                    .filter(|bit| bits >> (bit + 3) & 1 != 0)
                    .map(|bit| UrrId(urr(bit)))
                    .collect(),
            ),
            ..PdrUpdate::new(pdr(id))
        }),
        Edit::Removal(id, has) => Op::UpdatePdr(PdrUpdate {
            outer_header_removal: if has { To::Set(REMOVAL) } else { To::Clear },
            ..PdrUpdate::new(pdr(id))
        }),
        Edit::CreatePdr(id, how) => created_pdr(place, pdr(id), how),
        Edit::RemovePdr(id) => Op::RemovePdr(pdr(id).0),
        Edit::CreateFar(id, how) => Op::CreateFar(Far {
            action: action(how),
            ..to_access(far(id).0, how)
        }),
        Edit::RemoveFar(id) => Op::RemoveFar(far(id).0),
        Edit::CreateQer(id) => Op::CreateQer(Qer::new(qer(id))),
        Edit::RemoveQer(id) => Op::RemoveQer(qer(id).0),
        Edit::CreateUrr(id) => Op::CreateUrr(urr(id)),
        Edit::RemoveUrr(id) => Op::RemoveUrr(urr(id)),
        Edit::CreateBar(id) => Op::CreateBar(bar(id % 2 + 1)),
        Edit::RemoveBar(id) => Op::RemoveBar(id % 2 + 1),
        Edit::CreateEndpoint(id) => return new_endpoint(place, id % 3 + 1, pdr(id)),
        Edit::RemoveEndpoint(id) => Op::RemoveEndpoint(id % 3 + 1),
        Edit::Query(id) => Op::Query(urr(id)),
        Edit::QueryAll => Op::QueryAll,
        Edit::DropBuffered => Op::DropBuffered,
        Edit::Rename => Op::Rename(place.cp() + if session.cp > 100 { 0 } else { 100 }),
    }]
}

/// A terabit: never reached, and a meter all the same.
const FAST: BitRates = BitRates {
    ul: BitsPerSecond(1_000_000_000_000),
    dl: BitsPerSecond(1_000_000_000_000),
};

fn gate(closed: u8) -> Gate {
    Gate::from_value(closed & 1)
}

fn action(how: u8) -> ApplyAction {
    match how % 8 {
        0..=2 => ApplyAction::FORW,
        3 => ApplyAction::DROP,
        4 => ApplyAction::BUFF,
        5 | 6 => notify(),
        _ => ApplyAction::FORW.with(ApplyAction::BUFF),
    }
}

fn tunnel_of(far: FarId, header: To<OuterHeaderCreation>) -> FarUpdate {
    let forwarding = ForwardingParametersUpdate {
        outer_header_creation: header,
        ..ForwardingParametersUpdate::default()
    };
    FarUpdate {
        action: None,
        forwarding: To::Set(forwarding),
        ..FarUpdate::new(far)
    }
}

/// The source interface that a PDR has.
fn source_of(session: &Session, id: PdrId) -> SourceInterface {
    let known = session.rules.pdr(id).map(|pdr| pdr.pdi.source_interface);
    known.unwrap_or(SourceInterface::Access)
}

fn part(session: &Session, id: PdrId, number: u8) -> PdrUpdate {
    let filters = if number % 8 == 7 {
        Vec::new()
    } else {
        vec![filter(number)]
    };
    PdrUpdate {
        pdi: Some(PdiUpdate {
            source_interface: Some(source_of(session, id)),
            sdf_filters: Some(filters),
            ..PdiUpdate::default()
        }),
        ..PdrUpdate::new(id)
    }
}

/// A PDI with the tunnel of the session, or one of the UE's two addresses.
fn whole(place: Place, session: &Session, id: PdrId, how: u8) -> PdrUpdate {
    let source = source_of(session, id);
    let teid = session.rules.teids().first().copied();
    let ue = UeIpAddress {
        ipv4: Some(place.ue(how & 1 != 0)),
        ipv6: None,
        is_destination: source == SourceInterface::Core,
    };
    let f_teid = teid.filter(|_| source == SourceInterface::Access);
    PdrUpdate {
        pdi: Some(PdiUpdate {
            source_interface: Some(source),
            f_teid: f_teid.map_or(To::Keep, |teid| To::Set(own(teid.0))),
            ue_ip: (f_teid.is_none() || how & 2 != 0).then(|| vec![ue]),
            sdf_filters: (how & 4 != 0).then(|| vec![filter(how)]),
            ..PdiUpdate::default()
        }),
        ..PdrUpdate::new(id)
    }
}

fn created_pdr(place: Place, id: PdrId, how: u8) -> Op {
    let is_up = how & 1 != 0;
    let source = if is_up {
        SourceInterface::Access
    } else {
        SourceInterface::Core
    };
    let mut pdi = Pdi::new(source);
    pdi.ue_ip = vec![place.ue_ip(!is_up)].into();
    pdi.sdf_filters = [filter(how >> 1)].into();
    let wish = Wish {
        f_teid: is_up.then_some((how & 8 != 0).then_some(7)),
        ..Wish::NONE
    };
    let far = if is_up { 1 } else { 2 };
    let created = Pdr {
        qers: Default::default(),
        ..pdr(id.0, 50 + u32::from(how), pdi, far)
    };
    Op::CreatePdr(created, wish)
}

fn new_endpoint(place: Place, id: u8, named_by: PdrId) -> Vec<Op> {
    let endpoint = TrafficEndpoint::new(TrafficEndpointId(id));
    let mut pdi = Pdi::new(SourceInterface::Access);
    pdi.endpoint = Some(endpoint.id);
    let wish = Wish {
        f_teid: Some(None),
        ..Wish::NONE
    };
    let named = pdr(named_by.0, 30 + u32::from(place.slot), pdi, 1);
    vec![
        Op::CreateEndpoint(endpoint, wish),
        Op::CreatePdr(named, Wish::NONE),
    ]
}
