//! The one-thread world: Control, workers, SMF, gNBs and data network polled in turn on simulated time. What threads
//! and DPDK add in the daemon is only a shell around this.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use flow::{Nanos, PortId, WorkerId};
use packet::MacAddr;
use session::Random;
use sim::path::Path;
use sim::report::{Report, Totals};
use sim::smf::{Servers, Smf, State};
use sim::station::StationConfig;
use sim::traffic::{Sizes, Traffic};
use sim::{FramePort, Shard, ShardConfig, Side};
use sluice::config::Config;
use sluice::upf::{Assembly, Control, Surroundings, assemble};
use worker::mem::{MemBuf, MemIo, Wires};
use worker::{Stats, Worker};

const N4_UPF: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 8)), 8805);
const N4_SMF: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), 8805);
const GNB: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 254);
const STEP: Duration = Duration::from_micros(50);

/// One worker's end of the wires, as the simulator sees it.
struct Port<'a> {
    wires: &'a Wires,
    worker: WorkerId,
}

const fn port_of(side: Side) -> PortId {
    match side {
        Side::Access => PortId(0),
        Side::Core => PortId(1),
    }
}

impl FramePort for Port<'_> {
    fn send(&mut self, side: Side, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let mut frame = vec![0; length];
        write(&mut frame);
        self.wires
            .to(self.worker, port_of(side))
            .push(MemBuf::new(&frame))
            .is_ok()
    }

    fn receive(&mut self, side: Side, most: usize, mut see: impl FnMut(&[u8])) -> usize {
        let mut seen = 0;
        while seen < most
            && let Some(frame) = self.wires.from(port_of(side)).pop()
        {
            see(frame.bytes());
            seen += 1;
        }
        seen
    }
}

struct World {
    now: Nanos,
    control: Control,
    workers: Vec<Worker<MemIo>>,
    wires: Wires,
    smf: Smf,
}

impl World {
    fn new(workers: u16, sessions: u32, seed: u64) -> Self {
        Self::with(workers, sessions, seed, "")
    }

