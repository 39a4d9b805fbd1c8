//! Connections that UEs have begun, for access lists that let pass to a UE only what it has asked for
//! ([`AccessAction::Solicited`](rules::model::AccessAction)): RFC 6092, and the same for IPv4.
//!
//! What a UE sends begins a connection, of any protocol, or keeps it. What comes from a data network passes if it
//! belongs to one: how far from its other end, the [`Filtering`] says (RFC 4787 §5, RFC 5382 §4.3). It is asked about
//! when a flow is decided, and again once in each period while the flow is in use (`lookup::validity`), so that a
//! connection lives as long as its flows, and no packet of a known flow costs anything. Lifetimes are longer by a
//! period for that.
//!
//! A SYN of the UE leaves no flow entry: the segment after it shows that the connection is established, if its other
//! end has answered. What a UE only answers with begins nothing: RST, SYN with ACK, ICMP errors and replies. So others
//! can have it use up what it may have only by a server over UDP that a rule opens to them.
//!
//! A session that was another worker's or another process's has connections of which nothing is known here. As long as
//! they may live, what does not open a connection is taken for a part of one.

use std::hash::BuildHasher;
use std::time::Duration;

use flow::{Nanos, SessionIndex, Tick};
use foldhash::quality::RandomState;
use packet::icmp::{v4_type, v6_type};
use packet::tuple::proto;
use packet::{Fragment, IpTuple};
use rules::model::{ConnectionPolicy, Filtering};

use crate::ConnectionLimits;
use crate::lookup::validity::PERIOD;
use crate::sessions::fixed_map::FixedMap;
use crate::slow_path::inspection::bits;

/// The whole table is looked at once in this time, for connections that have ended.
const ROUND: Duration = Duration::from_secs(64);
/// Slots that one step of that looks at, at most.
const MOST_SLOTS: u64 = 4_096;
/// A session may have as many connections, also where the worker has few left.
const LEAST_OF_SESSION: usize = 64;
/// A session may have one of so many that are left.
const SHARE: usize = 16;

/// In what is known of a connection: the other end has sent, too.
const ANSWERED: u32 = 1 << 31;
/// One of its ends has closed it.
const CLOSED: u32 = 1 << 30;
/// The rest: the tick in which it ends.
const UNTIL: u32 = CLOSED - 1;

/// A tick is 2 to the power of this, in nanoseconds.
const TICK_SHIFT: u32 = Tick::LENGTH.as_nanos().ilog2();
/// A period, in ticks: what keeps a connection may be noted as much later.
const PERIOD_TICKS: u32 = (PERIOD.0 >> TICK_SHIFT) as u32;

/// A moment in ticks, from 1 on.
fn ticks(now: Nanos) -> u32 {
    (now.0 >> TICK_SHIFT) as u32 + 1
}

/// Whose a packet is, and how its access list takes connections.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub session: SessionIndex,
    pub seid: u64,
    pub policy: ConnectionPolicy,
}

/// What a segment does to a connection of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// It belongs to one, or is none of TCP.
    Within,
    /// SYN without ACK.
    Opens,
    /// SYN and ACK.
    Accepts,
    /// FIN.
    Finishes,
    /// RST.
    Resets,
}

/// The UE, or the worker, has as many connections as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyConnections;

/// What is kept of each session.
#[derive(Clone, Copy, Default)]
struct Held {
    /// Its connections.
    count: u32,
    /// Connections of another number are a session's that had the index before.
    epoch: u32,
    /// When it came from elsewhere, in ticks; 0: it did not.
    arrived: u32,
}

/// The connections of one worker's sessions.
pub(crate) struct Connections {
    /// By hash, session and epoch: the tick in which it ends, and flags.
    known: FixedMap<4>,
    held: Box<[Held]>,
    limits: ConnectionLimits,
    hasher: RandomState,
    /// The slot that is looked at next, and up to when the table was looked at as often as it is to be.
    hand: usize,
    looked: Nanos,
    /// Any session has had an access list that asks for connections.
    is_on: bool,
}

