//! CG-NAT: checks, and the pools of public addresses.

use flow::{InstanceId, VrfId};
use nat::pools::fixed::Fixed;
use nat::pools::{Filtering, NatLimits, NatPool, NatPools, PoolError, UnsolicitedPolicy};
use rules::network::BoundPool;
use rules::prefix::IpPrefix;
use std::time::Duration;
use worker::NatSettings;

use super::scope::scope;
use crate::bounded::Bounded;
use crate::error::Fault;
use crate::schema::{Config, ForwardConfig, NatPoolConfig, Role};

/// The most pools.
const MOST_POOLS: usize = 256;

impl Config {
    /// The pools of public addresses, in their order. One that cannot be made is none: [`check`] has refused it.
    pub(super) fn nat_pools(&self) -> Vec<BoundPool> {
        self.nat_pools
            .iter()
            .filter_map(|pool| self.nat_pool(pool))
            .collect()
    }

    /// The mappings of a worker.
    #[must_use]
    pub fn nat_settings(&self, seed: u64) -> NatSettings {
        NatSettings {
            mappings: self.nat.mappings_per_worker.size(),
            lifetimes: self.nat.lifetime_s.lifetimes(),
            block_idle: Duration::from_secs(self.nat.block_idle_s.value()),
            seed,
        }
    }

    /// How long no other session gets a port block that was given back.
    #[must_use]
    pub fn port_block_quarantine(&self) -> Duration {
        Duration::from_secs(self.nat.quarantine_s.value())
    }

    fn nat_pool(&self, pool: &NatPoolConfig) -> Option<BoundPool> {
        let mut instances = self.instances.iter();
        let place = instances.position(|instance| instance.name.value == pool.instance.value)?;
        let vrf = self.instances[place].vrf.map_or(0, Bounded::value);
        let untranslated = pool.untranslated.iter();
        let untranslated =
            untranslated.filter_map(|prefix| IpPrefix::new(prefix.value.address, prefix.value.length));
        Some(BoundPool {
            pool: NatPool {
                name: pool.name.value.clone(),
                instance: InstanceId(place as u16),
                vrf: VrfId(vrf as u16),
                addresses: pool.addresses.iter().map(|range| range.value.0.clone()).collect(),
                ports: pool.ports.range(),
                block_bits: pool.block.value.value().ilog2() as u8,
                filtering: pool.filtering.filtering(),
                unsolicited: unsolicited(pool),
                limits: limits(pool),
                fixed: fixed(pool),
            },
            scope: match pool.smf_only {
                true => None,
                false => Some(scope(pool.slice.as_ref(), pool.dnn.as_ref()).ok()?),
            },
            untranslated: untranslated.collect(),
        })
    }
}

/// What a session may have: one block where that follows from its address.
fn limits(pool: &NatPoolConfig) -> NatLimits {
    let limits = pool.per_session.limits();
    match pool.deterministic {
        Some(_) => NatLimits { blocks: 1, ..limits },
        None => limits,
    }
}

fn unsolicited(pool: &NatPoolConfig) -> UnsolicitedPolicy {
    let own = pool.unsolicited.as_ref().map(|own| own.value);
    own.unwrap_or_default().policy()
}

fn fixed(pool: &NatPoolConfig) -> Fixed {
    let ues = pool.deterministic.as_ref().and_then(|of| of.ues.value.ipv4());
    Fixed {
        deterministic: ues,
        forwards: pool.forwards.iter().map(ForwardConfig::forward).collect(),
    }
}

/// Finds the first pool that contradicts something.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let mut scopes = Vec::new();
    for (place, pool) in config.nat_pools.iter().enumerate() {
        let name = &pool.name;
        let fault = |message: &str| Err(Fault::new(name, format!("NAT pool `{}`: {message}", name.value)));
        if place >= MOST_POOLS {
            return Err(Fault::new(name, format!("nat_pools: more than {MOST_POOLS}")));
        }
        if !(1..=100).contains(&name.value.len()) {
            return fault("the name has no character, or more than 100");
        }
        if name.value == "none" {
            return fault("forwarding policies say by this name that there is no pool");
        }
        if pool.smf_only {
            if pool.slice.is_some() || pool.dnn.is_some() {
                return fault("smf_only: it has a slice or a dnn");
            }
            check_pool(config, pool)?;
            continue;
        }
        let own = match scope(pool.slice.as_ref(), pool.dnn.as_ref()) {
            Ok(own) => own,
            Err(message) => return fault(message),
        };
        if scopes
            .iter()
            .any(|other: &rules::network::SessionScope| other.is_same(&own))
        {
            return fault("another is for the same sessions");
        }
        scopes.push(own);
        check_pool(config, pool)?;
    }
    check_log(config)?;
    check_together(config)
}

