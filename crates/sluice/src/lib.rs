//! Sluice: a 5G/4G user plane. This crate puts the parts together: the configuration, the UPF as one object that can
//! be polled (`upf`), and the programs that `sluice` offers.

pub mod config;
