//! Stage `tx`: every packet goes where its fate says, in bursts, and is accounted.
//!
//! Packets leave in the order they came in, for each port and each worker. What finds no room is dropped and counted at
//! once; deferred packets are stored ([`Deferrals`]). What lost packets have counted is credited back at the end of the
//! burst by the charge in their buffers ([`Charges`]). Towards a port that did not take all of what it got last,
//! packets beyond their guaranteed rates (yellow) go behind the others of the burst: they are the first to find no room
//! (RFC 2597). What is sent to an address of our own is recirculated: it is received as the next burst, by this worker,
//! which hands it over if need be.

use flow::{Blocks, Nanos, PortId};
use packet::ip_fragmentation::FragmentSpec;
use packet::{DropReason, PacketBuf};

use crate::LagPorts;
use crate::burst::batch::Batch;
use crate::burst::credit::{Charges, credit_back};
use crate::burst::descriptor::{Deferral, Descriptor, Fate};
use crate::deferred::packet_store::{Deferrals, Rejected};
use crate::egress::fragmentation::Fragmenter;
use crate::egress::free::{drop_rest, free_one};
use crate::egress::hand_over::HandOverQueues;
use crate::egress::linearize::linearize;
use crate::egress::queueing::packets::Departing;
use crate::io::{ChargeId, Io, PacketMetadata, Urgency};
use crate::stats::Stats;

/// How often a packet may be recirculated. UE to UE, each behind an I-UPF and a PSA that are all this node, takes
/// three.
pub(crate) const MAX_RECIRCULATIONS: u8 = 7;

const _: () = assert!(MAX_RECIRCULATIONS <= PortId::MOST_RECIRCULATIONS);

/// Transmit queues: packets that are sent, handed over or freed at the end of their burst.
pub(crate) struct TxQueues<B> {
    /// By port.
    ports: Vec<Batch<B>>,
    workers: HandOverQueues<B>,
    /// By [`Urgency`].
    host: [Batch<B>; 2],
    /// Recirculated packets. A burst fits; it is taken before the next.
    recirculated: Batch<B>,
    free: Batch<B>,
    /// By port, where its packets leave: by itself, or by a member if it is a LAG. Only packets of our own that belong
    /// to no flow are sent to a LAG itself.
    outputs: Vec<Option<PortId>>,
    /// Ports that did not take all of what they got last.
    full: Vec<bool>,
    /// Yellow packets of the burst that are queued behind the others.
    late: Batch<LatePacket<B>>,
    /// The counts of packets that are queued.
    charges: Charges,
}

/// A yellow packet and the port that it leaves by.
struct LatePacket<B> {
    port: PortId,
    packet: B,
}

/// A burst that is sent, with the state that stage `tx` needs.
pub(crate) struct Transmission<'a, B, D> {
    pub packets: &'a mut Batch<B>,
    pub descriptors: &'a [Descriptor],
    /// Packets above their guaranteed rates: bit n is index n.
    pub yellow: u64,
    pub blocks: &'a mut Blocks,
    pub deferred: &'a mut D,
    pub fragmenter: &'a mut Fragmenter<B>,
    pub now: Nanos,
}

impl<B: PacketBuf + PacketMetadata> TxQueues<B> {
    /// Empty queues for this number of ports and workers.
    pub fn new(ports: usize, workers: usize) -> Self {
        Self {
            ports: (0..ports).map(|_| Batch::new()).collect(),
            workers: HandOverQueues::new(workers),
            host: [Batch::new(), Batch::new()],
            recirculated: Batch::new(),
            free: Batch::new(),
            outputs: (0..ports).map(|port| Some(PortId(port as u16))).collect(),
            full: vec![false; ports],
            late: Batch::new(),
            charges: Charges::new(),
        }
    }

    /// The same, where these ports are made of others; nothing leaves by them before it is said how.
    pub fn with_lags(mut self, lags: &[LagPorts]) -> Self {
        lags.iter().for_each(|lag| self.lead(lag.port, None));
        self
    }

    /// Packets to `port` leave by the port `way` from now on; `None`: they are dropped.
    pub fn lead(&mut self, port: PortId, way: Option<PortId>) {
        if let Some(index) = self.outputs.get_mut(port.index()) {
            *index = way;
        }
    }

