//! Packet I/O in memory: for tests, the one-thread world, the demo and the simulator.
//!
//! A [`Wires`] has one queue for each worker and port towards the workers, one for each port away from them, and an
//! inbox for each worker. Queues are bounded and shared under a lock; they cross threads, though they are made for
//! worlds on one. Buffers that a worker frees it uses again, so that a warm world allocates nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow::{PortId, WorkerId};
use packet::checksum::Sum;
use packet::eth::L2;
use packet::tuple::proto;
use packet::{IpFrame, PacketBuf, VecBuf, buf, ipv6, udp};

use crate::{Batch, ChargeId, Io, PacketMetadata, Parcel, Parcels, Urgency};

/// Octets that [`gather`](PacketBuf::gather) has room for, as in an mbuf of the usual size.
const FIRST_PART: usize = 2_048;

/// A packet in a vector, with the port it came in by. Its payload may continue in others, as that of a chain of mbufs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemBuf {
    buf: VecBuf,
    /// What follows `buf`; none of them is empty.
    parts: VecDeque<Vec<u8>>,
    /// Octets that each of `parts` holds, of a packet that came in a chain; else all that a packet can have. `buf`
    /// holds any packet, so a gathered packet has the tailroom of one that came in one part.
    part: usize,
    port: PortId,
    /// Octets before the IP header of a packet whose UDP checksum the port is to fill in.
    asks: Option<usize>,
    charge: ChargeId,
}

impl MemBuf {
    /// A copy of `packet`.
    pub fn new(packet: &[u8]) -> Self {
        Self {
            ..Self::from(VecBuf::new(packet))
        }
    }

    /// A copy of `packet` in parts of `part` octets, at least 1, like a packet that a NIC spread over several buffers.
    pub fn chained(packet: &[u8], part: usize) -> Self {
        let (first, rest) = packet.split_at(packet.len().min(part));
        Self {
            parts: rest.chunks(part.max(1)).map(<[u8]>::to_vec).collect(),
            part,
            ..Self::new(first)
        }
    }

    /// The packet's octets, of one that is not chained: none is that [left](Wires::from).
    pub fn bytes(&self) -> &[u8] {
        self.buf.data()
    }

    /// The same packet in one part.
    fn in_one_part(mut self) -> Self {
        while let Some(part) = self.parts.pop_front() {
            if let Some(room) = self.buf.append(part.len()) {
                room.copy_from_slice(&part);
            }
        }
        self.part = VecBuf::MAX_LEN;
        self
    }

    /// Fills in the UDP checksum if that was asked for, as a NIC does: over the datagram alone, whose field holds the
    /// sum of the pseudo header.
    ///
    /// # Panics
    /// When it was asked wrongly: the packet is not UDP over IPv6 alone behind the given octets, or the field held
    /// something else.
    fn summed(mut self) -> Self {
        let Some(l2) = self.asks.take() else { return self };
        let frame = self.buf.data_mut();
        let link = L2::parse(frame).expect("a frame asks for a checksum");
        assert_eq!(usize::from(link.len), l2, "the link layer has another length");
        let ip = IpFrame::parse(frame, frame.len(), &link).expect("a packet asks for a checksum");
        let (headers, datagram) = frame.split_at_mut(l2 + ipv6::HEADER_LEN);
        let is_datagram = !ip.tuple.addrs.is_v4() && headers[l2 + 6] == proto::UDP;
        assert!(is_datagram, "what asks for a checksum is no UDP over IPv6");
        let length = usize::from(u16::from_be_bytes([datagram[4], datagram[5]]));
        let covered = &mut datagram[..length];
        let checksum = Sum::default().bytes(covered).udp_checksum();
        covered[6..8].copy_from_slice(&checksum.to_be_bytes());
        let verified = udp::verify_checksum(&ip.tuple.addrs, covered, Sum::default(), false);
        assert_eq!(
            verified,
            Ok(()),
            "the field did not hold the sum of the pseudo header"
        );
        self
    }
}

impl From<VecBuf> for MemBuf {
    fn from(buf: VecBuf) -> Self {
        Self {
            buf,
            parts: VecDeque::new(),
            part: VecBuf::MAX_LEN,
            port: PortId(0),
            asks: None,
            charge: ChargeId::NONE,
        }
    }
}

impl PacketMetadata for MemBuf {
    fn ingress(&self) -> PortId {
        self.port
    }

    fn set_ingress(&mut self, port: PortId) {
        self.port = port;
    }

