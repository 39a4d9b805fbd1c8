//! Ethernet and IEEE 802.1Q tags, single and stacked.

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{DropReason, MacAddr, VlanId};

/// Octets of an Ethernet header without tags.
pub const HEADER_LEN: usize = 14;
/// Octets that a VLAN tag adds.
pub const TAG_LEN: usize = 4;
/// Most tags that are read: an S-TAG and a C-TAG.
pub const MAX_TAGS: usize = 2;

/// EtherTypes that a user plane meets.
pub mod ether_type {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// A C-TAG, or the only tag (IEEE 802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// An S-TAG (IEEE 802.1Q, formerly 802.1ad).
    pub const QINQ: u16 = 0x88a8;
    /// Slow protocols: LACP and marker.
    pub const SLOW: u16 = 0x8809;
    /// Below this the field is an IEEE 802.3 length, and LLC follows.
    pub const MIN: u16 = 0x0600;
}

/// An Ethernet header in wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Destination.
    pub dst: MacAddr,
    /// Source.
    pub src: MacAddr,
    /// EtherType of what follows, or of the first tag.
    pub ether_type: U16,
}

/// A VLAN tag in wire format, behind the EtherType that announced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Tag {
    /// Priority, drop eligibility and VLAN identifier.
    pub tci: U16,
    /// EtherType of what follows.
    pub ether_type: U16,
}

/// Tag control information: priority (3 bits), drop eligible (1 bit), VLAN identifier (12 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct Tci(pub u16);

impl Tci {
    /// A tag of priority 0 that is not drop eligible.
    #[inline]
    pub const fn new(vid: VlanId) -> Self {
        Self(vid.get())
    }

    /// VLAN identifier.
    #[inline]
    pub const fn vid(self) -> VlanId {
        VlanId::from_low_bits(self.0)
    }

    /// Priority code point, 0..=7.
    #[inline]
    pub const fn pcp(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// Drop eligible indicator.
    #[inline]
    pub const fn dei(self) -> bool {
        self.0 & 0x1000 != 0
    }
}

/// The tags of a frame, the outer one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vlan {
    /// The only tag, or the S-TAG.
    pub outer: Tci,
    /// The second tag.
    pub inner: Option<Tci>,
}

impl Vlan {
    /// The identifiers of the VLANs that the frame is in, outer one first, as one number; 0 of a frame that is in none.
    /// A tag whose identifier is 0 has a priority and belongs to no VLAN (IEEE 802.1Q §9.6).
    #[inline]
    pub const fn key(self) -> u32 {
        let outer = self.outer.vid().get() as u32;
        match self.inner {
            None => outer,
            Some(inner) => both(outer, inner.vid().get() as u32),
        }
    }
}

/// Of two identifiers, those that are not 0, the outer one in the high half where there are two.
const fn both(outer: u32, inner: u32) -> u32 {
    match (outer, inner) {
        (0, one) | (one, 0) => one,
        (outer, inner) => outer << 16 | inner,
    }
}

/// The VLAN of a network instance: one tag, or a service provider's and a customer's (QinQ, IEEE 802.1Q §6.9, once
/// 802.1ad).
///
/// Received frames are distinguished by their identifiers alone: which EtherType announced a tag (0x8100 or 0x88a8) is
/// a matter of who sends it, and switches differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VlanTags {
    /// The only tag, or the outer one: 1..=4094.
    pub outer: VlanId,
    /// The second one: 1..=4094.
    pub inner: Option<VlanId>,
    /// The EtherType that announces the outer tag of what we send: [`ether_type::VLAN`] or [`ether_type::QINQ`]. A
    /// second tag always has 0x8100.
    pub tpid: u16,
}

impl VlanTags {
    /// The most octets of tags.
    pub const MAX_LEN: usize = MAX_TAGS * TAG_LEN;

