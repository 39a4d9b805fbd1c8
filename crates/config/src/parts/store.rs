//! The store of sessions: checks.

use crate::error::Fault;
use crate::schema::Config;

/// Finds what contradicts something.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let Some(store) = &config.store else {
        return Ok(());
    };
    let directory = &store.directory;
    if !directory.value.is_absolute() {
        let message = format!(
            "store.directory: `{}` is no absolute path",
            directory.value.display()
        );
        return Err(Fault::new(directory, message));
    }
    let of_records = config.records.as_ref().map(|records| &records.directory.value);
    if of_records == Some(&directory.value) {
        let message = "store.directory: usage records have this directory (records.directory)".to_owned();
        return Err(Fault::new(directory, message));
    }
    Ok(())
}
