//! FARs that buffer: which packets are buffered, in which order they are forwarded, what control receives, and End
//! Markers.

use crate::common;

use std::collections::VecDeque;
use std::time::Duration;

use flow::{Bucket, InstanceId, SessionIndex, WorkerId};
use packet::{DropReason, Qfi, Teid};
use proptest::prelude::*;
use rules::image::{DataStatus, ImmediateActions, SessionChange, SessionImage};
use rules::model::{
    ApplyAction, Bar, BarId, DestinationInterface, Edit, FarId, FarUpdate, ForwardingParametersUpdate,
    OuterHeaderCreation, PdrId,
};
use rules::testing::{self, GNB, UE, UserPacket};
use worker::{BufferLimits, Command, Event, WorkerSelectionChange};

use common::buffering::{BUFF, Case, LIMITS, numbered, with};
use common::one_session::{events, hand_over, ip, to_ue, uplink};
use common::{World, mac_of};

fn reported(world: &mut World) -> usize {
    let is_reported = |event: &Event| matches!(event, Event::DownlinkData { .. });
    events(world).iter().filter(|event| is_reported(event)).count()
}

#[test]
fn packets_are_buffered_and_forwarded_in_order_before_any_other() {
    let mut case = Case::new(LIMITS, BUFF);
    for number in 0..5 {
        assert!(case.world.send(1, &numbered(number)).is_empty());
    }
    assert_eq!(case.world.workers[0].stats().buffered, 5);
    let usage = case.world.query(0, SessionIndex(1));
    assert_eq!(usage.counters[0].1.dl_packets, 0, "what waits is not counted");
    // The change and one more packet reach the worker before its next poll.
    let wire = case.world.wires.to(WorkerId(0), flow::PortId(1));
    wire.push(worker::mem::MemBuf::new(&common::frame(1, &numbered(5))))
        .expect("there is room");
    case.set(ApplyAction::FORW);
    case.world.poll();
    assert_eq!(case.out(), [0, 1, 2, 3, 4, 5]);
    let usage = case.world.query(0, SessionIndex(1));
    assert_eq!(usage.counters[0].1.dl_packets, 6);
    let stats = case.world.workers[0].stats();
    assert_eq!((stats.stored, stats.flushed, stats.buffered), (5, 5, 0));
    case.world.assert_conserved();
}

#[test]
fn control_is_notified_of_the_first_packet_of_each_qos_flow() {
    let mut case = Case::new(LIMITS, BUFF.with(ApplyAction::NOCP));
    let mut marked = to_ue();
    marked[1] = 46 << 2;
    common::one_session::fix_lengths(&mut marked);
    case.world.send(1, &marked);
    case.world.send(1, &to_ue());
    let event = events(&mut case.world).pop();
    let Some(Event::DownlinkData {
        session,
        pdr,
        far,
        qfi,
        dscp,
        notifies: true,
        status: None,
    }) = event
    else {
        panic!("{event:?}")
    };
    assert_eq!((session, pdr, far), (SessionIndex(1), PdrId(2), FarId(2)));
    assert_eq!((qfi, dscp), (Qfi::new(9), Some(46)));
    case.world.send(1, &to_ue());
    assert_eq!(reported(&mut case.world), 0, "once is enough");
    case.set(BUFF.with(ApplyAction::NOCP));
    case.world.send(1, &to_ue());
    assert_eq!(reported(&mut case.world), 0, "the FAR has not changed");
    case.set(ApplyAction::FORW);
    case.set(BUFF.with(ApplyAction::NOCP));
    case.world.send(1, &to_ue());
    assert_eq!(reported(&mut case.world), 1, "idle again");
    case.set(BUFF);
    case.set(ApplyAction::FORW);
    case.set(BUFF);
    case.world.send(1, &to_ue());
    assert_eq!(reported(&mut case.world), 0, "without NOCP");
    case.world.assert_conserved();
}

