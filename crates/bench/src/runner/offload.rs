//! An accelerator: a command of its own, since it takes long.

use super::super::error::BenchError;
use super::super::offload::{self, Arguments};
use super::super::progress::Progress;
use super::super::results::Results;
use super::super::verdict;

/// Measures an accelerator, prints what was found, and gives the results with their targets.
///
/// # Errors
/// As [`offload::measure`].
pub fn run_offload(arguments: &Arguments, quick: bool, progress: &Progress) -> Result<Results, BenchError> {
    let mut results = Results::new(quick);
    progress.print(results.machine.line());
    let measured = offload::measure(super::eal()?, arguments, progress)?;
    for line in offload::lines(&measured) {
        progress.print(line);
    }
    results.offload = Some(measured);
    results.targets = verdict::targets(&results);
    Ok(results)
}
