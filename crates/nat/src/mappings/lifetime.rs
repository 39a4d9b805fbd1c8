//! How long a mapping lives, by what is sent with it: RFC 4787 §4.3, RFC 5382 §5, RFC 5508 §3.2, RFC 7857 §2.
//!
//! Connections of TCP that share a mapping are not distinguished: a FIN or RST leaves it a transitory lifetime, and
//! what the inside sends after it establishes it again. But the acknowledgement of the other end's FIN is sent after
//! the own one, and must not keep the mappings of all connections that have ended for hours: for [`REST`] after a FIN
//! it changes nothing.
//!
//! Moments are ticks of [`TICK`]. A mapping lives at least its lifetime, and less than two ticks longer.

use std::time::Duration;

use flow::Nanos;

use super::endpoint::Protocol;
use crate::pools::Lifetimes;

/// A tick is 2 to the power of this, in nanoseconds.
const TICK_SHIFT: u32 = 27;
/// What lifetimes are counted in: 134 ms.
pub const TICK: Duration = Duration::from_nanos(1 << TICK_SHIFT);
/// Longer lifetimes, of 4.5 years, are as good as this.
const MOST_TICKS: u32 = u32::MAX / 4;
/// So long behind a FIN, what the inside sends is taken for the rest of the connection that has ended.
const REST: Duration = Duration::from_secs(4);

/// The tick that a moment is in. It saturates 18 years after the epoch.
#[inline]
pub(super) fn ticks(now: Nanos) -> u32 {
    u32::try_from(now.0 >> TICK_SHIFT).unwrap_or(u32::MAX)
}

/// From any moment of a tick to the start of the tick that is as many later, at least `duration` passes.
pub(super) fn ticks_of(duration: Duration) -> u32 {
    let ticks = duration.as_nanos().div_ceil(TICK.as_nanos()) + 1;
    ticks.min(MOST_TICKS.into()) as u32
}

/// What a segment does to a connection of TCP. ICMP queries and UDP are [`Within`](Self::Within).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segment {
    /// It belongs to one, or is none of TCP.
    #[default]
    Within,
    /// SYN without ACK.
    Opens,
    /// SYN and ACK.
    Accepts,
    /// FIN.
    Finishes,
    /// RST.
    Resets,
}

/// What is known of the connections that share a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MappingState {
    /// One is established; or the protocol is not TCP.
    Established,
    /// The inside has sent a SYN.
    Opening,
    /// The other end has answered it.
    Answered,
    /// One has ended with a FIN.
    Finished,
    /// One has ended with a RST.
    Reset,
}

impl MappingState {
    /// Its name for operators.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::Opening => "opening",
            Self::Answered => "answered",
            Self::Finished => "finished",
            Self::Reset => "reset",
        }
    }

    /// The state with this number.
    pub(super) const fn of(number: u32) -> Self {
        match number {
            0 => Self::Established,
            1 => Self::Opening,
            2 => Self::Answered,
            3 => Self::Finished,
            _ => Self::Reset,
        }
    }
}

/// The state of a mapping, and the tick from which on it is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub state: MappingState,
    pub until: u32,
}

/// Lifetimes, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticks {
    established: u32,
    transitory: u32,
    udp: u32,
    icmp: u32,
    rest: u32,
}

impl Ticks {
    pub fn new(lifetimes: &Lifetimes) -> Self {
        Self {
            established: ticks_of(lifetimes.tcp_established),
            transitory: ticks_of(lifetimes.tcp_transitory),
            udp: ticks_of(lifetimes.udp),
            icmp: ticks_of(lifetimes.icmp),
            rest: ticks_of(REST),
        }
    }

    /// The life of a mapping that the inside begins with this segment.
    pub fn begun(&self, protocol: Protocol, segment: Segment, now: u32) -> Life {
        let state = match (protocol, segment) {
            (Protocol::Udp | Protocol::Icmp, _) | (_, Segment::Within) => MappingState::Established,
            (Protocol::Tcp, Segment::Opens) => MappingState::Opening,
            // The other end has sent the SYN.
            (Protocol::Tcp, Segment::Accepts) => MappingState::Answered,
            (Protocol::Tcp, Segment::Finishes) => MappingState::Finished,
            (Protocol::Tcp, Segment::Resets) => MappingState::Reset,
        };
        self.from(protocol, state, now)
    }

    /// The life of a mapping behind a segment of the inside.
    #[inline]
    pub fn sent(&self, protocol: Protocol, life: Life, segment: Segment, now: u32) -> Life {
        if protocol != Protocol::Tcp {
            return self.from(protocol, life.state, now);
        }
        let state = match (segment, life.state) {
            (Segment::Finishes, _) => MappingState::Finished,
            (Segment::Resets, _) => MappingState::Reset,
            // A connection beside one that is established does not shorten what that has.
            (Segment::Opens | Segment::Accepts, MappingState::Established) => {
                let until = life.until.max(now.saturating_add(self.transitory));
                return Life { until, ..life };
            }
            (Segment::Opens, MappingState::Answered) | (Segment::Accepts, _) => MappingState::Answered,
            (Segment::Opens, _) | (Segment::Within, MappingState::Opening) => MappingState::Opening,
            // The acknowledgement of a FIN, as that of a connection that ends now.
            (Segment::Within, MappingState::Finished) if self.has_just_finished(life, now) => return life,
            (Segment::Within, _) => MappingState::Established,
        };
        self.from(protocol, state, now)
    }

    /// The life of a mapping behind a segment to the inside, which never lengthens it (RFC 4787 REQ-6).
    #[inline]
    pub fn received(&self, protocol: Protocol, life: Life, segment: Segment, now: u32) -> Life {
        if protocol != Protocol::Tcp {
            return life;
        }
        let state = match (segment, life.state) {
            (Segment::Finishes, _) => MappingState::Finished,
            (Segment::Resets, _) => MappingState::Reset,
            (Segment::Within | Segment::Accepts, MappingState::Opening) => {
                return Life {
                    state: MappingState::Answered,
                    ..life
                };
            }
            _ => return life,
        };
        let until = life.until.min(now.saturating_add(self.transitory));
        Life { state, until }
    }

    fn has_just_finished(&self, life: Life, now: u32) -> bool {
        now.saturating_add(self.transitory) < life.until.saturating_add(self.rest)
    }

    #[inline]
    fn from(&self, protocol: Protocol, state: MappingState, now: u32) -> Life {
        let lifetime = match (protocol, state) {
            (Protocol::Udp, _) => self.udp,
            (Protocol::Icmp, _) => self.icmp,
            (Protocol::Tcp, MappingState::Established) => self.established,
            (Protocol::Tcp, _) => self.transitory,
        };
        let until = now.saturating_add(lifetime);
        Life { state, until }
    }
}
