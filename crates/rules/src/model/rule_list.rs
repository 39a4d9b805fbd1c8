//! Lists of rules with unique ids, in the order of their creation: the edits of each kind of rule.

use std::collections::BTreeSet;

use super::endpoint::TrafficEndpoint;
use super::far::{Bar, Far};
use super::fault::{EditError, EditFault};
use super::ids::{BarId, FarId, PdrId, QerId, RuleRef, TrafficEndpointId, UrrId};
use super::pdr::Pdr;
use super::qer::Qer;
use super::urr::Urr;

/// A kind of rule with an id, so that the edits are written once.
pub(super) trait Rule {
    type Id: Copy + Ord + Into<RuleRef>;
    fn id(&self) -> Self::Id;
}

macro_rules! rule {
    ($($rule:ident $id:ident),*) => {
        $(impl Rule for $rule {
            type Id = $id;
            fn id(&self) -> $id {
                self.id
            }
        })*
    };
}

rule!(Pdr PdrId, Far FarId, Qer QerId, Urr UrrId, Bar BarId, TrafficEndpoint TrafficEndpointId);

pub(super) fn find<R: Rule>(rules: &[R], id: R::Id) -> Option<&R> {
    rules.iter().find(|rule| rule.id() == id)
}

pub(super) fn create<R: Rule>(rules: &mut Vec<R>, rule: R) -> Result<(), EditError> {
    if find(rules, rule.id()).is_some() {
        return Err(EditError {
            rule: rule.id().into(),
            fault: EditFault::Exists,
        });
    }
    if rules.len() == rules.capacity() {
        // There are few rules and very many sessions: not twice the room, as a vector would take.
        rules.reserve_exact(1 + rules.len() / 4);
    }
    rules.push(rule);
    Ok(())
}

/// Creates several, each of which `check` lets pass: all or none. A session that has none yet takes the list as it is.
pub(super) fn create_all<R: Rule>(
    rules: &mut Vec<R>,
    mut new: Vec<R>,
    mut check: impl FnMut(&mut R) -> Result<(), EditError>,
) -> Result<(), EditError> {
    for place in 0..new.len() {
        let (before, rest) = new.split_at_mut(place);
        let Some(rule) = rest.first_mut() else { break };
        check(rule)?;
        let id = rule.id();
        if find(rules, id).or_else(|| find(before, id)).is_some() {
            let (rule, fault) = (id.into(), EditFault::Exists);
            return Err(EditError { rule, fault });
        }
    }
    if rules.is_empty() {
        *rules = new;
    } else {
        rules.reserve_exact(new.len());
        rules.append(&mut new);
    }
    Ok(())
}

pub(super) fn update<R: Rule>(
    rules: &mut [R],
    id: R::Id,
    change: impl FnOnce(&mut R),
) -> Result<(), EditError> {
    let rule = rules.iter_mut().find(|rule| rule.id() == id);
    rule.map(change).ok_or(EditError {
        rule: id.into(),
        fault: EditFault::Unknown,
    })
}

pub(super) fn remove<R: Rule>(rules: &mut Vec<R>, id: R::Id) -> Result<R, EditError> {
    let place = rules.iter().position(|rule| rule.id() == id);
    place.map(|at| rules.remove(at)).ok_or(EditError {
        rule: id.into(),
        fault: EditFault::Unknown,
    })
}

/// The change of the instances of predefined rules in a list: those to be removed, and those to be added.
pub(super) struct Instances<R: Rule> {
    surplus: Vec<R::Id>,
    missing: Vec<R>,
}

impl<R: Rule> Instances<R> {
    /// Of those among `rules` that are not `used`, and of those that are used and not there.
    pub(super) fn of(
        rules: &[R],
        used: impl Iterator<Item = R::Id>,
        predefined: impl Fn(R::Id) -> Option<R>,
    ) -> Self {
        let used: BTreeSet<R::Id> = used.collect();
        let unused = rules.iter().map(Rule::id).filter(|id| !used.contains(id));
        let surplus = unused.filter(|id| predefined(*id).is_some()).collect();
        let missing = used.into_iter().filter(|id| find(rules, *id).is_none());
        Self {
            surplus,
            missing: missing.filter_map(predefined).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.surplus.is_empty() && self.missing.is_empty()
    }

    pub(super) fn apply(self, rules: &mut Vec<R>) {
        rules.retain(|rule| !self.surplus.contains(&rule.id()));
        rules.extend(self.missing);
    }
}
