//! What resolvers answer UEs: for which names they have addresses, and what that says of flows that name no host.
//!
//! An answer counts if it comes from a configured resolver, out of a data network, no UE's of this node, as a packet of
//! a flow in which the UE has asked this very question: its number, name and type, octet for octet. It counts once. A
//! sender of packets with a resolver's address as their source has to know that and the UE's port; the UE itself knows
//! them, so that such packets are to be kept out at the network's border.

use dpi::Layer4;
use dpi::dns::{Question, Response};
use flow::{KeyFields, Nanos};
use rules::classifier::PacketView;

use super::flow_records::{FlowRecord, FlowState};
use super::inspected_packet::InspectedPacket;
use super::layer4::layer4;
use super::questions::Questions;
use super::{Inspected, Inspection};
use crate::stats::Stats;

impl Inspection {
    /// The fields of a key that keeps no packets of other flows from coming here.
    pub fn without_wide_key(fields: KeyFields) -> KeyFields {
        KeyFields::from_bits(fields.bits() & !KeyFields::ADDRESS.bits()) | KeyFields::TUPLE
    }

    /// Whether a packet is of a flow between the UE and a resolver.
    pub fn is_with_resolver(&self, view: &PacketView<'_>) -> bool {
        self.heeds_resolvers() && self.resolvers.are_with(view)
    }

    /// A packet passes from the UE to a resolver: notes what it asks.
    pub fn note_question(&mut self, packet: &InspectedPacket<'_>, inspected: &Inspected) {
        let layer4 = layer4(packet.bytes, packet.layout);
        let question = layer4.as_ref().and_then(|layer4| Question::of(layer4.payload()));
        if let Some(question) = question.filter(|_| inspected.is_query())
            && let Some(questions) = self.records.at_mut(inspected.record).and_then(questions)
        {
            questions.ask(&question, &self.hasher);
        }
    }

    /// A packet passes to the UE that comes from a resolver: binds its addresses to the name that the UE has asked for.
    pub fn learn(&mut self, packet: &InspectedPacket<'_>, inspected: &Inspected, stats: &mut Stats) {
        let layer4 = layer4(packet.bytes, packet.layout);
        let message = layer4.as_ref().map(Layer4::payload).unwrap_or_default();
        let (Some(question), Some(response)) = (Question::of(message), Response::parse(message)) else {
            return;
        };
        let questions = self.records.at_mut(inspected.record).and_then(questions);
        if !questions.is_some_and(|questions| questions.answer(&question, &self.hasher)) {
            return;
        }
        for answer in response.answers() {
            let lifetime_s = self.resolvers.lifetime(answer.ttl_s);
            let given = (answer.address, response.name());
            let names = &mut self.resolvers.names;
            match names.bind(
                packet.owner(),
                given,
                lifetime_s,
                &mut self.resolvers.hosts,
                packet.now,
            ) {
                Ok(()) => stats.addresses_bound += 1,
                Err(_) => stats.addresses_refused += 1,
            }
        }
    }

    /// Forgets the answers that have ended.
    pub fn age(&mut self, now: Nanos) {
        self.resolvers.names.age(&mut self.resolvers.hosts, now);
    }

    /// Addresses that have names by answers of resolvers, a few that have ended included.
    pub fn addresses(&self) -> usize {
        self.resolvers.names.len()
    }
}

fn questions(record: &mut FlowRecord) -> Option<&mut Questions> {
    match &mut record.state {
        FlowState::Queries(questions) => Some(questions),
        _ => None,
    }
}
