//! All that a scrape shows.

use crate::values::{ContentRow, NatPoolRow, RecordsStatus, ShaperStatus, StoreStatus};

use super::control::ControlSnapshot;
use super::worker::WorkerSnapshot;

/// What a scrape shows.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// Of the workers.
    pub workers: WorkerSnapshot,
    /// Of control.
    pub control: ControlSnapshot,
    /// Of usage records, where there are any.
    pub records: Option<RecordsStatus>,
    /// Of the store of sessions, where there is one.
    pub store: Option<StoreStatus>,
    /// Of the contents of predefined rules.
    pub contents: Vec<ContentRow>,
    /// Of pools of public addresses.
    pub nat_pools: Vec<NatPoolRow>,
    /// Of the rates that queues before ports have together.
    pub shapers: Vec<ShaperStatus>,
    /// The share of time that the busiest worker worked of late, 0 to 1.
    pub busiest_worker: f64,
}

impl Scrape {
    /// How loaded the UPF is, 0 to 1: the largest of the busiest worker, control, and sessions over their limit.
    #[must_use]
    pub fn load(&self) -> f64 {
        let control = &self.control;
        let sessions = control.n4.sessions as f64 / (control.sessions_limit as f64).max(1.0);
        self.busiest_worker
            .max(control.load.ratio)
            .max(sessions)
            .clamp(0.0, 1.0)
    }
}
