//! User packets that leave in fragments: noted in `apply_rules`, cut up in `tx`.
//!
//! A packet is metered, counted and given its headers as a whole, and fragmented then ([`packet::ip_fragmentation`]),
//! so that it counts once, as it came. If one of its fragments finds no room or no buffer, it has not left, and counts
//! not at all.
//!
//! Duplicates (DUPL) that are too long leave in fragments of the tunnel's packet, unless the instance allows none:
//! their receiver gets the user packet whole, as it was, and no user gets an ICMP error.

use flow::WorkerId;
use packet::eth::L2;
use packet::ip_fragmentation::{FragmentSpec, MAX_FRAGMENTS, fragment};
use packet::{DropReason, PacketBuf};
use rules::network::Fragmentation;

use crate::burst::batch::BURST;
use crate::burst::descriptor::{Descriptor, Fate};

/// In the seventh octet of an IPv4 header: the packet may not be fragmented.
pub(crate) const DONT_FRAGMENT: u8 = 0x40;

/// How one packet is cut up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FragmentationNeed {
    /// Octets of the tunnel's headers; 0 without one.
    pub outer: u16,
    /// The longest IP packet on its way.
    pub mtu: u16,
    pub how: Fragmentation,
}

/// Packets of a burst that are to leave in fragments, and what it takes.
pub(crate) struct Fragmenter<B> {
    specs: [FragmentSpec; BURST],
    /// Bit n is index n.
    wanted: u64,
    /// Identifications of outer packets: workers take turns, so that no two give the same at once.
    next_id: u32,
    step: u32,
    /// The fragments of one packet behind the first.
    rest: Vec<B>,
}

impl<B: PacketBuf> Fragmenter<B> {
    /// For worker `me` of `workers`.
    pub fn new(me: WorkerId, workers: u16) -> Self {
        let none = FragmentSpec {
            l3: 0,
            outer: 0,
            mtu: 0,
            id: None,
        };
        Self {
            specs: [none; BURST],
            wanted: 0,
            next_id: me.0.into(),
            step: workers.max(1).into(),
            rest: Vec::with_capacity(MAX_FRAGMENTS),
        }
    }

    /// The packet at `index`, whose octets are `packet`, is longer than its way out allows. Whether it goes in
    /// fragments.
    #[cold]
    pub fn may(&mut self, index: usize, packet: &[u8], need: FragmentationNeed) -> bool {
        let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
        let may = packet.get(6).is_some_and(|flags| flags & DONT_FRAGMENT == 0);
        let wanted = is_v4 && may && need.how != Fragmentation::Never;
        if wanted {
            self.specs[index % BURST] = self.spec_for(need);
            self.wanted |= 1 << (index % BURST);
        }
        wanted
    }

    /// How a duplicate is cut up that is too long for its way, whatever the user packet in it says: it has left its
    /// sender behind. `None` where nothing is to leave in fragments.
    #[cold]
    pub fn of_duplicate(&mut self, need: FragmentationNeed) -> Option<FragmentSpec> {
        (need.how != Fragmentation::Never).then(|| {
            self.spec_for(FragmentationNeed {
                how: Fragmentation::Outer,
                ..need
            })
        })
    }

    /// What is to be done to a packet, but for where its headers begin.
    fn spec_for(&mut self, need: FragmentationNeed) -> FragmentSpec {
        let inner = need.how != Fragmentation::Outer;
        let is_outer = need.outer > 0 && !inner;
        let id = is_outer.then_some(self.next_id);
        self.next_id = self.next_id.wrapping_add(if is_outer { self.step } else { 0 });
        FragmentSpec {
            l3: 0,
            outer: if inner { need.outer.into() } else { 0 },
            mtu: need.mtu.into(),
            id,
        }
    }

    /// The packet at `index` takes another way than was thought.
    #[cold]
    pub fn forget(&mut self, index: usize) {
        self.wanted &= !(1 << (index % BURST));
    }

    /// Whether the packet at `index` goes in fragments, if it goes at all.
    #[cold]
    pub fn has(&self, index: usize) -> bool {
        self.wanted >> index & 1 == 1
    }

    /// Whether any packet of the burst goes in fragments.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.wanted != 0
    }

    /// Gives the packets that go in fragments their fate, if they go at all.
    #[cold]
    pub fn settle(&mut self, descriptors: &mut [Descriptor]) {
        for (index, descriptor) in descriptors.iter_mut().enumerate() {
            match descriptor.fate {
                Fate::Send(port) if self.wanted >> index & 1 == 1 && port.recirculations() == 0 => {
                    descriptor.fate = Fate::Split(port);
                }
                _ => {}
            }
        }
        self.wanted = 0;
    }

    /// How the packet at `index` is cut up, which [goes in fragments](Self::has).
    #[cold]
    pub fn at(&self, index: usize) -> FragmentSpec {
        self.specs[index % BURST]
    }

    /// Cuts up a packet that has its headers: it becomes the first fragment, and the others are given.
    ///
    /// # Errors
    /// As [`fragment`].
    pub fn cut(
        &mut self,
        spec: FragmentSpec,
        whole: &mut B,
        alloc: impl FnMut() -> Option<B>,
    ) -> Result<std::vec::Drain<'_, B>, DropReason> {
        let l3 = L2::parse(whole.data())?.len.into();
        fragment(whole, FragmentSpec { l3, ..spec }, &mut self.rest, alloc)?;
        Ok(self.rest.drain(..))
    }
}
