//! What all receivers have: events, and who sends them.

use std::future::Future;
use std::path::PathBuf;

use crate::alarms::list::SharedAlarms;
use crate::values::AlarmEvent;

/// What is sent, and who sends it.
#[derive(Clone)]
pub struct DeliverySources {
    /// The alarms.
    pub alarms: SharedAlarms,
    /// The Node ID of this UPF.
    pub node: String,
    /// When this process began, milliseconds since 1970.
    pub started_ms: u64,
    /// Directories that the daemon writes to.
    pub directories: Vec<PathBuf>,
}

/// Events for a receiver.
pub(super) struct Batch<'a> {
    pub(super) sources: &'a DeliverySources,
    pub(super) events: Vec<AlarmEvent>,
    /// Events before them that are not kept any more.
    pub(super) lost: u64,
    /// It is the first of this process.
    pub(super) is_first: bool,
}

/// Who takes events.
pub(super) trait Receiver {
    /// Its name.
    fn name(&self) -> String;

    /// Sends all of a batch.
    fn send(&mut self, batch: &Batch<'_>) -> impl Future<Output = Result<(), String>> + Send;
}
