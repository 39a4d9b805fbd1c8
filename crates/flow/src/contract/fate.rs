//! What becomes of a packet at a backend.

use crate::meter::Colour;
use crate::{Forward, ForwardKind, LimitAction, Mark, Nat};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No flow has this key.
    Missed,
    /// It is counted and leaves.
    Passed {
        /// How.
        forward: Forward,
        /// What it is marked with.
        mark: Mark,
        /// The worst colour that its meters gave it.
        colour: Colour,
        /// What a NAT does to it.
        nat: Option<Nat>,
    },
    /// It is counted and waits in a queue.
    Queued,
    /// It goes to the host's slow path, uncounted.
    Trapped(Why),
    /// It is dropped, uncounted.
    Dropped(Why),
}

/// Why a packet does not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The action of its forward.
    Action,
    /// A closed gate.
    Gate,
    /// A meter.
    Meter,
    /// A counter's limit.
    Limit,
    /// Its next hop is not known.
    Adjacency,
    /// Its queue has no room for it.
    Queue,
}

impl Fate {
    /// What a limit makes of a packet.
    pub(crate) const fn of_limit(action: LimitAction) -> Self {
        match action {
            LimitAction::Trap => Self::Trapped(Why::Limit),
            _ => Self::Dropped(Why::Limit),
        }
    }

    /// What a forward's action makes of a packet that does not leave.
    pub(crate) const fn of_action(kind: ForwardKind) -> Option<Self> {
        match kind {
            ForwardKind::Tunnel | ForwardKind::Plain => None,
            ForwardKind::Buffer | ForwardKind::Punt | ForwardKind::Unchanged | ForwardKind::Redirect => {
                Some(Self::Trapped(Why::Action))
            }
            ForwardKind::Drop => Some(Self::Dropped(Why::Action)),
        }
    }
}
