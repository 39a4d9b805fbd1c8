//! N4 on UDP sockets of the kernel, one for each local address: a response leaves from the address that the request
//! reached (TS 29.244 §4.2.2).
//!
//! Datagrams of one turn that have the same length and peer are sent by one system call, which the kernel segments into
//! datagrams (UDP GSO, `UDP_SEGMENT`): one pass through the network stack for all of them. Datagrams are received one
//! by one: reception is a small part of their cost.

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use flow::Nanos;
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use n4::Transmit;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{BindToDevice, UdpGsoSegment};
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use smallvec::SmallVec;

use super::wakeup::Wakeup;
use upf::Control;

/// Most datagrams received from one socket per turn of control. Later ones wait in the socket's buffer, where a large
/// message takes two kilobytes.
const DATAGRAMS_PER_TURN: usize = 256;
/// Requested receive buffer of each socket, octets: what comes while the thread has no core waits there. The kernel
/// allows twice as much, of which a request of a kilobyte takes 2,304 octets on loopback, and 4,096 and more from some
/// NICs: 25,000 a second have room for 300 ms and more. It grants at most `net.core.rmem_max`, unless the process has
/// CAP_NET_ADMIN.
const RECEIVE_BUFFER: usize = 16 << 20;
/// The largest UDP payload.
const LARGEST: usize = 65_535;

/// Datagrams that are sorted by peer at a time.
const SORTED: usize = 1_024;
/// Most datagrams of one GSO send: every kernel accepts that.
const SEGMENTS: usize = 64;
/// Longest datagram of a GSO send. The kernel does not fragment its segments, so they must fit any common MTU.
const SEGMENT: usize = 1_400;
/// Most octets of one GSO send.
const GSO_OCTETS: usize = 65_000;
/// Sends without GSO after a refusal, until GSO is tried again.
const GSO_BACKOFF: u32 = 1_024;

struct Socket {
    socket: UdpSocket,
    address: SocketAddr,
    /// Whether the kernel supports UDP GSO.
    has_gso: bool,
    /// Sends without GSO until it is tried again.
    gso_backoff: u32,
}

impl Socket {
    fn new(socket: UdpSocket, address: SocketAddr) -> Self {
        // GSO is off by default; setting 0 fails on a kernel without it, which would send one long datagram.
        let has_gso = setsockopt(&socket, UdpGsoSegment, &0).is_ok();
        Self {
            socket,
            address,
            has_gso,
            gso_backoff: 0,
        }
    }

    /// Sends datagrams of the same length to one peer. Datagrams that the kernel refuses are lost; PFCP retransmits.
    fn send(&mut self, alike: &[Transmit]) {
        let length = alike.first().map_or(0, |one| one.bytes.len());
        if !(1..=SEGMENT).contains(&length) {
            return self.send_each(alike);
        }
        for batch in alike.chunks(SEGMENTS.min(GSO_OCTETS / length)) {
            let is_sent = batch.len() > 1 && self.may_use_gso() && self.send_gso(batch, length as u16);
            if !is_sent {
                self.send_each(batch);
            }
        }
    }

    fn send_each(&self, datagrams: &[Transmit]) {
        for one in datagrams {
            let _ = self.socket.send_to(&one.bytes, one.to);
        }
    }

    /// Whether GSO is tried.
    fn may_use_gso(&mut self) -> bool {
        let is_off = self.gso_backoff > 0;
        self.gso_backoff = self.gso_backoff.saturating_sub(1);
        self.has_gso && !is_off
    }

    /// Sends datagrams of `length` octets to one peer by GSO, or none of them: some links and routes do not support it.
    fn send_gso(&mut self, batch: &[Transmit], length: u16) -> bool {
        let octets: SmallVec<[IoSlice<'_>; SEGMENTS]> =
            batch.iter().map(|one| IoSlice::new(&one.bytes)).collect();
        let to = batch.first().map(|one| SockaddrStorage::from(one.to));
        let segmentation = [ControlMessage::UdpGsoSegments(&length)];
        let fd = self.socket.as_raw_fd();
        let sent = sendmsg(fd, &octets, &segmentation, MsgFlags::empty(), to.as_ref());
        if let Err(Errno::EINVAL | Errno::EIO | Errno::EMSGSIZE | Errno::EOPNOTSUPP) = sent {
            self.gso_backoff = GSO_BACKOFF;
        }
        sent.is_ok()
    }
}

/// Whether two datagrams can be sent by one GSO send.
fn are_alike(one: &Transmit, other: &Transmit) -> bool {
    (one.from, one.to, one.bytes.len()) == (other.from, other.to, other.bytes.len())
}

/// The N4 sockets.
pub struct Sockets {
    poll: Poll,
    events: Events,
    sockets: Vec<Socket>,
    buffer: Box<[u8]>,
    /// Datagrams that are being sent.
    outgoing: Vec<Transmit>,
}

impl Sockets {
    /// Opens a socket on `port` of every address. Port 0 is any free port. Control filters the senders.
    ///
    /// # Errors
    /// The error of the first address that cannot be bound.
    pub fn open(addresses: impl Iterator<Item = IpAddr>, port: u16) -> io::Result<Self> {
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
            sockets.push(Socket::new(socket, address));
        }
        let buffer = vec![0; LARGEST].into_boxed_slice();
        Ok(Self {
            poll,
            events: Events::with_capacity(16),
            sockets,
            buffer,
            outgoing: Vec::with_capacity(SORTED),
        })
    }

