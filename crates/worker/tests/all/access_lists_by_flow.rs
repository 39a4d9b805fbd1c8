//! Access lists whose rules ask what flows are: what passes until that is known, and what their senders receive.

use std::net::SocketAddr;

use dpi::dns::Sinkhole;
use dpi::{Protocol, Protocols};
use flow::{PortId, WorkerId};
use packet::DropReason;
use packet::build::packet as build;
use packet::tcp::flags::{ACK, FIN, PSH, RST, SYN};
use rules::model::{
    AccessAction, AccessList, AccessRule, DetectionPattern, HostRule, PdiUpdate, PdrId, PdrUpdate, SdfFilter,
};
use rules::testing::{N3_ADDRESS, UE, tunnelled};
use worker::mem::MemBuf;
use worker::{InspectionLimits, WorkerConfig};

use crate::common::first_payloads::{client_hello, get, query, segment};
use crate::common::one_session::{REMOTE, TEID, network_with, reason, session_in};
use crate::common::{World, frame};

const N3_PORT: PortId = PortId(0);
const N6_PORT: PortId = PortId(1);
/// What a packet for the UE has before it on N3: Ethernet, IPv4, UDP, GTP-U and a PDU Session Container.
const OUTER: usize = 14 + 20 + 8 + 8 + 8;
const URL: &str = "http://portal.example/blocked";

fn rule(name: &str, action: AccessAction, hosts: &[&str], protocols: &[Protocol]) -> AccessRule {
    let hosts = hosts.iter().map(|host| HostRule::parse(host).expect("a host"));
    AccessRule {
        name: name.into(),
        action,
        direction: None,
        filters: Vec::new(),
        detection: DetectionPattern {
            hosts: hosts.collect(),
            protocols: protocols.iter().copied().collect::<Protocols>(),
            ..DetectionPattern::default()
        },
    }
}

/// A worker with a session of this access list, and one connection of its UE.
struct Case {
    world: World,
    port: u16,
    /// Sequence numbers of UE and server.
    next: [u32; 2],
}

impl Case {
    fn new(rules: Vec<AccessRule>, otherwise: AccessAction) -> Self {
        Self::with(rules, otherwise, |_| {})
    }

    fn with(rules: Vec<AccessRule>, otherwise: AccessAction, configure: impl Fn(&mut WorkerConfig)) -> Self {
        let network = network_with(AccessList::new("list", rules, otherwise).expect("few"));
        let rules = session_in(&network);
        let mut world = World::with(network, 1, |config| {
            config.inspection = InspectionLimits::default();
            configure(config);
        });
        world.install(1, rules);
        Self {
            world,
            port: 40_000,
            next: [1_000, 77],
        }
    }

    /// What leaves when the UE sends a segment.
    fn up(&mut self, flags: u8, payload: &[u8]) -> Vec<(PortId, Vec<u8>)> {
        let packet = segment((UE, self.port), (REMOTE, 80), (self.next[0], flags), payload);
        self.next[0] += payload.len() as u32 + u32::from(flags & SYN != 0);
        self.send_up(&packet)
    }

    fn send_up(&mut self, packet: &[u8]) -> Vec<(PortId, Vec<u8>)> {
        let packet = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], packet);
        self.world.send(0, &packet)
    }

    /// What leaves when the server sends one.
    fn down(&mut self, flags: u8, payload: &[u8]) -> Vec<(PortId, Vec<u8>)> {
        let packet = segment((REMOTE, 80), (UE, self.port), (self.next[1], flags), payload);
        self.next[1] += payload.len() as u32 + u32::from(flags & SYN != 0);
        self.world.send(1, &packet)
    }

    /// The handshake of the connection, all of which passes.
    fn open(&mut self) {
        assert_eq!(self.up(SYN, &[]).len(), 1);
        assert_eq!(self.down(SYN | ACK, &[]).len(), 1);
        assert_eq!(self.up(ACK, &[]).len(), 1);
    }

    fn denied(&self) -> u64 {
        self.world.workers[0].stats().dropped(DropReason::AccessList)
    }
}

