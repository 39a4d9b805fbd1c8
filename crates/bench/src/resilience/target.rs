//! What T17 asks of the store, against the results.

use super::super::targets::{SMALL, Target};
use super::charging::Charging;
use super::outcome::Resilience;
use super::restart::Restart;

/// Sessions, and those with traffic, that T17 asks for.
const SIZE: [u32; 2] = [600_000, 10_000];
/// Milliseconds from the kill to forwarding.
const MOST_MS: f64 = 1_000.0;
/// Establishments with a store, of those without.
const LEAST_RATIO: f64 = 0.8;

/// The targets. Of several kills the worst one counts.
#[must_use]
pub fn targets(results: &Resilience) -> Vec<Target> {
    [forwarding(results), charging(results), establishments(results)]
        .into_iter()
        .flatten()
        .collect()
}

fn forwarding(results: &Resilience) -> Option<Target> {
    let worst = |of: fn(&Restart) -> Option<f64>| {
        let times = results
            .restarts
            .iter()
            .map(|one| of(one).unwrap_or(f64::INFINITY));
        times.fold(0.0, f64::max)
    };
    let all = Target::at_most(
        "T17.kill",
        "from kill -9 to a packet forwarded of every session with traffic, the worst of all kills",
        worst(|one| one.forwarding.all_ms),
        "ms",
        MOST_MS,
    );
    let first = Target::at_most(
        "T17.kill.first",
        "from kill -9 to the first packet forwarded",
        worst(|one| one.forwarding.first_ms),
        "ms",
        MOST_MS,
    );
    let most = Target::at_most(
        "T17.kill.99",
        "from kill -9 to a packet forwarded of 99 of 100 sessions with traffic",
        worst(|one| one.forwarding.most_ms),
        "ms",
        MOST_MS,
    );
    let sum = |of: fn(&Restart) -> u64| results.restarts.iter().map(of).sum::<u64>();
    let [missing, wrong, indications] = [
        sum(|one| one.missing),
        sum(|one| one.wrong),
        sum(|one| one.error_indications),
    ];
    let target = Target::of_parts(
        "T17.kill",
        "kill -9 and start under traffic",
        vec![all, first, most],
    )?;
    Some(
        target
            .but_if(results.sessions < SIZE[0] || results.active < SIZE[1], SMALL)
            .but_if(missing > 0, format!("{missing} sessions did not come back"))
            .but_if(wrong > 0, format!("{wrong} packets in a wrong place"))
            .but_if(indications > 0, format!("{indications} Error Indications")),
    )
}

fn charging(results: &Resilience) -> Option<Target> {
    let kills = results.restarts.iter().map(|one| one.charging);
    let worst = kills.clone().max_by_key(|one| one.lost_octets)?;
    let over: u64 = kills
        .chain([results.undisturbed])
        .map(|one| one.overcharged_sessions)
        .sum();
    let target = Target::at_most(
        "T17.charging",
        "octets forwarded and not charged by kill -9, of what its checkpoints allow, the worst of all kills",
        share(&worst),
        "of the bound",
        1.0,
    );
    let undisturbed = results.undisturbed.lost_octets;
    Some(
        target
            .but_if(
                over > 0,
                format!("more was charged than sent for {over} sessions"),
            )
            .but_if(
                undisturbed > 0,
                format!("{undisturbed} octets were not charged without a kill"),
            ),
    )
}

/// What was lost, of what may be.
fn share(charging: &Charging) -> f64 {
    charging.lost_octets as f64 / charging.bound_octets.max(1) as f64
}

fn establishments(results: &Resilience) -> Option<Target> {
    let measured = results.establishments.as_ref()?;
    let wall = Target::at_least(
        "T17.establishments",
        "Session Establishments a second with the store, of those without, in a closed loop",
        measured.ratio.median,
        "of without",
        LEAST_RATIO,
    );
    let cpu = Target::at_least(
        "T17.establishments.cpu",
        "the same for each second of control's processor time, as T7 counts",
        measured.cpu_ratio.median,
        "of without",
        LEAST_RATIO,
    );
    let what = "Session Establishments with the store against those without";
    let target = Target::of_parts("T17.establishments", what, vec![wall, cpu])?;
    Some(target.with_note(format!(
        "{} requests open; a write and a sync of 64 KiB took {:.2} ms",
        measured.window,
        results.sync_nanos as f64 / 1e6
    )))
}
