//! Which receive queue of a port a frame comes to, where the port asks a program: packet sockets of the kernel, and
//! XDP, which says only whether a frame is urgent.
//!
//! A worker has two receive queues of such a port. Urgent packets ([`is_urgent`](super::priority::is_urgent)) come to
//! the second one, which no other packet can fill. With several workers the hash of the outer headers, and of the TEID
//! of GTP-U, chooses the worker, so that packets of a flow stay in order.
//!
//! The program sees a frame from its layer 3 header on; its outer tag has been taken out. What ends within its headers
//! comes to the first queue.

use flow::PortId;
use packet::eth::ether_type;
use packet::gtpu::MessageType;
use packet::tuple::proto;

use super::l3_interfaces::{L3Interface, L3Interfaces};
use super::priority::{BGP_PORT, CS6, GTPU_PORT, OSPF, PATH_MANAGEMENT, UDP_PORTS, VRRP};
use crate::LagPorts;
use crate::io::QueueProgram;
use crate::io::classic_bpf::{Block, INSTRUCTIONS_MAX, Instruction, code, step, when, when_any};

/// Where the number of the worker is kept.
const WORKER: u32 = 0;
/// The hash so far.
const HASH: u32 = 1;
/// An odd number whose bits look random (2^32 by the golden ratio).
const SPREAD: u32 = 0x9e37_79b1;
/// DSCPs of network control, [`CS6`] and above.
const CONTROL_DSCPS: u64 = !0 << CS6;

/// The program of a port for this number of workers. Where its instances and their addresses are too many for a
/// program, it does not sort.
pub(crate) fn queue_program(
    interfaces: &L3Interfaces,
    (port, lags): (PortId, &[LagPorts]),
    workers: u16,
) -> QueueProgram {
    let lag = lags.iter().find(|lag| lag.members.contains(&port));
    let here = lag.map_or(port, |lag| lag.port);
    let choice = Choice {
        workers: workers.into(),
        base: 0,
    };
    let chosen = choice.choose_worker();
    let mut instructions = chosen.clone();
    instructions.push(step(code::LOAD_HALF, code::PROTOCOL));
    instructions.extend(when(code::IF_EQUAL, ether_type::SLOW.into(), choice.urgent()));
    let of_instances = interfaces.on(here).flat_map(|of| choice.of_instance(of));
    instructions.extend(of_instances.take(INSTRUCTIONS_MAX));
    instructions.extend(choice.usual());
    let sorts = instructions.len() <= INSTRUCTIONS_MAX;
    if !sorts {
        instructions = [chosen, choice.usual()].concat();
    }
    QueueProgram { instructions, sorts }
}

/// Makes the blocks of a program.
#[derive(Clone, Copy)]
struct Choice {
    workers: u32,
    /// Octets of a second tag, which are before the layer 3 header.
    base: u32,
}

/// How the DSCP of a packet is read.
#[derive(Clone, Copy)]
enum Version {
    V4,
    V6,
}

impl Choice {
    /// Ends with the first queue of the worker.
    fn usual(&self) -> Block {
        self.queue(0)
    }

    /// Ends with the second queue of the worker.
    fn urgent(&self) -> Block {
        self.queue(self.workers)
    }

    fn queue(&self, first: u32) -> Block {
        match self.workers {
            1 => vec![step(code::RETURN, first)],
            _ => vec![
                step(code::RECALL, WORKER),
                step(code::ADD, first),
                step(code::RETURN_A, 0),
            ],
        }
    }

