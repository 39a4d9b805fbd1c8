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
    /// It spends what is left, and earns nothing; of what limits still allow, it has half.
    Leaving,
    /// It starts with nothing, and earns.
    Arriving,
}

/// What is left of a QER's packet rates, by [`Direction`](flow::Direction).
pub type PacketsLeft = (QerId, [PacketState; 2]);

/// What the meters of a QER's bit rates hold, by [`Direction`](flow::Direction); nothing where there is no rate, and of rates that
/// sessions share.
pub type TokensLeft = (QerId, [Option<Tokens>; 2]);
