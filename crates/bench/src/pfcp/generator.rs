//! The load generator: several SMFs on UDP sockets of their own, on one thread that spends little on each message.
//!
//! *Closed loop*: a fixed number of requests wait for their responses; the rate is control's capacity. *Open loop*: a
//! request is sent when it is due, independent of earlier responses, and its response time counts from when it was
//! due, so that a late generator or user plane shows as delay.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use packet::Teid;
use pfcp::{MessageType, Seid, SequenceNumber};
use serde::Serialize;
use sim::smf::{EstablishedSession, RequestTemplates, ResponseSummary, SessionValues, reported_octets};

use super::super::error::BenchError;
use super::super::network::gnb;
use super::super::progress::Progress;
use super::super::rules::Identity;
use super::super::twocore::Delays;
use super::super::world::{MOST_UES, UES};
use super::messages::templates;

/// SMFs, each with an association.
pub const SMFS: u32 = 8;
/// Open requests of one SMF at most: sequence numbers modulo this are unique among them.
const PENDING: usize = 1 << 15;
/// Requests sent between two reads of the sockets.
const TURN: u32 = 64;
/// Time for which an idle generator leaves its core.
const REST: Duration = Duration::from_micros(50);
/// After this time without any response, open requests count as unanswered.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest response time that the histogram distinguishes, nanoseconds.
const LONGEST: u64 = 10_000_000_000;
/// The Cause "Request accepted" (TS 29.244 §8.2.1).
const ACCEPTED: u8 = 1;
/// The Cause "PFCP entity in congestion".
pub const CONGESTION: u8 = 74;
/// Sessions between two updates of the progress line.
const STEP: u64 = 256;

/// A procedure of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Procedure {
    /// Session Establishment.
    Establishment,
    /// Session Modification: the gNB's end of the tunnel changes, in two FARs.
    Modification,
    /// Session Modification: reports of all URRs are asked for.
    Query,
    /// Session Deletion.
    Deletion,
}

impl Procedure {
    /// Its name, of several.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Establishment => "establishments",
            Self::Modification => "modifications",
            Self::Query => "queries",
            Self::Deletion => "deletions",
        }
    }

    const fn response(self) -> MessageType {
        match self {
            Self::Establishment => MessageType::SESSION_ESTABLISHMENT_RESPONSE,
            Self::Modification | Self::Query => MessageType::SESSION_MODIFICATION_RESPONSE,
            Self::Deletion => MessageType::SESSION_DELETION_RESPONSE,
        }
    }
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Requests that wait for their responses at a time.
    Window(u32),
    /// Requests a second.
    Rate(f64),
}

/// Results of one round of requests.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Round {
    /// Requests sent.
    pub requests: u64,
    /// Requests accepted.
    pub accepted: u64,
    /// Requests rejected, by value of the cause.
    pub refused: BTreeMap<u8, u64>,
    /// Requests without a response.
    pub unanswered: u64,
    /// From the first request to the last answer.
    pub wall_nanos: u64,
    /// Response times: from when a request was due, or sent in a closed loop, to its answer.
    pub delays: Delays,
}

/// An open request.
#[derive(Clone, Copy, Debug)]
struct Pending {
    sequence: SequenceNumber,
    /// Number of the session.
    session: u32,
    /// When the request was due, nanoseconds since the generator's start.
    due: u64,
}

struct Smf {
    socket: UdpSocket,
    templates: RequestTemplates,
    sequence: SequenceNumber,
    pending: Vec<Option<Pending>>,
}

/// The SMFs and their sessions. Session n is SMF n modulo [`SMFS`]'s.
pub struct Generator {
    smfs: Vec<Smf>,
    upf: SocketAddr,
    /// By number of the session; `None`: not established.
    established: Vec<Option<EstablishedSession>>,
    /// Octets that usage reports have named, by number of the session.
    reported: Vec<u64>,
    /// Of the last round, the sessions whose requests met an overload.
    turned_away: Vec<u32>,
    start: Instant,
    histogram: Histogram<u64>,
    buffer: Box<[u8]>,
}

