//! The queue of usage record entries: each session's start, each usage report when it is made, and each session's end.
//!
//! A usage report is entered whether or not the control plane receives it; that a control plane did not accept one is
//! an entry of its own. The last usage of sessions that the user plane removes, and of sessions that another replaces,
//! goes to no control plane: it is entered here alone. The caller of [`Sessions`](crate::Sessions) empties the queue.

use flow::{ContentUsage, Nanos, PacketTimes, UrrCount};
use rules::image::UsageSnapshot;
use rules::model::{SessionRules, UrrId};
use std::collections::VecDeque;
use std::sync::Arc;
use usage::{Moment, UsageReport, UsageTriggers, sum};

use crate::final_accounting::FinalAccounting;
use crate::ids::{AssociationId, CpFSeid, Seid};
use crate::pending_change::State;
use crate::session::Session;
use crate::session_accounting::SessionAccounting;
use crate::ue_addresses::UeAddress;
use crate::usage_record_entry::{EndCause, Unreported, UsageRecordEntry, UsageRecordEvent};

/// Entries that are to be polled.
#[derive(Debug)]
pub(crate) struct UsageRecordQueue {
    is_enabled: bool,
    entries: VecDeque<UsageRecordEntry>,
}

/// The rules and UE addresses that an entry names.
#[derive(Clone, Debug)]
struct Subject {
    rules: Arc<SessionRules>,
    ue_addresses: Arc<[UeAddress]>,
}

impl Subject {
    /// Those that are live in a session.
    fn live(session: &Session) -> Subject {
        Subject {
            rules: Arc::clone(&session.live.rules),
            ue_addresses: session.live.addresses.get().as_slice().into(),
        }
    }

    fn of(accounting: &FinalAccounting) -> Subject {
        Subject {
            rules: Arc::clone(&accounting.rules),
            ue_addresses: Arc::clone(&accounting.ue_addresses),
        }
    }
}

/// The session of usage reports that were not accepted: it may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedSession {
    /// Its local SEID.
    pub seid: Seid,
    /// The association that it belongs to, or belonged to.
    pub association: AssociationId,
    /// The control plane's F-SEID, if it is known.
    pub cp: Option<CpFSeid>,
}

impl UsageRecordQueue {
    /// An empty queue. Nothing is entered unless it is enabled.
    pub(crate) fn new(is_enabled: bool) -> UsageRecordQueue {
        UsageRecordQueue {
            is_enabled,
            entries: VecDeque::new(),
        }
    }

    /// Whether anything is entered.
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// The next entry.
    pub(crate) fn poll(&mut self) -> Option<UsageRecordEntry> {
        self.entries.pop_front()
    }

    /// Enters what a worker's answer has of contents, adds what it has of packet times and of usage before QoS
    /// enforcement to the session's accounts, and removes all of these from the answer.
    pub(crate) fn take_contents(
        &mut self,
        session: Option<&mut Session>,
        mut usage: UsageSnapshot,
    ) -> Option<UsageSnapshot> {
        let times = std::mem::take(&mut usage.times);
        let before_qos = std::mem::take(&mut usage.before_qos);
        let contents = std::mem::take(&mut usage.contents);
        if let Some(session) = session {
            add_packet_times(session, times);
            session.usage.add_before_qos(&before_qos);
            self.enter_contents(session, &contents);
        }
        (contents.is_empty() || !usage.is_empty()).then_some(usage)
    }

    /// Enters what a session has counted of contents.
    pub(crate) fn enter_contents(&mut self, session: &mut Session, contents: &[ContentUsage]) {
        if !self.is_enabled || contents.is_empty() {
            return;
        }
        let subject = match &session.state {
            State::Dying(dying) => dying.accounting.as_deref().map(Subject::of),
            _ => None,
        };
        let subject = subject.unwrap_or_else(|| Subject::live(session));
        let events = contents.iter().copied().map(UsageRecordEvent::Content);
        self.enter(session, &subject, events);
    }

    /// Enters that the control plane has not accepted usage reports.
    pub(crate) fn enter_unreported(
        &mut self,
        now: Nanos,
        of: ReportedSession,
        session: Option<&Session>,
        reports: &[UsageReport],
        why: Unreported,
    ) {
        if !self.is_enabled {
            return;
        }
        let unknown = CpFSeid {
            seid: 0,
            ipv4: None,
            ipv6: None,
        };
        let subject = session.map(Subject::live);
        let cp = session.map(|session| session.cp).or(of.cp);
        let subscriber = session.and_then(|session| session.accounting.subscriber.as_ref());
        self.entries.extend(reports.iter().map(|report| {
            UsageRecordEntry {
                seid: of.seid,
                cp: cp.unwrap_or(unknown),
                association: of.association,
                subscriber: subscriber.cloned(),
                rules: subject
                    .as_ref()
                    .map(|subject| Arc::clone(&subject.rules))
                    .unwrap_or_default(),
                ue_addresses: subject
                    .as_ref()
                    .map(|subject| Arc::clone(&subject.ue_addresses))
                    .unwrap_or_default(),
                event: UsageRecordEvent::Unreported {
                    report: *report,
                    why,
                    at: now.into(),
                },
            }
        }));
    }

