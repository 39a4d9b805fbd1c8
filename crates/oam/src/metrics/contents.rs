//! The metrics of the contents of predefined rules.

use crate::values::ContentRow;

use super::exposition::{Exposition, Metric, Reading};

const FLOWS: Metric = Metric::counter(
    "sluice_content_flows",
    &["content", "rating_group", "service_id"],
    "Decisions that a flow is of this content, one for each direction.",
);
const PACKETS: Metric = Metric::counter(
    "sluice_content_packets",
    BY_DIRECTION,
    "User packets that all sessions have counted of this content.",
);
const BYTES: Metric = Metric::counter(
    "sluice_content_bytes",
    BY_DIRECTION,
    "Octets of these packets, from their inner IP header on.",
);
const BY_DIRECTION: &[&str] = &["content", "rating_group", "service_id", "direction"];

/// Writes the metrics of contents.
pub(super) fn write(to: &mut Exposition, contents: &[ContentRow]) {
    let labels: Vec<_> = contents.iter().map(labels).collect();
    let all = || contents.iter().zip(&labels);
    let mut family = to.family(&FLOWS);
    for (content, [name, group, service]) in all() {
        family.sample(&[name, group, service], content.flows);
    }
    let families: [(&Metric, [Reading<ContentRow>; 2]); 2] = [
        (&PACKETS, [|row| row.uplink_packets, |row| row.downlink_packets]),
        (&BYTES, [|row| row.uplink_octets, |row| row.downlink_octets]),
    ];
    for (metric, readings) in families {
        let mut family = to.family(metric);
        for (content, [name, group, service]) in all() {
            for (direction, reading) in ["uplink", "downlink"].into_iter().zip(readings) {
                family.sample(&[name, group, service, direction], reading(content));
            }
        }
    }
}

fn labels(content: &ContentRow) -> [String; 3] {
    let number = |value: Option<u32>| value.map_or_else(String::new, |value| value.to_string());
    [
        content.name.clone(),
        number(content.rating_group),
        number(content.service_id),
    ]
}
