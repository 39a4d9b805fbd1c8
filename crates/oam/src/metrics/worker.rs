//! The metrics of workers: what each has counted and holds.

use flow::SessionGroupTotal;
use packet::DropReason;
use worker::{AcceleratorView, EgressCounts, Holdings, NatCounts, PortStats, Stage, Stats};

use super::exposition::{Exposition, Metric, Reading, Value};

/// What is known of the workers at one moment, in the order of their numbers.
#[derive(Clone, Debug, Default)]
pub struct WorkerSnapshot {
    /// What they have counted.
    pub stats: Vec<Stats>,
    /// What they hold.
    pub holdings: Vec<Holdings>,
    /// What they have forwarded of session groups, by the groups' numbers.
    pub groups: Vec<Vec<SessionGroupTotal>>,
    /// What CG-NAT has counted in them.
    pub nat: Vec<NatCounts>,
    /// What their queues hold, and what became of packets there.
    pub egress: Vec<EgressCounts>,
    /// Their accelerators, of those that have one.
    pub accelerators: Vec<Option<AcceleratorView>>,
    /// Their packet buffers.
    pub buffers: Vec<PacketBuffers>,
    /// Ticks of the processor's clock in a second; 0: unknown.
    pub ticks_per_second: u64,
    /// Flow entries that each has room for, of IPv4 and IPv6 together.
    pub flow_entries_limit: u64,
}

/// The packet buffers of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketBuffers {
    /// Those in use.
    pub used: u64,
    /// All.
    pub limit: u64,
}

impl WorkerSnapshot {
    /// Seconds that each worker has worked on packets since its start; empty where the clock's rate is unknown.
    #[must_use]
    pub fn busy_seconds(&self) -> Vec<f64> {
        if self.ticks_per_second == 0 {
            return Vec::new();
        }
        let ticks = |stats: &Stats| stats.stages.iter().map(|stage| stage.ticks).sum::<u64>();
        let seconds = |stats| ticks(stats) as f64 / self.ticks_per_second as f64;
        self.stats.iter().map(seconds).collect()
    }
}

const RX_PACKETS: Metric = Metric::counter(
    "sluice_port_received_packets",
    PORT_LABELS,
    "Frames that a port has received.",
);
const RX_BYTES: Metric = Metric::counter(
    "sluice_port_received_bytes",
    PORT_LABELS,
    "Octets of the frames that a port has received.",
);
const TX_PACKETS: Metric = Metric::counter(
    "sluice_port_sent_packets",
    PORT_LABELS,
    "Frames that a port has sent.",
);
const TX_BYTES: Metric = Metric::counter(
    "sluice_port_sent_bytes",
    PORT_LABELS,
    "Octets of the frames that a port has sent.",
);
/// The label `instance` is the name of the target in Prometheus.
const PORT_LABELS: &[&str] = &["port", "network_instance", "worker"];

const MATCHED_PACKETS: Metric = Metric::counter(
    "sluice_user_matched_packets",
    USER_LABELS,
    "User packets that matched a PDR.",
);
const MATCHED_BYTES: Metric = Metric::counter(
    "sluice_user_matched_bytes",
    USER_LABELS,
    "Octets of the user packets that matched a PDR, from their inner IP header on.",
);
const FORWARDED_PACKETS: Metric = Metric::counter(
    "sluice_user_forwarded_packets",
    USER_LABELS,
    "User packets that were forwarded.",
);
const FORWARDED_BYTES: Metric = Metric::counter(
    "sluice_user_forwarded_bytes",
    USER_LABELS,
    "Octets of the user packets that were forwarded, from their inner IP header on.",
);
const USER_LABELS: &[&str] = &["direction", "worker"];
const DIRECTIONS: [&str; 2] = ["uplink", "downlink"];

