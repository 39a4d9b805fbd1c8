//! Whose address a packet's source is: the check against UEs that send from another's address.

use std::net::IpAddr;

use crate::image::SourceCheck;
use crate::model::{DestinationInterface, FarId, Pdr, SessionRules, SourceInterface};
use crate::prefix::IpPrefix;

/// Whether `source` is one of the UE's addresses `prefixes`.
pub fn owns(mut prefixes: impl Iterator<Item = IpPrefix>, source: IpAddr) -> bool {
    prefixes.any(|prefix| prefix.contains(source))
}

/// Whether `source` is in fe80::/10 and the UE has IPv6 at all.
pub fn is_link_local(mut prefixes: impl Iterator<Item = IpPrefix>, source: IpAddr) -> bool {
    let has_ipv6 = prefixes.any(|prefix| !prefix.is_ipv4());
    has_ipv6 && matches!(source, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Whether `check` lets a packet from `source` pass, in a session whose UE has the addresses `prefixes`.
pub fn allows_source(
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

/// What packets that `pdr` detects and `far` sends may have as source; `knows_ue`: the session has UE addresses. From
/// Access to Access is indirect forwarding between gNBs: downlink packets, whose source is not the UE (TS 29.244
/// §8.2.24, NOTE 3).
pub fn source_check(rules: &SessionRules, pdr: &Pdr, far: Option<FarId>, knows_ue: bool) -> SourceCheck {
    if pdr.pdi.source_interface != SourceInterface::Access || !knows_ue {
        return SourceCheck::Anyone;
    }
    let forwarding = far.and_then(|id| rules.far(id)).and_then(|far| far.forwarding);
    match forwarding.map(|parameters| parameters.destination) {
        Some(DestinationInterface::Access) => SourceCheck::Anyone,
        Some(DestinationInterface::CpFunction) => SourceCheck::UeOrLinkLocal,
        _ => SourceCheck::Ue,
    }
}
