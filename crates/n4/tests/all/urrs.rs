//! URRs as control planes write them (TS 29.244 §5.2.2): what is refused with which cause, what odd forms mean, and
//! more reports than one message takes.

use crate::support;

use flow::{Reached, UrrCount};
use pfcp::ie::{self, AdditionalUsageReportsInformation, Cause, FailedRuleId, UsageReportTrigger};
use pfcp::message::{Message, SessionModificationResponse, SessionReportRequest};
use pfcp::{IeType, SequenceNumber};
use rules::model::{MeasurementInformation, MeasurementMethod, PdrId, ReportingTriggers, Urr, UrrId};
use std::net::Ipv4Addr;
use std::time::Duration;

use support::wire::*;
use support::{Reply, SMF_ADDRESS, UPF_START, World, because, counter_reached, plain_session, smf, upf};

const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 1);

/// A volume of these parts, in the order total, uplink, downlink.
fn volume(ie_type: u16, parts: [Option<u64>; 3]) -> Octets {
    let flags = (0..3).filter(|bit| parts[*bit].is_some());
    let mut octets = vec![flags.fold(0, |all, bit| all | 1 << bit)];
    octets.extend(parts.into_iter().flatten().flat_map(u64::to_be_bytes));
    ie(ie_type, octets)
}

fn total(ie_type: u16, octets: u64) -> Octets {
    volume(ie_type, [Some(octets), None, None])
}

fn number(ie_type: u16, value: u32) -> Octets {
    ie(ie_type, value.to_be_bytes())
}

fn urr(world: &World, id: u32) -> Urr {
    world.only_session().rules().urr(UrrId(id)).unwrap().clone()
}

const VOLTH: [u8; 3] = [2, 0, 0];

/// Asks to create URR 2 with, and to change URR 1 to, these IEs. Gives what both responses report.
fn both(world: &mut World, seid: u64, measured: u8, ies: &[Octets]) -> [Reply; 2] {
    let with = |mut all: Vec<Octets>| {
        all.extend_from_slice(ies);
        all
    };
    let created = create_urr(&with(vec![urr_id(2), method(measured), triggers(&VOLTH)]));
    let updated = group(13, &with(vec![urr_id(1), method(measured)]));
    [created, updated].map(|request| world.ask(52, Some(seid), &[request]))
}

/// Asserts that both were refused, for this IE of theirs.
#[track_caller]
fn assert_refused(both: &[Reply; 2], cause: Cause, offending: IeType) {
    for (reply, failed) in both.iter().zip([2, 1]) {
        assert_eq!(reply.verdict(), because(cause, Some(offending)));
        assert_eq!(reply.failed_rule(), Some(FailedRuleId::Urr(ie::UrrId(failed))));
    }
}

#[test]
fn what_measures_nothing_or_reports_without_end_is_refused_and_changes_nothing() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let before = world.only_session().rules().clone();
    let cases = [
        (2, number(64, 0), IeType::MEASUREMENT_PERIOD),
        (2, volume(31, [None; 3]), IeType::VOLUME_THRESHOLD),
        (2, volume(73, [None; 3]), IeType::VOLUME_QUOTA),
        (1, number(32, 0), IeType::TIME_THRESHOLD),
        // Bounds of what is not measured.
        (1, total(31, 1000), IeType::VOLUME_THRESHOLD),
        (1, total(73, 1000), IeType::VOLUME_QUOTA),
        (2, number(32, 60), IeType::TIME_THRESHOLD),
        (2, number(74, 60), IeType::TIME_QUOTA),
        (0, total(31, 1000), IeType::VOLUME_THRESHOLD),
    ];
    for (measured, wrong, offending) in cases {
        let replies = both(&mut world, seid, measured, &[wrong]);
        assert_refused(&replies, Cause::RULE_CREATION_MODIFICATION_FAILURE, offending);
        assert_eq!(world.only_session().rules(), &before);
    }
    let mut session = plain_session(2, Ipv4Addr::new(10, 45, 0, 2));
    session.push(create_urr(&[
        urr_id(7),
        method(2),
        triggers(&[1, 0, 0]),
        number(64, 0),
    ]));
    let reply = world.ask(50, Some(0), &session);
    let expected = because(
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        Some(IeType::MEASUREMENT_PERIOD),
    );
    assert_eq!(reply.verdict(), expected);
    assert_eq!(reply.failed_rule(), Some(FailedRuleId::Urr(ie::UrrId(7))));
    assert_eq!(world.sessions(), 1);
}

