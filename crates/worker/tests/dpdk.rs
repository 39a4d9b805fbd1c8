//! A worker over DPDK's memory ports: the same packets as over vectors, and nothing leaks from the pool.

#![cfg(feature = "dpdk")]

mod common;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use dpdk::testing::Kernel;
use dpdk::{Burst, MemoryPeer, MemorySpec, Mempool, PoolConfig, Port, PortConfig, PortSpec, flags};
use flow::{Bucket, InstanceId, Nanos, OpId, PortId, Seed, WorkerId};
use packet::buf::{bring_together, parts};
use packet::checksum::Sum;
use packet::{DropReason, IpTuple, PacketBuf, Teid, udp};
use rules::SessionRules;
use rules::image::SessionChange;
use rules::model::{OuterHeaderCreation, OuterHeaderKind};
use rules::testing::{self, GNB, N3_ADDRESS, NumberedHops, UE, UserPacket, pdu_session, tunnelled};
use transport::{Adjacency, AdjacencyChange};
use worker::dpdk::{DpdkBuf, DpdkIo};
use worker::{Command, Io, Worker, WorkerConfig, WorkerSelectionChange, control_channel, interface};

use common::{frame, hop, our_mac};

const PORTS: usize = 2;
/// How long the kernel may take to hand over a frame.
const PATIENCE: Duration = Duration::from_secs(5);

/// Two workers with a queue pair each of two memory ports, the second of which owns everything.
#[test]
fn packets_cross_ports_and_inboxes() {
    let eal = dpdk::testing::eal();
    let pool = Mempool::new(eal, PoolConfig::with_buffers(1023)).expect("a pool");
    let inboxes = (0..2).map(|_| dpdk::mpsc(eal, 64).expect("a ring"));
    let (producers, consumers): (Vec<_>, Vec<_>) = inboxes.unzip();
    let mut peers = Vec::new();
    let mut queues = [Vec::new(), Vec::new()];
    let mut ports = Vec::new();
    for _ in 0..PORTS {
        let (mut port, peer) = Port::memory(eal, &MemorySpec { queues: 2, depth: 64 }).expect("a port");
        let started = port.start(&PortConfig::new(2, &pool)).expect("it starts");
        for (pairs, pair) in queues.iter_mut().zip(started.rx.into_iter().zip(started.tx)) {
            pairs.push(pair);
        }
        peers.push(peer);
        ports.push(port);
    }
    let mut workers = Vec::new();
    for (id, (pairs, inbox)) in queues.into_iter().zip(consumers).enumerate() {
        let io = DpdkIo::new(pairs, pool.clone(), Some(inbox), producers.clone());
        workers.push(worker(id as u16, io));
    }
    let user = UserPacket::udp(UE, Ipv4Addr::new(192, 0, 2, 1), 1000, 53).bytes();
    let uplink = frame(
        0,
        &tunnelled(N3_ADDRESS, 0x1001, 255, Some([0x10, 9]), &[], &user),
    );
    for queue in 0..2 {
        let mut burst = Burst::new();
        burst
            .push(pool.alloc_with(&uplink).expect("a buffer"))
            .expect("room");
        assert_eq!(peers[0].to_port[queue].enqueue(&mut burst), 1);
    }
    for _ in 0..3 {
        for worker in &mut workers {
            worker.poll(Nanos::from_secs(1));
        }
    }
    let sent = received(&mut peers[1]);
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0], sent[1]);
    assert_eq!(sent[0][14 + 12..14 + 16], UE.octets());
    assert_eq!(workers[0].stats().handed_over, 1);
    for worker in &workers {
        assert_eq!(worker.stats().unaccounted(), 0);
    }
    assert_eq!(pool.in_use(), 0);
    drop((workers, ports));
}

#[test]
fn a_workers_queues_cross_threads() {
    fn crosses<T: Send>() {}
    crosses::<Worker<DpdkIo>>();
}

fn received(peer: &mut MemoryPeer) -> Vec<Vec<u8>> {
    let mut burst = Burst::new();
    for queue in &mut peer.from_port {
        queue.dequeue(&mut burst);
    }
    burst
        .iter()
        .map(|mbuf| mbuf.segments().flatten().copied().collect())
        .collect()
}

fn worker(id: u16, io: DpdkIo) -> Worker<DpdkIo> {
    worker_in(testing::network(), (id, 2), io)
}

