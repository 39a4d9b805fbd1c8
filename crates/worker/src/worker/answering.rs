//! Answers to an accelerator that asks by which flow a packet passes, and shows its first octets.

use flow::{Nanos, PortId, SessionIndex, cycles};
use packet::PacketBuf;

use super::receive::Source;
use super::state::Worker;
use crate::burst::descriptor::{Descriptor, Fate, Kind, PacketFlags};
use crate::io::Io;
use crate::offload::homes::Place;

/// Bursts of questions that are answered in a poll.
const BURSTS: usize = 4;
/// Octets of layer 4 that decisions read: a TCP header without options.
const LAYER4: usize = 20;

impl<I: Io> Worker<I> {
    /// Answers what the accelerator asks: packets of sessions that are away pass there by their flow, and all about
    /// which the first octets do not say enough come whole. Decisions are paid for as those of packets are. Gives how
    /// many questions there were.
    #[cold]
    #[inline(never)]
    pub(super) fn answer_questions(&mut self, now: Nanos) -> u64 {
        let mut answered = 0;
        for _ in 0..BURSTS {
            let mut asked = std::mem::take(&mut self.asked);
            self.ports.io.take_questions(&mut self.burst.packets, &mut asked);
            self.asked = asked;
            if self.burst.packets.is_empty() {
                break;
            }
            answered += self.burst.packets.len() as u64;
            let begun = cycles::now();
            self.answer_burst(now);
            self.slow_path.budget.earn(cycles::now().wrapping_sub(begun), now);
            if self.slow_path.budget.is_flooded(now) {
                break;
            }
        }
        answered
    }

    fn answer_burst(&mut self, now: Nanos) {
        let source = Source::Port(PortId(0));
        self.parse(source);
        self.set_undecidable_aside();
        let soft = self.lookup(now);
        self.keep_away_sessions();
        let asked = cycles::now();
        self.decide(source, (0, soft), PacketFlags::NONE, now);
        self.slow_path.budget.spend(cycles::now().wrapping_sub(asked));
        for index in 0..self.burst.packets.len() {
            let Some(asked) = self.asked.get(index).copied() else {
                break;
            };
            let descriptor = &self.burst.descriptors[index];
            let is_decided = descriptor.is_open_user() && descriptor.verdict.is_some();
            let session = self.sessions.of(&descriptor.verdict).filter(|_| is_decided);
            let flow = session.and_then(|session| Some((session, self.flow_there(session, index)?)));
            let flow = flow.as_ref().map(|(session, flow)| (*session, flow));
            self.ports.io.answer(asked.number, flow);
        }
        self.ports.io.end_answers();
        self.ports.io.free(&mut self.burst.packets);
        self.burst.packets.clear();
    }

    /// What is no plain user packet, or has headers that were not shown, is not decided. A packet that may be traced is
    /// to be seen as a whole.
    fn set_undecidable_aside(&mut self) {
        let is_ready = self
            .offload
            .as_ref()
            .is_some_and(|offload| offload.network.is_ready());
        let may_answer = is_ready && self.tracer.is_none();
        let burst = &mut self.burst;
        for (index, (packet, descriptor)) in burst.packets.iter().zip(&mut burst.descriptors).enumerate() {
            let known = self.asked.get(index).map_or(0, |asked| usize::from(asked.known));
            let is_public = |descriptor: &Descriptor| {
                let nat = self.nat.as_deref();
                nat.is_some_and(|nat| nat.is_to_public(descriptor, &burst.keys, index))
            };
            let is_plain = may_answer
                && descriptor.is_open()
                && matches!(descriptor.kind, Kind::Tunnelled | Kind::Plain)
                && descriptor.defect.is_none()
                && !descriptor.flags.any(PacketFlags::FRAGMENT)
                && shows_enough(packet.data(), descriptor, known)
                && !is_public(descriptor);
            if !is_plain {
                descriptor.fate = Fate::Consumed;
            }
        }
    }

    /// Packets of sessions alone are decided that are away, and of which none waits here.
    fn keep_away_sessions(&mut self) {
        for index in 0..self.burst.packets.len() {
            let descriptor = &self.burst.descriptors[index];
            if !descriptor.is_open() {
                continue;
            }
            let session = match descriptor.verdict.is_some() {
                true => self.sessions.of(&descriptor.verdict),
                false => {
                    let destination = self.burst.keys.destination(index, descriptor.family);
                    self.sessions.find(descriptor.side, destination).ok()
                }
            };
            if !session.is_some_and(|session| self.is_away_alone(session)) {
                self.burst.descriptors[index].fate = Fate::Consumed;
            }
        }
    }

    fn is_away_alone(&self, session: SessionIndex) -> bool {
        let offload = self.offload.as_ref();
        offload.is_some_and(|offload| offload.homes.place(session) == Place::Away)
            && !self.deferred.away.may_hold(session)
            && !self.deferred.buffers.holds(session)
    }
}

/// Whether all that a decision reads is among the first octets of a packet, of which `known` are there.
fn shows_enough(octets: &[u8], descriptor: &Descriptor, known: usize) -> bool {
    let end = usize::from(descriptor.offset) + usize::from(descriptor.octets);
    let layer4 = descriptor.plain_layer4(octets);
    layer4.is_some_and(|layer4| known >= (usize::from(layer4) + LAYER4).min(end))
}
