//! The maximum segment size that TCP connections of users may agree on (RFC 9293 §3.7.1), configured for each instance.

/// The MSS that an instance lets SYNs and SYN-ACKs announce that arrive or leave by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mss {
    /// What they like.
    #[default]
    Off,
    /// What fits the links on both sides of this node, and the tunnels over them.
    Auto,
    /// At most this number of octets.
    AtMost(u16),
}

/// One side of this node, as a packet sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leg {
    /// What its instance says.
    pub mss: Mss,
    /// The longest user packet there, octets: what its MTU leaves behind the headers of the tunnel.
    pub room: u16,
}

impl Mss {
    /// The least that [`Auto`](Self::Auto) asks for: what every host accepts without an announcement (RFC 9293 §3.7.1).
    pub const LEAST: u16 = 536;

    /// The largest MSS of a SYN that comes in and leaves by these sides; `None` where neither limits it. A size is
    /// computed without options, of IP and of TCP (RFC 6691 §2).
    pub fn limit(legs: [Leg; 2], is_v4: bool) -> Option<u16> {
        let numbers = legs.iter().filter_map(|leg| match leg.mss {
            Self::AtMost(octets) => Some(octets),
            Self::Off | Self::Auto => None,
        });
        let headers = if is_v4 { 20 + 20 } else { 40 + 20 };
        let is_auto = legs.iter().any(|leg| leg.mss == Self::Auto);
        let room = legs.iter().map(|leg| leg.room).min().filter(|_| is_auto);
        let by_room = room.map(|room| room.saturating_sub(headers).max(Self::LEAST));
        numbers.chain(by_room).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_heeded() {
        let leg = |mss, room| Leg { mss, room };
        for (one, other, v4, v6) in [
            (leg(Mss::Off, 1456), leg(Mss::Off, 1500), None, None),
            (leg(Mss::Off, 1456), leg(Mss::Auto, 1500), Some(1416), Some(1396)),
            (leg(Mss::Auto, 1500), leg(Mss::Off, 1400), Some(1360), Some(1340)),
            (
                leg(Mss::AtMost(1300), 1456),
                leg(Mss::Off, 9000),
                Some(1300),
                Some(1300),
            ),
            (
                leg(Mss::AtMost(1300), 1456),
                leg(Mss::AtMost(1200), 9000),
                Some(1200),
                Some(1200),
            ),
            (
                leg(Mss::AtMost(1400), 1456),
                leg(Mss::Auto, 1450),
                Some(1400),
                Some(1390),
            ),
            (leg(Mss::Auto, 30), leg(Mss::Off, 1450), Some(536), Some(536)),
        ] {
            for legs in [[one, other], [other, one]] {
                assert_eq!(Mss::limit(legs, true), v4, "{legs:?}");
                assert_eq!(Mss::limit(legs, false), v6, "{legs:?}");
            }
        }
    }
}
