//! Watermarks and limits of URRs: what control receives, and what stops.

use crate::common;

use flow::{Bounds, CounterLimit, LimitAction, Reached, SessionIndex, UrrCount, Volumes};
use packet::DropReason;
use rules::image::{ImmediateActions, MeterShare, SessionChange};
use rules::model::{PdrUpdate, SessionRules, Urr, UrrId};
use rules::testing::{GNB, UserPacket, pdu_session};
use worker::{ApplyError, Event};

use common::*;
use packet::Teid;
use rules::model::OuterHeaderCreation;

const SESSION: SessionIndex = SessionIndex(1);
const URR: UrrId = UrrId(1);

fn rules() -> SessionRules {
    pdu_session(1, OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB))
}

fn bounds(watermark: u64, limit: u64) -> Bounds {
    Bounds {
        watermarks: Volumes::of_total(watermark),
        limit: Some(CounterLimit {
            octets: Volumes::of_total(limit),
            action: LimitAction::Drop,
        }),
    }
}

/// A session whose URR has these bounds.
fn bounded(bounds: Bounds) -> World {
    let mut world = World::new();
    let mut image = world
        .image(1, &std::sync::Arc::new(rules()), None)
        .expect("it compiles");
    image.block.get_or_insert_default().bounds = vec![bounds];
    world
        .apply(0, SessionChange::Install(image))
        .expect("there is room");
    world
}

/// A packet of 100 octets to the UE.
fn send(world: &mut World) -> bool {
    let mut user = UserPacket::udp(ip("192.0.2.1"), ip("10.45.0.2"), 53, 1000);
    user.payload = vec![0; 56];
    let packet = user.bytes();
    assert_eq!(packet.len(), 100);
    !world.send(1, &packet).is_empty()
}

fn ip(text: &str) -> std::net::IpAddr {
    text.parse().expect("an address")
}

fn reported(world: &mut World) -> Vec<(UrrId, UrrCount, Reached)> {
    let events = std::iter::from_fn(|| world.controls[0].events.pop().ok());
    let reached = events.filter_map(|event| match event {
        Event::CounterReached {
            session,
            urr,
            count,
            reached,
            ..
        } => {
            assert_eq!(session, SESSION);
            Some((urr, count, reached))
        }
        _ => None,
    });
    reached.collect()
}

fn octets(world: &mut World) -> u64 {
    world.query(0, SESSION).counters[0].1.dl_octets
}

#[test]
fn a_watermark_is_reported_once_and_a_limit_stops_at_the_packet_that_does_not_fit() {
    let mut world = bounded(bounds(200, 450));
    assert!(send(&mut world));
    assert_eq!(reported(&mut world), []);
    assert!(send(&mut world));
    let [(urr, count, reached)] = reported(&mut world)[..] else {
        panic!("one is reported");
    };
    assert_eq!((urr, count.dl_octets, count.dl_packets), (URR, 200, 2));
    assert_eq!((reached.watermark, reached.limits), (true, 0));
    assert!(send(&mut world) && send(&mut world));
    assert_eq!(reported(&mut world), []);
    let before = world.drops();
    assert!(!send(&mut world));
    assert_eq!(world.dropped_since(&before), Some(DropReason::QuotaExhausted));
    let [(_, count, reached)] = reported(&mut world)[..] else {
        panic!("one is reported");
    };
    assert_eq!((count.dl_octets, reached.limits), (400, 1));
    assert!(!send(&mut world));
    assert_eq!((reported(&mut world), octets(&mut world)), (vec![], 400));
    world.assert_conserved();
}

/// A quota of 0 stops from the start: no packet is to find that, and use up the quota of another URR, which it does not
/// fit into either.
#[test]
fn a_quota_of_0_stops_the_first_packet_and_other_quotas_are_not_reported() {
    const SECOND: UrrId = UrrId(2);
    let mut world = World::new();
    let mut rules = rules();
    rules.create_urr(Urr::volume(SECOND)).expect("it is new");
    let pdrs: Vec<_> = rules.pdrs().iter().map(|pdr| pdr.id).collect();
    for id in pdrs {
        let both = PdrUpdate {
            urrs: Some(vec![URR, SECOND]),
            ..PdrUpdate::new(id)
        };
        rules.update_pdr(both).expect("it is there");
    }
    let mut image = world
        .image(1, &std::sync::Arc::new(rules), None)
        .expect("it compiles");
    image.block.get_or_insert_default().bounds = vec![bounds(10_000, 0), bounds(10_000, 50)];
    world
        .apply(0, SessionChange::Install(image))
        .expect("there is room");
    let before = world.drops();
    assert!(!send(&mut world));
    assert_eq!(world.dropped_since(&before), Some(DropReason::QuotaExhausted));
    let limits = reported(&mut world)
        .into_iter()
        .filter(|(.., reported)| reported.limits != 0);
    assert!(limits.map(|(urr, ..)| urr).all(|urr| urr == URR));
    world.assert_conserved();
}

