//! Two workers on one thread: which worker owns what, and handing over.

use crate::common;

use std::net::Ipv4Addr;

use flow::{Bucket, OpId, PortId, WorkerId, bucket};
use packet::{DropReason, Teid};
use rules::image::SessionChange;
use rules::model::OuterHeaderCreation;
use rules::network::LocalId;
use rules::prefix::IpPrefix;
use rules::testing::{self, GNB, N3_ADDRESS, UE, UserPacket, pdu_session, tunnelled};
use worker::mem::MemBuf;
use worker::{Command, Event, WorkerSelectionChange, WorkerSelectionKey};

use common::{World, frame};

const TEID: u32 = 0x1001;
const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Two workers of which the second owns everything, and a session there.
fn world() -> World {
    let mut world = World::with(testing::network(), 2, |_| {});
    for bucket in Bucket::all() {
        if bucket.index() % 16 == 0 {
            world.poll();
        }
        let owner = WorkerId(1);
        for control in &mut world.controls {
            let steer = Command::SelectWorker(WorkerSelectionChange::Bucket { bucket, owner });
            control.commands.push(steer).expect("there is room");
        }
    }
    (0..10).for_each(|_| world.poll());
    let rules = pdu_session(TEID, OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB));
    let image = world.image(1, &rules.into(), None).expect("it compiles");
    world
        .apply(1, SessionChange::Install(image))
        .expect("there is room");
    world
}

fn uplink() -> Vec<u8> {
    let user = UserPacket::udp(UE, REMOTE, 1000, 53).bytes();
    frame(0, &tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &user))
}

fn downlink() -> Vec<u8> {
    frame(1, &UserPacket::udp(REMOTE, UE, 53, 1000).bytes())
}

#[test]
fn a_packet_finds_its_owner_wherever_it_lands() {
    let mut world = world();
    for (port, frame) in [(0, uplink()), (1, downlink())] {
        let direct = world.send_frame(1, port, &frame);
        let handed = world.send_frame(0, port, &frame);
        assert_eq!(direct.len(), 1);
        assert_eq!(direct, handed);
    }
    let [first, second] = [world.workers[0].stats(), world.workers[1].stats()];
    assert_eq!((first.handed_over, second.inbox, second.handed_over), (2, 2, 0));
    assert_eq!((first.tx(), second.tx()), (0, 4));
    world.assert_conserved();
}

#[test]
fn a_burst_is_handed_over_in_order() {
    let mut world = world();
    let queue = world.wires.to(WorkerId(0), PortId(1)).clone();
    for number in 0..50_u8 {
        let mut user = UserPacket::udp(REMOTE, UE, 53, 1000);
        user.payload = vec![number; 8];
        queue
            .push(MemBuf::new(&frame(1, &user.bytes())))
            .expect("there is room");
    }
    (0..3).for_each(|_| world.poll());
    let numbers: Vec<u8> = world
        .take()
        .iter()
        .map(|(_, frame)| *frame.last().expect("it has octets"))
        .collect();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
}

#[test]
fn exceptions_come_before_buckets_and_no_packet_is_handed_over_twice() {
    let mut world = world();
    let prefix = IpPrefix::host(UE.into());
    let vrf = flow::VrfId(0);
    let elsewhere = empty_bucket();
    let bucket = Some(elsewhere);
    let owner = WorkerId(0);
    world.tell_all(|| {
        Command::SelectWorker(WorkerSelectionChange::Bucket {
            bucket: elsewhere,
            owner,
        })
    });
    world.tell_all(|| {
        Command::SelectWorker(WorkerSelectionChange::Exception {
            key: WorkerSelectionKey::Tunnel(LocalId(0), Teid(TEID)),
            bucket,
        })
    });
    world.tell_all(|| {
        Command::SelectWorker(WorkerSelectionChange::Exception {
            key: WorkerSelectionKey::Address(vrf, prefix),
            bucket,
        })
    });
    let before = world.drops();
    assert!(world.send_frame(1, 1, &downlink()).is_empty());
    assert_eq!(world.dropped_since(&before), Some(DropReason::UnknownUeAddress));
    assert_eq!(
        (
            world.workers[1].stats().handed_over,
            world.workers[0].stats().handed_over
        ),
        (1, 0)
    );
    world.tell_all(|| {
        Command::SelectWorker(WorkerSelectionChange::Exception {
            key: WorkerSelectionKey::Address(vrf, prefix),
            bucket: None,
        })
    });
    assert_eq!(world.send_frame(1, 1, &downlink()).len(), 1);
    world.assert_conserved();
}