const DROPS: Metric = Metric::counter(
    "sluice_drops",
    &["reason", "worker"],
    "Packets that were dropped, by drop reason.",
);
const STAGE_SECONDS: Metric = Metric::counter(
    "sluice_worker_stage_seconds",
    STAGE_LABELS,
    "Time that a worker has spent in a stage; all stages together are the time in which it was busy.",
);
const STAGE_PACKETS: Metric = Metric::counter(
    "sluice_worker_stage_packets",
    STAGE_LABELS,
    "Packets that have passed a stage.",
);
const STAGE_BURSTS: Metric = Metric::counter(
    "sluice_worker_stage_bursts",
    STAGE_LABELS,
    "Bursts of packets that have passed a stage.",
);
const STAGE_LABELS: &[&str] = &["stage", "worker"];

const BACKLOG: Metric = Metric::gauge(
    "sluice_worker_backlog_packets",
    WORKER,
    "Packets in the receive backlog.",
);
const HELD: Metric = Metric::gauge(
    "sluice_worker_held_packets",
    WORKER,
    "Packets that wait in a worker, for whatever reason.",
);
const BUFFERED: Metric = Metric::gauge(
    "sluice_worker_buffered_packets",
    WORKER,
    "Packets that wait since their FAR buffers or their next hop is unresolved.",
);
const FLOW_ENTRIES: Metric = Metric::gauge(
    "sluice_worker_flow_entries",
    WORKER,
    "Flow entries in use, those that await removal among them.",
);
const INSPECTED_FLOWS: Metric = Metric::gauge(
    "sluice_worker_inspected_flows",
    WORKER,
    "Flows that are inspected now.",
);
const CONNECTIONS: Metric = Metric::gauge(
    "sluice_worker_connections",
    WORKER,
    "Connections of UEs that access lists ask for, a few that have ended included.",
);
const RESOLVED_ADDRESSES: Metric = Metric::gauge(
    "sluice_worker_resolved_addresses",
    WORKER,
    "Addresses that have names by answers of resolvers, a few that have ended included.",
);
const NDPI_FLOWS: Metric = Metric::gauge(
    "sluice_worker_ndpi_inspected_flows",
    WORKER,
    "Flows that nDPI looks at now.",
);
const NDPI_OCTETS: Metric = Metric::gauge(
    "sluice_worker_ndpi_bytes",
    WORKER,
    "What nDPI has allocated by itself, in octets.",
);
const FLOW_LIMIT: Metric = Metric::gauge(
    "sluice_worker_flow_entries_limit",
    WORKER,
    "Flow entries that there is room for, of IPv4 and IPv6 together.",
);
const SESSIONS: Metric = Metric::gauge("sluice_worker_sessions", WORKER, "Sessions that a worker has.");
const EXCEPTIONS: Metric = Metric::gauge(
    "sluice_worker_selection_exceptions",
    WORKER,
    "Worker selection exceptions: TEIDs and UE addresses in another bucket than their session. Each worker has all.",
);
const BUFFERS_USED: Metric = Metric::gauge(
    "sluice_packet_buffers_used",
    WORKER,
    "Packet buffers of a worker's mempool in use.",
);
const BUFFERS_LIMIT: Metric = Metric::gauge(
    "sluice_packet_buffers_limit",
    WORKER,
    "Packet buffers of a worker's mempool.",
);
const WORKER: &[&str] = &["worker"];

/// A count of [`Stats`] that is a single number.
struct WorkerCount {
    /// Its field.
    field: &'static str,
    metric: Metric,
}

const fn count(field: &'static str, name: &'static str, help: &'static str) -> WorkerCount {
    WorkerCount {
        field,
        metric: Metric::counter(name, WORKER, help),
    }
}

/// Fields of [`Stats`] that go up and down, which are gauges above.
#[cfg(test)]
const GAUGES: [&str; 4] = ["held", "queued", "backlog", "buffered"];

