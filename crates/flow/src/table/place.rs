//! Where a key may be: two buckets, each of which follows from the other and the tag.

/// The two buckets of every key, in a table of any number of buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    buckets: u32,
}

/// Where one key is looked for first, and by what tag.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Home {
    pub(super) bucket: u32,
    /// Never 0.
    pub(super) tag: u16,
}

impl Placement {
    pub(super) const fn new(buckets: u32) -> Self {
        Self { buckets }
    }

    /// The first bucket comes from the upper half of the hash, the tag from the lowest 16 bits.
    #[inline(always)]
    pub(super) const fn home(self, hash: u64) -> Home {
        let tag = hash as u16;
        Home {
            bucket: self.scale(hash >> 32),
            tag: if tag == 0 { 1 } else { tag },
        }
    }

    /// The other bucket of what has this tag and may be in `bucket`; the other's other is `bucket` again.
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
            let placement = Placement::new(buckets);
            let Home { bucket, tag } = placement.home(hash);
            let other = placement.other(bucket, tag);
            prop_assert!(bucket < buckets && other < buckets && tag != 0);
            prop_assert_eq!(placement.other(other, tag), bucket);
        }
    }
}
