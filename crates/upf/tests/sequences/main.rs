//! Sequences of procedures from two SMFs over a bad network, with restarts, against a model of the sessions that ought
//! to exist; see [`machine`]. What goes wrong here is kept below as a case with a name.
//!
//! `SLUICE_SEQUENCES` is how many sequences are played (default 48), `SLUICE_SEQUENCES_SEED` what they are drawn from;
//! it is written to standard error.

#[path = "../support/draw.rs"]
mod draw;
mod machine;

use machine::{Edit, Shape, Step, run};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: draw::setting("SLUICE_SEQUENCES").unwrap_or(48) as u32,
        rng_seed: RngSeed::Fixed(draw::seed("SLUICE_SEQUENCES_SEED")),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any::<[u8; 8]>().prop_map(Step::decode), 1..60)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn workers_hold_what_smfs_know_and_in_the_end_nothing(seed in any::<u64>().no_shrink(), steps in steps()) {
        run(seed, &steps);
    }
}

/// The one session that cases are about.
const fn establish(shape: Shape) -> Step {
    Step::Establish {
        smf: 0,
        slot: 0,
        shape,
    }
}

fn modify(edits: &[Edit]) -> Step {
    Step::Modify {
        smf: 0,
        slot: 0,
        edits: edits.to_vec(),
    }
}

const SOON: Step = Step::Wait(500);

#[test]
fn every_kind_of_session_comes_and_goes() {
    for which in 0..32 {
        let kind = Step::decode([0, 0, which, 0, 0, 0, 0, 0]);
        run(1, &[kind, SOON, Step::Check]);
    }
}

#[test]
fn every_edit_of_every_rule_is_made_or_refused_whole() {
    for which in 0..40 {
        let edits = (0..24).map(|on| Step::decode([16, 0, which, on * 11, 0, 0, 0, 0]));
        let steps = edits.flat_map(|edit| [edit, SOON]).chain([Step::Check]);
        let steps: Vec<Step> = [establish(Shape::SharedTunnel), SOON]
            .into_iter()
            .chain(steps)
            .collect();
        run(u64::from(which), &steps);
    }
}

/// It counts sequence numbers and SEIDs from the beginning again, so that its first requests are those of its last
/// life to the octet: the answers of then are of sessions that are gone.
#[test]
fn a_restarted_smf_that_asks_the_same_again_gets_a_new_session() {
    let again = [
        Step::RestartSmf { smf: 0 },
        Step::Wait(2_000),
        establish(Shape::Plain),
        SOON,
    ];
    let steps: Vec<Step> = [establish(Shape::Plain), SOON].into_iter().chain(again).collect();
    run(1, &steps);
}

#[test]
fn what_waited_for_a_superseded_session_is_not_sent_to_its_successor() {
    let idle = establish(Shape::Idle(true));
    run(1, &[idle, SOON, Step::Check, establish(Shape::Plain), SOON]);
}

#[test]
fn buffered_packets_are_forwarded_under_the_rules_of_then() {
    let active = [Edit::Tunnel(1, 2), Edit::Action(1, 0)];
    let to = Step::Move { smf: 0, slot: 0 };
    let idle = establish(Shape::Idle(false));
    run(
        1,
        &[
            idle,
            SOON,
            Step::Check,
            to,
            SOON,
            Step::Check,
            modify(&active),
            SOON,
        ],
    );
}

#[test]
fn a_second_bar_in_one_request_is_ignored() {
    let twice = [Edit::CreateBar(0), Edit::CreateBar(0)];
    run(
        1,
        &[
            establish(Shape::Pooled(false)),
            SOON,
            modify(&twice),
            SOON,
            Step::Check,
        ],
    );
}

/// In whichever order the IEs come.
#[test]
fn a_pdr_may_be_removed_together_with_its_endpoint() {
    let edits = [
        Edit::RemoveEndpoint(4),
        Edit::RemovePdr(6),
        Edit::RemoveEndpoint(6),
    ];
    run(
        1,
        &[
            establish(Shape::Endpoints),
            SOON,
            modify(&edits),
            SOON,
            Step::Check,
        ],
    );
}

/// As before: the answer to the release of then is not that to the release of now.
#[test]
fn a_restarted_smf_that_releases_as_in_its_last_life_is_released() {
    let release = Step::Release { smf: 0 };
    run(1, &[release, SOON, Step::RestartSmf { smf: 0 }]);
}
