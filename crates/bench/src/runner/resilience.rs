//! The store of sessions: a command of its own, since it needs root.

use super::super::error::BenchError;
use super::super::progress::Progress;
use super::super::resilience::{self, Arguments};
use super::super::results::Results;
use super::super::verdict;

/// Measures the store of sessions, prints what was found, and gives the results with their targets.
///
/// # Errors
/// As [`resilience::measure`].
pub fn run_resilience(
    arguments: &Arguments,
    quick: bool,
    progress: &Progress,
) -> Result<Results, BenchError> {
    let mut results = Results::new(quick);
    progress.print(results.machine.line());
    let measured = resilience::measure(arguments, progress)?;
    for line in resilience::lines(&measured) {
        progress.print(line);
    }
    let differences = resilience::differences(arguments);
    results.settings.insert("resilience".into(), differences);
    results.resilience = Some(measured);
    results.targets = verdict::targets(&results);
    Ok(results)
}
