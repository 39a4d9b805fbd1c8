//! Access lists, and what their rules have decided.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::table::Table;

/// The access lists of the configuration, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessLists {
    /// The lists.
    pub access_lists: Vec<AccessListStatus>,
}

/// One access list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessListStatus {
    /// Its name.
    #[schema(example = "consumers")]
    pub name: String,
    /// The slice whose sessions it is for: SST, and SD if there is one; any.
    #[schema(example = "1-0000a1")]
    pub slice: Option<String>,
    /// The data network whose sessions it is for; any.
    #[schema(example = "internet")]
    pub dnn: Option<String>,
    /// Its rules in their order, that for all other packets as the last.
    pub rules: Vec<AccessRuleStatus>,
}

/// One rule of an access list, and what it has decided since the daemon has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessRuleStatus {
    /// Its name.
    #[schema(example = "no-mail")]
    pub name: String,
    /// `permit`, `deny`, `reject` or `solicited`.
    #[schema(example = "deny")]
    pub action: String,
    /// `uplink` or `downlink`; both.
    #[schema(example = "uplink")]
    pub direction: Option<String>,
    /// Flows that it has decided about, and packets of none; a flow that is decided anew counts again.
    pub flows: u64,
    /// Packets that it has dropped.
    pub dropped_packets: u64,
    /// Their octets.
    pub dropped_octets: u64,
}

impl AccessLists {
    /// As tables for people: of rules that have decided something.
    #[must_use]
    pub fn text(&self) -> String {
        if self.access_lists.is_empty() {
            return "no access list is configured\n".into();
        }
        let lists: Vec<String> = self.access_lists.iter().map(AccessListStatus::text).collect();
        lists.join("\n")
    }
}

impl AccessListStatus {
    fn text(&self) -> String {
        let slice = self.slice.as_ref().map(|slice| format!("slice {slice}"));
        let dnn = self.dnn.as_ref().map(|dnn| format!("data network {dnn}"));
        let whose: Vec<String> = slice.into_iter().chain(dnn).collect();
        let whose = match whose.is_empty() {
            true => "all sessions that have no other".to_owned(),
            false => whose.join(", "),
        };
        let mut table = Table::new([
            "rule",
            "action",
            "direction",
            ">flows",
            ">dropped packets",
            ">octets",
        ]);
        let decided = self.rules.iter().filter(|rule| rule.flows > 0);
        for rule in decided.clone() {
            table.row([
                rule.name.clone(),
                rule.action.clone(),
                rule.direction.clone().unwrap_or_else(|| "both".into()),
                rule.flows.to_string(),
                rule.dropped_packets.to_string(),
                rule.dropped_octets.to_string(),
            ]);
        }
        let idle = self.rules.len() - decided.count();
        let idle = match idle {
            0 => String::new(),
            1 => "  1 rule has decided nothing\n".into(),
            many => format!("  {many} rules have decided nothing\n"),
        };
        format!("{}: for {whose}\n{}{idle}", self.name, table.text("  "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_tables_of_rules_that_have_decided_something() {
        let rule = |name: &str, flows, dropped_packets| AccessRuleStatus {
            name: name.into(),
            action: "deny".into(),
            direction: Some("uplink".into()),
            flows,
            dropped_packets,
            dropped_octets: dropped_packets * 100,
        };
        let mut lists = AccessLists {
            access_lists: vec![AccessListStatus {
                name: "consumers".into(),
                slice: Some("1-0000a1".into()),
                dnn: Some("internet".into()),
                rules: vec![rule("no-mail", 2, 30), rule("otherwise", 0, 0)],
            }],
        };
        assert_eq!(
            lists.text(),
            "consumers: for slice 1-0000a1, data network internet\n\
             \x20 rule     action  direction  flows  dropped packets  octets\n\
             \x20 no-mail  deny    uplink         2               30    3000\n\
             \x20 1 rule has decided nothing\n"
        );
        lists.access_lists.clear();
        assert_eq!(lists.text(), "no access list is configured\n");
    }
}
