//! The CPUs that threads run on.

use crate::error::{Errno, Error};

/// The most CPUs that a Linux affinity mask of the C library names.
const CPUS_MAX: usize = 1024;

/// The CPUs that the calling thread may run on, by the kernel's numbers.
///
/// # Errors
///
/// [`Error::Resource`] when the system does not report them.
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
}
