//! One packet explained: what it was, what was done with it, and why. Named as in TS 29.244.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use upf::format::{grouped, rate};

/// What is before the name of a protocol that nDPI has found.
pub(crate) const OF_NDPI: &str = "ndpi.";

/// A line of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceLine {
    /// A packet.
    Packet(Box<PacketTrace>),
    /// The end.
    End(TraceSummary),
}

/// How a trace ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TraceSummary {
    /// Packets that were wanted, as far as they were seen.
    pub wanted: u64,
    /// Packets that were reported.
    pub told: u64,
    /// Packets that were not reported because of the rate or the number that was asked for.
    pub over_rate: u64,
    /// Packets that were not reported because the reader was too slow.
    pub lost: u64,
    /// Packets about which the worker and the interpreter do not agree: mistakes of Sluice.
    pub disagreements: u64,
}

/// What happened to one packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PacketTrace {
    /// The number of the packet in this trace, from 1.
    pub number: u64,
    /// When it came: nanoseconds since 1970, or of the capture's own clock.
    pub time_ns: u64,
    /// The worker.
    pub worker: u16,
    /// The port that it came in by.
    pub port: String,
    /// The network instance that it came in by.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance: Option<String>,
    /// Its VLAN: `100`, or the outer and the inner one of two: `200.30`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub vlan: Option<String>,
    /// Where the worker had it from, where that is not the wire.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<String>,
    /// The length of the frame, octets.
    pub octets: u32,
    /// In which direction it goes through its session: uplink or downlink.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub direction: Option<String>,
    /// The tunnel that it came in.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tunnel: Option<String>,
    /// The user packet; of a packet without one what it is.
    pub packet: String,
    /// The local SEID of its session.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seid: Option<String>,
    /// The UE's addresses.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ue: Vec<String>,
    /// Where its session is, of a worker with an accelerator, and why it stays here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub accelerator: Option<String>,
    /// What CG-NAT made of it; absent where nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub translation: Option<TranslationTrace>,
    /// What was found in the flow table.
    pub flow: FlowTrace,
    /// What the access list of its session says of it, if there is one, and by which rule.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub access: Option<String>,
    /// The PDR that it matched.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pdr: Option<u16>,
    /// All PDRs in the order in which they are tried.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tried: Vec<TriedTrace>,
    /// The QERs that act on it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub qers: Vec<QerTrace>,
    /// What the meters say: green, yellow or red; absent where none was asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub colour: Option<String>,
    /// The FAR.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub far: Option<u32>,
    /// What the FAR says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub action: Option<String>,
    /// The URRs of its PDR.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub urrs: Vec<UrrTrace>,
    /// What was done to its headers.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub headers: Vec<String>,
    /// Copies of it: mirrors, duplicates.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub copies: Vec<String>,
    /// The queue before its port that it waited in; absent where it did not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue: Option<QueueTrace>,
    /// What became of it.
    pub end: EndTrace,
    /// Its octets, where they are asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub frames: Option<FramesTrace>,
    /// The interpreter of the rules says something else: a mistake of Sluice.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disagreement: Option<String>,
    /// Why the interpreter was not asked, or is not believed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unchecked: Option<String>,
}

/// How a packet waited in a queue before its port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueTrace {
    /// The class of the queue; absent if its session has the queue no more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub class: Option<String>,
    /// The priority of that class: 0 leaves first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub priority: Option<u8>,
    /// Octets of user packets that waited in the queue before it.
    pub before_octets: u64,
    /// Nanoseconds that it has waited.
    pub waited_ns: u64,
    /// Its ECN field says now that congestion was experienced (RFC 3168). Octets of the packet are shown as they were
    /// before.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub marked: bool,
}

impl QueueTrace {
    fn text(&self) -> String {
        let class = match (&self.class, self.priority) {
            (Some(class), Some(priority)) => format!("{class} (priority {priority})"),
            _ => "gone".to_owned(),
        };
        let marked = if self.marked { ", marked (CE)" } else { "" };
        format!(
            "{class}  waited {:.3} ms behind {} octets{marked}",
            self.waited_ns as f64 / 1e6,
            grouped(self.before_octets)
        )
    }
}

