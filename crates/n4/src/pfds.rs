//! Packet Flow Descriptions: what applications are known by (TS 29.244 §6.2.5), for all sessions of all control planes.
//!
//! An application's packets are those that any of its PFDs describes; a PFD has flow descriptions, URLs and domain
//! names. Names are looked for in what packets carry: where nothing is inspected, an application with any is refused,
//! so that none counts as detected that is not. So is one with custom content, of which none is known, or a domain
//! name that is to be looked for in certificates. Belongs to the endpoint; the sessions' PDRs have copies,
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
/// Octets of an identifier at most.
const LONGEST_ID: usize = 256;
/// Flow descriptions of one application at most.
const MOST_FLOWS: usize = 256;
/// URLs and domain names of one application at most, their octets, and the number of those of all of them.
const MOST_NAMES: usize = 4_096;
const MOST_NAME_OCTETS: usize = 512 << 10;
const MOST_NAMES_IN_ALL: usize = 262_144;
/// Regular expressions among the names of one application at most: a packet is held against all of them. Among those of
/// a request, for which automata are made at once; and among those of all applications.
const MOST_EXPRESSIONS: usize = 32;
const MOST_EXPRESSIONS_AT_ONCE: usize = 128;
const MOST_EXPRESSIONS_IN_ALL: usize = 1_024;

const BAD: Reject = Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::PFD_CONTENTS);
const FULL: Reject = Reject::of(Cause::NO_RESOURCES_AVAILABLE);
const NOT_SUPPORTED: Reject = Reject::ie(Cause::SERVICE_NOT_SUPPORTED, IeType::PFD_CONTENTS);

/// What one application is known by. As long as that stays the same, these are: sessions are compared by them.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct KnownBy {
    /// The PFDs without names, together.
    flows: Arc<[FlowDescription]>,
    named: Arc<NamedPfds>,
    names: Names,
}

/// URLs and domain names.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Names {
    all: usize,
    expressions: usize,
}

impl Names {
    /// Those of an application.
    fn of(named: &NamedPfds) -> Self {
        let names = named
            .all()
            .iter()
            .flat_map(|pfd| pfd.urls.iter().chain(&pfd.domains));
        names.fold(Self::default(), |sum, name| Self {
            all: sum.all + 1,
            expressions: sum.expressions + usize::from(name.is_expression()),
        })
    }

    /// Those of all of these.
    fn of_all<'a>(known: impl Iterator<Item = &'a KnownBy>) -> Self {
        known.fold(Self::default(), |sum, known| sum.and(known.names))
    }

    fn and(self, others: Self) -> Self {
        Self {
            all: self.all + others.all,
            expressions: self.expressions + others.expressions,
        }
    }

    fn are_too_many(self) -> bool {
        self.all > MOST_NAMES_IN_ALL || self.expressions > MOST_EXPRESSIONS_IN_ALL
    }
}

impl KnownBy {
    fn new(pfds: Vec<NamedPfd>, seed: u64) -> Self {
        let has_names = |pfd: &NamedPfd| !pfd.urls.is_empty() || !pfd.domains.is_empty();
        let (named, unnamed): (Vec<_>, Vec<_>) = pfds.into_iter().partition(has_names);
        let flows = unnamed.into_iter().flat_map(|pfd| pfd.flows).collect();
        Self::of(flows, Arc::new(NamedPfds::new(named, seed)))
    }

    fn of(flows: Arc<[FlowDescription]>, named: Arc<NamedPfds>) -> Self {
        let names = Names::of(&named);
        Self { flows, named, names }
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

    fn summary<'a>(&self, id: &'a [u8], is_configured: bool) -> ApplicationSummary<'a> {
        let named = self.named.all();
        ApplicationSummary {
            id,
            is_configured,
            flows: self.flows.len() + named.iter().map(|pfd| pfd.flows.len()).sum::<usize>(),
            urls: named.iter().map(|pfd| pfd.urls.len()).sum(),
            domains: named.iter().map(|pfd| pfd.domains.len()).sum(),
            expressions: self.names.expressions,
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

/// An application, and how many of each kind of description it is known by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ApplicationSummary<'a> {
    /// Its identifier: octets.
    pub id: &'a [u8],
    /// Whether it is of the configuration.
    pub is_configured: bool,
    /// Flow descriptions.
    pub flows: usize,
    /// URLs.
    pub urls: usize,
    /// Domain names.
    pub domains: usize,
    /// Regular expressions among these.
    pub expressions: usize,
}

/// All applications that have PFDs.
#[derive(Debug)]
pub(crate) struct Pfds {
    applications: BTreeMap<Arc<[u8]>, KnownBy>,
    /// Those of the configuration, which are distinct from the others (TS 29.244 §6.2.5.1).
    configured: BTreeMap<Arc<[u8]>, KnownBy>,
    /// Counts what changed something.
    version: u64,
    /// Of hashes over names that peers choose.
    seed: u64,
}

/// What a request changes: what each application that it names is known by; nothing: it is forgotten.
pub(crate) struct Provision {
    named: BTreeMap<Arc<[u8]>, KnownBy>,
    forgets_all: bool,
}

/// An application of a request whose PFDs are not taken, and why: as of all of the request, and of this one alone.
#[derive(Clone, Copy)]
pub(crate) struct FailedPfds<'a> {
    pub(crate) id: &'a [u8],
    pub(crate) reject: Reject,
}

