//! Packets that `plan` leaves: user packets in any of their forms, and messages of tunnels without a user packet.

use flow::meter::Colour;
use flow::{Direction, Forward, ForwardFlags, ForwardKind, LiveBlock, PackedForward, Verdict};
use packet::gtpu::MessageType;
use packet::{DropReason, IpTuple, PacketBuf};
use rules::classifier::PacketView;
use rules::image::{QuotaAction, SessionImage};
use transport::Adjacency;

use crate::apply_rules::context::{ApplyRules, check_action, check_extensions, live, optional};
use crate::apply_rules::egress_context::{BlockForward, PacketSize, UserPacket};
use crate::apply_rules::encap::{self, Added, Cut, Hop, Optional, addresses_v6};
use crate::apply_rules::marking::{self, EgressMark};
use crate::apply_rules::qer_enforcement::{check_gates, enforce_rates};
use crate::burst::batch::{BURST, Batch};
use crate::burst::credit::credit_back;
use crate::burst::descriptor::{Deferral, Descriptor, Family, Fate, PacketFlags, PacketKey};
use crate::burst::outcome::CopyRequest;
use crate::egress::checksum_offload::UdpChecksum;
use crate::ingress::parse::gather_headers;
use crate::io::PacketMetadata;

/// What is known of a packet before it is counted.
struct Found<'a> {
    forward: PackedForward,
    adjacency: &'a Adjacency,
    /// Whether this node is a router to it.
    routed: bool,
    optional: Optional,
    marks: EgressMark,
}

impl<'a, B: PacketBuf + PacketMetadata> ApplyRules<'a, B> {
    /// A user packet in any of its forms: tunnels over IPv6, relayed extension headers, Paging Policy Indicators, NAT,
    /// mirrors, whatever is dropped for what its FAR says, and what quotas do not allow.
    #[cold]
    pub(super) fn apply_general_case(
        &mut self,
        buf: &mut B,
        descriptor: &mut Descriptor,
        packet: PacketKey<'_>,
    ) -> Result<Fate, DropReason> {
        let mut acting = None;
        match self.try_general_case(buf, descriptor, packet, &mut acting)? {
            Some(fate) => Ok(fate),
            None => self
                .try_general_case(buf, descriptor, packet, &mut acting)?
                .ok_or(DropReason::QuotaExhausted),
        }
    }

    /// `None`, and it has taken and counted nothing, for a packet that does not fit into a quota: that is used up now.
    /// `acting` is the slot of the URR whose FAR the packet goes by instead of its own, if there is one.
    fn try_general_case(
        &mut self,
        buf: &mut B,
        descriptor: &mut Descriptor,
        packet: PacketKey<'_>,
        acting: &mut Option<u8>,
    ) -> Result<Option<Fate>, DropReason> {
        let index = packet.index;
        let mut verdict = descriptor.verdict;
        let octets = usize::from(descriptor.octets);
        let direction = verdict.direction() as usize;
        let block = live(self.blocks, &verdict)?;
        self.egress.stats.directions[direction].matched.add(octets);
        check_gates(&block, &verdict)?;
        if block.is_stopped(verdict.urrs) {
            self.heed_quotas(buf, descriptor, packet, &mut verdict, acting)?;
        }
        self.detect_events(buf, descriptor, &mut verdict)?;
        if let Some(fate) = self.end_by_far(descriptor, &verdict, index)? {
            return Ok(Some(fate));
        }
        let mut block = live(self.blocks, &verdict)?;
        let forward = block.forward(verdict.forward);
        let routed = match forward.kind() {
            ForwardKind::Unchanged => false,
            kind => kind == ForwardKind::Plain || descriptor.tunnel.is_none(),
        };
        if routed && descriptor.ttl <= 1 {
            return Err(self.egress.expire(index));
        }
        let colour = enforce_rates(&mut block, &verdict, octets, self.egress.now, self.shared)?;
        self.egress.outcome.yellow |= u64::from(colour == Colour::Yellow) << (index % BURST);
        let found = self.find(buf, descriptor, packet, &verdict, routed, colour);
        if found.is_ok() {
            let mut block = live(self.blocks, &verdict)?;
            if !self.egress.count_with_events(&mut block, &verdict, octets) {
                self.come_again(index, &verdict, octets);
                return Ok(None);
            }
            let group = block.group();
            self.count_group(group, &verdict, octets);
            self.count_content(&verdict, octets);
        }
        note_copies(
            &mut self.egress.outcome.copied,
            &live(self.blocks, &verdict)?,
            &verdict,
            index,
        );
        let found = found?;
        let port = found.adjacency.port();
        if let Err(reason) = self.write(buf, descriptor, &verdict, index, found) {
            credit_back(self.blocks, descriptor);
            return Err(reason);
        }
        self.note_mirror(&verdict, index);
        self.egress.stats.directions[direction].forwarded.add(octets);
        Ok(Some(Fate::Send(port)))
    }

