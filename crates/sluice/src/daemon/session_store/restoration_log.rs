//! What is logged and shown of sessions that come back.

use flow::Nanos;
use oam::values::RestoredSessions;
use tracing::{error, info};
use upf::{Control, Restored};

use super::queue::StoreView;

/// What is logged and shown of sessions that come back.
#[derive(Default)]
pub struct RestorationLog {
    view: Option<StoreView>,
    shown: RestoredSessions,
    is_over: bool,
}

impl RestorationLog {
    /// Shows it by `view`, too.
    #[must_use]
    pub fn new(view: Option<StoreView>) -> RestorationLog {
        RestorationLog {
            view,
            ..RestorationLog::default()
        }
    }

    /// Logs sessions that could not come back, and once that all have been restored.
    pub fn log(&mut self, now: Nanos, control: &mut Control) {
        let mut keeping = control.session_keeping(now);
        while let Some((seid, why)) = keeping.poll_failure() {
            error!(seid = upf::identifiers::seid(seid.0), %why, "session not restored");
        }
        let (absent, restored) = keeping.restored();
        let Restored {
            sessions,
            on_demand,
            failed,
        } = restored;
        let shown = RestoredSessions {
            restored: sessions,
            on_demand,
            absent: absent as u64,
            failed,
        };
        if let Some(view) = &self.view
            && shown != std::mem::replace(&mut self.shown, shown)
        {
            view.set_restored(shown);
        }
        let is_over = absent == 0 && sessions + failed > 0;
        if is_over && !std::mem::replace(&mut self.is_over, true) {
            info!(sessions, on_demand, failed, "sessions restored");
        }
    }
}
