//! Usage records: checks.

use crate::error::Fault;
use crate::schema::Config;

/// Finds what contradicts something.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let Some(records) = &config.records else {
        return Ok(());
    };
    let directory = &records.directory;
    if directory.value.is_absolute() {
        return Ok(());
    }
    let message = format!(
        "records.directory: `{}` is no absolute path",
        directory.value.display()
    );
    Err(Fault::new(directory, message))
}
