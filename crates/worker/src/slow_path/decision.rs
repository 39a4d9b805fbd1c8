//! The decision about one packet: what its session's rules say of it, and for which other packets that is right.

use flow::{ContentId, Direction, FlowFlags, ForwardKind, KeyFields, Nanos, Verdict};
use packet::tuple::proto;
use packet::{DropReason, Fragment, IpTuple, tcp};
use rules::classifier::{Detection, Match, PacketView, Side};
use rules::image::Decision;
use rules::model::{AccessDecision, AccessRuleId};

use crate::burst::descriptor::{Descriptor, Kind, PacketFlags};
use crate::sessions::{Sessions, Slot};
use crate::slow_path::connections::{Connections, Owner, Segment};
use crate::slow_path::denial::denied;
use crate::slow_path::inspection::{
    EntryPlace, Inspected, InspectedPacket, Inspection, KnownFlow, may_be_one_of_several,
};
use crate::stats::Stats;

/// What was decided about a packet.
pub(super) struct Answer {
    pub verdict: Verdict,
    /// The fields of the widest key that it is right for, and whether ports were read for it; `None` when it is right
    /// for this packet alone.
    pub key: Option<(KeyFields, bool)>,
    pub protocol: u8,
    /// What the packet is billed as.
    pub content: ContentId,
    /// The rule of the session's access list that has decided about it.
    pub access: Option<AccessRuleId>,
    /// The packet belongs to a connection, and its access list asks for that: the decision holds for a period.
    pub has_connection: bool,
}

/// What is known of a packet's flow, where that matters. It is beside the decision: few packets have any of it, and
/// what is decided about all is moved often.
#[derive(Default)]
pub(super) struct OfFlow {
    pub inspected: Option<Inspected>,
    /// What was decided about the other direction, because of this packet.
    pub other: Option<OtherDirection>,
}

/// What was decided about the other direction of a packet's flow.
pub(super) struct OtherDirection {
    /// Its entry.
    pub entry: EntryPlace,
    /// The fields of its packets.
    pub tuple: IpTuple,
    pub verdict: Verdict,
    pub content: ContentId,
    pub access: Option<AccessRuleId>,
}

/// What comes of a packet.
pub(super) enum Outcome {
    /// A decision.
    Decided(Answer),
    /// What was decided about those before that have its entry is right for it, too.
    AsBefore,
}

/// What the decision about a packet needs to look at what it carries.
pub(super) struct Look<'a> {
    pub inspection: &'a mut Inspection,
    pub connections: &'a mut Connections,
    pub stats: &'a mut Stats,
    pub now: Nanos,
    /// Takes what is found of its flow.
    pub of_flow: &'a mut OfFlow,
    /// It is a message of this node.
    pub is_own: bool,
    /// It was here before: a UE may have sent it, or another node.
    pub is_recirculated: bool,
    /// It has found a provisional entry, which is not outdated.
    pub is_looked_into: bool,
    /// Every entry has the 5-tuple in its key.
    pub force_five_tuple: bool,
}

/// The shape of an entry whose key has these fields.
pub(super) fn shape(fields: KeyFields, force_five_tuple: bool) -> KeyFields {
    match force_five_tuple {
        true => Inspection::without_wide_key(fields),
        false => fields,
    }
}

/// A session, and all that it is among.
#[derive(Clone, Copy)]
pub(super) struct Home<'a> {
    pub slot: &'a Slot,
    pub sessions: &'a Sessions,
}

