//! What flows are found to be, and what rules ask of that, at random.

use dpi::{HostName, Protocol, Protocols};
use proptest::prelude::*;

use crate::model::{DetectionPattern, HostRule};
use crate::packet_view::{DetectedFlow, Detection};

/// What rules ask of flows, which those of [`any_detection`] often are.
pub(super) fn any_detection_pattern() -> BoxedStrategy<DetectionPattern> {
    let host = prop::sample::select(&["a.example", "*.example", "*.b.example", "192.0.2.1"][..]);
    let path = prop::sample::select(&["", "/", "/video"][..]);
    let rule = (host, path)
        .prop_map(|(host, path)| HostRule::parse(&format!("{host}{path}")).expect("a host and a path"));
    let hosts = prop_oneof![1 => Just(Vec::new()), 3 => prop::collection::vec(rule, 1..3)];
    let protocols = prop_oneof![2 => Just(Protocols::NONE), 1 => any_protocols()];
    let pattern = (hosts, protocols).prop_map(|(hosts, protocols)| DetectionPattern { hosts, protocols });
    prop_oneof![2 => Just(DetectionPattern::default()), 1 => pattern].boxed()
}

/// One or two protocols.
pub(super) fn any_protocols() -> BoxedStrategy<Protocols> {
    let protocols = prop::collection::vec(any_protocol(), 1..3);
    protocols
        .prop_map(|protocols| protocols.into_iter().collect())
        .boxed()
}

fn any_protocol() -> BoxedStrategy<Protocol> {
    prop::sample::select(&Protocol::ALL[..]).boxed()
}

/// What is known of a flow, with the memory for it.
#[derive(Clone, Debug)]
pub enum OwnedDetection {
    /// Nothing yet, or nothing at all.
    None(bool),
    /// A protocol, and perhaps a name and a path.
    Found(Protocol, Option<Box<HostName>>, Option<&'static [u8]>),
}

impl OwnedDetection {
    /// The same, borrowed.
    pub fn borrowed(&self) -> Detection<'_> {
        match self {
            Self::None(false) => Detection::Undecided,
            Self::None(true) => Detection::Undetected,
            Self::Found(protocol, name, path) => Detection::Found(DetectedFlow {
                protocol: *protocol,
                name: name.as_deref(),
                path: *path,
            }),
        }
    }
}

/// What is known of flows, which rules of [`any_predefined`] often ask for.
pub fn any_detection() -> BoxedStrategy<OwnedDetection> {
    let host = prop::sample::select(&["a.example", "example", "c.b.example", "nexample", "192.0.2.1"][..]);
    let host = host.prop_map(|host| Box::new(HostName::parse(host.as_bytes()).expect("a host")));
    let path = prop::sample::select(vec![None, Some(&b"/"[..]), Some(b"/video/1")]);
    let found = (any_protocol(), prop::option::weighted(0.8, host), path);
    let found = found.prop_map(|(protocol, host, path)| {
        let path = path.filter(|_| protocol == Protocol::Http1 && host.is_some());
        OwnedDetection::Found(protocol, host, path)
    });
    prop_oneof![1 => any::<bool>().prop_map(OwnedDetection::None), 4 => found].boxed()
}
