//! First packets that a node keeps while its host is asked about them.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

use flow::contract::{AnyKey, Flow, FlowOp, Object, ObjectId, Subject};
use flow::{FlowKey4, KeyFields, LocalId, Scope, SessionIndex};
use offload::exception::{Answer, Reason};
use proptest::prelude::*;
use rules::testing::UserPacket;
use worker::accelerator::AskingStats;

use crate::world::*;

fn by(flow: Flow) -> Answer {
    Answer::ByFlow(SESSION, flow)
}

/// The flow of all packets of the tunnel.
fn wide() -> Flow {
    Flow {
        key: AnyKey::V4(FlowKey4 {
            scope: Scope::tunnel(LocalId(7)),
            teid: TEID,
            fields: KeyFields::NONE,
            ..FlowKey4::default()
        }),
        ..flow(1)
    }
}

/// The number at a packet's end.
fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame.last_chunk().expect("it ends with a number"))
}

fn numbers(frames: Vec<Vec<u8>>) -> Vec<u32> {
    frames.iter().map(|frame| number(frame)).collect()
}

impl World {
    /// The numbers of the questions that came.
    fn asked(&mut self) -> Vec<u32> {
        self.questions.drain(..).map(|(number, _)| number).collect()
    }

    fn asking(&self) -> AskingStats {
        self.node.engine().stats().asking
    }

    fn answer(&mut self, answers: &[(u32, Answer)]) {
        let said = self.answers(answers);
        self.say(&said);
        self.step();
    }

    /// The numbers of packets that came whole.
    fn whole(&mut self) -> Vec<u32> {
        let taken = self.take_exceptions().into_iter();
        numbers(taken.map(|(_, packet)| packet).collect())
    }
}

#[test]
fn a_first_packet_is_kept_and_passes_by_its_answer_with_those_behind_it() {
    let mut world = World::answering(|_| {});
    for number in 1..4 {
        world.arrive(&uplink_numbered(5, number));
    }
    world.arrive(&uplink_numbered(6, 9));
    world.step();
    assert!(world.sent().is_empty() && world.take_exceptions().is_empty());
    let (first, shown) = world.questions[0].clone();
    assert_eq!(shown, uplink_numbered(5, 1)[..14 + 36 + 20 + 20]);
    let [one, other] = world.asked()[..] else {
        panic!("two questions")
    };
    assert!(first == one && one != other);
    assert_eq!((world.asking().keys, world.asking().held), (2, 4));
    world.answer(&[(one, by(flow(5)))]);
    assert_eq!(numbers(world.sent()), [1, 2, 3]);
    world.answer(&[(other, Answer::Whole)]);
    assert_eq!(world.whole(), [9]);
    world.arrive(&uplink_numbered(5, 4));
    world.step();
    assert_eq!(numbers(world.sent()), [4]);
    let stats = world.asking();
    assert_eq!((stats.keys, stats.held), (0, 0));
    assert_eq!((stats.asked, stats.installed, stats.whole), (2, 1, 1));
    let counts = world.ask(Subject::Session(SESSION), FlowOp::Query(ObjectId::Counter(0)));
    assert!(format!("{counts:?}").contains("ul_packets: 4"), "{counts:?}");
}

#[test]
fn a_host_that_knows_of_no_questions_gets_none() {
    let mut world = World::new();
    world.arrive(&uplink_numbered(5, 1));
    world.step();
    assert_eq!((world.asked(), world.whole()), (vec![], vec![1]));
    assert!(!world.node.view().asks);
    let mut world = World::answering(|config| config.engine.max_asking = 0);
    world.arrive(&uplink_numbered(5, 1));
    world.step();
    assert_eq!((world.asked(), world.whole()), (vec![], vec![1]));
}

