//! Where a worker's packets come from and go to.

mod accelerator_port;
mod accelerator_port_stats;
pub mod behind_accelerator;
mod charge;
pub(crate) mod classic_bpf;
#[cfg(feature = "dpdk")]
pub mod dpdk;
mod exchange;
mod link_ends;
pub mod mem;
mod parcels;
mod waiting_questions;

use flow::contract::Flow;
use flow::{Bucket, Nanos, PortId, SessionIndex, WorkerId};
use offload::in_band::InBand;
use packet::PacketBuf;

use self::accelerator_port_stats::AcceleratorPortStats;
pub use self::charge::ChargeId;
pub use self::classic_bpf::Instruction;
pub use self::exchange::{Asked, Exchange};
pub use self::parcels::{Parcel, Parcels};
use crate::Batch;

/// Metadata of a packet that its buffer keeps.
pub trait PacketMetadata {
    /// The port by which the packet came in. It goes along when the packet is handed over.
    fn ingress(&self) -> PortId;

    /// Notes the port by which the packet came in.
    fn set_ingress(&mut self, port: PortId);

    /// What the packet has counted that is queued to be sent. It means something only after
    /// [`set_charge`](Self::set_charge) at the same worker.
    fn charge(&self) -> ChargeId;

    /// Notes what the packet has counted.
    fn set_charge(&mut self, charge: ChargeId);
}

/// Which of the two queues to the host's own network stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Urgency {
    /// Limits of what waits.
    Usual,
    /// What keeps links and neighbours alive.
    Urgent,
}

impl Urgency {
    /// Both, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Usual, Self::Urgent];
}

/// What says to which receive queue of a port a frame comes: a program of classic BPF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueProgram {
    /// Gives n for the first queue of worker n, and for its second one n behind those of all workers; as if there were
    /// one worker, of a port that [places frames itself](Io::is_placed_by_port). Offsets are from a frame's layer 3
    /// header on, or its second tag.
    pub instructions: Vec<Instruction>,
    /// Whether urgent packets come to second queues. Otherwise nothing does.
    pub sorts: bool,
}

/// One worker's queues: one of each port, its inbox, and the inboxes of the others.
///
/// Nothing blocks. What cannot be sent stays in the caller's batch, so that the caller counts it.
pub trait Io {
    /// A packet's buffer.
    type Buf: PacketBuf + PacketMetadata + Send + 'static;

    /// How many ports there are; they are numbered from 0.
    fn ports(&self) -> usize;

    /// Takes what has come in by `port`, as many as `out` has room for, with their ingress set. What is to be processed
    /// must be [completed](Self::complete_checksums); what is dropped need not be.
    fn rx(&mut self, port: PortId, out: &mut Batch<Self::Buf>);

    /// Fills in the checksums that the senders of packets, which came in by `port`, have left to a NIC: once, before
    /// they are processed.
    #[inline]
    fn complete_checksums(&mut self, port: PortId, packets: &mut Batch<Self::Buf>) {
        let _ = (port, packets);
    }

    /// Whether `port` itself says for which worker a frame is, whatever a [program](Self::choose_queues) chooses.
    fn is_placed_by_port(&self, port: PortId) -> bool {
        let _ = port;
        false
    }

    /// Lets a program say which frames that come in by `port` are for which worker, and which of them for its second
    /// receive queue, that of urgent packets. A port that takes none continues as it is.
    fn choose_queues(&mut self, port: PortId, program: &QueueProgram) {
        let _ = (port, program);
    }

    /// Whether urgent packets of `port` come to a queue of their own, since a program says so.
    #[inline]
    fn has_urgent_queue(&self, port: PortId) -> bool {
        let _ = port;
        false
    }

    /// As [`rx`](Self::rx), from the queue of urgent packets. It costs next to nothing where there are none.
    #[inline]
    fn rx_urgent(&mut self, port: PortId, out: &mut Batch<Self::Buf>) {
        let _ = (port, out);
    }

    /// Whether more than `packets` wait to be received by `port`; `None` where it does not tell.
    fn has_more_than(&self, port: PortId, packets: u16) -> Option<bool> {
        let _ = (port, packets);
        None
    }

    /// Sends the packets of `out` by `port`, none of which is in more parts than it [may](Self::most_parts). The last
    /// ones, if they found no room, stay in `out`, in order.
    fn tx(&mut self, port: PortId, out: &mut Batch<Self::Buf>);

    /// Whether there is a port that cannot send packets in chains of any length.
    fn bounds_chains(&self) -> bool {
        false
    }

    /// The most parts of a packet that `port` sends; `usize::MAX`: any number.
    fn most_parts(&self, port: PortId) -> usize {
        let _ = port;
        usize::MAX
    }

    /// Whether `port` fills in UDP checksums of packets that [ask](PacketBuf::ask_udp_checksum) for it. Others may not
    /// ask. It is so from the start.
    fn fills_udp_checksums(&self, port: PortId) -> bool {
        let _ = port;
        false
    }

