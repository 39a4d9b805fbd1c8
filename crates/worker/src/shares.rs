//! Room that several share: half of it is kept for each of them in equal parts, the other half is for who comes first.
//!
//! So none can take all, and one alone has more than half of it.

/// Who has how much of a room.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    room: usize,
    /// What each has for certain.
    kept: usize,
    held: Vec<usize>,
    total: usize,
    /// What is kept and not taken, of all.
    reserved: usize,
}

impl Shares {
    /// A room of this size, of which nothing is taken.
    pub fn new(room: usize, sharers: usize) -> Self {
        let sharers = sharers.max(1);
        let kept = room / 2 / sharers;
        Self {
            room,
            kept,
            held: vec![0; sharers],
            total: 0,
            reserved: kept * sharers,
        }
    }

    /// How many share it.
    pub const fn sharers(&self) -> usize {
        self.held.len()
    }

    /// Takes room for one; whether there is some. Sharers beyond the last one share its part.
    pub fn take(&mut self, sharer: usize) -> bool {
        let has = self.has_room(sharer);
        if has {
            self.add(sharer, 1);
        }
        has
    }

    /// Notes more that are there, whether there is room or not.
    pub fn add(&mut self, sharer: usize, more: usize) {
        self.change(sharer, |held| held + more);
    }

    /// Whether there is room for one.
    pub fn has_room(&self, sharer: usize) -> bool {
        let held = self.held[sharer.min(self.held.len() - 1)];
        held < self.kept || self.total + self.reserved < self.room
    }

    /// Gives back what was taken.
    pub fn vacate(&mut self, sharer: usize, fewer: usize) {
        self.change(sharer, |held| held.saturating_sub(fewer));
    }

    fn change(&mut self, sharer: usize, change: impl FnOnce(usize) -> usize) {
        let last = self.held.len() - 1;
        let held = &mut self.held[sharer.min(last)];
        let (before, after) = (*held, change(*held));
        *held = after;
        self.total = self.total - before + after;
        let left = |held| self.kept.saturating_sub(held);
        self.reserved = self.reserved - left(before) + left(after);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_alone_has_all_and_one_of_several_all_but_what_is_kept_for_the_others() {
        let mut alone = Shares::new(8, 1);
        assert_eq!((0..10).filter(|_| alone.take(0)).count(), 8);
        let mut shares = Shares::new(16, 4);
        assert_eq!((0..20).filter(|_| shares.take(2)).count(), 10);
        for other in [0, 1, 3] {
            assert_eq!((0..20).filter(|_| shares.take(other)).count(), 2);
        }
        shares.vacate(2, 1);
        assert!(shares.take(0) && !shares.has_room(2));
        shares.vacate(1, 1);
        assert!(!shares.has_room(0), "it is the second one's");
        assert!(shares.take(1));
    }

    proptest! {
        /// There is never more than there is room for, and what is kept for one is there.
        #[test]
        fn what_is_kept_is_there(room in 0..40_usize, sharers in 1..6_usize, steps in prop::collection::vec((0..7_usize, any::<bool>()), 0..300)) {
            let mut shares = Shares::new(room, sharers);
            let mut held = vec![0_usize; sharers];
            for (sharer, takes) in steps {
                let place = sharer.min(sharers - 1);
                if !takes {
                    shares.vacate(sharer, 1);
                    held[place] = held[place].saturating_sub(1);
                    continue;
                }
                let is_kept = held[place] < room / 2 / sharers;
                let took = shares.take(sharer);
                prop_assert!(took || !is_kept);
                held[place] += usize::from(took);
                prop_assert!(held.iter().sum::<usize>() <= room);
            }
        }
    }
}
