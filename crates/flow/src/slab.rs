//! `Slab`: the large arrays of a worker, in memory that the kernel is asked to back with huge pages.
//!
//! A slab is zeroed, of fixed length, and faulted in by the thread that makes it: the kernel takes pages of the NUMA
//! node that this thread runs on, as long as there are any. Where the system has no huge pages to give, or the array is
//! small, it is ordinary memory ([`residency`](crate::residency) reports which). Pages reserved in hugetlbfs are left
//! to the packet buffers.
//!
//! Arrays whose items do not start as zeros, or that are mostly never used, are boxed slices for which the kernel is
//! asked the same ([`in_huge_pages`], [`advise_huge_pages`]): what reads few octets here and there of some MiB waits
//! for the addresses of their pages, too.
//!
//! The unsafe code of this module: a mapping, a slice over it, and advice about memory.

#![allow(unsafe_code)]

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;

use zerocopy::FromZeros;

use crate::residency::HUGE_PAGE;

/// The memory for a table cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// How many octets were asked for.
    pub octets: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} octets of memory cannot be had", self.octets)
    }
}

impl core::error::Error for OutOfMemory {}

/// An array of fixed length whose items started as zeros.
pub struct Slab<T> {
    items: NonNull<T>,
    len: usize,
    /// The mapping that holds the items; without one, they are a boxed slice.
    mapping: Option<Mapping>,
    owns: PhantomData<T>,
}

// SAFETY: a slab owns its items as a boxed slice does, and its other fields are plain numbers.
unsafe impl<T: Send> Send for Slab<T> {}
// SAFETY: as above; shared access gives out shared slices only.
unsafe impl<T: Sync> Sync for Slab<T> {}

impl<T: FromZeros + Copy> Slab<T> {
    /// `len` zeros.
    ///
    /// # Errors
    ///
    /// When the system gives neither a mapping nor heap.
    pub fn new(len: usize) -> Result<Self, OutOfMemory> {
        let octets = len
            .checked_mul(size_of::<T>())
            .ok_or(OutOfMemory { octets: usize::MAX })?;
        match Mapping::new(octets) {
            Some(mapping) => Ok(Self {
                items: mapping.start.cast(),
                len,
                mapping: Some(mapping),
                owns: PhantomData,
            }),
            None => Self::on_heap(len).ok_or(OutOfMemory { octets }),
        }
    }

    fn on_heap(len: usize) -> Option<Self> {
        let items = <[T]>::new_box_zeroed_with_elems(len).ok()?;
        let items = NonNull::new(Box::into_raw(items).cast::<T>())?;
        Some(Self {
            items,
            len,
            mapping: None,
            owns: PhantomData,
        })
    }
}

impl<T> Slab<T> {
    /// The addresses of the items, for [`Mappings::residency`](crate::residency::Mappings::residency).
    pub fn area(&self) -> Range<usize> {
        let start = self.items.as_ptr().addr();
        start..start + self.len * size_of::<T>()
    }
}

