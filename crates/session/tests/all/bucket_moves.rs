//! Buckets that move: nothing is lost, changed or left behind, whatever comes between.

use crate::support;

use std::time::Duration;

use flow::meter::{PacketRate, PacketState, PacketsPer, TimeUnit, Window};
use flow::{Bucket, Nanos, OpId, SessionIndex, WorkerId};
use packet::Qfi;
use rules::image::{
    CongestionReport, DroppedCount, MeterShare, PacketsLeft, ReportedCongestion, SessionImage,
};
use rules::model::{
    BitRates, BitsPerSecond, DroppedDlThreshold, FarUpdate, MeasurementInformation, PacketRates, QerId,
    ReportingTriggers, UrrId, UrrTerms, UrrUpdate,
};
use session::*;

use support::fleet::Packets;
use support::*;

const OLD: WorkerId = WorkerId(0);
const NEW: WorkerId = WorkerId(1);
const OTHER: WorkerId = WorkerId(2);

/// A bucket of the first worker.
fn bucket() -> Bucket {
    Bucket::all()
        .find(|bucket| bucket.index() % 3 == 0 && *bucket != home(UE))
        .unwrap()
}

/// Three workers, and this number of sessions in [`bucket`].
fn world(sessions: u32) -> (World, Vec<Seid>) {
    let mut world = World::new(3);
    let establish = |number: u32| {
        let changes = chosen_session(ue_in(bucket(), number));
        world.establish(u64::from(number) + 1, changes).unwrap().seid
    };
    let seids = (0..sessions).map(establish).collect();
    (world, seids)
}

fn begin(world: &mut World, to: WorkerId) {
    world.sessions.move_bucket(world.now, bucket(), to).unwrap();
}

/// Lets all workers finish, and the one move's end.
fn finish(world: &mut World) -> Result<usize, MoveFault> {
    world.run();
    let moved = world.sessions.poll_moved().expect("the move has an end");
    assert_eq!(
        (moved.bucket, moved.from, moved.to, world.sessions.poll_moved()),
        (bucket(), OLD, NEW, None)
    );
    moved.result
}

/// A packet of the session comes in at the worker `via`.
fn receive(world: &mut World, via: WorkerId, seid: Seid) {
    let session = world.sessions.session(seid).unwrap().index();
    let count = uplink_count(1);
    let packets = Packets { session, seid, count };
    world.fleet.receive(via, bucket(), packets);
}

/// One worker does all that it has to do.
fn step(world: &mut World, worker: WorkerId) {
    world.hand_over();
    while let Some(answer) = world.fleet.worker(worker).step() {
        if let Some((op, result)) = answer {
            let _: OpId = op;
            world.sessions.applied(world.now, op, result);
        }
    }
    world.hand_over();
}

fn sessions_at(world: &World, worker: WorkerId) -> usize {
    world.fleet.workers[worker.index()].sessions.len()
}

/// Three workers, and a session with a maximum bit rate in [`bucket`].
fn metered_world() -> (World, Seid) {
    let (mut world, _) = world(0);
    let mut changes = chosen_session(ue_in(bucket(), 0));
    changes.create_qers[0].mbr = Some(BitRates {
        ul: BitsPerSecond(1_000_000),
        dl: BitsPerSecond(1_000_000),
    });
    let seid = world.establish(1, changes).unwrap().seid;
    (world, seid)
}

/// Which part of its meters the only session has at the old owner and at the new one.
fn shares(world: &World) -> [Option<MeterShare>; 2] {
    [OLD, NEW].map(|worker| {
        let sessions = world.fleet.workers[worker.index()].sessions.values();
        sessions.map(|image| image.meter_share).next()
    })
}

/// The same with a packet rate, of which the worker says that so much is left.
fn rated_world(left: &PacketsLeft) -> World {
    let (mut world, _) = world(0);
    let mut changes = chosen_session(ue_in(bucket(), 0));
    let base = PacketsPer {
        packets: 9,
        unit: TimeUnit::Hour,
    };
    let rate = PacketRate {
        base,
        additional: None,
    };
    let optional = changes.create_qers[0].optional.get_or_insert_default();
    optional.packet_rates = Some(PacketRates {
        ul: Some(rate),
        dl: None,
    });
    let seid = world.establish(1, changes).unwrap().seid;
    let index = world.sessions.session(seid).unwrap().index();
    world.fleet.leave_packets(index, *left);
    world
}

