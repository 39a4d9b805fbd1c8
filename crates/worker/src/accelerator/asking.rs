//! First packets that wait for an answer of the host: it sees their first octets, and says by which flow they pass.
//!
//! A packet whose flow is unknown is kept here, with those of the same two ends that follow it, and a question goes to
//! the host. The answer brings the flow, which is put into the table, and all that was kept passes by it. Where no
//! answer comes in time, or the host wants to see the packet, all that is kept goes to the host *whole*, in order, as
//! exceptions do.
//!
//! # Order
//!
//! A flow goes one way at a time. What has gone to the host whole comes back through it, so nothing of the same session
//! is kept or put by an answer until all of it has come back: each [bucket](SessionBuckets) of sessions remembers the
//! marker that was sent behind the last packet that went whole, and is clear when that one, or a later one, was echoed.
//! There is room for all buckets from the start, so that what finds no room here is remembered, too. Sessions that
//! share a bucket go whole together; that costs time alone.
//!
//! All is bounded: keys, packets, packets of a key, their time. Of keys and packets no port has all.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use flow::{KeyFields, Nanos, PortId};
use packet::PacketBuf;
use rules::classifier::Key;

use crate::accelerator::session_buckets::{BUCKETS, SessionBuckets};
use crate::accelerator::settling::cut;
use crate::deferred::packet_store::{PacketList, PacketStore};
use crate::io::PacketMetadata;
use crate::shares::Shares;

/// Slots have numbers below this: an answer names one and its turn.
pub(super) const MOST_KEYS: usize = 1 << 16;
/// How long a marker that says which buckets are clear waits for more packets that go whole.
const MARKER_EVERY: Duration = Duration::from_micros(200);

/// What has become of packets that were kept for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskingStats {
    /// Keys with packets that are kept now.
    pub keys: usize,
    /// Packets that are kept now.
    pub held: usize,
    /// Questions.
    pub asked: u64,
    /// Answers that brought a flow, which was put.
    pub installed: u64,
    /// Answers that asked for the packet, or brought a flow that could not be put.
    pub whole: u64,
    /// Questions without an answer in time.
    pub timed_out: u64,
    /// Answers about packets that were kept no more.
    pub late: u64,
    /// Packets of unknown flows that found no room to be kept, and went to the host.
    pub no_room: u64,
}

/// Bounds of what is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskingLimits {
    pub keys: usize,
    pub packets: usize,
    pub packets_per_key: u16,
    pub time: Duration,
    /// Ports, which share keys and packets, and the one among them that does not: that towards the host.
    pub ports: (usize, PortId),
}

impl AskingLimits {
    /// Which of those that share the room a port is.
    fn sharer(&self, port: PortId) -> usize {
        let port = port.with_recirculations(0);
        port.index() - usize::from(port.0 > self.ports.1.0)
    }
}

/// What a question says of a packet, and where in the heads its first octets are.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedPacket {
    pub number: u32,
    pub port: PortId,
    pub length: u16,
    pub user_packet: u16,
    pub layer4: u16,
    head: usize,
    head_len: u16,
}

/// A packet that is to be asked about, as far as its descriptor says.
pub(super) struct Unknown<'a> {
    pub port: PortId,
    pub length: u16,
    pub user_packet: u16,
    pub layer4: u16,
    pub head: &'a [u8],
}

/// The packets of one pair of ends.
struct Pending {
    /// The whole key of the first packet.
    first: Key,
    number: u32,
    /// By which its first packet came.
    port: PortId,
    due: Nanos,
    held: PacketList,
    is_live: bool,
}