fn check_log(config: &Config) -> Result<(), Fault> {
    let Some(directory) = config.nat.log.as_ref().and_then(|log| log.directory.as_ref()) else {
        return Ok(());
    };
    match directory.value.is_absolute() {
        true => Ok(()),
        false => {
            let path = directory.value.display();
            Err(Fault::new(
                directory,
                format!("nat.log.directory: `{path}` is no absolute path"),
            ))
        }
    }
}

fn check_pool(config: &Config, pool: &NatPoolConfig) -> Result<(), Fault> {
    let mut instances = config.instances.iter();
    let instance = instances.find(|instance| instance.name.value == pool.instance.value);
    let has_v4 = |instance: &&crate::schema::InstanceConfig| {
        let mut addresses = instance.addresses.iter();
        addresses.any(|address| address.value.address.is_ipv4())
    };
    if !instance
        .filter(has_v4)
        .is_some_and(|instance| instance.roles.contains(&Role::N6))
    {
        let message = format!(
            "instance: `{}` is none with role n6 and an IPv4 address",
            pool.instance.value
        );
        return Err(Fault::new(&pool.instance, message));
    }
    if !pool.block.value.value().is_power_of_two() {
        let message = format!("block: {} is no power of two", pool.block.value.value());
        return Err(Fault::new(&pool.block, message));
    }
    if let Some(unsolicited) = &pool.unsolicited
        && pool.filtering.filtering() == Filtering::AddressDependent
    {
        let name = &pool.name.value;
        let message = format!("NAT pool `{name}`: unsolicited: with filtering: address_dependent nothing is");
        return Err(Fault::new(unsolicited, message));
    }
    let untranslated = pool.untranslated.iter().map(|prefix| ("untranslated", prefix));
    let ues = pool.deterministic.iter().map(|of| ("deterministic.ues", &of.ues));
    for (field, prefix) in untranslated.chain(ues) {
        if !prefix.value.address.is_ipv4() {
            return Err(Fault::new(prefix, format!("{field}: no IPv4 prefix")));
        }
        if let Some(fault) = prefix.value.network_fault() {
            return Err(Fault::new(prefix, format!("{field}: {fault}")));
        }
    }
    let own = config.instances.iter().flat_map(|instance| &instance.addresses);
    for address in own.map(|own| own.value.address) {
        let holds = |range: &&serde_saphyr::Spanned<crate::schema::PublicRange>| match address {
            std::net::IpAddr::V4(address) => range.value.0.contains(&address),
            std::net::IpAddr::V6(_) => false,
        };
        if let Some(range) = pool.addresses.iter().find(holds) {
            return Err(Fault::new(
                range,
                format!("addresses: {address} is this node's own"),
            ));
        }
    }
    Ok(())
}

/// What the pools say together.
fn check_together(config: &Config) -> Result<(), Fault> {
    let pools = config.nat_pools().into_iter().map(|bound| bound.pool).collect();
    let Err(error) = NatPools::new(pools) else {
        return Ok(());
    };
    let mut named = config.nat_pools.iter().rev();
    let Some(pool) = named.find(|pool| pool.name.value == error.pool()) else {
        return Ok(());
    };
    let fault = format!("nat_pools: {error}");
    Err(match (&error, &pool.deterministic) {
        (PoolError::Forward(_, place, _), _) => match pool.forwards.get(*place) {
            Some(forward) => Fault::new(&forward.public, fault),
            None => Fault::new(&pool.name, fault),
        },
        (PoolError::Deterministic(..), Some(of)) => Fault::new(&of.ues, fault),
        _ => Fault::new(&pool.name, fault),
    })
}
