//! A UPF from its configuration: what Control and each worker are made with.

use std::sync::Arc;
use std::time::Duration;

use flow::{Nanos, PortId, Seed, WorkerId};
use packet::MacAddr;
use rules::network::Network;
use session::Random;
use transport::Interface;
use transport::lag::{LacpConfig, LagConfig, LagMember, LagMode};
use worker::{Budgets, ControlEnd, InterfaceSettings, PacketRates, WorkerConfig, WorkerEnd, control_channel};

use super::balance::{Balancer, Bound};
use super::control::{Control, ControlConfig};
use super::n4_config::{exceptions, n4_config, share};
use config::{Bounded, Config, HostConfig, LagModeConfig, StoreConfig};

/// Commands and events that each worker's link holds.
const LINK_DEPTH: usize = 4_096;

/// A UPF whose workers wait for their packet I/O.
pub struct Assembly {
    /// Control.
    pub control: Control,
    /// What each worker is made with, in the order of their ids.
    pub workers: Vec<(WorkerConfig, WorkerEnd)>,
}

/// What the configuration does not hold.
pub struct Surroundings {
    /// The time now, of the clock that Control is polled with.
    pub now: Nanos,
    /// Seconds since 1970 when that clock was 0; corrections of the host's clock come with [`Control::follow_wall`].
    pub clock_unix: u64,
    /// Where identifiers and the keys of hash functions come from.
    pub random: Random,
    /// How this node looks on each instance's link, by instance.
    pub interfaces: Vec<Interface>,
    /// The ports' link layer addresses, by port.
    pub macs: Vec<MacAddr>,
}

/// Puts a UPF together.
#[must_use]
pub fn assemble(config: &Config, network: &Arc<Network>, around: Surroundings) -> Assembly {
    let count = config.workers.count.value() as u16;
    let mut random = around.random;
    let seed = worker_seed(&mut random);
    let mut links = Vec::new();
    let mut workers = Vec::new();
    for id in 0..count {
        let (control_end, worker_end) = control_channel(LINK_DEPTH, LINK_DEPTH);
        links.push(control_end);
        workers.push((
            worker_config(config, WorkerId(id), network, &around.macs, seed),
            worker_end,
        ));
    }
    let around = Surroundings { random, ..around };
    let settings = workers.first().map(|(worker, _)| InterfaceSettings::of(worker));
    let control = control(config, network, around, settings.unwrap_or_default(), links);
    Assembly { control, workers }
}

/// The secret of the workers' hash functions: the first that is drawn.
#[must_use]
pub fn worker_seed(random: &mut Random) -> Seed {
    Seed([random.next_u64(), random.next_u64()])
}

/// What worker `id` is made with.
#[must_use]
pub fn worker_config(
    config: &Config,
    id: WorkerId,
    network: &Arc<Network>,
    macs: &[MacAddr],
    seed: Seed,
) -> WorkerConfig {
    let count = config.workers.count.size();
    let mut worker = WorkerConfig::new(id, count as u16, Arc::clone(network), macs.to_vec(), seed);
    worker.lags = config.lag_ports();
    worker.max_sessions = config.limits.sessions.size();
    // Buckets spread sessions evenly but not exactly.
    worker.own_sessions = share(config.limits.sessions.size(), count);
    worker.max_flows_v4 = share(config.limits.flows_ipv4.size(), count);
    worker.max_flows_v6 = share(config.limits.flows_ipv6.size(), count);
    worker.max_exceptions = exceptions(config);
    worker.shared_meters += config.limits.correlations.value() as u16;
    if config.has_contents() {
        let all = config.limits.content_counters;
        let all = all.map_or(config.limits.sessions.size(), |counters| counters.size());
        worker.content_counters = share(all, count);
    }
    worker.inspection = config.inspection.limits();
    worker.resolvers = config.inspection.resolver_limits();
    worker.ndpi = config.ndpi_limits();
    let flows = worker.max_flows_v4 + worker.max_flows_v6;
    worker.connections = config.connections.limits(flows);
    worker.nat = config.nat_settings(seed.0[0].rotate_left(32) ^ seed.0[1]);
    if let Some(records) = &config.records {
        worker.content_interval = Duration::from_secs(records.content_s.value());
    }
    // Control says when there is nothing more to come, also where the store had nothing.
    worker.begins_restoring = config.store.is_some();
    worker.checkpoint_interval = config.store.as_ref().map(StoreConfig::checkpoint_interval);
    worker.max_adjacencies = config.neighbours.with(&config.routers).capacity;
    let slow_path = &config.workers.slow_path_per_burst;
    worker.budgets = Budgets {
        new_uplink: slow_path.new_uplink.value() as u16,
        new_downlink: slow_path.new_downlink.value() as u16,
        stale: slow_path.stale.value() as u16,
    };
    worker.slow_share_percent = config.workers.slow_path_share_percent.value() as u8;
    worker.flow_limits = config.flows.limits(count);
    worker.idle = config.flows.idle_s.times();
    worker.fragments = config.fragments.limits();
    worker.reassembly = config.reassembly.limits();
    worker.buffers = config
        .buffering
        .limits(config.dpdk.buffers.size(), count, worker.own_sessions);
    if let Some(limits) = config.egress_limits(count) {
        worker.egress = limits;
    }
    let rates = |(all, each)| PacketRates { all, each };
    worker.icmp_errors = rates(config.icmp.rates());
    worker.pings = rates(config.icmp.pings());
    worker.echoes = rates(config.gtpu.answers.rates());
    worker.ran_congestion_age = config.gtpu.ran_congestion_age();
    worker.error_indications_from = Nanos::ZERO + config.gtpu.restoration();
    worker.force_five_tuple = config.workers.force_five_tuple;
    let hosts = config.instances.iter().map(|instance| instance.host.as_ref());
    worker.host = hosts.map(|host| host.map(HostConfig::rates)).collect();
    let dscps = config.instances.iter().map(|instance| &instance.urgent_dscp);
    let bits = |dscps: &Vec<Bounded<0, 63>>| dscps.iter().fold(0, |bits, dscp| bits | 1_u64 << dscp.value());
    worker.urgent_dscps = dscps.map(bits).collect();
    worker.backlog = backlog(config);
    worker.offload = config.offload_policy(id.index());
    worker
}

