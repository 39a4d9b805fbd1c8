//! What workers do that have nothing to do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a worker without packets does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IdlePolicy {
    /// It polls on: the least latency, for a core of its own.
    Busy,
    /// It sleeps between polls, longer and longer, up to `idle_sleep_us`.
    Adaptive,
    /// It waits for the sockets of its ports; only where all are `af_packet` or `af_xdp`.
    Interrupt,
}
