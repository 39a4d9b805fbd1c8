//! Downlink packets of FARs that buffer: when they are reported, and for how long the control plane wants no reports
//! (TS 29.244 §5.2.3.1, §5.2.4, §7.5.9).
//!
//! A worker reports the first packet of each QoS flow. With a Downlink Data Notification Delay in the BAR the report is
//! delayed, and is not sent if the FAR has stopped buffering meanwhile. After a response with a DL Buffering Duration
//! nothing is reported until the duration is over; then buffered packets are discarded, and the next packet is a first
//! one again. The packets themselves are buffered by the workers.

use std::collections::BTreeSet;
use std::time::Duration;

use flow::{Nanos, SessionIndex};
use pfcp::ie::PfcpSrRspFlags;
use pfcp::message::SessionReportResponse;
use rules::image::ImmediateActions;
use rules::model::{BarId, BarUpdate, Edit, FarId, Verb};
use session::{Changes, Keyed, Seid, SessionView, keyed};

use crate::endpoint_state::Shared;
use crate::report_outbox::DownlinkData;

/// The unit of a Downlink Data Notification Delay (TS 29.244 §8.2.28).
const DELAY_UNIT: Duration = Duration::from_millis(50);
/// How often it is looked whether a session that is quiet for longer is still there.
const REVISIT: Duration = Duration::from_secs(60);
/// Delayed notifications that are kept of one session; more are one with the last.
const MOST_DELAYED: usize = 16;

/// One session's part.
#[derive(Debug, Default)]
struct Waiting {
    /// Until when the control plane wants no word of downlink packets.
    quiet_until: Option<Nanos>,
    /// With `quiet_until`: when it is looked at next.
    visit: Nanos,
    delayed: Vec<Delayed>,
}

/// A delayed notification.
#[derive(Clone, Copy, Debug)]
struct Delayed {
    /// When it is reported.
    at: Nanos,
    far: FarId,
    data: DownlinkData,
}

/// What of a session is due.
#[derive(Debug, Default)]
pub(crate) struct DueNotifications {
    /// Whether the DL Buffering Duration is over.
    buffering_ended: bool,
    delayed: Vec<Delayed>,
}

/// What waits for a moment.
#[derive(Debug)]
pub(crate) struct DownlinkNotifications {
    sessions: Keyed<Seid, Waiting>,
    due: BTreeSet<(Nanos, Seid)>,
}

impl DownlinkNotifications {
    pub(crate) fn new(seed: u64) -> DownlinkNotifications {
        DownlinkNotifications {
            sessions: keyed(seed),
            due: BTreeSet::new(),
        }
    }