/// The decision about one packet of the session in `home`. `known` is what its key says.
#[inline]
pub(super) fn decide(
    home: Home<'_>,
    descriptor: &Descriptor,
    known: Option<IpTuple>,
    bytes: &[u8],
    look: &mut Look<'_>,
) -> Result<Outcome, DropReason> {
    let slot = home.slot;
    let is_unreadable = descriptor
        .defect
        .is_some_and(|defect| defect != DropReason::MartianDestination);
    if descriptor.kind == Kind::Relayed || is_unreadable {
        return decide_without_packet(home, descriptor).map(Outcome::Decided);
    }
    let tuple = match known {
        Some(tuple) => tuple,
        None => descriptor.tuple(bytes)?,
    };
    let view = PacketView {
        side: descriptor.side,
        tuple: &tuple,
    };
    let found = match classify(home, &view, (descriptor, bytes), look) {
        Classification::Found(found) => found.ok_or(DropReason::NoMatchingPdr)?,
        Classification::AsBefore => return Ok(Outcome::AsBefore),
    };
    let decision = &found.decision;
    if !slot
        .classifier
        .allows_source(decision.source_check, tuple.addrs.src())
    {
        return Err(DropReason::SpoofedSource);
    }
    let may_leave = || !decision.is_denied() && is_routed(home, decision, descriptor.side);
    if tuple.addrs.has_unforwardable_destination() && may_leave() {
        return Err(DropReason::MartianDestination);
    }
    let connection = match found.access.and_then(|access| access.connections) {
        None => Connection::NotAsked,
        Some(_) if decision.is_denied() => Connection::None,
        Some(_) => note_connection(slot, (descriptor, bytes), &tuple, found.access, look)?,
    };
    // Others of the flow may be looked at, and go another way.
    let is_apart = |inspected: &Inspected| inspected.is_unread && inspected.is_undecided;
    let is_alone = look.of_flow.inspected.as_ref().is_some_and(is_apart);
    let has_key = descriptor.defect.is_none() && !look.is_own && !is_alone && connection.may_have_entry();
    let fields = fields(slot, &found, look);
    let key = has_key.then_some((fields, found.reads_ports));
    let mut verdict = verdict(home, decision);
    if decision.is_denied() {
        verdict = denied(verdict, &found);
    }
    Ok(Outcome::Decided(Answer {
        verdict,
        key,
        protocol: tuple.proto,
        content: decision.content,
        access: found.access.map(|access| access.rule),
        has_connection: connection == Connection::Part,
    }))
}

/// The fields of the key that an answer is right for.
fn fields(slot: &Slot, found: &Match, look: &Look<'_>) -> KeyFields {
    match may_concern_resolvers(slot, look) {
        true => Inspection::without_wide_key(found.key),
        false => found.key,
    }
}

/// What a packet is to the connections that its access list asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Connection {
    /// It does not.
    NotAsked,
    /// A part of one, of which others may go by the same decision.
    Part,
    /// The first one, after which the state is another; or one of many kinds that have one key.
    Single,
    /// It belongs to none.
    None,
}

impl Connection {
    fn may_have_entry(self) -> bool {
        matches!(self, Self::NotAsked | Self::Part)
    }
}

/// Whose connections those of a session are, if its access list asks for them, and data networks can reach it.
pub(super) fn owner(slot: &Slot) -> Option<Owner> {
    if slot.image.ue_addresses.is_empty() {
        return None;
    }
    Some(Owner {
        session: slot.image.session,
        seid: slot.image.seid,
        policy: slot.classifier.connections()?,
    })
}

/// A packet passes that its access list asks about: what the UE sends begins a connection, or keeps it.
#[cold]
fn note_connection(
    slot: &Slot,
    (descriptor, bytes): (&Descriptor, &[u8]),
    tuple: &IpTuple,
    access: Option<AccessDecision>,
    look: &mut Look<'_>,
) -> Result<Connection, DropReason> {
    if tuple.fragment == Fragment::Later {
        // It waits for the first.
        return Ok(Connection::Part);
    }
    let is_icmp = matches!(tuple.proto, proto::ICMP | proto::ICMPV6);
    let mut is_within = true;
    let is_uplink = access.is_some_and(|access| access.direction == Direction::Uplink);
    if let Some(owner) = owner(slot).filter(|_| is_uplink) {
        let packet = (
            &with_layout(tuple, descriptor, bytes),
            user_packet(descriptor, bytes),
        );
        let segment = segment(packet, descriptor);
        if look.connections.send(owner, packet, segment, look.now).is_err() {
            look.stats.connections_refused += 1;
            return Err(DropReason::ConnectionLimit);
        }
        if segment == Segment::Finishes {
            // It has no entry by which that is found later.
            look.connections.close(owner, tuple, true, look.now);
        }
        is_within = segment == Segment::Within;
    }
    Ok(match is_icmp || !is_within {
        true => Connection::Single,
        false => Connection::Part,
    })
}

/// Whether a packet to the UE belongs to a connection, if its access list asks for one. Only what comes from a data
/// network is asked about: in a tunnel it comes from a node of the operator's.
#[inline]
fn is_unsolicited(
    slot: &Slot,
    found: &Match,
    view: &PacketView<'_>,
    packet: (&Descriptor, &[u8]),
    look: &mut Look<'_>,
) -> bool {
    let asks =
        |access: AccessDecision| access.connections.is_some() && access.direction == Direction::Downlink;
    found.access.is_some_and(asks)
        && matches!(view.side, Side::Plain { .. })
        && view.tuple.fragment != Fragment::Later
        && !belongs(slot, view.tuple, packet, look)
}

