//! Exit statuses.

/// Exit status for a configuration with a mistake.
pub(super) const CONFIGURATION_ERROR: u8 = 2;
/// Exit status for what fails while a program runs.
pub(super) const RUN_ERROR: u8 = 1;
