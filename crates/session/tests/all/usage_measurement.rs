//! What sessions' URRs do by themselves: what counters reach, and timers, become reports and bounds.

use crate::support;

use std::time::Duration;

use flow::{Bounds, Nanos, Reached, SessionIndex, UrrCount, Volumes};
use rules::model::*;
use session::*;

use support::*;

const URR: UrrId = UrrId(1);

fn metered(urr: Urr) -> Changes {
    Changes {
        create_urrs: vec![urr],
        ..chosen_session(UE)
    }
}

fn total(octets: u64) -> Option<Box<Volume>> {
    Some(Box::new(Volume {
        total: Some(octets),
        ..Volume::default()
    }))
}

/// A URR that reports every 1,000 octets and stops at 2,500.
fn volumes() -> Urr {
    Urr {
        triggers: ReportingTriggers(ReportingTriggers::VOLTH.0 | ReportingTriggers::VOLQU.0),
        volume_threshold: total(1_000),
        volume_quota: total(2_500),
        ..Urr::volume(URR)
    }
}

fn octets(octets: u64) -> UrrCount {
    UrrCount {
        ul_packets: octets / 100,
        ul_octets: octets,
        ..UrrCount::default()
    }
}

const WATERMARK: Reached = Reached {
    watermark: true,
    limits: 0,
    ..Reached::NOTHING
};
const LIMIT: Reached = Reached {
    watermark: false,
    limits: 1,
    ..Reached::NOTHING
};

impl World {
    fn metered(&mut self, urr: Urr) -> (Seid, SessionIndex) {
        let seid = self.establish(1, metered(urr)).expect("a session").seid;
        (seid, self.sessions.session(seid).expect("it is there").index())
    }

    fn reaches(&mut self, index: SessionIndex, count: UrrCount, reached: Reached) {
        let event = CounterReached {
            urr: URR,
            count,
            times: None,
            reached,
        };
        self.sessions.counter_reached(self.now, index, event);
    }

    /// The deadlines of requests that are done pass.
    fn pass_deadlines(&mut self) {
        self.pass(Duration::from_secs(2));
    }

    /// What the session's worker counts.
    fn counts(&mut self, index: SessionIndex, count: UrrCount) {
        let holder = |worker: &&mut fleet::Worker| worker.sessions.contains_key(&index);
        let worker = self.fleet.workers.iter_mut().find(holder).expect("a worker");
        worker.counts.insert((index, URR), count);
    }

    fn reports(&mut self) -> Vec<(u32, UsageTriggers, u64, Option<Seconds>)> {
        self.run();
        let reports = std::iter::from_fn(|| self.sessions.poll_usage());
        let reported = reports.map(|(_, report)| {
            let octets = report.count.ul_octets + report.count.dl_octets;
            (report.sequence, report.triggers, octets, report.duration)
        });
        reported.collect()
    }

    /// The bounds that the URR's counter was given last on the live session.
    fn bounds(&mut self) -> Bounds {
        self.run();
        let all = self.fleet.workers.iter().flat_map(|worker| &worker.bounds);
        all.last().expect("bounds").1[0].1
    }

    fn bounds_set(&mut self) -> usize {
        self.run();
        self.fleet.workers.iter().map(|worker| worker.bounds.len()).sum()
    }
}

#[test]
fn bounds_that_came_with_the_rules_are_not_sent_again() {
    let mut world = World::new(1);
    let (seid, _) = world.metered(volumes());
    assert_eq!(world.bounds_set(), 0);
    world.modify(seid, drop_downlink()).unwrap();
    assert_eq!(world.bounds_set(), 0);
}