fn packets_left(left: u16) -> PacketsLeft {
    let base = Window { left, ends: Nanos(1) };
    let up = PacketState {
        base,
        ..PacketState::default()
    };
    PacketsLeft {
        qer: QerId(1),
        states: [up, PacketState::default()],
    }
}

/// What the image of the only session at a worker says of packet rates.
fn image_packets(world: &World, worker: WorkerId) -> Vec<PacketsLeft> {
    let sessions = world.fleet.workers[worker.index()].sessions.values();
    sessions
        .flat_map(|image| image.installation.packets.clone())
        .collect()
}

#[test]
fn what_is_left_of_packet_rates_goes_to_the_new_owner_in_two_parts() {
    // What was given first, and what the old owner had left in the end, are the fleet's same answer here.
    let mut world = rated_world(&packets_left(3));
    begin(&mut world, NEW);
    world.hand_over();
    step(&mut world, OLD);
    step(&mut world, NEW);
    assert_eq!(image_packets(&world, NEW), [packets_left(3)]);
    assert_eq!(finish(&mut world), Ok(1));
    assert_eq!(image_packets(&world, NEW), [packets_left(3)]);
    let only = |worker: WorkerId| world.fleet.workers[worker.index()].sessions.values().next();
    assert_eq!(only(NEW).map(|image| image.meter_share), Some(MeterShare::Whole));
}

#[test]
fn what_was_given_away_comes_back_when_the_new_owner_has_no_room() {
    let mut world = rated_world(&packets_left(3));
    world.fleet.worker(NEW).room = Some(0);
    begin(&mut world, NEW);
    assert_eq!(finish(&mut world), Err(MoveFault::NoResources));
    assert_eq!(image_packets(&world, OLD), [packets_left(3)]);
    assert_eq!(shares(&world)[0], Some(MeterShare::Whole));
}

#[test]
fn what_the_old_owner_counted_of_dropped_packets_goes_to_the_new_one() {
    let (mut world, _) = world(0);
    let mut changes = chosen_session(ue_in(bucket(), 0));
    let threshold = DroppedDlThreshold {
        packets: Some(9),
        octets: None,
    };
    changes.create_urrs[0].triggers = ReportingTriggers::DROTH;
    changes.create_urrs[0].terms = Some(Box::new(UrrTerms {
        dropped_dl_threshold: Some(threshold),
        ..UrrTerms::NONE
    }));
    let seid = world.establish(1, changes).unwrap().seid;
    let index = world.sessions.session(seid).unwrap().index();
    let count = DroppedCount {
        urr: UrrId(1),
        packets: 4,
        octets: 400,
    };
    world.fleet.worker(OLD).dropped.insert(index, vec![count]);
    begin(&mut world, NEW);
    assert_eq!(finish(&mut world), Ok(1));
    let image = &world.fleet.workers[NEW.index()].sessions[&index];
    assert_eq!(image.dropped_counts().collect::<Vec<_>>(), [count]);
    assert_eq!(image.meter_share, MeterShare::Whole);
    world.delete(seid).unwrap();
    world.assert_clean();
}

/// Half of the downlink of a QoS flow is to be marked, as was reported at this time.
fn reported(at: Nanos) -> Vec<ReportedCongestion> {
    let report = CongestionReport {
        at,
        part: 5_000,
        owed: 0,
    };
    vec![ReportedCongestion {
        qfi: Some(Qfi::from_low_bits(9)),
        reports: [None, Some(report)],
    }]
}

/// What the image of the only session at a worker says of it.
fn image_congestion(world: &World, worker: WorkerId) -> Vec<ReportedCongestion> {
    let sessions = world.fleet.workers[worker.index()].sessions.values();
    sessions
        .flat_map(|image| image.installation.congestion.clone())
        .collect()
}

/// A session whose QER is marked for L4S, without a rate, and what was reported of it to its worker.
fn marked_world() -> World {
    let (mut world, _) = world(0);
    let mut changes = chosen_session(ue_in(bucket(), 0));
    changes.create_qers[0].optional.get_or_insert_default().marks_l4s = true;
    let seid = world.establish(1, changes).unwrap().seid;
    assert_eq!(
        image_of(&world, OLD).map(|image| image.is_shared_knowingly()),
        Some(false)
    );
    let index = world.sessions.session(seid).unwrap().index();
    world
        .fleet
        .worker(OLD)
        .congestion
        .insert(index, reported(Nanos(1)));
    world
}