#[test]
fn what_holds_from_a_monitoring_time_on_needs_one() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    for reply in both(&mut world, seid, 2, &[total(34, 1000)]) {
        let expected = because(Cause::CONDITIONAL_IE_MISSING, Some(IeType::MONITORING_TIME));
        assert_eq!(reply.verdict(), expected);
    }
}

#[test]
fn triggers_without_what_they_are_about_are_taken_and_call_for_nothing() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    // free5GC sets PERIO and VOLTH whether a period and a threshold are configured or not.
    let update = group(13, &[urr_id(1), method(2), triggers(&[3, 1, 0])]);
    world.ask(52, Some(seid), &[update]).assert_accepted();
    let urr = urr(&world, 1);
    assert_eq!(urr.triggers, ReportingTriggers(0x103));
    assert_eq!((urr.measurement_period, urr.volume_threshold), (None, None));
}

#[test]
fn parameters_change_one_by_one_and_go_by_a_null_length() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let given = [
        urr_id(1),
        method(3),
        triggers(&[7, 3, 0]),
        number(64, 600),
        volume(31, [Some(1000), None, Some(0)]),
        total(73, 5000),
        number(32, 60),
        number(74, 0),
        ie(100, [0x10]),
    ];
    world.ask(52, Some(seid), &[group(13, &given)]).assert_accepted();
    let all = urr(&world, 1);
    assert_eq!(all.method, MeasurementMethod(3));
    assert_eq!(all.information, MeasurementInformation::MNOP);
    let threshold = all.volume_threshold.as_deref().unwrap();
    assert_eq!((threshold.total, threshold.uplink), (Some(1000), None));
    assert_eq!(
        (all.measurement_period, all.time_threshold),
        (Some(600), Some(60))
    );
    assert_eq!(all.time_quota, Some(0), "a quota of nothing blocks");
    let taken = [urr_id(1), ie(64, []), ie(31, []), ie(74, []), ie(100, [])];
    world.ask(52, Some(seid), &[group(13, &taken)]).assert_accepted();
    let rest = Urr {
        measurement_period: None,
        volume_threshold: None,
        time_quota: None,
        information: MeasurementInformation(0),
        ..all
    };
    assert_eq!(urr(&world, 1), rest);
    // Open5GS takes the method away and leaves its bounds: they go with it, and do not come back.
    for measured in [1, 3] {
        let update = group(13, &[urr_id(1), method(measured)]);
        world.ask(52, Some(seid), &[update]).assert_accepted();
        let urr = urr(&world, 1);
        assert_eq!((urr.volume_quota, urr.time_threshold), (None, Some(60)));
    }
}

#[test]
fn a_validity_that_is_a_date_of_the_past_or_0_is_none() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let now = ie::StartTime::from_unix(UPF_START + world.now.0 / 1_000_000_000).0;
    // A duration; 0; free5GC's dates, one to come and the one that it makes of no time at all.
    let cases = [
        (3600, Some(3600)),
        (0, None),
        (now + 1800, Some(1800)),
        (now - 1, None),
        (3_661_529_852, None),
    ];
    for (sent, expected) in cases {
        let update = group(13, &[urr_id(1), total(73, 1 << 30), number(181, sent)]);
        world.ask(52, Some(seid), &[update]).assert_accepted();
        assert_eq!(urr(&world, 1).terms().quota_validity_time, expected, "{sent}");
    }
}

#[test]
fn a_query_of_all_that_names_one_that_is_not_there_is_refused() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let index = world.only_session().index();
    world.fleet.count(index, UrrId(1), octets(60));
    const QAURR: u8 = 4;
    let all = |id| [ie(49, [QAURR]), group(77, &[urr_id(id)])];
    let reply = world.ask(52, Some(seid), &all(9));
    let refused = because(Cause::RULE_CREATION_MODIFICATION_FAILURE, None);
    assert_eq!(reply.verdict(), refused);
    assert_eq!(reply.failed_rule(), Some(FailedRuleId::Urr(ie::UrrId(9))));
    let reply = world.ask(52, Some(seid), &all(1));
    reply.assert_accepted();
    assert_eq!(reply.usage(), [(1, 0, Some(60))]);
}

