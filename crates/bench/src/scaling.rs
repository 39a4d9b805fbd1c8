//! Scaling (T11): N self-fed workers on N threads against one, each with sessions and tables of its own.
//!
//! On the same cores the sketch floor runs at the same time N times, too: what it loses the machine takes, whose cores
//! share a clock, caches, memory, or are two threads of one core. Sketches share nothing.

use std::sync::Barrier;
use std::thread;

use serde::Serialize;

use super::clock::Spread;
use super::error::BenchError;
use super::floors::{BuiltSketch, FloorFigure};
use super::load::Load;
use super::model::Model;
use super::progress::Progress;
use super::selffed::{Effort, Figure, measure};
use super::settings::{Setting, WorkerOf};
use super::world::World;

/// Figures of several workers that ran at the same time.
#[derive(Clone, Debug, Serialize)]
pub struct Scaling {
    /// Workers, each on a thread of its own.
    pub workers: u16,
    /// Each worker's figure.
    pub figures: Vec<Figure>,
    /// The sketch floor on each of these cores, all at the same time, of as many flows and sessions.
    pub sketches: Vec<FloorFigure>,
}

impl Scaling {
    /// Million packets a second of all workers together.
    #[must_use]
    pub fn mpps(&self) -> f64 {
        self.figures.iter().map(|figure| figure.mpps.median).sum()
    }

    /// Million packets a second of all sketches together.
    #[must_use]
    pub fn sketch_mpps(&self) -> f64 {
        self.sketches
            .iter()
            .map(|sketch| 1_000.0 / sketch.round.median)
            .sum()
    }

    /// The slowest and the fastest worker.
    #[must_use]
    pub fn spread(&self) -> Spread {
        Spread::of(self.figures.iter().map(|figure| figure.mpps.median).collect())
    }
}

/// Measures `workers` workers at the same time, each with `model` to itself. Each runs worker selection as one of `of`
/// workers, so that one alone and several do the same work for a packet.
///
/// # Errors
/// The first worker's error.
pub fn scaling(
    model: Model,
    workers: u16,
    of: u16,
    effort: Effort,
    progress: &Progress,
) -> Result<Scaling, BenchError> {
    progress.begin("workers", 1);
    let barrier = Barrier::new(workers.into());
    let one = |id: u16| -> Result<(Figure, FloorFigure), BenchError> {
        let _pinned = dpdk::pin_current_thread(id.into());
        let silent = Progress::silent();
        let setting = Setting {
            worker: WorkerOf { id, workers: of },
            ..Setting::new(model)
        };
        let world = World::new(setting, &silent).and_then(|mut world| {
            world.install_flows(0, model.flows(), &silent)?;
            Ok(world)
        });
        // Every thread gets here, so that none waits for ever.
        barrier.wait();
        let load = Load::saturated(&model, model.flows());
        let name = format!("worker {id} of {workers}");
        let figure = world.and_then(|mut world| measure(&mut world, name, load, effort, &silent));
        // While any worker is measured, no sketch is made.
        barrier.wait();
        let sketch = BuiltSketch::new(model.flows(), model.sessions);
        barrier.wait();
        let sketch = sketch.map(|mut sketch| sketch.measure(effort.seconds));
        Ok((figure?, sketch?))
    };
    let measured: Result<Vec<_>, BenchError> = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|id| scope.spawn(move || one(id))).collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .map_err(|_| BenchError("a worker's thread panicked".into()))?
            })
            .collect()
    });
    let (figures, sketches) = measured?.into_iter().unzip();
    Ok(Scaling {
        workers,
        figures,
        sketches,
    })
}
