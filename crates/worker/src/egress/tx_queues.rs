//! Stage `tx`: every packet goes where its fate says, in bursts, and is accounted.
//!
//! Packets leave in the order they came in, for each port and each worker. What finds no room is dropped and counted at
//! once; what is to wait from poll to poll goes to who keeps it ([`Waiting`]). What a session's URRs counted of it is
//! taken back before anyone can ask. Towards a port that did not take all of what it got last, packets beyond their
//! guaranteed rates (yellow) go behind the others of the burst: they are the first to find no room (RFC 2597). What is
//! sent to an address of our own goes round: it comes in again as the next burst, at this worker, which hands it over
//! if need be.

use flow::{Blocks, Nanos, PortId, WorkerId};
use packet::split::Split;
use packet::{DropReason, PacketBuf};

use crate::LagPorts;
use crate::burst::batch::Batch;
use crate::burst::credit::credit_back;
use crate::burst::descriptor::{Deferral, Descriptor, Fate};
use crate::deferred::queues::Deferred;
use crate::egress::fragmentation::Fragmenter;
use crate::egress::linearize::linearize;
use crate::io::{Ingress, Io, Urgency};
use crate::stats::Stats;

/// How often a packet may go round. UE to UE, each behind an I-UPF and a PSA that are all this node, takes three laps.
pub(crate) const MAX_RECIRCULATIONS: u8 = 7;

const _: () = assert!(MAX_RECIRCULATIONS <= PortId::LAST_LAP);

/// Where packets wait for the end of their burst.
pub(crate) struct TxQueues<B> {
    /// By port.
    ports: Vec<Batch<B>>,
    /// By worker.
    workers: Vec<Batch<B>>,
    /// By [`Urgency`].
    host: [Batch<B>; 2],
    /// What comes in again. A burst fits; it is taken before the next.
    recirculated: Batch<B>,
    free: Batch<B>,
    /// By port, where its packets leave: by itself, or by a member if it is a LAG. Only packets of our own that belong to
    /// no flow are sent to a LAG itself.
    outputs: Vec<Option<PortId>>,
    /// Ports that did not take all of what they got last.
    full: Vec<bool>,
    /// Yellow packets of the burst that go behind the others.
    late: Batch<(PortId, B)>,
}

/// A burst that is sent, with what stage `tx` needs.
pub(crate) struct Transmission<'a, B> {
    pub packets: &'a mut Batch<B>,
    pub descriptors: &'a [Descriptor],
    /// Packets above their guaranteed rates: bit n is index n.
    pub yellow: u64,
    pub blocks: &'a mut Blocks,
    pub deferred: &'a mut Deferred<B>,
    pub fragmenter: &'a mut Fragmenter<B>,
    pub now: Nanos,
}

impl<B: PacketBuf + Ingress> TxQueues<B> {
    /// For so many ports and workers.
    pub fn new(ports: usize, workers: usize) -> Self {
        let batches = |count| (0..count).map(|_| Batch::new()).collect();
        Self {
            ports: batches(ports),
            workers: batches(workers),
            host: [Batch::new(), Batch::new()],
            recirculated: Batch::new(),
            free: Batch::new(),
            outputs: (0..ports).map(|port| Some(PortId(port as u16))).collect(),
            full: vec![false; ports],
            late: Batch::new(),
        }
    }

    /// The same, where these ports are made of others; nothing leaves by them before it is said how.
    pub fn with_lags(mut self, lags: &[LagPorts]) -> Self {
        lags.iter().for_each(|lag| self.lead(lag.port, None));
        self
    }

    /// Packets to `port` leave by another from now on, or not at all.
    pub fn lead(&mut self, port: PortId, way: Option<PortId>) {
        if let Some(place) = self.outputs.get_mut(port.index()) {
            *place = way;
        }
    }

