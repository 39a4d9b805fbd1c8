//! Routes and neighbours.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::table::Table;

/// A page of routes, by VRF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouteList {
    /// The routes.
    pub routes: Vec<RouteRow>,
    /// What `after` is for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<u32>,
    /// How many there are in all.
    pub total: usize,
}

/// What a route is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RouteKind {
    /// The prefix of a link: each destination is its own next hop.
    Connected,
    /// By one of the next hops.
    Static,
    /// To UEs with a session here (`hairpin: local`).
    Ues,
    /// Packets from UE to UE are dropped (`hairpin: drop`).
    Nowhere,
}

impl RouteKind {
    const fn words(self) -> &'static str {
        match self {
            Self::Connected => "on the link",
            Self::Static => "static",
            Self::Ues => "UEs here",
            Self::Nowhere => "dropped",
        }
    }
}

/// One prefix of a VRF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouteRow {
    /// The routing table.
    pub vrf: u16,
    /// The destinations; of several prefixes that fit, the longest counts.
    #[schema(example = "0.0.0.0/0")]
    pub prefix: String,
    /// What becomes of packets there.
    pub kind: RouteKind,
    /// The network instance that has the prefix, or the first that has a route to it.
    pub instance: String,
    /// The routers of a static route.
    pub next_hops: Vec<NextHopRow>,
}

/// One router of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextHopRow {
    /// Its address.
    #[schema(example = "10.200.0.254")]
    pub address: String,
    /// The network instance on whose link it is.
    pub instance: String,
    /// Whether packets go there.
    pub alive: bool,
    /// Why: `static`, `own`, `reachable`, `checking`, or else `incomplete`, `unreachable`, `link down`, `no source
    /// address`, or that there is no room for it.
    pub state: String,
    /// Its link layer address, if that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mac: Option<String>,
    /// Milliseconds since it answered last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub age_ms: Option<u64>,
}

/// A page of neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NeighbourList {
    /// The own addresses on the links; on the first page alone.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub own_addresses: Vec<OwnAddressRow>,
    /// The neighbours.
    pub neighbours: Vec<NeighbourRow>,
    /// What `after` is for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<u32>,
    /// How many there are in all.
    pub total: usize,
}

/// One own address on a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OwnAddressRow {
    /// The network instance.
    pub instance: String,
    /// The address.
    #[schema(example = "2001:db8:6::1")]
    pub address: String,
    /// The port.
    pub port: String,
    /// The VLAN; absent where frames are untagged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "VLAN 200.30")]
    pub vlan: Option<String>,
    /// Its link layer address.
    pub mac: String,
    /// `preferred`: in use; `tentative`: Duplicate Address Detection is not over; `duplicate`: another station has it.
    /// The last two are neither answered for nor used as a source.
    pub state: String,
    /// How often another station has claimed the address since the start.
    pub conflicts: u64,
}

/// One neighbour on a link, found by ARP or Neighbour Discovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NeighbourRow {
    /// Its place in the table.
    pub id: u32,
    /// The network instance on whose link it is.
    pub instance: String,
    /// Its address.
    #[schema(example = "10.200.0.254")]
    pub address: String,
    /// The port.
    pub port: String,
    /// The VLAN; absent where frames are untagged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "VLAN 200.30")]
    pub vlan: Option<String>,
    /// Its link layer address, if that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mac: Option<String>,
    /// `static`, `own`, `reachable`, `checking`, `incomplete`, `unreachable`, `link down`, `no contact`
    /// or `no source address`.
    pub state: String,
    /// Milliseconds since it answered last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub age_ms: Option<u64>,
    /// Questions that it has not answered.
    pub asked: u8,
    /// Who wants it: `configuration` (routers, static neighbours), `rules` (peers of tunnels) or `traffic`.
    pub wanted_by: String,
}

/// Milliseconds as seconds with one digit.
fn seconds(age_ms: Option<u64>) -> String {
    age_ms.map_or_else(String::new, |age| {
        format!("{}.{} s", age / 1_000, age % 1_000 / 100)
    })
}

impl RouteList {
    /// As a table for people; a route with several routers takes several lines.
    #[must_use]
    pub fn text(&self) -> String {
        let mut table = Table::new([
            ">VRF", "prefix", "way", "by", "instance", "state", "station", ">age",
        ]);
        for route in &self.routes {
            let (vrf, prefix) = (route.vrf.to_string(), route.prefix.clone());
            let way = route.kind.words().to_owned();
            if route.next_hops.is_empty() {
                let instance = route.instance.clone();
                let none = String::new;
                table.row([vrf, prefix, way, none(), instance, none(), none(), none()]);
                continue;
            }
            for hop in &route.next_hops {
                let state = match hop.alive {
                    true => hop.state.clone(),
                    false => format!("DOWN: {}", hop.state),
                };
                table.row([
                    vrf.clone(),
                    prefix.clone(),
                    way.clone(),
                    hop.address.clone(),
                    hop.instance.clone(),
                    state,
                    hop.mac.clone().unwrap_or_default(),
                    seconds(hop.age_ms),
                ]);
            }
        }
        let rest = self.next.map(|next| format!("more behind --after {next}\n"));
        table.text("") + &rest.unwrap_or_default()
    }
}

