//! The suffixes of host names, of whole labels, and their keyed hashes: what tables of hosts are looked up by.

use core::hash::{BuildHasher, Hasher};

use memchr::{memchr_iter, memrchr_iter};

/// The most labels of a host that a table has. A lookup tries as many suffixes, at most.
pub const MOST_LABELS: usize = 16;

/// Where the suffixes of a name start, the longest first: those of whole labels, at most [`MOST_LABELS`] of them. With
/// each its number of labels.
pub(crate) fn suffixes(name: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut starts = [0u8; MOST_LABELS];
    let mut count = 0;
    let behind_dots = memrchr_iter(b'.', name).map(|at| at + 1).chain([0]);
    for (slot, start) in starts.iter_mut().zip(behind_dots) {
        *slot = start as u8;
        count += 1;
    }
    (0..count)
        .rev()
        .map(move |nth| (usize::from(starts[nth]), nth + 1))
}

/// Labels of a name.
pub(crate) fn labels(name: &[u8]) -> usize {
    1 + memchr_iter(b'.', name).count()
}

/// The hash of a name, keyed as `hasher` is.
pub(crate) fn hash(hasher: &impl BuildHasher, name: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(name);
    hasher.finish()
}
