//! Refuses first packets of new flows before they are parsed, while the slow path has no time for them.
//!
//! In a flood of new flows most packets have no flow entry, and most of those are over the slow path's
//! [budget](crate::slow_path::budget). Here such a packet costs its key, read from constant places, and two probes of
//! an array that fits into the caches: [`Flows::may_hold`] tells for certain that a packet has no entry. The other way
//! round it may be wrong: a few new flows pass for established ones, and are refused by the slow path.
//!
//! Packets with a flow entry are never refused here, nor any that is [urgent](crate::ingress::priority) whatever its
//! DSCP, nor any that is not of the forms whose key is at constant places: IPv6, fragments, options, messages. Those
//! over the budget are refused in deficit round robin over UEs, as in the slow path. The table's hash is keyed: a
//! sender cannot choose packets that pass, nor packets that stop others'.

use flow::{FlowKey4, WorkerId, prefetch};
use packet::eth::{L2, ether_type};
use packet::{Addrs, IpTuple, PacketBuf, common_gtpu_form};
use rules::classifier::{Key, Side, whole_key};

use crate::PacketMetadata;
use crate::burst::batch::BURST;
use crate::ingress::l3_interfaces::L3Interfaces;
use crate::ingress::worker_selection::WorkerSelection;
use crate::lookup::flow_tables::Flows;
use crate::slow_path::deficit_round_robin::{Class, HashedRoundRobin};

/// A packet whose key could be read.
#[derive(Clone, Copy)]
struct Candidate {
    place: u8,
    side: Side,
}

/// The filter's state.
pub(crate) struct NewFlowFilter {
    by_ue: HashedRoundRobin,
}

/// What the filter reads.
pub(crate) struct Context<'a> {
    pub interfaces: &'a L3Interfaces,
    pub flows: &'a Flows,
    /// Of several workers: which owns a session, and which this is.
    pub selection: Option<(&'a WorkerSelection, WorkerId)>,
}

/// What the filter did to a burst.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filtered {
    /// Bit n: packet n is refused.
    pub refused: u64,
    /// First packets that were let in.
    pub admitted: usize,
}

impl NewFlowFilter {
    pub fn new(by_ue: HashedRoundRobin) -> Self {
        Self { by_ue }
    }

    /// Lets in `most` first packets of new flows among `packets`, and refuses the others.
    pub fn filter<B: PacketBuf + PacketMetadata>(
        &mut self,
        context: &Context<'_>,
        packets: &[B],
        most: usize,
    ) -> Filtered {
        // The key of a packet in a tunnel ends in the second line.
        packets
            .iter()
            .for_each(|packet| prefetch::lines(packet.data(), 2));
        let mut keys = [FlowKey4::default(); BURST];
        let mut candidates = [Candidate {
            place: 0,
            side: Side::Plain { vrf: flow::VrfId(0) },
        }; BURST];
        let mut count = 0;
        for (place, packet) in packets.iter().enumerate().take(BURST) {
            if let Some((side, key)) = context.preview(packet) {
                let place = place as u8;
                (keys[count], candidates[count]) = (key, Candidate { place, side });
                count += 1;
            }
        }
        let held = context.flows.may_hold(&keys[..count]);
        self.deal(&keys[..count], &candidates[..count], held, most)
    }

    /// Deals out the places among those that are not `held`.
    fn deal(&mut self, keys: &[FlowKey4], candidates: &[Candidate], held: u64, most: usize) -> Filtered {
        let mut filtered = Filtered::default();
        if most == 0 {
            for (number, candidate) in candidates.iter().enumerate() {
                filtered.refused |= (!held >> number & 1) << candidate.place;
            }
            return filtered;
        }
        let mut turns = [None; BURST];
        for (number, (key, candidate)) in keys.iter().zip(candidates).enumerate() {
            if held >> number & 1 == 1 {
                continue;
            }
            let class = match candidate.side {
                Side::Tunnel { .. } => Class::NewUplink,
                Side::Plain { .. } => Class::NewDownlink,
            };
            let destination = Some(key.destination.into());
            turns[number] = Some(self.by_ue.ask(class, candidate.side, destination));
        }
        self.by_ue.close(most);
        for (turn, candidate) in turns.iter().zip(candidates) {
            let Some(turn) = *turn else { continue };
            match self.by_ue.admits(turn) {
                true => filtered.admitted += 1,
                false => filtered.refused |= 1 << candidate.place,
            }
        }
        self.by_ue.finish();
        filtered
    }
}

