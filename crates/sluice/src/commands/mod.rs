//! The programs that `sluice` offers, one module each; `main` only reads arguments.

mod check;
mod demo;
mod run;

pub use check::check;
pub use demo::demo;
pub use run::run;

/// Exit status for a configuration with a mistake.
const CONFIGURATION_ERROR: u8 = 2;
/// Exit status for what fails while a program runs.
const RUN_ERROR: u8 = 1;
