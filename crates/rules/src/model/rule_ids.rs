//! The rules that another rule names.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::mem;
use core::ops::Deref;

/// Ids of rules, in the order given.
///
/// Up to three are in the list itself, in the room of two pointers: there are very many rules, most of which name one
/// or two others, and a list elsewhere is allocated, copied and freed with each.
#[derive(Clone)]
pub struct RuleIds<I>(Form<I>);

#[derive(Clone)]
#[expect(clippy::box_collection, reason = "one pointer: a list has the room of two")]
enum Form<I> {
    None,
    One([I; 1]),
    Two([I; 2]),
    Three([I; 3]),
    Many(Box<Vec<I>>),
}

impl<I> RuleIds<I> {
    /// None.
    pub const fn new() -> Self {
        Self(Form::None)
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.0 = Form::None;
    }
}

impl<I: Copy> RuleIds<I> {
    /// Appends one.
    pub fn push(&mut self, id: I) {
        self.0 = match mem::replace(&mut self.0, Form::None) {
            Form::None => Form::One([id]),
            Form::One([a]) => Form::Two([a, id]),
            Form::Two([a, b]) => Form::Three([a, b, id]),
            Form::Three([a, b, c]) => Form::Many(Box::new(vec![a, b, c, id])),
            Form::Many(mut ids) => {
                ids.push(id);
                Form::Many(ids)
            }
        };
    }

    /// Leaves those of which `stays` is true.
    pub fn retain(&mut self, stays: impl Fn(I) -> bool) {
        if !self.iter().all(|id| stays(*id)) {
            *self = self.iter().copied().filter(|id| stays(*id)).collect();
        }
    }
}

impl<I> Default for RuleIds<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I> Deref for RuleIds<I> {
    type Target = [I];

    #[inline]
    fn deref(&self) -> &[I] {
        match &self.0 {
            Form::None => &[],
            Form::One(ids) => ids,
            Form::Two(ids) => ids,
            Form::Three(ids) => ids,
            Form::Many(ids) => ids,
        }
    }
}

impl<I: Copy> Extend<I> for RuleIds<I> {
    fn extend<T: IntoIterator<Item = I>>(&mut self, ids: T) {
        ids.into_iter().for_each(|id| self.push(id));
    }
}

impl<I: Copy> FromIterator<I> for RuleIds<I> {
    fn from_iter<T: IntoIterator<Item = I>>(ids: T) -> Self {
        let mut all = Self::new();
        all.extend(ids);
        all
    }
}

impl<I: Copy> From<Vec<I>> for RuleIds<I> {
    fn from(ids: Vec<I>) -> Self {
        Self(match *ids {
            [] => Form::None,
            [a] => Form::One([a]),
            [a, b] => Form::Two([a, b]),
            [a, b, c] => Form::Three([a, b, c]),
            _ => Form::Many(Box::new(ids)),
        })
    }
}

impl<I: Copy, const N: usize> From<[I; N]> for RuleIds<I> {
    fn from(ids: [I; N]) -> Self {
        ids.into_iter().collect()
    }
}

impl<'a, I> IntoIterator for &'a RuleIds<I> {
    type Item = &'a I;
    type IntoIter = core::slice::Iter<'a, I>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<I: PartialEq> PartialEq for RuleIds<I> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<I: Eq> Eq for RuleIds<I> {}

impl<I: Hash> Hash for RuleIds<I> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<I: fmt::Debug> fmt::Debug for RuleIds<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::UrrId;
    use proptest::prelude::*;

    const _: () = assert!(size_of::<RuleIds<UrrId>>() == 2 * size_of::<usize>());

    proptest! {
        /// However it came about, it is what a vector is.
        #[test]
        fn it_is_a_list(first in prop::collection::vec(0..8_u32, 0..6), more in prop::collection::vec(0..8_u32, 0..6), gone in 0..8_u32) {
            let mut model: Vec<UrrId> = first.iter().copied().map(UrrId).collect();
            let mut ids = RuleIds::from(model.clone());
            prop_assert_eq!(&ids, &model.iter().copied().collect());
            for id in more.into_iter().map(UrrId) {
                ids.push(id);
                model.push(id);
                prop_assert_eq!(&*ids, &*model);
            }
            ids.retain(|id| id != UrrId(gone));
            model.retain(|id| *id != UrrId(gone));
            prop_assert_eq!(&*ids, &*model);
            prop_assert_eq!(ids, RuleIds::from(model));
        }
    }
}
