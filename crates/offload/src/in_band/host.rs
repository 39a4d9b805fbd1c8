//! The host's end: a [`Backend`] whose requests travel.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use flow::contract::{
    Backend, Capabilities, Epoch, Event, FlowOp, Notice, Object, Outcome, QueueTokens, Refusal, Reply,
    Request,
};
use flow::meter::MeterState;
use flow::{Nanos, OpId};

use crate::channel::{self, Channel, ClockSample};
use crate::codec::{self, HostCapabilities, Joiner, Message};

/// Requests without a reply, at most.
const MOST_OUTSTANDING: usize = 4096;
/// How long the accelerator may take until it replies to anything that it was asked.
const MOST_SILENCE: Duration = Duration::from_secs(1);
/// Messages are not taken while this number of notices waits to be fetched.
const MOST_NOTICES: usize = 1024;

/// What happened at this end, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InBandStats {
    /// Requests that were sent, or wait to be.
    pub requests: u64,
    /// Requests that were refused here: no contact, or too many without a reply.
    pub refused: u64,
    /// Replies to requests.
    pub replies: u64,
    /// Events.
    pub events: u64,
    /// Contacts that were ended because of a message that is against the specification.
    pub faults: u64,
    /// Times that the accelerator did not answer any more.
    pub losses: u64,
}

/// An accelerator, as the host drives it.
#[derive(Debug)]
pub struct InBand {
    channel: Channel,
    /// What the accelerator can do; `None` until it has said so in this contact.
    capabilities: Option<Capabilities>,
    /// The life of its state; `None` until it has said so in this contact.
    epoch: Option<Epoch>,
    outstanding: BTreeSet<OpId>,
    joiner: Joiner,
    /// Ports without a link, a bit each, as far as the accelerator has said.
    links_down: u64,
    /// Relates the accelerator's clock to that of this end.
    clock: Option<ClockSample>,
    /// Messages for which the channel had no room.
    queue: VecDeque<Vec<u8>>,
    notices: VecDeque<Notice>,
    encoded: Vec<u8>,
    /// When a reply came last, or there was nothing to reply to.
    progress: Nanos,
    stats: InBandStats,
}

/// What the channel's configuration of a host says: [`ChannelConfig::capabilities`](channel::ChannelConfig).
pub fn host_greeting(host: HostCapabilities) -> Vec<u8> {
    let mut greeting = Vec::new();
    // All of them have a form.
    let _ = codec::encode(&Message::HostCapabilities(host), &mut greeting);
    greeting
}

impl InBand {
    /// A host that drives what is at the other end of the channel.
    pub fn new(channel: Channel) -> Self {
        Self {
            channel,
            capabilities: None,
            epoch: None,
            outstanding: BTreeSet::new(),
            joiner: Joiner::default(),
            links_down: 0,
            clock: None,
            queue: VecDeque::new(),
            notices: VecDeque::new(),
            encoded: Vec::new(),
            progress: Nanos::ZERO,
            stats: InBandStats::default(),
        }
    }

    /// Whether requests can be given to it: there is contact, and the accelerator has begun with nothing.
    pub const fn is_ready(&self) -> bool {
        self.capabilities.is_some() && self.epoch.is_some()
    }

    /// The accelerator's ports without a link, a bit each; `None` without contact.
    pub fn links_down(&self) -> Option<u64> {
        self.is_ready().then_some(self.links_down)
    }

    /// Requests without a reply.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Counters.
    pub const fn stats(&self) -> &InBandStats {
        &self.stats
    }

    /// Its channel, to read.
    pub const fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The same, for frames: [`Channel::receive`], [`Channel::poll_transmit`].
    pub const fn channel_mut(&mut self) -> &mut Channel {
        &mut self.channel
    }

    fn refuse(&mut self, id: OpId, refusal: Refusal) {
        self.stats.refused += 1;
        let outcome = Err(refusal);
        self.notices.push_back(Notice::Reply(Reply { id, outcome }));
    }

    fn take_events(&mut self) {
        while let Some(event) = self.channel.next_event() {
            match event {
                channel::Event::Up(peer) => {
                    self.joiner = Joiner::default();
                    self.clock = Some(peer.clock);
                    // One that does not say what it can do is given nothing.
                    self.capabilities = match codec::decode(&peer.capabilities) {
                        Ok(Message::Capabilities(capabilities)) => Some(capabilities),
                        _ => None,
                    };
                }
                channel::Event::Down { .. } => self.lose(),
            }
        }
    }

    /// There is no contact any more: what was asked and not replied to is lost, as is all that was given.
    fn lose(&mut self) {
        self.queue.clear();
        for id in std::mem::take(&mut self.outstanding) {
            self.refuse(id, Refusal::OtherEpoch);
        }
        if self.is_ready() {
            self.stats.losses += 1;
            self.notices.push_back(Notice::Event(Event::Unreachable));
        }
        (self.capabilities, self.epoch, self.links_down) = (None, None, 0);
    }

