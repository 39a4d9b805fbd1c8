//! Checkpoints: what URRs have counted and what is left of packet rates, for control, once in an interval and only
//! where it has changed.
//!
//! All sessions are looked at in turn, by the order of their blocks in memory, in parts that are spread evenly over a
//! little less than the interval. What is remembered of a session is one number, which is another when its counters are
//! ([`MarkedBlock::mark`]), so that an idle session costs three cache lines, asked for
//! ahead. The counts of the others are written into lists that control gives and gets back. Where there is no list, or
//! no room for an event, the look pauses and misses nothing.
//!
//! Sessions with packet rates are known by a bit, and they alone are looked at in the lines of their meters, too. What
//! control says of them with a change is in no record: they are looked at again after each change.
//!
//! A session that has counted much since it was looked at last is looked at before its turn. Its counters say so by the
//! bit that they say with that a bound is near ([`Blocks::look_every`](flow::Blocks::look_every)): packets pay nothing
//! for it.
//!
//! The worker owns the state; nothing is allocated after the start.

use std::time::Duration;

use flow::{MarkedBlock, Nanos, SessionIndex};

use crate::control_channel::event_queue::EventQueue;
use crate::control_channel::{COUNTS_BUFFERS, Counted, LEAST_COUNTS, SessionCount};
use crate::sessions::Sessions;
use crate::stats::Stats;
use crate::{Event, WorkerConfig};

/// Parts that one poll looks at, at most: those of the longest sleep of a worker with a million sessions.
const PARTS_PER_POLL: usize = 256;
/// A look at all sessions takes so much less than the interval: within it counts are to be in the store, too, and
/// before that they wait here, in the queue to its writer and for the disk.
const EARLY: u32 = 8;
/// Counts wait in a list for this part of the interval at most.
const WAITS: u32 = 32;
/// For this part of the interval there is no look, where there was no list or no room for an event.
const PAUSES: u32 = 1024;

/// What is remembered between two looks.
pub(crate) struct Checkpoints {
    interval: Duration,
    /// The mark of each block when it was looked at last, by its place.
    marks: Box<[u64]>,
    /// Whether its session has packet rates, by the same place.
    has_packet_rates: Box<[bool]>,
    /// The part that is looked at next.
    hand: usize,
    /// When the look at all sessions began, and when its next part is due.
    begun: Nanos,
    due: Nanos,
    /// Lists without counts.
    empty: Vec<Vec<SessionCount>>,
    /// The list that counts are put into; it has none unless it is [`filling`](Self::filling).
    list: Vec<SessionCount>,
    filling: bool,
    /// When its first counts came.
    since: Nanos,
    /// There was no list, or no room for an event.
    is_paused: bool,
}

/// Where events of counts go.
pub(crate) struct Outlet<'a> {
    pub events: &'a mut EventQueue,
    pub stats: &'a mut Stats,
}

impl Checkpoints {
    /// As configured; `None` where nothing is to be looked at.
    pub fn new(config: &WorkerConfig, sessions: &Sessions) -> Option<Box<Self>> {
        config.checkpoint_interval.map(|interval| {
            Box::new(Self {
                interval: (interval - interval / EARLY).max(Duration::from_millis(1)),
                marks: vec![0; sessions.blocks.places()].into_boxed_slice(),
                has_packet_rates: vec![false; sessions.blocks.places()].into_boxed_slice(),
                hand: 0,
                begun: Nanos::ZERO,
                due: Nanos::ZERO,
                empty: Vec::with_capacity(COUNTS_BUFFERS),
                list: Vec::new(),
                filling: false,
                since: Nanos::ZERO,
                is_paused: false,
            })
        })
    }

    /// Takes a list that control gives.
    ///
    /// # Errors
    /// The list, when there are enough, or it is too short.
    pub fn take_room(&mut self, list: Vec<SessionCount>) -> Result<(), Vec<SessionCount>> {
        if self.empty.len() == COUNTS_BUFFERS || list.capacity() < LEAST_COUNTS {
            return Err(list);
        }
        self.empty.push(list);
        Ok(())
    }

    /// A session was installed, or has another image: the counts of one that is new are known to control, and what is
    /// left of packet rates is not.
    pub fn note_changed(&mut self, sessions: &Sessions, session: SessionIndex, is_new: bool) {
        let Some(block) = sessions.marked(session) else {
            return;
        };
        let has_packet_rates = sessions.packet_rates(session) > 0;
        self.has_packet_rates[block.place] = has_packet_rates;
        let MarkedBlock { place, mark, .. } = self.whole_mark(sessions, block);
        if has_packet_rates {
            self.marks[place] = !mark;
        } else if is_new {
            self.marks[place] = mark;
        }
    }

    /// The mark of a block, of its packet rates, too, if there are any.
    #[inline]
    fn whole_mark(&self, sessions: &Sessions, block: MarkedBlock) -> MarkedBlock {
        match self.has_packet_rates[block.place] {
            true => sessions.blocks.marked_with_packet_rates(block),
            false => block,
        }
    }

    /// Counts of a session that wait in the list are not to come behind what is pushed about it now: it is looked at
    /// again at its next turn.
    pub fn withdraw(&mut self, sessions: &Sessions, session: SessionIndex) {
        if !self.filling || !self.list.iter().any(|count| count.session == session) {
            return;
        }
        self.list.retain(|count| count.session != session);
        self.look_again(sessions, session);
    }

