//! Pools of UE addresses: checks, and what sessions draw from.

use flow::InstanceId;
use session::{Pool, PoolRange};

use crate::bounded::Bounded;
use crate::error::Fault;
use crate::schema::{Config, Ipv6RangeConfig, PoolConfig, Role};

/// The most pools.
const MOST_POOLS: usize = 1_024;

impl Config {
    /// The pools as sessions draw from them, in their order.
    pub fn session_pools(&self) -> Vec<Pool> {
        self.pools
            .iter()
            .filter_map(|pool| self.session_pool(pool))
            .collect()
    }

    fn session_pool(&self, pool: &PoolConfig) -> Option<Pool> {
        let mut instances = self.instances.iter();
        let place = instances.position(|instance| instance.name.value == pool.instance.value)?;
        let ipv4 = pool.ipv4.iter().map(|range| range.value.0);
        Some(Pool {
            name: pool.name.value.clone(),
            instance: InstanceId(place as u16),
            ranges: ipv4
                .chain(pool.ipv6.iter().filter_map(Ipv6RangeConfig::range))
                .collect(),
        })
    }

    /// The address space of a pool.
    fn vrf_of(&self, pool: &PoolConfig) -> Option<u64> {
        let mut instances = self.instances.iter();
        let instance = instances.find(|instance| instance.name.value == pool.instance.value)?;
        Some(instance.vrf.map_or(0, Bounded::value))
    }
}

/// Finds the first pool that contradicts something.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let mut seen = Vec::new();
    for (place, pool) in config.pools.iter().enumerate() {
        let name = &pool.name;
        let fault = |message: &str| Err(Fault::new(name, format!("pool `{}`: {message}", name.value)));
        if place >= MOST_POOLS {
            return Err(Fault::new(name, format!("pools: more than {MOST_POOLS}")));
        }
        if !(1..=255).contains(&name.value.len()) {
            return fault("the name has no character, or more than 255");
        }
        if config.pools[..place]
            .iter()
            .any(|other| other.name.value == name.value)
        {
            return fault("another has this name");
        }
        if pool.ipv4.is_empty() && pool.ipv6.is_empty() {
            return fault("ipv4, ipv6: both are empty");
        }
        check_instance(config, pool)?;
        let vrf = config.vrf_of(pool).unwrap_or_default();
        for range in &pool.ipv4 {
            check_range(
                config,
                Range {
                    pool: &name.value,
                    vrf,
                    range: range.value.0,
                },
                &mut seen,
            )
            .map_err(|message| Fault::new(range, message))?;
        }
        for range in &pool.ipv6 {
            let Some(own) = range.range() else {
                let message = format!(
                    "prefix: {} is no IPv6 prefix of at most `length`, {} bits",
                    range.prefix.value,
                    range.length.value()
                );
                return Err(Fault::new(&range.prefix, message));
            };
            if let Some(fault) = range.prefix.value.network_fault() {
                return Err(Fault::new(&range.prefix, format!("prefix: {fault}")));
            }
            check_range(
                config,
                Range {
                    pool: &name.value,
                    vrf,
                    range: own,
                },
                &mut seen,
            )
            .map_err(|message| Fault::new(&range.prefix, message))?;
        }
    }
    Ok(())
}

fn check_instance(config: &Config, pool: &PoolConfig) -> Result<(), Fault> {
    let mut instances = config.instances.iter();
    match instances.find(|instance| instance.name.value == pool.instance.value) {
        Some(instance) if instance.roles.contains(&Role::N6) => Ok(()),
        Some(_) => Err(Fault::new(
            &pool.instance,
            format!("instance: `{}` has not the role n6", pool.instance.value),
        )),
        None => Err(Fault::new(
            &pool.instance,
            format!("instance: no instance is named `{}`", pool.instance.value),
        )),
    }
}

/// A range of addresses, with its pool and its address space.
#[derive(Clone, Copy)]
struct Range<'a> {
    pool: &'a str,
    vrf: u64,
    range: PoolRange,
}

/// A range overlaps no other of its address space, and has no address of ours.
fn check_range<'a>(config: &Config, one: Range<'a>, seen: &mut Vec<Range<'a>>) -> Result<(), String> {
    let Range { vrf, range, .. } = one;
    let earlier = seen
        .iter()
        .find(|other| other.vrf == vrf && other.range.overlaps(&range));
    if let Some(Range { pool: other, .. }) = earlier {
        return Err(format!(
            "pools: this overlaps an earlier range of VRF {vrf}, of pool `{other}`; `vrf` of instances distinguishes data networks"
        ));
    }
    let here = || {
        let instances = config.instances.iter();
        instances.filter(|instance| instance.vrf.map_or(0, Bounded::value) == vrf)
    };
    let mut ours = here()
        .flat_map(|instance| &instance.addresses)
        .map(|address| address.value.address);
    if let Some(own) = ours.find(|own| range.covers(*own)) {
        return Err(format!("pools: {own} in it is our own address"));
    }
    let mut routers = here().flat_map(|instance| &instance.routes);
    if let Some(route) = routers.find(|route| range.covers(route.via.value)) {
        return Err(format!("pools: {} in it is a router", route.via.value));
    }
    seen.push(one);
    Ok(())
}
