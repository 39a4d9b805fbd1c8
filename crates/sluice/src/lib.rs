//! Sluice: a 5G/4G user plane. This crate puts the parts together: the configuration, the UPF as parts that are polled
//! ([`upf`]), the shell of the daemon, and the programs that `sluice` offers.

#![forbid(unsafe_code)]

pub mod api;
pub mod bench;
mod bounded_file;
pub mod clock;
pub mod commands;
pub mod config;
pub mod daemon;
pub mod demo;
mod kernel;
mod nic;
mod ports;
pub mod trace;
pub mod upf;
mod view;
