//! Supervision of GTP-U paths by echo (TS 29.281 §7.2, TS 23.007 §20.3.1): which peers are asked when, and which are
//! held to be unreachable.
//!
//! A path in use gets an Echo Request once in an interval, and up to N3 in all, T3 apart, until it answers; then it has
//! failed. Echo Requests continue, and the path has recovered with the next response. Sans-IO: requests are polled from
//! the endpoint, responses handed to it. What is done about a path that failed is in
//! [`node_reports`](crate::node_reports).

use flow::Nanos;
use session::{AssociationId, GtpuPath, PathChange};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How paths are supervised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSupervision {
    /// Between two rounds of a path; TS 29.281 §7.2.1 wants at least 60 s.
    pub interval: Duration,
    /// T3: how long a response is waited for.
    pub t3: Duration,
    /// N3: Echo Requests in a round before the path has failed; 0 is as 1.
    pub n3: u32,
    /// Paths at most; more are not supervised.
    pub most: usize,
}

/// An Echo Request to send (TS 29.281 §7.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// From where, and to whom.
    pub path: GtpuPath,
    /// The sequence number; the same in all requests of a round.
    pub sequence: u16,
}

/// Requests made in one go; the rest follow with the next.
const MOST_AT_ONCE: usize = 256;

#[derive(Debug, Default)]
struct Supervised {
    at: Nanos,
    sequence: u16,
    /// Requests of this round; 0: between rounds.
    asked: u32,
    /// The associations that the failure has been reported to.
    reported: BTreeSet<AssociationId>,
}

/// All paths.
#[derive(Debug)]
pub(crate) struct Paths {
    supervision: Option<PathSupervision>,
    paths: BTreeMap<GtpuPath, Supervised>,
    due: BTreeSet<(Nanos, GtpuPath)>,
    echoes: VecDeque<Echo>,
    last: u16,
    /// What is to be announced to workers.
    changes: VecDeque<PathChange>,
}

impl Paths {
    pub(crate) fn new(supervision: Option<PathSupervision>) -> Paths {
        Paths {
            supervision,
            paths: BTreeMap::new(),
            due: BTreeSet::new(),
            echoes: VecDeque::new(),
            last: 0,
            changes: VecDeque::new(),
        }
    }

    /// Paths are supervised in this way from now on; `used` are those in use. Rounds that are on their way continue.
    /// Returns how many are not supervised for want of room.
    pub(crate) fn set_supervision(
        &mut self,
        now: Nanos,
        supervision: Option<PathSupervision>,
        used: impl Iterator<Item = GtpuPath>,
    ) -> u64 {
        if self.supervision == supervision {
            return 0;
        }
        self.supervision = supervision;
        let Some(PathSupervision { interval, .. }) = supervision else {
            (self.paths, self.due, self.echoes) = Default::default();
            return 0;
        };
        let latest = now + interval;
        self.due.clear();
        for (path, supervised) in &mut self.paths {
            supervised.at = supervised.at.min(latest);
            self.due.insert((supervised.at, *path));
        }
        let mut unsupervised = 0;
        for path in used {
            let is_known = self.paths.contains_key(&path);
            unsupervised += u64::from(!is_known && !self.used(now, path));
        }
        unsupervised
    }

    /// A path came into use or went out of use.
    pub(crate) fn change(&mut self, change: PathChange) {
        self.changes.push_back(change);
    }

    pub(crate) fn poll_change(&mut self) -> Option<PathChange> {
        self.changes.pop_front()
    }

    /// A path is in use from now on. Answers whether it is supervised, if any is.
    pub(crate) fn used(&mut self, now: Nanos, path: GtpuPath) -> bool {
        let Some(supervision) = self.supervision else {
            return true;
        };
        let has_room = self.paths.len() < supervision.most;
        if has_room {
            let at = now + supervision.interval;
            self.paths.entry(path).or_default().at = at;
            self.due.insert((at, path));
        }
        has_room
    }

    /// A path is not in use any more.
    pub(crate) fn unused(&mut self, path: &GtpuPath) {
        if let Some(supervised) = self.paths.remove(path) {
            self.due.remove(&(supervised.at, *path));
        }
    }

    /// Makes the Echo Requests that are due. Gives the paths without a response in a whole round.
    pub(crate) fn handle_timeout(&mut self, now: Nanos) -> Vec<GtpuPath> {
        let mut silent = Vec::new();
        let Some(PathSupervision { interval, t3, n3, .. }) = self.supervision else {
            return silent;
        };
        for _ in 0..MOST_AT_ONCE {
            let Some((_, path)) = self.due.first().copied().filter(|(at, _)| *at <= now) else {
                break;
            };
            self.due.pop_first();
            let Some(supervised) = self.paths.get_mut(&path) else {
                continue;
            };
            if supervised.asked >= n3.max(1) {
                supervised.asked = 0;
                supervised.at = now + interval;
                silent.push(path);
            } else {
                if supervised.asked == 0 {
                    self.last = self.last.wrapping_add(1);
                    supervised.sequence = self.last;
                }
                supervised.asked += 1;
                supervised.at = now + t3;
                let sequence = supervised.sequence;
                self.echoes.push_back(Echo { path, sequence });
            }
            self.due.insert((supervised.at, path));
        }
        silent
    }

    /// A response has come. Gives the associations that the recovery is reported to.
    pub(crate) fn answered(&mut self, now: Nanos, path: &GtpuPath, sequence: u16) -> BTreeSet<AssociationId> {
        let (Some(supervision), Some(supervised)) = (self.supervision, self.paths.get_mut(path)) else {
            return BTreeSet::new();
        };
        if supervised.asked == 0 || supervised.sequence != sequence {
            return BTreeSet::new();
        }
        self.due.remove(&(supervised.at, *path));
        supervised.asked = 0;
        supervised.at = now + supervision.interval;
        self.due.insert((supervised.at, *path));
        std::mem::take(&mut supervised.reported)
    }

    /// Marks the failure of a path as reported to an association. Returns whether it was not before.
    pub(crate) fn set_reported(&mut self, path: &GtpuPath, association: AssociationId) -> bool {
        let supervised = self.paths.get_mut(path);
        supervised.is_some_and(|supervised| supervised.reported.insert(association))
    }

    /// How many paths have failed, of those whose failure an association has received.
    pub(crate) fn failed(&self) -> usize {
        self.paths
            .values()
            .filter(|supervised| !supervised.reported.is_empty())
            .count()
    }

    pub(crate) fn poll_echo(&mut self) -> Option<Echo> {
        self.echoes.pop_front()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.due.first().map(|(at, _)| *at)
    }
}
