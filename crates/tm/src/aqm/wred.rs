//! Weighted random early detection (RED by S. Floyd and V. Jacobson, 1993; RFC 2309 §3), with thresholds by colour.
//!
//! A queue has one average of its octets, over the packets of all colours; each colour has its own curve, so that
//! yellow packets go before green ones. The arithmetic is that of DPDK's `rte_red`: fixed point with 10 bits behind the
//! point, and chances that grow with the packets since the last one that was hit, so that these are spread evenly. A
//! packet is hit with the same chance whatever its length (RFC 7141 §2.2). Unlike there, octets are averaged instead of
//! packets, a random number is drawn for each packet, and idle time counts by a [time for each
//! packet](AqmTimes::wred_packet).

use super::AqmTimes;

/// Bits behind the point of averages and chances.
const SCALING: u32 = 10;
/// Nanoseconds of the time since a queue is empty, as a power of two: an idle time is known up to 78 hours. Stamps of
/// packets end at 275 s, after which an average would count again that is long forgotten.
const IDLE_SHIFT: u32 = 16;
/// Octets of a queue beyond these count as these.
const MOST_OCTETS: u64 = RedCurve::MOST_OCTETS as u64;

/// The curve of a colour, by the average of the octets in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedCurve {
    /// Below it no packet is hit. In octets, 0 to below [`max`](Self::max).
    pub min: u32,
    /// From it on each packet is. In octets, up to [`MOST_OCTETS`](Self::MOST_OCTETS).
    pub max: u32,
    /// Just below `max`, of this many packets one is hit: 1 to 255. In between the chance is in proportion.
    pub one_in: u8,
}

impl RedCurve {
    /// The most octets of a threshold.
    pub const MOST_OCTETS: u32 = (1 << 26) - 1;

    const fn is_valid(&self) -> bool {
        self.min < self.max && self.max <= Self::MOST_OCTETS && self.one_in > 0
    }
}

/// What queues with WRED have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WredProfile {
    /// Of green packets.
    pub green: RedCurve,
    /// Of all others.
    pub yellow: RedCurve,
    /// A packet that comes is worth 2^-n in the average: 1 to 12.
    pub weight_log2: u8,
}

impl WredProfile {
    /// Whether all is within its bounds.
    pub const fn is_valid(&self) -> bool {
        self.green.is_valid() && self.yellow.is_valid() && self.weight_log2 >= 1 && self.weight_log2 <= 12
    }
}

/// What a packet that comes is to meet with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedVerdict {
    /// Nothing.
    Pass,
    /// It is hit by chance: it is marked, if its sender heeds ECN, or dropped.
    Early,
    /// The average is at the upper threshold or above: it is dropped, whatever its sender heeds (RFC 3168 §7).
    Above,
}

/// A profile with its constants.
#[derive(Clone, Copy, Debug)]
pub struct Wred {
    /// Of green packets, and of all others.
    curves: [Curve; 2],
    weight: u32,
    /// Nanoseconds in which an idle queue would have sent a packet.
    packet: u64,
}

/// A curve in the scale of averages.
#[derive(Clone, Copy, Debug)]
struct Curve {
    min: u64,
    max: u64,
    /// Twice the span of the curve over the greatest chance (`pa_const`).
    span: u64,
}

/// What is remembered of a queue: 48 bits of the average, 16 of the packets since the last one that was hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WredState {
    average: u64,
    since_hit: u16,
    /// Since when the queue is empty, in 2^16 ns.
    empty_since: u32,
}

impl Wred {
    /// Of a profile, which [is valid](WredProfile::is_valid).
    pub fn new(profile: &WredProfile, times: &AqmTimes) -> Self {
        let weight = u32::from(profile.weight_log2);
        let curve = |of: RedCurve| Curve {
            min: u64::from(of.min) << (weight + SCALING),
            max: u64::from(of.max) << (weight + SCALING),
            span: (2 * u64::from(of.max.saturating_sub(of.min)) * u64::from(of.one_in)) << SCALING,
        };
        Self {
            curves: [profile.green, profile.yellow].map(curve),
            weight,
            packet: u64::try_from(times.wred_packet.as_nanos()).map_or(u64::MAX, |nanos| nanos.max(1)),
        }
    }

    /// The average octets of a queue.
    pub const fn average(&self, state: &WredState) -> u64 {
        state.average >> (self.weight + SCALING)
    }

