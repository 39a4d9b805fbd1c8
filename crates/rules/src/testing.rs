//! A small world for tests: a network, sessions as real SMFs set them up, and generators of rules and packets that
//! meet often enough to be worth comparing. Behind the feature `testing`.
//!
//! [`long_lists`] and [`rte_acl`] are for lists of very many rules, and what DPDK makes of them.
//!
//! Everything else is drawn from small pools, so that two random packets often share a tunnel, an address or a port,
//! and random rules often match random packets.

mod access_lists;
mod detections;
mod filters;
pub mod long_lists;
mod networks;
mod packets;
mod predefined;
mod public_pools;
pub mod rte_acl;
mod rules;
mod urrs;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow::AdjacencyId;
use packet::{Qfi, Teid};

pub use self::detections::{OwnedDetection, any_detection};
pub use self::networks::{MIRROR, any_network, policies};
pub use self::packets::{Sent, UserPacket, any_sent, any_user_packet, tunnelled};
pub use self::predefined::{Activation, any_activation, any_predefined, runnable_rules_with};
pub use self::public_pools::public_pool;
pub use self::rules::{Edited, any_edit, any_rules, runnable_rules};
pub use self::urrs::any_urr;
use crate::Adjacencies;
use crate::boxed_option::BoxedOption;
use crate::model::{
    ApplyAction, DestinationInterface, FTeid, Far, FarId, ForwardingParameters, OuterHeader,
    OuterHeaderCreation, OuterHeaderRemoval, Pdi, Pdr, PdrId, Precedence, Qer, QerId, RuleIds, SessionRules,
    SourceInterface, UeIpAddress, Urr, UrrId,
};
use crate::network::multipath::{GroupId, PATHS};
use crate::network::{
    EventLogic, Fragmentation, Hairpin, Instance, InstanceId, Network, PortId, Roles, Route, VrfId,
};

/// The access side: 10.0.3.1/24, 2001:db8:3::1/64, and routers to all gNBs.
pub const N3: InstanceId = InstanceId(0);
/// The data network: 10.0.6.1/24, 2001:db8:6::1/64, with default routes.
pub const N6: InstanceId = InstanceId(1);
/// Other user planes: 10.0.9.1/24.
pub const N9: InstanceId = InstanceId(2);
/// A second data network, in an address space of its own: 10.1.6.1/24, with a default route.
pub const OTHER_N6: InstanceId = InstanceId(3);

/// This node's address on N3.
pub const N3_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
/// This node's address on N9.
pub const N9_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 9, 1);
/// A gNB, on the link of N3.
pub const GNB: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 7);
/// The identifier of an application with events: connections of TCP, and requests of DNS.
pub const EVENTFUL: [u8; 3] = *b"app";

/// An application of which every packet is an event.
pub const ALL_EVENTS: [u8; 3] = *b"all";
/// A UE.
pub const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 2);
/// The same UE's IPv6 prefix, a /64.
pub const UE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x45, 2, 0, 0, 0, 0);

/// A network with N3, N6, N9 and a second N6; see the constants.
pub fn network() -> Network {
    network_with(|_| {})
}

/// The same, with something else about its instances.
pub fn network_with(edit: impl Fn(&mut Instance)) -> Network {
    let n3 = instance(
        N3,
        "access",
        Roles::N3,
        "10.0.3.1",
        Some("2001:db8:3::1"),
        &[
            ("10.200.0.0/16", "10.0.3.254"),
            ("2001:db8:200::/48", "2001:db8:3::fe"),
        ],
    );
    let n6 = instance(
        N6,
        "internet",
        Roles::N6,
        "10.0.6.1",
        Some("2001:db8:6::1"),
        &[("0.0.0.0/0", "10.0.6.254"), ("::/0", "2001:db8:6::fe")],
    );
    let n9 = instance(
        N9,
        "n9",
        Roles::N9,
        "10.0.9.1",
        None,
        &[("10.209.0.0/16", "10.0.9.254")],
    );
    let mut other = instance(
        OTHER_N6,
        "ims",
        Roles::N6,
        "10.1.6.1",
        None,
        &[("0.0.0.0/0", "10.1.6.254")],
    );
    other.vrf = VrfId(1);
    let mut instances = vec![n3, n6, n9, other];
    instances.iter_mut().for_each(edit);
    let network = Network::new(instances);
    let network = network.and_then(|network| network.with_events(events()));
    network.expect("a network without contradictions")
}

/// The events of [`EVENTFUL`] and [`ALL_EVENTS`].
fn events() -> Vec<(Box<[u8]>, EventLogic)> {
    let logic = EventLogic::TCP_CONNECTION.with(EventLogic::DNS_REQUEST);
    vec![(EVENTFUL.into(), logic), (ALL_EVENTS.into(), EventLogic::PACKET)]
}

