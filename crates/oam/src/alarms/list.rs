//! The list of alarms as a state machine.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow::Nanos;

use super::kind::Kind;
use crate::values::{AlarmChange, AlarmEvent, AlarmEventList, AlarmList, AlarmRow, Severity};

/// Alarms at a time; what exceeds it is counted.
const MOST_ALARMS: usize = 1_000;
/// Events that are kept.
const MOST_EVENTS: usize = 1_000;
/// How long a condition has to be gone before its alarm is cleared, so that what comes and goes is one alarm.
const HOLD: Duration = Duration::from_secs(10);

/// How far a condition goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// It raises an alarm.
    Raises,
    /// It raises none, but keeps one that is there.
    Keeps,
}

/// Something that is wrong at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What.
    pub kind: Kind,
    /// With what: an SMF, a port, a pool; empty: the UPF.
    pub object: String,
    /// How far it goes.
    pub level: Level,
    /// In words.
    pub text: String,
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Since the start of the process.
    pub now: Nanos,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
}

#[derive(Clone, Debug)]
struct Alarm {
    id: u64,
    text: String,
    first_raised_ms: u64,
    changed_ms: u64,
    count: u64,
    /// Since when the condition is gone.
    gone: Option<Nanos>,
}

type Key = (Kind, String);

/// All alarms, and the events of late.
#[derive(Debug, Default)]
pub struct Alarms {
    active: BTreeMap<Key, Alarm>,
    /// Conditions that found no room, since the start.
    omitted: u64,
    events: VecDeque<AlarmEvent>,
    last_event: u64,
    last_alarm: u64,
}

impl Alarms {
    /// What is wrong at a moment: all of it, each kind and object once.
    pub fn observe(&mut self, at: At, conditions: Vec<Condition>) {
        let mut gone: Vec<Key> = self.active.keys().cloned().collect();
        for condition in conditions {
            let key = (condition.kind, condition.object);
            gone.retain(|other| *other != key);
            // SMFs choose how many they are: they leave room for what is configured.
            let most = match key.0 {
                Kind::SmfLost => MOST_ALARMS / 2,
                _ => MOST_ALARMS,
            };
            let is_full = self.active.len() >= most;
            match self.active.get_mut(&key) {
                Some(alarm) => {
                    let is_back = alarm.gone.take().is_some();
                    if is_back {
                        alarm.count += 1;
                    }
                    if is_back || alarm.text != condition.text {
                        alarm.changed_ms = at.unix_ms;
                        alarm.text = condition.text;
                    }
                }
                None if condition.level == Level::Keeps => {}
                None if is_full => self.omitted += 1,
                None => self.raise(at, key, condition.text),
            }
        }
        for key in gone {
            self.note_gone(at, key);
        }
    }

    fn raise(&mut self, at: At, key: Key, text: String) {
        self.last_alarm += 1;
        let alarm = Alarm {
            id: self.last_alarm,
            text,
            first_raised_ms: at.unix_ms,
            changed_ms: at.unix_ms,
            count: 1,
            gone: None,
        };
        self.push(at, AlarmChange::Raised, row(&key, &alarm));
        self.active.insert(key, alarm);
    }

    fn note_gone(&mut self, at: At, key: Key) {
        let Some(alarm) = self.active.get_mut(&key) else {
            return;
        };
        let since = *alarm.gone.get_or_insert(at.now);
        if at.now.since(since) < HOLD {
            return;
        }
        let mut cleared = row(&key, alarm);
        cleared.severity = Severity::Cleared;
        cleared.changed_ms = at.unix_ms;
        self.active.remove(&key);
        self.push(at, AlarmChange::Cleared, cleared);
    }

    fn push(&mut self, at: At, change: AlarmChange, alarm: AlarmRow) {
        if self.events.len() >= MOST_EVENTS {
            self.events.pop_front();
        }
        self.last_event += 1;
        self.events.push_back(AlarmEvent {
            id: self.last_event,
            time_ms: at.unix_ms,
            change,
            alarm,
        });
    }

    /// All alarms, the worst first.
    #[must_use]
    pub fn list(&self) -> AlarmList {
        let mut alarms: Vec<AlarmRow> = self.active.iter().map(|(key, alarm)| row(key, alarm)).collect();
        alarms.sort_by_key(|alarm| (alarm.severity, alarm.id));
        AlarmList {
            alarms,
            omitted: self.omitted,
            last_event: self.last_event,
        }
    }

    /// Events behind the one with this number, `most` of them.
    #[must_use]
    pub fn events(&self, after: u64, most: usize) -> AlarmEventList {
        let first = self.events.front().map_or(self.last_event + 1, |event| event.id);
        // A number that this process has not given is of one before.
        let after = if after > self.last_event { 0 } else { after };
        let events = self.events.iter().filter(|event| event.id > after);
        AlarmEventList {
            events: events.take(most).cloned().collect(),
            lost: first.saturating_sub(after + 1),
        }
    }
}

