//! Queues before ports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use upf::format::grouped;
use utoipa::ToSchema;
use worker::{ClassView, EgressCounts, LossReason, QueueStatus};

use super::facts::list;
use super::table::Table;

/// The queues of all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueList {
    /// Queues that sessions have.
    pub queues: u64,
    /// Of these, those of sessions that are at an accelerator: their packets wait there.
    #[serde(skip_serializing_if = "is_none", default)]
    pub at_accelerator: u64,
    /// Queues that there is room for; 0: the configuration has none.
    pub queues_limit: u64,
    /// Packets that wait.
    pub packets: u64,
    /// Packets that may wait.
    pub packets_limit: u64,
    /// Octets of the IP packets that wait.
    pub octets: u64,
    /// Octets that may wait.
    pub octets_limit: u64,
    /// Directions of sessions without the queues that they ought to have, because there was no room for these.
    pub lacking: u64,
    /// What has waited since the start, by priority.
    pub priorities: Vec<QueuePriority>,
    /// The rates at which they leave together: of ports, instances, and policers that shape.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub shapers: Vec<ShaperStatus>,
}

/// What is configured of queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuePlan {
    /// The rates, and what each worker has of them.
    pub shapers: Vec<ShaperStatus>,
    /// The names of classes, by priority.
    pub classes: BTreeMap<u8, Vec<String>>,
}

/// A rate that queues of many sessions have together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShaperStatus {
    /// `port`, `instance` or `policer`.
    #[schema(example = "policer")]
    pub kind: String,
    /// The name of that.
    #[schema(example = "iot")]
    pub name: String,
    /// Of a policer: `uplink` or `downlink`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub direction: Option<String>,
    /// The rate, bit/s; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate: Option<u64>,
    /// What leaves, bit/s, over some tens of milliseconds, with the headers that the rate counts.
    pub sends: u64,
    /// Octets that have left since it was configured, with those headers.
    pub octets: u64,
    /// Sessions that wait because the rate is used up, whatever classes they wait with.
    pub waiting_sessions: u64,
    /// What each worker has of it.
    pub workers: Vec<ShaperPart>,
}

/// What a worker has of a rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShaperPart {
    /// Its part, bit/s; 0 without sessions there; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate: Option<u64>,
    /// What leaves, bit/s.
    pub sends: u64,
    /// Sessions that wait because the part is used up.
    pub waiting_sessions: u64,
}

/// The queues of one priority. A queue with a guaranteed rate is of the priority of its class, whatever it sends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueuePriority {
    /// The priority; 0 goes first.
    pub priority: u8,
    /// The classes that have it.
    #[schema(example = json!(["voice"]))]
    pub classes: Vec<String>,
    /// Packets that wait.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
    /// Packets that have left.
    pub departed_packets: u64,
    /// Their octets.
    pub departed_octets: u64,
    /// Microseconds that they had waited, all together.
    pub waited_us: u64,
    /// Of these, how many were marked as having met congestion (ECN).
    pub marked_packets: u64,
    /// Packets that were dropped, by reason: `queue_full`, `pool_share`, `pool_full` (there was no room), `pushed_out`
    /// (a yellow one made room for a green one), `delay` (active queue management).
    pub dropped: BTreeMap<String, u64>,
}

/// A queue of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionQueue {
    /// `uplink` or `downlink`.
    #[schema(example = "downlink")]
    pub direction: String,
    /// Its class.
    #[schema(example = "voice")]
    pub class: String,
    /// The QER whose mark its packets have; absent: they have none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub qer: Option<u32>,
    /// The QER whose rate it shares with others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shared_rate: Option<u32>,
    /// Whether its packets wait in a queue of the accelerator in its place, which says how it stands.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub at_accelerator: bool,
    /// Packets that wait.
    pub packets: u32,
    /// Their octets.
    pub octets: u32,
    /// Microseconds that the first of them has waited so far.
    pub waiting_us: u64,
    /// Microseconds that the packet which left last had waited.
    pub sojourn_us: u64,
    /// Packets that were marked as having met congestion (ECN).
    pub marked_packets: u32,
    /// Packets that were dropped, by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub dropped: BTreeMap<String, u64>,
}

/// Whether there is nothing to say.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_none(count: &u64) -> bool {
    *count == 0
}

/// The label of a reason why a packet is lost in a queue.
pub(crate) const fn label(reason: LossReason) -> &'static str {
    match reason {
        LossReason::NoQueue => "no_queue",
        LossReason::Length => "length",
        LossReason::QueueFull => "queue_full",
        LossReason::PoolShare => "pool_share",
        LossReason::PoolFull => "pool_full",
        LossReason::PushedOut => "pushed_out",
        LossReason::Aqm => "delay",
    }
}

