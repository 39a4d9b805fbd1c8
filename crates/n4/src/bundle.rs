//! Several session messages in one datagram (TS 29.244 §6.5, §7.2.1A), to peers that take them (BUNDL).
//!
//! What is adjacent in the queue, for one peer and from one of our addresses, goes together as long as it fits. Kept
//! answers and requests stay as they are: what is sent again goes alone.

use crate::datagram::Transmit;
use pfcp::MessageType;
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

/// Octets of a datagram of several messages: no fragments on any usual link.
const MOST_OCTETS: usize = 1_400;
/// The flag of the first octet that says that another message follows.
pub(crate) const FOLLOW_ON: u8 = 0x04;

/// The peers that take several messages in a datagram.
#[derive(Debug, Default)]
pub(crate) struct Bundling {
    peers: BTreeSet<IpAddr>,
}

/// A datagram, and how many messages it has.
pub(crate) struct Bundled {
    pub(crate) transmit: Transmit,
    pub(crate) is_bundle: bool,
}

impl Bundling {
    /// The addresses at which every peer takes several messages in a datagram.
    pub(crate) fn set_peers(&mut self, peers: BTreeSet<IpAddr>) {
        self.peers = peers;
    }

    /// Puts what follows in the queue into the same datagram as `first`, as far as the peer takes it and it fits.
    pub(crate) fn bundle(&self, first: Transmit, queue: &mut VecDeque<Transmit>) -> Bundled {
        let mut octets = Vec::new();
        let mut last = 0;
        let takes = self.peers.contains(&first.to.ip()) && is_about_session(&first);
        while takes
            && let Some(next) = queue.pop_front_if(|next| {
                let is_same_path = (next.from, next.to) == (first.from, first.to) && is_about_session(next);
                is_same_path && octets.len().max(first.bytes.len()) + next.bytes.len() <= MOST_OCTETS
            })
        {
            if octets.is_empty() {
                octets.extend_from_slice(&first.bytes);
            }
            if let Some(flags) = octets.get_mut(last) {
                *flags |= FOLLOW_ON;
            }
            last = octets.len();
            octets.extend_from_slice(&next.bytes);
        }
        let is_bundle = !octets.is_empty();
        let transmit = if is_bundle {
            Transmit {
                bytes: octets.into(),
                ..first
            }
        } else {
            first
        };
        Bundled { transmit, is_bundle }
    }
}

fn is_about_session(transmit: &Transmit) -> bool {
    let message_type = transmit.bytes.get(1);
    message_type.is_some_and(|octet| MessageType(*octet).is_session())
}
