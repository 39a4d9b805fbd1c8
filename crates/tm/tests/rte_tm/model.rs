//! A device of memory: it keeps the rules of `rte_tm.h` and schedules what it was given, by arithmetic of its own.

use std::collections::BTreeMap;

use tm::rte_tm::{
    Answer, Capabilities, Device, DeviceError, DeviceNodeId, NodeKind, NodeParams, NodePlace, ShaperParams,
    ShaperProfileId, SharedShaperId, WredParams, WredProfileId,
};

/// A node that was added.
#[derive(Clone, Debug)]
pub struct Node {
    pub place: NodePlace,
    pub params: NodeParams,
    pub is_suspended: bool,
    /// Octets that left, over its weight, since it was added.
    served: f64,
}

/// A token bucket: octets, and when they were so.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    since: f64,
}

/// Whose bucket it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shaper {
    Private(DeviceNodeId),
    Shared(SharedShaperId),
}

pub struct Model {
    pub capabilities: Capabilities,
    pub leaves: u32,
    pub profiles: BTreeMap<ShaperProfileId, ShaperParams>,
    pub shared: BTreeMap<SharedShaperId, ShaperProfileId>,
    pub wred: BTreeMap<WredProfileId, WredParams>,
    pub nodes: BTreeMap<DeviceNodeId, Node>,
    pub is_committed: bool,
    /// The call, counted from now on, that fails: for its own reasons.
    pub fails: Option<u32>,
    buckets: BTreeMap<Shaper, Bucket>,
}

pub const ABLE: Capabilities = Capabilities {
    n_nodes_max: 4_096,
    n_levels_max: 8,
    shaper_private_n_max: 4_096,
    shaper_private_rate_min: 1,
    shaper_private_rate_max: 50_000_000_000,
    shaper_shared_n_max: 1_024,
    shaper_shared_n_nodes_per_shaper_max: 8,
    shaper_shared_rate_min: 1,
    shaper_shared_rate_max: 50_000_000_000,
    shaper_pkt_length_adjust_max: 64,
    sched_n_children_max: 1_024,
    sched_sp_n_priorities_max: 8,
    sched_wfq_weight_max: 255,
    cman_wred_byte_mode_supported: true,
    cman_wred_context_private_n_max: 4_096,
    updates_shapers: true,
};

fn refuse(field: &'static str, message: &str) -> Answer {
    Err(DeviceError {
        field,
        message: message.into(),
    })
}

fn need(is_so: bool, field: &'static str, message: &str) -> Answer {
    if is_so { Ok(()) } else { refuse(field, message) }
}

impl Model {
    pub fn new(capabilities: Capabilities, leaves: u32) -> Self {
        Self {
            capabilities,
            leaves,
            profiles: BTreeMap::new(),
            shared: BTreeMap::new(),
            wred: BTreeMap::new(),
            nodes: BTreeMap::new(),
            is_committed: false,
            fails: None,
            buckets: BTreeMap::new(),
        }
    }

