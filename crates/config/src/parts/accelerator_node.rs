//! The file of `sluice accel`: reading, checks, and what a node is made with.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flow::{PortId, Seed};
use offload::channel::ChannelConfig;
use packet::MacAddr;
use rules::network::Network;
use worker::EgressLimits;
use worker::accelerator::{EngineConfig, NodeConfig, QueueLimits};

use crate::bounded::Bounded;
use crate::error::{ConfigError, Fault};
use crate::parts::accelerator::LEAST_BUFFERS;
use crate::parts::network::{Interfaces, MOST_PORTS};
use crate::schema::{AcceleratorMode, AcceleratorNodeConfig, Config, Driver, IdlePolicy, PortConfig};

/// The smallest table of flows.
const LEAST_FLOWS: usize = 1_024;

impl AcceleratorNodeConfig {
    /// Reads and checks the file at `path`, of 16 MiB at most.
    ///
    /// # Errors
    /// The file cannot be read, or [`Self::parse`] refuses it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&Config::read(path)?, &path.display().to_string())
    }

    /// Reads and checks `text`; `file` names it in errors.
    ///
    /// # Errors
    /// Syntax, an unknown field, a value outside its bound, a dangling reference: with file, line and column.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        let config: Self = serde_saphyr::from_str(text).map_err(|error| ConfigError::syntax(file, &error))?;
        config.check().map_err(|fault| fault.at(file, text))?;
        Ok(config)
    }

    /// The ports of the network, in order, and behind them the one towards the host.
    pub fn ordered_ports(&self) -> impl Iterator<Item = &PortConfig> {
        let is_link = |port: &&PortConfig| port.name.value == self.link.port.value;
        let network = self.ports.iter().filter(move |port| !is_link(port));
        network.chain(self.ports.iter().filter(move |port| is_link(port)))
    }

    /// What the node is made with: `macs` are those of [`Self::ordered_ports`].
    #[must_use]
    pub fn node(&self, macs: &[MacAddr], channel: ChannelConfig, seed: Seed) -> NodeConfig {
        let network_ports = macs.len().saturating_sub(1);
        let (network, _) = macs.split_at(network_ports);
        let host_port = PortId(network_ports as u16);
        let mut engine = EngineConfig::new(Arc::new(Network::default()), network.to_vec(), host_port, seed);
        let limits = &self.limits;
        engine.max_sessions = limits.sessions.size();
        engine.max_flows_v4 = limits.flows_ipv4.size();
        engine.max_flows_v6 = limits.flows_ipv6.size();
        engine.queues = self.queue_limits();
        // Its host numbers them: some megabytes for all numbers that there are.
        engine.shared_meters = u16::MAX;
        engine.max_asking = self.questions.flows.size();
        if self.mode == AcceleratorMode::Partial {
            // There is nothing to be held.
            (engine.max_sessions, engine.max_asking, engine.queues) = (1, 0, None);
            engine.shared_meters = 0;
            (engine.max_flows_v4, engine.max_flows_v6) = (LEAST_FLOWS, LEAST_FLOWS);
        }
        engine.asked_packets = self.questions.packets(self.dpdk.buffers.value()) as usize;
        engine.asking_time = Duration::from_millis(self.questions.wait_ms.value());
        let mtu = self.ordered_ports().last().map_or(0, |port| port.mtu.size());
        NodeConfig {
            is_partial: self.mode == AcceleratorMode::Partial,
            host_mtu: mtu,
            counts_every: Duration::from_millis(self.counts.every_ms.value()),
            counts_lost: self.counts.lost.value() as u32,
            ..NodeConfig::new(engine, channel)
        }
    }

    /// Room for packets that wait before its ports; `None` where none do.
    #[must_use]
    pub fn queue_limits(&self) -> Option<QueueLimits> {
        let queues = self.queues.as_ref()?;
        let mtus = self.ordered_ports().map(|port| port.mtu.value());
        let limits = EgressLimits {
            packets: queues.packets(self.dpdk.buffers.value()) as usize,
            octets: queues.bytes.size(),
            queues: queues.queues.size(),
        };
        Some(QueueLimits {
            largest: mtus.max().map_or(0, |mtu| u16::try_from(mtu).unwrap_or(u16::MAX)),
            ..QueueLimits::new(limits)
        })
    }

    /// The longest sleep of a thread that is adaptive; `None`: it is busy.
    #[must_use]
    pub fn longest_sleep(&self) -> Option<Duration> {
        let sleep = Duration::from_micros(self.idle_sleep_us.value());
        (self.idle == IdlePolicy::Adaptive).then_some(sleep)
    }

    fn check(&self) -> Result<(), Fault> {
        let (mut names, mut interfaces) = (HashSet::new(), Interfaces::default());
        if self.ports.len() > MOST_PORTS {
            let message = format!("ports: more than {MOST_PORTS}");
            return Err(Fault::new(&self.link.port, message));
        }
        if self.dpdk.buffers.size() < LEAST_BUFFERS {
            let message = format!(
                "dpdk.buffers: {}, and an accelerator needs {LEAST_BUFFERS}",
                self.dpdk.buffers.value()
            );
            return Err(Fault::new(&self.link.port, message));
        }
        for port in &self.ports {
            let fault = |message: &str| Err(Fault::of_port(&port.name, message));
            match &port.driver {
                None | Some(Driver::Accelerator { .. }) => {
                    return fault("an accelerator has no LAGs, and no ports behind another one");
                }
                Some(_) if port.lag.is_some() => return fault("driver beside lag"),
                Some(_) if port.checksums.is_some() => {
                    return fault("checksums: an accelerator computes them itself");
                }
                Some(_) if port.egress_kbit.is_some() => {
                    return fault("egress_kbit: the host says which rates its ports have");
                }
                Some(_) => interfaces.check(port)?,
            }
            if !names.insert(port.name.value.as_str()) {
                return fault("two ports have this name");
            }
        }
        self.check_buffers()?;
        if self.idle == IdlePolicy::Interrupt {
            let message = "idle: interrupt is not possible here; busy and adaptive are";
            return Err(Fault::new(&self.link.port, message));
        }
        if let (None, Some(group)) = (&self.control.socket, &self.control.group) {
            let message = format!("control.group: `{}`, and there is no control.socket", group.value);
            return Err(Fault::new(group, message));
        }
        if let Some(socket) = &self.control.socket
            && !socket.value.is_absolute()
        {
            let message = format!("control.socket: `{}` is no absolute path", socket.value.display());
            return Err(Fault::new(socket, message));
        }
        self.link.check("link", &self.ports)?;
        if self.ports.len() < 2 {
            let message = "ports: there is none beside the one towards the host";
            return Err(Fault::new(&self.link.port, message));
        }
        Ok(())
    }

    /// Packets that wait are missing where packets come in.
    fn check_buffers(&self) -> Result<(), Fault> {
        let buffers = self.dpdk.buffers.value();
        let of_queues = self.queues.as_ref().and_then(|queues| queues.packets.as_ref());
        let of_questions = self.questions.packets.as_ref();
        let more_than_half = |value: u64| value > buffers / 2;
        let fault = |name: &str, packets: u64| {
            format!(
                "{name}.packets: {packets} are more than half of dpdk.buffers, which is {}",
                buffers / 2
            )
        };
        if let Some(packets) = of_queues.filter(|packets| more_than_half(packets.value.value())) {
            return Err(Fault::new(packets, fault("queues", packets.value.value())));
        }
        if let Some(packets) = of_questions.filter(|packets| more_than_half(packets.value.value())) {
            return Err(Fault::new(packets, fault("questions", packets.value.value())));
        }
        let kept = match self.questions.flows.value() {
            0 => 0,
            _ => self.questions.packets(buffers),
        };
        let queued = self.queues.as_ref().map_or(0, |queues| queues.packets(buffers));
        let message = || {
            format!(
                "queues.packets and questions.packets: {queued} and {kept} are together more than half of dpdk.buffers, which is {}",
                buffers / 2
            )
        };
        match (of_questions, of_queues) {
            _ if !more_than_half(queued + kept) => Ok(()),
            (Some(packets), _) => Err(Fault::new(packets, message())),
            (None, Some(packets)) => Err(Fault::new(packets, message())),
            // What they are without being named is less.
            (None, None) => Ok(()),
        }
    }

    /// The core of its thread.
    #[must_use]
    pub fn core(&self) -> Option<u32> {
        self.core.map(Bounded::value).map(|core| core as u32)
    }
}
