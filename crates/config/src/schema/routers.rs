//! Routers that static routes lead through: how they are checked, and which of them may share packets.

use std::collections::HashMap;
use std::time::Duration;

use rules::network::multipath::MOST_NEXT_HOPS;
use rules::prefix::IpPrefix;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{InstanceConfig, Role, RouteConfig};
use crate::bounded::Bounded;
use crate::error::Fault;

/// How routers are asked whether they live.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RoutersConfig {
    /// Milliseconds from an answer by ARP or ND to the next question; six without an answer (twice
    /// `neighbours.attempts`), `neighbours.retry_ms` apart or less, and what can goes by others; 1000.
    #[serde(default = "RoutersConfig::default_check")]
    pub check_ms: Bounded<100, 60_000>,
}

impl RoutersConfig {
    const fn default_check() -> Bounded<100, 60_000> {
        Bounded::new(1000)
    }

    /// The time from an answer to the next question.
    #[must_use]
    pub const fn check(&self) -> Duration {
        Duration::from_millis(self.check_ms.value())
    }
}

impl Default for RoutersConfig {
    fn default() -> Self {
        Self {
            check_ms: Self::default_check(),
        }
    }
}

/// A prefix in a VRF.
type Destination = (u64, Option<IpPrefix>);

/// The routes of all instances to each prefix.
#[derive(Default)]
pub(crate) struct Groups {
    /// How many, and whether they lead to data networks.
    seen: HashMap<Destination, (usize, bool)>,
}

impl Groups {
    /// Adds the routes of an instance.
    pub(crate) fn check(&mut self, instance: &InstanceConfig) -> Result<(), Fault> {
        let leads_out = instance.roles.contains(&Role::N6);
        let vrf = instance.vrf.map_or(0, |vrf| vrf.value());
        for (place, route) in instance.routes.iter().enumerate() {
            let to = route.to.value;
            let is_same =
                |other: &RouteConfig| prefix(other) == prefix(route) && other.via.value == route.via.value;
            if instance.routes[..place].iter().any(is_same) {
                let message = format!(
                    "via: the route to {to} by {} is configured twice",
                    route.via.value
                );
                return Err(Fault::new(&route.via, message));
            }
            let (count, leads) = self.seen.entry((vrf, prefix(route))).or_insert((0, leads_out));
            *count += 1;
            if *leads != leads_out {
                let message = format!(
                    "to: {to}: instances with role n6 and others have routes to it in VRF {vrf}; give them VRFs of their own"
                );
                return Err(Fault::new(&route.to, message));
            }
            if *count > MOST_NEXT_HOPS {
                let message = format!("to: {to}: more than {MOST_NEXT_HOPS} routes in VRF {vrf}");
                return Err(Fault::new(&route.to, message));
            }
        }
        Ok(())
    }
}

fn prefix(route: &RouteConfig) -> Option<IpPrefix> {
    IpPrefix::new(route.to.value.address, route.to.value.length)
}
