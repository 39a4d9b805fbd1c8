//! PFD Management (TS 29.244 §6.2.5.3), and how sessions follow.
//!
//! The request is answered at once; the sessions whose PDRs name a changed application are changed after it, some at a
//! time, each as by a modification without a response. A PDR of an application that has lost its last PFD detects
//! nothing until there are new ones.

use flow::Nanos;
use pfcp::Repeated;
use pfcp::group::PfdPartialFailureInformation;
use pfcp::ie::{ApplicationId, Cause};
use pfcp::message::{PfdManagementRequest, PfdManagementResponse};
use rules::model::{Application, Edit, PdiUpdate, PdrUpdate, SessionRules, Urr, UrrTermsUpdate, UrrUpdate};
use session::{Changes, Done, Refusal, Seid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::cause::Reject;
use crate::endpoint_state::Shared;
use crate::flow_descriptions::Descriptions;
use crate::pfds::{FailedPfds, Pfds};
use crate::transactions::Request;

/// Sessions that are changed at a time.
const MOST_AT_A_TIME: usize = 256;
/// After how long a session is tried again that could not be changed.
const RETRY: Duration = Duration::from_secs(1);

/// What a PFD Partial Failure Information takes beside its Application ID, and what all of a response may take.
const FAILURE_OCTETS: usize = 13;
const MOST_FAILURE_OCTETS: usize = 60_000;

/// The PFDs, and the sessions that are yet to follow a change of them.
#[derive(Debug)]
pub(crate) struct PfdManagement {
    pub(crate) pfds: Pfds,
    /// Flow descriptions that were parsed before.
    pub(crate) descriptions: Descriptions,
    queue: VecDeque<Seid>,
    /// Those under way, by the number of their tickets.
    under_way: BTreeMap<u64, Seid>,
    /// Those that are tried again.
    later: VecDeque<(Nanos, Seid)>,
    /// All sessions whose PDRs or URRs name applications, and some that have ended.
    naming: BTreeSet<Seid>,
}

impl PfdManagement {
    /// `seed` is of a hash over texts that peers choose.
    pub(crate) fn new(seed: u64, configured: &[Application]) -> PfdManagement {
        let mut pfds = Pfds::new(seed);
        pfds.configure(configured);
        PfdManagement {
            pfds,
            descriptions: Descriptions::new(seed),
            queue: VecDeque::new(),
            under_way: BTreeMap::new(),
            later: VecDeque::new(),
            naming: BTreeSet::new(),
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.later.front().map(|(at, _)| *at)
    }

    /// The session that a ticket is about.
    pub(crate) fn followed(&mut self, ticket: session::Ticket) -> Option<Seid> {
        self.under_way.remove(&ticket.0)
    }

    /// PFD Management: all of it or nothing; for control planes that take partial acceptance, whole applications of it
    /// (PAPFD, §5.42).
    pub(crate) fn serve_pfds(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        request: Request,
        sent: &PfdManagementRequest<'_>,
    ) {
        let before = self.pfds.version();
        let provisioned = shared
            .check_known(request, sent.node_id)
            .and_then(|()| shared.check_keeping())
            .and_then(|()| self.provision(shared, request, sent));
        if self.pfds.version() != before {
            shared.journal.applications_changed();
        }
        let failed = match provisioned {
            Ok(failed) => failed,
            Err(reject) => return shared.reject_request(now, request, reject),
        };
        let failed: Vec<_> = failed
            .iter()
            .map(|one| PfdPartialFailureInformation::new(ApplicationId(one.id), one.cause()))
            .collect();
        let node = shared.config.node.clone();
        let mut response = PfdManagementResponse::new(match failed.is_empty() {
            true => Cause::REQUEST_ACCEPTED,
            false => Cause::REQUEST_PARTIALLY_ACCEPTED,
        });
        response.node_id = Some(node.as_ie());
        response.pfd_partial_failure_information = Repeated::new(&failed);
        shared.respond(now, request, &response);
        if self.pfds.version() == before {
            return;
        }
        self.follow_change(shared, now);
    }

    /// Takes what can be taken of a request, and gives the applications that cannot.
    ///
    /// # Errors
    /// None can be, the sender takes all or nothing, or there would be too many.
    fn provision<'a>(
        &mut self,
        shared: &Shared,
        request: Request,
        sent: &PfdManagementRequest<'a>,
    ) -> Result<Vec<FailedPfds<'a>>, Reject> {
        let (provision, failed) = self.pfds.read(sent, shared.config.inspects)?;
        let takes_part = || {
            let octets: usize = failed.iter().map(|one| FAILURE_OCTETS + one.id.len()).sum();
            octets <= MOST_FAILURE_OCTETS && shared.takes_partial_pfds(request, sent.node_id)
        };
        if let Some(first) = failed.first()
            && (provision.is_empty() || !takes_part())
        {
            return Err(first.reject);
        }
        self.pfds.provision(provision)?;
        Ok(failed)
    }

    /// Applications are those of the configuration, and those that control planes describe.
    pub(crate) fn configure(&mut self, shared: &mut Shared, now: Nanos) {
        let before = self.pfds.version();
        self.pfds.configure(&shared.config.applications);
        if self.pfds.version() != before {
            self.follow_change(shared, now);
        }
    }

    /// Has all sessions follow that name an application which is not what it was.
    fn follow_change(&mut self, shared: &mut Shared, now: Nanos) {
        self.forget_ended_followers(shared);
        let stale = |seid: &&Seid| {
            let session = shared.sessions.session(**seid);
            session.is_some_and(|session| is_stale(session.rules(), &self.pfds))
        };
        self.queue = self.naming.iter().filter(stale).copied().collect();
        self.follow_pfds(shared, now);
    }

    /// A session may name applications now that it did not, or no more.
    pub(crate) fn note_applications(&mut self, shared: &mut Shared, seid: Seid) {
        let session = shared.sessions.session(seid);
        let names = session.is_some_and(|session| applications(session.rules()).next().is_some());
        if !names {
            self.naming.remove(&seid);
        } else if self.naming.insert(seid)
            && self.naming.len() > 2 * shared.sessions.count().sessions.max(MOST_AT_A_TIME)
        {
            self.forget_ended_followers(shared);
        }
    }

    fn forget_ended_followers(&mut self, shared: &mut Shared) {
        let sessions = &shared.sessions;
        let naming = &mut self.naming;
        naming.retain(|seid| sessions.session(*seid).is_some());
    }

    /// A session is here again: what its applications are known by may have changed meanwhile.
    pub(crate) fn arrived(&mut self, shared: &mut Shared, now: Nanos, seid: Seid) {
        self.note_applications(shared, seid);
        let session = shared.sessions.session(seid);
        if session.is_some_and(|session| is_stale(session.rules(), &self.pfds)) {
            self.queue.push_back(seid);
            self.follow_pfds(shared, now);
        }
    }

    /// A request about a session was read at this version of the PFDs and is done: they may have changed since.
    pub(crate) fn check_pfds(&mut self, shared: &mut Shared, now: Nanos, seid: Seid, version: u64) {
        if version != self.pfds.version() {
            self.queue.push_back(seid);
            self.follow_pfds(shared, now);
        }
    }

    /// Lets sessions follow, as many as may at a time.
    pub(crate) fn follow_pfds(&mut self, shared: &mut Shared, now: Nanos) {
        while let Some((_, seid)) = self.later.pop_front_if(|(at, _)| *at <= now) {
            self.queue.push_back(seid);
        }
        while self.under_way.len() < MOST_AT_A_TIME
            && let Some(seid) = self.queue.pop_front()
        {
            let session = shared.sessions.session(seid);
            let changes = session
                .map(|session| renewal(session.rules(), &self.pfds))
                .unwrap_or_default();
            if changes.update_pdrs.is_empty() && changes.update_urrs.is_empty() {
                continue;
            }
            let ticket = shared.new_ticket();
            self.under_way.insert(ticket.0, seid);
            shared.sessions.modify(now, ticket, seid, None, changes);
        }
    }

    /// A session has followed, or could not.
    pub(crate) fn follow_up(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        seid: Seid,
        result: Result<Done, Refusal>,
    ) {
        match result {
            // Once more: something may have changed meanwhile.
            Ok(_) => self.queue.push_back(seid),
            Err(Refusal::NotFound | Refusal::Gone) => {}
            // It would not compile: its rules stay as they are.
            Err(Refusal::Rule { .. }) => shared.counters.stale_applications += 1,
            Err(_) => self.later.push_back((now + RETRY, seid)),
        }
        self.follow_pfds(shared, now);
    }
}

