//! Results of a run, as written to JSON: raw counts and the figures that follow from them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::NO_DRIVER;
use super::clock::Spread;
use super::egress::Egress;
use super::floors::{Floors, IoForwarding};
use super::inspection::Inspected;
use super::latency::Latencies;
use super::machine::Machine;
use super::memory::Memory;
use super::nat::Translated;
use super::offload::Offloaded;
use super::overload::Overload;
use super::pfcp::Pfcp;
use super::published;
use super::resilience::Resilience;
use super::scaling::Scaling;
use super::selffed::Figure;
use super::settings::Difference;
use super::setup::{Alone, Beside};
use super::targets::Target;

/// A figure and its ratios to the floors.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The figure.
    #[serde(flatten)]
    pub figure: Figure,
    /// Time per packet as a multiple of that of the sketch floor, by the median round.
    pub sketch_ratio: Option<f64>,
    /// Time per packet as a multiple of that of the lookup floor.
    pub lookup_ratio: Option<f64>,
    /// Time per packet as a multiple of that of the line-budget floor.
    pub line_budget_ratio: Option<f64>,
    /// The share of packets that were dropped.
    pub drop_share: f64,
}

impl Point {
    /// A figure beside the floors of its size.
    #[must_use]
    pub fn new(figure: Figure, floors: Option<&Floors>) -> Self {
        let ratio = |nanos: f64| figure.round_nanos / nanos.max(0.001);
        Self {
            sketch_ratio: floors.map(|floors| ratio(floors.sketch.round.median)),
            lookup_ratio: floors.map(|floors| ratio(floors.lookup.round.median)),
            line_budget_ratio: floors.map(|floors| ratio(floors.line_budget.round.median)),
            drop_share: figure.counted.drop_share(),
            figure,
        }
    }
}

/// Cost of QER and URR in a model.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyCost {
    /// The model.
    pub model: &'static str,
    /// Nanoseconds per packet that QER and URR cost, of each pair of runs.
    pub nanos: Spread,
    /// The last run with QER and URR.
    pub with: Point,
    /// The last run without.
    pub without: Point,
}

/// Cost of a function: runs with the function and without in turn.
#[derive(Clone, Debug, Serialize)]
pub struct CostInTurn {
    /// Time with the function as a multiple of that without, of each pair of runs.
    pub ratio: Spread,
    /// The last run with the function.
    pub with: Point,
    /// The last run without.
    pub without: Point,
}

impl CostInTurn {
    /// The rate with the function as a share of that without.
    #[must_use]
    pub fn kept(&self) -> f64 {
        1.0 / self.ratio.median.max(0.001)
    }

    /// The cost as a share of the time per packet.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.ratio.median - 1.0
    }
}

/// The sweeps.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sweeps {
    /// Model V's profiles and sizes, at T1's flows.
    pub sizes: Vec<Point>,
    /// Flows, of model V profile 2 at 256 octets.
    pub flows: Vec<Point>,
    /// Sessions, with an entry for each tunnel.
    pub sessions: Vec<Point>,
}

/// The results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The program's version.
    pub sluice: &'static str,
    /// The commit that it was built from, where the build says so (`SLUICE_COMMIT`).
    pub commit: Option<&'static str>,
    /// The command line, without the program's path.
    pub command: String,
    /// Parts of a user plane that no figure includes.
    pub leaves_out: &'static str,
    /// Whether tables were small and runs short.
    pub quick: bool,
    /// The machine.
    pub machine: Machine,
    /// The targets.
    pub targets: Vec<Target>,
    /// QERs with a rate that the worker enforces on each packet of T1, where that was taken.
    pub meters: Option<u32>,
    /// The floors, by size.
    pub floors: Vec<Floors>,
    /// Bare forwarding.
    pub io_forwarding: Option<IoForwarding>,
    /// The figures that targets are about.
    pub throughput: Vec<Point>,
    /// The sweeps.
    pub sweeps: Sweeps,
    /// Models with and without QER and URR.
    pub policies: Vec<PolicyCost>,
    /// Cost of the stages' accounting.
    pub stage_clock: Option<CostInTurn>,
    /// Cost of VLANs on a LAG in T1, against two ports without VLANs.
    pub links: Option<CostInTurn>,
    /// Flow set-up alone.
    pub setup_alone: Option<Alone>,
    /// Flow set-up beside established flows.
    pub setup_beside: Option<Beside>,
    /// Workers.
    pub scaling: Vec<Scaling>,
    /// Memory.
    pub memory: Option<Memory>,
    /// Control over UDP sockets.
    pub pfcp: Option<Pfcp>,
    /// Loss and latency.
    pub latency: Option<Latencies>,
    /// Overload.
    pub overload: Option<Overload>,
    /// The store of sessions: kills under traffic. Its ports are those of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resilience: Option<Resilience>,
    /// Inspection and billing by hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inspection: Option<Inspected>,
    /// CG-NAT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nat: Option<Translated>,
    /// An accelerator that is driven in-band.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload: Option<Offloaded>,
    /// The egress traffic manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<Egress>,
    /// Settings that differ from the daemon's defaults, by name of the figure or part.
    pub settings: BTreeMap<String, Vec<Difference>>,
    /// Parts that were not measured, and why.
    pub left_out: Vec<String>,
}

impl Results {
    /// Results without figures.
    #[must_use]
    pub fn new(quick: bool) -> Self {
        Self {
            sluice: env!("CARGO_PKG_VERSION"),
            commit: option_env!("SLUICE_COMMIT").filter(|commit| !commit.is_empty()),
            command: std::iter::once("sluice".into())
                .chain(std::env::args().skip(1))
                .collect::<Vec<_>>()
                .join(" "),
            leaves_out: NO_DRIVER,
            quick,
            machine: Machine::this(),
            targets: Vec::new(),
            meters: None,
            floors: Vec::new(),
            io_forwarding: None,
            throughput: Vec::new(),
            sweeps: Sweeps::default(),
            policies: Vec::new(),
            stage_clock: None,
            links: None,
            setup_alone: None,
            setup_beside: None,
            scaling: Vec::new(),
            memory: None,
            pfcp: None,
            latency: None,
            overload: None,
            resilience: None,
            inspection: None,
            nat: None,
            offload: None,
            egress: None,
            settings: BTreeMap::new(),
            left_out: Vec::new(),
        }
    }

    /// The floors of this size, if they were measured.
    #[must_use]
    pub fn floors_of(&self, flows: u32, sessions: u32) -> Option<&Floors> {
        self.floors
            .iter()
            .find(|floors| (floors.flows, floors.sessions) == (flows, sessions))
    }

    /// The figure of a target.
    #[must_use]
    pub fn point(&self, name: &str) -> Option<&Point> {
        self.throughput.iter().find(|point| point.figure.name == name)
    }

    /// The results as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.insert("published".into(), json!(published::per_core()));
        }
        value
    }
}