impl<T> Deref for Slab<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `items` is the start of `len` initialised items (zeros are valid: `FromZeros`), aligned (a mapping
        // is aligned to 2 MiB, a box to its items), owned by `self` until it is dropped.
        unsafe { core::slice::from_raw_parts(self.items.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Slab<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`; `&mut self` makes the access exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.items.as_ptr(), self.len) }
    }
}

impl<T> Drop for Slab<T> {
    fn drop(&mut self) {
        // Items are `Copy` (only such slabs are made), so there is nothing to drop in them.
        if self.mapping.is_none() {
            let items = core::ptr::slice_from_raw_parts_mut(self.items.as_ptr(), self.len);
            // SAFETY: without a mapping, `items` and `len` came from `Box::into_raw` and are given back once.
            drop(unsafe { Box::from_raw(items) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Slab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// The items with the numbers below `len`, in memory that the kernel is asked to back with huge pages.
pub fn in_huge_pages<T>(len: usize, item: impl FnMut(usize) -> T) -> Box<[T]> {
    let mut items = Vec::with_capacity(len);
    advise_huge_pages(items.spare_capacity_mut());
    items.extend((0..len).map(item));
    items.into()
}

/// Asks the kernel to back memory with huge pages: what of it fills some, and has not been touched yet.
pub fn advise_huge_pages<T>(items: &[T]) {
    let Range { start, end } = items.as_ptr_range();
    let start = start.addr().next_multiple_of(HUGE_PAGE);
    let end = end.addr() / HUGE_PAGE * HUGE_PAGE;
    if start < end {
        advise(items.as_ptr().with_addr(start).cast_mut().cast(), end - start);
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn advise(start: *mut libc::c_void, octets: usize) {
    // SAFETY: it is advice, which changes the contents of no memory, whosever it is.
    unsafe { libc::madvise(start, octets, libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise(_start: *mut core::ffi::c_void, _octets: usize) {}

/// Readable and writable zeros between two inaccessible guards, so that the kernel's figures are about them alone.
struct Mapping {
    start: NonNull<u8>,
    usable: usize,
    reserved: NonNull<u8>,
    reserved_len: usize,
}

#[cfg(all(target_os = "linux", not(miri)))]
impl Mapping {
    /// `None` when it would not fill a huge page, or the kernel refuses.
    fn new(octets: usize) -> Option<Self> {
        if octets < HUGE_PAGE {
            return None;
        }
        let usable = octets.checked_next_multiple_of(HUGE_PAGE)?;
        // One page of slack to align in, and one for the guards.
        let reserved_len = usable.checked_add(2 * HUGE_PAGE)?;
        let reserved = reserve(reserved_len)?;
        let gap = (HUGE_PAGE - reserved.as_ptr().addr() % HUGE_PAGE).max(1);
        // SAFETY: `gap <= HUGE_PAGE`, so `gap + usable` is within the `usable + 2 * HUGE_PAGE` reserved octets.
        let start = unsafe { reserved.add(gap) };
        let mapping = Self {
            start,
            usable,
            reserved,
            reserved_len,
        };
        mapping.open().then_some(mapping)
    }

    /// Makes the middle accessible, asks for huge pages, and faults all of it in.
    fn open(&self) -> bool {
        let start = self.start.as_ptr().cast();
        // SAFETY: the range is within this mapping, which no other code has yet.
        let opened = unsafe { libc::mprotect(start, self.usable, libc::PROT_READ | libc::PROT_WRITE) } == 0;
        if opened {
            // SAFETY: as above. Both are advice: a kernel without either still gives zeros, on first touch.
            unsafe {
                libc::madvise(start, self.usable, libc::MADV_HUGEPAGE);
                libc::madvise(start, self.usable, libc::MADV_POPULATE_WRITE);
            }
        }
        opened
    }
}

/// Address space of `len` octets that cannot be accessed yet.
#[cfg(all(target_os = "linux", not(miri)))]
fn reserve(len: usize) -> Option<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory in use.
    let start = unsafe { libc::mmap(core::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        None
    } else {
        NonNull::new(start.cast())
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this slab owns the whole reservation and unmaps it once; the slab that held slices of it is going.
        unsafe { libc::munmap(self.reserved.as_ptr().cast(), self.reserved_len) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
impl Mapping {
    fn new(_octets: usize) -> Option<Self> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(all(target_os = "linux", not(miri)))]
    use crate::residency::Mappings;

    #[test]
    fn a_slab_starts_as_zeros_and_keeps_what_is_written() {
        for len in [0, 1, 1000, HUGE_PAGE / 8 + 5] {
            let mut slab = Slab::<u64>::new(len).unwrap();
            assert_eq!(slab.len(), len);
            assert!(slab.iter().all(|&item| item == 0));
            for (place, item) in slab.iter_mut().enumerate() {
                *item = place as u64;
            }
            assert!(slab.iter().enumerate().all(|(place, &item)| item == place as u64));
        }
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn a_slab_is_resident_from_its_making_on() {
        let slab = Slab::<u64>::new(HUGE_PAGE).unwrap();
        let found = Mappings::read().residency(&[slab.area()]);
        assert_eq!(found.octets, 8 * HUGE_PAGE);
        assert_eq!(found.pages.values().sum::<usize>(), 8 * HUGE_PAGE, "{found}");
        assert!(
            found.nodes.is_empty() || found.nodes.values().sum::<usize>() == 8 * HUGE_PAGE,
            "{found}"
        );
        assert_eq!(Slab::<u64>::new(3).unwrap().area().len(), 24);
    }

    #[test]
    fn advice_changes_no_items() {
        for len in [0, 3, 3 * HUGE_PAGE / 8] {
            let items = in_huge_pages(len, |number| number as u64);
            advise_huge_pages(&items);
            assert!((0..len as u64).eq(items.iter().copied()));
        }
    }

    #[test]
    fn what_cannot_be_had_is_an_error() {
        assert!(Slab::<u64>::new(usize::MAX / 4).is_err());
        assert!(Slab::<u64>::new(1 << 58).is_err());
    }
}
