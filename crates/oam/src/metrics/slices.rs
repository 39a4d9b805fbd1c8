//! What was forwarded of slices and data networks.

use flow::SessionGroupTotal;

use super::control::GroupCounts;
use super::exposition::{Exposition, Metric, Reading};
use super::scrape::Scrape;

const PACKETS: Metric = Metric::counter(
    "sluice_slice_forwarded_packets",
    BY_DIRECTION,
    "User packets of sessions of this S-NSSAI and DNN that left: what is lost behind its rules is not counted.",
);
const BYTES: Metric = Metric::counter(
    "sluice_slice_forwarded_bytes",
    BY_DIRECTION,
    "Octets of these packets, from their inner IP header on.",
);
const BY_DIRECTION: &[&str] = &["slice", "dnn", "direction"];

/// What all workers have forwarded of a group.
pub(crate) fn forwarded_of(group: &GroupCounts, workers: &[Vec<SessionGroupTotal>]) -> SessionGroupTotal {
    let own = workers
        .iter()
        .filter_map(|worker| worker.get(group.number.index()));
    own.fold(SessionGroupTotal::default(), |sum, one| SessionGroupTotal {
        packets: [sum.packets[0] + one.packets[0], sum.packets[1] + one.packets[1]],
        octets: [sum.octets[0] + one.octets[0], sum.octets[1] + one.octets[1]],
    })
}

/// Writes the metrics of slices.
pub(super) fn write(to: &mut Exposition, scrape: &Scrape) {
    let groups = &scrape.control.groups;
    let totals: Vec<_> = groups
        .iter()
        .map(|group| forwarded_of(group, &scrape.workers.groups))
        .collect();
    let families: [(&Metric, [Reading<SessionGroupTotal>; 2]); 2] = [
        (&PACKETS, [|total| total.packets[0], |total| total.packets[1]]),
        (&BYTES, [|total| total.octets[0], |total| total.octets[1]]),
    ];
    for (metric, readings) in families {
        let mut family = to.family(metric);
        for (group, total) in groups.iter().zip(&totals) {
            for (direction, reading) in ["uplink", "downlink"].into_iter().zip(readings) {
                family.sample(&[&group.slice, &group.dnn, direction], reading(total));
            }
        }
    }
}
