//! What sessions' URRs do between requests: events of counters and timers in, reports out.
//!
//! Every session has its [`UsageAccounts`]. Here the accounts meet the workers: bounds of counters go out as
//! changes of their own, which touch no flow; what counters reach comes back; and where time is what matters, the
//! counts are asked for. Timers of all sessions stand in one ordered set, so that none is looked at before it is due.
//!
//! A worker answers in the order in which it was asked. So what a counter reached under bounds that are being replaced
//! comes before the answer to that, and means nothing: under the new bounds it will be told again.

use flow::{Nanos, PacketTimes, Reached, SessionIndex, UrrCount};
use rules::boxed_option::{Absent, BoxedOption};
use rules::image::{PacketsLeft, SessionChange, SessionImage, UsageSnapshot};
use rules::model::{Edit, PdrId, Urr, UrrId, UrrTermsUpdate, UrrUpdate};
use std::sync::Arc;
use usage::{Renewed, UsageAccounts, UsageReport, UsageTriggers};

use crate::changes::{Changes, Charging};
use crate::effect::{Effect, Seid, Ticket, WorkerFault};
use crate::progress::Role;
use crate::session::{Phase, Session, State, Waiting, WaitingRequest, Work};
use crate::sessions::Sessions;

/// The time of no timer.
const NEVER: Nanos = Nanos(u64::MAX);

/// What is under way for a session's accounts.
#[derive(Debug)]
pub(crate) struct Metering {
    /// The session's place among the timers, or [`NEVER`].
    timer: Nanos,
    /// The counts were asked for.
    is_looking: bool,
    /// Bounds that the worker has yet to confirm.
    bounding: u32,
    /// Something came that could not be made use of: the bounds are to be set again, which finds it again.
    missed: bool,
    lists: BoxedOption<Lists>,
}

/// What is to be remembered for a while.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// What is left of packet rates and on its way to another worker.
    lent: Vec<PacketsLeft>,
    /// What counters have told of since the counts were asked for.
    told: Vec<(UrrId, Reached)>,
    /// URRs that are to report an End Marker, each once.
    ended: Vec<UrrId>,
}

impl Absent for Lists {
    const ABSENT: &'static Self = &Lists {
        lent: Vec::new(),
        told: Vec::new(),
        ended: Vec::new(),
    };
}

impl Default for Metering {
    /// Nothing.
    fn default() -> Metering {
        Metering {
            timer: NEVER,
            is_looking: false,
            bounding: 0,
            missed: false,
            lists: BoxedOption::NONE,
        }
    }
}

impl Metering {
    /// What is left of packet rates is on its way to another worker.
    pub(crate) fn lend(&mut self, left: &[PacketsLeft]) {
        self.take_lent();
        if !left.is_empty() {
            self.lists.get_or_insert_default().lent = left.to_vec();
        }
    }

    pub(crate) fn take_lent(&mut self) -> Vec<PacketsLeft> {
        self.take(|lists| &mut lists.lent)
    }

    /// Takes one of the lists, and gives their room back when nothing is left.
    fn take<T>(&mut self, of: impl FnOnce(&mut Lists) -> &mut Vec<T>) -> Vec<T> {
        let Some(lists) = self.lists.as_mut() else {
            return Vec::new();
        };
        let taken = std::mem::take(of(lists));
        let Lists { lent, told, ended } = lists;
        if lent.is_empty() && told.is_empty() && ended.is_empty() {
            self.lists.clear();
        }
        taken
    }
}

impl Sessions {
    /// A counter has reached something, as the worker that has the session tells, and `times` is when packets of its
    /// URR came that it has told of nobody yet. Reports come from [`poll_usage`](Sessions::poll_usage).
    pub fn counter_reached(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        (urr, count): (UrrId, UrrCount),
        times: Option<PacketTimes>,
        reached: Reached,
    ) {
        self.packets_heard(index, times.map(|times| (urr, times)));
        let Some(session) = self.session_mut(index).filter(|session| !session.is_dying()) else {
            return;
        };
        if session.metering.bounding > 0 {
            return;
        }
        if session.is_in_between() {
            session.metering.missed = true;
            return;
        }
        let urrs = session.live.rules.urrs();
        if UsageAccounts::has_links(urrs) || urrs.iter().any(Urr::measures_before_qos) {
            // Others may have to report with it, or of what came before QoS: of one moment.
            session
                .metering
                .lists
                .get_or_insert_default()
                .told
                .push((urr, reached));
            return self.look(index);
        }
        let is_known = session.usage.is_stop_known(urr, reached);
        let reports = session.settle(now, &[(urr, count)], &[(urr, reached)]);
        // Packets that were taken back after they had been counted: not reached after all.
        let again = reports.is_empty() && !is_known;
        self.give_out(index, reports);
        self.follow_usage(now, index, again);
    }

