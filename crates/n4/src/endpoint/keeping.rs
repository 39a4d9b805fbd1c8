//! What outlives the process: changes that are to be kept go out, messages wait for them, and after a start what was
//! kept comes back.

use flow::{Nanos, SessionIndex, UrrCount};
use rules::image::PacketsLeft;
use rules::model::UrrId;
use session::{ResponseRecord, Seid, SessionProgress, UnacknowledgedUsage, WallClock};

use super::Endpoint;
use crate::absent_lists::{AbsentLists, SessionKey};
use crate::absent_sessions::AbsentSessions;
use crate::journal::Kept;
use crate::node_records::octets_of;
use crate::report_outbox::ReportOutbox;
use crate::session_transfer::{ImportError, pending_of};

impl Endpoint {
    /// From now on changes are given by [`poll_kept`](Self::poll_kept), the node and all associations first, and
    /// messages that tell of changes wait until [`kept`](Self::kept) has their number.
    pub fn begin_keeping(&mut self) {
        self.shared.journal.begin();
        self.shared.sessions.begin_marking();
        self.shared.transactions.held_mut().begin();
    }

    /// How many changes there have been. All are given once [`poll_kept`](Self::poll_kept) gives no more.
    pub fn changes(&self) -> u64 {
        self.shared.changes()
    }

    /// The first `changes` changes survive this process: what waited for them may be sent.
    pub fn kept(&mut self, changes: u64) {
        self.shared.transactions.held_mut().kept(changes);
    }

    /// How many messages wait for changes to be kept.
    pub fn held(&self) -> usize {
        self.shared.transactions.held().len()
    }

    /// Whether what changes cannot be kept at present: requests that would change something are rejected with cause 77
    /// (System failure), but for deletions.
    pub fn set_keeping_fails(&mut self, fails: bool) {
        self.shared.keeping_fails = fails;
    }

    /// The next of what is to be kept, as it is now.
    pub fn poll_kept(&mut self) -> Option<Kept> {
        let shared = &mut self.shared;
        let next = shared
            .journal
            .poll(&shared.config, &shared.associations, &self.pfds.pfds);
        if next.is_some() {
            return next;
        }
        let seid = shared.sessions.poll_changed()?;
        let kept = self.session_kept(seid);
        if matches!(kept, Kept::Session { session: None, .. })
            && let Some(sent) = self.reporting.sessions.outbox.sent_usage(seid)
            && let Some(usage) = self.shared.keep_usage_on_its_way(sent)
        {
            self.shared.journal.give_next(kept);
            return Some(usage);
        }
        Some(kept)
    }

    fn session_kept(&self, seid: Seid) -> Kept {
        let outbox: &ReportOutbox = &self.reporting.sessions.outbox;
        let kept = self.shared.sessions.to_keep(seid);
        let session = kept.and_then(|(owner, mut kept)| {
            kept.record.association = octets_of(&self.shared.associations.get(owner)?.node);
            kept.record.pending = pending_of(outbox.unsaid(seid));
            kept.record.pending.response = self.shared.kept_responses.of(seid).cloned();
            Some(Box::new(kept))
        });
        Kept::Session { seid, session }
    }

    /// What a session has measured and not reported, by the counts of its worker's slots, and what is left of its
    /// packet rates.
    pub fn progress(
        &self,
        index: SessionIndex,
        counts: impl Iterator<Item = (UrrId, UrrCount)>,
        left: impl Iterator<Item = PacketsLeft>,
    ) -> Option<(Seid, SessionProgress)> {
        self.shared.sessions.progress(index, counts, left)
    }
}

impl Endpoint {
    /// Moments have the dates that they had in the process before: before anything comes back.
    pub fn resume_wall(&mut self, wall: WallClock) {
        self.shared.sessions.resume_wall(wall);
    }

    /// These sessions are to come, as they are needed and one after the other, and as many more as `unlisted`, which
    /// [`restore_rest`](Self::restore_rest) gives: requests wait for that. The node and the associations are here
    /// already. All that leads to them is numbered as in the network that is configured now.
    pub fn begin_restoring(&mut self, mut first: AbsentSessions, unlisted: usize) {
        self.reserve(&mut first);
        let is_restoring = !first.is_empty() || unlisted > 0;
        self.shared.is_restoring = is_restoring;
        self.shared.sessions.hold_port_blocks(is_restoring);
        self.absent = match is_restoring {
            true => AbsentLists::begin(first, unlisted),
            false => AbsentLists::default(),
        };
    }

