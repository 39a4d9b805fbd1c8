//! Packets for sessions that are not here yet, while control restores those of before a restart: each tunnel and UE
//! address that they are for is reported, and they wait for a moment for its session.
//!
//! One table of fixed size has both what was reported lately and the packets that wait, by a keyed hash, in sets. The
//! rate of reports is bounded, and so are packets, their octets and their time: a scan of random TEIDs costs control
//! and memory no more than that. Where a set is full, the key with the fewest packets gives way, which is that of a
//! scan sooner than that of a UE. A packet whose session is installed comes back as a burst, before packets that arrive
//! later. The worker owns the state, and all memory is allocated at the start.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::Duration;

use flow::{Nanos, TokenBucket, TokenRate, VrfId};
use packet::{PacketBuf, Teid};
use rules::classifier::Side;
use rules::image::SessionImage;
use rules::prefix::IpPrefix;
use rules::worker_selection::WorkerSelectionKey;

use crate::Event;
use crate::burst::batch::{BURST, Batch};
use crate::control_channel::AbsentKey;
use crate::control_channel::event_queue::EventQueue;
use crate::deferred::packet_store::{PacketList, PacketStore, SlotIndex};
use crate::stats::Stats;

/// Keys that are remembered, in sets.
const KEYS: usize = 1024;
const WAYS: usize = 4;
/// How long a key is not reported again.
const INTERVAL: Duration = Duration::from_millis(100);
/// Reports at once, and how often there is one in the long run: 100,000 a second, so that all of ten thousand UEs that
/// are active are found in a fraction of a second.
const REPORTS: u32 = 256;
const REPORT_EVERY: Duration = Duration::from_micros(10);
/// The longest that a packet waits.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Packets that wait: of one key, and of all; and their octets.
const PACKETS_PER_KEY: u16 = 8;
const PACKETS: usize = 1024;
const OCTETS: usize = 1 << 20;
/// Sets that one poll looks at for packets whose time is up.
const SWEPT: usize = 8;

/// A key that was reported, with the packets that wait for its session.
#[derive(Clone, Copy)]
struct Entry {
    key: Option<AbsentKey>,
    /// When it may be reported again.
    again: Nanos,
    /// When its packets have waited for too long.
    until: Nanos,
    packets: PacketList,
}

impl Entry {
    const FREE: Self = Self {
        key: None,
        again: Nanos::ZERO,
        until: Nanos::ZERO,
        packets: PacketList::EMPTY,
    };
}

/// The keys and the packets.
pub(crate) struct AbsentSessions<B> {
    is_restoring: bool,
    sets: Box<[[Entry; WAYS]]>,
    hasher: foldhash::quality::RandomState,
    reports: TokenBucket,
    held: PacketStore<B, ()>,
    ready: PacketList,
    expired: PacketList,
    /// Of the packets of this burst that are to wait.
    burst: [Option<AbsentKey>; BURST],
    hand: usize,
}

impl<B: PacketBuf> AbsentSessions<B> {
    /// Nothing waits.
    pub fn new(is_restoring: bool) -> Self {
        Self {
            is_restoring,
            sets: vec![[Entry::FREE; WAYS]; KEYS / WAYS].into_boxed_slice(),
            hasher: foldhash::quality::RandomState::default(),
            reports: TokenBucket::with_rate(TokenRate::new(REPORT_EVERY, REPORTS)),
            held: PacketStore::new(PACKETS),
            ready: PacketList::EMPTY,
            expired: PacketList::EMPTY,
            burst: [None; BURST],
            hand: 0,
        }
    }

    /// Whether sessions are restored.
    #[inline]
    pub fn is_restoring(&self) -> bool {
        self.is_restoring
    }

    /// Whether sessions are restored from now on. If not, what waits is released: its sessions do not come.
    pub fn set_restoring(&mut self, is_restoring: bool) {
        self.is_restoring = is_restoring;
        if !is_restoring {
            self.release_all();
        }
    }

    /// The packet at `index` of the burst, of this side, belongs to no session: its key is reported, unless it was
    /// lately, and it is to wait. False if it cannot have a session.
    #[cold]
    pub fn expect(
        &mut self,
        (index, side, destination): (usize, Side, Option<IpAddr>),
        (events, stats): (&mut EventQueue, &mut Stats),
        now: Nanos,
    ) -> bool {
        let Some(key) = key_of(side, destination) else {
            return false;
        };
        self.burst[index % BURST] = Some(key);
        let SlotIndex { set, way } = self.slot_for(key);
        let entry = &mut self.sets[set][way];
        // What is not pushed is pushed for the next packet with the key.
        if now >= entry.again
            && self.reports.has_token(now)
            && events.push_unsolicited(stats, Event::AbsentSession { key })
        {
            self.reports.take(now);
            entry.again = now + INTERVAL;
        }
        true
    }

