//! What the access list of a session denies: its verdict, and how many entries there may be of it.

use flow::{FlowFlags, Nanos, TokenLevel, TokenRate, Verdict};
use rules::classifier::Match;
use rules::model::AccessEffect;

use crate::WorkerConfig;
use crate::slow_path::idle_time;
use crate::stats::Stats;

/// The entries of flows that are denied: an eighth of a worker's at most, while each has one packet. They soon age, so
/// that is a rate.
pub(crate) struct DeniedEntries {
    rate: TokenRate,
    level: TokenLevel,
}

impl DeniedEntries {
    pub fn new(config: &WorkerConfig) -> Self {
        let most = (config.max_flows_v4 + config.max_flows_v6) as u64 / 8;
        let rate = (most / idle_time::DENIED.as_secs()).clamp(1, u32::MAX.into());
        Self {
            rate: TokenRate::per_second_or_unlimited(rate as u32),
            level: TokenLevel::default(),
        }
    }

    /// Whether there is a place for the entry of a decision among those of its kind.
    #[inline]
    pub fn may_add(&mut self, verdict: &Verdict, stats: &mut Stats, now: Nanos) -> bool {
        let is_denied = verdict.flags.contains(FlowFlags::DENIED);
        let may = !is_denied || self.level.take(self.rate, now);
        stats.denied_without_entry += u64::from(!may);
        may
    }
}

/// The verdict about what is denied, of one that has only the session.
#[cold]
pub(crate) fn denied(verdict: Verdict, found: &Match) -> Verdict {
    let access = found.access;
    let is_rejected = access.is_some_and(|access| match access.connections {
        Some(policy) => policy.rejects,
        None => access.effect == AccessEffect::DenyAndAnswer,
    });
    Verdict {
        flags: (verdict.flags | FlowFlags::DENIED).with_if(FlowFlags::REJECTED, is_rejected),
        content: access.map_or(0, |access| access.rule.0),
        ..verdict
    }
}