fn row(key: &Key, alarm: &Alarm) -> AlarmRow {
    let (kind, object) = key;
    AlarmRow {
        id: alarm.id,
        alarm: kind.label().into(),
        object: object.clone(),
        severity: kind.severity(),
        event_type: kind.event_type().into(),
        probable_cause: kind.probable_cause().into(),
        text: alarm.text.clone(),
        first_raised_ms: alarm.first_raised_ms,
        changed_ms: alarm.changed_ms,
        count: alarm.count,
    }
}

/// The alarms of control's thread, for those that read them.
#[derive(Clone, Debug, Default)]
pub struct SharedAlarms(Arc<Mutex<Alarms>>);

impl SharedAlarms {
    /// The alarms, for a moment.
    pub fn lock(&self) -> MutexGuard<'_, Alarms> {
        // What is behind it is whole between any two statements that may panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: u64) -> At {
        At {
            now: Nanos::from_secs(second),
            unix_ms: 1_000 * second,
        }
    }

    fn condition(object: &str, level: Level) -> Condition {
        Condition {
            kind: Kind::LinkDown,
            object: object.into(),
            level,
            text: "no link".into(),
        }
    }

    fn down(object: &str) -> Vec<Condition> {
        vec![condition(object, Level::Raises)]
    }

    fn changes(alarms: &Alarms) -> Vec<(AlarmChange, u64)> {
        let events = alarms.events(0, 100).events;
        events
            .iter()
            .map(|event| (event.change, event.time_ms / 1_000))
            .collect()
    }

    #[test]
    fn what_comes_and_goes_is_one_alarm_until_it_has_been_gone_for_long() {
        let mut alarms = Alarms::default();
        for second in 0..20 {
            let bad = second % 3 == 0;
            alarms.observe(at(second), if bad { down("n6") } else { Vec::new() });
        }
        let row = &alarms.list().alarms[0];
        assert_eq!(
            (row.severity, row.count, row.first_raised_ms),
            (Severity::Critical, 7, 0)
        );
        (20..40).for_each(|second| alarms.observe(at(second), Vec::new()));
        assert!(alarms.list().alarms.is_empty());
        assert_eq!(
            changes(&alarms),
            [(AlarmChange::Raised, 0), (AlarmChange::Cleared, 29)]
        );
        assert_eq!(alarms.events(0, 100).events[1].alarm.severity, Severity::Cleared);
    }

    #[test]
    fn between_two_thresholds_an_alarm_stays_and_none_is_raised() {
        let mut alarms = Alarms::default();
        let between = || vec![condition("pool", Level::Keeps)];
        alarms.observe(at(0), between());
        assert!(alarms.list().alarms.is_empty());
        alarms.observe(at(1), down("pool"));
        (2..60).for_each(|second| alarms.observe(at(second), between()));
        assert_eq!(alarms.list().alarms.len(), 1);
        assert_eq!(changes(&alarms), [(AlarmChange::Raised, 1)]);
    }

    #[test]
    fn alarms_and_events_are_bounded() {
        let mut alarms = Alarms::default();
        let many = |from: usize| (from..from + 1_500).map(|port| condition(&port.to_string(), Level::Raises));
        alarms.observe(at(0), many(0).collect());
        assert_eq!(
            (alarms.list().alarms.len(), alarms.list().omitted),
            (MOST_ALARMS, 500)
        );
        (1..12).for_each(|second| alarms.observe(at(second), Vec::new()));
        let events = alarms.events(0, usize::MAX);
        assert_eq!((events.events.len(), events.lost), (MOST_EVENTS, 1_000));
        assert_eq!(alarms.events(1_999, 10).events.len(), 1);
        // The number of another process.
        assert_eq!(alarms.events(5_000, 10).events.len(), 10);
    }

    proptest! {
        /// Against a model that looks back over all seconds.
        #[test]
        fn an_alarm_is_there_when_its_condition_was_of_late(
            seconds in proptest::collection::vec(proptest::collection::vec(0_u8..8, 3), 1..120)
        ) {
            let names = ["a", "b", "c"];
            let is_bad = |second: &Vec<u8>, object: usize| second[object] == 0;
            let mut alarms = Alarms::default();
            for (now, second) in seconds.iter().enumerate() {
                let bad = (0..3).filter(|object| is_bad(second, *object));
                alarms.observe(at(now as u64), bad.map(|object| condition(names[object], Level::Raises)).collect());
                let rows = alarms.list().alarms;
                for (object, name) in names.iter().enumerate() {
                    let of_late = seconds[..=now].iter().rev().take(HOLD.as_secs() as usize + 1);
                    let expected = of_late.clone().any(|second| is_bad(second, object));
                    prop_assert_eq!(rows.iter().any(|row| row.object == *name), expected);
                }
            }
            for name in names {
                let events = alarms.events(0, usize::MAX).events;
                let own: Vec<_> = events.iter().filter(|event| event.alarm.object == name).collect();
                for (place, event) in own.iter().enumerate() {
                    let expected = if place % 2 == 0 { AlarmChange::Raised } else { AlarmChange::Cleared };
                    prop_assert_eq!(event.change, expected);
                }
            }
        }
    }
}
