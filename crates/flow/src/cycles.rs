//! The processor's own clock, for stage accounting and benchmarks: cheap to read, of a rate that is not guaranteed.
//!
//! Its unsafe code is the one instruction that reads the counter.

#![allow(unsafe_code)]

/// Ticks of the time stamp counter (x86-64), of the virtual counter (AArch64), else nanoseconds.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it only reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Ticks of the time stamp counter (x86-64), of the virtual counter (AArch64), else nanoseconds.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
pub fn now() -> u64 {
    let ticks;
    // SAFETY: the virtual counter can be read at every privilege level and the read has no other effect.
    unsafe { core::arch::asm!("mrs {0}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) }
    ticks
}

/// Ticks of the time stamp counter (x86-64), of the virtual counter (AArch64), else nanoseconds.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub fn now() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_counter_does_not_stand_still() {
        let start = super::now();
        while super::now() == start {}
        assert!(super::now() > start);
    }
}