#[cold]
fn belongs(
    slot: &Slot,
    tuple: &IpTuple,
    (descriptor, bytes): (&Descriptor, &[u8]),
    look: &mut Look<'_>,
) -> bool {
    owner(slot).is_some_and(|owner| {
        let packet = (
            &with_layout(tuple, descriptor, bytes),
            user_packet(descriptor, bytes),
        );
        let segment = segment(packet, descriptor);
        look.connections.admits(owner, packet, segment, look.now)
    })
}

/// What a packet that starts with its IP header does to a connection of TCP.
fn segment((tuple, user): (&IpTuple, &[u8]), descriptor: &Descriptor) -> Segment {
    if !descriptor.flags.any(PacketFlags::TRANSITORY) {
        return Segment::Within;
    }
    let octet = user.get(usize::from(tuple.l4_offset) + tcp::FLAGS_AT);
    let has = |flag| octet.is_some_and(|octet| octet & flag != 0);
    match descriptor.flags.any(PacketFlags::OPENING) {
        true if has(tcp::flags::ACK) => Segment::Accepts,
        true => Segment::Opens,
        false if has(tcp::flags::RST) => Segment::Resets,
        false => Segment::Finishes,
    }
}

/// The user packet, from its IP header on.
fn user_packet<'a>(descriptor: &Descriptor, bytes: &'a [u8]) -> &'a [u8] {
    bytes.get(usize::from(descriptor.offset)..).unwrap_or_default()
}

/// The tuple of a packet that is read further. That of a key does not say where its message begins.
fn with_layout(tuple: &IpTuple, descriptor: &Descriptor, bytes: &[u8]) -> IpTuple {
    let is_transitory = descriptor.flags.any(PacketFlags::TRANSITORY);
    let is_read = is_transitory || matches!(tuple.proto, proto::ICMP | proto::ICMPV6);
    let layout = is_read.then(|| descriptor.tuple(bytes).ok()).flatten();
    layout.unwrap_or(*tuple)
}

/// What comes of classifying a packet.
enum Classification {
    /// What detects it.
    Found(Option<Match>),
    /// What was decided about those before that have its entry is right for it, too.
    AsBefore,
}

/// Classifies a packet. Where it matters what its flow is, this is looked for first.
#[inline]
fn classify(
    home: Home<'_>,
    view: &PacketView<'_>,
    packet: (&Descriptor, &[u8]),
    look: &mut Look<'_>,
) -> Classification {
    let slot = home.slot;
    if look.is_own {
        return Classification::Found(slot.classifier.classify_own(view));
    }
    if look.is_looked_into {
        return classify_by_flow(home, view, None, packet, look);
    }
    let found = slot.classifier.classify(view);
    if let Some(found) = found
        .as_ref()
        .filter(|found| is_unsolicited(slot, found, view, packet, look))
    {
        return Classification::Found(Some(found.unsolicited()));
    }
    let found = found.filter(Match::is_decided);
    let matters = match &found {
        Some(found) => found.reads_detection || is_with_resolver(slot, view, look),
        None => is_tcp_or_udp(view.tuple) && slot.classifier.may_read_detection(),
    };
    match matters {
        true => classify_by_flow(home, view, Some(found), packet, look),
        false => Classification::Found(found),
    }
}

