//! Events and usage of sessions that are to be reported, kept until the control plane has acknowledged them
//! (TS 29.244 §6.3.5, §6.4).
//!
//! A session has one Session Report Request outstanding at a time; later events are collected, and sent in one message
//! after the response. The rates of reports of a session and to an association, and the number of outstanding requests
//! to an association, are limited; associations take turns. Equal events are merged, and an event is counted and
//! dropped when its session's list is full. A report without a response is sent again for as long as its session lives.
//!
//! This module knows neither messages nor addresses; see [`session_reports`](crate::session_reports).

use flow::{Nanos, TokenLevel};
use packet::Teid;
use pfcp::ie::QueryUrrReference;
use rules::image::DataStatus;
use rules::model::{PdrId, UrrId};
use session::{AssociationId, Keyed, Seid, UsageReport, keyed};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use crate::config::ReportLimits;
use crate::usage_report_ies::answers_query;

/// Something about a session that is reported to its control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// Downlink packets have come for a PDR whose FAR buffers or drops, and notifies (DLDR, TS 29.244 §7.5.8.2).
    DownlinkData(DownlinkData),
    /// No packet has come for as long as the User Plane Inactivity Timer says (UPIR, §5.11.2).
    Inactivity,
    /// A peer has no such tunnel any more (ERIR, §7.5.8.4).
    ErrorIndication {
        /// The peer.
        peer: IpAddr,
        /// Its tunnel endpoint.
        teid: Teid,
    },
    /// Usage of a URR (USAR, §7.5.8.3). Usage of the same URR for the same reason that follows on one that has not been
    /// sent yet is added to it; what has been sent once stays as it is, since the peer may know it by its number.
    Usage(UsageReport),
}

/// The packet that a Downlink Data Report is about (TS 29.244 §7.5.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownlinkData {
    /// The PDR that it matched.
    pub pdr: PdrId,
    /// Paging Policy Indication: its DSCP, 0 to 63.
    pub ppi: Option<u8>,
    /// Its QoS flow.
    pub qfi: Option<packet::Qfi>,
    /// What became of it, where the control plane follows the delivery status (§5.28.1).
    pub status: Option<DataStatus>,
}

/// Downlink Data and Error Indications of one session that are kept; more are counted and dropped.
const MOST_OF_A_KIND: usize = 16;
/// Usage reports of one session that are kept; more become one for each URR. Usage is never dropped.
const MOST_USAGE: usize = 128;
/// Usage reports in one message, which must fit into a datagram.
pub(crate) const MOST_USAGE_SENT: usize = 32;

/// A peer's tunnel endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemoteTunnel {
    pub(crate) peer: IpAddr,
    pub(crate) teid: Teid,
}

/// A usage report that answers a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueriedReport {
    pub(crate) urr: UrrId,
    pub(crate) sequence: u32,
    pub(crate) query: QueryUrrReference,
}

/// What there is to report about one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events {
    pub(crate) downlink: Vec<DownlinkData>,
    pub(crate) inactive: bool,
    pub(crate) errors: Vec<RemoteTunnel>,
    pub(crate) usage: Vec<UsageReport>,
    /// The number of these, from the first, that have been sent or announced: nothing is added to them.
    pub(crate) settled: usize,
    /// The queries that some of them answer.
    pub(crate) queries: Vec<QueriedReport>,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// It waits for its turn.
    Kept,
    /// It is one with an event that waits, or that is on its way.
    Merged,
    /// It is one with usage that waits, and its number is to be given again.
    Absorbed,
    /// There is no room for it.
    Dropped,
}

