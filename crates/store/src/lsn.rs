//! Numbers of operations.

/// The number of an operation. It grows with each, also from process to process; those of operations that were never
/// durable may be given again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);
