//! Packet Flow Descriptions: what applications are known by (TS 29.244 §6.2.5), for all sessions of all control planes.
//!
//! Only flow descriptions are understood. URLs and domain names would have to be looked for in what packets carry:
//! a request with any of them is refused whole, so that no application counts as detected that is not. Belongs
//! to the endpoint; the sessions' PDRs have copies, which [`pfd_management`](crate::pfd_management) keeps up to date.

use pfcp::IeType;
use pfcp::group::ApplicationIdsPfds;
use pfcp::ie::{Cause, PfdContents};
use pfcp::message::PfdManagementRequest;
use rules::model::Application;
use rules::sdf::FlowDescription;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cause::Reject;

/// Applications at most.
pub(crate) const MOST_APPLICATIONS: usize = 4_096;
/// Flow descriptions of one application at most.
pub(crate) const MOST_FLOWS: usize = 256;

type Flows = Arc<[FlowDescription]>;

/// All applications that have PFDs.
#[derive(Debug, Default)]
pub(crate) struct Pfds {
    applications: BTreeMap<Arc<[u8]>, Flows>,
    /// Counts the requests that changed something.
    version: u64,
}

/// What a request changes: the flows of each application that it names; none: it is forgotten.
pub(crate) struct Provision {
    named: BTreeMap<Arc<[u8]>, Flows>,
    forgets_all: bool,
}

impl Provision {
    /// Reads a request to its end before anything changes.
    ///
    /// # Errors
    /// Cause 76 for what is not understood, 69 for what cannot be read, each with the IE; 75 for too many.
    pub(crate) fn of(request: &PfdManagementRequest<'_>) -> Result<Provision, Reject> {
        let mut named = BTreeMap::new();
        for one in request.application_ids_pfds.iter() {
            named.insert(Arc::from(one.application_id.0), flows(&one)?);
        }
        Ok(Provision {
            named,
            forgets_all: request.application_ids_pfds.is_empty(),
        })
    }
}

impl Pfds {
    /// The application with this identifier.
    pub(crate) fn application(&self, id: &[u8]) -> Option<Application> {
        let (id, flows) = self.applications.get_key_value(id)?;
        Some(Application {
            id: Arc::clone(id),
            flows: Arc::clone(flows),
        })
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&[u8], &[FlowDescription])> {
        let all = self.applications.iter();
        all.map(|(id, flows)| (id.as_ref(), flows.as_ref()))
    }

    /// Lets an application be known by these. Answers whether there is room for it.
    pub(crate) fn set(&mut self, id: &[u8], flows: Flows) -> bool {
        if self.applications.len() >= MOST_APPLICATIONS && !self.applications.contains_key(id) {
            return false;
        }
        self.applications.insert(Arc::from(id), flows);
        self.version += 1;
        true
    }

    /// Another number after each change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// What `application` is now, if that is something else.
    pub(crate) fn renewed(&self, application: &Application) -> Option<Application> {
        let flows = self
            .applications
            .get(&application.id)
            .cloned()
            .unwrap_or_default();
        (flows != application.flows).then(|| Application {
            id: Arc::clone(&application.id),
            flows,
        })
    }

    /// Changes what a request names.
    ///
    /// # Errors
    /// Cause 75 when there would be too many; nothing has changed then.
    pub(crate) fn provision(&mut self, provision: Provision) -> Result<(), Reject> {
        let is_new = |id: &&Arc<[u8]>| !self.applications.contains_key(*id);
        let new = provision.named.keys().filter(is_new).count();
        if self.applications.len() + new > MOST_APPLICATIONS {
            return Err(Reject::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        let mut changes = provision.forgets_all && !self.applications.is_empty();
        if provision.forgets_all {
            self.applications.clear();
        }
        for (id, flows) in provision.named {
            let after = Some(&flows).filter(|flows| !flows.is_empty());
            changes |= self.applications.get(&id) != after;
            if flows.is_empty() {
                self.applications.remove(&id);
            } else {
                self.applications.insert(id, flows);
            }
        }
        self.version += u64::from(changes);
        Ok(())
    }
}

/// The flows of one application: those of all its PFDs.
fn flows(pfds: &ApplicationIdsPfds<'_>) -> Result<Flows, Reject> {
    let mut all = Vec::new();
    for context in pfds.pfd_context.iter() {
        for contents in context.pfd_contents.iter() {
            read(&contents, &mut all)?;
        }
    }
    Ok(all.into())
}

fn read(contents: &PfdContents<'_>, all: &mut Vec<FlowDescription>) -> Result<(), Reject> {
    let not_understood = [
        contents.url,
        contents.domain_name,
        contents.custom_pfd_content,
        contents.domain_name_protocol,
        contents.additional_url,
        contents.additional_domain_name_and_protocol,
    ];
    if not_understood.iter().any(Option::is_some) {
        return Err(Reject::ie(Cause::SERVICE_NOT_SUPPORTED, IeType::PFD_CONTENTS));
    }
    let bad = Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::PFD_CONTENTS);
    let first = contents.flow_description.into_iter().map(|text| text.0);
    let more = contents.additional_flow_description;
    let before = all.len();
    for text in first.chain(more.into_iter().flat_map(|more| more.strings())) {
        if all.len() >= MOST_FLOWS {
            return Err(Reject::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        all.push(FlowDescription::parse(text).map_err(|_| bad)?);
    }
    // Contents that say nothing describe nothing.
    if all.len() > before { Ok(()) } else { Err(bad) }
}