/// The worker of an id and a count, `of`; number 1 has the session.
fn worker_in(network: rules::network::Network, of: (u16, u16), io: DpdkIo) -> Worker<DpdkIo> {
    let gnb = OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB);
    worker_with(pdu_session(0x1001, gnb), network, of, io)
}

/// The same with another session.
fn worker_with(
    rules: SessionRules,
    network: rules::network::Network,
    (id, workers): (u16, u16),
    io: DpdkIo,
) -> Worker<DpdkIo> {
    let network = Arc::new(network);
    let macs: Vec<_> = (0..4).map(our_mac).collect();
    let mut config = WorkerConfig::new(
        WorkerId(id),
        workers,
        Arc::clone(&network),
        macs.clone(),
        Seed([1, 2]),
    );
    (config.max_sessions, config.own_sessions, config.commands_per_poll) = (64, 64, 1024);
    (config.max_flows_v4, config.max_flows_v6) = (1024, 1024);
    let (mut control, end) = control_channel(1024, 64);
    let mut worker = Worker::new(config, io, end).expect("there is memory");
    let adjacency = |instance: u16, next_hop: &str| {
        let home = interface(&network.instances()[usize::from(instance)], &macs);
        let next_hop = next_hop.parse().expect("an address");
        Command::Adjacency(AdjacencyChange {
            id: hop(instance, 254),
            neighbour: Some((InstanceId(instance), next_hop)),
            adjacency: Some(Adjacency::resolved(&home, our_mac(9))),
        })
    };
    let mut commands = vec![adjacency(1, "10.0.6.254"), adjacency(0, "2001:db8:3::fe")];
    let owner = WorkerId(1);
    commands.extend(
        Bucket::all().map(|bucket| Command::SelectWorker(WorkerSelectionChange::Bucket { bucket, owner })),
    );
    if id == 1 {
        let image = rules::compile::compile(&rules.into(), &network, &NumberedHops).expect("it compiles");
        commands.push(Command::Session {
            op: OpId(1),
            change: SessionChange::Install(Box::new(image)),
        });
    }
    for command in commands {
        control.commands.push(command).expect("there is room");
    }
    worker.poll(Nanos::ZERO);
    worker
}

/// Packets of 9,000 octets in chains of mbufs, as a NIC spreads them over buffers of 2,048: both ways out, whole and in
/// fragments, and nothing leaks from the pool.
#[test]
fn jumbo_packets_pass_in_chains() {
    let eal = dpdk::testing::eal();
    let pool = Mempool::new(eal, PoolConfig::with_buffers(511)).expect("a pool");
    let mut peers = Vec::new();
    let mut pairs = Vec::new();
    let mut ports = Vec::new();
    for _ in 0..PORTS {
        let (mut port, peer) = Port::memory(eal, &MemorySpec { queues: 1, depth: 64 }).expect("a port");
        let mut config = PortConfig::new(1, &pool);
        config.mtu = Some(9_000);
        let started = port.start(&config).expect("it starts");
        pairs.extend(started.rx.into_iter().zip(started.tx));
        peers.push(peer);
        ports.push(port);
    }
    let network = testing::network_with(|instance| {
        instance.mtu = if instance.id == testing::N6 { 8_000 } else { 9_000 };
    });
    let mut worker = worker_in(
        network,
        (1, 2),
        DpdkIo::new(pairs, pool.clone(), None, Vec::new()),
    );
    for (octets, fragments) in [(7_000, 1), (8_900, 2)] {
        let mut user = UserPacket::udp(UE, Ipv4Addr::new(192, 0, 2, 1), 1000, 53);
        user.payload = (0..octets).map(|at| (at * 7 + at / 256) as u8).collect();
        let user = user.bytes();
        let uplink = frame(
            0,
            &tunnelled(N3_ADDRESS, 0x1001, 255, Some([0x10, 9]), &[], &user),
        );
        let mut burst = Burst::new();
        burst.push(chain(&pool, &uplink)).expect("room");
        assert_eq!(peers[0].to_port[0].enqueue(&mut burst), 1);
        for _ in 0..3 {
            worker.poll(Nanos::from_secs(1));
        }
        let sent = received(&mut peers[1]);
        assert_eq!(sent.len(), fragments);
        assert!(sent.iter().all(|frame| frame.len() <= 14 + 8_000));
        let payload: Vec<u8> = sent.iter().flat_map(|frame| frame[34..].to_vec()).collect();
        assert_eq!(payload, user[20..], "{octets} octets");
        assert_eq!(worker.stats().unaccounted(), 0);
        assert_eq!(pool.in_use(), 0);
    }
    drop((worker, ports));
}

