//! PFD Management (TS 29.244 §6.2.5.3), and how sessions follow.
//!
//! The request is answered at once; the sessions whose PDRs name a changed application are changed after it, some at a
//! time, each as by a modification that nobody waits for. A PDR of an application that has lost its last PFD detects
//! nothing until there are new ones.

use flow::Nanos;
use pfcp::ie::Cause;
use pfcp::message::{PfdManagementRequest, PfdManagementResponse};
use rules::model::{Application, Edit, PdiUpdate, PdrUpdate, SessionRules, Urr, UrrTermsUpdate, UrrUpdate};
use session::{Changes, Done, Refusal, Seid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::endpoint::{Endpoint, Request};
use crate::pfds::{Pfds, Provision};

/// Sessions that are changed at a time.
const MOST_AT_A_TIME: usize = 256;
/// After how long a session is tried again that could not be changed.
const RETRY: Duration = Duration::from_secs(1);

/// Sessions that are yet to follow a change of PFDs.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    queue: VecDeque<Seid>,
    /// Those under way, by the number of their tickets.
    under_way: BTreeMap<u64, Seid>,
    /// Those that are tried again.
    later: VecDeque<(Nanos, Seid)>,
    /// All sessions whose PDRs or URRs name applications, and some that have ended.
    naming: BTreeSet<Seid>,
}

impl Followers {
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.later.front().map(|(at, _)| *at)
    }

    /// The session that a ticket is about.
    pub(crate) fn followed(&mut self, ticket: session::Ticket) -> Option<Seid> {
        self.under_way.remove(&ticket.0)
    }
}

impl Endpoint {
    /// PFD Management: all of it or nothing.
    pub(crate) fn serve_pfds(&mut self, now: Nanos, request: Request, sent: &PfdManagementRequest<'_>) {
        let before = self.pfds.version();
        let provisioned = self
            .check_known(request, sent.node_id)
            .and_then(|()| Provision::of(sent))
            .and_then(|provision| self.pfds.provision(provision));
        if let Err(reject) = provisioned {
            return self.reject(now, request.path, &request.header, None, reject);
        }
        let node = self.config.node.clone();
        let mut response = PfdManagementResponse::new(Cause::REQUEST_ACCEPTED);
        response.node_id = Some(node.as_ie());
        self.answer(now, request, &response);
        if self.pfds.version() == before {
            return;
        }
        self.forget_ended_followers();
        let stale = |seid: &&Seid| {
            let session = self.sessions.session(**seid);
            session.is_some_and(|session| is_stale(session.rules(), &self.pfds))
        };
        self.followers.queue = self.followers.naming.iter().filter(stale).copied().collect();
        self.follow_pfds(now);
    }

    /// A session may name applications now that it did not, or no more.
    pub(crate) fn note_applications(&mut self, seid: Seid) {
        let session = self.sessions.session(seid);
        let names = session.is_some_and(|session| applications(session.rules()).next().is_some());
        if !names {
            self.followers.naming.remove(&seid);
        } else if self.followers.naming.insert(seid)
            && self.followers.naming.len() > 2 * self.sessions.count().sessions.max(MOST_AT_A_TIME)
        {
            self.forget_ended_followers();
        }
    }

    fn forget_ended_followers(&mut self) {
        let sessions = &self.sessions;
        let naming = &mut self.followers.naming;
        naming.retain(|seid| sessions.session(*seid).is_some());
    }

    /// A request about a session was read at this version of the PFDs and is done: they may have changed since.
    pub(crate) fn check_pfds(&mut self, now: Nanos, seid: Seid, version: u64) {
        if version != self.pfds.version() {
            self.followers.queue.push_back(seid);
            self.follow_pfds(now);
        }
    }

    /// Lets sessions follow, as many as may at a time.
    pub(crate) fn follow_pfds(&mut self, now: Nanos) {
        while let Some((_, seid)) = self.followers.later.pop_front_if(|(at, _)| *at <= now) {
            self.followers.queue.push_back(seid);
        }
        while self.followers.under_way.len() < MOST_AT_A_TIME
            && let Some(seid) = self.followers.queue.pop_front()
        {
            let session = self.sessions.session(seid);
            let changes = session
                .map(|session| renewal(session.rules(), &self.pfds))
                .unwrap_or_default();
            if changes.update_pdrs.is_empty() && changes.update_urrs.is_empty() {
                continue;
            }
            let ticket = self.new_ticket();
            self.followers.under_way.insert(ticket.0, seid);
            self.sessions.modify(now, ticket, seid, None, changes);
        }
    }

    /// A session has followed, or could not.
    pub(crate) fn session_followed(&mut self, now: Nanos, seid: Seid, result: Result<Done, Refusal>) {
        match result {
            // Once more: something may have changed meanwhile.
            Ok(_) => self.followers.queue.push_back(seid),
            Err(Refusal::NotFound | Refusal::Gone) => {}
            // It would not compile: its rules stay as they are.
            Err(Refusal::Rule { .. }) => self.counters.stale_applications += 1,
            Err(_) => self.followers.later.push_back((now + RETRY, seid)),
        }
        self.follow_pfds(now);
    }
}

/// The applications that PDRs detect and that quotas exempt.
fn applications(rules: &SessionRules) -> impl Iterator<Item = &Application> {
    let detected = rules.pdrs().iter().filter_map(|pdr| pdr.pdi.application.as_ref());
    let urrs = rules.urrs().iter();
    detected.chain(urrs.flat_map(|urr| &urr.terms().exempt_applications))
}

fn is_stale(rules: &SessionRules, pfds: &Pfds) -> bool {
    applications(rules).any(|application| pfds.renewed(application).is_some())
}

/// The updates of PDRs and URRs whose applications are not what they were.
fn renewal(rules: &SessionRules, pfds: &Pfds) -> Changes {
    let update = |pdr: &rules::model::Pdr| {
        let renewed = pfds.renewed(pdr.pdi.application.as_ref()?)?;
        let pdi = PdiUpdate {
            application: Edit::Set(renewed),
            ..PdiUpdate::default()
        };
        Some(PdrUpdate {
            pdi: Some(pdi),
            ..PdrUpdate::new(pdr.id)
        })
    };
    Changes {
        update_pdrs: rules.pdrs().iter().filter_map(update).collect(),
        update_urrs: rules
            .urrs()
            .iter()
            .filter_map(|urr| renewed_exemption(urr, pfds))
            .collect(),
        ..Changes::default()
    }
}

/// The update of a URR whose exempt applications are not what they were.
fn renewed_exemption(urr: &Urr, pfds: &Pfds) -> Option<UrrUpdate> {
    let mut applications = urr.terms().exempt_applications.clone();
    let mut is_other = false;
    for application in &mut applications {
        if let Some(renewed) = pfds.renewed(application) {
            (*application, is_other) = (renewed, true);
        }
    }
    let terms = UrrTermsUpdate {
        exempt_applications: Some(applications),
        ..UrrTermsUpdate::default()
    };
    is_other.then(|| UrrUpdate {
        terms: Some(Box::new(terms)),
        ..UrrUpdate::new(urr.id)
    })
}
