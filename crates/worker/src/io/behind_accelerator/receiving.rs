//! What comes by the port towards an accelerator: frames of channels, and packets, questions and markers, which wait
//! for their worker.

use flow::{Bucket, Nanos, PortId, WorkerId};
use offload::channel::{self, Discard};
use offload::exception::{self, Class, Exception, FromAccelerator, Marker, Question, Steered};
use packet::PacketBuf;

use super::state::{Awaited, BehindAccelerator, WAITING};
use crate::io::exchange::{Asked, Exchange};
use crate::io::link_ends::Passed;
use crate::io::{Io, PacketMetadata};

/// What the first of several workers has received and has not looked at yet, at most.
const UNSORTED: usize = 2_048;
/// Markers beyond it: packets do not keep them away.
const MARKERS: usize = 64;

impl<I: Io> BehindAccelerator<I> {
    /// Takes a frame that came by the port towards the accelerator.
    pub(super) fn take(&mut self, buf: I::Buf, now: Nanos) {
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
    pub(super) fn accept(&mut self, passed: Passed<I::Buf>, now: Nanos) {
        match passed {
            Passed::Frame(buf) if self.ends.is_first() => self.take(buf, now),
            Passed::Frame(buf) => self.take_control(buf, now),
            // The others have contact, and this one has not: it does not know what is there.
            _ if !self.host.channel().is_up() => self.stats.lost += 1,
            Passed::Exception(class, exchange, buf) => self.have_wait(class, exchange, buf),
            Passed::Question(asked, packet) => {
                self.stats.questions += 1;
                let is_in = self.questions.push(self.place_behind(&packet), asked, packet);
                self.stats.questions_lost += u64::from(!is_in);
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
                self.add_answer(question.number, None);
            }
        }
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
    pub(super) fn steer(&mut self, owner: &dyn Fn(Bucket) -> WorkerId, now: Nanos) {
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
        let number = self.place_behind(&buf);
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
}
