//! Packets that go round: from UE to UE, and through tunnels that begin and end here.

use crate::common;

use std::net::Ipv4Addr;

use flow::{Bucket, PortId, SessionIndex, WorkerId};
use packet::{DropReason, Teid};
use rules::SessionRules;
use rules::image::{ImmediateActions, SessionChange};
use rules::model::{
    ApplyAction, DestinationInterface, Far, FarId, ForwardingParameters, OptionalActions,
    OuterHeaderCreation, Pdi, SourceInterface, UeIpAddress, Urr, UrrId,
};
use rules::network::{Hairpin, LocalId, Network};
use rules::prefix::IpPrefix;
use rules::testing::{self, GNB, N3_ADDRESS, N6, N9, N9_ADDRESS, UserPacket, tunnelled};
use worker::{Command, Event, WorkerSelectionChange, WorkerSelectionKey};

use common::{World, frame};

const ALICE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 2);
const BOB: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 3);
/// Of the UEs' prefix, and of no session.
const UNASSIGNED: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 4);
const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

pub fn network(hairpin: impl Fn(Vec<IpPrefix>) -> Hairpin) -> Network {
    let mut instances = testing::network().instances().to_vec();
    instances[N6.index()].hairpin = hairpin(vec!["10.45.0.0/16".parse().expect("a prefix")]);
    Network::new(instances).expect("no contradictions")
}

fn tunnel(to: DestinationInterface, teid: u32, peer: Ipv4Addr) -> ForwardingParameters {
    let mut parameters = ForwardingParameters::new(to);
    parameters.outer_header_creation = Some(OuterHeaderCreation::gtpu_ipv4(Teid(teid), peer));
    parameters
}

/// A session with an uplink PDR and a downlink PDR, each with its forwarding, and a URR on both.
fn session(up: (Pdi, ForwardingParameters), down: (Pdi, ForwardingParameters)) -> SessionRules {
    let mut rules = SessionRules::new();
    let mut done = vec![rules.create_urr(Urr::volume(UrrId(1)))];
    for (id, (pdi, forwarding)) in [(1, up), (2, down)] {
        let mut pdr = testing::pdr(id, 255, pdi, id.into());
        pdr.urrs = vec![UrrId(1)].into();
        done.push(rules.create_pdr(pdr));
        done.push(rules.create_far(testing::forward(id.into(), forwarding)));
    }
    done.into_iter()
        .collect::<Result<(), _>>()
        .expect("ids are unique");
    rules
}

fn from_tunnel(source: SourceInterface, teid: u32, local: Ipv4Addr) -> Pdi {
    let mut pdi = Pdi::new(source);
    pdi.f_teid = Some(testing::f_teid(teid));
    if let Some(own) = &mut pdi.f_teid {
        own.ipv4 = Some(local);
    }
    pdi
}

fn for_ue(ue: Ipv4Addr) -> Pdi {
    let mut pdi = Pdi::new(SourceInterface::Core);
    pdi.ue_ip = vec![UeIpAddress {
        ipv4: Some(ue),
        ipv6: None,
        is_destination: true,
    }]
    .into();
    pdi
}

/// A PDU session of this UE on N3, towards a gNB that has this TEID.
pub fn pdu_session(ue: Ipv4Addr, teid: u32, gnb_teid: u32) -> SessionRules {
    let to_n6 = ForwardingParameters::new(DestinationInterface::Core);
    let to_gnb = tunnel(DestinationInterface::Access, gnb_teid, GNB);
    session(
        (from_tunnel(SourceInterface::Access, teid, N3_ADDRESS), to_n6),
        (for_ue(ue), to_gnb),
    )
}

fn from_gnb(teid: u32, from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let user = UserPacket::udp(from, to, 1000, 2000).bytes();
    tunnelled(N3_ADDRESS, teid, 255, Some([0x10, 9]), &[], &user)
}

/// What a session counted, uplink and downlink.
fn counted(world: &mut World, worker: usize, session: u32) -> (u64, u64) {
    let usage = world.query(worker, SessionIndex(session));
    let (_, count) = usage.counters[0];
    (count.ul_packets, count.dl_packets)
}

fn teid_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[46..50].try_into().expect("four octets"))
}

