//! Usage reporting (TS 29.244 §5.2.2): what becomes of the counts of a session's URRs.
//!
//! Workers count exactly and stop traffic at the packet that a quota does not allow; the machines here, which control
//! owns, say where that is, and when what is reported. Nothing here reads a clock or sends anything.

#![forbid(unsafe_code)]

mod account;
mod accounts;
mod bounds;
mod checkpoint;
mod count;
mod counter;
mod machine;
mod moment;
mod report;
mod urr_map;
mod wall;

pub use account::Counted;
pub use accounts::UsageAccounts;
pub use bounds::share_limits;
pub use checkpoint::UrrCheckpoint;
pub use count::sum;
pub use machine::{Activity, Exhausted, Machine, Renewed, TrafficDetection};
pub use moment::{Moment, Setting};
pub use report::{Seconds, UsageInformation, UsageReport, UsageTriggers};
pub use wall::{SLEWED, WallChange, WallClock};
