//! Sizes of a run.

use clap::Args;

/// Queues of the model, two for each session.
pub const QUEUES: u32 = 131_072;

/// Sizes of a run of `sluice bench egress`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Queues, two for each UE: a power of two.
    #[arg(long, default_value_t = QUEUES, value_parser = clap::value_parser!(u32).range(1_024..=131_072))]
    pub queues: u32,
    /// Pairs of runs beside rte_sched, and of a worker with queues and one without.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=101))]
    pub pairs: u32,
    /// UEs whose rates are measured, at most.
    #[arg(skip = 65_536_u32)]
    pub rated: u32,
    /// Seconds of a worker's time over which rates of sessions are taken.
    #[arg(skip = 10.0)]
    pub window: f64,
    /// Seconds of each run.
    #[arg(skip = 1.0)]
    pub seconds: f64,
}

/// The fewest queues that are compared.
pub(super) const FEWEST: u32 = 1_024;

impl Arguments {
    /// As they are, or those of a quick look.
    #[must_use]
    pub fn sized(mut self, quick: bool, seconds: Option<f64>) -> Self {
        self.queues = self.queues.next_power_of_two();
        if quick {
            (self.pairs, self.seconds) = (self.pairs.min(3), 0.1);
            (self.rated, self.window) = (2_048, 2.0);
        }
        self.seconds = seconds.unwrap_or(self.seconds);
        self
    }

    /// The numbers of queues, each once.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u32> {
        let all = self.queues;
        [FEWEST, 65_536]
            .into_iter()
            .filter(move |queues| *queues < all)
            .chain([all])
    }

    /// The numbers of queues that `rte_sched` is measured with as well.
    pub(super) fn compared(&self) -> impl Iterator<Item = u32> {
        let all = self.queues;
        [FEWEST]
            .into_iter()
            .filter(move |queues| *queues < all)
            .chain([all])
    }
}
