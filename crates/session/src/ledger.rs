//! What is to be written down of sessions for billing: every session's start, every usage report once, where it is made,
//! and every session's end. Whether the control plane ever hears of a report makes no difference to that; that it has
//! not taken one is an entry of its own.
//!
//! [`Sessions`] fills the ledger if it is told to ([`Config::ledger`](crate::Config::ledger)); its caller empties it.
//! Sessions that the user plane drops, and those that another takes the place of, report nothing to anybody; their last
//! usage stands here alone.

use flow::{ContentUsage, Nanos, PacketTimes, SessionIndex, UrrCount};
use rules::boxed_option::{Absent, BoxedOption};
use rules::image::UsageSnapshot;
use rules::model::{SessionRules, UrrId};
use std::sync::Arc;

use crate::addresses::UeAddress;
use crate::effect::{AssociationId, CpFSeid, Seid};
use crate::session::{Session, State};
use crate::sessions::Sessions;
use usage::{Moment, UsageReport, UsageTriggers, sum};

/// Whom a session is for, as its control plane says. Nothing of it changes what packets do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subscriber {
    /// IMSI, digits.
    pub imsi: Option<Box<str>>,
    /// IMEI or IMEISV, digits.
    pub imei: Option<Box<str>>,
    /// MSISDN, digits.
    pub msisdn: Option<Box<str>>,
    /// Network Access Identifier.
    pub nai: Option<Box<str>>,
    /// SUPI that is no IMSI.
    pub supi: Option<Box<str>>,
    /// GPSI that is no MSISDN.
    pub gpsi: Option<Box<str>>,
    /// PEI that is no IMEI.
    pub pei: Option<Box<str>>,
    /// DNN or APN, with dots.
    pub dnn: Option<Box<str>>,
    /// Slice/Service Type, and Slice Differentiator where there is one.
    pub s_nssai: Option<(u8, Option<[u8; 3]>)>,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// It was deleted in order.
    Deleted,
    /// Another was set up in its place.
    Superseded,
    /// Its association ended.
    AssociationEnded,
    /// The control plane has started anew, or set its association up anew.
    CpRestarted,
    /// The control plane has deleted a set that it belonged to.
    SetDeleted,
    /// Something went wrong on our side.
    Fault,
}

/// What happened to a session, with all that is needed to say whose it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The local SEID.
    pub seid: Seid,
    /// The control plane's F-SEID.
    pub cp: CpFSeid,
    /// The association that it belongs to, or belonged to.
    pub association: AssociationId,
    /// Whom it is for.
    pub subscriber: Option<Arc<Subscriber>>,
    /// The rules that were live.
    pub rules: Arc<SessionRules>,
    /// What plain packets reached it by.
    pub ue_addresses: Arc<[UeAddress]>,
    /// What happened.
    pub event: LedgerEvent,
}

/// Why a control plane has not taken a usage report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreported {
    /// It has answered with this cause (TS 29.244 §8.2.1).
    Refused(u8),
    /// Its answer cannot be read.
    Unreadable,
    /// The session or its association was gone before an answer came.
    Unanswered,
}

/// What happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerEvent {
    /// A usage report was made.
    Usage(UsageReport),
    /// What it counted of one content of predefined rules, which starts again from zero.
    Content(ContentUsage),
    /// A usage report that was entered is not taken by the control plane, and not sent again.
    Unreported {
        /// What it says.
        report: UsageReport,
        /// Why it was not taken.
        why: Unreported,
        /// When that was known.
        at: Moment,
    },
    /// It began here.
    Start {
        /// When it was set up, here or in the process that it comes from.
        start: Moment,
        /// When it began here.
        at: Moment,
        /// Whether it comes from another process.
        is_imported: bool,
    },
    /// It went to another process.
    Left {
        /// When it was set up.
        start: Moment,
        /// When it went.
        at: Moment,
        /// How many usage reports were made so far.
        reports: u64,
        /// What they have in sum.
        count: UrrCount,
    },
    /// It ended.
    End {
        /// Why.
        cause: EndCause,
        /// When it was set up.
        start: Moment,
        /// When it ended.
        end: Moment,
        /// How many usage reports were made.
        reports: u64,
        /// What they have in sum.
        count: UrrCount,
    },
}

