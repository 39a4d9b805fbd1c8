//! The configuration file: one YAML document, one module for each configured resource.
//!
//! Reading is strict. An unknown field, a value outside its bound or a reference to something that does not exist
//! is an error that names file, line, field, value and bound; nothing is guessed and nothing is silently dropped.
//! Syntax and single values are checked while the file is read ([`Config::parse`]); what concerns several fields
//! together is checked by [`Config::network`].

#![forbid(unsafe_code)]

mod bounded;
pub mod bounded_file;
mod error;
mod events;
mod flows;
mod gtpu;
mod host;
mod icmp;
mod idle;
mod instance;
mod lag;
mod log;
mod mss;
mod n4;
mod neighbours;
mod network;
mod policer;
mod policy;
mod pools;
mod port;
mod predefined;
mod records;
mod routers;
mod system;
mod vlan;

use std::path::Path;

use serde::Deserialize;

pub use bounded::Bounded;
pub use error::ConfigError;
pub use events::{EventConfig, EventLogicConfig};
pub use flows::{BufferingConfig, FlowsConfig, FragmentsConfig, IdleConfig, ReassemblyConfig};
pub use gtpu::{EchoConfig, GtpuConfig};
pub use host::HostConfig;
pub use icmp::IcmpConfig;
pub use idle::IdlePolicy;
pub use instance::{DscpConfig, FragmentConfig, HairpinConfig, InstanceConfig, Prefix, Role, RouteConfig};
pub use lag::{LacpSettings, LagConfig, LagHashConfig, LagModeConfig};
pub use log::{BadLevel, LogConfig, LogLevel};
pub use mss::MssConfig;
pub use n4::{N4Config, NodeConfig, NodeName, PeerInterface, PeersConfig, UnknownInstance};
pub use neighbours::NeighbourTimes;
pub use network::StaticNeighbour;
pub use policer::{PolicerConfig, SliceConfig};
pub use policy::PolicyConfig;
pub use pools::{Ipv4Range, Ipv6RangeConfig, PoolConfig};
pub use port::{ChecksumsConfig, Driver, PortConfig};
pub use predefined::{
    GateConfig, PredefinedAction, PredefinedConfig, PredefinedFar, PredefinedQer, PredefinedRuleConfig,
    PredefinedUrr, RulebaseConfig,
};
pub use records::{RecordsConfig, WhenFull};
pub use routers::RoutersConfig;
pub use system::{ControlConfig, DpdkConfig, LimitsConfig, RebalanceConfig, SlowPathConfig, WorkersConfig};
pub use vlan::VlanConfig;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Who this UPF is towards its SMFs.
    pub node: NodeConfig,
    /// The PFCP endpoint.
    pub n4: N4Config,
    /// GTP-U as a whole.
    #[serde(default)]
    pub gtpu: GtpuConfig,
    /// What senders of user packets are told.
    #[serde(default)]
    pub icmp: IcmpConfig,
    /// Cores for packets.
    #[serde(default)]
    pub workers: WorkersConfig,
    /// What tables are sized for.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// How the running daemon is asked.
    #[serde(default)]
    pub control: ControlConfig,
    /// The log on standard error.
    #[serde(default)]
    pub log: LogConfig,
    /// Limits and idle times of flow entries.
    #[serde(default)]
    pub flows: FlowsConfig,
    /// Fragments of user packets.
    #[serde(default)]
    pub fragments: FragmentsConfig,
    /// GTP-U packets that come in fragments.
    #[serde(default)]
    pub reassembly: ReassemblyConfig,
    /// Packets of FARs that buffer.
    #[serde(default)]
    pub buffering: BufferingConfig,
    /// Usage records for offline billing; absent: there are none.
    #[serde(default)]
    pub records: Option<RecordsConfig>,
    /// DPDK's environment.
    #[serde(default)]
    pub dpdk: DpdkConfig,
    /// Ethernet ports, in the order of their ids.
    #[serde(deserialize_with = "bounded::at_least_one")]
    pub ports: Vec<PortConfig>,
    /// Network instances (TS 23.501 §5.6.12): N3, N6, N9 and N4-u on the ports.
    #[serde(deserialize_with = "bounded::at_least_one")]
    pub instances: Vec<InstanceConfig>,
    /// Where UEs get addresses from that an SMF does not choose itself; with any, UEIP is announced,
    /// and so are SSET and MPAS, which call for it (TS 29.244 §5.22).
    #[serde(default)]
    pub pools: Vec<PoolConfig>,
    /// How neighbours are asked for, and how long they are believed.
    #[serde(default)]
    pub neighbours: NeighbourTimes,
    /// How the routers of static routes are checked.
    #[serde(default)]
    pub routers: RoutersConfig,
    /// What SMFs name by a Forwarding Policy Identifier; with any, TRST is announced.
    #[serde(default)]
    pub forwarding_policies: Vec<PolicyConfig>,
    /// Rates that the sessions of a slice or a data network share.
    #[serde(default)]
    pub policers: Vec<PolicerConfig>,
    /// What is counted as an event of an application, by URRs that count events.
    #[serde(default)]
    pub events: Vec<EventConfig>,
    /// Rules that SMFs activate by name or by number; with any rulebase, ADPDP is announced.
    #[serde(default)]
    pub predefined: PredefinedConfig,
}

/// Octets of a configuration, at most.
const LONGEST: u64 = 16 << 20;

impl Config {
    /// Reads and checks the file at `path`, of 16 MiB at most.
    ///
    /// # Errors
    /// The file cannot be read, or [`Config::parse`] refuses it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let octets =
            bounded_file::read(path, LONGEST).map_err(|error| ConfigError::unreadable(path, &error))?;
        let text =
            String::from_utf8(octets).map_err(|error| ConfigError::unreadable(path, &error.utf8_error()))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads and checks `text`; `file` names it in errors.
    ///
    /// # Errors
    /// Syntax, an unknown field, a value outside its bound, a dangling reference: with file, line and column.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        let config: Self = serde_saphyr::from_str(text).map_err(|error| ConfigError::syntax(file, &error))?;
        let checked = network::check(&config)
            .and_then(|()| host::check(&config))
            .and_then(|()| idle::check(&config))
            .and_then(|()| pools::check(&config))
            .and_then(|()| policy::check(&config))
            .and_then(|()| policer::check(&config))
            .and_then(|()| events::check(&config))
            .and_then(|()| predefined::check(&config))
            .and_then(|()| records::check(&config));
        checked.map_err(|fault| fault.at(file, text))?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
