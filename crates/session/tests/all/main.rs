//! The tests of sessions in one program: it is compiled and linked once.

mod bucket_moves;
mod correlations;
mod f_teids;
mod fixed_blocks;
mod lifecycle;
mod model;
mod nat_choice;
mod packet_rates;
mod pools;
mod port_blocks;
mod quotas;
mod slice_workers;
mod supersede;
#[path = "../support/mod.rs"]
mod support;
mod traffic_endpoints;
mod transfer;
mod unacknowledged_usage;
mod usage_kept;
mod usage_measurement;
mod usage_records;
mod worker_faults;
mod worker_selection;
