//! Information elements of GTP-U signalling messages (TS 29.281 §8).

use core::net::IpAddr;

use crate::{DropReason, Teid};

/// The type of an information element. Below 128 the length is fixed, from 128 on two length octets follow, except
/// in the Extension Header Type List, which has one (TS 29.281 §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct IeType(pub u8);

impl IeType {
    /// Cause, of the error answers that TS 29.060 §11.1 asks for.
    pub const CAUSE: Self = Self(1);
    /// Recovery (§8.2).
    pub const RECOVERY: Self = Self(14);
    /// Tunnel Endpoint Identifier Data I (§8.3).
    pub const TEID_DATA_I: Self = Self(16);
    /// GTP-U Peer Address (§8.4).
    pub const PEER_ADDRESS: Self = Self(133);
    /// Extension Header Type List (§8.5).
    pub const EXTENSION_HEADER_TYPE_LIST: Self = Self(141);
    /// GTP-U Tunnel Status Information (§8.7).
    pub const TUNNEL_STATUS_INFORMATION: Self = Self(230);
    /// Recovery Time Stamp.
    pub const RECOVERY_TIME_STAMP: Self = Self(231);
    /// Private Extension (§8.6).
    pub const PRIVATE_EXTENSION: Self = Self(255);

    /// Types from this one on say their length (§8.1).
    const FIRST_OPEN: u8 = 128;

    /// Octets of a fixed-length element's value; `None` for a type below 128 that GTP-U does not have.
    const fn fixed_len(self) -> Option<usize> {
        match self {
            Self::CAUSE | Self::RECOVERY => Some(1),
            Self::TEID_DATA_I => Some(4),
            _ => None,
        }
    }
}

/// One information element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ie<'a> {
    /// Recovery: a restart counter, which GTP-U sends as 0 and receivers ignore.
    Recovery(u8),
    /// The TEID of the G-PDU that an Error Indication is about.
    TeidDataI(Teid),
    /// The address that this G-PDU was sent to.
    PeerAddress(IpAddr),
    /// The extension header types that a node supports, one an octet.
    ExtensionHeaderTypeList(&'a [u8]),
    /// Vendor or operator specific.
    PrivateExtension(PrivateExtension<'a>),
    /// Any other: type and value, to be skipped.
    Other(IeType, &'a [u8]),
}

/// Start Pause of Charging, in the GTP-U Tunnel Status Information (TS 29.281 §8.7).
const SPOC: u8 = 1;

/// A Private Extension (TS 29.281 §8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateExtension<'a> {
    /// Private enterprise number.
    pub enterprise: u16,
    /// What that enterprise put there.
    pub value: &'a [u8],
}

/// The information elements of a message, one after the other. Ends after an error.
#[derive(Clone, Debug)]
pub struct Ies<'a>(&'a [u8]);

impl<'a> Ies<'a> {
    /// The elements in `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Octets of the longest End Marker or Tunnel Status message that is relayed from tunnel to tunnel, without its
    /// header.
    pub const MAX_RELAYED: usize = 128;

    /// Whether these are the elements of an End Marker or a Tunnel Status message (TS 29.281 §7.3.2, §7.3.3):
    /// well-formed, none of those that other messages have, and not more than [`MAX_RELAYED`](Self::MAX_RELAYED)
    /// octets.
    pub fn may_be_relayed(mut self) -> bool {
        self.0.len() <= Self::MAX_RELAYED
            && self.all(|ie| {
                matches!(
                    ie,
                    Ok(Ie::PrivateExtension(_) | Ie::Other(IeType(IeType::FIRST_OPEN..), _))
                )
            })
    }

    /// The elements of a Tunnel Status that starts a Pause of Charging (TS 29.281 §7.3.3, §8.7).
    pub const START_PAUSE_OF_CHARGING: [u8; 4] = [IeType::TUNNEL_STATUS_INFORMATION.0, 0, 1, SPOC];

    /// Whether these elements, of a Tunnel Status message, signal the start of a Pause of Charging (SPOC, TS 29.281
    /// §8.7). The first of their kind counts.
    pub fn start_pause_of_charging(mut self) -> bool {
        let status = self.find_map(|ie| match ie {
            Ok(Ie::Other(IeType::TUNNEL_STATUS_INFORMATION, value)) => Some(value),
            _ => None,
        });
        let flags = status.and_then(|value| value.first());
        flags.is_some_and(|flags| flags & SPOC != 0)
    }

