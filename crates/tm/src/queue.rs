//! `Queue`: the packets of one queue, in one cache line; and the private shaper that some have.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::bucket::Bucket;
use crate::ids::{LossReason, WredId};
use crate::packets::{Descriptor, NONE, Packets, Room};
use crate::wheel::Waits;

/// A queue, or room for some.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub(crate) struct Queue {
    /// The first descriptor; where there is no queue, the next room of its size.
    pub(crate) head: u32,
    /// The last one; where there is no queue, the room of its size before.
    pub(crate) tail: u32,
    /// Packets, without those that are gone.
    pub(crate) packets: u32,
    /// Their octets.
    pub(crate) octets: u32,
    /// The most octets.
    pub(crate) cap: u32,
    /// The number of its private shaper and 1; 0: none.
    pub(crate) shaper: u32,
    /// What is left of its turn, in octets.
    pub(crate) deficit: i32,
    /// The UE, and above [`Queue::PLACE`] the place below it.
    pub(crate) owner: u32,
    /// The yellow packets, first and last.
    pub(crate) yellow_head: u32,
    pub(crate) yellow_tail: u32,
    pub(crate) yellow_octets: u32,
    /// What active queue management remembers.
    pub(crate) aqm: [u32; 3],
    /// What its last packet has waited.
    pub(crate) sojourn: u32,
    /// Its class, and in the upper half that of what is above its guaranteed rate; above these
    /// [`Queue::IS_DROPPING`] and [`Queue::HAS_GONE`].
    pub(crate) classes: u8,
    /// What kind it is.
    pub(crate) kind: Kind,
    /// Its share of what the pool has left, as a power of two.
    pub(crate) share: i8,
    /// How many quanta a turn is worth.
    pub(crate) weight: u8,
}

const _: () = assert!(size_of::<Queue>() == 64);

/// What a queue does against standing delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub(crate) struct Kind(pub(crate) u8);

impl Kind {
    /// There is no queue.
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const TAIL_DROP: Self = Self(1);
    pub(crate) const CODEL: Self = Self(2);
    /// The classic queue of a dual queue; the next one is the other.
    pub(crate) const CLASSIC: Self = Self(3);
    /// The low latency queue of a dual queue.
    pub(crate) const LOW_LATENCY: Self = Self(4);
    /// From it on: WRED, by the number of the profile.
    const WRED: u8 = 16;

    /// WRED with this profile.
    pub(crate) const fn wred(profile: WredId) -> Self {
        Self(Self::WRED + profile.0)
    }

    /// The place of the profile, if it is WRED.
    #[inline(always)]
    pub(crate) const fn wred_profile(self) -> Option<usize> {
        if self.0 < Self::WRED {
            None
        } else {
            Some((self.0 - Self::WRED) as usize)
        }
    }
}

