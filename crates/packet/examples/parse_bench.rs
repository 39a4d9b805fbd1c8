//! How long the parts of a packet's way through this crate take, on one core.
//!
//! `cargo run --release -p packet --example parse_bench`. Each figure is the best of several rounds over 256 different
//! packets that lie in the first-level cache: what the code costs, without memory. No test depends on it.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Instant;

use packet::build::{GtpuEncap, GtpuTemplate, Marking, packet as make};
use packet::eth::{self, Encap, Tci, Vlan, ether_type};
use packet::{
    Addrs, DropReason, Frame, GtpuFrame, IpTuple, MacAddr, Qfi, Teid, VlanId, checksum, frame, gtpu, ipv4,
    udp,
};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const PACKETS: u32 = 256;
const ROUNDS: u32 = 3000;
const PASSES: u32 = 8;

/// Nanoseconds for each of [`PACKETS`] calls, the best of [`ROUNDS`].
fn nanos(mut one: impl FnMut(usize)) -> f64 {
    let round = |one: &mut dyn FnMut(usize)| {
        let start = Instant::now();
        for _ in 0..PASSES {
            (0..PACKETS as usize).for_each(&mut *one);
        }
        start.elapsed().as_nanos() as f64 / f64::from(PASSES * PACKETS)
    };
    (0..ROUNDS).map(|_| round(&mut one)).fold(f64::INFINITY, f64::min)
}

fn inner(packet: u32, v6: bool, payload: usize) -> Vec<u8> {
    let port = 1024 + packet as u16;
    let (src, dst) = if v6 {
        ("[2001:db8:1::2]:0", "[2001:db8:2::8]:443")
    } else {
        ("10.45.0.2:0", "8.8.8.8:443")
    };
    let mut src: SocketAddr = src.parse().expect("an address");
    src.set_port(port);
    make::udp(src, dst.parse().expect("an address"), &vec![0xab; payload]).expect("short")
}

fn frame_around(vlan: Option<Vlan>, ip: &[u8]) -> Vec<u8> {
    let ether_type = if ip.first() == Some(&0x60) {
        ether_type::IPV6
    } else {
        ether_type::IPV4
    };
    make::ethernet(
        &Encap {
            dst: MacAddr([2; 6]),
            src: MacAddr([4; 6]),
            vlan,
            ether_type,
        },
        ip,
    )
}

fn g_pdus(v6: bool, vlan: Option<Vlan>, marked: bool) -> Vec<Vec<u8>> {
    let addrs = if v6 {
        Addrs::V6 {
            src: [1; 16],
            dst: [2; 16],
        }
    } else {
        Addrs::V4 {
            src: [10, 0, 0, 2],
            dst: [10, 0, 0, 1],
        }
    };
    let marking = marked.then_some(Marking::uplink(Qfi::from_low_bits(9)));
    let one = |packet| {
        let encap = GtpuEncap::new(addrs, Teid(packet));
        frame_around(
            vlan,
            &make::g_pdu(&encap, marking, &inner(packet, v6, 64)).expect("short"),
        )
    };
    (0..PACKETS).map(one).collect()
}

/// What a parse stage keeps of an uplink packet.
#[derive(Clone, Copy)]
struct Descriptor {
    gtpu: Option<GtpuFrame>,
    inner: Option<IpTuple>,
}

/// What the parse stage does with an uplink packet.
#[inline(always)]
fn parse_both(bytes: &[u8], descriptor: &mut Descriptor) -> Result<(), DropReason> {
    let Frame::Gtpu(gtpu) = frame::parse(bytes, bytes.len(), |_| true)? else {
        return Err(DropReason::UnknownTeid);
    };
    descriptor.inner = Some(frame::parse_inner(bytes, &gtpu)?);
    descriptor.gtpu = Some(gtpu);
    Ok(())
}

fn report(what: &str, nanos: f64) {
    println!("{nanos:7.2} ns  {what}");
}

fn bench_uplink(what: &str, frames: &[Vec<u8>]) {
    let mut descriptors = vec![
        Descriptor {
            gtpu: None,
            inner: None
        };
        frames.len()
    ];
    let time = nanos(|packet| {
        let parsed = parse_both(black_box(&frames[packet]), &mut descriptors[packet]);
        assert!(black_box(parsed).is_ok());
    });
    black_box(&descriptors);
    report(what, time);
}

