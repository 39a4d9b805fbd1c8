//! The account of one URR, and how it is kept: there are very many, and most say little.

mod packed;

use flow::{PacketTimes, UrrCount};
use rules::model::{MeasurementInformation, MeasurementMethod, Multiplier, Urr};

pub(crate) use self::packed::Packed;
use crate::bounds::UrrBounds;
use crate::count::{difference, is_null, sum};
use crate::counter::{CounterBase, Used};
use crate::machine::{Machine, Renewed};
use crate::moment::{Moment, Setting};
use crate::report::{Seconds, UsageReport, UsageTriggers};

/// One URR's account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// What an octet in these counts is, in billionths of one of usage ([`Urr::unit`]); 0 is one.
    pub(crate) unit: u64,
    /// What is left of what was reported in whole octets: uplink and downlink, in billionths of one.
    pub(crate) rest: [u64; 2],
    /// The part of the worker's count that was reported.
    pub(crate) reported: UrrCount,
    /// Counted in a worker's slot that is gone, and not reported.
    pub(crate) carried: UrrCount,
    pub(crate) next: u32,
    pub(crate) since: Moment,
    /// When the first and the last packet came that are not reported.
    pub(crate) times: Option<(Moment, Moment)>,
    /// What came before QoS enforcement and is not reported; nothing of most URRs.
    pub(crate) before_qos: Option<UrrCount>,
    pub(crate) acting: Option<ActiveRule>,
}

/// The state machine of a URR, and the bounds that its worker's counters were sent last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActiveRule {
    pub(crate) machine: Machine,
    pub(crate) sent_bounds: Option<UrrBounds>,
}

impl Account {
    /// One whose first measurement begins now.
    pub(crate) fn beginning(now: Moment) -> Account {
        Account {
            since: now,
            ..Account::default()
        }
    }

    pub(crate) fn record_packet_times(&mut self, times: PacketTimes) {
        let [first, last] = [times.first, times.last].map(Moment::from);
        let (earliest, latest) = self.times.unwrap_or((first, last));
        self.times = Some((earliest.min(first), latest.max(last)));
    }

    /// What was used since the last report, as counters count it.
    pub(crate) fn raw(&self, count: UrrCount) -> UrrCount {
        sum(difference(count, self.reported), self.carried)
    }

    /// The same in octets.
    pub(crate) fn used(&self, count: UrrCount) -> Used {
        Used::of(self.raw(count), self.unit(), self.rest)
    }

    pub(crate) fn unit(&self) -> u64 {
        if self.unit == 0 {
            Multiplier::ONE
        } else {
            self.unit
        }
    }

    /// Counts are in another unit from now on; all of the counter so far is carried.
    pub(crate) fn set_unit(&mut self, unit: u64) {
        if unit == self.unit() {
            return;
        }
        let carried = [self.carried.ul_octets, self.carried.dl_octets];
        self.carried = UrrCount {
            ul_octets: 0,
            dl_octets: 0,
            ..self.carried
        };
        let before = self.unit();
        self.unit = if unit == Multiplier::ONE { 0 } else { unit };
        self.add_octets(carried, before);
    }

    /// Adds octets of a counter that counts in this unit.
    pub(crate) fn add_octets(&mut self, [uplink, downlink]: [u64; 2], unit: u64) {
        let own = u128::from(self.unit());
        let carried = [&mut self.carried.ul_octets, &mut self.carried.dl_octets];
        for ((octets, carried), rest) in [uplink, downlink].into_iter().zip(carried).zip(&mut self.rest) {
            let all = u128::from(octets) * u128::from(unit) + u128::from(*rest);
            *carried = carried.wrapping_add((all / own) as u64);
            *rest = (all % own) as u64;
        }
    }

    /// The base of a counter of this unit.
    pub(crate) fn base(&self, unit: u64) -> CounterBase {
        let mut base = CounterBase {
            reported: self.reported,
            carried: self.carried,
            unit,
            rest: self.rest.map(i128::from),
        };
        if unit != self.unit() {
            // It begins anew, and what the one before has counted is taken off the bounds where that is known.
            let parts = |count: UrrCount| [count.ul_octets, count.dl_octets].map(i128::from);
            let [reported, carried] = [parts(self.reported), parts(self.carried)];
            for (place, rest) in base.rest.iter_mut().enumerate() {
                let more = (carried[place] - reported[place]).saturating_mul(i128::from(self.unit()));
                *rest = rest.saturating_add(more);
            }
            let without = |count: UrrCount| UrrCount {
                ul_octets: 0,
                dl_octets: 0,
                ..count
            };
            (base.reported, base.carried) = (without(self.reported), without(self.carried));
        }
        base
    }

    /// A report of no usage: of a moment.
    pub(crate) fn report_moment(&mut self, urr: &Urr, triggers: UsageTriggers, now: Moment) -> UsageReport {
        let sequence = self.next;
        self.next = sequence.wrapping_add(1);
        UsageReport {
            urr: urr.id,
            method: urr.method,
            sequence,
            triggers,
            count: UrrCount::default(),
            reports_packets: false,
            before_qos: None,
            start: now,
            end: now,
            duration: None,
            first: None,
            last: None,
            information: None,
        }
    }

