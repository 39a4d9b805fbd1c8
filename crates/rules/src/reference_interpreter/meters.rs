//! The meters of a session's QERs as the interpreter has them: exact, in integers that cannot overflow, and slow.

use std::collections::BTreeMap;

use flow::meter::{Colour, MeterSpec, PacketRate, PacketsPer};
use flow::{Direction, Nanos};

use crate::model::{BitRates, CorrelationId, Qer, QerId, SessionRules};

/// Billionths of a bit in an octet: the unit in which a rate in bit/s earns a whole number each nanosecond.
const PER_OCTET: u128 = 8_000_000_000;

/// What a bucket earns and holds.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// In bit/s.
    rate: u128,
    depth: u128,
}

/// The bounds of a QER in one direction.
#[derive(Clone, Copy, Debug)]
struct Limit {
    maximum: Bounds,
    /// Only if it is below the maximum.
    guaranteed: Option<Bounds>,
}

/// What is left in the buckets of one QER and direction.
#[derive(Clone, Copy, Debug)]
struct Meter {
    maximum: u128,
    guaranteed: Option<u128>,
    until: Nanos,
}

/// Which bucket: a QER's own, or that of a correlation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Which {
    Own(QerId),
    Common(CorrelationId),
}

/// What the sessions of one control plane function have in common.
#[derive(Clone, Debug, Default)]
struct CommonRates {
    /// By correlation, and by the session that says so.
    said: BTreeMap<(CorrelationId, u64), Qer>,
    meters: BTreeMap<(CorrelationId, Direction), Meter>,
}

impl CommonRates {
    fn follow(&mut self, session: u64, rules: &SessionRules) {
        self.said.retain(|(_, whose), _| *whose != session);
        for (correlation, qer) in rules.correlations() {
            self.said.insert((correlation, session), qer.clone());
        }
        let mut meters = std::mem::take(&mut self.meters);
        meters.retain(|(correlation, direction), meter| {
            let limit = self.limit(*correlation, *direction);
            limit.map(|limit| meter.cut(&limit)).is_some()
        });
        self.meters = meters;
    }

    /// What all QERs of a correlation allow: the lowest of their maximum bit rates.
    fn limit(&self, correlation: CorrelationId, direction: Direction) -> Option<Limit> {
        let said = self.said.range((correlation, 0)..=(correlation, u64::MAX));
        let limits = said.filter_map(|(_, qer)| limit(qer, direction));
        limits.min_by_key(|limit| limit.maximum.rate)
    }
}

/// The buckets of one session, or of several of one control plane function whose QERs all have numbers of their own.
/// One that was never used is full.
#[derive(Clone, Debug, Default)]
pub struct ReferenceMeters {
    meters: BTreeMap<(QerId, Direction), Meter>,
    common: CommonRates,
    /// Of packet rates: the windows that have begun, of the rate and of the additional one.
    windows: BTreeMap<(QerId, Direction, bool), Window>,
}

/// A unit of time in which packets are counted.
#[derive(Clone, Copy, Debug)]
struct Window {
    of: PacketsPer,
    passed: u64,
    since: Nanos,
}

impl ReferenceMeters {
    /// Takes a packet's octets from the buckets of all these QERs, or from none. Gives its colour: green if it is
    /// within all guaranteed rates that are below a maximum one, red if it is not within all maximum ones.
    pub(super) fn pass(&mut self, qers: &[&Qer], direction: Direction, octets: u64, now: Nanos) -> Colour {
        let cost = u128::from(octets) * PER_OCTET;
        let mut asked: BTreeMap<Which, Colour> = BTreeMap::new();
        for qer in qers {
            let (which, limit) = self.limit(qer, direction);
            if let Some(limit) = limit
                && !asked.contains_key(&which)
            {
                let full = Meter::full(&limit, now);
                let meter = match which {
                    Which::Own(id) => self.meters.entry((id, direction)).or_insert(full),
                    Which::Common(id) => self.common.meters.entry((id, direction)).or_insert(full),
                };
                meter.earn(&limit, now);
                asked.insert(which, meter.colour(cost));
            }
        }
        let mut worst = asked.values().copied().max().unwrap_or(Colour::Green);
        let mut passes: Vec<(QerId, Direction, bool)> = Vec::new();
        for qer in qers {
            if let Some(rate) = qer.optional.packet_rates.and_then(|rates| rates.of(direction))
                && !passes.iter().any(|(id, ..)| *id == qer.id)
            {
                match self.window(qer.id, direction, &rate, now) {
                    Some(is_additional) => passes.push((qer.id, direction, is_additional)),
                    None => worst = Colour::Red,
                }
            }
        }
        if worst != Colour::Red {
            for key in passes {
                self.windows.entry(key).and_modify(|window| window.passed += 1);
            }
            for (which, colour) in asked {
                let meter = match which {
                    Which::Own(id) => self.meters.get_mut(&(id, direction)),
                    Which::Common(id) => self.common.meters.get_mut(&(id, direction)),
                };
                if let Some(meter) = meter {
                    meter.pay(colour, cost);
                }
            }
        }
        worst
    }

    /// The rules of a session are these from now on, as to what sessions have in common; one that ends has none.
    pub fn follow(&mut self, session: u64, rules: &SessionRules) {
        self.common.follow(session, rules);
    }

