//! Lcore ids. DPDK keeps a cache of free buffers per lcore id; a thread without one goes to the shared
//! pool for every burst. A worker's thread therefore registers itself.

use std::marker::PhantomData;

use crate::eal::Eal;
use crate::error::{Errno, Error};

/// The calling thread's lcore id, held until this is dropped; it stays on its thread.
#[derive(Debug)]
pub struct Registration {
    lcore: u32,
    /// Whether the id is given back: not EAL's main lcore, which had one before.
    ours: bool,
    _not_send: PhantomData<*const ()>,
}

impl Registration {
    /// Gives the calling thread an lcore id. A thread that has one (EAL's main lcore) keeps it.
    ///
    /// # Errors
    ///
    /// [`Error::Resource`] when all lcore ids (128 in Debian's DPDK) are taken.
    pub fn new(_eal: &Eal) -> Result<Registration, Error> {
        if let Some(lcore) = current() {
            return Ok(Registration {
                lcore,
                ours: false,
                _not_send: PhantomData,
            });
        }
        // SAFETY: EAL runs; the thread is not registered (it has no id).
        let (code, log) = crate::log::captured(|| unsafe { dpdk_sys::rte_thread_register() });
        match current() {
            Some(lcore) if code == 0 => Ok(Registration {
                lcore,
                ours: true,
                _not_send: PhantomData,
            }),
            _ => Err(Error::Resource {
                what: "lcore id".into(),
                errno: Errno::last(),
                log,
            }),
        }
    }

    /// The thread's lcore id.
    pub fn lcore(&self) -> u32 {
        self.lcore
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.ours {
            // SAFETY: this thread registered itself in `new`, and the value cannot leave its thread.
            unsafe { dpdk_sys::rte_thread_unregister() };
        }
    }
}

fn current() -> Option<u32> {
    // SAFETY: reads a thread-local integer; no precondition.
    let id = unsafe { dpdk_sys::shim_lcore_id() };
    (id != u32::MAX).then_some(id)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn each_registered_thread_has_its_own_lcore() {
        let eal = crate::testing::eal();
        // Both must hold their id at the same time.
        let barrier = Arc::new(Barrier::new(2));
        let register = |barrier: Arc<Barrier>| {
            move || {
                let registration = Registration::new(eal).unwrap();
                barrier.wait();
                registration.lcore()
            }
        };
        let threads = [0; 2].map(|_| std::thread::spawn(register(barrier.clone())));
        let ids = threads.map(|thread| thread.join().unwrap());
        assert_ne!(ids[0], ids[1]);
    }
}
