//! Ports made of several (link aggregation, IEEE 802.1AX).

use std::collections::HashMap;

use flow::PortId;
use serde::Deserialize;
use serde_saphyr::Spanned;
use transport::lag::MOST_MEMBERS;
use worker::{LagHash, LagPorts};

use super::error::Fault;
use super::{Bounded, Config, PortConfig};

/// One LAG.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LagConfig {
    /// How frames are divided among the members.
    pub mode: LagModeConfig,
    /// The ports that it is made of, 1 to 8; their own `lag`, and instances on them, are mistakes.
    pub members: Vec<Spanned<String>>,
    /// How this node speaks LACP, with mode `lacp` alone.
    #[serde(default)]
    pub lacp: Option<Spanned<LacpSettings>>,
    /// What tells flows apart that may take different members; l34.
    #[serde(default)]
    pub hash: LagHashConfig,
}

/// How frames are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LagModeConfig {
    /// Among all whose link is up; the switch has a static group.
    Balance,
    /// One carries all, until its link goes down.
    ActiveBackup,
    /// As agreed with the switch (IEEE 802.3ad).
    Lacp,
}

impl LagModeConfig {
    /// The word for it in the file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Balance => "balance",
            Self::ActiveBackup => "active_backup",
            Self::Lacp => "lacp",
        }
    }
}

/// What tells flows apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LagHashConfig {
    /// Addresses and ports of the user packet.
    #[default]
    L34,
    /// Its addresses.
    L3,
}

/// How this node speaks LACP.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LacpSettings {
    /// The switch is asked for an LACPDU every second, and missed after 3 s, rather than every 30 and after 90; true.
    pub fast: bool,
    /// Of two systems, the lower decides; 32768.
    pub system_priority: Bounded<0, 65_535>,
    /// The key of the links; the place of the port among the ports, from 1 on.
    pub key: Option<Bounded<1, 65_535>>,
}

impl Default for LacpSettings {
    fn default() -> Self {
        Self {
            fast: true,
            system_priority: Bounded::new(32_768),
            key: None,
        }
    }
}

impl Config {
    /// The LAGs, with the places of their ports.
    pub fn lags(&self) -> impl Iterator<Item = (PortId, &LagConfig, Vec<PortId>)> + '_ {
        let place_of = |name: &str| self.ports.iter().position(|port| port.name.value == name);
        self.ports.iter().enumerate().filter_map(move |(place, port)| {
            let lag = port.lag.as_ref()?;
            let members = lag.members.iter().filter_map(|name| place_of(&name.value));
            let members = members.map(|place| PortId(place as u16)).collect();
            Some((PortId(place as u16), lag, members))
        })
    }

    /// The LAGs as workers are told of them.
    #[must_use]
    pub fn lag_ports(&self) -> Vec<LagPorts> {
        let made = |(port, lag, members): (PortId, &LagConfig, Vec<PortId>)| LagPorts {
            port,
            members,
            lacp: lag.mode == LagModeConfig::Lacp,
            hash: match lag.hash {
                LagHashConfig::L34 => LagHash::L34,
                LagHashConfig::L3 => LagHash::L3,
            },
        };
        self.lags().map(made).collect()
    }

    /// The LAG that the port with this name is a member of.
    #[must_use]
    pub fn lag_of(&self, name: &str) -> Option<&PortConfig> {
        let has = |port: &&PortConfig| {
            let members = port.lag.iter().flat_map(|lag| &lag.members);
            members.map(|member| &member.value).any(|member| member == name)
        };
        self.ports.iter().find(has)
    }
}

/// Finds the first mistake in the LAGs.
pub(super) fn check(config: &Config) -> Result<(), Fault> {
    let mut taken = HashMap::new();
    for port in &config.ports {
        let name = &port.name.value;
        let fault = |message: &str| Fault::new(&port.name, format!("port `{name}`: {message}"));
        let lag = match (&port.driver, &port.lag) {
            (Some(_), None) => continue,
            (None, Some(lag)) => lag,
            (Some(_), Some(_)) => {
                return Err(fault("driver beside lag: a LAG has the drivers of its members"));
            }
            (None, None) => return Err(fault("it has neither driver nor lag")),
        };
        if let Some(checksums) = &port.checksums {
            let message = format!("port `{name}`: checksums beside lag: each member has its own");
            return Err(Fault::new(checksums, message));
        }
        if !(1..=MOST_MEMBERS).contains(&lag.members.len()) {
            let count = lag.members.len();
            return Err(fault(&format!(
                "lag.members: {count}, 1 to {MOST_MEMBERS} are possible"
            )));
        }
        if let Some(lacp) = &lag.lacp
            && lag.mode != LagModeConfig::Lacp
        {
            let message = format!(
                "port `{name}`: lag.lacp: the mode is {}, not lacp",
                lag.mode.word()
            );
            return Err(Fault::new(lacp, message));
        }
        for member in &lag.members {
            check_member(config, port, member)?;
            if let Some(other) = taken.insert(&member.value, name) {
                let message = format!("lag.members: `{}` is a member of `{other}` already", member.value);
                return Err(Fault::new(member, message));
            }
        }
    }
    Ok(())
}

fn check_member(config: &Config, lag: &PortConfig, member: &Spanned<String>) -> Result<(), Fault> {
    let fault = |message: &str| Fault::new(member, format!("lag.members: `{}` {message}", member.value));
    let named = config.ports.iter().find(|port| port.name.value == member.value);
    let Some(port) = named else {
        return Err(Fault::new(
            member,
            format!("lag.members: no port is named `{}`", member.value),
        ));
    };
    if port.lag.is_some() {
        return Err(fault("is a LAG itself"));
    }
    let (own, whole) = (port.mtu.value(), lag.mtu.value());
    if own < whole {
        return Err(fault(&format!(
            "has an MTU of {own}, less than the {whole} of the LAG"
        )));
    }
    Ok(())
}
