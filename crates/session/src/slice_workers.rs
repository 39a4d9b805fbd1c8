//! Slices that have workers of their own.
//!
//! A worker that some slice lists serves the sessions of those slices alone; one that none lists serves all other
//! sessions: of slices without a list, and without S-NSSAI. A bucket is for sessions of the slices that its worker
//! serves at the start, and stays so: it may move to the workers that serve them all, and the buckets that a
//! slice's sessions may be in stay the same.

use flow::{BUCKETS, Bucket, WorkerId};
use rules::model::SNssai;

/// Which workers serve the sessions of which slices. Default: every worker serves all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceWorkers {
    /// In the order of the slices, each once.
    lists: Vec<(SNssai, Vec<WorkerId>)>,
}

impl SliceWorkers {
    /// The slices with their workers. Of a slice that is there twice, the first counts; the caller sees to it that
    /// there are such workers, and one that no slice lists.
    pub fn new(slices: impl IntoIterator<Item = (SNssai, Vec<WorkerId>)>) -> SliceWorkers {
        let mut lists: Vec<_> = slices.into_iter().collect();
        lists.sort_by_key(|(slice, _)| *slice);
        lists.dedup_by_key(|(slice, _)| *slice);
        SliceWorkers { lists }
    }

    /// Whether every worker serves all.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// The slices that list workers, in their order.
    pub fn slices(&self) -> impl Iterator<Item = SNssai> + '_ {
        self.lists.iter().map(|(slice, _)| *slice)
    }

    /// The slices that list a worker; without any it serves those without a list.
    pub fn listing(&self, worker: WorkerId) -> impl Iterator<Item = SNssai> + '_ {
        let of = self.lists.iter().filter(move |(_, own)| own.contains(&worker));
        of.map(|(slice, _)| *slice)
    }

    /// Whether a worker serves the sessions of a slice.
    pub fn serves(&self, worker: WorkerId, slice: Option<SNssai>) -> bool {
        match self.place_of(slice).and_then(|place| self.lists.get(place)) {
            Some((_, own)) => own.contains(&worker),
            None => self.listing(worker).next().is_none(),
        }
    }

    /// Whether a worker serves all sessions that another one serves: buckets that are for these may move to it.
    pub fn serves_all_of(&self, worker: WorkerId, other: WorkerId) -> bool {
        match self.listing(other).next() {
            Some(_) => self.listing(other).all(|slice| self.serves(worker, Some(slice))),
            None => self.serves(worker, None),
        }
    }

    /// The workers from number 0 on, in groups of those that buckets may move between, be it by way of others. Together
    /// they are all `count`.
    pub fn groups(&self, count: u16) -> Vec<Vec<WorkerId>> {
        let mut groups: Vec<Vec<WorkerId>> = Vec::new();
        for worker in (0..count).map(WorkerId) {
            let is_near =
                |other: &WorkerId| self.serves_all_of(worker, *other) || self.serves_all_of(*other, worker);
            let (near, mut apart): (Vec<_>, Vec<_>) = groups
                .into_iter()
                .partition(|group: &Vec<WorkerId>| group.iter().any(is_near));
            let mut group = near.concat();
            group.push(worker);
            group.sort_unstable();
            apart.push(group);
            groups = apart;
        }
        groups.sort_unstable();
        groups
    }

    fn place_of(&self, slice: Option<SNssai>) -> Option<usize> {
        let slice = slice?;
        self.lists.binary_search_by_key(&slice, |(own, _)| *own).ok()
    }
}

/// Some of the buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketSet {
    /// In ascending order.
    members: Vec<Bucket>,
    bits: [u64; BUCKETS / 64],
}

impl BucketSet {
    /// Those that `is_in` is true of.
    fn of(is_in: impl Fn(Bucket) -> bool) -> BucketSet {
        let members: Vec<Bucket> = Bucket::all().filter(|bucket| is_in(*bucket)).collect();
        let mut bits = [0; BUCKETS / 64];
        for bucket in &members {
            bits[bucket.index() / 64] |= 1 << (bucket.index() % 64);
        }
        BucketSet { members, bits }
    }