    /// With more of the `workers` section.
    fn with(workers: u16, sessions: u32, seed: u64, more: &str) -> Self {
        let text = format!(
            "node: {{id: 127.0.0.8}}\n\
             n4: {{addresses: [127.0.0.8]}}\n\
             workers: {{count: {workers}{more}}}\n\
             limits: {{sessions: {sessions}, flows_ipv4: 4096, flows_ipv6: 1024}}\n\
             ports: [{{name: ran, driver: {{memory: {{}}}}}}, {{name: dn, driver: {{memory: {{}}}}}}]\n\
             instances:\n\
             \x20 - {{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}}\n\
             \x20 - {{name: internet, roles: [n6], port: dn, addresses: [10.200.0.1/24],\n\
             \x20    routes: [{{to: 0.0.0.0/0, via: {SERVER}}}]}}\n"
        );
        let config = Config::parse(&text, "world").expect("a good configuration");
        let network = Arc::new(config.network().expect("a network"));
        let macs = vec![MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
        let now = Nanos(0);
        let around = Surroundings {
            now,
            clock_unix: 1_700_000_000,
            random: Random::from_number(seed),
            interfaces: network
                .instances()
                .iter()
                .map(|i| worker::interface(i, &macs))
                .collect(),
            macs,
        };
        let Assembly {
            control,
            workers: made,
        } = assemble(&config, &network, around);
        let (wires, ios) = Wires::new(usize::from(workers), 2, 4096);
        let workers = made.into_iter().zip(ios).map(|((mut config, link), io)| {
            // The machine's speed is to tell nothing here.
            config.slow_share_percent = 100;
            Worker::new(config, io, link)
        });
        let mut smf = sim::smf::Config::new(N4_SMF.ip(), sessions);
        smf.profile.gnbs = vec![GNB.into()];
        Self {
            now,
            control,
            workers: workers.collect::<Result<_, _>>().expect("memory"),
            wires,
            smf: Smf::new(smf).expect("a good profile"),
        }
    }

    /// One turn of everything but the simulator's packets.
    fn step(&mut self) {
        self.now = self.now + STEP;
        if self.smf.poll_timeout().is_some_and(|at| at <= self.now) {
            self.smf.handle_timeout(self.now);
        }
        while let Some(datagram) = self.smf.poll_transmit() {
            self.control.handle_datagram(self.now, N4_SMF, N4_UPF, &datagram);
        }
        self.control.poll(self.now);
        while let Some(answer) = self.control.poll_transmit() {
            self.smf.handle(self.now, &answer.bytes);
        }
        for worker in &mut self.workers {
            worker.poll(self.now);
        }
    }

    fn until(&mut self, state: State) {
        for _ in 0..200_000 {
            if self.smf.state() == state {
                return;
            }
            self.step();
        }
        panic!(
            "not {state:?} but {:?} after ten simulated seconds",
            self.smf.state()
        );
    }

    /// Sends traffic for a while, drains, and gives the sums of all shards.
    fn traffic(&mut self, shards: Vec<Shard>, time: Duration) -> Totals {
        self.traffic_with(shards, time, |_| ())
    }

    /// The same, with `between` after every turn.
    fn traffic_with(
        &mut self,
        mut shards: Vec<Shard>,
        time: Duration,
        mut between: impl FnMut(&mut Self),
    ) -> Totals {
        let mut started = None;
        while started.is_none_or(|at| self.now < at + time + Duration::from_millis(20)) {
            self.step();
            between(self);
            for (place, shard) in shards.iter_mut().enumerate() {
                let mut port = Port {
                    wires: &self.wires,
                    worker: WorkerId(place as u16),
                };
                shard.poll(self.now, &mut port);
            }
            match started {
                None if shards.iter().all(Shard::is_ready) => {
                    shards.iter_mut().for_each(|shard| assert!(shard.start(self.now)));
                    started = Some(self.now);
                }
                Some(at) if self.now >= at + time => shards.iter_mut().for_each(Shard::stop),
                _ => assert!(self.now < Nanos(10_000_000_000), "the gateways do not answer ARP"),
            }
        }
        let mut totals = Totals::default();
        shards.iter().for_each(|shard| totals.merge(&shard.totals()));
        totals
    }

    fn shards(&self) -> Vec<Shard> {
        let servers = Servers {
            ipv4: SERVER,
            ipv6: "2001:db8:6::fe".parse().expect("an address"),
            port: 5_000,
            ue_port: 40_000,
            ue_ports: 4,
        };
        let paths: Arc<[Path]> = self
            .smf
            .paths(&servers)
            .into_iter()
            .map(|p| Path::new(p).expect("a path"))
            .collect();
        let (flows, count) = (paths.len() as u32, self.workers.len() as u32);
        // The wires out of the workers end in one queue: with several shards an answer may reach another one's station,
        // so only a lone shard asks for its gateways.
        let known = |id: u8| (count > 1).then_some(MacAddr([2, 0, 0, 0, 0, id]));
        let station = |id, address: Ipv4Addr, gateway: [u8; 4]| StationConfig {
            mac: MacAddr([2, 0, 0, 0, 1, id]),
            vlan: None,
            addresses: vec![address.into()],
            gateway_ipv4: Some(gateway.into()),
            gateway_ipv6: None,
            gateway_mac: known(id),
        };
        let shard = |place: u32| {
            Shard::new(ShardConfig {
                access: station(1, GNB, [10, 100, 0, 1]),
                core: station(2, SERVER, [10, 200, 0, 1]),
                paths: Arc::clone(&paths),
                share: flows * place / count..flows * (place + 1) / count,
                traffic: Traffic {
                    rate: 200_000,
                    uplink_share: 400,
                    uplink_sizes: Sizes::mix(&[(60, 1), (576, 2), (1400, 1)]).expect("a mix"),
                    downlink_sizes: Sizes::fixed(1_000),
                    seed: u64::from(place) + 7,
                    ..Traffic::default()
                },
                hops: 1,
            })
            .expect("a shard")
        };
        (0..count).map(shard).collect()
    }

    fn sum(&self, value: impl Fn(&Stats) -> u64) -> u64 {
        self.workers.iter().map(|worker| value(worker.stats())).sum()
    }
}

/// Every packet arrives where it belongs, and the URRs report every octet of them.
fn crosses(workers: u16) -> World {
    const SESSIONS: u32 = 50;
    let mut world = World::new(workers, SESSIONS, 42);
    world.smf.start(world.now);
    world.until(State::Established);
    assert_eq!(world.smf.progress().up, SESSIONS);

    let shards = world.shards();
    let totals = world.traffic(shards, Duration::from_millis(100));
    let report = Report::new(SESSIONS, Duration::from_millis(100), &totals);
    for direction in [&report.uplink, &report.downlink] {
        assert!(direction.counts.sent > 1_000, "{report}");
        assert_eq!((direction.lost, direction.counts.reordered), (0, 0), "{report}");
    }
    assert_eq!(world.sum(|stats| stats.drops.iter().sum()), 0);
    assert_eq!(
        world
            .workers
            .iter()
            .map(|worker| worker.stats().unaccounted())
            .sum::<i64>(),
        0
    );

    assert_exact_end(&mut world, &totals);
    world
}

#[test]
fn packets_cross_one_worker_both_ways() {
    let world = crosses(1);
    assert_eq!(world.sum(|stats| stats.handed_over), 0);
    assert!(
        world.sum(|stats| stats.hits) > 50 * world.sum(|stats| stats.misses),
        "flows are decided once"
    );
}

#[test]
fn packets_that_land_at_the_wrong_worker_are_handed_over() {
    let world = crosses(2);
    let (handed_over, received) = (world.sum(|stats| stats.handed_over), world.sum(Stats::rx));
    assert!(
        handed_over * 3 > received && handed_over * 3 < received * 2,
        "{handed_over} of {received}"
    );
}

/// Sessions of each worker.
fn owned(world: &World) -> Vec<usize> {
    world.workers.iter().map(Worker::sessions).collect()
}

/// Deletes all sessions: the URRs report every octet that arrived, and nothing is left.
fn assert_exact_end(world: &mut World, totals: &Totals) {
    assert_eq!(world.sum(|stats| stats.drops.iter().sum()), 0);
    world.smf.release(world.now);
    world.until(State::Released);
    let usage = world.smf.progress().usage;
    assert_eq!(usage.uplink_octets, totals.uplink.received_octets);
    assert_eq!(usage.downlink_octets, totals.downlink.received_octets);
    let left = world.control.endpoint().sessions().count();
    assert_eq!(
        (left.sessions, left.tunnels, left.addresses, left.ops),
        (0, 0, 0, 0)
    );
    assert_eq!(owned(world).iter().sum::<usize>(), 0);
}

#[test]
fn buckets_move_under_traffic_and_nothing_is_lost() {
    const SESSIONS: u32 = 50;
    let mut world = World::new(3, SESSIONS, 43);
    world.smf.start(world.now);
    world.until(State::Established);
    let sessions = world.control.endpoint().sessions();
    let buckets: Vec<_> = sessions.iter().map(|session| session.bucket()).collect();
    let (mut random, mut moved) = (Random::from_number(9), Vec::new());
    let time = Duration::from_millis(100);
    let shards = world.shards();
    let totals = world.traffic_with(shards, time, |world| {
        let bucket = buckets[random.next_u32() as usize % buckets.len()];
        let to = WorkerId((random.next_u32() % 3) as u16);
        // Refused while another one is on its way.
        let _ = world.control.move_bucket(world.now, bucket, to);
        moved.extend(std::iter::from_fn(|| world.control.poll_moved()));
    });
    assert!(moved.len() > 100 && moved.iter().all(|moved| moved.result.is_ok()));
    let report = Report::new(SESSIONS, time, &totals);
    for direction in [&report.uplink, &report.downlink] {
        assert!(direction.counts.sent > 1_000 && direction.lost == 0, "{report}");
    }
    assert_exact_end(&mut world, &totals);
}

#[test]
fn the_balancer_evens_out_the_workers_under_traffic() {
    let rebalance = ", rebalance: {ratio_percent: 110, after_s: 0}";
    let mut world = World::with(3, 60, 44, rebalance);
    world.smf.start(world.now);
    world.until(State::Established);
    // An operator has emptied the first worker.
    let sessions = world.control.endpoint().sessions();
    let buckets: Vec<_> = sessions.iter().map(|session| session.bucket()).collect();
    for bucket in buckets {
        while world.control.owner(bucket) == WorkerId(0) {
            let _ = world.control.move_bucket(world.now, bucket, WorkerId(1));
            world.step();
        }
    }
    let uneven = owned(&world);
    let shards = world.shards();
    let totals = world.traffic(shards, Duration::from_millis(2_500));
    let even = owned(&world);
    assert!(
        uneven[0] < 5 && even.iter().all(|owned| (18..=22).contains(owned)),
        "{uneven:?} {even:?}"
    );
    assert_exact_end(&mut world, &totals);
}

#[test]
fn the_same_seed_makes_the_same_world() {
    let run = || {
        let mut world = World::new(2, 10, 7);
        world.smf.start(world.now);
        world.until(State::Established);
        world
            .smf
            .sessions()
            .iter()
            .map(|session| (session.up_seid, session.uplink_teid))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

/// A gNB that nobody sends to any more gives its place in the neighbour table back; the configured gateway keeps its.
#[test]
fn next_hops_go_with_the_sessions_that_named_them() {
    let mut world = World::new(2, 20, 11);
    let leap = |world: &mut World| {
        for _ in 0..4 {
            world.now = world.now + Duration::from_secs(5);
            world.control.poll(world.now);
            world.step();
        }
        world.control.neighbours(world.now)
    };
    world.smf.start(world.now);
    world.until(State::Established);
    assert_eq!(leap(&mut world), 2, "the gateway and the gNB");
    world.smf.release(world.now);
    world.until(State::Released);
    assert_eq!(leap(&mut world), 1, "the gateway");
}

/// Peers that sessions send to are asked by echo; when one does not answer, its SMF is told.
#[test]
fn paths_are_asked_by_echo_and_a_silent_one_is_reported() {
    let mut world = World::with(1, 4, 44, "}\ngtpu: {echo: {interval_s: 60, t3_s: 1, n3: 2}");
    world.smf.start(world.now);
    world.until(State::Established);
    let mut shards = world.shards();
    let answering = |world: &mut World, shards: &mut Vec<Shard>| {
        for _ in 0..2_000 {
            world.step();
            let mut port = Port {
                wires: &world.wires,
                worker: WorkerId(0),
            };
            shards
                .iter_mut()
                .for_each(|shard| shard.poll(world.now, &mut port));
        }
    };
    answering(&mut world, &mut shards);
    for round in 1..=2 {
        world.now = world.now + Duration::from_secs(60);
        answering(&mut world, &mut shards);
        let asked: u64 = shards
            .iter()
            .map(|shard| shard.totals().events.echo_requests)
            .sum();
        assert_eq!(asked, round);
    }
    assert_eq!(world.control.endpoint().counters().node_reports, 0);
    world.now = world.now + Duration::from_secs(60);
    for _ in 0..3 {
        world.step();
        world.now = world.now + Duration::from_secs(1);
    }
    world.step();
    assert_eq!(world.control.endpoint().counters().node_reports, 1);
}
