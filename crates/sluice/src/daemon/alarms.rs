//! The alarms of the daemon: what control and others know, looked at once a second, and a line of the log for each
//! change.

use std::time::Duration;

use flow::Nanos;
use oam::alarms::{At, Seen, SharedAlarms, conditions};
use oam::values::AlarmChange;
use session::Moment;
use tracing::{info, warn};
use upf::Control;

use super::records::RecordsView;

/// How often it is looked at what is wrong.
const LOOK: Duration = Duration::from_secs(1);
/// Changes that are logged at a time.
const LOGGED: usize = 16;

/// What the control thread has of alarms.
pub(super) struct AlarmWatch {
    alarms: SharedAlarms,
    records: Option<RecordsView>,
    seen: Seen,
    due: Nanos,
    logged: u64,
}

impl AlarmWatch {
    /// Watches for `alarms`; `records` shows the usage records, where there are any.
    pub(super) fn new(alarms: SharedAlarms, records: Option<RecordsView>) -> Self {
        Self {
            alarms,
            records,
            seen: Seen::default(),
            due: Nanos::ZERO,
            logged: 0,
        }
    }

    /// The host's clock was stepped.
    pub(super) fn note_step(&mut self, now: Nanos, text: String) {
        self.seen.note_step(now, text);
    }

    /// Looks at what is wrong, once a second.
    pub(super) fn look(&mut self, now: Nanos, control: &Control) {
        if now < self.due {
            return;
        }
        self.due = now + LOOK;
        self.seen.records = self.records.as_ref().map(RecordsView::read);
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
}
