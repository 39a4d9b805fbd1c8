//! Rules that are predefined in the user plane (TS 29.244 §5.4.9, §5.19): what an operator configures once, and what
//! sessions activate by name ([`Rulebase`]) or by number (a FAR, QER or URR with the top bit of its number set).
//!
//! Made of a configuration, never changed, and shared by all sessions: a session keeps a reference to each rulebase
//! that its PDRs activate, and instances of the FARs, QERs and URRs that they use
//! ([`SessionRules::instantiate`](crate::SessionRules::instantiate)), which have state of their own in each session. So
//! what a session takes grows with those, and not with the number of rules in a rulebase.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use dpi::domain_lists::DomainLists;
use flow::{BlockImage, ContentId};

use super::far::Far;
use super::ids::{FarId, QerId, RuleRef, UrrId};
use super::qer::Qer;
use super::rulebase::{Content, PredefinedRule, Rulebase, each_once};
use super::urr::Urr;
use crate::sdf::TooManyPatterns;

/// All that is predefined.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Predefined {
    fars: BTreeMap<FarId, Far>,
    qers: BTreeMap<QerId, Qer>,
    urrs: BTreeMap<UrrId, Urr>,
    rulebases: BTreeMap<Box<[u8]>, Arc<Rulebase>>,
    contents: BTreeMap<Content, ContentId>,
    /// By number, from 1.
    names: Vec<Content>,
}

impl Predefined {
    /// Octets of the longest name.
    pub const MAX_NAME: usize = 255;

    /// No rulebases yet.
    ///
    /// # Errors
    /// A rule whose number has not the top bit set, or another's number.
    pub fn new(
        fars: impl IntoIterator<Item = Far>,
        qers: impl IntoIterator<Item = Qer>,
        urrs: impl IntoIterator<Item = Urr>,
    ) -> Result<Self, PredefinedError> {
        Ok(Self {
            fars: by_id(fars.into_iter().map(|far| (far.id, far)))?,
            qers: by_id(qers.into_iter().map(|qer| (qer.id, qer)))?,
            urrs: by_id(urrs.into_iter().map(|urr| (urr.id, urr)))?,
            ..Self::default()
        })
    }

    /// Adds a rulebase.
    ///
    /// # Errors
    /// Its name is another's, empty or too long; it has no rules; a rule names a FAR, QER or URR that is not predefined
    /// here; or it names more of them, or has more filters, than one session has room for.
    pub fn add(&mut self, name: &[u8], rules: Vec<PredefinedRule>) -> Result<(), PredefinedError> {
        self.add_with_categories(name, rules, &Arc::new(DomainLists::empty()))
    }

    /// The same of rules that name categories of these lists.
    ///
    /// # Errors
    /// Those of [`add`](Self::add).
    pub fn add_with_categories(
        &mut self,
        name: &[u8],
        rules: Vec<PredefinedRule>,
        lists: &Arc<DomainLists>,
    ) -> Result<(), PredefinedError> {
        if name.is_empty() || name.len() > Self::MAX_NAME {
            return Err(PredefinedError::Name);
        }
        if self.rulebases.contains_key(name) {
            return Err(PredefinedError::NameTaken);
        }
        if rules.is_empty() {
            return Err(PredefinedError::Empty);
        }
        rules.iter().try_for_each(|rule| self.check(rule))?;
        check_slots(&rules)?;
        let marks = |id: QerId| self.qer(id).is_some_and(Qer::marks);
        let numbers = self.number_contents(&rules);
        let content = |content: &Content| numbers.get(content).copied().unwrap_or_default();
        let rulebase = Rulebase::new(name, rules, marks, content, lists)?;
        self.rulebases.insert(name.into(), Arc::new(rulebase));
        for content in rulebase_contents(&numbers) {
            if self.contents.insert(content.0.clone(), content.1).is_none() {
                self.names.push(content.0.clone());
            }
        }
        Ok(())
    }

    /// What this is as the successor of `older`, whose rulebases and instances sessions have: contents keep their
    /// numbers, also those that no rule is of any more, and what has not changed is the same memory.
    ///
    /// # Errors
    /// As of [`add`](Self::add).
    pub fn succeeding(self, older: &Self) -> Result<Self, PredefinedError> {
        let mut next = Self {
            fars: self.fars,
            qers: self.qers,
            urrs: self.urrs,
            rulebases: BTreeMap::new(),
            contents: older.contents.clone(),
            names: older.names.clone(),
        };
        for (name, rulebase) in &self.rulebases {
            next.add(name, rulebase.rules().to_vec())?;
        }
        for (name, rulebase) in &mut next.rulebases {
            if let Some(old) = older.rulebases.get(name).filter(|old| *old == rulebase) {
                *rulebase = Arc::clone(old);
            }
        }
        Ok(next)
    }