#[test]
fn new_bounds_let_a_live_session_continue_and_touch_no_flow() {
    let mut world = bounded(bounds(10_000, 100));
    assert!(send(&mut world) && !send(&mut world));
    let stale = world.workers[0].stats().stale;
    let change = SessionChange::Bound(
        SESSION,
        vec![(URR.into(), bounds(150, 300)), (UrrId(9).into(), Bounds::NONE)],
    );
    assert_eq!(world.apply(0, change), Ok(None));
    reported(&mut world);
    assert!(send(&mut world) && send(&mut world) && !send(&mut world));
    assert_eq!(octets(&mut world), 300);
    assert_eq!(world.workers[0].stats().stale, stale);
    // A counter beyond its bounds already is reported, and stops, without a packet.
    reported(&mut world);
    let change = SessionChange::Bound(SESSION, vec![(URR.into(), bounds(250, 0))]);
    assert_eq!(world.apply(0, change), Ok(None));
    world.poll();
    let reached = Reached {
        watermark: true,
        limits: 1,
        ..Reached::NOTHING
    };
    assert_eq!(
        reported(&mut world).first().map(|reported| reported.2),
        Some(reached)
    );
    assert!(!send(&mut world));
    let unknown = SessionChange::Bound(SessionIndex(2), Vec::new());
    assert_eq!(world.apply(0, unknown), Err(ApplyError::NotFound));
}

#[test]
fn other_rules_with_bounds_that_are_reached_already_report_it_without_a_packet() {
    let mut world = bounded(bounds(10_000, 10_000));
    assert!(send(&mut world) && send(&mut world));
    let rules = std::sync::Arc::new(rules());
    let mut image = world.image(1, &rules, None).expect("it compiles");
    image.block.get_or_insert_default().bounds = vec![bounds(150, 200)];
    let change = SessionChange::Replace(image, ImmediateActions::default());
    assert_eq!(world.apply(0, change), Ok(None));
    world.poll();
    let reached = Reached {
        watermark: true,
        limits: 1,
        ..Reached::NOTHING
    };
    let reported: Vec<_> = reported(&mut world)
        .into_iter()
        .map(|reported| reported.2)
        .collect();
    assert_eq!(reported, [reached]);
    assert!(!send(&mut world));
}

#[test]
fn a_session_on_its_way_out_keeps_half_of_its_limits() {
    let mut world = bounded(bounds(10_000, 1_001));
    assert!(send(&mut world));
    let rules = std::sync::Arc::new(rules());
    let mut image = world.image(1, &rules, None).expect("it compiles");
    image.block.get_or_insert_default().bounds = vec![bounds(10_000, 1_001)];
    image.meter_share = MeterShare::Leaving;
    let change = SessionChange::Replace(image, ImmediateActions::default());
    let counts = world.apply(0, change).expect("it is there").expect("counts");
    assert_eq!(counts.counters[0].1.dl_octets, 100);
    let passed = (0..10).filter(|_| send(&mut world)).count();
    assert_eq!(passed, 4);
    assert_eq!(octets(&mut world), 500);
}

#[test]
fn the_first_packet_that_a_trap_stops_is_reported_once_whether_it_exceeds_or_comes_later() {
    let trap = |limit| Bounds {
        watermarks: Volumes::NONE,
        limit: Some(CounterLimit {
            octets: Volumes::of_total(limit),
            action: LimitAction::Trap,
        }),
    };
    let trapped = |limits| Reached {
        limits,
        trapped: true,
        ..Reached::NOTHING
    };
    for (limit, before) in [(50, vec![]), (100, vec![true])] {
        let mut world = bounded(trap(limit));
        let passed: Vec<bool> = before.iter().map(|_| send(&mut world)).collect();
        assert_eq!(passed, before);
        let at_limit: Vec<_> = reported(&mut world)
            .into_iter()
            .map(|reported| reported.2)
            .collect();
        let stops = Reached {
            limits: 1,
            ..Reached::NOTHING
        };
        assert_eq!(at_limit, vec![stops; before.len()]);
        let drops = world.drops();
        assert!(!send(&mut world));
        assert_eq!(world.dropped_since(&drops), Some(DropReason::QuotaExhausted));
        assert_eq!(
            reported(&mut world)
                .iter()
                .map(|reported| reported.2)
                .collect::<Vec<_>>(),
            [trapped(1)]
        );
        assert!(!send(&mut world));
        assert_eq!(reported(&mut world), []);
        // The same limit once more: the next packet is reported, too.
        let again = SessionChange::Bound(SESSION, vec![(URR.into(), trap(limit))]);
        assert_eq!(world.apply(0, again), Ok(None));
        world.poll();
        reported(&mut world);
        assert!(!send(&mut world));
        assert_eq!(
            reported(&mut world)
                .iter()
                .map(|reported| reported.2)
                .collect::<Vec<_>>(),
            [trapped(1)]
        );
        world.assert_conserved();
    }
}
