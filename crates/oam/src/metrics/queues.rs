//! The metrics of queues before ports.

use worker::{ClassView, EgressCounts, LossReason};

use super::exposition::{Exposition, Metric, Reading};
use crate::values::{ShaperStatus, label};

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
const BYTES: Metric = Metric::gauge(
    "sluice_egress_queued_bytes",
    &[],
    "Octets of the IP packets that wait in queues before ports.",
);
const BYTES_LIMIT: Metric = Metric::gauge(
    "sluice_egress_queued_bytes_limit",
    &[],
    "Octets of IP packets that may wait in queues before ports.",
);
const LACKING: Metric = Metric::gauge(
    "sluice_egress_queues_lacking",
    &[],
    "Directions of sessions that have no queues before ports for want of room: their packets do not wait, and rates that queues would keep are not kept.",
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
const WAITED: Metric = Metric::counter(
    "sluice_egress_wait_seconds",
    PRIORITY,
    "Seconds that the packets which have left queues of a priority had waited, all together.",
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
const SHAPER_LIMIT: Metric = Metric::gauge(
    "sluice_egress_shaper_limit_bytes_per_second",
    SHAPER,
    "The rate that queues of many sessions have together: of a port, an instance, or a policer that shapes. Absent where there is no limit.",
);
const SHAPER_BYTES: Metric = Metric::counter(
    "sluice_egress_shaper_bytes",
    SHAPER,
    "Octets that such a rate has let pass since it was configured, with the headers that it counts.",
);
const SHAPER_WAITING: Metric = Metric::gauge(
    "sluice_egress_shaper_waiting_sessions",
    SHAPER,
    "Sessions that wait because such a rate is used up, whatever classes they wait with.",
);
/// What a metric says of a shared rate; `None`: nothing.
type ShaperReading = fn(&ShaperStatus) -> Option<u64>;
/// `direction` is empty, and so left out, but for policers.
const SHAPER: &[&str] = &["shaper", "name", "direction"];

/// Writes the metrics of workers that have queues, and of the rates that these have together.
pub(super) fn write(to: &mut Exposition, workers: &[EgressCounts], shapers: &[ShaperStatus]) {
    write_workers(to, workers);
    write_priorities(to, workers);
    write_shapers(to, shapers);
}

fn write_workers(to: &mut Exposition, workers: &[EgressCounts]) {
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
    let of_all: [(&Metric, Reading<EgressCounts>); 3] = [
        (&BYTES, |one| one.octets),
        (&BYTES_LIMIT, |one| one.octets_limit),
        (&LACKING, |one| one.lacking as u64),
    ];
    for (metric, value) in of_all {
        to.single(metric, workers.iter().map(value).sum::<u64>());
    }
}

fn write_priorities(to: &mut Exposition, workers: &[EgressCounts]) {
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
    let mut family = to.family(&WAITED);
    for priority in 0..EgressCounts::PRIORITIES {
        let nanos = workers.iter().map(|worker| worker.priorities[priority].waited);
        family.sample(&[&priority.to_string()], nanos.sum::<u64>() as f64 / 1e9);
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

fn write_shapers(to: &mut Exposition, shapers: &[ShaperStatus]) {
    let families: [(&Metric, ShaperReading); 3] = [
        (&SHAPER_LIMIT, |one| Some(one.rate? / 8)),
        (&SHAPER_BYTES, |one| Some(one.octets)),
        (&SHAPER_WAITING, |one| Some(one.waiting_sessions)),
    ];
    for (metric, value) in families {
        let mut family = to.family(metric);
        for shaper in shapers {
            if let Some(value) = value(shaper) {
                let direction = shaper.direction.as_deref().unwrap_or_default();
                family.sample(&[&shaper.kind, &shaper.name, direction], value);
            }
        }
    }
}
