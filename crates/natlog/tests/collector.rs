//! A collector at the other end of a socket: one that is not there, that reads slowly, that goes away.

mod common;

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use common::{BEGIN, assigned, block};
use natlog::ipfix::{Collector, Settings, Transport};

/// How long a test waits for what comes by a socket.
const PATIENCE: Duration = Duration::from_secs(20);

/// A collector with the times that it is given.
struct World {
    collector: Collector,
    start: Instant,
    /// What has passed by these times.
    past: Duration,
    events: u64,
}

impl World {
    fn new(to: SocketAddr, transport: Transport, waiting: usize) -> Self {
        let settings = Settings {
            transport,
            waiting,
            ..Settings::default()
        };
        Self {
            collector: Collector::open(to, settings),
            start: Instant::now(),
            past: Duration::ZERO,
            events: 0,
        }
    }

    /// As many events, of sessions with the next numbers.
    fn push(&mut self, events: u64) {
        for number in self.events..self.events + events {
            self.collector
                .push(&assigned(BEGIN, block(number as u8, 1_024, 9), number));
        }
        self.events += events;
    }

    fn turn(&mut self) {
        self.collector.turn(self.start + self.past, BEGIN);
    }

    fn wait(&mut self, past: Duration) {
        self.past += past;
        self.turn();
    }

    /// Takes turns until `end`, which is given the octets that a stream has had so far.
    fn read(&mut self, stream: &mut Stream, end: impl Fn(&Self, &Stream) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !end(self, stream) {
            assert!(Instant::now() < deadline, "{:?}", self.collector.fault());
            self.turn();
            stream.read();
        }
    }

    /// Takes turns until the systems of both ends have kept all that they may.
    fn fill(&mut self) {
        let mut same = 0;
        while same < 10 {
            let before = self.collector.waiting();
            self.turn();
            same = if before == self.collector.waiting() {
                same + 1
            } else {
                0
            };
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!self.collector.is_idle());
    }

    /// Takes turns until there is a connection.
    fn accept(&mut self, listener: &TcpListener) -> Stream {
        listener.set_nonblocking(true).unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.turn();
            if let Ok((stream, _)) = listener.accept() {
                stream.set_nonblocking(true).unwrap();
                return Stream {
                    stream,
                    octets: Vec::new(),
                };
            }
            assert!(Instant::now() < deadline, "{:?}", self.collector.fault());
        }
    }
}

/// A collector's end of a connection, and what has come by it.
struct Stream {
    stream: TcpStream,
    octets: Vec<u8>,
}

