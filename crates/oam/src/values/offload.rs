//! Accelerators of workers.

use std::collections::BTreeMap;
use std::time::Duration;

use flow::contract::{Capabilities, Exactness};
use offload::channel::Discard;
use offload::exception::Reason;
use serde::{Deserialize, Serialize};
use upf::format::grouped;
use utoipa::ToSchema;
use worker::{AcceleratorView, Stays};

use super::facts::{Facts, list};

/// The accelerators of this node. Counts are since the start of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OffloadStatus {
    /// Those of workers that have one, by worker.
    pub accelerators: Vec<AcceleratorStatus>,
}

/// A worker's accelerator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AcceleratorStatus {
    /// The number of the worker.
    pub worker: usize,
    /// Whether there is contact: without it the ports behind the accelerator carry nothing.
    pub contact: bool,
    /// Whether sessions can leave: there is contact, and it has said what it can do.
    pub ready: bool,
    /// `full`, or `partial`: no session leaves, because it is configured so here, or the accelerator holds none.
    #[serde(default)]
    #[schema(example = "full")]
    pub mode: String,
    /// Its address; absent without contact.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "02:00:00:00:00:0a")]
    pub mac: Option<String>,
    /// The smoothed time until it acknowledges a frame, microseconds; absent until it was measured in this contact.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = 31)]
    pub round_trip_us: Option<u64>,
    /// What it can do; absent unless it is ready.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub capabilities: Option<AcceleratorCapabilities>,
    /// Sessions that leave and come back.
    pub sessions: AcceleratorSessions,
    /// Packets of sessions that stay in the worker, by reason: `action`, `inspection`, `nat`, `accounting`,
    /// `shared_rate`, `moving`, `port`, `capability`, `refused`, `waiting`, `queues`, `shared_shaper`,
    /// `partial_mode`.
    pub home_packets: BTreeMap<String, u64>,
    /// Packets that it gave to the worker, by reason: `no_flow`, `stale`, `not_user_packet`, `action`, `limit`,
    /// `adjacency`, `too_long`, `ttl`, `needs_reassembly`, `other_headers`, `no_session`.
    pub exceptions: BTreeMap<String, u64>,
    /// Other packets on the port towards it.
    pub packets: AcceleratorPackets,
    /// What it was asked for.
    pub requests: AcceleratorRequests,
    /// The frames of the channel to it.
    pub channel: AcceleratorChannel,
}

/// What an accelerator can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AcceleratorCapabilities {
    /// Sessions that it can hold.
    pub sessions: u32,
    /// IPv4 flows that it can hold.
    pub ipv4_flows: u32,
    /// IPv6 flows that it can hold.
    pub ipv6_flows: u32,
    /// How often it reports counters by itself, milliseconds; absent: never.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = 100)]
    pub counts_every_ms: Option<u64>,
    /// Packets that may be missing in its counts at most, when a flow moves; 0: it counts exactly.
    pub uncounted_packets: u32,
}

/// Sessions that leave a worker and come back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AcceleratorSessions {
    /// Sessions that are away now, those on the way included.
    pub away: u64,
    /// Those that left.
    pub left: u64,
    /// Those that came back, each with its counts and meters.
    pub returned: u64,
    /// Those that the accelerator lost: what was counted since its last report is lost.
    pub lost: u64,
    /// Those that the accelerator refused.
    pub refused: u64,
    /// Routes, instances and next hops that the accelerator refused: their packets come to the worker.
    pub network_refused: u64,
}

/// Packets between a worker and its accelerator, beside exceptions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AcceleratorPackets {
    /// Packets of which it said where their user packet begins; those of all workers, at the first one.
    #[serde(default)]
    pub hinted: u64,
    /// Packets that were given to a worker by the bucket that it said; those of all workers, at the first one.
    #[serde(default)]
    pub steered: u64,
    /// Packets that its ports sent for the worker.
    pub sent: u64,
    /// Packets that went back to it with their flow.
    pub through: u64,
    /// Packets of sessions that were away and needed the worker: their sessions came back.
    pub recalled: u64,
    /// Packets from it that found no room before the worker took them.
    pub lost: u64,
    /// Packets that could not be given to it: no contact, or no room in front of them.
    pub unsent: u64,
    /// Frames that are not the accelerator's, or of none of its ports.
    pub foreign: u64,
}

