//! Rules in their order, by the headers of packets and by what their flows are found to be.

use std::sync::Arc;

use dpi::domain_lists::DomainLists;
use flow::Direction;

use super::detection_pattern::{DetectionIndex, DetectionPattern, DetectionReads};
use crate::sdf::{FieldReader, FilterSet, FilterTable, SdfFilter, TableEntry, TooManyPatterns};

/// Rules that very many sessions share, each with what it leads to. Made of rules, with which they are compared: two
/// tables are never asked whether they are equal.
#[derive(Clone)]
pub(super) struct RuleTable<T> {
    filters: FilterTable<T>,
    detections: DetectionIndex,
}

/// A rule before it is packed.
pub(super) struct TableRule<'a, T> {
    /// Its place among rules of several tables; it rises, and several may have one.
    pub(super) precedence: u32,
    /// A packet matches if it matches any of these, or if there are none.
    pub(super) filters: &'a [SdfFilter],
    /// What its flow has to be as well.
    pub(super) detection: &'a DetectionPattern,
    pub(super) value: T,
}

impl<T> RuleTable<T> {
    /// A table of these rules, in the order of matching. Their categories are those of `lists`.
    pub(super) fn new<'a>(
        rules: impl Iterator<Item = TableRule<'a, T>> + Clone,
        lists: &Arc<DomainLists>,
    ) -> Result<Self, TooManyPatterns> {
        let detections = DetectionIndex::of(rules.clone().map(|rule| rule.detection), lists);
        let filters = FilterTable::new(rules.map(|rule| FilterSet {
            precedence: rule.precedence,
            filters: rule.filters,
            is_partial: !rule.detection.is_empty(),
            value: rule.value,
        }))?;
        Ok(Self { filters, detections })
    }

    /// What the rules lead to, in the order of matching.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.filters.values()
    }

    /// Whether a rule asks what flows are.
    pub(super) fn asks(&self) -> bool {
        self.detections.first_asking().is_some()
    }

    /// What its rules read of flows.
    pub(super) fn reads(&self) -> DetectionReads {
        self.detections.reads()
    }

    /// The place of the first rule that a packet matches, of those with a precedence below `before`.
    pub(super) fn find(
        &self,
        before: Option<u32>,
        direction: Direction,
        reader: &mut FieldReader<'_>,
    ) -> Option<u32> {
        let before = self.filters.count_before(before);
        let found = self.filters.find(before, direction, reader);
        // Only where a rule that asks comes before does it matter what the flow is.
        let end = found.unwrap_or(before);
        let is_asked = self.detections.first_asking().is_some_and(|first| first < end);
        let flow = is_asked.then(|| reader.detected()).flatten();
        let places = flow.into_iter().flat_map(|flow| self.detections.places(flow));
        let by_flow = places.filter(|place| *place < end && self.fits(*place, direction, reader));
        by_flow.min().or(found)
    }

    /// The rule at a place.
    pub(super) fn at(&self, place: u32) -> Option<&TableEntry<T>> {
        self.filters.entry(place)
    }

    /// Whether a packet of a flow of which nothing is known yet may turn out to be of one of these rules before `end`.
    pub(super) fn may_be(
        &self,
        end: u32,
        is_one: impl Fn(&T) -> bool,
        direction: Direction,
        reader: &mut FieldReader<'_>,
    ) -> bool {
        let mut asking = self.detections.asking(end).iter();
        asking.any(|place| {
            let is_one = self.at(*place).is_some_and(|rule| is_one(&rule.value));
            is_one && self.fits(*place, direction, reader)
        })
    }

    fn fits(&self, place: u32, direction: Direction, reader: &mut FieldReader<'_>) -> bool {
        let rule = self.at(place);
        rule.is_some_and(|rule| self.filters.fits(rule, direction, reader))
    }
}