    fn charge(&self) -> ChargeId {
        self.charge
    }

    fn set_charge(&mut self, charge: ChargeId) {
        self.charge = charge;
    }
}

impl PacketBuf for MemBuf {
    #[inline]
    fn data(&self) -> &[u8] {
        self.buf.data()
    }

    #[inline]
    fn data_mut(&mut self) -> &mut [u8] {
        self.buf.data_mut()
    }

    #[inline]
    fn len(&self) -> usize {
        self.buf.len() + self.parts.iter().map(Vec::len).sum::<usize>()
    }

    #[inline]
    fn prepend(&mut self, n: usize) -> Option<&mut [u8]> {
        self.buf.prepend(n)
    }

    #[inline]
    fn trim_front(&mut self, n: usize) -> bool {
        self.buf.trim_front(n)
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> bool {
        if len > self.len() {
            return false;
        }
        while !self.parts.is_empty() && self.len() > len {
            let surplus = self.len() - len;
            let last = self.parts.back_mut().map_or(0, |last| {
                last.truncate(last.len().saturating_sub(surplus));
                last.len()
            });
            if last == 0 {
                self.parts.pop_back();
            }
        }
        self.buf.truncate(len.min(self.buf.len()))
    }

    fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        if n > self.tailroom() {
            return None;
        }
        match self.parts.back_mut() {
            None => self.buf.append(n),
            Some(last) => {
                let end = last.len();
                last.resize(end + n, 0);
                last.get_mut(end..)
            }
        }
    }

    #[inline]
    fn headroom(&self) -> usize {
        self.buf.headroom()
    }

    fn tailroom(&self) -> usize {
        match self.parts.back() {
            None => self.buf.tailroom(),
            Some(last) => self.part.saturating_sub(last.len()),
        }
    }

    fn link(&mut self, tail: Self) -> Result<(), Self> {
        if self.len() + tail.len() > VecBuf::MAX_LEN {
            return Err(tail);
        }
        let first = std::iter::once(tail.buf.data().to_vec());
        let parts = first.chain(tail.parts).filter(|part| !part.is_empty());
        self.parts.extend(parts);
        Ok(())
    }

    fn gather(&mut self, n: usize) -> bool {
        if n > self.len() || n > FIRST_PART {
            return false;
        }
        while let Some(missing) = n.checked_sub(self.buf.len()).filter(|missing| *missing > 0)
            && let Some(mut part) = self.parts.pop_front()
        {
            let rest = part.split_off(part.len().min(missing));
            if let Some(room) = self.buf.append(part.len()) {
                room.copy_from_slice(&part);
            }
            if !rest.is_empty() {
                self.parts.push_front(rest);
            }
        }
        true
    }

    fn for_each_part(&self, visit: &mut dyn FnMut(&[u8])) {
        visit(self.buf.data());
        self.parts.iter().for_each(|part| visit(part));
    }

    fn ask_udp_checksum(&mut self, l2: usize) -> bool {
        self.asks = Some(l2);
        true
    }

    fn asks_udp_checksum(&self) -> Option<usize> {
        self.asks
    }
}

/// A bounded queue of packets with any number of ends.
#[derive(Clone)]
pub struct Queue {
    packets: Arc<Mutex<VecDeque<MemBuf>>>,
    depth: usize,
}

impl Queue {
    /// Room for `depth` packets.
    pub fn new(depth: usize) -> Self {
        Self {
            packets: Arc::new(Mutex::new(VecDeque::with_capacity(depth))),
            depth,
        }
    }

    /// Adds a packet at the end, or gives it back.
    ///
    /// # Errors
    /// The packet, when the queue is full.
    pub fn push(&self, packet: MemBuf) -> Result<(), MemBuf> {
        let mut packets = self.lock();
        if packets.len() >= self.depth {
            return Err(packet);
        }
        packets.push_back(packet);
        Ok(())
    }

    /// Takes the first packet.
    pub fn pop(&self) -> Option<MemBuf> {
        self.lock().pop_front()
    }

    /// Packets in the queue.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves what fits from `batch` to the end of the queue.
    fn take_from(&self, batch: &mut Batch<MemBuf>) {
        let mut packets = self.lock();
        let room = self.depth.saturating_sub(packets.len());
        packets.extend(batch.drain_front(room));
    }

