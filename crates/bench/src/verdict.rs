//! Targets from results: the value of each, and the reasons for which it does not count.

use packet::DropReason;
use worker::Stage;

use super::egress;
use super::inspection;
use super::model::Model;
use super::nat;
use super::offload;
use super::pfcp::HALF_RATE;
use super::resilience;
use super::results::{Point, Results};
use super::search::RatedTrial;
use super::targets::{FloorRatios, SMALL, Target, short};
use super::twocore::MOST_DISTURBED;

/// Every target for which `results` have figures.
#[must_use]
pub fn targets(results: &Results) -> Vec<Target> {
    let all = [
        t1(results),
        t1_links(results),
        t2(results),
        t3(results),
        t4(results),
        t5(results),
        t7(results),
        t8(results),
        t14(results),
        t11(results),
        t11_sketch(results),
        t12(results),
        t12_control(results),
        accounting(results),
    ];
    let of_store = results.resilience.iter().flat_map(resilience::targets);
    let of_inspection = results.inspection.iter().flat_map(inspection::targets);
    let of_nat = results.nat.iter().flat_map(nat::targets);
    let of_egress = results.egress.iter().flat_map(egress::targets);
    let of_accelerator = results.offload.iter().flat_map(offload::targets);
    all.into_iter()
        .flatten()
        .chain(of_store)
        .chain(of_inspection)
        .chain(of_nat)
        .chain(of_accelerator)
        .chain(of_egress)
        .collect()
}

impl Target {
    /// Adds the reasons for which any figure does not count: unsound counts, small tables.
    fn of_point(self, point: &Point, is_small: bool) -> Self {
        let figure = &point.figure;
        self.but_if(!figure.sums_hold, "packets in are not packets out and dropped")
            .but_if(!figure.checked.is_sound(), figure.checked.fault())
            .but_if(is_small, SMALL)
    }
}

/// Meters at work in a world of model V: those of its rules, if between 1% and 5% of the packets are red as they are
/// to be, else none.
#[must_use]
pub fn meters(point: &Point) -> u32 {
    let red = point.figure.counted.drops.get(DropReason::MeterRed.label());
    let share = red.copied().unwrap_or(0) as f64 / point.figure.counted.rx.max(1) as f64;
    let in_rules = Model::v(2, 1).map_or(0, |model| model.policy.meters());
    if (0.01..=0.05).contains(&share) {
        in_rules
    } else {
        0
    }
}

/// The ratios of a figure to the floors of its size, if those were measured.
fn ratios(point: &Point) -> Option<FloorRatios> {
    Some(FloorRatios {
        sketch_ratio: point.sketch_ratio?,
        line_budget_ratio: point.line_budget_ratio?,
    })
}

/// Time per packet of T1 as a multiple of the sketch floor, at most.
const T1_RATIO: f64 = 2.0;

fn t1(results: &Results) -> Option<Target> {
    let point = results.point("T1")?;
    let ratios = ratios(point)?;
    let floor = results.floors_of(point.figure.flows, point.figure.sessions)?;
    let meters = meters(point);
    let target = Target::at_most(
        "T1",
        "model V profile 2, 256 B, 8.39 M 5-tuple entries, 3 meters and 2 counters a flow: 2x the sketch floor (stretch: 1.5x)",
        point.figure.net_nanos.median,
        "ns/packet",
        T1_RATIO * floor.sketch.round.median,
    );
    Some(
        target
            .with_floors(Some(ratios))
            .with_meters(meters)
            .but_if(
                ratios.sketch_ratio > T1_RATIO,
                "more than 2x the sketch floor by the median round",
            )
            .but_if(
                floor.sketch.hits != floor.sketch.packets,
                "the sketch floor did not find every flow",
            )
            .but_if(meters < 3, format!("{meters} of 3 meters enforced"))
            .of_point(point, point.figure.flows < 8_388_608),
    )
}