    /// What wakes a thread that [waits](Self::wait).
    ///
    /// # Errors
    /// When the system has no file left.
    pub fn wakeup(&self) -> io::Result<Wakeup> {
        Wakeup::new(self.poll.registry())
    }

    /// Binds the sockets to a device of the host (an interface or a VRF): they receive by that device only.
    ///
    /// # Errors
    /// The system's, when there is none of this name, or with CAP_NET_RAW missing.
    pub fn bound_to_device(mut self, device: &str) -> io::Result<Self> {
        let name = OsString::from(device);
        for Socket { socket, address, .. } in &mut self.sockets {
            let named = |error: Errno| {
                let error = io::Error::from(error);
                io::Error::new(
                    error.kind(),
                    format!("N4 on {address}, device `{device}`: {error}"),
                )
            };
            setsockopt(socket, BindToDevice, &name).map_err(named)?;
            // Datagrams that were received by other devices before.
            while socket.recv_from(&mut self.buffer).is_ok() {}
        }
        Ok(self)
    }

    /// The local addresses of the sockets.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.sockets.iter().map(|socket| socket.address)
    }

    /// Waits until a datagram is received, a wake-up, or `most` is over.
    ///
    /// # Errors
    /// The system's, but for an interruption by a signal.
    pub fn wait(&mut self, most: Duration) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(most)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Passes received datagrams to `control`. Returns whether there were any.
    pub fn receive(&mut self, control: &mut Control, now: Nanos) -> bool {
        let mut any = false;
        for Socket { socket, address, .. } in &mut self.sockets {
            for _ in 0..DATAGRAMS_PER_TURN {
                // An error here belongs to a datagram that was sent before (a closed port).
                match socket.recv_from(&mut self.buffer) {
                    Ok((length, from)) => control.receive(now, from, *address, &self.buffer[..length]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => continue,
                }
                any = true;
            }
        }
        any
    }

    /// Sends the datagrams of `control`. The order of datagrams to one peer is kept. Datagrams that the kernel refuses
    /// are lost; PFCP retransmits.
    pub fn transmit(&mut self, control: &mut Control) {
        self.send_all(std::iter::from_fn(|| control.poll_transmit()));
    }

    fn send_all(&mut self, mut datagrams: impl Iterator<Item = Transmit>) {
        loop {
            self.outgoing.extend(datagrams.by_ref().take(SORTED));
            if self.outgoing.is_empty() {
                return;
            }
            self.outgoing.sort_by_key(|one| (one.from, one.to));
            for alike in self.outgoing.chunk_by(are_alike) {
                let from = alike.first().map(|one| one.from);
                let place = self.sockets.iter().position(|own| Some(own.address) == from);
                if let Some(socket) = self.sockets.get_mut(place.unwrap_or(0)) {
                    socket.send(alike);
                }
            }
            self.outgoing.clear();
        }
    }
}

