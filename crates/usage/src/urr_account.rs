//! The account of one URR: what was counted, what of it was reported, and the number of the next report.

mod packed;

use flow::{PacketTimes, UrrCount};
use rules::model::{MeasurementMethod, Multiplier, Urr};

pub(crate) use self::packed::Packed;
use crate::bounds::UrrBounds;
use crate::count::{beyond, is_null, sum};
use crate::counter::{CounterBase, Used};
use crate::moment::{Moment, PacketMoments, Setting};
use crate::urr_state::{Renewed, UrrState};
use crate::usage_report::Seconds;

/// One URR's account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UrrAccount {
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
    /// Those of the packets that are not reported.
    pub(crate) times: Option<PacketMoments>,
    /// What came before QoS enforcement and is not reported; nothing of most URRs.
    pub(crate) before_qos: Option<UrrCount>,
    pub(crate) acting: Option<ActiveRule>,
}

/// The state of a URR beside its counts, and the bounds that its worker's counters were sent last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActiveRule {
    pub(crate) state: UrrState,
    pub(crate) sent_bounds: Option<UrrBounds>,
}

impl UrrAccount {
    /// One whose first measurement begins now.
    pub(crate) fn beginning(now: Moment) -> UrrAccount {
        UrrAccount {
            since: now,
            ..UrrAccount::default()
        }
    }

    pub(crate) fn record_packet_times(&mut self, times: PacketTimes) {
        let times = PacketMoments::from(times);
        self.times = Some(self.times.map_or(times, |before| before.merged(times)));
    }

    /// What was used since the last report, as counters count it.
    pub(crate) fn raw(&self, count: UrrCount) -> UrrCount {
        sum(beyond(count, self.reported), self.carried)
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

    /// The counter of events may have restarted without notice: it was removed and created again by a change that was
    /// taken back.
    pub(crate) fn detect_restart(&mut self, count: UrrCount) {
        if count.events < self.reported.events {
            self.reported.events = 0;
        }
    }

    /// There is no counter of events any more: what it had and was not reported is not measured.
    pub(crate) fn forget_events(&mut self) {
        (self.reported.events, self.carried.events) = (0, 0);
    }

    /// The bounds that its state sets.
    pub(crate) fn bounds(&self, urr: &Urr) -> UrrBounds {
        let acting = self.acting.as_ref();
        acting.map_or(UrrBounds::NONE, |acting| {
            acting.state.bounds(urr, &self.base(urr.unit()))
        })
    }

    /// Whether the worker was sent its bounds as they are.
    pub(crate) fn are_bounds_sent(&self, urr: &Urr) -> bool {
        let acting = self.acting.as_ref();
        acting.is_none_or(|acting| acting.sent_bounds == Some(self.bounds(urr)))
    }

    pub(crate) fn state_mut(&mut self) -> Option<&mut UrrState> {
        self.acting.as_mut().map(|acting| &mut acting.state)
    }

    /// Whether nothing was measured since the last report.
    pub(crate) fn has_measured_nothing(&self, now: Moment, count: UrrCount) -> bool {
        let seconds = |acting: &ActiveRule| acting.state.seconds(now);
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
            if let Some(state) = self.state_mut() {
                state.seen = carried.ul_octets.saturating_add(carried.dl_octets);
            }
        }
        if !urr.counts_events() {
            self.forget_events();
        }
        if !UrrState::is_needed(urr) {
            self.acting = None;
            return;
        }
        match &mut self.acting {
            Some(acting) => acting.state.renew(urr, renewed.unwrap_or_default(), now, setting),
            None => {
                let state = UrrState::begin(urr, now, setting);
                self.acting = Some(ActiveRule {
                    state,
                    sent_bounds: None,
                });
            }
        }
    }
}

/// Whether a URR measures time.
pub(crate) fn measures_time(urr: &Urr) -> bool {
    urr.method.contains(MeasurementMethod::DURAT)
}
