//! A host and an accelerator on one thread, with a network between them, from a seed.

use std::time::Duration;

use flow::Nanos;
use flow::Seed;
use flow::contract::{
    AnyKey, Backend, Capabilities, Epoch, Fate, Notice, Outcome, PacketPath, Refusal, Request,
};
use flow::local_backend::LocalBackend;
use offload::channel::{Channel, ChannelConfig, Key, Role};
use offload::in_band::{Agent, InBand, greeting};
use packet::MacAddr;

/// What the network does to frames, in percent, and how long one takes at most.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub loss: u64,
    pub duplication: u64,
    pub delay: Duration,
}

impl Faults {
    pub const NONE: Self = Self {
        loss: 0,
        duplication: 0,
        delay: Duration::from_micros(5),
    };
    pub const LOSSY: Self = Self {
        loss: 8,
        duplication: 5,
        delay: Duration::from_micros(400),
    };
}

/// How much faster the network's clock goes than that of packets: frames that are lost are sent again after
/// milliseconds, and the suite waits for microseconds.
pub const NETWORK_STEP: Duration = Duration::from_micros(100);

/// Numbers from a seed.
pub struct Drawn(pub u64);

impl Drawn {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % end.max(1)
    }
}

pub struct World {
    pub host: InBand,
    pub agent: Agent<LocalBackend>,
    pub now: Nanos,
    /// Nothing gets through.
    pub is_cut: bool,
    faults: Faults,
    network: Nanos,
    drawn: Drawn,
    boots: u64,
    /// When it arrives, for the host (0) or the accelerator (1), which octets.
    frames: Vec<(Nanos, usize, Vec<u8>)>,
    scratch: Vec<u8>,
}

pub fn channel(role: Role, number: u8, boot: u64, capabilities: Vec<u8>) -> Channel {
    let mac = MacAddr([2, 0, 0, 0, 0, 1 + u8::from(role == Role::Accelerator)]);
    let key = Key::new((0..32).collect()).expect("32 octets");
    let config = ChannelConfig {
        capabilities,
        ..ChannelConfig::new(role, number, mac, key, boot)
    };
    let seed = boot ^ u64::from(number) << 48;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let random = move |octets: &mut [u8]| {
        for octet in octets {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *octet = state as u8;
        }
    };
    Channel::new(config, Box::new(random)).expect("a valid configuration")
}

pub fn backend(seed: u64) -> LocalBackend {
    LocalBackend::local(64, 0, 16, Seed([seed, 1]))
        .expect("memory")
        .with_counts_every(Duration::from_micros(50))
}

fn agent(boot: u64, seed: u64) -> Agent<LocalBackend> {
    let backend = backend(seed);
    let greeting = greeting(&backend).expect("it has a form");
    Agent::new(channel(Role::Accelerator, 0, boot, greeting), backend)
}

impl World {
    /// In contact.
    pub fn new(seed: u64, faults: Faults) -> Self {
        let mut world = Self {
            host: InBand::new(channel(Role::Host, 0, 1000 + seed, Vec::new())),
            agent: agent(2000 + seed, seed),
            now: Nanos::from_secs(1),
            is_cut: false,
            faults,
            network: Nanos::from_secs(1),
            drawn: Drawn(seed | 1),
            boots: 3000 + seed,
            frames: Vec::new(),
            scratch: Vec::new(),
        };
        world.settle_contact();
        world
    }

    pub fn network_now(&self) -> Nanos {
        self.network
    }

    /// Another process takes the accelerator's place.
    pub fn restart_accelerator(&mut self) {
        self.boots += 1;
        self.agent = agent(self.boots, self.boots);
    }

    /// Until there is contact, and what both say of it has been taken.
    pub fn settle_contact(&mut self) {
        for _ in 0..200_000 {
            self.step();
            if self.host.is_ready() {
                return;
            }
        }
        panic!("no contact");
    }

    /// Asks, and waits for the reply.
    pub fn ask(&mut self, request: Request) -> Result<Outcome, Refusal> {
        let id = request.id;
        self.host.submit(request);
        for _ in 0..200_000 {
            if let Some(Notice::Reply(reply)) = self.step()
                && reply.id == id
            {
                return reply.outcome;
            }
        }
        panic!("no reply to {id}");
    }

    /// A moment; what the host has to report.
    pub fn step(&mut self) -> Option<Notice> {
        self.now.0 += 1000;
        self.work();
        self.host.poll(self.network)
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn below(&mut self, end: u64) -> u64 {
        self.drawn.below(end)
    }

    fn work(&mut self) {
        self.network = self.network + NETWORK_STEP;
        let (due, later) = std::mem::take(&mut self.frames)
            .into_iter()
            .partition(|(at, ..)| *at <= self.network);
        self.frames = later;
        let due: Vec<(Nanos, usize, Vec<u8>)> = due;
        for (_, to, octets) in due {
            // What is discarded is counted, and nothing else.
            let _ = match to {
                0 => self.host.channel_mut().receive(&octets, self.network),
                _ => self.agent.channel_mut().receive(&octets, self.network),
            };
        }
        self.agent.poll(self.now);
        let mut scratch = std::mem::take(&mut self.scratch);
        while self.host.channel_mut().poll_transmit(self.network, &mut scratch) {
            self.send(1, &scratch);
        }
        while self.agent.channel_mut().poll_transmit(self.network, &mut scratch) {
            self.send(0, &scratch);
        }
        self.scratch = scratch;
    }

    fn send(&mut self, to: usize, octets: &[u8]) {
        let copies = 1 + u64::from(self.percent(self.faults.duplication));
        for _ in 0..copies {
            if self.is_cut || self.percent(self.faults.loss) {
                continue;
            }
            let delay = self.below(self.faults.delay.as_nanos() as u64);
            let at = self.network + Duration::from_nanos(delay);
            self.frames.push((at, to, octets.to_vec()));
        }
    }
}

impl Backend for World {
    fn capabilities(&self) -> Capabilities {
        self.host.capabilities()
    }

    fn epoch(&self) -> Epoch {
        self.agent.backend().epoch()
    }

    fn submit(&mut self, request: Request) {
        self.host.submit(request);
    }

    fn poll(&mut self, now: Nanos) -> Option<Notice> {
        self.now = now;
        self.work();
        self.host.poll(self.network)
    }

    fn reset(&mut self) {
        self.agent.backend_mut().reset();
    }
}

impl PacketPath for World {
    fn process(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate {
        self.agent.backend_mut().process(key, octets, now)
    }
}
