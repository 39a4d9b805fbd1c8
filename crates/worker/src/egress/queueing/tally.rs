//! What packets have counted that wait, or stand before ports: it is left out of what an accelerator reports.

use flow::{Direction, SessionIndex, UrrCount};

use crate::burst::credit::Charge;

/// What packets that have not left have counted: by session, by the slot of the counter.
pub(super) struct Tally {
    sessions: Vec<Vec<UrrCount>>,
}

impl Tally {
    pub fn new(sessions: usize) -> Self {
        Self {
            sessions: vec![Vec::new(); sessions],
        }
    }

    fn change(&mut self, session: SessionIndex, charge: &Charge, change: impl Fn(&mut u64, u64)) {
        let Some((urrs, direction, octets)) = charge.counted() else {
            return;
        };
        let Some(counts) = self.sessions.get_mut(session.index()) else {
            return;
        };
        let mut left = urrs;
        while left != 0 {
            let slot = left.trailing_zeros() as usize;
            left &= left - 1;
            if counts.len() <= slot {
                counts.resize(slot + 1, UrrCount::default());
            }
            let count = &mut counts[slot];
            let (packets, sum) = match direction {
                Direction::Uplink => (&mut count.ul_packets, &mut count.ul_octets),
                Direction::Downlink => (&mut count.dl_packets, &mut count.dl_octets),
            };
            change(packets, 1);
            change(sum, octets.into());
        }
    }

    /// A packet waits.
    pub fn add(&mut self, session: SessionIndex, charge: &Charge) {
        self.change(session, charge, |sum, more| *sum += more);
    }

    /// It has left, or is lost.
    pub fn take(&mut self, session: SessionIndex, charge: &Charge) {
        self.change(session, charge, |sum, less| *sum = sum.saturating_sub(less));
    }

    /// What packets of a session have counted in a counter.
    pub fn of(&self, session: SessionIndex, counter: u8) -> UrrCount {
        let counts = self.sessions.get(session.index());
        let count = counts.and_then(|counts| counts.get(usize::from(counter)));
        count.copied().unwrap_or_default()
    }
}
