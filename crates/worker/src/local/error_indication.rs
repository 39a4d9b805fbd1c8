//! GTP-U messages to peers whose packets are discarded: Error Indications for unknown TEIDs (TS 29.281 §7.3.1),
//! Supported Extension Headers Notifications (§7.2.3). And what else follows from discarded packets: reported End
//! Markers, the inactivity timers of their sessions, and packets that wait for sessions which are still restored.

use flow::{Nanos, TokenBucket};
use packet::{DropReason, PacketBuf, Teid};
use rules::classifier::Side;

use crate::Event;
use crate::burst::Burst;
use crate::burst::descriptor::{Deferral, Fate, Kind};
use crate::control_channel::event_queue::EventQueue;
use crate::deferred::absent_sessions::AbsentSessions;
use crate::egress::ports::{OwnPacket, Ports};
use crate::ingress::l3_interfaces::L3Interfaces;
use crate::ingress::parse::read_again;
use crate::io::{Io, PacketMetadata};
use crate::local::reply::{Frame, Message};
use crate::nat::Unsolicited;
use crate::sessions::Sessions;
use crate::stats::Stats;

/// The rates of these messages.
pub(crate) struct ErrorIndications {
    pub rate: TokenBucket,
    /// None before this time (TS 23.527 §4.3.2).
    pub from: Nanos,
    /// Of Supported Extension Headers Notifications.
    pub notifications: TokenBucket,
}

/// State of the worker that they are made and sent with.
pub(crate) struct Context<'a, I: Io> {
    /// Packets of the burst that may be no activity of their sessions.
    pub unsolicited: Unsolicited,
    pub limits: &'a mut ErrorIndications,
    pub interfaces: &'a L3Interfaces,
    pub sessions: &'a mut Sessions,
    pub events: &'a mut EventQueue,
    pub ports: &'a mut Ports<I>,
    pub absent: &'a mut AbsentSessions<I::Buf>,
    pub stats: &'a mut Stats,
    pub now: Nanos,
}

impl<I: Io> Context<'_, I> {
    /// Does for each discarded packet of a burst what follows from its drop reason.
    pub fn after_drops(&mut self, burst: &mut Burst<I::Buf>) {
        for index in 0..burst.len() {
            match burst.descriptors[index].fate {
                Fate::Drop(DropReason::UnknownTeid | DropReason::UnknownUeAddress)
                    if self.absent.is_restoring() =>
                {
                    self.await_session(burst, index);
                }
                Fate::Drop(DropReason::UnknownTeid) if self.limits.rate.has_any() => {
                    self.indicate_error(burst, index);
                }
                Fate::Drop(DropReason::UnknownGtpuExtension) if self.limits.notifications.has_any() => {
                    self.notify_extensions(burst, index);
                }
                Fate::Drop(DropReason::EndMarkerReported) => self.report_end_marker(burst, index),
                Fate::Drop(_) if !self.sessions.inactivity_timers.is_empty() => {
                    self.restart_timer(burst, index);
                }
                _ => {}
            }
        }
    }

    /// The session of a packet may still be restored: the packet waits for it, and its sender is sent nothing.
    #[cold]
    fn await_session(&mut self, burst: &mut Burst<I::Buf>, index: usize) {
        let descriptor = &mut burst.descriptors[index];
        let destination = burst.keys.destination(index, descriptor.family);
        let packet = (index, descriptor.side, destination);
        if self.absent.expect(packet, (self.events, self.stats), self.now) {
            descriptor.fate = Fate::Defer(Deferral::Session);
        }
    }

    /// Reports an End Marker to Control.
    #[cold]
    fn report_end_marker(&mut self, burst: &Burst<I::Buf>, index: usize) {
        let verdict = &burst.descriptors[index].verdict;
        let block = self.sessions.blocks.get(verdict.block);
        let Some(session) = block.map(|block| block.session()) else {
            return;
        };
        let slot = self.sessions.at(session);
        let pdr = slot.and_then(|slot| slot.image.rules.pdrs().get(usize::from(verdict.pdr)));
        if let Some(pdr) = pdr.map(|pdr| pdr.id) {
            let event = Event::EndMarker { session, pdr };
            self.events.push(self.stats, event);
        }
    }

    /// A discarded packet is activity of its session, too.
    #[cold]
    fn restart_timer(&mut self, burst: &Burst<I::Buf>, index: usize) {
        let descriptor = &burst.descriptors[index];
        let verdict = &descriptor.verdict;
        let is_user = verdict.is_some() && descriptor.kind != Kind::Relayed;
        let is_user = is_user && !self.unsolicited.is_uncharged(index);
        let block = self.sessions.blocks.get(verdict.block).filter(|_| is_user);
        if let Some(session) = block.map(|block| block.session()) {
            self.sessions.inactivity_timers.used(session, self.now);
        }
    }

    /// An Error Indication, for a G-PDU in a tunnel that does not exist (TS 29.281 §7.3.1).
    fn indicate_error(&mut self, burst: &mut Burst<I::Buf>, index: usize) {
        let descriptor = &burst.descriptors[index];
        let Side::Tunnel { teid, .. } = descriptor.side else {
            return;
        };
        let is_time = self.now >= self.limits.from;
        let wanted = is_time && descriptor.kind == Kind::Tunnelled && teid != Teid::ZERO;
        if !wanted || !self.limits.rate.take(self.now) {
            return;
        }
        if burst.packets[index].ingress().recirculations() == 0 {
            return self.originate(burst, index, Message::ErrorIndication);
        }
        // This node sent it: Control is notified as if the Error Indication had arrived.
        if let Ok(gtpu) = read_again(&burst.packets[index]) {
            let peer = gtpu.outer.addrs.dst();
            self.events
                .push_error_indication(self.stats, peer, teid, self.now);
        }
    }

    /// A Supported Extension Headers Notification (TS 29.281 §7.2.3).
    fn notify_extensions(&mut self, burst: &mut Burst<I::Buf>, index: usize) {
        let is_gtpu = matches!(burst.descriptors[index].kind, Kind::Tunnelled | Kind::Signalling);
        if is_gtpu && self.limits.notifications.take(self.now) {
            self.originate(burst, index, Message::SupportedExtensionHeaders);
        }
    }

    /// Sends a message back where the packet at `index` came from. A source that no node can have gets none, and its
    /// packet is dropped for that reason instead.
    fn originate(&mut self, burst: &mut Burst<I::Buf>, index: usize, message: Message) {
        let packet = &burst.packets[index];
        let Some(home) = self.interfaces.at(burst.descriptors[index].instance) else {
            return;
        };
        let Ok(gtpu) = read_again(packet) else { return };
        if !home.may_answer(gtpu.outer.addrs.src()) {
            burst.descriptors[index].fate = Fate::Drop(DropReason::MartianSource);
            return;
        }
        let frame = Frame::back(packet.data(), &gtpu, home.interface.mac, message);
        let Ok(frame) = frame else { return };
        let port = home.interface.port;
        self.stats.originated += 1;
        let Some(mut packet) = self.ports.io.alloc() else {
            return self.stats.drop(DropReason::NoBuffer);
        };
        match frame.put_into(&mut packet) {
            Ok(()) => self.ports.send_own(self.stats, OwnPacket { port, packet }),
            Err(reason) => self.stats.drop(reason),
        }
    }
}
