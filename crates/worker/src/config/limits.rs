//! What bounds the slow path: budgets, set-up rates, flow counts, idle times, fragments. Values of the configuration;
//! [`slow_path`](crate::slow_path) and `deferred` enforce them.

use nat::pools::Lifetimes;
use std::sync::Arc;
use std::time::Duration;

use rules::IpPrefix;

use crate::BURST;

/// Decisions that the slow path may make in one burst, by what they are about. What is over budget is dropped and
/// counted; who gets a place in the budget is decided by deficit round robin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// First packets of flows that come in tunnels.
    pub new_uplink: u16,
    /// First packets of flows that come as plain IP.
    pub new_downlink: u16,
    /// Packets of flows whose rules changed: decided anew.
    pub stale: u16,
}

impl Budgets {
    /// The same budget for each.
    pub const fn all(packets: u16) -> Self {
        Self {
            new_uplink: packets,
            new_downlink: packets,
            stale: packets,
        }
    }
}

impl Default for Budgets {
    /// A whole burst of each.
    fn default() -> Self {
        Self::all(BURST as u16)
    }
}

/// Rates of packets that peers cause: a second, 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRates {
    /// Of all together.
    pub all: u32,
    /// Of one session, or one source.
    pub each: u32,
}

impl PacketRates {
    /// These rates.
    pub const fn new(all: u32, each: u32) -> Self {
        Self { all, each }
    }
}

/// How many flow entries there may be, and how fast they may come. A flow over a limit has no entry: each of its
/// packets takes the slow path, within its budget. 0: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowLimits {
    /// Flow entries of one session, both directions and IP versions together.
    pub per_session: u32,
    /// Flow entries a second that one session may set up; as many at once after a pause.
    pub session_rate: u32,
    /// Flow entries a second that the worker sets up; as many at once after a pause.
    pub rate: u32,
}

/// How long flow entries may idle, from 0.54 s to 4.9 hours. The first four are for entries that have the 5-tuple in
/// their key. Losing an entry early costs a decision, never a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTimes {
    /// TCP of a UE whose first packet seen was in the midst of a connection. Default 7440 s: RFC 5382 REQ-5.
    pub tcp_established: Duration,
    /// TCP that opens or closes: the entry was made by a SYN, FIN or RST, or saw a FIN or RST in its own direction. And
    /// TCP that comes to a UE, whose sources are not authenticated.
    /// Default 240 s: RFC 5382 REQ-5.
    pub tcp_transitory: Duration,
    /// UDP and UDP-Lite. Default 300 s: RFC 4787 REQ-5.
    pub udp: Duration,
    /// ICMP, both versions. Default 60 s: RFC 5508 REQ-2.
    pub icmp: Duration,
    /// Other protocols, and entries without a 5-tuple. Default 300 s.
    pub other: Duration,
}

impl IdleTimes {
    /// The same for all.
    pub const fn all(idle: Duration) -> Self {
        Self {
            tcp_established: idle,
            tcp_transitory: idle,
            udp: idle,
            icmp: idle,
            other: idle,
        }
    }
}

impl Default for IdleTimes {
    fn default() -> Self {
        Self {
            tcp_established: Duration::from_secs(7440),
            tcp_transitory: Duration::from_secs(240),
            udp: Duration::from_secs(300),
            icmp: Duration::from_secs(60),
            other: Duration::from_secs(300),
        }
    }
}

/// Which connections of UEs a worker knows, for access lists that ask for them; see `slow_path::connections`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections in all, some 40 octets each where they were used. Packets that would begin further ones are dropped.
    pub connections: usize,
    /// Those of one session.
    pub per_session: u32,
    /// How long one lives behind the last packet that keeps it, and up to 70 s more. RFC 6092 §3 asks for 2 hours and 4
    /// minutes of an established connection of TCP, 4 minutes of another, and 2 minutes of UDP at least.
    pub lifetimes: IdleTimes,
}

impl Default for ConnectionLimits {
    /// 163,840 connections, 4,096 of one session, which live as long as idle flow entries.
    fn default() -> Self {
        Self {
            connections: 163_840,
            per_session: 4_096,
            lifetimes: IdleTimes::default(),
        }
    }
}

