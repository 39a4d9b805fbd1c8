//! Packets for our own addresses: ARP, Neighbour Discovery, ICMP echo, GTP-U path management, the host's stack.

pub(crate) mod echo;
pub(crate) mod exception;
pub(crate) mod host;
pub(crate) mod reply;
