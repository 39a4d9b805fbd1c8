//! The contract's suite, over backends that get every request and give every report through its octets: nothing
//! that the contract needs is lost on the way.

use std::collections::VecDeque;

use flow::Nanos;
use flow::conformance::{Driver, backends_agree, fake, local};
use flow::contract::{
    AnyKey, Backend, Capabilities, Departed, Epoch, Event, Fate, Notice, PacketPath, Refusal, Reply, Request,
};

use crate::codec::{Joiner, Message, decode, encode, parts_within};

/// There and back.
fn carried(message: &Message) -> Message {
    let mut octets = Vec::new();
    encode(message, &mut octets).expect("what the contract allows");
    decode(&octets).expect("what was encoded")
}

struct Carried {
    backend: Box<dyn PacketPath>,
    joiner: Joiner,
    /// Messages of a list that was divided.
    parts: VecDeque<Message>,
    /// Requests without octets: a test of the suite makes two at most.
    refused: u32,
}

impl Carried {
    fn over(backend: Box<dyn PacketPath>) -> Box<dyn PacketPath> {
        Box::new(Self {
            backend,
            joiner: Joiner::default(),
            parts: VecDeque::new(),
            refused: 0,
        })
    }
}

impl Backend for Carried {
    fn capabilities(&self) -> Capabilities {
        let message = carried(&Message::Capabilities(self.backend.capabilities()));
        let Message::Capabilities(capabilities) = message else {
            panic!("{message:?}");
        };
        capabilities
    }

    fn epoch(&self) -> Epoch {
        self.backend.epoch()
    }

    /// What has no octets is unsupported: a key with a field that there is not.
    fn submit(&mut self, request: Request) {
        let id = request.id;
        let message = Message::Request(request);
        if encode(&message, &mut Vec::new()).is_err() {
            let outcome = Err(Refusal::Unsupported);
            self.parts.push_back(Message::Reply(Reply { id, outcome }));
            self.refused += 1;
            assert!(self.refused <= 2, "{message:?}");
            return;
        }
        let message = carried(&message);
        let Message::Request(request) = message else {
            panic!("{message:?}");
        };
        self.backend.submit(request);
    }

    /// One message a call, with room for two entries of a list at most.
    fn poll(&mut self, now: Nanos) -> Option<Notice> {
        if self.parts.is_empty() {
            self.parts.extend(parts_within(self.backend.poll(now)?, 112));
        }
        let part = carried(&self.parts.pop_front()?);
        match self.joiner.join(part).expect("the next part")? {
            Message::Reply(reply) => Some(Notice::Reply(reply)),
            Message::Event(event) => Some(Notice::Event(event)),
            other => panic!("{other:?}"),
        }
    }

    fn reset(&mut self) {
        self.backend.reset();
    }
}

impl PacketPath for Carried {
    fn process(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate {
        // No packet has a key without octets, so no backend reports it.
        let miss = Message::Event(Event::Miss { key: *key });
        match encode(&miss, &mut Vec::new()) {
            Ok(()) => self.backend.process(key, octets, now),
            Err(_) => Fate::Missed,
        }
    }

    fn process_ect(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate {
        self.backend.process_ect(key, octets, now)
    }

    fn departed(&mut self, now: Nanos) -> Vec<Departed> {
        self.backend.departed(now)
    }
}

flow::conformance! {
    carried_local: |seed: u64| super::Carried::over(super::local(seed));
    carried_fake: |seed: u64| super::Carried::over(super::fake(seed));
}

#[test]
fn a_backend_agrees_with_itself_through_octets() {
    let direct = |seed| Driver::new(local(seed));
    let through = |seed| Driver::new(Carried::over(local(seed)));
    backends_agree(100, [&direct, &through]);
}
