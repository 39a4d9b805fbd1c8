//! Slices that have workers of their own, and contradictions.

use flow::WorkerId;
use rules::model::SNssai;

use super::{Config, GOOD, refusal};
use crate::{ChangeClass, Differences};

fn with(workers: u32, slices: &str) -> String {
    format!("{GOOD}workers: {{count: {workers}}}\nslices:\n{slices}")
}

fn good(text: &str) -> Config {
    Config::parse(text, "sluice.yaml").unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_slice_has_the_workers_that_it_lists_and_others_the_rest() {
    let config = good(&with(
        4,
        "  - {sst: 1, sd: \"0000a1\", workers: [2, 3]}\n  - {sst: 2, workers: [3]}\n",
    ));
    let workers = config.slice_workers();
    let first = SNssai {
        sst: 1,
        sd: [0, 0, 0xa1],
    };
    let second = SNssai {
        sst: 2,
        sd: SNssai::NO_SD,
    };
    let other = SNssai {
        sst: 1,
        sd: SNssai::NO_SD,
    };
    let of = |slice| -> Vec<u16> {
        let all = (0..4).filter(|number| workers.serves(WorkerId(*number), slice));
        all.collect()
    };
    assert_eq!(of(Some(first)), [2, 3]);
    assert_eq!(of(Some(second)), [3]);
    assert_eq!(of(Some(other)), [0, 1]);
    assert_eq!(of(None), [0, 1]);
    assert!(good(GOOD).slice_workers().is_empty());
}

#[test]
fn contradictions_are_found() {
    for (workers, slices, message) in [
        (
            2,
            "  - {sst: 1, workers: []}\n",
            "slices: slice 1: workers: the list is empty",
        ),
        (
            2,
            "  - {sst: 1, sd: \"000001\", workers: [2]}\n",
            "slices: slice 1-000001: workers: there is no worker 2: `workers.count` is 2",
        ),
        (
            3,
            "  - {sst: 1, workers: [1, 1]}\n",
            "slices: slice 1: workers: worker 1 is there twice",
        ),
        (
            2,
            "  - {sst: 1, workers: [1]}\n  - {sst: 1, sd: \"ffffff\", workers: [1]}\n",
            "slices: slice 1-ffffff: it is there twice",
        ),
        (
            2,
            "  - {sst: 1, sd: zz, workers: [1]}\n",
            "slices: slice 1-zz: sd: not six hexadecimal digits",
        ),
        (
            2,
            "  - {sst: 1, workers: [1]}\n  - {sst: 2, workers: [0]}\n",
            "slices: every worker is listed by a slice, and none is left",
        ),
        (1, "  - {sst: 1, workers: [0]}\n", "none is left"),
        (2, "  - {sst: 1, workers: [64]}\n", "64 is outside 0..=63"),
        (2, "  - {sst: 1}\n", "workers"),
    ] {
        let found = refusal(&with(workers, slices));
        assert!(found.contains(message), "{found}");
    }
}

#[test]
fn another_list_takes_a_restart() {
    let before = good(&with(3, "  - {sst: 1, sd: \"000001\", workers: [1]}\n"));
    let after = good(&with(3, "  - {sst: 1, sd: \"000001\", workers: [2]}\n"));
    let found = Differences::between(&before, &after);
    let [change] = &found.changes[..] else {
        panic!("{:?}", found.changes)
    };
    assert_eq!(change.path, "slices[1 000001].workers");
    assert_eq!(change.class, ChangeClass::Restart);
}
