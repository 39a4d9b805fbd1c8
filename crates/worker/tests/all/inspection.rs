//! Flows whose rules name hosts: what they count as, before their host is known and after, with real messages.

use crate::common;

use std::net::Ipv4Addr;
use std::time::Duration;

use flow::SessionIndex;
use packet::DropReason;
use packet::checksum;
use packet::tcp::flags::{ACK, FIN, SYN};
use rules::image::ImmediateActions;
use rules::model::{
    DetectionPattern, HostRule, Precedence, PredefinedRule, SdfFilter, TosTrafficClass, Urr, UrrId,
};
use rules::testing::{N3_ADDRESS, UE, tunnelled};
use rules::{Predefined, SessionRules};
use worker::{Command, InspectionLimits, WorkerConfig};

use common::World;
use common::first_payloads::{client_hello, get, segment};
use common::one_session::{TEID, with_rulebase};

pub const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 80);
pub const VIDEO: UrrId = UrrId(0x8000_0001);
pub const API: UrrId = UrrId(0x8000_0002);
pub const REST: UrrId = UrrId(0x8000_0003);
const SESSION: SessionIndex = SessionIndex(1);

/// The rules of a session both of whose PDRs count by host: `*.video.example`, the path `/api` of `shop.example`, and
/// all else.
pub fn rules_with(video: &str) -> SessionRules {
    rules_after(video, None)
}

/// The same after another rule of all else, if one is given.
pub fn rules_after(video: &str, first: Option<SdfFilter>) -> SessionRules {
    rules_where(video, first, false)
}

/// The same; the host of video has to be confirmed, or not.
pub fn rules_where(video: &str, first: Option<SdfFilter>, is_confirmed: bool) -> SessionRules {
    let urrs = [VIDEO, API, REST].map(Urr::volume);
    let mut predefined = Predefined::new([], [], urrs).expect("their numbers fit");
    let rule = |precedence, host: Option<&str>, urr| PredefinedRule {
        precedence: Precedence(precedence),
        filters: Vec::new(),
        detection: DetectionPattern::of_hosts(
            host.into_iter()
                .map(|host| HostRule::parse(host).expect("a host"))
                .collect(),
        ),
        far: None,
        qers: Vec::new(),
        urrs: vec![urr],
        content: None,
    };
    let mut all = vec![
        rule(1, Some(video), VIDEO),
        rule(2, Some("shop.example/api"), API),
        rule(3, None, REST),
    ];
    all[0].detection.is_confirmed = is_confirmed;
    all.extend(first.map(|filter| PredefinedRule {
        filters: vec![filter],
        ..rule(0, None, REST)
    }));
    predefined.add(b"base", all).expect("all is there");
    with_rulebase(&predefined, b"base")
}

/// A worker with that session, and one of its connections.
pub struct Case {
    pub world: World,
    port: u16,
    /// Sequence numbers of client and server.
    pub next: [u32; 2],
    /// TOS of what the server sends.
    tos: u8,
}

impl Case {
    pub fn new(limits: InspectionLimits) -> Self {
        Self::with(rules_with("*.video.example"), |config| config.inspection = limits)
    }

    pub fn with(rules: SessionRules, configure: impl Fn(&mut WorkerConfig)) -> Self {
        let mut world = World::with(rules::testing::network(), 1, |config| {
            config.inspection = InspectionLimits::default();
            configure(config);
        });
        world.install(1, rules);
        Self {
            world,
            port: 40_000,
            next: [u32::MAX - 10, 77],
            tos: 0,
        }
    }

    /// With a rule before that reads TOS, so that entries are of one.
    pub fn reading_tos() -> Self {
        let marked = SdfFilter {
            tos_traffic_class: Some(TosTrafficClass {
                value: 0xb8,
                mask: 0xfc,
            }),
            ..SdfFilter::default()
        };
        Self::with(rules_after("*.video.example", Some(marked)), |_| ())
    }

