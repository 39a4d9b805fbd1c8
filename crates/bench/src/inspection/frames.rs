//! The frames of connections: what their packets say, in the places where a worker looks.

use std::net::Ipv4Addr;

use flow::Direction;
use packet::checksum;
use packet::tcp::flags::{ACK, FIN, PSH, SYN};
use packet::tuple::proto;

use super::super::frame::{HEADERS, LINK, Template};
use super::super::model::Model;
use super::super::network::Wire;
use super::super::rules::Identity;

/// What a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TLS over TCP, with a host.
    Tls,
    /// HTTP/1 over TCP, with three requests for one host: clients have connections for each.
    Http,
    /// The same with requests for three hosts, as a client of a proxy has it.
    HttpToProxy,
    /// UDP, without a host.
    Udp,
}

/// A packet of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// SYN.
    Syn,
    /// The server's.
    SynAck,
    /// An acknowledgement of the client's.
    Ack,
    /// The ClientHello.
    Hello,
    /// A request of HTTP.
    Request {
        /// The number of its packet.
        made: u8,
        /// How far its host is behind that of the connection.
        host: u8,
    },
    /// Data of the server.
    Data,
    /// The last segment of the client's.
    Fin,
    /// A datagram of the client's, and of the server's.
    Datagram(Direction),
}

/// Numbers of packets.
pub mod step {
    /// Packets of a connection, both ways.
    pub const COUNT: u8 = 40;
    /// At which of them HTTP's requests come.
    pub const REQUESTS: [u8; 3] = [3, 15, 27];
}

impl Step {
    /// The packet number `made`.
    pub fn of(kind: Kind, made: u8) -> Self {
        let is_uplink = matches!(made, 0 | 2 | 3) || made > 4 && made % 2 == 1;
        match (kind, made) {
            (Kind::Udp, _) if made.is_multiple_of(2) => Self::Datagram(Direction::Uplink),
            (Kind::Udp, _) => Self::Datagram(Direction::Downlink),
            (_, 0) => Self::Syn,
            (_, 1) => Self::SynAck,
            (_, 2) => Self::Ack,
            (Kind::Tls, 3) => Self::Hello,
            (Kind::Http, made) if step::REQUESTS.contains(&made) => Self::Request { made, host: 0 },
            (Kind::HttpToProxy, made) if step::REQUESTS.contains(&made) => Self::Request { made, host: made },
            (_, 39) => Self::Fin,
            _ if is_uplink => Self::Ack,
            _ => Self::Data,
        }
    }

    /// Which way it goes.
    pub fn direction(self) -> Direction {
        match self {
            Self::SynAck | Self::Data => Direction::Downlink,
            Self::Datagram(direction) => direction,
            Self::Syn | Self::Ack | Self::Hello | Self::Request { .. } | Self::Fin => Direction::Uplink,
        }
    }

    /// Octets of the user packet that the template is for: what comes behind the headers of TCP is the rest.
    fn octets(self, payload: usize) -> usize {
        match self {
            Self::Data => 1_340,
            Self::Datagram(_) => 690,
            _ => 40 + payload,
        }
    }
}

/// A frame.
pub struct Frame<'a> {
    /// Its first octets: all that is looked at.
    pub contents: &'a [u8],
    /// All of its octets.
    pub octets: usize,
}

/// Octets of a ClientHello as browsers send them.
const HELLO: usize = 517;
/// Octets of a request.
const REQUEST: usize = 200;
/// Octets of the headers of TCP behind those of IPv4.
const TCP: usize = 20;

/// Makes frames in a place of its own.
pub struct Frames {
    room: Vec<u8>,
    payload: Vec<u8>,
}

/// The host of this number.
pub fn host(number: u32) -> String {
    format!("host{number}.example")
}

impl Frames {
    pub fn new() -> Self {
        Self {
            room: vec![0; 2_048],
            payload: Vec::with_capacity(1_024),
        }
    }

