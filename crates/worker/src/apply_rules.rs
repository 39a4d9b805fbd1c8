//! Stage `apply_rules`: the FAR, QERs and URRs of its verdict are applied to each packet.
//!
//! Gates, then meters, then counters, then headers: removal, creation, TTL. `lookup` has prefetched the memory that
//! this stage reads. The order of the checks is that of `rules::reference_interpreter`, so that a packet which fails
//! several is dropped for the same reason: gate, quota, action, extension headers, TTL; then it passes the meters; then
//! route, neighbour and length. The packets that pass are counted: a packet that is dropped for any reason is not
//! charged, and one that `tx` loses is credited back. Only URRs that measure before QoS enforcement count a packet
//! before all of this.
//!
//! Common packets are planned here (`plan`), all others in [`general_case`]. Both enforce QERs by [`qer_enforcement`]
//! and find route, adjacency and size by [`egress_context`].

pub(crate) mod context;
pub(crate) mod egress_context;
pub(crate) mod encap;
mod general_case;
pub(crate) mod marking;
pub(crate) mod mss_clamping;
mod qer_enforcement;
pub(crate) mod ran_congestion;
mod relay;

use flow::meter::Colour;
use flow::{FlowFlags, ForwardFlags, ForwardKind, LiveBlock, PackedForward, PortId, Verdict};
use packet::gtpu::{ExtensionType, MessageType};
use packet::{DropReason, PacketBuf};

use crate::apply_rules::context::{ApplyRules, Encapsulation, Plan, live};
use crate::apply_rules::egress_context::{BlockForward, PacketSize, UserPacket};
use crate::apply_rules::encap::{Cut, Hop, Optional};
use crate::apply_rules::qer_enforcement::enforce_rates;
use crate::burst::batch::BURST;
use crate::burst::credit::credit_back;
use crate::burst::descriptor::{Deferral, Descriptor, Family, Fate, Keys, Kind, PacketKey, Tunnel};
use crate::egress::checksum_offload::UdpChecksum;
use crate::io::PacketMetadata;