fn image_of(world: &World, worker: WorkerId) -> Option<&SessionImage> {
    world.fleet.workers[worker.index()].sessions.values().next()
}

#[test]
fn what_the_ran_has_reported_goes_to_the_new_owner_at_once_and_in_the_end() {
    let mut world = marked_world();
    let index = image_of(&world, OLD).expect("it is there").session;
    begin(&mut world, NEW);
    world.hand_over();
    step(&mut world, OLD);
    step(&mut world, NEW);
    assert_eq!(image_congestion(&world, NEW), reported(Nanos(1)));
    world
        .fleet
        .worker(OLD)
        .congestion
        .insert(index, reported(Nanos(2)));
    assert_eq!(finish(&mut world), Ok(1));
    assert_eq!(image_congestion(&world, NEW), reported(Nanos(2)));
    assert_eq!(
        image_of(&world, NEW).map(|image| image.meter_share),
        Some(MeterShare::Whole)
    );
}

#[test]
fn what_the_ran_has_reported_to_the_other_worker_comes_back_when_a_move_is_undone() {
    let mut world = marked_world();
    let index = image_of(&world, OLD).expect("it is there").session;
    begin(&mut world, NEW);
    world.hand_over();
    step(&mut world, OLD);
    step(&mut world, NEW);
    world
        .fleet
        .worker(NEW)
        .congestion
        .insert(index, reported(Nanos(2)));
    world.pass(Duration::from_secs(5));
    assert_eq!(finish(&mut world), Err(MoveFault::TooLate));
    assert_eq!(image_congestion(&world, OLD), reported(Nanos(2)));
}

/// Packets that the deletion of a session reports.
fn last_count(world: &mut World, seid: Seid) -> u64 {
    let done = world.delete(seid).unwrap();
    let urr = |report: &&UsageReport| report.urr == UrrId(1);
    done.usage
        .iter()
        .filter(urr)
        .map(|report| report.count.ul_packets)
        .sum()
}

#[test]
fn all_sessions_of_the_bucket_move_and_no_other() {
    let (mut world, seids) = world(200);
    let other = world.establish(999, chosen_session(UE)).unwrap().seid;
    begin(&mut world, NEW);
    assert_eq!(world.sessions.moving_bucket(), Some(bucket()));
    assert_eq!(finish(&mut world), Ok(200));
    assert_eq!(
        (sessions_at(&world, OLD), sessions_at(&world, NEW)),
        match home(UE).index() % 3 {
            0 => (1, 200),
            1 => (0, 201),
            _ => (0, 200),
        }
    );
    assert_eq!(
        (
            world.sessions.owner(bucket()),
            world.sessions.sessions_in(bucket())
        ),
        (NEW, 200)
    );
    for seid in seids.into_iter().chain([other]) {
        world.delete(seid).unwrap();
    }
    assert_eq!(world.sessions.sessions_in(bucket()), 0);
    world.assert_clean();
}

#[test]
fn work_is_bounded_however_large_the_bucket() {
    let (mut world, _) = world(200);
    begin(&mut world, NEW);
    world.hand_over();
    assert_eq!(world.fleet.workers[NEW.index()].queue.len(), 64);
    assert_eq!(finish(&mut world), Ok(200));
}

#[test]
fn every_packet_is_counted_at_one_of_the_two() {
    let (mut world, seids) = world(3);
    let seid = seids[1];
    receive(&mut world, OLD, seid);
    let report = world
        .modify(
            seid,
            Changes {
                query: Query::All(Vec::new()),
                ..Changes::default()
            },
        )
        .unwrap();
    assert_eq!(report.usage[0].count, uplink_count(1));
    receive(&mut world, OTHER, seid);
    begin(&mut world, NEW);
    step(&mut world, NEW);
    // The new owner knows that the bucket is its own, the two others do not.
    receive(&mut world, OLD, seid);
    receive(&mut world, OTHER, seid);
    step(&mut world, NEW);
    receive(&mut world, NEW, seid);
    step(&mut world, OTHER);
    receive(&mut world, OTHER, seid);
    receive(&mut world, OLD, seid);
    assert_eq!(finish(&mut world), Ok(3));
    receive(&mut world, OLD, seid);
    world
        .fleet
        .workers
        .iter_mut()
        .for_each(|worker| worker.serve_inbox());
    assert_eq!(last_count(&mut world, seid), 7);
    assert!(world.fleet.workers.iter().all(|worker| worker.astray.is_empty()));
}

