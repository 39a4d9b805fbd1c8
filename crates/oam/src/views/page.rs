//! Pages of rows.

use crate::values::LONGEST_PAGE;

/// The first `most` of `all`, [`LONGEST_PAGE`] at most; and the key of the last one, if there are more.
pub(super) fn page<T, K>(
    mut all: impl Iterator<Item = T>,
    most: usize,
    key: impl Fn(&T) -> K,
) -> (Vec<T>, Option<K>) {
    let page: Vec<T> = all.by_ref().take(most.clamp(1, LONGEST_PAGE)).collect();
    let has_more = all.next().is_some();
    let next = page.last().filter(|_| has_more).map(key);
    (page, next)
}
