//! What one URR does by itself: thresholds, quotas, periods and times, and where its counter is to stop.
//!
//! Everything is counted from the URR's last report. Volumes are compared by the worker's counters at every packet;
//! this state sets the bounds ([`UrrState::bounds`]) and draws the consequences.

mod exhausted;
mod parts;
mod renewed;
mod traffic;

use flow::{Bounds, CounterLimit, LimitAction, Reached, UrrCount, Volumes};
use rules::model::{
    MeasurementInformation, MeasurementMethod, MonitoringTime, Multiplier, ReportingTriggers, UnixSeconds,
    Urr, Volume,
};

pub use self::exhausted::Exhausted;
use self::parts::{packets, reached, subtract, there, volume, without_zero};
pub use self::renewed::Renewed;
pub use self::traffic::{Activity, TrafficDetection};
use crate::bounds::UrrBounds;
use crate::counter::{CounterBase, Used};
use crate::moment::{Moment, NANOS, Setting};
use crate::usage_report::{Seconds, UsageTriggers};

/// Keeps the room for bounds in a session's block without being one that is ever reached.
const UNREACHABLE: u64 = (1 << 60) - 2;

/// Due at once where a quota of nothing is given, if there is usage to report.
const ZERO_QUOTA: UsageTriggers =
    UsageTriggers(UsageTriggers::VOLQU.0 | UsageTriggers::TIMQU.0 | UsageTriggers::EVEQU.0);

/// Reports for these reasons alone leave events beyond a threshold to the next.
const COUNTS_ON: UsageTriggers = UsageTriggers(
    UsageTriggers::EVETH.0
        | UsageTriggers::VOLTH.0
        | UsageTriggers::TIMTH.0
        | UsageTriggers::PERIO.0
        | UsageTriggers::LIUSA.0,
);

/// The state of one URR beside its counts. Times in nanoseconds; what is left is counted from the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrrState {
    /// Octets until the next report.
    pub volume_threshold: Volume,
    /// Octets between reports: where the threshold starts again.
    pub volume_again: Volume,
    /// Octets until the quota is used up.
    pub volume_quota: Volume,
    /// Measured time until the next report.
    pub time_threshold: Option<i64>,
    /// Measured time between reports.
    pub time_again: Option<i64>,
    /// Measured time until the quota is used up.
    pub time_quota: Option<i64>,
    /// Events until the next report.
    pub event_threshold: Option<u64>,
    /// Events between reports.
    pub event_again: Option<u64>,
    /// Events until the quota is used up.
    pub event_quota: Option<u64>,
    /// The time measured since the last report, until `running`.
    pub measured: i64,
    /// How fast the time of a credit pool runs, in billionths: the multipliers of the members whose times run. 0: of
    /// another one, as time does.
    pub rate: u64,
    /// Since when the time runs, if it does.
    pub running: Option<Moment>,
    /// Whether time metering has begun: with the first packet, or at once (ISTM).
    pub started: bool,
    /// What is used up.
    pub exhausted: Exhausted,
    /// When the next periodic report is due.
    pub period: Option<Moment>,
    /// When the quotas lose their validity.
    pub validity: Option<Moment>,
    /// For the Quota Holding Time.
    pub holding: Option<Activity>,
    /// For the Inactivity Detection Time, while the time runs.
    pub active: Option<Activity>,
    /// The measurement of time is stopped until the next packet: none came for the Inactivity Detection Time.
    pub is_idle: bool,
    /// The next monitoring time.
    pub monitoring: Option<Moment>,
    /// The detection of the start and stop of traffic.
    pub traffic: TrafficDetection,
    /// Packets and octets since the last report, when it was last checked.
    pub packets: u64,
    /// The octets.
    pub seen: u64,
    /// What is due at the next report, which is on its way.
    pub pending: UsageTriggers,
}

impl UrrState {
    /// Whether `urr` does anything by itself, or measures time.
    pub(crate) fn is_needed(urr: &Urr) -> bool {
        let terms = urr.terms();
        urr.method.contains(MeasurementMethod::DURAT)
            || reports_traffic(urr)
            || urr.volume_threshold.is_some()
            || urr.volume_quota.is_some()
            || urr.time_threshold.is_some()
            || urr.time_quota.is_some()
            || urr.measurement_period.is_some()
            || terms.event_threshold.is_some()
            || terms.event_quota.is_some()
            || terms.quota_holding_time.is_some()
            || terms.quota_validity_time.is_some()
            || terms.dropped_dl_threshold.is_some()
            || terms.monitoring_times().next().is_some()
    }