/// The public end of a packet between a UE and a data network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TranslationTrace {
    /// The public address, and the port or the identifier of an ICMP query; of a fragment behind the first without.
    #[schema(example = "198.51.100.1:2600")]
    pub public: String,
    /// Whether the packet came to it; else it leaves with it.
    pub is_destination: bool,
    /// Whether it came from an address that the UE has not sent to by this mapping, where its pool distinguishes such
    /// packets.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub unsolicited: bool,
    /// Whether it counts in no URR therefore.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub uncharged: bool,
}

impl TranslationTrace {
    fn text(&self) -> String {
        match self.is_destination {
            true => {
                let unsolicited = if self.unsolicited { ", unsolicited" } else { "" };
                let uncharged = if self.uncharged { ", not charged" } else { "" };
                format!("came to {}{unsolicited}{uncharged}", self.public)
            }
            false => format!("leaves with {}", self.public),
        }
    }
}

/// The octets of a packet, from the link layer on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FramesTrace {
    /// As it came in, hexadecimal, as many octets as are kept.
    pub received: String,
    /// As it left, likewise.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sent: Option<String>,
}

/// What was found in the flow table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowTrace {
    /// hit, miss, stale, or none: the packet can have no entry.
    pub lookup: String,
    /// The key of the entry that is there now; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub entry: Option<String>,
    /// Whether it is of this packet.
    pub installed: bool,
    /// The entry that was hit was from before rules changed that all sessions share.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub outdated: bool,
    /// What its flow is, where rules ask for that: `tls`, `quic`, `http`, `dns`, `stun`, `rtp`, `wireguard`, or
    /// `ndpi.` and what nDPI calls it; absent as long as it is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub protocol: Option<String>,
    /// What its flow is for, where rules ask for that: `undecided`, `undetected`, or a host, of HTTP with the start of
    /// the path; of DNS the name that is asked for. Absent of a protocol that names none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<String>,
    /// This packet has shown what the flow is.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub shows_host: bool,
    /// No packet of the flow names its host: a resolver has given the UE the address of the other end for it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub resolved: bool,
    /// The client names the host, and a resolver has given the UE the address of the other end for it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub confirmed: bool,
}

/// A PDR that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TriedTrace {
    /// The PDR.
    pub pdr: u16,
    /// Its precedence.
    pub precedence: u32,
    /// Why it does not match; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mismatch: Option<String>,
}

/// A QER that acts on a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QerTrace {
    /// The QER.
    pub id: u32,
    /// Whether its gate is open in the packet's direction.
    pub is_open: bool,
    /// The maximum bit rate in the packet's direction, bit/s.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mbr: Option<u64>,
    /// The guaranteed bit rate in the packet's direction, bit/s.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gbr: Option<u64>,
    /// The QFI that it marks with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub qfi: Option<u8>,
}

/// A URR of a packet's PDR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UrrTrace {
    /// The URR.
    pub id: u32,
    /// Octets that it has counted of this packet.
    pub counted: u64,
    /// It has counted the packet before QoS enforcement.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub before_qos: bool,
    /// It has counted the packet as an event.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_event: bool,
    /// Its quota is used up.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub exhausted: bool,
    /// Octets that it has counted uplink since its last report.
    pub uplink_octets: u64,
    /// Octets that it has counted downlink since its last report.
    pub downlink_octets: u64,
}

/// What became of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum EndTrace {
    /// It left.
    Sent {
        /// The port.
        port: String,
        /// The network instance.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        instance: Option<String>,
        /// The neighbour that it was handed to, as the interpreter says.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        next_hop: Option<String>,
        /// That neighbour's link layer address, as it was sent.
        mac: String,
        /// The length of the frame, octets.
        octets: u32,
        /// Packets that left with it found no room at the port; it may be one of them (`tx_full`).
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        port_was_full: bool,
        /// It was too long for its way and left in several fragments; all else here is of the whole.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        in_fragments: bool,
    },
    /// It was sent to an address of this node and comes in again: the next packet of the trace.
    Again {
        /// The network instance that it comes in by.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        instance: Option<String>,
    },
    /// It was dropped.
    Dropped {
        /// The reason, as the counter is called.
        reason: String,
        /// The clause or RFC that makes it one.
        clause: String,
        /// The reason in words.
        explanation: String,
    },
    /// Another worker owns its session.
    HandedOver {
        /// That worker.
        worker: u16,
    },
    /// It was for this node itself, and nothing leaves.
    #[default]
    Consumed,
    /// To the host's own network stack, by the interface of its network instance.
    ToHost,
    /// It goes back to the accelerator with its flow, and passes there.
    GoesBack {
        /// Packets that left with it found no room at the port; it may be one of them (`tx_full`).
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        port_was_full: bool,
    },
    /// It waits.
    Waits {
        /// For what.
        for_what: String,
    },
}

