//! The UPF under test: Control and two workers, polled in turn, and the stations on its links.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use config::Config;
use flow::{Nanos, PortId, WorkerId};
use packet::MacAddr;
use rules::network::{InstanceId, Network};
use session::Random;
use upf::{Assembly, Control, Surroundings, assemble};
use worker::Worker;
use worker::mem::{MemBuf, MemIo, Wires};

use super::shim::Datagram;

pub const N4_UPF: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 8)), 8805);
/// Our address on N3: that of `rules::testing`'s packets.
pub const N3: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
pub const ACCESS: InstanceId = InstanceId(0);
pub const INTERNET: InstanceId = InstanceId(1);
pub const WORKERS: u16 = 2;
/// Seconds since 1970 when simulated time begins.
pub const EPOCH: u64 = 1_700_000_000;
/// Turns in which a world without new input comes to rest.
const PATIENCE: u32 = 400;

const CONFIG: &str = "
node: {id: 127.0.0.8}
n4: {addresses: [127.0.0.8], accept_cp_f_teids: true, t1_ms: 500, unknown_source_s: 0, unverified_percent: 100}
workers: {count: 2}
limits: {sessions: 64, flows_ipv4: 1024, flows_ipv6: 1024}
flows: {idle_s: {udp: 30, other: 30}}
fragments: {datagrams: 0}
neighbours: {dad_transmits: 0}
buffering: {packets: 4096, per_far: 512, per_session: 512, bytes_per_session: 1048576, timeout_s: 86400}
ports: [{name: ran, driver: {memory: {}}}, {name: dn, driver: {memory: {}}}]
instances:
  - {name: access, roles: [n3], port: ran, addresses: [10.0.3.1/24], routes: [{to: 10.201.0.0/16, via: 10.0.3.254}]}
  - name: internet
    roles: [n6]
    port: dn
    addresses: [10.0.6.1/24, '2001:db8:6::1/64']
    routes:
      - {to: 0.0.0.0/0, via: 10.0.6.254}
      - {to: '::/0', via: '2001:db8:6::fe', mac: '02:00:00:00:00:fe'}
pools:
  - {name: v4, instance: internet, ipv4: [10.46.0.0/24]}
  - {name: v6, instance: internet, ipv6: [{prefix: '2001:db8:46::/48'}]}
";

/// A frame that left, by its port.
pub struct Left {
    pub port: PortId,
    pub bytes: Vec<u8>,
}

/// One life of the UPF.
pub struct Upf {
    /// When it started; its own clock was 0 then.
    born: Nanos,
    pub network: Arc<Network>,
    pub control: Control,
    pub workers: Vec<Worker<MemIo>>,
    wires: Wires,
    pub left: Vec<Left>,
    /// Neighbours without any session.
    pub neighbours: usize,
}

impl Upf {
    pub fn boot(born: Nanos, seed: u64) -> Self {
        let config = Config::parse(CONFIG, "sequences").expect("a good configuration");
        let network = Arc::new(config.network().expect("a network"));
        let macs = vec![mac(0), mac(1)];
        let around = Surroundings {
            now: Nanos(0),
            clock_unix: EPOCH + born.0 / 1_000_000_000,
            random: Random::from_number(seed ^ born.0),
            interfaces: network
                .instances()
                .iter()
                .map(|one| worker::interface(one, &macs))
                .collect(),
            macs,
        };
        let Assembly { control, workers } = assemble(&config, &network, around);
        let (wires, ios) = Wires::new(WORKERS.into(), 2, 1024);
        let workers = workers.into_iter().zip(ios).map(|((mut config, link), io)| {
            // Results do not depend on the machine's speed.
            config.slow_share_percent = 100;
            Worker::new(config, io, link).expect("memory")
        });
        let mut upf = Self {
            born,
            network,
            control,
            workers: workers.collect(),
            wires,
            left: Vec::new(),
            neighbours: 0,
        };
        upf.rest(born);
        upf.neighbours = upf.control.neighbours(Nanos(0));
        upf
    }

    /// Seconds since 1900 when it started.
    pub fn recovery(&self) -> u32 {
        ntp(self.born)
    }

    /// Its own clock.
    pub fn clock(&self, now: Nanos) -> Nanos {
        Nanos(now.0 - self.born.0)
    }

    /// When it next has something to do of itself.
    pub fn timeout(&self, now: Nanos) -> Option<Nanos> {
        let at = self.control.poll_timeout(self.clock(now))?;
        Some(Nanos(at.0.saturating_add(self.born.0)))
    }

    pub fn receive_n4(&mut self, now: Nanos, datagram: &Datagram) {
        let clock = self.clock(now);
        self.control
            .handle_datagram(clock, datagram.from, datagram.to, &datagram.bytes);
    }

    /// A frame comes in by an instance's port, placed at a worker.
    pub fn receive(&mut self, worker: u16, ingress: InstanceId, packet: &[u8]) {
        let port = ingress.0 as u8;
        let kind = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
        let frame = [&mac(port).0[..], &[2, 0xee, 0, 0, 0, port], &kind, packet].concat();
        let queue = self.wires.to(WorkerId(worker), PortId(port.into()));
        queue.push(MemBuf::new(&frame)).expect("room on the wire");
    }

    /// All pending work is done; returns what control sends.
    pub fn rest(&mut self, now: Nanos) -> Vec<Datagram> {
        let mut sent = Vec::new();
        for _ in 0..PATIENCE {
            if !self.turn(now, &mut sent) {
                return sent;
            }
        }
        panic!("the UPF does not come to rest");
    }

    fn turn(&mut self, now: Nanos, sent: &mut Vec<Datagram>) -> bool {
        let clock = self.clock(now);
        let mut busy = self.control.poll(clock);
        while let Some(transmit) = self.control.poll_transmit() {
            busy = true;
            sent.push(Datagram {
                from: transmit.from,
                to: transmit.to,
                bytes: transmit.bytes.to_vec(),
            });
        }
        for worker in &mut self.workers {
            busy |= !worker.poll(clock).is_idle();
        }
        for port in (0..2).map(PortId) {
            while let Some(frame) = self.wires.from(port).pop() {
                busy = true;
                self.take(port, frame.bytes());
            }
        }
        busy
    }

    /// A frame has left: stations answer ARP.
    fn take(&mut self, port: PortId, frame: &[u8]) {
        match frame.get(12..14) {
            // A request for the own address is an announcement.
            Some([8, 6]) if frame[20..22] == [0, 1] && frame[28..32] != frame[38..42] => {
                let answer = arp_reply(port, frame);
                let queue = self.wires.to(WorkerId(0), port);
                queue.push(MemBuf::new(&answer)).expect("room on the wire");
            }
            Some([8, 6]) => {}
            _ => self.left.push(Left {
                port,
                bytes: frame.to_vec(),
            }),
        }
    }
}

/// Seconds since 1900 at a moment of simulated time.
pub fn ntp(now: Nanos) -> u32 {
    (EPOCH + now.0 / 1_000_000_000 + 2_208_988_800) as u32
}

fn mac(port: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port + 1])
}

/// The reply of the requested address.
fn arp_reply(port: PortId, request: &[u8]) -> Vec<u8> {
    let (asker, own, wanted) = (&request[22..28], &request[28..32], &request[38..42]);
    let station = [2, 0x0e, port.0 as u8, wanted[1], wanted[2], wanted[3]];
    let mut frame = [asker, &station, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &station].concat();
    frame.extend([wanted, asker, own].concat());
    frame.resize(60, 0);
    frame
}
