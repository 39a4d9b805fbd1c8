//! The account of one URR, and how it is kept: there are very many, and most say little.

mod packed;

use flow::{Bounds, PacketTimes, UrrCount};
use rules::model::{Multiplier, Urr};

pub(crate) use self::packed::Packed;
use crate::count::{difference, sum};
use crate::machine::Machine;
use crate::{Moment, UsageReport, UsageTriggers};

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
    /// Of the counter of octets and of that of events.
    pub(crate) sent_bounds: Option<(Bounds, Bounds)>,
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

    /// So many octets more of a counter that counts in this unit.
    pub(crate) fn add_octets(&mut self, [uplink, downlink]: [u64; 2], unit: u64) {
        let own = u128::from(self.unit());
        let carried = [&mut self.carried.ul_octets, &mut self.carried.dl_octets];
        for ((octets, carried), rest) in [uplink, downlink].into_iter().zip(carried).zip(&mut self.rest) {
            let all = u128::from(octets) * u128::from(unit) + u128::from(*rest);
            *carried = carried.wrapping_add((all / own) as u64);
            *rest = (all % own) as u64;
        }
    }

    /// Where a counter of this unit stands.
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

    /// The counter of events may have begun anew where nobody told: it went and came again with a change that was
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

    /// Of the counter of octets, and of that of events.
    pub(crate) fn bounds(&self, urr: &Urr) -> (Bounds, Bounds) {
        let acting = self.acting.as_ref();
        acting.map_or((Bounds::NONE, Bounds::NONE), |acting| {
            bounds_of(&acting.machine, urr, &self.base(urr.unit()))
        })
    }

    /// Whether the worker was told of its bounds as they are.
    pub(crate) fn are_bounds_sent(&self, urr: &Urr) -> bool {
        let acting = self.acting.as_ref();
        acting.is_none_or(|acting| acting.sent_bounds == Some(self.bounds(urr)))
    }

    pub(crate) fn machine_mut(&mut self) -> Option<&mut Machine> {
        self.acting.as_mut().map(|acting| &mut acting.machine)
    }
}

/// What a machine wants of the counter of octets and of that of events, which stand so. Of a counter of events that
/// there is not, nothing.
pub(crate) fn bounds_of(machine: &Machine, urr: &Urr, base: &CounterBase) -> (Bounds, Bounds) {
    let events = match urr.counts_events() {
        true => machine.event_bounds(urr, base.reported, base.carried),
        false => Bounds::NONE,
    };
    (machine.bounds(urr, base), events)
}

/// What was used since the last report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// Octets that are whole, packets and events.
    pub(crate) count: UrrCount,
    /// The octets of both directions together, whole: it may be one more than those of each.
    pub(crate) total: u64,
    /// The octets of the counter itself.
    pub(crate) raw: u64,
    /// What is not whole, in billionths.
    pub(crate) rest: [u64; 2],
}

impl Used {
    fn of(raw: UrrCount, unit: u64, rest: [u64; 2]) -> Self {
        let octets = raw.ul_octets.wrapping_add(raw.dl_octets);
        let mut used = Self {
            count: raw,
            total: octets,
            raw: octets,
            rest,
        };
        if unit == Multiplier::ONE && rest == [0; 2] {
            return used;
        }
        let one = u128::from(Multiplier::ONE);
        let all = |octets: u64, rest: u64| u128::from(octets) * u128::from(unit) + u128::from(rest);
        let all = [all(raw.ul_octets, rest[0]), all(raw.dl_octets, rest[1])];
        let whole = |billionths: u128| u64::try_from(billionths / one).unwrap_or(u64::MAX);
        (used.count.ul_octets, used.count.dl_octets) = (whole(all[0]), whole(all[1]));
        used.total = whole(all[0].saturating_add(all[1]));
        used.rest = all.map(|billionths| (billionths % one) as u64);
        used
    }
}

/// What of a counter was reported, what others have counted, and what an octet in it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterBase {
    pub(crate) reported: UrrCount,
    pub(crate) carried: UrrCount,
    pub(crate) unit: u64,
    /// Used beside, in billionths.
    pub(crate) rest: [i128; 2],
}

impl CounterBase {
    /// Where the counter is when so many octets more are reached: of both directions, of uplink, of downlink.
    pub(crate) fn reach(&self, octets: u64, kind: usize) -> u64 {
        self.place(self.units(octets, kind, self.unit - 1), kind)
    }

    /// Where it is when no more fits into so many octets.
    pub(crate) fn fill(&self, octets: u64, kind: usize) -> u64 {
        self.place(self.units(octets, kind, 0), kind)
    }

    /// So much further than at the last report.
    pub(crate) fn place(&self, further: u64, kind: usize) -> u64 {
        let of = |count: UrrCount| {
            let all = count.ul_octets.wrapping_add(count.dl_octets);
            [all, count.ul_octets, count.dl_octets][kind]
        };
        further
            .saturating_add(of(self.reported))
            .saturating_sub(of(self.carried))
    }

    fn units(&self, octets: u64, kind: usize, more: u64) -> u64 {
        let [uplink, downlink] = self.rest;
        let rest = [uplink.saturating_add(downlink), uplink, downlink][kind];
        if self.unit == Multiplier::ONE && rest == 0 {
            return octets;
        }
        let left = (i128::from(octets) * i128::from(Multiplier::ONE)).saturating_sub(rest);
        let left = left.saturating_add(more.into());
        u64::try_from(left.max(0) / i128::from(self.unit)).unwrap_or(u64::MAX)
    }
}