    /// The counter of events may have restarted without notice: it was removed and created again by a change that was
    /// taken back.
    pub(crate) fn detect_restart(&mut self, count: UrrCount) {
        if count.events < self.reported.events {
            self.reported.events = 0;
        }
    }

    /// There is no counter of events any more: what it had and was not told is not measured.
    pub(crate) fn forget_events(&mut self) {
        (self.reported.events, self.carried.events) = (0, 0);
    }

    /// The bounds that its machine sets.
    pub(crate) fn bounds(&self, urr: &Urr) -> UrrBounds {
        let acting = self.acting.as_ref();
        acting.map_or(UrrBounds::NONE, |acting| {
            acting.machine.bounds(urr, &self.base(urr.unit()))
        })
    }

    /// Whether the worker was sent its bounds as they are.
    pub(crate) fn are_bounds_sent(&self, urr: &Urr) -> bool {
        let acting = self.acting.as_ref();
        acting.is_none_or(|acting| acting.sent_bounds == Some(self.bounds(urr)))
    }

    pub(crate) fn machine_mut(&mut self) -> Option<&mut Machine> {
        self.acting.as_mut().map(|acting| &mut acting.machine)
    }

    /// Whether nothing was measured since the last report.
    pub(crate) fn has_measured_nothing(&self, now: Moment, count: UrrCount) -> bool {
        let seconds = |acting: &ActiveRule| acting.machine.seconds(now);
        let measured = self.acting.as_ref().map_or(Seconds(0), seconds);
        is_null(self.raw(count)) && self.before_qos.is_none() && measured == Seconds(0)
    }

    /// Takes over the URR as it is now; `renewed` are the terms that a request provisions again, if it names the URR.
    pub(crate) fn update(&mut self, urr: &Urr, renewed: Option<Renewed>, now: Moment, setting: Setting) {
        if !urr.measures_before_qos() {
            self.before_qos = None;
        }
        if self.unit() != urr.unit() {
            self.set_unit(urr.unit());
            let carried = self.carried;
            if let Some(machine) = self.machine_mut() {
                machine.seen = carried.ul_octets.saturating_add(carried.dl_octets);
            }
        }
        if !urr.counts_events() {
            self.forget_events();
        }
        if !Machine::is_needed(urr) {
            self.acting = None;
            return;
        }
        match &mut self.acting {
            Some(acting) => acting
                .machine
                .renew(urr, renewed.unwrap_or_default(), now, setting),
            None => {
                let machine = Machine::begin(urr, now, setting);
                self.acting = Some(ActiveRule {
                    machine,
                    sent_bounds: None,
                });
            }
        }
    }

    /// Reports what was counted since the last report, and starts the next measurement; unless the reasons call for no
    /// measurement, which then continues.
    pub(crate) fn report(
        &mut self,
        now: Moment,
        counted: Counted<'_>,
        triggers: UsageTriggers,
    ) -> UsageReport {
        let Counted { urr, count } = counted;
        if UsageTriggers::MEASURE_NOTHING.contains(triggers) && !triggers.is_empty() {
            if let Some(machine) = self.machine_mut() {
                machine.reported_moment(triggers);
            }
            return self.report_moment(urr, triggers, now);
        }
        self.detect_restart(count);
        let all = self.used(count);
        let mut used = all.count;
        let all_events = used.events;
        if let Some(machine) = self.machine_mut() {
            used.events = machine.events_to_report(used, triggers);
        }
        let machine = self.machine_mut();
        let duration = machine
            .filter(|_| measures_time(urr))
            .map(|machine| machine.seconds(now));
        if let Some(machine) = self.machine_mut() {
            machine.reported(used, duration.unwrap_or_default(), triggers, now);
        }
        let times = self.times.take().filter(|_| !is_null(used));
        let before_qos = self.before_qos.take();
        let report = UsageReport {
            urr: urr.id,
            method: urr.method,
            sequence: self.next,
            triggers,
            count: used,
            before_qos: urr.measures_before_qos().then(|| before_qos.unwrap_or_default()),
            reports_packets: urr.information.contains(MeasurementInformation::MNOP),
            start: self.since,
            end: now,
            duration,
            // Whose millisecond may have begun before the measurement.
            first: times.map(|(first, _)| first.max(self.since)),
            last: times.map(|(_, last)| last.max(self.since)),
            information: None,
        };
        self.rest = all.rest;
        self.reported = count;
        self.carried = UrrCount {
            events: all_events - used.events,
            ..UrrCount::default()
        };
        self.next = report.next_sequence();
        self.since = now;
        report
    }
}

/// Whether a URR measures time.
pub(crate) fn measures_time(urr: &Urr) -> bool {
    urr.method.contains(MeasurementMethod::DURAT)
}

/// A worker's count of one URR, since its slot began.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// The URR.
    pub urr: &'a Urr,
    /// What its slot has counted.
    pub count: UrrCount,
}