fn octets(ul_octets: u64) -> UrrCount {
    UrrCount {
        ul_packets: 1,
        ul_octets,
        ..UrrCount::default()
    }
}

/// The worker reports that the counter of a URR, at this number of octets, has reached its watermark. Gives what is
/// sent then.
fn watermark(world: &mut World, urr: u32, counted: u64) -> Vec<Reply> {
    let index = world.only_session().index();
    let reached = Reached {
        watermark: true,
        ..Reached::NOTHING
    };
    let counted = (UrrId(urr), octets(counted));
    world
        .n4
        .handle_counter_reached(world.now, index, counter_reached(counted, reached));
    world.run()
}

/// As many URRs as a session can have.
const URRS: u32 = 64;
/// Reports in one message.
const ONE_MESSAGE: usize = 32;

/// A session with as many URRs as it can have, each of which has counted its number.
fn a_session_with_many_urrs(world: &mut World) -> u64 {
    let mut session = plain_session(1, UE);
    let more = (2..=URRS).map(|id| create_urr(&[urr_id(id), method(2), triggers(&VOLTH)]));
    session.extend(more);
    let seid = world.ask(50, Some(0), &session).up_seid();
    count_all(world);
    seid
}

fn count_all(world: &mut World) {
    let index = world.only_session().index();
    for id in 1..=URRS {
        world.fleet.count(index, UrrId(id), octets(id.into()));
    }
}

fn report(reply: &Reply) -> SessionReportRequest<'_> {
    reply.session_report()
}

fn modified(reply: &Reply) -> SessionModificationResponse<'_> {
    let Message::SessionModificationResponse(response) = reply.message() else {
        panic!("{:?}", reply.message())
    };
    response
}

fn acknowledge(world: &mut World, reply: &Reply) -> Vec<Reply> {
    let sequence = reply.header().sequence;
    let answer = message(57, Some(0), SequenceNumber::get(sequence), &[ie(19, [1])]);
    world.send(smf(), &answer)
}

/// What a message reports: URR and octets.
fn reported(request: &SessionReportRequest<'_>) -> Vec<(u32, u64)> {
    let reports = request.usage_report.iter();
    reports
        .map(|one| (one.urr_id.0, one.volume_measurement.unwrap().total.unwrap()))
        .collect()
}

fn expected() -> Vec<(u32, u64)> {
    (1..=URRS).map(|id| (id, id.into())).collect()
}

#[test]
fn reports_that_do_not_fit_into_a_response_are_announced_and_follow_with_the_querys_reference() {
    let mut world = World::associated();
    let seid = a_session_with_many_urrs(&mut world);
    const QAURR: u8 = 4;
    let query = [ie(49, [QAURR]), number(125, 0xabcd)];
    let sequence = world.next_sequence();
    let sent = world.send(smf(), &message(52, Some(seid), sequence, &query));
    let [response, follows] = &sent[..] else {
        panic!("{}", sent.len())
    };
    let answer = modified(response);
    assert_eq!(answer.cause, Cause::REQUEST_ACCEPTED);
    let announced = AdditionalUsageReportsInformation::Count(URRS as u16 - ONE_MESSAGE as u16);
    assert_eq!(answer.additional_usage_reports_information, Some(announced));
    let at_once = answer.usage_report.iter();
    let mut all: Vec<_> = at_once
        .map(|one| (one.urr_id.0, one.volume_measurement.unwrap().total.unwrap()))
        .collect();
    assert_eq!(all.len(), ONE_MESSAGE);
    let rest = report(follows);
    let is_of_query = |one: &ie::QueryUrrReference| *one == ie::QueryUrrReference(0xabcd);
    for one in rest.usage_report.iter() {
        assert!(one.query_urr_reference.as_ref().is_some_and(is_of_query));
        assert_eq!(one.usage_report_trigger, UsageReportTrigger::IMMER);
    }
    all.extend(reported(&rest));
    assert_eq!(all, expected());
    assert_eq!(acknowledge(&mut world, follows).len(), 0);
}

