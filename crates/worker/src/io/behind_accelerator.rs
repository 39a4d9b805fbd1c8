//! Ports behind an accelerator: their packets come and go in exception frames, by the port towards it.
//!
//! To a worker they are ports like others, numbered behind those that are its own. What the accelerator has found out
//! about a packet (`Exchange`) is in its buffer's metadata until it is queued to be sent.
//!
//! Each worker has a channel, and sends by its own queue. The first one receives for all ([`LinkEnds`]): what is of a
//! channel goes to its worker, and the others' packets and questions to the workers that own their sessions, in order
//! ([`Io::take_unsorted`]). A marker goes to all, and comes back from each when what came before it is done there.

use std::collections::VecDeque;

use flow::contract::Flow;
use flow::{Bucket, Nanos, PortId, SessionIndex, WorkerId};
use offload::channel::{self, Discard};
use offload::exception::{
    self, Answer, AnswersHeader, AnswersWriter, Class, Exception, FromAccelerator, Marker, Question, Steered,
    Through,
};
use offload::in_band::InBand;
use packet::PacketBuf;

use crate::Batch;
pub use crate::io::accelerator_port::AcceleratorPort;
pub use crate::io::accelerator_port_stats::AcceleratorPortStats;
use crate::io::exchange::{Asked, Exchange};
pub use crate::io::link_ends::LinkEnds;
use crate::io::link_ends::{Passed, Sorting};
use crate::io::{Io, PacketMetadata, Parcel, QueueProgram, Urgency};

/// Bursts that are taken of the port towards the accelerator in a poll: frames of the channel among them must not wait,
/// and what the worker has no time for is cheap to drop here.
const BURSTS: usize = 32;
/// Packets of a port that wait for the worker, by [`Class`]: each has room of its own, whatever there is of the others.
const WAITING: [usize; 3] = [128, 128, 512];
/// Questions that wait for the worker.
const QUESTIONS: usize = 1_024;
/// What the first of several workers has received and has not looked at yet, at most.
const UNSORTED: usize = 2_048;
/// Markers beyond it: packets do not keep them away.
const MARKERS: usize = 64;
/// What is taken of another worker in a poll.
const PASSED: usize = 2_048;
/// The most octets of a frame with answers, behind its EtherType.
const ANSWERS: u16 = 1_500;
/// Frames of the channel that are sent in a poll.
const FRAMES: usize = 64;

/// A marker that is to be sent back when what came before it has been.
struct Awaited {
    number: u64,
    /// Packets that had come by each port before.
    before: Vec<u64>,
}

/// Packets of a port that wait for the worker.
struct Waiting<B> {
    packets: VecDeque<(Class, B)>,
    /// How many of each class wait.
    by_class: [usize; 3],
    /// Packets that have come, and that were taken.
    came: u64,
    taken: u64,
}

/// The queues of a worker, with ports behind an accelerator.
pub struct BehindAccelerator<I: Io> {
    inner: I,
    config: AcceleratorPort,
    host: InBand,
    waiting: Vec<Waiting<I::Buf>>,
    markers: VecDeque<Awaited>,
    raw: Batch<I::Buf>,
    to_send: Batch<I::Buf>,
    /// Of packets that go back with their flow, in this contact.
    counter: u64,
    frame: Vec<u8>,
    questions: VecDeque<(Asked, I::Buf)>,
    answers: AnswersWriter,
    ends: LinkEnds<I::Buf>,
    /// Of several workers at the first one: packets, questions and markers in the order in which they came.
    unsorted: VecDeque<Passed<I::Buf>>,
    /// Of several workers at the first one: packets that came with their bucket, until the end of the poll.
    steered: Vec<(Bucket, Passed<I::Buf>)>,
    /// What the packets are that were given to be sorted.
    sorting: Vec<Sorting>,
    /// Frames and packets that were taken of the port towards the accelerator, or of other workers, and that were
    /// sorted, since the start.
    taken: u64,
    stats: AcceleratorPortStats,
}