impl Events {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Events::default()
    }

    /// Whether the event is among these. Usage never is: each report is an event of its own.
    fn has(&self, event: &SessionEvent) -> bool {
        match event {
            SessionEvent::DownlinkData(data) => self.downlink.contains(data),
            SessionEvent::Inactivity => self.inactive,
            SessionEvent::ErrorIndication { peer, teid } => self.errors.contains(&RemoteTunnel {
                peer: *peer,
                teid: *teid,
            }),
            SessionEvent::Usage(_) => false,
        }
    }

    fn add(&mut self, event: SessionEvent) -> Added {
        if self.has(&event) {
            return Added::Merged;
        }
        match event {
            SessionEvent::DownlinkData(data) => push(&mut self.downlink, data, MOST_OF_A_KIND),
            SessionEvent::ErrorIndication { peer, teid } => {
                push(&mut self.errors, RemoteTunnel { peer, teid }, MOST_OF_A_KIND)
            }
            SessionEvent::Inactivity => {
                self.inactive = true;
                Added::Kept
            }
            SessionEvent::Usage(report) => self.add_usage(report),
        }
    }

    fn add_usage(&mut self, report: UsageReport) -> Added {
        let is_full = self.usage.len() >= MOST_USAGE;
        let open = self.usage.get_mut(self.settled..).unwrap_or_default();
        let last = open.iter_mut().rfind(|one| one.urr == report.urr);
        if last.is_some_and(|last| last.absorb(&report) || is_full && last.merge(&report)) {
            return Added::Absorbed;
        }
        self.usage.push(report);
        Added::Kept
    }

    /// Takes reports that a response has announced: their number stays.
    fn follow(&mut self, reports: &[UsageReport], query: Option<QueryUrrReference>) {
        self.usage.extend_from_slice(reports);
        self.settled = self.usage.len();
        if let Some(query) = query {
            let of = reports.iter().filter(|report| answers_query(report));
            self.queries.extend(of.map(|report| QueriedReport {
                urr: report.urr,
                sequence: report.sequence,
                query,
            }));
        }
    }

    /// The query that one of these reports answers.
    pub(crate) fn query(&self, report: &UsageReport) -> Option<QueryUrrReference> {
        let mut queries = self.queries.iter();
        let of = queries.find(|one| (one.urr, one.sequence) == (report.urr, report.sequence));
        of.map(|one| one.query)
    }

    /// Takes what goes into one message.
    fn take(&mut self) -> Events {
        let rest = self.usage.split_off(self.usage.len().min(MOST_USAGE_SENT));
        let usage = std::mem::replace(&mut self.usage, rest);
        self.settled = self.settled.saturating_sub(usage.len());
        let is_sent = |query: &QueriedReport| {
            usage
                .iter()
                .any(|one| (one.urr, one.sequence) == (query.urr, query.sequence))
        };
        let (queries, others) = std::mem::take(&mut self.queries).into_iter().partition(is_sent);
        self.queries = others;
        // A message has one Downlink Data Report, and that one status.
        let status = self.downlink.first().and_then(|data| data.status);
        let (downlink, rest) = std::mem::take(&mut self.downlink)
            .into_iter()
            .partition(|data| data.status == status);
        self.downlink = rest;
        Events {
            settled: usage.len(),
            queries,
            usage,
            downlink,
            inactive: std::mem::take(&mut self.inactive),
            errors: std::mem::take(&mut self.errors),
        }
    }

    /// Takes back what was sent in vain.
    fn put_back(&mut self, mut sent: Events) {
        self.settled += sent.usage.len();
        sent.usage.append(&mut self.usage);
        self.usage = sent.usage;
        self.queries.append(&mut sent.queries);
        self.inactive |= sent.inactive;
        // What was sent in vain comes first again, so that a status does not overtake an older one.
        self.downlink.retain(|data| !sent.downlink.contains(data));
        sent.downlink.append(&mut self.downlink);
        self.downlink = sent.downlink;
        sent.errors.retain(|remote| !self.errors.contains(remote));
        self.errors.append(&mut sent.errors);
    }
}

