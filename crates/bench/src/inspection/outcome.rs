//! What a run found.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::clock::{Passed, Spread};
use super::super::frame::MeanFrames;

/// One comparison: the same packets with rules, and without.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// What is compared.
    pub name: String,
    /// Hosts and prefixes in the rules.
    pub rules: [u32; 2],
    /// The frames of its connections.
    pub frames: MeanFrames,
    /// Nanoseconds a packet with rules, of the pairs.
    pub with: Spread,
    /// Without.
    pub without: Spread,
    /// The rate with rules over that without.
    pub kept: Spread,
    /// Of a hundred connections with a host, those whose host was found.
    pub found_percent: f64,
    /// Packets of a hundred that inspection looked at.
    pub inspected_percent: f64,
    /// Packets that were dropped, with rules, by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// Rounds that count, of all runs.
    pub kept_rounds: usize,
    /// Rounds left out because the thread lost its core.
    pub disturbed: usize,
    /// The thread's time over all pairs.
    pub passed: Passed,
}

/// All comparisons.
#[derive(Clone, Debug, Serialize)]
pub struct Inspected {
    /// Sessions, and those with traffic.
    pub sessions: [u32; 2],
    /// The comparisons that were asked for.
    pub compared: Vec<Compared>,
}
