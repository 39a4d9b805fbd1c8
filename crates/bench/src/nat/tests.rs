//! A tiny run: every packet comes out translated, and answers come back.

use super::*;

fn tiny() -> Arguments {
    Arguments {
        sessions: 64,
        mappings: 32,
        block_bits: 5,
        pairs: 1,
        fills: 1,
        as_others: false,
        only: String::new(),
        seconds: 0.02,
    }
}

#[test]
fn every_packet_comes_out_translated_and_answers_come_back() {
    let results = measure(&tiny(), &Progress::silent()).unwrap();
    for one in &results.compared {
        for runs in [&one.with, &one.without] {
            assert!(runs.is_sound(), "{runs:#?}");
            let counts = runs.counts;
            assert!(counts.packets > 0 && counts.sent == counts.packets, "{runs:#?}");
        }
        assert_eq!(
            one.with.entries, one.without.entries,
            "NAT needs no other entries"
        );
    }
    let entries: Vec<usize> = results.compared.iter().map(|one| one.with.entries).collect();
    assert_eq!(entries, [64 * 2, 64 * 32 * 2]);
    let set_up = results.set_up.as_ref().unwrap();
    for runs in [&set_up.mappings, &set_up.entries, &set_up.both] {
        assert!(runs.is_sound() && runs.counts.sent == 64 * 31, "{runs:#?}");
    }
    assert_eq!([set_up.mappings.entries, set_up.entries.entries], [64, 64 * 32]);
    let found = results.hand_overs.unwrap();
    assert_eq!(
        (found.packets, found.sent + found.handed_over),
        (256, 256),
        "{found:?}"
    );
    let of_table = results.memory.unwrap().of_table;
    assert!((of_table - 37.5).abs() < 0.1, "{of_table}");
    let arguments = Arguments {
        as_others: true,
        only: "memory".into(),
        ..tiny()
    };
    let of_table = measure(&arguments, &Progress::silent())
        .unwrap()
        .memory
        .unwrap()
        .of_table;
    assert!((of_table - 24.0).abs() < 0.1, "{of_table}");
    let ids: Vec<&str> = targets(&results).iter().map(|target| target.id).collect();
    assert_eq!(ids, ["T16", "T16.setup", "T16.handed"]);
    assert!(targets(&results).iter().all(|target| !target.met), "too small");
    assert_eq!(rows(&results).len(), 7);
    assert!(lines(&results).iter().all(|line| !line.contains("VOID")));
}

#[test]
fn a_packet_with_a_wrong_end_voids_the_figure() {
    let arguments = tiny();
    let drawn = Drawn::new(&arguments).unwrap();
    // What leaves untranslated is not of the pool.
    let sessions = Sessions {
        network: &drawn.networks[0],
        identities: &drawn.identities,
        blocks: Some(&drawn.blocks.ids),
    };
    let kind = Kind {
        has_nat: false,
        is_tuple: false,
    };
    let mut side = Side::new(&arguments, kind, &sessions).unwrap();
    let error = side.begin(0, arguments.all_mappings()).unwrap_err();
    assert!(error.0.contains("with a wrong end"), "{error}");
}

#[test]
fn only_what_is_asked_for_is_measured() {
    let arguments = Arguments {
        only: "hand-overs".into(),
        ..tiny()
    };
    let results = measure(&arguments, &Progress::silent()).unwrap();
    assert!(results.compared.is_empty() && results.set_up.is_none() && results.hand_overs.is_some());
}
