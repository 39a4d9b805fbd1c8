//! Where IP packets for us come in, by what is known of the frame before: the next one nearly always starts as it.

use flow::PortId;
use packet::eth::{self, L2, ether_type};

use crate::ingress::l3_interfaces::{L3Interface, L3Interfaces};

/// Octets of an Ethernet header with a tag.
const ONE_TAG: usize = eth::HEADER_LEN + eth::TAG_LEN;

/// The L3 interface that the last IP packet for us came in by, and what its frame started with.
#[derive(Clone, Copy, Default)]
pub(crate) struct LastIngress<'a>(Option<Last<'a>>);

#[derive(Clone, Copy)]
struct Last<'a> {
    interface: &'a L3Interface,
    port: PortId,
    start: FrameStart,
    /// Which bits of what is behind the source say which interface it is, and which IP header follows.
    mask: u64,
    l2: L2,
}

/// What the first 18 octets of a frame say: for whom it is, and what it is if it has no more than one tag.
#[derive(Clone, Copy)]
struct FrameStart {
    /// The first six octets, in the upper bits.
    destination: u64,
    /// The six that follow the source's, the first one lowest.
    behind: u64,
}

impl FrameStart {
    #[inline(always)]
    fn of(octets: &[u8; 18]) -> Self {
        let word = |from: usize| {
            let word = octets[from..].first_chunk();
            word.map_or(0, |word| u64::from_le_bytes(*word))
        };
        Self {
            destination: word(0) << 16,
            behind: word(10) >> 16,
        }
    }

    /// What counts of `behind` where an IP header follows this many octets; `None` where it has not all of that. The
    /// priority of a tag does not.
    const fn mask(l2_len: usize) -> Option<u64> {
        match l2_len {
            eth::HEADER_LEN => Some(0xffff),
            ONE_TAG => Some(0xffff_ff0f_ffff),
            _ => None,
        }
    }
}

impl<'a> LastIngress<'a> {
    /// Where an IP packet for us came in, and its layer 2 header, but for priorities; `None` for other frames.
    #[inline(always)]
    pub fn of_ip(
        &mut self,
        interfaces: &'a L3Interfaces,
        frame: &[u8],
        port: PortId,
    ) -> Option<(&'a L3Interface, L2)> {
        let start = FrameStart::of(frame.first_chunk()?);
        if let Some(last) = &self.0 {
            let differs = start.destination ^ last.start.destination
                | (start.behind ^ last.start.behind) & last.mask
                | u64::from(port.0 ^ last.port.0);
            if differs == 0 {
                return Some((last.interface, last.l2));
            }
        }
        self.find(interfaces, frame, port, start)
    }

    /// The same for a frame that starts otherwise than the last one.
    #[inline(never)]
    fn find(
        &mut self,
        interfaces: &'a L3Interfaces,
        frame: &[u8],
        port: PortId,
        start: FrameStart,
    ) -> Option<(&'a L3Interface, L2)> {
        let l2 = L2::parse(frame).ok()?;
        if !matches!(l2.ether_type, ether_type::IPV4 | ether_type::IPV6) {
            return None;
        }
        let interface = interfaces.find(port, l2.vlan)?;
        if frame.first_chunk() != Some(&interface.interface.mac.0) {
            return None;
        }
        if let Some(mask) = FrameStart::mask(l2.len.into()) {
            self.0 = Some(Last {
                interface,
                port,
                start,
                mask,
                l2,
            });
        }
        Some((interface, l2))
    }
}

#[cfg(test)]
mod tests {
    use packet::MacAddr;
    use packet::VlanId;
    use packet::eth::VlanTags;
    use proptest::prelude::*;
    use rules::testing;

    use super::*;

    /// A port, the last octet of the destination, and what is behind the source.
    fn any_start() -> impl Strategy<Value = (u16, u8, Vec<u8>)> {
        let vlan = |tpid: [u8; 2]| move |tci: u16| [tpid, tci.to_be_bytes()].concat();
        let tci = || prop_oneof![Just(0_u16), Just(0x2005), 4_u16..7, Just(0x0105)];
        let tags = prop_oneof![
            2 => Just(Vec::new()),
            3 => tci().prop_map(vlan([0x81, 0])),
            1 => tci().prop_map(vlan([0x88, 0xa8])),
            1 => (tci(), tci()).prop_map(move |(outer, inner)| {
                [vlan([0x88, 0xa8])(outer), vlan([0x81, 0])(inner)].concat()
            }),
        ];
        let ether_type = prop_oneof![5 => Just([8, 0]), 1 => Just([0x86, 0xdd])];
        let behind = (tags, ether_type).prop_map(|(tags, ether_type)| [&tags[..], &ether_type].concat());
        (0..3_u16, prop_oneof![5 => Just(1_u8), 1 => Just(2)], behind)
    }

    /// What is said of a frame, but for priorities.
    fn said<'a>(
        interfaces: &'a L3Interfaces,
        last: &mut LastIngress<'a>,
        frame: &[u8],
        port: u16,
    ) -> Option<(flow::InstanceId, u16, u16, u32)> {
        let (interface, l2) = last.of_ip(interfaces, frame, PortId(port))?;
        let vlan = l2.vlan.map_or(0, eth::Vlan::key);
        Some((interface.instance(), l2.len, l2.ether_type, vlan))
    }

    proptest! {
        /// What is known of the frame before changes nothing but priorities.
        #[test]
        fn the_frame_before_changes_nothing(starts in prop::collection::vec(any_start(), 2..30)) {
            let id = VlanId::from_low_bits;
            let network = testing::network_with(|instance| {
                instance.vlan = match instance.id {
                    testing::N6 => Some(VlanTags::from(id(5))),
                    testing::N9 => Some(VlanTags::stacked(id(5), id(6))),
                    _ => None,
                };
            });
            let interfaces = L3Interfaces::new(&network, &[MacAddr([2, 0, 0, 0, 0, 1]); 4]);
            let mut last = LastIngress::default();
            for (port, address, behind) in &starts {
                let destination = [2, 0, 0, 0, 0, *address];
                let frame = [&destination[..], &[2; 6], behind, &[0x45, 0, 0, 20]].concat();
                let alone = said(&interfaces, &mut LastIngress::default(), &frame, *port);
                prop_assert_eq!(said(&interfaces, &mut last, &frame, *port), alone);
            }
        }
    }
}
