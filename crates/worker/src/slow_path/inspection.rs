//! Inspection: what flows are, and which hosts they are for, where rules ask for that.
//!
//! A flow whose decision would be another if it were something else
//! ([`Match::reads_detection`](rules::classifier::Match)) has a record here, one for both directions. As long as
//! nothing is known of it, its entries are provisional (`Flows::stage` in `lookup`): its packets go by them, and those
//! that carry something come to the slow path, too, which shows them to the [`Inspector`](dpi::Inspector). Then the
//! flow is decided, and its packets come here no more. No packet waits.
//!
//! The record stays, for decisions that are made anew when rules or the session change. In HTTP/1 each request may be
//! for something else: what the client sends keeps coming here ([`requests`]). Where a packet shows that a flow is for
//! something else, what comes the other way is decided with it. Each query of DNS says by itself what it asks for, and
//! its answer asks for nothing.
//!
//! A flow of which only packets to the UE have come has a record and is not inspected: senders in the data network
//! take none of a session's share. What resolvers answer UEs says what flows are for that do not say it themselves
//! ([`answers`]). All memory is bounded, and each session has at most its share of the flows that are
//! inspected at a time. What finds no room is not detected.

mod address_names;
mod answers;
mod flow_records;
mod found;
mod host_pool;
mod host_shares;
mod inspected_packet;
mod inspections;
mod known_flow;
mod layer4;
mod looks;
mod ndpi;
mod ndpi_flows;
mod questions;
mod requests;
mod resolvers;
mod undecided;

use std::hash::BuildHasher;
use std::net::IpAddr;

use dpi::dns::Query;
use dpi::{HostName, Layer4, Protocol, Sender, Settings};
use flow::slab::OutOfMemory;
use flow::{KeyFields, Nanos, SessionIndex, prefetch};
use foldhash::quality::RandomState;
use packet::IpTuple;
use rules::classifier::Side;

pub(crate) use self::address_names::Owner;
pub(crate) use self::flow_records::{EntryPlace, RecordPlace};
use self::flow_records::{FlowRecords, FlowState, Notes};
use self::found::state_of;
use self::host_pool::HostPlace;
use self::host_shares::HostShares;
pub(crate) use self::inspected_packet::InspectedPacket;
use self::inspections::Inspections;
pub(crate) use self::known_flow::KnownFlow;
pub(crate) use self::layer4::layer4;
use self::layer4::opens_connection;
use self::looks::Looks;
use self::ndpi_flows::NdpiFlows;
use self::requests::RequestReader;
use self::resolvers::Resolvers;
use self::undecided::{Looked, Lookers};
use crate::burst::descriptor::Descriptor;
use crate::stats::Stats;
use crate::{InspectionLimits, NdpiLimits, ResolverLimits};

/// What is known of a packet's flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inspected {
    /// Its record.
    record: RecordPlace,
    /// Packets in the same direction may change that.
    is_open: bool,
    /// The entry of the other direction, about which this packet has another decision made.
    pub outdates: Option<EntryPlace>,
    /// What was decided about the packets before is right for this one, too.
    pub is_as_before: bool,
    /// This packet has shown what the flow is for.
    pub has_shown: bool,
    /// What it carries was not looked at: it is a fragment, or cannot be read.
    pub is_unread: bool,
    /// Nothing is known of its flow yet.
    pub is_undecided: bool,
    /// What it asks for, in a flow of DNS.
    asks_for: Asked,
    /// The end that opened its flow has sent it.
    is_initiator: bool,
    /// The entry of this direction is the responder's, and to be noted ([`Inspection::note_entry`]).
    wants_entry: bool,
}

/// What a packet asks for in a flow of DNS.
#[derive(Clone, Copy, Debug)]
enum Asked {
    /// Nothing: it carries nothing, or is of the resolver's side.
    Nothing,
    /// The name that [`Inspection`] has of it.
    Name,
    /// It is no query.
    NoQuery,
}