    /// Sorts a burst by fate, empties it and sends everything. Bit n of `yellow`: the packet at index n is beyond its
    /// guaranteed rate.
    #[inline(never)]
    pub fn transmit<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        transmission: Transmission<'_, B, impl Deferrals<B>>,
    ) {
        let Transmission {
            packets,
            descriptors,
            yellow,
            blocks,
            deferred,
            fragmenter,
            now,
        } = transmission;
        self.charges.credit_back(blocks);
        for (index, (mut buf, descriptor)) in packets.drain().zip(descriptors).enumerate() {
            match descriptor.fate {
                Fate::Send(port) if port.recirculations() == 0 => {
                    buf.set_charge(self.charges.record(descriptor));
                    if yellow >> index & 1 == 1 && self.is_full(port) {
                        self.enqueue_late(io, stats, port, buf);
                    } else {
                        self.enqueue(io, stats, port, buf);
                    }
                }
                Fate::Defer(Deferral::Queue { is_split }) => {
                    let split = is_split.then(|| fragmenter.at(index));
                    deferred.enqueue(index, buf, split, now);
                }
                Fate::HandOver(worker) => self.workers.push(io, stats, worker, buf, &mut self.free),
                Fate::Drop(reason) => self.give_up_one(io, stats, buf, reason),
                Fate::Defer(deferral) => {
                    let stored = deferred.store(deferral, index, buf, stats, now);
                    self.drop_rejected(io, stats, stored, deferred);
                }
                Fate::Split(port) => {
                    buf.set_charge(self.charges.record(descriptor));
                    self.send_fragments(io, stats, port, buf, fragmenter.at(index), fragmenter);
                }
                _ => self.dispose(io, stats, blocks, descriptor, buf),
            }
        }
        while let Some(LatePacket { port, packet }) = self.late.pop_first() {
            self.enqueue(io, stats, port, packet);
        }
        // Nothing with a charge is queued from here on: packets that are queued between bursts have none.
        self.flush(io, stats);
        self.charges.credit_back(blocks);
    }

    /// Carries out rare fates.
    #[cold]
    #[inline(never)]
    fn dispose<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        blocks: &mut Blocks,
        descriptor: &Descriptor,
        buf: B,
    ) {
        match descriptor.fate {
            Fate::Send(port) => {
                if !self.recirculate(io, stats, port, buf) {
                    credit_back(blocks, descriptor);
                }
            }
            Fate::Host(urgency) => self.give_host(io, stats, urgency, buf),
            Fate::Consumed => {
                stats.consumed += 1;
                self.free(io, buf);
            }
            // The stages before give every packet a fate.
            _ => self.give_up_one(io, stats, buf, DropReason::UnsupportedAction),
        }
    }

    /// Sends a packet that has waited by itself: it is lost and credited back if its port does not take it.
    #[cold]
    pub fn send_departing<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        blocks: &mut Blocks,
        departing: Departing<B>,
        fragmenter: &mut Fragmenter<B>,
    ) {
        let Departing {
            mut packet,
            charge,
            port,
            split,
            ..
        } = departing;
        charge.count_group(blocks);
        if port.recirculations() > 0 {
            if !self.recirculate(io, stats, port, packet) {
                charge.credit_back(blocks);
            }
            return;
        }
        packet.set_charge(self.charges.record_charge(charge));
        match split {
            Some(spec) => self.send_fragments(io, stats, port, packet, spec, fragmenter),
            None => self.enqueue(io, stats, port, packet),
        }
        self.flush_port(io, stats, port);
        self.charges.credit_back(blocks);
    }

    /// Whether there is room for a packet to ourselves.
    pub fn has_room_to_recirculate(&self) -> bool {
        !self.recirculated.is_full()
    }

    /// Sends packets that have waited by a port. What it does not take stays in the batch. False if nothing leaves by
    /// it.
    pub fn send_batch<I: Io<Buf = B>>(
        &self,
        io: &mut I,
        stats: &mut Stats,
        port: PortId,
        batch: &mut Batch<B>,
    ) -> bool {
        let output = self.outputs.get(port.index()).copied().flatten();
        if let Some(output) = output {
            transmit_batch(io, stats, output, batch);
        }
        output.is_some()
    }

    /// Sends a generated packet in fragments. It has no charge.
    #[cold]
    pub fn send_in_fragments<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        port: PortId,
        mut whole: B,
        spec: FragmentSpec,
        fragmenter: &mut Fragmenter<B>,
    ) {
        whole.set_charge(ChargeId::NONE);
        self.send_fragments(io, stats, port, whole, spec, fragmenter);
    }

    /// Queues the fragments of a packet, each with the charge of the whole packet.
    #[cold]
    #[inline(never)]
    fn send_fragments<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        port: PortId,
        mut whole: B,
        spec: FragmentSpec,
        fragmenter: &mut Fragmenter<B>,
    ) {
        let charge = whole.charge();
        let rest = match fragmenter.cut(spec, &mut whole, || io.alloc()) {
            Ok(rest) => rest,
            Err(reason) => {
                self.charges.lose(charge);
                return self.give_up_one(io, stats, whole, reason);
            }
        };
        stats.fragmented += 1;
        self.send_fragment(io, stats, port, whole);
        for mut fragment in rest {
            stats.fragments_made += 1;
            stats.originated += 1;
            fragment.set_charge(charge);
            self.send_fragment(io, stats, port, fragment);
        }
    }

    /// Queues a fragment, in no more parts than the port sends.
    fn send_fragment<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        port: PortId,
        mut fragment: B,
    ) {
        let charge = fragment.charge();
        match linearize(io, port, &mut fragment) {
            Ok(()) => {
                fragment.set_charge(charge);
                self.enqueue(io, stats, port, fragment);
            }
            Err(reason) => {
                self.charges.lose(charge);
                self.give_up_one(io, stats, fragment, reason);
            }
        }
    }

    /// Whether `port` did not take all packets of its last burst.
    pub fn is_full(&self, port: PortId) -> bool {
        self.full.get(port.index()).is_some_and(|is_full| *is_full)
    }

    /// Queues a packet of our own, which counts nothing.
    pub fn send<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, port: PortId, mut buf: B) {
        buf.set_charge(ChargeId::NONE);
        self.enqueue(io, stats, port, buf);
    }

    /// Queues a packet that is sent behind the others of its burst.
    #[cold]
    fn enqueue_late<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, port: PortId, buf: B) {
        if let Err(LatePacket { port, packet }) = self.late.push(LatePacket { port, packet: buf }) {
            self.enqueue(io, stats, port, packet);
        }
    }

    /// Queues a packet behind those that wait for `port`; a full batch is sent at once.
    #[inline]
    fn enqueue<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, port: PortId, buf: B) {
        let rejected = match self.ports.get_mut(port.index()) {
            Some(batch) => batch.push(buf),
            None => Err(buf),
        };
        if let Err(buf) = rejected {
            self.make_room(io, stats, port, buf);
        }
    }

    /// Sends a full batch before a packet is queued behind it.
    #[cold]
    #[inline(never)]
    fn make_room<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, port: PortId, buf: B) {
        self.flush_port(io, stats, port);
        match self.ports.get_mut(port.index()) {
            Some(batch) => drop(batch.push(buf)),
            None => self.send_nowhere(io, stats, port, buf),
        }
    }

    /// The same for a packet that was made of another, and has its ingress: to ourselves its recirculations count from
    /// the other's.
    pub fn send_on<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, port: PortId, buf: B) {
        if port.recirculations() > 0 {
            self.recirculate(io, stats, port, buf);
        } else {
            self.send(io, stats, port, buf);
        }
    }

    /// A packet of our own, to ourselves or to a port that is not there.
    #[cold]
    fn send_nowhere<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, port: PortId, mut buf: B) {
        if port.recirculations() > 0 {
            buf.set_ingress(port.with_recirculations(0));
            self.recirculate(io, stats, port, buf);
        } else {
            self.charges.lose(buf.charge());
            stats.drop(DropReason::PortDown);
            self.free(io, buf);
        }
    }

    /// Recirculates a packet by `port`. False if it is dropped.
    #[cold]
    fn recirculate<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        port: PortId,
        mut buf: B,
    ) -> bool {
        let before = buf.ingress();
        let recirculations = before.recirculations() + 1;
        if recirculations > MAX_RECIRCULATIONS {
            stats.drop(DropReason::RecirculationLimit);
            self.free(io, buf);
            return false;
        }
        buf.set_ingress(
            port.with_recirculations(recirculations)
                .answering(before.is_answer())
                .owning(before.is_own()),
        );
        match self.recirculated.push(buf) {
            Ok(()) => {
                stats.recirculated += 1;
                true
            }
            Err(buf) => {
                stats.drop(DropReason::InboxFull);
                self.free(io, buf);
                false
            }
        }
    }

    /// Whether there are recirculated packets.
    #[inline]
    pub fn has_recirculated(&self) -> bool {
        !self.recirculated.is_empty()
    }

    /// Moves the recirculated packets into `burst`, which is empty.
    pub fn take_recirculated(&mut self, burst: &mut Batch<B>) {
        std::mem::swap(&mut self.recirculated, burst);
    }

    /// Sends the packets that are queued for a port.
    fn flush_port<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, port: PortId) {
        let Some(batch) = self.ports.get_mut(port.index()).filter(|batch| !batch.is_empty()) else {
            return;
        };
        let output = self.outputs[port.index()];
        let reason = match output {
            Some(output) => {
                transmit_batch(io, stats, output, batch);
                DropReason::TxFull
            }
            None => DropReason::PortDown,
        };
        self.full[port.index()] = !batch.is_empty();
        if !batch.is_empty() {
            batch.iter().for_each(|buf| self.charges.lose(buf.charge()));
            drop_rest(io, stats, batch, &mut self.free, reason);
        }
    }

    #[cold]
    fn give_host<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, urgency: Urgency, buf: B) {
        let Err(buf) = self.host[urgency as usize].push(buf) else {
            return;
        };
        self.flush_host(io, stats);
        let _ = self.host[urgency as usize].push(buf);
    }

    /// Gives what waits to the host's own network stack, what is urgent first.
    fn flush_host<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats) {
        for urgency in Urgency::ALL.into_iter().rev() {
            let batch = &mut self.host[urgency as usize];
            let packets = batch.len();
            if packets > 0 {
                io.give_host(urgency, batch);
                stats.to_host += (packets - batch.len()) as u64;
                drop_rest(io, stats, batch, &mut self.free, DropReason::HostQueueFull);
            }
        }
    }

    fn free<I: Io<Buf = B>>(&mut self, io: &mut I, buf: B) {
        free_one(io, &mut self.free, buf);
    }

    /// Drops a packet that is in no queue.
    pub fn give_up_one<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, buf: B, reason: DropReason) {
        stats.drop(reason);
        self.free(io, buf);
    }

    /// Drops the packets that the queues of deferred packets rejected.
    #[cold]
    #[inline(never)]
    fn drop_rejected<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        stored: Result<(), Rejected<B>>,
        deferred: &mut impl Deferrals<B>,
    ) {
        if let Err(rejected) = stored {
            self.give_up_one(io, stats, rejected.packet, rejected.reason);
        }
        while let Some(rejected) = deferred.take_rejected() {
            self.give_up_one(io, stats, rejected.packet, rejected.reason);
        }
    }

    /// Sends, hands over and frees all queued packets.
    pub fn flush<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats) {
        for port in (0..self.ports.len()).map(|port| PortId(port as u16)) {
            self.flush_port(io, stats, port);
        }
        self.workers.flush(io, stats, &mut self.free);
        if self.host.iter().any(|batch| !batch.is_empty()) {
            self.flush_host(io, stats);
        }
        if !self.free.is_empty() {
            io.free(&mut self.free);
        }
    }
}

fn octets<B: PacketBuf>(batch: &Batch<B>) -> u64 {
    batch.iter().map(|buf| buf.len() as u64).sum()
}

/// Sends a batch. The packets that the port does not take stay in it.
fn transmit_batch<I: Io>(io: &mut I, stats: &mut Stats, port: PortId, batch: &mut Batch<I::Buf>) {
    let (packets, length) = (batch.len() as u64, octets(batch));
    io.tx(port, batch);
    let tx = &mut stats.ports[port.index()].tx;
    tx.packets += packets - batch.len() as u64;
    tx.octets += length - octets(batch);
}
