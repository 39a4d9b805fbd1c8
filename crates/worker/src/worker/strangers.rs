//! What peers are told whose packets go no further, and what Control hears of packets that were dropped.

use flow::Nanos;
use packet::{DropReason, PacketBuf, Teid};
use rules::classifier::Side;

use super::Worker;
use crate::Event;
use crate::burst::descriptor::{Fate, Kind};
use crate::ingress::parse::read_again;
use crate::io::{Ingress, Io};
use crate::local::reply::{Frame, Message};

impl<I: Io> Worker<I> {
    /// Tells peers why their packets go no further, as far as the buckets reach.
    pub(super) fn answer_strangers(&mut self, packets: usize, now: Nanos) {
        for place in 0..packets {
            match self.descriptors[place].fate {
                Fate::Drop(DropReason::UnknownTeid) if self.error_indications.has_any() => {
                    self.indicate_error(place, now);
                }
                Fate::Drop(DropReason::UnknownGtpuExtension) if self.notifications.has_any() => {
                    self.notify(place, now);
                }
                Fate::Drop(DropReason::EndMarkerReported) => self.tell_end_marker(place),
                Fate::Drop(_) if !self.sessions.inactivity_timers.is_empty() => self.note_dropped(place, now),
                _ => {}
            }
        }
    }

    /// An End Marker has come that control is to hear of.
    #[cold]
    fn tell_end_marker(&mut self, place: usize) {
        let verdict = &self.descriptors[place].verdict;
        let block = self.sessions.blocks.get(verdict.block);
        let Some(session) = block.map(|block| block.session()) else {
            return;
        };
        let slot = self.sessions.at(session);
        let pdr = slot.and_then(|slot| slot.image.rules.pdrs().get(usize::from(verdict.pdr)));
        if let Some(pdr) = pdr.map(|pdr| pdr.id) {
            let event = Event::EndMarker { session, pdr };
            self.events.push(&mut self.stats, event);
        }
    }

    /// A packet of a session has come, though it goes no further.
    #[cold]
    fn note_dropped(&mut self, place: usize, now: Nanos) {
        let descriptor = &self.descriptors[place];
        let (verdict, _) = self.flows.extended().whole(&descriptor.verdict, place);
        let is_user = verdict.is_some() && descriptor.kind != Kind::Relayed;
        let block = self.sessions.blocks.get(verdict.block).filter(|_| is_user);
        if let Some(session) = block.map(|block| block.session()) {
            self.sessions.inactivity_timers.used(session, now);
        }
    }

    /// An Error Indication, for a G-PDU in a tunnel that is not there (TS 29.281 §7.3.1).
    fn indicate_error(&mut self, place: usize, now: Nanos) {
        let descriptor = &self.descriptors[place];
        let Side::Tunnel { teid, .. } = descriptor.side else {
            return;
        };
        let is_time = now >= self.error_indications_from;
        let wanted = is_time && descriptor.kind == Kind::Tunnelled && teid != Teid::ZERO;
        if !wanted || !self.error_indications.take(now) {
            return;
        }
        if self.burst[place].ingress().lap() == 0 {
            return self.originate(place, Message::ErrorIndication);
        }
        // We have sent it ourselves: Control is told as if the Error Indication had come.
        if let Ok(gtpu) = read_again(&self.burst[place]) {
            let peer = gtpu.outer.addrs.dst();
            self.events
                .push_error_indication(&mut self.stats, (peer, teid), now);
        }
    }

    /// A Supported Extension Headers Notification (TS 29.281 §7.2.3).
    fn notify(&mut self, place: usize, now: Nanos) {
        let answerable = matches!(self.descriptors[place].kind, Kind::Tunnelled | Kind::Signalling);
        if answerable && self.notifications.take(now) {
            self.originate(place, Message::SupportedExtensionHeaders);
        }
    }

    /// Sends a message back where the packet at `place` came from. One that no node can have sent gets none, and is
    /// dropped for that reason instead.
    fn originate(&mut self, place: usize, message: Message) {
        let packet = &self.burst[place];
        let Some(home) = self.interfaces.at(self.descriptors[place].instance) else {
            return;
        };
        let Ok(gtpu) = read_again(packet) else { return };
        if !home.may_answer(gtpu.outer.addrs.src()) {
            self.descriptors[place].fate = Fate::Drop(DropReason::MartianSource);
            return;
        }
        let frame = Frame::back(packet.data(), &gtpu, home.interface.mac, message);
        let Ok(frame) = frame else { return };
        let port = home.interface.port;
        self.stats.originated += 1;
        let Some(mut buf) = self.io.alloc() else {
            return self.stats.drop(DropReason::NoBuffer);
        };
        match frame.put_into(&mut buf) {
            Ok(()) => {
                let port = self.lags.way(port, &buf);
                self.tx.send(&mut self.io, &mut self.stats, port, buf);
            }
            Err(reason) => self.stats.drop(reason),
        }
    }
}
