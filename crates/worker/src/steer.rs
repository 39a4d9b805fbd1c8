//! Stage `steer`: whose packet is this?
//!
//! A user packet belongs to the worker that owns its session. One that another worker has handed over stays, whoever
//! owns it by now, so that no packet goes round between workers.

use flow::WorkerId;
use rules::classifier::Side;

use crate::descriptor::{Descriptor, Fate};
use crate::steering::Steering;

/// Marks the packets that belong to another worker than `me`.
pub(crate) fn steer(steering: &Steering, me: WorkerId, descriptors: &mut [Descriptor]) {
    for descriptor in descriptors {
        if !descriptor.is_open_user() || descriptor.from_inbox {
            continue;
        }
        let owner = owner(steering, descriptor).unwrap_or(me);
        if owner != me {
            descriptor.fate = Fate::HandOver(owner);
        }
    }
}

#[inline]
fn owner(steering: &Steering, descriptor: &Descriptor) -> Option<WorkerId> {
    match descriptor.side {
        Side::Tunnel { local, teid, .. } => Some(steering.of_tunnel(local, teid)),
        Side::Plain { vrf } => Some(steering.of_address(vrf, descriptor.tuple.as_ref()?.addrs.dst())),
    }
}
