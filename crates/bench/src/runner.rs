//! Runs a plan: part after part; each figure is printed when it is taken.

mod context;
mod cost;
mod egress;
mod inspection;
mod lines;
mod nat;
mod offload;
mod resilience;

use dpdk::Eal;

use super::NO_DRIVER;
use super::clock::available_memory;
use super::error::BenchError;
use super::floors::IoForwarding;
use super::latency::Latencies;
use super::machine::cores;
use super::memory::Memory;
use super::model::Model;
use super::overload::Overload;
use super::pfcp::{self, Pfcp, Size};
use super::plan::{Part, Plan};
use super::point_names;
use super::progress::Progress;
use super::results::Results;
use super::scaling::scaling;
use super::settings::Setting;
use super::setup;
use super::targets::short;
use super::twocore;
use super::verdict;
use super::world::World;

use self::context::Runner;
pub use self::egress::run_egress;
pub use self::inspection::run_inspection;
pub use self::lines::stage_table;
use self::lines::{latency_line, overload_lines, pfcp_line};
pub use self::nat::run_nat;
pub use self::offload::run_offload;
pub use self::resilience::run_resilience;

/// Measures the parts of `plan`.
///
/// # Errors
/// A part that could not be measured although there is memory for it.
pub fn run(plan: &Plan, progress: &Progress) -> Result<Results, BenchError> {
    let mut results = Results::new(plan.quick);
    progress.print(results.machine.line());
    progress.print(format!(
        "packets in memory, {NO_DRIVER} in any figure; net of the port's own work"
    ));
    let mut runner = Runner {
        plan,
        progress,
        results: &mut results,
        said: None,
    };
    run_memory(&mut runner)?;
    run_pfcp(&mut runner)?;
    run_floors(&mut runner)?;
    run_throughput(&mut runner)?;
    if plan.has(Part::Qos) {
        cost::costs(&mut runner)?;
    }
    run_setup(&mut runner)?;
    run_scaling(&mut runner)?;
    run_latency(&mut runner)?;
    run_overload(&mut runner)?;
    results.meters = results.point("T1").map(verdict::meters);
    results.targets = verdict::targets(&results);
    Ok(results)
}

fn run_memory(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let Some(model) = runner.plan.t1().filter(|_| runner.plan.has(Part::Memory)) else {
        return Ok(());
    };
    if !runner.fits("memory", &model) {
        return Ok(());
    }
    runner.progress.stage("memory");
    let memory = Memory::measure(model, runner.progress)?;
    runner.heading("memory, by the resident set");
    runner.progress.print(format!(
        "  {:.0} octets a flow ({}), {:.0} octets a session of {} PDRs ({})",
        memory.per_flow(),
        memory.flows,
        memory.per_session(),
        memory.pdrs,
        memory.sessions
    ));
    runner.results.memory = Some(memory);
    runner.say("memory", Setting::new(model).differences()?);
    Ok(())
}

fn run_pfcp(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    if !runner.plan.has(Part::Pfcp) {
        return Ok(());
    }
    let size = Size::new(runner.plan.quick);
    let (needed, there) = (size.octets(), available_memory());
    if cores() < 2 || needed > there {
        runner.results.left_out.push(format!(
            "PFCP: left out: it takes two cores and {} MiB of memory; there are {} and {}",
            needed >> 20,
            cores(),
            there >> 20
        ));
        return Ok(());
    }
    runner.progress.stage("PFCP");
    runner.heading(
        "PFCP over UDP: by control's processor time, and by the clock on the wall; response times in ms",
    );
    let pfcp = Pfcp::measure(eal()?, size, runner.progress)?;
    for (condition, span) in pfcp.spans() {
        runner.progress.print(pfcp_line(condition, span));
    }
    runner.progress.print(format!(
        "  {} sessions, {:.0} octets each with control's session state; beside {} Mpps, of which {} dropped",
        pfcp.sessions,
        pfcp.per_session(),
        short(pfcp.traffic.packets as f64 / pfcp.traffic.seconds.max(1e-9) / 1e6),
        pfcp.traffic.dropped
    ));
    runner.results.pfcp = Some(pfcp);
    runner.say("PFCP", pfcp::differences(&size));
    Ok(())
}