    /// Sends a segment of the client.
    pub fn up(&mut self, flags: u8, payload: &[u8]) {
        let packet = segment((UE, self.port), (SERVER, 443), (self.next[0], flags), payload);
        self.next[0] = self.next[0].wrapping_add(payload.len() as u32 + u32::from(flags & SYN != 0));
        let out = self.world.send(
            0,
            &tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &packet),
        );
        assert_eq!(out.len(), 1, "it waits for nothing");
    }

    /// Sends a segment of the server.
    pub fn down(&mut self, flags: u8, payload: &[u8]) {
        let mut packet = segment((SERVER, 443), (UE, self.port), (self.next[1], flags), payload);
        packet[1] = self.tos;
        packet[10..12].fill(0);
        let sum = checksum::of(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        self.next[1] = self.next[1].wrapping_add(payload.len() as u32 + u32::from(flags & SYN != 0));
        assert_eq!(self.world.send(1, &packet).len(), 1, "it waits for nothing");
    }

    pub fn open(&mut self) {
        self.up(SYN, &[]);
        self.down(SYN | ACK, &[]);
        self.up(ACK, &[]);
    }

    /// What is counted for video, API, and the rest: octets both ways.
    pub fn octets(&mut self) -> [u64; 3] {
        let usage = self.world.query(0, SESSION);
        [VIDEO, API, REST].map(|id| {
            let count = usage.counters.iter().find(|(own, _)| *own == id);
            let (_, count) = count.expect("it counts");
            count.ul_octets + count.dl_octets
        })
    }

    /// What of that has come since.
    pub fn since(&mut self, before: [u64; 3]) -> [u64; 3] {
        let now = self.octets();
        [0, 1, 2].map(|index| now[index] - before[index])
    }

    fn stats(&self) -> worker::Stats {
        self.world.workers[0].stats().clone()
    }
}

#[test]
fn a_flow_counts_as_what_its_hello_says_from_that_packet_on() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    assert_eq!(
        case.octets(),
        [0, 0, 120],
        "what comes before belongs to the rest"
    );
    let hello = client_hello("cdn.video.example");
    case.up(ACK, &hello);
    let counted = 40 + hello.len() as u64;
    assert_eq!(case.octets(), [counted, 0, 120]);
    case.down(ACK, &[0x16; 1000]);
    case.up(ACK, &[0x17; 100]);
    assert_eq!(case.octets(), [counted + 1040 + 140, 0, 120]);
    let looked_at = case.stats().inspected;
    for _ in 0..100 {
        case.down(ACK, &[0x17; 1000]);
        case.up(ACK, &[]);
    }
    assert_eq!(
        case.stats().inspected,
        looked_at,
        "a decided flow is not looked at"
    );
    let stats = case.stats();
    assert_eq!(
        (stats.inspections, stats.hosts_found, stats.undetected_flows),
        (1, 1, 0)
    );
    case.world.assert_conserved();
}

#[test]
fn acknowledgements_alone_count_as_the_host_once_it_is_known() {
    for message in [
        client_hello("cdn.video.example"),
        get("cdn.video.example", "/upload"),
    ] {
        let mut case = Case::new(InspectionLimits::default());
        case.open();
        case.up(ACK, &message);
        let before = case.octets();
        for _ in 0..3 {
            case.down(ACK, &[]);
            case.up(ACK, &[]);
        }
        assert_eq!(case.since(before), [240, 0, 0]);
    }
}

/// Rules that read TOS make entries of it, and the server's is not the client's.
#[test]
fn answers_with_another_tos_follow_the_requests() {
    let mut case = Case::reading_tos();
    case.tos = 0x28;
    case.open();
    for (host, path, expected) in [
        ("cdn.video.example", "/", [1040, 0, 0]),
        ("shop.example", "/api", [0, 1040, 0]),
        ("www.example", "/", [0, 0, 1040]),
        ("cdn.video.example", "/", [1040, 0, 0]),
    ] {
        case.up(ACK, &get(host, path));
        for tos in [0x28, 0x48] {
            case.tos = tos;
            let before = case.octets();
            case.down(ACK, &[0x31; 1000]);
            assert_eq!(case.since(before), expected, "{host} {tos}");
        }
    }
}