#[test]
fn a_packet_from_ue_to_ue_is_charged_to_both() {
    let mut world = World::with(network(Hairpin::Local), 1, |_| {});
    world.install(1, pdu_session(ALICE, 0x1001, 0xa1));
    world.install(2, pdu_session(BOB, 0x1002, 0xb1));
    let out = world.send(0, &from_gnb(0x1001, ALICE, BOB));
    let [(port, frame)] = &out[..] else {
        panic!("{out:?}")
    };
    assert_eq!((*port, teid_of(frame)), (PortId(0), 0xb1));
    let ttl = frame[14 + 36 + 8];
    assert_eq!(ttl, 62, "a hop to the data network and one from there");
    assert_eq!(counted(&mut world, 0, 1), (1, 0));
    assert_eq!(counted(&mut world, 0, 2), (0, 1));
    let to_world = world.send(0, &from_gnb(0x1001, ALICE, REMOTE));
    assert_eq!((to_world.len(), to_world[0].0), (1, PortId(1)));
    let before = world.drops();
    assert_eq!(world.send(0, &from_gnb(0x1001, ALICE, UNASSIGNED)), []);
    assert_eq!(world.dropped_since(&before), Some(DropReason::UnknownUeAddress));
    assert_eq!(
        counted(&mut world, 0, 1),
        (3, 0),
        "each session is charged for what it did"
    );
    assert_eq!(world.workers[0].stats().recirculated, 2);
    world.assert_conserved();
}

#[test]
fn ues_are_kept_apart_or_left_to_the_router() {
    let mut world = World::with(network(Hairpin::Drop), 1, |_| {});
    world.install(1, pdu_session(ALICE, 0x1001, 0xa1));
    let before = world.drops();
    assert_eq!(world.send(0, &from_gnb(0x1001, ALICE, BOB)), []);
    assert_eq!(world.dropped_since(&before), Some(DropReason::UeToUe));
    assert_eq!(counted(&mut world, 0, 1), (0, 0));
    let mut world = World::with(network(|_| Hairpin::Router), 1, |_| {});
    world.install(1, pdu_session(ALICE, 0x1001, 0xa1));
    let out = world.send(0, &from_gnb(0x1001, ALICE, BOB));
    assert_eq!((out.len(), out[0].0), (1, PortId(1)));
}

#[test]
fn a_packet_from_ue_to_ue_goes_from_owner_to_owner() {
    let mut world = World::with(network(Hairpin::Local), 2, |_| {});
    let steer = |world: &mut World, bucket: Bucket, owner: u16| {
        let owner = WorkerId(owner);
        world.tell_all(|| Command::SelectWorker(WorkerSelectionChange::Bucket { bucket, owner }));
    };
    let buckets: Vec<Bucket> = Bucket::all().take(2).collect();
    steer(&mut world, buckets[0], 0);
    steer(&mut world, buckets[1], 1);
    for (place, (ue, teid)) in [(ALICE, 0x1001), (BOB, 0x1002)].into_iter().enumerate() {
        let bucket = Some(buckets[place]);
        let (vrf, prefix) = (flow::VrfId(0), IpPrefix::host(ue.into()));
        world.tell_all(|| {
            let (local, teid) = (LocalId(0), Teid(teid));
            Command::SelectWorker(WorkerSelectionChange::Exception {
                key: WorkerSelectionKey::Tunnel(local, teid),
                bucket,
            })
        });
        world.tell_all(|| {
            Command::SelectWorker(WorkerSelectionChange::Exception {
                key: WorkerSelectionKey::Address(vrf, prefix),
                bucket,
            })
        });
        let rules = pdu_session(ue, teid, 0xa1 + place as u32);
        let image = world
            .image(1 + place as u32, &rules.into(), None)
            .expect("it compiles");
        world
            .apply(place, SessionChange::Install(image))
            .expect("there is room");
    }
    for worker in [0, 1] {
        let out = world.send_frame(worker, 0, &frame(0, &from_gnb(0x1001, ALICE, BOB)));
        world.poll();
        let late = world.take();
        let out: Vec<_> = out.into_iter().chain(late).collect();
        assert_eq!(out.len(), 1);
        assert_eq!(teid_of(&out[0].1), 0xa2);
    }
    assert_eq!(counted(&mut world, 0, 1), (2, 0));
    assert_eq!(counted(&mut world, 1, 2), (0, 2));
    assert_eq!(world.workers[0].stats().recirculated, 2);
    assert_eq!(world.workers[1].stats().inbox, 2);
    world.assert_conserved();
}

