//! How the dates of reports and records follow the host's clock.

use flow::Nanos;
use runtime::{Clock, HOST_LOOK, HostTime};
use session::{SLEWED, WallChange};
use trace::Explainer;
use tracing::{debug, warn};
use upf::Control;

use super::alarms::AlarmWatch;

/// How dates follow the host's clock.
pub(super) struct Dates {
    clock: Clock,
    /// When the host's clock is looked at again.
    due: Nanos,
    explainer: Explainer,
}

impl Dates {
    pub(super) const fn new(clock: Clock, explainer: Explainer) -> Self {
        Self {
            clock,
            due: Nanos::ZERO,
            explainer,
        }
    }

    /// Looks at the host's clock when it is time to.
    pub(super) fn follow(&mut self, now: Nanos, control: &mut Control, watch: &mut AlarmWatch) {
        if now < self.due {
            return;
        }
        self.due = now + HOST_LOOK;
        let HostTime { at, unix, slack } = self.clock.host();
        let Some(change) = control.follow_wall(at, unix, slack) else {
            return;
        };
        self.explainer.set_clock(control.wall().epoch_nanos());
        let takes_s = change.takes() / 1_000_000_000;
        match change {
            WallChange::Stepped(by) => {
                let by_ms = by / 1_000_000;
                warn!(by_ms, "host clock stepped forward");
                watch.note_step(now, format!("the host's clock was stepped forward by {by_ms} ms"));
            }
            WallChange::Behind(by) if by > SLEWED => {
                let by_ms = by / 1_000_000;
                warn!(
                    by_ms,
                    takes_s, "host clock stepped back: times run at half speed until they are even"
                );
                watch.note_step(now, format!("the host's clock was stepped back by {by_ms} ms"));
            }
            WallChange::Behind(by) | WallChange::Fast(by) => {
                debug!(by_us = by / 1_000, takes_s, "host clock corrected");
            }
        }
    }
}
