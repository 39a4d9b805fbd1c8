//! `Plan`: what a manager has, as values; and the tree of a device that is the same.

use core::fmt;

use flow::meter::Rate;

use super::{Capabilities, DeviceError, RedParams, ShaperParams, WredParams};
use crate::aqm::wred::{RedCurve, WredProfile};
use crate::spec::{Aqm, NodeSpec, QueueSpec, Shaper, UeSpec};

/// What a manager has below one port. Numbers are those of a manager to which all is added in this order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Shared nodes: the port, then each behind its parent.
    pub nodes: Vec<NodeSpec>,
    /// UEs.
    pub ues: Vec<UeSpec>,
    /// Queues, each with the place of its UE in `ues`: transmit queue n of the port is the nth.
    pub queues: Vec<(usize, QueueSpec)>,
    /// WRED profiles.
    pub wred: Vec<WredProfile>,
    /// The longest packet in octets.
    pub largest: u16,
}

/// Why a plan cannot be carried out by a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapError {
    /// It needs more than the device has: the field of `rte_tm_capabilities`.
    Capability {
        /// Its name.
        field: &'static str,
        /// What is needed.
        wanted: u64,
        /// What there is.
        most: u64,
    },
    /// A rate, in octets a second, is out of what the device's shapers have.
    Rate {
        /// The rate.
        rate: u64,
        /// The least.
        least: u64,
        /// The greatest.
        most: u64,
    },
    /// A queue has what no node of `rte_tm` has.
    Queue {
        /// Its place in the plan.
        queue: usize,
        /// What it is.
        what: &'static str,
    },
    /// The plan names a node, UE or profile that it does not have before, or has no port or several.
    Plan(&'static str),
    /// The device has refused a call.
    Device(DeviceError),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capability { field, wanted, most } => {
                write!(f, "the port's {field} is {most}: {wanted} are needed")
            }
            Self::Rate { rate, least, most } => {
                write!(
                    f,
                    "a rate of {rate} octets/s: the port's shapers have {least} to {most}"
                )
            }
            Self::Queue { queue, what } => write!(f, "queue {queue}: a port cannot do {what}"),
            Self::Plan(what) => write!(f, "plan of a port: {what}"),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MapError {}

impl From<DeviceError> for MapError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl Plan {
    /// The classes that have queues, the first first.
    pub(super) fn classes(&self) -> Vec<u8> {
        let mut all: Vec<u8> = self
            .queues
            .iter()
            .map(|(_, queue)| queue.class.number())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The shared nodes above a UE, the innermost first, without the port.
    pub(super) fn above(&self, ue: usize) -> Vec<usize> {
        let mut all = Vec::new();
        let mut next = self.ues.get(ue).map(|ue| usize::from(ue.node.0));
        while let Some(node) = next.filter(|node| *node != 0) {
            all.push(node);
            next = self.nodes[node].parent.map(|parent| usize::from(parent.0));
        }
        all
    }

    /// Whether all is there that is named, before it is.
    pub(super) fn check(&self) -> Result<(), MapError> {
        let is_port = |(place, node): (usize, &NodeSpec)| (place == 0) == node.parent.is_none();
        if self.nodes.is_empty() || !self.nodes.iter().enumerate().all(is_port) {
            return Err(MapError::Plan("the first node alone is a port"));
        }
        let is_behind = |(place, node): (usize, &NodeSpec)| {
            node.parent.is_none_or(|parent| usize::from(parent.0) < place)
        };
        if !self.nodes.iter().enumerate().all(is_behind) {
            return Err(MapError::Plan("a node is not behind its parent"));
        }
        if self
            .ues
            .iter()
            .any(|ue| usize::from(ue.node.0) >= self.nodes.len())
        {
            return Err(MapError::Plan("a UE is below a node that is not there"));
        }
        if self.queues.iter().any(|(ue, _)| *ue >= self.ues.len()) {
            return Err(MapError::Plan("a queue is of a UE that is not there"));
        }
        for (queue, (_, spec)) in self.queues.iter().enumerate() {
            self.check_queue(spec)
                .map_err(|what| MapError::Queue { queue, what })?;
        }
        Ok(())
    }

    fn check_queue(&self, spec: &QueueSpec) -> Result<(), &'static str> {
        match spec.aqm {
            Aqm::CoDel => return Err("CoDel"),
            Aqm::DualQueue => return Err("dual queues"),
            Aqm::Wred(profile) if usize::from(profile.0) >= self.wred.len() => {
                return Err("WRED without its profile");
            }
            Aqm::TailDrop | Aqm::Wred(_) => {}
        }
        if spec.rates.is_some_and(|rates| rates.guaranteed.is_some()) {
            return Err("guaranteed rates: what is above them has another class");
        }
        Ok(())
    }

    /// A shaper as a device has it; `None` without a limit.
    pub(super) fn shaper(&self, shaper: Shaper, overhead: u8) -> Option<ShaperParams> {
        (shaper.rate != Rate::UNLIMITED).then(|| ShaperParams {
            // A kbit/s is 125 octets a second.
            rate: shaper.rate.kbit().saturating_mul(125),
            size: shaper.effective_burst(self.largest + u16::from(overhead)).into(),
            length_adjust: overhead.into(),
        })
    }
}

/// A WRED profile as a device has it. What is not green is yellow here.
pub(super) fn wred(profile: &WredProfile) -> WredParams {
    let red = |of: &RedCurve| RedParams {
        min_th: of.min.into(),
        max_th: of.max.into(),
        maxp_inv: of.one_in.into(),
        wq_log2: profile.weight_log2.into(),
    };
    [red(&profile.green), red(&profile.yellow), red(&profile.yellow)]
}

impl Capabilities {
    /// Whether there is enough of something.
    pub(super) fn allow(field: &'static str, wanted: usize, most: u32) -> Result<(), MapError> {
        if wanted as u64 <= u64::from(most) {
            return Ok(());
        }
        Err(MapError::Capability {
            field,
            wanted: wanted as u64,
            most: most.into(),
        })
    }

    /// Whether shapers have this rate and these octets beyond a packet's own.
    pub(super) fn allow_shaper(&self, params: &ShaperParams, is_shared: bool) -> Result<(), MapError> {
        let (least, most) = match is_shared {
            false => (self.shaper_private_rate_min, self.shaper_private_rate_max),
            true => (self.shaper_shared_rate_min, self.shaper_shared_rate_max),
        };
        let rate = params.rate;
        if rate == 0 || !(least..=most).contains(&rate) {
            return Err(MapError::Rate { rate, least, most });
        }
        let most = self.shaper_pkt_length_adjust_max.max(0) as u32;
        Self::allow(
            "shaper_pkt_length_adjust_max",
            params.length_adjust.max(0) as usize,
            most,
        )
    }
}
