//! Packets for own addresses: ARP, Neighbour Discovery, ICMP echo, GTP-U path management; and packets for the host's
//! network stack.
//!
//! A response is written into the packet's own buffer where that is possible; reports are events to control. Every
//! worker responds for all own addresses. The work for one packet is bounded, without allocation.
//!
//! The host's network stack of an instance gets the packets that are not handled here, and the responses of neighbours,
//! since it resolves addresses as this node does. It gets no packets of UEs: recirculated packets are not from the
//! link.

use std::net::{IpAddr, Ipv6Addr};

use flow::{LocalId, Nanos};
use packet::checksum::Sum;
use packet::gtpu::{ErrorIndication, MessageType};
use packet::icmp::{v4_type, v6_type};
use packet::too_big::TooBig;
use packet::tuple::proto;
use packet::{DropReason, GtpuFrame, IpTuple, PacketBuf};
use transport::replies::NeighbourReport;
use transport::{lag, replies};

use crate::burst::descriptor::{Descriptor, Fate, Kind};
use crate::control_channel::event_queue::EventQueue;
use crate::egress::path_mtus::Path;
use crate::ingress::l3_interfaces::{L3Interface, L3Interfaces};
use crate::ingress::parse::read_again;
use crate::ingress::priority::is_urgent;
use crate::local::limits::LocalLimits;
use crate::local::reply::{Frame, Message};
use crate::stats::Stats;
use crate::{Event, PacketMetadata, Urgency};

/// The offset of the type field in ICMPv6 discovery messages.
const TYPE: usize = 0;

/// State of the worker that packets for own addresses need.
pub(crate) struct OwnAddressPackets<'a> {
    pub interfaces: &'a L3Interfaces,
    pub events: &'a mut EventQueue,
    pub stats: &'a mut Stats,
    pub limits: &'a mut LocalLimits,
    pub now: Nanos,
}

/// What has become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// It is the answer to itself now.
    Answered,
    /// Its content is handled, and it is freed.
    Heard,
    /// It asks for an own address that is not answered for: the host's network stack is not to answer either.
    Unanswered,
}