/// Whether an entry of a line is not void.
fn is_queued(sessions: &Keyed<Seid, Pending>, (seid, entry): (Seid, u64)) -> bool {
    let pending = sessions.get(&seid);
    pending.is_some_and(|pending| matches!(pending.stage, Stage::Queued(own) if own == entry))
}

fn push<T>(list: &mut Vec<T>, item: T, most: usize) -> Added {
    if list.len() >= most {
        return Added::Dropped;
    }
    list.push(item);
    Added::Kept
}

/// Where a session's reports stand.
#[derive(Debug)]
enum Stage {
    /// Nothing before this moment; it is among `waiting`.
    Waits(Nanos),
    /// In its association's line, in the entry with this number.
    Queued(u64),
    /// On its way.
    Sent(Events),
}

#[derive(Debug)]
struct Pending {
    association: AssociationId,
    events: Events,
    rate: TokenLevel,
    stage: Stage,
    attempt: Attempt,
    /// Where it was sent last, and under which number.
    request: Option<(SocketAddr, u32)>,
}

/// Usage that is on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentUsage<'a> {
    pub(crate) seid: Seid,
    pub(crate) association: AssociationId,
    pub(crate) usage: &'a [UsageReport],
    /// Where it was sent, and under which number.
    pub(crate) request: (SocketAddr, u32),
}

/// Which of the ways to a control plane a session's report takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// How many ways have failed.
    pub(crate) number: usize,
    /// Where the last answer sent it.
    pub(crate) redirected_to: Option<IpAddr>,
    /// How often answers have sent it elsewhere.
    redirections: u8,
}

/// How often a report follows a redirection.
const MOST_REDIRECTIONS: u8 = 4;

/// The sessions of one association whose turn to report has come.
#[derive(Debug, Default)]
struct Line {
    /// Each with the number of its entry; one whose session is not queued under it is void.
    ready: VecDeque<(Seid, u64)>,
    /// How many of them are void.
    void: usize,
    rate: TokenLevel,
    /// Requests on their way.
    sent: usize,
    /// Whether it is among `turns` or `paused`.
    is_up: bool,
}

/// Reports of all sessions.
#[derive(Debug)]
pub(crate) struct ReportOutbox {
    limits: ReportLimits,
    sessions: Keyed<Seid, Pending>,
    lines: BTreeMap<AssociationId, Line>,
    /// Lines that may send, in turn.
    turns: VecDeque<AssociationId>,
    /// Lines that may send from a moment on.
    paused: BTreeSet<(Nanos, AssociationId)>,
    /// Sessions that may report from a moment on, or that may then be forgotten.
    waiting: BTreeSet<(Nanos, Seid)>,
    /// The number of the last entry in a line.
    last_entry: u64,
}

impl ReportOutbox {
    pub(crate) fn new(seed: u64, limits: ReportLimits) -> ReportOutbox {
        ReportOutbox {
            limits,
            sessions: keyed(seed),
            lines: BTreeMap::new(),
            turns: VecDeque::new(),
            paused: BTreeSet::new(),
            waiting: BTreeSet::new(),
            last_entry: 0,
        }
    }

    /// Takes an event of a session of this association.
    pub(crate) fn add(
        &mut self,
        now: Nanos,
        seid: Seid,
        association: AssociationId,
        event: SessionEvent,
    ) -> Added {
        let pending = self.of(seid, association);
        if matches!(&pending.stage, Stage::Sent(sent) if sent.has(&event)) {
            return Added::Merged;
        }
        let was_empty = pending.events.is_empty();
        let added = pending.events.add(event);
        if was_empty && matches!(pending.stage, Stage::Waits(_)) {
            self.schedule(now, seid);
        }
        added
    }

    /// Takes reports of a session of this association that a response has announced, as reports for
    /// `query`.
    pub(crate) fn follow(
        &mut self,
        now: Nanos,
        seid: Seid,
        association: AssociationId,
        reports: &[UsageReport],
        query: Option<QueryUrrReference>,
    ) {
        if reports.is_empty() {
            return;
        }
        let pending = self.of(seid, association);
        let was_empty = pending.events.is_empty();
        pending.events.follow(reports, query);
        if was_empty && matches!(pending.stage, Stage::Waits(_)) {
            self.schedule(now, seid);
        }
    }