impl FailedPfds<'_> {
    /// The Failure Cause of PFD Partial Failure Information (TS 29.244 §8.2.1).
    pub(crate) fn cause(&self) -> Cause {
        match self.reject {
            BAD => Cause::PFD_CONTENTS_SYNTAX_ERROR,
            reject => reject.cause,
        }
    }
}

impl Provision {
    /// Whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && !self.forgets_all
    }
}

impl Pfds {
    /// None. `seed` is of hashes over names that peers choose.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            applications: BTreeMap::new(),
            configured: BTreeMap::new(),
            version: 0,
            seed,
        }
    }

    /// From now on these are configured, and no others.
    pub(crate) fn configure(&mut self, applications: &[Application]) {
        let known = |one: &Application| KnownBy::of(Arc::clone(&one.flows), Arc::clone(&one.named));
        let before = &self.configured;
        let kept = |one: &Application| {
            before
                .get(&one.id)
                .filter(|before| **before == known(one))
                .cloned()
        };
        let configured = applications.iter();
        let configured: BTreeMap<_, _> = configured
            .map(|one| (Arc::clone(&one.id), kept(one).unwrap_or_else(|| known(one))))
            .collect();
        self.version += u64::from(*before != configured);
        self.configured = configured;
    }

    /// Reads a request to its end before anything changes; gives the applications that fail beside the others.
    /// `inspects`: flows are looked into for names.
    ///
    /// # Errors
    /// Too many regular expressions: 75. An application fails by cause 76 for what is not understood, 69 for what
    /// cannot be read or is configured here, each with the IE; 75 for too many.
    pub(crate) fn read<'a>(
        &self,
        request: &PfdManagementRequest<'a>,
        inspects: bool,
    ) -> Result<(Provision, Vec<FailedPfds<'a>>), Reject> {
        let counts = request.application_ids_pfds.iter().map(|one| count(&one));
        let all = counts.fold(Names::default(), Names::and);
        if all.expressions > MOST_EXPRESSIONS_AT_ONCE {
            return Err(FULL);
        }
        let mut named = BTreeMap::new();
        let mut failed = Vec::new();
        for one in request.application_ids_pfds.iter() {
            let id = one.application_id.0;
            match self.known_by(&one, inspects) {
                Ok(known) => _ = named.insert(Arc::from(id), known),
                Err(reject) => failed.push(FailedPfds { id, reject }),
            }
        }
        // One that is there twice is taken whole or not at all.
        for FailedPfds { id, .. } in &failed {
            named.remove(*id);
        }
        let provision = Provision {
            named,
            forgets_all: request.application_ids_pfds.is_empty(),
        };
        Ok((provision, failed))
    }

    /// What an application of a request is known by.
    fn known_by(&self, application: &ApplicationIdsPfds<'_>, inspects: bool) -> Result<KnownBy, Reject> {
        let id = application.application_id.0;
        if self.configured.contains_key(id) || id.len() > LONGEST_ID {
            return Err(Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::APPLICATION_ID));
        }
        Ok(KnownBy::new(pfds(application, inspects)?, self.seed))
    }

    /// The application with this identifier.
    pub(crate) fn application(&self, id: &[u8]) -> Option<Application> {
        let configured = self.configured.get_key_value(id);
        let (id, known) = configured.or_else(|| self.applications.get_key_value(id))?;
        Some(known.application(id))
    }

    /// All of them, those of the configuration first, for views.
    pub(crate) fn summaries(&self) -> impl Iterator<Item = ApplicationSummary<'_>> {
        let configured = self.configured.iter().map(|(id, known)| known.summary(id, true));
        configured.chain(self.all().map(|(id, known)| known.summary(id, false)))
    }

    /// All that control planes describe.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&[u8], &KnownBy)> {
        let all = self.applications.iter();
        all.map(|(id, known)| (id.as_ref(), known))
    }

    /// Lets an application be known as a record says. Answers whether there is room for it; `None`: the record cannot
    /// be read.
    pub(crate) fn restore(&mut self, record: &ApplicationRecord) -> Option<bool> {
        let flows = record.flows.iter().map(|text| text.parse().ok());
        let named: Option<Vec<NamedPfd>> = record.named.iter().map(|text| text.parse().ok()).collect();
        let known = KnownBy::of(
            flows.collect::<Option<_>>()?,
            Arc::new(NamedPfds::new(named?, self.seed)),
        );
        let others = self.applications.iter().filter(|(id, _)| ***id != *record.id);
        let others: Vec<_> = others.map(|(_, known)| known).collect();
        let names = Names::of_all(others.iter().copied()).and(known.names);
        let is_full = others.len() >= MOST_APPLICATIONS || names.are_too_many();
        if known.flows.len() > MOST_FLOWS || known.names.all > MOST_NAMES || is_full {
            return Some(false);
        }
        self.applications.insert(record.id.as_slice().into(), known);
        self.version += 1;
        Some(true)
    }

    /// Another number after each change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// What `application` is now, if that is something else.
    pub(crate) fn renewed(&self, application: &Application) -> Option<Application> {
        let configured = self.configured.get(&application.id);
        let Some(known) = configured.or_else(|| self.applications.get(&application.id)) else {
            let is_nothing = application.flows.is_empty() && application.named.all().is_empty();
            return (!is_nothing).then(|| KnownBy::default().application(&application.id));
        };
        let is_same =
            Arc::ptr_eq(&known.flows, &application.flows) && Arc::ptr_eq(&known.named, &application.named);
        (!is_same).then(|| known.application(&application.id))
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
        if count > MOST_APPLICATIONS || Names::of_all(after()).are_too_many() {
            return Err(FULL);
        }
        let mut changes = provision.forgets_all && !self.applications.is_empty();
        if provision.forgets_all {
            self.applications.clear();
        }
        for (id, known) in provision.named {
            let after = Some(&known).filter(|known| !known.is_nothing());
            if self.applications.get(&id) == after {
                continue;
            }
            changes = true;
            match known.is_nothing() {
                true => self.applications.remove(&id),
                false => self.applications.insert(id, known),
            };
        }
        self.version += u64::from(changes);
        Ok(())
    }
}

