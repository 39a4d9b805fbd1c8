//! Time between two looks at the system's clock, by a processor's counter: the arithmetic, without any clock.
//!
//! The system's monotonic clock (`CLOCK_MONOTONIC`) is the time; the counter only says how long ago it was looked at.
//! So threads that look by themselves agree, whatever rate of the counter is given, and an error of the counter does
//! not add up: it lasts for one [`WINDOW`]. The rate is measured over a baseline that grows to 16 seconds.
//!
//! Time never goes back: where the counter was ahead, it stops until the system's clock has come. A counter that jumps
//! (a virtual machine that moved, a host that slept) is measured anew; one that does so again and again is given up,
//! and every look is one at the system's clock. Integers only.

/// Nanoseconds for which the counter is believed: an error of its rate of 1,000 ppm is a microsecond in that time.
pub const WINDOW: u64 = 1_000_000;
/// Nanoseconds of a baseline after which the next begins.
const BASELINE: u64 = 8_000_000_000;
/// Nanoseconds of the shortest baseline that a rate is measured over.
const SHORTEST: u64 = 200_000;
/// Nanoseconds by which counter and clock may differ at a look, beside a thousandth of the time since the last: twice
/// what kernels slew their clocks by.
const TOLERANCE: u64 = 20_000;
/// Times that the counter was wrong that make an end of it; one is forgiven with each new [`BASELINE`].
const MOST_FAULTS: u8 = 16;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The counter.
    pub ticks: u64,
    /// The system's clock, nanoseconds.
    pub nanos: u64,
    /// Nanoseconds that may have passed between the two.
    pub slack: u64,
}

/// A clock that runs by a counter between looks at the system's clock.
#[derive(Clone, Copy, Debug)]
pub struct TickClock {
    last: Look,
    /// Where the baseline begins that the rate is measured over, and where the next one does.
    baselines: [Look; 2],
    /// Nanoseconds of one tick, in units of 2^-32.
    scale: u64,
    /// [`WINDOW`] in ticks; 0: the counter is not believed.
    window: u64,
    /// The latest time that was returned: no earlier one is returned any more.
    floor: u64,
    faults: u8,
    /// The rate is not known: the next look says it.
    is_new: bool,
}

impl TickClock {
    /// A clock that was looked at once, and whose counter is said to have a number of ticks a second; 0: there is none.
    pub fn new(look: Look, ticks_per_second: u64) -> Self {
        let scale = (1_000_000_000_u128 << 32).checked_div(ticks_per_second.into());
        let mut clock = Self {
            last: look,
            baselines: [look; 2],
            scale: scale.map_or(0, |scale| scale as u64),
            window: 0,
            floor: look.nanos,
            faults: 0,
            is_new: true,
        };
        clock.set_window();
        clock
    }

    fn set_window(&mut self) {
        let window = (u128::from(WINDOW) << 32).checked_div(self.scale.into());
        self.window = match self.faults >= MOST_FAULTS {
            true => 0,
            false => window.map_or(0, |window| window as u64),
        };
    }

    /// Whether the counter is used.
    pub const fn trusts(&self) -> bool {
        self.window > 0
    }

    /// Nanoseconds of one tick, in units of 2^-32.
    #[cfg(test)]
    pub const fn scale(&self) -> u64 {
        self.scale
    }

    /// The time, in nanoseconds of the system's clock; nothing when that is to be looked at.
    #[inline]
    pub fn now(&self, ticks: u64) -> Option<u64> {
        let passed = ticks.wrapping_sub(self.last.ticks);
        (passed < self.window).then(|| self.floor.max(self.last.nanos + self.nanos(passed)))
    }

    /// Ticks in nanoseconds.
    #[inline]
    fn nanos(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64
    }

    /// Records a look, and returns the time.
    pub fn look(&mut self, look: Look) -> u64 {
        let nanos = look.nanos.max(self.last.nanos);
        let look = Look { nanos, ..look };
        let passed = look.ticks.wrapping_sub(self.last.ticks);
        // The latest time that `now` has returned since the last look.
        let told = self.last.nanos + self.nanos(passed.min(self.window));
        self.floor = self.floor.max(told.min(nanos.saturating_add(WINDOW))).max(nanos);
        if self.scale > 0 {
            self.measure(look, passed);
        }
        self.last = look;
        self.floor
    }

