//! Downlink packets of FARs that buffer: when the control plane is told of them, and for how long it wants no word
//! (TS 29.244 §5.2.3.1, §5.2.4, §7.5.9).
//!
//! A worker tells of the first packet of each QoS flow. With a Downlink Data Notification Delay in the BAR the report
//! waits, and is not sent if the FAR has stopped buffering meanwhile. A control plane that answers a report with a DL
//! Buffering Duration hears nothing more until that is over; then what waits is thrown away, and the next packet is a
//! first one again.
//!
//! Owned by the endpoint; the packets lie with the workers.

use std::collections::BTreeSet;
use std::time::Duration;

use flow::{Nanos, SessionIndex};
use pfcp::ie::PfcpSrRspFlags;
use pfcp::message::SessionReportResponse;
use rules::image::ImmediateActions;
use rules::model::{BarId, BarUpdate, Edit, FarId, Verb};
use session::{Changes, Keyed, Seid, SessionView, keyed};

use crate::endpoint::Endpoint;
use crate::report_outbox::{DownlinkData, SessionEvent};

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
    /// What is to be told, and when.
    delayed: Vec<(Nanos, FarId, DownlinkData)>,
}

/// What waits for a moment.
#[derive(Debug)]
pub(crate) struct Downlink {
    sessions: Keyed<Seid, Waiting>,
    due: BTreeSet<(Nanos, Seid)>,
}

impl Downlink {
    pub(crate) fn new(seed: u64) -> Downlink {
        Downlink {
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
            waiting.delayed.push((at, far, data));
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

    /// What of a session is due: whether its quiet time is over, and what is to be told.
    fn take(&mut self, now: Nanos, seid: Seid) -> (bool, Vec<(FarId, DownlinkData)>) {
        let Some(waiting) = self.sessions.get_mut(&seid) else {
            return (false, Vec::new());
        };
        let is_over = waiting.quiet_until.is_some_and(|until| until <= now);
        if is_over {
            waiting.quiet_until = None;
        } else if let Some(until) = waiting.quiet_until.filter(|_| waiting.visit <= now) {
            waiting.visit = until.min(now + REVISIT);
            self.due.insert((waiting.visit, seid));
        }
        let told = waiting.delayed.iter().filter(|(at, ..)| *at <= now);
        let told = told.map(|(_, far, data)| (*far, *data)).collect();
        waiting.delayed.retain(|(at, ..)| *at > now);
        if waiting.quiet_until.is_none() && waiting.delayed.is_empty() {
            self.sessions.remove(&seid);
        }
        (is_over, told)
    }

    /// A session has ended, or is told anew what to do with its packets.
    pub(crate) fn forget(&mut self, seid: Seid) {
        if let Some(waiting) = self.sessions.remove(&seid) {
            let moments = waiting.delayed.iter().map(|(at, ..)| *at);
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

impl Endpoint {
    /// A worker got the first downlink packet of a QoS flow for a FAR of this session that buffers and `notifies`
    /// (NOCP); or the first one of a PDR whose delivery status is followed (BDPN, DDPN), or both. The status is told at
    /// once, whatever the BAR says of notifications: it pages nobody.
    pub fn handle_downlink_data(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        (far, notifies): (FarId, bool),
        data: DownlinkData,
    ) {
        let Some(session) = self.sessions.view(index) else {
            return;
        };
        let seid = session.seid();
        let is_quiet = self.downlink.is_quiet(seid);
        let delay = delay_of(&session, far).filter(|_| notifies && !is_quiet);
        if let Some(delay) = delay {
            let later = DownlinkData { status: None, ..data };
            self.downlink.delay(now + delay, seid, far, later);
        }
        let is_notified = notifies && !is_quiet && delay.is_none();
        if is_notified || data.status.is_some() {
            self.handle_session_event(now, index, SessionEvent::DownlinkData(data));
        }
    }

    /// Tells what has been delayed for long enough, and ends quiet times.
    pub(crate) fn tell_of_downlink(&mut self, now: Nanos) {
        while let Some(seid) = self.downlink.poll(now) {
            let Some(session) = self.sessions.session(seid) else {
                self.downlink.forget(seid);
                continue;
            };
            let (is_over, told) = self.downlink.take(now, seid);
            let index = session.index();
            let waits = |far: &FarId| buffers(&session, *far);
            let told: Vec<_> = told.into_iter().filter(|(far, _)| waits(far)).collect();
            let bar = session.rules().bars().first().map(|bar| bar.id);
            for (_, data) in told {
                self.handle_session_event(now, index, SessionEvent::DownlinkData(data));
            }
            if is_over {
                let immediate = ImmediateActions {
                    discards_buffered: true,
                    tells_discarded: true,
                    ..ImmediateActions::default()
                };
                self.change_waiting(now, seid, immediate, bar.map(without_extension));
            }
        }
    }

    /// What the answer to a report says of packets that wait: DROBU, and the BAR's new values (TS 29.244 §7.5.9).
    pub(crate) fn take_advice(&mut self, now: Nanos, seid: Seid, answer: &SessionReportResponse<'_>) {
        let discards = answer
            .pfcpsrrsp_flags
            .is_some_and(|flags| flags.contains(PfcpSrRspFlags::DROBU));
        let Some(session) = self.sessions.session(seid) else {
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
                Some(0) => self.downlink.forget(seid),
                Some(seconds) => self
                    .downlink
                    .quieten(now, now + Duration::from_secs(seconds.into()), seid),
                None => self.downlink.quieten(now, Nanos::MAX, seid),
            }
        }
        let immediate = ImmediateActions {
            discards_buffered: discards,
            ..ImmediateActions::default()
        };
        self.change_waiting(now, seid, immediate, bar);
    }

    /// A change of our own: nobody waits for its outcome.
    fn change_waiting(
        &mut self,
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
        let ticket = self.new_ticket();
        self.sessions.modify(now, ticket, seid, None, changes);
    }

    /// The control plane has told a session's FARs anew what to do: quiet times and delays of before are over for
    /// those that buffer no longer.
    pub(crate) fn downlink_changed(&mut self, seid: Seid) {
        let buffers_still = self.sessions.session(seid).is_some_and(|session| {
            let fars = session.rules().fars();
            fars.iter().any(|far| far.action.verb() == Some(Verb::Buffer))
        });
        if !buffers_still {
            self.downlink.forget(seid);
        }
    }
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
