//! LAGs: what ports are made of others, and checks.

use flow::PortId;
use serde_saphyr::Spanned;
use std::collections::HashMap;
use transport::lag::MOST_MEMBERS;
use worker::{LagHash, LagPorts};

use crate::error::Fault;
use crate::schema::{Config, LagConfig, LagHashConfig, LagModeConfig, PortConfig};

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

    /// The LAGs as workers get them.
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
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
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
