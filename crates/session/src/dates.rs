//! Dates: which moments of the process's clock are which, as the host's clock is followed.

use flow::{Nanos, SessionIndex};
use usage::{Setting, WallChange, WallClock};

use crate::sessions::Sessions;

impl Sessions {
    /// Which dates moments have.
    pub fn wall(&self) -> &WallClock {
        &self.wall
    }

    /// The host's clock says that `now` is so many nanoseconds after 1970, read with an uncertainty of `slack`
    /// nanoseconds. Monitoring times that have not come yet come at the moments that now have their dates.
    pub fn follow_wall(&mut self, now: Nanos, host_unix: u64, slack: u64) -> Option<WallChange> {
        let change = self.wall.follow(now, host_unix, slack)?;
        let epoch_nanos = self.wall.epoch_nanos();
        let mut others = Vec::new();
        for (place, session) in self.slots.iter_mut().enumerate() {
            let Some(session) = session.as_deref_mut() else {
                continue;
            };
            if session.usage.redate(session.live.rules.urrs(), epoch_nanos) {
                others.push(SessionIndex(place as u32));
            }
        }
        for index in others {
            self.follow_usage(now, index, false);
        }
        Some(change)
    }

    /// What is the same for the URRs of all sessions.
    pub(crate) fn usage_setting(&self) -> Setting {
        Setting {
            epoch_nanos: self.wall.epoch_nanos(),
            silence: u32::try_from(self.config.traffic_silence.as_secs().max(1)).unwrap_or(u32::MAX),
        }
    }
}
