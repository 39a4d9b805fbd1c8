//! Stage `steer`: whose packet is this?
//!
//! A user packet belongs to the worker that owns its session. One that another worker has handed over stays, even if
//! its session has moved meanwhile, so that no packet circulates between workers.

use flow::WorkerId;
use rules::classifier::Side;

use crate::burst::descriptor::{Descriptor, Fate, Keys};
use crate::ingress::steering::Steering;

/// Marks the packets that belong to another worker than `me`.
pub(crate) fn steer(steering: &Steering, me: WorkerId, descriptors: &mut [Descriptor], keys: &Keys) {
    for (place, descriptor) in descriptors.iter_mut().enumerate() {
        if !descriptor.is_open_user() || descriptor.from_inbox {
            continue;
        }
        let owner = match descriptor.side {
            Side::Tunnel { local, teid, .. } => steering.of_tunnel(local, teid),
            Side::Plain { vrf } => keys
                .destination(place, descriptor.family)
                .map_or(me, |address| steering.of_address(vrf, address)),
        };
        if owner != me {
            descriptor.fate = Fate::HandOver(owner);
        }
    }
}