    fn of(&mut self, seid: Seid, association: AssociationId) -> &mut Pending {
        self.sessions.entry(seid).or_insert_with(|| Pending {
            association,
            events: Events::default(),
            rate: TokenLevel::default(),
            stage: Stage::Waits(Nanos::MAX),
            attempt: Attempt::default(),
            request: None,
        })
    }

    /// Takes over what another process had to report of a session, under the numbers that it has got.
    pub(crate) fn restore(&mut self, now: Nanos, seid: Seid, association: AssociationId, events: Events) {
        if events.is_empty() {
            return;
        }
        let pending = self.of(seid, association);
        pending.events.put_back(events);
        if matches!(pending.stage, Stage::Waits(_)) {
            self.schedule(now, seid);
        }
    }

    /// A session belongs to another association from now on: what is to be reported of it is in that one's queue.
    pub(crate) fn hand_over(&mut self, seid: Seid, to: AssociationId) {
        let Some(pending) = self.sessions.get_mut(&seid).filter(|one| one.association != to) else {
            return;
        };
        let from = std::mem::replace(&mut pending.association, to);
        match pending.stage {
            Stage::Waits(_) => {}
            Stage::Queued(_) => {
                self.queue(seid);
                self.void_one(from);
            }
            Stage::Sent(_) => {
                if let Some(line) = self.lines.get_mut(&from) {
                    line.sent = line.sent.saturating_sub(1);
                }
                self.lines.entry(to).or_default().sent += 1;
            }
        }
        self.turn(from);
        self.turn(to);
    }

    /// Puts a session at the end of its association's line.
    fn queue(&mut self, seid: Seid) {
        if let Some(pending) = self.sessions.get_mut(&seid) {
            self.last_entry += 1;
            pending.stage = Stage::Queued(self.last_entry);
            let line = self.lines.entry(pending.association).or_default();
            line.ready.push_back((seid, self.last_entry));
        }
    }

    /// An entry of a line is void. When most of them are, they are thrown out: of each so often as it takes one of them
    /// to become void.
    fn void_one(&mut self, association: AssociationId) {
        let Some(line) = self.lines.get_mut(&association) else {
            return;
        };
        line.void += 1;
        if line.void * 2 > line.ready.len() {
            let sessions = &self.sessions;
            line.ready.retain(|entry| is_queued(sessions, *entry));
            line.void = 0;
        }
    }

    /// The next session that is to send what [`take`](Self::take) gives.
    pub(crate) fn poll(&mut self, now: Nanos) -> Option<Seid> {
        self.wake(now);
        while let Some(association) = self.turns.pop_front() {
            let limits = self.limits;
            let Some(line) = self.lines.get_mut(&association) else {
                continue;
            };
            line.is_up = false;
            if line.ready.is_empty() || line.sent >= limits.window {
                continue;
            }
            let ready_at = line.rate.ready_at(limits.association);
            if ready_at > now {
                line.is_up = true;
                self.paused.insert((ready_at, association));
                continue;
            }
            let next = line.ready.pop_front();
            let valid = next.filter(|entry| is_queued(&self.sessions, *entry));
            if valid.is_none() {
                line.void = line.void.saturating_sub(1);
            }
            self.turn(association);
            if let Some((seid, _)) = valid {
                return Some(seid);
            }
        }
        None
    }

