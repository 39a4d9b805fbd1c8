//! Generators of every message, with all variants: what a backend could be given, and what one could report.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use flow::contract::*;
use flow::meter::*;
use flow::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::codec::{HostCapabilities, Message};

fn direction() -> impl Strategy<Value = Direction> {
    any::<bool>().prop_map(|down| Direction::BOTH[usize::from(down)])
}

fn scope() -> impl Strategy<Value = Scope> {
    any::<(bool, u16)>().prop_map(|(tunnel, number)| match tunnel {
        true => Scope::tunnel(LocalId(number)),
        false => Scope::plain(VrfId(number)),
    })
}

fn key_fields() -> impl Strategy<Value = KeyFields> {
    (0u8..32).prop_map(|bits| {
        let named = [
            KeyFields::ADDRESS,
            KeyFields::TUPLE,
            KeyFields::QFI,
            KeyFields::TOS,
            KeyFields::FLOW_LABEL,
        ];
        let with = |fields: KeyFields, (place, field)| fields.with_if(field, bits >> place & 1 == 1);
        named.into_iter().enumerate().fold(KeyFields::NONE, with)
    })
}

fn qfi_of_key() -> impl Strategy<Value = u8> {
    prop_oneof![0u8..64, Just(255)]
}

/// Keys are cut as those of a table are: by the mask of their shape.
pub fn key() -> impl Strategy<Value = AnyKey> {
    let common = (
        scope(),
        any::<u32>(),
        any::<[u16; 2]>(),
        any::<[u8; 2]>(),
        key_fields(),
    );
    (
        any::<bool>(),
        common,
        any::<[[u8; 16]; 2]>(),
        qfi_of_key(),
        0u32..1 << 20,
    )
        .prop_map(
            |(is_v4, (scope, teid, ports, [protocol, tos], fields), addresses, qfi, flow_label)| {
                let teid = if scope.is_tunnel() { teid } else { 0 };
                let [source, destination] = addresses;
                if is_v4 {
                    let four = |address: [u8; 16]| [address[0], address[1], address[2], address[3]];
                    let whole = FlowKey4 {
                        scope,
                        teid,
                        source: four(source),
                        destination: four(destination),
                        ports,
                        protocol,
                        fields: KeyFields::WHOLE,
                        tos,
                        qfi,
                    };
                    return AnyKey::V4(Shape::new(fields, scope.is_tunnel()).cut(&whole));
                }
                let whole = FlowKey6 {
                    scope,
                    teid,
                    source,
                    destination,
                    ports,
                    protocol,
                    fields: KeyFields::WHOLE,
                    tos,
                    qfi,
                    flow_label,
                    reserved: 0,
                };
                AnyKey::V6(Shape::new(fields, scope.is_tunnel()).cut(&whole))
            },
        )
}

fn nat() -> impl Strategy<Value = Nat> {
    (any::<[[u8; 4]; 2]>(), any::<[u16; 4]>(), 0u8..16).prop_map(|(addresses, numbers, changes)| Nat {
        source: addresses[0],
        destination: addresses[1],
        source_port: numbers[0],
        destination_port: numbers[1],
        addresses_add: numbers[2],
        ports_add: numbers[3],
        changes: NatFlags::from_bits(changes),
    })
}

fn slots() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        any::<u16>().prop_map(u64::from),
        any::<u32>().prop_map(u64::from),
        any::<u64>()
    ]
}

pub fn flow() -> impl Strategy<Value = Flow> {
    let content = prop_oneof![Just(0), any::<u32>()].prop_map(ContentId);
    let small = (any::<u16>(), 0u8..128, 0u8..250, option::of(0u8..64));
    let rest = (content, any::<u32>());
    (key(), slots(), slots(), small, option::of(nat()), rest).prop_map(
        |(key, qers, urrs, (idle, flags, forward, marking), nat, (content, generation))| Flow {
            key,
            qers,
            urrs,
            idle,
            flags: FlowFlags::from_bits(flags),
            forward,
            marking,
            nat,
            content,
            generation,
        },
    )
}

fn outer_addresses() -> impl Strategy<Value = OuterAddresses> {
    prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|[source, destination]| OuterAddresses::V4 { source, destination }),
        any::<[[u8; 16]; 2]>().prop_map(|[source, destination]| OuterAddresses::V6 { source, destination }),
    ]
}

