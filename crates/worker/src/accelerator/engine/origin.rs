//! Where packets come from that pass an engine's stages.

/// Where the packets of a burst come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A port, or a recirculation; or they were held behind what the host gave back.
    Network,
    /// The host gives them back.
    Host,
    /// They were kept until the host had answered: what finds no flow all the same goes to it.
    Answered,
}
