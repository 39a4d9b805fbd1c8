//! A host with several workers: a channel for each, one backend. It keeps the contract by whichever channel a session
//! is driven, and what one worker has given ends with its contact.

mod world;

use std::time::Duration;

use flow::conformance::{Driver, backends_agree, local};
use flow::contract::{
    Backend, Event, Fate, FlowOp, Notice, Object, ObjectId, Outcome, PacketPath, Refusal, Request, Subject,
};
use flow::{InstanceId, OpId, SessionIndex};
use offload::channel::Discard;
use offload::in_band::InBand;

use self::world::{Channels, Drawn};
use super::world::Faults;
use super::{key, objects};

fn two(seed: u64) -> Box<dyn PacketPath> {
    Box::new(Channels::new(2, seed, Faults::LOSSY))
}

fn five(seed: u64) -> Box<dyn PacketPath> {
    Box::new(Channels::new(5, seed, Faults::LOSSY))
}

flow::conformance! {
    in_band_by_two_channels_over_a_lossy_network: super::two;
    in_band_by_five_channels_over_a_lossy_network: super::five;
}

#[test]
fn they_agree_with_the_local_backend() {
    for make in [two as fn(u64) -> _, five] {
        backends_agree(
            12,
            [&|seed| Driver::new(local(seed)), &|seed| Driver::new(make(seed))],
        );
    }
}

/// Gives a session to the accelerator by a channel: the outcome of each object.
fn give(
    world: &mut Channels,
    place: usize,
    session: SessionIndex,
    last: u8,
) -> Vec<Result<Outcome, Refusal>> {
    let give = |object| world.ask(place, Subject::Session(session), FlowOp::Install(object));
    objects(last).into_iter().map(give).collect()
}

const DONE: Result<Outcome, Refusal> = Ok(Outcome::Done);
const ONE: SessionIndex = SessionIndex(4);
const OTHER: SessionIndex = SessionIndex(5);

fn passes(world: &mut Channels, last: u8) -> bool {
    matches!(world.process(&key(last), 100, world.now), Fate::Passed { .. })
}

#[test]
fn requests_with_one_number_are_answered_each_by_its_channel() {
    let mut world = Channels::new(2, 3, Faults::LOSSY);
    let epoch = world.epoch();
    for (place, session) in [(0, ONE), (1, OTHER)] {
        let [forward, ..] = objects(1);
        world.hosts[place].submit(Request {
            id: OpId(77),
            epoch,
            subject: Subject::Session(session),
            op: FlowOp::Install(forward),
        });
    }
    let mut answered = [0; 2];
    for _ in 0..2_000 {
        world.work();
        let network = world.network;
        for (host, answered) in world.hosts.iter_mut().zip(&mut answered) {
            while let Some(notice) = host.poll(network) {
                if let Notice::Reply(reply) = notice {
                    assert_eq!((reply.id, reply.outcome), (OpId(77), DONE));
                    *answered += 1;
                }
            }
        }
    }
    assert_eq!(answered, [1, 1]);
}

#[test]
fn a_session_is_the_channels_that_gave_it_until_it_is_removed_there() {
    for seed in 0..5 {
        let mut world = Channels::new(2, seed, Faults::LOSSY);
        assert_eq!(give(&mut world, 0, ONE, 1), [DONE, DONE, DONE]);
        assert!(passes(&mut world, 1));
        let refused = Err(Refusal::Exists);
        assert_eq!(
            give(&mut world, 1, ONE, 2),
            [refused.clone(), refused.clone(), refused]
        );
        assert!(world.agent.owns(0, ONE) && !world.agent.owns(1, ONE));
        let subject = Subject::Session(ONE);
        let [forward, ..] = objects(1);
        for op in [
            FlowOp::Update(forward),
            FlowOp::Query(ObjectId::Session),
            FlowOp::Remove(ObjectId::Session),
        ] {
            assert_eq!(world.ask(1, subject, op), Err(Refusal::Missing));
        }
        assert!(passes(&mut world, 1), "nothing of it has changed");
        let counts = world.ask(0, subject, FlowOp::Remove(ObjectId::Session));
        let Ok(Outcome::Counts(counts)) = counts else {
            panic!("{counts:?}");
        };
        let counted: u64 = counts.iter().map(|(_, count)| count.ul_packets).sum();
        assert_eq!(counted, 2, "these are the final ones");
        assert_eq!(give(&mut world, 1, ONE, 1), [DONE, DONE, DONE]);
        assert!(passes(&mut world, 1));
        let counts = world.ask(1, subject, FlowOp::Remove(ObjectId::Session));
        let Ok(Outcome::Counts(counts)) = counts else {
            panic!("{counts:?}");
        };
        let counted: u64 = counts.iter().map(|(_, count)| count.ul_packets).sum();
        assert_eq!(counted, 1, "no packet is counted by both");
    }
}

