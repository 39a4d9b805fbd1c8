//! Credit pools (TS 29.244 §5.2.2.2.2, §5.2.2.3.2): a URR whose usage is the weighted sum of the usage of others.

use core::num::NonZeroU64;

use super::ids::UrrId;

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

    /// This number of billionths; `None` for 0.
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

/// The largest weight of a packet in a pool, as a multiple of the smallest possible one.
pub const MAX_WEIGHT: u64 = 1000;

/// The greatest common divisor; `a` if `b` is 0.
pub(super) fn greatest_common_divisor(a: u64, b: u64) -> u64 {
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
}
