//! The channel between control and one worker: commands to it, events from it.
//!
//! Both ways are single-producer single-consumer rings of fixed size (`rtrb`: wait-free, no allocation after it is
//! made, a plain load and store each on this hardware; a multi-producer channel would cost more for no need). In
//! the daemon the two ends are on two threads, in the one-thread world on one.
//!
//! Commands are applied in order, at the boundary of a burst. Every command with an [`OpId`] has exactly one event
//! that answers it, and a command is not taken while its answer has no room: Control slows down, packets do not.

pub(crate) mod drain;
pub(crate) mod event_queue;

use std::net::{IpAddr, Ipv6Addr};

use flow::meter::{Chain, Demand, Rate, SharedId};
use flow::{
    BlockImage, ContentUsage, Direction, InstanceId, LocalId, OpId, PacketTimes, PortId, Reached,
    SessionIndex, VrfId,
};
use nat::mappings::{MovedMapping, Protocol, SessionUse};
use nat::pools::BlockId;
use packet::too_big::TooBig;
use packet::{MacAddr, Qfi, Teid};
use rtrb::{Consumer, Producer, RingBuffer};
use rules::boxed_option::BoxedOption;
use rules::image::{DataStatus, PacketsLeft, SessionChange, SessionImage, UrrCount, UsageSnapshot};
use rules::model::{FarId, PdrId, QerId, UrrId};
use rules::worker_selection::WorkerSelectionChange;
use tm::QueueView;
use transport::lag::{Lacpdu, LagShare};
use transport::{AdjacencyChange, NeighbourMessage};

use crate::egress::network_tables::NetworkTables;
use crate::trace::{TraceItem, TraceRequest};

/// Who keeps a share of a rate that sessions have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseHolder {
    /// The worker itself.
    Worker,
    /// The accelerator. All workers that have it give it the share: it is there while one of them is in contact.
    Accelerator,
}

