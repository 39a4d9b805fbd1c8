//! The log on standard error, and how much of it there is, which can be changed while the daemon runs.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use crate::values::LogStatus;
use config::LogLevel;

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
        let _ = self.0.reload(filter(level));
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

const fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