    /// Sorts a burst by fate, empties it and sends everything. Bit n of `yellow`: the packet at place n is beyond its
    /// guaranteed rate.
    #[inline(never)]
    pub fn transmit<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        transmission: Transmission<'_, B>,
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
        let mut late = 0;
        for (place, (buf, descriptor)) in packets.drain().zip(descriptors).enumerate() {
            match descriptor.fate {
                Fate::Send(port) if port.lap() > 0 => {
                    if !self.recirculate(io, stats, (port, buf)) {
                        credit_back(blocks, descriptor);
                    }
                }
                Fate::Send(port) if yellow >> place & 1 == 1 && self.is_full(port) => {
                    late |= 1 << place;
                    let _ = self.late.push((port, buf));
                }
                Fate::Send(port) => {
                    let lost = self.send(io, stats, port, buf);
                    Sent::before(place, descriptors, late).credit(blocks, port, lost);
                }
                Fate::Split(port) => {
                    let lost = self.flush_port(io, stats, port);
                    Sent::before(place, descriptors, late).credit(blocks, port, lost);
                    if !self.send_split_at(io, stats, (port, buf), (place, fragmenter)) {
                        credit_back(blocks, descriptor);
                    }
                }
                Fate::HandOver(worker) => self.hand_over(io, stats, worker, buf),
                Fate::Host(urgency) => self.give_host(io, stats, urgency, buf),
                Fate::Consumed => {
                    stats.consumed += 1;
                    self.free(io, buf);
                }
                Fate::Drop(reason) => {
                    stats.drop(reason);
                    self.free(io, buf);
                }
                Fate::Defer(deferral) => self.defer(io, stats, (deferral, place, buf), (deferred, now)),
                // Every stage before settles what it lets pass.
                Fate::Open | Fate::Redirect => {
                    stats.drop(DropReason::UnsupportedAction);
                    self.free(io, buf);
                }
            }
        }
        if late != 0 {
            self.send_late(io, stats, blocks, (descriptors, late));
        }
        for port in (0..self.ports.len()).map(|port| PortId(port as u16)) {
            let lost = self.flush_port(io, stats, port);
            Sent::all(descriptors, late).credit(blocks, port, lost);
        }
        self.flush(io, stats);
    }

    /// Puts the packets that go behind the others behind them.
    #[cold]
    fn send_late<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        blocks: &mut Blocks,
        (descriptors, mask): (&[Descriptor], u64),
    ) {
        let mut left = mask;
        while let Some((port, buf)) = self.late.pop_first() {
            let place = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            let lost = self.send(io, stats, port, buf);
            let sent = Sent {
                late: 0..place,
                ..Sent::all(descriptors, mask)
            };
            sent.credit(blocks, port, lost);
        }
    }

    /// Sends the packet at `place` in fragments. Whether all of them went.
    #[cold]
    #[inline(never)]
    fn send_split_at<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        packet: (PortId, B),
        (place, fragmenter): (usize, &mut Fragmenter<B>),
    ) -> bool {
        self.send_split(io, stats, packet, (fragmenter.at(place), fragmenter))
    }

    /// Sends a packet in fragments, in bursts of their own: for nothing waits for the port. Whether all of them went.
    #[cold]
    #[inline(never)]
    pub fn send_split<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        (port, mut whole): (PortId, B),
        (order, fragmenter): (Split, &mut Fragmenter<B>),
    ) -> bool {
        let rest = match fragmenter.cut(order, &mut whole, || io.alloc()) {
            Ok(rest) => rest,
            Err(reason) => {
                self.give_up_one(io, stats, whole, reason);
                return false;
            }
        };
        stats.fragmented += 1;
        let mut lost = self.send_fragment(io, stats, port, whole);
        for fragment in rest {
            stats.fragments_made += 1;
            stats.originated += 1;
            lost += self.send_fragment(io, stats, port, fragment);
        }
        lost + self.flush_port(io, stats, port) == 0
    }

    /// As [`send`](Self::send), of a fragment, in no more parts than the port sends.
    fn send_fragment<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        port: PortId,
        mut fragment: B,
    ) -> usize {
        match linearize(io, port, &mut fragment) {
            Ok(()) => self.send(io, stats, port, fragment),
            Err(reason) => {
                self.give_up_one(io, stats, fragment, reason);
                1
            }
        }
    }

    pub fn is_full(&self, port: PortId) -> bool {
        self.full.get(port.index()).is_some_and(|is_full| *is_full)
    }

    /// Puts a packet behind what waits for `port`; a full batch goes at once. How many packets of that one were lost,
    /// the last ones.
    pub fn send<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, port: PortId, buf: B) -> usize {
        let Some(batch) = self.ports.get_mut(port.index()) else {
            self.send_nowhere(io, stats, port, buf);
            return 0;
        };
        let Err(buf) = batch.push(buf) else { return 0 };
        let lost = transmit_batch(io, stats, self.outputs[port.index()], batch, &mut self.free);
        let _ = batch.push(buf);
        self.full[port.index()] = lost > 0;
        lost
    }

    /// The same for a packet that was made of another, and has its ingress: to ourselves it goes on from the other's
    /// lap.
    pub fn send_on<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, port: PortId, buf: B) {
        if port.lap() > 0 {
            self.recirculate(io, stats, (port, buf));
        } else {
            self.send(io, stats, port, buf);
        }
    }

    /// A packet of our own, to ourselves or to a port that is not there.
    #[cold]
    fn send_nowhere<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, port: PortId, mut buf: B) {
        if port.lap() > 0 {
            buf.set_ingress(port.at_lap(0));
            self.recirculate(io, stats, (port, buf));
        } else {
            stats.drop(DropReason::PortDown);
            self.free(io, buf);
        }
    }

    /// Lets a packet come in again by `port`, one lap further. False if it is dropped.
    #[cold]
    fn recirculate<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        (port, mut buf): (PortId, B),
    ) -> bool {
        let before = buf.ingress();
        let lap = before.lap() + 1;
        if lap > MAX_RECIRCULATIONS {
            stats.drop(DropReason::RecirculationLimit);
            self.free(io, buf);
            return false;
        }
        buf.set_ingress(port.at_lap(lap).answering(before.is_answer()));
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

    /// Whether packets come in again.
    #[inline]
    pub fn has_recirculated(&self) -> bool {
        !self.recirculated.is_empty()
    }

    /// Puts the packets that come in again into `burst`, which is empty.
    pub fn take_recirculated(&mut self, burst: &mut Batch<B>) {
        std::mem::swap(&mut self.recirculated, burst);
    }

    /// Sends what waits for a port; how many packets were lost, the last ones.
    fn flush_port<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, port: PortId) -> usize {
        match self.ports.get_mut(port.index()) {
            Some(batch) if !batch.is_empty() => {
                let lost = transmit_batch(io, stats, self.outputs[port.index()], batch, &mut self.free);
                self.full[port.index()] = lost > 0;
                lost
            }
            _ => 0,
        }
    }

    fn hand_over<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, to: WorkerId, buf: B) {
        let Some(batch) = self.workers.get_mut(to.index()) else {
            stats.drop(DropReason::InboxFull);
            return self.free(io, buf);
        };
        let Err(buf) = batch.push(buf) else { return };
        give(io, stats, to, batch, &mut self.free);
        let _ = batch.push(buf);
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
        if let Err(buf) = self.free.push(buf) {
            io.free(&mut self.free);
            let _ = self.free.push(buf);
        }
    }

    /// Drops a packet that waited for nothing.
    pub fn give_up_one<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, buf: B, reason: DropReason) {
        stats.drop(reason);
        self.free(io, buf);
    }

    /// Stores a packet that comes back later, or drops it.
    #[cold]
    #[inline(never)]
    fn defer<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        (deferral, place, buf): (Deferral, usize, B),
        (deferred, now): (&mut Deferred<B>, Nanos),
    ) {
        if let Err(rejected) = deferred.store(deferral, (place, buf), stats, now) {
            self.give_up_one(io, stats, rejected.packet, rejected.reason);
        }
        while let Some(rejected) = deferred.take_rejected() {
            self.give_up_one(io, stats, rejected.packet, rejected.reason);
        }
    }

    /// Sends, hands over and frees whatever waits.
    pub fn flush<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats) {
        for port in (0..self.ports.len()).map(|port| PortId(port as u16)) {
            self.flush_port(io, stats, port);
        }
        for (worker, batch) in self
            .workers
            .iter_mut()
            .enumerate()
            .filter(|(_, batch)| !batch.is_empty())
        {
            give(io, stats, WorkerId(worker as u16), batch, &mut self.free);
        }
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

/// What was sent of a burst so far: first the packets at these places that are not late, then those that are.
struct Sent<'a> {
    descriptors: &'a [Descriptor],
    late: std::ops::Range<usize>,
    others: std::ops::Range<usize>,
    /// Bit n: the packet at place n is late.
    mask: u64,
}

