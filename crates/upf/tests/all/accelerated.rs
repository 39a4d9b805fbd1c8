//! A rate that sessions share, of which some are away at an accelerator: together they pass what is configured.

use crate::support::*;

use std::sync::Arc;
use std::time::Duration;

use config::Config;
use flow::{Direction, Nanos, PortId, Seed, WorkerId};
use offload::channel::{Channel, ChannelConfig, Key, Role};
use offload::codec::HostCapabilities;
use offload::in_band::{InBand, host_greeting};
use packet::MacAddr;
use session::Random;
use sim::Shard;
use sim::smf::{Smf, State};
use upf::{Assembly, Control, Surroundings, assemble};
use worker::accelerator::{EngineConfig, Node, NodeConfig};
use worker::behind_accelerator::{AcceleratorPort, BehindAccelerator, LinkEnds};
use worker::mem::{MemBuf, MemIo, Wires};
use worker::{Stays, Worker};

/// The port of the workers towards the accelerator, and the accelerator's towards them, behind those of the network.
const TOWARDS: PortId = PortId(0);
const BACK: PortId = PortId(2);
const SESSIONS: u32 = 8;
/// How many of them may be away.
const AWAY: u64 = 4;
/// Packets a second: about twice what the rates here allow.
const OFFERED: u64 = 20_000;
const HALF: Duration = Duration::from_millis(500);

fn text(workers: usize, [up, down]: [u64; 2]) -> String {
    format!(
        "policers:\n\
         \x20 - {{name: all, dnn: internet, uplink_kbit: {up}, downlink_kbit: {down}}}\n\
         node: {{id: 127.0.0.8}}\n\
         n4: {{addresses: [127.0.0.8]}}\n\
         workers: {{count: {workers}}}\n\
         limits: {{sessions: {SESSIONS}, flows_ipv4: 4096, flows_ipv6: 1024}}\n\
         ports:\n\
         \x20 - {{name: to-accelerator, driver: {{memory: {{}}}}, mtu: 2000}}\n\
         \x20 - {{name: ran, driver: {{accelerator: {{mac: \"02:00:00:00:00:01\"}}}}}}\n\
         \x20 - {{name: dn, driver: {{accelerator: {{mac: \"02:00:00:00:00:02\"}}}}}}\n\
         accelerator:\n\
         \x20 link: {{port: to-accelerator, key: /nowhere}}\n\
         \x20 policy: {{sessions: {AWAY}}}\n\
         instances:\n\
         \x20 - {{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}}\n\
         \x20 - {{name: internet, roles: [n6], port: dn, addresses: [10.200.0.1/24],\n\
         \x20    routes: [{{to: 0.0.0.0/0, via: {SERVER}}}]}}\n"
    )
}

fn random(mut state: u64) -> offload::channel::Random {
    Box::new(move |octets: &mut [u8]| {
        for octet in octets {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *octet = (state >> 33) as u8;
        }
    })
}

const fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

fn channel(role: Role, number: u8, capabilities: Vec<u8>) -> ChannelConfig {
    let (mac, boot) = match role {
        Role::Host => (mac(3), 5),
        Role::Accelerator => (mac(4), 9),
    };
    let key = Key::new(vec![7; 32]).expect("32 octets");
    ChannelConfig {
        capabilities,
        ..ChannelConfig::new(role, number, mac, key, boot)
    }
}

/// Control, workers, their accelerator, and all around them.
struct World {
    now: Nanos,
    control: Control,
    workers: Vec<Worker<BehindAccelerator<MemIo>>>,
    wires: Wires,
    node: Node<MemIo>,
    node_wires: Wires,
    smf: Smf,
    routers: Routers,
    /// Nothing arrives at the other end of the link.
    is_cut: bool,
}