    /// The frame of a packet of this session, whose connection names this host from this port.
    pub fn make(
        &mut self,
        what: Step,
        (session, identity): (u32, Identity),
        number: u32,
        port: u16,
    ) -> Frame<'_> {
        self.payload.clear();
        match what {
            Step::Hello => client_hello(&host(number), &mut self.payload),
            Step::Request { made, host: behind } => {
                let host = host(number + u32::from(behind));
                let text = format!("GET /path/{made} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: ");
                self.payload.extend_from_slice(text.as_bytes());
                self.payload.resize(REQUEST - 4, b'b');
                self.payload.extend_from_slice(b"\r\n\r\n");
            }
            // Of no protocol that has a form.
            Step::Datagram(_) => self.payload.extend_from_slice(&[0x31; 16]),
            _ => {}
        }
        let direction = what.direction();
        let user = what.octets(self.payload.len());
        let at = Template::header_length(direction) - 28;
        let template = Template::on(Wire::Plain, direction, (at + user) as u16);
        let mut flow = Model::open().flow(direction as u32);
        flow.session = session;
        let room = &mut self.room;
        template.write(&mut room[..HEADERS], &flow, session, identity);
        let is_udp = matches!(what, Step::Datagram(_));
        write_ends(
            &mut room[at..],
            (direction, identity.ue, server(number)),
            port,
            is_udp,
        );
        let payload_at = match is_udp {
            true => at + 28,
            false => {
                write_tcp(&mut room[at + 20..at + 20 + TCP], what);
                at + 40
            }
        };
        let end = payload_at + self.payload.len();
        room[payload_at..end].copy_from_slice(&self.payload);
        Frame {
            contents: &room[LINK - 14..end],
            octets: at + user - (LINK - 14),
        }
    }
}

/// The server of a host.
pub fn server(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0xc612_0000 | (number & 0xffff))
}

/// Addresses, ports and protocol of a user packet.
fn write_ends(
    packet: &mut [u8],
    (direction, ue, server): (Direction, Ipv4Addr, Ipv4Addr),
    port: u16,
    is_udp: bool,
) {
    let (ports, ends) = match direction {
        Direction::Uplink => ([port, 443], [ue, server]),
        Direction::Downlink => ([443, port], [server, ue]),
    };
    packet[9] = if is_udp { proto::UDP } else { proto::TCP };
    packet[12..16].copy_from_slice(&ends[0].octets());
    packet[16..20].copy_from_slice(&ends[1].octets());
    packet[10..12].fill(0);
    let sum = checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet[20..22].copy_from_slice(&ports[0].to_be_bytes());
    packet[22..24].copy_from_slice(&ports[1].to_be_bytes());
}

/// The header of TCP behind its ports.
fn write_tcp(header: &mut [u8], what: Step) {
    let (sequence, flags): (u32, u8) = match what {
        Step::Syn => (0, SYN),
        Step::SynAck => (0, SYN | ACK),
        Step::Hello => (1, ACK | PSH),
        Step::Request { made, .. } => {
            let before = step::REQUESTS.iter().filter(|other| **other < made);
            ((1 + REQUEST * before.count()) as u32, ACK | PSH)
        }
        Step::Fin => (10_000, ACK | FIN),
        _ => (1, ACK),
    };
    header[4..8].copy_from_slice(&sequence.to_be_bytes());
    header[8..12].copy_from_slice(&[0, 0, 0, 1]);
    header[12..20].copy_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
}

/// A ClientHello (RFC 8446 §4.1.2) with this server name, padded (RFC 7685) to [`HELLO`] octets, in a record.
fn client_hello(host: &str, to: &mut Vec<u8>) {
    let len = |octets: usize| (octets as u16).to_be_bytes();
    let name = host.as_bytes();
    let padding = HELLO - 5 - 4 - 41 - 2 - (9 + name.len()) - 4;
    to.extend([22, 3, 1]);
    to.extend(len(HELLO - 5));
    to.extend([1, 0]);
    to.extend(len(HELLO - 9));
    to.extend([3, 3]);
    to.extend([7; 32]);
    to.extend([0, 0, 2, 0x13, 1, 1, 0]);
    to.extend(len(9 + name.len() + 4 + padding));
    to.extend([0, 21]);
    to.extend(len(padding));
    to.resize(to.len() + padding, 0);
    to.extend([0, 0]);
    to.extend(len(name.len() + 5));
    to.extend(len(name.len() + 3));
    to.push(0);
    to.extend(len(name.len()));
    to.extend(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_half_of_its_packets_each_way_and_names_its_host() {
        for kind in [Kind::Tls, Kind::Http, Kind::HttpToProxy, Kind::Udp] {
            let steps: Vec<Step> = (0..step::COUNT).map(|made| Step::of(kind, made)).collect();
            let up = steps.iter().filter(|step| step.direction() == Direction::Uplink);
            let is_tcp = kind != Kind::Udp;
            assert_eq!(up.count(), 20 + usize::from(is_tcp), "{steps:?}");
            let requests = steps.iter().filter(|step| matches!(step, Step::Request { .. }));
            let is_http = matches!(kind, Kind::Http | Kind::HttpToProxy);
            assert_eq!(requests.count(), if is_http { 3 } else { 0 });
        }
        let mut hello = Vec::new();
        client_hello("host7.example", &mut hello);
        assert_eq!(hello.len(), HELLO);
    }
}
