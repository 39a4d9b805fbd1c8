//! What a worker reported of a packet, as text.

use std::net::{IpAddr, SocketAddrV4};
use std::sync::Arc;

use flow::{Direction, KeyFields, PortId};
use packet::eth::ether_type;
use packet::gtpu::MessageType;
use packet::{DropReason, MacAddr};
use rules::model::{AccessAction, Pdr, Qer, SessionRules};
use rules::network::{InstanceId, Network};
use rules::reference_interpreter::{Outcome, Verdict, evaluate_access, evaluate_pdrs};
use rules::{Detection, NameSource};
use worker::{
    LagPorts, QueueEnd, Stays, TraceSource, Traced, TracedDecision, TracedDetection, TracedEnd, TracedFlow,
    TracedFrame, TracedLookup, TracedPlace, TracedQueueing, TracedSession, TracedTranslation,
};

use super::compare_with_interpreter::{Compared, Comparison, compare_with_interpreter, detection_of};
use super::fields::{self, Outer, Parsed};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::values::{
    EndTrace, FlowTrace, FramesTrace, OF_NDPI, PacketTrace, QerTrace, QueueTrace, TranslationTrace,
    TriedTrace, UrrTrace,
};
use config::Config;
use upf::{format, identifiers};

/// Puts packets into words: it knows how things are called.
#[derive(Clone, Debug)]
pub struct Explainer {
    network: Arc<Network>,
    ports: Arc<[String]>,
    lags: Arc<[LagPorts]>,
    /// Nanoseconds since 1970 when the workers' clock was 0.
    clock_ns: Arc<AtomicU64>,
}

impl Explainer {
    /// For the workers of `network` on ports with these names, whose clock was 0 at a given time, in nanoseconds after
    /// 1970.
    #[must_use]
    pub fn new(network: Arc<Network>, ports: Arc<[String]>, clock_ns: u64) -> Self {
        Self {
            network,
            ports,
            lags: [].into(),
            clock_ns: Arc::new(clock_ns.into()),
        }
    }

    /// The same for the workers of `config` and its `network`.
    #[must_use]
    pub fn of(config: &Config, network: Arc<Network>, clock_ns: u64) -> Self {
        let ports = config.ports.iter().map(|port| port.name.value.clone());
        Self {
            lags: config.lag_ports().into(),
            ..Self::new(network, ports.collect(), clock_ns)
        }
    }

    /// The same for workers that continue by another configuration: their clock is the same.
    #[must_use]
    pub fn following(&self, config: &Config, network: Arc<Network>) -> Self {
        Self {
            clock_ns: Arc::clone(&self.clock_ns),
            ..Self::of(config, network, 0)
        }
    }

    /// The same where the workers' clock was 0 at a given time, in nanoseconds after 1970.
    #[must_use]
    pub fn at(self, clock_ns: u64) -> Self {
        let clock_ns = Arc::new(clock_ns.into());
        Self { clock_ns, ..self }
    }