impl EndTrace {
    /// What became of it, in a few words.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            Self::Sent { port, .. } => format!("sent by {port}"),
            Self::Again { .. } => "comes in again".into(),
            Self::Dropped { reason, clause, .. } => format!("dropped: {reason} ({clause})"),
            Self::HandedOver { worker } => format!("handed over to worker {worker}"),
            Self::Consumed => "consumed".into(),
            Self::ToHost => "to the host".into(),
            Self::GoesBack { .. } => "back to the accelerator".into(),
            Self::Waits { for_what } => format!("waits for {for_what}"),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Sent {
                port,
                instance,
                next_hop,
                mac,
                octets,
                port_was_full,
                in_fragments,
            } => {
                let by = instance
                    .as_ref()
                    .map_or_else(|| format!("by {port}"), |name| format!("by {name} on {port}"));
                let to = next_hop
                    .as_ref()
                    .map_or_else(|| format!("to {mac}"), |hop| format!("to {hop} at {mac}"));
                let full = match port_was_full {
                    true => "; the port had no room for all of this burst: it may be lost (tx_full)",
                    false => "",
                };
                let cut = if *in_fragments { ", in fragments" } else { "" };
                format!("SENT      {by} {to}, {octets} octets{cut}{full}")
            }
            Self::Again { instance } => format!(
                "AGAIN     to an address of our own{}: it comes in again, as the next packet",
                instance
                    .as_ref()
                    .map_or_else(String::new, |name| format!(" at {name}"))
            ),
            Self::Dropped {
                reason,
                clause,
                explanation,
            } => format!("DROPPED   {reason}: {explanation} [{clause}]"),
            Self::HandedOver { worker } => {
                format!("HANDED    over to worker {worker}, which owns its session")
            }
            Self::Consumed => "CONSUMED  it was for this node itself".into(),
            Self::ToHost => "HOST      it is for the host's own network stack".into(),
            Self::GoesBack { port_was_full } => {
                let full = match port_was_full {
                    true => "; the port had no room for all of this burst: it may be lost (tx_full)",
                    false => "",
                };
                format!(
                    "BACK      to the accelerator, with its flow: it passes there, as the next ones do{full}"
                )
            }
            Self::Waits { for_what } => format!("WAITS     for {for_what}"),
        }
    }
}

impl PacketTrace {
    /// The block of lines for people; `first_ns` is when the trace began. With `verbose` also every PDR that was tried.
    #[must_use]
    pub fn text(&self, first_ns: u64, verbose: bool) -> String {
        let mut text = self.arrival(first_ns);
        let mut line = |name: &str, words: &str| {
            let _ = writeln!(text, "       {name:<9} {words}");
        };
        if let Some(tunnel) = &self.tunnel {
            line("tunnel", tunnel);
        }
        line("packet", &self.packet);
        if let Some(seid) = &self.seid {
            line("session", &format!("{seid}  UE {}", self.ue.join(", ")));
        }
        if let Some(place) = &self.accelerator {
            line("offload", place);
        }
        if let Some(translation) = self.translation.as_ref().filter(|one| one.is_destination) {
            line("NAT", &translation.text());
        }
        line("flow", &self.flow.text());
        if let Some(access) = &self.access {
            line("access", access);
        }
        if verbose {
            for tried in &self.tried {
                line("tried", &tried.text());
            }
        }
        if let Some(pdr) = self.pdr {
            let precedence = self.tried.iter().find(|tried| tried.pdr == pdr);
            let precedence =
                precedence.map_or_else(String::new, |tried| format!("  precedence {}", tried.precedence));
            line("PDR", &format!("{pdr}{precedence}"));
        }
        for qer in &self.qers {
            line("QER", &qer.text());
        }
        if let Some(colour) = &self.colour {
            line("meters", colour);
        }
        match (self.far, &self.action) {
            (Some(far), Some(action)) => line("FAR", &format!("{far}  {action}")),
            (Some(far), None) => line("FAR", &far.to_string()),
            (None, Some(action)) => line("FAR", action),
            (None, None) => {}
        }
        for urr in &self.urrs {
            line("URR", &urr.text());
        }
        if let Some(translation) = self.translation.as_ref().filter(|one| !one.is_destination) {
            line("NAT", &translation.text());
        }
        for header in &self.headers {
            line("header", header);
        }
        for copy in &self.copies {
            line("copy", copy);
        }
        if let Some(queue) = &self.queue {
            line("queue", &queue.text());
        }
        let _ = writeln!(text, "    -> {}", self.end.text());
        if let Some(disagreement) = &self.disagreement {
            let _ = writeln!(
                text,
                "    !! THE INTERPRETER DISAGREES, which is a mistake of Sluice, please report it:\n    !! {disagreement}"
            );
        } else if let Some(why) = self.unchecked.as_ref().filter(|_| verbose) {
            let _ = writeln!(text, "       unchecked {why}");
        }
        text
    }

