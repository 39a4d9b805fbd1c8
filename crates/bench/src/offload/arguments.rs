//! Sizes of a run.

use clap::Args;

/// Sizes of a run of `sluice bench offload`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// PDU sessions, all of which leave for the accelerator; fewer where there is less memory.
    #[arg(long, default_value_t = 131_072, value_parser = clap::value_parser!(u32).range(64..=262_144))]
    pub sessions: u32,
    /// Flows of each session, uplink and downlink in turn.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(8..=256))]
    pub flows: u32,
    /// New flows a second beside established ones.
    #[arg(long, default_value_t = 450_000, value_parser = clap::value_parser!(u32).range(1_000..=5_000_000))]
    pub rate: u32,
    /// Pairs of runs with new flows and without.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=101))]
    pub pairs: u32,
    /// Ends of the accelerator's process, one after the other.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=101))]
    pub ends: u32,
    /// Sessions of the parts that lose control frames or the accelerator, at most.
    #[arg(skip = 8_192_u32)]
    pub few: u32,
    /// Seconds of each run.
    #[arg(skip = 0.3)]
    pub seconds: f64,
}

impl Arguments {
    /// As they are, or those of a quick look.
    #[must_use]
    pub fn sized(mut self, quick: bool, seconds: Option<f64>) -> Self {
        if quick {
            self.sessions = self.sessions.min(8_192);
            (self.pairs, self.ends) = (self.pairs.min(3), self.ends.min(3));
            (self.few, self.seconds) = (1_024, 0.05);
        }
        self.seconds = seconds.unwrap_or(self.seconds);
        // Each has an uplink and a downlink flow.
        self.flows &= !1;
        self
    }

    /// Flows of all sessions.
    #[must_use]
    pub const fn all_flows(&self) -> u32 {
        self.sessions * self.flows
    }
}