#[test]
fn a_control_plane_that_waits_gets_the_last_usage_in_several_messages() {
    const ARDR: u8 = 0x40;
    for waits in [true, false] {
        let mut world = World::new();
        let setup = [
            node_v4(SMF_ADDRESS),
            recovery(100),
            cp_features(if waits { ARDR } else { 0 }),
        ];
        world.ask(5, None, &setup).assert_accepted();
        let seid = a_session_with_many_urrs(&mut world);
        let sequence = world.next_sequence();
        let sent = world.send(smf(), &message(54, Some(seid), sequence, &[]));
        let Message::SessionDeletionResponse(answer) = sent[0].message() else {
            panic!()
        };
        let at_once = answer.usage_report.iter();
        let mut all: Vec<_> = at_once
            .map(|one| (one.urr_id.0, one.volume_measurement.unwrap().total.unwrap()))
            .collect();
        if waits {
            assert_eq!(answer.cause, Cause::MORE_USAGE_REPORT_TO_SEND);
            let announced = AdditionalUsageReportsInformation::Count(URRS as u16 - ONE_MESSAGE as u16);
            assert_eq!(answer.additional_usage_reports_information, Some(announced));
            assert_eq!(all.len(), ONE_MESSAGE);
            assert_eq!(sent.len(), 2);
            let last = report(&sent[1]);
            assert_eq!(last.pfcpsrreq_flags, Some(ie::PfcpSrReqFlags::PSDBU));
            assert_eq!(sent[1].header().seid, Some(pfcp::Seid(1)));
            all.extend(reported(&last));
            assert_eq!(acknowledge(&mut world, &sent[1]).len(), 0);
        } else {
            assert_eq!(answer.cause, Cause::REQUEST_ACCEPTED);
            assert_eq!(answer.additional_usage_reports_information, None);
            assert_eq!(sent.len(), 1);
        }
        assert_eq!(all, expected());
        world.assert_clean();
    }
}

#[test]
fn packets_are_counted_for_peers_that_request_it() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let index = world.only_session().index();
    let mnop = group(13, &[urr_id(1), ie(100, [0x10])]);
    world.ask(52, Some(seid), &[mnop]).assert_accepted();
    let count = UrrCount {
        dl_packets: 3,
        dl_octets: 900,
        ..octets(60)
    };
    world.fleet.count(index, UrrId(1), count);
    let reply = world.ask(52, Some(seid), &[group(77, &[urr_id(1)])]);
    let response = modified(&reply);
    let volume = response.usage_report.first().unwrap().volume_measurement.unwrap();
    let packets = [
        volume.total_packets,
        volume.uplink_packets,
        volume.downlink_packets,
    ];
    assert_eq!(packets, [Some(4), Some(1), Some(3)]);
    assert_eq!(volume.total, Some(960));
}

#[test]
fn a_threshold_that_a_counter_reaches_and_a_period_that_is_over_are_reported() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let index = world.only_session().index();
    let both = [urr_id(1), triggers(&[3, 0, 0]), total(31, 1000), number(64, 60)];
    world.ask(52, Some(seid), &[group(13, &both)]).assert_accepted();
    world.fleet.count(index, UrrId(1), octets(1200));
    let sent = watermark(&mut world, 1, 1200);
    let usage = |reply: &Reply| {
        let request = report(reply);
        let one = request.usage_report.first().unwrap();
        (one.ur_seqn.0, one.usage_report_trigger, reported(&request))
    };
    assert_eq!(usage(&sent[0]), (0, UsageReportTrigger::VOLTH, vec![(1, 1200)]));
    assert!(acknowledge(&mut world, &sent[0]).is_empty());
    world.fleet.count(index, UrrId(1), octets(30));
    let sent = world.pass(Duration::from_secs(60));
    assert_eq!(usage(&sent[0]), (1, UsageReportTrigger::PERIO, vec![(1, 30)]));
    assert!(acknowledge(&mut world, &sent[0]).is_empty());
    assert_eq!(world.ask(54, Some(seid), &[]).usage(), [(1, 2, Some(0))]);
}