/// The session with this number.
pub(crate) fn session(number: u32) -> SessionValues {
    SessionValues {
        cp_seid: Seid(u64::from(number) + 1),
        ue: Ipv4Addr::from_bits(UES + number),
        gnb: gnb(number),
        gnb_teid: Teid(number + 1),
    }
}

impl Generator {
    /// SMFs at `addresses`, for as many sessions, of the user plane at `upf`.
    ///
    /// # Errors
    /// An address that cannot be bound; more sessions than addresses of UEs.
    pub fn new(addresses: &[Ipv4Addr], upf: SocketAddr, sessions: u32) -> Result<Self, BenchError> {
        if sessions > MOST_UES {
            return Err(BenchError(format!("{sessions} sessions: at most {MOST_UES}")));
        }
        let smf = |address: &Ipv4Addr| {
            let named = |error| BenchError(format!("an SMF at {address}: {error}"));
            let socket = UdpSocket::bind((*address, pfcp::PORT)).map_err(named)?;
            socket.set_nonblocking(true).map_err(named)?;
            Ok(Smf {
                socket,
                templates: templates(*address)?,
                sequence: SequenceNumber::new(1),
                pending: vec![None; PENDING],
            })
        };
        Ok(Self {
            smfs: addresses.iter().map(smf).collect::<Result<_, BenchError>>()?,
            upf,
            established: vec![None; sessions as usize],
            reported: vec![0; sessions as usize],
            turned_away: Vec::new(),
            start: Instant::now(),
            histogram: Histogram::new_with_bounds(1, LONGEST, 3).map_err(BenchError::of)?,
            buffer: vec![0; 65_535].into(),
        })
    }

    /// Octets of an establishment.
    #[must_use]
    pub fn request_octets(&self) -> usize {
        self.smfs
            .first()
            .map_or(0, |smf| smf.templates.establishment_octets())
    }

    /// Sets up every SMF's association.
    ///
    /// # Errors
    /// When one is not accepted.
    pub fn associate(&mut self) -> Result<(), BenchError> {
        for smf in &self.smfs {
            let failed = |error| BenchError(format!("association: {error}"));
            smf.socket
                .send_to(smf.templates.association(), self.upf)
                .map_err(failed)?;
            let done = super::super::world::deadline(PATIENCE.as_secs_f64());
            let length = loop {
                match smf.socket.recv_from(&mut self.buffer) {
                    Ok((length, _)) => break length,
                    Err(_) if !done() => thread::sleep(REST),
                    Err(error) => return Err(failed(error)),
                }
            };
            let response = ResponseSummary::read(&self.buffer[..length]);
            let accepted = (MessageType::ASSOCIATION_SETUP_RESPONSE, ACCEPTED);
            if response.is_none_or(|response| (response.message_type, response.cause) != accepted) {
                return Err(BenchError(format!("association not accepted: {response:?}")));
            }
        }
        Ok(())
    }

    /// Addresses and TEIDs of the first `count` sessions; TEID 0: not established.
    #[must_use]
    pub fn identities(&self, count: u32) -> Vec<Identity> {
        (0..count)
            .zip(&self.established)
            .map(|(number, established)| Identity {
                ue: session(number).ue,
                teid: established.map_or(0, |session| session.teid.0),
            })
            .collect()
    }

    /// Octets that reports on queries have named since the start, by number of the session.
    #[must_use]
    pub fn reported(&self) -> &[u64] {
        &self.reported
    }

    /// The sessions whose requests of the last round were rejected because the user plane was overloaded (cause 74).
    #[must_use]
    pub fn turned_away(&self) -> &[u32] {
        &self.turned_away
    }