impl OwnAddressPackets<'_> {
    /// Deals with every packet of a burst that is for ourselves.
    pub fn handle<B: PacketBuf + PacketMetadata>(&mut self, burst: &mut [B], descriptors: &mut [Descriptor]) {
        for (buf, descriptor) in burst.iter_mut().zip(descriptors) {
            if !descriptor.is_open() || descriptor.kind.is_user() {
                continue;
            }
            if buf.is_chained() {
                buf.gather(buf.len());
            }
            descriptor.fate = match self.one(buf, descriptor) {
                Ok(Done::Answered) => {
                    self.stats.answered += 1;
                    Fate::Send(buf.ingress())
                }
                Ok(Done::Heard) if is_discovery(descriptor.kind) => {
                    self.for_host(buf, descriptor).unwrap_or(Fate::Consumed)
                }
                Ok(Done::Heard | Done::Unanswered) => Fate::Consumed,
                Err(DropReason::NotForUs) => {
                    let fate = self.for_host(buf, descriptor);
                    fate.unwrap_or(Fate::Drop(DropReason::NotForUs))
                }
                Err(reason) => Fate::Drop(reason),
            };
        }
    }

    /// The fate of a packet that is not handled here, or no longer needed, where the host's own network stack may want
    /// it.
    #[cold]
    fn for_host<B: PacketBuf + PacketMetadata>(&mut self, buf: &B, descriptor: &Descriptor) -> Option<Fate> {
        let ingress = self
            .interfaces
            .at(descriptor.instance)
            .filter(|ingress| ingress.host)?;
        if buf.ingress().recirculations() > 0 || descriptor.kind == Kind::Signalling {
            return None;
        }
        if matches!(descriptor.kind, Kind::Host | Kind::Group) {
            let source = descriptor.tuple(buf.data()).ok()?.addrs.src();
            if !ingress.may_answer(source) {
                return Some(Fate::Drop(DropReason::MartianSource));
            }
        }
        let urgency = match is_urgent(self.interfaces, buf) {
            true => Urgency::Urgent,
            false => Urgency::Usual,
        };
        let has_one = self.limits.hosts.take(descriptor.instance, urgency, self.now);
        Some(match has_one {
            true => Fate::Host(urgency),
            false => Fate::Drop(DropReason::HostRate),
        })
    }

    /// What the packet is to ourselves.
    fn one<B: PacketBuf + PacketMetadata>(
        &mut self,
        buf: &mut B,
        descriptor: &Descriptor,
    ) -> Result<Done, DropReason> {
        if descriptor.kind == Kind::Slow {
            return self.slow_protocol(buf);
        }
        let interfaces = self.interfaces;
        let ingress = interfaces
            .at(descriptor.instance)
            .ok_or(DropReason::VlanNotConfigured)?;
        match descriptor.kind {
            Kind::Arp => {
                let ours = ingress.interface.ipv4.ok_or(DropReason::NotForUs)?;
                let l3 = descriptor.offset.into();
                let outcome = replies::arp(buf.data_mut(), l3, ours, ingress.interface.mac)?;
                Ok(self.sighted(ingress, outcome))
            }
            Kind::Host | Kind::Group => {
                let tuple = descriptor.tuple(buf.data())?;
                self.host(buf, ingress, descriptor.offset.into(), &tuple, descriptor.local)
            }
            Kind::Signalling => {
                let local = descriptor.local.ok_or(DropReason::NotForUs)?;
                self.signalling(buf, ingress, &read_again(buf)?, local)
            }
            Kind::None | Kind::Slow | Kind::Foreign | Kind::Tunnelled | Kind::Relayed | Kind::Plain => {
                Err(DropReason::NotForUs)
            }
        }
    }

    /// An LACPDU, which Control receives, or a marker, which gets its response.
    fn slow_protocol<B: PacketBuf + PacketMetadata>(&mut self, buf: &mut B) -> Result<Done, DropReason> {
        let member = buf.ingress();
        let frame = lag::Slow::parse(buf.data()).ok_or(DropReason::BadSlowProtocol)?;
        let slow = self.limits.slow_protocols.get_mut(member.index());
        if !slow.is_some_and(|slow| slow.take(self.now)) {
            self.stats.events_lost += 1;
            return Ok(Done::Heard);
        }
        match frame {
            lag::Slow::Lacp(pdu) => {
                self.events.push(self.stats, Event::Lacp { member, pdu });
                Ok(Done::Heard)
            }
            lag::Slow::Marker => {
                let mac = self
                    .interfaces
                    .member(member)
                    .ok_or(DropReason::MemberNotCollecting)?;
                lag::answer_marker(buf.data_mut(), mac);
                Ok(Done::Answered)
            }
            lag::Slow::MarkerResponse => Ok(Done::Heard),
        }
    }

    fn sighted(&mut self, ingress: &L3Interface, outcome: replies::Outcome) -> Done {
        if let Some(report) = outcome.report {
            let NeighbourReport {
                address,
                mac,
                message,
            } = report;
            let event = Event::Neighbour {
                instance: ingress.instance(),
                address,
                mac,
                message,
            };
            self.events.push(self.stats, event);
        }
        match outcome.is_reply {
            true => Done::Answered,
            false => Done::Heard,
        }
    }

    /// IP for one of our addresses, or for a group.
    fn host<B: PacketBuf + PacketMetadata>(
        &mut self,
        buf: &mut B,
        ingress: &L3Interface,
        l3: usize,
        tuple: &IpTuple,
        local: Option<LocalId>,
    ) -> Result<Done, DropReason> {
        let l4 = l3 + usize::from(tuple.l4_offset);
        if !is_icmp(tuple) {
            return Err(DropReason::NotForUs);
        }
        let kind = *buf.data().get(l4 + TYPE).ok_or(DropReason::TruncatedIcmp)?;
        match tuple.addrs.dst() {
            IpAddr::V6(destination) if replies::is_discovery(kind) => {
                let own = ingress.own_v6.ok_or(DropReason::NotForUs)?;
                if !is_discovery_for(own.address, destination) {
                    return Err(DropReason::NotForUs);
                }
                let outcome = replies::discovery(buf, l3, l4, own)?;
                match self.sighted(ingress, outcome) {
                    Done::Heard if kind == replies::NEIGHBOUR_SOLICITATION => Ok(Done::Unanswered),
                    done => Ok(done),
                }
            }
            _ if local.is_none() => Err(DropReason::NotForUs),
            _ if !ingress.may_answer(tuple.addrs.src()) => Err(DropReason::MartianSource),
            _ if is_too_big(tuple, kind) && ingress.tunnels => self.too_big(buf, l3, tuple),
            _ if is_ping(tuple, kind) && !self.limits.pings.take(tuple.addrs.src(), self.now) => {
                Err(DropReason::RateLimited)
            }
            IpAddr::V4(_) => {
                replies::echo_v4(buf.data_mut(), l3, l4, ingress.interface.mac).map(|()| Done::Answered)
            }
            IpAddr::V6(_) => {
                replies::echo_v6(buf.data_mut(), l3, l4, ingress.interface.mac).map(|()| Done::Answered)
            }
        }
    }

    /// A router reports that an own packet was too long. What is about no tunnel may be of use to the host; what
    /// recirculates was sent by no router.
    #[cold]
    fn too_big<B: PacketBuf + PacketMetadata>(
        &mut self,
        buf: &B,
        l3: usize,
        tuple: &IpTuple,
    ) -> Result<Done, DropReason> {
        let packet = buf.data().get(l3..).unwrap_or_default();
        match TooBig::parse(packet, tuple)?.filter(|_| buf.ingress().recirculations() == 0) {
            Some(told) => {
                self.events.push_too_big(self.stats, told, self.now);
                Ok(Done::Heard)
            }
            None => Err(DropReason::NotForUs),
        }
    }

    /// A GTP-U message that belongs to no tunnel.
    fn signalling<B: PacketBuf>(
        &mut self,
        buf: &mut B,
        ingress: &L3Interface,
        gtpu: &GtpuFrame,
        local: LocalId,
    ) -> Result<Done, DropReason> {
        let peer = gtpu.outer.addrs.src();
        if !ingress.may_answer(peer) {
            return Err(DropReason::MartianSource);
        }
        verify(buf, gtpu)?;
        let path = Path {
            local: gtpu.outer.addrs.dst(),
            peer,
        };
        match gtpu.message_type {
            MessageType::ECHO_REQUEST if gtpu.unknown.refused_by_endpoint() => {
                Err(DropReason::UnknownGtpuExtension)
            }
            MessageType::ECHO_REQUEST if !self.limits.echoes.take(path, self.now) => {
                Err(DropReason::RateLimited)
            }
            MessageType::ECHO_REQUEST => {
                let mac = ingress.interface.mac;
                let frame = Frame::back(buf.data(), gtpu, mac, Message::EchoResponse)?;
                frame.put_into(buf).map(|()| Done::Answered)
            }
            MessageType::ECHO_RESPONSE => {
                let sequence = gtpu.sequence.unwrap_or(0);
                self.events.push_unsolicited(
                    self.stats,
                    Event::EchoResponse {
                        peer,
                        local,
                        sequence,
                    },
                );
                Ok(Done::Heard)
            }
            MessageType::ERROR_INDICATION => {
                let message = ErrorIndication::read(&gtpu.message(buf.data())?)?;
                // The peer without a context is the one that we send to, and reports it from that address.
                if message.peer != peer {
                    return Err(DropReason::ForeignErrorIndication);
                }
                let teid = message.teid;
                self.events
                    .push_error_indication(self.stats, peer, teid, self.now);
                Ok(Done::Heard)
            }
            MessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION => Ok(Done::Heard),
            _ => Err(DropReason::UnsupportedGtpuMessage),
        }
    }
}

