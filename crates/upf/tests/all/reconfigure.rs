//! The configuration of a UPF changes under traffic: what changes takes effect, and no packet and no octet is lost.

use crate::support;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use flow::{Direction, Nanos};
use packet::DropReason;
use session::Random;
use sim::Side;
use sim::report::Totals;
use sim::smf::State;
use upf::{ReconfigureError, Reconfigured};

use support::*;

const SESSIONS: u32 = 48;
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 251);
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 252);
/// Routers to gNBs that are on no link.
const RAN: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 251);
const OTHER_RAN: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 252);

/// A configuration with these routes and more of the instances, and more sections.
fn text(workers: u16, access: &str, internet: &str, sections: &str) -> String {
    format!(
        "node: {{id: 127.0.0.8}}\n\
         n4: {{addresses: [127.0.0.8]}}\n\
         workers: {{count: {workers}}}\n\
         limits: {{sessions: {SESSIONS}, flows_ipv4: 4096, flows_ipv6: 1024}}\n\
         ports: [{{name: ran, driver: {{memory: {{}}}}}}, {{name: dn, driver: {{memory: {{}}}}}}]\n\
         instances:\n\
         \x20 - {{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24], {access}}}\n\
         \x20 - {{name: internet, roles: [n6], port: dn, addresses: [10.200.0.1/24], {internet}}}\n\
         {sections}"
    )
}

fn default_by(routers: &[Ipv4Addr]) -> String {
    let routes = routers
        .iter()
        .map(|router| format!("{{to: 0.0.0.0/0, via: {router}}}"));
    format!("routes: [{}]", routes.collect::<Vec<_>>().join(", "))
}

fn gnbs_by(routers: &[Ipv4Addr]) -> String {
    let routes = routers
        .iter()
        .map(|router| format!("{{to: 10.101.0.0/16, via: {router}}}"));
    format!("routes: [{}]", routes.collect::<Vec<_>>().join(", "))
}

/// A world with sessions and routers.
fn world(text: String, gnb: Ipv4Addr) -> World {
    let mut world = World::configured(text, SESSIONS, 61, |profile| profile.gnbs = vec![gnb.into()]);
    let router = |side, address| Router {
        side,
        address,
        from: Nanos(0),
    };
    world.routers.all = vec![
        router(Side::Core, FIRST),
        router(Side::Core, SECOND),
        router(Side::Access, RAN),
        router(Side::Access, OTHER_RAN),
    ];
    world.server = FAR_SERVER;
    world.smf.start(world.now);
    world.until(State::Established);
    world
}

/// Traffic during which the configuration changes; when it was begun and had effect, and what came of it.
struct Change {
    began: Nanos,
    ended: Nanos,
    result: Result<Reconfigured, ReconfigureError>,
    totals: Totals,
}

/// Changes the configuration in the middle of 200 ms of traffic.
fn change(world: &mut World, text: &str) -> Change {
    change_for(world, text, Duration::from_millis(200))
}

fn change_for(world: &mut World, text: &str, time: Duration) -> Change {
    let (mut begin, mut began, mut ended) = (None, None, None);
    let shards = world.shards_at(&[40_000]);
    let totals = world.traffic_with(shards, time, |world| {
        let is_running = world.sum(|stats| stats.tx()) > 500;
        if begin.is_none() && is_running {
            begin = Some(world.now + Duration::from_millis(10));
        }
        if began.is_none() && begin.is_some_and(|at| at <= world.now) {
            began = Some(world.now);
            if let Err(error) = world.reconfigure(text) {
                ended = Some((world.now, Err(error)));
            }
        }
        if let Some(result) = world.control.poll_reconfigured() {
            ended = Some((world.now, result));
        }
    });
    let (ended, result) = ended.expect("it ends while there is traffic");
    let began = began.expect("it began");
    Change {
        began,
        ended,
        result,
        totals,
    }
}

impl Change {
    /// Nothing was lost, and the URRs report every octet.
    fn is_exact(&self, world: &mut World) {
        let totals = &self.totals;
        for direction in [&totals.uplink, &totals.downlink] {
            assert!(direction.counts.sent > 500, "{direction:?}");
            assert_eq!(direction.counts.sent, direction.counts.received, "{direction:?}");
        }
        assert_eq!(world.sum(|stats| stats.drops.iter().sum()), 0);
        world.smf.release(world.now);
        world.until(State::Released);
        let usage = world.smf.progress().usage;
        assert_eq!(usage.uplink_octets, totals.uplink.received_octets);
        assert_eq!(usage.downlink_octets, totals.downlink.received_octets);
    }
}

