//! Fragments of user packets: those behind the first have no ports, so they borrow those of the first one.
//!
//! Between `select_worker` and `lookup`, a burst that has fragments is gone over twice. First fragments note protocol
//! and ports under what fragments of a datagram have in common: where they came in, addresses, identification, and in
//! IPv4 the protocol (RFC 791 §3.2, RFC 8200 §4.5). Then each of the others that finds its datagram gets these put into
//! its flow key, and from there on is a packet of its flow like any other: the same entry, the same limits, never a
//! decision of its own. One that finds none has a key that no packet with ports can have. It passes where the rules
//! read no ports, which most often a wide entry says already; where they do, the slow path has it stored here until its
//! first fragment comes. Then it goes its way again from `parse` on, in the same poll.
//!
//! Everything is bounded and made at the start: datagrams (sets of four slots by a keyed hash, in which what is known
//! longest gives way, and what waits does not), buffers held and their octets, in all and for one datagram, and the
//! time. A session may have a quarter as much as is still free: however many want more, one that had none finds room.
//! What finds no room, or whose time is up, is dropped and counted. The worker owns the state. Nothing is reassembled:
//! overlapping fragments pass, each by the ports of the first fragment that came last.
//!
//! How [`rules::reference_interpreter`] relates: it takes one packet and sees ports 0 in a fragment behind the first.
//! The packet path does what it says of that fragment with the first one's protocol and ports, and of any fragment
//! whose answer they do not change. With [`FragmentLimits::OFF`] it does what it says of each packet alone.

use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;

use flow::{Nanos, SessionIndex};
use nat::pools::NatPools;
use packet::{Addrs, IpTuple, PacketBuf};
use rules::classifier::Side;

use crate::FragmentLimits;
use crate::burst::batch::{BURST, Batch};
use crate::burst::descriptor::{Descriptor, Keys, PacketFlags, TransportFields};
use crate::deferred::packet_store::{PacketList, PacketStore, SlotIndex};
use crate::sessions::Sessions;
use crate::stats::Stats;

/// Places in a set.
const WAYS: usize = 4;
/// Datagrams looked at in one poll for those whose time is up.
const SWEPT: usize = 8;
/// Counters of what sessions hold: those with the same remainder share one.
const SHARES: usize = 256;
/// The protocol in the key of a fragment whose ports are not known: that of IPv6's fragment header, which no packet
/// has.
const NO_PORTS: u8 = 44;

/// What fragments of a datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Datagram {
    /// Local address and TEID, or VRF.
    side: (u32, u32),
    addrs: Addrs,
    /// Of IPv4; 0 in IPv6, where fragments need not agree in it.
    protocol: u8,
    id: u32,
}

impl Datagram {
    fn of<B: PacketBuf>(descriptor: &Descriptor, tuple: &IpTuple, packet: &B) -> Option<Self> {
        let bytes = packet.data().get(usize::from(descriptor.offset)..)?;
        let side = match descriptor.side {
            Side::Tunnel { local, teid, .. } => (u32::from(local.0) | 1 << 31, teid.0),
            Side::Plain { vrf } => (vrf.0.into(), 0),
        };
        let protocol = if tuple.addrs.is_v4() { tuple.proto } else { 0 };
        Some(Self {
            side,
            addrs: tuple.addrs,
            protocol,
            id: IpTuple::fragment_id(bytes)?,
        })
    }
}

/// The state of one datagram.
#[derive(Clone, Copy, Debug)]
struct Slot {
    datagram: Datagram,
    until: Nanos,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Free,
    /// Its first fragment has come: protocol and ports, as keys have them.
    Known(u8, [u16; 2]),
    /// Its other fragments wait.
    Waiting(PacketList),
}

impl Slot {
    const FREE: Self = Self {
        datagram: Datagram {
            side: (0, 0),
            addrs: Addrs::V4 {
                src: [0; 4],
                dst: [0; 4],
            },
            protocol: 0,
            id: 0,
        },
        until: Nanos::ZERO,
        state: State::Free,
    };
}

/// Whether a packet of a data network is for a public address of a NAT pool.
fn is_public(pools: Option<&NatPools>, side: Side, destination: IpAddr) -> bool {
    match (side, destination) {
        (Side::Plain { vrf }, IpAddr::V4(address)) => {
            pools.is_some_and(|pools| pools.pool_of(vrf, address).is_some())
        }
        _ => false,
    }
}

