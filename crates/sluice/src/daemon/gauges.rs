//! What metrics show of workers beside what they count.

use std::sync::Arc;

use dpdk::Eal;
use oam::metrics::PacketBuffers;
use oam::rest::WorkerGauges;
use ports::Ports;
use runtime::{
    PublishedAccelerator, PublishedAccessCounts, PublishedContentTotals, PublishedEgressCounts,
    PublishedGroupTotals, PublishedHoldings, PublishedNatCounts, WorkerThread,
};

/// Flow entries that each worker has room for.
pub(super) fn flow_entries(workers: &[(worker::WorkerConfig, worker::WorkerEnd)]) -> u64 {
    let config = workers.first().map(|(config, _)| config);
    config.map_or(0, |config| (config.max_flows_v4 + config.max_flows_v6) as u64)
}

/// What these workers hold, and their packet buffers.
pub(super) fn worker_gauges(
    eal: &Eal,
    flow_entries_limit: u64,
    ports: &Ports,
    threads: &[WorkerThread],
) -> WorkerGauges {
    let holdings: Vec<_> = threads.iter().map(|thread| thread.holdings().clone()).collect();
    let access: Vec<_> = threads
        .iter()
        .map(|thread| thread.access_counts().clone())
        .collect();
    let contents: Vec<_> = threads
        .iter()
        .map(|thread| thread.content_totals().clone())
        .collect();
    let groups: Vec<_> = threads
        .iter()
        .map(|thread| thread.group_totals().clone())
        .collect();
    let nat: Vec<_> = threads.iter().map(|thread| thread.nat_counts().clone()).collect();
    let egress: Vec<_> = threads
        .iter()
        .map(|thread| thread.egress_counts().clone())
        .collect();
    let accelerators: Vec<_> = threads
        .iter()
        .map(|thread| thread.accelerator().clone())
        .collect();
    let pools = ports.pools().to_vec();
    let buffers = move || {
        let pools = pools.iter();
        let buffers = pools.map(|pool| PacketBuffers {
            used: pool.in_use().into(),
            limit: pool.config().buffers.into(),
        });
        buffers.collect()
    };
    WorkerGauges {
        holdings: Arc::new(move || holdings.iter().map(PublishedHoldings::read).collect()),
        access_counts: Arc::new(move || access.iter().map(PublishedAccessCounts::read).collect()),
        content_totals: Arc::new(move || contents.iter().map(PublishedContentTotals::read).collect()),
        group_totals: Arc::new(move || groups.iter().map(PublishedGroupTotals::read).collect()),
        nat_counts: Arc::new(move || nat.iter().map(PublishedNatCounts::read).collect()),
        egress: Arc::new(move || egress.iter().map(PublishedEgressCounts::read).collect()),
        accelerators: Arc::new(move || accelerators.iter().map(PublishedAccelerator::read).collect()),
        buffers: Arc::new(buffers),
        ticks_per_second: eal.tsc_hz(),
        flow_entries_limit,
    }
}