fn run_floors(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let wanted = runner.plan.has(Part::Floors) || runner.plan.has(Part::Throughput);
    let (Some(t1), Some(t2)) = (runner.plan.t1(), runner.plan.t2()) else {
        return Ok(());
    };
    if !wanted {
        return Ok(());
    }
    runner.heading("floors: ns per packet, median round of 16,384 packets");
    let mut sizes = vec![Model::open().with_sessions(1), Model::open(), t1, t2];
    let counts = runner.plan.flow_counts().iter();
    sizes.extend(counts.map(|&flows| t1.with_flows(flows)));
    for model in sizes {
        runner.floor_of(&model)?;
    }
    runner.progress.stage("io forwarding");
    let io = IoForwarding::measure(eal()?, runner.plan.sweep.runs, runner.plan.floor_seconds.min(2.0))?;
    runner.progress.print(format!(
        "  DPDK io forwarding over null ports: {} Mpps ({} to {})",
        short(io.mpps.median),
        short(io.mpps.min),
        short(io.mpps.max)
    ));
    runner.results.io_forwarding = Some(io);
    Ok(())
}

fn run_throughput(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    if !runner.plan.has(Part::Throughput) {
        return Ok(());
    }
    runner.heading("runner-fed worker: ns per packet and Mpps by processor time, median (least to greatest)");
    run_targets(runner)?;
    cost::links(runner)?;
    run_flow_counts(runner)?;
    run_session_counts(runner)
}

/// T3, T1 with the sweep of sizes, T2.
fn run_targets(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    if let Some(mut world) = runner.world("T3", Model::open())? {
        runner.measure_into(&mut world, "T3", Model::open())?;
    }
    if let Some(model) = runner.plan.t1()
        && let Some(mut world) = runner.world("T1", model)?
    {
        runner.measure_into(&mut world, "T1", model)?;
        runner.check_urrs(&mut world)?;
        run_sizes(runner, &mut world, model)?;
    }
    if let Some(model) = runner.plan.t2()
        && let Some(mut world) = runner.world("T2", model)?
    {
        runner.measure_into(&mut world, "T2", model)?;
    }
    Ok(())
}

/// Model V's profiles and sizes, in the world of T1.
fn run_sizes(runner: &mut Runner<'_>, world: &mut World, t1: Model) -> Result<(), BenchError> {
    runner.heading("profiles and frame sizes of model V");
    for of in runner.plan.profiles() {
        let Some(of_profile) = Model::v(of.profile, of.size) else {
            continue;
        };
        let model = Model {
            name: of_profile.name,
            uplink_per_mille: of_profile.uplink_per_mille,
            sizes: of_profile.sizes,
            ..t1
        };
        world.feed().set_sizes(&model);
        world.setting.model = model;
        let figure = runner.figure(world, &point_names::of_size(&model), &model, runner.plan.sweep)?;
        let point = runner.point(figure, &model);
        runner.results.sweeps.sizes.push(point);
    }
    Ok(())
}

fn run_flow_counts(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    runner.heading("flows, model V profile 2, 256 B");
    let Some(t1) = runner.plan.t1() else { return Ok(()) };
    for &flows in runner.plan.flow_counts() {
        let name = format!("{flows} flows");
        let model = t1.with_flows(flows);
        if let Some(mut world) = runner.world(&name, model)? {
            let figure = runner.figure(&mut world, &name, &model, runner.plan.sweep)?;
            let point = runner.point(figure, &model);
            runner.results.sweeps.flows.push(point);
        }
    }
    let targets = ["T1", "T2"].map(|name| runner.results.point(name).cloned());
    runner.results.sweeps.flows.extend(targets.into_iter().flatten());
    Ok(())
}

fn run_session_counts(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    runner.heading("sessions, an entry for each tunnel");
    for &sessions in runner.plan.session_counts() {
        let name = format!("{sessions} sessions");
        let model = Model::open().with_sessions(sessions);
        if let Some(mut world) = runner.world(&name, model)? {
            runner.floor_of(&model)?;
            let figure = runner.figure(&mut world, &name, &model, runner.plan.sweep)?;
            let point = runner.point(figure, &model);
            runner.results.sweeps.sessions.push(point);
        }
    }
    let t3 = runner.results.point("T3").cloned();
    runner.results.sweeps.sessions.extend(t3);
    let sweep = &mut runner.results.sweeps.sessions;
    sweep.sort_by_key(|point| point.figure.sessions);
    Ok(())
}