    fn take_messages(&mut self, now: Nanos) {
        while self.notices.len() < MOST_NOTICES {
            let Some(octets) = self.channel.next_message() else {
                return;
            };
            let message = codec::decode(octets).ok();
            let joined = message.and_then(|message| self.joiner.join(message).ok());
            match joined {
                Some(None) => {}
                Some(Some(Message::Reply(mut reply))) => {
                    if self.outstanding.remove(&reply.id) {
                        if let (Ok(Outcome::Meter(state)), Some(clock)) = (&mut reply.outcome, &self.clock) {
                            move_to(state, |moment| clock.own(moment));
                        }
                        if let (Ok(Outcome::Tokens(tokens)), Some(clock)) = (&mut reply.outcome, &self.clock)
                        {
                            tokens.at = clock.own(tokens.at);
                        }
                        self.stats.replies += 1;
                        self.progress = now;
                        self.notices.push_back(Notice::Reply(reply));
                    }
                }
                Some(Some(Message::Event(event))) => self.note_event(event),
                _ => return self.fault(now),
            }
        }
    }

    /// Ends the contact, which cannot continue.
    fn fault(&mut self, now: Nanos) {
        self.stats.faults += 1;
        self.progress = now;
        self.channel.disconnect(now);
        self.take_events();
    }

    fn note_event(&mut self, event: Event) {
        self.stats.events += 1;
        match event {
            Event::BackendReset { epoch } => self.epoch = Some(epoch),
            Event::Unreachable => self.epoch = None,
            Event::Links { down } => self.links_down = down,
            _ => {}
        }
        self.notices.push_back(Notice::Event(event));
    }

    fn flush(&mut self) {
        while let Some(message) = self.queue.front() {
            if self.channel.send(message).is_err() {
                return;
            }
            self.queue.pop_front();
        }
    }
}

impl Backend for InBand {
    /// What the accelerator has said; nothing while there is no contact.
    fn capabilities(&self) -> Capabilities {
        self.capabilities.unwrap_or(Capabilities::NOTHING)
    }

    fn epoch(&self) -> Epoch {
        self.epoch.unwrap_or_default()
    }

    fn room(&self) -> usize {
        match self.is_ready() {
            true => MOST_OUTSTANDING - self.outstanding.len(),
            false => 0,
        }
    }

    fn submit(&mut self, mut request: Request) {
        if !self.is_ready() {
            return self.refuse(request.id, Refusal::OtherEpoch);
        }
        if self.outstanding.len() >= MOST_OUTSTANDING {
            return self.refuse(request.id, Refusal::Full);
        }
        if let (Some(state), Some(clock)) = (state_of(&mut request.op), &self.clock) {
            move_to(state, |moment| clock.peers(moment));
        }
        if let (Some(tokens), Some(clock)) = (tokens_of(&mut request.op), &self.clock) {
            tokens.at = clock.peers(tokens.at);
        }
        let id = request.id;
        self.encoded.clear();
        if codec::encode(&Message::Request(request), &mut self.encoded).is_err() {
            return self.refuse(id, Refusal::Unsupported);
        }
        self.stats.requests += 1;
        self.outstanding.insert(id);
        if !self.queue.is_empty() || self.channel.send(&self.encoded).is_err() {
            self.queue.push_back(self.encoded.clone());
        }
    }

    fn poll(&mut self, now: Nanos) -> Option<Notice> {
        self.take_events();
        self.take_messages(now);
        if self.outstanding.is_empty() {
            self.progress = now;
        } else if now.since(self.progress) > MOST_SILENCE {
            // It is there, and does not do what it is asked for.
            self.fault(now);
        }
        self.flush();
        self.notices.pop_front()
    }

    /// Ends the contact: with the next one the accelerator begins with nothing.
    fn reset(&mut self) {
        self.channel.disconnect(Nanos::ZERO);
        self.take_events();
    }
}

/// Moves what a meter holds to another clock.
fn move_to(state: &mut MeterState, clock: impl Fn(Nanos) -> Nanos) {
    state.at = clock(state.at);
    for window in [&mut state.packets.base, &mut state.packets.additional] {
        // 0: it has not begun.
        if window.ends != Nanos::ZERO {
            window.ends = clock(window.ends);
        }
    }
}

/// What is left of the rates of queues that are given away.
fn tokens_of(op: &mut FlowOp) -> Option<&mut QueueTokens> {
    match op {
        FlowOp::Install(Object::Queues { tokens, .. })
        | FlowOp::Update(Object::Queues { tokens, .. })
        | FlowOp::Put(Object::Queues { tokens, .. }) => tokens.as_deref_mut(),
        _ => None,
    }
}

/// What a meter holds that is given away.
fn state_of(op: &mut FlowOp) -> Option<&mut MeterState> {
    match op {
        FlowOp::Install(Object::Meter { state, .. })
        | FlowOp::Update(Object::Meter { state, .. })
        | FlowOp::Put(Object::Meter { state, .. }) => state.as_mut(),
        _ => None,
    }
}
