//! A short run of every fuzz target, on the stable toolchain: what the golden cases and recordings have, and changes of
//! it that are drawn anew in each run. `fuzz/` has the targets, `make fuzz` runs them with the fuzzer's own eyes.
//!
//! `SLUICE_FUZZ` is how many inputs each target gets, `SLUICE_FUZZ_SEED` what they are drawn from. The seed of a run is
//! written to standard error; with it the run can be repeated. A target that fails names the input.

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use packet::IpTuple;
use packet::icmp::IcmpError;
use trace::Reader;

#[path = "../../upf/tests/support/draw.rs"]
mod draw;

use draw::Draw;

#[path = "../../../fuzz/src/lib.rs"]
mod targets;

/// Inputs of a target.
const INPUTS: u64 = 10_000;
/// The longest input, octets.
const LONGEST: usize = 4_096;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of the repository");
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|is| is == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The frames of the golden cases that are not too long.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for path in files(&root().join("tests/golden"), "pcapng") {
        let file = std::fs::read(path).expect("a capture");
        let mut reader = Reader::new(&file[..]).expect("a capture");
        while let Ok(Some(packet)) = reader.next() {
            frames.push(packet.octets.to_vec());
        }
    }
    frames.retain(|frame| frame.len() <= 600);
    frames
}

/// The datagrams of recorded control planes: the payload of UDP.
fn datagrams() -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    for path in files(&root().join("tests/interop/recordings"), "pcap") {
        let file = std::fs::read(path).expect("a capture");
        let mut reader = Reader::new(&file[..]).expect("a capture");
        while let Ok(Some(packet)) = reader.next() {
            datagrams.push(packet.octets.get(42..).expect("a datagram").to_vec());
        }
    }
    datagrams
}

fn behind_ethernet(frame: &[u8]) -> &[u8] {
    frame.get(14..).unwrap_or_default()
}

/// An input of `neighbours`: the frame, after some of the neighbours were asked for.
fn neighbour(frame: &[u8]) -> Option<Vec<u8>> {
    let kind = match frame.get(12..14)? {
        [8, 6] => 0,
        [0x86, 0xdd] => 1,
        _ => return None,
    };
    let octets = behind_ethernet(frame);
    let len = u8::try_from(octets.len()).ok()?;
    Some([&[2, 254, 2, 9, kind, len], octets].concat())
}

/// Packets of IP in frames without tags, and the errors that a router sends about them.
fn icmp(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let error = |packet: &[u8]| {
        let tuple = IpTuple::parse(packet, packet.len()).ok()?;
        let mut out = [0; 600];
        let ours = [192, 0, 2, 1].into();
        let len = IcmpError::TTL_EXPIRED_V4.write(&mut out, ours, packet, &tuple)?;
        Some(out[..len].to_vec())
    };
    let packets: Vec<_> = frames
        .iter()
        .map(|frame| behind_ethernet(frame).to_vec())
        .collect();
    let errors: Vec<_> = packets.iter().filter_map(|packet| error(packet)).collect();
    let packets = errors.into_iter().chain(packets);
    packets.map(|packet| [&[0], &packet[..]].concat()).collect()
}

fn lacp() -> Vec<Vec<u8>> {
    // Three links come up; the partner of each is in one group, in sync, and knows what we said.
    let actor = [0x80, 0, 2, 0, 0, 0, 0, 9, 0, 1, 0x80, 0, 0, 1, 0x3d];
    let said = |member: u8| [&[member << 4 | 2][..], &actor].concat();
    let up = [1, 0, 0x10, 0x20, 1, 5];
    let said: Vec<u8> = (0..3).flat_map(said).collect();
    vec![[&up[..], &said, &[1, 20], &said, &[0x10, 1, 200]].concat()]
}

/// The vectors of the in-band protocol.
fn inband_messages() -> Vec<Vec<u8>> {
    let document = std::fs::read_to_string(root().join("docs/inband.md")).expect("the document");
    let octet = |word: &str| u8::from_str_radix(word, 16).expect("an octet");
    let vector = |block: &str| {
        let (_, rest) = block.split_once('\n').expect("a name");
        let (octets, _) = rest.split_once("```").expect("an end");
        octets.split_whitespace().map(octet).collect()
    };
    document.split("\n```hex ").skip(1).map(vector).collect()
}

