//! Usage records with names: the session's subscriber, its SMF, and the effect of a full spool on new sessions.

use crate::support;

use flow::UrrCount;
use n4::{NodeName, UsageEntry};
use pfcp::IeType;
use pfcp::ie::Cause;
use rules::model::{SNssai, UrrId};
use session::{EndCause, Seid, Unreported, UsageRecordEvent, UsageTriggers};
use std::time::Duration;

use support::wire::*;
use support::*;

fn recorded() -> World {
    let mut config = World::config(2);
    config.sessions.usage_records = true;
    let mut world = World::with(config);
    world.associate();
    world
}

fn entries(world: &mut World) -> Vec<UsageEntry> {
    std::iter::from_fn(|| world.n4.poll_usage()).collect()
}

/// A User ID with IMSI 001010123456789, MSISDN 491700000001 and an NAI.
fn user_id() -> Octets {
    let imsi = [8, 0x00, 0x01, 0x01, 0x21, 0x43, 0x65, 0x87, 0xf9];
    let msisdn = [6, 0x94, 0x71, 0x00, 0x00, 0x00, 0x10];
    let nai = b"\x06user@x";
    ie(141, [&[0x01 | 0x04 | 0x08][..], &imsi, &msisdn, nai].concat())
}

#[test]
fn the_subscriber_that_the_smf_names_is_in_the_usage_records() {
    let mut world = recorded();
    let mut named = plain_session(1, UE);
    named.extend([user_id(), ie(159, *b"\x03ims\x04test"), ie(257, [1, 0, 0, 10])]);
    let seid = world.ask(50, Some(0), &named).up_seid();
    let index = world.n4.sessions().session(Seid(seid)).unwrap().index();
    let count = UrrCount {
        ul_packets: 1,
        ul_octets: 100,
        ..UrrCount::default()
    };
    world.fleet.count(index, UrrId(1), count);
    world.ask(54, Some(seid), &[]).assert_accepted();
    let entries = entries(&mut world);
    assert_eq!(entries.len(), 3, "start, usage, end");
    for one in &entries {
        assert_eq!(one.smf, Some(NodeName::Ipv4(SMF_ADDRESS)));
        let subscriber = one.entry.subscriber.as_deref().unwrap();
        assert_eq!(subscriber.imsi.as_deref(), Some("001010123456789"));
        assert_eq!(subscriber.msisdn.as_deref(), Some("491700000001"));
        assert_eq!(subscriber.nai.as_deref(), Some("user@x"));
        assert_eq!(subscriber.dnn.as_deref(), Some("ims.test"));
        let slice = SNssai {
            sst: 1,
            sd: [0, 0, 10],
        };
        assert_eq!(subscriber.s_nssai, Some(slice));
        assert_eq!((subscriber.supi.as_ref(), subscriber.imei.as_ref()), (None, None));
    }
    let UsageRecordEvent::Usage(report) = entries[1].entry.event else {
        panic!("{entries:?}");
    };
    assert_eq!((report.urr, report.count), (UrrId(1), count));
}

#[test]
fn what_is_used_of_an_association_that_is_released_is_in_the_usage_records_with_its_name() {
    let mut world = recorded();
    world.establish(1, UE);
    world.ask(9, None, &[node_v4(SMF_ADDRESS)]).assert_accepted();
    assert_eq!(world.n4.associations().count(), 0);
    let entries = entries(&mut world);
    assert_eq!(entries.len(), 3);
    assert!(
        entries
            .iter()
            .all(|one| one.smf == Some(NodeName::Ipv4(SMF_ADDRESS)))
    );
    let UsageRecordEvent::End { cause, .. } = entries[2].entry.event else {
        panic!("{entries:?}");
    };
    assert_eq!(cause, EndCause::AssociationEnded);
}

#[test]
fn without_room_for_records_new_sessions_get_cause_75_and_others_continue() {
    let mut world = recorded();
    let seid = world.establish(1, UE);
    world.n4.refuse_new_sessions(true);
    let other = "10.45.0.77".parse().unwrap();
    let refused = world.ask(50, Some(0), &plain_session(2, other));
    assert_eq!(
        refused.verdict(),
        because(Cause::NO_RESOURCES_AVAILABLE, None::<IeType>)
    );
    world.ask(52, Some(seid), &[]).assert_accepted();
    world.n4.refuse_new_sessions(false);
    world.establish(2, other);
}

/// What was not taken: whose session it was, the report's number and octets, and why.
fn untaken(world: &mut World) -> Vec<(Seid, u32, u64, Unreported)> {
    let of = |one: UsageEntry| match one.entry.event {
        UsageRecordEvent::Unreported { report, why, .. } => {
            assert_eq!(one.smf, Some(NodeName::Ipv4(SMF_ADDRESS)));
            Some((one.entry.seid, report.sequence, report.count.ul_octets, why))
        }
        _ => None,
    };
    entries(world).into_iter().filter_map(of).collect()
}

