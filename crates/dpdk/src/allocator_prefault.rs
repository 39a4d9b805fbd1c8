//! Prefaulting of memory for the process's allocator: pages are touched before the allocator hands them out.
//!
//! The kernel allocates and clears a page at its first use; below a virtual machine the host may have to allocate it as
//! well. A session takes some kilobytes, and their page faults were a fifth of the time that control spent on a new
//! session. [`AllocatorPrefault`] gives the allocator (mimalloc) a range of addresses, is notified how much of it is in
//! use, and touches the following pages on a thread of its own.
//!
//! The allocator uses first what it reserved before: a gigabyte of addresses at process start, without prefaulting.
//! Touched memory is never returned to the kernel, so later sessions find it resident.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::{self, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};

// For its symbols alone.
use libmimalloc_sys as _;

/// Octets that are touched beyond what is in use.
const AHEAD: usize = 32 << 20;
/// Octets touched by one call, so that threads that map memory do not wait long.
const STEP: usize = 4 << 20;
/// What huge pages are aligned to.
const HUGE: usize = 2 << 20;
/// The smallest range that the allocator accepts.
const LEAST: usize = 64 << 20;
/// The largest range that the allocator takes as one arena. Of several arenas it commits the ends of all at once, which
/// would count as use up to there.
const MOST: usize = 16 << 30;

/// Commit (true) or decommit (false) of a range; returns whether it was done.
type CommitFn = unsafe extern "C" fn(bool, *mut c_void, usize, *mut bool, *mut c_void) -> bool;

unsafe extern "C" {
    /// Lets mimalloc take from a run of addresses: start, octets, whether it is committed, pinned, zero; the NUMA node,
    /// whether it is for certain heaps alone, what is called at commits, with which argument, and where its number
    /// goes.
    fn mi_manage_memory(
        start: *mut c_void,
        size: usize,
        is_committed: bool,
        is_pinned: bool,
        is_zero: bool,
        numa_node: c_int,
        exclusive: bool,
        commit: CommitFn,
        argument: *mut c_void,
        id: *mut *mut c_void,
    ) -> bool;
}

/// A range of addresses, mapped for the life of the process.
struct Region {
    start: usize,
    size: usize,
    /// End of what the allocator has committed, in octets from the start.
    reached: AtomicUsize,
    /// End of the touched pages, in octets from the start.
    touched: AtomicUsize,
    /// The thread that touches them.
    thread: OnceLock<Thread>,
}

impl Region {
    /// Maps `size` octets, readable and writable, without resident pages.
    fn map(size: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at a place of the kernel's choice touches no memory in use.
        let mapped = unsafe {
            libc::mmap(
                null_mut(),
                size + HUGE,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = (mapped as usize).next_multiple_of(HUGE);
        // SAFETY: the range is within the mapping above; the advice changes no content. Where it is refused, pages are
        // small.
        unsafe { libc::madvise(start as *mut c_void, size, libc::MADV_HUGEPAGE) };
        Ok(Self {
            start,
            size,
            reached: AtomicUsize::new(0),
            touched: AtomicUsize::new(0),
            thread: OnceLock::new(),
        })
    }

    /// The allocator commits addresses up to `end`. Called by the allocator: neither allocates nor blocks.
    fn note(&self, end: usize) {
        let end = end.saturating_sub(self.start).min(self.size);
        let before = self.reached.fetch_max(end, Ordering::Relaxed);
        let is_near = end.max(before) + AHEAD / 2 > self.touched.load(Ordering::Relaxed);
        if let Some(thread) = self.thread.get().filter(|_| end > before && is_near) {
            thread.unpark();
        }
    }

    /// Touches one step ahead of the allocator. Returns whether there was anything to do.
    ///
    /// # Errors
    /// The system's: a kernel before 5.14, no memory.
    fn touch(&self) -> io::Result<bool> {
        let wanted = (self.reached.load(Ordering::Relaxed) + AHEAD).min(self.size);
        let from = self.touched.load(Ordering::Relaxed);
        if from >= wanted {
            return Ok(false);
        }
        let size = STEP.min(self.size - from);
        // SAFETY: the range is within the mapping, which is never unmapped; the call brings pages in as a write would
        // and changes no content, whatever thread uses them meanwhile.
        let failed = unsafe {
            libc::madvise(
                (self.start + from) as *mut c_void,
                size,
                libc::MADV_POPULATE_WRITE,
            )
        };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        self.touched.store(from + size, Ordering::Relaxed);
        Ok(true)
    }
}

/// What mimalloc calls; the last argument is the region.
///
/// # Safety
/// `region` points to a [`Region`] that lives for ever.
unsafe extern "C" fn commit(
    is_wanted: bool,
    start: *mut c_void,
    size: usize,
    _is_zero: *mut bool,
    region: *mut c_void,
) -> bool {
    // SAFETY: as above.
    let region = unsafe { &*region.cast::<Region>() };
    if is_wanted {
        region.note(start as usize + size);
    }
    // It was accessible before, and is not given back.
    is_wanted
}

/// The range of addresses given to the allocator, one per process.
pub struct AllocatorPrefault(&'static Region);

impl AllocatorPrefault {
    /// Gives the allocator `octets` of address space. No page is touched until the allocator commits the first.
    ///
    /// # Errors
    /// When the process has some already, and the system's and the allocator's refusal.
    pub fn reserve(octets: usize) -> io::Result<Self> {
        static IS_GIVEN: AtomicBool = AtomicBool::new(false);
        if IS_GIVEN.swap(true, Ordering::Relaxed) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let region: &'static Region = Box::leak(Box::new(Region::map(
            octets.clamp(LEAST, MOST).next_multiple_of(LEAST),
        )?));
        // SAFETY: the range is mapped, all zero, aligned and of no other use, and stays mapped; `commit` receives it by
        // a pointer that stays valid.
        let is_taken = unsafe {
            mi_manage_memory(
                region.start as *mut c_void,
                region.size,
                false,
                false,
                true,
                -1,
                false,
                commit,
                ptr::from_ref(region).cast_mut().cast(),
                null_mut(),
            )
        };
        if is_taken {
            Ok(Self(region))
        } else {
            Err(io::Error::other("the allocator does not take it"))
        }
    }