impl<'a> Sent<'a> {
    fn all(descriptors: &'a [Descriptor], mask: u64) -> Self {
        Self {
            descriptors,
            late: 0..descriptors.len(),
            others: 0..descriptors.len(),
            mask,
        }
    }

    /// Those before `place`, of which none that is late has been sent.
    fn before(place: usize, descriptors: &'a [Descriptor], mask: u64) -> Self {
        Self {
            descriptors,
            late: 0..0,
            others: 0..place,
            mask,
        }
    }

    /// Takes back what the last `lost` packets to `port` have counted. What else waited for the port, messages of our
    /// own, came before them.
    #[inline]
    fn credit(self, blocks: &mut Blocks, port: PortId, lost: usize) {
        if lost == 0 {
            return;
        }
        let is_late = |place: &usize| self.mask >> place & 1 == 1;
        let late = self.late.rev().filter(is_late);
        let others = self.others.rev().filter(|place| !is_late(place));
        let sent = late.chain(others).filter_map(|place| self.descriptors.get(place));
        let to_port = sent.filter(|descriptor| descriptor.fate == Fate::Send(port));
        for descriptor in to_port.take(lost) {
            credit_back(blocks, descriptor);
        }
    }
}

fn transmit_batch<I: Io>(
    io: &mut I,
    stats: &mut Stats,
    way: Option<PortId>,
    batch: &mut Batch<I::Buf>,
    free: &mut Batch<I::Buf>,
) -> usize {
    let Some(port) = way else {
        let lost = batch.len();
        drop_rest(io, stats, batch, free, DropReason::PortDown);
        return lost;
    };
    let (packets, length) = (batch.len() as u64, octets(batch));
    io.tx(port, batch);
    let tx = &mut stats.ports[port.index()].tx;
    tx.packets += packets - batch.len() as u64;
    tx.octets += length - octets(batch);
    let lost = batch.len();
    drop_rest(io, stats, batch, free, DropReason::TxFull);
    lost
}

fn give<I: Io>(
    io: &mut I,
    stats: &mut Stats,
    to: WorkerId,
    batch: &mut Batch<I::Buf>,
    free: &mut Batch<I::Buf>,
) {
    let packets = batch.len() as u64;
    io.hand_over(to, batch);
    stats.handed_over += packets - batch.len() as u64;
    drop_rest(io, stats, batch, free, DropReason::InboxFull);
}

/// Frees what found no room.
fn drop_rest<I: Io>(
    io: &mut I,
    stats: &mut Stats,
    batch: &mut Batch<I::Buf>,
    free: &mut Batch<I::Buf>,
    reason: DropReason,
) {
    for buf in batch.drain() {
        stats.drop(reason);
        if let Err(buf) = free.push(buf) {
            io.free(free);
            let _ = free.push(buf);
        }
    }
}
