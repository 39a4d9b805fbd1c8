//! `Hierarchy`: a plan as the tree of a device, its calls, and changes of rates afterwards.

use std::collections::BTreeMap;

use super::plan::wred;
use super::{
    Capabilities, Device, DeviceNodeId, MapError, NodeKind, NodeParams, NodePlace, Plan, ShaperParams,
    ShaperProfileId, SharedShaperId, WredProfileId,
};
use crate::spec::{Aqm, Shaper};

/// What a node of the tree is a copy of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// The port or another shared node, by its place in the plan.
    Node(usize),
    Ue(usize),
    Queue(usize),
}

/// A node that is to be added.
#[derive(Debug)]
struct Planned {
    id: DeviceNodeId,
    place: NodePlace,
    kind: NodeKind,
    /// `None`: a class.
    origin: Option<Origin>,
}

/// A shaper of the plan, and the nodes that have it.
#[derive(Debug)]
struct OwnShaper {
    params: ShaperParams,
    profile: ShaperProfileId,
    /// With several nodes.
    shared: Option<SharedShaperId>,
    nodes: Vec<DeviceNodeId>,
}

/// A plan that a device carries out.
#[derive(Debug)]
pub struct Hierarchy {
    capabilities: Capabilities,
    nodes: Vec<Planned>,
    shapers: BTreeMap<Origin, OwnShaper>,
    plan: Plan,
    next_profile: u32,
}

impl Hierarchy {
    /// Has a device carry out a plan: all of its nodes and profiles are added, and committed.
    ///
    /// # Errors
    /// What the plan contradicts itself by, what the device cannot do, before anything is added; what it refuses.
    pub fn set_up(plan: Plan, device: &mut impl Device) -> Result<Self, MapError> {
        plan.check()?;
        let leaves = device.leaf_nodes();
        Capabilities::allow("leaf nodes", plan.queues.len(), leaves)?;
        let mut hierarchy = Self {
            capabilities: device.capabilities(),
            nodes: Vec::new(),
            shapers: BTreeMap::new(),
            plan,
            next_profile: 0,
        };
        hierarchy.plan_nodes(leaves);
        hierarchy.plan_shapers()?;
        hierarchy.check()?;
        hierarchy.add_to(device)?;
        Ok(hierarchy)
    }

    /// The leaf of a queue of the plan.
    pub const fn leaf(queue: usize) -> DeviceNodeId {
        DeviceNodeId(queue as u32)
    }

    /// The root, then each class, then what has queues of it, each behind its parent.
    fn plan_nodes(&mut self, leaves: u32) {
        let classes = self.plan.classes();
        let root = DeviceNodeId(leaves);
        let place = NodePlace {
            parent: None,
            priority: 0,
            weight: 1,
            level: 0,
        };
        self.push(root, place, classes.len().max(1) as u32, Some(Origin::Node(0)));
        for (priority, class) in classes.into_iter().enumerate() {
            let id = self.unused(leaves);
            let place = NodePlace {
                parent: Some(root),
                priority: priority as u32,
                weight: 1,
                level: 1,
            };
            self.push(id, place, 1, None);
            self.plan_class(class, id, leaves);
        }
    }

    fn unused(&self, leaves: u32) -> DeviceNodeId {
        let non_leaves = self.nodes.iter().filter(|node| node.id.0 >= leaves).count();
        DeviceNodeId(leaves + non_leaves as u32)
    }

    fn push(&mut self, id: DeviceNodeId, place: NodePlace, sp_priorities: u32, origin: Option<Origin>) {
        let kind = NodeKind::NonLeaf { sp_priorities };
        self.nodes.push(Planned {
            id,
            place,
            kind,
            origin,
        });
    }

