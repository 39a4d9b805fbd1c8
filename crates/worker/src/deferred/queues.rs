//! The queues of deferred packets, behind one interface.
//!
//! Stage `tx` stores a packet whose fate is [`Fate::Defer`](crate::burst::descriptor::Fate); the packet is then this
//! module's until it is ready, expires or is discarded. A packet that is ready comes back as the next burst, from
//! [`Deferred::next_ready`], and passes all stages again. A further reason to defer packets is one more [`Deferral`],
//! with a queue that has `store`, `has_ready` and `take_ready`.

use flow::Nanos;
use flow::slab::OutOfMemory;
use packet::ip_fragmentation::FragmentSpec;
use packet::{DropReason, PacketBuf};

use crate::WorkerConfig;
use crate::burst::batch::Batch;
use crate::burst::descriptor::Deferral;
use crate::deferred::absent_sessions::AbsentSessions;
use crate::deferred::away_sessions::AwaySessions;
use crate::deferred::buffering::Buffers;
use crate::deferred::fragments::Fragments;
use crate::deferred::packet_store::{Deferrals, Rejected};
use crate::deferred::reassembly::Reassembly;
use crate::egress::queueing::Queueing;
use crate::io::{Exchange, PacketMetadata};
use crate::stats::Stats;

/// All queues of a worker.
pub(crate) struct Deferred<B> {
    pub fragments: Fragments<B>,
    pub reassembly: Reassembly<B>,
    pub buffers: Buffers<B>,
    pub absent: AbsentSessions<B>,
    pub away: AwaySessions<B>,
    /// Where packets wait before they leave, if the network has such queues.
    pub queueing: Option<Box<Queueing<B>>>,
}

/// The queue that packets of a burst come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeferredSource {
    /// Fragments whose first one has arrived.
    Fragments,
    /// GTP-U packets that are complete.
    Reassembled,
    /// Packets of a FAR that buffers no longer, or whose next hop is resolved.
    Buffered,
    /// Packets whose session is here now.
    Restored,
    /// Packets whose session has come from an accelerator, or gone there.
    Away,
}

impl<B: PacketBuf + PacketMetadata> Deferrals<B> for Deferred<B> {
    #[cold]
    #[inline(never)]
    fn store(
        &mut self,
        deferral: Deferral,
        index: usize,
        mut packet: B,
        stats: &mut Stats,
        now: Nanos,
    ) -> Result<(), Rejected<B>> {
        match deferral {
            Deferral::FirstFragment(session) => {
                let stored = self.fragments.hold(index, packet, session, now);
                stored.map_err(|packet| Rejected {
                    packet,
                    reason: DropReason::FragmentsFull,
                })
            }
            Deferral::Reassembly => {
                let (made, merged) = (self.reassembly.made, self.reassembly.merged);
                let added = self.reassembly.add(packet, now);
                stats.reassembled += self.reassembly.made - made;
                stats.consumed += self.reassembly.merged - merged;
                added
            }
            Deferral::Session => {
                let stored = self.absent.store(index, packet, now);
                stored.map_err(|packet| Rejected::new(packet, DropReason::AbsentSession))
            }
            Deferral::Away(session) => {
                let is_again = Exchange::of_charge(packet.charge()).is_some_and(|exchange| exchange.hops > 0);
                let stored = self.away.store(session, packet, is_again, now);
                stored.map_err(|packet| Rejected::new(packet, DropReason::Away))
            }
            // No worker asks for these.
            Deferral::Host(_) | Deferral::Settling(_) | Deferral::Asking(_) | Deferral::Queue { .. } => {
                Err(Rejected::new(packet, DropReason::UnsupportedAction))
            }
            Deferral::Buffer => {
                packet.set_ingress(packet.ingress().having_waited());
                match self.buffers.store(index, packet, now) {
                    Ok(()) => {
                        stats.stored += 1;
                        Ok(())
                    }
                    Err(packet) => Err(Rejected {
                        packet,
                        reason: self.buffers.why_not(index),
                    }),
                }
            }
        }
    }

    #[inline]
    fn enqueue(&mut self, index: usize, packet: B, split: Option<FragmentSpec>, now: Nanos) {
        if let Some(queueing) = &mut self.queueing {
            queueing.enqueue(index, packet, split, now);
        }
    }

    fn take_rejected(&mut self) -> Option<Rejected<B>> {
        let packet = self.reassembly.pop_dead()?;
        let reason = DropReason::BadFragment;
        Some(Rejected { packet, reason })
    }
}

impl<B: PacketBuf + PacketMetadata> Deferred<B> {
    /// The empty queues of a worker with this number of ports.
    ///
    /// # Errors
    /// When the memory of the tables cannot be had.
    pub fn new(config: &WorkerConfig, ports: usize) -> Result<Self, OutOfMemory> {
        Ok(Self {
            fragments: Fragments::new(config.fragments),
            reassembly: Reassembly::new(config.reassembly, config.seed),
            buffers: Buffers::new(config.buffers),
            absent: AbsentSessions::new(config.begins_restoring),
            away: AwaySessions::new(config.offload.is_some()),
            queueing: Queueing::new(config, ports)?,
        })
    }

    /// The queue that has packets ready, if any has.
    #[inline]
    pub fn next_ready(&self) -> Option<DeferredSource> {
        if self.fragments.has_ready() {
            Some(DeferredSource::Fragments)
        } else if self.reassembly.has_ready() {
            Some(DeferredSource::Reassembled)
        } else if self.buffers.has_flushed() {
            Some(DeferredSource::Buffered)
        } else if self.absent.has_ready() {
            Some(DeferredSource::Restored)
        } else if self.away.has_ready() {
            Some(DeferredSource::Away)
        } else {
            None
        }
    }

    /// Moves packets of a queue that are ready into `burst`, as many as it has room for.
    pub fn take_ready(&mut self, source: DeferredSource, burst: &mut Batch<B>) {
        match source {
            DeferredSource::Fragments => self.fragments.take_ready(burst),
            DeferredSource::Reassembled => self.reassembly.take_ready(burst),
            DeferredSource::Buffered => self.buffers.take_flushed(burst),
            DeferredSource::Restored => self.absent.take_ready(burst),
            DeferredSource::Away => self.away.take_ready(burst),
        }
    }

    /// Packets in all queues.
    pub fn len(&self) -> usize {
        let of_sessions = self.absent.len() + self.away.len();
        self.buffers.len() + self.fragments.len() + self.reassembly.len() + of_sessions
    }

    /// Updates the counts of packets that wait.
    #[inline]
    pub fn count(&self, stats: &mut Stats) {
        stats.buffered = self.buffers.len() as u64;
        stats.queued = self.queueing.as_ref().map_or(0, |queueing| queueing.len()) as u64;
        stats.held = self.len() as u64 + stats.backlog + stats.queued;
    }
}
