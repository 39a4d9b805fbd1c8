//! What the workers do: calls, packets and cycles of each stage, drops by reason, other counts.

use std::collections::BTreeMap;

use flow::residency::Residency;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use worker::{Stage, Stats};

use super::table::Table;
use crate::totals::drops;

/// All workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Runtime {
    /// In the order of their numbers.
    pub workers: Vec<WorkerRuntime>,
    /// The interfaces of the host's own network stack, in the order of their instances.
    #[serde(default)]
    pub hosts: Vec<HostLink>,
}

/// An interface of the host's own network stack on an instance's link, since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostLink {
    /// The network instance.
    pub instance: String,
    /// The interface's name.
    pub interface: String,
    /// Packets that the host got.
    pub to_host: u64,
    /// Frames that the host sent.
    pub from_host: u64,
    /// Of both, those that found no room.
    pub lost: u64,
}

/// One worker since its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerRuntime {
    /// Its number.
    pub worker: usize,
    /// Packets from ports, and from other workers.
    pub received: u64,
    /// Packets to ports.
    pub sent: u64,
    /// Packets dropped, for whatever reason.
    pub dropped: u64,
    /// The stages of a packet's way, in order.
    pub stages: Vec<StageRuntime>,
    /// Packets dropped by reason, of those reasons that there were.
    pub drops: BTreeMap<String, u64>,
    /// Everything else that it counts.
    pub counts: BTreeMap<String, u64>,
    /// Where its memory is, as found at the start.
    #[serde(default)]
    pub memory: Option<WorkerMemory>,
}

/// Where the memory of one worker is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerMemory {
    /// The core that its thread is pinned to.
    pub core: Option<u32>,
    /// The NUMA node of the core, on which the memory belongs.
    pub node: Option<u16>,
    /// Flow tables and session blocks.
    pub tables: MemoryResidency,
    /// The pool of the packets that it receives and makes.
    pub packet_buffers: MemoryResidency,
}

/// Where the kernel has put memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryResidency {
    /// Octets of addresses.
    pub octets: u64,
    /// Those that are resident, by the size of their pages.
    pub pages: Vec<PageShare>,
    /// Those that are resident, by NUMA node; empty where the kernel reports none.
    pub nodes: Vec<NodeShare>,
}

/// Octets in pages of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PageShare {
    /// Octets of a page.
    pub page_octets: u64,
    /// Octets in such pages.
    pub octets: u64,
}

/// Octets on one NUMA node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeShare {
    /// The node.
    pub node: u16,
    /// Octets on it.
    pub octets: u64,
}

impl From<&Residency> for MemoryResidency {
    fn from(found: &Residency) -> Self {
        let pages = found.pages.iter().map(|(page, octets)| PageShare {
            page_octets: *page as u64,
            octets: *octets as u64,
        });
        let nodes = found.nodes.iter().map(|(node, octets)| NodeShare {
            node: *node,
            octets: *octets as u64,
        });
        Self {
            octets: found.octets as u64,
            pages: pages.collect(),
            nodes: nodes.collect(),
        }
    }
}

impl From<&MemoryResidency> for Residency {
    fn from(told: &MemoryResidency) -> Self {
        let pages = told.pages.iter();
        let nodes = told.nodes.iter();
        Self {
            octets: told.octets as usize,
            pages: pages
                .map(|share| (share.page_octets as usize, share.octets as usize))
                .collect(),
            nodes: nodes.map(|share| (share.node, share.octets as usize)).collect(),
        }
    }
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StageRuntime {
    /// Its name.
    #[schema(example = "lookup")]
    pub stage: String,
    /// Bursts.
    pub calls: u64,
    /// Packets in them.
    pub packets: u64,
    /// Cycles of the processor's time stamp counter.
    pub cycles: u64,
    /// Cycles for each packet.
    pub cycles_per_packet: f64,
    /// Packets in each burst.
    pub packets_per_call: f64,
}

impl Runtime {
    /// What these workers have counted.
    #[must_use]
    pub fn of(stats: &[Stats]) -> Self {
        let workers = stats.iter().enumerate();
        Self {
            workers: workers
                .map(|(number, stats)| WorkerRuntime::of(number, stats))
                .collect(),
            hosts: Vec::new(),
        }
    }

    /// The same, with these interfaces.
    #[must_use]
    pub fn with_hosts(self, hosts: Vec<HostLink>) -> Self {
        Self { hosts, ..self }
    }

    /// The same, with where the workers' memory is, by worker.
    #[must_use]
    pub fn with_memory(mut self, memory: &[WorkerMemory]) -> Self {
        for (worker, memory) in self.workers.iter_mut().zip(memory) {
            worker.memory = Some(memory.clone());
        }
        self
    }

