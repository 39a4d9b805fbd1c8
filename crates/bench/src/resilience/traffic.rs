//! Traffic of the active sessions, both ways, by UDP sockets of the kernel: one thread sends at a set rate, one
//! receives and notes what came for which session.

use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::super::error::BenchError;
use super::super::rules::Identity;
use super::frames::{Arrival, Stamp, UE_PORT, Way, at_dn, at_gnb, g_pdu};
use super::links::{DN, N3};

/// The port of GTP-U.
const GTP_U: u16 = 2_152;
const SERVER: SocketAddrV4 = SocketAddrV4::new(DN, 9_000);
/// Time for which a thread without work leaves its core.
const REST: Duration = Duration::from_micros(50);
/// What a sender that was away makes up for at most.
const MOST_BEHIND: Duration = Duration::from_millis(5);
/// Time for packets that are under way when sending ends.
const DRAIN: Duration = Duration::from_millis(300);
/// Packets that are read of a socket before the other one's turn.
const TURN: usize = 64;

/// What both threads and the one that waits for them know.
#[derive(Debug)]
struct Shared {
    no_more: AtomicBool,
    stop: AtomicBool,
    /// When the daemon was killed, nanoseconds since the start; [`u64::MAX`]: it was not.
    killed: AtomicU64,
    /// Sessions of which a packet was forwarded that was sent after the kill.
    back: AtomicU64,
}

/// Traffic that runs.
pub struct Traffic {
    epoch: Instant,
    shared: Arc<Shared>,
    sender: JoinHandle<Sent>,
    receiver: JoinHandle<Received>,
}

/// What was sent.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Packets by number of the session.
    pub by_session: Vec<u64>,
    /// Packets that the kernel did not take.
    pub refused: u64,
}

/// What has arrived.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Packets by number of the session.
    pub by_session: Vec<u64>,
    /// When the first packet that was sent after the kill arrived, nanoseconds after the kill, by number of the
    /// session.
    pub first: Vec<Option<u64>>,
    /// Packets in a wrong place.
    pub wrong: u64,
    /// Error Indications.
    pub error_indications: u64,
}

/// Numbers of packets.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// What was sent.
    pub sent: Sent,
    /// What has arrived.
    pub received: Received,
}

impl Traffic {
    /// Starts packets of sessions 0 and up, `rate` a second, of each session in turn and both ways.
    ///
    /// # Errors
    /// An address that cannot be bound.
    pub fn start(users: Arc<[Identity]>, rate: f64) -> Result<Self, BenchError> {
        let bound = |address: SocketAddrV4| {
            let named = |error| BenchError(format!("UDP at {address}: {error}"));
            let socket = UdpSocket::bind(address).map_err(named)?;
            socket.set_nonblocking(true).map_err(named)?;
            Ok::<_, BenchError>(socket)
        };
        let gnb = bound(SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, GTP_U))?;
        let dn = bound(SERVER)?;
        let (gnb_in, dn_in) = (gnb.try_clone(), dn.try_clone());
        let (gnb_in, dn_in) = (gnb_in.map_err(BenchError::of)?, dn_in.map_err(BenchError::of)?);
        let shared = Arc::new(Shared {
            no_more: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            killed: AtomicU64::new(u64::MAX),
            back: AtomicU64::new(0),
        });
        let (epoch, sessions) = (Instant::now(), users.len());
        let (of_sender, of_receiver) = (Arc::clone(&shared), Arc::clone(&shared));
        Ok(Self {
            epoch,
            shared,
            sender: thread::spawn(move || send(&users, rate, epoch, [&gnb, &dn], &of_sender)),
            receiver: thread::spawn(move || receive(sessions, epoch, [&gnb_in, &dn_in], &of_receiver)),
        })
    }

    /// From now on it is noted when packets of a session are forwarded again, of those that are sent from now on.
    pub fn note_kill(&self, when: Instant) {
        let nanos = when.saturating_duration_since(self.epoch).as_nanos() as u64;
        self.shared.killed.store(nanos, Ordering::Relaxed);
    }

    /// Sessions of which a packet was forwarded that was sent after the kill.
    #[must_use]
    pub fn back(&self) -> u64 {
        self.shared.back.load(Ordering::Relaxed)
    }

    /// Ends it, and waits for what is under way.
    ///
    /// # Errors
    /// A thread panicked.
    pub fn end(self) -> Result<Tally, BenchError> {
        let panicked = |_| BenchError("a thread of the traffic panicked".into());
        self.shared.no_more.store(true, Ordering::Relaxed);
        let sent = self.sender.join().map_err(panicked)?;
        thread::sleep(DRAIN);
        self.shared.stop.store(true, Ordering::Relaxed);
        let received = self.receiver.join().map_err(panicked)?;
        Ok(Tally { sent, received })
    }
}

