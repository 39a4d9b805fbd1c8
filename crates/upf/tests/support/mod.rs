//! The one-thread world: Control, workers, SMF, gNBs and data network polled in turn on simulated time.
#![allow(dead_code, reason = "each test uses its part")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use config::Config;
use flow::{Nanos, PortId, WorkerId};
use packet::MacAddr;
use records::Entry;
use session::Random;
use sim::path::Path;
use sim::report::Totals;
use sim::smf::{Servers, SessionProfile, Smf, State};
use sim::station::StationConfig;
use sim::traffic::{Sizes, Traffic};
use sim::{FramePort, Shard, ShardConfig, Side};
use upf::{Assembly, Control, ReconfigureError, Reconfigured, RecordSink, Surroundings, assemble};
use worker::mem::{MemBuf, MemIo, Wires};
use worker::{Stats, Worker};

pub const N4_UPF: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 8)), 8805);
pub const N4_SMF: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), 8805);
pub const GNB: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 2);
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 254);
/// A gNB and a server that are on no link of ours.
pub const FAR_GNB: Ipv4Addr = Ipv4Addr::new(10, 101, 0, 2);
pub const FAR_SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
pub const STEP: Duration = Duration::from_micros(50);

/// One worker's end of the wires, as the simulator sees it.
pub struct Port<'a> {
    pub wires: &'a Wires,
    pub worker: WorkerId,
    pub routers: &'a mut Routers,
    pub now: Nanos,
}

/// A router on a link: it answers ARP, and what it gets reaches the simulator's station there.
#[derive(Clone, Copy, Debug)]
pub struct Router {
    pub side: Side,
    pub address: Ipv4Addr,
    /// When it begins to answer.
    pub from: Nanos,
}

impl Router {
    pub fn mac(&self) -> MacAddr {
        MacAddr([2, 0, 0, 0, 2, self.address.octets()[3]])
    }
}

/// The routers, and the packets that reached each of them, with when.
#[derive(Default)]
pub struct Routers {
    pub all: Vec<Router>,
    pub received: Vec<(Nanos, Ipv4Addr)>,
    /// The IPv4 TOS of packets that were received on each side.
    pub marks: Vec<(Nanos, Side, u8)>,
}

impl Routers {
    /// What the station on this side gets of a frame; a reply, if that is what the frame asks for.
    fn pass(&mut self, now: Nanos, side: Side, frame: &mut [u8]) -> Option<Vec<u8>> {
        if frame[12..14] == [8, 0] {
            self.marks.push((now, side, frame[15]));
        }
        for router in self.all.iter().filter(|router| router.side == side) {
            let (mac, address) = (router.mac().0, router.address.octets());
            if frame[12..14] == [8, 6] && frame[20..22] == [0, 1] && frame[38..42] == address {
                if now < router.from {
                    return None;
                }
                let asker = &frame[22..32];
                let head = [&frame[6..12], &mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
                let mut reply = [&head[..], &mac, &address, asker].concat();
                reply.resize(60, 0);
                return Some(reply);
            }
            if frame[..6] == mac {
                self.received.push((now, router.address));
                frame[..6].copy_from_slice(&[2, 0, 0, 0, 1, 1 + side as u8]);
            }
        }
        None
    }
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
            let mut frame = frame.bytes().to_vec();
            if let Some(reply) = self.routers.pass(self.now, side, &mut frame) {
                let _ = self
                    .wires
                    .to(WorkerId(0), port_of(side))
                    .push(MemBuf::new(&reply));
            }
            see(&frame);
            seen += 1;
        }
        seen
    }
}

/// Usage records that lie in memory, and whether there is room for more.
#[derive(Clone, Default)]
pub struct Records {
    made: Arc<Mutex<Vec<Entry>>>,
    pub is_full: Arc<AtomicBool>,
}

impl Records {
    pub fn all(&self) -> Vec<Entry> {
        self.made.lock().expect("no panic").clone()
    }
}

impl RecordSink for Records {
    fn put(&mut self, entry: Entry) {
        self.made.lock().expect("no panic").push(entry);
    }

    fn refuses_sessions(&mut self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }
}

pub struct World {
    pub now: Nanos,
    pub control: Control,
    pub workers: Vec<Worker<MemIo>>,
    pub wires: Wires,
    pub smf: Smf,
    pub routers: Routers,
    /// What UEs send to.
    pub server: Ipv4Addr,
    /// The configuration.
    pub text: String,
}

/// A UPF as it starts: what is Control's, the workers', and the wires between the ports and the simulator.
type Upf = (Control, Vec<Worker<MemIo>>, Wires);

