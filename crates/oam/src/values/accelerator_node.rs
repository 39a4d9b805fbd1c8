//! `sluice accel`: what an accelerator shows by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use flow::Direction;
use offload::exception::Class;
use serde::{Deserialize, Serialize};
use upf::format::grouped;
use worker::Stats;
use worker::accelerator::{ChannelView, NodeView, Reason};

use super::facts::Facts;
use super::offload::{by_reason, reasons};
use super::queues::{QueueList, QueuePlan};
use crate::totals;

/// An accelerator, and how its thread and its tables are used. Counts are since the start of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AcceleratorNodeStatus {
    /// Its host's address on the link; absent without contact: it forwards nothing then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<String>,
    /// Whether it holds no sessions, and gives all user packets to its host: one of both is in partial mode.
    #[serde(default)]
    pub partial: bool,
    /// Contacts with a host, of all channels.
    pub contacts: u64,
    /// The channels that the host has, one for each of its workers.
    #[serde(default)]
    pub channels: Vec<ChannelStatus>,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Seconds that polls took which found something to do.
    pub working_s: f64,
    /// Sessions of the host, and how many there is room for.
    pub sessions: TableUse,
    /// Flow entries of IPv4 and IPv6 together, those that no packet can use any more included.
    pub flows: TableUse,
    /// Requests of the host that were carried out, or refused.
    pub requests: u64,
    /// Events that were reported to it.
    pub events: u64,
    /// Packets that were given to the host, by reason.
    pub exceptions: BTreeMap<String, u64>,
    /// Those of them that keep the network up.
    pub urgent_exceptions: u64,
    /// Packets for the host that found no room.
    pub exceptions_lost: u64,
    /// Packets for the host whose bucket was said.
    #[serde(default)]
    pub steered: u64,
    /// Packets that came back with their flow.
    pub through: u64,
    /// The same whose flow was refused.
    pub refused: u64,
    /// Packets that the host sent by a port.
    pub sent_for_host: u64,
    /// Control frames that the channel has discarded.
    pub discarded: u64,
    /// Packets with a flow that are not authentic.
    pub forged: u64,
    /// Packets with a flow that were there before.
    pub replayed: u64,
    /// Frames of the host that cannot be read.
    pub malformed: u64,
    /// Frames of the link that are neither of the protocol nor the host's.
    pub foreign: u64,
    /// Flows that have settled, because their marker came back.
    pub settled: u64,
    /// Those whose marker did not come back in time.
    pub settling_timed_out: u64,
    /// Packets of flows that settle, which wait.
    pub held: usize,
    /// First packets that it keeps while its host is asked about them.
    #[serde(default)]
    pub questions: QuestionCounts,
    /// What has passed by its ports of the network.
    pub path: NodePackets,
    /// Queues before its ports; absent where there can be none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queues: Option<QueueList>,
}

/// The channel to a worker of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// Its number.
    pub channel: u8,
    /// Whether there is contact.
    pub contact: bool,
    /// Contacts.
    pub contacts: u64,
    /// Sessions that it has given.
    pub sessions: usize,
    /// Requests that were carried out, or refused.
    pub requests: u64,
    /// Frames that were sent again.
    pub retransmissions: u64,
    /// Control frames that it has discarded.
    pub discarded: u64,
}

impl ChannelStatus {
    const fn of(view: &ChannelView) -> Self {
        Self {
            channel: view.channel,
            contact: view.is_up,
            contacts: view.contacts,
            sessions: view.sessions,
            requests: view.requests,
            retransmissions: view.retransmissions,
            discarded: view.discarded,
        }
    }

    fn line(&self) -> String {
        format!(
            "{}: {}contacts: {}, sessions: {}, requests: {}, sent again: {}, discarded: {}",
            self.channel,
            if self.contact { "" } else { "no contact; " },
            grouped(self.contacts),
            grouped(self.sessions as u64),
            grouped(self.requests),
            grouped(self.retransmissions),
            grouped(self.discarded),
        )
    }
}

