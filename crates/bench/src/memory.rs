//! Memory (T12) of a flow table and of sessions, as differences of the process's resident set.
//!
//! To be measured first in a process: memory that earlier work gave back to the allocator would be used again and
//! not show.

use serde::Serialize;

use super::clock::resident;
use super::error::BenchError;
use super::model::Model;
use super::progress::Progress;
use super::settings::Setting;
use super::world::World;

/// Memory of tables and sessions.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    /// Octets of the whole world: its tables, sessions and flows, without the port's buffers.
    pub octets: u64,
    /// Sessions in it.
    pub sessions: u32,
    /// PDRs of each.
    pub pdrs: u32,
    /// Flow entries in it.
    pub flows: u32,
    /// Octets of a world with as much room for flow entries and one session.
    pub flow_octets: u64,
}

impl Memory {
    /// Measures a model by two worlds, one after the other: all of it, and its flow table with a single session.
    ///
    /// # Errors
    /// As [`World::new`] and [`World::install_flows`].
    pub fn measure(model: Model, progress: &Progress) -> Result<Self, BenchError> {
        let octets = grown_by(Setting::new(model), model.flows(), progress)?;
        let one = Setting {
            room: model.entries(),
            ..Setting::new(model.with_sessions(1))
        };
        let flow_octets = grown_by(one, 0, progress)?;
        Ok(Self {
            octets,
            sessions: model.sessions,
            pdrs: model.pdrs(),
            flows: model.entries(),
            flow_octets,
        })
    }

    /// Octets for each flow, whose tables are faulted in when they are made.
    #[must_use]
    pub fn per_flow(&self) -> f64 {
        self.flow_octets as f64 / f64::from(self.flows.max(1))
    }

    /// Octets for each session: all that the flow table does not explain.
    #[must_use]
    pub fn per_session(&self) -> f64 {
        self.octets.saturating_sub(self.flow_octets) as f64 / f64::from(self.sessions.max(1))
    }
}

/// How much a world adds to the resident set, less its port.
fn grown_by(setting: Setting, flows: u32, progress: &Progress) -> Result<u64, BenchError> {
    let before = resident();
    let mut world = World::new(setting, progress)?;
    if flows > 0 {
        world.install_flows(0, flows, progress)?;
    }
    let grown = resident().saturating_sub(before);
    Ok(grown.saturating_sub(world.port_octets()))
}