    /// What a packet meets with that finds these octets in the queue, at `now` in nanoseconds. `random`: any number.
    pub fn judge(
        &self,
        state: &mut WredState,
        is_green: bool,
        octets: u32,
        now: u64,
        random: u64,
    ) -> RedVerdict {
        if octets == 0 {
            state.since_hit = state.since_hit.saturating_add(1);
            self.age(state, now);
            return RedVerdict::Pass;
        }
        let octets = u64::from(octets).min(MOST_OCTETS);
        state.average = state.average + (octets << SCALING) - (state.average >> self.weight);
        let curve = &self.curves[usize::from(!is_green)];
        let verdict = if state.average < curve.min {
            RedVerdict::Pass
        } else if state.average >= curve.max {
            RedVerdict::Above
        } else if curve.hits(state, self.weight, random) {
            RedVerdict::Early
        } else {
            RedVerdict::Pass
        };
        state.since_hit = match verdict {
            RedVerdict::Pass => state.since_hit.saturating_add(1),
            _ => 0,
        };
        verdict
    }

    /// An idle queue counts as one that packets came to while it was empty: its average shrinks by (1 - 2^-n)^m.
    fn age(&self, state: &mut WredState, now: u64) {
        let idle = idle_stamp(now).wrapping_sub(state.empty_since);
        let mut packets = (u64::from(idle) << IDLE_SHIFT) / self.packet;
        // (1 - 2^-n)^m by squaring, with 32 bits behind the point.
        let (mut factor, mut power) = (1_u64 << 32, (1_u64 << 32) - (1 << (32 - self.weight)));
        while packets != 0 && factor != 0 {
            if packets & 1 == 1 {
                factor = (factor * power) >> 32;
            }
            power = ((u128::from(power) * u128::from(power)) >> 32) as u64;
            packets >>= 1;
        }
        state.average = ((u128::from(state.average) * u128::from(factor)) >> 32) as u64;
        // The time that is over is not counted again, if the packet does not stay.
        state.note_empty(now);
    }
}

impl Curve {
    /// Whether a packet is hit by chance: pa = pb / (1 - count x pb), where pb is half of the curve's chance, so that
    /// from one hit to the next there are as many packets as the curve says.
    fn hits(&self, state: &WredState, weight: u32, random: u64) -> bool {
        let over = (state.average - self.min) >> weight;
        let passed = u64::from(state.since_hit) * over;
        self.span <= passed || random % (self.span - passed) < over
    }
}

/// A time as it is remembered of an empty queue.
const fn idle_stamp(now: u64) -> u32 {
    (now >> IDLE_SHIFT) as u32
}

impl WredState {
    /// The queue is empty from `now` on, in nanoseconds.
    pub(crate) const fn note_empty(&mut self, now: u64) {
        self.empty_since = idle_stamp(now);
    }

    /// As the words of a queue.
    pub(crate) const fn words(self) -> [u32; 3] {
        let high = (self.average >> 32) as u32 | (self.since_hit as u32) << 16;
        [self.average as u32, high, self.empty_since]
    }