#[test]
fn a_segment_that_opens_a_connection_does_not_go_by_the_one_before() {
    let mut case = Case::with(rules_with("*.video.example"), |config| config.budgets.stale = 0);
    case.open();
    case.up(ACK, &client_hello("cdn.video.example"));
    let opening = segment((UE, case.port), (SERVER, 443), (1, SYN), &[]);
    let opening = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &opening);
    assert!(
        case.world.send(0, &opening).is_empty(),
        "the client sends it again"
    );
    assert_eq!(case.stats().dropped(DropReason::StaleBudget), 1);
    case.up(ACK, &[0x17; 100]);
}

#[test]
fn a_hello_in_pieces_out_of_order_and_sent_again_is_read() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    let hello = client_hello("cdn.video.example");
    let (first, rest) = hello.split_at(20);
    let start = case.next[0];
    case.next[0] = start.wrapping_add(20);
    case.up(ACK, rest);
    case.up(ACK, &[]);
    case.next[0] = start;
    assert_eq!(case.octets()[0], 0);
    case.up(ACK, first);
    case.next[0] = start;
    case.up(ACK, first);
    assert_eq!(case.octets()[0], 120);
}

#[test]
fn a_flow_without_a_host_is_decided_for_the_rest() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    case.up(ACK, b"SSH-2.0-client\r\n");
    for _ in 0..20 {
        case.up(ACK, &[1; 100]);
        case.down(ACK, &[2; 100]);
    }
    let looked_at = case.stats().inspected;
    case.up(ACK, &client_hello("cdn.video.example"));
    assert_eq!(case.stats().inspected, looked_at, "it is not looked at any more");
    assert_eq!(case.octets()[..2], [0, 0]);
}

#[test]
fn a_flow_that_says_nothing_is_decided_after_a_while() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    case.world.now = case.world.now + Duration::from_secs(11);
    case.down(ACK, &[]);
    case.up(ACK, &[]);
    let looked_at = case.stats().inspected;
    case.up(ACK, &[]);
    case.down(ACK, &[]);
    assert_eq!(case.stats().inspected, looked_at);
}

#[test]
fn each_request_of_a_connection_counts_as_what_it_is_for() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    let before = case.octets();
    let api = get("shop.example", "/api/orders");
    case.up(ACK, &api);
    case.down(ACK, &[b'a'; 500]);
    assert_eq!(case.since(before), [0, 80 + api.len() as u64 + 500, 0]);
    let before = case.octets();
    let page = get("shop.example", "/index");
    case.up(ACK, &page);
    case.down(ACK, &[b'b'; 700]);
    assert_eq!(case.since(before), [0, 0, 80 + page.len() as u64 + 700]);
    let before = case.octets();
    let video = get("a.video.example", "/");
    // Its head comes in two segments: the first belongs to what came before.
    let (first, second) = video.split_at(30);
    case.up(ACK, first);
    case.up(ACK, second);
    case.down(ACK, &[b'c'; 900]);
    case.down(ACK, &[b'c'; 900]);
    let rest = 40 + first.len() as u64;
    assert_eq!(case.since(before), [120 + second.len() as u64 + 1800, 0, rest]);
    // What a client sends is looked at, what a server sends is not.
    let looked_at = case.stats().inspected;
    case.down(ACK, &[b'c'; 900]);
    assert_eq!(case.stats().inspected, looked_at);
}