    /// Downlink packets of a URR were dropped, as many as its threshold says. The report comes with the counts, which
    /// linked URRs need.
    pub fn dropped_reached(&mut self, index: SessionIndex, urr: UrrId) {
        let Some(session) = self.session_mut(index).filter(|session| !session.is_dying()) else {
            return;
        };
        let rule = session.live.rules.urr(urr);
        let is_asked = rule.is_some_and(|urr| urr.reports_dropped() && urr.dropped_threshold().is_some());
        if is_asked && session.usage.dropped(urr) {
            self.look(index);
        }
    }

    /// An End Marker has come for a PDR: those of its URRs that tell of it report what they have measured
    /// (TS 29.244 §5.2.2.5). Another one that comes before they have is the same.
    pub fn end_marker_received(&mut self, index: SessionIndex, pdr: PdrId) {
        let Some(session) = self.session_mut(index).filter(|session| !session.is_dying()) else {
            return;
        };
        let rules = Arc::clone(&session.live.rules);
        let Some(pdr) = rules.pdr(pdr) else {
            return;
        };
        for urr in rules.reports_end_markers(pdr) {
            if !session.metering.lists.ended.contains(&urr) {
                session.metering.lists.get_or_insert_default().ended.push(urr);
            }
        }
        self.tell_ended(index);
    }

    /// The node downstream has told the start of a Pause of Charging: what it is for stops, once nothing else is under
    /// way in the session (TS 29.244 §5.30). Nobody hears of the outcome; it has no deadline, since it is not told
    /// again.
    pub fn pause_charging(&mut self, now: Nanos, ticket: Ticket, index: SessionIndex) {
        let Some(session) = self.session_mut(index).filter(|session| !session.is_dying()) else {
            return;
        };
        let last = session.waiting.back().map(|waiting| &waiting.request);
        if !matches!(last, Some(WaitingRequest::Pause)) {
            let request = WaitingRequest::Pause;
            session
                .waiting
                .get_or_insert_default()
                .push_back(Waiting { ticket, request });
        }
        self.next_request(now, index);
    }

    /// Pauses charging, if there is any.
    pub(crate) fn begin_pause(&mut self, now: Nanos, index: SessionIndex, ticket: Ticket) {
        let is_charging = |session: &mut Session| session.live.rules.is_charging();
        if !self.session_mut(index).is_some_and(is_charging) {
            return;
        }
        let mut changes = Changes {
            charging: Some(Charging::Paused),
            ..Changes::default()
        };
        if let Err(refusal) = self.begin_modify(now, index, ticket, None, &mut changes) {
            self.refuse(ticket, refusal);
        }
    }

    /// Asks for the counts that End Markers are reported with, as soon as they can be had.
    fn tell_ended(&mut self, index: SessionIndex) {
        let waits = |session: &Session| !session.metering.lists.ended.is_empty() && !session.is_in_between();
        if self.session_mut(index).is_some_and(|session| waits(session)) {
            self.look(index);
        }
    }

    /// The next report that a session makes by itself.
    pub fn poll_usage(&mut self) -> Option<(Seid, UsageReport)> {
        self.usage.pop_front()
    }

    fn give_out(&mut self, index: SessionIndex, reports: Vec<UsageReport>) {
        let Some(seid) = self.session_mut(index).map(|session| session.seid) else {
            return;
        };
        self.enter_reports(index, &reports);
        self.usage
            .extend(reports.into_iter().map(|report| (seid, report)));
    }

    /// Tells the worker where the counters are to tell and to stop, if that is not what it knows or if `again`, and
    /// sets the session's timer.
    pub(crate) fn follow_usage(&mut self, now: Nanos, index: SessionIndex, again: bool) {
        let Some(session) = self.session_mut(index).filter(|session| !session.is_dying()) else {
            return;
        };
        if session.is_in_between() {
            session.metering.missed |= again;
            return;
        }
        let again = again | std::mem::take(&mut session.metering.missed);
        let bounds = if session.usage.acts() {
            session.usage.unsent_bounds(session.live.rules.urrs(), again)
        } else {
            Vec::new()
        };
        let (bucket, wanted) = (session.bucket, session.deadline());
        if !bounds.is_empty() {
            session.metering.bounding += 1;
            let worker = self.config.owner(bucket);
            self.send(index, 0, Role::Bound, worker, SessionChange::Bound(index, bounds));
        }
        self.set_timer(index, wanted.map(|at| at.max(now)));
        self.tell_ended(index);
    }

