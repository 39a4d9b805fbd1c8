//! Packets of UEs that leave with a public address.

use flow::{Blocks, Direction, FlowFlags, FlowKey4, ForwardKind, Nanos, SessionIndex};
use nat::mappings::{Outbound, Protocol, Refusal, Segment};
use nat::pools::{NatPool, NatPoolId};
use packet::icmp_rewrite::{Outer, rewrite_error};
use packet::rewrite::{Ends, Rewrite};
use packet::{DropReason, PacketBuf};
use rules::classifier::Side;

use super::NatStage;
use super::endpoint::Endpoint;
use super::message::{Kind, Message, message, quoted, user_packet};
use super::packets::{Departure, NewSource, inside_of};
use crate::apply_rules::context::live;
use crate::burst::Burst;
use crate::burst::batch::BURST;
use crate::burst::credit::credit_back;
use crate::burst::descriptor::{Descriptor, Family, Fate};
use crate::burst::outcome::{Undelivered, Why};
use crate::control_channel::event_queue::EventQueue;
use crate::io::PacketMetadata;
use crate::stats::Stats;

impl NatStage {
    /// Finds or makes the mappings of packets that leave by the instance of their session's pool; those that get none
    /// end here. So do packets that a data network has sent to the own address of a UE that has a public one.
    pub fn map<B: PacketBuf + PacketMetadata>(
        &mut self,
        burst: &mut Burst<B>,
        blocks: &mut Blocks,
        (events, stats): (&mut EventQueue, &mut Stats),
        now: Nanos,
    ) {
        (self.mapped, self.own, self.translated, self.special) = (0, 0, 0, 0);
        let mut departures = std::mem::take(&mut self.departures);
        departures.clear();
        for index in 0..burst.packets.len() {
            let descriptor = &burst.descriptors[index];
            let concerns = descriptor.verdict.flags.contains(FlowFlags::NAT)
                && descriptor.verdict.is_some()
                && descriptor.family == Family::V4
                && descriptor.is_open_user();
            if !concerns {
                continue;
            }
            if descriptor.verdict.direction() == Direction::Downlink {
                if self.is_bypassed(burst, index, blocks) {
                    burst.descriptors[index].fate = Fate::Drop(DropReason::NatBypassed);
                } else if self.distinguishes_unsolicited && burst.packets[index].ingress().is_unsolicited() {
                    // It has waited.
                    self.unsolicited.note(index);
                }
                continue;
            }
            let key = &burst.keys.v4[index % BURST];
            let Some(session) = self.leaves_translated(descriptor, blocks, key.destination) else {
                self.own |= 1 << (index % BURST);
                continue;
            };
            let message = message(&burst.packets[index], descriptor, key.protocol);
            let source = Endpoint {
                address: key.source,
                port: key.ports[0],
            };
            let inside = inside_of(message, source, || quoted(&burst.packets[index], descriptor));
            let has_inside = inside.is_some();
            let inside = inside.unwrap_or_default();
            departures.push(Departure {
                index: index as u8,
                has_inside,
                inside,
                session,
                expected: self.mappings.seek(session, &inside),
            });
        }
        self.look_ahead(&mut departures);
        for departure in &departures {
            let index = usize::from(departure.index);
            let (buf, descriptor) = (&burst.packets[index], &burst.descriptors[index]);
            let key = &burst.keys.v4[index % BURST];
            let message = message(buf, descriptor, key.protocol);
            let packet = (message, key.destination, || ip_protocol(buf, descriptor, key));
            let end = match self.known_end(departure, message, key.destination, now) {
                Some(end) => end,
                None => match self.map_one(departure, packet, (events, stats), now) {
                    Ok(end) => end,
                    Err(reason) => {
                        refuse(burst, index, reason);
                        continue;
                    }
                },
            };
            let forward = descriptor.verdict.forward;
            self.sources[index % BURST] = NewSource { end, forward };
            self.mapped |= 1 << (index % BURST);
            if message.kind != Kind::Ports {
                self.special |= 1 << (index % BURST);
                self.messages[index % BURST] = message;
            }
        }
        self.departures = departures;
    }

    /// Asks for what the packets' mappings take, in loops that do little else: a prefetch that waits for a translation
    /// of its address holds all that is behind it, and so the next one, unless that is near.
    #[inline]
    fn look_ahead(&self, departures: &mut [Departure]) {
        let mappings = &self.mappings;
        for departure in &*departures {
            mappings.prefetch_index(departure.session, &departure.expected);
        }
        for departure in &mut *departures {
            mappings.expect(&mut departure.expected, departure.session, &departure.inside);
        }
        for departure in departures {
            mappings.prefetch_outbound(departure.session, &departure.expected);
        }
    }

