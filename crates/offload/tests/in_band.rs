//! A backend that is driven in-band keeps the FlowOp contract, whatever the network does, and loses no more than it
//! says when contact is lost.

mod channels;
mod world;

use std::time::Duration;

use flow::conformance::{Driver, backends_agree, local};
use flow::contract::{
    AnyKey, Backend, Event, Fate, Flow, FlowOp, Notice, Object, ObjectId, Outcome, PacketPath, Refusal,
    Request, Subject,
};
use flow::{
    Bounds, ContentId, FlowFlags, FlowKey4, Forward, ForwardKind, KeyFields, OpId, Scope, SessionIndex, VrfId,
};

use world::{Faults, World};

fn quiet(seed: u64) -> Box<dyn PacketPath> {
    Box::new(World::new(seed, Faults::NONE))
}

fn lossy(seed: u64) -> Box<dyn PacketPath> {
    Box::new(World::new(seed, Faults::LOSSY))
}

flow::conformance! {
    in_band: super::quiet;
    in_band_over_a_lossy_network: super::lossy;
}

#[test]
fn it_agrees_with_the_local_backend() {
    backends_agree(
        24,
        [&|seed| Driver::new(local(seed)), &|seed| Driver::new(lossy(seed))],
    );
}

const SESSION: SessionIndex = SessionIndex(5);

fn key(last: u8) -> AnyKey {
    AnyKey::V4(FlowKey4 {
        scope: Scope::plain(VrfId(1)),
        destination: [10, 0, 0, last],
        fields: KeyFields::ADDRESS,
        ..FlowKey4::default()
    })
}

/// A session with a forward, a counter and a flow.
fn objects(last: u8) -> [Object; 3] {
    let forward = Forward {
        kind: ForwardKind::Plain,
        ..Forward::DROP
    };
    let flow = Flow {
        key: key(last),
        qers: 0,
        urrs: 1,
        idle: 1000,
        flags: FlowFlags::NONE,
        forward: 0,
        marking: None,
        nat: None,
        content: ContentId::NONE,
        generation: 0,
    };
    [
        Object::Forward { slot: 0, forward },
        Object::Counter {
            slot: 0,
            kind: Default::default(),
            bounds: Bounds::NONE,
        },
        Object::Flow(flow),
    ]
}

/// Gives a session to the accelerator, and waits until it is there.
fn give(world: &mut World, session: SessionIndex, last: u8) {
    for (number, object) in objects(last).into_iter().enumerate() {
        let outcome = world.ask(Request {
            id: OpId(1000 * u64::from(last) + number as u64),
            epoch: world.host.epoch(),
            subject: Subject::Session(session),
            op: FlowOp::Install(object),
        });
        assert_eq!(outcome, Ok(Outcome::Done));
    }
}

#[test]
fn when_the_accelerator_restarts_what_it_held_is_gone_and_the_host_is_told() {
    for seed in 0..20 {
        let mut world = World::new(seed, Faults::LOSSY);
        give(&mut world, SESSION, 1);
        assert!(matches!(
            world.process(&key(1), 100, world.now),
            Fate::Passed { .. }
        ));
        let before = world.host.epoch();
        // Requests are under way.
        for id in 1..6 {
            let op = FlowOp::Query(ObjectId::Session);
            world.host.submit(Request {
                id: OpId(id),
                epoch: before,
                subject: Subject::Session(SESSION),
                op,
            });
        }
        world.restart_accelerator();
        assert_eq!(
            world.process(&key(1), 100, world.now),
            Fate::Missed,
            "seed {seed}"
        );
        let (mut answered, mut events) = (0, Vec::new());
        for _ in 0..200_000 {
            match world.step() {
                Some(Notice::Reply(reply)) => {
                    answered += 1;
                    // One that was carried out before has its reply; all others are refused.
                    let is_counts = matches!(reply.outcome, Ok(Outcome::Counts(_)));
                    assert!(is_counts || reply.outcome == Err(Refusal::OtherEpoch));
                }
                Some(Notice::Event(event)) if !matches!(event, Event::Counts { .. }) => events.push(event),
                _ => {}
            }
            if answered == 5 && world.host.is_ready() && !events.is_empty() {
                break;
            }
        }
        let epoch = world.host.epoch();
        assert_eq!(answered, 5, "seed {seed}");
        assert_eq!(
            events,
            [Event::Unreachable, Event::BackendReset { epoch }],
            "seed {seed}"
        );
        give(&mut world, SESSION, 2);
        assert!(matches!(
            world.process(&key(2), 100, world.now),
            Fate::Passed { .. }
        ));
    }
}

#[test]
fn a_host_that_does_not_know_links_is_not_told_about_them() {
    let mut world = World::new(5, Faults::NONE);
    give(&mut world, SESSION, 1);
    world.agent.set_links_down(1);
    for _ in 0..2_000 {
        world.step();
    }
    assert_eq!(world.host.links_down(), Some(0));
    assert_eq!(world.host.stats().faults, 0);
    assert!(matches!(
        world.process(&key(1), 100, world.now),
        Fate::Passed { .. }
    ));
}

#[test]
fn without_the_host_no_packet_passes() {
    let mut world = World::new(3, Faults::NONE);
    give(&mut world, SESSION, 1);
    world.is_cut = true;
    let mut fate = world.process(&key(1), 100, world.now);
    assert!(matches!(fate, Fate::Passed { .. }));
    let until = world.network_now() + Duration::from_millis(60);
    while world.network_now() < until {
        world.step();
    }
    fate = world.process(&key(1), 100, world.now);
    assert_eq!(fate, Fate::Missed, "who would count it?");
    assert!(!world.host.is_ready());
    let refused = world.ask(Request {
        id: OpId(9),
        epoch: world.host.epoch(),
        subject: Subject::Session(SESSION),
        op: FlowOp::Fence,
    });
    assert_eq!(refused, Err(Refusal::OtherEpoch));
    world.is_cut = false;
    world.settle_contact();
    assert_eq!(world.host.stats().losses, 1);
    give(&mut world, SESSION, 1);
}

#[test]
fn many_requests_at_once_are_all_answered_and_more_are_refused() {
    let mut world = World::new(4, Faults::LOSSY);
    let epoch = world.host.epoch();
    for number in 0..6000u64 {
        let [forward, ..] = objects(1);
        world.host.submit(Request {
            id: OpId(number),
            epoch,
            subject: Subject::Session(SessionIndex((number % 16) as u32)),
            op: FlowOp::Put(forward),
        });
    }
    let (mut done, mut full) = (0, 0);
    for _ in 0..400_000 {
        match world.step() {
            Some(Notice::Reply(reply)) if reply.outcome == Ok(Outcome::Done) => done += 1,
            Some(Notice::Reply(reply)) => {
                assert_eq!(reply.outcome, Err(Refusal::Full));
                full += 1;
            }
            _ => {}
        }
        if done + full == 6000 {
            break;
        }
    }
    assert_eq!((done, full), (4096, 6000 - 4096));
    assert_eq!(world.host.outstanding(), 0);
}
