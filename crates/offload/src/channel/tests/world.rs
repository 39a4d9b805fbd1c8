//! Two ends, a network between them that loses, duplicates, delays and reorders, and a record of who sent and received
//! what in which contact.

use std::collections::BTreeMap;
use std::time::Duration;

use flow::Nanos;
use packet::MacAddr;

use crate::channel::{Channel, ChannelConfig, Event, Key, Random, Refused, Role};

pub const HOST: usize = 0;
pub const ACCELERATOR: usize = 1;
pub const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];

/// Random numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// One of 0..`end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True so often in a hundred times.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn octets(mut self) -> Random {
        Box::new(move |octets| octets.iter_mut().for_each(|octet| *octet = self.next() as u8))
    }
}

pub fn key() -> Key {
    Key::new((0..32).collect()).expect("32 octets")
}

pub fn config(end: usize, boot: u64) -> ChannelConfig {
    let role = if end == HOST {
        Role::Host
    } else {
        Role::Accelerator
    };
    ChannelConfig::new(role, 3, MACS[end], key(), boot)
}

/// What the network does, in percent, and how long a frame takes at most.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub loss: u64,
    pub duplication: u64,
    pub max_delay: Duration,
}

impl Faults {
    pub const NONE: Self = Self {
        loss: 0,
        duplication: 0,
        max_delay: Duration::from_micros(10),
    };
}

/// One contact as an end has seen it.
#[derive(Clone, Debug, Default)]
pub struct Contact {
    /// What identifies it to both ends: the host's boot, the accelerator's boot, the handshake.
    pub id: (u64, u64, u32),
    /// Messages that `send` accepted.
    pub sent: Vec<Vec<u8>>,
    pub received: Vec<Vec<u8>>,
    /// Set at its end, unless the end was restarted before.
    pub given_up: Option<u64>,
}

pub struct End {
    pub channel: Channel,
    pub contacts: Vec<Contact>,
    pub events: Vec<Event>,
    /// Takes no messages.
    pub idle: bool,
}

impl End {
    pub fn new(config: ChannelConfig, seed: u64) -> Self {
        Self {
            channel: Channel::new(config, Draw(seed).octets()).expect("a valid configuration"),
            contacts: Vec::new(),
            events: Vec::new(),
            idle: false,
        }
    }

    /// Takes events and messages.
    pub fn take(&mut self) {
        while let Some(event) = self.channel.next_event() {
            match &event {
                Event::Up(_) => self.contacts.push(Contact {
                    id: self.channel.contact_id().expect("in contact"),
                    ..Contact::default()
                }),
                Event::Down { given_up, .. } => {
                    self.contacts.last_mut().expect("a contact").given_up = Some(*given_up);
                }
            }
            self.events.push(event);
        }
        while !self.idle {
            let Some(message) = self.channel.next_message() else {
                break;
            };
            self.contacts
                .last_mut()
                .expect("a contact")
                .received
                .push(message.to_vec());
        }
    }

    pub fn send(&mut self, message: &[u8]) -> Result<(), Refused> {
        self.channel.send(message)?;
        self.contacts
            .last_mut()
            .expect("events are taken")
            .sent
            .push(message.to_vec());
        Ok(())
    }
}