/// What a session carries for its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) subscriber: Option<Arc<Subscriber>>,
    /// Since when it has been live.
    pub(crate) since: Since,
    pub(crate) entered: BoxedOption<Entered>,
}

/// Since when something has been, or that it never was, in the room of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since(Moment);

impl Default for Since {
    /// Never.
    fn default() -> Since {
        Since(Moment(i64::MIN))
    }
}

impl Since {
    pub(crate) fn get(self) -> Option<Moment> {
        (self != Since::default()).then_some(self.0)
    }

    /// Since `now`, if it was not before.
    pub(crate) fn begin(&mut self, now: Moment) {
        if self.get().is_none() {
            *self = Since(now);
        }
    }
}

impl From<Option<Moment>> for Since {
    fn from(since: Option<Moment>) -> Since {
        since.map_or_else(Since::default, Since)
    }
}

/// The usage reports of a session that were entered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) reports: u64,
    /// What they have in sum.
    pub(crate) count: UrrCount,
}

impl Absent for Entered {
    const ABSENT: &'static Self = &Entered {
        reports: 0,
        count: UrrCount {
            ul_packets: 0,
            ul_octets: 0,
            dl_packets: 0,
            dl_octets: 0,
            events: 0,
        },
    };
}

impl From<Entered> for BoxedOption<Entered> {
    fn from(entered: Entered) -> Self {
        let mut boxed = Self::NONE;
        if entered != Entered::default() {
            *boxed.get_or_insert_default() = entered;
        }
        boxed
    }
}

impl Account {
    pub(crate) fn of(subscriber: Option<Arc<Subscriber>>) -> Account {
        Account {
            subscriber,
            ..Account::default()
        }
    }
}

/// What is to be entered of a session that nobody else knows any more, when its worker has said what it counted.
#[derive(Debug)]
pub(crate) struct Will {
    pub(crate) cause: EndCause,
    pub(crate) rules: Arc<SessionRules>,
    pub(crate) ue_addresses: Arc<[UeAddress]>,
    counted: Vec<(UrrId, UrrCount)>,
}

impl Will {
    pub(crate) fn new(cause: EndCause, rules: &Arc<SessionRules>, ue_addresses: &[UeAddress]) -> Will {
        Will {
            cause,
            rules: Arc::clone(rules),
            ue_addresses: ue_addresses.into(),
            counted: Vec::new(),
        }
    }

    /// Adds what one of the workers that had the session counted.
    pub(crate) fn add(&mut self, usage: UsageSnapshot) {
        for (urr, count) in usage.counters {
            match self.counted.iter_mut().find(|(known, _)| *known == urr) {
                Some((_, known)) => *known = sum(*known, count),
                None => self.counted.push((urr, count)),
            }
        }
    }
}

/// The last usage of each of a session's URRs, of those that have an account; where its slot's count is not known, what
/// is known without it.
fn last_reports(
    session: &mut Session,
    now: Nanos,
    rules: &SessionRules,
    counted: &[(UrrId, UrrCount)],
) -> Vec<UsageReport> {
    let urrs = rules.urrs().iter();
    urrs.map(|urr| {
        let found = counted.iter().find(|(known, _)| *known == urr.id);
        let count = found.map(|(_, count)| *count);
        session.usage.last(now, urr, count, UsageTriggers::TERMR)
    })
    .collect()
}

impl Sessions {
    /// A worker tells what a session has counted of a content since it was told last.
    pub fn content_counted(&mut self, index: SessionIndex, usage: ContentUsage) {
        self.enter_contents(index, &[usage]);
    }

    /// Packets of URRs came then, which a worker has told of nobody yet.
    pub(crate) fn packets_heard(
        &mut self,
        index: SessionIndex,
        times: impl IntoIterator<Item = (UrrId, PacketTimes)>,
    ) {
        if let Some(session) = self.session_mut(index) {
            for (urr, times) in times {
                session.usage.record_packet_times(urr, times);
            }
        }
    }

