//! Messages of tunnels without a user packet: End Marker and Tunnel Status, from tunnel to tunnel.

use flow::{Direction, FlowFlags, ForwardKind, PortId, SessionIndex};
use packet::gtpu::{Ies, MessageType};
use packet::{DropReason, PacketBuf};

use crate::Event;
use crate::apply_rules::context::{ApplyRules, check_action, check_extensions, live, optional};
use crate::apply_rules::egress_context::check_size;
use crate::apply_rules::encap::{self, Added, Cut, Hop, addresses_v6};
use crate::apply_rules::qer_enforcement::check_gates;
use crate::burst::descriptor::Descriptor;
use crate::egress::checksum_offload::UdpChecksum;
use crate::io::PacketMetadata;

impl<B: PacketBuf + PacketMetadata> ApplyRules<'_, B> {
    /// Forwards an End Marker or Tunnel Status from tunnel to tunnel, where the gates are open. No URR counts it. Rate
    /// and form are checked, so no other traffic passes as such messages. An End Marker that is reported is not
    /// forwarded, nor is a Tunnel Status that pauses charging where the session's packets leave the tunnels.
    #[cold]
    pub(super) fn relay(&mut self, buf: &mut B, descriptor: &Descriptor) -> Result<PortId, DropReason> {
        let verdict = &descriptor.verdict;
        let block = live(self.blocks, verdict)?;
        let forward = block.forward(verdict.forward);
        let tunnel = descriptor.tunnel.ok_or(DropReason::UnsupportedGtpuMessage)?;
        check_elements(buf, descriptor)?;
        let is_end = tunnel.message_type == MessageType::END_MARKER;
        if is_end && verdict.flags.contains(FlowFlags::REPORTS_END) {
            let may = self.relays.take(block.session(), self.egress.now);
            return Err(if may {
                DropReason::EndMarkerReported
            } else {
                DropReason::RelayLimit
            });
        }
        let session = block.session();
        let pauses = tunnel.message_type == MessageType::TUNNEL_STATUS
            && verdict.direction() == Direction::Uplink
            && starts_pause(buf, descriptor);
        if pauses {
            let is_heeded = self.heed_pause(session)?;
            if is_heeded && forward.kind() != ForwardKind::Tunnel {
                return Err(DropReason::PauseOfChargingHeeded);
            }
        }
        let block = live(self.blocks, verdict)?;
        check_gates(&block, verdict)?;
        // The message starts no traffic, so an exhausted quota is not reported for it.
        if block.is_stopped(verdict.urrs) {
            return Err(DropReason::QuotaExhausted);
        }
        check_action(&forward)?;
        if forward.kind() != ForwardKind::Tunnel {
            return Err(DropReason::UnsupportedGtpuMessage);
        }
        check_extensions(&forward, descriptor)?;
        let adjacency = self.egress.adjacent(forward.adjacency())?;
        let optional = optional(self.chain, buf, descriptor, &forward, Added::Nothing)?;
        let octets = usize::from(descriptor.octets);
        let outer = encap::outer_len(&forward) + optional.len(self.chain);
        check_size(outer + octets, adjacency.link_mtu())?;
        let cut = Cut {
            offset: descriptor.offset.into(),
            octets,
            hop: Hop::None,
        };
        let message = encap::Message {
            forward: &forward,
            adjacency,
            message_type: tunnel.message_type,
            cut,
            sum: UdpChecksum::Software,
        };
        if !self.relays.take(session, self.egress.now) {
            return Err(DropReason::RelayLimit);
        }
        message.put_on(buf, optional, self.chain, || {
            addresses_v6(&block.whole_forward(verdict.forward))
        })?;
        self.egress.stats.relayed += 1;
        Ok(adjacency.port())
    }

    /// The node downstream signals the start of a Pause of Charging (TS 29.244 §5.30). Whether the session has URRs for
    /// which that is meant; then it is reported to Control, once, where they count.
    fn heed_pause(&mut self, session: SessionIndex) -> Result<bool, DropReason> {
        if self.images.begin_pause(session) {
            if !self.relays.take(session, self.egress.now) {
                self.images.forget_pause(session);
                return Err(DropReason::RelayLimit);
            }
            let event = Event::PauseOfCharging { session };
            if !self.egress.events.push(self.egress.stats, event) {
                self.images.forget_pause(session);
            }
        }
        let image = self.images.at(session);
        Ok(image.is_some_and(|image| image.rules.heeds_pause()))
    }
}

/// Whether a Tunnel Status signals the start of a Pause of Charging.
fn starts_pause<B: PacketBuf>(buf: &B, descriptor: &Descriptor) -> bool {
    elements(buf, descriptor).is_some_and(Ies::start_pause_of_charging)
}

/// The information elements of a signalling message.
fn elements<'b, B: PacketBuf>(buf: &'b B, descriptor: &Descriptor) -> Option<Ies<'b>> {
    let start = usize::from(descriptor.offset);
    let elements = buf.data().get(start..start + usize::from(descriptor.octets));
    elements.map(Ies::new)
}

/// Whether a signalling message has what such a message may have.
fn check_elements<B: PacketBuf>(buf: &B, descriptor: &Descriptor) -> Result<(), DropReason> {
    let fit = elements(buf, descriptor).is_some_and(Ies::may_be_relayed);
    fit.then_some(()).ok_or(DropReason::BadGtpuIe)
}
