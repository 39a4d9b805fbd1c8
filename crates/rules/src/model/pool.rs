//! Credit pools (TS 29.244 §5.2.2.2.2, §5.2.2.3.2): a URR whose usage is the weighted sum of the usage of others.

use core::num::NonZeroU64;

use smallvec::SmallVec;

use super::ids::UrrId;
use super::session_rules::SessionRules;
use super::urr::{MeasurementInformation, MeasurementMethod, ReportingTriggers, Urr};

/// What a member's usage is multiplied by (TS 29.244 §8.2.84), exactly: in billionths, from 10^-9 to 1.8 * 10^10.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Multiplier(NonZeroU64);

impl Multiplier {
    /// One, in billionths.
    pub const ONE: u64 = 1_000_000_000;
    const PLACES: i32 = 9;

    /// `digits` times ten to the `exponent`; `None` where that is not positive, too much, or no whole number of
    /// billionths.
    pub fn new(digits: i64, exponent: i32) -> Option<Self> {
        let digits = u64::try_from(digits).ok()?;
        let places = exponent.checked_add(Self::PLACES)?;
        let power = 10u64.checked_pow(places.unsigned_abs());
        let billionths = match places {
            0.. => digits.checked_mul(power?)?,
            _ => power
                .filter(|power| digits % power == 0)
                .map(|power| digits / power)?,
        };
        NonZeroU64::new(billionths).map(Self)
    }

    /// So many billionths.
    pub fn from_billionths(billionths: u64) -> Option<Self> {
        NonZeroU64::new(billionths).map(Self)
    }

    /// It, in billionths.
    pub const fn billionths(self) -> u64 {
        self.0.get()
    }
}

/// A member of a credit pool (TS 29.244 Table 7.5.2.4-2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Aggregated {
    /// Aggregated URR ID.
    pub urr: UrrId,
    /// Multiplier.
    pub multiplier: Multiplier,
}

/// What a pool asks for and cannot have: its usage is that of its members, and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PoolFault {
    /// A member does not exist.
    NoUrr(UrrId),
    /// It is a member twice.
    Twice(UrrId),
    /// It is a pool itself.
    Nested(UrrId),
    /// The multiplier of one is more than [`MAX_WEIGHT`] times what all are multiples of.
    Uneven(UrrId),
    /// The pool counts events.
    Method,
    /// It measures before QoS enforcement, or from its provision on, or sends a Pause of Charging.
    Information,
    /// It reports dropped packets or End Markers, which are of PDRs.
    Triggers,
    /// It has an Inactivity Detection Time: its members have theirs.
    Inactivity,
}

impl core::fmt::Display for PoolFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoUrr(urr) => write!(f, "of URR {urr}, which does not exist"),
            Self::Twice(urr) => write!(f, "of URR {urr} twice"),
            Self::Nested(urr) => write!(f, "of URR {urr}, which is one itself"),
            Self::Uneven(urr) => write!(
                f,
                "in which URR {urr} weighs more than {MAX_WEIGHT} times the common part of all multipliers"
            ),
            Self::Method => f.write_str("and counts events"),
            Self::Information => f.write_str("and measures what its members do not"),
            Self::Triggers => f.write_str("and reports what is of PDRs"),
            Self::Inactivity => f.write_str("with an Inactivity Detection Time of its own"),
        }
    }
}

/// The most that a packet may count in a pool: so many times as much as the lightest possible one.
pub const MAX_WEIGHT: u64 = 1000;

/// The counters of a pool in a session's block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSlots {
    /// The slot of the pool itself.
    pub pool: u8,
    /// Of each member its slot, how often a packet of it counts in the pool's counter, and the slot that says so, where
    /// packets of the pool do not all count once.
    pub members: SmallVec<[(u8, u16, Option<u8>); 4]>,
}

impl PoolSlots {
    /// Those of the members and of what says how much they count.
    pub fn shares(&self) -> u64 {
        let bit = |slot: u8| 1u64.checked_shl(slot.into()).unwrap_or(0);
        let members = self.members.iter();
        members.fold(0, |all, (slot, _, weight)| {
            all | weight.map_or_else(|| bit(*slot), bit)
        })
    }

    /// Whether its packets count by weight.
    pub fn is_weighted(&self) -> bool {
        self.members.iter().any(|(.., weight)| weight.is_some())
    }
}

impl Urr {
    /// The members, if it is a credit pool.
    pub fn pool(&self) -> Option<&[Aggregated]> {
        self.terms.as_deref()?.pool.as_deref()
    }

    /// What an octet in its counter is, in billionths of an octet of its usage: one, but of a pool what the multipliers of
    /// all of its members are multiples of.
    pub fn unit(&self) -> u64 {
        let measures = self.method.contains(MeasurementMethod::VOLUM);
        let members = self.pool().filter(|_| measures).unwrap_or_default();
        let unit = members.iter().fold(0, |unit, one| {
            greatest_common_divisor(unit, one.multiplier.billionths())
        });
        if unit == 0 { Multiplier::ONE } else { unit }
    }

    /// Whether it is a pool that this one is a member of.
    pub fn has_member(&self, urr: UrrId) -> bool {
        self.pool()
            .is_some_and(|pool| pool.iter().any(|one| one.urr == urr))
    }

    /// There is no such URR any more.
    pub(super) fn leave(&mut self, member: UrrId) {
        if self.has_member(member) {
            self.change_terms(|terms| {
                if let Some(pool) = &mut terms.pool {
                    pool.retain(|one| one.urr != member);
                }
            });
        }
    }

