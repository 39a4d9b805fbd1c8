//! Packet rates on a worker: units of time, what is left, and sessions that go from one worker to another; and the
//! Averaging Window of QoS flows with a GBR.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use flow::meter::{PacketRate, PacketState, PacketsPer, TimeUnit, Window};
use flow::{Nanos, PortId, SessionIndex, WorkerId};
use packet::DropReason;
use rules::SessionRules;
use rules::image::{ImmediateActions, MeterShare, PacketsLeft, SessionChange, SessionImage};
use rules::model::{BitRates, BitsPerSecond, OptionalRates, PacketRates, PdrUpdate, Qer, QerId};
use rules::testing::{UE, UserPacket};
use worker::mem::MemBuf;

use common::one_session::{REMOTE, session, to_ue};
use common::{World, frame};

const SESSION: SessionIndex = SessionIndex(1);

/// The session, all of whose packets have this QER.
fn limited_by(qer: Qer) -> SessionRules {
    let mut rules = session();
    rules.create_qer(qer.clone()).expect("it is new");
    let ids: Vec<_> = rules.pdrs().iter().map(|pdr| pdr.id).collect();
    for id in ids {
        let update = PdrUpdate {
            qers: Some(vec![qer.id]),
            ..PdrUpdate::new(id)
        };
        rules.update_pdr(update).expect("it is there");
    }
    rules
}

fn per_minute(packets: u16) -> SessionRules {
    let base = PacketsPer {
        packets,
        unit: TimeUnit::Minute,
    };
    limited_by(Qer {
        optional: OptionalRates {
            packet_rates: Some(PacketRates {
                ul: None,
                dl: Some(PacketRate {
                    base,
                    additional: None,
                }),
            }),
            ..OptionalRates::default()
        }
        .into(),
        ..Qer::new(QerId(7))
    })
}

fn image(
    world: &mut World,
    rules: &SessionRules,
    share: MeterShare,
    left: Vec<PacketsLeft>,
) -> Box<SessionImage> {
    let image = world
        .image(1, &Arc::new(rules.clone()), None)
        .expect("it compiles");
    let mut image = Box::new(image.with_share(share));
    image.bring_packets(left);
    image
}

fn install(rules: &SessionRules, share: MeterShare, left: Vec<PacketsLeft>) -> World {
    let mut world = World::new();
    let image = image(&mut world, rules, share, left);
    let change = SessionChange::Install(image);
    world.apply(0, change).expect("there is room");
    world
}

fn replace(
    world: &mut World,
    rules: &SessionRules,
    share: MeterShare,
    left: Vec<PacketsLeft>,
) -> Vec<PacketsLeft> {
    let image = image(world, rules, share, left);
    let change = SessionChange::Replace(image, ImmediateActions::default());
    let reported = world.apply(0, change).expect("it is there");
    reported.map(|reported| reported.packets).unwrap_or_default()
}

/// How many of a number of packets to the UE pass.
fn passed(world: &mut World, offered: usize) -> usize {
    (0..offered)
        .filter(|_| !world.send(1, &to_ue()).is_empty())
        .count()
}

fn left(left: u16, ends: Nanos) -> Vec<PacketsLeft> {
    let state = PacketState {
        base: Window { left, ends },
        ..PacketState::default()
    };
    vec![PacketsLeft {
        qer: QerId(7),
        states: [PacketState::default(), state],
    }]
}

#[test]
fn two_workers_together_pass_what_one_would() {
    for before in 0..=10 {
        let rules = per_minute(10);
        let mut old = install(&rules, MeterShare::Whole, Vec::new());
        assert_eq!(passed(&mut old, before), before);
        let given = replace(&mut old, &rules, MeterShare::Leaving, Vec::new());
        let mut new = install(&rules, MeterShare::Arriving, given);
        new.now = old.now;
        let both = passed(&mut old, 2) + passed(&mut new, 3);
        let kept = old.apply(0, SessionChange::Remove(SESSION)).expect("it is there");
        let kept = kept.expect("packets").packets;
        replace(&mut new, &rules, MeterShare::Whole, kept);
        let after = passed(&mut new, 20);
        assert_eq!(before + both + after, 10, "{before}");
        new.now = new.now + Duration::from_secs(61);
        assert_eq!(passed(&mut new, 20), 10);
    }
}

