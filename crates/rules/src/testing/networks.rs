//! The small network with random treatment of packets.

use flow::PortId;
use packet::{Dscp, Qfi};
use proptest::prelude::*;

use super::{N3, N6, OTHER_N6};
use crate::network::{DscpMark, DscpTable, ForwardingPolicy, Hairpin, InstanceId, Mss, Network, Route};
use crate::prefix::IpPrefix;

/// The port that instances of [`any_network`] mirror to: none of theirs.
pub const MIRROR: PortId = PortId(4);

/// Second routers that [`any_network`] may have: the instance, and where they lead.
const SECOND: [(InstanceId, &str, &str); 3] = [
    (N6, "0.0.0.0/0", "10.0.6.9"),
    (N3, "10.200.0.0/16", "10.0.3.7"),
    (OTHER_N6, "0.0.0.0/0", "10.1.6.9"),
];

/// The network of [`network`](super::network), whose instances may share packets among two routers, may mark some QoS
/// flows with DSCPs, may bound what TCP connections agree on, and may mirror what leaves to [`MIRROR`]; its UEs may or
/// may not reach each other here.
pub fn any_network() -> BoxedStrategy<Network> {
    let flows = prop_oneof![Just(u64::MAX), any::<u64>()];
    let table = prop::option::of((flows, any::<u8>()));
    let mirror = prop::option::weighted(0.2, Just(MIRROR));
    let hairpin = prop::sample::select(vec![
        Hairpin::Router,
        Hairpin::Local(ue_prefixes()),
        Hairpin::Drop(ue_prefixes()),
    ]);
    let mss =
        prop_oneof![4 => Just(Mss::Off), 1 => Just(Mss::Auto), 1 => (536..1500u16).prop_map(Mss::AtMost)];
    let drawn = (
        prop::collection::vec((table, mirror, mss), 4),
        hairpin,
        any::<[bool; 3]>(),
    );
    drawn
        .prop_map(|(drawn, hairpin, seconds)| {
            let mut instances = super::network().instances().to_vec();
            for ((instance, prefix, next_hop), _) in SECOND.into_iter().zip(seconds).filter(|(_, has)| *has) {
                instances[instance.index()].routes.push(Route {
                    prefix: prefix.parse().expect("a prefix"),
                    next_hop: next_hop.parse().expect("an address"),
                });
            }
            instances[N6.index()].hairpin = hairpin;
            for (instance, (marks, mirror, mss)) in instances.iter_mut().zip(drawn) {
                instance.dscp = marks.map(|(flows, first)| table_of(flows, first));
                instance.mirror = mirror;
                instance.mss = mss;
            }
            let network = Network::new(instances)
                .and_then(|network| network.with_policies(policies()))
                .and_then(|network| network.with_events(super::events()));
            network.expect("a network without contradictions")
        })
        .boxed()
}

/// The forwarding policies of [`any_network`]: by another router of N6, and by another data network with a mark.
pub fn policies() -> Vec<ForwardingPolicy> {
    let router = ForwardingPolicy {
        name: "router".into(),
        instance: Some(N6),
        next_hop: "10.0.6.9".parse().ok(),
        dscp: None,
        nat: None,
    };
    let other = ForwardingPolicy {
        name: "other".into(),
        instance: Some(OTHER_N6),
        next_hop: None,
        dscp: Some(Dscp::from_low_bits(34)),
        nat: None,
    };
    vec![router, other]
}

fn ue_prefixes() -> Vec<IpPrefix> {
    let prefixes = ["10.45.0.0/24", "10.60.0.0/16", "2001:db8:45::/48"];
    prefixes.map(|prefix| prefix.parse().expect("a prefix")).to_vec()
}

/// Marks the QoS flows whose bits are set, each in another way.
fn table_of(flows: u64, first: u8) -> DscpTable {
    let mut table = DscpTable::new();
    for qfi in (0..=Qfi::MAX.get()).filter(|qfi| flows >> qfi & 1 != 0) {
        let mark = DscpMark {
            green: Dscp::from_low_bits(first.wrapping_add(qfi)),
            yellow: Dscp::from_low_bits(first.wrapping_sub(qfi)),
            pcp: qfi & 7,
        };
        table.set(Qfi::from_low_bits(qfi), mark);
    }
    table
}
