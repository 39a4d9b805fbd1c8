//! Runs a plan: part after part, each figure printed as it is there.

mod cost;

use dpdk::Eal;

use super::NO_DRIVER;
use super::clock::{available_memory, ticks_per_second};
use super::floors::{Floors, IoForwarding};
use super::latency::Latencies;
use super::load::Load;
use super::machine::cores;
use super::memory::Memory;
use super::model::Model;
use super::pfcp::{self, Pfcp, Size, Span};
use super::plan::{Part, Plan, fits};
use super::progress::Progress;
use super::results::{Point, Results};
use super::scaling::scaling;
use super::selffed::{Effort, Figure, measure};
use super::settings::{self, Difference};
use super::setup;
use super::targets::short;
use super::twocore;
use super::verdict;
use super::world::{BenchError, Setting, World};

/// Measures what `plan` says.
///
/// # Errors
/// What could not be measured although there is memory for it.
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
    runner.memory()?;
    runner.pfcp()?;
    runner.floors()?;
    runner.throughput()?;
    if plan.has(Part::Qos) {
        runner.costs()?;
    }
    runner.setup()?;
    runner.scaling()?;
    runner.latency()?;
    results.meters = results.point("T1").map(verdict::meters);
    results.targets = verdict::targets(&results);
    Ok(results)
}

struct Runner<'a> {
    plan: &'a Plan,
    progress: &'a Progress,
    results: &'a mut Results,
    /// What was said last of the settings.
    said: Option<Vec<Difference>>,
}

