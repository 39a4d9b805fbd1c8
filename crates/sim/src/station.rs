//! A station on a link: it answers for its addresses and finds out the MAC address of the user plane beside it.
//!
//! The gNBs of a [`Shard`](crate::Shard) are one station on the access side, the data network's router and servers
//! are one on the core side. A station answers ARP (RFC 826), Neighbour Solicitations (RFC 4861 §7.2.4) and ICMP
//! and ICMPv6 echo requests for its own addresses; of others it knows only its gateways. Foreign octets are never
//! trusted: a frame that is malformed or not for this station gets no reply.
//!
//! Owned by the thread that polls the shard; at most [`MAX_QUEUED`] frames wait to be sent.

use crate::Nanos;
use crate::sum::Sum;
use packet::{MacAddr, VlanId};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Most replies and solicitations that wait for room; further ones are not sent.
pub const MAX_QUEUED: usize = 64;
/// Longest echo request that is answered, octets of frame.
pub const MAX_ECHO: usize = 2048;
/// How often an unknown gateway is asked for (RFC 4861 §10, RETRANS_TIMER).
pub const SOLICIT_EVERY: Duration = Duration::from_secs(1);

pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const VLAN: u16 = 0x8100;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Configuration of a station.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StationConfig {
    /// Its MAC address.
    pub mac: MacAddr,
    /// The 802.1Q tag of its frames; frames with another one are not its own.
    pub vlan: Option<VlanId>,
    /// Its addresses: those of gNBs or, in the data network, of router and servers. The first of a family asks.
    pub addresses: Vec<IpAddr>,
    /// The user plane's IPv4 address on this link.
    pub gateway_ipv4: Option<Ipv4Addr>,
    /// The user plane's IPv6 address on this link.
    pub gateway_ipv6: Option<Ipv6Addr>,
    /// The user plane's MAC address; `None`: the station asks for it.
    pub gateway_mac: Option<MacAddr>,
}

/// An address family: index of per-family state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    fn ethertype(self) -> u16 {
        match self {
            Family::V4 => IPV4,
            Family::V6 => IPV6,
        }
    }
}

/// The octets before an IP header on a station's link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkHeader {
    octets: [u8; 18],
    length: usize,
}

impl LinkHeader {
    fn new(from: MacAddr, to: MacAddr, vlan: Option<VlanId>, ethertype: u16) -> LinkHeader {
        let mut octets = [0; 18];
        octets[..6].copy_from_slice(&to.0);
        octets[6..12].copy_from_slice(&from.0);
        let Some(vlan) = vlan else {
            octets[12..14].copy_from_slice(&ethertype.to_be_bytes());
            return LinkHeader { octets, length: 14 };
        };
        octets[12..14].copy_from_slice(&VLAN.to_be_bytes());
        octets[14..16].copy_from_slice(&vlan.get().to_be_bytes());
        octets[16..18].copy_from_slice(&ethertype.to_be_bytes());
        LinkHeader { octets, length: 18 }
    }

    #[inline]
    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets[..self.length]
    }
}

/// A frame that is addressed to a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) ethertype: u16,
    pub(crate) from: MacAddr,
    /// The octets behind the link header.
    pub(crate) rest: &'a [u8],
}

/// A station and the neighbours that it learnt.
#[derive(Debug, Clone)]
pub(crate) struct Station {
    config: StationConfig,
    /// By family: link headers towards the gateway, once its MAC address is known.
    links: [Option<LinkHeader>; 2],
    solicit_at: Nanos,
    queue: VecDeque<Vec<u8>>,
}

impl Station {
    pub(crate) fn new(config: StationConfig) -> Station {
        let links = [IPV4, IPV6].map(|ethertype| {
            config
                .gateway_mac
                .map(|mac| LinkHeader::new(config.mac, mac, config.vlan, ethertype))
        });
        Station {
            config,
            links,
            solicit_at: Nanos(0),
            queue: VecDeque::new(),
        }
    }

    /// The link header towards the gateway; `None` until its MAC address is known.
    #[inline]
    pub(crate) fn link(&self, family: Family) -> Option<&LinkHeader> {
        self.links[family as usize].as_ref()
    }