    /// Enters what a worker's answer brings of contents, keeps what it brings of packets' times and of usage before
    /// QoS, and takes all of it away from the answer.
    pub(crate) fn take_contents(
        &mut self,
        index: SessionIndex,
        usage: Option<UsageSnapshot>,
    ) -> Option<UsageSnapshot> {
        let mut usage = usage?;
        self.packets_heard(index, std::mem::take(&mut usage.times));
        if let Some(session) = self.session_mut(index) {
            session
                .usage
                .add_before_qos(&std::mem::take(&mut usage.before_qos));
        }
        let contents = std::mem::take(&mut usage.contents);
        if contents.is_empty() {
            return Some(usage);
        }
        self.enter_contents(index, &contents);
        let has_more = !usage.counters.is_empty() || !usage.packets.is_empty() || !usage.tokens.is_empty();
        has_more.then_some(usage)
    }

    fn enter_contents(&mut self, index: SessionIndex, contents: &[ContentUsage]) {
        let session = self.slots.get(index.index()).and_then(Option::as_deref);
        let Some(session) = session.filter(|_| self.config.ledger) else {
            return;
        };
        let will = match &session.state {
            State::Dying(dying) => dying.will.as_deref(),
            _ => None,
        };
        let (rules, addresses) = match will {
            Some(will) => (Arc::clone(&will.rules), Arc::clone(&will.ue_addresses)),
            None => (
                Arc::clone(&session.live.rules),
                session.live.addresses.as_ref().into(),
            ),
        };
        let events = contents.iter().copied().map(LedgerEvent::Content);
        self.enter(index, (&rules, &addresses), events);
    }

    /// Enters that the control plane has not taken usage reports. A session that is gone is entered by its SEID, its
    /// association and `cp`, as far as that is known.
    pub fn enter_unreported(
        &mut self,
        now: Nanos,
        (seid, association, cp): (Seid, AssociationId, Option<CpFSeid>),
        reports: &[UsageReport],
        why: Unreported,
    ) {
        if !self.config.ledger {
            return;
        }
        let session = self
            .by_seid
            .get(seid)
            .and_then(|index| self.slots.get(index.index()));
        let blank = LedgerEntry {
            seid,
            cp: cp.unwrap_or(CpFSeid {
                seid: 0,
                ipv4: None,
                ipv6: None,
            }),
            association,
            subscriber: None,
            rules: Arc::default(),
            ue_addresses: Arc::default(),
            event: LedgerEvent::Start {
                start: now.into(),
                at: now.into(),
                is_imported: false,
            },
        };
        let of = match session.and_then(Option::as_deref) {
            Some(session) => LedgerEntry {
                cp: session.cp,
                subscriber: session.account.subscriber.clone(),
                rules: Arc::clone(&session.live.rules),
                ue_addresses: session.live.addresses.as_ref().into(),
                ..blank
            },
            None => blank,
        };
        let at = now.into();
        let events = reports.iter().map(|report| LedgerEvent::Unreported {
            report: *report,
            why,
            at,
        });
        self.ledger
            .extend(events.map(|event| LedgerEntry { event, ..of.clone() }));
    }

    /// Enters the start of a session that has just become live.
    pub(crate) fn enter_start(&mut self, now: Nanos, index: SessionIndex, is_imported: bool) {
        self.enter_of_live(index, |_, start| LedgerEvent::Start {
            start,
            at: now.into(),
            is_imported,
        });
    }

    /// Enters that a session goes to another process.
    pub(crate) fn enter_left(&mut self, now: Nanos, index: SessionIndex) {
        self.enter_of_live(index, |account, start| LedgerEvent::Left {
            start,
            at: now.into(),
            reports: account.entered.reports,
            count: account.entered.count,
        });
    }

    /// Enters an event of a session by what is live of it.
    fn enter_of_live(&mut self, index: SessionIndex, event: impl FnOnce(&Account, Moment) -> LedgerEvent) {
        let session = self.slots.get(index.index()).and_then(Option::as_deref);
        let Some(session) = session.filter(|_| self.config.ledger) else {
            return;
        };
        let Some(start) = session.account.since.get() else {
            return;
        };
        let event = event(&session.account, start);
        let (rules, addresses) = (
            Arc::clone(&session.live.rules),
            session.live.addresses.as_ref().into(),
        );
        self.enter(index, (&rules, &addresses), std::iter::once(event));
    }

