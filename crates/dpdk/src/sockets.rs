//! The kernel sockets under `net_af_packet` and `net_af_xdp`: a thread can wait for them where the drivers have no
//! receive interrupts (DPDK 22.11: `rte_eth_dev_rx_intr_ctl_q_get_fd` knows neither).
//!
//! The drivers do not tell their sockets. They are found among the files of this process by what the kernel says of
//! them, and stay the drivers': nothing is read from them, and nobody but their port closes them.

use std::io;
use std::mem::size_of;
use std::os::fd::RawFd;

/// What a socket receives from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// A packet socket with a ring in memory (TPACKET_V2) on the interface with this index.
    Packet(u32),
    /// An AF_XDP socket. The kernel does not tell a process of which interface.
    Xdp,
}

/// A socket of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSocket {
    /// Its number in this process.
    pub fd: RawFd,
    /// What it receives from.
    pub kind: SocketKind,
}

/// The sockets of started ports, by number: those of one port in the order of its queues.
///
/// # Errors
/// When `/proc` is not there.
pub fn port_sockets() -> io::Result<Vec<PortSocket>> {
    let mut sockets = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let Some(fd) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        sockets.extend(kind(fd).map(|kind| PortSocket { fd, kind }));
    }
    sockets.sort_unstable_by_key(|socket| socket.fd);
    Ok(sockets)
}

fn kind(fd: RawFd) -> Option<SocketKind> {
    match option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)? {
        libc::AF_XDP => Some(SocketKind::Xdp),
        libc::AF_PACKET => {
            let version = option(fd, libc::SOL_PACKET, libc::PACKET_VERSION)?;
            let is_of_driver = version == libc::tpacket_versions::TPACKET_V2 as libc::c_int;
            is_of_driver.then(|| Some(SocketKind::Packet(interface(fd)?)))?
        }
        _ => None,
    }
}

/// A number that the kernel says of a socket; nothing when it is none.
fn option(fd: RawFd, level: libc::c_int, name: libc::c_int) -> Option<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` and `length` are valid for writes, and `length` is the size of `value`. A number that is no
    // socket's, or no file's, is an error of the call.
    let code = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut length) };
    (code == 0).then_some(value)
}

/// The interface that a packet socket is bound to.
fn interface(fd: RawFd) -> Option<u32> {
    // SAFETY: a `sockaddr_ll` is numbers and octets: all of them may be 0.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` and `length` are valid for writes, and `length` is the size of `address`.
    let code = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut length) };
    let is_bound = code == 0 && address.sll_ifindex > 0;
    is_bound.then(|| address.sll_ifindex.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_not_taken_for_sockets_of_ports() {
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let files = [
            std::os::fd::AsRawFd::as_raw_fd(&udp),
            std::os::fd::AsRawFd::as_raw_fd(&one),
            0,
            -1,
        ];
        assert!(files.iter().all(|fd| kind(*fd).is_none()));
        let found = port_sockets().unwrap();
        assert!(found.iter().all(|socket| !files.contains(&socket.fd)));
    }
}
