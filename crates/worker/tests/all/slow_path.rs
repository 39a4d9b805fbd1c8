//! The slow path under pressure: which sessions get its budgets and entries, and what becomes of them.

use crate::common;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use flow::{PortId, SessionIndex, WorkerId};
use packet::tuple::proto;
use packet::{DropReason, Teid, tcp};
use proptest::prelude::*;
use rules::SessionRules;
use rules::image::{ImmediateActions, SessionChange, SessionImage};
use rules::model::{OuterHeaderCreation, PdrId, PdrUpdate, Urr, UrrId};
use rules::testing::{self, GNB, N3_ADDRESS, UserPacket, pdu_session, tunnelled};
use worker::mem::MemBuf;
use worker::{
    Budgets, Command, FlowLimits, IdleTimes, TraceFilter, TraceItem, TraceTerms, TracedLookup, WorkerConfig,
};

use common::one_session::{REMOTE, of_ue};
use common::{World, frame};

fn ue(session: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 45, 1, session as u8)
}

/// The session of UE number `session`.
fn rules_of(session: u32) -> SessionRules {
    let mut rules = pdu_session(0x1000, OuterHeaderCreation::gtpu_ipv4(Teid(77 + session), GNB));
    of_ue(&mut rules, 0x2000 + session, ue(session));
    rules
}

/// A packet of the UE from a port of its own: a flow of its own.
fn uplink(session: u32, port: u16) -> Vec<u8> {
    tunnel(session, &UserPacket::udp(ue(session), REMOTE, port, 53).bytes())
}

fn tunnel(session: u32, user: &[u8]) -> Vec<u8> {
    frame(0, &tunnelled(N3_ADDRESS, 0x2000 + session, 255, None, &[], user))
}

/// A packet to the UE.
fn downlink(session: u32, port: u16) -> Vec<u8> {
    frame(1, &UserPacket::udp(REMOTE, ue(session), 53, port).bytes())
}

fn world(sessions: u32, configure: impl Fn(&mut WorkerConfig)) -> World {
    let mut world = World::with(testing::network(), 1, |config| {
        config.force_five_tuple = true;
        configure(config);
    });
    (0..sessions).for_each(|session| drop(world.install(session, rules_of(session))));
    world
}

/// Lets all `frames` come in at once; what goes out.
fn burst(world: &mut World, port: u16, frames: &[Vec<u8>]) -> Vec<(PortId, Vec<u8>)> {
    let queue = world.wires.to(WorkerId(0), PortId(port)).clone();
    for frame in frames {
        queue.push(MemBuf::new(frame)).expect("there is room on the wire");
    }
    world.poll();
    world.take()
}

/// The source addresses of plain packets.
fn sources(out: &[(PortId, Vec<u8>)]) -> Vec<Ipv4Addr> {
    let source = |frame: &[u8]| Ipv4Addr::from(<[u8; 4]>::try_from(&frame[26..30]).expect("four octets"));
    out.iter().map(|(_, frame)| source(frame)).collect()
}

fn stats(world: &World) -> worker::Stats {
    world.workers[0].stats().clone()
}

fn dropped(world: &World, reason: DropReason) -> u64 {
    world.workers[0].stats().dropped(reason)
}

#[test]
fn a_port_scan_keeps_no_other_session_from_new_flows() {
    let mut world = world(21, |config| config.budgets = Budgets::all(24));
    let mut port = 0;
    for round in 0..100 {
        let mut frames = Vec::new();
        for place in 0..64 {
            port += 1;
            // The others' packets come last.
            frames.push(match place {
                0..44 => uplink(20, port),
                _ => uplink(place - 44, round),
            });
        }
        let served = sources(&burst(&mut world, 0, &frames));
        assert_eq!(served.len(), 24);
        assert!(
            (0..20).all(|session| served.contains(&ue(session))),
            "round {round}: {served:?}"
        );
    }
    assert_eq!(dropped(&world, DropReason::SlowPathBudget), 100 * 40);
    world.assert_conserved();
}

#[test]
fn with_more_ues_than_budget_each_has_its_turn() {
    let mut world = world(41, |config| config.budgets = Budgets::all(8));
    let mut waited = [0; 40];
    for port in 0..60 {
        let mut frames: Vec<_> = (0..24).map(|n| uplink(40, port * 64 + n)).collect();
        // Each tries again until it was served.
        frames.extend((0..40).map(|session| uplink(session, 1000 + port)));
        let served = sources(&burst(&mut world, 0, &frames));
        for session in 0..40 {
            let wait = &mut waited[session as usize];
            *wait = if served.contains(&ue(session)) {
                0
            } else {
                *wait + 1
            };
            assert!(
                *wait <= 41usize.div_ceil(8),
                "UE {session} waits for its {wait}th burst"
            );
        }
    }
}