#[test]
fn what_is_refused_leaves_no_session_behind() {
    let mut world = Channels::new(2, 9, Faults::NONE);
    let subject = Subject::Session(ONE);
    let [_, _, flow] = objects(1);
    // There is nothing that it names.
    let refused = world.ask(0, subject, FlowOp::Install(flow));
    assert_eq!(refused, Err(Refusal::Missing));
    let removed = world.ask(0, subject, FlowOp::Remove(ObjectId::Session));
    assert_eq!(removed, Err(Refusal::Missing));
    assert_eq!(give(&mut world, 1, ONE, 1), [DONE, DONE, DONE]);
}

fn route(instance: u16) -> Object {
    Object::Route(flow::contract::Route {
        prefix: flow::contract::RoutePrefix {
            vrf: flow::VrfId(1),
            prefix: [10, 1, 0, 0].into(),
            length: 16,
        },
        target: flow::contract::RouteTarget::Link(InstanceId(instance)),
    })
}

#[test]
fn all_channels_say_the_same_of_the_node_and_the_last_word_counts() {
    let mut world = Channels::new(2, 5, Faults::LOSSY);
    let id = route(1).id();
    for place in [0, 1, 0] {
        assert_eq!(world.ask(place, Subject::Node, FlowOp::Put(route(1))), DONE);
    }
    for place in [1, 0] {
        assert_eq!(world.ask(place, Subject::Node, FlowOp::Remove(id)), DONE);
    }
    for place in [1, 0] {
        let gone = world.ask(place, Subject::Node, FlowOp::Remove(id));
        assert_eq!(gone, Err(Refusal::Missing));
    }
    assert_eq!(world.ask(0, Subject::Node, FlowOp::Put(route(2))), DONE);
}

#[test]
fn what_one_channel_removes_of_the_node_stays_for_the_others() {
    for seed in 0..10 {
        let mut world = Channels::new(3, seed, Faults::LOSSY);
        let (node, id) = (Subject::Node, route(1).id());
        for place in [0, 1, 2] {
            assert_eq!(world.ask(place, node, FlowOp::Put(route(1))), DONE);
        }
        // A worker that stood still says what the others have said before, and its contact ends amid that.
        assert_eq!(world.ask(2, node, FlowOp::Remove(id)), DONE);
        assert_eq!(world.ask(0, node, FlowOp::Query(id)), DONE, "seed {seed}");
        world.is_cut[2] = true;
        events(&mut world, 1_200);
        assert_eq!(world.ask(0, node, FlowOp::Query(id)), DONE, "seed {seed}");
        world.is_cut[2] = false;
        world.settle_contact();
        assert_eq!(world.ask(2, node, FlowOp::Put(route(2))), DONE);
        for place in [0, 2, 1] {
            assert_eq!(world.ask(2, node, FlowOp::Query(id)), DONE, "seed {seed}");
            assert_eq!(world.ask(place, node, FlowOp::Remove(id)), DONE);
        }
        let gone = world.ask(2, node, FlowOp::Query(id));
        assert_eq!(gone, Err(Refusal::Missing), "seed {seed}");
    }
}

#[test]
fn an_object_of_the_node_stays_for_a_channel_that_was_refused() {
    let mut world = Channels::new(3, 6, Faults::LOSSY);
    let (node, id) = (Subject::Node, route(1).id());
    let missing = Err(Refusal::Missing);
    assert_eq!(world.ask(0, node, FlowOp::Update(route(1))), missing);
    assert_eq!(world.ask(1, node, FlowOp::Put(route(1))), DONE);
    let exists = Err(Refusal::Exists);
    assert_eq!(world.ask(2, node, FlowOp::Install(route(1))), exists);
    for (place, stays) in [(1, true), (2, true), (0, false)] {
        assert_eq!(world.ask(place, node, FlowOp::Remove(id)), DONE);
        assert_eq!(world.ask(1, node, FlowOp::Query(id)) == DONE, stays, "{place}");
    }
}

