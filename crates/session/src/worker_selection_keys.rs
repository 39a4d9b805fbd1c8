//! The worker selection keys of a session's tunnels and UE addresses.

use rules::worker_selection::WorkerSelectionKey;

use crate::tunnels::Tunnel;
use crate::ue_addresses::UeAddress;

/// The keys of these tunnels and UE addresses.
pub(crate) fn keys<'a>(
    tunnels: &'a [Tunnel],
    addresses: &'a [UeAddress],
) -> impl Iterator<Item = WorkerSelectionKey> + 'a {
    let tunnels = tunnels
        .iter()
        .map(|(local, teid)| WorkerSelectionKey::Tunnel(*local, *teid));
    tunnels.chain(
        addresses
            .iter()
            .map(|(vrf, prefix)| WorkerSelectionKey::Address(*vrf, *prefix)),
    )
}
