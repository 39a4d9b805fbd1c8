//! Which packets are the host's before any flow is looked for: what is no user packet, and in partial mode all of them.

use flow::{Bucket, bucket};
use offload::exception::Reason;
use rules::classifier::Side;

use super::config::PartialMode;
use crate::burst::batch::BURST;
use crate::burst::descriptor::{Deferral, Descriptor, Family, Fate, Keys, Kind, PacketFlags};

/// What is no user packet, or has no flow, is the host's; and all of them where nothing of the network is known yet.
pub(super) fn set_strangers_aside(descriptors: &mut [Descriptor], knows_nothing: bool) {
    for descriptor in descriptors {
        let reason = match descriptor.fate {
            // There is no network yet that they could be foreign to.
            Fate::Drop(_) if knows_nothing => Reason::NoFlow,
            Fate::Open => match descriptor.kind {
                // They follow the user packets of their tunnels.
                Kind::Relayed => Reason::OtherHeaders,
                Kind::Tunnelled | Kind::Plain if descriptor.family == Family::None => Reason::OtherHeaders,
                Kind::Tunnelled | Kind::Plain => continue,
                _ => Reason::NotUserPacket,
            },
            Fate::Defer(Deferral::Reassembly) => Reason::NeedsReassembly,
            _ => continue,
        };
        descriptor.fate = Fate::Defer(Deferral::Host(reason));
    }
}

/// In partial mode all that is left is the host's. Notes the bucket that each packet's session may be in, by the
/// packet's place.
pub(super) fn set_users_aside(
    partial: PartialMode,
    descriptors: &mut [Descriptor],
    keys: &Keys,
    buckets: &mut [Option<Bucket>; BURST],
) {
    *buckets = [None; BURST];
    for ((index, descriptor), bucket) in descriptors.iter_mut().enumerate().zip(buckets) {
        let reason = match descriptor.fate {
            Fate::Defer(Deferral::Host(reason)) => reason,
            Fate::Open if descriptor.flags.any(PacketFlags::FRAGMENT) => Reason::NeedsReassembly,
            Fate::Open => Reason::NoFlow,
            _ => continue,
        };
        if partial.steers {
            *bucket = bucket_of(descriptor, keys, index);
        }
        descriptor.fate = Fate::Defer(Deferral::Host(reason));
    }
}

/// The bucket of a packet's tunnel, or of the address that it is for; `None` of what is no user packet.
fn bucket_of(descriptor: &Descriptor, keys: &Keys, index: usize) -> Option<Bucket> {
    if !descriptor.kind.is_user() {
        return None;
    }
    match descriptor.side {
        Side::Tunnel { teid, .. } => Some(bucket::of_teid(teid.0)),
        Side::Plain { .. } => keys.destination(index, descriptor.family).map(bucket::of_address),
    }
}
