//! The tests of the packet path in one program, so that `Worker<MemIo>` is compiled for them once. Programs of their
//! own are `allocation`, which counts what the allocator does, and `dpdk`, which needs the EAL.

mod access_lists;
mod access_lists_by_flow;
mod actions;
mod addresses;
mod begun_connections;
mod bounds;
mod buffers;
mod chained;
mod checkpoints;
mod checksum_offload;
#[path = "../common/mod.rs"]
mod common;
mod connections;
mod correlated;
mod dropped;
mod fragmentation;
mod fragments;
mod host;
mod icmp_errors;
mod inactivity;
mod inspection;
mod lag;
mod lost_packets;
mod mss_clamping;
mod oracle;
mod oracle_nat;
mod overload;
mod own_address;
mod packet_rates;
mod path_mtu;
mod pause;
mod quotas;
mod rates;
mod reassembly;
mod recirculation;
mod redirect;
mod relays;
mod residency;
mod resolvers;
mod restoring;
mod robust;
mod slow_path;
mod tracing;
mod workers;
mod world;