    fn limit(&self, qer: &Qer, direction: Direction) -> (Which, Option<Limit>) {
        match qer.correlation {
            Some(correlation) => (
                Which::Common(correlation),
                self.common.limit(correlation, direction),
            ),
            None => (Which::Own(qer.id), limit(qer, direction)),
        }
    }

    /// Which window of a packet rate has room for a packet: that of the rate, or the additional one.
    fn window(&mut self, id: QerId, direction: Direction, rate: &PacketRate, now: Nanos) -> Option<bool> {
        let rates = [(false, Some(rate.base)), (true, rate.additional)];
        for (is_additional, per) in rates {
            // An additional rate of nothing is none.
            let Some(of) = per.filter(|of| !is_additional || of.packets > 0) else {
                continue;
            };
            let begun = Window {
                of,
                passed: 0,
                since: now,
            };
            let window = self
                .windows
                .entry((id, direction, is_additional))
                .or_insert(begun);
            if now.0 >= window.since.0.saturating_add(window.of.unit.nanos()) {
                *window = begun;
            }
            if window.passed < u64::from(of.packets) {
                return Some(is_additional);
            }
        }
        None
    }

    /// The rules change: a meter that stays keeps what fits, one whose limit goes is forgotten, and one that gets or
    /// loses a guaranteed rate starts full.
    ///
    /// A window continues while its unit is the same: what has passed counts against the new rate.
    pub fn change(&mut self, rules: &SessionRules) {
        self.windows.retain(|(id, direction, is_additional), window| {
            let rates = rules.qer(*id).and_then(|qer| qer.optional.packet_rates);
            let rate = rates.and_then(|rates| rates.of(*direction));
            let per = rate.and_then(|rate| {
                if *is_additional {
                    rate.additional
                } else {
                    Some(rate.base)
                }
            });
            let goes_on = per.filter(|per| per.unit == window.of.unit);
            window.of = goes_on.unwrap_or(window.of);
            goes_on.is_some()
        });
        self.meters.retain(|(id, direction), meter| {
            let own = rules.qer(*id).filter(|qer| rules.correlation(qer).is_none());
            let limit = own.and_then(|qer| limit(qer, *direction));
            limit.is_some_and(|limit| {
                let is_same_kind = limit.guaranteed.is_some() == meter.guaranteed.is_some();
                meter.cut(&limit);
                is_same_kind
            })
        });
    }
}

impl Meter {
    fn full(limit: &Limit, now: Nanos) -> Self {
        Self {
            maximum: limit.maximum.depth,
            guaranteed: limit.guaranteed.map(|bounds| bounds.depth),
            until: now,
        }
    }

    fn earn(&mut self, limit: &Limit, now: Nanos) {
        let passed = u128::from(now.0.saturating_sub(self.until.0));
        self.until = self.until.max(now);
        self.maximum += passed * limit.maximum.rate;
        if let (Some(left), Some(bounds)) = (&mut self.guaranteed, limit.guaranteed) {
            *left += passed * bounds.rate;
        }
        self.cut(limit);
    }

    fn cut(&mut self, limit: &Limit) {
        self.maximum = self.maximum.min(limit.maximum.depth);
        if let (Some(left), Some(bounds)) = (&mut self.guaranteed, limit.guaranteed) {
            *left = (*left).min(bounds.depth);
        }
    }

    /// RFC 2698 §3, colour-blind.
    fn colour(&self, cost: u128) -> Colour {
        if self.maximum < cost {
            Colour::Red
        } else if self.guaranteed.is_some_and(|left| left < cost) {
            Colour::Yellow
        } else {
            Colour::Green
        }
    }

    fn pay(&mut self, colour: Colour, cost: u128) {
        self.maximum -= cost;
        if let Some(left) = self.guaranteed.as_mut().filter(|_| colour == Colour::Green) {
            *left -= cost;
        }
    }
}

/// What a QER limits. Above the highest rate that a worker can reach, 1 Tbit/s, it limits nothing.
fn limit(qer: &Qer, direction: Direction) -> Option<Limit> {
    let maximum = kbit(qer.mbr?, direction);
    if maximum > 1_000_000_000 {
        return None;
    }
    let millis = match (qer.optional.gbr, qer.optional.averaging_window) {
        (Some(_), Some(window)) => u64::from(window),
        _ => MeterSpec::BURST_MILLIS,
    };
    let guaranteed = qer.optional.gbr.map_or(0, |gbr| kbit(gbr, direction));
    Some(Limit {
        maximum: bounds(maximum, millis),
        guaranteed: (0 < guaranteed && guaranteed < maximum).then(|| bounds(guaranteed, millis)),
    })
}

fn kbit(rates: BitRates, direction: Direction) -> u64 {
    let rate = match direction {
        Direction::Uplink => rates.ul,
        Direction::Downlink => rates.dl,
    };
    rate.0.div_ceil(1000)
}

/// A bucket holds its rate for this number of milliseconds, and at least 10,000 octets unless nothing passes.
fn bounds(kbit: u64, millis: u64) -> Bounds {
    let burst = kbit * millis / 8;
    let burst = if kbit == 0 {
        0
    } else {
        burst.max(MeterSpec::LEAST_BURST)
    };
    Bounds {
        rate: u128::from(kbit) * 1000,
        depth: u128::from(burst) * PER_OCTET,
    }
}
