//! Rulebases in the classifier: a [`Matcher`] finds the rule of a rulebase that a packet is of, for all sessions alike;
//! [`Hosts`] says what the rules of the rulebases that one session's PDRs activate lead to there.
//!
//! A matcher is made once and shared. What is a session's own are the slots of the FARs, QERs and URRs that the rules
//! name: there are few, however many rules there are.

use std::sync::Arc;

use flow::ContentId;

use super::filter;
use super::packed::{Builder, Span, TooMany, View};
use super::reads::{Orientation, Reads};
use crate::image::{CompileError, CompileFault, Decision, SourceCheck};
use crate::model::{FarId, Pdr, Precedence, QerId, RuleRef, SessionRules, UrrId};
use crate::predefined::{Content, PredefinedRule, Rulebase, each_once};
use crate::ue;

/// More filters, prefixes or ports than can be named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooManyFilters;

impl From<TooMany> for TooManyFilters {
    fn from(_: TooMany) -> Self {
        Self
    }
}

/// The rules of a rulebase, made ready for matching.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Matcher {
    /// In the order of matching.
    entries: Box<[Entry]>,
    /// The filters, prefixes and ports.
    patterns: Arc<[u64]>,
    /// What the rules name, each once. Its place here is its number in an [`Entry`].
    fars: Box<[FarId]>,
    qers: Box<[QerId]>,
    urrs: Box<[UrrId]>,
    /// In rising order.
    contents: Box<[ContentId]>,
}

/// One rule of a rulebase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    precedence: Precedence,
    /// Empty: every packet.
    filters: Span,
    far: Option<u8>,
    /// The first QER that has a QFI.
    marking: Option<u8>,
    /// Bit n: the QER with number n.
    qers: u64,
    /// Bit n: the URR with number n.
    urrs: u64,
    content: ContentId,
}

impl Matcher {
    /// Of rules in the order of matching; `marks` tells whether a QER marks packets, `number_of` which content is
    /// which.
    ///
    /// # Errors
    /// There are too many filters. That the rules name no more than a session has slots is for the caller to see to.
    pub(crate) fn new(
        rules: &[PredefinedRule],
        marks: impl Fn(QerId) -> bool,
        number_of: impl Fn(&Content) -> ContentId,
    ) -> Result<Self, TooManyFilters> {
        let fars = each_once(rules.iter().filter_map(|rule| rule.far));
        let qers = each_once(rules.iter().flat_map(|rule| rule.qers.iter().copied()));
        let urrs = each_once(rules.iter().flat_map(|rule| rule.urrs.iter().copied()));
        let mut builder = Builder::new(&[], false, 0)?;
        let mut entries = Vec::with_capacity(rules.len());
        for rule in rules {
            let marking = rule.qers.iter().copied().find(|id| marks(*id));
            entries.push(Entry {
                precedence: rule.precedence,
                filters: filters(&mut builder, rule)?,
                far: rule.far.map(|id| number(&fars, id)),
                marking: marking.map(|id| number(&qers, id)),
                qers: rule
                    .qers
                    .iter()
                    .fold(0, |mask, id| mask | bit(number(&qers, *id))),
                urrs: rule
                    .urrs
                    .iter()
                    .fold(0, |mask, id| mask | bit(number(&urrs, *id))),
                content: rule.content.as_ref().map_or(ContentId::NONE, &number_of),
            });
        }
        let mut contents: Vec<ContentId> = entries.iter().map(|entry| entry.content).collect();
        contents.retain(|content| content.is_some());
        contents.sort_unstable();
        contents.dedup();
        Ok(Self {
            contents: contents.into(),
            entries: entries.into(),
            patterns: builder.pack(),
            fars,
            qers,
            urrs,
        })
    }

    pub(crate) fn fars(&self) -> &[FarId] {
        &self.fars
    }

    pub(crate) fn qers(&self) -> &[QerId] {
        &self.qers
    }

    pub(crate) fn urrs(&self) -> &[UrrId] {
        &self.urrs
    }

