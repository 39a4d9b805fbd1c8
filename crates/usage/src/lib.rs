//! Usage reporting (TS 29.244 §5.2.2): what becomes of the counts of a session's URRs.
//!
//! Workers count exactly and stop traffic at the packet that a quota does not allow; [`UrrState`] holds the
//! bounds and the times of reports; control owns it. Nothing here reads a clock or sends anything.

#![forbid(unsafe_code)]

mod bounds;
mod count;
mod counter;
mod make_usage_report;
mod moment;
mod urr_account;
mod urr_checkpoint;
mod urr_map;
mod urr_state;
mod usage_accounts;
mod usage_report;
mod wall_clock;

pub use bounds::share_limits;
pub use count::sum;
pub use make_usage_report::Counted;
pub use moment::{Moment, PacketMoments, Setting};
pub use urr_checkpoint::{UrrCheckpoint, UrrProgress};
pub use urr_state::{Activity, Exhausted, Renewed, TrafficDetection, UrrState};
pub use usage_accounts::UsageAccounts;
pub use usage_report::{Seconds, UsageInformation, UsageReport, UsageTriggers};
pub use wall_clock::{SLEWED, WallChange, WallClock};
