//! Alarms: what raises one beside faults, and where they are sent.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_saphyr::Spanned;

use super::SliceConfig;
use crate::bounded::Bounded;

/// Alarms: what raises one beside faults, and where they are sent.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AlarmsConfig {
    /// Counts that raise an alarm.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub watermarks: Vec<WatermarkConfig>,
    /// Where events of alarms are posted, as JSON.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub webhooks: Vec<WebhookConfig>,
    /// Where they are sent as messages of syslog (RFC 5424, RFC 5674).
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub syslog: Vec<SyslogConfig>,
}

/// A count or rate that raises an alarm (`watermark`).
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WatermarkConfig {
    /// What is counted.
    pub of: WatermarkCounter,
    /// The count that raises it, kbit/s of throughput, packets/s of a packet rate; below 95% of it the alarm is over.
    #[schemars(with = "Bounded<1, 1_000_000_000_000>")]
    pub at: Spanned<Bounded<1, 1_000_000_000_000>>,
    /// Of sessions and rates: those of this slice alone.
    #[serde(default)]
    pub slice: Option<SliceConfig>,
    /// Of sessions and rates: those of this DNN or APN alone.
    #[serde(default)]
    pub dnn: Option<String>,
    /// Of rates: packets of this direction alone; absent: of both together.
    #[serde(default)]
    pub direction: Option<WatermarkDirection>,
}

/// Which packets a rate is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WatermarkDirection {
    /// Those to data networks.
    Uplink,
    /// Those to UEs.
    Downlink,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WatermarkCounter {
    /// Sessions.
    Sessions,
    /// Flow entries of all workers.
    Flows,
    /// Octets of user packets that leave, as kbit/s in the last 10 seconds.
    Throughput,
    /// These packets, a second in the last 10 seconds.
    PacketRate,
}

impl WatermarkCounter {
    /// Whether it is a rate.
    #[must_use]
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::Throughput | Self::PacketRate)
    }
}

/// The least severity that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeastSeverity {
    /// Critical alone.
    Critical,
    /// Major and critical.
    Major,
    /// All but warnings.
    Minor,
    /// All.
    #[default]
    Warning,
}

/// A receiver of events.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    /// `https://HOST[:PORT]/PATH`; `http://` only to 127.0.0.1 and \[::1\].
    #[schemars(with = "WebhookUrl")]
    pub url: Spanned<WebhookUrl>,
    /// The authorities that may have signed its certificate, PEM, an absolute path; absent: those of the system
    /// (`/etc/ssl/certs/ca-certificates.crt`).
    #[serde(default)]
    #[schemars(with = "Option<PathBuf>")]
    pub ca: Option<Spanned<PathBuf>>,
    /// A file with a token for `Authorization: Bearer`, an absolute path. It is read again for each request.
    #[serde(default)]
    #[schemars(with = "Option<PathBuf>")]
    pub token_file: Option<Spanned<PathBuf>>,
    /// The least severity that is sent; warning.
    #[serde(default)]
    pub least: LeastSeverity,
}

/// A collector of syslog.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SyslogConfig {
    /// `udp://HOST:PORT` (RFC 5426), `tcp://HOST:PORT` (RFC 6587) or `tls://HOST:PORT` (RFC 5425).
    #[schemars(with = "SyslogTarget")]
    pub to: Spanned<SyslogTarget>,
    /// As of a webhook, for `tls`.
    #[serde(default)]
    #[schemars(with = "Option<PathBuf>")]
    pub ca: Option<Spanned<PathBuf>>,
    /// The number of the facility (RFC 5424 §6.2.1); 16, which is local0.
    #[serde(default = "SyslogConfig::default_facility")]
    pub facility: Bounded<0, 23>,
    /// The least severity that is sent; warning.
    #[serde(default)]
    pub least: LeastSeverity,
}