impl Inspected {
    /// The entry of the other direction, and the fields of its packets, if this packet outdates it. `tuple` is that of
    /// the packet.
    pub fn outdated(&self, tuple: &IpTuple) -> Option<(EntryPlace, IpTuple)> {
        let entry = self.outdates?;
        let theirs = IpTuple {
            tos: entry.tos,
            flow_label: entry.flow_label,
            ..tuple.reversed()
        };
        Some((entry, theirs))
    }

    /// Whether the packet asks for something by itself, in a flow of DNS.
    pub fn is_of_dns(&self) -> bool {
        !matches!(self.asks_for, Asked::Nothing)
    }

    /// Whether the packet is a query of DNS.
    fn is_query(&self) -> bool {
        matches!(self.asks_for, Asked::Name)
    }

    /// Whether packets of an entry with these fields are to come here, too. Of the responder's entries the last one is
    /// noted; where it may have several, each of its packets asks anew.
    pub fn is_provisional(&self, shape: KeyFields) -> bool {
        self.is_open || (self.wants_entry && may_be_one_of_several(shape))
    }
}

/// Whether a flow may have several entries of this shape in one direction.
pub(crate) fn may_be_one_of_several(shape: KeyFields) -> bool {
    shape.contains(KeyFields::TOS) || shape.contains(KeyFields::FLOW_LABEL)
}

/// Whether a packet carries something that inspection looks at, or that cannot be read.
pub(crate) fn has_payload(bytes: &[u8], descriptor: &Descriptor) -> bool {
    let Ok(layout) = descriptor.tuple(bytes) else {
        return false;
    };
    let user = bytes.get(usize::from(descriptor.offset)..).unwrap_or_default();
    layer4(user, &layout).is_none_or(|layer4| !layer4.payload().is_empty())
}

/// The name that a packet asks for, if it is a query of DNS.
pub(crate) fn query_of(bytes: &[u8], descriptor: &Descriptor) -> Option<HostName> {
    let layout = descriptor.tuple(bytes).ok()?;
    let user = bytes.get(usize::from(descriptor.offset)..)?;
    let query = Query::parse(layer4(user, &layout)?.payload())?;
    Some(*query.name())
}

/// The inspection of one worker's flows.
pub(crate) struct Inspection {
    inspections: Inspections,
    /// What nDPI looks at; nothing: it is not configured.
    ndpi: Option<Box<NdpiFlows>>,
    records: FlowRecords,
    hosts: HostShares,
    resolvers: Resolvers,
    hasher: RandomState,
    /// How often a session with this index has ended here, less whole turns: records of one that was here before are
    /// not those of the same session when it comes back.
    stays: Box<[u8]>,
    /// What the query asks for that was looked at last: of the packet that is decided.
    asked_name: Option<HostName>,
    /// There has been a record.
    has_any: bool,
    /// Flows of which a packet of this burst was decided, and some others: bit n is of records that are n modulo 64.
    decided: u64,
}

/// The bit of a record among those of which a packet was decided.
fn decided_bit(RecordPlace(place): RecordPlace) -> u64 {
    1 << (place % u64::BITS)
}

/// One end of a flow: its address as a number, and its port.
type End = (u128, u16);

/// An address as a number, for hashes; one of IPv6 may have that of one of IPv4.
pub(super) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Both ends, the lower one first, and whether a packet comes from that one.
fn ends(tuple: &IpTuple) -> ([End; 2], bool) {
    let from = (bits(tuple.addrs.src()), tuple.src_port);
    let to = (bits(tuple.addrs.dst()), tuple.dst_port);
    match from <= to {
        true => ([from, to], true),
        false => ([to, from], false),
    }
}