    /// All other sessions that are to come. Gives what packets have come for meanwhile that was in no list.
    pub fn restore_rest(&mut self, mut rest: AbsentSessions) -> impl Iterator<Item = SessionKey> + use<> {
        self.reserve(&mut rest);
        self.absent.complete(rest).into_iter()
    }

    fn reserve(&mut self, absent: &mut AbsentSessions) {
        let (tunnels, addresses) = absent.reserved();
        self.shared.sessions.reserve_for_absent(&tunnels, &addresses);
    }

    /// Whether sessions are to come that are not known yet: requests are not served before
    /// [`restore_rest`](Self::restore_rest), and are better left where they wait.
    pub fn is_listing(&self) -> bool {
        self.absent.is_listing()
    }

    /// Responses of the process before to deletions of sessions: a peer that repeats such a request gets its response.
    /// Those that are older than a request is repeated are kept no more. To be called when the sessions have been
    /// entered that are to come: what was to end with a response may not have ended.
    pub fn restore_responses(&mut self, now: Nanos, responses: Vec<ResponseRecord>) {
        let (oldest_ms, mut over) = (self.shared.oldest_response_ms(now), Vec::new());
        for record in responses {
            let seid = Seid(record.seid);
            let has_come = self.shared.sessions.session(seid).is_some();
            if has_come || self.absent.has(seid) || record.unix_ms < oldest_ms {
                over.push(seid);
            } else {
                over.extend(self.shared.kept_responses.keep_deleted(now, seid));
                self.shared.transactions.restore(now, &record);
            }
        }
        self.shared.journal.responses_over(over);
    }

    /// Usage of sessions that are gone, which their control planes had not acknowledged: it goes to them again. To be
    /// called when the sessions have been entered that are to come: of one that has not ended, its record has the
    /// usage.
    pub fn restore_last_usage(&mut self, now: Nanos, all: Vec<UnacknowledgedUsage>) {
        let mut over = Vec::new();
        for usage in all {
            let (seid, part) = (usage.seid, usage.part);
            if self.shared.sessions.session(seid).is_some() || self.absent.has(seid) {
                over.push((seid, part));
            } else {
                over.extend(self.shared.kept_usage.keep((seid, part)));
                self.shared.kept_usage.restore(usage);
            }
        }
        self.shared.journal.usage_over(over);
        self.shared.send_usage_again(now);
    }

    /// How many sessions are yet to come.
    pub fn absent(&self) -> usize {
        self.absent.len()
    }

    /// Whether workers have yet to take sessions that have come.
    pub fn is_importing(&self) -> bool {
        self.session_transfer.is_importing()
    }

    /// A packet has come for a session that may be yet to come. Whether it is one, which comes now.
    ///
    /// # Errors
    /// Why it cannot come; it is gone then.
    pub fn restore_for(&mut self, now: Nanos, key: SessionKey) -> Result<bool, (Seid, ImportError)> {
        match self.absent.by_key(key) {
            Some(seid) => self.restore(now, seid).map(|()| true),
            None => Ok(false),
        }
    }

    /// Has the next session come without a packet or request for it. `None`: all have that are
    /// [listed](Self::is_listing).
    pub fn restore_next(&mut self, now: Nanos) -> Option<Result<Seid, (Seid, ImportError)>> {
        if let Some(seid) = self.absent.next() {
            return Some(self.restore(now, seid).map(|()| seid));
        }
        if self.absent.is_over() {
            self.shared.is_restoring = false;
            self.shared.sessions.hold_port_blocks(false);
        }
        None
    }

    fn restore(&mut self, now: Nanos, seid: Seid) -> Result<(), (Seid, ImportError)> {
        let restored = self.restoring().restore(now, seid);
        self.settle(now);
        restored.map_err(|error| (seid, error))
    }

    /// A session that a request was about, and why it could not come.
    pub fn poll_failed_restoration(&mut self) -> Option<(Seid, ImportError)> {
        self.failed_restorations.pop_front()
    }
}