    pub(crate) fn contents(&self) -> &[ContentId] {
        &self.contents
    }

    /// The first rule that a packet is of, of those with a precedence before `before`.
    fn find(
        &self,
        before: Option<Precedence>,
        orientation: Orientation,
        reads: &mut Reads<'_>,
    ) -> Option<&Entry> {
        let view = View::of(&self.patterns);
        let comes_before = |entry: &&Entry| before.is_none_or(|before| entry.precedence < before);
        let mut entries = self.entries.iter().take_while(comes_before);
        entries.find(|entry| {
            let mut filters = view.filters(entry.filters).iter();
            entry.filters.is_empty()
                || filters.any(|filter| filter::matches(filter, orientation, &view, reads))
        })
    }
}

fn filters(builder: &mut Builder, rule: &PredefinedRule) -> Result<Span, TooMany> {
    let mut filters = Vec::with_capacity(rule.filters.len());
    for filter in &rule.filters {
        filters.push(filter::pattern(builder, filter)?);
    }
    builder.filters(&filters)
}

/// The place of `id`, of which there are few.
fn number<T: PartialEq>(all: &[T], id: T) -> u8 {
    let place = all.iter().position(|one| *one == id).unwrap_or_default();
    place.min(u8::MAX.into()) as u8
}

fn bit(number: u8) -> u64 {
    1u64.checked_shl(number.into()).unwrap_or(0)
}

/// The slots of those whose numbers are in `mask`.
fn at_slots(mask: u64, slots: &[u64]) -> u64 {
    let numbers = slots.iter().enumerate();
    let set = numbers.filter(|(number, _)| mask >> number & 1 != 0);
    set.fold(0, |all, (_, slots)| all | slots)
}

/// A rulebase as one PDR activates it.
#[derive(Clone, PartialEq, Debug)]
struct Activated {
    rulebase: Arc<Rulebase>,
    /// By number: the slot of each FAR, and whose addresses packets that it sends may have. None where the PDR has a
    /// FAR of its own.
    fars: Box<[(u8, SourceCheck)]>,
    /// By number: the slot of each QER, and the bits of all of its slots.
    qers: Box<[(u8, u64)]>,
    /// By number: the bits of the counters of each URR.
    urrs: Box<[u64]>,
}

impl Activated {
    /// What the PDR leads to with this rule; `base` is what it says itself.
    fn decision(&self, entry: &Entry, base: Decision) -> Decision {
        let own = (base.forward, base.source_check);
        let far = entry.far.and_then(|number| self.fars.get(usize::from(number)));
        let (forward, source_check) = far.copied().unwrap_or(own);
        let marking = entry
            .marking
            .and_then(|number| self.qers.get(usize::from(number)));
        Decision {
            forward,
            source_check,
            qers: base.qers | self.qers_of(entry),
            urrs: base.urrs | at_slots(entry.urrs, &self.urrs),
            content: entry.content,
            marking: match base.marking {
                Decision::NO_MARK => marking.map_or(Decision::NO_MARK, |(slot, _)| *slot),
                own => own,
            },
            ..base
        }
    }

    /// The slots of a rule's QERs, and of their packet rates.
    fn qers_of(&self, entry: &Entry) -> u64 {
        let numbered = (0..).zip(&self.qers);
        let set = numbered.filter(|(number, _)| entry.qers >> number & 1 != 0);
        set.fold(0, |all, (_, (_, slots))| all | slots)
    }
}

/// A PDR that activates rulebases.
#[derive(Clone, PartialEq, Debug)]
struct Host {
    /// The slot of the PDR.
    pdr: u16,
    /// In the order of their activation.
    activated: Box<[Activated]>,
}

/// The PDRs of a session that activate rulebases.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Hosts {
    all: Box<[Host]>,
    /// The slot of the counter for contents that have none: decisions lead to it that are made in workers.
    rest: Option<u8>,
}

