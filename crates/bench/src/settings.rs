//! Configuration of a benchmark's worker: the daemon's defaults, by the daemon's own code, and the differences.

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
    /// Its name in the configuration, or its subject.
    pub setting: &'static str,
    /// The daemon's default.
    pub daemon: String,
    /// The benchmark's value.
    pub here: String,
}

/// One of several workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerOf {
    /// Its number, from 0.
    pub id: u16,
    /// Number of workers that share the buckets.
    pub workers: u16,
}

/// Parameters of a [`World`](super::world::World).
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The model.
    pub model: Model,
    /// Entries that the flow table has room for; at that many it is 95% full.
    pub room: u32,
    /// The worker.
    pub worker: WorkerOf,
    /// Stages count their time.
    pub stage_clock: bool,
    /// Packets of a port that may wait in overload. 0 where the port always has more packets: with a backlog a worker
    /// takes packets that it can only drop.
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
            worker: WorkerOf { id: 0, workers: 1 },
            stage_clock: true,
            backlog: 0,
            wire: Wire::Tagged,
        }
    }

    /// The worker's configuration: the daemon's defaults, except for table sizes that the model needs and limits that
    /// would bound the figure. [`differences`] returns all differences.
    ///
    /// # Errors
    /// As [`usual`].
    pub fn config(&self, network: &Arc<Network>) -> Result<WorkerConfig, BenchError> {
        let mut config = usual(self, network)?;
        config.workers = self.worker.workers;
        // The rate limit of Echo Responses would bound T8.echo, which is about delay.
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

    /// Differences from the daemon's defaults.
    ///
    /// # Errors
    /// When the network of the benchmark breaks a bound.
    pub fn differences(&self) -> Result<Vec<Difference>, BenchError> {
        let network = Arc::new(network::network(self.wire).map_err(BenchError::of)?);
        let usual = usual(self, &network)?;
        Ok(differences(&usual, &self.config(&network)?))
    }
}

/// The smallest valid configuration of a node.
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

/// The daemon's default configuration of a worker in a network.
///
/// # Errors
/// As [`daemon`].
pub fn usual(setting: &Setting, network: &Arc<Network>) -> Result<WorkerConfig, BenchError> {
    let macs = setting.wire.macs();
    let id = setting.worker.id;
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

/// Settings that may differ: name, and value as text.
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

/// Differences of `here` from `daemon`.
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

/// Differences in one line.
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
            worker: WorkerOf { id: 0, workers: 2 },
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
        // With these differences put back, no other is left.
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
