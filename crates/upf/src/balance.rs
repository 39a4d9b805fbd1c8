//! When a bucket should move, and where: the policy. How it moves is `session`'s.
//!
//! Deterministic, and no more than it must be: while the load of the busiest worker is above the least busy one's by
//! more than a bound, for long enough, the busiest bucket that makes the difference smaller moves from the one to the
//! other; then it is looked again. What a load is, and which worker may own which bucket, the caller says: Control
//! gives sessions, and slices that have workers of their own. Each group of workers that buckets may move between
//! is balanced by itself.

use std::cmp::Reverse;
use std::time::Duration;

use flow::{Bucket, Nanos, WorkerId};

/// How often loads are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How uneven the load may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The busiest worker's load over the least busy one's, in per cent; above 100.
    pub ratio_percent: u64,
    /// How long it may be above.
    pub after: Duration,
}

/// One bucket's load, and whose it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The load, in whatever unit.
    pub load: u64,
    /// The bucket's owner.
    pub owner: WorkerId,
}

/// Watches loads.
#[derive(Clone, Debug)]
pub struct Balancer {
    bound: Bound,
    groups: Vec<Group>,
    /// When to look again.
    next: Nanos,
}

/// Workers between which buckets may move.
#[derive(Clone, Debug)]
struct Group {
    workers: Vec<WorkerId>,
    /// Since when the bound is exceeded.
    since: Option<Nanos>,
}

impl Balancer {
    /// Over these groups of workers.
    #[must_use]
    pub fn new(bound: Bound, groups: Vec<Vec<WorkerId>>) -> Self {
        let groups = groups.into_iter().filter(|workers| workers.len() > 1);
        let group = |workers| Group { workers, since: None };
        Self {
            bound,
            groups: groups.map(group).collect(),
            next: Nanos(0),
        }
    }

    /// When to look next.
    #[must_use]
    pub fn poll_timeout(&self) -> Nanos {
        self.next
    }

    /// A move to this worker did not come off: the bound must be exceeded for as long again before the next of its
    /// group.
    pub fn failed(&mut self, now: Nanos, to: WorkerId) {
        let mut groups = self.groups.iter_mut();
        if let Some(group) = groups.find(|group| group.workers.contains(&to)) {
            group.since = Some(now);
        }
    }

    /// Looks at the loads, if it is time; what should move, and where to. `may_own` says whether a worker may have a
    /// bucket.
    pub fn poll(
        &mut self,
        now: Nanos,
        load: impl Fn(Bucket) -> Load,
        may_own: impl Fn(WorkerId, Bucket) -> bool,
    ) -> Option<(Bucket, WorkerId)> {
        if now < self.next {
            return None;
        }
        self.next = now + LOOK;
        let loads: Vec<Load> = Bucket::all().map(load).collect();
        let bound = self.bound;
        let due = |group: &mut Group| {
            let Some(choice) = choose(&loads, &group.workers, bound.ratio_percent, &may_own) else {
                group.since = None;
                return None;
            };
            let since = *group.since.get_or_insert(now);
            (since + bound.after <= now).then_some((since, choice))
        };
        // One bucket moves at a time: of the group that has been uneven longest. All are looked at.
        let due = self.groups.iter_mut().filter_map(due);
        due.min_by_key(|(since, _)| *since).map(|(_, choice)| choice)
    }
}