    fn take(&mut self) -> Option<Ie<'a>> {
        let (&kind, rest) = self.0.split_first()?;
        let kind = IeType(kind);
        let (value, rest) = match kind {
            IeType::EXTENSION_HEADER_TYPE_LIST => {
                let (&len, rest) = rest.split_first()?;
                rest.split_at_checked(usize::from(len))?
            }
            IeType(128..) => {
                let (len, rest) = rest.split_first_chunk::<2>()?;
                rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?
            }
            _ => rest.split_at_checked(kind.fixed_len()?)?,
        };
        self.0 = rest;
        Ie::read(kind, value)
    }
}

impl<'a> Iterator for Ies<'a> {
    type Item = Result<Ie<'a>, DropReason>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        Some(self.take().ok_or_else(|| {
            self.0 = &[];
            DropReason::BadGtpuIe
        }))
    }
}

impl<'a> Ie<'a> {
    /// `None` when the value has not the length of its type.
    fn read(kind: IeType, value: &'a [u8]) -> Option<Self> {
        Some(match kind {
            IeType::RECOVERY => Self::Recovery(*value.first()?),
            IeType::TEID_DATA_I => Self::TeidDataI(Teid(u32::from_be_bytes(value.try_into().ok()?))),
            IeType::PEER_ADDRESS => Self::PeerAddress(read_address(value)?),
            IeType::EXTENSION_HEADER_TYPE_LIST => Self::ExtensionHeaderTypeList(value),
            IeType::PRIVATE_EXTENSION => {
                let (enterprise, value) = value.split_first_chunk::<2>()?;
                Self::PrivateExtension(PrivateExtension {
                    enterprise: u16::from_be_bytes(*enterprise),
                    value,
                })
            }
            kind => Self::Other(kind, value),
        })
    }

    /// Writes the element to the start of `out` and gives its octets; `None` when `out` is too short or the value
    /// too long for its length field.
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let mut writer = Writer { out, len: 0 };
        match *self {
            Self::Recovery(counter) => writer.put(&[IeType::RECOVERY.0, counter])?,
            Self::TeidDataI(teid) => {
                writer.put(&[IeType::TEID_DATA_I.0])?;
                writer.put(&teid.0.to_be_bytes())?;
            }
            Self::PeerAddress(IpAddr::V4(address)) => {
                writer.tlv(IeType::PEER_ADDRESS, &[&address.octets()])?
            }
            Self::PeerAddress(IpAddr::V6(address)) => {
                writer.tlv(IeType::PEER_ADDRESS, &[&address.octets()])?
            }
            Self::ExtensionHeaderTypeList(types) => {
                writer.put(&[
                    IeType::EXTENSION_HEADER_TYPE_LIST.0,
                    u8::try_from(types.len()).ok()?,
                ])?;
                writer.put(types)?;
            }
            Self::PrivateExtension(PrivateExtension { enterprise, value }) => {
                writer.tlv(IeType::PRIVATE_EXTENSION, &[&enterprise.to_be_bytes(), value])?;
            }
            Self::Other(kind, value) => match kind.fixed_len() {
                Some(len) if len == value.len() => {
                    writer.put(&[kind.0])?;
                    writer.put(value)?;
                }
                None if kind.0 >= 128 => writer.tlv(kind, &[value])?,
                _ => return None,
            },
        }
        Some(writer.len)
    }

    /// Octets that [`write`](Self::write) needs.
    pub const fn encoded_len(&self) -> usize {
        match self {
            Self::Recovery(_) => 2,
            Self::TeidDataI(_) => 5,
            Self::PeerAddress(IpAddr::V4(_)) => 7,
            Self::PeerAddress(IpAddr::V6(_)) => 19,
            Self::ExtensionHeaderTypeList(types) => 2 + types.len(),
            Self::PrivateExtension(extension) => 5 + extension.value.len(),
            Self::Other(kind, value) => (if kind.0 < 128 { 1 } else { 3 }) + value.len(),
        }
    }
}

