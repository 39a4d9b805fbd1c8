//! CoDel (RFC 8289 §5), packet by packet. Marks take the place of drops where the transport knows ECN (RFC 8289 §3.3).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{AqmTimes, Verdict, reached, units};

/// Its times in units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodelTimes {
    target: u32,
    interval: u32,
}

impl CodelTimes {
    pub(crate) fn new(times: &AqmTimes) -> Self {
        Self {
            target: units(times.codel_target),
            interval: units(times.codel_interval),
        }
    }

    /// The next drop comes sooner, the more there were.
    fn control_law(self, from: u32, count: u16) -> u32 {
        // A square root of 32 bits behind the point.
        let root = (u64::from(count.max(1)) << 32).isqrt();
        from.wrapping_add(((u64::from(self.interval) << 16) / root) as u32)
    }
}

/// What it remembers of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Codel {
    /// When the delay will have been above the target for an interval; 0: it is not above.
    first_above: u32,
    drop_next: u32,
    count: u16,
    last_count: u16,
}

/// What came before in the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Nothing,
    /// The first drop of a dropping state.
    Entry,
    /// Another drop.
    Drop,
}

/// A packet that is taken from the front, with what is left behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    /// In units.
    pub(crate) now: u32,
    /// In units.
    pub(crate) sojourn: u32,
    /// Octets of the queue without it.
    pub(crate) octets_left: u32,
    pub(crate) knows_ecn: bool,
}

impl Codel {
    /// Whether the delay was above the target for long enough to drop the packet.
    fn may_drop(&mut self, times: CodelTimes, front: &Front, largest: u32) -> bool {
        if front.sojourn < times.target || front.octets_left <= largest {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = front.now.wrapping_add(times.interval).max(1);
            return false;
        }
        reached(front.now, self.first_above)
    }

    /// What becomes of a packet of a queue, for packets of up to `largest` octets. `is_dropping` is of the queue as
    /// well.
    pub(crate) fn judge(
        &mut self,
        is_dropping: &mut u8,
        times: CodelTimes,
        front: &Front,
        largest: u32,
        before: Before,
    ) -> Verdict {
        let may_drop = self.may_drop(times, front, largest);
        let verdict = if front.knows_ecn {
            Verdict::Mark
        } else {
            Verdict::Drop
        };
        if before == Before::Entry {
            return Verdict::Pass;
        }
        if !may_drop {
            *is_dropping = 0;
            return Verdict::Pass;
        }
        if *is_dropping == 0 {
            self.enter(times, front.now);
            *is_dropping = 1;
            return verdict;
        }
        if before == Before::Drop {
            self.drop_next = times.control_law(self.drop_next, self.count);
        }
        if !reached(front.now, self.drop_next) {
            return Verdict::Pass;
        }
        self.count = self.count.saturating_add(1);
        if verdict == Verdict::Mark {
            self.drop_next = times.control_law(self.drop_next, self.count);
        }
        verdict
    }