    /// That of a new URR.
    pub(crate) fn begin(urr: &Urr, now: Moment, setting: Setting) -> Self {
        let mut state = Self::default();
        state.renew(urr, Renewed::ALL, now, setting);
        state
    }

    /// A request has given these terms anew. What is measured counts against the new ones (TS 29.244 §5.2.2.3.1).
    pub(crate) fn renew(&mut self, urr: &Urr, what: Renewed, now: Moment, setting: Setting) {
        let terms = urr.terms();
        if what.measurement {
            (self.measured, self.running, self.rate) = (0, None, 0);
            (self.started, self.is_idle, self.traffic) = (false, false, TrafficDetection::Off);
        }
        if !urr.counts_events() {
            (self.event_threshold, self.event_again, self.event_quota) = (None, None, None);
            self.exhausted.0 &= !Exhausted::EVENTS;
        }
        if what.volume_threshold {
            self.volume_again = volume(urr.volume_threshold.as_deref());
            self.volume_threshold = self.volume_again;
        }
        if what.time_threshold {
            self.time_again = time(urr.time_threshold);
            self.time_threshold = self.time_again;
        }
        if what.event_threshold {
            self.event_again = terms.event_threshold.map(u64::from);
            self.event_threshold = self.event_again;
        }
        if what.event_quota {
            self.grant_events(terms.event_quota.map(u64::from));
        }
        if what.volume_quota {
            self.grant_volume(volume(urr.volume_quota.as_deref()));
        }
        if what.time_quota {
            self.grant_time(urr.time_quota.map(nanos));
        }
        if what.monitoring {
            self.monitoring = next_monitoring(urr, now, setting.epoch_nanos);
        }
        if what.period {
            self.period = time(urr.measurement_period).map(|period| now.after(period));
        }
        if what.validity || what.any_quota() {
            self.validity = time(terms.quota_validity_time).map(|validity| now.after(validity));
        }
        if time(terms.quota_holding_time).is_none() {
            self.holding = None;
        } else if what.holding || what.any_quota() {
            self.holding = Some(Activity::from(now, self.packets));
        }
        if what.inactivity {
            (self.active, self.is_idle) = (None, false);
        }
        self.traffic = match (reports_traffic(urr), self.traffic) {
            (false, _) => TrafficDetection::Off,
            (true, TrafficDetection::Off) => TrafficDetection::Awaited,
            (true, known) => known,
        };
        self.started |= what.immediate_start && urr.information.contains(MeasurementInformation::ISTM);
        self.run(urr, now);
    }

    /// A quota of nothing is used up from the start, and what was measured until then is reported (TS 29.244
    /// §5.2.2.3.1), whatever triggers there are.
    fn grant_volume(&mut self, quota: Volume) {
        self.volume_quota = quota;
        self.exhausted.0 &= Exhausted::TIME | Exhausted::EVENTS;
        let gone = reached(quota, [0; 3]);
        if gone != 0 {
            self.exhausted.0 |= gone;
            self.pending |= UsageTriggers::VOLQU;
        }
    }

    fn grant_events(&mut self, quota: Option<u64>) {
        self.event_quota = quota;
        self.exhausted.0 &= Exhausted::VOLUME | Exhausted::TIME;
        if quota == Some(0) {
            self.exhausted.0 |= Exhausted::EVENTS;
            self.pending |= UsageTriggers::EVEQU;
        }
    }

    fn grant_time(&mut self, quota: Option<i64>) {
        self.time_quota = quota;
        self.exhausted.0 &= Exhausted::VOLUME | Exhausted::EVENTS;
        if quota == Some(0) {
            self.exhausted.0 |= Exhausted::TIME;
            self.pending |= UsageTriggers::TIMQU;
        }
    }

