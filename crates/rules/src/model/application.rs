//! Applications: what a PDR that names one looks for (TS 29.244 §5.2.1A.1, §8.2.6).

use std::sync::Arc;

use crate::sdf::FlowDescription;

/// An application and how its packets are known, by the Packet Flow Descriptions of the moment. A PDR has a copy of
/// its own: when the descriptions change, so do the PDRs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Application {
    /// Its identifier: octets that mean nothing here.
    pub id: Arc<[u8]>,
    /// Any of these describes its packets, written like those of SDF filters. None: nothing is known of it, so that no
    /// packet is its.
    pub flows: Arc<[FlowDescription]>,
}
