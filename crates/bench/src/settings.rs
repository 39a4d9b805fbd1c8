//! What a benchmark's worker is configured with: the daemon's defaults, by the daemon's own code, and where it differs.

use std::sync::Arc;

use flow::{Seed, WorkerId};
use rules::network::Network;
use serde::Serialize;
use worker::WorkerConfig;

use super::error::BenchError;
use super::model::Model;
use super::network::{self, Wire};
use config::Config;
use upf::worker_config;

/// One setting that is not the daemon's default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its name in the configuration, or what it is about.
    pub setting: &'static str,
    /// What the daemon has without it.
    pub daemon: String,
    /// What the benchmark has.
    pub here: String,
}

/// What a world is made with.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The model.
    pub model: Model,
    /// Entries that the flow table has room for; at that many it is 95% full.
    pub room: u32,
    /// Which worker, and of how many.
    pub worker: (u16, u16),
    /// Stages count their time.
    pub stage_clock: bool,
    /// Room for packets of a port that wait when there are more than can be worked on. 0 where the port always has
    /// more: a worker that looks ahead takes what it can only drop.
    pub backlog: usize,
    /// How the instances are on the ports.
    pub wire: Wire,
}

impl Setting {
    /// One worker whose table is full with the model's entries.
    #[must_use]
    pub const fn new(model: Model) -> Self {
        Self {
            model,
            room: model.entries(),
            worker: (0, 1),
            stage_clock: true,
            backlog: 0,
            wire: Wire::Tagged,
        }
    }

    /// The configuration of the worker: the daemon's defaults, but for what the model needs and what would bound the
    /// figure from outside. [`differences`] names all that differs.
    ///
    /// # Errors
    /// As [`usual`].
    pub fn config(&self, network: &Arc<Network>) -> Result<WorkerConfig, BenchError> {
        let mut config = usual(self, network)?;
        config.workers = self.worker.1;
        // What is measured is how long answers take, not how many there may be.
        config.echoes = worker::PacketRates::new(1_000_000, 1_000_000);
        config.lags = self.wire.lags();
        let sessions = self.model.sessions as usize;
        (config.max_sessions, config.own_sessions) = (sessions, sessions);
        (config.max_flows_v4, config.max_flows_v6) = (self.room.max(64) as usize, 64);
        (config.max_adjacencies, config.max_exceptions) = (16, 64);
        config.shared_meters = self.model.policy.slices;
        config.force_five_tuple = self.model.force_five_tuple;
        config.stage_clock = self.stage_clock;
        config.backlog = self.backlog;
        Ok(config)
    }

    /// How that differs from the daemon's defaults.
    ///
    /// # Errors
    /// When the network of the benchmark breaks a bound.
    pub fn differences(&self) -> Result<Vec<Difference>, BenchError> {
        let network = Arc::new(network::network(self.wire).map_err(BenchError::of)?);
        let usual = usual(self, &network)?;
        Ok(differences(&usual, &self.config(&network)?))
    }
}

/// The configuration of a node that says no more than it must.
///
/// # Errors
/// None, while the program's defaults are within its bounds.
pub fn daemon() -> Result<Config, BenchError> {
    const TEXT: &str = "node: {id: bench.example.org}\nn4: {addresses: [127.0.0.8]}\nports:\n\
        \x20 - {name: ran, driver: {memory: {}}}\n  - {name: dn, driver: {memory: {}}}\ninstances:\n\
        \x20 - {name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}\n\
        \x20 - {name: core, roles: [n6], port: dn, addresses: [10.101.0.1/24]}\n";
    Config::parse(TEXT, "bench").map_err(BenchError::of)
}

/// What a worker of the daemon has by default, in a network.
///
/// # Errors
/// As [`daemon`].
pub fn usual(setting: &Setting, network: &Arc<Network>) -> Result<WorkerConfig, BenchError> {
    let macs = setting.wire.macs();
    let (id, _) = setting.worker;
    Ok(worker_config(
        &daemon()?,
        WorkerId(id),
        network,
        &macs,
        Seed([3, 5]),
    ))
}