#[test]
fn it_is_reported_even_if_nothing_has_room() {
    let limits = BufferLimits { packets: 0, ..LIMITS };
    let mut case = Case::new(limits, BUFF.with(ApplyAction::NOCP));
    case.world.send(1, &to_ue());
    case.world.send(1, &to_ue());
    assert_eq!(
        (reported(&mut case.world), case.dropped(DropReason::FarBuffer)),
        (1, 2)
    );
    let mut case = Case::new(BufferLimits::OFF, BUFF.with(ApplyAction::NOCP));
    case.world.send(1, &to_ue());
    assert_eq!(
        (reported(&mut case.world), case.dropped(DropReason::FarBuffer)),
        (0, 1)
    );
}

#[test]
fn uplink_packets_are_buffered_too_without_a_report() {
    let mut case = Case::new(LIMITS, ApplyAction::FORW);
    let far = |action| FarUpdate {
        action: Some(action),
        ..FarUpdate::new(FarId(1))
    };
    let set = |case: &mut Case, action| {
        case.change(ImmediateActions::default(), |rules| {
            rules.update_far(far(action)).expect("it is there");
        });
    };
    set(&mut case, BUFF.with(ApplyAction::NOCP));
    assert!(case.world.send(0, &uplink()).is_empty());
    assert_eq!(reported(&mut case.world), 0);
    set(&mut case, ApplyAction::FORW);
    assert_eq!(case.world.take().len(), 1);
}

#[test]
fn all_fars_of_a_session_together_keep_no_more_than_it_may() {
    let limits = BufferLimits {
        per_session: 5,
        ..LIMITS
    };
    let mut case = Case::new(limits, BUFF);
    case.change(ImmediateActions::default(), |rules| {
        let update = FarUpdate {
            action: Some(BUFF),
            ..FarUpdate::new(FarId(1))
        };
        rules.update_far(update).expect("it is there");
    });
    for number in 0..4 {
        assert!(case.world.send(1, &numbered(number)).is_empty());
        assert!(case.world.send(0, &uplink()).is_empty());
    }
    assert_eq!(case.dropped(DropReason::BufferLimit), 3);
    assert_eq!(case.world.workers[0].stats().buffered, 5);
    case.set(ApplyAction::FORW);
    assert_eq!(case.out(), [0, 1, 2]);
    case.world.assert_conserved();
}

#[test]
fn a_bar_bounds_its_queue() {
    let mut case = Case::new(LIMITS, ApplyAction::FORW);
    case.change(ImmediateActions::default(), |rules| {
        let bar = Bar {
            id: BarId(1),
            notification_delay: None,
            suggested_packets: Some(2),
            extended_packets: None,
        };
        rules.create_bar(bar).expect("it is new");
        let update = FarUpdate {
            action: Some(BUFF),
            bar: Edit::Set(BarId(1)),
            ..FarUpdate::new(FarId(2))
        };
        rules.update_far(update).expect("it is there");
    });
    for number in 0..4 {
        case.world.send(1, &numbered(number));
    }
    assert_eq!(case.dropped(DropReason::FarBuffer), 2);
    case.set(ApplyAction::FORW);
    assert_eq!(case.out(), [0, 1]);
}

#[test]
fn what_waits_ends_with_its_session_by_request_and_in_time() {
    let mut case = Case::new(LIMITS, BUFF);
    case.world.send(1, &numbered(1));
    case.discard();
    assert_eq!(case.dropped(DropReason::BufferDiscarded), 1);
    case.world.send(1, &numbered(2));
    case.world.now = case.world.now + Duration::from_secs(11);
    case.world.poll();
    case.world.poll();
    assert_eq!(case.dropped(DropReason::BufferExpired), 1);
    case.world.send(1, &numbered(3));
    case.world
        .apply(0, SessionChange::Remove(SessionIndex(1)))
        .expect("it is there");
    assert_eq!(case.dropped(DropReason::BufferDiscarded), 2);
    assert_eq!(case.world.workers[0].stats().buffered, 0);
    assert!(case.out().is_empty());
    case.world.assert_conserved();
}