/// What an accelerator was asked for, and what it reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AcceleratorRequests {
    /// Requests that were sent, or wait to be.
    pub requests: u64,
    /// Replies to them.
    pub replies: u64,
    /// Those without a reply now.
    pub outstanding: usize,
    /// Requests that were given up without a reply: contact was lost, or there were too many.
    pub refused: u64,
    /// Events that it reported.
    pub events: u64,
    /// Contacts that were ended because of a message that is against the specification.
    pub faults: u64,
    /// Times that contact was lost, for whatever reason.
    pub losses: u64,
}

/// The frames of a channel to an accelerator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AcceleratorChannel {
    /// Contacts that were made.
    pub contacts: u64,
    /// Frames that were sent.
    pub frames_sent: u64,
    /// Frames that were received and not discarded.
    pub frames_received: u64,
    /// Frames that were sent again.
    pub retransmissions: u64,
    /// Frames that were discarded, by reason, as docs/inband.md has them.
    pub discarded: BTreeMap<String, u64>,
}

impl OffloadStatus {
    /// Of what workers publish, in the order of their numbers.
    #[must_use]
    pub fn of(workers: &[Option<AcceleratorView>]) -> Self {
        let workers = workers.iter().enumerate();
        let known = workers.filter_map(|(worker, view)| Some((worker, view.as_ref()?)));
        Self {
            accelerators: known
                .map(|(worker, view)| AcceleratorStatus::of(worker, view))
                .collect(),
        }
    }

