//! CG-NAT: pools of public addresses, and who has which public ports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use upf::format::grouped;
use utoipa::ToSchema;

use super::facts::{Facts, list};
use super::table::Table;

/// The most mappings that are listed of a session.
pub const MOST_MAPPINGS: u16 = 1_000;

/// CG-NAT of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NatStatus {
    /// The pools, in the order of the configuration.
    pub pools: Vec<NatPoolRow>,
    /// The mappings of all workers.
    pub mappings: NatMappingCounts,
}

/// A pool of public addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NatPoolRow {
    /// Its name.
    #[schema(example = "cgn")]
    pub name: String,
    /// The network instance by which translated packets leave.
    #[schema(example = "internet")]
    pub instance: String,
    /// The slice whose sessions it is for: SST, and SD if there is one; any.
    #[schema(example = "1-0000a1")]
    pub slice: Option<String>,
    /// The data network whose sessions it is for; any.
    #[schema(example = "internet")]
    pub dnn: Option<String>,
    /// Whether it is for the sessions alone whose control plane chooses it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub smf_only: bool,
    /// The prefix of the UEs from whose addresses the blocks follow (RFC 7422); absent: blocks are drawn.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "10.45.0.0/16")]
    pub deterministic: Option<String>,
    /// Its addresses: ranges, from the first to the last.
    #[schema(example = json!(["198.51.100.0-198.51.100.15"]))]
    pub addresses: Vec<String>,
    /// The ports of a block.
    #[schema(example = 512)]
    pub block: u32,
    /// Who may send to a mapping: `endpoint_independent` (anyone) or `address_dependent`.
    #[schema(example = "endpoint_independent")]
    pub filtering: String,
    /// What becomes of packets that come through a mapping from an address that it has not sent to; absent where these
    /// are filtered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unsolicited: Option<NatUnsolicited>,
    /// Its blocks.
    pub blocks: u32,
    /// Those that sessions hold.
    pub held: u32,
    /// Those that rest since a session gave them back.
    pub resting: u32,
    /// Those of UEs with port forwards that have no session now.
    pub reserved: u32,
    /// Those that a session may get.
    pub free: u32,
    /// Addresses without a free block: their sessions get no further one.
    pub full_addresses: u32,
    /// How often a session was to get a block since the start, and none was free that it may have.
    pub exhausted: u64,
}

/// What becomes of unsolicited packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NatUnsolicited {
    /// They wait for a UE that is idle, and have it paged.
    pub pages: bool,
    /// They count in URRs.
    pub charged: bool,
}

impl NatUnsolicited {
    fn words(self) -> &'static str {
        match (self.pages, self.charged) {
            (true, true) => "as others",
            (true, false) => "not charged",
            (false, true) => "no paging",
            (false, false) => "no paging, not charged",
        }
    }
}

/// Mappings, and packets that have found none, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NatMappingCounts {
    /// Mappings now; some may have expired just now.
    pub mappings: u64,
    /// How many there may be.
    pub limit: u64,
    /// Those that packets of UEs have made.
    pub made: u64,
    /// Those that have expired.
    pub expired: u64,
    /// Those that came with sessions of other workers or processes.
    pub imported: u64,
    /// Packets of UEs that got no mapping, by reason: `no_block`, `no_port`, `too_many_mappings`, `too_fast`,
    /// `table_full`, `moving`.
    pub refused: BTreeMap<String, u64>,
    /// Packets from outside to a public port without a mapping.
    pub unsolicited: u64,
    /// Packets from outside that came through a mapping from an address that it has not sent to, where their pool tells
    /// these from others.
    pub unsolicited_admitted: u64,
    /// Packets from outside that the filter of their mapping did not let through.
    pub filtered: u64,
}

/// A block of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NatBlock {
    /// The first port.
    #[schema(example = 1024)]
    pub first: u16,
    /// The last port.
    #[schema(example = 1535)]
    pub last: u16,
}