/// A world with one session that has sent a report of 60 octets.
fn reporting() -> (World, Seid, Reply) {
    let mut world = recorded();
    let seid = world.establish(1, UE);
    let session = world.only_session().index();
    world
        .n4
        .handle_session_event(world.now, session, used(1, 0, 60, UsageTriggers::VOLTH));
    let mut sent = world.transmits();
    assert_eq!(sent.len(), 1);
    (world, Seid(seid), sent.remove(0))
}

fn answer(world: &mut World, sent: &Reply, ies: &[Octets]) {
    let response = message(57, Some(1), sent.header().sequence.get(), ies);
    world.send(sent.0.to, &response);
}

#[test]
fn a_usage_report_that_is_refused_is_entered_with_the_cause_and_not_sent_again() {
    let (mut world, seid, sent) = reporting();
    assert_eq!(untaken(&mut world), [], "it may be taken yet");
    answer(&mut world, &sent, &[ie(19, [69])]);
    let alarm = world.n4.take_unaccepted_usage().expect("an alarm");
    assert_eq!(
        (alarm.reports, alarm.seid, alarm.why),
        (1, seid, Unreported::Refused(69))
    );
    assert_eq!(alarm.smf, Some(NodeName::Ipv4(SMF_ADDRESS)));
    assert_eq!(world.n4.take_unaccepted_usage(), None);
    let entries = entries(&mut world);
    let [one] = &entries[..] else {
        panic!("{entries:?}")
    };
    assert_eq!(one.entry.cp.seid, 1);
    assert!(
        !one.entry.ue_addresses.is_empty(),
        "of a live session all is known"
    );
    let UsageRecordEvent::Unreported { report, why, .. } = one.entry.event else {
        panic!("{one:?}");
    };
    assert_eq!((report.sequence, report.count.ul_octets), (0, 60));
    assert_eq!(why, Unreported::Refused(69));
    assert!(world.pass(Duration::from_secs(60)).is_empty());
    let counters = world.n4.counters();
    assert_eq!((counters.reports_refused, counters.usage_refused), (1, 1));
}

#[test]
fn a_usage_report_whose_answer_cannot_be_read_is_entered_as_such() {
    let (mut world, seid, sent) = reporting();
    // Without its mandatory Cause.
    answer(&mut world, &sent, &[]);
    assert_eq!(untaken(&mut world), [(seid, 0, 60, Unreported::Unreadable)]);
    let counters = world.n4.counters();
    assert_eq!((counters.reports_refused, counters.reports_unreadable), (0, 1));
    assert!(world.pass(Duration::from_secs(60)).is_empty());
    // Cut off on its way: it is discarded, and an answer all the same (§7.6.1).
    let (mut world, seid, sent) = reporting();
    let mut response = message(57, Some(1), sent.header().sequence.get(), &[ie(19, [1])]);
    response.pop();
    assert!(world.send(sent.0.to, &response).is_empty());
    assert_eq!(untaken(&mut world), [(seid, 0, 60, Unreported::Unreadable)]);
    assert!(world.pass(Duration::from_secs(60)).is_empty());
}

#[test]
fn a_usage_report_that_is_accepted_or_asked_for_again_leaves_no_entry() {
    let (mut world, _, sent) = reporting();
    answer(&mut world, &sent, &[ie(19, [74])]);
    assert_eq!(untaken(&mut world), [], "an SMF in congestion is asked again");
    let again = world.pass(Duration::from_secs(10));
    answer(&mut world, &again[0], &[ie(19, [1])]);
    assert_eq!(untaken(&mut world), []);
    assert_eq!(world.n4.take_unaccepted_usage(), None);
}

#[test]
fn a_usage_report_without_a_response_is_entered_when_its_association_is_gone() {
    let (mut world, seid, _) = reporting();
    // N1 times T1, and the pause behind it: it is tried again.
    for _ in 0..20 {
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(untaken(&mut world), [], "its session lives: there is time");
    let session = world.only_session().index();
    world
        .n4
        .handle_session_event(world.now, session, used(1, 1, 40, UsageTriggers::VOLTH));
    world.ask(9, None, &[node_v4(SMF_ADDRESS)]).assert_accepted();
    let why = Unreported::Unanswered;
    assert_eq!(untaken(&mut world), [(seid, 0, 60, why), (seid, 1, 40, why)]);
}

#[test]
fn a_usage_report_whose_session_is_gone_meanwhile_is_entered_by_its_seid() {
    // Of a session that the SMF deletes while the report is on its way: the answer to that decides.
    let (mut world, seid, sent) = reporting();
    world.ask(54, Some(seid.0), &[]).assert_accepted();
    entries(&mut world);
    answer(&mut world, &sent, &[ie(19, [65])]);
    assert_eq!(untaken(&mut world), [(seid, 0, 60, Unreported::Refused(65))]);
    // And if there is none, no peer is left to send it again for.
    let (mut world, seid, _) = reporting();
    world.ask(54, Some(seid.0), &[]).assert_accepted();
    entries(&mut world);
    for _ in 0..20 {
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(untaken(&mut world), [(seid, 0, 60, Unreported::Unanswered)]);
    assert_eq!((world.n4.reporting(), world.n4.outstanding()), (0, (0, 0)));
}
