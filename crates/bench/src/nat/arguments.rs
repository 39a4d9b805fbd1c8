//! Sizes of a run.

use clap::Args;
use nat::pools::UnsolicitedPolicy;

/// Sizes of a run of `sluice bench nat`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// PDU sessions, each with a block of ports; fewer where there is less memory.
    #[arg(long, default_value_t = 131_072, value_parser = clap::value_parser!(u32).range(2..=262_144))]
    pub sessions: u32,
    /// Mappings of each session: ports that its UE sends from by UDP.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=128))]
    pub mappings: u32,
    /// A block of ports has 2 to the power of this.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u8).range(5..=9))]
    pub block_bits: u8,
    /// Pairs of runs of each comparison, with NAT and without.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=101))]
    pub pairs: u32,
    /// Runs of each kind of set-up, in turn; each fills empty tables.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=31))]
    pub fills: u32,
    /// Unsolicited packets are as all others; else, as by default, mappings keep the addresses that they have sent to.
    #[arg(long)]
    pub as_others: bool,
    /// Only the parts whose names have this in them, such as tunnel.
    #[arg(long, default_value = "")]
    pub only: String,
    /// Seconds of each run.
    #[arg(skip = 1.0)]
    pub seconds: f64,
}

impl Arguments {
    /// As they are, or those of a quick look.
    #[must_use]
    pub fn sized(mut self, quick: bool, seconds: Option<f64>) -> Self {
        if quick {
            self.sessions = self.sessions.min(8_192);
            self.pairs = self.pairs.min(3);
            self.fills = self.fills.min(2);
            self.seconds = 0.3;
        }
        self.seconds = seconds.unwrap_or(self.seconds);
        // A session has one block, in which its mappings have room.
        self.mappings = self.mappings.min(1 << self.block_bits);
        self
    }

    /// What becomes of unsolicited packets. There are none.
    #[must_use]
    pub fn unsolicited(&self) -> UnsolicitedPolicy {
        match self.as_others {
            true => UnsolicitedPolicy::AS_OTHERS,
            false => UnsolicitedPolicy::default(),
        }
    }

    /// Mappings of all sessions.
    #[must_use]
    pub const fn all_mappings(&self) -> u32 {
        self.sessions * self.mappings
    }

    /// Whether a part is asked for.
    #[must_use]
    pub fn wants(&self, part: &str) -> bool {
        part.contains(&self.only)
    }
}