    /// Applies exhausted quotas to a packet: it passes, in none of their URRs, if they exempt it
    /// or have a FAR for it; then that FAR is its own from here on (TS 29.244 §5.2.2.2.1). Of several such FARs it is
    /// that of the first URR; where one URR has none, the packet is dropped.
    fn heed_quotas(
        &mut self,
        buf: &B,
        descriptor: &mut Descriptor,
        packet: PacketKey<'_>,
        verdict: &mut Verdict,
        acting: &mut Option<u8>,
    ) -> Result<(), DropReason> {
        let mut block = live(self.blocks, verdict)?;
        let stopped = block.stopped(verdict.urrs);
        let dropped = self.egress.stopped(&mut block, stopped);
        let image = self.images.at(block.session());
        let image = image.filter(|image| !image.quota_actions.is_empty());
        let image = image.ok_or(dropped)?;
        let StoppedUrrs {
            urrs: stopped,
            counters,
        } = whole_urrs(image, stopped);
        let tuple = known_tuple(buf, descriptor, packet)?;
        let view = PacketView {
            side: descriptor.side,
            tuple: &tuple,
        };
        let is_answer = buf.ingress().is_answer();
        let mut substitute = None;
        for urr in (0..64).filter(|urr| stopped >> urr & 1 == 1) {
            let action = image.quota_action(urr).ok_or(dropped)?;
            if !is_exempt(action, &block, &view, is_answer) {
                let forward = action.forward.ok_or(dropped)?;
                substitute = substitute.or(Some((urr, forward)));
            }
        }
        verdict.urrs = image.without_empty_pools(verdict.urrs & !counters);
        descriptor.verdict.urrs = verdict.urrs;
        if let Some((urr, forward)) = substitute
            && acting.is_none_or(|before| urr < before)
        {
            *acting = Some(urr);
            (verdict.forward, descriptor.verdict.forward) = (forward, forward);
            let kind = block.forward(forward).kind();
            let leads_out = matches!(kind, ForwardKind::Plain | ForwardKind::Unchanged);
            if let Some(defect) = descriptor.defect.filter(|_| leads_out) {
                return Err(defect);
            }
        }
        Ok(())
    }

    /// Leaves of the counters of events those that a packet counts in: all, or none if it is no event (TS 29.244
    /// §5.2.2.2.1).
    fn detect_events(
        &mut self,
        buf: &mut B,
        descriptor: &mut Descriptor,
        verdict: &mut Verdict,
    ) -> Result<(), DropReason> {
        if !self.counts_events(verdict) {
            return Ok(());
        }
        let session = live(self.blocks, verdict)?.session();
        let Some(image) = self.images.at(session) else {
            return Ok(());
        };
        gather_headers(buf);
        let tuple = descriptor.tuple(buf.data())?;
        let packet = buf.data().get(usize::from(descriptor.offset)..);
        if !image
            .events
            .of(verdict.pdr)
            .detects(&tuple, packet.unwrap_or_default())
        {
            verdict.urrs &= !image.event_mask();
            descriptor.verdict.urrs = verdict.urrs;
        }
        Ok(())
    }