impl Queue {
    /// Room for a queue.
    pub(crate) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        packets: 0,
        octets: 0,
        cap: 0,
        shaper: 0,
        deficit: 0,
        owner: 0,
        yellow_head: NONE,
        yellow_tail: NONE,
        yellow_octets: 0,
        aqm: [0; 3],
        sojourn: 0,
        classes: 0,
        kind: Kind::NONE,
        share: 0,
        weight: 0,
    };

    /// In `classes`: CoDel is in its dropping state.
    pub(crate) const IS_DROPPING: u8 = 1 << 3;
    /// In `classes`: there may be packets that are gone. Only then the next packet is looked at before its turn.
    const HAS_GONE: u8 = 1 << 7;
    /// From which bit on an owner has the place: UEs have lower numbers than that allows.
    const PLACE: u32 = 25;

    /// The owner of a queue at a place below a UE.
    pub(crate) const fn owner(ue: u32, place: u8) -> u32 {
        ue | (place as u32) << Self::PLACE
    }

    /// The UE.
    #[inline(always)]
    pub(crate) const fn ue(&self) -> u32 {
        self.owner & ((1 << Self::PLACE) - 1)
    }

    /// The place of its packets below the UE: that of a low latency queue is that of the classic one.
    #[inline(always)]
    pub(crate) const fn place(&self) -> u8 {
        let below = self.kind.0 == Kind::LOW_LATENCY.0;
        (self.owner >> Self::PLACE) as u8 - below as u8
    }

    /// Its class.
    #[inline(always)]
    pub(crate) const fn class(&self) -> u8 {
        self.classes & 7
    }

    /// The class of what is above its guaranteed rate.
    pub(crate) const fn excess_class(&self) -> u8 {
        self.classes >> 4 & 7
    }

    pub(crate) const fn set_excess_class(&mut self, class: u8) {
        self.classes = self.classes & !(7 << 4) | class << 4;
    }

    /// Puts a packet at the end, whose descriptor this is.
    #[inline]
    pub(crate) fn push(&mut self, packets: &mut Packets<impl Room>, slot: u32, packet: &Descriptor) {
        if self.head == NONE {
            self.head = slot;
        } else if let Some(last) = packets.get_mut(self.tail) {
            last.next = slot;
        }
        self.tail = slot;
        self.packets += 1;
        self.octets += u32::from(packet.octets);
        if packet.is_yellow() {
            self.push_yellow(packets, slot, packet.octets);
        }
    }

    fn push_yellow(&mut self, packets: &mut Packets<impl Room>, slot: u32, octets: u16) {
        self.yellow_octets += u32::from(octets);
        if self.yellow_head == NONE {
            self.yellow_head = slot;
        } else if let Some(last) = packets.get_mut(self.yellow_tail) {
            last.next_yellow = slot;
        }
        self.yellow_tail = slot;
    }

    /// The first packet.
    #[inline]
    pub(crate) fn first<'a>(&self, packets: &'a Packets<impl Room>) -> Option<&'a Descriptor> {
        packets.get(self.head)
    }

    /// Takes out the first packet; its slot is free. Those that are gone are freed with it, so that the first is never
    /// one of them.
    #[inline]
    pub(crate) fn pop(&mut self, packets: &mut Packets<impl Room>) -> Option<(u32, Descriptor)> {
        let slot = self.head;
        let packet = *packets.get(slot)?;
        self.unlink(packets, slot, packet.next);
        self.packets -= 1;
        self.octets -= u32::from(packet.octets);
        if packet.is_yellow() {
            self.unlink_yellow(&packet);
        }
        if self.classes & Self::HAS_GONE != 0 {
            self.skip_gone(packets);
        }
        Some((slot, packet))
    }

    #[inline(always)]
    fn unlink(&mut self, packets: &mut Packets<impl Room>, slot: u32, next: u32) {
        self.head = next;
        packets.give_back(slot);
    }

    fn unlink_yellow(&mut self, packet: &Descriptor) {
        self.yellow_head = packet.next_yellow;
        self.yellow_octets -= u32::from(packet.octets);
    }

    #[cold]
    fn skip_gone(&mut self, packets: &mut Packets<impl Room>) {
        while let Some(next) = self
            .first(packets)
            .filter(|packet| packet.is_gone())
            .map(|packet| packet.next)
        {
            self.unlink(packets, self.head, next);
        }
        if self.head == NONE {
            self.classes &= !Self::HAS_GONE;
        }
    }

    /// Takes out the oldest yellow packet. Its slot is in use until those before it have left.
    pub(crate) fn push_out_yellow(&mut self, packets: &mut Packets<impl Room>) -> Option<(u32, Descriptor)> {
        let slot = self.yellow_head;
        let packet = packets.get_mut(slot)?;
        packet.set_gone();
        let packet = *packet;
        self.classes |= Self::HAS_GONE;
        self.unlink_yellow(&packet);
        self.packets -= 1;
        self.octets -= u32::from(packet.octets);
        self.skip_gone(packets);
        Some((slot, packet))
    }
}

/// Two rates of a queue's own. While the guaranteed one has tokens, the queue is of its class, then of its excess
/// class; while the maximum has none, it is held.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub(crate) struct QueueShaper {
    pub(crate) guaranteed: Bucket,
    pub(crate) maximum: Bucket,
    /// Of what time the levels are.
    pub(crate) since: u64,
    pub(crate) ue: u32,
    pub(crate) waits: Waits,
    pub(crate) place: u8,
    /// Whether there is a guaranteed rate.
    pub(crate) guarantees: u8,
    pub(crate) unused: [u8; 14],
}

const _: () = assert!(size_of::<QueueShaper>() == 64);

/// What became of packets of a queue.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Counters {
    /// By [`LossReason`].
    pub(crate) drops: [u32; LossReason::COUNT],
    pub(crate) marks: u32,
}