    /// Starts or stops the measurement of time.
    pub(crate) fn run(&mut self, urr: &Urr, now: Moment) {
        if urr.pool().is_some() {
            // Its members' times are its own, and say when it runs.
            let rate = self.running.map_or(0, |_| self.rate);
            return self.run_at(urr, rate, now);
        }
        if self.rate != 0 {
            self.measured = self.measured_at(now);
            (self.rate, self.running) = (0, None);
        }
        let runs = self.started
            && urr.method.contains(MeasurementMethod::DURAT)
            && !urr.is_paused()
            && !self.is_idle
            && !self.exhausted.has(Exhausted::STOPS_TIME);
        if !runs {
            self.measured = self.measured_at(now);
            (self.running, self.active) = (None, None);
        } else if self.running.is_none() {
            self.running = Some(now);
        }
        if runs && self.active.is_none() && inactivity(urr).is_some() {
            self.active = Some(Activity::from(now, self.packets));
        }
    }

    /// Sets how fast the time of a credit pool runs, in billionths; 0 while it is paused, or its quotas
    /// have ended.
    pub(crate) fn run_at(&mut self, urr: &Urr, rate: u64, now: Moment) {
        let stops = urr.is_paused()
            || !urr.method.contains(MeasurementMethod::DURAT)
            || self.exhausted.has(Exhausted::STOPS_TIME);
        let rate = if stops { 0 } else { rate };
        if rate != self.rate || self.running.is_some() != (rate != 0) {
            self.measured = self.measured_at(now);
            (self.rate, self.running) = (rate, (rate != 0).then_some(now));
        }
        self.active = None;
    }

    /// A member of a credit pool turns out to have measured so much more, or less.
    pub(crate) fn correct(&mut self, nanos: i64, multiplier: Multiplier) {
        if self.running.is_some() {
            self.measured = self
                .measured
                .saturating_add(times(nanos, multiplier.billionths()));
        }
    }

    /// The time measured since the last report, nanoseconds.
    pub(crate) fn measured_at(&self, now: Moment) -> i64 {
        let running = self.running.map_or(0, |since| now.since(since).max(0));
        let running = match self.rate {
            0 => running,
            rate => times(running, rate),
        };
        self.measured.saturating_add(running)
    }

    /// How long it takes until so much more is measured.
    fn takes(&self, nanos: i64) -> i64 {
        match self.rate {
            0 => nanos,
            rate => {
                let billionths = i128::from(nanos) * i128::from(Multiplier::ONE) + i128::from(rate - 1);
                i64::try_from(billionths / i128::from(rate)).unwrap_or(i64::MAX)
            }
        }
    }

    /// The whole seconds measured since the last report.
    pub(crate) fn seconds(&self, now: Moment) -> Seconds {
        Seconds(u32::try_from(self.measured_at(now).max(0) / NANOS).unwrap_or(u32::MAX))
    }

    /// What the time makes due without a look at the counts; quotas that it ends are used up at once.
    pub(crate) fn tick(&mut self, urr: &Urr, now: Moment) {
        let mut due = UsageTriggers::default();
        let measured = self.measured_at(now);
        if self.time_threshold.is_some_and(|left| measured >= left) {
            due |= asked(urr, ReportingTriggers::TIMTH, UsageTriggers::TIMTH);
        }
        let has_time = !self.exhausted.has(Exhausted::TIME);
        if has_time && self.time_quota.is_some_and(|left| measured >= left) {
            self.exhausted.0 |= Exhausted::TIME;
            due |= self.used_up(urr, ReportingTriggers::TIMQU);
        }
        if self.validity.is_some_and(|at| at <= now) {
            self.validity = None;
            self.exhausted.0 |= Exhausted::VOID;
            self.traffic.void();
            due |= asked(urr, ReportingTriggers::QUVTI, UsageTriggers::QUVTI);
        }
        if let (Some(at), Some(period)) = (self.period.filter(|at| *at <= now), time(urr.measurement_period))
        {
            let missed = now.since(at) / period;
            self.period = Some(at.after(period.saturating_mul(missed + 1)));
            due |= asked(urr, ReportingTriggers::PERIO, UsageTriggers::PERIO);
        }
        self.pending |= due;
        self.run(urr, now);
    }

