//! Entries for usage records: starts, usage reports and ends of sessions.

use flow::{ContentUsage, UrrCount};
use rules::model::SessionRules;
use std::sync::Arc;
use usage::{Moment, UsageReport};

use crate::ids::{AssociationId, CpFSeid, Seid};
use crate::session_accounting::Subscriber;
use crate::ue_addresses::UeAddress;

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// It was deleted in order.
    Deleted,
    /// Another was set up in its place.
    Superseded,
    /// Its association ended.
    AssociationEnded,
    /// The control plane has started anew, or set its association up anew.
    CpRestarted,
    /// The control plane has deleted a set that it belonged to.
    SetDeleted,
    /// Something went wrong on our side.
    Fault,
}

/// What happened to a session, with all that is needed to say whose it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRecordEntry {
    /// The local SEID.
    pub seid: Seid,
    /// The control plane's F-SEID.
    pub cp: CpFSeid,
    /// The association that it belongs to, or belonged to.
    pub association: AssociationId,
    /// Whom it is for.
    pub subscriber: Option<Arc<Subscriber>>,
    /// The rules that were live.
    pub rules: Arc<SessionRules>,
    /// What plain packets reached it by.
    pub ue_addresses: Arc<[UeAddress]>,
    /// What happened.
    pub event: UsageRecordEvent,
}

/// Why a control plane has not taken a usage report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreported {
    /// It has answered with this cause (TS 29.244 §8.2.1).
    Refused(u8),
    /// Its answer cannot be read.
    Unreadable,
    /// The session or its association was gone before an answer came.
    Unanswered,
}

/// What happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageRecordEvent {
    /// A usage report was made.
    Usage(UsageReport),
    /// What it counted of one content of predefined rules, which starts again from zero.
    Content(ContentUsage),
    /// A usage report that was entered is not taken by the control plane, and not sent again.
    Unreported {
        /// What it says.
        report: UsageReport,
        /// Why it was not taken.
        why: Unreported,
        /// When that was known.
        at: Moment,
    },
    /// It began here.
    Start {
        /// When it was set up, here or in the process that it comes from.
        start: Moment,
        /// When it began here.
        at: Moment,
        /// Whether it comes from another process.
        is_imported: bool,
    },
    /// It went to another process.
    Left {
        /// When it was set up.
        start: Moment,
        /// When it went.
        at: Moment,
        /// How many usage reports were made so far.
        reports: u64,
        /// What they have in sum.
        count: UrrCount,
    },
    /// It ended.
    End {
        /// Why.
        cause: EndCause,
        /// When it was set up.
        start: Moment,
        /// When it ended.
        end: Moment,
        /// How many usage reports were made.
        reports: u64,
        /// What they have in sum.
        count: UrrCount,
    },
}