/// The only packet that has left, without what is before it: to whom, its flags, sequence and acknowledgement, and what
/// it carries.
fn segment_of(out: &[(PortId, Vec<u8>)]) -> (PortId, u8, u32, u32, Vec<u8>) {
    let [(port, frame)] = out else {
        panic!("one packet, not {}", out.len())
    };
    let packet = &frame[if *port == N3_PORT { OUTER } else { 14 }..];
    let number = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().expect("four octets"));
    let len = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    (
        *port,
        packet[33],
        number(24),
        number(28),
        packet[40..len].to_vec(),
    )
}

#[test]
fn a_flow_for_a_denied_host_ends_with_its_hello() {
    let rules = || vec![rule("blocked", AccessAction::Deny, &["*.blocked.example"], &[])];
    let mut case = Case::new(rules(), AccessAction::Permit);
    case.open();
    assert!(
        case.up(PSH | ACK, &client_hello("www.blocked.example"))
            .is_empty()
    );
    assert_eq!(case.denied(), 1);
    assert!(case.down(ACK, &[0x16; 500]).is_empty());
    assert!(case.up(ACK, &[]).is_empty());
    assert_eq!(case.denied(), 3);
    case.world.assert_conserved();
    let mut case = Case::new(rules(), AccessAction::Permit);
    case.open();
    assert_eq!(case.up(PSH | ACK, &client_hello("www.example")).len(), 1);
    assert_eq!(case.down(ACK, &[0x16; 500]).len(), 1);
    assert_eq!(case.denied(), 0);
}

#[test]
fn where_hosts_are_permitted_and_all_else_is_denied_a_flow_passes_until_its_host_is_known() {
    let rules = || vec![rule("good", AccessAction::Permit, &["good.example"], &[])];
    let mut case = Case::new(rules(), AccessAction::Deny);
    case.open();
    assert_eq!(case.up(PSH | ACK, &client_hello("good.example")).len(), 1);
    assert_eq!(case.down(ACK, &[0x16; 500]).len(), 1);
    assert_eq!(case.denied(), 0);
    case.port += 1;
    case.open();
    assert!(case.up(PSH | ACK, &client_hello("bad.example")).is_empty());
    assert!(case.down(ACK, &[]).is_empty() && case.up(ACK, &[]).is_empty());
    assert_eq!(case.denied(), 3);
    // What names no host is denied as soon as that is certain.
    case.port += 1;
    case.open();
    assert!(case.up(PSH | ACK, b"SSH-2.0-client\r\n").is_empty());
    assert!(case.down(ACK, b"SSH-2.0-server\r\n").is_empty());
    case.world.assert_conserved();
}

#[test]
fn nothing_passes_because_of_what_a_flow_may_be_that_is_not_looked_into() {
    let rules = || vec![rule("good", AccessAction::Permit, &["good.example"], &[])];
    let off = |config: &mut WorkerConfig| config.inspection = InspectionLimits::OFF;
    let mut case = Case::with(rules(), AccessAction::Deny, off);
    assert!(case.up(SYN, &[]).is_empty());
    // The UE has sent nothing in it.
    let mut case = Case::new(rules(), AccessAction::Deny);
    for _ in 0..3 {
        assert!(case.down(SYN, &[]).is_empty());
        assert!(case.down(ACK, b"anything").is_empty());
    }
    let mut ping = segment((UE, 8), (REMOTE, 0), (0, 0), &[]);
    ping[9] = 1;
    ping[10..12].fill(0);
    let sum = packet::checksum::of(&ping[..20]);
    ping[10..12].copy_from_slice(&sum.to_be_bytes());
    assert!(
        case.send_up(&ping).is_empty(),
        "another protocol is no flow for a host"
    );
    // There is no room for another.
    let few = |config: &mut WorkerConfig| config.inspection.undecided_per_session = 1;
    let mut case = Case::with(rules(), AccessAction::Deny, few);
    case.open();
    case.port += 1;
    assert!(case.up(SYN, &[]).is_empty());
}

