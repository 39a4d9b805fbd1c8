//! DPDK's hierarchical scheduler (`rte_sched`), as far as benchmarks compare with it: a subport of pipes, each with a
//! queue of strict priority and a best-effort one.

use std::ptr::NonNull;

use dpdk_sys as sys;

use crate::burst::{BURST_MAX, Burst};
use crate::eal::Eal;
use crate::error::{Errno, Error};

/// The shape of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedConfig {
    /// Pipes, a power of two up to 65,536.
    pub pipes: u32,
    /// Octets a second of the port.
    pub port_rate: u64,
    /// Octets a second of each pipe.
    pub pipe_rate: u64,
    /// Packets of each queue, a power of two.
    pub queue_size: u16,
    /// The longest packet in octets, up to 9216.
    pub mtu: u16,
}

/// A scheduler, for one thread. It takes its time from the processor's time stamp counter.
#[derive(Debug)]
pub struct Sched {
    port: NonNull<sys::rte_sched_port>,
    queues: u32,
}

impl Sched {
    /// Makes a scheduler.
    ///
    /// # Errors
    /// [`Error::Config`] for a shape out of bounds, [`Error::Resource`] when DPDK refuses it.
    pub fn new(_eal: &Eal, config: &SchedConfig) -> Result<Sched, Error> {
        if !config.pipes.is_power_of_two() || config.pipes > 1 << 16 {
            return Err(Error::config("pipes", config.pipes, "a power of two up to 65536"));
        }
        if !config.queue_size.is_power_of_two() {
            return Err(Error::config("queue_size", config.queue_size, "a power of two"));
        }
        if !(64..=9_216).contains(&config.mtu) || config.pipe_rate == 0 || config.port_rate < config.pipe_rate
        {
            let bound = "mtu of 64 to 9216, and 0 < pipe_rate <= port_rate";
            return Err(Error::config("mtu", config.mtu, bound));
        }
        let name = c"sluice-sched";
        let make = || {
            // SAFETY: EAL runs; the name is NUL-terminated and lives as long as the program. DPDK checks the rest.
            unsafe {
                sys::shim_sched_create(
                    name.as_ptr(),
                    config.pipes,
                    config.port_rate,
                    config.pipe_rate,
                    config.queue_size,
                    config.mtu.into(),
                )
            }
        };
        let (port, log) = crate::log::captured(make);
        let port = NonNull::new(port).ok_or_else(|| Error::Resource {
            what: format!("scheduler of {} pipes", config.pipes),
            errno: Errno::last(),
            log,
        })?;
        Ok(Sched {
            port,
            queues: config.pipes * 2,
        })
    }

    /// Queues all packets of a burst: packet n in queue `queues[n]`, of which 2m and 2m + 1 are those of pipe m. Those
    /// that do not fit are freed. Returns how many fit; none, and nothing is taken, where a queue is missing.
    #[inline]
    pub fn enqueue(&mut self, burst: &mut Burst, queues: &[u32]) -> usize {
        if queues.len() < burst.len() || queues.iter().any(|queue| *queue >= self.queues) {
            return 0;
        }
        let mut fit = 0;
        let put = |slots: *mut *mut sys::rte_mbuf, len: u16| {
            // SAFETY: the scheduler is alive and borrowed exclusively; the slots hold `len` owned packets, all of which
            // it takes over; there are as many numbers of queues, which exist.
            fit = unsafe { sys::shim_sched_enqueue(self.port.as_ptr(), slots, queues.as_ptr(), len.into()) };
            usize::from(len)
        };
        // SAFETY: as many are taken over as is said.
        unsafe { burst.take_front(put) };
        fit as usize
    }

    /// Takes packets that may leave now, up to `most`, to the end of the burst.
    #[inline]
    pub fn dequeue(&mut self, burst: &mut Burst, most: usize) -> usize {
        let most = most.min(BURST_MAX) as u32;
        // SAFETY: the scheduler is alive and borrowed exclusively; it gives at most `room` packets, which it owned.
        unsafe {
            burst.fill(|slots, room| {
                sys::shim_sched_dequeue(self.port.as_ptr(), slots, most.min(room.into())) as usize
            })
        }
    }
}

impl Drop for Sched {
    fn drop(&mut self) {
        // SAFETY: the scheduler is alive, and this is its only owner; packets in it are its own.
        unsafe { sys::shim_sched_free(self.port.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mempool::{Mempool, PoolConfig};

    #[test]
    fn packets_come_out_of_the_scheduler_and_go_back_to_their_pool() {
        let eal = crate::testing::eal();
        let pool = Mempool::new(eal, PoolConfig::with_buffers(255)).unwrap();
        let config = SchedConfig {
            pipes: 64,
            port_rate: 1_250_000_000,
            pipe_rate: 125_000_000,
            queue_size: 16,
            mtu: 1_500,
        };
        let mut sched = Sched::new(eal, &config).unwrap();
        let mut burst = Burst::new();
        for _ in 0..8 {
            burst.push(pool.alloc_with(&[0; 100]).unwrap()).unwrap();
        }
        assert_eq!(sched.enqueue(&mut burst, &[128; 8]), 0, "there is no such queue");
        assert_eq!(burst.len(), 8);
        assert_eq!(sched.enqueue(&mut burst, &[0, 1, 2, 3, 4, 5, 126, 127]), 8);
        let mut left = 0;
        while left < 6 {
            left += sched.dequeue(&mut burst, 64);
        }
        burst.clear();
        drop(sched);
        assert_eq!(pool.in_use(), 0);
        assert!(Sched::new(eal, &SchedConfig { pipes: 3, ..config }).is_err());
    }
}