impl SyslogConfig {
    const fn default_facility() -> Bounded<0, 23> {
        Bounded::new(16)
    }
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// A name, or an address; an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl HostPort {
    fn read(text: &str, usual_port: Option<u16>) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                host.parse::<std::net::Ipv6Addr>().ok()?;
                (host, port)
            }
            None => {
                let end = text.find(':').unwrap_or(text.len());
                text.split_at(end)
            }
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => digits.parse().ok().filter(|port| *port > 0)?,
            None if port.is_empty() => usual_port?,
            None => return None,
        };
        let is_good = |octet: u8| octet.is_ascii_alphanumeric() || b".-:".contains(&octet);
        let is_host = !host.is_empty() && host.len() <= 253 && host.bytes().all(is_good);
        is_host.then(|| Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

/// Where a webhook is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookUrl {
    /// Over TLS.
    pub is_tls: bool,
    /// Where it listens.
    pub at: HostPort,
    /// The path with its query.
    pub path: String,
}

/// Text that is no URL of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadWebhookUrl;

impl fmt::Display for BadWebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "must be https://HOST[:PORT]/PATH, or http:// to 127.0.0.1 or [::1], without user and fragment",
        )
    }
}

impl FromStr for WebhookUrl {
    type Err = BadWebhookUrl;

    fn from_str(text: &str) -> Result<Self, BadWebhookUrl> {
        let (is_tls, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err(BadWebhookUrl),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let at = HostPort::read(authority, Some(if is_tls { 443 } else { 80 })).ok_or(BadWebhookUrl)?;
        // Alarms name SMFs and ports: they leave this host encrypted.
        if !is_tls && !["127.0.0.1", "::1"].contains(&at.host.as_str()) {
            return Err(BadWebhookUrl);
        }
        let is_visible = |octet: u8| octet.is_ascii_graphic() && octet != b'#';
        if !path.bytes().all(is_visible) || path.len() > 2_048 {
            return Err(BadWebhookUrl);
        }
        Ok(Self {
            is_tls,
            at,
            path: if path.is_empty() {
                "/".to_owned()
            } else {
                path.to_owned()
            },
        })
    }
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.at, self.path)
    }
}

/// How messages of syslog travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyslogTransport {
    /// A datagram each (RFC 5426).
    Udp,
    /// With their lengths ahead (RFC 6587 §3.4.1).
    Tcp,
    /// The same over TLS (RFC 5425).
    Tls,
}

/// Where a collector of syslog is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyslogTarget {
    /// How messages travel.
    pub transport: SyslogTransport,
    /// Where it listens.
    pub at: HostPort,
}

/// Text that is no collector of syslog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadSyslogTarget;

impl fmt::Display for BadSyslogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT; the usual ports are 514, 601 and 6514")
    }
}

impl FromStr for SyslogTarget {
    type Err = BadSyslogTarget;

    fn from_str(text: &str) -> Result<Self, BadSyslogTarget> {
        let (transport, usual_port, rest) = match text.split_once("://") {
            Some(("udp", rest)) => (SyslogTransport::Udp, 514, rest),
            Some(("tcp", rest)) => (SyslogTransport::Tcp, 601, rest),
            Some(("tls", rest)) => (SyslogTransport::Tls, 6514, rest),
            _ => return Err(BadSyslogTarget),
        };
        let at = HostPort::read(rest, Some(usual_port)).ok_or(BadSyslogTarget)?;
        Ok(Self { transport, at })
    }
}

impl fmt::Display for SyslogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.transport {
            SyslogTransport::Udp => "udp",
            SyslogTransport::Tcp => "tcp",
            SyslogTransport::Tls => "tls",
        };
        write!(f, "{scheme}://{}", self.at)
    }
}

/// Has a type read from text, with `$pattern` in the schema.
macro_rules! text_form {
    ($name:ident, $pattern:literal) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse()
                    .map_err(|error| de::Error::custom(format!("`{text}`: {error}")))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": $pattern})
            }
        }
    };
}

text_form!(WebhookUrl, "^https?://[!-\"$-~]+$");
text_form!(SyslogTarget, "^(udp|tcp|tls)://[!-~]+$");
