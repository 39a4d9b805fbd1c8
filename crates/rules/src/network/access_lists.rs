//! The access lists of slices and data networks, by configuration.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::error::NetworkError;
use super::scope::SessionScope;
use crate::model::{AccessList, AccessRuleId, SNssai};

/// An access list, and whose packets it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoundAccessList {
    /// The list.
    pub list: Arc<AccessList>,
    /// The sessions that it is for.
    pub scope: SessionScope,
}

/// More rules than can be numbered, beside those that live sessions still go by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyAccessRules;

/// All access lists.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccessLists {
    all: Vec<BoundAccessList>,
    /// The numbers that the network before did not use.
    fresh: Vec<AccessRuleId>,
}

impl AccessLists {
    /// Of these lists, whose rules get numbers from 1 on.
    ///
    /// # Errors
    /// [`NetworkError::AccessList`]: the first without a name of its own, or for the same sessions as another.
    /// [`NetworkError::AccessRules`]: there are too many rules.
    pub fn new(all: Vec<BoundAccessList>) -> Result<Self, NetworkError> {
        for (place, one) in all.iter().enumerate() {
            let clashes = |other: &BoundAccessList| {
                other.list.name() == one.list.name() || other.scope.is_same(&one.scope)
            };
            if one.list.name().is_empty() || all.iter().take(place).any(clashes) {
                return Err(NetworkError::AccessList(one.list.name().into()));
            }
        }
        let lists = Self {
            all,
            fresh: Vec::new(),
        };
        lists
            .succeeding(&Self::default())
            .map_err(|TooManyAccessRules| NetworkError::AccessRules)
    }

    /// The same lists in the place of `older` ones: what says the same is the same list, and a rule keeps the number of
    /// its name, which several rules of a list may have.
    ///
    /// # Errors
    /// [`TooManyAccessRules`].
    pub fn succeeding(mut self, older: &Self) -> Result<Self, TooManyAccessRules> {
        let used: BTreeSet<AccessRuleId> = older.ids().collect();
        let mut free = (1..=u16::MAX).map(AccessRuleId).filter(|id| !used.contains(id));
        let mut is_full = false;
        self.fresh.clear();
        for one in &mut self.all {
            let before = older.all.iter().find(|old| old.list.name() == one.list.name());
            if let Some(old) = before.filter(|old| old.list.says_the_same_as(&one.list)) {
                one.list = Arc::clone(&old.list);
                continue;
            }
            let mut known: HashMap<Box<str>, AccessRuleId> = before
                .into_iter()
                .flat_map(|old| old.list.rules())
                .map(|(id, rule)| (rule.name.clone(), id))
                .collect();
            let list = AccessList::clone(&one.list).numbered(|rule| {
                *known.entry(rule.name.clone()).or_insert_with(|| {
                    let id = free.next();
                    is_full |= id.is_none();
                    self.fresh.extend(id);
                    id.unwrap_or_default()
                })
            });
            one.list = Arc::new(list);
        }
        match is_full {
            true => Err(TooManyAccessRules),
            false => Ok(self),
        }
    }

    fn ids(&self) -> impl Iterator<Item = AccessRuleId> + '_ {
        self.all.iter().flat_map(|one| one.list.rules()).map(|(id, _)| id)
    }

    /// All of them.
    pub fn all(&self) -> &[BoundAccessList] {
        &self.all
    }

    /// The numbers of rules that are new, and count from 0.
    pub fn fresh(&self) -> &[AccessRuleId] {
        &self.fresh
    }

    /// The list of the sessions of this slice and data network: the narrowest, one of a data network before one of a
    /// slice. The name is as it is or in DNS labels (TS 29.244 §8.2.117), case does not count.
    pub fn of(&self, slice: Option<SNssai>, dnn: Option<&[u8]>) -> Option<&Arc<AccessList>> {
        let own = self.all.iter().filter(|one| one.scope.holds(slice, dnn));
        own.min_by_key(|one| one.scope.breadth()).map(|one| &one.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AccessAction, AccessRule};

    const SLICE: SNssai = SNssai {
        sst: 1,
        sd: SNssai::NO_SD,
    };

    fn list(name: &str, rules: &[(&str, AccessAction)]) -> Arc<AccessList> {
        let rules = rules.iter().map(|(name, action)| AccessRule {
            name: (*name).into(),
            action: action.clone(),
            direction: None,
            filters: Vec::new(),
            detection: Default::default(),
        });
        Arc::new(AccessList::new(name, rules.collect(), AccessAction::Permit).expect("few"))
    }

    fn bound(list: Arc<AccessList>, slice: Option<SNssai>, dnn: Option<&str>) -> BoundAccessList {
        BoundAccessList {
            list,
            scope: SessionScope {
                slice,
                dnn: dnn.map(str::to_owned),
            },
        }
    }

    fn name_of(lists: &AccessLists, slice: Option<SNssai>, dnn: Option<&[u8]>) -> Option<String> {
        lists.of(slice, dnn).map(|list| list.name().to_owned())
    }

    #[test]
    fn the_narrowest_list_is_a_sessions() {
        let all = vec![
            bound(list("all", &[]), None, None),
            bound(list("slice", &[]), Some(SLICE), None),
            bound(list("dnn", &[]), None, Some("internet")),
            bound(list("both", &[]), Some(SLICE), Some("internet")),
        ];
        let lists = AccessLists::new(all.clone()).unwrap();
        assert_eq!(name_of(&lists, None, None).as_deref(), Some("all"));
        assert_eq!(
            name_of(&lists, Some(SLICE), Some(b"ims")).as_deref(),
            Some("slice")
        );
        assert_eq!(
            name_of(&lists, None, Some(b"\x08Internet")).as_deref(),
            Some("dnn")
        );
        assert_eq!(
            name_of(&lists, Some(SLICE), Some(b"internet")).as_deref(),
            Some("both")
        );
        let lists = AccessLists::new(all[1..2].to_vec()).unwrap();
        assert_eq!(name_of(&lists, None, None), None);
        let twice = vec![all[0].clone(), bound(list("again", &[]), None, None)];
        assert_eq!(
            AccessLists::new(twice),
            Err(NetworkError::AccessList("again".into()))
        );
    }

    #[test]
    fn rules_keep_their_numbers_by_name_and_lists_that_say_the_same_are_the_same() {
        use AccessAction::{Deny, Permit};
        let first = AccessLists::new(vec![
            bound(list("a", &[("one", Deny), ("two", Deny)]), None, None),
            bound(list("b", &[("one", Deny)]), None, Some("b")),
        ])
        .unwrap();
        let numbers = |lists: &AccessLists| lists.ids().map(|id| id.0).collect::<Vec<_>>();
        assert_eq!(numbers(&first), [1, 2, 3, 4, 5]);
        let second = AccessLists::new(vec![
            bound(list("b", &[("one", Deny)]), None, None),
            bound(list("a", &[("two", Permit), ("three", Deny)]), Some(SLICE), None),
        ]);
        let second = second.unwrap().succeeding(&first).unwrap();
        assert_eq!(numbers(&second), [4, 5, 2, 6, 3]);
        assert_eq!(second.fresh(), [AccessRuleId(6)]);
        assert!(Arc::ptr_eq(&first.all[1].list, &second.all[0].list));
        // A number that was given up is used again by the network after the next.
        let third = AccessLists::new(vec![bound(list("c", &[]), None, None)]).unwrap();
        let third = third.succeeding(&second).unwrap();
        assert_eq!(numbers(&third), [1]);
    }
}