    /// Two tags, a service provider's (0x88a8) and a customer's.
    pub const fn stacked(outer: VlanId, inner: VlanId) -> Self {
        Self {
            outer,
            inner: Some(inner),
            tpid: ether_type::QINQ,
        }
    }

    /// As [`Vlan::key`] of its frames.
    #[inline]
    pub const fn key(self) -> u32 {
        let outer = self.outer.get() as u32;
        match self.inner {
            None => outer,
            Some(inner) => both(outer, inner.get() as u32),
        }
    }

    /// The tags between a frame's source address and its EtherType, and how many octets of it count: 4 or 8. All
    /// priorities are 0.
    pub const fn octets(self) -> ([u8; Self::MAX_LEN], usize) {
        let [t0, t1] = self.tpid.to_be_bytes();
        let [o0, o1] = self.outer.get().to_be_bytes();
        match self.inner {
            None => ([t0, t1, o0, o1, 0, 0, 0, 0], TAG_LEN),
            Some(inner) => {
                let [c0, c1] = ether_type::VLAN.to_be_bytes();
                let [i0, i1] = inner.get().to_be_bytes();
                ([t0, t1, o0, o1, c0, c1, i0, i1], 2 * TAG_LEN)
            }
        }
    }
}

impl From<VlanId> for VlanTags {
    /// The usual tag, of EtherType 0x8100.
    fn from(outer: VlanId) -> Self {
        Self {
            outer,
            inner: None,
            tpid: ether_type::VLAN,
        }
    }
}

impl core::fmt::Display for VlanTags {
    /// `VLAN 100`, or `VLAN 200.30`: the outer one first.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "VLAN {}", self.outer.get())?;
        self.inner.map_or(Ok(()), |inner| write!(f, ".{}", inner.get()))
    }
}

/// Gives all tags of a frame this priority, 0..=7; a frame without tags stays as it is.
pub fn prioritise(frame: &mut [u8], pcp: u8) {
    let mut at = HEADER_LEN - 2;
    for _ in 0..MAX_TAGS {
        let Some([high, low, tag]) = frame.get_mut(at..at + 3) else {
            return;
        };
        if !is_tag(u16::from_be_bytes([*high, *low])) {
            return;
        }
        *tag = *tag & 0x1f | pcp << 5;
        at += TAG_LEN;
    }
}

/// What the layer 2 header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L2 {
    /// Octets before the payload: 14, 18 or 22.
    pub len: u16,
    /// EtherType of the payload; below [`ether_type::MIN`] it is an LLC frame.
    pub ether_type: u16,
    /// Up to two tags. A third is left in the payload, with `ether_type` saying so.
    pub vlan: Option<Vlan>,
}

impl L2 {
    /// Reads the Ethernet header and up to two tags at the start of `bytes`.
    ///
    /// # Errors
    /// [`DropReason::TruncatedEthernet`].
    #[inline(always)]
    pub fn parse(bytes: &[u8]) -> Result<Self, DropReason> {
        let header = bytes
            .first_chunk::<HEADER_LEN>()
            .ok_or(DropReason::TruncatedEthernet)?;
        let ether_type = u16::from_be_bytes([header[12], header[13]]);
        if !is_tag(ether_type) {
            return Ok(Self {
                len: HEADER_LEN as u16,
                ether_type,
                vlan: None,
            });
        }
        let (outer, ether_type) = read_tag(bytes, HEADER_LEN)?;
        if !is_tag(ether_type) {
            return Ok(Self {
                len: (HEADER_LEN + TAG_LEN) as u16,
                ether_type,
                vlan: Some(Vlan { outer, inner: None }),
            });
        }
        let (inner, ether_type) = read_second_tag(bytes)?;
        let inner = Some(inner);
        Ok(Self {
            len: (HEADER_LEN + 2 * TAG_LEN) as u16,
            ether_type,
            vlan: Some(Vlan { outer, inner }),
        })
    }
}