fn template() -> impl Strategy<Value = Template> {
    (any::<u32>(), outer_addresses(), any::<u16>(), any::<u8>()).prop_map(
        |(teid, addresses, source_port, tos)| Template {
            teid,
            addresses,
            source_port,
            tos,
        },
    )
}

fn forward() -> impl Strategy<Value = Forward> {
    let kind = prop::sample::select(vec![
        ForwardKind::Drop,
        ForwardKind::Buffer,
        ForwardKind::Tunnel,
        ForwardKind::Plain,
        ForwardKind::Punt,
        ForwardKind::Unchanged,
        ForwardKind::Redirect,
    ]);
    let mirror = option::of(prop_oneof![(0u16..1024).prop_map(PortId), Just(Forward::COPIES)]);
    (
        kind,
        any::<(u8, u16, u32)>(),
        template(),
        option::of(0u8..64),
        mirror,
    )
        .prop_map(
            |(kind, (flags, egress, adjacency), template, dscp, mirror)| Forward {
                kind,
                flags: ForwardFlags::from_bits(flags & !ForwardFlags::MIRROR.bits()),
                egress: InstanceId(egress),
                adjacency: AdjacencyId(adjacency),
                template: (kind == ForwardKind::Tunnel).then_some(template),
                dscp,
                mirror,
            },
        )
}

fn mark() -> impl Strategy<Value = Mark> {
    let qos = (option::of(0u8..64), any::<bool>(), option::of(0u8..8)).prop_map(|(qfi, rqi, ppi)| {
        let mark = Mark::NONE.with_rqi(rqi);
        let mark = qfi.map_or(mark, |qfi| mark.with_qfi(qfi));
        ppi.map_or(mark, |ppi| mark.with_ppi(ppi))
    });
    prop_oneof![qos, any::<u8>().prop_map(Mark::with_sci_only)]
}

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![(0u64..1 << 40).prop_map(Rate::from_kbit), Just(Rate::UNLIMITED)]
}

fn packets_per() -> impl Strategy<Value = PacketsPer> {
    (any::<u16>(), 0u8..5).prop_map(|(packets, unit)| PacketsPer {
        packets,
        unit: TimeUnit::from_value(unit),
    })
}

fn meter_spec() -> impl Strategy<Value = MeterSpec> {
    let bursts = any::<[u64; 2]>();
    prop_oneof![
        (rate(), any::<u64>()).prop_map(|(rate, burst)| MeterSpec::Single { rate, burst }),
        (rate(), bursts, any::<bool>()).prop_map(|(cir, [cbs, ebs], aware)| MeterSpec::SrTcm {
            cir,
            cbs,
            ebs,
            aware
        }),
        (rate(), rate(), bursts, any::<bool>()).prop_map(|(cir, pir, [cbs, pbs], aware)| MeterSpec::TrTcm {
            cir,
            cbs,
            pir,
            pbs,
            aware
        }),
        (packets_per(), option::of(packets_per()), any::<bool>()).prop_map(|(base, additional, renews)| {
            let rate = PacketRate { base, additional };
            MeterSpec::Packets { rate, renews }
        }),
        any::<u16>().prop_map(|id| MeterSpec::Shared(SharedId(id))),
    ]
}

fn meter_state() -> impl Strategy<Value = MeterState> {
    (any::<[u64; 5]>(), any::<[u16; 2]>()).prop_map(|(numbers, left)| {
        let window = |left, ends| Window {
            left,
            ends: Nanos(ends),
        };
        MeterState {
            tokens: [numbers[0], numbers[1]],
            at: Nanos(numbers[2]),
            packets: PacketState {
                base: window(left[0], numbers[3]),
                additional: window(left[1], numbers[4]),
            },
        }
    })
}

fn volumes() -> impl Strategy<Value = Volumes> {
    any::<[Option<u64>; 3]>().prop_map(|[total, uplink, downlink]| Volumes {
        total,
        uplink,
        downlink,
    })
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let action = prop::sample::select(vec![LimitAction::Event, LimitAction::Trap, LimitAction::Drop]);
    let limit = (volumes(), action).prop_map(|(octets, action)| CounterLimit { octets, action });
    (volumes(), option::of(limit)).prop_map(|(watermarks, limit)| Bounds { watermarks, limit })
}

