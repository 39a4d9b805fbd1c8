//! The steering keys of a session's tunnels and UE addresses.

use rules::steering::SteerKey;

use crate::tunnels::Tunnel;
use crate::ue_addresses::UeAddress;

/// The keys of these tunnels and UE addresses.
pub(crate) fn keys<'a>(
    tunnels: &'a [Tunnel],
    addresses: &'a [UeAddress],
) -> impl Iterator<Item = SteerKey> + 'a {
    let tunnels = tunnels
        .iter()
        .map(|(local, teid)| SteerKey::Tunnel(*local, *teid));
    tunnels.chain(
        addresses
            .iter()
            .map(|(vrf, prefix)| SteerKey::Address(*vrf, *prefix)),
    )
}