    /// What is reported when a quota is used up that `wanted` is about: always where no threshold of its kind is
    /// provisioned, else if the control plane asks for it (TS 29.244 §5.2.2.2.1; of credit pools §5.2.2.3.2).
    fn used_up(&self, urr: &Urr, wanted: ReportingTriggers) -> UsageTriggers {
        let (trigger, has_threshold) = match wanted {
            ReportingTriggers::VOLQU => (UsageTriggers::VOLQU, there(without_zero(self.volume_again)) != 0),
            ReportingTriggers::TIMQU => (UsageTriggers::TIMQU, self.time_again.is_some()),
            _ => (UsageTriggers::EVEQU, self.event_again.is_some()),
        };
        match has_threshold {
            true => asked(urr, wanted, trigger),
            false => trigger,
        }
    }

    /// Nothing was measured since the last report: a quota of nothing calls for none then.
    pub(crate) fn has_nothing_to_report(&mut self) {
        self.pending.0 &= !ZERO_QUOTA.0;
    }

    /// Draws the consequences of what was used since the last report, and of what the counter reached. Returns what
    /// calls for a report now.
    pub(crate) fn evaluate(
        &mut self,
        urr: &Urr,
        spent: &Used,
        newly: Reached,
        now: Moment,
        setting: Setting,
    ) -> UsageTriggers {
        let used = spent.count;
        // While all stops, what a packet does not fit into says nothing of the other quotas.
        let limits = match self.exhausted.has(Exhausted::STOPS_ALL) {
            true => 0,
            false => newly.limits,
        };
        self.tick(urr, now);
        let octets = [spent.total, used.ul_octets, used.dl_octets];
        let mut due = UsageTriggers::default();
        if reached(without_zero(self.volume_threshold), octets) != 0 {
            due |= asked(urr, ReportingTriggers::VOLTH, UsageTriggers::VOLTH);
        }
        let stopped = limits & there(self.volume_quota);
        let gone = (reached(self.volume_quota, octets) | stopped) & !self.exhausted.0;
        if gone != 0 {
            self.exhausted.0 |= gone;
            due |= self.used_up(urr, ReportingTriggers::VOLQU);
        }
        if self.has_events_due(urr, used) {
            due |= UsageTriggers::EVETH;
        }
        let has_events = !self.exhausted.has(Exhausted::EVENTS);
        if has_events && self.event_quota.is_some_and(|left| used.events >= left) {
            self.exhausted.0 |= Exhausted::EVENTS;
            due |= self.used_up(urr, ReportingTriggers::EVEQU);
        }
        let count = packets(used);
        due |= self.detect_holding_timeout(urr, count, now);
        due |= self.detect_traffic(urr, count, newly, now, setting);
        self.detect_inactivity(urr, count, now);
        self.started |= count > 0;
        (self.packets, self.seen) = (count, spent.raw);
        self.run(urr, now);
        if self.monitoring.is_some_and(|at| at <= now) {
            due |= UsageTriggers::MONIT;
        }
        due | self.pending
    }

    /// Whether traffic starts, or has stopped: no packet has come for as long as that takes. What quotas stop, or a
    /// pause, is no silence.
    fn detect_traffic(
        &mut self,
        urr: &Urr,
        packets: u64,
        newly: Reached,
        now: Moment,
        setting: Setting,
    ) -> UsageTriggers {
        let came = packets > self.packets;
        let comes = came && !matches!(self.traffic, TrafficDetection::Voided(_)) || newly.trapped;
        if let TrafficDetection::Voided(activity) = self.traffic {
            self.traffic = TrafficDetection::Resumed(activity);
        }
        if self.traffic.is_awaited() && comes {
            self.traffic = TrafficDetection::Ongoing(Activity::from(now, packets));
            return asked(urr, ReportingTriggers::START, UsageTriggers::START);
        }
        let is_stopped = urr.is_paused() || self.exhausted.0 != 0;
        let tells_stop = urr.triggers.contains(ReportingTriggers::STOPT);
        let Some(activity) = self.traffic.activity_mut() else {
            return UsageTriggers::default();
        };
        if is_stopped {
            *activity = Activity::from(now, packets);
        } else if !activity.update(packets, now)
            && tells_stop
            && now >= activity.at.after(nanos(setting.silence))
        {
            self.traffic = TrafficDetection::Awaited;
            return UsageTriggers::STOPT;
        }
        UsageTriggers::default()
    }