/// All that is kept.
pub(super) struct Asking<B> {
    limits: AskingLimits,
    is_on: bool,
    slots: Vec<Pending>,
    free: Vec<u32>,
    by_key: HashMap<Key, u32, foldhash::quality::RandomState>,
    /// In the order in which questions were asked: their times rise.
    order: VecDeque<(u32, Nanos)>,
    packets: PacketStore<B, ()>,
    /// Whose keys and packets these are, by port.
    keys_of: Shares,
    packets_of: Shares,
    /// Packets whose flow is in the table since they were kept.
    released: PacketList,
    /// By bucket, the marker behind what went whole last.
    whole_before: Box<[u32]>,
    buckets: SessionBuckets,
    /// The marker that is sent next, and the last that came back.
    marker: u32,
    echoed: u32,
    /// Whether the next marker is waited for; and when it may be sent.
    is_marker_wanted: bool,
    marker_at: Nanos,
    questions: Questions,
    stats: AskingStats,
}

/// Questions that were not sent.
#[derive(Debug, Default)]
pub(super) struct Questions {
    asked: Vec<AskedPacket>,
    /// The first octets of all of their packets.
    heads: Vec<u8>,
}

impl Questions {
    /// All of them, with the first octets of their packets.
    pub fn all(&self) -> impl Iterator<Item = (&AskedPacket, &[u8])> {
        self.asked.iter().map(|asked| {
            let end = asked.head + usize::from(asked.head_len);
            (asked, self.heads.get(asked.head..end).unwrap_or_default())
        })
    }
}

/// What an answer is about.
pub(super) struct Answered {
    pub slot: u32,
    pub first: Key,
}

impl<B: PacketBuf + PacketMetadata> Asking<B> {
    /// Nothing is kept, until there is a host that answers.
    pub fn new(limits: AskingLimits) -> Self {
        let keys = limits.keys.min(MOST_KEYS);
        let slot = |_| Pending {
            first: Key::V4(Default::default()),
            number: 0,
            port: PortId(0),
            due: Nanos::ZERO,
            held: PacketList::EMPTY,
            is_live: false,
        };
        Self {
            limits,
            is_on: false,
            slots: (0..keys).map(slot).collect(),
            free: (0..keys as u32).rev().collect(),
            by_key: HashMap::with_capacity_and_hasher(keys, Default::default()),
            order: VecDeque::with_capacity(2 * keys),
            packets: PacketStore::new(limits.packets),
            keys_of: Shares::new(keys, limits.ports.0.saturating_sub(1)),
            packets_of: Shares::new(limits.packets, limits.ports.0.saturating_sub(1)),
            released: PacketList::EMPTY,
            whole_before: vec![0; if keys > 0 { BUCKETS } else { 0 }].into(),
            buckets: SessionBuckets::default(),
            marker: 1,
            echoed: 0,
            is_marker_wanted: false,
            marker_at: Nanos::ZERO,
            questions: Questions::default(),
            stats: AskingStats::default(),
        }
    }

    /// Whether the host answers.
    #[inline]
    pub const fn is_on(&self) -> bool {
        self.is_on
    }

    /// There is a host that answers, or none.
    pub fn set_on(&mut self, is_on: bool) {
        self.is_on = is_on && !self.slots.is_empty();
    }

    /// Whether nothing is kept.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// What has become of packets, and is here now.
    pub fn stats(&self) -> AskingStats {
        AskingStats {
            keys: self.by_key.len(),
            held: self.packets.len(),
            ..self.stats
        }
    }

    /// Whether no packet of the session that has this key is with the host.
    fn is_clear(&self, key: &Key) -> bool {
        let before = self.whole_before.get(self.buckets.of(key)).copied().unwrap_or(0);
        self.echoed.wrapping_sub(before) as i32 >= 0
    }

    /// A packet of this key goes to the host whole.
    pub fn note_whole(&mut self, key: &Key) {
        if !self.is_on {
            return;
        }
        let bucket = self.buckets.of(key);
        if let Some(before) = self.whole_before.get_mut(bucket) {
            *before = self.marker;
            self.is_marker_wanted = true;
        }
    }

    /// Whether a marker is to be sent, which says when buckets are clear.
    pub fn wants_marker(&self, now: Nanos) -> bool {
        self.is_on && self.is_marker_wanted && now >= self.marker_at
    }

