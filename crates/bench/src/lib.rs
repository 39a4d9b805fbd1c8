//! `sluice bench`: the published traffic models, measured on this machine in two harnesses.
//!
//! *Self-fed* ([`selffed`]): a worker whose port makes and takes the packets on its own core; for throughput, flow
//! set-up, scaling and memory. *Two-core* ([`twocore`]): a generator on another core sends at a set rate over memory
//! rings; for loss and latency. Neither has a NIC or its driver, and every figure says so. [`pfcp`] measures the
//! daemon's control thread over UDP sockets, beside a self-fed worker. [`resilience`] kills a daemon of its own, whose
//! ports are virtual Ethernet of the kernel. The models' sessions go through
//! `rules::compile`, their flows through the slow path, and a sample of the packets is held against the interpreter.

#![forbid(unsafe_code)]

pub mod capacity;
pub mod check;
pub mod clock;
pub mod egress;
pub mod error;
pub mod feed;
pub mod fixed;
pub mod floors;
pub mod frame;
pub mod html;
pub mod inspection;
pub mod latency;
pub mod load;
pub mod machine;
pub mod memory;
pub mod model;
pub mod nat;
pub mod network;
pub mod offload;
pub mod overload;
pub mod pfcp;
pub mod plan;
pub mod point_names;
pub mod progress;
pub mod published;
pub mod report;
pub mod resilience;
pub mod results;
pub mod rules;
pub mod runner;
pub mod scaling;
pub mod search;
pub mod selffed;
pub mod settings;
pub mod setup;
pub mod targets;
pub mod twocore;
pub mod verdict;
pub mod world;

/// Printed with every figure.
pub const NO_DRIVER: &str = "no NIC driver";

#[cfg(test)]
mod tests;
