//! What few sessions have, in as little room as can be where there is none.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;

use flow::BlockImage;

/// What stands where nothing is.
pub trait Nothing: Sized + 'static {
    /// It.
    const NOTHING: &'static Self;
}

impl<T: 'static> Nothing for Vec<T> {
    const NOTHING: &'static Self = &Vec::new();
}

impl<T: 'static> Nothing for VecDeque<T> {
    const NOTHING: &'static Self = &VecDeque::new();
}

impl Nothing for BlockImage {
    const NOTHING: &'static Self = &BlockImage::NOTHING;
}

/// Something that is read as [`Nothing`] where it is not there, which takes no more room than a pointer. It is written
/// by name only ([`made`](Self::made)), so that nobody allocates by the way.
#[derive(Clone)]
pub struct Seldom<T>(Option<Box<T>>);

impl<T> Seldom<T> {
    /// Not there.
    pub const NONE: Self = Self(None);

    /// There.
    pub(crate) fn of(it: T) -> Self {
        Self(Some(Box::new(it)))
    }

    /// It, if it is there.
    pub fn there(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// It is not there any more.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

impl<T: Default> Seldom<T> {
    /// It, which is there from now on.
    pub fn made(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }

    /// Takes it away.
    pub fn take(&mut self) -> T {
        self.0.take().map(|it| *it).unwrap_or_default()
    }
}

impl<T> Default for Seldom<T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<T> From<Vec<T>> for Seldom<Vec<T>> {
    /// An empty list is not there.
    fn from(list: Vec<T>) -> Self {
        Self((!list.is_empty()).then(|| Box::new(list)))
    }
}

impl From<BlockImage> for Seldom<BlockImage> {
    fn from(block: BlockImage) -> Self {
        Self(Some(Box::new(block)))
    }
}

impl<T: Nothing> Deref for Seldom<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::NOTHING)
    }
}

impl<T: Nothing + PartialEq> PartialEq for Seldom<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Nothing + Eq> Eq for Seldom<T> {}

impl<T: Nothing + fmt::Debug> fmt::Debug for Seldom<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_nothing_and_takes_a_pointers_room() {
        let mut list: Seldom<Vec<u64>> = Seldom::NONE;
        assert_eq!(size_of_val(&list), size_of::<usize>());
        assert!(list.is_empty() && list.there().is_none() && list.take().is_empty());
        assert_eq!(list, Seldom::from(Vec::new()));
        list.made();
        assert!(list.there().is_some() && list == Seldom::NONE, "made, and empty");
        list.made().push(7);
        assert_eq!(*list, [7]);
        assert_eq!((list.take(), list.there()), (vec![7], None));
        list.made();
        list.clear();
        assert!(list.there().is_none());
    }
}
