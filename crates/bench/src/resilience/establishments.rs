//! Establishments of a daemon with a store, and of one without: short spans in turn, so that what the machine does
//! meanwhile meets both.

use std::ops::Range;

use serde::Serialize;

use super::super::clock::Spread;
use super::super::error::BenchError;
use super::super::pfcp::{Generator, Procedure, Round};
use super::super::progress::Progress;
use super::super::twocore::Delays;
use super::arguments::Arguments;
use super::daemon::{self, Daemon, DaemonConfig};
use super::links::Links;
use super::smfs::{generator, request_all, turned_away};
use super::work_directory::WorkDirectory;

/// Sessions that stay, of each daemon.
const STAY: u32 = 20_000;

/// One span.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Rate {
    /// Establishments a second by the clock on the wall.
    pub per_second: f64,
    /// Establishments for each second of processor time of control's thread.
    pub per_cpu_second: f64,
    /// Requests that met an overload (cause 74), and were sent again.
    pub turned_away: u64,
    /// Response times, of the first requests.
    pub delays: Delays,
}

/// Two spans, one right behind the other.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Pair {
    /// With a store.
    pub with: Rate,
    /// Without.
    pub without: Rate,
}

/// Establishments with a store against those without.
#[derive(Clone, Debug, Serialize)]
pub struct Establishments {
    /// Sessions that stay.
    pub stay: u32,
    /// Establishments of a span.
    pub span: u32,
    /// Requests that wait for their responses at a time.
    pub window: u32,
    /// The pairs in their order.
    pub pairs: Vec<Pair>,
    /// With over without, by the clock on the wall.
    pub ratio: Spread,
    /// With over without, by control's processor time.
    pub cpu_ratio: Spread,
}

/// A daemon with the SMFs of its own.
struct Side<'a> {
    daemon: Daemon,
    generator: Generator,
    arguments: &'a Arguments,
    progress: &'a Progress,
}

impl<'a> Side<'a> {
    fn start(
        number: u8,
        checkpoint_s: Option<u32>,
        (arguments, progress): (&'a Arguments, &'a Progress),
        work: &WorkDirectory,
    ) -> Result<Self, BenchError> {
        let sessions = STAY + arguments.span;
        let (mut generator, n4) = generator(number, sessions)?;
        let config = DaemonConfig {
            links: Links::make(number)?,
            n4,
            sessions,
            checkpoint_s,
        };
        let mut daemon = Daemon::start(&config, &work.path(&format!("daemon-{number}")))?;
        daemon.wait_for(daemon::READY)?;
        generator.associate()?;
        let mut side = Self {
            daemon,
            generator,
            arguments,
            progress,
        };
        side.request(Procedure::Establishment, 0..STAY)?;
        // What comes and goes has come once.
        side.span()?;
        Ok(side)
    }

    fn request(&mut self, procedure: Procedure, sessions: Range<u32>) -> Result<Round, BenchError> {
        let (window, progress) = (self.arguments.window, self.progress);
        request_all(&mut self.generator, procedure, sessions, window, progress)
    }

    /// One span: establishments, which are deleted again.
    fn span(&mut self) -> Result<Rate, BenchError> {
        let sessions = STAY..STAY + self.arguments.span;
        let before = self.daemon.control_nanos();
        let round = self.request(Procedure::Establishment, sessions.clone())?;
        let cpu = self.daemon.control_nanos().saturating_sub(before);
        self.request(Procedure::Deletion, sessions)?;
        let per = |nanos: u64| round.accepted as f64 * 1e9 / nanos.max(1) as f64;
        Ok(Rate {
            per_second: per(round.wall_nanos),
            per_cpu_second: per(cpu),
            turned_away: turned_away(&round),
            delays: round.delays,
        })
    }
}

impl Establishments {
    /// Measures the pairs.
    ///
    /// # Errors
    /// A daemon that does not do its part, errors of sockets and of `ip`.
    pub fn measure(
        arguments: &Arguments,
        work: &WorkDirectory,
        progress: &Progress,
    ) -> Result<Self, BenchError> {
        let of = (arguments, progress);
        let mut with = Side::start(1, Some(arguments.checkpoint_s), of, work)?;
        let mut without = Side::start(2, None, of, work)?;
        progress.begin("pairs", arguments.pairs.into());
        let mut pairs = Vec::new();
        for number in 0..arguments.pairs {
            let mut pair = Pair::default();
            if number % 2 == 0 {
                pair.with = with.span()?;
                pair.without = without.span()?;
            } else {
                pair.without = without.span()?;
                pair.with = with.span()?;
            }
            pairs.push(pair);
        }
        Ok(Self::of(arguments.span, arguments.window, pairs))
    }

    fn of(span: u32, window: u32, pairs: Vec<Pair>) -> Self {
        let ratios = |of: fn(&Rate) -> f64| {
            let one = |pair: &Pair| of(&pair.with) / of(&pair.without).max(1e-9);
            Spread::of(pairs.iter().map(one).collect())
        };
        Self {
            stay: STAY,
            span,
            window,
            ratio: ratios(|rate| rate.per_second),
            cpu_ratio: ratios(|rate| rate.per_cpu_second),
            pairs,
        }
    }

    /// The median of a figure of all pairs, with a store and without.
    #[must_use]
    pub fn medians(&self, of: fn(&Rate) -> f64) -> [f64; 2] {
        let with = self.pairs.iter().map(|pair| of(&pair.with)).collect();
        let without = self.pairs.iter().map(|pair| of(&pair.without)).collect();
        [Spread::of(with).median, Spread::of(without).median]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_the_middle_one_of_the_pairs() {
        let rate = |per_second| Rate {
            per_second,
            per_cpu_second: per_second * 2.0,
            ..Rate::default()
        };
        let pair = |with, without| Pair {
            with: rate(with),
            without: rate(without),
        };
        let all = Establishments::of(10, 64, vec![pair(9.0, 10.0), pair(1.0, 10.0), pair(8.0, 8.0)]);
        assert_eq!(
            (all.ratio.median, all.ratio.min, all.cpu_ratio.max),
            (0.9, 0.1, 1.0)
        );
        assert_eq!(all.medians(|rate| rate.per_second), [8.0, 10.0]);
    }
}
