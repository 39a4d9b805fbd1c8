//! First packets of flows that an engine keeps while its host is asked.

use flow::Nanos;
use flow::contract::Flow;
use packet::PacketBuf;
use packet::tuple::proto;

use super::asking::{Questions, Unknown};
use super::engine::{Engine, Origin};
use super::tables::key_of;
use crate::burst::descriptor::{Deferral, Descriptor, Family, Fate, Kind, PacketFlags};
use crate::io::{Io, PacketMetadata};

/// Octets of layer 4 that are shown to the host: a TCP header without options.
const LAYER4: usize = 20;
const IPV6_HEADER: u16 = 40;

impl<I: Io> Engine<I> {
    /// Whether there is a host that answers. Without one nothing is kept any more: what was goes to the host.
    pub(super) fn set_asking(&mut self, is_on: bool, now: Nanos) {
        if !is_on {
            self.give_up_asking(now);
        }
        self.aside.asking.set_on(is_on);
    }

    /// Whether the host is asked about unknown flows.
    pub const fn asks(&self) -> bool {
        self.aside.asking.is_on()
    }

    /// Nothing is kept any more: it goes to the host whole, before packets that arrive later.
    pub(super) fn give_up_asking(&mut self, now: Nanos) {
        while let Some(slot) = self.aside.asking.first() {
            self.except_asking(slot, now);
        }
        let questions = self.aside.asking.take_questions();
        self.aside.asking.questions_sent(questions);
    }

    fn except_asking(&mut self, slot: u32, now: Nanos) {
        self.aside.except_asking(slot, &mut self.stats, now);
        self.drop_rejected();
    }

    /// What was kept too long goes to the host.
    pub(super) fn end_waits(&mut self, now: Nanos) {
        self.pass_released(now);
        while let Some(slot) = self.aside.asking.next_due(now) {
            self.except_asking(slot, now);
        }
    }

    /// What becomes of a packet, if others of its ends are kept.
    pub(super) fn kept_or_not(&self, index: usize, origin: Origin) -> Option<Fate> {
        if origin != Origin::Network || self.aside.asking.is_empty() {
            return None;
        }
        let descriptor = &self.burst.descriptors[index];
        if descriptor.flags.any(PacketFlags::FRAGMENT) {
            return None;
        }
        let whole = self.burst.keys.whole(index, descriptor.family)?;
        let slot = self.aside.asking.find(&whole)?;
        Some(Fate::Defer(Deferral::Asking(slot)))
    }

    /// Keeps a packet of an unknown flow, about which the host is asked, if it can say anything by the first octets.
    pub(super) fn ask_or_not(&mut self, index: usize, now: Nanos) -> Option<Fate> {
        let (packet, descriptor) = (&self.burst.packets[index], &self.burst.descriptors[index]);
        let is_plain = matches!(descriptor.kind, Kind::Tunnelled | Kind::Plain)
            && descriptor.defect.is_none()
            && !descriptor.flags.any(PacketFlags::FRAGMENT)
            && packet.ingress().recirculations() == 0;
        if !is_plain {
            return None;
        }
        let whole = self.burst.keys.whole(index, descriptor.family)?;
        let layer4 = layer4_of(packet.data(), descriptor)?;
        let length = u16::try_from(packet.len()).ok()?;
        let head = (usize::from(layer4) + LAYER4).min(packet.len());
        let unknown = Unknown {
            port: packet.ingress().with_recirculations(0),
            length,
            user_packet: descriptor.offset,
            layer4: if layer4 < length { layer4 } else { 0 },
            head: packet.data().get(..head)?,
        };
        let slot = self.aside.asking.ask(&whole, &unknown, now)?;
        Some(Fate::Defer(Deferral::Asking(slot)))
    }

    /// Notes of which sessions packets of the burst have gone to the host.
    #[cold]
    pub(super) fn note_excepted(&mut self) {
        for index in self.aside.excepted.drain(..).map(usize::from) {
            let family = self.burst.descriptors[index % crate::BURST].family;
            if let Some(whole) = self.burst.keys.whole(index, family) {
                self.aside.asking.note_whole(&whole);
            }
        }
    }

    /// Passes what was kept and has its flow by now.
    pub(super) fn pass_released(&mut self, now: Nanos) {
        while self.aside.asking.has_released() {
            while !self.burst.packets.is_full()
                && let Some(packet) = self.aside.asking.pop_released()
            {
                self.stats.held -= 1;
                let _ = self.burst.packets.push(packet);
            }
            self.pass(Origin::Answered, now);
        }
    }

    /// The host wants the packet of this question whole.
    pub(super) fn answer_whole(&mut self, number: u32, now: Nanos) {
        if let Some(answered) = self.aside.asking.answered(number) {
            self.aside.asking.note_answer(false);
            self.except_asking(answered.slot, now);
        }
    }

    /// Whether the flow may be put that the answer to this question brings; otherwise what was kept goes whole, or is
    /// kept no more.
    pub(super) fn may_put_answered(&mut self, number: u32, flow: &Flow, now: Nanos) -> bool {
        let Some(answered) = self.aside.asking.answered(number) else {
            return false;
        };
        let key = key_of(&flow.key);
        let asking = &self.aside.asking;
        let settles = self.aside.settling.slot_of(&key).is_some()
            || self.aside.settling.find_key(&answered.first).is_some();
        let may_put = !settles && asking.may_put(&answered.first, &key, flow.key.fields());
        if !may_put {
            self.answer_whole(number, now);
        }
        may_put
    }

    /// The flow of an answer was put.
    pub(super) fn note_answered(&mut self) {
        self.aside.asking.note_answer(true);
    }

    /// Flows are put by answers from now on, or no more: then what they have released passes.
    pub(super) fn set_answering(&mut self, is_answering: bool, now: Nanos) {
        self.aside.is_answering = is_answering;
        if !is_answering {
            self.pass_released(now);
        }
    }

    /// Whether there are questions that were not sent.
    pub(super) fn has_questions(&self) -> bool {
        self.aside.asking.has_questions()
    }

    pub(super) fn take_questions(&mut self) -> Questions {
        self.aside.asking.take_questions()
    }

    pub(super) fn questions_sent(&mut self, questions: Questions) {
        self.aside.asking.questions_sent(questions);
    }

    pub(super) fn wants_marker(&self, now: Nanos) -> bool {
        self.aside.asking.wants_marker(now)
    }

    pub(super) fn marker_sent(&mut self, next: u32, now: Nanos) {
        self.aside.asking.marker_sent(next, now);
    }

    pub(super) fn marker_echoed(&mut self, marker: u32) {
        self.aside.asking.marker_echoed(marker);
    }
}

/// Where layer 4 begins of a packet without options and extension headers; `None`: more than that has to be read.
fn layer4_of(octets: &[u8], descriptor: &Descriptor) -> Option<u16> {
    let ip = usize::from(descriptor.offset);
    match descriptor.family {
        Family::V4 if *octets.get(ip)? == 0x45 => descriptor.offset.checked_add(20),
        Family::V6 if is_layer4(*octets.get(ip + 6)?) => descriptor.offset.checked_add(IPV6_HEADER),
        _ => None,
    }
}

/// Whether no extension header follows.
pub(crate) const fn is_layer4(next_header: u8) -> bool {
    matches!(next_header, proto::TCP | proto::UDP | proto::ICMPV6)
}
