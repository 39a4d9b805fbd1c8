//! Packet I/O over DPDK: one queue pair of each port, inboxes over multi-producer rings.
//!
//! One worker owns a [`DpdkIo`] and uses it on its thread, for which it keeps a `dpdk::Registration`. A packet's
//! ingress port travels in its mbuf. Packets cross from DPDK's bursts to the worker's batches and back by moving
//! pointers; every call into DPDK is for a burst.

use std::os::fd::BorrowedFd;

use dpdk::{Burst, Consumer, Mbuf, Mempool, MultiProducer, RxQueue, TxQueue};
use flow::{PortId, WorkerId};

use crate::{Batch, Instruction, Io, Parcel, Parcels, QueueProgram, Urgency};

mod buf;
mod offload_completion;

pub use self::buf::DpdkBuf;
use self::offload_completion::OffloadCompletion;

/// One worker's queues.
pub struct DpdkIo {
    /// By port; a LAG has none of its own.
    ports: Vec<Option<(RxQueue, TxQueue)>>,
    /// By port, the queue of urgent packets, from when a program chooses what comes there.
    urgent: Vec<Option<UrgentQueue>>,
    pool: Mempool,
    inbox: Option<Consumer>,
    /// By worker.
    inboxes: Vec<MultiProducer>,
    parcels: Parcels,
    host: Option<HostEnd>,
    burst: Burst,
    /// By port, what has come several in one; of ports that give such packets.
    offload_completions: Vec<Option<OffloadCompletion>>,
    /// Whether a port cannot send chains of any length.
    bounds_chains: bool,
}

pub(crate) fn in_dpdks_words(&Instruction { code, jt, jf, k }: &Instruction) -> dpdk::FilterInstruction {
    dpdk::FilterInstruction { code, jt, jf, k }
}

/// Fills in a checksum that was left to a NIC. No packet in several buffers has one: the kernel copies a frame there
/// that it has finished.
#[inline]
fn fill_checksum(mbuf: &mut Mbuf) {
    if !mbuf.is_chained() {
        packet::offload_completion::fill_checksum(mbuf.data_mut());
    }
}

/// A port's queue of urgent packets.
struct UrgentQueue {
    queue: RxQueue,
    offload_completion: OffloadCompletion,
}

impl UrgentQueue {
    #[inline]
    fn is_empty(&self) -> bool {
        !self.queue.has_packets() && self.offload_completion.is_empty()
    }
}

/// A worker's ends of the queues to and from the host's own network stack.
pub struct HostEnd {
    /// By [`Urgency`].
    pub to: [MultiProducer; 2],
    /// What the host sends, if it is for this worker to do.
    pub from: Option<Consumer>,
}

impl DpdkIo {
    /// Over one queue pair of each port (in the order of their ids; a LAG has none), the pool that own packets come
    /// from, and the inboxes; a lone worker needs none.
    pub fn new(
        ports: impl IntoIterator<Item = impl Into<Option<(RxQueue, TxQueue)>>>,
        pool: Mempool,
        inbox: Option<Consumer>,
        inboxes: Vec<MultiProducer>,
    ) -> Self {
        let ports: Vec<Option<(RxQueue, TxQueue)>> = ports.into_iter().map(Into::into).collect();
        let is_bounded = |(_, queue): &(RxQueue, TxQueue)| queue.most_segments() < u16::MAX;
        let coalesces = |pair: &Option<(RxQueue, TxQueue)>| {
            let (queue, _) = pair.as_ref()?;
            queue.coalesces().then(OffloadCompletion::new)
        };
        Self {
            offload_completions: ports.iter().map(coalesces).collect(),
            bounds_chains: ports.iter().flatten().any(is_bounded),
            urgent: ports.iter().map(|_| None).collect(),
            ports,
            pool,
            inbox,
            inboxes,
            parcels: Parcels::none(),
            host: None,
            burst: Burst::new(),
        }
    }

    /// What is readable while there are packets to receive: those of each queue of a port of packet sockets.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let queues = self.ports.iter().flatten().map(|(queue, _)| queue);
        let urgent = self.urgent.iter().flatten().map(|urgent| &urgent.queue);
        queues.chain(urgent).flat_map(RxQueue::fds)
    }

    /// The same, with a host's network stack.
    #[must_use]
    pub fn with_host(mut self, host: HostEnd) -> Self {
        self.host = Some(host);
        self
    }

    /// The same, with what workers give each other beside packets.
    #[must_use]
    pub fn with_parcels(mut self, parcels: Parcels) -> Self {
        self.parcels = parcels;
        self
    }

    /// Moves what was received to `out`; both have the same room.
    fn deliver(&mut self, out: &mut Batch<DpdkBuf>, port: Option<PortId>) {
        for mut mbuf in self.burst.drain() {
            if let Some(port) = port {
                mbuf.set_port(port.0);
            }
            // `out` has room for a burst: it is empty when a worker asks.
            let _ = out.push(DpdkBuf::from(mbuf));
        }
    }

    fn collect(&mut self, out: &mut Batch<DpdkBuf>) {
        for buf in out.drain() {
            let _ = self.burst.push(buf.into_mbuf());
        }
    }

    /// Moves back what found no room.
    fn give_back(&mut self, out: &mut Batch<DpdkBuf>) {
        for mbuf in self.burst.drain() {
            let _ = out.push(DpdkBuf::from(mbuf));
        }
    }
}

