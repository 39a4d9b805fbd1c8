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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet of version 1 of this type, with `payload` octets behind its Length.
    fn long(kind: u8, token: &[u8], payload: u8) -> Vec<u8> {
        let ids = [2, 0xaa, 0xbb, 1, 0xcc];
        let start = [&[0xc0 | kind << 4, 0, 0, 0, 1][..], &ids, token, &[payload]].concat();
        [start, vec![7; usize::from(payload)]].concat()
    }

    fn lengths(datagram: &[u8]) -> Vec<usize> {
        packets(datagram).map(|initial| initial.packet.len()).collect()
    }

    #[test]
    fn initial_packets_are_found_among_others() {
        let initial = long(0, &[3, 1, 2, 3], 9);
        let (zero_rtt, handshake, retry) = (long(1, &[], 5), long(2, &[], 5), long(3, &[], 5));
        let one = packets(&initial).next().expect("an Initial packet");
        assert_eq!(
            (one.version, one.destination.as_bytes()),
            (Version::V1, &[0xaa, 0xbb][..])
        );
        assert_eq!((one.number_at, one.packet), (15, &initial[..]));

        let whole = initial.len();
        assert_eq!(
            lengths(&[&zero_rtt[..], &initial, &handshake, &initial].concat()),
            [whole, whole]
        );
        assert_eq!(lengths(&[&initial[..], &retry, &initial].concat()), [whole]);
        assert_eq!(lengths(&[&initial[..], &[0; 30], &initial].concat()), [whole]);
        assert_eq!(lengths(&initial[..whole - 1]), []);
        assert_eq!(lengths(&initial.repeat(20)), [whole; MOST_PACKETS]);
    }

    #[test]
    fn types_of_version_2_are_others() {
        let mut initial = long(1, &[0], 9);
        initial[1..5].copy_from_slice(&[0x6b, 0x33, 0x43, 0xcf]);
        assert_eq!(
            packets(&initial).map(|packet| packet.version).collect::<Vec<_>>(),
            [Version::V2]
        );
        initial[0] = 0xc0;
        assert_eq!(lengths(&initial), []);
    }

    #[test]
    fn long_connection_ids_and_other_versions_are_none() {
        let mut long_id = vec![0xc0, 0, 0, 0, 1, 21];
        long_id.extend([0; 40]);
        assert_eq!(lengths(&long_id), []);
        let mut other = long(0, &[0], 9);
        other[4] = 9;
        assert!(lengths(&other).is_empty() && is_long_header(&other));
        other[4] = 0;
        assert!(!is_long_header(&other) && !is_long_header(&other[..4]));
    }

    proptest! {
        #[test]
        fn any_datagram_ends(octets in prop::collection::vec(any::<u8>(), 0..100)) {
            let datagram = [&[0xc0, 0, 0, 0, 1][..], &octets].concat();
            prop_assert!(packets(&datagram).count() <= MOST_PACKETS);
        }
    }
}