    /// The measurement of time stops when no packet has come for the Inactivity Detection Time, and resumes with the
    /// next.
    fn detect_inactivity(&mut self, urr: &Urr, packets: u64, now: Moment) {
        if self.is_idle && packets != self.packets {
            self.is_idle = false;
        }
        let (Some(active), Some(silence)) = (&mut self.active, inactivity(urr)) else {
            return;
        };
        if active.update(packets, now) {
            return;
        }
        let end = active.at.after(silence);
        if now >= end {
            self.measured = self.measured_at(end);
            (self.running, self.active, self.is_idle) = (None, None, true);
        }
    }

    /// The process's clock has the epoch `new` in place of `old`: times that have not come yet come at other
    /// moments. Returns whether there are any.
    pub(crate) fn redate(&mut self, urr: &Urr, old: u64, new: u64) -> bool {
        let Some(at) = self.monitoring else { return false };
        let times = urr.terms().monitoring_times().map(|time| time.at);
        let to_come = times.filter(|time| on_clock(*time, old) >= at);
        self.monitoring = to_come.map(|time| on_clock(time, new)).min();
        true
    }

    /// The monitoring time that was next has come: what is subsequent to it holds from now on
    /// (TS 29.244 §5.2.2.2.1). Called between the reports of the usage before and after.
    pub(crate) fn monitored(&mut self, urr: &Urr, now: Moment, epoch_nanos: u64) {
        let Some(at) = self.monitoring else { return };
        let times = urr.terms().monitoring_times();
        // Of several that have passed, each may say something.
        let passed = times.filter(|one| {
            let moment = on_clock(one.at, epoch_nanos);
            moment >= at && moment <= now
        });
        for MonitoringTime { then, .. } in passed {
            if let Some(threshold) = then.volume_threshold {
                (self.volume_threshold, self.volume_again) = (threshold, threshold);
            }
            if let Some(threshold) = time(then.time_threshold) {
                (self.time_threshold, self.time_again) = (Some(threshold), Some(threshold));
            }
            if let Some(quota) = then.volume_quota {
                self.grant_volume(quota);
            }
            if let Some(quota) = then.time_quota {
                self.grant_time(Some(nanos(quota)));
            }
            if let Some(threshold) = then.event_threshold.map(u64::from) {
                (self.event_threshold, self.event_again) = (Some(threshold), Some(threshold));
            }
            if let Some(quota) = then.event_quota {
                self.grant_events(Some(quota.into()));
            }
        }
        self.monitoring = next_monitoring(urr, now, epoch_nanos);
        self.run(urr, now);
    }

    /// Whether no packet has come for the Quota Holding Time.
    fn detect_holding_timeout(&mut self, urr: &Urr, packets: u64, now: Moment) -> UsageTriggers {
        let (Some(activity), Some(seconds)) = (&mut self.holding, urr.terms().quota_holding_time) else {
            return UsageTriggers::default();
        };
        if !activity.update(packets, now) && now >= activity.at.after(nanos(seconds)) {
            self.holding = None;
            self.exhausted.0 |= Exhausted::VOID;
            self.traffic.void();
            return asked(urr, ReportingTriggers::QUHTI, UsageTriggers::QUHTI);
        }
        UsageTriggers::default()
    }

    /// Dropped packets have reached their threshold: that is due.
    pub(crate) fn dropped(&mut self) {
        self.pending |= UsageTriggers::DROTH;
    }

    /// A report that measures nothing is made for these reasons.
    pub(crate) fn reported_moment(&mut self, triggers: UsageTriggers) {
        self.pending = UsageTriggers(self.pending.0 & !triggers.0);
    }

    /// Whether there are as many events among `used` as the threshold is, and that is to be reported.
    pub(crate) fn has_events_due(&self, urr: &Urr, used: UrrCount) -> bool {
        let is_reached = |left: u64| left > 0 && used.events >= left;
        self.event_threshold.is_some_and(is_reached) && urr.triggers.contains(ReportingTriggers::EVETH)
    }

