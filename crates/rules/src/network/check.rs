//! What a network instance may not say.

use std::net::IpAddr;

use packet::martian::is_martian;

use super::error::NetworkError;
use super::instance::{Instance, Roles};
use crate::prefix::IpPrefix;

/// The first contradiction of an instance in itself.
pub(super) fn check(instance: &Instance) -> Result<(), NetworkError> {
    if instance.roles.intersects(Roles::N6) && instance.roles.intersects(Roles::GTPU) {
        return Err(NetworkError::MixedRoles(instance.name.clone()));
    }
    check_prefix_lengths(instance)?;
    check_routes(instance)?;
    if let Some(prefix) = instance.impossible_ue_prefix() {
        return Err(NetworkError::UePrefix(instance.name.clone(), prefix));
    }
    check_duplicates(instance)
}

fn check_prefix_lengths(instance: &Instance) -> Result<(), NetworkError> {
    let v4 = instance.ipv4.map(|(address, len)| (IpAddr::V4(address), len));
    let v6 = instance.ipv6.map(|(address, len)| (IpAddr::V6(address), len));
    for (address, len) in v4.into_iter().chain(v6) {
        if IpPrefix::new(address, len).is_none() {
            return Err(NetworkError::PrefixLength {
                instance: instance.name.clone(),
                address,
                len,
            });
        }
    }
    Ok(())
}

/// A next hop is a neighbour: another node on the link, or an IPv6 link-local address.
fn check_routes(instance: &Instance) -> Result<(), NetworkError> {
    for &route in &instance.routes {
        let same_family = route.prefix.is_ipv4() == route.next_hop.is_ipv4();
        let link_local = matches!(route.next_hop, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let on_link = link_local || instance.connected().any(|prefix| prefix.contains(route.next_hop));
        let is_node = !is_martian(route.next_hop) && !instance.takes(route.next_hop);
        if !same_family || !on_link || !is_node {
            return Err(NetworkError::NextHop {
                instance: instance.name.clone(),
                route,
            });
        }
    }
    Ok(())
}

fn check_duplicates(instance: &Instance) -> Result<(), NetworkError> {
    for (place, route) in instance.routes.iter().enumerate() {
        if instance.routes[..place].contains(route) {
            return Err(NetworkError::RouteTwice {
                instance: instance.name.clone(),
                route: *route,
            });
        }
    }
    Ok(())
}
