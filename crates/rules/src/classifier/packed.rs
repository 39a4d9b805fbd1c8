//! A session's PDRs in one piece of memory, with their SDF filters ([`PatternView`]): the first packet of a flow finds
//! them in memory that no cache has.
//!
//! [`Builder`] writes the piece, [`View`] reads it; no other module knows the layout:
//!
//! ```text
//! Head, PDRs in the order of matching, tunnels, filters as `sdf` packs them
//! ```

use std::sync::Arc;

use flow::{ContentId, Direction};
use packet::Teid;
use smallvec::SmallVec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::decision::Decision;
use super::source_check::SourceCheck;
use super::tunnels::{Interfaces, Tunnel};
use crate::model::SourceInterface;
use crate::network::{LocalId, VrfId};
use crate::prefix::IpPrefix;
use crate::sdf::{
    PatternBuilder, PatternView, Span, TooManyPatterns, find_or_append, has_long_prefix, words_of,
};

/// The number of records of each kind.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Head {
    rules: u16,
    tunnels: u16,
    /// The session's own tunnels, each once: the first of the tunnels.
    own_tunnels: u16,
    /// 1: a UE address is longer than what a key's ADDRESS holds.
    has_long_prefix: u8,
    /// 1: the session has a pool of public addresses.
    has_nat: u8,
}

/// One PDR and what it leads to.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Rule {
    /// Bit n: QFI n. Zero: the PDI has none.
    pub qfis: u64,
    qers: u64,
    urrs: u64,
    tunnels: Span,
    /// Empty: the PDI has none.
    pub ue: Span,
    /// Empty: the PDI has none.
    pub filters: Span,
    vrf: u16,
    slot: u16,
    interface: u8,
    forward: u8,
    marking: u8,
    flags: u8,
    /// The flows of the application, if the PDI names one.
    pub application: Span,
}

const HAS_TUNNELS: u8 = 1;
const HAS_VRF: u8 = 1 << 1;
const IS_DOWNLINK: u8 = 1 << 2;
const REMOVES_OUTER: u8 = 1 << 3;
const DELETES_PSC: u8 = 1 << 4;
const CHECKS_UE: u8 = 1 << 5;
const CHECKS_LINK_LOCAL: u8 = 1 << 6;
const HAS_APPLICATION: u8 = 1 << 7;

/// What one PDI wants, with its filters and prefixes packed already.
pub(super) struct PackedPdi<'a> {
    pub interface: SourceInterface,
    /// `None`: the PDI has no F-TEID.
    pub tunnels: Option<&'a [Tunnel]>,
    pub vrf: Option<VrfId>,
    pub qfis: u64,
    pub ue: Span,
    pub filters: Span,
    /// `None`: the PDI names no application.
    pub application: Option<Span>,
}

impl Rule {
    pub(super) fn new(pdi: &PackedPdi<'_>, tunnels: Span, decision: &Decision) -> Self {
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        let check = match decision.source_check {
            SourceCheck::Anyone => 0,
            SourceCheck::Ue => CHECKS_UE,
            SourceCheck::UeOrLinkLocal => CHECKS_UE | CHECKS_LINK_LOCAL,
        };
        Self {
            qfis: pdi.qfis,
            qers: decision.qers,
            urrs: decision.urrs,
            tunnels,
            ue: pdi.ue,
            filters: pdi.filters,
            vrf: pdi.vrf.map_or(0, |vrf| vrf.0),
            slot: decision.pdr,
            interface: pdi.interface.value(),
            forward: decision.forward,
            marking: decision.marking,
            flags: check
                | flag(HAS_TUNNELS, pdi.tunnels.is_some())
                | flag(HAS_VRF, pdi.vrf.is_some())
                | flag(IS_DOWNLINK, decision.direction == Direction::Downlink)
                | flag(REMOVES_OUTER, decision.removes_outer)
                | flag(DELETES_PSC, decision.deletes_psc)
                | flag(HAS_APPLICATION, pdi.application.is_some()),
            application: pdi.application.unwrap_or_default(),
        }
    }

    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) const fn interface(&self) -> SourceInterface {
        SourceInterface::from_value(self.interface)
    }

    pub(super) fn vrf(&self) -> Option<VrfId> {
        self.has(HAS_VRF).then_some(VrfId(self.vrf))
    }

    /// Whether the PDI names an application.
    pub(super) const fn has_application(&self) -> bool {
        self.has(HAS_APPLICATION)
    }

    /// Whether the PDI accepts packets of this tunnel; for `None`, packets without a tunnel.
    pub(super) fn matches_tunnel(&self, tunnel: Option<Tunnel>, view: &View<'_>) -> bool {
        match tunnel {
            _ if !self.has(HAS_TUNNELS) => true,
            None => false,
            Some(tunnel) => self.names(tunnel, view),
        }
    }

    /// Whether the PDI names this tunnel.
    pub(super) fn names(&self, tunnel: Tunnel, view: &View<'_>) -> bool {
        self.tunnels
            .of(view.tunnels)
            .iter()
            .any(|own| own.tunnel() == tunnel)
    }

    /// The slot of the PDR.
    pub(super) const fn slot(&self) -> u16 {
        self.slot
    }

    pub(super) fn decision(&self) -> Decision {
        Decision {
            pdr: self.slot,
            forward: self.forward,
            qers: self.qers,
            urrs: self.urrs,
            marking: self.marking,
            direction: if self.has(IS_DOWNLINK) {
                Direction::Downlink
            } else {
                Direction::Uplink
            },
            removes_outer: self.has(REMOVES_OUTER),
            deletes_psc: self.has(DELETES_PSC),
            content: ContentId::NONE,
            source_check: if self.has(CHECKS_LINK_LOCAL) {
                SourceCheck::UeOrLinkLocal
            } else if self.has(CHECKS_UE) {
                SourceCheck::Ue
            } else {
                SourceCheck::Anyone
            },
        }
    }
}

