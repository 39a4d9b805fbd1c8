//! One session: what is live in its worker, the change in progress, and what it measures.

use flow::{Bucket, Nanos, Reached, SessionIndex, UrrCount, WorkerId};
use rules::boxed_option::BoxedOption;
use rules::image::{PacketsLeft, UsageSnapshot};
use rules::model::{SessionRules, UrrId};
use smallvec::SmallVec;
use std::collections::VecDeque;
use usage::{Counted, UrrCheckpoint, UsageAccounts, UsageReport, UsageTriggers};

use crate::buckets::BucketTable;
use crate::commands::Role;
use crate::effect::WorkerFault;
use crate::f_teid_choice::ChosenFTeids;
use crate::ids::{AssociationId, CpFSeid, Seid, Ticket};
use crate::live_session::{Live, rescaled};
use crate::packet_rate::{PacketRateStatus, statuses};
use crate::pending_change::{Change, Phase, Prepared, State, Work};
use crate::pending_measurement::PendingMeasurement;
use crate::queued_request::{Request, Waiting};
use crate::quotas::{CompactCounts, ResourceCounts};
use crate::session_accounting::{SessionAccounting, Subscriber};
use crate::sets::Sets;
use crate::tunnels::Tunnel;
use crate::ue_addresses::UeAddress;

/// The numbers of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) index: SessionIndex,
    pub(crate) seid: Seid,
    pub(crate) association: AssociationId,
    pub(crate) cp: CpFSeid,
    pub(crate) bucket: Bucket,
}

/// The state of one session in control. What few sessions have, or for a moment, is behind a pointer.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) index: SessionIndex,
    pub(crate) seid: Seid,
    pub(crate) association: AssociationId,
    /// The association that established it, whose quota it counts against.
    pub(crate) charged_to: AssociationId,
    pub(crate) sets: BoxedOption<Sets>,
    pub(crate) cp: CpFSeid,
    pub(crate) bucket: Bucket,
    /// Its position among the bucket's sessions.
    pub(crate) bucket_position: u32,
    /// Its position among its association's sessions.
    pub(crate) association_position: u32,
    pub(crate) phase: Phase,
    /// What counts against its association's quota.
    pub(crate) charged: CompactCounts,
    pub(crate) live: Live,
    pub(crate) shared: ChosenFTeids,
    pub(crate) usage: UsageAccounts,
    pub(crate) accounting: SessionAccounting,
    pub(crate) pending_measurement: PendingMeasurement,
    pub(crate) state: State,
    pub(crate) waiting: BoxedOption<VecDeque<Waiting>>,
}

const _: () = assert!(size_of::<Session>() <= 320, "there are very many");

impl Session {
    /// A session of which nothing is live yet.
    pub(crate) fn new(identity: Identity, usage: UsageAccounts, accounting: SessionAccounting) -> Session {
        let Identity {
            index,
            seid,
            association,
            cp,
            bucket,
        } = identity;
        Session {
            index,
            seid,
            association,
            charged_to: association,
            sets: BoxedOption::NONE,
            cp,
            bucket,
            bucket_position: 0,
            association_position: 0,
            phase: Phase::Stays,
            charged: CompactCounts::default(),
            live: Live::default(),
            shared: ChosenFTeids::default(),
            usage,
            accounting,
            pending_measurement: PendingMeasurement::default(),
            state: State::Settled,
            waiting: BoxedOption::NONE,
        }
    }

    /// Whether it is removed, and only workers still have it.
    pub(crate) fn is_dying(&self) -> bool {
        matches!(self.state, State::Dying(_))
    }

    /// What counts against its association's quota.
    pub(crate) fn counts(&self) -> ResourceCounts {
        self.charged.into()
    }

    /// The worker beside the owner of its bucket that has it, if there is one.
    pub(crate) fn other_owner(&self, buckets: &BucketTable) -> Option<WorkerId> {
        let other = buckets.other(self.bucket)?;
        (self.phase == Phase::OnBoth).then_some(other)
    }

    /// Takes the request that has waited longest.
    pub(crate) fn next_waiting(&mut self) -> Option<Waiting> {
        let next = self.waiting.as_mut()?.pop_front();
        if self.waiting.is_empty() {
            self.waiting.clear();
        }
        next
    }

    /// Takes a request back that still waits; whether it did.
    pub(crate) fn take_back(&mut self, ticket: Ticket) -> bool {
        let place = self.waiting.iter().position(|waiting| waiting.ticket == ticket);
        if let (Some(place), Some(waiting)) = (place, self.waiting.as_mut()) {
            waiting.remove(place);
        }
        if self.waiting.is_empty() {
            self.waiting.clear();
        }
        place.is_some()
    }

