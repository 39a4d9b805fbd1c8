//! Rules predefined in the user plane, which SMFs activate by name (rulebases) or by number (TS 29.244 §5.4.9, §5.19).

use std::borrow::Cow;
use std::str::FromStr;

use rules::model::{Content, HostRule};
use rules::sdf::FlowDescription;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_saphyr::Spanned;

use super::file_pattern::FilePattern;
use super::protocol::ProtocolConfig;
use crate::bounded::Bounded;

/// The number of a predefined FAR, QER or URR: the top bit is set.
pub(crate) type Number = Bounded<0x8000_0000, 0xffff_ffff>;

/// A maximum or guaranteed bit rate in kbit/s.
pub(crate) type Kbit = Bounded<0, 0xff_ffff_ffff>;

/// All that is predefined.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PredefinedConfig {
    /// What happens to packets.
    #[serde(default)]
    pub fars: Vec<PredefinedFar>,
    /// QoS; each session that uses one has meters of its own.
    #[serde(default)]
    pub qers: Vec<PredefinedQer>,
    /// Usage, by volume; each session that uses one has counters of its own.
    #[serde(default)]
    pub urrs: Vec<PredefinedUrr>,
    /// What rules of rulebases detect by name.
    #[serde(default)]
    pub applications: Vec<ApplicationConfig>,
    /// Files with more of them, each a list of applications, below the folder of this file; a `*` in the name of a file
    /// stands for any characters. They are read at the start and with each commit: 1,000 files and 16 MiB at most.
    #[serde(default)]
    #[schemars(with = "Vec<FilePattern>")]
    pub application_files: Vec<Spanned<FilePattern>>,
    /// Packet detection rules, in groups with names.
    #[serde(default)]
    pub rulebases: Vec<RulebaseConfig>,
}

/// A predefined FAR.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PredefinedFar {
    /// Its number, from 0x80000000 on.
    #[schemars(with = "Number")]
    pub id: Spanned<Number>,
    /// Apply Action.
    pub action: PredefinedAction,
    /// The network instance that packets leave by, with role n6; the first of that role.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub instance: Option<Spanned<String>>,
    /// The TOS or Traffic Class that they leave with; as they came.
    #[serde(default)]
    pub tos: Option<Bounded<0, 255>>,
}

/// What a predefined FAR does. Towards Access each session has another tunnel: that is for the SMF's FAR to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PredefinedAction {
    /// Packets are dropped.
    Drop,
    /// They are sent to the data network.
    Forward,
}

/// A predefined QER.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PredefinedQer {
    /// Its number, from 0x80000000 on.
    #[schemars(with = "Number")]
    pub id: Spanned<Number>,
    /// The uplink gate; open.
    #[serde(default)]
    pub gate_uplink: GateConfig,
    /// The downlink gate; open.
    #[serde(default)]
    pub gate_downlink: GateConfig,
    /// The QoS flow that packets are marked with, unless a QER of the SMF says another; none.
    #[serde(default)]
    pub qfi: Option<Bounded<0, 63>>,
    /// Maximum bit rate in kbit/s, uplink; no limit.
    #[serde(default)]
    pub mbr_uplink_kbit: Option<Kbit>,
    /// Maximum bit rate in kbit/s, downlink; no limit.
    #[serde(default)]
    pub mbr_downlink_kbit: Option<Kbit>,
}

/// A gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GateConfig {
    /// Packets pass.
    #[default]
    Open,
    /// They are dropped.
    Closed,
}

/// A predefined URR.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PredefinedUrr {
    /// Its number, from 0x80000000 on.
    #[schemars(with = "Number")]
    pub id: Spanned<Number>,
}

