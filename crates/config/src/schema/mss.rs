//! The maximum segment size of TCP connections that pass an instance: `off`, `auto`, or octets.

use std::borrow::Cow;
use std::fmt;

use rules::network::Mss;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The MSS that SYNs may announce.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MssConfig(Mss);

/// What can be asked for: what every host takes, and what fits the longest packets of any port.
const LEAST: u64 = Mss::LEAST as u64;
const MOST: u64 = 9_216 - 40;

impl MssConfig {
    /// The same for the network.
    pub(crate) const fn mss(self) -> Mss {
        self.0
    }
}

struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = MssConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "off, auto, or {LEAST}..={MOST} octets")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<MssConfig, E> {
        match word {
            "off" => Ok(MssConfig(Mss::Off)),
            "auto" => Ok(MssConfig(Mss::Auto)),
            _ => Err(E::custom(format_args!(
                "mss: `{word}` is neither off, nor auto, nor {LEAST}..={MOST} octets"
            ))),
        }
    }

    /// In older YAML `off` is a truth value.
    fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<MssConfig, E> {
        match is_on {
            false => Ok(MssConfig(Mss::Off)),
            true => self.visit_str("on"),
        }
    }

    fn visit_u64<E: de::Error>(self, octets: u64) -> Result<MssConfig, E> {
        match u16::try_from(octets) {
            Ok(most) if (LEAST..=MOST).contains(&octets) => Ok(MssConfig(Mss::AtMost(most))),
            _ => Err(E::custom(format_args!(
                "mss: {octets} is outside {LEAST}..={MOST}"
            ))),
        }
    }

    fn visit_i64<E: de::Error>(self, octets: i64) -> Result<MssConfig, E> {
        match u64::try_from(octets) {
            Ok(octets) => self.visit_u64(octets),
            Err(_) => Err(E::custom(format_args!(
                "mss: {octets} is outside {LEAST}..={MOST}"
            ))),
        }
    }
}

impl<'de> Deserialize<'de> for MssConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for MssConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Mss::Off => serializer.serialize_str("off"),
            Mss::Auto => serializer.serialize_str("auto"),
            Mss::AtMost(octets) => serializer.serialize_u16(octets),
        }
    }
}

impl JsonSchema for MssConfig {
    fn schema_name() -> Cow<'static, str> {
        "MssConfig".into()
    }

    /// In older YAML `off` is a truth value.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "enum": ["off", "auto", false] },
            { "type": "integer", "minimum": LEAST, "maximum": MOST },
        ] })
    }
}
