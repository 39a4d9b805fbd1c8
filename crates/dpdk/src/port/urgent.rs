//! Receive queues for what a program chooses, beside those of a port: where its program goes, and what became of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use super::xdp::Entry;
use crate::error::Errno;

/// Whether a port sorts urgent packets out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrgentQueues {
    /// It does not: it was not asked to, or cannot.
    None,
    /// It has queues for them, and no program yet.
    Waiting,
    /// It does.
    Sorted,
    /// A program that tells them would be too long.
    TooMany,
    /// The kernel has refused the queues or the program.
    Refused(Errno),
}

/// What became of a port's program: its queues write it, others read.
#[derive(Debug, Default)]
pub(super) struct Sorting(AtomicI32);

impl Sorting {
    const NONE: i32 = 0;
    const WAITING: i32 = -1;
    const SORTED: i32 = -2;
    const TOO_MANY: i32 = -3;

    pub(super) fn note(&self, found: UrgentQueues) {
        let value = match found {
            UrgentQueues::None => Self::NONE,
            UrgentQueues::Waiting => Self::WAITING,
            UrgentQueues::Sorted => Self::SORTED,
            UrgentQueues::TooMany => Self::TOO_MANY,
            UrgentQueues::Refused(Errno(number)) => number,
        };
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn found(&self) -> UrgentQueues {
        match self.0.load(Ordering::Relaxed) {
            Self::NONE => UrgentQueues::None,
            Self::WAITING => UrgentQueues::Waiting,
            Self::SORTED => UrgentQueues::Sorted,
            Self::TOO_MANY => UrgentQueues::TooMany,
            number => UrgentQueues::Refused(Errno(number)),
        }
    }
}

/// Where the program goes that chooses.
#[derive(Debug)]
pub(super) enum Chooser {
    /// To the group of the port's packet sockets.
    Group,
    /// Behind the entry on the interface.
    Xdp(Arc<Entry>),
}
