//! What is asked of an accelerator that is driven in-band, against the results.

use super::super::targets::{SMALL, Target};
use super::delay::AcceleratorDelay;
use super::outcome::Offloaded;

/// Flows that the targets ask for.
const FLOWS: usize = 16_777_216;
/// New flows a second.
const RATE: u32 = 450_000;
/// Microseconds through an accelerator.
const DELAY_US: f64 = 5.0;
/// Milliseconds until traffic passes in software.
const SOFTWARE_MS: f64 = 100.0;

/// The targets.
#[must_use]
pub fn targets(results: &Offloaded) -> Vec<Target> {
    let is_small = results.flows < FLOWS / 10 * 9;
    let installs = &results.installs;
    let of_rate = [
        Target::at_least(
            "offload.local",
            "new flows a second in-band, of a worker that is alone",
            installs.of_local(),
            "of local",
            0.5,
        ),
        Target::at_least(
            "offload.rate",
            "new flows a second in-band",
            installs.rate() / 1e6,
            "M/s",
            f64::from(RATE) / 1e6,
        ),
        Target::at_most(
            "offload.share",
            "the accelerator's core that 450,000 new flows a second take",
            installs.share_at(RATE) * 100.0,
            "%",
            20.0,
        ),
        Target::at_least(
            "offload.beside",
            "established traffic while new flows come, of that without",
            results.beside.kept.median,
            "of without",
            0.9,
        )
        .with_note(format!("{:.0} new flows a second", results.beside.rate))
        .but_if(results.beside.dropped > 0, "packets were dropped"),
        Target::at_least(
            "offload.flows",
            "flow entries at the accelerator",
            results.flows as f64 / 1e6,
            "M",
            FLOWS as f64 / 1e6,
        ),
    ];
    let exact = Target::at_most(
        "offload.counts",
        "packets that are not counted, or counted twice, when one control frame of 100 is lost",
        results.lossy.passed.abs_diff(results.lossy.counted) as f64,
        "packets",
        0.0,
    )
    .but_if(results.lossy.control_lost == 0, "no control frame was lost");
    let most = |of: &dyn Fn(&super::Ended) -> f64| results.ended.iter().map(of).fold(0.0, f64::max);
    let of_ends = [
        Target::at_most(
            "offload.lost",
            "packets whose counts are lost when the accelerator's process ends, at most",
            most(&|end| end.passed.saturating_sub(end.counted) as f64),
            "packets",
            f64::from(results.bound),
        )
        .but_if(
            results.ended.iter().any(|end| end.counted > end.passed),
            "packets were counted that did not pass",
        ),
        Target::at_most(
            "offload.software",
            "until nine of ten packets pass in software behind that, at most",
            most(&|end| end.most_ms),
            "ms",
            SOFTWARE_MS,
        ),
    ];
    let of_rate = of_rate.into_iter().map(|target| target.but_if(is_small, SMALL));
    of_rate
        .chain([exact])
        .chain(of_ends.into_iter().filter(|_| !results.ended.is_empty()))
        .chain((results.delay.flows > 0).then(|| of_delay(&results.delay)))
        .collect()
}

fn of_delay(delay: &AcceleratorDelay) -> Target {
    let through = &delay.accelerator;
    Target::at_most(
        "offload.delay",
        "delay of half of the packets through the accelerator, on two cores",
        through.delays.p50 as f64 / 1e3,
        "us",
        DELAY_US,
    )
    .with_note(format!(
        "a worker alone: {:.2} us; {:.2} Mpps",
        delay.alone.delays.p50 as f64 / 1e3,
        delay.rate / 1e6
    ))
    .but_if(
        through.void.is_some(),
        through.void.as_deref().unwrap_or_default(),
    )
    .but_if(through.loss > 0.0, "packets were lost")
}
