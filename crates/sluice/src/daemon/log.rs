//! The log on standard error, and how much of it there is, which can be changed while the daemon runs.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use crate::api::LogStatus;
use crate::config::LogLevel;

/// Sets how much is logged.
#[derive(Clone)]
pub struct LogControl(reload::Handle<LevelFilter, Registry>);

impl LogControl {
    /// Begins to log on standard error, at level `info`, in colours if that is a terminal that wants them (`NO_COLOR`).
    #[must_use]
    pub fn start() -> Self {
        let (filter, handle) = reload::Layer::new(LevelFilter::INFO);
        let wants_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let lines = fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal() && wants_colours)
            .with_target(false);
        tracing_subscriber::registry().with(filter).with(lines).init();
        Self(handle)
    }

    /// Logs at this level from now on.
    pub fn set(&self, level: LogLevel) {
        // The subscriber lives as long as the process.
        let _ = self.0.reload(LevelFilter::from(level));
    }

    /// How much is logged.
    #[must_use]
    pub fn status(&self) -> LogStatus {
        let level = self.0.clone_current().unwrap_or(LevelFilter::OFF);
        LogStatus {
            level: level.to_string(),
        }
    }
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::OFF,
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}