/// A client that says nothing for as long as flows are looked into is denied with its next payload.
#[test]
fn a_flow_of_which_nothing_will_be_known_is_denied() {
    let rules = vec![rule("good", AccessAction::Permit, &["good.example"], &[])];
    let mut case = Case::new(rules, AccessAction::Deny);
    case.open();
    assert_eq!(case.up(ACK, &client_hello("good.example")[..20]).len(), 1);
    case.world.now = case.world.now + InspectionLimits::default().longest * 2;
    case.world.poll();
    assert!(case.up(ACK, &[1]).is_empty());
    assert!(case.down(ACK, &[1]).is_empty());
}

#[test]
fn a_reset_ends_the_connection_at_both_ends() {
    let rules = vec![rule("blocked", AccessAction::Reset, &["blocked.example"], &[])];
    let mut case = Case::new(rules, AccessAction::Permit);
    case.open();
    let out = case.up(PSH | ACK, &client_hello("blocked.example"));
    assert_eq!(segment_of(&out), (N3_PORT, RST, 1, 0, vec![]));
    let out = case.down(ACK, b"anything");
    assert_eq!(segment_of(&out), (N6_PORT, RST, 1, 0, vec![]));
    assert!(case.up(RST, &[]).is_empty() && case.down(RST, &[]).is_empty());
    let stats = case.world.workers[0].stats();
    assert_eq!((stats.denials_answered, stats.icmp_errors), (2, 0));
    case.world.assert_conserved();
}

/// An open connection of a session whose requests for `*.blocked.example` are redirected.
fn redirecting() -> Case {
    let redirect = AccessAction::Redirect(URL.into());
    let rules = vec![rule("blocked", redirect, &["*.blocked.example"], &[])];
    let mut case = Case::new(rules, AccessAction::Permit);
    case.open();
    case
}

#[test]
fn a_request_for_a_denied_host_is_redirected() {
    let mut case = redirecting();
    assert_eq!(case.up(PSH | ACK, &get("www.good.example", "/")).len(), 1);
    assert_eq!(case.down(ACK, b"HTTP/1.1 200 OK\r\n").len(), 1);
    let request = get("www.blocked.example", "/page");
    let acknowledges = case.next[0] + request.len() as u32;
    let out = case.up(PSH | ACK, &request);
    let (port, flags, sequence, ack, response) = segment_of(&out);
    assert_eq!(
        (port, flags, sequence, ack),
        (N3_PORT, PSH | ACK | FIN, 1, acknowledges)
    );
    let response = String::from_utf8(response).expect("text");
    assert!(
        response.starts_with("HTTP/1.1 302 ") && response.contains(URL),
        "{response}"
    );
    assert!(case.up(ACK, &[]).is_empty());
    let (_, flags, ..) = segment_of(&case.up(FIN | ACK, &[]));
    assert_eq!(flags, RST);
    let (port, flags, ..) = segment_of(&case.down(ACK, b"more"));
    assert_eq!(
        (port, flags),
        (N6_PORT, RST),
        "a host of the data network receives no more than it sends"
    );
}