#[test]
fn uplink_downlink_and_stale_flows_have_budgets_of_their_own() {
    let mut world = world(1, |config| {
        config.budgets = Budgets {
            new_uplink: 3,
            new_downlink: 5,
            stale: 2,
        };
    });
    let ups: Vec<_> = (0..10).map(|port| uplink(0, port)).collect();
    let downs: Vec<_> = (0..10).map(|port| downlink(0, port)).collect();
    assert_eq!(burst(&mut world, 0, &ups).len(), 3);
    assert_eq!(burst(&mut world, 1, &downs).len(), 5);
    assert_eq!(dropped(&world, DropReason::SlowPathBudget), 12);
    // The rules change: what was known is stale.
    let mut rules = rules_of(0);
    rules.create_urr(Urr::volume(UrrId(7))).expect("it is new");
    let mut change = PdrUpdate::new(PdrId(1));
    change.urrs = Some(vec![UrrId(7)]);
    rules.update_pdr(change).expect("it is there");
    let image = world.image(0, &Arc::new(rules), None).expect("it compiles");
    world
        .apply(0, SessionChange::Replace(image, ImmediateActions::default()))
        .expect("there is room");
    assert_eq!(
        (
            world.workers[0].dead_flows(),
            world.workers[0].flows_of(SessionIndex(0))
        ),
        (8, Some(0))
    );
    assert_eq!(burst(&mut world, 0, &ups[..3]).len(), 2);
    assert_eq!(dropped(&world, DropReason::StaleBudget), 1);
    assert_eq!(world.workers[0].dead_flows(), 5);
    world.assert_conserved();
}

#[test]
fn a_session_has_no_more_entries_than_it_may_and_its_packets_are_forwarded() {
    let mut world = world(3, |config| {
        (config.max_flows_v4, config.flow_limits.per_session) = (1024, 100);
    });
    for start in (0..6400).step_by(64) {
        let frames: Vec<_> = (start..start + 64).map(|port| uplink(0, port)).collect();
        assert_eq!(burst(&mut world, 0, &frames).len(), 64);
    }
    assert_eq!(world.workers[0].flows_of(SessionIndex(0)), Some(100));
    assert_eq!(stats(&world).over_session_flows, 6300);
    let others: Vec<_> = (0..60).map(|port| uplink(1, port)).collect();
    burst(&mut world, 0, &others);
    burst(&mut world, 0, &others);
    assert_eq!(
        (world.workers[0].flows_of(SessionIndex(1)), stats(&world).hits),
        (Some(60), 60)
    );
    world.assert_conserved();
}

#[test]
fn without_limits_a_full_table_still_forwards() {
    let mut world = world(2, |config| config.max_flows_v4 = 256);
    for start in (0..1280).step_by(64) {
        let frames: Vec<_> = (start..start + 64).map(|port| uplink(0, port)).collect();
        assert_eq!(burst(&mut world, 0, &frames).len(), 64);
    }
    assert_eq!(
        (world.workers[0].flows(), stats(&world).not_installed),
        (256, 1024)
    );
    assert_eq!(burst(&mut world, 0, &[uplink(1, 1)]).len(), 1);
    world.assert_conserved();
}

#[test]
fn rates_of_new_entries_are_kept_for_each_session_and_in_all() {
    let mut world = world(3, |config| {
        config.flow_limits = FlowLimits {
            per_session: 0,
            session_rate: 10,
            rate: 25,
        };
    });
    for session in 0..3 {
        let frames: Vec<_> = (0..20).map(|port| uplink(session, port)).collect();
        assert_eq!(burst(&mut world, 0, &frames).len(), 20);
    }
    let of = |world: &World, session| world.workers[0].flows_of(SessionIndex(session));
    assert_eq!(
        [of(&world, 0), of(&world, 1), of(&world, 2)],
        [Some(10), Some(10), Some(5)]
    );
    assert_eq!(
        (stats(&world).over_session_rate, stats(&world).over_rate),
        (30, 5)
    );
    world.now = world.now + Duration::from_secs(1);
    burst(
        &mut world,
        0,
        &(0..20).map(|port| uplink(0, port)).collect::<Vec<_>>(),
    );
    assert_eq!(of(&world, 0), Some(20));
}

