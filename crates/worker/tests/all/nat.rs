//! CG-NAT: packets of a UE leave with a public address, and what comes back finds it.

mod attacks;
mod forwards;
mod unsolicited;

use crate::{common, tracing};

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use flow::{Bucket, LocalId, SessionIndex};
use nat::mappings::{MovedMapping, Protocol};
use nat::pools::{BlockId, Filtering, NatLimits, NatPoolId};
use packet::build::packet as make;
use packet::tuple::proto;
use packet::{DropReason, IpTuple, Teid, checksum, icmp, tcp, udp};
use rules::SessionRules;
use rules::image::{ImmediateActions, MeterShare, SessionChange};
use rules::model::{ChosenNat, FarId, LocalPolicy, NatChoice};
use rules::network::{Network, SessionScope};
use rules::testing::{self, N3_ADDRESS, UE, tunnelled};
use worker::{
    Command, Event, FragmentLimits, MappingsWanted, SessionNatStatus, TraceFilter, TracedTranslation,
    WorkerSelectionChange, WorkerSelectionKey,
};

use common::World;
use common::one_session::{REMOTE, TEID, events, of_ue, reason, session};

/// The pool: two addresses, of 126 blocks of 512 ports each.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 0);
const OTHER_UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 3);
const OTHER_TEID: u32 = 0x2002;
const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);

fn limits() -> NatLimits {
    NatLimits {
        blocks: 2,
        mappings: 100,
        mappings_per_second: 0,
    }
}

fn network(filtering: Filtering, limits: NatLimits) -> Network {
    let network = testing::network();
    let mut bound = testing::public_pool(&network, testing::N6, PUBLIC..=Ipv4Addr::new(198, 51, 100, 1));
    bound.pool.filtering = filtering;
    bound.pool.limits = limits;
    bound.untranslated = vec!["192.0.3.0/24".parse().expect("a prefix")];
    network.with_nat(vec![bound]).expect("a pool")
}

fn translated(mut rules: SessionRules) -> SessionRules {
    rules.set_local_policy(LocalPolicy {
        nat: Some(NatPoolId(0)),
        ..LocalPolicy::default()
    });
    rules
}

/// A world with pools, and a session that has block 3: ports 2560 to 3071 of the first address.
fn world_with(filtering: Filtering, workers: u16) -> World {
    let mut world = World::with(network(filtering, limits()), workers, |config| {
        config.fragments = FragmentLimits::default();
    });
    world.install(1, translated(session()));
    give(&mut world, 1, 3);
    world
}

fn world() -> World {
    world_with(Filtering::EndpointIndependent, 1)
}

/// Gives a session a block, at its worker, and tells all workers.
fn give(world: &mut World, session: u32, block: u32) {
    let (session, block) = (SessionIndex(session), BlockId(block));
    // One of worker 0, which has all sessions here.
    let bucket = Bucket::new(0);
    world.tell_all(|| Command::SelectWorker(WorkerSelectionChange::PortBlock { block, bucket }));
    world.tell_all(|| Command::PortBlock { session, block });
    world.poll();
}

type End = (Ipv4Addr, u16);

fn packet(protocol: u8, from: End, to: End) -> Vec<u8> {
    let ends = ((from.0, from.1).into(), (to.0, to.1).into());
    let made = match protocol {
        proto::TCP => make::tcp(ends.0, ends.1, 7, 0x10, b"some payload"),
        _ => make::udp(ends.0, ends.1, b"some payload"),
    };
    made.expect("short, and of one family")
}

fn in_tunnel(packet: &[u8]) -> Vec<u8> {
    tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], packet)
}

/// The session comes from another worker, with the block that it had there and these mappings.
fn bring(world: &mut World, mappings: Vec<MovedMapping>) {
    let mut image = world
        .image(1, &Arc::new(translated(session())), None)
        .expect("it compiles");
    image.bring_port_blocks(&[BlockId(3)], mappings);
    world
        .apply(0, SessionChange::Install(image))
        .expect("there is room");
}

/// The only packet that leaves for one that comes in, behind its Ethernet header.
fn only(world: &mut World, port: u16, packet: &[u8]) -> Vec<u8> {
    let out = world.send(port, packet);
    let [(_, frame)] = &out[..] else {
        panic!("one packet in, {} out", out.len())
    };
    frame[14..].to_vec()
}

