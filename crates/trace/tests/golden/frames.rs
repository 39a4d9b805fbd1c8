//! The frames that gNBs, UEs and data networks send, in octets, from what a script says. Written without the builders
//! of `packet`.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use crate::value::{self, Fault, Fields, Taker};

const UDP: u8 = 17;
const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const GTPU_PORT: u16 = 2152;

/// The stations that a frame is from and to where the script does not say.
pub struct Stations {
    pub from: [u8; 6],
    pub to: [u8; 6],
}

/// Names TEIDs by their PDRs: `ue1.1` is what PDR 1 of session `ue1` was given.
pub type Names<'a> = &'a dyn Fn(&str) -> Option<u32>;

/// The frame that a `send` step describes. Layers stand beside each other: `gtpu` is put around the packet.
pub fn frame(mut taker: Taker<'_>, stations: &Stations, names: Names<'_>) -> Result<Vec<u8>, Fault> {
    let to = taker.or("to_mac", stations.to, value::mac)?;
    let from = taker.or("from_mac", stations.from, value::mac)?;
    let vlan = taker.maybe("vlan", vlans)?.unwrap_or_default();
    let gtpu = taker.take("gtpu");
    let (kind, mut packet) = innermost(&mut taker)?;
    taker.done()?;
    let mut ether_type = match packet.first().map(|first| first >> 4) {
        _ if kind.is_some() => kind.unwrap_or_default(),
        Some(6) => 0x86dd,
        _ => 0x0800,
    };
    if let Some(gtpu) = gtpu {
        let (outer, is_ipv6) = tunnelled(&gtpu, &packet, names)?;
        packet = outer;
        ether_type = if is_ipv6 { 0x86dd } else { 0x0800 };
    }
    let mut frame = [to, from].concat();
    for (place, tag) in vlan.iter().enumerate() {
        let is_service = vlan.len() == 2 && place == 0;
        frame.extend(if is_service { [0x88, 0xa8] } else { [0x81, 0x00] });
        frame.extend((*tag as u16).to_be_bytes());
    }
    frame.extend(u16::to_be_bytes(ether_type));
    frame.extend(packet);
    // The least that Ethernet carries, without the check sequence.
    frame.resize(frame.len().max(60), 0);
    Ok(frame)
}

/// The tag of a frame, or several, the outer one first.
fn vlans(name: &str, value: &Value) -> Result<Vec<u64>, Fault> {
    match value.as_array() {
        Some(tags) => tags.iter().map(|tag| value::number(name, tag)).collect(),
        None => value::number(name, value).map(|tag| vec![tag]),
    }
}

/// The innermost layer, and its EtherType where the octets do not show it.
fn innermost(taker: &mut Taker<'_>) -> Result<(Option<u16>, Vec<u8>), Fault> {
    for (name, protocol) in [("udp", UDP), ("tcp", TCP), ("icmp", ICMP)] {
        if let Some(said) = taker.take(name) {
            return Ok((None, ip_packet(name, protocol, &said)?));
        }
    }
    if let Some(arp) = taker.take("arp") {
        return Ok((Some(0x0806), arp_packet(&arp)?));
    }
    if let Some(nd) = taker.take("neighbour_advertisement") {
        return Ok((Some(0x86dd), advertisement(&nd)?));
    }
    let raw = taker.maybe("hex", value::hex)?;
    let ether_type = taker.maybe("ether_type", value::number)?;
    Ok((ether_type.map(|kind| kind as u16), raw.unwrap_or_default()))
}

/// What an IP packet has besides its transport.
struct Header {
    from: SocketAddr,
    to: SocketAddr,
    ttl: u8,
    tos: u8,
    id: u16,
    flow_label: u32,
    /// Of TCP: sequence number, acknowledgement number, control bits.
    tcp: (u32, u32, u8),
    /// Of TCP: octets of options, which the data begin with.
    options: usize,
}

