//! The ports: their links, what LAGs are made of, what passed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use worker::Stats;

use super::table::Table;

/// All ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortList {
    /// In the order of the configuration.
    pub ports: Vec<PortRow>,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortRow {
    /// Its place in the configuration, from 0 on.
    pub id: usize,
    /// Its name.
    pub port: String,
    /// Whether its link is up; of a LAG, whether any member carries its frames.
    pub link: bool,
    /// Its state, as text.
    #[schema(example = "distributing")]
    pub state: String,
    /// What kind of LAG it is: `balance`, `active_backup`, `lacp`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lag: Option<String>,
    /// The LAG that it is a member of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub member_of: Option<String>,
    /// With LACP: the system, key, port and state of the other end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub partner: Option<String>,
    /// Packets received.
    pub received: u64,
    /// Their octets.
    pub received_octets: u64,
    /// Packets sent.
    pub sent: u64,
    /// Their octets.
    pub sent_octets: u64,
}

impl PortRow {
    /// A port of which nothing was counted yet.
    #[must_use]
    pub fn new(id: usize, name: &str, link: bool) -> Self {
        Self {
            id,
            port: name.to_owned(),
            link,
            state: if link { "up" } else { "down" }.into(),
            ..Self::default()
        }
    }
}

impl PortList {
    /// The same with what these workers have counted. A LAG has what its members have.
    #[must_use]
    pub fn with_counts(mut self, stats: &[Stats]) -> Self {
        for row in &mut self.ports {
            for port in stats.iter().filter_map(|stats| stats.ports.get(row.id)) {
                row.received += port.rx.packets;
                row.received_octets += port.rx.octets;
                row.sent += port.tx.packets;
                row.sent_octets += port.tx.octets;
            }
        }
        for place in 0..self.ports.len() {
            let name = self.ports[place].port.clone();
            let members = self
                .ports
                .iter()
                .filter(|row| row.member_of.as_ref() == Some(&name));
            let sums = members.fold([0; 4], |[a, b, c, d], row| {
                [
                    a + row.received,
                    b + row.received_octets,
                    c + row.sent,
                    d + row.sent_octets,
                ]
            });
            let row = &mut self.ports[place];
            row.received += sums[0];
            row.received_octets += sums[1];
            row.sent += sums[2];
            row.sent_octets += sums[3];
        }
        self
    }

    /// As a table for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut table = Table::new(["port", "state", "of", ">received", ">sent", "partner"]);
        for row in &self.ports {
            let of = match (&row.lag, &row.member_of) {
                (Some(mode), _) => format!("LAG, {mode}"),
                (None, Some(lag)) => lag.clone(),
                (None, None) => String::new(),
            };
            table.row([
                row.port.clone(),
                row.state.clone(),
                of,
                row.received.to_string(),
                row.sent.to_string(),
                row.partner.clone().unwrap_or_default(),
            ]);
        }
        table.text("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_has_what_its_members_have() {
        let mut stats = Stats::new(3);
        for (place, packets) in [(0, 5), (1, 7)] {
            stats.ports[place].rx.packets = packets;
            stats.ports[place].tx.octets = 100 * packets;
        }
        let member = |id, name| PortRow {
            member_of: Some("core".into()),
            ..PortRow::new(id, name, true)
        };
        let lag = PortRow {
            lag: Some("lacp".into()),
            ..PortRow::new(2, "core", true)
        };
        let list = PortList {
            ports: vec![member(0, "a"), member(1, "b"), lag],
        };
        let list = list.with_counts(&[stats.clone(), stats]);
        let counts: Vec<_> = list
            .ports
            .iter()
            .map(|row| (row.received, row.sent_octets))
            .collect();
        assert_eq!(counts, [(10, 1_000), (14, 1_400), (24, 2_400)]);
        let text = list.text();
        assert!(
            text.lines()
                .any(|line| line.contains("core") && line.contains("LAG, lacp") && line.contains("24")),
            "{text}"
        );
    }
}
