//! What it is held to: every packet in a list, that is added up anew.

use super::*;

/// A packet that was counted: uplink, octets (of the pool: billionths), in which second, and whether it was an event.
pub type Packet = (bool, u64, u64, bool);

/// One URR as the model knows it.
pub struct Model {
    pub urr: Urr,
    pub log: Vec<Packet>,
    /// Where in the log the last report was, thresholds started, quotas started.
    pub report_from: usize,
    /// Whole octets of each direction that are reported, and those that were when thresholds and quotas started.
    pub reported: [u64; 2],
    pub threshold_from: [u64; 2],
    pub quota_from: [u64; 2],
    /// The seconds in which time was measured, likewise; of the pool in billionths.
    pub seconds: u64,
    pub report_seconds: u64,
    pub time_threshold_from: u64,
    pub time_quota_from: u64,
    /// Events, likewise: those reported, those at which the threshold and the quota started.
    pub report_events: u64,
    pub event_threshold_from: u64,
    pub event_quota_from: u64,
    pub events_spent: bool,
    pub started: bool,
    pub spent: [bool; 3],
    pub time_spent: bool,
    /// Quotas of 0 that were received and that nothing has been reported for.
    pub zero: UsageTriggers,
    pub void: bool,
    /// The next packet is a start of traffic.
    pub awaited: bool,
    pub next_period: Option<u64>,
    pub valid_until: Option<u64>,
    pub sequence: u32,
}

impl Model {
    pub fn new(urr: &Urr) -> Self {
        Self {
            log: Vec::new(),
            report_from: 0,
            reported: [0; 2],
            threshold_from: [0; 2],
            quota_from: [0; 2],
            seconds: 0,
            report_seconds: 0,
            time_threshold_from: 0,
            time_quota_from: 0,
            report_events: 0,
            event_threshold_from: 0,
            event_quota_from: 0,
            events_spent: urr.terms().event_quota == Some(0),
            zero: UsageTriggers::default(),
            started: urr.information.contains(MeasurementInformation::ISTM),
            spent: Self::bounds(urr.volume_quota.as_deref()).map(|part| part == Some(0)),
            time_spent: urr.time_quota == Some(0),
            void: false,
            awaited: true,
            next_period: urr.measurement_period.map(u64::from),
            valid_until: urr.terms().quota_validity_time.map(u64::from),
            sequence: 0,
            urr: urr.clone(),
        }
    }

    pub fn sums(log: &[Packet]) -> [u64; 3] {
        let of = |wanted: fn(bool) -> bool| {
            log.iter()
                .filter(|(up, ..)| wanted(*up))
                .map(|(_, octets, ..)| octets)
                .sum()
        };
        [of(|_| true), of(|up| up), of(|up| !up)]
    }

    pub fn bounds(volume: Option<&Volume>) -> [Option<u64>; 3] {
        volume.map_or([None; 3], |volume| [volume.total, volume.uplink, volume.downlink])
    }

    pub fn has(&self, trigger: ReportingTriggers) -> bool {
        self.urr.triggers.contains(trigger)
    }

    /// Whether a quota that is used up is reported (§5.2.2.2.1). The Volume (Time, Event) Quota IE requests "to stop
    /// forwarding packets and, if no Volume Threshold is provisioned, to also generate a usage report"; beside a
    /// threshold the reporting trigger of the quota says so. `quota` is that trigger, and the report's.
    pub fn reporting(&self, quota: UsageTriggers) -> UsageTriggers {
        let threshold = |volume: &Volume| {
            let parts = [volume.total, volume.uplink, volume.downlink];
            parts.into_iter().any(|part| part.is_some())
        };
        let (is_asked, has_threshold) = match quota {
            UsageTriggers::VOLQU => (
                self.has(ReportingTriggers::VOLQU),
                self.urr.volume_threshold.as_deref().is_some_and(threshold),
            ),
            UsageTriggers::TIMQU => (
                self.has(ReportingTriggers::TIMQU),
                self.urr.time_threshold.is_some(),
            ),
            UsageTriggers::EVEQU => (
                self.has(ReportingTriggers::EVEQU),
                self.urr.terms().event_threshold.is_some(),
            ),
            other => panic!("{other:?} is of no quota"),
        };
        match is_asked || !has_threshold {
            true => quota,
            false => UsageTriggers::default(),
        }
    }

