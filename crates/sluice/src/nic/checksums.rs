//! Who computes the UDP checksums of GTP-U packets over IPv6 that leave by a port. All other checksums are computed and
//! verified in software on every port.

use crate::config::{ChecksumsConfig, Config, PortConfig, Role};

/// What is wanted of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpChecksums {
    /// That it fills them in.
    Wanted,
    /// Nothing: no tunnel ends at an IPv6 address on it.
    NotNeeded,
    /// Nothing, as it is configured.
    Software,
}

impl UdpChecksums {
    /// By the instances on the port, or on the LAG that it is a member of, and its `checksums`.
    #[must_use]
    pub fn of(config: &Config, port: &PortConfig) -> Self {
        let name = &config.lag_of(&port.name.value).unwrap_or(port).name.value;
        let mut here = config
            .instances
            .iter()
            .filter(|instance| instance.port.value == *name);
        let needs = here.any(|instance| {
            let has_tunnels = instance.roles.iter().any(|role| *role != Role::N6);
            has_tunnels
                && instance
                    .addresses
                    .iter()
                    .any(|prefix| prefix.value.address.is_ipv6())
        });
        match port.checksums.as_ref().map(|checksums| checksums.value) {
            Some(ChecksumsConfig::Software) => Self::Software,
            _ if needs => Self::Wanted,
            _ => Self::NotNeeded,
        }
    }

    /// How it stands with a port that can do it, or cannot.
    #[must_use]
    pub const fn words(self, can: bool) -> &'static str {
        match (self, can) {
            (Self::Wanted, true) => "by the port",
            (Self::Wanted, false) => "in software: the port cannot",
            (Self::NotNeeded, true) => "none on this port, which could fill them in",
            (Self::NotNeeded, false) => "none on this port, which could not fill them in",
            (Self::Software, true) => "in software (checksums: software); the port could",
            (Self::Software, false) => "in software (checksums: software); the port could not either",
        }
    }
}
