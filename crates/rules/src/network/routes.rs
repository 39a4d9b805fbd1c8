//! The routing tables that links and static routes make: plain scans over the instances.

use std::net::IpAddr;

use flow::{InstanceId, VrfId};

use super::error::NetworkError;
use super::hairpin::UeRoute;
use super::instance::{Instance, Roles};
use super::multipath::{Group, MOST_NEXT_HOPS};
use super::nat::Nat;
use crate::prefix::IpPrefix;

/// The longest prefix of links and static routes towards a destination.
#[derive(Clone, Copy)]
pub(super) struct LongestPrefix {
    pub(super) length: u8,
    /// The instance whose link it is; `None` for static routes.
    link: Option<InstanceId>,
}

/// The longest prefix of the UEs of an instance towards a destination.
#[derive(Clone, Copy)]
pub(super) struct LongestUePrefix {
    pub(super) length: u8,
    pub(super) instance: InstanceId,
    pub(super) route: UeRoute,
}

/// The longest prefix of links and static routes in `vrf` that holds `destination`; of equal ones the first, links
/// first.
pub(super) fn longest_prefix(
    instances: &[Instance],
    vrf: VrfId,
    destination: IpAddr,
) -> Option<LongestPrefix> {
    let links = members(instances, vrf)
        .flat_map(|instance| instance.connected().map(|prefix| (prefix, Some(instance.id))));
    let routes = members(instances, vrf).flat_map(|instance| &instance.routes);
    let all = links.chain(routes.map(|route| (route.prefix, None)));
    let mut best: Option<LongestPrefix> = None;
    for (prefix, link) in all.filter(|(prefix, _)| prefix.contains(destination)) {
        if best.is_none_or(|best| prefix.len() > best.length) {
            let length = prefix.len();
            best = Some(LongestPrefix { length, link });
        }
    }
    best
}

/// The same of the prefixes of UEs.
pub(super) fn longest_ue_prefix(
    instances: &[Instance],
    nat: &Nat,
    vrf: VrfId,
    destination: IpAddr,
) -> Option<LongestUePrefix> {
    let mut best: Option<LongestUePrefix> = None;
    for instance in members(instances, vrf) {
        let routes = instance.ue_routes().chain(nat.ue_routes(instance));
        for (prefix, route) in routes.filter(|(prefix, _)| prefix.contains(destination)) {
            let length = prefix.len();
            if best.is_none_or(|best| length > best.length) {
                let instance = instance.id;
                best = Some(LongestUePrefix {
                    length,
                    instance,
                    route,
                });
            }
        }
    }
    best
}

/// Where packets to `destination` go in `vrf`: the instances that they leave by and the next hops. The longest prefix
/// wins; of equal ones the first connected link, where the destination is its own next hop, else all static routes
/// share its packets.
pub(super) fn next_hops(
    instances: &[Instance],
    vrf: VrfId,
    destination: IpAddr,
) -> impl Iterator<Item = (InstanceId, IpAddr)> + '_ {
    let longest = longest_prefix(instances, vrf, destination);
    let link = longest.and_then(|longest| longest.link);
    let length = longest
        .filter(|longest| longest.link.is_none())
        .map(|longest| longest.length);
    let routed = members(instances, vrf).flat_map(move |instance| {
        let routes = instance
            .routes
            .iter()
            .filter(move |route| Some(route.prefix.len()) == length && route.prefix.contains(destination));
        routes.map(|route| (instance.id, route.next_hop))
    });
    link.map(|link| (link, destination)).into_iter().chain(routed)
}

/// The next hops of all static routes to a prefix.
pub(super) fn routes_to(
    instances: &[Instance],
    vrf: VrfId,
    prefix: IpPrefix,
) -> impl Iterator<Item = (InstanceId, IpAddr)> + '_ {
    members(instances, vrf).flat_map(move |instance| {
        let routes = instance.routes.iter().filter(move |route| route.prefix == prefix);
        routes.map(|route| (instance.id, route.next_hop))
    })
}

/// The groups of next hops: those of each prefix that has several, each group once.
pub(super) fn groups(instances: &[Instance]) -> Result<Vec<Group>, NetworkError> {
    let mut groups = Vec::new();
    let routed = instances
        .iter()
        .flat_map(|instance| instance.routes.iter().map(|route| (instance.vrf, route.prefix)));
    for (vrf, prefix) in routed {
        let group: Group = routes_to(instances, vrf, prefix).collect();
        if group.len() > MOST_NEXT_HOPS {
            return Err(NetworkError::NextHops(vrf, prefix));
        }
        let leads_out = |&(id, _): &(InstanceId, IpAddr)| {
            let instance = instances.get(usize::from(id.0));
            instance.is_some_and(|instance| instance.roles.intersects(Roles::N6))
        };
        if group.iter().any(leads_out) && !group.iter().all(leads_out) {
            return Err(NetworkError::MixedNextHops(vrf, prefix));
        }
        if group.len() > 1 && !groups.contains(&group) {
            groups.push(group);
        }
    }
    Ok(groups)
}

/// The instances in an address space.
fn members(instances: &[Instance], vrf: VrfId) -> impl Iterator<Item = &Instance> {
    instances.iter().filter(move |instance| instance.vrf == vrf)
}
