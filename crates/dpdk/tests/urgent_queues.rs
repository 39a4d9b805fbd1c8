//! Receive queues that a program chooses, of packet sockets on a veth. Only root can make one.

use dpdk::testing::{Kernel, eal, own_veth};
use dpdk::*;

/// Classic BPF of `linux/bpf_common.h`.
const LOAD_HALF: u16 = 0x28;
const LOAD_OCTET: u16 = 0x30;
const AND: u16 = 0x54;
const IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const RETURN_A: u16 = 0x16;
const PROTOCOL: u32 = 0xffff_f000;
const VLAN_TAG: u32 = PROTOCOL + 44;

fn step(code: u16, k: u32) -> FilterInstruction {
    FilterInstruction {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

fn if_equal(k: u32, jf: u8) -> FilterInstruction {
    FilterInstruction {
        jf,
        ..step(IF_EQUAL, k)
    }
}

/// A frame with an EtherType that is not assigned, or that of ARP, and the first octet behind it.
fn frame(tag: Option<u16>, ether_type: u16, first: u8) -> Vec<u8> {
    let mut frame = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 2];
    if let Some(tag) = tag {
        frame.extend([0x81, 0]);
        frame.extend(tag.to_be_bytes());
    }
    frame.extend(ether_type.to_be_bytes());
    frame.push(first);
    frame.resize(64, 0);
    frame
}

struct Veth {
    kernel: Kernel,
    port: Port,
    pool: Mempool,
    rx: Vec<RxQueue>,
}

impl Veth {
    fn new(queues: u16) -> Option<Veth> {
        if !own_veth() {
            println!("not run: only root can make a network");
            return None;
        }
        let spec = PortSpec::AfPacket {
            interface: "port0".into(),
            queues,
        };
        let pool = Mempool::new(eal(), PoolConfig::with_buffers(2_000)).unwrap();
        let mut port = Port::open(eal(), &spec).unwrap();
        let config = PortConfig {
            urgent_queues: true,
            rx_descriptors: 64,
            ..PortConfig::new(queues, &pool)
        };
        let rx = port.start(&config).unwrap().rx;
        Some(Veth {
            kernel: Kernel::listen("host0").unwrap(),
            port,
            pool,
            rx,
        })
    }
}

/// The octets behind the EtherTypes of the frames that wait at a queue, of those that were sent here.
fn received(queue: &mut RxQueue) -> Vec<u8> {
    let mut firsts = Vec::new();
    let mut burst = Burst::new();
    while queue.rx_burst(&mut burst) > 0 {
        for mbuf in burst.drain() {
            let data = mbuf.data();
            let at = if data[12..14] == [0x81, 0] { 18 } else { 14 };
            if data[6..12] == [2, 0, 0, 0, 0, 2] {
                firsts.push(data[at]);
            }
        }
    }
    firsts
}

#[test]
fn chosen_frames_come_to_a_queue_that_others_do_not_fill() {
    let Some(mut veth) = Veth::new(1) else { return };
    let rx = &mut veth.rx[0];
    // ARP, and what is in VLAN 7.
    let program = [
        step(LOAD_HALF, PROTOCOL),
        if_equal(0x0806, 1),
        step(RETURN, 1),
        step(LOAD_HALF, VLAN_TAG),
        step(AND, 0xfff),
        if_equal(7, 1),
        step(RETURN, 1),
        step(RETURN, 0),
    ];
    let mut urgent = rx
        .choose_queues(&program, true)
        .unwrap()
        .expect("a queue beside it");
    assert!(
        rx.choose_queues(&program, true).unwrap().is_none(),
        "it is given once"
    );
    assert_eq!(veth.port.urgent_queues(), UrgentQueues::Sorted);
    assert_eq!(rx.fds().chain(urgent.fds()).count(), 2);
    for number in 0..200 {
        veth.kernel.send(&frame(None, 0x88b5, number)).unwrap();
    }
    for number in 0..100 {
        veth.kernel.send(&frame(None, 0x0806, number)).unwrap();
        veth.kernel
            .send(&frame(Some(0x6007), 0x88b5, 100 + number))
            .unwrap();
    }
    assert!(urgent.has_packets());
    let (mut first, second) = (received(&mut veth.rx[0]), received(&mut urgent));
    assert_eq!(first, (0..64).collect::<Vec<_>>(), "the rest found no room");
    let mut expected: Vec<u8> = (0..100).flat_map(|number| [number, 100 + number]).collect();
    assert_eq!(second, expected);
    assert!(!urgent.has_packets());
    // There is room again in the one and in the other, over the ends of the rings.
    for number in 0..60 {
        veth.kernel.send(&frame(None, 0x88b5, number)).unwrap();
        veth.kernel.send(&frame(None, 0x0806, number)).unwrap();
    }
    first = received(&mut veth.rx[0]);
    expected = (0..60).collect();
    assert_eq!((first, received(&mut urgent)), (expected.clone(), expected));
    drop((urgent, std::mem::take(&mut veth.rx)));
    assert_eq!(veth.pool.in_use(), 0);
}

#[test]
fn a_program_spreads_frames_over_queues_and_those_beside_them() {
    let Some(mut veth) = Veth::new(2) else { return };
    let program = [step(LOAD_OCTET, 0), step(RETURN_A, 0)];
    let beside = |rx: &mut RxQueue| {
        rx.choose_queues(&program, true)
            .unwrap()
            .expect("a queue beside it")
    };
    let mut urgent: Vec<RxQueue> = veth.rx.iter_mut().map(beside).collect();
    for number in [3, 1, 0, 2, 2, 1] {
        veth.kernel.send(&frame(None, 0x88b5, number)).unwrap();
    }
    let found: Vec<Vec<u8>> = veth.rx.iter_mut().chain(&mut urgent).map(received).collect();
    assert_eq!(found, [vec![0], vec![1, 1], vec![2, 2], vec![3]]);
}

#[test]
fn what_is_no_program_is_refused_and_one_queue_has_all() {
    let Some(mut veth) = Veth::new(1) else { return };
    let endless = [step(LOAD_HALF, 0)];
    assert_eq!(veth.port.urgent_queues(), UrgentQueues::Waiting);
    assert!(veth.rx[0].choose_queues(&endless, true).is_err());
    assert!(matches!(veth.port.urgent_queues(), UrgentQueues::Refused(_)));
    veth.kernel.send(&frame(None, 0x0806, 9)).unwrap();
    assert_eq!(received(&mut veth.rx[0]), [9]);
}

/// A program that sorts nothing out leaves all to the first queues.
#[test]
fn what_is_too_long_to_sort_is_said() {
    let Some(mut veth) = Veth::new(1) else { return };
    let urgent = veth.rx[0].choose_queues(&[step(RETURN, 0)], false).unwrap();
    assert!(urgent.is_none());
    assert_eq!(veth.port.urgent_queues(), UrgentQueues::TooMany);
    veth.kernel.send(&frame(None, 0x0806, 9)).unwrap();
    assert_eq!(received(&mut veth.rx[0]), [9]);
}