/// Servers pass over empty lines in front of a request.
#[test]
fn a_request_behind_empty_lines_counts_as_what_it_is_for() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    case.up(ACK, &get("a.video.example", "/"));
    let before = case.octets();
    case.up(ACK, b"\r\n");
    let api = get("shop.example", "/api/orders");
    case.up(ACK, &[b"\r\n", &api[..]].concat());
    case.down(ACK, &[b'a'; 500]);
    assert_eq!(case.since(before), [42, 82 + api.len() as u64 + 500, 0]);
}

/// It may be for another host, and so may be what is answered.
#[test]
fn behind_a_request_that_ends_too_late_nothing_counts_as_the_host_before() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    case.up(ACK, &get("a.video.example", "/"));
    case.down(ACK, &[b'v'; 500]);
    let (first, second) = (b"GET / HTTP/1.1\r\nHo", b"st: shop.example\r\n\r\n");
    case.up(ACK, first);
    case.world.now = case.world.now + Duration::from_secs(11);
    let before = case.octets();
    case.up(ACK, second);
    case.down(ACK, &[b's'; 900]);
    assert_eq!(case.since(before), [0, 0, 80 + second.len() as u64 + 900]);
}

/// Each would be for a host that it is not for, were a request only looked for where a segment begins.
#[test]
fn requests_are_found_where_the_ones_before_end() {
    let post = |octets: usize| {
        format!("POST /api HTTP/1.1\r\nHost: shop.example\r\nContent-Length: {octets}\r\n\r\n").into_bytes()
    };
    let video = get("a.video.example", "/");
    let body = [b'b'; 300];
    let (half, rest) = video.split_at(20);
    // Pieces that the client sends, and what the server's answer to them counts as.
    let cases: [(&[&[u8]], [u64; 3]); 8] = [
        // Behind a body, in the same segment.
        (&[&[&post(300)[..], &body, &video].concat()], [0, 0, 1]),
        (&[&post(300), &[&body[..], &video].concat()], [1, 0, 0]),
        (
            &[&post(300), &body[..100], &[&body[100..], &video].concat()],
            [1, 0, 0],
        ),
        // The head in two segments, the first of which ends a body.
        (&[&post(300), &[&body[..], half].concat(), rest], [1, 0, 0]),
        // A body that looks like a request.
        (&[&post(video.len()), &video], [0, 1, 0]),
        // For two hosts in one segment; for one.
        (&[&[&video[..], &get("shop.example", "/api")].concat()], [0, 0, 1]),
        (&[&[&video[..], &video, &video].concat()], [1, 0, 0]),
        // More than is read.
        (&[&video.repeat(20)], [0, 0, 1]),
    ];
    for (number, (pieces, expected)) in cases.into_iter().enumerate() {
        let mut case = Case::new(InspectionLimits::default());
        case.open();
        for before in [&get("shop.example", "/api")[..], &get("a.video.example", "/")] {
            case.up(ACK, before);
            pieces.iter().for_each(|piece| case.up(ACK, piece));
            let before = case.octets();
            case.down(ACK, &[b's'; 960]);
            assert_eq!(case.since(before), expected.map(|count| count * 1000), "{number}");
            // The next one is found again.
            case.up(ACK, &get("shop.example", "/api"));
            let before = case.octets();
            case.down(ACK, &[b's'; 960]);
            assert_eq!(case.since(before), [0, 1000, 0], "{number}");
        }
    }
}

#[test]
fn segments_that_come_again_change_nothing() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    let start = case.next[0];
    case.up(ACK, &get("shop.example", "/api"));
    case.up(ACK, &get("a.video.example", "/"));
    let end = std::mem::replace(&mut case.next[0], start);
    case.up(ACK, &get("shop.example", "/api"));
    let before = case.octets();
    case.down(ACK, &[b'v'; 960]);
    assert_eq!(case.since(before), [1000, 0, 0]);
    // Where one comes before the one in front of it, neither is known to be the last.
    let first = get("shop.example", "/api");
    case.next[0] = end.wrapping_add(first.len() as u32);
    case.up(ACK, &get("a.video.example", "/"));
    case.next[0] = end;
    case.up(ACK, &first);
    let before = case.octets();
    case.down(ACK, &[b's'; 960]);
    assert_eq!(case.since(before), [0, 0, 1000]);
}