/// The same, of what a tunnel carries.
fn only_in_tunnel(world: &mut World, port: u16, packet: &[u8]) -> Vec<u8> {
    let out = only(world, port, packet);
    out[44..].to_vec()
}

fn tuple(packet: &[u8]) -> IpTuple {
    IpTuple::parse(packet, packet.len()).expect("a packet")
}

fn source(packet: &[u8]) -> End {
    let tuple = tuple(packet);
    let std::net::IpAddr::V4(address) = tuple.addrs.src() else {
        panic!("IPv4")
    };
    (address, tuple.src_port)
}

/// Whether a packet's checksums are right, computed anew.
fn assert_sums(packet: &[u8]) {
    assert!(checksum::is_right(&packet[..20]));
    let (tuple, transport) = (tuple(packet), &packet[20..]);
    match tuple.proto {
        proto::TCP => assert!(tcp::checksum_is_right(&tuple.addrs, transport)),
        proto::UDP => {
            let verified = udp::verify_checksum(&tuple.addrs, transport, checksum::Sum::default(), false);
            assert_eq!(verified, Ok(()));
        }
        _ => assert!(icmp::Header::parse(&tuple.addrs, transport).is_ok()),
    }
}

fn routed(mut packet: Vec<u8>) -> Vec<u8> {
    packet::ipv4::decrement_ttl(&mut packet).expect("it has a TTL");
    packet
}

/// Sends a packet of the UE, and gives the public end that it leaves with.
fn public(world: &mut World, protocol: u8, port: u16) -> End {
    let sent = only(world, 0, &in_tunnel(&packet(protocol, (UE, port), (REMOTE, 53))));
    assert_sums(&sent);
    source(&sent)
}

#[test]
fn packets_leave_with_a_public_address_and_answers_come_back() {
    for protocol in [proto::TCP, proto::UDP] {
        let mut world = world();
        let public = public(&mut world, protocol, 1000);
        assert!(
            public.0 == PUBLIC && (2_560..3_072).contains(&public.1),
            "{public:?}"
        );
        let sent = only(
            &mut world,
            0,
            &in_tunnel(&packet(protocol, (UE, 1000), (REMOTE, 80))),
        );
        assert_eq!(
            sent,
            routed(packet(protocol, public, (REMOTE, 80))),
            "the same for every destination"
        );
        let received = only_in_tunnel(&mut world, 1, &packet(protocol, (REMOTE, 80), public));
        assert_sums(&received);
        assert_eq!(received, routed(packet(protocol, (REMOTE, 80), (UE, 1000))));
        // Flows know nothing of it: one entry for the tunnel, one for the UE's address.
        assert_eq!(world.workers[0].flows(), 2);
        world.assert_conserved();
    }
}

#[test]
fn pings_are_told_apart_by_their_identifier() {
    let mut world = world();
    let ping = make::echo_request(UE.into(), REMOTE.into(), 5, 3, b"some payload").expect("short");
    let sent = only(&mut world, 0, &in_tunnel(&ping));
    assert_sums(&sent);
    assert_eq!(source(&sent).0, PUBLIC);
    let id = u16::from_be_bytes([sent[24], sent[25]]);
    assert!((2_560..3_072).contains(&id));
    let mut answer = make::echo_request(REMOTE.into(), PUBLIC.into(), id, 3, b"some payload").expect("short");
    assert_eq!(
        reason(&mut world, 1, &answer),
        Some(DropReason::NatNoMapping),
        "it asks"
    );
    answer[20] = 0;
    answer[22..24].fill(0);
    let sum = checksum::of(&answer[20..]);
    answer[22..24].copy_from_slice(&sum.to_be_bytes());
    let received = only_in_tunnel(&mut world, 1, &answer);
    assert_sums(&received);
    assert_eq!(
        (&received[16..20], &received[24..26]),
        (&UE.octets()[..], &[0, 5][..])
    );
}

