//! Newtypes for time and for the numbers by which the parts of a user plane name each other's objects.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A moment: nanoseconds since an arbitrary epoch, the same in the whole program. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The epoch.
    pub const ZERO: Self = Self(0);
    /// Later than every other moment; as a deadline: never.
    pub const MAX: Self = Self(u64::MAX);

    /// The moment `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The moment `secs` seconds after the epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Nanos {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(nanos(later)))
    }
}

impl Sub<Duration> for Nanos {
    type Output = Self;

    fn sub(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(earlier)))
    }
}

/// The nanoseconds of `duration`, or `u64::MAX` when there are more (584 years).
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Makes a newtype of an unsigned integer whose every value is valid.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $int);

        impl $name {
            /// The number as an index into an array.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A worker: dense from 0.
    WorkerId(u16)
}
id! {
    /// A network instance: its place in the configuration, dense from 0.
    InstanceId(u16)
}
id! {
    /// A VRF, that is an address space: dense from 0.
    VrfId(u16)
}
id! {
    /// A port: its place in the configuration, dense from 0, below 1,024.
    PortId(u16)
}
id! {
    /// An own GTP-U address: dense from 0.
    LocalId(u16)
}
id! {
    /// A next hop with its layer 2 header, in every worker's array of adjacencies.
    AdjacencyId(u32)
}
id! {
    /// A session: a dense number that control allocates and uses again after the session's removal.
    SessionIndex(u32)
}
id! {
    /// A content, which is billed by itself: numbered from 1 by the configuration; 0 is none.
    ContentId(u32)
}
id! {
    /// One operation, by which its outcome is reported. Each source of operations counts up from 1.
    OpId(u64)
}

impl ContentId {
    /// No content.
    pub const NONE: Self = Self(0);

    /// Whether it names a content.
    #[inline]
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

impl PortId {
    /// The bits that number ports.
    const NUMBERS: u16 = 0x01ff;
    /// The bit above them.
    const UNSOLICITED: u16 = 1 << 9;
    /// The bit above that one.
    const OWN: u16 = 1 << 10;
    /// The bit above that one; those above it hold the number of recirculations.
    const ANSWER: u16 = 1 << 11;
    /// The most recirculations that can be held; 0: from the wire.
    pub const MOST_RECIRCULATIONS: u8 = 7;
    /// The bit above the number of recirculations.
    const WAITED: u16 = 1 << 15;

    /// How often a packet that was received by this port has recirculated in this node; 0: it was received from the
    /// wire. Of an egress port: above 0, the packet does not leave, but recirculates.
    #[inline]
    pub const fn recirculations(self) -> u8 {
        (self.0 >> 12) as u8 & Self::MOST_RECIRCULATIONS
    }

    /// The same port with this number of recirculations, of which the low 3 bits count, and without the marks of
    /// [`answering`](Self::answering), [`owning`](Self::owning), [`unsolicited`](Self::unsolicited) and
    /// [`having_waited`](Self::having_waited).
    #[must_use]
    pub const fn with_recirculations(self, count: u8) -> Self {
        Self(self.0 & Self::NUMBERS | ((count & Self::MOST_RECIRCULATIONS) as u16) << 12)
    }

    /// Whether a packet that was received by this port is a reply of this node to a redirected UE, recirculated or not.
    #[inline]
    pub const fn is_answer(self) -> bool {
        self.0 & Self::ANSWER != 0
    }

    /// The same port and number of recirculations, for such a reply if `is_answer`.
    #[must_use]
    pub const fn answering(self, is_answer: bool) -> Self {
        if is_answer {
            Self(self.0 | Self::ANSWER)
        } else {
            self
        }
    }

    /// Whether a packet that was received by this port is a message of this node to a UE, recirculated or not.
    #[inline]
    pub const fn is_own(self) -> bool {
        self.0 & Self::OWN != 0
    }

    /// The same port and number of recirculations, for such a message if `is_own`.
    #[must_use]
    pub const fn owning(self, is_own: bool) -> Self {
        if is_own { Self(self.0 | Self::OWN) } else { self }
    }

    /// Whether a packet that was received by this port has come through a NAT from an address that its UE has not sent
    /// to, and is not as others are therefore.
    #[inline]
    pub const fn is_unsolicited(self) -> bool {
        self.0 & Self::UNSOLICITED != 0
    }

    /// The same port and number of recirculations, for such a packet.
    #[must_use]
    pub const fn unsolicited(self) -> Self {
        Self(self.0 | Self::UNSOLICITED)
    }

    /// Whether a packet that was received by this port has been buffered since its last recirculation, for its FAR or
    /// its next hop.
    #[inline]
    pub const fn has_waited(self) -> bool {
        self.0 & Self::WAITED != 0
    }

    /// The same port and number of recirculations, for a packet that is buffered.
    #[must_use]
    pub const fn having_waited(self) -> Self {
        Self(self.0 | Self::WAITED)
    }
}

impl AdjacencyId {
    /// No fixed next hop: the packet's own destination is looked up in the routes of the egress instance.
    pub const BY_DESTINATION: Self = Self(u32::MAX);
}

/// The direction of a packet, seen from the UE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the UE: the PDR's source interface is Access.
    Uplink = 0,
    /// To the UE: the PDR's source interface is any other.
    Downlink = 1,
}

impl Direction {
    /// Both, in the order of their numbers.
    pub const BOTH: [Self; 2] = [Self::Uplink, Self::Downlink];

    /// The other one.
    pub const fn reverse(self) -> Self {
        match self {
            Self::Uplink => Self::Downlink,
            Self::Downlink => Self::Uplink,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_the_recirculations_and_whether_its_packet_has_waited() {
        for (port, count) in [(0, 0), (511, 7), (9, 3)] {
            let port = PortId(port).with_recirculations(count);
            assert_eq!((port.recirculations(), port.has_waited()), (count, false));
            let waited = port.having_waited();
            assert_eq!((waited.recirculations(), waited.has_waited()), (count, true));
            assert_eq!(waited.with_recirculations(count), port);
            let answer = waited.answering(true);
            assert_eq!(
                (answer.recirculations(), answer.has_waited(), answer.is_answer()),
                (count, true, true)
            );
            assert_eq!(
                (answer.with_recirculations(count), port.is_answer()),
                (port, false)
            );
            assert_eq!((port.answering(false), port.owning(false)), (port, port));
            let own = waited.owning(true);
            assert_eq!(
                (own.recirculations(), own.has_waited(), own.is_own()),
                (count, true, true)
            );
            assert_eq!((own.with_recirculations(count), port.is_own()), (port, false));
            let unsolicited = port.unsolicited();
            assert!(unsolicited.is_unsolicited() && !unsolicited.is_own() && !unsolicited.is_answer());
            assert!(unsolicited.having_waited().is_unsolicited() && !waited.is_unsolicited());
            assert_eq!(
                (
                    unsolicited.recirculations(),
                    unsolicited.with_recirculations(count)
                ),
                (count, port)
            );
        }
    }

    #[test]
    fn time_saturates_at_both_ends() {
        assert_eq!(Nanos::MAX + Duration::from_secs(1), Nanos::MAX);
        assert_eq!(Nanos(5) - Duration::from_secs(1), Nanos::ZERO);
        assert_eq!(Nanos(5).since(Nanos(7)), Duration::ZERO);
        assert_eq!(Nanos::ZERO + Duration::MAX, Nanos::MAX);
        assert_eq!(
            Nanos::from_secs(2).since(Nanos::from_millis(500)),
            Duration::from_millis(1500)
        );
    }
}
