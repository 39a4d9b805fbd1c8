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

/// Each worker's stages, drops and other counts, as tables for people. Counts of zero are left out.
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
        let dropped = drops(std::slice::from_ref(stats)).into_iter();
        text.push_str(&counts(
            "drop",
            dropped.map(|(reason, count)| (reason.label(), count)),
        ));
        text.push_str(&counts("count", stats.counters()));
    }
    text
}

/// A table of counts under `head`, or nothing when all are zero.
fn counts(head: &str, counts: impl IntoIterator<Item = (&'static str, u64)>) -> String {
    let mut text = String::new();
    for (name, count) in counts.into_iter().filter(|&(_, count)| count > 0) {
        if text.is_empty() {
            text = format!("  {head:<26} {:>14}\n", "packets");
        }
        text.push_str(&format!("  {name:<26} {count:>14}\n"));
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
        let counters = stats.counters().into_iter();
        let counters = counters.map(|(name, count)| (name.to_owned(), count.into()));
        json!({
            "worker": number, "received": stats.rx() + stats.inbox, "sent": stats.tx(), "stages": stages,
            "drops": drops_json(std::slice::from_ref(stats)), "counts": Value::Object(counters.collect()),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> Stats {
        let mut stats = Stats::new(1);
        stats.drops[DropReason::MeterRed.index()] = 3;
        stats.drops[DropReason::SlowPathBudget.index()] = 4;
        (stats.over_session_rate, stats.fragments_unnoted) = (5, 6);
        stats
    }

    #[test]
    fn people_see_the_drops_and_counts_that_there_are() {
        let text = runtime(&[stats(), Stats::new(1)]);
        let [first, second] = text.split("worker 1").collect::<Vec<_>>()[..] else {
            panic!("two workers: {text}");
        };
        let words = |name: &str| {
            let line = first.lines().find(|line| line.contains(name))?;
            line.split_whitespace().last()?.parse::<u64>().ok()
        };
        assert_eq!(
            (words("meter_red"), words("slow_path_budget")),
            (Some(3), Some(4))
        );
        assert_eq!(
            (words("over_session_rate"), words("fragments_unnoted")),
            (Some(5), Some(6))
        );
        assert_eq!((words("no_route"), words("over_rate")), (None, None));
        assert!(
            !second.contains("drop ") && !second.contains("count "),
            "{second}"
        );
    }

    #[test]
    fn machines_see_every_count() {
        let json = runtime_json(&[stats()]);
        let worker = &json["workers"][0];
        assert_eq!(worker["drops"], json!({"slow_path_budget": 4, "meter_red": 3}));
        let counts = worker["counts"].as_object().expect("an object");
        assert_eq!(counts.len(), stats().counters().len());
        assert_eq!(counts["over_session_rate"], 5);
        assert_eq!(counts["over_rate"], 0);
    }
}