/// The configuration with a number of workers and room for a number of sessions, with more of the `workers` section,
/// and more sections.
fn text(workers: u16, sessions: u32, (more, sections): (&str, &str)) -> String {
    format!(
        "{sections}node: {{id: 127.0.0.8}}\n\
         n4: {{addresses: [127.0.0.8]}}\n\
         workers: {{count: {workers}{more}}}\n\
         limits: {{sessions: {sessions}, flows_ipv4: 4096, flows_ipv6: 1024}}\n\
         ports: [{{name: ran, driver: {{memory: {{}}}}}}, {{name: dn, driver: {{memory: {{}}}}}}]\n\
         instances:\n\
         \x20 - {{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}}\n\
         \x20 - {{name: internet, roles: [n6], port: dn, addresses: [10.200.0.1/24],\n\
         \x20    routes: [{{to: 0.0.0.0/0, via: {SERVER}}}]}}\n"
    )
}

/// A UPF of this configuration.
fn upf(now: Nanos, seed: u64, text: &str) -> Upf {
    let config = Config::parse(text, "world").expect("a good configuration");
    let network = Arc::new(config.network().expect("a network"));
    let macs = vec![MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
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
    let (wires, ios) = Wires::new(made.len(), 2, 4096);
    let workers = made.into_iter().zip(ios).map(|((mut config, link), io)| {
        // Results do not depend on the machine's speed.
        config.slow_share_percent = 100;
        Worker::new(config, io, link)
    });
    let workers = workers.collect::<Result<_, _>>().expect("memory");
    (control, workers, wires)
}

impl World {
    pub fn new(workers: u16, sessions: u32, seed: u64) -> Self {
        Self::with(workers, sessions, seed, "")
    }

    /// With more of the `workers` section.
    pub fn with(workers: u16, sessions: u32, seed: u64, more: &str) -> Self {
        Self::made(workers, sessions, seed, (more, ""))
    }

    /// One that makes usage records, with the records that it has made.
    pub fn recording(workers: u16, sessions: u32, seed: u64) -> (Self, Records) {
        let section = "records: {directory: /nowhere}\n";
        let mut world = Self::made(workers, sessions, seed, ("", section));
        let records = Records::default();
        let sink = Box::new(records.clone());
        world.control.keep_records("upf.example".into(), sink);
        (world, records)
    }

    /// One whose workers make checkpoints of what sessions have counted, once a second.
    pub fn keeping(workers: u16, sessions: u32, seed: u64) -> Self {
        Self::made(workers, sessions, seed, ("", "store: {directory: /nowhere}\n"))
    }

    fn made(workers: u16, sessions: u32, seed: u64, more: (&str, &str)) -> Self {
        Self::of_profile(workers, sessions, seed, more, |_| ())
    }

    /// One whose SMF makes other sessions.
    pub fn profiled(
        workers: u16,
        sessions: u32,
        seed: u64,
        profile: impl FnOnce(&mut SessionProfile),
    ) -> Self {
        Self::of_profile(workers, sessions, seed, ("", ""), profile)
    }

    fn of_profile(
        workers: u16,
        sessions: u32,
        seed: u64,
        more: (&str, &str),
        profile: impl FnOnce(&mut SessionProfile),
    ) -> Self {
        Self::configured(text(workers, sessions, more), sessions, seed, profile)
    }

    /// One whose packets wait in queues before they leave: of the instance towards gNBs as `access` says, with more
    /// sections.
    pub fn queueing(workers: u16, sessions: u32, seed: u64, (access, sections): (&str, &str)) -> Self {
        let classes = "egress: {classes: [{name: all, aqm: tail_drop, bytes: 20000}]}\n";
        let text = text(workers, sessions, ("", &format!("{classes}{sections}")))
            .replace("roles: [n3],", &format!("roles: [n3], egress: {access},"))
            .replace("roles: [n6],", "roles: [n6], egress: {},");
        Self::configured(text, sessions, seed, |_| ())
    }

    /// One of this configuration.
    pub fn configured(
        text: String,
        sessions: u32,
        seed: u64,
        profile: impl FnOnce(&mut SessionProfile),
    ) -> Self {
        let now = Nanos(0);
        let (control, workers, wires) = upf(now, seed, &text);
        let mut smf = sim::smf::Config::new(N4_SMF.ip(), sessions);
        smf.profile.gnbs = vec![GNB.into()];
        profile(&mut smf.profile);
        Self {
            now,
            control,
            workers,
            wires,
            smf: Smf::new(smf).expect("a good profile"),
            routers: Routers::default(),
            server: SERVER,
            text,
        }
    }

    /// Another process takes this one's place. The SMF, the gNBs and the data network do not know.
    pub fn restart(&mut self, workers: u16, seed: u64) {
        let count = format!("count: {}", self.workers.len());
        let text = self.text.replace(&count, &format!("count: {workers}"));
        (self.control, self.workers, self.wires) = upf(self.now, seed, &text);
        self.text = text;
    }

    /// Begins to change the configuration to this one. Whether it takes effect comes from the control.
    pub fn reconfigure(&mut self, text: &str) -> Result<(), ReconfigureError> {
        let config = Config::parse(text, "world").expect("a good configuration");
        self.control.reconfigure(self.now, &config)?;
        self.text = text.into();
        Ok(())
    }

    /// What comes of a change of the configuration without traffic.
    pub fn reconfigured(&mut self) -> Result<Reconfigured, ReconfigureError> {
        for _ in 0..400_000 {
            self.step();
            if let Some(result) = self.control.poll_reconfigured() {
                return result;
            }
        }
        panic!("the change of the configuration does not end in twenty simulated seconds");
    }

    /// One turn of everything but the simulator's packets.
    pub fn step(&mut self) {
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

    pub fn until(&mut self, state: State) {
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
    pub fn traffic(&mut self, shards: Vec<Shard>, time: Duration) -> Totals {
        self.traffic_with(shards, time, |_| ())
    }

    /// The same, with `between` after every turn.
    pub fn traffic_with(
        &mut self,
        mut shards: Vec<Shard>,
        time: Duration,
        mut between: impl FnMut(&mut Self),
    ) -> Totals {
        let (began, mut started) = (self.now, None);
        while started.is_none_or(|at| self.now < at + time + Duration::from_millis(20)) {
            self.step();
            between(self);
            for (place, shard) in shards.iter_mut().enumerate() {
                let mut port = Port {
                    wires: &self.wires,
                    worker: WorkerId(place as u16),
                    routers: &mut self.routers,
                    now: self.now,
                };
                shard.poll(self.now, &mut port);
            }
            match started {
                None if shards.iter().all(Shard::is_ready) => {
                    shards.iter_mut().for_each(|shard| assert!(shard.start(self.now)));
                    started = Some(self.now);
                }
                Some(at) if self.now >= at + time => shards.iter_mut().for_each(Shard::stop),
                None => assert!(
                    self.now < began + Duration::from_secs(10),
                    "the gateways do not answer ARP"
                ),
                Some(_) => {}
            }
        }
        let mut totals = Totals::default();
        shards.iter().for_each(|shard| totals.merge(&shard.totals()));
        totals
    }

    pub fn shards(&self) -> Vec<Shard> {
        self.shards_at(&[200_000])
    }

    /// The same with a number of packets a second of each shard, of the last number for those beyond.
    pub fn shards_at(&self, rates: &[u64]) -> Vec<Shard> {
        shards_of(&self.smf, self.server, self.workers.len() as u32, rates)
    }

    pub fn sum(&self, value: impl Fn(&Stats) -> u64) -> u64 {
        self.workers.iter().map(|worker| value(worker.stats())).sum()
    }
}

/// This number of shards between the SMF's sessions and a server, with a number of packets a second of each, of the
/// last number for those beyond.
pub fn shards_of(smf: &Smf, server: Ipv4Addr, count: u32, rates: &[u64]) -> Vec<Shard> {
    let servers = Servers {
        ipv4: server,
        ipv6: "2001:db8:6::fe".parse().expect("an address"),
        port: 5_000,
        ue_port: 40_000,
        ue_ports: 4,
    };
    let paths: Arc<[Path]> = smf
        .paths(&servers)
        .into_iter()
        .map(|p| Path::new(p).expect("a path"))
        .collect();
    let flows = paths.len() as u32;
    // The wires out of the workers end in one queue: with several shards an answer may reach another one's station,
    // so only a lone shard asks for its gateways.
    let known = |id: u8| (count > 1).then_some(MacAddr([2, 0, 0, 0, 0, id]));
    let station = |id, addresses: [Ipv4Addr; 2], gateway: [u8; 4]| StationConfig {
        mac: MacAddr([2, 0, 0, 0, 1, id]),
        vlan: None,
        addresses: addresses.map(Into::into).to_vec(),
        gateway_ipv4: Some(gateway.into()),
        gateway_ipv6: None,
        gateway_mac: known(id),
    };
    let shard = |place: u32| {
        Shard::new(ShardConfig {
            access: station(1, [GNB, FAR_GNB], [10, 100, 0, 1]),
            core: station(2, [SERVER, FAR_SERVER], [10, 200, 0, 1]),
            paths: Arc::clone(&paths),
            share: flows * place / count..flows * (place + 1) / count,
            traffic: Traffic {
                rate: rates[(place as usize).min(rates.len() - 1)],
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