fn by_reason(drops: impl IntoIterator<Item = u64>) -> BTreeMap<String, u64> {
    let all = LossReason::ALL.into_iter().zip(drops);
    all.filter(|(_, count)| *count > 0)
        .map(|(reason, count)| (label(reason).to_owned(), count))
        .collect()
}

impl QueueList {
    /// Of the counts of all workers, and what is configured.
    #[must_use]
    pub fn of(workers: &[EgressCounts], plan: QueuePlan) -> Self {
        let QueuePlan { shapers, mut classes } = plan;
        let sum = |of: fn(&EgressCounts) -> u64| workers.iter().map(of).sum();
        let priorities = (0..EgressCounts::PRIORITIES).map(|priority| {
            let sum =
                |of: fn(&ClassView) -> u64| workers.iter().map(|one| of(&one.priorities[priority])).sum();
            let drops = (0..LossReason::COUNT).map(|place| {
                workers
                    .iter()
                    .map(|one| one.priorities[priority].drops[place])
                    .sum()
            });
            QueuePriority {
                priority: priority as u8,
                classes: classes.remove(&(priority as u8)).unwrap_or_default(),
                packets: sum(|one| one.packets),
                octets: sum(|one| one.octets),
                departed_packets: sum(|one| one.departed),
                departed_octets: sum(|one| one.departed_octets),
                waited_us: sum(|one| one.waited) / 1_000,
                marked_packets: sum(|one| one.marks),
                dropped: by_reason(drops),
            }
        });
        let is_used = |one: &QueuePriority| {
            !one.classes.is_empty() || one.packets + one.departed_packets > 0 || !one.dropped.is_empty()
        };
        Self {
            queues: sum(|one| one.queues as u64),
            at_accelerator: sum(|one| one.away as u64),
            queues_limit: sum(|one| one.queues_limit as u64),
            packets: sum(|one| one.packets as u64),
            packets_limit: sum(|one| one.packets_limit as u64),
            octets: sum(|one| one.octets),
            octets_limit: sum(|one| one.octets_limit),
            lacking: sum(|one| one.lacking as u64),
            priorities: priorities.filter(is_used).collect(),
            shapers,
        }
    }

    /// As tables for people, and a line about room.
    #[must_use]
    pub fn text(&self) -> String {
        if self.queues_limit == 0 {
            return "no queues before ports are configured (egress)\n".into();
        }
        let mut table = Table::new([
            ">priority",
            "classes",
            ">waiting",
            ">octets",
            ">left",
            ">octets",
            ">µs each",
            ">marked",
            "dropped",
        ]);
        for one in &self.priorities {
            let dropped = one.dropped.iter();
            table.row([
                one.priority.to_string(),
                list(one.classes.iter().cloned()),
                grouped(one.packets),
                grouped(one.octets),
                grouped(one.departed_packets),
                grouped(one.departed_octets),
                grouped(one.waited_us / one.departed_packets.max(1)),
                grouped(one.marked_packets),
                list(dropped.map(|(reason, count)| format!("{reason} {}", grouped(*count)))),
            ]);
        }
        format!(
            "{}{}\nqueues: {} of {}{}; packets that wait: {} of {}\n{}",
            table.text(""),
            self.shapers_text(),
            grouped(self.queues),
            grouped(self.queues_limit),
            match self.at_accelerator {
                0 => String::new(),
                away => format!(", {} at an accelerator", grouped(away)),
            },
            grouped(self.packets),
            grouped(self.packets_limit),
            self.lacking_text(),
        )
    }
}

impl QueueList {
    /// As lines among others, of an accelerator: it knows no names of classes.
    pub(super) fn lines(&self) -> Vec<String> {
        let room = format!(
            "{} of {}; packets that wait: {} of {}",
            grouped(self.queues),
            grouped(self.queues_limit),
            grouped(self.packets),
            grouped(self.packets_limit),
        );
        let of_priority = |one: &QueuePriority| {
            let dropped = one.dropped.iter();
            let dropped = dropped.map(|(reason, count)| format!(", {reason} {}", grouped(*count)));
            format!(
                "priority {}: waiting {}, left {}, {} µs each, marked {}{}",
                one.priority,
                grouped(one.packets),
                grouped(one.departed_packets),
                grouped(one.waited_us / one.departed_packets.max(1)),
                grouped(one.marked_packets),
                dropped.collect::<String>(),
            )
        };
        let priorities = self.priorities.iter().map(of_priority);
        std::iter::once(room).chain(priorities).collect()
    }

    /// What lacks queues.
    fn lacking_text(&self) -> String {
        match self.lacking {
            0 => String::new(),
            lacking => format!(
                "without queues for want of room: {} directions of sessions, whose rates are not kept\n",
                grouped(lacking)
            ),
        }
    }

