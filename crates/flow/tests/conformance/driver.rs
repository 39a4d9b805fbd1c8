//! The driver of a backend, and the objects that the suite gives it.

use std::collections::HashMap;

use flow::contract::{
    AnyKey, Backend, Epoch, Event, Fate, Flow, FlowOp, Notice, Object, Outcome, Refusal, Request,
};
use flow::fake_accelerator::FakeAccelerator;
use flow::local_backend::LocalBackend;
use flow::meter::{Colour, MeterSpec, Rate};
use flow::{
    AdjacencyId, Bounds, Direction, FlowFlags, FlowKey4, Forward, ForwardKind, KeyFields, Mark, Nanos, OpId,
    Scope, Seed, SessionIndex, UrrCount, VrfId,
};

pub fn local(seed: u64) -> Box<dyn Backend> {
    Box::new(LocalBackend::new(64, 0, 16, Seed([seed, 1])).unwrap())
}

pub fn fake(seed: u64) -> Box<dyn Backend> {
    Box::new(FakeAccelerator::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

pub type Make<'a> = &'a dyn Fn(u64) -> Driver;

pub const A: SessionIndex = SessionIndex(3);

/// A backend, and its driver.
pub struct Driver {
    pub backend: Box<dyn Backend>,
    pub next: u64,
    pub now: Nanos,
    pub replies: HashMap<OpId, Result<Outcome, Refusal>>,
    pub awaited: usize,
    pub events: Vec<Event>,
}

impl Driver {
    pub fn new(backend: Box<dyn Backend>) -> Self {
        Self {
            backend,
            next: 1,
            now: Nanos::from_secs(1),
            replies: HashMap::new(),
            awaited: 0,
            events: Vec::new(),
        }
    }

    pub fn submit_in(&mut self, epoch: Epoch, session: SessionIndex, op: FlowOp) -> OpId {
        let id = OpId(self.next);
        self.next += 1;
        self.awaited += 1;
        self.backend.submit(Request {
            id,
            epoch,
            session,
            op,
        });
        id
    }

    pub fn submit(&mut self, session: SessionIndex, op: FlowOp) -> OpId {
        self.submit_in(self.backend.epoch(), session, op)
    }

    pub fn poll(&mut self) {
        self.now.0 += 1000;
        match self.backend.poll(self.now) {
            Some(Notice::Reply(reply)) => {
                let twice = self.replies.insert(reply.id, reply.outcome);
                assert_eq!(twice, None, "a request was answered twice");
                self.awaited -= 1;
            }
            Some(Notice::Event(event)) => self.events.push(event),
            None => {}
        }
    }

    /// Until all is answered and reported.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.awaited == 0 {
                break;
            }
            self.poll();
        }
        assert_eq!(self.awaited, 0, "requests are left unanswered");
        (0..400).for_each(|_| self.poll());
    }

    pub fn ask(&mut self, session: SessionIndex, op: FlowOp) -> Result<Outcome, Refusal> {
        let id = self.submit(session, op);
        self.settle();
        self.replies.remove(&id).unwrap()
    }

    pub fn install(&mut self, object: Object) -> Result<Outcome, Refusal> {
        self.ask(A, FlowOp::Install(object))
    }

    pub fn update(&mut self, object: Object) -> Result<Outcome, Refusal> {
        self.ask(A, FlowOp::Update(object))
    }

    pub fn counts(&mut self, op: FlowOp) -> Vec<(u8, UrrCount)> {
        match self.ask(A, op) {
            Ok(Outcome::Counts(counts)) => counts,
            other => panic!("no counts but {other:?}"),
        }
    }

    pub fn send(&mut self, key: AnyKey, octets: u32) -> Fate {
        self.now.0 += 1000;
        self.backend.process(&key, octets, self.now)
    }

    /// A session with one forward, one QER without meters, one counter, and the flows `key(0)` up, `key(1)` down.
    pub fn open(&mut self, bounds: Bounds) {
        for object in [forward(1), qer(0, [false; 2]), counter(0, bounds)] {
            assert_eq!(self.install(object), Ok(Outcome::Done));
        }
        for number in [0, 1] {
            assert_eq!(self.install(Object::Flow(flow(number))), Ok(Outcome::Done));
        }
    }

    pub fn take_events(&mut self) -> Vec<Event> {
        self.settle();
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| format!("{event:?}"));
        events
    }
}

pub fn key(number: u8) -> AnyKey {
    AnyKey::V4(FlowKey4 {
        scope: Scope::plain(VrfId(1)),
        destination: [10, 0, 0, number],
        fields: KeyFields::ADDRESS,
        ..FlowKey4::default()
    })
}

/// Downlink if the number is odd.
pub fn flow(number: u8) -> Flow {
    Flow {
        key: key(number),
        qers: 1,
        urrs: 1,
        idle: 100,
        flags: FlowFlags::NONE.with_if(FlowFlags::DOWNLINK, number % 2 == 1),
        forward: 0,
        marking: None,
        nat: None,
    }
}

pub fn plain(adjacency: u32) -> Forward {
    Forward {
        kind: ForwardKind::Plain,
        adjacency: AdjacencyId(adjacency),
        ..Forward::DROP
    }
}

/// The forward in slot 0, known by its adjacency.
pub fn forward(adjacency: u32) -> Object {
    Object::Forward {
        slot: 0,
        forward: plain(adjacency),
    }
}

pub fn qer(slot: u8, metered: [bool; 2]) -> Object {
    Object::Qer {
        slot,
        mark: Mark::qfi_only(slot),
        closed: [false; 2],
        metered,
    }
}

pub fn meter(qer: u8, direction: Direction, burst: u64) -> Object {
    Object::Meter {
        qer,
        direction,
        spec: MeterSpec::Single {
            rate: Rate::ZERO,
            burst,
        },
        state: None,
    }
}

pub fn counter(slot: u8, bounds: Bounds) -> Object {
    Object::Counter { slot, bounds }
}

pub fn passed(adjacency: u32) -> Fate {
    Fate::Passed {
        forward: plain(adjacency),
        mark: Mark::NONE,
        colour: Colour::Green,
        nat: None,
    }
}

pub fn octets(counts: &[(u8, UrrCount)]) -> u64 {
    counts
        .iter()
        .map(|(_, count)| count.ul_octets + count.dl_octets)
        .sum()
}

pub fn packets(counts: &[(u8, UrrCount)]) -> u64 {
    counts
        .iter()
        .map(|(_, count)| count.ul_packets + count.dl_packets)
        .sum()
}
