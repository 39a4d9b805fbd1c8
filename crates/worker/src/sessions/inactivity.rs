//! Timers of sessions whose user plane inactivity is reported (TS 29.244 §5.11.2): the last use of each session, and
//! the time of its next check.
//!
//! A packet of such a session counts in one counter. Small steps between bursts check whether the counter has changed.
//! The time of that check is taken as the time of the packet, so no report is early. Checks are so frequent that a
//! report is late by a tenth of its timer at most, within [`LEAST`] and [`MOST`]. Packets that are dropped or buffered
//! count too ([`InactivityTimers::used`]), except those that a full port loses.
//!
//! The worker owns the state: a wheel of doubly linked lists, in which adding, removing and finding the next timer are
//! one step each. Nothing is allocated after the start; memory is touched as sessions need it.

use std::time::Duration;

use flow::{Nanos, SessionIndex};
use rules::model::InactivityTimer;

/// No report is later than this, or a tenth of the timer.
const LEAST: Duration = Duration::from_secs(1);
/// No report is later than this.
const MOST: Duration = Duration::from_secs(60);
/// A slot of the wheel lasts 2^26 ns: 67 ms.
const SHIFT: u32 = 26;
/// Slots of the wheel: more than [`MOST`].
const SLOTS: usize = 1024;
/// What the wheel and the time between polls may add: two slots and a little.
const SLACK: Duration = Duration::from_millis(150);
/// No index.
const NONE: u32 = u32::MAX;

/// All sessions that are watched.
pub(crate) struct InactivityTimers {
    /// By [`SessionIndex`]: 0, or one more than the index in `timers`.
    indices: Box<[u32]>,
    timers: Vec<Watched>,
    /// The first free index; the others follow by `next`.
    free: u32,
    /// The first of each slot's list.
    heads: Box<[u32; SLOTS]>,
    /// The slot whose turn it is, counted from the start of time.
    turn: u64,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    session: SessionIndex,
    timer: InactivityTimer,
    /// What its counter had counted when it was looked at last.
    seen: u64,
    /// When it was used last, or a little later.
    used: Nanos,
    is_reported: bool,
    slot: u16,
    next: u32,
    previous: u32,
}

/// What is found of a session whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing to report.
    Nothing,
    /// It is inactive, and that has not been reported.
    Inactive,
}

impl InactivityTimers {
    /// Room for `own` sessions with indexes below `max_sessions`.
    pub fn new(max_sessions: usize, own: usize) -> Self {
        Self {
            indices: vec![0; max_sessions].into_boxed_slice(),
            timers: Vec::with_capacity(own.min(max_sessions)),
            free: NONE,
            heads: Box::new([NONE; SLOTS]),
            turn: 0,
            count: 0,
        }
    }

    /// Whether any session is watched.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Sets the timer of a session, or removes it: this timer, or none; `counted` is its counter's value. An unchanged
    /// timer continues.
    pub fn set(&mut self, session: SessionIndex, timer: Option<InactivityTimer>, counted: u64, now: Nanos) {
        let known = self.index_of(session);
        match (known, timer) {
            (None, None) => {}
            (Some(index), None) => self.remove(index),
            (Some(index), Some(timer)) if self.at(index).is_some_and(|watched| watched.timer == timer) => {
                if let Some(watched) = self.timers.get_mut(index as usize) {
                    watched.seen = counted;
                }
            }
            (_, Some(timer)) => {
                if let Some(index) = known {
                    self.remove(index);
                }
                self.add(session, timer, counted, now);
            }
        }
    }

    /// A packet of a session has come that its counter does not show.
    pub fn used(&mut self, session: SessionIndex, now: Nanos) {
        let index = self.index_of(session);
        if let Some(watched) = index.and_then(|index| self.timers.get_mut(index as usize)) {
            watched.used = now;
            watched.is_reported = false;
        }
    }

    /// A session's counter has been looked at out of turn.
    pub fn note(&mut self, session: SessionIndex, counted: u64, now: Nanos) {
        let index = self.index_of(session);
        if let Some(watched) = index.and_then(|index| self.timers.get_mut(index as usize)) {
            watched.note(counted, now);
        }
    }

    /// A session that is to be looked at now; [`look`](Self::look) follows, or it is not looked at again.
    pub fn next(&mut self, now: Nanos) -> Option<SessionIndex> {
        let last = now.0 >> SHIFT;
        if self.is_empty() {
            self.turn = self.turn.max(last);
            return None;
        }
        // Time may have leapt: each slot is gone through once.
        self.turn = self.turn.max(last.saturating_sub(SLOTS as u64 - 1));
        loop {
            let head = self.heads[self.turn as usize % SLOTS];
            if let Some(watched) = self.at(head) {
                let session = watched.session;
                self.unlink(head);
                return Some(session);
            }
            if self.turn >= last {
                return None;
            }
            self.turn += 1;
        }
    }