/// Classifies a packet by what its flow is. `undecided` is what detects it as long as nothing is known of that, if this
/// was looked for.
#[cold]
fn classify_by_flow(
    home: Home<'_>,
    view: &PacketView<'_>,
    undecided: Option<Option<Match>>,
    packet: (&Descriptor, &[u8]),
    look: &mut Look<'_>,
) -> Classification {
    let slot = home.slot;
    let is_with_resolver = is_with_resolver(slot, view, look);
    // A fragment behind the first waits for that, or belongs to no flow.
    let layout = packet.0.tuple(packet.1).ok();
    let shown = layout
        .as_ref()
        .filter(|_| view.tuple.fragment != Fragment::Later)
        .and_then(|layout| {
            let flow = (is_uplink(view, undecided, packet.0), is_with_resolver);
            Some(InspectedPacket {
                entry: look
                    .is_looked_into
                    .then(|| EntryPlace::of(packet.0, Some(view.tuple))),
                ..shown(slot, (view, layout), flow, packet, look)?
            })
        });
    let inspected = shown
        .as_ref()
        .and_then(|shown| look.inspection.look(shown, look.stats));
    look.of_flow.inspected = inspected;
    if inspected.is_some_and(|inspected| inspected.is_as_before) {
        return Classification::AsBefore;
    }
    // What is known of this packet alone says nothing of what comes the other way.
    let is_of_both = inspected.filter(|inspected| !inspected.is_unread && !inspected.is_of_dns());
    let outdated = is_of_both.and_then(|inspected| inspected.outdated(view.tuple));
    if let Some((entry, tuple)) = &outdated {
        // Whose it is now is looked up when both are decided.
        home.sessions.prefetch_find(entry.side, Some(tuple.addrs.dst()));
    }
    let mut name = None;
    let both = shown.as_ref().zip(inspected.as_ref());
    let known = both.map_or(KnownFlow::Undetected, |(shown, inspected)| {
        look.inspection.known(shown, inspected, &mut name)
    });
    let is_unread = inspected.is_some_and(|inspected| inspected.is_unread);
    let detection = match known.as_detection() {
        // What is not looked at does not pass because of what may be seen later.
        Detection::Undecided | Detection::Presumed(_) if is_unread => Detection::Undetected,
        detection => detection,
    };
    let is_final = |found: &Match| !found.access.is_some_and(|access| access.is_provisional);
    let found = match (detection, undecided) {
        (Detection::Undecided, Some(found)) => found,
        // What was found of a flow of which nothing is known yet is found of all of which nothing will be. What no PDR
        // detects may have passed its access list because of what it might turn out to be.
        (Detection::Undetected, Some(found)) if found.as_ref().is_some_and(is_final) => found,
        _ => reclassify(slot, (view, detection), packet, look),
    };
    look.of_flow.other = outdated.and_then(|(entry, tuple)| {
        let found = classify_other(slot, (entry, &tuple), detection, look)?;
        Some(OtherDirection {
            entry,
            tuple,
            verdict: verdict(home, &found.decision),
            content: found.decision.content,
            access: found.access.map(|access| access.rule),
        })
    });
    let passes = || found.is_some_and(|found| !found.decision.is_denied());
    if is_with_resolver
        && let Some((shown, inspected)) = both
        && passes()
    {
        heed(view, (shown, inspected), look);
    }
    Classification::Found(found)
}

/// Classifies what comes the other way in a flow of which this is known now, if it goes by the entry that it has.
fn classify_other(
    slot: &Slot,
    (entry, tuple): (EntryPlace, &IpTuple),
    detection: Detection<'_>,
    look: &Look<'_>,
) -> Option<Match> {
    let is_final = matches!(detection, Detection::Found(_) | Detection::Undetected);
    if !is_final || may_be_one_of_several(entry.shape) || tuple.addrs.has_unforwardable_destination() {
        return None;
    }
    let side = entry.side;
    let found = slot
        .classifier
        .classify_with(&PacketView { side, tuple }, detection)?;
    let decision = &found.decision;
    let is_its_own = !decision.is_denied()
        && found.access.is_none_or(|access| access.connections.is_none())
        && slot
            .classifier
            .allows_source(decision.source_check, tuple.addrs.src());
    (is_its_own && shape(fields(slot, &found, look), look.force_five_tuple) == entry.shape).then_some(found)
}

/// Classifies a packet of a flow of which this is known.
fn reclassify(
    slot: &Slot,
    (view, detection): (&PacketView<'_>, Detection<'_>),
    packet: (&Descriptor, &[u8]),
    look: &mut Look<'_>,
) -> Option<Match> {
    let found = slot.classifier.classify_with(view, detection);
    match found {
        Some(found) if is_unsolicited(slot, &found, view, packet, look) => Some(found.unsolicited()),
        found => found.filter(Match::is_decided),
    }
}

/// A packet passes between the UE and a resolver: notes what it asks, or what it is answered.
#[cold]
fn heed(view: &PacketView<'_>, (shown, inspected): (&InspectedPacket<'_>, &Inspected), look: &mut Look<'_>) {
    match view.side {
        Side::Tunnel { .. } if shown.is_uplink => look.inspection.note_question(shown, inspected),
        Side::Plain { .. } if !shown.is_uplink && !look.is_recirculated => {
            look.inspection.learn(shown, inspected, look.stats);
        }
        _ => (),
    }
}