#[rustfmt::skip]
static COUNTS: &[WorkerCount] = &[
    count("inbox", "sluice_worker_inbox_packets", "Packets that other workers handed over."),
    count("handed_over", "sluice_worker_handed_over_packets", "Packets handed over to other workers."),
    count("moved_in", "sluice_worker_moved_in_packets", "Packets that came with their session from the queues of another worker."),
    count("moved_out", "sluice_worker_moved_out_packets", "Packets that went with their session to the queues of another worker."),
    count("consumed", "sluice_worker_consumed_packets", "Packets that end at this node."),
    count("originated", "sluice_worker_originated_packets", "Packets that a worker generated."),
    count("answered", "sluice_worker_answered_packets", "ARP, ND, ICMP and GTP-U echo requests that were responded to."),
    count("to_host", "sluice_worker_to_host_packets", "Packets given to the host's network stack."),
    count("from_host", "sluice_worker_from_host_packets", "Frames of the host's network stack that were sent."),
    count("hits", "sluice_worker_flow_hits", "Packets whose flow entry was found."),
    count("misses", "sluice_worker_flow_misses", "Packets without a flow entry that can have one."),
    count("stale", "sluice_worker_flow_stale", "Packets whose flow entry was of an older generation."),
    count("bypassed", "sluice_worker_flow_bypassed", "Packets that never have a flow entry."),
    count("denied_without_entry", "sluice_worker_flows_refused_denied", "Decisions of access lists to deny without a flow entry: the share of these is used up."),
    count("connections_refused", "sluice_worker_connections_refused", "Packets that would begin a connection: the session or the worker has the highest number."),
    count("relayed", "sluice_worker_relayed_packets", "End Markers and Tunnel Status messages forwarded from tunnel to tunnel."),
    count("installed", "sluice_worker_flows_installed", "Flow entries made."),
    count("not_installed", "sluice_worker_flows_refused_table_full", "Decisions without a flow entry: the table is full."),
    count("over_session_flows", "sluice_worker_flows_refused_session_limit", "Decisions without a flow entry: the session has the highest number."),
    count("over_session_rate", "sluice_worker_flows_refused_session_rate", "Decisions without a flow entry: the session exceeds its rate of new ones."),
    count("over_rate", "sluice_worker_flows_refused_rate", "Decisions without a flow entry: all sessions exceed the rate of new ones."),
    count("contents_together", "sluice_worker_uncounted_contents", "Decisions about packets of a content without a free counter."),
    count("revalidated", "sluice_worker_flows_revalidated", "Flows in use that were decided anew because shared rules changed."),
    count("revalidations_put_off", "sluice_worker_flow_revalidations_delayed", "Packets forwarded by an older decision because the slow path budget was used up."),
    count("inspected", "sluice_worker_inspected_packets", "Packets that inspection looked at."),
    count("inspections", "sluice_worker_inspections", "Flows, and of HTTP further requests, whose inspection has begun."),
    count("inspections_refused", "sluice_worker_inspections_refused", "Flows and requests that are not inspected: there is no room, or the session has its share."),
    count("hosts_found", "sluice_worker_hosts_found", "Flows, and of HTTP requests, whose host was found."),
    count("hosts_lost", "sluice_worker_hosts_lost", "Flows and requests whose host was found and found no room."),
    count("undetected_flows", "sluice_worker_undetected_flows", "Flows whose inspection has ended without a host."),
    count("ndpi_flows", "sluice_worker_ndpi_flows", "Flows that nDPI has begun to look at."),
    count("ndpi_refused", "sluice_worker_ndpi_refused", "Flows that nDPI does not look at: there is no room, or the session has its share."),
    count("ndpi_found", "sluice_worker_ndpi_found", "Flows that are what nDPI says."),
    count("addresses_bound", "sluice_worker_addresses_bound", "Addresses in answers of resolvers that have got a name, or the same again."),
    count("addresses_refused", "sluice_worker_addresses_refused", "Addresses in answers of resolvers for which, or for whose name, there was no room."),
    count("closed", "sluice_worker_flows_closed", "Flow entries whose idle time was lowered by a FIN or RST."),
    count("aged", "sluice_worker_flows_aged", "Flow entries removed after their idle time."),
    count("reaped", "sluice_worker_flows_reaped", "Flow entries removed because no packet could use them."),
    count("urgent", "sluice_worker_urgent_packets", "Packets processed before the receive backlog."),
    count("stored", "sluice_worker_buffer_stored_packets", "Packets that were buffered."),
    count("flushed", "sluice_worker_buffer_released_packets", "Buffered packets that were released."),
    count("mirrored", "sluice_worker_mirrored_packets", "Copies of packets made for a mirror."),
    count("mirrors_lost", "sluice_worker_mirrored_lost_packets", "Copies for a mirror that were not made for want of a buffer."),
    count("duplicated", "sluice_worker_duplicated_packets", "Duplicates of packets of FARs that duplicate."),
    count("duplicates_lost", "sluice_worker_duplicated_lost_packets", "Duplicates that were not made."),
    count("congestion_reports", "sluice_worker_ran_congestion_reports", "Packets in which the RAN told the congestion of a QoS flow that is marked for L4S."),
    count("congestion_marks", "sluice_worker_ran_congestion_marked_packets", "Packets that left with the ECN mark of congestion in the RAN."),
    count("icmp_errors", "sluice_worker_icmp_errors", "ICMP errors sent to the senders of discarded user packets."),
    count("denials_answered", "sluice_worker_denials_answered", "Resets, redirections and DNS answers sent to the senders of packets that access lists deny."),
    count("fragmented", "sluice_worker_fragmented_packets", "Packets that left in fragments."),
    count("fragments_made", "sluice_worker_fragments_made", "Fragments behind the first of these."),
    count("mss_clamped", "sluice_worker_mss_clamped_packets", "SYNs of users whose maximum segment size was lowered."),
    count("reassembled", "sluice_worker_reassembled_packets", "GTP-U packets that were reassembled."),
    count("recirculated", "sluice_worker_recirculated_packets", "Packets that came in again after they were sent to an own address."),
    count("fragments_unnoted", "sluice_worker_fragments_unrecorded", "First fragments that found no room to be recorded."),
    count("events_lost", "sluice_worker_events_lost", "Events lost because the event queue was full."),
    count("exceptions_lost", "sluice_worker_selection_exceptions_lost", "Worker selection exceptions that found no room."),
];

