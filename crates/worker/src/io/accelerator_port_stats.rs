//! What is counted of frames on the port towards an accelerator.

use offload::exception::Reason;

/// What was counted of frames on the port towards the accelerator, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceleratorPortStats {
    /// Packets that came as exceptions, by [`Reason`].
    pub exceptions: [u64; Reason::COUNT],
    /// Those of them of which the accelerator said where their user packet begins; those of other workers, too, at the
    /// first of several.
    pub hinted: u64,
    /// Those of them that were given to a worker by the bucket that the accelerator said, at the first of several.
    pub steered: u64,
    /// Packets that were sent by ports of the accelerator.
    pub sent: u64,
    /// Packets that went back with their flow.
    pub through: u64,
    /// Packets that found no room before the worker took them.
    pub lost: u64,
    /// Frames that are no exception frames of the accelerator's, or of none of its ports.
    pub foreign: u64,
    /// Packets that could not be sent: no contact, no headroom, too long with what is put in front of them.
    pub unsent: u64,
    /// Questions of the accelerator, and those that found no room.
    pub questions: u64,
    /// See [`questions`](Self::questions).
    pub questions_lost: u64,
    /// Answers that brought a flow, and those that asked for the packet.
    pub answered: u64,
    /// See [`answered`](Self::answered).
    pub answered_whole: u64,
    /// Markers that were sent back.
    pub markers: u64,
}
