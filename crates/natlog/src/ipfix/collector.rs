//! The socket towards a collector. Nothing here waits: what a socket does not take now it is given in a later turn.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use rustix::net::sockopt;

use super::exporter::{Exporter, Settings, Transport};
use crate::event::Event;

/// How long a connection may take to be made, and one that takes no octets may last.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it waits before a connection is made again: twice as long each time, between these.
const BACKOFF: Duration = Duration::from_secs(1);
const MOST_BACKOFF: Duration = Duration::from_secs(60);
/// A connection that has lasted so long begins the waiting anew.
const SETTLED: Duration = Duration::from_secs(10);
/// Messages that are sent in one turn: more than 100,000 events, as many as come between two.
const TURN: usize = 4_096;

/// Sends events to a collector.
#[derive(Debug)]
pub struct Collector {
    exporter: Exporter,
    link: Link,
    /// Records that a datagram had which the system did not take, and events that were not given.
    unsent: u64,
    fault: Option<String>,
}

#[derive(Debug)]
enum Link {
    Udp(Datagrams),
    Tcp(Connection),
}

impl Collector {
    /// One that sends to the collector at `to`. A socket or a connection is made in the first turn, and in later ones
    /// where that is refused, as without a route.
    pub fn open(to: SocketAddr, settings: Settings) -> Self {
        let link = match settings.transport {
            Transport::Tcp => Link::Tcp(Connection::new(to)),
            Transport::Udp => Link::Udp(Datagrams::new(to)),
        };
        Self {
            exporter: Exporter::new(settings),
            link,
            unsent: 0,
            fault: None,
        }
    }

    /// Takes what happened to a block; see [`Exporter::push`].
    pub fn push(&mut self, event: &Event) {
        self.exporter.push(event);
    }

    /// Sends what the system takes now, at `now`, which is `now_ms` since 1970. To be called again and again.
    pub fn turn(&mut self, now: Instant, now_ms: u64) {
        match &mut self.link {
            Link::Udp(datagrams) => {
                let socket = match datagrams.socket(now) {
                    Ok(Some(socket)) => socket,
                    Ok(None) => return,
                    Err(error) => {
                        self.fault = Some(error.to_string());
                        return;
                    }
                };
                while let Some(message) = self.exporter.take_message(now_ms) {
                    // That a collector is not there is reported of a datagram before this one, which is not sent then.
                    if let Err(error) = socket.send(&message) {
                        self.unsent += u64::from(self.exporter.in_last());
                        self.fault = Some(error.to_string());
                    } else {
                        self.fault = None;
                    }
                }
            }
            Link::Tcp(connection) => match connection.turn(&mut self.exporter, now, now_ms) {
                Ok(false) => {}
                Ok(true) => self.fault = None,
                Err(error) => {
                    self.fault = Some(error.to_string());
                    connection.end(now);
                }
            },
        }
    }

    /// As many events were not given to it and never will be.
    pub fn lose(&mut self, events: u64) {
        self.unsent += events;
    }

    /// Events that were lost: they were not given, too many waited, or the system did not take the datagram. What was
    /// lost behind that is seen by the collector alone.
    pub fn lost(&self) -> u64 {
        self.exporter.lost() + self.unsent
    }

    /// Events that wait.
    pub fn waiting(&self) -> usize {
        self.exporter.waiting()
    }

    /// Whether all events are with the system.
    pub fn is_idle(&self) -> bool {
        let is_whole = match &self.link {
            Link::Udp(_) => true,
            Link::Tcp(connection) => connection.message.is_empty(),
        };
        is_whole && self.exporter.waiting() == 0
    }

    /// Why nothing can be sent: what the system said last, until something is sent again.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
}

/// The socket of UDP.
#[derive(Debug)]
struct Datagrams {
    to: SocketAddr,
    socket: Option<UdpSocket>,
    /// When it is made, if there is none.
    until: Option<Instant>,
    backoff: Duration,
}

impl Datagrams {
    fn new(to: SocketAddr) -> Self {
        Self {
            to,
            socket: None,
            until: None,
            backoff: BACKOFF,
        }
    }

    /// The socket, which is made if there is none and the time for that has come.
    fn socket(&mut self, now: Instant) -> io::Result<Option<&UdpSocket>> {
        if self.socket.is_none() && self.until.is_none_or(|until| until <= now) {
            self.until = Some(now + self.backoff);
            self.backoff = MOST_BACKOFF.min(self.backoff * 2);
            let any = if self.to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any)?;
            socket.connect(self.to)?;
            socket.set_nonblocking(true)?;
            self.socket = Some(socket);
        }
        Ok(self.socket.as_ref())
    }
}

#[derive(Debug)]
enum State {
    /// There is none; the next one is made then.
    None { until: Option<Instant> },
    /// One is being made.
    Opening { stream: TcpStream, since: Instant },
    /// Messages go by it. It took octets last at `taken`, or had none to take.
    Open {
        stream: TcpStream,
        since: Instant,
        taken: Instant,
    },
}