    /// Notes the worker, where there are several.
    fn choose_worker(&self) -> Block {
        if self.workers < 2 {
            return Block::new();
        }
        let mut block = vec![step(code::SET, 0), step(code::STORE, HASH)];
        block.extend(self.headers_mixed_in(code::PROTOCOL));
        let stacked = Self { base: 4, ..*self }.headers_mixed_in(2);
        for announced_by in [ether_type::VLAN, ether_type::QINQ] {
            block.push(step(code::LOAD_HALF, code::PROTOCOL));
            block.extend(when(code::IF_EQUAL, announced_by.into(), stacked.clone()));
        }
        block.extend([
            step(code::RECALL, HASH),
            step(code::MULTIPLY, SPREAD),
            step(code::SHIFT_RIGHT, 16),
            step(code::MODULO, self.workers),
            step(code::STORE, WORKER),
        ]);
        block
    }

    /// Adds to the hash addresses, ports and TEID of a packet whose EtherType is there.
    fn headers_mixed_in(&self, ether_type_at: u32) -> Block {
        let base = self.base;
        let words =
            |octets: std::ops::Range<u32>| octets.step_by(4).map(move |at| step(code::LOAD_WORD, base + at));
        let mut v4 = mixed_in(words(12..20));
        let mut unfragmented = vec![step(code::HEADER_X, base), step(code::LOAD_OCTET, base + 9)];
        unfragmented.extend(self.ports_mixed_in(step(code::HEADER_X, base)));
        v4.push(step(code::LOAD_HALF, base + 6));
        v4.push(step(code::AND, 0x3fff));
        v4.extend(when(code::IF_EQUAL, 0, unfragmented));
        let mut v6 = mixed_in(words(8..40));
        v6.extend([step(code::SET_X, 40), step(code::LOAD_OCTET, base + 6)]);
        v6.extend(self.ports_mixed_in(step(code::SET_X, 40)));
        let mut block = vec![step(code::LOAD_HALF, ether_type_at)];
        block.extend(when(code::IF_EQUAL, ether_type::IPV4.into(), v4));
        block.push(step(code::LOAD_HALF, ether_type_at));
        block.extend(when(code::IF_EQUAL, ether_type::IPV6.into(), v6));
        block
    }

    /// Adds the ports to the hash, and the TEID of GTP-U: A is the protocol, and `header` sets X to where its header
    /// is.
    fn ports_mixed_in(&self, header: Instruction) -> Block {
        let base = self.base;
        let mut tcp = mixed_in([step(code::LOAD_WORD_X, base)].into_iter());
        let mut udp = tcp.clone();
        // No protocol that is compared next.
        tcp.push(step(code::SET, 0));
        udp.extend([header, step(code::LOAD_HALF_X, base + 2)]);
        let teid = mixed_in([step(code::LOAD_WORD_X, base + 12)].into_iter());
        udp.extend(when(code::IF_EQUAL, GTPU_PORT.into(), teid));
        let mut block = when(code::IF_EQUAL, proto::TCP.into(), tcp);
        block.extend(when(code::IF_EQUAL, proto::UDP.into(), udp));
        block
    }

    /// Ends with the queue of a packet, if it is one of an instance.
    fn of_instance(self, of: &L3Interface) -> Block {
        let tag = [step(code::LOAD_HALF, code::VLAN_TAG), step(code::AND, 0xfff)];
        let (first, second) = of.vlan_ids();
        let Some(second) = second else {
            let packet = self.packet(of, code::PROTOCOL);
            return [&tag[..], &when(code::IF_EQUAL, first.into(), packet)].concat();
        };
        let stacked = Self { base: 4, ..self };
        let packet = stacked.packet(of, 2);
        let second_tag = [step(code::LOAD_HALF, 0), step(code::AND, 0xfff)];
        let behind_first = [&second_tag[..], &when(code::IF_EQUAL, second.into(), packet)].concat();
        let tagged = [&tag[..], &when(code::IF_EQUAL, first.into(), behind_first)].concat();
        let mut block = Block::new();
        for announced_by in [ether_type::VLAN, ether_type::QINQ] {
            block.push(step(code::LOAD_HALF, code::PROTOCOL));
            block.extend(when(code::IF_EQUAL, announced_by.into(), tagged.clone()));
        }
        block
    }

