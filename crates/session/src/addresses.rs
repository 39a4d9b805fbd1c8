//! Which session holds which UE address, so that two sessions never get the same plain packets.
//!
//! Owned by control.

use flow::{SessionIndex, VrfId};
use rules::prefix::IpPrefix;

use crate::keyed::{Keyed, keyed};

/// A UE's address in its address space.
pub type UeAddress = (VrfId, IpPrefix);

/// The UE addresses of all sessions that plain packets reach them by.
#[derive(Debug)]
pub struct Addresses {
    holders: Keyed<UeAddress, SessionIndex>,
}

impl Addresses {
    /// No addresses; the seed is that of the hash table.
    pub fn new(seed: u64) -> Addresses {
        Addresses { holders: keyed(seed) }
    }

    /// The session that holds `address`.
    pub fn holder(&self, address: UeAddress) -> Option<SessionIndex> {
        self.holders.get(&address).copied()
    }

    /// Gives `address` to `session`, whoever held it.
    pub fn give(&mut self, address: UeAddress, session: SessionIndex) {
        self.holders.insert(address, session);
    }

    /// Takes `address` from `session`, if it is still the one that holds it.
    pub fn release(&mut self, address: UeAddress, session: SessionIndex) {
        if self.holder(address) == Some(session) {
            self.holders.remove(&address);
        }
    }

    /// How many are held.
    pub fn held(&self) -> usize {
        self.holders.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_holder_releases() {
        let address = (VrfId(0), "10.45.0.2".parse().unwrap());
        let mut addresses = Addresses::new(1);
        addresses.give(address, SessionIndex(1));
        addresses.give(address, SessionIndex(2));
        addresses.release(address, SessionIndex(1));
        assert_eq!(addresses.holder(address), Some(SessionIndex(2)));
        addresses.release(address, SessionIndex(2));
        assert_eq!(addresses.held(), 0);
    }
}
