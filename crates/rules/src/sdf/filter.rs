//! SDF filters (TS 29.244 §8.2.5): patterns over the headers of a user packet.

use core::fmt;

use super::FlowDescription;

/// The number of an SDF filter that several PDRs of a session share (TS 29.244 §8.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct SdfFilterId(pub u32);

impl fmt::Display for SdfFilterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A Type of Service (IPv4) or Traffic Class (IPv6) octet with the bits of it that count (TS 29.212 §5.3.15).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TosTrafficClass {
    /// The octet.
    pub value: u8,
    /// Its bits that count.
    pub mask: u8,
}

impl TosTrafficClass {
    /// Whether `octet` has the wanted bits.
    pub const fn matches(self, octet: u8) -> bool {
        octet & self.mask == self.value & self.mask
    }
}

/// A pattern over the user packet's headers (TS 29.244 §8.2.5). What is left out matches everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct SdfFilter {
    /// The 5-tuple pattern, written for the downlink direction.
    pub flow_description: Option<FlowDescription>,
    /// The Type of Service or Traffic Class.
    pub tos_traffic_class: Option<TosTrafficClass>,
    /// The IPsec security parameter index.
    pub spi: Option<u32>,
    /// The IPv6 flow label, 0..=0xfffff.
    pub flow_label: Option<u32>,
    /// The number under which other PDRs of the session use the same filter. With nothing else set it *is* such a
    /// use; with anything else set it defines the filter anew, for all that use it.
    pub filter_id: Option<SdfFilterId>,
}

impl SdfFilter {
    /// Whether anything but the id is set, so that the filter says what it matches.
    pub const fn has_pattern(&self) -> bool {
        self.flow_description.is_some()
            || self.tos_traffic_class.is_some()
            || self.spi.is_some()
            || self.flow_label.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_masked_tos_bits_count() {
        let class = TosTrafficClass {
            value: 0xb8,
            mask: 0xfc,
        };
        assert!(class.matches(0xbb));
        assert!(!class.matches(0xb0));
    }
}