    /// Whether anything was measured since the last report.
    pub fn has_measured(&self) -> bool {
        let (_, seconds) = self.unreported();
        let packets = self.log.len() - self.report_from;
        packets > 0 || self.events() > self.report_events || seconds > 0 && self.measures_time()
    }

    /// What quotas of 0 make due that were received (§5.2.2.3.1): the usage since the last report, if there is any.
    pub fn zero_quotas(&mut self) -> UsageTriggers {
        let zero = std::mem::take(&mut self.zero);
        match self.has_measured() {
            true => zero,
            false => UsageTriggers::default(),
        }
    }

    pub fn stops(&self, up: bool) -> bool {
        self.spent[0]
            || self.spent[if up { 1 } else { 2 }]
            || self.time_spent
            || self.events_spent
            || self.void
    }

    /// Which parts of the quota a packet does not fit into.
    pub fn refuses(&self, (up, octets, ..): Packet) -> Vec<usize> {
        let (used, one) = (self.used_since(self.quota_from), self.one());
        let quota = Self::bounds(self.urr.volume_quota.as_deref());
        [0, if up { 1 } else { 2 }]
            .into_iter()
            .filter(|kind| quota[*kind].is_some_and(|most| used[*kind] + octets > most * one))
            .collect()
    }

    pub fn count(&mut self, packet: Packet) {
        self.log.push(packet);
    }

    /// A packet has come, be it counted or not.
    pub fn comes(&mut self) -> UsageTriggers {
        let starts = std::mem::take(&mut self.awaited) && self.has(ReportingTriggers::START);
        match starts {
            true => UsageTriggers::START,
            false => UsageTriggers::default(),
        }
    }

    /// What volumes make due.
    pub fn volumes(&mut self) -> UsageTriggers {
        let mut due = self.event_bounds();
        let one = self.one();
        let reached = |used: [u64; 3], bounds: [Option<u64>; 3], kind: usize| {
            bounds[kind].is_some_and(|bound| used[kind] >= bound * one)
        };
        let used = self.used_since(self.threshold_from);
        let bounds = Self::bounds(self.urr.volume_threshold.as_deref());
        if (0..3).any(|kind| reached(used, bounds, kind)) && self.has(ReportingTriggers::VOLTH) {
            due |= UsageTriggers::VOLTH;
        }
        // What does not make the least that counts is used up, too.
        let least = if self.is_pool() { self.urr.unit() } else { 1 };
        let used = self.used_since(self.quota_from).map(|used| used + least - 1);
        let bounds = Self::bounds(self.urr.volume_quota.as_deref());
        for kind in 0..3 {
            if reached(used, bounds, kind) && !self.spent[kind] {
                self.spent[kind] = true;
                due |= self.reporting(UsageTriggers::VOLQU);
            }
        }
        due
    }

    pub fn events(&self) -> u64 {
        let counts = self.urr.counts_events();
        self.log.iter().filter(|(.., event)| *event && counts).count() as u64
    }

    /// Events until the threshold, from the last report.
    pub fn event_threshold_left(&self) -> Option<u64> {
        let threshold = self.urr.terms().event_threshold?;
        Some(u64::from(threshold) - (self.report_events - self.event_threshold_from))
    }

    /// What events make due.
    pub fn event_bounds(&mut self) -> UsageTriggers {
        let mut due = UsageTriggers::default();
        let unreported = self.events() - self.report_events;
        let has_threshold = self.has(ReportingTriggers::EVETH);
        if has_threshold && self.event_threshold_left().is_some_and(|left| unreported >= left) {
            due |= UsageTriggers::EVETH;
        }
        let used = self.events() - self.event_quota_from;
        let quota = self.urr.terms().event_quota.map(u64::from);
        if quota.is_some_and(|quota| used >= quota) && !self.events_spent {
            self.events_spent = true;
            due |= self.reporting(UsageTriggers::EVEQU);
        }
        due
    }

