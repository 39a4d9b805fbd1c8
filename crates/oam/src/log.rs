//! The log on standard error: how much of it there is, which can be changed while the daemon runs, and its form.

use std::fmt;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

use crate::values::LogStatus;
use config::{LogFormat, LogLevel};

/// Sets how much is logged, and in which form.
#[derive(Clone)]
pub struct LogControl {
    level: reload::Handle<LevelFilter, Registry>,
    is_json: Arc<AtomicBool>,
}

impl LogControl {
    /// Begins to log on standard error, at level `info` and as text, in colours if that is a terminal that wants them
    /// (`NO_COLOR`). Lines for the journal have their priority before them, and text there has no time of its own.
    #[must_use]
    pub fn start() -> Self {
        let (filter, level) = reload::Layer::new(LevelFilter::INFO);
        let wants_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let is_json = Arc::new(AtomicBool::new(false));
        let lines = layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal() && wants_colours)
            .event_format(Lines::new(Arc::clone(&is_json), is_journal()));
        tracing_subscriber::registry().with(filter).with(lines).init();
        Self { level, is_json }
    }

    /// Logs at this level from now on.
    pub fn set(&self, level: LogLevel) {
        // The subscriber lives as long as the process.
        let _ = self.level.reload(filter(level));
    }

    /// Logs in this form from now on.
    pub fn set_format(&self, format: LogFormat) {
        self.is_json.store(format == LogFormat::Json, Ordering::Relaxed);
    }

    /// How much is logged.
    #[must_use]
    pub fn status(&self) -> LogStatus {
        let level = self.level.clone_current().unwrap_or(LevelFilter::OFF);
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

/// Whether standard error is the journal's: the service manager says so with the device and inode of its stream.
fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").ok();
    let error = std::fs::metadata("/proc/self/fd/2").ok();
    stream.zip(error).is_some_and(|(stream, error)| {
        let (device, inode) = stream.split_once(':').unwrap_or_default();
        device.parse() == Ok(error.dev()) && inode.parse() == Ok(error.ino())
    })
}

/// Priority of a line in the journal (syslog's numbers).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// One line for each event, as text or as JSON.
struct Lines {
    is_json: Arc<AtomicBool>,
    is_journal: bool,
    text: Format<Full>,
    /// Text without a time: the journal has one.
    journal_text: Format<Full, ()>,
    json: Format<Json>,
}

impl Lines {
    fn new(is_json: Arc<AtomicBool>, is_journal: bool) -> Self {
        let plain = || Format::default().with_target(false);
        Self {
            is_json,
            is_journal,
            text: plain(),
            journal_text: plain().without_time(),
            json: plain().json().with_current_span(false).with_span_list(false),
        }
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.is_journal {
            write!(writer, "<{}>", priority(*event.metadata().level()))?;
        }
        match (self.is_json.load(Ordering::Relaxed), self.is_journal) {
            (true, _) => self.json.format_event(context, writer, event),
            (false, true) => self.journal_text.format_event(context, writer, event),
            (false, false) => self.text.format_event(context, writer, event),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Mutex;

    use serde_json::Value;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(octets);
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Written {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// What is written of two events.
    fn said(is_json: bool, is_journal: bool) -> String {
        let written = Written::default();
        let lines = layer()
            .with_writer(written.clone())
            .with_ansi(false)
            .event_format(Lines::new(Arc::new(AtomicBool::new(is_json)), is_journal));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::info!(port = "ran1", members = 2, "LAG member up");
            tracing::warn!(why = "first line\nsecond line", "link down");
        });
        let octets = written.0.lock().unwrap().clone();
        String::from_utf8(octets).unwrap()
    }

    #[test]
    fn an_event_is_a_line_of_json_with_its_fields() {
        for is_journal in [false, true] {
            let said = said(true, is_journal);
            let lines: Vec<_> = said.lines().collect();
            assert_eq!(lines.len(), 2, "{said}");
            let after = |prefix: &str, line: &str| {
                let rest = if is_journal {
                    line.strip_prefix(prefix)
                } else {
                    Some(line)
                };
                serde_json::from_str::<Value>(rest.unwrap()).unwrap()
            };
            let (first, second) = (after("<6>", lines[0]), after("<4>", lines[1]));
            assert!(first["timestamp"].is_string());
            assert_eq!(first["level"], "INFO");
            let fields = serde_json::json!({"message": "LAG member up", "port": "ran1", "members": 2});
            assert_eq!(first["fields"], fields);
            assert_eq!(second["fields"]["why"], "first line\nsecond line");
        }
    }

    #[test]
    fn the_journal_gets_priorities_and_no_second_time() {
        let lines = said(false, true);
        assert!(
            lines.starts_with("<6> INFO LAG member up port=\"ran1\" members=2\n"),
            "{lines}"
        );
        assert!(lines.contains("\n<4> WARN link down"), "{lines}");
        let text = said(false, false);
        assert!(
            text.starts_with("20") && text.contains("Z  INFO LAG member up port=\"ran1\""),
            "{text}"
        );
    }
}
