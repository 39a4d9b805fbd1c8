//! One PDU session in one worker, its packets, and what becomes of them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use packet::{DropReason, Teid, checksum};
use rules::model::{
    AccessList, Edit, FarId, FarUpdate, ForwardingParametersUpdate, LocalPolicy, OuterHeaderCreation,
    PdiUpdate, PdrId, PdrUpdate, UeIpAddress,
};
use rules::network::{BoundAccessList, Network, SessionScope};
use rules::testing::{self, GNB, N3_ADDRESS, UE, UserPacket, pdu_session, tunnelled};
use rules::{Predefined, SessionRules};
use worker::Event;

use super::{World, frame};

/// A host of the data network.
pub const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The tunnel that ends here.
pub const TEID: u32 = 0x1001;
/// The gNB's.
pub const GNB_TEID: u32 = 77;

/// The session.
pub fn session() -> SessionRules {
    pdu_session(TEID, OuterHeaderCreation::gtpu_ipv4(Teid(GNB_TEID), GNB))
}

/// The downlink into another tunnel, as at a handover.
pub fn hand_over(rules: &mut SessionRules, tunnel: OuterHeaderCreation) {
    let forwarding = ForwardingParametersUpdate {
        outer_header_creation: Edit::Set(tunnel),
        ..ForwardingParametersUpdate::default()
    };
    let update = FarUpdate {
        forwarding: Edit::Set(forwarding),
        ..FarUpdate::new(FarId(2))
    };
    rules.update_far(update).expect("it is there");
}

/// Gives these rules, those of [`session`] or like them, another tunnel and another UE.
pub fn of_ue(rules: &mut SessionRules, teid: u32, ue: Ipv4Addr) {
    let ue_ip = UeIpAddress {
        ipv4: Some(ue),
        ipv6: None,
        is_destination: true,
    };
    let mut uplink = PdrUpdate::new(PdrId(1));
    uplink.pdi = Some(PdiUpdate {
        f_teid: Edit::Set(testing::f_teid(teid)),
        ..PdiUpdate::default()
    });
    let mut downlink = PdrUpdate::new(PdrId(2));
    downlink.pdi = Some(PdiUpdate {
        ue_ip: Some(vec![ue_ip]),
        ..PdiUpdate::default()
    });
    for change in [uplink, downlink] {
        rules.update_pdr(change).expect("it is there");
    }
}

/// The rules of [`session`] whose PDRs both activate this rulebase.
pub fn with_rulebase(predefined: &Predefined, name: &[u8]) -> SessionRules {
    let mut rules = session();
    for pdr in [PdrId(1), PdrId(2)] {
        let update = PdrUpdate {
            activate: predefined.rulebase(name).cloned().into_iter().collect(),
            ..PdrUpdate::new(pdr)
        };
        rules.update_pdr(update).expect("it is there");
    }
    rules.instantiate(predefined);
    rules
}

/// A network in which this is the list of all sessions.
pub fn network_with(list: AccessList) -> Network {
    let bound = BoundAccessList {
        list: Arc::new(list),
        scope: SessionScope::default(),
    };
    testing::network()
        .with_access_lists(vec![bound])
        .expect("one list")
}

/// The session, with the access list that this network has for it.
pub fn session_in(network: &Network) -> SessionRules {
    let mut rules = session();
    rules.set_local_policy(LocalPolicy {
        access_list: network.access_lists().of(None, None).cloned(),
        ..LocalPolicy::default()
    });
    rules
}

/// One worker that has it.
pub fn world() -> World {
    let mut world = World::new();
    world.install(1, session());
    world
}

/// A packet of the UE.
pub fn from_ue() -> Vec<u8> {
    UserPacket::udp(UE, REMOTE, 1000, 53).bytes()
}

/// One to it.
pub fn to_ue() -> Vec<u8> {
    UserPacket::udp(REMOTE, UE, 53, 1000).bytes()
}

/// The packet of the UE as the gNB sends it.
pub fn uplink() -> Vec<u8> {
    tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &from_ue())
}

/// An address.
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The reason why a packet is dropped that comes in alone.
pub fn reason(world: &mut World, port: u16, packet: &[u8]) -> Option<DropReason> {
    reason_of_frame(world, port, &frame(port, packet))
}

/// The same of a frame.
pub fn reason_of_frame(world: &mut World, port: u16, frame: &[u8]) -> Option<DropReason> {
    let before = world.drops();
    world.send_frame(0, port, frame);
    world.dropped_since(&before)
}

/// What the worker has reported since.
pub fn events(world: &mut World) -> Vec<Event> {
    std::iter::from_fn(|| world.controls[0].events.pop().ok()).collect()
}

/// What the gNB says when it does not know the tunnel that the downlink goes to.
pub fn error_indication() -> Vec<u8> {
    let mut packet = tunnelled(N3_ADDRESS, 0, 26, None, &[], &[]);
    let message = [
        0x32, 26, 0, 16, 0, 0, 0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 77, 133, 0, 4, 10, 0, 3, 7,
    ];
    packet.splice(28.., message);
    fix_lengths(&mut packet);
    packet
}

/// Makes IP, UDP and their checksums right for the octets behind them.
pub fn fix_lengths(packet: &mut [u8]) {
    let total = packet.len() as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[10..12].fill(0);
    packet[24..26].copy_from_slice(&(total - 20).to_be_bytes());
    let sum = checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}