/// Changes what the uplink counts in, keeping the generation: what a snapshot of shared rules does.
fn softly_changed(world: &mut World, before: &SessionImage) -> Box<SessionImage> {
    let mut rules = SessionRules::clone(&before.rules);
    let mut change = PdrUpdate::new(PdrId(1));
    change.urrs = Some(vec![UrrId(2)]);
    rules.update_pdr(change).expect("it is there");
    let mut image = world.image(0, &Arc::new(rules), None).expect("it compiles");
    image.classification_generation = before.classification_generation;
    image
}

#[test]
fn softly_stale_flows_keep_their_decision_until_the_budget_gets_to_them() {
    let mut world = world(0, |config| config.budgets.stale = 4);
    let mut rules = rules_of(0);
    rules.create_urr(Urr::volume(UrrId(2))).expect("it is new");
    let image = world.install(0, rules);
    let frames: Vec<_> = (0..10).map(|port| uplink(0, port)).collect();
    let counts = |world: &mut World| {
        let counters = world.query(0, SessionIndex(0)).counters;
        [counters[0].1.ul_packets, counters[1].1.ul_packets]
    };
    assert_eq!(burst(&mut world, 0, &frames).len(), 10);
    let changed = softly_changed(&mut world, &image);
    world
        .apply(0, SessionChange::Replace(changed, ImmediateActions::default()))
        .expect("there is room");
    assert_eq!(burst(&mut world, 0, &frames).len(), 10);
    assert_eq!(counts(&mut world), [20, 0], "no request yet");
    world.tell_all(|| Command::Revalidate);
    for (round, expected) in [[26, 4], [28, 12], [28, 22], [28, 32]].into_iter().enumerate() {
        assert_eq!(burst(&mut world, 0, &frames).len(), 10, "not one is dropped");
        assert_eq!(counts(&mut world), expected, "round {round}");
    }
    let stats = stats(&world);
    assert_eq!(
        (stats.revalidated, stats.revalidations_put_off, stats.misses),
        (10, 8, 10)
    );
    assert_eq!(world.workers[0].flows_of(SessionIndex(0)), Some(10));
    world.assert_conserved();
}

/// A trace shows which packets went by an entry that was decided under older rules, and which were decided again.
#[test]
fn a_trace_shows_what_was_put_off() {
    let mut world = world(0, |config| config.budgets.stale = 4);
    world.install(0, rules_of(0));
    let frames: Vec<_> = (0..10).map(|port| uplink(0, port)).collect();
    burst(&mut world, 0, &frames);
    let terms = TraceTerms {
        filter: TraceFilter::default(),
        snap: 64,
        rate: 1_000,
        count: 1_000,
        lasts: Duration::from_secs(60),
    };
    let (order, mut reported) = worker::trace(terms, 64);
    let order = Command::Trace(Box::new(order));
    assert!(world.controls[0].commands.push(order).is_ok());
    world.poll();
    let mut flows = |world: &mut World| {
        burst(world, 0, &frames);
        let items = std::iter::from_fn(|| reported.pop().ok());
        let flow = |item| match item {
            TraceItem::Packet(traced) => (traced.flow.lookup, traced.flow.is_postponed),
            TraceItem::End(end) => panic!("it ended: {end:?}"),
        };
        items.map(flow).collect::<Vec<_>>()
    };
    let hit = |outdated| TracedLookup::Hit { outdated };
    assert_eq!(flows(&mut world), [(hit(false), false); 10]);
    world.tell_all(|| Command::Revalidate);
    for left in [10, 6, 2, 0] {
        let flows = flows(&mut world);
        let count = |wanted| flows.iter().filter(|flow| **flow == wanted).count();
        assert_eq!(count((hit(false), false)), 10 - left);
        assert_eq!(count((hit(true), false)), left.min(4), "decided again");
        assert_eq!(count((hit(true), true)), left.saturating_sub(4), "put off");
    }
}

fn tcp(port: u16, flags: u8) -> Vec<u8> {
    let mut user = UserPacket::udp(ue(0), REMOTE, port, 80);
    user.proto = proto::TCP;
    let mut user = user.bytes();
    user[20 + tcp::FLAGS_AT] = flags;
    tunnel(0, &user)
}

