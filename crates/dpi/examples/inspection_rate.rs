//! What inspection costs: ns for each message and lookup, on one core, the median of several runs.
//!
//! `cargo run --release -p dpi --example inspection_rate`

use std::hint::black_box;
use std::time::{Duration, Instant};

use dpi::hosts::{ApplicationIndex, HostTable, HostTableBuilder};
use dpi::quic::Version;
use dpi::{HostName, Inspector, Layer4, Sender, Settings, Transport, Verdict};

#[path = "../tests/all/messages.rs"]
mod messages;

use messages::quic::{crypto, initial};
use messages::{client_hello, records};

const RULES: u32 = 40_000;
const RUNS: usize = 9;
/// More than the caches of a core and its share of the last level.
const CACHES: usize = 64 << 20;

fn main() {
    let hello = records(&client_hello("www.example.com", 400), 9_999);
    let long = records(&client_hello("www.example.com", 1_700), 9_999);
    let request = format!(
        "GET /video/segment-17.m4s HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: {}\r\nAccept: */*\r\n\
         Accept-Encoding: gzip, deflate, br\r\nReferer: http://www.example.com/\r\nConnection: keep-alive\r\n\r\n",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36"
    );
    per_flow("ClientHello in one segment", &tcp(&[&hello]));
    per_flow(
        "ClientHello in two segments",
        &tcp(&[&long[..1_400], &long[1_400..]]),
    );
    per_flow("request of HTTP/1", &tcp(&[request.as_bytes()]));

    let id = [7; 8];
    let whole = client_hello("www.example.com", 300);
    let padding = vec![0; 1_100 - whole.len()];
    let one = initial(
        Version::V1,
        &id,
        &id,
        0,
        &[crypto(&whole, 0, whole.len()), padding].concat(),
    );
    per_flow("Initial packet of QUIC", &[Layer4::Udp { payload: &one }]);
    let whole = client_hello("www.example.com", 1_700);
    let halves = [(0, 1_100), (1_100, whole.len())]
        .map(|(from, to)| initial(Version::V1, &id, &id, from as u8 & 1, &crypto(&whole, from, to)));
    per_flow(
        "ClientHello in two Initial packets",
        &halves.each_ref().map(|payload| Layer4::Udp { payload }),
    );

    lookups();
}

fn tcp<'p>(segments: &[&'p [u8]]) -> Vec<Layer4<'p>> {
    let mut sequence = 1;
    let mut packets = Vec::new();
    for payload in segments {
        packets.push(Layer4::Tcp {
            sequence,
            has_syn: false,
            payload,
        });
        sequence += payload.len() as u32;
    }
    packets
}

/// From the opening of a flow to its verdict.
fn per_flow(what: &str, packets: &[Layer4<'_>]) {
    const FLOWS: u32 = 20_000;
    let mut inspector = Inspector::new(Settings::default());
    let time = median(|| {
        let start = Instant::now();
        for _ in 0..FLOWS {
            let flow = inspector.open(0, 0, Transport::Tcp, 0);
            let flow = match packets[0] {
                Layer4::Tcp { .. } => flow,
                Layer4::Udp { .. } => {
                    flow.into_iter().for_each(|flow| inspector.close(flow));
                    inspector.open(0, 0, Transport::Udp, 0)
                }
            };
            let flow = flow.expect("a state");
            let mut is_found = false;
            for packet in packets {
                is_found = matches!(
                    inspector.inspect(flow, Sender::Initiator, black_box(packet)),
                    Verdict::Found(_)
                );
            }
            assert!(is_found);
        }
        start.elapsed() / FLOWS
    });
    println!("{what:<40} {:>8} ns", time.as_nanos());
}

fn median(mut run: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<_> = (0..RUNS).map(|_| run()).collect();
    times.sort();
    times[RUNS / 2]
}

fn host(number: u32) -> String {
    format!("host-{}.site-{}.example", number % 7, number / 7)
}

fn table() -> HostTable {
    let mut builder = HostTableBuilder::default();
    for number in 0..RULES {
        let dot = if number % 2 == 0 { "." } else { "" };
        builder
            .add(
                &format!("{dot}{}", host(number)),
                "",
                ApplicationIndex(number % 500),
            )
            .expect("a rule");
    }
    builder.build(0x5eed).0
}

fn lookups() {
    let time = median(|| {
        let start = Instant::now();
        black_box(table());
        start.elapsed()
    });
    println!(
        "{:<40} {:>8} us",
        format!("compilation of {RULES} rules"),
        time.as_micros()
    );

    let table = table();
    // In no order of the table's.
    let numbers = (0..RULES).map(|nth| (u64::from(nth) * 2_654_435_761 % u64::from(RULES)) as u32);
    let hosts: Vec<HostName> = numbers
        .map(|number| HostName::parse(format!("www.{}", host(number)).as_bytes()).expect("a name"))
        .collect();
    let look = |host: &HostName| black_box(table.lookup(black_box(host), None).count());
    let hot = median(|| {
        let start = Instant::now();
        (0..20_000).for_each(|nth| {
            look(&hosts[nth % 64]);
        });
        start.elapsed() / 20_000
    });
    println!("{:<40} {:>8} ns", "lookup of a host, hot", hot.as_nanos());

    let all = median(|| {
        let start = Instant::now();
        hosts.iter().for_each(|host| {
            look(host);
        });
        start.elapsed() / RULES
    });
    println!("{:<40} {:>8} ns", "lookup of a host, each once", all.as_nanos());

    let mut other = vec![0u8; CACHES];
    let mut nth = 0;
    let cold = median(|| {
        for octet in other.iter_mut().step_by(64) {
            *octet = octet.wrapping_add(1);
        }
        let few: Vec<HostName> = hosts[nth * 50..][..50].to_vec();
        nth += 1;
        let start = Instant::now();
        few.iter().for_each(|host| {
            look(host);
        });
        start.elapsed() / 50
    });
    println!("{:<40} {:>8} ns", "lookup of a host, cold", cold.as_nanos());
}
