//! Rates that several sessions keep together: those of QERs with one correlation id (TS 29.244 §8.2.10), as the
//! APN-AMBR of a UE with several connections to one APN.
//!
//! Owned by control. An id means something among the sessions of one association, and nothing to those of others; with
//! a session that another control plane function of a set takes over, what it has in common with others goes to that
//! one too. Every correlation has a meter of its own number in each worker; which rate the sessions have together and
//! which workers they are in comes from [`Sessions::poll_shared_rate`](crate::Sessions::poll_shared_rate), before the
//! effects that need it; the caller divides the rate among them.
//!
//! A control plane function gives all of them the same contents (TS 29.244 §5.2.1). What holds where they differ, as
//! while it changes one after the other, is not said there. Each says what may pass at most, so the lowest holds,
//! whatever came first. Sessions of UEs that are in 5GC have nothing in common
//! ([`SessionRules::correlation`](rules::model::SessionRules::correlation)).

use flow::meter::{Rate, SharedId};
use flow::{SessionIndex, WorkerId};
use rules::model::{CorrelationId, SessionRules};
use std::collections::{BTreeMap, BTreeSet};

use crate::ids::AssociationId;

/// Sessions of one correlation: those of a UE to one data network.
const MOST_MEMBERS: usize = 64;

/// A rate that sessions have together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRate {
    /// The number of its meter in every worker.
    pub id: SharedId,
    /// The whole rate, by direction.
    pub rates: [Rate; 2],
    /// The workers that have any of the sessions, in rising order; none: the number is free.
    pub workers: Vec<WorkerId>,
}

/// A correlation id means something among the sessions of one association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CorrelationName {
    pub(crate) association: AssociationId,
    pub(crate) id: CorrelationId,
}

/// The sessions of one correlation.
#[derive(Debug)]
struct Group {
    /// The association whose quota it counts against.
    charged_to: AssociationId,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    session: SessionIndex,
    /// Whose session it is: several associations of a set may have sessions of one correlation.
    owner: AssociationId,
    /// What its QER says, by direction.
    rates: [Rate; 2],
}

/// All correlations. Meters have the numbers behind those of policers.
#[derive(Debug)]
pub(crate) struct Correlations {
    /// The number before the first.
    base: u16,
    most: usize,
    groups: Vec<Option<Group>>,
    /// Places in `groups` that are free again.
    free: BTreeSet<usize>,
    by_name: BTreeMap<CorrelationName, usize>,
    by_session: BTreeMap<(SessionIndex, CorrelationId), usize>,
    held: BTreeMap<AssociationId, usize>,
    /// Those that are to be polled.
    changed: BTreeSet<usize>,
}

impl Correlations {
    /// None; meters have the numbers behind `base`, as many as `most`.
    pub(crate) fn new(base: u16, most: u16) -> Correlations {
        Correlations {
            base,
            most: usize::from(most.min(u16::MAX - base)),
            groups: Vec::new(),
            free: BTreeSet::new(),
            by_name: BTreeMap::new(),
            by_session: BTreeMap::new(),
            held: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.groups.len() - self.free.len()
    }

    /// How many there may be.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// How many count for an association.
    pub(crate) fn held(&self, association: AssociationId) -> usize {
        self.held.get(&association).copied().unwrap_or_default()
    }

    /// The meter that a session's correlation has; none where the session has no such correlation.
    pub(crate) fn meter(&self, index: SessionIndex, correlation: CorrelationId) -> SharedId {
        let place = self.by_session.get(&(index, correlation));
        place.map_or(SharedId::NONE, |place| self.number(*place))
    }

    fn number(&self, place: usize) -> SharedId {
        SharedId(self.base + 1 + place as u16)
    }

    /// Joins a session to the correlation of this name, with no rate yet. A new correlation counts for `creator`;
    /// without one, none is created. Answers whether the session has just joined; `None`: there is no room.
    pub(crate) fn join(
        &mut self,
        index: SessionIndex,
        name: CorrelationName,
        creator: Option<AssociationId>,
    ) -> Option<bool> {
        if self.by_session.contains_key(&(index, name.id)) {
            return Some(false);
        }
        let place = match self.by_name.get(&name) {
            Some(place) => *place,
            None => self.create(name, creator?)?,
        };
        let group = self.groups.get_mut(place)?.as_mut()?;
        if group.members.len() >= MOST_MEMBERS {
            return None;
        }
        group.members.push(Member {
            session: index,
            owner: name.association,
            rates: [Rate::UNLIMITED; 2],
        });
        self.by_session.insert((index, name.id), place);
        self.changed.insert(place);
        Some(true)
    }

    fn create(&mut self, name: CorrelationName, charged_to: AssociationId) -> Option<usize> {
        if self.len() >= self.most {
            return None;
        }
        let place = self.free.pop_first().unwrap_or(self.groups.len());
        if place == self.groups.len() {
            self.groups.push(None);
        }
        *self.groups.get_mut(place)? = Some(Group {
            charged_to,
            members: Vec::new(),
        });
        self.by_name.insert(name, place);
        *self.held.entry(charged_to).or_default() += 1;
        Some(place)
    }

    /// The rates that a session's QERs say are these from now on.
    pub(crate) fn update_rates(&mut self, index: SessionIndex, rules: &SessionRules) {
        for (correlation, qer) in rules.correlations() {
            let Some(place) = self.by_session.get(&(index, correlation)) else {
                continue;
            };
            let group = self.groups.get_mut(*place).and_then(Option::as_mut);
            let mut members = group.into_iter().flat_map(|group| &mut group.members);
            if let Some(member) = members.find(|member| member.session == index)
                && member.rates != qer.maximum()
            {
                member.rates = qer.maximum();
                self.changed.insert(*place);
            }
        }
    }

    /// The workers that have a session are others.
    pub(crate) fn mark_changed(&mut self, index: SessionIndex) {
        let places: Vec<usize> = self.of(index).map(|(_, place)| place).collect();
        self.changed.extend(places);
    }

    /// What a session has in common with others.
    fn of(&self, index: SessionIndex) -> impl Iterator<Item = (CorrelationId, usize)> + '_ {
        let all = (index, CorrelationId(0))..=(index, CorrelationId(u32::MAX));
        let held = self.by_session.range(all);
        held.map(|((_, correlation), place)| (*correlation, *place))
    }

