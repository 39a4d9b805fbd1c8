//! What rules of rulebases and of access lists ask of packets: the alternatives that one rule of the configuration
//! stands for.

use std::collections::HashMap;

use dpi::{Protocol, Protocols};
use ndpi::Library;
use rules::model::{DetectionPattern, HostRule, SdfFilter, TosTrafficClass};
use serde_saphyr::Spanned;

use super::domain_lists::{CategoryNumbers, categories};
use super::inspection::check_protocols;
use crate::error::Fault;
use crate::schema::{ApplicationConfig, Flow, Host, ProtocolConfig};

/// The applications of the configuration, by name.
pub(super) type Applications<'a> = HashMap<&'a str, &'a ApplicationConfig>;

/// The conditions of a rule as they are configured.
#[derive(Clone, Copy)]
pub(super) struct Conditions<'a> {
    pub flows: &'a [Flow],
    pub tos: Option<[u8; 2]>,
    pub hosts: &'a [Host],
    pub categories: &'a [Spanned<String>],
    pub protocols: &'a [Spanned<ProtocolConfig>],
    pub applications: &'a [Spanned<String>],
    pub confirmed_by_dns: Option<&'a Spanned<bool>>,
}

/// What the names in conditions stand for.
pub(super) struct Named<'a> {
    pub applications: Applications<'a>,
    pub categories: CategoryNumbers<'a>,
    /// The library of nDPI.
    pub ndpi: Option<&'a Library>,
    /// There are resolvers whose answers count.
    pub heeds_resolvers: bool,
}

/// One alternative: what a packet has to have of both.
pub(super) type Alternative = (Vec<SdfFilter>, DetectionPattern);

impl Conditions<'_> {
    /// What is enough for a packet to be of the rule. One alternative is for hosts, of the rule and of its
    /// applications; others are for the protocols and for the flow descriptions of these.
    pub fn alternatives(&self, known: &Named<'_>) -> Vec<Alternative> {
        let named = || {
            let named = self.applications.iter();
            named.filter_map(|name| known.applications.get(&*name.value).copied())
        };
        // `check` has found that each is there.
        let categories = categories(self.categories, &known.categories).unwrap_or_default();
        let protocols = protocols(self.protocols, known.ndpi);
        let hosts = self.hosts.iter().chain(named().flat_map(|one| &one.hosts));
        let hosts: Vec<HostRule> = hosts.map(|host| host.0.clone()).collect();
        let own_flows = filters(&self.flows.iter().collect::<Vec<_>>(), self.tos);
        let mut all = Vec::new();
        if self.applications.is_empty() || !hosts.is_empty() || !categories.is_empty() {
            let pattern = DetectionPattern {
                hosts,
                categories,
                protocols,
                is_confirmed: self.confirmed_by_dns.is_some_and(|confirmed| confirmed.value),
            };
            all.push((own_flows.clone(), pattern));
        }
        let theirs: Protocols = named()
            .flat_map(|one| &one.protocols)
            .filter_map(|one| one.value.protocol(known.ndpi).ok())
            .filter(|one| protocols.is_empty() || protocols.contains(*one))
            .collect();
        let of_protocols = |protocols| DetectionPattern {
            protocols,
            ..DetectionPattern::default()
        };
        if !theirs.is_empty() {
            all.push((own_flows, of_protocols(theirs)));
        }
        let flows: Vec<&Flow> = named().flat_map(|one| &one.flows).collect();
        if !flows.is_empty() {
            all.push((filters(&flows, self.tos), of_protocols(protocols)));
        }
        all
    }

    /// Finds the first category, protocol or application that is not there, or whose flow descriptions would be beside
    /// those of the rule; and hosts that nothing confirms.
    pub fn check(&self, known: &Named<'_>) -> Result<(), Fault> {
        let is_unknown = |name: &&Spanned<String>| !known.categories.contains_key(&*name.value);
        if let Some(name) = self.categories.iter().find(is_unknown) {
            let fault = format!("categories: no domain list is of the category `{}`", name.value);
            return Err(Fault::new(name, fault));
        }
        check_protocols(self.protocols, known.ndpi)?;
        for name in self.applications {
            let Some(application) = known.applications.get(&*name.value) else {
                let fault = format!("applications: no application is named `{}`", name.value);
                return Err(Fault::new(name, fault));
            };
            if !self.flows.is_empty() && !application.flows.is_empty() {
                let fault = format!(
                    "applications: `{}` has flows, which may not be beside those of the rule",
                    name.value
                );
                return Err(Fault::new(name, fault));
            }
        }
        let confirmed = self.confirmed_by_dns.filter(|confirmed| confirmed.value);
        let fault = self.unconfirmed(known);
        match confirmed.zip(fault) {
            Some((confirmed, fault)) => Err(Fault::new(confirmed, format!("confirmed_by_dns: {fault}"))),
            None => Ok(()),
        }
    }

    /// Why resolvers confirm none of its hosts.
    fn unconfirmed(&self, known: &Named<'_>) -> Option<&'static str> {
        let mut named = self.applications.iter();
        let of_application = |name: &Spanned<String>| known.applications.get(&*name.value);
        let has_hosts = !self.hosts.is_empty()
            || !self.categories.is_empty()
            || named.any(|name| of_application(name).is_some_and(|one| !one.hosts.is_empty()));
        if !known.heeds_resolvers {
            return Some("there is no resolver to confirm hosts; inspection.resolvers names them");
        }
        if !has_hosts {
            return Some("the rule has no hosts and no categories");
        }
        let is_of_dns = names_dns(self.protocols);
        is_of_dns.then_some("what DNS asks for is no host of a flow, and confirmed by nothing")
    }
}

/// The filters for packets of these flows, or if there are none, of all that have this TOS or Traffic Class.
fn filters(flows: &[&Flow], tos: Option<[u8; 2]>) -> Vec<SdfFilter> {
    let tos_traffic_class = tos.map(|[value, mask]| TosTrafficClass { value, mask });
    let filter = |flow: Option<&Flow>| SdfFilter {
        flow_description: flow.map(|flow| flow.0.clone()),
        tos_traffic_class,
        ..SdfFilter::default()
    };
    let mut filters: Vec<SdfFilter> = flows.iter().map(|flow| filter(Some(flow))).collect();
    if filters.is_empty() && tos.is_some() {
        filters.push(filter(None));
    }
    filters
}

/// The set of these: `check` has found that nDPI knows those that are its business.
pub(super) fn protocols(protocols: &[Spanned<ProtocolConfig>], ndpi: Option<&Library>) -> Protocols {
    let protocols = protocols.iter();
    protocols
        .filter_map(|one| one.value.protocol(ndpi).ok())
        .collect()
}

/// Whether DNS is among them.
pub(super) fn names_dns(protocols: &[Spanned<ProtocolConfig>]) -> bool {
    let mut protocols = protocols.iter();
    protocols.any(|one| one.value == ProtocolConfig::Own(Protocol::Dns))
}
