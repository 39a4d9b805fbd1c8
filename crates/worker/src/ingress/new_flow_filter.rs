//! Refuses first packets of new flows before they are parsed, while the slow path has no time for them.
//!
//! In a flood of new flows most packets have no flow entry, and most of those are over the slow path's
//! [budget](crate::slow_path::budget). Here such a packet costs its key, read from constant places, and one look at an
//! array of eight octets a bucket: [`Flows::may_hold`] tells for certain that a packet has no entry. The other way
//! round it may be wrong: a few new flows pass for established ones, and are refused by the slow path.
//!
//! Packets with a flow entry are never refused here, nor any that is [urgent](crate::ingress::priority) whatever its
//! DSCP, nor any that is not of the forms whose key is at constant places: IPv6, fragments, options, messages. Those
//! over the budget are refused in deficit round robin over UEs, as in the slow path. The table's hash is keyed: a
//! sender cannot choose packets that pass, nor packets that stop others'.

use flow::{FlowKey4, LocalId, Nanos, Origin, Prepared, WorkerId, prefetch};
use packet::eth::ether_type;
use packet::martian::is_unforwardable_v4;
use packet::preview::{self, Previewed};
use packet::{PacketBuf, Teid};
use rules::classifier::{Side, whole_key_of_previewed};

use crate::PacketMetadata;
use crate::burst::batch::BURST;
use crate::ingress::l3_interfaces::{L3Interface, L3Interfaces};
use crate::ingress::last_ingress::LastIngress;
use crate::ingress::worker_selection::WorkerSelection;
use crate::lookup::flow_tables::Flows;
use crate::nat::NatStage;
use crate::slow_path::deficit_round_robin::{Class, HashedRoundRobin};

/// How many packets ahead the headers of one are asked for: as many as are read while its memory is on the way.
const AHEAD: usize = 8;

/// The filter's state.
pub(crate) struct NewFlowFilter {
    by_ue: HashedRoundRobin,
    read: Box<Read>,
}

/// The packets of a burst whose key could be read: as many as `count`, in order.
struct Read {
    /// Packets of the burst.
    burst: usize,
    count: usize,
    keys: [FlowKey4; BURST],
    foretold: [Prepared; BURST],
    /// Their places in the burst.
    places: [u8; BURST],
}

/// What the filter reads.
pub(crate) struct Context<'a> {
    pub interfaces: &'a L3Interfaces,
    pub flows: &'a Flows,
    /// Of several workers: which owns a session, and which this is.
    pub selection: Option<(&'a WorkerSelection, WorkerId)>,
    /// Where there are public addresses, and when it is.
    pub nat: Option<(&'a NatStage, Nanos)>,
}

/// What the filter did to a burst.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filtered {
    /// Bit n: packet n is refused.
    pub refused: u64,
    /// Bit n: packet n is known not to be urgent whatever its DSCP.
    pub ordinary: u64,
    /// First packets that were let in.
    pub admitted: usize,
}

impl NewFlowFilter {
    pub fn new(by_ue: HashedRoundRobin) -> Self {
        let read = Read {
            burst: 0,
            count: 0,
            keys: [FlowKey4::default(); BURST],
            foretold: [Prepared::default(); BURST],
            places: [0; BURST],
        };
        Self {
            by_ue,
            read: Box::new(read),
        }
    }

    /// Lets in `most` first packets of new flows among `packets`, and refuses the others.
    pub fn filter<B: PacketBuf + PacketMetadata>(
        &mut self,
        context: &Context<'_>,
        packets: &[B],
        most: usize,
    ) -> Filtered {
        let read = &mut *self.read;
        read.burst(context, packets);
        let held = context
            .flows
            .may_hold(&read.keys[..read.count], &read.foretold[..read.count]);
        if most == 0 {
            return Filtered {
                refused: read.in_burst(!held),
                ordinary: read.in_burst(u64::MAX),
                admitted: 0,
            };
        }
        self.deal(held, most)
    }

    /// Deals out the places among those that are not `held`.
    fn deal(&mut self, held: u64, most: usize) -> Filtered {
        let read = &*self.read;
        let mut filtered = Filtered {
            ordinary: read.in_burst(u64::MAX),
            ..Filtered::default()
        };
        let mut turns = [None; BURST];
        for (number, turn) in turns.iter_mut().enumerate().take(read.count) {
            if held >> number & 1 == 1 {
                continue;
            }
            let FlowKey4 {
                scope,
                teid,
                destination,
                ..
            } = read.keys[number];
            let (class, side) = match scope.origin() {
                Origin::Tunnel(local) => (Class::NewUplink, tunnel(local, Teid(teid))),
                Origin::Plain(vrf) => (Class::NewDownlink, Side::Plain { vrf }),
            };
            *turn = Some(self.by_ue.ask(class, side, Some(destination.into())));
        }
        self.by_ue.close(most);
        for (turn, place) in turns.iter().zip(read.places) {
            let Some(turn) = *turn else { continue };
            match self.by_ue.admits(turn) {
                true => filtered.admitted += 1,
                false => filtered.refused |= 1 << place,
            }
        }
        self.by_ue.finish();
        filtered
    }
}