fn counter_kind() -> impl Strategy<Value = CounterKind> {
    let weight = (0u8..64, any::<u16>()).prop_map(|(of, times)| CounterWeight { of, times });
    (any::<[bool; 2]>(), option::of(weight)).prop_map(|([before_qos, events], weight)| CounterKind {
        before_qos,
        events,
        weight,
    })
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from)
    ]
}

fn path() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|[local, peer]| (IpAddr::from(local), IpAddr::from(peer))),
        any::<[[u8; 16]; 2]>().prop_map(|[local, peer]| (IpAddr::from(local), IpAddr::from(peer))),
    ]
}

fn own<A: From<[u8; N]> + core::fmt::Debug, const N: usize>(
    length: core::ops::RangeInclusive<u8>,
) -> impl Strategy<Value = OwnAddress<A>>
where
    [u8; N]: Arbitrary,
{
    (any::<[u8; N]>(), length, any::<u16>()).prop_map(|(address, length, local)| OwnAddress {
        address: address.into(),
        length,
        local: LocalId(local),
    })
}

fn marks() -> impl Strategy<Value = Vec<QfiMark>> {
    let of_all = vec((0u8..64, 0u8..64, 0u8..8), 64);
    (
        prop::sample::subsequence((0u8..64).collect::<Vec<_>>(), 0..=64).prop_shuffle(),
        of_all,
    )
        .prop_map(|(qfis, of_all)| {
            let mark = |(qfi, (green, yellow, pcp))| QfiMark {
                qfi,
                green,
                yellow,
                pcp,
            };
            qfis.into_iter().zip(of_all).map(mark).collect()
        })
}

fn instance() -> impl Strategy<Value = Instance> {
    let vlans = prop_oneof![
        Just([None, None]),
        (1u16..4095).prop_map(|outer| [Some(outer), None]),
        (1u16..4095, 1u16..4095).prop_map(|(outer, inner)| [Some(outer), Some(inner)]),
    ];
    let tpid = prop::sample::select(vec![0x8100u16, 0x88a8]);
    let too_long = prop::sample::select(vec![
        TooLong::FragmentInner,
        TooLong::FragmentOuter,
        TooLong::Trap,
    ]);
    let link = (0u16..1024, vlans, tpid, any::<[u8; 6]>(), any::<[u16; 2]>());
    let ipv4 = option::of(own::<Ipv4Addr, 4>(0..=32));
    let ipv6 = option::of(own::<Ipv6Addr, 16>(0..=128));
    let mss = prop_oneof![
        Just(Mss::Off),
        Just(Mss::Auto),
        (1..=u16::MAX).prop_map(Mss::AtMost)
    ];
    let sizes = (too_long, mss);
    (link, ipv4, ipv6, 0u8..8, sizes, marks()).prop_map(
        |((port, vlans, tpid, mac, [vrf, mtu]), ipv4, ipv6, uses, (too_long, mss), marks)| Instance {
            port: PortId(port),
            vlans,
            tpid,
            vrf: VrfId(vrf),
            mac,
            mtu,
            ipv4,
            ipv6,
            uses: InstanceUses::from_bits(uses),
            too_long,
            mss,
            marks,
        },
    )
}

fn prefix() -> impl Strategy<Value = RoutePrefix> {
    let cut = prop_oneof![
        (any::<u32>(), 0u8..=32).prop_map(|(bits, length)| {
            let kept = !u32::MAX.checked_shr(length.into()).unwrap_or(0);
            (IpAddr::from(Ipv4Addr::from_bits(bits & kept)), length)
        }),
        (any::<u128>(), 0u8..=128).prop_map(|(bits, length)| {
            let kept = !u128::MAX.checked_shr(length.into()).unwrap_or(0);
            (IpAddr::from(Ipv6Addr::from_bits(bits & kept)), length)
        }),
    ];
    (any::<u16>(), cut).prop_map(|(vrf, (prefix, length))| RoutePrefix {
        vrf: VrfId(vrf),
        prefix,
        length,
    })
}