#[test]
fn a_lost_answer_costs_the_lifetime_and_what_is_late_installs_nothing() {
    let mut world = World::answering(|_| {});
    world.holds_markers = true;
    world.arrive(&uplink_numbered(5, 1));
    world.step();
    let [asked] = world.asked()[..] else { panic!("one") };
    world.steps(Duration::from_micros(4_900));
    world.arrive(&uplink_numbered(5, 2));
    world.step();
    assert!(world.take_exceptions().is_empty());
    world.steps(Duration::from_micros(200));
    assert_eq!(world.whole(), [1, 2]);
    world.answer(&[(asked, by(flow(5)))]);
    let stats = world.asking();
    assert_eq!((stats.timed_out, stats.late, stats.installed), (1, 1, 0));
    assert_eq!(world.node.engine().stats().flows, 0);
    // Those before are with the host: whatever follows goes there, too, and so do others of the session.
    world.arrive(&uplink_numbered(5, 3));
    world.arrive(&uplink_numbered(6, 4));
    world.step();
    assert_eq!((world.whole(), world.asked()), (vec![3, 4], vec![]));
    // Until all that went before has come back.
    world.steps(Duration::from_millis(1));
    let last = *world.markers.last().expect("a marker");
    world.echo(last);
    world.step();
    world.arrive(&uplink_numbered(6, 5));
    world.step();
    assert_eq!(world.asked().len(), 1);
}

#[test]
fn an_answer_that_may_not_be_followed_has_packets_go_whole() {
    let mut world = World::answering(|_| {});
    let stale = Flow {
        generation: 2,
        ..flow(1)
    };
    let none = Answer::ByFlow(SessionIndex(9), flow(3));
    for (port, answer) in [(1, by(stale)), (2, by(flow(9))), (3, none)] {
        world.arrive(&uplink_numbered(port, port.into()));
        world.step();
        let [asked] = world.asked()[..] else { panic!("one") };
        world.answer(&[(asked, answer)]);
        assert_eq!(world.whole(), [u32::from(port)]);
        world.steps(Duration::from_millis(1));
    }
    assert_eq!((world.asking().whole, world.node.engine().stats().flows), (3, 0));
    // The session goes while a packet is kept.
    world.arrive(&uplink_numbered(4, 4));
    world.step();
    let [asked] = world.asked()[..] else { panic!("one") };
    let session = Subject::Session(SESSION);
    assert!(world.ask(session, FlowOp::Remove(ObjectId::Session)).is_ok());
    world.answer(&[(asked, by(flow(4)))]);
    assert_eq!(world.whole(), [4]);
    assert!(world.sent().is_empty());
}

#[test]
fn answers_that_are_forged_or_replayed_change_nothing() {
    let mut world = World::answering(|_| {});
    world.arrive(&uplink_numbered(1, 1));
    world.step();
    let [asked] = world.asked()[..] else { panic!("one") };
    let genuine = world.answers(&[(asked, by(flow(1)))]);
    for at in [4, 10, 16, 19, 40, 80] {
        let mut forged = genuine.clone();
        forged[at] ^= 1;
        world.say(&forged);
        world.step();
    }
    assert!(world.sent().is_empty());
    assert_eq!((world.node.stats().forged, world.node.stats().answers), (6, 0));
    world.say(&genuine);
    world.step();
    assert_eq!(numbers(world.sent()), [1]);
    let key = FlowOp::Remove(ObjectId::Flow(flow(1).key));
    assert!(world.ask(Subject::Session(SESSION), key).is_ok());
    world.say(&genuine);
    world.step();
    assert_eq!(world.node.stats().replayed, 1);
    assert_eq!(world.node.engine().stats().flows, 0);
}

#[test]
fn what_is_kept_is_bounded_and_what_finds_no_room_goes_whole_in_order() {
    let mut world = World::answering(|config| {
        config.engine.max_asking = 2;
        (config.engine.asked_packets, config.engine.asked_packets_per_key) = (4, 2);
    });
    world.holds_markers = true;
    for port in 1..4 {
        world.arrive(&uplink_numbered(port, port.into()));
    }
    world.step();
    assert_eq!((world.asked().len(), world.whole()), (2, vec![3]));
    // Another of the first one's ends, and one too many.
    world.arrive(&uplink_numbered(1, 11));
    world.arrive(&uplink_numbered(1, 21));
    world.step();
    assert_eq!(world.whole(), [1, 11, 21]);
    world.steps(Duration::from_millis(6));
    assert_eq!(world.whole(), [2]);
    let stats = world.asking();
    assert_eq!((stats.held, stats.keys, stats.no_room), (0, 0, 2));
}

