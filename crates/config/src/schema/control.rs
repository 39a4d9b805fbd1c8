//! The API: where it is served, who may ask what of it, and what is kept of that.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_saphyr::Spanned;

use super::CallerRole;
use crate::bounded::{self, Bounded};

/// How the running daemon is asked.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ControlConfig {
    /// Path of the Unix socket that `sluice show` asks; `/run/sluice/control.sock` for root, `sluice/control.sock` in
    /// the user's runtime directory otherwise.
    #[serde(default)]
    pub socket: Option<PathBuf>,
    /// Name of the group whose members may use it (mode 0660); absent: the daemon's own user alone (0600).
    #[serde(default)]
    pub group: Option<String>,
    /// What members of the group may do; the daemon's own user and root may do everything; admin.
    #[serde(default = "ControlConfig::default_group_role")]
    pub group_role: CallerRole,
    /// The directory of the versions that this file had (`sluice config versions`), made with the first commit; absent:
    /// beside the file, with its name and `.versions`.
    #[serde(default)]
    pub versions: Option<PathBuf>,
    /// The file with the hashes of tokens, an absolute path; `/var/lib/sluice/tokens` for root, `sluice/tokens` in the
    /// user's state directory otherwise.
    #[serde(default)]
    #[schemars(with = "Option<PathBuf>")]
    pub token_file: Option<Spanned<PathBuf>>,
    /// The API for other hosts, over TLS 1.3; absent: there is none.
    #[serde(default)]
    pub https: Option<HttpsConfig>,
    /// The audit log; absent: there is none.
    #[serde(default)]
    pub audit: Option<AuditConfig>,
}

impl ControlConfig {
    const fn default_group_role() -> CallerRole {
        CallerRole::Admin
    }
}

impl Default for ControlConfig {
    fn default() -> Self {
        Self {
            socket: None,
            group: None,
            group_role: Self::default_group_role(),
            versions: None,
            token_file: None,
            https: None,
            audit: None,
        }
    }
}

/// The API for other hosts, over TLS 1.3.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HttpsConfig {
    /// Where it is served: addresses of this host with ports.
    #[serde(deserialize_with = "bounded::at_least_one")]
    #[schemars(with = "Vec<String>", length(min = 1))]
    pub addresses: Vec<SocketAddr>,
    /// The certificate chain, PEM, the server's own first; an absolute path. It is read again when it changes.
    #[schemars(with = "PathBuf")]
    pub certificate: Spanned<PathBuf>,
    /// Its private key, PEM: a file that neither others nor the group may write, nor others read; an absolute path.
    #[schemars(with = "PathBuf")]
    pub key: Spanned<PathBuf>,
    /// Certificates of the authorities that sign clients' certificates, PEM; an absolute path. Absent: clients have
    /// tokens alone.
    #[serde(default)]
    #[schemars(with = "Option<PathBuf>")]
    pub client_ca: Option<Spanned<PathBuf>>,
    /// Certificates that these authorities have revoked: CRLs (RFC 5280), PEM, one of each authority above a client's
    /// certificate; an absolute path. It is read again when it changes. Absent: none is revoked.
    #[serde(default)]
    #[schemars(with = "Option<PathBuf>")]
    pub client_crl: Option<Spanned<PathBuf>>,
    /// What holders of certificates of these authorities may do, by a name in the certificate. The first that fits
    /// counts.
    #[serde(default)]
    pub clients: Vec<HttpsClient>,
    /// Connections at a time; 256.
    #[serde(default = "HttpsConfig::default_connections")]
    pub connections: Bounded<8, 16_384>,
    /// Connections at a time of one address, or of one IPv6 prefix of 64 bits; 32.
    #[serde(default = "HttpsConfig::default_connections_per_address")]
    pub connections_per_address: Bounded<1, 16_384>,
    /// Requests a second of one address, or of one IPv6 prefix of 64 bits, with a burst of twice as many; 100. New
    /// connections are a fifth of that.
    #[serde(default = "HttpsConfig::default_requests")]
    pub requests_per_address_s: Bounded<1, 100_000>,
}

impl HttpsConfig {
    const fn default_connections() -> Bounded<8, 16_384> {
        Bounded::new(256)
    }
    const fn default_connections_per_address() -> Bounded<1, 16_384> {
        Bounded::new(32)
    }
    const fn default_requests() -> Bounded<1, 100_000> {
        Bounded::new(100)
    }
}

/// What a holder of a certificate may do.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HttpsClient {
    /// A name in the certificate (RFC 5280 §4.2.1.6): `dns:`, `uri:`, `ip:` or `email:` and the name, all of it.
    pub san: SubjectName,
    /// What its holder may do.
    pub role: CallerRole,
}

/// A name in a certificate (Subject Alternative Name, RFC 5280 §4.2.1.6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SubjectName {
    /// A host, in lower case.
    Dns(String),
    /// A URI as it is written.
    Uri(String),
    /// An address.
    Ip(IpAddr),
    /// A mail address as it is written.
    Email(String),
}

/// A text that is no name in a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSubjectName;

impl fmt::Display for BadSubjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be dns:, uri:, ip: or email: and a name, without wildcards")
    }
}

impl std::error::Error for BadSubjectName {}

impl FromStr for SubjectName {
    type Err = BadSubjectName;

    fn from_str(text: &str) -> Result<Self, BadSubjectName> {
        let (kind, name) = text.split_once(':').ok_or(BadSubjectName)?;
        let is_visible = name
            .bytes()
            .all(|octet| octet.is_ascii_graphic() && octet != b'*');
        if name.is_empty() || !is_visible {
            return Err(BadSubjectName);
        }
        match kind {
            "dns" => Ok(Self::Dns(name.to_ascii_lowercase())),
            "uri" => Ok(Self::Uri(name.to_owned())),
            "ip" => name.parse().map(Self::Ip).map_err(|_| BadSubjectName),
            "email" => Ok(Self::Email(name.to_owned())),
            _ => Err(BadSubjectName),
        }
    }
}

impl fmt::Display for SubjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => write!(f, "dns:{name}"),
            Self::Uri(name) => write!(f, "uri:{name}"),
            Self::Ip(address) => write!(f, "ip:{address}"),
            Self::Email(name) => write!(f, "email:{name}"),
        }
    }
}

impl<'de> Deserialize<'de> for SubjectName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|error| de::Error::custom(format!("`{text}`: {error}")))
    }
}

impl Serialize for SubjectName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for SubjectName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SubjectName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^(dns|uri|ip|email):[!-)+-~]+$"})
    }
}

/// The audit log: who has changed what, and who has read what is private.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AuditConfig {
    /// The directory of its files, an absolute path; it is made if it is not there. One daemon at a time has it.
    #[schemars(with = "PathBuf")]
    pub directory: Spanned<PathBuf>,
    /// Mebioctets of a file, after which another begins; 16.
    #[serde(default = "AuditConfig::default_file_size")]
    pub file_mib: Bounded<1, 1_024>,
    /// What becomes of requests of which no line can be written.
    #[serde(default)]
    pub when_full: WhenUnaudited,
}

impl AuditConfig {
    const fn default_file_size() -> Bounded<1, 1_024> {
        Bounded::new(16)
    }
}

/// What becomes of requests of which no line can be written, because the disk is full or fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenUnaudited {
    /// They are served; the log counts them when it can be written again, and the daemon logs an error.
    #[default]
    GoOn,
    /// They are refused.
    Refuse,
}
