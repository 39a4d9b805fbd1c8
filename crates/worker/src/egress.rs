//! From a decided packet to a port: link aggregation, path MTUs, fragmentation, checksums, transmit queues.

pub(crate) mod checksum_offload;
pub(crate) mod copies;
pub(crate) mod duplicate;
pub(crate) mod forwarding;
pub(crate) mod fragmentation;
pub(crate) mod free;
pub(crate) mod hand_over;
pub(crate) mod lags;
pub(crate) mod linearize;
pub(crate) mod network_tables;
pub(crate) mod path_mtus;
pub(crate) mod ports;
pub(crate) mod queueing;
pub(crate) mod tx_queues;
