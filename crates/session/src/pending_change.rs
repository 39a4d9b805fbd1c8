//! A change of a session in progress: what was prepared, what workers have answered, and how it is undone.

use flow::{Bounds, Bucket, UrrCount};
use nat::mappings::MovedMapping;
use rules::image::{DroppedCount, ImmediateActions, PacketsLeft, TokensLeft, UsageSnapshot};
use rules::model::{CorrelationId, FTeid, QerId, UrrId};
use std::sync::Arc;
use usage::{Renewed, UsageTriggers};

use crate::commands::Role;
use crate::effect::WorkerFault;
use crate::f_teid_choice::ChosenFTeids;
use crate::final_accounting::FinalAccounting;
use crate::ids::{CpFSeid, Seid, Ticket};
use crate::live_session::Live;
use crate::queued_request::Export;
use crate::quotas::ResourceCounts;
use crate::rule_changes::{Assigned, Recipient};
use crate::session_accounting::Subscriber;
use crate::tunnels::Tunnel;
use crate::ue_addresses::UeAddress;

/// A change that is compiled and has what it needs, ready to be applied.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) live: Live,
    /// What this change allocated, for the response.
    pub(crate) created: Vec<(Recipient, FTeid)>,
    pub(crate) assigned: Vec<Assigned>,
    pub(crate) shared: ChosenFTeids,
    /// Tunnels that this change took.
    pub(crate) claimed: Vec<Tunnel>,
    /// UE addresses that this change took.
    pub(crate) addresses: Vec<UeAddress>,
    /// What it has in common with other sessions that this change joined.
    pub(crate) joined: Vec<CorrelationId>,
    /// URRs to report when the worker answers the query.
    pub(crate) queried: Vec<(UrrId, UsageTriggers)>,
    /// URRs that end and that others are linked to, which report because of that.
    pub(crate) ended: Vec<UrrId>,
    /// URRs that PDRs name now, and none did before.
    pub(crate) associated: Vec<UrrId>,
    /// QERs whose Packet Rate Status the response has.
    pub(crate) queried_packets: Vec<QerId>,
    /// URRs that the request removes and creates under one number: the slots of the old ones end.
    pub(crate) fresh: Vec<UrrId>,
    /// The terms of URRs that the request gives anew.
    pub(crate) renewed: Vec<(UrrId, Renewed)>,
    pub(crate) cp: Option<CpFSeid>,
    /// Whom a successor is for, or a session from now on.
    pub(crate) subscriber: Option<Arc<Subscriber>>,
    /// Whether it is kept beyond the process already.
    pub(crate) is_kept: bool,
    /// What the worker does for what is replaced.
    pub(crate) immediate: ImmediateActions,
}

impl Prepared {
    /// URRs that PDRs name now, and none did before, begin with the quotas that they were provisioned with.
    pub(crate) fn renew_associated(&mut self) {
        for urr in &self.associated {
            match self.renewed.iter_mut().find(|(id, _)| id == urr) {
                Some((_, known)) => *known = known.associated(),
                None => self.renewed.push((*urr, Renewed::default().associated())),
            }
        }
    }

    /// Whether it takes the counts of before it.
    pub(crate) fn asks_for_counts(&self) -> bool {
        !(self.queried.is_empty() && self.queried_packets.is_empty() && self.ended.is_empty())
    }

    /// What its association is charged for, of a session in this bucket.
    pub(crate) fn takes(&self, bucket: Option<Bucket>) -> ResourceCounts {
        ResourceCounts::of(&self.claimed, &self.addresses, bucket)
    }
}

/// What a change does.
#[derive(Debug)]
pub(crate) enum Work {
    /// Install.
    Establish(Box<Prepared>),
    /// Replace; or a query alone.
    Modify(Box<Prepared>),
    /// Replace by a session that is set up in the place of this one, under a SEID of its own.
    Supersede(Box<Prepared>, Seid),
    /// Remove.
    Delete,
    /// Read the counters, or remove, to make a record.
    Export(Export),
}

impl Work {
    pub(crate) fn role(&self) -> Role {
        match self {
            Work::Establish(_) => Role::Install,
            Work::Modify(_) | Work::Supersede(..) => Role::Replace,
            Work::Delete | Work::Export(Export::Take) => Role::Remove,
            Work::Export(Export::Copy) => Role::Query,
        }
    }

    pub(crate) fn prepared(&self) -> Option<&Prepared> {
        match self {
            Work::Establish(prepared) | Work::Modify(prepared) | Work::Supersede(prepared, _) => {
                Some(prepared)
            }
            Work::Delete | Work::Export(_) => None,
        }
    }
}