#[test]
fn what_waits_follows_its_session_to_another_worker() {
    let mut case = Case::among(2, LIMITS, BUFF);
    select_worker(&mut case, 0);
    let image = in_bucket(&mut case);
    case.world.send(1, &numbered(1));
    assert_eq!(case.world.workers[0].stats().buffered, 1);
    move_session(&mut case, &image, 1);
    let buffered = [0, 1].map(|worker: usize| case.world.workers[worker].stats().buffered);
    assert_eq!(buffered, [0, 1]);
    case.world.assert_conserved();
}

#[test]
fn what_waits_is_duplicated_once_though_its_session_moves() {
    let mut case = Case::among(2, LIMITS, BUFF);
    select_worker(&mut case, 0);
    let duplicating = ForwardingParametersUpdate {
        destination: Some(DestinationInterface::Core),
        outer_header_creation: Edit::Set(OuterHeaderCreation::gtpu_ipv4(Teid(7), [10, 209, 1, 1].into())),
        ..ForwardingParametersUpdate::default()
    };
    case.change(ImmediateActions::default(), |rules| {
        let update = FarUpdate {
            action: Some(BUFF.with(ApplyAction::DUPL)),
            duplicating: Edit::Set(duplicating),
            ..FarUpdate::new(FarId(2))
        };
        rules.update_far(update).expect("it is there");
    });
    let image = in_bucket(&mut case);
    assert_eq!(case.world.send(1, &numbered(1)).len(), 1, "the duplicate alone");
    for owner in [1, 0, 1] {
        move_session(&mut case, &image, owner);
        let workers = case.world.workers.iter();
        let counts: Vec<_> = workers
            .map(|worker| (worker.stats().buffered, worker.stats().duplicated))
            .collect();
        assert_eq!(counts[owner].0, 1, "{counts:?}");
        assert_eq!(counts[0].1 + counts[1].1, 1, "{counts:?}");
    }
    case.world.assert_conserved();
}

fn testing_bucket() -> Bucket {
    flow::bucket::of_ipv4(UE.octets())
}

/// Selects the worker that owns the UE's bucket.
fn select_worker(case: &mut Case, owner: usize) {
    let (bucket, owner) = (testing_bucket(), WorkerId(owner as u16));
    case.world
        .tell_all(|| Command::SelectWorker(WorkerSelectionChange::Bucket { bucket, owner }));
}

/// Puts the session of worker 0 into the UE's bucket.
fn in_bucket(case: &mut Case) -> Box<SessionImage> {
    let mut image = case.image.clone();
    image.bucket = testing_bucket();
    let change = SessionChange::Replace(image.clone(), ImmediateActions::default());
    case.world.apply(0, change).expect("it is there");
    image
}

/// Moves the session from the other one of two workers.
fn move_session(case: &mut Case, image: &SessionImage, owner: usize) {
    let install = SessionChange::Install(Box::new(image.clone()));
    case.world.apply(owner, install).expect("it is new");
    select_worker(case, owner);
    let remove = SessionChange::Remove(SessionIndex(1));
    case.world.apply(1 - owner, remove).expect("it is there");
    case.world.poll();
    case.world.poll();
}