/// First packets of flows that an accelerator keeps until its host has answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionCounts {
    /// Whether the host answers.
    pub is_answered: bool,
    /// Pairs of ends that wait for an answer.
    pub pending: usize,
    /// Packets that are kept.
    pub held: usize,
    /// Packets that the host was asked about.
    pub asked: u64,
    /// Answers that brought a flow, which was put.
    pub installed: u64,
    /// Answers that asked for the packet, or brought a flow that could not be put.
    pub whole: u64,
    /// Questions without an answer in time: the packets went to the host.
    pub timed_out: u64,
    /// Answers about packets that were kept no more.
    pub late: u64,
    /// Packets of unknown flows that found no room to be kept, and went to the host.
    pub no_room: u64,
    /// Frames with questions that found no room on the link.
    pub lost: u64,
}

impl QuestionCounts {
    const fn of(view: &NodeView) -> Self {
        let asking = &view.asking;
        Self {
            is_answered: view.asks,
            pending: asking.keys,
            held: asking.held,
            asked: asking.asked,
            installed: asking.installed,
            whole: asking.whole,
            timed_out: asking.timed_out,
            late: asking.late,
            no_room: asking.no_room,
            lost: view.node.questions_lost,
        }
    }

    fn line(&self) -> String {
        if !self.is_answered {
            return "the host answers none".to_owned();
        }
        format!(
            "{} packets wait for {} answers; asked: {}, flows: {}, whole: {}, timed out: {}, late: {}, no room: {}",
            grouped(self.held as u64),
            grouped(self.pending as u64),
            grouped(self.asked),
            grouped(self.installed),
            grouped(self.whole),
            grouped(self.timed_out),
            grouped(self.late),
            grouped(self.no_room),
        )
    }
}

/// Packets of an accelerator's ports of the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePackets {
    /// Packets that were received.
    pub received: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets of known flows that were forwarded from UEs.
    pub uplink: ForwardedPackets,
    /// The same to UEs.
    pub downlink: ForwardedPackets,
    /// Packets that found their flow.
    pub flow_hits: u64,
    /// Packets that found none.
    pub flow_misses: u64,
    /// Packets that were dropped, by reason.
    pub drops: BTreeMap<String, u64>,
}

/// Packets that were forwarded in a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedPackets {
    /// How many.
    pub packets: u64,
    /// Octets of the user packets.
    pub octets: u64,
}

impl NodePackets {
    fn of(path: &Stats) -> Self {
        let [uplink, downlink] = Direction::BOTH.map(|direction| {
            let forwarded = path.directions[direction as usize].forwarded;
            ForwardedPackets {
                packets: forwarded.packets,
                octets: forwarded.octets,
            }
        });
        let drops = totals::drops(std::slice::from_ref(path)).into_iter();
        Self {
            received: path.rx(),
            sent: path.tx(),
            uplink,
            downlink,
            flow_hits: path.hits,
            flow_misses: path.misses,
            drops: drops
                .map(|(reason, count)| (reason.label().to_owned(), count))
                .collect(),
        }
    }
}

/// How much of a table is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableUse {
    /// What is in it.
    pub used: u64,
    /// What it has room for.
    pub room: u64,
}

impl TableUse {
    fn words(self) -> String {
        format!("{} of {}", grouped(self.used), grouped(self.room))
    }
}

/// What a node's thread and its tables are like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceleratorNodeUse {
    /// How long the thread has run.
    pub running: Duration,
    /// How long it worked.
    pub working: Duration,
    /// Sessions that there is room for.
    pub sessions: u64,
    /// Flows that there is room for, of both versions of IP.
    pub flows: u64,
}

