//! Monitoring times and inactivity, by the clock.

use flow::{Nanos, PacketTimes, UrrCount};
use proptest::prelude::*;
use rules::model::*;
use usage::{Moment, Seconds, Setting, UsageAccounts, UsageInformation, UsageReport, UsageTriggers};

const ID: UrrId = UrrId(1);
/// When the clock began.
const STARTED: u64 = 1_700_000_000;
/// Seconds without a packet after which traffic has stopped.
const SILENCE: u32 = 12;

fn octets(octets: u64) -> UrrCount {
    UrrCount {
        ul_packets: octets / 100,
        ul_octets: octets,
        ..UrrCount::default()
    }
}

fn total(octets: u64) -> Volume {
    Volume {
        total: Some(octets),
        ..Volume::default()
    }
}

struct World {
    urrs: [Urr; 1],
    accounts: UsageAccounts,
    now: Nanos,
    count: u64,
}

impl World {
    fn new(urr: Urr) -> Self {
        let mut world = Self {
            urrs: [urr],
            accounts: UsageAccounts::new(Setting {
                epoch_nanos: STARTED * 1_000_000_000,
                silence: SILENCE,
            }),
            now: Nanos::ZERO,
            count: 0,
        };
        world.accounts.update(world.now, &world.urrs, &[]);
        world
    }

    /// Time passes with a number of octets a second in each of `traffic`; the accounts are evaluated whenever they are
    /// due.
    fn pass(&mut self, traffic: &[u64]) -> Vec<UsageReport> {
        let mut reports = Vec::new();
        for octets in traffic {
            let end = self.now + std::time::Duration::from_secs(1);
            while let Some(at) = self.accounts.deadline(&self.urrs).filter(|at| *at <= end) {
                self.now = self.now.max(at);
                self.accounts.tick(self.now, &self.urrs);
                reports.extend(self.look());
            }
            self.now = end;
            self.count += octets;
            let bounds = self.accounts.bounds(&self.urrs);
            if bounds[0]
                .watermarks
                .total
                .is_some_and(|total| total <= self.count)
            {
                reports.extend(self.look());
            }
        }
        reports
    }

    fn look(&mut self) -> Vec<UsageReport> {
        let counted = [(ID, octets(self.count))];
        self.accounts.evaluate(self.now, &self.urrs, &counted, &[])
    }
}

#[test]
fn usage_before_and_after_a_monitoring_time_is_distinguished_and_what_is_subsequent_holds() {
    let terms = UrrTerms {
        monitoring_time: Some(UnixSeconds(STARTED + 10)),
        subsequent: Subsequent {
            volume_threshold: Some(total(300)),
            ..Subsequent::default()
        },
        additional_monitoring_times: vec![MonitoringTime {
            at: UnixSeconds(STARTED + 20),
            then: Subsequent::default(),
        }],
        ..UrrTerms::NONE
    };
    let mut world = World::new(Urr {
        triggers: ReportingTriggers::VOLTH,
        volume_threshold: Some(Box::new(total(100_000))),
        terms: Some(Box::new(terms)),
        ..Urr::volume(ID)
    });
    let reports = world.pass(&[100; 11]);
    let reported =
        |report: &UsageReport| (report.sequence, report.triggers, report.count, report.information);
    let [before, after] = &reports[..] else {
        panic!("{reports:?}");
    };
    let monitoring = UsageTriggers::MONIT;
    assert_eq!(
        reported(before),
        (0, monitoring, octets(900), Some(UsageInformation::BEF))
    );
    assert_eq!(
        reported(after),
        (1, monitoring, octets(0), Some(UsageInformation::AFT))
    );
    assert_eq!(before.end, after.start);
    let threshold = UsageTriggers::VOLTH;
    let reports = world.pass(&[100]);
    let all_reported = |reports: &[UsageReport]| reports.iter().map(reported).collect::<Vec<_>>();
    assert_eq!(all_reported(&reports), [(2, threshold, octets(300), None)]);
    // Nothing is subsequent to the second one: what is left of the threshold continues.
    assert_eq!(world.pass(&[50; 5]), []);
    let reports = world.pass(&[0; 3]);
    assert_eq!(reports[0].count.ul_octets, 250);
    assert_eq!((reports.len(), reports[1].count.ul_octets), (2, 0));
    let reports = world.pass(&[50]);
    assert_eq!((reports[0].triggers, reports[0].count.ul_octets), (threshold, 50));
}

