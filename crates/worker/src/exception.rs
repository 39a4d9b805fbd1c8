//! Packets for ourselves: ARP, Neighbour Discovery, ICMP echo, GTP-U path management.
//!
//! Answered in the packet's own buffer where that is possible; what they tell goes to Control as an event. Any
//! worker answers for all of our addresses. Not fast, and not allowed to be slow: no allocation, no unbounded work.

use std::net::{IpAddr, Ipv6Addr};

use flow::{LocalId, Nanos};
use packet::checksum::Sum;
use packet::gtpu::{ErrorIndication, MessageType};
use packet::tuple::proto;
use packet::{DropReason, GtpuFrame, IpTuple, PacketBuf};
use transport::replies;

use crate::answer::{Frame, Message};
use crate::descriptor::{Descriptor, Fate, Kind};
use crate::notices::Notices;
use crate::parse::read_again;
use crate::places::{Place, Places};
use crate::stats::Stats;
use crate::{Event, Ingress};

/// The first octet of ICMPv6 discovery messages lies here in the message.
const TYPE: usize = 0;

/// What the exception path works with.
pub(crate) struct Exceptions<'a> {
    pub places: &'a Places,
    pub notices: &'a mut Notices,
    pub stats: &'a mut Stats,
    pub now: Nanos,
}

impl Exceptions<'_> {
    /// Deals with every packet of a burst that is for ourselves.
    pub fn handle<B: PacketBuf + Ingress>(&mut self, burst: &mut [B], descriptors: &mut [Descriptor]) {
        for (buf, descriptor) in burst.iter_mut().zip(descriptors) {
            if !descriptor.is_open() || descriptor.kind.is_user() {
                continue;
            }
            if buf.is_chained() {
                buf.gather(buf.len());
            }
            descriptor.fate = match self.one(buf, descriptor) {
                Ok(true) => {
                    self.stats.answered += 1;
                    Fate::Send(buf.ingress())
                }
                Ok(false) => Fate::Consumed,
                Err(reason) => Fate::Drop(reason),
            };
        }
    }

    /// Whether the packet is now the answer to itself.
    fn one<B: PacketBuf>(&mut self, buf: &mut B, descriptor: &Descriptor) -> Result<bool, DropReason> {
        let places = self.places;
        let place = places
            .at(descriptor.instance)
            .ok_or(DropReason::VlanNotConfigured)?;
        match descriptor.kind {
            Kind::Arp => {
                let ours = place.interface.ipv4.ok_or(DropReason::NotForUs)?;
                let l3 = descriptor.offset.into();
                let outcome = replies::arp(buf.data_mut(), l3, ours, place.interface.mac)?;
                Ok(self.sighted(place, outcome))
            }
            Kind::Host | Kind::Group => {
                let tuple = descriptor.tuple(buf.data())?;
                self.host(buf, place, descriptor.offset.into(), &tuple, descriptor.local)
            }
            Kind::Signalling => {
                let local = descriptor.local.ok_or(DropReason::NotForUs)?;
                self.signalling(buf, place, &read_again(buf)?, local)
            }
            Kind::None | Kind::Tunnelled | Kind::Relayed | Kind::Plain => Err(DropReason::NotForUs),
        }
    }

    fn sighted(&mut self, place: &Place, outcome: replies::Outcome) -> bool {
        if let Some(seen) = outcome.sighting {
            let (address, mac, how) = (seen.address, seen.mac, seen.how);
            let event = Event::Neighbour {
                instance: place.instance(),
                address,
                mac,
                how,
            };
            self.notices.tell(self.stats, event);
        }
        outcome.answer
    }

    /// IP for one of our addresses, or for a group.
    fn host<B: PacketBuf>(
        &mut self,
        buf: &mut B,
        place: &Place,
        l3: usize,
        tuple: &IpTuple,
        local: Option<LocalId>,
    ) -> Result<bool, DropReason> {
        let l4 = l3 + usize::from(tuple.l4_offset);
        if !is_icmp(tuple) {
            return Err(DropReason::NotForUs);
        }
        let kind = *buf.data().get(l4 + TYPE).ok_or(DropReason::TruncatedIcmp)?;
        match tuple.addrs.dst() {
            IpAddr::V6(destination) if replies::is_discovery(kind) => {
                let ours = place.interface.ipv6.ok_or(DropReason::NotForUs)?;
                if !is_discovery_for(ours, destination) {
                    return Err(DropReason::NotForUs);
                }
                let outcome = replies::discovery(buf, l3, l4, ours, place.interface.mac)?;
                Ok(self.sighted(place, outcome))
            }
            _ if local.is_none() => Err(DropReason::NotForUs),
            _ if !place.may_answer(tuple.addrs.src()) => Err(DropReason::MartianSource),
            IpAddr::V4(_) => replies::echo_v4(buf.data_mut(), l3, l4, place.interface.mac).map(|()| true),
            IpAddr::V6(_) => replies::echo_v6(buf.data_mut(), l3, l4, place.interface.mac).map(|()| true),
        }
    }

    /// A GTP-U message that belongs to no tunnel.
    fn signalling<B: PacketBuf>(
        &mut self,
        buf: &mut B,
        place: &Place,
        gtpu: &GtpuFrame,
        local: LocalId,
    ) -> Result<bool, DropReason> {
        let peer = gtpu.outer.addrs.src();
        if !place.may_answer(peer) {
            return Err(DropReason::MartianSource);
        }
        verify(buf, gtpu)?;
        match gtpu.message_type {
            MessageType::ECHO_REQUEST if gtpu.unknown.refused_by_endpoint() => {
                Err(DropReason::UnknownGtpuExtension)
            }
            MessageType::ECHO_REQUEST => {
                let mac = place.interface.mac;
                let frame = Frame::back(buf.data(), gtpu, mac, Message::EchoResponse)?;
                frame.put_into(buf).map(|()| true)
            }
            MessageType::ECHO_RESPONSE => {
                let sequence = gtpu.sequence.unwrap_or(0);
                self.notices.mention(
                    self.stats,
                    Event::EchoResponse {
                        peer,
                        local,
                        sequence,
                    },
                );
                Ok(false)
            }
            MessageType::ERROR_INDICATION => {
                let message = ErrorIndication::read(&gtpu.message(buf.data())?)?;
                // Who has no context is who we sent to, and says so from there.
                if message.peer != peer {
                    return Err(DropReason::ForeignErrorIndication);
                }
                let teid = message.teid;
                self.notices.tell_error(self.stats, (peer, teid), self.now);
                Ok(false)
            }
            MessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION => Ok(false),
            _ => Err(DropReason::UnsupportedGtpuMessage),
        }
    }
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
