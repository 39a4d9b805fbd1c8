//! The tests of the store: over a disk in memory that fails and forgets, and over directories of the file system.

mod directory;
mod failures;
mod fake_disk;
mod form;
mod full_disk;
mod indexes;
mod model;
mod power_cuts;
mod recovery;
mod world;
