//! How much of its time a busy worker leaves to the slow path.
//!
//! A worker is busy when a burst is full, so that more packets wait behind it, and flows that are established have sent
//! something within the last millisecond. Then the slow path has a budget of the worker's time: every burst earns it
//! some, by the ticks of all stages but `rx`, and so does a look at what else a port has; what it takes is charged.
//! The stage takes as many packets as its credit pays for, at the recent cost of one. A worker that is not busy, or
//! that has only first packets, refuses none.
//!
//! After a refusal the worker counts as *flooded* for a millisecond, or until a poll finds no packet: then the budget
//! holds for bursts that are not full as well, and first packets are refused before they are parsed
//! ([`NewFlowFilter`](crate::ingress::new_flow_filter::NewFlowFilter)).
//!
//! A worker that takes less from a port than arrives there is about to lose packets of established flows in the port's
//! queue: then the slow path earns a sixteenth of its share, for a millisecond. Established flows come first, and some
//! new ones are still let in.
//!
//! Time is that of the stages' clock. Where the clock is off, or the budget is 100%, nothing is bounded.

use flow::Nanos;

use crate::BURST;

/// Packets' worth of time that can be saved up, or owed.
const SAVED: i64 = 2 * BURST as i64;
/// How long established flows are reckoned with after their last packet.
const MEMORY: u64 = 1_000_000;
/// The part of its share that the slow path earns while a port's queue grows.
const BEHIND: i64 = 16;
/// What the cost of one packet is supposed to be at first, in ticks.
const FIRST_COST: i64 = 1_000;

/// The slow path's account of time.
#[derive(Clone, Debug)]
pub(crate) struct SlowPathBudget {
    percent: i64,
    /// In hundredths of a tick.
    credit: i64,
    /// Ticks that one packet has cost of late.
    cost: i64,
    /// Until when established flows are reckoned with.
    established: Nanos,
    is_busy: bool,
    /// Packets let in by this burst.
    admitted: usize,
    /// Until when a flood of first packets is reckoned with.
    flooded: Nanos,
    /// First packets in the receive backlog that were let in.
    ahead: usize,
    /// Until when a port's queue is supposed to grow.
    behind: Nanos,
}

impl SlowPathBudget {
    /// `percent` of the worker's time, at most 100.
    pub fn new(percent: u8) -> Self {
        Self {
            percent: i64::from(percent.min(100)),
            credit: 100 * FIRST_COST * SAVED,
            cost: FIRST_COST,
            established: Nanos::ZERO,
            is_busy: false,
            admitted: 0,
            flooded: Nanos::ZERO,
            ahead: 0,
            behind: Nanos::ZERO,
        }
    }

    /// How many packets of a burst may go in, of `packets`, `hits` of which have their entry.
    #[inline]
    pub fn places(&mut self, packets: usize, hits: u64, now: Nanos) -> usize {
        if hits > 0 {
            self.established = Nanos(now.0.saturating_add(MEMORY));
        }
        let is_full = packets == BURST || now < self.flooded;
        self.is_busy = self.percent < 100 && is_full && now < self.established;
        match self.is_busy {
            true => self.paid_for(),
            false => BURST,
        }
    }

    /// How many packets of a burst the credit pays for.
    #[inline]
    fn paid_for(&self) -> usize {
        match self.cost {
            0 => BURST,
            cost => (self.credit / (100 * cost)).clamp(0, BURST as i64) as usize,
        }
    }

    /// Notes how many packets the stage takes, of `wanted`.
    #[inline]
    pub fn admit(&mut self, packets: usize, wanted: usize, now: Nanos) {
        self.admitted = packets;
        if packets < wanted {
            self.note_flood(now);
        }
    }

    /// Notes that first packets were refused for want of time.
    #[inline]
    pub fn note_flood(&mut self, now: Nanos) {
        self.flooded = Nanos(now.0.saturating_add(MEMORY));
    }

    /// Notes that the worker has time: no packet waits.
    #[inline]
    pub fn end_flood(&mut self) {
        (self.flooded, self.behind) = (Nanos::ZERO, Nanos::ZERO);
    }

    /// Notes that a look ahead has left packets in a port's queue.
    pub fn note_behind(&mut self, now: Nanos) {
        self.behind = Nanos(now.0.saturating_add(MEMORY));
    }

    /// Whether established flows compete with more first packets than there is time for.
    #[inline]
    pub fn is_flooded(&self, now: Nanos) -> bool {
        now < self.flooded && now < self.established
    }

    /// How many first packets may be let into the receive backlog; `waits`: whether packets are in it.
    pub fn places_ahead(&mut self, waits: bool) -> usize {
        if !waits {
            self.ahead = 0;
        }
        self.paid_for().saturating_sub(self.ahead)
    }

    /// Notes that packets were `taken` from a receive backlog of `waiting`: as large a part of the first packets in it
    /// is gone, whatever became of them.
    pub fn take_ahead(&mut self, taken: usize, waiting: usize) {
        self.ahead -= (self.ahead * taken.min(waiting)).div_ceil(waiting.max(1));
    }