    /// When the workers' clock was 0, in nanoseconds after 1970, as is known now: for copies, too.
    pub fn set_clock(&self, clock_ns: u64) {
        self.clock_ns.store(clock_ns, Ordering::Relaxed);
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// The names of the ports, by number.
    #[must_use]
    pub fn ports(&self) -> &[String] {
        &self.ports
    }

    /// The port with this name; the LAG for its members.
    #[must_use]
    pub fn port(&self, name: &str) -> Option<PortId> {
        let place = self.ports.iter().position(|port| port == name)?;
        let port = PortId(place as u16);
        let lag = self.lags.iter().find(|lag| lag.members.contains(&port));
        Some(lag.map_or(port, |lag| lag.port))
    }

    /// The same as [`explain`](Self::explain), with the packet's octets.
    #[must_use]
    pub fn explain_whole(&self, traced: &Traced, number: u64) -> PacketTrace {
        let mut told = self.explain(traced, number);
        let sent = match &traced.end {
            TracedEnd::Sent { frame, .. } => Some(hexadecimal(&frame.octets)),
            _ => None,
        };
        told.frames = Some(FramesTrace {
            received: hexadecimal(&traced.received.octets),
            sent,
        });
        told
    }

    /// Explains a packet, as number `number` of its trace.
    #[must_use]
    pub fn explain(&self, traced: &Traced, number: u64) -> PacketTrace {
        let Compared { comparison, verdict } = compare_with_interpreter(&self.network, traced);
        let parsed = self.read(&traced.received);
        let rules = traced.session.as_ref().map(|session| &*session.rules);
        let pdr = self.pdr_of(traced, verdict.as_ref());
        let decision = traced.decision.as_ref();
        let direction = decision.map(|decision| decision.direction);
        let (disagreement, unchecked) = match comparison {
            Comparison::Same => (None, None),
            Comparison::Differs(words) => (Some(words), None),
            Comparison::Unchecked(why) => (None, Some(why.to_owned())),
        };
        let mut told = PacketTrace {
            number,
            time_ns: self
                .clock_ns
                .load(Ordering::Relaxed)
                .saturating_add(traced.time.0),
            worker: traced.worker.0,
            port: self.port_name(traced.received.port),
            instance: traced.instance.map(|id| self.instance_name(id)),
            vlan: parsed.vlan.map(fields::vlan),
            from: from_where(traced.source),
            octets: traced.received.len,
            direction: direction.map(|direction| direction_name(direction).to_owned()),
            tunnel: parsed.tunnel.as_ref().map(fields::tunnel),
            packet: packet_in_words(&parsed),
            seid: traced
                .session
                .as_ref()
                .map(|session| identifiers::seid(session.seid)),
            ue: rules.map(ue_addresses).unwrap_or_default(),
            accelerator: traced.place.map(place_in_words),
            translation: traced.translation.map(translation_in_words),
            flow: flow_in_words(&traced.flow, parsed.tunnel.is_some()),
            pdr: pdr.map(|pdr| pdr.id.0),
            disagreement,
            unchecked,
            queue: traced.queueing.as_ref().map(|queueing| self.queue(queueing)),
            end: self.end(traced, verdict.as_ref()),
            ..PacketTrace::default()
        };
        if let Some(session) = &traced.session {
            if let Some((ingress, packet)) = &Self::arrived(traced) {
                let access = (!traced.is_own)
                    .then(|| self.access((*ingress, packet), session, (detection_of(traced), &traced.end)))
                    .flatten();
                if access.as_ref().is_none_or(|(_, is_permitted)| *is_permitted) {
                    told.tried = self.tried((*ingress, packet), session);
                }
                told.access = access.map(|(words, _)| words);
            }
            self.tell_rules(&mut told, traced, session, pdr, verdict.as_ref());
        }
        if let TracedEnd::Sent { frame, .. } = &traced.end {
            told.headers = headers(&parsed, &self.read(frame));
        }
        told.copies = self.copies(verdict.as_ref());
        told
    }

    fn read(&self, frame: &TracedFrame) -> Parsed {
        Parsed::read(&frame.octets, frame.len as usize, Some(&self.network))
    }

    /// The PDR that the worker took; without a decision of its own, the one that the interpreter takes.
    fn pdr_of<'t>(&self, traced: &'t Traced, verdict: Option<&Verdict>) -> Option<&'t Pdr> {
        let rules = &traced.session.as_ref()?.rules;
        let decided = traced.decision.as_ref().map(|decision| decision.pdr);
        rules.pdr(decided.or(verdict?.pdr)?)
    }

    /// The instance that a packet came in by, and the packet from its outermost IP header on, with zeros in place of
    /// what the trace did not keep; `None` where that is a header. One that came to a public address is for the UE's
    /// own, as rules see it.
    fn arrived(traced: &Traced) -> Option<(InstanceId, Vec<u8>)> {
        let ingress = traced.instance?;
        let received = &traced.received;
        let kept = Parsed::read(&received.octets, received.octets.len(), None);
        let is_whole = received.octets.len() == received.len as usize;
        if !is_whole && kept.is_truncated() {
            return None;
        }
        let start = kept.l2_len;
        let mut packet = received.octets.get(start..).unwrap_or_default().to_vec();
        packet.resize((received.len as usize).saturating_sub(start), 0);
        let translation = traced.translation.filter(|one| one.is_destination);
        if let Some(translation) = translation {
            make_inside(&mut packet, translation.inside);
        }
        Some((ingress, packet))
    }

    fn tried(&self, (ingress, packet): (InstanceId, &[u8]), session: &TracedSession) -> Vec<TriedTrace> {
        let evaluated = evaluate_pdrs(&session.rules, &self.network, ingress, packet).unwrap_or_default();
        let evaluated = evaluated.into_iter().map(|one| TriedTrace {
            pdr: one.pdr.0,
            precedence: one.precedence.0,
            mismatch: one.mismatch.map(|why| why.to_string()),
        });
        evaluated.collect()
    }

    /// What the access list says, and whether PDRs are tried then.
    fn access(
        &self,
        (ingress, packet): (InstanceId, &[u8]),
        session: &TracedSession,
        (detection, end): (Detection<'_>, &TracedEnd),
    ) -> Option<(String, bool)> {
        let access = evaluate_access(&session.rules, &self.network, ingress, packet, detection)?;
        let (list, rule) = (access.list, access.rule);
        let is_denied = matches!(end, TracedEnd::Dropped(DropReason::AccessList));
        if access.is_provisional {
            let words = format!(
                "permitted by list {} until it is known what its flow is",
                list.name()
            );
            return Some((words, true));
        }
        let (action, is_permitted) = match rule.action {
            AccessAction::Permit => ("permitted", true),
            AccessAction::Deny => ("denied", false),
            AccessAction::Reject => ("rejected", false),
            AccessAction::Reset => ("reset", false),
            AccessAction::Redirect(_) => ("redirected", false),
            AccessAction::Sinkhole(_) => ("led into a sinkhole", false),
            AccessAction::Solicited if is_denied => ("denied, as the UE has no such connection,", false),
            AccessAction::Solicited => ("permitted", true),
        };
        let words = format!("{action} by rule {} of list {}", rule.name, list.name());
        Some((words, is_permitted))
    }

    /// QERs, FAR and URRs.
    fn tell_rules(
        &self,
        told: &mut PacketTrace,
        traced: &Traced,
        session: &TracedSession,
        pdr: Option<&Pdr>,
        verdict: Option<&Verdict>,
    ) {
        let rules = &session.rules;
        let Some(decision) = &traced.decision else { return };
        let qers = decision.qers.iter().filter_map(|id| rules.qer(*id));
        told.qers = qers
            .clone()
            .map(|qer| qer_in_words(qer, decision.direction))
            .collect();
        if qers
            .clone()
            .any(|qer| qer.mbr.is_some() || qer.optional.packet_rates.is_some())
        {
            told.colour = Some(colour(traced).to_owned());
        }
        let far = pdr.and_then(|pdr| pdr.far);
        told.far = far.map(|id| id.0);
        told.action = match far.and_then(|id| rules.far(id)) {
            Some(far) => Some(format::action(&self.network, rules, far)),
            None if pdr.is_some_and(|pdr| !pdr.rulebases.is_empty()) => {
                Some("as the predefined rule says".into())
            }
            None => Some("none: drop".into()),
        };
        told.urrs = urrs(traced, session, decision, verdict);
    }

    fn copies(&self, verdict: Option<&Verdict>) -> Vec<String> {
        let Some(verdict) = verdict else { return Vec::new() };
        let mirror = match &verdict.outcome {
            Outcome::Forwarded { mirror, .. } | Outcome::Recirculated { mirror, .. } => *mirror,
            Outcome::Consumed | Outcome::Dropped(_) => None,
        };
        let mirror = mirror.map(|port| format!("as it leaves, to port {} (mirror)", self.port_name(port)));
        let duplicate = verdict.duplicate.as_ref().map(|duplicate| {
            format!(
                "by {} to {} (DUPL), {} octets of IP",
                self.instance_name(duplicate.egress),
                duplicate.next_hop,
                duplicate.bytes.len()
            )
        });
        mirror.into_iter().chain(duplicate).collect()
    }

    fn queue(&self, queueing: &TracedQueueing) -> QueueTrace {
        let classes = self.network.egress().map(|egress| egress.classes.all());
        let class = classes
            .zip(queueing.class)
            .and_then(|(all, place)| all.get(usize::from(place)));
        QueueTrace {
            class: class.map(|class| class.name.clone()),
            priority: class.map(|class| class.priority),
            before_octets: queueing.before.into(),
            waited_ns: queueing.waited.as_nanos().try_into().unwrap_or(u64::MAX),
            marked: matches!(queueing.end, QueueEnd::Left { is_marked: true }),
        }
    }

    fn end(&self, traced: &Traced, verdict: Option<&Verdict>) -> EndTrace {
        match traced.queueing.map(|queueing| queueing.end) {
            Some(QueueEnd::Lost(reason)) => return dropped(reason),
            Some(QueueEnd::Waits) => {
                return EndTrace::Waits {
                    for_what: "its turn in its queue".into(),
                };
            }
            Some(QueueEnd::Moved) => {
                return EndTrace::Waits {
                    for_what: "its turn at another worker, which its session has moved to".into(),
                };
            }
            Some(QueueEnd::Left { .. }) | None => {}
        }
        match &traced.end {
            TracedEnd::Sent {
                recirculates: true, ..
            } => EndTrace::Again {
                instance: match verdict.map(|verdict| &verdict.outcome) {
                    Some(Outcome::Recirculated { ingress, .. }) => Some(self.instance_name(*ingress)),
                    _ => None,
                },
            },
            TracedEnd::Sent {
                frame,
                port_was_full,
                in_fragments,
                ..
            } => {
                let parsed = self.read(frame);
                EndTrace::Sent {
                    port: self.port_name(frame.port),
                    instance: fields::instance_at(&self.network, frame.port, parsed.vlan)
                        .map(|instance| instance.name.clone()),
                    next_hop: match verdict.map(|verdict| &verdict.outcome) {
                        Some(Outcome::Forwarded { next_hop, .. }) => Some(next_hop.to_string()),
                        _ => None,
                    },
                    mac: frame
                        .octets
                        .first_chunk::<6>()
                        .map_or_else(String::new, |mac| MacAddr(*mac).to_string()),
                    octets: frame.len,
                    port_was_full: *port_was_full,
                    in_fragments: *in_fragments,
                }
            }
            TracedEnd::Dropped(reason) => dropped(*reason),
            TracedEnd::HandedOver(worker) => EndTrace::HandedOver { worker: worker.0 },
            TracedEnd::Consumed => EndTrace::Consumed,
            TracedEnd::ToHost => EndTrace::ToHost,
            TracedEnd::Reassembling => EndTrace::Waits {
                for_what: "the other fragments of its GTP-U packet".into(),
            },
            TracedEnd::Held => EndTrace::Waits {
                for_what: "the first fragment of its datagram".into(),
            },
            TracedEnd::AwaitsSession => EndTrace::Waits {
                for_what: "its session, which is still restored".into(),
            },
            TracedEnd::AwaitsMove => EndTrace::Waits {
                for_what: "its session, which is on its way between here and the accelerator".into(),
            },
            TracedEnd::GoesBack { port_was_full, .. } => EndTrace::GoesBack {
                port_was_full: *port_was_full,
            },
            TracedEnd::Buffered => EndTrace::Waits {
                for_what: match verdict.map(|verdict| &verdict.outcome) {
                    Some(Outcome::Forwarded { .. }) => "its next hop to answer".into(),
                    _ => "its FAR, which buffers".into(),
                },
            },
        }
    }

    fn port_name(&self, port: PortId) -> String {
        let known = self.ports.get(port.index());
        known.cloned().unwrap_or_else(|| format!("#{port}"))
    }

    fn instance_name(&self, id: InstanceId) -> String {
        let known = self.network.instance(id);
        known.map_or_else(|| format!("#{id}"), |one| one.name.clone())
    }
}

fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn dropped(reason: DropReason) -> EndTrace {
    EndTrace::Dropped {
        reason: reason.label().into(),
        clause: reason.clause().into(),
        explanation: reason.explain().into(),
    }
}

/// Where the session of a packet is, of a worker with an accelerator.
fn place_in_words(place: TracedPlace) -> String {
    let stays = |why: Stays| match why {
        Stays::Action => "a FAR of it buffers, redirects, duplicates, mirrors or reports",
        Stays::Inspection => "its packets are looked into, or pass an access list",
        Stays::Nat => "it has addresses of a NAT pool",
        Stays::Accounting => "it counts contents or events, shares credit, or is watched for inactivity",
        Stays::SharedRate => "it shares a rate with others, of which the accelerator has no lease",
        Stays::Moving => "it moves from one worker to another",
        Stays::Port => "its packets leave by a port that is not the accelerator's",
        Stays::Capability => "the accelerator cannot do what it needs, or has no room",
        Stays::Refused => "a packet needed this node, or the accelerator refused it, not long ago",
        Stays::Waiting => "packets of it wait here",
        Stays::Queues => "its packets wait in queues, and the accelerator has none, or not such",
        Stays::SharedShaper => "its queues are below a port, an instance or a policer with a rate",
        Stays::PartialMode => "the accelerator is in partial mode",
    };
    match place {
        TracedPlace::Home(None) => "the session is here: by the policy, or there is no contact".into(),
        TracedPlace::Home(Some(why)) => format!("the session stays here ({}): {}", why.label(), stays(why)),
        TracedPlace::Leaving => "the session is here, and leaves for the accelerator".into(),
        TracedPlace::Away => "the session is away: packets of its known flows are not seen here".into(),
        TracedPlace::Returning => "the session comes home".into(),
    }
}