fn route() -> impl Strategy<Value = Route> {
    let numbers = any::<(u16, Option<u32>)>().prop_map(|(id, hop)| (InstanceId(id), hop.map(AdjacencyId)));
    let target = prop_oneof![
        numbers
            .clone()
            .prop_map(|(instance, _)| RouteTarget::Link(instance)),
        numbers
            .clone()
            .prop_map(|(instance, hop)| RouteTarget::Router(instance, hop)),
        numbers.prop_map(|(instance, hop)| RouteTarget::Paths(instance, hop.unwrap_or_default())),
        Just(RouteTarget::Host),
    ];
    (prefix(), target).prop_map(|(prefix, target)| Route { prefix, target })
}

fn adjacency() -> impl Strategy<Value = Adjacency> {
    (any::<u16>(), option::of(address()), any::<Option<[u8; 6]>>()).prop_map(|(instance, address, mac)| {
        Adjacency {
            instance: InstanceId(instance),
            address,
            mac,
        }
    })
}

fn slot_or_none(below: u8) -> BoxedStrategy<Option<u8>> {
    match below {
        0 => Just(None).boxed(),
        below => option::of(0..below).boxed(),
    }
}

fn tokens(shapers: usize, queues: usize) -> impl Strategy<Value = QueueTokens> {
    let levels = (vec(any::<i64>(), shapers), vec(any::<[i64; 2]>(), queues));
    (any::<u64>(), levels).prop_map(|(at, (shapers, queues))| QueueTokens {
        at: Nanos(at),
        shapers,
        queues,
    })
}

fn queues() -> impl Strategy<Value = (Queues, Option<QueueTokens>)> {
    let shaper = (0u8..64, rate(), any::<u16>()).prop_map(|(qer, maximum, burst_millis)| Shaper {
        qer,
        maximum,
        burst_millis,
    });
    (any::<u16>(), vec(shaper, 0..=8)).prop_flat_map(|(node, shapers)| {
        let slots = (slot_or_none(64), slot_or_none(shapers.len() as u8), 0u8..8);
        let queue = (slots, rate(), rate(), any::<u16>()).prop_map(
            |((marking, shaper, class), guaranteed, maximum, burst_millis)| Queue {
                marking,
                shaper,
                class,
                guaranteed,
                maximum,
                burst_millis,
            },
        );
        vec(queue, 1..=8).prop_flat_map(move |queues| {
            let tokens = option::of(tokens(shapers.len(), queues.len()));
            let all = Queues {
                node: SharedNodeId(node),
                shapers: shapers.clone(),
                queues,
            };
            (Just(all), tokens)
        })
    })
}

fn queue_class() -> impl Strategy<Value = QueueClass> {
    let curve = || {
        (0u32..1000, 1u32..1000, 1u8..=255).prop_map(|(min, more, one_in)| RedCurve {
            min,
            max: min + more,
            one_in,
        })
    };
    let management = prop_oneof![
        Just(Management::TailDrop),
        Just(Management::CoDel),
        Just(Management::DualQueue),
        (curve(), curve(), 1u8..=12).prop_map(|(green, yellow, weight_log2)| Management::Wred {
            green,
            yellow,
            weight_log2,
        }),
    ];
    (0u8..8, 1u8..=255, any::<u32>(), management).prop_map(|(priority, weight, octets, management)| {
        QueueClass {
            priority,
            weight,
            octets,
            management,
        }
    })
}

fn shared_node() -> impl Strategy<Value = SharedNode> {
    let parent = option::of(any::<u16>().prop_map(SharedNodeId));
    (parent, rate(), any::<u32>(), 1u8..=255, any::<u8>()).prop_map(
        |(parent, rate, burst, weight, overhead)| SharedNode {
            parent,
            rate,
            burst,
            weight,
            overhead,
        },
    )
}

fn of_session() -> BoxedStrategy<Object> {
    prop_oneof![
        4 => flow().prop_map(Object::Flow),
        1 => (0u8..250, forward()).prop_map(|(slot, forward)| Object::Forward { slot, forward }),
        1 => (0u8..64, mark(), any::<[bool; 2]>(), any::<[bool; 2]>())
            .prop_map(|(slot, mark, closed, metered)| Object::Qer { slot, mark, closed, metered }),
        1 => (0u8..64, direction(), meter_spec(), option::of(meter_state()))
            .prop_map(|(qer, direction, spec, state)| Object::Meter { qer, direction, spec, state }),
        1 => (0u8..64, counter_kind(), bounds()).prop_map(|(slot, kind, bounds)| Object::Counter { slot, kind, bounds }),
        1 => any::<u16>().prop_map(|id| Object::Share(SharedId(id))),
        1 => any::<u32>().prop_map(Object::Generation),
        1 => (direction(), queues()).prop_map(|(direction, (queues, tokens))| Object::Queues {
            direction,
            queues: Box::new(queues),
            tokens: tokens.map(Box::new),
        }),
    ]
    .boxed()
}

