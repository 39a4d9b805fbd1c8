//! What a PDR leads to.

use flow::{ContentId, Direction};

use super::source_check::SourceCheck;

/// What happens to packets that a PDR detects: slots of the session's block. The flow key that it may be kept under
/// is part of each match: [`Match::key`](crate::Match::key).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The slot of the PDR, its place in [`SessionRules::pdrs`](crate::model::SessionRules::pdrs).
    pub pdr: u16,
    /// The slot of the forward, its place in [`BlockImage::forwards`](flow::BlockImage::forwards).
    pub forward: u8,
    /// The QERs that a packet must pass: bit n is slot n.
    pub qers: u64,
    /// The URRs that a packet counts in: bit n is slot n.
    pub urrs: u64,
    /// What it is billed as, if it is of a predefined rule that says so.
    pub content: ContentId,
    /// The slot of the QER whose mark packets get, or [`Decision::NO_MARK`].
    pub marking: u8,
    /// Uplink if the PDR's source interface is Access.
    pub direction: Direction,
    /// Whether the tunnel that the packet came in comes off.
    pub removes_outer: bool,
    /// Whether the received PDU Session Container is *not* to be put into a next tunnel.
    pub deletes_psc: bool,
    /// Whose addresses the inner source may have; anything else is [`packet::DropReason::SpoofedSource`].
    pub source_check: SourceCheck,
}

impl Decision {
    /// In [`pdr`](Self::pdr): no PDR; the access list denies the packet.
    pub const NO_PDR: u16 = u16::MAX;

    /// The access list denies the packet.
    pub(super) const fn denied(direction: Direction) -> Self {
        Self {
            pdr: Self::NO_PDR,
            forward: u8::MAX,
            qers: 0,
            urrs: 0,
            content: ContentId::NONE,
            marking: Self::NO_MARK,
            direction,
            removes_outer: false,
            deletes_psc: false,
            source_check: SourceCheck::Anyone,
        }
    }

    /// Whether it is that.
    pub const fn is_denied(&self) -> bool {
        self.pdr == Self::NO_PDR
    }

    /// In [`marking`](Self::marking): no QER marks.
    pub const NO_MARK: u8 = 0xff;
}
