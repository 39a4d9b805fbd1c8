//! GTP-U extension headers (TS 29.281 §5.2).

use crate::DropReason;

/// Most extension headers of one message; a longer chain is dropped.
pub const MAX_EXTENSIONS: usize = 8;

/// The type of a GTP-U extension header (TS 29.281 §5.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ExtensionType(pub u8);

impl ExtensionType {
    /// No more extension headers.
    pub const NONE: Self = Self(0x00);
    /// Long PDCP PDU Number (§5.2.2.2A).
    pub const LONG_PDCP_PDU_NUMBER: Self = Self(0x03);
    /// PDU Set Information (Release 18).
    pub const PDU_SET_INFORMATION: Self = Self(0x04);
    /// Service Class Indicator (§5.2.2.3).
    pub const SERVICE_CLASS_INDICATOR: Self = Self(0x20);
    /// UDP Port (§5.2.2.1).
    pub const UDP_PORT: Self = Self(0x40);
    /// RAN Container (§5.2.2.4).
    pub const RAN_CONTAINER: Self = Self(0x81);
    /// Long PDCP PDU Number, the value that earlier versions use.
    pub const LONG_PDCP_PDU_NUMBER_LEGACY: Self = Self(0x82);
    /// Xw RAN Container (§5.2.2.5).
    pub const XW_RAN_CONTAINER: Self = Self(0x83);
    /// NR RAN Container (§5.2.2.6).
    pub const NR_RAN_CONTAINER: Self = Self(0x84);
    /// PDU Session Container (§5.2.2.7).
    pub const PDU_SESSION_CONTAINER: Self = Self(0x85);
    /// PDU Set Information, the value that earlier versions use.
    pub const PDU_SET_INFORMATION_LEGACY: Self = Self(0x86);
    /// PDCP PDU Number (§5.2.2.2).
    pub const PDCP_PDU_NUMBER: Self = Self(0xc0);

    /// Who must understand a header of this type, known or not: the two top bits.
    #[inline]
    pub const fn comprehension(self) -> Comprehension {
        match self.0 >> 6 {
            0 => Comprehension::ForwardIfUnknown,
            1 => Comprehension::DiscardIfUnknown,
            2 => Comprehension::RequiredAtEndpoint,
            _ => Comprehension::RequiredAtReceiver,
        }
    }

    /// Whether the type is one that TS 29.281 defines.
    #[inline]
    pub const fn is_known(self) -> bool {
        matches!(self.0, 0x03 | 0x04 | 0x20 | 0x40 | 0x81..=0x86 | 0xc0)
    }
}

impl core::fmt::Debug for ExtensionType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ExtensionType({:#04x})", self.0)
    }
}

/// What a Supported Extension Headers Notification lists: the types that are understood or relayed here.
pub const SUPPORTED_EXTENSIONS: [ExtensionType; 11] = [
    ExtensionType::LONG_PDCP_PDU_NUMBER,
    ExtensionType::PDU_SET_INFORMATION,
    ExtensionType::SERVICE_CLASS_INDICATOR,
    ExtensionType::UDP_PORT,
    ExtensionType::RAN_CONTAINER,
    ExtensionType::LONG_PDCP_PDU_NUMBER_LEGACY,
    ExtensionType::XW_RAN_CONTAINER,
    ExtensionType::NR_RAN_CONTAINER,
    ExtensionType::PDU_SESSION_CONTAINER,
    ExtensionType::PDU_SET_INFORMATION_LEGACY,
    ExtensionType::PDCP_PDU_NUMBER,
];

/// What the two top bits of a type ask of a node that does not know it (TS 29.281 §5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comprehension {
    /// 00: ignore it; an intermediate node forwards it.
    ForwardIfUnknown,
    /// 01: ignore it; an intermediate node takes it out.
    DiscardIfUnknown,
    /// 10: an endpoint refuses the message; an intermediate node forwards it.
    RequiredAtEndpoint,
    /// 11: the receiver rejects the message.
    RequiredAtReceiver,
}

/// Which kinds of unknown extension headers a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Unknown(u8);

impl Unknown {
    /// None at all.
    pub const NONE: Self = Self(0);

    /// Whether there is any.
    #[inline]
    pub const fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether the end of a tunnel refuses the message:
    /// [`UnknownGtpuExtension`](DropReason::UnknownGtpuExtension), answered with a Supported Extension Headers
    /// Notification when it is a G-PDU or an Echo Request.
    #[inline]
    pub const fn refused_by_endpoint(self) -> bool {
        self.0 & 0b1100 != 0
    }

    /// Whether a node between two tunnels refuses the message.
    #[inline]
    pub const fn refused_by_intermediate(self) -> bool {
        self.0 & 0b1000 != 0
    }

    /// The same and one more.
    #[inline]
    #[must_use]
    pub const fn with(self, kind: ExtensionType) -> Self {
        if kind.is_known() {
            self
        } else {
            Self(self.0 | 1 << (kind.0 >> 6))
        }
    }
}

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtensionHeader<'a> {
    /// Its type.
    pub kind: ExtensionType,
    /// Its content, padding included: a multiple of 4 minus 2 octets, at least 2.
    pub content: &'a [u8],
}

/// A chain of extension headers that has been walked over: iterating it cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct ExtensionHeaders<'a> {
    next: ExtensionType,
    bytes: &'a [u8],
}

impl<'a> ExtensionHeaders<'a> {
    /// No extension headers.
    pub const NONE: Self = Self {
        next: ExtensionType::NONE,
        bytes: &[],
    };