#[test]
fn an_end_marker_is_reported_with_what_was_measured_until_then() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let index = world.only_session().index();
    let marked = |world: &mut World| {
        let now = world.now;
        (0..2).for_each(|_| world.n4.handle_end_marker(now, index, PdrId(1)));
        world.run()
    };
    assert!(marked(&mut world).is_empty(), "no query");
    let asks = group(13, &[urr_id(1), triggers(&[0, 0, 1])]);
    world.ask(52, Some(seid), &[asks]).assert_accepted();
    for (number, used) in [(0, 700), (1, 0)] {
        world.fleet.count(index, UrrId(1), octets(used));
        let sent = marked(&mut world);
        assert_eq!(sent.len(), 1, "two at once are reported once");
        let request = report(&sent[0]);
        let one = request.usage_report.first().unwrap();
        assert_eq!(
            (one.ur_seqn.0, one.usage_report_trigger, reported(&request)),
            (number, UsageReportTrigger::EMRRE, vec![(1, used)])
        );
        assert!(acknowledge(&mut world, &sent[0]).is_empty());
    }
    // A change is on its way to the worker: the report waits for it.
    world.fleet.count(index, UrrId(1), octets(50));
    let change = message(
        52,
        Some(seid),
        900,
        &[update_far(&[far_id(1), apply_action(&[FORW])])],
    );
    world.n4.handle_datagram(world.now, smf(), upf(), &change);
    let sent = marked(&mut world);
    let request = report(&sent[sent.len() - 1]);
    assert_eq!(reported(&request), vec![(1, 50)]);
}

#[test]
fn dropped_downlink_traffic_is_reported_at_its_threshold_and_measures_nothing() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let index = world.only_session().index();
    let threshold = |packets: u64| {
        let mut octets = vec![1];
        octets.extend(packets.to_be_bytes());
        ie(72, octets)
    };
    let nothing = group(13, &[urr_id(1), triggers(&[0x40, 0, 0]), threshold(0)]);
    let refused = world.ask(52, Some(seid), &[nothing]).verdict();
    let offending = Some(IeType::DROPPED_DL_TRAFFIC_THRESHOLD);
    assert_eq!(
        refused,
        because(Cause::RULE_CREATION_MODIFICATION_FAILURE, offending)
    );
    // No query yet.
    world.n4.handle_dropped_reached(world.now, index, UrrId(1));
    assert!(world.run().is_empty());
    let update = group(13, &[urr_id(1), triggers(&[0x40, 0, 0]), threshold(5)]);
    world.ask(52, Some(seid), &[update]).assert_accepted();
    world.fleet.count(index, UrrId(1), octets(1200));
    for number in 0..2 {
        world.n4.handle_dropped_reached(world.now, index, UrrId(1));
        let sent = world.run();
        let request = report(&sent[0]);
        let one = request.usage_report.first().unwrap();
        let sent_report = (one.ur_seqn.0, one.usage_report_trigger);
        assert_eq!(sent_report, (number, UsageReportTrigger::DROTH));
        assert!(one.volume_measurement.is_none() && one.start_time.is_some());
        assert!(acknowledge(&mut world, &sent[0]).is_empty());
    }
    assert_eq!(world.ask(54, Some(seid), &[]).usage(), [(1, 2, Some(1200))]);
}