    /// Whether nothing is in progress, neither a request nor a move.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.state, State::Settled) && self.phase == Phase::Stays
    }

    /// Whether the change with this number is in progress.
    pub(crate) fn is_at(&self, id: u64) -> bool {
        matches!(&self.state, State::Changing(change) if change.id == id)
    }

    /// The change with this number, if it is the one in progress.
    pub(crate) fn change(&mut self, id: u64) -> Option<&mut Change> {
        match &mut self.state {
            State::Changing(change) if change.id == id => Some(change),
            _ => None,
        }
    }

    /// Takes out of the queue what `which` says of.
    pub(crate) fn take_waiting(&mut self, which: impl Fn(&Request) -> bool) -> VecDeque<Waiting> {
        let all = self.waiting.take().into_iter();
        let (taken, left): (VecDeque<Waiting>, VecDeque<Waiting>) =
            all.partition(|waiting| which(&waiting.request));
        if !left.is_empty() {
            *self.waiting.get_or_insert_default() = left;
        }
        taken
    }
}

impl Session {
    /// The reports of a modification: of what was asked for, then of the URRs that it has taken away, then of those
    /// that are linked to these.
    pub(crate) fn reports_of(
        &mut self,
        now: Nanos,
        prepared: &Prepared,
        counted: &[(UrrId, UrrCount)],
        ended: &[(UrrId, UrrCount)],
    ) -> Vec<UsageReport> {
        let (rules, accounts) = (&self.live.rules, &mut self.usage);
        let mut reports = accounts.query(now, rules.urrs(), counted, &prepared.queried);
        let removed = ended.iter().filter_map(|(urr, count)| {
            let is_gone = prepared.live.rules.urr(*urr).is_none() || prepared.fresh.contains(urr);
            let urr = rules.urr(*urr).filter(|_| is_gone)?;
            Some(Counted { urr, count: *count })
        });
        let last = removed.filter_map(|one| accounts.report_if_any(now, one, UsageTriggers::TERMR));
        let last: Vec<UsageReport> = last.collect();
        let causes: Vec<UrrId> = last.iter().map(|report| report.urr).collect();
        reports.extend(last);
        if !prepared.ended.is_empty() && !causes.is_empty() {
            // Of those that end too the last is reported already.
            let goes_on = |(urr, _): &&(UrrId, UrrCount)| !prepared.ended.contains(urr);
            let counted: Vec<_> = counted.iter().filter(goes_on).copied().collect();
            reports.extend(accounts.report_linked(now, rules.urrs(), &counted, &causes));
        }
        reports
    }

    /// The reports of a session that is deleted: of all its URRs.
    pub(crate) fn final_reports(&mut self, now: Nanos, ended: &[(UrrId, UrrCount)]) -> Vec<UsageReport> {
        let (rules, accounts) = (&self.live.rules, &mut self.usage);
        let all = rules.urrs().iter().map(|urr| {
            let found = ended.iter().find(|(id, _)| *id == urr.id);
            let count = found.map(|(_, count)| *count).unwrap_or_default();
            accounts.report(now, Counted { urr, count }, UsageTriggers::TERMR)
        });
        all.collect()
    }

    /// The Packet Rate Status of the QERs that a request names, or when the session is released of those that report it
    /// then (RCSR).
    pub(crate) fn statuses(&self, now: Nanos, work: &Work, left: &[PacketsLeft]) -> Vec<PacketRateStatus> {
        let rules = &self.live.rules;
        let reports = |qer| rules.qer(qer).is_some_and(|qer| qer.optional.reports_rate);
        match work {
            Work::Modify(prepared) => {
                statuses(now, rules, left, |qer| prepared.queried_packets.contains(&qer))
            }
            Work::Delete => statuses(now, rules, left, reports),
            _ => Vec::new(),
        }
    }

    /// Keeps what credit pools counted whose counters count in other units from now on (their multipliers have
    /// changed).
    pub(crate) fn carry_rescaled(&mut self, prepared: &Prepared, ended: &[(UrrId, UrrCount)]) {
        let pools = rescaled(&self.live.rules, &prepared.live.rules);
        for (urr, count) in ended {
            if pools.iter().any(|(pool, _)| pool == urr) && !prepared.fresh.contains(urr) {
                self.usage.carry(*urr, *count);
            }
        }
    }

    /// Keeps what credit pools counted in these units, of a change that was taken back.
    pub(crate) fn add_rescaled(&mut self, units: &[(UrrId, u64)], left: Option<UsageSnapshot>) {
        let counters = left.map(|usage| usage.counters).unwrap_or_default();
        for (urr, count) in counters {
            if let Some((_, unit)) = units.iter().find(|(pool, _)| *pool == urr) {
                self.usage.add_in(urr, count, *unit);
            }
        }
    }

