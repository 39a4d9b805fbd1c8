//! Alarms: what is wrong with this UPF now, since when, and what was (TS 28.111).
//!
//! [`Alarms`] is sans-IO: the control thread gives it all conditions of a moment, once a second. It raises and clears
//! alarms, and keeps the events. The API reads it. The severities, and most probable causes, are the words of
//! TS 28.111 and ITU-T X.733.

mod conditions;
mod list;

pub use conditions::{Seen, conditions};
pub use list::{Alarms, At, Condition, Kind, Level, SharedAlarms};
