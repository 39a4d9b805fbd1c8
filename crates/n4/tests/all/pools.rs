//! Credit pools (TS 29.244 §5.2.2.2.2, §5.2.2.3.2): URRs whose usage is the weighted sum of that of others.

use crate::support;

use flow::{Reached, UrrCount};
use pfcp::IeType;
use pfcp::ie::{self, Cause, FailedRuleId, UsageReportTrigger};
use pfcp::message::{Message, SessionReportRequest};
use rules::model::{Urr, UrrId};
use std::net::Ipv4Addr;

use support::wire::*;
use support::{Reply, World, because, counter_reached};

const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 1);
const POOL: u32 = 9;
const VOLQU: [u8; 3] = [0, 1, 0];

fn number(ie_type: u16, value: u32) -> Octets {
    ie(ie_type, value.to_be_bytes())
}

fn total(ie_type: u16, octets: u64) -> Octets {
    ie(ie_type, [&[1][..], &octets.to_be_bytes()].concat())
}

/// Aggregated URRs: a URR, and digits times ten to the exponent.
fn member(urr: u32, digits: i64, exponent: i32) -> Octets {
    let multiplier = [&digits.to_be_bytes()[..], &exponent.to_be_bytes()].concat();
    group(118, &[number(120, urr), ie(119, multiplier)])
}

fn pool(ies: &[Octets]) -> Octets {
    let mut all = vec![urr_id(POOL), method(2), triggers(&VOLQU)];
    all.extend_from_slice(ies);
    create_urr(&all)
}

fn update(ies: &[Octets]) -> Octets {
    let mut all = vec![urr_id(POOL)];
    all.extend_from_slice(ies);
    group(13, &all)
}

/// URR 2, linked to the pool.
fn linked() -> Octets {
    create_urr(&[urr_id(2), method(2), triggers(&[0x80, 0, 0]), number(82, POOL)])
}

fn octets(ul_octets: u64) -> UrrCount {
    UrrCount {
        ul_packets: 1,
        ul_octets,
        ..UrrCount::default()
    }
}

fn urr(world: &World, id: u32) -> Urr {
    world.only_session().rules().urr(UrrId(id)).unwrap().clone()
}

fn reported(reply: &Reply) -> Vec<(u32, u64, UsageReportTrigger)> {
    let Message::SessionReportRequest(SessionReportRequest { usage_report, .. }) = reply.message() else {
        panic!("it is a report");
    };
    let one = |one: pfcp::group::UsageReportSessionReport<'_>| {
        let volume = one.volume_measurement.unwrap().total.unwrap();
        (one.urr_id.0, volume, one.usage_report_trigger)
    };
    usage_report.iter().map(one).collect()
}

#[test]
fn what_a_pool_cannot_have_is_refused_and_changes_nothing() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let before = world.only_session().rules().clone();
    let one = || member(1, 1, -1);
    let cases = [
        // Multipliers that are zero, or cannot be represented exactly.
        (vec![member(1, 0, 0)], IeType::MULTIPLIER),
        (vec![member(1, -1, 0)], IeType::MULTIPLIER),
        (vec![member(1, 1, -10)], IeType::MULTIPLIER),
        (vec![member(1, i64::MAX, 0)], IeType::MULTIPLIER),
        (vec![member(1, 1, i32::MAX)], IeType::MULTIPLIER),
        (vec![member(1, 1, i32::MIN)], IeType::MULTIPLIER),
        // One that weighs too much beside the other.
        (vec![one(), member(2, 1001, -1)], IeType::MULTIPLIER),
        (vec![member(8, 1, 0)], IeType::AGGREGATED_URRS),
        (vec![member(POOL, 1, 0)], IeType::AGGREGATED_URRS),
        (vec![one(), one()], IeType::AGGREGATED_URRS),
        (vec![one(), ie(100, [1])], IeType::MEASUREMENT_INFORMATION),
        (vec![one(), ie(100, [8])], IeType::MEASUREMENT_INFORMATION),
        (vec![one(), number(36, 10)], IeType::INACTIVITY_DETECTION_TIME),
    ];
    for (ies, offending) in cases {
        let reply = world.ask(52, Some(seid), &[linked(), pool(&ies)]);
        let expected = because(Cause::RULE_CREATION_MODIFICATION_FAILURE, Some(offending));
        assert_eq!(reply.verdict(), expected);
        assert_eq!(reply.failed_rule(), Some(FailedRuleId::Urr(ie::UrrId(POOL))));
        assert_eq!(world.only_session().rules(), &before);
    }
    let counts_events = create_urr(&[urr_id(POOL), method(4), triggers(&VOLQU), one()]);
    let reply = world.ask(52, Some(seid), &[counts_events]);
    let expected = because(
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        Some(IeType::MEASUREMENT_METHOD),
    );
    assert_eq!(reply.verdict(), expected);
    world
        .ask(52, Some(seid), &[linked(), pool(&[one(), member(2, 5, -1)])])
        .assert_accepted();
    // A pool is no member of another.
    let nested = create_urr(&[urr_id(10), method(2), triggers(&VOLQU), member(POOL, 1, 0)]);
    let reply = world.ask(52, Some(seid), &[nested]);
    let expected = because(
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        Some(IeType::AGGREGATED_URRS),
    );
    assert_eq!(reply.verdict(), expected);
}

