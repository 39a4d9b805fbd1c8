//! Work that is done at once by several threads.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// Does all of this, each on a thread of its own, as far as the system gives threads.
pub(crate) fn all_at_once<const JOBS: usize>(jobs: [&mut (dyn FnMut() + Send); JOBS]) {
    let jobs = jobs.map(|job| Mutex::new(Some(job)));
    let run = |job: &Mutex<Option<&mut (dyn FnMut() + Send)>>| {
        let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
        job.into_iter().for_each(|job| job());
    };
    thread::scope(|scope| {
        for job in &jobs {
            let _ = thread::Builder::new().spawn_scoped(scope, move || run(job));
        }
    });
    jobs.iter().for_each(run);
}
