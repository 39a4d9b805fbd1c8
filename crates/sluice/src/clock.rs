//! Time for the threads of the daemon: the processor's time stamp counter as [`Nanos`].

use flow::Nanos;

/// Reads the time stamp counter; all copies of a clock agree. Needs an invariant counter, as every x86-64 server of
/// the last decade has.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: u64,
    /// Nanoseconds of one tick, as a fraction of 2^32.
    scale: u64,
}

impl Clock {
    /// A clock that stands at 0 now, for a counter of so many ticks a second.
    #[must_use]
    pub fn starting_now(ticks_per_second: u64) -> Self {
        let scale = (1_000_000_000_u128 << 32) / u128::from(ticks_per_second.max(1));
        Self {
            start: dpdk::tsc(),
            scale: scale as u64,
        }
    }

    /// Nanoseconds since the start.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        let ticks = dpdk::tsc().wrapping_sub(self.start);
        Nanos(((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64)
    }
}
