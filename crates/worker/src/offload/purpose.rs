//! The numbers of requests about sessions: what each is for.

use flow::{Direction, OpId, SessionIndex};

/// What a request is for, in the lower bits of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Give(u16),
    /// A meter or a counter that is to continue from where it is.
    Refill(u16),
    /// Flows may be given from then on.
    Open,
    TakeFlows,
    TakeMeter(u8, Direction),
    TakeQueues(Direction),
    TakeSession,
    Ask,
}

impl Purpose {
    const GIVE: u16 = 1 << 12;
    const REFILL: u16 = 1 << 13;

    pub const fn bits(self) -> u16 {
        match self {
            Self::Give(number) => Self::GIVE | (number & 0xfff),
            Self::Refill(number) => Self::REFILL | (number & 0xfff),
            Self::TakeFlows => 2,
            Self::TakeSession => 3,
            Self::Ask => 4,
            Self::Open => 5,
            Self::TakeQueues(direction) => 6 + direction as u16,
            Self::TakeMeter(qer, direction) => 0x100 | (qer as u16) << 1 | direction as u16,
        }
    }

    pub const fn of(bits: u16) -> Self {
        match bits {
            2 => Self::TakeFlows,
            3 => Self::TakeSession,
            4 => Self::Ask,
            5 => Self::Open,
            6 => Self::TakeQueues(Direction::Uplink),
            7 => Self::TakeQueues(Direction::Downlink),
            bits if bits & Self::GIVE != 0 => Self::Give(bits & 0xfff),
            bits if bits & Self::REFILL != 0 => Self::Refill(bits & 0xfff),
            bits => Self::TakeMeter((bits >> 1) as u8 & 0x7f, Direction::BOTH[(bits & 1) as usize]),
        }
    }
}

/// A request's number: its session, way and purpose.
pub(super) fn op_id(session: SessionIndex, number: u16, purpose: Purpose) -> OpId {
    OpId(u64::from(session.0) << 32 | u64::from(number) << 16 | u64::from(purpose.bits()))
}

pub(super) fn read_op_id(id: OpId) -> (SessionIndex, u16, Purpose) {
    (
        SessionIndex((id.0 >> 32) as u32),
        (id.0 >> 16) as u16,
        Purpose::of(id.0 as u16),
    )
}
