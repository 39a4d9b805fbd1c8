//! What is measured.

use std::path::PathBuf;

use clap::Args;

use super::super::clock::available_memory;
use super::super::machine::cores;
use super::super::pfcp::WINDOW;

/// Octets of memory for each session, of the daemon, the page cache and this process, generously.
const SESSION_OCTETS: u64 = 16_000;

/// What is measured.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Sessions of the daemon that is killed.
    #[arg(long, default_value_t = 600_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub sessions: u32,
    /// Sessions with traffic, of those.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub active: u32,
    /// Packets of 100 octets a second, of all of them together, both ways.
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    pub rate: u32,
    /// Seconds between checkpoints (`store.checkpoint_s`).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60))]
    pub checkpoint_s: u32,
    /// How often the daemon is killed.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub kills: u32,
    /// Pairs of spans of establishments, with a store and without; 0: none.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(0..=101))]
    pub pairs: u32,
    /// Establishments in each of these spans.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub span: u32,
    /// Requests of these spans that wait for their responses at a time. With a store each waits for one or two syncs. A
    /// socket of the daemon has room for some 160.
    #[arg(long, default_value_t = WINDOW, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub window: u32,
    /// Where a directory for the stores is made, and removed in the end; the system's for temporary files. It should be
    /// on the disk that the store is to have.
    #[arg(long)]
    pub directory: Option<PathBuf>,
}

impl Arguments {
    /// As they are, or those of a quick look.
    #[must_use]
    pub fn sized(mut self, quick: bool) -> Self {
        if quick {
            self.sessions = self.sessions.min(10_000);
            self.active = self.active.min(1_000);
            self.rate = self.rate.min(10_000);
            self.kills = self.kills.min(1);
            self.pairs = self.pairs.min(3);
            self.span = self.span.min(2_000);
        }
        self.active = self.active.min(self.sessions);
        self
    }

    /// Why it cannot be measured here.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let (needed, there) = (
            u64::from(self.sessions) * SESSION_OCTETS + (1 << 30),
            available_memory(),
        );
        if cores() < 2 {
            return Some("it takes two cores, and there is one".into());
        }
        (needed > there).then(|| {
            let (needed, there) = (needed >> 20, there >> 20);
            format!(
                "{} sessions need some {needed} MiB of memory, there are {there}",
                self.sessions
            )
        })
    }
}
