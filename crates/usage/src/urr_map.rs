//! Something of each of a session's URRs.

use rules::model::UrrId;

/// A value for each of some URRs, in the order of their numbers: in one piece, and no larger than it must be. A session
/// has few URRs, and there are very many sessions.
#[derive(Clone, Debug)]
pub(crate) struct UrrMap<T>(Vec<(UrrId, T)>);

impl<T> Default for UrrMap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> UrrMap<T> {
    fn place(&self, urr: UrrId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&urr, |(known, _)| *known)
    }

    pub(crate) fn get(&self, urr: &UrrId) -> Option<&T> {
        let place = self.place(*urr).ok()?;
        self.0.get(place).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, urr: &UrrId) -> Option<&mut T> {
        let place = self.place(*urr).ok()?;
        self.0.get_mut(place).map(|(_, value)| value)
    }

    /// Makes room for `count` URRs in all.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.0.reserve_exact(count.saturating_sub(self.0.len()));
    }

    /// The value of `urr` from now on.
    pub(crate) fn insert(&mut self, urr: UrrId, value: T) {
        match self.place(urr) {
            Ok(place) => self.0[place].1 = value,
            Err(place) => self.0.insert(place, (urr, value)),
        }
    }

    pub(crate) fn retain(&mut self, stays: impl Fn(UrrId) -> bool) {
        self.0.retain(|(urr, _)| stays(*urr));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&UrrId, &T)> {
        self.0.iter().map(|(urr, value)| (urr, value))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<T> FromIterator<(UrrId, T)> for UrrMap<T> {
    /// Of several values for one URR the last.
    fn from_iter<I: IntoIterator<Item = (UrrId, T)>>(values: I) -> Self {
        let mut all = Self::default();
        for (urr, value) in values {
            all.insert(urr, value);
        }
        all.0.shrink_to_fit();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map_in_order(values in proptest::collection::vec((0u32..8, any::<u8>()), 0..24), cut in 0u32..8) {
            let values: Vec<_> = values.into_iter().map(|(urr, value)| (UrrId(urr), value)).collect();
            let collected: UrrMap<u8> = values.iter().copied().collect();
            let model: BTreeMap<UrrId, u8> = values.iter().copied().collect();
            prop_assert!(collected.iter().eq(model.iter()));
            let mut one_by_one = UrrMap::default();
            let mut model = BTreeMap::new();
            for (urr, value) in values {
                one_by_one.insert(urr, value);
                model.insert(urr, value);
                prop_assert_eq!(one_by_one.get(&urr), model.get(&urr));
            }
            one_by_one.retain(|urr| urr.0 >= cut);
            model.retain(|urr, _| urr.0 >= cut);
            prop_assert!(one_by_one.iter().eq(model.iter()));
            prop_assert!(one_by_one.values().eq(model.values()));
            prop_assert_eq!(one_by_one.get_mut(&UrrId(cut)), model.get_mut(&UrrId(cut)));
        }
    }
}
