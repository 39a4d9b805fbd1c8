//! HTTP redirection (TS 29.244 §5.4.7): what the UE of a FAR that redirects gets, over its own tunnel.

use crate::common;

use std::net::SocketAddr;
use std::sync::Arc;

use flow::{PortId, UrrCount, WorkerId};
use packet::build::packet as build;
use packet::tcp::flags::{ACK, FIN, PSH, RST, SYN};
use packet::{DropReason, IpTuple, tcp};
use rules::image::{ImmediateActions, SessionImage};
use rules::model::{ApplyAction, Edit, FarId, FarUpdate, Redirect};
use rules::testing::{self, N3_ADDRESS, tunnelled};
use worker::WorkerConfig;
use worker::mem::MemBuf;

use common::one_session::{TEID, session};
use common::{World, frame};

const UE: &str = "10.45.0.2:40000";
const SERVER: &str = "192.0.2.1:80";
const REQUEST: &[u8] = b"GET /index HTTP/1.1\r\nHost: www.example\r\n\r\n";

/// A session whose uplink is redirected.
struct Case {
    world: World,
    image: Box<SessionImage>,
}

/// A segment that the UE gets: sequence, acknowledgement, flags, data.
type Segment = (u32, u32, u8, Vec<u8>);

impl Case {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(configure: impl Fn(&mut WorkerConfig)) -> Self {
        let mut world = World::with(testing::network(), 1, configure);
        let image = world.install(1, session());
        let mut case = Self { world, image };
        case.redirect(Edit::Set(
            Redirect::new(b"http://portal.example/").expect("a URL"),
        ));
        case
    }

    fn redirect(&mut self, redirect: Edit<Redirect>) {
        self.image = self
            .world
            .change(&self.image, ImmediateActions::default(), |rules| {
                let update = FarUpdate {
                    redirect,
                    ..FarUpdate::new(FarId(1))
                };
                rules.update_far(update).expect("it is there");
            });
    }

    /// What leaves when the UE sends a packet.
    fn send(&mut self, inner: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let packet = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], inner);
        let out = self.world.send(0, &packet).into_iter();
        out.map(|(port, frame)| (port.0, frame)).collect()
    }

    /// What leaves when the UE sends a packet that arrives in buffers of `part` octets.
    fn send_in_parts(&mut self, inner: &[u8], part: usize) -> Vec<(u16, Vec<u8>)> {
        let packet = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], inner);
        let queue = self.world.wires.to(WorkerId(0), PortId(0));
        let buf = MemBuf::chained(&frame(0, &packet), part);
        queue.push(buf).expect("there is room");
        self.world.poll();
        self.world.poll();
        let out = self.world.take().into_iter();
        out.map(|(port, frame)| (port.0, frame)).collect()
    }

    /// The segment that the UE gets for one that it sends.
    fn ask(&mut self, to: &str, sequence: u32, acknowledges: u32, flags: u8, data: &[u8]) -> Option<Segment> {
        let mut out = self.send(&segment(to, sequence, acknowledges, flags, data));
        let (port, frame) = out.pop()?;
        assert!(out.is_empty() && port == 0, "one packet, to the gNB");
        Some(received(&frame))
    }
}

fn segment(to: &str, sequence: u32, acknowledges: u32, flags: u8, data: &[u8]) -> Vec<u8> {
    let [from, to]: [SocketAddr; 2] = [UE, to].map(|text| text.parse().expect("an address"));
    let mut packet = build::tcp(from, to, sequence, flags, data).expect("it is short");
    packet[28..32].copy_from_slice(&acknowledges.to_be_bytes());
    let tuple = IpTuple::parse(&packet, packet.len()).expect("a packet");
    tcp::fill_checksum(&tuple.addrs, &mut packet[20..]).expect("a segment");
    packet
}

/// The segment in a G-PDU to the gNB.
fn received(frame: &[u8]) -> Segment {
    let gtpu = &frame[14 + 20 + 8..];
    let length = usize::from(u16::from_be_bytes([gtpu[2], gtpu[3]]));
    let message = &gtpu[8..8 + length];
    let mut inner = message;
    if gtpu[0] & 7 != 0 {
        let (mut next, mut rest) = (message[3], &message[4..]);
        while next != 0 {
            let len = usize::from(rest[0]) * 4;
            (next, rest) = (rest[len - 1], &rest[len..]);
        }
        inner = rest;
    }
    let tuple = IpTuple::parse(inner, inner.len()).expect("a packet");
    assert_eq!(tuple.addrs.dst().to_string(), "10.45.0.2");
    let segment = &inner[tuple.l4_offset.into()..tuple.total_len.into()];
    assert!(tcp::checksum_is_right(&tuple.addrs, segment));
    let (header, len) = tcp::Header::parse(segment, segment.len()).expect("a segment");
    let numbers = (header.sequence.get(), header.acknowledgement.get());
    (numbers.0, numbers.1, header.flags, segment[len..].to_vec())
}

