//! Which counters of a contact have been there.

/// The counters that were taken in a contact: each is taken once. Frames may come out of order by fewer than 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayWindow {
    /// The highest that was taken.
    highest: u64,
    /// Bit n: `highest - n` was taken.
    taken: u64,
}

impl ReplayWindow {
    /// Takes the counter of an authentic frame. Returns whether it is new: else the frame is dropped.
    pub const fn take(&mut self, counter: u64) -> bool {
        if counter > self.highest {
            let step = counter - self.highest;
            self.taken = if step < 64 { self.taken << step | 1 } else { 1 };
            self.highest = counter;
            return true;
        }
        let behind = self.highest - counter;
        if counter == 0 || behind >= 64 || self.taken >> behind & 1 == 1 {
            return false;
        }
        self.taken |= 1 << behind;
        true
    }
}