impl<I: Io> BehindAccelerator<I> {
    /// The queues of `inner`, and as many ports behind them as the accelerator has that is driven by `host`.
    pub fn new(inner: I, config: AcceleratorPort, host: InBand) -> Self {
        let queue = |_| Waiting {
            packets: VecDeque::with_capacity(WAITING.iter().sum()),
            by_class: [0; 3],
            came: 0,
            taken: 0,
        };
        Self {
            waiting: (0..config.ports).map(queue).collect(),
            inner,
            config,
            host,
            markers: VecDeque::new(),
            raw: Batch::new(),
            to_send: Batch::new(),
            counter: 0,
            frame: Vec::new(),
            questions: VecDeque::with_capacity(QUESTIONS),
            answers: AnswersWriter::default(),
            ends: LinkEnds::alone(),
            unsorted: VecDeque::new(),
            steered: Vec::new(),
            sorting: Vec::new(),
            taken: 0,
            stats: AcceleratorPortStats::default(),
        }
    }

    /// The same of one of several workers. Its channel has the number of that of the first one and its own.
    #[must_use]
    pub fn with_ends(mut self, ends: LinkEnds<I::Buf>) -> Self {
        self.ends = ends;
        self
    }

    /// The queues themselves.
    pub fn inner_mut(&mut self) -> &mut I {
        &mut self.inner
    }

    /// What was counted.
    pub const fn port_stats(&self) -> &AcceleratorPortStats {
        &self.stats
    }

    /// The number that a port has at the accelerator; `None` for a port of this node's.
    fn behind(&self, port: PortId) -> Option<u16> {
        let number = port.index().checked_sub(self.inner.ports())?;
        u16::try_from(number)
            .ok()
            .filter(|number| *number < self.config.ports)
    }

    /// Takes a frame that came by the port towards the accelerator.
    fn take(&mut self, buf: I::Buf, now: Nanos) {
        let ethernet = self.config.ethernet_len();
        let is_exception =
            buf.data().get(ethernet - 2..ethernet) == Some(&exception::ETHER_TYPE.to_be_bytes());
        if !is_exception {
            return self.take_control(buf, now);
        }
        if !self.config.is_from(self.host.channel().peer_mac(), buf.data()) {
            self.stats.foreign += 1;
            return;
        }
        match FromAccelerator::read(buf.data().get(ethernet..).unwrap_or_default()) {
            Ok(FromAccelerator::Exception(header, _)) if header.channel == self.first_channel() => {
                self.take_exception(buf, (&header, Exception::LEN, None), now);
            }
            Ok(FromAccelerator::Steered(Steered { header, bucket }, _))
                if header.channel == self.first_channel() =>
            {
                self.take_exception(buf, (&header, Steered::LEN, Some(bucket)), now);
            }
            Ok(FromAccelerator::Marker(Marker { number, channel })) if channel == self.first_channel() => {
                self.accept_or_sort(Passed::Marker(number), now);
            }
            Ok(FromAccelerator::Questions(questions)) if questions.channel == self.first_channel() => {
                if !self.has_room_to_sort(UNSORTED) {
                    self.stats.lost += 1;
                    return;
                }
                for question in questions {
                    match question {
                        Ok(question) => self.take_question(&question, now),
                        Err(_) => self.stats.foreign += 1,
                    }
                }
            }
            _ => self.stats.foreign += 1,
        }
    }

    /// Gives a frame to the channel that it is of. What is not for it is discarded, and counted there.
    fn take_control(&mut self, buf: I::Buf, now: Nanos) {
        if self.ends.has_others() && self.ends.is_first() {
            let number = channel::channel_of(buf.data());
            let worker = number.and_then(|number| number.checked_sub(self.first_channel()));
            let worker = worker.map_or(0, usize::from);
            if (1..self.ends.workers).contains(&worker) {
                let is_given = self.ends.give(worker, Passed::Frame(buf));
                self.stats.lost += u64::from(!is_given);
                return;
            }
        }
        if self.host.channel_mut().receive(buf.data(), now) == Err(Discard::EtherType) {
            self.stats.foreign += 1;
        }
    }