    /// The first line: when and by what it came.
    fn arrival(&self, first_ns: u64) -> String {
        let mut text = String::new();
        let micros = self.time_ns.saturating_sub(first_ns) / 1_000;
        let by = match (&self.instance, &self.vlan) {
            (Some(instance), Some(vlan)) => format!("{instance} on {} VLAN {vlan}", self.port),
            (Some(instance), None) => format!("{instance} on {}", self.port),
            (None, Some(vlan)) => format!("{} VLAN {vlan}", self.port),
            (None, None) => self.port.clone(),
        };
        let direction = self.direction.as_deref().unwrap_or("in");
        let _ = write!(
            text,
            "#{:<5} {:>4}.{:06}  {direction} by {by}, {} octets, worker {}",
            self.number,
            micros / 1_000_000,
            micros % 1_000_000,
            self.octets,
            self.worker
        );
        if let Some(from) = &self.from {
            let _ = write!(text, ", {from}");
        }
        text.push('\n');
        text
    }

    /// What is said of the packet in a capture: in a few lines.
    #[must_use]
    pub fn comment(&self) -> String {
        let mut words = vec![format!("#{} {}", self.number, self.end.summary())];
        if let Some(seid) = &self.seid {
            words.push(format!("session {seid}"));
        }
        if let Some(pdr) = self.pdr {
            words.push(format!("PDR {pdr}"));
        }
        words.push(format!("flow {}", self.flow.lookup));
        if let Some(far) = self.far {
            words.push(format!("FAR {far}"));
        }
        if let Some(colour) = &self.colour {
            words.push(format!("meters {colour}"));
        }
        if let Some(disagreement) = &self.disagreement {
            words.push(format!("THE INTERPRETER DISAGREES: {disagreement}"));
        }
        words.join("; ")
    }
}

impl FlowTrace {
    fn text(&self) -> String {
        format!("{}{}", self.entry_text(), self.host_text())
    }

    fn host_text(&self) -> String {
        let shows = if self.shows_host {
            "this packet shows that "
        } else {
            ""
        };
        let of_ndpi = self
            .protocol
            .as_deref()
            .and_then(|name| name.strip_prefix(OF_NDPI));
        if let Some(name) = of_ndpi {
            return match self.host.as_deref().filter(|_| self.resolved) {
                Some(host) => format!("; {shows}it is {name} by nDPI, for {host} by a DNS answer"),
                None => format!("; {shows}it is {name} by nDPI, for no host that is known"),
            };
        }
        match (self.protocol.as_deref(), self.host.as_deref()) {
            (_, Some(host)) if self.resolved => format!("; it is for {host}, by a DNS answer"),
            (None, None) => String::new(),
            (None, Some("undecided")) => "; its host is not known yet".into(),
            (None, Some(_)) => "; no host is known of it".into(),
            (Some("dns"), Some(name)) => format!("; {shows}it asks for {name}"),
            (Some(_), Some(host)) if self.confirmed => {
                format!("; {shows}it is for {host}, confirmed by a DNS answer")
            }
            (Some(_), Some(host)) => format!("; {shows}it is for {host}"),
            (Some(protocol), None) => format!("; {shows}it is {protocol}, for no host that is known"),
        }
    }

