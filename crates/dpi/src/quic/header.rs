//! Long headers (RFC 9000 §17.2, RFC 9369 §3.2), and the packets that a datagram has (RFC 9000 §12.2).

use crate::reader::Reader;

/// The longest Connection ID of the versions read here, octets (RFC 9000 §17.2).
pub const LONGEST_ID: usize = 20;
/// Most packets of a datagram that are looked at. A client sends one for each level of encryption.
const MOST_PACKETS: usize = 8;
/// In the first octet: a long header, and the fixed bit (RFC 9000 §17.2).
const LONG_HEADER: u8 = 0xc0;

/// A version of QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// RFC 9000.
    V1,
    /// RFC 9369.
    V2,
}

impl Version {
    fn from_number(number: u32) -> Option<Version> {
        match number {
            1 => Some(Version::V1),
            0x6b33_43cf => Some(Version::V2),
            _ => None,
        }
    }

    /// What the type of Initial and of Retry packets is (RFC 9000 §17.2, RFC 9369 §3.2).
    fn types(self) -> (u8, u8) {
        match self {
            Version::V1 => (0, 3),
            Version::V2 => (1, 0),
        }
    }
}

/// A Connection ID: 0 to 20 octets (RFC 9000 §5.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    octets: [u8; LONGEST_ID],
    len: u8,
}

impl ConnectionId {
    /// The ID of these octets, if they are not more than 20.
    pub fn new(id: &[u8]) -> Option<ConnectionId> {
        let mut octets = [0; LONGEST_ID];
        octets.get_mut(..id.len())?.copy_from_slice(id);
        Some(ConnectionId {
            octets,
            len: id.len() as u8,
        })
    }

    /// Its octets.
    pub fn as_bytes(&self) -> &[u8] {
        self.octets.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl core::fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// An Initial packet, still protected.
#[derive(Clone, Copy, Debug)]
pub struct Initial<'d> {
    /// Its version.
    pub version: Version,
    /// Its Destination Connection ID.
    pub destination: ConnectionId,
    /// The packet, from its first octet to the end that its Length gives.
    pub packet: &'d [u8],
    /// Where in it the Packet Number is.
    pub number_at: usize,
}

/// Whether a datagram starts with a long header of any version but that of Version Negotiation.
pub fn is_long_header(datagram: &[u8]) -> bool {
    match datagram {
        [first, version @ .., _, _] if version.len() >= 4 => {
            first & LONG_HEADER == LONG_HEADER && version[..4] != [0; 4]
        }
        _ => false,
    }
}

/// The Initial packets of a datagram that other packets may be coalesced with. It ends at the first octets that are no
/// long header of a version read here, at a Retry packet, and after eight packets.
pub fn packets(datagram: &[u8]) -> impl Iterator<Item = Initial<'_>> {
    let mut rest = Some(datagram);
    let walk = core::iter::from_fn(move || {
        let (packet, behind) = split(rest?)?;
        rest = Some(behind);
        Some(packet)
    });
    walk.take(MOST_PACKETS).flatten()
}

/// The first packet of `datagram` if it is Initial, and what follows it.
fn split(datagram: &[u8]) -> Option<(Option<Initial<'_>>, &[u8])> {
    let mut reader = Reader::new(datagram);
    let first = reader.u8()?;
    if first & LONG_HEADER != LONG_HEADER {
        return None;
    }
    let version = Version::from_number(reader.u32()?)?;
    let destination = ConnectionId::new(reader.vector8()?)?;
    ConnectionId::new(reader.vector8()?)?;
    let (initial, retry) = version.types();
    let kind = first >> 4 & 3;
    if kind == retry {
        return None;
    }
    if kind == initial {
        let token = reader.varint()?;
        reader.take(usize::try_from(token).ok()?)?;
    }
    let len = usize::try_from(reader.varint()?).ok()?;
    let number_at = datagram.len() - reader.rest().len();
    reader.take(len)?;
    let packet = Initial {
        version,
        destination,
        packet: datagram.get(..number_at + len)?,
        number_at,
    };
    Some(((kind == initial).then_some(packet), reader.rest()))
}