/// The datagrams whose fragments a worker tracks.
pub(crate) struct Fragments<B> {
    limits: FragmentLimits,
    slots: Box<[[Slot; WAYS]]>,
    hasher: foldhash::quality::RandomState,
    held: PacketStore<B, u16>,
    shares: [u16; SHARES],
    /// Stored fragments that are released.
    ready: PacketList,
    /// Of the fragments of this burst that found no ports.
    burst: [Option<Datagram>; BURST],
    hand: usize,
}

impl<B: PacketBuf> Fragments<B> {
    pub fn new(limits: FragmentLimits) -> Self {
        let sets = limits.datagrams.div_ceil(WAYS);
        let held = if sets == 0 { 0 } else { limits.held };
        Self {
            limits,
            slots: vec![[Slot::FREE; WAYS]; sets].into_boxed_slice(),
            hasher: foldhash::quality::RandomState::default(),
            held: PacketStore::new(held),
            shares: [0; SHARES],
            ready: PacketList::EMPTY,
            burst: [None; BURST],
            hand: 0,
        }
    }

    /// Whether fragments are anything but packets here.
    pub fn is_on(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Notes the first fragments of a burst, and gives the others their ports as far as they are known.
    #[cold]
    pub fn look(
        &mut self,
        packets: &[B],
        burst: (&mut [Descriptor], &mut Keys),
        of: (&Sessions, Option<&NatPools>, &mut Stats),
        now: Nanos,
    ) {
        self.look_at(packets, burst, of, now, |_, _, _| true);
    }

    /// The same of those that are `meant`.
    #[cold]
    pub fn look_at(
        &mut self,
        packets: &[B],
        (descriptors, keys): (&mut [Descriptor], &mut Keys),
        (sessions, pools, stats): (&Sessions, Option<&NatPools>, &mut Stats),
        now: Nanos,
        is_meant: impl Fn(&Descriptor, &Keys, usize) -> bool,
    ) {
        for pass in [PacketFlags::FIRST_FRAGMENT, PacketFlags::LATER_FRAGMENT] {
            for (index, (packet, descriptor)) in packets.iter().zip(&mut *descriptors).enumerate() {
                let is_one = descriptor.is_open_user() && descriptor.flags.any(pass);
                if !is_one || !is_meant(descriptor, keys, index) {
                    continue;
                }
                let Some(tuple) = keys.tuple(index, descriptor.family, false) else {
                    continue;
                };
                let datagram = Datagram::of(descriptor, &tuple, packet);
                if pass == PacketFlags::LATER_FRAGMENT {
                    self.borrow(datagram, index, descriptor, keys, now);
                } else if let Some(datagram) = datagram
                    && (sessions.find(descriptor.side, Some(tuple.addrs.dst())).is_ok()
                        || is_public(pools, descriptor.side, tuple.addrs.dst()))
                    && let Some(TransportFields { protocol, ports }) =
                        keys.transport_mut(index, descriptor.family)
                {
                    let noted = self.note(datagram, (*protocol, *ports), now);
                    stats.fragments_unnoted += u64::from(!noted);
                }
            }
        }
    }

    /// Notes a first fragment. False when there is no slot for it.
    fn note(&mut self, datagram: Datagram, (protocol, ports): (u8, [u16; 2]), now: Nanos) -> bool {
        let Some(SlotIndex { set, way }) = self.find_slot(&datagram, now) else {
            return false;
        };
        let slot = &mut self.slots[set][way];
        if let State::Waiting(chain) = slot.state {
            self.held.join(&mut self.ready, chain);
        }
        *slot = Slot {
            datagram,
            until: now + self.limits.timeout,
            state: State::Known(protocol, ports),
        };
        true
    }

    /// Another fragment: the ports of its first one, or the mark that they are missing.
    fn borrow(
        &mut self,
        datagram: Option<Datagram>,
        index: usize,
        descriptor: &mut Descriptor,
        keys: &mut Keys,
        now: Nanos,
    ) {
        self.burst[index % BURST] = datagram;
        let Some(TransportFields { protocol, ports }) = keys.transport_mut(index, descriptor.family) else {
            return;
        };
        // One that cannot be identified keeps its ports 0.
        let known = match datagram {
            Some(datagram) => self.known(&datagram, now),
            None => Some((*protocol, *ports)),
        };
        match known {
            Some(known) => {
                (*protocol, *ports) = known;
                descriptor.flags = descriptor.flags.and(PacketFlags::RESOLVED);
            }
            None => (*protocol, *ports) = (NO_PORTS, [(*protocol).into(), u16::MAX]),
        }
    }

    fn known(&self, datagram: &Datagram, now: Nanos) -> Option<(u8, [u16; 2])> {
        let set = self.slots.get(self.set(datagram))?;
        set.iter().find_map(|slot| match slot.state {
            State::Known(protocol, ports) if slot.datagram == *datagram && now < slot.until => {
                Some((protocol, ports))
            }
            _ => None,
        })
    }

    /// The slot of a datagram, or one that it may take: free, or that of the datagram which is known longest.
    fn find_slot(&self, datagram: &Datagram, now: Nanos) -> Option<SlotIndex> {
        let number = self.set(datagram);
        let set = self.slots.get(number)?;
        let preference = |way: &usize| match set[*way] {
            Slot {
                state: State::Free, ..
            } => Some(Nanos::ZERO),
            slot if slot.datagram == *datagram => None,
            Slot {
                state: State::Waiting(_),
                ..
            } => Some(Nanos::MAX),
            slot if slot.until <= now => Some(Nanos::ZERO),
            slot => Some(slot.until),
        };
        let way = (0..WAYS).min_by_key(preference)?;
        (preference(&way) != Some(Nanos::MAX)).then_some(SlotIndex { set: number, way })
    }

    /// Sets are numbered by a keyed hash: no sender can choose one.
    fn set(&self, datagram: &Datagram) -> usize {
        self.hasher.hash_one(datagram) as usize % self.slots.len().max(1)
    }

    /// Keeps the fragment at `index` of the burst, which belongs to `session`, until its first one comes.
    ///
    /// # Errors
    /// The fragment, when there is no room for it.
    pub fn hold(&mut self, index: usize, packet: B, session: SessionIndex, now: Nanos) -> Result<(), B> {
        let limits = self.limits;
        let share = session.index() % SHARES;
        let has_room = self.held.octets() + packet.len() <= limits.held_octets
            && usize::from(self.shares[share]) * 4 <= self.held.free(limits.held, limits.held_octets);
        let datagram = self.burst[index % BURST].take().filter(|_| has_room);
        let found = datagram.and_then(|datagram| Some((datagram, self.find_slot(&datagram, now)?)));
        let Some((datagram, SlotIndex { set, way })) = found else {
            return Err(packet);
        };
        let slot = &mut self.slots[set][way];
        let (mut chain, until) = match slot.state {
            State::Waiting(chain) => (chain, slot.until),
            _ => (PacketList::EMPTY, now + limits.timeout),
        };
        if chain.len() >= limits.held_per_datagram {
            return Err(packet);
        }
        self.held.push(&mut chain, packet, share as u16)?;
        self.shares[share] += 1;
        *slot = Slot {
            datagram,
            until,
            state: State::Waiting(chain),
        };
        Ok(())
    }

    /// How many fragments are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether stored fragments are released.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes released fragments, as many as `out` has room for.
    pub fn take_ready(&mut self, out: &mut Batch<B>) {
        while !out.is_full() {
            let Some((packet, share)) = self.held.pop(&mut self.ready) else {
                return;
            };
            self.shares[usize::from(share) % SHARES] -= 1;
            let _ = out.push(packet);
        }
    }

    /// Looks at a few datagrams. The fragments of those that waited too long, as many as `out` has room for.
    pub fn sweep(&mut self, out: &mut Batch<B>, now: Nanos) {
        for _ in 0..SWEPT.min(self.slots.len() * WAYS) {
            let (set, way) = (self.hand / WAYS, self.hand % WAYS);
            let slot = &mut self.slots[set][way];
            if slot.until <= now {
                if let State::Waiting(chain) = &mut slot.state {
                    while !out.is_full() {
                        let Some((packet, share)) = self.held.pop(chain) else {
                            break;
                        };
                        self.shares[usize::from(share) % SHARES] -= 1;
                        let _ = out.push(packet);
                    }
                    if !chain.is_empty() {
                        return;
                    }
                }
                slot.state = State::Free;
            }
            self.hand = (self.hand + 1) % (self.slots.len() * WAYS);
        }
    }
}