    /// Of these words.
    pub(crate) const fn from_words([low, high, empty_since]: [u32; 3]) -> Self {
        Self {
            average: low as u64 | ((high & 0xffff) as u64) << 32,
            since_hit: (high >> 16) as u16,
            empty_since,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The algorithm as Floyd and Jacobson write it, in real numbers: the average, and packets since the last hit.
    #[derive(Default)]
    struct Model {
        average: f64,
        count: f64,
    }

    impl Model {
        /// The chance that a packet is hit which finds `octets`.
        fn chance(&mut self, curve: &RedCurve, weight_log2: u8, octets: u32) -> f64 {
            self.average += (f64::from(octets) - self.average) / f64::from(1_u32 << weight_log2);
            let (min, max) = (f64::from(curve.min), f64::from(curve.max));
            let base = (self.average - min) / (max - min) / f64::from(curve.one_in) / 2.0;
            match self.average {
                average if average < min => 0.0,
                average if average >= max => 1.0,
                _ if self.count * base >= 1.0 => 1.0,
                _ => base / (1.0 - self.count * base),
            }
        }
    }

    fn curves() -> impl Strategy<Value = RedCurve> {
        (0_u32..500_000, 10_000_u32..500_000, 1_u8..).prop_map(|(min, more, one_in)| RedCurve {
            min,
            max: min + more,
            one_in,
        })
    }

    fn profile(curve: RedCurve, weight_log2: u8) -> WredProfile {
        let yellow = RedCurve {
            min: curve.min / 2,
            max: curve.max / 2,
            one_in: curve.one_in,
        };
        WredProfile {
            green: curve,
            yellow,
            weight_log2,
        }
    }

    proptest! {
        #[test]
        fn packets_are_hit_with_the_chances_of_the_algorithm_in_real_numbers(
            curve in curves(), weight in 1_u8..=12, steps in prop::collection::vec((1_u32..1_000_000, any::<u64>()), 1..500),
        ) {
            let wred = Wred::new(&profile(curve, weight), &AqmTimes::STANDARD);
            let (mut state, mut model) = (WredState::default(), Model::default());
            for (octets, random) in steps {
                let chance = model.chance(&curve, weight, octets);
                let before = state;
                let verdict = wred.judge(&mut state, true, octets, 0, random);
                prop_assert!((wred.average(&state) as f64 - model.average).abs() <= 8.0, "{} {}", wred.average(&state), model.average);
                // Near a threshold the octets' fractions decide.
                let near = |average: f64, of: u32| (average - f64::from(of)).abs() < 16.0;
                let at_edge = near(model.average, curve.min) || near(model.average, curve.max);
                let early = verdict != RedVerdict::Pass;
                match chance {
                    _ if at_edge => {}
                    0.0 => prop_assert!(!early),
                    1.0 => prop_assert!(early),
                    chance => {
                        // Numbers below `over` of `left` hit.
                        let of = wred.curves[0];
                        let over = (state.average - of.min) >> weight;
                        let left = of.span - u64::from(before.since_hit) * over;
                        let exact = over as f64 / left as f64;
                        prop_assert!((exact - chance).abs() <= 0.002 + chance * 0.01, "{exact} {chance}");
                    }
                }
                model.count = if early { 0.0 } else { model.count + 1.0 };
                prop_assert_eq!(WredState::from_words(state.words()), state);
            }
        }

        #[test]
        fn yellow_packets_go_before_green_ones(
            curve in curves(), octets in 0_u32..1_000_000, random: u64, count: u16, average in 0_u64..1_000_000,
        ) {
            let wred = Wred::new(&profile(curve, 4), &AqmTimes::STANDARD);
            let state = WredState { average: average << 14, since_hit: count, empty_since: 0 };
            let rank = |is_green| wred.judge(&mut state.clone(), is_green, octets, 0, random) as u8;
            let chance = |is_green: bool| {
                let numbers = (0..64_u64).map(|nth| nth * 12_345_678_901);
                numbers.filter(|random| wred.judge(&mut state.clone(), is_green, octets, 0, *random) != RedVerdict::Pass).count()
            };
            // Where a green one is dropped whatever the number, a yellow one is, too.
            if rank(true) == RedVerdict::Above as u8 {
                prop_assert_eq!(rank(false), RedVerdict::Above as u8);
            }
            if chance(true) == 64 {
                prop_assert_eq!(chance(false), 64);
            }
            if chance(false) == 0 {
                prop_assert!(chance(true) <= 1, "{}", chance(true));
            }
        }
    }

    #[test]
    fn from_one_hit_to_the_next_there_are_as_many_packets_as_the_curve_says() {
        let curve = RedCurve {
            min: 10_000,
            max: 30_000,
            one_in: 10,
        };
        let wred = Wred::new(&profile(curve, 1), &AqmTimes::STANDARD);
        // Half way between the thresholds one packet of twenty is hit.
        let (mut state, mut random, mut hits) = (WredState::default(), 7_u64, 0);
        for _ in 0..200_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            hits += u32::from(wred.judge(&mut state, true, 20_000, 0, random >> 16) == RedVerdict::Early);
        }
        assert!((9_800..10_200).contains(&hits), "{hits}");
    }

    #[test]
    fn an_empty_queue_forgets() {
        let wred = Wred::new(
            &profile(
                RedCurve {
                    min: 0,
                    max: 1,
                    one_in: 1,
                },
                3,
            ),
            &AqmTimes::STANDARD,
        );
        // Also behind the end of what stamps of packets know, 274.9 s, of a day, and of three.
        for millis in [
            0_u64,
            1,
            7,
            40,
            100_000,
            274_878,
            274_880,
            86_400_000,
            3 * 86_400_000,
        ] {
            let mut state = WredState {
                average: 100_000 << 13,
                since_hit: 0,
                empty_since: 5,
            };
            let now = (5 << IDLE_SHIFT) + 1_000_000 * millis + (1 << IDLE_SHIFT) - 1;
            assert_eq!(wred.judge(&mut state, true, 0, now, 0), RedVerdict::Pass);
            let expected = 100_000.0 * 0.875_f64.powf(millis as f64);
            assert!((wred.average(&state) as f64 - expected).abs() < 2.0, "{millis}");
        }
    }

    #[test]
    fn profiles_out_of_their_bounds_are_refused() {
        let good = RedCurve {
            min: 0,
            max: RedCurve::MOST_OCTETS,
            one_in: 1,
        };
        assert!(profile(good, 12).is_valid());
        assert!(!profile(good, 13).is_valid() && !profile(good, 0).is_valid());
        for bad in [
            RedCurve {
                min: good.max,
                ..good
            },
            RedCurve {
                max: good.max + 1,
                ..good
            },
            RedCurve { one_in: 0, ..good },
        ] {
            assert!(
                !WredProfile {
                    green: bad,
                    ..profile(good, 1)
                }
                .is_valid(),
                "{bad:?}"
            );
            assert!(
                !WredProfile {
                    yellow: bad,
                    ..profile(good, 1)
                }
                .is_valid(),
                "{bad:?}"
            );
        }
    }
}