    /// The pool of a session that has one.
    #[inline]
    fn session_pool(&self, session: SessionIndex) -> Option<(NatPoolId, &NatPool)> {
        let id = match self.only {
            Some(only) => only,
            None => self.pool_of(session)?,
        };
        Some((id, self.network.nat().pools().pool(id)?))
    }

    /// The session of a packet that leaves by its pool's instance, for a destination to which it is translated.
    #[inline]
    fn leaves_translated(
        &self,
        descriptor: &Descriptor,
        blocks: &mut Blocks,
        destination: [u8; 4],
    ) -> Option<SessionIndex> {
        let block = live(blocks, &descriptor.verdict).ok()?;
        let forward = block.forward(descriptor.verdict.forward);
        let session = block.session();
        let (id, pool) = self.session_pool(session)?;
        let leaves = forward.kind() == ForwardKind::Plain && forward.egress() == pool.instance;
        let is_translated = || !self.exempts(id, destination) && !self.is_local_ue(id, destination);
        (leaves && is_translated()).then_some(session)
    }

    /// Whether a data network has sent a packet to the own address of a UE that has a public one.
    fn is_bypassed<B: PacketMetadata>(&self, burst: &Burst<B>, index: usize, blocks: &mut Blocks) -> bool {
        let (descriptor, ingress) = (&burst.descriptors[index], burst.packets[index].ingress());
        let is_plain = matches!(descriptor.side, Side::Plain { .. });
        // What has waited was admitted when it came.
        if !is_plain
            || self.has_admitted(index)
            || ingress.is_own()
            || ingress.is_answer()
            || ingress.has_waited()
        {
            return false;
        }
        let session = live(blocks, &descriptor.verdict)
            .ok()
            .map(|block| block.session());
        let Some((id, pool)) = session.and_then(|session| self.session_pool(session)) else {
            return false;
        };
        let source = burst.keys.v4[index % BURST].source;
        let is_of_ue = ingress.recirculations() > 0 && self.is_local_ue(id, source);
        descriptor.instance == pool.instance && !is_of_ue && !self.exempts(id, source)
    }

    /// The public address and port of a packet whose mapping is where it is expected, as that of most is.
    #[inline(always)]
    fn known_end(
        &mut self,
        departure: &Departure,
        message: Message,
        remote: [u8; 4],
        now: Nanos,
    ) -> Option<Endpoint> {
        if !matches!(message.kind, Kind::Ports | Kind::Request) {
            return None;
        }
        let ends = (departure.session, &departure.inside);
        let expected = &departure.expected;
        let (address, port) =
            self.mappings
                .outbound_as_expected(expected, ends, remote, message.segment, now)?;
        Some(Endpoint {
            address: address.to_be_bytes(),
            port,
        })
    }

    /// The public address and port of any other packet.
    #[cold]
    fn map_one(
        &mut self,
        departure: &Departure,
        (message, remote, protocol): (Message, [u8; 4], impl Fn() -> u8),
        (events, stats): (&mut EventQueue, &mut Stats),
        now: Nanos,
    ) -> Result<Endpoint, DropReason> {
        let session = departure.session;
        if message.kind == Kind::Later {
            // Without its first one, what has no mappings would leave with a public address, too.
            Protocol::of(protocol()).ok_or(DropReason::NatProtocol)?;
            let address = self.public_address(session).ok_or(DropReason::NatNoPort)?;
            return Ok(Endpoint { address, port: 0 });
        }
        if message.kind == Kind::Answer {
            // No request comes to a public address: it answers none.
            return Err(DropReason::NatNoMapping);
        }
        if !departure.has_inside {
            return Err(DropReason::NatProtocol);
        }
        let inside = &departure.inside;
        if message.kind == Kind::Error {
            // It asks for nothing: that a port is closed makes no sender one that the UE has sent to.
            let known = self.mappings.lookup_inside(session, inside, now);
            let (address, port) = known.ok_or(DropReason::NatNoMapping)?;
            return Ok(Endpoint { address, port });
        }
        let sent = self
            .mappings
            .outbound(session, *inside, remote, message.segment, now);
        match sent {
            Ok(Outbound {
                public,
                port,
                wants_block,
            }) => {
                if wants_block {
                    Self::ask(session, events, stats);
                }
                Ok(Endpoint {
                    address: public,
                    port,
                })
            }
            Err(refusal) => {
                let has_none = matches!(refusal, Refusal::NoBlock | Refusal::NoPort);
                if has_none && self.mappings.takes_request(session, now) {
                    Self::ask(session, events, stats);
                }
                Err(DropReason::NatNoPort)
            }
        }
    }

