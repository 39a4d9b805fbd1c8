//! The accelerator's end: what carries out the hosts' requests.
//!
//! A host has a channel for each of its workers, and says by the first one how many: the others wait until then. What
//! they give is in one backend. A session is the channel's that gave its first object, until it is removed there;
//! objects of the node are those of all channels, which say the same, and stay until all that have given them have
//! removed them. When the contact of a channel ends, its sessions are gone, and those of the others stay; with the
//! last contact all is gone.

use std::collections::VecDeque;

use flow::Nanos;
use flow::contract::{
    Backend, Event, FlowOp, Notice, ObjectId, Outcome, Refusal, Reply, Request, SharedBackend, Subject,
};
use flow::{OpId, SessionIndex};

use super::ownership::Ownership;
use super::said_of_node::SaidOfNode;
use super::unanswered::{Asked, Unanswered};
use crate::channel::{self, Channel};
use crate::codec::{self, CodecError, HostCapabilities, Message};

/// Messages for the host that wait for room in a channel: beyond it no requests are taken of it, and no notices.
const MOST_WAITING: usize = 1024;
/// Requests that are carried out in one poll, of all channels that the host has: what they take delays packets.
const REQUESTS_AT_ONCE: usize = 64;
/// The same of one channel, at least.
const LEAST_REQUESTS: usize = 4;
/// Notices that are taken of the backend in one poll.
const NOTICES_AT_ONCE: usize = 512;

/// What happened at this end, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentStats {
    /// Requests that were carried out, or refused.
    pub requests: u64,
    /// Events that were sent, or wait to be.
    pub events: u64,
    /// What the backend said that has no form in octets.
    pub left_out: u64,
    /// Contacts that were ended because of a message that is against the specification.
    pub faults: u64,
    /// Contacts with a host, of all channels.
    pub contacts: u64,
    /// Requests about a session of another channel: refused.
    pub of_others: u64,
}

/// A channel, and what is for the worker at its other end.
#[derive(Debug)]
struct Served {
    channel: Channel,
    /// Messages for the host.
    waiting: VecDeque<Vec<u8>>,
    is_served: bool,
    /// What the host of the contact can do.
    host: HostCapabilities,
    /// Its boot.
    boot: u64,
    /// Contacts that the agent knows of.
    contacts: u64,
    /// Requests that were carried out, or refused.
    requests: u64,
}

/// A backend that a host drives from afar.
#[derive(Debug)]
pub struct Agent<B> {
    /// At least one, with numbers that follow each other.
    channels: Vec<Served>,
    /// How many of them the host has, by what it said last; 1 until then.
    used: usize,
    /// The place whose requests are carried out first in the next poll, before it is brought below `used`.
    turn: usize,
    backend: B,
    unanswered: Unanswered,
    ownership: Ownership,
    said_of_node: SaidOfNode,
    /// Ports without a link, a bit each.
    links_down: u64,
    stats: AgentStats,
}

/// What a channel's configuration says of a backend: [`ChannelConfig::capabilities`](channel::ChannelConfig).
///
/// # Errors
/// When a capability has no form: shared meters, instances or the like beyond what a message can say.
pub fn greeting(backend: &impl Backend) -> Result<Vec<u8>, CodecError> {
    let mut greeting = Vec::new();
    codec::encode(&Message::Capabilities(backend.capabilities()), &mut greeting)?;
    Ok(greeting)
}

impl<B: SharedBackend> Agent<B> {
    /// An agent for the host that makes contact over the channel.
    pub fn new(channel: Channel, backend: B) -> Self {
        Self {
            channels: vec![Served::new(channel)],
            used: 1,
            turn: 0,
            backend,
            unanswered: Unanswered::default(),
            ownership: Ownership::default(),
            said_of_node: SaidOfNode::default(),
            links_down: 0,
            stats: AgentStats::default(),
        }
    }

    /// The same with room for another channel of the host, whose number is one more than that of the last.
    #[must_use]
    pub fn with_channel(mut self, channel: Channel) -> Self {
        self.channels.push(Served::new(channel));
        self
    }

    /// How many channels the host has, of those that there is room for.
    pub const fn channels(&self) -> usize {
        self.used
    }

    /// The place of the channel with this number, if the host has it.
    pub fn place_of(&self, number: u8) -> Option<usize> {
        let place = usize::from(number.checked_sub(self.channel().config().channel)?);
        (place < self.used).then_some(place)
    }

