//! The network as the host says it: instances, routes, adjacencies, path MTUs. Instances and routes are collected, and
//! change what packets meet together.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use flow::contract::{self, InstanceUses, Refusal, RoutePrefix, RouteTarget, TooLong};
use flow::{AdjacencyId, InstanceId, LocalId, PortId, VrfId};
use packet::{Dscp, MacAddr, Qfi, VlanId, VlanTags};
use rules::network::{DscpMark, DscpTable, Fragmentation, Hairpin, Instance, Mss, Network, Roles};
use transport::{Adjacency, AdjacencyChange, Routes};

use crate::accelerator::engine::Engine;
use crate::io::Io;

/// Address spaces have numbers below this: each one has tables of routes.
const VRFS: u16 = 1_024;
/// Where an instance is whose number is not used: no port has this number.
const NOWHERE: PortId = PortId(0x3ff);

/// What the host has said.
#[derive(Default)]
pub(super) struct HostNetwork {
    instances: BTreeMap<InstanceId, contract::Instance>,
    routes: BTreeMap<VrfId, HashMap<RoutePrefix, RouteTarget>>,
    adjacencies: HashMap<AdjacencyId, contract::Adjacency>,
    /// The adjacency that was given last of each neighbour.
    neighbours: HashMap<(InstanceId, IpAddr), AdjacencyId>,
    has_other_instances: bool,
    has_other_routes: bool,
}

impl HostNetwork {
    /// An instance comes, changes or goes.
    ///
    /// # Errors
    /// [`Refusal::Unsupported`]: the engine has no such port, or the instance contradicts itself or another.
    pub fn change_instance(
        &mut self,
        id: InstanceId,
        told: Option<&contract::Instance>,
        is_port: impl Fn(PortId) -> bool,
    ) -> Result<(), Refusal> {
        match told {
            Some(told) => {
                let alone = instance_of(InstanceId(0), told).filter(|instance| is_port(instance.port));
                let is_right = alone.is_some_and(|instance| Network::new(vec![instance]).is_ok());
                if !is_right || self.has_another(id, told) {
                    return Err(Refusal::Unsupported);
                }
                self.instances.insert(id, told.clone());
            }
            None => drop(self.instances.remove(&id)),
        }
        self.has_other_instances = true;
        Ok(())
    }

    /// Whether another instance has an address of this one, or its number.
    fn has_another(&self, id: InstanceId, told: &contract::Instance) -> bool {
        let mut seen: Vec<(IpAddr, LocalId)> = Vec::new();
        let others = self.instances.iter().filter(|(other, _)| **other != id);
        seen.extend(others.flat_map(|(_, other)| own_addresses(other)));
        own_addresses(told).any(|own| {
            let is_taken = seen.iter().any(|other| other.0 == own.0 || other.1 == own.1);
            seen.push(own);
            is_taken
        })
    }

    /// A route comes, changes or goes.
    ///
    /// # Errors
    /// [`Refusal::Unsupported`]: its address space has a number beyond those that there can be, or its prefix has no
    /// such length.
    pub fn change_route(&mut self, prefix: RoutePrefix, target: Option<RouteTarget>) -> Result<(), Refusal> {
        let most = if prefix.prefix.is_ipv4() { 32 } else { 128 };
        if prefix.vrf.0 >= VRFS || prefix.length > most {
            return Err(Refusal::Unsupported);
        }
        let routes = self.routes.entry(prefix.vrf).or_default();
        match target {
            Some(target) => drop(routes.insert(prefix, target)),
            None => drop(routes.remove(&prefix)),
        }
        self.has_other_routes = true;
        Ok(())
    }

    /// An adjacency comes, changes or goes, at once. One whose instance is not there yet leads nowhere until it is.
    pub fn change_adjacency<I: Io>(
        &mut self,
        engine: &mut Engine<I>,
        id: AdjacencyId,
        told: Option<contract::Adjacency>,
    ) {
        if let Some(old) = self.adjacencies.remove(&id) {
            let neighbour = neighbour_of(&old).filter(|of| self.neighbours.get(of) == Some(&id));
            if let Some(neighbour) = &neighbour {
                self.neighbours.remove(neighbour);
            }
            engine.change_adjacency(&AdjacencyChange {
                id,
                neighbour,
                adjacency: None,
            });
        }
        if let Some(told) = told {
            self.adjacencies.insert(id, told);
            if let Some(neighbour) = neighbour_of(&told) {
                self.neighbours.insert(neighbour, id);
            }
            give(engine, id, &told);
        }
    }

    /// What was collected is what packets meet from now on.
    pub fn settle<I: Io>(&mut self, engine: &mut Engine<I>) {
        if std::mem::take(&mut self.has_other_instances) {
            self.give_instances(engine);
        }
        if std::mem::take(&mut self.has_other_routes) {
            let all = self.routes.values().flatten();
            let all = all.map(|(prefix, target)| contract::Route {
                prefix: *prefix,
                target: *target,
            });
            engine.change_routes(Routes::of_host(all));
        }
    }

