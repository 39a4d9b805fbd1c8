//! N4 as a whole: who may speak, what was sent and received, what was refused and why.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use upf::format::grouped;

use super::facts::list;
use super::table::Table;

/// N4 since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct N4Status {
    /// The version of Sluice.
    pub version: String,
    /// Our Node ID.
    #[schema(example = "upf.5gc.example")]
    pub node: String,
    /// Where we are reached: addresses and ports.
    #[schema(example = json!(["10.100.0.1:8805"]))]
    pub addresses: Vec<String>,
    /// The prefixes that peers may speak from; empty: any.
    pub peers: Vec<String>,
    /// Since when (RFC 3339): our Recovery Time Stamp.
    pub since: String,
    /// Associations.
    pub associations: usize,
    /// Among them those whose peers answered the last heartbeat.
    pub reachable: usize,
    /// Sessions.
    pub sessions: usize,
    /// Requests of peers in work.
    pub in_work: usize,
    /// Requests of ours without an answer yet.
    pub unanswered: usize,
    /// Octets that answers take which are kept for retransmissions.
    pub answers_bytes: usize,
    /// Answers that went before their time for want of room.
    pub answers_evicted: u64,
    /// Messages by type, those of which there was anything.
    pub messages: Vec<N4Message>,
    /// The causes by which we refused requests.
    pub refused: Vec<N4Cause>,
    /// The causes by which peers refused requests of ours.
    pub refused_by_peers: Vec<N4Cause>,
    /// Datagrams and messages that were not served, by reason.
    pub not_served: BTreeMap<String, u64>,
    /// Everything else that is counted.
    pub counts: BTreeMap<String, u64>,
}

/// The messages of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct N4Message {
    /// The number of the type (TS 29.244 Table 7.3-1).
    pub number: u8,
    /// Its name.
    #[schema(example = "Session Establishment Request")]
    pub message: String,
    /// Received, retransmissions among them.
    pub received: u64,
    /// Retransmissions of requests among them.
    pub duplicates: u64,
    /// Requests among them that were refused.
    pub refused: u64,
    /// Sent for the first time.
    pub sent: u64,
    /// Sent again: requests that were not answered in time, answers to retransmissions.
    pub resent: u64,
}

/// A cause (TS 29.244 §8.2.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct N4Cause {
    /// Its number.
    pub cause: u8,
    /// What it means.
    #[schema(example = "No resources available")]
    pub text: String,
    /// How often.
    pub count: u64,
}

/// How much is logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogStatus {
    /// The level: `error`, `warn`, `info`, `debug`, `trace`, or `off`.
    #[schema(example = "info")]
    pub level: String,
}

impl LogStatus {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        format!("log level {}\n", self.level)
    }
}

impl N4Status {
    /// Tables for people. What was never counted is left out.
    #[must_use]
    pub fn text(&self) -> String {
        let peers = match self.peers.is_empty() {
            true => "ANY SOURCE: n4.peers is not configured".into(),
            false => list(&self.peers),
        };
        let mut text = format!(
            "sluice        {}\nnode          {}, since {}\naddresses     {}\npeers         {peers}\n\
             associations  {}, {} reachable\nsessions      {}\nrequests      {} of peers in work, {} of ours unanswered\n\
             answers kept  {} octets, {} went early\n",
            self.version,
            self.node,
            self.since,
            list(&self.addresses),
            self.associations,
            self.reachable,
            grouped(self.sessions as u64),
            grouped(self.in_work as u64),
            grouped(self.unanswered as u64),
            grouped(self.answers_bytes as u64),
            grouped(self.answers_evicted),
        );
        text.push_str(&self.message_table());
        text.push_str(&causes("refused by us", &self.refused));
        text.push_str(&causes("refused by peers", &self.refused_by_peers));
        text.push_str(&counts("not served", &self.not_served));
        text.push_str(&counts("count", &self.counts));
        text
    }

    fn message_table(&self) -> String {
        let heads = [
            "message",
            ">received",
            ">duplicates",
            ">refused",
            ">sent",
            ">sent again",
        ];
        let mut table = Table::new(heads);
        for one in &self.messages {
            table.row([
                one.message.clone(),
                grouped(one.received),
                grouped(one.duplicates),
                grouped(one.refused),
                grouped(one.sent),
                grouped(one.resent),
            ]);
        }
        after_a_line(&table)
    }
}

fn after_a_line<const N: usize>(table: &Table<N>) -> String {
    if table.is_empty() {
        String::new()
    } else {
        format!("\n{}", table.text(""))
    }
}

fn causes(head: &'static str, causes: &[N4Cause]) -> String {
    let mut table = Table::new([head, "meaning", ">requests"]);
    for one in causes {
        table.row([one.cause.to_string(), one.text.clone(), grouped(one.count)]);
    }
    after_a_line(&table)
}

fn counts(head: &'static str, counts: &BTreeMap<String, u64>) -> String {
    let mut table = Table::new([head, ">times"]);
    for (name, count) in counts.iter().filter(|(_, count)| **count > 0) {
        table.row([name.clone(), grouped(*count)]);
    }
    after_a_line(&table)
}
