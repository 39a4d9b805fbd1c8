//! Memory: a fixed number of flows, what nDPI allocates for them, and what it makes of messages that end early.

use ndpi::Detector;
use proptest::prelude::*;

use super::captures::{capture, ends, ip_packets};
use super::library;

/// A packet of UDP over IPv4 with this payload.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let len = |octets: usize| u16::try_from(octets).expect("a short payload").to_be_bytes();
    let mut packet = vec![
        0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 45, 0, 2, 198, 51, 100, 7,
    ];
    packet[2..4].copy_from_slice(&len(28 + payload.len()));
    packet.extend([0x9c, 0x41, 0x27, 0x0f]);
    packet.extend(len(8 + payload.len()));
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

#[test]
fn there_is_room_for_as_many_flows_as_are_asked_for() {
    let mut detector = Detector::new(&library(), 2).expect("there is memory");
    let flows = [detector.open(), detector.open()].map(|flow| flow.expect("there is room"));
    assert_ne!(flows[0], flows[1]);
    assert_eq!((detector.open(), detector.flows()), (None, 2));
    detector.close(flows[0]);
    assert_eq!((detector.open(), detector.flows()), (Some(flows[0]), 2));
    assert_eq!(
        Detector::new(&library(), 0).expect("there is memory").open(),
        None
    );
}

#[test]
fn what_flows_have_is_freed_with_them() {
    let mut detector = Detector::new(&library(), 1).expect("there is memory");
    let file = capture();
    let packets: Vec<_> = ip_packets(&file)
        .into_iter()
        .filter(|ip| ends(ip).is_some())
        .collect();
    let mut look = || {
        for ip in &packets {
            let flow = detector.open().expect("there is room");
            detector.look(flow, ip, 1);
            detector.close(flow);
        }
        detector.octets()
    };
    // Caches come with the first flows.
    let first = look();
    assert!((1..1_000).all(|_| look() == first));
    assert!((1 << 20..16 << 20).contains(&first), "{first}");
}

#[test]
fn a_flow_that_begins_anew_is_another_one() {
    let library = library();
    let mut detector = Detector::new(&library, 1).expect("there is memory");
    let torrent = datagram(b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe");
    for _ in 0..3 {
        let flow = detector.open().expect("there is room");
        let found = detector.look(flow, &torrent, 1).map(|found| library.name(found));
        assert_eq!(found.as_deref(), Some("BitTorrent"));
        detector.close(flow);
        let flow = detector.open().expect("there is room");
        assert_eq!(detector.look(flow, &datagram(&[0xf7; 9]), 1), None);
        detector.close(flow);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Nothing is read before or behind a packet that is cut off: its lengths say more than there is.
    #[test]
    fn packets_may_end_early(cut in 0usize..400) {
        let mut detector = Detector::new(&library(), 1).expect("there is memory");
        let file = capture();
        for ip in ip_packets(&file) {
            let flow = detector.open().expect("there is room");
            detector.look(flow, &ip[..ip.len().saturating_sub(cut)], 1);
            detector.close(flow);
        }
        prop_assert_eq!(detector.flows(), 0);
    }
}
