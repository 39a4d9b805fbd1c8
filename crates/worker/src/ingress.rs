//! From a port to the owner of a packet: receive queues, receive backlog, L3 interfaces, parsing, worker selection.

pub(crate) mod l3_interfaces;
pub(crate) mod last_ingress;
pub(crate) mod martian_source;
pub(crate) mod new_flow_filter;
pub(crate) mod parse;
pub(crate) mod priority;
pub(crate) mod queue_choice;
pub(crate) mod rx_backlog;
pub(crate) mod worker_selection;