    /// Gives the packets that are sent their public address.
    pub fn translate<B: PacketBuf + PacketMetadata>(&mut self, burst: &mut Burst<B>, blocks: &mut Blocks) {
        if self.own != 0 {
            self.stop_diverted(burst, blocks);
        }
        let mut left = self.mapped;
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            let descriptor = &burst.descriptors[index];
            if !matches!(descriptor.fate, Fate::Send(_)) {
                continue;
            }
            let key = &burst.keys.v4[index % BURST];
            let NewSource { end: source, forward } = self.sources[index % BURST];
            let message = match self.special >> (index % BURST) & 1 {
                0 => Message::with_ports(Protocol::Udp, Segment::Within),
                _ => self.messages[index % BURST],
            };
            // A quota may have sent it another way.
            let is_diverted = descriptor.verdict.forward != forward;
            if is_diverted
                && self
                    .leaves_translated(descriptor, blocks, key.destination)
                    .is_none()
            {
                continue;
            }
            let inside = Endpoint {
                address: key.source,
                port: key.ports[0],
            };
            let octets = usize::from(descriptor.octets);
            match rewrite_source(&mut burst.packets[index], octets, message, (inside, source)) {
                Ok(()) => self.translated |= 1 << (index % BURST),
                Err(reason) => {
                    credit_back(blocks, &burst.descriptors[index]);
                    burst.descriptors[index].fate = Fate::Drop(reason);
                }
            }
        }
    }

    /// Packets that were to leave another way, and that a quota sends out by the pool's instance, have no mapping: they
    /// end here.
    #[cold]
    fn stop_diverted<B: PacketBuf + PacketMetadata>(&mut self, burst: &mut Burst<B>, blocks: &mut Blocks) {
        for index in (0..burst.packets.len()).filter(|index| self.own >> (index % BURST) & 1 == 1) {
            let (descriptor, key) = (&burst.descriptors[index], &burst.keys.v4[index % BURST]);
            let is_sent = matches!(descriptor.fate, Fate::Send(_));
            if is_sent
                && self
                    .leaves_translated(descriptor, blocks, key.destination)
                    .is_some()
            {
                credit_back(blocks, descriptor);
                burst.descriptors[index].fate = Fate::Drop(DropReason::NatNoMapping);
            }
        }
    }
}

/// Rewrites the IP packet of a number of octets at the end of a frame.
fn rewrite_source<B: PacketBuf>(
    buf: &mut B,
    octets: usize,
    message: Message,
    (inside, source): (Endpoint, Endpoint),
) -> Result<(), DropReason> {
    let start = buf.len().checked_sub(octets).ok_or(DropReason::TruncatedIpv4)?;
    let data = buf.data_mut();
    let end = data.len().min(start + octets);
    let packet = data.get_mut(start..end).ok_or(DropReason::TruncatedIpv4)?;
    if message.kind == Kind::Error {
        return rewrite_error(packet, Outer::Source(source.address), source.into());
    }
    let port = match message.kind {
        Kind::Request => message.id,
        _ => inside.port,
    };
    let from = |address, port| Ends {
        source: address,
        source_port: port,
        ..Ends::default()
    };
    let (before, after) = match message.kind {
        Kind::Later => (from(inside.address, 0), from(source.address, 0)),
        _ => (from(inside.address, port), from(source.address, source.port)),
    };
    Rewrite::new(&before, &after).apply(packet)
}

/// A packet that gets no public address ends here; its sender may be notified (RFC 6888 REQ-11).
#[cold]
fn refuse<B>(burst: &mut Burst<B>, index: usize, reason: DropReason) {
    burst.descriptors[index].fate = Fate::Drop(reason);
    if reason == DropReason::NatNoPort {
        let (index, why) = (index as u8, Why::NoPublicPort);
        let _ = burst.outcome.undelivered.push(Undelivered { index, why });
    }
}

/// The protocol in the header of a packet. In the key of a fragment without ports it is another.
#[inline]
fn ip_protocol<B: PacketBuf>(buf: &B, descriptor: &Descriptor, key: &FlowKey4) -> u8 {
    match descriptor.flags.lacks_ports() {
        false => key.protocol,
        true => user_packet(buf, descriptor).get(9).copied().unwrap_or_default(),
    }
}
