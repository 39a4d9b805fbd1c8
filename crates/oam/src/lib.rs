//! Operation, administration and maintenance: what an operator sees of a UPF and asks of it.
//!
//! [`values`] are the objects of the REST API and their text forms; [`views`] make them from a UPF; [`rest`] serves and
//! asks over a Unix socket; [`page`] is the page in the daemon.

#![forbid(unsafe_code)]

pub mod alarms;
pub mod configuration;
mod log;
pub mod metrics;
pub mod page;
pub mod rest;
pub mod tokens;
pub mod totals;
pub mod values;
pub mod views;

pub use log::LogControl;
