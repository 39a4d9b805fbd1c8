//! The driver of a backend, and the objects that the suite gives it.

use std::collections::HashMap;

use crate::contract::{
    AnyKey, CounterKind, Epoch, Event, Fate, Flow, FlowOp, Notice, Object, Outcome, PacketPath, Refusal,
    Request, Subject,
};
use crate::fake_accelerator::FakeAccelerator;
use crate::local_backend::LocalBackend;
use crate::meter::{Colour, MeterSpec, Rate};
use crate::{
    Bounds, ContentId, Direction, FlowFlags, FlowKey4, Forward, ForwardKind, InstanceId, KeyFields, Mark,
    Nanos, OpId, Scope, Seed, SessionIndex, UrrCount, VrfId,
};

/// The local backend, small.
///
/// # Panics
/// Without memory.
pub fn local(seed: u64) -> Box<dyn PacketPath> {
    Box::new(LocalBackend::local(64, 0, 16, Seed([seed, 1])).unwrap())
}

/// The fake accelerator.
pub fn fake(seed: u64) -> Box<dyn PacketPath> {
    Box::new(FakeAccelerator::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// Makes the backend that a promise is held against, with its driver; all whims follow from the seed.
pub type Make<'a> = &'a dyn Fn(u64) -> Driver;

pub(super) const A: SessionIndex = SessionIndex(3);

/// A backend, and its driver.
pub struct Driver {
    pub(super) backend: Box<dyn PacketPath>,
    pub(super) next: u64,
    pub(super) now: Nanos,
    pub(super) replies: HashMap<OpId, Result<Outcome, Refusal>>,
    pub(super) awaited: usize,
    pub(super) events: Vec<Event>,
    /// What was reported of counters.
    pub(super) counts: HashMap<SessionIndex, HashMap<u8, UrrCount>>,
}

impl Driver {
    /// A driver that has asked nothing yet.
    pub fn new(backend: Box<dyn PacketPath>) -> Self {
        Self {
            backend,
            next: 1,
            now: Nanos::from_secs(1),
            replies: HashMap::new(),
            awaited: 0,
            events: Vec::new(),
            counts: HashMap::new(),
        }
    }

    pub(super) fn submit_in(&mut self, epoch: Epoch, session: SessionIndex, op: FlowOp) -> OpId {
        self.submit_of(epoch, Subject::Session(session), op)
    }

    pub(super) fn submit_of(&mut self, epoch: Epoch, subject: Subject, op: FlowOp) -> OpId {
        let id = OpId(self.next);
        self.next += 1;
        self.awaited += 1;
        self.backend.submit(Request {
            id,
            epoch,
            subject,
            op,
        });
        id
    }

    pub(super) fn submit(&mut self, session: SessionIndex, op: FlowOp) -> OpId {
        self.submit_in(self.backend.epoch(), session, op)
    }

    pub(super) fn poll(&mut self) {
        self.now.0 += 1000;
        match self.backend.poll(self.now) {
            Some(Notice::Reply(reply)) => {
                let twice = self.replies.insert(reply.id, reply.outcome);
                assert_eq!(twice, None, "a request was answered twice");
                self.awaited -= 1;
            }
            // They come when they come, also where nothing else does: `counts` has the last ones.
            Some(Notice::Event(Event::Counts { session, counts })) => {
                let of_session = self.counts.entry(session).or_default();
                of_session.extend(counts);
            }
            Some(Notice::Event(event)) => self.events.push(event),
            None => {}
        }
    }

    /// Until all is answered and reported.
    pub(super) fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.awaited == 0 {
                break;
            }
            self.poll();
        }
        assert_eq!(self.awaited, 0, "requests are left unanswered");
        (0..400).for_each(|_| self.poll());
    }

    pub(super) fn ask(&mut self, session: SessionIndex, op: FlowOp) -> Result<Outcome, Refusal> {
        let id = self.submit(session, op);
        self.settle();
        self.replies.remove(&id).unwrap()
    }

    pub(super) fn ask_of_node(&mut self, op: FlowOp) -> Result<Outcome, Refusal> {
        let id = self.submit_of(self.backend.epoch(), Subject::Node, op);
        self.settle();
        self.replies.remove(&id).unwrap()
    }

    pub(super) fn install(&mut self, object: Object) -> Result<Outcome, Refusal> {
        self.ask(A, FlowOp::Install(object))
    }

    pub(super) fn update(&mut self, object: Object) -> Result<Outcome, Refusal> {
        self.ask(A, FlowOp::Update(object))
    }

    pub(super) fn ask_counts(&mut self, op: FlowOp) -> Vec<(u8, UrrCount)> {
        match self.ask(A, op) {
            Ok(Outcome::Counts(counts)) => counts,
            other => panic!("no counts but {other:?}"),
        }
    }

    pub(super) fn send(&mut self, key: AnyKey, octets: u32) -> Fate {
        self.now.0 += 1000;
        self.backend.process(&key, octets, self.now)
    }

    /// A session with one forward, one QER without meters, one counter, and the flows `key(0)` up, `key(1)` down.
    pub(super) fn open(&mut self, bounds: Bounds) {
        for object in [forward(1), qer(0, [false; 2]), counter(0, bounds)] {
            assert_eq!(self.install(object), Ok(Outcome::Done));
        }
        for number in [0, 1] {
            assert_eq!(self.install(Object::Flow(flow(number))), Ok(Outcome::Done));
        }
    }

    pub(super) fn take_events(&mut self) -> Vec<Event> {
        self.settle();
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| format!("{event:?}"));
        events
    }
}