/// `{from, to, data, ttl, tos, id, flow_label}`: `from` and `to` with ports, `data` octets counting up from 0, or `hex`
/// or `text`; of TCP `sequence`, `acknowledges` and `flags`, and `options` (hex), which are filled up with zeros.
fn ip_packet(name: &str, protocol: u8, said: &Value) -> Result<Vec<u8>, Fault> {
    let mut taker = Taker::new(name, value::fields(name, said)?);
    let end = |name: &str, value: &Value| {
        value::socket(name, value).or_else(|_| value::ip(name, value).map(|ip| SocketAddr::new(ip, 0)))
    };
    let header = Header {
        from: taker.need("from", end)?,
        to: taker.need("to", end)?,
        ttl: taker.or("ttl", 64, value::number)? as u8,
        tos: taker.or("tos", 0, value::number)? as u8,
        id: taker.or("id", 0, value::number)? as u16,
        flow_label: taker.or("flow_label", 0, value::number)? as u32,
        tcp: (
            taker.or("sequence", 1, value::number)? as u32,
            taker.or("acknowledges", 0, value::number)? as u32,
            taker.or("flags", 0x08, value::number)? as u8,
        ),
        options: 0,
    };
    let mut options = taker.maybe("options", value::hex)?.unwrap_or_default();
    options.resize(options.len().next_multiple_of(4), 0);
    let header = Header {
        options: options.len(),
        ..header
    };
    let length = taker.or("data", 32, value::number)?;
    let kind = taker.or("type", 0, value::number)? as u8;
    let text = taker.maybe("text", |name, said| {
        value::text(name, said).map(|text| text.as_bytes().to_vec())
    })?;
    let payload = taker.maybe("hex", value::hex)?.or(text);
    taker.done()?;
    let data = payload.unwrap_or_else(|| (0..length).map(|place| place as u8).collect());
    let data = [options, data].concat();
    let is_v6 = header.from.is_ipv6();
    let protocol = if is_v6 && protocol == ICMP {
        ICMPV6
    } else {
        protocol
    };
    let (segment, checksum) = segment(protocol, &header, kind, &data);
    Ok(ip(&header, protocol, segment, Some(checksum)))
}

/// A transport header with its data, and the place of its checksum.
fn segment(protocol: u8, header: &Header, kind: u8, data: &[u8]) -> (Vec<u8>, usize) {
    let mut octets = [header.from.port().to_be_bytes(), header.to.port().to_be_bytes()].concat();
    let checksum = match protocol {
        UDP => {
            octets.extend(((8 + data.len()) as u16).to_be_bytes());
            octets.extend([0, 0]);
            6
        }
        TCP => {
            let (sequence, acknowledges, flags) = header.tcp;
            octets.extend(sequence.to_be_bytes());
            octets.extend(acknowledges.to_be_bytes());
            let offset = ((20 + header.options) as u8 / 4) << 4;
            octets.extend([offset, flags, 0x20, 0x00, 0, 0, 0, 0]);
            16
        }
        _ => {
            let request = if protocol == ICMP { 8 } else { 128 };
            // Identifier 7, sequence number 1.
            octets = vec![if kind == 0 { request } else { kind }, 0, 0, 0, 0, 7, 0, 1];
            2
        }
    };
    octets.extend(data);
    (octets, checksum)
}

/// An IP packet of either family; the transport's checksum, at this place, is filled in.
fn ip(header: &Header, protocol: u8, mut segment: Vec<u8>, checksum: Option<usize>) -> Vec<u8> {
    let length = segment.len();
    match (header.from.ip(), header.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let pseudo = [
                &from.octets()[..],
                &to.octets(),
                &[0, protocol],
                &(length as u16).to_be_bytes(),
            ];
            let covered = if protocol == ICMP {
                Vec::new()
            } else {
                pseudo.concat()
            };
            fill(&covered, &mut segment, checksum);
            let mut packet = vec![0x45, header.tos];
            packet.extend(((20 + length) as u16).to_be_bytes());
            packet.extend(header.id.to_be_bytes());
            packet.extend([0, 0, header.ttl, protocol, 0, 0]);
            packet.extend(from.octets());
            packet.extend(to.octets());
            fill(&[], &mut packet, Some(10));
            [packet, segment].concat()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let pseudo = [
                &from.octets()[..],
                &to.octets(),
                &(length as u32).to_be_bytes(),
                &[0, 0, 0, protocol],
            ];
            fill(&pseudo.concat(), &mut segment, checksum);
            let first = 0x6000_0000 | u32::from(header.tos) << 20 | header.flow_label;
            let mut packet = first.to_be_bytes().to_vec();
            packet.extend((length as u16).to_be_bytes());
            packet.extend([protocol, header.ttl]);
            packet.extend(from.octets());
            packet.extend(to.octets());
            [packet, segment].concat()
        }
        // Only malformed cases would want this; they say it in hexadecimal.
        _ => Vec::new(),
    }
}

