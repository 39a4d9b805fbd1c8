//! From how much of a limit on an alarm is raised.

use super::list::Level;

/// Per cent of a limit that raise an alarm.
pub(super) const NEAR: u128 = 90;
/// Per cent of it, below which the alarm is over.
const NEAR_NO_MORE: u128 = 85;

/// What so much of a limit does to its alarm; `None`: it ends it.
pub(super) fn level_of(used: u64, limit: u64) -> Option<Level> {
    match u128::from(used) * 100 / u128::from(limit.max(1)) {
        NEAR.. => Some(Level::Raises),
        NEAR_NO_MORE.. => Some(Level::Keeps),
        _ => None,
    }
}

/// Whether so much of a limit raises an alarm.
pub(super) fn is_near(used: u64, limit: u64) -> bool {
    level_of(used, limit) == Some(Level::Raises)
}