    /// What it asks for as a pool of `rules` and cannot have.
    pub(crate) fn pool_fault(&self, rules: &SessionRules) -> Option<PoolFault> {
        let pool = self.pool()?;
        let unit = self.unit();
        let of_members = pool.iter().enumerate().find_map(|(place, one)| {
            let Some(member) = rules.urr(one.urr) else {
                return Some(PoolFault::NoUrr(one.urr));
            };
            let is_known = pool.iter().take(place).any(|other| other.urr == one.urr);
            let faults = [
                (is_known, PoolFault::Twice(one.urr)),
                (member.pool().is_some(), PoolFault::Nested(one.urr)),
                (
                    self.method.contains(MeasurementMethod::VOLUM)
                        && one.multiplier.billionths() / unit > MAX_WEIGHT,
                    PoolFault::Uneven(one.urr),
                ),
            ];
            faults
                .into_iter()
                .find(|(is_there, _)| *is_there)
                .map(|(_, fault)| fault)
        });
        of_members.or_else(|| self.own_fault())
    }

    fn own_fault(&self) -> Option<PoolFault> {
        let informs = |flags| self.information.contains(flags);
        let is_more = informs(MeasurementInformation::MBQE)
            || informs(MeasurementInformation::ISTM)
            || informs(MeasurementInformation::SSPOC);
        let triggers = [ReportingTriggers::DROTH, ReportingTriggers::REEMR];
        let faults = [
            (self.counts_events(), PoolFault::Method),
            (is_more, PoolFault::Information),
            (
                triggers
                    .into_iter()
                    .any(|trigger| self.triggers.contains(trigger)),
                PoolFault::Triggers,
            ),
            (
                self.terms().inactivity_detection_time.is_some(),
                PoolFault::Inactivity,
            ),
        ];
        faults
            .into_iter()
            .find(|(is_there, _)| *is_there)
            .map(|(_, fault)| fault)
    }
}

impl SessionRules {
    /// The counters of the pools, whose weights have slots from `first` on.
    pub(super) fn pools_from(&self, first: usize) -> Vec<PoolSlots> {
        let mut next = first;
        let pools = (0..)
            .zip(self.urrs())
            .filter_map(|(slot, urr)| Some((slot, urr, urr.pool()?)));
        let pools = pools.map(|(pool, urr, members)| {
            let mut slots: SmallVec<_> = members.iter().filter_map(|one| self.share(urr, one)).collect();
            if urr.method.contains(MeasurementMethod::VOLUM) && self.is_weighted(members, &slots) {
                for ((.., weight), slot) in slots.iter_mut().zip(next..) {
                    *weight = Some(slot.min(u8::MAX.into()) as u8);
                }
                next += slots.len();
            }
            PoolSlots { pool, members: slots }
        });
        pools.collect()
    }

    /// The slot of a member of a pool, and how often a packet of it counts there: never if it measures no volume.
    fn share(&self, pool: &Urr, one: &Aggregated) -> Option<(u8, u16, Option<u8>)> {
        let slot = self.urrs().iter().position(|urr| urr.id == one.urr)?;
        let measures = self
            .urrs()
            .get(slot)
            .is_some_and(|urr| urr.method.contains(MeasurementMethod::VOLUM));
        let weight = (one.multiplier.billionths() / pool.unit()).min(MAX_WEIGHT) as u16;
        Some((slot as u8, if measures { weight } else { 0 }, None))
    }

    /// Whether not every packet of a pool counts once there: members weigh differently, or a packet may be of several.
    fn is_weighted(&self, members: &[Aggregated], slots: &[(u8, u16, Option<u8>)]) -> bool {
        let counts_in =
            |pdr: &super::pdr::Pdr| members.iter().filter(|one| pdr.may_count_in(one.urr)).count() > 1;
        slots.iter().any(|(_, weight, _)| *weight != 1) || self.pdrs().iter().any(counts_in)
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_multiplier_is_exact_or_none() {
        let billionths = |digits, exponent| Multiplier::new(digits, exponent).map(Multiplier::billionths);
        assert_eq!(billionths(1, -1), Some(100_000_000));
        assert_eq!(billionths(100, -2), Some(Multiplier::ONE));
        assert_eq!(billionths(1, -9), Some(1));
        assert_eq!(billionths(10, -10), Some(1));
        assert_eq!(billionths(18_446_744_073, 0), Some(18_446_744_073_000_000_000));
        assert_eq!(billionths(i64::MAX, -9), Some(i64::MAX as u64));
        let none = [
            (0, 0),
            (-1, 0),
            (i64::MIN, 0),
            (1, -10),
            (18_446_744_074, 0),
            (1, 11),
            (1, i32::MAX),
            (1, i32::MIN),
            (i64::MAX, -10),
        ];
        for (digits, exponent) in none {
            assert_eq!(billionths(digits, exponent), None, "{digits} {exponent}");
        }
    }

    #[test]
    fn what_a_counter_counts_is_what_all_multipliers_are_multiples_of() {
        let pool = |members: &[(i64, i32)]| {
            let member = |(urr, (digits, exponent)): (u32, &(i64, i32))| Aggregated {
                urr: UrrId(urr),
                multiplier: Multiplier::new(*digits, *exponent).unwrap(),
            };
            let mut urr = Urr::volume(UrrId(9));
            urr.change_terms(|terms| terms.pool = Some((1..).zip(members).map(member).collect()));
            urr
        };
        assert_eq!(Urr::volume(UrrId(1)).unit(), Multiplier::ONE);
        assert_eq!(pool(&[]).unit(), Multiplier::ONE);
        assert_eq!(pool(&[(1, -1), (5, -1)]).unit(), 100_000_000);
        assert_eq!(pool(&[(6, 0), (4, 0)]).unit(), 2 * Multiplier::ONE);
        assert_eq!(pool(&[(7, 3), (7, 3)]).unit(), 7000 * Multiplier::ONE);
    }
}