    /// Looks at a session that [`next`](Self::next) has named, whose counter is `counted`, and puts it where
    /// its next turn is.
    pub fn look(&mut self, session: SessionIndex, counted: u64, now: Nanos) -> Found {
        let Some(index) = self.index_of(session) else {
            return Found::Nothing;
        };
        let Some(watched) = self.timers.get_mut(index as usize) else {
            return Found::Nothing;
        };
        watched.note(counted, now);
        let timer = watched.duration();
        let step = step(timer);
        let is_inactive = !watched.is_reported && now >= watched.used + timer;
        let due = if watched.is_reported || is_inactive {
            now + step
        } else {
            (now + step).min(watched.used + timer)
        };
        watched.is_reported |= is_inactive;
        self.link(index, due);
        if is_inactive {
            Found::Inactive
        } else {
            Found::Nothing
        }
    }

    /// The event queue had no room for a session's report: it is due next time.
    pub fn unreport(&mut self, session: SessionIndex) {
        let index = self.index_of(session);
        if let Some(watched) = index.and_then(|index| self.timers.get_mut(index as usize)) {
            watched.is_reported = false;
        }
    }

    fn index_of(&self, session: SessionIndex) -> Option<u32> {
        self.indices.get(session.index())?.checked_sub(1)
    }

    fn at(&self, index: u32) -> Option<&Watched> {
        self.timers.get(index as usize)
    }

    fn add(&mut self, session: SessionIndex, timer: InactivityTimer, seen: u64, now: Nanos) {
        let watched = Watched {
            session,
            timer,
            seen,
            used: now,
            is_reported: false,
            slot: 0,
            next: NONE,
            previous: NONE,
        };
        let index = self.free;
        let index = if let Some(free) = self.timers.get_mut(index as usize) {
            self.free = free.next;
            *free = watched;
            index
        } else if self.timers.len() < self.timers.capacity() {
            self.timers.push(watched);
            self.timers.len() as u32 - 1
        } else {
            // A worker has no more sessions than there is room for.
            return;
        };
        if let Some(number) = self.indices.get_mut(session.index()) {
            *number = index + 1;
        }
        if self.is_empty() {
            self.turn = now.0 >> SHIFT;
        }
        self.count += 1;
        let duration = Duration::from_secs(timer.seconds.get().into());
        self.link(index, now + duration.min(step(duration)));
    }

    fn remove(&mut self, index: u32) {
        self.unlink(index);
        let free = self.free;
        if let Some(watched) = self.timers.get_mut(index as usize) {
            watched.next = free;
            self.free = index;
            self.count -= 1;
            if let Some(number) = self.indices.get_mut(watched.session.index()) {
                *number = 0;
            }
        }
    }

    /// Links a timer that is in no list into that of the slot after `due`.
    fn link(&mut self, index: u32, due: Nanos) {
        let turn = ((due.0 >> SHIFT) + 1).clamp(self.turn, self.turn + SLOTS as u64 - 1);
        let slot = turn as usize % SLOTS;
        let head = std::mem::replace(&mut self.heads[slot], index);
        if let Some(first) = self.timers.get_mut(head as usize) {
            first.previous = index;
        }
        if let Some(watched) = self.timers.get_mut(index as usize) {
            (watched.slot, watched.next, watched.previous) = (slot as u16, head, NONE);
        }
    }

    /// Unlinks a timer from its list, if it is in one.
    fn unlink(&mut self, index: u32) {
        let Some(&Watched {
            slot, next, previous, ..
        }) = self.at(index)
        else {
            return;
        };
        if let Some(watched) = self.timers.get_mut(previous as usize) {
            watched.next = next;
        } else if self.heads[usize::from(slot) % SLOTS] == index {
            self.heads[usize::from(slot) % SLOTS] = next;
        }
        if let Some(watched) = self.timers.get_mut(next as usize) {
            watched.previous = previous;
        }
        if let Some(watched) = self.timers.get_mut(index as usize) {
            (watched.next, watched.previous) = (NONE, NONE);
        }
    }
}

/// How long a session with this timer is not looked at.
fn step(timer: Duration) -> Duration {
    (timer / 10).clamp(LEAST, MOST) - SLACK
}

impl Watched {
    fn duration(&self) -> Duration {
        Duration::from_secs(self.timer.seconds.get().into())
    }

