//! Alarms: what is wrong with this UPF now, since when, and what was (TS 28.111).
//!
//! [`Alarms`] is sans-IO: the control thread gives it all conditions of a moment, once a second. It raises and clears
//! alarms, and keeps the events. The API reads it, and a thread of its own ([`Delivery`]) sends the events to webhooks
//! and collectors of syslog. The severities, and most probable causes, are the words of TS 28.111 and ITU-T X.733.

mod conditions;
mod delivery;
mod kind;
mod limits;
mod list;
mod rates;
mod seen;

pub use conditions::conditions;
pub use delivery::{Delivery, DeliverySources};
pub use kind::Kind;
pub use list::{Alarms, At, Condition, Level, SharedAlarms};
pub use seen::{ClockStep, Disk, Fault, Seen};
