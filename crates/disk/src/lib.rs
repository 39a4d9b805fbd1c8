//! A directory that one process writes, and how what it writes becomes durable.
//!
//! [`Disk`] is what writers of files ask of the disk underneath, as a trait, so that tests let every single operation
//! fail. [`Directory`] is that of the file system: locked against a second process, safe from other users, without
//! symbolic links. [`DirectoryHandle`] is for those who only read.
//!
//! Nothing here knows what is in a file, and nothing has a thread.

#![forbid(unsafe_code)]

mod directory;
mod disk;
mod handle;
mod reads;

pub use directory::Directory;
pub use disk::Disk;
pub use handle::DirectoryHandle;
pub use reads::DirectoryReads;