/// The routers that got packets in this time.
fn receivers(world: &World, from: Nanos, to: Nanos) -> Vec<Ipv4Addr> {
    let received = world.routers.received.iter();
    let within = received.filter(|(at, _)| from <= *at && *at < to);
    let mut routers: Vec<_> = within.map(|(_, router)| *router).collect();
    routers.sort_unstable();
    routers.dedup();
    routers
}

#[test]
fn a_default_route_moves_to_another_router() {
    for workers in [1, 3] {
        let mut world = world(text(workers, "", &default_by(&[FIRST]), ""), GNB);
        let next = text(workers, "", &default_by(&[SECOND]), "");
        let change = change(&mut world, &next);
        assert_eq!(
            change.result,
            Ok(Reconfigured::default()),
            "no image leads over a route"
        );
        assert_eq!(receivers(&world, Nanos(0), change.began), [FIRST]);
        // What left its worker in the same step is on its way.
        let after = change.ended + STEP;
        assert_eq!(receivers(&world, after, Nanos::MAX), [SECOND]);
        assert_eq!(world.sum(|stats| stats.stale), 0, "flow entries stay");
        change.is_exact(&mut world);
    }
}

#[test]
fn a_router_that_does_not_answer_yet_is_waited_for() {
    let mut world = world(text(2, "", &default_by(&[FIRST]), ""), GNB);
    world.routers.all[1].from = world.now + Duration::from_millis(1_500);
    let next = text(2, "", &default_by(&[SECOND]), "");
    let change = change_for(&mut world, &next, Duration::from_millis(2_500));
    assert!(change.ended >= world.routers.all[1].from);
    assert_eq!(receivers(&world, change.ended + STEP, Nanos::MAX), [SECOND]);
    change.is_exact(&mut world);
}

#[test]
fn tunnels_move_to_the_routers_of_a_group_and_back() {
    for workers in [1, 3] {
        let (one, both, other) = ([RAN], [RAN, OTHER_RAN], [OTHER_RAN]);
        let with = |routers: &[Ipv4Addr]| text(workers, &gnbs_by(routers), &default_by(&[FIRST]), "");
        let mut world = world(with(&one), FAR_GNB);
        let mut sums = Totals::default();
        for (before, after) in [
            (&one[..], &both[..]),
            (&both, &other),
            (&other, &both),
            (&both, &one),
        ] {
            let start = world.now;
            let change = change(&mut world, &with(after));
            let all = Reconfigured {
                sessions: SESSIONS.into(),
                failed: 0,
            };
            assert_eq!(change.result, Ok(all), "{before:?} {after:?}");
            let ran = |routers: Vec<Ipv4Addr>| {
                let ran = routers.into_iter().filter(|router| both.contains(router));
                ran.collect::<Vec<_>>()
            };
            assert_eq!(ran(receivers(&world, start, change.began)), before);
            assert_eq!(ran(receivers(&world, change.ended + STEP, Nanos::MAX)), after);
            sums.merge(&change.totals);
            world.routers.received.clear();
        }
        let result = Ok(Reconfigured::default());
        let (began, ended) = (world.now, world.now);
        Change {
            began,
            ended,
            result,
            totals: sums,
        }
        .is_exact(&mut world);
    }
}

#[test]
fn a_route_that_goes_has_its_packets_dropped_and_comes_back() {
    // The data network's default route leads to no gNB: it is in another VRF.
    let internet = format!("vrf: 1, {}", default_by(&[FIRST]));
    let with = |gnbs: &[Ipv4Addr]| text(2, &gnbs_by(gnbs), &internet, "");
    let mut world = world(with(&[RAN]), FAR_GNB);
    let gone = change(&mut world, &with(&[]));
    assert_eq!(gone.result.map(|all| all.sessions), Ok(SESSIONS.into()));
    let (sent, received) = (
        gone.totals.downlink.counts.sent,
        gone.totals.downlink.counts.received,
    );
    assert!(sent > received && received > 0);
    assert_eq!(
        world.sum(|stats| stats.dropped(DropReason::NoRoute)),
        sent - received
    );
    let uplink = &gone.totals.uplink.counts;
    assert_eq!(uplink.sent, uplink.received);
    world.reconfigure(&with(&[RAN])).expect("it can begin");
    assert_eq!(world.reconfigured().map(|all| all.sessions), Ok(SESSIONS.into()));
    let shards = world.shards();
    let again = world.traffic(shards, Duration::from_millis(50));
    assert_eq!(again.downlink.counts.sent, again.downlink.counts.received);
}

