//! The protocols that ndpiReader finds in captures are found, from the packets with a payload alone.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use dpi::NdpiProtocol;
use ndpi::{Detector, FlowIndex};
use packet::IpTuple;
use packet::tuple::proto;

use super::library;

/// The IP packets of a capture file of the form `pcap`, little-endian, without a link layer.
pub(super) fn ip_packets(file: &[u8]) -> Vec<&[u8]> {
    let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four octets"));
    assert_eq!(
        (number(0), number(20)),
        (0xa1b2_c3d4, 101),
        "a file of another form"
    );
    let (mut at, mut packets) = (24, Vec::new());
    while at < file.len() {
        let len = number(at + 8) as usize;
        packets.push(&file[at + 16..at + 16 + len]);
        at += 16 + len;
    }
    packets
}

pub(super) fn capture() -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    std::fs::read(folder.join("spoken.pcap")).expect("a file of the repository")
}

/// Both ends of a packet that carries something, the sender's first.
pub(super) fn ends(ip: &[u8]) -> Option<(u8, [(IpAddr, u16); 2])> {
    let tuple = IpTuple::parse(ip, ip.len()).expect("a packet of TCP or UDP");
    let above = &ip[tuple.l4_offset.into()..];
    let header = match tuple.proto {
        proto::TCP => usize::from(above[12] >> 4) * 4,
        _ => 8,
    };
    let ends = [
        (tuple.addrs.src(), tuple.src_port),
        (tuple.addrs.dst(), tuple.dst_port),
    ];
    (above.len() > header).then_some((tuple.proto, ends))
}

/// What a detector finds in the flows of a capture.
fn found(file: &[u8]) -> Vec<String> {
    let library = library();
    let mut detector = Detector::new(&library, 64).expect("there is memory");
    let mut flows: BTreeMap<_, (FlowIndex, Option<NdpiProtocol>)> = BTreeMap::new();
    for (place, ip) in (1..).zip(ip_packets(file)) {
        let Some((protocol, ends)) = ends(ip) else {
            continue;
        };
        // A UE's port of these captures is above those of the others.
        let key = match ends[0].0 {
            ue if ue == IpAddr::from([10, 45, 0, 2]) || ue.to_string() == "2001:db8::2" => (protocol, ends),
            _ => (protocol, [ends[1], ends[0]]),
        };
        let (flow, known) = flows
            .entry(key)
            .or_insert_with(|| (detector.open().expect("there is room"), None));
        if known.is_none() {
            *known = detector.look(*flow, ip, place);
        }
    }
    let name = |protocol| if protocol == proto::TCP { "tcp" } else { "udp" };
    let found = flows
        .into_iter()
        .filter_map(|((protocol, [from, to]), (_, known))| {
            let known = library.name(known?);
            let protocol = name(protocol);
            Some(format!(
                "{protocol} {} {} {} {} {known}",
                from.0, from.1, to.0, to.1
            ))
        });
    let mut lines: Vec<String> = found.collect();
    lines.sort();
    lines
}

#[test]
fn what_ndpi_reader_finds_is_found() {
    let expected = include_str!("../captures/spoken.protocols");
    assert_eq!(found(&capture()), expected.lines().collect::<Vec<_>>());
}