#[test]
fn a_threshold_is_reported_and_starts_again_and_a_quota_stops() {
    let mut world = World::new(1);
    let (seid, index) = world.metered(volumes());
    let image = &world.fleet.workers[0].sessions[&index];
    assert_eq!(image.block.bounds[0].watermarks, Volumes::of_total(1_000));
    assert_eq!(
        image.block.bounds[0].limit.unwrap().octets,
        Volumes::of_total(2_500)
    );

    world.reaches(index, octets(1_100), WATERMARK);
    assert_eq!(world.reports(), [(0, UsageTriggers::VOLTH, 1_100, None)]);
    assert_eq!(world.bounds().watermarks, Volumes::of_total(2_100));
    assert_eq!(world.bounds().limit.unwrap().octets, Volumes::of_total(2_500));

    let both = Reached {
        watermark: true,
        limits: 1,
        ..Reached::NOTHING
    };
    world.reaches(index, octets(2_400), both);
    let due = UsageTriggers::VOLTH | UsageTriggers::VOLQU;
    assert_eq!(world.reports(), [(1, due, 1_300, None)]);
    assert_eq!(world.bounds().limit.unwrap().octets, Volumes::of_total(0));
    // It is reported again when that is set, without a change.
    let set = world.bounds_set();
    world.reaches(index, octets(2_400), LIMIT);
    assert_eq!((world.reports().len(), world.bounds_set()), (0, set));

    world.counts(index, octets(2_400));
    let grant = Changes {
        update_urrs: vec![UrrUpdate {
            volume_quota: Edit::Set(total(500).unwrap()),
            ..UrrUpdate::new(URR)
        }],
        ..Changes::default()
    };
    world.modify(seid, grant).expect("a new quota");
    let image = &world.fleet.workers[0].sessions[&index];
    assert_eq!(
        image.block.bounds[0].limit.unwrap().octets,
        Volumes::of_total(2_900)
    );
    let deleted = world.delete(seid).expect("it goes");
    assert_eq!(deleted.usage[0].sequence, 2);
    world.pass_deadlines();
    assert_eq!(world.sessions.poll_timeout(), None);
    world.assert_clean();
}

#[test]
fn packets_that_were_taken_back_have_the_bounds_set_again() {
    let mut world = World::new(1);
    let (_, index) = world.metered(volumes());
    world.reaches(index, octets(900), WATERMARK);
    assert_eq!(world.reports(), []);
    assert_eq!(world.bounds().watermarks, Volumes::of_total(1_000));
}

#[test]
fn what_is_reached_under_bounds_on_their_way_out_means_nothing() {
    let mut world = World::new(1);
    let (_, index) = world.metered(volumes());
    world.reaches(index, octets(1_000), WATERMARK);
    // The worker has not got the new bounds yet.
    world.reaches(index, octets(1_200), WATERMARK);
    assert_eq!(world.reports(), [(0, UsageTriggers::VOLTH, 1_000, None)]);
    world.reaches(index, octets(2_050), WATERMARK);
    assert_eq!(world.reports(), [(1, UsageTriggers::VOLTH, 1_050, None)]);
}

#[test]
fn periods_are_reported_from_the_counts_of_that_moment() {
    let mut world = World::new(1);
    let (seid, index) = world.metered(Urr {
        triggers: ReportingTriggers::PERIO,
        measurement_period: Some(10),
        ..Urr::volume(URR)
    });
    world.pass_deadlines();
    assert_eq!(world.sessions.poll_timeout(), Some(Nanos::from_secs(11)));
    world.counts(index, octets(700));
    world.pass(Duration::from_secs(8));
    assert_eq!(world.reports(), [(0, UsageTriggers::PERIO, 700, None)]);
    world.counts(index, octets(900));
    world.pass(Duration::from_secs(25));
    assert_eq!(world.reports(), [(1, UsageTriggers::PERIO, 200, None)]);
    assert_eq!(world.sessions.poll_timeout(), Some(Nanos::from_secs(41)));
    world.delete(seid).expect("it goes");
    world.pass_deadlines();
    assert_eq!(world.sessions.poll_timeout(), None);
}

#[test]
fn a_time_quota_stops_the_traffic_before_the_last_counts_are_asked_for() {
    let mut world = World::new(1);
    let (_, index) = world.metered(Urr {
        method: MeasurementMethod(3),
        information: MeasurementInformation::ISTM,
        triggers: ReportingTriggers(ReportingTriggers::TIMTH.0 | ReportingTriggers::TIMQU.0),
        time_threshold: Some(7),
        time_quota: Some(10),
        ..Urr::volume(URR)
    });
    world.counts(index, octets(300));
    world.pass(Duration::from_millis(7_200));
    let seconds = |seconds| Some(Seconds(seconds));
    assert_eq!(world.reports(), [(0, UsageTriggers::TIMTH, 300, seconds(7))]);
    world.pass(Duration::from_millis(2_800));
    world.hand_over();
    let queue = &world.fleet.workers[0].queue;
    assert!(
        matches!(queue[0], Effect::Apply { .. }) && matches!(queue[1], Effect::Query { .. }),
        "{queue:?}"
    );
    world.counts(index, octets(800));
    assert_eq!(world.reports(), [(1, UsageTriggers::TIMQU, 500, seconds(3))]);
    assert_eq!(world.bounds().limit.unwrap().octets, Volumes::of_total(0));
    world.pass(Duration::from_secs(100));
    assert_eq!(world.reports(), []);
}

