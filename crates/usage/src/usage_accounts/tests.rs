use rules::model::{MeasurementInformation, MeasurementMethod};

use super::*;
use crate::count::is_null;

const URR: UrrId = UrrId(1);

static VOLUME: Urr = Urr::volume(URR);

fn counted(packets: u64) -> Counted<'static> {
    Counted {
        urr: &VOLUME,
        count: count(packets),
    }
}

fn count(packets: u64) -> UrrCount {
    UrrCount {
        ul_packets: packets,
        ul_octets: packets * 100,
        ..UrrCount::default()
    }
}

fn accounts(now: u64) -> UsageAccounts {
    let mut accounts = UsageAccounts::default();
    accounts.update(Nanos::from_secs(now), &[Urr::volume(URR)], &[]);
    accounts
}

#[test]
fn each_packet_is_reported_once_and_reports_are_numbered() {
    let mut accounts = accounts(1);
    let first = accounts.report(Nanos::from_secs(2), counted(5), UsageTriggers::IMMER);
    let last = accounts.report(Nanos::from_secs(3), counted(7), UsageTriggers::TERMR);
    assert_eq!(
        (first.sequence, first.count, first.start),
        (0, count(5), Nanos::from_secs(1).into())
    );
    assert_eq!(
        (last.sequence, last.count, last.start),
        (1, count(2), Nanos::from_secs(2).into())
    );
}

#[test]
fn packets_that_are_lost_after_a_report_go_off_the_next_ones() {
    let mut accounts = accounts(0);
    accounts.report(Nanos::ZERO, counted(5), UsageTriggers::IMMER);
    let mut after = |packets| {
        accounts
            .report(Nanos::ZERO, counted(packets), UsageTriggers::IMMER)
            .count
    };
    assert_eq!([after(3), after(4), after(7)], [count(0), count(0), count(2)]);
}

#[test]
fn what_a_lost_slot_counted_is_carried_into_the_next_report() {
    let mut accounts = accounts(0);
    accounts.report(Nanos::ZERO, counted(5), UsageTriggers::IMMER);
    accounts.carry(URR, count(9));
    let report = accounts.report(Nanos::ZERO, counted(1), UsageTriggers::TERMR);
    assert_eq!(report.count, count(4 + 1));
}

#[test]
fn an_account_continues_at_its_checkpoint() {
    let mut accounts = accounts(1);
    accounts.report(Nanos::from_secs(2), counted(5), UsageTriggers::IMMER);
    let checkpoints = accounts.checkpoints(&[(URR, count(9))]);
    let mut second = UsageAccounts::resuming(&checkpoints, Setting::default());
    second.update(Nanos::ZERO, &[Urr::volume(URR)], &[]);
    let report = second.report(Nanos::ZERO, counted(3), UsageTriggers::TERMR);
    assert_eq!((report.sequence, report.count), (1, count(4 + 3)));
    assert_eq!(report.start, Nanos::from_secs(2).into());
}

#[test]
fn a_urr_that_is_created_anew_starts_anew() {
    let mut accounts = accounts(0);
    accounts.report(Nanos::ZERO, counted(5), UsageTriggers::IMMER);
    accounts.update(Nanos::ZERO, &[], &[]);
    accounts.update(Nanos::from_secs(9), &[Urr::volume(URR)], &[]);
    let report = accounts.report(Nanos::from_secs(9), counted(1), UsageTriggers::TERMR);
    assert_eq!(
        (report.sequence, report.count, report.start),
        (0, count(1), Nanos::from_secs(9).into())
    );
    assert!(is_null(UrrCount::default()) && !is_null(report.count));
}

#[test]
fn usage_before_qos_has_a_report_and_a_number_of_its_own() {
    let mut urr = Urr::volume(URR);
    urr.information = MeasurementInformation::MBQE;
    let counted = |packets| Counted {
        urr: &urr,
        count: count(packets),
    };
    let mut accounts = UsageAccounts::default();
    accounts.update(Nanos::ZERO, std::slice::from_ref(&urr), &[]);
    accounts.add_before_qos(&[(URR, count(2)), (UrrId(9), count(1))]);
    accounts.add_before_qos(&[(URR, count(1))]);
    assert_eq!(accounts.checkpoints(&[])[0].before_qos, Some(count(3)));
    let mut first = accounts.report(Nanos::ZERO, counted(2), UsageTriggers::PERIO);
    let parts: Vec<_> = first
        .parts()
        .map(|part| (part.sequence, part.count, part.information))
        .collect();
    assert_eq!(
        parts,
        [
            (0, count(2), Some(UsageInformation::UAE)),
            (1, count(3), Some(UsageInformation::UBE))
        ]
    );
    accounts.add_before_qos(&[(URR, count(4))]);
    let next = accounts.report_if_any(Nanos::ZERO, counted(2), UsageTriggers::PERIO);
    let next = next.expect("something came");
    assert_eq!((next.sequence, next.next_sequence()), (2, 4));
    // Two that follow each other are one, and the numbers of the second are given again.
    assert!(first.absorb(&next));
    accounts.recall(&next);
    assert_eq!((first.count, first.before_qos), (count(2), Some(count(7))));
    assert!(
        accounts
            .report_if_any(Nanos::ZERO, counted(2), UsageTriggers::PERIO)
            .is_none()
    );
    let last = accounts.report(Nanos::ZERO, counted(2), UsageTriggers::TERMR);
    assert_eq!((last.sequence, last.before_qos), (2, Some(UrrCount::default())));
    // Without a request there is no more report.
    accounts.add_before_qos(&[(URR, count(1))]);
    accounts.update(Nanos::ZERO, &[Urr::volume(URR)], &[]);
    let plain = Counted {
        urr: &VOLUME,
        count: count(2),
    };
    let plain = accounts.report(Nanos::ZERO, plain, UsageTriggers::TERMR);
    assert_eq!(
        (plain.before_qos, plain.sequence, plain.next_sequence()),
        (None, 4, 5)
    );
}

#[test]
fn events_that_are_counted_anew_do_not_run_under() {
    let terms = rules::model::UrrTerms {
        event_threshold: Some(10),
        event_quota: Some(100),
        ..rules::model::UrrTerms::NONE
    };
    let urr = Urr {
        method: MeasurementMethod(MeasurementMethod::VOLUM.0 | MeasurementMethod::EVENT.0),
        triggers: ReportingTriggers::EVETH,
        terms: Some(Box::new(terms)),
        ..Urr::volume(URR)
    };
    let mut accounts = UsageAccounts::default();
    accounts.update(Nanos::ZERO, std::slice::from_ref(&urr), &[]);
    let counted = |packets: u64, events: u64| {
        let count = UrrCount {
            events,
            ..count(packets)
        };
        [(URR, count)]
    };
    let urrs = std::slice::from_ref(&urr);
    let reports = accounts.evaluate(Nanos::ZERO, urrs, &counted(20, 10), &[]);
    assert_eq!(
        reports
            .iter()
            .map(|report| report.count.events)
            .collect::<Vec<_>>(),
        [10]
    );
    // A change took the counter of events away and was taken back: it is there again, and nothing in it.
    assert_eq!(accounts.evaluate(Nanos::ZERO, urrs, &counted(21, 0), &[]), []);
    assert_eq!(accounts.evaluate(Nanos::ZERO, urrs, &counted(22, 9), &[]), []);
    let reports = accounts.evaluate(Nanos::ZERO, urrs, &counted(23, 10), &[]);
    assert_eq!(
        reports
            .iter()
            .map(|report| report.count.events)
            .collect::<Vec<_>>(),
        [10]
    );
}
