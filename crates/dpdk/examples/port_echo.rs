//! Opens a port and answers pings on it, until standard input ends: returns whether a port works at all.
//!
//! ```text
//! port_echo af_packet|af_xdp|pci INTERFACE_OR_ADDRESS [QUEUES]
//! ```
//!
//! It knows no ARP: give the pinging host a neighbour entry for the address it pings. It prints `ready` when the
//! port runs, and its counters at the end.

use std::error::Error;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpdk::{Burst, Eal, EalBuilder, Mempool, PoolConfig, Port, PortConfig, PortSpec, Queues, Registration};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (kind, subject) = match arguments.as_slice() {
        [kind, subject, ..] => (kind.as_str(), subject.as_str()),
        _ => return Err("usage: port_echo af_packet|af_xdp|pci INTERFACE_OR_ADDRESS [QUEUES]".into()),
    };
    let queues = arguments.get(2).map_or(Ok(1), |text| text.parse())?;
    let (builder, spec) = spec(kind, subject, queues)?;
    let eal = builder.init()?;
    // No cache: every buffer gets its turn.
    let pool = Mempool::new(
        eal,
        PoolConfig {
            buffers: 4095,
            cache: 0,
            ..PoolConfig::default()
        },
    )?;
    let mut port = Port::open(eal, &spec)?;
    let started = port.start(&PortConfig::new(queues, &pool))?;
    println!("ready");
    serve(eal, started)?;
    println!("{:?}", port.stats()?);
    drop(port);
    println!("{} buffers not given back", pool.in_use());
    Ok(())
}

fn spec(kind: &str, subject: &str, queues: u16) -> Result<(EalBuilder, PortSpec), Box<dyn Error>> {
    let interface = subject.to_owned();
    let builder = Eal::builder();
    Ok(match kind {
        "af_packet" => (builder, PortSpec::AfPacket { interface, queues }),
        "af_xdp" => (
            builder,
            PortSpec::AfXdp {
                interface,
                start_queue: 0,
                queues,
                force_copy: false,
            },
        ),
        "pci" => {
            let address = subject.parse()?;
            (
                builder.hugepages(true).allow_pci(address),
                PortSpec::Pci { address },
            )
        }
        other => return Err(format!("no such kind of port: {other}").into()),
    })
}

/// Echoes until standard input ends.
fn serve(eal: &Eal, mut queues: Queues) -> Result<(), Box<dyn Error>> {
    let ended = Arc::new(AtomicBool::new(false));
    let end = ended.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        end.store(true, Ordering::Relaxed);
    });
    let _lcore = Registration::new(eal)?;
    while !ended.load(Ordering::Relaxed) {
        let mut moved = 0;
        for (rx, tx) in queues.rx.iter_mut().zip(&mut queues.tx) {
            let mut burst = Burst::new();
            moved += rx.rx_burst(&mut burst);
            let mut answers = Burst::new();
            for mut mbuf in burst.drain() {
                if answer(mbuf.data_mut()) {
                    // Both bursts have the same size.
                    let _ = answers.push(mbuf);
                }
            }
            tx.tx_burst(&mut answers);
        }
        if moved == 0 {
            std::thread::yield_now();
        }
    }
    Ok(())
}

/// Turns an ICMP echo request over IPv4 without options into its reply, in place; false for anything else.
fn answer(frame: &mut [u8]) -> bool {
    if frame.len() < 42 || frame[12..15] != [8, 0, 0x45] || frame[23] != 1 || frame[34] != 8 {
        return false;
    }
    let (to, from) = frame[..12].split_at_mut(6);
    to.swap_with_slice(from);
    let (from, to) = frame[26..34].split_at_mut(4);
    from.swap_with_slice(to);
    frame[34] = 0;
    // RFC 1624: the sum loses the 8 in the high octet of its first word.
    let sum = u32::from(u16::from_be_bytes([frame[36], frame[37]])) + 0x0800;
    let folded = (sum & 0xffff) as u16 + (sum >> 16) as u16;
    frame[36..38].copy_from_slice(&folded.to_be_bytes());
    true
}
