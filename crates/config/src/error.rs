//! What is said about a configuration that cannot be used.

use std::fmt;
use std::path::Path;

use serde_saphyr::{Location, Spanned};

/// A configuration that cannot be used; its text names file, line, field, value and bound.
#[derive(Debug)]
pub struct ConfigError {
    text: String,
}

impl ConfigError {
    pub(super) fn unreadable(path: &Path, error: &dyn fmt::Display) -> Self {
        Self {
            text: format!("{}: cannot be read: {error}", path.display()),
        }
    }

    pub(super) fn syntax(file: &str, error: &serde_saphyr::Error) -> Self {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        Self {
            text: format!("{file}: {}", text.replace("<input>", file).trim_end()),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ConfigError {}

/// A fault found by a check over several fields, before it is tied to a file.
#[derive(Debug)]
pub(super) struct Fault {
    location: Location,
    message: String,
}

impl Fault {
    /// A fault of the value `at`.
    pub(super) fn new<T>(at: &Spanned<T>, message: impl Into<String>) -> Self {
        Self {
            location: at.referenced,
            message: message.into(),
        }
    }

    /// A fault of the port with this name.
    pub(super) fn of_port(name: &Spanned<String>, message: &str) -> Self {
        Self::new(name, format!("port `{}`: {message}", name.value))
    }

    /// The error as a person reads it: where, what, and the line itself.
    pub(super) fn at(self, file: &str, text: &str) -> ConfigError {
        let (line, column) = (self.location.line() as usize, self.location.column() as usize);
        let source = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        let pointer = format!("{:>width$}", '^', width = column.max(1));
        ConfigError {
            text: format!(
                "{file}: line {line} column {column}: {message}\n  |\n{line:>2}| {source}\n  | {pointer} {message}",
                message = self.message
            ),
        }
    }
}
