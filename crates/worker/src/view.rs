//! What a worker holds, for operators and for tests that look for leaks. Read between polls; nothing here changes
//! anything, and nothing on a packet's way uses it.

use flow::contract::Capabilities;
use flow::{Bucket, SessionIndex};
use nat::mappings::MappingStats;
use offload::channel::{self, Load};
use offload::in_band::InBandStats;
use packet::MacAddr;
use rules::image::SessionImage;
use rules::model::SessionRules;
use tm::{Class, ClassView};

use crate::OffloadStats;
use crate::io::behind_accelerator::AcceleratorPortStats;

/// A session as its worker runs it.
#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    image: &'a SessionImage,
}

impl<'a> SessionView<'a> {
    pub(crate) fn new(image: &'a SessionImage) -> Self {
        Self { image }
    }

    /// The index of the session in control and workers.
    pub fn index(&self) -> SessionIndex {
        self.image.session
    }

    /// The local SEID.
    pub fn seid(&self) -> u64 {
        self.image.seid
    }

    /// The bucket that it lives in.
    pub fn bucket(&self) -> Bucket {
        self.image.bucket
    }

    /// The rules that its packets meet.
    pub fn rules(&self) -> &'a SessionRules {
        &self.image.rules
    }
}

/// What CG-NAT has counted in a worker, and holds; zeros where there are no pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatCounts {
    /// Of its mappings.
    pub mappings: MappingStats,
    /// How many mappings there is room for.
    pub limit: usize,
}

/// What waits in a worker's queues before ports, and what became of packets there; zeros where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressCounts {
    /// Queues that sessions have.
    pub queues: usize,
    /// Of these, those of sessions that are at an accelerator: packets wait there.
    pub away: usize,
    /// Queues that there is room for.
    pub queues_limit: usize,
    /// Packets that wait.
    pub packets: usize,
    /// Packets that may wait.
    pub packets_limit: usize,
    /// Octets of the IP packets that wait.
    pub octets: u64,
    /// Octets that may wait.
    pub octets_limit: u64,
    /// Directions of sessions that there was no room for.
    pub lacking: usize,
    /// By priority.
    pub priorities: [ClassView; Self::PRIORITIES],
}

impl EgressCounts {
    /// How many priorities there are.
    pub const PRIORITIES: usize = Class::COUNT;
}

/// A worker's accelerator, as it is now, and what was counted since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceleratorView {
    /// Whether there is contact, and sessions can leave.
    pub is_ready: bool,
    /// Whether no session leaves, because either end is in partial mode.
    pub is_partial: bool,
    /// Its address; `None` without contact.
    pub mac: Option<MacAddr>,
    /// Its ports without a link, a bit each by their numbers; `None`: not known at present.
    pub links_down: Option<u64>,
    /// What it can do; `None` without contact.
    pub capabilities: Option<Capabilities>,
    /// Requests without a reply.
    pub outstanding: usize,
    /// What the channel holds.
    pub load: Load,
    /// Sessions that leave and come.
    pub offload: OffloadStats,
    /// Packets in exception frames.
    pub port: AcceleratorPortStats,
    /// Requests, replies and events.
    pub in_band: InBandStats,
    /// Frames of the channel.
    pub channel: channel::Stats,
}

/// How many of what sessions take a worker holds. Without sessions, once
/// dead flow entries have idled for long enough, all are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Sessions.
    pub sessions: usize,
    /// Session blocks: gates, marks, forwards, meters and counters.
    pub blocks: usize,
    /// Tunnels that lead to sessions.
    pub tunnels: usize,
    /// UE addresses and prefixes that lead to sessions.
    pub addresses: usize,
    /// Tunnels and UE addresses, of any worker's sessions, that are in another bucket than their session.
    pub exceptions: usize,
    /// Queues of FARs that buffer.
    pub queues: usize,
    /// Packets that wait, in those queues or for their first fragment.
    pub waiting: usize,
    /// Content counters of sessions.
    pub contents: usize,
    /// Flow entries, dead ones included.
    pub flows: usize,
    /// Flows that are inspected.
    pub inspected: usize,
    /// Connections of UEs, a few that have ended included.
    pub connections: usize,
    /// Addresses that have names by answers of resolvers, a few that have ended included.
    pub resolved_addresses: usize,
    /// Flows that nDPI looks at.
    pub ndpi_flows: usize,
    /// What nDPI has allocated by itself, octets.
    pub ndpi_octets: u64,
}