/// Requests a large receive buffer: datagrams that do not fit are lost before heartbeats can be preferred. With the
/// default size bursts of more than a hundred large requests lose some.
fn widen(socket: &UdpSocket) {
    if set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER).is_err() {
        let _ = set_socket_recv_buffer_size(socket, RECEIVE_BUFFER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::net::UdpSocket as Plain;
    use std::sync::Arc;

    const LOCALHOST: [IpAddr; 2] = [
        IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
    ];

    fn smf(address: IpAddr) -> Plain {
        let socket = Plain::bind((address, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    /// Received datagrams with their source.
    fn received(socket: &Plain) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut room = vec![0; LARGEST];
        let mut all = Vec::new();
        while let Ok((length, from)) = socket.recv_from(&mut room) {
            all.push((from, room[..length].to_vec()));
        }
        all
    }

    fn datagram(from: SocketAddr, to: SocketAddr, length: usize, number: u32) -> Transmit {
        let mut octets = vec![number as u8; length];
        octets[..4].copy_from_slice(&number.to_be_bytes());
        Transmit {
            from,
            to,
            bytes: Arc::from(octets),
        }
    }

    /// Sends datagrams of several lengths to several SMFs in turn, with others among them that no receiver can have,
    /// and looks at what has come where.
    fn exchange(gso_backoff: u32, has_gso: impl Fn(bool) -> bool) -> Vec<u32> {
        let mut sockets = Sockets::open(LOCALHOST.into_iter(), 0).unwrap();
        for socket in &mut sockets.sockets {
            (socket.gso_backoff, socket.has_gso) = (gso_backoff, has_gso(socket.has_gso));
        }
        let own: Vec<_> = sockets.addresses().collect();
        let smfs = [smf(LOCALHOST[0]), smf(LOCALHOST[1]), smf(LOCALHOST[0])];
        let closed = smf(LOCALHOST[0]).local_addr().unwrap();
        let mut expected = BTreeMap::new();
        let mut all = Vec::new();
        for number in 0..240 {
            let place = number as usize % smfs.len();
            let from = own[usize::from(place == 1)];
            let length = match number {
                0..120 => 100,
                // The first that are too long for a GSO send, and longer than common MTUs.
                120..132 => SEGMENT + 1,
                132..135 => 9_000,
                _ => 40 + number as usize % 7,
            };
            let one = datagram(from, smfs[place].local_addr().unwrap(), length, number);
            expected
                .entry(place)
                .or_insert_with(Vec::new)
                .push((from, one.bytes.to_vec()));
            all.push(one);
            if number % 50 < 3 {
                // No listener; no route; a port that does not exist.
                let nowhere = [
                    closed,
                    "203.0.113.255:0".parse().unwrap(),
                    "127.0.0.1:0".parse().unwrap(),
                ];
                all.push(datagram(own[0], nowhere[number as usize % 50], 100, number));
            }
        }
        sockets.send_all(all.into_iter());
        for (place, expected) in expected {
            assert_eq!(received(&smfs[place]), expected, "of SMF {place}, in order");
        }
        sockets.sockets.iter().map(|socket| socket.gso_backoff).collect()
    }

    #[test]
    fn every_peer_gets_its_datagrams_in_order_whatever_becomes_of_the_others() {
        exchange(0, |knows| knows);
    }

    #[test]
    fn without_segmentation_they_go_one_by_one() {
        exchange(0, |_| false);
    }

    #[test]
    fn datagrams_of_a_refused_gso_send_go_one_by_one_and_gso_is_tried_again_later() {
        let mut sockets = Sockets::open([LOCALHOST[0]].into_iter(), 0).unwrap();
        let from = sockets.addresses().next().unwrap();
        let (smf, nowhere) = (smf(LOCALHOST[0]), "127.0.0.1:0".parse().unwrap());
        // The system sends nothing to port 0: it refuses GSO sends as well.
        sockets.send_all((0..8).map(|number| datagram(from, nowhere, 60, number)));
        if !sockets.sockets[0].has_gso {
            return;
        }
        let to = smf.local_addr().unwrap();
        assert_eq!(sockets.sockets[0].gso_backoff, GSO_BACKOFF);
        for round in 0..=GSO_BACKOFF {
            sockets.send_all((0..2).map(|number| datagram(from, to, 60, number)));
            assert_eq!(received(&smf).len(), 2);
            assert_eq!(
                sockets.sockets[0].gso_backoff,
                (GSO_BACKOFF - 1).saturating_sub(round)
            );
        }
        exchange(3, |knows| knows);
    }

    #[test]
    fn the_kernel_cuts_pieces() {
        let mut sockets = Sockets::open(LOCALHOST.into_iter(), 0).unwrap();
        let own: Vec<_> = sockets.addresses().collect();
        for (place, address) in LOCALHOST.into_iter().enumerate() {
            let smf = smf(address);
            let to = smf.local_addr().unwrap();
            let batch: Vec<_> = (0..5)
                .map(|number| datagram(own[place], to, 120, number))
                .collect();
            let socket = &mut sockets.sockets[place];
            if socket.has_gso {
                assert!(socket.send_gso(&batch, 120), "by {address}");
                let expected = batch.iter().map(|one| (own[place], one.bytes.to_vec()));
                assert_eq!(received(&smf), expected.collect::<Vec<_>>());
            }
        }
    }
}