    /// Ends with the queue of a packet whose EtherType is there.
    fn packet(&self, of: &L3Interface, ether_type_at: u32) -> Block {
        let mut block = vec![step(code::LOAD_HALF, ether_type_at)];
        block.extend(when(code::IF_EQUAL, ether_type::ARP.into(), self.urgent()));
        block.extend(when(code::IF_EQUAL, ether_type::IPV4.into(), self.ipv4(of)));
        block.extend(when(code::IF_EQUAL, ether_type::IPV6.into(), self.ipv6(of)));
        block.extend(self.usual());
        block
    }

    fn ipv4(&self, of: &L3Interface) -> Block {
        let by_dscp = self.by_dscp(Version::V4, of.urgent_dscps);
        let mut ours = vec![step(code::LOAD_HALF, self.base + 6)];
        ours.extend(when(code::IF_BITS, 0x3fff, by_dscp.clone()));
        ours.extend([
            step(code::HEADER_X, self.base),
            step(code::LOAD_OCTET, self.base + 9),
        ]);
        ours.extend(self.transport(Version::V4, of));

        // Behind the comparisons is what is done with others' packets, and then with ours.
        let mut compared = vec![step(code::LOAD_WORD, self.base + 16)];
        let mut matches = Vec::new();
        for address in of.own_v4() {
            compared.extend(when(
                code::IF_EQUAL,
                u32::from_be_bytes(address),
                vec![step(code::JUMP, 0)],
            ));
            matches.push(compared.len() - 1);
        }
        compared.push(step(code::AND, 0xffff_ff00));
        compared.extend(when(code::IF_EQUAL, 0xe000_0000, vec![step(code::JUMP, 0)]));
        matches.push(compared.len() - 1);
        behind(compared, &matches, by_dscp, ours)
    }

    fn ipv6(&self, of: &L3Interface) -> Block {
        let by_dscp = self.by_dscp(Version::V6, of.urgent_dscps);
        let mut ours = vec![step(code::SET_X, 40), step(code::LOAD_OCTET, self.base + 6)];
        ours.extend(self.transport(Version::V6, of));

        let mut compared = Block::new();
        let mut matches = Vec::new();
        for address in of.own_v6() {
            let (words, _) = address.as_chunks::<4>();
            // From the last word to the first: each one is compared where those before it are equal.
            let mut block = vec![step(code::JUMP, 0)];
            for (place, word) in words.iter().enumerate().rev() {
                let compare = when(code::IF_EQUAL, u32::from_be_bytes(*word), block);
                block = vec![step(code::LOAD_WORD, self.base + 24 + 4 * place as u32)];
                block.extend(compare);
            }
            compared.extend(block);
            matches.push(compared.len() - 1);
        }
        compared.extend([step(code::LOAD_HALF, self.base + 24)]);
        compared.extend(when(code::IF_EQUAL, 0xff02, vec![step(code::JUMP, 0)]));
        matches.push(compared.len() - 1);
        behind(compared, &matches, by_dscp, ours)
    }

