//! The hosts that tshark finds in captures are found, all of them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use dpi::dns::Query;
use dpi::{FlowIndex, Inspector, Layer4, Protocol, Sender, Settings, Transport, Verdict};

/// A packet of a capture: protocol, source, destination, payload of its IP packet.
struct Packet<'f> {
    protocol: u8,
    ends: [(IpAddr, u16); 2],
    layer4: &'f [u8],
}

/// Link types of files (pcap-linktype): what is before the IP header.
fn link_header(link_type: u32) -> usize {
    match link_type {
        0 => 4,
        1 => 14,
        12 | 101 => 0,
        other => panic!("link type {other}"),
    }
}

/// The IP packets of a capture file of the form `pcap`, little-endian.
fn ip_packets(file: &[u8]) -> Vec<&[u8]> {
    let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four octets"));
    assert!(
        matches!(number(0), 0xa1b2_c3d4 | 0xa1b2_3c4d),
        "a file of another form"
    );
    let skipped = link_header(number(20));
    let (mut at, mut packets) = (24, Vec::new());
    while at < file.len() {
        let len = number(at + 8) as usize;
        packets.push(&file[at + 16 + skipped..at + 16 + len]);
        at += 16 + len;
    }
    packets
}

fn packet(ip: &[u8]) -> Option<Packet<'_>> {
    let (protocol, addresses, layer4): (u8, [IpAddr; 2], &[u8]) = match ip[0] >> 4 {
        4 => {
            let [header, len] = [
                usize::from(ip[0] & 15) * 4,
                usize::from(u16::from_be_bytes([ip[2], ip[3]])),
            ];
            let address =
                |at: usize| IpAddr::from(<[u8; 4]>::try_from(&ip[at..at + 4]).expect("four octets"));
            // A length of 0 is left to the network card.
            let end = if len == 0 { ip.len() } else { len };
            (ip[9], [address(12), address(16)], &ip[header..end])
        }
        6 => {
            let len = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
            let address =
                |at: usize| IpAddr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).expect("sixteen octets"));
            (ip[6], [address(8), address(24)], &ip[40..40 + len])
        }
        _ => return None,
    };
    let port = |at: usize| u16::from_be_bytes([layer4[at], layer4[at + 1]]);
    let ends = [(addresses[0], port(0)), (addresses[1], port(2))];
    matches!(protocol, 6 | 17).then_some(Packet {
        protocol,
        ends,
        layer4,
    })
}

fn layer4<'p>(packet: &Packet<'p>) -> Layer4<'p> {
    let octets = packet.layer4;
    match packet.protocol {
        6 => Layer4::Tcp {
            sequence: u32::from_be_bytes(octets[4..8].try_into().expect("four octets")),
            has_syn: octets[13] & 2 != 0,
            payload: &octets[usize::from(octets[12] >> 4) * 4..],
        },
        _ => Layer4::Udp {
            payload: &octets[8..],
        },
    }
}

/// What is found in a capture, as its file of hosts has it. The first packet of a flow is the client's.
fn found(file: &[u8]) -> Vec<String> {
    let mut inspector = Inspector::new(Settings {
        flows: 64,
        blocks: 8,
        owners: 1,
        ..Settings::default()
    });
    let mut flows: BTreeMap<_, Option<FlowIndex>> = BTreeMap::new();
    let mut lines = Vec::new();
    for ip in ip_packets(file) {
        let Some(packet) = packet(ip) else { continue };
        let [from, to] = packet.ends;
        let (key, sender) = match flows.contains_key(&(packet.protocol, to, from)) {
            true => ((packet.protocol, to, from), Sender::Responder),
            false => ((packet.protocol, from, to), Sender::Initiator),
        };
        let transport = if packet.protocol == 6 {
            Transport::Tcp
        } else {
            Transport::Udp
        };
        let opened = flows
            .entry(key)
            .or_insert_with(|| inspector.open(0, 0, transport, 0).ok());
        let Some(index) = *opened else { continue };
        let verdict = inspector.inspect(index, sender, &layer4(&packet));
        if verdict != Verdict::Undecided {
            *opened = None;
        }
        let Verdict::Found(found) = verdict else { continue };
        let Some(host) = found.host else { continue };
        let name = match (found.protocol, packet.protocol) {
            (Protocol::Dns, _) => "dns",
            (_, 6) => "tcp",
            _ => "udp",
        };
        let path = found
            .path
            .map(|path| String::from_utf8_lossy(path.as_bytes()).into_owned());
        let line = format!(
            "{name} {} {} {} {} {host} {}",
            from.0,
            from.1,
            to.0,
            to.1,
            path.unwrap_or_default()
        );
        lines.push(line.trim_end().to_string());
    }
    lines.sort();
    lines
}

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let entries = std::fs::read_dir(folder).expect("a folder of the repository");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|is| is == "pcap"))
        .collect()
}

#[test]
fn all_hosts_of_the_captures_are_found() {
    let mut hosts = 0;
    for capture in captures() {
        let expected =
            std::fs::read_to_string(capture.with_extension("hosts")).expect("hosts of the capture");
        let is_wanted = |line: &&str| cfg!(feature = "quic") || !line.starts_with("udp ");
        let expected: Vec<&str> = expected.lines().filter(is_wanted).collect();
        let file = std::fs::read(&capture).expect("a capture");
        assert_eq!(found(&file), expected, "{}", capture.display());
        hosts += expected.len();
    }
    assert!(hosts > 60, "{hosts}");
}

/// The name of each query of a capture, in order.
fn names(file: &[u8]) -> Vec<String> {
    let packets = ip_packets(file).into_iter().filter_map(packet);
    let datagrams = packets.filter(|packet| packet.protocol == 17);
    let queries = datagrams.filter_map(|datagram| Query::parse(layer4(&datagram).payload()));
    queries.map(|query| query.name().to_string()).collect()
}

#[test]
fn all_queries_of_the_captures_have_their_names() {
    let mut queries = 0;
    for capture in captures() {
        let expected = std::fs::read_to_string(capture.with_extension("names")).unwrap_or_default();
        let expected: Vec<&str> = expected.lines().collect();
        let file = std::fs::read(&capture).expect("a capture");
        assert_eq!(names(&file), expected, "{}", capture.display());
        queries += expected.len();
    }
    assert!(queries > 40, "{queries}");
}