#[test]
fn a_flood_by_one_port_leaves_room_for_first_packets_of_others() {
    let mut world = World::answering(|config| {
        config.engine.max_asking = 16;
        config.engine.asked_packets = 32;
    });
    world.holds_markers = true;
    for port in 1..30 {
        world.arrive(&uplink_numbered(port, port.into()));
    }
    world.step();
    assert_eq!(
        (world.asked().len(), world.asking().keys),
        (12, 12),
        "a quarter is the other's"
    );
    for last in 1..6 {
        world.arrive_by(
            CORE,
            &to(
                CORE,
                [8, 0],
                &UserPacket::udp(REMOTE, Ipv4Addr::new(10, 45, 9, last), 53, 1000).bytes(),
            ),
        );
    }
    world.step();
    assert_eq!((world.asked().len(), world.asking().keys), (4, 16));
    world.steps(Duration::from_millis(6));
    assert_eq!((world.asking().keys, world.asking().held), (0, 0));
}

#[test]
fn a_flow_of_a_whole_session_releases_all_that_it_is_right_for() {
    let mut world = World::answering(|_| {});
    for port in 1..5 {
        world.arrive(&uplink_numbered(port, port.into()));
    }
    world.step();
    let asked = world.asked();
    world.answer(&[(asked[2], by(wide()))]);
    assert_eq!(numbers(world.sent()), [1, 2, 3, 4]);
    world.answer(&[(asked[0], by(flow(1)))]);
    assert_eq!((world.asking().late, world.asking().installed), (1, 1));
    // One that was asked for by a request does so as well.
    world.arrive(&uplink_numbered(9, 9));
    world.step();
    assert_eq!(numbers(world.sent()), [9], "it has that flow");
    let mut world = World::answering(|_| {});
    world.arrive(&uplink_numbered(7, 7));
    world.step();
    world.give(Subject::Session(SESSION), Object::Flow(flow(7)));
    world.step();
    assert_eq!(numbers(world.sent()), [7]);
}

#[test]
fn without_contact_nothing_is_kept_and_each_packet_is_counted_once() {
    let mut world = World::answering(|_| {});
    for port in 1..4 {
        world.arrive(&uplink_numbered(port, port.into()));
    }
    world.step();
    let [asked, ..] = world.asked()[..] else {
        panic!("three")
    };
    let late = world.answers(&[(asked, by(flow(1)))]);
    let is_kept = world.asking().held;
    world.restart_host();
    world.until(|world| world.node.agent().stats().contacts == 2);
    assert_eq!((is_kept, world.asking().held), (3, 0));
    world.say(&late);
    world.step();
    assert_eq!(world.node.stats().forged, 1);
    let lost: u64 = world.node.stats().lost.iter().sum();
    let whole = world.whole().len() as u64;
    assert_eq!(lost + whole, 3);
    assert_eq!(world.node.engine().stats().path.held, 0);
    world.give_all();
    world.arrive(&uplink_numbered(1, 1));
    world.step();
    assert_eq!(world.asked().len(), 1);
}

#[test]
fn what_the_octets_do_not_decide_is_not_asked_about() {
    let mut world = World::answering(|_| {});
    world.holds_markers = true;
    let mut option = uplink_numbered(1, 1);
    option[50] = 0x46;
    let mut fragment = uplink_numbered(2, 2);
    fragment[50 + 6] = 0x20;
    for frame in [&mut option, &mut fragment] {
        frame[60..62].fill(0);
        let checksum = packet::checksum::of(&frame[50..70]);
        frame[60..62].copy_from_slice(&checksum.to_be_bytes());
        world.arrive(frame);
        world.step();
    }
    assert_eq!(world.asked(), []);
    let taken = world.take_exceptions();
    let reasons: Vec<_> = taken.iter().map(|(header, _)| header.reason).collect();
    assert_eq!(reasons.last(), Some(&Reason::NeedsReassembly), "{reasons:?}");
}

/// What waits at the host, in its order.
enum AtHost {
    Packet(Vec<u8>),
    Marker(u64),
}

/// What the host does about the oldest question.
#[derive(Clone, Copy, Debug)]
enum ToQuestion {
    Nothing,
    Narrow,
    Wide,
    Whole,
    Twice,
    Never,
}

/// A host with its own ideas of when it does what.
#[derive(Default)]
struct Run {
    at_host: VecDeque<AtHost>,
    questions: VecDeque<(u32, u16)>,
    sent: [Vec<u32>; 4],
}