/// A tunnel, and the source interfaces that PDRs name with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct OwnTunnel {
    teid: u32,
    local: u16,
    interfaces: u16,
}

impl OwnTunnel {
    pub(super) fn new((local, teid): Tunnel, interfaces: Interfaces) -> Self {
        Self {
            teid: teid.0,
            local: local.0,
            interfaces: interfaces.0,
        }
    }

    pub(super) fn tunnel(&self) -> Tunnel {
        (LocalId(self.local), Teid(self.teid))
    }

    pub(super) fn interfaces(&self) -> Interfaces {
        Interfaces(self.interfaces)
    }
}

/// Collects the records: those of a usual session on the stack.
pub(super) struct Builder {
    rules: SmallVec<[Rule; 4]>,
    tunnels: SmallVec<[OwnTunnel; 4]>,
    own_tunnels: u16,
    has_long_prefix: bool,
    has_nat: bool,
    /// The filters and prefixes.
    pub(super) patterns: PatternBuilder,
}

impl Builder {
    /// Of a session with these UE addresses and tunnels, each once, and this number of PDRs. `has_nat`: it has a pool
    /// of public addresses.
    pub(super) fn new(
        (ue_prefixes, has_nat): (&[IpPrefix], bool),
        tunnels: SmallVec<[OwnTunnel; 4]>,
        pdrs: usize,
    ) -> Result<Self, TooManyPatterns> {
        Ok(Self {
            rules: SmallVec::with_capacity(pdrs),
            own_tunnels: u16::try_from(tunnels.len()).map_err(|_| TooManyPatterns)?,
            tunnels,
            has_long_prefix: has_long_prefix(ue_prefixes),
            has_nat,
            patterns: PatternBuilder::new(ue_prefixes)?,
        })
    }

    /// Appends a PDR, in the order of matching. Its tunnels are of those that the session has.
    pub(super) fn add(&mut self, pdi: &PackedPdi<'_>, decision: &Decision) -> Result<(), TooManyPatterns> {
        let own = |tunnel: &Tunnel| self.tunnels.iter().find(|own| own.tunnel() == *tunnel).copied();
        let tunnels = pdi.tunnels.unwrap_or_default().iter();
        let tunnels: SmallVec<[OwnTunnel; 4]> = tunnels.filter_map(own).collect();
        let tunnels = find_or_append(&mut self.tunnels, &tunnels)?;
        self.rules.push(Rule::new(pdi, tunnels, decision));
        Ok(())
    }

    /// The packed form.
    pub(super) fn pack(&self) -> Arc<[u64]> {
        let head = Head {
            rules: self.rules.len() as u16,
            tunnels: self.tunnels.len() as u16,
            own_tunnels: self.own_tunnels,
            has_long_prefix: self.has_long_prefix.into(),
            has_nat: self.has_nat.into(),
        };
        let patterns_head = self.patterns.head();
        let [first, filters, prefixes, ports] = self.patterns.parts(&patterns_head);
        words_of(&[
            head.as_bytes(),
            self.rules.as_slice().as_bytes(),
            self.tunnels.as_slice().as_bytes(),
            first,
            filters,
            prefixes,
            ports,
        ])
    }
}

/// The packed form, to be read.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    /// The PDRs, in the order of matching.
    pub rules: &'a [Rule],
    tunnels: &'a [OwnTunnel],
    own_tunnels: u16,
    /// Whether a UE address is longer than what a key's ADDRESS holds.
    pub has_long_prefix: bool,
    /// Whether the session has a pool of public addresses.
    pub has_nat: bool,
    /// The filters and prefixes.
    pub patterns: PatternView<'a>,
}

impl<'a> View<'a> {
    const EMPTY: Self = Self {
        rules: &[],
        tunnels: &[],
        own_tunnels: 0,
        has_long_prefix: false,
        has_nat: false,
        patterns: PatternView::EMPTY,
    };

    #[inline]
    pub(super) fn of(words: &'a [u64]) -> Self {
        Self::read(words.as_bytes()).unwrap_or(Self::EMPTY)
    }

    #[inline]
    fn read(octets: &'a [u8]) -> Option<Self> {
        let (head, rest) = Head::ref_from_prefix(octets).ok()?;
        let (rules, rest) = <[Rule]>::ref_from_prefix_with_elems(rest, head.rules.into()).ok()?;
        let (tunnels, rest) = <[OwnTunnel]>::ref_from_prefix_with_elems(rest, head.tunnels.into()).ok()?;
        Some(Self {
            rules,
            tunnels,
            own_tunnels: head.own_tunnels,
            has_long_prefix: head.has_long_prefix != 0,
            has_nat: head.has_nat != 0,
            patterns: PatternView::read(rest)?,
        })
    }

    /// The session's tunnels, each once.
    pub(super) fn own_tunnels(&self) -> &'a [OwnTunnel] {
        self.tunnels.get(..self.own_tunnels.into()).unwrap_or_default()
    }
}