impl Inspection {
    /// With all its memory. Sessions are numbers below `sessions`.
    ///
    /// # Errors
    /// nDPI has no memory.
    pub fn new(
        limits: &InspectionLimits,
        (resolvers, ndpi): (&ResolverLimits, Option<&NdpiLimits>),
        sessions: usize,
    ) -> Result<Self, OutOfMemory> {
        let is_on = limits.records > 0;
        let off = ResolverLimits::default();
        let resolvers = if is_on { resolvers } else { &off };
        let of = |count: u32| if is_on { count } else { 0 };
        let settings = Settings {
            flows: of(limits.undecided),
            blocks: of(limits.blocks),
            owners: of(u32::try_from(sessions).unwrap_or(u32::MAX)),
            flows_of_owner: limits.undecided_per_session,
            blocks_of_owner: limits.blocks_per_session,
            packets: limits.packets,
            octets: limits.octets,
            longest_ns: u64::try_from(limits.longest.as_nanos()).unwrap_or(u64::MAX),
        };
        let bounds = (limits.undecided_per_session, limits.longest);
        let ndpi = ndpi.filter(|_| is_on);
        let ndpi = ndpi.map(|ndpi| NdpiFlows::new(ndpi, sessions, bounds).map(Box::new));
        Ok(Self {
            inspections: Inspections::new(settings),
            ndpi: ndpi.transpose()?,
            records: FlowRecords::new(limits.records),
            hosts: HostShares::new(of(limits.hosts), limits.records, sessions),
            resolvers: Resolvers::new(resolvers, sessions),
            hasher: RandomState::default(),
            stays: vec![0; if is_on { sessions } else { 0 }].into(),
            asked_name: None,
            has_any: false,
            decided: 0,
        })
    }

    /// Whether flows are inspected.
    pub fn is_on(&self) -> bool {
        self.records.is_on()
    }

    /// Whether there are resolvers whose answers count. Where rules ask what flows are, no key is without the 5-tuple
    /// then: an entry with a wider one would keep questions and answers from coming here.
    pub fn heeds_resolvers(&self) -> bool {
        self.is_on() && !self.resolvers.is_empty()
    }

    /// Whether it has mattered of any flow so far what it is.
    pub fn has_any(&self) -> bool {
        self.has_any
    }

    /// Flows that are inspected now.
    pub fn undecided(&self) -> usize {
        self.inspections.len()
    }

    /// Asks for what is kept of a session.
    pub fn prefetch_session(&self, session: SessionIndex) {
        prefetch::nth(&self.stays, session.index());
        self.hosts.prefetch(session);
    }

    /// Asks for the memory of the record of a packet's flow, in this session. That reads what
    /// [`prefetch_session`](Self::prefetch_session) asks for.
    pub fn prefetch(&self, owner: Owner, tuple: &IpTuple) {
        self.records.prefetch(self.id(owner, tuple));
    }

    /// The number of the flow of a packet of this session, for both directions.
    fn id(&self, owner: Owner, tuple: &IpTuple) -> u64 {
        let stay = self.stays.get(owner.session.index()).copied().unwrap_or_default();
        let [(low, low_port), (high, high_port)] = ends(tuple).0;
        let is_v4 = u64::from(tuple.addrs.is_v4());
        let kind = u64::from(stay) << 16 | is_v4 << 8 | u64::from(tuple.proto);
        let rest = kind << 32 | u64::from(low_port) << 16 | u64::from(high_port);
        self.hasher.hash_one((owner.seid, low, high, rest))
    }