#[test]
fn a_session_that_stays_gets_back_what_was_lent() {
    let rules = per_minute(10);
    let mut world = install(&rules, MeterShare::Whole, Vec::new());
    assert_eq!(passed(&mut world, 3), 3);
    let given = replace(&mut world, &rules, MeterShare::Leaving, Vec::new());
    assert_eq!(given[0].states[1].base.left, 4);
    assert_eq!(passed(&mut world, 20), 3);
    replace(&mut world, &rules, MeterShare::Whole, given);
    assert_eq!(passed(&mut world, 20), 4);
}

#[test]
fn what_is_left_from_elsewhere_holds_until_its_time_is_over() {
    let rules = per_minute(10);
    let mut world = World::new();
    let ends = world.now + Duration::from_secs(300);
    let image = image(&mut world, &rules, MeterShare::Whole, left(2, ends));
    world
        .apply(0, SessionChange::Install(image))
        .expect("there is room");
    assert_eq!(passed(&mut world, 20), 2);
    world.now = world.now + Duration::from_secs(200);
    assert_eq!(passed(&mut world, 20), 0);
    assert_eq!(world.query(0, SESSION).packets, left(0, ends));
    world.now = ends;
    assert_eq!(passed(&mut world, 20), 10);
}

#[test]
fn another_packet_rate_keeps_count_in_the_same_block() {
    let mut world = install(&per_minute(10), MeterShare::Whole, Vec::new());
    assert_eq!(passed(&mut world, 6), 6);
    replace(&mut world, &per_minute(8), MeterShare::Whole, Vec::new());
    assert_eq!(passed(&mut world, 20), 2);
    replace(&mut world, &per_minute(12), MeterShare::Whole, Vec::new());
    assert_eq!(passed(&mut world, 20), 4);
}

#[test]
fn a_flow_with_a_guaranteed_rate_may_send_the_averaging_window_at_once_and_no_more() {
    let rate = BitRates {
        ul: BitsPerSecond::from_kbit(400),
        dl: BitsPerSecond::from_kbit(400),
    };
    let octets = to_ue().len();
    let qer = |gbr, averaging_window| Qer {
        mbr: Some(rate),
        optional: OptionalRates {
            gbr,
            averaging_window,
            ..OptionalRates::default()
        }
        .into(),
        ..Qer::new(QerId(7))
    };
    for (gbr, window, burst) in [
        // 400 kbit/s are 50 octets a millisecond.
        (Some(rate), Some(2_000), 100_000),
        (Some(rate), Some(0), 10_000),
        (Some(rate), None, 10_000),
        // It is defined for flows with a GBR.
        (None, Some(2_000), 10_000),
    ] {
        let mut world = install(&limited_by(qer(gbr, window)), MeterShare::Whole, Vec::new());
        let now = world.now;
        let mut count = 0;
        while !world.send(1, &to_ue()).is_empty() {
            count += 1;
        }
        let earned = 50 * (world.now.0 - now.0) as usize / 1_000_000;
        let most = burst + earned;
        assert!(
            count * octets <= most && (count + 1) * octets > burst,
            "{gbr:?} {window:?}: {count}"
        );
    }
}

/// 400 kbit/s, of which 10,000 octets may come at once.
fn of_a_rate() -> SessionRules {
    let rate = BitRates {
        ul: BitsPerSecond::from_kbit(400),
        dl: BitsPerSecond::from_kbit(400),
    };
    limited_by(Qer {
        mbr: Some(rate),
        ..Qer::new(QerId(7))
    })
}