/// The host's clock turns out to be three seconds ahead of what it said: the monitoring time comes earlier by the
/// process's clock; one that is set back brings what has not come later, and nothing twice.
#[test]
fn monitoring_times_follow_the_date() {
    let at = |second| MonitoringTime {
        at: UnixSeconds(STARTED + second),
        then: Subsequent::default(),
    };
    let mut world = World::new(Urr {
        terms: Some(Box::new(UrrTerms {
            monitoring_time: Some(UnixSeconds(STARTED + 10)),
            additional_monitoring_times: vec![at(20), at(30)],
            ..UrrTerms::NONE
        })),
        ..Urr::volume(ID)
    });
    let epoch = |seconds: i64| (STARTED * 1_000_000_000).wrapping_add_signed(seconds * 1_000_000_000);
    assert_eq!(world.pass(&[100; 5]), []);
    assert!(world.accounts.redate(&world.urrs, epoch(3)));
    assert_eq!(world.accounts.deadline(&world.urrs), Some(Nanos::from_secs(7)));
    assert_eq!(world.pass(&[100; 3]).len(), 2);
    assert_eq!(world.accounts.deadline(&world.urrs), Some(Nanos::from_secs(17)));
    // Set back by ten: 10 is to come again by its date, and has been.
    assert!(world.accounts.redate(&world.urrs, epoch(-7)));
    assert_eq!(world.accounts.deadline(&world.urrs), Some(Nanos::from_secs(27)));
    // Forward beyond both: they are due at once, together.
    assert!(world.accounts.redate(&world.urrs, epoch(100)));
    assert_eq!(world.pass(&[100; 2]).len(), 2);
    assert!(!world.accounts.redate(&world.urrs, epoch(0)));
    assert_eq!(world.accounts.deadline(&world.urrs), None);
}

/// Packets are counted in whole milliseconds, and a measurement begins between them.
#[test]
fn the_first_packet_is_not_before_its_measurement() {
    let urrs = [Urr::volume(ID)];
    let mut accounts = UsageAccounts::new(Setting::default());
    accounts.update(Nanos(5_700_000), &urrs, &[]);
    let [first, last] = [5, 8].map(Nanos::from_millis);
    accounts.record_packet_times(ID, PacketTimes { first, last });
    let reports = accounts.query(
        Nanos(9_000_000),
        &urrs,
        &[(ID, octets(100))],
        &[(ID, UsageTriggers::IMMER)],
    );
    let times = (reports[0].start, reports[0].first, reports[0].last);
    assert_eq!(
        times,
        (
            Moment(5_700_000),
            Some(Moment(5_700_000)),
            Some(Moment(8_000_000))
        )
    );
}

#[test]
fn a_monitoring_time_brings_other_bounds_of_events() {
    let terms = UrrTerms {
        event_threshold: Some(10),
        event_quota: Some(50),
        monitoring_time: Some(UnixSeconds(STARTED + 10)),
        subsequent: Subsequent {
            event_threshold: Some(3),
            event_quota: Some(4),
            ..Subsequent::default()
        },
        ..UrrTerms::NONE
    };
    let triggers = ReportingTriggers(ReportingTriggers::EVETH.0 | ReportingTriggers::EVEQU.0);
    let urr = Urr {
        method: MeasurementMethod::EVENT,
        triggers,
        terms: Some(Box::new(terms)),
        ..Urr::volume(ID)
    };
    let mut accounts = UsageAccounts::new(Setting {
        epoch_nanos: STARTED * 1_000_000_000,
        silence: SILENCE,
    });
    let urrs = [urr];
    accounts.update(Nanos::ZERO, &urrs, &[]);
    let mut evaluate = |seconds: u64, events: u64| {
        let count = UrrCount {
            ul_packets: events,
            ul_octets: 60 * events,
            events,
            ..UrrCount::default()
        };
        let now = Nanos::from_secs(seconds);
        accounts.tick(now, &urrs);
        let reports = accounts.evaluate(now, &urrs, &[(ID, count)], &[]);
        let reported = reports.into_iter();
        reported
            .map(|one| (one.triggers, one.count.events, one.information))
            .collect::<Vec<_>>()
    };
    assert_eq!(evaluate(5, 9), []);
    let monitoring = UsageTriggers::MONIT;
    assert_eq!(
        evaluate(10, 9),
        [
            (monitoring, 9, Some(UsageInformation::BEF)),
            (monitoring, 0, Some(UsageInformation::AFT))
        ]
    );
    assert_eq!(evaluate(11, 11), []);
    // The threshold is three from then on, the quota four.
    assert_eq!(evaluate(12, 12), [(UsageTriggers::EVETH, 3, None)]);
    assert_eq!(evaluate(13, 13), [(UsageTriggers::EVEQU, 1, None)]);
    assert_eq!(evaluate(14, 13), []);
}

