//! A directory of this run's own.

use std::env;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::super::error::BenchError;

/// A directory that is removed, with all in it, when it is dropped.
#[derive(Debug)]
pub struct WorkDirectory(PathBuf);

impl WorkDirectory {
    /// Makes one in `parent`, or where temporary files are. Only its owner can read it.
    ///
    /// # Errors
    /// The system's.
    pub fn make(parent: Option<&Path>) -> Result<Self, BenchError> {
        let parent = parent.map_or_else(env::temp_dir, Path::to_owned);
        let failed = |error| BenchError(format!("{}: {error}", parent.display()));
        let parent = parent.canonicalize().map_err(failed)?;
        let path = parent.join(format!("sluice-bench-{}", std::process::id()));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| BenchError(format!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }

    /// A path in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Where it was made.
    #[must_use]
    pub fn parent(&self) -> String {
        self.0.parent().unwrap_or(&self.0).display().to_string()
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("bench: {}: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_it_stays() {
        let work = WorkDirectory::make(None).unwrap();
        let file = work.path("file");
        fs::write(&file, "x").unwrap();
        let directory = file.parent().unwrap().to_owned();
        assert_eq!(directory.parent().unwrap().display().to_string(), work.parent());
        drop(work);
        assert!(!directory.exists());
    }
}
