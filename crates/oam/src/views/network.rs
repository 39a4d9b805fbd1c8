//! Routes and neighbours: where packets go, and whether the next hops are alive.

use std::collections::HashSet;
use std::net::IpAddr;

use flow::{InstanceId, VrfId};
use rules::network::{Instance, UeRoute};
use rules::prefix::IpPrefix;
use transport::{NeighbourView, OwnAddressView};

use super::page::page;
use crate::values::{NeighbourList, NeighbourRow, NextHopRow, OwnAddressRow, RouteKind, RouteList, RouteRow};
use upf::Control;

/// Neighbours behind the slot `after`, `most` of them.
#[must_use]
pub fn neighbours(control: &Control, after: Option<u32>, most: usize) -> NeighbourList {
    let table = control.neighbour_table();
    let from = after.map_or(0, |after| after.saturating_add(1));
    let (rows, next) = page(table.neighbours.views(table.now, from), most, |one| one.id.0);
    let own = table.neighbours.own_addresses().filter(|_| after.is_none());
    NeighbourList {
        own_addresses: own.map(|own| own_address_row(control, &own)).collect(),
        neighbours: rows.iter().map(|one| neighbour_row(control, one)).collect(),
        next,
        total: table.neighbours.len(),
    }
}

fn own_address_row(control: &Control, view: &OwnAddressView) -> OwnAddressRow {
    let instance = control.network().instance(view.instance);
    OwnAddressRow {
        instance: instance.map(name).unwrap_or_default(),
        address: view.address.to_string(),
        port: instance.map_or_else(String::new, |one| control.port_links().name(one.port)),
        vlan: instance.and_then(|one| Some(one.vlan?.to_string())),
        mac: view.mac.to_string(),
        state: view.state.name().into(),
        conflicts: view.conflicts,
    }
}

fn neighbour_row(control: &Control, view: &NeighbourView) -> NeighbourRow {
    let instance = control.network().instance(view.instance);
    NeighbourRow {
        id: view.id.0,
        instance: instance.map(name).unwrap_or_default(),
        address: view.address.to_string(),
        port: instance.map_or_else(String::new, |one| control.port_links().name(one.port)),
        vlan: instance.and_then(|one| Some(one.vlan?.to_string())),
        mac: view.mac.map(|mac| mac.to_string()),
        state: view.state.word().into(),
        age_ms: view.age.map(|age| age.as_millis() as u64),
        asked: view.asked,
        wanted_by: view.wanted_by.into(),
    }
}

/// Routes behind the one with the number `after`, `most` of them: of each VRF its connected prefixes, static routes,
/// prefixes of UEs. Of equal prefixes the one that counts.
#[must_use]
pub fn routes(control: &Control, after: Option<u32>, most: usize) -> RouteList {
    let routes = all_routes(control);
    let total = routes.len();
    let behind = routes.into_iter().zip(0..);
    let behind = behind.filter(|(_, number)| after.is_none_or(|after| *number > after));
    let (rows, next) = page(behind, most, |(_, number)| *number);
    RouteList {
        routes: rows
            .into_iter()
            .map(|(route, _)| route_row(control, route))
            .collect(),
        next,
        total,
    }
}

fn all_routes(control: &Control) -> Vec<Found<'_>> {
    let instances = control.network().instances();
    let connected = instances.iter().flat_map(|instance| {
        let found = move |prefix| Found::new(instance, prefix, RouteKind::Connected);
        instance.connected().map(found)
    });
    let of_routers = instances.iter().flat_map(|instance| {
        let found = |route: &rules::network::Route| {
            let mut found = Found::new(instance, route.prefix, RouteKind::Static);
            found.next_hops = next_hops(control, instance, route);
            found
        };
        instance.routes.iter().map(found)
    });
    let of_ues = instances.iter().flat_map(|instance| {
        control.network().ue_routes(instance).map(move |(prefix, way)| {
            let kind = match way {
                UeRoute::Ourselves(_) => RouteKind::Ues,
                UeRoute::Nowhere => RouteKind::Nowhere,
            };
            Found::new(instance, prefix, kind)
        })
    });
    let mut known = HashSet::new();
    let mut all: Vec<Found<'_>> = connected
        .chain(of_routers)
        .chain(of_ues)
        .filter(|found| known.insert((found.instance.vrf, found.prefix)))
        .collect();
    all.sort_by_key(|found| found.instance.vrf.0);
    all
}

/// All routers that a route has packets of.
fn next_hops(
    control: &Control,
    instance: &Instance,
    route: &rules::network::Route,
) -> Vec<(InstanceId, IpAddr)> {
    let group = control.network().group_of(instance.vrf, route.prefix);
    let group = group.and_then(|id| control.network().groups().get(usize::from(id.0)));
    group.map_or_else(|| vec![(instance.id, route.next_hop)], |group| group.to_vec())
}

fn route_row(control: &Control, found: Found<'_>) -> RouteRow {
    let VrfId(vrf) = found.instance.vrf;
    let hops = found.next_hops.iter();
    RouteRow {
        vrf,
        prefix: found.prefix.to_string(),
        kind: found.kind,
        instance: name(found.instance),
        next_hops: hops
            .map(|&(instance, address)| next_hop_row(control, instance, address))
            .collect(),
    }
}

fn next_hop_row(control: &Control, instance: InstanceId, address: IpAddr) -> NextHopRow {
    let table = control.neighbour_table();
    let view = table.neighbours.view(table.now, instance, address);
    NextHopRow {
        address: address.to_string(),
        instance: control.network().instance(instance).map(name).unwrap_or_default(),
        alive: view.is_some_and(|view| view.state.is_alive()),
        state: view
            .map_or("no room in the neighbour table", |view| view.state.word())
            .into(),
        mac: view.and_then(|view| view.mac).map(|mac| mac.to_string()),
        age_ms: view.and_then(|view| view.age).map(|age| age.as_millis() as u64),
    }
}

/// A route before it is shown.
struct Found<'a> {
    instance: &'a Instance,
    prefix: IpPrefix,
    kind: RouteKind,
    next_hops: Vec<(InstanceId, IpAddr)>,
}

impl<'a> Found<'a> {
    const fn new(instance: &'a Instance, prefix: IpPrefix, kind: RouteKind) -> Self {
        Self {
            instance,
            prefix,
            kind,
            next_hops: Vec::new(),
        }
    }
}

fn name(instance: &Instance) -> String {
    instance.name.to_string()
}