/// A command from control to a worker.
#[derive(Debug)]
pub enum Command {
    /// A session comes, changes or goes; whole or not at all. Answered by [`Event::Applied`].
    Session {
        /// The operation.
        op: OpId,
        /// What to do.
        change: SessionChange,
    },
    /// The rules that all sessions share have changed. Flows keep their decisions until each is made anew, as fast as
    /// the slow path's budget for stale flows allows. Images that were applied before with the same
    /// `classification_generation`, and classify otherwise all the same, take effect for known flows in this way; their
    /// slots must mean what they meant. Sent to every worker.
    Revalidate,
    /// Which worker owns what. Sent to every worker.
    SelectWorker(WorkerSelectionChange),
    /// A neighbour came, changed or went. Sent to every worker.
    Adjacency(AdjacencyChange),
    /// Sets a share of a meter that sessions have in common: that of a slice or a data network, or of correlated QERs.
    /// An accelerator's is sent to every worker.
    SharedMeter {
        /// Whose share.
        holder: LeaseHolder,
        /// Which one, from 1 to [`WorkerConfig::shared_meters`](crate::WorkerConfig::shared_meters).
        id: SharedId,
        /// Of which direction.
        direction: Direction,
        /// The rate.
        rate: Rate,
        /// The burst in octets.
        burst: u64,
    },
    /// Requests the octets that were offered to the meters that sessions share. The response is
    /// [`Event::SharedDemand`]. An accelerator's are requested of the first worker alone.
    SharedDemand {
        /// To whose meters.
        holder: LeaseHolder,
        /// The meters, with room for the answer.
        demand: Box<[Demand]>,
    },
    /// Requests what has left by the nodes before ports, and who waits. The response is [`Event::EgressDemands`].
    EgressDemands,
    /// Sets the parts that nodes before ports have of their rates.
    EgressLeases {
        /// The parts. A node that is another rate's by now stays as it is.
        leases: Box<[EgressLease]>,
    },
    /// Which members of a LAG carry frames. Sent to every worker.
    Lag {
        /// The LAG.
        port: PortId,
        /// Its members that do.
        share: LagShare,
    },
    /// How long packets to a GTP-U peer may be, if that is less than the link says. Sent to every worker.
    PathMtu {
        /// Our address.
        local: IpAddr,
        /// The peer's.
        peer: IpAddr,
        /// The longest outer packet, octets; `None`: as the link says.
        mtu: Option<u16>,
    },
    /// Sessions send to a GTP-U peer from now on, or none does any more. Sent to every worker.
    Path {
        /// Our address.
        local: IpAddr,
        /// The peer's.
        peer: IpAddr,
        /// Whether any session does.
        is_used: bool,
    },
    /// An own IPv6 address may be used from now on, or may not: it is tentative or a duplicate (RFC 4862 §5.4). All are
    /// usable at first. Sent to every worker.
    OwnAddress {
        /// The instance on whose link it is.
        instance: InstanceId,
        /// The address.
        address: Ipv6Addr,
        /// Whether it is answered for and used as a source.
        is_usable: bool,
    },
    /// The network as it is configured from now on. Packets that wait for next hops find theirs anew. The response,
    /// [`Event::Network`], has the tables of before. Sent to every worker, behind the adjacencies that it leads to.
    Network(Box<NetworkTables>),
    /// The policers that sessions of a number pass, in the place of its own one.
    SharedChain {
        /// The number.
        id: SharedId,
        /// The meters of the policers.
        chain: Chain,
    },
    /// A frame to send as it is; dropped and counted when the port has no room.
    Transmit {
        /// The port.
        port: PortId,
        /// The frame, from the Ethernet header on.
        bytes: Box<[u8]>,
    },
    /// Everything before has taken effect once this is answered, by [`Event::Fenced`].
    Fence {
        /// The operation.
        op: OpId,
    },
    /// The response, [`Event::Fenced`], comes when every packet that is in the inbox now has been taken. After
    /// fences from all workers it means: nothing that was handed over by the worker selection before is left.
    Drain {
        /// The operation.
        op: OpId,
    },
    /// Requests the counts of a session's URRs. The response is [`Event::Queried`].
    Query {
        /// The operation.
        op: OpId,
        /// The session.
        session: SessionIndex,
    },
    /// A session has one more port block of its pool of public addresses. There is no response: one that is not here
    /// any more, or has it, is as it is.
    PortBlock {
        /// The session.
        session: SessionIndex,
        /// The block.
        block: BlockId,
    },
    /// Packets are reported, one by one, through the request's own ring. There is no response: a request beyond
    /// [`MAX_TRACES`](crate::MAX_TRACES) is given up, which the far end of its ring shows.
    Trace(Box<TraceRequest>),
    /// Requests the state of a session in this worker, for an operator. The response is [`Event::Inspected`].
    Inspect {
        /// The number that the response repeats.
        question: u64,
        /// The session.
        session: SessionIndex,
        /// Which of its mappings to public addresses are wanted.
        mappings: MappingsWanted,
    },
    /// A list for [`Event::Counted`], whose capacity is what the worker may put in: at least [`LEAST_COUNTS`].
    /// Control sends [`COUNTS_BUFFERS`] of them at first, and each again when it has read it. Sessions whose counts are
    /// still in it are looked at again at their next turn.
    /// One that the worker cannot keep, because it has that many or the list is shorter, comes back empty.
    CountsRoom(Vec<SessionCount>),
    /// Whether sessions that are not here may still be restored: packets for tunnels and UE addresses of no session are
    /// then reported by [`Event::AbsentSession`], wait for a while for their session, and cause no message to their
    /// senders. False at first. Sent to every worker.
    Restoring {
        /// Whether it is so from now on.
        is_restoring: bool,
    },
}

/// Lists of counts that one worker keeps.
pub const COUNTS_BUFFERS: usize = 4;
/// The least capacity of such a list: the counts of any one session, of 64 URRs and the packet rates of 64 QERs.
pub const LEAST_COUNTS: usize = 128;

