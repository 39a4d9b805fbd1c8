//! The node: an engine, the agent that its host drives in-band, and the exceptions between the two. One thread owns it.
//!
//! All that the host sends comes in by one port: control frames of its channels, one for each of its workers, and
//! exception frames. A poll takes these first, then lets the agent carry out requests and the engine pass packets, and
//! sends what is for the host: control frames before all others, exceptions, and behind them a marker if flows were put
//! that came with packets. Exceptions, questions and markers are one stream, of which the host says itself which worker
//! is to have what; a marker is back when all workers in contact have sent it back.

mod answers;
mod config;
mod frames;
mod stats;
mod view;

use core::fmt;
use core::time::Duration;

use flow::Nanos;
use flow::contract::{Epoch, Refusal};
use flow::table_backend::TableBackend;
use offload::channel::{self, Channel, ChannelConfig, ConfigFault, MAX_MTU, Random, Role};
use offload::exception::{Class, MAX_HOPS, Marker, Reason, ReplayWindow, Send, Through};
use offload::in_band::{Agent, greeting};
use packet::{Addrs, PacketBuf};

pub use self::config::{NodeConfig, NodeError};
use self::frames::{Envelope, HostFrame, Said};
pub use self::stats::NodeStats;
pub use self::view::{ChannelView, NodeView};
use crate::accelerator::config::PartialMode;
use crate::accelerator::engine::Engine;
use crate::accelerator::engine_tables::EngineTables;
use crate::accelerator::exceptions::Exception;
use crate::io::{Io, PacketMetadata};
use crate::{BURST, Batch, PollReport};

/// Bursts that are taken of the host's port in one poll.
const HOST_BURSTS: usize = 4;
/// How long a marker is waited for before another one is sent.
const MARKER_AGAIN: Duration = Duration::from_millis(5);
/// The most octets of a control frame: an Ethernet header with a tag comes before its MTU.
const MAX_CONTROL: usize = MAX_MTU + 18;

/// An accelerator that a host drives in-band.
pub struct Node<I: Io> {
    link: HostLink<I>,
    /// Frames of the host's port.
    received: Batch<I::Buf>,
    /// Frames for it.
    out: Batch<I::Buf>,
    /// The classes of exceptions in `out`.
    classes: Vec<Class>,
}

/// What frames of the host change.
struct HostLink<I: Io> {
    agent: Agent<TableBackend<EngineTables<I>>>,
    host_mtu: usize,
    /// Whether it is in partial mode, whatever the host says.
    is_partial: bool,
    /// By channel.
    workers: Vec<FarWorker>,
    /// The life of what is held, when the agent last worked.
    epoch: Epoch,
    /// The number of the next marker, from 1. Flows that are put until it is sent settle with it.
    marker: u64,
    /// Whether there are such flows.
    is_marker_due: bool,
    /// The last marker that came back from all workers.
    echoed: u64,
    /// When another marker is sent if the last one has not come back.
    marker_again: Nanos,
    stats: NodeStats,
    scratch: Vec<u8>,
    /// Those of one frame, while they are followed.
    answers: Vec<answers::ReadAnswer>,
}

/// A worker of the host, at the other end of its channel.
#[derive(Default)]
struct FarWorker {
    /// How many contacts there were when the agent last worked.
    contacts: u64,
    /// Of this contact.
    replay: ReplayWindow,
    /// The last marker that came back from it.
    echoed: u64,
}