    fn note(&mut self, counted: u64, now: Nanos) {
        if self.seen != counted {
            (self.seen, self.used, self.is_reported) = (counted, now, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::num::NonZeroU32;

    fn timer(seconds: u32, number: u32) -> InactivityTimer {
        InactivityTimer {
            seconds: NonZeroU32::new(seconds).unwrap(),
            number,
        }
    }

    fn at(milliseconds: u64) -> Nanos {
        Nanos(milliseconds * 1_000_000)
    }

    /// Sessions that are reported when `now` has come.
    fn told(timers: &mut InactivityTimers, counted: &BTreeMap<u32, u64>, now: Nanos) -> Vec<u32> {
        let mut all = Vec::new();
        while let Some(session) = timers.next(now) {
            let counted = counted.get(&session.0).copied().unwrap_or_default();
            if timers.look(session, counted, now) == Found::Inactive {
                all.push(session.0);
            }
        }
        all
    }

    #[test]
    fn what_could_not_be_reported_is_reported_the_next_time() {
        let mut timers = InactivityTimers::new(4, 4);
        timers.set(SessionIndex(1), Some(timer(5, 1)), 0, at(0));
        let mut now = 0;
        let first = loop {
            now += 100;
            if !told(&mut timers, &BTreeMap::new(), at(now)).is_empty() {
                break now;
            }
        };
        assert!((5_000..=6_000).contains(&first), "{first}");
        timers.unreport(SessionIndex(1));
        let again: Vec<u64> = (1..=100)
            .map(|step| first + step * 100)
            .filter(|&now| !told(&mut timers, &BTreeMap::new(), at(now)).is_empty())
            .collect();
        assert!(again.len() == 1 && again[0] <= first + 1_000, "{again:?}");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(u32, Option<(u32, u32)>),
        Count(u32),
        Used(u32),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            1 => (0..6_u32, proptest::option::of((1..40_u32, 1..3_u32))).prop_map(|(who, timer)| Step::Set(who, timer)),
            4 => (0..6_u32).prop_map(Step::Count),
            1 => (0..6_u32).prop_map(Step::Used),
            20 => (1..1_000_u64).prop_map(Step::Pass),
            1 => (1_000..60_000_u64).prop_map(Step::Pass),
        ]
    }

    /// What the model knows: the timer, the last use, and whether that has been reported.
    type Known = BTreeMap<u32, (InactivityTimer, u64, bool)>;

    proptest! {
        #[test]
        fn inactivity_is_reported_once_never_early_and_hardly_late(steps in prop::collection::vec(step(), 1..100)) {
            let mut timers = InactivityTimers::new(6, 6);
            let (mut known, mut counted) = (Known::new(), BTreeMap::new());
            let mut now = 0;
            for step in steps {
                match step {
                    Step::Set(who, wanted) => {
                        let wanted = wanted.map(|(seconds, number)| timer(seconds, number));
                        let count = counted.get(&who).copied().unwrap_or_default();
                        // As a change of a session does.
                        timers.note(SessionIndex(who), count, at(now));
                        timers.set(SessionIndex(who), wanted, count, at(now));
                        match wanted {
                            None => drop(known.remove(&who)),
                            Some(timer) if known.get(&who).is_some_and(|(old, ..)| *old == timer) => {}
                            Some(timer) => drop(known.insert(who, (timer, now, false))),
                        }
                    }
                    Step::Count(who) => {
                        *counted.entry(who).or_default() += 1;
                        use_of(&mut known, who, now);
                    }
                    Step::Used(who) => {
                        timers.used(SessionIndex(who), at(now));
                        use_of(&mut known, who, now);
                    }
                    Step::Pass(time) => {
                        for _ in 0..=time / 10 {
                            now += 10;
                            pass(&mut timers, &mut known, &counted, now)?;
                        }
                    }
                }
            }
        }
    }

    fn use_of(known: &mut Known, who: u32, now: u64) {
        if let Some(known) = known.get_mut(&who) {
            (known.1, known.2) = (now, false);
        }
    }

    fn pass(
        timers: &mut InactivityTimers,
        known: &mut Known,
        counted: &BTreeMap<u32, u64>,
        now: u64,
    ) -> Result<(), TestCaseError> {
        for who in told(timers, counted, at(now)) {
            let (timer, used, was_told) = known.get_mut(&who).expect("it is watched");
            prop_assert!(!*was_told, "{who} twice at {now}");
            let earliest = *used + u64::from(timer.seconds.get()) * 1_000;
            prop_assert!(now >= earliest, "{who} early at {now}");
            *was_told = true;
        }
        for (who, (timer, used, was_told)) in known {
            let seconds = u64::from(timer.seconds.get());
            let latest = *used + seconds * 1_000 + (seconds * 100).max(1_000);
            prop_assert!(*was_told || now <= latest, "{who} is late at {now}");
        }
        Ok(())
    }
}