    /// With several workers it is asked whose it is.
    fn accept_or_sort(&mut self, passed: Passed<I::Buf>, now: Nanos) {
        if !self.ends.has_others() {
            return self.accept(passed, now);
        }
        let most = match passed {
            Passed::Marker(_) => UNSORTED + MARKERS,
            _ => UNSORTED,
        };
        match self.has_room_to_sort(most) {
            true => self.unsorted.push_back(passed),
            false => self.stats.lost += 1,
        }
    }

    fn has_room_to_sort(&self, most: usize) -> bool {
        !self.ends.has_others() || self.unsorted.len() < most
    }

    /// Takes what is for this worker.
    fn accept(&mut self, passed: Passed<I::Buf>, now: Nanos) {
        match passed {
            Passed::Frame(buf) if self.ends.is_first() => self.take(buf, now),
            Passed::Frame(buf) => self.take_control(buf, now),
            // The others have contact, and this one has not: it does not know what is there.
            _ if !self.host.channel().is_up() => self.stats.lost += 1,
            Passed::Exception(class, exchange, buf) => self.have_wait(class, exchange, buf),
            Passed::Question(asked, packet) => {
                self.stats.questions += 1;
                match self.questions.len() < QUESTIONS {
                    true => self.questions.push_back((asked, packet)),
                    false => self.stats.questions_lost += 1,
                }
            }
            Passed::Marker(number) => {
                let before = self.waiting.iter().map(|waiting| waiting.came).collect();
                self.markers.push_back(Awaited { number, before });
            }
        }
    }

    /// What cannot be looked at comes whole, at once or when its time is over.
    fn take_question(&mut self, question: &Question<'_>, now: Nanos) {
        let first = self.inner.ports() as u16;
        if question.port.index() >= self.waiting.len() {
            self.stats.questions += 1;
            self.stats.questions_lost += 1;
            return;
        }
        let packet = self.inner.alloc().and_then(|mut buf| {
            let room = buf.append(question.length.into())?;
            room.get_mut(..question.head.len())?
                .copy_from_slice(question.head);
            buf.set_ingress(PortId(first + question.port.0));
            Some(buf)
        });
        let asked = Asked {
            number: question.number,
            known: question.head.len() as u16,
        };
        match packet {
            Some(packet) => self.accept_or_sort(Passed::Question(asked, packet), now),
            None => {
                self.stats.questions += 1;
                self.answer(question.number, None);
            }
        }
    }

    /// The number of the first worker's channel, which all has that is no channel's.
    fn first_channel(&self) -> u8 {
        self.channel().wrapping_sub(self.ends.worker as u8)
    }

    fn channel(&self) -> u8 {
        self.host.channel().config().channel
    }

    fn take_exception(
        &mut self,
        mut buf: I::Buf,
        (header, header_len, bucket): (&Exception, usize, Option<Bucket>),
        now: Nanos,
    ) {
        let in_front = self.config.ethernet_len() + header_len;
        let first = self.inner.ports() as u16;
        if header.port.index() >= self.waiting.len() {
            self.stats.foreign += 1;
            return;
        }
        if !self.has_room_to_sort(UNSORTED) {
            self.stats.lost += 1;
            return;
        }
        if !buf.trim_front(in_front) || !buf.truncate(header.length.into()) {
            self.stats.lost += 1;
            return;
        }
        buf.set_ingress(PortId(first + header.port.0));
        self.stats.hinted += u64::from(header.user_packet.is_some());
        let (reason, hops) = (header.reason, header.hops);
        let passed = Passed::Exception(header.class, Exchange { reason, hops }, buf);
        match bucket.filter(|_| self.ends.has_others()) {
            Some(bucket) => self.steered.push((bucket, passed)),
            None => self.accept_or_sort(passed, now),
        }
    }