    /// Enters the start of a session that has just become live.
    pub(crate) fn enter_start(&mut self, now: Nanos, session: &mut Session, is_imported: bool) {
        self.enter_of_live(session, |_, start| UsageRecordEvent::Start {
            start,
            at: now.into(),
            is_imported,
        });
    }

    /// Enters that a session goes to another process.
    pub(crate) fn enter_left(&mut self, now: Nanos, session: &mut Session) {
        self.enter_of_live(session, |account, start| UsageRecordEvent::Left {
            start,
            at: now.into(),
            reports: account.entered.reports,
            count: account.entered.count,
        });
    }

    fn enter_of_live(
        &mut self,
        session: &mut Session,
        event: impl FnOnce(&SessionAccounting, Moment) -> UsageRecordEvent,
    ) {
        if !self.is_enabled {
            return;
        }
        let Some(start) = session.accounting.since.get() else {
            return;
        };
        let event = event(&session.accounting, start);
        let subject = Subject::live(session);
        self.enter(session, &subject, std::iter::once(event));
    }

    /// Enters usage reports of a session with the rules that it had when they were made.
    pub(crate) fn enter_reports(&mut self, session: &mut Session, reports: &[UsageReport]) {
        if self.is_enabled && !reports.is_empty() {
            let subject = Subject::live(session);
            self.enter(
                session,
                &subject,
                reports.iter().copied().map(UsageRecordEvent::Usage),
            );
        }
    }

    /// Enters the end of a session whose last usage is entered.
    pub(crate) fn enter_end(&mut self, now: Nanos, session: &mut Session, cause: EndCause) {
        if self.is_enabled {
            let accounting = FinalAccounting::new(cause, &session.live.rules, &session.live.addresses.get());
            self.enter_last(now, session, &accounting, &[]);
        }
    }

    /// Enters the last usage of a session, and its end, when another is about to replace it.
    pub(crate) fn enter_superseded(
        &mut self,
        now: Nanos,
        session: &mut Session,
        counted: &[(UrrId, UrrCount)],
    ) {
        if self.is_enabled {
            let (rules, addresses) = (&session.live.rules, session.live.addresses.get());
            let accounting = FinalAccounting::new(EndCause::Superseded, rules, &addresses);
            let reports = last_reports(session, now, &accounting.rules, counted);
            self.enter_last(now, session, &accounting, &reports);
        }
    }

    /// Enters the final accounting of a session whose removal its workers have confirmed.
    pub(crate) fn enter_final(&mut self, now: Nanos, session: &mut Session, accounting: &FinalAccounting) {
        let reports = last_reports(session, now, &accounting.rules, &accounting.counted);
        self.enter_last(now, session, accounting, &reports);
    }

    fn enter_last(
        &mut self,
        now: Nanos,
        session: &mut Session,
        accounting: &FinalAccounting,
        reports: &[UsageReport],
    ) {
        let subject = Subject::of(accounting);
        self.enter(
            session,
            &subject,
            reports.iter().copied().map(UsageRecordEvent::Usage),
        );
        let Some(start) = session.accounting.since.get() else {
            return;
        };
        let end = UsageRecordEvent::End {
            cause: accounting.cause,
            start,
            end: now.into(),
            reports: session.accounting.entered.reports,
            count: session.accounting.entered.count,
        };
        self.enter(session, &subject, std::iter::once(end));
    }

    fn enter(
        &mut self,
        session: &mut Session,
        subject: &Subject,
        events: impl Iterator<Item = UsageRecordEvent>,
    ) {
        if session.accounting.since.get().is_none() {
            return;
        }
        for event in events {
            if let UsageRecordEvent::Usage(report) = &event {
                let entered = session.accounting.entered.get_or_insert_default();
                entered.reports += 1;
                entered.count = sum(entered.count, report.count);
            }
            self.entries.push_back(UsageRecordEntry {
                seid: session.seid,
                cp: session.cp,
                association: session.association,
                subscriber: session.accounting.subscriber.clone(),
                rules: Arc::clone(&subject.rules),
                ue_addresses: Arc::clone(&subject.ue_addresses),
                event,
            });
        }
    }
}

/// Adds when packets of URRs came, which no report has yet, to a session's accounts.
pub(crate) fn add_packet_times(session: &mut Session, times: impl IntoIterator<Item = (UrrId, PacketTimes)>) {
    for (urr, times) in times {
        session.usage.record_packet_times(urr, times);
    }
}

/// The last usage of each of a session's URRs that has an account; without its slot's count where that is not known.
fn last_reports(
    session: &mut Session,
    now: Nanos,
    rules: &SessionRules,
    counted: &[(UrrId, UrrCount)],
) -> Vec<UsageReport> {
    let urrs = rules.urrs().iter();
    let reports = urrs.map(|urr| {
        let found = counted.iter().find(|(known, _)| *known == urr.id);
        let count = found.map(|(_, count)| *count);
        session.usage.last(now, urr, count, UsageTriggers::TERMR)
    });
    reports.collect()
}
