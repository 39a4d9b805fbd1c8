//! Measurement of usage: the URRs of all sessions between requests. Events of counters and timers in, usage reports
//! out.
//!
//! The bounds of counters go to the workers as changes of their own, which affect no flow; a worker notifies of a bound
//! that a counter reached; and at times that matter the counts are queried. One ordered set has the timers of all
//! sessions, so that only those that are due cost anything.
//!
//! A worker answers in the order of its commands. A bound that a counter reached under bounds that are being replaced
//! arrives before the answer to the new ones and is ignored: under the new bounds it is reached again.

use flow::{Nanos, PacketTimes, Reached, SessionIndex, UrrCount};
use rules::image::{SessionChange, SessionImage, UsageSnapshot};
use rules::model::{Edit, PdrId, Urr, UrrId, UrrTermsUpdate, UrrUpdate};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use usage::{Renewed, Setting, UsageAccounts, UsageReport, WallChange, WallClock};

use crate::commands::{Commands, Op, Role};
use crate::effect::WorkerFault;
use crate::ids::Seid;
use crate::pending_change::Work;
use crate::pending_measurement::NEVER;
use crate::session::Session;
use crate::session_table::SessionTable;
use crate::usage_record_queue::{UsageRecordQueue, add_packet_times};

/// A counter that has reached one of its bounds.
#[derive(Clone, Copy, Debug)]
pub struct CounterReached {
    /// The URR.
    pub urr: UrrId,
    /// What it has counted.
    pub count: UrrCount,
    /// When packets of the URR came, since the worker last said so.
    pub times: Option<PacketTimes>,
    /// The bound.
    pub reached: Reached,
}

/// What the host's clock says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostTime {
    /// Nanoseconds since 1970.
    pub(crate) unix_nanos: u64,
    /// Its uncertainty, in nanoseconds.
    pub(crate) slack: u64,
}

/// The timers of all sessions, the reports that they make by themselves, and the clock that dates them.
#[derive(Debug)]
pub(crate) struct UsageMeasurement {
    timers: BTreeSet<(Nanos, SessionIndex)>,
    reports: VecDeque<(Seid, UsageReport)>,
    wall: WallClock,
    /// Seconds without a packet after which traffic has stopped.
    traffic_silence: u32,
}

impl UsageMeasurement {
    /// No timers. `clock_unix` is the time since 1970 at moment 0.
    pub(crate) fn new(clock_unix: u64, traffic_silence: Duration) -> UsageMeasurement {
        UsageMeasurement {
            timers: BTreeSet::new(),
            reports: VecDeque::new(),
            wall: WallClock::starting(clock_unix),
            traffic_silence: u32::try_from(traffic_silence.as_secs().max(1)).unwrap_or(u32::MAX),
        }
    }

    /// Which dates moments have.
    pub(crate) fn wall(&self) -> &WallClock {
        &self.wall
    }

    /// Moments have the dates that they had in the process before.
    pub(crate) fn resume_wall(&mut self, wall: WallClock) {
        self.wall = wall;
    }

    /// What is the same for the URRs of all sessions.
    pub(crate) fn setting(&self) -> Setting {
        Setting {
            epoch_nanos: self.wall.epoch_nanos(),
            silence: self.traffic_silence,
        }
    }

    /// The next report that a session makes by itself.
    pub(crate) fn poll(&mut self) -> Option<(Seid, UsageReport)> {
        self.reports.pop_front()
    }

    /// When [`handle_timeout`](UsageMeasurement::handle_timeout) is to be called next.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The host's clock says that `now` is `host`.
    pub(crate) fn follow_wall(
        &mut self,
        now: Nanos,
        host: HostTime,
        table: &mut SessionTable,
        commands: &mut Commands,
    ) -> Option<WallChange> {
        let change = self.wall.follow(now, host.unix_nanos, host.slack)?;
        let epoch_nanos = self.wall.epoch_nanos();
        let mut others = Vec::new();
        for session in table.iter_mut() {
            if session.usage.redate(session.live.rules.urrs(), epoch_nanos) {
                others.push(session.index);
            }
        }
        for index in others {
            if let Some(session) = table.get_mut(index) {
                self.refresh(now, session, commands, false);
            }
        }
        Some(change)
    }

