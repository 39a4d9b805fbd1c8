//! The VLAN of a network instance: `100`, or `{outer: 200, inner: 30}`.

use std::borrow::Cow;
use std::fmt;

use packet::eth::ether_type;
use packet::{VlanId, VlanTags};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::bounded::Bounded;

/// The tags of an instance's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlanConfig(VlanTags);

/// One tag, or two.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Tags {
    /// The only tag, or the outer one.
    outer: Bounded<1, 4_094>,
    /// The second tag; none.
    #[serde(default)]
    inner: Option<Bounded<1, 4_094>>,
    /// The EtherType that announces the outer tag of what we send: 0x8100 or 0x88a8; 0x88a8 with a second tag, else
    /// 0x8100.
    #[serde(default)]
    #[schemars(extend("enum" = [33_024, 34_984, null]))]
    tpid: Option<u64>,
}

impl VlanConfig {
    /// The tags.
    #[must_use]
    pub const fn tags(self) -> VlanTags {
        self.0
    }
}

fn id(value: Bounded<1, 4_094>) -> VlanId {
    VlanId::from_low_bits(value.value() as u16)
}

impl Tags {
    fn check(&self) -> Result<VlanTags, String> {
        let usual = match self.inner {
            Some(inner) => VlanTags::stacked(id(self.outer), id(inner)),
            None => VlanTags::from(id(self.outer)),
        };
        let tpid = match self.tpid {
            None => usual.tpid,
            Some(0x8100) => ether_type::VLAN,
            Some(0x88a8) => ether_type::QINQ,
            Some(other) => return Err(format!("tpid: {other:#x} is neither 0x8100 nor 0x88a8")),
        };
        Ok(VlanTags { tpid, ..usual })
    }
}

struct Visitor;

impl<'de> de::Visitor<'de> for Visitor {
    type Value = VlanConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a VLAN id, 1..=4094, or {outer: .., inner: .., tpid: ..}")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<VlanConfig, E> {
        if !(1..=4_094).contains(&value) {
            return Err(E::custom(format_args!("vlan: {value} is outside 1..=4094")));
        }
        Ok(VlanConfig(VlanId::from_low_bits(value as u16).into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<VlanConfig, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(E::custom(format_args!("vlan: {value} is outside 1..=4094"))),
        }
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<VlanConfig, A::Error> {
        let tags = Tags::deserialize(MapAccessDeserializer::new(map))?;
        tags.check().map(VlanConfig).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for VlanConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

/// The long form as it is written.
#[derive(Serialize)]
struct WrittenTags {
    outer: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    inner: Option<u16>,
    tpid: u16,
}

/// A single tag is its number where nothing else has to be said.
impl Serialize for VlanConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let VlanTags { outer, inner, tpid } = self.0;
        if inner.is_none() && tpid == ether_type::VLAN {
            return serializer.serialize_u16(outer.get());
        }
        let tags = WrittenTags {
            outer: outer.get(),
            inner: inner.map(VlanId::get),
            tpid,
        };
        tags.serialize(serializer)
    }
}

impl JsonSchema for VlanConfig {
    fn schema_name() -> Cow<'static, str> {
        "VlanConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let id = generator.subschema_for::<Bounded<1, 4_094>>();
        let tags = generator.subschema_for::<Tags>();
        json_schema!({ "anyOf": [id, tags] })
    }
}