    fn give_instances<I: Io>(&self, engine: &mut Engine<I>) {
        let end = self.instances.keys().next_back().map_or(0, |last| last.0 + 1);
        let all = (0..end).map(InstanceId).map(|id| {
            let told = self.instances.get(&id);
            told.and_then(|told| instance_of(id, told))
                .unwrap_or_else(|| vacant(id))
        });
        // Each of them was looked at when it came.
        let Ok(network) = Network::new(all.collect()) else {
            return;
        };
        let macs = self.instances.iter().map(|(id, told)| (*id, MacAddr(told.mac)));
        let numbers: HashMap<IpAddr, LocalId> = self.instances.values().flat_map(own_addresses).collect();
        engine.change_interfaces(Arc::new(network), macs, |address| numbers.get(&address).copied());
        for (id, told) in &self.adjacencies {
            // Of a neighbour with two adjacencies the last one counts.
            let is_last = neighbour_of(told).is_none_or(|of| self.neighbours.get(&of) == Some(id));
            let told = contract::Adjacency {
                address: told.address.filter(|_| is_last),
                ..*told
            };
            give(engine, *id, &told);
        }
    }
}

/// Gives an adjacency to the engine, if its instance is there.
fn give<I: Io>(engine: &mut Engine<I>, id: AdjacencyId, told: &contract::Adjacency) {
    let Some(interface) = engine.interface(told.instance) else {
        return;
    };
    let adjacency = match told.mac {
        // Packets to an own address come in again.
        Some(_) if told.address.is_some_and(|address| interface.has(address)) => {
            Adjacency::to_ourselves(interface)
        }
        Some(mac) => Adjacency::resolved(interface, MacAddr(mac)),
        None => Adjacency::unresolved(interface),
    };
    engine.change_adjacency(&AdjacencyChange {
        id,
        neighbour: neighbour_of(told),
        adjacency: Some(adjacency),
    });
}

fn neighbour_of(told: &contract::Adjacency) -> Option<(InstanceId, IpAddr)> {
    Some((told.instance, told.address?))
}

/// The own addresses of an instance, with their numbers.
fn own_addresses(told: &contract::Instance) -> impl Iterator<Item = (IpAddr, LocalId)> + use<> {
    let v4 = told.ipv4.map(|own| (IpAddr::V4(own.address), own.local));
    let v6 = told.ipv6.map(|own| (IpAddr::V6(own.address), own.local));
    v4.into_iter().chain(v6)
}

/// An instance, if it can be one.
fn instance_of(id: InstanceId, told: &contract::Instance) -> Option<Instance> {
    let vlan = match told.vlans {
        [None, None] => None,
        [None, Some(_)] => return None,
        [Some(outer), inner] => Some(VlanTags {
            outer: VlanId::new(outer)?,
            inner: match inner {
                Some(inner) => Some(VlanId::new(inner)?),
                None => None,
            },
            tpid: told.tpid,
        }),
    };
    let role = |of: InstanceUses, roles| match told.uses.contains(of) {
        true => roles,
        false => Roles::default(),
    };
    if told.vrf.0 >= VRFS {
        return None;
    }
    Some(Instance {
        id,
        name: format!("instance {}", id.0),
        roles: role(InstanceUses::TUNNELS, Roles::GTPU).with(role(InstanceUses::PLAIN, Roles::N6)),
        vrf: told.vrf,
        port: told.port,
        vlan,
        mtu: told.mtu,
        ipv4: told.ipv4.map(|own| (own.address, own.length)),
        ipv6: told.ipv6.map(|own| (own.address, own.length)),
        dscp: marks_of(told)?,
        fragmentation: match told.too_long {
            TooLong::FragmentInner => Fragmentation::Inner,
            TooLong::FragmentOuter => Fragmentation::Outer,
            TooLong::Trap => Fragmentation::Never,
        },
        mss: match told.mss {
            contract::Mss::Off => Mss::Off,
            contract::Mss::Auto => Mss::Auto,
            contract::Mss::AtMost(octets) => Mss::AtMost(octets),
        },
        ..vacant(id)
    })
}

/// How its packets are marked; the outer `None` where a mark is out of its bounds.
fn marks_of(told: &contract::Instance) -> Option<Option<DscpTable>> {
    if told.marks.is_empty() {
        return Some(None);
    }
    let mut table = DscpTable::new();
    for mark in &told.marks {
        let of_qfi = DscpMark {
            green: Dscp::new(mark.green)?,
            yellow: Dscp::new(mark.yellow)?,
            pcp: mark.pcp,
        };
        table.set(Qfi::new(mark.qfi).filter(|_| mark.pcp <= 7)?, of_qfi);
    }
    Some(Some(table))
}

/// What is at the place of a number that no instance has.
fn vacant(id: InstanceId) -> Instance {
    Instance {
        id,
        name: format!("vacant {}", id.0),
        roles: Roles::default(),
        vrf: VrfId(0),
        port: NOWHERE,
        vlan: None,
        mtu: 0,
        ipv4: None,
        ipv6: None,
        routes: Vec::new(),
        dscp: None,
        mirror: None,
        hairpin: Hairpin::Router,
        fragmentation: Fragmentation::Inner,
        mss: Mss::Off,
        egress: None,
    }
}