#[test]
fn an_end_marker_goes_into_the_old_tunnel_before_the_first_packet_of_the_new_one() {
    let mut case = Case::new(LIMITS, ApplyAction::FORW);
    case.world.send(1, &to_ue());
    let target = OuterHeaderCreation::gtpu_ipv4(Teid(99), [10, 200, 1, 1].into());
    let immediate = ImmediateActions {
        end_markers: vec![FarId(2), FarId(1), FarId(7)],
        ..ImmediateActions::default()
    };
    case.change(immediate, |rules| hand_over(rules, target));
    let sent = case.world.take();
    assert_eq!(sent.len(), 1, "plain and unknown FARs have no tunnel");
    let frame = &sent[0].1;
    assert_eq!(frame[..6], mac_of(InstanceId(0), IpOf(GNB).into()).0);
    assert_eq!(frame[30..34], GNB.octets());
    // GTP-U version 1, no optional part; End Marker; length 0; the old TEID.
    assert_eq!(frame[42..50], [0x30, 254, 0, 0, 0, 0, 0, 77]);
    assert_eq!(frame[16..18], 36u16.to_be_bytes());
    let out = case.world.send(1, &to_ue());
    assert_eq!((out.len(), &out[0].1[30..34]), (1, &[10, 200, 1, 1][..]));
    case.world.assert_conserved();
}

/// An address as the next hop to it.
struct IpOf(std::net::Ipv4Addr);

impl From<IpOf> for std::net::IpAddr {
    fn from(address: IpOf) -> Self {
        if address.0 == GNB {
            GNB.into()
        } else {
            ip("10.0.3.254")
        }
    }
}

/// Delivery statuses that control has received, with whether it was notified (NOCP) by the same event.
fn statuses(world: &mut World) -> Vec<(PdrId, bool, DataStatus)> {
    let status = |event: &Event| match event {
        Event::DownlinkData {
            pdr,
            notifies,
            status: Some(status),
            ..
        } => Some((*pdr, *notifies, *status)),
        _ => None,
    };
    events(world).iter().filter_map(status).collect()
}

const PDR: PdrId = PdrId(2);

#[test]
fn the_first_buffered_and_the_first_discarded_packet_of_each_pdr_are_reported() {
    let all = BUFF
        .with(ApplyAction::NOCP)
        .with(ApplyAction::BDPN)
        .with(ApplyAction::DDPN);
    let mut case = Case::new(LIMITS, all);
    case.world.send(1, &numbered(0));
    assert_eq!(statuses(&mut case.world), [(PDR, true, DataStatus::Buffered)]);
    for number in 1..8 {
        case.world.send(1, &numbered(number));
    }
    assert_eq!(statuses(&mut case.world), []);
    // The queue is full.
    case.world.send(1, &numbered(8));
    case.world.send(1, &numbered(9));
    assert_eq!(statuses(&mut case.world), [(PDR, false, DataStatus::Discarded)]);
    // A change of other rules is none of this FAR.
    case.change(ImmediateActions::default(), |rules| {
        let update = FarUpdate {
            action: Some(ApplyAction::DROP),
            ..FarUpdate::new(FarId(1))
        };
        rules.update_far(update).expect("it is there");
    });
    case.world.send(1, &numbered(10));
    assert_eq!(statuses(&mut case.world), []);
    case.set(ApplyAction::FORW);
    case.set(all);
    case.world.send(1, &numbered(11));
    assert_eq!(statuses(&mut case.world), [(PDR, true, DataStatus::Buffered)]);
    case.world.now = case.world.now + LIMITS.timeout;
    (0..3).for_each(|_| case.world.poll());
    assert_eq!(case.dropped(DropReason::BufferExpired), 1);
    assert_eq!(statuses(&mut case.world), [(PDR, false, DataStatus::Discarded)]);
    case.world.assert_conserved();
}

#[test]
fn packets_that_are_dropped_directly_are_reported_once_for_each_pdr() {
    let mut case = Case::new(LIMITS, ApplyAction::DROP.with(ApplyAction::DDPN));
    assert_eq!(
        (0..3)
            .map(|number| case.world.send(1, &numbered(number)).len())
            .sum::<usize>(),
        0
    );
    assert_eq!(statuses(&mut case.world), [(PDR, false, DataStatus::Discarded)]);
    assert_eq!(case.dropped(DropReason::FarDrop), 3);
    case.set(ApplyAction::DROP);
    case.world.send(1, &numbered(3));
    assert_eq!(statuses(&mut case.world), [], "without DDPN");
    // Also where nothing is buffered at all.
    let mut case = Case::new(
        BufferLimits::OFF,
        BUFF.with(ApplyAction::DDPN).with(ApplyAction::BDPN),
    );
    case.world.send(1, &numbered(0));
    assert_eq!(statuses(&mut case.world), [(PDR, false, DataStatus::Discarded)]);
    case.world.assert_conserved();
}