fn t1_links(results: &Results) -> Option<Target> {
    let cost = results.links.as_ref()?;
    let target = Target::at_least(
        "T1.links",
        "T1 on VLANs of a LAG, of its rate on two ports without either",
        cost.kept(),
        "of without",
        0.97,
    );
    let is_small = cost.with.figure.flows < 8_388_608;
    Some(
        target
            .of_point(&cost.without, false)
            .of_point(&cost.with, is_small),
    )
}

fn t2(results: &Results) -> Option<Target> {
    let (one, two) = (results.point("T1")?, results.point("T2")?);
    let target = Target::at_least(
        "T2",
        "the same at 16.8 M flows, as a share of T1's rate",
        two.figure.mpps.median / one.figure.mpps.median,
        "of T1",
        0.9,
    );
    let meters = meters(two);
    Some(
        target
            .with_floors(ratios(two))
            .with_meters(meters)
            .but_if(meters < 3, format!("{meters} of 3 meters enforced"))
            .of_point(two, two.figure.flows < 16_777_216),
    )
}

fn t3(results: &Results) -> Option<Target> {
    let point = results.point("T3")?;
    let target = Target::at_most(
        "T3",
        "10,000 sessions, 2 PDR, 2 FAR, 1 QER, 1 URR each, an entry a tunnel",
        point.figure.net_nanos.median,
        "ns/packet",
        33.0,
    )
    .with_floors(ratios(point))
    .of_point(point, false);
    Some(target)
}

fn t4(results: &Results) -> Option<Target> {
    let (alone, beside) = (results.setup_alone.as_ref()?, results.setup_beside.as_ref()?);
    let is_small = beside.before.flows < 8_388_608;
    let rate = Target::at_least(
        "T4",
        "flow set-up alone, from 90% of the flows to a table 95% full",
        alone.rate_at_full_load(),
        "flows/s",
        3e6,
    );
    let kept = Target::at_least(
        "T4.beside",
        "established flows keep of their rate beside 300,000 new flows a second",
        beside.kept(),
        "of alone",
        0.8,
    );
    let moderate = beside.moderate.set_up();
    let slow = Target::at_most(
        "T4.flood.cycles",
        "cycles of the slow path at 10 M new flows a second",
        beside.flood.share_of(Stage::Slow),
        "of all",
        0.2,
    );
    let lost = Target::at_most(
        "T4.flood.lost",
        "established packets lost at half load in that flood",
        beside.flood.established_lost(),
        "of all",
        0.0,
    );
    let spans = [&beside.moderate, &beside.flood, &beside.half];
    let sums = spans
        .iter()
        .chain(&alone.spans.iter().collect::<Vec<_>>()[..])
        .all(|span| span.sums_hold);
    let parts = vec![
        rate.but_if(!alone.checked.is_sound(), alone.checked.fault()),
        kept.but_if(
            moderate < 0.9 * beside.offered,
            format!("{moderate:.0} new flows a second were set up"),
        ),
        slow,
        lost,
    ];
    Some(
        Target::of_parts("T4", "flow set-up through the slow path", parts)?
            .but_if(!sums, "packets in are not packets out and dropped")
            .but_if(is_small, SMALL),
    )
}

fn t5(results: &Results) -> Option<Target> {
    let parts = results.policies.iter().map(|cost| {
        let what = if cost.model == "S" {
            "model S: QER and URR cost; a QER and a URR a session stand for its 200 and 100 rules"
        } else {
            "model I: QER and URR cost"
        };
        Target::at_most("T5", what, cost.nanos.median, "ns/packet", 10.0)
            .but_if(results.meters == Some(0), "the QERs' rates are not enforced")
    });
    let is_small = results
        .policies
        .iter()
        .any(|cost| cost.with.figure.sessions < 50_000);
    let target = Target::of_parts(
        "T5",
        "models S and I with QER and URR against without",
        parts.collect(),
    )?;
    Some(target.but_if(is_small, SMALL))
}

