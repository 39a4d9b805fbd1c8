//! What can go wrong, by whose fault it is. Packets have no errors: these are all of set-up and control.

use std::ffi::CStr;
use std::fmt;

/// An errno value as DPDK gives it: positive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// From a return value (`-errno`, or any other sign).
    pub(crate) fn from_return(code: i32) -> Errno {
        Errno(code.saturating_abs())
    }

    /// The calling thread's `rte_errno`.
    pub(crate) fn last() -> Errno {
        // SAFETY: reads a thread-local integer; no precondition.
        Errno(unsafe { dpdk_sys::shim_errno() }.saturating_abs())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: rte_strerror takes any number and returns a NUL-terminated text, static or in a buffer of
        // this thread that stays until its next call; the text is used up before that.
        let text = unsafe { CStr::from_ptr(dpdk_sys::rte_strerror(self.0)) };
        write!(f, "{} (errno {})", text.to_string_lossy(), self.0)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a set-up or control call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// [`EalBuilder::init`](crate::EalBuilder::init) was called before in this process, well or not.
    AlreadyInitialized,
    /// The caller's value is outside its bound.
    Config {
        /// The setting, in the caller's words: `rx_queues`.
        field: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        bound: String,
    },
    /// DPDK refused a resource (memory, an lcore id, a ring).
    Resource {
        /// What was asked for.
        what: String,
        /// DPDK's reason.
        errno: Errno,
        /// What DPDK logged meanwhile; may be empty.
        log: String,
    },
    /// A port's driver refused.
    Driver {
        /// The port, by interface, file or address.
        port: String,
        /// The operation: `open`, `configure`, `start`.
        step: &'static str,
        /// The driver's reason.
        errno: Errno,
        /// What the driver logged meanwhile; may be empty.
        log: String,
    },
}

impl Error {
    pub(crate) fn config(field: &'static str, value: impl fmt::Display, bound: impl Into<String>) -> Error {
        Error::Config {
            field,
            value: value.to_string(),
            bound: bound.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::AlreadyInitialized => f.write_str("DPDK was initialised before in this process"),
            Error::Config { field, value, bound } => write!(f, "{field}: {value} is not allowed: {bound}"),
            Error::Resource { what, errno, log } => write!(f, "{what}: {}", Reason(*errno, log)),
            Error::Driver {
                port,
                step,
                errno,
                log,
            } => {
                write!(f, "port {port}: cannot {step}: {}", Reason(*errno, log))
            }
        }
    }
}

/// An errno with what was logged. Drivers return -1 for anything: then only their log says why.
struct Reason<'a>(Errno, &'a str);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason(errno, "") => write!(f, "{errno}"),
            Reason(Errno(1), log) => f.write_str(log),
            Reason(errno, log) => write!(f, "{errno}: {log}"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(errno: i32, log: &str) -> String {
        Error::Driver {
            port: "p".into(),
            step: "open",
            errno: Errno(errno),
            log: log.into(),
        }
        .to_string()
    }

    #[test]
    fn the_drivers_words_come_with_what_is_known() {
        assert_eq!(
            refused(22, ""),
            "port p: cannot open: Invalid argument (errno 22)"
        );
        assert_eq!(
            refused(22, "no ring"),
            "port p: cannot open: Invalid argument (errno 22): no ring"
        );
        assert_eq!(refused(1, "no ring"), "port p: cannot open: no ring");
    }
}
