//! Targets: bound, measured value, and whether the bound is kept.

use serde::Serialize;

/// The time per packet, as a multiple of two floors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FloorRatios {
    /// Multiple of the sketch floor, which T1 to T3 are compared with.
    pub sketch_ratio: f64,
    /// Multiple of the line-budget floor, which runs the product's own table, blocks and meters.
    pub line_budget_ratio: f64,
}

/// What stands against a target that was measured with less than it asks for.
pub const SMALL: &str = "smaller tables than the target asks for";

/// One target.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// Its number.
    pub id: &'static str,
    /// The subject, in words.
    pub what: &'static str,
    /// The measured value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// The bound.
    pub target: f64,
    /// Whether more is better.
    pub at_least: bool,
    /// Whether the bound is kept, and the measurement is sound and of the size that the target asks for.
    pub met: bool,
    /// The time per packet as a multiple of the floors of its size, where it has some.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub floors: Option<FloorRatios>,
    /// QERs with a rate that the worker enforces on each packet, of those that the target asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meters: Option<u32>,
    /// Circumstances of the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Parts of the target; then the value is that of the first part, and the target is met when all parts are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Target>,
    /// Reasons for which the target is not met, independent of the value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub but: Vec<String>,
}

impl Target {
    /// `value` against a bound that it must not exceed.
    #[must_use]
    pub fn at_most(
        id: &'static str,
        what: &'static str,
        value: f64,
        unit: &'static str,
        target: f64,
    ) -> Self {
        Self {
            at_least: false,
            met: value <= target,
            ..Self::at_least(id, what, value, unit, target)
        }
    }

    /// `value` against a bound that it must reach.
    #[must_use]
    pub fn at_least(
        id: &'static str,
        what: &'static str,
        value: f64,
        unit: &'static str,
        target: f64,
    ) -> Self {
        Self {
            id,
            what,
            value,
            unit,
            target,
            at_least: true,
            met: value >= target,
            floors: None,
            meters: None,
            note: None,
            parts: Vec::new(),
            but: Vec::new(),
        }
    }

    /// A target of several parts, the first of which gives the value. `None` without parts.
    #[must_use]
    pub fn of_parts(id: &'static str, what: &'static str, parts: Vec<Self>) -> Option<Self> {
        let first = parts.first()?.clone();
        let met = parts.iter().all(|part| part.met);
        let but = parts.iter().flat_map(|part| part.but.clone()).collect();
        Some(Self {
            id,
            what,
            met,
            but,
            parts,
            ..first
        })
    }

    /// The target with the ratios to the floors, where they were measured.
    #[must_use]
    pub const fn with_floors(mut self, ratios: Option<FloorRatios>) -> Self {
        self.floors = ratios;
        self
    }

    /// The target with the number of meters on each packet.
    #[must_use]
    pub const fn with_meters(mut self, meters: u32) -> Self {
        self.meters = Some(meters);
        self
    }

    /// The target with the circumstances of its value.
    #[must_use]
    pub fn with_note(mut self, note: String) -> Self {
        self.note = Some(note);
        self
    }

    /// The target, which is not met for `reason` if `condition` holds.
    #[must_use]
    pub fn but_if(mut self, condition: bool, reason: impl Into<String>) -> Self {
        if condition {
            self.met = false;
            self.but.push(reason.into());
        }
        self
    }

    /// One line of text.
    #[must_use]
    pub fn line(&self) -> String {
        let sign = if self.at_least { ">=" } else { "<=" };
        let met = if self.met { "reached" } else { "NOT reached" };
        let floor = self.floors.map_or(String::new(), |ratios| {
            format!(
                "  {:.2}x the sketch floor, {:.2}x the line-budget floor",
                ratios.sketch_ratio, ratios.line_budget_ratio
            )
        });
        let but = if self.but.is_empty() {
            String::new()
        } else {
            format!("  ({})", self.but.join("; "))
        };
        let note = self
            .note
            .as_ref()
            .map_or(String::new(), |note| format!("\n      {note}"));
        format!(
            "{:<5} {:>12} {:<14} {sign} {:<10} {met}{floor}{but}\n      {}{note}",
            self.id,
            short(self.value),
            self.unit,
            short(self.target),
            self.what
        )
    }
}

/// A number in few digits.
#[must_use]
pub fn short(value: f64) -> String {
    match value.abs() {
        none if none.is_nan() => "none".into(),
        large if large >= 100_000.0 => format!("{:.2} M", value / 1e6),
        middle if middle >= 100.0 => format!("{value:.0}"),
        small if small >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_by_its_value_and_nothing_against_it() {
        let target = Target::at_most("T3", "x", 30.0, "ns", 33.0);
        assert!(target.met);
        let target = target.with_floors(None).but_if(true, "too small");
        assert!(!target.met && target.line().contains("too small"));
        assert!(!Target::at_least("T4", "x", 2.0, "M", 3.0).met);
    }
}