    /// Asks for a session's counts, once.
    fn look(&mut self, index: SessionIndex) {
        let Some(session) = self.session_mut(index) else {
            return;
        };
        if std::mem::replace(&mut session.metering.is_looking, true) {
            return;
        }
        let worker = session.bucket;
        let worker = self.config.owner(worker);
        let op = self.new_op(index, 0, Role::Look);
        self.effects.push_back(Effect::Query {
            worker,
            op,
            session: index,
        });
    }

    /// The worker has set bounds.
    pub(crate) fn bounded(&mut self, index: SessionIndex) {
        if let Some(session) = self.session_mut(index) {
            session.metering.bounding = session.metering.bounding.saturating_sub(1);
        }
    }

    /// The worker has told the counts.
    pub(crate) fn looked(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        result: Result<Option<UsageSnapshot>, WorkerFault>,
    ) {
        let Some(session) = self.session_mut(index).filter(|session| !session.is_dying()) else {
            return;
        };
        session.metering.is_looking = false;
        let told = session.metering.take(|lists| &mut lists.told);
        if session.is_in_between() {
            session.metering.missed = true;
            return;
        }
        let ended = session.metering.take(|lists| &mut lists.ended);
        let is_known = |(urr, reached): &(UrrId, Reached)| session.usage.is_stop_known(*urr, *reached);
        let mut again = !told.iter().all(is_known);
        if let Ok(Some(snapshot)) = result {
            let mut reports = session.settle(now, &snapshot.counters, &told);
            again &= reports.is_empty();
            reports.extend(session.report_ended(now, &snapshot.counters, &ended));
            self.give_out(index, reports);
        }
        self.follow_usage(now, index, again);
    }

    /// The moment has come that a session's accounts waited for.
    pub(crate) fn expire_usage(&mut self, now: Nanos) {
        while let Some((at, index)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, index));
            let Some(session) = self.session_mut(index) else {
                continue;
            };
            session.metering.timer = NEVER;
            if session.is_dying() || session.is_in_between() {
                session.metering.missed = true;
                continue;
            }
            session.usage.tick(now, session.live.rules.urrs());
            // What has ended by itself stops first; the counts that come behind that are final.
            self.follow_usage(now, index, false);
            self.look(index);
            self.set_timer(index, None);
        }
    }

    fn set_timer(&mut self, index: SessionIndex, wanted: Option<Nanos>) {
        let Some(session) = self.session_mut(index) else {
            return;
        };
        let wanted = wanted.filter(|_| !session.metering.is_looking);
        let wanted = wanted.unwrap_or(NEVER);
        let old = std::mem::replace(&mut session.metering.timer, wanted);
        if old == wanted {
            return;
        }
        if old != NEVER {
            self.timers.remove(&(old, index));
        }
        if wanted != NEVER {
            self.timers.insert((wanted, index));
        }
    }

    /// The session is gone.
    pub(crate) fn end_usage(&mut self, index: SessionIndex) {
        self.set_timer(index, None);
    }

    /// Gives an image that is about to be sent the bounds that its counters begin with.
    pub(crate) fn fill_bounds(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        work: &Work,
        image: &mut SessionImage,
    ) {
        let setting = self.usage_setting();
        let Some(session) = self.session_mut(index) else {
            return;
        };
        let urrs = image.rules.urrs();
        image.block.get_or_insert_default().bounds = match work {
            Work::Supersede(..) => UsageAccounts::new(setting).preview_bounds(now, urrs, &[]),
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

impl Session {
    /// Whether what the worker counts cannot be taken for the accounts': it has not got the rules that are live, is
    /// about to lose the session, or two workers have it.
    fn is_in_between(&self) -> bool {
        let sent = match &self.state {
            State::Settled | State::Dying(_) => false,
            // What ends the session in its worker is on its way: the last counts come with the answer.
            State::Changing(change) => change.sent || change.work.role() == Role::Remove,
            State::RollingBack(_) => true,
        };
        sent || self.phase == Phase::Twin
    }

    fn settle(
        &mut self,
        now: Nanos,
        counted: &[(UrrId, UrrCount)],
        told: &[(UrrId, Reached)],
    ) -> Vec<UsageReport> {
        self.usage.evaluate(now, self.live.rules.urrs(), counted, told)
    }

    /// The reports of the URRs that have an End Marker to tell of.
    fn report_ended(
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

    fn deadline(&self) -> Option<Nanos> {
        self.usage.deadline(self.live.rules.urrs())
    }
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
