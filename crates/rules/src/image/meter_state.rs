//! What the meters of a session hold, where workers or processes hand the session over.

use flow::meter::{PacketState, Tokens};

use crate::model::QerId;

/// What the meters of a session, and the limits of its counters, may admit in the worker that has it. While a session
/// moves, two workers have it, and together they may admit what one may: each has half of the bursts; one earns, the
/// other spends what it has left.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum MeterShare {
    /// All of it.
    #[default]
    Whole,
    /// It spends what is left, and earns nothing; of what limits still allow, it has half. Its queues before ports
    /// keep their whole rates.
    Leaving,
    /// It starts with nothing, and earns. Its queues before ports let nothing leave.
    Arriving,
}

/// Packets that a QER's packet rates still admit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketsLeft {
    /// The QER.
    pub qer: QerId,
    /// The state of its packet rates, by [`Direction`](flow::Direction).
    pub states: [PacketState; 2],
}

/// Tokens in the meters of a QER's bit rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokensLeft {
    /// The QER.
    pub qer: QerId,
    /// By [`Direction`](flow::Direction); `None` without a rate, and for a rate that sessions share.
    pub tokens: [Option<Tokens>; 2],
}