    /// What was noted of a session is not with control: it is looked at again at its next turn.
    pub fn look_again(&mut self, sessions: &Sessions, session: SessionIndex) {
        if let Some(block) = sessions.marked(session) {
            let MarkedBlock { place, mark, .. } = self.whole_mark(sessions, block);
            self.marks[place] = !mark;
        }
    }

    /// Whether there may be something to do.
    #[inline]
    pub fn is_due(&self, events: &EventQueue, now: Nanos) -> bool {
        now >= self.due || (events.has_due() && !self.is_paused)
    }

    /// Looks at the sessions whose turn it is.
    #[cold]
    #[inline(never)]
    pub fn look(&mut self, sessions: &Sessions, outlet: &mut Outlet<'_>, now: Nanos) {
        let all = sessions.blocks.parts();
        let interval = self.interval.as_nanos();
        let elapsed = u128::from(now.0.saturating_sub(self.begun.0)).min(interval);
        let target = (all as u128 * elapsed / interval) as usize;
        let mut is_paused = !self.look_at_due(sessions, outlet, now);
        for _ in 0..PARTS_PER_POLL {
            if self.hand >= target || is_paused {
                break;
            }
            is_paused = !self.look_at_part(sessions, outlet, now);
        }
        let is_over = self.hand == all && now >= self.begun + self.interval;
        if is_over || now >= self.since + self.interval / WAITS {
            is_paused |= !self.push(outlet);
        }
        if is_over {
            // After an absence there are no rounds to be made up for.
            let next = self.begun + self.interval;
            self.begun = if now >= next + self.interval { now } else { next };
            self.hand = 0;
        }
        self.is_paused = is_paused;
        self.due = self.next_look(all, now);
    }

    /// When there is something to do again.
    fn next_look(&self, all: usize, now: Nanos) -> Nanos {
        if self.is_paused {
            return now + self.interval / PAUSES;
        }
        let parts = (self.hand + 1).min(all) as u128;
        let until = (parts * self.interval.as_nanos()).div_ceil(all.max(1) as u128);
        let part = Nanos(self.begun.0.saturating_add(until as u64));
        match self.list.is_empty() {
            true => part,
            false => part.min(self.since + self.interval / WAITS),
        }
    }

    /// Pushes the counts of sessions that have counted much, before their turn. False if it had to pause.
    fn look_at_due(&mut self, sessions: &Sessions, outlet: &mut Outlet<'_>, now: Nanos) -> bool {
        if !outlet.events.has_due() {
            return true;
        }
        while let Some(session) = outlet.events.next_due() {
            let block = sessions.marked(session);
            if block.is_some_and(|block| !self.look_at(sessions, outlet, block, now)) {
                outlet.events.mark_due(session);
                return false;
            }
        }
        self.push(outlet)
    }

    /// Looks at a session's block. False if it had to pause.
    #[inline]
    fn look_at(
        &mut self,
        sessions: &Sessions,
        outlet: &mut Outlet<'_>,
        block: MarkedBlock,
        now: Nanos,
    ) -> bool {
        let MarkedBlock {
            session, place, mark, ..
        } = self.whole_mark(sessions, block);
        if self.marks[place] == mark {
            return true;
        }
        let is_noted = self.note(sessions, outlet, session, now);
        if is_noted {
            self.marks[place] = mark;
        }
        is_noted
    }

    /// Looks at the sessions of the next part. False if it had to pause: then it begins with the part once more.
    fn look_at_part(&mut self, sessions: &Sessions, outlet: &mut Outlet<'_>, now: Nanos) -> bool {
        let mut all = sessions.blocks.part(self.hand);
        let is_done = all.all(|one| self.look_at(sessions, outlet, one, now));
        self.hand += usize::from(is_done);
        is_done
    }

    /// Puts the counts of a session into a list. False if there is none with room for them.
    fn note(
        &mut self,
        sessions: &Sessions,
        outlet: &mut Outlet<'_>,
        session: SessionIndex,
        now: Nanos,
    ) -> bool {
        let counts = sessions.urrs(session) + sessions.packet_rates(session);
        if self.filling && self.list.capacity() - self.list.len() < counts && !self.push(outlet) {
            return false;
        }
        if !self.filling {
            let Some(list) = self.empty.pop() else {
                return false;
            };
            (self.list, self.filling, self.since) = (list, true, now);
        }
        let urrs = sessions.counts(session);
        let urrs = urrs.map(|(urr, count)| Counted::Urr(urr, count));
        let counts = urrs.chain(sessions.packets_left(session).map(Counted::Packets));
        self.list
            .extend(counts.map(|counted| SessionCount { session, counted }));
        true
    }

    /// Pushes the list, if there are counts in it. False if there is no room for the event.
    fn push(&mut self, outlet: &mut Outlet<'_>) -> bool {
        if self.list.is_empty() {
            return true;
        }
        if !outlet.events.has_room() {
            return false;
        }
        let counts = std::mem::take(&mut self.list);
        self.filling = false;
        outlet.events.push(outlet.stats, Event::Counted { counts });
        true
    }
}