pub(super) fn key(number: u8) -> AnyKey {
    AnyKey::V4(FlowKey4 {
        scope: Scope::plain(VrfId(1)),
        destination: [10, 0, 0, number],
        fields: KeyFields::ADDRESS,
        ..FlowKey4::default()
    })
}

/// Downlink if the number is odd.
pub(super) fn flow(number: u8) -> Flow {
    Flow {
        key: key(number),
        qers: 1,
        urrs: 1,
        idle: 100,
        flags: FlowFlags::NONE.with_if(FlowFlags::DOWNLINK, number % 2 == 1),
        forward: 0,
        marking: None,
        nat: None,
        content: ContentId::NONE,
        generation: 0,
    }
}

/// A forward that is known by its egress.
pub(super) fn plain(egress: u32) -> Forward {
    Forward {
        kind: ForwardKind::Plain,
        egress: InstanceId(egress as u16),
        ..Forward::DROP
    }
}

/// The same in slot 0.
pub(super) fn forward(egress: u32) -> Object {
    Object::Forward {
        slot: 0,
        forward: plain(egress),
    }
}

pub(super) fn qer(slot: u8, metered: [bool; 2]) -> Object {
    Object::Qer {
        slot,
        mark: Mark::qfi_only(slot),
        closed: [false; 2],
        metered,
    }
}

pub(super) fn meter(qer: u8, direction: Direction, burst: u64) -> Object {
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

pub(super) fn counter(slot: u8, bounds: Bounds) -> Object {
    Object::Counter {
        slot,
        kind: CounterKind::default(),
        bounds,
    }
}

pub(super) fn passed(egress: u32) -> Fate {
    Fate::Passed {
        forward: plain(egress),
        mark: Mark::NONE,
        colour: Colour::Green,
        nat: None,
    }
}

pub(super) fn octets(counts: &[(u8, UrrCount)]) -> u64 {
    counts
        .iter()
        .map(|(_, count)| count.ul_octets + count.dl_octets)
        .sum()
}

pub(super) fn packets(counts: &[(u8, UrrCount)]) -> u64 {
    counts
        .iter()
        .map(|(_, count)| count.ul_packets + count.dl_packets)
        .sum()
}
