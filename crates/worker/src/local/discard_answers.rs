//! Answers to the senders of discarded user packets: ICMP errors, that the TTL expired (RFC 792, RFC 4443 §3.3), how
//! long a packet may be (RFC 1191 §4, RFC 4443 §3.2), or that an access list rejects it (RFC 1812 §5.2.7.1, RFC 4443
//! §3.1); and what else a rule of an access list says ([`denial_answer`]).
//!
//! An ICMP error comes from our address on the data network's link, as from any router there; other answers come from
//! the address that the packet was for. A UE gets them as if the data network had sent them, so that what its session's
//! rules say of packets for it applies; a host of the data network gets them from the station that its packet came by.
//! What goes from tunnel to tunnel has no router here, and gets none. A session, and the worker, have a rate each
//! (`icmp` in the configuration, and that of redirected HTTP), and no error is about an error (RFC 1122 §3.2.2).

use flow::{ForwardKind, InstanceId, Nanos, PortId, SessionBlock, SessionIndex};
use packet::icmp::IcmpError;
use packet::{Addrs, PacketBuf};
use rules::SourceCheck;
use rules::model::AccessRuleId;
use transport::{Adjacency, Interface, replies};

use crate::apply_rules::encap::{self, Cut, Hop};
use crate::burst::Burst;
use crate::burst::batch::BURST;
use crate::burst::descriptor::Descriptor;
use crate::burst::outcome::{Undelivered, Why};
use crate::egress::copies::Copies;
use crate::egress::fragmentation::DONT_FRAGMENT;
use crate::egress::ports::OwnPacket;
use crate::ingress::l3_interfaces::L3Interfaces;
use crate::io::{Io, PacketMetadata};
use crate::local::denial_answer::{self, AnswerKind};
use crate::local::generated_packet_rate_limit::GeneratedPacketRateLimit;
use crate::nat::NatStage;
use crate::sessions::Sessions;
use crate::stats::Stats;

/// Octets of the longest: what IPv6 allows an error to quote (RFC 4443 §3.1).
const LONGEST: usize = 1280;

/// State of the worker that answers are made with.
pub(crate) struct DiscardAnswers<'a, I: Io> {
    /// The rate of ICMP errors, and of what hosts of data networks receive.
    pub errors: &'a mut GeneratedPacketRateLimit,
    /// The rate of other answers to UEs.
    pub answers: &'a mut GeneratedPacketRateLimit,
    pub io: &'a mut I,
    pub copies: &'a mut Copies<I::Buf>,
    pub interfaces: &'a L3Interfaces,
    pub sessions: &'a Sessions,
    pub stats: &'a mut Stats,
    pub nat: Option<&'a NatStage>,
    pub now: Nanos,
}

impl<I: Io> DiscardAnswers<'_, I> {
    /// Makes the answers to the senders of this burst's discarded packets.
    #[cold]
    #[inline(never)]
    pub fn answer_senders(&mut self, burst: &mut Burst<I::Buf>) {
        while let Some(undelivered) = burst.outcome.undelivered.pop_first() {
            if let Some((kind, answer)) = self.answer_sender(burst, undelivered) {
                self.copies.add_answer(self.stats, kind, answer);
            }
        }
    }

    fn answer_sender(
        &mut self,
        burst: &mut Burst<I::Buf>,
        Undelivered { index, why }: Undelivered,
    ) -> Option<(AnswerKind, OwnPacket<I::Buf>)> {
        let index = usize::from(index);
        let verdict = &burst.descriptors[index].verdict;
        let session = self.sessions.blocks.get(verdict.block)?.session();
        let sessions = self.sessions;
        let action = match why {
            Why::Prohibited => {
                let list = sessions.at(session)?.image.rules.access_list();
                list.and_then(|list| list.action(AccessRuleId(verdict.content)))
            }
            Why::Expired | Why::TooLong(_) | Why::NoPublicPort => None,
        };
        let (descriptor, packet) = (&burst.descriptors[index], &burst.packets[index]);
        let kind = denial_answer::kind(action, descriptor.tuple(packet.data()).ok()?.proto);
        let now = self.now;
        // What the data network sends takes nothing from the answers to UEs.
        let rate = match burst.descriptors[index].tunnel.is_some() {
            true => kind,
            false => AnswerKind::IcmpError,
        };
        if !self.limit(rate).has_one(session, now) {
            return None;
        }
        if why == Why::Prohibited && self.is_spoofed(burst, index, session) {
            return None;
        }
        let home = self.home_of_router(burst, index, why)?;
        let packet = &mut burst.packets[index];
        let from_ue = burst.descriptors[index].tunnel.is_some() || packet.ingress().recirculations() > 0;
        let quoted = usize::from(burst.descriptors[index].offset) + LONGEST;
        packet.gather(quoted.min(packet.len()));
        let mut out = [0; LONGEST];
        let length = match (kind, action) {
            (AnswerKind::OfEnd, Some(action)) => {
                denial_answer::write(action, burst, index, from_ue, &mut out)?
            }
            _ => write_error(burst, index, why, &home, &mut out)?,
        };
        if let Some(nat) = self.nat {
            let answer = out.get_mut(..length)?;
            match kind {
                AnswerKind::IcmpError => nat.restore_quote(index, answer).ok()?,
                AnswerKind::OfEnd => nat
                    .restore_source(index, &burst.keys.v4[index % BURST], answer)
                    .ok()?,
            }
        }
        let answer = out.get(..length)?;
        let mut buf = self.io.alloc()?;
        let (descriptor, packet) = (&burst.descriptors[index], &burst.packets[index]);
        buf.set_ingress(packet.ingress().owning(from_ue));
        let port = match from_ue {
            true => towards_ue(&mut buf, answer, &home),
            false => towards_network(&mut buf, answer, (descriptor, packet), &home),
        };
        let port = port.filter(|_| self.limit(rate).take(session, now))?;
        Some((kind, OwnPacket { port, packet: buf }))
    }

    fn limit(&mut self, kind: AnswerKind) -> &mut GeneratedPacketRateLimit {
        match kind {
            AnswerKind::IcmpError => self.errors,
            AnswerKind::OfEnd => self.answers,
        }
    }

    /// The link to the data network that a packet came from, or was to leave by: the error comes from a router there.
    fn home_of_router(&self, burst: &Burst<I::Buf>, index: usize, why: Why) -> Option<Interface> {
        let descriptor = &burst.descriptors[index];
        let home = if descriptor.tunnel.is_some() {
            let verdict = &descriptor.verdict;
            let block = self.sessions.blocks.get(verdict.block)?;
            let egress = match why {
                Why::Prohibited => self.way_out(&block)?,
                Why::Expired | Why::TooLong(_) | Why::NoPublicPort => block.forward(verdict.forward).egress,
            };
            self.interfaces.at(egress)
        } else {
            self.interfaces.at(descriptor.instance)
        };
        home.filter(|home| home.plain).map(|home| home.interface.clone())
    }

    /// Whether a packet came in a tunnel from an address that is not the UE's: no PDR has checked that of one that an
    /// access list rejects.
    fn is_spoofed(&self, burst: &Burst<I::Buf>, index: usize, session: SessionIndex) -> bool {
        let (descriptor, packet) = (&burst.descriptors[index], &burst.packets[index]);
        let source = descriptor.tuple(packet.data()).map(|tuple| tuple.addrs.src());
        let is_ues = |source| {
            let slot = self.sessions.at(session);
            slot.is_some_and(|slot| slot.classifier.allows_source(SourceCheck::Ue, source))
        };
        descriptor.tunnel.is_some() && !source.is_ok_and(is_ues)
    }

    /// Where a session's packets leave for the data network, of a packet that no PDR has detected: by its first FAR
    /// that leads there.
    fn way_out(&self, block: &SessionBlock<'_>) -> Option<InstanceId> {
        let fars = self.sessions.at(block.session())?.image.rules.fars().len() as u8;
        let mut forwards = (0..fars).map(|slot| block.forward(slot));
        forwards
            .find(|forward| forward.kind == ForwardKind::Plain)
            .map(|forward| forward.egress)
    }
}

