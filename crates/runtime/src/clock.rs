//! Time for the threads of the daemon: one monotonic clock for all of them, and what the host's clock says beside it.
//!
//! [`Clock`] is `CLOCK_MONOTONIC`, shifted so that it began with the fraction of the second of the wall-clock time:
//! a moment's date at the start is a whole number of seconds and the moment. Each thread has a copy and asks the
//! system for itself, at most once a millisecond while it polls; in between its time stamp counter says how long ago
//! that was (`clock/ticks.rs`). The copies agree to about a microsecond, and share no memory. Where the kernel does not
//! take the counter for a clock, or it turns out to be none, each question goes to the system.
//!
//! Dates are not its business: [`usage::WallClock`](session::WallClock) follows [`Clock::host`].

mod ticks;

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flow::Nanos;

use self::ticks::{Look, TickClock};

/// How often control compares the wall-clock time with the host's.
pub const HOST_LOOK: Duration = Duration::from_millis(100);

/// How often a look at two clocks is tried again that took too long between them.
const TRIES: u32 = 4;
/// Nanoseconds between two clocks that are short enough.
const SHORT: u64 = 1_000;

/// What the host's clock says.
#[derive(Clone, Copy, Debug)]
pub struct HostTime {
    /// When it was asked.
    pub at: Nanos,
    /// Nanoseconds since 1970.
    pub unix: u64,
    /// Nanoseconds by which they may have been read apart.
    pub slack: u64,
}

/// A thread's copy of the process's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    start: Instant,
    /// What the clock was at `start`: less than a second.
    offset: u64,
    ticks: Cell<TickClock>,
}

impl Clock {
    /// A clock that begins now, for a counter of about a given number of ticks a second.
    #[must_use]
    pub fn starting_now(ticks_per_second: u64) -> Self {
        let start = Instant::now();
        let clock = Self {
            start,
            offset: 0,
            ticks: Cell::new(TickClock::new(look(start, 0), 0)),
        };
        let host = clock.host();
        let offset = host.unix.wrapping_sub(host.at.0) % 1_000_000_000;
        let rate = if counter_is_a_clock() { ticks_per_second } else { 0 };
        Self {
            start,
            offset,
            ticks: Cell::new(TickClock::new(look(start, offset), rate)),
        }
    }

