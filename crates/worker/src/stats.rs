//! What a worker counts. Plain numbers that only ever grow (and wrap after centuries); the worker owns and writes
//! them, whoever polls it reads them between polls.

use flow::{Direction, PortId};
use packet::DropReason;

/// Packets and octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Octets: whole frames for ports, inner IP lengths for directions.
    pub octets: u64,
}

impl Count {
    #[inline]
    pub(crate) fn add(&mut self, octets: usize) {
        self.packets += 1;
        self.octets += octets as u64;
    }

    /// Takes back one packet that was added.
    pub(crate) fn take_back(&mut self, octets: u64) {
        self.packets -= 1;
        self.octets -= octets;
    }
}

/// What went one way through sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionStats {
    /// User packets that matched a PDR. One that waits counts when it goes on.
    pub matched: Count,
    /// User packets that were forwarded, as far as a port's queue (`TxFull`).
    pub forwarded: Count,
}

/// What one port carried for this worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames received.
    pub rx: Count,
    /// Frames sent.
    pub tx: Count,
}

/// The stages of a packet's way, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Taking a burst from a port or the inbox.
    Rx,
    /// Reading its headers.
    Parse,
    /// Finding the worker that it belongs to.
    Steer,
    /// Finding its flow entry.
    Lookup,
    /// Deciding about it for the first time.
    Slow,
    /// Doing what was decided.
    Act,
    /// Sending, handing over, freeing.
    Tx,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 7] = [
        Self::Rx,
        Self::Parse,
        Self::Steer,
        Self::Lookup,
        Self::Slow,
        Self::Act,
        Self::Tx,
    ];

    /// The stage's name as a metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Rx => "rx",
            Self::Parse => "parse",
            Self::Steer => "steer",
            Self::Lookup => "lookup",
            Self::Slow => "slow",
            Self::Act => "act",
            Self::Tx => "tx",
        }
    }
}

/// What one stage did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageStats {
    /// Bursts.
    pub calls: u64,
    /// Packets in them.
    pub packets: u64,
    /// Ticks of [`flow::cycles`] spent.
    pub ticks: u64,
}

/// Everything a worker counts.
///
/// Each packet is accounted once: what came in (`rx`, `inbox`, `originated`, `from_host`) is what went out (`tx`,
/// `handed_over`, `to_host`), was dropped (`drops`), consumed (`consumed`) or is held until another comes or its turn
/// (`held`), but for what the worker still holds between two polls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// By port.
    pub ports: Vec<PortStats>,
    /// By [`Direction`].
    pub directions: [DirectionStats; 2],
    /// By [`DropReason`].
    pub drops: [u64; DropReason::COUNT],
    /// By [`Stage`].
    pub stages: [StageStats; 7],
    /// Packets that other workers handed over.
    pub inbox: u64,
    /// Packets handed over to other workers.
    pub handed_over: u64,
    /// Packets that did their work here: ARP replies, error indications and the like.
    pub consumed: u64,
    /// Packets of our own: error indications, notifications, what control sends.
    pub originated: u64,
    /// Packets answered in the same buffer: ARP, ND, ICMP echo, GTP-U echo. They count in `tx`, too.
    pub answered: u64,
    /// Packets given to the host's own network stack.
    pub to_host: u64,
    /// Frames of the host's own network stack, which are sent as they are.
    pub from_host: u64,
    /// Packets that found their flow entry.
    pub hits: u64,
    /// Packets that found no flow entry, and which can have one.
    pub misses: u64,
    /// Packets that found an entry of an older generation.
    pub stale: u64,
    /// Packets that never have an entry: End Marker, Tunnel Status, user packets to groups in a tunnel.
    pub bypassed: u64,
    /// End Markers and Tunnel Status messages that went on from tunnel to tunnel.
    pub relayed: u64,
    /// Flow entries made.
    pub installed: u64,
    /// Decisions that found no room for an entry; the packet went on all the same.
    pub not_installed: u64,
    /// Decisions without an entry, because the session has as many as it may; the packet went on all the same.
    pub over_session_flows: u64,
    /// Likewise, because the session sets up too many in too short a time.
    pub over_session_rate: u64,
    /// Likewise, because all sessions together do.
    pub over_rate: u64,
    /// Decisions about packets of contents that found no room for a counter; they count together.
    pub contents_together: u64,
    /// Flows in use that were decided anew because the rules that all sessions share changed.
    pub revalidated: u64,
    /// Packets that went by an older decision because there was no time to make it anew.
    pub revalidations_put_off: u64,
    /// Flow entries whose idle time was cut down by a FIN or RST.
    pub closed: u64,
    /// Flow entries removed because they idled.
    pub aged: u64,
    /// Flow entries removed because no packet could use them any more and they were many.
    pub reaped: u64,
    /// Packets that wait now: fragments for others, packets of FARs that buffer, packets that came in faster
    /// than they could be worked on (`backlog`).
    pub held: u64,
    /// Packets that wait now because they came in faster than they could be worked on.
    pub backlog: u64,
    /// Packets that went before those that wait: ARP and ND, GTP-U echo, routing protocols and the like.
    pub urgent: u64,
    /// Packets that were kept, since their FAR buffers or nobody knows yet where its next hop is: those that went on
    /// (`flushed`), were dropped (`buffer_discarded`, `buffer_expired`) or wait (`buffered`). A packet that goes on may
    /// have to wait once more, and counts again then.
    pub stored: u64,
    /// Buffered packets that went on.
    pub flushed: u64,
    /// Buffered packets that wait now.
    pub buffered: u64,
    /// First fragments that were not noted, because all places are taken by datagrams that wait for theirs.
    pub fragments_unnoted: u64,
    /// Events that found no room on their way to control.
    pub events_lost: u64,
    /// Copies of packets made for a mirror; they count in `originated`, too.
    pub mirrored: u64,
    /// Copies that no buffer could be had for. One that finds none for its fragments is `mirrored`, and dropped.
    pub mirrors_lost: u64,
    /// Duplicates of packets of FARs that duplicate (DUPL); they count in `originated`, too.
    pub duplicated: u64,
    /// Duplicates for which there was no buffer or no neighbour, or which were too long and may not leave in fragments.
    /// One that finds no buffers for its fragments is `duplicated`, and dropped.
    pub duplicates_lost: u64,
    /// ICMP errors to the senders of user packets that do not go on; they count in `originated`, too.
    pub icmp_errors: u64,
    /// Packets that were longer than their way out allows, and left in fragments; duplicates and copies for mirrors,
    /// too.
    pub fragmented: u64,
    /// The fragments of those behind the first; they count in `originated`, too.
    pub fragments_made: u64,
    /// SYNs and SYN-ACKs of users that told a larger maximum segment size than their way allows.
    pub mss_clamped: u64,
    /// GTP-U packets put together from fragments; these count in `consumed`, but for one.
    pub reassembled: u64,
    /// Packets that came in again after they were sent to an address of our own, once for each lap.
    pub recirculated: u64,
    /// Steering exceptions that found no room: their packets take the way of their bucket.
    pub exceptions_lost: u64,
}