    /// Whether there is contact with a host, by any channel.
    pub fn is_served(&self) -> bool {
        let mut used = self.channels.iter().take(self.used);
        used.any(|served| served.is_served)
    }

    /// Whether there is contact by the channel at a place.
    pub fn is_served_by(&self, place: usize) -> bool {
        self.channels.get(place).is_some_and(|served| served.is_served)
    }

    /// Contacts by the channel at a place that the agent knows of, since the start.
    pub fn contacts_by(&self, place: usize) -> u64 {
        self.channels.get(place).map_or(0, |served| served.contacts)
    }

    /// Requests by the channel at a place, since the start.
    pub fn requests_by(&self, place: usize) -> u64 {
        self.channels.get(place).map_or(0, |served| served.requests)
    }

    /// Sessions of the channel at a place, where the host has several.
    pub fn sessions_by(&self, place: usize) -> usize {
        self.ownership.sessions_of(place)
    }

    /// What the host of this contact can do: the least of what it says by its channels.
    pub fn host(&self) -> HostCapabilities {
        let used = self.channels.iter().take(self.used);
        let mut served = used.filter(|served| served.is_served);
        let first = served
            .next()
            .map_or_else(HostCapabilities::default, |served| served.host);
        served.fold(first, |least, served| least.least(served.host))
    }

    /// Says to the host which ports have no link, a bit each; all have one until it is said.
    pub fn set_links_down(&mut self, down: u64) {
        if std::mem::replace(&mut self.links_down, down) != down {
            self.tell(Notice::Event(Event::Links { down }));
        }
    }

    /// What carries out the requests.
    pub const fn backend(&self) -> &B {
        &self.backend
    }

    /// The same, for packets.
    pub const fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    /// The first channel, to read.
    pub fn channel(&self) -> &Channel {
        &self.channels[0].channel
    }

    /// The same, for frames: [`Channel::receive`], [`Channel::poll_transmit`].
    pub fn channel_mut(&mut self) -> &mut Channel {
        &mut self.channels[0].channel
    }

    /// The channel at a place, to read.
    pub fn channel_at(&self, place: usize) -> Option<&Channel> {
        self.channels.get(place).map(|served| &served.channel)
    }

    /// The same, for frames.
    pub fn channel_at_mut(&mut self, place: usize) -> Option<&mut Channel> {
        self.channels.get_mut(place).map(|served| &mut served.channel)
    }

    /// All channels that the host has, in the order of their numbers.
    pub fn all_channels(&self) -> impl Iterator<Item = &Channel> {
        let used = self.channels.iter().take(self.used);
        used.map(|served| &served.channel)
    }

    /// Counters.
    pub const fn stats(&self) -> &AgentStats {
        &self.stats
    }

    /// Whether a session is that of the channel at a place.
    pub fn owns(&self, place: usize, session: SessionIndex) -> bool {
        self.used == 1 || self.ownership.of(session) == Some(place)
    }

    /// Takes what has come by the channels, lets the backend work, and queues what it has to say.
    pub fn poll(&mut self, now: Nanos) {
        let mut place = 0;
        // The first one says how many there are.
        while place < self.used {
            self.take_events(place, now);
            place += 1;
        }
        let at_once = (REQUESTS_AT_ONCE / self.used).max(LEAST_REQUESTS);
        for behind in 0..self.used {
            self.take_requests((self.turn + behind) % self.used, at_once, now);
        }
        self.turn = (self.turn + 1) % self.used;
        for _ in 0..NOTICES_AT_ONCE {
            // What has no room stays with the backend, which makes no more of it meanwhile.
            if self.channels.iter().take(self.used).any(Served::is_full) {
                break;
            }
            let Some(notice) = self.backend.poll(now) else {
                break;
            };
            self.tell(notice);
        }
        self.channels.iter_mut().take(self.used).for_each(Served::flush);
    }

    fn take_events(&mut self, place: usize, now: Nanos) {
        while let Some(event) = self.channels[place].channel.next_event() {
            match event {
                channel::Event::Up(peer) => {
                    let served = &mut self.channels[place];
                    // One that does not say what it can do is served without.
                    served.host = match codec::decode(&peer.capabilities) {
                        Ok(Message::HostCapabilities(host)) => host,
                        _ => HostCapabilities::default(),
                    };
                    served.boot = peer.boot;
                    self.begin(place, now);
                }
                channel::Event::Down { .. } => self.end(place, now),
            }
        }
    }

