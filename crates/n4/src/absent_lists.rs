//! All sessions that are yet to come from a store: those that have traffic are listed first, so that their packets wait
//! for nothing else, and the others while these come.

use flow::{LocalId, VrfId};
use packet::Teid;
use session::{CpFSeid, Seid};
use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::absent_sessions::{AbsentSessions, RecordFault, Reserved, StoredSession};

/// The most keys of packets that are kept until all sessions are listed. Packets repeat those that have no room.
const MOST_UNLISTED: usize = 1024;

/// What leads to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionKey {
    /// A G-PDU to one of our addresses.
    Tunnel(LocalId, Teid),
    /// A plain packet to a UE's address.
    Address(VrfId, IpAddr),
}

/// The lists.
#[derive(Default)]
pub(crate) struct AbsentLists {
    lists: Vec<AbsentSessions>,
    /// How many are to be listed.
    unlisted: usize,
    /// What packets have come for that is in no list yet.
    keys: BTreeSet<SessionKey>,
}

impl AbsentLists {
    /// The first list, and how many sessions are not in it.
    pub(crate) fn begin(first: AbsentSessions, unlisted: usize) -> Self {
        Self {
            lists: vec![first],
            unlisted,
            keys: BTreeSet::new(),
        }
    }

    /// All others are in this list. Gives what packets have come for meanwhile.
    pub(crate) fn complete(&mut self, rest: AbsentSessions) -> BTreeSet<SessionKey> {
        self.lists.extend(Some(rest).filter(|rest| !rest.is_empty()));
        self.unlisted = 0;
        std::mem::take(&mut self.keys)
    }

    /// Whether some are in no list yet.
    pub(crate) fn is_listing(&self) -> bool {
        self.unlisted > 0
    }

    /// Whether none is to come: all have, and [`next`](Self::next) has found that.
    pub(crate) fn is_over(&self) -> bool {
        self.lists.is_empty() && !self.is_listing()
    }

    /// How many have not come.
    pub(crate) fn len(&self) -> usize {
        let listed: usize = self.lists.iter().map(AbsentSessions::len).sum();
        self.unlisted + listed
    }

    /// Whether this one is listed, and has not come.
    pub(crate) fn has(&self, seid: Seid) -> bool {
        self.lists.iter().any(|list| list.has(seid))
    }

    /// The listed session that a packet is for. Where there is none, and some are in no list yet, the key is kept.
    pub(crate) fn by_key(&mut self, key: SessionKey) -> Option<Seid> {
        let lists = self.lists.iter();
        let found = match key {
            SessionKey::Tunnel(local, teid) => lists.rev().find_map(|list| list.by_tunnel((local, teid))),
            SessionKey::Address(vrf, address) => self.by_address(vrf, address),
        };
        if found.is_none() && self.is_listing() && self.keys.len() < MOST_UNLISTED {
            self.keys.insert(key);
        }
        found
    }

    fn by_address(&self, vrf: VrfId, address: IpAddr) -> Option<Seid> {
        let lists = self.lists.iter();
        let longest = lists
            .filter_map(|list| list.by_address(vrf, address))
            .max_by_key(|(len, _)| *len);
        longest.map(|(_, seid)| seid)
    }

    /// The listed session that the peer with this Node ID has under this F-SEID.
    pub(crate) fn by_owner(&self, node: &[u8], cp: CpFSeid) -> Option<Seid> {
        self.lists.iter().rev().find_map(|list| list.by_owner(node, cp))
    }

    /// The next listed one that is to come without a reason.
    pub(crate) fn next(&mut self) -> Option<Seid> {
        let next = self.lists.iter_mut().find_map(AbsentSessions::next);
        if next.is_none() && !self.is_listing() {
            self.lists.clear();
        }
        next
    }

    /// Takes a session out, with what it has reserved and its record, if that can be read.
    pub(crate) fn take(&mut self, seid: Seid) -> Option<(Reserved, Result<StoredSession, RecordFault>)> {
        self.lists.iter_mut().find_map(|list| list.take(seid))
    }
}
