//! What control does not know of itself, for the alarms.

use std::path::PathBuf;
use std::time::Duration;

use config::Watermark;
use flow::{Nanos, SessionGroupTotal};
use worker::EgressCounts;

use super::limits::is_near;
use super::rates::Rates;
use crate::values::{RecordsStatus, StoreStatus};

/// Looks, once a second, without progress of a worker, after which it has stalled. Looks are counted, and not
/// seconds: of a process that was stopped as a whole no worker has stalled.
const STALLED: u32 = 3;
/// The same without contact with a worker's accelerator, after which that is lost.
const SILENT: u32 = 3;
/// The same with nearly all room for waiting packets in use, after which that is raised: a burst fills it for less.
const CROWDED: u32 = 3;
/// For how long it is shown that a pool of public addresses has refused a block.
const REFUSED_OF_LATE: Duration = Duration::from_secs(60);

/// What control does not know.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Usage records, where there are any.
    pub records: Option<RecordsStatus>,
    /// The store of sessions, where there is one.
    pub store: Option<StoreStatus>,
    /// When the host's clock was stepped last, and how.
    pub stepped: Option<ClockStep>,
    /// Counts that raise an alarm.
    pub watermarks: Vec<Watermark>,
    /// Flow entries of all workers, and those that there is room for.
    pub flows: (u64, u64),
    /// Why the audit log was not written last, and where it is.
    pub audit: Option<Fault>,
    /// File systems that the daemon writes to.
    pub disks: Vec<Disk>,
    /// Receivers of alarms that take none, and why.
    pub undelivered: Vec<Fault>,
    pub(super) rates: Rates,
    pub(super) lost: Option<LostRecords>,
    pub(super) workers: Vec<Progress>,
    /// Looks in which a worker's accelerator was not in contact, by worker.
    pub(super) silent: Vec<u32>,
    /// What waits before ports, by worker.
    pub(super) egress: Vec<EgressCounts>,
    /// Looks in which nearly all room for packets, and for their octets, was in use there.
    pub(super) crowded: Vec<[u32; 2]>,
    pub(super) exhausted_pools: Vec<Exhausted>,
}

/// A step of the host's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// When.
    pub at: Nanos,
    /// In words.
    pub text: String,
}

/// Something that does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub object: String,
    /// Why.
    pub why: String,
}

/// A file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The directory in it that the daemon writes to.
    pub directory: PathBuf,
    /// Mebioctets that are used.
    pub used_mib: u64,
    /// Those, and what this user can have.
    pub size_mib: u64,
}

/// Usage records that are lost, and since when there were no more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LostRecords {
    pub(super) count: u64,
    pub(super) at: Nanos,
}

/// How often a pool of public addresses has refused a block, and when it did last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exhausted {
    count: u64,
    at: Nanos,
}

/// A worker's count of progress, and the looks in which it stayed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    count: u64,
    looks: u32,
}

/// What of a worker's room for waiting packets, and for their octets, is in use, and how much there is.
pub(super) fn room(counts: &EgressCounts) -> [(u64, u64); 2] {
    [
        (counts.packets as u64, counts.packets_limit as u64),
        (counts.octets, counts.octets_limit),
    ]
}

impl Seen {
    /// Nothing yet, with the counts that raise an alarm.
    #[must_use]
    pub fn watching(watermarks: Vec<Watermark>) -> Self {
        Self {
            watermarks,
            ..Self::default()
        }
    }

    /// Notes a step of the host's clock.
    pub fn note_step(&mut self, at: Nanos, text: String) {
        self.stepped = Some(ClockStep { at, text });
    }

    /// Whether a watermark is one of a rate, so that [`note_forwarded`](Self::note_forwarded) is of use.
    #[must_use]
    pub fn watches_rates(&self) -> bool {
        self.watermarks.iter().any(|mark| mark.of.is_rate())
    }

    /// Notes what each worker has forwarded of each session group, at each look.
    pub fn note_forwarded(&mut self, now: Nanos, workers: &[Vec<SessionGroupTotal>]) {
        self.rates.note(now, workers);
    }

