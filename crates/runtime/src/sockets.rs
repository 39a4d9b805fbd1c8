//! N4 on UDP sockets of the kernel, one for each local address: a response leaves from the address that the request
//! reached (TS 29.244 §4.2.2).
//!
//! Answers of one turn that are equally long and for one peer go to the kernel as one piece, which it cuts into
//! datagrams again (UDP segmentation, `UDP_SEGMENT`): what a datagram costs on its way down is then paid once for all.
//! Datagrams come in one by one: that is a small part of what they cost, and they lie in no order.

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

/// Datagrams taken from one socket before the rest of the program has its turn. What comes in meanwhile lies in the
/// system's buffer, of which a large message takes two kilobytes.
const DATAGRAMS_PER_TURN: usize = 256;
/// Octets that the system is asked to keep for each socket. It gives `net.core.rmem_max` at most, unless the process
/// may administer the network.
const RECEIVE_BUFFER: usize = 8 << 20;
/// The largest UDP payload.
const LARGEST: usize = 65_535;

/// Datagrams that are sorted by their peers at a time.
const SORTED: usize = 1_024;
/// Datagrams in one piece: what every kernel takes.
const SEGMENTS: usize = 64;
/// Octets of a datagram in a piece. A piece is not fragmented, so that each must fit in a packet of any usual link.
const SEGMENT: usize = 1_400;
/// Octets of a piece.
const PIECE: usize = 65_000;
/// Pieces that go one by one after one was refused, before the system is asked again.
const PATIENCE: u32 = 1_024;

struct Socket {
    socket: UdpSocket,
    address: SocketAddr,
    /// Whether the kernel knows of pieces.
    cuts: bool,
    /// How many pieces go one by one before the next is tried.
    refused: u32,
}

impl Socket {
    fn new(socket: UdpSocket, address: SocketAddr) -> Self {
        // It is off by default: this asks whether it is known. An old kernel would send a piece as one datagram.
        let cuts = setsockopt(&socket, UdpGsoSegment, &0).is_ok();
        Self {
            socket,
            address,
            cuts,
            refused: 0,
        }
    }

    /// Sends equally long datagrams to one peer. What the system refuses is lost, as in the network: PFCP repeats.
    fn send(&mut self, alike: &[Transmit]) {
        let length = alike.first().map_or(0, |one| one.bytes.len());
        if !(1..=SEGMENT).contains(&length) {
            return self.send_each(alike);
        }
        for piece in alike.chunks(SEGMENTS.min(PIECE / length)) {
            let is_sent = piece.len() > 1 && self.may_cut() && self.send_piece(piece, length as u16);
            if !is_sent {
                self.send_each(piece);
            }
        }
    }

    fn send_each(&self, datagrams: &[Transmit]) {
        for one in datagrams {
            let _ = self.socket.send_to(&one.bytes, one.to);
        }
    }

    /// Whether pieces are tried.
    fn may_cut(&mut self) -> bool {
        let waits = self.refused > 0;
        self.refused = self.refused.saturating_sub(1);
        self.cuts && !waits
    }

    /// Sends datagrams of `length` octets to one peer as one piece, or none of them: links and routes there are for
    /// which the kernel does not cut.
    fn send_piece(&mut self, piece: &[Transmit], length: u16) -> bool {
        let octets: SmallVec<[IoSlice<'_>; SEGMENTS]> =
            piece.iter().map(|one| IoSlice::new(&one.bytes)).collect();
        let to = piece.first().map(|one| SockaddrStorage::from(one.to));
        let cut = [ControlMessage::UdpGsoSegments(&length)];
        let fd = self.socket.as_raw_fd();
        let sent = sendmsg(fd, &octets, &cut, MsgFlags::empty(), to.as_ref());
        if let Err(Errno::EINVAL | Errno::EIO | Errno::EMSGSIZE | Errno::EOPNOTSUPP) = sent {
            self.refused = PATIENCE;
        }
        sent.is_ok()
    }
}

/// Whether two datagrams can be parts of one piece.
fn are_alike(one: &Transmit, other: &Transmit) -> bool {
    (one.from, one.to, one.bytes.len()) == (other.from, other.to, other.bytes.len())
}

/// The N4 sockets.
pub struct Sockets {
    poll: Poll,
    events: Events,
    sockets: Vec<Socket>,
    buffer: Box<[u8]>,
    /// What is being sent.
    outgoing: Vec<Transmit>,
}

impl Sockets {
    /// Opens a socket on `port` of every address. Port 0 is any that is free. Who may speak is Control's to say.
    ///
    /// # Errors
    /// The first address that cannot be bound, in the system's words.
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