/// What should move between these workers, if the ratio of two is above the bound, a bucket of the one may go to the
/// other, and it makes the difference smaller: of all such two, between those that are furthest apart. Of equals, the
/// first.
fn choose(
    loads: &[Load],
    workers: &[WorkerId],
    ratio_percent: u64,
    may_own: &impl Fn(WorkerId, Bucket) -> bool,
) -> Option<(Bucket, WorkerId)> {
    let loaded: Vec<Vec<(Bucket, u64)>> = workers
        .iter()
        .map(|worker| {
            let own = Bucket::all().zip(loads);
            let own = own.filter(|(_, load)| load.owner == *worker && load.load > 0);
            own.map(|(bucket, load)| (bucket, load.load)).collect()
        })
        .collect();
    let sum = |own: &Vec<(Bucket, u64)>| own.iter().map(|(_, load)| load).sum::<u64>();
    let numbered: Vec<_> = workers.iter().copied().zip(loaded.iter().map(sum)).collect();
    let is_above =
        |most: u64, least: u64| u128::from(most) * 100 > u128::from(least) * u128::from(ratio_percent);
    // A bucket as heavy as the difference would only swap the two.
    let is_better =
        |to: WorkerId, apart: u64, (bucket, load): &(Bucket, u64)| *load < apart && may_own(to, *bucket);
    let is_better = &is_better;
    let pairs = numbered.iter().zip(&loaded).flat_map(|(&(from, most), own)| {
        let others = numbered.iter().filter(move |(_, least)| is_above(most, *least));
        let may_go = move |to: WorkerId, apart: u64| own.iter().any(|bucket| is_better(to, apart, bucket));
        let others = others.filter(move |(to, least)| may_go(*to, most.saturating_sub(*least)));
        others.map(move |&(to, least)| (most.saturating_sub(least), Reverse(from), Reverse(to), own))
    });
    let (apart, _, Reverse(to), own) = pairs.max_by_key(|(apart, from, to, _)| (*apart, *from, *to))?;
    let better = own.iter().filter(|bucket| is_better(to, apart, bucket));
    let (bucket, _) = better.max_by_key(|(number, load)| (*load, Reverse(*number)))?;
    Some((*bucket, to))
}

#[cfg(test)]
mod tests {
    use flow::BUCKETS;
    use proptest::prelude::*;

    use super::*;

    const BOUND: Bound = Bound {
        ratio_percent: 150,
        after: Duration::from_secs(10),
    };

    /// Every worker may have every bucket.
    fn anywhere(_: WorkerId, _: Bucket) -> bool {
        true
    }

    fn all(workers: u16) -> Vec<WorkerId> {
        (0..workers).map(WorkerId).collect()
    }

    fn even(workers: u16, load: impl Fn(usize) -> u64) -> Vec<Load> {
        let owner = |place: usize| WorkerId(place as u16 % workers);
        (0..BUCKETS)
            .map(|place| Load {
                load: load(place),
                owner: owner(place),
            })
            .collect()
    }

    #[test]
    fn the_busiest_bucket_goes_from_the_busiest_worker_to_the_idlest() {
        let loads = even(4, |place| match place {
            0 => 40,
            4 | 8 => 30,
            1..4 => [0, 20, 10, 50][place],
            _ => 0,
        });
        assert_eq!(
            choose(&loads, &all(4), 150, &anywhere),
            Bucket::new(0).map(|bucket| (bucket, WorkerId(2)))
        );
        assert_eq!(choose(&loads, &all(4), 1000, &anywhere), None);
    }

    #[test]
    fn a_bucket_that_would_only_swap_the_roles_stays() {
        let loads = even(2, |place| if place == 0 { 100 } else { 0 });
        assert_eq!(choose(&loads, &all(2), 150, &anywhere), None);
    }

    #[test]
    fn nothing_moves_before_its_time_or_when_it_was_better_meanwhile() {
        let uneven = even(2, |place| u64::from(place % 2 == 0));
        let level = even(2, |_| 1);
        let mut balancer = Balancer::new(BOUND, vec![all(2)]);
        let mut at = |seconds: u64, loads: &[Load]| {
            balancer.poll(
                Nanos::from_secs(seconds),
                |bucket| loads[bucket.index()],
                anywhere,
            )
        };
        assert_eq!(at(1, &uneven), None);
        assert_eq!(at(10, &uneven), None);
        assert_eq!(at(11, &level), None);
        assert_eq!(at(12, &uneven), None);
        assert_eq!(at(21, &uneven), None);
        assert!(at(22, &uneven).is_some());
        assert!(at(23, &uneven).is_some(), "it continues until it is even");
        balancer.failed(Nanos::from_secs(24), WorkerId(1));
        let mut at = |seconds: u64| {
            balancer.poll(
                Nanos::from_secs(seconds),
                |bucket| uneven[bucket.index()],
                anywhere,
            )
        };
        assert_eq!(at(25), None);
        assert!(at(34).is_some());
    }

