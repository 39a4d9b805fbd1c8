//! A host with several channels and an accelerator on one thread, with a network between them, from a seed.

use std::time::Duration;

use flow::Nanos;
use flow::contract::{
    AnyKey, Backend, Capabilities, Epoch, Event, Fate, Notice, Outcome, PacketPath, Refusal, Request, Subject,
};
use flow::local_backend::LocalBackend;
use offload::channel::{Role, channel_of};
use offload::codec::HostCapabilities;
use offload::in_band::{Agent, InBand, greeting, host_greeting};

pub use crate::world::Drawn;
use crate::world::{Faults, NETWORK_STEP, backend, channel};

/// Channels that the accelerator has room for.
const ROOM: u8 = 6;

pub struct Channels {
    pub hosts: Vec<InBand>,
    pub agent: Agent<LocalBackend>,
    pub now: Nanos,
    pub network: Nanos,
    /// By channel: nothing gets through.
    pub is_cut: Vec<bool>,
    /// Whether all frames are kept, with whether they go to the host.
    pub record: bool,
    pub recorded: Vec<(bool, Vec<u8>)>,
    faults: Faults,
    drawn: Drawn,
    boots: u64,
    /// When it arrives, whether at the host, which octets.
    frames: Vec<(Nanos, bool, Vec<u8>)>,
    next: u64,
    /// The epoch of the last reset that was reported.
    told: Option<Epoch>,
    is_told_lost: bool,
}

fn agent(boot: u64, seed: u64) -> Agent<LocalBackend> {
    let backend = backend(seed);
    let greeting = greeting(&backend).expect("it has a form");
    let channel = |number: u8| channel(Role::Accelerator, number, boot, greeting.clone());
    let first = Agent::new(channel(0), backend);
    (1..ROOM).fold(first, |agent, number| agent.with_channel(channel(number)))
}

impl Channels {
    /// In contact by all channels.
    pub fn new(channels: usize, seed: u64, faults: Faults) -> Self {
        let mut world = Self {
            hosts: Vec::new(),
            agent: agent(2000 + seed, seed),
            now: Nanos::from_secs(1),
            network: Nanos::from_secs(1),
            is_cut: Vec::new(),
            record: false,
            recorded: Vec::new(),
            faults,
            drawn: Drawn(seed | 1),
            boots: 3000 + seed,
            frames: Vec::new(),
            next: 1 << 40,
            told: None,
            is_told_lost: false,
        };
        world.restart_host(channels);
        world.settle_contact();
        world
    }

    /// A worker of a host with this number of channels.
    pub fn a_host_of(&self, channels: usize, place: usize, boot: u64) -> InBand {
        let host = HostCapabilities::new(true)
            .with_links()
            .with_channels(channels as u8);
        InBand::new(channel(Role::Host, place as u8, boot, host_greeting(host)))
    }

    /// Another process takes the host's place.
    pub fn restart_host(&mut self, channels: usize) {
        self.boots += 1;
        let boot = self.boots;
        self.hosts = (0..channels)
            .map(|place| self.a_host_of(channels, place, boot))
            .collect();
        self.is_cut = vec![false; channels];
    }

    /// Another process takes the accelerator's place.
    pub fn restart_accelerator(&mut self) {
        self.boots += 1;
        self.agent = agent(self.boots, self.boots);
    }

    /// Until there is contact by all channels, all with one state, and what they say of it has been taken.
    pub fn settle_contact(&mut self) {
        for _ in 0..200_000 {
            self.step();
            let epoch = self.agent.backend().epoch();
            let is_there = |host: &InBand| host.is_ready() && host.epoch() == epoch;
            let are_served = (0..self.hosts.len()).all(|place| self.agent.is_served_by(place));
            if self.hosts.iter().all(is_there) && are_served {
                return;
            }
        }
        panic!("no contact");
    }

    /// Asks by a channel, and waits for the reply.
    pub fn ask(
        &mut self,
        place: usize,
        subject: Subject,
        op: flow::contract::FlowOp,
    ) -> Result<Outcome, Refusal> {
        self.next += 1;
        let id = flow::OpId(self.next);
        let epoch = self.hosts[place].epoch();
        self.hosts[place].submit(Request {
            id,
            epoch,
            subject,
            op,
        });
        for _ in 0..200_000 {
            if let Some(Notice::Reply(reply)) = self.step()
                && reply.id == id
            {
                return reply.outcome;
            }
        }
        panic!("no reply to {id}");
    }

