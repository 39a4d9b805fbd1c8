//! DPDK's log. All of its lines come here, on the thread that logs: a call that may fail collects the lines of
//! its own thread as the reason; the rest go to the sink of [`EalBuilder::log`](crate::EalBuilder::log).
//!
//! Nothing here is on a packet's way: drivers do not log per packet.

use std::cell::RefCell;
use std::ffi::c_char;
use std::sync::OnceLock;

/// Octets kept of what DPDK says during one call; the rest is dropped.
const CAPTURE_MAX: usize = 4096;

/// The weight of a log line, as DPDK numbers them: the lower, the graver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum LogLevel {
    /// The system is unusable.
    Emergency = 1,
    /// Action must be taken at once.
    Alert = 2,
    /// Critical conditions.
    Critical = 3,
    /// Errors.
    Error = 4,
    /// Warnings.
    Warning = 5,
    /// Normal but significant.
    Notice = 6,
    /// Informational.
    Info = 7,
    /// For debugging.
    Debug = 8,
}

impl LogLevel {
    fn from_dpdk(level: u32) -> LogLevel {
        use LogLevel::*;
        match level {
            0 | 1 => Emergency,
            2 => Alert,
            3 => Critical,
            4 => Error,
            5 => Warning,
            6 => Notice,
            7 => Info,
            _ => Debug,
        }
    }
}

/// Takes one piece of log text, usually a line with its newline, on the thread that logged it.
pub type LogSink = fn(LogLevel, &str);

static SINK: OnceLock<LogSink> = OnceLock::new();

thread_local! {
    /// What this thread's running [`captured`] has collected.
    static CAPTURE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Prints warnings and what is graver to standard error: the sink when none is set.
pub(crate) fn to_stderr(level: LogLevel, text: &str) {
    if level <= LogLevel::Warning {
        eprint!("{text}");
    }
}

/// Directs DPDK's log here. Called once, before EAL starts.
pub(crate) fn install(sink: LogSink) {
    // A second sink is not possible: EAL starts once in a process.
    let _ = SINK.set(sink);
    // SAFETY: `on_text` is a function of the type asked for, lives for ever and does not unwind. A failure
    // leaves DPDK's own stream in place.
    unsafe { dpdk_sys::shim_log_to(Some(on_text)) };
}

/// Runs `call` and returns what it returns, with what DPDK logged on this thread meanwhile, as one line.
pub(crate) fn captured<T>(call: impl FnOnce() -> T) -> (T, String) {
    let outer = CAPTURE.with(|capture| capture.replace(Some(String::new())));
    let result = call();
    let text = CAPTURE.with(|capture| capture.replace(outer)).unwrap_or_default();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    (result, lines.join("; "))
}

extern "C" fn on_text(level: u32, text: *const c_char, len: usize) {
    // SAFETY: the shim passes the `len` readable octets that stdio handed it, which stay for this call.
    let octets = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    let text = String::from_utf8_lossy(octets);
    let level = LogLevel::from_dpdk(level);
    // A panic must not cross into C: neither borrow can be held by an outer frame of this crate, and a thread whose
    // locals are gone goes straight to the sink.
    let kept = CAPTURE
        .try_with(|capture| keep(&mut capture.borrow_mut(), level, &text))
        .unwrap_or(false);
    if !kept {
        SINK.get().copied().unwrap_or(to_stderr)(level, &text);
    }
}

/// Adds `text` to a running capture; false when there is none.
fn keep(capture: &mut Option<String>, level: LogLevel, text: &str) -> bool {
    let Some(kept) = capture else { return false };
    if level <= LogLevel::Notice && kept.len() + text.len() <= CAPTURE_MAX {
        kept.push_str(text);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_keeps_notices_and_drops_chatter() {
        let mut capture = Some(String::new());
        assert!(keep(&mut capture, LogLevel::Error, "a\n"));
        assert!(keep(&mut capture, LogLevel::Info, "b\n"));
        assert_eq!(capture.as_deref(), Some("a\n"));
        assert!(!keep(&mut None, LogLevel::Error, "a"));
    }

    #[test]
    fn a_capture_is_bounded() {
        let mut capture = Some("x".repeat(CAPTURE_MAX));
        assert!(keep(&mut capture, LogLevel::Error, "y"));
        assert_eq!(capture.unwrap().len(), CAPTURE_MAX);
    }
}