fn from_where(source: TraceSource) -> Option<String> {
    match source {
        TraceSource::Port => None,
        TraceSource::Inbox => Some("from another worker".into()),
        TraceSource::Held => Some("after its first fragment came".into()),
        TraceSource::Reassembled => Some("put together from fragments".into()),
        TraceSource::Waited => Some("after it waited".into()),
        TraceSource::Recirculated(lap) => Some(format!("from ourselves, lap {lap}")),
    }
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Uplink => "uplink",
        Direction::Downlink => "downlink",
    }
}

fn packet_in_words(parsed: &Parsed) -> String {
    let fault = |reason: DropReason| format!("unreadable: {}", reason.explain());
    match (&parsed.user, parsed.fault, parsed.tunnel.as_ref()) {
        (Some(tuple), None, _) => fields::user(tuple),
        (_, Some(reason), _) => fault(reason),
        (None, None, Some(outer)) => match outer.message_type.name() {
            Some(name) => format!("no user packet: {name}"),
            None => format!("no user packet: GTP-U message {}", outer.message_type.0),
        },
        (None, None, None) => match parsed.ether_type {
            ether_type::ARP => "ARP".into(),
            other => format!("EtherType {other:#06x}"),
        },
    }
}

fn ue_addresses(rules: &SessionRules) -> Vec<String> {
    let own = rules.ue_prefixes().into_iter();
    own.map(|prefix| match prefix == rules::IpPrefix::host(prefix.address()) {
        true => prefix.address().to_string(),
        false => prefix.to_string(),
    })
    .collect()
}