impl<I: Io> Node<I> {
    /// A node that holds nothing, and waits for a host. `random` is that of its channel.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn new(config: NodeConfig, io: I, random: Random) -> Result<Self, NodeError> {
        let capabilities = config.capabilities();
        let NodeConfig {
            mut engine,
            mut channel,
            host_mtu,
            is_partial,
            ..
        } = config;
        engine.network = Default::default();
        // A host that is away for less than that comes back to its flows.
        engine.settling_time = engine.settling_time.max(2 * channel.timers.lost_after);
        let tables = EngineTables::new(Engine::new(engine, io)?);
        let backend = TableBackend::new(capabilities, Epoch(1), tables);
        (channel.role, channel.capabilities) = (Role::Accelerator, greeting(&backend)?);
        let epoch = flow::contract::Backend::epoch(&backend);
        Ok(Self {
            link: HostLink {
                agent: Agent::new(Channel::new(channel, random)?, backend),
                host_mtu,
                is_partial,
                workers: vec![FarWorker::default()],
                epoch,
                marker: 1,
                is_marker_due: false,
                echoed: 0,
                marker_again: Nanos::ZERO,
                stats: NodeStats::default(),
                scratch: Vec::with_capacity(MAX_CONTROL),
                answers: Vec::with_capacity(usize::from(u8::MAX) + 1),
            },
            received: Batch::new(),
            out: Batch::new(),
            classes: Vec::with_capacity(BURST),
        })
    }

    /// The same for a host with several workers: `random` of each channel beside the first one. Channels beyond 256 are
    /// left out.
    ///
    /// # Errors
    /// See [`NodeError`].
    pub fn with_channels(mut self, random: impl IntoIterator<Item = Random>) -> Result<Self, ConfigFault> {
        let first = self.link.agent.channel().config().clone();
        for (number, random) in (first.channel..=u8::MAX).skip(1).zip(random) {
            let config = ChannelConfig {
                channel: number,
                ..first.clone()
            };
            let channel = Channel::new(config, random)?;
            self.link.agent = self.link.agent.with_channel(channel);
            self.link.workers.push(FarWorker::default());
        }
        Ok(self)
    }

    /// Works for a moment: what the host has sent, a burst of each port of the network, and what is for the host.
    pub fn poll(&mut self, now: Nanos) -> PollReport {
        let received = self.take_host_frames(now);
        self.link.work(now);
        let engine = self.link.engine_mut();
        let report = engine.poll(now);
        self.link.tell_reached();
        let sent = self.send_control(now) + self.send_questions();
        let sent = sent + self.send_exceptions(now) + self.send_marker(now);
        let stats = self.engine().stats();
        PollReport {
            rx: report.rx + received,
            tx: report.tx + sent,
            waiting: (stats.settling.held + stats.asking.held + stats.exceptions_waiting + stats.queued)
                as u64,
            ..report
        }
    }

    /// Whether it holds no sessions: it does not, or its host gives none.
    pub const fn is_partial(&self) -> bool {
        self.engine().partial.is_some()
    }

    /// Whether there is contact with a host. Without it all packets are exceptions.
    pub fn is_served(&self) -> bool {
        self.link.agent.is_served()
    }

    /// Has the host told which ports of the network have no link, a bit each by their numbers.
    pub fn set_links_down(&mut self, down: u64) {
        self.link.agent.set_links_down(down);
    }

    /// When a poll has something to do at the latest, if no frame comes.
    pub fn deadline(&self) -> Nanos {
        let all = self.link.agent.all_channels().map(Channel::deadline);
        all.min().unwrap_or(Nanos::MAX)
    }

    /// Counters of what is between node and host.
    pub const fn stats(&self) -> &NodeStats {
        &self.link.stats
    }

    /// The agent, to read: its channel, backend and counters.
    pub const fn agent(&self) -> &Agent<TableBackend<EngineTables<I>>> {
        &self.link.agent
    }

    /// The engine, to read.
    pub const fn engine(&self) -> &Engine<I> {
        self.link.agent.backend().tables().engine()
    }

    /// The engine's packet I/O, and what is not the host's to say: links of LAGs.
    pub const fn engine_mut(&mut self) -> &mut Engine<I> {
        self.link.engine_mut()
    }

    /// Of each burst control frames come first.
    fn take_host_frames(&mut self, now: Nanos) -> u64 {
        let mut frames = 0;
        for _ in 0..HOST_BURSTS {
            self.link.engine_mut().host_rx(&mut self.received);
            if self.received.is_empty() {
                break;
            }
            frames += self.received.len() as u64;
            let is_full = self.received.is_full();
            let controls = self
                .received
                .iter()
                .filter(|frame| self.link.take_control(frame, now))
                .count();
            if controls > 0 {
                self.link.work(now);
            }
            let envelope = self.link.envelope();
            for frame in self.received.drain() {
                match frames::kind_of(frame.data(), envelope.as_ref()) {
                    HostFrame::Control => {}
                    HostFrame::Exception(begin) => self.link.take(frame, begin.into(), now),
                    HostFrame::Other => self.link.stats.ignored += 1,
                }
            }
            if !is_full {
                break;
            }
        }
        frames
    }

    /// What finds no room is sent again later.
    fn send_control(&mut self, now: Nanos) -> u64 {
        let link = &mut self.link;
        let mut all = 0;
        for place in 0..link.agent.channels() {
            while !self.out.is_full() && link.next_control(place, now) {
                let buf = link.engine_mut().alloc();
                let frame = buf.and_then(|mut buf| frames::fill(&mut buf, &link.scratch).then_some(buf));
                match frame {
                    Some(frame) => drop(self.out.push(frame)),
                    None => link.stats.control_lost += 1,
                }
            }
            let (sent, left) = link.transmit(&mut self.out);
            link.stats.control_lost += left as u64;
            all += sent;
        }
        all
    }

    /// A frame that finds no room is lost: what it asks about goes to the host when its time is over.
    fn send_questions(&mut self) -> u64 {
        let envelope = self.link.envelope();
        let (link, out) = (&mut self.link, &mut self.out);
        if !link.engine_mut().has_questions() {
            return 0;
        }
        let questions = link.engine_mut().take_questions();
        let (channel, mtu) = (link.agent.channel().config().channel, link.host_mtu);
        let mut all = 0;
        if let Some(envelope) = envelope {
            answers::frames_of(&questions, channel, mtu, |octets| {
                let frame = link.engine_mut().alloc();
                match frame.and_then(|frame| frames::with_envelope(frame, &envelope, octets)) {
                    Some(frame) => drop(out.push(frame)),
                    None => link.stats.questions_lost += 1,
                }
                if out.is_full() {
                    all += link.transmit_questions(out);
                }
            });
            all += link.transmit_questions(out);
        }
        link.engine_mut().questions_sent(questions);
        all
    }

    fn send_exceptions(&mut self, now: Nanos) -> u64 {
        let envelope = self.link.envelope();
        let link = &mut self.link;
        let mut all = 0;
        loop {
            self.classes.clear();
            let mut is_any = false;
            while !self.out.is_full()
                && let Some(exception) = link.engine_mut().next_exception()
            {
                is_any = true;
                if let Some((class, frame)) = link.frame_of(exception, envelope.as_ref(), now) {
                    self.classes.push(class);
                    let _ = self.out.push(frame);
                }
            }
            if !is_any {
                return all;
            }
            let (sent, left) = link.transmit(&mut self.out);
            let (gone, lost) = self.classes.split_at(self.classes.len().saturating_sub(left));
            gone.iter()
                .for_each(|class| link.stats.exceptions[*class as usize] += 1);
            lost.iter()
                .for_each(|class| link.stats.lost[*class as usize] += 1);
            all += sent;
        }
    }

    /// A marker that finds no room is sent behind the next exceptions. Another one says what one that was lost has
    /// said.
    fn send_marker(&mut self, now: Nanos) -> u64 {
        let link = &mut self.link;
        let is_lost = link.echoed + 1 < link.marker
            && now >= link.marker_again
            && link.engine_mut().stats().settling.flows > 0;
        let is_due = link.is_marker_due || is_lost || link.engine_mut().wants_marker(now);
        let Some(envelope) = link.envelope().filter(|_| is_due) else {
            return 0;
        };
        let Some(mut frame) = link.engine_mut().alloc() else {
            return 0;
        };
        let mut octets = [0; 18 + Marker::LEN];
        let marker = Marker {
            channel: link.agent.channel().config().channel,
            number: link.marker,
        };
        envelope.write(&mut octets);
        let end = envelope.len() + Marker::LEN;
        let is_written = marker.write(&mut octets[envelope.len()..end]).is_ok();
        if !is_written || !frames::fill(&mut frame, &octets[..end]) {
            return 0;
        }
        let _ = self.out.push(frame);
        let (sent, _) = link.transmit(&mut self.out);
        if sent > 0 {
            link.stats.markers += 1;
            link.marker += 1;
            link.is_marker_due = false;
            link.marker_again = now + MARKER_AGAIN;
            let next = link.marker as u32;
            link.engine_mut().marker_sent(next, now);
        }
        sent
    }
}

