//! `FlowEntry`: one decision, as the table holds it.

use zerocopy::FromZeros;

use crate::flags::flags;
use crate::{BlockRef, Direction, ExtensionId};

flags! {
    /// What the fast path must know of a flow besides its slots.
    FlowFlags(u8) {
        /// The PDR's source interface is not Access; clear: uplink.
        DOWNLINK = 1;
        /// The outer header is removed (TS 29.244 §8.2.64).
        REMOVES_OUTER = 1 << 1;
        /// The received PDU Session Container is not put into a next tunnel (TS 29.244 §8.2.64, octet 6).
        DELETES_PSC = 1 << 2;
        /// Of a signalling message alone, which no entry is for: an End Marker is reported and not forwarded
        /// (TS 29.244 §5.2.2.5).
        REPORTS_END = 1 << 3;
        /// The access list of the session denies the packets: no PDR, no forward. [`Verdict::content`] is the number of
        /// its rule.
        DENIED = 1 << 4;
        /// With `DENIED`: senders are notified.
        REJECTED = 1 << 5;
        /// The session has public addresses of a NAT pool.
        NAT = 1 << 6;
    }
}

/// A decision about packets: slots of a session block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(C)]
pub struct Verdict {
    /// The QERs that apply: bit n is slot n.
    pub qers: u64,
    /// The URRs that count: bit n is slot n.
    pub urrs: u64,
    /// The session's block.
    pub block: BlockRef,
    /// The block's generation at the time of the decision; 0: there is no decision.
    pub generation: u32,
    /// The slot of the PDR that matched, below 1000; `u16::MAX`: none, with [`FlowFlags::DENIED`].
    pub pdr: u16,
    /// The number of the content counter, among those of the session, that packets count in, too; 0: none.
    pub content: u16,
    /// The slot of the forward.
    pub forward: u8,
    /// The slot of the QER whose mark packets get, or [`Verdict::NO_MARK`].
    pub marking: u8,
    /// What kind of flow this is.
    pub flags: FlowFlags,
    /// The line of the first meter that applies and is not in the write line, from the block's start, or else of the
    /// write line: a hint for prefetching. 0: none.
    pub meters: u8,
}

impl Verdict {
    /// No decision.
    pub const NONE: Self = Self {
        qers: 0,
        urrs: 0,
        block: BlockRef(0),
        generation: 0,
        pdr: 0,
        content: 0,
        forward: 0,
        marking: 0,
        flags: FlowFlags::NONE,
        meters: 0,
    };

    /// In `marking`: no QER marks.
    pub const NO_MARK: u8 = 0xff;

    /// Whether there is a decision.
    #[inline(always)]
    pub const fn is_some(&self) -> bool {
        self.generation != 0
    }

    /// The direction of the packets.
    #[inline(always)]
    pub const fn direction(&self) -> Direction {
        if self.flags.contains(FlowFlags::DOWNLINK) {
            Direction::Downlink
        } else {
            Direction::Uplink
        }
    }
}

/// A decision in the table: exact-match key -> verdict. It lives until it is removed, ages, or its generation is no
/// longer that of its block.
///
/// One cache line for IPv4, two for IPv6. The hit path reads it and does not write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(C, align(64))]
pub struct FlowEntry<K> {
    /// The key that packets match.
    pub key: K,
    /// The decision. Its generation is never 0 in a valid entry.
    pub verdict: Verdict,
    /// The line of [`Extensions`](crate::Extensions) with the entry's NAT. The entry owns the line; removal frees both.
    pub extension: ExtensionId,
    /// Idle timeout in ticks of 2^29 ns (0.54 s), at most 32767.
    pub idle: u16,
    /// Number of the snapshot of the shared (predefined) rules at the time of the decision. With another current
    /// snapshot the entry is *softly* stale: it stays in use until the budget allows a new decision.
    pub snapshot: u16,
}

impl<K> FlowEntry<K> {
    /// The same decision for another key, also of another kind.
    pub fn with_key<L>(&self, key: L) -> FlowEntry<L> {
        FlowEntry {
            key,
            verdict: self.verdict,
            extension: self.extension,
            idle: self.idle,
            snapshot: self.snapshot,
        }
    }
}

const _: () = assert!(size_of::<FlowEntry<crate::FlowKey4>>() == 64);
const _: () = assert!(size_of::<FlowEntry<crate::FlowKey6>>() == 128);