#[test]
fn what_control_throws_away_is_reported_only_if_its_time_was_over() {
    let mut case = Case::new(LIMITS, BUFF.with(ApplyAction::DDPN));
    for (reports_discarded, reported) in [(false, vec![]), (true, vec![(PDR, false, DataStatus::Discarded)])]
    {
        case.world.send(1, &numbered(0));
        let immediate = ImmediateActions {
            discards_buffered: true,
            tells_discarded: reports_discarded,
            ..ImmediateActions::default()
        };
        case.replace(case.image.clone(), immediate);
        assert_eq!(statuses(&mut case.world), reported);
    }
    assert_eq!(case.dropped(DropReason::BufferDiscarded), 2);
}

#[test]
fn uplink_packets_have_no_delivery_status() {
    let mut case = Case::new(LIMITS, ApplyAction::FORW);
    for action in [
        BUFF.with(ApplyAction::BDPN).with(ApplyAction::DDPN),
        ApplyAction::DROP.with(ApplyAction::DDPN),
    ] {
        case.change(ImmediateActions::default(), |rules| {
            let update = FarUpdate {
                action: Some(action),
                ..FarUpdate::new(FarId(1))
            };
            rules.update_far(update).expect("it is there");
        });
        (0..10).for_each(|_| drop(case.world.send(0, &uplink())));
        assert_eq!(statuses(&mut case.world), []);
    }
}

const N3: InstanceId = InstanceId(0);

#[test]
fn packets_that_waited_for_their_ue_wait_for_its_gnb_too_and_later_ones_behind_them() {
    let mut case = Case::new(LIMITS, BUFF);
    for number in 0..4 {
        case.world.send(1, &numbered(number));
    }
    case.world.lose(N3, GNB.into());
    case.set(ApplyAction::FORW);
    for number in 4..6 {
        assert!(case.world.send(1, &numbered(number)).is_empty());
    }
    let stats = case.world.workers[0].stats();
    assert_eq!((stats.stored, stats.flushed, stats.buffered), (10, 4, 6));
    assert_eq!(stats.directions[1].matched.packets, 0, "nothing of it counts yet");
    let usage = case.world.query(0, SessionIndex(1));
    assert_eq!(usage.counters[0].1.dl_packets, 0);
    case.world.meet(N3, GNB.into());
    assert_eq!(case.out(), [0, 1, 2, 3, 4, 5]);
    let usage = case.world.query(0, SessionIndex(1));
    assert_eq!(usage.counters[0].1.dl_packets, 6);
    let stats = case.world.workers[0].stats();
    assert_eq!((stats.buffered, stats.directions[1].matched.packets), (0, 6));
    assert_eq!(case.world.workers[0].holdings().queues, 0);
    case.world.assert_conserved();
}

#[test]
fn what_waits_for_a_gnb_goes_where_its_session_says_then() {
    let mut case = Case::new(LIMITS, ApplyAction::FORW);
    case.world.lose(N3, GNB.into());
    case.world.send(1, &numbered(0));
    case.set(BUFF.with(ApplyAction::NOCP));
    assert_eq!(
        reported(&mut case.world),
        1,
        "the UE is idle, and the packet waits for it now"
    );
    case.world.send(1, &numbered(1));
    case.world.meet(N3, GNB.into());
    assert!(case.out().is_empty());
    case.set(ApplyAction::FORW);
    assert_eq!(case.out(), [0, 1]);
    case.world.lose(N3, GNB.into());
    case.world.send(1, &numbered(2));
    // A gNB behind a router that is known.
    let target = OuterHeaderCreation::gtpu_ipv4(Teid(99), [10, 200, 1, 1].into());
    let immediate = ImmediateActions {
        end_markers: vec![FarId(2)],
        ..ImmediateActions::default()
    };
    case.change(immediate, |rules| hand_over(rules, target));
    assert_eq!(case.out(), [2]);
    // The End Marker waits for the gNB that the UE has left.
    case.world.meet(N3, GNB.into());
    let sent = case.world.take();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].1[42..50], [0x30, 254, 0, 0, 0, 0, 0, 77]);
    case.world.assert_conserved();
}

