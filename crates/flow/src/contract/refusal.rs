//! Why a backend does not do what it is asked for.

/// Why a request took no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It asks for what is not among the [`Capabilities`](super::Capabilities), or for an object that its subject
    /// cannot have.
    Unsupported,
    /// No room.
    Full,
    /// `Install` of what is there.
    Exists,
    /// `Update`, `Remove` or `Query` of what is not there, or a flow that names what is not there.
    Missing,
    /// `Remove` of what a flow names, or might: a backend that does not keep what its flows name refuses it as long as
    /// the session has any.
    InUse,
    /// A flow of another generation than its session's.
    Stale,
    /// It was meant for another epoch.
    OtherEpoch,
}