    /// Moves what fits from the front of the queue to `batch`.
    fn give_to(&self, batch: &mut Batch<MemBuf>) {
        let mut packets = self.lock();
        let some = batch.room().min(packets.len());
        packets.drain(..some).for_each(|packet| drop(batch.push(packet)));
    }

    /// The same of packets that leave: outside they are in one part.
    fn take_whole_from(&self, batch: &mut Batch<MemBuf>) {
        let mut packets = self.lock();
        let room = self.depth.saturating_sub(packets.len());
        packets.extend(
            batch
                .drain_front(room)
                .map(|packet| packet.in_one_part().summed()),
        );
    }

    /// A panic of another holder leaves whole packets behind, so its poison means nothing.
    fn lock(&self) -> MutexGuard<'_, VecDeque<MemBuf>> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The outside ends of every port.
#[derive(Clone)]
pub struct Wires {
    /// By worker, then port: what each worker receives.
    to: Vec<Vec<Queue>>,
    /// By port: what all workers send.
    from: Vec<Queue>,
    /// By port: urgent packets that the first worker receives beside the others, where a port
    /// [sorts](MemIo::sort_urgent).
    urgent: Vec<Queue>,
    /// By [`Urgency`]: what all workers give to the host's own network stack.
    to_host: [Queue; 2],
    /// What the host sends, by the first worker.
    from_host: Queue,
}

impl Wires {
    /// Wires for `workers` and `ports` with queues of `depth` packets, and each worker's ends of them.
    pub fn new(workers: usize, ports: usize, depth: usize) -> (Self, Vec<MemIo>) {
        let queues = |count: usize| (0..count).map(|_| Queue::new(depth)).collect::<Vec<_>>();
        let wires = Self {
            to: (0..workers).map(|_| queues(ports)).collect(),
            from: queues(ports),
            urgent: queues(ports),
            to_host: [Queue::new(depth), Queue::new(depth)],
            from_host: Queue::new(depth),
        };
        let inboxes = queues(workers);
        let io = |(worker, parcels): (usize, _)| MemIo {
            parcels,
            rx: wires.to[worker].clone(),
            tx: wires.from.clone(),
            inboxes: inboxes.clone(),
            to_host: wires.to_host.clone(),
            from_host: (worker == 0).then(|| wires.from_host.clone()),
            worker,
            pool: Vec::with_capacity(depth),
            last_charge: ChargeId::NONE,
            most_parts: Vec::new(),
            fills: Vec::new(),
            filled: 0,
            completed: 0,
            tells: false,
            urgent: if worker == 0 {
                wires.urgent.clone()
            } else {
                Vec::new()
            },
            sorts: false,
        };
        let ios = Parcels::between(workers)
            .into_iter()
            .enumerate()
            .map(io)
            .collect();
        (wires, ios)
    }

    /// The queue of what `worker` receives by `port`: the NIC has placed the packet.
    ///
    /// # Panics
    /// When there is no such worker or port.
    pub fn to(&self, worker: WorkerId, port: PortId) -> &Queue {
        &self.to[worker.index()][port.index()]
    }

    /// The queue of urgent packets of `port`.
    ///
    /// # Panics
    /// When there is no such port.
    pub fn urgent(&self, port: PortId) -> &Queue {
        &self.urgent[port.index()]
    }

    /// The queue of what the workers sent by `port`.
    ///
    /// # Panics
    /// When there is no such port.
    pub fn from(&self, port: PortId) -> &Queue {
        &self.from[port.index()]
    }

    /// The queue of what the workers gave to the host's own network stack.
    pub fn host_gets(&self, urgency: Urgency) -> &Queue {
        &self.to_host[urgency as usize]
    }

    /// The queue of what the host sends: its packets' ingress is the port that they leave by.
    pub fn host_sends(&self) -> &Queue {
        &self.from_host
    }
}

/// One worker's ends of the [`Wires`].
pub struct MemIo {
    rx: Vec<Queue>,
    tx: Vec<Queue>,
    inboxes: Vec<Queue>,
    parcels: Parcels,
    to_host: [Queue; 2],
    from_host: Option<Queue>,
    worker: usize,
    /// Freed buffers, for [`Io::alloc`].
    pool: Vec<MemBuf>,
    /// The charge of the packet that was sent last. Buffers of [`Io::alloc`] have it, as an mbuf keeps its metadata in
    /// the pool.
    last_charge: ChargeId,
    /// By port, if any is bounded: the most parts of a packet that it sends.
    most_parts: Vec<usize>,
    /// Ports that fill in UDP checksums.
    fills: Vec<PortId>,
    /// Checksums that they have filled in.
    filled: u64,
    /// Packets whose checksums were to be completed.
    completed: u64,
    /// Whether ports tell how many packets wait.
    tells: bool,
    /// By port, of the first worker.
    urgent: Vec<Queue>,
    /// Whether ports sort urgent packets out.
    sorts: bool,
}

impl MemIo {
    /// Has `port` send no packet in more parts than these, as a NIC that cannot.
    pub fn bound_chains(&mut self, port: PortId, most: usize) {
        self.most_parts.resize(self.tx.len(), usize::MAX);
        if let Some(bound) = self.most_parts.get_mut(port.index()) {
            *bound = most;
        }
    }