impl<B: PacketBuf + PacketMetadata> ApplyRules<'_, B> {
    /// Applies the verdict of each packet of a burst. Returns whether a packet is buffered, lacks a next hop, was
    /// discarded and is reported, or is redirected.
    #[inline(never)]
    pub fn apply(&mut self, burst: &mut [B], descriptors: &mut [Descriptor], keys: &Keys) -> bool {
        let mut buffers = false;
        for (index, (buf, descriptor)) in burst.iter_mut().zip(&mut *descriptors).enumerate() {
            let plan = &mut self.plans[index % BURST];
            plan.encapsulation = Encapsulation::None;
            if !descriptor.is_open_user() {
                continue;
            }
            let done = match descriptor.kind {
                _ if !descriptor.verdict.is_some() => Err(DropReason::NoMatchingPdr),
                Kind::Relayed => self.relay(buf, descriptor).map(Fate::Send),
                _ => self
                    .plan::<false>(buf, descriptor, PacketKey { index, keys })
                    .and_then(|port| match port {
                        Some(port) => Ok(Fate::Send(port)),
                        None => {
                            let done = self.apply_with_marking(buf, descriptor, PacketKey { index, keys });
                            buffers |= matches!(done, Ok(Fate::Defer(Deferral::Buffer) | Fate::Redirect));
                            done
                        }
                    }),
            };
            descriptor.fate = done.unwrap_or_else(Fate::Drop);
        }
        self.rewrite(burst, descriptors);
        buffers || !self.egress.outcome.missing.is_empty() || !self.egress.outcome.discarded.is_empty()
    }

    /// Rewrites the headers of each packet by its plan.
    #[inline(never)]
    fn rewrite(&mut self, burst: &mut [B], descriptors: &mut [Descriptor]) {
        for ((buf, descriptor), plan) in burst.iter_mut().zip(descriptors).zip(self.plans.iter()) {
            if plan.encapsulation == Encapsulation::None {
                continue;
            }
            let is_v4 = descriptor.family == Family::V4;
            let routed = plan.encapsulation == Encapsulation::Plain || descriptor.tunnel.is_none();
            let cut = Cut {
                offset: descriptor.offset.into(),
                octets: descriptor.octets.into(),
                hop: Hop::of(routed, is_v4),
            };
            let done = match self.egress.tables.adjacencies.resolved(plan.adjacency) {
                None => Err(DropReason::NoNeighbour),
                Some(adjacency) if plan.encapsulation == Encapsulation::Plain => {
                    encap::plain(buf, cut, is_v4, adjacency)
                }
                Some(adjacency) => {
                    let message = encap::Message {
                        forward: &plan.forward,
                        adjacency,
                        message_type: MessageType::G_PDU,
                        cut,
                        sum: UdpChecksum::Software,
                    };
                    let container = (plan.encapsulation == Encapsulation::Marked).then_some(&plan.container);
                    message.put_on_marked(buf, container)
                }
            };
            if let Err(reason) = done {
                credit_back(self.blocks, descriptor);
                descriptor.fate = Fate::Drop(reason);
            } else if plan.pcp != 0 {
                marking::prioritise(buf, plan.pcp);
            }
        }
    }

    /// A packet that `plan` does not take: it may only need a DSCP by its QoS flow, or to be counted before QoS.
    #[cold]
    #[inline(never)]
    fn apply_with_marking(
        &mut self,
        buf: &mut B,
        descriptor: &mut Descriptor,
        PacketKey { index, keys }: PacketKey<'_>,
    ) -> Result<Fate, DropReason> {
        if descriptor.verdict.flags.contains(FlowFlags::DENIED) {
            let octets = descriptor.octets.into();
            return Err(self.egress.deny(index, &descriptor.verdict, octets));
        }
        self.count_before_qos(buf, descriptor);
        let planned = match self.counts_by_look(&descriptor.verdict) {
            true => None,
            false => self.plan::<true>(buf, descriptor, PacketKey { index, keys })?,
        };
        let Some(port) = planned else {
            return self.apply_general_case(buf, descriptor, PacketKey { index, keys });
        };
        let plan = &mut self.plans[index % BURST];
        plan.pcp = self.mark.pcp;
        if let Some(dscp) = self.mark.dscp {
            let marked = marking::mark(buf, descriptor, &mut plan.forward, dscp);
            if marked.is_err() {
                plan.encapsulation = Encapsulation::None;
                credit_back(self.blocks, descriptor);
            }
            marked?;
        }
        Ok(Fate::Send(port))
    }

    /// Counts a packet in those of its URRs that measure before QoS enforcement, once: what has waited was counted when
    /// it came.
    fn count_before_qos(&mut self, buf: &B, descriptor: &Descriptor) {
        if let Ok(mut block) = live(self.blocks, &descriptor.verdict)
            && !buf.ingress().has_waited()
        {
            block.count_before_qos(
                descriptor.verdict.urrs,
                descriptor.octets.into(),
                self.egress.millisecond,
            );
        }
    }

    /// Checks a user packet and counts it; its plan says what is left to do. `None`, and nothing is counted, for one
    /// that [`apply_general_case`](Self::apply_general_case) is for. With `MARKS` also for forwards that mark, where
    /// `mark` is what they mark with then, and for packets that were counted before QoS.
    #[inline(always)]
    fn plan<const MARKS: bool>(
        &mut self,
        buf: &B,
        descriptor: &Descriptor,
        PacketKey { index, keys }: PacketKey<'_>,
    ) -> Result<Option<PortId>, DropReason> {
        let verdict = &descriptor.verdict;
        let octets = usize::from(descriptor.octets);
        let direction = verdict.direction() as usize;
        let mut block = live(self.blocks, verdict)?;
        let forward = block.forward(verdict.forward);
        let Some(PlannedHeaders {
            encapsulation,
            container,
            outer,
        }) = encapsulation_of::<MARKS>(&block, verdict, &forward)
        else {
            return Ok(None);
        };
        let is_halted = match MARKS {
            false => block.is_halted(verdict.qers, verdict.urrs),
            true => block.is_closed(verdict.qers) || block.is_stopped(verdict.urrs),
        };
        if is_halted
            || descriptor
                .tunnel
                .is_some_and(|tunnel| needs_general_case(tunnel, encapsulation, container))
        {
            return Ok(None);
        }
        self.egress.stats.directions[direction].matched.add(octets);
        if descriptor.ttl <= 1 && (encapsulation == Encapsulation::Plain || descriptor.tunnel.is_none()) {
            return Err(self.egress.expire(index));
        }
        let colour = enforce_rates(&mut block, verdict, octets, self.egress.now, self.shared)?;
        if colour == Colour::Yellow {
            self.egress.outcome.yellow |= 1 << (index % BURST);
        }
        let between = keys.between(index, descriptor.family);
        let id = self.egress.next_hop(&block, &forward, between)?;
        let adjacency = self.egress.adjacent(id)?;
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
        let is_counted = match MARKS {
            false => self.egress.count_unhalted(&mut block, verdict, octets),
            true => self.egress.count(&mut block, verdict, octets),
        };
        if !is_counted {
            self.come_again(index, verdict, octets);
            return Ok(None);
        }
        if MARKS {
            let mark = block.mark(verdict.marking);
            self.mark =
                marking::egress_mark(&self.egress.tables.interfaces, &forward, descriptor, mark, colour);
        }
        let group = block.group();
        self.count_group(group, verdict, octets);
        self.count_content(verdict, octets);
        self.egress.stats.directions[direction].forwarded.add(octets);
        self.plans[index % BURST] = Plan {
            forward,
            adjacency: id,
            encapsulation,
            pcp: 0,
            container,
        };
        Ok(Some(adjacency.port()))
    }
}