impl Connections {
    /// With room for all of them. Sessions are numbers below `sessions`.
    pub fn new(limits: ConnectionLimits, sessions: usize) -> Self {
        Self {
            known: FixedMap::new(limits.connections),
            held: vec![Held::default(); sessions].into(),
            limits,
            hasher: RandomState::default(),
            hand: 0,
            looked: Nanos::ZERO,
            is_on: false,
        }
    }

    /// Whether any session's access list has asked for connections so far.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// How many there are. Some of them may have ended.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// A session is new here; with `may_have_connections` it was elsewhere.
    pub fn note_installed(&mut self, session: SessionIndex, may_have_connections: bool, now: Nanos) {
        self.forget(session);
        if may_have_connections {
            self.note_list(session, now);
        }
    }

    /// The access list of a session that is in use asks for connections from now on.
    pub fn note_list(&mut self, session: SessionIndex, now: Nanos) {
        self.is_on = true;
        if let Some(held) = self.held.get_mut(session.index()) {
            held.arrived = ticks(now);
        }
    }

    /// A session has ended here, with its connections.
    pub fn forget(&mut self, session: SessionIndex) {
        if !self.is_on {
            return;
        }
        if let Some(held) = self.held.get_mut(session.index()) {
            *held = Held {
                epoch: held.epoch.wrapping_add(u32::from(held.count > 0)),
                ..Held::default()
            };
        }
    }

    /// Asks for the memory of a connection. `tuple` is that of what the UE sends.
    pub fn prefetch(&self, owner: Owner, tuple: &IpTuple) {
        self.known.prefetch(&self.key(owner, tuple));
    }

    /// A packet of the UE begins a connection, or keeps it.
    ///
    /// # Errors
    /// [`TooManyConnections`].
    pub fn send(
        &mut self,
        owner: Owner,
        (tuple, bytes): (&IpTuple, &[u8]),
        segment: Segment,
        now: Nanos,
    ) -> Result<(), TooManyConnections> {
        let begins = match message(tuple, bytes) {
            Message::Other => matches!(segment, Segment::Within | Segment::Opens),
            Message::Request => true,
            Message::Answer | Message::Error(_) | Message::Unrelated => false,
        };
        match begins {
            true => self.keep(owner, tuple, segment, now),
            false => Ok(()),
        }
    }

    /// Whether a packet to the UE belongs to a connection.
    pub fn admits(
        &mut self,
        owner: Owner,
        (tuple, bytes): (&IpTuple, &[u8]),
        segment: Segment,
        now: Nanos,
    ) -> bool {
        let may_have = |protocol| self.may_have(owner.session, protocol, now);
        match message(tuple, bytes) {
            Message::Other => {
                let is_open = !matches!(segment, Segment::Opens) && may_have(tuple.proto);
                self.receive(owner, &tuple.reversed(), segment, now) || is_open
            }
            Message::Answer => self.knows(owner, &tuple.reversed(), now),
            Message::Error(about) => self.knows(owner, &about, now) || may_have(about.proto),
            Message::Request | Message::Unrelated => false,
        }
    }

    /// The other end of a connection sends; whether there is one. `tuple` is that of what the UE sends.
    fn receive(&mut self, owner: Owner, tuple: &IpTuple, segment: Segment, now: Nanos) -> bool {
        let key = self.key(owner, tuple);
        let known = self.known.at(&key).filter(|known| ticks(now) < known & UNTIL);
        let Some(known) = known else {
            return false;
        };
        let is_tcp = tuple.proto == proto::TCP;
        let after = match segment {
            Segment::Within | Segment::Accepts if is_tcp => known | ANSWERED,
            // Where anyone may send, only the UE keeps it.
            Segment::Within if !is_tcp && owner.policy.filtering != Filtering::EndpointIndependent => {
                (ticks(now) + self.lifetime(tuple.proto, false)).max(known & UNTIL)
            }
            _ => known,
        };
        if after != known {
            let _ = self.known.insert(key, after);
        }
        true
    }