/// A port, as metrics name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortNames {
    /// Its name.
    pub port: String,
    /// The network instance of its link, where there is one and no other.
    pub network_instance: String,
    /// Whether all network instances of its links are on N6, and on nothing else.
    pub is_n6: bool,
}

/// Writes the metrics of workers; `ports` are the names of ports, by their numbers.
pub(super) fn write(to: &mut Exposition, workers: &WorkerSnapshot, ports: &[PortNames]) {
    let numbers: Vec<String> = (0..workers.stats.len())
        .map(|number| number.to_string())
        .collect();
    let all = || numbers.iter().map(String::as_str).zip(&workers.stats);
    write_ports(to, &workers.stats, ports);
    write_directions(to, &workers.stats);
    let mut drops = to.family(&DROPS);
    for reason in DropReason::ALL {
        for (number, stats) in all() {
            drops.sample(&[reason.label(), number], stats.dropped(reason));
        }
    }
    write_stages(to, workers);
    for WorkerCount { field, metric } in COUNTS {
        let mut family = to.family(metric);
        for (number, stats) in all() {
            let counters = stats.counters();
            let value = counters.iter().find(|(name, _)| name == field);
            family.sample(&[number], value.map_or(0, |(_, value)| *value));
        }
    }
    let mut gauge = |metric: &'static Metric, value: &dyn Fn(&Stats) -> u64| {
        let mut family = to.family(metric);
        for (number, stats) in all() {
            family.sample(&[number], value(stats));
        }
    };
    gauge(&BACKLOG, &|stats| stats.backlog);
    gauge(&HELD, &|stats| stats.held);
    gauge(&BUFFERED, &|stats| stats.buffered);
    write_holdings(to, workers);
}

