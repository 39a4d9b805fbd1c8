//! What the file says: one module for each configured resource. Values are checked one by one as they are read.

mod accelerator;
mod accelerator_node;
mod access_list;
mod alarms;
mod caller_role;
mod connections;
mod control;
mod domain_lists;
mod egress;
mod events;
mod file_pattern;
mod flows;
mod gtpu;
mod host;
mod icmp;
mod idle;
mod inspection;
mod instance;
mod lag;
mod log;
mod mss;
mod n4;
mod nat;
mod neighbours;
mod policer;
mod policy;
mod pools;
mod port;
mod predefined;
mod protocol;
mod records;
mod routers;
mod slice_workers;
mod store;
mod system;
mod vlan;

use std::sync::Arc;

use crate::read_lists::ReadLists;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use accelerator::{AcceleratorConfig, AcceleratorMode, InBandConfig};
pub use accelerator_node::AcceleratorNodeConfig;
pub use access_list::{
    AccessActionConfig, AccessListConfig, AccessRuleConfig, ConnectionPolicyConfig, DirectionConfig,
    FilteringConfig, UnsolicitedConfig,
};
pub use alarms::{
    AlarmsConfig, BadSyslogTarget, BadWebhookUrl, HostPort, LeastSeverity, SyslogConfig, SyslogTarget,
    SyslogTransport, WatermarkConfig, WatermarkCounter, WatermarkDirection, WebhookConfig, WebhookUrl,
};
pub use caller_role::{BadRole, CallerRole};
pub use connections::ConnectionsConfig;
pub use control::{
    AuditConfig, BadSubjectName, ControlConfig, HttpsClient, HttpsConfig, SubjectName, WhenUnaudited,
};
pub use domain_lists::DomainListConfig;
pub use egress::{AqmConfig, EgressClassConfig, EgressConfig, InstanceEgressConfig, WredConfig};
pub use events::{EventConfig, EventLogicConfig};
pub use file_pattern::FilePattern;
pub use flows::{BufferingConfig, FlowsConfig, FragmentsConfig, IdleConfig, ReassemblyConfig};
pub use gtpu::{EchoConfig, GtpuConfig};
pub use host::HostConfig;
pub use icmp::IcmpConfig;
pub use idle::IdlePolicy;
pub use inspection::{InspectionConfig, NdpiConfig};
pub use instance::{DscpConfig, FragmentConfig, HairpinConfig, InstanceConfig, Prefix, Role, RouteConfig};
pub use lag::{LacpSettings, LagConfig, LagHashConfig, LagModeConfig};
pub use log::{BadLevel, LogConfig, LogFormat, LogLevel};
pub use mss::MssConfig;
pub use n4::{N4Config, NodeConfig, NodeName, PeerInterface, PeersConfig, UnknownInstance};
pub use nat::{
    ForwardConfig, IpfixConfig, IpfixTransport, NatConfig, NatLogConfig, NatPoolConfig, PublicRange,
};
pub use neighbours::NeighbourTimes;
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
pub use slice_workers::SliceWorkersConfig;
pub use store::{AtStop, StoreConfig};
pub use system::{DpdkConfig, LimitsConfig, RebalanceConfig, SlowPathConfig, WorkersConfig};
pub use vlan::VlanConfig;

pub(crate) use instance::{is_special, parse_mac};
pub(crate) use policer::Kbit as PolicerKbit;
pub use predefined::{ApplicationConfig, Host};
pub(crate) use predefined::{ContentConfig, Flow, Kbit as QerKbit, Number};
pub use protocol::ProtocolConfig;
pub(crate) use routers::Groups;

use crate::bounded;

/// The whole file.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Who this UPF is towards its SMFs.
    pub node: NodeConfig,
    /// The PFCP endpoint.
    pub n4: N4Config,
    /// GTP-U as a whole.
    #[serde(default)]
    pub gtpu: GtpuConfig,
    /// ICMP errors to senders of user packets.
    #[serde(default)]
    pub icmp: IcmpConfig,
    /// Cores for packets.
    #[serde(default)]
    pub workers: WorkersConfig,
    /// Slices that have workers of their own: these serve no other sessions.
    #[serde(default)]
    pub slices: Vec<SliceWorkersConfig>,
    /// What tables are sized for.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// How the running daemon is asked.
    #[serde(default)]
    pub control: ControlConfig,
    /// Alarms: what raises one beside faults, and where they are sent.
    #[serde(default)]
    pub alarms: AlarmsConfig,
    /// The log on standard error.
    #[serde(default)]
    pub log: LogConfig,
    /// Limits and idle times of flow entries.
    #[serde(default)]
    pub flows: FlowsConfig,
    /// Connections of UEs, for access lists that ask for them.
    #[serde(default)]
    pub connections: ConnectionsConfig,
    /// Inspection of flows whose rules name hosts.
    #[serde(default)]
    pub inspection: InspectionConfig,
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
    /// Where sessions are kept beyond the process; absent: nowhere.
    #[serde(default)]
    pub store: Option<StoreConfig>,
    /// DPDK's environment.
    #[serde(default)]
    pub dpdk: DpdkConfig,
    /// Ethernet ports, in the order of their ids.
    #[serde(deserialize_with = "bounded::at_least_one")]
    #[schemars(length(min = 1))]
    pub ports: Vec<PortConfig>,
    /// The accelerator that some ports are behind; absent: there is none.
    #[serde(default)]
    pub accelerator: Option<AcceleratorConfig>,
    /// Queues for packets that leave, in which rates are shaped; absent: all rates are policed.
    #[serde(default)]
    pub egress: Option<EgressConfig>,
    /// Network instances (TS 23.501 §5.6.12): N3, N6, N9 and N4-u on the ports.
    #[serde(deserialize_with = "bounded::at_least_one")]
    #[schemars(length(min = 1))]
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
    /// Which packets of the sessions of a slice or a data network may pass, before any PDR detects them.
    #[serde(default)]
    pub access_lists: Vec<AccessListConfig>,
    /// Pools of public addresses: CG-NAT of the sessions of a slice or a data network.
    #[serde(default)]
    pub nat_pools: Vec<NatPoolConfig>,
    /// The mappings of workers to public addresses.
    #[serde(default)]
    pub nat: NatConfig,
    /// What is counted as an event of an application, by URRs that count events.
    #[serde(default)]
    pub events: Vec<EventConfig>,
    /// Domains by category, which rules may name.
    #[serde(default)]
    pub domain_lists: Vec<DomainListConfig>,
    /// Rules that SMFs activate by name or by number; with any rulebase, ADPDP is announced.
    #[serde(default)]
    pub predefined: PredefinedConfig,
    /// The files of `domain_lists` as they were when the configuration was read.
    #[serde(skip)]
    pub(crate) read_lists: ReadLists,
    /// The library that `inspection.ndpi` names.
    #[serde(skip)]
    pub(crate) ndpi: Option<Arc<ndpi::Library>>,
}
