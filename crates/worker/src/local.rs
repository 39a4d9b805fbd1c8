//! Packets for our own addresses: ARP, Neighbour Discovery, ICMP echo, GTP-U path management, the host's stack.

pub(crate) mod echo;
pub(crate) mod error_indication;
pub(crate) mod exception;
pub(crate) mod host;
pub(crate) mod icmp_errors;
pub(crate) mod limits;
pub(crate) mod redirect;
pub(crate) mod reply;