    /// Touches memory ahead of the allocator and waits for further commits, for the life of the process: the body of a
    /// thread.
    ///
    /// # Errors
    /// The system's, when it cannot: pages are then touched by the threads that use them.
    pub fn serve(&self) -> io::Result<()> {
        // One thread serves a range; a second call does not replace the thread that is woken.
        let _ = self.0.thread.set(thread::current());
        loop {
            thread::park();
            while self.0.touch()? {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_ahead_is_touched_and_contents_stay() {
        let region = Region::map(LEAST).unwrap();
        let octet = |at: usize| {
            assert!(at < region.size);
            // SAFETY: it is within the mapping, which no other code has.
            unsafe { &mut *((region.start + at) as *mut u8) }
        };
        *octet(5 * STEP) = 7;
        let argument = ptr::from_ref(&region).cast_mut().cast();
        // SAFETY: the region outlives the call, and the pointer is not kept.
        let told = |is_wanted, size| unsafe {
            commit(is_wanted, region.start as *mut c_void, size, null_mut(), argument)
        };
        assert!(!told(false, STEP), "nothing is given back");
        assert_eq!(region.reached.load(Ordering::Relaxed), 0);
        assert!(told(true, 64 << 10) && told(true, 32 << 10));
        assert_eq!(region.reached.load(Ordering::Relaxed), 64 << 10);
        let touched = || {
            let mut steps = 0;
            while region.touch().unwrap() {
                steps += 1;
            }
            (steps * STEP, region.touched.load(Ordering::Relaxed))
        };
        let near = (AHEAD + (64 << 10)).next_multiple_of(STEP);
        assert_eq!(touched(), (near, near));
        assert!(told(true, LEAST));
        assert_eq!(touched(), (LEAST - near, LEAST));
        assert_eq!([*octet(5 * STEP), *octet(0), *octet(LEAST - 1)], [7, 0, 0]);
        // SAFETY: the mapping is this test's alone, and nothing refers to it any more.
        unsafe { libc::munmap(region.start as *mut c_void, region.size) };
    }

    #[test]
    fn the_allocator_takes_from_it() {
        let ahead = AllocatorPrefault::reserve(LEAST).unwrap();
        assert!(AllocatorPrefault::reserve(LEAST).is_err(), "one for a process");
        let region = ahead.0;
        thread::spawn(move || ahead.serve());
        // The first commit was of the allocator's own management data.
        assert!(region.reached.load(Ordering::Relaxed) > 0);
        // More than the gigabyte that it may have had before.
        let pieces: Vec<usize> = (0..2_200)
            .map(|_| {
                // SAFETY: it is freed below, once.
                let piece = unsafe { libmimalloc_sys::mi_malloc(512 << 10) };
                assert!(!piece.is_null());
                piece as usize
            })
            .collect();
        let inside = region.start..region.start + region.size;
        let taken = pieces.iter().filter(|piece| inside.contains(piece)).count();
        assert!(taken > 60, "{taken} pieces of half a megabyte");
        for piece in pieces {
            // SAFETY: it came from `mi_malloc`.
            unsafe { libmimalloc_sys::mi_free(piece as *mut c_void) };
        }
    }
}