#[test]
fn usage_before_qos_is_reported_once_wherever_the_session_is() {
    let (mut world, seids) = world(1);
    let measures = UrrUpdate {
        information: Some(MeasurementInformation::MBQE),
        ..UrrUpdate::new(UrrId(1))
    };
    let changes = Changes {
        update_urrs: vec![measures],
        ..Changes::default()
    };
    world.modify(seids[0], changes).unwrap();
    let index = world.sessions.session(seids[0]).unwrap().index();
    let came = |world: &mut World, worker, packets| {
        let counted = (index, (UrrId(1), uplink_count(packets)));
        world.fleet.worker(worker).before_qos.push(counted);
    };
    came(&mut world, OLD, 1);
    begin(&mut world, NEW);
    step(&mut world, NEW);
    came(&mut world, OLD, 2);
    came(&mut world, NEW, 4);
    assert_eq!(finish(&mut world), Ok(1));
    came(&mut world, NEW, 8);
    let query = Changes {
        query: Query::All(Vec::new()),
        ..Changes::default()
    };
    let reported = world.modify(seids[0], query).unwrap().usage[0];
    assert_eq!(
        (reported.sequence, reported.before_qos),
        (0, Some(uplink_count(15)))
    );
    came(&mut world, NEW, 16);
    let last = world.delete(seids[0]).unwrap().usage[0];
    assert_eq!((last.sequence, last.before_qos), (2, Some(uplink_count(16))));
    world.assert_clean();
}

#[test]
fn what_was_handed_to_the_old_owner_is_served_before_it_forgets_the_session() {
    let (mut world, seids) = world(1);
    receive(&mut world, OTHER, seids[0]);
    begin(&mut world, NEW);
    assert_eq!(finish(&mut world), Ok(1));
    assert_eq!(world.fleet.workers[OLD.index()].served, 1);
    assert_eq!(last_count(&mut world, seids[0]), 1);
}

#[test]
fn requests_wait_for_the_move_and_happen_at_the_new_owner() {
    let (mut world, seids) = world(2);
    begin(&mut world, NEW);
    let ticket = world.ticket();
    let changes = Changes {
        update_fars: vec![FarUpdate {
            action: Some(rules::model::ApplyAction::DROP),
            ..FarUpdate::new(rules::model::FarId(2))
        }],
        ..Changes::default()
    };
    world.sessions.modify(world.now, ticket, seids[0], None, changes);
    step(&mut world, NEW);
    assert_eq!(world.sessions.poll_outcome(), None);
    let outcomes = world.run();
    assert!(
        matches!(&outcomes[..], [Outcome { ticket: reported, result: Ok(_) }] if *reported == ticket),
        "{outcomes:?}"
    );
    let session = world.sessions.session(seids[0]).unwrap();
    let image = &world.fleet.workers[NEW.index()].sessions[&session.index()];
    assert_eq!(&*image.rules, session.rules());
    assert_eq!(sessions_at(&world, OLD), 0);
}

#[test]
fn a_session_that_is_set_up_meanwhile_goes_where_the_bucket_is() {
    for fails in [false, true] {
        let (mut world, _) = world(2);
        world.fleet.worker(NEW).room = fails.then_some(0);
        begin(&mut world, NEW);
        let ticket = world.ticket();
        let changes = chosen_session(ue_in(bucket(), 50));
        world
            .sessions
            .establish(world.now, ticket, SMF, cp_f_seid(50), changes);
        world.hand_over();
        assert_eq!(world.fleet.workers[OLD.index()].queue.len(), 0);
        let outcomes = world.run();
        assert!(
            matches!(&outcomes[..], [Outcome { result: Ok(_), .. }]),
            "{outcomes:?}"
        );
        assert!(world.sessions.poll_moved().is_some());
        let places = (sessions_at(&world, OLD), sessions_at(&world, NEW));
        assert_eq!(places, if fails { (3, 0) } else { (0, 3) });
        assert_eq!(world.end_association(), 3);
        world.assert_clean();
    }
}

