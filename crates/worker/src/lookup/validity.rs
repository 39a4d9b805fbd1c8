//! How long decisions hold: what is kept of it in an entry, and which entries hold now.

use flow::Nanos;

/// The snapshot of entries that are softly stale from the start. It is never the current one.
pub(super) const OUTDATED: u16 = u16::MAX;
/// Set in the snapshot of provisional entries.
const PROVISIONAL: u16 = 1 << 15;
/// Set in that of entries which hold for a period. The part of time in which the entry was made is then in the place of
/// the snapshot.
const PERIODIC: u16 = 1 << 14;
/// Snapshots have numbers below this.
const SNAPSHOTS: u16 = OUTDATED & !PROVISIONAL & !PERIODIC;
/// The bits of the number of a part. One is left: nothing periodic is outdated from the start.
const PART: u16 = (1 << 13) - 1;
const KIND: u16 = !PART;

/// Parts of a period: the entries that were made in one are decided anew at the same time.
const PARTS: u16 = 8;
/// By how many parts what was decided at once is spread.
const SPREAD: u16 = 4;
/// A part is 2 to the power of this, in nanoseconds: 8.6 s.
const PART_SHIFT: u32 = 33;

/// How long a decision holds at most that holds for a period, in nanoseconds; half of it at least.
pub(crate) const PERIOD: Nanos = Nanos((PARTS as u64) << PART_SHIFT);

/// Which entries hold: those of this snapshot of the rules that all sessions share, and of the latest parts of time.
#[derive(Clone, Copy)]
pub(super) struct Valid {
    pub snapshot: u16,
    part: u16,
}

impl Valid {
    pub const FIRST: Self = Self { snapshot: 0, part: 0 };

    /// Parts of time have passed.
    pub fn advance(&mut self, parts: u64) {
        self.part = self.part.wrapping_add(parts as u16) & PART;
    }

    /// No entry holds any more.
    pub fn next_snapshot(&mut self) {
        self.snapshot = (self.snapshot + 1) % SNAPSHOTS;
        self.advance(PARTS.into());
    }

    /// What is kept in an entry that is made now. Entries with another `spread` are decided anew at other times: what
    /// was decided at once is not again.
    pub fn of(self, validity: Validity, spread: u32) -> u16 {
        let number = match validity.is_periodic {
            true => self.part.wrapping_sub((spread % u32::from(SPREAD)) as u16) & PART | PERIODIC,
            false => self.snapshot,
        };
        match validity.is_provisional {
            true => number | PROVISIONAL,
            false => number,
        }
    }

    /// Whether an entry holds that is not of the current snapshot: it was made in one of the latest parts of time.
    #[inline]
    pub fn holds(self, entry: u16) -> bool {
        entry & KIND == PERIODIC && self.is_recent(entry)
    }

    /// Whether an entry that does not hold is provisional, and not outdated.
    pub fn is_provisional(self, entry: u16) -> bool {
        entry == self.snapshot | PROVISIONAL
            || entry & KIND == PERIODIC | PROVISIONAL && self.is_recent(entry)
    }

    fn is_recent(self, entry: u16) -> bool {
        self.part.wrapping_sub(entry) & PART < PARTS
    }
}

/// The number of the part of time that `now` is in.
pub(super) const fn part(now: Nanos) -> u64 {
    now.0 >> PART_SHIFT
}

/// How long a decision holds: as long as the rules that all sessions share are the same, or less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Validity {
    /// What packets that find the entry carry may change it: those come to the slow path, too.
    pub is_provisional: bool,
    /// It holds no longer than a period, of 35 to 69 s.
    pub is_periodic: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether an entry holds, as `FamilyFlows::lookup` asks.
    fn holds(valid: Valid, entry: u16) -> bool {
        entry == valid.snapshot || valid.holds(entry)
    }

    /// Neither; periodic; provisional; both.
    fn made(valid: Valid, spread: u32) -> [u16; 4] {
        [(false, false), (false, true), (true, false), (true, true)].map(|(is_provisional, is_periodic)| {
            let validity = Validity {
                is_provisional,
                is_periodic,
            };
            valid.of(validity, spread)
        })
    }

    #[test]
    fn an_entry_holds_for_a_period_or_until_the_next_snapshot_whatever_the_numbers() {
        let mut valid = Valid::FIRST;
        for round in 0..u32::from(SNAPSHOTS) * 3 {
            let made = made(valid, round);
            assert!(!holds(valid, OUTDATED) && !valid.is_provisional(OUTDATED));
            let mut later = valid;
            for passed in 0..=u64::from(PARTS) {
                let is_recent = passed + u64::from(round % u32::from(SPREAD)) < PARTS.into();
                assert_eq!(
                    made.map(|entry| holds(later, entry)),
                    [true, is_recent, false, false]
                );
                let provisional = made.map(|entry| later.is_provisional(entry));
                assert_eq!(provisional, [false, false, true, is_recent], "{round} {passed}");
                later.advance(1);
            }
            valid.next_snapshot();
            assert!(
                !made
                    .iter()
                    .any(|entry| holds(valid, *entry) || valid.is_provisional(*entry))
            );
            valid.advance(u64::from(round % 3));
        }
    }
}
