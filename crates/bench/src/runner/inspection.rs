//! Inspection and billing by hosts: a command of its own, since it takes long.

use super::super::error::BenchError;
use super::super::inspection::{self, Arguments};
use super::super::progress::Progress;
use super::super::results::Results;
use super::super::verdict;

/// Measures inspection, prints what was found, and gives the results with their targets.
///
/// # Errors
/// As [`inspection::measure`].
pub fn run_inspection(
    arguments: &Arguments,
    quick: bool,
    progress: &Progress,
) -> Result<Results, BenchError> {
    let mut results = Results::new(quick);
    progress.print(results.machine.line());
    let measured = inspection::measure(arguments, progress)?;
    for line in inspection::lines(&measured) {
        progress.print(line);
    }
    results.inspection = Some(measured);
    results.targets = verdict::targets(&results);
    Ok(results)
}
