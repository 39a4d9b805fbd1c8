//! Files with applications: which of them a configuration names, what they say, and how their applications join those
//! of the configuration itself.
//!
//! The files are the operator's: they are read, and never written. What was read is kept as text, so that a version of
//! the configuration can take effect again when they say something else.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use ndpi::Library;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use crate::bounded_file;
use crate::error::{ConfigError, Fault};
use crate::parts::inspection::check_protocols;
use crate::schema::{ApplicationConfig, Config, FilePattern};

/// Octets of all files at most.
const LONGEST: u64 = 16 << 20;
/// Files at most.
const MOST_FILES: usize = 1_000;

/// The files with applications that a configuration names, as they were read: by their names below its folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct ApplicationFiles(BTreeMap<String, String>);

impl ApplicationFiles {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their names and texts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (&**name, &**text))
    }

    /// The files that the configuration `text` names in `folder`, as they are now.
    ///
    /// # Errors
    /// The configuration cannot be read, or one of the files.
    pub fn beside(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        // Most configurations name none, and need not be read for that.
        if !text.contains("application_files") {
            return Ok(Self::default());
        }
        let names: Names =
            serde_saphyr::from_str(text).map_err(|error| ConfigError::syntax("configuration", &error))?;
        Self::read(&names.predefined.application_files, folder)
            .map_err(|fault| fault.at("configuration", text))
    }

    /// The files of these names in `folder`.
    pub(crate) fn read(patterns: &[Spanned<FilePattern>], folder: &Path) -> Result<Self, Fault> {
        let mut files = Self::default();
        let mut octets = 0;
        for pattern in patterns {
            let fault = |words: String| Fault::new(pattern, format!("application_files: {words}"));
            let names = names(&pattern.value, folder)
                .map_err(|error| fault(format!("`{}`: cannot be read: {error}", pattern.value.text())))?;
            if names.is_empty() {
                return Err(fault(format!(
                    "`{}`: there is no such file",
                    pattern.value.text()
                )));
            }
            for name in names {
                let text = text(&folder.join(&name))
                    .map_err(|error| fault(format!("`{name}`: cannot be read: {error}")))?;
                let is_there = files.0.contains_key(&name);
                octets += if is_there { 0 } else { text.len() as u64 };
                if octets > LONGEST {
                    return Err(fault(format!(
                        "`{name}`: with it the files are longer than {} MiB",
                        LONGEST >> 20
                    )));
                }
                files.0.insert(name, text);
                if files.0.len() > MOST_FILES {
                    return Err(fault(format!("more than {MOST_FILES} files")));
                }
            }
        }
        Ok(files)
    }
}

/// Of a configuration, the names of files alone.
#[derive(Deserialize)]
struct Names {
    #[serde(default)]
    predefined: NamesOfPredefined,
}

#[derive(Default, Deserialize)]
struct NamesOfPredefined {
    #[serde(default)]
    application_files: Vec<Spanned<FilePattern>>,
}

/// The names below `folder` that a pattern stands for; one more than may be, if there are more.
fn names(pattern: &FilePattern, folder: &Path) -> io::Result<Vec<String>> {
    let Some((start, end)) = pattern.around_star() else {
        return Ok(vec![pattern.text().to_owned()]);
    };
    let mut names = Vec::new();
    for entry in folder.join(pattern.folder()).read_dir()? {
        let name = entry?.file_name();
        // No other name ends as one of a file with applications must.
        let Some(name) = name.to_str() else { continue };
        let is_long_enough = name.len() >= start.len() + end.len();
        let is_hidden = name.starts_with('.') && !start.starts_with('.');
        if is_long_enough && !is_hidden && name.starts_with(start) && name.ends_with(end) {
            names.push(format!("{}{name}", pattern.folder()));
        }
        if names.len() > MOST_FILES {
            break;
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn text(path: &Path) -> io::Result<String> {
    // What is no file may have no end, or keep its reader waiting.
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let octets = bounded_file::read(path, LONGEST)?;
    String::from_utf8(octets).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Where something is: a file and a line of it.
type Place<'a> = (&'a str, u64);

impl Config {
    /// Adds the applications of `files` behind its own, which `text` of `file` has, and checks all of them.
    pub(crate) fn join(
        &mut self,
        text: &str,
        file: &str,
        files: &ApplicationFiles,
    ) -> Result<(), ConfigError> {
        if let Some(pattern) = self
            .predefined
            .application_files
            .first()
            .filter(|_| files.is_empty())
        {
            let words = "application_files: there is no folder here that files could be in";
            return Err(Fault::new(pattern, words).at(file, text));
        }
        let mut lists = Vec::new();
        for (name, text) in files.iter() {
            let list: Option<Vec<ApplicationConfig>> =
                serde_saphyr::from_str(text).map_err(|error| ConfigError::syntax(name, &error))?;
            lists.push((name, text, list.unwrap_or_default()));
        }
        let mut places = HashMap::new();
        let library = self.ndpi.as_deref();
        let own = check(&self.predefined.applications, (file, library), &mut places);
        own.map_err(|fault| fault.at(file, text))?;
        for (name, text, list) in &lists {
            check(list, (name, library), &mut places).map_err(|fault| fault.at(name, text))?;
        }
        drop(places);
        let more = lists.into_iter().flat_map(|(_, _, list)| list);
        self.predefined.applications.extend(more);
        Ok(())
    }
}

/// Finds the first application of a file that contradicts itself, has a protocol that nDPI does not know, or is in
/// `places`, where those before it are.
fn check<'a>(
    applications: &'a [ApplicationConfig],
    (file, library): (&'a str, Option<&Library>),
    places: &mut HashMap<&'a str, Place<'a>>,
) -> Result<(), Fault> {
    for application in applications {
        let name = &application.name;
        if application.hosts.is_empty() && application.flows.is_empty() && application.protocols.is_empty() {
            let fault = format!(
                "application `{}` has neither hosts nor flows nor protocols",
                name.value
            );
            return Err(Fault::new(name, fault));
        }
        check_protocols(&application.protocols, library)?;
        let place = (file, name.referenced.line());
        if let Some((file, line)) = places.insert(&name.value, place) {
            let fault = format!(
                "application `{}` is configured twice: first in {file} line {line}",
                name.value
            );
            return Err(Fault::new(name, fault));
        }
    }
    Ok(())
}
