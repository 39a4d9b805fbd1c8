//! Monitoring times and inactivity, by the clock.

use flow::{Nanos, UrrCount};
use rules::model::*;
use usage::{Seconds, UsageBook, UsageInformation, UsageReport, UsageTriggers};

const ID: UrrId = UrrId(1);
/// When the clock began.
const STARTED: u64 = 1_700_000_000;

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
    book: UsageBook,
    now: Nanos,
    count: u64,
}

impl World {
    fn new(urr: Urr) -> Self {
        let mut world = Self {
            urrs: [urr],
            book: UsageBook::new(STARTED),
            now: Nanos::ZERO,
            count: 0,
        };
        world.book.follow(world.now, &world.urrs, &[]);
        world
    }

    /// Time passes with so many octets a second in each of `traffic`, and with every look that the book wants.
    fn pass(&mut self, traffic: &[u64]) -> Vec<UsageReport> {
        let mut reports = Vec::new();
        for octets in traffic {
            let end = self.now + std::time::Duration::from_secs(1);
            while let Some(at) = self.book.deadline(&self.urrs).filter(|at| *at <= end) {
                self.now = self.now.max(at);
                self.book.tick(self.now, &self.urrs);
                reports.extend(self.look());
            }
            self.now = end;
            self.count += octets;
            let bounds = self.book.bounds(&self.urrs);
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
        self.book.settle(self.now, &self.urrs, &counted, &[])
    }
}

#[test]
fn usage_before_and_after_a_monitoring_time_is_told_apart_and_what_is_subsequent_holds() {
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
    let told = |report: &UsageReport| (report.sequence, report.triggers, report.count, report.information);
    let [before, after] = &reports[..] else {
        panic!("{reports:?}");
    };
    let monitoring = UsageTriggers::MONIT;
    assert_eq!(
        told(before),
        (0, monitoring, octets(900), Some(UsageInformation::BEF))
    );
    assert_eq!(
        told(after),
        (1, monitoring, octets(0), Some(UsageInformation::AFT))
    );
    assert_eq!(before.end, after.start);
    let threshold = UsageTriggers::VOLTH;
    let reports = world.pass(&[100]);
    let told_all = |reports: &[UsageReport]| reports.iter().map(told).collect::<Vec<_>>();
    assert_eq!(told_all(&reports), [(2, threshold, octets(300), None)]);
    // Nothing is subsequent to the second one: what is left of the threshold goes on.
    assert_eq!(world.pass(&[50; 5]), []);
    let reports = world.pass(&[0; 3]);
    assert_eq!(reports[0].count.ul_octets, 250);
    assert_eq!((reports.len(), reports[1].count.ul_octets), (2, 0));
    let reports = world.pass(&[50]);
    assert_eq!((reports[0].triggers, reports[0].count.ul_octets), (threshold, 50));
}

#[test]
fn time_stands_still_while_nothing_comes() {
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
    let reports = world.book.query(world.now, &world.urrs, &counted, &asked);
    let Seconds(measured) = reports[0].duration.unwrap();
    // Each silence is found a second late at most.
    let exact = (9 + 4) + 4;
    assert!((exact..=exact + 2).contains(&measured), "{measured}");
}