/// The Internet checksum (RFC 1071) over `covered` and `octets`, put into `octets` at `place`.
fn fill(covered: &[u8], octets: &mut [u8], place: Option<usize>) {
    let Some(place) = place else { return };
    let all = [covered, octets].concat();
    let words = all.chunks(2).map(|pair| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    octets[place..place + 2].copy_from_slice(&(!sum as u16).to_be_bytes());
}

/// `{from, to, teid, qfi or container, type, sequence, extensions, port}` around `payload`, and whether the outer
/// packet is IPv6. `container` is the content of a PDU Session Container, `extensions` whole headers up to the next
/// type, which is the first octet of each.
fn tunnelled(said: &Value, payload: &[u8], names: Names<'_>) -> Result<(Vec<u8>, bool), Fault> {
    let mut taker = Taker::new("gtpu", value::fields("gtpu", said)?);
    let from = taker.or("from", "10.101.0.2".parse().map_err(|_| "an address")?, value::ip)?;
    let to = taker.or("to", "10.100.0.1".parse().map_err(|_| "an address")?, value::ip)?;
    let port = taker.or("port", u64::from(GTPU_PORT), value::number)? as u16;
    let header = Header {
        from: SocketAddr::new(from, port),
        to: SocketAddr::new(to, GTPU_PORT),
        ttl: taker.or("ttl", 64, value::number)? as u8,
        tos: 0,
        id: 0,
        flow_label: 0,
        tcp: (0, 0, 0),
        options: 0,
    };
    let whole = taker.maybe("hex", value::hex)?;
    let message = match whole {
        Some(octets) => octets,
        None => message(&mut taker, payload, names)?,
    };
    taker.done()?;
    let (segment, checksum) = segment(UDP, &header, 0, &message);
    // Over IPv4 gNBs send no checksum with user packets (TS 29.281 §4.4.2.2 leaves it to them).
    Ok((
        ip(&header, UDP, segment, from.is_ipv6().then_some(checksum)),
        from.is_ipv6(),
    ))
}

/// A GTP-U message (TS 29.281 §5.1).
fn message(taker: &mut Taker<'_>, payload: &[u8], names: Names<'_>) -> Result<Vec<u8>, Fault> {
    let teid = taker.need("teid", |name, said| match said.as_str().and_then(names) {
        Some(teid) => Ok(teid),
        None => value::number(name, said).map(|teid| teid as u32),
    })?;
    let kind = taker.or("type", 255, value::number)? as u8;
    let sequence = taker.maybe("sequence", value::number)?;
    let qfi = taker.maybe("qfi", value::number)?;
    let mut extensions = Vec::new();
    // PDU type 1: uplink (TS 38.415 §5.5.2.2).
    extensions.extend(qfi.map(|qfi| vec![0x85, 1, 0x10, qfi as u8]));
    if let Some(more) = taker.take("extensions") {
        for one in more.as_array().ok_or("gtpu.extensions: no list")? {
            extensions.push(value::hex("gtpu.extensions", one)?);
        }
    }
    let mut body = Vec::new();
    if sequence.is_some() || !extensions.is_empty() {
        body.extend((sequence.unwrap_or(0) as u16).to_be_bytes());
        body.push(0);
        for extension in &extensions {
            // Each header ends with the next one's type.
            body.extend(extension);
        }
        body.push(0);
    }
    body.extend(payload);
    let flags = 0x30 | u8::from(!extensions.is_empty()) << 2 | u8::from(sequence.is_some()) << 1;
    let mut octets = vec![flags, kind];
    octets.extend((body.len() as u16).to_be_bytes());
    octets.extend(teid.to_be_bytes());
    octets.extend(body);
    Ok(octets)
}

/// `{op: request or reply, sender_mac, sender, target_mac, target}` (RFC 826).
fn arp_packet(said: &Value) -> Result<Vec<u8>, Fault> {
    let mut taker = Taker::new("arp", value::fields("arp", said)?);
    let op = taker.need("op", |name, value| match value::text(name, value)? {
        "request" => Ok(1),
        "reply" => Ok(2),
        other => Err(format!("{name}: {other} is neither request nor reply")),
    })?;
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, op];
    packet.extend(taker.need("sender_mac", value::mac)?);
    packet.extend(taker.need("sender", value::ipv4)?.octets());
    packet.extend(taker.or("target_mac", [0; 6], value::mac)?);
    packet.extend(taker.need("target", value::ipv4)?.octets());
    taker.done()?;
    Ok(packet)
}

/// `{target, mac, to}`: a solicited Neighbour Advertisement (RFC 4861 §4.4).
fn advertisement(said: &Value) -> Result<Vec<u8>, Fault> {
    let mut taker = Taker::new(
        "neighbour_advertisement",
        value::fields("neighbour_advertisement", said)?,
    );
    let target = taker.need("target", value::ipv6)?;
    let to = taker.need("to", value::ip)?;
    let mut message = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    message.extend(target.octets());
    message.extend([2, 1]);
    message.extend(taker.need("mac", value::mac)?);
    taker.done()?;
    let header = Header {
        from: SocketAddr::new(target.into(), 0),
        to: SocketAddr::new(to, 0),
        ttl: 255,
        tos: 0,
        id: 0,
        flow_label: 0,
        tcp: (0, 0, 0),
        options: 0,
    };
    Ok(ip(&header, ICMPV6, message, Some(2)))
}

/// The fields of a `send` step that are not about the frame.
pub struct Sending {
    pub port: String,
    pub times: u64,
    pub every: std::time::Duration,
}

/// Reads them, and leaves the frame's.
pub fn sending(step: &Fields) -> Result<(Sending, Taker<'static>), Fault> {
    let mut taker = Taker::new("send", step);
    let sending = Sending {
        port: taker.need("port", |name, value| value::text(name, value).map(str::to_owned))?,
        times: taker.or("times", 1, value::number)?,
        every: taker.or("every", std::time::Duration::from_micros(100), value::time)?,
    };
    Ok((sending, taker))
}
