//! Who computes the UDP checksums of GTP-U packets over IPv6 that leave by a port. All other checksums are computed and
//! verified in software on every port.

use config::{ChecksumsConfig, Config, PortConfig, Role};

/// What is wanted of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpChecksums {
    /// That it fills them in.
    Wanted,
    /// The same of all members of its LAG: they fill them in if each of them can.
    WantedOfAll,
    /// Nothing: no tunnel ends at an IPv6 address on it.
    NotNeeded,
    /// Nothing, as it is configured.
    Software,
    /// Nothing, as it is configured of another member of its LAG.
    SoftwareOfAll,
}

impl UdpChecksums {
    /// By the instances on the port, or on the LAG that it is a member of, and its `checksums`.
    #[must_use]
    pub fn of(config: &Config, port: &PortConfig) -> Self {
        let lag = config.lag_of(&port.name.value);
        let is_software = |port: &PortConfig| {
            let checksums = port.checksums.as_ref();
            checksums.is_some_and(|checksums| checksums.value == ChecksumsConfig::Software)
        };
        let members = || {
            let lag = lag.and_then(|port| port.lag.as_ref());
            let names = lag.into_iter().flat_map(|lag| &lag.members);
            names.filter_map(|name| config.ports.iter().find(|port| port.name.value == name.value))
        };
        let needs = needs_sums(config, &lag.unwrap_or(port).name.value);
        match needs {
            _ if is_software(port) => Self::Software,
            false => Self::NotNeeded,
            true if members().any(is_software) => Self::SoftwareOfAll,
            true if members().count() > 1 => Self::WantedOfAll,
            true => Self::Wanted,
        }
    }

    /// Whether the port is asked for it.
    #[must_use]
    pub const fn is_wanted(self) -> bool {
        matches!(self, Self::Wanted | Self::WantedOfAll)
    }

    /// The state for a port that can do it, or cannot.
    #[must_use]
    pub const fn words(self, can: bool) -> &'static str {
        match (self, can) {
            (Self::Wanted, true) => "by the port",
            (Self::Wanted | Self::WantedOfAll, false) => "in software: the port cannot",
            (Self::WantedOfAll, true) => "by the port, if all members of its LAG can",
            (Self::NotNeeded, true) => "none on this port, which could fill them in",
            (Self::NotNeeded, false) => "none on this port, which could not fill them in",
            (Self::SoftwareOfAll, _) => "in software (checksums: software of another member of its LAG)",
            (Self::Software, true) => "in software (checksums: software); the port could",
            (Self::Software, false) => "in software (checksums: software); the port could not either",
        }
    }
}

/// Whether tunnels end at an IPv6 address on the port with this name.
fn needs_sums(config: &Config, name: &str) -> bool {
    let here = config
        .instances
        .iter()
        .filter(|instance| instance.port.value == name);
    let mut addresses = here
        .filter(|instance| instance.roles.iter().any(|role| *role != Role::N6))
        .flat_map(|instance| &instance.addresses);
    addresses.any(|prefix| prefix.value.address.is_ipv6())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
node: {id: upf1.example.org}
n4: {addresses: [127.0.0.8]}
ports:
  - {name: ran, driver: {memory: {}}}
  - {name: dn, driver: {memory: {}}}
  - {name: one, driver: {memory: {}}}
  - {name: two, driver: {memory: {}}, checksums: software}
  - {name: both, lag: {mode: balance, members: [one, two]}}
instances:
  - {name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24, '2001:db8:3::1/64']}
  - {name: internet, roles: [n6], port: dn, addresses: [10.200.0.1/24, '2001:db8:6::1/64']}
  - {name: others, roles: [n9], port: both, addresses: [10.9.0.1/24, '2001:db8:9::1/64']}
";

    /// What is wanted of the first four ports.
    fn wanted(text: &str) -> Vec<UdpChecksums> {
        let config = Config::parse(text, "sluice.yaml").unwrap();
        let ports = config.ports.iter().take(4);
        ports.map(|port| UdpChecksums::of(&config, port)).collect()
    }

    #[test]
    fn ports_are_asked_by_which_tunnels_over_ipv6_leave() {
        use UdpChecksums::{NotNeeded, Software, SoftwareOfAll, Wanted, WantedOfAll};
        assert_eq!(wanted(FILE), [Wanted, NotNeeded, SoftwareOfAll, Software]);
        let all = FILE.replace(", checksums: software", "");
        assert_eq!(wanted(&all), [Wanted, NotNeeded, WantedOfAll, WantedOfAll]);
        let v4 = FILE.replace(", '2001:db8:3::1/64'", "");
        assert_eq!(wanted(&v4)[0], NotNeeded, "over IPv4 there is no UDP checksum");
        let said = |checksums: &str| {
            let named = format!("name: ran, checksums: {checksums},");
            wanted(&FILE.replace("name: ran,", &named))[0]
        };
        assert_eq!((said("auto"), said("software")), (Wanted, Software));
    }
}
