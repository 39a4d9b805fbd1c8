//! UDP sockets that do not block.

use super::Error;
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Most datagrams taken from one socket before the others have their turn.
pub(super) const RECEIVE_MOST: usize = 256;
/// Longest datagram.
pub(super) const LONGEST: usize = 65_535;

/// A socket at this address.
pub(super) fn bind(address: SocketAddr) -> Result<UdpSocket, Error> {
    let socket = UdpSocket::bind(address).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    socket.map_err(|error| Error::Bind { address, error })
}

/// The next datagram, if there is one. An ICMP error that came back for an earlier one is not an error of this
/// socket: it is skipped.
pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
    match socket.recv_from(buffer) {
        Ok(received) => Ok(Some(received)),
        Err(error) if is_passing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends a datagram; false when there is no room now.
pub(super) fn send(socket: &UdpSocket, datagram: &[u8], to: SocketAddr) -> io::Result<bool> {
    match socket.send_to(datagram, to) {
        Ok(_) => Ok(true),
        Err(error) if is_passing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable, WouldBlock,
    };
    // ENOBUFS, when a link's queue is full, has no kind of its own.
    let no_buffers = error.raw_os_error() == Some(105);
    let passing = [
        ConnectionRefused,
        ConnectionReset,
        HostUnreachable,
        Interrupted,
        NetworkUnreachable,
        WouldBlock,
    ];
    no_buffers || passing.contains(&error.kind())
}