impl AcceleratorNodeStatus {
    /// Of a node.
    #[must_use]
    pub fn of(view: &NodeView, used: AcceleratorNodeUse) -> Self {
        let node = &view.node;
        Self {
            host: view.host.map(|mac| mac.to_string()),
            partial: view.is_partial,
            contacts: view.contacts,
            channels: view.channels.iter().map(ChannelStatus::of).collect(),
            uptime_s: used.running.as_secs_f64(),
            working_s: used.working.as_secs_f64(),
            sessions: TableUse {
                used: view.sessions as u64,
                room: used.sessions,
            },
            flows: TableUse {
                used: view.flows as u64,
                room: used.flows,
            },
            requests: view.requests,
            events: view.events,
            exceptions: by_reason(Reason::ALL.map(Reason::label), &view.exceptions),
            urgent_exceptions: node.exceptions[Class::Urgent as usize],
            exceptions_lost: view.exceptions_lost + node.lost.iter().sum::<u64>(),
            steered: node.steered,
            through: node.through,
            refused: node.refused,
            sent_for_host: node.sent,
            discarded: view.discarded,
            forged: node.forged,
            replayed: node.replayed,
            malformed: node.malformed,
            foreign: node.ignored,
            settled: view.settling.settled,
            settling_timed_out: view.settling.timed_out,
            held: view.settling.held,
            questions: QuestionCounts::of(view),
            path: view.path.as_ref().map(NodePackets::of).unwrap_or_default(),
            queues: view
                .queues
                .map(|counts| QueueList::of(&[counts], QueuePlan::default())),
        }
    }

    /// As lines for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut facts = Facts::new("");
        let contact = self.host.as_ref().map_or_else(
            || "NONE: no host decides, and nothing passes".to_owned(),
            |mac| match self.channels.len() {
                0 | 1 => format!("with {mac}, the {}. since the start", grouped(self.contacts)),
                channels => {
                    let up = self.channels.iter().filter(|channel| channel.contact).count();
                    format!("with {mac} by {up} of {channels} channels")
                }
            },
        );
        facts.add("contact", [contact]);
        if self.channels.len() > 1 {
            facts.add("channels", self.channels.iter().map(ChannelStatus::line));
        }
        let share = 100.0 * self.working_s / self.uptime_s.max(f64::MIN_POSITIVE);
        let seconds = grouped(self.uptime_s as u64);
        facts.add("thread", [format!("worked {share:.1}% of {seconds} s")]);
        if self.partial {
            let steered = grouped(self.steered);
            facts.add(
                "mode",
                [format!(
                    "partial: user packets go to the host, with their bucket: {steered}"
                )],
            );
        } else {
            facts.add("sessions", [self.sessions.words()]);
            facts.add("flows", [self.flows.words()]);
        }
        let path = &self.path;
        facts.add(
            "packets",
            [format!(
                "received: {}, sent: {}; of known flows: {}, others: {}",
                grouped(path.received),
                grouped(path.sent),
                grouped(path.flow_hits),
                grouped(path.flow_misses),
            )],
        );
        facts.add("exceptions", [reasons(&self.exceptions)]);
        let lines = [
            format!(
                "requests: {}, events: {}; packets with their flow: {}, refused: {}; packets sent: {}",
                grouped(self.requests),
                grouped(self.events),
                grouped(self.through),
                grouped(self.refused),
                grouped(self.sent_for_host),
            ),
            format!(
                "lost: {}, discarded: {}, forged: {}, replayed: {}, malformed: {}, foreign: {}",
                grouped(self.exceptions_lost),
                grouped(self.discarded),
                grouped(self.forged),
                grouped(self.replayed),
                grouped(self.malformed),
                grouped(self.foreign),
            ),
        ];
        facts.add("host", lines);
        facts.add(
            "settling",
            [format!(
                "{} packets wait; settled: {}, timed out: {}",
                grouped(self.held as u64),
                grouped(self.settled),
                grouped(self.settling_timed_out),
            )],
        );
        facts.add("questions", [self.questions.line()]);
        if let Some(queues) = &self.queues {
            facts.add("queues", queues.lines());
        }
        facts.add("dropped", [reasons(&path.drops)]);
        facts.text
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use packet::{DropReason, MacAddr};
    use worker::{EgressCounts, LossReason};

    use super::*;