impl Runner<'_> {
    /// Whether there is memory for a model; if not, it is said what was left out.
    fn fits(&mut self, what: &str, model: &Model) -> bool {
        match fits(model) {
            Ok(()) => true,
            Err(words) => {
                let line = format!("{what}: left out: {words}");
                self.progress.print(&line);
                self.results.left_out.push(line);
                false
            }
        }
    }

    /// Says what is not the daemon's default in a figure or a part, where that is another than in the figure before, and
    /// keeps it.
    fn say(&mut self, name: &str, differences: Vec<Difference>) {
        if self.said.as_ref() != Some(&differences) {
            self.progress
                .print(format!("    {}", settings::line(&differences)));
        }
        self.said = Some(differences.clone());
        self.results.settings.insert(name.to_owned(), differences);
    }

    fn heading(&self, text: &str) {
        self.progress.print(format!("\n{text}"));
    }

    fn memory(&mut self) -> Result<(), BenchError> {
        let Some(model) = self.plan.t1().filter(|_| self.plan.has(Part::Memory)) else {
            return Ok(());
        };
        if !self.fits("memory", &model) {
            return Ok(());
        }
        self.progress.stage("memory");
        let memory = Memory::measure(model, self.progress)?;
        self.heading("memory, by the resident set");
        self.progress.print(format!(
            "  {:.0} octets a flow ({}), {:.0} octets a session of {} PDRs ({})",
            memory.per_flow(),
            memory.flows,
            memory.per_session(),
            memory.pdrs,
            memory.sessions
        ));
        self.results.memory = Some(memory);
        self.say("memory", Setting::new(model).differences()?);
        Ok(())
    }

    fn pfcp(&mut self) -> Result<(), BenchError> {
        if !self.plan.has(Part::Pfcp) {
            return Ok(());
        }
        let size = Size::new(self.plan.quick);
        let (needed, there) = (size.octets(), available_memory());
        if cores() < 2 || needed > there {
            self.results.left_out.push(format!(
                "PFCP: left out: it takes two cores and {} MiB of memory; there are {} and {}",
                needed >> 20,
                cores(),
                there >> 20
            ));
            return Ok(());
        }
        self.progress.stage("PFCP");
        self.heading(
            "PFCP over UDP: by control's processor time, and by the clock on the wall; response times in ms",
        );
        let pfcp = Pfcp::measure(eal()?, size, self.progress)?;
        for (condition, span) in pfcp.spans() {
            self.progress.print(pfcp_line(condition, span));
        }
        self.progress.print(format!(
            "  {} sessions, {:.0} octets each with control's books; beside {} Mpps, of which {} dropped",
            pfcp.sessions,
            pfcp.per_session(),
            short(pfcp.traffic.packets as f64 / pfcp.traffic.seconds.max(1e-9) / 1e6),
            pfcp.traffic.dropped
        ));
        self.results.pfcp = Some(pfcp);
        self.say("PFCP", pfcp::differences(&size));
        Ok(())
    }

    fn floors(&mut self) -> Result<(), BenchError> {
        let wanted = self.plan.has(Part::Floors) || self.plan.has(Part::Throughput);
        let (Some(t1), Some(t2)) = (self.plan.t1(), self.plan.t2()) else {
            return Ok(());
        };
        if !wanted {
            return Ok(());
        }
        self.heading("floors: ns per packet, median round of 16,384 packets");
        let mut sizes = vec![Model::open().with_sessions(1), Model::open(), t1, t2];
        let counts = self.plan.flow_counts().iter();
        sizes.extend(counts.map(|&flows| t1.with_flows(flows)));
        for model in sizes {
            self.floor_of(&model)?;
        }
        self.progress.stage("io forwarding");
        let io = IoForwarding::measure(eal()?, self.plan.sweep.runs, self.plan.floor_seconds.min(2.0))?;
        self.progress.print(format!(
            "  DPDK io forwarding over null ports: {} Mpps ({} to {})",
            short(io.mpps.median),
            short(io.mpps.min),
            short(io.mpps.max)
        ));
        self.results.io_forwarding = Some(io);
        Ok(())
    }

    /// Measures the floors of a model's size, once.
    fn floor_of(&mut self, model: &Model) -> Result<(), BenchError> {
        let (flows, sessions) = (model.entries(), model.active);
        if self.results.floors_of(flows, sessions).is_some() || !self.fits("floor", model) {
            return Ok(());
        }
        self.progress.stage(format!("floors at {flows} flows"));
        self.progress.begin("floors", 1);
        let floors = Floors::measure(flows, sessions, self.plan.floor_seconds)?;
        self.progress.print(format!(
            "  {flows:>9} flows, {sessions:>7} sessions: sketch {:.1}, lookup {:.1}, line budget {:.1}; {:.0}% of {:.0} MiB in huge pages",
            floors.sketch.round.median,
            floors.lookup.round.median,
            floors.line_budget.round.median,
            floors.huge_octets as f64 * 100.0 / floors.memory_octets.max(1) as f64,
            floors.memory_octets as f64 / f64::from(1 << 20),
        ));
        self.results.floors.push(floors);
        Ok(())
    }

    /// Compares a figure with the floors of its size, and prints it.
    fn point(&mut self, figure: Figure, model: &Model) -> Point {
        let floors = self.results.floors_of(model.entries(), model.active);
        let point = Point::new(figure, floors);
        self.progress.print(line(&point));
        self.say(&point.figure.name, point.figure.settings.clone());
        point
    }

    fn throughput(&mut self) -> Result<(), BenchError> {
        if !self.plan.has(Part::Throughput) {
            return Ok(());
        }
        self.heading("self-fed worker: ns per packet and Mpps by processor time, median (least to greatest)");
        self.targets()?;
        self.links()?;
        self.flow_counts()?;
        self.session_counts()
    }

    /// T3, T1 with the sweep of sizes, T2.
    fn targets(&mut self) -> Result<(), BenchError> {
        if let Some((mut world, model)) = self.world("T3", Model::open())? {
            self.measure_into(&mut world, "T3", model)?;
        }
        if let Some(model) = self.plan.t1()
            && let Some((mut world, model)) = self.world("T1", model)?
        {
            self.measure_into(&mut world, "T1", model)?;
            self.check_urrs(&mut world)?;
            self.sizes(&mut world, model)?;
        }
        if let Some(model) = self.plan.t2()
            && let Some((mut world, model)) = self.world("T2", model)?
        {
            self.measure_into(&mut world, "T2", model)?;
        }
        Ok(())
    }

    /// A world with its flows, if there is memory.
    fn world(&mut self, name: &str, model: Model) -> Result<Option<(World, Model)>, BenchError> {
        if !self.fits(name, &model) {
            return Ok(None);
        }
        self.progress.stage(name);
        let mut world = World::new(Setting::new(model), self.progress)?;
        world.install_flows(0, model.flows(), self.progress)?;
        Ok(Some((world, model)))
    }

    fn figure(
        &self,
        world: &mut World,
        name: &str,
        model: &Model,
        effort: Effort,
    ) -> Result<Figure, BenchError> {
        let load = Load::saturated(model, model.flows());
        measure(world, name, load, effort, self.progress)
    }

    fn measure_into(&mut self, world: &mut World, name: &str, model: Model) -> Result<(), BenchError> {
        let figure = self.figure(world, name, &model, self.plan.effort)?;
        let point = self.point(figure, &model);
        self.results.throughput.push(point);
        Ok(())
    }

    /// The sum over all sessions' URRs must be the packets that were sent, as often as each is counted.
    fn check_urrs(&mut self, world: &mut World) -> Result<(), BenchError> {
        self.progress.begin("URRs", 1);
        let counted = world.urr_packets()?;
        let stats = world.stats();
        let forwarded: u64 = stats
            .directions
            .iter()
            .map(|direction| direction.forwarded.packets)
            .sum();
        let expected = forwarded * u64::from(world.setting.model.policy.urrs);
        let line =
            format!("  URRs of all sessions counted {counted} packets; forwarded and counted: {expected}");
        self.progress.print(&line);
        if counted == expected {
            Ok(())
        } else {
            Err(BenchError(line))
        }
    }

    /// Model V's profiles and sizes, in the world of T1.
    fn sizes(&mut self, world: &mut World, t1: Model) -> Result<(), BenchError> {
        self.heading("profiles and frame sizes of model V");
        for (profile, size) in self.plan.profiles() {
            let Some(of_profile) = Model::v(profile, size) else {
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
            let name = format!("{} {}/{} B", model.name, model.sizes[0], model.sizes[1]);
            let figure = self.figure(world, &name, &model, self.plan.sweep)?;
            let point = self.point(figure, &model);
            self.results.sweeps.sizes.push(point);
        }
        Ok(())
    }

    fn flow_counts(&mut self) -> Result<(), BenchError> {
        self.heading("flows, model V profile 2, 256 B");
        let Some(t1) = self.plan.t1() else { return Ok(()) };
        for &flows in self.plan.flow_counts() {
            let name = format!("{flows} flows");
            if let Some((mut world, model)) = self.world(&name, t1.with_flows(flows))? {
                let figure = self.figure(&mut world, &name, &model, self.plan.sweep)?;
                let point = self.point(figure, &model);
                self.results.sweeps.flows.push(point);
            }
        }
        let targets = ["T1", "T2"].map(|name| self.results.point(name).cloned());
        self.results.sweeps.flows.extend(targets.into_iter().flatten());
        Ok(())
    }

    fn session_counts(&mut self) -> Result<(), BenchError> {
        self.heading("sessions, an entry for each tunnel");
        for &sessions in self.plan.session_counts() {
            let name = format!("{sessions} sessions");
            if let Some((mut world, model)) = self.world(&name, Model::open().with_sessions(sessions))? {
                self.floor_of(&model)?;
                let figure = self.figure(&mut world, &name, &model, self.plan.sweep)?;
                let point = self.point(figure, &model);
                self.results.sweeps.sessions.push(point);
            }
        }
        let t3 = self.results.point("T3").cloned();
        self.results.sweeps.sessions.extend(t3);
        let sweep = &mut self.results.sweeps.sessions;
        sweep.sort_by_key(|point| point.figure.sessions);
        Ok(())
    }

    fn setup(&mut self) -> Result<(), BenchError> {
        let Some(model) = self.plan.t1().filter(|_| self.plan.has(Part::Setup)) else {
            return Ok(());
        };
        if !self.fits("flow set-up", &model) {
            return Ok(());
        }
        self.heading("flow set-up through the slow path");
        self.progress.stage("set-up alone");
        let mut world = World::new(Setting::new(model), self.progress)?;
        let alone = setup::alone(&mut world, self.progress)?;
        drop(world);
        for span in &alone.spans {
            self.progress.print(format!(
                "  {:<22} {:.0} ns a flow, {} M flows/s",
                span.name,
                alone.nanos(span),
                short(1_000.0 / alone.nanos(span))
            ));
        }
        self.results.setup_alone = Some(alone);
        self.progress.stage("set-up beside traffic");
        let beside = setup::beside(model, self.plan.effort, self.progress)?;
        let [moderate, flood] = beside.set_up();
        let [lost, lost_before] = beside.lost();
        self.progress.print(format!(
            "  beside {} new flows/s: {} set up, established flows keep {:.1}% of their rate",
            short(beside.offered),
            short(moderate),
            beside.kept() * 100.0
        ));
        self.progress.print(format!(
            "  flood of {}/s at half load: {} set up, slow path {:.1}% of the cycles, established lost {:.4}% ({:.4}% without)",
            short(setup::FLOOD),
            short(flood),
            beside.flood.share_of(worker::Stage::Slow) * 100.0,
            lost * 100.0,
            lost_before * 100.0
        ));
        self.results.setup_beside = Some(beside);
        self.say("flow set-up", Setting::new(model).differences()?);
        Ok(())
    }

    fn scaling(&mut self) -> Result<(), BenchError> {
        let Some(model) = self.plan.t1().filter(|_| self.plan.has(Part::Scaling)) else {
            return Ok(());
        };
        self.heading("workers, each with its own sessions and tables");
        let most = cores().min(16) as u16;
        // Each worker gets its part of the flows, so that all of them need what T1 needs.
        let model = model.with_flows(model.flows() / u32::from(most.max(2)));
        for workers in 1..=most {
            self.progress.stage(format!("{workers} workers"));
            let scaling = scaling(model, workers, most.max(2), self.plan.effort, self.progress)?;
            self.progress.print(format!(
                "  {workers} workers: {} Mpps together; each {} to {}",
                short(scaling.mpps()),
                short(scaling.spread().min),
                short(scaling.spread().max)
            ));
            let differences = scaling.figures.first().map(|figure| figure.settings.clone());
            self.say(&format!("{workers} workers"), differences.unwrap_or_default());
            self.results.scaling.push(scaling);
        }
        Ok(())
    }

    fn latency(&mut self) -> Result<(), BenchError> {
        let Some(t1) = self.plan.t1().filter(|_| self.plan.has(Part::Latency)) else {
            return Ok(());
        };
        if cores() < 2 {
            self.results
                .left_out
                .push("latency: left out: it takes two cores".into());
            return Ok(());
        }
        // In a quick look the generator meets each flow in less than a second.
        let model = if self.plan.quick {
            t1.with_flows(131_072)
        } else {
            t1
        };
        let mut policy = model.policy;
        policy.limits = false;
        self.progress.stage("latency");
        self.heading("two cores: loss and latency by load, of the greatest rate without loss");
        let model = model.with_policy(policy);
        let latency = Latencies::measure(eal()?, model, self.plan.trial_seconds, self.progress)?;
        self.progress.print(format!(
            "  greatest rate without loss, of those tried: {}",
            latency.zero_loss()
        ));
        for (name, device) in [("worker", &latency.worker), ("io", &latency.plain)] {
            for point in &device.loads {
                self.progress.print(latency_line(name, point));
            }
        }
        for overload in &latency.overload {
            self.progress.print(overload_line(overload));
        }
        self.say("latency", twocore::setting(model, latency.backlog).differences()?);
        self.results.latency = Some(latency);
        Ok(())
    }
}