    /// Gives packets to the workers of their buckets, unread: a worker that owns the session of none hands it over.
    fn steer(&mut self, owner: &dyn Fn(Bucket) -> WorkerId, now: Nanos) {
        let mut steered = std::mem::take(&mut self.steered);
        for (bucket, passed) in steered.drain(..) {
            self.stats.steered += 1;
            match owner(bucket).index() {
                0 => self.accept(passed, now),
                worker => {
                    let is_given = self.ends.give(worker, passed);
                    self.stats.lost += u64::from(!is_given);
                }
            }
        }
        self.steered = steered;
    }

    /// A packet of one of the accelerator's ports waits until the worker takes it, if there is room.
    fn have_wait(&mut self, class: Class, exchange: Exchange, mut buf: I::Buf) {
        let number = buf.ingress().index().wrapping_sub(self.inner.ports());
        let waiting = self.waiting.get_mut(number);
        let room = class as usize;
        let Some(waiting) = waiting.filter(|waiting| waiting.by_class[room] < WAITING[room]) else {
            self.stats.lost += 1;
            return;
        };
        if let Some(count) = self.stats.exceptions.get_mut(exchange.reason.index()) {
            *count += 1;
        }
        buf.set_charge(exchange.to_charge());
        waiting.came += 1;
        waiting.by_class[room] += 1;
        waiting.packets.push_back((class, buf));
    }

    /// Sends markers back behind everything that came before them. Of what the worker has taken of a port, some may
    /// wait in its receive backlog.
    fn send_markers(&mut self, in_backlog: &dyn Fn(PortId) -> usize) {
        let first = self.inner.ports() as u16;
        while let Some(Awaited { number, before }) = self.markers.front() {
            let is_done = |(port, (waiting, before)): (u16, (&Waiting<I::Buf>, &u64))| {
                waiting.taken >= *before + in_backlog(PortId(first + port)) as u64
            };
            let mut ports = (0..).zip(self.waiting.iter().zip(before));
            if !ports.all(is_done) {
                return;
            }
            let (channel, number) = (self.channel(), *number);
            // Without a buffer it waits.
            let (Some(to), Some(mut buf)) = (self.host.channel().peer_mac(), self.inner.alloc()) else {
                return;
            };
            self.markers.pop_front();
            let ethernet = self.config.ethernet_len();
            let written = buf.append(ethernet + Marker::LEN).and_then(|out| {
                let header = out.get_mut(ethernet..)?;
                Marker { channel, number }.write_back(header).ok()?;
                self.config.put_ethernet(to, out)
            });
            if written.is_some() {
                self.stats.markers += 1;
                self.send_own(buf);
            }
        }
    }

    /// Sends frames of the channel.
    fn send_channel(&mut self, now: Nanos) {
        let mut frame = std::mem::take(&mut self.frame);
        for _ in 0..FRAMES {
            if !self.host.channel_mut().poll_transmit(now, &mut frame) {
                break;
            }
            // What is not sent is sent again: it is a lost frame to the channel.
            let Some(mut buf) = self.inner.alloc() else { break };
            if let Some(out) = buf.append(frame.len()) {
                out.copy_from_slice(&frame);
                self.send_own(buf);
            }
        }
        self.frame = frame;
    }

    fn send_own(&mut self, buf: I::Buf) {
        if let Err(buf) = self.to_send.push(buf) {
            self.flush();
            let _ = self.to_send.push(buf);
        }
    }

    fn flush(&mut self) {
        if !self.to_send.is_empty() {
            self.inner.tx(self.config.port, &mut self.to_send);
            self.to_send.clear();
        }
    }

    /// Puts the header of a frame that leaves by a port of the accelerator's in front of a packet.
    fn put_send(&mut self, number: u16, buf: &mut I::Buf) -> bool {
        let ethernet = self.config.ethernet_len();
        let length = buf.len();
        let in_front = ethernet + exception::Send::LEN;
        let is_short = length + exception::Send::LEN <= usize::from(self.config.mtu);
        let Some(to) = self.host.channel().peer_mac().filter(|_| is_short) else {
            return false;
        };
        let header = exception::Send {
            channel: self.host.channel().config().channel,
            port: PortId(number),
            length: length as u16,
        };
        let Some(out) = buf.prepend(in_front) else {
            return false;
        };
        let written = out
            .get_mut(ethernet..)
            .is_some_and(|out| header.write(out).is_ok());
        let done = written && self.config.put_ethernet(to, out).is_some();
        if !done {
            buf.trim_front(in_front);
        }
        done
    }
}

