//! More packets than a worker takes in a poll: what may not wait goes first, the rest in turn.

use flow::{Nanos, PortId, WorkerId};
use packet::gtpu::MessageType;
use packet::{DropReason, build};
use proptest::prelude::*;
use rules::testing::{self, GNB, N3_ADDRESS, UE, UserPacket, tunnelled};
use transport::lag::{End, Lacpdu};
use worker::mem::{MemBuf, MemIo};
use worker::{BURST, Event, HostRates, Urgency};

use crate::common::one_session::{REMOTE, TEID, events, fix_lengths, ip, session, to_ue};
use crate::common::{PEER_MAC, World, frame};
use crate::{lag, world};

const N3: PortId = PortId(0);
const N6: PortId = PortId(1);

fn world(backlog: usize) -> World {
    let mut world = World::with(testing::network(), 1, |config| {
        config.backlog = backlog;
        config.echoes = worker::PacketRates::new(100_000, 100_000);
        // Expedited forwarding.
        config.urgent_dscps = vec![1 << 46];
    });
    world.install(1, session());
    world
}

/// The `n`th user packet in its tunnel.
fn user(n: u16) -> Vec<u8> {
    let inner = UserPacket::udp(UE, REMOTE, 1_000 + n, 53).bytes();
    tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &inner)
}

fn echo() -> Vec<u8> {
    let mut packet = tunnelled(N3_ADDRESS, 0, 1, None, &[], &[]);
    packet.splice(28.., [0x32, 1, 0, 4, 0, 0, 0, 0, 0, 1, 0, 0]);
    fix_lengths(&mut packet);
    packet
}

fn push(world: &World, packet: &[u8]) {
    push_frame(world, N3, &frame(N3.0, packet));
}

fn push_frame(world: &World, port: PortId, frame: &[u8]) {
    let queue = world.wires.to(WorkerId(0), port);
    queue.push(MemBuf::new(frame)).expect("there is room on the wire");
}

/// What goes out in one poll: the numbers of user packets, and how many echo responses.
fn poll(world: &mut World) -> (Vec<u16>, usize) {
    world.poll();
    let out = world.take();
    let number = |frame: &[u8]| u16::from_be_bytes([frame[34], frame[35]]).wrapping_sub(1_000);
    let users = out.iter().filter(|(port, _)| *port == N6);
    let echoes = out
        .iter()
        .filter(|(port, frame)| *port == N3 && frame.get(43) == Some(&MessageType::ECHO_RESPONSE.0));
    (users.map(|(_, frame)| number(frame)).collect(), echoes.count())
}

#[test]
fn an_echo_behind_a_thousand_packets_does_not_wait_for_them() {
    let mut world = world(512);
    (0..1_000).for_each(|n| push(&world, &user(n)));
    push(&world, &echo());
    let (mut users, mut before) = (Vec::new(), None);
    for _ in 0..20 {
        let (some, echoes) = poll(&mut world);
        if echoes > 0 {
            assert_eq!(before, None, "one answer");
            before = Some(users.len());
        }
        users.extend(some);
        world.assert_conserved();
    }
    let before = before.expect("it is answered");
    assert!(before <= 4 * BURST, "after {before} packets");
    assert!(users.is_sorted(), "the others keep their order");
    let dropped = world.workers[0].stats().dropped(DropReason::Overload) as usize;
    assert_eq!(users.len() + dropped, 1_000);
    assert!(dropped > 0 && dropped <= 1_000 - 512, "{dropped}");
    // Each that is processed is completed once, and no other.
    let completed = world.workers[0].io_mut().completed() as usize;
    assert_eq!(completed, 1_001 - dropped);
}

#[test]
fn nothing_is_lost_that_may_wait() {
    let mut world = world(1_024);
    (0..900).for_each(|n| push(&world, &user(n)));
    let users: Vec<_> = (0..20).flat_map(|_| poll(&mut world).0).collect();
    assert_eq!(users, (0..900).collect::<Vec<_>>());
    let stats = world.workers[0].stats();
    assert_eq!((stats.backlog, stats.held, stats.rx()), (0, 0, 900));
}

#[test]
fn an_end_marker_stays_behind_the_packets_before_it() {
    let mut world = world(1_024);
    (0..200).for_each(|n| push(&world, &user(n)));
    push(&world, &tunnelled(N3_ADDRESS, TEID, 254, None, &[], &[]));
    push(&world, &echo());
    let mut marked = tunnelled(N3_ADDRESS, TEID, 254, None, &[], &[]);
    mark(&mut marked);
    push(&world, &marked);
    world.poll();
    let stats = world.workers[0].stats();
    assert_eq!(
        (stats.urgent, stats.backlog),
        (1, 138),
        "the echo alone goes first, whatever the marker's DSCP"
    );
}

