//! Sizes of a run.

use clap::Args;

/// Sessions of the model.
pub const SESSIONS: u32 = 600_000;
/// Those with traffic.
pub(super) const ACTIVE: u32 = 6_000;

/// Sizes of a run of `sluice bench inspection`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// PDU sessions.
    #[arg(long, default_value_t = SESSIONS, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub sessions: u32,
    /// Those with traffic.
    #[arg(long, default_value_t = ACTIVE, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub active: u32,
    /// Pairs of runs of each comparison, with rules and without.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=101))]
    pub pairs: u32,
    /// Only the comparisons whose names have this in them, such as UDP.
    #[arg(long, default_value = "")]
    pub only: String,
    /// Seconds of each run.
    #[arg(skip = 2.0)]
    pub seconds: f64,
}

impl Arguments {
    /// As they are, or those of a quick look.
    #[must_use]
    pub fn sized(mut self, quick: bool, seconds: Option<f64>) -> Self {
        if quick {
            self.sessions = self.sessions.min(20_000);
            self.active = self.active.min(2_000);
            self.pairs = self.pairs.min(3);
            self.seconds = 0.4;
        }
        self.seconds = seconds.unwrap_or(self.seconds);
        self.active = self.active.min(self.sessions);
        self
    }
}