pub struct World {
    pub ends: [End; 2],
    pub now: Nanos,
    pub faults: Faults,
    pub draw: Draw,
    /// Contacts of processes that are gone, by end.
    pub past: [Vec<Contact>; 2],
    /// All frames that were sent, with their sender.
    pub recorded: Vec<(usize, Vec<u8>)>,
    on_the_way: BTreeMap<(Nanos, u64), (usize, Vec<u8>)>,
    number: u64,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self::of([config(HOST, 0xa1), config(ACCELERATOR, 0xb1)], seed)
    }

    pub fn of([host, accelerator]: [ChannelConfig; 2], seed: u64) -> Self {
        Self {
            ends: [
                End::new(host, seed ^ 0x1111),
                End::new(accelerator, seed ^ 0x2222),
            ],
            now: Nanos::from_millis(1),
            faults: Faults::NONE,
            draw: Draw(seed),
            past: [Vec::new(), Vec::new()],
            recorded: Vec::new(),
            on_the_way: BTreeMap::new(),
            number: 0,
        }
    }

    /// An end's process starts anew.
    pub fn restart(&mut self, end: usize) {
        let mut config = self.ends[end].channel.config().clone();
        config.boot = self.draw.next();
        let new = End::new(config, self.draw.next());
        let old = std::mem::replace(&mut self.ends[end], new);
        self.past[end].extend(old.contacts);
    }

    /// What is received and sent at this moment. The end of a frame is drawn by its sender.
    pub fn poll(&mut self) {
        while let Some(first) = self.on_the_way.first_entry() {
            if first.key().0 > self.now {
                break;
            }
            let (to, frame) = first.remove();
            let _ = self.ends[to].channel.receive(&frame, self.now);
            // Some users take after each frame, some later.
            if self.draw.percent(50) {
                self.ends[to].take();
            }
        }
        for end in [HOST, ACCELERATOR] {
            self.transmit(end);
        }
    }

    fn transmit(&mut self, end: usize) {
        self.ends[end].take();
        let mut frame = Vec::new();
        while self.ends[end].channel.poll_transmit(self.now, &mut frame) {
            self.recorded.push((end, frame.clone()));
            let copies = 1 + u64::from(self.draw.percent(self.faults.duplication));
            for _ in 0..copies {
                if self.draw.percent(self.faults.loss) {
                    continue;
                }
                let delay = 1_000 + self.draw.below(self.faults.max_delay.as_nanos() as u64);
                self.number += 1;
                let at = Nanos(self.now.0 + delay);
                self.on_the_way
                    .insert((at, self.number), (1 - end, frame.clone()));
            }
        }
        self.ends[end].take();
    }

    /// What an end sends now, past the network.
    pub fn outbox(&mut self, end: usize) -> Vec<Vec<u8>> {
        let (mut frames, mut frame) = (Vec::new(), Vec::new());
        while self.ends[end].channel.poll_transmit(self.now, &mut frame) {
            frames.push(frame.clone());
        }
        frames
    }

    /// Gives what an end sends to the other, past the network; how many frames. The other's user takes nothing.
    pub fn hand_over(&mut self, from: usize) -> usize {
        let frames = self.outbox(from);
        for frame in &frames {
            assert_eq!(self.ends[1 - from].channel.receive(frame, self.now), Ok(()));
        }
        frames.len()
    }

    /// Passes the time until something happens, at most until `until`.
    pub fn pass(&mut self, until: Nanos) {
        let arrival = self
            .on_the_way
            .first_key_value()
            .map_or(Nanos::MAX, |((at, _), _)| *at);
        let due = self
            .ends
            .iter()
            .map(|end| end.channel.deadline())
            .min()
            .expect("two ends");
        let next = arrival.min(due).min(until);
        assert!(
            next > self.now || until <= self.now,
            "an end is due at {due:?}, at {:?}, for nothing",
            self.now
        );
        self.now = self.now.max(next);
    }

    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.poll();
            self.pass(until);
        }
        self.poll();
    }

    /// Runs until both are in contact, at most for `time`.
    pub fn connect(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.poll();
            if self.ends.iter().all(|end| end.channel.is_up()) {
                return;
            }
            assert!(self.now < until, "no contact");
            self.pass(until);
        }
    }

    /// All contacts of an end, of all its processes.
    pub fn contacts(&self, end: usize) -> impl Iterator<Item = &Contact> {
        self.past[end].iter().chain(&self.ends[end].contacts)
    }

    /// In each contact, what was received is a first part of what was sent, as it was sent; and what the sender was
    /// notified of as given up is no less than what is missing.
    pub fn check(&self) {
        for from in [HOST, ACCELERATOR] {
            for sent in self.contacts(from) {
                let mut others = self.contacts(1 - from).filter(|contact| contact.id == sent.id);
                let received = others
                    .next()
                    .map(|contact| &contact.received[..])
                    .unwrap_or_default();
                assert!(others.next().is_none(), "a contact twice");
                assert!(sent.sent.starts_with(received), "another order, or twice");
                if let Some(given_up) = sent.given_up {
                    let missing = sent.sent.len() - received.len();
                    assert!(
                        missing as u64 <= given_up,
                        "{missing} are missing, {given_up} were reported"
                    );
                    assert!(given_up <= sent.sent.len() as u64);
                }
            }
            for received in self.contacts(from) {
                let known = self.contacts(1 - from).any(|contact| contact.id == received.id);
                assert!(known || received.received.is_empty(), "messages from no contact");
            }
        }
    }
}
