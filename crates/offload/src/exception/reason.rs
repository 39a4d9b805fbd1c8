//! Why a frame comes to the host.

/// Writes the enum and its tables from one list of (variant, number, label, sentence).
macro_rules! reasons {
    ($($name:ident = $number:literal, $label:literal, $explain:literal;)*) => {
        /// Why an accelerator gives a packet to its host. The numbers go over the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Reason {
            $(#[doc = $explain] $name = $number,)*
        }

        impl Reason {
            /// Every reason, by rising numbers from 0: `ALL[reason.index()] == reason`.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$name,)*];

            /// How many reasons there are.
            pub const COUNT: usize = [$($number,)*].len();

            /// The reason as a metric label, snake_case.
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)*
                }
            }

            /// The reason as a sentence.
            pub const fn explain(self) -> &'static str {
                match self {
                    $(Self::$name => $explain,)*
                }
            }
        }
    };
}

reasons! {
    NoFlow = 0, "no_flow", "It is a user packet without a flow entry.";
    Stale = 1, "stale", "Its flow entry is of another generation than its session block.";
    NotUserPacket = 2, "not_user_packet", "It is no user packet: ARP, ND, for an own address, GTP-U signalling, a slow protocol, or for the host's network stack.";
    Action = 3, "action", "Its forward buffers, punts, redirects, reports what it drops, or makes copies of a session's own, or an access list or NAT decides.";
    Limit = 4, "limit", "A counter has stopped whose limit traps.";
    Adjacency = 5, "adjacency", "The next hop has no link layer address, or there is no route.";
    TooLong = 6, "too_long", "It is longer than its path allows and may not leave in fragments.";
    Ttl = 7, "ttl", "Its TTL or hop limit runs out.";
    NeedsReassembly = 8, "needs_reassembly", "It is a fragment that needs others, or whose ports others need.";
    OtherHeaders = 9, "other_headers", "It needs what only a worker with sessions does: its headers, or its counters before QoS or of events.";
    NoSession = 10, "no_session", "The host gave it back with a flow of a session that is not there, or has another generation.";
}

impl Reason {
    /// The number that goes over the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The reason with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The place in a table of [`COUNT`](Self::COUNT) counters.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the packet may overtake others: it keeps links, neighbours and paths alive, and belongs to no flow.
    pub const fn is_urgent(self) -> bool {
        matches!(self, Self::NotUserPacket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_wire_and_places_are_dense() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!((reason.index(), usize::from(reason.number())), (index, index));
            assert!(reason.explain().ends_with('.'));
        }
        assert_eq!(Reason::NoSession.number(), 10);
    }
}