    /// Looks at a packet; `None` where nothing is inspected.
    pub fn look(&mut self, packet: &InspectedPacket<'_>, stats: &mut Stats) -> Option<Inspected> {
        if !self.is_on() {
            return None;
        }
        self.expire(packet.now, stats);
        let (_, is_from_low) = ends(packet.tuple);
        let id = self.id(packet.owner(), packet.tuple);
        let known = self.records.find(id, packet.now);
        let opens = opens_connection(packet.bytes, packet.layout);
        let record = match known {
            Some(record) if !(opens && self.begins_anew(record, is_from_low)) => record,
            // Where the first packet was not seen, the UE is taken for the client.
            _ => {
                let is_from_client = opens || packet.is_uplink;
                let of = (id, packet.session);
                self.begin(
                    known,
                    (of, packet.is_uplink),
                    is_from_low == is_from_client,
                    packet.now,
                )?
            }
        };
        let initiator_is_low = self.records.at(record)?.notes.has(Notes::INITIATOR_IS_LOW);
        let sender = match initiator_is_low == is_from_low {
            true => Sender::Initiator,
            false => Sender::Responder,
        };
        let before = self.records.at(record)?.state;
        let layer4 = layer4(packet.bytes, packet.layout);
        let has_lost = sender == Sender::Initiator && self.requests(record).forget_lost(layer4.is_none());
        if before == FlowState::Unseen && packet.is_uplink {
            self.open_record(record, packet, stats)?;
        }
        let is_other = match &layer4 {
            Some(layer4) => self.advance(record, (sender, layer4), packet, stats),
            None => false,
        };
        let asks_for = self.asked(record, sender, layer4.as_ref());
        let mut inspected = self.inspected(record, sender, (before, has_lost || is_other));
        if inspected.has_shown && self.heeds_resolvers() {
            self.note_confirmation(record, packet);
        }
        if packet.is_with_resolver {
            let state = self.records.at(record)?.state;
            inspected.is_open |= matches!(state, FlowState::Queries(_));
        }
        let is_as_before = inspected.is_as_before
            && layer4.is_some()
            && self.is_for_itself(record)
            && self.is_decided(record, sender, packet.entry);
        if !is_as_before {
            self.decided |= decided_bit(record);
        }
        Some(Inspected {
            is_unread: layer4.is_none(),
            is_as_before,
            asks_for,
            ..inspected
        })
    }

    /// A burst begins: its packets have the entries that there are now.
    pub fn begin_burst(&mut self) {
        self.decided = 0;
    }

    /// Whether the entry that a packet has found was decided by what is known of its flow now: it is the one of its
    /// sender's that was decided last, and not by a packet of the same burst.
    fn is_decided(&self, record: RecordPlace, sender: Sender, entry: Option<EntryPlace>) -> bool {
        let own = self
            .records
            .at(record)
            .filter(|_| self.decided & decided_bit(record) == 0);
        let (Some(own), Some(entry)) = (own, entry) else {
            return false;
        };
        match sender {
            Sender::Initiator => own.initiator == self.entry_mark(entry),
            Sender::Responder => own.responder == Some(entry),
        }
    }

    /// What tells an entry from others of its flow and direction; never 0.
    fn entry_mark(&self, entry: EntryPlace) -> u16 {
        let EntryPlace { shape, .. } = entry;
        let tos = shape.contains(KeyFields::TOS).then_some(entry.tos);
        let flow_label = shape.contains(KeyFields::FLOW_LABEL).then_some(entry.flow_label);
        let place = match entry.side {
            Side::Tunnel { local, teid, qfi } => {
                let qfi = qfi.filter(|_| shape.contains(KeyFields::QFI));
                (Some((local.0, teid.0)), qfi.map(|qfi| qfi.get()), 0)
            }
            Side::Plain { vrf } => (None, None, vrf.0),
        };
        self.hasher.hash_one((place, shape, tos, flow_label)) as u16 | 1
    }

    /// Whether what a record's flow is for does not depend on the packet, and on no answer of a resolver.
    fn is_for_itself(&self, record: RecordPlace) -> bool {
        let state = self.records.at(record).map(|record| record.state);
        match state.and_then(FlowState::found) {
            Some((Protocol::Dns, _)) => false,
            Some((_, Some(_))) => true,
            _ => !self.heeds_resolvers(),
        }
    }

    /// Whether a SYN begins a flow anew that has this record. One of the other end, which a host of the data network
    /// may forge, ends nothing that is known.
    fn begins_anew(&self, record: RecordPlace, is_from_low: bool) -> bool {
        self.records.at(record).is_none_or(|own| {
            own.notes.has(Notes::INITIATOR_IS_LOW) == is_from_low
                || matches!(own.state, FlowState::Undetected | FlowState::Unseen)
        })
    }