fn of_node() -> BoxedStrategy<Object> {
    prop_oneof![
        (any::<u16>(), instance()).prop_map(|(id, instance)| Object::Instance {
            id: InstanceId(id),
            instance: Box::new(instance)
        }),
        route().prop_map(Object::Route),
        (any::<u32>(), adjacency()).prop_map(|(id, adjacency)| Object::Adjacency {
            id: AdjacencyId(id),
            adjacency
        }),
        (path(), any::<u16>()).prop_map(|((local, peer), mtu)| Object::PathMtu(PathMtu { local, peer, mtu })),
        (any::<u16>(), [rate(), rate()], any::<[u64; 2]>()).prop_map(|(id, rates, bursts)| {
            let id = SharedId(id);
            Object::SharedMeter { id, rates, bursts }
        }),
        any::<(u16, [u16; 4])>().prop_map(|(id, chain)| Object::SharedChain {
            id: SharedId(id),
            chain: chain.map(SharedId),
        }),
        (0u8..8, queue_class()).prop_map(|(id, class)| Object::QueueClass { id, class }),
        (any::<u16>(), shared_node()).prop_map(|(id, node)| Object::SharedNode {
            id: SharedNodeId(id),
            node
        }),
    ]
    .boxed()
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![of_session(), of_node()]
}

fn name() -> impl Strategy<Value = ObjectId> {
    prop_oneof![
        6 => object().prop_map(|object| object.id()),
        1 => Just(ObjectId::Flows),
        1 => Just(ObjectId::Contents),
        1 => Just(ObjectId::Session),
    ]
}

pub fn request() -> impl Strategy<Value = Request> {
    let op = prop_oneof![
        object().prop_map(FlowOp::Install),
        object().prop_map(FlowOp::Update),
        object().prop_map(FlowOp::Put),
        name().prop_map(FlowOp::Remove),
        name().prop_map(FlowOp::Query),
        Just(FlowOp::Fence),
    ];
    let subject = any::<Option<u32>>().prop_map(|session| match session {
        None => Subject::Node,
        Some(session) => Subject::Session(SessionIndex(session)),
    });
    (any::<(u64, u32)>(), subject, op).prop_map(|((id, epoch), subject, op)| Request {
        id: OpId(id),
        epoch: Epoch(epoch),
        subject,
        op,
    })
}

fn count() -> impl Strategy<Value = UrrCount> {
    any::<[u64; 5]>().prop_map(
        |[ul_packets, ul_octets, dl_packets, dl_octets, events]| UrrCount {
            ul_packets,
            ul_octets,
            dl_packets,
            dl_octets,
            events,
        },
    )
}

fn counts(most: usize) -> impl Strategy<Value = Vec<(u8, UrrCount)>> {
    vec((0u8..64, count()), 0..=most)
}

fn usages(most: usize) -> impl Strategy<Value = Vec<ContentUsage>> {
    let usage =
        (any::<u32>(), count(), any::<[u64; 2]>()).prop_map(|(content, count, [first, last])| ContentUsage {
            content: ContentId(content),
            count,
            first: Nanos(first),
            last: Nanos(last),
        });
    vec(usage, 0..=most)
}

fn reply(entries: usize) -> impl Strategy<Value = Reply> {
    let refusal = prop::sample::select(vec![
        Refusal::Unsupported,
        Refusal::Full,
        Refusal::Exists,
        Refusal::Missing,
        Refusal::InUse,
        Refusal::Stale,
        Refusal::OtherEpoch,
    ]);
    let outcome = prop_oneof![
        Just(Ok(Outcome::Done)),
        counts(entries).prop_map(|counts| Ok(Outcome::Counts(counts))),
        meter_state().prop_map(|state| Ok(Outcome::Meter(state))),
        usages(entries).prop_map(|usages| Ok(Outcome::Contents(usages))),
        any::<[u64; 2]>().prop_map(|octets| Ok(Outcome::Demand(octets))),
        (0usize..=8, 0usize..=8)
            .prop_flat_map(|(shapers, queues)| tokens(shapers, queues))
            .prop_map(|tokens| Ok(Outcome::Tokens(tokens))),
        refusal.prop_map(Err),
    ];
    (any::<u64>(), outcome).prop_map(|(id, outcome)| Reply {
        id: OpId(id),
        outcome,
    })
}

