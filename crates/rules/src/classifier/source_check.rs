//! Whose addresses a packet's source may have: the check against UEs that send from another's address.

use std::net::IpAddr;

use crate::model::{DestinationInterface, FarId, Pdr, SessionRules, SourceInterface};
use crate::prefix::{IpPrefix, is_link_local, owns};

/// Whose addresses an inner packet's source may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceCheck {
    /// Anyone's: downlink, or relayed between gNBs, or a session without UE addresses.
    Anyone,
    /// The UE's: uplink.
    Ue,
    /// The UE's or an IPv6 link-local one: uplink to the control plane function, which receives router solicitations.
    UeOrLinkLocal,
}

/// Whether `check` lets a packet from `source` pass, in a session whose UE has the addresses `prefixes`.
pub(super) fn allows_source(
    prefixes: impl Iterator<Item = IpPrefix> + Clone,
    check: SourceCheck,
    source: IpAddr,
) -> bool {
    match check {
        SourceCheck::Anyone => true,
        SourceCheck::Ue => owns(prefixes, source),
        SourceCheck::UeOrLinkLocal => owns(prefixes.clone(), source) || is_link_local(prefixes, source),
    }
}

fn destination(rules: &SessionRules, far: Option<FarId>) -> Option<DestinationInterface> {
    let forwarding = far.and_then(|id| rules.far(id)).and_then(|far| far.forwarding);
    forwarding.map(|parameters| parameters.destination)
}

/// Whether a PDR leads to Access: from there, that is indirect forwarding of downlink packets.
pub(super) fn leads_to_access(rules: &SessionRules, pdr: &Pdr) -> bool {
    destination(rules, pdr.far) == Some(DestinationInterface::Access)
}

/// Whether what comes from Access goes the same way by both rules, which differ in FARs alone.
pub(crate) fn have_same_directions(rules: &SessionRules, older: &SessionRules) -> bool {
    let pdrs = rules.pdrs().iter();
    let mut from_access = pdrs.filter(|pdr| pdr.pdi.source_interface == SourceInterface::Access);
    from_access.all(|pdr| leads_to_access(rules, pdr) == leads_to_access(older, pdr))
}

/// What packets that `pdr` detects and `far` sends may have as source; `knows_ue`: the session has UE addresses. From
/// Access to Access is indirect forwarding between gNBs: downlink packets, whose source is not the UE (TS 29.244
/// §8.2.24, NOTE 3).
pub(crate) fn source_check(
    rules: &SessionRules,
    pdr: &Pdr,
    far: Option<FarId>,
    knows_ue: bool,
) -> SourceCheck {
    if pdr.pdi.source_interface != SourceInterface::Access || !knows_ue {
        return SourceCheck::Anyone;
    }
    match destination(rules, far) {
        Some(DestinationInterface::Access) => SourceCheck::Anyone,
        Some(DestinationInterface::CpFunction) => SourceCheck::UeOrLinkLocal,
        _ => SourceCheck::Ue,
    }
}
