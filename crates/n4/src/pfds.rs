//! Packet Flow Descriptions: what applications are known by (TS 29.244 §6.2.5), for all sessions of all control planes.
//!
//! An application's packets are those that any of its PFDs describes; a PFD has flow descriptions, URLs and domain
//! names. Names are looked for in what packets carry: where nothing is inspected, a request with any is refused whole,
//! so that no application counts as detected that is not. So is custom content, of which none is known, and a domain
//! name that is to be looked for in DNS or in certificates. Belongs to the endpoint; the sessions' PDRs have copies,
//! which [`pfd_management`](crate::pfd_management) keeps up to date.

use pfcp::IeType;
use pfcp::group::{ApplicationIdsPfds, PfdContext};
use pfcp::ie::{Cause, Octets16, PfdContents};
use pfcp::message::PfdManagementRequest;
use rules::model::{Application, NameKind, NamePattern, NamedPfd, NamedPfds};
use rules::sdf::FlowDescription;
use session::ApplicationRecord;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cause::Reject;

/// Applications at most.
pub(crate) const MOST_APPLICATIONS: usize = 4_096;
/// Flow descriptions of one application at most.
const MOST_FLOWS: usize = 256;
/// URLs and domain names of one application at most, their octets, and the number of those of all of them.
const MOST_NAMES: usize = 4_096;
const MOST_NAME_OCTETS: usize = 512 << 10;
const MOST_NAMES_IN_ALL: usize = 262_144;
/// Regular expressions among those of all of them at most.
const MOST_EXPRESSIONS: usize = 1_024;

const BAD: Reject = Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::PFD_CONTENTS);
const NOT_SUPPORTED: Reject = Reject::ie(Cause::SERVICE_NOT_SUPPORTED, IeType::PFD_CONTENTS);

/// What one application is known by.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct KnownBy {
    /// The PFDs without names, together.
    flows: Arc<[FlowDescription]>,
    named: Arc<NamedPfds>,
}

/// URLs and domain names.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Names {
    all: usize,
    expressions: usize,
}

impl Names {
    fn of<'a>(known: impl Iterator<Item = &'a KnownBy>) -> Self {
        let pfds = known.flat_map(|known| known.named.all());
        pfds.flat_map(|pfd| pfd.urls.iter().chain(&pfd.domains))
            .fold(Self::default(), |sum, name| Self {
                all: sum.all + 1,
                expressions: sum.expressions + usize::from(name.is_expression()),
            })
    }

    fn are_too_many(self) -> bool {
        self.all > MOST_NAMES_IN_ALL || self.expressions > MOST_EXPRESSIONS
    }
}

impl KnownBy {
    fn new(pfds: Vec<NamedPfd>, seed: u64) -> Self {
        let has_names = |pfd: &NamedPfd| !pfd.urls.is_empty() || !pfd.domains.is_empty();
        let (named, unnamed): (Vec<_>, Vec<_>) = pfds.into_iter().partition(has_names);
        Self {
            flows: unnamed.into_iter().flat_map(|pfd| pfd.flows).collect(),
            named: Arc::new(NamedPfds::new(named, seed)),
        }
    }

    fn is_nothing(&self) -> bool {
        self.flows.is_empty() && self.named.all().is_empty()
    }

    fn application(&self, id: &Arc<[u8]>) -> Application {
        Application {
            id: Arc::clone(id),
            flows: Arc::clone(&self.flows),
            named: Arc::clone(&self.named),
        }
    }

    /// As it is recorded.
    pub(crate) fn record(&self, id: &[u8]) -> ApplicationRecord {
        ApplicationRecord {
            id: id.to_vec(),
            flows: self.flows.iter().map(ToString::to_string).collect(),
            named: self.named.all().iter().map(ToString::to_string).collect(),
        }
    }
}

/// All applications that have PFDs.
#[derive(Debug)]
pub(crate) struct Pfds {
    applications: BTreeMap<Arc<[u8]>, KnownBy>,
    /// Counts the requests that changed something.
    version: u64,
    /// Of hashes over names that peers choose.
    seed: u64,
}

/// What a request changes: what each application that it names is known by; nothing: it is forgotten.
pub(crate) struct Provision {
    named: BTreeMap<Arc<[u8]>, KnownBy>,
    forgets_all: bool,
}