    /// What a packet asks for, where its flow is one of DNS.
    fn asked(&mut self, record: RecordPlace, sender: Sender, layer4: Option<&Layer4<'_>>) -> Asked {
        let state = self.records.at(record).map(|own| own.state);
        if sender != Sender::Initiator || !matches!(state, Some(FlowState::Queries(_))) {
            return Asked::Nothing;
        }
        let message = match layer4.map(Layer4::payload) {
            Some([]) => return Asked::Nothing,
            message => message,
        };
        let query = message.and_then(Query::parse);
        self.asked_name = query.map(|query| *query.name());
        match self.asked_name {
            Some(_) => Asked::Name,
            None => Asked::NoQuery,
        }
    }

    /// Begins the record of a flow whose first packet this is, anew if it is `known`.
    fn begin(
        &mut self,
        known: Option<RecordPlace>,
        (of, is_uplink): ((u64, SessionIndex), bool),
        initiator_is_low: bool,
        now: Nanos,
    ) -> Option<RecordPlace> {
        let record = match known {
            Some(record) => {
                let old = self.records.at(record)?;
                self.give_back(old.session, old.state);
                record
            }
            None => {
                let (record, old) = self.records.make((of, is_uplink), initiator_is_low, now)?;
                if let Some(old) = old {
                    self.give_back(old.session, old.state);
                }
                record
            }
        };
        let own = self.records.at_mut(record)?;
        own.notes.set(Notes::INITIATOR_IS_LOW, initiator_is_low);
        own.state = FlowState::Unseen;
        self.has_any = true;
        Some(record)
    }

    /// Begins the inspection of a record's flow, if there is room.
    fn open_record(
        &mut self,
        record: RecordPlace,
        packet: &InspectedPacket<'_>,
        stats: &mut Stats,
    ) -> Option<()> {
        let of = (&mut self.records, record);
        let opened = self
            .inspections
            .open(of, packet.session, packet.transport(), packet.now, stats);
        self.records.at_mut(record)?.state = match opened {
            Some(flow) => FlowState::Undecided(Looks::of_inspector(flow)),
            None => FlowState::Undetected,
        };
        Some(())
    }