impl Context<'_> {
    /// The side and the whole key of a user packet that this worker owns, as stage `parse` reads them; `None` for what
    /// is of another form or not for a session.
    #[inline(always)]
    fn preview<B: PacketBuf + PacketMetadata>(&self, packet: &B) -> Option<(Side, FlowKey4)> {
        let frame = packet.data();
        let l2 = L2::parse(frame)
            .ok()
            .filter(|l2| l2.ether_type == ether_type::IPV4)?;
        let interface = self.interfaces.find(packet.ingress(), l2.vlan)?;
        if !frame.starts_with(&interface.interface.mac.0) {
            return None;
        }
        let ip = frame.get(usize::from(l2.len)..)?;
        let available = packet.len().checked_sub(l2.len.into())?;
        let (side, tuple) = match common_gtpu_form::preview(ip, available) {
            Some(found) => {
                let local = interface.local_v4(found.destination).filter(|local| local.gtpu)?;
                let side = Side::Tunnel {
                    local: local.id,
                    teid: found.teid,
                    qfi: found.qfi,
                };
                (side, found.tuple)
            }
            None => (
                Side::Plain { vrf: interface.vrf },
                plain(interface.plain, ip, available)?,
            ),
        };
        if matches!(side, Side::Plain { .. })
            && (interface.local(&tuple.addrs).is_some() || is_to_group(&tuple.addrs))
        {
            return None;
        }
        if !self.is_owner(side, &tuple) {
            return None;
        }
        match whole_key(side, &tuple) {
            Key::V4(key) => Some((side, key)),
            Key::V6(_) => None,
        }
    }

    #[inline]
    fn is_owner(&self, side: Side, tuple: &IpTuple) -> bool {
        let Some((selection, worker)) = self.selection else {
            return true;
        };
        let owner = match (side, tuple.addrs) {
            (Side::Tunnel { local, teid, .. }, _) => selection.of_tunnel(local, teid),
            (Side::Plain { vrf }, Addrs::V4 { dst, .. }) => selection.of_address(vrf, dst.into()),
            (Side::Plain { .. }, Addrs::V6 { .. }) => return false,
        };
        owner == worker
    }
}

/// Whether a packet is for several hosts, among them perhaps ourselves (RFC 5771 §4).
#[inline]
fn is_to_group(addrs: &Addrs) -> bool {
    matches!(
        addrs,
        Addrs::V4 {
            dst: [224, 0, 0, _],
            ..
        }
    )
}

/// The tuple of a plain packet, where there may be some.
#[inline]
fn plain(is_plain: bool, ip: &[u8], available: usize) -> Option<IpTuple> {
    let tuple = is_plain.then(|| IpTuple::preview_v4(ip, available))??;
    (!tuple.addrs.has_unforwardable_source()).then_some(tuple)
}

#[cfg(test)]
mod tests {
    use flow::{PortId, Seed};
    use packet::MacAddr;
    use proptest::prelude::*;
    use rules::testing::{self, N3_ADDRESS, any_user_packet, tunnelled};