/// How many names an application has in a request, before any of them is read.
fn count(application: &ApplicationIdsPfds<'_>) -> Names {
    let mut names = Names::default();
    for context in application.pfd_context.iter() {
        for contents in context.pfd_contents.iter() {
            let more = contents.additional_url.into_iter().flat_map(Octets16::strings);
            let urls = contents.url.into_iter().map(|text| text.0).chain(more);
            let pairs = contents.additional_domain_name_and_protocol.into_iter();
            let more = pairs.flat_map(Octets16::strings).step_by(2);
            let domains = contents.domain_name.into_iter().map(|text| text.0).chain(more);
            let all = urls.map(|text| (NameKind::Url, text));
            for (kind, text) in all.chain(domains.map(|text| (NameKind::Domain, text))) {
                names.all += 1;
                names.expressions += usize::from(NamePattern::is_written_as_expression(kind, text));
            }
        }
    }
    names
}

/// The PFDs of one application.
fn pfds(application: &ApplicationIdsPfds<'_>, inspects: bool) -> Result<Vec<NamedPfd>, Reject> {
    let Names {
        all: names,
        expressions,
    } = count(application);
    if names > 0 && !inspects {
        return Err(NOT_SUPPORTED);
    }
    if names > MOST_NAMES || expressions > MOST_EXPRESSIONS {
        return Err(FULL);
    }
    let mut all = Vec::new();
    let (mut flows, mut octets) = (0, 0);
    for context in application.pfd_context.iter() {
        let pfd = pfd(&context)?;
        flows += pfd.flows.len();
        let texts = pfd.urls.iter().chain(&pfd.domains);
        octets += texts.map(|name| name.text().len()).sum::<usize>();
        if flows > MOST_FLOWS || octets > MOST_NAME_OCTETS {
            return Err(FULL);
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
    for [text, protocol] in domains(contents)? {
        pfd.domains.push(name(kind(protocol)?, text)?);
    }
    // Contents that say nothing describe nothing.
    if size(pfd) > before { Ok(()) } else { Err(BAD) }
}

/// A field and the strings of the additional one.
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
fn domains<'a>(contents: &PfdContents<'a>) -> Result<Vec<[&'a [u8]; 2]>, Reject> {
    let protocol = contents.domain_name_protocol.map(|protocol| protocol.0);
    let mut all = Vec::new();
    match (contents.domain_name, protocol) {
        (Some(name), protocol) => all.push([name.0, protocol.unwrap_or_default()]),
        (None, Some(_)) => return Err(BAD),
        (None, None) => {}
    }
    let more = contents.additional_domain_name_and_protocol;
    let more = more.map(strings).transpose()?.unwrap_or_default();
    let (pairs, rest) = more.as_chunks();
    all.extend_from_slice(pairs);
    rest.is_empty().then_some(all).ok_or(BAD)
}

/// Of a domain name with this protocol (TS 29.251 §6.4.3.10).
fn kind(protocol: &[u8]) -> Result<NameKind, Reject> {
    match protocol {
        b"" => Ok(NameKind::Domain),
        b"TLS_SNI" => Ok(NameKind::ServerName),
        b"DNS_QNAME" => Ok(NameKind::QueryName),
        b"TLS_SAN" | b"TLS_SCN" => Err(NOT_SUPPORTED),
        _ => Err(BAD),
    }
}

fn name(kind: NameKind, text: &[u8]) -> Result<NamePattern, Reject> {
    NamePattern::parse(kind, text).map_err(|_| BAD)
}
