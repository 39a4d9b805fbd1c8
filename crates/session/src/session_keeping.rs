//! What of sessions is kept beyond the process: which have changed, what is to be kept of them, what they have counted
//! since, and what is reserved for those that are yet to come back.

use flow::{Nanos, SessionIndex, UrrCount};
use rules::image::PacketsLeft;
use rules::model::UrrId;

use crate::all_at_once::all_at_once;
use crate::change_context::ChangeContext;
use crate::export::record;
use crate::ids::{AssociationId, Seid};
use crate::record::{KeptSession, PacketsProgress, SessionProgress, SessionRecord};
use crate::resources::ABSENT;
use crate::sessions::Sessions;
use crate::tunnels::Tunnel;
use crate::ue_addresses::UeAddress;

impl Sessions {
    /// From now on changes of sessions are marked, for [`poll_changed`](Self::poll_changed).
    pub fn begin_marking(&mut self) {
        self.requests.context.journal.begin();
    }

    /// Marks a session as changed by what its requester knows of it.
    pub fn mark(&mut self, seid: Seid) {
        self.requests.context.journal.mark(seid);
    }

    /// The next session that has changed or ended since it was last given.
    pub fn poll_changed(&mut self) -> Option<Seid> {
        self.requests.context.journal.poll()
    }

    /// How many changes there have been: those that are given, and those that are not.
    pub fn changes(&self) -> u64 {
        self.requests.context.journal.marks()
    }

    /// The association that a session belongs to, and the session to be kept, without what its worker has counted since
    /// the last report. The record's association and pending reports are the caller's to fill in. `None` where the
    /// session is not live.
    pub fn to_keep(&self, seid: Seid) -> Option<(AssociationId, KeptSession)> {
        let ChangeContext {
            table, port_blocks, ..
        } = &self.requests.context;
        let session = table.get(table.seids.get(seid)?)?;
        let record = || SessionRecord {
            port_blocks: port_blocks.blocks_of(session.index).collect(),
            ..record(session, &[])
        };
        let is_live = !session.live.rules.pdrs().is_empty() || session.accounting.since.get().is_some();
        let kept = || KeptSession {
            record: record(),
            tunnels: session.live.tunnels.get().into_vec(),
            addresses: session.live.addresses.get().into_vec(),
        };
        is_live.then(|| (session.association, kept()))
    }

    /// What a session's URRs have measured that is not reported, by these counts of its worker's slots, and what is
    /// left of its packet rates. `None` while they cannot be compared: a change is in progress, or its bucket moves.
    pub fn progress(
        &self,
        index: SessionIndex,
        counts: impl Iterator<Item = (UrrId, UrrCount)>,
        left: impl Iterator<Item = PacketsLeft>,
    ) -> Option<(Seid, SessionProgress)> {
        let session = self.requests.context.table.get(index)?;
        let is_comparable = !session.is_dying() && !session.is_in_between();
        let rates = |qer| session.live.rules.qer(qer)?.optional.packet_rates;
        let packets = |left: PacketsLeft| rates(left.qer).map(|rates| PacketsProgress { rates, left });
        let progress = || SessionProgress {
            urrs: counts
                .filter_map(|(urr, count)| session.usage.progress(urr, count))
                .collect(),
            packets: left.filter_map(packets).collect(),
        };
        is_comparable.then(|| (session.seid, progress()))
    }

    /// Keeps tunnels and UE addresses for sessions that are kept elsewhere and yet to come: no other session gets
    /// them. What a session holds stays its own. Done at once for all of very many sessions, it takes a tenth of the
    /// time.
    pub fn reserve_for_absent(&mut self, tunnels: &[Tunnel], addresses: &[UeAddress]) {
        let resources = &mut self.requests.context.resources;
        let (of_tunnels, of_addresses) = (&mut resources.tunnels, &mut resources.addresses);
        all_at_once([&mut || of_tunnels.give_free(tunnels, ABSENT), &mut || {
            of_addresses.give_free(addresses, ABSENT)
        }]);
    }

    /// No port blocks are given out while sessions are yet to come that hold some; or they are again.
    pub fn hold_port_blocks(&mut self, is_held: bool) {
        self.requests.context.port_blocks.wait(is_held);
    }

    /// Gives up what was reserved and has not been taken by its session.
    pub fn give_up_reserved(&mut self, now: Nanos, tunnels: &[Tunnel], addresses: &[UeAddress]) {
        let resources = &mut self.requests.context.resources;
        for tunnel in tunnels {
            resources.tunnels.release(now, *tunnel, ABSENT);
        }
        for address in addresses {
            resources.addresses.release(*address, ABSENT);
        }
    }
}
