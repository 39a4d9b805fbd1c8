//! What the rules of access lists have decided here.

use rules::model::AccessRuleId;
use rules::network::Network;

/// What one rule has decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCount {
    /// Flows, or packets of none; a flow counts again each time that it is decided anew.
    pub flows: u64,
    /// Packets that were dropped.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
}

/// What each rule has decided.
#[derive(Debug, Default)]
pub(crate) struct AccessCounts {
    /// By the rule's number.
    counts: Vec<AccessCount>,
    /// There were rules once: sessions may still go by them.
    had_rules: bool,
}

impl AccessCounts {
    /// Of the rules of this network, all 0.
    pub fn new(network: &Network) -> Self {
        let lists = network.access_lists().all().iter();
        let ids = lists.flat_map(|one| one.list.rules()).map(|(id, _)| id.0);
        let room = ids.max().map_or(0, |last| usize::from(last) + 1);
        Self {
            counts: vec![AccessCount::default(); room],
            had_rules: room > 0,
        }
    }

    /// Those of the network before, of rules that have the same number.
    pub fn carry_over(&mut self, older: &Self, fresh: &[AccessRuleId]) {
        self.had_rules |= older.had_rules;
        for (count, old) in self.counts.iter_mut().zip(&older.counts) {
            *count = *old;
        }
        for rule in fresh {
            if let Some(count) = self.of_mut(*rule) {
                *count = AccessCount::default();
            }
        }
    }

    /// Whether there are any access lists, or have been.
    pub fn has_rules(&self) -> bool {
        self.had_rules
    }

    /// By number.
    pub fn all(&self) -> &[AccessCount] {
        &self.counts
    }

    fn of_mut(&mut self, rule: AccessRuleId) -> Option<&mut AccessCount> {
        self.counts.get_mut(usize::from(rule.0))
    }

    /// A rule has decided about a flow, or a packet of none.
    #[inline]
    pub fn decided(&mut self, rule: AccessRuleId) {
        if let Some(count) = self.of_mut(rule) {
            count.flows += 1;
        }
    }

    /// A packet is dropped by a rule.
    #[inline]
    pub fn denied(&mut self, rule: AccessRuleId, octets: u64) {
        if let Some(count) = self.of_mut(rule) {
            count.packets += 1;
            count.octets += octets;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(room: usize) -> AccessCounts {
        AccessCounts {
            counts: vec![AccessCount::default(); room],
            had_rules: true,
        }
    }

    #[test]
    fn counts_stay_with_the_numbers_that_are_not_new() {
        let mut older = counts(3);
        older.decided(AccessRuleId(1));
        older.denied(AccessRuleId(2), 100);
        older.denied(AccessRuleId(3), 100);
        let mut newer = counts(5);
        newer.carry_over(&older, &[AccessRuleId(1), AccessRuleId(9)]);
        let denied = AccessCount {
            flows: 0,
            packets: 1,
            octets: 100,
        };
        let none = AccessCount::default();
        assert_eq!(newer.all(), [none, none, denied, none, none]);
    }
}
