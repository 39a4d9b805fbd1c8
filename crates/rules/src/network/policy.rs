//! Forwarding policies: what the configuration says that an SMF names by an identifier (TS 29.244 §5.4.8, §8.2.23).

use std::net::IpAddr;

use packet::Dscp;

use super::{InstanceId, Network, NetworkError};

/// A forwarding policy: its place in the configuration, dense from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PolicyId(pub u16);

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
}

impl Network {
    /// The same network with these policies, in the order of their ids from 0.
    ///
    /// # Errors
    /// [`NetworkError::Policy`]: the first whose name another has or is empty, or whose next hop no neighbour on its
    /// instance's link can have.
    pub fn with_policies(mut self, policies: Vec<ForwardingPolicy>) -> Result<Self, NetworkError> {
        for policy in policies {
            let is_known = self.policy_by_name(policy.name.as_bytes()).is_some();
            let on_link = |hop| {
                let instance = policy.instance.and_then(|id| self.instance(id));
                instance.is_some_and(|instance| {
                    instance.connected().any(|prefix| prefix.contains(hop))
                        && self.may_be_another(instance.vrf, hop)
                })
            };
            let leads_out = policy.instance.is_none_or(|id| self.leads_out(id));
            if policy.name.is_empty() || is_known || !leads_out || !policy.next_hop.is_none_or(on_link) {
                return Err(NetworkError::Policy(policy.name));
            }
            self.policies.push(policy);
        }
        Ok(self)
    }

    /// Whether the instance is there and towards a data network.
    fn leads_out(&self, id: InstanceId) -> bool {
        let instance = self.instance(id);
        instance.is_some_and(|instance| instance.roles.intersects(super::Roles::N6))
    }

    /// Whether there are any.
    pub fn has_policies(&self) -> bool {
        !self.policies.is_empty()
    }

    /// The policy with this id.
    pub fn policy(&self, id: PolicyId) -> Option<&ForwardingPolicy> {
        self.policies.get(usize::from(id.0))
    }

    /// The policy that a Forwarding Policy Identifier names, to the octet.
    pub fn policy_by_name(&self, identifier: &[u8]) -> Option<PolicyId> {
        let mut policies = self.policies.iter();
        let place = policies.position(|policy| policy.name.as_bytes() == identifier)?;
        Some(PolicyId(place as u16))
    }
}
