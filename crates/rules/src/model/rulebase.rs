//! Rulebases: predefined rules that a PDR activates by name (TS 29.244 §5.19).
//!
//! A rulebase is made once from the configuration and shared by all sessions, so it has its filters packed, and its
//! rules numbered: the FARs, QERs and URRs that the rules name are few, however many rules there are, and only these
//! have slots in a session.

use core::fmt;
use core::hash::{Hash, Hasher};
use std::collections::HashSet;
use std::sync::Arc;

use dpi::domain_lists::DomainLists;
use flow::{ContentId, Direction};

use super::detection_pattern::{DetectionPattern, DetectionReads};
use super::ids::{FarId, Precedence, QerId, UrrId};
use super::rule_table::{RuleTable, TableRule};
use crate::sdf::{FieldReader, SdfFilter, TableEntry, TooManyPatterns};

/// One predefined rule: which packets of a session are its, and what it adds to the PDR that activates it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PredefinedRule {
    /// Its place among the rules that the same PDR activates; the PDR's own precedence is that of all of them among the
    /// PDRs of the session.
    pub precedence: Precedence,
    /// Patterns over the user packet, any of them; none: every packet. Without ids: those are the sessions'.
    pub filters: Vec<SdfFilter>,
    /// What the packet's flow has to be, beside `filters`.
    pub detection: DetectionPattern,
    /// What happens to the packet, where the PDR says nothing of it.
    pub far: Option<FarId>,
    /// QoS rules beside those of the PDR.
    pub qers: Vec<QerId>,
    /// Usage rules beside those of the PDR.
    pub urrs: Vec<UrrId>,
    /// What its packets are billed as: they count for that by themselves, beside all URRs.
    pub content: Option<Content>,
}

/// What packets are billed as: a PCC rule, or an application that several rules are of. Rules that say the same are of
/// one content, in whatever rulebases they are; each session counts it once.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Content {
    /// The name of the rule or the application in the bill.
    pub name: Box<str>,
    /// The charging key (TS 23.203 §6.3.1, TS 29.512 §5.6.2.11).
    pub rating_group: Option<u32>,
    /// The service within it.
    pub service_id: Option<u32>,
}

/// What a rule of a rulebase leads to, by the places of its FAR, QERs and URRs in the lists of the [`Rulebase`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RuleAction {
    pub(crate) far: Option<u8>,
    /// The first QER that marks packets.
    pub(crate) marking: Option<u8>,
    /// Bit n: the QER at place n.
    pub(crate) qers: u64,
    /// Bit n: the URR at place n.
    pub(crate) urrs: u64,
    pub(crate) content: ContentId,
}

/// Predefined rules that are activated together, by name.
#[derive(Clone)]
pub struct Rulebase {
    name: Box<[u8]>,
    rules: Box<[PredefinedRule]>,
    table: RuleTable<RuleAction>,
    /// The lists that its rules' categories are of.
    lists: Arc<DomainLists>,
    fars: Box<[FarId]>,
    qers: Box<[QerId]>,
    urrs: Box<[UrrId]>,
    /// In rising order.
    contents: Box<[ContentId]>,
}