#[test]
fn a_body_that_looks_like_a_request_changes_nothing() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    let post = b"POST /api HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 100\r\n\r\n";
    case.up(ACK, post);
    let before = case.octets();
    case.up(ACK, b"NOT a request, and no more than text");
    assert_eq!(case.since(before), [0, 76, 0]);
}

#[test]
fn other_rules_find_the_host_again() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    case.up(ACK, &client_hello("cdn.video.example"));
    let rules = std::sync::Arc::new(rules_with("*.other.example"));
    let image = case.world.image(1, &rules, None).expect("it compiles");
    let change = rules::SessionChange::Replace(image, ImmediateActions::default());
    case.world.apply(0, change).expect("it is there");
    let before = case.octets();
    case.up(ACK, &[0x17; 100]);
    assert_eq!(case.since(before), [0, 0, 140]);
    let rules = std::sync::Arc::new(rules_with("cdn.video.example"));
    let image = case.world.image(1, &rules, None).expect("it compiles");
    let change = rules::SessionChange::Replace(image, ImmediateActions::default());
    case.world.apply(0, change).expect("it is there");
    let before = case.octets();
    case.down(ACK, &[0x17; 100]);
    assert_eq!(case.since(before), [140, 0, 0], "the host is known still");
}

/// It may have been elsewhere meanwhile, and the ends of its flow may be those of another connection now.
#[test]
fn of_a_session_that_comes_back_nothing_is_known() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    case.up(ACK, &client_hello("cdn.video.example"));
    let change = rules::SessionChange::Remove(SESSION);
    case.world.apply(0, change).expect("it is there");
    case.world.install(1, rules_with("*.video.example"));
    let before = case.octets();
    case.up(ACK, &[0x17; 100]);
    case.down(ACK, &[0x17; 500]);
    assert_eq!(case.since(before), [0, 0, 140 + 540]);
}

#[test]
fn what_the_server_sends_is_decided_with_the_request() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    case.up(ACK, &get("a.video.example", "/"));
    let decided = |case: &Case| case.world.workers[0].stats().inspected;
    case.down(ACK, &[b'v'; 500]);
    let before = (case.octets(), decided(&case));
    for path in ["/one", "/two", "/three"] {
        case.up(ACK, &get("a.video.example", path));
        case.down(ACK, &[b'v'; 500]);
    }
    let requests: usize = ["/one", "/two", "/three"]
        .iter()
        .map(|path| 40 + get("a.video.example", path).len())
        .sum();
    assert_eq!(case.since(before.0), [requests as u64 + 3 * 540, 0, 0]);
    // What the server sends goes by the entry that it has.
    assert_eq!(decided(&case) - before.1, 3);
    let before = decided(&case);
    case.up(ACK, &get("shop.example", "/api/orders"));
    case.down(ACK, &[b's'; 500]);
    assert_eq!(
        decided(&case) - before,
        1,
        "both directions are decided by the request"
    );
}

#[test]
fn a_new_connection_with_the_same_ends_is_decided_anew() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    case.up(ACK, &client_hello("cdn.video.example"));
    case.up(ACK | FIN, &[]);
    case.next = [5, 6];
    let before = case.octets();
    case.open();
    case.up(ACK, &client_hello("www.example"));
    case.down(ACK, &[0x17; 60]);
    let hello = client_hello("www.example").len() as u64;
    assert_eq!(case.since(before), [0, 0, 120 + 40 + hello + 100]);
}

