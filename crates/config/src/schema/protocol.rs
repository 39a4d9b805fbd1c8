//! Protocols that rules and applications name.

use std::borrow::Cow;
use std::fmt;

use dpi::Protocol;
use ndpi::Library;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// What is before the name of a protocol of nDPI.
const OF_NDPI: &str = "ndpi.";
/// Octets of such a name at most.
const LONGEST: usize = 64;

/// A protocol that is recognised in the first packets of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtocolConfig {
    /// One that Sluice recognises by itself.
    Own(Protocol),
    /// One that nDPI has this name for.
    Ndpi(String),
}

impl ProtocolConfig {
    fn parse(text: &str) -> Option<Self> {
        let of_ndpi = |name: &str| {
            let is_name =
                (1..=LONGEST).contains(&name.len()) && name.bytes().all(|octet| octet.is_ascii_graphic());
            is_name.then(|| Self::Ndpi(name.to_owned()))
        };
        match text.strip_prefix(OF_NDPI) {
            Some(name) => of_ndpi(name),
            None => Protocol::named(text).map(Self::Own),
        }
    }

    /// The protocol, with the library that `inspection.ndpi` names.
    pub(crate) fn protocol(&self, library: Option<&Library>) -> Result<Protocol, String> {
        let name = match self {
            Self::Own(protocol) => return Ok(*protocol),
            Self::Ndpi(name) => name,
        };
        if let Some(own) = Protocol::named(&name.to_ascii_lowercase()) {
            return Err(format!("`{self}`: Sluice recognises it by itself, as `{own}`"));
        }
        let Some(library) = library else {
            return Err(format!(
                "`{self}`: nothing looks for it without `inspection.ndpi`"
            ));
        };
        match library.protocol(name) {
            Some(id) => Ok(Protocol::Ndpi(id.into())),
            None => Err(format!(
                "`{self}`: nDPI {} has no protocol of this name",
                library.revision()
            )),
        }
    }
}

impl fmt::Display for ProtocolConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(protocol) => protocol.fmt(f),
            Self::Ndpi(name) => write!(f, "{OF_NDPI}{name}"),
        }
    }
}

impl<'de> Deserialize<'de> for ProtocolConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let names = || Protocol::ALL.map(|one| format!("{one}, ")).concat();
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(format_args!(
                "`{}` is none of {}nor `{OF_NDPI}` and a name of 1 to {LONGEST} characters",
                text.escape_debug(),
                names()
            ))
        })
    }
}

impl Serialize for ProtocolConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for ProtocolConfig {
    fn schema_name() -> Cow<'static, str> {
        "ProtocolConfig".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let own = Protocol::ALL.map(
            |one| json_schema!({ "description": words(one), "type": "string", "const": one.to_string() }),
        );
        let pattern = format!("^ndpi\\.[!-~]{{1,{LONGEST}}}$");
        let of_ndpi = json_schema!({
            "description": "One that nDPI knows, by its name, whatever the case: `ndpi.BitTorrent`. `inspection.ndpi` has to be there.",
            "type": "string",
            "pattern": pattern
        });
        let all: Vec<Schema> = own.into_iter().chain([of_ndpi]).collect();
        json_schema!({ "description": "A protocol that is recognised in the first packets of a flow.", "oneOf": all })
    }
}

/// What one is, for the schema.
fn words(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tls => "TLS over TCP.",
        Protocol::Quic => "QUIC, version 1 or 2.",
        Protocol::Http1 => "HTTP/1 in clear.",
        Protocol::Stun => "STUN, and what comes with it in one flow: TURN, WebRTC.",
        Protocol::Rtp => "RTP.",
        Protocol::WireGuard => "WireGuard.",
        Protocol::Dns => "Queries of DNS over UDP; `hosts` beside it are the names that are asked for.",
        Protocol::Ndpi(_) => "One that nDPI knows.",
    }
}