impl Read {
    /// Reads the keys of a burst, and asks for the memory that shows whether they have entries.
    #[inline]
    fn burst<B: PacketBuf + PacketMetadata>(&mut self, context: &Context<'_>, packets: &[B]) {
        let (mut last, mut count) = (LastIngress::default(), 0);
        // The key of a packet in a tunnel ends in the second line.
        let ask = |packet: &B| prefetch::lines(packet.data(), 2);
        packets.iter().take(AHEAD).for_each(ask);
        for (place, packet) in packets.iter().enumerate().take(BURST) {
            packets.get(place + AHEAD).into_iter().for_each(ask);
            if let Some(key) = context.preview(packet, &mut last) {
                let number = count % BURST;
                self.foretold[number] = context.flows.foretell(&key);
                (self.keys[number], self.places[number]) = (key, place as u8);
                count += 1;
            }
        }
        (self.burst, self.count) = (packets.len(), count);
    }

    /// From bits of the packets that could be read, those of the burst's packets.
    #[inline]
    fn in_burst(&self, bits: u64) -> u64 {
        if self.count == self.burst {
            // Each is at the place of its number.
            return bits & !u64::MAX.checked_shl(self.count as u32).unwrap_or(0);
        }
        let places = self.places.iter().take(self.count).enumerate();
        places.fold(0, |all, (number, place)| {
            all | (bits >> number & 1) << (place & 63)
        })
    }
}

impl<'a> Context<'a> {
    /// The whole key of a user packet that this worker owns, as stage `parse` reads them; `None` for what
    /// is of another form or not for a session.
    #[inline(always)]
    fn preview<B: PacketBuf + PacketMetadata>(
        &self,
        packet: &B,
        last: &mut LastIngress<'a>,
    ) -> Option<FlowKey4> {
        let frame = packet.data();
        let (interface, l2) = last.of_ip(self.interfaces, frame, packet.ingress())?;
        if l2.ether_type != ether_type::IPV4 {
            return None;
        }
        let l2_len = usize::from(l2.len);
        let ip = frame.get(l2_len..)?;
        let available = packet.len().checked_sub(l2_len)?;
        match preview::gpdu(ip, available) {
            Some(found) => {
                let local = interface.local_v4(found.destination).filter(|local| local.gtpu)?;
                let side = Side::Tunnel {
                    local: local.id,
                    teid: found.teid,
                    qfi: found.qfi,
                };
                self.owned_key(side, &found.inner)
            }
            None => {
                let vrf = interface.vrf;
                let packet = preview::plain(ip, available)?;
                if !is_for_others(interface, &packet) {
                    return None;
                }
                // What is for a public address has the entry of the UE's own. Without a mapping it never comes to a
                // session.
                let packet = match self.nat {
                    Some((nat, now)) => nat.as_admitted(vrf, packet, now)?,
                    None => packet,
                };
                self.owned_key(Side::Plain { vrf }, &packet)
            }
        }
    }

    /// The key of a packet, if this worker owns it.
    #[inline(always)]
    fn owned_key(&self, side: Side, packet: &Previewed) -> Option<FlowKey4> {
        match self.selection {
            Some(selection) if !is_owner(selection, side, packet.destination) => None,
            _ => Some(whole_key_of_previewed(side, packet)),
        }
    }
}

/// Whether a worker owns the session of a packet.
#[inline]
fn is_owner((selection, worker): (&WorkerSelection, WorkerId), side: Side, destination: [u8; 4]) -> bool {
    let owner = match side {
        Side::Tunnel { local, teid, .. } => selection.of_tunnel(local, teid),
        Side::Plain { vrf } => selection.of_address(vrf, destination.into()),
    };
    owner == worker
}

/// What a packet came in by, as far as it says whose it is.
#[inline]
const fn tunnel(local: LocalId, teid: Teid) -> Side {
    Side::Tunnel {
        local,
        teid,
        qfi: None,
    }
}

/// Whether a plain packet may be one of a session: it is for none of our addresses nor a group that may hold us
/// (RFC 5771 §4).
#[inline(always)]
fn is_for_others(interface: &L3Interface, packet: &Previewed) -> bool {
    interface.plain
        && interface.local_v4(packet.destination).is_none()
        && packet.destination[..3] != [224, 0, 0]
        && !is_unforwardable_v4(packet.source)
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
        let flows = Flows::new(capacity, Seed([1, 2])).expect("there is memory");
        let selection = WorkerSelection::new(1, 0, 0);
        run(&Context {
            interfaces: &interfaces,
            flows: &flows,
            selection: Some((&selection, WorkerId(0))),
            nat: None,
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
    fn keys(port: u16, packet: &[u8]) -> [Option<FlowKey4>; 2] {
        let buf = buf(port, packet);
        with_context(|context| {
            let mut descriptor = [Descriptor::NEW];
            let mut keys = Keys::new();
            let one = std::slice::from_ref(&buf);
            let flags = parse(context.interfaces, one, &mut descriptor, &mut keys);
            let [descriptor] = descriptor;
            let has_key = descriptor.is_open_user() && descriptor.family == Family::V4;
            let parsed = (has_key && !flags.any(PacketFlags::FRAGMENT)).then(|| keys.v4[0]);
            [context.preview(&buf, &mut LastIngress::default()), parsed]
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
                context.preview(&buf, &mut LastIngress::default()).is_some() && priority::is_urgent(context.interfaces, &buf)
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
