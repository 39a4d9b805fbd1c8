//! What an operator sees, from the parts that have it: associations and sessions from the endpoint, counts and buffered
//! packets from the worker that has the session.
//!
//! Control's thread answers, so every answer is bounded: a page of at most [`LONGEST_PAGE`] rows, or one session. A
//! session in full waits for one word of its worker; a few such questions may be under way.

mod detail;
mod n4;
mod network;
mod rows;
pub(super) mod words;

pub(crate) use words::action as action_in_words;

use std::net::IpAddr;

use packet::Teid;
use session::{AssociationId, Seid, SessionView};
use worker::{Command, SessionStatus};

use super::control::Control;
use crate::api::{AssociationList, LONGEST_PAGE, SessionDetail, SessionList};

/// Sessions that are looked at for one page: a few milliseconds.
const MOST_LOOKED_AT: usize = 20_000;

/// Questions to workers under way at most.
const MOST_QUESTIONS: usize = 64;

/// Which sessions are wanted: those with all that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// The local SEID.
    pub seid: Option<Seid>,
    /// An address of the UE, or behind it.
    pub ue: Option<IpAddr>,
    /// A TEID at one of our addresses.
    pub teid: Option<Teid>,
    /// The IMSI of whom it is for.
    pub imsi: Option<Box<str>>,
}

/// Why there is no session to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotShown {
    /// There is none with this SEID.
    Unknown,
    /// Too many are asking.
    Busy,
}

/// Questions to workers under way.
#[derive(Debug, Default)]
pub(super) struct Questions {
    last: u64,
    asked: Vec<(u64, Seid)>,
    answered: Vec<(u64, Result<Box<SessionDetail>, NotShown>)>,
}

impl Control {
    /// Associations behind that with the number `after`, `most` of them.
    #[must_use]
    pub fn view_associations(&self, after: Option<u32>, most: usize) -> AssociationList {
        let behind = |id: AssociationId| after.is_none_or(|after| id.0 > after);
        let all = self.endpoint.associations().filter(|one| behind(one.id));
        let (page, next) = page(all, most, |one| one.id.0);
        AssociationList {
            associations: page.into_iter().map(|one| self.association_row(one)).collect(),
            next,
            total: self.endpoint.associations().count(),
        }
    }

    /// Sessions that `query` wants, behind the SEID `after`, `most` of them; or fewer, with where to go on, where many had
    /// to be looked at: what is not found by SEID, TEID or address is looked for one by one.
    #[must_use]
    pub fn view_sessions(&self, query: &SessionQuery, after: Option<Seid>, most: usize) -> SessionList {
        let sessions = self.endpoint.sessions();
        let found: Box<dyn Iterator<Item = SessionView<'_>>> = match *query {
            SessionQuery { seid: Some(seid), .. } => Box::new(sessions.session(seid).into_iter()),
            SessionQuery { teid: Some(teid), .. } => Box::new(sessions.with_teid(teid)),
            SessionQuery { ue: Some(ue), .. } => Box::new(sessions.with_ue_address(ue)),
            SessionQuery { imsi: Some(_), .. } => return self.look_for_sessions(query, after, most),
            _ => Box::new(sessions.page(after)),
        };
        let wanted = found.filter(|one| after.is_none_or(|after| one.seid() > after) && query.wants(one));
        let (page, next) = page(wanted, most, |one| crate::api::seid(one.seid().0));
        SessionList {
            sessions: page.iter().map(|one| self.session_row(one)).collect(),
            next,
            total: sessions.count().sessions,
        }
    }

    fn look_for_sessions(&self, query: &SessionQuery, after: Option<Seid>, most: usize) -> SessionList {
        let sessions = self.endpoint.sessions();
        let most = most.clamp(1, LONGEST_PAGE);
        let (mut rows, mut last) = (Vec::new(), after);
        let mut all = sessions.page(after);
        let mut looked_at = all.by_ref().take(MOST_LOOKED_AT);
        while rows.len() < most
            && let Some(one) = looked_at.next()
        {
            last = Some(one.seid());
            if query.wants(&one) {
                rows.push(self.session_row(&one));
            }
        }
        let has_more = all.next().is_some();
        SessionList {
            sessions: rows,
            next: last.filter(|_| has_more).map(|seid| crate::api::seid(seid.0)),
            total: sessions.count().sessions,
        }
    }

    /// Asks for one session in full. The answer comes from [`poll_shown`](Self::poll_shown) by the number that this
    /// gives.
    ///
    /// # Errors
    /// [`NotShown`].
    pub fn show_session(&mut self, seid: Seid) -> Result<u64, NotShown> {
        let found = self.endpoint.sessions().session(seid);
        let session = found.ok_or(NotShown::Unknown)?;
        let (index, owner) = (session.index(), self.owner(session.bucket()));
        if self.questions.asked.len() + self.questions.answered.len() >= MOST_QUESTIONS {
            return Err(NotShown::Busy);
        }
        self.questions.last += 1;
        let question = self.questions.last;
        self.questions.asked.push((question, seid));
        self.send(
            owner,
            Command::Inspect {
                question,
                session: index,
            },
        );
        Ok(question)
    }

    /// Nobody wants the answer to this question any more.
    pub fn forget_question(&mut self, question: u64) {
        self.questions.asked.retain(|(number, _)| *number != question);
        self.questions.answered.retain(|(number, _)| *number != question);
    }

    /// A session that somebody asked for.
    pub fn poll_shown(&mut self) -> Option<(u64, Result<Box<SessionDetail>, NotShown>)> {
        self.questions.answered.pop()
    }

    /// A worker has said how a session stands.
    pub(super) fn inspected(&mut self, question: u64, status: Option<Box<SessionStatus>>) {
        let asked = &mut self.questions.asked;
        let Some(place) = asked.iter().position(|(number, _)| *number == question) else {
            return;
        };
        let (_, seid) = asked.swap_remove(place);
        let session = self.endpoint.sessions().session(seid);
        let detail = session.map(|session| Box::new(self.session_detail(&session, status.as_deref())));
        self.questions
            .answered
            .push((question, detail.ok_or(NotShown::Unknown)));
    }
}

impl SessionQuery {
    fn wants(&self, session: &SessionView<'_>) -> bool {
        let has_ue = |ue| {
            session
                .ue_addresses()
                .iter()
                .any(|(_, prefix)| prefix.contains(ue))
        };
        let subscriber = session.subscriber();
        let imsi = subscriber.and_then(|subscriber| subscriber.imsi.as_deref());
        let has_teid = |teid| session.tunnels().iter().any(|(_, own)| *own == teid);
        self.seid.is_none_or(|seid| seid == session.seid())
            && self.ue.is_none_or(has_ue)
            && self.teid.is_none_or(has_teid)
            && self.imsi.as_deref().is_none_or(|wanted| imsi == Some(wanted))
    }
}

/// The first `most` of `all`, [`LONGEST_PAGE`] at most; and the key of the last one, if there are more.
fn page<T, K>(mut all: impl Iterator<Item = T>, most: usize, key: impl Fn(&T) -> K) -> (Vec<T>, Option<K>) {
    let page: Vec<T> = all.by_ref().take(most.clamp(1, LONGEST_PAGE)).collect();
    let has_more = all.next().is_some();
    let next = page.last().filter(|_| has_more).map(key);
    (page, next)
}
