//! What a worker counts. Plain numbers that only ever grow (and wrap after centuries); the worker owns and writes
//! them, its caller reads them between polls.

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
    /// User packets that matched a PDR. A buffered one counts when it is released.
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
    SelectWorker,
    /// Finding its flow entry.
    Lookup,
    /// Deciding about it for the first time.
    Slow,
    /// Doing what was decided.
    ApplyRules,
    /// Sending, handing over, freeing.
    Tx,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 7] = [
        Self::Rx,
        Self::Parse,
        Self::SelectWorker,
        Self::Lookup,
        Self::Slow,
        Self::ApplyRules,
        Self::Tx,
    ];

    /// The stage's name as a metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Rx => "rx",
            Self::Parse => "parse",
            Self::SelectWorker => "select_worker",
            Self::Lookup => "lookup",
            Self::Slow => "slow",
            Self::ApplyRules => "apply_rules",
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

/// Defines [`Stats`]: the counts of ports, directions, stages and drop reasons, and those that are single numbers, with
/// their names.
macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Everything a worker counts.
        ///
        /// Each packet is accounted once: what came in (`rx`, `inbox`, `moved_in`, `originated`, `from_host`) is what
        /// went out (`tx`, `handed_over`, `moved_out`, `to_host`), was dropped (`drops`), consumed (`consumed`) or is
        /// held until another comes or its turn (`held`), but for what the worker still holds between two polls.
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
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            /// All counts zero, for this number of ports.
            pub fn new(ports: usize) -> Self {
                Self {
                    ports: vec![PortStats::default(); ports],
                    directions: Default::default(),
                    drops: [0; DropReason::COUNT],
                    stages: Default::default(),
                    $($name: 0,)*
                }
            }

            /// Each count that is a single number, by name.
            pub fn counters(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

stats! {
    /// Packets that other workers handed over.
    inbox,
    /// Packets handed over to other workers.
    handed_over,
    /// Packets that came with their session from the queues of another worker.
    moved_in,
    /// Packets that went with their session to the queues of another worker.
    moved_out,
    /// Packets that end at this node: ARP replies, Error Indications and the like.
    consumed,
    /// Packets that this worker generates: Error Indications, notifications, frames that control sends.
    originated,
    /// Requests whose response is written into the same buffer: ARP, ND, ICMP echo, GTP-U echo. They count in `tx`,
    /// too.
    answered,
    /// Packets given to the host's own network stack.
    to_host,
    /// Frames of the host's own network stack, which are sent as they are.
    from_host,
    /// Packets whose flow entry was found.
    hits,
    /// Packets without a flow entry that can have one.
    misses,
    /// Packets whose flow entry is of an older generation.
    stale,
    /// Packets that never have an entry: End Marker, Tunnel Status, user packets to groups in a tunnel.
    bypassed,
    /// Packets that an access list denies, for whose flow there was no place among the entries of what is denied.
    denied_without_entry,
    /// Packets that would begin a connection beyond what the session, or the worker, may have.
    connections_refused,
    /// End Markers and Tunnel Status messages that were forwarded from tunnel to tunnel.
    relayed,
    /// Flow entries made.
    installed,
    /// Decisions without a flow entry, because the table is full; the packet was forwarded.
    not_installed,
    /// Decisions without a flow entry, because the session has the highest number; the packet was forwarded.
    over_session_flows,
    /// Decisions without a flow entry, because the session exceeds its rate of new entries.
    over_session_rate,
    /// Decisions without a flow entry, because all sessions together exceed the rate of new entries.
    over_rate,
    /// Decisions about packets of a content without a free counter; such packets count in one common counter.
    contents_together,
    /// Flows in use that were decided anew because the rules that all sessions share changed.
    revalidated,
    /// Packets that were forwarded by an older decision, because the slow path budget was used up.
    revalidations_put_off,
    /// Packets that inspection looked at; those of flows in use count in no other way.
    inspected,
    /// Flows, and of HTTP further requests, whose inspection has begun.
    inspections,
    /// Those that are not inspected, because there is no room, or the session has its share.
    inspections_refused,
    /// Flows, and of HTTP requests, whose host was found.
    hosts_found,
    /// Those whose host was found and is not kept, because there is no room for it: they are undetected.
    hosts_lost,
    /// Flows whose inspection has ended without a host.
    undetected_flows,
    /// Flows that nDPI has begun to look at.
    ndpi_flows,
    /// Those that it does not look at, because there is no room, or the session has its share.
    ndpi_refused,
    /// Flows that are what nDPI says.
    ndpi_found,
    /// Addresses in answers of resolvers that have got a name, or the same again.
    addresses_bound,
    /// Those for which, or for whose name, there was no room.
    addresses_refused,
    /// Flow entries whose idle time was lowered by a FIN or RST.
    closed,
    /// Flow entries removed after their idle time.
    aged,
    /// Flow entries removed because no packet could use them and their number was high.
    reaped,
    /// Packets that wait now: fragments for others, packets of FARs that buffer, packets that came in faster
    /// than they could be worked on (`backlog`), and those before ports (`queued`).
    held,
    /// Packets that wait in queues before ports now.
    queued,
    /// Packets in the receive backlog now.
    backlog,
    /// Packets processed before the receive backlog: ARP and ND, GTP-U echo, routing protocols and the like.
    urgent,
    /// Packets that were buffered, since their FAR buffers or their next hop was unresolved: those that were released
    /// (`flushed`), were dropped (`buffer_discarded`, `buffer_expired`) or wait (`buffered`). A released packet may
    /// have to wait once more, and counts again then.
    stored,
    /// Buffered packets that were released.
    flushed,
    /// Buffered packets that wait now.
    buffered,
    /// Copies of packets made for a mirror; they count in `originated`, too.
    mirrored,
    /// Copies that were not made for want of a buffer. A copy without buffers for its fragments is `mirrored`, and
    /// dropped.
    mirrors_lost,
    /// Duplicates of packets of FARs that duplicate (DUPL); they count in `originated`, too.
    duplicated,
    /// Duplicates for which there was no buffer or no neighbour, or which were too long and may not leave in fragments.
    /// One that finds no buffers for its fragments is `duplicated`, and dropped.
    duplicates_lost,
    /// Packets that said how congested the RAN is for a QoS flow that is marked for it.
    congestion_reports,
    /// Packets that left with the mark of congestion in the RAN.
    congestion_marks,
    /// ICMP errors to the senders of discarded user packets; they count in `originated`, too.
    icmp_errors,
    /// Resets of TCP, redirections of HTTP and answers of DNS to the senders of packets that access lists deny; they
    /// count in `originated`, too.
    denials_answered,
    /// Packets longer than the MTU of their path that left in fragments; duplicates and copies for mirrors, too.
    fragmented,
    /// The fragments of those behind the first; they count in `originated`, too.
    fragments_made,
    /// SYNs and SYN-ACKs of users whose maximum segment size was lowered.
    mss_clamped,
    /// GTP-U packets that were reassembled. All of their fragments but one count in `consumed`.
    reassembled,
    /// Packets that came in again after they were sent to an own address, once for each recirculation.
    recirculated,
    /// First fragments that were not recorded, because all slots are taken by datagrams that wait for their first
    /// fragment.
    fragments_unnoted,
    /// Events lost because the event queue was full.
    events_lost,
    /// Worker selection exceptions that found no room: their packets go to the worker of the bucket of their own TEID
    /// or address.
    exceptions_lost,
}

impl Stats {
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

    /// Packets received that were neither sent, dropped, consumed nor held: 0 between two polls.
    pub fn unaccounted(&self) -> i64 {
        let entered = self.rx() + self.inbox + self.moved_in + self.originated + self.from_host;
        let sent = self.tx() + self.handed_over + self.moved_out + self.to_host;
        let left = sent + self.consumed + self.held + self.drops.iter().sum::<u64>();
        entered.wrapping_sub(left) as i64
    }

    /// Counts packets that a port has received.
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

    #[inline]
    pub(crate) fn drop_many(&mut self, reason: DropReason, packets: u64) {
        self.drops[reason.index()] += packets;
    }
}