impl Pfds {
    /// None. `seed` is of hashes over names that peers choose.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            applications: BTreeMap::new(),
            version: 0,
            seed,
        }
    }

    /// Reads a request to its end before anything changes. `inspects`: flows are looked into for names.
    ///
    /// # Errors
    /// Cause 76 for what is not understood, 69 for what cannot be read, each with the IE; 75 for too many.
    pub(crate) fn read(
        &self,
        request: &PfdManagementRequest<'_>,
        inspects: bool,
    ) -> Result<Provision, Reject> {
        let mut named = BTreeMap::new();
        for one in request.application_ids_pfds.iter() {
            let pfds = pfds(&one, inspects)?;
            named.insert(Arc::from(one.application_id.0), KnownBy::new(pfds, self.seed));
        }
        Ok(Provision {
            named,
            forgets_all: request.application_ids_pfds.is_empty(),
        })
    }

    /// The application with this identifier.
    pub(crate) fn application(&self, id: &[u8]) -> Option<Application> {
        let (id, known) = self.applications.get_key_value(id)?;
        Some(known.application(id))
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&[u8], &KnownBy)> {
        let all = self.applications.iter();
        all.map(|(id, known)| (id.as_ref(), known))
    }

    /// Lets an application be known as a record says. Answers whether there is room for it; `None`: the record cannot
    /// be read.
    pub(crate) fn restore(&mut self, record: &ApplicationRecord) -> Option<bool> {
        let flows = record.flows.iter().map(|text| text.parse().ok());
        let named: Option<Vec<NamedPfd>> = record.named.iter().map(|text| text.parse().ok()).collect();
        let known = KnownBy {
            flows: flows.collect::<Option<_>>()?,
            named: Arc::new(NamedPfds::new(named?, self.seed)),
        };
        let names = Names::of(std::iter::once(&known));
        let is_full =
            self.applications.len() >= MOST_APPLICATIONS && !self.applications.contains_key(&*record.id);
        if known.flows.len() > MOST_FLOWS || names.all > MOST_NAMES || is_full {
            return Some(false);
        }
        let before = self.applications.insert(record.id.as_slice().into(), known);
        if Names::of(self.applications.values()).are_too_many() {
            match before {
                Some(before) => self.applications.insert(record.id.as_slice().into(), before),
                None => self.applications.remove(&*record.id),
            };
            return Some(false);
        }
        self.version += 1;
        Some(true)
    }

    /// Another number after each change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// What `application` is now, if that is something else.
    pub(crate) fn renewed(&self, application: &Application) -> Option<Application> {
        let known = self
            .applications
            .get(&application.id)
            .cloned()
            .unwrap_or_default();
        let is_same =
            Arc::ptr_eq(&known.flows, &application.flows) && Arc::ptr_eq(&known.named, &application.named);
        let now = known.application(&application.id);
        (!is_same && now != *application).then_some(now)
    }

    /// Changes what a request names.
    ///
    /// # Errors
    /// Cause 75 when there would be too many; nothing has changed then.
    pub(crate) fn provision(&mut self, provision: Provision) -> Result<(), Reject> {
        let kept = self.applications.iter();
        let kept = kept.filter(|(id, _)| !provision.forgets_all && !provision.named.contains_key(*id));
        let after = || {
            kept.clone()
                .map(|(_, known)| known)
                .chain(provision.named.values())
        };
        let count = after().filter(|known| !known.is_nothing()).count();
        if count > MOST_APPLICATIONS || Names::of(after()).are_too_many() {
            return Err(Reject::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        let mut changes = provision.forgets_all && !self.applications.is_empty();
        if provision.forgets_all {
            self.applications.clear();
        }
        for (id, known) in provision.named {
            let after = Some(&known).filter(|known| !known.is_nothing());
            changes |= self.applications.get(&id) != after;
            if known.is_nothing() {
                self.applications.remove(&id);
            } else {
                self.applications.insert(id, known);
            }
        }
        self.version += u64::from(changes);
        Ok(())
    }
}

/// The PFDs of one application.
fn pfds(application: &ApplicationIdsPfds<'_>, inspects: bool) -> Result<Vec<NamedPfd>, Reject> {
    let mut all = Vec::new();
    let (mut flows, mut names, mut octets) = (0, 0, 0);
    for context in application.pfd_context.iter() {
        let pfd = pfd(&context)?;
        flows += pfd.flows.len();
        names += pfd.urls.len() + pfd.domains.len();
        let texts = pfd.urls.iter().chain(&pfd.domains);
        octets += texts.map(|name| name.text().len()).sum::<usize>();
        if names > 0 && !inspects {
            return Err(NOT_SUPPORTED);
        }
        if flows > MOST_FLOWS || names > MOST_NAMES || octets > MOST_NAME_OCTETS {
            return Err(Reject::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        all.push(pfd);
    }
    Ok(all)
}

/// One PFD: all its contents together.
fn pfd(context: &PfdContext<'_>) -> Result<NamedPfd, Reject> {
    let mut pfd = NamedPfd::default();
    for contents in context.pfd_contents.iter() {
        read(&contents, &mut pfd)?;
    }
    Ok(pfd)
}

fn read(contents: &PfdContents<'_>, pfd: &mut NamedPfd) -> Result<(), Reject> {
    if contents.custom_pfd_content.is_some() {
        return Err(NOT_SUPPORTED);
    }
    let size = |pfd: &NamedPfd| pfd.flows.len() + pfd.urls.len() + pfd.domains.len();
    let before = size(pfd);
    for text in each(contents.flow_description, contents.additional_flow_description)? {
        pfd.flows.push(FlowDescription::parse(text).map_err(|_| BAD)?);
    }
    for text in each(contents.url, contents.additional_url)? {
        pfd.urls.push(name(NameKind::Url, text)?);
    }
    for (text, protocol) in domains(contents)? {
        pfd.domains.push(name(kind(protocol)?, text)?);
    }
    // Contents that say nothing describe nothing.
    if size(pfd) > before { Ok(()) } else { Err(BAD) }
}

/// A field and the strings of the additional one, at most as many as an application may have.
fn each<'a>(
    first: Option<Octets16<'a>>,
    more: Option<Octets16<'a>>,
) -> Result<impl Iterator<Item = &'a [u8]>, Reject> {
    let more = more.map(strings).transpose()?.unwrap_or_default();
    Ok(first.map(|first| first.0).into_iter().chain(more))
}

/// The strings of an additional field, none of which may be cut.
fn strings(field: Octets16<'_>) -> Result<Vec<&[u8]>, Reject> {
    let all: Vec<&[u8]> = field.strings().collect();
    let octets: usize = all.iter().map(|one| 2 + one.len()).sum();
    (octets == field.0.len()).then_some(all).ok_or(BAD)
}

/// The domain names, each with the protocol that it is to be looked for in.
fn domains<'a>(contents: &PfdContents<'a>) -> Result<Vec<(&'a [u8], &'a [u8])>, Reject> {
    let protocol = contents.domain_name_protocol.map(|protocol| protocol.0);
    let mut all = Vec::new();
    match (contents.domain_name, protocol) {
        (Some(name), protocol) => all.push((name.0, protocol.unwrap_or_default())),
        (None, Some(_)) => return Err(BAD),
        (None, None) => {}
    }
    let more = contents.additional_domain_name_and_protocol;
    let more = more.map(strings).transpose()?.unwrap_or_default();
    let (pairs, rest) = more.as_chunks();
    all.extend(pairs.iter().map(|[name, protocol]| (*name, *protocol)));
    rest.is_empty().then_some(all).ok_or(BAD)
}

/// Of a domain name with this protocol (TS 29.251 §6.4.3.10).
fn kind(protocol: &[u8]) -> Result<NameKind, Reject> {
    match protocol {
        b"" => Ok(NameKind::Domain),
        b"TLS_SNI" => Ok(NameKind::ServerName),
        b"DNS_QNAME" | b"TLS_SAN" | b"TLS_SCN" => Err(NOT_SUPPORTED),
        _ => Err(BAD),
    }
}

fn name(kind: NameKind, text: &[u8]) -> Result<NamePattern, Reject> {
    NamePattern::parse(kind, text).map_err(|_| BAD)
}