    /// Keeps the packet at `index` of the burst, which was [expected](Self::expect).
    ///
    /// # Errors
    /// The packet, when there is no room for it.
    pub fn store(&mut self, index: usize, packet: B, now: Nanos) -> Result<(), B> {
        let key = self.burst[index % BURST].take();
        let slot = key.and_then(|key| self.find(key));
        let Some(SlotIndex { set, way }) = slot else {
            return Err(packet);
        };
        let entry = &mut self.sets[set][way];
        if entry.packets.len() >= PACKETS_PER_KEY || self.held.octets() + packet.len() > OCTETS {
            return Err(packet);
        }
        if entry.packets.is_empty() {
            entry.until = now + TIMEOUT;
        }
        self.held.push(&mut entry.packets, packet, ())
    }

    /// Releases the packets of a session that was installed or changed.
    #[cold]
    pub fn meet(&mut self, image: &SessionImage) {
        for &(local, teid) in &image.tunnels {
            self.release(AbsentKey::Tunnel(local, teid));
        }
        for &(vrf, prefix) in &image.ue_addresses {
            self.meet_prefix(vrf, prefix);
        }
    }

    /// Releases the packets with a key for which worker selection has changed.
    #[cold]
    pub fn meet_key(&mut self, key: WorkerSelectionKey) {
        match key {
            WorkerSelectionKey::Tunnel(local, teid) => self.release(AbsentKey::Tunnel(local, teid)),
            WorkerSelectionKey::Address(vrf, prefix) => self.meet_prefix(vrf, prefix),
        }
    }

    fn meet_prefix(&mut self, vrf: VrfId, prefix: IpPrefix) {
        let address = prefix.address();
        if prefix == IpPrefix::host(address) {
            return self.release(AbsentKey::Address(vrf, address));
        }
        let is_in =
            |key| matches!(key, AbsentKey::Address(of, address) if of == vrf && prefix.contains(address));
        for entry in self.sets.iter_mut().flatten() {
            if entry.key.is_some_and(is_in) {
                let Entry { packets, .. } = std::mem::replace(entry, Entry::FREE);
                self.held.join(&mut self.ready, packets);
            }
        }
    }

    fn release(&mut self, key: AbsentKey) {
        if let Some(SlotIndex { set, way }) = self.find(key) {
            let Entry { packets, .. } = std::mem::replace(&mut self.sets[set][way], Entry::FREE);
            self.held.join(&mut self.ready, packets);
        }
    }

    /// Releases all packets: they are for other workers now, or their sessions do not come.
    #[cold]
    pub fn release_all(&mut self) {
        for entry in self.sets.iter_mut().flatten() {
            let packets = std::mem::replace(&mut entry.packets, PacketList::EMPTY);
            self.held.join(&mut self.ready, packets);
        }
    }

    /// How many packets there are, those on their way out included.
    #[inline]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether there are released packets.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes released packets, as many as `out` has room for.
    pub fn take_ready(&mut self, out: &mut Batch<B>) {
        self.held.take_into(&mut self.ready, out);
    }

    /// Looks at a few keys for packets that have waited for too long.
    pub fn sweep(&mut self, now: Nanos) {
        for _ in 0..SWEPT {
            for entry in &mut self.sets[self.hand] {
                if entry.until <= now {
                    let packets = std::mem::replace(&mut entry.packets, PacketList::EMPTY);
                    self.held.join(&mut self.expired, packets);
                }
            }
            self.hand = (self.hand + 1) % self.sets.len();
        }
    }

    /// Takes a packet that is given up.
    pub fn take_expired(&mut self) -> Option<B> {
        self.held.pop(&mut self.expired).map(|(packet, ())| packet)
    }

    fn set_of(&self, key: AbsentKey) -> usize {
        self.hasher.hash_one(key) as usize % self.sets.len()
    }

    fn find(&self, key: AbsentKey) -> Option<SlotIndex> {
        let set = self.set_of(key);
        let way = self.sets[set].iter().position(|entry| entry.key == Some(key))?;
        Some(SlotIndex { set, way })
    }

    /// The slot of a key, which it has from now on if it had none.
    fn slot_for(&mut self, key: AbsentKey) -> SlotIndex {
        if let Some(slot) = self.find(key) {
            return slot;
        }
        let set = self.set_of(key);
        let entries = &mut self.sets[set];
        let use_of = |entry: &Entry| (entry.key.is_some(), entry.packets.len(), entry.again);
        let way = (0..WAYS).min_by_key(|way| use_of(&entries[*way])).unwrap_or(0);
        let old = std::mem::replace(
            &mut entries[way],
            Entry {
                key: Some(key),
                ..Entry::FREE
            },
        );
        self.held.join(&mut self.expired, old.packets);
        SlotIndex { set, way }
    }
}

/// What the session of a packet would be found by.
fn key_of(side: Side, destination: Option<IpAddr>) -> Option<AbsentKey> {
    match side {
        Side::Tunnel { teid: Teid::ZERO, .. } => None,
        Side::Tunnel { local, teid, .. } => Some(AbsentKey::Tunnel(local, teid)),
        Side::Plain { vrf } => Some(AbsentKey::Address(vrf, destination?)),
    }
}

#[cfg(test)]
mod tests;