    /// The copies below the node of a class.
    fn plan_class(&mut self, class: u8, of_class: DeviceNodeId, leaves: u32) {
        let mut copies: BTreeMap<Origin, (DeviceNodeId, u32)> = BTreeMap::new();
        for queue in 0..self.plan.queues.len() {
            let (ue, spec) = self.plan.queues[queue];
            if spec.class.number() != class {
                continue;
            }
            let mut parent = (of_class, 1);
            let shared = self.plan.above(ue).into_iter().rev().map(Origin::Node);
            // A queue that the UE's shaper is not for is beside the UE.
            let own = (!spec.is_exempt).then_some(Origin::Ue(ue));
            for origin in shared.chain(own) {
                parent = match copies.get(&origin) {
                    Some(copy) => *copy,
                    None => {
                        let copy = (self.unused(leaves), parent.1 + 1);
                        let place = NodePlace {
                            parent: Some(parent.0),
                            priority: 0,
                            weight: self.weight(origin),
                            level: copy.1,
                        };
                        self.push(copy.0, place, 1, Some(origin));
                        copies.insert(origin, copy);
                        copy
                    }
                };
            }
            self.plan_leaf(queue, parent);
        }
    }

    fn weight(&self, origin: Origin) -> u32 {
        match origin {
            Origin::Node(node) => self.plan.nodes[node].weight.into(),
            Origin::Ue(_) => 1,
            Origin::Queue(queue) => self.plan.queues[queue].1.weight.into(),
        }
    }

    fn plan_leaf(&mut self, queue: usize, (parent, level): (DeviceNodeId, u32)) {
        let origin = Origin::Queue(queue);
        let place = NodePlace {
            parent: Some(parent),
            priority: 0,
            weight: self.weight(origin),
            level: level + 1,
        };
        let kind = match self.plan.queues[queue].1.aqm {
            Aqm::Wred(profile) => NodeKind::Wred(WredProfileId(profile.0.into())),
            _ => NodeKind::TailDrop,
        };
        self.nodes.push(Planned {
            id: Self::leaf(queue),
            place,
            kind,
            origin: Some(origin),
        });
    }

    /// The shaper of what nodes are copies of; that of the port, which has to have one.
    fn params(&self, origin: Origin) -> Option<ShaperParams> {
        match origin {
            Origin::Node(node) => {
                let of = &self.plan.nodes[node];
                let own = self.plan.shaper(of.shaper, of.overhead);
                let needs = node == 0;
                own.or_else(|| needs.then(|| self.no_limit(of.overhead)))
            }
            Origin::Ue(ue) => self.plan.shaper(self.plan.ues[ue].shaper, 0),
            Origin::Queue(queue) => {
                let rates = self.plan.queues[queue].1.rates?;
                self.plan.shaper(rates.maximum, 0)
            }
        }
    }

    fn no_limit(&self, overhead: u8) -> ShaperParams {
        ShaperParams {
            rate: self.capabilities.shaper_private_rate_max,
            size: u64::from(self.plan.largest) + u64::from(overhead),
            length_adjust: overhead.into(),
        }
    }

    fn plan_shapers(&mut self) -> Result<(), MapError> {
        let mut copies: BTreeMap<Origin, Vec<DeviceNodeId>> = BTreeMap::new();
        for node in &self.nodes {
            if let Some(origin) = node.origin {
                copies.entry(origin).or_default().push(node.id);
            }
        }
        let mut shared = 0;
        for (origin, nodes) in copies {
            let Some(params) = self.params(origin) else {
                continue;
            };
            self.capabilities.allow_shaper(&params, nodes.len() > 1)?;
            let is_shared = nodes.len() > 1;
            let own = OwnShaper {
                params,
                profile: self.new_profile(),
                shared: is_shared.then_some(SharedShaperId(shared)),
                nodes,
            };
            shared += u32::from(is_shared);
            self.shapers.insert(origin, own);
        }
        Ok(())
    }

    const fn new_profile(&mut self) -> ShaperProfileId {
        self.next_profile += 1;
        ShaperProfileId(self.next_profile - 1)
    }

