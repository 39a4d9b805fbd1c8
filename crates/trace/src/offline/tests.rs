use std::path::Path;

use worker::TraceFilter;

use super::*;

/// The trace of the capture of a golden case, and of its replay, until a number of packets is reported.
fn replayed(case: &str, most: usize, part: usize) -> (Vec<PacketTrace>, Replayed) {
    replayed_with(case, "", most, part)
}

/// The same with more in the configuration.
fn replayed_with(case: &str, more: &str, most: usize, part: usize) -> (Vec<PacketTrace>, Replayed) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden")
        .join(case);
    let text = Config::read(&folder.join("sluice.yaml")).expect("a configuration");
    let config = Config::parse(&format!("{text}\n{more}"), case).expect("a configuration");
    let file = std::fs::read(folder.join("trace.pcapng")).expect("a capture");
    let capture = Capture {
        file: &file,
        n4: None,
        port: None,
        filter: TraceFilter::default(),
    };
    let mut packets = Vec::new();
    let tell = |packet| {
        packets.push(packet);
        packets.len() < most
    };
    let replayed = replay_by(config, &capture, tell, part).expect("a replay");
    (packets, replayed)
}

#[test]
fn the_replay_ends_when_no_more_is_wanted() {
    let (all, whole) = replayed("session_both_ways", usize::MAX, PART);
    assert!(all.len() > 4, "{} packets", all.len());
    assert_eq!(whole.left, None);
    for most in [1, 3, all.len()] {
        let (packets, ended) = replayed("session_both_ways", most, PART);
        assert_eq!(packets, all[..most]);
        assert_eq!(ended.left, Some(whole.frames - ended.frames));
        assert!(ended.frames < whole.frames || most == all.len());
    }
}

/// A replay has one worker, whatever workers the slices of the configuration have.
#[test]
fn workers_of_slices_change_nothing() {
    let whole = replayed("session_both_ways", usize::MAX, PART);
    let more = "workers: {count: 2}\nslices: [{sst: 1, workers: [0]}]\n";
    let with_slices = replayed_with("session_both_ways", more, usize::MAX, PART);
    assert_eq!(with_slices, whole);
}

/// How far the first pass is ahead changes nothing, as long as it is.
#[test]
fn parts_are_reported_as_the_whole_is() {
    for case in ["session_both_ways", "far_buffer", "n9_within_one_node"] {
        let whole = replayed(case, usize::MAX, PART);
        for part in [1, 2, 5] {
            assert_eq!(replayed(case, usize::MAX, part), whole, "{case} by {part}");
        }
    }
}