/// Room for waiting packets of each port in each worker: all together take no more than a quarter of the buffers.
#[must_use]
pub fn backlog(config: &Config) -> usize {
    let queues = config.workers.count.size() * config.ports.len().max(1);
    config
        .workers
        .backlog
        .size()
        .min(config.dpdk.buffers.size() / 4 / queues)
}

fn control(
    config: &Config,
    network: &Arc<Network>,
    around: Surroundings,
    interface_settings: InterfaceSettings,
    links: Vec<ControlEnd>,
) -> Control {
    let Surroundings {
        now,
        clock_unix,
        random,
        interfaces,
        macs,
    } = around;
    let made = ControlConfig {
        n4: n4_config(config, clock_unix),
        addresses: config.n4.sockets().collect(),
        network: Arc::clone(network),
        interfaces,
        static_neighbours: config.static_neighbours().collect(),
        neighbours: config.neighbours.with(&config.routers),
        path_mtu_age: config.gtpu.path_mtu_age(),
        path_mtu_least: config.gtpu.least_path_mtu(),
        ports: config.ports.iter().map(|port| port.name.value.clone()).collect(),
        lags: lags(config, &macs),
        interface_settings,
        has_content_counters: config.has_contents(),
        has_accelerator: config.offload_policy(0).is_some_and(|policy| !policy.is_partial),
        random,
        balancer: balancer(config),
    };
    Control::new(now, made, links)
}

fn lags(config: &Config, macs: &[MacAddr]) -> Vec<LagConfig> {
    let mac = |port: PortId| macs.get(port.index()).copied().unwrap_or(MacAddr::ZERO);
    let made = |(port, lag, members): (PortId, &config::LagConfig, Vec<PortId>)| {
        let settings = lag.lacp.as_ref().map(|lacp| lacp.value).unwrap_or_default();
        let mode = match lag.mode {
            LagModeConfig::Balance => LagMode::Balance,
            LagModeConfig::ActiveBackup => LagMode::ActiveBackup,
            LagModeConfig::Lacp => LagMode::Lacp(LacpConfig {
                fast: settings.fast,
                system_priority: settings.system_priority.value() as u16,
                key: settings.key.map_or(port.0 + 1, |key| key.value() as u16),
            }),
        };
        LagConfig {
            port,
            mode,
            mac: mac(port),
            members: members
                .into_iter()
                .map(|port| LagMember { port, mac: mac(port) })
                .collect(),
        }
    };
    config.lags().map(made).collect()
}

fn balancer(config: &Config) -> Option<Balancer> {
    let workers = config.workers.count.value() as u16;
    let rebalance = config.workers.rebalance.as_ref().filter(|_| workers > 1)?;
    let bound = Bound {
        ratio_percent: rebalance.ratio_percent.value(),
        after: Duration::from_secs(rebalance.after_s.value()),
    };
    Some(Balancer::new(bound, config.slice_workers().groups(workers)))
}
