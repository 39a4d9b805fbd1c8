//! What nDPI says of flows, where it is configured: rules take it for what inspection does not recognise, and for
//! nothing else. The tests need Debian's package libndpi4.2.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use dpi::{Protocol, Protocols};
use flow::SessionIndex;
use ndpi::Library;
use packet::tcp::flags::{ACK, SYN};
use proptest::prelude::*;
use rules::model::{DetectionPattern, Precedence, PredefinedRule, Urr, UrrId};
use rules::testing::{N3_ADDRESS, UE, network, tunnelled};
use rules::{Predefined, SessionRules};
use worker::{NdpiLimits, TraceFilter, TracedDetection, WorkerConfig};

use crate::common::World;
use crate::common::first_payloads::{client_hello, segment};
use crate::common::one_session::{TEID, of_ue, with_rulebase};
use crate::inspection::{API, REST, VIDEO};
use crate::tracing;

const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 80);
const OTHER_UE: Ipv4Addr = Ipv4Addr::new(10, 45, 7, 7);
const OTHER_TEID: u32 = 0x7007;
/// What the first rule takes, and the second one.
const TORRENT: UrrId = VIDEO;
const SSH: UrrId = API;

fn library() -> Arc<Library> {
    Arc::new(Library::open("libndpi.so.4.2").expect("package libndpi4.2"))
}

/// The rules of a session that count these protocols, by their names, and all else.
fn rules(library: &Library, names: [&str; 2]) -> SessionRules {
    let protocol = |name: &str| match name.strip_prefix("ndpi.") {
        Some(name) => Protocol::Ndpi(library.protocol(name).expect("it knows it").into()),
        None => Protocol::named(name).expect("it is recognised"),
    };
    let rule = |precedence, protocols: Protocols, urr| PredefinedRule {
        precedence: Precedence(precedence),
        filters: Vec::new(),
        detection: DetectionPattern {
            protocols,
            ..DetectionPattern::default()
        },
        far: None,
        qers: Vec::new(),
        urrs: vec![urr],
        content: None,
    };
    let of = |name| Protocols::from_iter([protocol(name)]);
    let all = vec![
        rule(1, of(names[0]), TORRENT),
        rule(2, of(names[1]), SSH),
        rule(3, Protocols::NONE, REST),
    ];
    let urrs = [TORRENT, SSH, REST].map(Urr::volume);
    let mut predefined = Predefined::new([], [], urrs).expect("their numbers fit");
    predefined.add(b"base", all).expect("all is there");
    with_rulebase(&predefined, b"base")
}

fn handshake() -> Vec<u8> {
    [
        &b"\x13BitTorrent protocol"[..],
        &[0; 8],
        &[7; 20],
        b"-UT3550-abcdefghijkl",
    ]
    .concat()
}

