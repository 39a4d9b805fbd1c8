//! Reading the file, and all checks.

use std::path::Path;

use crate::error::ConfigError;
use crate::schema::Config;
use crate::{bounded_file, parts};

/// Octets of a configuration, at most.
const LONGEST: u64 = 16 << 20;

impl Config {
    /// Reads and checks the file at `path`, of 16 MiB at most.
    ///
    /// # Errors
    /// The file cannot be read, or [`Config::parse`] refuses it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&Self::read(path)?, &path.display().to_string())
    }

    /// The text of the file at `path`, of 16 MiB at most.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> Result<String, ConfigError> {
        let octets =
            bounded_file::read(path, LONGEST).map_err(|error| ConfigError::unreadable(path, &error))?;
        String::from_utf8(octets).map_err(|error| ConfigError::unreadable(path, &error.utf8_error()))
    }

    /// Reads and checks `text`, and the files of its domain lists; `file` names it in errors.
    ///
    /// # Errors
    /// Syntax, an unknown field, a value outside its bound, a dangling reference: with file, line and column.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        let mut config: Self =
            serde_saphyr::from_str(text).map_err(|error| ConfigError::syntax(file, &error))?;
        config.read_lists = parts::domain_lists::read(&config).map_err(|fault| fault.at(file, text))?;
        let checked = parts::network::check(&config)
            .and_then(|()| parts::host::check(&config))
            .and_then(|()| parts::idle::check(&config))
            .and_then(|()| parts::pools::check(&config))
            .and_then(|()| parts::policy::check(&config))
            .and_then(|()| parts::policer::check(&config))
            .and_then(|()| parts::access_list::check(&config))
            .and_then(|()| parts::events::check(&config))
            .and_then(|()| parts::predefined::check(&config))
            .and_then(|()| parts::records::check(&config))
            .and_then(|()| parts::store::check(&config))
            .and_then(|()| parts::control::check(&config))
            .and_then(|()| parts::alarms::check(&config));
        checked.map_err(|fault| fault.at(file, text))?;
        Ok(config)
    }
}