    /// Notes first packets that were let into the receive backlog.
    pub fn admit_ahead(&mut self, packets: usize) {
        self.ahead += packets;
    }

    /// Charges the ticks that the stage took.
    #[inline]
    pub fn spend(&mut self, ticks: u64) {
        let ticks = ticks.min(1 << 32) as i64;
        if self.is_busy {
            self.credit -= 100 * ticks;
        }
        if self.admitted > 0 {
            // A core that was lost on the way must not make packets dear for long.
            let each = (ticks / self.admitted as i64).min(4 * self.cost.max(FIRST_COST));
            self.cost += (each - self.cost) / 8;
        }
        self.admitted = 0;
    }

    /// Credits the ticks that a burst took in all stages that count, or a look ahead.
    #[inline]
    pub fn earn(&mut self, ticks: u64, now: Nanos) {
        let most = 100 * SAVED * self.cost;
        let part = if now < self.behind { BEHIND } else { 1 };
        let earned = self.percent * ticks.min(1 << 32) as i64 / part;
        self.credit = (self.credit + earned).clamp(-most, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs full bursts of a worker whose other stages take `others` ticks a burst, and whose slow path takes `each`
    /// for each of `wanted` packets that it lets in; its part of the time, and packets let in by a burst.
    fn run(
        budget: &mut SlowPathBudget,
        (packets, hits): (usize, u64),
        others: u64,
        (wanted, each): (usize, u64),
    ) -> (f64, f64) {
        let (mut all, mut slow, mut admitted) = (0, 0, 0);
        for burst in 0..10_000 {
            let places = budget.places(packets, hits, Nanos(burst * 10_000)).min(wanted);
            budget.admit(places, places, Nanos(burst * 10_000));
            let ticks = places as u64 * each;
            budget.spend(ticks);
            budget.earn(ticks + others, Nanos(burst * 10_000));
            // What was saved up is not part of the rate.
            if burst > 1_000 {
                (all, slow, admitted) = (all + ticks + others, slow + ticks, admitted + places);
            }
        }
        (slow as f64 / all as f64, admitted as f64 / 9_000.0)
    }

    #[test]
    fn a_busy_worker_leaves_it_its_share_and_no_more() {
        for (others, each) in [(15_000, 1_000), (15_000, 300), (60_000, 2_000), (3_000, 5_000)] {
            let (part, _) = run(&mut SlowPathBudget::new(20), (BURST, 10), others, (50, each));
            assert!((0.17..=0.201).contains(&part), "{others} {each}: {part}");
        }
        let (_, admitted) = run(&mut SlowPathBudget::new(20), (BURST, 60), 30_000, (4, 1_000));
        assert!(
            admitted > 3.99,
            "within its budget nothing is refused: {admitted}"
        );
    }

    #[test]
    fn where_a_queue_grows_it_has_a_sixteenth_of_its_share() {
        let mut budget = SlowPathBudget::new(20);
        budget.note_behind(Nanos::from_secs(1));
        let (part, _) = run(&mut budget, (BURST, 10), 15_000, (50, 300));
        assert!((0.010..=0.0126).contains(&part), "{part}");
        budget.end_flood();
        let (part, _) = run(&mut budget, (BURST, 10), 15_000, (50, 300));
        assert!((0.17..=0.201).contains(&part), "{part}");
    }

    #[test]
    fn what_leaves_the_backlog_makes_room_whatever_became_of_it() {
        let mut budget = SlowPathBudget::new(20);
        budget.admit_ahead(30);
        for waiting in [256, 192, 128, 64] {
            assert!(budget.ahead > 0);
            budget.take_ahead(64, waiting);
        }
        assert_eq!(budget.ahead, 0);
        budget.take_ahead(0, 0);
    }

    #[test]
    fn nothing_is_refused_without_a_queue_or_without_established_flows() {
        for (budget, burst) in [(20, (BURST - 1, 10)), (20, (BURST, 0)), (100, (BURST, 10))] {
            let (_, admitted) = run(&mut SlowPathBudget::new(budget), burst, 1_000, (50, 10_000));
            assert!(admitted > 49.99, "{budget} {burst:?}: {admitted}");
        }
        let mut budget = SlowPathBudget::new(20);
        let (_, admitted) = run(&mut budget, (BURST, 10), 0, (50, 0));
        assert!(admitted > 49.99, "a clock that does not run: {admitted}");
    }

    #[test]
    fn an_absence_from_the_core_is_forgotten_soon() {
        let mut budget = SlowPathBudget::new(20);
        run(&mut budget, (BURST, 10), 15_000, (50, 1_000));
        budget.admit(5, 5, Nanos::ZERO);
        budget.spend(100_000_000);
        let (_, admitted) = run(&mut budget, (BURST, 10), 15_000, (50, 1_000));
        assert!(admitted > 3.0, "{admitted}");
    }
}
