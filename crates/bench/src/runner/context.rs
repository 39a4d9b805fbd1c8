//! State of a run: the plan, the progress, the results so far.

use super::super::error::BenchError;
use super::super::floors::Floors;
use super::super::load::Load;
use super::super::model::Model;
use super::super::plan::{Plan, fits};
use super::super::progress::Progress;
use super::super::results::{Point, Results};
use super::super::selffed::{Effort, Figure, measure};
use super::super::settings::Setting;
use super::super::settings::{self, Difference};
use super::super::world::World;
use super::lines::line;

/// A run of the benchmarks.
pub(super) struct Runner<'a> {
    pub(super) plan: &'a Plan,
    pub(super) progress: &'a Progress,
    pub(super) results: &'a mut Results,
    /// The settings that were printed last.
    pub(super) said: Option<Vec<Difference>>,
}

impl Runner<'_> {
    /// Whether there is memory for a model; if not, `what` is entered as left out.
    pub(super) fn fits(&mut self, what: &str, model: &Model) -> bool {
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

    /// Keeps the settings of a figure or a part that differ from the daemon's defaults, and prints them where they
    /// differ from those of the figure before.
    pub(super) fn say(&mut self, name: &str, differences: Vec<Difference>) {
        if self.said.as_ref() != Some(&differences) {
            self.progress
                .print(format!("    {}", settings::line(&differences)));
        }
        self.said = Some(differences.clone());
        self.results.settings.insert(name.to_owned(), differences);
    }

    pub(super) fn heading(&self, text: &str) {
        self.progress.print(format!("\n{text}"));
    }

    /// Measures the floors of a model's size, once.
    pub(super) fn floor_of(&mut self, model: &Model) -> Result<(), BenchError> {
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
    pub(super) fn point(&mut self, figure: Figure, model: &Model) -> Point {
        let floors = self.results.floors_of(model.entries(), model.active);
        let point = Point::new(figure, floors);
        self.progress.print(line(&point));
        self.say(&point.figure.name, point.figure.settings.clone());
        point
    }

    /// A world with its flows, if there is memory.
    pub(super) fn world(&mut self, name: &str, model: Model) -> Result<Option<World>, BenchError> {
        if !self.fits(name, &model) {
            return Ok(None);
        }
        self.progress.stage(name);
        let mut world = World::new(Setting::new(model), self.progress)?;
        world.install_flows(0, model.flows(), self.progress)?;
        Ok(Some(world))
    }

    pub(super) fn figure(
        &self,
        world: &mut World,
        name: &str,
        model: &Model,
        effort: Effort,
    ) -> Result<Figure, BenchError> {
        let load = Load::saturated(model, model.flows());
        measure(world, name, load, effort, self.progress)
    }

    pub(super) fn measure_into(
        &mut self,
        world: &mut World,
        name: &str,
        model: Model,
    ) -> Result<(), BenchError> {
        let figure = self.figure(world, name, &model, self.plan.effort)?;
        let point = self.point(figure, &model);
        self.results.throughput.push(point);
        Ok(())
    }

    /// The sum over all sessions' URRs must be the packets that were sent, as often as each is counted.
    pub(super) fn check_urrs(&mut self, world: &mut World) -> Result<(), BenchError> {
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
}