    /// Ends with the queue of a packet to ourselves: A is its protocol, X where its header is.
    fn transport(&self, version: Version, of: &L3Interface) -> Block {
        let dscps = of.urgent_dscps;
        let by_dscp = self.by_dscp(version, dscps);
        let control_dscps = if of.host { CONTROL_DSCPS } else { 0 };
        let as_control = self.by_dscp(version, dscps | control_dscps);
        let urgent = self.urgent();

        let mut gtpu = vec![step(code::LOAD_OCTET_X, self.base + 9)];
        let path_management = PATH_MANAGEMENT.into_iter().filter(|_| of.takes_gtpu());
        gtpu.extend(when_any(path_management.map(|kind| kind.0.into()), &urgent));
        gtpu.extend(when(
            code::IF_EQUAL,
            MessageType::END_MARKER.0.into(),
            self.usual(),
        ));
        gtpu.extend(by_dscp.clone());

        let ports = |ports: &[u16]| {
            let ports = || ports.iter().filter(|_| of.host).map(|&port| port.into());
            let mut block = when_any(ports(), &urgent);
            block.push(step(code::LOAD_HALF_X, self.base));
            block.extend(when_any(ports(), &urgent));
            block.extend(as_control.clone());
            block
        };
        let mut udp = vec![step(code::LOAD_HALF_X, self.base + 2)];
        udp.extend(when(code::IF_EQUAL, GTPU_PORT.into(), gtpu));
        udp.extend(ports(&UDP_PORTS));
        let mut tcp = vec![step(code::LOAD_HALF_X, self.base + 2)];
        tcp.extend(ports(&[BGP_PORT]));
        let mut icmpv6 = vec![step(code::LOAD_OCTET_X, self.base)];
        icmpv6.extend(when_any(133..=137, &urgent));
        icmpv6.extend(by_dscp);

        let mut block = Block::new();
        block.extend(when(code::IF_EQUAL, proto::UDP.into(), udp));
        block.extend(when(code::IF_EQUAL, proto::TCP.into(), tcp));
        block.extend(when(code::IF_EQUAL, proto::ICMPV6.into(), icmpv6));
        let of_routers = [OSPF, VRRP].into_iter().filter(|_| of.host);
        block.extend(when_any(of_routers.map(u32::from), &urgent));
        block.extend(as_control);
        block
    }

    /// Ends with the queue of a packet of which only the DSCP says whether it is urgent: bit n is DSCP n.
    fn by_dscp(&self, version: Version, dscps: u64) -> Block {
        if dscps == 0 {
            return self.usual();
        }
        let mut block = match version {
            Version::V4 => vec![step(code::LOAD_OCTET, self.base + 1), step(code::SHIFT_RIGHT, 2)],
            Version::V6 => vec![
                step(code::LOAD_HALF, self.base),
                step(code::SHIFT_RIGHT, 6),
                step(code::AND, 0x3f),
            ],
        };
        let half = |bits: u64, from: u32| {
            let mut half = vec![
                step(code::SUBTRACT, from),
                step(code::TO_X, 0),
                step(code::SET, bits as u32),
                step(code::SHIFT_RIGHT_X, 0),
            ];
            half.extend(when(code::IF_BITS, 1, self.urgent()));
            half.extend(self.usual());
            half
        };
        block.extend(when(code::IF_AT_LEAST, 32, half(dscps >> 32, 32)));
        block.extend(half(dscps, 0));
        block
    }
}

/// Puts what follows comparisons behind them; `matches` are their jumps to `then`.
fn behind(mut compared: Block, matches: &[usize], otherwise: Block, then: Block) -> Block {
    let target = compared.len() + otherwise.len();
    for &at in matches {
        compared[at].k = (target - at - 1) as u32;
    }
    compared.extend(otherwise);
    compared.extend(then);
    compared
}