impl<I: Io> Io for BehindAccelerator<I> {
    type Buf = I::Buf;

    fn ports(&self) -> usize {
        self.inner.ports() + self.waiting.len()
    }

    fn rx(&mut self, port: PortId, out: &mut Batch<I::Buf>) {
        match self.behind(port) {
            None if port == self.config.port => {}
            None => self.inner.rx(port, out),
            Some(number) => {
                let Some(waiting) = self.waiting.get_mut(usize::from(number)) else {
                    return;
                };
                while !out.is_full() {
                    let Some((class, buf)) = waiting.packets.pop_front() else {
                        break;
                    };
                    waiting.by_class[class as usize] -= 1;
                    waiting.taken += 1;
                    let _ = out.push(buf);
                }
            }
        }
    }

    fn complete_checksums(&mut self, port: PortId, packets: &mut Batch<I::Buf>) {
        // The accelerator has done it.
        if self.behind(port).is_none() {
            self.inner.complete_checksums(port, packets);
        }
    }

    fn is_placed_by_port(&self, port: PortId) -> bool {
        self.behind(port).is_none() && self.inner.is_placed_by_port(port)
    }

    fn choose_queues(&mut self, port: PortId, program: &QueueProgram) {
        // Without a program all frames of the port towards the accelerator come to the first queue.
        if self.behind(port).is_none() && port != self.config.port {
            self.inner.choose_queues(port, program);
        }
    }

    fn has_urgent_queue(&self, port: PortId) -> bool {
        self.behind(port).is_none() && port != self.config.port && self.inner.has_urgent_queue(port)
    }

    fn rx_urgent(&mut self, port: PortId, out: &mut Batch<I::Buf>) {
        if self.behind(port).is_none() {
            self.inner.rx_urgent(port, out);
        }
    }

    fn has_more_than(&self, port: PortId, packets: u16) -> Option<bool> {
        match self.behind(port) {
            None => self.inner.has_more_than(port, packets),
            Some(number) => {
                let waiting = self.waiting.get(usize::from(number))?;
                Some(waiting.packets.len() > usize::from(packets))
            }
        }
    }

    /// What cannot be sent to the accelerator stays, for whatever reason.
    fn tx(&mut self, port: PortId, out: &mut Batch<I::Buf>) {
        let Some(number) = self.behind(port) else {
            return self.inner.tx(port, out);
        };
        let mut framed = std::mem::take(&mut self.raw);
        let mut unfit = Vec::new();
        for mut buf in out.drain() {
            match self.put_send(number, &mut buf) {
                // There is room for a batch.
                true => drop(framed.push(buf)),
                false => unfit.push(buf),
            }
        }
        self.stats.unsent += unfit.len() as u64;
        let packets = framed.len() as u64;
        self.inner.tx(self.config.port, &mut framed);
        self.stats.sent += packets - framed.len() as u64;
        let in_front = self.config.ethernet_len() + exception::Send::LEN;
        for mut buf in framed.drain() {
            buf.trim_front(in_front);
            let _ = out.push(buf);
        }
        unfit.into_iter().for_each(|buf| drop(out.push(buf)));
        self.raw = framed;
    }

    fn bounds_chains(&self) -> bool {
        self.inner.bounds_chains()
    }

    fn most_parts(&self, port: PortId) -> usize {
        match self.behind(port) {
            None => self.inner.most_parts(port),
            Some(_) => self.inner.most_parts(self.config.port),
        }
    }

    fn fills_udp_checksums(&self, port: PortId) -> bool {
        self.behind(port).is_none() && self.inner.fills_udp_checksums(port)
    }

    fn alloc(&mut self) -> Option<I::Buf> {
        self.inner.alloc()
    }