/// Makes an IPv4 packet one for this address, and port if there is one. Checksums stay as they were.
fn make_inside(packet: &mut [u8], inside: SocketAddrV4) {
    let header = packet.first().map_or(0, |first| usize::from(first & 0xf) * 4);
    if let Some(address) = packet.get_mut(16..20) {
        address.copy_from_slice(&inside.ip().octets());
    }
    let port = packet.get_mut(header + 2..header + 4);
    if let Some(port) = port.filter(|_| inside.port() != 0) {
        port.copy_from_slice(&inside.port().to_be_bytes());
    }
}

fn translation_in_words(translation: TracedTranslation) -> TranslationTrace {
    let public = translation.public;
    TranslationTrace {
        public: match public.port() {
            0 => public.ip().to_string(),
            _ => public.to_string(),
        },
        is_destination: translation.is_destination,
        unsolicited: translation.unsolicited.is_some(),
        uncharged: translation.unsolicited.is_some_and(|it| !it.is_charged),
    }
}

fn flow_in_words(flow: &TracedFlow, is_tunnelled: bool) -> FlowTrace {
    let (lookup, outdated) = match flow.lookup {
        TracedLookup::None => ("none", false),
        TracedLookup::Hit { outdated } => ("hit", outdated),
        TracedLookup::Miss => ("miss", false),
        TracedLookup::Stale => ("stale", false),
    };
    let source = flow.detection.as_deref().and_then(source);
    FlowTrace {
        lookup: lookup.into(),
        entry: flow.entry.map(|(fields, _)| key_in_words(fields, is_tunnelled)),
        installed: flow.entry.is_some() && lookup != "hit",
        outdated,
        protocol: flow.detection.as_deref().and_then(protocol_in_words),
        host: flow.detection.as_deref().and_then(host_in_words),
        shows_host: flow.shows_detection,
        resolved: source == Some(NameSource::Resolver),
        confirmed: source == Some(NameSource::Confirmed),
    }
}