fn read_address(value: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(value) {
        return Some(octets.into());
    }
    <[u8; 16]>::try_from(value).ok().map(IpAddr::from)
}

struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl Writer<'_> {
    fn put(&mut self, octets: &[u8]) -> Option<()> {
        let end = self.len + octets.len();
        self.out.get_mut(self.len..end)?.copy_from_slice(octets);
        self.len = end;
        Some(())
    }

    fn tlv(&mut self, kind: IeType, parts: &[&[u8]]) -> Option<()> {
        let len = u16::try_from(parts.iter().map(|part| part.len()).sum::<usize>()).ok()?;
        self.put(&[kind.0])?;
        self.put(&len.to_be_bytes())?;
        parts.iter().try_for_each(|part| self.put(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(ie: Ie<'_>, octets: &[u8]) {
        let mut out = [0; 64];
        assert_eq!(ie.write(&mut out), Some(octets.len()));
        assert_eq!(&out[..octets.len()], octets);
        assert_eq!(ie.encoded_len(), octets.len());
        assert_eq!(Ies::new(octets).collect::<Vec<_>>(), [Ok(ie)]);
        for short in 1..octets.len() {
            assert_eq!(
                Ies::new(&octets[..short]).collect::<Vec<_>>(),
                [Err(DropReason::BadGtpuIe)]
            );
            assert_eq!(ie.write(&mut out[..short]), None);
        }
    }

    #[test]
    fn a_pause_of_charging_is_known_by_the_first_tunnel_status_information() {
        let starts = |octets: &[u8]| Ies::new(octets).start_pause_of_charging();
        assert!(starts(&Ies::START_PAUSE_OF_CHARGING));
        assert!(Ies::new(&Ies::START_PAUSE_OF_CHARGING).may_be_relayed());
        // Spare bits and octets are of later releases.
        assert!(starts(&[230, 0, 2, 0xff, 7]));
        assert!(starts(&[255, 0, 2, 0, 9, 230, 0, 1, 1]));
        let others: [&[u8]; 6] = [
            &[],
            &[230, 0, 0],
            &[230, 0, 1, 0xfe],
            &[230, 0, 9, 1],
            &[231, 0, 1, 1],
            &[230, 0, 1, 0, 230, 0, 1, 1],
        ];
        for other in others {
            assert!(!starts(other), "{other:?}");
        }
    }

    #[test]
    fn elements_to_octets_to_elements() {
        round_trip(Ie::Recovery(0), &[14, 0]);
        round_trip(Ie::TeidDataI(Teid(0x2001)), &[16, 0, 0, 0x20, 1]);
        round_trip(Ie::PeerAddress([10, 0, 0, 1].into()), &[133, 0, 4, 10, 0, 0, 1]);
        round_trip(
            Ie::PeerAddress([1; 16].into()),
            &[&[133, 0, 16][..], &[1; 16]].concat(),
        );
        round_trip(Ie::ExtensionHeaderTypeList(&[0x40, 0x85]), &[141, 2, 0x40, 0x85]);
        let private = PrivateExtension {
            enterprise: 10415,
            value: b"x",
        };
        round_trip(Ie::PrivateExtension(private), &[255, 0, 3, 0x28, 0xaf, b'x']);
        round_trip(
            Ie::Other(IeType::TUNNEL_STATUS_INFORMATION, &[1]),
            &[230, 0, 1, 1],
        );
        round_trip(Ie::Other(IeType::CAUSE, &[193]), &[1, 193]);
    }

    #[test]
    fn values_of_a_wrong_length_are_errors() {
        for bad in [&[133, 0, 5, 1, 2, 3, 4, 5][..], &[255, 0, 1, 1], &[99, 1, 2, 3]] {
            assert_eq!(Ies::new(bad).collect::<Vec<_>>(), [Err(DropReason::BadGtpuIe)]);
        }
        assert_eq!(Ie::Other(IeType(99), &[1]).write(&mut [0; 9]), None);
        assert_eq!(Ie::Other(IeType::CAUSE, &[1, 2]).write(&mut [0; 9]), None);
        assert_eq!(Ie::ExtensionHeaderTypeList(&[0; 256]).write(&mut [0; 300]), None);
    }
}