/// What a session has of its pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionNat {
    /// The name of the pool.
    #[schema(example = "cgn")]
    pub pool: String,
    /// What chose it: `configuration`, for the session's slice and data network; the FAR whose IEs of TR-459.2 name
    /// it; or the forwarding policy that a FAR names.
    #[schema(example = "forwarding policy `gamers` of FAR 1")]
    pub chosen_by: String,
    /// The public address of the session; absent as long as it has no block.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "198.51.100.1")]
    pub address: Option<String>,
    /// Its blocks, in the order in which it got them.
    pub blocks: Vec<NatBlock>,
    /// Why it can have none, if the configuration gives its UE none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lacks: Option<String>,
    /// Its mappings; some may have expired just now. Absent where the worker does not have the session just now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mappings: Option<u32>,
    /// Ports of its blocks without a mapping, by protocol: `tcp`, `udp`, `icmp` (identifiers of queries).
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub free_ports: BTreeMap<String, u32>,
}

/// The session that has a public address and port now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NatOwner {
    /// The address.
    #[schema(example = "198.51.100.1")]
    pub address: String,
    /// The port, or the identifier of ICMP queries.
    #[schema(example = 2600)]
    pub port: u16,
    /// The network instance of the address.
    #[schema(example = "internet")]
    pub instance: String,
    /// The pool that has the address.
    #[schema(example = "cgn")]
    pub pool: String,
    /// The block that has the port.
    pub block: NatBlock,
    /// The local SEID of the session; absent where the block is the UE's by configuration, and it has no session now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "0x8f3c21b09d4e7a65")]
    pub seid: Option<String>,
    /// The UE's addresses and prefixes, and the networks behind it.
    pub ue: Vec<String>,
    /// The IMSI of whom it is for, if its control plane has said it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "001010000000001")]
    pub imsi: Option<String>,
    /// The DNN or APN, if its control plane has said it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dnn: Option<String>,
    /// The protocol that was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "udp")]
    pub protocol: Option<String>,
    /// The live mapping of that protocol, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mapping: Option<NatMappingRow>,
}

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NatMappingRow {
    /// The protocol: `tcp`, `udp` or `icmp`.
    #[schema(example = "tcp")]
    pub protocol: String,
    /// The UE's address and port; of ICMP the identifier of its queries.
    #[schema(example = "10.45.0.2:40000")]
    pub inside: String,
    /// The public address and port.
    #[schema(example = "198.51.100.1:2600")]
    pub public: String,
    /// Of TCP the state of its connections: `opening`, `answered`, `established`, `finished` or `reset`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "established")]
    pub state: Option<String>,
    /// Seconds until it expires, if the UE sends nothing by it; absent: it is of a port forward, and lives as long as
    /// the session.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = 7440)]
    pub expires_s: Option<u64>,
    /// The addresses that may send to it, the latest first; absent where anyone may.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remotes: Option<Vec<String>>,
}

/// The live mappings of a session, 1,000 at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NatMappingList {
    /// The local SEID of the session.
    #[schema(example = "0x8f3c21b09d4e7a65")]
    pub seid: String,
    /// The mappings, by block, protocol and port.
    pub mappings: Vec<NatMappingRow>,
    /// How many the session has; some may have expired just now. Absent where the worker does not have the session just
    /// now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub total: Option<u32>,
}

impl NatStatus {
    /// As a table for people, and lines about mappings.
    #[must_use]
    pub fn text(&self) -> String {
        if self.pools.is_empty() {
            return "no pool of public addresses is configured\n".into();
        }
        let mut table = Table::new([
            "pool",
            "instance",
            "for",
            "addresses",
            ">ports",
            "filtering",
            "unsolicited",
            ">blocks",
            ">held",
            ">resting",
            ">reserved",
            ">free",
            ">full addresses",
            ">exhausted",
        ]);
        for pool in &self.pools {
            let mut ranges = pool.addresses.iter().cloned();
            table.row(pool.cells(ranges.next().unwrap_or_default()));
            for range in ranges {
                let mut further: [String; 14] = Default::default();
                further[3] = range;
                table.row(further);
            }
        }
        format!("{}\n{}", table.text(""), self.mappings.text())
    }
}