impl Hosts {
    /// Those of `rules`; `knows_ue`: the session has UE addresses.
    ///
    /// # Errors
    /// A rulebase names a rule that the session has no instance of; or neither the PDR nor a rule has a FAR.
    pub(super) fn new(rules: &SessionRules, knows_ue: bool) -> Result<Self, CompileError> {
        let counters = rules.counter_slots();
        let slots = (0..).zip(rules.pdrs());
        let hosts = slots.filter(|(_, pdr)| !pdr.rulebases.is_empty());
        let hosts = hosts.map(|(slot, pdr)| {
            let failed = |reason| CompileError {
                rule: pdr.id.into(),
                reason,
            };
            let rulebases = pdr.rulebases.iter();
            let activated = rulebases.map(|rulebase| activated(rulebase, pdr, rules, (knows_ue, &counters)));
            Ok(Host {
                pdr: slot,
                activated: activated.collect::<Result<_, _>>().map_err(failed)?,
            })
        });
        Ok(Self {
            all: hosts.collect::<Result<_, _>>()?,
            rest: rules.content_rest(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many slots are kept for all of them.
    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        let all = self.all.iter().flat_map(|host| &host.activated);
        all.map(|one| one.fars.len() + one.qers.len() + one.urrs.len())
            .sum()
    }

    /// What a PDR that detects a packet by itself leads to; `None`: it activates rulebases, and the packet is of none
    /// of their rules. Of several rules it is of that with the lowest precedence value, then of the rulebase that was
    /// activated first.
    pub(super) fn decide(
        &self,
        base: Decision,
        orientation: Orientation,
        reads: &mut Reads<'_>,
    ) -> Option<Decision> {
        let Some(host) = self.all.iter().find(|host| host.pdr == base.pdr) else {
            return Some(base);
        };
        let mut best: Option<(&Activated, &Entry)> = None;
        for activated in &host.activated {
            let before = best.map(|(_, entry)| entry.precedence);
            let found = activated.rulebase.matcher().find(before, orientation, reads);
            best = found.map(|entry| (activated, entry)).or(best);
        }
        best.map(|(activated, entry)| activated.decision(entry, base))
    }
}

fn activated(
    rulebase: &Arc<Rulebase>,
    pdr: &Pdr,
    rules: &SessionRules,
    (knows_ue, counters): (bool, &[u64]),
) -> Result<Activated, CompileFault> {
    let lacks_far = rulebase.rules().iter().any(|rule| rule.far.is_none());
    if pdr.far.is_none() && lacks_far {
        return Err(CompileFault::NoFar);
    }
    let fars: &[FarId] = if pdr.far.is_none() { rulebase.fars() } else { &[] };
    let fars = fars.iter().map(|id| {
        let slot = slot(rules.fars().iter().position(|far| far.id == *id), *id);
        let check = ue::source_check(rules, pdr, Some(*id), knows_ue);
        slot.map(|slot| (slot, check))
    });
    let qers = rulebase.qers().iter();
    let qers = qers.map(|id| -> Result<(u8, u64), CompileFault> {
        let own = slot(rules.qers().iter().position(|qer| qer.id == *id), *id)?;
        let packets = rules.packet_slot(*id).map_or(0, |slot| bit(slot as u8));
        Ok((own, bit(own) | packets))
    });
    let urrs = rulebase.urrs().iter();
    let urrs = urrs.map(|id| {
        let slot = slot(rules.urrs().iter().position(|urr| urr.id == *id), *id);
        slot.map(|slot| counters.get(usize::from(slot)).copied().unwrap_or_default())
    });
    Ok(Activated {
        rulebase: Arc::clone(rulebase),
        fars: fars.collect::<Result<_, _>>()?,
        qers: qers.collect::<Result<_, _>>()?,
        urrs: urrs.collect::<Result<_, _>>()?,
    })
}

fn slot(place: Option<usize>, id: impl Into<RuleRef>) -> Result<u8, CompileFault> {
    let slot = place.and_then(|place| u8::try_from(place).ok());
    slot.ok_or(CompileFault::Missing(id.into()))
}