    pub fn measures_time(&self) -> bool {
        self.urr.method.contains(MeasurementMethod::DURAT)
    }

    /// What a second makes due.
    pub fn second(&mut self, now: u64) -> UsageTriggers {
        if self.runs() {
            self.seconds += 1;
        }
        self.times(now)
    }

    pub fn runs(&self) -> bool {
        self.started && self.measures_time() && !self.time_spent && !self.void && !self.is_pool()
    }

    /// The same of the pool, whose members that run have these multipliers together.
    pub fn pool_second(&mut self, now: u64, billionths: u64) -> UsageTriggers {
        if self.measures_time() && !self.time_spent && !self.void {
            self.seconds += billionths;
        }
        self.times(now)
    }

    pub fn is_pool(&self) -> bool {
        self.urr.pool().is_some()
    }

    /// One octet or second of those that are kept.
    fn one(&self) -> u64 {
        if self.is_pool() { Multiplier::ONE } else { 1 }
    }

    /// Usage since these octets.
    fn used_since(&self, from: [u64; 2]) -> [u64; 3] {
        let one = self.one();
        let [total, uplink, downlink] = Self::sums(&self.log);
        let [from_uplink, from_downlink] = from.map(|octets| octets * one);
        [
            total - from_uplink - from_downlink,
            uplink - from_uplink,
            downlink - from_downlink,
        ]
    }

    fn seconds_since(&self, from: u64) -> u64 {
        self.seconds - from * self.one()
    }

    /// What the time makes due.
    pub fn times(&mut self, now: u64) -> UsageTriggers {
        let mut due = UsageTriggers::default();
        if let Some(threshold) = self.urr.time_threshold
            && self.seconds_since(self.time_threshold_from) >= u64::from(threshold) * self.one()
            && self.has(ReportingTriggers::TIMTH)
        {
            due |= UsageTriggers::TIMTH;
        }
        if let Some(quota) = self.urr.time_quota
            && !self.time_spent
            && self.seconds_since(self.time_quota_from) >= u64::from(quota) * self.one()
        {
            self.time_spent = true;
            due |= self.reporting(UsageTriggers::TIMQU);
        }
        if self.valid_until == Some(now) {
            (self.void, self.valid_until, self.awaited) = (true, None, true);
            if self.has(ReportingTriggers::QUVTI) {
                due |= UsageTriggers::QUVTI;
            }
        }
        if self.next_period == Some(now) {
            self.next_period = self.urr.measurement_period.map(|period| now + u64::from(period));
            if self.has(ReportingTriggers::PERIO) {
                due |= UsageTriggers::PERIO;
            }
        }
        due
    }

    pub fn unreported(&self) -> ([u64; 3], u64) {
        let seconds = self.seconds_since(self.report_seconds) / self.one();
        let [_, uplink, downlink] = self.used_since(self.reported).map(|used| used / self.one());
        ([uplink + downlink, uplink, downlink], seconds)
    }

    pub fn times_of_packets(&self) -> Option<(Moment, Moment)> {
        let at = |packet: &Packet| Moment::from(Nanos::from_secs(packet.2));
        let log = &self.log[self.report_from..];
        Some((at(log.first()?), at(log.last()?)))
    }

