//! Packets whose sessions are still restored after a restart: what is reported of them, how they wait, what is sent.

use crate::common;

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use flow::{Bucket, PortId, WorkerId};
use packet::{DropReason, Teid};
use rules::image::SessionChange;
use rules::network::LocalId;
use rules::testing::{self, N3_ADDRESS, UE, UE_V6, UserPacket, tunnelled};
use worker::{AbsentKey, Command, Event, WorkerSelectionChange, WorkerSelectionKey};

use common::one_session::{TEID, events, reason, session, to_ue, uplink};
use common::{World, frame};

/// A worker without sessions, while they are restored.
fn world() -> World {
    let mut world = World::new();
    restoring(&mut world, true);
    world
}

fn restoring(world: &mut World, is_restoring: bool) {
    world.tell_all(|| Command::Restoring { is_restoring });
}

/// The absent sessions that were reported since.
fn absent(world: &mut World) -> Vec<AbsentKey> {
    let key = |event| match event {
        Event::AbsentSession { key } => Some(key),
        _ => None,
    };
    events(world).into_iter().filter_map(key).collect()
}

fn tunnel() -> AbsentKey {
    AbsentKey::Tunnel(LocalId(0), Teid(TEID))
}

#[test]
fn packets_wait_for_their_session_and_leave_in_order() {
    let mut world = world();
    assert!(world.send(0, &uplink()).is_empty());
    let numbered = |number: u8| {
        let mut user = UserPacket::udp(UE, common::one_session::REMOTE, 1000, 53);
        user.payload = vec![number; 8];
        tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &user.bytes())
    };
    for number in 0..5 {
        assert!(world.send(0, &numbered(number)).is_empty());
    }
    assert_eq!(absent(&mut world), [tunnel()]);
    assert_eq!(world.workers[0].holdings().waiting, 6);
    world.assert_conserved();
    world.install(1, session());
    let out = world.take();
    let last: Vec<u8> = out
        .iter()
        .map(|(_, frame)| *frame.last().expect("octets"))
        .collect();
    assert_eq!(last[1..], [0, 1, 2, 3, 4]);
    assert!(out.iter().all(|(port, _)| *port == PortId(1)));
    let counted = world.query(0, flow::SessionIndex(1)).counters[0].1;
    assert_eq!(counted.ul_packets, 6);
    assert_eq!(world.drops().iter().sum::<u64>(), 0);
    world.assert_conserved();
}

#[test]
fn a_worker_that_has_had_no_command_yet_answers_no_packet_of_a_session_that_may_come() {
    let mut world = World::with(testing::network(), 1, |config| config.begins_restoring = true);
    assert!(world.send(0, &uplink()).is_empty());
    assert_eq!(absent(&mut world), [tunnel()]);
    world.install(1, session());
    assert_eq!(world.take().len(), 1);
    restoring(&mut world, false);
    world.assert_conserved();
}

#[test]
fn plain_packets_wait_for_the_session_of_their_address_or_prefix() {
    let mut world = world();
    let remote: Ipv6Addr = "2001:db8:ffff::1".parse().expect("an address");
    let inside = Ipv6Addr::from_bits(UE_V6.to_bits() | 5);
    let to_prefix = UserPacket::udp(remote, inside, 1, 2).bytes();
    assert!(world.send(1, &to_ue()).is_empty() && world.send(1, &to_prefix).is_empty());
    let reported = absent(&mut world);
    let addresses: Vec<_> = reported
        .iter()
        .map(|key| match key {
            AbsentKey::Address(_, address) => *address,
            AbsentKey::Tunnel(..) => panic!("{key:?}"),
        })
        .collect();
    assert_eq!(addresses, [IpAddr::from(UE), inside.into()]);
    world.install(1, session());
    let out = world.take();
    assert_eq!(out.len(), 2);
    assert!(out.iter().all(|(port, _)| *port == PortId(0)));
    world.assert_conserved();
}

