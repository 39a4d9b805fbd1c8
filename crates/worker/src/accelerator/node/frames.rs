//! The frames between a node and its host, as octets.

use std::hash::{BuildHasher, Hash};

use flow::{Bucket, Nanos};
use foldhash::quality::FixedState;
use offload::channel;
use offload::exception::{
    self, Answers, AnswersHeader, Class, FromHost, Marker, SealedThrough, Send, Steered,
};
use packet::eth::{self, L2, Vlan, ether_type};
use packet::gtpu::MessageType;
use packet::{Addrs, Frame, GtpuFrame, IpTuple, MacAddr, PacketBuf, VlanId, frame};

use crate::accelerator::exceptions::Exception;
use crate::io::PacketMetadata;

/// DSCPs from this one on are of packets that come before others.
const HIGH_DSCP: u8 = 32;

/// What a frame of the host's port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostFrame {
    /// Of the channel, which looks at it closely.
    Control,
    /// Of the host, with this many octets before the header.
    Exception(u16),
    /// Neither.
    Other,
}

/// The addresses and the VLAN of the frames between the two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope {
    pub own: MacAddr,
    pub host: MacAddr,
    pub vlan: Option<VlanId>,
}

impl Envelope {
    /// Octets of the Ethernet header.
    pub fn len(&self) -> usize {
        match self.vlan {
            None => eth::HEADER_LEN,
            Some(_) => eth::HEADER_LEN + eth::TAG_LEN,
        }
    }

    /// Writes the Ethernet header of an exception frame to the beginning of `out`, which has room for it.
    pub fn write(&self, out: &mut [u8]) {
        let mut octets = [0; eth::HEADER_LEN + eth::TAG_LEN];
        octets[..6].copy_from_slice(&self.host.0);
        octets[6..12].copy_from_slice(&self.own.0);
        let end = match self.vlan {
            None => 12,
            Some(vlan) => {
                octets[12..14].copy_from_slice(&ether_type::VLAN.to_be_bytes());
                octets[14..16].copy_from_slice(&vlan.get().to_be_bytes());
                16
            }
        };
        octets[end..end + 2].copy_from_slice(&exception::ETHER_TYPE.to_be_bytes());
        if let Some(room) = out.get_mut(..end + 2) {
            room.copy_from_slice(&octets[..end + 2]);
        }
    }
}

/// What a frame of the host's port is: exception frames are taken of the host alone.
pub(super) fn kind_of(octets: &[u8], envelope: Option<&Envelope>) -> HostFrame {
    let Ok(l2) = L2::parse(octets) else {
        return HostFrame::Other;
    };
    match l2.ether_type {
        channel::ETHER_TYPE => HostFrame::Control,
        exception::ETHER_TYPE => {
            let is_ours = |envelope: &&Envelope| {
                octets.get(..6) == Some(&envelope.own.0[..])
                    && octets.get(6..12) == Some(&envelope.host.0[..])
                    && l2.vlan.map_or(0, Vlan::key) == envelope.vlan.map_or(0, |vlan| u32::from(vlan.get()))
            };
            match envelope.filter(is_ours) {
                Some(_) => HostFrame::Exception(l2.len),
                None => HostFrame::Other,
            }
        }
        _ => HostFrame::Other,
    }
}

/// What an exception frame of the host says, and where in it the packet is.
pub(super) enum Said<'a> {
    Send(Send),
    /// With the octets of its header.
    Through(exception::Through, usize),
    Forged,
    Marker(Marker),
    Answers(AnswersHeader, Answers<'a>),
}

/// Reads an exception frame behind its EtherType. `verifies` is [`channel::Channel::verifies`].
pub(super) fn read<'a>(
    octets: &'a [u8],
    channel: u8,
    verifies: impl FnOnce(&[u8], &[u8; exception::MAC_LEN]) -> bool,
) -> Option<Said<'a>> {
    match FromHost::read(octets).ok()? {
        FromHost::Send(send, _) => (send.channel == channel).then_some(Said::Send(send)),
        FromHost::Marker(marker) => (marker.channel == channel).then_some(Said::Marker(marker)),
        FromHost::Through(sealed) => (sealed.channel() == channel).then(|| open(&sealed, verifies)),
        FromHost::Answers(sealed) if sealed.channel() != channel => None,
        FromHost::Answers(sealed) => Some(match sealed.open(verifies) {
            Ok((header, answers)) => Said::Answers(header, answers),
            Err(_) => Said::Forged,
        }),
    }
}

fn open(
    sealed: &SealedThrough<'_>,
    verifies: impl FnOnce(&[u8], &[u8; exception::MAC_LEN]) -> bool,
) -> Said<'static> {
    match sealed.open(verifies) {
        Ok((through, _)) => Said::Through(through, sealed.header_len()),
        Err(_) => Said::Forged,
    }
}

/// Leaves the `length` octets from `begin` on.
pub(super) fn strip<B: PacketBuf>(buf: &mut B, begin: usize, length: u16) -> bool {
    buf.trim_front(begin) && buf.truncate(length.into())
}