/// One procedure under one condition in a line.
fn pfcp_line(condition: &str, span: &Span) -> String {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let (round, delays) = (&span.round, span.round.delays);
    let offered = span
        .offered
        .map_or(String::new(), |rate| format!("  {} offered", short(rate)));
    let failed = if span.is_whole() {
        String::new()
    } else {
        format!("  REFUSED {:?}, {} unanswered", round.refused, round.unanswered)
    };
    format!(
        "  {condition:<15} {:<14} {:>7} a CPU second  {:>7}/s  p50 {:.2}  p99 {:.2}  p99.9 {:.2}{offered}{failed}",
        span.procedure.name(),
        short(span.per_cpu_second()),
        short(span.per_second()),
        ms(delays.p50),
        ms(delays.p99),
        ms(delays.p999)
    )
}

fn latency_line(name: &str, point: &super::latency::Point) -> String {
    let us = |nanos: u64| nanos as f64 / 1_000.0;
    let delays = point.trial.delays;
    let void = point
        .void
        .as_ref()
        .map_or(String::new(), |why| format!("  void: {why}"));
    format!(
        "  {name:<7} {:>4}%  {:>6} Mpps  lost {:.4}%  p50 {:.1} us  p99 {:.1}  p99.9 {:.1}{void}",
        point.load,
        short(point.trial.rate / 1e6),
        point.loss * 100.0,
        us(delays.p50),
        us(delays.p99),
        us(delays.p999)
    )
}

