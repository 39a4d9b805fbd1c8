//! Partial mode: what comes to the host with each packet, and what it cannot give.

use flow::contract::{FlowOp, Object, Outcome, Refusal, RouteTarget, Subject};
use flow::{AdjacencyId, Bounds, InstanceId, bucket};
use offload::codec::HostCapabilities;
use offload::exception::{Class, Reason};
use rules::testing::{UE, UserPacket, tunnelled};

use crate::world::*;

fn steering() -> HostCapabilities {
    HostCapabilities::new(true).with_steered()
}

/// Either end has it so.
fn worlds() -> [World; 2] {
    [
        World::partial(steering(), |config| config.is_partial = true),
        World::partial(steering().in_partial_mode(), |_| {}),
    ]
}

#[test]
fn user_packets_come_at_once_with_offsets_hint_class_and_bucket() {
    for mut world in worlds() {
        let downlink = to(CORE, [8, 0], &UserPacket::udp(REMOTE, UE, 53, 1000).bytes());
        let mut urgent = downlink.clone();
        // DSCP 46; the checksum follows.
        (urgent[15], urgent[24], urgent[25]) = (46 << 2, 0, 0);
        let checksum = packet::checksum::of(&urgent[14..34]);
        urgent[24..26].copy_from_slice(&checksum.to_be_bytes());
        world.arrive(&uplink(1000));
        world.arrive_by(CORE, &downlink);
        world.arrive_by(CORE, &urgent);
        world.arrive(&uplink(1000));
        world.step();
        let taken = std::mem::take(&mut world.steered);
        let [first, second, down, high] = &taken[..] else {
            panic!("four packets: {taken:?}");
        };
        assert_eq!((&first.1, &down.1, &high.1), (&uplink(1000), &downlink, &urgent));
        let offsets = |(steered, _): &(offload::exception::Steered, Vec<u8>)| {
            (steered.header.user_packet, steered.header.layer4)
        };
        assert_eq!(offsets(first), (Some(14 + 36), Some(14 + 36 + 20)));
        assert_eq!(offsets(down), (Some(14), Some(34)));
        let of_tunnel = bucket::of_teid(TEID);
        let of_ue = bucket::of_ipv4(UE.octets());
        assert_eq!([first.0.bucket, second.0.bucket], [of_tunnel; 2]);
        assert_eq!([down.0.bucket, high.0.bucket], [of_ue; 2]);
        assert_eq!(first.0.header.hint, second.0.header.hint);
        assert_ne!(first.0.header.hint, down.0.header.hint);
        assert_eq!(
            (down.0.header.class, high.0.header.class),
            (Class::Normal, Class::High)
        );
        assert!(
            taken
                .iter()
                .all(|(steered, _)| steered.header.reason == Reason::NoFlow)
        );
        assert!(world.take_exceptions().is_empty() && world.questions.is_empty() && world.markers.is_empty());
        assert_eq!(world.node.stats().steered, 4);
    }
}

#[test]
fn what_is_no_user_packet_has_no_bucket_and_signals_of_a_tunnel_have_its() {
    for mut world in worlds() {
        let arp = to(
            ACCESS,
            [8, 6],
            &[
                0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 8, 8, 10, 0, 3, 2, 0, 0, 0, 0, 0, 0, 10, 0, 3, 1,
            ],
        );
        world.arrive(&arp);
        let mut end_marker = tunnelled(N3_ADDRESS, TEID, 254, None, &[], &[]);
        end_marker = to(ACCESS, [8, 0], &end_marker);
        world.arrive(&end_marker);
        // A packet in the tunnel that is none.
        let other = to(
            ACCESS,
            [8, 0],
            &tunnelled(N3_ADDRESS, TEID, 255, None, &[], &[1; 24]),
        );
        world.arrive(&other);
        world.step();
        let exceptions = world.take_exceptions();
        let [(header, frame)] = &exceptions[..] else {
            panic!("one: {exceptions:?}");
        };
        assert_eq!(
            (header.class, header.reason, frame),
            (Class::Urgent, Reason::NotUserPacket, &arp)
        );
        let steered = std::mem::take(&mut world.steered);
        assert_eq!(steered.len(), 2);
        for ((steered, frame), expected) in steered.iter().zip([end_marker, other]) {
            assert_eq!((steered.bucket, frame), (bucket::of_teid(TEID), &expected));
            assert_eq!(
                (steered.header.reason, steered.header.user_packet),
                (Reason::OtherHeaders, None)
            );
        }
    }
}