/// A packet in buffers of the pool's size.
fn chain(pool: &Mempool, packet: &[u8]) -> dpdk::Mbuf {
    let mut parts = packet
        .chunks(2_048)
        .map(|part| pool.alloc_with(part).expect("a buffer"));
    let mut head = parts.next().expect("octets");
    parts.for_each(|part| head.chain(part).expect("a short chain"));
    head
}

/// A chained packet of a given length in octets, as a NIC makes it.
fn spread(pool: &Mempool, octets: &[u8], part: usize) -> DpdkBuf {
    let mut parts = octets
        .chunks(part)
        .map(|part| pool.alloc_with(part).expect("a buffer"));
    let mut head = parts.next().expect("octets");
    parts.for_each(|part| head.chain(part).expect("few parts"));
    DpdkBuf::from(head)
}

#[test]
fn chains_are_brought_together_as_far_as_buffers_hold_them() {
    let eal = dpdk::testing::eal();
    let pool = Mempool::new(eal, PoolConfig::with_buffers(255)).expect("a pool");
    let octets: Vec<u8> = (0..9_000).map(|at| (at % 251) as u8).collect();
    // In the first buffer, in a new one with its headroom, in several of them, not at all.
    for (len, part, most, expected) in [
        (1_500, 700, 1, Ok(false)),
        (2_100, 2_048, 1, Ok(true)),
        (9_000, 900, 8, Ok(true)),
        (9_000, 900, 10, Ok(false)),
        (9_000, 2_000, 4, Err(DropReason::TooBig)),
        (2_200, 2_048, 1, Err(DropReason::TooBig)),
    ] {
        let mut buf = spread(&pool, &octets[..len], part);
        let mut alloc = || pool.alloc().map(DpdkBuf::from);
        assert_eq!(
            bring_together(&mut buf, most, &mut alloc),
            expected,
            "{len} {part}"
        );
        if expected.is_ok() {
            assert!(parts(&buf) <= most);
        }
        let mut out = vec![0; len];
        assert!(buf.copy_to(0, &mut out) && out == octets[..len]);
        let empty = &mut || None;
        let mut buf = spread(&pool, &octets[..2_100], 2_048);
        assert_eq!(bring_together(&mut buf, 1, empty), Err(DropReason::NoBuffer));
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_queue_knows_what_chains_its_port_sends() {
    let eal = dpdk::testing::eal();
    let pool = Mempool::new(eal, PoolConfig::with_buffers(255)).expect("a pool");
    for (tx_chains, most) in [(true, usize::MAX), (false, 1)] {
        let (mut port, _peer) = Port::memory(eal, &MemorySpec { queues: 1, depth: 64 }).expect("a port");
        let config = PortConfig {
            tx_chains,
            ..PortConfig::new(1, &pool)
        };
        let mut started = port.start(&config).expect("it starts");
        let pair = (started.rx.remove(0), started.tx.remove(0));
        let io = DpdkIo::new([pair], pool.clone(), None, Vec::new());
        assert_eq!((io.bounds_chains(), io.most_parts(PortId(0))), (!tx_chains, most));
        assert_eq!(io.most_parts(PortId(1)), usize::MAX);
    }
}

/// A kernel's TAP interface as N3, in a network of this thread's own: its driver fills in checksums by itself, as a NIC
/// does.
struct Tap {
    worker: Worker<DpdkIo>,
    peer: MemoryPeer,
    kernel: Kernel,
    _ports: [Port; 2],
}

impl Tap {
    /// With a session whose gNB is reached over IPv6.
    fn new(name: &str, tx_udp_checksum: bool, tx_chains: bool) -> Self {
        let eal = dpdk::testing::eal();
        let pool = Mempool::new(eal, PoolConfig::with_buffers(2047)).expect("a pool");
        let spec = PortSpec::Virtual {
            name: format!("net_tap_{name}"),
            arguments: format!("iface={name}"),
        };
        let mut n3 = Port::open(eal, &spec).expect("a TAP interface");
        let config = PortConfig {
            tx_udp_checksum,
            tx_chains,
            ..PortConfig::new(1, &pool)
        };
        let (mut n6, peer) = Port::memory(eal, &MemorySpec { queues: 1, depth: 64 }).expect("a port");
        let started = [n3.start(&config), n6.start(&PortConfig::new(1, &pool))];
        let pairs: Vec<_> = started
            .into_iter()
            .map(|queues| queues.expect("it starts"))
            .flat_map(|queues| queues.rx.into_iter().zip(queues.tx))
            .collect();
        let io = DpdkIo::new(pairs, pool.clone(), None, Vec::new());
        assert_eq!(io.fills_udp_checksums(PortId(0)), tx_udp_checksum);
        assert!(!io.fills_udp_checksums(PortId(1)) && !io.fills_udp_checksums(PortId(2)));
        let kernel = Kernel::listen(name).expect("the kernel's side");
        let gnb = OuterHeaderCreation {
            kind: OuterHeaderKind::GTPU_IPV6,
            teid: Teid(77),
            ipv4: None,
            ipv6: Some("2001:db8:200::1".parse().expect("an address")),
            port: None,
        };
        let worker = worker_with(pdu_session(0x1001, gnb), testing::network(), (1, 2), io);
        Self {
            worker,
            peer,
            kernel,
            _ports: [n3, n6],
        }
    }

    /// What the kernel gets of a packet that comes in by N6 in buffers of `pool`.
    fn pass(&mut self, packet: &[u8], pool: &Mempool) -> Vec<u8> {
        let mut burst = Burst::new();
        let buf = spread(pool, &frame(1, packet), pool.config().data_room.into());
        burst.push(buf.into_mbuf()).expect("room");
        assert_eq!(self.peer.to_port[0].enqueue(&mut burst), 1);
        for _ in 0..3 {
            self.worker.poll(Nanos::from_secs(1));
        }
        assert_eq!(self.worker.stats().unaccounted(), 0);
        loop {
            // The kernel has frames of its own.
            let frame = self.kernel.frame(PATIENCE).expect("it arrives");
            if frame[6..12] == our_mac(0).0 {
                return frame;
            }
        }
    }
}

#[test]
fn a_kernel_gets_the_same_with_and_without_checksum_offload() {
    if !dpdk::testing::own_network() {
        println!("not run: only root can make a network");
        return;
    }
    let mut taps = [
        Tap::new("sums0", false, true),
        Tap::new("sums1", true, true),
        Tap::new("sums2", true, false),
    ];
    let config = |data_room| PoolConfig {
        data_room,
        ..PoolConfig::with_buffers(255)
    };
    let pools = [2_048, 512].map(|room| Mempool::new(dpdk::testing::eal(), config(room)).expect("a pool"));
    // In one buffer, and in several that have to be copied into another for a port that sends no chains.
    for octets in [0, 1, 700, 1_001, 1_300, 1_391] {
        let user = UserPacket {
            payload: (0..octets).map(|at| (at * 7 + at / 256) as u8).collect(),
            ..UserPacket::udp(Ipv4Addr::new(192, 0, 2, 1), UE, 53, 1000)
        };
        let user = user.bytes();
        for pool in &pools {
            let expected = taps[0].pass(&user, pool);
            let outer = IpTuple::parse(&expected[14..], expected.len() - 14).expect("a packet");
            udp::verify_checksum(&outer.addrs, &expected[54..], Sum::default(), false).expect("a checksum");
            assert_eq!(expected[expected.len() - octets..], user[user.len() - octets..]);
            for tap in &mut taps[1..] {
                assert_eq!(tap.pass(&user, pool), expected, "{octets} octets");
            }
        }
    }
}

#[test]
fn a_request_stays_with_its_buffer() {
    let eal = dpdk::testing::eal();
    let pool = Mempool::new(eal, PoolConfig::with_buffers(255)).expect("a pool");
    let mut buf = DpdkBuf::from(pool.alloc_with(&[7; 100]).expect("a buffer"));
    assert_eq!(buf.asks_udp_checksum(), None);
    assert!(!buf.ask_udp_checksum(128), "no link layer is so long");
    assert_eq!(buf.asks_udp_checksum(), None);
    assert!(buf.ask_udp_checksum(22));
    assert_eq!(buf.asks_udp_checksum(), Some(22));
    let mbuf = buf.into_mbuf();
    assert_eq!((mbuf.tx_lengths().l2, mbuf.tx_lengths().l3), (22, 40));
    assert_eq!(mbuf.ol_flags(), flags::TX_IPV6 | flags::TX_UDP_CKSUM);
    drop(mbuf);
    // The next user of the buffer sees nothing of it.
    let all: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
    assert!(all.len() > 200 && all.iter().all(|mbuf| mbuf.ol_flags() == 0));
}
