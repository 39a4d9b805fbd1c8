//! Packets that leave an engine's burst without being sent.

use flow::{Bucket, Nanos, PortId};
use offload::exception::Reason;
use packet::ip_fragmentation::FragmentSpec;
use packet::{DropReason, PacketBuf};

use crate::accelerator::asking::Asking;
use crate::accelerator::exceptions::Exceptions;
use crate::accelerator::queues::EngineQueues;
use crate::accelerator::settling::Settling;
use crate::burst::batch::BURST;
use crate::burst::credit::Charge;
use crate::burst::descriptor::Deferral;
use crate::deferred::packet_store::{Deferrals, Rejected};
use crate::egress::queueing::packets::{Departing, OF_NO_SESSION};
use crate::io::PacketMetadata;
use crate::stats::Stats;

/// Packets that leave the burst without being sent: exceptions, those of flows that settle, and those
/// that wait in queues.
pub(super) struct Aside<B> {
    pub exceptions: Exceptions<B>,
    pub settling: Settling<B>,
    /// What waits for answers of the host.
    pub asking: Asking<B>,
    /// Flows are put by answers, one after the other: what they release passes behind all of them.
    pub is_answering: bool,
    /// Places in the burst of packets that went to the host since they were last looked at.
    pub excepted: Vec<u8>,
    /// The buckets of the packets of a burst that are said of those that go to the host, by their places. Of none but
    /// in partial mode.
    pub buckets: [Option<Bucket>; BURST],
    /// Queues before ports, where there are any.
    pub queues: Option<Box<EngineQueues<B>>>,
    /// Whether packets that pass now come from the host: they have their hops with them.
    pub is_from_host: bool,
}

impl<B: PacketBuf + PacketMetadata> Aside<B> {
    /// Whether packets stand before a port, and there is no room for one behind them.
    pub fn is_full_before(&self, port: PortId) -> bool {
        let queueing = self.queues.as_ref().map(|queues| &queues.queueing);
        queueing.is_some_and(|queueing| queueing.has_standing(port) && !queueing.has_room_to_stand())
    }

    /// Puts a packet of the host behind those that stand before its port; gives it back where there are none.
    pub fn stand_behind(&mut self, port: PortId, packet: B) -> Option<B> {
        match &mut self.queues {
            Some(queues) if queues.queueing.has_standing(port) => {
                queues.queueing.stand(Departing {
                    packet,
                    charge: Charge::NONE,
                    session: OF_NO_SESSION,
                    port,
                    split: None,
                    node: None,
                });
                None
            }
            _ => Some(packet),
        }
    }
}

impl<B: PacketMetadata> Aside<B> {
    /// Gives a packet to the host, if there is room for it.
    pub fn except(&mut self, packet: B, reason: Reason, stats: &mut Stats) {
        self.except_with(packet, (reason, None), stats);
    }

    /// The same with a bucket that is said of it.
    fn except_with(&mut self, packet: B, why: (Reason, Option<Bucket>), stats: &mut Stats) {
        let hops = match self.is_from_host {
            true => packet.charge().0 as u8,
            false => 0,
        };
        stats.handed_over += u64::from(self.exceptions.push(packet, why, hops));
    }
}

impl<B: PacketBuf + PacketMetadata> Aside<B> {
    /// Gives what is held of the flow in a slot to the host.
    pub fn except_held(&mut self, slot: u32, stats: &mut Stats) {
        if let Some(given) = self.settling.given(slot) {
            self.asking.note_whole(&given.key);
        }
        while let Some(packet) = self.settling.pop_of(slot) {
            stats.held -= 1;
            self.except(packet, Reason::NoFlow, stats);
        }
    }
}

impl<B: PacketBuf + PacketMetadata> Aside<B> {
    /// Gives what is kept in a slot until an answer comes to the host, and what is held of its flow, if that settles,
    /// behind it: later packets of it follow.
    pub fn except_asking(&mut self, slot: u32, stats: &mut Stats, now: Nanos) {
        // It came from the wire.
        let is_from_host = std::mem::take(&mut self.is_from_host);
        if let Some((first, mut held)) = self.asking.take(slot) {
            self.asking.note_whole(&first);
            while let Some(packet) = self.asking.pop(&mut held) {
                stats.held -= 1;
                self.except(packet, Reason::NoFlow, stats);
            }
            if let Some(slot) = self
                .settling
                .find_key(&first)
                .filter(|slot| self.settling.holds(*slot))
            {
                self.settling.make_void(slot, now);
                self.except_held(slot, stats);
            }
        }
        self.is_from_host = is_from_host;
    }
}

impl<B: PacketBuf + PacketMetadata> Deferrals<B> for Aside<B> {
    #[cold]
    #[inline(never)]
    fn store(
        &mut self,
        deferral: Deferral,
        index: usize,
        packet: B,
        stats: &mut Stats,
        now: Nanos,
    ) -> Result<(), Rejected<B>> {
        match deferral {
            Deferral::Host(reason) => {
                if self.asking.is_on() {
                    self.excepted.push(index as u8);
                }
                let bucket = self.buckets.get(index).copied().flatten();
                self.except_with(packet, (reason, bucket), stats);
            }
            Deferral::Asking(slot) => match self.asking.hold(slot, packet) {
                Ok(()) => stats.held += 1,
                Err(packet) => {
                    self.asking.note_no_room();
                    self.except_asking(slot, stats, now);
                    self.excepted.push(index as u8);
                    self.except(packet, Reason::NoFlow, stats);
                }
            },
            Deferral::Settling(slot) => match self.settling.hold(slot, packet, now) {
                Ok(()) => stats.held += 1,
                Err(packet) => {
                    self.except_held(slot, stats);
                    if self.asking.is_on() {
                        self.excepted.push(index as u8);
                    }
                    self.except(packet, Reason::NoFlow, stats);
                }
            },
            // The stages before have none of these.
            _ => self.except(packet, Reason::Action, stats),
        }
        Ok(())
    }

    fn enqueue(&mut self, index: usize, packet: B, split: Option<FragmentSpec>, now: Nanos) {
        if let Some(queues) = &mut self.queues {
            queues.queueing.enqueue(index, packet, split, now);
        }
    }

    fn take_rejected(&mut self) -> Option<Rejected<B>> {
        let packet = self.exceptions.take_rejected()?;
        Some(Rejected::new(packet, DropReason::Overload))
    }
}