    /// What follows the requests of a record's flow.
    fn requests(&mut self, record: RecordPlace) -> RequestReader<'_> {
        RequestReader {
            inspections: &mut self.inspections,
            hosts: &mut self.hosts,
            records: &mut self.records,
            record,
        }
    }

    /// Shows a packet to the inspector, where that may change what is known of its flow. Whether that is something else
    /// now.
    fn advance(
        &mut self,
        record: RecordPlace,
        (sender, layer4): (Sender, &Layer4<'_>),
        packet: &InspectedPacket<'_>,
        stats: &mut Stats,
    ) -> bool {
        let Some(state) = self.records.at(record).map(|record| record.state) else {
            return false;
        };
        let next = match state {
            FlowState::Undecided(looks) => {
                let of = (record, packet.session);
                let lookers = Lookers {
                    inspections: &mut self.inspections,
                    ndpi: self.ndpi.as_deref_mut().filter(|_| packet.reads.ndpi),
                    records: &mut self.records,
                };
                match lookers.look(of, looks, (sender, layer4), &packet.shown(), stats) {
                    Looked::Found => {
                        let found = self.inspections.found();
                        let room = (&mut self.hosts, &mut self.records);
                        match state_of(packet, record, found, room, stats) {
                            FlowState::Requests(first) => {
                                let requests =
                                    self.requests(record).read_behind(first, layer4, packet, stats);
                                FlowState::Requests(requests)
                            }
                            state => state,
                        }
                    }
                    Looked::State(state) => state,
                }
            }
            FlowState::Requests(requests) if sender == Sender::Initiator => {
                FlowState::Requests(self.requests(record).read(requests, layer4, packet, stats))
            }
            FlowState::Requests(_)
            | FlowState::Queries(_)
            | FlowState::Known(..)
            | FlowState::Undetected
            | FlowState::Unseen => state,
        };
        if let Some(own) = self.records.at_mut(record) {
            own.state = next;
        }
        // Of one host and path there is one place.
        next.found() != state.found()
    }

    /// What a packet from `sender` says of a record whose state was `before`; `is_other`: it is for something else now.
    fn inspected(
        &mut self,
        record: RecordPlace,
        sender: Sender,
        (before, is_other): (FlowState, bool),
    ) -> Inspected {
        let mut outdates = None;
        let (mut is_open, mut wants_entry, mut has_shown) = (false, false, false);
        let (mut is_changed, is_initiator) = (false, sender == Sender::Initiator);
        if let Some(own) = self.records.at_mut(record) {
            let is_requests = matches!(own.state, FlowState::Requests(_));
            let is_undecided = matches!(own.state, FlowState::Undecided(_));
            wants_entry = own.state == FlowState::Unseen
                || ((is_requests || is_undecided) && sender == Sender::Responder);
            let is_by_message = is_requests || matches!(own.state, FlowState::Queries(_));
            is_open = is_undecided || (is_by_message && sender == Sender::Initiator);
            has_shown = is_other && own.state.found().is_some();
            is_changed = is_other || (before == FlowState::Unseen && own.state != before);
            outdates = own.responder.filter(|_| is_changed);
            if is_changed {
                own.initiator = 0;
            }
        }
        Inspected {
            record,
            is_open,
            outdates,
            is_as_before: is_open && !is_changed,
            has_shown,
            is_initiator,
            wants_entry,
            is_unread: false,
            is_undecided: matches!(
                self.records.at(record).map(|own| own.state),
                Some(FlowState::Undecided(_))
            ),
            asks_for: Asked::Nothing,
        }
    }

    /// Notes the entry by which a packet and others of its direction go, where that matters for those that follow.
    pub fn note_entry(&mut self, inspected: &Inspected, entry: EntryPlace) {
        let mark = inspected.is_initiator.then(|| self.entry_mark(entry));
        let Some(own) = self.records.at_mut(inspected.record) else {
            return;
        };
        own.initiator = mark.unwrap_or(own.initiator);
        if inspected.wants_entry {
            own.responder = Some(entry);
        }
    }

    /// Notes whether resolvers have given the session the address for what a packet has shown its flow to be for. That
    /// stays so as long as the flow is for it.
    fn note_confirmation(&mut self, record: RecordPlace, packet: &InspectedPacket<'_>) {
        let state = self.records.at(record).map(|record| record.state);
        let named = match state.and_then(FlowState::found) {
            Some((protocol, Some(named))) if protocol != Protocol::Dns => self.hosts.pool.at(named),
            _ => None,
        };
        let is_confirmed = named.is_some_and(|named| {
            let given = (packet.other_end(), &named.host);
            self.resolvers.names.has(packet.owner(), given, packet.now)
        });
        if let Some(own) = self.records.at_mut(record) {
            own.notes.set(Notes::IS_CONFIRMED, is_confirmed);
        }
    }

    /// A session has ended here.
    pub fn forget(&mut self, session: SessionIndex) {
        if let Some(stay) = self.stays.get_mut(session.index()) {
            *stay = stay.wrapping_add(1);
        }
        self.resolvers.names.forget(session);
    }

    fn give_back_host(&mut self, session: SessionIndex, host: Option<HostPlace>) {
        if let Some(host) = host {
            self.hosts.give_back(session, host);
        }
    }

    /// Ends inspections that have taken too long.
    pub fn expire(&mut self, now: Nanos, stats: &mut Stats) {
        self.inspections.expire(&mut self.records, now, stats);
        if let Some(ndpi) = &mut self.ndpi {
            ndpi.expire(&mut self.records, now, stats);
        }
    }

    /// Gives back what a record of a session has that is no more.
    fn give_back(&mut self, session: SessionIndex, state: FlowState) {
        let (host, flow) = match state {
            FlowState::Undecided(looks) => {
                if let Some(ndpi) = &mut self.ndpi {
                    ndpi.end_look(looks.ndpi);
                }
                (None, looks.own)
            }
            FlowState::Known(_, host) => (host, None),
            FlowState::Requests(requests) => (requests.host, requests.next),
            FlowState::Queries(_) | FlowState::Undetected | FlowState::Unseen => (None, None),
        };
        self.give_back_host(session, host);
        if let Some(flow) = flow {
            self.inspections.close(flow);
        }
    }
}
