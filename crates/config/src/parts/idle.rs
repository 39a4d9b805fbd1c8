//! What idle workers do: what the configuration says or its ports call for, and checks.

use serde_saphyr::Spanned;
use std::time::Duration;

use crate::error::Fault;
use crate::schema::{Config, Driver, IdlePolicy};

/// Microseconds of the longest sleep, if the configuration does not say.
const LONGEST_SLEEP_US: u64 = 250;

impl Config {
    /// What idle workers do: what the configuration says, or what its ports call for.
    #[must_use]
    pub fn idle_policy(&self) -> IdlePolicy {
        let sleep = self
            .workers
            .idle_sleep_us
            .as_ref()
            .map(|sleep| sleep.value.value());
        let drivers = || self.ports.iter().filter_map(|port| port.driver.as_ref());
        match (&self.workers.idle, sleep) {
            (Some(policy), _) => policy.value,
            (None, Some(0)) => IdlePolicy::Busy,
            (None, Some(_)) => IdlePolicy::Adaptive,
            (None, None) if drivers().all(Driver::is_of_kernel) => IdlePolicy::Interrupt,
            (None, None) if drivers().any(|driver| matches!(driver, Driver::Pci { .. })) => IdlePolicy::Busy,
            (None, None) => IdlePolicy::Adaptive,
        }
    }

    /// The longest sleep of a worker whose policy is adaptive.
    #[must_use]
    pub fn idle_sleep(&self) -> Duration {
        let sleep = self
            .workers
            .idle_sleep_us
            .as_ref()
            .map(|sleep| sleep.value.value());
        Duration::from_micros(sleep.unwrap_or(LONGEST_SLEEP_US))
    }
}

/// Finds a policy that the ports cannot follow, or that does not go with the sleep.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let Some(policy) = &config.workers.idle else {
        return Ok(());
    };
    let other = config
        .ports
        .iter()
        .find(|port| port.driver.as_ref().is_some_and(|driver| !driver.is_of_kernel()));
    if let (IdlePolicy::Interrupt, Some(port)) = (policy.value, other) {
        let name = &port.name.value;
        return Err(Fault::new(
            policy,
            format!(
                "workers.idle: interrupt needs ports that are all af_packet or af_xdp, and `{name}` is neither"
            ),
        ));
    }
    check_sleep(config, policy)
}

fn check_sleep(config: &Config, policy: &Spanned<IdlePolicy>) -> Result<(), Fault> {
    match &config.workers.idle_sleep_us {
        Some(sleep) if policy.value != IdlePolicy::Adaptive => Err(Fault::new(
            sleep,
            "workers.idle_sleep_us is of `idle: adaptive` alone",
        )),
        Some(sleep) if sleep.value.value() == 0 => Err(Fault::new(
            sleep,
            "workers.idle_sleep_us: 0 is `idle: busy`; an adaptive worker sleeps 1..1000 us",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "{af_packet: {interface: eth1}}";
    const XDP: &str = "{af_xdp: {interface: eth2}}";
    const PCI: &str = "{pci: {address: '0000:3b:00.1'}}";
    const MEMORY: &str = "{memory: {}}";

    fn parse(drivers: [&str; 2], workers: &str) -> Result<Config, String> {
        let [ran, dn] = drivers;
        // Two ports are never one device.
        let dn = dn.replace("3b:00.1", "3b:00.2");
        let text = format!(
            "node: {{id: upf1.example.org}}\nn4: {{addresses: [127.0.0.8]}}\nworkers: {{{workers}}}\nports:\n\
             \x20 - {{name: ran, driver: {ran}}}\n  - {{name: dn, driver: {dn}}}\ninstances:\n\
             \x20 - {{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}}\n"
        );
        Config::parse(&text, "sluice.yaml").map_err(|error| error.to_string())
    }

    #[test]
    fn the_ports_choose_where_the_configuration_does_not() {
        for (drivers, workers, policy, sleep) in [
            ([KERNEL, XDP], "", IdlePolicy::Interrupt, 250),
            ([KERNEL, PCI], "", IdlePolicy::Busy, 250),
            ([KERNEL, MEMORY], "", IdlePolicy::Adaptive, 250),
            ([XDP, KERNEL], "idle_sleep_us: 0", IdlePolicy::Busy, 0),
            ([PCI, PCI], "idle_sleep_us: 50", IdlePolicy::Adaptive, 50),
            ([KERNEL, XDP], "idle: busy", IdlePolicy::Busy, 250),
            (
                [PCI, XDP],
                "idle: adaptive, idle_sleep_us: 1000",
                IdlePolicy::Adaptive,
                1_000,
            ),
            ([KERNEL, XDP], "idle: interrupt", IdlePolicy::Interrupt, 250),
        ] {
            let config = parse(drivers, workers).unwrap();
            let found = (config.idle_policy(), config.idle_sleep());
            assert_eq!(
                found,
                (policy, Duration::from_micros(sleep)),
                "{drivers:?} {workers}"
            );
        }
    }

    #[test]
    fn what_ports_cannot_do_is_refused() {
        for (drivers, workers, words) in [
            ([KERNEL, PCI], "idle: interrupt", "`dn` is neither"),
            (
                [KERNEL, XDP],
                "idle: interrupt, idle_sleep_us: 5",
                "`idle: adaptive` alone",
            ),
            (
                [PCI, PCI],
                "idle: adaptive, idle_sleep_us: 0",
                "sleeps 1..1000 us",
            ),
            ([PCI, PCI], "idle: never", "never"),
        ] {
            let error = parse(drivers, workers).unwrap_err();
            assert!(error.contains(words) && error.contains("line 3"), "{error}");
        }
    }
}
