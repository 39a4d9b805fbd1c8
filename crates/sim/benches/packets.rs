//! Cost of the simulator per packet: `cargo bench -p sim`. Prints nanoseconds.

use packet::{MacAddr, Qfi, Teid};
use sim::path::{Path, PathConfig, TunnelEnd};
use sim::payload::Stamp;
use sim::station::StationConfig;
use sim::tracker::Tracker;
use sim::traffic::{Sizes, Traffic};
use sim::{Direction, FramePort, Nanos, Shard, ShardConfig, Side};
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

const CHUNKS: u32 = 500;
const CHUNK: u32 = 2_000;

fn end(address: [u8; 4], teid: u32) -> TunnelEnd {
    TunnelEnd {
        address: Ipv4Addr::from(address).into(),
        teid: Teid(teid),
    }
}

fn path(index: u32) -> Path {
    Path::new(PathConfig {
        session: index,
        ue: Ipv4Addr::from_bits(0x0a2d_0000 + index).into(),
        server: Ipv4Addr::new(198, 51, 100, 8).into(),
        server_port: 5001,
        ue_port: 40_000,
        ue_ports: 1,
        upf: end([192, 0, 2, 1], 0x1000 + index),
        gnb: end([192, 0, 2, 2], 0x2000 + index),
        qfi: Qfi::new(9),
    })
    .expect("the families agree")
}

/// Times `work`, called with round and flow, in an order that caches do not foresee. Prints the median over chunks,
/// which a busy machine disturbs little.
fn measure(name: &str, flows: u32, mut work: impl FnMut(u32, u32)) {
    let mut flow = 1u32;
    let mut chunks: Vec<u128> = (0..CHUNKS)
        .map(|chunk| {
            let start = Instant::now();
            for round in chunk * CHUNK..(chunk + 1) * CHUNK {
                flow = flow.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                work(round, ((u64::from(flow) * u64::from(flows)) >> 32) as u32);
            }
            start.elapsed().as_nanos()
        })
        .collect();
    chunks.sort_unstable();
    let nanos = chunks[chunks.len() / 2] as f64 / f64::from(CHUNK);
    println!("{name:>28} {flows:>6} flows: {nanos:5.1} ns");
}

fn main() {
    println!("one path: {} octets", size_of::<Path>());
    for flows in [1, 100, 10_000] {
        let paths: Vec<Path> = (0..flows).map(path).collect();
        let mut packet = [0; 2048];
        for size in [60usize, 600, 1400] {
            let stamp = |round, flow| Stamp {
                direction: Direction::Uplink,
                flow,
                sequence: u64::from(round),
                sent: Nanos(u64::from(round)),
            };
            measure(&format!("write uplink, {size} octets"), flows, |round, flow| {
                let path = &paths[flow as usize];
                path.write_uplink(&stamp(round, flow), &mut packet[..size + 44])
                    .expect("it fits");
                black_box(&packet);
            });
            measure(&format!("write downlink, {size} octets"), flows, |round, flow| {
                let path = &paths[flow as usize];
                path.write_downlink(&stamp(round, flow), &mut packet[..size])
                    .expect("it fits");
                black_box(&packet);
            });
            measure(&format!("read payload, {size} octets"), flows, |_, _| {
                black_box(sim::payload::read(black_box(&packet[28..size]))).expect("it is intact");
            });
        }
        measure_shard(flows);
        let mut tracker = Tracker::new(flows);
        measure("track a packet", flows, |round, flow| {
            let sequence = tracker.next_sequence(flow);
            tracker.sent(flow, 600);
            black_box(tracker.received(flow, sequence, 600, u64::from(round & 0xffff)));
        });
    }
}

/// A pair of links on which frames are written and lost.
struct Nowhere(Vec<u8>);

impl FramePort for Nowhere {
    fn send(&mut self, _: Side, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        write(&mut self.0[..length]);
        black_box(&self.0);
        true
    }

    fn receive(&mut self, _: Side, _: usize, _: impl FnMut(&[u8])) -> usize {
        0
    }
}

/// Time in which a shard sends one packet, with the choice of the flow.
fn measure_shard(flows: u32) {
    let station = |address: Ipv4Addr| StationConfig {
        mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        addresses: vec![address.into()],
        gateway_ipv4: None,
        gateway_ipv6: None,
        gateway_mac: Some(MacAddr([2, 0, 0, 0, 0, 1])),
    };
    let traffic = Traffic {
        rate: 1_000_000_000,
        uplink_share: 500,
        uplink_sizes: Sizes::fixed(128),
        downlink_sizes: Sizes::fixed(128),
        ..Traffic::default()
    };
    let mut shard = Shard::new(ShardConfig {
        access: station(Ipv4Addr::new(192, 0, 2, 2)),
        core: station(Ipv4Addr::new(192, 0, 2, 3)),
        paths: (0..flows).map(path).collect(),
        share: 0..flows,
        traffic,
        hops: 1,
    })
    .expect("the stations have gateways");
    let mut port = Nowhere(vec![0; 2048]);
    shard.start(Nanos(0));
    let mut chunks: Vec<f64> = (0..5_000u64)
        .map(|chunk| {
            let start = Instant::now();
            (0..10).for_each(|poll| shard.poll(Nanos((chunk * 10 + poll) * 128), &mut port));
            start.elapsed().as_nanos() as f64 / 1280.0
        })
        .collect();
    chunks.sort_by(f64::total_cmp);
    println!(
        "{:>28} {flows:>6} flows: {:5.1} ns",
        "shard, 128 octets",
        chunks[chunks.len() / 2]
    );
}