    /// Notes each worker's count of progress, at each look.
    pub fn note_progress(&mut self, counts: impl Iterator<Item = u64>) {
        for (place, count) in counts.enumerate() {
            match self.workers.get_mut(place) {
                None => self.workers.push(Progress { count, looks: 0 }),
                Some(worker) if worker.count == count => worker.looks = worker.looks.saturating_add(1),
                Some(worker) => *worker = Progress { count, looks: 0 },
            }
        }
    }

    /// Notes, at each look, whether each worker's accelerator is in contact; `None` for a worker without one.
    pub fn note_contacts(&mut self, contacts: impl Iterator<Item = Option<bool>>) {
        for (place, contact) in contacts.enumerate() {
            if place == self.silent.len() {
                self.silent.push(0);
            }
            let looks = &mut self.silent[place];
            *looks = match contact {
                Some(false) => looks.saturating_add(1),
                Some(true) | None => 0,
            };
        }
    }

    /// Notes, at each look, what waits before the ports of each worker.
    pub fn note_egress(&mut self, workers: Vec<EgressCounts>) {
        self.crowded.resize(workers.len(), [0; 2]);
        for (looks, counts) in self.crowded.iter_mut().zip(&workers) {
            for (looks, (used, limit)) in looks.iter_mut().zip(room(counts)) {
                *looks = match is_near(used, limit) {
                    true => looks.saturating_add(1),
                    false => 0,
                };
            }
        }
        self.egress = workers;
    }

    /// Whether nearly all room for packets, and for their octets, has been in use at a worker for some looks.
    pub(super) fn is_crowded(&self, worker: usize) -> [bool; 2] {
        let looks = self.crowded.get(worker).copied().unwrap_or_default();
        looks.map(|looks| looks >= CROWDED)
    }

    /// Notes how often each pool of public addresses has refused a block, and gives those that did of late.
    pub(super) fn note_exhausted(&mut self, now: Nanos, counts: &[u64]) -> Vec<usize> {
        let pools = &mut self.exhausted_pools;
        pools.resize(counts.len(), Exhausted::default());
        for (pool, count) in pools.iter_mut().zip(counts) {
            if pool.count != *count {
                *pool = Exhausted {
                    count: *count,
                    at: now,
                };
            }
        }
        let of_late = |pool: &Exhausted| pool.count > 0 && now.since(pool.at) < REFUSED_OF_LATE;
        let pools = pools.iter().enumerate();
        pools
            .filter(|(_, pool)| of_late(pool))
            .map(|(place, _)| place)
            .collect()
    }

    /// Workers whose accelerators have not been in contact for some looks.
    pub(super) fn without_contact(&self) -> impl Iterator<Item = usize> + '_ {
        let workers = self.silent.iter().enumerate();
        workers
            .filter(|(_, looks)| **looks >= SILENT)
            .map(|(place, _)| place)
    }

    /// Workers that have made no progress for some looks.
    pub(super) fn stalled(&self) -> impl Iterator<Item = usize> + '_ {
        let workers = self.workers.iter().enumerate();
        workers
            .filter(|(_, worker)| worker.looks >= STALLED)
            .map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_exhausted_for_a_minute_after_it_has_refused_a_block() {
        let mut seen = Seen::default();
        let mut look = |second, counts: [u64; 2]| seen.note_exhausted(Nanos::from_secs(second), &counts);
        assert_eq!(look(100, [0, 0]), [0; 0]);
        assert_eq!(look(101, [0, 1]), [1]);
        assert_eq!(look(150, [2, 1]), [0, 1]);
        assert_eq!(look(161, [2, 1]), [0]);
        assert_eq!(look(210, [2, 1]), [0; 0]);
    }

    #[test]
    fn a_worker_has_stalled_after_some_looks_without_progress() {
        let mut seen = Seen::default();
        let mut look = |counts: [u64; 2]| {
            seen.note_progress(counts.into_iter());
            seen.stalled().collect::<Vec<_>>()
        };
        for second in 0..3 {
            assert_eq!(look([second, 7]), [0; 0]);
        }
        assert_eq!(look([3, 7]), [1]);
        assert_eq!(look([3, 7]), [1]);
        assert_eq!(look([4, 8]), [0; 0]);
    }
}