    /// What a session that [`poll`](Self::poll) has named is to send now; the result is given to
    /// [`acknowledged`](Self::acknowledged) and [`failed`](Self::failed).
    pub(crate) fn take(&mut self, now: Nanos, seid: Seid) -> Option<Events> {
        let pending = self.sessions.get_mut(&seid)?;
        let events = pending.events.take();
        pending.rate.spend(self.limits.session, now);
        pending.stage = Stage::Sent(events.clone());
        if let Some(line) = self.lines.get_mut(&pending.association) {
            line.rate.spend(self.limits.association, now);
            line.sent += 1;
        }
        Some(events)
    }

    /// What a session is to send was sent there, under this number.
    pub(crate) fn sent_as(&mut self, seid: Seid, request: (SocketAddr, u32)) {
        if let Some(pending) = self.sessions.get_mut(&seid) {
            pending.request = Some(request);
        }
    }

    /// The usage of a session that is on its way.
    pub(crate) fn sent_usage(&self, seid: Seid) -> Option<SentUsage<'_>> {
        let pending = self.sessions.get(&seid)?;
        let Stage::Sent(sent) = &pending.stage else {
            return None;
        };
        Some(SentUsage {
            seid,
            association: pending.association,
            usage: &sent.usage,
            request: pending.request?,
        })
    }

    /// The control plane has answered what the session had sent: that, and the association that it belongs or belonged
    /// to.
    pub(crate) fn acknowledged(&mut self, now: Nanos, seid: Seid) -> Option<(AssociationId, Events)> {
        let sent = self.landed(seid)?;
        let pending = self.sessions.get_mut(&seid)?;
        pending.attempt = Attempt::default();
        let association = pending.association;
        self.schedule(now, seid);
        Some((association, sent))
    }

    /// The association that a session with something to report belongs or belonged to.
    pub(crate) fn association(&self, seid: Seid) -> Option<AssociationId> {
        self.sessions.get(&seid).map(|pending| pending.association)
    }

    /// Which way a session's report takes now.
    pub(crate) fn attempt(&self, seid: Seid) -> Attempt {
        self.sessions
            .get(&seid)
            .map(|pending| pending.attempt)
            .unwrap_or_default()
    }

    /// There is no response: the report is sent by the next of `ways` routes, or later by the first.
    pub(crate) fn failed(&mut self, now: Nanos, seid: Seid, ways: usize) {
        let number = self.attempt(seid).number + 1;
        let (at, number) = if number < ways {
            (now, number)
        } else {
            (now + self.limits.retry, 0)
        };
        let attempt = Attempt {
            number,
            ..Attempt::default()
        };
        self.again(at, seid, attempt);
    }

    /// The control plane has named another: the same is to be reported there. Answers whether it is, which it is not
    /// when it has been sent on too often.
    pub(crate) fn redirected(&mut self, now: Nanos, seid: Seid, to: IpAddr) -> bool {
        let before = self.attempt(seid);
        let goes_on = before.redirections < MOST_REDIRECTIONS;
        if goes_on {
            let attempt = Attempt {
                redirected_to: Some(to),
                redirections: before.redirections + 1,
                ..before
            };
            self.again(now, seid, attempt);
        }
        goes_on
    }

    fn again(&mut self, at: Nanos, seid: Seid, attempt: Attempt) {
        let Some(sent) = self.landed(seid) else {
            return;
        };
        if let Some(pending) = self.sessions.get_mut(&seid) {
            pending.attempt = attempt;
            pending.events.put_back(sent);
            pending.stage = Stage::Waits(at);
            self.waiting.insert((at, seid));
        }
    }

    fn landed(&mut self, seid: Seid) -> Option<Events> {
        let pending = self.sessions.get_mut(&seid)?;
        let Stage::Sent(sent) = &mut pending.stage else {
            return None;
        };
        let sent = std::mem::take(sent);
        pending.stage = Stage::Waits(Nanos::MAX);
        let association = pending.association;
        if let Some(line) = self.lines.get_mut(&association) {
            line.sent = line.sent.saturating_sub(1);
        }
        self.turn(association);
        Some(sent)
    }

    /// What of a session has not been acknowledged: what is on its way before what waits.
    pub(crate) fn unsaid(&self, seid: Seid) -> Events {
        let Some(pending) = self.sessions.get(&seid) else {
            return Events::default();
        };
        let mut all = pending.events.clone();
        if let Stage::Sent(sent) = &pending.stage {
            all.put_back(sent.clone());
        }
        all
    }

    /// A session has ended. Answers what of it had not been sent, and whether usage is on its way.
    pub(crate) fn end(&mut self, seid: Seid) -> (Events, bool) {
        let Some(pending) = self.sessions.get_mut(&seid) else {
            return Default::default();
        };
        let rest = std::mem::take(&mut pending.events);
        if let Stage::Sent(sent) = &pending.stage {
            // Its request is still retransmitted.
            return (rest, !sent.usage.is_empty());
        }
        let (stage, association) = (&pending.stage, pending.association);
        let is_queued = matches!(stage, Stage::Queued(_));
        if let Stage::Waits(at) = *stage {
            self.waiting.remove(&(at, seid));
        }
        self.sessions.remove(&seid);
        if is_queued {
            self.void_one(association);
        }
        (rest, false)
    }

    /// An association has ended, and its sessions with it. Gives what was to be reported of those that had something.
    pub(crate) fn end_association(&mut self, association: AssociationId) -> Vec<(Seid, Events)> {
        self.lines.remove(&association);
        self.paused.retain(|(_, other)| *other != association);
        let waiting = &mut self.waiting;
        let mut unsaid = Vec::new();
        self.sessions.retain(|seid, pending| {
            if pending.association != association {
                return true;
            }
            let mut events = std::mem::take(&mut pending.events);
            match &mut pending.stage {
                Stage::Waits(at) => drop(waiting.remove(&(*at, *seid))),
                Stage::Queued(_) => {}
                Stage::Sent(sent) => events.put_back(std::mem::take(sent)),
            }
            if !events.is_empty() {
                unsaid.push((*seid, events));
            }
            false
        });
        unsaid
    }

    /// When [`poll`](Self::poll) may have something that it has not now.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        let session = self.waiting.first().map(|(at, _)| *at);
        let line = self.paused.first().map(|(at, _)| *at);
        [session, line].into_iter().flatten().min()
    }

    /// Sessions with something to report, or of which it is remembered that they have reported of late.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Moves what has waited long enough.
    fn wake(&mut self, now: Nanos) {
        while let Some((_, association)) = self.paused.first().copied().filter(|(at, _)| *at <= now) {
            self.paused.pop_first();
            self.turns.push_back(association);
        }
        while let Some((_, seid)) = self.waiting.first().copied().filter(|(at, _)| *at <= now) {
            self.waiting.pop_first();
            self.schedule(now, seid);
        }
    }

    /// Finds a session that has nothing on its way its next stage.
    fn schedule(&mut self, now: Nanos, seid: Seid) {
        let Some(pending) = self.sessions.get_mut(&seid) else {
            return;
        };
        if let Stage::Waits(at) = pending.stage {
            self.waiting.remove(&(at, seid));
        }
        let wanted = if pending.events.is_empty() {
            pending.rate.full_at()
        } else {
            pending.rate.ready_at(self.limits.session)
        };
        if wanted > now {
            pending.stage = Stage::Waits(wanted);
            self.waiting.insert((wanted, seid));
        } else if pending.events.is_empty() {
            self.sessions.remove(&seid);
        } else {
            let association = pending.association;
            self.queue(seid);
            self.turn(association);
        }
    }

    /// Puts a line that may send among those that do.
    fn turn(&mut self, association: AssociationId) {
        let window = self.limits.window;
        if let Some(line) = self.lines.get_mut(&association)
            && !line.is_up
            && !line.ready.is_empty()
            && line.sent < window
        {
            line.is_up = true;
            self.turns.push_back(association);
        }
    }
}

#[cfg(test)]
mod tests;