#[test]
fn a_request_gets_302_through_the_tunnel_of_the_session() {
    let mut case = Case::new();
    let (start, acknowledges, flags, _) = case.ask(SERVER, 7, 0, SYN, &[]).expect("an answer");
    assert_eq!((acknowledges, flags), (8, SYN | ACK));
    let first = start.wrapping_add(1);
    assert_eq!(case.ask(SERVER, 8, first, ACK, &[]), None);
    let (sequence, acknowledges, flags, data) =
        case.ask(SERVER, 8, first, ACK | PSH, REQUEST).expect("an answer");
    assert_eq!(
        (sequence, acknowledges, flags),
        (first, 8 + REQUEST.len() as u32, PSH | ACK | FIN)
    );
    assert!(data.starts_with(b"HTTP/1.1 302 Found\r\nLocation: http://portal.example/\r\n"));
    let end = first.wrapping_add(data.len() as u32 + 1);
    let closed = case
        .ask(SERVER, acknowledges, end, ACK | FIN, &[])
        .expect("an answer");
    assert_eq!((closed.0, closed.1, closed.2), (end, acknowledges + 1, ACK));
    case.world.assert_conserved();
}

/// A segment of a connection that began before the redirection may be longer than a buffer of the port.
#[test]
fn a_segment_in_several_buffers_is_answered_as_in_one() {
    let mut case = Case::new();
    let mut asked = segment(SERVER, 8, 1, ACK | PSH, &[b'x'; 4_000]);
    for part in [60, 333, 1_281, 2_048] {
        let mut out = case.send_in_parts(&asked, part);
        let (port, frame) = out.pop().expect("an answer");
        let (sequence, _, flags, data) = received(&frame);
        assert_eq!(
            (port, sequence, flags, data.len()),
            (0, 1, RST, 0),
            "in parts of {part}"
        );
    }
    *asked.last_mut().expect("it has data") ^= 1;
    assert!(
        case.send_in_parts(&asked, 2_048).is_empty(),
        "its checksum is wrong"
    );
    case.world.assert_conserved();
}

#[test]
fn what_is_no_http_is_reset_or_dropped() {
    let mut case = Case::new();
    let (.., flags, _) = case.ask("192.0.2.1:443", 7, 0, SYN, &[]).expect("an answer");
    assert_eq!(flags, RST | ACK);
    let before = case.world.drops();
    let [from, to] = [UE, "192.0.2.1:53"].map(|text| text.parse().expect("an address"));
    assert!(
        case.send(&build::udp(from, to, b"?").expect("it is short"))
            .is_empty()
    );
    assert_eq!(case.world.dropped_since(&before), Some(DropReason::NotRedirected));
    case.world.assert_conserved();
}

#[test]
fn answers_go_to_the_sessions_own_addresses_alone() {
    let mut case = Case::new();
    let other: SocketAddr = "10.45.0.3:40000".parse().expect("an address");
    let server = SERVER.parse().expect("an address");
    let before = case.world.drops();
    let spoofed = build::tcp(other, server, 7, SYN, &[]).expect("it is short");
    assert!(case.send(&spoofed).is_empty());
    assert!(case.world.dropped_since(&before).is_some());
    case.world.assert_conserved();
}

#[test]
fn a_session_and_a_worker_have_so_many_answers_a_second() {
    for limits in [(1_000, 5), (5, 1_000), (0, 5), (5, 0)] {
        let most = if limits.0 == 0 || limits.1 == 0 { 0 } else { 5 };
        let mut case = Case::with(|config| config.redirects = worker::PacketRates::new(limits.0, limits.1));
        let before = case.world.drops();
        let answers = (0..20).filter(|_| case.ask(SERVER, 7, 0, SYN, &[]).is_some());
        assert_eq!(answers.count(), most, "{limits:?}");
        assert_eq!(case.world.dropped_since(&before), Some(DropReason::RedirectLimit));
        case.world.now = case.world.now + std::time::Duration::from_secs(2);
        assert_eq!(case.ask(SERVER, 7, 0, SYN, &[]).is_some(), most > 0);
        case.world.assert_conserved();
    }
}

#[test]
fn what_is_redirected_counts_up_and_what_is_answered_down() {
    let mut case = Case::new();
    let syn = segment(SERVER, 7, 0, SYN, &[]);
    assert_eq!(case.send(&syn).len(), 1);
    let counted = case.world.query(0, case.image.session);
    let (_, count) = counted.counters[0];
    let expected = UrrCount {
        ul_packets: 1,
        ul_octets: 40,
        dl_packets: 1,
        dl_octets: 44,
        events: 0,
    };
    assert_eq!(count, expected);
}

#[test]
fn a_far_redirects_only_while_it_forwards_and_says_so() {
    let mut case = Case::new();
    assert!(case.ask(SERVER, 7, 0, SYN, &[]).is_some());
    case.redirect(Edit::Clear);
    let out = case.send(&segment(SERVER, 7, 0, SYN, &[]));
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].0, 1, "to the data network");
    case.redirect(Edit::Set(Redirect::new(b"http://other.example/").expect("a URL")));
    assert!(case.ask(SERVER, 9, 0, SYN, &[]).is_some());
    let mut rules = (*case.image.rules).clone();
    let update = FarUpdate {
        action: Some(ApplyAction::FORW.with(ApplyAction::DUPL)),
        ..FarUpdate::new(FarId(1))
    };
    rules.update_far(update).expect("it is there");
    let image = case.world.image(1, &Arc::new(rules), Some(&case.image));
    assert!(image.is_err(), "what would be duplicated is not said");
}