#[test]
fn a_drain_waits_for_the_packets_in_the_inbox_and_for_no_more() {
    let mut world = world();
    let queue = world.wires.to(WorkerId(0), PortId(1)).clone();
    let hand_over = |world: &mut World, bursts: usize| {
        for _ in 0..bursts {
            (0..64).for_each(|_| queue.push(MemBuf::new(&downlink())).expect("there is room"));
            let now = world.now;
            world.workers[0].poll(now);
        }
    };
    hand_over(&mut world, 10);
    let op = OpId(99);
    let drain = Command::Drain { op };
    world.controls[1].commands.push(drain).expect("there is room");
    let mut polls = 0;
    while world.controls[1].events.is_empty() {
        hand_over(&mut world, 4);
        let now = world.now;
        world.workers[1].poll(now);
        polls += 1;
    }
    // 640 packets and the next 256 before the worker saw the command, at 256 a poll; more came behind them.
    assert_eq!(polls, 4);
    let event = world.controls[1].events.pop();
    assert!(
        matches!(
            event,
            Ok(Event::Fenced {
                op: OpId(99),
                outcome: Ok(())
            })
        ),
        "{event:?}"
    );
}

/// A bucket with nothing of the session.
fn empty_bucket() -> Bucket {
    let taken = [bucket::of_teid(TEID), bucket::of_ipv4(UE.octets())];
    Bucket::all().find(|bucket| !taken.contains(bucket)).unwrap()
}

#[test]
fn an_exception_follows_its_bucket_from_worker_to_worker() {
    let mut world = world();
    let (vrf, prefix) = (flow::VrfId(0), IpPrefix::host(UE.into()));
    let elsewhere = empty_bucket();
    let bucket = Some(elsewhere);
    world.tell_all(|| {
        Command::SelectWorker(WorkerSelectionChange::Exception {
            key: WorkerSelectionKey::Address(vrf, prefix),
            bucket,
        })
    });
    for owner in [WorkerId(0), WorkerId(1), WorkerId(0), WorkerId(1)] {
        world.tell_all(|| {
            Command::SelectWorker(WorkerSelectionChange::Bucket {
                bucket: elsewhere,
                owner,
            })
        });
        let before = world.drops();
        let arrived = world.send_frame(0, 1, &downlink()).len();
        // Only the second worker has the session.
        let expected = (owner == WorkerId(0)).then_some(DropReason::UnknownUeAddress);
        assert_eq!(world.dropped_since(&before), expected);
        assert_eq!(arrived, usize::from(expected.is_none()));
    }
    world.assert_conserved();
}

#[test]
fn a_full_inbox_is_counted() {
    let mut world = world();
    let queue = world.wires.to(WorkerId(0), PortId(1)).clone();
    for _ in 0..20 {
        for _ in 0..64 {
            queue.push(MemBuf::new(&downlink())).expect("there is room");
        }
        let now = world.now;
        world.workers[0].poll(now);
    }
    let stats = world.workers[0].stats();
    assert_eq!(
        (stats.handed_over, stats.dropped(DropReason::InboxFull)),
        (1024, 256)
    );
    world.assert_conserved();
}

#[test]
fn a_teid_of_the_sessions_bucket_lands_with_its_ue_address() {
    let want = bucket::of_ipv4(UE.octets());
    let teid = bucket::adjust_teid(0x1234_5678, want);
    assert_eq!(bucket::of_teid(teid), want);
}

#[test]
fn workers_and_their_links_cross_threads() {
    fn crosses<T: Send>() {}
    crosses::<worker::Worker<worker::mem::MemIo>>();
    crosses::<worker::ControlEnd>();
    crosses::<worker::mem::Wires>();
}

#[test]
fn a_fence_says_whether_all_exceptions_before_it_have_found_room() {
    let mut world = World::with(testing::network(), 2, |config| config.max_exceptions = 4);
    let local = LocalId(0);
    let fence = |world: &mut World| match world.ask(0, |op| Command::Fence { op }) {
        Event::Fenced { outcome, .. } => outcome,
        other => panic!("{other:?}"),
    };
    let bucket = Some(empty_bucket());
    let mut reported = 0;
    while fence(&mut world) == Ok(()) {
        reported += 1;
        assert!(reported < 64, "the table is never full");
        let teid = Teid(reported);
        let steer = WorkerSelectionChange::Exception {
            key: WorkerSelectionKey::Tunnel(local, teid),
            bucket,
        };
        world.tell_all(|| Command::SelectWorker(steer));
    }
    assert_eq!(fence(&mut world), Ok(()), "nothing was lost since");
    assert!(world.workers[0].stats().exceptions_lost > 0);
}