    /// An empty buffer with headroom, for a packet of our own. `None` when the pool is empty.
    fn alloc(&mut self) -> Option<Self::Buf>;

    /// Puts the packets of `out` into the inbox of the worker `to`. Those that found no room stay in `out`.
    fn hand_over(&mut self, to: WorkerId, out: &mut Batch<Self::Buf>);

    /// Takes packets that other workers handed over, as many as `out` has room for.
    fn inbox(&mut self, out: &mut Batch<Self::Buf>);

    /// Packets in the own inbox. They come out in the order in which they were put in.
    fn inbox_len(&self) -> usize;

    /// Gives something to the worker `to`.
    ///
    /// # Errors
    /// The same, where there is no room for it.
    fn give(&mut self, to: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        let _ = to;
        Err(parcel)
    }

    /// Takes what another worker has given.
    fn take_given(&mut self) -> Option<Parcel> {
        None
    }

    /// Puts packets into a queue to the host's own network stack. Those that found no room stay in `out`; all, where no
    /// host takes any.
    fn give_host(&mut self, urgency: Urgency, out: &mut Batch<Self::Buf>) {
        let _ = (urgency, out);
    }

    /// Takes frames that the host's own network stack sends, as many as `out` has room for; the ingress of each is the
    /// port that it leaves by.
    fn take_host(&mut self, out: &mut Batch<Self::Buf>) {
        let _ = out;
    }

    /// The accelerator that some of the ports are behind, if there is one.
    fn accelerator(&mut self) -> Option<&mut InBand> {
        None
    }

    /// The same, to read, and what was counted of frames on the port towards it.
    fn accelerator_state(&self) -> Option<(&InBand, &AcceleratorPortStats)> {
        None
    }

    /// The port towards it.
    fn accelerator_port(&self) -> Option<PortId> {
        None
    }

    /// Ports below this number are of this node's own; those from it on are behind the accelerator.
    fn ports_of_its_own(&self) -> usize {
        self.ports()
    }

    /// Takes what has come from the accelerator: packets of its ports, and what its channel has for
    /// [`accelerator`](Self::accelerator). `waiting`: packets that were received by a port and are not processed yet;
    /// `owner`: the worker of a bucket.
    fn poll_accelerator(
        &mut self,
        now: Nanos,
        waiting: &dyn Fn(PortId) -> usize,
        owner: &dyn Fn(Bucket) -> WorkerId,
    ) {
        let _ = (now, waiting, owner);
    }

    /// Takes packets that have come from the accelerator for this worker or another one, and first octets of such
    /// packets, in order and as many as `out`, which is empty, has room for: they are to be [sorted](Self::sort). None
    /// where there is one worker, or this is not the one that receives for all.
    fn take_unsorted(&mut self, out: &mut Batch<Self::Buf>, now: Nanos) {
        let _ = (out, now);
    }

    /// Gives the packets that were [taken](Self::take_unsorted) last each to its worker, which has them as if it had
    /// received them.
    fn sort(&mut self, packets: &mut Batch<Self::Buf>, owners: &[WorkerId], now: Nanos) {
        let _ = (owners, now);
        packets.clear();
    }

    /// What was given to other workers beside [handing over](Self::hand_over), since the start.
    fn passed_on(&self) -> u64 {
        0
    }

    /// Frames that were taken of the link with an accelerator, what other workers have passed on of it, and packets
    /// that were [sorted](Self::sort), since the start.
    fn taken_of_link(&self) -> u64 {
        0
    }

    /// Sends what waits for the accelerator.
    fn flush_accelerator(&mut self, now: Nanos) {
        let _ = now;
    }

    /// How a packet came from the accelerator, until it is queued to be sent; `None` where it did not.
    fn exchange_of(&self, packet: &Self::Buf) -> Option<Exchange> {
        let _ = packet;
        None
    }

    /// Puts in front of a packet as it was received what has it pass at the accelerator, by this flow of a session. It
    /// is to be sent by the [port](Self::accelerator_port) towards it. False, and it is as before, where that cannot
    /// be.
    fn put_through(&mut self, packet: &mut Self::Buf, session: SessionIndex, flow: &Flow) -> bool {
        let _ = (packet, session, flow);
        false
    }

    /// Takes questions of the accelerator, as many as `out` has room for: packets as long as those that it keeps, with
    /// their first octets alone; what is behind these is not defined.
    fn take_questions(&mut self, out: &mut Batch<Self::Buf>, asked: &mut Vec<Asked>) {
        let _ = (out, asked);
    }

    /// Answers the question of this number: the packet passes at the accelerator by this flow of a session; without
    /// one it comes whole.
    fn answer(&mut self, number: u32, flow: Option<(SessionIndex, &Flow)>) {
        let _ = (number, flow);
    }

    /// Has all answers leave that were given.
    fn end_answers(&mut self) {}

    /// Frees packets that go no further. Better for a pool than one by one.
    fn free(&mut self, out: &mut Batch<Self::Buf>) {
        out.clear();
    }
}