/// Whether what resolvers answer the UE of a session may say something of its flows.
#[inline]
fn may_concern_resolvers(slot: &Slot, look: &Look<'_>) -> bool {
    look.inspection.heeds_resolvers() && slot.classifier.may_read_detection()
}

/// Whether a packet is between the UE and a resolver, and that matters.
fn is_with_resolver(slot: &Slot, view: &PacketView<'_>, look: &Look<'_>) -> bool {
    look.inspection.is_with_resolver(view) && may_concern_resolvers(slot, look)
}

/// Whether the UE sends a packet: by what detects it as long as nothing is known of its flow, or by its entry.
fn is_uplink(view: &PacketView<'_>, undecided: Option<Option<Match>>, descriptor: &Descriptor) -> bool {
    match undecided {
        None => descriptor.verdict.direction() == Direction::Uplink,
        Some(Some(found)) => found.decision.direction == Direction::Uplink,
        Some(None) => matches!(view.side, Side::Tunnel { .. }),
    }
}

/// Whether a packet may be of a flow that is looked into.
fn is_tcp_or_udp(tuple: &IpTuple) -> bool {
    matches!(tuple.proto, proto::TCP | proto::UDP)
}

/// A packet as it is shown to inspection.
fn shown<'a>(
    slot: &Slot,
    (view, layout): (&PacketView<'a>, &'a IpTuple),
    (is_uplink, is_with_resolver): (bool, bool),
    (descriptor, bytes): (&Descriptor, &'a [u8]),
    look: &Look<'_>,
) -> Option<InspectedPacket<'a>> {
    Some(InspectedPacket {
        session: slot.image.session,
        seid: slot.image.seid,
        bytes: bytes.get(usize::from(descriptor.offset)..)?,
        tuple: view.tuple,
        layout,
        is_uplink,
        is_with_resolver,
        entry: None,
        reads: slot.classifier.reads(),
        now: look.now,
    })
}

/// Whether a data network is at either end, so that this node is a router to the packet.
fn is_routed(home: Home<'_>, decision: &Decision, side: Side) -> bool {
    let forward = || {
        let block = home.sessions.blocks.get(home.slot.installed.block)?;
        Some(block.forward(decision.forward))
    };
    let leads_out =
        |forward: flow::Forward| matches!(forward.kind, ForwardKind::Plain | ForwardKind::Unchanged);
    matches!(side, Side::Plain { .. }) || forward().is_some_and(leads_out)
}

/// For what has no user packet, or none that can be read.
#[cold]
fn decide_without_packet(home: Home<'_>, descriptor: &Descriptor) -> Result<Answer, DropReason> {
    if let Some(defect) = descriptor.defect {
        return Err(defect);
    }
    let decision = signalling_pdr(home.slot, descriptor.side).ok_or(DropReason::NoMatchingPdr)?;
    let verdict = verdict(home, &decision);
    let rules = &home.slot.image.rules;
    let pdr = rules.pdrs().get(usize::from(decision.pdr));
    let reports_end = pdr.is_some_and(|pdr| rules.reports_end_markers(pdr).next().is_some());
    Ok(Answer {
        verdict: Verdict {
            flags: verdict.flags.with_if(FlowFlags::REPORTS_END, reports_end),
            ..verdict
        },
        key: None,
        protocol: 0,
        content: ContentId::NONE,
        access: None,
        has_connection: false,
    })
}

fn signalling_pdr(slot: &Slot, side: Side) -> Option<Decision> {
    match side {
        Side::Tunnel { local, teid, qfi } => slot.classifier.classify_signalling(local, teid, qfi),
        Side::Plain { .. } => None,
    }
}

fn verdict(home: Home<'_>, decision: &Decision) -> Verdict {
    let Home { slot, sessions } = home;
    let downlink = decision.direction == Direction::Downlink;
    let block = slot.installed.block;
    Verdict {
        qers: decision.qers,
        urrs: decision.urrs,
        block,
        generation: slot.installed.generation,
        flags: FlowFlags::NONE
            .with_if(FlowFlags::DOWNLINK, downlink)
            .with_if(FlowFlags::REMOVES_OUTER, decision.removes_outer)
            .with_if(FlowFlags::DELETES_PSC, decision.deletes_psc)
            .with_if(FlowFlags::NAT, slot.classifier.has_nat()),
        pdr: decision.pdr,
        forward: decision.forward,
        marking: decision.marking,
        meters: sessions
            .blocks
            .meters_hint(block, decision.qers, decision.direction),
        content: 0,
    }
}