/// An I-UPF's session: between a gNB and a PSA that is this node, too.
fn intermediate() -> SessionRules {
    session(
        (
            from_tunnel(SourceInterface::Access, 0x1001, N3_ADDRESS),
            tunnel(DestinationInterface::Core, 0x9001, N9_ADDRESS),
        ),
        (
            from_tunnel(SourceInterface::Core, 0x9002, N9_ADDRESS),
            tunnel(DestinationInterface::Access, 0xa1, GNB),
        ),
    )
}

/// The PSA's.
fn anchor() -> SessionRules {
    anchor_of(ALICE)
}

fn anchor_of(ue: Ipv4Addr) -> SessionRules {
    session(
        (
            from_tunnel(SourceInterface::Access, 0x9001, N9_ADDRESS),
            ForwardingParameters::new(DestinationInterface::Core),
        ),
        (
            for_ue(ue),
            tunnel(DestinationInterface::Access, 0x9002, N9_ADDRESS),
        ),
    )
}

#[test]
fn an_intermediate_and_an_anchor_user_plane_are_one_node() {
    let mut world = World::new();
    world.install(1, intermediate());
    world.install(2, anchor());
    for _ in 0..2 {
        let out = world.send(0, &from_gnb(0x1001, ALICE, REMOTE));
        let user = UserPacket {
            ttl: 63,
            ..UserPacket::udp(ALICE, REMOTE, 1000, 2000)
        };
        assert_eq!(out.len(), 1);
        assert_eq!((out[0].0, &out[0].1[14..]), (PortId(1), &user.bytes()[..]));
        let down = world.send(1, &UserPacket::udp(REMOTE, ALICE, 2000, 1000).bytes());
        assert_eq!((down.len(), down[0].0, teid_of(&down[0].1)), (1, PortId(0), 0xa1));
    }
    assert_eq!(counted(&mut world, 0, 1), (2, 2));
    assert_eq!(counted(&mut world, 0, 2), (2, 2));
    assert_eq!(world.workers[0].stats().hits, 4, "each leg has its flow");
    world.assert_conserved();
}

#[test]
fn a_long_packet_fits_between_ourselves() {
    let mut world = World::new();
    world.install(1, intermediate());
    world.install(2, anchor());
    let mut user = UserPacket::udp(ALICE, REMOTE, 1000, 2000);
    // 44 octets of headers.
    user.payload = vec![7; 1500 - 44];
    let packet = tunnelled(N3_ADDRESS, 0x1001, 255, Some([0x10, 9]), &[], &user.bytes());
    assert_eq!(world.send(0, &packet).len(), 1);
}

#[test]
fn a_local_f_teid_without_a_session_gets_an_error_indication() {
    let mut world = World::new();
    world.install(1, intermediate());
    let before = world.drops();
    assert_eq!(world.send(0, &from_gnb(0x1001, ALICE, REMOTE)), []);
    assert_eq!(world.dropped_since(&before), Some(DropReason::UnknownTeid));
    let reported = std::iter::from_fn(|| world.controls[0].events.pop().ok());
    let reported: Vec<_> = reported
        .filter(|event| matches!(event, Event::ErrorIndication { .. }))
        .collect();
    let [Event::ErrorIndication { peer, teid }] = reported[..] else {
        panic!("{reported:?}")
    };
    assert_eq!((peer, teid), (N9_ADDRESS.into(), Teid(0x9001)));
    assert_eq!(world.workers[0].stats().originated, 0);
    world.assert_conserved();
}

#[test]
fn a_packet_goes_round_so_often_and_no_more() {
    let mut world = World::new();
    // Into itself.
    world.install(
        1,
        session(
            (
                from_tunnel(SourceInterface::Access, 0x1001, N3_ADDRESS),
                tunnel(DestinationInterface::Core, 0x9001, N9_ADDRESS),
            ),
            (
                from_tunnel(SourceInterface::Core, 0x9001, N9_ADDRESS),
                tunnel(DestinationInterface::Core, 0x9001, N9_ADDRESS),
            ),
        ),
    );
    let before = world.drops();
    assert_eq!(world.send(0, &from_gnb(0x1001, ALICE, REMOTE)), []);
    assert_eq!(world.dropped_since(&before), Some(DropReason::RecirculationLimit));
    assert_eq!(world.workers[0].stats().recirculated, 7);
    // That of the last recirculation is taken back.
    assert_eq!(counted(&mut world, 0, 1), (1, 6));
    world.assert_conserved();
}