#[test]
fn a_query_for_a_denied_name_is_answered_with_the_sinkhole() {
    let sinkhole = Sinkhole {
        ipv4: Some([203, 0, 113, 9]),
        ipv6: None,
        ttl_s: 30,
    };
    let rules = vec![rule(
        "malware",
        AccessAction::Sinkhole(sinkhole),
        &["*.malware.example"],
        &[Protocol::Dns],
    )];
    let mut case = Case::new(rules, AccessAction::Permit);
    let ask = |case: &mut Case, name: &str| {
        let (from, to) = (SocketAddr::from((UE, 40_000)), SocketAddr::from((REMOTE, 53)));
        let packet = build::udp(from, to, &query(name)).expect("a packet");
        case.send_up(&packet)
    };
    for _ in 0..2 {
        let out = ask(&mut case, "good.example");
        assert_eq!(out[0].0, N6_PORT);
        let out = ask(&mut case, "c2.malware.example");
        let [(N3_PORT, frame)] = &out[..] else {
            panic!("one answer, {out:?}")
        };
        let message = &frame[OUTER + 28..];
        assert_eq!(message[..2], [0x12, 0x34]);
        assert_eq!(
            (message[2] >> 7, message[3] & 15, message[7]),
            (1, 0, 1),
            "one record"
        );
        assert!(message.windows(4).any(|octets| octets == [203, 0, 113, 9]));
    }
    // A connection for the host itself is not meant.
    case.open();
    assert_eq!(case.up(PSH | ACK, &client_hello("c2.malware.example")).len(), 1);
}

fn datagram(payload: &[u8], port: u16) -> Vec<u8> {
    let (from, to) = (SocketAddr::from((UE, 40_000)), SocketAddr::from((REMOTE, port)));
    build::udp(from, to, payload).expect("a packet")
}

