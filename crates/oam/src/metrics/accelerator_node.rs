//! The metrics of `sluice accel`.

use super::exposition::{Exposition, Format, MOST_SERIES, Metric, Reading};
use crate::values::{AcceleratorNodeStatus, ChannelStatus, QueueList, QueuePriority};

const UP: Metric = Metric::gauge("sluice_accel_up", &[], "1 while there is contact with a host.");
const PARTIAL: Metric = Metric::gauge(
    "sluice_accel_partial",
    &[],
    "1 while it gives all user packets to its host, and holds no session.",
);
const UPTIME: Metric = Metric::gauge("sluice_accel_uptime_seconds", &[], "Seconds since the start.");
const WORKING: Metric = Metric::counter(
    "sluice_accel_working_seconds",
    &[],
    "Seconds that polls took which found something to do.",
);
const SESSIONS: Metric = Metric::gauge("sluice_accel_sessions", &[], "Sessions of the host.");
const SESSIONS_LIMIT: Metric = Metric::gauge(
    "sluice_accel_sessions_limit",
    &[],
    "Sessions that there is room for.",
);
const FLOWS: Metric = Metric::gauge(
    "sluice_accel_flow_entries",
    &[],
    "Flow entries, those that no packet can use any more included.",
);
const FLOWS_LIMIT: Metric = Metric::gauge(
    "sluice_accel_flow_entries_limit",
    &[],
    "Flow entries that there is room for.",
);
const PENDING: Metric = Metric::gauge(
    "sluice_accel_pending_flows",
    &[],
    "Pairs of ends that wait for an answer of the host.",
);
const KEPT: Metric = Metric::gauge(
    "sluice_accel_kept_packets",
    &[],
    "Packets that are kept until the host has answered.",
);
const OF_CHANNEL: &[&str] = &["channel"];
const CHANNEL_UP: Metric = Metric::gauge(
    "sluice_accel_channel_up",
    OF_CHANNEL,
    "1 while there is contact by the channel to a worker of the host.",
);
const CHANNEL_SESSIONS: Metric = Metric::gauge(
    "sluice_accel_channel_sessions",
    OF_CHANNEL,
    "Sessions that a worker of the host has given.",
);
const CHANNEL_REQUESTS: Metric = Metric::counter(
    "sluice_accel_channel_requests",
    OF_CHANNEL,
    "Requests of a worker of the host that were carried out, or refused.",
);
const CHANNEL_REPEATED: Metric = Metric::counter(
    "sluice_accel_channel_repeated_frames",
    OF_CHANNEL,
    "Control frames that were sent again to a worker of the host.",
);
const EXCEPTIONS: Metric = Metric::counter(
    "sluice_accel_exceptions",
    &["reason"],
    "Packets that were given to the host, by reason.",
);
const DROPS: Metric = Metric::counter(
    "sluice_accel_dropped_packets",
    &["reason"],
    "Packets that were dropped, by reason.",
);

const QUEUES: Metric = Metric::gauge(
    "sluice_accel_queues",
    &[],
    "Queues before its ports that sessions have.",
);
const QUEUES_LIMIT: Metric = Metric::gauge(
    "sluice_accel_queues_limit",
    &[],
    "Queues before its ports that there is room for.",
);
const QUEUED: Metric = Metric::gauge(
    "sluice_accel_queued_packets",
    &[],
    "Packets that wait in queues before its ports.",
);
const QUEUED_LIMIT: Metric = Metric::gauge(
    "sluice_accel_queued_packets_limit",
    &[],
    "Packets that may wait in queues before its ports.",
);
const OF_PRIORITY: &[&str] = &["priority"];
const WAITING: Metric = Metric::gauge(
    "sluice_accel_priority_queued_packets",
    OF_PRIORITY,
    "Packets that wait in queues of a priority.",
);
const DEPARTED: Metric = Metric::counter(
    "sluice_accel_departed_packets",
    OF_PRIORITY,
    "Packets that have left queues of a priority.",
);
const MARKED: Metric = Metric::counter(
    "sluice_accel_marked_packets",
    OF_PRIORITY,
    "Packets that have left queues of a priority marked as having met congestion (ECN).",
);
const QUEUE_DROPS: Metric = Metric::counter(
    "sluice_accel_queue_dropped_packets",
    &["priority", "reason"],
    "Packets that were dropped in queues of a priority, by reason.",
);