    /// The time: nanoseconds of the process's clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        match self.ticks.get().now(dpdk::tsc()) {
            Some(now) => Nanos(now),
            None => self.look(),
        }
    }

    #[cold]
    fn look(&self) -> Nanos {
        let mut ticks = self.ticks.get();
        let now = ticks.look(look(self.start, self.offset));
        self.ticks.set(ticks);
        Nanos(now)
    }

    /// Whether the time stamp counter is used.
    #[must_use]
    pub fn has_counter(&self) -> bool {
        self.ticks.get().trusts()
    }

    /// What the host's clock says now.
    #[must_use]
    pub fn host(&self) -> HostTime {
        let read = || {
            let before = self.start.elapsed();
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let between = self.start.elapsed().saturating_sub(before);
            HostTime {
                at: Nanos(self.offset + nanos(before) + nanos(between) / 2),
                unix: nanos(unix),
                slack: nanos(between),
            }
        };
        closest(read, |host| host.slack)
    }

    /// Nanoseconds of `CLOCK_MONOTONIC` when the clock was 0: another process on this host finds its moments by it.
    #[must_use]
    pub fn monotonic_at_zero(&self) -> i64 {
        let read = || {
            let before = self.start.elapsed();
            let system = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let between = self.start.elapsed().saturating_sub(before);
            let at = self.offset + nanos(before) + nanos(between) / 2;
            let system = system.tv_sec.saturating_mul(1_000_000_000) + system.tv_nsec;
            (system.saturating_sub_unsigned(at), nanos(between))
        };
        closest(read, |(_, slack)| *slack).0
    }

    /// Whole seconds since 1970 when the clock was 0, as the host's clock has it now.
    #[must_use]
    pub fn unix_at_zero(&self) -> u64 {
        let host = self.host();
        (host.unix.saturating_sub(host.at.0) + 500_000_000) / 1_000_000_000
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The counter and the system's clock at one moment.
fn look(start: Instant, offset: u64) -> Look {
    let read = || {
        let before = start.elapsed();
        let ticks = dpdk::tsc();
        let between = start.elapsed().saturating_sub(before);
        Look {
            ticks,
            nanos: offset + nanos(before) + nanos(between) / 2,
            slack: nanos(between),
        }
    };
    closest(read, |look| look.slack)
}

/// The first of a few that took no longer than it must, or the one that took least.
fn closest<T>(read: impl Fn() -> T, slack: impl Fn(&T) -> u64) -> T {
    let mut best = read();
    for _ in 1..TRIES {
        if slack(&best) <= SHORT {
            break;
        }
        let other = read();
        if slack(&other) < slack(&best) {
            best = other;
        }
    }
    best
}

/// Whether the time stamp counter runs at one rate on all cores, whatever they do: the kernel says so by using it, or
/// has a clock of the hypervisor that is made of it.
fn counter_is_a_clock() -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    match source.trim() {
        "tsc" | "tsc-early" | "arch_sys_counter" => true,
        "kvm-clock" | "xen" | "hyperv_clocksource_tsc_page" => {
            let processors = read("/proc/cpuinfo");
            let flags = processors.lines().find(|line| line.starts_with("flags"));
            flags.is_some_and(|flags| {
                ["constant_tsc", "nonstop_tsc"]
                    .iter()
                    .all(|wanted| flags.split_whitespace().any(|flag| flag == *wanted))
            })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies in threads agree with each other and with the system, whatever rate the counter is said to have.
    #[test]
    fn copies_of_a_clock_agree_with_the_system() {
        for said in [0, 1_000_000_000, 2_000_000_000] {
            let clock = Clock::starting_now(said);
            let first = clock.now();
            let threads = [(); 2].map(|()| {
                let copy = clock.clone();
                std::thread::spawn(move || {
                    let (mut last, mut worst) = (Nanos::ZERO, u64::MAX);
                    let end = Instant::now() + Duration::from_millis(300);
                    while Instant::now() < end {
                        let before = nanos(copy.start.elapsed()) + copy.offset;
                        let now = copy.now();
                        let after = nanos(copy.start.elapsed()) + copy.offset;
                        assert!(now >= last);
                        last = now;
                        // What another process did in between is not the clock's.
                        if after - before < 5_000 {
                            let error = before.saturating_sub(now.0).max(now.0.saturating_sub(after));
                            worst = worst.min(error);
                        }
                    }
                    (last, worst)
                })
            });
            for thread in threads {
                let (last, error) = thread.join().unwrap();
                assert!(last > first);
                // The best of what was seen, for a machine that others use, too.
                assert!(error < 1_000_000 || error == u64::MAX, "{error} ns");
            }
        }
    }

    /// The measured rate is that of the system's clock, to a thousandth: the bound is wide for machines that are busy.
    #[test]
    fn the_rate_of_the_counter_is_measured() {
        let clock = Clock::starting_now(1_000_000_000);
        if !clock.has_counter() {
            return;
        }
        let (begin, ticks) = (Instant::now(), dpdk::tsc());
        while begin.elapsed() < Duration::from_secs(1) {
            let _ = clock.now();
            std::thread::sleep(Duration::from_millis(2));
        }
        let passed = dpdk::tsc().wrapping_sub(ticks);
        let elapsed = nanos(begin.elapsed());
        let measured = (u128::from(passed) * u128::from(clock.ticks.get().scale())) >> 32;
        let error = u64::try_from(measured).unwrap().abs_diff(elapsed);
        assert!(error < elapsed / 1_000, "{error} ns of {elapsed}");
    }

    #[test]
    fn its_seconds_are_those_of_the_date() {
        let clock = Clock::starting_now(2_000_000_000);
        let (now, date) = (clock.now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
        let known = Duration::from_secs(clock.unix_at_zero()) + Duration::from_nanos(now.0);
        let error = date.saturating_sub(known).max(known.saturating_sub(date));
        // The host's clock may be corrected meanwhile, and another process may have been here.
        assert!(error < Duration::from_millis(500), "{error:?}");
    }
}
