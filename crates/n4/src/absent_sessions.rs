//! Sessions that a store has and that are not here yet, after a start: what leads to each, so that it comes at its
//! first packet or request, and who comes next otherwise.
//!
//! They are listed on any thread, and owned by control from then until the last one has come
//! ([`AbsentLists`](crate::absent_lists::AbsentLists)). Their tunnels and addresses are reserved meanwhile
//! ([`session::Sessions::reserve_for_absent`]). There are very many, and peers wait until all are listed: so what leads
//! to those of a list has no more than hashes and places in it.

use flow::{LocalId, VrfId};
use packet::Teid;
use rules::network::Network;
use rules::prefix::IpPrefix;
use session::{CpFSeid, HashedIndexes, Keyed, Seid, SessionHead, keyed};
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::slice::from_ref;

/// A session's record, and what was counted since it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSession {
    /// The session's record ([`session::SessionRecord`]).
    pub record: Vec<u8>,
    /// What it has counted since ([`session::SessionProgress`]), as it was encoded.
    pub progress: Option<Vec<u8>>,
}

/// Why there is no record of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFault {
    /// It is damaged, and stays so.
    Damaged,
    /// It cannot be read now.
    Unreadable,
}

/// Where the records of absent sessions are read.
pub trait StoredSessions: Send {
    /// The record of the session at this place in the order in which they were listed.
    ///
    /// # Errors
    /// Why there is none.
    fn read(&mut self, place: usize) -> Result<StoredSession, RecordFault>;
}

type Tunnel = (LocalId, Teid);
type Address = (VrfId, IpPrefix);
/// The number of a peer with the addresses that it has given, and the SEID.
type Owner = (u32, u64);
/// The number of a Node ID, and the addresses of an F-SEID.
type Peer = (u32, Option<Ipv4Addr>, Option<Ipv6Addr>);

/// What an absent session holds here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserved {
    pub(crate) tunnels: SmallVec<[Tunnel; 2]>,
    pub(crate) addresses: SmallVec<[Address; 1]>,
}

/// A session of the list.
#[derive(Debug)]
struct Absent {
    seid: Seid,
    owner: Owner,
    reserved: Reserved,
    has_come: bool,
}

/// A place in the list.
type Place = u32;

/// All absent sessions.
pub struct AbsentSessions {
    records: Box<dyn StoredSessions>,
    sessions: Vec<Absent>,
    /// How many have not come.
    left: usize,
    by_seid: HashedIndexes<Seid, Place>,
    by_tunnel: HashedIndexes<Tunnel, Place>,
    by_address: HashedIndexes<Address, Place>,
    by_owner: HashedIndexes<Owner, Place>,
    /// The lengths of prefixes among the addresses.
    lengths: BTreeSet<u8>,
    /// The numbers of Node IDs.
    nodes: Keyed<Box<[u8]>, u32>,
    /// The numbers of peers.
    peers: Keyed<Peer, u32>,
    /// Those that are to come, in order; some have come already.
    order: VecDeque<Place>,
    /// All tunnels, until they are reserved.
    tunnels: Vec<Tunnel>,
    /// All addresses, in the order in which they are reserved soonest, until they are.
    addresses: Vec<Address>,
}

impl AbsentSessions {
    /// Lists `sessions`, about as many as `most`, each with whether it is active: these come before all others. Their
    /// records are in `records`. Addresses of ours and instances that are not in `network` any more are left out: a
    /// session's import says what is wrong. `seed` is of hashes.
    ///
    /// # Errors
    /// The first that `sessions` gives.
    pub fn list<'o, E>(
        network: &Network,
        sessions: impl Iterator<Item = Result<(SessionHead<'o>, bool), E>>,
        most: usize,
        records: Box<dyn StoredSessions>,
        seed: u64,
    ) -> Result<Self, E> {
        let mut absent = Self {
            records,
            sessions: Vec::with_capacity(most),
            left: 0,
            by_seid: HashedIndexes::new(seed),
            by_tunnel: HashedIndexes::new(seed),
            by_address: HashedIndexes::new(seed),
            by_owner: HashedIndexes::new(seed),
            lengths: BTreeSet::new(),
            nodes: keyed(seed),
            peers: keyed(seed),
            order: VecDeque::with_capacity(most),
            tunnels: Vec::with_capacity(most),
            addresses: Vec::with_capacity(most),
        };
        for session in sessions {
            let (head, is_active) = session?;
            absent.enter(network, &head, is_active);
        }
        absent.index();
        Ok(absent)
    }

    /// Makes what finds the sessions. Of several with the same key the last one is found.
    fn index(&mut self) {
        let all = &*self.sessions;
        index(&mut self.by_seid, all, |one| from_ref(&one.seid), has_seid);
        index(&mut self.by_owner, all, |one| from_ref(&one.owner), has_owner);
        index(&mut self.by_tunnel, all, |one| &one.reserved.tunnels, has_tunnel);
        index(
            &mut self.by_address,
            all,
            |one| &one.reserved.addresses,
            has_address,
        );
        self.addresses.sort_unstable();
    }