    fn entry_text(&self) -> String {
        let entry = self.entry.as_deref();
        match (self.lookup.as_str(), entry) {
            ("hit", entry) => format!(
                "hit{}{}",
                entry.map_or_else(String::new, |key| format!(", entry of {key}")),
                match (self.outdated, self.protocol.as_ref().or(self.host.as_ref())) {
                    (false, _) => "",
                    (true, None) => ", decided under older rules",
                    (true, Some(_)) => ", inspected",
                }
            ),
            ("miss", Some(key)) => format!("miss, entry installed: {key}"),
            ("miss", None) => "miss, no entry installed".into(),
            ("stale", Some(key)) => {
                format!("stale: the rules have changed; decided again, entry installed: {key}")
            }
            ("stale", None) => "stale: the rules have changed; no entry installed".into(),
            _ => "none: such a packet has no flow entry".into(),
        }
    }
}

impl TriedTrace {
    fn text(&self) -> String {
        let Self { pdr, precedence, .. } = self;
        match &self.mismatch {
            Some(why) => format!("PDR {pdr}  precedence {precedence}: no, {why}"),
            None => format!("PDR {pdr}  precedence {precedence}: matches"),
        }
    }
}

impl QerTrace {
    fn text(&self) -> String {
        let mut words = format!(
            "{}  gate {}",
            self.id,
            if self.is_open { "open" } else { "closed" }
        );
        if let Some(mbr) = self.mbr {
            let _ = write!(words, "  MBR {}", rate(mbr));
        }
        if let Some(gbr) = self.gbr {
            let _ = write!(words, "  GBR {}", rate(gbr));
        }
        if let Some(qfi) = self.qfi {
            let _ = write!(words, "  QFI {qfi}");
        }
        words
    }
}

impl UrrTrace {
    fn text(&self) -> String {
        let counted = match (self.counted, self.before_qos) {
            (0, _) => "not counted".into(),
            (octets, true) => format!("+{} octets, before QoS", grouped(octets)),
            (octets, false) => format!("+{} octets", grouped(octets)),
        };
        let event = if self.is_event { ", an event" } else { "" };
        let exhausted = if self.exhausted { "  quota used up" } else { "" };
        format!(
            "{}  {counted}{event}  (uplink {}, downlink {}){exhausted}",
            self.id,
            grouped(self.uplink_octets),
            grouped(self.downlink_octets)
        )
    }
}

impl TraceSummary {
    /// The last line for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{} of {} packets", grouped(self.told), grouped(self.wanted));
        if self.over_rate > 0 {
            let _ = write!(
                text,
                "; {} not reported: beyond the rate or the number asked for",
                grouped(self.over_rate)
            );
        }
        if self.lost > 0 {
            let _ = write!(
                text,
                "; {} lost: they came faster than they were read",
                grouped(self.lost)
            );
        }
        if self.disagreements > 0 {
            let _ = write!(
                text,
                "; THE INTERPRETER DISAGREES ABOUT {}, please report it",
                grouped(self.disagreements)
            );
        }
        text + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_end_is_where_the_packet_meets_it() {
        let lines = |is_destination, unsolicited, uncharged| {
            let packet = PacketTrace {
                action: Some("forward".into()),
                translation: Some(TranslationTrace {
                    public: "198.51.100.1:2600".into(),
                    is_destination,
                    unsolicited,
                    uncharged,
                }),
                ..PacketTrace::default()
            };
            let text = packet.text(0, false);
            let names = text.lines().filter_map(|line| line.split_whitespace().next());
            let nat = text.lines().find(|line| line.contains(" NAT "));
            (
                names.map(str::to_owned).collect::<Vec<_>>(),
                nat.map(|line| line.trim().to_owned()),
            )
        };
        let (names, nat) = lines(true, false, false);
        assert_eq!(names, ["#0", "packet", "NAT", "flow", "FAR", "->"]);
        assert_eq!(nat.as_deref(), Some("NAT       came to 198.51.100.1:2600"));
        let says = |unsolicited, uncharged| lines(true, unsolicited, uncharged).1.unwrap_or_default();
        assert_eq!(
            says(true, false),
            "NAT       came to 198.51.100.1:2600, unsolicited"
        );
        assert_eq!(
            says(true, true),
            "NAT       came to 198.51.100.1:2600, unsolicited, not charged"
        );
        let (names, nat) = lines(false, false, false);
        assert_eq!(names, ["#0", "packet", "flow", "FAR", "NAT", "->"]);
        assert_eq!(nat.as_deref(), Some("NAT       leaves with 198.51.100.1:2600"));
    }
}