/// The session and the way of a packet: each session in turn, and each way in turn.
const fn turn(packet: u64, sessions: u64) -> (u32, Way) {
    let (session, round) = (packet % sessions, packet / sessions);
    let way = if (session + round).is_multiple_of(2) {
        Way::Up
    } else {
        Way::Down
    };
    (session as u32, way)
}

fn send(users: &[Identity], rate: f64, epoch: Instant, [gnb, dn]: [&UdpSocket; 2], shared: &Shared) -> Sent {
    let mut sent = Sent {
        by_session: vec![0; users.len()],
        refused: 0,
    };
    let gap = Duration::from_secs_f64(1.0 / rate);
    let (mut due, mut packet) = (Instant::now(), 0);
    while !shared.no_more.load(Ordering::Relaxed) {
        let now = Instant::now();
        if now < due {
            thread::sleep(REST);
            continue;
        }
        due = due.max(now.checked_sub(MOST_BEHIND).unwrap_or(now)) + gap;
        let (session, way) = turn(packet, users.len() as u64);
        packet += 1;
        let stamp = Stamp {
            session,
            way,
            sent: epoch.elapsed().as_nanos() as u64,
        };
        let Identity { ue, teid } = users[session as usize];
        let done = match way {
            Way::Up => gnb.send_to(&g_pdu(teid, ue, SERVER, &stamp), (N3, GTP_U)),
            Way::Down => dn.send_to(&stamp.payload(), (ue, UE_PORT)),
        };
        match done {
            Ok(_) => sent.by_session[session as usize] += 1,
            Err(_) => sent.refused += 1,
        }
    }
    sent
}

fn receive(sessions: usize, epoch: Instant, [gnb, dn]: [&UdpSocket; 2], shared: &Shared) -> Received {
    let mut received = Received {
        by_session: vec![0; sessions],
        first: vec![None; sessions],
        ..Received::default()
    };
    let mut buffer = [0; 2_048];
    while !shared.stop.load(Ordering::Relaxed) {
        let mut any = false;
        for socket in [gnb, dn] {
            for _ in 0..TURN {
                let Ok((length, SocketAddr::V4(source))) = socket.recv_from(&mut buffer) else {
                    break;
                };
                any = true;
                let octets = &buffer[..length];
                let is_gnb = std::ptr::eq(socket, gnb);
                let arrival = if is_gnb {
                    at_gnb(octets)
                } else {
                    at_dn(octets, source)
                };
                note(&mut received, arrival, epoch.elapsed().as_nanos() as u64, shared);
            }
        }
        if !any {
            thread::sleep(REST);
        }
    }
    received
}

fn note(received: &mut Received, arrival: Arrival, now: u64, shared: &Shared) {
    match arrival {
        Arrival::Other => {}
        Arrival::Wrong => received.wrong += 1,
        Arrival::ErrorIndication => received.error_indications += 1,
        Arrival::Right(stamp) => {
            let number = stamp.session as usize;
            let Some(packets) = received.by_session.get_mut(number) else {
                received.wrong += 1;
                return;
            };
            *packets += 1;
            let killed = shared.killed.load(Ordering::Relaxed);
            if stamp.sent > killed && received.first[number].is_none() {
                received.first[number] = Some(now - killed);
                shared.back.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_has_its_turn_and_each_way_its_own() {
        let packets: Vec<_> = (0..6).map(|packet| turn(packet, 3)).collect();
        let (up, down) = (Way::Up, Way::Down);
        assert_eq!(
            packets,
            [(0, up), (1, down), (2, up), (0, down), (1, up), (2, down)]
        );
    }

    #[test]
    fn only_packets_that_were_sent_after_the_kill_show_a_session_that_is_back() {
        let shared = Shared {
            no_more: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            killed: AtomicU64::new(100),
            back: AtomicU64::new(0),
        };
        let mut received = Received {
            by_session: vec![0; 2],
            first: vec![None; 2],
            ..Received::default()
        };
        let right = |session, sent| {
            Arrival::Right(Stamp {
                session,
                way: Way::Up,
                sent,
            })
        };
        note(&mut received, right(0, 99), 120, &shared);
        assert_eq!(
            (&received.first[..], shared.back.load(Ordering::Relaxed)),
            (&[None, None][..], 0)
        );
        note(&mut received, right(0, 101), 130, &shared);
        note(&mut received, right(0, 105), 140, &shared);
        note(&mut received, right(2, 105), 140, &shared);
        assert_eq!(
            (received.first, received.by_session),
            (vec![Some(30), None], vec![3, 0])
        );
        assert_eq!((shared.back.load(Ordering::Relaxed), received.wrong), (1, 1));
    }
}