#[test]
fn a_full_worker_takes_nothing_and_all_is_as_before() {
    let (mut world, seids) = world(100);
    world.fleet.worker(NEW).room = Some(70);
    begin(&mut world, NEW);
    assert_eq!(finish(&mut world), Err(MoveFault::NoResources));
    assert_eq!((sessions_at(&world, OLD), sessions_at(&world, NEW)), (100, 0));
    assert_eq!(world.sessions.owner(bucket()), OLD);
    receive(&mut world, OLD, seids[9]);
    assert_eq!(last_count(&mut world, seids[9]), 1);
    world.fleet.worker(NEW).room = None;
    begin(&mut world, NEW);
    assert_eq!(finish(&mut world), Ok(99));
    assert_eq!(world.end_association(), 99);
    world.assert_clean();
}

#[test]
fn an_associations_share_of_the_new_owner_is_respected() {
    let config = Config {
        worker_tunnels: 4,
        ..Config::for_workers(3)
    };
    let mut world = World::with(config);
    for number in 0..3 {
        world
            .establish(number.into(), chosen_session(ue_in(bucket(), number)))
            .unwrap();
    }
    let beside = Bucket::all().find(|bucket| bucket.index() % 3 == 1).unwrap();
    for number in 0..2 {
        world
            .establish(50 + u64::from(number), chosen_session(ue_in(beside, number)))
            .unwrap();
    }
    begin(&mut world, NEW);
    assert_eq!(finish(&mut world), Err(MoveFault::NoResources));
    assert_eq!(world.sessions.tunnels_of(SMF), 5);
    assert_eq!((sessions_at(&world, OLD), sessions_at(&world, NEW)), (3, 2));
    assert_eq!(world.end_association(), 5);
    world.assert_clean();
}

#[test]
fn a_move_that_is_late_while_sessions_are_installed_is_undone() {
    let (mut world, _) = world(3);
    begin(&mut world, NEW);
    world.hand_over();
    world.pass(Duration::from_secs(4));
    let timeout = world.sessions.poll_timeout();
    assert_eq!(timeout, Some(world.now + Duration::from_secs(1)));
    world.pass(Duration::from_secs(1));
    assert_eq!(finish(&mut world), Err(MoveFault::TooLate));
    assert_eq!((sessions_at(&world, OLD), sessions_at(&world, NEW)), (3, 0));
}

#[test]
fn a_move_that_is_late_while_workers_are_notified_goes_back_with_the_counts_of_both() {
    let (mut world, seids) = world(1);
    let seid = seids[0];
    receive(&mut world, OLD, seid);
    begin(&mut world, NEW);
    step(&mut world, NEW);
    step(&mut world, NEW);
    receive(&mut world, NEW, seid);
    receive(&mut world, OLD, seid);
    // The worker beside them does not answer in time.
    step(&mut world, OLD);
    receive(&mut world, OLD, seid);
    world.pass(Duration::from_secs(5));
    assert_eq!(finish(&mut world), Err(MoveFault::TooLate));
    assert_eq!((sessions_at(&world, OLD), sessions_at(&world, NEW)), (1, 0));
    receive(&mut world, NEW, seid);
    world
        .fleet
        .workers
        .iter_mut()
        .for_each(|worker| worker.serve_inbox());
    assert_eq!(last_count(&mut world, seid), 5);
    world.assert_clean();
}

#[test]
fn a_session_that_ends_while_two_workers_have_it_ends_at_both() {
    let (mut world, _) = world(3);
    let index = world.sessions.iter().next().map(|view| view.index());
    begin(&mut world, NEW);
    step(&mut world, NEW);
    assert_eq!(
        world
            .sessions
            .remove_association(SMF, EndCause::AssociationEnded, |cp| cp.seid == 1),
        1
    );
    assert_eq!(finish(&mut world), Ok(3));
    assert_eq!(world.sessions.count().indexes, 2);
    let gone: SessionIndex = index.unwrap();
    let has_it = |worker: &fleet::Worker| worker.sessions.contains_key(&gone);
    assert!(!world.fleet.workers.iter().any(has_it));
    assert_eq!(world.end_association(), 2);
    world.assert_clean();
}

