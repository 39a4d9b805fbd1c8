//! IEs about Ethernet frames.

use super::Leaf;
use super::fields::{Field, Octets8};
use crate::error::{Fault, NoRoom};
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};

numbers! {
    /// The type of a frame's payload.
    Ethertype: u16 = 136, "§8.2.96";
    /// A filter of a session.
    EthernetFilterId: u32 = 138, "§8.2.98";
    /// Seconds without frames after which a MAC address is reported as removed.
    EthernetInactivityTimer: u32 = 146, "§8.2.105";
}

flags! {
    /// Properties of a filter.
    EthernetFilterProperties = 139, "§8.2.99" {
        BIDE = 0x01 "The filter counts in both directions",
    }
    /// Whether all downlink traffic of the Ethernet session is meant.
    EthernetPduSessionInformation = 142, "§8.2.102" {
        ETHI = 0x01 "The Ethernet session",
    }
}

flagged! {
    /// MAC addresses to match, or ranges of them.
    MacAddress(u8) = 133, "§8.2.93" {
        0x01 /// SOUR: the source, or the lower end of a range.
        source: Option<[u8; 6]>,
        0x02 /// DEST: the destination, or the lower end of a range.
        destination: Option<[u8; 6]>,
        0x04 /// USOU: the upper end of a range of sources.
        upper_source: Option<[u8; 6]>,
        0x08 /// UDES: the upper end of a range of destinations.
        upper_destination: Option<[u8; 6]>,
    }
}

macro_rules! vlan_tags {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $clause:literal;)*) => {$(
        $(#[$meta])*
        #[doc = ""]
        #[doc = concat!("IE type ", $number, ", TS 29.244 ", $clause, ". Fields that are `None` match all.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name {
            /// Priority Code Point: 0 to 7.
            pub pcp: Option<u8>,
            /// Drop Eligible Indicator.
            pub dei: Option<bool>,
            /// VLAN ID: 0 to 4095.
            pub vid: Option<u16>,
        }

        impl<'a> Leaf<'a> for $name {
            const LEAF_TYPE: IeType = IeType($number);
            const ENOUGH: usize = 3;
            const FIXED: usize = 3;

            fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
                let [flags, high, low] = r.array()?;
                Ok(Self {
                    pcp: (flags & 0x01 != 0).then_some(high & 0x07),
                    dei: (flags & 0x02 != 0).then_some(high & 0x08 != 0),
                    vid: (flags & 0x04 != 0).then_some(u16::from(high & 0xf0) << 4 | u16::from(low)),
                })
            }

            fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
                let flags = u8::from(self.vid.is_some()) << 2
                    | u8::from(self.dei.is_some()) << 1
                    | u8::from(self.pcp.is_some());
                let [vid_high, vid_low] = (self.vid.unwrap_or(0) & 0x0fff).to_be_bytes();
                let dei = u8::from(self.dei.unwrap_or(false)) << 3;
                w.array([flags, vid_high << 4 | dei | self.pcp.unwrap_or(0) & 0x07, vid_low])
            }
        }
    )*};
}

vlan_tags! {
    /// The customer's VLAN tag.
    CTag = 134, "§8.2.94";
    /// The service's VLAN tag.
    STag = 135, "§8.2.95";
}

macro_rules! mac_lists {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $clause:literal;)*) => {$(
        $(#[$meta])*
        #[doc = ""]
        #[doc = concat!("IE type ", $number, ", TS 29.244 ", $clause, ".")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name<'a> {
            /// The addresses, at most 255.
            pub addresses: &'a [[u8; 6]],
            /// The C-TAG they were seen with, in the form of the IE; empty for none. `None`: not said, as before R15.3.
            pub c_tag: Option<Octets8<'a>>,
            /// The S-TAG they were seen with, in the form of the IE; empty for none. Only behind a C-TAG field.
            pub s_tag: Option<Octets8<'a>>,
        }

        impl<'a> Leaf<'a> for $name<'a> {
            const LEAF_TYPE: IeType = IeType($number);

            fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
                let count = r.u8()?;
                let (addresses, _) = r.take(usize::from(count) * 6)?.as_chunks();
                let c_tag = if r.rest().is_empty() { None } else { Some(Field::read(r)?) };
                let s_tag = if r.rest().is_empty() { None } else { Some(Field::read(r)?) };
                Ok(Self { addresses, c_tag, s_tag })
            }

            fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
                let w = w.u8(u8::try_from(self.addresses.len()).map_err(|_| NoRoom)?)?;
                let w = w.bytes(self.addresses.as_flattened())?;
                let c_tag = self.c_tag.or(self.s_tag.map(|_| Octets8(&[])));
                let mut w = w;
                for tag in [c_tag, self.s_tag].into_iter().flatten() {
                    w = tag.write(w)?;
                }
                Ok(w)
            }
        }
    )*};
}

mac_lists! {
    /// MAC addresses of the UE's side that were seen.
    MacAddressesDetected = 144, "§8.2.103";
    /// MAC addresses of the UE's side that were not seen any more.
    MacAddressesRemoved = 145, "§8.2.104";
}