/// What became of Echo Requests among too many packets, in a line.
fn overload_line(overload: &super::latency::Overload) -> String {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let echoed = overload.echoed;
    format!(
        "  {:.1} times what the worker can do, {} may wait: forwards {:.2} of {:.2} Mpps, answers {} of {} echoes, p50 {:.3} ms  p99.9 {:.3}",
        overload.factor(),
        overload.backlog,
        overload.trial.received as f64 / overload.trial.generator.wall_nanos.max(1) as f64 * 1e3,
        overload.trial.rate / 1e6,
        echoed.answered,
        echoed.asked,
        ms(echoed.delays.p50),
        ms(echoed.delays.p999)
    )
}

/// One figure in a line.
fn line(point: &Point) -> String {
    let figure = &point.figure;
    let ratio = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.1}"));
    let sound = if figure.is_sound() {
        String::new()
    } else {
        format!("  VOID: {}", figure.checked.fault())
    };
    format!(
        "  {:<24} {:>6.1} ns ({:.1} to {:.1})  {:>6} Mpps  {:>4}x sketch {:>4}x lookup {:>4}x line budget  port {:.1} ns{sound}",
        figure.name,
        figure.net_nanos.median,
        figure.net_nanos.min,
        figure.net_nanos.max,
        short(figure.mpps.median),
        ratio(point.sketch_ratio),
        ratio(point.lookup_ratio),
        ratio(point.line_budget_ratio),
        figure.null.nanos_per_packet,
    )
}

/// The table of a worker's stages in a measurement.
#[must_use]
pub fn stage_table(figure: &Figure) -> Vec<String> {
    let mut lines = vec![format!(
        "  {:<8} {:>12} {:>14} {:>14} {:>14}",
        "stage", "calls", "packets", "cycles/packet", "packets/call"
    )];
    let rx = figure.counted.rx.max(1) as f64;
    // Making frames happens inside the stage `rx`.
    let port: u64 = figure.runs.iter().map(|run| run.port_ticks).sum();
    for stage in &figure.counted.stages {
        let own = if stage.stage == "rx" {
            stage.cycles.saturating_sub(port)
        } else {
            stage.cycles
        };
        lines.push(format!(
            "  {:<8} {:>12} {:>14} {:>14.1} {:>14.1}",
            stage.stage,
            stage.calls,
            stage.packets,
            own as f64 / rx,
            stage.packets as f64 / stage.calls.max(1) as f64
        ));
    }
    lines.push(format!(
        "  ticks at {:.2} GHz; of all packets, also where a stage saw few",
        ticks_per_second() / 1e9
    ));
    lines
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