    /// The same, which hear nothing but what comes in by this device of the host from now on: an interface, or a VRF.
    ///
    /// # Errors
    /// The system's, when there is none of this name, or with CAP_NET_RAW missing.
    pub fn heard_on(mut self, device: &str) -> io::Result<Self> {
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
            // What has come in by another meanwhile.
            while socket.recv_from(&mut self.buffer).is_ok() {}
        }
        Ok(self)
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
        for Socket { socket, address, .. } in &mut self.sockets {
            for _ in 0..DATAGRAMS_PER_TURN {
                // An error here is one that an earlier datagram of ours met (a closed port): not this one's.
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

    /// Sends what `control` has to send. Datagrams for one peer leave in the order in which control gave them; peers
    /// have no order. One that the system refuses is lost, as in the network: PFCP repeats.
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

/// Asks for a large receive buffer: what does not fit is lost before a heartbeat can be told from a flood. With
/// the system's default N4 works as well, but bursts of more than a hundred large requests lose some.
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

    /// What has come, by whom it came from.
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

    /// Sends datagrams of several lengths to several SMFs in turn, with others among them that nobody can have, and
    /// looks at what has come where.
    fn exchange(refused: u32, cuts: impl Fn(bool) -> bool) -> Vec<u32> {
        let mut sockets = Sockets::open(LOCALHOST.into_iter(), 0).unwrap();
        for socket in &mut sockets.sockets {
            (socket.refused, socket.cuts) = (refused, cuts(socket.cuts));
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
                // The first that are too long for a piece, and more than any usual link takes.
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
                // Nobody listens; no way there; a port that there is not.
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
        sockets.sockets.iter().map(|socket| socket.refused).collect()
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
    fn a_refused_piece_goes_one_by_one_and_pieces_are_tried_again_later() {
        let mut sockets = Sockets::open([LOCALHOST[0]].into_iter(), 0).unwrap();
        let from = sockets.addresses().next().unwrap();
        let (smf, nowhere) = (smf(LOCALHOST[0]), "127.0.0.1:0".parse().unwrap());
        // The system sends nothing to port 0: it refuses the piece.
        sockets.send_all((0..8).map(|number| datagram(from, nowhere, 60, number)));
        if !sockets.sockets[0].cuts {
            return;
        }
        let to = smf.local_addr().unwrap();
        assert_eq!(sockets.sockets[0].refused, PATIENCE);
        for round in 0..=PATIENCE {
            sockets.send_all((0..2).map(|number| datagram(from, to, 60, number)));
            assert_eq!(received(&smf).len(), 2);
            assert_eq!(sockets.sockets[0].refused, (PATIENCE - 1).saturating_sub(round));
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
            let piece: Vec<_> = (0..5)
                .map(|number| datagram(own[place], to, 120, number))
                .collect();
            let socket = &mut sockets.sockets[place];
            if socket.cuts {
                assert!(socket.send_piece(&piece, 120), "by {address}");
                let expected = piece.iter().map(|one| (own[place], one.bytes.to_vec()));
                assert_eq!(received(&smf), expected.collect::<Vec<_>>());
            }
        }
    }
}