    /// Has `port` fill in UDP checksums, as a NIC that can. Before a worker gets this.
    pub fn fill_udp_checksums(&mut self, port: PortId) {
        self.fills.push(port);
    }

    /// Has all ports tell whether more than some packets wait to be received.
    pub fn tell_waiting(&mut self) {
        self.tells = true;
    }

    /// Has all ports sort urgent packets out, as those do that a program can be given: of the first worker. Before a
    /// worker gets this.
    pub fn sort_urgent(&mut self) {
        self.sorts = true;
    }

    /// Received packets whose checksums were to be [completed](Io::complete_checksums).
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// UDP checksums that ports have filled in of what this worker sent.
    pub fn filled_udp_checksums(&self) -> u64 {
        self.filled
    }
}

impl Io for MemIo {
    type Buf = MemBuf;

    fn ports(&self) -> usize {
        self.rx.len()
    }

    fn rx(&mut self, port: PortId, out: &mut Batch<MemBuf>) {
        let before = out.len();
        if let Some(queue) = self.rx.get(port.index()) {
            queue.give_to(out);
        }
        out[before..].iter_mut().for_each(|buf| buf.set_ingress(port));
    }

    fn complete_checksums(&mut self, _: PortId, packets: &mut Batch<MemBuf>) {
        self.completed += packets.len() as u64;
    }

    fn tx(&mut self, port: PortId, out: &mut Batch<MemBuf>) {
        let most = self.most_parts(port);
        assert!(
            out.iter().all(|buf| buf::parts(buf) <= most),
            "{port:?} was handed a chain that it cannot send"
        );
        assert!(
            self.fills_udp_checksums(port) || asking(out) == 0,
            "{port:?} was asked for a checksum that it does not fill in"
        );
        if let Some(queue) = self.tx.get(port.index()) {
            let before = asking(out);
            if let Some(charge) = out
                .iter()
                .map(MemBuf::charge)
                .find(|charge| *charge != ChargeId::NONE)
            {
                self.last_charge = charge;
            }
            queue.take_whole_from(out);
            self.filled += before - asking(out);
        }
    }

    fn has_urgent_queue(&self, port: PortId) -> bool {
        self.sorts && self.urgent.len() > port.index()
    }

    fn rx_urgent(&mut self, port: PortId, out: &mut Batch<MemBuf>) {
        if let Some(queue) = self.urgent.get(port.index()) {
            queue.give_to(out);
        }
        out.iter_mut().for_each(|buf| buf.set_ingress(port));
    }

    fn has_more_than(&self, port: PortId, packets: u16) -> Option<bool> {
        let queue = self.rx.get(port.index()).filter(|_| self.tells)?;
        Some(queue.len() > packets.into())
    }

    fn bounds_chains(&self) -> bool {
        !self.most_parts.is_empty()
    }

    fn most_parts(&self, port: PortId) -> usize {
        self.most_parts.get(port.index()).copied().unwrap_or(usize::MAX)
    }

    fn fills_udp_checksums(&self, port: PortId) -> bool {
        self.fills.contains(&port)
    }

    fn alloc(&mut self) -> Option<MemBuf> {
        let mut buf = match self.pool.pop() {
            Some(used) => renewed(used),
            None => MemBuf::new(&[]),
        };
        buf.set_charge(self.last_charge);
        Some(buf)
    }

    fn hand_over(&mut self, to: WorkerId, out: &mut Batch<MemBuf>) {
        assert_eq!(
            asking(out),
            0,
            "a worker was handed a packet without its checksum"
        );
        if let Some(queue) = self.inboxes.get(to.index()) {
            queue.take_from(out);
        }
    }

