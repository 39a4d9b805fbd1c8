//! Content counters: what a session's packets of each *content* count, for billing.
//!
//! A content is what predefined rules are of that are billed together: a PCC rule, or an application. A session can
//! have very many and mostly meets few, so its counters are not in its block: each is made when the first packet of its
//! content comes, in a run of lines that grows with them. A flow entry names its counter by the number that it has in
//! its session, from 1; what is given out later never changes the number of what is there. Which contents a session has
//! counters of is beside them: who looks for one comes by few lines.
//!
//! Control gets what was counted since it got it last: counts are *taken*, and start again from zero. So whatever
//! becomes of a session, the sum of all that was taken is what was counted.

use core::ops::Range;

use zerocopy::FromZeros;

use super::UrrCount;
use super::allocator::LineAllocator;
use super::content_totals::ContentTotals;
use crate::prefetch;
use crate::slab::{OutOfMemory, Slab, in_huge_pages};
use crate::{ContentId, Direction, Nanos, SessionIndex};

/// What a session counted of one content, since that was last taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentUsage {
    /// The content; [`ContentId::NONE`] for all those together that found no room for a counter.
    pub content: ContentId,
    /// What was counted.
    pub count: UrrCount,
    /// When the first of these packets came.
    pub first: Nanos,
    /// When the last one came.
    pub last: Nanos,
}

impl ContentUsage {
    /// Whether nothing was counted.
    pub fn is_nothing(&self) -> bool {
        self.count == UrrCount::default()
    }
}

/// What a counter has of one direction.
#[derive(Clone, Copy, Default, FromZeros)]
#[repr(C)]
struct Count {
    packets: u64,
    octets: u64,
}

impl Count {
    /// One packet more.
    #[inline(always)]
    fn add(&mut self, octets: u64) {
        self.packets = self.packets.wrapping_add(1);
        self.octets = self.octets.wrapping_add(octets);
    }

    /// One packet less.
    fn take_back(&mut self, octets: u64) {
        self.packets = self.packets.saturating_sub(1);
        self.octets = self.octets.saturating_sub(octets);
    }
}

/// One counter. A cache line.
#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(64))]
struct Counter {
    counts: [Count; 2],
    first: u64,
    last: u64,
    /// The content, as beside the lines: a packet comes by its counter alone.
    content: u32,
}

const _: () = assert!(size_of::<Counter>() == 64);

impl Counter {
    const fn is_zero(&self) -> bool {
        self.counts[0].packets == 0 && self.counts[1].packets == 0
    }

    fn usage(&self, content: ContentId) -> ContentUsage {
        let [ul, dl] = self.counts;
        ContentUsage {
            content,
            count: UrrCount {
                ul_packets: ul.packets,
                ul_octets: ul.octets,
                dl_packets: dl.packets,
                dl_octets: dl.octets,
                events: 0,
            },
            first: Nanos(self.first),
            last: Nanos(self.last),
        }
    }

    fn take(&mut self, content: ContentId) -> ContentUsage {
        let usage = self.usage(content);
        self.counts = [Count::default(); 2];
        usage
    }
}

/// The counters of one session: `len` of the `room` lines from `first` on.
#[derive(Clone, Copy, Default)]
struct Run {
    first: u32,
    len: u16,
    room: u16,
}

/// The content counters of a worker's sessions.
pub(super) struct ContentCounters {
    lines: Slab<Counter>,
    /// The content of each line's counter.
    contents: Slab<u32>,
    allocator: LineAllocator,
    /// By session.
    runs: Box<[Run]>,
    /// What all sessions have counted.
    totals: ContentTotals,
    in_use: usize,
    /// The session that is looked at next for what is due.
    at: usize,
}

impl ContentCounters {
    /// Counters of one session. Further contents count together.
    pub(super) const MOST: usize = 256;

    /// No counters: no content is ever given one.
    pub(super) fn none() -> Result<Self, OutOfMemory> {
        Self::new(0, 0)
    }

