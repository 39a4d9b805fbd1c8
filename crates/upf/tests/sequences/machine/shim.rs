//! The network between the SMFs and the UPF: datagrams get lost, come twice, late and in another order.
//!
//! No message is lost more than [`MOST_LOST`] times, so that N1 retransmissions of a request get one through and its
//! response back: in the end the peer's view is then the state.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use flow::Nanos;

use super::step::Trouble;

/// Milliseconds that a datagram is on its way at most.
pub const LONGEST: u64 = 400;
/// How often one message is lost in each direction.
pub const MOST_LOST: u8 = 2;

/// A datagram on its way.
#[derive(Clone, Debug)]
pub struct Datagram {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
}

/// What is on its way.
pub struct Shim {
    pub trouble: Trouble,
    seed: u64,
    flying: BTreeMap<(Nanos, u64), Datagram>,
    lost: BTreeMap<(SocketAddr, SocketAddr, Vec<u8>), u8>,
    count: u64,
}

impl Shim {
    pub fn new(seed: u64) -> Self {
        Self {
            trouble: Trouble::NONE,
            seed,
            flying: BTreeMap::new(),
            lost: BTreeMap::new(),
            count: 0,
        }
    }

    /// Numbers enough for dice (splitmix64).
    fn dice(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn happens(&mut self, percent: u8) -> bool {
        self.dice() % 100 < u64::from(percent)
    }

    fn is_lost(&mut self, datagram: &Datagram) -> bool {
        if !self.happens(self.trouble.loss) {
            return false;
        }
        let key = (datagram.from, datagram.to, datagram.bytes.clone());
        let times = self.lost.entry(key).or_default();
        *times += 1;
        *times <= MOST_LOST
    }

    /// Sends a datagram on its way.
    pub fn throw(&mut self, now: Nanos, datagram: Datagram) {
        if self.is_lost(&datagram) {
            return;
        }
        let copies = 1 + u64::from(self.happens(self.trouble.duplication));
        for _ in 0..copies {
            let delay = 1 + self.dice() % u64::from(self.trouble.delay).clamp(1, LONGEST);
            self.count += 1;
            let at = now + Duration::from_millis(delay);
            self.flying.insert((at, self.count), datagram.clone());
        }
    }

    /// When the next one arrives.
    pub fn next(&self) -> Option<Nanos> {
        self.flying.keys().next().map(|(at, _)| *at)
    }

    /// The next one that has arrived.
    pub fn arrived(&mut self, now: Nanos) -> Option<Datagram> {
        let entry = self.flying.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// What is on its way to or from the UPF's present life is lost with it.
    pub fn clear(&mut self) {
        self.flying.clear();
    }
}
