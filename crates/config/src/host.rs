//! The host's own network stack on the link of an instance.

use std::collections::HashSet;

use serde::Deserialize;
use serde_saphyr::Spanned;
use worker::HostRates;

use super::error::Fault;
use super::{Bounded, Config, Driver, InstanceConfig};

/// A TAP interface of the host, through which its network stack is on the link of an instance: BGP, BFD, SSH.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// The name of the interface, which is made at the start and goes at the end.
    pub interface: Spanned<String>,
    /// Whether it gets the instance's addresses; true. Without, who configures the host gives it some.
    #[serde(default = "HostConfig::default_addresses")]
    pub addresses: bool,
    /// Packets a second, and at once after a pause, that each worker gives it of what keeps links, neighbours and
    /// sessions alive; 10,000.
    #[serde(default = "HostConfig::default_rate")]
    pub urgent_pps: Bounded<1, 10_000_000>,
    /// The same of all others; 10,000.
    #[serde(default = "HostConfig::default_rate")]
    pub usual_pps: Bounded<1, 10_000_000>,
}

impl HostConfig {
    const fn default_addresses() -> bool {
        true
    }
    const fn default_rate() -> Bounded<1, 10_000_000> {
        Bounded::new(10_000)
    }

    /// What workers are made with.
    #[must_use]
    pub fn rates(&self) -> HostRates {
        HostRates {
            urgent: self.urgent_pps.value() as u32,
            usual: self.usual_pps.value() as u32,
        }
    }
}

impl Config {
    /// Whether any instance has a host's network stack.
    #[must_use]
    pub fn has_hosts(&self) -> bool {
        self.instances.iter().any(|instance| instance.host.is_some())
    }
}

/// Finds the first interface that cannot be made.
pub(super) fn check(config: &Config) -> Result<(), Fault> {
    let of_ports = config.ports.iter().filter_map(|port| match &port.driver {
        Some(Driver::AfPacket { interface, .. } | Driver::AfXdp { interface, .. }) => {
            Some(interface.as_str())
        }
        _ => None,
    });
    let mut taken: HashSet<&str> = of_ports.collect();
    config
        .instances
        .iter()
        .try_for_each(|instance| check_one(instance, &mut taken))
}

fn check_one<'a>(instance: &'a InstanceConfig, taken: &mut HashSet<&'a str>) -> Result<(), Fault> {
    let Some(host) = &instance.host else {
        return Ok(());
    };
    let name = &host.interface;
    let fault = |message: String| {
        let message = format!("instance `{}`: host: {message}", instance.name.value);
        Err(Fault::new(name, message))
    };
    if let Some(message) = super::network::interface_fault(&name.value) {
        return fault(message);
    }
    if !taken.insert(&name.value) {
        return fault(format!("interface: `{}` is another's", name.value));
    }
    Ok(())
}
