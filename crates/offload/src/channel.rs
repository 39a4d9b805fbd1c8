//! A reliable, authenticated channel between a worker of the host and an accelerator, in Ethernet frames on the port
//! between them. `docs/inband.md` specifies what is on the wire.
//!
//! A [`Channel`] is one end. The thread that owns it gives it received frames ([`Channel::receive`]), takes events and
//! messages ([`Channel::next_event`], [`Channel::next_message`]) and sends what [`Channel::poll_transmit`] writes.
//! Messages are opaque. Within a contact each one arrives once and in order; at its end the sender learns how many were
//! not acknowledged. An end holds a constant amount of memory, whatever the peer sends.

use std::fmt;
use std::time::Duration;

use flow::Nanos;
use packet::MacAddr;

mod auth;
mod config;
mod events;
mod frame;
mod handshake;
mod receiver;
mod round_trip;
mod sender;
mod stats;

pub use auth::{Key, ShortKey};
pub use config::{ChannelConfig, ConfigFault, MAX_WINDOW, MIN_MTU, Role, Timers};
pub use events::{DownReason, Event};
pub use frame::{ETHER_TYPE, MAX_MTU, VERSION, channel_of};
pub use handshake::{BootChange, ClockSample, MAX_CAPABILITIES, Peer};
pub use stats::{Discard, Stats};

use auth::{Contact, MacKey, Nonce};
use events::Events;
use frame::{Envelope, Filter, Frame, Header, Kind};
use handshake::Greeting;
use receiver::{Arrival, Receiver};
use sender::{Next, Sender};

/// Writes random octets, of a generator that is fit for keys, to the whole slice.
pub type Random = Box<dyn FnMut(&mut [u8]) + Send>;

/// Why a message is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no contact.
    NoContact,
    /// The queue has no room for it now.
    Full,
    /// It is empty or longer than [`ChannelConfig::max_message`].
    Length,
}

/// What an end holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Octets that wait in the queue.
    pub queued: usize,
    /// DATA frames that are not acknowledged.
    pub in_flight: usize,
    /// The smoothed time until an acknowledgement, once one was measured in this contact.
    pub round_trip: Option<Duration>,
}

/// One end of a channel.
pub struct Channel {
    config: ChannelConfig,
    filter: Filter,
    random: Random,
    hello_key: MacKey,
    state: State,
    /// The number of the last handshake that a host began.
    handshake: u32,
    /// The own nonce of the next contact.
    nonce: Nonce,
    /// The peer's boot in the last contact.
    last_boot: Option<u64>,
    /// A WELCOME that is to be sent.
    welcome: Option<Welcome>,
    /// No HELLO is responded to before.
    welcome_at: Nanos,
    sender: Sender,
    receiver: Receiver,
    events: Events,
    stats: Stats,
    /// The last moment that was passed in.
    now: Nanos,
}

/// What an end is about.
enum State {
    /// A host says HELLO: next at `at`, then after `interval`.
    Calling { at: Nanos, interval: Duration },
    /// A host has verified the accelerator, and repeats CONFIRM from `at` on until it is acknowledged.
    Confirming {
        link: Link,
        peer: Box<Peer>,
        greeting: Box<Greeting>,
        at: Nanos,
    },
    /// An accelerator waits for a host.
    Waiting,
    /// In contact.
    Up(Link),
}

/// The parties of a contact.
struct Link {
    contact: Contact,
    key: MacKey,
    /// The peer's boot.
    boot: u64,
    mac: MacAddr,
    /// When the peer last proved that it is there.
    alive_at: Nanos,
}

/// A response that waits to be sent.
struct Welcome {
    mac: MacAddr,
    handshake: u32,
    boot: u64,
    nonce: Nonce,
    clock: u64,
}

impl Channel {
    /// An end that is in no contact yet. `random` is called for each contact.
    pub fn new(config: ChannelConfig, random: Random) -> Result<Self, ConfigFault> {
        config.check()?;
        let filter = Filter {
            own_mac: config.own_mac,
            peer_mac: config.peer_mac,
            vlan: config.vlan,
            channel: config.channel,
            role: config.role.peer().octet(),
        };
        let mut channel = Self {
            filter,
            random,
            hello_key: MacKey::of_hello(&config.key, config.channel),
            state: State::Waiting,
            handshake: 0,
            nonce: [0; 16],
            last_boot: None,
            welcome: None,
            welcome_at: Nanos::ZERO,
            sender: Sender::new(&config),
            receiver: Receiver::new(&config),
            events: Events::default(),
            stats: Stats::default(),
            now: Nanos::ZERO,
            config,
        };
        if channel.config.role == Role::Accelerator {
            // A host draws one for each handshake.
            (channel.random)(&mut channel.nonce);
        }
        channel.begin();
        Ok(channel)
    }

