//! A file of the log, opened to be written or to be asked.
//!
//! The library trusts the octets of a file that was closed well, and stops the thread at some that no library wrote.
//! Here that is an error of the file ([`guarded`]).

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::backends::FileBackend;
use redb::{Builder, ConcurrencyMode, Database, ReadOnlyDatabase, ReadTransaction, ReadableDatabase};

use crate::fault::{Fault, LogError};
use crate::tables::Tables;

/// Does what the library is asked for of a file.
fn guarded<T>(name: &str, work: impl FnOnce() -> Result<T, Fault>) -> Result<T, LogError> {
    let stopped = Fault::Damaged("the library of the database found what it does not write");
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or(Err(stopped))
        .map_err(|fault| fault.of(name))
}

fn builder(cache_octets: usize) -> Builder {
    let mut builder = Builder::new();
    // Readers of other processes follow the writer's commits.
    builder.set_concurrency_mode(ConcurrencyMode::SingleWriter);
    builder.set_cache_size(cache_octets);
    builder
}

/// A file that this process writes.
pub(crate) struct WrittenFile {
    name: String,
    /// Taken out when it is dropped, which may be stopped by what is in the file, too.
    database: Option<Database>,
}

impl WrittenFile {
    /// Opens what `file` holds. An empty file becomes one without assignments if it `is_new`.
    pub(crate) fn open(name: &str, file: File, cache_octets: usize, is_new: bool) -> Result<Self, LogError> {
        if !is_new && file.metadata()?.len() == 0 {
            return Err(Fault::Damaged("it is empty").of(name));
        }
        let database = guarded(name, || {
            Ok(builder(cache_octets).create_with_backend(FileBackend::new(file)?)?)
        })?;
        Ok(Self {
            name: name.to_owned(),
            database: Some(database),
        })
    }

    /// Changes the file in one step, which is durable then.
    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&mut Tables<'_>) -> Result<T, Fault>,
    ) -> Result<T, LogError> {
        guarded(&self.name, || {
            let mut transaction = self.database()?.begin_write()?;
            // Without it a file is read whole when it is opened behind a crash.
            transaction.set_quick_repair(true);
            let done = work(&mut Tables::of(&transaction)?)?;
            transaction.commit()?;
            Ok(done)
        })
    }

    /// Reads of one state of the file.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&ReadTransaction) -> Result<T, Fault>,
    ) -> Result<T, LogError> {
        guarded(&self.name, || work(&self.database()?.begin_read()?))
    }

    fn database(&self) -> Result<&Database, Fault> {
        self.database.as_ref().ok_or(Fault::Damaged("it is closed"))
    }

    pub(crate) fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }
}

impl Drop for WrittenFile {
    fn drop(&mut self) {
        let database = self.database.take();
        // What was confirmed is durable; a file that cannot be closed is repaired when it is opened again.
        let _ = guarded(&self.name, || {
            drop(database);
            Ok(())
        });
    }
}

/// A file that is asked.
pub(crate) struct ReadFile {
    pub(crate) name: String,
    /// As in [`WrittenFile`].
    database: Option<ReadOnlyDatabase>,
}

impl ReadFile {
    /// Opens what `file` holds.
    pub(crate) fn open(name: &str, file: File, cache_octets: usize) -> Result<Self, LogError> {
        let database = guarded(name, || {
            Ok(builder(cache_octets).open_read_only_with_backend(FileBackend::new(file)?)?)
        })?;
        Ok(Self {
            name: name.to_owned(),
            database: Some(database),
        })
    }

    /// Reads of one state of the file.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&ReadTransaction) -> Result<T, Fault>,
    ) -> Result<T, LogError> {
        guarded(&self.name, || {
            let database = self.database.as_ref().ok_or(Fault::Damaged("it is closed"))?;
            work(&database.begin_read()?)
        })
    }
}

impl Drop for ReadFile {
    fn drop(&mut self) {
        let database = self.database.take();
        let _ = guarded(&self.name, || {
            drop(database);
            Ok(())
        });
    }
}