    /// As lines for people.
    #[must_use]
    pub fn text(&self) -> String {
        if self.accelerators.is_empty() {
            return "no accelerator is configured\n".into();
        }
        let texts = self.accelerators.iter().map(AcceleratorStatus::text);
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl AcceleratorStatus {
    fn of(worker: usize, view: &AcceleratorView) -> Self {
        let (offload, port, in_band, channel) = (&view.offload, &view.port, &view.in_band, &view.channel);
        Self {
            worker,
            contact: view.mac.is_some(),
            ready: view.is_ready,
            mode: if view.is_partial { "partial" } else { "full" }.to_owned(),
            mac: view.mac.map(|mac| mac.to_string()),
            round_trip_us: view.load.round_trip.map(|time| time.as_micros() as u64),
            capabilities: view.capabilities.as_ref().map(AcceleratorCapabilities::of),
            sessions: AcceleratorSessions {
                away: offload.away,
                left: offload.left,
                returned: offload.returned,
                lost: offload.lost,
                refused: offload.refused,
                network_refused: offload.network_refused,
            },
            home_packets: by_reason(Stays::ALL.map(Stays::label), &offload.stays),
            exceptions: by_reason(Reason::ALL.map(Reason::label), &port.exceptions),
            packets: AcceleratorPackets {
                hinted: port.hinted,
                steered: port.steered,
                sent: port.sent,
                through: port.through,
                recalled: offload.recalled,
                lost: port.lost,
                unsent: port.unsent,
                foreign: port.foreign,
            },
            requests: AcceleratorRequests {
                requests: in_band.requests,
                replies: in_band.replies,
                outstanding: view.outstanding,
                refused: in_band.refused,
                events: in_band.events,
                faults: in_band.faults,
                losses: in_band.losses,
            },
            channel: AcceleratorChannel {
                contacts: channel.contacts,
                frames_sent: channel.frames_sent,
                frames_received: channel.frames_received,
                retransmissions: channel.retransmissions,
                discarded: by_reason(Discard::ALL.map(Discard::label), &channel.discards),
            },
        }
    }

    fn text(&self) -> String {
        let mut facts = Facts::new("  ");
        facts.add("contact", [self.contact_words()]);
        let is_partial = self.mode == "partial";
        let words = "partial: all user packets come to the worker, no session leaves";
        facts.add("mode", is_partial.then(|| words.to_owned()));
        let capabilities = self.capabilities.as_ref().filter(|_| !is_partial);
        facts.add("room", capabilities.map(AcceleratorCapabilities::room));
        facts.add("counts", capabilities.map(AcceleratorCapabilities::counts));
        facts.add("sessions", [self.sessions.words()]);
        let refused = self.sessions.network_refused;
        let refused =
            (refused > 0).then(|| format!("{} routes, instances and next hops refused", grouped(refused)));
        facts.add("network", refused);
        facts.add("at home", [reasons(&self.home_packets)]);
        facts.add("exceptions", [reasons(&self.exceptions)]);
        facts.add("hints", self.packets.hints());
        facts.add("packets", self.packets.lines());
        facts.add("requests", self.requests.lines());
        facts.add("channel", [self.channel.words()]);
        facts.add("discarded", [reasons(&self.channel.discarded)]);
        format!("worker {}\n{}", self.worker, facts.text)
    }

    fn contact_words(&self) -> String {
        let Some(mac) = &self.mac else {
            return "NONE: the ports behind the accelerator carry nothing".into();
        };
        let round_trip = self.round_trip_us;
        let round_trip =
            round_trip.map_or_else(String::new, |time| format!(", round trip {} us", grouped(time)));
        match self.ready {
            true => format!("with {mac}{round_trip}"),
            false => format!("with {mac}{round_trip}; no session can leave yet"),
        }
    }
}

impl AcceleratorCapabilities {
    fn of(can: &Capabilities) -> Self {
        Self {
            sessions: can.sessions,
            ipv4_flows: can.ipv4_flows,
            ipv6_flows: can.ipv6_flows,
            counts_every_ms: can.counts_every.map(|every: Duration| every.as_millis() as u64),
            uncounted_packets: match can.exactness {
                Exactness::Exact => 0,
                Exactness::Bounded { loss } => loss,
            },
        }
    }

    fn room(&self) -> String {
        format!(
            "for {} sessions, {} IPv4 flows, {} IPv6 flows",
            grouped(self.sessions.into()),
            grouped(self.ipv4_flows.into()),
            grouped(self.ipv6_flows.into()),
        )
    }

    fn counts(&self) -> String {
        let every = self.counts_every_ms.map_or_else(
            || "never reported: no session leaves".to_owned(),
            |every| format!("reported every {} ms", grouped(every)),
        );
        match self.uncounted_packets {
            0 => format!("{every}; exact"),
            packets => format!("{every}; at most {} packets missing", grouped(packets.into())),
        }
    }
}

impl AcceleratorSessions {
    fn words(&self) -> String {
        format!(
            "{} away; left: {}, came back: {}, lost: {}, refused: {}",
            grouped(self.away),
            grouped(self.left),
            grouped(self.returned),
            grouped(self.lost),
            grouped(self.refused),
        )
    }
}

impl AcceleratorPackets {
    fn hints(&self) -> Option<String> {
        let (hinted, steered) = (grouped(self.hinted), grouped(self.steered));
        (self.hinted > 0).then(|| {
            format!("user packets with their offsets: {hinted}, given on by their bucket: {steered}")
        })
    }

    fn lines(&self) -> [String; 2] {
        [
            format!(
                "sent: {}, given back with their flow: {}, that brought their session back: {}",
                grouped(self.sent),
                grouped(self.through),
                grouped(self.recalled),
            ),
            format!(
                "lost: {}, unsent: {}, foreign frames: {}",
                grouped(self.lost),
                grouped(self.unsent),
                grouped(self.foreign),
            ),
        ]
    }
}

impl AcceleratorRequests {
    fn lines(&self) -> [String; 2] {
        [
            format!(
                "sent: {}, replies: {}, outstanding: {}, refused: {}",
                grouped(self.requests),
                grouped(self.replies),
                grouped(self.outstanding as u64),
                grouped(self.refused),
            ),
            format!(
                "events: {}, faults: {}, losses: {}",
                grouped(self.events),
                grouped(self.faults),
                grouped(self.losses),
            ),
        ]
    }
}

impl AcceleratorChannel {
    fn words(&self) -> String {
        format!(
            "contacts: {}, frames sent: {}, received: {}, sent again: {}",
            grouped(self.contacts),
            grouped(self.frames_sent),
            grouped(self.frames_received),
            grouped(self.retransmissions),
        )
    }
}

pub(super) fn by_reason<const N: usize>(labels: [&str; N], counts: &[u64; N]) -> BTreeMap<String, u64> {
    let counted = labels.into_iter().zip(counts);
    counted.map(|(label, count)| (label.to_owned(), *count)).collect()
}

/// Those that have been counted; a dash if there is none.
pub(super) fn reasons(counts: &BTreeMap<String, u64>) -> String {
    let counted = counts.iter().filter(|(_, count)| **count > 0);
    list(counted.map(|(reason, count)| format!("{reason} {}", grouped(*count))))
}

#[cfg(test)]
pub(crate) mod tests {
    use offload::channel::{Load, Stats};
    use offload::in_band::InBandStats;
    use packet::MacAddr;
    use worker::OffloadStats;
    use worker::behind_accelerator::AcceleratorPortStats;

    use super::*;

    /// An accelerator in contact, with a count in each place.
    pub(crate) fn view() -> AcceleratorView {
        let mut view = AcceleratorView {
            is_ready: true,
            is_partial: false,
            mac: Some(MacAddr([2, 0, 0, 0, 0, 10])),
            links_down: Some(0),
            capabilities: Some(Capabilities {
                counts_every: Some(Duration::from_millis(100)),
                ..Capabilities::local(65_536, 32_768, 16_384)
            }),
            outstanding: 1,
            load: Load {
                queued: 0,
                in_flight: 1,
                round_trip: Some(Duration::from_micros(31)),
            },
            offload: OffloadStats {
                away: 12,
                left: 41,
                returned: 27,
                lost: 2,
                refused: 1,
                recalled: 4,
                ..OffloadStats::default()
            },
            port: AcceleratorPortStats {
                sent: 1_200,
                through: 299,
                lost: 5,
                foreign: 6,
                unsent: 7,
                ..AcceleratorPortStats::default()
            },
            in_band: InBandStats {
                requests: 410,
                refused: 8,
                replies: 409,
                events: 90,
                faults: 0,
                losses: 1,
            },
            channel: Stats {
                frames_sent: 4_001,
                frames_received: 3_900,
                retransmissions: 9,
                contacts: 2,
                ..Stats::default()
            },
        };
        view.offload.stays[Stays::Nat as usize] = 1_012;
        view.offload.stays[Stays::SharedRate as usize] = 3;
        view.port.exceptions[Reason::NoFlow.index()] = 300;
        view.port.exceptions[Reason::Ttl.index()] = 4;
        view.channel.discards[Discard::Mac as usize] = 2;
        view
    }

    #[test]
    fn an_accelerator_is_lines_that_leave_out_what_was_not_counted() {
        let status = OffloadStatus::of(&[None, Some(view())]);
        assert_eq!(
            status.text(),
            "worker 1\n\
             \x20 contact     with 02:00:00:00:00:0a, round trip 31 us\n\
             \x20 room        for 16,384 sessions, 65,536 IPv4 flows, 32,768 IPv6 flows\n\
             \x20 counts      reported every 100 ms; exact\n\
             \x20 sessions    12 away; left: 41, came back: 27, lost: 2, refused: 1\n\
             \x20 at home     nat 1,012, shared_rate 3\n\
             \x20 exceptions  no_flow 300, ttl 4\n\
             \x20 packets     sent: 1,200, given back with their flow: 299, that brought their session back: 4\n\
             \x20             lost: 5, unsent: 7, foreign frames: 6\n\
             \x20 requests    sent: 410, replies: 409, outstanding: 1, refused: 8\n\
             \x20             events: 90, faults: 0, losses: 1\n\
             \x20 channel     contacts: 2, frames sent: 4,001, received: 3,900, sent again: 9\n\
             \x20 discarded   mac 2\n"
        );
        assert_eq!(
            OffloadStatus::of(&[None, None]).text(),
            "no accelerator is configured\n"
        );
    }

    #[test]
    fn partial_mode_is_said_and_room_is_not() {
        let mut view = view();
        view.is_partial = true;
        (view.port.hinted, view.port.steered) = (12_345, 1_200);
        view.offload.stays[Stays::PartialMode as usize] = 7;
        let status = OffloadStatus::of(&[Some(view)]);
        let text = status.text();
        for line in [
            "  mode        partial: all user packets come to the worker, no session leaves\n",
            "partial_mode 7",
            "  hints       user packets with their offsets: 12,345, given on by their bucket: 1,200\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(
            !text.contains("room") && !text.contains("reported every"),
            "{text}"
        );
        let json = serde_json::to_value(status).expect("plain values");
        assert_eq!(json["accelerators"][0]["mode"], "partial");
        assert_eq!(json["accelerators"][0]["packets"]["steered"], 1_200);
    }

    #[test]
    fn without_contact_it_is_said_what_that_means_and_counts_remain() {
        let mut lost = view();
        (lost.is_ready, lost.mac, lost.capabilities, lost.load.round_trip) = (false, None, None, None);
        let text = OffloadStatus::of(&[Some(lost), Some(view())]).text();
        let begins = "worker 0\n\
                      \x20 contact     NONE: the ports behind the accelerator carry nothing\n\
                      \x20 sessions    12 away;";
        assert!(
            text.starts_with(begins) && text.contains("\n\nworker 1\n"),
            "{text}"
        );
        lost.mac = view().mac;
        let text = OffloadStatus::of(&[Some(lost)]).text();
        let words = "with 02:00:00:00:00:0a; no session can leave yet\n";
        assert!(text.contains(words), "{text}");
    }

    #[test]
    fn what_is_not_exact_or_refused_is_said() {
        let mut view = view();
        view.offload.network_refused = 3;
        if let Some(can) = &mut view.capabilities {
            (can.exactness, can.counts_every) = (Exactness::Bounded { loss: 64 }, None);
        }
        let text = OffloadStatus::of(&[Some(view)]).text();
        for line in [
            "  counts      never reported: no session leaves; at most 64 packets missing\n",
            "  network     3 routes, instances and next hops refused\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn machines_see_every_count() {
        let json = serde_json::to_value(OffloadStatus::of(&[None, Some(view())])).expect("plain values");
        let one = &json["accelerators"][0];
        assert_eq!(one["worker"], 1);
        assert_eq!((&one["contact"], &one["ready"]), (&true.into(), &true.into()));
        assert_eq!(one["mac"], "02:00:00:00:00:0a");
        assert_eq!(one["round_trip_us"], 31);
        assert_eq!(
            one["capabilities"],
            serde_json::json!({
                "sessions": 16_384, "ipv4_flows": 65_536, "ipv6_flows": 32_768,
                "counts_every_ms": 100, "uncounted_packets": 0
            })
        );
        let of = |counts: &serde_json::Value, label: &str| counts[label].as_u64();
        assert_eq!(of(&one["home_packets"], "nat"), Some(1_012));
        assert_eq!(of(&one["home_packets"], "port"), Some(0));
        assert_eq!(of(&one["exceptions"], "no_flow"), Some(300));
        let discarded = &one["channel"]["discarded"];
        assert_eq!(
            (of(discarded, "mac"), of(discarded, "window")),
            (Some(2), Some(0))
        );
        let none = serde_json::to_value(OffloadStatus::of(&[None])).expect("plain values");
        assert_eq!(none, serde_json::json!({"accelerators": []}));
    }
}
