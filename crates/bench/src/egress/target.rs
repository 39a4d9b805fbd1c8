//! What is asked of the traffic manager (T9), against the results.

use super::super::targets::{SMALL, Target};
use super::arguments::FEWEST;
use super::outcome::Egress;
use super::{QUEUES, SESSIONS};

/// The targets.
#[must_use]
pub fn targets(results: &Egress) -> Vec<Target> {
    let is_small = results.queues < QUEUES;
    let nanos = |queues| {
        results
            .cost(queues, 1_024, 1.0)
            .map_or(f64::NAN, |of| of.nanos.median)
    };
    let all = nanos(results.queues);
    let conforming = results.costs.iter().filter(|of| of.load <= 1.0);
    let waits = &results.waits;
    let parts = [
        Target::at_most(
            "T9.cost",
            "a packet of 1,024 octets at 40 Gbit/s through all queues",
            all,
            "ns",
            110.0,
        )
        .but_if(is_small, SMALL),
        Target::at_most(
            "T9.growth",
            "a packet through all queues, of one through 1,024",
            all / nanos(FEWEST),
            "times",
            3.0,
        )
        .but_if(is_small, SMALL),
        Target::at_most(
            "T9.rate",
            "the greatest error of a UE's rate in 10 s at 610 kbit/s, of all UEs",
            results.rates.worst * 100.0,
            "%",
            1.0,
        )
        .but_if(results.rates.ues < SESSIONS, SMALL),
        Target::at_most(
            "T9.loss",
            "packets of conforming traffic that are lost",
            conforming.map(|of| of.lost).sum::<u64>() as f64,
            "packets",
            0.0,
        )
        .but_if(is_small, SMALL),
        Target::at_most(
            "T9.wait",
            "what 99% of the highest class wait at most, at 1.5 times a port's load",
            waits.p99,
            "packet times",
            2.0,
        )
        .but_if(waits.packets == 0, "no packet of it left")
        .but_if(waits.lost > 0, "some were lost"),
    ];
    let beside = results.beside.iter().rev().take(1).map(|of| {
        Target::at_most(
            "T9.sched",
            "a packet through all queues, of one through rte_sched in the same run",
            of.ratio.median,
            "of rte_sched",
            0.7,
        )
        .with_note(format!(
            "{:.1} ns; rte_sched {:.1} ns",
            of.ours.median, of.theirs.median
        ))
        .but_if(of.queues < QUEUES, SMALL)
    });
    let in_worker = of_worker(results);
    parts.into_iter().chain(beside).chain(in_worker).collect()
}

/// What is asked of a worker with queues.
fn of_worker(results: &Egress) -> [Target; 3] {
    let found = &results.in_worker;
    let at_full = found.costs.iter().find(|of| (of.load - 1.0).abs() < 1e-9);
    let lost = found.costs.iter().map(|of| of.lost).sum::<u64>();
    let is_small = found.sessions < SESSIONS;
    let whole = Target::at_most(
        "T9.whole",
        "a packet of 1,024 octets at 40 Gbit/s on its whole way through a worker with queues",
        at_full.map_or(f64::NAN, |of| of.with.median),
        "ns",
        200.0,
    );
    let rate = Target::at_most(
        "T9.whole.rate",
        "the greatest error of a session's rate there, in 10 s at 610 kbit/s",
        found.rates.worst * 100.0,
        "%",
        1.0,
    );
    let loss = Target::at_most(
        "T9.whole.loss",
        "packets of conforming traffic that are lost there",
        lost as f64,
        "packets",
        0.0,
    );
    let without = at_full.map_or(f64::NAN, |of| of.without.median);
    let whole = whole.with_note(format!("{without:.1} ns without queues"));
    [whole, rate, loss].map(|target| target.but_if(is_small, SMALL))
}
