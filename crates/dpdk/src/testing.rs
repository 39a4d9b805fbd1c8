//! One EAL for all tests of a process, and what the kernel gets of a port. Not for production code.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::eal::Eal;
pub use crate::port::ChoosingProgram;

/// The process's EAL, started on first use in the mode that needs no privilege, with 512 MiB.
///
/// # Panics
///
/// When EAL does not start: no test can continue then.
pub fn eal() -> &'static Eal {
    static TESTS: OnceLock<&'static Eal> = OnceLock::new();
    TESTS.get_or_init(|| match Eal::builder().init() {
        Ok(eal) => eal,
        Err(error) => panic!("{error}"),
    })
}

/// Gives the calling thread a network of its own, with nothing in it, until it ends. Ports of kernel interfaces that it
/// opens, and what it [receives](Kernel::listen), are there. False where that is not allowed: it is root's.
pub fn own_network() -> bool {
    // SAFETY: it takes flags alone, and leaves memory as it is.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

/// Gives the calling thread [such a network](own_network) with a veth in it, `port0` and `host0`, that is up. The
/// kernel sends nothing of its own by it: it has no address to announce. False where that is not allowed.
pub fn own_veth() -> bool {
    if !own_network() {
        return false;
    }
    run("ip link add port0 type veth peer name host0");
    for end in ["port0", "host0"] {
        run(&format!("ip link set {end} addrgenmode none"));
        run(&format!("ip link set {end} up"));
    }
    true
}

/// Does what a command of space separated words does.
///
/// # Panics
///
/// When it fails, with what it says.
pub fn run(command: &str) {
    let mut words = command.split(' ');
    let out = Command::new(words.next().unwrap_or_default())
        .args(words)
        .output();
    let out = out.unwrap_or_else(|error| panic!("{command}: {error}"));
    assert!(
        out.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// The kernel's side of an interface: what came in by it, and what it sends.
pub struct Kernel(OwnedFd);

impl Kernel {
    /// Receives the frames of an interface of the calling thread's network from now on.
    ///
    /// # Errors
    ///
    /// The kernel's, when there is no such interface or it may not be read.
    pub fn listen(interface: &str) -> io::Result<Kernel> {
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: it takes numbers alone.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and no other owner has it.
        let kernel = Kernel(unsafe { OwnedFd::from_raw_fd(fd) });
        let name = CString::new(interface)?;
        // SAFETY: the name is a string with its end.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        // SAFETY: the structure is of integers only, for which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index as i32;
        let length = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the address lives through the call and is as long as is said.
        let bound = unsafe { libc::bind(fd, (&raw const address).cast(), length) };
        if index == 0 || bound < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(kernel)
    }

    /// Sends a frame by the interface.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the buffer is as long as is said, and lives through the call.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// The next frame, from its Ethernet header on; `None` when none has come for `wait`.
    pub fn frame(&mut self, wait: Duration) -> Option<Vec<u8>> {
        let mut wanted = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut frame = vec![0; 65_536];
        // SAFETY: one structure is said and given.
        let ready = unsafe { libc::poll(&mut wanted, 1, wait.as_millis() as i32) };
        if ready != 1 {
            return None;
        }
        // SAFETY: the buffer is as long as is said, and lives through the call.
        let octets = unsafe { libc::recv(wanted.fd, frame.as_mut_ptr().cast(), frame.len(), 0) };
        frame.truncate(usize::try_from(octets).ok()?);
        Some(frame)
    }
}