#[test]
fn an_end_marker_does_not_wait_for_ever() {
    let mut case = Case::new(LIMITS, ApplyAction::FORW);
    case.world.lose(N3, GNB.into());
    let immediate = ImmediateActions {
        end_markers: vec![FarId(2)],
        ..ImmediateActions::default()
    };
    case.change(immediate, |rules| *rules = with(rules, ApplyAction::DROP));
    assert_eq!(case.dropped(DropReason::NoNeighbour), 0);
    case.world.now = case.world.now + Duration::from_secs(5);
    case.world.poll();
    assert_eq!(case.dropped(DropReason::NoNeighbour), 1);
    case.world.meet(N3, GNB.into());
    assert!(case.out().is_empty());
    case.world.assert_conserved();
}

#[test]
fn what_waits_for_a_next_hop_ends_in_time_with_its_session_and_by_bounds() {
    let mut case = Case::new(LIMITS, ApplyAction::FORW);
    case.world.lose(N3, GNB.into());
    (0..10).for_each(|number| drop(case.world.send(1, &numbered(number))));
    assert_eq!(case.dropped(DropReason::NoNeighbour), 2, "eight of one FAR");
    case.world.now = case.world.now + Duration::from_secs(5);
    case.world.poll();
    assert_eq!(case.dropped(DropReason::BufferExpired), 8);
    case.world.send(1, &numbered(1));
    case.world
        .apply(0, SessionChange::Remove(SessionIndex(1)))
        .expect("it is there");
    assert_eq!(case.dropped(DropReason::BufferDiscarded), 1);
    let holdings = case.world.workers[0].holdings();
    assert_eq!((holdings.queues, holdings.waiting), (0, 0));
    case.world.assert_conserved();
}

#[test]
fn a_few_packets_wait_for_a_host_that_was_never_met() {
    let limits = BufferLimits {
        packets: 100,
        per_queue: 50,
        per_session: 100,
        ..LIMITS
    };
    let mut case = Case::new(limits, ApplyAction::FORW);
    let host = |last| ip(&format!("10.0.6.{last}"));
    let to_host = |last: u8, number: u8| {
        let address = std::net::Ipv4Addr::new(10, 0, 6, last);
        let mut packet = UserPacket::udp(UE, address, 1, 2);
        packet.payload = vec![0, number];
        testing::tunnelled(
            testing::N3_ADDRESS,
            common::one_session::TEID,
            255,
            Some([0x10, 9]),
            &[],
            &packet.bytes(),
        )
    };
    for number in 0..10 {
        assert!(case.world.send(0, &to_host(200, number)).is_empty());
        assert!(case.world.send(0, &to_host(201, number + 10)).is_empty());
    }
    assert_eq!(case.dropped(DropReason::NoNeighbour), 4, "sixteen of one FAR");
    let usage = case.world.query(0, SessionIndex(1));
    assert_eq!(usage.counters[0].1.ul_packets, 0);
    // Control makes an entry first, and then knows where the host is.
    case.world.lose(InstanceId(1), host(200));
    assert!(case.out().is_empty());
    case.world.meet(InstanceId(1), host(200));
    assert_eq!(case.out(), [0, 1, 2, 3, 4, 5, 6, 7]);
    case.world.meet(InstanceId(1), host(201));
    assert_eq!(case.out(), [10, 11, 12, 13, 14, 15, 16, 17]);
    let usage = case.world.query(0, SessionIndex(1));
    assert_eq!(usage.counters[0].1.ul_packets, 16);
    case.world.assert_conserved();
}

