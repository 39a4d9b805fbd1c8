//! The accelerator's end: what carries out the host's requests.

use std::collections::VecDeque;

use flow::Nanos;
use flow::contract::{Backend, Event, Notice};

use crate::channel::{self, Channel};
use crate::codec::{self, CodecError, HostCapabilities, Message};

/// Messages for the host that wait for room in the channel: beyond it no requests are taken, and no notices.
const MOST_WAITING: usize = 1024;
/// Requests that are carried out in one poll.
const REQUESTS_AT_ONCE: usize = 64;
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
    /// Contacts with a host.
    pub contacts: u64,
}

/// A backend that a host drives from afar.
#[derive(Debug)]
pub struct Agent<B> {
    channel: Channel,
    backend: B,
    /// Messages for the host.
    waiting: VecDeque<Vec<u8>>,
    is_served: bool,
    /// What the host of the contact can do.
    host: HostCapabilities,
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

impl<B: Backend> Agent<B> {
    /// An agent for the host that makes contact over the channel.
    pub fn new(channel: Channel, backend: B) -> Self {
        Self {
            channel,
            backend,
            waiting: VecDeque::new(),
            is_served: false,
            host: HostCapabilities::default(),
            stats: AgentStats::default(),
        }
    }

    /// Whether there is contact with a host.
    pub const fn is_served(&self) -> bool {
        self.is_served
    }

    /// What the host of this contact can do.
    pub const fn host(&self) -> HostCapabilities {
        self.host
    }

    /// What carries out the requests.
    pub const fn backend(&self) -> &B {
        &self.backend
    }

    /// The same, for packets.
    pub const fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Its channel, to read.
    pub const fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The same, for frames: [`Channel::receive`], [`Channel::poll_transmit`].
    pub const fn channel_mut(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// Counters.
    pub const fn stats(&self) -> &AgentStats {
        &self.stats
    }

    /// Takes what has come by the channel, lets the backend work, and queues what it has to say.
    pub fn poll(&mut self, now: Nanos) {
        while let Some(event) = self.channel.next_event() {
            match event {
                channel::Event::Up(peer) => {
                    // One that does not say what it can do is served without.
                    self.host = match codec::decode(&peer.capabilities) {
                        Ok(Message::HostCapabilities(host)) => host,
                        _ => HostCapabilities::default(),
                    };
                    self.begin(now);
                }
                channel::Event::Down { .. } => self.end(now),
            }
        }
        self.take_requests(now);
        for _ in 0..NOTICES_AT_ONCE {
            // What has no room stays with the backend, which makes no more of it meanwhile.
            if self.waiting.len() >= MOST_WAITING {
                break;
            }
            let Some(notice) = self.backend.poll(now) else {
                break;
            };
            self.tell(notice);
        }
        self.flush();
    }

    /// A host is there: it finds nothing here.
    fn begin(&mut self, now: Nanos) {
        self.stats.contacts += 1;
        self.lose_state(now);
        self.is_served = true;
        let epoch = self.backend.epoch();
        self.queue(Notice::Event(Event::BackendReset { epoch }));
    }

    /// The host is gone. No packet passes by what it has given: who would count it?
    fn end(&mut self, now: Nanos) {
        self.is_served = false;
        self.lose_state(now);
    }

    fn lose_state(&mut self, now: Nanos) {
        self.waiting.clear();
        self.backend.reset();
        // Requests that were not carried out are refused now, and no reply is expected any more.
        while self.backend.poll(now).is_some() {}
    }

    fn take_requests(&mut self, now: Nanos) {
        for _ in 0..REQUESTS_AT_ONCE {
            if self.waiting.len() >= MOST_WAITING {
                return;
            }
            let Some(octets) = self.channel.next_message() else {
                return;
            };
            match codec::decode(octets) {
                Ok(Message::Request(request)) => {
                    self.stats.requests += 1;
                    self.backend.submit(request);
                }
                Ok(_) | Err(_) => {
                    self.stats.faults += 1;
                    self.channel.disconnect(now);
                    return;
                }
            }
        }
    }

    fn tell(&mut self, notice: Notice) {
        if !self.is_served {
            return;
        }
        match notice {
            Notice::Reply(_) => self.queue(notice),
            Notice::Event(_) => {
                self.stats.events += 1;
                self.queue(notice);
            }
        }
    }

    fn queue(&mut self, notice: Notice) {
        let room = self.channel.config().max_message();
        for part in codec::parts_within(notice, room) {
            let mut encoded = Vec::new();
            // All that a backend says has a form.
            match codec::encode(&part, &mut encoded) {
                Ok(()) => self.waiting.push_back(encoded),
                Err(_) => self.stats.left_out += 1,
            }
        }
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