/// Gives an IPv4 packet the DSCP that the operator has named.
fn mark(packet: &mut [u8]) {
    packet[1] = 46 << 2;
    packet[10..12].fill(0);
    let sum = packet::checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn the_operator_says_whose_dscp_goes_first() {
    let mut world = world(1_024);
    (0..200).for_each(|n| push(&world, &user(n)));
    let mut marked = user(777);
    mark(&mut marked);
    push(&world, &marked);
    let (users, _) = poll(&mut world);
    assert_eq!(users.last(), Some(&777));
    assert_eq!(users.len(), BURST + 1);
}

#[test]
fn without_room_to_wait_no_worker_looks_ahead() {
    let mut world = world(0);
    (0..200).for_each(|n| push(&world, &user(n)));
    push(&world, &echo());
    let (users, echoes) = poll(&mut world);
    assert_eq!((users.len(), echoes), (BURST, 0));
    let stats = world.workers[0].stats();
    assert_eq!((stats.urgent, stats.rx()), (0, BURST as u64));
}

#[test]
fn what_looks_urgent_and_is_for_users_waits() {
    let mut world = world(1_024);
    // In the tunnel: what a UE sends says nothing of itself.
    let inner = UserPacket::udp(UE, GNB, 3_784, 3_784).bytes();
    let packet = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &inner);
    (0..100).for_each(|n| push(&world, &user(n)));
    push(&world, &packet);
    world.poll();
    let queue = world.wires.to(WorkerId(0), N6);
    // On N6: a port of a UE's is none of ours.
    let to_ue = UserPacket::udp(REMOTE, UE, 8_805, 8_805).bytes();
    for _ in 0..100 {
        queue
            .push(MemBuf::new(&frame(N6.0, &to_ue)))
            .expect("there is room on the wire");
    }
    world.poll();
    assert_eq!(world.workers[0].stats().urgent, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes in bursts of whatever length: each packet is forwarded once or counted as dropped, in order, and
    /// each echo is answered.
    #[test]
    fn each_packet_is_there_once_and_in_order(
        backlog in 0_usize..300,
        rounds in prop::collection::vec((0_u16..400, 0_usize..3, 1_usize..4), 1..8),
    ) {
        let mut world = world(backlog);
        let (mut sent, mut echoes_sent) = (0, 0);
        let (mut users, mut echoes) = (Vec::new(), 0);
        for (packets, asked, polls) in rounds {
            let room = 1_024 - world.wires.to(WorkerId(0), N3).len();
            let packets = usize::from(packets).min(room.saturating_sub(asked)) as u16;
            (sent..sent + packets).for_each(|n| push(&world, &user(n)));
            (0..asked.min(room)).for_each(|_| push(&world, &echo()));
            sent += packets;
            echoes_sent += asked.min(room);
            for _ in 0..polls {
                let (some, answers) = poll(&mut world);
                users.extend(some);
                echoes += answers;
                prop_assert_eq!(world.workers[0].stats().unaccounted(), 0);
            }
        }
        for _ in 0..60 {
            let (some, answers) = poll(&mut world);
            users.extend(some);
            echoes += answers;
        }
        prop_assert!(users.windows(2).all(|pair| pair[0] < pair[1]));
        let stats = world.workers[0].stats();
        let dropped = stats.dropped(DropReason::Overload) as usize;
        prop_assert_eq!(users.len() + dropped, usize::from(sent));
        prop_assert_eq!((echoes, stats.backlog), (echoes_sent, 0));
    }
}

/// Nothing is received and nothing sent while the backlog is processed: the worker must not sleep before that is done.
#[test]
fn a_worker_whose_packets_wait_is_not_idle() {
    let mut world = world(1_024);
    let mut unknown = frame(N3.0, &user(1));
    // No EtherType of ours.
    unknown[12..14].copy_from_slice(&[0x88, 0xb5]);
    let queue = world.wires.to(WorkerId(0), N3);
    for _ in 0..300 {
        queue
            .push(MemBuf::new(&unknown))
            .expect("there is room on the wire");
    }
    let reports: Vec<_> = (0..6)
        .map(|n| world.workers[0].poll(Nanos::from_secs(1 + n)))
        .collect();
    let waiting: Vec<_> = reports.iter().map(|report| report.waiting).collect();
    assert_eq!(waiting, [236, 172, 108, 44, 0, 0]);
    assert_eq!((reports[1].rx, reports[1].tx), (0, 0));
    assert!(reports[..4].iter().all(|report| !report.is_idle()));
    assert!(reports[5].is_idle());
    assert_eq!(world.workers[0].stats().unaccounted(), 0);
}

/// Packets of new flows beyond the slow path's budget are refused before they are parsed; established flows lose
/// nothing, keep their order, and what is urgent is answered.
#[test]
fn in_a_flood_of_new_flows_established_ones_lose_nothing() {
    const FLOWS: u16 = 20;
    let mut world = World::with(testing::network(), 1, |config| {
        config.backlog = 1_024;
        config.echoes = worker::PacketRates::new(100_000, 100_000);
        config.force_five_tuple = true;
        config.slow_share_percent = 1;
    });
    world.install(1, session());
    (0..FLOWS).for_each(|n| push(&world, &user(n)));
    assert_eq!(poll(&mut world).0.len(), usize::from(FLOWS));
    let (mut sent, mut fresh, mut established, mut new, mut echoes) = (0, FLOWS, Vec::new(), 0, 0);
    for _ in 0..60 {
        for n in 0..500 {
            if n % 5 == 0 {
                push(&world, &user(sent % FLOWS));
                sent += 1;
            } else {
                push(&world, &user(fresh));
                fresh += 1;
            }
        }
        push(&world, &echo());
        for _ in 0..8 {
            let (users, answers) = poll(&mut world);
            let (known, unknown): (Vec<u16>, Vec<u16>) = users.into_iter().partition(|&n| n < FLOWS);
            established.extend(known);
            new += unknown.len() as u64;
            echoes += answers;
            world.assert_conserved();
        }
    }
    let expected: Vec<_> = (0..sent).map(|n| n % FLOWS).collect();
    assert_eq!(established, expected);
    assert_eq!(echoes, 60);
    let stats = world.workers[0].stats();
    let refused = stats.dropped(DropReason::SlowPathBudget);
    assert_eq!((stats.backlog, stats.dropped(DropReason::Overload)), (0, 0));
    assert_eq!(new + refused, u64::from(fresh - FLOWS));
    assert!(refused > 20_000, "{refused}");
    // Most of them never came to the lookup.
    assert!(stats.misses < 10_000, "{}", stats.misses);
}

/// A port's queue that stays long in a flood is emptied at the cost of established flows, but not of urgent packets:
/// these wait no longer than the queue is; when it is short again, established flows lose nothing any more.
#[test]
fn a_flood_that_cannot_be_looked_at_in_time_does_not_fill_the_port() {
    let mut world = World::with(testing::network(), 1, |config| {
        config.backlog = 1_024;
        config.echoes = worker::PacketRates::new(100_000, 100_000);
        config.force_five_tuple = true;
        config.slow_share_percent = 1;
    });
    world.install(1, session());
    push(&world, &user(0));
    assert_eq!(poll(&mut world).0.len(), 1);
    let (mut fresh, mut offered, mut known, mut echoes) = (1, [0; 2], [0; 2], [0; 2]);
    // More than a look takes; then as much as it takes at most.
    for (calm, rounds, packets) in [(0, 800, 300), (1, 800, 200)] {
        for _ in 0..rounds {
            let room = 1_000 - world.wires.to(WorkerId(0), N3).len();
            for n in 0..packets.min(room) {
                if n % 4 == 0 {
                    push(&world, &user(0));
                    offered[calm] += 1;
                } else {
                    push(&world, &user(fresh));
                    fresh = 1 + fresh % 20_000;
                }
            }
            push(&world, &echo());
            let (users, answers) = poll(&mut world);
            known[calm] += users.iter().filter(|&&n| n == 0).count();
            echoes[calm] += answers;
        }
        // What waits in the port is of the first part.
        let waits = world.wires.to(WorkerId(0), N3).len();
        (0..waits.div_ceil(200)).for_each(|_| {
            let (users, answers) = poll(&mut world);
            known[calm] += users.iter().filter(|&&n| n == 0).count();
            echoes[calm] += answers;
        });
    }
    assert_eq!(echoes, [800, 800]);
    assert!(
        known[0] < offered[0] && known[0] > offered[0] / 8,
        "{known:?} of {offered:?}"
    );
    assert!(known[1] > offered[1] * 3 / 4, "{known:?} of {offered:?}");
    world.assert_conserved();
}

/// The backlog bridges a burst of any length that it has room for; in an overload that lasts it is short.
#[test]
fn a_lasting_overload_has_a_short_backlog() {
    let mut world = world(4_096);
    let mut deepest = (0, 0);
    for round in 0..3_000_u32 {
        let room = 1_024 - world.wires.to(WorkerId(0), N3).len();
        (0..room.min(200)).for_each(|n| push(&world, &user(n as u16)));
        poll(&mut world);
        let backlog = world.workers[0].stats().backlog;
        match round {
            0..900 => deepest.0 = deepest.0.max(backlog),
            1_500.. => deepest.1 = deepest.1.max(backlog),
            _ => {}
        }
    }
    // A burst of them is processed in each poll.
    assert_eq!(deepest.0, 4_096 - BURST as u64);
    assert!(deepest.1 <= 256, "{deepest:?}");
    (0..40).for_each(|_| drop(poll(&mut world)));
    let stats = world.workers[0].stats();
    assert_eq!((stats.backlog, stats.unaccounted()), (0, 0));
}

/// A worker that has time for all that comes, in bursts, loses nothing of it, also where an overload has just lasted.
#[test]
fn bursts_wait_again_when_an_overload_is_over() {
    let mut world = world(4_096);
    for _ in 0..4_000 {
        (0..2 * BURST).for_each(|n| push(&world, &user(n as u16)));
        poll(&mut world);
    }
    let dropped = |world: &World| world.workers[0].stats().dropped(DropReason::Overload);
    let in_overload = dropped(&world);
    assert!(in_overload > 100_000, "{in_overload}");
    (0..20).for_each(|_| drop(poll(&mut world)));
    let mut settled = 0;
    for round in 0..12_000_usize {
        // Five polls process as many.
        let burst = if round % 5 == 0 { 4 * BURST + 44 } else { 0 };
        (0..burst).for_each(|n| push(&world, &user(n as u16)));
        poll(&mut world);
        if round == 4_000 {
            settled = dropped(&world);
        }
    }
    assert_eq!(dropped(&world), settled);
    world.assert_conserved();
}

/// What keeps links, neighbours and paths alive, as it comes in at N3.
fn control_frames() -> [Vec<u8>; 4] {
    let bfd = |from: &str| std::net::SocketAddr::new(ip(from), 3_784);
    let bfd = build::packet::udp(bfd("10.0.3.9"), bfd("10.0.3.1"), &[0; 24]).expect("one family");
    [
        frame(N3.0, &echo()),
        world::arp(1, [10, 0, 3, 9], N3_ADDRESS.octets()),
        world::solicitation("2001:db8:3::1".parse().expect("an address")),
        frame(N3.0, &bfd),
    ]
}

/// How many frames of each kind of [`control_frames`] were answered, or given to the host, in one poll.
fn processed(world: &mut World) -> [usize; 4] {
    world.poll();
    let out = world.take();
    let of = |is: fn(&[u8]) -> bool| {
        out.iter()
            .filter(|(port, frame)| *port == N3 && is(frame))
            .count()
    };
    let host = world.wires.host_gets(Urgency::Urgent);
    [
        of(|frame| frame[12..14] == [8, 0] && frame[43] == MessageType::ECHO_RESPONSE.0),
        of(|frame| frame[12..14] == [8, 6] && frame[21] == 2),
        of(|frame| frame[12..14] == [0x86, 0xdd] && frame[54] == 136),
        std::iter::from_fn(|| host.pop()).count(),
    ]
}

/// A world in which what keeps links alive is processed.
fn world_with_host(able: impl Fn(&mut MemIo)) -> World {
    let configure = |config: &mut worker::WorkerConfig| {
        config.backlog = 4_096;
        config.echoes = worker::PacketRates::new(100_000, 100_000);
        let rates = HostRates {
            urgent: 100_000,
            usual: 100,
        };
        config.host = vec![Some(rates), Some(rates)];
    };
    let mut world = World::over(testing::network(), 1, configure, able);
    world.install(1, session());
    world
}

/// Twice what a poll takes, for longer than a backlog can bridge: what may not wait is processed in the poll that takes
/// it.
#[test]
fn what_keeps_links_alive_does_not_wait_in_a_lasting_overload() {
    let mut world = world_with_host(|_| {});
    let frames = control_frames();
    for round in 0..4_000_usize {
        (0..2 * BURST).for_each(|n| push(&world, &user(n as u16)));
        let mut expected = [0; 4];
        if round % 100 == 99 {
            let kind = round / 100 % 4;
            push_frame(&world, N3, &frames[kind]);
            expected[kind] = 1;
        }
        assert_eq!(processed(&mut world), expected, "round {round}");
    }
    let stats = world.workers[0].stats();
    assert_eq!((stats.urgent, stats.unaccounted()), (40, 0));
    assert!(stats.dropped(DropReason::Overload) > 1_000 * BURST as u64);
    // In each poll a burst of users was forwarded.
    let forwarded = stats.direction(flow::Direction::Uplink).forwarded.packets;
    assert!(forwarded >= 3_999 * BURST as u64, "{forwarded}");
}

/// Where the length of a port's queue is known, some are left there: what may not wait waits for a few polls. In each
/// poll a burst of users is forwarded, in order, also when none comes for a while.
#[test]
fn a_port_that_tells_keeps_a_few_packets() {
    let mut world = world_with_host(MemIo::tell_waiting);
    let frames = control_frames();
    let mut done = [0; 4];
    let forwarded = |world: &World| {
        let uplink = world.workers[0].stats().direction(flow::Direction::Uplink);
        uplink.forwarded.packets
    };
    for round in 0..4_000_usize {
        // In bursts: nothing comes in every fourth poll.
        let some = if round % 4 == 3 { 0 } else { 3 * BURST };
        (0..some).for_each(|n| push(&world, &user(n as u16)));
        if round % 100 == 0 {
            push_frame(&world, N3, &frames[round / 100 % 4]);
        }
        let before = forwarded(&world);
        let processed = processed(&mut world);
        let users = forwarded(&world) - before;
        // One of them may be another.
        assert!(
            users == BURST as u64 || users == BURST as u64 - 1,
            "round {round}: {users}"
        );
        done.iter_mut()
            .zip(processed)
            .for_each(|(all, some)| *all += some);
        let asked = round / 100 + 1;
        assert!(
            round % 100 < 8 || done.iter().sum::<usize>() == asked,
            "round {round}: {done:?}"
        );
    }
    assert_eq!(done, [10; 4]);
    let stats = world.workers[0].stats();
    assert!(stats.dropped(DropReason::Overload) > 1_000 * BURST as u64);
    assert_eq!(stats.unaccounted(), 0);
}

/// Who sends what looks urgent gets ahead for a while: then it is as any other packet.
#[test]
fn a_flood_of_what_looks_urgent_does_not_go_first_for_long() {
    let mut world = world_with_host(|_| {});
    let frames = control_frames();
    for _ in 0..500 {
        (0..BURST).for_each(|n| push(&world, &user(n as u16)));
        (0..BURST).for_each(|n| push_frame(&world, N3, &frames[n % 4]));
        world.poll();
        world.take();
    }
    let stats = world.workers[0].stats();
    assert!((500..=500 * 8 + 512).contains(&stats.urgent), "{}", stats.urgent);
    assert_eq!(stats.unaccounted(), 0);
}

/// The same of a port that sorts: the flood stays in its queue, and users have their bursts.
#[test]
fn a_flood_in_an_urgent_queue_leaves_its_bursts_to_users() {
    let mut world = world_with_host(MemIo::sort_urgent);
    let frames = control_frames();
    let flood = |world: &World| {
        let queue = world.wires.urgent(N3);
        while queue.len() < 4 * BURST {
            queue
                .push(MemBuf::new(&frames[queue.len() % 4]))
                .expect("there is room");
        }
    };
    for _ in 0..500 {
        (0..BURST).for_each(|n| push(&world, &user(n as u16)));
        flood(&world);
        world.poll();
        world.take();
    }
    let stats = world.workers[0].stats();
    assert_eq!(
        stats.direction(flow::Direction::Uplink).forwarded.packets,
        500 * BURST as u64
    );
    assert!(
        (500..=500 * 8 + 512 + BURST as u64).contains(&stats.urgent),
        "{}",
        stats.urgent
    );
    // Without users the worker has time for all of it.
    let before = stats.urgent;
    for _ in 0..100 {
        flood(&world);
        world.poll();
        world.take();
    }
    assert!(world.workers[0].stats().urgent >= before + 99 * BURST as u64);
}

#[test]
fn lacpdus_do_not_wait_behind_users() {
    let mut world = lag::world_with_backlog(1, 1_024);
    events(&mut world);
    let pdu = Lacpdu {
        actor: End::default(),
        partner: End::default(),
    };
    let member = PortId(lag::MEMBERS[0]);
    (0..200).for_each(|_| push_frame(&world, member, &frame(lag::LAG.0, &to_ue())));
    push_frame(&world, member, &pdu.frame(PEER_MAC));
    world.poll();
    assert!(matches!(events(&mut world)[..], [Event::Lacp { pdu: received, .. }] if received == pdu));
    assert_eq!(world.workers[0].stats().backlog, 200 - BURST as u64);
}
