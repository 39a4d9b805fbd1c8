//! The metrics of queues before ports.

use worker::{ClassView, EgressCounts, LossReason};

use super::exposition::{Exposition, Metric, Reading};
use crate::values::label;

const QUEUES: Metric = Metric::gauge(
    "sluice_egress_queues",
    WORKER,
    "Queues before ports that sessions have.",
);
const QUEUES_LIMIT: Metric = Metric::gauge(
    "sluice_egress_queues_limit",
    WORKER,
    "Queues before ports that a worker has room for.",
);
const PACKETS: Metric = Metric::gauge(
    "sluice_egress_queued_packets",
    WORKER,
    "Packets that wait in queues before ports.",
);
const PACKETS_LIMIT: Metric = Metric::gauge(
    "sluice_egress_queued_packets_limit",
    WORKER,
    "Packets that may wait in queues before ports.",
);
const WORKER: &[&str] = &["worker"];
const WAITING: Metric = Metric::gauge(
    "sluice_egress_priority_queued_packets",
    PRIORITY,
    "Packets that wait in queues of a priority.",
);
const DEPARTED: Metric = Metric::counter(
    "sluice_egress_departed_packets",
    PRIORITY,
    "Packets that have left queues of a priority.",
);
const DEPARTED_BYTES: Metric = Metric::counter(
    "sluice_egress_departed_bytes",
    PRIORITY,
    "Octets of the IP packets that have left queues of a priority.",
);
const MARKED: Metric = Metric::counter(
    "sluice_egress_marked_packets",
    PRIORITY,
    "Packets that have left queues of a priority marked as having met congestion (ECN).",
);
const PRIORITY: &[&str] = &["priority"];
const DROPPED: Metric = Metric::counter(
    "sluice_egress_dropped_packets",
    &["priority", "reason"],
    "Packets that were dropped in queues of a priority, by reason.",
);

/// Writes the metrics of workers that have queues.
pub(super) fn write(to: &mut Exposition, workers: &[EgressCounts]) {
    let of_workers: [(&Metric, Reading<EgressCounts>); 4] = [
        (&QUEUES, |one| one.queues as u64),
        (&QUEUES_LIMIT, |one| one.queues_limit as u64),
        (&PACKETS, |one| one.packets as u64),
        (&PACKETS_LIMIT, |one| one.packets_limit as u64),
    ];
    for (metric, value) in of_workers {
        let mut family = to.family(metric);
        for (number, worker) in workers.iter().enumerate() {
            family.sample(&[&number.to_string()], value(worker));
        }
    }
    let of_priorities: [(&Metric, Reading<ClassView>); 4] = [
        (&WAITING, |one| one.packets),
        (&DEPARTED, |one| one.departed),
        (&DEPARTED_BYTES, |one| one.departed_octets),
        (&MARKED, |one| one.marks),
    ];
    for (metric, value) in of_priorities {
        let mut family = to.family(metric);
        for priority in 0..EgressCounts::PRIORITIES {
            let sum = workers
                .iter()
                .map(|worker| value(&worker.priorities[priority]))
                .sum::<u64>();
            family.sample(&[&priority.to_string()], sum);
        }
    }
    let mut family = to.family(&DROPPED);
    for priority in 0..EgressCounts::PRIORITIES {
        for (place, reason) in LossReason::ALL.into_iter().enumerate() {
            let own = workers
                .iter()
                .map(|worker| worker.priorities[priority].drops[place]);
            family.sample(&[&priority.to_string(), label(reason)], own.sum::<u64>());
        }
    }
}
