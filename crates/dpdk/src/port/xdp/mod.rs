//! The XDP program of an AF_XDP port that sorts urgent packets out, in place of the one that DPDK's driver puts there.
//!
//! It is in two parts. The *entry* is on the interface as long as the port is open, so that its number stays the same:
//! it passes control to a program that chooses, and gives frames to the queues' sockets where there is none. The
//! program that chooses is made of the one for packet sockets
//! ([`RxQueue::choose_queues`](super::RxQueue::choose_queues)): ordinary frames go to the queue's socket, and those
//! that it chooses are passed to the kernel, where a packet socket receives them. What comes by a queue without a
//! socket is dropped, unless it is chosen.

mod calls;
mod program;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use self::calls::Map;
use super::sockets::FilterInstruction;
use crate::error::Errno;

/// The place of the program that chooses, in the table that has it alone.
const CHOOSES: u32 = 0;

/// The entry and what it refers to. The kernel keeps the program that is on an interface; what it refers to ends with
/// the process.
#[derive(Debug)]
pub(super) struct Entry {
    /// By number of the interface's queue, the socket of each queue.
    sockets: OwnedFd,
    /// The program that chooses.
    chooses: OwnedFd,
    program: OwnedFd,
}

impl Entry {
    /// Makes one that gives frames of the interface's queues from `first` on to these sockets. It is on no interface
    /// yet.
    pub(super) fn make(first: u16, of_queues: &[RawFd]) -> Result<Entry, Errno> {
        let numbers = u32::from(first)..;
        let sockets = calls::map(Map::Sockets, u32::from(first) + of_queues.len() as u32)?;
        for (number, &socket) in numbers.zip(of_queues) {
            calls::set(&sockets, number, socket)?;
        }
        let chooses = calls::map(Map::Programs, 1)?;
        let entry = program::entry(sockets.as_raw_fd(), chooses.as_raw_fd());
        let program = calls::load(&entry)?;
        Ok(Entry {
            sockets,
            chooses,
            program,
        })
    }

    /// Has this program choose from now on: frames for which it does not give 0 are passed to the kernel.
    pub(super) fn choose(&self, filter: &[FilterInstruction]) -> Result<(), Errno> {
        let made = program::choosing(filter, self.sockets.as_raw_fd()).ok_or(Errno(libc::E2BIG))?;
        let program = calls::load(&made)?;
        calls::set(&self.chooses, CHOOSES, program.as_raw_fd())
    }

    /// The program for the interface.
    pub(super) fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

/// A program that chooses, on no interface: what it makes of a frame.
#[derive(Debug)]
pub struct ChoosingProgram(OwnedFd);

impl ChoosingProgram {
    /// Loads one, as [`RxQueue::choose_queues`](crate::RxQueue::choose_queues) does of an AF_XDP port.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn load(filter: &[FilterInstruction]) -> Result<Self, Errno> {
        let sockets = calls::map(Map::Sockets, 1)?;
        let made = program::choosing(filter, sockets.as_raw_fd()).ok_or(Errno(libc::E2BIG))?;
        calls::load(&made).map(Self)
    }

    /// Whether it chooses a frame, of 14 octets at least.
    ///
    /// # Errors
    ///
    /// The kernel's, when it does not run it.
    pub fn chooses(&self, frame: &[u8]) -> Result<bool, Errno> {
        Ok(calls::run(&self.0, frame)? == program::PASS as u32)
    }
}