impl World {
    fn new(workers: usize, rates: [u64; 2]) -> Self {
        let now = Nanos(0);
        let config = Config::parse(&text(workers, rates), "world").expect("a good configuration");
        let network = Arc::new(config.network().expect("a network"));
        let macs = vec![mac(3), mac(1), mac(2)];
        let interfaces = network.instances().iter();
        let around = Surroundings {
            now,
            clock_unix: 1_700_000_000,
            random: Random::from_number(45),
            interfaces: interfaces.map(|one| worker::interface(one, &macs)).collect(),
            macs,
        };
        let Assembly {
            control,
            workers: made,
        } = assemble(&config, &network, around);
        let (wires, ios) = Wires::new(workers, 1, 4096);
        let ends = LinkEnds::between(workers);
        let behind =
            |(((mut config, link), io), ends): (((worker::WorkerConfig, _), MemIo), LinkEnds<MemBuf>)| {
                let number = config.id.0 as u8;
                let host = HostCapabilities::new(true).with_channels(workers as u8);
                let channel = channel(Role::Host, number, host_greeting(host));
                let channel = Channel::new(channel, random(20 + u64::from(number))).expect("it is right");
                let towards = AcceleratorPort {
                    port: TOWARDS,
                    ports: 2,
                    mac: mac(3),
                    vlan: None,
                    mtu: 9000,
                };
                let io = BehindAccelerator::new(io, towards, InBand::new(channel)).with_ends(ends);
                // Results do not depend on the machine's speed.
                config.slow_share_percent = 100;
                Worker::new(config, io, link).expect("memory")
            };
        let workers = made.into_iter().zip(ios).zip(ends).map(behind).collect();
        let (node_wires, mut node_ios) = Wires::new(1, 3, 4096);
        let macs = [1, 2, 4].map(mac).to_vec();
        let engine = EngineConfig::new(Default::default(), macs, BACK, Seed([3, 4]));
        let mut config = NodeConfig::new(engine, channel(Role::Accelerator, 0, Vec::new()));
        (config.engine.max_sessions, config.engine.shared_meters) = (64, u16::MAX);
        (config.engine.max_flows_v4, config.engine.max_flows_v6) = (4096, 1024);
        config.counts_every = Duration::from_millis(1);
        let node = Node::new(config, node_ios.remove(0), random(9)).expect("a node");
        let mut smf = sim::smf::Config::new(N4_SMF.ip(), SESSIONS);
        smf.profile.gnbs = vec![GNB.into()];
        let mut world = Self {
            now,
            control,
            workers,
            wires,
            node: node.with_channels((10..14).map(random)).expect("channels"),
            node_wires,
            smf: Smf::new(smf).expect("a good profile"),
            routers: Routers::default(),
            is_cut: false,
        };
        world.smf.start(world.now);
        for _ in 0..200_000 {
            if world.smf.state() == State::Established {
                return world;
            }
            world.step();
        }
        panic!("the sessions are not established");
    }

    fn step(&mut self) {
        self.now = self.now + STEP;
        let now = self.now;
        if self.smf.poll_timeout().is_some_and(|at| at <= now) {
            self.smf.handle_timeout(now);
        }
        while let Some(datagram) = self.smf.poll_transmit() {
            self.control.handle_datagram(now, N4_SMF, N4_UPF, &datagram);
        }
        self.control.poll(now);
        while let Some(answer) = self.control.poll_transmit() {
            self.smf.handle(now, &answer.bytes);
        }
        for worker in &mut self.workers {
            worker.poll(now);
        }
        let carry = |from: &Wires, by: PortId, to: &Wires, port: PortId| {
            while let Some(frame) = from.from(by).pop() {
                if !self.is_cut {
                    let queue = to.to(WorkerId(0), port);
                    queue.push(MemBuf::new(frame.bytes())).expect("there is room");
                }
            }
        };
        carry(&self.wires, TOWARDS, &self.node_wires, BACK);
        self.node.poll(now);
        carry(&self.node_wires, BACK, &self.wires, TOWARDS);
    }