/// The applications that PDRs detect and that quotas exempt.
fn applications(rules: &SessionRules) -> impl Iterator<Item = &Application> {
    let detected = rules
        .pdrs()
        .iter()
        .filter_map(|pdr| pdr.pdi.optional.application.as_ref());
    let urrs = rules.urrs().iter();
    detected.chain(urrs.flat_map(|urr| &urr.terms().exempt_applications))
}

/// Gives rules of a record what their applications are known by now; names are not in the record.
pub(crate) fn renew(rules: &mut Arc<SessionRules>, pfds: &Pfds) {
    let changes = renewal(rules, pfds);
    if changes.update_pdrs.is_empty() && changes.update_urrs.is_empty() {
        return;
    }
    let rules = Arc::make_mut(rules);
    // They name what is there, so none is refused.
    for change in changes.update_pdrs {
        let _ = rules.update_pdr(change);
    }
    for change in changes.update_urrs {
        let _ = rules.update_urr(change);
    }
}

fn is_stale(rules: &SessionRules, pfds: &Pfds) -> bool {
    applications(rules).any(|application| pfds.renewed(application).is_some())
}

/// The updates of PDRs and URRs whose applications are not what they were.
fn renewal(rules: &SessionRules, pfds: &Pfds) -> Changes {
    let update = |pdr: &rules::model::Pdr| {
        let renewed = pfds.renewed(pdr.pdi.optional.application.as_ref()?)?;
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
