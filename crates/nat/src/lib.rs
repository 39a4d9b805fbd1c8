//! CG-NAT (RFC 6888): pools of public IPv4 addresses, the blocks of ports that sessions hold of them, and the mappings
//! between a session's own addresses and ports and the public ones.
//!
//! Sans-IO. Control draws blocks and takes them back ([`blocks`]), or they follow from addresses
//! ([`deterministic`](pools::deterministic)) or port forwards ([`fixed`](pools::fixed)). A worker maps ports within the
//! blocks of its sessions ([`mappings`]), so that no two workers ever share a port, and nothing is asked of control for
//! a flow.

#![forbid(unsafe_code)]

mod bits;
pub mod blocks;
mod by_free;
pub mod mappings;
pub mod pools;