#[test]
fn what_is_unsolicited_ends_before_it_counts() {
    let mut world = world();
    let to = |port| packet(proto::UDP, (REMOTE, 53), (PUBLIC, port));
    assert_eq!(reason(&mut world, 1, &to(2_600)), Some(DropReason::NatNoMapping));
    assert_eq!(
        reason(&mut world, 1, &to(80)),
        Some(DropReason::NatNoMapping),
        "below all blocks"
    );
    let usage = world.query(0, SessionIndex(1));
    assert_eq!(usage.counters[0].1.dl_packets, 0);
    let (_, port) = public(&mut world, proto::UDP, 1000);
    assert_eq!(reason(&mut world, 1, &to(port)), None);
    let other_host = packet(proto::UDP, (ROUTER, 9), (PUBLIC, port));
    assert_eq!(reason(&mut world, 1, &other_host), None, "anyone may send");
    let tcp = packet(proto::TCP, (REMOTE, 53), (PUBLIC, port));
    assert_eq!(
        reason(&mut world, 1, &tcp),
        Some(DropReason::NatNoMapping),
        "another protocol"
    );
    world.now = world.now + Duration::from_secs(301);
    assert_eq!(
        reason(&mut world, 1, &to(port)),
        Some(DropReason::NatNoMapping),
        "it was not kept from outside"
    );
}

#[test]
fn a_filter_by_address_lets_those_pass_that_the_ue_has_sent_to() {
    let mut world = world_with(Filtering::AddressDependent, 1);
    let public = public(&mut world, proto::UDP, 1000);
    let from = |host: Ipv4Addr, port| packet(proto::UDP, (host, port), public);
    assert_eq!(reason(&mut world, 1, &from(REMOTE, 99)), None);
    assert_eq!(
        reason(&mut world, 1, &from(ROUTER, 53)),
        Some(DropReason::NatNoMapping)
    );
}

#[test]
fn past_the_public_address_nothing_reaches_a_ue() {
    let mut world = world();
    public(&mut world, proto::UDP, 1000);
    let past = packet(proto::UDP, (REMOTE, 53), (UE, 1000));
    assert_eq!(reason(&mut world, 1, &past), Some(DropReason::NatBypassed));
    // Of what needs no public address it is the way.
    let near = Ipv4Addr::new(192, 0, 3, 9);
    let sent = only(
        &mut world,
        0,
        &in_tunnel(&packet(proto::UDP, (UE, 1000), (near, 53))),
    );
    assert_eq!(source(&sent), (UE, 1000));
    assert_eq!(
        reason(&mut world, 1, &packet(proto::UDP, (near, 53), (UE, 1000))),
        None
    );
    // What comes behind it gets one as before.
    public(&mut world, proto::UDP, 1000);
}

#[test]
fn ues_reach_each_other_by_public_addresses() {
    let mut world = world();
    let mut other = translated(session());
    of_ue(&mut other, OTHER_TEID, OTHER_UE);
    let image = world.image(2, &Arc::new(other), None).expect("it compiles");
    world
        .apply(0, SessionChange::Install(image))
        .expect("there is room");
    give(&mut world, 2, 130);
    let other_sends = |packet: &[u8]| tunnelled(N3_ADDRESS, OTHER_TEID, 255, Some([0x10, 9]), &[], packet);
    let theirs = packet(proto::UDP, (OTHER_UE, 7), (REMOTE, 53));
    let theirs = source(&only(&mut world, 0, &other_sends(&theirs)));
    assert_eq!(theirs.0, Ipv4Addr::new(198, 51, 100, 1));
    let ours = public(&mut world, proto::UDP, 1000);
    let received = only_in_tunnel(&mut world, 0, &in_tunnel(&packet(proto::UDP, (UE, 1000), theirs)));
    assert_sums(&received);
    let expected = packet(proto::UDP, ours, (OTHER_UE, 7));
    assert_eq!(
        received,
        routed(routed(expected)),
        "from the public address (RFC 4787 REQ-9)"
    );
    let back = only_in_tunnel(
        &mut world,
        0,
        &other_sends(&packet(proto::UDP, (OTHER_UE, 7), ours)),
    );
    assert_eq!(back, routed(routed(packet(proto::UDP, theirs, (UE, 1000)))));
}

