//! Categories of content, and sets of them.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};

/// The number of a category, 0 to 63, which the caller gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CategoryId(u8);

impl CategoryId {
    /// How many there are.
    pub const COUNT: usize = u64::BITS as usize;

    /// The category of this number, if it is less than [`COUNT`](Self::COUNT).
    pub const fn new(number: u8) -> Option<CategoryId> {
        match (number as usize) < Self::COUNT {
            true => Some(CategoryId(number)),
            false => None,
        }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// A set of categories.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Categories(u64);

impl Categories {
    /// None.
    pub const NONE: Categories = Categories(0);

    /// The set that has category `n` where bit `n` is set.
    pub const fn from_bits(bits: u64) -> Categories {
        Categories(bits)
    }

    /// Bit `n` of it: whether category `n` is in the set.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether `category` is one.
    pub const fn contains(self, category: CategoryId) -> bool {
        self.0 >> category.0 & 1 != 0
    }

    /// Whether one of `others` is one.
    pub const fn contains_any(self, others: Categories) -> bool {
        self.0 & others.0 != 0
    }

    /// Adds `category`.
    pub const fn insert(&mut self, category: CategoryId) {
        self.0 |= 1 << category.0;
    }

    /// Each, from the lowest number.
    pub fn iter(self) -> impl Iterator<Item = CategoryId> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let number = left.trailing_zeros() as u8;
            left &= left.wrapping_sub(1);
            CategoryId::new(number)
        })
    }
}

impl BitOr for Categories {
    type Output = Categories;

    fn bitor(self, others: Categories) -> Categories {
        Categories(self.0 | others.0)
    }
}

impl BitOrAssign for Categories {
    fn bitor_assign(&mut self, others: Categories) {
        self.0 |= others.0;
    }
}

impl From<CategoryId> for Categories {
    fn from(category: CategoryId) -> Categories {
        Categories(1 << category.0)
    }
}

impl FromIterator<CategoryId> for Categories {
    fn from_iter<I: IntoIterator<Item = CategoryId>>(categories: I) -> Categories {
        let mut set = Categories::NONE;
        categories.into_iter().for_each(|category| set.insert(category));
        set
    }
}

impl fmt::Debug for Categories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(CategoryId::number))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_it_was_given() {
        let [lowest, some, highest] = [0, 31, 63].map(|number| CategoryId::new(number).expect("a category"));
        assert_eq!(CategoryId::new(64), None);
        let set = Categories::from_iter([highest, lowest]);
        assert!(set.contains(lowest) && set.contains(highest) && !set.contains(some));
        assert_eq!(set.iter().collect::<Vec<_>>(), [lowest, highest]);
        assert_eq!((set.len(), set.is_empty()), (2, false));
        assert_eq!(format!("{set:?}"), "{0, 63}");
        assert!(set.contains_any(Categories::from(lowest) | some.into()));
        assert!(!set.contains_any(some.into()));
        assert_eq!(Categories::NONE.iter().next(), None);
        assert_eq!(Categories::from_bits(set.bits()), set);
    }
}
