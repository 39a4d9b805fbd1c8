//! Who looks at a flow of which nothing is known yet.

use dpi::{FlowIndex, NdpiProtocol};

/// What nDPI has made of a flow so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NdpiLook {
    /// It was shown nothing.
    None,
    /// It looks at it.
    Open(ndpi::FlowIndex),
    /// What it is.
    Found(NdpiProtocol),
    /// Nothing, and it is shown no more.
    Over,
}

/// Who looks at a flow of which nothing is known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    /// The inspector; nothing: it has found nothing, and will not.
    pub(super) own: Option<FlowIndex>,
    pub(super) ndpi: NdpiLook,
}

impl Looks {
    /// The inspector alone.
    pub(super) fn of_inspector(flow: FlowIndex) -> Self {
        Self {
            own: Some(flow),
            ndpi: NdpiLook::None,
        }
    }
}