#[test]
fn marks_change() {
    let marks = |dscp: u8| format!("dscp: [{{qfi: 1, dscp: {dscp}}}]");
    for (before, after, tos) in [
        (String::new(), marks(46), [0, 46 << 2]),
        (marks(46), marks(10), [46 << 2, 10 << 2]),
        (marks(10), String::new(), [10 << 2, 0]),
    ] {
        let with = |access: &str| text(3, access, &default_by(&[FIRST]), "");
        let mut world = World::configured(with(&before), SESSIONS, 62, |profile| {
            profile.gnbs = vec![GNB.into()];
            profile.qfi = 1;
        });
        world.routers.all = vec![Router {
            side: Side::Core,
            address: FIRST,
            from: Nanos(0),
        }];
        world.server = FAR_SERVER;
        world.smf.start(world.now);
        world.until(State::Established);
        let change = change(&mut world, &with(&after));
        let marked = |world: &World, from: Nanos, to: Nanos| {
            let marks = world.routers.marks.iter();
            let there = marks.filter(|(at, side, _)| *side == Side::Access && from <= *at && *at < to);
            let mut tos: Vec<u8> = there.map(|(.., tos)| *tos).collect();
            tos.sort_unstable();
            tos.dedup();
            tos
        };
        assert_eq!(marked(&world, Nanos(0), change.began), [tos[0]]);
        assert_eq!(marked(&world, change.ended + STEP, Nanos::MAX), [tos[1]]);
        change.is_exact(&mut world);
    }
}

/// What is forwarded downlink in 200 ms, kbit/s, and what was dropped by meters.
fn downlink(world: &mut World) -> (u64, u64) {
    let octets = |world: &World| world.sum(|stats| stats.direction(Direction::Downlink).forwarded.octets);
    let red = |world: &World| world.sum(|stats| stats.dropped(DropReason::MeterRed));
    let (octets_before, red_before) = (octets(world), red(world));
    let shards = world.shards_at(&[40_000]);
    world.traffic(shards, Duration::from_millis(200));
    ((octets(world) - octets_before) * 8 / 200, red(world) - red_before)
}

#[test]
fn policers_come_change_and_go() {
    let with = |policers: &str| text(3, "", &default_by(&[FIRST]), &format!("policers: [{policers}]\n"));
    let all = |kbit: u64| format!("{{name: all, dnn: internet, downlink_kbit: {kbit}}}");
    let mut world = world(with(""), GNB);
    let free = downlink(&mut world);
    assert_eq!(free.1, 0);
    for (policers, most) in [
        (all(100_000), Some(100_000)),
        (all(200_000), Some(200_000)),
        // Another one comes before it, for no session of this world.
        (
            format!("{{name: other, dnn: ims, downlink_kbit: 1}}, {}", all(200_000)),
            Some(200_000),
        ),
        (String::new(), None),
        (
            "{name: new, dnn: internet, downlink_kbit: 50000}".into(),
            Some(50_000),
        ),
    ] {
        world.reconfigure(&with(&policers)).expect("it can begin");
        world.reconfigured().expect("it takes effect");
        let passed: Vec<u16> = {
            let sessions = world.control.endpoint().sessions();
            sessions
                .iter()
                .map(|session| session.rules().policers().0)
                .collect()
        };
        assert!(passed.iter().all(|id| (*id > 0) == most.is_some()), "{passed:?}");
        let (kbit, red) = downlink(&mut world);
        match most {
            // The burst beyond it, and the leases that settle.
            Some(most) => assert!(
                red > 0 && kbit > most * 8 / 10 && kbit < most * 16 / 10,
                "{kbit} of {most}"
            ),
            None => assert!(red == 0 && kbit * 10 > free.0 * 9, "{kbit} of {}", free.0),
        }
    }
}