    /// The events among `used` that a report for these reasons has: it says that as many came as its threshold is,
    /// where nothing but thresholds and periods calls for it; the others are those of the next.
    pub(crate) fn events_to_report(&self, used: UrrCount, triggers: UsageTriggers) -> u64 {
        let by_threshold = triggers.contains(UsageTriggers::EVETH) && triggers.0 & !COUNTS_ON.0 == 0;
        let left = self.event_threshold.filter(|_| by_threshold);
        left.map_or(used.events, |left| left.min(used.events))
    }

    /// A report of `used` and `seconds` is made for these reasons: thresholds start again if one was among them, else
    /// they have so much less to go; quotas have so much less (TS 29.244 §5.2.2.3.1).
    pub(crate) fn reported(
        &mut self,
        used: UrrCount,
        seconds: Seconds,
        triggers: UsageTriggers,
        now: Moment,
    ) {
        let time = i64::from(seconds.0).saturating_mul(NANOS);
        self.measured = self.measured_at(now).saturating_sub(time);
        self.running = self.running.map(|_| now);
        self.pending = UsageTriggers::default();
        let less = |left: Option<i64>| left.map(|left| left.saturating_sub(time));
        let fewer = |left: Option<u64>| left.map(|left| left.saturating_sub(used.events));
        if triggers.intersects(UsageTriggers::VOLTH | UsageTriggers::TIMTH | UsageTriggers::EVETH) {
            self.volume_threshold = self.volume_again;
            self.time_threshold = self.time_again;
            self.event_threshold = self.event_again;
        } else {
            self.volume_threshold = subtract(self.volume_threshold, used);
            self.time_threshold = less(self.time_threshold);
            self.event_threshold = fewer(self.event_threshold);
        }
        self.volume_quota = subtract(self.volume_quota, used);
        self.event_quota = fewer(self.event_quota);
        self.time_quota = less(self.time_quota);
        (self.packets, self.seen) = (0, 0);
        let silences = [&mut self.holding, &mut self.active].into_iter().flatten();
        for activity in silences.chain(self.traffic.activity_mut()) {
            activity.packets = 0;
        }
    }

    /// The bounds of a URR's counters. Of a counter of events that does not exist, none.
    pub(crate) fn bounds(&self, urr: &Urr, base: &CounterBase) -> UrrBounds {
        UrrBounds {
            volume: self.volume_bounds(urr, base),
            events: match urr.counts_events() {
                true => self.event_bounds(urr, base),
                false => Bounds::NONE,
            },
        }
    }

    /// Where the counter of octets notifies control, and where it stops.
    fn volume_bounds(&self, urr: &Urr, base: &CounterBase) -> Bounds {
        let at = |volume: Volume, place: fn(&CounterBase, u64, usize) -> u64| {
            let place = |left: Option<u64>, kind| left.map(|left| place(base, left, kind));
            Volumes {
                total: place(volume.total, 0),
                uplink: place(volume.uplink, 1),
                downlink: place(volume.downlink, 2),
            }
        };
        let mut watermarks = Volumes::NONE;
        if urr.triggers.contains(ReportingTriggers::VOLTH) {
            watermarks = at(without_zero(self.volume_threshold), CounterBase::reach);
        }
        let waits = (!self.started || self.is_idle)
            && urr.method.contains(MeasurementMethod::DURAT)
            && urr.pool().is_none();
        if (waits || self.traffic.is_awaited()) && !urr.is_paused() {
            let first = base.place(self.seen + 1, 0);
            watermarks.total = Some(watermarks.total.map_or(first, |total| total.min(first)));
        }
        let mut stop = at(self.volume_quota, CounterBase::fill);
        let gone = self.exhausted;
        if gone.has(Exhausted::TOTAL | Exhausted::STOPS_TIME) {
            stop.total = Some(0);
        }
        if gone.has(Exhausted::UPLINK) {
            stop.uplink = Some(0);
        }
        if gone.has(Exhausted::DOWNLINK) {
            stop.downlink = Some(0);
        }
        if stop.is_none() && watermarks.is_none() {
            watermarks.total = Some(UNREACHABLE);
        }
        Bounds {
            watermarks,
            limit: (!stop.is_none()).then_some(CounterLimit {
                octets: stop,
                action: self.stop_action(urr),
            }),
        }
    }