impl Rulebase {
    /// Of at least one rule. `marks` says whether a QER marks packets, `content_id` is the number of a content.
    ///
    /// # Errors
    /// The rules have more filters, prefixes or ports than can be numbered. That they name no more FARs, QERs and URRs
    /// than a session has slots for is checked by the caller.
    pub(super) fn new(
        name: &[u8],
        mut rules: Vec<PredefinedRule>,
        marks: impl Fn(QerId) -> bool,
        content_id: impl Fn(&Content) -> ContentId,
        lists: &Arc<DomainLists>,
    ) -> Result<Self, TooManyPatterns> {
        rules.sort_by_key(|rule| rule.precedence);
        let fars = each_once(rules.iter().filter_map(|rule| rule.far));
        let qers = each_once(rules.iter().flat_map(|rule| rule.qers.iter().copied()));
        let urrs = each_once(rules.iter().flat_map(|rule| rule.urrs.iter().copied()));
        let action = |rule: &PredefinedRule| {
            let marking = rule.qers.iter().copied().find(|id| marks(*id));
            RuleAction {
                far: rule.far.map(|id| place(&fars, id)),
                marking: marking.map(|id| place(&qers, id)),
                qers: mask(rule.qers.iter().map(|id| place(&qers, *id))),
                urrs: mask(rule.urrs.iter().map(|id| place(&urrs, *id))),
                content: rule.content.as_ref().map_or(ContentId::NONE, &content_id),
            }
        };
        let packed = rules.iter().map(|rule| TableRule {
            precedence: rule.precedence.0,
            filters: &rule.filters,
            detection: &rule.detection,
            value: action(rule),
        });
        let table = RuleTable::new(packed, lists)?;
        let mut contents: Vec<ContentId> = table.values().map(|action| action.content).collect();
        contents.retain(|content| content.is_some());
        contents.sort_unstable();
        contents.dedup();
        Ok(Self {
            name: name.into(),
            rules: rules.into(),
            table,
            lists: Arc::clone(lists),
            fars,
            qers,
            urrs,
            contents: contents.into(),
        })
    }

    /// The name in Activate and Deactivate Predefined Rules (TS 29.244 §8.2.72): octets.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its rules, at least one, in the order of matching: by precedence, then as they were configured.
    pub fn rules(&self) -> &[PredefinedRule] {
        &self.rules
    }

    /// The FARs that its rules name, each once.
    pub fn fars(&self) -> &[FarId] {
        &self.fars
    }

    /// The QERs that its rules name, each once.
    pub fn qers(&self) -> &[QerId] {
        &self.qers
    }

    /// The URRs that its rules name, each once.
    pub fn urrs(&self) -> &[UrrId] {
        &self.urrs
    }

    /// The contents that its rules are billed as, each once, in rising order.
    pub fn contents(&self) -> &[ContentId] {
        &self.contents
    }

    /// The lists that its rules' categories are of.
    pub fn lists(&self) -> &Arc<DomainLists> {
        &self.lists
    }

    /// Whether any of its rules asks what flows are.
    pub fn asks(&self) -> bool {
        self.table.asks()
    }

    /// What its rules read of flows.
    pub(crate) fn reads(&self) -> DetectionReads {
        self.table.reads()
    }

    /// The first rule that a packet matches, of those with a precedence below `before`.
    pub(crate) fn find(
        &self,
        before: Option<u32>,
        direction: Direction,
        reader: &mut FieldReader<'_>,
    ) -> Option<&TableEntry<RuleAction>> {
        self.table.at(self.table.find(before, direction, reader)?)
    }
}

/// All that is made of the rules follows from them, but the numbers of contents.
impl PartialEq for Rulebase {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.rules == other.rules
            && self.lists.say_the_same_as(&other.lists)
            && self.table.values().eq(other.table.values())
    }
}

impl Eq for Rulebase {}

impl fmt::Debug for Rulebase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.escape_ascii();
        write!(f, "Rulebase({name}, {} rules)", self.rules.len())
    }
}

/// Rulebases with the same name are the same.
impl Hash for Rulebase {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The members of `all`, each once, in their order.
pub(super) fn each_once<T: Copy + Eq + Hash>(all: impl Iterator<Item = T>) -> Box<[T]> {
    let mut seen = HashSet::new();
    all.filter(|one| seen.insert(*one)).collect()
}

/// The place of `id` in `all`, which is short.
fn place<T: PartialEq>(all: &[T], id: T) -> u8 {
    let place = all.iter().position(|one| *one == id).unwrap_or_default();
    place.min(u8::MAX.into()) as u8
}

/// The bits of these places.
fn mask(places: impl Iterator<Item = u8>) -> u64 {
    places.fold(0, |mask, place| {
        mask | 1u64.checked_shl(place.into()).unwrap_or(0)
    })
}
