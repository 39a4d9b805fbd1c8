//! The process's allocator: mimalloc, asked as it is cheapest.
//!
//! Whatever Rust asks for has an alignment, and mimalloc's call for aligned pieces looks at it each time, and takes a
//! larger piece than it must where it is not sure. What it gives without being asked is aligned well enough for nearly
//! everything.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};

/// What every piece is aligned to that is at least as large (`MI_MAX_ALIGN_SIZE`).
const ALIGNED: usize = 16;

/// Whether a piece of this many octets is aligned as `layout` wants it without more ado.
const fn is_aligned(layout: Layout, octets: usize) -> bool {
    layout.align() <= ALIGNED && layout.align() <= octets
}

/// mimalloc.
pub struct Allocator;

// SAFETY: every call is mimalloc's own for what the layout asks: a piece that is aligned by itself, or by request. All
// of them can be given back and changed by the same calls.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: mimalloc takes any size, and the alignment is a power of two.
        unsafe {
            match is_aligned(layout, size) {
                true => mi_malloc(size).cast(),
                false => mi_malloc_aligned(size, align).cast(),
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: as above.
        unsafe {
            match is_aligned(layout, size) {
                true => mi_zalloc(size).cast(),
                false => mi_zalloc_aligned(size, align).cast(),
            }
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, _: Layout) {
        // SAFETY: `memory` is a piece of this allocator, as the caller promises.
        unsafe { mi_free(memory.cast::<c_void>()) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: `memory` is a piece of this allocator, as the caller promises.
        unsafe {
            match is_aligned(layout, size) {
                true => mi_realloc(memory.cast::<c_void>(), size).cast(),
                false => mi_realloc_aligned(memory.cast::<c_void>(), size, layout.align()).cast(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::slice;

    proptest! {
        #[test]
        fn pieces_are_aligned_and_keep_their_octets(
            asked in proptest::collection::vec((1usize..5_000, 0u32..9, 1usize..5_000, any::<bool>()), 1..200),
        ) {
            let mut pieces: Vec<(*mut u8, Layout)> = Vec::new();
            for (number, (size, align, later, zeroed)) in (0u8..).zip(asked) {
                let layout = Layout::from_size_align(size, 1 << align).unwrap();
                // SAFETY: sizes are not zero; a piece has as many octets as its layout says, and is given back once.
                unsafe {
                    let memory = match zeroed {
                        true => Allocator.alloc_zeroed(layout),
                        false => Allocator.alloc(layout),
                    };
                    prop_assert!(!memory.is_null() && (memory as usize).is_multiple_of(layout.align()));
                    prop_assert!(!zeroed || slice::from_raw_parts(memory, size).iter().all(|octet| *octet == 0));
                    memory.write_bytes(number, size);
                    let memory = Allocator.realloc(memory, layout, later);
                    prop_assert!(!memory.is_null() && (memory as usize).is_multiple_of(layout.align()));
                    let kept = slice::from_raw_parts(memory, size.min(later));
                    prop_assert!(kept.iter().all(|octet| *octet == number));
                    pieces.push((memory, Layout::from_size_align(later, 1 << align).unwrap()));
                }
            }
            for (memory, layout) in pieces {
                // SAFETY: as above.
                unsafe { Allocator.dealloc(memory, layout) };
            }
        }
    }
}
