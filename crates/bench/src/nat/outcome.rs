//! What a run found.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::clock::Spread;

/// What flow entries are of, and whether there is NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// Addresses are translated.
    pub has_nat: bool,
    /// Each 5-tuple has an entry, else each tunnel and UE address.
    pub is_tuple: bool,
}

/// Raw counts of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Spent {
    /// Packets that the worker took.
    pub packets: u64,
    /// Packets that came out.
    pub sent: u64,
    /// Packets that the worker dropped.
    pub dropped: u64,
    /// Packets that came out with another end than they should have.
    pub wrong: u64,
    /// Ticks in which the port made frames.
    pub port_ticks: u64,
    /// Rounds that count.
    pub rounds: usize,
    /// Rounds left out because the thread lost its core.
    pub disturbed: usize,
}

impl Spent {
    /// The counts of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            sent: self.sent + other.sent,
            dropped: self.dropped + other.dropped,
            wrong: self.wrong + other.wrong,
            port_ticks: self.port_ticks + other.port_ticks,
            rounds: self.rounds + other.rounds,
            disturbed: self.disturbed + other.disturbed,
        }
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Nanoseconds a packet of the median round, the port subtracted.
    pub nanos: f64,
    /// Counts.
    pub spent: Spent,
    /// Packets that were dropped, by reason.
    pub drops: BTreeMap<&'static str, u64>,
}

/// The runs of one side.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Runs {
    /// Nanoseconds a packet, the port subtracted.
    pub nanos: Spread,
    /// Nanoseconds a packet of the port alone, which were subtracted.
    pub null: f64,
    /// Entries in the flow table.
    pub entries: usize,
    /// Counts of all runs.
    pub counts: Spent,
    /// Packets that were dropped, by reason.
    pub drops: BTreeMap<&'static str, u64>,
}

impl Runs {
    /// These runs.
    #[must_use]
    pub fn of(runs: &[Run], null: f64, entries: usize) -> Self {
        let mut all = Self {
            nanos: Spread::of(runs.iter().map(|run| run.nanos).collect()),
            null,
            entries,
            ..Self::default()
        };
        for run in runs {
            all.counts = all.counts.plus(run.spent);
            for (reason, count) in &run.drops {
                *all.drops.entry(reason).or_default() += count;
            }
        }
        all
    }

    /// Whether every packet came out with the end that it should have.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        let counts = &self.counts;
        counts.wrong == 0 && counts.dropped == 0
    }
}

/// One comparison: the same packets with NAT, and without.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// What is compared.
    pub name: String,
    /// With NAT.
    pub with: Runs,
    /// Without.
    pub without: Runs,
    /// The rate with NAT over that without, of the pairs.
    pub kept: Spread,
}

/// First packets of UEs' ports, in empty tables.
#[derive(Clone, Debug, Serialize)]
pub struct SetUp {
    /// New mappings behind one flow entry for each tunnel.
    pub mappings: Runs,
    /// New flow entries, one for each 5-tuple, without NAT.
    pub entries: Runs,
    /// New mappings and a flow entry for each.
    pub both: Runs,
    /// The rate of mappings over that of flow entries, of the fills in turn.
    pub ratio: Spread,
}

/// Memory of mappings.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NatMemory {
    /// Octets by which the process grew with NAT, and without.
    pub grown: [u64; 2],
    /// Mappings.
    pub mappings: u32,
    /// Octets that the table of mappings and its indexes take by their sizes, for each mapping.
    pub of_table: f64,
}

impl NatMemory {
    /// Octets more with NAT than without, for each mapping.
    #[must_use]
    pub fn per_mapping(&self) -> f64 {
        let [with, without] = self.grown.map(|octets| octets as f64);
        (with - without) / f64::from(self.mappings.max(1))
    }
}

/// Downlink packets that came to two workers by the buckets of their blocks.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HandOvers {
    /// The share of blocks that are in the bucket of their session.
    pub in_bucket: f64,
    /// Packets.
    pub packets: u64,
    /// Those that a worker handed over to the other.
    pub handed_over: u64,
    /// Those that came out at the worker that they came to.
    pub sent: u64,
}

/// All parts that were asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Translated {
    /// Sessions.
    pub sessions: u32,
    /// Mappings of each.
    pub mappings: u32,
    /// Public addresses, and ports of a block.
    pub pool: [u32; 2],
    /// The comparisons.
    pub compared: Vec<Compared>,
    /// First packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_up: Option<SetUp>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<NatMemory>,
    /// Hand-overs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hand_overs: Option<HandOvers>,
}