#[test]
fn errors_are_about_what_each_side_knows() {
    let mut world = world();
    let public = public(&mut world, proto::UDP, 1000);
    // A router of the data network, about what the UE has sent.
    let quoted = packet(proto::UDP, public, (REMOTE, 53));
    let error = error(ROUTER, PUBLIC, &quoted);
    let received = only_in_tunnel(&mut world, 1, &error);
    assert_sums(&received);
    assert_eq!(received[16..20], UE.octets());
    assert_eq!(
        received[28..],
        packet(proto::UDP, (UE, 1000), (REMOTE, 53)),
        "sums and all"
    );
    // The UE, about what it has got.
    let quoted = packet(proto::UDP, (REMOTE, 53), (UE, 1000));
    let sent = only(&mut world, 0, &in_tunnel(&self::error(UE, REMOTE, &quoted)));
    assert_sums(&sent);
    assert_eq!(source(&sent).0, PUBLIC);
    assert_eq!(sent[28..], packet(proto::UDP, (REMOTE, 53), public));
    // This node, about what does not reach the UE.
    let mut last_hop = packet(proto::UDP, (REMOTE, 53), public);
    last_hop[8] = 1;
    last_hop[10..12].fill(0);
    let sum = checksum::of(&last_hop[..20]);
    last_hop[10..12].copy_from_slice(&sum.to_be_bytes());
    let ours = only(&mut world, 1, &last_hop);
    assert_sums(&ours);
    assert_eq!((ours[20], &ours[28..]), (11, &last_hop[..]));
    // About what this NAT does not know.
    let quoted = packet(proto::UDP, (PUBLIC, 2_561), (REMOTE, 53));
    let stray = self::error(ROUTER, PUBLIC, &quoted);
    if public.1 != 2_561 {
        assert_eq!(reason(&mut world, 1, &stray), Some(DropReason::NatNoMapping));
    }
}