fn vlan_text(vlan: Option<&str>) -> String {
    vlan.map_or("untagged", |vlan| vlan.trim_start_matches("VLAN "))
        .to_owned()
}

fn own_addresses_text(rows: &[OwnAddressRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        "instance",
        "own address",
        "port",
        "VLAN",
        "state",
        "station",
        ">conflicts",
    ]);
    for one in rows {
        table.row([
            one.instance.clone(),
            one.address.clone(),
            one.port.clone(),
            vlan_text(one.vlan.as_deref()),
            one.state.clone(),
            one.mac.clone(),
            one.conflicts.to_string(),
        ]);
    }
    table.text("") + "\n"
}

impl NeighbourList {
    /// As tables for people.
    #[must_use]
    pub fn text(&self) -> String {
        let own = own_addresses_text(&self.own_addresses);
        let mut table = Table::new([
            "instance",
            "address",
            "port",
            "VLAN",
            "state",
            "station",
            ">age",
            ">asked",
            "wanted by",
        ]);
        for one in &self.neighbours {
            table.row([
                one.instance.clone(),
                one.address.clone(),
                one.port.clone(),
                vlan_text(one.vlan.as_deref()),
                one.state.clone(),
                one.mac.clone().unwrap_or_default(),
                seconds(one.age_ms),
                one.asked.to_string(),
                one.wanted_by.clone(),
            ]);
        }
        let rest = self.next.map(|next| format!("more behind --after {next}\n"));
        own + &table.text("") + &rest.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_sees_which_router_is_down_and_why() {
        let hop = |address: &str, alive, state: &str| NextHopRow {
            address: address.into(),
            instance: "internet".into(),
            alive,
            state: state.into(),
            mac: alive.then(|| "02:00:00:00:00:fe".into()),
            age_ms: Some(1_250),
        };
        let row = |kind, prefix: &str, next_hops| RouteRow {
            vrf: 1,
            prefix: prefix.into(),
            kind,
            instance: "internet".into(),
            next_hops,
        };
        let hops = vec![
            hop("10.200.0.254", true, "reachable"),
            hop("10.200.0.253", false, "unreachable"),
        ];
        let list = RouteList {
            routes: vec![
                row(RouteKind::Connected, "10.200.0.0/24", Vec::new()),
                row(RouteKind::Static, "0.0.0.0/0", hops),
            ],
            next: Some(1),
            total: 3,
        };
        let text = list.text();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["1", "10.200.0.0/24", "on", "the", "link", "internet"]);
        assert!(
            lines[2].ends_with(&["reachable", "02:00:00:00:00:fe", "1.2", "s"]),
            "{text}"
        );
        assert!(text.contains("DOWN: unreachable"), "{text}");
        assert!(text.ends_with("more behind --after 1\n"), "{text}");
    }

    #[test]
    fn a_person_sees_where_a_neighbour_is() {
        let row = NeighbourRow {
            id: 3,
            instance: "internet".into(),
            address: "2001:db8::1".into(),
            port: "core".into(),
            vlan: Some("VLAN 200.30".into()),
            mac: None,
            state: "incomplete".into(),
            age_ms: None,
            asked: 2,
            wanted_by: "traffic".into(),
        };
        let untagged = NeighbourRow {
            vlan: None,
            ..row.clone()
        };
        let mut list = NeighbourList {
            own_addresses: Vec::new(),
            neighbours: vec![row, untagged],
            next: None,
            total: 2,
        };
        let text = list.text();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[1],
            [
                "internet",
                "2001:db8::1",
                "core",
                "200.30",
                "incomplete",
                "2",
                "traffic"
            ]
        );
        assert_eq!(lines[2][3], "untagged");
        list.own_addresses.push(OwnAddressRow {
            instance: "internet".into(),
            address: "2001:db8::7".into(),
            port: "core".into(),
            vlan: None,
            mac: "02:00:00:00:00:01".into(),
            state: "duplicate".into(),
            conflicts: 4,
        });
        let with_own = list.text();
        let (own, neighbours) = with_own.split_once("\n\n").expect("two tables");
        assert_eq!(neighbours, text);
        let row: Vec<&str> = own.lines().nth(1).expect("a row").split_whitespace().collect();
        assert_eq!(
            row,
            [
                "internet",
                "2001:db8::7",
                "core",
                "untagged",
                "duplicate",
                "02:00:00:00:00:01",
                "4"
            ]
        );
    }
}