    /// Whether the device has as much as is planned.
    fn check(&self) -> Result<(), MapError> {
        let has = &self.capabilities;
        let levels = self.nodes.iter().map(|node| node.place.level as usize + 1).max();
        let shared = self.shapers.values().filter(|of| of.shared.is_some());
        let nodes_of_one = shared.clone().map(|of| of.nodes.len()).max();
        let mut children: BTreeMap<DeviceNodeId, usize> = BTreeMap::new();
        for parent in self.nodes.iter().filter_map(|node| node.place.parent) {
            *children.entry(parent).or_default() += 1;
        }
        let with_wred = self
            .nodes
            .iter()
            .filter(|node| matches!(node.kind, NodeKind::Wred(_)));
        let with_wred = with_wred.count();
        let private = self.shapers.len() - shared.clone().count();
        let weight = self.nodes.iter().map(|node| node.place.weight as usize).max();
        let (some, most) = (|most: Option<usize>| most.unwrap_or(0), Capabilities::allow);
        most("n_nodes_max", self.nodes.len(), has.n_nodes_max)?;
        most("n_levels_max", some(levels), has.n_levels_max)?;
        most("shaper_private_n_max", private, has.shaper_private_n_max)?;
        most("shaper_shared_n_max", shared.count(), has.shaper_shared_n_max)?;
        let per_shaper = has.shaper_shared_n_nodes_per_shaper_max;
        most(
            "shaper_shared_n_nodes_per_shaper_max",
            some(nodes_of_one),
            per_shaper,
        )?;
        most(
            "sched_n_children_max",
            some(children.into_values().max()),
            has.sched_n_children_max,
        )?;
        most(
            "sched_sp_n_priorities_max",
            self.plan.classes().len(),
            has.sched_sp_n_priorities_max,
        )?;
        most("sched_wfq_weight_max", some(weight), has.sched_wfq_weight_max)?;
        let contexts = match has.cman_wred_byte_mode_supported {
            true => has.cman_wred_context_private_n_max,
            false => 0,
        };
        most("cman_wred_context_private_n_max", with_wred, contexts)
    }

    fn add_to(&self, device: &mut impl Device) -> Result<(), MapError> {
        for (id, profile) in (0..).zip(&self.plan.wred) {
            device.wred_profile_add(WredProfileId(id), &wred(profile))?;
        }
        for of in self.shapers.values() {
            device.shaper_profile_add(of.profile, &of.params)?;
            if let Some(shared) = of.shared {
                device.shared_shaper_add_update(shared, of.profile)?;
            }
        }
        for node in &self.nodes {
            let own = node.origin.and_then(|origin| self.shapers.get(&origin));
            let params = NodeParams {
                shaper: own.filter(|of| of.shared.is_none()).map(|of| of.profile),
                shared_shapers: own.and_then(|of| of.shared).into_iter().collect(),
                kind: node.kind,
            };
            device.node_add(node.id, node.place, &params)?;
        }
        device.hierarchy_commit()?;
        Ok(())
    }

    /// Sets the rate and burst of a UE, which had a limit before and has one now.
    ///
    /// # Errors
    /// [`MapError::Plan`] for another UE, and what the device cannot do or refuses. Then all is as before, but for a
    /// profile that a device kept.
    pub fn set_ue_rate(
        &mut self,
        ue: usize,
        shaper: Shaper,
        device: &mut impl Device,
    ) -> Result<(), MapError> {
        let params = self.plan.shaper(shaper, 0);
        let params = params.ok_or(MapError::Plan("a UE's limit cannot be taken away"))?;
        let profile = self.new_profile();
        let own = self.shapers.get_mut(&Origin::Ue(ue));
        let own = own.ok_or(MapError::Plan("the UE has no limit"))?;
        self.capabilities.allow_shaper(&params, own.shared.is_some())?;
        if own.shared.is_none() && !self.capabilities.updates_shapers {
            return Err(MapError::Capability {
                field: "dynamic_update_mask",
                wanted: 1,
                most: 0,
            });
        }
        device.shaper_profile_add(profile, &params)?;
        let changed = match (own.shared, own.nodes.first()) {
            (Some(shared), _) => device.shared_shaper_add_update(shared, profile),
            (None, Some(node)) => device.node_shaper_update(*node, profile),
            (None, None) => Ok(()),
        };
        if let Err(error) = changed {
            device.shaper_profile_delete(profile)?;
            return Err(error.into());
        }
        let before = std::mem::replace(&mut own.profile, profile);
        own.params = params;
        Ok(device.shaper_profile_delete(before)?)
    }
}
