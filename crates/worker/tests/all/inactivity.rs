//! User plane inactivity of sessions (TS 29.244 §5.11.2): when a worker reports it, and what counts as a packet.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use flow::{Nanos, SessionIndex};
use rules::SessionRules;
use rules::image::{ImmediateActions, MeterShare, SessionChange, SessionImage};
use rules::model::{ApplyAction, FarId, FarUpdate};
use worker::Event;

use common::World;
use common::one_session::{events, session, to_ue, uplink};

const POLLS_PER_SECOND: u32 = 20;

/// A session in a world, and its rules.
struct Case {
    world: World,
    image: Box<SessionImage>,
}

impl Case {
    /// A session with a timer, in seconds.
    fn new(seconds: u32) -> Self {
        let mut rules = session();
        rules.set_inactivity_timer(seconds);
        let mut world = World::new();
        let image = world.install(1, rules);
        Self { world, image }
    }

    fn change(&mut self, share: MeterShare, edit: impl FnOnce(&mut SessionRules)) {
        let mut rules = (*self.image.rules).clone();
        edit(&mut rules);
        let image = self.world.image(1, &Arc::new(rules), Some(&self.image));
        self.image = image.expect("it compiles");
        let image = Box::new((*self.image).clone().with_share(share));
        let change = SessionChange::Replace(image, ImmediateActions::default());
        self.world.apply(0, change).expect("it is there");
    }

    fn edit(&mut self, edit: impl FnOnce(&mut SessionRules)) {
        self.change(MeterShare::Whole, edit);
    }

    fn act(&mut self, action: ApplyAction) {
        self.edit(|rules| {
            let update = FarUpdate {
                action: Some(action),
                ..FarUpdate::new(FarId(2))
            };
            rules.update_far(update).expect("it is there");
        });
    }

    /// Lets a number of seconds pass; returns after how many milliseconds inactivity was reported, each time.
    fn wait(&mut self, seconds: u32) -> Vec<u64> {
        let start = self.world.now;
        let mut reported = Vec::new();
        for _ in 0..seconds * POLLS_PER_SECOND {
            self.world.now = self.world.now + Duration::from_secs(1) / POLLS_PER_SECOND;
            self.world.poll();
            for event in events(&mut self.world) {
                if let Event::Inactive { session } = event {
                    assert_eq!(session, SessionIndex(1));
                    reported.push((self.world.now.0 - start.0) / 1_000_000);
                }
            }
        }
        reported
    }

    /// Inactivity is reported once, within the bound.
    #[track_caller]
    fn assert_reported_after(&mut self, seconds: u32) {
        let reported = self.wait(3 * seconds);
        let (earliest, late) = (u64::from(seconds) * 1_000, u64::from(seconds) * 100);
        let latest = earliest + late.max(1_000);
        assert!(
            reported.len() == 1 && (earliest..=latest).contains(&reported[0]),
            "{reported:?} for {seconds} s"
        );
    }
}

#[test]
fn inactivity_is_reported_once_and_again_after_packets() {
    let mut case = Case::new(10);
    case.assert_reported_after(10);
    assert_eq!(case.world.send(0, &uplink()).len(), 1);
    case.assert_reported_after(10);
    assert_eq!(case.world.send(1, &to_ue()).len(), 1);
    case.assert_reported_after(10);
    case.world.assert_conserved();
}

#[test]
fn a_session_in_use_is_not_inactive() {
    let mut case = Case::new(5);
    for _ in 0..20 {
        assert_eq!(case.world.send(0, &uplink()).len(), 1);
        assert!(case.wait(4).is_empty());
    }
    assert!(case.wait(3).len() == 1);
    let usage = case.world.query(0, SessionIndex(1));
    assert_eq!(usage.counters.len(), case.image.rules.urrs().len());
}

#[test]
fn packets_that_are_dropped_or_wait_are_packets() {
    let mut case = Case::new(5);
    for action in [ApplyAction::DROP, ApplyAction::BUFF] {
        case.act(action);
        assert!(case.wait(4).is_empty());
        assert!(case.world.send(1, &to_ue()).is_empty());
        assert!(case.wait(4).is_empty());
        assert_eq!(case.wait(2).len(), 1);
        assert!(case.world.send(1, &to_ue()).is_empty());
    }
}

#[test]
fn the_timer_can_be_changed_and_taken_away() {
    let mut case = Case::new(5);
    assert!(case.wait(4).is_empty());
    // What does not name the timer does not start it anew.
    case.act(ApplyAction::FORW);
    assert_eq!(case.wait(3).len(), 1);
    case.edit(|rules| rules.set_inactivity_timer(20));
    case.assert_reported_after(20);
    // The same again is a timer anew.
    case.edit(|rules| rules.set_inactivity_timer(20));
    case.assert_reported_after(20);
    case.edit(|rules| rules.set_inactivity_timer(0));
    assert!(case.wait(100).is_empty());
    case.edit(|rules| rules.set_inactivity_timer(1));
    case.assert_reported_after(1);
    let gone = case.world.apply(0, SessionChange::Remove(SessionIndex(1)));
    gone.expect("it is there");
    assert!(case.wait(10).is_empty());
}

#[test]
fn a_worker_that_shares_a_session_reports_nothing() {
    let mut case = Case::new(2);
    case.change(MeterShare::Leaving, |_| {});
    assert!(case.wait(20).is_empty());
    case.edit(|_| {});
    case.assert_reported_after(2);
}

#[test]
fn the_longest_timers_do_no_harm() {
    let mut case = Case::new(u32::MAX);
    assert!(case.wait(200).is_empty());
    case.world.now = Nanos(u64::MAX / 4);
    case.world.poll();
    assert!(case.wait(1).len() <= 1);
}
