//! Access lists: which packets of the sessions of a slice or a data network may pass.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use super::policer::SliceConfig;
use super::predefined::Flow;

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
