//! Every case once more, as an operator would trace it from a capture of it and the configuration: PFCP and packets go
//! through `trace` in a user plane of its own. It must say of each packet what became of it in the case, and the
//! interpreter must agree about every one. Where a case has a `trace.txt`, the texts are compared, too, and the capture
//! is located beside it.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use config::Config;
use packet::DropReason;
use trace::{Capture, Replayed, Writer, Written, replay};
use trace::{EndTrace, PacketTrace};
use worker::TraceFilter;

use crate::check::{Outcome, compare_text};
use crate::value::Fault;
use crate::world::Came;

const TEXT: &str = "trace.txt";
const CAPTURE: &str = "trace.pcapng";
/// When the captures begin, seconds since 1970.
const BEGIN: u64 = 1_700_000_000;

/// Drops that come later, of packets that were traced when they began to wait; those of packets that Sluice makes
/// itself; and those for want of a next hop, which a replay knows.
const NOT_TOLD: [DropReason; 6] = [
    DropReason::BadFragment,
    DropReason::NoNeighbour,
    DropReason::BufferDiscarded,
    DropReason::BufferExpired,
    DropReason::FragmentTimeout,
    DropReason::TxFull,
];

/// Compares the trace of the case's packets with what became of them.
pub fn check(folder: &Path, outcome: &Outcome, writes: bool) -> Result<(), Fault> {
    let capture = capture(outcome);
    let (packets, replayed) = replayed(folder, &capture)?;
    let mut text = String::new();
    for packet in &packets {
        if let Some(words) = &packet.disagreement {
            return Err(format!("{words}\n{}", packet.text(0, true)));
        }
        let _ = write!(text, "{}", packet.text(BEGIN * 1_000_000_000, true));
    }
    for note in &replayed.notes {
        let _ = writeln!(text, "note: {note}");
    }
    compare_drops(outcome, &packets)?;
    let path = folder.join(TEXT);
    let Ok(wanted) = fs::read_to_string(&path) else {
        return Ok(());
    };
    if writes {
        fs::write(folder.join(CAPTURE), capture).map_err(|error| format!("{CAPTURE}: {error}"))?;
        return fs::write(&path, text).map_err(|error| format!("{TEXT}: {error}"));
    }
    if fs::read(folder.join(CAPTURE)).ok() != Some(capture) {
        return Err(format!(
            "{CAPTURE} is another capture (SLUICE_GOLDEN=write makes it)"
        ));
    }
    compare_text(TEXT, &wanted, &text)
}

fn compare_drops(outcome: &Outcome, packets: &[PacketTrace]) -> Result<(), Fault> {
    for reason in DropReason::ALL {
        let is_it = |packet: &&PacketTrace| matches!(&packet.end, EndTrace::Dropped { reason: reported, .. } if reported == reason.label());
        let reported = packets.iter().filter(is_it).count() as u64;
        let dropped = outcome.drops[reason.index()];
        if reported != dropped && !NOT_TOLD.contains(&reason) {
            return Err(format!(
                "{reason}: {dropped} packets were dropped, the trace has {reported}"
            ));
        }
    }
    Ok(())
}

fn replayed(folder: &Path, file: &[u8]) -> Result<(Vec<PacketTrace>, Replayed), Fault> {
    let config = Config::load(&folder.join("sluice.yaml")).map_err(|error| error.to_string())?;
    let capture = Capture {
        file,
        n4: None,
        port: None,
        filter: TraceFilter::default(),
    };
    let mut packets = Vec::new();
    let replayed = replay(config, &capture, |packet| {
        packets.push(packet);
        true
    });
    Ok((packets, replayed.map_err(|error| error.to_string())?))
}

/// What a capture on all interfaces has of the case.
fn capture(outcome: &Outcome) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory takes it");
    for came in &outcome.came {
        let (interface, time, octets) = match came {
            Came::Frame(frame) => (
                outcome.ports[frame.port].as_str(),
                frame.time,
                frame.bytes.clone(),
            ),
            Came::Pfcp {
                time,
                from,
                to,
                octets,
            } => ("n4", *time, datagram(*from, *to, octets)),
        };
        let packet = Written {
            time_ns: BEGIN * 1_000_000_000 + time.0,
            octets: &octets,
            len: octets.len() as u32,
            is_outbound: false,
            comment: "",
        };
        writer.packet(interface, &packet).expect("memory takes it");
    }
    writer.finish().expect("memory takes it")
}

/// A UDP datagram in an Ethernet frame.
fn datagram(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 9, 1, 2, 0, 0, 0, 9, 2];
    let length = (payload.len() + 8) as u16;
    match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.extend([8, 0]);
            let mut header = vec![0x45, 0];
            header.extend((length + 20).to_be_bytes());
            header.extend([0, 0, 0, 0, 64, 17, 0, 0]);
            header.extend(source.octets());
            header.extend(destination.octets());
            let sum: u32 = header
                .chunks(2)
                .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
                .sum();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend(header);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([17, 64]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
        }
        other => panic!("a datagram between IP versions: {other:?}"),
    }
    frame.extend(from.port().to_be_bytes());
    frame.extend(to.port().to_be_bytes());
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}
