//! Reading the file, and all checks.

use std::path::{Path, PathBuf};

use crate::application_files::ApplicationFiles;
use crate::error::{ConfigError, Fault};
use crate::schema::Config;
use crate::{bounded_file, parts};

/// Octets of a configuration, at most.
const LONGEST: u64 = 16 << 20;

impl Config {
    /// Reads and checks the file at `path`, of 16 MiB at most, and the files that it names.
    ///
    /// # Errors
    /// The file cannot be read, or [`Config::parse_in`] refuses it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let folder = Self::folder(path)?;
        let (config, _) = Self::parse_in(&Self::read(path)?, &path.display().to_string(), &folder)?;
        Ok(config)
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

    /// The folder that application files are below: that of the file at `path`; for a link, of what it leads to.
    ///
    /// # Errors
    /// There is no such file.
    pub fn folder(path: &Path) -> Result<PathBuf, ConfigError> {
        let mut path = path
            .canonicalize()
            .map_err(|error| ConfigError::unreadable(path, &error))?;
        path.pop();
        Ok(path)
    }

    /// Reads and checks `text`, which names no application files, and the files of its domain lists; `file` names it in
    /// errors.
    ///
    /// # Errors
    /// Syntax, an unknown field, a value outside its bound, a dangling reference: with file, line and column.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        Self::parse_with(text, file, &ApplicationFiles::default())
    }

    /// Reads and checks `text` with the application files that it names in `folder`, and gives these, too.
    ///
    /// # Errors
    /// As of [`Config::parse`], of each file.
    pub fn parse_in(text: &str, file: &str, folder: &Path) -> Result<(Self, ApplicationFiles), ConfigError> {
        let config = Self::syntax(text, file)?;
        let files = ApplicationFiles::read(&config.predefined.application_files, folder)
            .map_err(|fault| fault.at(file, text))?;
        Ok((config.whole(text, file, &files)?, files))
    }

    /// Reads and checks `text` with application files that were read before.
    ///
    /// # Errors
    /// As of [`Config::parse`], of each file.
    pub fn parse_with(text: &str, file: &str, files: &ApplicationFiles) -> Result<Self, ConfigError> {
        Self::syntax(text, file)?.whole(text, file, files)
    }

    /// Checks as much of `text` as can be without the application files that it names: with any, its syntax alone.
    ///
    /// # Errors
    /// As of [`Config::parse`].
    pub fn check_alone(text: &str, file: &str) -> Result<(), ConfigError> {
        let config = Self::syntax(text, file)?;
        match config.predefined.application_files.is_empty() {
            true => config.whole(text, file, &ApplicationFiles::default()).map(|_| ()),
            false => Ok(()),
        }
    }

    fn syntax(text: &str, file: &str) -> Result<Self, ConfigError> {
        serde_saphyr::from_str(text).map_err(|error| ConfigError::syntax(file, &error))
    }

    /// The same with the applications of `files`, after all checks.
    fn whole(mut self, text: &str, file: &str, files: &ApplicationFiles) -> Result<Self, ConfigError> {
        self.ndpi = parts::inspection::load_ndpi(&self).map_err(|fault| fault.at(file, text))?;
        self.join(text, file, files)?;
        self.read_lists = parts::domain_lists::read(&self).map_err(|fault| fault.at(file, text))?;
        self.check().map_err(|fault| fault.at(file, text))?;
        Ok(self)
    }

    fn check(&self) -> Result<(), Fault> {
        parts::network::check(self)
            .and_then(|()| parts::accelerator::check(self))
            .and_then(|()| parts::egress::check(self))
            .and_then(|()| parts::host::check(self))
            .and_then(|()| parts::idle::check(self))
            .and_then(|()| parts::slice_workers::check(self))
            .and_then(|()| parts::inspection::check(self))
            .and_then(|()| parts::pools::check(self))
            .and_then(|()| parts::policy::check(self))
            .and_then(|()| parts::policer::check(self))
            .and_then(|()| parts::access_list::check(self))
            .and_then(|()| parts::nat::check(self))
            .and_then(|()| parts::events::check(self))
            .and_then(|()| parts::predefined::check(self))
            .and_then(|()| parts::records::check(self))
            .and_then(|()| parts::store::check(self))
            .and_then(|()| parts::control::check(self))
            .and_then(|()| parts::alarms::check(self))
    }
}
