//! Ports behind an accelerator: their packets come and go in exception frames, by the port towards it.
//!
//! To a worker they are ports like others, numbered behind those that are its own. What the accelerator has found out
//! about a packet (`Exchange`) is in its buffer's metadata until it is queued to be sent.
//!
//! Each worker has a channel, and sends by its own queue. The first one receives for all ([`LinkEnds`]): what is of a
//! channel goes to its worker, and the others' packets and questions to the workers that own their sessions, in order
//! ([`Io::take_unsorted`]). A marker goes to all, and comes back from each when what came before it is done there.

mod receiving;
mod sending;
mod state;

use flow::contract::Flow;
use flow::{Bucket, Nanos, PortId, SessionIndex, WorkerId};
use offload::exception::{self, AnswersWriter, Through};
use offload::in_band::InBand;
use packet::PacketBuf;

pub use self::state::BehindAccelerator;
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
/// What is taken of another worker in a poll.
const PASSED: usize = 2_048;

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
        self.send_answers();
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
            && let Some((question, packet)) = self.questions.pop()
        {
            asked.push(question);
            let _ = out.push(packet);
        }
    }

    fn answer(&mut self, number: u32, flow: Option<(SessionIndex, &Flow)>) {
        self.add_answer(number, flow);
    }

    fn end_answers(&mut self) {
        self.send_answers();
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