    /// Whether all gateways are known that were configured.
    pub(crate) fn is_ready(&self) -> bool {
        self.wanted().next().is_none()
    }

    pub(crate) fn owns(&self, address: IpAddr) -> bool {
        self.config.addresses.contains(&address)
    }

    /// Asks for unknown gateways when it is time to.
    pub(crate) fn poll(&mut self, now: Nanos) {
        if self.is_ready() || now < self.solicit_at {
            return;
        }
        self.solicit_at = now + SOLICIT_EVERY;
        let questions: Vec<_> = self
            .wanted()
            .filter_map(|gateway| self.question(gateway))
            .collect();
        questions.into_iter().for_each(|frame| self.send(frame));
    }

    /// The next frame to send that is not part of the traffic.
    pub(crate) fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.queue.pop_front()
    }

    /// Puts a frame back that found no room.
    pub(crate) fn put_back(&mut self, frame: Vec<u8>) {
        self.queue.push_front(frame);
    }

    /// Queues a frame, if there is room.
    pub(crate) fn send(&mut self, frame: Vec<u8>) {
        if self.queue.len() < MAX_QUEUED {
            self.queue.push_back(frame);
        }
    }

    /// Queues an IP packet towards `to`.
    pub(crate) fn send_ip(&mut self, to: MacAddr, family: Family, packet: &[u8]) {
        let link = LinkHeader::new(self.config.mac, to, self.config.vlan, family.ethertype());
        self.send([link.octets(), packet].concat());
    }

    /// Takes the link header off a frame that is for this station (or a group) and on its VLAN.
    #[inline]
    pub(crate) fn accept<'a>(&self, frame: &'a [u8]) -> Option<Frame<'a>> {
        let (addresses, rest) = frame.split_first_chunk::<12>()?;
        let (ethertype, mut rest) = rest.split_first_chunk::<2>()?;
        let mut ethertype = u16::from_be_bytes(*ethertype);
        let mut vlan = None;
        if ethertype == VLAN {
            let (tag, after) = rest.split_first_chunk::<4>()?;
            vlan = Some(VlanId::from_low_bits(u16::from_be_bytes([tag[0], tag[1]])));
            ethertype = u16::from_be_bytes([tag[2], tag[3]]);
            rest = after;
        }
        let to = MacAddr([
            addresses[0],
            addresses[1],
            addresses[2],
            addresses[3],
            addresses[4],
            addresses[5],
        ]);
        let from = MacAddr([
            addresses[6],
            addresses[7],
            addresses[8],
            addresses[9],
            addresses[10],
            addresses[11],
        ]);
        let ours = (to == self.config.mac || to.is_multicast()) && vlan == self.config.vlan;
        ours.then_some(Frame {
            ethertype,
            from,
            rest,
        })
    }

    /// Handles a frame that is not part of the traffic: ARP, ND, ICMP echo. False: it was none of these.
    pub(crate) fn handle(&mut self, frame: &Frame) -> bool {
        let handled = match frame.ethertype {
            ARP => self.handle_arp(frame),
            IPV4 => self.handle_icmp(frame),
            IPV6 => self.handle_icmpv6(frame),
            _ => None,
        };
        handled.is_some()
    }

    /// Gateways whose MAC address is not known.
    fn wanted(&self) -> impl Iterator<Item = IpAddr> {
        let v4 = self
            .config
            .gateway_ipv4
            .filter(|_| self.links[0].is_none())
            .map(IpAddr::V4);
        let v6 = self
            .config
            .gateway_ipv6
            .filter(|_| self.links[1].is_none())
            .map(IpAddr::V6);
        v4.into_iter().chain(v6)
    }

    fn question(&self, gateway: IpAddr) -> Option<Vec<u8>> {
        match gateway {
            IpAddr::V4(gateway) => {
                let own = self.config.addresses.iter().find_map(|address| v4(*address))?;
                Some(self.arp(1, own, MacAddr::BROADCAST, MacAddr::ZERO, gateway))
            }
            IpAddr::V6(gateway) => {
                let own = self.config.addresses.iter().find_map(|address| v6(*address))?;
                Some(self.solicitation(own, gateway))
            }
        }
    }

    fn arp(&self, operation: u8, own: Ipv4Addr, link_to: MacAddr, to: MacAddr, to_ip: Ipv4Addr) -> Vec<u8> {
        let link = LinkHeader::new(self.config.mac, link_to, self.config.vlan, ARP);
        let fixed = [0, 1, 8, 0, 6, 4, 0, operation];
        [
            link.octets(),
            &fixed,
            &self.config.mac.0,
            &own.octets(),
            &to.0,
            &to_ip.octets(),
        ]
        .concat()
    }

    fn solicitation(&self, own: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
        let [.., a, b, c] = target.octets();
        let group = Ipv6Addr::new(
            0xff02,
            0,
            0,
            0,
            0,
            1,
            0xff00 | u16::from(a),
            u16::from_be_bytes([b, c]),
        );
        let message = [
            &[135, 0, 0, 0, 0, 0, 0, 0][..],
            &target.octets(),
            &[1, 1],
            &self.config.mac.0,
        ]
        .concat();
        let link = LinkHeader::new(
            self.config.mac,
            MacAddr([0x33, 0x33, 0xff, a, b, c]),
            self.config.vlan,
            IPV6,
        );
        [link.octets(), &icmpv6(own, group, 255, message)].concat()
    }

    fn learn(&mut self, address: IpAddr, mac: MacAddr) {
        let known = [
            self.config.gateway_ipv4.map(IpAddr::V4),
            self.config.gateway_ipv6.map(IpAddr::V6),
        ];
        if known.contains(&Some(address)) && mac.is_station() && self.config.gateway_mac.is_none() {
            let family = Family::of(address);
            let link = LinkHeader::new(self.config.mac, mac, self.config.vlan, family.ethertype());
            self.links[family as usize] = Some(link);
        }
    }

    fn handle_arp(&mut self, frame: &Frame) -> Option<()> {
        let (fixed, rest) = frame.rest.split_first_chunk::<8>()?;
        let (body, _) = rest.split_first_chunk::<20>()?;
        let (sender, target) = (mac_at(body, 0)?, ipv4_at(body, 16)?);
        let sender_ip = ipv4_at(body, 6)?;
        if fixed[..7] != [0, 1, 8, 0, 6, 4, 0] || sender != frame.from {
            return Some(());
        }
        self.learn(IpAddr::V4(sender_ip), sender);
        if fixed[7] == 1 && self.owns(IpAddr::V4(target)) {
            let reply = self.arp(2, target, sender, sender, sender_ip);
            self.send(reply);
        }
        Some(())
    }

    fn handle_icmp(&mut self, frame: &Frame) -> Option<()> {
        let total = usize::from(u16::from_be_bytes(*frame.rest.get(2..4)?.first_chunk()?));
        let packet = frame.rest.get(..total.min(MAX_ECHO))?;
        let (header, message) = packet.split_first_chunk::<20>()?;
        let (from, to) = (ipv4_at(header, 12)?, ipv4_at(header, 16)?);
        let is_echo = header[0] == 0x45 && header[9] == ICMP && message.first() == Some(&8);
        if !is_echo || !self.owns(IpAddr::V4(to)) {
            return None;
        }
        let intact =
            Sum::default().octets(header).checksum() == 0 && Sum::default().octets(message).checksum() == 0;
        if intact && total == packet.len() {
            let reply = echo_reply(header, message, to, from);
            self.send_ip(frame.from, Family::V4, &reply);
        }
        Some(())
    }

    fn handle_icmpv6(&mut self, frame: &Frame) -> Option<()> {
        let (header, rest) = frame.rest.split_first_chunk::<40>()?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let message = rest.get(..length.min(MAX_ECHO))?;
        let (from, to) = (ipv6_at(header, 8)?, ipv6_at(header, 24)?);
        if header[0] >> 4 != 6 || header[6] != ICMPV6 || message.len() < 8 {
            return None;
        }
        let for_us = to.is_multicast() || self.owns(IpAddr::V6(to));
        match message[0] {
            _ if icmpv6_sum(from, to, message).checksum() != 0 => (message[0] >= 128 && for_us).then_some(()),
            128 if self.owns(IpAddr::V6(to)) => {
                let reply = [&[129, 0, 0, 0], &message[4..]].concat();
                self.send_ip(frame.from, Family::V6, &icmpv6(to, from, 64, reply));
                Some(())
            }
            135 if header[7] == 255 => self.handle_solicitation(frame, from, message),
            136 if header[7] == 255 => {
                let mac = link_layer_option(message.get(24..)?, 2).unwrap_or(frame.from);
                self.learn(IpAddr::V6(ipv6_at(message, 8)?), mac);
                Some(())
            }
            _ => None,
        }
    }

    fn handle_solicitation(&mut self, frame: &Frame, from: Ipv6Addr, message: &[u8]) -> Option<()> {
        let target = ipv6_at(message, 8)?;
        if let Some(mac) = link_layer_option(message.get(24..)?, 1) {
            self.learn(IpAddr::V6(from), mac);
        }
        if self.owns(IpAddr::V6(target)) && !from.is_unspecified() {
            // Flags: solicited, override.
            let flags = [136, 0, 0, 0, 0x60, 0, 0, 0];
            let reply = [&flags[..], &target.octets(), &[2, 1], &self.config.mac.0].concat();
            self.send_ip(frame.from, Family::V6, &icmpv6(target, from, 255, reply));
        }
        Some(())
    }
}

