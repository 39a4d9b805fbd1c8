//! From a port to the owner of a packet: receive backlog, L3 interfaces, parsing, steering between workers.

pub(crate) mod l3_interfaces;
pub(crate) mod parse;
pub(crate) mod priority;
pub(crate) mod rx_backlog;
pub(crate) mod steer;
pub(crate) mod steering;
