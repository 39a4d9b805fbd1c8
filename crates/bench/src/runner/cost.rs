//! What a thing costs: two worlds, with it and without it, measured in turn, so that what else the machine does meets
//! both alike. The cost is the median of the pairs' differences.

use super::super::clock::Spread;
use super::super::model::Model;
use super::super::network::Wire;
use super::super::results::{CostInTurn, Point, PolicyCost};
use super::super::selffed::{Effort, Figure};
use super::super::world::{BenchError, Setting, World};
use super::Runner;

/// Pairs of runs.
const PAIRS: usize = 9;

/// One of the two.
struct Side {
    name: String,
    model: Model,
    world: World,
}

/// The runs of a pair, with and without.
type Pair = [Figure; 2];

impl Runner<'_> {
    pub(super) fn costs(&mut self) -> Result<(), BenchError> {
        self.policies()?;
        self.stage_clock()
    }

    fn policies(&mut self) -> Result<(), BenchError> {
        self.heading("QER and URR against none");
        for (with, without) in self.plan.policies() {
            let name = format!("model {}", with.name);
            let (Some(on), Some(off)) = (
                self.policy_side(format!("{name}, QER and URR"), with)?,
                self.policy_side(format!("{name}, neither"), without)?,
            ) else {
                continue;
            };
            self.floor_of(&with)?;
            let (pairs, [with_point, without_point]) = self.pairs([on, off])?;
            let nanos = Spread::of(
                pairs
                    .iter()
                    .map(|[on, off]| on.round_nanos - off.round_nanos)
                    .collect(),
            );
            self.progress.print(format!(
                "  {name}: QER and URR cost {:.1} ns a packet ({:.1} to {:.1})",
                nanos.median, nanos.min, nanos.max
            ));
            self.results.policies.push(PolicyCost {
                model: with.name,
                nanos,
                with: with_point,
                without: without_point,
            });
        }
        Ok(())
    }

    fn policy_side(&mut self, name: String, model: Model) -> Result<Option<Side>, BenchError> {
        let made = self.world(&name, model)?;
        Ok(made.map(|(world, model)| Side { name, model, world }))
    }

    fn stage_clock(&mut self) -> Result<(), BenchError> {
        self.heading("the stages' accounting, on and off");
        self.progress.stage("accounting");
        let sides = [
            self.clock_side("counting", true)?,
            self.clock_side("not counting", false)?,
        ];
        let cost = self.in_turn(sides)?;
        self.progress.print(format!(
            "  cost {:.1}% ({:.1}% to {:.1}%; bound 2%)",
            cost.share() * 100.0,
            (cost.ratio.min - 1.0) * 100.0,
            (cost.ratio.max - 1.0) * 100.0
        ));
        self.results.stage_clock = Some(cost);
        Ok(())
    }

    /// T1 with N3 and N6 on VLANs of one LAG, against a port each without VLANs.
    pub(super) fn links(&mut self) -> Result<(), BenchError> {
        let Some(model) = self.plan.t1() else {
            return Ok(());
        };
        self.heading("T1 on VLANs of a LAG, and on two ports without either");
        let mut sides = Vec::new();
        for (name, wire) in [("VLANs on a LAG", Wire::Bundle), ("neither", Wire::Plain)] {
            if !self.fits(&format!("T1.links, {name}"), &model) {
                return Ok(());
            }
            self.progress.stage(name);
            let setting = Setting {
                wire,
                ..Setting::new(model)
            };
            let mut world = World::new(setting, self.progress)?;
            world.install_flows(0, model.flows(), self.progress)?;
            let name = format!("T1, {name}");
            sides.push(Side { name, model, world });
        }
        let sides = <[Side; 2]>::try_from(sides).map_err(|_| BenchError("two sides".into()))?;
        let cost = self.in_turn(sides)?;
        self.progress.print(format!(
            "  {:.3} of the rate without ({:.3} to {:.3}; bound 0.97)",
            cost.kept(),
            1.0 / cost.ratio.max,
            1.0 / cost.ratio.min
        ));
        self.results.links = Some(cost);
        Ok(())
    }

    fn in_turn(&mut self, sides: [Side; 2]) -> Result<CostInTurn, BenchError> {
        let (pairs, [with, without]) = self.pairs(sides)?;
        let ratio = pairs
            .iter()
            .map(|[on, off]| on.round_nanos / off.round_nanos.max(0.001));
        Ok(CostInTurn {
            ratio: Spread::of(ratio.collect()),
            with,
            without,
        })
    }

    fn clock_side(&self, name: &str, stage_clock: bool) -> Result<Side, BenchError> {
        let model = Model::open();
        let setting = Setting {
            stage_clock,
            ..Setting::new(model)
        };
        let mut world = World::new(setting, self.progress)?;
        world.install_flows(0, model.flows(), self.progress)?;
        let name = name.to_owned();
        Ok(Side { name, model, world })
    }

    /// Runs both in turn; the last pair as points.
    fn pairs(&mut self, mut sides: [Side; 2]) -> Result<(Vec<Pair>, [Point; 2]), BenchError> {
        let effort = Effort {
            runs: 1,
            ..self.plan.sweep
        };
        let mut pairs = Vec::with_capacity(PAIRS);
        for _ in 0..PAIRS {
            let [on, off] = &mut sides;
            pairs.push([self.side(on, effort)?, self.side(off, effort)?]);
        }
        let [on, off] = &sides;
        let points = pairs.last().map(|[with, without]| {
            [
                self.point(with.clone(), &on.model),
                self.point(without.clone(), &off.model),
            ]
        });
        let points = points.ok_or_else(|| BenchError("no pair of runs".into()))?;
        Ok((pairs, points))
    }

    fn side(&self, side: &mut Side, effort: Effort) -> Result<Figure, BenchError> {
        self.figure(&mut side.world, &side.name, &side.model, effort)
    }
}
