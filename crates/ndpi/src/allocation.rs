//! What nDPI allocates by itself: the system's allocator, counted.
//!
//! nDPI 4.2 allocates modules (7 MB each), caches in them that come with the first flow of some protocols (300 KB in
//! all), and of a flow copies of what it reads: the records of a TLS message, QUIC's first message, texts of HTTP and
//! of certificates. A flow's end frees that of the flow, but not all of it where nDPI has changed its mind about the
//! protocol. So the sum counts, not the number of flows.

#![allow(unsafe_code)]

use core::cell::Cell;
use core::ffi::c_void;

thread_local! {
    /// What this thread has allocated in calls of nDPI and not freed, octets; below 0 where another thread has
    /// allocated it.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// What `call` has allocated and not freed, octets, besides its result.
pub(crate) fn counted<T>(call: impl FnOnce() -> T) -> (T, i64) {
    let before = HELD.get();
    let result = call();
    (result, HELD.get() - before)
}

/// The octets of an allocation.
fn octets(allocation: *mut c_void) -> i64 {
    // SAFETY: it is null or from `malloc`, and not freed: this module's functions are the only ones that nDPI has, and
    // what it has from the C library itself is from the same `malloc`.
    let octets = unsafe { libc::malloc_usable_size(allocation) };
    i64::try_from(octets).unwrap_or(i64::MAX)
}

/// For `set_ndpi_malloc`.
pub(crate) extern "C" fn allocate(wanted: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    let allocation = unsafe { libc::malloc(wanted) };
    HELD.set(HELD.get().saturating_add(octets(allocation)));
    allocation
}

/// For `set_ndpi_free`.
pub(crate) extern "C" fn release(allocation: *mut c_void) {
    HELD.set(HELD.get().saturating_sub(octets(allocation)));
    // SAFETY: as in `octets`; nDPI frees what it has once.
    unsafe { libc::free(allocation) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_and_freed_is_counted() {
        let (allocation, held) = counted(|| allocate(1_000));
        assert!(!allocation.is_null() && (1_000..2_000).contains(&held));
        assert_eq!(counted(|| release(allocation)).1, -held);
        assert_eq!(counted(|| release(core::ptr::null_mut())).1, 0);
    }
}
