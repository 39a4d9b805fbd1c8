//! Several session messages in one datagram (TS 29.244 §6.5, §7.2.1A), to peers that take them (BUNDL).
//!
//! What lies next to each other in the queue, for one peer and from one of our addresses, goes together as long as it
//! fits. Kept answers and requests stay as they are: what is sent again goes alone.

use crate::endpoint::Endpoint;
use crate::transmit::Transmit;
use pfcp::MessageType;
use pfcp::ie::CpFunctionFeatures;

/// Octets of a datagram of several messages: no fragments on any usual link.
const MOST_OCTETS: usize = 1_400;
/// The flag of the first octet that says that another message follows.
pub(crate) const FOLLOW_ON: u8 = 0x04;

impl Endpoint {
    /// Notes the addresses at which every peer takes several messages in a datagram.
    pub(crate) fn find_bundlers(&mut self) {
        let takes = |one: &&crate::Association| one.features.contains(CpFunctionFeatures::BUNDL);
        let all = || self.associations.iter();
        self.bundlers = all().filter(takes).map(|one| one.peer.ip()).collect();
        for one in all().filter(|one| !takes(one)) {
            self.bundlers.remove(&one.peer.ip());
        }
    }

    /// Puts what follows in the queue into the same datagram as `first`, as far as that may be.
    pub(crate) fn bundle(&mut self, first: Transmit) -> Transmit {
        if !self.is_bundled(&first) {
            return first;
        }
        let mut octets = Vec::new();
        let mut last = 0;
        while let Some(next) = self.transmits.pop_front_if(|next| {
            let goes_along = (next.from, next.to) == (first.from, first.to) && is_about_session(next);
            goes_along && octets.len().max(first.bytes.len()) + next.bytes.len() <= MOST_OCTETS
        }) {
            if octets.is_empty() {
                octets.extend_from_slice(&first.bytes);
            }
            if let Some(flags) = octets.get_mut(last) {
                *flags |= FOLLOW_ON;
            }
            last = octets.len();
            octets.extend_from_slice(&next.bytes);
        }
        if octets.is_empty() {
            return first;
        }
        self.counters.bundles += 1;
        Transmit {
            bytes: octets.into(),
            ..first
        }
    }

    fn is_bundled(&self, transmit: &Transmit) -> bool {
        !self.bundlers.is_empty() && self.bundlers.contains(&transmit.to.ip()) && is_about_session(transmit)
    }
}

fn is_about_session(transmit: &Transmit) -> bool {
    let message_type = transmit.bytes.get(1);
    message_type.is_some_and(|octet| MessageType(*octet).is_session())
}