    /// A marker was sent behind all that went whole; the next one has this number.
    pub fn marker_sent(&mut self, next: u32, now: Nanos) {
        (self.marker, self.is_marker_wanted) = (next, false);
        self.marker_at = now + MARKER_EVERY;
    }

    /// A marker came back: what went whole before has come back, or will not.
    pub const fn marker_echoed(&mut self, marker: u32) {
        self.echoed = marker;
    }

    /// The slot of packets with the same two ends as this whole key, if any are kept.
    #[inline]
    pub fn find(&self, whole: &Key) -> Option<u32> {
        if self.by_key.is_empty() {
            return None;
        }
        self.by_key.get(&cut(whole, KeyFields::TUPLE)).copied()
    }

    /// A slot for an unknown packet, which the host is asked about; `None`: it is to go whole.
    pub fn ask(&mut self, whole: &Key, packet: &Unknown<'_>, now: Nanos) -> Option<u32> {
        if !self.is_clear(whole) {
            return None;
        }
        let sharer = self.limits.sharer(packet.port);
        let has_room = self.packets_of.has_room(sharer) && self.keys_of.take(sharer);
        let Some(slot) = has_room.then(|| self.free.pop()).flatten() else {
            self.stats.no_room += 1;
            return None;
        };
        let pending = self.slots.get_mut(slot as usize)?;
        let number = slot | (pending.number >> 16).wrapping_add(1) << 16;
        let due = now + self.limits.time;
        *pending = Pending {
            first: *whole,
            number,
            port: packet.port,
            due,
            held: PacketList::EMPTY,
            is_live: true,
        };
        self.by_key.insert(cut(whole, KeyFields::TUPLE), slot);
        if self.order.len() >= 2 * self.slots.len() {
            let slots = &self.slots;
            self.order.retain(|turn| is_turn(slots, *turn));
        }
        self.order.push_back((slot, due));
        let Questions { asked, heads } = &mut self.questions;
        asked.push(AskedPacket {
            number,
            port: packet.port,
            length: packet.length,
            user_packet: packet.user_packet,
            layer4: packet.layer4,
            head: heads.len(),
            head_len: packet.head.len() as u16,
        });
        heads.extend_from_slice(packet.head);
        self.stats.asked += 1;
        Some(slot)
    }

    /// Keeps a packet in a slot, or gives it back: then what is kept there has to [go whole](Self::take) before it.
    pub fn hold(&mut self, slot: u32, packet: B) -> Result<(), B> {
        let most = self.limits.packets_per_key;
        match self.slots.get_mut(slot as usize) {
            Some(pending)
                if pending.is_live
                    && pending.held.len() < most
                    && self.packets_of.take(self.limits.sharer(packet.ingress())) =>
            {
                self.packets.push(&mut pending.held, packet, ())
            }
            _ => Err(packet),
        }
    }

    /// A packet found no room behind others of its key.
    pub const fn note_no_room(&mut self) {
        self.stats.no_room += 1;
    }

    /// What the answer of this number is about, if that is still kept.
    pub fn answered(&mut self, number: u32) -> Option<Answered> {
        let slot = number % MOST_KEYS as u32;
        match self.slots.get(slot as usize) {
            Some(pending) if pending.is_live && pending.number == number => Some(Answered {
                slot,
                first: pending.first,
            }),
            _ => {
                self.stats.late += 1;
                None
            }
        }
    }

    /// Whether a flow may be put that the answer about a packet brings: nothing of its session went another way.
    pub fn may_put(&self, first: &Key, flow: &Key, fields: KeyFields) -> bool {
        is_within(first, flow, fields) && self.is_clear(first)
    }

    /// An answer was followed.
    pub const fn note_answer(&mut self, is_installed: bool) {
        match is_installed {
            true => self.stats.installed += 1,
            false => self.stats.whole += 1,
        }
    }

    /// Nothing is kept in a slot any more: gives what was.
    pub fn take(&mut self, slot: u32) -> Option<(Key, PacketList)> {
        let pending = self.slots.get(slot as usize).filter(|pending| pending.is_live)?;
        let first = pending.first;
        self.by_key.remove(&cut(&first, KeyFields::TUPLE));
        Some((first, self.vacate(slot)))
    }