fn event(entries: usize) -> impl Strategy<Value = Event> {
    let session = any::<u32>().prop_map(SessionIndex);
    prop_oneof![
        (session.clone(), key(), counts(entries)).prop_map(|(session, key, counts)| Event::Aged {
            session,
            key,
            counts
        }),
        (session.clone(), 0u8..64).prop_map(|(session, counter)| Event::Watermark { session, counter }),
        (session.clone(), 0u8..64, direction()).prop_map(|(session, counter, direction)| Event::Limit {
            session,
            counter,
            direction
        }),
        (session, counts(entries)).prop_map(|(session, counts)| Event::Counts { session, counts }),
        key().prop_map(|key| Event::Miss { key }),
        any::<u32>().prop_map(|epoch| Event::BackendReset { epoch: Epoch(epoch) }),
        Just(Event::Unreachable),
        any::<u64>().prop_map(|down| Event::Links { down }),
    ]
}

/// Lists have up to `entries` entries.
pub fn notice(entries: usize) -> impl Strategy<Value = Notice> {
    prop_oneof![
        reply(entries).prop_map(Notice::Reply),
        event(entries).prop_map(Notice::Event)
    ]
}

pub fn capabilities() -> impl Strategy<Value = Capabilities> {
    let room = any::<([u32; 5], [u16; 2])>();
    let a_flow = (0u8..=64, 0u8..=64);
    let every = option::of((1..=u64::MAX).prop_map(Duration::from_nanos));
    let queues = (any::<[u32; 2]>(), any::<u64>(), any::<u16>(), 0u8..8).prop_map(
        |([queues, packets], octets, nodes, managements)| QueueRoom {
            queues,
            nodes,
            packets,
            octets,
            managements: Managements::from_bits(managements),
        },
    );
    let rest = (
        any::<[bool; 3]>(),
        any::<Option<u32>>(),
        every,
        option::of(queues),
    );
    (key_fields(), 0u16..1 << 13, a_flow, room, rest).prop_map(
        |(
            key_fields,
            actions,
            (counters_per_flow, qers_per_flow),
            (room, rooms),
            (flags, loss, counts_every, queues),
        )| {
            Capabilities {
                key_fields,
                actions: Actions::from_bits(actions),
                ipv4_flows: room[0],
                ipv6_flows: room[1],
                sessions: room[2],
                counters_per_flow,
                qers_per_flow,
                shared_meters: rooms[0],
                instances: rooms[1],
                routes: room[3],
                adjacencies: room[4],
                byte_basis: if flags[0] {
                    ByteBasis::Frame
                } else {
                    ByteBasis::InnerIp
                },
                limits: flags[1],
                fence: flags[2],
                exactness: loss.map_or(Exactness::Exact, |loss| Exactness::Bounded { loss }),
                counts_every,
                queues,
            }
        },
    )
}

/// Whole messages and parts of lists: each fits.
pub fn message() -> impl Strategy<Value = Message> {
    let has_list = |notice: &Notice| match notice {
        Notice::Reply(reply) => match &reply.outcome {
            Ok(Outcome::Counts(counts)) => !counts.is_empty(),
            Ok(Outcome::Contents(usages)) => !usages.is_empty(),
            _ => false,
        },
        Notice::Event(Event::Aged { counts, .. } | Event::Counts { counts, .. }) => !counts.is_empty(),
        Notice::Event(_) => false,
    };
    prop_oneof![
        6 => request().prop_map(Message::Request),
        2 => notice(23).prop_map(Message::from),
        1 => (notice(23), any::<bool>()).prop_map(move |(notice, more)| match more && has_list(&notice) {
            true => Message::Part(notice),
            false => notice.into(),
        }),
        1 => capabilities().prop_map(Message::Capabilities),
        1 => (any::<u8>(), 1..=HostCapabilities::MOST_CHANNELS).prop_map(|(flags, channels)| {
            Message::HostCapabilities(HostCapabilities::of_flags(flags).with_channels(channels))
        }),
    ]
}
