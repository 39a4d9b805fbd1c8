//! The comparison of the tags of a bucket, or of the numbers of a cache line, with another one, all at once.
//!
//! Its unsafe code is the use of SSE2, which the compiler does not come upon by itself here.

#![allow(unsafe_code)]

/// Tags of 16 bits in a bucket of flows.
pub const TAGS: usize = 8;

/// The places of `tag` in `tags`, bit n for place n.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn probe(tags: &[u16; TAGS], tag: u16) -> u32 {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { probe_sse2(tags, tag) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse2")]
#[inline]
fn probe_sse2(tags: &[u16; TAGS], tag: u16) -> u32 {
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
pub(crate) fn probe(tags: &[u16; TAGS], tag: u16) -> u32 {
    probe_scalar(tags, tag)
}

/// The scalar twin of `probe`.
#[cfg(any(test, miri, not(target_arch = "x86_64")))]
fn probe_scalar(tags: &[u16; TAGS], tag: u16) -> u32 {
    tags.iter()
        .enumerate()
        .fold(0, |mask, (place, &other)| mask | u32::from(other == tag) << place)
}

/// Numbers of 32 bits in a line.
pub const LANES: usize = 16;

/// The lanes that have the bits of `mask` as `wanted` has them, bit n for lane n.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub fn matching(lanes: &[u32; LANES], wanted: u32, mask: u32) -> u32 {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { matching_sse2(lanes, wanted, mask) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse2")]
#[inline]
fn matching_sse2(lanes: &[u32; LANES], wanted: u32, mask: u32) -> u32 {
    use core::arch::x86_64::{
        _mm_and_si128, _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set_epi64x,
        _mm_set1_epi32,
    };
    let mask_all = _mm_set1_epi32(mask.cast_signed());
    let wanted_all = _mm_set1_epi32((wanted & mask).cast_signed());
    let fours: [[i64; 2]; 4] = zerocopy::transmute!(*lanes);
    let compare = |[low, high]: [i64; 2]| {
        let four = _mm_set_epi64x(high, low);
        _mm_cmpeq_epi32(_mm_and_si128(four, mask_all), wanted_all)
    };
    // Not by `map` of the array, which is a call.
    let [a, b, c, d] = fours;
    let equal = _mm_packs_epi16(
        _mm_packs_epi32(compare(a), compare(b)),
        _mm_packs_epi32(compare(c), compare(d)),
    );
    _mm_movemask_epi8(equal).cast_unsigned()
}

/// The lanes that have the bits of `mask` as `wanted` has them, bit n for lane n.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub fn matching(lanes: &[u32; LANES], wanted: u32, mask: u32) -> u32 {
    matching_scalar(lanes, wanted, mask)
}

/// The scalar twin of `matching`.
#[cfg(any(test, miri, not(target_arch = "x86_64")))]
fn matching_scalar(lanes: &[u32; LANES], wanted: u32, mask: u32) -> u32 {
    let equal = |other: u32| u32::from((other ^ wanted) & mask == 0);
    (0..)
        .zip(lanes)
        .fold(0, |found, (lane, &other)| found | equal(other) << lane)
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

        #[test]
        fn the_vector_search_agrees_with_the_scalar_one(
            lanes in prop::array::uniform16(prop_oneof![0u32..4, any::<u32>(), 0xffff_fff0u32..]),
            other in prop_oneof![0u32..4, any::<u32>()],
            mask in prop_oneof![Just(0), Just(u32::MAX), Just(0xfffe_0000), any::<u32>()],
        ) {
            for wanted in lanes.into_iter().chain([other]) {
                prop_assert_eq!(matching(&lanes, wanted, mask), matching_scalar(&lanes, wanted, mask));
            }
        }
    }
}