    pub(super) fn new(sessions: usize, counters: usize) -> Result<Self, OutOfMemory> {
        let lines = match counters {
            0 => 0,
            _ => LineAllocator::lines_for(counters.div_ceil(3), 3),
        };
        if u32::try_from(lines).is_err() {
            return Err(OutOfMemory {
                octets: lines.saturating_mul(size_of::<Counter>()),
            });
        }
        Ok(Self {
            lines: Slab::new(lines)?,
            contents: Slab::new(lines)?,
            allocator: LineAllocator::new(lines),
            runs: in_huge_pages(if lines == 0 { 0 } else { sessions }, |_| Run::default()),
            totals: match lines {
                0 => ContentTotals::default(),
                _ => ContentTotals::new(),
            },
            in_use: 0,
            at: 0,
        })
    }

    /// The addresses of the counters, which are most of it.
    pub(super) fn area(&self) -> Range<usize> {
        self.lines.area()
    }

    /// The places of a session's counters.
    fn places(&self, session: SessionIndex) -> Range<usize> {
        let run = self.runs.get(session.index()).copied().unwrap_or_default();
        let first = run.first as usize;
        first..first + usize::from(run.len)
    }

    fn contents_of(&self, session: SessionIndex) -> impl Iterator<Item = ContentId> + '_ {
        let contents = self.contents.get(self.places(session)).unwrap_or_default();
        contents.iter().copied().map(ContentId)
    }

    /// The counters of a session, each with its content.
    fn of_mut(&mut self, session: SessionIndex) -> impl Iterator<Item = (ContentId, &mut Counter)> {
        let places = self.places(session);
        let contents = self.contents.get(places.clone()).unwrap_or_default();
        let counters = self.lines.get_mut(places).unwrap_or_default();
        contents.iter().copied().map(ContentId).zip(counters)
    }

    #[inline]
    fn at(&mut self, session: SessionIndex, number: u16) -> Option<&mut Counter> {
        let run = self.runs.get(session.index())?;
        let place = usize::from(number).checked_sub(1)?;
        if place >= usize::from(run.len) {
            return None;
        }
        self.lines.get_mut(run.first as usize + place)
    }

    /// Asks for what says where the counters of a session are.
    #[inline]
    pub(super) fn prefetch_place(&self, session: SessionIndex) {
        prefetch::nth(&self.runs, session.index());
    }

    /// Asks for the line of a counter, which is to be written.
    #[inline]
    pub(super) fn prefetch(&self, session: SessionIndex, number: u16) {
        if let Some(run) = self.runs.get(session.index()) {
            let place = (run.first as usize).wrapping_add(usize::from(number).wrapping_sub(1));
            prefetch::nth_to_write(&self.lines, place);
        }
    }

    /// Asks for the list of a session's contents: all of a usual one's.
    #[inline]
    pub(super) fn prefetch_list(&self, session: SessionIndex) {
        if let Some(run) = self.runs.get(session.index()).filter(|run| run.len > 0) {
            prefetch::nth(&self.contents, run.first as usize);
        }
    }

    /// The number of a session's counter of this content, which is made if there is none yet.
    pub(super) fn find_or_make(&mut self, session: SessionIndex, content: ContentId) -> Option<u16> {
        let known = self.contents_of(session).position(|own| own == content);
        if let Some(place) = known {
            return Some(place as u16 + 1);
        }
        let run = *self.runs.get(session.index())?;
        if usize::from(run.len) >= Self::MOST {
            return None;
        }
        if run.len == run.room {
            self.grow(session, run)?;
        }
        let run = self.runs.get_mut(session.index())?;
        let place = run.first as usize + usize::from(run.len);
        *self.lines.get_mut(place)? = Counter {
            content: content.0,
            ..Counter::new_zeroed()
        };
        *self.contents.get_mut(place)? = content.0;
        run.len += 1;
        self.in_use += 1;
        Some(run.len)
    }

    /// Makes room for twice as many, or at least for one more.
    fn grow(&mut self, session: SessionIndex, run: Run) -> Option<()> {
        let len = usize::from(run.len);
        let twice = LineAllocator::rounded((2 * len).clamp(1, Self::MOST));
        let one_more = LineAllocator::rounded(len + 1);
        let wanted = [twice, one_more].into_iter().flatten();
        let (room, first) = wanted
            .filter_map(|room| Some((room, self.allocator.allocate(room)?)))
            .next()?;
        let old = run.first as usize..run.first as usize + len;
        let fits = old.end <= self.lines.len() && first as usize + len <= self.lines.len();
        if fits {
            self.lines.copy_within(old.clone(), first as usize);
            self.contents.copy_within(old, first as usize);
        }
        if run.room > 0 {
            self.allocator.free(run.first);
        }
        *self.runs.get_mut(session.index())? = Run {
            first,
            len: run.len,
            room: room as u16,
        };
        Some(())
    }

    /// Content counters that sessions have.
    pub(super) const fn in_use(&self) -> usize {
        self.in_use
    }

    /// Counts one packet in a counter of a session, by its number.
    #[inline]
    pub(super) fn count(
        &mut self,
        session: SessionIndex,
        number: u16,
        direction: Direction,
        octets: u64,
        now: Nanos,
    ) {
        if let Some(counter) = self.at(session, number) {
            let content = ContentId(counter.content);
            if counter.is_zero() {
                counter.first = now.0;
            }
            counter.last = now.0;
            let [uplink, downlink] = &mut counter.counts;
            match direction {
                Direction::Uplink => uplink.add(octets),
                Direction::Downlink => downlink.add(octets),
            };
            self.totals.count(content, direction, octets);
        }
    }

    /// Takes a packet back from a counter.
    pub(super) fn uncount(&mut self, session: SessionIndex, number: u16, direction: Direction, octets: u64) {
        if let Some(counter) = self.at(session, number) {
            counter.counts[direction as usize].take_back(octets);
            let content = ContentId(counter.content);
            self.totals.take_back(content, direction, octets);
        }
    }

    /// Takes a packet back that counts elsewhere from now on, if the counter has such a one: not if it was taken
    /// already. Whether it has.
    pub(super) fn withdraw(
        &mut self,
        session: SessionIndex,
        number: u16,
        direction: Direction,
        octets: u64,
    ) -> bool {
        let counter = self.at(session, number);
        let count = counter.map(|counter| counter.counts[direction as usize]);
        let has_it = count.is_some_and(|count| count.packets > 0 && count.octets >= octets);
        if has_it {
            self.uncount(session, number, direction, octets);
        }
        has_it
    }

    /// Adds what a session has counted of a content elsewhere. The number of its counter, which is made if there is
    /// none yet; `None`, and nothing is added: there is no room for it.
    pub(super) fn add(&mut self, session: SessionIndex, usage: &ContentUsage) -> Option<u16> {
        let number = self.find_or_make(session, usage.content)?;
        let counter = self.at(session, number)?;
        let count = &usage.count;
        if count.ul_packets + count.dl_packets > 0 {
            let was_zero = counter.is_zero();
            let first = if was_zero {
                usage.first.0
            } else {
                counter.first.min(usage.first.0)
            };
            counter.first = first;
            counter.last = if was_zero {
                usage.last.0
            } else {
                counter.last.max(usage.last.0)
            };
        }
        let ways = [
            (count.ul_packets, count.ul_octets),
            (count.dl_packets, count.dl_octets),
        ];
        for (own, (packets, octets)) in counter.counts.iter_mut().zip(ways) {
            own.packets = own.packets.wrapping_add(packets);
            own.octets = own.octets.wrapping_add(octets);
        }
        self.totals.add(usage.content, count);
        Some(number)
    }

    /// What a session has counted in each of its counters since that was last taken, by their numbers from 1 on.
    pub(super) fn by_number(&self, session: SessionIndex) -> impl Iterator<Item = ContentUsage> + '_ {
        let counters = self.lines.get(self.places(session)).unwrap_or_default();
        let all = self.contents_of(session).zip(counters);
        all.map(|(content, counter)| counter.usage(content))
    }

    /// What all sessions have counted of each content.
    pub(super) const fn totals(&self) -> &ContentTotals {
        &self.totals
    }

    /// The same, for one who adds to it.
    pub(super) const fn totals_mut(&mut self) -> &mut ContentTotals {
        &mut self.totals
    }

    /// What a session has counted of each content, since that was last taken.
    pub(super) fn usages(&self, session: SessionIndex) -> impl Iterator<Item = ContentUsage> + '_ {
        self.by_number(session).filter(|usage| !usage.is_nothing())
    }

    /// Takes what a session has counted of the contents that `wanted` names.
    pub(super) fn take_usages(
        &mut self,
        session: SessionIndex,
        wanted: impl Fn(ContentId) -> bool,
    ) -> Vec<ContentUsage> {
        let counters = self.of_mut(session);
        let wanted = counters.filter(|(content, counter)| !counter.is_zero() && wanted(*content));
        wanted.map(|(content, counter)| counter.take(content)).collect()
    }

    /// Gives the counters back of contents that `keeps` does not name, and numbers the others anew.
    pub(super) fn retain_of(&mut self, session: SessionIndex, keeps: impl Fn(ContentId) -> bool) {
        let places = self.places(session);
        let mut end = places.start;
        for place in places.clone() {
            let content = self.contents.get(place).copied().map(ContentId);
            if content.is_some_and(&keeps) {
                self.contents.swap(end, place);
                self.lines.swap(end, place);
                end += 1;
            }
        }
        let (kept, gone) = (end - places.start, places.end - end);
        if kept == 0 {
            self.forget(session);
        } else if let Some(run) = self.runs.get_mut(session.index()) {
            run.len = kept as u16;
            self.in_use -= gone;
        }
    }

    /// Looks at the next `most` sessions, up to the first that has counters, and takes what was counted first at
    /// `before` or earlier. Each is passed to the closure, which returns whether to continue.
    pub(super) fn take_due(
        &mut self,
        most: usize,
        before: Nanos,
        mut tell: impl FnMut(SessionIndex, ContentUsage) -> bool,
    ) {
        if self.in_use == 0 {
            return;
        }
        for _ in 0..most {
            let session = SessionIndex(self.at as u32);
            let has_any = !self.places(session).is_empty();
            for (content, counter) in self.of_mut(session) {
                let is_due = !counter.is_zero() && counter.first <= before.0;
                if is_due && !tell(session, counter.take(content)) {
                    return;
                }
            }
            self.at = (self.at + 1) % self.runs.len().max(1);
            if has_any {
                return;
            }
        }
    }

    fn forget(&mut self, session: SessionIndex) {
        if let Some(run) = self.runs.get_mut(session.index()) {
            let run = std::mem::take(run);
            self.in_use -= usize::from(run.len);
            if run.room > 0 {
                self.allocator.free(run.first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{BlockImage, Blocks};

    const SESSIONS: u32 = 3;

    #[derive(Clone, Debug)]
    enum Step {
        Count {
            session: u32,
            content: u32,
            up: bool,
            octets: u64,
        },
        Lose {
            session: u32,
            content: u32,
            up: bool,
            octets: u64,
        },
        /// A packet that was counted counts for another session, as if that were another worker's, if it can be
        /// withdrawn.
        Move {
            from: u32,
            to: u32,
            content: u32,
            up: bool,
            octets: u64,
            /// What was counted is taken before.
            is_taken: bool,
        },
        Take {
            session: u32,
            below: u32,
        },
        Retain {
            session: u32,
            below: u32,
        },
        Due,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let packet = || (0..SESSIONS, 1..40_u32, any::<bool>(), 20..1500_u64);
        let some = || (0..SESSIONS, 0..40_u32);
        let step = prop_oneof![
            20 => packet().prop_map(|(session, content, up, octets)| Step::Count { session, content, up, octets }),
            3 => packet().prop_map(|(session, content, up, octets)| Step::Lose { session, content, up, octets }),
            3 => (packet(), 0..SESSIONS, any::<bool>()).prop_map(|((from, content, up, octets), to, is_taken)| {
                Step::Move { from, to, content, up, octets, is_taken }
            }),
            1 => some().prop_map(|(session, below)| Step::Take { session, below }),
            1 => some().prop_map(|(session, below)| Step::Retain { session, below }),
            2 => Just(Step::Due),
        ];
        prop::collection::vec(step, 0..300)
    }

    type Sums = BTreeMap<(u32, u32), UrrCount>;

    fn add(sums: &mut Sums, session: u32, usage: &ContentUsage) {
        let sum = sums.entry((session, usage.content.0)).or_default();
        sum.ul_packets += usage.count.ul_packets;
        sum.ul_octets += usage.count.ul_octets;
        sum.dl_packets += usage.count.dl_packets;
        sum.dl_octets += usage.count.dl_octets;
    }

    fn one(content: u32, up: bool, octets: u64) -> ContentUsage {
        let mut count = UrrCount::default();
        let (packets, sum) = match up {
            true => (&mut count.ul_packets, &mut count.ul_octets),
            false => (&mut count.dl_packets, &mut count.dl_octets),
        };
        (*packets, *sum) = (1, octets);
        ContentUsage {
            content: ContentId(content),
            count,
            first: Nanos(0),
            last: Nanos(0),
        }
    }

    const fn way(up: bool) -> Direction {
        if up {
            Direction::Uplink
        } else {
            Direction::Downlink
        }
    }

    proptest! {
        #[test]
        fn all_that_is_taken_is_all_that_was_counted(steps in steps()) {
            let mut blocks = Blocks::new(8, 3).unwrap().with_contents(8, 200).unwrap();
            let image = BlockImage::default();
            let installed: Vec<_> = (0..SESSIONS)
                .map(|session| blocks.install(SessionIndex(session), &image).unwrap())
                .collect();
            let (mut counted, mut taken) = (Sums::new(), Sums::new());
            let mut now = Nanos(10);
            for step in steps {
                now.0 += 1;
                match step {
                    Step::Count { session, content, up, octets } => {
                        let number = blocks.content(SessionIndex(session), ContentId(content)).unwrap();
                        let block = installed[session as usize].block;
                        blocks.decided_content(ContentId(content));
                        blocks.count_content(block, number, way(up), octets, now);
                        add(&mut counted, session, &one(content, up, octets));
                    }
                    Step::Lose { session, content, up, octets } => {
                        let number = blocks.content(SessionIndex(session), ContentId(content)).unwrap();
                        let of = installed[session as usize];
                        blocks.count_content(of.block, number, way(up), octets, now);
                        blocks.uncount_content(of.block, of.generation, number, way(up), octets);
                    }
                    Step::Move { from, to, content, up, octets, is_taken } => {
                        let number = blocks.content(SessionIndex(from), ContentId(content)).unwrap();
                        let of = installed[from as usize];
                        blocks.decided_content(ContentId(content));
                        blocks.count_content(of.block, number, way(up), octets, now);
                        if is_taken {
                            let usage = blocks.take_contents(SessionIndex(from), |one| one.0 == content);
                            usage.iter().for_each(|usage| add(&mut taken, from, usage));
                        }
                        let usage = ContentUsage { first: now, last: now, ..one(content, up, octets) };
                        match blocks.withdraw_content(of.block, of.generation, number, way(up), octets) {
                            true => {
                                prop_assert!(!is_taken);
                                let number = blocks.add_content(SessionIndex(to), &usage).unwrap();
                                let mut all = blocks.contents_by_number(SessionIndex(to));
                                prop_assert_eq!(all.nth(usize::from(number) - 1).unwrap().content, usage.content);
                                add(&mut counted, to, &usage);
                            }
                            false => {
                                prop_assert!(is_taken);
                                add(&mut counted, from, &usage);
                            }
                        }
                    }
                    Step::Take { session, below } => {
                        let usage = blocks.take_contents(SessionIndex(session), |content| content.0 < below);
                        usage.iter().for_each(|usage| add(&mut taken, session, usage));
                    }
                    Step::Retain { session, below } => {
                        let usage = blocks.take_contents(SessionIndex(session), |content| content.0 >= below);
                        usage.iter().for_each(|usage| add(&mut taken, session, usage));
                        blocks.retain_contents(SessionIndex(session), |content| content.0 < below);
                        prop_assert!(blocks.contents(SessionIndex(session)).all(|usage| usage.content.0 < below));
                    }
                    Step::Due => blocks.take_due_contents(5, Nanos(now.0.saturating_sub(20)), |session, usage| {
                        assert!(usage.first.0 + 20 <= now.0 && usage.first <= usage.last);
                        add(&mut taken, session.0, &usage);
                        true
                    }),
                }
            }
            for session in 0..SESSIONS {
                let left: Vec<_> = blocks.contents(SessionIndex(session)).collect();
                let usage = blocks.take_contents(SessionIndex(session), |_| true);
                prop_assert_eq!(left, usage.clone());
                usage.iter().for_each(|usage| add(&mut taken, session, usage));
                blocks.retain_contents(SessionIndex(session), |_| false);
            }
            let mut totals = BTreeMap::new();
            for ((_, content), sum) in &counted {
                let total: &mut UrrCount = totals.entry(*content).or_default();
                total.ul_packets += sum.ul_packets;
                total.ul_octets += sum.ul_octets;
                total.dl_packets += sum.dl_packets;
                total.dl_octets += sum.dl_octets;
            }
            for content in 0..40 {
                let total = blocks.content_totals().get(content as usize).copied().unwrap_or_default();
                let sum = totals.get(&content).copied().unwrap_or_default();
                prop_assert_eq!(total.packets, [sum.ul_packets, sum.dl_packets]);
                prop_assert_eq!(total.octets, [sum.ul_octets, sum.dl_octets]);
            }
            prop_assert_eq!(taken, counted);
            prop_assert_eq!(blocks.contents_in_use(), 0);
            prop_assert_eq!(blocks.contents.allocator.in_use(), 0);
        }
    }

    #[test]
    fn room_is_bounded_for_a_session_and_for_all() {
        let mut blocks = Blocks::new(8, 3).unwrap().with_contents(100, 1).unwrap();
        let number =
            |blocks: &mut Blocks, session, content| blocks.content(SessionIndex(session), ContentId(content));
        for content in 1..=256 {
            assert_eq!(number(&mut blocks, 0, content), Some(content as u16));
        }
        assert_eq!(number(&mut blocks, 0, 257), None);
        assert_eq!(number(&mut blocks, 0, 7), Some(7));
        // A session beyond the configured number, and no content counters at all.
        assert_eq!(number(&mut blocks, 100, 1), None);
        assert_eq!(
            Blocks::new(8, 3).unwrap().content(SessionIndex(0), ContentId(1)),
            None
        );
        // All the others together have what is left, and what is given back serves again.
        let lines = blocks.contents.lines.len();
        let mut given = 0;
        for session in 1..100 {
            given += (1..=256)
                .filter_map(|content| number(&mut blocks, session, content))
                .count();
        }
        assert!(given + 256 <= lines && given > lines / 2, "{given} of {lines}");
        assert_eq!(blocks.contents_in_use(), given + 256);
        for session in 0..100 {
            blocks.retain_contents(SessionIndex(session), |_| false);
        }
        assert_eq!(number(&mut blocks, 0, 1), Some(1));
    }
}
