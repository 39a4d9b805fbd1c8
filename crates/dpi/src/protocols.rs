//! Sets of protocols that are recognised, and their names.

use core::fmt;
use core::str::FromStr;

use crate::ndpi::NdpiId;
use crate::verdict::Protocol;

impl Protocol {
    /// All that are recognised here: none of nDPI's.
    pub const ALL: [Protocol; 7] = [
        Protocol::Tls,
        Protocol::Quic,
        Protocol::Http1,
        Protocol::Stun,
        Protocol::Rtp,
        Protocol::WireGuard,
        Protocol::Dns,
    ];

    /// Its name in configurations, if it is recognised here.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Protocol::Tls => Some("tls"),
            Protocol::Quic => Some("quic"),
            Protocol::Http1 => Some("http"),
            Protocol::Stun => Some("stun"),
            Protocol::Rtp => Some("rtp"),
            Protocol::WireGuard => Some("wireguard"),
            Protocol::Dns => Some("dns"),
            Protocol::Ndpi(_) => None,
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Protocol> {
        Protocol::ALL
            .into_iter()
            .find(|protocol| protocol.name() == Some(name))
    }
}

/// The name, or `ndpi.` and the number of what it is at the most exact.
impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Protocol::Ndpi(protocol) => write!(f, "ndpi.{}", protocol.application.number()),
            own => f.write_str(own.name().unwrap_or_default()),
        }
    }
}

/// A text is no protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAProtocol;

/// Reads what is written so.
impl FromStr for Protocol {
    type Err = NotAProtocol;

    fn from_str(text: &str) -> Result<Protocol, NotAProtocol> {
        let Some(number) = text.strip_prefix("ndpi.") else {
            return Protocol::named(text).ok_or(NotAProtocol);
        };
        let id = number.parse().ok().and_then(NdpiId::new).ok_or(NotAProtocol)?;
        Ok(Protocol::Ndpi(id.into()))
    }
}

/// Numbers in a set.
const BITS: usize = 512;
/// The number before those of nDPI.
const BEFORE_NDPI: usize = 7;

const _: () =
    assert!(Protocol::ALL.len() <= BEFORE_NDPI + 1 && BEFORE_NDPI + NdpiId::LAST as usize == BITS - 1);

/// A set of protocols.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Protocols([u64; BITS / 64]);

impl Protocols {
    /// None.
    pub const NONE: Protocols = Protocols([0; BITS / 64]);

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Protocols::NONE
    }

    /// Whether this one is among them; of nDPI's, any that it goes by.
    pub fn contains(&self, protocol: Protocol) -> bool {
        let places = match protocol {
            Protocol::Ndpi(protocol) => {
                [Some(protocol.application), protocol.carrier].map(|id| id.map(of_ndpi))
            }
            own => [Some(of_own(own)), None],
        };
        let has = |place: usize| {
            self.0
                .get(place / 64)
                .is_some_and(|bits| bits >> (place % 64) & 1 == 1)
        };
        places.into_iter().flatten().any(has)
    }

    /// They: those that are recognised here in the order of [`Protocol::ALL`], then those of nDPI by number.
    pub fn iter(&self) -> impl Iterator<Item = Protocol> + use<'_> {
        let of_ndpi = (1..=NdpiId::LAST).filter_map(NdpiId::new);
        let of_ndpi = of_ndpi.map(|id| Protocol::Ndpi(id.into()));
        let all = Protocol::ALL.into_iter().chain(of_ndpi);
        all.filter(|one| self.contains(*one))
    }

    /// Whether any is one of nDPI's.
    pub fn has_ndpi(&self) -> bool {
        let [first, others @ ..] = self.0;
        first >> (BEFORE_NDPI + 1) != 0 || others != [0; BITS / 64 - 1]
    }

    fn insert(&mut self, place: usize) {
        if let Some(bits) = self.0.get_mut(place / 64) {
            *bits |= 1 << (place % 64);
        }
    }
}

