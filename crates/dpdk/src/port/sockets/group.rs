//! Groups of rings that share what comes in by an interface: by hash, or as a program says.

use std::os::fd::AsRawFd;

use super::interface::{Interface, last_errno, set};
use super::ring::Ring;
use crate::error::{Errno, Error};

/// One instruction of classic BPF (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FilterInstruction {
    /// What it does.
    pub code: u16,
    /// Instructions to skip where a comparison holds.
    pub jt: u8,
    /// Instructions to skip where it does not.
    pub jf: u8,
    /// A constant or an offset.
    pub k: u32,
}

/// How the rings of a group share what comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// By the kernel's hash of flows.
    Hash,
    /// A program gives the number of the ring, in the order in which they joined. Until there is one, the first gets
    /// everything.
    Program,
}

/// A group. Fragments stay as they are in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    id: u16,
    /// How they share, and what.
    kind: libc::c_uint,
}

impl Group {
    /// Opens one with a first ring.
    pub(super) fn open(interface: &Interface, first: &Ring, sharing: Sharing) -> Result<Group, Error> {
        Self::make(first, sharing).map_err(interface.refused("share packets among queues"))
    }

    fn make(first: &Ring, sharing: Sharing) -> Result<Group, Errno> {
        let sharing = match sharing {
            Sharing::Hash => libc::PACKET_FANOUT_HASH,
            Sharing::Program => libc::PACKET_FANOUT_CBPF,
        };
        // What the host sends is not for a group that says so; older kernels do not know.
        let mut kind = sharing | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        if join(first, 0, kind | libc::PACKET_FANOUT_FLAG_UNIQUEID).is_err() {
            kind = sharing;
            join(first, 0, kind | libc::PACKET_FANOUT_FLAG_UNIQUEID)?;
        }
        let (mut value, mut length) = (0_u32, size_of::<u32>() as libc::socklen_t);
        let (level, option) = (libc::SOL_PACKET, libc::PACKET_FANOUT);
        let fd = first.socket().as_raw_fd();
        // SAFETY: the number may be written and is as long as is said.
        let code = unsafe { libc::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut length) };
        match code {
            0 => Ok(Group {
                id: value as u16,
                kind,
            }),
            _ => Err(last_errno()),
        }
    }

    /// Adds a ring.
    pub(super) fn join(self, interface: &Interface, ring: &Ring) -> Result<(), Error> {
        join(ring, self.id, self.kind).map_err(interface.refused("share packets among queues"))
    }
}

fn join(ring: &Ring, id: u16, kind: libc::c_uint) -> Result<(), Errno> {
    let value = u32::from(id) | kind << 16;
    set(ring.socket(), libc::SOL_PACKET, libc::PACKET_FANOUT, &value)
}

/// Sets the program of the group that a ring is in.
pub(in crate::port) fn set_program(ring: &Ring, program: &[FilterInstruction]) -> Result<(), Errno> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno(libc::EINVAL))?,
        filter: program.as_ptr().cast_mut().cast(),
    };
    set(
        ring.socket(),
        libc::SOL_PACKET,
        libc::PACKET_FANOUT_DATA,
        &program,
    )
}