impl<I: Io> HostLink<I> {
    const fn engine_mut(&mut self) -> &mut Engine<I> {
        self.agent.backend_mut().tables_mut().engine_mut()
    }

    /// The addresses of exception frames; `None` without contact. All workers of the host have the same.
    fn envelope(&self) -> Option<Envelope> {
        let channel = self.agent.all_channels().find(|channel| channel.is_up())?;
        let config = channel.config();
        Some(Envelope {
            own: config.own_mac,
            host: channel.peer_mac()?,
            vlan: config.vlan,
        })
    }

    /// The next control frame of the channel at a place, to be sent, is there to be read.
    fn next_control(&mut self, place: usize, now: Nanos) -> bool {
        let channel = self.agent.channel_at_mut(place);
        channel.is_some_and(|channel| channel.poll_transmit(now, &mut self.scratch))
    }

    /// Lets the agent work. What it was given of the network counts when nothing more comes.
    fn work(&mut self, now: Nanos) {
        let requests = self.agent.stats().requests;
        self.agent.poll(now);
        if self.agent.stats().requests == requests {
            flow::table_backend::BackendTables::fence_node(self.agent.backend_mut().tables_mut());
        }
        for (place, worker) in self.workers.iter_mut().enumerate().take(self.agent.channels()) {
            let contacts = self.agent.contacts_by(place);
            if contacts != worker.contacts {
                // What is marked already has not gone to it.
                *worker = FarWorker {
                    contacts,
                    replay: ReplayWindow::default(),
                    echoed: self.marker - 1,
                };
            }
        }
        let epoch = flow::contract::Backend::epoch(self.agent.backend());
        if epoch != self.epoch {
            self.epoch = epoch;
            self.engine_mut().give_up_asking(now);
            self.engine_mut().give_up_settling();
        }
        if self.echoed + 1 < self.marker {
            self.note_echoes(now);
        }
        let (is_served, host) = (self.agent.is_served(), self.agent.host());
        let is_partial = self.is_partial || is_served && host.is_partial();
        let partial = is_partial.then_some(PartialMode {
            steers: is_served && host.takes_steered(),
        });
        let asks = is_served && host.answers() && !is_partial;
        if asks != self.engine_mut().asks() {
            self.engine_mut().set_asking(asks, now);
        }
        self.engine_mut().set_partial(partial);
    }

