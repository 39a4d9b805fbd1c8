//! Messages of netlink, as many octets as it takes: requests with attributes, answers with theirs.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// Octets of a message's header.
const HEADER: usize = 16;
/// Octets of an attribute's header.
const ATTRIBUTE: usize = 4;
/// The longest datagram that an answer comes in.
const LONGEST: usize = 64 << 10;
/// Seconds that an answer may take.
const PATIENCE: i64 = 5;

/// Flags of a request (`linux/netlink.h`).
pub mod flags {
    /// It is a request.
    pub const REQUEST: u16 = 1;
    /// An answer is wanted in any case.
    pub const ACK: u16 = 4;
    /// What is not there is made.
    pub const CREATE: u16 = 0x400;
    /// All objects are asked for.
    pub const DUMP: u16 = 0x300;
}

const ERROR: u16 = 2;
const DONE: u16 = 3;
/// In the type of an attribute: it has attributes itself.
const NESTED: u16 = 0x8000;
/// Bits of an attribute's type that are its number.
const NUMBER: u16 = 0x3fff;

/// A request, or several in one datagram.
#[derive(Default)]
pub struct Request {
    octets: Vec<u8>,
    /// Where the message that is being written begins.
    message: usize,
}

impl Request {
    /// Begins a message; `body` is what precedes its attributes, a multiple of 4 octets.
    pub fn message(mut self, kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Self {
        self.message = self.octets.len();
        self.octets.extend([0; 4]);
        self.octets.extend(kind.to_ne_bytes());
        self.octets.extend((flags | flags::REQUEST).to_ne_bytes());
        self.octets.extend(sequence.to_ne_bytes());
        self.octets.extend([0; 4]);
        self.octets.extend(body);
        self.measured()
    }

    /// Adds an attribute to the message.
    pub fn attribute(mut self, number: u16, value: &[u8]) -> Self {
        self.write(number, value);
        self.measured()
    }

    /// Adds a text with its end.
    pub fn text(self, number: u16, text: &str) -> Self {
        let mut octets = text.as_bytes().to_vec();
        octets.push(0);
        self.attribute(number, &octets)
    }

    /// Adds an attribute that `write` gives attributes.
    pub fn nested(mut self, number: u16, write: impl FnOnce(Self) -> Self) -> Self {
        let at = self.octets.len();
        self.write(number | NESTED, &[]);
        let mut all = write(self);
        let length = (all.octets.len() - at) as u16;
        all.octets[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        all.measured()
    }

    fn write(&mut self, number: u16, value: &[u8]) {
        self.octets
            .extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
        self.octets.extend(number.to_ne_bytes());
        self.octets.extend(value);
        self.octets.resize(self.octets.len().next_multiple_of(4), 0);
    }

    /// Writes the length of the message where it begins.
    fn measured(mut self) -> Self {
        let at = self.message;
        let length = ((self.octets.len() - at) as u32).to_ne_bytes();
        self.octets[at..at + 4].copy_from_slice(&length);
        self
    }
}

/// A message that came.
#[derive(Debug)]
pub struct Message {
    kind: u16,
    sequence: u32,
    payload: Vec<u8>,
}

impl Message {
    /// The value of an attribute, where `body` octets stand before the attributes.
    pub fn attribute(&self, body: usize, number: u16) -> Option<&[u8]> {
        find(self.payload.get(body..)?, number)
    }

    /// A text, without its end.
    pub fn text(&self, body: usize, number: u16) -> Option<&str> {
        let octets = self.attribute(body, number)?;
        std::str::from_utf8(octets.strip_suffix(&[0]).unwrap_or(octets)).ok()
    }
}

/// The value of an attribute among attributes.
pub fn find(mut octets: &[u8], number: u16) -> Option<&[u8]> {
    loop {
        let (length, rest) = octets.split_first_chunk::<2>()?;
        let (kind, _) = rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_ne_bytes(*length));
        let value = octets.get(ATTRIBUTE..length)?;
        if u16::from_ne_bytes(*kind) & NUMBER == number {
            return Some(value);
        }
        octets = octets.get(length.next_multiple_of(4)..)?;
    }
}

/// A socket to one part of the kernel.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl Socket {
    /// To the part that speaks `protocol`, in this thread's network namespace.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(protocol: SockProtocol) -> io::Result<Self> {
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            protocol,
        )?;
        setsockopt(&fd, ReceiveTimeout, &TimeVal::seconds(PATIENCE))?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self(fd))
    }

    /// Sends a request and gives what is answered, up to the acknowledgement of its message `last`.
    ///
    /// # Errors
    /// The first error that the kernel has with any of its messages.
    pub fn ask(&self, request: &Request, last: u32) -> io::Result<Vec<Message>> {
        self.empty();
        send(self.0.as_raw_fd(), &request.octets, MsgFlags::empty())?;
        let mut answers = Vec::new();
        let mut datagram = vec![0; LONGEST];
        loop {
            let length = recv(self.0.as_raw_fd(), &mut datagram, MsgFlags::empty())?;
            let mut rest = datagram.get(..length).unwrap_or_default();
            while let Some((message, behind)) = split(rest) {
                rest = behind;
                match message.kind {
                    ERROR => match error(&message) {
                        0 if message.sequence == last => return Ok(answers),
                        0 => {}
                        code => return Err(io::Error::from_raw_os_error(code)),
                    },
                    DONE => return Ok(answers),
                    _ => answers.push(message),
                }
            }
        }
    }

    /// Takes what is left of an earlier answer.
    fn empty(&self) {
        let mut octet = [0];
        while !matches!(
            recv(self.0.as_raw_fd(), &mut octet, MsgFlags::MSG_DONTWAIT),
            Err(Errno::EAGAIN) | Err(Errno::EBADF)
        ) {}
    }
}

/// The first message of a datagram, and what is behind it.
fn split(octets: &[u8]) -> Option<(Message, &[u8])> {
    let header = octets.first_chunk::<HEADER>()?;
    let word = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let length = word(0) as usize;
    let payload = octets.get(HEADER..length)?.to_vec();
    let message = Message {
        kind: u16::from_ne_bytes([header[4], header[5]]),
        sequence: word(8),
        payload,
    };
    let behind = octets.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((message, behind))
}

/// The number of an error; 0 of an acknowledgement.
fn error(message: &Message) -> i32 {
    let code = message
        .payload
        .first_chunk::<4>()
        .map_or(0, |code| i32::from_ne_bytes(*code));
    code.saturating_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found_again() {
        let request = Request::default()
            .message(7, flags::ACK, 3, &[9; 4])
            .text(1, "table")
            .nested(4, |hook| hook.attribute(1, &[0, 0, 0, 1]).text(3, "n3"))
            .attribute(5, &[1]);
        let (message, behind) = split(&request.octets).unwrap();
        assert!(behind.is_empty());
        assert_eq!((message.kind, message.sequence), (7, 3));
        assert_eq!(message.text(4, 1), Some("table"));
        let hook = message.attribute(4, 4).unwrap();
        assert_eq!(find(hook, 1), Some(&[0, 0, 0, 1][..]));
        assert_eq!(find(hook, 3), Some(&b"n3\0"[..]));
        assert_eq!(message.attribute(4, 5), Some(&[1][..]));
        assert_eq!(message.attribute(4, 6), None);
    }

    #[test]
    fn attributes_of_impossible_lengths_are_none() {
        for octets in [&[0, 0, 1, 0][..], &[3, 0, 1, 0], &[200, 0, 1, 0, 1], &[4, 0], &[]] {
            assert_eq!(find(octets, 1), None, "{octets:?}");
        }
    }
}