    /// The first drop: as often as in the dropping state before, if that was not long ago.
    fn enter(&mut self, times: CodelTimes, now: u32) {
        let delta = self.count.saturating_sub(self.last_count);
        let since = now.wrapping_sub(self.drop_next) as i32;
        let was_lately = i64::from(since) < 16 * i64::from(times.interval);
        self.count = if delta > 1 && was_lately { delta } else { 1 };
        self.drop_next = times.control_law(now, self.count);
        self.last_count = self.count;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The pseudocode of RFC 8289 §5 with marks as in its §3.3, in seconds.
    #[derive(Default)]
    struct Reference {
        first_above_time: f64,
        drop_next: f64,
        count: u32,
        lastcount: u32,
        dropping: bool,
    }

    const TARGET: f64 = 0.005;
    const INTERVAL: f64 = 0.1;
    const LARGEST: u32 = 1_500;

    type Waiting = std::collections::VecDeque<(f64, u32, bool)>;

    impl Reference {
        fn control_law(time: f64, count: u32) -> f64 {
            time + INTERVAL / f64::from(count).sqrt()
        }

        fn dodequeue(&mut self, queue: &mut Waiting, now: f64) -> (Option<(f64, u32, bool)>, bool) {
            let Some(packet) = queue.pop_front() else {
                self.first_above_time = 0.0;
                return (None, false);
            };
            let octets: u32 = queue.iter().map(|of| of.1).sum();
            if now - packet.0 < TARGET || octets <= LARGEST {
                self.first_above_time = 0.0;
                (Some(packet), false)
            } else if self.first_above_time == 0.0 {
                self.first_above_time = now + INTERVAL;
                (Some(packet), false)
            } else {
                (Some(packet), now >= self.first_above_time)
            }
        }

        /// Drops, and whether a packet comes out marked.
        fn dequeue(&mut self, queue: &mut Waiting, now: f64) -> (u32, Option<bool>) {
            let (mut packet, mut ok) = self.dodequeue(queue, now);
            let mut drops = 0;
            if self.dropping {
                self.dropping = ok;
                while self.dropping && now >= self.drop_next {
                    self.count += 1;
                    if packet.is_some_and(|of| of.2) {
                        self.drop_next = Self::control_law(self.drop_next, self.count);
                        return (drops, Some(true));
                    }
                    drops += 1;
                    (packet, ok) = self.dodequeue(queue, now);
                    if ok {
                        self.drop_next = Self::control_law(self.drop_next, self.count);
                    }
                    self.dropping = ok;
                }
                return (drops, packet.map(|_| false));
            }
            if !ok {
                return (0, packet.map(|_| false));
            }
            let marks = packet.is_some_and(|of| of.2);
            if !marks {
                drops += 1;
                packet = self.dodequeue(queue, now).0;
            }
            self.dropping = true;
            let delta = self.count.saturating_sub(self.lastcount);
            let was_lately = now - self.drop_next < 16.0 * INTERVAL;
            self.count = if delta > 1 && was_lately { delta } else { 1 };
            self.drop_next = Self::control_law(now, self.count);
            self.lastcount = self.count;
            (drops, packet.map(|_| marks))
        }
    }

    fn dequeue(codel: &mut Codel, dropping: &mut u8, queue: &mut Waiting, now: u64) -> (u32, Option<bool>) {
        let times = CodelTimes::new(&AqmTimes::STANDARD);
        let (mut drops, mut before) = (0, Before::Nothing);
        while let Some((since, _, knows_ecn)) = queue.pop_front() {
            let front = Front {
                now: (now >> super::super::UNIT_SHIFT) as u32,
                sojourn: ((now - (since * 1e9) as u64) >> super::super::UNIT_SHIFT) as u32,
                octets_left: queue.iter().map(|of| of.1).sum(),
                knows_ecn,
            };
            let was_dropping = *dropping;
            match codel.judge(dropping, times, &front, LARGEST, before) {
                Verdict::Pass => return (drops, Some(false)),
                Verdict::Mark => return (drops, Some(true)),
                Verdict::Drop => {
                    drops += 1;
                    before = if was_dropping == 0 {
                        Before::Entry
                    } else {
                        Before::Drop
                    };
                }
            }
        }
        (drops, None)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn packets_are_dropped_and_marked_when_the_pseudocode_does_it(
            bursts in prop::collection::vec((0_u32..60, 1_u32..80, 100_u32..1_500, 0_u32..3), 1..60),
        ) {
            let (mut reference, mut codel, mut dropping) = (Reference::default(), Codel::default(), 0);
            let (mut model, mut queue) = (Waiting::new(), Waiting::new());
            // Moments that both represent: multiples of 64 us, and none at which a root decides.
            let mut now = 64_000_000_u64;
            for (packets, pauses, octets, ecn) in bursts {
                for number in 0..packets {
                    let packet = (now as f64 / 1e9, octets, ecn == 0 || number % 2 < ecn - 1);
                    model.push_back(packet);
                    queue.push_back(packet);
                }
                for _ in 0..pauses {
                    now += 640_000;
                    let expected = reference.dequeue(&mut model, now as f64 / 1e9);
                    prop_assert_eq!(dequeue(&mut codel, &mut dropping, &mut queue, now), expected);
                }
            }
        }
    }

    #[test]
    fn drops_come_at_the_moments_of_the_control_law() {
        // A queue that never drains is served each 10 ms. It is above the target from 10 ms on: the first drop is 100
        // ms later, the next ones 100 ms / sqrt(n) after each other: at 210, 280.7, 338.4, 388.4, 433.1, 474.0, 511.8
        // ms.
        let (mut codel, mut dropping) = (Codel::default(), 0);
        let times = CodelTimes::new(&AqmTimes::STANDARD);
        let mut dropped = Vec::new();
        for now in (10..=520).step_by(10) {
            let mut before = Before::Nothing;
            let at = units(core::time::Duration::from_millis(now));
            loop {
                let front = Front {
                    now: at,
                    sojourn: at,
                    octets_left: 90_000,
                    knows_ecn: false,
                };
                let was_dropping = dropping;
                if codel.judge(&mut dropping, times, &front, LARGEST, before) != Verdict::Drop {
                    break;
                }
                before = if was_dropping == 0 {
                    Before::Entry
                } else {
                    Before::Drop
                };
                dropped.push(now);
            }
        }
        assert_eq!(dropped, [110, 210, 290, 340, 390, 440, 480, 520]);
    }
}
