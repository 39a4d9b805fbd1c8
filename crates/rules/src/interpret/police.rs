//! The meters of a session's QERs as the interpreter has them: exact, in integers that cannot overflow, and slow.

use std::collections::BTreeMap;

use flow::meter::{Colour, MeterSpec};
use flow::{Direction, Nanos};

use crate::model::{BitRates, Qer, QerId, SessionRules};

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

/// The buckets of one session. One that was never used is full.
#[derive(Clone, Debug, Default)]
pub struct Policers {
    meters: BTreeMap<(QerId, Direction), Meter>,
}

impl Policers {
    /// Takes a packet's octets from the buckets of all these QERs, or from none. Gives its colour: green if it is
    /// within all guaranteed rates that are below a maximum one, red if it is not within all maximum ones.
    pub(super) fn pass(&mut self, qers: &[&Qer], direction: Direction, octets: u64, now: Nanos) -> Colour {
        let cost = u128::from(octets) * PER_OCTET;
        let mut asked: BTreeMap<QerId, Colour> = BTreeMap::new();
        for qer in qers {
            if let Some(limit) = limit(qer, direction)
                && !asked.contains_key(&qer.id)
            {
                let meter = self.meters.entry((qer.id, direction));
                let meter = meter.or_insert_with(|| Meter::full(&limit, now));
                meter.earn(&limit, now);
                asked.insert(qer.id, meter.colour(cost));
            }
        }
        let worst = asked.values().copied().max().unwrap_or(Colour::Green);
        if worst != Colour::Red {
            for (id, colour) in asked {
                self.meters
                    .entry((id, direction))
                    .and_modify(|meter| meter.pay(colour, cost));
            }
        }
        worst
    }

    /// The rules change: a meter that stays keeps what fits, one whose limit goes is forgotten, and one that gets or
    /// loses a guaranteed rate starts full.
    pub fn change(&mut self, rules: &SessionRules) {
        self.meters.retain(|(id, direction), meter| {
            let limit = rules.qer(*id).and_then(|qer| limit(qer, *direction));
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
    let guaranteed = qer.gbr.map_or(0, |gbr| kbit(gbr, direction));
    Some(Limit {
        maximum: bounds(maximum),
        guaranteed: (0 < guaranteed && guaranteed < maximum).then(|| bounds(guaranteed)),
    })
}

fn kbit(rates: BitRates, direction: Direction) -> u64 {
    let rate = match direction {
        Direction::Uplink => rates.ul,
        Direction::Downlink => rates.dl,
    };
    rate.0.div_ceil(1000)
}

/// A bucket holds 50 ms of its rate, and at least 10,000 octets unless nothing passes.
fn bounds(kbit: u64) -> Bounds {
    let burst = kbit * MeterSpec::BURST_MILLIS / 8;
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