/// All that was reported to each host, but for counts and replies.
fn events(world: &mut Channels, steps: usize) -> Vec<Vec<Event>> {
    let mut events = vec![Vec::new(); world.hosts.len()];
    for _ in 0..steps {
        world.work();
        let network = world.network;
        for (host, events) in world.hosts.iter_mut().zip(&mut events) {
            while let Some(notice) = host.poll(network) {
                match notice {
                    Notice::Event(Event::Counts { .. }) | Notice::Reply(_) => {}
                    Notice::Event(event) => events.push(event),
                }
            }
        }
    }
    events
}

#[test]
fn when_one_contact_ends_its_sessions_are_gone_and_the_others_go_on() {
    for seed in 0..10 {
        let mut world = Channels::new(3, seed, Faults::LOSSY);
        assert_eq!(give(&mut world, 0, ONE, 1), [DONE, DONE, DONE]);
        assert_eq!(give(&mut world, 2, OTHER, 2), [DONE, DONE, DONE]);
        assert!(passes(&mut world, 1) && passes(&mut world, 2));
        let epoch = world.epoch();
        world.is_cut[2] = true;
        let said = events(&mut world, 1_200);
        assert_eq!(world.epoch(), epoch, "seed {seed}");
        assert_eq!((&said[0][..], &said[1][..]), (&[][..], &[][..]), "seed {seed}");
        assert_eq!(said[2], [Event::Unreachable], "seed {seed}");
        assert!(passes(&mut world, 1) && !passes(&mut world, 2), "seed {seed}");
        assert!(world.agent.owns(0, ONE) && !world.agent.owns(2, OTHER));
        assert_eq!([0, 2].map(|place| world.agent.sessions_by(place)), [1, 0]);
        // Another worker may have its sessions at once.
        assert_eq!(give(&mut world, 1, OTHER, 2), [DONE, DONE, DONE]);
        world.is_cut[2] = false;
        world.settle_contact();
        assert_eq!(world.epoch(), epoch, "it finds what there is");
        assert!(passes(&mut world, 1) && passes(&mut world, 2));
        let counts = world.ask(1, Subject::Session(OTHER), FlowOp::Remove(ObjectId::Session));
        let Ok(Outcome::Counts(counts)) = counts else {
            panic!("{counts:?}");
        };
        let counted: u64 = counts.iter().map(|(_, count)| count.ul_packets).sum();
        assert_eq!(counted, 1, "nothing of the first one's counts");
    }
}

#[test]
fn when_all_contacts_have_ended_nothing_is_left() {
    for seed in 0..10 {
        let mut world = Channels::new(2, seed, Faults::LOSSY);
        assert_eq!(give(&mut world, 1, ONE, 1), [DONE, DONE, DONE]);
        assert_eq!(world.ask(1, Subject::Node, FlowOp::Put(route(3))), DONE);
        let before = world.epoch();
        world.is_cut.fill(true);
        events(&mut world, 1_200);
        assert!(!passes(&mut world, 1), "seed {seed}");
        world.is_cut.fill(false);
        world.settle_contact();
        assert_ne!(world.epoch(), before, "seed {seed}");
        let gone = world.ask(0, Subject::Node, FlowOp::Remove(route(3).id()));
        assert_eq!(gone, Err(Refusal::Missing), "seed {seed}");
    }
}

#[test]
fn what_one_channel_alone_has_said_of_the_node_ends_with_its_contact() {
    for seed in 0..10 {
        let mut world = Channels::new(3, seed, Faults::LOSSY);
        let Object::Route(mut another) = route(1) else {
            unreachable!()
        };
        another.prefix.prefix = [10, 2, 0, 0].into();
        let another = Object::Route(another);
        for place in [1, 2] {
            assert_eq!(world.ask(place, Subject::Node, FlowOp::Put(route(1))), DONE);
        }
        assert_eq!(world.ask(2, Subject::Node, FlowOp::Put(another.clone())), DONE);
        world.is_cut[2] = true;
        events(&mut world, 1_200);
        let said = world.ask(0, Subject::Node, FlowOp::Remove(another.id()));
        assert_eq!(said, Err(Refusal::Missing), "seed {seed}");
        let said = world.ask(1, Subject::Node, FlowOp::Remove(route(1).id()));
        assert_eq!(said, DONE, "seed {seed}");
        let said = world.ask(0, Subject::Node, FlowOp::Remove(route(1).id()));
        assert_eq!(said, Err(Refusal::Missing), "seed {seed}");
    }
}