/// The header of an exception, as far as its packet says something. Whether tunnels end at the destination of outer
/// headers, says `ends_tunnels`: what is sent to port 2152 of another node is a user packet.
pub(super) fn header_of<B: PacketBuf + PacketMetadata>(
    Exception {
        packet,
        reason,
        is_urgent,
        hops,
        ..
    }: &Exception<B>,
    channel: u8,
    received: Nanos,
    ends_tunnels: impl FnOnce(Option<Vlan>, &Addrs) -> bool,
) -> exception::Exception {
    let (octets, length) = (packet.data(), packet.len() as u16);
    let vlan = L2::parse(octets).ok().and_then(|l2| l2.vlan);
    let found = frame::parse(octets, packet.len(), |outer| ends_tunnels(vlan, &outer.addrs)).ok();
    let tos = match &found {
        Some(Frame::Ip(ip)) => ip.tuple.tos,
        Some(Frame::Gtpu(gtpu)) => gtpu.outer.tos,
        _ => 0,
    };
    let user = found.and_then(|found| user_packet(octets, &found));
    let within = |offset: u16, begin: u16| (offset > begin && offset < length).then_some(offset);
    let begin = user.and_then(|user| within(user.begin, eth::HEADER_LEN as u16 - 1));
    exception::Exception {
        channel,
        class: match is_urgent {
            true => Class::Urgent,
            false if tos >> 2 >= HIGH_DSCP => Class::High,
            false => Class::Normal,
        },
        reason: *reason,
        tags: vlan.map_or(0, |vlan| 1 + u8::from(vlan.inner.is_some())),
        hops: *hops,
        port: packet.ingress().with_recirculations(0),
        length,
        user_packet: begin,
        layer4: begin.and_then(|begin| within(user?.layer4, begin)),
        hint: user.map_or(0, |user| hint_of(&user.tuple)),
        received,
    }
}

/// Where a user packet is in its frame.
#[derive(Clone, Copy)]
struct UserPacket {
    begin: u16,
    layer4: u16,
    tuple: IpTuple,
}

fn user_packet(octets: &[u8], found: &Frame) -> Option<UserPacket> {
    let (begin, tuple) = match found {
        Frame::Ip(ip) => (ip.l2_len, ip.tuple),
        Frame::Gtpu(gtpu) => (gtpu.payload_offset, inner_of(octets, gtpu)?),
        _ => return None,
    };
    Some(UserPacket {
        begin,
        layer4: begin.saturating_add(tuple.l4_offset),
        tuple,
    })
}

fn inner_of(octets: &[u8], gtpu: &GtpuFrame) -> Option<IpTuple> {
    if gtpu.message_type != MessageType::G_PDU {
        return None;
    }
    frame::parse_inner(octets, gtpu).ok()
}

/// The same for all packets of one direction of a flow.
fn hint_of(tuple: &IpTuple) -> u32 {
    let mut hasher = FixedState::default().build_hasher();
    match tuple.addrs {
        Addrs::V4 { src, dst } => (src, dst).hash(&mut hasher),
        Addrs::V6 { src, dst } => (src, dst).hash(&mut hasher),
    }
    (tuple.proto, tuple.src_port, tuple.dst_port, tuple.spi).hash(&mut hasher);
    std::hash::Hasher::finish(&hasher) as u32
}

/// Puts an exception's headers in front of its packet. False, and the packet is of no use, where there is no room, or
/// the frame is longer than `mtu` behind the Ethernet header.
pub(super) fn wrap<B: PacketBuf>(
    packet: &mut B,
    (header, bucket): (&exception::Exception, Option<Bucket>),
    envelope: &Envelope,
    mtu: usize,
) -> bool {
    let header_len = match bucket {
        Some(_) => Steered::LEN,
        None => exception::Exception::LEN,
    };
    let before = envelope.len() + header_len;
    if packet.len() + header_len > mtu.min(usize::from(u16::MAX)) {
        return false;
    }
    let Some(room) = packet.prepend(before) else {
        return false;
    };
    envelope.write(room);
    let room = room.get_mut(envelope.len()..before);
    room.is_some_and(|room| match bucket {
        Some(bucket) => Steered {
            header: *header,
            bucket,
        }
        .write(room)
        .is_ok(),
        None => header.write(room).is_ok(),
    })
}

/// A frame with these octets behind its EtherType, in an empty buffer. `None` where there is no room.
pub(super) fn with_envelope<B: PacketBuf>(mut buf: B, envelope: &Envelope, octets: &[u8]) -> Option<B> {
    let room = buf.append(envelope.len() + octets.len())?;
    envelope.write(room);
    room.get_mut(envelope.len()..)?.copy_from_slice(octets);
    Some(buf)
}

/// A frame of these octets in an empty buffer. False where there is no room.
pub(super) fn fill<B: PacketBuf>(buf: &mut B, octets: &[u8]) -> bool {
    let room = buf.append(octets.len());
    room.is_some_and(|room| {
        room.copy_from_slice(octets);
        true
    })
}
