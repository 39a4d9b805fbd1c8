//! Access lists: which packets of the sessions of a slice or a data network may pass.

use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use super::policer::SliceConfig;
use super::predefined::{Flow, Host};
use super::protocol::ProtocolConfig;
use crate::bounded::Bounded;

/// One access list. A session has the narrowest that is for it: for its data network within its slice, for its data
/// network, for its slice, for all.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AccessListConfig {
    /// Its name.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// The slice; any.
    #[serde(default)]
    pub slice: Option<SliceConfig>,
    /// The data network (APN/DNN, else the network instance towards it); any.
    #[serde(default)]
    pub dnn: Option<String>,
    /// Its rules, of which the first that describes a packet decides.
    #[serde(default)]
    pub rules: Vec<AccessRuleConfig>,
    /// What becomes of packets that no rule describes; permit.
    #[serde(default)]
    pub otherwise: AccessActionConfig,
    /// What belongs to a connection, and what becomes of the rest, with the action `solicited`.
    #[serde(default)]
    pub connections: ConnectionPolicyConfig,
}

/// How an access list takes connections.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionPolicyConfig {
    /// What belongs to one, beside the packets of its other end; address_dependent.
    #[serde(default)]
    pub filtering: FilteringConfig,
    /// What becomes of packets that belong to none; deny.
    #[serde(default)]
    pub unsolicited: UnsolicitedConfig,
}

/// What belongs to a connection, beside the packets of its other end (RFC 4787 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FilteringConfig {
    /// What anyone sends to the UE's address and port.
    EndpointIndependent,
    /// What the address of the other end sends to them, from any port.
    #[default]
    AddressDependent,
    /// Nothing.
    AddressAndPortDependent,
}

/// What becomes of packets that belong to no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UnsolicitedConfig {
    /// They are dropped.
    #[default]
    Deny,
    /// They are dropped, and their senders are notified by ICMP.
    Reject,
}

/// One rule of an access list.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRuleConfig {
    /// Its name in its list, by which it keeps its counts when the list changes; its place, from 1 on.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub name: Option<Spanned<String>>,
    /// What becomes of its packets.
    pub action: AccessActionConfig,
    /// Which way they go; both.
    #[serde(default)]
    pub direction: Option<DirectionConfig>,
    /// Flow descriptions, any of them; none: every packet.
    #[serde(default)]
    pub flows: Vec<Flow>,
    /// The TOS or Traffic Class of its packets as `[value, mask]`; any.
    #[serde(default)]
    pub tos: Option<[u8; 2]>,
    /// Hosts that flows are for, any of them, by TLS, QUIC or HTTP/1; none: all flows, also those of which no host is
    /// known. Beside `flows` both have to match.
    #[serde(default)]
    pub hosts: Vec<Host>,
    /// Categories of `domain_lists` that the host of a flow is of, any of them, or of `hosts`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub categories: Vec<Spanned<String>>,
    /// Protocols that flows have, any of them; none: any, but DNS, whose names are no hosts of flows. Beside `flows` or
    /// `hosts` all have to match.
    #[serde(default)]
    #[schemars(with = "Vec<ProtocolConfig>")]
    pub protocols: Vec<Spanned<ProtocolConfig>>,
    /// Applications of `predefined`, any of them, beside `hosts`. Those with flow descriptions of their own may not be
    /// beside `flows`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub applications: Vec<Spanned<String>>,
    /// Hosts and categories count only of flows that name the host themselves, to an address that one of
    /// `inspection.resolvers` has given the UE for this very name; no.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub confirmed_by_dns: Option<Spanned<bool>>,
    /// With the action `redirect` the URL that requests of HTTP are redirected to.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub redirect_to: Option<Spanned<String>>,
    /// With the action `sinkhole` what queries of DNS are answered with; that there is no such name.
    #[serde(default)]
    pub sinkhole: Option<SinkholeConfig>,
}

/// What queries of DNS are answered with: these addresses, or without any that there is no such name.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SinkholeConfig {
    /// The IPv4 address; none.
    #[serde(default)]
    pub ipv4: Option<Ipv4Addr>,
    /// The IPv6 address; none.
    #[serde(default)]
    pub ipv6: Option<Ipv6Addr>,
    /// How long clients may keep them, in seconds; 60.
    #[serde(default = "SinkholeConfig::default_ttl")]
    pub ttl_s: Bounded<0, 86_400>,
}

impl SinkholeConfig {
    fn default_ttl() -> Bounded<0, 86_400> {
        Bounded::new(60)
    }
}

impl Default for SinkholeConfig {
    fn default() -> Self {
        Self {
            ipv4: None,
            ipv6: None,
            ttl_s: Self::default_ttl(),
        }
    }
}

/// What becomes of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessActionConfig {
    /// The rules of the session decide about them.
    #[default]
    Permit,
    /// They are dropped.
    Deny,
    /// They are dropped, and their senders are notified by ICMP.
    Reject,
    /// They are dropped. Connections of TCP are reset towards their sender, others are notified by ICMP.
    Reset,
    /// They are dropped. Requests of HTTP/1 in clear are answered with a redirection to `redirect_to`; other
    /// connections of TCP are reset, others are notified by ICMP.
    Redirect,
    /// They are dropped. Queries of DNS over UDP are answered as `sinkhole` says.
    Sinkhole,
    /// What the UE sends is permitted. What comes from a data network is if it belongs to a connection that the UE has
    /// begun, and else dropped.
    Solicited,
}

/// A direction, seen from the UE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DirectionConfig {
    /// From the UE.
    Uplink,
    /// To the UE.
    Downlink,
}