#[test]
fn time_starts_with_the_first_packet() {
    let mut world = World::new(1);
    let (_, index) = world.metered(Urr {
        method: MeasurementMethod::DURAT,
        triggers: ReportingTriggers::TIMTH,
        time_threshold: Some(5),
        ..Urr::volume(URR)
    });
    let image = &world.fleet.workers[0].sessions[&index];
    assert_eq!(image.block.bounds[0].watermarks, Volumes::of_total(1));
    world.pass(Duration::from_secs(60));
    assert_eq!((world.reports(), world.sessions.poll_timeout()), (vec![], None));
    world.reaches(index, octets(100), WATERMARK);
    world.run();
    world.counts(index, octets(400));
    world.pass(Duration::from_secs(5));
    assert_eq!(
        world.reports(),
        [(0, UsageTriggers::TIMTH, 400, Some(Seconds(5)))]
    );
}

#[test]
fn silence_is_found_and_voids_the_quota() {
    let mut world = World::new(1);
    let terms = UrrTerms {
        quota_holding_time: Some(16),
        ..UrrTerms::NONE
    };
    let (_, index) = world.metered(Urr {
        triggers: ReportingTriggers::QUHTI,
        volume_quota: total(10_000),
        terms: Some(Box::new(terms)),
        ..Urr::volume(URR)
    });
    // Packets up to second 20, then none.
    for second in 1..40_u64 {
        world.counts(index, octets(second.min(20) * 100));
        world.pass(Duration::from_secs(1));
        let reports = world.reports();
        if second < 36 {
            assert_eq!(reports, [], "second {second}");
        } else if !reports.is_empty() {
            assert_eq!(reports, [(0, UsageTriggers::QUHTI, 2_000, None)]);
            assert!(second <= 38, "{second}");
            assert_eq!(world.bounds().limit.unwrap().octets.total, Some(0));
            return;
        }
    }
    panic!("silence was not found");
}

fn reported(done: &Done) -> Vec<(u32, u32, UsageTriggers, u64)> {
    let reports = done.usage.iter();
    let reported = reports.map(|report| {
        (
            report.urr.0,
            report.sequence,
            report.triggers,
            report.count.ul_packets,
        )
    });
    reported.collect()
}

/// URRs 1 to 5, of which 2 reports with 1, 3 with 2, 4 with 1 but does not ask for that, and 5 with 1 and 2.
fn linked() -> Changes {
    let urr = |id: u32, linked: &[u32], triggers| Urr {
        triggers,
        terms: Some(Box::new(UrrTerms {
            linked: linked.iter().copied().map(UrrId).collect(),
            ..UrrTerms::NONE
        })),
        ..Urr::volume(UrrId(id))
    };
    let mut changes = chosen_session(UE);
    changes.create_urrs = vec![
        Urr::volume(UrrId(1)),
        urr(2, &[1], ReportingTriggers::LIUSA),
        urr(3, &[2], ReportingTriggers::LIUSA),
        urr(4, &[1], ReportingTriggers::VOLTH),
        urr(5, &[1, 2], ReportingTriggers::LIUSA),
    ];
    changes.create_pdrs[0].urrs = (1..=5).map(UrrId).collect();
    changes
}

/// TS 29.244 §5.2.2.4: "when a usage report is to be generated for the URR Y, regardless of the condition".
#[test]
fn urrs_that_are_linked_to_one_that_is_removed_report_with_it() {
    const LAST: UsageTriggers = UsageTriggers::TERMR;
    const LINKED: UsageTriggers = UsageTriggers::LIUSA;
    let mut world = World::new(1);
    let seid = world.establish(1, linked()).unwrap().seid;
    let index = world.sessions.session(seid).unwrap().index();
    let count = |world: &mut World, urrs: &[u32]| {
        for urr in urrs {
            world.fleet.count(index, UrrId(*urr), uplink_count(3));
        }
    };
    // One that is removed and has nothing to report has others report nothing. It comes again.
    let anew = |changes: Changes| Changes {
        remove_urrs: vec![UrrId(1)],
        create_urrs: vec![Urr::volume(UrrId(1))],
        ..changes
    };
    count(&mut world, &[2, 4]);
    assert_eq!(
        reported(&world.modify(seid, anew(Changes::default())).unwrap()),
        []
    );

    // The links went with the old one.
    let link = UrrUpdate {
        terms: Some(Box::new(UrrTermsUpdate {
            linked: Some(vec![UrrId(1)]),
            ..UrrTermsUpdate::default()
        })),
        ..UrrUpdate::new(UrrId(2))
    };
    let uses = PdrUpdate {
        urrs: Some((1..=5).map(UrrId).collect()),
        ..PdrUpdate::new(UL)
    };
    let again = Changes {
        update_urrs: vec![link],
        update_pdrs: vec![uses],
        ..Changes::default()
    };
    world.modify(seid, again).unwrap();
    count(&mut world, &[1, 3, 4]);
    assert_eq!(
        reported(&world.modify(seid, anew(Changes::default())).unwrap()),
        [(1, 0, LAST, 3), (2, 0, LINKED, 3), (3, 0, LINKED, 3)],
        "5 has nothing to report, 4 does not ask for it"
    );

    // What is removed as well is reported once, for that.
    count(&mut world, &[2, 3, 5]);
    let removed = Changes {
        remove_urrs: vec![UrrId(2), UrrId(3)],
        ..Changes::default()
    };
    assert_eq!(
        reported(&world.modify(seid, removed).unwrap()),
        [(2, 1, LAST, 3), (3, 1, LAST, 3), (5, 0, LINKED, 3)]
    );
    world.delete(seid).unwrap();
    world.assert_clean();
}