/// Inputs of `inband_channel`: messages both ways, lost frames, and frames with and without the right MAC.
fn inband_channel() -> Vec<Vec<u8>> {
    let numbers = |sequence: u8, acknowledged: u8| {
        let mut octets = [0; 24];
        (octets[7], octets[15]) = (sequence, acknowledged);
        octets
    };
    let frame = |event: u8, kind: u8, sequence: u8, payload: &[u8]| {
        let rest = [&numbers(sequence, 0)[..], payload].concat();
        [&[event, kind, rest.len() as u8], &rest[..]].concat()
    };
    let message = b"\0\x03one\0\x01a";
    vec![
        [
            &[
                1, 20, 0x11, 200, 3, 0, 0, 2, 3, 0, 0, 110, 3, 0x55, 1, 9, 3, 0, 0, 255, 3, 0xff, 0, 255,
            ][..],
            &[3, 0].repeat(4),
        ]
        .concat(),
        [
            &frame(0x22, 4, 1, message)[..],
            &[3, 0],
            &frame(0x22, 4, 3, message),
            &frame(0x22, 4, 2, &[]),
            &[3, 0],
        ]
        .concat(),
        [
            &frame(0x02, 4, 1, message)[..],
            &frame(0x32, 5, 0, &[]),
            &frame(0x12, 2, 0, &[0; 200]),
            &[0, 9, 3, 0],
        ]
        .concat(),
    ]
}

/// Inputs of `dpi`: flows that are opened and packets in them, in steps; and messages for the parsers.
fn inspected() -> Vec<Vec<u8>> {
    let step = |what: u8, flags: u8, payload: &[u8]| {
        [
            &[what, 0, 9, flags][..],
            &(payload.len() as u16).to_be_bytes(),
            payload,
        ]
        .concat()
    };
    let extensions = b"\0\0\0\x0e\0\x0c\0\0\x09a.example\0\x10\0\x05\0\x03\x02h2\xfe\x0d\0\x01\0";
    let start = b"\x16\x03\x01\0\x4f\x01\0\0\x4b\x03\x03";
    let hello = [&start[..], &[7; 32], b"\0\0\x02\x13\x01\x01\0\0\x20", extensions].concat();
    let request = b"POST /a HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.0\r\n\r\n";
    let stun = [
        &[0, 1, 0, 8, 0x21, 0x12, 0xa4, 0x42][..],
        &[7; 12],
        &[0x80, 0x22, 0, 3, 97, 98, 99, 0],
    ]
    .concat();
    let query = b"\0\x07\x01\0\0\x01\0\0\0\0\0\x01\x01a\x07example\0\0\x1c\0\x01\
        \0\0\x29\x04\xd0\0\0\x80\0\0\x06\0\x0c\0\x02\0\0";
    let rtp = |number: u8| [0x80, 0, 0, number, 0, 0, 0, 0, 1, 2, 3, 4, 9, 9];
    let tcp = |payload: &[u8]| [vec![60], step(0, 0, &[]), step(3, 0, payload)].concat();
    let udp = |payloads: &[&[u8]]| {
        let steps = payloads.iter().flat_map(|payload| step(3, 1, payload));
        [vec![0], step(0, 1, &[]), steps.collect()].concat()
    };
    let whole = |octets: &[u8]| [&[30], octets].concat();
    let rtp = [0, 1, 2, 3].map(rtp);
    let file = root().join("crates/dpi/tests/captures/quic-ietf.pcap");
    let capture = std::fs::read(file).expect("a capture");
    // The first packet: behind the headers of file and packet, Ethernet, IPv4 and UDP.
    let len = u32::from_le_bytes(capture[32..36].try_into().expect("four octets"));
    let initial = &capture[24 + 16..][..len as usize][42..];
    vec![
        tcp(&hello),
        tcp(request),
        udp(&[&stun]),
        udp(&[query]),
        udp(&rtp.each_ref().map(|packet| &packet[..])),
        udp(&[initial]),
        whole(query),
        whole(&hello),
        whole(request),
        whole(initial),
        whole(b"\x06\0\x04abcd\x02\x0a\0\x01\x03\x01\x01\x06\x04\x01e"),
        whole(b"\0\x07\x81\x80\0\x01\0\x02\0\0\0\0\x01a\x07example\0\0\x01\0\x01\xc0\x0c\0\x05\0\x01\0\0\0\x09\0\x04\x01b\xc0\x0e\
            \x01b\xc0\x0e\0\x01\0\x01\0\0\0\x09\0\x04\xc0\0\x02\x01"),
        whole(b"*.www.example.com"),
    ]
}

/// Inputs of `domain_lists`: the seed, the limits, and lists.
fn lists() -> Vec<Vec<u8>> {
    let plain = b"# a category\na.example\nwww.a.example\nb.co.example\r\n\n192.0.2.1\n2001:db8::1\n";
    let hosts =
        b"127.0.0.1 localhost\n0.0.0.0 a.example b.example # two\n::1 C.Example.\n.d.example\n*.e.example";
    let bad = b"com\na b\nhttp://a.example/\na..example\na.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a\n";
    let with = |limits: [u8; 4], lists: &[&[u8]]| [&limits[..], &lists.join(&12)].concat();
    vec![
        with([1, 100, 100, 60], &[plain]),
        with([2, 200, 50, 3], &[hosts, plain]),
        with([3, 40, 9, 0], &[plain, bad, hosts]),
    ]
}