/// A request in progress: its operations are with the workers.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) id: u64,
    pub(crate) ticket: Ticket,
    pub(crate) work: Work,
    /// Whether the worker has got rules to apply.
    pub(crate) sent: bool,
    /// Operations not yet answered.
    pub(crate) pending: u32,
    pub(crate) fault: Option<WorkerFault>,
    /// What the URRs had counted when the worker answered the query.
    pub(crate) counted: Vec<(UrrId, UrrCount)>,
    /// The last counts of those whose slots the worker gave up when it did what was sent; `None`: it has not done it.
    pub(crate) ended: Option<Vec<(UrrId, UrrCount)>>,
    /// The remaining packets of packet rates, for the response or the record.
    pub(crate) packets: Vec<PacketsLeft>,
    /// What the meters of bit rates hold, to be recorded.
    pub(crate) tokens: Vec<TokensLeft>,
    /// Dropped packets of URRs that report them, for the record.
    pub(crate) dropped: Vec<DroppedCount>,
    /// The mappings of its public addresses, where it ends here.
    pub(crate) mappings: Vec<MovedMapping>,
    /// The bounds of its counters that the worker gets with the rules, by slot.
    pub(crate) bounds: Vec<Bounds>,
}

/// The state of a session.
#[derive(Debug)]
pub(crate) enum State {
    /// Nothing is in progress.
    Settled,
    /// A request is.
    Changing(Box<Change>),
    /// A request was given up; the worker has yet to confirm that it runs what is live.
    RollingBack(Box<RollingBack>),
    /// The session is removed; workers have yet to confirm it.
    Dying(Box<Dying>),
}

/// What a request that was given up had taken: free once the worker runs what is live.
#[derive(Debug)]
pub(crate) struct RollingBack {
    pub(crate) id: u64,
    /// The credit pools that counted in other units meanwhile, and in which.
    pub(crate) units: Vec<(UrrId, u64)>,
    pub(crate) claimed: Vec<Tunnel>,
    pub(crate) addresses: Vec<UeAddress>,
}

/// What a session had that is gone: free once its workers have confirmed the removal, which `pending` have yet to do.
#[derive(Debug)]
pub(crate) struct Dying {
    pub(crate) id: u64,
    pub(crate) pending: u32,
    pub(crate) tunnels: Vec<Tunnel>,
    pub(crate) addresses: Vec<UeAddress>,
    pub(crate) accounting: Option<Box<FinalAccounting>>,
}

/// How far a session is in the move of its bucket ([`bucket_moves`](crate::bucket_moves)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It does not move.
    #[default]
    Stays,
    /// It is to be installed at the new owner once nothing is in progress in it.
    Awaited,
    /// It is installed at both workers, or will be when they have applied what was sent.
    OnBoth,
}

impl Change {
    /// A change that begins.
    pub(crate) fn new(id: u64, ticket: Ticket, work: Work, sent: bool, bounds: Vec<Bounds>) -> Change {
        Change {
            id,
            ticket,
            work,
            sent,
            pending: 0,
            fault: None,
            counted: Vec::new(),
            ended: None,
            packets: Vec::new(),
            tokens: Vec::new(),
            dropped: Vec::new(),
            mappings: Vec::new(),
            bounds,
        }
    }

    /// Keeps what a worker's answer to one operation says of the counters, and of packet rates.
    pub(crate) fn note(&mut self, role: Role, usage: Option<UsageSnapshot>) {
        let UsageSnapshot {
            counters,
            packets,
            tokens,
            dropped,
            mappings,
            ..
        } = usage.unwrap_or_default();
        if matches!(role, Role::Query | Role::Remove) {
            (self.packets, self.tokens, self.dropped) = (packets, tokens, dropped);
            self.mappings = mappings;
        }
        match role {
            Role::Query => self.counted = counters,
            Role::Fence => {}
            _ => self.ended = Some(counters),
        }
    }

    /// What went wrong, if the worker has done its part all the same and it must be undone; and whether the session is
    /// new.
    pub(crate) fn half_done(&self) -> Option<(WorkerFault, bool)> {
        let fault = self.fault.filter(|_| self.ended.is_some())?;
        match self.work {
            Work::Establish(_) => Some((fault, true)),
            Work::Modify(_) | Work::Supersede(..) => Some((fault, false)),
            Work::Delete | Work::Export(_) => None,
        }
    }
}
