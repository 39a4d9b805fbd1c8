//! What a worker reports of a traced packet.

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use dpi::{HostName, Protocol};
use flow::{Direction, InstanceId, KeyFields, Nanos, PortId, SessionIndex, UrrCount, WorkerId};
use packet::{DropReason, PacketBuf};
use rules::model::{PdrId, QerId, UrrId};
use rules::{DetectedFlow, Detection, NameSource, SessionRules};

use crate::offload::Stays;

/// Where a worker had a packet from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceSource {
    /// A port.
    Port,
    /// Another worker.
    Inbox,
    /// It was a fragment that has waited for its first one.
    Held,
    /// It was put together from the fragments of its GTP-U packet.
    Reassembled,
    /// It has waited for its FAR, its next hop or its session.
    Waited,
    /// It was recirculated, for the number of times given.
    Recirculated(u8),
}

/// What `lookup` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedLookup {
    /// The packet can have no flow entry, or did not come so far.
    None,
    /// Its flow's entry.
    Hit {
        /// It was decided under older rules of those that all sessions share, and so decided again if there was time
        /// ([`TracedFlow::is_postponed`]).
        outdated: bool,
    },
    /// No entry.
    Miss,
    /// An entry from before the session's rules changed, which is gone now.
    Stale,
}

/// What is known of a packet's flow, where its rules ask for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracedDetection {
    /// Nothing, and the UE has sent nothing yet.
    Unseen,
    /// Nothing yet.
    Undecided,
    /// Nothing, and nothing will be.
    Undetected,
    /// Nothing yet but what a resolver has answered: the host that it is for.
    Presumed(HostName),
    /// What it is.
    Found {
        /// Its protocol; `None`: a resolver alone says what it is for.
        protocol: Option<Protocol>,
        /// What nDPI calls that, if it has found it.
        by_ndpi: Option<String>,
        /// The host that it is for, or of DNS the name that is asked for.
        name: Option<HostName>,
        /// Of HTTP the start of the path.
        path: Option<Vec<u8>>,
        /// Who names it.
        source: NameSource,
    },
}

impl TracedDetection {
    /// As rules take it.
    pub fn as_detection(&self) -> Detection<'_> {
        match self {
            Self::Undecided => Detection::Undecided,
            Self::Unseen | Self::Undetected => Detection::Undetected,
            Self::Presumed(host) => Detection::Presumed(DetectedFlow {
                protocol: None,
                name: Some(host),
                path: None,
                source: NameSource::Resolver,
            }),
            Self::Found {
                protocol,
                name,
                path,
                source,
                by_ndpi: _,
            } => Detection::Found(DetectedFlow {
                protocol: *protocol,
                name: name.as_ref(),
                path: path.as_deref(),
                source: *source,
            }),
        }
    }
}

/// What the tables say of the packet's flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedFlow {
    /// What was found.
    pub lookup: TracedLookup,
    /// There was no time to decide an outdated entry again: the packet went by it.
    pub is_postponed: bool,
    /// The fields of the key of the entry that is there now, and its direction.
    pub entry: Option<(KeyFields, Direction)>,
    /// What it is, if it was inspected, and that is remembered.
    pub detection: Option<Box<TracedDetection>>,
    /// This packet has shown what it is.
    pub shows_detection: bool,
    /// What resolvers answer counts: what is known of it may come and end between its packets.
    pub heeds_resolvers: bool,
}

/// The session of a packet, as its worker has it.
#[derive(Clone, Debug)]
pub struct TracedSession {
    /// Its number.
    pub session: SessionIndex,
    /// The local SEID.
    pub seid: u64,
    /// Its rules at this moment.
    pub rules: Arc<SessionRules>,
    /// What its URRs have counted, this packet included, and those that came in one burst with it.
    pub counters: Vec<(UrrId, UrrCount)>,
    /// Those of them whose quotas are used up now, in the packet's direction.
    pub exhausted: Vec<UrrId>,
}

/// What CG-NAT made of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedTranslation {
    /// The public address, and the port or the identifier of an ICMP query; port 0 of a fragment behind the first.
    pub public: SocketAddrV4,
    /// The UE's own.
    pub inside: SocketAddrV4,
    /// It was the destination that the packet came with; else it is the source that the packet leaves with.
    pub is_destination: bool,
    /// It came from an address that the mapping has not sent to, and what is made of that.
    pub unsolicited: Option<TracedUnsolicited>,
}

/// What is made of a packet from an address that its UE has not sent to, where not the same as of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedUnsolicited {
    /// It may wait for the UE, and have it paged.
    pub pages: bool,
    /// It counts in URRs.
    pub is_charged: bool,
}

/// What was decided about a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedDecision {
    /// The PDR.
    pub pdr: PdrId,
    /// The way that it goes.
    pub direction: Direction,
    /// The QERs that act.
    pub qers: Vec<QerId>,
    /// The URRs that count.
    pub urrs: Vec<UrrId>,
}

