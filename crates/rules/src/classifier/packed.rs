//! A session's PDRs in one piece of memory, with their SDF filters ([`PatternView`]): the first packet of a flow finds
//! them in memory that no cache has.
//!
//! [`Builder`] writes the piece, [`View`] reads it; no other module knows the layout:
//!
//! ```text
//! Head, PDRs in the order of matching, tunnels, filters as `sdf` packs them, padding, masks from the last to the first
//! ```
//!
//! Masks of QFIs, QERs and URRs are there once each: the PDRs of a session have few, and name them by their numbers. So
//! the piece of four PDRs is one of 256 octets, its reference counts among them. Only where a session has hundreds of
//! masks, one may be there again.

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
    /// The number of the mask of QFIs; that is zero where the PDI has none.
    qfis: u16,
    /// Those of the masks of QERs and URRs.
    qers: u16,
    urrs: u16,
    slot: u16,
    /// Those of a PDI with an F-TEID; of another one the number is the address space, if it has one.
    tunnels: Span,
    /// Empty: the PDI has none.
    pub ue: Span,
    /// Empty: the PDI has none.
    pub filters: Span,
    /// The flows of the application, if the PDI names one.
    pub application: Span,
    interface: u8,
    forward: u8,
    marking: u8,
    flags: u8,
}

const _: () = assert!(size_of::<Rule>() == 28, "there are very many");

/// Octets of a word.
const WORD: usize = size_of::<u64>();

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
    /// `masks` are the numbers of those of QFIs, QERs and URRs.
    fn new(pdi: &PackedPdi<'_>, masks: [u16; 3], tunnels: Span, decision: &Decision) -> Self {
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        let check = match decision.source_check {
            SourceCheck::Anyone => 0,
            SourceCheck::Ue => CHECKS_UE,
            SourceCheck::UeOrLinkLocal => CHECKS_UE | CHECKS_LINK_LOCAL,
        };
        Self {
            qfis: masks[0],
            qers: masks[1],
            urrs: masks[2],
            slot: decision.pdr,
            tunnels,
            ue: pdi.ue,
            filters: pdi.filters,
            application: pdi.application.unwrap_or_default(),
            interface: pdi.interface.value(),
            forward: decision.forward,
            marking: decision.marking,
            flags: check
                | flag(HAS_TUNNELS, pdi.tunnels.is_some())
                | flag(HAS_VRF, pdi.tunnels.is_none() && pdi.vrf.is_some())
                | flag(IS_DOWNLINK, decision.direction == Direction::Downlink)
                | flag(REMOVES_OUTER, decision.removes_outer)
                | flag(DELETES_PSC, decision.deletes_psc)
                | flag(HAS_APPLICATION, pdi.application.is_some()),
        }
    }

    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) const fn interface(&self) -> SourceInterface {
        SourceInterface::from_value(self.interface)
    }

    /// The address space of plain packets that it detects; `None`: any. A PDI with an F-TEID detects none.
    pub(super) fn vrf(&self) -> Option<VrfId> {
        self.has(HAS_VRF).then_some(VrfId(self.tunnels.number()))
    }

    /// Bit n: QFI n. Zero: the PDI has none.
    pub(super) fn qfis(&self, view: &View<'_>) -> u64 {
        view.mask(self.qfis)
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

    pub(super) fn decision(&self, view: &View<'_>) -> Decision {
        Decision {
            pdr: self.slot,
            forward: self.forward,
            qers: view.mask(self.qers),
            urrs: view.mask(self.urrs),
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
    /// In the order of their numbers: few are there twice.
    masks: SmallVec<[u64; 8]>,
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
            masks: SmallVec::new(),
            patterns: PatternBuilder::new(ue_prefixes)?,
        })
    }

    /// Appends a PDR, in the order of matching. Its tunnels are of those that the session has.
    pub(super) fn add(&mut self, pdi: &PackedPdi<'_>, decision: &Decision) -> Result<(), TooManyPatterns> {
        let masks = [pdi.qfis, decision.qers, decision.urrs];
        let [qfis, qers, urrs] = masks.map(|mask| self.mask(mask));
        let masks = [qfis?, qers?, urrs?];
        let own = |tunnel: &Tunnel| self.tunnels.iter().find(|own| own.tunnel() == *tunnel).copied();
        let tunnels = match pdi.tunnels {
            Some(tunnels) => {
                let tunnels: SmallVec<[OwnTunnel; 4]> = tunnels.iter().filter_map(own).collect();
                find_or_append(&mut self.tunnels, &tunnels)?
            }
            None => Span::without_records(pdi.vrf.map_or(0, |vrf| vrf.0)),
        };
        self.rules.push(Rule::new(pdi, masks, tunnels, decision));
        Ok(())
    }

    /// The number of a mask: of an equal one among the last of them, or of a new one. The search is bounded, as that of
    /// other records.
    fn mask(&mut self, mask: u64) -> Result<u16, TooManyPatterns> {
        Ok(find_or_append(&mut self.masks, &[mask])?.start())
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
        let mut masks: SmallVec<[u64; 8]> = SmallVec::from_slice(&self.masks);
        masks.reverse();
        let records = size_of_val(self.rules.as_slice()) + size_of_val(self.tunnels.as_slice());
        let patterns = first.len() + filters.len() + prefixes.len() + ports.len();
        let octets = size_of::<Head>() + records + patterns;
        let padding = &[0; WORD][..octets.next_multiple_of(WORD) - octets];
        words_of(&[
            head.as_bytes(),
            self.rules.as_slice().as_bytes(),
            self.tunnels.as_slice().as_bytes(),
            first,
            filters,
            prefixes,
            ports,
            padding,
            masks.as_slice().as_bytes(),
        ])
    }
}

