//! QERs of several sessions that keep one rate together (QER Correlation ID, TS 29.244 §8.2.10).

use crate::support;

use std::net::Ipv4Addr;

use pfcp::IeType;
use pfcp::ie::{self, Cause, FailedRuleId};
use rules::model::{CorrelationId, QerId};

use support::wire::*;
use support::*;

fn correlation(id: u32) -> Octets {
    ie(28, id.to_be_bytes())
}

/// A session whose second QER has these IEs.
fn session(cp: u64, host: u8, ies: &[Octets]) -> Vec<Octets> {
    let mut session = plain_session(cp, Ipv4Addr::new(10, 45, 0, host));
    session.push(create_qer(&[&[qer_id(2), gate(0, 0)], ies].concat()));
    session
}

/// The rates that are to be distributed, each with its meter, uplink and downlink, and how many workers have it.
fn reported(world: &mut World) -> Vec<(u16, [u64; 2], usize)> {
    let changed = std::iter::from_fn(|| world.n4.poll_shared_rate());
    changed
        .map(|rate| (rate.id.0, rate.rates.map(|rate| rate.kbit()), rate.workers.len()))
        .collect()
}

#[test]
fn sessions_of_one_correlation_have_one_rate_the_lowest_that_their_qers_say() {
    let mut world = World::associated();
    let first = session(1, 1, &[correlation(9), mbr(1_000, 2_000)]);
    let first = world.ask(50, Some(0), &first).up_seid();
    assert_eq!(reported(&mut world), [(1, [1_000, 2_000], 1)]);
    let rules = world.only_session().rules().clone();
    assert_eq!(rules.qer(QerId(2)).unwrap().correlation, Some(CorrelationId(9)));
    let second = session(2, 2, &[correlation(9), mbr(3_000, 1_500)]);
    let second = world.ask(50, Some(0), &second).up_seid();
    let both = reported(&mut world);
    assert_eq!((both[0].0, both[0].1), (1, [1_000, 1_500]));
    let more = group(14, &[qer_id(2), mbr(5_000, 5_000)]);
    world.ask(52, Some(first), &[more]).assert_accepted();
    assert_eq!(reported(&mut world)[0].1, [3_000, 1_500]);
    // An empty IE takes the correlation away.
    let alone = group(14, &[qer_id(2), ie(28, [])]);
    world.ask(52, Some(second), &[alone]).assert_accepted();
    assert_eq!(reported(&mut world), [(1, [5_000, 5_000], 1)]);
    world.ask(54, Some(first), &[]).assert_accepted();
    assert_eq!(reported(&mut world), [(1, [u64::MAX; 2], 0)]);
}

#[test]
fn what_sessions_cannot_have_together_is_refused_with_the_rule_and_nothing_changes() {
    let mut world = World::associated();
    let refusal = because(
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        Some(IeType::QER_CORRELATION_ID),
    );
    // A guaranteed bit rate, a packet rate of one packet a minute.
    let rates = [gbr(1, 1), ie(94, [3, 0, 0, 1, 0, 0, 1])];
    for rate in rates.clone() {
        let asked = session(1, 1, &[correlation(9), mbr(10, 10), rate]);
        let reply = world.ask(50, Some(0), &asked);
        assert_eq!(reply.verdict(), refusal);
        assert_eq!(reply.failed_rule(), Some(FailedRuleId::Qer(ie::QerId(2))));
    }
    let mut twice = session(1, 1, &[correlation(9), mbr(10, 10)]);
    twice.push(create_qer(&[qer_id(3), gate(0, 0), correlation(9)]));
    let reply = world.ask(50, Some(0), &twice);
    assert_eq!(reply.verdict(), refusal);
    assert_eq!(reply.failed_rule(), Some(FailedRuleId::Qer(ie::QerId(3))));
    assert_eq!((world.sessions(), reported(&mut world)), (0, vec![]));

    let good = session(1, 1, &[correlation(9), mbr(10, 10)]);
    let seid = world.ask(50, Some(0), &good).up_seid();
    reported(&mut world);
    for rate in rates {
        let reply = world.ask(52, Some(seid), &[group(14, &[qer_id(2), rate])]);
        assert_eq!(reply.verdict(), refusal);
        assert_eq!(reply.failed_rule(), Some(FailedRuleId::Qer(ie::QerId(2))));
    }
    assert_eq!(reported(&mut world), []);
    assert_eq!(world.n4.sessions().count().correlations, 1);
}

#[test]
fn where_there_is_room_for_no_more_correlations_the_session_gets_cause_75() {
    let mut config = World::config(1);
    config.sessions.max_correlations = 1;
    let mut world = World::with_network(config, fleet::network());
    world.associate();
    let ask = |world: &mut World, host: u8, id| {
        let asked = session(host.into(), host, &[correlation(id), mbr(10, 10)]);
        world.ask(50, Some(0), &asked).verdict()
    };
    assert_eq!(ask(&mut world, 1, 9), because(Cause::REQUEST_ACCEPTED, None));
    let refused = because(Cause::NO_RESOURCES_AVAILABLE, None);
    assert_eq!(ask(&mut world, 2, 10), refused);
    assert_eq!(ask(&mut world, 2, 9), because(Cause::REQUEST_ACCEPTED, None));
}