#[test]
fn requests_that_a_contact_leaves_behind_change_nothing_that_comes_later() {
    for seed in 0..20 {
        let mut world = Channels::new(2, seed, Faults::LOSSY);
        assert_eq!(give(&mut world, 0, ONE, 1), [DONE, DONE, DONE]);
        let epoch = world.hosts[1].epoch();
        for session in 10..40 {
            for object in objects(session as u8) {
                world.hosts[1].submit(Request {
                    id: OpId(1 << 50),
                    epoch,
                    subject: Subject::Session(SessionIndex(session)),
                    op: FlowOp::Put(object),
                });
            }
        }
        (0..20 + seed * 7).for_each(|_| drop(world.step()));
        world.hosts[1].channel_mut().disconnect(world.network);
        (0..1_200).for_each(|_| drop(world.step()));
        world.settle_contact();
        assert_eq!(world.agent.sessions_by(1), 0, "seed {seed}");
        let left: Vec<u8> = (10..40).filter(|last| passes(&mut world, *last)).collect();
        assert_eq!(left, [], "seed {seed}");
        assert!(passes(&mut world, 1), "seed {seed}");
    }
}

#[test]
fn another_process_takes_the_hosts_place_whole() {
    for seed in 0..10 {
        let mut world = Channels::new(3, seed, Faults::LOSSY);
        assert_eq!(give(&mut world, 1, ONE, 1), [DONE, DONE, DONE]);
        assert_eq!(world.ask(2, Subject::Node, FlowOp::Put(route(1))), DONE);
        let before = world.epoch();
        world.restart_host(3);
        world.settle_contact();
        assert!(!passes(&mut world, 1), "seed {seed}");
        assert_ne!(world.epoch(), before, "seed {seed}");
        let gone = world.ask(0, Subject::Node, FlowOp::Remove(route(1).id()));
        assert_eq!(gone, Err(Refusal::Missing), "seed {seed}");
        assert_eq!(give(&mut world, 2, ONE, 1), [DONE, DONE, DONE], "seed {seed}");
        assert!(passes(&mut world, 1));
        // One with fewer workers, and one with more.
        for channels in [2, 3] {
            world.restart_host(channels);
            world.settle_contact();
            assert_eq!(world.agent.channels(), channels, "seed {seed}");
            assert!(!passes(&mut world, 1));
        }
    }
}

#[test]
fn restarts_of_either_end_in_any_order_end_in_contact() {
    for seed in 0..40 {
        let mut draw = Drawn(seed * 7 + 1);
        let mut world = Channels::new(2, seed, Faults::LOSSY);
        for _ in 0..8 {
            match draw.below(4) {
                0 => world.restart_accelerator(),
                1 => world.restart_host(1 + draw.below(4) as usize),
                2 => {
                    let place = draw.below(world.hosts.len() as u64) as usize;
                    world.is_cut[place] = true;
                }
                _ => world.is_cut.fill(false),
            }
            for _ in 0..draw.below(1_500) {
                world.step();
            }
        }
        world.is_cut.fill(false);
        world.settle_contact();
        let last = world.hosts.len() - 1;
        assert_eq!(give(&mut world, last, ONE, 1), [DONE, DONE, DONE], "seed {seed}");
        assert!(passes(&mut world, 1), "seed {seed}");
    }
}

#[test]
fn no_frame_of_one_channel_is_taken_on_another() {
    let mut world = Channels::new(2, 11, Faults::NONE);
    world.record = true;
    assert_eq!(give(&mut world, 0, ONE, 1), [DONE, DONE, DONE]);
    assert_eq!(give(&mut world, 1, OTHER, 2), [DONE, DONE, DONE]);
    let recorded = std::mem::take(&mut world.recorded);
    assert!(recorded.len() > 10);
    world.record = false;
    let network = world.network;
    for (is_to_host, frame) in recorded {
        let number = frame[14 + 2];
        let other = 1 - number;
        for relabelled in [false, true] {
            let mut frame = frame.clone();
            if relabelled {
                frame[14 + 2] = other;
            }
            let channel = match is_to_host {
                true => world.hosts[usize::from(other)].channel_mut(),
                false => world
                    .agent
                    .channel_at_mut(usize::from(other))
                    .expect("there are two"),
            };
            let discarded = channel.receive(&frame, network).expect_err("it is the other's");
            let allowed = match relabelled {
                false => [Discard::Channel; 3],
                true => [Discard::Mac, Discard::Handshake, Discard::HelloRate],
            };
            assert!(allowed.contains(&discarded), "{discarded:?}");
        }
    }
    assert!(passes(&mut world, 1) && passes(&mut world, 2));
}