/// Port unreachable.
fn error(from: Ipv4Addr, to: Ipv4Addr, quoted: &[u8]) -> Vec<u8> {
    let mut packet = make::echo_request(from.into(), to.into(), 0, 0, quoted).expect("short");
    packet[20..22].copy_from_slice(&[3, 3]);
    packet[22..24].fill(0);
    let sum = checksum::of(&packet[20..]);
    packet[22..24].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn a_session_without_ports_is_notified_and_control_is_asked() {
    let mut world = World::with(network(Filtering::EndpointIndependent, limits()), 1, |_| {});
    world.install(1, translated(session()));
    let sent = in_tunnel(&packet(proto::UDP, (UE, 1000), (REMOTE, 53)));
    let before = world.drops();
    let answer = only_in_tunnel(&mut world, 0, &sent);
    assert_eq!(world.dropped_since(&before), Some(DropReason::NatNoPort));
    assert_eq!((answer[9], &answer[20..22]), (proto::ICMP, &[3, 13][..]));
    assert_eq!(answer[28..], packet(proto::UDP, (UE, 1000), (REMOTE, 53)));
    let wanted = |world: &mut World| {
        let is_wanted = |event: &Event| matches!(event, Event::PortBlockWanted { session } if session.0 == 1);
        events(world).iter().filter(|event| is_wanted(event)).count()
    };
    assert_eq!(wanted(&mut world), 1);
    world.send(0, &sent);
    assert_eq!(wanted(&mut world), 0, "once a second");
    give(&mut world, 1, 3);
    assert_eq!(reason(&mut world, 0, &sent), None);
    // It may have a hundred mappings.
    for port in 1..100 {
        let sent = in_tunnel(&packet(proto::UDP, (UE, 2000 + port), (REMOTE, 53)));
        assert_eq!(reason(&mut world, 0, &sent), None, "{port}");
    }
    let sent = in_tunnel(&packet(proto::UDP, (UE, 3000), (REMOTE, 53)));
    assert_eq!(reason(&mut world, 0, &sent), Some(DropReason::NatNoPort));
    let usage = world.query(0, SessionIndex(1));
    assert_eq!(
        usage.counters[0].1.ul_packets, 100,
        "what did not leave is not charged"
    );
    let mut esp = packet(proto::UDP, (UE, 1000), (REMOTE, 53));
    esp[9] = proto::ESP;
    esp[10..12].fill(0);
    let sum = checksum::of(&esp[..20]);
    esp[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(
        reason(&mut world, 0, &in_tunnel(&esp)),
        Some(DropReason::NatProtocol)
    );
}

/// A datagram in two fragments.
fn fragments(from: End, to: End) -> [Vec<u8>; 2] {
    let whole = make::udp((from.0, from.1).into(), (to.0, to.1).into(), &[7; 64]).expect("short");
    let cut = |range: std::ops::Range<usize>, flags: u16| {
        let mut piece = [&whole[..20], &whole[20..][range]].concat();
        let len = piece.len() as u16;
        piece[2..4].copy_from_slice(&len.to_be_bytes());
        piece[4..6].copy_from_slice(&[0x12, 0x34]);
        piece[6..8].copy_from_slice(&flags.to_be_bytes());
        piece[10..12].fill(0);
        let sum = checksum::of(&piece[..20]);
        piece[10..12].copy_from_slice(&sum.to_be_bytes());
        piece
    };
    [cut(0..40, 0x2000), cut(40..72, 5)]
}

#[test]
fn fragments_follow_their_first_one_in_any_order() {
    for is_reversed in [false, true] {
        let mut world = world();
        let public = public(&mut world, proto::UDP, 1000);
        let [first, second] = fragments((UE, 1000), (REMOTE, 53));
        let sent: Vec<Vec<u8>> = [first, second]
            .iter()
            .map(|one| only(&mut world, 0, &in_tunnel(one)))
            .collect();
        let expected = fragments(public, (REMOTE, 53)).map(routed);
        assert_eq!(sent, expected);
        let mut pieces = fragments((REMOTE, 53), public);
        let mut expected = fragments((REMOTE, 53), (UE, 1000)).map(routed);
        if is_reversed {
            pieces.reverse();
        }
        let mut received: Vec<Vec<u8>> = Vec::new();
        for piece in &pieces {
            received.extend(
                world
                    .send(1, piece)
                    .iter()
                    .map(|(_, frame)| frame[14 + 44..].to_vec()),
            );
        }
        received.sort();
        expected.sort();
        assert_eq!(received, expected, "{is_reversed}");
        world.assert_conserved();
    }
}

#[test]
fn packets_come_to_the_worker_whose_session_has_the_block() {
    let mut world = world_with(Filtering::EndpointIndependent, 2);
    let tunnel = WorkerSelectionKey::Tunnel(LocalId(0), Teid(TEID));
    world.tell_all(|| {
        Command::SelectWorker(WorkerSelectionChange::Exception {
            key: tunnel,
            bucket: Bucket::new(0),
        })
    });
    let public = public(&mut world, proto::UDP, 1000);
    for worker in [0, 1] {
        let frame = common::frame(1, &packet(proto::UDP, (REMOTE, 53), public));
        let before = world.drops();
        let mut out = world.send_frame(worker, 1, &frame);
        for _ in 0..3 {
            world.poll();
            out.extend(world.take());
        }
        assert_eq!(
            out.len(),
            1,
            "by worker {worker}: {:?}",
            world.dropped_since(&before)
        );
        assert_eq!(
            out[0].1[14 + 44..],
            routed(packet(proto::UDP, (REMOTE, 53), (UE, 1000)))
        );
    }
}

#[test]
fn mappings_move_with_their_session() {
    let mut world = world();
    let public = public(&mut world, proto::UDP, 1000);
    let leaving = world
        .image(1, &Arc::new(translated(session())), None)
        .expect("it compiles");
    let leaving = Box::new(leaving.with_share(MeterShare::Leaving));
    let left = world.apply(0, SessionChange::Replace(leaving, ImmediateActions::default()));
    let left = left.expect("it is there").expect("it has mappings");
    assert_eq!(left.mappings.len(), 1);
    let new = in_tunnel(&packet(proto::UDP, (UE, 1001), (REMOTE, 53)));
    assert_eq!(
        reason(&mut world, 0, &new),
        Some(DropReason::NatNoPort),
        "it makes none while it leaves"
    );
    let mut there = World::with(network(Filtering::EndpointIndependent, limits()), 1, |_| {});
    bring(&mut there, left.mappings);
    let received = only_in_tunnel(&mut there, 1, &packet(proto::UDP, (REMOTE, 53), public));
    assert_eq!(received, routed(packet(proto::UDP, (REMOTE, 53), (UE, 1000))));
    let sent = only(
        &mut there,
        0,
        &in_tunnel(&packet(proto::UDP, (UE, 1000), (REMOTE, 53))),
    );
    assert_eq!(source(&sent), public);
}

/// What a worker says of the session for an operator.
fn inspected(world: &mut World, mappings: MappingsWanted) -> SessionNatStatus {
    world.tell_all(|| Command::Inspect {
        question: 7,
        session: SessionIndex(1),
        mappings,
    });
    world.poll();
    let status = events(world).into_iter().find_map(|event| match event {
        Event::Inspected { status, .. } => status,
        _ => None,
    });
    status.expect("the session").nat.expect("a pool")
}

#[test]
fn an_operator_sees_blocks_mappings_and_counts() {
    let mut world = world();
    let ends = [1000, 1001].map(|port| public(&mut world, proto::UDP, port));
    let all = inspected(&mut world, MappingsWanted::Live { most: 10 });
    assert_eq!((all.used.blocks, all.used.mappings), (1, 2));
    assert_eq!(all.used.ports_free, [512, 510, 512]);
    let mut ports: Vec<u16> = all.mappings.iter().map(|mapping| mapping.port).collect();
    ports.sort_unstable();
    let mut expected = ends.map(|(_, port)| port);
    expected.sort_unstable();
    assert_eq!(ports, expected);
    let first = inspected(&mut world, MappingsWanted::Live { most: 1 });
    assert_eq!(first.mappings, all.mappings[..1]);
    assert_eq!(inspected(&mut world, MappingsWanted::None).mappings, []);
    let of = |protocol| MappingsWanted::OfPort {
        block: BlockId(3),
        port: ends[1].1,
        protocol,
    };
    let found = inspected(&mut world, of(Protocol::Udp)).mappings;
    assert_eq!(found.len(), 1);
    let inside = found[0].inside;
    assert_eq!((inside.address, inside.port), (UE.octets(), 1001));
    assert_eq!(inspected(&mut world, of(Protocol::Tcp)).mappings, []);
    let counts = world.workers[0].nat_counts();
    assert_eq!((counts.mappings.made, counts.mappings.mappings), (2, 2));
    assert!(counts.limit > 2);
}

#[test]
fn a_trace_has_the_public_end_both_ways() {
    let mut world = world();
    let mut reported = tracing::filtered(&mut world, TraceFilter::default());
    let public = public(&mut world, proto::UDP, 1000);
    let translation = |is_destination| TracedTranslation {
        public: SocketAddrV4::new(public.0, public.1),
        inside: SocketAddrV4::new(UE, 1000),
        is_destination,
        unsolicited: None,
    };
    let sent = tracing::one(&mut reported);
    assert_eq!(sent.translation, Some(translation(false)));
    assert!(sent.decision.is_some());
    world.send(1, &packet(proto::UDP, (REMOTE, 53), public));
    let received = tracing::one(&mut reported);
    assert_eq!(received.translation, Some(translation(true)));
    assert!(received.decision.is_some());
    // Neither what keeps its source nor what has no mapping.
    let untranslated = (Ipv4Addr::new(192, 0, 3, 1), 53);
    world.send(0, &in_tunnel(&packet(proto::UDP, (UE, 1000), untranslated)));
    let sent = tracing::one(&mut reported);
    assert_eq!(sent.translation, None);
    assert!(sent.decision.is_some());
    world.send(1, &packet(proto::UDP, (REMOTE, 53), (PUBLIC, public.1 ^ 1)));
    assert_eq!(tracing::one(&mut reported).translation, None);
}

/// Flows that began before a session had a pool, or had another, do what it has now.
#[test]
fn a_session_gets_a_pool_and_loses_it_while_its_flows_last() {
    let mut world = World::with(network(Filtering::EndpointIndependent, limits()), 1, |config| {
        config.fragments = FragmentLimits::default()
    });
    let mut image = world.install(1, session());
    let send = |world: &mut World| public(world, proto::UDP, 1_000);
    assert_eq!(send(&mut world), (UE, 1_000));
    let chosen = |choice| ChosenNat {
        far: FarId(1),
        policy: None,
        choice,
    };
    for _ in 0..2 {
        let pool = Some(chosen(NatChoice::Pool(NatPoolId(0))));
        image = world.change(&image, ImmediateActions::default(), |rules| {
            rules.set_chosen_nat(pool)
        });
        give(&mut world, 1, 3);
        let (address, port) = send(&mut world);
        assert!(address == PUBLIC && (2_560..3_072).contains(&port));
        let none = Some(chosen(NatChoice::Untranslated));
        image = world.change(&image, ImmediateActions::default(), |rules| {
            rules.set_chosen_nat(none)
        });
        assert_eq!(send(&mut world), (UE, 1_000));
        let sent = world.send(1, &packet(proto::UDP, (REMOTE, 53), (address, port)));
        assert!(sent.is_empty(), "its mapping has ended");
    }
    world.assert_conserved();
}
