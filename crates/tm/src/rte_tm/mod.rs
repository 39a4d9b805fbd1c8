//! The plan of a manager for a port that schedules by itself: as calls of DPDK's `rte_tm` (`rte_tm.h` of 22.11).
//!
//! [`Device`] has the calls that the mapping needs; [`Hierarchy`] makes them. No device of hardware has ever had them:
//! they were run against a model alone, which keeps the rules of `rte_tm.h`. Nothing of the packet path uses this.
//!
//! A manager has strict priority over the whole port, the nodes of `rte_tm` among the children of one node. So there is
//! a node for each class below the root, and below it a copy of each shared node and UE that has queues of the class. A
//! shaper of a node that has several copies is a shared shaper; of one with one copy it is private.

mod hierarchy;
mod plan;

use core::fmt;

pub use hierarchy::Hierarchy;
pub use plan::{MapError, Plan};

/// A node: below the number of transmit queues, the leaf of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNodeId(pub u32);

/// A shaper profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShaperProfileId(pub u32);

/// A shared shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedShaperId(pub u32);

/// A WRED profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WredProfileId(pub u32);

/// A shaper of a single rate, in byte mode (`rte_tm_shaper_params`): its committed bucket is unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShaperParams {
    /// Octets a second, above 0 (`peak.rate`).
    pub rate: u64,
    /// Octets (`peak.size`).
    pub size: u64,
    /// Octets that a packet takes beyond its own (`pkt_length_adjust`).
    pub length_adjust: i32,
}

/// RED of one colour (`rte_tm_red_params`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedParams {
    /// Octets.
    pub min_th: u64,
    /// Octets.
    pub max_th: u64,
    /// Of this many packets one is hit at `max_th`.
    pub maxp_inv: u16,
    /// The weight of a packet in the average is 2^-n.
    pub wq_log2: u16,
}

/// WRED in byte mode (`rte_tm_wred_params`): green, yellow, red.
pub type WredParams = [RedParams; 3];

/// What is of one kind of node alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// It has children, of a number of strict priorities (`n_sp_priorities`); those of one take turns by octets.
    NonLeaf {
        /// At least 1.
        sp_priorities: u32,
    },
    /// A transmit queue that drops at its tail.
    TailDrop,
    /// A transmit queue with a private WRED context.
    Wred(WredProfileId),
}

/// A node's parameters (`rte_tm_node_params`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeParams {
    /// Its private shaper.
    pub shaper: Option<ShaperProfileId>,
    /// Its shared shapers.
    pub shared_shapers: Vec<SharedShaperId>,
    /// Its kind.
    pub kind: NodeKind,
}

/// Where a node is added (the arguments of `rte_tm_node_add`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePlace {
    /// `None` for the root.
    pub parent: Option<DeviceNodeId>,
    /// Among its parent's children; 0 goes first.
    pub priority: u32,
    /// Among those of the same priority; at least 1.
    pub weight: u32,
    /// The root has 0.
    pub level: u32,
}

/// What a device can do (`rte_tm_capabilities`, by its names).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Nodes, leaves among them.
    pub n_nodes_max: u32,
    /// Levels, the root's and that of leaves among them.
    pub n_levels_max: u32,
    /// Private shapers.
    pub shaper_private_n_max: u32,
    /// Octets a second.
    pub shaper_private_rate_min: u64,
    /// Octets a second.
    pub shaper_private_rate_max: u64,
    /// Shared shapers; 0: there are none.
    pub shaper_shared_n_max: u32,
    /// Nodes of one of them.
    pub shaper_shared_n_nodes_per_shaper_max: u32,
    /// Octets a second.
    pub shaper_shared_rate_min: u64,
    /// Octets a second.
    pub shaper_shared_rate_max: u64,
    /// The greatest `pkt_length_adjust`.
    pub shaper_pkt_length_adjust_max: i32,
    /// Children of a node.
    pub sched_n_children_max: u32,
    /// Strict priorities of a node.
    pub sched_sp_n_priorities_max: u32,
    /// The greatest weight.
    pub sched_wfq_weight_max: u32,
    /// Whether there is WRED in octets.
    pub cman_wred_byte_mode_supported: bool,
    /// Private WRED contexts.
    pub cman_wred_context_private_n_max: u32,
    /// Whether shapers of nodes may change after the commit (`RTE_TM_UPDATE_*`); profiles of shared ones always may.
    pub updates_shapers: bool,
}

/// Why a device refuses a call: the field, by its name in `rte_tm_error_type`, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceError {
    /// As `NODE_PARENT_NODE_ID`.
    pub field: &'static str,
    /// The device's words.
    pub message: String,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rte_tm: {}: {}", self.field, self.message)
    }
}

impl core::error::Error for DeviceError {}

/// What a call comes to.
pub type Answer = Result<(), DeviceError>;

/// A port's `rte_tm`. Errors are the device's.
pub trait Device {
    /// `rte_tm_capabilities_get`.
    fn capabilities(&self) -> Capabilities;

    /// `rte_tm_get_number_of_leaf_nodes`: its transmit queues.
    fn leaf_nodes(&self) -> u32;

    /// `rte_tm_shaper_profile_add`: under a number that is unused.
    ///
    /// # Errors
    /// As `rte_tm.h` says, like those of all calls here.
    fn shaper_profile_add(&mut self, id: ShaperProfileId, params: &ShaperParams) -> Answer;

    /// `rte_tm_shaper_profile_delete`: of one that no shaper uses.
    ///
    /// # Errors
    /// The device's.
    fn shaper_profile_delete(&mut self, id: ShaperProfileId) -> Answer;

    /// `rte_tm_shared_shaper_add_update`.
    ///
    /// # Errors
    /// The device's.
    fn shared_shaper_add_update(&mut self, id: SharedShaperId, profile: ShaperProfileId) -> Answer;

    /// `rte_tm_wred_profile_add`: under a number that is unused.
    ///
    /// # Errors
    /// The device's.
    fn wred_profile_add(&mut self, id: WredProfileId, params: &WredParams) -> Answer;

    /// `rte_tm_node_add`: the root first, each below one that is there.
    ///
    /// # Errors
    /// The device's.
    fn node_add(&mut self, id: DeviceNodeId, place: NodePlace, params: &NodeParams) -> Answer;

    /// `rte_tm_node_delete`: of one without children.
    ///
    /// # Errors
    /// The device's.
    fn node_delete(&mut self, id: DeviceNodeId) -> Answer;

    /// `rte_tm_node_suspend`: nothing leaves of it, or below it.
    ///
    /// # Errors
    /// The device's.
    fn node_suspend(&mut self, id: DeviceNodeId) -> Answer;

    /// `rte_tm_node_resume`.
    ///
    /// # Errors
    /// The device's.
    fn node_resume(&mut self, id: DeviceNodeId) -> Answer;

    /// `rte_tm_node_shaper_update`, of a node that has a private shaper.
    ///
    /// # Errors
    /// The device's.
    fn node_shaper_update(&mut self, id: DeviceNodeId, profile: ShaperProfileId) -> Answer;

    /// `rte_tm_hierarchy_commit`; what was added is cleared where it fails.
    ///
    /// # Errors
    /// The device's.
    fn hierarchy_commit(&mut self) -> Answer;
}