fn t7(results: &Results) -> Option<Target> {
    let pfcp = results.pfcp.as_ref()?;
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let rate = Target::at_least(
        "T7",
        "Session Establishments with 4 PDR, 4 FAR, 2 QER, 2 URR over UDP for each second of control's processor time",
        pfcp.alone.establishment.per_cpu_second(),
        "/CPU second",
        2.0 * HALF_RATE,
    );
    let p99 = Target::at_most(
        "T7.p99",
        "p99 of the response time at 25,000 a second in an open loop",
        ms(pfcp.alone.half.round.delays.p99),
        "ms",
        20.0,
    );
    let resident = Target::at_least(
        "T7.resident",
        "sessions resident meanwhile, of 8 SMFs",
        f64::from(pfcp.sessions),
        "sessions",
        600_000.0,
    );
    let kept = Target::at_least(
        "T7.beside",
        "establishments while the worker has all the packets that it can take",
        pfcp.kept(),
        "of alone",
        0.8,
    );
    let beside = Target::at_most(
        "T7.beside.p99",
        "p99 of the response time at 25,000 a second meanwhile",
        ms(pfcp.beside.half.round.delays.p99),
        "ms",
        100.0,
    );
    let parts = vec![rate, p99, resident, kept, beside];
    Target::of_parts("T7", "PFCP over UDP", parts).map(|target| {
        let failed = pfcp.spans().filter(|(_, span)| !span.is_whole()).count();
        target
            .but_if(
                failed > 0,
                format!("{failed} rounds in which not every request was accepted"),
            )
            .but_if(pfcp.traffic.packets == 0, "the worker had no traffic")
    })
}

/// What T12 does not count: control's own session state, and what the allocator keeps of messages on their way.
fn t12_control(results: &Results) -> Option<Target> {
    let pfcp = results.pfcp.as_ref()?;
    let target = Target::at_most(
        "T12.control",
        "octets of resident memory for each session with 4 PDR, 4 FAR, 2 QER, 2 URR, control's session state included",
        pfcp.per_session(),
        "octets/session",
        4_096.0,
    );
    Some(target.but_if(pfcp.sessions < 600_000, SMALL))
}

fn t8(results: &Results) -> Option<Target> {
    let latency = results.latency.as_ref()?;
    let half = latency.half()?;
    let us = |nanos: u64| nanos as f64 / 1_000.0;
    let [worker, plain] = [half.worker, half.plain].map(|trial| &trial.trial.intervals.undisturbed);
    let middle = Target::at_most(
        "T8",
        "p50 at half of what the worker can do, generator and rings included, in intervals without absences",
        us(worker.delays.p50),
        "us",
        2.0,
    )
    .with_note(t8_note(half.worker, latency.capacity.rate));
    let tail = Target::at_most(
        "T8.tail",
        "p99.9 at that load, in intervals without absences, against 3x that of bare forwarding",
        us(worker.delays.p999),
        "us",
        3.0 * us(plain.delays.p999),
    )
    .with_note(t8_note(half.plain, latency.capacity.rate));
    let target = Target::of_parts("T8", "latency added, two cores", vec![middle, tail])?;
    let void = half.void();
    Some(
        target
            .but_if(void.is_some(), void.unwrap_or_default())
            .but_if(
                worker.lost > 0,
                format!("{} packets lost without an absence", worker.lost),
            )
            .but_if(
                latency.capacity.is_generator_bound,
                "the generator makes too few for what the worker can do",
            )
            .but_if(latency.flows < 8_388_608, SMALL),
    )
}

/// The rate, the variation, and all packets beside those of undisturbed intervals.
fn t8_note(point: &RatedTrial, capacity: f64) -> String {
    let us = |nanos: u64| short(nanos as f64 / 1_000.0);
    let (trial, intervals) = (&point.trial, &point.trial.intervals);
    let of = &intervals.undisturbed;
    format!(
        "at {} Mpps of {}: PDV p99 {} us, p99.9 {}; IPDV p99 {}, p99.9 {}; lost {}. With absences ({} of {} intervals): p50 {}, \
         p99.9 {}, lost {}",
        short(trial.rate / 1e6),
        short(capacity / 1e6),
        us(of.variation.pdv_p99),
        us(of.variation.pdv_p999),
        us(of.variation.ipdv_p99),
        us(of.variation.ipdv_p999),
        of.lost,
        intervals.disturbed,
        intervals.intervals,
        us(trial.delays.p50),
        us(trial.delays.p999),
        of.lost + intervals.beside_absences.lost
    )
}