/// Frames of the first channel and of another host's end of it, until there is contact. The accelerator does not work
/// meanwhile.
fn meet(world: &mut Channels, other: &mut InBand) {
    let mut frame = Vec::new();
    for _ in 0..2_000 {
        world.network = world.network + Duration::from_micros(100);
        let now = world.network;
        while other.channel_mut().poll_transmit(now, &mut frame) {
            world.arrive_there(&frame);
        }
        while world.agent.channel_mut().poll_transmit(now, &mut frame) {
            let _ = other.channel_mut().receive(&frame, now);
        }
        if other.channel().is_up() && world.agent.channel().is_up() {
            return;
        }
    }
    panic!("no contact");
}

#[test]
fn a_contact_that_is_over_says_nothing_about_the_others() {
    let mut world = Channels::new(3, 17, Faults::NONE);
    assert_eq!(give(&mut world, 1, ONE, 1), [DONE, DONE, DONE]);
    let before = world.agent.stats().contacts;
    let now = world.now;
    world.agent.channel_mut().disconnect(world.network);
    world.agent.poll(now);
    // Both events are there when the accelerator works next.
    let mut other = world.a_host_of(1, 0, 4_000);
    meet(&mut world, &mut other);
    world.agent.channel_mut().disconnect(world.network);
    world.agent.poll(now);
    assert_eq!(world.agent.stats().contacts, before + 1);
    assert_eq!(world.agent.channels(), 3);
    let served = [0, 1, 2].map(|place| world.agent.is_served_by(place));
    assert_eq!(served, [false, true, true], "theirs continues");
    assert!(passes(&mut world, 1), "so do its sessions");
    world.settle_contact();
    assert_eq!(world.agent.channels(), 3);
    assert!(passes(&mut world, 1));
}

#[test]
fn each_channel_has_its_turn() {
    let mut world = Channels::new(5, 19, Faults::NONE);
    let before: Vec<u64> = (0..5).map(|place| world.agent.requests_by(place)).collect();
    for place in 0..5 {
        let epoch = world.hosts[place].epoch();
        for number in 0..400 {
            world.hosts[place].submit(Request {
                id: OpId(1 << 50 | number),
                epoch,
                subject: Subject::Node,
                op: FlowOp::Fence,
            });
        }
    }
    let mut last = world.agent.stats().requests;
    let mut most = 0;
    for _ in 0..4_000 {
        world.step();
        most = most.max(world.agent.stats().requests - last);
        last = world.agent.stats().requests;
    }
    assert!((5..=64).contains(&most), "{most} at once, of all channels");
    for (place, before) in before.into_iter().enumerate() {
        assert_eq!(world.agent.requests_by(place) - before, 400);
    }
}

#[test]
fn a_channel_that_no_host_has_announced_gets_no_response() {
    let mut world = Channels::new(1, 13, Faults::NONE);
    let before = world.agent.channel().stats().discards;
    let mut stranger = world.a_host_of(3, 1, 4_000);
    let mut frame = Vec::new();
    for _ in 0..200 {
        world.step();
        while stranger.channel_mut().poll_transmit(world.network, &mut frame) {
            assert_eq!(world.agent.place_of(frame[14 + 2]), None);
            world.arrive_there(&frame);
        }
    }
    let after = world.agent.channel().stats().discards;
    let of = |discards: [u64; Discard::ALL.len()]| discards[Discard::Channel as usize];
    assert!(of(after) > of(before));
    assert_eq!(world.agent.channels(), 1);
    assert!(!world.agent.is_served_by(1));
}

/// What workers know of the accelerator's links when it has had the time to say it.
fn links_down(world: &mut Channels) -> Vec<Option<u64>> {
    for _ in 0..2_000 {
        world.step();
    }
    world.hosts.iter().map(InBand::links_down).collect()
}

#[test]
fn the_first_worker_is_told_about_links_whenever_they_change_and_in_each_contact() {
    for seed in 0..5 {
        let mut world = Channels::new(2, seed, Faults::LOSSY);
        assert_eq!(links_down(&mut world), [Some(0), Some(0)], "all are up");
        world.agent.set_links_down(0b101);
        assert_eq!(links_down(&mut world), [Some(0b101), Some(0)]);
        world.restart_host(2);
        assert_eq!(world.hosts[0].links_down(), None, "there is no contact");
        world.settle_contact();
        assert_eq!(links_down(&mut world), [Some(0b101), Some(0)]);
        world.agent.set_links_down(0);
        assert_eq!(links_down(&mut world), [Some(0), Some(0)]);
    }
}
