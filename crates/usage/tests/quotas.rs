//! When a used-up quota is reported, and what a quota of 0 does, kind by kind (TS 29.244 §5.2.2.2.1, §5.2.2.3.1).

use flow::{Nanos, UrrCount};
use rules::model::*;
use usage::{Exhausted, Renewed, UsageAccounts, UsageReport, UsageTriggers};

const ID: UrrId = UrrId(1);

/// What a threshold and a quota are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Total,
    Uplink,
    Downlink,
    Time,
    Events,
}

const KINDS: [Kind; 5] = [
    Kind::Total,
    Kind::Uplink,
    Kind::Downlink,
    Kind::Time,
    Kind::Events,
];

impl Kind {
    /// The reporting triggers of threshold and quota, and those of reports.
    fn triggers(self) -> ([ReportingTriggers; 2], [UsageTriggers; 2]) {
        match self {
            Kind::Total | Kind::Uplink | Kind::Downlink => (
                [ReportingTriggers::VOLTH, ReportingTriggers::VOLQU],
                [UsageTriggers::VOLTH, UsageTriggers::VOLQU],
            ),
            Kind::Time => (
                [ReportingTriggers::TIMTH, ReportingTriggers::TIMQU],
                [UsageTriggers::TIMTH, UsageTriggers::TIMQU],
            ),
            Kind::Events => (
                [ReportingTriggers::EVETH, ReportingTriggers::EVEQU],
                [UsageTriggers::EVETH, UsageTriggers::EVEQU],
            ),
        }
    }

    fn volume(self, octets: u64) -> Option<Box<Volume>> {
        let part = |kind| (self == kind).then_some(octets);
        let volume = Volume {
            total: part(Kind::Total),
            uplink: part(Kind::Uplink),
            downlink: part(Kind::Downlink),
        };
        (volume != Volume::default()).then(|| Box::new(volume))
    }

    /// A URR with a threshold and a quota of so much, as far as there is one.
    fn urr(self, threshold: Option<u32>, quota: Option<u32>, triggers: ReportingTriggers) -> Urr {
        let of = |kind, value: Option<u32>| value.filter(|_| self == kind);
        let terms = UrrTerms {
            event_threshold: of(Kind::Events, threshold),
            event_quota: of(Kind::Events, quota),
            ..UrrTerms::NONE
        };
        Urr {
            method: MeasurementMethod(7),
            information: MeasurementInformation::ISTM,
            triggers,
            volume_threshold: threshold.and_then(|octets| self.volume(octets.into())),
            volume_quota: quota.and_then(|octets| self.volume(octets.into())),
            time_threshold: of(Kind::Time, threshold),
            time_quota: of(Kind::Time, quota),
            terms: Some(Box::new(terms)),
            ..Urr::volume(ID)
        }
    }

    /// What is counted by a second: one packet of this number of octets each way a second, and an event.
    fn count(second: u64) -> UrrCount {
        UrrCount {
            ul_packets: second,
            ul_octets: second,
            dl_packets: second,
            dl_octets: second,
            events: second,
        }
    }

    /// What a report says was used, of this kind.
    fn used(self, report: &UsageReport) -> u64 {
        match self {
            Kind::Total => report.count.ul_octets + report.count.dl_octets,
            Kind::Uplink => report.count.ul_octets,
            Kind::Downlink => report.count.dl_octets,
            Kind::Time => report.duration.unwrap().0.into(),
            Kind::Events => report.count.events,
        }
    }

    fn is_stopped(self, accounts: &UsageAccounts) -> bool {
        let state = accounts.checkpoints(&[])[0].state.unwrap();
        let bit = match self {
            Kind::Total => Exhausted::TOTAL,
            Kind::Uplink => Exhausted::UPLINK,
            Kind::Downlink => Exhausted::DOWNLINK,
            Kind::Time => Exhausted::TIME,
            Kind::Events => Exhausted::EVENTS,
        };
        state.exhausted.0 & bit != 0
    }
}

/// The triggers of a report, and what it says was used.
type Reported = (UsageTriggers, u64);

/// Ten seconds of a URR.
fn ten_seconds(kind: Kind, urr: &Urr) -> (Vec<Reported>, UsageAccounts) {
    let urrs = std::slice::from_ref(urr);
    let mut accounts = UsageAccounts::default();
    accounts.update(Nanos::ZERO, urrs, &[]);
    let mut reports = Vec::new();
    for second in 1..=10 {
        let (now, counted) = (Nanos::from_secs(second), [(ID, Kind::count(second))]);
        accounts.tick(now, urrs);
        reports.extend(accounts.evaluate(now, urrs, &counted, &[]));
    }
    let reported = |report: &UsageReport| (report.triggers, kind.used(report));
    (reports.iter().map(reported).collect(), accounts)
}