/// The load of T14, per cent of what a worker can process.
const TWICE: u32 = 200;
/// Echo Requests of which 99.9% say something.
const LEAST_ECHOES: u64 = 1_000;

fn t14(results: &Results) -> Option<Target> {
    let overload = results.overload.as_ref()?;
    let round = overload.at(TWICE)?;
    let (of, echoed) = (&round.with.echoed.intervals, &round.with.echoed);
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let goodput = Target::at_least(
        "T14",
        "goodput at twice what the worker can process, of what it can",
        round.share(),
        "of it",
        0.9,
    );
    let echo = Target::at_most(
        "T14.echo",
        "p99.9 of GTP-U Echo at that load, in intervals without absences",
        ms(of.undisturbed.delays.p999),
        "ms",
        1.0,
    )
    .but_if(
        of.share() < 1.0 - MOST_DISTURBED || of.undisturbed.offered < LEAST_ECHOES,
        format!(
            "only {} Echo Requests were due in intervals without absences",
            of.undisturbed.offered
        ),
    )
    .but_if(
        of.undisturbed.lost > 0,
        format!("{} lost without an absence", of.undisturbed.lost),
    )
    .with_note(format!(
        "with absences ({} of {} intervals): {} of {} are answered, p99.9 {:.3} ms",
        of.disturbed,
        of.intervals,
        echoed.answered,
        echoed.asked,
        ms(echoed.delays.p999)
    ));
    let target = Target::of_parts("T14", "overload, two cores, memory ports", vec![goodput, echo])?;
    Some(
        target
            .but_if(round.factor() < 1.9, "the generator makes too few")
            .but_if(round.void().is_some(), round.void().unwrap_or_default())
            .but_if(overload.flows < 8_388_608, SMALL),
    )
}

fn t11(results: &Results) -> Option<Target> {
    let (one, most) = (results.scaling.first()?, results.scaling.last()?);
    let value = most.mpps() / (f64::from(most.workers) * one.mpps());
    let sound = results
        .scaling
        .iter()
        .flat_map(|scaling| &scaling.figures)
        .all(super::selffed::Figure::is_sound);
    let target = Target::at_least(
        "T11",
        "throughput of N self-fed workers over N times that of one, N all cores",
        value,
        "of N x one",
        0.9,
    );
    Some(
        target
            .but_if(most.workers < 2, "one core")
            .but_if(!sound, "a worker's figure is unsound"),
    )
}

/// What the workers keep of one's throughput, over what sketches keep that share nothing: what Sluice loses, and not
/// the machine.
fn t11_sketch(results: &Results) -> Option<Target> {
    let (one, most) = (results.scaling.first()?, results.scaling.last()?);
    let kept = most.mpps() / one.mpps();
    let kept_by_sketches = most.sketch_mpps() / one.sketch_mpps();
    let target = Target::at_least(
        "T11.sketch",
        "the same over what the sketch floor keeps on as many cores at once",
        kept / kept_by_sketches,
        "of the sketch's",
        0.9,
    );
    Some(target.but_if(most.workers < 2, "one core"))
}

fn t12(results: &Results) -> Option<Target> {
    let memory = results.memory?;
    let flow = Target::at_most(
        "T12",
        "octets of resident memory for each IPv4 flow",
        memory.per_flow(),
        "octets/flow",
        192.0,
    );
    let session = Target::at_most(
        "T12.session",
        "octets of resident memory for each session with 4 PDR",
        memory.per_session(),
        "octets/session",
        4_096.0,
    );
    let target = Target::of_parts("T12", "memory, all tables of T1", vec![flow, session])?;
    Some(target.but_if(memory.flows < 8_388_608, SMALL))
}

fn accounting(results: &Results) -> Option<Target> {
    let cost = results.stage_clock.as_ref()?;
    Some(Target::at_most(
        "stages",
        "cost of the stages' own accounting, of the time per packet at 10,000 sessions",
        cost.share(),
        "of all",
        0.02,
    ))
}