/// TS 29.244 §5.2.2.3.1: a URR without PDRs is kept, and its measurement is reset; NOTE 5: its quota is as it was
/// provisioned.
#[test]
fn a_urr_without_pdrs_measures_no_time_and_begins_anew_with_the_next_pdr() {
    let mut world = World::new(1);
    let mut changes = metered(Urr {
        method: MeasurementMethod(3),
        information: MeasurementInformation::ISTM,
        triggers: ReportingTriggers(ReportingTriggers::PERIO.0 | ReportingTriggers::QUHTI.0),
        measurement_period: Some(100),
        time_quota: Some(30),
        terms: Some(Box::new(UrrTerms {
            quota_holding_time: Some(40),
            ..UrrTerms::NONE
        })),
        ..Urr::volume(URR)
    });
    changes.create_pdrs[1].urrs = [].into_iter().collect();
    let seid = world.establish(1, changes).unwrap().seid;
    let index = world.sessions.session(seid).unwrap().index();
    let uses = |urrs: Vec<UrrId>| Changes {
        update_pdrs: vec![PdrUpdate {
            urrs: Some(urrs),
            ..PdrUpdate::new(UL)
        }],
        ..Changes::default()
    };
    world.pass(Duration::from_secs(20));
    let done = world.modify(seid, uses(Vec::new())).unwrap();
    assert_eq!(done.usage[0].duration, Some(Seconds(20)));
    assert_eq!(done.usage[0].triggers, UsageTriggers::TERMR);

    // No PDR, no measurement. That no packet comes is reported, and takes nothing from the quota of the next PDR.
    for _ in 0..6 {
        world.pass(Duration::from_secs(10));
    }
    assert_eq!(world.reports(), [(1, UsageTriggers::QUHTI, 0, Some(Seconds(0)))]);
    world.modify(seid, uses(vec![URR])).unwrap();
    let image = &world.fleet.workers[0].sessions[&index];
    let bounds = image.block.bounds[0];
    assert_eq!((bounds.limit, bounds.watermarks), (None, Volumes::of_total(1)));

    world.counts(index, octets(100));
    world.reaches(index, octets(100), WATERMARK);
    assert_eq!(world.reports(), []);
    world.pass(Duration::from_secs(29));
    assert_eq!(world.reports(), []);
    world.pass(Duration::from_secs(1));
    assert_eq!(
        world.reports(),
        [(2, UsageTriggers::TIMQU, 100, Some(Seconds(30)))]
    );
}

/// TS 29.244 §5.2.2.3.1: a quota of 0 stops what it is of, and the usage since the last report is reported.
#[test]
fn a_quota_of_0_has_the_usage_since_the_last_report_reported_at_once() {
    let mut world = World::new(1);
    let (seid, index) = world.metered(Urr {
        triggers: ReportingTriggers::VOLTH,
        volume_threshold: total(1_000),
        volume_quota: total(2_500),
        ..Urr::volume(URR)
    });
    world.counts(index, octets(700));
    let grant = || Changes {
        update_urrs: vec![UrrUpdate {
            volume_quota: Edit::Set(total(0).unwrap()),
            ..UrrUpdate::new(URR)
        }],
        ..Changes::default()
    };
    world.modify(seid, grant()).unwrap();
    let image = &world.fleet.workers[0].sessions[&index];
    assert_eq!(
        image.block.bounds[0].limit.unwrap().octets,
        Volumes::of_total(0),
        "before it is confirmed"
    );
    world.pass(Duration::ZERO);
    assert_eq!(world.reports(), [(0, UsageTriggers::VOLQU, 700, None)]);
    world.modify(seid, grant()).unwrap();
    world.pass(Duration::from_secs(10));
    assert_eq!(world.reports(), [], "there is nothing to report");
}