fn protocol_in_words(detection: &TracedDetection) -> Option<String> {
    match detection {
        TracedDetection::Found {
            by_ndpi: Some(name), ..
        } => Some(format!("{OF_NDPI}{name}")),
        TracedDetection::Found { protocol, .. } => Some(protocol.as_ref()?.to_string()),
        TracedDetection::Unseen
        | TracedDetection::Undecided
        | TracedDetection::Undetected
        | TracedDetection::Presumed(_) => None,
    }
}

/// Who says what it is for.
fn source(detection: &TracedDetection) -> Option<NameSource> {
    match detection {
        TracedDetection::Presumed(_) => Some(NameSource::Resolver),
        TracedDetection::Found { source, .. } => Some(*source),
        TracedDetection::Unseen | TracedDetection::Undecided | TracedDetection::Undetected => None,
    }
}

fn host_in_words(detection: &TracedDetection) -> Option<String> {
    match detection {
        TracedDetection::Unseen | TracedDetection::Undecided => Some("undecided".into()),
        TracedDetection::Undetected => Some("undetected".into()),
        TracedDetection::Presumed(host) => Some(host.as_str().into()),
        TracedDetection::Found { name, path, .. } => {
            let path = path.as_deref().unwrap_or_default();
            Some(format!("{}{}", name.as_ref()?.as_str(), path.escape_ascii()))
        }
    }
}

/// The fields of a flow entry's key.
fn key_in_words(fields: KeyFields, is_tunnelled: bool) -> String {
    let names = [
        (KeyFields::ADDRESS, "UE address"),
        (KeyFields::TUPLE, "5-tuple"),
        (KeyFields::QFI, "QFI"),
        (KeyFields::TOS, "TOS"),
        (KeyFields::FLOW_LABEL, "flow label"),
    ];
    let scope = if is_tunnelled { "TEID" } else { "VRF" };
    let named = names.into_iter().filter(|(field, _)| fields.contains(*field));
    let words = std::iter::once(scope).chain(named.map(|(_, name)| name));
    words.collect::<Vec<_>>().join(" + ")
}

fn colour(traced: &Traced) -> &'static str {
    match traced.end {
        TracedEnd::Dropped(DropReason::MeterRed) => "red",
        _ if traced.is_yellow => "yellow",
        TracedEnd::Sent { .. } | TracedEnd::Buffered => "green",
        _ => "not asked",
    }
}

fn qer_in_words(qer: &Qer, direction: Direction) -> QerTrace {
    let of = |rates: rules::model::BitRates| match direction {
        Direction::Uplink => rates.ul.0,
        Direction::Downlink => rates.dl.0,
    };
    let gate = match direction {
        Direction::Uplink => qer.gate_ul,
        Direction::Downlink => qer.gate_dl,
    };
    QerTrace {
        id: qer.id.0,
        is_open: !gate.is_closed(),
        mbr: qer.mbr.map(of),
        gbr: qer.optional.gbr.map(of),
        qfi: qer.qfi.map(|qfi| qfi.get()),
    }
}

