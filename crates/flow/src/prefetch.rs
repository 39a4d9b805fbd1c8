//! Prefetch hints: a line that is needed a few dozen packets later is asked for now.
//!
//! A hint changes nothing but time. Its unsafe code is the instruction itself, which faults on no address.

#![allow(unsafe_code)]

/// Asks for the first line of `item` to be read later.
#[inline(always)]
pub fn read<T: ?Sized>(item: &T) {
    read_at(core::ptr::from_ref(item).cast());
}

/// Asks for every line of `item` to be read later.
#[inline]
pub fn whole<T>(item: &T) {
    let first = core::ptr::from_ref(item).cast::<i8>();
    (0..size_of::<T>().div_ceil(64)).for_each(|line| read_at(first.wrapping_add(line * 64)));
}

/// Asks for the first `lines` lines of `items` to be read later, or all if they have fewer.
#[inline]
pub fn lines<T>(items: &[T], lines: usize) {
    let (first, all) = (items.as_ptr().cast::<i8>(), size_of_val(items).div_ceil(64));
    (0..all.min(lines)).for_each(|line| read_at(first.wrapping_add(line * 64)));
}

/// Asks for item `index` of `items` to be read later; an index beyond the end is as good as none.
#[inline(always)]
pub fn nth<T>(items: &[T], index: usize) {
    read_at(items.as_ptr().wrapping_add(index).cast());
}

/// Asks for item `index` of `items` to be read later, into the second-level cache alone.
#[inline(always)]
pub fn nth_far<T>(items: &[T], index: usize) {
    far_at(items.as_ptr().wrapping_add(index).cast());
}

/// Asks for the second line of item `index` of `items`, if an item has two.
#[inline(always)]
pub fn nth_second_line<T>(items: &[T], index: usize) {
    if size_of::<T>() > 64 {
        read_at(items.as_ptr().wrapping_add(index).cast::<i8>().wrapping_add(64));
    }
}

/// Asks for item `index` of `items` to be read and written later; an index beyond the end is as good as none.
#[inline(always)]
pub fn nth_to_write<T>(items: &[T], index: usize) {
    write_at(items.as_ptr().wrapping_add(index).cast());
}

/// Asks for one of two items to be read later, by a condition that is hard to predict.
#[inline(always)]
pub fn either<T, U>(condition: bool, items: (&[T], usize), others: (&[U], usize)) {
    let item = items.0.as_ptr().wrapping_add(items.1).cast::<i8>();
    let other = others.0.as_ptr().wrapping_add(others.1).cast::<i8>();
    read_at(core::hint::select_unpredictable(condition, item, other));
}

/// Asks for the line `octets` before `items` to be read and written later.
#[inline(always)]
pub fn before_to_write(items: &[u8], octets: usize) {
    write_at(items.as_ptr().wrapping_sub(octets).cast());
}

/// Asks for the first line of `item` to be read and written later.
#[inline(always)]
pub fn write<T: ?Sized>(item: &T) {
    write_at(core::ptr::from_ref(item).cast());
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn read_at(address: *const i8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch does not fault and does not change memory, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn far_at(address: *const i8) {
    use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: as for `read_at`.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(address) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn write_at(address: *const i8) {
    use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
    // SAFETY: as for `read_at`; a processor without `prefetchw` takes it as a hint to read, or as nothing.
    unsafe { _mm_prefetch::<_MM_HINT_ET0>(address) }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
fn read_at(address: *const i8) {
    // SAFETY: a prefetch does not fault and does not change memory, whatever the address.
    unsafe { core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags)) }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
fn far_at(address: *const i8) {
    // SAFETY: as for `read_at`.
    unsafe { core::arch::asm!("prfm pldl2keep, [{0}]", in(reg) address, options(nostack, preserves_flags)) }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
fn write_at(address: *const i8) {
    // SAFETY: as for `read_at`.
    unsafe { core::arch::asm!("prfm pstl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags)) }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline(always)]
fn read_at(_address: *const i8) {}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline(always)]
fn far_at(_address: *const i8) {}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline(always)]
fn write_at(_address: *const i8) {}