/// Every subsequent threshold and quota, by the Monitoring Time and by an additional one (TS 29.244 §5.2.2.2.1).
#[test]
fn what_is_subsequent_of_volumes_and_times_holds_from_the_monitoring_time_on() {
    let cases = [
        (
            Subsequent {
                volume_threshold: Some(total(300)),
                ..Subsequent::default()
            },
            (12, UsageTriggers::VOLTH),
        ),
        (
            Subsequent {
                volume_quota: Some(total(200)),
                ..Subsequent::default()
            },
            (11, UsageTriggers::VOLQU),
        ),
        (
            Subsequent {
                time_threshold: Some(4),
                ..Subsequent::default()
            },
            (14, UsageTriggers::TIMTH),
        ),
        (
            Subsequent {
                time_quota: Some(5),
                ..Subsequent::default()
            },
            (15, UsageTriggers::TIMQU),
        ),
    ];
    for (then, (due, trigger)) in cases {
        let additional = MonitoringTime {
            at: UnixSeconds(STARTED + 10),
            then,
        };
        let first = UrrTerms {
            monitoring_time: Some(additional.at),
            subsequent: then,
            ..UrrTerms::NONE
        };
        let other = UrrTerms {
            monitoring_time: Some(UnixSeconds(STARTED + 1_000)),
            additional_monitoring_times: vec![additional],
            ..UrrTerms::NONE
        };
        for terms in [first, other] {
            let mut world = World::new(Urr {
                method: MeasurementMethod(3),
                information: MeasurementInformation::ISTM,
                triggers: ReportingTriggers(u32::MAX),
                volume_threshold: Some(Box::new(total(100_000))),
                volume_quota: Some(Box::new(total(100_000))),
                time_threshold: Some(500),
                time_quota: Some(500),
                terms: Some(Box::new(terms)),
                ..Urr::volume(ID)
            });
            let mut reported = Vec::new();
            for second in 1..=15 {
                let reports = world.pass(&[100]);
                let limit = world.accounts.bounds(&world.urrs)[0].limit;
                let is_full = limit.and_then(|limit| limit.octets.total) == Some(world.count);
                let full = if is_full { world.look() } else { Vec::new() };
                reported.extend(reports.into_iter().chain(full).map(|one| (second, one.triggers)));
            }
            reported
                .retain(|(_, triggers)| triggers.0 & !(UsageTriggers::START | UsageTriggers::MONIT).0 != 0);
            assert_eq!(reported.first(), Some(&(due, trigger)), "{then:?}");
        }
    }
}

#[test]
fn time_stops_while_nothing_comes() {
    let terms = UrrTerms {
        inactivity_detection_time: Some(4),
        ..UrrTerms::NONE
    };
    let mut world = World::new(Urr {
        method: MeasurementMethod::DURAT,
        terms: Some(Box::new(terms)),
        ..Urr::volume(ID)
    });
    // Starts with second 3; ten seconds of traffic, silence, one packet, silence.
    let traffic = [[0; 2].as_slice(), &[100; 10], &[0; 30], &[100], &[0; 30]].concat();
    assert_eq!(world.pass(&traffic), []);
    let counted = [(ID, octets(world.count))];
    let asked = [(ID, UsageTriggers::IMMER)];
    let reports = world.accounts.query(world.now, &world.urrs, &counted, &asked);
    let Seconds(measured) = reports[0].duration.unwrap();
    // Each silence is found a second late at most.
    let exact = (9 + 4) + 4;
    assert!((exact..=exact + 2).contains(&measured), "{measured}");
}