/// An application: what its flows are for, and where they go. A flow is of it by any host, by any flow description, or
/// by any protocol.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationConfig {
    /// Its name, for rules.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// Hosts that its flows are for.
    #[serde(default)]
    pub hosts: Vec<Host>,
    /// Flow descriptions.
    #[serde(default)]
    pub flows: Vec<Flow>,
    /// Protocols of its flows.
    #[serde(default)]
    #[schemars(with = "Vec<ProtocolConfig>")]
    pub protocols: Vec<Spanned<ProtocolConfig>>,
}

/// Rules that are activated together.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RulebaseConfig {
    /// The name in Activate Predefined Rules.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// Its rules.
    pub rules: Vec<PredefinedRuleConfig>,
}

/// One rule of a rulebase.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PredefinedRuleConfig {
    /// Its place among the rules that the same PDR activates, the lower value first.
    pub precedence: Bounded<0, 0xffff_ffff>,
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
    /// Applications, any of them, or any of `hosts`. Those with flow descriptions of their own may not be beside
    /// `flows`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub applications: Vec<Spanned<String>>,
    /// Hosts and categories count only of flows that name the host themselves, to an address that one of
    /// `inspection.resolvers` has given the UE for this very name; no.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub confirmed_by_dns: Option<Spanned<bool>>,
    /// The FAR, for PDRs without one of their own.
    #[serde(default)]
    pub far: Option<Number>,
    /// QERs beside those of the PDR.
    #[serde(default)]
    pub qers: Vec<Number>,
    /// URRs beside those of the PDR.
    #[serde(default)]
    pub urrs: Vec<Number>,
    /// What its packets are billed as; nothing.
    #[serde(default)]
    pub content: Option<ContentConfig>,
}

/// What packets are billed as: a PCC rule, or an application that several rules are of. Rules that say the same, in
/// whatever rulebases, have one counter in each session, made when the first packet comes.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ContentConfig {
    /// Its name, in records and views: 1 to 63 octets.
    pub name: ContentName,
    /// The rating group.
    #[serde(default)]
    pub rating_group: Option<Bounded<0, 0xffff_ffff>>,
    /// The service identifier.
    #[serde(default)]
    pub service_id: Option<Bounded<0, 0xffff_ffff>>,
}

/// The name of a content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContentName(pub String);

impl<'de> Deserialize<'de> for ContentName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() || text.len() > 63 || text.chars().any(char::is_control) {
            return Err(de::Error::custom(format_args!(
                "`{}`: a content's name has 1 to 63 octets, none of them a control character",
                text.escape_debug()
            )));
        }
        Ok(Self(text))
    }
}

impl JsonSchema for ContentName {
    fn schema_name() -> Cow<'static, str> {
        "ContentName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1, "maxLength": 63 })
    }
}

impl ContentConfig {
    pub(crate) fn content(&self) -> Content {
        Content {
            name: self.name.0.as_str().into(),
            rating_group: self.rating_group.map(|number| number.value() as u32),
            service_id: self.service_id.map(|number| number.value() as u32),
        }
    }
}

/// A flow description, as of SDF filters: written for the downlink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow(pub FlowDescription);

impl<'de> Deserialize<'de> for Flow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = FlowDescription::from_str(&text);
        parsed
            .map(Self)
            .map_err(|error| de::Error::custom(format_args!("`{text}`: {error}")))
    }
}

impl Serialize for Flow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl JsonSchema for Flow {
    fn schema_name() -> Cow<'static, str> {
        "Flow".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "examples": ["permit out 17 from 198.51.100.0/24 53 to assigned"],
        })
    }
}

/// A host, `*.` and a name for it and all below it, or an IP address; of HTTP with the start of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host(pub HostRule);

impl<'de> Deserialize<'de> for Host {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = HostRule::parse(&text);
        parsed
            .map(Self)
            .map_err(|error| de::Error::custom(format_args!("`{}`: {error}", text.escape_debug())))
    }
}

impl Serialize for Host {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl JsonSchema for Host {
    fn schema_name() -> Cow<'static, str> {
        "Host".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "examples": ["www.example.org", "*.example.org", "shop.example/api", "192.0.2.1"],
        })
    }
}