    /// Whether a bucket is one of them.
    pub(crate) fn has(&self, bucket: Bucket) -> bool {
        self.bits[bucket.index() / 64] >> (bucket.index() % 64) & 1 == 1
    }

    /// The bucket itself if it is one of them, else the one of them that stands for it: each for about as many others.
    /// `None`: there are none.
    fn nearest(&self, bucket: Bucket) -> Option<Bucket> {
        match self.has(bucket) {
            true => Some(bucket),
            false => {
                let place = bucket.index().checked_rem(self.members.len())?;
                self.members.get(place).copied()
            }
        }
    }
}

/// The buckets that sessions of each slice may be in, wherever these are now.
#[derive(Debug, Default)]
pub(crate) struct SliceBuckets {
    pub(crate) workers: SliceWorkers,
    /// In the order of the slices, and of all other sessions at the end; empty where every worker serves all.
    sets: Vec<BucketSet>,
}

impl SliceBuckets {
    /// Where buckets belong to the workers that `owner` says. That they go only to workers that
    /// [may own](Self::may_own) them is the caller's to see to.
    pub(crate) fn new(workers: SliceWorkers, owner: impl Fn(Bucket) -> WorkerId) -> SliceBuckets {
        if workers.is_empty() {
            return SliceBuckets::default();
        }
        let slices = workers.slices().map(Some).chain([None]);
        let set = |slice| BucketSet::of(|bucket| workers.serves(owner(bucket), slice));
        let sets = slices.map(set).collect();
        SliceBuckets { workers, sets }
    }

    /// Whether a worker serves all slices that a bucket is for.
    pub(crate) fn may_own(&self, worker: WorkerId, bucket: Bucket) -> bool {
        let slices = self.workers.slices().map(Some).chain([None]);
        let mut sets = slices.zip(&self.sets);
        sets.all(|(slice, set)| !set.has(bucket) || self.workers.serves(worker, slice))
    }

    /// Where sessions of a slice may be.
    pub(crate) fn of(&self, slice: Option<SNssai>) -> AllowedBuckets<'_> {
        let place = self.workers.place_of(slice);
        let set = match place {
            Some(place) => self.sets.get(place),
            None => self.sets.last(),
        };
        AllowedBuckets(set)
    }
}

/// The buckets that a session may be in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllowedBuckets<'a>(Option<&'a BucketSet>);

impl<'a> AllowedBuckets<'a> {
    /// All.
    #[cfg(test)]
    pub(crate) const ALL: AllowedBuckets<'static> = AllowedBuckets(None);

