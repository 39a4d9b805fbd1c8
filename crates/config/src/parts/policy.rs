//! Forwarding policies: checks, and the policies of the network.

use flow::InstanceId;
use nat::pools::NatPoolId;
use packet::Dscp;
use rules::model::NatChoice;
use rules::network::ForwardingPolicy;

use crate::error::Fault;
use crate::schema::{Config, InstanceConfig, PolicyConfig, Role};

/// What a policy names instead of a pool of public addresses.
const NO_POOL: &str = "none";

/// The most policies.
const MOST_POLICIES: usize = 1_024;

impl Config {
    /// The policies in their order.
    pub(super) fn policies(&self) -> Vec<ForwardingPolicy> {
        let policy = |policy: &PolicyConfig| ForwardingPolicy {
            name: policy.name.value.clone(),
            instance: self.place_of(policy).map(|place| InstanceId(place as u16)),
            next_hop: policy.next_hop.as_ref().map(|hop| hop.value),
            dscp: policy.dscp.map(|dscp| Dscp::from_low_bits(dscp.value() as u8)),
            nat: self.nat_choice(policy),
        };
        self.forwarding_policies.iter().map(policy).collect()
    }

    /// The public addresses that a policy names. An unknown pool is none: [`check`] has refused it.
    fn nat_choice(&self, policy: &PolicyConfig) -> Option<NatChoice> {
        let name = &policy.nat_pool.as_ref()?.value;
        if name == NO_POOL {
            return Some(NatChoice::Untranslated);
        }
        let place = self.nat_pools.iter().position(|pool| pool.name.value == *name)?;
        Some(NatChoice::Pool(NatPoolId(place as u16)))
    }

    fn place_of(&self, policy: &PolicyConfig) -> Option<usize> {
        let name = &policy.instance.as_ref()?.value;
        self.instances
            .iter()
            .position(|instance| instance.name.value == *name)
    }
}

/// Finds the first policy that contradicts something.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    for (place, policy) in config.forwarding_policies.iter().enumerate() {
        let name = &policy.name;
        let fault =
            |message: &str| Fault::new(name, format!("forwarding policy `{}`: {message}", name.value));
        if place >= MOST_POLICIES {
            return Err(Fault::new(
                name,
                format!("forwarding_policies: more than {MOST_POLICIES}"),
            ));
        }
        if !(1..=255).contains(&name.value.len()) {
            return Err(fault("the name has no character, or more than 255"));
        }
        let mut earlier = config.forwarding_policies[..place].iter();
        if earlier.any(|other| other.name.value == name.value) {
            return Err(fault("another has this name"));
        }
        let instance = config
            .place_of(policy)
            .and_then(|place| config.instances.get(place));
        check_way(policy, instance)?;
        check_nat(config, policy)?;
    }
    Ok(())
}

/// A policy names a pool that there is, whose packets leave where the policy's do.
fn check_nat(config: &Config, policy: &PolicyConfig) -> Result<(), Fault> {
    let Some(name) = policy.nat_pool.as_ref().filter(|name| name.value != NO_POOL) else {
        return Ok(());
    };
    let mut pools = config.nat_pools.iter();
    let Some(pool) = pools.find(|pool| pool.name.value == name.value) else {
        let message = format!("nat_pool: no pool is named `{}`, nor is it `none`", name.value);
        return Err(Fault::new(name, message));
    };
    match &policy.instance {
        Some(instance) if instance.value != pool.instance.value => {
            let message = format!(
                "nat_pool: packets of `{}` leave by instance `{}`, not by `{}`",
                name.value, pool.instance.value, instance.value
            );
            Err(Fault::new(name, message))
        }
        _ => Ok(()),
    }
}

fn check_way(policy: &PolicyConfig, instance: Option<&InstanceConfig>) -> Result<(), Fault> {
    if let Some(name) = &policy.instance
        && !instance.is_some_and(|instance| instance.roles.contains(&Role::N6))
    {
        let message = format!("instance: no instance with role n6 is named `{}`", name.value);
        return Err(Fault::new(name, message));
    }
    let Some(hop) = &policy.next_hop else {
        return Ok(());
    };
    let Some(instance) = instance else {
        return Err(Fault::new(hop, "next_hop: on the link of which instance?"));
    };
    let mut addresses = instance.addresses.iter();
    if addresses.clone().any(|own| own.value.address == hop.value) {
        return Err(Fault::new(
            hop,
            format!("next_hop: {} is our own address", hop.value),
        ));
    }
    if !addresses.any(|own| own.value.contains(hop.value)) {
        let message = format!("next_hop: {} is on none of the instance's links", hop.value);
        return Err(Fault::new(hop, message));
    }
    Ok(())
}
