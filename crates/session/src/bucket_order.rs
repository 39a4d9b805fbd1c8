//! The order in which very many entries go into a hash table at a tenth of the time: that of their places there, so
//! that each part of the table is in the processor's caches while it is filled.

/// Buckets of a part: some 64 KiB of a table of small entries.
const BUCKETS_PER_PART: usize = 4096;
/// The most parts: with more of them the caches do not hold the end of each.
const MOST_PARTS: usize = 2048;

/// `items` in the order of the parts of a table with this capacity, which takes the bucket from the low bits of the
/// hash, as `hashbrown` does. Those of one part, and so all with one hash, stay in the order in which they were.
pub(crate) fn in_bucket_order<T: Copy>(items: &[T], capacity: usize, hash: impl Fn(&T) -> u64) -> Vec<T> {
    // A table is full at seven eighths.
    let buckets = (capacity + capacity / 7).next_power_of_two();
    let parts = (buckets / BUCKETS_PER_PART).clamp(1, MOST_PARTS);
    let part = |item: &T| (hash(item) as usize & (buckets - 1)) / (buckets / parts).max(1);
    let Some(&any) = items.first() else {
        return Vec::new();
    };
    let mut ends = vec![0; parts];
    for item in items {
        if let Some(count) = ends.get_mut(part(item)) {
            *count += 1;
        }
    }
    let mut begin = 0;
    for end in &mut ends {
        begin += std::mem::replace(end, begin);
    }
    let mut ordered = vec![any; items.len()];
    for item in items {
        if let Some(next) = ends.get_mut(part(item)) {
            if let Some(place) = ordered.get_mut(*next) {
                *place = *item;
            }
            *next += 1;
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a stable sort by the part.
        #[test]
        fn it_is_a_stable_sort(
            hashes in proptest::collection::vec(any::<u64>(), 0..300),
            capacity in 0..300_000_usize,
        ) {
            let items: Vec<(u64, usize)> = hashes.iter().copied().zip(0..).collect();
            let buckets = (capacity + capacity / 7).next_power_of_two();
            let parts = (buckets / BUCKETS_PER_PART).clamp(1, MOST_PARTS);
            let mut sorted = items.clone();
            sorted.sort_by_key(|(hash, _)| (*hash as usize % buckets) / (buckets / parts));
            prop_assert_eq!(in_bucket_order(&items, capacity, |(hash, _)| *hash), sorted);
        }
    }
}
