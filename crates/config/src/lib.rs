//! The configuration file: one YAML document, one module for each configured resource.
//!
//! Reading is strict. An unknown field, a value outside its bound or a reference to something that does not exist
//! is an error that names file, line, field, value and bound; nothing is guessed and nothing is silently dropped.
//! Syntax and single values are checked while the file is read ([`Config::parse`]); what concerns several fields
//! together is checked by [`Config::network`].

#![forbid(unsafe_code)]

mod application_files;
mod bounded;
pub mod bounded_file;
mod change_class;
mod difference;
mod error;
pub mod json_schema;
mod load;
mod parts;
mod read_lists;
mod schema;

pub use application_files::ApplicationFiles;
pub use bounded::Bounded;
pub use change_class::ChangeClass;
pub use difference::{Change, Differences};
pub use error::ConfigError;
pub use parts::accelerator::KeyError;
pub use parts::alarms::Watermark;
pub use parts::network::StaticNeighbour;
pub use parts::rings::Descriptors;
pub use schema::{
    AcceleratorConfig, AcceleratorNodeConfig, AlarmsConfig, ApplicationConfig, AtStop, AuditConfig, BadLevel,
    BadRole, BadSubjectName, BadSyslogTarget, BadWebhookUrl, BufferingConfig, CallerRole, ChecksumsConfig,
    Config, ControlConfig, DpdkConfig, Driver, DscpConfig, EchoConfig, EventConfig, EventLogicConfig,
    FlowsConfig, FragmentConfig, FragmentsConfig, GateConfig, GtpuConfig, HairpinConfig, Host, HostConfig,
    HostPort, HttpsClient, HttpsConfig, IcmpConfig, IdleConfig, IdlePolicy, InBandConfig, InspectionConfig,
    InstanceConfig, IpfixConfig, IpfixTransport, Ipv4Range, Ipv6RangeConfig, LacpSettings, LagConfig,
    LagHashConfig, LagModeConfig, LeastSeverity, LimitsConfig, LogConfig, LogFormat, LogLevel, MssConfig,
    N4Config, NatLogConfig, NdpiConfig, NeighbourTimes, NodeConfig, NodeName, PeerInterface, PeersConfig,
    PolicerConfig, PolicyConfig, PoolConfig, PortConfig, PredefinedAction, PredefinedConfig, PredefinedFar,
    PredefinedQer, PredefinedRuleConfig, PredefinedUrr, Prefix, ReassemblyConfig, RebalanceConfig,
    RecordsConfig, Role, RouteConfig, RoutersConfig, RulebaseConfig, SliceConfig, SlowPathConfig,
    StoreConfig, SubjectName, SyslogConfig, SyslogTarget, SyslogTransport, UnknownInstance, VlanConfig,
    WatermarkConfig, WatermarkCounter, WatermarkDirection, WebhookConfig, WebhookUrl, WhenFull,
    WhenUnaudited, WorkersConfig,
};

#[cfg(test)]
mod tests;