impl Io for DpdkIo {
    type Buf = DpdkBuf;

    fn ports(&self) -> usize {
        self.ports.len()
    }

    fn rx(&mut self, port: PortId, out: &mut Batch<DpdkBuf>) {
        let pair = self.ports.get_mut(port.index()).and_then(Option::as_mut);
        let Some((queue, _)) = pair.filter(|_| out.is_empty()) else {
            return;
        };
        if let Some(Some(unfinished)) = self.offload_completions.get_mut(port.index()) {
            return unfinished.receive(queue, &mut self.burst, port, (&self.pool, out));
        }
        queue.rx_burst(&mut self.burst);
        self.deliver(out, Some(port));
    }

    #[inline]
    fn complete_checksums(&mut self, port: PortId, packets: &mut Batch<DpdkBuf>) {
        let pair = self.ports.get(port.index()).and_then(Option::as_ref);
        if pair.is_some_and(|(queue, _)| queue.leaves_checksums()) {
            packets.iter().for_each(|buf| buf.mbuf().prefetch_headers());
            packets.iter_mut().for_each(|buf| fill_checksum(buf.mbuf_mut()));
        }
    }

    fn is_placed_by_port(&self, port: PortId) -> bool {
        let pair = self.ports.get(port.index()).and_then(Option::as_ref);
        pair.is_some_and(|(queue, _)| queue.is_placed_by_port())
    }

    fn choose_queues(&mut self, port: PortId, program: &QueueProgram) {
        let Some(Some((queue, _))) = self.ports.get_mut(port.index()) else {
            return;
        };
        let instructions: Vec<_> = program.instructions.iter().map(in_dpdks_words).collect();
        // The port keeps what the kernel has refused.
        let queue = queue.choose_queues(&instructions, program.sorts).ok().flatten();
        self.urgent[port.index()] = queue.map(|queue| UrgentQueue {
            queue,
            offload_completion: OffloadCompletion::new(),
        });
    }

    #[inline]
    fn has_urgent_queue(&self, port: PortId) -> bool {
        self.urgent.get(port.index()).is_some_and(Option::is_some)
    }

    #[inline]
    fn rx_urgent(&mut self, port: PortId, out: &mut Batch<DpdkBuf>) {
        let queue = self.urgent.get_mut(port.index()).and_then(Option::as_mut);
        if let Some(urgent) = queue.filter(|urgent| !urgent.is_empty() && out.is_empty()) {
            let unfinished = &mut urgent.offload_completion;
            unfinished.receive(&mut urgent.queue, &mut self.burst, port, (&self.pool, out));
        }
    }

    fn has_more_than(&self, port: PortId, packets: u16) -> Option<bool> {
        let (queue, _) = self.ports.get(port.index())?.as_ref()?;
        queue.has_more_than(packets)
    }

    fn tx(&mut self, port: PortId, out: &mut Batch<DpdkBuf>) {
        self.collect(out);
        if let Some(Some((_, queue))) = self.ports.get_mut(port.index()) {
            queue.tx_burst(&mut self.burst);
        }
        self.give_back(out);
    }

    fn bounds_chains(&self) -> bool {
        self.bounds_chains
    }

    fn most_parts(&self, port: PortId) -> usize {
        match self.ports.get(port.index()) {
            Some(Some((_, queue))) if queue.most_segments() < u16::MAX => queue.most_segments().into(),
            _ => usize::MAX,
        }
    }

    fn fills_udp_checksums(&self, port: PortId) -> bool {
        let pair = self.ports.get(port.index()).and_then(Option::as_ref);
        pair.is_some_and(|(_, queue)| queue.fills_udp_checksums())
    }

    fn alloc(&mut self) -> Option<DpdkBuf> {
        self.pool.alloc().map(DpdkBuf::from)
    }

    fn hand_over(&mut self, to: WorkerId, out: &mut Batch<DpdkBuf>) {
        self.collect(out);
        if let Some(inbox) = self.inboxes.get(to.index()) {
            inbox.enqueue(&mut self.burst);
        }
        self.give_back(out);
    }

    fn inbox(&mut self, out: &mut Batch<DpdkBuf>) {
        let Some(inbox) = self.inbox.as_mut().filter(|_| out.is_empty()) else {
            return;
        };
        inbox.dequeue(&mut self.burst);
        self.deliver(out, None);
    }

    fn give(&mut self, to: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        self.parcels.give(to, parcel)
    }

    fn take_given(&mut self) -> Option<Parcel> {
        self.parcels.take()
    }

    fn give_host(&mut self, urgency: Urgency, out: &mut Batch<DpdkBuf>) {
        self.collect(out);
        if let Some(host) = &self.host {
            host.to[urgency as usize].enqueue(&mut self.burst);
        }
        self.give_back(out);
    }

    fn take_host(&mut self, out: &mut Batch<DpdkBuf>) {
        let from = self.host.as_mut().and_then(|host| host.from.as_mut());
        let Some(from) = from.filter(|_| out.is_empty()) else {
            return;
        };
        from.dequeue(&mut self.burst);
        self.deliver(out, None);
    }

    fn inbox_len(&self) -> usize {
        self.inbox.as_ref().map_or(0, Consumer::count)
    }

    fn free(&mut self, out: &mut Batch<DpdkBuf>) {
        self.collect(out);
        self.burst.clear();
    }
}
