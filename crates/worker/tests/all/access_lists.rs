//! Access lists: what becomes of flows that they deny.

use std::net::Ipv4Addr;
use std::time::Duration;

use flow::PortId;
use packet::DropReason;
use rules::model::{AccessAction, AccessList, AccessRule, SdfFilter};
use rules::network::Network;
use rules::testing::{N3_ADDRESS, UE, UserPacket, tunnelled};
use worker::{AccessCount, WorkerConfig};

use crate::common::World;
use crate::common::one_session::{self, REMOTE, TEID, session_in};

/// A network whose sessions may not send to port 25, and not be sent from port 9.
fn network() -> Network {
    network_with(AccessAction::Permit)
}

/// The same, with this for all else.
fn network_with(otherwise: AccessAction) -> Network {
    let rule = |name: &str, action, port| AccessRule {
        name: name.into(),
        action,
        direction: None,
        filters: vec![SdfFilter {
            flow_description: format!("permit out 17 from any {port} to assigned").parse().ok(),
            ..SdfFilter::default()
        }],
        detection: Default::default(),
    };
    let rules = vec![
        rule("mail", AccessAction::Deny, 25),
        rule("discard", AccessAction::Reject, 9),
    ];
    one_session::network_with(AccessList::new("list", rules, otherwise).expect("few"))
}

fn world(configure: impl Fn(&mut WorkerConfig)) -> World {
    let network = network();
    let rules = session_in(&network);
    let mut world = World::with(network, 1, configure);
    world.install(1, rules);
    world
}

fn uplink(port: u16, to: u16) -> Vec<u8> {
    let user = UserPacket::udp(UE, REMOTE, port, to).bytes();
    tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &user)
}

fn downlink(from: u16) -> Vec<u8> {
    UserPacket::udp(REMOTE, UE, from, 4000).bytes()
}

fn counts(world: &World) -> Vec<AccessCount> {
    world.workers[0].access_counts().to_vec()
}

#[test]
fn a_denied_flow_has_an_entry_that_soon_ages() {
    let mut world = world(|_| ());
    for _ in 0..3 {
        assert_eq!(world.send(0, &uplink(4000, 25)), []);
    }
    let stats = world.workers[0].stats().clone();
    assert_eq!((stats.misses, stats.hits), (1, 2));
    assert_eq!(stats.dropped(DropReason::AccessList), 3);
    let octets = UserPacket::udp(UE, REMOTE, 4000, 25).bytes().len() as u64;
    let mail = AccessCount {
        flows: 1,
        packets: 3,
        octets: 3 * octets,
    };
    assert_eq!(counts(&world)[1], mail);
    // Of all entries some are looked at in a poll.
    for _ in 0..1_500 {
        world.now = world.now + Duration::from_millis(10);
        world.poll();
    }
    assert_eq!(world.workers[0].flows(), 0);
    world.send(0, &uplink(4000, 25));
    assert_eq!(world.workers[0].stats().misses, 2);
    // All else is permitted by the rule behind the others.
    assert_eq!(world.send(0, &uplink(4000, 53)).len(), 1);
    assert_eq!((counts(&world)[1].flows, counts(&world)[3].flows), (2, 1));
    world.assert_conserved();
}

#[test]
fn a_flood_of_denied_flows_has_a_share_of_the_entries() {
    let mut world = world(|config| {
        // An eighth for ten seconds: ten entries a second.
        (config.max_flows_v4, config.max_flows_v6) = (512, 288);
        config.force_five_tuple = true;
    });
    for port in 1..=1_000 {
        world.send(0, &uplink(port, 25));
    }
    let stats = world.workers[0].stats().clone();
    assert_eq!(stats.dropped(DropReason::AccessList), 1_000);
    assert_eq!(stats.installed + stats.denied_without_entry, 1_000);
    assert!(stats.installed <= 20, "{}", stats.installed);
    // Others get theirs.
    let installed = stats.installed;
    for port in 1..=100 {
        world.send(0, &uplink(port, 53));
    }
    assert_eq!(world.workers[0].stats().installed, installed + 100);
    assert_eq!(counts(&world)[1].packets, 1_000);
    world.assert_conserved();
}

#[test]
fn who_is_rejected_gets_an_icmp_error() {
    let mut world = world(|_| ());
    // To the UE in its tunnel, to the host as it came: type 3, code 13.
    let answers = (world.send(0, &uplink(4000, 9)), world.send(1, &downlink(9)));
    let ([(PortId(0), to_ue)], [(PortId(1), to_host)]) = (&answers.0[..], &answers.1[..]) else {
        panic!("{answers:?}")
    };
    let tunnel = 14 + 20 + 8 + 8 + 8;
    assert_eq!(to_ue[tunnel + 20..tunnel + 22], [3, 13]);
    assert_eq!(to_host[14 + 20..14 + 22], [3, 13]);
    assert_eq!(counts(&world)[2].packets, 2);
    assert_eq!(world.workers[0].stats().dropped(DropReason::AccessList), 2);
}

/// An error about a packet with another's address would reach that other.
#[test]
fn who_sends_from_anothers_address_gets_no_error() {
    let network = network_with(AccessAction::Reject);
    let rules = session_in(&network);
    let mut world = World::with(network, 1, |_| ());
    world.install(1, rules);
    let spoofed = UserPacket::udp(Ipv4Addr::new(10, 45, 0, 99), REMOTE, 4000, 53).bytes();
    let packet = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &spoofed);
    assert_eq!(world.send(0, &packet), []);
    assert_eq!(world.workers[0].stats().dropped(DropReason::AccessList), 1);
    world.assert_conserved();
}

/// A list that denies what it does not know leaves the UE the errors about its own packets.
#[test]
fn our_own_messages_pass_lists_that_deny_all_else() {
    let network = network_with(AccessAction::Reject);
    let rules = session_in(&network);
    let mut world = World::with(network, 1, |_| ());
    world.install(1, rules);
    // There is an entry for downlink packets that are denied.
    world.send(1, &downlink(5000));
    for _ in 0..2 {
        let answer = world.send(0, &uplink(4000, 53));
        let [(PortId(0), to_ue)] = &answer[..] else {
            panic!("{answer:?}")
        };
        assert_eq!(to_ue[14 + 44 + 20..14 + 44 + 22], [3, 13]);
    }
    let denied = world.workers[0].stats().dropped(DropReason::AccessList);
    assert_eq!(denied, 3, "none of them is an error of ours");
    world.assert_conserved();
}