    /// Whether messages can be sent.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// The peer's address in this contact.
    pub fn peer_mac(&self) -> Option<MacAddr> {
        match &self.state {
            State::Up(link) => Some(link.mac),
            _ => None,
        }
    }

    /// The peer's boot in this contact.
    pub fn peer_boot(&self) -> Option<u64> {
        match &self.state {
            State::Up(link) => Some(link.boot),
            _ => None,
        }
    }

    /// The message authentication code of octets that this end sends beside the channel, in this contact: those of an
    /// [exception frame](crate::exception) that brings a flow along. `None` without a contact. No frame of the channel
    /// has the code of such octets, and none that the peer sends.
    pub fn seal(&self, octets: &[u8]) -> Option<[u8; auth::MAC_LEN]> {
        match &self.state {
            State::Up(link) => Some(link.key.mac_beside(self.config.role.octet(), octets)),
            _ => None,
        }
    }

    /// Whether octets beside the channel are the peer's, in this contact, by their code.
    pub fn verifies(&self, octets: &[u8], mac: &[u8; auth::MAC_LEN]) -> bool {
        match &self.state {
            State::Up(link) => link
                .key
                .verifies_beside(self.config.role.peer().octet(), octets, mac),
            _ => false,
        }
    }

    /// The configuration.
    pub fn config(&self) -> &ChannelConfig {
        &self.config
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Gauges.
    pub fn load(&self) -> Load {
        let (queued, in_flight) = self.sender.load();
        Load {
            queued,
            in_flight,
            round_trip: self.sender.round_trip(),
        }
    }

    /// Queues a message for the peer. It is sent by [`Self::poll_transmit`].
    pub fn send(&mut self, message: &[u8]) -> Result<(), Refused> {
        if !self.is_up() {
            return Err(Refused::NoContact);
        }
        if message.is_empty() || message.len() > self.config.max_message() {
            return Err(Refused::Length);
        }
        if !self.sender.push(message) {
            return Err(Refused::Full);
        }
        self.stats.messages_sent += 1;
        Ok(())
    }

    /// The next event. Events are taken before messages.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// The next message of the peer; with that it is taken, and will be acknowledged. Nothing while there are events
    /// that the user has not taken: so all messages are of the contact that was reported last.
    pub fn next_message(&mut self) -> Option<&[u8]> {
        if !self.events.is_empty() {
            return None;
        }
        let message = self.receiver.next_message(self.now)?;
        self.stats.messages_received += 1;
        Some(message)
    }

    /// Ends the contact, because the upper layer cannot continue it. The peer notices when the next one is made, or
    /// after [`Timers::lost_after`].
    pub fn disconnect(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.down(DownReason::Local);
    }

    /// Takes a frame, with its Ethernet header and without its check sequence. The error is why it is discarded, which
    /// is counted as well.
    pub fn receive(&mut self, octets: &[u8], now: Nanos) -> Result<(), Discard> {
        self.now = self.now.max(now);
        let result =
            Frame::read(octets, &self.filter).and_then(|frame| match (frame.kind, self.config.role) {
                (Kind::Hello, Role::Accelerator) => self.hello(&frame),
                (Kind::Welcome, Role::Host) => self.welcome(&frame),
                (Kind::Confirm, Role::Accelerator) => self.confirm(&frame),
                (Kind::Data | Kind::Ack, _) => self.contact_frame(&frame),
                _ => Err(Discard::Kind),
            });
        self.stats.count(result);
        result
    }

    /// Writes the next frame that is to be sent to `out`, which is cleared before; whether there is one. To be called
    /// until there is none, when all frames that have arrived were received, after messages were queued, and at
    /// [`Self::deadline`].
    pub fn poll_transmit(&mut self, now: Nanos, out: &mut Vec<u8>) -> bool {
        self.now = self.now.max(now);
        if self.lost_at().is_some_and(|at| at <= self.now) {
            self.down(DownReason::Silence);
        }
        let written = match self.state {
            State::Up(_) => self.write_contact_frame(out) || self.write_welcome(out),
            State::Waiting => self.write_welcome(out),
            State::Calling { .. } => self.write_hello(out),
            State::Confirming { .. } => self.write_confirm(out),
        };
        if written {
            self.stats.frames_sent += 1;
        }
        written
    }

    /// When [`Self::poll_transmit`] has something to do at the latest: at once, where this is not after now.
    pub fn deadline(&self) -> Nanos {
        if self.welcome.is_some() {
            return Nanos::ZERO;
        }
        let lost_at = self.lost_at().unwrap_or(Nanos::MAX);
        match self.state {
            State::Calling { at, .. } => at,
            State::Confirming { at, .. } => at.min(lost_at),
            State::Waiting => Nanos::MAX,
            State::Up(_) => self.sender.due().min(self.receiver.ack_at()).min(lost_at),
        }
    }

    /// When contact is lost, unless the peer proves before that it is there.
    fn lost_at(&self) -> Option<Nanos> {
        match &self.state {
            State::Up(link) | State::Confirming { link, .. } => {
                Some(link.alive_at + self.config.timers.lost_after)
            }
            State::Calling { .. } | State::Waiting => None,
        }
    }

    /// Begins a handshake at a host; an accelerator waits for one.
    fn begin(&mut self) {
        if self.config.role == Role::Accelerator {
            self.state = State::Waiting;
            return;
        }
        self.handshake = self.handshake.wrapping_add(1);
        (self.random)(&mut self.nonce);
        self.state = State::Calling {
            at: self.now,
            interval: self.config.timers.hello,
        };
    }

    /// Gives up the contact or the handshake.
    fn down(&mut self, reason: DownReason) {
        match self.state {
            State::Calling { .. } | State::Waiting => return,
            State::Confirming { .. } => {}
            State::Up(_) => self.end_contact(reason),
        }
        self.begin();
    }

    fn end_contact(&mut self, reason: DownReason) {
        let given_up = self.sender.restart(self.now);
        self.receiver.restart();
        self.stats.messages_given_up += given_up;
        self.events.push(Event::Down { reason, given_up });
    }

    fn up(&mut self, link: Link, peer: Peer) {
        self.sender.restart(self.now);
        self.receiver.restart();
        self.last_boot = Some(link.boot);
        self.state = State::Up(link);
        self.stats.contacts += 1;
        self.events.push(Event::Up(peer));
    }

    fn boot_change(&self, boot: u64) -> BootChange {
        match self.last_boot {
            None => BootChange::First,
            Some(last) if last == boot => BootChange::Same,
            Some(_) => BootChange::New,
        }
    }

    /// A HELLO is responded to without keeping anything of it: so a recorded one does not disturb a contact.
    fn hello(&mut self, frame: &Frame<'_>) -> Result<(), Discard> {
        let greeting = Greeting::read(frame.payload).ok_or(Discard::Length)?;
        if self.now < self.welcome_at {
            return Err(Discard::HelloRate);
        }
        frame.verify(&self.hello_key)?;
        self.welcome_at = self.now + self.config.timers.welcome;
        self.welcome = Some(Welcome {
            mac: frame.src,
            handshake: frame.header.handshake.get(),
            boot: frame.header.boot.get(),
            nonce: greeting.nonce,
            clock: greeting.clock.get(),
        });
        Ok(())
    }

    /// At an accelerator: the next contact, with a host of this boot.
    fn contact_with(&self, handshake: u32, host_boot: u64, host_nonce: Nonce) -> Contact {
        Contact {
            channel: self.config.channel,
            handshake,
            host_boot,
            accelerator_boot: self.config.boot,
            host_nonce,
            accelerator_nonce: self.nonce,
        }
    }

    /// At a host: the accelerator has proved that it has the key, for the own nonce.
    fn welcome(&mut self, frame: &Frame<'_>) -> Result<(), Discard> {
        let greeting = Greeting::read(frame.payload).ok_or(Discard::Length)?;
        if greeting.peer_boot.get() != self.config.boot {
            return Err(Discard::Boot);
        }
        let calling = matches!(self.state, State::Calling { .. });
        if !calling || frame.header.handshake.get() != self.handshake || greeting.peer_nonce != self.nonce {
            return Err(Discard::Handshake);
        }
        let boot = frame.header.boot.get();
        let contact = Contact {
            channel: self.config.channel,
            handshake: self.handshake,
            host_boot: self.config.boot,
            accelerator_boot: boot,
            host_nonce: self.nonce,
            accelerator_nonce: greeting.nonce,
        };
        let key = MacKey::of_contact(&self.config.key, &contact);
        frame.verify(&key)?;
        self.state = State::Confirming {
            link: Link {
                contact,
                key,
                boot,
                mac: frame.src,
                alive_at: self.now,
            },
            peer: Box::new(greeting.peer(boot, self.boot_change(boot), self.now)),
            greeting: Box::new(
                self.greeting()
                    .responding(greeting.nonce, boot, greeting.clock.get()),
            ),
            at: self.now,
        };
        Ok(())
    }

    /// At an accelerator: the host has proved that it has the key, for the own nonce. Only now the contact replaces the
    /// last one.
    fn confirm(&mut self, frame: &Frame<'_>) -> Result<(), Discard> {
        let greeting = Greeting::read(frame.payload).ok_or(Discard::Length)?;
        if greeting.peer_boot.get() != self.config.boot {
            return Err(Discard::Boot);
        }
        if let State::Up(link) = &self.state
            && greeting.peer_nonce == link.contact.accelerator_nonce
        {
            // The acknowledgement was lost.
            frame.verify(&link.key)?;
            self.receiver.owe_at(self.now);
            return Err(Discard::Duplicate);
        }
        if greeting.peer_nonce != self.nonce {
            return Err(Discard::Handshake);
        }
        let (handshake, boot) = (frame.header.handshake.get(), frame.header.boot.get());
        let contact = self.contact_with(handshake, boot, greeting.nonce);
        let key = MacKey::of_contact(&self.config.key, &contact);
        frame.verify(&key)?;
        if !self.events.is_empty() {
            return Err(Discard::EventsPending);
        }
        if self.is_up() {
            self.end_contact(DownReason::Replaced);
        }
        let peer = greeting.peer(boot, self.boot_change(boot), self.now);
        let link = Link {
            contact,
            key,
            boot,
            mac: frame.src,
            alive_at: self.now,
        };
        // This one is used up: so a recorded CONFIRM is worth nothing.
        (self.random)(&mut self.nonce);
        self.up(link, peer);
        self.receiver.owe_at(self.now);
        Ok(())
    }

    /// A DATA or ACK frame.
    fn contact_frame(&mut self, frame: &Frame<'_>) -> Result<(), Discard> {
        let (State::Up(link) | State::Confirming { link, .. }) = &self.state else {
            return Err(Discard::NoContact);
        };
        if frame.header.boot.get() != link.boot {
            return Err(Discard::Boot);
        }
        if frame.header.handshake.get() != link.contact.handshake {
            return Err(Discard::Handshake);
        }
        frame.verify(&link.key)?;
        self.confirmed()?;
        let header = frame.header;
        let (acknowledged, bitmap) = (header.acknowledged.get(), header.bitmap.get());
        let Ok(news) = self.sender.acknowledge(acknowledged, bitmap, self.now) else {
            self.down(DownReason::Fault);
            return Err(Discard::Fault);
        };
        self.stats.messages_acknowledged += news.unwrap_or(0);
        let arrival = match frame.kind {
            Kind::Data => Some(
                self.receiver
                    .accept(header.sequence.get(), frame.payload, self.now),
            ),
            _ => None,
        };
        // What can be a replay proves nothing.
        if (news.is_some() || arrival == Some(Arrival::New))
            && let State::Up(link) = &mut self.state
        {
            link.alive_at = self.now;
        }
        match arrival {
            None | Some(Arrival::New) => Ok(()),
            Some(Arrival::Duplicate) => Err(Discard::Duplicate),
            Some(Arrival::Outside) => Err(Discard::Window),
            Some(Arrival::Malformed) => {
                self.down(DownReason::Fault);
                Err(Discard::Fault)
            }
        }
    }

    /// At a host: the first frame of the contact shows that the accelerator has taken CONFIRM.
    fn confirmed(&mut self) -> Result<(), Discard> {
        if !matches!(self.state, State::Confirming { .. }) {
            return Ok(());
        }
        if !self.events.is_empty() {
            return Err(Discard::EventsPending);
        }
        if let State::Confirming { mut link, peer, .. } = std::mem::replace(&mut self.state, State::Waiting) {
            link.alive_at = self.now;
            self.up(link, *peer);
        }
        Ok(())
    }

    /// Gives a frame without a tag the MAC of the contact, as a peer that has the key.
    #[cfg(any(test, feature = "testing"))]
    pub fn seal_frame(&self, frame: &mut [u8]) {
        let (State::Up(link) | State::Confirming { link, .. }) = &self.state else {
            return;
        };
        if let Some((sealed, mac)) = frame
            .get_mut(packet::eth::HEADER_LEN..)
            .and_then(|behind| behind.split_last_chunk_mut::<{ auth::MAC_LEN }>())
        {
            *mac = link.key.mac(sealed);
        }
    }

    /// The host's boot, the accelerator's and the number of the handshake.
    #[cfg(test)]
    fn contact_id(&self) -> Option<(u64, u64, u32)> {
        match &self.state {
            State::Up(Link { contact, .. }) => {
                Some((contact.host_boot, contact.accelerator_boot, contact.handshake))
            }
            _ => None,
        }
    }

    /// Makes `sequence` the number of the next DATA frame of both ends.
    #[cfg(test)]
    fn start_at(&mut self, sequence: u64) {
        self.sender.start_at(sequence);
        self.receiver.start_at(sequence);
    }

    fn greeting(&self) -> Greeting {
        Greeting::new(self.nonce, self.now, self.config.epoch, &self.config.capabilities)
    }

    fn envelope(&self, dst: MacAddr) -> Envelope {
        Envelope {
            dst,
            src: self.config.own_mac,
            vlan: self.config.vlan,
        }
    }

    /// A header whose fields of the transport are 0.
    fn header(&self, kind: Kind, handshake: u32) -> Header {
        frame::header(
            kind,
            self.config.channel,
            self.config.role.octet(),
            handshake,
            self.config.boot,
        )
    }

    fn write_hello(&mut self, out: &mut Vec<u8>) -> bool {
        let State::Calling { at, interval } = &mut self.state else {
            return false;
        };
        if self.now < *at {
            return false;
        }
        *at = self.now + *interval;
        *interval = interval.saturating_mul(2).min(self.config.timers.max_hello);
        let envelope = self.envelope(self.config.peer_mac.unwrap_or(MacAddr::BROADCAST));
        let header = self.header(Kind::Hello, self.handshake);
        frame::write(
            out,
            &envelope,
            header,
            &self.hello_key,
            self.greeting().as_octets(),
        );
        self.stats.handshakes_sent += 1;
        true
    }

    fn write_welcome(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(welcome) = self.welcome.take() else {
            return false;
        };
        let contact = self.contact_with(welcome.handshake, welcome.boot, welcome.nonce);
        let greeting = self
            .greeting()
            .responding(welcome.nonce, welcome.boot, welcome.clock);
        let header = self.header(Kind::Welcome, welcome.handshake);
        let key = MacKey::of_contact(&self.config.key, &contact);
        frame::write(
            out,
            &self.envelope(welcome.mac),
            header,
            &key,
            greeting.as_octets(),
        );
        self.stats.handshakes_sent += 1;
        true
    }

    fn write_confirm(&mut self, out: &mut Vec<u8>) -> bool {
        let now = self.now;
        let again = now + self.config.timers.max_retransmission;
        let (envelope, header) = match &mut self.state {
            State::Confirming {
                link, greeting, at, ..
            } if *at <= now => {
                *at = again;
                greeting.clock = now.0.into();
                let (mac, handshake) = (link.mac, link.contact.handshake);
                (self.envelope(mac), self.header(Kind::Confirm, handshake))
            }
            _ => return false,
        };
        let State::Confirming { link, greeting, .. } = &self.state else {
            return false;
        };
        frame::write(out, &envelope, header, &link.key, greeting.as_octets());
        self.stats.handshakes_sent += 1;
        true
    }

    /// A DATA frame, or an ACK when it is time for one.
    fn write_contact_frame(&mut self, out: &mut Vec<u8>) -> bool {
        let State::Up(link) = &self.state else {
            return false;
        };
        let next = self.sender.next(self.now);
        if next.is_none() && self.now < self.receiver.ack_at() {
            return false;
        }
        let kind = if next.is_some() { Kind::Data } else { Kind::Ack };
        let mut header = self.header(kind, link.contact.handshake);
        let (acknowledged, bitmap) = self.receiver.report();
        header.acknowledged.set(acknowledged);
        header.bitmap.set(bitmap);
        let payload = match next {
            Some(Next::New { sequence, .. } | Next::Again { sequence }) => {
                header.sequence.set(sequence);
                self.sender.payload(sequence)
            }
            None => &[],
        };
        frame::write(out, &self.envelope(link.mac), header, &link.key, payload);
        match next {
            Some(Next::New { heartbeat, .. }) => self.stats.heartbeats_sent += u64::from(heartbeat),
            Some(Next::Again { .. }) => self.stats.retransmissions += 1,
            None => self.stats.acks_sent += 1,
        }
        true
    }
}

impl fmt::Debug for Channel {
    /// Without keys and nonces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("role", &self.config.role)
            .field("channel", &self.config.channel)
            .field("up", &self.is_up())
            .field("load", &self.load())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