    /// Keeps what URRs counted in another worker than the one whose count the accounts follow.
    pub(crate) fn add(&mut self, result: Result<Option<UsageSnapshot>, WorkerFault>) {
        let counters = result.ok().flatten().map(|usage| usage.counters);
        for (urr, count) in counters.into_iter().flatten() {
            self.usage.add(urr, count);
        }
    }

    /// Keeps what URRs counted whose slots are gone: a change, given up since, took them away late, or the session went
    /// to another worker.
    pub(crate) fn carry(&mut self, result: Result<Option<UsageSnapshot>, WorkerFault>) {
        let counters = result.ok().flatten().map(|usage| usage.counters);
        self.carry_counts(&counters.unwrap_or_default());
    }

    /// The same, of the counts themselves.
    pub(crate) fn carry_counts(&mut self, ended: &[(UrrId, UrrCount)]) {
        for (urr, count) in ended {
            self.usage.carry(*urr, *count);
        }
    }
}

impl Session {
    /// Whether what the worker counts cannot be taken for that of the accounts: it has not got the rules that are live,
    /// is about to lose the session, or two workers have it.
    pub(crate) fn is_in_between(&self) -> bool {
        let sent = match &self.state {
            State::Settled | State::Dying(_) => false,
            // What ends the session in its worker is sent: the last counts come with the answer.
            State::Changing(change) => change.sent || change.work.role() == Role::Remove,
            State::RollingBack(_) => true,
        };
        sent || self.phase == Phase::OnBoth
    }

    pub(crate) fn settle(
        &mut self,
        now: Nanos,
        counted: &[(UrrId, UrrCount)],
        reached: &[(UrrId, Reached)],
    ) -> Vec<UsageReport> {
        self.usage.evaluate(now, self.live.rules.urrs(), counted, reached)
    }

    /// The reports of the URRs that have an End Marker to report.
    pub(crate) fn report_end_markers(
        &mut self,
        now: Nanos,
        counted: &[(UrrId, UrrCount)],
        ended: &[UrrId],
    ) -> Vec<UsageReport> {
        let asked: Vec<_> = ended.iter().map(|urr| (*urr, UsageTriggers::EMRRE)).collect();
        match asked.is_empty() {
            true => Vec::new(),
            false => self.usage.query(now, self.live.rules.urrs(), counted, &asked),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.usage.deadline(self.live.rules.urrs())
    }
}

/// A session as an operator sees it.
#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    session: &'a Session,
}

impl<'a> SessionView<'a> {
    pub(crate) fn new(session: &'a Session) -> SessionView<'a> {
        SessionView { session }
    }

    /// The local SEID.
    pub fn seid(&self) -> Seid {
        self.session.seid
    }

    /// Its number in workers.
    pub fn index(&self) -> SessionIndex {
        self.session.index
    }

    /// The association that owns it.
    pub fn association(&self) -> AssociationId {
        self.session.association
    }

    /// The control plane's F-SEID.
    pub fn cp(&self) -> CpFSeid {
        self.session.cp
    }

    /// The sets that it belongs to.
    pub fn sets(&self) -> &'a Sets {
        &self.session.sets
    }

    /// The bucket that it lives in.
    pub fn bucket(&self) -> Bucket {
        self.session.bucket
    }

    /// The rules that are live in the worker.
    pub fn rules(&self) -> &'a SessionRules {
        &self.session.live.rules
    }

    /// The tunnels that lead to it.
    pub fn tunnels(&self) -> SmallVec<[Tunnel; 2]> {
        self.session.live.tunnels.get()
    }

    /// The UE addresses that plain packets reach it by.
    pub fn ue_addresses(&self) -> SmallVec<[UeAddress; 2]> {
        self.session.live.addresses.get()
    }

    /// The checkpoints of its URRs, with what the worker's slots count now. `None` while two workers have the session.
    pub fn usage(&self, counted: &[(UrrId, UrrCount)]) -> Option<Vec<UrrCheckpoint>> {
        (self.session.phase != Phase::OnBoth).then(|| self.session.usage.checkpoints(counted))
    }

    /// Whom it is for.
    pub fn subscriber(&self) -> Option<&'a Subscriber> {
        self.session.accounting.subscriber.as_deref()
    }

    /// Requests that wait for the one in progress.
    pub fn waiting(&self) -> usize {
        self.session.waiting.len()
    }

    /// Whether a request is in progress, or the session moves to another worker.
    pub fn is_changing(&self) -> bool {
        !matches!(self.session.state, State::Settled) || self.session.phase != Phase::Stays
    }
}
