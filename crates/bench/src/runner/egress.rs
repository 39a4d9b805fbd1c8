//! The egress traffic manager: a command of its own.

use super::super::egress::{self, Arguments};
use super::super::error::BenchError;
use super::super::progress::Progress;
use super::super::results::Results;
use super::super::verdict;

/// Measures the traffic manager, prints what was found, and gives the results with their targets.
///
/// # Errors
/// As [`egress::measure`].
pub fn run_egress(arguments: &Arguments, quick: bool, progress: &Progress) -> Result<Results, BenchError> {
    let mut results = Results::new(quick);
    progress.print(results.machine.line());
    let measured = egress::measure(super::eal()?, arguments, progress)?;
    for line in egress::lines(&measured) {
        progress.print(line);
    }
    results.egress = Some(measured);
    results.targets = verdict::targets(&results);
    Ok(results)
}