/// Packets of a port that the daemon lets wait by default.
///
/// # Errors
/// As [`daemon`].
pub fn backlog() -> Result<usize, BenchError> {
    Ok(upf::backlog(&daemon()?))
}

/// A value of the configuration as text.
type Shown = fn(&WorkerConfig) -> String;

/// What differs, or may, with its name and how it is shown.
const MAY_DIFFER: [(&str, Shown); 11] = [
    ("workers.count", |config| config.workers.to_string()),
    ("workers.force_five_tuple", |config| {
        config.force_five_tuple.to_string()
    }),
    ("workers.backlog", |config| config.backlog.to_string()),
    ("limits.sessions", |config| config.max_sessions.to_string()),
    ("limits.flows_ipv4", |config| config.max_flows_v4.to_string()),
    ("limits.flows_ipv6", |config| config.max_flows_v6.to_string()),
    ("neighbours and exceptions of the tables", |config| {
        format!("{} and {}", config.max_adjacencies, config.max_exceptions)
    }),
    ("slices and policers", |config| config.shared_meters.to_string()),
    ("gtpu.answers", |config| format!("{:?}", config.echoes)),
    ("LAGs", |config| config.lags.len().to_string()),
    ("stages count their time", |config| config.stage_clock.to_string()),
];

/// How `here` differs from `daemon`.
#[must_use]
pub fn differences(daemon: &WorkerConfig, here: &WorkerConfig) -> Vec<Difference> {
    let one = |(setting, shown): (&'static str, Shown)| {
        let [daemon, here] = [daemon, here].map(shown);
        (daemon != here).then_some(Difference {
            setting,
            daemon,
            here,
        })
    };
    let threads = Difference {
        setting: "workers.idle",
        daemon: "busy with a PCI port, adaptive with memory ports".into(),
        here: "busy".into(),
    };
    MAY_DIFFER.into_iter().filter_map(one).chain([threads]).collect()
}

/// Them in a line.
#[must_use]
pub fn line(differences: &[Difference]) -> String {
    let one = |difference: &Difference| {
        format!(
            "{} {} ({})",
            difference.setting, difference.here, difference.daemon
        )
    };
    let all: Vec<String> = differences.iter().map(one).collect();
    format!("the daemon's defaults but: {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::model::Model;
    use super::super::network;
    use super::*;

    #[test]
    fn whatever_is_not_the_daemons_default_is_reported() {
        let model = Model::v(2, 1).unwrap().with_sessions(64);
        let setting = Setting {
            worker: (0, 2),
            stage_clock: false,
            ..Setting::new(model)
        };
        let network = Arc::new(network::network(setting.wire).unwrap());
        let usual = usual(&setting, &network).unwrap();
        let mut here = setting.config(&network).unwrap();
        let told = differences(&usual, &here);
        let names: Vec<&str> = told.iter().map(|difference| difference.setting).collect();
        for name in [
            "workers.force_five_tuple",
            "workers.backlog",
            "limits.sessions",
            "limits.flows_ipv4",
        ] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
        assert!(
            line(&told).contains("limits.sessions 64 (10000)"),
            "{}",
            line(&told)
        );
        // With what it names put back, nothing else differs.
        (here.workers, here.force_five_tuple, here.backlog) =
            (usual.workers, usual.force_five_tuple, usual.backlog);
        (here.max_sessions, here.own_sessions) = (usual.max_sessions, usual.own_sessions);
        (here.max_flows_v4, here.max_flows_v6) = (usual.max_flows_v4, usual.max_flows_v6);
        (here.max_adjacencies, here.max_exceptions) = (usual.max_adjacencies, usual.max_exceptions);
        (here.shared_meters, here.echoes, here.stage_clock) =
            (usual.shared_meters, usual.echoes, usual.stage_clock);
        assert!(differences(&usual, &here).len() == 1);
        assert_eq!(format!("{here:?}"), format!("{usual:?}"));
    }
}