fn write_ports(to: &mut Exposition, stats: &[Stats], ports: &[PortNames]) {
    let families: [(&Metric, Reading<PortStats>); 4] = [
        (&RX_PACKETS, |port| port.rx.packets),
        (&RX_BYTES, |port| port.rx.octets),
        (&TX_PACKETS, |port| port.tx.packets),
        (&TX_BYTES, |port| port.tx.octets),
    ];
    for (metric, value) in families {
        let mut family = to.family(metric);
        for (place, names) in ports.iter().enumerate() {
            for (number, stats) in stats.iter().enumerate() {
                if let Some(port) = stats.ports.get(place) {
                    let labels = [&*names.port, &names.network_instance, &number.to_string()];
                    family.sample(&labels, value(port));
                }
            }
        }
    }
}

fn write_directions(to: &mut Exposition, stats: &[Stats]) {
    let families: [(&Metric, Reading<worker::DirectionStats>); 4] = [
        (&MATCHED_PACKETS, |direction| direction.matched.packets),
        (&MATCHED_BYTES, |direction| direction.matched.octets),
        (&FORWARDED_PACKETS, |direction| direction.forwarded.packets),
        (&FORWARDED_BYTES, |direction| direction.forwarded.octets),
    ];
    for (metric, value) in families {
        let mut family = to.family(metric);
        for (number, stats) in stats.iter().enumerate() {
            for (name, direction) in DIRECTIONS.iter().zip(&stats.directions) {
                family.sample(&[name, &number.to_string()], value(direction));
            }
        }
    }
}

fn write_stages(to: &mut Exposition, workers: &WorkerSnapshot) {
    let rate = workers.ticks_per_second;
    let mut each = |metric: &'static Metric, value: &dyn Fn(&worker::StageStats) -> Value| {
        let mut family = to.family(metric);
        for (number, stats) in workers.stats.iter().enumerate() {
            for (stage, count) in Stage::ALL.iter().zip(&stats.stages) {
                family.sample(&[stage.label(), &number.to_string()], value(count));
            }
        }
    };
    if rate > 0 {
        each(&STAGE_SECONDS, &|stage| (stage.ticks as f64 / rate as f64).into());
    }
    each(&STAGE_PACKETS, &|stage| stage.packets.into());
    each(&STAGE_BURSTS, &|stage| stage.calls.into());
}

fn write_holdings(to: &mut Exposition, workers: &WorkerSnapshot) {
    let mut gauge = |metric: &'static Metric, values: &mut dyn Iterator<Item = u64>| {
        let mut family = to.family(metric);
        for (number, value) in values.enumerate() {
            family.sample(&[&number.to_string()], value);
        }
    };
    let (holdings, buffers) = (&workers.holdings, &workers.buffers);
    gauge(&FLOW_ENTRIES, &mut holdings.iter().map(|held| held.flows as u64));
    gauge(
        &FLOW_LIMIT,
        &mut holdings.iter().map(|_| workers.flow_entries_limit),
    );
    gauge(
        &INSPECTED_FLOWS,
        &mut holdings.iter().map(|held| held.inspected as u64),
    );
    gauge(
        &CONNECTIONS,
        &mut holdings.iter().map(|held| held.connections as u64),
    );
    gauge(
        &RESOLVED_ADDRESSES,
        &mut holdings.iter().map(|held| held.resolved_addresses as u64),
    );
    gauge(
        &NDPI_FLOWS,
        &mut holdings.iter().map(|held| held.ndpi_flows as u64),
    );
    gauge(&NDPI_OCTETS, &mut holdings.iter().map(|held| held.ndpi_octets));
    gauge(&SESSIONS, &mut holdings.iter().map(|held| held.sessions as u64));
    gauge(
        &EXCEPTIONS,
        &mut holdings.iter().map(|held| held.exceptions as u64),
    );
    gauge(&BUFFERS_USED, &mut buffers.iter().map(|pool| pool.used));
    gauge(&BUFFERS_LIMIT, &mut buffers.iter().map(|pool| pool.limit));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_of_a_worker_is_a_metric_once() {
        let counters = Stats::new(0).counters();
        let mut fields: Vec<&str> = counters.iter().map(|(name, _)| *name).collect();
        fields.retain(|name| !GAUGES.contains(name));
        let metrics: Vec<&str> = COUNTS.iter().map(|count| count.field).collect();
        assert_eq!(fields, metrics);
    }
}