    fn called(&mut self) -> Answer {
        match &mut self.fails {
            Some(0) => refuse("UNSPECIFIED", "it fails"),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn uses(&self, profile: ShaperProfileId) -> bool {
        self.shared.values().any(|of| *of == profile)
            || self
                .nodes
                .values()
                .any(|node| node.params.shaper == Some(profile))
    }

    fn check_place(&self, id: DeviceNodeId, place: &NodePlace, params: &NodeParams) -> Answer {
        let is_leaf = !matches!(params.kind, NodeKind::NonLeaf { .. });
        need(!self.nodes.contains_key(&id), "NODE_ID", "in use")?;
        need(
            is_leaf == (id.0 < self.leaves),
            "NODE_ID",
            "leaves are below the number of queues, others above",
        )?;
        need(place.weight >= 1, "NODE_WEIGHT", "at least 1")?;
        let Some(parent) = place.parent else {
            need(self.nodes.is_empty(), "NODE_PARENT_NODE_ID", "there is a root")?;
            need(place.level == 0, "LEVEL_ID", "the root has 0")?;
            need(
                !is_leaf && params.shaper.is_some(),
                "NODE_PARAMS",
                "the root has a private shaper",
            )?;
            return need(
                params.shared_shapers.is_empty(),
                "NODE_PARAMS_N_SHARED_SHAPERS",
                "the root has none",
            );
        };
        let Some(above) = self.nodes.get(&parent) else {
            return refuse("NODE_PARENT_NODE_ID", "not there");
        };
        need(
            place.level == above.place.level + 1,
            "LEVEL_ID",
            "the parent's and 1",
        )?;
        match above.params.kind {
            NodeKind::NonLeaf { sp_priorities } => need(
                place.priority < sp_priorities,
                "NODE_PRIORITY",
                "the parent has fewer",
            ),
            _ => refuse("NODE_PARENT_NODE_ID", "a leaf"),
        }
    }

    fn check_params(&self, params: &NodeParams) -> Answer {
        let has = |profile: &ShaperProfileId| self.profiles.contains_key(profile);
        need(
            params.shaper.as_ref().is_none_or(has),
            "NODE_PARAMS_SHAPER_PROFILE_ID",
            "not there",
        )?;
        let is_there = params
            .shared_shapers
            .iter()
            .all(|of| self.shared.contains_key(of));
        need(is_there, "NODE_PARAMS_SHARED_SHAPER_ID", "not there")?;
        match params.kind {
            NodeKind::NonLeaf { sp_priorities } => {
                need(sp_priorities >= 1, "NODE_PARAMS_N_SP_PRIORITIES", "at least 1")
            }
            NodeKind::Wred(profile) => need(
                self.wred.contains_key(&profile),
                "NODE_PARAMS_WRED_PROFILE_ID",
                "not there",
            ),
            NodeKind::TailDrop => Ok(()),
        }
    }

    fn check_numbers(&self) -> Answer {
        let has = &self.capabilities;
        let most =
            |field, wanted: usize, most: u32| need(wanted as u64 <= u64::from(most), field, "too many");
        let levels = self
            .nodes
            .values()
            .map(|node| node.place.level + 1)
            .max()
            .unwrap_or(0);
        let private = self
            .nodes
            .values()
            .filter(|node| node.params.shaper.is_some())
            .count();
        most("n_nodes_max", self.nodes.len(), has.n_nodes_max)?;
        most("n_levels_max", levels as usize, has.n_levels_max)?;
        most("shaper_private_n_max", private, has.shaper_private_n_max)?;
        most("shaper_shared_n_max", self.shared.len(), has.shaper_shared_n_max)?;
        for id in self.shared.keys() {
            let users = self
                .nodes
                .values()
                .filter(|node| node.params.shared_shapers.contains(id));
            let field = "shaper_shared_n_nodes_per_shaper_max";
            most(field, users.count(), has.shaper_shared_n_nodes_per_shaper_max)?;
        }
        for id in self.nodes.keys() {
            let children = self.nodes.values().filter(|node| node.place.parent == Some(*id));
            most("sched_n_children_max", children.count(), has.sched_n_children_max)?;
        }
        for node in self.nodes.values() {
            most(
                "sched_wfq_weight_max",
                node.place.weight as usize,
                has.sched_wfq_weight_max,
            )?;
            if let NodeKind::NonLeaf { sp_priorities } = node.params.kind {
                most(
                    "sched_sp_n_priorities_max",
                    sp_priorities as usize,
                    has.sched_sp_n_priorities_max,
                )?;
            }
        }
        Ok(())
    }
}

impl Device for Model {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn leaf_nodes(&self) -> u32 {
        self.leaves
    }

    fn shaper_profile_add(&mut self, id: ShaperProfileId, params: &ShaperParams) -> Answer {
        self.called()?;
        need(!self.profiles.contains_key(&id), "SHAPER_PROFILE_ID", "in use")?;
        need(params.rate > 0, "SHAPER_PROFILE_PEAK_RATE", "0")?;
        need(params.size > 0, "SHAPER_PROFILE_PEAK_SIZE", "0")?;
        self.profiles.insert(id, *params);
        Ok(())
    }

    fn shaper_profile_delete(&mut self, id: ShaperProfileId) -> Answer {
        self.called()?;
        need(self.profiles.contains_key(&id), "SHAPER_PROFILE_ID", "not there")?;
        need(!self.uses(id), "SHAPER_PROFILE_ID", "in use")?;
        self.profiles.remove(&id);
        Ok(())
    }

    fn shared_shaper_add_update(&mut self, id: SharedShaperId, profile: ShaperProfileId) -> Answer {
        self.called()?;
        need(
            self.profiles.contains_key(&profile),
            "SHAPER_PROFILE_ID",
            "not there",
        )?;
        self.shared.insert(id, profile);
        Ok(())
    }

    fn wred_profile_add(&mut self, id: WredProfileId, params: &WredParams) -> Answer {
        self.called()?;
        need(!self.wred.contains_key(&id), "WRED_PROFILE_ID", "in use")?;
        let rises = params
            .iter()
            .all(|red| red.min_th < red.max_th && red.maxp_inv > 0);
        need(rises, "WRED_PROFILE", "min_th is not below max_th")?;
        self.wred.insert(id, *params);
        Ok(())
    }

    fn node_add(&mut self, id: DeviceNodeId, place: NodePlace, params: &NodeParams) -> Answer {
        self.called()?;
        need(
            !self.is_committed,
            "CAPABILITIES",
            "no nodes are added after the commit",
        )?;
        self.check_params(params)?;
        self.check_place(id, &place, params)?;
        let node = Node {
            place,
            params: params.clone(),
            is_suspended: false,
            served: 0.0,
        };
        self.nodes.insert(id, node);
        Ok(())
    }

    fn node_delete(&mut self, id: DeviceNodeId) -> Answer {
        self.called()?;
        need(
            !self.is_committed,
            "CAPABILITIES",
            "no nodes are deleted after the commit",
        )?;
        let has_children = self.nodes.values().any(|node| node.place.parent == Some(id));
        need(!has_children, "NODE_ID", "it has children")?;
        need(self.nodes.remove(&id).is_some(), "NODE_ID", "not there")
    }

    fn node_suspend(&mut self, id: DeviceNodeId) -> Answer {
        self.called()?;
        match self.nodes.get_mut(&id) {
            Some(node) if !node.is_suspended => node.is_suspended = true,
            _ => return refuse("NODE_ID", "not there, or suspended"),
        }
        Ok(())
    }

    fn node_resume(&mut self, id: DeviceNodeId) -> Answer {
        self.called()?;
        match self.nodes.get_mut(&id) {
            Some(node) if node.is_suspended => node.is_suspended = false,
            _ => return refuse("NODE_ID", "not there, or not suspended"),
        }
        Ok(())
    }

    fn node_shaper_update(&mut self, id: DeviceNodeId, profile: ShaperProfileId) -> Answer {
        self.called()?;
        need(
            self.capabilities.updates_shapers || !self.is_committed,
            "CAPABILITIES",
            "not after the commit",
        )?;
        need(
            self.profiles.contains_key(&profile),
            "SHAPER_PROFILE_ID",
            "not there",
        )?;
        match self.nodes.get_mut(&id) {
            Some(node) => node.params.shaper = Some(profile),
            None => return refuse("NODE_ID", "not there"),
        }
        Ok(())
    }

    fn hierarchy_commit(&mut self) -> Answer {
        self.called()?;
        need(!self.is_committed, "UNSPECIFIED", "it was committed")?;
        need(!self.nodes.is_empty(), "UNSPECIFIED", "no root")?;
        self.check_numbers()?;
        self.is_committed = true;
        Ok(())
    }
}

/// The scheduler: all of it is looked at for each packet, in real numbers.
impl Model {
    /// The leaf of which a packet of `octets` may leave at `now` (seconds) where `has` says which have some.
    pub fn send(&mut self, now: f64, octets: f64, has: impl Fn(u32) -> bool) -> Option<u32> {
        assert!(self.is_committed);
        let root = *self.nodes.iter().find(|(_, node)| node.place.parent.is_none())?.0;
        let mut way = vec![root];
        self.find(&mut way, now, &has).then_some(())?;
        for id in &way {
            for shaper in self.shapers_of(*id) {
                let cost = octets + f64::from(self.params_of(shaper).length_adjust);
                self.refill(shaper, now);
                if let Some(bucket) = self.buckets.get_mut(&shaper) {
                    bucket.tokens -= cost;
                }
            }
            if let Some(node) = self.nodes.get_mut(id) {
                node.served += octets / f64::from(node.place.weight);
            }
        }
        way.last().map(|leaf| leaf.0)
    }

    /// Whether a packet may leave below the last node of a way, which is made longer by its way.
    fn find(&mut self, way: &mut Vec<DeviceNodeId>, now: f64, has: &impl Fn(u32) -> bool) -> bool {
        let Some(id) = way.last().copied() else {
            return false;
        };
        if self.nodes[&id].is_suspended {
            return false;
        }
        for shaper in self.shapers_of(id) {
            self.refill(shaper, now);
            if self.buckets[&shaper].tokens < 0.0 {
                return false;
            }
        }
        if id.0 < self.leaves {
            return has(id.0);
        }
        let children = self
            .nodes
            .iter()
            .filter(|(_, node)| node.place.parent == Some(id));
        let mut children: Vec<_> = children
            .map(|(child, node)| (node.place.priority, node.served, *child))
            .collect();
        children.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        for (_, _, child) in children {
            way.push(child);
            if self.find(way, now, has) {
                return true;
            }
            way.pop();
        }
        false
    }

    fn shapers_of(&self, id: DeviceNodeId) -> Vec<Shaper> {
        let params = &self.nodes[&id].params;
        let private = params.shaper.map(|_| Shaper::Private(id));
        let shared = params.shared_shapers.iter().map(|of| Shaper::Shared(*of));
        private.into_iter().chain(shared).collect()
    }

    fn params_of(&self, shaper: Shaper) -> ShaperParams {
        let profile = match shaper {
            Shaper::Private(id) => self.nodes[&id].params.shaper.expect("it has one"),
            Shaper::Shared(id) => self.shared[&id],
        };
        self.profiles[&profile]
    }

    /// A bucket begins full, but for the longest packet, by which it may be overdrawn.
    fn refill(&mut self, shaper: Shaper, now: f64) {
        let params = self.params_of(shaper);
        let depth = params.size as f64 - 1_500.0;
        let full = Bucket {
            tokens: depth,
            since: now,
        };
        let bucket = self.buckets.entry(shaper).or_insert(full);
        let earned = (now - bucket.since) * params.rate as f64;
        *bucket = Bucket {
            tokens: (bucket.tokens + earned).min(depth),
            since: now,
        };
    }
}