    /// As tables for people. Counts of zero are left out.
    #[must_use]
    pub fn text(&self) -> String {
        let workers: String = self.workers.iter().map(WorkerRuntime::text).collect();
        if self.hosts.is_empty() {
            return workers;
        }
        let mut hosts = Table::new(["instance", "interface", ">to host", ">from host", ">lost"]);
        for host in &self.hosts {
            hosts.row([
                host.instance.clone(),
                host.interface.clone(),
                host.to_host.to_string(),
                host.from_host.to_string(),
                host.lost.to_string(),
            ]);
        }
        format!("{workers}host\n{}", hosts.text("  "))
    }
}

impl WorkerRuntime {
    fn of(worker: usize, stats: &Stats) -> Self {
        let dropped = drops(std::slice::from_ref(stats)).into_iter();
        let named = |(name, count): (&'static str, u64)| (name.to_owned(), count);
        Self {
            worker,
            received: stats.rx() + stats.inbox,
            sent: stats.tx(),
            dropped: stats.drops.iter().sum(),
            stages: Stage::ALL
                .iter()
                .map(|&stage| StageRuntime::of(stage, stats))
                .collect(),
            drops: dropped
                .map(|(reason, count)| (reason.label().to_owned(), count))
                .collect(),
            counts: stats.counters().into_iter().map(named).collect(),
            memory: None,
        }
    }

    fn text(&self) -> String {
        let mut stages = Table::new(["stage", ">calls", ">packets", ">cycles/packet", ">packets/call"]);
        for stage in &self.stages {
            stages.row([
                stage.stage.clone(),
                stage.calls.to_string(),
                stage.packets.to_string(),
                format!("{:.1}", stage.cycles_per_packet),
                format!("{:.1}", stage.packets_per_call),
            ]);
        }
        format!(
            "worker {}: received {}, sent {}, dropped {}\n{}{}{}{}",
            self.worker,
            self.received,
            self.sent,
            self.dropped,
            self.memory.as_ref().map_or_else(String::new, WorkerMemory::text),
            stages.text("  "),
            counts("drop", &self.drops),
            counts("count", &self.counts)
        )
    }
}

impl WorkerMemory {
    fn text(&self) -> String {
        let known = |number: Option<String>| number.unwrap_or_else(|| "any".to_owned());
        format!(
            "  core {}, NUMA node {}\n  tables          {}\n  packet buffers  {}\n",
            known(self.core.map(|core| core.to_string())),
            known(self.node.map(|node| node.to_string())),
            Residency::from(&self.tables),
            Residency::from(&self.packet_buffers)
        )
    }
}

impl StageRuntime {
    fn of(stage: Stage, stats: &Stats) -> Self {
        let count = stats.stages[stage as usize];
        let packets = count.packets as f64;
        Self {
            stage: stage.label().to_owned(),
            calls: count.calls,
            packets: count.packets,
            cycles: count.ticks,
            cycles_per_packet: count.ticks as f64 / packets.max(1.0),
            packets_per_call: packets / (count.calls as f64).max(1.0),
        }
    }
}

/// A table of counts under `head`, or nothing when all are zero.
fn counts(head: &'static str, counts: &BTreeMap<String, u64>) -> String {
    let mut table = Table::new([head, ">packets"]);
    for (name, count) in counts.iter().filter(|(_, count)| **count > 0) {
        table.row([name.clone(), count.to_string()]);
    }
    if table.is_empty() {
        String::new()
    } else {
        table.text("  ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::DropReason;

    fn stats() -> Stats {
        let mut stats = Stats::new(1);
        stats.drops[DropReason::MeterRed.index()] = 3;
        stats.drops[DropReason::SlowPathBudget.index()] = 4;
        (stats.over_session_rate, stats.fragments_unnoted) = (5, 6);
        let lookup = &mut stats.stages[Stage::Lookup as usize];
        (lookup.calls, lookup.packets, lookup.ticks) = (2, 100, 5_000);
        stats
    }

    #[test]
    fn people_see_the_drops_and_counts_that_there_are() {
        let text = Runtime::of(&[stats(), Stats::new(1)]).text();
        let [first, second] = text.split("worker 1").collect::<Vec<_>>()[..] else {
            panic!("two workers: {text}");
        };
        let words = |name: &str| {
            let line = first.lines().find(|line| line.contains(name))?;
            line.split_whitespace().last()?.parse::<f64>().ok()
        };
        assert_eq!(
            (words("meter_red"), words("slow_path_budget")),
            (Some(3.0), Some(4.0))
        );
        assert_eq!(
            (words("over_session_rate"), words("fragments_unnoted")),
            (Some(5.0), Some(6.0))
        );
        assert_eq!((words("no_route"), words("over_rate")), (None, None));
        assert_eq!(words("lookup"), Some(50.0));
        assert!(
            !second.contains("drop ") && !second.contains("count "),
            "{second}"
        );
    }

    #[test]
    fn memory_is_shown_of_the_workers_that_it_is_known_of() {
        let tables = MemoryResidency {
            octets: 8 << 20,
            pages: vec![PageShare {
                page_octets: 2 << 20,
                octets: 8 << 20,
            }],
            nodes: vec![NodeShare {
                node: 1,
                octets: 8 << 20,
            }],
        };
        let memory = WorkerMemory {
            core: Some(5),
            node: Some(1),
            packet_buffers: MemoryResidency {
                nodes: Vec::new(),
                ..tables.clone()
            },
            tables,
        };
        let runtime = Runtime::of(&[stats(), stats()]).with_memory(&[memory]);
        assert_eq!(runtime.workers[1].memory, None);
        let text = runtime.text();
        for line in [
            "  core 5, NUMA node 1\n",
            "  tables          8.0 MiB, pages 2 MiB, NUMA node 1\n",
            "  packet buffers  8.0 MiB, pages 2 MiB, NUMA node unknown\n",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line}: {text}");
        }
    }

    #[test]
    fn machines_see_every_count() {
        let json = serde_json::to_value(Runtime::of(&[stats()])).expect("plain values");
        let worker = &json["workers"][0];
        assert_eq!(
            worker["drops"],
            serde_json::json!({"slow_path_budget": 4, "meter_red": 3})
        );
        let counts = worker["counts"].as_object().expect("an object");
        assert_eq!(counts.len(), stats().counters().len());
        assert_eq!(
            (&counts["over_session_rate"], &counts["over_rate"]),
            (&5.into(), &0.into())
        );
        assert_eq!(worker["stages"][3]["cycles_per_packet"], 50.0);
    }
}