    /// A packet whose FAR does not let it leave: buffered, dropped, or redirected.
    fn end_by_far(
        &mut self,
        descriptor: &Descriptor,
        verdict: &Verdict,
        index: usize,
    ) -> Result<Option<Fate>, DropReason> {
        let octets = usize::from(descriptor.octets);
        let mut block = live(self.blocks, verdict)?;
        let forward = block.forward(verdict.forward);
        match forward.kind() {
            ForwardKind::Buffer => {
                // It counts as matched when it is released.
                let matched = &mut self.egress.stats.directions[verdict.direction() as usize].matched;
                matched.take_back(octets as u64);
                note_copies(&mut self.egress.outcome.copied, &block, verdict, index);
                return Ok(Some(Fate::Defer(Deferral::Buffer)));
            }
            ForwardKind::Drop => {
                note_copies(&mut self.egress.outcome.copied, &block, verdict, index);
                let tells = forward.flags().contains(ForwardFlags::NOTIFY);
                if tells && verdict.direction() == Direction::Downlink {
                    let _ = self.egress.outcome.discarded.push(index as u8);
                }
            }
            _ => {}
        }
        check_action(&forward)?;
        check_extensions(&forward, descriptor)?;
        if forward.kind() != ForwardKind::Redirect {
            return Ok(None);
        }
        enforce_rates(&mut block, verdict, octets, self.egress.now, self.shared)?;
        Ok(Some(Fate::Redirect))
    }

    /// Finds the way of a packet, and what it leaves in.
    fn find(
        &mut self,
        buf: &B,
        descriptor: &Descriptor,
        PacketKey { index, keys }: PacketKey<'_>,
        verdict: &Verdict,
        routed: bool,
        colour: Colour,
    ) -> Result<Found<'a>, DropReason> {
        let block = live(self.blocks, verdict)?;
        let forward = block.forward(verdict.forward);
        let between = keys.between(index, descriptor.family);
        let id = match forward.kind() {
            ForwardKind::Unchanged => self.egress.towards_node(&block, &forward, between)?,
            _ => self.egress.next_hop(&block, &forward, between)?,
        };
        let adjacency = self.egress.adjacent(id)?;
        let mark = block.mark(verdict.marking);
        let added = Added::of(forward.flags(), mark);
        let optional = optional(self.chain, buf, descriptor, &forward, added)?;
        let outer = encap::outer_len(&forward) + optional.len(self.chain);
        let octets = usize::from(descriptor.octets);
        let user_packet = UserPacket {
            buf,
            offset: descriptor.offset,
        };
        let forwarded_by = BlockForward {
            block: &block,
            slot: verdict.forward,
        };
        let size = PacketSize { outer, octets };
        self.egress
            .check_size(index, size, adjacency, user_packet, forwarded_by)?;
        Ok(Found {
            adjacency,
            routed,
            optional,
            marks: marking::egress_mark(&self.egress.tables.interfaces, &forward, descriptor, mark, colour),
            forward,
        })
    }

    /// What computes the checksum of the packet at `index`: the port, if that can, and if the packet leaves as it is
    /// and is not copied.
    fn sum_of(&self, index: usize, found: &Found<'_>) -> UdpChecksum {
        let is_copied = found.forward.flags().contains(ForwardFlags::MIRROR);
        match self.checksum_offload {
            Some(offload) if !is_copied && !self.egress.fragmenter.has(index) => {
                offload.of(found.adjacency.port())
            }
            _ => UdpChecksum::Software,
        }
    }

    /// Puts into the buffer of the packet at `index` what leaves.
    fn write(
        &mut self,
        buf: &mut B,
        descriptor: &Descriptor,
        verdict: &Verdict,
        index: usize,
        found: Found<'_>,
    ) -> Result<(), DropReason> {
        let sum = self.sum_of(index, &found);
        let Found {
            mut forward,
            adjacency,
            marks,
            ..
        } = found;
        if let Some(dscp) = marks.dscp {
            marking::mark(buf, descriptor, &mut forward, dscp)?;
        }
        let is_v4 = descriptor.family == Family::V4;
        let cut = Cut {
            offset: descriptor.offset.into(),
            octets: descriptor.octets.into(),
            hop: Hop::of(found.routed, is_v4),
        };
        if forward.kind() != ForwardKind::Tunnel {
            encap::plain(buf, cut, is_v4, adjacency)?;
        } else {
            let block = live(self.blocks, verdict)?;
            let message = encap::Message {
                forward: &forward,
                adjacency,
                message_type: MessageType::G_PDU,
                cut,
                sum,
            };
            message.put_on(buf, found.optional, self.chain, || {
                addresses_v6(&block.whole_forward(verdict.forward))
            })?;
        }
        if marks.pcp != 0 {
            marking::prioritise(buf, marks.pcp);
        }
        Ok(())
    }

    /// Notes the port that gets a copy of a packet as it leaves.
    fn note_mirror(&mut self, verdict: &Verdict, index: usize) {
        if let Ok(block) = live(self.blocks, verdict)
            && block
                .forward(verdict.forward)
                .flags()
                .contains(ForwardFlags::MIRROR)
            && let Some(port) = block.whole_forward(verdict.forward).mirror
            && port != Forward::COPIES
        {
            let _ = self.egress.outcome.copied.push(CopyRequest {
                index: index as u8,
                port,
            });
        }
    }
}