#[derive(Clone, Debug)]
enum Step {
    Packet,
    Set(ApplyAction),
    Discard,
    Wait,
    Lose,
    Meet,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Packet),
        3 => prop::sample::select(vec![BUFF, ApplyAction::FORW, ApplyAction::DROP]).prop_map(Step::Set),
        1 => Just(Step::Discard),
        1 => Just(Step::Wait),
        1 => Just(Step::Lose),
        1 => Just(Step::Meet),
    ]
}

proptest! {
    /// Against a queue that is a list: what comes out, in order, and what became of the rest.
    #[test]
    fn every_packet_is_forwarded_once_or_counted(steps in prop::collection::vec(step(), 1..60)) {
        let mut case = Case::new(LIMITS, BUFF);
        let (mut action, mut waiting, mut since) = (BUFF, VecDeque::new(), case.world.now);
        let (mut expected, mut dropped) = (Vec::new(), [0; 5]);
        let mut is_met = true;
        let mut out = Vec::new();
        for (number, step) in (0u8..).zip(steps) {
            match step {
                Step::Packet => {
                    out.extend(case.world.send(1, &numbered(number)).into_iter().map(|(_, frame)| *frame.last().expect("a payload")));
                    match action {
                        ApplyAction::FORW if is_met => expected.push(number),
                        ApplyAction::FORW if waiting.len() == 8 => dropped[4] += 1,
                        ApplyAction::DROP => dropped[0] += 1,
                        _ if waiting.len() == 8 => dropped[1] += 1,
                        _ => {
                            if waiting.is_empty() {
                                since = case.world.now;
                            }
                            waiting.push_back(number);
                        }
                    }
                }
                Step::Set(next) => {
                    case.set(next);
                    out.extend(case.out());
                    match next {
                        ApplyAction::FORW if is_met => expected.extend(waiting.drain(..)),
                        ApplyAction::DROP => dropped[0] += waiting.drain(..).count(),
                        // A packet that is forwarded and buffered again counts from then on.
                        BUFF if action == BUFF => {}
                        _ => since = case.world.now,
                    }
                    action = next;
                }
                Step::Discard => {
                    case.discard();
                    dropped[2] += waiting.drain(..).count();
                }
                Step::Wait => {
                    case.world.now = case.world.now + Duration::from_secs(6);
                    (0..3).for_each(|_| case.world.poll());
                    let is_over = action == ApplyAction::FORW || case.world.now >= since + LIMITS.timeout;
                    if is_over {
                        dropped[3] += waiting.drain(..).count();
                    }
                }
                Step::Lose => {
                    case.world.lose(N3, GNB.into());
                    is_met = false;
                }
                Step::Meet => {
                    case.world.meet(N3, GNB.into());
                    out.extend(case.out());
                    is_met = true;
                    if action == ApplyAction::FORW {
                        expected.extend(waiting.drain(..));
                    }
                }
            }
            let stats = case.world.workers[0].stats();
            prop_assert_eq!(stats.buffered, waiting.len() as u64);
            let ended = case.dropped(DropReason::BufferDiscarded) + case.dropped(DropReason::BufferExpired);
            prop_assert_eq!(stats.stored, stats.flushed + ended + stats.buffered);
        }
        let reasons = [DropReason::FarDrop, DropReason::FarBuffer, DropReason::BufferDiscarded, DropReason::BufferExpired, DropReason::NoNeighbour];
        prop_assert_eq!(reasons.map(|reason| case.dropped(reason) as usize), dropped);
        prop_assert_eq!(out, expected);
        case.world.assert_conserved();
    }
}