/// The headers that a packet gets, as far as `plan` adds them.
struct PlannedHeaders {
    encapsulation: Encapsulation,
    /// With [`Encapsulation::Marked`]: see [`Plan::container`].
    container: [u8; 8],
    /// Octets of the outer headers.
    outer: usize,
}

/// The headers that a packet gets by its forward; `None` where the general case adds them.
#[inline(always)]
fn encapsulation_of<const MARKS: bool>(
    block: &LiveBlock<'_>,
    verdict: &Verdict,
    forward: &PackedForward,
) -> Option<PlannedHeaders> {
    let kind = match MARKS {
        false => forward.usual_kind(),
        true if forward.flags().contains(ForwardFlags::MIRROR) => return None,
        true => forward.kind(),
    };
    let planned = |encapsulation, container, outer| PlannedHeaders {
        encapsulation,
        container,
        outer,
    };
    match (kind, forward.version()) {
        (ForwardKind::Plain, _) => Some(planned(Encapsulation::Plain, [0; 8], 0)),
        (ForwardKind::Tunnel, 4) => {
            match encap::short_container(forward.flags(), block.mark(verdict.marking)) {
                Optional::None => Some(planned(Encapsulation::Tunnel, [0; 8], encap::OUTER_V4)),
                Optional::Short(container) => {
                    Some(planned(Encapsulation::Marked, container, encap::OUTER_V4 + 8))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether the packet's tunnel has extension headers that have to be evaluated, or relayed.
#[inline(always)]
fn needs_general_case(tunnel: Tunnel, encapsulation: Encapsulation, container: [u8; 8]) -> bool {
    // A container takes the place of the one that came; a service class does not.
    let relays_container = tunnel.has_psc && container[3] != ExtensionType::PDU_SESSION_CONTAINER.0;
    let relays_more =
        encapsulation != Encapsulation::Plain && (tunnel.has_other_extensions || relays_container);
    tunnel.unknown.any() || relays_more
}