    /// Nothing is kept in a slot any more, which has no key: gives what was.
    fn vacate(&mut self, slot: u32) -> PacketList {
        let Some(pending) = self.slots.get_mut(slot as usize) else {
            return PacketList::EMPTY;
        };
        pending.is_live = false;
        let held = std::mem::replace(&mut pending.held, PacketList::EMPTY);
        self.keys_of.vacate(self.limits.sharer(pending.port), 1);
        self.free.push(slot);
        // Answers come in the order of questions, nearly: few turns that are over stay.
        while self
            .order
            .front()
            .is_some_and(|turn| !is_turn(&self.slots, *turn))
        {
            self.order.pop_front();
        }
        held
    }

    /// Takes the first packet of those that were kept.
    pub fn pop(&mut self, held: &mut PacketList) -> Option<B> {
        let packet = self.packets.pop(held)?.0;
        self.packets_of.vacate(self.limits.sharer(packet.ingress()), 1);
        Some(packet)
    }

    /// A flow is in the table now: what is kept and has its key is [released](Self::pop_released), in order.
    pub fn release(&mut self, flow: &Key, fields: KeyFields) {
        if self.by_key.is_empty() {
            return;
        }
        if fields.contains(KeyFields::TUPLE) {
            if let Some(slot) = self.by_key.remove(&cut(flow, KeyFields::TUPLE)) {
                let held = self.vacate(slot);
                self.packets.join(&mut self.released, held);
            }
            return;
        }
        // It is a whole session's, one way.
        let mut turn = 0;
        while let Some(&(slot, due)) = self.order.get(turn) {
            let pending = self.slots.get(slot as usize);
            let turns = self.order.len();
            if is_turn(&self.slots, (slot, due))
                && pending.is_some_and(|pending| is_within(&pending.first, flow, fields))
                && let Some((_, held)) = self.take(slot)
            {
                self.packets.join(&mut self.released, held);
            }
            // Turns before it may be gone now, and with them its own.
            turn = (turn + 1).saturating_sub(turns - self.order.len());
        }
    }

    /// Whether packets are released and were not taken.
    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Takes the next packet that is released.
    pub fn pop_released(&mut self) -> Option<B> {
        let mut released = std::mem::replace(&mut self.released, PacketList::EMPTY);
        let packet = self.pop(&mut released);
        self.released = released;
        packet
    }

    /// The next slot whose answer has not come in time.
    pub fn next_due(&mut self, now: Nanos) -> Option<u32> {
        while let Some(&turn) = self.order.front() {
            let is_one = is_turn(&self.slots, turn);
            if is_one && turn.1 > now {
                return None;
            }
            self.order.pop_front();
            if is_one {
                self.stats.timed_out += 1;
                return Some(turn.0);
            }
        }
        None
    }

    /// The slot of any packets that are kept.
    pub fn first(&self) -> Option<u32> {
        self.by_key.values().next().copied()
    }

    /// Whether there are questions that were not sent.
    pub const fn has_questions(&self) -> bool {
        !self.questions.asked.is_empty()
    }

    /// Takes them.
    pub fn take_questions(&mut self) -> Questions {
        std::mem::take(&mut self.questions)
    }

    /// They were sent, or are of no use any more.
    pub fn questions_sent(&mut self, mut questions: Questions) {
        questions.asked.clear();
        questions.heads.clear();
        self.questions = questions;
    }
}

/// Whether this is the turn of what is kept in its slot now. Those of one moment share a turn, which is the same to all
/// that ask.
fn is_turn(slots: &[Pending], (slot, due): (u32, Nanos)) -> bool {
    slots
        .get(slot as usize)
        .is_some_and(|pending| pending.is_live && pending.due == due)
}

/// Whether packets of a whole key have that of a flow.
fn is_within(whole: &Key, flow: &Key, fields: KeyFields) -> bool {
    cut(whole, fields) == cut(flow, fields)
}
