//! PFCP sessions without PFCP: the life of sessions, who owns what, and changes that take effect whole or not at all.
//!
//! [`Sessions`] belongs to control, one thread. Sans-IO: requests go in with a [`Ticket`], [`Effect`]s for the workers
//! and [`Outcome`]s for the requester are polled out, time is passed in. It knows [`rules::model`] and not the wire,
//! and has no sockets, threads or clock. [`SessionRecord`] is a session on its way to another process.

#![forbid(unsafe_code)]

mod addresses;
mod assign;
mod changes;
mod choose;
mod correlations;
mod dates;
mod effect;
mod ending;
mod fill;
mod indexes;
mod keyed;
mod ledger;
mod members;
mod metering;
mod moving;
mod packets;
mod paths;
mod persist;
mod pools;
mod prepare;
mod progress;
mod random;
mod record;
mod refusal;
mod restoration;
mod seids;
mod session;
mod sessions;
mod sets;
mod shares;
mod steering;
mod supersede;
mod transfer;
mod tunnels;
mod views;

pub use addresses::UeAddress;
pub use changes::{Assigned, Changes, Charging, Choose, ChooseUeIp, Query, Recipient};
pub use correlations::SharedRate;
pub use effect::{AssociationId, CpFSeid, Done, Effect, Outcome, Seid, Ticket, WorkerFault};
pub use keyed::{Keyed, keyed};
pub use ledger::{EndCause, LedgerEntry, LedgerEvent, Subscriber, Unreported};
pub use moving::{MoveFault, Moved};
pub use packets::{PacketRateStatus, PacketsAllowed};
pub use paths::{GtpuPath, PathChange};
pub use persist::{KeepNothing, Persist};
pub use pools::{Pool, PoolId, PoolRange};
pub use random::Random;
pub use record::{
    ApplicationRecord, AssociationRecord, DownlinkMark, Frame, LONGEST_RECORD, NodeRecord, PendingReports,
    Record, RecordError, SessionRecord, behind_record,
};
pub use refusal::{Refusal, RuleFault};
pub use rules::steering::{SteerChange, SteerKey};
pub use session::SessionView;
pub use sessions::{Config, Count, Sessions};
pub use sets::{Addresses, SetId, SetNode, Sets};
pub use transfer::{Export, ImportError};
pub use tunnels::Tunnel;
pub use usage::{
    Moment, SLEWED, Seconds, UrrCheckpoint, UsageInformation, UsageReport, UsageTriggers, WallChange,
    WallClock,
};
