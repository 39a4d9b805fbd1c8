//! DPDK's random early detection (`rte_red`), as far as tests compare with it: one queue, one colour.

use std::sync::{Mutex, PoisonError};

use dpdk_sys as sys;

use crate::error::Error;

/// The parameters of `rte_red`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedConfig {
    /// A packet that comes is worth 2^-n in the average: 1 to 12.
    pub wq_log2: u16,
    /// Packets below which none is dropped.
    pub min_th: u16,
    /// Packets from which on all are, up to 1023.
    pub max_th: u16,
    /// Just below, of this many packets one is dropped: 1 to 255.
    pub maxp_inv: u16,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedOutcome {
    /// It is taken.
    Taken,
    /// It is dropped: the average is at the upper threshold.
    AboveMaximum,
    /// It is dropped by chance.
    ByChance,
}

/// A queue's state.
#[derive(Clone, Copy, Debug)]
pub struct Red {
    config: RedConfig,
    average: u32,
    count: u32,
}

/// DPDK keeps its random number in a global variable.
static RANDOM: Mutex<()> = Mutex::new(());

impl Red {
    /// A queue that has been empty.
    pub const fn new(config: RedConfig) -> Self {
        Self {
            config,
            average: 0,
            count: 0,
        }
    }

    /// What becomes of a packet that finds `packets` in the queue, with `random` for its chance.
    ///
    /// # Errors
    /// [`Error::Config`] for parameters out of bounds.
    pub fn enqueue(&mut self, packets: u32, random: u32) -> Result<RedOutcome, Error> {
        let RedConfig {
            wq_log2,
            min_th,
            max_th,
            maxp_inv,
        } = self.config;
        let guard = RANDOM.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: both words are alive and borrowed exclusively; what DPDK keeps in globals is used under the lock.
        let outcome = unsafe {
            sys::shim_sched_red(
                wq_log2,
                min_th,
                max_th,
                maxp_inv,
                &mut self.average,
                &mut self.count,
                packets,
                random,
            )
        };
        drop(guard);
        match outcome {
            0 => Ok(RedOutcome::Taken),
            1 => Ok(RedOutcome::AboveMaximum),
            2 => Ok(RedOutcome::ByChance),
            _ => Err(Error::config(
                "max_th",
                max_th,
                "min_th < max_th <= 1023, as rte_red_config_init has it",
            )),
        }
    }

    /// The average packets of the queue, without those of a fraction.
    pub const fn average(&self) -> u32 {
        self.average >> (self.config.wq_log2 + 10)
    }
}