    fn hand_over(&mut self, to: WorkerId, out: &mut Batch<I::Buf>) {
        self.inner.hand_over(to, out);
    }

    fn inbox(&mut self, out: &mut Batch<I::Buf>) {
        self.inner.inbox(out);
    }

    fn inbox_len(&self) -> usize {
        self.inner.inbox_len()
    }

    fn give(&mut self, to: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        self.inner.give(to, parcel)
    }

    fn take_given(&mut self) -> Option<Parcel> {
        self.inner.take_given()
    }

    fn give_host(&mut self, urgency: Urgency, out: &mut Batch<I::Buf>) {
        self.inner.give_host(urgency, out);
    }

    fn take_host(&mut self, out: &mut Batch<I::Buf>) {
        self.inner.take_host(out);
    }

    fn free(&mut self, out: &mut Batch<I::Buf>) {
        self.inner.free(out);
    }

    fn accelerator(&mut self) -> Option<&mut InBand> {
        Some(&mut self.host)
    }

    fn accelerator_state(&self) -> Option<(&InBand, &AcceleratorPortStats)> {
        Some((&self.host, &self.stats))
    }

    fn accelerator_port(&self) -> Option<PortId> {
        Some(self.config.port)
    }

    fn ports_of_its_own(&self) -> usize {
        self.inner.ports()
    }

    fn poll_accelerator(
        &mut self,
        now: Nanos,
        waiting: &dyn Fn(PortId) -> usize,
        owner: &dyn Fn(Bucket) -> WorkerId,
    ) {
        self.send_markers(waiting);
        for _ in 0..BURSTS {
            let mut raw = std::mem::take(&mut self.raw);
            self.inner.rx(self.config.port, &mut raw);
            let is_full = raw.is_full();
            self.taken += raw.len() as u64;
            match self.ends.is_first() {
                true => raw.drain().for_each(|buf| self.take(buf, now)),
                // It came to another queue than the first.
                false => raw.drain().for_each(|buf| {
                    let is_given = self.ends.give(0, Passed::Frame(buf));
                    self.stats.lost += u64::from(!is_given);
                }),
            }
            self.raw = raw;
            if !is_full {
                break;
            }
        }
        if self.ends.has_others() {
            for _ in 0..PASSED {
                let Some(passed) = self.ends.take() else { break };
                self.taken += 1;
                self.accept(passed, now);
            }
            self.steer(owner, now);
        }
        if !self.host.channel().is_up() {
            self.counter = 0;
            self.markers.clear();
            self.questions.clear();
            self.unsorted.clear();
            self.answers = AnswersWriter::default();
        }
    }

    fn flush_accelerator(&mut self, now: Nanos) {
        self.end_answers();
        self.send_channel(now);
        self.flush();
    }

    fn passed_on(&self) -> u64 {
        self.ends.given
    }

    fn taken_of_link(&self) -> u64 {
        self.taken
    }

    fn take_unsorted(&mut self, out: &mut Batch<I::Buf>, now: Nanos) {
        self.sorting.clear();
        while !out.is_full()
            && let Some(passed) = self.unsorted.pop_front()
        {
            match passed {
                Passed::Marker(number) if out.is_empty() => {
                    for worker in 1..self.ends.workers {
                        // One that is lost is followed by another one.
                        let _ = self.ends.give(worker, Passed::Marker(number));
                    }
                    self.accept(Passed::Marker(number), now);
                }
                // It goes behind what was before it.
                Passed::Marker(number) => {
                    self.unsorted.push_front(Passed::Marker(number));
                    break;
                }
                Passed::Exception(class, exchange, buf) => {
                    self.sorting.push(Sorting::Exception(class, exchange));
                    let _ = out.push(buf);
                }
                Passed::Question(asked, buf) => {
                    self.sorting.push(Sorting::Question(asked));
                    let _ = out.push(buf);
                }
                Passed::Frame(_) => {}
            }
        }
    }