#[test]
fn a_monitoring_time_is_to_come() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let now = ie::MonitoringTime::from_unix(UPF_START + world.now.0 / 1_000_000_000).0;
    let additional = |at| group(147, &[number(33, at), total(34, 500)]);
    let cases = [
        (vec![number(33, now - 1)], Some(IeType::MONITORING_TIME)),
        (
            vec![number(33, now + 10), additional(now - 1)],
            Some(IeType::ADDITIONAL_MONITORING_TIME),
        ),
        (
            vec![number(33, now + 10), total(34, 0)],
            Some(IeType::SUBSEQUENT_VOLUME_THRESHOLD),
        ),
        (
            vec![number(33, now + 10), number(35, 5)],
            Some(IeType::SUBSEQUENT_TIME_THRESHOLD),
        ),
        (
            vec![number(33, now + 10), total(34, 9), additional(now + 20)],
            None,
        ),
    ];
    for (ies, offending) in cases {
        for reply in both(&mut world, seid, 2, &ies) {
            match offending {
                Some(_) => {
                    let expected = because(Cause::RULE_CREATION_MODIFICATION_FAILURE, offending);
                    assert_eq!(reply.verdict(), expected);
                }
                None => reply.assert_accepted(),
            }
        }
    }
    assert_eq!(urr(&world, 1).terms().monitoring_times().count(), 2);
    // It goes, and what was to hold from it on with it.
    let gone = group(13, &[urr_id(1), ie(33, []), ie(147, [])]);
    world.ask(52, Some(seid), &[gone]).assert_accepted();
    assert_eq!(urr(&world, 1).terms, None);
}

#[test]
fn a_urr_is_linked_to_one_that_is_there() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let linked = |to| create_urr(&[urr_id(2), method(2), triggers(&[0x80, 0, 0]), number(82, to)]);
    let reply = world.ask(52, Some(seid), &[linked(9)]);
    let expected = because(
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        Some(IeType::LINKED_URR_ID),
    );
    assert_eq!(reply.verdict(), expected);
    assert_eq!(reply.failed_rule(), Some(FailedRuleId::Urr(ie::UrrId(2))));
    world.ask(52, Some(seid), &[linked(1)]).assert_accepted();
    // The other one's report is this one's reason, and what it is linked to may go.
    let index = world.only_session().index();
    world.fleet.count(index, UrrId(1), octets(60));
    world.fleet.count(index, UrrId(2), octets(70));
    let reply = world.ask(52, Some(seid), &[group(77, &[urr_id(1)]), number(125, 7)]);
    assert_eq!(reply.usage(), [(1, 0, Some(60)), (2, 0, Some(70))]);
    let response = modified(&reply);
    let reports: Vec<_> = response.usage_report.iter().collect();
    assert_eq!(reports[1].usage_report_trigger, UsageReportTrigger::LIUSA);
    assert_eq!(reports[1].query_urr_reference, Some(ie::QueryUrrReference(7)));
    let removed = group(17, &[urr_id(1)]);
    let pdrs = [1, 2].map(|id| update_pdr(&[pdr_id(id), urr_id(2)]));
    world
        .ask(52, Some(seid), &[removed, pdrs[0].clone(), pdrs[1].clone()])
        .assert_accepted();
    assert!(urr(&world, 2).terms().linked.is_empty());
}

#[test]
fn a_volume_threshold_of_0_is_none() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    for reply in both(&mut world, seid, 2, &[total(31, 0), total(73, 5000)]) {
        reply.assert_accepted();
    }
    let sent = watermark(&mut world, 2, 100);
    assert!(sent.is_empty(), "nothing is due before the quota is used up");
}

#[test]
fn an_answer_that_another_process_sends_on_has_the_reference_of_its_query() {
    let mut first = World::associated();
    let seid = a_session_with_many_urrs(&mut first);
    const QAURR: u8 = 4;
    let query = [ie(49, [QAURR]), number(125, 0xabcd)];
    let sequence = first.next_sequence();
    let sent = first.send(smf(), &message(52, Some(seid), sequence, &query));
    assert_eq!(reported(&report(&sent[1])).len(), ONE_MESSAGE);
    let association = first.n4.export_associations().unwrap().concat();
    first
        .n4
        .export(first.now, session::Seid(seid), session::Export::Take);
    first.run();
    let record = first.n4.poll_exported(first.now).unwrap().record.unwrap();

    let mut second = World::new();
    second.n4.import(second.now, &association).unwrap();
    second.n4.import(second.now, &record).unwrap();
    let sent = second.run();
    let again = report(&sent[0]);
    assert_eq!(again.usage_report.iter().count(), ONE_MESSAGE);
    for one in again.usage_report.iter() {
        assert_eq!(one.query_urr_reference, Some(ie::QueryUrrReference(0xabcd)));
    }
}

