//! What the rules of rulebases lead to in one session.
//!
//! A [`Rulebase`] finds the rule of a packet for all sessions alike. What is a session's own are the slots of the FARs,
//! QERs and URRs that the rules name: there are few, however many rules there are.

use std::sync::Arc;

use flow::{Direction, prefetch};

use super::decision::Decision;
use super::source_check::{SourceCheck, source_check};
use crate::compile_error::{CompileError, CompileFault};
use crate::counter_slots::CounterSlots;
use crate::model::{DetectionReads, FarId, Pdr, RuleAction, RuleRef, Rulebase, SessionRules};
use crate::sdf::{FieldReader, TableEntry};

/// The slot of a FAR, and what packets that it sends may have as source.
#[derive(Clone, Copy, PartialEq, Debug)]
struct FarSlot {
    forward: u8,
    source_check: SourceCheck,
}

/// The slot of a QER.
#[derive(Clone, Copy, PartialEq, Debug)]
struct QerSlots {
    own: u8,
    /// Its slot and that of its packet rate: bit n is slot n.
    mask: u64,
}

/// A rulebase as one PDR activates it. Its lists are in the order of those of the [`Rulebase`].
#[derive(Clone, PartialEq, Debug)]
struct ActivatedRulebase {
    /// The slot of the PDR.
    pdr: u16,
    rulebase: Arc<Rulebase>,
    /// None where the PDR has a FAR of its own.
    fars: Box<[FarSlot]>,
    qers: Box<[QerSlots]>,
    /// The counter slots of each URR: bit n is slot n.
    urrs: Box<[u64]>,
}

impl ActivatedRulebase {
    /// The slots in `session` of what the rules name for this PDR. `knows_ue`: the session has UE addresses.
    fn new(
        rulebase: &Arc<Rulebase>,
        (slot_of_pdr, pdr): (u16, &Pdr),
        session: &Session<'_>,
    ) -> Result<Self, CompileFault> {
        let lacks_far = rulebase.rules().iter().any(|rule| rule.far.is_none());
        if pdr.far.is_none() && lacks_far {
            return Err(CompileFault::NoFar);
        }
        let rules = session.rules;
        let fars: &[FarId] = if pdr.far.is_none() { rulebase.fars() } else { &[] };
        let fars = fars.iter().map(|id| {
            let forward = slot(rules.fars().iter().position(|far| far.id == *id), *id)?;
            let source_check = source_check(rules, pdr, Some(*id), session.knows_ue);
            Ok(FarSlot {
                forward,
                source_check,
            })
        });
        let qers = rulebase.qers().iter().map(|id| {
            let own = slot(rules.qers().iter().position(|qer| qer.id == *id), *id)?;
            let packets = rules.packet_slot(*id).map_or(0, |slot| bit(slot as u8));
            let mask = bit(own) | packets;
            Ok(QerSlots { own, mask })
        });
        let urrs = rulebase.urrs().iter().map(|id| {
            let slot = slot(rules.urrs().iter().position(|urr| urr.id == *id), *id)?;
            let counters = session.counters.get(usize::from(slot));
            Ok(counters.copied().unwrap_or_default())
        });
        Ok(Self {
            pdr: slot_of_pdr,
            rulebase: Arc::clone(rulebase),
            fars: fars.collect::<Result<_, CompileFault>>()?,
            qers: qers.collect::<Result<_, CompileFault>>()?,
            urrs: urrs.collect::<Result<_, CompileFault>>()?,
        })
    }

    /// Whether it is the very same rulebase, activated alike.
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rulebase, &other.rulebase)
            && (self.pdr, &self.fars, &self.qers, &self.urrs)
                == (other.pdr, &other.fars, &other.qers, &other.urrs)
    }

    /// What the PDR leads to with this rule; `base` is what it leads to by itself.
    fn decision(&self, rule: &RuleAction, base: Decision) -> Decision {
        let far = rule.far.and_then(|place| self.fars.get(usize::from(place)));
        let far = far.copied().unwrap_or(FarSlot {
            forward: base.forward,
            source_check: base.source_check,
        });
        let marking = rule.marking.and_then(|place| self.qers.get(usize::from(place)));
        Decision {
            forward: far.forward,
            source_check: far.source_check,
            qers: base.qers | masks_of(rule.qers, self.qers.iter().map(|qer| qer.mask)),
            urrs: base.urrs | masks_of(rule.urrs, self.urrs.iter().copied()),
            content: rule.content,
            marking: match base.marking {
                Decision::NO_MARK => marking.map_or(Decision::NO_MARK, |qer| qer.own),
                own => own,
            },
            ..base
        }
    }
}

