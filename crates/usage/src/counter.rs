//! What a counter has counted since the last report, and where it is when a volume is reached.

use flow::UrrCount;
use rules::model::Multiplier;

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
    pub(crate) fn of(raw: UrrCount, unit: u64, rest: [u64; 2]) -> Self {
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
    /// Where the counter is when `octets` more are reached. `kind`: 0 both directions, 1 uplink, 2 downlink.
    pub(crate) fn reach(&self, octets: u64, kind: usize) -> u64 {
        self.place(self.units(octets, kind, self.unit - 1), kind)
    }

    /// Where it is when no more fits into `octets`.
    pub(crate) fn fill(&self, octets: u64, kind: usize) -> u64 {
        self.place(self.units(octets, kind, 0), kind)
    }

    /// The place `further` than at the last report.
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
