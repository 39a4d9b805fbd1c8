use super::*;

const SESSIONS: u64 = 100;

fn queued() -> ReportOutbox {
    let mut reports = ReportOutbox::new(1, ReportLimits::default());
    for seid in 1..=SESSIONS {
        reports.add(
            Nanos::ZERO,
            Seid(seid),
            AssociationId(1),
            SessionEvent::Inactivity,
        );
    }
    reports
}

#[test]
fn a_session_that_is_handed_over_is_in_one_line_and_lines_do_not_grow_by_it() {
    let mut reports = queued();
    for round in 0..50 {
        for seid in 1..=SESSIONS {
            reports.hand_over(Seid(seid), AssociationId(2 + round % 2));
        }
        let places: usize = reports.lines.values().map(|line| line.ready.len()).sum();
        assert!(places <= 3 * SESSIONS as usize, "{places}");
    }
    let all: Vec<Seid> = std::iter::from_fn(|| {
        let seid = reports.poll(Nanos::ZERO)?;
        reports.take(Nanos::ZERO, seid).map(|_| seid)
    })
    .collect();
    assert_eq!(all, (1..=SESSIONS).map(Seid).collect::<Vec<_>>());
    assert!(
        reports
            .lines
            .values()
            .all(|line| line.ready.is_empty() && line.void == 0)
    );
}

#[test]
fn a_session_that_ends_leaves_no_place_in_its_line() {
    let mut reports = queued();
    (1..=SESSIONS).for_each(|seid| drop(reports.end(Seid(seid))));
    assert!(reports.lines.values().all(|line| line.ready.is_empty()));
    assert_eq!((reports.poll(Nanos::ZERO), reports.len()), (None, 0));
}