/// All headers of an uplink packet as one struct, each field read: what no parser can be faster than.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Overlay {
    ethernet: eth::Header,
    outer: ipv4::Header,
    udp: udp::Header,
    gtpu: gtpu::Header,
    optional: gtpu::OptionalFields,
    container: [u8; 4],
    inner: ipv4::Header,
    inner_udp: udp::Header,
}

fn bench_overlay(what: &str, frames: &[Vec<u8>]) {
    let time = nanos(|packet| {
        let (all, _) = Overlay::ref_from_prefix(black_box(&frames[packet][..])).expect("long enough");
        let ports = u32::from(all.udp.dst_port.get()) + u32::from(all.inner_udp.dst_port.get());
        let lengths = u32::from(all.outer.total_len.get()) + u32::from(all.inner.total_len.get());
        let types = u32::from(all.ethernet.ether_type.get()) + u32::from(all.optional.next_extension);
        let addresses = u32::from_ne_bytes(all.inner.src) ^ u32::from_ne_bytes(all.inner.dst);
        black_box(all.gtpu.teid.get() ^ addresses ^ ports ^ lengths ^ types ^ u32::from(all.container[2]));
    });
    report(what, time);
}

fn bench_downlink(what: &str, v6: bool) {
    let frames: Vec<_> = (0..PACKETS)
        .map(|packet| frame_around(None, &inner(packet, v6, 64)))
        .collect();
    let time = nanos(|packet| {
        let bytes = black_box(&frames[packet][..]);
        let _ = black_box(frame::parse(bytes, bytes.len(), |_| true));
    });
    report(what, time);
}

fn bench_template(what: &str, addrs: Addrs) {
    let templates: Vec<_> = (0..PACKETS)
        .map(|packet| GtpuTemplate::new(&GtpuEncap::new(addrs, Teid(packet))))
        .collect();
    let marking = Some(Marking::downlink(Qfi::from_low_bits(9)));
    let mut out = [0; 64];
    let time = nanos(|packet| {
        let template = black_box(&templates[packet]);
        let out = &mut out[..template.header_len(marking)];
        let _ = black_box(template.apply(out, black_box(1400), marking));
        black_box(&out);
    });
    report(what, time);
}

fn main() {
    let vlan = Some(Vlan {
        outer: Tci::new(VlanId::from_low_bits(100)),
        inner: None,
    });
    bench_overlay(
        "overlay of all those headers, nothing checked",
        &g_pdus(false, None, true),
    );
    bench_uplink("parse eth/ipv4/udp/gtpu/psc/ipv4/udp", &g_pdus(false, None, true));
    bench_uplink("parse eth/ipv4/udp/gtpu/ipv4/udp", &g_pdus(false, None, false));
    bench_uplink(
        "parse eth/vlan/ipv4/udp/gtpu/psc/ipv4/udp",
        &g_pdus(false, vlan, true),
    );
    bench_uplink("parse eth/ipv6/udp/gtpu/psc/ipv6/udp", &g_pdus(true, None, true));
    bench_downlink("parse eth/ipv4/udp", false);
    bench_downlink("parse eth/ipv6/udp", true);
    let packets: Vec<_> = (0..PACKETS).map(|packet| inner(packet, false, 64)).collect();
    let time = nanos(|packet| {
        let bytes = black_box(&packets[packet][..]);
        let _ = black_box(IpTuple::parse(bytes, bytes.len()));
    });
    report("IpTuple::parse ipv4/udp", time);
    let v4 = Addrs::V4 {
        src: [10, 0, 0, 1],
        dst: [10, 0, 0, 2],
    };
    bench_template("write ipv4/udp/gtpu/psc from a template", v4);
    bench_template(
        "write ipv6/udp/gtpu/psc (no checksum)",
        Addrs::V6 {
            src: [1; 16],
            dst: [2; 16],
        },
    );
    let long = vec![0xab; 1400];
    report(
        "checksum of 1400 octets",
        nanos(|_| {
            black_box(checksum::of(black_box(&long)));
        }),
    );
}