/// A count that is a single number.
struct NodeCount {
    metric: Metric,
    of: Reading<AcceleratorNodeStatus>,
}

const fn count(name: &'static str, help: &'static str, of: Reading<AcceleratorNodeStatus>) -> NodeCount {
    let metric = Metric::counter(name, &[], help);
    NodeCount { metric, of }
}

#[rustfmt::skip]
static COUNTS: &[NodeCount] = &[
    count("sluice_accel_contacts", "Contacts with a host.", |node| node.contacts),
    count("sluice_accel_requests", "Requests of the host that were carried out, or refused.", |node| node.requests),
    count("sluice_accel_events", "Events that were reported to the host.", |node| node.events),
    count("sluice_accel_received_packets", "Packets that ports of the network received.", |node| node.path.received),
    count("sluice_accel_sent_packets", "Packets that ports of the network sent.", |node| node.path.sent),
    count("sluice_accel_flow_hits", "Packets that found their flow.", |node| node.path.flow_hits),
    count("sluice_accel_flow_misses", "Packets that found none.", |node| node.path.flow_misses),
    count("sluice_accel_urgent_exceptions", "Packets for the host that keep the network up.", |node| node.urgent_exceptions),
    count("sluice_accel_exceptions_lost", "Packets for the host that found no room.", |node| node.exceptions_lost),
    count("sluice_accel_steered_packets", "Packets for the host whose bucket was said.", |node| node.steered),
    count("sluice_accel_through_packets", "Packets that came back with their flow.", |node| node.through),
    count("sluice_accel_refused_packets", "Packets that came back with a flow that was refused.", |node| node.refused),
    count("sluice_accel_host_packets", "Packets that the host sent by a port.", |node| node.sent_for_host),
    count("sluice_accel_discarded_frames", "Control frames that the channel has discarded.", |node| node.discarded),
    count("sluice_accel_forged_frames", "Packets with a flow that are not authentic.", |node| node.forged),
    count("sluice_accel_replayed_frames", "Packets with a flow that were there before.", |node| node.replayed),
    count("sluice_accel_malformed_frames", "Frames of the host that cannot be read.", |node| node.malformed),
    count("sluice_accel_foreign_frames", "Frames of the link that are neither of the protocol nor the host's.", |node| node.foreign),
    count("sluice_accel_settled_flows", "Flows that settled because their marker came back.", |node| node.settled),
    count("sluice_accel_questions", "Packets of unknown flows that are kept, and that the host was asked about.", |node| node.questions.asked),
    count("sluice_accel_installed_answers", "Answers that brought a flow, which was put.", |node| node.questions.installed),
    count("sluice_accel_whole_answers", "Answers that asked for the packet, or brought a flow that could not be put.", |node| node.questions.whole),
    count("sluice_accel_timed_out_questions", "Questions without an answer in time.", |node| node.questions.timed_out),
    count("sluice_accel_late_answers", "Answers about packets that were kept no more.", |node| node.questions.late),
    count("sluice_accel_unasked_packets", "Packets of unknown flows that found no room to be kept.", |node| node.questions.no_room),
    count("sluice_accel_lost_questions", "Frames with questions that found no room.", |node| node.questions.lost),
    count("sluice_accel_timed_out_flows", "Flows that settled because their marker did not come back in time.", |node| node.settling_timed_out),
];

/// The text of all metrics of an accelerator's node.
#[must_use]
pub fn render_accelerator_node(format: Format, node: &AcceleratorNodeStatus) -> String {
    written(format, node).finish()
}

