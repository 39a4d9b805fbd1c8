//! Slices and data networks: their sessions, and what was forwarded of them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::table::Table;

/// What there is of each slice and data network that sessions have named since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SliceList {
    /// By slice and DNN. The 256 that came first have rows of their own, the rest is the last row.
    pub slices: Vec<SliceRow>,
    /// The workers of each slice that has some of its own, and at the end those of all other sessions; absent where
    /// every worker serves all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<SliceWorkersRow>,
}

/// The workers that serve the sessions of one slice, and of other slices only where these have them, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SliceWorkersRow {
    /// The S-NSSAI; `other`: all that have no workers of their own, and sessions without S-NSSAI.
    #[schema(example = "1-000001")]
    pub slice: String,
    /// The numbers of the workers.
    pub workers: Vec<u16>,
}

/// The sessions of one S-NSSAI and DNN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SliceRow {
    /// The S-NSSAI; empty where none was named; `other`, with the DNN `other`: all that found no room.
    #[schema(example = "1-000001")]
    pub slice: String,
    /// The DNN or APN; empty where none was named.
    #[schema(example = "internet")]
    pub dnn: String,
    /// Sessions now.
    pub sessions: u64,
    /// Sessions that joined since the start: established, imported, or changed to this S-NSSAI and DNN.
    pub joined: u64,
    /// User packets to data networks that left.
    pub uplink_packets: u64,
    /// Their octets, from the user packet's IP header on.
    pub uplink_octets: u64,
    /// User packets to UEs that left.
    pub downlink_packets: u64,
    /// Their octets.
    pub downlink_octets: u64,
}

impl SliceList {
    /// As a table for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.sessions_text();
        if !self.workers.is_empty() {
            let mut table = Table::new(["slice", "workers"]);
            for row in &self.workers {
                let numbers: Vec<String> = row.workers.iter().map(u16::to_string).collect();
                table.row([row.slice.clone(), numbers.join(" ")]);
            }
            text.push('\n');
            text.push_str(&table.text(""));
        }
        text
    }

    fn sessions_text(&self) -> String {
        if self.slices.is_empty() {
            return "no session so far\n".to_owned();
        }
        let mut table = Table::new([
            "slice",
            "DNN",
            ">sessions",
            ">joined",
            ">up packets",
            ">up octets",
            ">down packets",
            ">down octets",
        ]);
        let named = |name: &String| {
            if name.is_empty() {
                "-".to_owned()
            } else {
                name.clone()
            }
        };
        for row in &self.slices {
            table.row([
                named(&row.slice),
                named(&row.dnn),
                row.sessions.to_string(),
                row.joined.to_string(),
                row.uplink_packets.to_string(),
                row.uplink_octets.to_string(),
                row.downlink_packets.to_string(),
                row.downlink_octets.to_string(),
            ]);
        }
        table.text("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_a_table_in_which_what_was_not_named_is_a_dash() {
        let row = |slice: &str, dnn: &str, number: u64| SliceRow {
            slice: slice.into(),
            dnn: dnn.into(),
            sessions: number,
            joined: 10 * number,
            uplink_packets: 7 * number,
            uplink_octets: 700 * number,
            downlink_packets: 8 * number,
            downlink_octets: 8_000 * number,
        };
        let list = SliceList {
            slices: vec![
                row("1-000001", "internet", 3),
                row("", "ims", 1),
                row("other", "other", 0),
            ],
            workers: Vec::new(),
        };
        assert_eq!(
            list.text(),
            "slice     DNN       sessions  joined  up packets  up octets  down packets  down octets\n\
             1-000001  internet         3      30          21       2100            24        24000\n\
             -         ims              1      10           7        700             8         8000\n\
             other     other            0       0           0          0             0            0\n"
        );
        let workers = |slice: &str, workers: &[u16]| SliceWorkersRow {
            slice: slice.into(),
            workers: workers.into(),
        };
        let list = SliceList {
            slices: Vec::new(),
            workers: vec![workers("1-000001", &[2, 3]), workers("other", &[0, 1])],
        };
        assert_eq!(
            list.text(),
            "no session so far\n\n\
             slice     workers\n\
             1-000001  2 3\n\
             other     0 1\n"
        );
    }
}