    /// A worker of a host is there. The first one finds nothing here, others what the first ones have given.
    fn begin(&mut self, place: usize, now: Nanos) {
        self.stats.contacts += 1;
        self.channels[place].contacts += 1;
        let boot = self.channels[place].boot;
        // A contact that is over by now says nothing about the others.
        let is_there = self.channels[place].channel.peer_boot() == Some(boot);
        let has = match place {
            0 if is_there => usize::from(self.channels[place].host.channels()).min(self.channels.len()),
            _ => self.used,
        };
        if is_there {
            self.end_others(place, (boot, has), now);
        }
        self.used = has;
        self.backend.share_among(has);
        if !self.is_served() {
            self.lose_state(now);
        }
        self.channels[place].is_served = true;
        // The host is ready with what comes behind it.
        let down = self.links_down;
        let served = &mut self.channels[place];
        if place == 0 && down != 0 && served.host.takes_links() {
            self.stats.left_out += served.queue(Notice::Event(Event::Links { down }));
        }
        self.tell_reset(place);
    }

    /// There is contact by the channel at a place with a process of this boot, which `has` that number of channels:
    /// another process, and channels beyond these, are not there any more.
    fn end_others(&mut self, place: usize, (boot, has): (u64, usize), now: Nanos) {
        for (other, served) in self.channels.iter_mut().enumerate() {
            let is_another = served.channel.peer_boot().is_some_and(|other| other != boot);
            if other != place && (is_another || other >= has) {
                served.channel.disconnect(now);
            }
        }
        // Nothing is there of those that have ended when this one learns what is.
        for other in (0..self.used).filter(|other| *other != place) {
            if !self.channels[other].channel.is_up() {
                self.take_events(other, now);
            }
        }
    }

    /// A worker of the host is gone. No packet passes by what it has given: who would count it? Where it was the last
    /// one, nothing stays.
    fn end(&mut self, place: usize, now: Nanos) {
        let served = &mut self.channels[place];
        if !std::mem::take(&mut served.is_served) {
            return;
        }
        served.waiting.clear();
        if !self.is_served() {
            self.unanswered.forget(place);
            return self.lose_state(now);
        }
        self.backend.end_sessions(&self.ownership.end_all_of(place));
        for id in self.said_of_node.end(place) {
            let asked = Asked {
                place,
                id: OpId(0),
                ends: None,
            };
            let request = Request {
                id: OpId(self.unanswered.add(asked)),
                epoch: self.backend.epoch(),
                subject: Subject::Node,
                op: FlowOp::Remove(id),
            };
            self.backend.submit(request);
        }
        self.unanswered.forget(place);
    }

    fn tell_reset(&mut self, place: usize) {
        let epoch = self.backend.epoch();
        self.stats.left_out += self.channels[place].queue(Notice::Event(Event::BackendReset { epoch }));
    }

    fn lose_state(&mut self, now: Nanos) {
        self.ownership.clear();
        self.said_of_node.clear();
        self.backend.reset();
        // Requests that were not carried out are refused now. Of events there are none but of what is gone.
        while let Some(notice) = self.backend.poll(now) {
            if let Notice::Reply(reply) = notice {
                self.tell_reply(reply);
            }
        }
    }

    fn take_requests(&mut self, place: usize, at_once: usize, now: Nanos) {
        for _ in 0..at_once {
            let served = &mut self.channels[place];
            if served.is_full() {
                return;
            }
            let Some(octets) = served.channel.next_message() else {
                return;
            };
            match codec::decode(octets) {
                Ok(Message::Request(request)) => {
                    self.stats.requests += 1;
                    self.channels[place].requests += 1;
                    self.carry_out(place, request);
                }
                Ok(_) | Err(_) => {
                    self.stats.faults += 1;
                    served.channel.disconnect(now);
                    return;
                }
            }
        }
    }

    /// Gives a request to the backend, by a number of its own: those of several channels may be the same.
    fn carry_out(&mut self, place: usize, mut request: Request) {
        if let Some(refusal) = self.of_another(place, &request) {
            self.stats.of_others += 1;
            return self.answer(place, request.id, Err(refusal));
        }
        if self.stays_for_others(place, &request) {
            return self.answer(place, request.id, Ok(Outcome::Done));
        }
        let asked = Asked {
            place,
            id: request.id,
            ends: ended_by(&request),
        };
        request.id = OpId(self.unanswered.add(asked));
        self.backend.submit(request);
    }

    /// Answers a request that is not the backend's.
    fn answer(&mut self, place: usize, id: OpId, outcome: Result<Outcome, Refusal>) {
        self.stats.left_out += self.channels[place].queue(Notice::Reply(Reply { id, outcome }));
    }

