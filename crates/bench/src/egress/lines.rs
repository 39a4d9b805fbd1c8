//! What is printed, and rows for the page.

use super::outcome::{Beside, Cost, Egress, InWorker, WorkerCost};

/// The results in words.
#[must_use]
pub fn lines(results: &Egress) -> Vec<String> {
    let mut lines = vec![
        "egress: UEs of two queues, 40 Gbit/s in all; simulated time, no packet buffers".to_owned(),
        "\n  queues  octets  load      ns a packet (least to greatest)     held      lost".to_owned(),
    ];
    lines.extend(results.costs.iter().map(of_cost));
    let (rates, waits) = (&results.rates, &results.waits);
    lines.push(format!(
        "\nrates over 10 s: the greatest error of {} UEs at {} kbit/s is {:.3}% (a packet is {:.3}%)",
        rates.ues,
        rates.kbit,
        rates.worst * 100.0,
        rates.of_a_packet * 100.0
    ));
    lines.push(format!(
        "waiting of the highest class at 1.5 times a port's load, in packet times: half within {:.2}, 99% {:.2}, the \
         longest {:.2}; {} of {} lost",
        waits.p50, waits.p99, waits.max, waits.lost, waits.packets
    ));
    if !results.beside.is_empty() {
        lines.push("\nbeside rte_sched, in turn; packets of 1,024 octets".to_owned());
    }
    lines.extend(results.beside.iter().map(of_beside));
    lines.extend(of_worker(&results.in_worker));
    lines
}

fn of_worker(of: &InWorker) -> Vec<String> {
    let head = format!(
        "\nin a worker, {} sessions of two queues, {} kbit/s each, packets of 1,024 octets, simulated time; in turn with a \
         worker that polices the rates:",
        of.sessions, of.rates.kbit
    );
    let rates = format!(
        "  the greatest error of a session's rate is {:.3}% (a packet is {:.3}%)",
        of.rates.worst * 100.0,
        of.rates.of_a_packet * 100.0
    );
    let costs = of.costs.iter().map(of_worker_cost);
    [head].into_iter().chain(costs).chain([rates]).collect()
}

fn of_worker_cost(cost: &WorkerCost) -> String {
    let WorkerCost {
        load,
        with,
        without,
        more,
        ..
    } = cost;
    format!(
        "  load {load:.2}: {:.1} ns a packet with queues ({:.1} to {:.1}), {:.1} without ({:.1} to {:.1}); {:.1} more \
         ({:.1} to {:.1}, {} pairs); {} of {} lost, {} wait",
        with.median,
        with.min,
        with.max,
        without.median,
        without.min,
        without.max,
        more.median,
        more.min,
        more.max,
        more.count,
        cost.lost,
        cost.offered,
        cost.held
    )
}

fn of_cost(cost: &Cost) -> String {
    let Cost {
        queues,
        octets,
        load,
        nanos,
        held,
        lost,
        ..
    } = cost;
    let (median, min, max) = (nanos.median, nanos.min, nanos.max);
    format!(
        "  {queues:>6}  {octets:>6}  {load:>4.2}  {median:>15.1} ({min:.1} to {max:.1}) {held:>15} {lost:>9}"
    )
}

fn of_beside(of: &Beside) -> String {
    format!(
        "  {:>6} queues: {:.1} ns a packet ({:.1} to {:.1}), rte_sched {:.1} ({:.1} to {:.1}); {:.2} of it ({:.2} to {:.2}, \
         {} pairs)",
        of.queues,
        of.ours.median,
        of.ours.min,
        of.ours.max,
        of.theirs.median,
        of.theirs.min,
        of.theirs.max,
        of.ratio.median,
        of.ratio.min,
        of.ratio.max,
        of.ratio.count
    )
}

/// The figures as rows: queues, octets, load, nanoseconds, least to greatest.
#[must_use]
pub fn rows(results: &Egress) -> Vec<Vec<String>> {
    let row = |cost: &Cost| {
        vec![
            cost.queues.to_string(),
            cost.octets.to_string(),
            format!("{:.2}", cost.load),
            format!("{:.1}", cost.nanos.median),
            format!("{:.1} to {:.1}", cost.nanos.min, cost.nanos.max),
        ]
    };
    results.costs.iter().map(row).collect()
}