    /// The set, unless that is all.
    pub(crate) fn set(self) -> Option<&'a BucketSet> {
        self.0
    }

    /// Whether a session may be in this bucket.
    pub(crate) fn has(self, bucket: Bucket) -> bool {
        self.0.is_none_or(|set| set.has(bucket))
    }

    /// The bucket itself, or another that the session may be in instead. `None`: there is none.
    pub(crate) fn nearest(self, bucket: Bucket) -> Option<Bucket> {
        match self.0 {
            None => Some(bucket),
            Some(set) => set.nearest(bucket),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slice(sst: u8) -> SNssai {
        SNssai {
            sst,
            sd: SNssai::NO_SD,
        }
    }

    fn lists() -> impl Strategy<Value = (u16, Vec<(u8, Vec<u16>)>)> {
        (2_u16..9).prop_flat_map(|count| {
            let list = proptest::collection::vec(1..count, 1..4);
            (Just(count), proptest::collection::vec((1_u8..5, list), 0..4))
        })
    }

    fn made(lists: &[(u8, Vec<u16>)]) -> SliceWorkers {
        let workers = |own: &Vec<u16>| own.iter().copied().map(WorkerId).collect();
        SliceWorkers::new(lists.iter().map(|(sst, own)| (slice(*sst), workers(own))))
    }

    proptest! {
        /// Against the rule in words: the first list of a slice counts, and what no slice lists is for all others.
        #[test]
        fn a_worker_serves_those_that_list_it((count, lists) in lists()) {
            let workers = made(&lists);
            let listed = |worker: u16, sst: u8| {
                lists.iter().find(|(own, _)| *own == sst).map(|(_, own)| own.contains(&worker))
            };
            for worker in 0..count {
                let by_any = (1..5).any(|sst| listed(worker, sst) == Some(true));
                prop_assert_eq!(workers.serves(WorkerId(worker), None), !by_any);
                for sst in 1..6 {
                    let expected = listed(worker, sst).unwrap_or(!by_any);
                    prop_assert_eq!(workers.serves(WorkerId(worker), Some(slice(sst))), expected);
                }
            }
            let of = |sst| (sst > 0).then(|| slice(sst));
            let covers = |one: WorkerId, other: WorkerId| {
                (0..6).all(|sst| !workers.serves(other, of(sst)) || workers.serves(one, of(sst)))
            };
            let groups = workers.groups(count);
            let mut all: Vec<WorkerId> = groups.concat();
            all.sort_unstable();
            prop_assert_eq!(&all, &(0..count).map(WorkerId).collect::<Vec<_>>());
            for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (*one, *other))) {
                prop_assert_eq!(workers.serves_all_of(one, other), covers(one, other));
                let are_together = groups.iter().any(|group| group.contains(&one) && group.contains(&other));
                prop_assert!(are_together || !covers(one, other));
            }
            // Nor is a group larger than that asks for: from any of its workers all others are reached.
            for group in &groups {
                let mut reached = vec![group[0]];
                while let Some(next) = group.iter().find(|worker| {
                    let is_near = |one: &WorkerId| covers(**worker, *one) || covers(*one, **worker);
                    !reached.contains(worker) && reached.iter().any(is_near)
                }) {
                    reached.push(*next);
                }
                prop_assert_eq!(reached.len(), group.len());
            }
        }

        /// A bucket of the set stays, another is replaced by one of the set, and none stands for far more than others.
        #[test]
        fn buckets_are_replaced_within_the_set((count, lists) in lists()) {
            let workers = made(&lists);
            let owner = |bucket: Bucket| WorkerId(bucket.index() as u16 % count);
            let buckets = SliceBuckets::new(workers.clone(), owner);
            for of in (1..6).map(|sst| Some(slice(sst))).chain([None]) {
                let allowed = buckets.of(of);
                let mut stands_for = [0_usize; BUCKETS];
                for bucket in Bucket::all() {
                    prop_assert_eq!(allowed.has(bucket), workers.serves(owner(bucket), of));
                    for worker in (0..count).map(WorkerId) {
                        prop_assert_eq!(
                            buckets.may_own(worker, bucket),
                            workers.is_empty() || workers.serves_all_of(worker, owner(bucket))
                        );
                    }
                    let nearest = allowed.nearest(bucket).unwrap();
                    prop_assert!(workers.serves(owner(nearest), of));
                    prop_assert!(nearest == bucket || !allowed.has(bucket));
                    stands_for[nearest.index()] += 1;
                }
                let members = Bucket::all().filter(|bucket| allowed.has(*bucket)).count();
                let most = stands_for.iter().max().copied().unwrap_or_default();
                prop_assert!(most <= 2 + BUCKETS / members, "{} of {}", most, members);
            }
        }
    }

    #[test]
    fn a_set_without_buckets_has_none_for_any() {
        let workers = SliceWorkers::new([(slice(1), vec![WorkerId(9)])]);
        let buckets = SliceBuckets::new(workers, |_| WorkerId(0));
        let any = Bucket::of_rss_hash(7);
        assert_eq!(buckets.of(Some(slice(1))).nearest(any), None);
        assert_eq!(buckets.of(None).nearest(any), Some(any));
        assert_eq!(AllowedBuckets::ALL.nearest(any), Some(any));
    }
}
