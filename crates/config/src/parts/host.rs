//! The interfaces of the host: checks.

use std::collections::HashSet;

use crate::error::Fault;
use crate::schema::{Config, Driver, InstanceConfig};

impl Config {
    /// Whether any instance has a host's network stack.
    #[must_use]
    pub fn has_hosts(&self) -> bool {
        self.instances.iter().any(|instance| instance.host.is_some())
    }
}

/// Finds the first interface that cannot be made.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
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
