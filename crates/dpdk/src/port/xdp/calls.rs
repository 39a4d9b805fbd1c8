//! The system call `bpf`: maps and programs.

use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::super::sockets::last_errno;
use super::program::Instruction;
use crate::error::Errno;

/// Commands (`linux/bpf.h`).
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const LOAD: libc::c_int = 5;
const RUN: libc::c_int = 10;
/// The kind of a program.
const XDP: u32 = 6;

/// A table of descriptors.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum Map {
    Programs = 3,
    Sockets = 17,
}

#[repr(C)]
struct Create {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct Update {
    map: u32,
    _unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_octets: u32,
    log: u64,
    kernel: u32,
    flags: u32,
}

#[repr(C)]
struct Run {
    program: u32,
    verdict: u32,
    octets: u32,
    octets_out: u32,
    frame: u64,
    frame_out: u64,
    repeat: u32,
    duration: u32,
}

/// The call. Older kernels know fewer fields than there are; all that they do not know are none of these.
fn bpf<T>(command: libc::c_int, attributes: &mut T) -> Result<libc::c_int, Errno> {
    // SAFETY: the attributes are of the command's layout (each caller has one for its own), as long as is said, may be
    // written and live through the call, as does all that they point to.
    let code = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) };
    match code {
        0.. => Ok(code as libc::c_int),
        _ => Err(last_errno()),
    }
}

fn owned(made: libc::c_int) -> OwnedFd {
    // SAFETY: the kernel has just made the descriptor for its caller, and it has no other owner.
    unsafe { OwnedFd::from_raw_fd(made) }
}

/// Makes a table.
pub(super) fn map(kind: Map, entries: u32) -> Result<OwnedFd, Errno> {
    let mut create = Create {
        kind: kind as u32,
        key: 4,
        value: 4,
        entries,
        flags: 0,
    };
    bpf(MAP_CREATE, &mut create).map(owned)
}

/// Puts a descriptor into a table.
pub(super) fn set(map: &OwnedFd, place: u32, descriptor: RawFd) -> Result<(), Errno> {
    let mut update = Update {
        map: map.as_raw_fd() as u32,
        _unused: 0,
        key: &raw const place as u64,
        value: &raw const descriptor as u64,
        flags: 0,
    };
    bpf(MAP_UPDATE, &mut update).map(drop)
}

/// Loads an XDP program.
pub(super) fn load(program: &[Instruction]) -> Result<OwnedFd, Errno> {
    let mut load = Load {
        kind: XDP,
        instructions: program.len() as u32,
        code: program.as_ptr() as u64,
        licence: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_octets: 0,
        log: 0,
        kernel: 0,
        flags: 0,
    };
    bpf(LOAD, &mut load).map(owned)
}

/// Runs an XDP program on a frame that is on no interface: its verdict.
pub(super) fn run(program: &OwnedFd, frame: &[u8]) -> Result<u32, Errno> {
    let mut run = Run {
        program: program.as_raw_fd() as u32,
        verdict: 0,
        octets: frame.len() as u32,
        octets_out: 0,
        frame: frame.as_ptr() as u64,
        frame_out: 0,
        repeat: 1,
        duration: 0,
    };
    bpf(RUN, &mut run)?;
    Ok(run.verdict)
}