/// Apart from [`L2::parse`], and so small that the headers of frames with fewer tags stay in registers.
#[inline(never)]
fn read_second_tag(bytes: &[u8]) -> Result<(Tci, u16), DropReason> {
    read_tag(bytes, HEADER_LEN + TAG_LEN)
}

/// Whether this EtherType announces a tag.
#[inline]
const fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, ether_type::VLAN | ether_type::QINQ)
}

#[inline(always)]
fn read_tag(bytes: &[u8], offset: usize) -> Result<(Tci, u16), DropReason> {
    let rest = bytes.get(offset..).unwrap_or_default();
    let (tag, _) = Tag::ref_from_prefix(rest).map_err(|_| DropReason::TruncatedEthernet)?;
    Ok((Tci(tag.tci.get()), tag.ether_type.get()))
}

/// An Ethernet header with its tags, to be written before a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encap {
    /// Destination.
    pub dst: MacAddr,
    /// Source.
    pub src: MacAddr,
    /// Tags: one is sent as a C-TAG (0x8100), two as S-TAG (0x88a8) and C-TAG.
    pub vlan: Option<Vlan>,
    /// EtherType of the payload.
    pub ether_type: u16,
}

impl Encap {
    /// Octets that [`write`](Self::write) fills: 14, 18 or 22.
    #[inline]
    pub const fn len(&self) -> usize {
        match self.vlan {
            None => HEADER_LEN,
            Some(Vlan { inner: None, .. }) => HEADER_LEN + TAG_LEN,
            Some(Vlan { inner: Some(_), .. }) => HEADER_LEN + 2 * TAG_LEN,
        }
    }

    /// Never: there is no header without octets.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the header to the start of `out`; `None` (and nothing useful written) when `out` is too short.
    pub fn write(&self, out: &mut [u8]) -> Option<()> {
        let first_type = match self.vlan {
            None => self.ether_type,
            Some(Vlan { inner: None, .. }) => ether_type::VLAN,
            Some(Vlan { inner: Some(_), .. }) => ether_type::QINQ,
        };
        let header = Header {
            dst: self.dst,
            src: self.src,
            ether_type: U16::new(first_type),
        };
        header.write_to_prefix(out).ok()?;
        let Some(vlan) = self.vlan else { return Some(()) };
        let tags = out.get_mut(HEADER_LEN..)?;
        let after_outer = if vlan.inner.is_some() {
            ether_type::VLAN
        } else {
            self.ether_type
        };
        write_tag(tags, vlan.outer, after_outer)?;
        match vlan.inner {
            Some(inner) => write_tag(tags.get_mut(TAG_LEN..)?, inner, self.ether_type),
            None => Some(()),
        }
    }
}

