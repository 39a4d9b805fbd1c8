//! The comparison of one tag with the eight of a bucket, at once.
//!
//! Its unsafe code is the use of SSE2, which the compiler does not come upon by itself here.

#![allow(unsafe_code)]

/// Slots in a bucket.
pub(crate) const SLOTS: usize = 8;

/// The places of `tag` in `tags`, bit n for place n.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(super) fn probe(tags: &[u16; SLOTS], tag: u16) -> u32 {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { probe_sse2(tags, tag) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse2")]
#[inline]
fn probe_sse2(tags: &[u16; SLOTS], tag: u16) -> u32 {
    use core::arch::x86_64::{
        _mm_cmpeq_epi16, _mm_movemask_epi8, _mm_packs_epi16, _mm_set_epi64x, _mm_set1_epi16,
        _mm_setzero_si128,
    };
    let [low, high]: [i64; 2] = zerocopy::transmute!(*tags);
    let equal = _mm_cmpeq_epi16(_mm_set_epi64x(high, low), _mm_set1_epi16(tag as i16));
    _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as u32
}

/// The places of `tag` in `tags`, bit n for place n.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub(super) fn probe(tags: &[u16; SLOTS], tag: u16) -> u32 {
    probe_scalar(tags, tag)
}

/// The scalar twin of `probe`.
#[cfg(any(test, miri, not(target_arch = "x86_64")))]
fn probe_scalar(tags: &[u16; SLOTS], tag: u16) -> u32 {
    tags.iter()
        .enumerate()
        .fold(0, |mask, (place, &other)| mask | u32::from(other == tag) << place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_vector_probe_agrees_with_the_scalar_one(
            tags in prop::array::uniform8(prop_oneof![0u16..4, any::<u16>(), 0xfff0u16..]),
            other in prop_oneof![0u16..4, any::<u16>()],
        ) {
            for tag in tags.into_iter().chain([other]) {
                prop_assert_eq!(probe(&tags, tag), probe_scalar(&tags, tag));
            }
        }
    }
}
