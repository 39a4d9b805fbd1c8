//! Sets of protocols that are recognised, by name.

use core::fmt;

use crate::verdict::Protocol;

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 7] = [
        Protocol::Tls,
        Protocol::Quic,
        Protocol::Http1,
        Protocol::Stun,
        Protocol::Rtp,
        Protocol::WireGuard,
        Protocol::Dns,
    ];

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Tls => "tls",
            Protocol::Quic => "quic",
            Protocol::Http1 => "http",
            Protocol::Stun => "stun",
            Protocol::Rtp => "rtp",
            Protocol::WireGuard => "wireguard",
            Protocol::Dns => "dns",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.name() == name)
    }
}

/// A set of protocols.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Protocols(u8);

impl Protocols {
    /// None.
    pub const NONE: Protocols = Protocols(0);

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this one is among them.
    pub const fn contains(self, protocol: Protocol) -> bool {
        self.0 & bit(protocol) != 0
    }

    /// They, in the order of [`Protocol::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Protocol> {
        Protocol::ALL.into_iter().filter(move |one| self.contains(*one))
    }
}

const fn bit(protocol: Protocol) -> u8 {
    1 << protocol as u8
}

impl FromIterator<Protocol> for Protocols {
    fn from_iter<I: IntoIterator<Item = Protocol>>(protocols: I) -> Protocols {
        Protocols(protocols.into_iter().fold(0, |bits, one| bits | bit(one)))
    }
}

impl fmt::Debug for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_and_a_place_in_sets() {
        for protocol in Protocol::ALL {
            assert_eq!(Protocol::named(protocol.name()), Some(protocol));
            let others = Protocol::ALL.into_iter().filter(|other| *other != protocol);
            let others: Protocols = others.collect();
            assert!(!others.contains(protocol) && others.iter().count() == Protocol::ALL.len() - 1);
        }
        assert!(Protocols::NONE.is_empty() && Protocol::named("none").is_none());
    }
}
