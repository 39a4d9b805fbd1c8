//! Which packets are the host's before any flow is looked for: what is no user packet, and in partial mode all of them.

use flow::{Bucket, bucket};
use offload::exception::Reason;
use rules::classifier::Side;

use super::config::PartialMode;
use super::engine::Engine;
use crate::burst::descriptor::{Deferral, Descriptor, Family, Fate, Keys, Kind, PacketFlags};
use crate::io::Io;

impl<I: Io> Engine<I> {
    /// Whether it is in partial mode, with what the host takes.
    pub(super) const fn partial_mode(&self) -> Option<PartialMode> {
        self.partial
    }

    /// Enters partial mode, or leaves it. It holds no flow then that packets could wait for.
    pub(super) const fn set_partial_mode(&mut self, partial: Option<PartialMode>) {
        self.partial = partial;
    }

    /// What is no user packet, or has no flow, is the host's.
    pub(super) fn set_strangers_aside(&mut self) {
        let packets = self.burst.packets.len();
        let knows_nothing = self.tables.interfaces.is_empty();
        for descriptor in &mut self.burst.descriptors[..packets] {
            let reason = match descriptor.fate {
                // There is no network yet that they could be foreign to.
                Fate::Drop(_) if knows_nothing => Reason::NoFlow,
                Fate::Open => match descriptor.kind {
                    // They follow the user packets of their tunnels.
                    Kind::Relayed => Reason::OtherHeaders,
                    Kind::Tunnelled | Kind::Plain if descriptor.family == Family::None => {
                        Reason::OtherHeaders
                    }
                    Kind::Tunnelled | Kind::Plain => continue,
                    _ => Reason::NotUserPacket,
                },
                Fate::Defer(Deferral::Reassembly) => Reason::NeedsReassembly,
                _ => continue,
            };
            descriptor.fate = Fate::Defer(Deferral::Host(reason, None));
        }
    }

    /// In partial mode all that is left is the host's, and it is said which bucket each packet's session may be in.
    pub(super) fn set_users_aside(&mut self, partial: PartialMode) {
        let packets = self.burst.packets.len();
        let keys = &self.burst.keys;
        for (index, descriptor) in self.burst.descriptors[..packets].iter_mut().enumerate() {
            let reason = match descriptor.fate {
                Fate::Defer(Deferral::Host(reason, _)) => reason,
                Fate::Open if descriptor.flags.any(PacketFlags::FRAGMENT) => Reason::NeedsReassembly,
                Fate::Open => Reason::NoFlow,
                _ => continue,
            };
            let bucket = match partial.steers {
                true => bucket_of(descriptor, keys, index),
                false => None,
            };
            descriptor.fate = Fate::Defer(Deferral::Host(reason, bucket));
        }
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
