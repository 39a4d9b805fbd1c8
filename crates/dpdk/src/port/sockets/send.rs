//! A send queue: a packet socket, and one call of the kernel for a burst. With UDP segmentation, packets that can be
//! segments of one datagram are sent as one by a second socket, in their turn.
//!
//! The kernel copies what is sent: a ring to send from would be read by the other end of a veth after its slots are
//! free.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use super::counts::Counts;
use super::interface::{Interface, last_errno, set_waiting, socket};
use super::segmentation::{RUN_MIN, Segmentation};
use crate::burst::{BURST_MAX, Burst};
use crate::error::{Errno, Error};
use crate::mbuf::Mbuf;

/// The most segments of a packet that is sent.
pub(in crate::port) const SEGMENTS_MAX: u16 = 64;

/// Octets that wait for the interface, as the kernel counts them.
const WAITING: libc::c_int = 8 << 20;

/// A send queue.
#[derive(Debug)]
pub(in crate::port) struct Sender {
    socket: OwnedFd,
    /// What sends runs, until the kernel refuses one.
    segmentation: Option<Segmentation>,
    /// Where the parts of a burst's packets lie; empty between bursts.
    parts: Vec<libc::iovec>,
    counts: Arc<Counts>,
}

// SAFETY: the parts are empty unless a thread is in `send`.
unsafe impl Send for Sender {}

/// What is sent next: this many packets, as one datagram or each by itself.
enum Next {
    Run(usize),
    Each(usize),
}

impl Sender {
    /// Opens one, with UDP segmentation where an MTU is given: that of the segments.
    pub(super) fn open(interface: &Interface, segments: Option<u16>) -> Result<Sender, Error> {
        let made = Self::make(interface, segments).map_err(interface.refused("open a send queue"))?;
        interface.add_tx(&made.counts);
        Ok(made)
    }

    fn make(interface: &Interface, segments: Option<u16>) -> Result<Sender, Errno> {
        let fd = socket()?;
        set_waiting(&fd, WAITING)?;
        interface.bind(&fd, 0)?;
        let segmentation = segments.map(|mtu| Segmentation::open(interface, WAITING, mtu));
        Ok(Sender {
            socket: fd,
            segmentation: segmentation.transpose()?,
            parts: Vec::with_capacity(BURST_MAX * usize::from(SEGMENTS_MAX)),
            counts: Arc::default(),
        })
    }

    /// Sends packets from the front of the burst, as many as the interface takes. What it cannot send, as it is too
    /// long, is freed and counts as an error.
    pub(in crate::port) fn send(&mut self, burst: &mut Burst) -> usize {
        let mut done = 0;
        while let Some(rest) = burst.get(done..).filter(|rest| !rest.is_empty()) {
            let (sent, count) = match self.next(rest) {
                Next::Run(count) => (self.give_run(&rest[..count]), count),
                Next::Each(count) => (self.give(&rest[..count]), count),
            };
            done += sent;
            if sent < count {
                break;
            }
        }
        burst.free_front(done);
        done
    }

    /// What is sent next of these packets.
    fn next(&self, packets: &[Mbuf]) -> Next {
        let Some(segmentation) = &self.segmentation else {
            return Next::Each(packets.len());
        };
        let mut each = 0;
        while each < packets.len() {
            match segmentation.run(&packets[each..]) {
                run if run < RUN_MIN => each += run,
                run if each == 0 => return Next::Run(run),
                _ => break,
            }
        }
        Next::Each(each)
    }

    /// Sends a run as one datagram.
    fn give_run(&mut self, run: &[Mbuf]) -> usize {
        let Some(segmentation) = &self.segmentation else {
            return self.give(run);
        };
        let mut result = segmentation.send(run, &mut self.parts);
        while result == Err(Errno(libc::EINTR)) {
            result = segmentation.send(run, &mut self.parts);
        }
        match result {
            Ok(()) => {
                let octets = run.iter().map(|packet| packet.len() as u64).sum();
                Counts::add(&self.counts.packets, run.len() as u64);
                Counts::add(&self.counts.octets, octets);
                run.len()
            }
            // The interface has dropped at least one of the segments and does not report which: they are not sent
            // twice.
            Err(Errno(libc::ENOBUFS)) => {
                Counts::add(&self.counts.errors, run.len() as u64);
                run.len()
            }
            // The kernel or the interface does not segment.
            Err(Errno(libc::EMSGSIZE | libc::EINVAL | libc::EOPNOTSUPP)) => {
                self.segmentation = None;
                self.give(run)
            }
            Err(_) => 0,
        }
    }

    /// Sends packets as they are.
    fn give(&mut self, packets: &[Mbuf]) -> usize {
        // SAFETY: the structures are of integers and pointers, for all of which zero is a value.
        let mut messages: [libc::mmsghdr; BURST_MAX] = unsafe { MaybeUninit::zeroed().assume_init() };
        for (message, mbuf) in messages.iter_mut().zip(packets) {
            let first = self.parts.len();
            let parts = mbuf.segments().map(|part| libc::iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            });
            // Within what was reserved: the array must not move.
            self.parts.extend(parts.take(SEGMENTS_MAX.into()));
            message.msg_hdr.msg_iovlen = (self.parts.len() - first) as _;
            message.msg_hdr.msg_iov = self.parts.as_mut_ptr().wrapping_add(first);
        }
        let done = self.hand_over(&mut messages[..packets.len()]);
        self.parts.clear();
        done
    }

    fn hand_over(&self, messages: &mut [libc::mmsghdr]) -> usize {
        let (mut done, mut errors) = (0, 0);
        while let Some(rest) = messages.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let (first, count) = (rest.as_mut_ptr(), rest.len() as u32);
            // SAFETY: this many messages, whose parts are in packets that are borrowed by the caller of `give`; the
            // kernel reads them and writes lengths.
            let sent =
                unsafe { libc::sendmmsg(self.socket.as_raw_fd(), first, count, libc::MSG_DONTWAIT as _) };
            match usize::try_from(sent) {
                Ok(sent) if sent > 0 => done += sent,
                _ => match last_errno().0 {
                    libc::EINTR => {}
                    libc::EMSGSIZE | libc::EINVAL => {
                        rest[0].msg_len = 0;
                        (done, errors) = (done + 1, errors + 1);
                    }
                    _ => break,
                },
            }
        }
        let octets = messages[..done]
            .iter()
            .map(|message| u64::from(message.msg_len))
            .sum();
        Counts::add(&self.counts.packets, (done - errors) as u64);
        Counts::add(&self.counts.octets, octets);
        if errors > 0 {
            Counts::add(&self.counts.errors, errors as u64);
        }
        done
    }
}
