//! The book against a model that looks at every packet, over the workers' real counters.
//!
//! Seconds pass, packets come in random sizes and directions, the control plane asks, and grants new thresholds and
//! quotas. The model keeps every packet in a list and adds it up anew whenever it wants to know something.

use flow::{
    BlockImage, BlockRef, Blocks, Bounds, Direction, Nanos, ReplaceMap, Second, SessionIndex, UrrCount,
};
use proptest::prelude::*;
use rules::image::Counter;
use rules::model::{
    MeasurementInformation, MeasurementMethod, ReportingTriggers, Urr, UrrId, UrrTerms, Volume,
};
use usage::{Moment, Renewed, Setting, UsageBook, UsageReport, UsageTriggers};

/// What happens.
#[derive(Clone, Debug)]
enum Step {
    /// A packet that counts in these URRs, an event where they count those.
    Packet {
        urrs: u8,
        downlink: bool,
        octets: u16,
        event: bool,
    },
    /// Seconds pass.
    Wait(u8),
    /// The control plane asks for all.
    Query,
    /// New volume threshold and quota for a URR, as far as there are any.
    Grant {
        urr: u8,
        threshold: Option<Volume>,
        quota: Option<Volume>,
        time_quota: Option<u8>,
        event_threshold: Option<u32>,
        event_quota: Option<u32>,
    },
    /// The block is replaced, with all counts.
    Replace,
    /// The session goes to another worker, where counters begin at 0.
    Move,
    /// The session goes to another process by its record.
    Transfer,
}

const URRS: usize = 3;

/// No traffic stops: how that is found is not exact to the second, and tested by itself.
const SETTING: Setting = Setting {
    clock_unix: 0,
    silence: u32::MAX,
};

fn volume() -> impl Strategy<Value = Volume> {
    let part = || prop::option::weighted(0.4, 1_u64..20_000);
    (part(), part(), part()).prop_map(|(total, uplink, downlink)| Volume {
        total,
        uplink,
        downlink,
    })
}