    /// Begins a connection, or has it last longer. `tuple` is that of what the UE sends.
    fn keep(
        &mut self,
        owner: Owner,
        tuple: &IpTuple,
        segment: Segment,
        now: Nanos,
    ) -> Result<(), TooManyConnections> {
        self.is_on = true;
        let key = self.key(owner, tuple);
        let known = self.known.at(&key);
        let live = known
            .filter(|known| ticks(now) < known & UNTIL)
            .unwrap_or_default();
        let flags = match segment {
            Segment::Opens if live & CLOSED != 0 => 0,
            Segment::Opens => live & ANSWERED,
            _ if self.may_have(owner.session, tuple.proto, now) => ANSWERED | live & CLOSED,
            _ => live & (ANSWERED | CLOSED),
        };
        let is_transitory = segment == Segment::Opens || flags != ANSWERED;
        let until = ticks(now) + self.lifetime(tuple.proto, is_transitory);
        // A segment of another connection that is taken for the same does not shorten it.
        let least = if flags & CLOSED == 0 { live & UNTIL } else { 0 };
        let most = (self.known.room() / SHARE).max(LEAST_OF_SESSION) as u32;
        let most = most.min(self.limits.per_session);
        let held = self.held.get_mut(owner.session.index());
        let held = held
            .filter(|held| known.is_some() || held.count < most)
            .ok_or(TooManyConnections)?;
        self.known
            .insert(key, until.max(least) | flags)
            .map_err(|_| TooManyConnections)?;
        held.count += u32::from(known.is_none());
        Ok(())
    }

    /// Whether there is a connection. `tuple` is that of what the UE sends.
    fn knows(&self, owner: Owner, tuple: &IpTuple, now: Nanos) -> bool {
        let known = self.known.at(&self.key(owner, tuple));
        known.is_some_and(|known| ticks(now) < known & UNTIL)
    }

    /// A segment with FIN or RST, of the UE or to it: its connection ends soon. `tuple` is that of what the UE sends.
    ///
    /// Where others than one other end may send, a segment to the UE may be anyone's, and another connection may be
    /// taken for the same: there only the UE closes, and its next segment opens again.
    #[cold]
    pub fn close(&mut self, owner: Owner, tuple: &IpTuple, is_uplink: bool, now: Nanos) {
        let flag = match (owner.policy.filtering, is_uplink) {
            (Filtering::AddressAndPortDependent, _) => CLOSED,
            (Filtering::AddressDependent | Filtering::EndpointIndependent, true) => 0,
            (Filtering::AddressDependent | Filtering::EndpointIndependent, false) => return,
        };
        let key = self.key(owner, tuple);
        let soon = ticks(now) + self.lifetime(tuple.proto, true);
        if let Some(known) = self.known.at(&key) {
            let after = (known & UNTIL).min(soon) | known & !UNTIL | flag;
            let _ = self.known.insert(key, after);
        }
    }

    /// Whether a session may still have connections of this protocol from elsewhere.
    fn may_have(&self, session: SessionIndex, protocol: u8, now: Nanos) -> bool {
        let arrived = self.held.get(session.index()).map_or(0, |held| held.arrived);
        arrived != 0 && ticks(now) - arrived < self.lifetime(protocol, false)
    }

    fn lifetime(&self, protocol: u8, is_transitory: bool) -> u32 {
        let times = &self.limits.lifetimes;
        let lifetime = match protocol {
            proto::TCP if is_transitory => times.tcp_transitory,
            proto::TCP => times.tcp_established,
            proto::UDP | proto::UDP_LITE => times.udp,
            proto::ICMP | proto::ICMPV6 => times.icmp,
            _ => times.other,
        };
        let ticks = lifetime.as_nanos().div_ceil(Tick::LENGTH.as_nanos());
        ticks.min(u128::from(UNTIL / 2)) as u32 + PERIOD_TICKS
    }

    fn key(&self, owner: Owner, tuple: &IpTuple) -> [u32; 4] {
        let (mut remote, mut port) = (bits(tuple.addrs.dst()), tuple.dst_port);
        if owner.policy.filtering != Filtering::AddressAndPortDependent {
            port = 0;
        }
        if owner.policy.filtering == Filtering::EndpointIndependent && has_ports(tuple.proto) {
            remote = 0;
        }
        let is_v4 = u64::from(tuple.addrs.is_v4());
        let rest =
            is_v4 << 40 | u64::from(tuple.proto) << 32 | u64::from(tuple.src_port) << 16 | u64::from(port);
        let hash = self
            .hasher
            .hash_one((owner.seid, bits(tuple.addrs.src()), remote, rest));
        let session = owner.session;
        let epoch = self.held.get(session.index()).map_or(0, |held| held.epoch);
        [hash as u32, (hash >> 32) as u32, session.0, epoch]
    }