#[test]
fn without_inspection_no_host_is_known() {
    let mut case = Case::new(InspectionLimits::OFF);
    case.open();
    case.up(ACK, &client_hello("cdn.video.example"));
    case.up(ACK, &[0x17; 100]);
    let octets = case.octets();
    assert_eq!(octets[..2], [0, 0]);
    assert_eq!(case.stats().inspected, 0);
}

/// Packets of senders in the data network take nothing that the UE's own flows need.
#[test]
fn a_flood_from_the_data_network_takes_no_room() {
    let limits = InspectionLimits {
        undecided_per_session: 4,
        ..InspectionLimits::default()
    };
    let mut case = Case::new(limits);
    for port in 0..1000 {
        case.port = 1024 + port;
        case.down(SYN, &[]);
    }
    assert_eq!(case.stats().inspections, 0);
    case.port = 40_000;
    case.open();
    let before = case.octets();
    let hello = client_hello("cdn.video.example");
    case.up(ACK, &hello);
    assert_eq!(case.since(before), [40 + hello.len() as u64, 0, 0]);
}

/// A UE that serves: the client is in the data network.
#[test]
fn a_connection_that_comes_to_the_ue_is_read_too() {
    let mut case = Case::new(InspectionLimits::default());
    case.down(SYN, &[]);
    case.up(SYN | ACK, &[]);
    case.down(ACK, &[]);
    let before = case.octets();
    let hello = client_hello("cdn.video.example");
    case.down(ACK, &hello);
    case.up(ACK, &[0x16; 60]);
    assert_eq!(case.since(before), [40 + hello.len() as u64 + 100, 0, 0]);
}

/// As after a restart of the daemon, or when the record was pushed out.
#[test]
fn a_connection_is_read_from_its_midst() {
    for server_first in [false, true] {
        let mut case = Case::new(InspectionLimits::default());
        if server_first {
            case.down(ACK, &[b'x'; 100]);
        }
        case.up(ACK, b"the rest of some body");
        case.down(ACK, b"HTTP/1.1 200 OK\r\n\r\n");
        let before = case.octets();
        let request = get("a.video.example", "/");
        case.up(ACK, &request);
        case.down(ACK, &[b'c'; 900]);
        assert_eq!(
            case.since(before),
            [80 + request.len() as u64 + 900, 0, 0],
            "{server_first}"
        );
    }
}

/// A flood of hellos has its bounds, and what is decided stays decided.
#[test]
fn a_flood_touches_no_decided_flow() {
    let limits = InspectionLimits {
        records: 64,
        hosts: 16,
        undecided: 16,
        undecided_per_session: 8,
        ..InspectionLimits::default()
    };
    let mut case = Case::new(limits);
    case.open();
    case.up(ACK, &client_hello("cdn.video.example"));
    case.down(ACK, &[0x17; 60]);
    case.up(ACK, &[0x17; 60]);
    let (port, next) = (case.port, case.next);
    for other in 0..2000_u16 {
        (case.port, case.next) = (1024 + other, [1, 1]);
        case.up(SYN, &[]);
        case.up(ACK, &client_hello(&format!("host{other}.example"))[..50]);
    }
    let stats = case.stats();
    assert!(stats.inspections_refused > 1000, "{stats:?}");
    (case.port, case.next) = (port, next);
    let before = case.octets();
    case.down(ACK, &[0x17; 60]);
    case.up(ACK, &[0x17; 60]);
    assert_eq!(case.since(before), [200, 0, 0]);
    case.world.assert_conserved();
}

#[test]
fn entries_are_decided_anew_when_shared_rules_change_and_stay_what_they_are() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    case.up(ACK, &client_hello("cdn.video.example"));
    case.down(ACK, &[0x17; 60]);
    case.world.tell_all(|| Command::Revalidate);
    let before = case.octets();
    case.down(ACK, &[0x17; 60]);
    case.up(ACK, &[0x17; 60]);
    assert_eq!(case.since(before), [200, 0, 0]);
}