    /// A counter has reached a bound.
    pub(crate) fn handle_counter(
        &mut self,
        now: Nanos,
        session: &mut Session,
        event: CounterReached,
        commands: &mut Commands,
        usage_records: &mut UsageRecordQueue,
    ) {
        let CounterReached {
            urr,
            count,
            times,
            reached,
        } = event;
        add_packet_times(session, times.map(|times| (urr, times)));
        if session.is_dying() || session.pending_measurement.bounds_pending > 0 {
            return;
        }
        if session.is_in_between() {
            session.pending_measurement.missed = true;
            return;
        }
        let urrs = session.live.rules.urrs();
        if UsageAccounts::has_links(urrs) || urrs.iter().any(Urr::measures_before_qos) {
            // Other URRs may have to report with it, or usage before QoS enforcement: of one moment.
            session
                .pending_measurement
                .lists
                .get_or_insert_default()
                .reached
                .push((urr, reached));
            return query(session, commands);
        }
        let is_known = session.usage.is_stop_known(urr, reached);
        let reports = session.settle(now, &[(urr, count)], &[(urr, reached)]);
        // Packets that were credited back after they had been counted: not reached after all.
        let again = reports.is_empty() && !is_known;
        self.report(session, reports, usage_records);
        self.refresh(now, session, commands, again);
    }

    /// A worker has answered a query of the counts.
    pub(crate) fn handle_counts(
        &mut self,
        now: Nanos,
        session: &mut Session,
        result: Result<Option<UsageSnapshot>, WorkerFault>,
        commands: &mut Commands,
        usage_records: &mut UsageRecordQueue,
    ) {
        if session.is_dying() {
            return;
        }
        session.pending_measurement.is_querying = false;
        let reached = session.pending_measurement.take(|lists| &mut lists.reached);
        if session.is_in_between() {
            session.pending_measurement.missed = true;
            return;
        }
        let end_markers = session.pending_measurement.take(|lists| &mut lists.end_markers);
        let is_known = |(urr, reached): &(UrrId, Reached)| session.usage.is_stop_known(*urr, *reached);
        let mut again = !reached.iter().all(is_known);
        if let Ok(Some(snapshot)) = result {
            let mut reports = session.settle(now, &snapshot.counters, &reached);
            again &= reports.is_empty();
            reports.extend(session.report_end_markers(now, &snapshot.counters, &end_markers));
            self.report(session, reports, usage_records);
        }
        self.refresh(now, session, commands, again);
    }

    /// Evaluates the sessions whose timers have expired.
    pub(crate) fn handle_timeout(&mut self, now: Nanos, table: &mut SessionTable, commands: &mut Commands) {
        while let Some((at, index)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, index));
            let Some(session) = table.get_mut(index) else {
                continue;
            };
            session.pending_measurement.timer = NEVER;
            if session.is_dying() || session.is_in_between() {
                session.pending_measurement.missed = true;
                continue;
            }
            session.usage.tick(now, session.live.rules.urrs());
            // What has ended by itself stops first; the counts that come after it are final.
            self.refresh(now, session, commands, false);
            query(session, commands);
            self.set_timer(session, None);
        }
    }

    fn report(
        &mut self,
        session: &mut Session,
        reports: Vec<UsageReport>,
        usage_records: &mut UsageRecordQueue,
    ) {
        usage_records.enter_reports(session, &reports);
        let seid = session.seid;
        self.reports
            .extend(reports.into_iter().map(|report| (seid, report)));
    }

    /// Sends the bounds of the session's counters to its worker, if they differ from what it has or if `again`, and
    /// sets the session's timer.
    pub(crate) fn refresh(
        &mut self,
        now: Nanos,
        session: &mut Session,
        commands: &mut Commands,
        again: bool,
    ) {
        if session.is_dying() {
            return;
        }
        if session.is_in_between() {
            session.pending_measurement.missed |= again;
            return;
        }
        let again = again | std::mem::take(&mut session.pending_measurement.missed);
        let bounds = if session.usage.acts() {
            session.usage.unsent_bounds(session.live.rules.urrs(), again)
        } else {
            Vec::new()
        };
        let wanted = session.deadline();
        if !bounds.is_empty() {
            session.pending_measurement.bounds_pending += 1;
            let worker = commands.buckets.owner(session.bucket);
            let change = SessionChange::Bound(session.index, bounds);
            commands.apply(op(session, Role::SetBounds), worker, change);
        }
        self.set_timer(session, wanted.map(|at| at.max(now)));
        query_end_markers(session, commands);
    }

    fn set_timer(&mut self, session: &mut Session, wanted: Option<Nanos>) {
        let wanted = wanted.filter(|_| !session.pending_measurement.is_querying);
        let wanted = wanted.unwrap_or(NEVER);
        let old = std::mem::replace(&mut session.pending_measurement.timer, wanted);
        if old == wanted {
            return;
        }
        if old != NEVER {
            self.timers.remove(&(old, session.index));
        }
        if wanted != NEVER {
            self.timers.insert((wanted, session.index));
        }
    }

    /// The session is gone: its timer ends.
    pub(crate) fn forget(&mut self, session: &mut Session) {
        self.set_timer(session, None);
    }

    /// Gives an image that is about to be sent the bounds that its counters begin with.
    pub(crate) fn fill_bounds(&self, now: Nanos, session: &Session, work: &Work, image: &mut SessionImage) {
        let urrs = image.rules.urrs();
        image.block.get_or_insert_default().bounds = match work {
            Work::Supersede(..) => UsageAccounts::new(self.setting()).preview_bounds(now, urrs, &[]),
            Work::Modify(prepared) if !prepared.fresh.is_empty() => {
                let mut accounts = session.usage.clone();
                accounts.close(&prepared.fresh);
                accounts.preview_bounds(now, urrs, &prepared.renewed)
            }
            Work::Establish(prepared) | Work::Modify(prepared) => {
                session.usage.preview_bounds(now, urrs, &prepared.renewed)
            }
            Work::Delete | Work::Export(_) => Vec::new(),
        };
    }
}

