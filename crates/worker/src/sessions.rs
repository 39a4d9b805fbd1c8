//! The sessions that a worker owns: found by tunnel and by UE address, with their compiled rules and blocks.
//!
//! The worker owns them and changes them between bursts, by Control's commands, whole or not at all. Packets are
//! matched in [`slow_path`](crate::slow_path).

pub(crate) mod change;
pub(crate) mod checkpoints;
pub(crate) mod fixed_map;
pub(crate) mod inactivity;
pub(crate) mod moved_counts;
pub(crate) mod table;
pub(crate) mod ue_map;
mod usage;

pub(crate) use self::table::{Images, Sessions, Slot};