    /// Carries a procedure out for each session of `numbers`, and waits for the responses.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn run(
        &mut self,
        procedure: Procedure,
        numbers: impl IntoIterator<Item = u32>,
        pace: Pace,
        progress: &Progress,
    ) -> Result<Round, BenchError> {
        self.histogram.reset();
        self.turned_away.clear();
        let mut round = Round::default();
        let begin = self.nanos();
        let mut numbers = (0_u32..).zip(numbers).peekable();
        let (mut outstanding, mut last_answer) = (0_u32, begin);
        loop {
            let now = self.nanos();
            let due = |place: u32| match pace {
                Pace::Window(_) => now,
                Pace::Rate(rate) => begin + (f64::from(place) * 1e9 / rate) as u64,
            };
            let room = match pace {
                Pace::Window(most) => most - outstanding.min(most),
                Pace::Rate(_) => TURN,
            };
            let mut sent = 0;
            while sent < room
                && let Some((place, number)) = numbers.next_if(|(place, _)| due(*place) <= now)
            {
                self.send(procedure, number, due(place))?;
                sent += 1;
            }
            round.requests += u64::from(sent);
            let answered = self.receive(procedure, &mut round);
            outstanding = (outstanding + sent).saturating_sub(answered);
            let now = self.nanos();
            if answered + sent > 0 {
                last_answer = now;
                if round.requests.is_multiple_of(STEP) {
                    progress.at(round.requests);
                }
                continue;
            }
            let is_over = numbers.peek().is_none() && outstanding == 0;
            if is_over || Duration::from_nanos(now - last_answer) > PATIENCE {
                break;
            }
            thread::sleep(REST);
        }
        round.unanswered = u64::from(outstanding);
        round.wall_nanos = last_answer - begin;
        round.delays = Delays::of(&self.histogram);
        Ok(round)
    }

    fn nanos(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn send(&mut self, procedure: Procedure, number: u32, due: u64) -> Result<(), BenchError> {
        let smf = (number % self.smfs.len() as u32) as usize;
        let smf = &mut self.smfs[smf];
        smf.sequence = smf.sequence.next();
        let (sequence, established) = (smf.sequence, self.established[number as usize]);
        let up_seid = established.map_or(Seid(0), |session| session.up_seid);
        let mut session = session(number);
        let octets = match procedure {
            Procedure::Establishment => smf.templates.establishment(sequence, &session),
            Procedure::Modification => {
                session.gnb = gnb(number + 1);
                smf.templates.modification(sequence, up_seid, &session)
            }
            Procedure::Query => smf.templates.query(sequence, up_seid, &session),
            Procedure::Deletion => smf.templates.deletion(sequence, up_seid, &session),
        };
        smf.pending[sequence.get() as usize % PENDING] = Some(Pending {
            sequence,
            session: number,
            due,
        });
        match smf.socket.send_to(octets, self.upf) {
            Ok(_) => Ok(()),
            // Lost: the request gets no response.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(BenchError(format!("sending to {}: {error}", self.upf))),
        }
    }

    /// Reads all received responses: their number.
    fn receive(&mut self, procedure: Procedure, round: &mut Round) -> u32 {
        let mut answered = 0;
        for smf in 0..self.smfs.len() {
            for _ in 0..TURN {
                let Ok(length) = self.smfs[smf].socket.recv(&mut self.buffer) else {
                    break;
                };
                answered += u32::from(self.note(procedure, smf, length, round));
            }
        }
        answered
    }

    /// Notes the response of `length` octets in the buffer; whether its request was open.
    fn note(&mut self, procedure: Procedure, smf: usize, length: usize, round: &mut Round) -> bool {
        let octets = &self.buffer[..length];
        let Some(ResponseSummary {
            message_type,
            sequence,
            cause,
        }) = ResponseSummary::read(octets)
        else {
            return false;
        };
        let entry = &mut self.smfs[smf].pending[sequence.get() as usize % PENDING];
        let is_it = |pending: &Pending| pending.sequence == sequence;
        let Some(pending) = entry
            .filter(is_it)
            .filter(|_| message_type == procedure.response())
        else {
            return false;
        };
        *entry = None;
        let established = &mut self.established[pending.session as usize];
        if cause == ACCEPTED {
            round.accepted += 1;
            match procedure {
                Procedure::Establishment => *established = EstablishedSession::read(octets),
                Procedure::Modification => {}
                Procedure::Query => {
                    let octets = reported_octets(octets).unwrap_or_default();
                    self.reported[pending.session as usize] += octets.iter().sum::<u64>();
                }
                Procedure::Deletion => *established = None,
            }
        } else {
            *round.refused.entry(cause).or_default() += 1;
            if cause == CONGESTION {
                self.turned_away.push(pending.session);
            }
        }
        let delay = self.nanos().saturating_sub(pending.due);
        self.histogram.saturating_record(delay.clamp(1, LONGEST));
        true
    }
}
