//! Unsolicited packets: those that have come through a live mapping from an address that the mapping has not sent to.
//! ICMP errors about what it has sent are solicited by any sender, but those of such addresses page as they do: anyone
//! who knows where a mapping has sent to can make them.
//!
//! They are found where the mapping is looked up. What their session's pool says of them is done behind `map`, where
//! the session is known, and where they would wait for their UE. Nothing else of the packet path knows of them: what is
//! not charged has no URRs in its verdict from then on. The buffer of a packet keeps that it is one, for when it has
//! waited.

use flow::{Blocks, FlowFlags, ForwardFlags, ForwardKind, SessionIndex};
use nat::pools::UnsolicitedPolicy;
use packet::DropReason;

use crate::apply_rules::context::live;
use crate::burst::Burst;
use crate::burst::batch::BURST;
use crate::burst::descriptor::{Deferral, Fate};
use crate::io::PacketMetadata;
use crate::trace::TracedUnsolicited;

/// The unsolicited packets of a burst: bit n is index n.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unsolicited {
    all: u64,
    /// Of the others, the errors of those that the mapping has not sent to.
    errors: u64,
    /// Those that page no UE.
    silent: u64,
    /// Those that count in no URR.
    uncharged: u64,
}

impl Unsolicited {
    /// Of a new burst there are none.
    #[inline]
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cold]
    pub(super) fn note(&mut self, index: usize) {
        self.all |= 1 << (index % BURST);
    }

    /// The packet at `index` is an error about what a mapping has sent, of one that it has not sent to.
    #[cold]
    pub(super) fn note_error(&mut self, index: usize) {
        self.errors |= 1 << (index % BURST);
    }

    /// What was made of the packet at `index`, if it is one.
    pub(super) fn traced(&self, index: usize) -> Option<TracedUnsolicited> {
        has(self.all, index).then(|| TracedUnsolicited {
            pages: !self.is_silent(index),
            is_charged: !self.is_uncharged(index),
        })
    }

    /// Whether the packet at `index` is one that pages no UE.
    pub fn is_silent(&self, index: usize) -> bool {
        has(self.silent, index)
    }

    /// The octets of the packet at `index` that may count in URRs.
    pub fn charged_octets(&self, index: usize, octets: u16) -> u16 {
        match self.is_uncharged(index) {
            false => octets,
            true => 0,
        }
    }

    /// Whether the packet at `index` is one that counts in no URR.
    pub fn is_uncharged(&self, index: usize) -> bool {
        has(self.uncharged, index)
    }
}

fn has(bits: u64, index: usize) -> bool {
    bits >> (index % BURST) & 1 == 1
}

/// The indexes of the bits that are set.
fn indexes(mut bits: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let index = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(index)
    })
}

impl Unsolicited {
    /// Whether there are any, or errors that page as they do.
    #[inline]
    pub(super) const fn any(self) -> bool {
        self.all | self.errors != 0
    }

    /// Does with them what the policies of their sessions say. Those that are not charged go no further where a quota
    /// is used up; those that page no UE, not where they would wait for one, here or in a CP function: before they
    /// count in URRs that measure before QoS enforcement. What an access list denies goes nowhere.
    #[cold]
    pub(super) fn treat<B: PacketMetadata>(
        &mut self,
        burst: &mut Burst<B>,
        blocks: &mut Blocks,
        policy_of: impl Fn(SessionIndex) -> Option<UnsolicitedPolicy>,
    ) {
        for index in indexes(self.all | self.errors) {
            let descriptor = &mut burst.descriptors[index];
            let is_denied = descriptor.verdict.flags.contains(FlowFlags::DENIED);
            if !descriptor.is_open_user() || !descriptor.verdict.is_some() || is_denied {
                continue;
            }
            let Ok(block) = live(blocks, &descriptor.verdict) else {
                continue;
            };
            let Some(UnsolicitedPolicy { pages, charged }) = policy_of(block.session()) else {
                continue;
            };
            let is_error = !has(self.all, index);
            let charged = charged || is_error;
            let forward = block.forward(descriptor.verdict.forward);
            let would_page = forward.kind() == ForwardKind::Buffer
                || forward.flags().contains(ForwardFlags::TO_CP_FUNCTION);
            let is_stopped = !charged && block.is_stopped(descriptor.verdict.urrs) || !pages && would_page;
            if !is_error {
                let packet = &mut burst.packets[index];
                packet.set_ingress(packet.ingress().unsolicited());
            }
            let bit = 1 << (index % BURST);
            if !pages {
                self.silent |= bit;
            }
            if !charged {
                self.uncharged |= bit;
                (descriptor.verdict.urrs, descriptor.verdict.content) = (0, 0);
            }
            if is_stopped {
                descriptor.fate = Fate::Drop(DropReason::NatUnsolicited);
            }
        }
    }

    /// Packets that page no UE end here if they are to wait for one by the FAR of a quota.
    #[cold]
    pub fn stop_paging<B>(&self, burst: &mut Burst<B>) {
        for index in indexes(self.silent) {
            let fate = &mut burst.descriptors[index].fate;
            if *fate == Fate::Defer(Deferral::Buffer) {
                *fate = Fate::Drop(DropReason::NatUnsolicited);
            }
        }
    }
}