    /// The rates, in kbit/s.
    fn shapers_text(&self) -> String {
        if self.shapers.is_empty() {
            return String::new();
        }
        let kbit = |bits: u64| grouped(bits / 1_000);
        let limit = |bits: Option<u64>| bits.map_or_else(|| "no limit".to_owned(), kbit);
        let heads = ["shaper", ">kbit/s", ">sent", ">waiting", "parts of workers"];
        let mut table = Table::new(heads);
        for one in &self.shapers {
            let direction = one.direction.iter().flat_map(|direction| [" ", direction]);
            let name = format!("{} {}{}", one.kind, one.name, direction.collect::<String>());
            table.row([
                name,
                limit(one.rate),
                kbit(one.sends),
                grouped(one.waiting_sessions),
                list(one.workers.iter().map(|part| limit(part.rate))),
            ]);
        }
        format!("\n{}", table.text(""))
    }
}

/// The name of a direction.
pub(crate) const fn way(direction: flow::Direction) -> &'static str {
    match direction {
        flow::Direction::Uplink => "uplink",
        flow::Direction::Downlink => "downlink",
    }
}

impl SessionQueue {
    /// Of what its worker says; `class` names classes by their places.
    #[must_use]
    pub fn of(queue: &QueueStatus, class: impl Fn(u8) -> String) -> Self {
        let view = &queue.view;
        Self {
            direction: way(queue.direction).into(),
            class: class(queue.class),
            qer: queue.qer.map(|qer| qer.0),
            shared_rate: queue.shared.map(|qer| qer.0),
            at_accelerator: queue.is_at_accelerator,
            packets: view.packets,
            octets: view.octets,
            waiting_us: view.waiting / 1_000,
            sojourn_us: view.sojourn / 1_000,
            marked_packets: view.marks,
            dropped: by_reason(view.drops.map(u64::from)),
        }
    }
}

impl SessionQueue {
    pub(super) fn cells(&self) -> [String; 9] {
        let qer = match (self.qer, self.shared_rate) {
            (None, None) => "-".to_owned(),
            (Some(qer), None) => qer.to_string(),
            (None, Some(shared)) => format!("shares {shared}"),
            (Some(qer), Some(shared)) => format!("{qer}, shares {shared}"),
        };
        let dropped = self.dropped.iter();
        [
            self.direction.clone(),
            match self.at_accelerator {
                true => format!("{} (at the accelerator)", self.class),
                false => self.class.clone(),
            },
            qer,
            grouped(self.packets.into()),
            grouped(self.octets.into()),
            grouped(self.waiting_us),
            grouped(self.sojourn_us),
            grouped(self.marked_packets.into()),
            list(dropped.map(|(reason, count)| format!("{reason} {}", grouped(*count)))),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_workers_count_together() {
        let worker = |packets| {
            let mut counts = EgressCounts {
                queues: 2,
                queues_limit: 10,
                packets: packets as usize,
                packets_limit: 100,
                octets: 1_000,
                ..EgressCounts::default()
            };
            counts.priorities[1].packets = packets;
            counts.priorities[1].departed = 1_234;
            counts.priorities[1].waited = 1_234 * 15_000;
            counts.priorities[1].drops[LossReason::Aqm as usize] = 3;
            counts
        };
        let part = |rate| ShaperPart {
            rate: Some(rate),
            ..ShaperPart::default()
        };
        let shaper = ShaperStatus {
            kind: "policer".into(),
            name: "iot".into(),
            direction: Some("downlink".into()),
            rate: Some(100_000_000),
            sends: 99_500_000,
            octets: 1_000,
            waiting_sessions: 7,
            workers: vec![part(75_000_000), part(25_000_000)],
        };
        let both = QueueList::of(
            &[worker(1), worker(2)],
            QueuePlan {
                shapers: vec![shaper],
                classes: [(1, vec!["rest".to_owned()]), (7, vec!["bulk".to_owned()])].into(),
            },
        );
        assert_eq!((both.queues, both.queues_limit, both.packets), (4, 20, 3));
        assert_eq!(both.priorities.len(), 2, "{both:?}");
        assert_eq!(
            (both.priorities[0].waited_us, &both.priorities[1].classes[0][..]),
            (37_020, "bulk")
        );
        assert_eq!(
            (both.priorities[0].priority, both.priorities[0].dropped["delay"]),
            (1, 6)
        );
        let text = both.text();
        assert!(text.contains("delay 6") && text.contains("2,468"), "{text}");
        let row = "policer iot downlink  100,000  99,500        7  75,000, 25,000\n";
        assert!(text.contains(row), "{text}");
        assert!(
            text.ends_with("queues: 4 of 20; packets that wait: 3 of 200\n"),
            "{text}"
        );
        let lacking = QueueList { lacking: 2, ..both };
        assert!(
            lacking
                .text()
                .contains("\nwithout queues for want of room: 2 directions")
        );
        assert!(QueueList::default().text().contains("no queues"));
    }
}