impl NatPoolRow {
    fn cells(&self, first_range: String) -> [String; 14] {
        let slice = self.slice.as_ref().map(|slice| format!("slice {slice}"));
        let dnn = self.dnn.as_ref().map(|dnn| format!("data network {dnn}"));
        let ues = self.deterministic.as_ref().map(|ues| format!("UEs {ues}"));
        let only = self.smf_only.then(|| "chosen by SMFs".to_owned());
        let whose: Vec<String> = only.into_iter().chain(slice).chain(dnn).chain(ues).collect();
        let whose = match whose.is_empty() {
            true => "all others".to_owned(),
            false => whose.join(", "),
        };
        [
            self.name.clone(),
            self.instance.clone(),
            whose,
            first_range,
            self.block.to_string(),
            self.filtering.clone(),
            self.unsolicited.map_or("-", NatUnsolicited::words).into(),
            grouped(self.blocks.into()),
            grouped(self.held.into()),
            grouped(self.resting.into()),
            grouped(self.reserved.into()),
            grouped(self.free.into()),
            grouped(self.full_addresses.into()),
            grouped(self.exhausted),
        ]
    }
}

impl NatMappingCounts {
    fn text(&self) -> String {
        let refused = self.refused.iter().filter(|(_, count)| **count > 0);
        let refused = list(refused.map(|(reason, count)| format!("{reason} {}", grouped(*count))));
        format!(
            "mappings: {} of {}; made: {}, expired: {}, come from other workers or processes: {}\n\
             packets of UEs without a mapping: {refused}\n\
             packets from outside that were dropped: {} without a mapping, {} filtered; unsolicited ones through a mapping: {}\n",
            grouped(self.mappings),
            grouped(self.limit),
            grouped(self.made),
            grouped(self.expired),
            grouped(self.imported),
            grouped(self.unsolicited),
            grouped(self.filtered),
            grouped(self.unsolicited_admitted),
        )
    }
}

impl NatBlock {
    fn words(self) -> String {
        format!("{}-{}", self.first, self.last)
    }
}

impl SessionNat {
    /// Lines for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let Some(address) = &self.address else {
            let why = self.lacks.as_ref().map(|why| format!(": {why}"));
            let why = why.unwrap_or_default();
            return vec![format!(
                "pool {} by {}, no block of ports{why}",
                self.pool, self.chosen_by
            )];
        };
        let blocks = list(self.blocks.iter().map(|block| block.words()));
        let mut lines = vec![format!(
            "{address} of pool {} by {}, ports {blocks}",
            self.pool, self.chosen_by
        )];
        if let Some(mappings) = self.mappings {
            let free = self.free_ports.iter();
            let free = list(free.map(|(protocol, ports)| format!("{protocol} {}", grouped((*ports).into()))));
            lines.push(format!(
                "{} mappings, free ports: {free}",
                grouped(mappings.into())
            ));
        }
        lines
    }
}

impl NatMappingRow {
    fn cells(&self) -> [String; 6] {
        [
            self.protocol.clone(),
            self.inside.clone(),
            self.public.clone(),
            self.state.clone().unwrap_or_else(|| "-".into()),
            self.expires_s
                .map_or_else(|| "never".into(), |seconds| format!("{} s", grouped(seconds))),
            self.remotes.as_ref().map_or_else(|| "any".into(), list),
        ]
    }
}