#[test]
fn a_burst_is_not_granted_anew_to_a_session_that_comes_from_another_process() {
    let rules = of_a_rate();
    let mut first = install(&rules, MeterShare::Whole, Vec::new());
    let burst = passed(&mut first, 1_000);
    assert!((100..500).contains(&burst), "{burst}");
    let removed = first
        .apply(0, SessionChange::Remove(SESSION))
        .expect("it is there");
    let tokens = removed.expect("tokens").tokens;
    let of = |at: Option<i64>| {
        let mut tokens = tokens.clone();
        for one in tokens.iter_mut().flat_map(|left| &mut left.tokens).flatten() {
            one.at = at.unwrap_or(one.at);
        }
        tokens
    };
    let arrive = |at| {
        let mut world = World::new();
        world.now = first.now;
        let mut image = image(&mut world, &rules, MeterShare::Whole, Vec::new());
        image.bring_tokens(of(at));
        let change = SessionChange::Install(image);
        world.apply(0, change).expect("there is room");
        passed(&mut world, 1_000)
    };
    let now = first.now.0 as i64;
    // What it takes to try so often earns a few, in either process.
    assert!(arrive(None) < burst / 5, "at once there is no burst");
    assert!(
        arrive(Some(now + 1_000_000_000)) < burst / 5,
        "nor by a clock that is ahead"
    );
    let half = arrive(Some(now - 100_000_000));
    assert!(
        (burst * 4 / 10..burst * 7 / 10).contains(&half),
        "{half} of {burst} in 100 ms"
    );
    // Longer ago than this process is old.
    let all = arrive(Some(-3_600_000_000_000));
    assert!(
        all.abs_diff(burst) <= burst / 50,
        "{all}, and no more than {burst}"
    );
}

/// A packet to the UE, with its length in octets.
fn sized(octets: usize) -> Vec<u8> {
    let mut user = UserPacket::udp(REMOTE, UE, 53, 1000);
    user.payload = vec![0; octets - 44];
    let packet = user.bytes();
    assert_eq!(packet.len(), octets);
    packet
}

#[test]
fn a_full_port_drops_what_is_beyond_guaranteed_rates_first() {
    let rates = |kbit| BitRates {
        ul: BitsPerSecond::from_kbit(kbit),
        dl: BitsPerSecond::from_kbit(kbit),
    };
    let rules = limited_by(Qer {
        mbr: Some(rates(1_000_000)),
        optional: OptionalRates {
            gbr: Some(rates(1)),
            ..OptionalRates::default()
        }
        .into(),
        ..Qer::new(QerId(7))
    });
    let mut world = install(&rules, MeterShare::Whole, Vec::new());
    // 1,000 of the 10,000 octets of credit are left: long packets are yellow, short ones green.
    for _ in 0..9 {
        assert_eq!(world.send(1, &sized(1_000)).len(), 1);
    }
    let (yellow, green) = (frame(1, &sized(1_040)), frame(1, &sized(60)));
    let queue = world.wires.to(WorkerId(0), PortId(1)).clone();
    let poll = |world: &mut World, frames: &[(&Vec<u8>, usize)]| {
        for (frame, times) in frames {
            for _ in 0..*times {
                queue.push(MemBuf::new(frame)).expect("there is room on the wire");
            }
        }
        world.workers[0].poll(world.now);
    };
    let sent = |world: &World| world.wires.from(PortId(0)).clone();
    while sent(&world).len() < 1_024 {
        poll(&mut world, &[(&yellow, 64)]);
    }
    let dropped = world.workers[0].stats().dropped(DropReason::TxFull);
    poll(&mut world, &[(&yellow, 1)]);
    assert_eq!(world.workers[0].stats().dropped(DropReason::TxFull), dropped + 1);
    let before = world.query(0, SESSION).counters[0].1;
    // Room for 10: the green ones, though they came last.
    (0..10).for_each(|_| drop(sent(&world).pop()));
    poll(&mut world, &[(&yellow, 10), (&green, 8), (&yellow, 3)]);
    let mut lengths: Vec<usize> =
        std::iter::from_fn(|| sent(&world).pop().map(|packet| packet.bytes().len())).collect();
    let last = lengths.split_off(lengths.len() - 10);
    let long = lengths[0];
    assert_eq!(last.iter().filter(|length| **length < long).count(), 8);
    assert_eq!(last[8..], [long; 2]);
    let after = world.query(0, SESSION).counters[0].1;
    assert_eq!(after.dl_packets - before.dl_packets, 10);
    assert_eq!(after.dl_octets - before.dl_octets, 8 * 60 + 2 * 1_040);
    // All that was offered found room: the order is that of arrival again.
    poll(&mut world, &[(&yellow, 1)]);
    while sent(&world).pop().is_some() {}
    poll(&mut world, &[(&yellow, 2), (&green, 2)]);
    let lengths: Vec<usize> =
        std::iter::from_fn(|| sent(&world).pop().map(|packet| packet.bytes().len())).collect();
    assert_eq!((lengths[0], lengths[1], lengths.len()), (long, long, 4));
    world.assert_conserved();
}