    /// When something is due next.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Sessions of which something is kept.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    fn is_quiet(&self, seid: Seid) -> bool {
        let waiting = self.sessions.get(&seid);
        waiting.is_some_and(|waiting| waiting.quiet_until.is_some())
    }

    fn delay(&mut self, at: Nanos, seid: Seid, far: FarId, data: DownlinkData) {
        let waiting = self.sessions.entry(seid).or_default();
        if waiting.delayed.len() < MOST_DELAYED {
            waiting.delayed.push(Delayed { at, far, data });
            self.due.insert((at, seid));
        }
    }

    fn quieten(&mut self, now: Nanos, until: Nanos, seid: Seid) {
        self.forget(seid);
        let visit = until.min(now + REVISIT);
        let waiting = Waiting {
            quiet_until: Some(until),
            visit,
            delayed: Vec::new(),
        };
        self.sessions.insert(seid, waiting);
        self.due.insert((visit, seid));
    }

    /// A session that has something due.
    fn poll(&mut self, now: Nanos) -> Option<Seid> {
        let (at, seid) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, seid));
        Some(seid)
    }

    /// What of a session is due: whether its DL Buffering Duration is over, and what is to be reported.
    fn take(&mut self, now: Nanos, seid: Seid) -> DueNotifications {
        let Some(waiting) = self.sessions.get_mut(&seid) else {
            return DueNotifications::default();
        };
        let is_over = waiting.quiet_until.is_some_and(|until| until <= now);
        if is_over {
            waiting.quiet_until = None;
        } else if let Some(until) = waiting.quiet_until.filter(|_| waiting.visit <= now) {
            waiting.visit = until.min(now + REVISIT);
            self.due.insert((waiting.visit, seid));
        }
        let due = |one: &Delayed| one.at <= now;
        let delayed = waiting.delayed.iter().filter(|one| due(one)).copied().collect();
        waiting.delayed.retain(|one| !due(one));
        if waiting.quiet_until.is_none() && waiting.delayed.is_empty() {
            self.sessions.remove(&seid);
        }
        DueNotifications {
            buffering_ended: is_over,
            delayed,
        }
    }

    /// A session has ended, or has new actions for its packets.
    pub(crate) fn forget(&mut self, seid: Seid) {
        if let Some(waiting) = self.sessions.remove(&seid) {
            let moments = waiting.delayed.iter().map(|one| one.at);
            for at in moments.chain(waiting.quiet_until.map(|_| waiting.visit)) {
                self.due.remove(&(at, seid));
            }
        }
    }

    /// Forgets the sessions that are not there any more.
    pub(crate) fn retain(&mut self, is_there: impl Fn(Seid) -> bool) {
        let gone: Vec<Seid> = self
            .sessions
            .keys()
            .copied()
            .filter(|seid| !is_there(*seid))
            .collect();
        gone.into_iter().for_each(|seid| self.forget(seid));
    }
}

/// A session with something due.
#[derive(Debug)]
pub(crate) struct DueSession {
    pub(crate) seid: Seid,
    pub(crate) index: SessionIndex,
    /// What is to be reported now.
    pub(crate) data: Vec<DownlinkData>,
    /// Whether the DL Buffering Duration is over.
    pub(crate) buffering_ended: bool,
}

impl DownlinkNotifications {
    /// A worker got the first downlink packet of a QoS flow for a FAR of this session that buffers and `notifies`
    /// (NOCP); or the first one of a PDR whose delivery status is reported (BDPN, DDPN), or both. The status is
    /// reported at once, whatever the BAR says of notifications: it causes no paging.
    /// Gives whether the event is to be reported now.
    pub(crate) fn handle_downlink_data(
        &mut self,
        shared: &Shared,
        now: Nanos,
        index: SessionIndex,
        far: FarId,
        notifies: bool,
        data: DownlinkData,
    ) -> bool {
        let Some(session) = shared.sessions.view(index) else {
            return false;
        };
        let seid = session.seid();
        let is_quiet = self.is_quiet(seid);
        let delay = delay_of(&session, far).filter(|_| notifies && !is_quiet);
        if let Some(delay) = delay {
            let later = DownlinkData { status: None, ..data };
            self.delay(now + delay, seid, far, later);
        }
        let is_notified = notifies && !is_quiet && delay.is_none();
        is_notified || data.status.is_some()
    }

    /// The next session with delayed notifications to report, or whose DL Buffering Duration is over.
    pub(crate) fn poll_due(&mut self, shared: &Shared, now: Nanos) -> Option<DueSession> {
        while let Some(seid) = self.poll(now) {
            let Some(session) = shared.sessions.session(seid) else {
                self.forget(seid);
                continue;
            };
            let due = self.take(now, seid);
            let index = session.index();
            let delayed = due.delayed.iter().filter(|one| buffers(&session, one.far));
            let data = delayed.map(|one| one.data).collect();
            return Some(DueSession {
                seid,
                index,
                data,
                buffering_ended: due.buffering_ended,
            });
        }
        None
    }