impl NatOwner {
    /// As lines for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut facts = Facts::new("  ");
        let (pool, block) = (&self.pool, self.block.words());
        facts.add(
            "pool",
            [format!("{pool} ({}), block of ports {block}", self.instance)],
        );
        let none_now = || "none now: the ports are the UE's by configuration".to_owned();
        facts.add("session", [self.seid.clone().unwrap_or_else(none_now)]);
        facts.add("UE", [list(&self.ue)]);
        facts.add("IMSI", self.imsi.clone());
        facts.add("DNN", self.dnn.clone());
        let none = || Some(format!("none live of {}", self.protocol.as_ref()?));
        let mapping = self.mapping.as_ref().map(|mapping| {
            let state = mapping.state.as_ref().map(|state| format!(", {state}"));
            let end = mapping.expires_s.map_or_else(
                || "a port forward".to_owned(),
                |seconds| format!("expires in {} s", grouped(seconds)),
            );
            let state = state.unwrap_or_default();
            format!("{} {}{state}, {end}", mapping.protocol, mapping.inside)
        });
        facts.add("mapping", mapping.or_else(none));
        format!("{}:{}\n{}", self.address, self.port, facts.text)
    }
}

impl NatMappingList {
    /// A table.
    #[must_use]
    pub fn text(&self) -> String {
        let Some(total) = self.total else {
            return "the worker does not have the session just now\n".into();
        };
        if self.mappings.is_empty() {
            return "no mappings\n".into();
        }
        let mut table = Table::new([
            "protocol",
            "inside",
            "public",
            "state",
            ">expires in",
            "who may send",
        ]);
        self.mappings
            .iter()
            .for_each(|mapping| table.row(mapping.cells()));
        let more = match self.mappings.len() < usize::from(MOST_MAPPINGS) {
            true => String::new(),
            false => format!(
                "{} of {}\n",
                grouped(self.mappings.len() as u64),
                grouped(total.into())
            ),
        };
        table.text("") + &more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> NatPoolRow {
        NatPoolRow {
            name: "cgn".into(),
            instance: "internet".into(),
            slice: None,
            dnn: Some("internet".into()),
            smf_only: false,
            deterministic: None,
            addresses: vec![
                "198.51.100.0-198.51.100.1".into(),
                "203.0.113.7-203.0.113.7".into(),
            ],
            block: 512,
            filtering: "address_dependent".into(),
            unsolicited: None,
            blocks: 378,
            held: 3,
            resting: 1,
            reserved: 0,
            free: 374,
            full_addresses: 0,
            exhausted: 2,
        }
    }

    fn mapping() -> NatMappingRow {
        NatMappingRow {
            protocol: "udp".into(),
            inside: "10.45.0.2:1000".into(),
            public: "198.51.100.1:2600".into(),
            state: None,
            expires_s: Some(299),
            remotes: None,
        }
    }

    #[test]
    fn pools_are_a_table_and_mappings_are_lines() {
        let mut status = NatStatus {
            pools: vec![pool()],
            mappings: NatMappingCounts {
                mappings: 12,
                limit: 1_048_576,
                made: 40,
                expired: 28,
                refused: [("no_block".into(), 1), ("moving".into(), 0)].into(),
                unsolicited: 5,
                unsolicited_admitted: 4,
                ..NatMappingCounts::default()
            },
        };
        let text = status.text();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[1],
            [
                "cgn",
                "internet",
                "data",
                "network",
                "internet",
                "198.51.100.0-198.51.100.1",
                "512",
                "address_dependent",
                "-",
                "378",
                "3",
                "1",
                "0",
                "374",
                "0",
                "2"
            ]
        );
        assert_eq!(lines[2], ["203.0.113.7-203.0.113.7"]);
        assert!(
            text.ends_with(
                "mappings: 12 of 1,048,576; made: 40, expired: 28, come from other workers or processes: 0\n\
                 packets of UEs without a mapping: no_block 1\n\
                 packets from outside that were dropped: 5 without a mapping, 0 filtered; unsolicited ones through a mapping: 4\n"
            ),
            "{text}"
        );
        let words = |pages, charged| NatUnsolicited { pages, charged }.words();
        assert_eq!(
            [words(false, false), words(true, false)],
            ["no paging, not charged", "not charged"]
        );
        assert_eq!(
            [words(false, true), words(true, true)],
            ["no paging", "as others"]
        );
        status.pools.clear();
        assert_eq!(status.text(), "no pool of public addresses is configured\n");
    }