/// The place in sets of one that is recognised here.
const fn of_own(protocol: Protocol) -> usize {
    match protocol {
        Protocol::Tls => 0,
        Protocol::Quic => 1,
        Protocol::Http1 => 2,
        Protocol::Stun => 3,
        Protocol::Rtp => 4,
        Protocol::WireGuard => 5,
        Protocol::Dns => 6,
        Protocol::Ndpi(_) => BITS,
    }
}

/// The place of one of nDPI's.
const fn of_ndpi(id: NdpiId) -> usize {
    BEFORE_NDPI + id.number() as usize
}

impl FromIterator<Protocol> for Protocols {
    fn from_iter<I: IntoIterator<Item = Protocol>>(protocols: I) -> Protocols {
        let mut set = Protocols::NONE;
        for protocol in protocols {
            match protocol {
                Protocol::Ndpi(protocol) => protocol.ids().for_each(|id| set.insert(of_ndpi(id))),
                own => set.insert(of_own(own)),
            }
        }
        set
    }
}

impl fmt::Debug for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::ndpi::NdpiProtocol;

    fn ndpi(number: u16) -> NdpiId {
        NdpiId::new(number).expect("a number of nDPI's")
    }

    #[test]
    fn each_has_a_name_and_a_place_in_sets() {
        for protocol in Protocol::ALL {
            assert_eq!(protocol.name().and_then(Protocol::named), Some(protocol));
            let others = Protocol::ALL.into_iter().filter(|other| *other != protocol);
            let others: Protocols = others.collect();
            assert!(!others.contains(protocol) && others.iter().count() == Protocol::ALL.len() - 1);
            assert!(!others.has_ndpi());
        }
        assert!(Protocols::NONE.is_empty() && Protocol::named("none").is_none());
    }

    #[test]
    fn one_of_ndpi_is_in_a_set_by_any_of_its_numbers() {
        let over_tls = Protocol::Ndpi(NdpiProtocol {
            application: ndpi(119),
            carrier: Some(ndpi(91)),
        });
        let of = |number| Protocols::from_iter([Protocol::Ndpi(ndpi(number).into())]);
        assert!(of(119).contains(over_tls) && of(91).contains(over_tls) && !of(37).contains(over_tls));
        assert!(of(1).has_ndpi() && of(NdpiId::LAST).has_ndpi());
        assert!(NdpiId::new(0).is_none() && NdpiId::new(NdpiId::LAST + 1).is_none());
    }

    proptest! {
        #[test]
        fn a_set_has_what_was_put_in(
            own in prop::collection::vec(0..Protocol::ALL.len(), 0..4),
            numbers in prop::collection::btree_set(1..=NdpiId::LAST, 0..6),
        ) {
            let own: BTreeSet<usize> = own.into_iter().collect();
            let own = own.into_iter().map(|place| Protocol::ALL[place]);
            let all: Vec<Protocol> = own.chain(numbers.iter().map(|number| Protocol::Ndpi(ndpi(*number).into()))).collect();
            let set: Protocols = all.iter().copied().collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), all.clone());
            prop_assert_eq!((set.is_empty(), set.has_ndpi()), (all.is_empty(), !numbers.is_empty()));
        }

        #[test]
        fn a_protocol_is_read_as_it_is_written(number in 1..=NdpiId::LAST, place in 0..Protocol::ALL.len()) {
            for protocol in [Protocol::Ndpi(ndpi(number).into()), Protocol::ALL[place]] {
                prop_assert_eq!(protocol.to_string().parse(), Ok(protocol));
            }
        }
    }

    #[test]
    fn other_texts_are_no_protocols() {
        for text in ["", "ndpi.", "ndpi.0", "ndpi.505", "ndpi.tls", "TLS", "any"] {
            assert_eq!(text.parse::<Protocol>(), Err(NotAProtocol), "{text}");
        }
    }
}