    fn sort(&mut self, packets: &mut Batch<I::Buf>, owners: &[WorkerId], now: Nanos) {
        let sorting = std::mem::take(&mut self.sorting);
        self.taken += packets.len() as u64;
        for ((buf, what), owner) in packets.drain().zip(&sorting).zip(owners) {
            let passed = what.passed(buf);
            match owner.index() {
                0 => self.accept(passed, now),
                worker => {
                    let is_given = self.ends.give(worker, passed);
                    self.stats.lost += u64::from(!is_given);
                }
            }
        }
        self.sorting = sorting;
    }

    fn take_questions(&mut self, out: &mut Batch<I::Buf>, asked: &mut Vec<Asked>) {
        asked.clear();
        while !out.is_full()
            && let Some((question, packet)) = self.questions.pop_front()
        {
            asked.push(question);
            let _ = out.push(packet);
        }
    }

    fn answer(&mut self, number: u32, flow: Option<(SessionIndex, &Flow)>) {
        let most = usize::from(self.config.mtu.min(ANSWERS));
        let mut answer = match flow {
            Some((session, flow)) => Answer::ByFlow(session, *flow),
            None => Answer::Whole,
        };
        for _ in 0..2 {
            match self.answers.add(number, &answer, most) {
                Ok(true) => break,
                Ok(false) => self.end_answers(),
                // A flow without a form: its packets come whole.
                Err(_) => answer = Answer::Whole,
            }
        }
        match answer {
            Answer::ByFlow(..) => self.stats.answered += 1,
            Answer::Whole => self.stats.answered_whole += 1,
        }
    }

    fn end_answers(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        let channel = self.host.channel();
        let header = AnswersHeader {
            channel: channel.config().channel,
            counter: self.counter + 1,
        };
        let seal = |octets: &[u8]| channel.seal(octets).unwrap_or_default();
        let mut octets = std::mem::take(&mut self.frame);
        octets.clear();
        let is_written = self.answers.finish(&header, seal, &mut octets).is_ok();
        let to = channel.peer_mac().filter(|_| is_written);
        if let (Some(to), Some(mut buf)) = (to, self.inner.alloc()) {
            let ethernet = self.config.ethernet_len();
            let written = buf.append(ethernet + octets.len()).and_then(|out| {
                out.get_mut(ethernet..)?.copy_from_slice(&octets);
                self.config.put_ethernet(to, out)
            });
            if written.is_some() {
                self.counter += 1;
                self.send_own(buf);
            }
        }
        self.frame = octets;
    }

    fn exchange_of(&self, packet: &I::Buf) -> Option<Exchange> {
        self.behind(packet.ingress())?;
        Exchange::of_charge(packet.charge())
    }

    fn put_through(&mut self, packet: &mut I::Buf, session: SessionIndex, flow: &Flow) -> bool {
        let (Some(number), Some(exchange)) = (self.behind(packet.ingress()), self.exchange_of(packet)) else {
            return false;
        };
        let channel = self.host.channel();
        let header = Through {
            channel: channel.config().channel,
            hops: exchange.hops,
            session,
            counter: self.counter + 1,
            port: PortId(number),
            length: packet.len() as u16,
            flow: *flow,
        };
        let ethernet = self.config.ethernet_len();
        let mut written = [0; Through::MAX_LEN];
        let seal = |octets: &[u8]| channel.seal(octets).unwrap_or_default();
        let header = header.write(&mut written, seal).ok();
        let header = header.and_then(|octets| written.get(..octets));
        let is_short = |header: &&[u8]| packet.len() + header.len() <= usize::from(self.config.mtu);
        let (Some(header), Some(to)) = (header.filter(is_short), channel.peer_mac()) else {
            self.stats.unsent += 1;
            return false;
        };
        let Some(out) = packet.prepend(ethernet + header.len()) else {
            self.stats.unsent += 1;
            return false;
        };
        // There is room for both.
        let _ = self.config.put_ethernet(to, out);
        if let Some(behind) = out.get_mut(ethernet..) {
            behind.copy_from_slice(header);
        }
        self.counter += 1;
        self.stats.through += 1;
        true
    }
}