fn run_setup(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let Some(model) = runner.plan.t1().filter(|_| runner.plan.has(Part::Setup)) else {
        return Ok(());
    };
    if !runner.fits("flow set-up", &model) {
        return Ok(());
    }
    runner.heading("flow set-up through the slow path");
    runner.progress.stage("set-up alone");
    let mut world = World::new(Setting::new(model), runner.progress)?;
    let alone = setup::alone(&mut world, runner.progress)?;
    drop(world);
    for span in &alone.spans {
        runner.progress.print(format!(
            "  {:<22} {:.0} ns a flow, {} M flows/s",
            span.name,
            alone.nanos(span),
            short(1_000.0 / alone.nanos(span))
        ));
    }
    runner.results.setup_alone = Some(alone);
    runner.progress.stage("set-up beside traffic");
    let beside = setup::beside(model, runner.plan.effort, runner.progress)?;
    runner.progress.print(format!(
        "  beside {} new flows/s: {} set up, established flows keep {:.1}% of their rate",
        short(beside.offered),
        short(beside.moderate.set_up()),
        beside.kept() * 100.0
    ));
    runner.progress.print(format!(
        "  flood of {}/s at half load: {} set up, slow path {:.1}% of the cycles, established lost {:.4}% ({:.4}% without)",
        short(setup::FLOOD),
        short(beside.flood.set_up()),
        beside.flood.share_of(worker::Stage::Slow) * 100.0,
        beside.flood.established_lost() * 100.0,
        beside.half.established_lost() * 100.0
    ));
    runner.results.setup_beside = Some(beside);
    runner.say("flow set-up", Setting::new(model).differences()?);
    Ok(())
}

fn run_scaling(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let Some(model) = runner.plan.t1().filter(|_| runner.plan.has(Part::Scaling)) else {
        return Ok(());
    };
    runner.heading("workers, each with its own sessions and tables");
    let most = cores().min(16) as u16;
    // Each worker gets its part of the flows, so that all of them need what T1 needs.
    let model = model.with_flows(model.flows() / u32::from(most.max(2)));
    for workers in 1..=most {
        runner.progress.stage(format!("{workers} workers"));
        let scaling = scaling(model, workers, most.max(2), runner.plan.effort, runner.progress)?;
        runner.progress.print(format!(
            "  {workers} workers: {} Mpps together; each {} to {}; the sketch floor on as many cores: {} Mpps",
            short(scaling.mpps()),
            short(scaling.spread().min),
            short(scaling.spread().max),
            short(scaling.sketch_mpps())
        ));
        let differences = scaling.figures.first().map(|figure| figure.settings.clone());
        runner.say(&format!("{workers} workers"), differences.unwrap_or_default());
        runner.results.scaling.push(scaling);
    }
    Ok(())
}

fn run_latency(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let Some(t1) = runner.plan.t1().filter(|_| runner.plan.has(Part::Latency)) else {
        return Ok(());
    };
    if cores() < 2 {
        runner
            .results
            .left_out
            .push("latency: left out: it takes two cores".into());
        return Ok(());
    }
    let model = two_core_model(runner.plan, t1);
    runner.progress.stage("latency");
    runner.heading(
        "two cores: loss and latency by load of what the worker can do, in intervals without absences",
    );
    let latency = Latencies::measure(eal()?, model, runner.plan.trial_seconds, runner.progress)?;
    runner.progress.print(format!(
        "  what the worker can do: {} Mpps; greatest rate without loss, of those tried: {}",
        short(latency.capacity.rate / 1e6),
        latency.zero_loss()
    ));
    for (name, device) in [("worker", &latency.worker), ("io", &latency.plain)] {
        for point in &device.loads {
            runner.progress.print(latency_line(name, point));
        }
    }
    runner.say("latency", twocore::setting(model, latency.backlog).differences()?);
    runner.results.latency = Some(latency);
    Ok(())
}

fn run_overload(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let Some(t1) = runner.plan.t1().filter(|_| runner.plan.has(Part::Overload)) else {
        return Ok(());
    };
    if cores() < 2 {
        runner
            .results
            .left_out
            .push("overload: left out: it takes two cores".into());
        return Ok(());
    }
    let model = two_core_model(runner.plan, t1);
    runner.progress.stage("overload");
    runner
        .heading("two cores: goodput under more load than the worker can process, with GTP-U Echo beside it");
    let overload = Overload::measure(eal()?, model, runner.plan.trial_seconds, runner.progress)?;
    for round in &overload.rounds {
        runner.progress.print(overload_lines(round));
    }
    runner.say(
        "overload",
        twocore::setting(model, overload.backlog).differences()?,
    );
    runner.results.overload = Some(overload);
    Ok(())
}

/// The model of T1 for two cores, whose meters let everything pass; in a quick look with fewer flows, each of which the
/// generator sends once in less than a second.
fn two_core_model(plan: &Plan, t1: Model) -> Model {
    let model = if plan.quick { t1.with_flows(131_072) } else { t1 };
    let mut policy = model.policy;
    policy.limits = false;
    model.with_policy(policy)
}

/// DPDK's environment, started once and without huge pages.
fn eal() -> Result<&'static Eal, BenchError> {
    match Eal::current() {
        Some(eal) => Ok(eal),
        None => Eal::builder()
            .hugepages(false)
            .memory_mib(256)
            .init()
            .map_err(BenchError::of),
    }
}