#[test]
fn what_is_for_port_2152_of_another_node_is_a_user_packet() {
    for mut world in worlds() {
        // A UE's own tunnel.
        let inside = UserPacket::udp(REMOTE, UE, 53, 1000).bytes();
        let downlink = to(CORE, [8, 0], &tunnelled(UE, TEID, 255, None, &[], &inside));
        world.arrive_by(CORE, &downlink);
        world.arrive(&uplink(1000));
        world.step();
        let [up, down] = &world.steered[..] else {
            panic!("two: {:?}", world.steered);
        };
        assert_eq!(
            (down.0.header.user_packet, down.0.header.layer4),
            (Some(14), Some(34))
        );
        assert_eq!(down.0.bucket, bucket::of_ipv4(UE.octets()));
        assert_eq!(up.0.header.user_packet, Some(14 + 36), "it is in a tunnel");
    }
}

#[test]
fn fragments_say_that_they_are() {
    for mut world in worlds() {
        let mut packet = UserPacket::udp(REMOTE, UE, 53, 1000).bytes();
        (packet[6], packet[10], packet[11]) = (0x20, 0, 0);
        let checksum = packet::checksum::of(&packet[..20]);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        world.arrive_by(CORE, &to(CORE, [8, 0], &packet));
        world.step();
        let [(steered, _)] = &world.steered[..] else {
            panic!("one: {:?}", world.steered);
        };
        assert_eq!(steered.header.reason, Reason::NeedsReassembly);
        assert_eq!(steered.bucket, bucket::of_ipv4(UE.octets()));
    }
}

#[test]
fn a_host_that_does_not_take_buckets_gets_exceptions() {
    let of_before = [HostCapabilities::new(true), HostCapabilities::default()];
    let mut worlds: Vec<World> = of_before
        .into_iter()
        .map(|host| World::partial(host, |config| config.is_partial = true))
        .collect();
    // In full mode there are none either.
    worlds.push(World::partial(
        HostCapabilities::new(false).with_steered(),
        |_| {},
    ));
    for mut world in worlds {
        world.arrive(&uplink(1000));
        world.step();
        let exceptions = world.take_exceptions();
        assert_eq!((exceptions.len(), exceptions[0].0.reason), (1, Reason::NoFlow));
        assert!(world.steered.is_empty() && world.questions.is_empty());
    }
}

#[test]
fn an_accelerator_that_is_partial_holds_no_session() {
    let mut world = World::partial(steering(), |config| config.is_partial = true);
    let session = Subject::Session(SESSION);
    for object in session_objects(Bounds::NONE) {
        let outcome = world.ask(session, FlowOp::Put(object));
        assert!(
            matches!(outcome, Err(Refusal::Full | Refusal::Unsupported)),
            "{outcome:?}"
        );
    }
    // A host of before says all of the network.
    let target = RouteTarget::Router(InstanceId(2), Some(AdjacencyId(5)));
    for object in [router(Some(ROUTER)), route(target)] {
        assert_eq!(world.ask(Subject::Node, FlowOp::Put(object)), Ok(Outcome::Done));
    }
    let put = FlowOp::Put(Object::Flow(flow(1000)));
    assert!(world.ask(session, put).is_err());
    world.arrive(&uplink(1000));
    world.step();
    assert_eq!(std::mem::take(&mut world.steered).len(), 1);
    // What comes back with a flow goes to the host again.
    world.give_back(1000);
    world.step();
    assert_eq!(world.take_exceptions()[0].0.reason, Reason::NoSession);
    assert!(world.sent().is_empty());
    assert_eq!((world.node.stats().refused, world.node.view().flows), (1, 0));
    // The host sends by itself.
    world.send(CORE, &as_sent(1000));
    world.step();
    assert_eq!(world.sent(), [as_sent(1000)]);
}

#[test]
fn full_mode_is_back_with_a_host_that_wants_it() {
    let mut world = World::partial(steering().in_partial_mode(), |_| {});
    world.arrive(&uplink(1000));
    world.step();
    assert_eq!((world.steered.len(), world.node.is_partial()), (1, true));
    // Another process, that answers nothing and is in full mode.
    world.restart_host();
    world.give_all();
    assert!(!world.node.is_partial());
    let session = Subject::Session(SESSION);
    world.give(session, Object::Flow(flow(1000)));
    world.arrive(&uplink(1000));
    world.step();
    assert_eq!(world.sent(), [as_sent(1000)]);
}