    /// The next entry of the ledger.
    pub fn poll_ledger(&mut self) -> Option<LedgerEntry> {
        self.ledger.pop_front()
    }

    /// Enters usage reports of a session that is as it was when they were made.
    pub(crate) fn enter_reports(&mut self, index: SessionIndex, reports: &[UsageReport]) {
        let session = self.slots.get(index.index()).and_then(Option::as_deref);
        let Some(session) = session.filter(|_| self.config.ledger && !reports.is_empty()) else {
            return;
        };
        let (rules, addresses) = (
            Arc::clone(&session.live.rules),
            session.live.addresses.as_ref().into(),
        );
        self.enter(
            index,
            (&rules, &addresses),
            reports.iter().copied().map(LedgerEvent::Usage),
        );
    }

    /// Enters the end of a session whose last usage is entered.
    pub(crate) fn enter_end(&mut self, now: Nanos, index: SessionIndex, cause: EndCause) {
        let session = self.slots.get(index.index()).and_then(Option::as_deref);
        let Some(session) = session.filter(|_| self.config.ledger) else {
            return;
        };
        let will = Will::new(cause, &session.live.rules, &session.live.addresses);
        self.enter_will(now, index, &will, &[]);
    }

    /// Enters what a session has used last, and its end, when another is about to take its place.
    pub(crate) fn enter_superseded(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        counted: &[(UrrId, UrrCount)],
    ) {
        let session = self.slots.get_mut(index.index()).and_then(Option::as_deref_mut);
        let Some(session) = session.filter(|_| self.config.ledger) else {
            return;
        };
        let will = Will::new(EndCause::Superseded, &session.live.rules, &session.live.addresses);
        let reports = last_reports(session, now, &will.rules, counted);
        self.enter_will(now, index, &will, &reports);
    }

    /// The workers that had a session have none of it any more: what it left is entered.
    pub(crate) fn execute(&mut self, now: Nanos, index: SessionIndex, will: &Will) {
        let session = self.slots.get_mut(index.index()).and_then(Option::as_deref_mut);
        let Some(session) = session else { return };
        let reports = last_reports(session, now, &will.rules, &will.counted);
        self.enter_will(now, index, will, &reports);
    }

    fn enter_will(&mut self, now: Nanos, index: SessionIndex, will: &Will, reports: &[UsageReport]) {
        let of = (&will.rules, &will.ue_addresses);
        self.enter(index, of, reports.iter().copied().map(LedgerEvent::Usage));
        let session = self.slots.get(index.index()).and_then(Option::as_deref);
        let Some((account, start)) = session.and_then(|one| Some((&one.account, one.account.since.get()?)))
        else {
            return;
        };
        let end = LedgerEvent::End {
            cause: will.cause,
            start,
            end: now.into(),
            reports: account.entered.reports,
            count: account.entered.count,
        };
        self.enter(index, of, std::iter::once(end));
    }

    fn enter(
        &mut self,
        index: SessionIndex,
        (rules, ue_addresses): (&Arc<SessionRules>, &Arc<[UeAddress]>),
        events: impl Iterator<Item = LedgerEvent>,
    ) {
        let session = self.slots.get_mut(index.index()).and_then(Option::as_deref_mut);
        let Some(session) = session.filter(|session| session.account.since.get().is_some()) else {
            return;
        };
        for event in events {
            if let LedgerEvent::Usage(report) = &event {
                let entered = session.account.entered.get_or_insert_default();
                entered.reports += 1;
                entered.count = sum(entered.count, report.count);
            }
            self.ledger.push_back(LedgerEntry {
                seid: session.seid,
                cp: session.cp,
                association: session.association,
                subscriber: session.account.subscriber.clone(),
                rules: Arc::clone(rules),
                ue_addresses: Arc::clone(ue_addresses),
                event,
            });
        }
    }
}