fn write_tag(out: &mut [u8], tci: Tci, ether_type: u16) -> Option<()> {
    Tag {
        tci: U16::new(tci.0),
        ether_type: U16::new(ether_type),
    }
    .write_to_prefix(out)
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DST: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn round_trip(vlan: Option<Vlan>, octets: &[u8]) {
        let encap = Encap {
            dst: DST,
            src: SRC,
            vlan,
            ether_type: ether_type::IPV6,
        };
        let mut out = [0; 22];
        encap.write(&mut out).expect("22 octets are enough");
        assert_eq!(&out[..encap.len()], octets);
        let l2 = L2::parse(octets).expect("a whole header");
        assert_eq!(
            l2,
            L2 {
                len: octets.len() as u16,
                ether_type: ether_type::IPV6,
                vlan
            }
        );
        let (header, _) = Header::ref_from_prefix(octets).expect("a whole header");
        assert_eq!((header.dst, header.src), (DST, SRC));
        for short in 0..octets.len() {
            assert_eq!(L2::parse(&octets[..short]), Err(DropReason::TruncatedEthernet));
            assert!(encap.write(&mut out[..short]).is_none());
        }
    }

    #[test]
    fn headers_with_no_one_and_two_tags() {
        let macs = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let c_tag = Tci::new(VlanId::new(100).unwrap());
        round_trip(None, &[&macs[..], &[0x86, 0xdd]].concat());
        round_trip(
            Some(Vlan {
                outer: c_tag,
                inner: None,
            }),
            &[&macs[..], &[0x81, 0, 0, 100, 0x86, 0xdd]].concat(),
        );
        round_trip(
            Some(Vlan {
                outer: Tci(0xb007),
                inner: Some(c_tag),
            }),
            &[&macs[..], &[0x88, 0xa8, 0xb0, 7, 0x81, 0, 0, 100, 0x86, 0xdd]].concat(),
        );
        assert_eq!(
            (Tci(0xb007).pcp(), Tci(0xb007).dei(), Tci(0xb007).vid().get()),
            (5, true, 7)
        );
    }

    #[test]
    fn tags_are_distinguished_by_identifiers_that_are_not_zero() {
        let vid = VlanId::from_low_bits;
        let key = |outer, inner: Option<u16>| {
            let (outer, inner) = (Tci(outer), inner.map(Tci));
            Vlan { outer, inner }.key()
        };
        let one = VlanTags::from(vid(100));
        let two = VlanTags::stacked(vid(200), vid(30));
        assert_eq!(key(0xf064, None), one.key());
        assert_eq!(key(200, Some(0x201e)), two.key());
        assert_eq!([key(0xe000, None), key(0, Some(0))], [0, 0], "priority tags");
        assert_eq!(
            [key(0, Some(100)), key(100, Some(0))],
            [one.key(), one.key()],
            "and those beside another"
        );
        assert_ne!(VlanTags::stacked(vid(30), vid(200)).key(), two.key());
        assert_eq!([one.to_string(), two.to_string()], ["VLAN 100", "VLAN 200.30"]);
    }

    #[test]
    fn both_tags_of_a_frame_get_its_priority() {
        let two = VlanTags::stacked(VlanId::from_low_bits(200), VlanId::from_low_bits(30));
        let mut frame = [&[2; 12][..], &two.octets().0, &[0x08, 0]].concat();
        prioritise(&mut frame, 5);
        assert_eq!(frame[12..20], [0x88, 0xa8, 0xa0, 200, 0x81, 0, 0xa0, 30]);
        prioritise(&mut frame[..15], 0);
        assert_eq!(frame[12..20], [0x88, 0xa8, 0, 200, 0x81, 0, 0xa0, 30]);
        let mut plain = [&[2; 12][..], &[0x08, 0, 0x45]].concat();
        prioritise(&mut plain, 5);
        assert_eq!(plain[12..], [0x08, 0, 0x45]);
    }

    proptest::proptest! {
        #[test]
        fn what_is_sent_is_found_again(outer in 1u16..4095, inner in proptest::option::of(1u16..4095), s_tag: bool) {
            let inner = inner.map(VlanId::from_low_bits);
            let tpid = if s_tag { ether_type::QINQ } else { ether_type::VLAN };
            let tags = VlanTags { outer: VlanId::from_low_bits(outer), inner, tpid };
            let (octets, len) = tags.octets();
            let frame = [&[2; 12][..], &octets[..len], &[0x08, 0]].concat();
            let l2 = L2::parse(&frame).expect("a whole header");
            proptest::prop_assert_eq!((usize::from(l2.len), l2.ether_type), (frame.len(), ether_type::IPV4));
            proptest::prop_assert_eq!(l2.vlan.map(Vlan::key), Some(tags.key()));
        }
    }

    #[test]
    fn a_third_tag_stays_in_the_payload() {
        let mut bytes = [0; 30];
        bytes[12..26].copy_from_slice(&[0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 0x08, 0]);
        let l2 = L2::parse(&bytes).expect("a whole header");
        assert_eq!((l2.len, l2.ether_type), (22, ether_type::VLAN));
    }
}