#[test]
fn a_key_is_reported_once_in_100_ms_and_keeps_eight_packets() {
    let mut world = world();
    let before = world.drops();
    for _ in 0..20 {
        world.send(0, &uplink());
    }
    assert_eq!(absent(&mut world), [tunnel()]);
    assert_eq!(world.workers[0].holdings().waiting, 8);
    assert_eq!(world.dropped_since(&before), Some(DropReason::AbsentSession));
    world.now = world.now + Duration::from_millis(100);
    world.send(0, &uplink());
    assert_eq!(absent(&mut world), [tunnel()]);
    world.assert_conserved();
}

#[test]
fn packets_whose_session_does_not_come_are_dropped_and_counted() {
    let mut world = world();
    assert!(world.send(0, &uplink()).is_empty());
    world.now = world.now + Duration::from_millis(499);
    (0..64).for_each(|_| world.poll());
    assert_eq!(world.workers[0].holdings().waiting, 1);
    world.now = world.now + Duration::from_millis(1);
    (0..64).for_each(|_| world.poll());
    assert_eq!(world.workers[0].holdings().waiting, 0);
    let drops = world.workers[0].stats().dropped(DropReason::AbsentSession);
    assert_eq!((drops, world.workers[0].stats().originated), (1, 0));
    world.assert_conserved();
}

#[test]
fn senders_are_answered_again_when_nothing_is_restored_any_more() {
    let mut world = world();
    assert!(world.send(0, &uplink()).is_empty());
    assert_eq!(world.workers[0].stats().originated, 0);
    let before = world.drops();
    restoring(&mut world, false);
    assert_eq!(world.dropped_since(&before), Some(DropReason::UnknownTeid));
    let out = world.take();
    assert_eq!((out.len(), out[0].1[43]), (1, 26), "an Error Indication");
    assert_eq!(
        reason(&mut world, 1, &to_ue()),
        Some(DropReason::UnknownUeAddress)
    );
    assert_eq!(absent(&mut world).len(), 1, "only the one of before");
    world.assert_conserved();
}

#[test]
fn packets_of_sessions_that_are_here_take_no_notice() {
    let mut world = world();
    world.install(1, session());
    assert_eq!(world.send(0, &uplink()).len(), 1);
    assert_eq!(world.send(1, &to_ue()).len(), 1);
    let no_tunnel = tunnelled(N3_ADDRESS, 0, 255, None, &[], &common::one_session::from_ue());
    assert_eq!(
        reason(&mut world, 0, &no_tunnel),
        Some(DropReason::UnknownTeid),
        "no session has TEID 0"
    );
    assert!(absent(&mut world).is_empty());
    world.assert_conserved();
}

/// A session whose TEID is not of its bucket comes with an exception, by which its packets reach another worker.
#[test]
fn packets_that_wait_follow_worker_selection() {
    let mut world = World::with(testing::network(), 2, |_| {});
    restoring(&mut world, true);
    let steer = |world: &mut World, bucket, owner| {
        world.tell_all(|| Command::SelectWorker(WorkerSelectionChange::Bucket { bucket, owner }));
    };
    let (here, there) = (WorkerId(0), WorkerId(1));
    let key = WorkerSelectionKey::Tunnel(LocalId(0), Teid(TEID));
    for bucket in Bucket::all() {
        steer(&mut world, bucket, here);
        world
            .controls
            .iter_mut()
            .for_each(|control| while control.events.pop().is_ok() {});
    }
    assert!(world.send_frame(0, 0, &frame(0, &uplink())).is_empty());
    let elsewhere = Bucket::all().find(|bucket| *bucket != key.bucket());
    let elsewhere = elsewhere.expect("there are others");
    steer(&mut world, elsewhere, there);
    assert_eq!(world.workers[0].holdings().waiting, 1, "it waits again");
    let image = world.image(1, &session().into(), None).expect("it compiles");
    world
        .apply(1, SessionChange::Install(image))
        .expect("there is room");
    world.tell_all(|| {
        Command::SelectWorker(WorkerSelectionChange::Exception {
            key,
            bucket: Some(elsewhere),
        })
    });
    world.poll();
    assert_eq!(world.take().len(), 1);
    let stats = [world.workers[0].stats(), world.workers[1].stats()];
    assert_eq!((stats[0].handed_over, stats[1].inbox), (1, 1));
    world.assert_conserved();
}