    /// What of this is not in `newer`.
    pub fn without(&self, newer: &Self) -> Removed {
        let fars = self.fars.keys().map(|id| RuleRef::from(*id));
        let qers = self.qers.keys().map(|id| RuleRef::from(*id));
        let urrs = self.urrs.keys().map(|id| RuleRef::from(*id));
        let names = self.rulebases.keys();
        Removed {
            rules: fars
                .chain(qers)
                .chain(urrs)
                .filter(|id| !newer.contains(*id))
                .collect(),
            rulebases: names
                .filter(|name| newer.rulebase(name).is_none())
                .cloned()
                .collect(),
        }
    }

    /// The same, in which no request finds what is `removed`.
    #[must_use]
    pub fn hiding(&self, removed: &Removed) -> Self {
        let mut hiding = self.clone();
        hiding
            .rulebases
            .retain(|name, _| !removed.rulebases.contains(name));
        hiding
            .fars
            .retain(|id, _| !removed.rules.contains(&RuleRef::from(*id)));
        hiding
            .qers
            .retain(|id, _| !removed.rules.contains(&RuleRef::from(*id)));
        hiding
            .urrs
            .retain(|id, _| !removed.rules.contains(&RuleRef::from(*id)));
        hiding
    }

    /// The numbers of what rules are of: those that are known, and new ones.
    fn number_contents(&self, rules: &[PredefinedRule]) -> BTreeMap<Content, ContentId> {
        let mut numbers = BTreeMap::new();
        let mut next = self.names.len() as u32 + 1;
        for content in rules.iter().filter_map(|rule| rule.content.as_ref()) {
            if !numbers.contains_key(content) {
                let known = self.contents.get(content).copied();
                next += u32::from(known.is_none());
                numbers.insert(content.clone(), known.unwrap_or(ContentId(next - 1)));
            }
        }
        numbers
    }

    /// The contents that rules are of, or were in a configuration before, by name, with their numbers.
    pub fn contents(&self) -> impl Iterator<Item = (&Content, ContentId)> {
        self.contents.iter().map(|(content, id)| (content, *id))
    }

    /// What a content is.
    pub fn content(&self, id: ContentId) -> Option<&Content> {
        self.names.get(id.index().checked_sub(1)?)
    }

    fn check(&self, rule: &PredefinedRule) -> Result<(), PredefinedError> {
        let unknown = |id: RuleRef| PredefinedError::Unknown(id);
        if rule.filters.iter().any(|filter| filter.filter_id.is_some()) {
            return Err(PredefinedError::FilterId);
        }
        let far = rule.far.filter(|id| self.far(*id).is_none());
        far.map_or(Ok(()), |id| Err(unknown(id.into())))?;
        let qer = rule.qers.iter().find(|id| self.qer(**id).is_none());
        qer.map_or(Ok(()), |id| Err(unknown((*id).into())))?;
        let urr = rule.urrs.iter().find(|id| self.urr(**id).is_none());
        urr.map_or(Ok(()), |id| Err(unknown((*id).into())))
    }

    /// Whether nothing is predefined.
    pub fn is_empty(&self) -> bool {
        let Self {
            fars,
            qers,
            urrs,
            rulebases,
            contents,
            names,
        } = self;
        fars.is_empty()
            && qers.is_empty()
            && urrs.is_empty()
            && rulebases.is_empty()
            && contents.is_empty()
            && names.is_empty()
    }

    /// The rulebase with this name.
    pub fn rulebase(&self, name: &[u8]) -> Option<&Arc<Rulebase>> {
        self.rulebases.get(name)
    }

    /// All rulebases, by name.
    pub fn rulebases(&self) -> impl Iterator<Item = &Rulebase> {
        self.rulebases.values().map(Arc::as_ref)
    }

    /// The predefined FAR with this number.
    pub fn far(&self, id: FarId) -> Option<&Far> {
        self.fars.get(&id)
    }

    /// The predefined QER with this number.
    pub fn qer(&self, id: QerId) -> Option<&Qer> {
        self.qers.get(&id)
    }

