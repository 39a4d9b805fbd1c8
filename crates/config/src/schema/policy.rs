//! Forwarding policies: what SMFs name by an identifier (Forwarding Policy, TS 29.244 §5.4.8).

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use crate::bounded::Bounded;

/// One policy.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// The Forwarding Policy Identifier, to the octet.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// The instance with role n6 that plain packets leave by; that of the FAR.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub instance: Option<Spanned<String>>,
    /// The neighbour on that instance's link that plain packets go to; by the routes.
    #[serde(default)]
    #[schemars(with = "Option<IpAddr>")]
    pub next_hop: Option<Spanned<IpAddr>>,
    /// The DSCP of plain packets or of the outer header, where the FAR has no Transport Level Marking; none.
    #[serde(default)]
    pub dscp: Option<Bounded<0, 63>>,
    /// The pool of `nat_pools` that sessions get public addresses of whose FARs towards a data network name the
    /// policy, or `none`: they keep their own; that of their slice and data network.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub nat_pool: Option<Spanned<String>>,
}