    pub fn report(&mut self, triggers: UsageTriggers) -> Reported {
        if triggers == UsageTriggers::START {
            self.sequence += 1;
            return Reported {
                urr: self.urr.id,
                sequence: self.sequence - 1,
                triggers,
                octets: [0; 3],
                packets: 0,
                events: 0,
                seconds: None,
                times: None,
            };
        }
        let (octets, seconds) = self.unreported();
        // A threshold alone is reported as its number of events, whatever has come.
        let by_threshold = UsageTriggers::EVETH
            | UsageTriggers::VOLTH
            | UsageTriggers::TIMTH
            | UsageTriggers::PERIO
            | UsageTriggers::LIUSA;
        let mut events = self.events() - self.report_events;
        if triggers.contains(UsageTriggers::EVETH) && by_threshold.contains(triggers) {
            events = events.min(self.event_threshold_left().unwrap_or(events));
        }
        let reported = Reported {
            urr: self.urr.id,
            sequence: self.sequence,
            triggers,
            octets,
            packets: (self.log.len() - self.report_from) as u64,
            events,
            seconds: self.measures_time().then_some(seconds),
            times: self.times_of_packets(),
        };
        self.sequence += 1;
        self.report_from = self.log.len();
        self.reported = [self.reported[0] + octets[1], self.reported[1] + octets[2]];
        self.report_seconds += seconds;
        self.report_events += events;
        if triggers.intersects(UsageTriggers::VOLTH | UsageTriggers::TIMTH | UsageTriggers::EVETH) {
            self.event_threshold_from = self.report_events;
            self.threshold_from = self.reported;
            self.time_threshold_from = self.report_seconds;
        }
        reported
    }

    pub fn grant(&mut self, new: &Urr, renewed: Renewed, now: u64) {
        self.urr = new.clone();
        if renewed.volume_threshold {
            self.threshold_from = self.reported;
        }
        if renewed.volume_quota {
            self.quota_from = self.reported;
            self.spent = Self::bounds(self.urr.volume_quota.as_deref()).map(|part| part == Some(0));
            self.void = false;
            if self.spent != [false; 3] {
                self.zero |= UsageTriggers::VOLQU;
            }
        }
        if renewed.time_quota {
            self.time_quota_from = self.report_seconds;
            (self.time_spent, self.void) = (self.urr.time_quota == Some(0), false);
            if self.time_spent {
                self.zero |= UsageTriggers::TIMQU;
            }
        }
        if renewed.event_threshold {
            self.event_threshold_from = self.report_events;
        }
        if renewed.event_quota {
            self.event_quota_from = self.report_events;
            (self.events_spent, self.void) = (self.urr.terms().event_quota == Some(0), false);
            if self.events_spent {
                self.zero |= UsageTriggers::EVEQU;
            }
        }
        if renewed.volume_quota || renewed.time_quota || renewed.event_quota {
            let validity = self.urr.terms().quota_validity_time;
            self.valid_until = validity.map(|seconds| now + u64::from(seconds));
        }
    }
}

/// What is compared of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    pub urr: UrrId,
    pub sequence: u32,
    pub triggers: UsageTriggers,
    pub octets: [u64; 3],
    pub packets: u64,
    pub events: u64,
    pub seconds: Option<u64>,
    pub times: Option<(Moment, Moment)>,
}

impl From<&UsageReport> for Reported {
    fn from(report: &UsageReport) -> Reported {
        let count = report.count;
        Reported {
            urr: report.urr,
            sequence: report.sequence,
            triggers: report.triggers,
            octets: [
                count.ul_octets + count.dl_octets,
                count.ul_octets,
                count.dl_octets,
            ],
            packets: count.ul_packets + count.dl_packets,
            events: count.events,
            seconds: report.duration.map(|seconds| seconds.0.into()),
            times: report.first.zip(report.last),
        }
    }
}

pub struct Reference {
    pub now: u64,
    pub urrs: Vec<Model>,
    pub reported: Vec<Reported>,
}