impl Stream {
    fn read(&mut self) {
        let mut octets = [0; 65_536];
        // All that is there: the whole is looked at behind each call.
        loop {
            match self.stream.read(&mut octets) {
                Ok(0) => return,
                Ok(read) => self.octets.extend(&octets[..read]),
                Err(error) => return assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }

    /// The sessions of all records so far, whose messages are whole, in order.
    fn sessions(&self) -> Vec<u64> {
        let (mut rest, mut sessions) = (&self.octets[..], Vec::new());
        while let Some(len) = rest.get(2..4).map(word) {
            let Some((message, behind)) = rest.split_at_checked(len) else {
                break;
            };
            assert_eq!(word(message), 10);
            let sequence = u32::from_be_bytes(message[8..12].try_into().unwrap());
            assert_eq!(sequence as usize, sessions.len());
            let mut sets = &message[16..];
            // The template is in the first message alone.
            let is_first = rest.len() == self.octets.len();
            if is_first {
                assert_eq!(word(sets), 2);
                sets = &sets[word(&sets[2..])..];
            }
            while !sets.is_empty() {
                let (set, behind) = sets.split_at(word(&sets[2..]));
                assert_eq!(word(set), 256);
                sessions.extend(set[4..].chunks_exact(28 + 20).map(session));
                sets = behind;
            }
            rest = behind;
        }
        sessions
    }
}

/// The session of a record: that of its subscriber.
fn session(record: &[u8]) -> u64 {
    let text = std::str::from_utf8(&record[28..]).unwrap();
    let number: u64 = text.strip_prefix("imsi-").unwrap().parse().unwrap();
    number - 1_010_000_000_000
}

fn word(octets: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([octets[0], octets[1]]))
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    (listener, at)
}

#[test]
fn a_connection_has_the_template_once_and_all_events_in_order() {
    let (listener, at) = listener();
    let mut world = World::new(at, Transport::Tcp, 1 << 16);
    let mut stream = world.accept(&listener);
    for _ in 0..10 {
        world.push(500);
        world.wait(Duration::from_hours(1));
    }
    world.read(&mut stream, |world, stream| {
        stream.sessions().len() as u64 == world.events
    });
    assert_eq!(stream.sessions(), (0..5_000).collect::<Vec<_>>());
    assert!(world.collector.is_idle() && world.collector.fault().is_none());
    assert_eq!(world.collector.lost(), 0);
}

#[test]
fn a_collector_that_comes_late_gets_what_waited() {
    let (early, at) = listener();
    drop(early);
    let mut world = World::new(at, Transport::Tcp, 100);
    world.push(130);
    let deadline = Instant::now() + PATIENCE;
    while world.collector.fault().is_none() && Instant::now() < deadline {
        world.turn();
    }
    assert!(world.collector.fault().unwrap().contains("refused"));
    assert_eq!((world.collector.waiting(), world.collector.lost()), (100, 30));
    let late = TcpListener::bind(at).unwrap();
    late.set_nonblocking(true).unwrap();
    world.wait(Duration::from_millis(999));
    world.turn();
    assert_eq!(late.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    world.past += Duration::from_millis(1);
    let mut stream = world.accept(&late);
    world.read(&mut stream, |_, stream| stream.sessions().len() == 100);
    assert_eq!(stream.sessions(), (0..100).collect::<Vec<_>>());
    assert_eq!(world.collector.fault(), None);
}

#[test]
fn one_that_ends_the_connection_gets_the_message_that_it_had_not_whole() {
    let (listener, at) = listener();
    let mut world = World::new(at, Transport::Tcp, 1 << 20);
    let mut first = world.accept(&listener);
    world.push(10);
    world.read(&mut first, |_, stream| stream.sessions().len() == 10);
    // More than both systems keep: the collector goes within a message.
    world.push(400_000);
    world.fill();
    let waited = world.collector.waiting() as u64;
    drop(first);
    let deadline = Instant::now() + PATIENCE;
    while world.collector.fault().is_none() && Instant::now() < deadline {
        world.turn();
    }
    world.past += Duration::from_secs(1);
    let mut second = world.accept(&listener);
    world.read(&mut second, |world, _| world.collector.is_idle());
    world.read(&mut second, |_, stream| {
        stream.sessions().last() == Some(&400_009)
    });
    let sessions = second.sessions();
    // All that waited, and the records of the message that was not sent whole.
    let again = sessions.len() as u64 - waited;
    assert!((1..=1_400 / 48).contains(&again), "{again}");
    assert_eq!(
        sessions,
        (400_010 - sessions.len() as u64..400_010).collect::<Vec<_>>()
    );
    assert_eq!(world.collector.lost(), 0);
}

#[test]
fn one_that_reads_slowly_stops_nobody_and_what_it_misses_is_counted() {
    let (listener, at) = listener();
    let mut world = World::new(at, Transport::Tcp, 1_000);
    let mut stream = world.accept(&listener);
    let start = Instant::now();
    for _ in 0..400 {
        world.push(500);
        world.turn();
    }
    assert!(start.elapsed() < PATIENCE);
    let lost = world.collector.lost();
    assert!(lost > 0);
    world.read(&mut stream, |world, stream| {
        stream.sessions().len() as u64 + lost == world.events
    });
    assert!(stream.sessions().is_sorted());
    assert_eq!((world.collector.lost(), world.collector.fault()), (lost, None));
}

#[test]
fn one_that_takes_nothing_for_a_minute_is_left() {
    let (listener, at) = listener();
    let mut world = World::new(at, Transport::Tcp, 1 << 20);
    let _stream = world.accept(&listener);
    world.push(400_000);
    world.fill();
    world.wait(Duration::from_secs(59));
    assert_eq!(world.collector.fault(), None);
    world.wait(Duration::from_secs(2));
    assert!(world.collector.fault().unwrap().contains("nothing for a minute"));
}

#[test]
fn a_burst_is_one_turn() {
    let (listener, at) = listener();
    let mut world = World::new(at, Transport::Tcp, 1 << 16);
    let mut stream = world.accept(&listener);
    world.push(1);
    world.read(&mut stream, |_, stream| stream.sessions().len() == 1);
    // More than 256 messages, which the systems of both ends keep.
    world.push(10_000);
    world.turn();
    assert_eq!(world.collector.waiting(), 0);
}

/// To a broadcast address without leave, as to a network without a route.
#[test]
fn a_collector_without_a_route_is_a_fault_and_no_end() {
    let at: SocketAddr = "255.255.255.255:4739".parse().unwrap();
    let mut world = World::new(at, Transport::Udp, 100);
    world.push(3);
    world.turn();
    assert!(world.collector.fault().is_some());
    world.wait(Duration::from_secs(600));
    assert_eq!((world.collector.waiting(), world.collector.lost()), (3, 0));
}

#[test]
fn connections_that_end_at_once_become_rare() {
    let (listener, at) = listener();
    listener.set_nonblocking(true).unwrap();
    let mut world = World::new(at, Transport::Tcp, 100);
    world.push(1);
    let mut made = 0;
    // Ten minutes: 1, 2, 4, ... 32 seconds, and each minute then.
    for _ in 0..6_000 {
        world.wait(Duration::from_millis(100));
        if let Ok((stream, _)) = listener.accept() {
            made += 1;
            drop(stream);
            world.turn();
        }
    }
    assert!((12..=18).contains(&made), "{made}");
}

#[test]
fn datagrams_that_the_system_does_not_take_are_counted() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let mut world = World::new(at, Transport::Udp, 100);
    world.push(3);
    world.turn();
    let mut octets = [0; 2_000];
    let len = socket.recv(&mut octets).unwrap();
    assert_eq!(
        (word(&octets), word(&octets[2..]), len),
        (10, len, 16 + 44 + 4 + 3 * 48)
    );
    drop(socket);
    // That the port is closed is reported behind the first datagram.
    for _ in 0..2 {
        world.push(2);
        world.turn();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(world.collector.lost(), 2);
    assert!(world.collector.fault().unwrap().contains("refused"));
}