    fn inbox(&mut self, out: &mut Batch<MemBuf>) {
        if let Some(queue) = self.inboxes.get(self.worker) {
            queue.give_to(out);
        }
    }

    fn give(&mut self, to: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        self.parcels.give(to, parcel)
    }

    fn take_given(&mut self) -> Option<Parcel> {
        self.parcels.take()
    }

    fn give_host(&mut self, urgency: Urgency, out: &mut Batch<MemBuf>) {
        assert_eq!(asking(out), 0, "the host was given a packet without its checksum");
        self.to_host[urgency as usize].take_from(out);
    }

    fn take_host(&mut self, out: &mut Batch<MemBuf>) {
        if let Some(queue) = &self.from_host {
            queue.give_to(out);
        }
    }

    fn inbox_len(&self) -> usize {
        self.inboxes.get(self.worker).map_or(0, Queue::len)
    }

    fn free(&mut self, out: &mut Batch<MemBuf>) {
        for buf in out.drain() {
            if self.pool.len() < self.pool.capacity() {
                self.pool.push(buf);
            }
        }
    }
}

/// Packets that ask for a checksum.
fn asking(batch: &Batch<MemBuf>) -> u64 {
    batch.iter().filter(|buf| buf.asks.is_some()).count() as u64
}

/// An empty buffer with headroom in the memory of `used`.
fn renewed(mut used: MemBuf) -> MemBuf {
    used.truncate(0);
    (used.part, used.asks) = (VecBuf::MAX_LEN, None);
    let missing = VecBuf::HEADROOM.saturating_sub(used.headroom());
    let has_room = used.append(missing).is_some() && used.trim_front(missing);
    if has_room { used } else { MemBuf::new(&[]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gathered_packet_has_the_room_of_a_linear_one() {
        let packet = [7; 5];
        for part in 1..=5 {
            let mut linear = MemBuf::new(&packet);
            let mut chained = MemBuf::chained(&packet, part);
            if chained.is_chained() {
                assert!(chained.tailroom() < part, "in parts of {part}");
            }
            assert!(chained.gather(packet.len()));
            assert_eq!(chained.tailroom(), linear.tailroom(), "in parts of {part}");
            for buf in [&mut linear, &mut chained] {
                buf.append(1_280).expect("there is room").fill(9);
            }
            assert_eq!(chained.bytes(), linear.bytes());
        }
    }

    #[test]
    fn packets_cross_with_their_port_and_what_finds_no_room_stays() {
        let (wires, mut ios) = Wires::new(2, 2, 3);
        for n in 0..3 {
            wires
                .to(WorkerId(1), PortId(1))
                .push(MemBuf::new(&[n]))
                .expect("there is room");
        }
        assert!(wires.to(WorkerId(1), PortId(1)).push(MemBuf::new(&[9])).is_err());
        let mut batch = Batch::new();
        ios[1].rx(PortId(1), &mut batch);
        assert!(batch.iter().all(|buf| buf.ingress() == PortId(1)));
        ios[1].tx(PortId(0), &mut batch);
        assert!(batch.is_empty());
        batch.push(MemBuf::new(&[7])).expect("there is room");
        ios[1].tx(PortId(0), &mut batch);
        assert_eq!(batch.len(), 1);
        assert_eq!(
            wires.from(PortId(0)).pop().map(|buf| buf.bytes().to_vec()),
            Some(vec![0])
        );
    }

    #[test]
    fn inboxes_keep_the_ingress() {
        let (_, mut ios) = Wires::new(2, 1, 8);
        let mut batch = Batch::new();
        let mut buf = MemBuf::new(b"x");
        buf.set_ingress(PortId(5));
        batch.push(buf).expect("there is room");
        ios[0].hand_over(WorkerId(1), &mut batch);
        ios[0].inbox(&mut batch);
        assert!(batch.is_empty());
        ios[1].inbox(&mut batch);
        assert_eq!(batch[0].ingress(), PortId(5));
    }

    #[test]
    fn freed_buffers_come_back_empty_with_headroom() {
        let (_, mut ios) = Wires::new(1, 1, 8);
        let mut batch = Batch::new();
        let mut buf = MemBuf::new(b"long enough");
        buf.prepend(100).expect("there is headroom");
        batch.push(buf).expect("there is room");
        ios[0].free(&mut batch);
        let buf = ios[0].alloc().expect("there is memory");
        assert_eq!((buf.len(), buf.headroom()), (0, VecBuf::HEADROOM));
    }
}