/// Writes the error about a packet; how many octets it has. `None` where there is none: it might have been fragmented,
/// or there is no own address to send it from.
fn write_error<B: PacketBuf>(
    burst: &Burst<B>,
    index: usize,
    why: Why,
    home: &Interface,
    out: &mut [u8],
) -> Option<usize> {
    let (descriptor, bytes) = (&burst.descriptors[index], burst.packets[index].data());
    let tuple = descriptor.tuple(bytes).ok()?;
    let start = usize::from(descriptor.offset);
    // As much of it as is in one segment: no more is quoted than that has.
    let end = (start + usize::from(descriptor.octets)).min(bytes.len());
    let packet = bytes.get(start..end)?;
    let (source, error) = match (tuple.addrs, why) {
        (Addrs::V4 { .. }, Why::Expired) => (home.ipv4?.into(), IcmpError::TTL_EXPIRED_V4),
        (Addrs::V6 { .. }, Why::Expired) => (home.ipv6?.into(), IcmpError::HOP_LIMIT_EXPIRED_V6),
        (Addrs::V4 { .. }, Why::Prohibited | Why::NoPublicPort) => {
            (home.ipv4?.into(), IcmpError::PROHIBITED_V4)
        }
        (Addrs::V6 { .. }, Why::Prohibited | Why::NoPublicPort) => {
            (home.ipv6?.into(), IcmpError::PROHIBITED_V6)
        }
        (Addrs::V4 { .. }, Why::TooLong(mtu)) => {
            packet.get(6).filter(|flags| **flags & DONT_FRAGMENT != 0)?;
            (home.ipv4?.into(), IcmpError::fragmentation_needed_v4(mtu))
        }
        (Addrs::V6 { .. }, Why::TooLong(mtu)) => {
            (home.ipv6?.into(), IcmpError::packet_too_big_v6(mtu.into()))
        }
    };
    error.write(out, source, packet, &tuple)
}

/// Makes `buf` a packet that is recirculated as if the data network had sent it.
fn towards_ue<B: PacketBuf>(buf: &mut B, error: &[u8], home: &Interface) -> Option<PortId> {
    buf.append(error.len())?.copy_from_slice(error);
    let cut = Cut {
        offset: 0,
        octets: error.len(),
        hop: Hop::None,
    };
    let adjacency = Adjacency::to_ourselves(home);
    encap::plain(buf, cut, error[0] >> 4 == 4, &adjacency).ok()?;
    Some(adjacency.port())
}

/// Makes `buf` a frame to the station that the packet came by.
fn towards_network<B: PacketBuf + PacketMetadata>(
    buf: &mut B,
    error: &[u8],
    (descriptor, packet): (&Descriptor, &B),
    home: &Interface,
) -> Option<PortId> {
    let header = packet.data().get(..usize::from(descriptor.offset))?;
    buf.append(error.len())?.copy_from_slice(error);
    let room = buf.prepend(header.len())?;
    room.copy_from_slice(header);
    replies::send_back(room, home.mac).ok()?;
    Some(packet.ingress().with_recirculations(0))
}