/// One count of a session, in this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionCount {
    /// The session.
    pub session: SessionIndex,
    /// What is counted.
    pub counted: Counted,
}

/// What a count of a session is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// What a URR has counted since it was installed here.
    Urr(UrrId, UrrCount),
    /// What is left of a QER's packet rates.
    Packets(PacketsLeft),
}

/// What a packet without a session was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AbsentKey {
    /// A local F-TEID.
    Tunnel(LocalId, Teid),
    /// The address of a UE, which may be one of a prefix.
    Address(VrfId, IpAddr),
}

/// Why a worker did not apply a session change. No error occurs while control's records agree with the worker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The session's index is beyond the worker's limit.
    NoSuchSlot,
    /// Install: the session is there already.
    Exists,
    /// Replace, Remove, Query: the session is not there.
    NotFound,
    /// There is no memory for the session's block.
    NoBlock,
    /// The session has more FARs, QERs or URRs than a block holds.
    OutOfBounds,
    /// A tunnel or UE address belongs to another session of this worker.
    Taken,
    /// The tables of tunnels or UE addresses are full.
    TableFull,
}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoSuchSlot => "the session's index is beyond the worker's limit",
            Self::Exists => "the session is there already",
            Self::NotFound => "the session is not there",
            Self::OutOfBounds => "the session has more rules than a block holds",
            Self::NoBlock => "the worker has no memory for the session's block",
            Self::Taken => "a tunnel or UE address belongs to another session",
            Self::TableFull => "the worker's table of tunnels or UE addresses is full",
        })
    }
}

impl std::error::Error for ApplyError {}

/// Which mappings of a session are wanted (CG-NAT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MappingsWanted {
    /// None.
    #[default]
    None,
    /// Live ones, this many at most.
    Live {
        /// How many.
        most: u16,
    },
    /// That of a public port, if there is a live one.
    OfPort {
        /// The block.
        block: BlockId,
        /// A port of it.
        port: u16,
        /// The protocol.
        protocol: Protocol,
    },
}

/// What a session has of its pool of public addresses, as its worker sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionNatStatus {
    /// How much of its blocks it uses.
    pub used: SessionUse,
    /// The mappings that were wanted.
    pub mappings: Vec<MovedMapping>,
}

/// A session as its worker sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionStatus {
    /// What its URRs' slots have counted.
    pub counters: Vec<(UrrId, UrrCount)>,
    /// What was counted of each content, and was not reported yet.
    pub contents: Vec<ContentUsage>,
    /// The FARs that buffer, and how many packets wait for each.
    pub waiting: Vec<(FarId, u16)>,
    /// Its flow entries.
    pub flows: u32,
    /// What it has of its pool of public addresses; `None` without one.
    pub nat: Option<SessionNatStatus>,
    /// Its queues before ports, uplink first.
    pub queues: Vec<QueueStatus>,
}

/// A queue of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// Of packets in this direction.
    pub direction: Direction,
    /// The place of its class in the network's.
    pub class: u8,
    /// The QER whose mark its packets have.
    pub qer: Option<QerId>,
    /// The QER whose rate it shares.
    pub shared: Option<QerId>,
    /// What it holds, and what became of its packets.
    pub view: QueueView,
    /// Whether packets wait in a queue of the accelerator in its place.
    pub is_at_accelerator: bool,
}

/// A rate of packets that leave, which nodes of the traffic managers of all workers have parts of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EgressRate {
    /// That of a port.
    Port(PortId),
    /// That of an instance.
    Instance(InstanceId),
    /// That of a policer which shapes, by its number.
    Policer(SharedId, Direction),
}

/// What a node has sent, and who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressDemand {
    /// The rate that the node has a part of.
    pub rate: EgressRate,
    /// The node's number in its worker.
    pub node: u16,
    /// Octets, as the rate counts them, since the last request.
    pub octets: u64,
    /// Where its part was not enough: how many sessions wait, whatever classes they wait with.
    pub waiting: Option<u32>,
}

