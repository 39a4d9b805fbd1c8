//! N4 on UDP sockets of the kernel, one for each local address: a response leaves from the address that the request
//! reached (TS 29.244 §4.2.2).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use flow::Nanos;
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

use crate::config::Prefix;
use crate::upf::Control;

/// Datagrams taken from one socket before the rest of the program has its turn. What comes in meanwhile lies in the
/// system's buffer, of which a large message takes two kilobytes.
const DATAGRAMS_PER_TURN: usize = 256;
/// Octets that the system is asked to keep for each socket. It gives `net.core.rmem_max` at most, unless the process
/// may administer the network.
const RECEIVE_BUFFER: usize = 8 << 20;
/// The largest UDP payload.
const LARGEST: usize = 65_535;

struct Socket {
    socket: UdpSocket,
    address: SocketAddr,
}

/// The N4 sockets.
pub struct Sockets {
    poll: Poll,
    events: Events,
    sockets: Vec<Socket>,
    /// Whom datagrams are taken from; empty: anyone.
    peers: Vec<Prefix>,
    buffer: Box<[u8]>,
}

impl Sockets {
    /// Opens a socket on `port` of every address, for datagrams from `peers`; with none, from anyone. Port 0 is any that
    /// is free.
    ///
    /// # Errors
    /// The first address that cannot be bound, in the system's words.
    pub fn open(addresses: impl Iterator<Item = IpAddr>, port: u16, peers: Vec<Prefix>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut sockets = Vec::new();
        for (place, ip) in addresses.enumerate() {
            let address = SocketAddr::new(ip, port);
            let named = |error: io::Error| io::Error::new(error.kind(), format!("N4 on {address}: {error}"));
            let mut socket = UdpSocket::bind(address).map_err(named)?;
            widen(&socket);
            let address = socket.local_addr().map_err(named)?;
            poll.registry()
                .register(&mut socket, Token(place), Interest::READABLE)
                .map_err(named)?;
            sockets.push(Socket { socket, address });
        }
        let buffer = vec![0; LARGEST].into_boxed_slice();
        Ok(Self {
            poll,
            events: Events::with_capacity(16),
            sockets,
            peers,
            buffer,
        })
    }

    /// Where datagrams are received.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.sockets.iter().map(|socket| socket.address)
    }

    /// Waits until a datagram is there or the time is over.
    ///
    /// # Errors
    /// The system's, but for an interruption by a signal.
    pub fn wait(&mut self, most: Duration) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(most)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Hands waiting datagrams to `control`; tells whether there were any.
    pub fn receive(&mut self, control: &mut Control, now: Nanos) -> bool {
        let mut any = false;
        for Socket { socket, address } in &mut self.sockets {
            for _ in 0..DATAGRAMS_PER_TURN {
                // An error here is one that an earlier datagram of ours met (a closed port): not this one's.
                match socket.recv_from(&mut self.buffer) {
                    Ok((_, from)) if !is_peer(&self.peers, from.ip()) => continue,
                    Ok((length, from)) => control.receive(now, from, *address, &self.buffer[..length]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => continue,
                }
                any = true;
            }
        }
        any
    }

    /// Sends what `control` has to send. A datagram that the system refuses is lost, as in the network: PFCP repeats.
    pub fn transmit(&mut self, control: &mut Control) {
        while let Some(datagram) = control.poll_transmit() {
            let from = self
                .sockets
                .iter()
                .find(|socket| socket.address == datagram.from)
                .or(self.sockets.first());
            if let Some(from) = from {
                let _ = from.socket.send_to(&datagram.bytes, datagram.to);
            }
        }
    }
}

/// Asks for a large receive buffer: what does not fit is lost before anybody can tell a heartbeat from a flood. With the
/// system's default N4 works as well, but bursts of more than a hundred large requests lose some.
fn widen(socket: &UdpSocket) {
    if set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER).is_err() {
        let _ = set_socket_recv_buffer_size(socket, RECEIVE_BUFFER);
    }
}

fn is_peer(peers: &[Prefix], from: IpAddr) -> bool {
    peers.is_empty() || peers.iter().any(|prefix| prefix.contains(from))
}
