//! What workers counted, put together for people and for machines.

use packet::DropReason;
use serde_json::{Map, Value, json};
use worker::{Stage, StageStats, Stats};

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
        "flow_hits": sum(&|stats| stats.hits),
        "flow_misses": sum(&|stats| stats.misses),
        "drops": drops_json(stats),
    })
}

/// Each worker's stages, as a table for people.
#[must_use]
pub fn runtime(stats: &[Stats]) -> String {
    let mut text = String::new();
    for (worker, stats) in stats.iter().enumerate() {
        let head = format!(
            "worker {worker}: received {}, sent {}, dropped {}\n  {:<8} {:>14} {:>16} {:>14} {:>13}\n",
            stats.rx() + stats.inbox,
            stats.tx(),
            stats.drops.iter().sum::<u64>(),
            "stage",
            "calls",
            "packets",
            "cycles/packet",
            "packets/call"
        );
        text.push_str(&head);
        for stage in Stage::ALL {
            let StageStats { calls, packets, .. } = stats.stages[stage as usize];
            let [cycles, batch] = averages(&stats.stages[stage as usize]);
            let line = format!(
                "  {:<8} {calls:>14} {packets:>16} {cycles:>14.1} {batch:>13.1}\n",
                stage.label()
            );
            text.push_str(&line);
        }
    }
    text
}

/// The same for machines, with the raw counts.
#[must_use]
pub fn runtime_json(stats: &[Stats]) -> Value {
    let stage = |stats: &Stats, stage: Stage| {
        let count = stats.stages[stage as usize];
        let [cycles, batch] = averages(&count);
        json!({
            "stage": stage.label(), "calls": count.calls, "packets": count.packets, "cycles": count.ticks,
            "cycles_per_packet": cycles, "packets_per_call": batch,
        })
    };
    let worker = |(number, stats): (usize, &Stats)| {
        let stages: Vec<Value> = Stage::ALL.iter().map(|&of| stage(stats, of)).collect();
        json!({
            "worker": number, "received": stats.rx() + stats.inbox, "sent": stats.tx(), "stages": stages,
            "drops": drops_json(std::slice::from_ref(stats)),
        })
    };
    json!({"workers": stats.iter().enumerate().map(worker).collect::<Vec<_>>()})
}

/// Cycles for each packet, and packets in each call.
fn averages(stage: &StageStats) -> [f64; 2] {
    let packets = stage.packets as f64;
    [
        stage.ticks as f64 / packets.max(1.0),
        packets / (stage.calls as f64).max(1.0),
    ]
}