/// Octets of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedFrame {
    /// The port, without recirculations and marks; the LAG where it is a member of one.
    pub port: PortId,
    /// The length of the whole frame.
    pub len: u32,
    /// Its first octets.
    pub octets: Vec<u8>,
}

impl TracedFrame {
    /// Its first octets, at most `most`.
    pub(crate) fn start(&self, most: usize) -> &[u8] {
        self.octets.get(..most).unwrap_or(&self.octets)
    }
}

/// Where the session of a packet is, of a worker with an accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedPlace {
    /// Its packets pass here; it may not leave for this reason, as was found last.
    Home(Option<Stays>),
    /// The same, and it leaves.
    Leaving,
    /// Its packets pass at the accelerator.
    Away,
    /// It comes home.
    Returning,
}

/// How a packet waited in a queue before its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedQueueing {
    /// The class of its queue: a place in [`EgressClasses::all`](rules::network::EgressClasses::all); `None`, if its
    /// session has no such queue any more.
    pub class: Option<u8>,
    /// Octets that waited in its queue before it, of user packets.
    pub before: u32,
    /// How long it has waited.
    pub waited: Duration,
    /// What became of it there.
    pub end: QueueEnd,
}

/// What became of a packet in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueEnd {
    /// It waits still.
    Waits,
    /// It has left the queue for its port.
    Left {
        /// With a mark: congestion was experienced (RFC 3168).
        is_marked: bool,
    },
    /// It was dropped, for this reason.
    Lost(DropReason),
    /// It has gone to another worker with its session, and waits there.
    Moved,
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracedEnd {
    /// It leaves.
    Sent {
        /// As what.
        frame: TracedFrame,
        /// To ourselves: it is recirculated, and reported again.
        recirculates: bool,
        /// In several fragments, of which this is the whole.
        in_fragments: bool,
        /// Packets of this burst have found no room at a port, this one perhaps.
        port_was_full: bool,
    },
    /// It goes no further.
    Dropped(DropReason),
    /// It goes to its owner.
    HandedOver(WorkerId),
    /// Its content was handled here or pushed to Control; it is freed.
    Consumed,
    /// To the host's own network stack.
    ToHost,
    /// It is a fragment of a GTP-U packet, and waits for the others.
    Reassembling,
    /// It waits for the first fragment of its datagram.
    Held,
    /// It waits for its FAR or its next hop.
    Buffered,
    /// It waits for its session, which is still restored.
    AwaitsSession,
    /// It waits for its session, which is on its way between here and the accelerator.
    AwaitsMove,
    /// It goes back to the accelerator with its flow, and passes there.
    GoesBack {
        /// The port towards it.
        port: PortId,
        /// Packets of this burst have found no room at the port, this one perhaps.
        port_was_full: bool,
    },
}

/// What happened to one packet.
#[derive(Clone, Debug)]
pub struct Traced {
    /// At this worker.
    pub worker: WorkerId,
    /// The number of the packet among those wanted at this worker, from 1: a missing number was not reported.
    pub number: u64,
    /// When its burst was taken.
    pub time: Nanos,
    /// Where it came from.
    pub source: TraceSource,
    /// As it came in.
    pub received: TracedFrame,
    /// The instance that it came in by.
    pub instance: Option<InstanceId>,
    /// What the tables said.
    pub flow: TracedFlow,
    /// Its session, if it has one.
    pub session: Option<TracedSession>,
    /// What was decided.
    pub decision: Option<TracedDecision>,
    /// Where its session is; `None`: it has none, or the worker no accelerator.
    pub place: Option<TracedPlace>,
    /// What CG-NAT made of it; `None`: nothing.
    pub translation: Option<TracedTranslation>,
    /// It is beyond its guaranteed rates.
    pub is_yellow: bool,
    /// It leaves with the mark of congestion in the RAN.
    pub is_congested: bool,
    /// It is the response to a redirected UE.
    pub is_answer: bool,
    /// It is a message of this node to the UE.
    pub is_own: bool,
    /// It is a fragment whose ports were known from the first one.
    pub borrowed_ports: bool,
    /// It may announce a segment size, and MTUs of paths are known, which that is reckoned with.
    pub uses_path_mtus: bool,
    /// What became of it. Of a packet that waits in a queue: what becomes of it when it leaves that.
    pub end: TracedEnd,
    /// How it waited in a queue before its port; `None`: it did not.
    pub queueing: Option<TracedQueueing>,
}

/// The first octets of a packet, and its length.
pub(crate) fn keep<B: PacketBuf>(frame: &mut TracedFrame, buf: &B, snap: usize) {
    let data = buf.data();
    frame.octets.clear();
    frame.octets.extend_from_slice(&data[..data.len().min(snap)]);
    frame.len = buf.len() as u32;
}