/// A connection of TCP, which is made again when it ends.
#[derive(Debug)]
struct Connection {
    to: SocketAddr,
    state: State,
    backoff: Duration,
    /// What is yet to be sent of the last message.
    message: Vec<u8>,
    sent: usize,
}

impl Connection {
    fn new(to: SocketAddr) -> Self {
        Self {
            to,
            state: State::None { until: None },
            backoff: BACKOFF,
            message: Vec::new(),
            sent: 0,
        }
    }

    /// Whether something was sent.
    fn turn(&mut self, exporter: &mut Exporter, now: Instant, now_ms: u64) -> io::Result<bool> {
        match &self.state {
            State::None { until } => {
                if until.is_none_or(|until| until <= now) {
                    let stream = TcpStream::connect(self.to)?;
                    // Else octets that a peer does not confirm, which went silently, would be tried for a quarter of
                    // an hour: those that come meanwhile are lost with them.
                    sockopt::set_tcp_user_timeout(&stream, STALL_TIMEOUT.as_millis() as u32)?;
                    sockopt::set_tcp_keepidle(&stream, STALL_TIMEOUT)?;
                    sockopt::set_socket_keepalive(&stream, true)?;
                    self.state = State::Opening { stream, since: now };
                }
                Ok(false)
            }
            State::Opening { .. } => {
                self.open(exporter, now)?;
                Ok(false)
            }
            State::Open { .. } => self.send(exporter, now, now_ms),
        }
    }

    /// The connection has ended. The next one is made after a while.
    fn end(&mut self, now: Instant) {
        if let State::Open { since, .. } = self.state
            && now.saturating_duration_since(since) >= SETTLED
        {
            self.backoff = BACKOFF;
        }
        self.state = State::None {
            until: Some(now + self.backoff),
        };
        self.backoff = MOST_BACKOFF.min(self.backoff * 2);
    }

    /// Begins to send, if the connection is there.
    fn open(&mut self, exporter: &mut Exporter, now: Instant) -> io::Result<()> {
        let State::Opening { stream, since } = &self.state else {
            return Ok(());
        };
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        match stream.peer_addr() {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotConnected => {
                return match now.saturating_duration_since(*since) < CONNECT_TIMEOUT {
                    true => Ok(()),
                    false => Err(io::Error::new(ErrorKind::TimedOut, "no connection within 5 s")),
                };
            }
            Err(error) => return Err(error),
        }
        let before = std::mem::replace(&mut self.state, State::None { until: None });
        if let State::Opening { stream, .. } = before {
            self.state = State::Open {
                stream,
                since: now,
                taken: now,
            };
        }
        exporter.begin_connection();
        self.message.clear();
        self.sent = 0;
        Ok(())
    }

    fn send(&mut self, exporter: &mut Exporter, now: Instant, now_ms: u64) -> io::Result<bool> {
        let State::Open { stream, taken, .. } = &mut self.state else {
            return Ok(false);
        };
        check(stream)?;
        let mut is_sent = false;
        for _ in 0..TURN {
            if self.message.is_empty() {
                let Some(message) = exporter.take_message(now_ms) else {
                    *taken = now;
                    break;
                };
                (self.message, self.sent) = (message, 0);
            }
            match stream.write(self.message.get(self.sent..).unwrap_or_default()) {
                Ok(octets) => {
                    is_sent |= octets > 0;
                    *taken = now;
                    self.sent += octets;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            if self.sent >= self.message.len() {
                self.message.clear();
                exporter.forget_taken();
            }
        }
        match now.saturating_duration_since(*taken) < STALL_TIMEOUT {
            true => Ok(is_sent),
            false => Err(io::Error::new(
                ErrorKind::TimedOut,
                "the collector has taken nothing for a minute",
            )),
        }
    }
}

/// An error if the collector has ended the connection. What it says, which is nothing by RFC 7011, is not looked at.
fn check(stream: &mut TcpStream) -> io::Result<()> {
    let mut octets = [0; 1_024];
    match stream.read(&mut octets) {
        Ok(0) => Err(io::Error::new(
            ErrorKind::UnexpectedEof,
            "the collector has ended the connection",
        )),
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_gone_is_noticed_within_a_minute() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let mut collector = Collector::open(
            to,
            Settings {
                transport: Transport::Tcp,
                ..Settings::default()
            },
        );
        collector.turn(Instant::now(), 0);
        let Link::Tcp(Connection {
            state: State::Opening { stream, .. },
            ..
        }) = &collector.link
        else {
            panic!("{collector:?}");
        };
        assert_eq!(sockopt::tcp_user_timeout(stream).unwrap(), 60_000);
        assert!(sockopt::socket_keepalive(stream).unwrap());
    }
}
