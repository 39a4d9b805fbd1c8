//! Connections that UEs have begun, for access lists that let pass to a UE only what it has asked for
//! ([`AccessAction::Solicited`](rules::model::AccessAction)): RFC 6092, and the same for IPv4.
//!
//! What a UE sends begins a connection, of any protocol, or keeps it. What comes from a data network passes if it
//! belongs to one: how far from its other end, the [`Filtering`] says (RFC 4787 §5, RFC 5382 §4.3). It is asked about
//! when a flow is decided, and again once in each period while the flow is in use (`lookup::validity`),
//! so that a connection lives as long as its flows, and no packet of a known flow costs anything. Lifetimes are longer
//! by a period for that.
//!
//! A SYN of the UE leaves no flow entry: the segment after it shows that the connection is established.
//!
//! A session that was another worker's or another process's has connections of which nothing is known here. As long as
//! they may live, what does not open a connection is taken for a part of one.

use std::hash::BuildHasher;
use std::net::IpAddr;

use flow::{Nanos, SessionIndex, Tick};
use foldhash::quality::RandomState;
use packet::icmp::{v4_type, v6_type};
use packet::tuple::proto;
use packet::{Fragment, IpTuple};
use rules::model::{ConnectionPolicy, Filtering};

use crate::ConnectionLimits;
use crate::lookup::validity::PERIOD;
use crate::sessions::fixed_map::FixedMap;

/// Slots of the table that one step of aging looks at.
const AGED_PER_STEP: usize = 16;

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
    /// By hash, session and epoch: the tick in which it ends.
    known: FixedMap<4>,
    held: Box<[Held]>,
    limits: ConnectionLimits,
    hasher: RandomState,
    hand: usize,
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

    /// A packet of the UE begins a connection, or keeps it. `is_transitory`: a segment with SYN, FIN or RST.
    ///
    /// # Errors
    /// [`TooManyConnections`].
    pub fn send(
        &mut self,
        owner: Owner,
        (tuple, bytes): (&IpTuple, &[u8]),
        is_transitory: bool,
        now: Nanos,
    ) -> Result<(), TooManyConnections> {
        match message(tuple, bytes) {
            Message::Other | Message::Request => self.keep(owner, tuple, is_transitory, now),
            Message::Answer | Message::Error(_) | Message::Unrelated => Ok(()),
        }
    }

    /// Whether a packet to the UE belongs to a connection. `is_opening`: a segment with SYN.
    pub fn admits(
        &mut self,
        owner: Owner,
        (tuple, bytes): (&IpTuple, &[u8]),
        is_opening: bool,
        now: Nanos,
    ) -> bool {
        match message(tuple, bytes) {
            Message::Other => {
                let theirs = tuple.reversed();
                let knows = self.knows(owner, &theirs, now);
                let keeps = tuple.proto != proto::TCP
                    && knows
                    && owner.policy.filtering != Filtering::EndpointIndependent;
                let joins = !knows && !is_opening && self.may_have(owner.session, tuple.proto, now);
                let is_kept = (keeps || joins) && self.keep(owner, &theirs, false, now).is_ok();
                knows || is_kept
            }
            Message::Answer => self.knows(owner, &tuple.reversed(), now),
            Message::Error(about) => {
                self.knows(owner, &about, now) || self.may_have(owner.session, about.proto, now)
            }
            Message::Request | Message::Unrelated => false,
        }
    }

    /// Begins a connection, or has it last longer. `tuple` is that of what the UE sends.
    fn keep(
        &mut self,
        owner: Owner,
        tuple: &IpTuple,
        is_transitory: bool,
        now: Nanos,
    ) -> Result<(), TooManyConnections> {
        self.is_on = true;
        let most = self.limits.per_session;
        let key = self.key(owner, tuple);
        let until = ticks(now) + self.lifetime(tuple.proto, is_transitory);
        let is_new = self.known.at(&key).is_none();
        let held = self.held.get_mut(owner.session.index());
        let held = held
            .filter(|held| !is_new || held.count < most)
            .ok_or(TooManyConnections)?;
        self.known.insert(key, until).map_err(|_| TooManyConnections)?;
        held.count += u32::from(is_new);
        Ok(())
    }

    /// Whether there is a connection. `tuple` is that of what the UE sends.
    fn knows(&self, owner: Owner, tuple: &IpTuple, now: Nanos) -> bool {
        let until = self.known.at(&self.key(owner, tuple));
        until.is_some_and(|until| ticks(now) < until)
    }

    /// A segment with FIN or RST, of the UE or to it: its connection ends soon. `tuple` is that of what the UE sends.
    #[cold]
    pub fn close(&mut self, owner: Owner, tuple: &IpTuple, now: Nanos) {
        let key = self.key(owner, tuple);
        let soon = ticks(now) + self.lifetime(tuple.proto, true);
        if self.known.at(&key).is_some_and(|until| until > soon) {
            let _ = self.known.insert(key, soon);
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
        u32::try_from(ticks).unwrap_or(u32::MAX / 4).min(u32::MAX / 4) + PERIOD_TICKS
    }

    fn key(&self, owner: Owner, tuple: &IpTuple) -> [u32; 4] {
        let (mut remote, mut port) = (bits(tuple.addrs.dst()), tuple.dst_port);
        if owner.policy.filtering != Filtering::AddressAndPortDependent {
            port = 0;
        }
        if owner.policy.filtering == Filtering::EndpointIndependent {
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

    /// Looks at some of them, and forgets those that have ended.
    pub fn age(&mut self, now: Nanos) {
        if self.known.is_empty() {
            return;
        }
        let now = ticks(now);
        for _ in 0..AGED_PER_STEP {
            let Some((key, until)) = self.known.nth(self.hand) else {
                self.hand = self.known.after(self.hand);
                continue;
            };
            let [.., session, epoch] = key;
            let held = self.held.get_mut(session as usize);
            let held = held.filter(|held| held.epoch == epoch);
            if held.is_some() && now < until {
                self.hand = self.known.after(self.hand);
                continue;
            }
            if let Some(held) = held {
                held.count = held.count.saturating_sub(1);
            }
            self.known.remove(&key);
        }
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
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