fn urr(id: u32) -> impl Strategy<Value = Urr> {
    let volumes = (prop::option::of(volume()), prop::option::of(volume()));
    let times = (prop::option::of(1..20_u32), prop::option::of(1..40_u32));
    let more = (
        prop::option::of(1..15_u32),
        prop::option::of(1..60_u32),
        any::<bool>(),
        any::<bool>(),
    );
    let linked = prop::option::weighted(0.3, 0..URRS as u32);
    let events = prop::option::weighted(0.4, (prop::option::of(1..9_u32), prop::option::of(0..20_u32)));
    (volumes, times, more, any::<u32>(), (linked, events)).prop_map(
        move |((threshold, quota), times, (period, validity, durat, at_once), triggers, (linked, events))| {
            let mut measured = MeasurementMethod::VOLUM;
            if durat {
                measured.0 |= MeasurementMethod::DURAT.0;
            }
            if events.is_some() {
                measured.0 |= MeasurementMethod::EVENT.0;
            }
            let (event_threshold, event_quota) = events.unwrap_or_default();
            let information = if at_once {
                MeasurementInformation::ISTM
            } else {
                MeasurementInformation(0)
            };
            let terms = UrrTerms {
                quota_validity_time: validity,
                event_threshold,
                event_quota,
                linked: linked.map(UrrId).into_iter().collect(),
                ..UrrTerms::NONE
            };
            Urr {
                method: measured,
                information,
                triggers: ReportingTriggers(triggers),
                measurement_period: period,
                volume_threshold: threshold.map(Box::new),
                volume_quota: quota.map(Box::new),
                time_threshold: times.0.filter(|_| durat),
                time_quota: times.1.filter(|_| durat),
                terms: Some(Box::new(terms)),
                ..Urr::volume(UrrId(id))
            }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (1_u8..8, any::<bool>(), 20_u16..9000, any::<bool>())
            .prop_map(|(urrs, downlink, octets, event)| Step::Packet { urrs, downlink, octets, event }),
        4 => (1_u8..12).prop_map(Step::Wait),
        1 => Just(Step::Query),
        2 => (0..URRS as u8, [prop::option::of(volume()), prop::option::of(volume())], prop::option::of(1_u8..40),
            [prop::option::of(1..9_u32), prop::option::of(0..20_u32)])
            .prop_map(|(urr, [threshold, quota], time_quota, [event_threshold, event_quota])| Step::Grant {
                urr,
                threshold,
                quota,
                time_quota,
                event_threshold,
                event_quota,
            }),
        1 => Just(Step::Replace),
        1 => Just(Step::Move),
        1 => Just(Step::Transfer),
    ]
}

/// The book and a worker's block, together as control and worker are, but at once.
struct Engine {
    now: u64,
    urrs: Vec<Urr>,
    book: UsageBook,
    blocks: Blocks,
    block: BlockRef,
    generation: u32,
    reports: Vec<UsageReport>,
}

impl Engine {
    fn new(urrs: &[Urr]) -> Self {
        let book = UsageBook::new(SETTING);
        let mut engine = Self {
            now: 0,
            urrs: urrs.to_vec(),
            blocks: Blocks::new(4, 32).unwrap(),
            block: BlockRef(0),
            generation: 0,
            reports: Vec::new(),
            book,
        };
        let bounds = engine.book.preview(engine.now(), urrs, &[]);
        engine.install(bounds.clone());
        engine.book.follow(engine.now(), urrs, &[]);
        engine.book.told(urrs, &bounds);
        engine
    }

    fn now(&self) -> Nanos {
        Nanos::from_secs(self.now)
    }

    /// The URRs that count events by the slots of those counters, behind those of all.
    fn event_slots(&self) -> Vec<(u8, usize)> {
        let urrs = self.urrs.iter().enumerate();
        let counting = urrs
            .filter(|(_, urr)| urr.counts_events())
            .map(|(place, _)| place);
        (URRS as u8..).zip(counting).collect()
    }

    /// The counters of events of these URRs.
    fn events_of(&self, urrs: u8) -> u64 {
        let slots = self.event_slots().into_iter();
        slots
            .filter(|(_, urr)| urrs >> urr & 1 == 1)
            .fold(0, |mask, (slot, _)| mask | 1 << slot)
    }

    fn image(&self, bounds: Vec<Bounds>) -> BlockImage {
        BlockImage {
            urrs: (URRS + self.event_slots().len()) as u8,
            units: self.events_of(u8::MAX),
            bounds,
            ..BlockImage::default()
        }
    }

    fn install(&mut self, bounds: Vec<Bounds>) {
        let installed = self.blocks.install(SessionIndex(0), &self.image(bounds)).unwrap();
        (self.block, self.generation) = (installed.block, installed.generation);
        for (slot, _) in self.event_slots() {
            self.blocks.look_at_bounds(self.block, slot);
        }
    }

    /// What the worker answers to a query: times once.
    fn counts(&mut self) -> Vec<(UrrId, UrrCount)> {
        for (slot, urr) in (0..).zip(&self.urrs) {
            if let Some(times) = self.blocks.take_times(self.block, slot) {
                self.book.heard(urr.id, times);
            }
        }
        let block = self.blocks.get(self.block).unwrap();
        let slots = (0..).zip(&self.urrs);
        let mut counts: Vec<_> = slots
            .map(|(slot, urr)| (urr.id, block.urr(slot).unwrap()))
            .collect();
        for (slot, urr) in self.event_slots() {
            let events = block.urr(slot).unwrap();
            counts[urr].1.events = events.ul_octets + events.dl_octets;
        }
        counts
    }

    /// Whether it was counted.
    fn packet(&mut self, urrs: u8, downlink: bool, octets: u16, event: bool) -> bool {
        let events = self.events_of(urrs);
        let all = u64::from(urrs) | events;
        let direction = if downlink {
            Direction::Downlink
        } else {
            Direction::Uplink
        };
        let second = Second::of(self.now());
        let mut live = self
            .blocks
            .live_at(self.block, self.generation, direction)
            .unwrap();
        if live.is_stopped(all) {
            if live.knock(all) {
                self.reached(all);
            }
            return false;
        }
        let counting = if event { all } else { urrs.into() };
        let counted = live.count_with_units(counting, octets.into(), second);
        if counted.action.is_some() {
            live.knock(counted.limits);
        }
        if counted.watermarks | counted.limits != 0 {
            self.reached(counted.watermarks | counted.limits);
        }
        counted.action.is_none()
    }

    fn reached(&mut self, slots: u64) {
        let counts = self.counts();
        let block = self.blocks.get(self.block).unwrap();
        let is_due = |slot: &u8| slots >> slot & 1 == 1;
        let due = (0..URRS as u8).filter(is_due);
        let octets = due.map(|slot| (self.urrs[usize::from(slot)].id, block.reached(slot)));
        let due = self.event_slots().into_iter().filter(|(slot, _)| is_due(slot));
        let events = due.map(|(slot, urr)| (self.urrs[urr].id, block.reached(slot).of_events()));
        let told: Vec<_> = octets.chain(events).collect();
        let reports = self.book.settle(self.now(), &self.urrs, &counts, &told);
        self.reports.extend(reports);
        self.tell(false);
    }

    /// Sets the bounds that are not as they were told, until nothing is reached by that.
    fn tell(&mut self, again: bool) {
        let told = self.book.untold(&self.urrs, again);
        let mut reached = 0_u64;
        for (counter, bounds) in told {
            let urr = self.urrs.iter().position(|urr| urr.id == counter.urr()).unwrap();
            let event_slots = self.event_slots();
            let slot = match counter {
                Counter::Volume(_) => urr as u8,
                Counter::Events(_) => event_slots.iter().find(|(_, of)| *of == urr).unwrap().0,
            };
            assert!(self.blocks.set_bounds(self.block, slot, &bounds));
            let found = self.blocks.look_at_bounds(self.block, slot);
            reached |= u64::from(!found.is_nothing()) << slot;
        }
        if reached != 0 {
            self.reached(reached);
        }
    }

    fn second(&mut self) {
        self.now += 1;
        self.expire();
    }

    /// Does what the book wants done by now.
    fn expire(&mut self) {
        if self.book.deadline(&self.urrs).is_some_and(|at| at <= self.now()) {
            self.book.tick(self.now(), &self.urrs);
            self.tell(false);
            let counts = self.counts();
            let reports = self.book.settle(self.now(), &self.urrs, &counts, &[]);
            self.reports.extend(reports);
            self.tell(false);
        }
    }

    fn query(&mut self) {
        let asked: Vec<_> = self
            .urrs
            .iter()
            .map(|urr| (urr.id, UsageTriggers::IMMER))
            .collect();
        let counts = self.counts();
        let reports = self.book.query(self.now(), &self.urrs, &counts, &asked);
        self.reports.extend(reports);
        self.tell(false);
    }

    fn grant(&mut self, at: usize, new: Urr, renewed: Renewed) {
        let id = new.id;
        self.urrs[at] = new;
        let (now, urrs) = (self.now(), self.urrs.clone());
        let bounds = self.book.preview(now, &urrs, &[(id, renewed)]);
        self.replace(bounds.clone());
        self.book.follow(now, &urrs, &[(id, renewed)]);
        self.book.told(&urrs, &bounds);
        self.tell(true);
        self.expire();
    }

    fn replace(&mut self, bounds: Vec<Bounds>) {
        let image = self.image(bounds);
        let installed = self
            .blocks
            .replace(self.block, &image, &ReplaceMap::SAME, flow::Flows::Keep);
        let installed = installed.unwrap();
        (self.block, self.generation) = (installed.block, installed.generation);
    }

    fn move_away(&mut self) {
        let last = self.counts();
        self.blocks.remove(self.block);
        for (urr, count) in last {
            self.book.carry(urr, count);
        }
        self.install(self.book.bounds(&self.urrs));
        self.tell(true);
    }

    fn transfer(&mut self) {
        let counts = self.counts();
        let checkpoints = self.book.checkpoints(&counts);
        self.blocks.remove(self.block);
        self.book = UsageBook::resuming(&checkpoints, SETTING);
        let (now, urrs) = (self.now(), self.urrs.clone());
        self.install(self.book.preview(now, &urrs, &[]));
        self.book.follow(now, &urrs, &[]);
        self.tell(true);
    }
}

/// A packet that was counted: uplink, octets, in which second, and whether it was an event.
type Packet = (bool, u64, u64, bool);

/// One URR as the model knows it.
struct Model {
    urr: Urr,
    log: Vec<Packet>,
    /// Where in the log the last report was, thresholds started, quotas started.
    report_from: usize,
    threshold_from: usize,
    quota_from: usize,
    /// The seconds in which time was measured, likewise.
    seconds: u64,
    report_seconds: u64,
    time_threshold_from: u64,
    time_quota_from: u64,
    /// Events, likewise: those reported, those at which the threshold and the quota started.
    report_events: u64,
    event_threshold_from: u64,
    event_quota_from: u64,
    events_spent: bool,
    started: bool,
    spent: [bool; 3],
    time_spent: bool,
    void: bool,
    /// The next packet is a start of traffic.
    awaited: bool,
    next_period: Option<u64>,
    valid_until: Option<u64>,
    sequence: u32,
}

impl Model {
    fn new(urr: &Urr) -> Self {
        Self {
            log: Vec::new(),
            report_from: 0,
            threshold_from: 0,
            quota_from: 0,
            seconds: 0,
            report_seconds: 0,
            time_threshold_from: 0,
            time_quota_from: 0,
            report_events: 0,
            event_threshold_from: 0,
            event_quota_from: 0,
            events_spent: urr.terms().event_quota == Some(0),
            started: urr.information.contains(MeasurementInformation::ISTM),
            spent: [false; 3],
            time_spent: false,
            void: false,
            awaited: true,
            next_period: urr.measurement_period.map(u64::from),
            valid_until: urr.terms().quota_validity_time.map(u64::from),
            sequence: 0,
            urr: urr.clone(),
        }
    }

    fn sums(log: &[Packet]) -> [u64; 3] {
        let of = |wanted: fn(bool) -> bool| {
            log.iter()
                .filter(|(up, ..)| wanted(*up))
                .map(|(_, octets, ..)| octets)
                .sum()
        };
        [of(|_| true), of(|up| up), of(|up| !up)]
    }

    fn bounds(volume: Option<&Volume>) -> [Option<u64>; 3] {
        volume.map_or([None; 3], |volume| [volume.total, volume.uplink, volume.downlink])
    }

    fn has(&self, trigger: ReportingTriggers) -> bool {
        self.urr.triggers.contains(trigger)
    }

    fn stops(&self, up: bool) -> bool {
        self.spent[0]
            || self.spent[if up { 1 } else { 2 }]
            || self.time_spent
            || self.events_spent
            || self.void
    }

    /// Which parts of the quota a packet does not fit into.
    fn refuses(&self, (up, octets, ..): Packet) -> Vec<usize> {
        let used = Self::sums(&self.log[self.quota_from..]);
        let quota = Self::bounds(self.urr.volume_quota.as_deref());
        [0, if up { 1 } else { 2 }]
            .into_iter()
            .filter(|kind| quota[*kind].is_some_and(|most| used[*kind] + octets > most))
            .collect()
    }

    fn count(&mut self, packet: Packet) {
        self.log.push(packet);
    }

    /// A packet has come, be it counted or not.
    fn comes(&mut self) -> UsageTriggers {
        let starts = std::mem::take(&mut self.awaited) && self.has(ReportingTriggers::START);
        match starts {
            true => UsageTriggers::START,
            false => UsageTriggers::default(),
        }
    }

    /// What volumes make due.
    fn volumes(&mut self) -> UsageTriggers {
        let mut due = self.event_bounds();
        let reached = |used: [u64; 3], bounds: [Option<u64>; 3], kind: usize| {
            bounds[kind].is_some_and(|bound| used[kind] >= bound)
        };
        let used = Self::sums(&self.log[self.threshold_from..]);
        let bounds = Self::bounds(self.urr.volume_threshold.as_deref());
        if (0..3).any(|kind| reached(used, bounds, kind)) && self.has(ReportingTriggers::VOLTH) {
            due |= UsageTriggers::VOLTH;
        }
        let used = Self::sums(&self.log[self.quota_from..]);
        let bounds = Self::bounds(self.urr.volume_quota.as_deref());
        for kind in 0..3 {
            if reached(used, bounds, kind) && !self.spent[kind] {
                self.spent[kind] = true;
                if self.has(ReportingTriggers::VOLQU) {
                    due |= UsageTriggers::VOLQU;
                }
            }
        }
        due
    }

    fn events(&self) -> u64 {
        let counts = self.urr.counts_events();
        self.log.iter().filter(|(.., event)| *event && counts).count() as u64
    }

    /// Events until the threshold, from the last report.
    fn event_threshold_left(&self) -> Option<u64> {
        let threshold = self.urr.terms().event_threshold?;
        Some(u64::from(threshold) - (self.report_events - self.event_threshold_from))
    }

    /// What events make due.
    fn event_bounds(&mut self) -> UsageTriggers {
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
            if self.has(ReportingTriggers::EVEQU) {
                due |= UsageTriggers::EVEQU;
            }
        }
        due
    }

    fn measures_time(&self) -> bool {
        self.urr.method.contains(MeasurementMethod::DURAT)
    }

    /// What a second makes due.
    fn second(&mut self, now: u64) -> UsageTriggers {
        if self.started && self.measures_time() && !self.time_spent && !self.void {
            self.seconds += 1;
        }
        self.times(now)
    }

    /// What the time makes due.
    fn times(&mut self, now: u64) -> UsageTriggers {
        let mut due = UsageTriggers::default();
        if let Some(threshold) = self.urr.time_threshold
            && self.seconds - self.time_threshold_from >= u64::from(threshold)
            && self.has(ReportingTriggers::TIMTH)
        {
            due |= UsageTriggers::TIMTH;
        }
        if let Some(quota) = self.urr.time_quota
            && !self.time_spent
            && self.seconds - self.time_quota_from >= u64::from(quota)
        {
            self.time_spent = true;
            if self.has(ReportingTriggers::TIMQU) {
                due |= UsageTriggers::TIMQU;
            }
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

    fn unreported(&self) -> ([u64; 3], u64) {
        let seconds = self.seconds - self.report_seconds;
        (Self::sums(&self.log[self.report_from..]), seconds)
    }

    fn times_of_packets(&self) -> Option<(Moment, Moment)> {
        let at = |packet: &Packet| Moment::from(Nanos::from_secs(packet.2));
        let log = &self.log[self.report_from..];
        Some((at(log.first()?), at(log.last()?)))
    }

    fn report(&mut self, triggers: UsageTriggers) -> Told {
        if triggers == UsageTriggers::START {
            self.sequence += 1;
            return Told {
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
        // A threshold alone is told of as so many events, whatever has come.
        let by_threshold = UsageTriggers::EVETH
            | UsageTriggers::VOLTH
            | UsageTriggers::TIMTH
            | UsageTriggers::PERIO
            | UsageTriggers::LIUSA;
        let mut events = self.events() - self.report_events;
        if triggers.contains(UsageTriggers::EVETH) && by_threshold.contains(triggers) {
            events = events.min(self.event_threshold_left().unwrap_or(events));
        }
        let told = Told {
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
        self.report_seconds = self.seconds;
        self.report_events += events;
        if triggers.intersects(UsageTriggers::VOLTH | UsageTriggers::TIMTH | UsageTriggers::EVETH) {
            self.event_threshold_from = self.report_events;
            self.threshold_from = self.log.len();
            self.time_threshold_from = self.seconds;
        }
        told
    }

    fn grant(&mut self, new: &Urr, renewed: Renewed, now: u64) {
        self.urr = new.clone();
        if renewed.volume_threshold {
            self.threshold_from = self.report_from;
        }
        if renewed.volume_quota {
            self.quota_from = self.report_from;
            (self.spent, self.void) = ([false; 3], false);
        }
        if renewed.time_quota {
            self.time_quota_from = self.report_seconds;
            (self.time_spent, self.void) = (false, false);
        }
        if renewed.event_threshold {
            self.event_threshold_from = self.report_events;
        }
        if renewed.event_quota {
            self.event_quota_from = self.report_events;
            (self.events_spent, self.void) = (self.urr.terms().event_quota == Some(0), false);
        }
        if renewed.volume_quota || renewed.time_quota || renewed.event_quota {
            let validity = self.urr.terms().quota_validity_time;
            self.valid_until = validity.map(|seconds| now + u64::from(seconds));
        }
    }
}

/// What is compared of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    urr: UrrId,
    sequence: u32,
    triggers: UsageTriggers,
    octets: [u64; 3],
    packets: u64,
    events: u64,
    seconds: Option<u64>,
    times: Option<(Moment, Moment)>,
}

impl From<&UsageReport> for Told {
    fn from(report: &UsageReport) -> Told {
        let count = report.count;
        Told {
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

struct Reference {
    now: u64,
    urrs: Vec<Model>,
    told: Vec<Told>,
}

impl Reference {
    fn packet(&mut self, urrs: u8, up: bool, octets: u64, event: bool) -> bool {
        let packet = (up, octets, self.now, event);
        let concerned = |slot: &usize| urrs >> slot & 1 == 1;
        let slots: Vec<usize> = (0..URRS).filter(concerned).collect();
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
            for kind in self.urrs[*slot].refuses(packet) {
                fits = false;
                self.urrs[*slot].spent[kind] = true;
                if self.urrs[*slot].has(ReportingTriggers::VOLQU) {
                    due[*slot] |= UsageTriggers::VOLQU;
                }
                due[*slot] |= self.urrs[*slot].comes();
            }
        }
        for slot in slots.iter().filter(|_| fits) {
            let model = &mut self.urrs[*slot];
            model.count(packet);
            model.started = true;
            due[*slot] |= model.comes();
            due[*slot] |= model.volumes();
        }
        self.report(due);
        fits
    }

    fn second(&mut self) {
        self.now += 1;
        let now = self.now;
        let due = self.urrs.iter_mut().map(|model| model.second(now)).collect();
        self.report(due);
    }

    /// Reports what is due, and what is linked to that.
    fn report(&mut self, mut due: Vec<UsageTriggers>) {
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
                self.told.push(model.report(triggers));
            }
        }
    }

    fn query(&mut self) {
        let asked = |model: &Model| {
            let (octets, seconds) = model.unreported();
            let events = model.events() - model.report_events;
            if octets[0] == 0 && events == 0 && (seconds == 0 || !model.measures_time()) {
                UsageTriggers::default()
            } else {
                UsageTriggers::IMMER
            }
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
                self.told.push(model.report(triggers));
            }
        }
    }
}

fn granted(
    old: &Urr,
    (threshold, quota): (Option<Volume>, Option<Volume>),
    time: Option<u8>,
    events: [Option<u32>; 2],
) -> (Urr, Renewed) {
    let mut new = old.clone();
    let mut renewed = Renewed::default();
    if let Some(threshold) = threshold {
        new.volume_threshold = Some(Box::new(threshold));
        renewed.volume_threshold = true;
    }
    if let Some(quota) = quota {
        new.volume_quota = Some(Box::new(quota));
        renewed.volume_quota = true;
    }
    if let Some(time) = time.filter(|_| old.method.contains(MeasurementMethod::DURAT)) {
        new.time_quota = Some(time.into());
        renewed.time_quota = true;
    }
    let [threshold, quota] = events.map(|bound| bound.filter(|_| old.counts_events()));
    let mut terms = old.terms().clone();
    terms.event_threshold = threshold.or(terms.event_threshold);
    terms.event_quota = quota.or(terms.event_quota);
    (renewed.event_threshold, renewed.event_quota) = (threshold.is_some(), quota.is_some());
    new.terms = Some(Box::new(terms));
    (new, renewed)
}

fn sorted(mut told: Vec<Told>) -> Vec<Told> {
    told.sort_by_key(|told| (told.urr, told.sequence));
    told
}

/// A grant that the usage since the last report has reached already calls for reports at once, by the model too.
fn after_grant(reference: &mut Reference) {
    for _ in 0..200 {
        let now = reference.now;
        let urrs = reference.urrs.iter_mut();
        let due: Vec<_> = urrs.map(|model| model.volumes() | model.times(now)).collect();
        if due.iter().all(|triggers| triggers.is_empty()) {
            return;
        }
        reference.report(due);
    }
    panic!("the model never comes to rest");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reports_are_what_a_look_at_every_packet_gives(
        urrs in (urr(0), urr(1), urr(2)),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let urrs = [urrs.0, urrs.1, urrs.2];
        let mut engine = Engine::new(&urrs);
        let mut reference = Reference {
            now: 0,
            urrs: urrs.iter().map(Model::new).collect(),
            told: Vec::new(),
        };
        for step in steps {
            match step.clone() {
                Step::Packet { urrs, downlink, octets, event } => {
                    let counted = engine.packet(urrs, downlink, octets, event);
                    let expected = reference.packet(urrs, !downlink, octets.into(), event);
                    prop_assert_eq!(counted, expected, "{:?}", step);
                }
                Step::Wait(seconds) => for _ in 0..seconds {
                    engine.second();
                    reference.second();
                },
                Step::Query => {
                    engine.query();
                    reference.query();
                }
                Step::Grant { urr, threshold, quota, time_quota, event_threshold, event_quota } => {
                    let at = usize::from(urr);
                    let events = [event_threshold, event_quota];
                    let (new, renewed) = granted(&engine.urrs[at], (threshold, quota), time_quota, events);
                    engine.grant(at, new.clone(), renewed);
                    let now = reference.now;
                    reference.urrs[at].grant(&new, renewed, now);
                    after_grant(&mut reference);
                }
                Step::Replace => {
                    let bounds = engine.book.bounds(&engine.urrs);
                    engine.replace(bounds);
                }
                Step::Move => engine.move_away(),
                Step::Transfer => engine.transfer(),
            }
            let told: Vec<Told> = engine.reports.iter().map(Told::from).collect();
            prop_assert_eq!(sorted(told), sorted(reference.told.clone()), "after {:?}", step);
        }
        // What is not reported is what the list says.
        let counts = engine.counts();
        for (checkpoint, model) in engine.book.checkpoints(&counts).iter().zip(&reference.urrs) {
            let (octets, _) = model.unreported();
            let count = checkpoint.count;
            prop_assert_eq!([count.ul_octets + count.dl_octets, count.ul_octets, count.dl_octets], octets);
            prop_assert_eq!(count.events, model.events() - model.report_events);
            prop_assert_eq!(checkpoint.times, model.times_of_packets());
        }
    }
}