/// The part of a rate that a node has from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressLease {
    /// The rate.
    pub rate: EgressRate,
    /// The node's number in its worker.
    pub node: u16,
    /// The part.
    pub part: Rate,
}

/// An event from a worker to control.
#[derive(Debug)]
pub enum Event {
    /// A session change was applied, or not.
    Applied {
        /// The operation.
        op: OpId,
        /// Final counts of what went away, if anything counted did.
        outcome: Result<Option<UsageSnapshot>, ApplyError>,
        /// The image that is no longer in use (after a failure: the new one, whole), for Control to free.
        retired: Option<Box<SessionImage>>,
        /// What the block was made from, which is not needed any more: for Control to free, too.
        spent: BoxedOption<BlockImage>,
    },
    /// All commands before the fence have taken effect; or the inbox is drained.
    Fenced {
        /// The operation.
        op: OpId,
        /// Whether all worker selection exceptions since the fence before have found room.
        outcome: Result<(), ApplyError>,
    },
    /// A network has taken effect. The tables of the one before it are for Control to free.
    Network(Box<NetworkTables>),
    /// What a session's URRs have counted.
    Queried {
        /// The operation.
        op: OpId,
        /// The counts.
        outcome: Result<UsageSnapshot, ApplyError>,
    },
    /// The state of a session.
    Inspected {
        /// The number of the question.
        question: u64,
        /// The session; `None` where it is not here.
        status: Option<Box<SessionStatus>>,
    },
    /// The octets that were offered to the meters that sessions share.
    SharedDemand {
        /// To whose meters.
        holder: LeaseHolder,
        /// The meters, each with the octets since the last request; of an accelerator those that it had reported by
        /// then.
        demand: Box<[Demand]>,
    },
    /// What has left by the nodes before ports since the last request, and who waits.
    EgressDemands {
        /// Of all nodes that are there.
        demands: Box<[EgressDemand]>,
    },
    /// What URRs have counted and what is left of packet rates, of sessions where either has changed since they were
    /// looked at last ([`WorkerConfig::checkpoint_interval`](crate::WorkerConfig::checkpoint_interval)). All counts of
    /// a session are in one event, next to each other, as they were at one moment, and before the response to any
    /// change of the session that follows. The list is to be sent back ([`Command::CountsRoom`]).
    Counted {
        /// The counts.
        counts: Vec<SessionCount>,
    },
    /// A packet for a tunnel or UE address of no session has come while sessions are restored
    /// ([`Command::Restoring`]). Of one key it is pushed once in 100 ms at most; the rate of all is bounded.
    AbsentSession {
        /// What it was for.
        key: AbsentKey,
    },
    /// A session has few free ports left in its port blocks, or none, and may have another block. Pushed once a second
    /// at most.
    PortBlockWanted {
        /// The session.
        session: SessionIndex,
    },
    /// No port of a block was mapped for long, and the session has others: it is not in use here any more.
    PortBlockReturned {
        /// The session.
        session: SessionIndex,
        /// The block.
        block: BlockId,
    },
    /// No packet of a session has come for as long as its inactivity timer says. Pushed once, and again when packets
    /// have come in between.
    Inactive {
        /// The session.
        session: SessionIndex,
    },
    /// A neighbour announced where an address is.
    Neighbour {
        /// The instance whose link it is.
        instance: InstanceId,
        /// The address.
        address: IpAddr,
        /// The station.
        mac: MacAddr,
        /// The kind of message.
        message: NeighbourMessage,
    },
    /// An LACPDU was received.
    Lacp {
        /// The member of a LAG that it came by.
        member: PortId,
        /// Its fields.
        pdu: Lacpdu,
    },
    /// A next hop without an adjacency: its resolution is requested.
    Resolve {
        /// The instance that the next hop is on.
        instance: InstanceId,
        /// The next hop.
        address: IpAddr,
    },
    /// A peer has no context for a tunnel that we send into (TS 29.281 §7.3.1).
    ErrorIndication {
        /// The peer's address, as its Error Indication gives it.
        peer: IpAddr,
        /// The peer's TEID.
        teid: Teid,
    },
    /// A URR's counter has reached what was set for it. Pushed at the end of the poll in which it did, or as soon as
    /// there is room; what was pushed before may be pushed again.
    CounterReached {
        /// The session.
        session: SessionIndex,
        /// The URR.
        urr: UrrId,
        /// What it has counted.
        count: UrrCount,
        /// When its packets came, since the last report.
        times: Option<PacketTimes>,
        /// What it has reached, since its bounds were set.
        reached: Reached,
    },
    /// The downlink packets of a URR that were dropped have reached its threshold, which starts again.
    DroppedReached {
        /// The session.
        session: SessionIndex,
        /// The URR.
        urr: UrrId,
    },
    /// What a content counter has, which starts again from zero: its interval is over.
    Content {
        /// The session.
        session: SessionIndex,
        /// What was counted.
        usage: ContentUsage,
    },
    /// A downlink packet that control reports (TS 29.244 §5.2.3.1): the first one of a QoS flow since a FAR began to
    /// buffer (NOCP), or the first one of a PDR that is buffered or discarded since (BDPN, DDPN), or both.
    DownlinkData {
        /// The session.
        session: SessionIndex,
        /// The PDR that the packet matched.
        pdr: PdrId,
        /// The FAR.
        far: FarId,
        /// The QoS flow, if a QER says so.
        qfi: Option<Qfi>,
        /// The packet's DSCP, 0 to 63, if it is still known.
        dscp: Option<u8>,
        /// Whether it is the first of its QoS flow and NOCP is set.
        notifies: bool,
        /// Buffered or discarded, if the packet is the first of its PDR and control requested the status.
        status: Option<DataStatus>,
    },
    /// An End Marker was received in a tunnel whose PDR has URRs that report it (TS 29.244 §5.2.2.5). Packets before it
    /// have been counted.
    EndMarker {
        /// The session.
        session: SessionIndex,
        /// The PDR.
        pdr: PdrId,
    },
    /// The node downstream has signalled the start of a Pause of Charging in a tunnel of a session that has URRs for
    /// which that is meant, and which count (TS 29.244 §5.30). Pushed once, until the session changes.
    PauseOfCharging {
        /// The session.
        session: SessionIndex,
    },
    /// A router reported that a GTP-U packet of ours was too long for the path to its peer (RFC 1191, RFC 8201).
    /// Whether it is so is not known.
    TooBig(TooBig),
    /// A trace request has ended.
    TraceOver {
        /// The worker's end of the request's ring, with what was not read: for Control to free.
        ring: Producer<TraceItem>,
    },
    /// A peer answered an Echo Request (TS 29.281 §7.2.2).
    EchoResponse {
        /// The peer.
        peer: IpAddr,
        /// Our address that it answered to.
        local: LocalId,
        /// The sequence number.
        sequence: u16,
    },
}

/// The worker's ends.
pub struct WorkerEnd {
    /// Commands from Control.
    pub commands: Consumer<Command>,
    /// Events to Control.
    pub events: Producer<Event>,
}

/// Control's ends.
pub struct ControlEnd {
    /// Commands to the worker.
    pub commands: Producer<Command>,
    /// Events from the worker.
    pub events: Consumer<Event>,
}

/// A channel with room for `commands` and `events`.
pub fn control_channel(commands: usize, events: usize) -> (ControlEnd, WorkerEnd) {
    let (command_producer, command_consumer) = RingBuffer::new(commands);
    let (event_producer, event_consumer) = RingBuffer::new(events);
    (
        ControlEnd {
            commands: command_producer,
            events: event_consumer,
        },
        WorkerEnd {
            commands: command_consumer,
            events: event_producer,
        },
    )
}
