//! What control hands to a worker: a session, compiled; and what the worker hands back: its final counts.
//!
//! Values only. Control makes a [`SessionImage`] with [`compile`](crate::compile::compile) and sends it in a
//! [`SessionChange`], which the worker applies whole or not at all.

mod change;
mod counters;
mod delivery_status;
mod dropped;
mod egress_queues;
mod meter_state;
mod ran_congestion;
mod session_image;

pub use flow::{ContentId, Direction, PacketTimes, SessionIndex, UrrCount};

pub use self::change::{ImmediateActions, SessionChange, UsageSnapshot};
pub use self::counters::{Counter, EventCounters, PdrEvents};
pub use self::delivery_status::{DataStatus, ReportedStatuses};
pub use self::dropped::{Dropped, DroppedCount};
pub use self::egress_queues::{EgressQueue, EgressQueues, EgressShaper};
pub use self::meter_state::{MeterShare, PacketsLeft, TokensLeft};
pub use self::ran_congestion::{CongestionReport, ReportedCongestion};
pub use self::session_image::{
    Buffering, Copies, EventSlot, ForwardExtensions, Inactivity, Installation, InstalledNat, QuotaAction,
    SessionImage,
};
pub use crate::classifier::{Decision, SourceCheck};
pub use crate::compile_error::{CompileError, CompileFault};