/// Seconds at which traffic started and stopped, from the reports.
fn starts_and_stops(reports: &[UsageReport]) -> Vec<(u64, bool)> {
    let reported = reports.iter().map(|report| {
        let at = report.end.on_clock().0.div_ceil(1_000_000_000);
        assert!(report.triggers == UsageTriggers::START || report.triggers == UsageTriggers::STOPT);
        (at, report.triggers == UsageTriggers::START)
    });
    reported.collect()
}

fn telling(triggers: u32) -> World {
    World::new(Urr {
        triggers: ReportingTriggers(triggers),
        ..Urr::volume(ID)
    })
}

#[test]
fn a_start_measures_nothing_and_a_stop_reports_all() {
    let mut world = telling(ReportingTriggers::START.0 | ReportingTriggers::STOPT.0);
    let traffic = [[0; 2].as_slice(), &[100; 10], &[0; 30], &[100]].concat();
    let reports = world.pass(&traffic);
    let counts: Vec<_> = reports.iter().map(|report| report.count.ul_octets).collect();
    assert_eq!(counts, [0, 1_000, 0]);
    let numbers: Vec<_> = reports.iter().map(|report| report.sequence).collect();
    assert_eq!(numbers, [0, 1, 2]);
}

#[test]
fn a_report_of_the_start_alone_is_made_once() {
    let mut world = telling(ReportingTriggers::START.0);
    let traffic = [[100; 3].as_slice(), &[0; 100], &[100; 3]].concat();
    let reports = world.pass(&traffic);
    assert_eq!(starts_and_stops(&reports), [(1, true)]);
    assert_eq!(world.accounts.deadline(&world.urrs), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn starts_are_reported_at_once_and_stops_after_the_silence_and_hardly_later(
        phases in prop::collection::vec((1..6_usize, 0..30_usize), 1..8),
    ) {
        let both = ReportingTriggers::START.0 | ReportingTriggers::STOPT.0;
        let mut world = telling(both);
        let traffic: Vec<u64> = phases.iter().flat_map(|(packets, silence)| [vec![100; *packets], vec![0; *silence]].concat()).collect();
        let reports = world.pass(&traffic);
        let reported = starts_and_stops(&reports);
        // What came in a second came at its end.
        let packets: Vec<u64> = (1..).zip(&traffic).filter(|(_, octets)| **octets > 0).map(|(second, _)| second).collect();
        let mut on: Option<u64> = None;
        let mut left = reported.iter().copied();
        let mut next = left.next();
        for second in 1..=traffic.len() as u64 {
            if let Some(last) = on {
                // It is checked once in an eighth of the time, and then again.
                let latest = last + u64::from(SILENCE) + u64::from(SILENCE / 8) + 2;
                if next == Some((second, false)) {
                    prop_assert!(second >= last + u64::from(SILENCE), "{} after {}", second, last);
                    (on, next) = (None, left.next());
                } else {
                    prop_assert!(second <= latest, "{} after {}: {:?}", second, last, reported);
                }
            }
            if packets.contains(&second) {
                if on.is_none() {
                    prop_assert_eq!(next, Some((second, true)));
                    next = left.next();
                }
                on = Some(second);
            }
        }
        prop_assert_eq!(next, None);
    }
}

/// Two members of a pool, whose time counts twice and half; the first stops when no packet comes for 5 seconds.
fn timed_pool(threshold: Option<u32>) -> [Urr; 3] {
    let durat = |id, inactivity| Urr {
        method: MeasurementMethod::DURAT,
        terms: Some(Box::new(UrrTerms {
            inactivity_detection_time: inactivity,
            ..UrrTerms::NONE
        })),
        ..Urr::volume(UrrId(id))
    };
    let member = |(urr, digits, exponent)| Aggregated {
        urr: UrrId(urr),
        multiplier: Multiplier::new(digits, exponent).unwrap(),
    };
    let pool = Urr {
        method: MeasurementMethod::DURAT,
        triggers: ReportingTriggers::TIMTH,
        time_threshold: threshold,
        terms: Some(Box::new(UrrTerms {
            pool: Some([(1, 2, 0), (2, 5, -1)].map(member).to_vec()),
            ..UrrTerms::NONE
        })),
        ..Urr::volume(UrrId(3))
    };
    [durat(1, Some(5)), durat(2, None), pool]
}

#[test]
fn the_time_of_a_pool_is_the_weighted_sum_of_its_members_times() {
    let urrs = timed_pool(None);
    let mut accounts = UsageAccounts::new(Setting::default());
    accounts.update(Nanos::ZERO, &urrs, &[]);
    let at = Nanos::from_secs;
    let counts = |first, second| {
        let pool = (UrrId(3), octets(first + second));
        [(UrrId(1), octets(first)), (UrrId(2), octets(second)), pool]
    };
    let evaluate = |accounts: &mut UsageAccounts, now, first, second| {
        let reports = accounts.evaluate(at(now), &urrs, &counts(first, second), &[]);
        assert_eq!(reports, []);
    };
    // The first runs from second 1 on, the other from 4 on.
    evaluate(&mut accounts, 1, 100, 0);
    evaluate(&mut accounts, 4, 100, 100);
    // That the first has stopped since second 6 is seen in second 8.
    evaluate(&mut accounts, 8, 100, 100);
    evaluate(&mut accounts, 10, 100, 100);
    let asked = [(UrrId(3), UsageTriggers::IMMER)];
    let reports = accounts.query(at(10), &urrs, &counts(100, 100), &asked);
    let seconds: Vec<_> = reports.iter().map(|report| report.duration).collect();
    // 5 seconds twice, and 6 seconds half.
    assert_eq!(seconds, [Some(Seconds(13))]);
    // It continues from there, in another process, too.
    let checkpoints = accounts.checkpoints(&counts(100, 100));
    let mut accounts = UsageAccounts::resuming(&checkpoints, Setting::default());
    accounts.update(at(10), &urrs, &[]);
    let none = [1, 2, 3].map(|urr| (UrrId(urr), UrrCount::default()));
    let reports = accounts.query(at(13), &urrs, &none, &asked);
    assert_eq!(reports[0].duration, Some(Seconds(1)), "and a half is left");
    let reports = accounts.query(at(14), &urrs, &none, &asked);
    assert_eq!(reports[0].duration, Some(Seconds(1)));
}

#[test]
fn the_time_threshold_of_a_pool_is_due_when_its_members_reach_it() {
    let urrs = timed_pool(Some(9));
    let mut accounts = UsageAccounts::new(Setting::default());
    accounts.update(Nanos::ZERO, &urrs, &[]);
    assert_eq!(accounts.deadline(&urrs), None);
    let counts = [(UrrId(1), UrrCount::default()), (UrrId(2), octets(100))];
    assert_eq!(accounts.evaluate(Nanos::ZERO, &urrs, &counts, &[]), []);
    assert_eq!(
        accounts.deadline(&urrs),
        Some(Nanos::from_secs(18)),
        "at half the pace"
    );
    let counts = [(UrrId(1), octets(100)), (UrrId(2), octets(100))];
    assert_eq!(accounts.evaluate(Nanos::from_secs(8), &urrs, &counts, &[]), []);
    // 4 are measured, and 5 are at two and a half times the pace.
    assert_eq!(
        accounts.deadline(&urrs),
        Some(Nanos::from_secs(9)),
        "a look at the first"
    );
    let counts = [1, 2, 3].map(|urr| (UrrId(urr), octets(100)));
    assert_eq!(accounts.evaluate(Nanos::from_secs(9), &urrs, &counts, &[]), []);
    accounts.tick(Nanos::from_secs(10), &urrs);
    let reports = accounts.evaluate(Nanos::from_secs(10), &urrs, &counts, &[]);
    let reported: Vec<_> = reports
        .iter()
        .map(|report| (report.urr, report.triggers, report.duration))
        .collect();
    assert_eq!(reported, [(UrrId(3), UsageTriggers::TIMTH, Some(Seconds(9)))]);
}
