//! An optional value of one pointer's size that reads as a constant where it is absent.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use flow::BlockImage;

/// A type with a constant in place of an absent value.
pub trait Absent: Sized + 'static {
    /// What an absent value is read as.
    const ABSENT: &'static Self;
}

impl<T: 'static> Absent for Vec<T> {
    const ABSENT: &'static Self = &Vec::new();
}

impl<T: 'static> Absent for VecDeque<T> {
    const ABSENT: &'static Self = &VecDeque::new();
}

impl Absent for BlockImage {
    const ABSENT: &'static Self = &BlockImage::NOTHING;
}

/// An optional value in a box, for what few of very many sessions have: eight octets where it is absent. It
/// dereferences to the value, or to [`Absent::ABSENT`]. Only [`get_or_insert_default`](Self::get_or_insert_default)
/// allocates.
#[derive(Clone)]
pub struct BoxedOption<T>(Option<Box<T>>);

impl<T> BoxedOption<T> {
    /// Absent.
    pub const NONE: Self = Self(None);

    /// Present.
    pub(crate) fn some(value: T) -> Self {
        Self(Some(Box::new(value)))
    }

    /// The value, if it is present.
    pub fn as_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// Drops the value.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

impl<T: Default> BoxedOption<T> {
    /// The value, which is present from now on.
    pub fn get_or_insert_default(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }

    /// Removes and returns the value, the default if it is absent.
    pub fn take(&mut self) -> T {
        self.0.take().map(|value| *value).unwrap_or_default()
    }
}

impl<T> Default for BoxedOption<T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<T> From<Vec<T>> for BoxedOption<Vec<T>> {
    /// An empty list is absent.
    fn from(list: Vec<T>) -> Self {
        Self((!list.is_empty()).then(|| Box::new(list)))
    }
}

impl From<BlockImage> for BoxedOption<BlockImage> {
    fn from(block: BlockImage) -> Self {
        Self(Some(Box::new(block)))
    }
}

impl<T: Absent> Deref for BoxedOption<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::ABSENT)
    }
}

impl<T: Absent + PartialEq> PartialEq for BoxedOption<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Absent + Eq> Eq for BoxedOption<T> {}

impl<T: Absent + Hash> Hash for BoxedOption<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: Absent + fmt::Debug> fmt::Debug for BoxedOption<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_value_reads_as_absent_and_takes_a_pointer() {
        let mut list: BoxedOption<Vec<u64>> = BoxedOption::NONE;
        assert_eq!(size_of_val(&list), size_of::<usize>());
        assert!(list.is_empty() && list.as_mut().is_none() && list.take().is_empty());
        assert_eq!(list, BoxedOption::from(Vec::new()));
        list.get_or_insert_default();
        assert!(
            list.as_mut().is_some() && list == BoxedOption::NONE,
            "made, and empty"
        );
        list.get_or_insert_default().push(7);
        assert_eq!(*list, [7]);
        assert_eq!((list.take(), list.as_mut()), (vec![7], None));
        list.get_or_insert_default();
        list.clear();
        assert!(list.as_mut().is_none());
    }
}