    /// The predefined URR with this number.
    pub fn urr(&self, id: UrrId) -> Option<&Urr> {
        self.urrs.get(&id)
    }

    /// Whether this is the number of a predefined rule.
    pub fn contains(&self, rule: RuleRef) -> bool {
        match rule {
            RuleRef::Far(id) => self.far(id).is_some(),
            RuleRef::Qer(id) => self.qer(id).is_some(),
            RuleRef::Urr(id) => self.urr(id).is_some(),
            RuleRef::Pdr(_) | RuleRef::Bar(_) | RuleRef::Endpoint(_) => false,
        }
    }
}

/// What is predefined no more.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    /// FARs, QERs and URRs.
    pub rules: Vec<RuleRef>,
    /// The names of rulebases.
    pub rulebases: Vec<Box<[u8]>>,
}

impl Removed {
    /// Whether nothing was removed.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.rulebases.is_empty()
    }
}

/// What is predefined no more: one of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemovedName<'a> {
    /// The rulebase with this name.
    Rulebase(&'a [u8]),
    /// A FAR, QER or URR.
    Rule(RuleRef),
}

fn by_id<I, R>(rules: impl Iterator<Item = (I, R)>) -> Result<BTreeMap<I, R>, PredefinedError>
where
    I: Copy + Ord + Into<RuleRef>,
{
    let mut all = BTreeMap::new();
    for (id, rule) in rules {
        let named: RuleRef = id.into();
        if !named.is_predefined() {
            return Err(PredefinedError::NotPredefined(named));
        }
        if all.insert(id, rule).is_some() {
            return Err(PredefinedError::Twice(named));
        }
    }
    Ok(all)
}

/// By number.
fn rulebase_contents(numbers: &BTreeMap<Content, ContentId>) -> Vec<(&Content, ContentId)> {
    let mut all: Vec<_> = numbers.iter().map(|(content, id)| (content, *id)).collect();
    all.sort_by_key(|(_, id)| *id);
    all
}

/// What the rules name has slots in a session.
fn check_slots(rules: &[PredefinedRule]) -> Result<(), PredefinedError> {
    let fars = each_once(rules.iter().filter_map(|rule| rule.far));
    let qers = each_once(rules.iter().flat_map(|rule| rule.qers.iter().copied()));
    let urrs = each_once(rules.iter().flat_map(|rule| rule.urrs.iter().copied()));
    limit(fars.len(), BlockImage::MAX_FORWARDS, "FARs")?;
    limit(qers.len(), BlockImage::MAX_QERS, "QERs")?;
    limit(urrs.len(), BlockImage::MAX_URRS, "URRs")
}

fn limit(count: usize, max: usize, what: &'static str) -> Result<(), PredefinedError> {
    if count > max {
        return Err(PredefinedError::TooMany { what, max });
    }
    Ok(())
}

/// What cannot be predefined. The configuration is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PredefinedError {
    /// The top bit of a number is not set (TS 29.244 §8.2.74).
    NotPredefined(RuleRef),
    /// Two rules have one number.
    Twice(RuleRef),
    /// A rule names another that is not predefined.
    Unknown(RuleRef),
    /// A rulebase has no name, or one that is too long.
    Name,
    /// Two rulebases have one name.
    NameTaken,
    /// A rulebase has no rules.
    Empty,
    /// A filter has an id.
    FilterId,
    /// More than one session has room for.
    TooMany {
        /// Of what.
        what: &'static str,
        /// The most there may be.
        max: usize,
    },
}

impl From<TooManyPatterns> for PredefinedError {
    fn from(_: TooManyPatterns) -> Self {
        Self::TooMany {
            what: "filters, prefixes or ports",
            max: u16::MAX.into(),
        }
    }
}

impl fmt::Display for PredefinedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPredefined(rule) => write!(
                f,
                "{rule}: predefined numbers are from 2147483648 (0x80000000) on"
            ),
            Self::Twice(rule) => write!(f, "{rule} is configured twice"),
            Self::Unknown(rule) => write!(f, "{rule} is not predefined"),
            Self::Name => write!(
                f,
                "the name has no character, or more than {}",
                Predefined::MAX_NAME
            ),
            Self::NameTaken => f.write_str("another has this name"),
            Self::Empty => f.write_str("it has no rules"),
            Self::FilterId => f.write_str("a filter has an id"),
            Self::TooMany { what, max } => write!(f, "its rules name more than {max} {what}"),
        }
    }
}

impl core::error::Error for PredefinedError {}

#[cfg(test)]
mod tests;
