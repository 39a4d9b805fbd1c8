//! The alarms of the daemon: what control and others know, looked at once a second, and a line of the log for each
//! change.

use std::time::Duration;

use config::Config;
use flow::Nanos;
use oam::alarms::{At, Delivery, DeliverySources, Seen, SharedAlarms, conditions};
use oam::rest::{Auditor, WorkerGauges};
use oam::values::AlarmChange;
use runtime::{Clock, WorkerThread};
use session::Moment;
use tracing::{info, warn};
use upf::Control;

use super::records::RecordsView;
use super::session_store::StoreView;
use super::writers::WriterViews;

/// How often it is looked at what is wrong.
const LOOK: Duration = Duration::from_secs(1);
/// Changes that are logged at a time.
const LOGGED: usize = 16;

/// What the control thread has of alarms.
pub(super) struct AlarmWatch {
    alarms: SharedAlarms,
    sources: AlarmSources,
    seen: Seen,
    due: Nanos,
    logged: u64,
}

/// Who knows what control does not.
pub(super) struct AlarmSources {
    /// What writes to disks.
    pub(super) writers: WriterViews,
    /// The audit log, where there is one.
    pub(super) auditor: Option<Auditor>,
    /// What workers hold.
    pub(super) gauges: WorkerGauges,
    /// The thread that sends alarms, and looks at disks.
    pub(super) delivery: Delivery,
}

/// Starts the thread that sends alarms to where the configuration says.
///
/// # Errors
/// Why a receiver cannot be used.
pub(super) fn deliver(config: &Config, alarms: &SharedAlarms, clock: &Clock) -> Result<Delivery, String> {
    let records = config.records.as_ref().map(|records| &records.directory);
    let audit = config.control.audit.as_ref().map(|audit| &audit.directory);
    let store = config.store.as_ref().map(|store| &store.directory);
    let directories = records.into_iter().chain(audit).chain(store);
    let sources = DeliverySources {
        alarms: alarms.clone(),
        node: config.node.id.0.to_string(),
        started_ms: clock.host().unix / 1_000_000,
        directories: directories.map(|path| path.value.clone()).collect(),
    };
    Delivery::open(&config.alarms, sources).map_err(|error| format!("alarms: {error}"))
}

impl AlarmWatch {
    /// Watches for `alarms` of what `sources` and control know, by what the configuration says.
    pub(super) fn new(config: &Config, alarms: SharedAlarms, sources: AlarmSources) -> Self {
        Self {
            alarms,
            sources,
            seen: Seen::watching(config.watermarks()),
            due: Nanos::ZERO,
            logged: 0,
        }
    }

    /// The host's clock was stepped.
    pub(super) fn note_step(&mut self, now: Nanos, text: String) {
        self.seen.note_step(now, text);
    }

    /// Looks at what is wrong, once a second.
    pub(super) fn look(&mut self, now: Nanos, control: &Control, threads: &[WorkerThread]) {
        if now < self.due {
            return;
        }
        self.due = now + LOOK;
        self.see(now, threads);
        let found = conditions(now, control, &mut self.seen);
        let unix_ms = control.wall().unix_nanos(Moment::from(now)) / 1_000_000;
        let mut alarms = self.alarms.lock();
        alarms.observe(At { now, unix_ms }, found);
        for event in alarms.events(self.logged, LOGGED).events {
            self.logged = event.id;
            let (alarm, object) = (&event.alarm.alarm, &event.alarm.object);
            match event.change {
                AlarmChange::Raised => {
                    let severity = event.alarm.severity.word();
                    warn!(alarm, object, severity, text = event.alarm.text, "alarm raised");
                }
                AlarmChange::Cleared => info!(alarm, object, "alarm cleared"),
            }
        }
    }

    fn see(&mut self, now: Nanos, threads: &[WorkerThread]) {
        let AlarmSources {
            writers,
            auditor,
            gauges,
            delivery,
        } = &self.sources;
        let seen = &mut self.seen;
        seen.records = writers.records.as_ref().map(RecordsView::read);
        seen.store = writers.store.as_ref().map(StoreView::read);
        seen.audit = auditor.as_ref().and_then(Auditor::fault);
        (seen.undelivered, seen.disks) = delivery.read();
        let holdings = (gauges.holdings)();
        let used = holdings.iter().map(|holding| holding.flows as u64).sum();
        seen.flows = (used, gauges.flow_entries_limit * threads.len() as u64);
        if seen.watches_rates() {
            seen.note_forwarded(now, &(gauges.group_totals)());
        }
        seen.note_egress((gauges.egress)());
        let accelerators = (gauges.accelerators)();
        let contacts = accelerators.iter().map(|view| view.map(|view| view.is_ready));
        seen.note_contacts(contacts);
        seen.note_progress(threads.iter().map(|thread| thread.published().times()));
    }
}