/// URRs with an exhausted quota; bit n is slot n.
struct StoppedUrrs {
    urrs: u64,
    /// All counters of these URRs, of volume, events and weights.
    counters: u64,
}

/// The URRs of which one of the counters `stopped` has stopped.
fn whole_urrs(image: &SessionImage, stopped: u64) -> StoppedUrrs {
    let bit = |slot: u8| 1u64 << (slot & 63);
    let own = stopped & !image.event_mask();
    let urrs = image
        .event_slots()
        .fold(own, |urrs, event| match stopped & bit(event.slot) {
            0 => urrs,
            _ => urrs | bit(event.urr),
        });
    let counters = image
        .event_slots()
        .fold(urrs, |all, event| match urrs & bit(event.urr) {
            0 => all,
            _ => all | bit(event.slot),
        });
    let members = image.pools.iter().flat_map(|pool| &pool.members);
    let weights = members.filter(|member| urrs & bit(member.slot) != 0);
    let weights = weights.filter_map(|member| member.weight_slot);
    StoppedUrrs {
        urrs,
        counters: weights.fold(counters, |all, slot| all | bit(slot)),
    }
}

/// Whether a quota that is used up does not stop a packet: one of those that it exempts, or the response of a
/// redirection.
fn is_exempt(action: &QuotaAction, block: &LiveBlock<'_>, packet: &PacketView<'_>, is_answer: bool) -> bool {
    let redirects = |forward: u8| block.forward(forward).kind() == ForwardKind::Redirect;
    let exemption = action.exemption.as_ref();
    is_answer && action.forward.is_some_and(redirects)
        || exemption.is_some_and(|exemption| exemption.takes(packet, block.direction()))
}

/// What the headers of a packet say, as it was received. A fragment behind the first has the ports of that one, if they
/// are known.
fn known_tuple<B: PacketBuf>(
    buf: &B,
    descriptor: &Descriptor,
    PacketKey { index, keys }: PacketKey<'_>,
) -> Result<IpTuple, DropReason> {
    let mut tuple = descriptor.tuple(buf.data())?;
    if descriptor.flags.any(PacketFlags::RESOLVED)
        && let Some(known) = keys.tuple(index, descriptor.family, false)
    {
        (tuple.proto, tuple.src_port, tuple.dst_port) = (known.proto, known.src_port, known.dst_port);
    }
    Ok(tuple)
}

/// Notes that a packet is copied as its session's image says: behind gates and meters, whatever becomes of it then.
fn note_copies(wanted: &mut Batch<CopyRequest>, block: &LiveBlock<'_>, verdict: &Verdict, index: usize) {
    if block
        .forward(verdict.forward)
        .flags()
        .contains(ForwardFlags::MIRROR)
        && block.whole_forward(verdict.forward).mirror == Some(Forward::COPIES)
    {
        let _ = wanted.push(CopyRequest {
            index: index as u8,
            port: Forward::COPIES,
        });
    }
}
