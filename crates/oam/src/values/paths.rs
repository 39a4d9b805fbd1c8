//! Paths to GTP-U peers, as far as something is known of them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::table::Table;

/// Paths to GTP-U peers whose MTU is less than our links'.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathList {
    /// In the order of their addresses; at most 4,096.
    pub paths: Vec<PathRow>,
}

/// One path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathRow {
    /// Our address.
    #[schema(value_type = String, example = "10.100.0.1")]
    pub local: IpAddr,
    /// The peer's.
    #[schema(value_type = String, example = "10.101.0.2")]
    pub peer: IpAddr,
    /// The longest outer packet that a router on the way takes, octets.
    pub mtu: u16,
    /// Seconds until longer ones are tried again.
    pub seconds_left: u64,
}

impl PathList {
    /// As a table for people.
    #[must_use]
    pub fn text(&self) -> String {
        if self.paths.is_empty() {
            return "no path is known to be narrower than our links\n".into();
        }
        let mut table = Table::new(["from", "to", ">MTU", ">seconds left"]);
        for row in &self.paths {
            table.row([
                row.local.to_string(),
                row.peer.to_string(),
                row.mtu.to_string(),
                row.seconds_left.to_string(),
            ]);
        }
        table.text("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_a_table_or_a_word() {
        let row = PathRow {
            local: [10, 0, 3, 1].into(),
            peer: [10, 200, 0, 9].into(),
            mtu: 1_400,
            seconds_left: 599,
        };
        let shown = PathList { paths: vec![row] };
        assert_eq!(
            shown.text(),
            "from      to           MTU  seconds left\n10.0.3.1  10.200.0.9  1400           599\n"
        );
        assert!(PathList { paths: Vec::new() }.text().starts_with("no path"));
    }
}
