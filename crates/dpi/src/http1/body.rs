//! The requests of a connection, and the bodies between them (RFC 9112 §6, §7.1).

use super::fields::Body;
use super::head::{Head, read_head};
use crate::fault::Fault;

/// The most digits of a chunk's length: lengths below 2^60.
const MOST_DIGITS: u8 = 15;

/// What comes next of a connection's requests.
#[expect(
    clippy::large_enum_variant,
    reason = "a host name is inside: nothing is on the heap"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'o> {
    /// The head of a request.
    Request(Head<'o>),
    /// More octets are wanted: first those that are left of the input, then those that follow.
    Incomplete,
    /// A body cannot be followed. What else comes is not read.
    Approximate,
    /// A head is not read. What else comes is not read.
    Fault(Fault),
}

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Octets(u64),
    Chunk(Chunk),
    Lost,
    Faulty(Fault),
}

/// Where a chunked body is (RFC 9112 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Length { value: u64, digits: u8 },
    Extension { len: u64 },
    Data { left: u64 },
    DataEnd,
    Trailer { line: u64 },
}

/// Follows the requests of one connection, pipelined or not. It is a few octets: it keeps no octets of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    state: State,
}

impl Default for Requests {
    fn default() -> Requests {
        Requests { state: State::Head }
    }
}

impl Requests {
    /// Whether a body could not be followed, so that later requests are not known.
    pub fn is_approximate(&self) -> bool {
        self.state == State::Lost
    }

    /// Reads the next request from the start of `input`, and takes off what is read. At [`Step::Incomplete`] the start
    /// of a head may be left in it: the caller keeps it, at most [`super::LONGEST_HEAD`] octets, and passes it again
    /// with what follows. Octets of bodies are always taken off.
    pub fn next<'o>(&mut self, input: &mut &'o [u8]) -> Step<'o> {
        if !self.skip_body(input) {
            return match self.state {
                State::Faulty(fault) => Step::Fault(fault),
                State::Lost => Step::Approximate,
                _ => Step::Incomplete,
            };
        }
        match read_head(input) {
            Ok(Some(head)) => {
                *input = input.get(head.octets..).unwrap_or_default();
                self.state = match head.body {
                    Body::Octets(0) => State::Head,
                    Body::Octets(octets) => State::Octets(octets),
                    Body::Chunked => State::Chunk(Chunk::Length { value: 0, digits: 0 }),
                    Body::Unknown => State::Lost,
                };
                Step::Request(head)
            }
            Ok(None) => Step::Incomplete,
            Err(fault) => {
                self.state = State::Faulty(fault);
                Step::Fault(fault)
            }
        }
    }

    /// Takes off what there is of a body. Whether a head is next.
    fn skip_body(&mut self, input: &mut &[u8]) -> bool {
        loop {
            let next = match self.state {
                State::Head => return true,
                State::Lost | State::Faulty(_) => return false,
                _ if input.is_empty() => return false,
                State::Octets(left) => match skip(input, left) {
                    0 => State::Head,
                    left => State::Octets(left),
                },
                State::Chunk(chunk) => step(chunk, input),
            };
            self.state = next;
        }
    }
}

/// Takes off up to `octets`; how many are left.
fn skip(input: &mut &[u8], octets: u64) -> u64 {
    let skipped = usize::try_from(octets).map_or(input.len(), |octets| octets.min(input.len()));
    *input = input.get(skipped..).unwrap_or_default();
    octets - skipped as u64
}