    fn tell_reached(&mut self) {
        while let Some(session) = self.engine_mut().next_reached() {
            self.agent.backend_mut().tell_reached(session);
        }
    }

    /// Gives a control frame to the channel. Whether it is one.
    fn take_control(&mut self, frame: &I::Buf, now: Nanos) -> bool {
        if frames::kind_of(frame.data(), None) != HostFrame::Control {
            return false;
        }
        self.stats.control += 1;
        if !frame.is_chained() {
            receive(&mut self.agent, frame.data(), now);
        } else if frame.len() <= MAX_CONTROL {
            self.scratch.clear();
            let octets = &mut self.scratch;
            frame.for_each_part(&mut |part| octets.extend_from_slice(part));
            receive(&mut self.agent, &self.scratch, now);
        }
        true
    }

    /// Takes an exception frame of the host, whose header is behind `begin` octets.
    fn take(&mut self, mut frame: I::Buf, begin: usize, now: Nanos) {
        let length = frame.len();
        let octets = match frame.gather(length) {
            true => frame.data().get(begin..).unwrap_or_default(),
            // It is longer than a buffer can be read at once.
            false => &[],
        };
        // Which worker's it is, says the octet behind version and type.
        let number = octets.get(2).copied().unwrap_or_default();
        let place = self.agent.place_of(number);
        let Some((place, channel)) = place.and_then(|place| Some((place, self.agent.channel_at(place)?)))
        else {
            self.stats.malformed += 1;
            return;
        };
        let said = frames::read(octets, number, |octets, mac| channel.verifies(octets, mac));
        match said {
            None => self.stats.malformed += 1,
            Some(Said::Forged) => self.stats.forged += 1,
            Some(Said::Marker(marker)) => self.take_echo(place, marker.number, now),
            Some(Said::Send(send)) => self.send(frame, begin, &send, now),
            Some(Said::Through(through, header)) => {
                self.pass_through(place, frame, begin + header, &through, now);
            }
            Some(Said::Answers(header, answers)) => {
                if self.is_new(place, header.counter) {
                    self.stats.answers += 1;
                    let to = (&mut self.agent, place);
                    answers::follow(to, &mut self.stats, answers, &mut self.answers, now);
                }
            }
        }
    }

