//! UDP segmentation of packet sockets, against the kernel at the other end of a veth. Only root can make one.

use std::time::Duration;

use dpdk::testing::{Kernel, eal, own_veth, run};
use dpdk::*;

const ETHERNET: usize = 14;
const HEADERS: usize = 42;

/// The ones' complement sum of octets (RFC 1071).
fn sum(octets: &[u8]) -> u16 {
    let words = octets
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let total: u32 = words.sum();
    let total = (total & 0xffff) + (total >> 16);
    ((total & 0xffff) + (total >> 16)) as u16
}

/// A GTP-U packet as a UPF sends it: don't fragment, identification 0, no UDP checksum.
fn gtpu(peer: u8, tos: u8, teid: u8, payload: usize) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x08, 0x00];
    frame.extend([
        0x45, tos, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 2, 192, 0, 2, peer,
    ]);
    frame.extend([0x08, 0x68, 0x08, 0x68, 0, 0, 0, 0]);
    frame.extend((0..payload).map(|at| teid.wrapping_add(at as u8)));
    let total = (frame.len() - ETHERNET) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame[38..40].copy_from_slice(&(total - 20).to_be_bytes());
    let checksum = !sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// The same with another word in the header, of which the IP checksum follows.
fn with_word(mut frame: Vec<u8>, at: usize, word: u16) -> Vec<u8> {
    frame[at..at + 2].copy_from_slice(&word.to_be_bytes());
    frame[24..26].copy_from_slice(&[0, 0]);
    let checksum = !sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// The frame without what segmentation may change, and its identification. Its checksums are right.
fn normal(mut frame: Vec<u8>) -> (Vec<u8>, u16) {
    assert_eq!(sum(&frame[14..34]), 0xffff, "{frame:x?}");
    if frame[40..42] != [0, 0] {
        let mut covered = frame[26..34].to_vec();
        covered.extend([0, 17, frame[38], frame[39]]);
        covered.extend(&frame[34..]);
        assert_eq!(sum(&covered), 0xffff, "{frame:x?}");
    }
    let id = u16::from_be_bytes([frame[18], frame[19]]);
    for at in [18, 19, 24, 25, 40, 41] {
        frame[at] = 0;
    }
    (frame, id)
}

fn mbuf(pool: &Mempool, frame: &[u8], chained: bool) -> Mbuf {
    let mut mbuf = pool.alloc().unwrap();
    let first = if chained { 60 } else { frame.len() };
    mbuf.append(first).unwrap().copy_from_slice(&frame[..first]);
    if chained {
        let mut rest = pool.alloc().unwrap();
        rest.append(frame.len() - first)
            .unwrap()
            .copy_from_slice(&frame[first..]);
        mbuf.chain(rest).unwrap();
    }
    mbuf
}

/// The frames of the next `count` IPv4 packets.
fn heard(kernel: &mut Kernel, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while frames.len() < count {
        let frame = kernel.frame(Duration::from_secs(5)).expect("a frame");
        if frame[12..14] == [0x08, 0x00] {
            frames.push(frame);
        }
    }
    frames
}

#[test]
fn consecutive_gtpu_packets_are_segments_of_one_datagram() {
    if !own_veth() {
        println!("not run: only root can make a network");
        return;
    }
    // The kernel cuts datagrams and fills in checksums as a NIC does.
    run("ethtool -K port0 tx off");
    let mut kernel = Kernel::listen("host0").unwrap();
    let spec = PortSpec::AfPacket {
        interface: "port0".into(),
        queues: 1,
    };
    let pool = Mempool::new(eal(), PoolConfig::with_buffers(500)).unwrap();
    let mut port = Port::open(eal(), &spec).unwrap();
    let config = PortConfig {
        tx_udp_segmentation: true,
        ..PortConfig::new(1, &pool)
    };
    let mut queues = port.start(&config).unwrap();
    // What is sent, and the identifications that it has then: those of runs begin at 0.
    let sent = [
        // A run, whose last is shorter.
        (gtpu(1, 0, 1, 100), 0),
        (gtpu(1, 0, 2, 100), 1),
        (gtpu(1, 0, 3, 100), 2),
        (gtpu(1, 0, 4, 60), 3),
        // Two are no run; nor are a longer one, another peer, another class of service.
        (gtpu(1, 0, 5, 100), 0),
        (gtpu(1, 0, 6, 100), 0),
        (gtpu(1, 0, 7, 101), 0),
        (gtpu(2, 0, 8, 101), 0),
        (gtpu(2, 0xb8, 9, 101), 0),
        // A packet of a user's: its identification counts.
        (with_word(gtpu(1, 0, 10, 100), 18, 77), 77),
        (with_word(gtpu(1, 0, 11, 100), 18, 77), 77),
        (with_word(gtpu(1, 0, 12, 100), 18, 77), 77),
        // In several buffers.
        (gtpu(1, 0, 13, 1_400), 0),
        (gtpu(1, 0, 14, 1_400), 1),
        (gtpu(1, 0, 15, 1_400), 2),
    ];
    let mut burst = Burst::new();
    for (at, (frame, _)) in sent.iter().enumerate() {
        burst.push(mbuf(&pool, frame, at >= 13)).unwrap();
    }
    assert_eq!(queues.tx[0].tx_burst(&mut burst), sent.len());
    let got = heard(&mut kernel, sent.len());
    for (got, (frame, id)) in got.into_iter().zip(&sent) {
        assert_eq!(normal(got), (normal(frame.clone()).0, *id));
    }
    let octets: usize = sent.iter().map(|(frame, _)| frame.len()).sum();
    let stats = port.stats().unwrap();
    assert_eq!(
        (stats.tx_packets, stats.tx_octets),
        (sent.len() as u64, octets as u64)
    );

    // An interface that segments gets them as one, 64 KiB at most.
    run("ethtool -K port0 tx on");
    for at in 0..BURST_MAX {
        burst
            .push(mbuf(&pool, &gtpu(1, 0, at as u8, 1_400), false))
            .unwrap();
    }
    assert_eq!(queues.tx[0].tx_burst(&mut burst), BURST_MAX);
    let got = heard(&mut kernel, 2);
    let payloads = got
        .iter()
        .map(|frame| frame[HEADERS..].to_vec())
        .collect::<Vec<_>>();
    assert_eq!([payloads[0].len(), payloads[1].len()], [46 * 1_400, 18 * 1_400]);
    let all = (0..BURST_MAX).flat_map(|at| gtpu(1, 0, at as u8, 1_400).split_off(HEADERS));
    assert!(payloads.concat().into_iter().eq(all));

    // What is longer than the interface takes is not sent as a segment either.
    for at in 0..4 {
        burst.push(mbuf(&pool, &gtpu(1, 0, at, 1_473), false)).unwrap();
    }
    assert_eq!(queues.tx[0].tx_burst(&mut burst), 4);
    assert_eq!(port.stats().unwrap().tx_errors, 4);
    drop((port, queues));
    assert_eq!(pool.in_use(), 0);
}

/// The same packet over IPv6, with its UDP checksum.
fn over_ipv6(frame: &[u8], class: u8) -> Vec<u8> {
    let mut made = frame[..12].to_vec();
    let udp = &frame[34..];
    made.extend([0x86, 0xdd, 0x60 | class >> 4, class << 4, 0, 0]);
    made.extend((udp.len() as u16).to_be_bytes());
    made.extend([17, 64]);
    for host in [2, frame[33]] {
        made.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    made.extend(udp);
    let checksum = !sum(&pseudo_v6(&made));
    made[60..62].copy_from_slice(&checksum.to_be_bytes());
    made
}

/// The traffic class of packets whose UDP checksum is wrong.
const DAMAGED: u8 = 0x0c;

/// What the UDP checksum of an IPv6 frame covers, and the checksum.
fn pseudo_v6(frame: &[u8]) -> Vec<u8> {
    [&frame[22..54], &[0, 17], &frame[58..60], &frame[54..]].concat()
}

fn tagged(frame: &[u8], tag: u16) -> Vec<u8> {
    [&frame[..12], &[0x81, 0], &tag.to_be_bytes(), &frame[12..]].concat()
}

#[test]
fn packets_over_ipv6_and_in_vlans_are_segments_as_well() {
    if !own_veth() {
        println!("not run: only root can make a network");
        return;
    }
    // The other end has tags taken out of its frames: they are left where they are.
    run("ethtool -K host0 rxvlan off");
    run("ethtool -K port0 txvlan off");
    let mut kernel = Kernel::listen("host0").unwrap();
    let spec = PortSpec::AfPacket {
        interface: "port0".into(),
        queues: 1,
    };
    let pool = Mempool::new(eal(), PoolConfig::with_buffers(500)).unwrap();
    let mut port = Port::open(eal(), &spec).unwrap();
    let config = PortConfig {
        tx_udp_segmentation: true,
        ..PortConfig::new(1, &pool)
    };
    let mut queues = port.start(&config).unwrap();
    let v6 = |at: u8, class| over_ipv6(&gtpu(1, 0, at, 300), class);
    let mut frames = Vec::new();
    // Runs of each kind, and a packet of another class between two.
    frames.extend((0..4).map(|at| v6(at, 0)));
    frames.push(v6(4, 0xb8));
    frames.extend((5..8).map(|at| tagged(&v6(at, 0), 0x6007)));
    frames.extend((8..12).map(|at| tagged(&gtpu(1, 0, at, 300), 7)));
    frames.extend((12..14).map(|at| tagged(&gtpu(1, 0, at, 300), 8)));
    // A user's packets that are damaged, and stay so.
    frames.extend((14..17).map(|at| {
        let mut frame = v6(at, DAMAGED);
        frame[100] ^= 1;
        frame
    }));
    for offloads in ["off", "on"] {
        run(&format!("ethtool -K port0 tx {offloads}"));
        let mut burst = Burst::new();
        for frame in &frames {
            burst.push(mbuf(&pool, frame, false)).unwrap();
        }
        assert_eq!(queues.tx[0].tx_burst(&mut burst), frames.len());
        let whole = payloads(&mut kernel, frames.len());
        let expected: Vec<Vec<u8>> = frames.iter().map(|frame| payload(frame).to_vec()).collect();
        assert_eq!(whole.concat(), expected.concat(), "{offloads}");
        let joined: Vec<usize> = whole.iter().map(|payload| payload.len() / 300).collect();
        match offloads {
            "on" => assert_eq!(joined, [4, 1, 3, 4, 1, 1, 1, 1, 1]),
            _ => assert_eq!(joined, [1; 17]),
        }
    }
    assert_eq!(port.stats().unwrap().tx_packets, 2 * frames.len() as u64);
}

/// What is behind the UDP header of a frame with any tag, over IPv4 or IPv6.
fn payload(frame: &[u8]) -> &[u8] {
    let ip = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
    let udp = ip + if frame[ip] >> 4 == 4 { 20 } else { 40 };
    &frame[udp + 8..]
}

/// The payloads of the next frames with GTP-U of ours, until they are this many packets'; those that are alone have
/// right checksums.
fn payloads(kernel: &mut Kernel, packets: usize) -> Vec<Vec<u8>> {
    let (mut found, mut octets) = (Vec::new(), 0);
    while octets < packets * 300 {
        let frame = kernel.frame(Duration::from_secs(5)).expect("a frame");
        if frame[6..12] != [2, 0, 0, 0, 0, 2] {
            continue;
        }
        let payload = payload(&frame).to_vec();
        if payload.len() == 300 && frame[12..14] == [0x86, 0xdd] {
            let is_damaged = frame[15] == DAMAGED << 4;
            assert_eq!(sum(&pseudo_v6(&frame)) != 0xffff, is_damaged, "{frame:x?}");
        }
        octets += payload.len();
        found.push(payload);
    }
    found
}