    /// Worker 0 has buckets that worker 2 may have, too, and worker 1 has one that only itself may have.
    #[test]
    fn a_bucket_goes_only_where_it_may() {
        let mut loads = even(3, |place| match place {
            0 | 3 => 5,
            1 => 90,
            _ => 0,
        });
        let may_own = |worker: WorkerId, bucket: Bucket| match bucket.index() % 3 {
            1 => worker.0 == 1,
            _ => worker.0 != 1,
        };
        let first = choose(&loads, &all(3), 150, &may_own);
        assert_eq!(first, Bucket::new(0).map(|bucket| (bucket, WorkerId(2))));
        loads[0].owner = WorkerId(2);
        assert_eq!(
            choose(&loads, &all(3), 150, &may_own),
            None,
            "no other may have that of worker 1"
        );
    }

    #[test]
    fn a_bucket_that_is_too_heavy_to_move_keeps_no_others_from_moving() {
        let loads = even(3, |place| match place {
            0 | 3 => 5,
            1 => 90,
            _ => 0,
        });
        let moves = choose(&loads, &all(3), 150, &anywhere);
        assert_eq!(moves, Bucket::new(0).map(|bucket| (bucket, WorkerId(2))));
    }

    #[test]
    fn each_group_is_balanced_by_itself() {
        // Workers 0 and 1 are one group, 2 and 3 another.
        let heavy = |place: usize| match place % 4 {
            0 => 3,
            2 => 5,
            _ => 1,
        };
        let groups = || vec![all(2), vec![WorkerId(2), WorkerId(3)]];
        let mut loads = even(4, heavy);
        let mut balancer = Balancer::new(BOUND, groups());
        let mut moves = Vec::new();
        for tenths in 0..2_000 {
            let now = Nanos::from_millis(tenths * 100);
            if let Some((bucket, to)) = balancer.poll(now, |bucket| loads[bucket.index()], anywhere) {
                let from = std::mem::replace(&mut loads[bucket.index()].owner, to);
                assert_eq!(from.0 / 2, to.0 / 2, "{from:?} to {to:?}");
                moves.push(to.0 / 2);
            }
        }
        assert!(moves.contains(&0) && moves.contains(&1));
        for group in groups() {
            assert_eq!(choose(&loads, &group, 150, &anywhere), None, "{group:?} is even");
        }
        let mut alone = Balancer::new(BOUND, vec![vec![WorkerId(0)], vec![WorkerId(1)]]);
        let loads = even(2, |place| place as u64 % 2);
        assert_eq!(
            alone.poll(Nanos::from_secs(99), |bucket| loads[bucket.index()], anywhere),
            None
        );
    }

    proptest! {
        #[test]
        fn it_ends_and_every_move_makes_it_more_even(
            loads in prop::collection::vec(0_u64..100, BUCKETS), workers in 2_u16..9, first in 0_u16..9,
        ) {
            // Everything begins at one worker.
            let first = WorkerId(first % workers);
            let mut loads: Vec<Load> = loads.into_iter().map(|load| Load { load, owner: first }).collect();
            let sums = |loads: &[Load]| {
                let mut sums = vec![0; workers.into()];
                loads.iter().for_each(|load| sums[load.owner.index()] += load.load);
                sums
            };
            let squares = |loads: &[Load]| sums(loads).iter().map(|sum| sum * sum).sum::<u64>();
            let mut moves = 0;
            while let Some((bucket, to)) = choose(&loads, &all(workers), 120, &anywhere) {
                let before = squares(&loads);
                loads[bucket.index()].owner = to;
                prop_assert!(squares(&loads) < before);
                moves += 1;
                prop_assert!(moves <= BUCKETS);
            }
            let sums = sums(&loads);
            let (most, least) = (sums.iter().max().unwrap(), sums.iter().min().unwrap());
            prop_assert!(most * 100 <= least * 120 || most - least <= 100, "{sums:?}");
        }
    }
}
