//! What outlives the process, in control's hands: changes go to the store, counts of workers become checkpoints, and
//! sessions come back from it.

use std::sync::Arc;

use flow::{Nanos, WorkerId};
use n4::{AbsentSessions, Endpoint, ImportError, SessionKey};
use rules::network::Network;
use session::{Export, ResponseRecord, Seid, UnacknowledgedUsage, WallClock};
use worker::{AbsentKey, COUNTS_BUFFERS, Command, SessionCount};

use super::session_store::{Restored, SessionKeeper, SessionStore};
use super::workers::Workers;

/// Counts that a worker puts into one event.
const COUNTS_ROOM: usize = 256;

/// Sessions that are kept beyond the process ([`Control::session_keeping`](crate::Control::session_keeping)).
pub struct SessionKeeping<'a> {
    pub(super) endpoint: &'a mut Endpoint,
    pub(super) workers: &'a mut Workers,
    pub(super) network: &'a Arc<Network>,
    pub(super) keeper: &'a mut Option<SessionKeeper>,
    pub(super) now: Nanos,
}

impl SessionKeeping<'_> {
    /// Moments have the dates that they had in the process before, and durations are what they would have been there
    /// although the host's clock was stepped meanwhile. Before anything comes back.
    pub fn resume_wall(&mut self, wall: WallClock) {
        self.endpoint.resume_wall(wall);
    }

    /// Keeps the node, its associations, applications and sessions in `store` from now on. Peers receive nothing of a
    /// change before the store has it.
    pub fn begin(&mut self, store: Box<dyn SessionStore>) {
        *self.keeper = Some(SessionKeeper::new(store, self.endpoint, self.network));
        for worker in 0..self.workers.count() {
            for _ in 0..COUNTS_BUFFERS {
                let room = Command::CountsRoom(Vec::with_capacity(COUNTS_ROOM));
                self.workers.send(WorkerId(worker as u16), room);
            }
        }
    }

    /// Has sessions come back that the store had: as packets and requests for them come, and otherwise one after the
    /// other. As many more as `unlisted` come by [`restore_rest`](Self::restore_rest), and requests wait for that.
    /// Their node and associations are imported already
    /// ([`SessionTransfer::import_all`](crate::SessionTransfer::import_all)).
    pub fn restore(&mut self, first: AbsentSessions, unlisted: usize) {
        if let Some(keeper) = self.keeper {
            keeper.begin_restoring(self.endpoint, first, unlisted);
            self.workers
                .send_all(|| Command::Restoring { is_restoring: true });
        }
    }

    /// All other sessions that the store had.
    pub fn restore_rest(&mut self, rest: AbsentSessions) {
        if let Some(keeper) = self.keeper {
            keeper.restore_rest(self.now, self.endpoint, rest);
        }
    }

    /// Responses to deletions that the store had. To be called when all sessions are listed.
    pub fn restore_responses(&mut self, responses: Vec<ResponseRecord>) {
        self.endpoint.restore_responses(self.now, responses);
    }

    /// Usage of sessions that are gone, which the store had since it was not acknowledged. To be called when all
    /// sessions are listed.
    pub fn restore_last_usage(&mut self, usage: Vec<UnacknowledgedUsage>) {
        self.endpoint.restore_last_usage(self.now, usage);
    }

    /// How many sessions the store had that are yet to come back, and what has come back.
    #[must_use]
    pub fn restored(&self) -> (usize, Restored) {
        let restored = self.keeper.as_ref().map(SessionKeeper::restored);
        (self.endpoint.absent(), restored.unwrap_or_default())
    }

    /// A session that the store had and that could not come back, for the log.
    pub fn poll_failure(&mut self) -> Option<(Seid, ImportError)> {
        self.keeper.as_mut()?.poll_failure()
    }

    /// Begins to keep all sessions with all that they have counted, for a planned stop: peers receive nothing more, and
    /// see no end of their associations. Over when [`has_kept_all`](Self::has_kept_all).
    pub fn begin_keeping_all(&mut self) {
        self.endpoint.begin_transfer();
        self.endpoint.export_all(self.now, Export::Copy);
    }

    /// Whether all sessions are kept, and durable.
    pub fn has_kept_all(&mut self) -> bool {
        let Some(keeper) = self.keeper else {
            return true;
        };
        while keeper.has_room()
            && let Some(exported) = self.endpoint.poll_exported(self.now)
        {
            if let Ok(octets) = exported.record {
                keeper.put_exported(self.endpoint, self.network, exported.seid, &octets);
            }
        }
        !self.endpoint.is_exporting() && keeper.is_settled(self.endpoint)
    }

    /// Checkpoints of what sessions have counted in a worker, which gets the list back with what was not taken.
    pub(super) fn keep_counts(&mut self, worker: usize, mut counts: Vec<SessionCount>) {
        if let Some(keeper) = self.keeper {
            keeper.put_counts(self.endpoint, &mut counts);
            self.workers
                .send(WorkerId(worker as u16), Command::CountsRoom(counts));
        }
    }

    /// A packet has come for no session: for one that is yet to be restored, perhaps.
    pub(super) fn restore_for(&mut self, key: AbsentKey) {
        let key = match key {
            AbsentKey::Tunnel(local, teid) => SessionKey::Tunnel(local, teid),
            AbsentKey::Address(vrf, address) => SessionKey::Address(vrf, address),
        };
        if let Some(keeper) = self.keeper {
            keeper.restore_for(self.now, self.endpoint, key);
        }
    }

    /// Has some more sessions come back, and gives the store what has changed. Whether there was anything.
    pub(super) fn poll(&mut self) -> bool {
        let Some(keeper) = self.keeper else {
            return false;
        };
        let mut busy = false;
        if keeper.is_restoring() && self.workers.has_room() {
            busy |= keeper.restore_some(self.now, self.endpoint);
            if !keeper.is_restoring() {
                self.workers
                    .send_all(|| Command::Restoring { is_restoring: false });
            }
        }
        busy | keeper.poll(self.endpoint, self.network)
    }
}