    /// Lets traffic of all sessions pass for a while.
    fn pass(&mut self, shard: &mut Shard, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
            let mut port = Port {
                wires: &self.node_wires,
                worker: WorkerId(0),
                routers: &mut self.routers,
                now: self.now,
            };
            shard.poll(self.now, &mut port);
        }
    }

    /// Octets that were forwarded at home, and away, by direction.
    fn forwarded(&self) -> [[u64; 2]; 2] {
        let of = |stats: &worker::Stats| Direction::BOTH.map(|way| stats.direction(way).forwarded.octets);
        let mut at_home = [0; 2];
        for worker in &self.workers {
            let forwarded = of(worker.stats());
            at_home = std::array::from_fn(|way| at_home[way] + forwarded[way]);
        }
        [at_home, of(self.node.engine().stats().path)]
    }

    fn away(&self) -> u64 {
        self.workers
            .iter()
            .map(|worker| worker.offload_stats().away)
            .sum()
    }

    /// When traffic has settled, sessions at home and away pass these rates together in half a second, to a hundredth,
    /// and both of them a good part.
    fn assert_kept(&mut self, shard: &mut Shard, rates: [u64; 2]) {
        self.pass(shard, HALF);
        assert_eq!(self.away(), AWAY);
        let before = self.forwarded();
        self.pass(shard, HALF);
        let after = self.forwarded();
        for way in Direction::BOTH.map(|way| way as usize) {
            let [at_home, away] = [0, 1].map(|place: usize| after[place][way] - before[place][way]);
            let (sum, allowed) = (at_home + away, rates[way] * 500 / 8);
            assert!(
                sum * 100 >= allowed * 99 && sum * 100 <= allowed * 101,
                "{sum} of {allowed}: {at_home} {away}"
            );
            assert!(at_home > sum / 4 && away > sum / 4, "{at_home} {away}");
        }
    }
}

/// A shard whose gateways have answered, and which sends.
fn begin(world: &mut World) -> Shard {
    let mut shard = shards_of(&world.smf, SERVER, 1, &[OFFERED]).remove(0);
    // The first requests for neighbours were sent before contact: they are repeated.
    world.pass(&mut shard, 4 * HALF);
    for _ in 0..1_000 {
        world.pass(&mut shard, STEP * 10);
        if shard.is_ready() {
            assert!(shard.start(world.now));
            return shard;
        }
    }
    panic!("the gateways do not answer");
}

#[test]
fn sessions_at_home_and_away_keep_a_common_rate() {
    for workers in [1, 2] {
        let rates = [20_000, 50_000];
        let mut world = World::new(workers, rates);
        let mut shard = begin(&mut world);
        world.assert_kept(&mut shard, rates);
        let stays = |world: &World, why: Stays| -> u64 {
            let of = |worker: &Worker<_>| worker.offload_stats().stays[why as usize];
            world.workers.iter().map(of).sum()
        };
        assert!(stays(&world, Stays::Capability) > 0, "no more may be away");
        assert_eq!(
            stays(&world, Stays::SharedRate),
            0,
            "leases are there before sessions"
        );
    }
}

#[test]
fn a_common_rate_follows_its_configuration_wherever_sessions_are() {
    let mut world = World::new(1, [20_000, 50_000]);
    let mut shard = begin(&mut world);
    world.assert_kept(&mut shard, [20_000, 50_000]);
    let rates = [10_000, 60_000];
    let config = Config::parse(&text(1, rates), "world").expect("a good configuration");
    world
        .control
        .reconfigure(world.now, &config)
        .expect("it is allowed");
    world.assert_kept(&mut shard, rates);
}

#[test]
fn a_common_rate_is_kept_when_contact_is_lost_and_is_back() {
    let rates = [20_000, 50_000];
    let mut world = World::new(2, rates);
    let mut shard = begin(&mut world);
    world.assert_kept(&mut shard, rates);
    let (begun, before) = (world.now, world.forwarded());
    world.is_cut = true;
    world.pass(&mut shard, HALF / 2);
    assert_eq!(world.away(), 0);
    world.is_cut = false;
    world.assert_kept(&mut shard, rates);
    // No more than the rate and its burst all the while.
    let millis = (world.now.0 - begun.0) / 1_000_000;
    for (way, kbit) in rates.into_iter().enumerate() {
        let passed: u64 = (0..2)
            .map(|place| world.forwarded()[place][way] - before[place][way])
            .sum();
        assert!(
            passed <= kbit * (millis + 50) / 8,
            "{passed} of {kbit} kbit/s in {millis} ms"
        );
    }
}
