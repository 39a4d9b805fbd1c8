//! CG-NAT: a command of its own, since it takes long.

use super::super::error::BenchError;
use super::super::nat::{self, Arguments};
use super::super::progress::Progress;
use super::super::results::Results;
use super::super::verdict;

/// Measures CG-NAT, prints what was found, and gives the results with their targets.
///
/// # Errors
/// As [`nat::measure`].
pub fn run_nat(arguments: &Arguments, quick: bool, progress: &Progress) -> Result<Results, BenchError> {
    let mut results = Results::new(quick);
    progress.print(results.machine.line());
    let measured = nat::measure(arguments, progress)?;
    for line in nat::lines(&measured) {
        progress.print(line);
    }
    results.nat = Some(measured);
    results.targets = verdict::targets(&results);
    Ok(results)
}