    /// Notes which objects of the node there are by which channels, where the host has several. Whether the request
    /// removes one that others have given: one that comes late, of a worker that stood still, takes nothing from them.
    fn stays_for_others(&mut self, place: usize, request: &Request) -> bool {
        if self.used == 1 || request.subject != Subject::Node || request.epoch != self.backend.epoch() {
            return false;
        }
        match &request.op {
            FlowOp::Install(object) | FlowOp::Update(object) | FlowOp::Put(object) => {
                self.said_of_node.give(object.id(), place);
                false
            }
            FlowOp::Remove(id) => self.said_of_node.remove(*id, place),
            FlowOp::Query(_) | FlowOp::Fence => false,
        }
    }

    /// Why a request is not carried out that is about a session of another channel. What gives the first object of a
    /// session makes it the channel's.
    fn of_another(&mut self, place: usize, request: &Request) -> Option<Refusal> {
        let Subject::Session(session) = request.subject else {
            return None;
        };
        if self.used == 1 {
            return None;
        }
        let gives = matches!(request.op, FlowOp::Install(_) | FlowOp::Put(_));
        // One of another epoch is refused, and gives nothing.
        let takes = gives && request.epoch == self.backend.epoch();
        match self.ownership.of(session) {
            Some(owner) if owner == place => None,
            Some(_) if gives => Some(Refusal::Exists),
            Some(_) if matches!(request.op, FlowOp::Fence) => None,
            Some(_) => Some(Refusal::Missing),
            None => {
                if takes {
                    self.ownership.give(session, place);
                    self.backend.assign(session, place);
                }
                None
            }
        }
    }

    fn tell(&mut self, notice: Notice) {
        let event = match notice {
            Notice::Reply(reply) => return self.tell_reply(reply),
            Notice::Event(event) => event,
        };
        if matches!(event, Event::BackendReset { .. }) {
            self.ownership.clear();
            self.said_of_node.clear();
        }
        let is_one = self.used == 1;
        let owner = event.session().map(|session| match is_one {
            true => Some(0),
            false => self.ownership.of(session),
        });
        for (place, served) in self.channels.iter_mut().take(self.used).enumerate() {
            let is_for_it = match (&event, owner) {
                (_, Some(owner)) => owner == Some(place),
                // Whose it would be is not known here.
                (Event::Miss { .. }, _) => place == 0,
                // The first worker's is to say it to all.
                (Event::Links { .. }, _) => place == 0 && served.host.takes_links(),
                _ => true,
            };
            if served.is_served && is_for_it {
                self.stats.events += 1;
                self.stats.left_out += served.queue(Notice::Event(event.clone()));
            }
        }
    }

    fn tell_reply(&mut self, Reply { id, outcome }: Reply) {
        let Some(Asked { place, id, ends }) = self.unanswered.take(id.0) else {
            return;
        };
        let is_gone = matches!(outcome, Ok(_) | Err(Refusal::Missing));
        if let Some(session) = ends.filter(|_| is_gone) {
            self.ownership.end(session, place);
        }
        let served = &mut self.channels[place];
        if served.is_served {
            self.stats.left_out += served.queue(Notice::Reply(Reply { id, outcome }));
        }
    }
}

impl Served {
    fn new(channel: Channel) -> Self {
        Self {
            channel,
            waiting: VecDeque::new(),
            is_served: false,
            host: HostCapabilities::default(),
            boot: 0,
            contacts: 0,
            requests: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_WAITING
    }

    /// Adds what is for the host. How many parts of it have no form.
    fn queue(&mut self, notice: Notice) -> u64 {
        let room = self.channel.config().max_message();
        let mut left_out = 0;
        for part in codec::parts_within(notice, room) {
            let mut encoded = Vec::new();
            // All that a backend says has a form.
            match codec::encode(&part, &mut encoded) {
                Ok(()) => self.waiting.push_back(encoded),
                Err(_) => left_out += 1,
            }
        }
        left_out
    }

    fn flush(&mut self) {
        while let Some(message) = self.waiting.front() {
            if self.channel.send(message).is_err() {
                return;
            }
            self.waiting.pop_front();
        }
    }
}

/// The session that is gone when a request is done.
fn ended_by(request: &Request) -> Option<SessionIndex> {
    match (request.subject, &request.op) {
        (Subject::Session(session), FlowOp::Remove(ObjectId::Session)) => Some(session),
        _ => None,
    }
}