    /// A moment; what a host has to report.
    pub fn step(&mut self) -> Option<Notice> {
        self.now.0 += 1000;
        self.work();
        self.notice()
    }

    /// What any host has to report. What the accelerator tells all of them is reported once.
    fn notice(&mut self) -> Option<Notice> {
        for place in 0..self.hosts.len() {
            while let Some(notice) = self.hosts[place].poll(self.network) {
                match &notice {
                    Notice::Event(Event::BackendReset { epoch }) => {
                        self.is_told_lost = false;
                        if self.told.replace(*epoch) != Some(*epoch) {
                            return Some(notice);
                        }
                    }
                    Notice::Event(Event::Unreachable) => {
                        if !std::mem::replace(&mut self.is_told_lost, true) {
                            return Some(notice);
                        }
                    }
                    _ => return Some(notice),
                }
            }
        }
        None
    }

    pub fn arrive_there(&mut self, octets: &[u8]) {
        let number = channel_of(octets).expect("a control frame");
        let place = self.agent.place_of(number).unwrap_or(0);
        // What is discarded is counted, and nothing else.
        let channel = self.agent.channel_at_mut(place).expect("there is the first");
        let _ = channel.receive(octets, self.network);
    }

    pub fn work(&mut self) {
        self.network = self.network + NETWORK_STEP;
        let frames = std::mem::take(&mut self.frames);
        let (due, later): (Vec<_>, Vec<_>) = frames.into_iter().partition(|(at, ..)| *at <= self.network);
        self.frames = later;
        for (_, is_to_host, octets) in due {
            if !is_to_host {
                self.arrive_there(&octets);
                continue;
            }
            let place = channel_of(&octets).map_or(0, usize::from);
            if let Some(host) = self.hosts.get_mut(place) {
                let _ = host.channel_mut().receive(&octets, self.network);
            }
        }
        self.agent.poll(self.now);
        let mut scratch = Vec::new();
        for place in 0..self.hosts.len() {
            while self.hosts[place]
                .channel_mut()
                .poll_transmit(self.network, &mut scratch)
            {
                self.send(false, &scratch);
            }
        }
        for place in 0..self.agent.channels() {
            let network = self.network;
            let next = |agent: &mut Agent<LocalBackend>, scratch: &mut Vec<u8>| {
                let channel = agent.channel_at_mut(place);
                channel.is_some_and(|channel| channel.poll_transmit(network, scratch))
            };
            while next(&mut self.agent, &mut scratch) {
                self.send(true, &scratch);
            }
        }
    }

    fn send(&mut self, is_to_host: bool, octets: &[u8]) {
        if self.record {
            self.recorded.push((is_to_host, octets.to_vec()));
        }
        let number = channel_of(octets).map_or(0, usize::from);
        let is_cut = self.is_cut.get(number).copied().unwrap_or_default();
        let copies = 1 + u64::from(self.drawn.below(100) < self.faults.duplication);
        for _ in 0..copies {
            if is_cut || self.drawn.below(100) < self.faults.loss {
                continue;
            }
            let delay = self.drawn.below(self.faults.delay.as_nanos() as u64);
            let at = self.network + Duration::from_nanos(delay);
            self.frames.push((at, is_to_host, octets.to_vec()));
        }
    }
}

/// The channel of a session follows from its number; what is about the node goes with the suite's first session.
fn place_of(subject: Subject, channels: usize) -> usize {
    match subject {
        Subject::Session(session) => session.index() % channels,
        Subject::Node => 3 % channels,
    }
}

impl Backend for Channels {
    fn capabilities(&self) -> Capabilities {
        self.hosts[0].capabilities()
    }

    fn epoch(&self) -> Epoch {
        self.agent.backend().epoch()
    }

    fn submit(&mut self, request: Request) {
        let place = place_of(request.subject, self.hosts.len());
        self.hosts[place].submit(request);
    }

    fn poll(&mut self, now: Nanos) -> Option<Notice> {
        self.now = now;
        self.work();
        self.notice()
    }

    fn reset(&mut self) {
        self.agent.backend_mut().reset();
    }
}

impl PacketPath for Channels {
    fn process(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate {
        self.agent.backend_mut().process(key, octets, now)
    }
}