/// Whether packets of this kind that have an effect report neighbours.
fn is_discovery(kind: Kind) -> bool {
    matches!(kind, Kind::Arp | Kind::Host | Kind::Group)
}

/// Whether an IP packet is an ICMP message of its family.
fn is_icmp(tuple: &IpTuple) -> bool {
    tuple.proto
        == if tuple.addrs.is_v4() {
            proto::ICMP
        } else {
            proto::ICMPV6
        }
}

/// Whether an ICMP message of this type may report that a packet was too long.
fn is_too_big(tuple: &IpTuple, kind: u8) -> bool {
    kind == match tuple.addrs.is_v4() {
        true => v4_type::UNREACHABLE,
        false => v6_type::PACKET_TOO_BIG,
    }
}

/// Whether an ICMP message of this type is an Echo Request.
fn is_ping(tuple: &IpTuple, kind: u8) -> bool {
    kind == match tuple.addrs.is_v4() {
        true => v4_type::ECHO_REQUEST,
        false => v6_type::ECHO_REQUEST,
    }
}

fn is_discovery_for(ours: Ipv6Addr, destination: Ipv6Addr) -> bool {
    destination == ours || replies::listens_to(ours, destination)
}

/// The UDP checksum of a message that is believed: a user packet has one of its own, this has not.
fn verify<B: PacketBuf>(buf: &B, gtpu: &GtpuFrame) -> Result<(), DropReason> {
    if buf.data().len() < buf.len() {
        return Err(DropReason::BadUdpLength);
    }
    gtpu.verify_udp_checksum(buf.data(), Sum::default(), true)
}