impl Run {
    fn answer(&mut self, world: &mut World, what: ToQuestion) {
        if matches!(what, ToQuestion::Nothing) {
            return;
        }
        let Some((number, port)) = self.questions.pop_front() else {
            return;
        };
        let narrow = (number, by(flow(port)));
        let said = match what {
            ToQuestion::Nothing | ToQuestion::Never => return,
            ToQuestion::Narrow | ToQuestion::Twice => world.answers(&[narrow]),
            ToQuestion::Wide => world.answers(&[(number, by(wide()))]),
            ToQuestion::Whole => world.answers(&[(number, Answer::Whole)]),
        };
        world.say(&said);
        if matches!(what, ToQuestion::Twice) {
            let again = world.answers(&[narrow, narrow]);
            world.say(&said);
            world.say(&again);
        }
    }

    fn step(&mut self, world: &mut World, handled: usize) {
        for item in self.at_host.drain(..handled.min(self.at_host.len())) {
            match item {
                AtHost::Packet(packet) => {
                    let said = world.through(0, &packet, flow(u16::from(packet[71])));
                    world.say(&said);
                }
                AtHost::Marker(number) => world.echo(number),
            }
        }
        world.step();
        let taken = world.take_exceptions().into_iter();
        self.at_host
            .extend(taken.map(|(_, packet)| AtHost::Packet(packet)));
        self.at_host.extend(world.markers.drain(..).map(AtHost::Marker));
        let asked = world.questions.drain(..);
        self.questions
            .extend(asked.map(|(number, head)| (number, u16::from(head[71]))));
        for frame in world.sent() {
            self.sent[usize::from(frame[35])].push(number(&frame));
        }
    }
}

fn to_question() -> impl Strategy<Value = ToQuestion> {
    prop_oneof![
        3 => Just(ToQuestion::Nothing),
        3 => Just(ToQuestion::Narrow),
        1 => Just(ToQuestion::Wide),
        1 => Just(ToQuestion::Whole),
        1 => Just(ToQuestion::Twice),
        1 => Just(ToQuestion::Never),
    ]
}

/// Port, packets that arrive, what the host handles, a question, how long; whether flows are removed, and whether the
/// host's process is another then.
type Step = (u16, usize, usize, ToQuestion, u64, (bool, bool));

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rare = (prop::bool::weighted(0.05), prop::bool::weighted(0.02));
    let time = prop_oneof![8 => Just(0_u64), 1 => 0..300_u64];
    prop::collection::vec(
        (1..4_u16, 0..4_usize, 0..4_usize, to_question(), time, rare),
        1..120,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_the_host_answers_when_each_flow_keeps_its_order(
        steps in steps(),
        room in (1..5_usize, 1..12_usize, 1..6_u16),
        may_restart: bool,
    ) {
        let mut world = World::answering(|config| {
            (config.engine.max_asking, config.engine.asked_packets) = (room.0, room.1);
            config.engine.asked_packets_per_key = room.2;
        });
        world.holds_markers = true;
        let (mut run, mut arrived, mut has_restarted) = (Run::default(), [0_u32; 4], false);
        let session = Subject::Session(SESSION);
        let until_all_is_done = std::iter::repeat_n((1, 0, 8, ToQuestion::Narrow, 0, (false, false)), 900);
        for (port, arrivals, handled, what, wait, (removes, restarts)) in steps.into_iter().chain(until_all_is_done) {
            for _ in 0..arrivals {
                arrived[usize::from(port)] += 1;
                world.arrive(&uplink_numbered(port, arrived[usize::from(port)]));
            }
            run.answer(&mut world, what);
            run.step(&mut world, handled);
            (0..wait).for_each(|_| run.step(&mut world, 0));
            if removes && run.at_host.is_empty() {
                let _ = world.ask(session, FlowOp::Remove(ObjectId::Flows));
            }
            if restarts && may_restart {
                has_restarted = true;
                world.restart_host();
                let contacts = world.node.agent().stats().contacts;
                world.until(|world| world.node.agent().stats().contacts > contacts);
                world.give_all();
                // What the one before had is lost with it.
                run.at_host.clear();
                run.questions.clear();
                run.step(&mut world, 0);
            }
        }
        for (sent, arrived) in run.sent.iter().zip(arrived) {
            if has_restarted {
                prop_assert!(sent.is_sorted_by(|one, other| one < other), "{:?}", sent);
            } else {
                prop_assert_eq!(sent, &(1..=arrived).collect::<Vec<_>>());
            }
        }
        let stats = world.node.engine().stats();
        prop_assert_eq!((stats.asking.held, stats.asking.keys, stats.path.held), (0, 0, 0));
        prop_assert_eq!(stats.path.unaccounted(), 0);
    }
}