    /// Only what was sent comes back, each marker once from each worker: an earlier one says nothing new.
    fn take_echo(&mut self, place: usize, number: u64, now: Nanos) {
        let Some(worker) = self.workers.get_mut(place) else {
            return;
        };
        if number <= worker.echoed || number >= self.marker {
            return;
        }
        worker.echoed = number;
        self.note_echoes(now);
    }

    /// What all workers in contact have sent back is done, and so it is when one that has not is gone.
    fn note_echoes(&mut self, now: Nanos) {
        let workers = self.workers.iter().enumerate().take(self.agent.channels());
        let served = workers.filter(|(place, _)| self.agent.is_served_by(*place));
        let by_all = served.map(|(_, worker)| worker.echoed).min().unwrap_or_default();
        if by_all > self.echoed {
            self.echoed = by_all;
            self.stats.echoes += 1;
            self.engine_mut().marker_echoed(by_all as u32);
            self.engine_mut().settled(by_all as u32, now);
        }
    }

    fn send(&mut self, mut frame: I::Buf, begin: usize, send: &Send, now: Nanos) {
        let is_port = self.engine_mut().is_of_network(send.port);
        if !is_port || !frames::strip(&mut frame, begin + Send::LEN, send.length) {
            self.stats.malformed += 1;
            return;
        }
        self.stats.sent += 1;
        self.engine_mut().send(send.port, frame, now);
    }

    /// Whether an authentic frame is of this contact, and was not there before.
    fn is_new(&mut self, place: usize, counter: u64) -> bool {
        let is_served = self.agent.is_served_by(place);
        let channel = self.agent.channel_at(place);
        let contacts = channel.map(|channel| channel.stats().contacts);
        let worker = self.workers.get_mut(place).filter(|_| is_served);
        // A contact of which the agent does not know yet begins with nothing.
        let Some(worker) = worker.filter(|worker| contacts == Some(worker.contacts)) else {
            self.stats.forged += 1;
            return false;
        };
        let is_new = worker.replay.take(counter);
        self.stats.replayed += u64::from(!is_new);
        is_new
    }