/// What a worker does for fragments of user packets; see `fragments`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentLimits {
    /// Datagrams known at once, in sets of four. 0: every fragment is decided by itself, those behind the first as
    /// packets with ports 0.
    pub datagrams: usize,
    /// Fragments that wait for their first one, in all; no session gets more than a quarter of what is free.
    pub held: usize,
    /// Their octets, whole frames, in all.
    pub held_octets: usize,
    /// Fragments of one datagram that wait.
    pub held_per_datagram: u16,
    /// How long a datagram is known, and a fragment waits. RFC 791 §3.2 and RFC 8200 §4.5 let a receiver wait for up
    /// to 60 s; what is not together after a few seconds has lost a fragment.
    pub timeout: Duration,
}

impl FragmentLimits {
    /// Every fragment for itself, as the rules say without memory.
    pub const OFF: Self = Self {
        datagrams: 0,
        held: 0,
        held_octets: 0,
        held_per_datagram: 0,
        timeout: Duration::from_secs(5),
    };
}

impl Default for FragmentLimits {
    /// 1,024 datagrams for 5 s; 512 fragments of at most 1 MiB wait, 48 of one datagram.
    fn default() -> Self {
        Self {
            datagrams: 1024,
            held: 512,
            held_octets: 1 << 20,
            held_per_datagram: 48,
            timeout: Duration::from_secs(5),
        }
    }
}

/// What a worker keeps of GTP-U packets that come in fragments; see `reassembly`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassemblyLimits {
    /// Datagrams known at once, in sets of four. 0: fragments are dropped.
    pub datagrams: usize,
    /// Fragments that wait, in all; no source gets more than a quarter of what is free.
    pub held: usize,
    /// Their octets, whole frames, in all.
    pub held_octets: usize,
    /// How long a datagram may take to come. With IPv4, and many fragments, the same identification comes again soon
    /// (RFC 4963).
    pub timeout: Duration,
}

impl ReassemblyLimits {
    /// Fragments are dropped.
    pub const OFF: Self = Self {
        datagrams: 0,
        held: 0,
        held_octets: 0,
        timeout: Duration::from_secs(2),
    };
}

impl Default for ReassemblyLimits {
    /// 1,024 datagrams for 2 s; 1,024 fragments of at most 2 MiB.
    fn default() -> Self {
        Self {
            datagrams: 1024,
            held: 1024,
            held_octets: 2 << 20,
            timeout: Duration::from_secs(2),
        }
    }
}

/// How much a worker inspects, and with how much memory, of flows whose rules name hosts; see `slow_path::inspection`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InspectionLimits {
    /// Flows, both directions together, of which it is known what they are for (64 octets each). 0: nothing is
    /// inspected, and no flow is for a host that is known.
    pub records: u32,
    /// Hosts, and of HTTP paths, that they are for, in blocks of 52 octets (some 90 octets each).
    pub hosts: u32,
    /// Flows that are inspected at the same time, 64 octets each.
    pub undecided: u32,
    /// Those of one session.
    pub undecided_per_session: u16,
    /// Blocks of 8 KiB for messages that come in several packets.
    pub blocks: u32,
    /// Those of one session.
    pub blocks_per_session: u16,
    /// Packets with a payload of a flow that are looked at, of each end.
    pub packets: u8,
    /// Octets of payload of a flow that are looked at, of each end.
    pub octets: u16,
    /// How long a flow is inspected.
    pub longest: Duration,
}

impl InspectionLimits {
    /// Nothing is inspected.
    pub const OFF: Self = Self {
        records: 0,
        hosts: 0,
        undecided: 0,
        undecided_per_session: 0,
        blocks: 0,
        blocks_per_session: 0,
        packets: 8,
        octets: 16_384,
        longest: Duration::from_secs(10),
    };
}

impl Default for InspectionLimits {
    /// 262,144 flows, 131,072 blocks of hosts; 16,384 flows at the same time, 64 of one session, and 512 blocks, 16
    /// of one session; 8 packets and 16 KiB of each end, for 10 s. That is some 30 MiB.
    fn default() -> Self {
        Self {
            records: 262_144,
            hosts: 131_072,
            undecided: 16_384,
            undecided_per_session: 64,
            blocks: 512,
            blocks_per_session: 16,
            ..Self::OFF
        }
    }
}