    /// A session leaves a correlation. One without sessions is gone.
    pub(crate) fn leave(&mut self, index: SessionIndex, correlation: CorrelationId) {
        let Some(place) = self.by_session.remove(&(index, correlation)) else {
            return;
        };
        self.changed.insert(place);
        let Some(slot) = self.groups.get_mut(place) else {
            return;
        };
        let mut owners = Vec::new();
        if let Some(group) = slot {
            let left = group.members.extract_if(.., |member| member.session == index);
            owners.extend(left.map(|member| member.owner));
        }
        if let Some(Group { charged_to, .. }) = slot.take_if(|group| group.members.is_empty()) {
            self.free.insert(place);
            if let Some(held) = self.held.get_mut(&charged_to) {
                *held -= 1;
                if *held == 0 {
                    self.held.remove(&charged_to);
                }
            }
        }
        for owner in owners {
            let name = CorrelationName {
                association: owner,
                id: correlation,
            };
            self.forget_name(place, name);
        }
    }

    /// A name that no session has any more means nothing, and may mean something else.
    fn forget_name(&mut self, place: usize, name: CorrelationName) {
        let group = self.groups.get(place).and_then(Option::as_ref);
        let mut members = group.into_iter().flat_map(|group| &group.members);
        if members.all(|member| member.owner != name.association) && self.by_name.get(&name) == Some(&place) {
            self.by_name.remove(&name);
        }
    }

    /// A session has nothing in common with others any more.
    pub(crate) fn leave_all(&mut self, index: SessionIndex) {
        let all: Vec<CorrelationId> = self.of(index).map(|(correlation, _)| correlation).collect();
        all.iter().for_each(|correlation| self.leave(index, *correlation));
    }

    /// A session belongs to another association, which means the same by its correlations, unless it has meant
    /// something else by them before.
    pub(crate) fn hand_over(&mut self, index: SessionIndex, to: AssociationId) {
        let all: Vec<(CorrelationId, usize)> = self.of(index).collect();
        for (correlation, place) in all {
            let group = self.groups.get_mut(place).and_then(Option::as_mut);
            let mut members = group.into_iter().flat_map(|group| &mut group.members);
            if let Some(member) = members.find(|member| member.session == index) {
                let from = std::mem::replace(&mut member.owner, to);
                self.by_name
                    .entry(CorrelationName {
                        association: to,
                        id: correlation,
                    })
                    .or_insert(place);
                let name = CorrelationName {
                    association: from,
                    id: correlation,
                };
                self.forget_name(place, name);
            }
        }
    }

    /// The next rate that has changed, or the workers that have its sessions; `workers_of` says which have a session.
    pub(crate) fn poll<W: IntoIterator<Item = WorkerId>>(
        &mut self,
        workers_of: impl Fn(SessionIndex) -> W,
    ) -> Option<SharedRate> {
        let place = self.changed.pop_first()?;
        let group = self.groups.get(place).and_then(Option::as_ref);
        let members = group.map_or(&[][..], |group| &group.members);
        let mut rates = [Rate::UNLIMITED; 2];
        for Member { rates: said, .. } in members {
            rates = std::array::from_fn(|way| rates[way].min(said[way]));
        }
        let workers = members.iter().flat_map(|member| workers_of(member.session));
        let mut workers: Vec<WorkerId> = workers.collect();
        workers.sort_unstable();
        workers.dedup();
        Some(SharedRate {
            id: self.number(place),
            rates,
            workers,
        })
    }

    /// Nothing is in progress in a session: its correlations are those of its live `rules`.
    pub(crate) fn settle(&mut self, index: SessionIndex, rules: &SessionRules) {
        self.update_rates(index, rules);
        let is_named = |id: CorrelationId| rules.correlations().any(|(correlation, _)| correlation == id);
        let all: Vec<CorrelationId> = self.of(index).map(|(id, _)| id).collect();
        let gone: Vec<CorrelationId> = all.into_iter().filter(|id| !is_named(*id)).collect();
        gone.iter().for_each(|id| self.leave(index, *id));
    }

    /// Whether a session has any.
    pub(crate) fn has_any(&self, index: SessionIndex) -> bool {
        self.of(index).next().is_some()
    }

    /// How many sessions have the rate of this correlation together with a session, itself among them.
    pub(crate) fn sessions_with(&self, index: SessionIndex, correlation: CorrelationId) -> usize {
        let place = self.by_session.get(&(index, correlation));
        let group = place.and_then(|place| self.groups.get(*place)?.as_ref());
        group.map_or(0, |group| group.members.len())
    }
}

/// How a session's correlations are joined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parties {
    /// The association that the session belongs to: the ids of its QERs are its own.
    pub(crate) owner: AssociationId,
    /// The association whose quota a new correlation counts against.
    pub(crate) charged_to: AssociationId,
    /// Whether that quota limits it.
    pub(crate) is_limited: bool,
}