#[test]
fn what_cannot_take_effect_leaves_all_as_it_was() {
    let rulebase = "predefined: {rulebases: [{name: video, rules: [{precedence: 1, far: 0x80000001}]}],\n\
                    \x20 fars: [{id: 0x80000001, action: drop}]}\n";
    let pools =
        |last: u8| format!("pools: [{{name: p, instance: internet, ipv4: [10.60.0.1-10.60.0.{last}]}}]\n");
    let first = text(2, &gnbs_by(&[RAN]), &default_by(&[FIRST]), &(pools(9) + rulebase));
    let mut world = world(first.clone(), FAR_GNB);
    let network = Arc::clone(world.control.network());
    let refused = [
        first.replace("10.100.0.1/24", "10.100.0.1/23"),
        first.replace("name: access", "name: other"),
        first.replace(
            "addresses: [127.0.0.8]",
            "addresses: [127.0.0.8], peers: [192.0.2.0/24]",
        ),
    ];
    for text in &refused {
        let began = world.reconfigure(text);
        assert!(began.is_err(), "{text}");
        assert!(!world.control.is_reconfiguring() && Arc::ptr_eq(world.control.network(), &network));
    }
    let error = world
        .reconfigure(&refused[2])
        .expect_err("the SMF has an association");
    let lost = format!(
        "n4.peers: 127.0.0.2 has an association with {SESSIONS} sessions, and is in none of the prefixes"
    );
    assert_eq!(error.to_string(), lost);
    // While one is in progress there is no other.
    world
        .reconfigure(&first.replace(&FIRST.to_string(), &SECOND.to_string()))
        .expect("it can begin");
    assert_eq!(world.reconfigure(&first), Err(ReconfigureError::Busy));
    assert!(
        Arc::ptr_eq(world.control.network(), &network),
        "routers are resolved first"
    );
    let shards = world.shards_at(&[40_000]);
    let mut result = None;
    world.traffic_with(shards, Duration::from_millis(100), |world| {
        result = result.take().or_else(|| world.control.poll_reconfigured());
    });
    assert_eq!(result, Some(Ok(Reconfigured::default())));
    // What no session uses can go, and pools may grow.
    let last = text(2, &gnbs_by(&[RAN]), &default_by(&[SECOND]), &pools(200));
    world.reconfigure(&last).expect("it can begin");
    assert_eq!(world.reconfigured(), Ok(Reconfigured::default()));
    let sessions = world.control.endpoint().sessions();
    assert_eq!(sessions.pool_usage(session::PoolId(0)), (0, 200));
}

/// Where packets go and how they are marked, by number.
type Forwarded = BTreeMap<String, usize>;

/// The same traffic in any world of one configuration.
fn sample(world: &mut World) -> Forwarded {
    world.routers.received.clear();
    world.routers.marks.clear();
    let shards = world.shards_at(&[20_000]);
    let totals = world.traffic(shards, Duration::from_millis(60));
    for meter in [&totals.uplink.counts, &totals.downlink.counts] {
        assert!(meter.sent > 300);
        assert_eq!(meter.sent, meter.received);
    }
    let mut all = Forwarded::new();
    for (_, router) in &world.routers.received {
        *all.entry(router.to_string()).or_default() += 1;
    }
    for (_, side, tos) in &world.routers.marks {
        *all.entry(format!("{side:?} tos {tos}")).or_default() += 1;
    }
    all
}

/// Whatever configurations came before: a UPF forwards as one that was started with the last of them.
#[test]
fn a_sequence_of_changes_ends_as_a_start_with_the_last() {
    let mut random = Random::from_number(63);
    for case in 0..4 {
        let mut draw = |most: u32| random.next_u32() % most;
        let mut next = || {
            let cores = [&[FIRST][..], &[SECOND], &[FIRST, SECOND], &[SECOND, FIRST]];
            let rans = [&[RAN][..], &[OTHER_RAN], &[RAN, OTHER_RAN], &[OTHER_RAN, RAN]];
            let access = format!(
                "{}, dscp: [{{qfi: 1, dscp: {}}}]",
                gnbs_by(rans[draw(4) as usize]),
                draw(3)
            );
            let policer = match draw(2) {
                0 => "",
                _ => "policers: [{name: all, dnn: internet, downlink_kbit: 90000000}]\n",
            };
            let echo = ["", "gtpu: {echo: {t3_s: 2}}\n"][draw(2) as usize];
            text(
                2,
                &access,
                &default_by(cores[draw(4) as usize]),
                &format!("{policer}{echo}"),
            )
        };
        let started = |text: String| {
            let mut world = world(text, FAR_GNB);
            let shards = world.shards_at(&[20_000]);
            world.traffic(shards, Duration::from_millis(20));
            world
        };
        let mut world = started(next());
        for _ in 0..5 {
            let text = next();
            let shards = world.shards_at(&[20_000]);
            world.reconfigure(&text).expect("it can begin");
            let mut result = None;
            let totals = world.traffic_with(shards, Duration::from_millis(60), |world| {
                result = result.take().or_else(|| world.control.poll_reconfigured());
            });
            assert!(
                matches!(result, Some(Ok(all)) if all.failed == 0),
                "{result:?}: {text}"
            );
            for meter in [&totals.uplink.counts, &totals.downlink.counts] {
                assert_eq!(meter.sent, meter.received, "case {case}: {text}");
            }
            let mut fresh = started(text.clone());
            assert_eq!(sample(&mut world), sample(&mut fresh), "case {case}: {text}");
        }
        assert_eq!(world.sum(|stats| stats.drops.iter().sum()), 0);
    }
}