    fn enter(&mut self, network: &Network, head: &SessionHead<'_>, is_active: bool) {
        let local = |&(address, teid): &(IpAddr, Teid)| {
            let (_, local) = network.local(address)?;
            Some((local, teid))
        };
        let vrf = |&(name, prefix): &(&str, IpPrefix)| {
            let instance = network.instances().iter().find(|one| *one.name == *name)?;
            Some((instance.vrf, prefix))
        };
        let absent = Absent {
            seid: head.seid,
            owner: (self.number(head.node, &head.cp), head.cp.seid),
            reserved: Reserved {
                tunnels: head.tunnels.iter().filter_map(local).collect(),
                addresses: head.addresses.iter().filter_map(vrf).collect(),
            },
            has_come: false,
        };
        let place = self.sessions.len() as Place;
        let lengths = absent.reserved.addresses.iter();
        self.lengths.extend(lengths.map(|(_, prefix)| prefix.len()));
        match is_active {
            true => self.order.push_front(place),
            false => self.order.push_back(place),
        }
        self.tunnels.extend_from_slice(&absent.reserved.tunnels);
        self.addresses.extend_from_slice(&absent.reserved.addresses);
        self.sessions.push(absent);
        self.left += 1;
    }

    /// The number of a peer with these addresses.
    fn number(&mut self, node: &[u8], cp: &CpFSeid) -> u32 {
        let next = self.nodes.len() as u32;
        let node = *self.nodes.entry_ref(node).or_insert(next);
        let next = self.peers.len() as u32;
        *self.peers.entry((node, cp.ipv4, cp.ipv6)).or_insert(next)
    }

    /// All tunnels and all UE addresses, to be reserved.
    pub(crate) fn reserved(&mut self) -> (Vec<Tunnel>, Vec<Address>) {
        let tunnels = std::mem::take(&mut self.tunnels);
        (tunnels, std::mem::take(&mut self.addresses))
    }

    /// How many have not come.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left
    }

    /// Whether all have come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Whether this one has not come.
    pub(crate) fn has(&self, seid: Seid) -> bool {
        self.place(seid).is_some()
    }

    fn place(&self, seid: Seid) -> Option<Place> {
        find(&self.by_seid, &seid, &self.sessions, has_seid).map(|(place, _)| place)
    }

    /// The session that a local F-TEID leads to.
    pub(crate) fn by_tunnel(&self, tunnel: Tunnel) -> Option<Seid> {
        let found = find(&self.by_tunnel, &tunnel, &self.sessions, has_tunnel);
        found.map(|(_, absent)| absent.seid)
    }

    /// The session that a plain packet to this address reaches, that of the longest prefix around it, with the length
    /// of the prefix.
    pub(crate) fn by_address(&self, vrf: VrfId, address: IpAddr) -> Option<(u8, Seid)> {
        let at = |len: &u8| {
            let prefix = IpPrefix::new(address, *len)?;
            let (_, absent) = find(&self.by_address, &(vrf, prefix), &self.sessions, has_address)?;
            Some((*len, absent.seid))
        };
        self.lengths.iter().rev().find_map(at)
    }

    /// The session that the peer with this Node ID has under this F-SEID.
    pub(crate) fn by_owner(&self, node: &[u8], cp: CpFSeid) -> Option<Seid> {
        let peer = (*self.nodes.get(node)?, cp.ipv4, cp.ipv6);
        let owner = (*self.peers.get(&peer)?, cp.seid);
        let found = find(&self.by_owner, &owner, &self.sessions, has_owner);
        found.map(|(_, absent)| absent.seid)
    }

    /// The next one that is to come without a reason.
    pub(crate) fn next(&mut self) -> Option<Seid> {
        while let Some(place) = self.order.pop_front() {
            let absent = self.sessions.get(place as usize);
            if let Some(absent) = absent.filter(|absent| !absent.has_come) {
                return Some(absent.seid);
            }
        }
        None
    }

    /// Takes a session out, with what it has reserved and its record, if that can be read.
    pub(crate) fn take(&mut self, seid: Seid) -> Option<(Reserved, Result<StoredSession, RecordFault>)> {
        let place = self.place(seid)? as usize;
        let absent = self.sessions.get_mut(place)?;
        absent.has_come = true;
        self.left -= 1;
        Some((std::mem::take(&mut absent.reserved), self.records.read(place)))
    }
}

fn has_seid(absent: &Absent, seid: &Seid) -> bool {
    absent.seid == *seid
}

fn has_owner(absent: &Absent, owner: &Owner) -> bool {
    absent.owner == *owner
}

fn has_tunnel(absent: &Absent, tunnel: &Tunnel) -> bool {
    absent.reserved.tunnels.contains(tunnel)
}

fn has_address(absent: &Absent, address: &Address) -> bool {
    absent.reserved.addresses.contains(address)
}

/// Enters all sessions with all the keys that each has.
fn index<K: Hash>(
    indexes: &mut HashedIndexes<K, Place>,
    sessions: &[Absent],
    keys: impl Fn(&Absent) -> &[K],
    has_key: impl Fn(&Absent, &K) -> bool,
) {
    let places = sessions.iter().zip(0..);
    let entries = places.flat_map(|(absent, place)| keys(absent).iter().map(move |key| (key, place)));
    let is_it = |place: Place, key: &K| {
        let other = sessions.get(place as usize);
        other.is_some_and(|other| has_key(other, key))
    };
    indexes.replace_all(entries, is_it);
}

/// The session with this key, if it has not come.
fn find<'s, K: Hash>(
    indexes: &HashedIndexes<K, Place>,
    key: &K,
    sessions: &'s [Absent],
    has_key: impl Fn(&Absent, &K) -> bool,
) -> Option<(Place, &'s Absent)> {
    let absent = |place: Place| {
        let absent = sessions.get(place as usize)?;
        (!absent.has_come && has_key(absent, key)).then_some(absent)
    };
    let place = indexes.find(indexes.hash(key), |place| absent(place).is_some())?;
    Some((place, absent(place)?))
}
