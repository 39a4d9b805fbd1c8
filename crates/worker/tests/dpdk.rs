//! A worker over DPDK's memory ports: the same packets as over vectors, and nothing leaks from the pool.

#![cfg(feature = "dpdk")]

mod common;

use std::net::Ipv4Addr;
use std::sync::Arc;

use dpdk::{Burst, MemoryPeer, MemorySpec, Mempool, PoolConfig, Port, PortConfig};
use flow::{Bucket, InstanceId, Nanos, OpId, Seed, WorkerId};
use packet::Teid;
use rules::image::SessionChange;
use rules::model::OuterHeaderCreation;
use rules::testing::{self, GNB, N3_ADDRESS, NumberedHops, UE, UserPacket, pdu_session, tunnelled};
use transport::{Adjacency, AdjacencyChange};
use worker::dpdk::{DpdkIo, inboxes};
use worker::{Command, SteerChange, Worker, WorkerConfig, interface, link};

use common::{frame, hop, our_mac};

const PORTS: usize = 2;

/// Two workers with a queue pair each of two memory ports, the second of which owns everything.
#[test]
fn packets_cross_ports_and_inboxes() {
    let eal = dpdk::testing::eal();
    let pool = Mempool::new(eal, PoolConfig::with_buffers(1023)).expect("a pool");
    let (producers, consumers) = inboxes(eal, 2, 64).expect("rings");
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
    burst.iter().map(|mbuf| mbuf.data().to_vec()).collect()
}

fn worker(id: u16, io: DpdkIo) -> Worker<DpdkIo> {
    let network = Arc::new(testing::network());
    let macs: Vec<_> = (0..4).map(our_mac).collect();
    let mut config = WorkerConfig::new(WorkerId(id), 2, Arc::clone(&network), macs.clone(), Seed([1, 2]));
    (config.max_sessions, config.own_sessions, config.commands_per_poll) = (64, 64, 1024);
    (config.max_flows_v4, config.max_flows_v6) = (1024, 1024);
    let (mut control, end) = link(1024, 64);
    let mut worker = Worker::new(config, io, end).expect("there is memory");
    let home = interface(&network.instances()[1], &macs);
    let mut commands = vec![Command::Adjacency(AdjacencyChange {
        id: hop(1, 254),
        neighbour: Some((InstanceId(1), Ipv4Addr::new(10, 0, 6, 254).into())),
        adjacency: Some(Adjacency::resolved(&home, our_mac(9))),
    })];
    let owner = WorkerId(1);
    commands.extend(Bucket::all().map(|bucket| Command::Steer(SteerChange::Bucket { bucket, owner })));
    if id == 1 {
        let rules = pdu_session(0x1001, OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB));
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
