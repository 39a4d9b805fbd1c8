//! Which packets of a burst are kept while the host is asked about them.

use flow::Nanos;
use offload::exception::Question;
use packet::PacketBuf;

use super::aside::Aside;
use super::asking::Unknown;
use crate::burst::Burst;
use crate::burst::descriptor::{Deferral, Fate, Kind, PacketFlags};
use crate::io::PacketMetadata;

/// Octets of layer 4 that are shown to the host: a TCP header without options.
const LAYER4: usize = 20;

impl<B: PacketBuf + PacketMetadata> Aside<B> {
    /// What becomes of a packet of the network, if others of its ends are kept.
    pub fn kept_or_not(&self, burst: &Burst<B>, index: usize) -> Option<Fate> {
        if self.asking.is_empty() {
            return None;
        }
        let descriptor = &burst.descriptors[index];
        if descriptor.flags.any(PacketFlags::FRAGMENT) {
            return None;
        }
        let whole = burst.keys.whole(index, descriptor.family)?;
        let slot = self.asking.find(&whole)?;
        Some(Fate::Defer(Deferral::Asking(slot)))
    }

    /// Keeps a packet of an unknown flow, about which the host is asked, if it can say anything by the first octets.
    pub fn ask_or_not(&mut self, burst: &Burst<B>, index: usize, now: Nanos) -> Option<Fate> {
        let (packet, descriptor) = (&burst.packets[index], &burst.descriptors[index]);
        let is_plain = matches!(descriptor.kind, Kind::Tunnelled | Kind::Plain)
            && descriptor.defect.is_none()
            && !descriptor.flags.any(PacketFlags::FRAGMENT)
            && packet.ingress().recirculations() == 0;
        if !is_plain {
            return None;
        }
        let whole = burst.keys.whole(index, descriptor.family)?;
        let layer4 = descriptor.plain_layer4(packet.data())?;
        let length = u16::try_from(packet.len()).ok()?;
        let head = (usize::from(layer4) + LAYER4).min(packet.len());
        if head > Question::MAX_HEAD {
            return None;
        }
        let unknown = Unknown {
            port: packet.ingress().with_recirculations(0),
            length,
            user_packet: descriptor.offset,
            layer4: if layer4 < length { layer4 } else { 0 },
            head: packet.data().get(..head)?,
        };
        let slot = self.asking.ask(&whole, &unknown, now)?;
        Some(Fate::Defer(Deferral::Asking(slot)))
    }

    /// Notes of which sessions packets of the burst have gone to the host.
    #[cold]
    pub fn note_excepted(&mut self, burst: &Burst<B>) {
        for index in self.excepted.drain(..).map(usize::from) {
            let family = burst.descriptors[index % crate::BURST].family;
            if let Some(whole) = burst.keys.whole(index, family) {
                self.asking.note_whole(&whole);
            }
        }
    }
}