impl Stats {
    /// All zero, for so many ports.
    pub fn new(ports: usize) -> Self {
        Self {
            ports: vec![PortStats::default(); ports],
            directions: Default::default(),
            drops: [0; DropReason::COUNT],
            stages: Default::default(),
            inbox: 0,
            handed_over: 0,
            consumed: 0,
            originated: 0,
            answered: 0,
            to_host: 0,
            from_host: 0,
            hits: 0,
            misses: 0,
            stale: 0,
            bypassed: 0,
            relayed: 0,
            installed: 0,
            not_installed: 0,
            over_session_flows: 0,
            over_session_rate: 0,
            over_rate: 0,
            contents_together: 0,
            revalidated: 0,
            revalidations_put_off: 0,
            closed: 0,
            aged: 0,
            reaped: 0,
            held: 0,
            backlog: 0,
            urgent: 0,
            stored: 0,
            flushed: 0,
            buffered: 0,
            fragments_unnoted: 0,
            events_lost: 0,
            mirrored: 0,
            mirrors_lost: 0,
            duplicated: 0,
            duplicates_lost: 0,
            icmp_errors: 0,
            fragmented: 0,
            mss_clamped: 0,
            reassembled: 0,
            fragments_made: 0,
            recirculated: 0,
            exceptions_lost: 0,
        }
    }

    /// One direction's counts.
    pub fn direction(&self, direction: Direction) -> &DirectionStats {
        &self.directions[direction as usize]
    }

    /// Packets dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason.index()]
    }

    /// Frames received by all ports.
    pub fn rx(&self) -> u64 {
        self.ports.iter().map(|port| port.rx.packets).sum()
    }

    /// Frames sent by all ports.
    pub fn tx(&self) -> u64 {
        self.ports.iter().map(|port| port.tx.packets).sum()
    }

    /// Each count that is a number of its own, by name: what ports, directions, stages and drop reasons have is theirs.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        // Taken apart in full, so that a new count cannot be forgotten.
        macro_rules! named {
            ($($name:ident)*) => {{
                let Self { ports: _, directions: _, drops: _, stages: _, $($name),* } = self;
                vec![$((stringify!($name), *$name)),*]
            }};
        }
        named! {
            inbox handed_over consumed originated answered to_host from_host hits
            misses stale bypassed relayed installed not_installed over_session_flows
            over_session_rate over_rate contents_together revalidated revalidations_put_off closed aged
            reaped held backlog urgent stored flushed buffered mirrored mirrors_lost duplicated duplicates_lost icmp_errors fragmented fragments_made mss_clamped reassembled recirculated fragments_unnoted events_lost exceptions_lost
        }
    }

    /// Packets that came in and are neither out, dropped, consumed nor known to be held: none, between two polls.
    pub fn unaccounted(&self) -> i64 {
        let entered = self.rx() + self.inbox + self.originated + self.from_host;
        let sent = self.tx() + self.handed_over + self.to_host;
        let left = sent + self.consumed + self.held + self.drops.iter().sum::<u64>();
        entered.wrapping_sub(left) as i64
    }

    /// Notes packets that a port has received.
    pub(crate) fn received(&mut self, port: PortId, packets: u64, octets: u64) {
        if let Some(stats) = self.ports.get_mut(port.index()) {
            stats.rx.packets += packets;
            stats.rx.octets += octets;
        }
    }

    #[inline]
    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.drops[reason.index()] += 1;
    }
}