#[test]
fn idle_times_follow_the_protocol_and_what_tcp_says() {
    use tcp::flags::{ACK, FIN, RST, SYN};
    let mut world = world(1, |config| {
        config.aging_per_poll = 100_000;
        config.idle = IdleTimes {
            tcp_established: Duration::from_secs(100),
            tcp_transitory: Duration::from_secs(20),
            udp: Duration::from_secs(40),
            icmp: Duration::from_secs(10),
            other: Duration::from_secs(30),
        };
    });
    let mut icmp = UserPacket::udp(ue(0), REMOTE, 0, 0);
    icmp.proto = proto::ICMP;
    let mut gre = icmp.clone();
    gre.proto = 47;
    let first = [
        tcp(1, ACK),
        tcp(2, SYN),
        tcp(3, ACK),
        tcp(4, ACK),
        uplink(0, 5),
        tunnel(0, &icmp.bytes()),
        tunnel(0, &gre.bytes()),
    ];
    burst(&mut world, 0, &first);
    burst(&mut world, 0, &[tcp(3, ACK | FIN), tcp(4, RST), tcp(2, ACK)]);
    assert_eq!((world.workers[0].flows(), stats(&world).closed), (7, 2));
    let start = world.now;
    for (seconds, left) in [
        (9, 7),
        (12, 6),
        (19, 6),
        (22, 3),
        (29, 3),
        (32, 2),
        (39, 2),
        (42, 1),
        (99, 1),
        (102, 0),
    ] {
        world.now = start + Duration::from_secs(seconds);
        world.poll();
        assert_eq!(world.workers[0].flows(), left, "after {seconds} s");
        assert_eq!(world.workers[0].flows_of(SessionIndex(0)), Some(left));
    }
    world.assert_conserved();
}

/// What happens to three sessions.
#[derive(Clone, Debug)]
enum Step {
    Packets {
        session: u32,
        ports: Vec<u16>,
        is_uplink: bool,
    },
    /// The rules change so that all flows are decided anew.
    Revoke(u32),
    Revalidate,
    Remove(u32),
    Install(u32),
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let packets = (0..3u32, prop::collection::vec(0..120u16, 1..64), any::<bool>()).prop_map(
        |(session, ports, is_uplink)| Step::Packets {
            session,
            ports,
            is_uplink,
        },
    );
    prop_oneof![
        8 => packets,
        1 => (0..3u32).prop_map(Step::Revoke),
        1 => Just(Step::Revalidate),
        1 => (0..3u32).prop_map(Step::Remove),
        2 => (0..3u32).prop_map(Step::Install),
        2 => (0..40u64).prop_map(Step::Wait),
    ]
}

fn take(world: &mut World, step: &Step) {
    match step {
        Step::Packets {
            session,
            ports,
            is_uplink,
        } => {
            let packet = |&port: &u16| {
                if *is_uplink {
                    uplink(*session, port)
                } else {
                    downlink(*session, port)
                }
            };
            burst(
                world,
                u16::from(!is_uplink),
                &ports.iter().map(packet).collect::<Vec<_>>(),
            );
        }
        Step::Revoke(session) => {
            let image = world
                .image(*session, &Arc::new(rules_of(*session)), None)
                .expect("it compiles");
            let _ = world.apply(0, SessionChange::Replace(image, ImmediateActions::default()));
        }
        Step::Revalidate => world.tell_all(|| Command::Revalidate),
        Step::Remove(session) => {
            let _ = world.apply(0, SessionChange::Remove(SessionIndex(*session)));
        }
        Step::Install(session) => {
            let image = world
                .image(*session, &Arc::new(rules_of(*session)), None)
                .expect("it compiles");
            let _ = world.apply(0, SessionChange::Install(image));
        }
        Step::Wait(seconds) => {
            world.now = world.now + Duration::from_secs(*seconds);
            world.poll();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Entries are those of sessions and those that are dead, to the last one, whatever happens; and no session has
    /// more than it may.
    #[test]
    fn entries_are_counted_exactly(
        steps in prop::collection::vec(any_step(), 1..60),
        room in prop::sample::select(vec![64usize, 200, 4096]),
        per_session in prop::sample::select(vec![0u32, 30, 90]),
        budget in 1u16..=64,
        aging in prop::sample::select(vec![1usize, 8, 10_000]),
    ) {
        let mut world = world(3, |config| {
            (config.max_flows_v4, config.aging_per_poll) = (room, aging);
            (config.budgets, config.flow_limits.per_session) = (Budgets::all(budget), per_session);
            config.idle = IdleTimes::all(Duration::from_secs(30));
        });
        for step in &steps {
            take(&mut world, step);
            let worker = &world.workers[0];
            let counts: Vec<usize> = (0..3).filter_map(|session| worker.flows_of(SessionIndex(session))).collect();
            prop_assert_eq!(worker.flows(), counts.iter().sum::<usize>() + worker.dead_flows());
            prop_assert!(per_session == 0 || counts.iter().all(|&count| count <= per_session as usize));
            world.assert_conserved();
        }
    }
}