/// The packed form, to be read.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    /// All of it: the masks are at its end.
    words: &'a [u64],
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
        words: &[],
        rules: &[],
        tunnels: &[],
        own_tunnels: 0,
        has_long_prefix: false,
        has_nat: false,
        patterns: PatternView::EMPTY,
    };

    #[inline]
    pub(super) fn of(words: &'a [u64]) -> Self {
        Self::read(words).unwrap_or(Self::EMPTY)
    }

    #[inline]
    fn read(words: &'a [u64]) -> Option<Self> {
        let (head, rest) = Head::ref_from_prefix(words.as_bytes()).ok()?;
        let (rules, rest) = <[Rule]>::ref_from_prefix_with_elems(rest, head.rules.into()).ok()?;
        let (tunnels, rest) = <[OwnTunnel]>::ref_from_prefix_with_elems(rest, head.tunnels.into()).ok()?;
        Some(Self {
            words,
            rules,
            tunnels,
            own_tunnels: head.own_tunnels,
            has_long_prefix: head.has_long_prefix != 0,
            has_nat: head.has_nat != 0,
            patterns: PatternView::read(rest)?,
        })
    }

    /// The mask of this number.
    #[inline]
    fn mask(&self, number: u16) -> u64 {
        let place = self.words.len().checked_sub(1 + usize::from(number));
        let mask = place.and_then(|place| self.words.get(place));
        mask.copied().unwrap_or_default()
    }

    /// The session's tunnels, each once.
    pub(super) fn own_tunnels(&self) -> &'a [OwnTunnel] {
        self.tunnels.get(..self.own_tunnels.into()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(pdr: u16, qers: u64, urrs: u64) -> Decision {
        Decision {
            pdr,
            forward: pdr as u8,
            qers,
            urrs,
            marking: 3,
            direction: Direction::Uplink,
            removes_outer: true,
            deletes_psc: false,
            content: ContentId::NONE,
            source_check: SourceCheck::Ue,
        }
    }

    fn pdi(qfis: u64, tunnels: Option<&[Tunnel]>, vrf: Option<VrfId>) -> PackedPdi<'_> {
        PackedPdi {
            interface: SourceInterface::Access,
            tunnels,
            vrf,
            qfis,
            ue: Span::default(),
            filters: Span::default(),
            application: None,
        }
    }

    const TUNNEL: Tunnel = (LocalId(7), Teid(0x1001));

    fn builder(pdrs: usize) -> Builder {
        let tunnels = SmallVec::from_slice(&[OwnTunnel::new(TUNNEL, Interfaces::default())]);
        let ue = IpPrefix::host(std::net::Ipv4Addr::new(10, 45, 0, 2).into());
        Builder::new((&[ue], false), tunnels, pdrs)
            .map_err(|_| "too much")
            .unwrap()
    }

    #[test]
    fn masks_come_back_however_many_there_are() {
        // Odd numbers, too: records of 28 octets, and masks of eight behind them.
        for pdrs in [1_u16, 2, 3, 5, 301] {
            let mut builder = builder(pdrs.into());
            let masks =
                |pdr: u16| [1, 2, 3].map(|salt| u64::from(pdr % 200 + 1).wrapping_mul(0x9e37_79b9 * salt));
            for pdr in 0..pdrs {
                let [qfis, qers, urrs] = masks(pdr);
                let added = builder.add(&pdi(qfis, Some(&[TUNNEL]), None), &decision(pdr, qers, urrs));
                assert!(added.is_ok());
            }
            let words = builder.pack();
            let view = View::of(&words);
            assert_eq!(view.rules.len(), usize::from(pdrs));
            for (rule, pdr) in view.rules.iter().zip(0..) {
                let [qfis, qers, urrs] = masks(pdr);
                assert_eq!(rule.qfis(&view), qfis);
                assert_eq!(rule.decision(&view), decision(pdr, qers, urrs));
                assert!(rule.names(TUNNEL, &view) && rule.vrf().is_none());
            }
        }
    }

    /// As many masks as PDRs may have: the first one is too far away to be looked for, the last one is not.
    #[test]
    fn the_search_for_an_equal_mask_is_bounded() {
        let mut builder = builder(0);
        let number = |builder: &mut Builder, mask| builder.mask(mask).map_err(|_| "too many").unwrap();
        for mask in 0..3_000 {
            assert_eq!(number(&mut builder, mask), mask as u16);
        }
        assert_eq!(number(&mut builder, 2_999), 2_999);
        assert_eq!(number(&mut builder, 3_000 - 256), 3_000 - 256);
        assert_eq!(number(&mut builder, 0), 3_000);
    }

    #[test]
    fn an_address_space_is_where_tunnels_would_be() {
        let mut builder = builder(3);
        for (pdr, vrf) in [(0, Some(VrfId(u16::MAX))), (1, Some(VrfId(0))), (2, None)] {
            assert!(builder.add(&pdi(0, None, vrf), &decision(pdr, 0, 0)).is_ok());
        }
        let words = builder.pack();
        let view = View::of(&words);
        let found: Vec<_> = view.rules.iter().map(Rule::vrf).collect();
        assert_eq!(found, [Some(VrfId(u16::MAX)), Some(VrfId(0)), None]);
        for rule in view.rules {
            assert!(rule.matches_tunnel(None, &view) && !rule.names(TUNNEL, &view));
        }
    }

    /// Four PDRs of two QoS flows, with a QER and a URR each: with its counts the piece is one of 256 octets.
    #[test]
    fn a_usual_session_is_in_four_cache_lines() {
        let mut builder = builder(4);
        for (pdr, flow) in [(0, 1), (1, 1), (2, 2), (3, 2)] {
            let tunnels = (pdr % 2 == 0).then_some(&[TUNNEL][..]);
            let qfis = if tunnels.is_some() { 1 << flow } else { 0 };
            let decision = decision(pdr, 1 << (flow - 1), 1 << (flow - 1));
            assert!(builder.add(&pdi(qfis, tunnels, None), &decision).is_ok());
        }
        let filter = crate::sdf::PackedFilter::default();
        assert!(builder.patterns.filters(&[filter]).is_ok());
        let counts = 2 * size_of::<usize>();
        assert!(size_of_val(&*builder.pack()) + counts <= 256);
    }
}
