//! How long decisions hold: what is kept of it in an entry, and which entries hold now.

use flow::Nanos;

/// The snapshot of entries that are softly stale from the start. It is never the current one.
pub(super) const OUTDATED: u16 = u16::MAX;
/// Set in the snapshot of provisional entries.
const PROVISIONAL: u16 = 1 << 15;
/// Set in that of entries which hold for a period. The part of a period in which the entry was made is then in the place
/// of the snapshot.
const PERIODIC: u16 = 1 << 14;
/// Snapshots have numbers below this.
const SNAPSHOTS: u16 = OUTDATED & !PROVISIONAL & !PERIODIC;

/// Parts of a period: the entries that were made in one are decided anew at the same time.
const PARTS: u16 = 8;
/// A part is 2 to the power of this, in nanoseconds: 8.6 s.
const PART_SHIFT: u32 = 33;

/// How long a decision holds at most that holds for a period, in nanoseconds; and an eighth less at least.
pub(crate) const PERIOD: Nanos = Nanos((PARTS as u64) << PART_SHIFT);

/// Which entries hold: those of this snapshot of the rules that all sessions share, and of the latest parts of time.
#[derive(Clone, Copy)]
pub(super) struct Valid {
    pub snapshot: u16,
    part: u16,
}

impl Valid {
    pub const FIRST: Self = Self {
        snapshot: 0,
        part: PERIODIC,
    };

    /// Parts of time have passed.
    pub fn advance(&mut self, parts: u64) {
        self.part = self.part.wrapping_add(parts as u16) & SNAPSHOTS | PERIODIC;
    }

    /// No entry holds any more.
    pub fn next_snapshot(&mut self) {
        self.snapshot = (self.snapshot + 1) % SNAPSHOTS;
        self.advance(PARTS.into());
    }

    /// What is kept in an entry that is made now.
    pub fn of(self, validity: Validity) -> u16 {
        match validity {
            Validity::Snapshot => self.snapshot,
            Validity::Period => self.part,
            Validity::Provisional => self.snapshot | PROVISIONAL,
        }
    }

    /// Whether an entry holds that is of another snapshot: it was made in one of the latest parts of time.
    #[inline]
    pub fn holds(self, entry: u16) -> bool {
        entry & (PROVISIONAL | PERIODIC) == PERIODIC && self.part.wrapping_sub(entry) & SNAPSHOTS < PARTS
    }
}

/// The number of the part of time that `now` is in.
pub(super) const fn part(now: Nanos) -> u64 {
    now.0 >> PART_SHIFT
}

/// How long a decision holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    /// As long as the rules that all sessions share are the same.
    Snapshot,
    /// And no longer than a period, of some 65 s.
    Period,
    /// What packets that find the entry carry may change it: those come to the slow path, too.
    Provisional,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether an entry holds, as `FamilyFlows::lookup` asks.
    fn holds(valid: Valid, entry: u16) -> bool {
        entry == valid.snapshot || valid.holds(entry)
    }

    #[test]
    fn an_entry_holds_for_a_period_or_until_the_next_snapshot_whatever_the_numbers() {
        let mut valid = Valid::FIRST;
        for round in 0..u32::from(SNAPSHOTS) * 3 {
            let made = [Validity::Snapshot, Validity::Period].map(|validity| valid.of(validity));
            assert!(made.iter().all(|entry| holds(valid, *entry)));
            let others = [valid.of(Validity::Provisional), OUTDATED];
            assert!(!others.iter().any(|entry| holds(valid, *entry)), "{round}");
            let mut later = valid;
            (1..PARTS).for_each(|_| {
                later.advance(1);
                assert!(made.iter().all(|entry| holds(later, *entry)));
            });
            later.advance(1);
            assert_eq!(made.map(|entry| holds(later, entry)), [true, false]);
            valid.next_snapshot();
            assert!(!made.iter().any(|entry| holds(valid, *entry)));
            valid.advance(u64::from(round % 3));
        }
    }
}