/// Takes off octets of a chunk's data, or one other octet.
fn step(chunk: Chunk, input: &mut &[u8]) -> State {
    if let Chunk::Data { left } = chunk {
        return State::Chunk(match skip(input, left) {
            0 => Chunk::DataEnd,
            left => Chunk::Data { left },
        });
    }
    let Some((&octet, rest)) = input.split_first() else {
        return State::Chunk(chunk);
    };
    *input = rest;
    let next = match (chunk, octet) {
        (Chunk::Length { value, digits }, digit) if hex(digit).is_some() && digits < MOST_DIGITS => {
            Chunk::Length {
                value: value << 4 | u64::from(hex(digit).unwrap_or(0)),
                digits: digits + 1,
            }
        }
        (Chunk::Length { value, digits: 1.. }, b'\n') => data(value),
        (Chunk::Length { value, digits: 1.. }, b'\r' | b';' | b' ' | b'\t') => {
            Chunk::Extension { len: value }
        }
        (Chunk::Extension { len }, b'\n') => data(len),
        (Chunk::Extension { len }, _) => Chunk::Extension { len },
        (Chunk::DataEnd, b'\r') => Chunk::DataEnd,
        (Chunk::DataEnd, b'\n') => Chunk::Length { value: 0, digits: 0 },
        (Chunk::Trailer { line: 0 }, b'\n') => return State::Head,
        (Chunk::Trailer { .. }, b'\n') => Chunk::Trailer { line: 0 },
        (Chunk::Trailer { line: 0 }, b'\r') => Chunk::Trailer { line: 0 },
        (Chunk::Trailer { line }, _) => Chunk::Trailer { line: line + 1 },
        _ => return State::Lost,
    };
    State::Chunk(next)
}

/// What follows the length of a chunk: the last one has none, and trailer fields follow.
fn data(len: u64) -> Chunk {
    match len {
        0 => Chunk::Trailer { line: 0 },
        left => Chunk::Data { left },
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONNECTION: &str = "GET /1 HTTP/1.1\r\nHost: a.example\r\n\r\n\
        POST /2 HTTP/1.1\r\nHost: b.example\r\nContent-Length: 5\r\n\r\nGET /\
        POST /3 HTTP/1.1\r\nHost: c.example\r\nTransfer-Encoding: chunked\r\n\r\n\
        5\r\nhello\r\n1a;name=value\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nTrailer: x\r\n\r\n\
        GET /4 HTTP/1.1\r\nHost: d.example\r\n\r\n";

    /// Paths of the requests when `octets` come in these pieces.
    fn paths(pieces: &[&[u8]]) -> (Vec<String>, Step<'static>) {
        let mut requests = Requests::default();
        let (mut paths, mut kept, mut last) = (Vec::new(), Vec::new(), Step::Incomplete);
        for piece in pieces {
            kept.extend_from_slice(piece);
            let octets = kept.clone();
            let mut input = &octets[..];
            last = loop {
                match requests.next(&mut input) {
                    Step::Request(head) => paths.push(String::from_utf8_lossy(head.path).into_owned()),
                    Step::Incomplete => break Step::Incomplete,
                    Step::Approximate => break Step::Approximate,
                    Step::Fault(fault) => break Step::Fault(fault),
                }
            };
            kept = input.to_vec();
        }
        (paths, last)
    }

    fn all() -> (Vec<String>, Step<'static>) {
        (
            ["/1", "/2", "/3", "/4"].map(String::from).to_vec(),
            Step::Incomplete,
        )
    }

    #[test]
    fn pipelined_requests_are_followed_over_their_bodies() {
        assert_eq!(paths(&[CONNECTION.as_bytes()]), all());
    }

    #[test]
    fn what_cannot_be_followed_is_approximate() {
        let upgrade =
            "GET /1 HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\n\r\nGET /2 HTTP/1.1\r\n\r\n";
        assert_eq!(
            paths(&[upgrade.as_bytes()]),
            (vec!["/1".to_string()], Step::Approximate)
        );
        let chunks = "POST /1 HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
        for body in ["x\r\n", "\r\n", "ffffffffffffffff\r\n", "1\r\nab"] {
            let (_, last) = paths(&[chunks.as_bytes(), body.as_bytes()]);
            assert_eq!(last, Step::Approximate, "{body:?}");
        }
    }

    #[test]
    fn nothing_is_read_behind_a_fault() {
        let octets = b"GET /1 HTTP/1.1\r\nHost: a.example\r\n\r\nhello\r\nGET /2 HTTP/1.1\r\n\r\n";
        assert_eq!(
            paths(&[octets]),
            (vec!["/1".to_string()], Step::Fault(Fault::Malformed))
        );
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(mut cuts in prop::collection::vec(0..CONNECTION.len(), 0..20)) {
            cuts.extend([0, CONNECTION.len()]);
            cuts.sort();
            let pieces: Vec<_> = cuts.windows(2).map(|cut| &CONNECTION.as_bytes()[cut[0]..cut[1]]).collect();
            prop_assert_eq!(paths(&pieces), all());
        }
    }
}