/// An application with one flow, as PFD Management provisions it.
fn provision(world: &mut World, id: &str, flow: &str) {
    let text = [&(flow.len() as u16).to_be_bytes()[..], flow.as_bytes()].concat();
    let contents = ie(61, [&[1, 0][..], &text].concat());
    let application = group(58, &[ie(24, id), group(59, &[contents])]);
    world.ask(3, None, &[application]).assert_accepted();
}

const TO_PORTAL: &str = "permit out ip from 192.0.2.99 to assigned";

#[test]
fn a_quota_action_names_a_far_that_is_there() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let before = world.only_session().rules().clone();
    let replies = both(&mut world, seid, 2, &[total(73, 1000), far_id(9)]);
    assert_refused(
        &replies,
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        IeType::FAR_ID,
    );
    assert_eq!(world.only_session().rules(), &before);
    for reply in both(&mut world, seid, 2, &[total(73, 1000), far_id(2)]) {
        reply.assert_accepted();
    }
    assert_eq!(urr(&world, 1).terms().quota_action, Some(rules::model::FarId(2)));
    let image = world.fleet.images()[0].clone();
    let actions: Vec<_> = image
        .quota_actions
        .iter()
        .map(|one| (one.urr, one.forward))
        .collect();
    assert_eq!(actions, [(0, Some(1)), (1, Some(1))]);
    // It goes by a null length, or with its FAR.
    world
        .ask(52, Some(seid), &[group(13, &[urr_id(1), ie(108, [])])])
        .assert_accepted();
    assert_eq!(urr(&world, 1).terms, None);
    let far = create_far(&[far_id(7), apply_action(&[1])]);
    let named = group(13, &[urr_id(1), far_id(7)]);
    world.ask(52, Some(seid), &[far, named]).assert_accepted();
    assert_eq!(urr(&world, 1).terms().quota_action, Some(rules::model::FarId(7)));
    let gone = group(16, &[far_id(7)]);
    world.ask(52, Some(seid), &[gone]).assert_accepted();
    assert_eq!(urr(&world, 1).terms, None);
}

#[test]
fn what_a_quota_exempts_is_known_and_follows_its_pfds() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let cases = [
        (
            ie(24, "portal"),
            Cause::RULE_CREATION_MODIFICATION_FAILURE,
            IeType::APPLICATION_ID,
        ),
        (
            sdf("permit out of somewhere"),
            Cause::MANDATORY_IE_INCORRECT,
            IeType::SDF_FILTER,
        ),
        // A filter that nothing defines.
        (
            sdf_id(9),
            Cause::RULE_CREATION_MODIFICATION_FAILURE,
            IeType::SDF_FILTER,
        ),
    ];
    for (wrong, cause, offending) in cases {
        let replies = both(&mut world, seid, 2, &[wrong]);
        assert_refused(&replies, cause, offending);
    }
    provision(&mut world, "portal", TO_PORTAL);
    for reply in both(&mut world, seid, 2, &[ie(24, "portal"), sdf(TO_PORTAL)]) {
        reply.assert_accepted();
    }
    for id in [1, 2] {
        let urr = urr(&world, id);
        let terms = urr.terms();
        assert_eq!(
            terms.exempt_applications[0].flows[..],
            [TO_PORTAL.parse().unwrap()]
        );
        assert_eq!(
            terms.exempt_filters[0].flow_description,
            Some(TO_PORTAL.parse().unwrap())
        );
    }
    let other = "permit out ip from 192.0.2.98 to assigned";
    provision(&mut world, "portal", other);
    world.run();
    for id in [1, 2] {
        let urr = urr(&world, id);
        let application = &urr.terms().exempt_applications[0];
        assert_eq!(application.flows[..], [other.parse().unwrap()]);
    }
    assert_eq!(world.n4.counters().stale_applications, 0);
    // All of them go by a null length.
    let gone = group(13, &[urr_id(1), ie(24, []), ie(23, [])]);
    world.ask(52, Some(seid), &[gone]).assert_accepted();
    assert_eq!(urr(&world, 1).terms, None);
}

