//! The kernel sockets under `net_af_xdp`: a thread can wait for them where the driver has no receive interrupts (DPDK
//! 22.11: `rte_eth_dev_rx_intr_ctl_q_get_fd` knows none of its).
//!
//! The driver does not report its sockets. They are found among the files of this process by what the kernel says of
//! them, and stay the driver's: nothing is read from them, and only their port closes them. Packet sockets are our
//! own, and known by [`RxQueue::fds`](crate::RxQueue::fds).

use std::io;
use std::mem::size_of;
use std::os::fd::RawFd;

use crate::burst::BURST_MAX;

/// The most packets that one call of the kernel sends (`XDP_MAX_TX_SKB_BUDGET`, kernel 6.17).
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// The AF_XDP sockets of started ports, by number. The kernel does not report of which interface each is.
///
/// # Errors
/// When `/proc` is not there.
pub fn xdp_sockets() -> io::Result<Vec<RawFd>> {
    let mut sockets = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let fd = name.to_str().and_then(|name| name.parse().ok());
        sockets.extend(fd.filter(|fd| is_xdp(*fd)));
    }
    sockets.sort_unstable();
    Ok(sockets)
}

/// Lets one call of the kernel send a whole burst by AF_XDP: it stops behind 32 packets otherwise, and the driver has
/// to call again. Older kernels do not know.
pub(crate) fn send_whole_bursts() {
    let most = BURST_MAX as libc::c_uint;
    for fd in xdp_sockets().unwrap_or_default() {
        let length = size_of::<libc::c_uint>() as libc::socklen_t;
        // SAFETY: the number lives through the call and is as long as is said.
        unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_XDP,
                XDP_MAX_TX_SKB_BUDGET,
                (&raw const most).cast(),
                length,
            )
        };
    }
}

/// Takes the error that waits at a socket, as of a packet socket whose interface was set down. Does nothing to other
/// files.
pub fn clear_error(fd: RawFd) {
    let _ = option(fd, libc::SO_ERROR);
}

/// Whether a number is that of an AF_XDP socket.
fn is_xdp(fd: RawFd) -> bool {
    option(fd, libc::SO_DOMAIN) == Some(libc::AF_XDP)
}

/// A number that a socket tells.
fn option(fd: RawFd, name: libc::c_int) -> Option<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` and `length` are valid for writes, and `length` is the size of `value`. A number that is no
    // socket's, or no file's, is an error of the call.
    let code = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    (code == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use super::*;

    #[test]
    fn sockets_of_xdp_are_found_and_no_other_files() {
        // SAFETY: the call takes no memory.
        let made = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW, 0) };
        // SAFETY: the number was just made and has no other owner.
        let xdp = (made >= 0).then(|| unsafe { OwnedFd::from_raw_fd(made) });
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let others = [udp.as_raw_fd(), one.as_raw_fd(), 0, -1];
        assert!(others.iter().all(|fd| !is_xdp(*fd)));
        let found = xdp_sockets().unwrap();
        assert!(found.iter().all(|fd| !others.contains(fd)));
        // Without the right to open one there is none to find.
        assert!(xdp.iter().all(|xdp| found.contains(&xdp.as_raw_fd())));
    }
}