    /// A node that has done something.
    pub(crate) fn status() -> AcceleratorNodeStatus {
        let mut view = NodeView {
            host: Some(MacAddr([2, 0, 0, 0, 0, 9])),
            contacts: 2,
            channels: vec![ChannelView {
                is_up: true,
                contacts: 2,
                sessions: 7,
                ..ChannelView::default()
            }],
            flows: 1_234,
            sessions: 7,
            ..NodeView::default()
        };
        let mut path = Stats::new(2);
        (path.hits, path.misses) = (30, 4);
        (path.ports[0].rx.packets, path.ports[1].tx.packets) = (35, 29);
        path.drops[DropReason::MeterRed as usize] = 2;
        view.path = Some(path);
        view.exceptions[Reason::NoFlow.index()] = 1_500;
        view.settling.settled = 3;
        view.asks = true;
        (view.asking.keys, view.asking.held) = (2, 5);
        (view.asking.asked, view.asking.installed, view.asking.whole) = (1_000, 900, 80);
        (view.asking.timed_out, view.asking.late, view.asking.no_room) = (18, 1, 6);
        let mut queues = EgressCounts {
            queues: 12,
            queues_limit: 131_072,
            packets: 5,
            packets_limit: 16_384,
            octets: 6_000,
            octets_limit: 1 << 26,
            ..EgressCounts::default()
        };
        let class = &mut queues.priorities[7];
        (class.packets, class.octets, class.departed, class.departed_octets) = (5, 6_000, 2_000, 2_400_000);
        (class.waited, class.marks) = (4_000_000_000, 17);
        class.drops[LossReason::QueueFull as usize] = 9;
        view.queues = Some(queues);
        let used = AcceleratorNodeUse {
            running: Duration::from_secs(200),
            working: Duration::from_secs(50),
            sessions: 100_000,
            flows: 327_680,
        };
        AcceleratorNodeStatus::of(&view, used)
    }

    #[test]
    fn the_text_says_how_it_stands() {
        let mut status = status();
        assert_eq!(
            status.text(),
            "contact     with 02:00:00:00:00:09, the 2. since the start\n\
             thread      worked 25.0% of 200 s\n\
             sessions    7 of 100,000\n\
             flows       1,234 of 327,680\n\
             packets     received: 35, sent: 29; of known flows: 30, others: 4\n\
             exceptions  no_flow 1,500\n\
             host        requests: 0, events: 0; packets with their flow: 0, refused: 0; packets sent: 0\n\
             \x20           lost: 0, discarded: 0, forged: 0, replayed: 0, malformed: 0, foreign: 0\n\
             settling    0 packets wait; settled: 3, timed out: 0\n\
             questions   5 packets wait for 2 answers; asked: 1,000, flows: 900, whole: 80, timed out: 18, late: 1, \
             no room: 6\n\
             queues      12 of 131,072; packets that wait: 5 of 16,384\n\
             \x20           priority 7: waiting 5, left 2,000, 2,000 µs each, marked 17, queue_full 9\n\
             dropped     meter_red 2\n"
        );
        let channel = |channel| ChannelStatus {
            channel,
            contact: channel == 0,
            contacts: 1,
            sessions: 4_000,
            requests: 56,
            retransmissions: 7,
            discarded: 8,
        };
        status.channels = vec![channel(0), channel(1)];
        assert!(status.text().starts_with(
            "contact     with 02:00:00:00:00:09 by 1 of 2 channels\n\
             channels    0: contacts: 1, sessions: 4,000, requests: 56, sent again: 7, discarded: 8\n\
             \x20           1: no contact; contacts: 1, sessions: 4,000, requests: 56, sent again: 7, discarded: 8\n"
        ));
        status.questions.is_answered = false;
        assert!(status.text().contains("questions   the host answers none\n"));
        status.host = None;
        assert!(status.text().starts_with("contact     NONE: no host decides"));
    }

    #[test]
    fn json_comes_back() {
        let status = status();
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(
            serde_json::from_str::<AcceleratorNodeStatus>(&text).unwrap(),
            status
        );
    }
}
