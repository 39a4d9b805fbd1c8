//! The log on standard error.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The log.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// How much is logged, until `sluice log` says otherwise; info.
    #[serde(default)]
    pub level: LogLevel,
    /// The form of its lines; text.
    #[serde(default)]
    pub format: LogFormat,
}

/// The form of the log's lines: one for each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people: time, level, message, fields.
    #[default]
    Text,
    /// For programs: a JSON object with timestamp, level, and fields, of which one is the message.
    Json,
}

/// How much is logged: what is of this level, and of those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What ends the daemon, or is lost.
    Error,
    /// What an operator may have to do something about.
    Warn,
    /// What begins and ends: the daemon, links, associations.
    #[default]
    Info,
    /// What helps to find a fault.
    Debug,
    /// All there is.
    Trace,
}

impl LogLevel {
    const ALL: [(&'static str, Self); 6] = [
        ("off", Self::Off),
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

/// A text that is no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLevel;

impl fmt::Display for BadLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be one of off, error, warn, info, debug, trace")
    }
}

impl std::error::Error for BadLevel {}

impl FromStr for LogLevel {
    type Err = BadLevel;

    fn from_str(text: &str) -> Result<Self, BadLevel> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, level)| level).ok_or(BadLevel)
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.into_iter().find(|(_, level)| level == self);
        f.write_str(found.map_or("info", |(name, _)| name))
    }
}
