//! Forwarding policies: what the configuration says that an SMF names by an identifier (TS 29.244 §5.4.8, §8.2.23).

use std::net::IpAddr;

use flow::InstanceId;
use packet::Dscp;

use crate::model::NatChoice;

/// Where packets go and how they are marked that a FAR subjects to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForwardingPolicy {
    /// What the Forwarding Policy Identifier says: 1 to 255 octets.
    pub name: String,
    /// The data network's instance that plain packets leave by, instead of the FAR's.
    pub instance: Option<InstanceId>,
    /// The neighbour that plain packets go to, on the link of `instance`, instead of where routes lead. Those of either
    /// family go to its link layer address.
    pub next_hop: Option<IpAddr>,
    /// The DSCP of plain packets, or of the outer header of a tunnel, where the FAR has no Transport Level Marking.
    pub dscp: Option<Dscp>,
    /// The public addresses of sessions with a FAR towards a data network that names the policy; those of their slice
    /// and data network.
    pub nat: Option<NatChoice>,
}