/// As many downlink packets of a URR as its threshold were dropped. The report is made with the counts, which linked
/// URRs need.
pub(crate) fn handle_dropped(session: &mut Session, urr: UrrId, commands: &mut Commands) {
    let rule = session.live.rules.urr(urr);
    let is_asked = rule.is_some_and(|urr| urr.reports_dropped() && urr.dropped_threshold().is_some());
    if is_asked && session.usage.dropped(urr) {
        query(session, commands);
    }
}

/// An End Marker has come for a PDR: those of its URRs that report it report what they have measured
/// (TS 29.244 §5.2.2.5). End Markers until that report count as one.
pub(crate) fn handle_end_marker(session: &mut Session, pdr: PdrId, commands: &mut Commands) {
    let rules = Arc::clone(&session.live.rules);
    let Some(pdr) = rules.pdr(pdr) else {
        return;
    };
    for urr in rules.reports_end_markers(pdr) {
        if !session.pending_measurement.lists.end_markers.contains(&urr) {
            session
                .pending_measurement
                .lists
                .get_or_insert_default()
                .end_markers
                .push(urr);
        }
    }
    query_end_markers(session, commands);
}

/// The worker has set bounds.
pub(crate) fn handle_bounds_set(session: &mut Session) {
    session.pending_measurement.bounds_pending = session.pending_measurement.bounds_pending.saturating_sub(1);
}

/// Queries the counts that End Markers are reported with, as soon as they can be had.
fn query_end_markers(session: &mut Session, commands: &mut Commands) {
    if !session.pending_measurement.lists.end_markers.is_empty() && !session.is_in_between() {
        query(session, commands);
    }
}

/// Queries a session's counts, once.
fn query(session: &mut Session, commands: &mut Commands) {
    if !std::mem::replace(&mut session.pending_measurement.is_querying, true) {
        let worker = commands.buckets.owner(session.bucket);
        commands.query(op(session, Role::QueryUsage), worker);
    }
}

fn op(session: &Session, role: Role) -> Op {
    Op::new(session.index, 0, role)
}

/// Which terms of its URR an update gives anew.
pub(crate) fn renewed(update: &UrrUpdate) -> (UrrId, Renewed) {
    let none = UrrTermsUpdate::default();
    let terms = update.terms.as_deref().unwrap_or(&none);
    let renewed = Renewed {
        volume_threshold: is_given(&update.volume_threshold),
        volume_quota: is_given(&update.volume_quota),
        time_threshold: is_given(&update.time_threshold),
        time_quota: is_given(&update.time_quota),
        event_threshold: is_given(&terms.event_threshold),
        event_quota: is_given(&terms.event_quota),
        period: is_given(&update.measurement_period),
        holding: is_given(&terms.quota_holding_time),
        validity: is_given(&terms.quota_validity_time),
        inactivity: is_given(&terms.inactivity_detection_time),
        monitoring: is_given(&terms.monitoring_time) || terms.additional_monitoring_times.is_some(),
        immediate_start: update.information.is_some(),
        measurement: false,
    };
    (update.id, renewed)
}

fn is_given<T>(edit: &Edit<T>) -> bool {
    !matches!(edit, Edit::Keep)
}
