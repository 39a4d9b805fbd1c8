//! Partial-key cuckoo hashing: the two buckets in which a key may be. Each is computed from the other and the tag.

/// Computes the two buckets of a key, in a table of any number of buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct CandidateBuckets {
    buckets: u32,
}

/// The bucket of a key that is searched first, and its tag.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PrimaryBucket {
    pub(super) bucket: u32,
    /// Never 0.
    pub(super) tag: u16,
}

impl CandidateBuckets {
    pub(super) const fn new(buckets: u32) -> Self {
        Self { buckets }
    }

    /// The first bucket comes from the upper half of the hash, the tag from the lowest 16 bits.
    #[inline(always)]
    pub(super) const fn primary(self, hash: u64) -> PrimaryBucket {
        let tag = hash as u16;
        PrimaryBucket {
            bucket: self.scale(hash >> 32),
            tag: if tag == 0 { 1 } else { tag },
        }
    }

    /// The other bucket of a key with this tag, one of whose buckets is `bucket`. An involution.
    #[inline(always)]
    pub(super) const fn other(self, bucket: u32, tag: u16) -> u32 {
        let sum = self.scale((tag as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32);
        let (other, borrow) = sum.overflowing_sub(bucket);
        if borrow {
            other.wrapping_add(self.buckets)
        } else {
            other
        }
    }

    /// 32 bits scaled down to `0..buckets`.
    #[inline(always)]
    const fn scale(self, bits: u64) -> u32 {
        ((bits as u32 as u64 * self.buckets as u64) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_buckets_exist_and_follow_from_each_other(buckets in 1u32.., hash: u64) {
            let candidates = CandidateBuckets::new(buckets);
            let PrimaryBucket { bucket, tag } = candidates.primary(hash);
            let other = candidates.other(bucket, tag);
            prop_assert!(bucket < buckets && other < buckets && tag != 0);
            prop_assert_eq!(candidates.other(other, tag), bucket);
        }
    }
}