/// "To stop forwarding packets and, if no Volume Threshold is provisioned, to also generate a usage report"; beside a
/// threshold, the reporting triggers say which of both are reported.
#[test]
fn a_used_up_quota_is_reported_where_no_threshold_of_its_kind_is_or_the_trigger_asks_for_it() {
    for kind in KINDS {
        let ([threshold, quota], [at_threshold, at_quota]) = kind.triggers();
        let both = ReportingTriggers(threshold.0 | quota.0);
        let none = ReportingTriggers(0);
        let cases: [(Option<u32>, ReportingTriggers, &[Reported]); 8] = [
            (None, none, &[(at_quota, 8)]),
            (None, threshold, &[(at_quota, 8)]),
            (None, quota, &[(at_quota, 8)]),
            (None, both, &[(at_quota, 8)]),
            (Some(6), none, &[]),
            (Some(6), threshold, &[(at_threshold, 6)]),
            (Some(6), quota, &[(at_quota, 8)]),
            (Some(6), both, &[(at_threshold, 6), (at_quota, 2)]),
        ];
        for (least, triggers, expected) in cases {
            let urr = kind.urr(least, Some(8), triggers);
            let (mut reported, accounts) = ten_seconds(kind, &urr);
            // What comes after the quota is not stopped here, and may reach the threshold once more.
            reported.truncate(expected.len().max(1));
            reported.retain(|(_, used)| expected.iter().any(|(_, wanted)| wanted == used));
            assert_eq!(reported, expected, "{kind:?}, threshold {least:?}, {triggers:?}");
            assert!(kind.is_stopped(&accounts), "{kind:?}");
        }
    }
}

/// A threshold of another kind is none of this one.
#[test]
fn a_threshold_of_another_kind_does_not_keep_a_used_up_quota_from_being_reported() {
    let mut urr = Kind::Time.urr(None, Some(8), ReportingTriggers::VOLTH);
    urr.volume_threshold = Kind::Total.volume(1_000);
    let (reported, _) = ten_seconds(Kind::Time, &urr);
    assert_eq!(reported, [(UsageTriggers::TIMQU, 8)]);
    let mut urr = Kind::Total.urr(None, Some(8), ReportingTriggers::TIMTH);
    urr.time_threshold = Some(1_000);
    let (reported, _) = ten_seconds(Kind::Total, &urr);
    assert_eq!(reported[0], (UsageTriggers::VOLQU, 8));
}

fn renewed(kind: Kind) -> Renewed {
    Renewed {
        volume_quota: matches!(kind, Kind::Total | Kind::Uplink | Kind::Downlink),
        time_quota: kind == Kind::Time,
        event_quota: kind == Kind::Events,
        ..Renewed::default()
    }
}

/// "At receiving a quota with value set to zero, the UP function shall stop forwarding packets and report in a usage
/// report the network resources usage measurement since the last usage report, if applicable": whatever is there
/// beside.
#[test]
fn a_quota_of_0_stops_at_once_and_what_was_measured_until_then_is_reported() {
    for kind in KINDS {
        let (_, [_, at_quota]) = kind.triggers();
        for (threshold, before) in [(None, None), (Some(1_000), Some(2_000)), (None, Some(2_000))] {
            let mut urrs = [kind.urr(threshold, before, ReportingTriggers(0))];
            let mut accounts = UsageAccounts::default();
            accounts.update(Nanos::ZERO, &urrs, &[]);
            let now = Nanos::from_secs(5);
            let counted = [(ID, Kind::count(5))];
            assert_eq!(accounts.evaluate(now, &urrs, &counted, &[]), []);

            urrs = [kind.urr(threshold, Some(0), ReportingTriggers(0))];
            accounts.update(now, &urrs, &[(ID, renewed(kind))]);
            assert!(kind.is_stopped(&accounts), "{kind:?}");
            assert!(accounts.deadline(&urrs).is_some_and(|at| at <= now), "{kind:?}");
            let reports = accounts.evaluate(now, &urrs, &counted, &[]);
            let reported: Vec<_> = reports.iter().map(|one| (one.triggers, kind.used(one))).collect();
            let used = if kind == Kind::Total { 10 } else { 5 };
            assert_eq!(reported, [(at_quota, used)], "{kind:?}");

            // Nothing was measured since: another report has no usage.
            accounts.update(now, &urrs, &[(ID, renewed(kind))]);
            assert_eq!(accounts.evaluate(now, &urrs, &counted, &[]), [], "{kind:?}");
            assert!(accounts.deadline(&urrs).is_none_or(|at| at > now), "{kind:?}");
        }
    }
}

#[test]
fn a_urr_that_is_created_with_a_quota_of_0_stops_and_has_nothing_to_report() {
    for kind in KINDS {
        let (_, [_, at_quota]) = kind.triggers();
        let urrs = [kind.urr(None, Some(0), kind.triggers().0[1])];
        let mut accounts = UsageAccounts::default();
        accounts.update(Nanos::ZERO, &urrs, &[]);
        assert!(kind.is_stopped(&accounts), "{kind:?}");
        assert!(accounts.deadline(&urrs).is_none(), "{kind:?}");
        // The other direction continues.
        let counted = [(ID, Kind::count(3))];
        let reports = accounts.evaluate(Nanos::from_secs(3), &urrs, &counted, &[]);
        assert_eq!(reports, [], "{kind:?} {at_quota:?}");
    }
}

/// Where a threshold comes with a Monitoring Time, a quota is used up without a report from then on.
#[test]
fn a_threshold_that_holds_from_a_monitoring_time_on_is_one() {
    let mut urr = Kind::Time.urr(None, Some(8), ReportingTriggers(0));
    urr.terms.as_mut().unwrap().monitoring_time = Some(UnixSeconds(2));
    urr.terms.as_mut().unwrap().subsequent.time_threshold = Some(1_000);
    let (reported, accounts) = ten_seconds(Kind::Time, &urr);
    let triggers: Vec<_> = reported.iter().map(|(triggers, _)| *triggers).collect();
    assert_eq!(triggers, [UsageTriggers::MONIT, UsageTriggers::MONIT]);
    assert!(Kind::Time.is_stopped(&accounts));
}