    use super::*;
    use crate::burst::descriptor::{Descriptor, Family, Keys, PacketFlags};
    use crate::ingress::parse::parse;
    use crate::ingress::priority;
    use crate::lookup::flow_tables::FlowCapacity;
    use crate::mem::MemBuf;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    /// Has a context of a lone worker.
    fn with_context<T>(run: impl FnOnce(&Context<'_>) -> T) -> T {
        let interfaces = L3Interfaces::new(&testing::network(), &[MAC; 4]);
        let capacity = FlowCapacity { v4: 64, v6: 64 };
        let flows = Flows::new(capacity, 0, Seed([1, 2])).expect("there is memory");
        let selection = WorkerSelection::new(1, 0);
        run(&Context {
            interfaces: &interfaces,
            flows: &flows,
            selection: Some((&selection, WorkerId(0))),
        })
    }

    fn buf(port: u16, packet: &[u8]) -> MemBuf {
        let ether_type = match packet.first() {
            Some(first) if first >> 4 == 6 => [0x86, 0xdd],
            _ => [8, 0],
        };
        let mut buf = MemBuf::new(&[&MAC.0[..], &[2; 6], &ether_type, packet].concat());
        buf.set_ingress(PortId(port));
        buf
    }

    /// The key as the filter reads it, and as stage `parse` does.
    fn keys(port: u16, packet: &[u8]) -> [Option<(Side, FlowKey4)>; 2] {
        let buf = buf(port, packet);
        with_context(|context| {
            let mut descriptor = [Descriptor::NEW];
            let mut keys = Keys::new();
            let one = std::slice::from_ref(&buf);
            let flags = parse(context.interfaces, one, &mut descriptor, &mut keys);
            let [descriptor] = descriptor;
            let has_key = descriptor.is_open_user() && descriptor.family == Family::V4;
            let parsed =
                (has_key && !flags.any(PacketFlags::FRAGMENT)).then(|| (descriptor.side, keys.v4[0]));
            [context.preview(&buf), parsed]
        })
    }

    proptest! {
        /// Where the filter reads a key and stage `parse` does, it is the same: no packet of an established flow is
        /// taken for another's.
        #[test]
        fn keys_are_those_of_parse(
            packet in prop_oneof![any_user_packet(true), any_user_packet(false)],
            container in prop::option::of(any::<[u8; 2]>()),
            changes in prop::collection::vec((0..80_usize, any::<u8>()), 0..3),
        ) {
            let inner = packet.bytes();
            for (port, mut packet) in [
                (0, tunnelled(N3_ADDRESS, 0x1001, 255, container, &[], &inner)),
                (1, inner.clone()),
            ] {
                for (at, octet) in &changes {
                    if let Some(place) = packet.get_mut(*at) {
                        *place = *octet;
                    }
                }
                if let [Some(previewed), Some(parsed)] = keys(port, &packet) {
                    prop_assert_eq!(previewed, parsed);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        /// The filter reads no key of an urgent packet, so that it refuses none.
        #[test]
        fn nothing_urgent_is_refused(
            (ether_type, packet) in priority::tests::any_packet(),
            port in 0..2_u16,
            changes in prop::collection::vec((0..90_usize, any::<u8>()), 0..4),
        ) {
            let mut bytes = priority::tests::frame(0, ether_type, &packet);
            for (at, octet) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = octet;
                }
            }
            let mut buf = MemBuf::new(&bytes);
            buf.set_ingress(PortId(port));
            let both = |context: &Context<'_>| {
                context.preview(&buf).is_some() && priority::is_urgent(context.interfaces, &buf)
            };
            prop_assert!(!with_context(both));
        }
    }

    #[test]
    fn the_common_forms_are_read() {
        let inner = testing::UserPacket::udp(testing::UE, [192, 0, 2, 1], 1_000, 53).bytes();
        let uplink = tunnelled(N3_ADDRESS, 0x1001, 255, Some([0x10, 9]), &[], &inner);
        let downlink = testing::UserPacket::udp([192, 0, 2, 1], testing::UE, 53, 1_000).bytes();
        for (port, packet) in [(0, uplink), (1, downlink)] {
            let [previewed, parsed] = keys(port, &packet);
            assert!(
                previewed.is_some() && previewed == parsed,
                "{previewed:?} {parsed:?}"
            );
        }
        let to_ourselves = testing::UserPacket::udp([10, 0, 6, 254], [10, 0, 6, 1], 179, 179).bytes();
        assert_eq!(keys(1, &to_ourselves)[0], None);
    }
}