/// Adds to the hash what these load.
fn mixed_in(loads: impl Iterator<Item = Instruction>) -> Block {
    let mix = |load| {
        [
            load,
            step(code::RECALL_X, HASH),
            step(code::XOR_X, 0),
            step(code::STORE, HASH),
        ]
    };
    loads.flat_map(mix).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use packet::eth::VlanTags;
    use packet::{MacAddr, VlanId};
    use proptest::prelude::*;
    use rules::testing::{self, GNB, N3_ADDRESS, UE, UE_V6};

    use super::*;
    use crate::ingress::priority::is_urgent;
    use crate::mem::MemBuf;
    use crate::{HostRates, LagHash, PacketMetadata};

    /// Expedited forwarding and CS1, at the first instance alone.
    const URGENT: u64 = 1 << 46 | 1 << 8;
    const OWN_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 1);

    /// What the kernel gives a program of a frame.
    struct Seen<'a> {
        protocol: u16,
        tag: u16,
        rest: &'a [u8],
    }

    impl<'a> Seen<'a> {
        fn of(frame: &'a [u8]) -> Self {
            let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
            match word(12) {
                ether_type::VLAN | ether_type::QINQ => Seen {
                    protocol: word(16),
                    tag: word(14),
                    rest: &frame[18..],
                },
                protocol => Seen {
                    protocol,
                    tag: 0,
                    rest: &frame[14..],
                },
            }
        }

        fn load(&self, at: u32, octets: usize) -> Option<u32> {
            match at {
                code::PROTOCOL => return Some(self.protocol.into()),
                code::VLAN_TAG => return Some(self.tag.into()),
                _ => {}
            }
            let found = self.rest.get(at as usize..at as usize + octets)?;
            Some(
                found
                    .iter()
                    .fold(0, |value, octet| value << 8 | u32::from(*octet)),
            )
        }
    }

    /// Runs a program as the kernel does; a load behind the end of the packet gives 0.
    fn run(program: &[Instruction], seen: &Seen<'_>) -> u32 {
        let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, [None; 16], 0);
        loop {
            let Instruction { code, jt, jf, k } = program[at];
            at += 1;
            let skip = |holds: bool| usize::from(if holds { jt } else { jf });
            let loaded = match code {
                code::LOAD_WORD => seen.load(k, 4),
                code::LOAD_HALF => seen.load(k, 2),
                code::LOAD_OCTET => seen.load(k, 1),
                code::LOAD_WORD_X => seen.load(x + k, 4),
                code::LOAD_HALF_X => seen.load(x + k, 2),
                code::LOAD_OCTET_X => seen.load(x + k, 1),
                code::HEADER_X => {
                    let Some(first) = seen.load(k, 1) else { return 0 };
                    x = (first & 0xf) * 4;
                    continue;
                }
                code::SET => Some(k),
                code::RECALL => Some(memory[k as usize].expect("a word that was stored")),
                code::ADD => Some(a.wrapping_add(k)),
                code::SUBTRACT => Some(a.wrapping_sub(k)),
                code::MULTIPLY => Some(a.wrapping_mul(k)),
                code::AND => Some(a & k),
                code::SHIFT_RIGHT => Some(a >> k),
                code::SHIFT_RIGHT_X => Some(a >> x),
                code::MODULO => Some(a % k),
                code::XOR_X => Some(a ^ x),
                _ => Some(a),
            };
            let Some(loaded) = loaded else { return 0 };
            a = loaded;
            match code {
                code::SET_X => x = k,
                code::RECALL_X => x = memory[k as usize].expect("a word that was stored"),
                code::STORE => memory[k as usize] = Some(a),
                code::TO_X => x = a,
                code::JUMP => at += k as usize,
                code::IF_EQUAL => at += skip(a == k),
                code::IF_AT_LEAST => at += skip(a >= k),
                code::IF_BITS => at += skip(a & k != 0),
                code::RETURN => return k,
                code::RETURN_A => return a,
                _ => {}
            }
        }
    }

    /// The first instance without a tag, the second with one, the third with two; all on their own ports.
    fn interfaces() -> L3Interfaces {
        let id = VlanId::from_low_bits;
        let network = testing::network_with(|instance| {
            instance.vlan = match instance.id {
                testing::N6 => Some(VlanTags::from(id(100))),
                testing::N9 => Some(VlanTags::stacked(id(200), id(30))),
                _ => None,
            };
        });
        let host = Some(HostRates {
            urgent: 1_000,
            usual: 1_000,
        });
        let interfaces = L3Interfaces::new(&network, &[MacAddr([2, 0, 0, 0, 0, 1]); 4]);
        interfaces.with_host(&[host, None, host], &[URGENT])
    }

    fn tags() -> impl Strategy<Value = Vec<u8>> {
        let id = VlanId::from_low_bits;
        let octets = |tags: VlanTags| {
            let (octets, len) = tags.octets();
            octets[..len].to_vec()
        };
        let two = VlanTags::stacked(id(200), id(30));
        prop_oneof![
            Just(Vec::new()),
            Just(octets(VlanTags::from(id(100)))),
            Just(octets(two)),
            Just(octets(VlanTags::from(id(77)))),
        ]
    }

    /// A whole header of IPv4 or IPv6, and what follows it.
    fn packets() -> impl Strategy<Value = (u16, Vec<u8>)> {
        let port = || {
            prop_oneof![
                3 => Just(GTPU_PORT),
                1 => Just(BGP_PORT),
                2 => prop::sample::select(UDP_PORTS.to_vec()),
                1 => any::<u16>()
            ]
        };
        let protocol = prop_oneof![
            4 => Just(proto::UDP),
            3 => prop::sample::select(vec![proto::TCP, proto::ICMP, proto::ICMPV6, OSPF, VRRP]),
            1 => any::<u8>()
        ];
        let kind = prop::sample::select(vec![1, 2, 26, 31, 128, 133, 137, 254, 255_u8]);
        let place = (any::<bool>(), 0..4_usize, any::<bool>());
        let fields = (
            protocol,
            0..64_u8,
            5..8_u8,
            prop::sample::select(vec![0_u16, 0x4000, 0x2000, 7]),
        );
        (place, fields, (port(), port()), kind, any::<bool>()).prop_map(
            |((is_v6, to, starts_with_kind), (protocol, dscp, words, fragment), ports, kind, is_long)| {
                let mut packet = match is_v6 {
                    true => vec![0; 40],
                    false => vec![0; usize::from(words) * 4],
                };
                if is_v6 {
                    let to = [
                        OWN_V6,
                        UE_V6,
                        Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 5),
                        Ipv6Addr::LOCALHOST,
                    ];
                    (packet[0], packet[1], packet[6]) = (0x60 | dscp >> 2, dscp << 6, protocol);
                    packet[24..40].copy_from_slice(&to[usize::from(words) % 4].octets());
                } else {
                    let to = [
                        N3_ADDRESS,
                        GNB,
                        Ipv4Addr::new(224, 0, 0, 5),
                        Ipv4Addr::new(10, 0, 6, 1),
                    ][to];
                    (packet[0], packet[1], packet[9]) = (0x40 | words, dscp << 2, protocol);
                    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
                    packet[12..16].copy_from_slice(&UE.octets());
                    packet[16..20].copy_from_slice(&to.octets());
                }
                let [source, destination] = [ports.0, ports.1].map(u16::to_be_bytes);
                let first = if starts_with_kind { [kind, 0] } else { source };
                packet.extend([first, destination].concat());
                packet.extend([0, 20, 0, 0, 0x30, kind, 0, 4, 0, 0, 0, 9]);
                packet.resize(packet.len() + usize::from(is_long) * 50, 0);
                (if is_v6 { ether_type::IPV6 } else { ether_type::IPV4 }, packet)
            },
        )
    }

    fn any_frame() -> impl Strategy<Value = Vec<u8>> {
        let other = prop::sample::select(vec![ether_type::ARP, ether_type::SLOW, 0x88cc]);
        let content = prop_oneof![4 => packets(), 1 => other.prop_map(|of| (of, vec![0; 46]))];
        (tags(), content).prop_map(|(tags, (kind, packet))| {
            // LACP is below tags.
            let tags = if kind == ether_type::SLOW {
                Vec::new()
            } else {
                tags
            };
            [&[2; 12][..], &tags, &kind.to_be_bytes(), &packet].concat()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn urgent_packets_and_no_others_come_to_second_queues(frame in any_frame(), port in 0..4_u16) {
            let interfaces = interfaces();
            let mut buf = MemBuf::new(&frame);
            buf.set_ingress(PortId(port));
            let urgent = is_urgent(&interfaces, &buf);
            let mut of_workers = [1, 3_u16].map(|workers| {
                let program = queue_program(&interfaces, (PortId(port), &[]), workers);
                assert!(program.sorts);
                (u32::from(workers), run(&program.instructions, &Seen::of(&frame)))
            });
            for (workers, queue) in &mut of_workers {
                prop_assert!(*queue < 2 * *workers);
                prop_assert_eq!(*queue >= *workers, urgent);
            }
        }

        #[test]
        fn a_truncated_packet_comes_to_some_queue(frame in any_frame(), keep in 0..70_usize) {
            let program = queue_program(&interfaces(), (PortId(0), &[]), 4);
            let frame = &frame[..frame.len().min(18 + keep)];
            prop_assert!(run(&program.instructions, &Seen::of(frame)) < 8);
        }
    }

    fn tunnelled(teid: u32) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x08, 0]);
        frame.extend(testing::tunnelled(N3_ADDRESS, teid, 255, None, &[], &[7; 60]));
        frame
    }

    #[test]
    fn tunnels_are_spread_over_workers_and_each_stays_at_one() {
        let program = queue_program(&interfaces(), (PortId(0), &[]), 4);
        let mut tunnels = [0; 4];
        for teid in 0..4_000 {
            let frame = tunnelled(teid);
            let queue = run(&program.instructions, &Seen::of(&frame));
            assert_eq!(queue, run(&program.instructions, &Seen::of(&frame)));
            tunnels[queue as usize] += 1;
        }
        assert!(
            tunnels.iter().all(|&count| (800..1_200).contains(&count)),
            "{tunnels:?}"
        );
    }

    #[test]
    fn members_of_a_lag_have_its_instances() {
        let lag = LagPorts {
            port: PortId(0),
            members: vec![PortId(2), PortId(3)],
            lacp: true,
            hash: LagHash::L34,
        };
        let of = |port| queue_program(&interfaces(), (PortId(port), std::slice::from_ref(&lag)), 1);
        assert_eq!(of(2), of(0));
        assert_ne!(of(2), of(1));
    }

    #[test]
    fn too_many_addresses_for_a_program_are_not_sorted() {
        let mut interfaces = interfaces();
        interfaces.add_own_v4(PortId(0), (0..2_000_u32).map(u32::to_be_bytes));
        let program = queue_program(&interfaces, (PortId(0), &[]), 1);
        assert!(!program.sorts);
        assert_eq!(run(&program.instructions, &Seen::of(&tunnelled(1))), 0);
    }

    /// What the kernel makes of it in eBPF, as an XDP program on whole frames. Only root can load one.
    #[cfg(feature = "dpdk")]
    #[test]
    fn an_xdp_program_chooses_the_same() {
        use dpdk::testing::ChoosingProgram;
        use proptest::strategy::ValueTree;
        use proptest::test_runner::TestRunner;

        let interfaces = interfaces();
        let mut runner = TestRunner::deterministic();
        for port in 0..4 {
            let program = queue_program(&interfaces, (PortId(port), &[]), 1).instructions;
            let words = program.iter().map(crate::dpdk::in_dpdks_words);
            let Ok(in_kernel) = ChoosingProgram::load(&words.collect::<Vec<_>>()) else {
                println!("not run: only root can load a program");
                assert!(!dpdk::testing::own_network(), "the kernel refuses the program");
                return;
            };
            for _ in 0..1_000 {
                let frame = any_frame().new_tree(&mut runner).expect("a frame").current();
                for octets in [frame.len(), frame.len() / 2] {
                    let frame = &frame[..octets.max(18)];
                    let expected = run(&program, &Seen::of(frame)) == 1;
                    let found = in_kernel.chooses(frame).expect("the kernel runs it");
                    assert_eq!(found, expected, "{frame:02x?}");
                }
            }
        }
    }
}