    /// What the answer to a report says of packets that wait: DROBU, and the BAR's new values (TS 29.244 §7.5.9).
    pub(crate) fn take_advice(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        seid: Seid,
        answer: &SessionReportResponse<'_>,
    ) {
        let discards = answer
            .pfcpsrrsp_flags
            .is_some_and(|flags| flags.contains(PfcpSrRspFlags::DROBU));
        let Some(session) = shared.sessions.session(seid) else {
            return;
        };
        let sent = answer.update_bar.as_ref();
        let sent = sent.filter(|sent| session.rules().bar(BarId(sent.bar_id.0)).is_some());
        let bar = sent.map(|sent| BarUpdate {
            notification_delay: set(sent.downlink_data_notification_delay.map(|delay| delay.0)),
            suggested_packets: set(sent.suggested_buffering_packets_count.map(|count| count.0)),
            extended_packets: set(sent
                .dl_buffering_suggested_packet_count
                .map(|count| count.packets())),
            ..BarUpdate::new(BarId(sent.bar_id.0))
        });
        if let Some(duration) = sent.and_then(|sent| sent.dl_buffering_duration) {
            match duration.seconds() {
                Some(0) => self.forget(seid),
                Some(seconds) => self.quieten(now, now + Duration::from_secs(seconds.into()), seid),
                None => self.quieten(now, Nanos::MAX, seid),
            }
        }
        let immediate = ImmediateActions {
            discards_buffered: discards,
            ..ImmediateActions::default()
        };
        change_buffering(shared, now, seid, immediate, bar);
    }

    /// The FARs of a session have changed: buffering durations and delays end for
    /// those that buffer no longer.
    pub(crate) fn rules_changed(&mut self, shared: &Shared, seid: Seid) {
        let buffers_still = shared.sessions.session(seid).is_some_and(|session| {
            let fars = session.rules().fars();
            fars.iter().any(|far| far.action.verb() == Some(Verb::Buffer))
        });
        if !buffers_still {
            self.forget(seid);
        }
    }
}

/// Ends extended buffering: packets that wait are discarded, and their discard is reported.
pub(crate) fn end_buffering(shared: &mut Shared, now: Nanos, seid: Seid) {
    let Some(session) = shared.sessions.session(seid) else {
        return;
    };
    let bar = session.rules().bars().first().map(|bar| bar.id);
    let immediate = ImmediateActions {
        discards_buffered: true,
        tells_discarded: true,
        ..ImmediateActions::default()
    };
    change_buffering(shared, now, seid, immediate, bar.map(without_extension));
}

/// A change of our own: no response waits for its outcome.
fn change_buffering(
    shared: &mut Shared,
    now: Nanos,
    seid: Seid,
    immediate: ImmediateActions,
    bar: Option<BarUpdate>,
) {
    if !immediate.discards_buffered && bar.is_none() {
        return;
    }
    let changes = Changes {
        update_bars: bar.into_iter().collect(),
        immediate,
        ..Changes::default()
    };
    let ticket = shared.new_ticket();
    shared.sessions.modify(now, ticket, seid, None, changes);
}

fn buffers(session: &SessionView<'_>, far: FarId) -> bool {
    let far = session.rules().far(far);
    far.is_some_and(|far| far.action.verb() == Some(Verb::Buffer))
}

fn delay_of(session: &SessionView<'_>, far: FarId) -> Option<Duration> {
    let bar = session.rules().far(far)?.bar?;
    let units = session.rules().bar(bar)?.notification_delay?;
    (units > 0).then(|| DELAY_UNIT * u32::from(units))
}

fn set<T>(value: Option<T>) -> Edit<T> {
    value.map_or(Edit::Keep, Edit::Set)
}

/// DL Buffering Duration and Suggested Packet Count are deleted when extended buffering ends (§5.2.4.2).
fn without_extension(bar: BarId) -> BarUpdate {
    BarUpdate {
        extended_packets: Edit::Clear,
        ..BarUpdate::new(bar)
    }
}