#[test]
fn duplicates_go_round_so_often_and_no_more() {
    let mut world = World::new();
    let into = || tunnel(DestinationInterface::Core, 0x9001, N9_ADDRESS);
    let mut rules = session(
        (from_tunnel(SourceInterface::Access, 0x1001, N3_ADDRESS), into()),
        (from_tunnel(SourceInterface::Core, 0x9001, N9_ADDRESS), into()),
    );
    // In the tunnel to itself a packet is thrown away, and a duplicate sent by the same way.
    rules.remove_far(FarId(2)).expect("it is there");
    let far = Far {
        action: ApplyAction::DROP.with(ApplyAction::DUPL),
        optional: OptionalActions {
            duplicating: Some(into()),
            ..OptionalActions::default()
        }
        .into(),
        ..testing::forward(2, into())
    };
    rules.create_far(far).expect("it is free");
    world.install(1, rules);
    assert_eq!(world.send(0, &from_gnb(0x1001, ALICE, REMOTE)), []);
    assert_eq!(world.workers[0].stats().recirculated, 7);
    assert_eq!(world.workers[0].stats().duplicated, 7);
    world.assert_conserved();
}

#[test]
fn an_end_marker_of_ours_goes_round() {
    let mut world = World::new();
    world.install(1, intermediate());
    let old = world.install(2, anchor());
    let mut rules = SessionRules::clone(&old.rules);
    let elsewhere = OuterHeaderCreation::gtpu_ipv4(Teid(0x9003), Ipv4Addr::new(10, 209, 1, 1));
    let mut update = rules::model::FarUpdate::new(FarId(2));
    let forwarding = rules::model::ForwardingParametersUpdate {
        outer_header_creation: rules::model::Edit::Set(elsewhere),
        ..Default::default()
    };
    update.forwarding = rules::model::Edit::Set(forwarding);
    rules.update_far(update).expect("it is there");
    let image = world.image(2, &rules.into(), Some(&old)).expect("it compiles");
    let immediate = ImmediateActions {
        end_markers: vec![FarId(2)],
        ..ImmediateActions::default()
    };
    world
        .apply(0, SessionChange::Replace(image, immediate))
        .expect("there is room");
    let out = world.take();
    let [(port, frame)] = &out[..] else {
        panic!("{out:?}")
    };
    assert_eq!((*port, teid_of(frame), frame[43]), (PortId(0), 0xa1, 254));
    world.assert_conserved();
}

#[test]
fn a_ue_does_not_get_into_tunnels_by_our_address() {
    // Tunnels and data network on one instance, and a way to ourselves on it: there is none.
    let mut instances = testing::network().instances().to_vec();
    let hairpin = Hairpin::Local(vec!["10.45.0.0/16".parse().expect("a prefix")]);
    let n9 = &mut instances[N9.index()];
    (n9.roles, n9.hairpin) = (n9.roles.with(rules::network::Roles::N6), hairpin.clone());
    assert!(
        Network::new(instances).is_err(),
        "a UE could reach the other ends of tunnels"
    );
    // And on two of one VRF.
    let mut instances = testing::network().instances().to_vec();
    instances[N6.index()].hairpin = hairpin;
    let mut world = World::with(Network::new(instances).expect("no contradictions"), 1, |_| {});
    world.install(1, pdu_session(ALICE, 0x1001, 0xa1));
    world.install(2, anchor_of(BOB));
    let inner = UserPacket::udp(BOB, REMOTE, 1000, 2000).bytes();
    let mut forged = UserPacket::udp(ALICE, N9_ADDRESS, 2152, 2152);
    forged.payload = [&[0x30, 255, 0, inner.len() as u8, 0, 0, 0x90, 1][..], &inner].concat();
    let before = world.drops();
    let packet = tunnelled(N3_ADDRESS, 0x1001, 255, Some([0x10, 9]), &[], &forged.bytes());
    assert_eq!(world.send(0, &packet), []);
    assert_eq!(world.dropped_since(&before), Some(DropReason::NoRoute));
    assert_eq!(counted(&mut world, 0, 2), (0, 0));
}
