//! Threads and lcores. DPDK keeps a cache of free buffers per lcore id; a thread without one goes to the shared
//! pool for every burst. A worker's thread therefore registers itself.

use std::marker::PhantomData;

use crate::eal::Eal;
use crate::error::{Errno, Error};

/// The most CPUs that a Linux affinity mask of the C library names.
const CPUS_MAX: usize = 1024;

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

/// The CPUs that the calling thread may run on, by the kernel's numbers.
///
/// # Errors
///
/// [`Error::Resource`] when the system does not tell.
pub fn thread_cpus() -> Result<Vec<u32>, Error> {
    let mut cpus = vec![0; CPUS_MAX];
    // SAFETY: `cpus` has room for the CPUS_MAX entries announced.
    let count = unsafe { dpdk_sys::shim_thread_cpus(cpus.as_mut_ptr(), CPUS_MAX as u32) };
    if count <= 0 {
        let errno = Errno::from_return(count);
        return Err(Error::Resource {
            what: "CPU affinity".into(),
            errno,
            log: String::new(),
        });
    }
    cpus.truncate(count as usize);
    Ok(cpus)
}

/// Binds the calling thread to one CPU, by the kernel's number.
///
/// # Errors
///
/// [`Error::Config`] when the machine or the process has no such CPU.
pub fn pin_current_thread(cpu: u32) -> Result<(), Error> {
    // SAFETY: acts on the calling thread's affinity alone; any number may be given.
    match unsafe { dpdk_sys::shim_thread_pin(cpu) } {
        0 => Ok(()),
        code => Err(Error::config(
            "cpu",
            cpu,
            format!("a CPU of this process: {}", Errno::from_return(code)),
        )),
    }
}

/// Runs `work` on a thread of its own that is bound to a CPU, and waits for it: the kernel takes the memory that it
/// touches first from the CPU's NUMA node, as long as there is any. Without a CPU it runs on the calling thread.
///
/// # Errors
///
/// [`Error::Config`] when the machine or the process has no such CPU; [`Error::Resource`] without a thread.
///
/// # Panics
///
/// When `work` panics.
pub fn on_cpu<T: Send>(cpu: Option<u32>, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    let Some(cpu) = cpu else {
        return Ok(work());
    };
    std::thread::scope(|scope| {
        let bound = || pin_current_thread(cpu).map(|()| work());
        let thread = std::thread::Builder::new().spawn_scoped(scope, bound);
        let thread = thread.map_err(|error| Error::Resource {
            what: format!("thread on CPU {cpu}: {error}"),
            errno: Errno::last(),
            log: String::new(),
        })?;
        match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn a_thread_can_be_pinned_to_a_cpu_it_has_and_to_no_other() {
        std::thread::spawn(|| {
            let cpu = thread_cpus().unwrap()[0];
            pin_current_thread(cpu).unwrap();
            assert_eq!(thread_cpus().unwrap(), [cpu]);
            assert!(pin_current_thread(5000).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn work_on_a_cpu_runs_there_and_leaves_the_calling_thread_alone() {
        let before = thread_cpus().unwrap();
        let last = *before.last().unwrap();
        assert_eq!(on_cpu(Some(last), || thread_cpus().unwrap()).unwrap(), [last]);
        assert_eq!(on_cpu(None, || thread_cpus().unwrap()).unwrap(), before);
        assert_eq!(thread_cpus().unwrap(), before);
        assert!(on_cpu(Some(5000), || ()).is_err());
    }

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