fn written(format: Format, node: &AcceleratorNodeStatus) -> Exposition {
    let mut to = Exposition::new(format, MOST_SERIES);
    to.single(&UP, u64::from(node.host.is_some()));
    to.single(&PARTIAL, u64::from(node.partial));
    to.single(&UPTIME, node.uptime_s);
    to.single(&WORKING, node.working_s);
    to.single(&SESSIONS, node.sessions.used);
    to.single(&SESSIONS_LIMIT, node.sessions.room);
    to.single(&FLOWS, node.flows.used);
    to.single(&FLOWS_LIMIT, node.flows.room);
    to.single(&PENDING, node.questions.pending as u64);
    to.single(&KEPT, node.questions.held as u64);
    for NodeCount { metric, of } in COUNTS {
        to.single(metric, of(node));
    }
    let of_channels: [(&Metric, Reading<ChannelStatus>); 4] = [
        (&CHANNEL_UP, |one| u64::from(one.contact)),
        (&CHANNEL_SESSIONS, |one| one.sessions as u64),
        (&CHANNEL_REQUESTS, |one| one.requests),
        (&CHANNEL_REPEATED, |one| one.retransmissions),
    ];
    for (metric, value) in of_channels {
        let mut family = to.family(metric);
        for one in &node.channels {
            family.sample(&[&one.channel.to_string()], value(one));
        }
    }
    for (metric, counts) in [(&EXCEPTIONS, &node.exceptions), (&DROPS, &node.path.drops)] {
        let mut family = to.family(metric);
        for (reason, count) in counts {
            family.sample(&[reason], *count);
        }
    }
    if let Some(queues) = &node.queues {
        write_queues(&mut to, queues);
    }
    to
}

fn write_queues(to: &mut Exposition, queues: &QueueList) {
    to.single(&QUEUES, queues.queues);
    to.single(&QUEUES_LIMIT, queues.queues_limit);
    to.single(&QUEUED, queues.packets);
    to.single(&QUEUED_LIMIT, queues.packets_limit);
    let families: [(&Metric, Reading<QueuePriority>); 3] = [
        (&WAITING, |one| one.packets),
        (&DEPARTED, |one| one.departed_packets),
        (&MARKED, |one| one.marked_packets),
    ];
    for (metric, value) in families {
        let mut family = to.family(metric);
        for one in &queues.priorities {
            family.sample(&[&one.priority.to_string()], value(one));
        }
    }
    let mut family = to.family(&QUEUE_DROPS);
    for one in &queues.priorities {
        for (reason, count) in &one.dropped {
            family.sample(&[&one.priority.to_string(), reason], *count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::{add_rows, assert_page};
    use crate::values::accelerator_node_status;

    #[test]
    fn the_text_has_the_counts() {
        let text = render_accelerator_node(Format::Prometheus, &accelerator_node_status());
        for line in [
            "sluice_accel_up 1",
            "sluice_accel_channel_sessions{channel=\"0\"} 7",
            "sluice_accel_working_seconds_total 50",
            "sluice_accel_flow_entries 1234",
            "sluice_accel_flow_entries_limit 327680",
            "sluice_accel_exceptions_total{reason=\"no_flow\"} 1500",
            "sluice_accel_settled_flows_total 3",
            "sluice_accel_pending_flows 2",
            "sluice_accel_kept_packets 5",
            "sluice_accel_installed_answers_total 900",
            "sluice_accel_received_packets_total 35",
            "sluice_accel_sent_packets_total 29",
            "sluice_accel_flow_hits_total 30",
            "sluice_accel_flow_misses_total 4",
            "sluice_accel_dropped_packets_total{reason=\"meter_red\"} 2",
            "sluice_accel_queued_packets 5",
            "sluice_accel_marked_packets_total{priority=\"7\"} 17",
            "sluice_accel_queue_dropped_packets_total{priority=\"7\",reason=\"queue_full\"} 9",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        }
    }

    /// `SLUICE_GOLDEN=write` brings the page up to date.
    #[test]
    fn the_page_has_them_all() {
        let mut page = String::from(
            "# Metrics of sluice accel\n\nWhat an accelerator serves at `/metrics` of its socket \
             ([the guide](../guide/accelerator.md#how-the-accelerator-stands)). Those of the UPF are in \
             [metrics.md](metrics.md).\n\n| Metric | Kind | Labels | |\n|---|---|---|---|\n",
        );
        let node = accelerator_node_status();
        add_rows(&mut page, written(Format::Prometheus, &node).described());
        assert_page("accel-metrics.md", &page);
    }
}