fn instance(
    id: InstanceId,
    name: &str,
    roles: Roles,
    ipv4: &str,
    ipv6: Option<&str>,
    routes: &[(&str, &str)],
) -> Instance {
    let route = |&(prefix, next_hop): &(&str, &str)| Route {
        prefix: prefix.parse().expect("a prefix"),
        next_hop: next_hop.parse().expect("an address"),
    };
    Instance {
        id,
        name: name.into(),
        roles,
        vrf: VrfId(0),
        port: PortId(id.0),
        vlan: None,
        mtu: 1500,
        ipv4: Some((ipv4.parse().expect("an address"), 24)),
        ipv6: ipv6.map(|address| (address.parse().expect("an address"), 64)),
        routes: routes.iter().map(route).collect(),
        dscp: None,
        mirror: None,
        hairpin: Hairpin::Router,
        fragmentation: Fragmentation::Inner,
        mss: crate::network::Mss::Off,
        egress: None,
    }
}

/// Next hops numbered by instance and the last octet of their address, so that a test can see which one was meant; the
/// paths of groups behind them, as where there is room for 1,024 neighbours.
#[derive(Clone, Copy, Debug)]
pub struct NumberedHops;

impl Adjacencies for NumberedHops {
    fn resolve(&self, instance: InstanceId, next_hop: IpAddr) -> Option<AdjacencyId> {
        let last = match next_hop {
            IpAddr::V4(v4) => v4.octets()[3],
            IpAddr::V6(v6) => v6.octets()[15],
        };
        Some(AdjacencyId(u32::from(instance.0) << 8 | u32::from(last)))
    }

    fn path(&self, group: GroupId, path: u8) -> Option<AdjacencyId> {
        Some(AdjacencyId(
            1024 + u32::from(group.0) * u32::from(PATHS) + u32::from(path),
        ))
    }
}

/// An F-TEID on N3, IPv4 only.
pub const fn f_teid(teid: u32) -> FTeid {
    FTeid {
        teid: Teid(teid),
        ipv4: Some(N3_ADDRESS),
        ipv6: None,
    }
}

/// The UE's addresses, IPv4 and IPv6.
pub const fn ue_ip() -> UeIpAddress {
    UeIpAddress {
        ipv4: Some(UE),
        ipv6: Some((UE_V6, 64)),
        is_destination: true,
    }
}

/// A PDR with nothing but its ids.
pub fn pdr(id: u16, precedence: u32, pdi: Pdi, far: u32) -> Pdr {
    Pdr {
        id: PdrId(id),
        precedence: Precedence(precedence),
        pdi,
        outer_header_removal: None,
        far: Some(FarId(far)),
        qers: RuleIds::new(),
        urrs: RuleIds::new(),
        rulebases: Default::default(),
    }
}

/// A FAR that forwards.
pub const fn forward(id: u32, parameters: ForwardingParameters) -> Far {
    Far {
        id: FarId(id),
        action: ApplyAction::FORW,
        forwarding: Some(parameters),
        optional: BoxedOption::NONE,
        bar: None,
    }
}

/// A PDU session as SMFs set it up: an uplink PDR on TEID `teid` towards Core, a downlink PDR for the UE's addresses
/// towards `gnb`, one QER with QFI 9 and one URR on both.
pub fn pdu_session(teid: u32, gnb: OuterHeaderCreation) -> SessionRules {
    let mut uplink = Pdi::new(SourceInterface::Access);
    uplink.f_teid = Some(f_teid(teid));
    let mut downlink = Pdi::new(SourceInterface::Core);
    downlink.ue_ip = vec![ue_ip()].into();
    let mut to_gnb = ForwardingParameters::new(DestinationInterface::Access);
    to_gnb.outer_header_creation = Some(gnb);
    let removal = OuterHeaderRemoval {
        header: OuterHeader::GtpuUdpIpv4,
        deletes_psc: false,
    };
    let mut rules = SessionRules::new();
    let mut made = Vec::new();
    for (id, pdi, removal) in [(1, uplink, Some(removal)), (2, downlink, None)] {
        let mut pdr = pdr(id, 255, pdi, id.into());
        pdr.outer_header_removal = removal;
        pdr.qers.push(QerId(1));
        pdr.urrs.push(UrrId(1));
        made.push(rules.create_pdr(pdr));
    }
    made.push(rules.create_far(forward(1, ForwardingParameters::new(DestinationInterface::Core))));
    made.push(rules.create_far(forward(2, to_gnb)));
    made.push(rules.create_qer(Qer {
        qfi: Qfi::new(9),
        ..Qer::new(QerId(1))
    }));
    made.push(rules.create_urr(Urr::volume(UrrId(1))));
    made.into_iter()
        .collect::<Result<(), _>>()
        .expect("ids are unique");
    rules
}