#[test]
fn a_request_under_way_ends_before_its_session_moves() {
    let (mut world, seids) = world(2);
    let ticket = world.ticket();
    world.sessions.delete(world.now, ticket, seids[0]);
    begin(&mut world, NEW);
    step(&mut world, NEW);
    assert_eq!(
        (sessions_at(&world, NEW), world.sessions.owner(bucket())),
        (1, OLD)
    );
    assert_eq!(finish(&mut world), Ok(1));
    assert_eq!((sessions_at(&world, OLD), sessions_at(&world, NEW)), (0, 1));
}

#[test]
fn moves_that_make_no_sense_do_not_begin() {
    let (mut world, _) = world(1);
    let move_to = |world: &mut World, to| world.sessions.move_bucket(world.now, bucket(), to);
    assert_eq!(move_to(&mut world, OLD), Err(MoveFault::Owned));
    assert_eq!(move_to(&mut world, WorkerId(3)), Err(MoveFault::NoSuchWorker));
    begin(&mut world, NEW);
    assert_eq!(move_to(&mut world, OTHER), Err(MoveFault::Busy));
    assert_eq!(finish(&mut world), Ok(1));
}

#[test]
fn an_empty_bucket_moves() {
    let (mut world, _) = world(0);
    begin(&mut world, NEW);
    assert_eq!(finish(&mut world), Ok(0));
    assert_eq!(world.sessions.owner(bucket()), NEW);
    world.assert_clean();
}

#[test]
fn buckets_that_moved_away_and_back_count_on() {
    let (mut world, seids) = world(2);
    let mut at = OLD;
    for round in 0..7 {
        receive(&mut world, OTHER, seids[0]);
        let to = if at == OLD { NEW } else { OLD };
        world.sessions.move_bucket(world.now, bucket(), to).unwrap();
        world.run();
        assert_eq!(
            world.sessions.poll_moved().map(|moved| (moved.from, moved.to)),
            Some((at, to))
        );
        at = to;
        if round == 3 {
            let changes = Changes {
                query: Query::All(Vec::new()),
                ..Changes::default()
            };
            let done = world.modify(seids[0], changes).unwrap();
            assert_eq!(done.usage[0].count, uplink_count(4));
        }
    }
    assert_eq!(last_count(&mut world, seids[0]), 3);
}

#[test]
fn two_workers_share_a_sessions_meters_while_both_have_it() {
    let (mut world, seid) = metered_world();
    assert_eq!(shares(&world), [Some(MeterShare::Whole), None]);
    begin(&mut world, NEW);
    step(&mut world, NEW);
    assert_eq!(
        shares(&world),
        [Some(MeterShare::Whole), None],
        "the old owner is first"
    );
    step(&mut world, OLD);
    assert_eq!(shares(&world), [Some(MeterShare::Leaving), None]);
    step(&mut world, NEW);
    assert_eq!(
        shares(&world),
        [Some(MeterShare::Leaving), Some(MeterShare::Arriving)]
    );
    assert_eq!(finish(&mut world), Ok(1));
    assert_eq!(shares(&world), [None, Some(MeterShare::Whole)]);
    world.delete(seid).unwrap();
    world.assert_clean();
}

#[test]
fn a_move_that_is_undone_gives_the_meters_back() {
    for steps in [&[][..], &[OLD], &[OLD, NEW], &[OLD, NEW, NEW]] {
        let (mut world, seid) = metered_world();
        begin(&mut world, NEW);
        world.hand_over();
        steps.iter().for_each(|worker| step(&mut world, *worker));
        world.pass(Duration::from_secs(5));
        assert_eq!(finish(&mut world), Err(MoveFault::TooLate));
        assert_eq!(shares(&world), [Some(MeterShare::Whole), None], "{steps:?}");
        world.delete(seid).unwrap();
        world.assert_clean();
    }
}

#[test]
fn a_session_that_ends_while_its_meters_are_shared_leaves_nothing() {
    for steps in [&[][..], &[OLD], &[OLD, NEW], &[OLD, NEW, OLD]] {
        let (mut world, _) = metered_world();
        begin(&mut world, NEW);
        world.hand_over();
        steps.iter().for_each(|worker| step(&mut world, *worker));
        assert_eq!(world.end_association(), 1);
        assert!(finish(&mut world).is_ok());
        world.assert_clean();
    }
}
