//! What flows are found to be, and what rules ask of that, at random.

use std::sync::Arc;

use dpi::domain_lists::{Categories, CategoryId, DomainLists, DomainListsBuilder};
use dpi::{HostName, NdpiId, NdpiProtocol, Protocol, Protocols};
use proptest::prelude::*;

use crate::model::{DetectionPattern, HostRule};
use crate::packet_view::{DetectedFlow, Detection, NameSource};

/// What rules ask of flows, which those of [`any_detection`] often are.
pub(super) fn any_detection_pattern() -> BoxedStrategy<DetectionPattern> {
    let host = prop::sample::select(&["a.example", "*.example", "*.b.example", "192.0.2.1"][..]);
    let path = prop::sample::select(&["", "/", "/video"][..]);
    let rule = (host, path)
        .prop_map(|(host, path)| HostRule::parse(&format!("{host}{path}")).expect("a host and a path"));
    let hosts = prop_oneof![1 => Just(Vec::new()), 3 => prop::collection::vec(rule, 1..3)];
    let protocols = prop_oneof![2 => Just(Protocols::NONE), 1 => any_protocols()];
    let categories = prop_oneof![3 => Just(0u64), 1 => 1..8u64].prop_map(Categories::from_bits);
    let pattern = (hosts, protocols, categories, prop::bool::weighted(0.3));
    let pattern = pattern.prop_map(|(hosts, protocols, categories, is_confirmed)| DetectionPattern {
        hosts,
        categories,
        protocols,
        is_confirmed,
    });
    prop_oneof![2 => Just(DetectionPattern::default()), 1 => pattern].boxed()
}

/// One or two protocols.
pub(super) fn any_protocols() -> BoxedStrategy<Protocols> {
    let protocols = prop::collection::vec(any_protocol(), 1..3);
    protocols
        .prop_map(|protocols| protocols.into_iter().collect())
        .boxed()
}

/// Some are nDPI's, alone or one over another.
fn any_protocol() -> BoxedStrategy<Protocol> {
    let id = || prop::sample::select(&[1, 37, 119][..]).prop_filter_map("a number", NdpiId::new);
    let of_ndpi = (id(), prop::option::of(id())).prop_map(|(application, carrier)| {
        Protocol::Ndpi(NdpiProtocol {
            application,
            carrier: carrier.filter(|carrier| *carrier != application),
        })
    });
    prop_oneof![7 => prop::sample::select(&Protocol::ALL[..]), 2 => of_ndpi].boxed()
}

/// Lists of the domains that those of [`any_detection`] are, or are below, in the categories 0, 1 and 2.
pub(super) fn domain_lists() -> Arc<DomainLists> {
    let mut builder = DomainListsBuilder::new(7);
    for (category, name) in [
        (0, "a.example"),
        (1, "b.example"),
        (2, "a.example"),
        (2, "192.0.2.1"),
    ] {
        let category = CategoryId::new(category).expect("less than 64");
        let name = HostName::parse(name.as_bytes()).expect("a host");
        builder.add(category, &name).expect("there is room");
    }
    Arc::new(builder.build().expect("few"))
}

/// What is known of a flow, with the memory for it.
#[derive(Clone, Debug)]
pub enum OwnedDetection {
    /// Nothing yet, or nothing at all.
    None(bool),
    /// A protocol, and perhaps a name and a path, and who gives the name.
    Found(Protocol, Option<Box<HostName>>, Option<&'static [u8]>, NameSource),
    /// A name by an answer of DNS; of a flow of which nothing else will be known, or not yet.
    Resolved(Box<HostName>, bool),
}

impl OwnedDetection {
    /// The same, borrowed.
    pub fn borrowed(&self) -> Detection<'_> {
        match self {
            Self::None(false) => Detection::Undecided,
            Self::None(true) => Detection::Undetected,
            Self::Found(protocol, name, path, source) => Detection::Found(DetectedFlow {
                protocol: Some(*protocol),
                name: name.as_deref(),
                path: *path,
                source: *source,
            }),
            Self::Resolved(name, is_final) => {
                let flow = DetectedFlow {
                    protocol: None,
                    name: Some(name),
                    path: None,
                    source: NameSource::Resolver,
                };
                match is_final {
                    true => Detection::Found(flow),
                    false => Detection::Presumed(flow),
                }
            }
        }
    }
}

/// What is known of flows, which rules of [`any_predefined`] often ask for.
pub fn any_detection() -> BoxedStrategy<OwnedDetection> {
    let host = prop::sample::select(&["a.example", "example", "c.b.example", "nexample", "192.0.2.1"][..]);
    let host = host.prop_map(|host| Box::new(HostName::parse(host.as_bytes()).expect("a host")));
    let path = prop::sample::select(vec![None, Some(&b"/"[..]), Some(b"/video/1")]);
    let resolved = (host.clone(), any::<bool>());
    let resolved = resolved.prop_map(|(host, is_final)| OwnedDetection::Resolved(host, is_final));
    let source = prop::sample::select(&[NameSource::Client, NameSource::Confirmed, NameSource::Resolver][..]);
    let found = (any_protocol(), prop::option::weighted(0.8, host), path, source);
    let found = found.prop_map(|(protocol, host, path, source)| {
        // What DNS asks for is its client's word.
        let source = if protocol == Protocol::Dns {
            NameSource::Client
        } else {
            source
        };
        let is_by_client = source != NameSource::Resolver;
        let path = path.filter(|_| protocol == Protocol::Http1 && host.is_some() && is_by_client);
        OwnedDetection::Found(protocol, host, path, source)
    });
    prop_oneof![1 => any::<bool>().prop_map(OwnedDetection::None), 1 => resolved, 4 => found].boxed()
}
