//! Sessions that a store has and that are not here yet, after a start: what leads to each, so that it comes at its
//! first packet or request, and who comes next otherwise.
//!
//! Owned by control, until the last one has come. Their tunnels and addresses are reserved meanwhile
//! ([`session::Sessions::reserve`]).

use packet::Teid;
use rules::network::Network;
use rules::prefix::IpPrefix;
use session::{CpFSeid, Keyed, Seid, SessionHead, keyed, keyed_with_room};
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

use flow::{LocalId, VrfId};

/// A session's record, and what was counted since it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSession {
    /// The session's record ([`session::SessionRecord`]).
    pub record: Vec<u8>,
    /// What its URRs have counted since ([`session::UrrProgress`]), as it was encoded.
    pub progress: Option<Vec<u8>>,
}

/// Where the records of absent sessions are read.
pub trait StoredSessions: Send {
    /// The record of a session. `None` where it cannot be read.
    fn read(&mut self, seid: Seid) -> Option<StoredSession>;
}

/// What an absent session holds here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserved {
    pub(crate) tunnels: SmallVec<[(LocalId, Teid); 2]>,
    pub(crate) addresses: SmallVec<[(VrfId, IpPrefix); 1]>,
}

/// All absent sessions. They are entered before control has them, on any thread.
pub struct AbsentSessions {
    records: Box<dyn StoredSessions>,
    /// What each has reserved.
    sessions: Keyed<Seid, Reserved>,
    by_tunnel: Keyed<(LocalId, Teid), Seid>,
    by_address: Keyed<(VrfId, IpPrefix), Seid>,
    /// The lengths of prefixes among the addresses.
    lengths: BTreeSet<u8>,
    /// By the number of the Node ID in `nodes`.
    by_owner: Keyed<(u32, CpFSeid), Seid>,
    nodes: Keyed<Box<[u8]>, u32>,
    /// Those that are to come, in order; some have come already.
    order: VecDeque<Seid>,
}

impl AbsentSessions {
    /// No sessions yet, with room for as many, whose records are in `records`. `seed` is of the hashes.
    #[must_use]
    pub fn with_room(sessions: usize, records: Box<dyn StoredSessions>, seed: u64) -> AbsentSessions {
        AbsentSessions {
            records,
            sessions: keyed_with_room(sessions, seed),
            by_tunnel: keyed_with_room(sessions, seed),
            by_address: keyed_with_room(sessions, seed),
            lengths: BTreeSet::new(),
            by_owner: keyed_with_room(sessions, seed),
            nodes: keyed(seed),
            order: VecDeque::with_capacity(sessions),
        }
    }

    /// Enters a session. Active ones come before all others. Addresses of ours and instances that are no longer
    /// configured are left out: its import says what is wrong.
    pub fn enter(&mut self, network: &Network, absent: &SessionHead<'_>, is_active: bool) {
        let local = |&(address, teid): &(IpAddr, Teid)| {
            let (_, local) = network.local(address)?;
            Some((local, teid))
        };
        let vrf = |&(name, prefix): &(&str, IpPrefix)| {
            let instance = network.instances().iter().find(|one| *one.name == *name)?;
            Some((instance.vrf, prefix))
        };
        let reserved = Reserved {
            tunnels: absent.tunnels.iter().filter_map(local).collect(),
            addresses: absent.addresses.iter().filter_map(vrf).collect(),
        };
        let seid = absent.seid;
        for tunnel in &reserved.tunnels {
            self.by_tunnel.insert(*tunnel, seid);
        }
        for address in &reserved.addresses {
            self.by_address.insert(*address, seid);
            self.lengths.insert(address.1.len());
        }
        let node = self.number(absent.node);
        self.by_owner.insert((node, absent.cp), seid);
        match is_active {
            true => self.order.push_front(seid),
            false => self.order.push_back(seid),
        }
        self.sessions.insert(seid, reserved);
    }

    /// The number of a Node ID.
    fn number(&mut self, node: &[u8]) -> u32 {
        let next = self.nodes.len() as u32;
        *self.nodes.entry_ref(node).or_insert(next)
    }

    /// All tunnels and all UE addresses, to be reserved.
    pub(crate) fn reserved(&self) -> (Vec<(LocalId, Teid)>, Vec<(VrfId, IpPrefix)>) {
        let tunnels = self.by_tunnel.keys().copied();
        let addresses = self.by_address.keys().copied();
        (tunnels.collect(), addresses.collect())
    }

    /// How many have not come.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether all have come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Whether this one has not come.
    pub(crate) fn has(&self, seid: Seid) -> bool {
        self.sessions.contains_key(&seid)
    }

    /// The session that a local F-TEID leads to.
    pub(crate) fn by_tunnel(&self, tunnel: (LocalId, Teid)) -> Option<Seid> {
        self.by_tunnel
            .get(&tunnel)
            .copied()
            .filter(|seid| self.has(*seid))
    }

    /// The session that a plain packet to this address reaches: that of the longest prefix around it.
    pub(crate) fn by_address(&self, vrf: VrfId, address: IpAddr) -> Option<Seid> {
        let at = |len: &u8| {
            let prefix = IpPrefix::new(address, *len)?;
            self.by_address.get(&(vrf, prefix)).copied()
        };
        self.lengths
            .iter()
            .rev()
            .filter_map(at)
            .find(|seid| self.has(*seid))
    }

    /// The session that the peer with this Node ID has under this F-SEID.
    pub(crate) fn by_owner(&self, node: &[u8], cp: CpFSeid) -> Option<Seid> {
        let node = self.nodes.get(node)?;
        self.by_owner
            .get(&(*node, cp))
            .copied()
            .filter(|seid| self.has(*seid))
    }

    /// The next one that is to come without a reason.
    pub(crate) fn next(&mut self) -> Option<Seid> {
        while let Some(seid) = self.order.pop_front() {
            if self.has(seid) {
                return Some(seid);
            }
        }
        None
    }

    /// Takes a session out, with what it has reserved and its record, if that can be read.
    pub(crate) fn take(&mut self, seid: Seid) -> Option<(Reserved, Option<StoredSession>)> {
        let reserved = self.sessions.remove(&seid)?;
        for tunnel in &reserved.tunnels {
            self.by_tunnel.remove(tunnel);
        }
        for address in &reserved.addresses {
            self.by_address.remove(address);
        }
        Some((reserved, self.records.read(seid)))
    }
}