impl Reference {
    pub fn packet(&mut self, urrs: u8, up: bool, octets: u64, event: bool) -> bool {
        let packet = (up, octets, self.now, event);
        let weight = self.multipliers(|slot, _| urrs >> slot & 1 == 1);
        let concerned = |slot: &usize| urrs >> slot & 1 == 1 || *slot == POOL && weight > 0;
        let slots: Vec<usize> = (0..URRS).filter(concerned).collect();
        let of = |slot: usize| match slot {
            POOL => (up, octets * weight, packet.2, false),
            _ => packet,
        };
        let mut due = vec![UsageTriggers::default(); URRS];
        if slots.iter().any(|slot| self.urrs[*slot].stops(up)) {
            for slot in slots {
                if self.urrs[slot].stops(up) {
                    due[slot] |= self.urrs[slot].comes();
                }
            }
            self.report(due);
            return false;
        }
        let mut fits = true;
        for slot in &slots {
            for kind in self.urrs[*slot].refuses(of(*slot)) {
                fits = false;
                self.urrs[*slot].spent[kind] = true;
                due[*slot] |= self.urrs[*slot].reporting(UsageTriggers::VOLQU);
                due[*slot] |= self.urrs[*slot].comes();
            }
        }
        for slot in slots.iter().filter(|_| fits) {
            let model = &mut self.urrs[*slot];
            model.count(of(*slot));
            model.started = true;
            due[*slot] |= model.comes();
            due[*slot] |= model.volumes();
        }
        self.report(due);
        fits
    }

    pub fn second(&mut self) {
        self.now += 1;
        let now = self.now;
        let running = self.multipliers(|_, model| model.runs());
        let mut due: Vec<_> = self.urrs[..POOL]
            .iter_mut()
            .map(|model| model.second(now))
            .collect();
        due.push(self.urrs[POOL].pool_second(now, running));
        self.report(due);
    }

    /// The multipliers of some of the pool's members together.
    fn multipliers(&self, which: impl Fn(usize, &Model) -> bool) -> u64 {
        let members = self.urrs[POOL].urr.pool().unwrap_or_default().iter();
        let members = members.filter(|one| which(one.urr.0 as usize, &self.urrs[one.urr.0 as usize]));
        members.map(|one| one.multiplier.billionths()).sum()
    }

    /// Reports what is due, and what is linked to that.
    pub fn report(&mut self, mut due: Vec<UsageTriggers>) {
        let mut done = [false; URRS];
        while let Some(cause) = (0..URRS).find(|slot| !due[*slot].is_empty() && !done[*slot]) {
            done[cause] = true;
            let id = self.urrs[cause].urr.id;
            for (model, due) in self.urrs.iter().zip(&mut due) {
                if model.has(ReportingTriggers::LIUSA) && model.urr.terms().linked.contains(&id) {
                    *due |= UsageTriggers::LIUSA;
                }
            }
        }
        for (model, triggers) in self.urrs.iter_mut().zip(due) {
            if !triggers.is_empty() {
                self.reported.push(model.report(triggers));
            }
        }
    }

    pub fn query(&mut self) {
        let asked = |model: &Model| match model.has_measured() {
            true => UsageTriggers::IMMER,
            false => UsageTriggers::default(),
        };
        let due: Vec<_> = self.urrs.iter().map(asked).collect();
        let before: Vec<bool> = due.iter().map(|triggers| triggers.is_empty()).collect();
        // All are asked, so the links say why once more, and bring none that has nothing to report.
        let mut linked = due.clone();
        for (slot, model) in self.urrs.iter().enumerate() {
            let is_linked = model.has(ReportingTriggers::LIUSA)
                && model
                    .urr
                    .terms()
                    .linked
                    .iter()
                    .any(|id| self.urrs.iter().any(|one| one.urr.id == *id));
            if is_linked && !before[slot] {
                linked[slot] |= UsageTriggers::LIUSA;
            }
        }
        for (model, triggers) in self.urrs.iter_mut().zip(linked) {
            if !triggers.is_empty() {
                self.reported.push(model.report(triggers));
            }
        }
    }
}

/// A grant that the usage since the last report has reached already calls for reports at once, by the model too.
pub fn after_grant(reference: &mut Reference) {
    for _ in 0..200 {
        let now = reference.now;
        let urrs = reference.urrs.iter_mut();
        let due = |model: &mut Model| {
            let zero = model.zero_quotas();
            zero | model.volumes() | model.times(now)
        };
        let due: Vec<_> = urrs.map(due).collect();
        if due.iter().all(|triggers| triggers.is_empty()) {
            return;
        }
        reference.report(due);
    }
    panic!("the model never comes to rest");
}
