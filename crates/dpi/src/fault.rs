//! Why a stream of octets says no host.

/// Why a message is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It is not what its start says, or its protocol forbids it.
    Malformed,
    /// It is longer than what is looked at.
    TooLong,
    /// It can be read in two ways, so that its receiver may see another host.
    Ambiguous,
}
