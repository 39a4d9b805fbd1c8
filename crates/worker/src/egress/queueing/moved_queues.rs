//! Queues of sessions that move between workers: on their way, and what is held back until they come.

use std::collections::HashMap;

use flow::meter::Colour;
use flow::{Direction, Installed, Nanos, SessionIndex};
use packet::PacketBuf;
use packet::ip_fragmentation::FragmentSpec;
use rules::image::{EgressQueues, SessionImage};
use tm::{Ecn, UeState};

use super::packets::{Departing, Waiting};
use crate::burst::credit::Charge;
use crate::sessions::moved_counts::MovedCounts;

/// What waits of a session that has gone to another worker, and what its rates have used.
pub(crate) struct MovedQueues<B> {
    pub session: SessionIndex,
    /// Another session may have the index by now.
    pub seid: u64,
    /// What the packets have counted, which the worker that gives them counts no longer.
    pub counts: MovedCounts,
    /// What has left its queues and stood before ports.
    pub standing: Vec<Departing<B>>,
    /// By [`Direction`]; `None` where there are no queues.
    pub(super) plans: [Option<MovedPlan>; 2],
    /// Those of each queue in order.
    pub(super) packets: Vec<MovedPacket<B>>,
}

/// Queues as they were.
pub(super) struct MovedPlan {
    pub plan: EgressQueues,
    /// Of each node with its shapers: the place of its first queue, and what is left. None, where it let nothing leave.
    pub tokens: Vec<(u8, UeState)>,
}

/// A packet that waits, in the queue at a place of its direction's plan.
pub(super) struct MovedPacket<B> {
    pub direction: Direction,
    pub place: u8,
    /// Since when it waits.
    pub since: Nanos,
    pub octets: u16,
    pub colour: Colour,
    pub ecn: Ecn,
    /// Whether its ECN field has to say that congestion was experienced.
    pub marks_ce: bool,
    pub waiting: Waiting<B>,
    pub split: Option<FragmentSpec>,
}

impl<B: PacketBuf> MovedPacket<B> {
    /// It waits no more.
    pub fn departing(mut self) -> Departing<B> {
        if self.marks_ce {
            self.waiting.mark();
        }
        self.waiting.departing(self.split)
    }
}

impl<B> MovedQueues<B> {
    /// Packets.
    pub fn len(&self) -> usize {
        self.standing.len() + self.packets.len()
    }

    /// What each packet has counted.
    pub fn charges_mut(&mut self) -> impl Iterator<Item = &mut Charge> {
        let standing = self.standing.iter_mut().map(|departing| &mut departing.charge);
        let waiting = self.packets.iter_mut().map(|packet| &mut packet.waiting.charge);
        standing.chain(waiting)
    }

    /// What the packets have counted is in this block now.
    pub fn counts_here(&mut self, image: &SessionImage, installed: Installed) {
        let slots = self.counts.slots_in(image);
        let contents = self.counts.content_places().to_vec();
        for charge in self.charges_mut() {
            charge.arrive(installed, &slots);
            charge.arrive_content(&contents);
        }
    }
}

/// Sessions whose queues another worker still has, with what has come here for them.
pub(super) struct ArrivingSessions<B> {
    sessions: HashMap<SessionIndex, HeldBack<B>, foldhash::quality::RandomState>,
    packets: usize,
    octets: u64,
}

/// What has come for one of them.
struct HeldBack<B> {
    packets: Vec<MovedPacket<B>>,
    octets: u64,
}

impl<B> Default for HeldBack<B> {
    fn default() -> Self {
        Self {
            packets: Vec::new(),
            octets: 0,
        }
    }
}

impl<B> Default for ArrivingSessions<B> {
    fn default() -> Self {
        Self {
            sessions: HashMap::default(),
            packets: 0,
            octets: 0,
        }
    }
}

impl<B> ArrivingSessions<B> {
    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub fn has(&self, session: SessionIndex) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Packets of all of them.
    pub const fn packets(&self) -> usize {
        self.packets
    }

    /// Their octets.
    pub const fn octets(&self) -> u64 {
        self.octets
    }

    /// Octets of one of them.
    pub fn octets_of(&self, session: SessionIndex) -> u64 {
        self.sessions
            .get(&session)
            .map_or(0, |held_back| held_back.octets)
    }

    /// A session comes from another worker.
    pub fn begin(&mut self, session: SessionIndex) {
        self.sessions.entry(session).or_default();
    }

    pub fn push(&mut self, session: SessionIndex, packet: MovedPacket<B>) {
        let of = self.sessions.entry(session).or_default();
        self.packets += 1;
        self.octets += u64::from(packet.octets);
        of.octets += u64::from(packet.octets);
        of.packets.push(packet);
    }

    /// It comes no longer: gives what was held back. `None`, if it was not coming.
    pub fn end(&mut self, session: SessionIndex) -> Option<Vec<MovedPacket<B>>> {
        let HeldBack { packets, octets } = self.sessions.remove(&session)?;
        self.packets -= packets.len();
        self.octets -= octets;
        Some(packets)
    }
}