fn echo_reply(request: &[u8; 20], message: &[u8], from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let mut header = *request;
    header[4..9].copy_from_slice(&[0, 0, 0x40, 0, 64]);
    header[10..12].fill(0);
    header[12..16].copy_from_slice(&from.octets());
    header[16..20].copy_from_slice(&to.octets());
    let sum = Sum::default().octets(&header).checksum();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut reply = message.to_vec();
    reply[0] = 0;
    reply[2..4].fill(0);
    let sum = Sum::default().octets(&reply).checksum();
    reply[2..4].copy_from_slice(&sum.to_be_bytes());
    [&header[..], &reply].concat()
}

/// An IPv6 packet with an ICMPv6 message, whose checksum is filled in.
fn icmpv6(from: Ipv6Addr, to: Ipv6Addr, hop_limit: u8, mut message: Vec<u8>) -> Vec<u8> {
    message[2..4].fill(0);
    let sum = icmpv6_sum(from, to, &message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let [high, low] = (message.len() as u16).to_be_bytes();
    let fixed = [0x60, 0, 0, 0, high, low, ICMPV6, hop_limit];
    [&fixed[..], &from.octets(), &to.octets(), &message].concat()
}

fn icmpv6_sum(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> Sum {
    let pseudo = Sum::default().octets(&from.octets()).octets(&to.octets());
    pseudo
        .word(message.len() as u16)
        .word(u16::from(ICMPV6))
        .octets(message)
}

/// The first link-layer address option of `kind` (RFC 4861 §4.6.1).
fn link_layer_option(mut options: &[u8], kind: u8) -> Option<MacAddr> {
    loop {
        let length = usize::from(*options.get(1)?) * 8;
        let option = options.get(..length).filter(|option| !option.is_empty())?;
        if option[0] == kind {
            return mac_at(option, 2);
        }
        options = &options[length..];
    }
}

fn mac_at(octets: &[u8], at: usize) -> Option<MacAddr> {
    octets.get(at..)?.first_chunk().map(|mac| MacAddr(*mac))
}

fn ipv4_at(octets: &[u8], at: usize) -> Option<Ipv4Addr> {
    octets
        .get(at..)?
        .first_chunk::<4>()
        .map(|address| Ipv4Addr::from(*address))
}

fn ipv6_at(octets: &[u8], at: usize) -> Option<Ipv6Addr> {
    octets
        .get(at..)?
        .first_chunk::<16>()
        .map(|address| Ipv6Addr::from(*address))
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

fn v6(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(address),
    }
}