fn urrs(
    traced: &Traced,
    session: &TracedSession,
    decision: &TracedDecision,
    verdict: Option<&Verdict>,
) -> Vec<UrrTrace> {
    let is_counted = matches!(traced.end, TracedEnd::Sent { .. });
    let counted = decision.urrs.iter().map(|id| {
        let after = verdict.and_then(|verdict| verdict.counted.iter().find(|one| one.urr == *id));
        let before = verdict.and_then(|verdict| verdict.counted_before_qos.iter().find(|one| one.urr == *id));
        let octets = before
            .or(after.filter(|_| is_counted))
            .map_or(0, |one| one.octets);
        let total = session.counters.iter().find(|(urr, _)| urr == id);
        let total = total.map(|(_, count)| *count).unwrap_or_default();
        UrrTrace {
            id: id.0,
            counted: octets,
            before_qos: before.is_some(),
            is_event: is_counted && verdict.is_some_and(|verdict| verdict.events.contains(id)),
            exhausted: session.exhausted.contains(id),
            uplink_octets: total.ul_octets,
            downlink_octets: total.dl_octets,
        }
    });
    counted.collect()
}

/// What was done to the headers, from how they were and how they are.
fn headers(was: &Parsed, is: &Parsed) -> Vec<String> {
    let mut words = Vec::new();
    match (&was.tunnel, &is.tunnel) {
        (Some(old), None) => words.push(format!("GTP-U off: TEID {}", old.teid)),
        (None, Some(new)) => words.push(format!("GTP-U on: {}", put_on(new))),
        (Some(old), Some(new)) => {
            words.push(format!("GTP-U off: TEID {}", old.teid));
            words.push(format!("GTP-U on: {}", put_on(new)));
        }
        (None, None) => {}
    }
    let (Some(old), Some(new)) = (&was.user, &is.user) else {
        return words;
    };
    let mut changed = |name: &str, old: String, new: String| {
        if old != new {
            words.push(format!("{name}: {old} -> {new}"));
        }
    };
    changed("TTL", old.ttl.to_string(), new.ttl.to_string());
    changed("DSCP", (old.tos >> 2).to_string(), (new.tos >> 2).to_string());
    changed("ECN", (old.tos & 3).to_string(), (new.tos & 3).to_string());
    let end = |address: IpAddr, port: u16| format!("{address} port {port}");
    changed(
        "source",
        end(old.addrs.src(), old.src_port),
        end(new.addrs.src(), new.src_port),
    );
    changed(
        "destination",
        end(old.addrs.dst(), old.dst_port),
        end(new.addrs.dst(), new.dst_port),
    );
    words
}

fn put_on(outer: &Outer) -> String {
    let message = match outer.message_type {
        MessageType::G_PDU => String::new(),
        other => format!("{}, ", other.name().unwrap_or("message")),
    };
    let mut words = format!(
        "{message}TEID {} at {}, from {}",
        outer.teid, outer.destination, outer.source
    );
    if let Some(qfi) = outer.qfi {
        words += &format!(", QFI {qfi}");
    }
    if outer.rqi {
        words += ", RQI";
    }
    words + &format!(", DSCP {}", outer.tos >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_to_a_public_address_is_shown_to_rules_as_one_to_the_ue() {
        let end = |address: [u8; 4], port| SocketAddrV4::new(address.into(), port);
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        make_inside(&mut packet, end([10, 45, 0, 2], 1_000));
        assert_eq!(
            (&packet[16..20], &packet[22..24]),
            (&[10, 45, 0, 2][..], &[3, 232][..])
        );
        // Of ICMP the address alone; a packet without a header stays as it is.
        make_inside(&mut packet, end([10, 45, 0, 3], 0));
        assert_eq!((packet[19], packet[23]), (3, 232));
        make_inside(&mut [], end([10, 45, 0, 3], 1));
        let translation = |port| {
            translation_in_words(TracedTranslation {
                public: end([198, 51, 100, 1], port),
                inside: end([10, 45, 0, 2], 1),
                is_destination: true,
                unsolicited: None,
            })
        };
        assert_eq!(translation(2_600).public, "198.51.100.1:2600");
        assert_eq!(translation(0).public, "198.51.100.1");
    }
}
