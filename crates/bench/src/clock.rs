//! Time for benchmarks: ticks of the processor, processor time of a thread, and time that other threads took.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use flow::cycles;
use serde::Serialize;

/// Ticks of [`flow::cycles`] in a second: measured once, over 50 ms.
#[must_use]
pub fn ticks_per_second() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (start, ticks) = (Instant::now(), cycles::now());
        while start.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        cycles::now().wrapping_sub(ticks) as f64 / start.elapsed().as_secs_f64()
    })
}

/// Ticks as nanoseconds.
#[must_use]
pub fn nanos(ticks: u64) -> f64 {
    ticks as f64 * 1e9 / ticks_per_second()
}

/// The system's times of one thread and of the machine, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    wall: Instant,
    /// Nanoseconds on a processor, and waiting for one.
    thread: Option<[u64; 2]>,
    /// Hundredths of a second that the hypervisor gave to others.
    stolen: u64,
}

impl Moment {
    /// Now, for the calling thread.
    #[must_use]
    pub fn now() -> Self {
        Self {
            wall: Instant::now(),
            thread: schedstat(),
            stolen: steal(),
        }
    }

    /// Time since then.
    #[must_use]
    pub fn elapsed(&self) -> Passed {
        let now = Self::now();
        let wall = now.wall.duration_since(self.wall).as_nanos() as u64;
        let [busy, waited] = match (self.thread, now.thread) {
            (Some(then), Some(now)) => [now[0] - then[0], now[1] - then[1]],
            _ => [wall, 0],
        };
        Passed {
            wall_nanos: wall,
            busy_nanos: busy,
            waited_nanos: waited,
            stolen_nanos: (now.stolen - self.stolen) * 10_000_000,
        }
    }
}

/// How time went by for a thread.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Passed {
    /// Nanoseconds by the clock on the wall.
    pub wall_nanos: u64,
    /// Nanoseconds in which the thread was on a processor.
    pub busy_nanos: u64,
    /// Nanoseconds in which the thread waited for a processor: it was preempted.
    pub waited_nanos: u64,
    /// Nanoseconds that the hypervisor took from the whole machine.
    pub stolen_nanos: u64,
}

impl Passed {
    /// The share of the time that others took from the thread.
    #[must_use]
    pub fn taken(&self) -> f64 {
        (self.waited_nanos + self.stolen_nanos) as f64 / self.wall_nanos.max(1) as f64
    }
}

/// The processor time of the calling thread, and its time in the run queue.
fn schedstat() -> Option<[u64; 2]> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut words = text.split_whitespace().map(str::parse);
    Some([words.next()?.ok()?, words.next()?.ok()?])
}

/// Hundredths of a second of steal, all processors together.
fn steal() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    first
        .split_whitespace()
        .nth(8)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

/// Detects whether the calling thread kept its core between two calls. Cheap enough for a thousand calls a second.
#[derive(Debug)]
pub struct Presence {
    file: Option<File>,
    seen: u64,
}

impl Presence {
    /// From now on, for the calling thread.
    #[must_use]
    pub fn new() -> Self {
        let mut presence = Self {
            file: File::open("/proc/thread-self/schedstat").ok(),
            seen: 0,
        };
        presence.was_kept();
        presence
    }

    /// Whether the thread has been on its core since the last call. Always, where the system does not report it.
    pub fn was_kept(&mut self) -> bool {
        let mut text = [0; 96];
        let length = self
            .file
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok());
        let text = text.get(..length.unwrap_or(0)).unwrap_or_default();
        let turns = std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.split_whitespace().nth(2)?.parse().ok());
        let turns = turns.unwrap_or(0);
        std::mem::replace(&mut self.seen, turns) == turns
    }
}

impl Default for Presence {
    fn default() -> Self {
        Self::new()
    }
}

/// Octets of this process that are in memory.
#[must_use]
pub fn resident() -> u64 {
    resident_of(std::process::id())
}

/// Octets of the process with this number that are in memory; 0 when there is none.
#[must_use]
pub fn resident_of(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap_or_default();
    let kib: u64 = line
        .trim()
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .unwrap_or_default();
    kib * 1024
}

/// Octets of memory that the system has to give.
#[must_use]
pub fn available_memory() -> u64 {
    meminfo("MemAvailable:") * 1024
}

/// A field of `/proc/meminfo`, as it is there.
#[must_use]
pub fn meminfo(field: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .unwrap_or_default();
    line.trim()
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .unwrap_or_default()
}

/// The middle of some values, with the least and the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How many there were.
    pub count: usize,
}

/// Values of rounds, of which those count in which the thread kept its core; all of them where that was never so.
#[derive(Debug, Default)]
pub struct Rounds {
    kept: Vec<f64>,
    disturbed: Vec<f64>,
}

impl Rounds {
    /// Adds one.
    pub fn add(&mut self, value: f64, was_kept: bool) {
        if was_kept {
            self.kept.push(value);
        } else {
            self.disturbed.push(value);
        }
    }

    /// Whether there are no rounds.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.disturbed.is_empty()
    }

    /// Number of disturbed rounds, which [`spread`](Self::spread) leaves out unless all are disturbed.
    #[must_use]
    pub const fn left_out(&self) -> usize {
        if self.kept.is_empty() {
            0
        } else {
            self.disturbed.len()
        }
    }

    /// Spread of the rounds.
    #[must_use]
    pub fn spread(self) -> Spread {
        Spread::of(if self.kept.is_empty() {
            self.disturbed
        } else {
            self.kept
        })
    }
}

impl Spread {
    /// The spread of these values; all 0 without any.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or_default();
        Self {
            median: at(values.len() / 2),
            min: at(0),
            max: at(values.len().saturating_sub(1)),
            count: values.len(),
        }
    }

    /// The spread of `f(value)`, for a monotonic function.
    #[must_use]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        let [a, b] = [f(self.min), f(self.max)];
        Self {
            median: f(self.median),
            min: a.min(b),
            max: a.max(b),
            count: self.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_middle_and_both_ends() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
        let inverse = spread.map(|value| 1.0 / value);
        assert_eq!((inverse.min, inverse.max), (1.0 / 3.0, 1.0));
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }

    #[test]
    fn the_system_returns_what_is_asked() {
        assert!(ticks_per_second() > 1e6);
        let moment = Moment::now();
        let passed = moment.elapsed();
        assert!(passed.busy_nanos <= passed.wall_nanos + 20_000_000);
        assert!(resident() > 0 && available_memory() > 0);
    }
}
