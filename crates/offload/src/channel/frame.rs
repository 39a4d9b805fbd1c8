//! Frames: Ethernet header, fixed header, payload, MAC.

use packet::eth::{self, Tci, ether_type};
use packet::{MacAddr, VlanId};
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::auth::{MAC_LEN, MacKey};
use super::stats::Discard;

/// The EtherType of control frames: IEEE 802 local experimental 1 (IEEE 802 §9.2.4).
pub const ETHER_TYPE: u16 = 0x88b5;
/// The version of the protocol.
pub const VERSION: u8 = 1;
/// Octets of [`Header`].
pub const HEADER_LEN: usize = size_of::<Header>();
/// Octets of the length before each message.
pub const PREFIX_LEN: usize = 2;
/// The most octets of a frame behind the Ethernet header that an end accepts, whatever its own MTU is.
pub const MAX_MTU: usize = 9_216;
/// The priority of control frames in a VLAN tag: network control (IEEE 802.1Q table I-2).
const PRIORITY: u16 = 7;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The host begins a contact.
    Hello = 1,
    /// The accelerator responds.
    Welcome = 2,
    /// The host proves that it has the key.
    Confirm = 3,
    /// Messages, none of them in a heartbeat.
    Data = 4,
    /// An acknowledgement alone.
    Ack = 5,
}

impl Kind {
    fn from_octet(octet: u8) -> Option<Self> {
        [Self::Hello, Self::Welcome, Self::Confirm, Self::Data, Self::Ack]
            .into_iter()
            .find(|kind| *kind as u8 == octet)
    }
}

/// The fixed header, in the order of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// [`VERSION`].
    pub version: u8,
    /// A [`Kind`].
    pub kind: u8,
    /// The number of the channel.
    pub channel: u8,
    /// Who sent it: 0 the host, 1 the accelerator.
    pub role: u8,
    /// The number of the contact, which the host counts.
    pub handshake: U32,
    /// The sender's boot.
    pub boot: U64,
    /// Number of a DATA frame, 0 in all others.
    pub sequence: U64,
    /// All DATA frames up to this one are taken.
    pub acknowledged: U64,
    /// Bit n: the DATA frame `acknowledged + 1 + n` has arrived.
    pub bitmap: U64,
    /// Octets of the payload.
    pub length: U16,
    /// 0, and ignored.
    pub reserved: U16,
}

const _: () = assert!(HEADER_LEN == 44);

/// Which frames an end takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter {
    pub own_mac: MacAddr,
    pub peer_mac: Option<MacAddr>,
    pub vlan: Option<VlanId>,
    pub channel: u8,
    /// The octet of the peer's role.
    pub role: u8,
}

/// A received frame whose form is right and whose MAC is not checked yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub src: MacAddr,
    pub kind: Kind,
    pub header: &'a Header,
    pub payload: &'a [u8],
    sealed: &'a [u8],
    mac: &'a [u8; MAC_LEN],
}

impl<'a> Frame<'a> {
    /// The frame in `octets`, or why it is not for this end. Octets behind the MAC are ignored.
    pub fn read(octets: &'a [u8], filter: &Filter) -> Result<Self, Discard> {
        let (eth, vid, rest) = behind_ethernet(octets).ok_or(Discard::EtherType)?;
        if vid != filter.vlan.map_or(0, VlanId::get) {
            return Err(Discard::Vlan);
        }
        let for_us = eth.dst == filter.own_mac || eth.dst == MacAddr::BROADCAST;
        if !for_us || !eth.src.is_station() || filter.peer_mac.is_some_and(|peer| peer != eth.src) {
            return Err(Discard::Address);
        }
        let (header, behind) = Header::ref_from_prefix(rest).map_err(|_| Discard::Length)?;
        if header.version != VERSION {
            return Err(Discard::Version);
        }
        if header.channel != filter.channel {
            return Err(Discard::Channel);
        }
        if header.role != filter.role {
            return Err(Discard::Role);
        }
        let length = usize::from(header.length.get());
        if length > MAX_MTU - HEADER_LEN - MAC_LEN {
            return Err(Discard::Length);
        }
        let (payload, behind) = behind.split_at_checked(length).ok_or(Discard::Length)?;
        let mac = behind.first_chunk().ok_or(Discard::Length)?;
        Ok(Self {
            src: eth.src,
            kind: Kind::from_octet(header.kind).ok_or(Discard::Kind)?,
            header,
            payload,
            sealed: rest.get(..HEADER_LEN + length).ok_or(Discard::Length)?,
            mac,
        })
    }

    /// An error when the MAC is not of `key`.
    pub fn verify(&self, key: &MacKey) -> Result<(), Discard> {
        if key.verifies(self.sealed, self.mac) {
            Ok(())
        } else {
            Err(Discard::Mac)
        }
    }
}

/// The Ethernet header, the VLAN's identifier (0: none) and what is behind the EtherType of control frames.
fn behind_ethernet(octets: &[u8]) -> Option<(&eth::Header, u16, &[u8])> {
    let (header, rest) = eth::Header::ref_from_prefix(octets).ok()?;
    match header.ether_type.get() {
        ETHER_TYPE => Some((header, 0, rest)),
        ether_type::VLAN => {
            let (tag, rest) = eth::Tag::ref_from_prefix(rest).ok()?;
            let vid = Tci(tag.tci.get()).vid().get();
            (tag.ether_type.get() == ETHER_TYPE).then_some((header, vid, rest))
        }
        _ => None,
    }
}

/// The channel that a control frame is of, so that it can be given to its end; nothing of other frames.
pub fn channel_of(octets: &[u8]) -> Option<u8> {
    let (_, _, rest) = behind_ethernet(octets)?;
    let (header, _) = Header::ref_from_prefix(rest).ok()?;
    Some(header.channel)
}

/// The addresses and the tag of frames that are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Envelope {
    pub dst: MacAddr,
    pub src: MacAddr,
    pub vlan: Option<VlanId>,
}

/// A header whose fields of the transport are 0.
pub(super) fn header(kind: Kind, channel: u8, role: u8, handshake: u32, boot: u64) -> Header {
    Header {
        version: VERSION,
        kind: kind as u8,
        channel,
        role,
        handshake: handshake.into(),
        boot: boot.into(),
        ..Header::new_zeroed()
    }
}

/// Writes a frame to `out`, which is cleared before. `payload` has up to 9,156 octets, by the MTU.
pub(super) fn write(
    out: &mut Vec<u8>,
    envelope: &Envelope,
    mut header: Header,
    key: &MacKey,
    payload: &[u8],
) {
    out.clear();
    out.extend_from_slice(&envelope.dst.0);
    out.extend_from_slice(&envelope.src.0);
    if let Some(vlan) = envelope.vlan {
        out.extend_from_slice(&ether_type::VLAN.to_be_bytes());
        out.extend_from_slice(&(vlan.get() | PRIORITY << 13).to_be_bytes());
    }
    out.extend_from_slice(&ETHER_TYPE.to_be_bytes());
    let begin = out.len();
    header.length.set(payload.len() as u16);
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(payload);
    let mac = key.mac(out.get(begin..).unwrap_or_default());
    out.extend_from_slice(&mac);
}
