//! Cost of a function: two worlds, with the function and without, are measured in turn, so that other work of the
//! machine disturbs both alike. The cost is the median of the pairs' differences.

use super::super::clock::Spread;
use super::super::error::BenchError;
use super::super::model::{Model, Policy};
use super::super::network::Wire;
use super::super::point_names;
use super::super::results::{CostInTurn, Point, PolicyCost};
use super::super::selffed::{Effort, Figure};
use super::super::settings::Setting;
use super::super::world::World;
use super::context::Runner;

/// Pairs of runs.
const PAIRS: usize = 9;

/// One of the two.
struct Side {
    name: String,
    model: Model,
    world: World,
}

/// Pairs of runs, with and without.
struct Pairs {
    runs: Vec<[Figure; 2]>,
    /// The last pair as points.
    last: [Point; 2],
}

pub(super) fn costs(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    policies(runner)?;
    stage_clock(runner)
}

fn policies(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    runner.heading("QER and URR against none");
    for with in runner.plan.policies() {
        let without = with.with_policy(Policy::BARE);
        let name = format!("model {}", with.name);
        let (Some(on), Some(off)) = (
            policy_side(runner, point_names::with_policy(&with), with)?,
            policy_side(runner, point_names::without_policy(&with), without)?,
        ) else {
            continue;
        };
        runner.floor_of(&with)?;
        let Pairs { runs, last } = pairs(runner, [on, off])?;
        let nanos = runs.iter().map(|[on, off]| on.round_nanos - off.round_nanos);
        let nanos = Spread::of(nanos.collect());
        let [with_point, without_point] = last;
        runner.progress.print(format!(
            "  {name}: QER and URR cost {:.1} ns a packet ({:.1} to {:.1})",
            nanos.median, nanos.min, nanos.max
        ));
        runner.results.policies.push(PolicyCost {
            model: with.name,
            nanos,
            with: with_point,
            without: without_point,
        });
    }
    Ok(())
}

fn policy_side(runner: &mut Runner<'_>, name: String, model: Model) -> Result<Option<Side>, BenchError> {
    let made = runner.world(&name, model)?;
    Ok(made.map(|world| Side { name, model, world }))
}

fn stage_clock(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    runner.heading("the stages' accounting, on and off");
    runner.progress.stage("accounting");
    let sides = [
        clock_side(runner, "counting", true)?,
        clock_side(runner, "not counting", false)?,
    ];
    let cost = in_turn(runner, sides)?;
    runner.progress.print(format!(
        "  cost {:.1}% ({:.1}% to {:.1}%; bound 2%)",
        cost.share() * 100.0,
        (cost.ratio.min - 1.0) * 100.0,
        (cost.ratio.max - 1.0) * 100.0
    ));
    runner.results.stage_clock = Some(cost);
    Ok(())
}

/// T1 with N3 and N6 on VLANs of one LAG, against a port each without VLANs.
pub(super) fn links(runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let Some(model) = runner.plan.t1() else {
        return Ok(());
    };
    runner.heading("T1 on VLANs of a LAG, and on two ports without either");
    let mut sides = Vec::new();
    for (name, wire) in [("VLANs on a LAG", Wire::Bundle), ("neither", Wire::Plain)] {
        if !runner.fits(&format!("T1.links, {name}"), &model) {
            return Ok(());
        }
        runner.progress.stage(name);
        let setting = Setting {
            wire,
            ..Setting::new(model)
        };
        let mut world = World::new(setting, runner.progress)?;
        world.install_flows(0, model.flows(), runner.progress)?;
        let name = format!("T1, {name}");
        sides.push(Side { name, model, world });
    }
    let sides = <[Side; 2]>::try_from(sides).map_err(|_| BenchError("two sides".into()))?;
    let cost = in_turn(runner, sides)?;
    runner.progress.print(format!(
        "  {:.3} of the rate without ({:.3} to {:.3}; bound 0.97)",
        cost.kept(),
        1.0 / cost.ratio.max,
        1.0 / cost.ratio.min
    ));
    runner.results.links = Some(cost);
    Ok(())
}

fn in_turn(runner: &mut Runner<'_>, sides: [Side; 2]) -> Result<CostInTurn, BenchError> {
    let Pairs {
        runs,
        last: [with, without],
    } = pairs(runner, sides)?;
    let ratio = runs
        .iter()
        .map(|[on, off]| on.round_nanos / off.round_nanos.max(0.001));
    Ok(CostInTurn {
        ratio: Spread::of(ratio.collect()),
        with,
        without,
    })
}

fn clock_side(runner: &Runner<'_>, name: &str, stage_clock: bool) -> Result<Side, BenchError> {
    let model = Model::open();
    let setting = Setting {
        stage_clock,
        ..Setting::new(model)
    };
    let mut world = World::new(setting, runner.progress)?;
    world.install_flows(0, model.flows(), runner.progress)?;
    let name = name.to_owned();
    Ok(Side { name, model, world })
}

/// Runs both in turn.
fn pairs(runner: &mut Runner<'_>, mut sides: [Side; 2]) -> Result<Pairs, BenchError> {
    let effort = Effort {
        runs: 1,
        ..runner.plan.sweep
    };
    let mut runs = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        let [on, off] = &mut sides;
        runs.push([side(runner, on, effort)?, side(runner, off, effort)?]);
    }
    let [on, off] = &sides;
    let last = runs.last().map(|[with, without]| {
        [
            runner.point(with.clone(), &on.model),
            runner.point(without.clone(), &off.model),
        ]
    });
    let last = last.ok_or_else(|| BenchError("no pair of runs".into()))?;
    Ok(Pairs { runs, last })
}

fn side(runner: &Runner<'_>, side: &mut Side, effort: Effort) -> Result<Figure, BenchError> {
    runner.figure(&mut side.world, &side.name, &side.model, effort)
}
