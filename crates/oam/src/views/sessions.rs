//! Pages of sessions.

use std::net::IpAddr;

use packet::Teid;
use session::{Seid, SessionView};
use upf::{Control, identifiers};

use super::page::page;
use super::rows::session_row;
use crate::values::{LONGEST_PAGE, SessionList};

/// Sessions that are looked at in a turn of control: some tenths of a millisecond.
const MOST_LOOKED_AT: usize = 1_000;

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
    /// The DNN or APN, in upper or lower case.
    pub dnn: Option<Box<str>>,
}

impl SessionQuery {
    /// Whether sessions have to be looked at one by one.
    #[must_use]
    pub fn is_search(&self) -> bool {
        let is_indexed = self.seid.is_some() || self.teid.is_some() || self.ue.is_some();
        !is_indexed && (self.imsi.is_some() || self.dnn.is_some())
    }

    fn wants(&self, session: &SessionView<'_>) -> bool {
        let has_ue = |ue| {
            session
                .ue_addresses()
                .iter()
                .any(|(_, prefix)| prefix.contains(ue))
        };
        let subscriber = session.subscriber();
        let imsi = subscriber.and_then(|subscriber| subscriber.imsi.as_deref());
        let dnn = subscriber.and_then(|subscriber| subscriber.dnn.as_deref());
        let has_dnn = |wanted: &str| dnn.is_some_and(|dnn| dnn.eq_ignore_ascii_case(wanted));
        let has_teid = |teid| session.tunnels().iter().any(|(_, own)| *own == teid);
        self.seid.is_none_or(|seid| seid == session.seid())
            && self.ue.is_none_or(has_ue)
            && self.teid.is_none_or(has_teid)
            && self.imsi.as_deref().is_none_or(|wanted| imsi == Some(wanted))
            && self.dnn.as_deref().is_none_or(has_dnn)
    }
}

/// Sessions that `query` wants, behind the SEID `after`, `most` of them; or fewer, with where to continue, where many
/// had to be looked at: what is not found by SEID, TEID or address is looked for one by one.
#[must_use]
pub fn sessions(control: &Control, query: &SessionQuery, after: Option<Seid>, most: usize) -> SessionList {
    let known = control.endpoint().sessions();
    let found: Box<dyn Iterator<Item = SessionView<'_>>> = match *query {
        SessionQuery { seid: Some(seid), .. } => Box::new(known.session(seid).into_iter()),
        SessionQuery { teid: Some(teid), .. } => Box::new(known.with_teid(teid)),
        SessionQuery { ue: Some(ue), .. } => Box::new(known.with_ue_address(ue)),
        SessionQuery { imsi: Some(_), .. } | SessionQuery { dnn: Some(_), .. } => {
            return look_for_sessions(control, query, after, most);
        }
        _ => Box::new(known.page(after)),
    };
    let wanted = found.filter(|one| after.is_none_or(|after| one.seid() > after) && query.wants(one));
    let (page, next) = page(wanted, most, |one| identifiers::seid(one.seid().0));
    SessionList {
        sessions: page.iter().map(|one| session_row(control, one)).collect(),
        next,
        total: known.count().sessions,
    }
}

fn look_for_sessions(
    control: &Control,
    query: &SessionQuery,
    after: Option<Seid>,
    most: usize,
) -> SessionList {
    let known = control.endpoint().sessions();
    let most = most.clamp(1, LONGEST_PAGE);
    let (mut rows, mut last) = (Vec::new(), after);
    let mut all = known.page(after);
    let mut looked_at = all.by_ref().take(MOST_LOOKED_AT);
    while rows.len() < most
        && let Some(one) = looked_at.next()
    {
        last = Some(one.seid());
        if query.wants(&one) {
            rows.push(session_row(control, &one));
        }
    }
    let has_more = all.next().is_some();
    SessionList {
        sessions: rows,
        next: last.filter(|_| has_more).map(|seid| identifiers::seid(seid.0)),
        total: known.count().sessions,
    }
}