#[test]
fn an_exempted_filter_with_an_id_is_the_definition_of_that() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let length = (TO_PORTAL.len() as u16).to_be_bytes();
    let defined = [&[0x11, 0][..], &length, TO_PORTAL.as_bytes(), &7u32.to_be_bytes()].concat();
    for reply in both(&mut world, seid, 2, &[ie(23, defined)]) {
        reply.assert_accepted();
    }
    let rules = world.only_session().rules();
    let shared: Vec<_> = rules.shared_filters().map(|filter| filter.filter_id).collect();
    assert_eq!(shared, [urr(&world, 2).terms().exempt_filters[0].filter_id]);
    // A request that names the id is for it.
    let named = group(13, &[urr_id(1), sdf_id(7)]);
    world.ask(52, Some(seid), &[named]).assert_accepted();
}

#[test]
fn a_session_exempts_no_more_flows_than_are_looked_through_for_each_packet() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let most = rules::compile::MAX_EXEMPT_FLOWS;
    let ask = |world: &mut World, flows: usize| {
        let mut ies = vec![urr_id(1)];
        ies.extend((0..flows).map(|_| sdf(TO_PORTAL)));
        world.ask(52, Some(seid), &[group(13, &ies)])
    };
    ask(&mut world, most).assert_accepted();
    let refused = ask(&mut world, most + 1);
    assert_eq!(refused.cause(), Some(Cause::NO_RESOURCES_AVAILABLE));
    assert_eq!(refused.failed_rule(), Some(FailedRuleId::Urr(ie::UrrId(1))));
    assert_eq!(urr(&world, 1).terms().exempt_filters.len(), most);
    // Two ranges of ports are two more to look through.
    let mut ies = vec![urr_id(1)];
    let with_ports = "permit out 17 from 192.0.2.99 53,80-90 to assigned";
    ies.extend((0..=most / 3).map(|_| sdf(with_ports)));
    let refused = world.ask(52, Some(seid), &[group(13, &ies)]);
    assert_eq!(refused.cause(), Some(Cause::NO_RESOURCES_AVAILABLE));
}

#[test]
fn usage_before_qos_is_reported_beside_that_after_it() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let index = world.only_session().index();
    let mbqe = group(13, &[urr_id(1), ie(100, [0x01])]);
    world.ask(52, Some(seid), &[mbqe]).assert_accepted();
    let parts = |reply: &Reply| {
        let part = |one: pfcp::group::UsageReportSessionModification<'_>| {
            let volume = one.volume_measurement.and_then(|volume| volume.total);
            (one.ur_seqn.0, volume, one.usage_information.map(|part| part.0))
        };
        modified(reply).usage_report.iter().map(part).collect::<Vec<_>>()
    };
    let query = || group(77, &[urr_id(1)]);
    world.fleet.count(index, UrrId(1), octets(60));
    world.fleet.count_before_qos(index, UrrId(1), octets(100));
    let reply = world.ask(52, Some(seid), &[query()]);
    assert_eq!(
        parts(&reply),
        [(0, Some(60), Some(0b0100)), (1, Some(100), Some(0b1000))]
    );
    assert!(parts(&world.ask(52, Some(seid), &[query()])).is_empty());
    // Nothing has left, and yet there is something to report.
    world.fleet.count_before_qos(index, UrrId(1), octets(40));
    let reply = world.ask(52, Some(seid), &[query()]);
    assert_eq!(
        parts(&reply),
        [(2, Some(0), Some(0b0100)), (3, Some(40), Some(0b1000))]
    );
    // A threshold is of what is left, and its report has both, too.
    let threshold = group(13, &[urr_id(1), triggers(&VOLTH), total(31, 1000)]);
    world.ask(52, Some(seid), &[threshold]).assert_accepted();
    world.fleet.count(index, UrrId(1), octets(1200));
    world.fleet.count_before_qos(index, UrrId(1), octets(1300));
    let sent = watermark(&mut world, 1, 1260);
    let request = report(&sent[0]);
    assert_eq!(reported(&request), [(1, 1200), (1, 1300)]);
    assert!(acknowledge(&mut world, &sent[0]).is_empty());
    world.fleet.count_before_qos(index, UrrId(1), octets(5));
    assert_eq!(
        world.ask(54, Some(seid), &[]).usage(),
        [(1, 6, Some(0)), (1, 7, Some(5))]
    );
}