    /// The same of the counter of events.
    fn event_bounds(&self, urr: &Urr, base: &CounterBase) -> Bounds {
        let place = |left: u64| {
            left.saturating_add(base.reported.events)
                .saturating_sub(base.carried.events)
        };
        let asks = urr.triggers.contains(ReportingTriggers::EVETH);
        let watermark = self.event_threshold.filter(|left| *left > 0 && asks).map(place);
        let stop = match self.exhausted.has(Exhausted::EVENTS) {
            true => Some(0),
            false => self.event_quota.map(place),
        };
        let far = stop.is_none().then_some(UNREACHABLE);
        Bounds {
            watermarks: Volumes {
                total: watermark.or(far),
                ..Volumes::NONE
            },
            limit: stop.map(|events| CounterLimit {
                octets: Volumes::of_total(events),
                action: self.stop_action(urr),
            }),
        }
    }

    /// What becomes of packets that a quota stops: where the start of traffic is reported, Control is notified of the
    /// first.
    fn stop_action(&self, urr: &Urr) -> LimitAction {
        match self.traffic.is_awaited() && urr.triggers.contains(ReportingTriggers::START) {
            true => LimitAction::Trap,
            false => LimitAction::Drop,
        }
    }

    /// When it is to be checked again, if nothing happens before.
    pub(crate) fn deadline(&self, urr: &Urr, setting: Setting) -> Option<Moment> {
        let left = [
            self.time_threshold
                .filter(|_| urr.triggers.contains(ReportingTriggers::TIMTH)),
            self.time_quota.filter(|_| !self.exhausted.has(Exhausted::TIME)),
        ];
        let left = left.into_iter().flatten().min();
        let time = self.running.zip(left);
        let time =
            time.map(|(since, left)| since.after(self.takes(left.saturating_sub(self.measured).max(0))));
        let holding = self.holding.zip(urr.terms().quota_holding_time.map(nanos));
        let activity = self.active.zip(inactivity(urr));
        let traffic = match self.traffic {
            TrafficDetection::Ongoing(activity)
            | TrafficDetection::Voided(activity)
            | TrafficDetection::Resumed(activity)
                if urr.triggers.contains(ReportingTriggers::STOPT) =>
            {
                Some((activity, nanos(setting.silence)))
            }
            _ => None,
        };
        let silence = [holding, activity, traffic].into_iter().flatten();
        let silence = silence
            .map(|(activity, silence)| activity.next_look(silence))
            .min();
        let pending = (!self.pending.is_empty()).then_some(Moment(i64::MIN));
        [
            time,
            silence,
            self.period,
            self.validity,
            self.monitoring,
            pending,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// What a URR reports as `trigger`, if it asks for it.
fn asked(urr: &Urr, wanted: ReportingTriggers, trigger: UsageTriggers) -> UsageTriggers {
    if urr.triggers.contains(wanted) {
        trigger
    } else {
        UsageTriggers::default()
    }
}

/// Whether it reports starts or stops of traffic.
fn reports_traffic(urr: &Urr) -> bool {
    urr.triggers.contains(ReportingTriggers::START) || urr.triggers.contains(ReportingTriggers::STOPT)
}

/// Nanoseconds, multiplied by a number of billionths.
fn times(nanos: i64, billionths: u64) -> i64 {
    let product = i128::from(nanos) * i128::from(billionths);
    i64::try_from(product.div_euclid(i128::from(Multiplier::ONE))).unwrap_or(i64::MAX)
}

fn nanos(seconds: u32) -> i64 {
    i64::from(seconds) * NANOS
}

/// A time in nanoseconds; 0 is none.
fn time(seconds: Option<u32>) -> Option<i64> {
    seconds.filter(|seconds| *seconds > 0).map(nanos)
}

fn inactivity(urr: &Urr) -> Option<i64> {
    time(urr.terms().inactivity_detection_time)
}

fn on_clock(at: UnixSeconds, epoch_nanos: u64) -> Moment {
    Moment::from_unix_nanos(at.0.saturating_mul(NANOS as u64), epoch_nanos)
}

/// The next monitoring time after `now`.
fn next_monitoring(urr: &Urr, now: Moment, epoch_nanos: u64) -> Option<Moment> {
    let times = urr.terms().monitoring_times();
    let times = times.map(|time| on_clock(time.at, epoch_nanos));
    times.filter(|at| *at > now).min()
}