    /// Walks over the chain whose first type is `first` and whose first length octet is `bytes[0]`. Gives the chain
    /// and the octets it takes.
    ///
    /// # Errors
    /// [`DropReason::BadGtpuExtension`]: a length of 0, a header that overruns `bytes`, or more than
    /// [`MAX_EXTENSIONS`].
    pub fn parse(first: u8, bytes: &'a [u8]) -> Result<(Self, usize), DropReason> {
        let mut rest = bytes;
        let mut next = ExtensionType(first);
        for _ in 0..=MAX_EXTENSIONS {
            if next == ExtensionType::NONE {
                let len = bytes.len() - rest.len();
                let chain = Self {
                    next: ExtensionType(first),
                    bytes: bytes.get(..len).unwrap_or_default(),
                };
                return Ok((chain, len));
            }
            (_, next, rest) = split(next, rest).ok_or(DropReason::BadGtpuExtension)?;
        }
        Err(DropReason::BadGtpuExtension)
    }

    /// The content of the first header of this type.
    pub fn find(self, kind: ExtensionType) -> Option<&'a [u8]> {
        self.into_iter()
            .find(|header| header.kind == kind)
            .map(|header| header.content)
    }

    /// The headers, in their order.
    pub fn iter(&self) -> ExtensionIter<'a> {
        ExtensionIter(*self)
    }

    /// Which kinds of unknown headers are among them.
    pub fn unknown(self) -> Unknown {
        self.into_iter()
            .fold(Unknown::NONE, |unknown, header| unknown.with(header.kind))
    }

    /// The octets of the chain, from the first length octet on.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Takes one header off the chain: the header, the type of the next one, and what follows.
fn split(kind: ExtensionType, bytes: &[u8]) -> Option<(ExtensionHeader<'_>, ExtensionType, &[u8])> {
    let len = 4 * usize::from(*bytes.first()?);
    let (header, rest) = bytes.split_at_checked(len)?;
    let (next, header) = header.split_last()?;
    let content = header.get(1..)?;
    Some((ExtensionHeader { kind, content }, ExtensionType(*next), rest))
}

impl<'a> IntoIterator for ExtensionHeaders<'a> {
    type Item = ExtensionHeader<'a>;
    type IntoIter = ExtensionIter<'a>;

    fn into_iter(self) -> ExtensionIter<'a> {
        ExtensionIter(self)
    }
}

/// The headers of a chain, in their order.
#[derive(Clone, Debug)]
pub struct ExtensionIter<'a>(ExtensionHeaders<'a>);

impl<'a> Iterator for ExtensionIter<'a> {
    type Item = ExtensionHeader<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.next == ExtensionType::NONE {
            return None;
        }
        let (header, next, bytes) = split(self.0.next, self.0.bytes)?;
        self.0 = ExtensionHeaders { next, bytes };
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_bits_say_which_nodes_must_understand() {
        for (kind, who) in [
            (0x05, Comprehension::ForwardIfUnknown),
            (0x41, Comprehension::DiscardIfUnknown),
            (0x90, Comprehension::RequiredAtEndpoint),
            (0xc1, Comprehension::RequiredAtReceiver),
        ] {
            assert_eq!(ExtensionType(kind).comprehension(), who);
            let unknown = Unknown::NONE.with(ExtensionType(kind));
            assert!(unknown.any());
            assert_eq!(unknown.refused_by_endpoint(), kind & 0x80 != 0);
            assert_eq!(unknown.refused_by_intermediate(), kind & 0xc0 == 0xc0);
        }
        assert!(
            SUPPORTED_EXTENSIONS
                .iter()
                .all(|kind| kind.is_known() && !Unknown::NONE.with(*kind).any())
        );
    }

    #[test]
    fn a_chain_gives_its_headers() {
        let bytes = [1, 0x12, 0x34, 0x85, 2, 0, 9, 0, 0, 0, 0, 0x41, 1, 7, 7, 0, 0x45];
        let (chain, len) = ExtensionHeaders::parse(0x40, &bytes).expect("a whole chain");
        assert_eq!(len, 16);
        let headers: Vec<_> = chain
            .into_iter()
            .map(|header| (header.kind.0, header.content))
            .collect();
        assert_eq!(
            headers,
            [
                (0x40, &[0x12, 0x34][..]),
                (0x85, &[0, 9, 0, 0, 0, 0]),
                (0x41, &[7, 7])
            ]
        );
        assert_eq!(chain.find(ExtensionType::UDP_PORT), Some(&[0x12, 0x34][..]));
        assert_eq!(chain.find(ExtensionType::RAN_CONTAINER), None);
        assert!(chain.unknown().any() && !chain.unknown().refused_by_endpoint());
        assert_eq!(chain.as_bytes(), &bytes[..16]);
    }

    #[test]
    fn broken_chains() {
        let broken = |first, bytes: &[u8]| ExtensionHeaders::parse(first, bytes).map(|(_, len)| len);
        let bad = Err(DropReason::BadGtpuExtension);
        assert_eq!(broken(0, &[]), Ok(0));
        assert_eq!(broken(0x85, &[]), bad);
        assert_eq!(broken(0x85, &[0, 0, 9, 0]), bad);
        assert_eq!(broken(0x85, &[1, 0, 9]), bad);
        assert_eq!(broken(0x85, &[2, 0, 9, 0, 0, 0, 0]), bad);
        assert_eq!(broken(0x85, &[1, 0, 9, 0x85]), bad);
        let mut eight = [1, 0, 9, 0x40].repeat(8);
        assert_eq!(broken(0x85, &[eight.clone(), vec![1, 0, 9, 0]].concat()), bad);
        eight[31] = 0;
        assert_eq!(broken(0x85, &eight), Ok(32));
    }
}