/// nDPI, and how much it looks at of flows that are nothing which the inspector knows; see
/// `slow_path::inspection::ndpi_flows`.
#[derive(Clone, Debug)]
pub struct NdpiLimits {
    /// The library.
    pub library: Arc<ndpi::Library>,
    /// Flows that it looks at at the same time (some 740 octets each, and what nDPI allocates by itself). Of one
    /// session [`InspectionLimits::undecided_per_session`].
    pub flows: u32,
    /// Packets with a payload of a flow that it looks at, of both ends together; at least 1.
    pub packets: u8,
}

/// The resolvers whose answers say which hosts addresses are of, and how many of those a worker keeps; see
/// `slow_path::inspection`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverLimits {
    /// The addresses of the resolvers; none: answers say nothing, and take no memory.
    pub prefixes: Vec<IpPrefix>,
    /// Addresses with a name that the sessions of a worker may have (some 190 octets each, with the name).
    pub addresses: u32,
    /// Those of one session.
    pub per_session: u32,
    /// How long one is kept at least, and at most, whatever its TTL.
    pub least: Duration,
    /// The same at most.
    pub most: Duration,
}

impl ResolverLimits {
    /// How many addresses there is to be room for.
    pub(crate) fn room(&self) -> u32 {
        if self.prefixes.is_empty() {
            0
        } else {
            self.addresses
        }
    }
}

impl Default for ResolverLimits {
    /// No resolvers; else 65,536 addresses, 256 of one session, for 60 s to an hour.
    fn default() -> Self {
        Self {
            prefixes: Vec::new(),
            addresses: 65_536,
            per_session: 256,
            least: Duration::from_secs(60),
            most: Duration::from_secs(3_600),
        }
    }
}

/// What a worker keeps for FARs that buffer; see `buffers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferLimits {
    /// FARs that buffer and got a packet since they buffer. 0: nothing is kept.
    pub queues: usize,
    /// Packets in all.
    pub packets: usize,
    /// Their octets, whole frames, in all.
    pub octets: usize,
    /// Packets of one FAR, unless its BAR says fewer.
    pub per_queue: u16,
    /// Packets of one session, of all of its FARs.
    pub per_session: usize,
    /// Their octets, whole frames.
    pub per_session_octets: usize,
    /// The longest wait of a packet.
    pub timeout: Duration,
}

impl BufferLimits {
    /// Nothing is kept: packets of FARs that buffer are dropped.
    pub const OFF: Self = Self {
        queues: 0,
        packets: 0,
        octets: 0,
        per_queue: 0,
        per_session: 0,
        per_session_octets: 0,
        timeout: Duration::from_secs(60),
    };
}

impl Default for BufferLimits {
    /// 65,536 FARs, 2,048 packets of at most 4 MiB, 64 of one FAR, 128 of one session and of at most 256 KiB, for 60 s.
    fn default() -> Self {
        Self {
            queues: 65_536,
            packets: 2_048,
            octets: 4 << 20,
            per_queue: 64,
            per_session: 128,
            per_session_octets: 256 << 10,
            timeout: Duration::from_secs(60),
        }
    }
}

/// What waits in a worker's queues before it leaves, where the network has classes of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressLimits {
    /// Packets in all.
    pub packets: usize,
    /// Their octets, whole frames, in all.
    pub octets: usize,
    /// Queues of sessions.
    pub queues: usize,
}

impl Default for EgressLimits {
    /// 8,192 packets of at most 16 MiB in 65,536 queues.
    fn default() -> Self {
        Self {
            packets: 8_192,
            octets: 16 << 20,
            queues: 65_536,
        }
    }
}

/// The mappings of a worker's sessions to public addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatSettings {
    /// Mappings at a time. Default 65,536.
    pub mappings: usize,
    /// How long they live.
    pub lifetimes: Lifetimes,
    /// After how long without a mapping a session gives a port block back, unless it is its last. Default 600 s.
    pub block_idle: Duration,
    /// What chooses public ports: secret, and the same again where ports are to stay what they were. Default 0, for
    /// tests alone.
    pub seed: u64,
}

impl Default for NatSettings {
    fn default() -> Self {
        Self {
            mappings: 65_536,
            lifetimes: Lifetimes::default(),
            block_idle: Duration::from_secs(600),
            seed: 0,
        }
    }
}
