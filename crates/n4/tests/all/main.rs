//! The tests of the endpoint in one program: it is compiled and linked once.

mod admission_queue;
mod association_setup;
mod associations;
mod broken_upfs;
mod captures;
mod compliance;
mod correlations;
mod downlink;
mod epc;
mod event_log;
mod floods;
mod foreign;
mod interfaces;
mod load;
mod lossy;
mod node_reports;
mod partial_pfds;
mod peers;
mod pfds;
mod policers;
mod pools;
mod predefined;
mod procedures;
mod releases;
mod reports;
mod restoration;
mod sets;
mod smfs;
#[path = "../support/mod.rs"]
mod support;
mod traffic_endpoints;
mod transfer;
mod urrs;
mod usage_information;
mod usage_records;
mod values;
