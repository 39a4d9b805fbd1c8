//! What workers counted, put together for people and for machines.

use packet::DropReason;
use serde_json::{Map, Value, json};
use worker::Stats;

/// The drops of all workers by reason, those that happened.
#[must_use]
pub fn drops(stats: &[Stats]) -> Vec<(DropReason, u64)> {
    let total = |reason: DropReason| stats.iter().map(|stats| stats.dropped(reason)).sum::<u64>();
    DropReason::ALL
        .into_iter()
        .map(|reason| (reason, total(reason)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// The drops as a JSON object of label and count.
#[must_use]
pub fn drops_json(stats: &[Stats]) -> Value {
    let drops = drops(stats)
        .into_iter()
        .map(|(reason, count)| (reason.label().to_owned(), count.into()));
    Value::Object(drops.collect::<Map<String, Value>>())
}

/// All of it in one JSON object, on one line.
#[must_use]
pub fn totals(stats: &[Stats]) -> Value {
    let sum = |value: &dyn Fn(&Stats) -> u64| stats.iter().map(value).sum::<u64>();
    let direction = |place: usize| {
        json!({
            "packets": sum(&|stats| stats.directions[place].forwarded.packets),
            "octets": sum(&|stats| stats.directions[place].forwarded.octets),
        })
    };
    json!({
        "received": sum(&Stats::rx),
        "sent": sum(&Stats::tx),
        "uplink": direction(0),
        "downlink": direction(1),
        "handed_over": sum(&|stats| stats.handed_over),
        "relayed": sum(&|stats| stats.relayed),
        "flow_hits": sum(&|stats| stats.hits),
        "flow_misses": sum(&|stats| stats.misses),
        "drops": drops_json(stats),
    })
}