/// Gives an IPv4 packet these flags and offset, and the checksum for them.
fn as_fragment(packet: &mut [u8], flags: [u8; 2]) {
    packet[6..8].copy_from_slice(&flags);
    packet[10..12].fill(0);
    let sum = packet::checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn what_cannot_be_read_does_not_pass_because_of_what_a_flow_may_be() {
    let rules = vec![rule("good", AccessAction::Permit, &["good.example"], &[])];
    let mut case = Case::new(rules, AccessAction::Deny);
    // A datagram that may begin a flow of RTP, which is looked into: the entry is there.
    let mut rtp = vec![0x80, 0x60, 0, 1];
    rtp.extend([7; 20]);
    assert_eq!(case.send_up(&datagram(&rtp, 9_000)).len(), 1);
    let mut fragment = datagram(&[7; 64], 9_000);
    as_fragment(&mut fragment, [0x20, 0]);
    // A length that ends before what is carried.
    let mut surplus = datagram(&[7; 64], 9_000);
    surplus[24..26].copy_from_slice(&8u16.to_be_bytes());
    surplus[26..28].fill(0);
    for _ in 0..3 {
        assert!(case.send_up(&fragment).is_empty());
        assert!(case.send_up(&surplus).is_empty());
    }
    assert_eq!(case.denied(), 6);
    case.world.assert_conserved();
}

#[test]
fn a_syn_of_the_other_end_ends_nothing_that_is_known() {
    let rules = vec![rule("good", AccessAction::Permit, &["good.example"], &[])];
    let mut case = Case::new(rules, AccessAction::Deny);
    case.open();
    assert_eq!(case.up(PSH | ACK, &client_hello("good.example")).len(), 1);
    let forged = segment((REMOTE, 80), (UE, case.port), (9_999, SYN), &[]);
    assert_eq!(case.world.send(1, &forged).len(), 1);
    assert_eq!(case.down(ACK, &[0x16; 500]).len(), 1);
    assert_eq!(case.up(ACK, &[0x17; 50]).len(), 1);
    assert_eq!(case.denied(), 0);
}

#[test]
fn only_queries_pass_in_a_flow_of_queries_and_each_answer() {
    let rules = vec![
        rule("ok", AccessAction::Permit, &["ok.example"], &[Protocol::Dns]),
        rule("bad", AccessAction::Deny, &["bad.example"], &[Protocol::Dns]),
        rule("answers", AccessAction::Permit, &[], &[Protocol::Dns]),
    ];
    let mut case = Case::new(rules, AccessAction::Deny);
    let answer = |case: &mut Case| {
        let (from, to) = (SocketAddr::from((REMOTE, 53)), SocketAddr::from((UE, 40_000)));
        case.world.send(
            1,
            &build::udp(from, to, &[0x12, 0x34, 0x80, 0]).expect("a packet"),
        )
    };
    for _ in 0..2 {
        assert_eq!(case.send_up(&datagram(&query("ok.example"), 53)).len(), 1);
        assert!(case.send_up(&datagram(&query("bad.example"), 53)).is_empty());
        assert_eq!(answer(&mut case).len(), 1, "it is that to the query before");
        assert!(case.send_up(&datagram(b"a tunnel", 53)).is_empty());
    }
    assert_eq!(case.denied(), 4);
}

#[test]
fn a_connection_without_requests_is_reset_and_not_redirected() {
    let mut case = redirecting();
    let (port, flags, ..) = segment_of(&case.up(PSH | ACK, &client_hello("www.blocked.example")));
    assert_eq!((port, flags), (N3_PORT, RST));
}

/// What is permitted for what a flow may turn out to be is denied where nothing will be known of it, also if no PDR
/// detects it.
#[test]
fn a_packet_of_which_nothing_will_be_known_is_denied_before_no_pdr_detects_it() {
    let rules = vec![rule("good", AccessAction::Permit, &["good.example"], &[])];
    let network = network_with(AccessList::new("list", rules, AccessAction::Deny).expect("few"));
    let mut rules = session_in(&network);
    let filter = SdfFilter {
        flow_description: "permit out 17 from any to assigned".parse().ok(),
        ..SdfFilter::default()
    };
    let update = PdrUpdate {
        pdi: Some(PdiUpdate {
            sdf_filters: Some(vec![filter]),
            ..PdiUpdate::default()
        }),
        ..PdrUpdate::new(PdrId(2))
    };
    rules.update_pdr(update).expect("it is there");
    for limits in [InspectionLimits::OFF, InspectionLimits::default()] {
        let mut world = World::with(network.clone(), 1, |config| config.inspection = limits);
        world.install(1, rules.clone());
        let packet = segment((REMOTE, 80), (UE, 40_000), (77, ACK), &[]);
        assert_eq!(reason(&mut world, 1, &packet), Some(DropReason::AccessList));
    }
}

/// The second finds the entry of before.
#[test]
fn a_request_that_is_denied_does_not_pass_when_it_comes_twice_at_once() {
    for first in [None, Some(get("www.good.example", "/"))] {
        let rules = vec![rule("blocked", AccessAction::Deny, &["*.blocked.example"], &[])];
        let mut case = Case::new(rules, AccessAction::Permit);
        case.open();
        if let Some(first) = &first {
            assert_eq!(case.up(PSH | ACK, first).len(), 1);
        }
        let request = get("www.blocked.example", "/");
        let ends = ((UE, case.port), (REMOTE, 80));
        let packet = segment(ends.0, ends.1, (case.next[0], PSH | ACK), &request);
        let packet = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &packet);
        let queue = case.world.wires.to(WorkerId(0), N3_PORT).clone();
        for _ in 0..2 {
            let packet = MemBuf::new(&frame(0, &packet));
            queue.push(packet).expect("there is room");
        }
        case.world.poll();
        assert!(case.world.take().is_empty());
        assert_eq!(case.denied(), 2);
    }
}

#[test]
fn an_answer_is_not_permitted_as_the_first_query_of_its_flow() {
    let rules = vec![rule(
        "ok",
        AccessAction::Permit,
        &["ok.example"],
        &[Protocol::Dns],
    )];
    let mut case = Case::new(rules, AccessAction::Deny);
    let (from, to) = (SocketAddr::from((REMOTE, 53)), SocketAddr::from((UE, 40_000)));
    let packet = build::udp(from, to, &[0x12, 0x34, 0x80, 0]).expect("a packet");
    assert!(case.world.send(1, &packet).is_empty());
    assert_eq!(case.send_up(&datagram(&query("ok.example"), 53)).len(), 1);
    for _ in 0..3 {
        assert!(case.world.send(1, &packet).is_empty());
    }
}
