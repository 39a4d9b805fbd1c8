//! The meters of a session's QERs as the interpreter has them: exact, in integers that cannot overflow, and slow.

use std::collections::BTreeMap;

use flow::meter::MeterSpec;
use flow::{Direction, Nanos};

use crate::model::{Qer, QerId, SessionRules};

/// Billionths of a bit in an octet: the unit in which a rate in bit/s earns a whole number each nanosecond.
const PER_OCTET: u128 = 8_000_000_000;

/// What is left in the bucket of one QER and direction.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: u128,
    until: Nanos,
}

/// The buckets of one session. One that was never used is full.
#[derive(Clone, Debug, Default)]
pub struct Policers {
    buckets: BTreeMap<(QerId, Direction), Bucket>,
}

impl Policers {
    /// Takes a packet's octets from the buckets of all these QERs, or from none. GBRs police nothing.
    pub(super) fn pass(&mut self, qers: &[&Qer], direction: Direction, octets: u64, now: Nanos) -> bool {
        let cost = u128::from(octets) * PER_OCTET;
        let mut limited: Vec<QerId> = Vec::new();
        for qer in qers {
            if let Some((rate, depth)) = limit(qer, direction)
                && !limited.contains(&qer.id)
            {
                let full = Bucket {
                    left: depth,
                    until: now,
                };
                let bucket = self.buckets.entry((qer.id, direction)).or_insert(full);
                let passed = u128::from(now.0.saturating_sub(bucket.until.0));
                bucket.left = (bucket.left + passed * rate).min(depth);
                bucket.until = bucket.until.max(now);
                limited.push(qer.id);
            }
        }
        let enough = limited
            .iter()
            .all(|id| self.buckets[&(*id, direction)].left >= cost);
        if enough {
            for id in limited {
                self.buckets
                    .entry((id, direction))
                    .and_modify(|bucket| bucket.left -= cost);
            }
        }
        enough
    }

    /// The rules change: a bucket that stays keeps what fits, one whose limit goes is forgotten.
    pub fn change(&mut self, rules: &SessionRules) {
        self.buckets.retain(|(id, direction), bucket| {
            let limit = rules.qer(*id).and_then(|qer| limit(qer, *direction));
            limit.is_some_and(|(_, depth)| {
                bucket.left = bucket.left.min(depth);
                true
            })
        });
    }
}

/// The rate in bit/s and the depth of a QER's bucket: 50 ms of the rate, and at least 10,000 octets.
fn limit(qer: &Qer, direction: Direction) -> Option<(u128, u128)> {
    let rates = qer.mbr?;
    let rate = match direction {
        Direction::Uplink => rates.ul,
        Direction::Downlink => rates.dl,
    };
    let kbit = rate.0.div_ceil(1000);
    if kbit >= 1 << 40 {
        return None;
    }
    let burst = kbit * MeterSpec::BURST_MILLIS / 8;
    let burst = if kbit == 0 {
        0
    } else {
        burst.max(MeterSpec::LEAST_BURST)
    };
    Some((u128::from(kbit) * 1000, u128::from(burst) * PER_OCTET))
}
