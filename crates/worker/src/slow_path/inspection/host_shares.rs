//! The hosts that flows are for, and how much of their room the flows of each session have.
//!
//! All sessions share the room. Where none is left, a few records are looked at, and the one gives way whose session
//! has the most of it. Those of a session that has an eighth of it or more push out only its own ones.

use dpi::{HostName, PathStart};
use flow::slab::in_huge_pages;
use flow::{SessionIndex, prefetch};

use super::flow_records::{FlowRecords, RecordPlace};
use super::host_pool::{HostPlace, HostPool};

/// Records that give way for one host at most. Each makes room for a block, unless others are for its host, too.
const MOST_GIVE_WAY: usize = 12;
/// Records with a host that are compared.
const COMPARED: usize = 16;
/// Where no room is left, a session has this part of it at most, unless it has it already.
const PART: u32 = 8;
/// Records that are looked at for them at most: enough where a host has 64 records.
const LOOKED_AT: usize = 1_024;

/// The hosts of flows.
pub(super) struct HostShares {
    pub(super) pool: HostPool,
    /// Blocks by session, of all its records: a host counts for each.
    blocks: Box<[u32]>,
    /// Blocks with which a session pushes out no others.
    share: u32,
    /// Records that are looked at for some with a host.
    looked_at: usize,
}

impl HostShares {
    /// Room for this many blocks, for the flows of this many records. Sessions are numbers below `sessions`.
    pub(super) fn new(blocks: u32, records: u32, sessions: usize) -> Self {
        let records_of_block = records.div_ceil(blocks.max(1)) as usize;
        Self {
            pool: HostPool::new(blocks),
            blocks: in_huge_pages(if blocks > 0 { sessions } else { 0 }, |_| 0),
            share: blocks.div_ceil(PART),
            looked_at: (4 * COMPARED).saturating_mul(records_of_block).min(LOOKED_AT),
        }
    }

    /// Asks for how much a session has.
    pub(super) fn prefetch(&self, session: SessionIndex) {
        prefetch::nth_to_write(&self.blocks, session.index());
    }

    /// Counts one more flow that is for this, that of a record of this session; others give way for it. `None`: there
    /// is no room for another host.
    pub(super) fn take(
        &mut self,
        (record, session): (RecordPlace, SessionIndex),
        (host, path): (&HostName, Option<&PathStart>),
        records: &mut FlowRecords,
    ) -> Option<HostPlace> {
        for _ in 0..=MOST_GIVE_WAY {
            if let Some(place) = self.pool.take(host, path) {
                let blocks = self.pool.blocks_of(place);
                if let Some(own) = self.blocks.get_mut(session.index()) {
                    *own += blocks;
                }
                return Some(place);
            }
            let (other, theirs, place) = self.longest(records, record)?;
            if theirs != session && self.held(session) >= self.share {
                return None;
            }
            records.free(other);
            self.give_back(theirs, place);
        }
        None
    }

    /// One flow less of a session is for it.
    pub(super) fn give_back(&mut self, session: SessionIndex, place: HostPlace) {
        if let Some(own) = self.blocks.get_mut(session.index()) {
            *own = own.saturating_sub(self.pool.blocks_of(place));
        }
        self.pool.give_back(place);
    }

    /// Of some records with a host, one whose session has the most; not `except`.
    fn longest(
        &self,
        records: &mut FlowRecords,
        except: RecordPlace,
    ) -> Option<(RecordPlace, SessionIndex, HostPlace)> {
        let looked_at = (0..self.looked_at).filter_map(|_| records.next_with_host());
        let compared = looked_at.filter(|(record, ..)| *record != except).take(COMPARED);
        compared.max_by_key(|(_, session, _)| self.held(*session))
    }

    /// Blocks that a session has.
    fn held(&self, session: SessionIndex) -> u32 {
        self.blocks.get(session.index()).copied().unwrap_or_default()
    }
}
