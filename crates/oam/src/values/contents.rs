//! What was counted of the contents of predefined rules.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::table::Table;

/// What all sessions have counted of each content since the start, and how many flows were looked into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContentList {
    /// Flows that were looked into.
    pub inspection: InspectedFlows,
    /// The contents of predefined rules, by name.
    pub contents: Vec<ContentRow>,
}

/// Flows, and of HTTP further requests, that were looked into since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InspectedFlows {
    /// Those whose inspection has begun.
    pub inspected: u64,
    /// Those whose host was found.
    pub found: u64,
    /// Those whose inspection has ended without a host.
    pub undetected: u64,
    /// Those that were not looked into, for want of room or of the session's share.
    pub refused: u64,
}

/// What was counted of one content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContentRow {
    /// Its name.
    #[schema(example = "video")]
    pub name: String,
    /// The rating group that it is billed in.
    #[schema(example = 100)]
    pub rating_group: Option<u32>,
    /// The service within it.
    pub service_id: Option<u32>,
    /// Decisions that a flow is of it, one for each direction; a flow that is decided anew counts again.
    pub flows: u64,
    /// Packets to data networks.
    pub uplink_packets: u64,
    /// Their octets, from the user packet's IP header on.
    pub uplink_octets: u64,
    /// Packets to UEs.
    pub downlink_packets: u64,
    /// Their octets.
    pub downlink_octets: u64,
}

impl ContentList {
    /// As a table for people, and a line about inspection.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = match self.contents.is_empty() {
            true => "no rule of a rulebase has a content\n".to_owned(),
            false => self.table().text(""),
        };
        if self.inspection != InspectedFlows::default() {
            text += "\n";
            text += &self.inspection.text();
        }
        text
    }

    fn table(&self) -> Table<8> {
        let mut table = Table::new([
            "content",
            ">rating group",
            ">service",
            ">flows",
            ">up packets",
            ">up octets",
            ">down packets",
            ">down octets",
        ]);
        let number = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        for row in &self.contents {
            table.row([
                row.name.clone(),
                number(row.rating_group),
                number(row.service_id),
                row.flows.to_string(),
                row.uplink_packets.to_string(),
                row.uplink_octets.to_string(),
                row.downlink_packets.to_string(),
                row.downlink_octets.to_string(),
            ]);
        }
        table
    }
}

impl InspectedFlows {
    fn text(self) -> String {
        let Self {
            inspected,
            found,
            undetected,
            refused,
        } = self;
        let ended = found + undetected;
        let share = match ended {
            0 => String::new(),
            _ => format!(" ({:.1}%)", 100.0 * undetected as f64 / ended as f64),
        };
        format!(
            "flows and requests looked into: {inspected}; host found: {found}, undetected: {undetected}{share}; not looked \
             into, for want of room: {refused}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_a_table_with_the_share_of_what_was_not_detected() {
        let video = ContentRow {
            name: "video".into(),
            rating_group: Some(100),
            service_id: None,
            flows: 2,
            uplink_packets: 10,
            uplink_octets: 600,
            downlink_packets: 20,
            downlink_octets: 28_000,
        };
        let shown = ContentList {
            inspection: InspectedFlows {
                inspected: 5,
                found: 3,
                undetected: 1,
                refused: 7,
            },
            contents: vec![video],
        };
        assert_eq!(
            shown.text(),
            "content  rating group  service  flows  up packets  up octets  down packets  down octets\n\
             video             100        -      2          10        600            20        28000\n\
             \n\
             flows and requests looked into: 5; host found: 3, undetected: 1 (25.0%); not looked into, for want of room: 7\n"
        );
        let none = ContentList {
            inspection: InspectedFlows::default(),
            contents: Vec::new(),
        };
        assert_eq!(none.text(), "no rule of a rulebase has a content\n");
    }
}