    fn measure(&mut self, look: Look, passed: u64) {
        let elapsed = look.nanos - self.last.nanos;
        let slack = look.slack.max(self.last.slack);
        if self.is_new && elapsed >= SHORTEST.max(slack.saturating_mul(100)) {
            self.is_new = false;
            self.baselines = [self.last, look];
            self.set_scale(look);
            return;
        }
        let error = self.nanos(passed).abs_diff(elapsed);
        let is_wrong = error > TOLERANCE.saturating_add(slack).saturating_add(elapsed / 1_000);
        if is_wrong && !self.is_new {
            self.faults = self.faults.saturating_add(1);
            self.is_new = true;
        }
        if self.is_new {
            self.baselines = [look; 2];
            self.set_window();
            return;
        }
        // A look that took long says the time, but not the rate.
        if look.slack <= TOLERANCE {
            self.set_scale(look);
        }
    }

    /// Measures the rate over the older baseline.
    fn set_scale(&mut self, look: Look) {
        let [old, young] = self.baselines;
        let (ticks, nanos) = (look.ticks.wrapping_sub(old.ticks), look.nanos - old.nanos);
        if nanos >= SHORTEST && ticks > 0 {
            self.scale = ((u128::from(nanos) << 32) / u128::from(ticks)) as u64;
            self.set_window();
        }
        if look.nanos - young.nanos >= BASELINE {
            self.baselines = [young, look];
            // One of them is forgiven.
            self.faults = self.faults.saturating_sub(u8::from(self.trusts()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A machine: a counter with a rate, and a clock that the kernel makes of it with a drift.
    struct Machine {
        /// Picoseconds of one tick.
        tick_ps: u64,
        /// Parts per million by which the system's clock runs faster than true time.
        ppm: i64,
        /// True time, and the system's.
        picos: u128,
        nanos: u64,
        /// Millionths of a nanosecond of the system's that are left.
        rest: i64,
        /// What the counter had when it began, or jumped.
        jump: u64,
        clock: Option<TickClock>,
        told: u64,
        seed: u64,
    }

    impl Machine {
        fn new(tick_ps: u64, said_hz: u64, ppm: i64) -> Self {
            let mut machine = Self {
                tick_ps,
                ppm,
                picos: 0,
                nanos: 77,
                rest: 0,
                jump: 1 << 40,
                clock: None,
                told: 0,
                seed: 1,
            };
            machine.clock = Some(TickClock::new(machine.reading(), said_hz));
            machine
        }

        fn ticks(&self) -> u64 {
            self.jump
                .wrapping_add((self.picos / u128::from(self.tick_ps)) as u64)
        }

        fn random(&mut self, below: u64) -> u64 {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.seed >> 33) % below
        }

        fn pass(&mut self, nanos: u64) {
            self.picos += u128::from(nanos) * 1_000;
            let millionths = self.rest + nanos as i64 * self.ppm;
            self.rest = millionths.rem_euclid(1_000_000);
            self.nanos = (self.nanos + nanos).wrapping_add_signed(millionths.div_euclid(1_000_000));
        }

        /// Both clocks, up to half a microsecond apart; every 50th time a millisecond is between, and that is known.
        fn reading(&mut self) -> Look {
            let ticks = self.ticks();
            let between = match self.random(50) {
                0 => self.random(1_000_000),
                _ => self.random(500),
            };
            Look {
                ticks,
                nanos: self.nanos + between / 2,
                slack: between,
            }
        }

        /// Asks for the time, which does not go back; gives by how much it is wrong.
        fn ask(&mut self) -> u64 {
            let look = self.reading();
            let clock = self.clock.as_mut().unwrap();
            let now = clock.now(look.ticks).unwrap_or_else(|| clock.look(look));
            assert!(now >= self.told, "time went back from {} to {now}", self.told);
            self.told = now;
            now.abs_diff(self.nanos)
        }

        /// Runs for a number of steps of about a given length; returns the greatest error.
        fn run(&mut self, steps: u64, nanos: u64) -> u64 {
            let mut worst = 0;
            for _ in 0..steps {
                let step = nanos / 2 + self.random(nanos);
                self.pass(step);
                worst = worst.max(self.ask());
            }
            worst
        }

        /// How wrong the rate is, in parts per billion of that of the system's clock.
        fn rate_error(&self) -> u64 {
            let real = (u128::from(self.tick_ps) << 32) as i128 / 1_000;
            let real = real + real * i128::from(self.ppm) / 1_000_000;
            let known = i128::from(self.clock.as_ref().unwrap().scale());
            ((known - real) * 1_000_000_000 / real).unsigned_abs() as u64
        }
    }

    /// A busy core and a sleeping one, said to run at 2.4 GHz when it is 2.3964: the time is that of the system.
    #[test]
    fn the_time_is_right_for_a_day_at_any_rate() {
        for (tick_ps, ppm) in [(417, 0), (417, 150), (417, -150), (333, 20)] {
            let mut machine = Machine::new(tick_ps, 2_400_000_000, ppm);
            machine.run(1_000, 50_000);
            for _ in 0..24 {
                let worst = machine.run(200, 20_000).max(machine.run(3_600, SECOND));
                assert!(worst < 1_100_000, "{worst} ns");
            }
            // But for those looks between which a millisecond lay, it is far better than a millisecond.
            machine.run(20_000, 100_000);
            let clock = machine.clock.unwrap();
            assert!(clock.trusts() && clock.faults == 0);
        }
    }

    #[test]
    fn the_rate_is_known_to_one_part_in_a_million_after_seconds() {
        for ppm in [0, 150, -150] {
            let mut machine = Machine::new(417, 2_400_000_000, ppm);
            machine.run(400_000, 50_000);
            assert!(machine.rate_error() < 1_000, "{} ppb", machine.rate_error());
        }
    }

    /// An hour in which the system's clock drifts one way, then the other: nothing adds up.
    #[test]
    fn an_hour_of_drift_is_followed() {
        let mut machine = Machine::new(417, 2_400_000_000, 150);
        for ppm in [150, -150, 500, -500, 0, 100] {
            machine.ppm = ppm;
            machine.run(600 * 1_000, 1_000_000);
            let begin = (machine.told, machine.nanos);
            machine.run(60, SECOND);
            let passed = (machine.told - begin.0).abs_diff(machine.nanos - begin.1);
            // Of a minute: less than 20 ppm, most of which are the looks.
            assert!(passed < 1_100_000, "{passed} ns");
        }
    }

    #[test]
    fn a_machine_that_moved_continues() {
        let mut machine = Machine::new(417, 2_400_000_000, 0);
        machine.run(10_000, 100_000);
        for (tick_ps, jump) in [(313, 1_u64 << 60), (500, u64::MAX), (455, 0), (417, 5_000)] {
            let ticks = machine.ticks();
            machine.tick_ps = tick_ps;
            machine.jump = machine
                .jump
                .wrapping_add(ticks.wrapping_sub(machine.ticks()))
                .wrapping_add(jump);
            let worst = machine.run(20, 100_000);
            assert!(worst < 2_100_000, "{worst} ns");
            machine.run(20_000, 100_000);
            assert!(machine.clock.unwrap().trusts());
            assert!(machine.rate_error() < 20_000, "{} ppb", machine.rate_error());
        }
    }

    /// The counter of a host that slept begins anew, and the monotonic clock has not counted the sleep.
    #[test]
    fn a_host_that_slept_loses_nothing() {
        let mut machine = Machine::new(417, 2_400_000_000, 0);
        machine.run(1_000, 100_000);
        machine.jump = 0u64.wrapping_sub((machine.picos / 417) as u64);
        assert!(machine.run(100, 100_000) < 2_100_000);
        assert!(machine.clock.unwrap().trusts());
    }

    /// A counter that nearly stops whenever the core sleeps.
    #[test]
    fn a_wrong_counter_is_given_up() {
        let mut machine = Machine::new(417, 2_400_000_000, 0);
        machine.run(1_000, 100_000);
        for step in 0..10_000 {
            machine.pass(100_000);
            if step / 100 % 2 == 0 {
                // It has counted a tenth of that.
                machine.jump = machine.jump.wrapping_sub(90_000_000 / 417);
            }
            let error = machine.ask();
            // The look itself may take a millisecond.
            assert!(step < 5_000 || error < 1_100_000, "{error} ns");
        }
        assert!(!machine.clock.unwrap().trusts());
    }

    #[test]
    fn without_a_counter_every_question_is_a_look() {
        let clock = TickClock::new(
            Look {
                ticks: 5,
                nanos: 9,
                slack: 0,
            },
            0,
        );
        assert!(!clock.trusts());
        assert_eq!(clock.now(5), None);
    }
}