#[test]
fn a_pool_reports_the_weighted_sum_and_so_do_its_members_that_are_linked() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let rules = [
        linked(),
        update_pdr(&[pdr_id(2), urr_id(2)]),
        pool(&[member(1, 1, -1), member(2, 5, -1), total(73, 60)]),
    ];
    world.ask(52, Some(seid), &rules).assert_accepted();
    let index = world.only_session().index();
    let image = world.fleet.images()[0].clone();
    let [pool] = &image.pools[..] else {
        panic!("one pool: {:?}", *image.pools)
    };
    let members = pool.members.iter();
    let members: Vec<_> = members
        .map(|member| (member.slot, member.weight, member.weight_slot))
        .collect();
    assert_eq!((pool.pool, members), (2, vec![(0, 1, Some(3)), (1, 5, Some(4))]));
    // The counter of the pool counts tenths of octets.
    assert_eq!(image.block.bounds[2].limit.unwrap().octets.total, Some(600));
    world.fleet.count(index, UrrId(1), octets(403));
    world.fleet.count(index, UrrId(2), octets(40));
    world.fleet.count(index, UrrId(POOL), octets(603));
    let reached = Reached {
        limits: 1,
        ..Reached::NOTHING
    };
    world.n4.handle_counter_reached(
        world.now,
        index,
        counter_reached((UrrId(POOL), octets(603)), reached),
    );
    let sent = world.run();
    let expected = [
        (POOL, 60, UsageReportTrigger::VOLQU),
        (2, 40, UsageReportTrigger::LIUSA),
    ];
    assert_eq!(reported(&sent[0]), expected);
    // A new quota counts from there on, and what was left of whole octets with it.
    world
        .ask(52, Some(seid), &[update(&[total(73, 1000)])])
        .assert_accepted();
    world.fleet.count(index, UrrId(POOL), octets(7));
    let reply = world.ask(54, Some(seid), &[]);
    let expected = [(1, 0, Some(403)), (2, 1, None), (POOL, 1, Some(1))];
    let usage: Vec<_> = reply.usage();
    assert_eq!(usage[0], expected[0]);
    assert_eq!(usage[2], expected[2]);
}

#[test]
fn members_come_and_go_and_the_pool_keeps_what_it_has_counted() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let rules = [linked(), pool(&[member(1, 1, 0), member(2, 1, 0)])];
    world.ask(52, Some(seid), &rules).assert_accepted();
    let index = world.only_session().index();
    world.fleet.count(index, UrrId(POOL), octets(100));
    // All of them anew: its counter counts tenths now.
    world
        .ask(52, Some(seid), &[update(&[member(1, 25, -1), member(2, 1, -1)])])
        .assert_accepted();
    world.fleet.count(index, UrrId(POOL), octets(255));
    let query = [group(77, &[urr_id(POOL)])];
    let reply = world.ask(52, Some(seid), &query);
    assert_eq!(reply.usage()[0], (POOL, 0, Some(125)));
    // One goes: the other's weight is what counts.
    world
        .ask(52, Some(seid), &[group(17, &[urr_id(2)])])
        .assert_accepted();
    assert_eq!(urr(&world, POOL).pool().map(<[_]>::len), Some(1));
    assert_eq!(urr(&world, POOL).unit(), 2_500_000_000);
    world.fleet.count(index, UrrId(POOL), octets(3));
    let reply = world.ask(52, Some(seid), &query);
    // 7.5, and the half that was left.
    assert_eq!(reply.usage()[0], (POOL, 1, Some(8)));
    // It is a pool no more.
    world
        .ask(52, Some(seid), &[update(&[ie(118, [])])])
        .assert_accepted();
    assert_eq!(urr(&world, POOL).pool(), None);
    world.ask(54, Some(seid), &[]).assert_accepted();
}