    /// Looks at as many of them as time has passed for, and forgets those that have ended.
    pub fn age(&mut self, now: Nanos) {
        let slots = self.known.slots() as u64;
        let each = (ROUND.as_nanos() as u64 / slots.max(1)).max(1);
        let due = now.since(self.looked).as_nanos() as u64 / each;
        self.looked = match due > MOST_SLOTS {
            true => now,
            false => Nanos(self.looked.0 + due * each),
        };
        if self.known.is_empty() {
            return;
        }
        for _ in 0..due.min(MOST_SLOTS) {
            self.look(ticks(now));
        }
    }

    /// Forgets the connection in the next slot if it has ended.
    fn look(&mut self, now: u32) {
        if let Some((key, known)) = self.known.nth(self.hand) {
            let [.., session, epoch] = key;
            let held = self.held.get_mut(session as usize);
            let held = held.filter(|held| held.epoch == epoch);
            if held.is_none() || now >= known & UNTIL {
                if let Some(held) = held {
                    held.count = held.count.saturating_sub(1);
                }
                // What follows it may have moved here, and is next.
                self.known.remove(&key);
                return;
            }
        }
        self.hand = self.known.after(self.hand);
    }
}

/// Whether packets of a protocol have ports.
const fn has_ports(protocol: u8) -> bool {
    matches!(
        protocol,
        proto::TCP | proto::UDP | proto::UDP_LITE | proto::SCTP | proto::DCCP
    )
}

/// What a packet is to connections.
enum Message {
    /// Of a protocol whose packets go both ways alike.
    Other,
    /// An ICMP message that asks for an answer.
    Request,
    /// An ICMP message that is one.
    Answer,
    /// An ICMP error about a packet of which this is the tuple.
    Error(IpTuple),
    /// An ICMP message of another kind, as of Neighbour Discovery, or one that cannot be read.
    Unrelated,
}

/// What kind of message the packet is that starts with its IP header at `bytes[0]`.
fn message(tuple: &IpTuple, bytes: &[u8]) -> Message {
    let is_v4 = tuple.proto == proto::ICMP && tuple.addrs.is_v4();
    let is_v6 = tuple.proto == proto::ICMPV6 && !tuple.addrs.is_v4();
    if !is_v4 && !is_v6 {
        return Message::Other;
    }
    // What follows the first fragment of an answer belongs to whom it asked.
    if tuple.fragment == Fragment::Later {
        return Message::Answer;
    }
    let header = bytes.get(usize::from(tuple.l4_offset)..).unwrap_or_default();
    let (Some(kind), about) = (header.first(), header.get(packet::icmp::HEADER_LEN..)) else {
        return Message::Unrelated;
    };
    match (*kind, is_v4) {
        (v4_type::ECHO_REQUEST | v4_type::TIMESTAMP, true) | (v6_type::ECHO_REQUEST, false) => {
            Message::Request
        }
        (v4_type::ECHO_REPLY | v4_type::TIMESTAMP_REPLY, true) | (v6_type::ECHO_REPLY, false) => {
            Message::Answer
        }
        (v4_type::UNREACHABLE | v4_type::TIME_EXCEEDED | v4_type::PARAMETER_PROBLEM, true)
        | (
            v6_type::UNREACHABLE
            | v6_type::PACKET_TOO_BIG
            | v6_type::TIME_EXCEEDED
            | v6_type::PARAMETER_PROBLEM,
            false,
        ) => about.map_or(Message::Unrelated, |about| error_about(tuple, about)),
        _ => Message::Unrelated,
    }
}

/// An error about the packet whose start is quoted, if the one that gets the error has sent it.
fn error_about(error: &IpTuple, quoted: &[u8]) -> Message {
    match IpTuple::parse(quoted, usize::from(u16::MAX)) {
        Ok(about)
            if about.fragment != Fragment::Later
                && about.addrs.is_v4() == error.addrs.is_v4()
                && about.addrs.src() == error.addrs.dst() =>
        {
            Message::Error(about)
        }
        _ => Message::Unrelated,
    }
}
