//! PFCP sessions without PFCP: the life of sessions, who owns what, and changes that take effect whole or not at all.
//!
//! [`Sessions`] belongs to control, one thread. Sans-IO: requests go in with a [`Ticket`], [`Effect`]s for the workers
//! and [`Outcome`]s for the requester are polled out, time is passed in. It uses [`rules::model`] and not the wire
//! format, and has no sockets, no clock, and no threads that outlive a call. [`SessionRecord`] is a session as octets,
//! for another process.

#![forbid(unsafe_code)]

mod all_at_once;
mod apply_change;
mod bucket_members;
mod bucket_moves;
mod bucket_order;
mod buckets;
mod change_context;
mod commands;
mod compact_list;
mod config;
mod correlations;
mod effect;
mod export;
mod f_teid_choice;
mod final_accounting;
mod gtpu_paths;
mod hashed_indexes;
mod ids;
mod import;
mod indexes;
mod journal;
mod keyed_map;
mod live_session;
mod outcome;
mod packet_rate;
mod pending_change;
mod pending_measurement;
mod pools;
mod port_block_changes;
mod port_blocks;
mod prepare;
mod queued_request;
mod quotas;
mod random;
mod recompilation;
mod record;
mod refusal;
mod release;
mod remotes;
mod request_queue;
mod resources;
mod restoration;
mod rule_changes;
mod seids;
mod session;
mod session_accounting;
mod session_groups;
mod session_keeping;
mod session_table;
mod sessions;
mod sets;
mod slice_workers;
mod succession;
mod tunnels;
mod ue_addresses;
mod ue_ip_choice;
mod usage_measurement;
mod usage_record_entry;
mod usage_record_queue;
mod worker_selection_keys;

pub use bucket_moves::{MoveFault, Moved};
pub use config::Config;
pub use correlations::SharedRate;
pub use effect::{Effect, WorkerFault};
pub use gtpu_paths::{GtpuPath, PathChange};
pub use hashed_indexes::{HashedIndexes, KeyHash};
pub use ids::{AssociationId, CpFSeid, Seid, Ticket};
pub use import::ImportError;
pub use keyed_map::{Keyed, keyed, keyed_with_room};
pub use outcome::{AssignedBlock, Done, Outcome};
pub use packet_rate::{PacketRateStatus, PacketsAllowed};
pub use pools::{Pool, PoolId, PoolRange};
pub use port_blocks::{BlockHolder, NatPoolStatus, PortBlockEvent};
pub use queued_request::Export;
pub use random::Random;
pub use recompilation::Recompiled;
pub use record::{
    AnsweredQuery, ApplicationRecord, AssociationRecord, DownlinkMark, Frame, KeptSession, LONGEST_RECORD,
    NodeRecord, PacketsProgress, PendingReports, Record, RecordError, ResponseRecord, SessionHead,
    SessionProgress, SessionRecord, UnacknowledgedUsage, behind_record, is_newest_form,
};
pub use refusal::{Refusal, RuleFault};
pub use rule_changes::{Assigned, Changes, Charging, Choose, ChooseUeIp, Follow, Query, Recipient};
pub use rules::worker_selection::{WorkerSelectionChange, WorkerSelectionKey};
pub use session::SessionView;
pub use session_accounting::Subscriber;
pub use session_groups::{GroupCount, SessionGroup};
pub use sessions::{Count, Sessions};
pub use sets::{Addresses, SetId, SetNode, Sets};
pub use slice_workers::SliceWorkers;
pub use succession::{Departed, Departing, Search};
pub use tunnels::Tunnel;
pub use ue_addresses::UeAddress;
pub use usage::{
    Moment, SLEWED, Seconds, UrrCheckpoint, UrrProgress, UsageInformation, UsageReport, UsageTriggers,
    WallChange, WallClock,
};
pub use usage_measurement::CounterReached;
pub use usage_record_entry::{EndCause, Unreported, UsageRecordEntry, UsageRecordEvent};
pub use usage_record_queue::ReportedSession;
