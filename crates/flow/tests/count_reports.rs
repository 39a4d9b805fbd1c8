//! How often a backend reports counters by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use flow::contract::{
    AnyKey, Backend, CounterKind, Event, Fate, Flow, FlowOp, Notice, Object, PacketPath, Request, Subject,
};
use flow::local_backend::LocalBackend;
use flow::{
    Bounds, ContentId, FlowFlags, FlowKey4, Forward, ForwardKind, InstanceId, KeyFields, Nanos, OpId, Scope,
    Seed, SessionIndex, VrfId,
};

const SESSIONS: u32 = 500;

fn key(session: u32) -> AnyKey {
    AnyKey::V4(FlowKey4 {
        scope: Scope::plain(VrfId(1)),
        destination: session.to_be_bytes(),
        fields: KeyFields::ADDRESS,
        ..FlowKey4::default()
    })
}

/// What a session with one counter and one flow has.
fn objects(session: u32) -> [Object; 3] {
    let forward = Forward {
        kind: ForwardKind::Plain,
        egress: InstanceId(1),
        ..Forward::DROP
    };
    let flow = Flow {
        key: key(session),
        qers: 0,
        urrs: 1,
        idle: 100,
        flags: FlowFlags::NONE,
        forward: 0,
        marking: None,
        nat: None,
        content: ContentId::NONE,
        generation: 0,
    };
    let (slot, kind, bounds) = (0, CounterKind::default(), Bounds::NONE);
    [
        Object::Forward { slot, forward },
        Object::Counter { slot, kind, bounds },
        Object::Flow(flow),
    ]
}

/// The reports of a moment, by session.
fn reports(backend: &mut LocalBackend, now: Nanos) -> BTreeMap<SessionIndex, u64> {
    let mut all = BTreeMap::new();
    while let Some(notice) = backend.poll(now) {
        match notice {
            Notice::Event(Event::Counts { session, counts }) => {
                let twice = all.insert(session, counts[0].1.ul_packets);
                assert_eq!(twice, None, "it was reported a moment ago");
            }
            Notice::Reply(reply) => assert!(reply.outcome.is_ok(), "{reply:?}"),
            Notice::Event(other) => panic!("{other:?}"),
        }
    }
    all
}

#[test]
fn reports_of_many_sessions_are_spread_and_bounded() {
    let backend = LocalBackend::local(1024, 0, SESSIONS, Seed([1, 2])).expect("there is memory");
    let mut backend = backend.with_counts_every(Duration::from_millis(1));
    let mut now = Nanos::from_secs(1);
    let mut next = 0;
    for session in 0..SESSIONS {
        for object in objects(session) {
            next += 1;
            backend.submit(Request {
                id: OpId(next),
                epoch: backend.epoch(),
                subject: Subject::Session(SessionIndex(session)),
                op: FlowOp::Put(object),
            });
        }
    }
    assert!(reports(&mut backend, now).is_empty(), "none has counted");
    for round in 1..=2 {
        for session in 0..SESSIONS {
            let fate = backend.process(&key(session), 100, now);
            assert!(matches!(fate, Fate::Passed { .. }), "{fate:?}");
        }
        // A report takes 20 us: all of them 10 ms, however often the backend is polled.
        let mut all = BTreeMap::new();
        for _ in 0..1_000 {
            now = now + Duration::from_micros(10);
            let some = reports(&mut backend, now);
            assert!(some.len() <= 1, "{some:?}");
            for (session, packets) in some {
                assert_eq!(
                    all.insert(session, packets),
                    None,
                    "{session:?} twice in one turn"
                );
            }
        }
        assert_eq!(all.len() as u32, SESSIONS);
        assert!(all.values().all(|packets| *packets == round), "{all:?}");
    }
    // A backend that is polled late has what has changed to report, at once.
    backend.process(&key(7), 100, now);
    now = now + Duration::from_millis(20);
    assert_eq!(reports(&mut backend, now), BTreeMap::from([(SessionIndex(7), 3)]));
}