    /// A packet that brings its flow along, behind `begin` octets: the flow is put, and the packet passes by it.
    fn pass_through(&mut self, place: usize, mut frame: I::Buf, begin: usize, through: &Through, now: Nanos) {
        if !self.is_new(place, through.counter) {
            return;
        }
        let is_port = self.engine_mut().is_of_network(through.port);
        if !is_port || !frames::strip(&mut frame, begin, through.length) {
            self.stats.malformed += 1;
            return;
        }
        frame.set_ingress(through.port);
        let (marker, hops) = (self.marker as u32, through.hops + 1);
        let owns = self.agent.owns(place, through.session);
        let backend = self.agent.backend_mut();
        backend.tables_mut().settle_with(Some(marker));
        let put = match owns {
            true => backend.put_now(through.session, &through.flow, now),
            false => Err(Refusal::Missing),
        };
        backend.tables_mut().settle_with(None);
        let reason = match put {
            Ok(()) => {
                self.stats.through += 1;
                self.is_marker_due = true;
                return self.engine_mut().reinject(frame, hops, now);
            }
            Err(Refusal::Full) => Reason::NoFlow,
            Err(_) => Reason::NoSession,
        };
        self.stats.refused += 1;
        self.engine_mut()
            .give_again(frame, &through.flow.key, (reason, hops), now);
    }

    /// The frame of an exception; `None` where it cannot be one, which is counted.
    fn frame_of(
        &mut self,
        mut exception: Exception<I::Buf>,
        envelope: Option<&Envelope>,
        now: Nanos,
    ) -> Option<(Class, I::Buf)> {
        // The frame names a port alone: a packet that came in again was exchanged with ourselves.
        exception.hops += exception.packet.ingress().recirculations();
        if exception.hops > MAX_HOPS {
            self.stats.too_many_hops += 1;
            return None;
        }
        let (channel, engine) = (
            self.agent.channel().config().channel,
            self.agent.backend().tables().engine(),
        );
        let ingress = exception.packet.ingress();
        let ends_tunnels = |vlan, addrs: &Addrs| engine.ends_tunnels((ingress, vlan), addrs);
        let header = frames::header_of(&exception, channel, now, ends_tunnels);
        let Some(envelope) = envelope else {
            self.stats.lost[header.class as usize] += 1;
            return None;
        };
        let said = (&header, exception.bucket);
        if !frames::wrap(&mut exception.packet, said, envelope, self.host_mtu) {
            self.stats.too_long += 1;
            return None;
        }
        self.stats.steered += u64::from(exception.bucket.is_some());
        Some((header.class, exception.packet))
    }

    fn transmit_questions(&mut self, out: &mut Batch<I::Buf>) -> u64 {
        let (sent, left) = self.transmit(out);
        self.stats.questions += sent;
        self.stats.questions_lost += left as u64;
        sent
    }

    /// Sends frames to the host; how many went, and how many found no room and are dropped.
    fn transmit(&mut self, out: &mut Batch<I::Buf>) -> (u64, usize) {
        if out.is_empty() {
            return (0, 0);
        }
        let frames = out.len();
        self.engine_mut().host_tx(out);
        let left = out.len();
        if left > 0 {
            self.engine_mut().io_mut().free(out);
            out.clear();
        }
        ((frames - left) as u64, left)
    }
}

/// Gives a control frame to its channel. What is discarded is counted there; by the first one, where the host has no
/// such channel.
fn receive<B: flow::contract::SharedBackend>(agent: &mut Agent<B>, octets: &[u8], now: Nanos) {
    let number = channel::channel_of(octets);
    let place = number.and_then(|number| agent.place_of(number)).unwrap_or(0);
    if let Some(channel) = agent.channel_at_mut(place) {
        let _ = channel.receive(octets, now);
    }
}

impl<I: Io> fmt::Debug for Node<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("is_served", &self.is_served())
            .field("stats", self.stats())
            .finish_non_exhaustive()
    }
}