/// What is the same for all PDRs of a session.
struct Session<'a> {
    rules: &'a SessionRules,
    knows_ue: bool,
    /// The counter slots of each URR ([`CounterSlots::masks`]).
    counters: &'a [u64],
}

/// The PDRs of a session that activate rulebases.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Activations {
    /// By PDR, those of each in the order of their activation.
    rulebases: Box<[ActivatedRulebase]>,
    /// Whether any rule of them names a host.
    asks: bool,
    /// The slot of the counter for contents that have none: flows that workers have decided count in it, so another
    /// slot is another classification.
    content_rest: Option<u8>,
}

impl Activations {
    /// Those of `rules`; `knows_ue`: the session has UE addresses.
    ///
    /// # Errors
    /// A rulebase names a rule that the session has no instance of; or neither the PDR nor a rule has a FAR.
    pub(super) fn new(rules: &SessionRules, knows_ue: bool) -> Result<Self, CompileError> {
        let slots = CounterSlots::of(rules);
        if rules.pdrs().iter().all(|pdr| pdr.rulebases.is_empty()) {
            return Ok(Self {
                rulebases: Box::default(),
                asks: false,
                content_rest: None,
            });
        }
        let session = Session {
            rules,
            knows_ue,
            counters: &slots.masks(),
        };
        let mut rulebases = Vec::new();
        for (slot, pdr) in (0..).zip(rules.pdrs()) {
            for rulebase in pdr.rulebases.iter() {
                let activated = ActivatedRulebase::new(rulebase, (slot, pdr), &session);
                rulebases.push(activated.map_err(|reason| CompileError {
                    rule: pdr.id.into(),
                    reason,
                })?);
            }
        }
        Ok(Self {
            asks: rulebases.iter().any(|one| one.rulebase.asks()),
            rulebases: rulebases.into(),
            content_rest: slots.content_rest(),
        })
    }

    /// Whether the very same rulebases are activated alike.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.content_rest == other.content_rest
            && self.rulebases.len() == other.rulebases.len()
            && self
                .rulebases
                .iter()
                .zip(&other.rulebases)
                .all(|(own, other)| own.is_same(other))
    }

    /// Whether any rule of them names a host.
    pub(super) fn asks(&self) -> bool {
        self.asks
    }

    /// What their rules read of flows.
    pub(super) fn reads(&self) -> DetectionReads {
        self.rulebases.iter().map(|one| one.rulebase.reads()).collect()
    }

    /// The slot of the counter for contents that have none.
    pub(super) fn content_rest(&self) -> Option<u8> {
        self.content_rest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rulebases.is_empty()
    }

    /// Asks for what [`decide`](Self::decide) reads of the session's own, as far as it is usual.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch::lines(&self.rulebases, 4);
    }

    /// How many slots are kept for all of them.
    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        let all = self.rulebases.iter();
        all.map(|one| one.fars.len() + one.qers.len() + one.urrs.len())
            .sum()
    }

    /// What a PDR that detects a packet by itself leads to; `None`: it activates rulebases, and the packet matches none
    /// of their rules. Of several rules the one with the lowest precedence value applies, then that of the rulebase
    /// that was activated first.
    pub(super) fn decide(
        &self,
        base: Decision,
        direction: Direction,
        reader: &mut FieldReader<'_>,
    ) -> Option<Decision> {
        let mut activates = false;
        let mut best: Option<(&ActivatedRulebase, &TableEntry<RuleAction>)> = None;
        for activated in self.rulebases.iter().filter(|one| one.pdr == base.pdr) {
            activates = true;
            let before = best.map(|(_, entry)| entry.precedence);
            let found = activated.rulebase.find(before, direction, reader);
            best = found.map(|entry| (activated, entry)).or(best);
        }
        match best {
            None if !activates => Some(base),
            best => best.map(|(activated, entry)| activated.decision(&entry.value, base)),
        }
    }
}

fn bit(slot: u8) -> u64 {
    1u64.checked_shl(slot.into()).unwrap_or(0)
}

/// The masks at the places that are set in `places`, together.
fn masks_of(places: u64, masks: impl Iterator<Item = u64>) -> u64 {
    let set = masks.enumerate().filter(|(place, _)| places >> place & 1 != 0);
    set.fold(0, |all, (_, mask)| all | mask)
}

/// The slot at this place of a session's list of rules.
fn slot(place: Option<usize>, id: impl Into<RuleRef>) -> Result<u8, CompileFault> {
    let slot = place.and_then(|place| u8::try_from(place).ok());
    slot.ok_or(CompileFault::Missing(id.into()))
}