fn datagram((from, from_port): (Ipv4Addr, u16), (to, to_port): (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    let len = |octets: usize| (octets as u16).to_be_bytes();
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet[2..4].copy_from_slice(&len(28 + payload.len()));
    packet.extend(from.octets().into_iter().chain(to.octets()));
    let sum = packet::checksum::of(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([from_port, to_port].into_iter().flat_map(u16::to_be_bytes));
    packet.extend(len(8 + payload.len()).into_iter().chain([0, 0]));
    [&packet, payload].concat()
}

struct Case {
    world: World,
    /// Sequence numbers of client and server.
    next: [u32; 2],
}

impl Case {
    fn new(names: [&str; 2], configure: impl Fn(&mut WorkerConfig)) -> Self {
        let library = library();
        let mut world = World::with(network(), 1, |config| {
            config.inspection = worker::InspectionLimits::default();
            config.ndpi = Some(NdpiLimits {
                library: Arc::clone(&library),
                flows: 64,
                packets: 8,
            });
            configure(config);
        });
        world.install(1, rules(&library, names));
        let mut other = rules(&library, names);
        of_ue(&mut other, OTHER_TEID, OTHER_UE);
        world.install(2, other);
        Self {
            world,
            next: [100, 900],
        }
    }

    fn up_in(&mut self, teid: u32, packet: &[u8]) {
        let packet = tunnelled(N3_ADDRESS, teid, 255, Some([0x10, 9]), &[], packet);
        assert_eq!(self.world.send(0, &packet).len(), 1, "it waits for nothing");
    }

    fn up(&mut self, port: u16, flags: u8, payload: &[u8]) {
        let packet = segment((UE, port), (SERVER, 4_000), (self.next[0], flags), payload);
        self.next[0] += payload.len() as u32 + u32::from(flags & SYN != 0);
        self.up_in(TEID, &packet);
    }

    fn down(&mut self, port: u16, flags: u8, payload: &[u8]) {
        let packet = segment((SERVER, 4_000), (UE, port), (self.next[1], flags), payload);
        self.next[1] += payload.len() as u32 + u32::from(flags & SYN != 0);
        assert_eq!(self.world.send(1, &packet).len(), 1, "it waits for nothing");
    }

    fn open(&mut self, port: u16) {
        self.up(port, SYN, &[]);
        self.down(port, SYN | ACK, &[]);
        self.up(port, ACK, &[]);
    }

    /// Octets both ways: of the first rule, of the second, of the rest.
    fn octets(&mut self) -> [u64; 3] {
        let usage = self.world.query(0, SessionIndex(1));
        [TORRENT, SSH, REST].map(|id| {
            let count = usage.counters.iter().find(|(own, _)| *own == id);
            let (_, count) = count.expect("it counts");
            count.ul_octets + count.dl_octets
        })
    }

    fn stats(&self) -> worker::Stats {
        self.world.workers[0].stats().clone()
    }

    /// Flows that nDPI looks at, and octets that it has allocated.
    fn held(&self) -> (usize, u64) {
        let held = self.world.workers[0].holdings();
        (held.ndpi_flows, held.ndpi_octets)
    }
}

const NAMES: [&str; 2] = ["ndpi.BitTorrent", "ndpi.ssh"];

#[test]
fn a_flow_counts_as_what_ndpi_says_from_that_packet_on() {
    let mut case = Case::new(NAMES, |_| ());
    case.open(1);
    case.up(1, ACK, &handshake());
    assert_eq!(case.octets(), [108, 0, 120]);
    let looked_at = case.stats().inspected;
    for _ in 0..10 {
        case.down(1, ACK, &[7; 1000]);
        case.up(1, ACK, &[7; 100]);
    }
    assert_eq!(case.octets(), [108 + 10 * 1180, 0, 120]);
    let stats = case.stats();
    assert!(
        stats.inspected <= looked_at + 1,
        "a decided flow is not looked at"
    );
    assert_eq!(
        (stats.ndpi_flows, stats.ndpi_found, stats.ndpi_refused),
        (1, 1, 0)
    );
    assert_eq!(
        (stats.hosts_found, stats.undetected_flows, case.held().0),
        (0, 1, 0)
    );
    case.world.assert_conserved();
}

#[test]
fn a_server_may_speak_first() {
    let mut case = Case::new(NAMES, |_| ());
    case.open(1);
    case.down(1, ACK, b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
    case.up(1, ACK, b"SSH-2.0-OpenSSH_9.6\r\n");
    let before = case.octets();
    case.down(1, ACK, &[7; 960]);
    assert_eq!(case.octets(), [0, before[1] + 1000, before[2]]);
    assert_eq!(case.stats().ndpi_found, 1);
}

#[test]
fn a_trace_says_what_ndpi_calls_it() {
    let mut case = Case::new(NAMES, |_| ());
    case.open(1);
    let mut reported = tracing::filtered(&mut case.world, TraceFilter::default());
    case.up(1, ACK, &handshake());
    let traced = tracing::one(&mut reported);
    assert!(traced.flow.shows_detection);
    let detection = traced.flow.detection.expect("it was inspected");
    let TracedDetection::Found { by_ndpi, name, .. } = *detection else {
        panic!("{detection:?}");
    };
    assert_eq!((by_ndpi.as_deref(), name), (Some("BitTorrent"), None));
}

#[test]
fn what_inspection_recognises_is_not_shown_to_ndpi() {
    let mut case = Case::new(["tls", "ndpi.ssh"], |_| ());
    let hello = client_hello("cdn.video.example");
    for (port, pieces) in [(1, 1), (2, 2), (3, 5)] {
        case.open(port);
        for piece in hello.chunks(hello.len().div_ceil(pieces)) {
            case.up(port, ACK, piece);
        }
    }
    let stats = case.stats();
    assert_eq!(
        (stats.hosts_found, stats.ndpi_flows, stats.ndpi_refused),
        (3, 0, 0)
    );
    assert!(case.octets()[0] > 3 * 40);
}

/// nDPI has RTP by its first packets, inspection by four: nDPI is not faster.
#[test]
fn what_inspection_finds_counts_more() {
    let mut case = Case::new(["rtp", "ndpi.ssh"], |_| ());
    for number in 0..6 {
        let rtp = [
            &[0x80, 0, 0, number, 0, 0, 0, number, 1, 2, 3, 4][..],
            &[0xd5; 160],
        ]
        .concat();
        case.up_in(TEID, &datagram((UE, 5_004), (SERVER, 5_004), &rtp));
    }
    assert_eq!(case.octets(), [3 * 200, 0, 3 * 200]);
    let stats = case.stats();
    assert_eq!((stats.ndpi_flows, stats.ndpi_found, case.held().0), (1, 0, 0));
}

#[test]
fn what_nothing_recognises_is_shown_a_few_times() {
    let mut case = Case::new(NAMES, |_| ());
    case.open(1);
    for number in 0..20_u8 {
        case.up(1, ACK, &[&[0xf7, number], &[0x99; 60][..]].concat());
        assert_eq!(case.held().0, usize::from(number < 7), "{number}");
    }
    let stats = case.stats();
    assert_eq!(
        (stats.ndpi_flows, stats.ndpi_found, stats.undetected_flows),
        (1, 0, 1)
    );
    let looked_at = stats.inspected;
    case.up(1, ACK, &[0x99; 60]);
    assert_eq!(case.stats().inspected, looked_at);
}

#[test]
fn a_flow_that_stays_silent_is_given_up() {
    let mut case = Case::new(NAMES, |_| ());
    case.open(1);
    case.up(1, ACK, &[0xf7; 60]);
    assert_eq!(case.held().0, 1);
    case.world.now = case.world.now + Duration::from_secs(11);
    (0..64).for_each(|_| case.world.poll());
    assert_eq!((case.held().0, case.stats().undetected_flows), (0, 1));
    // Another connection between the same ends is another flow.
    case.open(1);
    case.up(1, ACK, &handshake());
    assert_eq!(case.stats().ndpi_found, 1);
}

#[test]
fn a_flood_of_one_ue_leaves_room_for_others() {
    let mut case = Case::new(NAMES, |config| config.inspection.undecided_per_session = 32);
    for port in 0..2_000 {
        let packet = segment((OTHER_UE, 1_024 + port), (SERVER, 80), (1, SYN), &[0xf7; 60]);
        case.up_in(OTHER_TEID, &packet);
    }
    assert_eq!(case.held().0, 32);
    let stats = case.stats();
    assert_eq!((stats.ndpi_flows, stats.ndpi_refused), (32, 2_000 - 32));
    case.open(1);
    case.up(1, ACK, &handshake());
    assert_eq!(case.stats().ndpi_found, 1);
}

#[test]
fn where_there_is_no_room_one_gives_way() {
    let mut case = Case::new(NAMES, |_| ());
    let before = case.held().1;
    for port in 0..2_000 {
        let (teid, ue) = [(TEID, UE), (OTHER_TEID, OTHER_UE)][usize::from(port % 2)];
        case.up_in(
            teid,
            &segment((ue, 1_024 + port), (SERVER, 80), (1, SYN), &[0xf7; 60]),
        );
    }
    let stats = case.stats();
    let (held, octets) = case.held();
    assert_eq!((held, stats.ndpi_flows, stats.ndpi_refused), (64, 2_000, 0));
    assert_eq!(stats.undetected_flows, 2_000 - 64);
    assert!(octets < before + (1 << 20), "{octets}");
    case.open(1);
    case.up(1, ACK, &handshake());
    assert_eq!(case.stats().ndpi_found, 1);
}

#[test]
fn flows_of_sessions_whose_rules_name_none_are_not_shown() {
    let mut case = Case::new(["tls", "stun"], |_| ());
    case.open(1);
    case.up(1, ACK, &handshake());
    let stats = case.stats();
    assert_eq!(
        (stats.ndpi_flows, stats.ndpi_refused, stats.undetected_flows),
        (0, 0, 1)
    );
}

#[test]
fn without_it_nothing_is_found() {
    let mut case = Case::new(NAMES, |config| config.ndpi = None);
    case.open(1);
    case.up(1, ACK, &handshake());
    assert_eq!((case.octets(), case.held()), ([0, 0, 120 + 108], (0, 0)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever comes, and in whatever order: there are no more flows than there is room for, each ends, and nothing of
    /// them stays.
    #[test]
    fn flows_come_and_go_within_their_bounds(
        steps in prop::collection::vec((any::<bool>(), 0..400_u16, 0..6_u8, 0..2_000_u64), 1..600),
    ) {
        let mut case = Case::new(NAMES, |config| config.inspection.undecided_per_session = 48);
        let before = case.held().1;
        for (is_other, port, what, ms) in steps {
            case.world.now = case.world.now + Duration::from_millis(ms / 40);
            let (teid, ue) = if is_other { (OTHER_TEID, OTHER_UE) } else { (TEID, UE) };
            let ends = ((ue, 1_024 + port), (SERVER, 4_000));
            let hello = client_hello("cdn.video.example");
            let packet = match what {
                0 => segment(ends.0, ends.1, (1, SYN), &[]),
                1 => segment(ends.0, ends.1, (2, ACK), &handshake()),
                2 => segment(ends.0, ends.1, (2, ACK), &[0xf7; 60]),
                3 => segment(ends.0, ends.1, (2, ACK), &hello[..hello.len() / 2]),
                4 => datagram(ends.0, ends.1, &[0x80; 60]),
                _ => datagram(ends.0, ends.1, &[0xf7; 40]),
            };
            case.up_in(teid, &packet);
            prop_assert!(case.held().0 <= 64);
        }
        let stats = case.stats();
        prop_assert!(stats.ndpi_found <= stats.ndpi_flows);
        case.world.now = case.world.now + Duration::from_secs(11);
        (0..64).for_each(|_| case.world.poll());
        prop_assert_eq!(case.held().0, 0);
        prop_assert!(case.held().1 < before + (1 << 20));
        case.world.assert_conserved();
    }
}
