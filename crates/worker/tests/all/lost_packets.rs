//! A packet that its port does not take is not counted, whichever way it took to the port: whole or in fragments,
//! beside duplicates, released from a buffer, over a LAG.

use std::collections::BTreeMap;
use std::time::Duration;

use flow::{PortId, SessionIndex, UrrCount, WorkerId};
use packet::eth::L2;
use packet::{Fragment, GtpuFrame, IpFrame, Teid, checksum};
use rules::SessionRules;
use rules::image::{ImmediateActions, SessionImage};
use rules::model::{
    ApplyAction, DestinationInterface, Edit, FarId, FarUpdate, ForwardingParametersUpdate,
    OuterHeaderCreation,
};
use rules::network::Fragmentation;
use rules::testing::{GNB, UE, UserPacket};
use worker::BufferLimits;
use worker::mem::MemBuf;

use crate::common::one_session::{GNB_TEID, REMOTE, session, uplink};
use crate::common::{World, frame};
use crate::lag;
use crate::path_mtu::{announce_mtu, to_gnb};

const N3_PORT: PortId = PortId(0);
const N6_PORT: PortId = PortId(1);
const DUPLICATE_TEID: u32 = 7;
const BURST: u16 = 64;

/// A tunnel and the identification of a user packet.
type SentId = (u32, u16);

fn set_action(rules: &mut SessionRules, action: ApplyAction) {
    let duplicating = ForwardingParametersUpdate {
        destination: Some(DestinationInterface::Access),
        outer_header_creation: Edit::Set(OuterHeaderCreation::gtpu_ipv4(Teid(DUPLICATE_TEID), GNB)),
        ..ForwardingParametersUpdate::default()
    };
    let update = FarUpdate {
        action: Some(action.with(ApplyAction::DUPL)),
        duplicating: Edit::Set(duplicating),
        ..FarUpdate::new(FarId(2))
    };
    rules.update_far(update).expect("it is there");
}

/// Whether the user packet with this identification leaves in two fragments.
fn is_long(id: u16) -> bool {
    id.is_multiple_of(3)
}

fn push_downlink(world: &World, id: u16) {
    let mut user = UserPacket::udp(REMOTE, UE, 53, 1000);
    user.payload = vec![0; if is_long(id) { 1_400 } else { 100 }];
    let mut packet = user.bytes();
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    // It may be fragmented.
    packet[6..8].fill(0);
    packet[10..12].fill(0);
    let sum = checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    push(world, N6_PORT, &packet);
}

fn push(world: &World, port: PortId, packet: &[u8]) {
    let queue = world.wires.to(WorkerId(0), port);
    queue
        .push(MemBuf::new(&frame(port.0, packet)))
        .expect("there is room");
}

/// Takes up to `most` frames of the gNB's port, and counts the fragments of each user packet.
fn take(world: &World, most: usize, sent: &mut BTreeMap<SentId, usize>) {
    for _ in 0..most {
        let Some(buf) = world.wires.from(N3_PORT).pop() else {
            return;
        };
        let bytes = buf.bytes();
        let l2 = L2::parse(bytes).expect("Ethernet");
        let ip = IpFrame::parse(bytes, bytes.len(), &l2).expect("IP");
        if ip.tuple.fragment != Fragment::None {
            // Duplicates leave in fragments of the outer packet.
            continue;
        }
        let gtpu = GtpuFrame::parse(bytes, &ip).expect("GTP-U");
        let user = &bytes[usize::from(gtpu.payload_offset)..];
        let id = u16::from_be_bytes([user[4], user[5]]);
        *sent.entry((gtpu.teid.0, id)).or_default() += 1;
    }
}

fn counted(world: &mut World) -> UrrCount {
    world.query(0, SessionIndex(1)).counters[0].1
}

/// User packets of the gNB's tunnel whose fragments were all sent.
fn sent_whole(sent: &BTreeMap<SentId, usize>) -> u64 {
    let is_whole =
        |((teid, id), parts): (&SentId, &usize)| *teid == GNB_TEID && *parts == 1 + usize::from(is_long(*id));
    sent.iter().filter(|sent| is_whole(*sent)).count() as u64
}

#[test]
fn a_packet_counts_if_all_of_its_fragments_left_whatever_else_is_refused() {
    let network = rules::testing::network_with(|instance| instance.fragmentation = Fragmentation::Inner);
    let mut world = World::with(network, 1, |config| {
        config.buffers = BufferLimits {
            queues: 8,
            packets: 512,
            octets: 1 << 20,
            per_queue: 256,
            per_session: 256,
            per_session_octets: 1 << 20,
            timeout: Duration::from_secs(60),
        };
    });
    let mut rules = session();
    set_action(&mut rules, ApplyAction::FORW);
    let mut image: Box<SessionImage> = world.install(1, rules);
    announce_mtu(&mut world, to_gnb(), Some(1400));
    let mut sent = BTreeMap::new();
    let mut random = 1_u32;
    let mut room = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) as usize % 256
    };
    for burst in 0..300 {
        (0..BURST).for_each(|number| push_downlink(&world, burst * BURST + number));
        world.poll();
        take(&world, room(), &mut sent);
        if burst % 20 == 19 {
            // Two bursts wait in a buffer, and are released towards a port that takes a part of them.
            for action in [ApplyAction::BUFF, ApplyAction::FORW] {
                image = world.change(&image, ImmediateActions::default(), |rules| {
                    set_action(rules, action)
                });
                if action == ApplyAction::BUFF {
                    (0..2 * BURST).for_each(|number| push_downlink(&world, 20_000 + burst * BURST + number));
                    (0..3).for_each(|_| world.poll());
                    take(&world, room(), &mut sent);
                }
            }
            (0..3).for_each(|_| world.poll());
        }
    }
    take(&world, usize::MAX, &mut sent);
    let stats = world.workers[0].stats().clone();
    assert!(
        stats.flushed > 500 && stats.fragmented > 1000 && stats.duplicated > 1000,
        "{stats:?}"
    );
    assert!(stats.dropped(packet::DropReason::TxFull) > 1000, "{stats:?}");
    let whole = sent_whole(&sent);
    assert!(whole > 500, "{whole}");
    assert_eq!(counted(&mut world).dl_packets, whole);
    assert_eq!(world.forwarded_of(1).packets, [0, whole]);
    world.assert_conserved();
}

#[test]
fn what_a_lag_refuses_is_not_counted() {
    let mut world = lag::world(0);
    for _ in 0..5 {
        (0..3 * BURST).for_each(|_| push(&world, N3_PORT, &uplink()));
        (0..4).for_each(|_| world.poll());
    }
    let dropped = world.workers[0].stats().dropped(packet::DropReason::PortDown);
    assert_eq!(dropped, 15 * u64::from(BURST));
    assert_eq!(counted(&mut world).ul_packets, 0);
    assert_eq!(world.forwarded_of(1), Default::default());
    world.assert_conserved();
}