fn flow_descriptions() -> Vec<Vec<u8>> {
    let texts = [
        "permit out ip from any to assigned",
        "permit out 58 from ff02::2/128 to assigned",
        "permit out 17 from 192.0.2.0/24 1024-2048,5060 to 10.0.0.1 80",
        "permit out tcp from any 443 to assigned",
        "permit out ip from 2001:db8::/32 to 2001:db8:1::/48",
        "permit in ip from !10.0.0.0/8 to any frag",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// A target: its name, what it does, and what its inputs are drawn from.
type Target = (&'static str, fn(&[u8]), Vec<Vec<u8>>);

fn all() -> Vec<Target> {
    let (frames, datagrams) = (frames(), datagrams());
    let with = |make: &dyn Fn(&[u8]) -> Vec<u8>| frames.iter().map(|frame| make(frame)).collect::<Vec<_>>();
    let sequence = datagrams
        .iter()
        .flat_map(|datagram| [&(datagram.len() as u16).to_be_bytes(), &datagram[..]].concat());
    let captures = files(&root().join("tests/golden"), "pcapng");
    let captures = captures
        .iter()
        .map(|path| std::fs::read(path).expect("a capture"));
    let segments = files(&root().join("crates/store/tests/stored"), "log").into_iter();
    let record = root().join("crates/session/tests/records/session_v1.bin");
    vec![
        ("capture_file", targets::capture_file::run, captures.collect()),
        ("domain_lists", targets::domain_lists::run, lists()),
        ("dpi", targets::dpi::run, inspected()),
        ("icmp", targets::icmp::run, icmp(&frames)),
        ("inband_channel", targets::inband_channel::run, inband_channel()),
        (
            "inband_messages",
            targets::inband_messages::run,
            inband_messages(),
        ),
        ("lacp", targets::lacp::run, lacp()),
        (
            "n4_datagrams",
            targets::n4_datagrams::run,
            vec![sequence.collect()],
        ),
        (
            "neighbours",
            targets::neighbours::run,
            frames.iter().filter_map(|frame| neighbour(frame)).collect(),
        ),
        ("packet_frame", targets::packet_frame::run, frames.clone()),
        (
            "packet_gtpu",
            targets::packet_gtpu::run,
            with(&|frame| frame.get(42..).unwrap_or_default().to_vec()),
        ),
        ("pfcp_message", targets::pfcp_message::run, datagrams.clone()),
        ("sdf_filter", targets::sdf_filter::run, flow_descriptions()),
        (
            "session_record",
            targets::session_record::run,
            vec![std::fs::read(record).expect("a record")],
        ),
        (
            "store_segment",
            targets::store_segment::run,
            segments
                .map(|path| std::fs::read(path).expect("a segment"))
                .collect(),
        ),
        (
            "worker_frames",
            targets::worker_frames::run,
            with(&|frame| [&[0, frame.len().div_ceil(8) as u8], frame].concat()),
        ),
    ]
}

#[test]
fn no_target_of_the_fuzzer_fails() {
    let (inputs, seed) = (
        draw::setting("SLUICE_FUZZ").unwrap_or(INPUTS),
        draw::seed("SLUICE_FUZZ_SEED"),
    );
    for (name, target, corpus) in all() {
        assert!(!corpus.is_empty(), "{name} begins with nothing");
        let mut draw = Draw::new(seed);
        let drawn = (0..inputs).map(|_| draw.changed(&corpus, LONGEST));
        for input in corpus.iter().take(20).cloned().chain(drawn) {
            if let Err(cause) = panic::catch_unwind(AssertUnwindSafe(|| target(&input))) {
                eprintln!("{name} fails (SLUICE_FUZZ_SEED={seed}) with {}", hex(&input));
                panic::resume_unwind(cause);
            }
        }
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// `n4_sequences` is played by the test program `sequences`, with a seed of its own.
#[test]
fn every_target_is_here() {
    let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("a manifest");
    let bins = manifest.split("[[bin]]").skip(1);
    let names = bins.map(|bin| bin.split('"').nth(1).expect("a name"));
    let mut names: Vec<&str> = names.filter(|name| *name != "n4_sequences").collect();
    names.sort_unstable();
    assert_eq!(all().iter().map(|(name, ..)| *name).collect::<Vec<_>>(), names);
}