    #[test]
    fn a_session_has_its_blocks_in_their_order() {
        let block = |first| NatBlock {
            first,
            last: first + 511,
        };
        let mut nat = SessionNat {
            pool: "cgn".into(),
            chosen_by: "FAR 1".into(),
            address: Some("198.51.100.1".into()),
            blocks: vec![block(2_560), block(1_024)],
            lacks: None,
            mappings: Some(12),
            free_ports: [("tcp".into(), 1_024), ("udp".into(), 1_012)].into(),
        };
        let first = "198.51.100.1 of pool cgn by FAR 1, ports 2560-3071, 1024-1535";
        assert_eq!(
            nat.lines(),
            [first, "12 mappings, free ports: tcp 1,024, udp 1,012"]
        );
        nat.mappings = None;
        assert_eq!(nat.lines(), [first]);
        nat.address = None;
        assert_eq!(nat.lines(), ["pool cgn by FAR 1, no block of ports"]);
        nat.lacks = Some("10.46.0.1 is none".into());
        assert_eq!(
            nat.lines(),
            ["pool cgn by FAR 1, no block of ports: 10.46.0.1 is none"]
        );
    }

    #[test]
    fn the_owner_of_a_port_is_named_with_its_mapping() {
        let mut owner = NatOwner {
            address: "198.51.100.1".into(),
            port: 2_600,
            instance: "internet".into(),
            pool: "cgn".into(),
            block: NatBlock {
                first: 2_560,
                last: 3_071,
            },
            seid: Some("0x0000000000000002".into()),
            ue: vec!["10.45.0.2".into()],
            imsi: Some("001010000000001".into()),
            dnn: None,
            protocol: Some("udp".into()),
            mapping: Some(mapping()),
        };
        assert_eq!(
            owner.text(),
            "198.51.100.1:2600\n\
             \x20 pool        cgn (internet), block of ports 2560-3071\n\
             \x20 session     0x0000000000000002\n\
             \x20 UE          10.45.0.2\n\
             \x20 IMSI        001010000000001\n\
             \x20 mapping     udp 10.45.0.2:1000, expires in 299 s\n"
        );
        owner.mapping = None;
        assert!(owner.text().ends_with("mapping     none live of udp\n"));
        owner.mapping = Some(NatMappingRow {
            expires_s: None,
            ..mapping()
        });
        assert!(owner.text().ends_with("udp 10.45.0.2:1000, a port forward\n"));
        owner.seid = None;
        assert!(
            owner
                .text()
                .contains("session     none now: the ports are the UE's by configuration\n")
        );
    }

    #[test]
    fn mappings_are_a_table_that_says_if_there_are_more() {
        let mut list = NatMappingList {
            seid: "0x0000000000000002".into(),
            mappings: vec![NatMappingRow {
                protocol: "tcp".into(),
                state: Some("established".into()),
                remotes: Some(vec!["192.0.2.1".into(), "192.0.2.2".into()]),
                ..mapping()
            }],
            total: Some(1_234),
        };
        assert_eq!(
            list.text(),
            "protocol  inside          public             state        expires in  who may send\n\
             tcp       10.45.0.2:1000  198.51.100.1:2600  established       299 s  192.0.2.1, 192.0.2.2\n"
        );
        list.mappings = vec![mapping(); MOST_MAPPINGS.into()];
        assert!(list.text().ends_with("\n1,000 of 1,234\n"));
        list.total = None;
        assert_eq!(list.text(), "the worker does not have the session just now\n");
    }
}
