//! The programs that `sluice` offers, one module each; `main` only reads arguments.

mod bench;
mod check;
mod conditions;
mod demo;
mod log;
mod mirror;
mod records;
mod run;
mod sessions;
mod show;
mod sim;
mod trace;

pub use bench::{BenchArguments, bench};
pub use check::{check, explain};
pub use demo::demo;
pub use log::{LogArguments, log};
pub use mirror::{MirrorArguments, mirror};
pub use records::{RecordsArguments, records};
pub use run::run;
pub use sessions::{SessionsArguments, sessions};
pub use show::{ShowArguments, show};
pub use sim::{SimArguments, sim};
pub use trace::{TraceArguments, trace};

/// Exit status for a configuration with a mistake.
const CONFIGURATION_ERROR: u8 = 2;
/// Exit status for what fails while a program runs.
const RUN_ERROR: u8 = 1;
