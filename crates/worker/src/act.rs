//! Stage `act`: what was decided is done.
//!
//! Gates, then meters, then counters, then headers: off, on, TTL. Everything that a packet needs was prefetched by
//! `lookup`. The order of the checks is that of `rules::interpret`, so that a packet which fails several is dropped for
//! the same reason: gate, quota, action, extension headers, TTL; then it passes the meters; then route, neighbour and
//! length. What is left counts: a packet that is dropped for any reason is not charged, and one that `tx` loses is
//! credited back.

use std::net::IpAddr;

use flow::meter::{Colour, Offer, SharedMeters};
use flow::{
    AdjacencyId, Blocks, Counted, Direction, FlowFlags, Forward, ForwardFlags, ForwardKind, InstanceId,
    LiveBlock, Mark, Nanos, OuterAddresses, PackedForward, PortId, SessionIndex,
};
use packet::gtpu::{ExtensionType, Ies, MessageType};
use packet::{DropReason, PacketBuf};
use transport::{Adjacencies, Adjacency, Routes, Via};

use crate::allowance::PerSession;
use crate::batch::{BURST, Batch};
use crate::descriptor::{Descriptor, Family, Fate, Keys, Kind, Tunnel, Verdict};
use crate::encap::{self, Added, Chain, Cut, Hop, Optional};
use crate::notices::Notices;
use crate::places::{Place, Places};
use crate::special::{self, EgressMark, Extended};
use crate::stats::Stats;
use crate::tx::take_back;

/// What the stage works with.
pub(crate) struct Act<'a> {
    pub ways: Ways<'a>,
    pub blocks: &'a mut Blocks,
    pub chain: &'a mut Chain,
    pub plans: &'a mut [Plan; BURST],
    pub shared: &'a mut SharedMeters,
    pub extended: Extended<'a>,
    /// Of the packet that was planned last, if its forward marks.
    pub mark: EgressMark,
    /// Packets that are mirrored, and to which port.
    pub mirrored: &'a mut Batch<(u8, PortId)>,
    /// Downlink packets that are dropped by FARs which may tell of it (DDPN).
    pub discarded: &'a mut Batch<u8>,
    /// Packets beyond their guaranteed rates: bit n is place n.
    pub yellow: u64,
    /// How many End Markers and Tunnel Status messages go on.
    pub relays: &'a mut PerSession,
}

/// What it takes to find a packet's way out.
pub(crate) struct Ways<'a> {
    pub places: &'a Places,
    pub adjacencies: &'a Adjacencies,
    pub routes: &'a Routes,
    pub notices: &'a mut Notices,
    pub stats: &'a mut Stats,
    pub now: Nanos,
    /// What packets of this burst lack that are dropped as `no_neighbour`, in their order.
    pub missing: &'a mut Batch<NextHop>,
}

/// A next hop without a link layer address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextHop {
    /// Control has a slot for it.
    Slot(AdjacencyId),
    /// Control was asked for it.
    Address(InstanceId, IpAddr),
}

/// What is done to a packet's headers: decided for the whole burst before any is written, since two short loops keep
/// in registers what one long one would not.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    forward: PackedForward,
    adjacency: AdjacencyId,
    way: Way,
    /// The priority of its frame, if it has one.
    pcp: u8,
    /// With `Marked`: the optional part of the GTP-U header and a short PDU Session Container.
    container: [u8; 8],
}

/// The ways that packets take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// None from here.
    None,
    /// As plain IP.
    Plain,
    /// Into a tunnel over IPv4.
    Tunnel,
    /// Into a tunnel over IPv4, with a short PDU Session Container.
    Marked,
}

impl Plan {
    /// Nothing to be done.
    pub const NONE: Self = Self {
        forward: PackedForward::NONE,
        adjacency: AdjacencyId(0),
        way: Way::None,
        pcp: 0,
        container: [0; 8],
    };
}

impl Act<'_> {
    /// Does with each packet of a burst what its verdict says. Whether any of them is to wait, or may, or is to be
    /// told of, or redirected.
    #[inline(never)]
    pub fn act<B: PacketBuf>(
        &mut self,
        burst: &mut [B],
        descriptors: &mut [Descriptor],
        keys: &Keys,
    ) -> bool {
        let mut buffers = false;
        for (place, (buf, descriptor)) in burst.iter_mut().zip(&mut *descriptors).enumerate() {
            let plan = &mut self.plans[place % BURST];
            plan.way = Way::None;
            if !descriptor.is_open_user() {
                continue;
            }
            let done = match descriptor.kind {
                _ if !descriptor.verdict.is_some() => Err(DropReason::NoMatchingPdr),
                Kind::Relayed => self.relay(buf, descriptor).map(Fate::Send),
                _ => self
                    .plan::<false>(descriptor, (place, keys))
                    .and_then(|port| match port {
                        Some(port) => Ok(Fate::Send(port)),
                        None => {
                            let done = self.unusual(buf, descriptor, (place, keys));
                            buffers |= matches!(done, Ok(Fate::Buffer | Fate::Redirect));
                            done
                        }
                    }),
            };
            descriptor.fate = done.unwrap_or_else(Fate::Drop);
        }
        self.rewrite(burst, descriptors);
        buffers || !self.ways.missing.is_empty() || !self.discarded.is_empty()
    }

    /// Puts into each packet's buffer what its plan says.
    #[inline(never)]
    fn rewrite<B: PacketBuf>(&mut self, burst: &mut [B], descriptors: &mut [Descriptor]) {
        for ((buf, descriptor), plan) in burst.iter_mut().zip(descriptors).zip(self.plans.iter()) {
            if plan.way == Way::None {
                continue;
            }
            let is_v4 = descriptor.family == Family::V4;
            let routed = plan.way == Way::Plain || descriptor.tunnel.is_none();
            let cut = Cut {
                offset: descriptor.offset.into(),
                octets: descriptor.octets.into(),
                hop: Hop::of(routed, is_v4),
            };
            let done = match self.ways.adjacencies.resolved(plan.adjacency) {
                None => Err(DropReason::NoNeighbour),
                Some(adjacency) if plan.way == Way::Plain => encap::plain(buf, cut, is_v4, adjacency),
                Some(adjacency) => {
                    let message = encap::Message {
                        forward: &plan.forward,
                        adjacency,
                        message_type: MessageType::G_PDU,
                        cut,
                    };
                    let container = (plan.way == Way::Marked).then_some(&plan.container);
                    message.put_on_marked(buf, container)
                }
            };
            if let Err(reason) = done {
                take_back(self.blocks, descriptor);
                descriptor.fate = Fate::Drop(reason);
            } else if plan.pcp != 0 {
                special::prioritise(buf, plan.pcp);
            }
        }
    }

    /// A packet that `plan` does not take: it may only need a DSCP by its QoS flow.
    #[cold]
    #[inline(never)]
    fn unusual<B: PacketBuf>(
        &mut self,
        buf: &mut B,
        descriptor: &Descriptor,
        (place, keys): (usize, &Keys),
    ) -> Result<Fate, DropReason> {
        let Some(port) = self.plan::<true>(descriptor, (place, keys))? else {
            return self.uncommon(buf, descriptor, (place, keys));
        };
        let plan = &mut self.plans[place % BURST];
        plan.pcp = self.mark.pcp;
        if let Some(dscp) = self.mark.dscp {
            special::mark(buf, descriptor, &mut plan.forward, dscp)?;
        }
        Ok(Fate::Send(port))
    }

    /// Checks a user packet and counts it; its plan says what is left to do. `None`, and nothing is counted, for one
    /// that [`uncommon`](Self::uncommon) is for. With `MARKS` also for forwards that mark; `dscp` is what they mark
    /// with then.
    #[inline(always)]
    fn plan<const MARKS: bool>(
        &mut self,
        descriptor: &Descriptor,
        (place, keys): (usize, &Keys),
    ) -> Result<Option<PortId>, DropReason> {
        let verdict = &descriptor.verdict;
        let octets = usize::from(descriptor.octets);
        let direction = verdict.direction() as usize;
        let mut block = live(self.blocks, verdict)?;
        let forward = block.forward(verdict.forward);
        let kind = match MARKS {
            false => forward.usual_kind(),
            true if forward.flags().contains(ForwardFlags::MIRROR) => return Ok(None),
            true => forward.kind(),
        };
        let (way, container, outer) = match (kind, forward.version()) {
            (ForwardKind::Plain, _) => (Way::Plain, [0; 8], 0),
            (ForwardKind::Tunnel, 4) => {
                match encap::short_container(forward.flags(), block.mark(verdict.marking)) {
                    Optional::None => (Way::Tunnel, [0; 8], encap::OUTER_V4),
                    Optional::Short(container) => (Way::Marked, container, encap::OUTER_V4 + 8),
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        let relays_more = |tunnel: Tunnel| {
            // A container takes the place of the one that came; a service class does not.
            let relays_container = tunnel.has_psc && container[3] != ExtensionType::PDU_SESSION_CONTAINER.0;
            way != Way::Plain && (tunnel.has_other_extensions || relays_container)
        };
        let is_uncommon = |tunnel: Tunnel| tunnel.unknown.any() || relays_more(tunnel);
        if descriptor.tunnel.is_some_and(is_uncommon) {
            return Ok(None);
        }
        let stats = &mut self.ways.stats.directions[direction];
        stats.matched.add(octets);
        self.ways.check_open(&mut block, verdict)?;
        if descriptor.ttl <= 1 && (way == Way::Plain || descriptor.tunnel.is_none()) {
            return Err(DropReason::TtlExpired);
        }
        let colour = pass_meters(&mut block, verdict, octets, self.ways.now, self.shared)?;
        if colour == Colour::Yellow {
            self.yellow |= 1 << (place % BURST);
        }
        let destination = keys.destination(place, descriptor.family);
        let id = self.ways.next_hop(&block, &forward, destination)?;
        let adjacency = self.ways.adjacent(id)?;
        check_size(outer + octets, adjacency.mtu())?;
        self.ways.count(&mut block, verdict, octets)?;
        let mark = if MARKS {
            block.mark(verdict.marking)
        } else {
            Mark::NONE
        };
        self.count_content(verdict, octets);
        self.ways.stats.directions[direction].forwarded.add(octets);
        self.plans[place % BURST] = Plan {
            forward,
            adjacency: id,
            way,
            pcp: 0,
            container,
        };
        if MARKS {
            let treatment = (mark, colour);
            self.mark = special::egress_mark(self.ways.places, &forward, descriptor, treatment);
        }
        Ok(Some(adjacency.port()))
    }

    /// A user packet in any of its forms: tunnels over IPv6, relayed extension headers, Paging Policy Indicators, NAT,
    /// mirrors, whatever is dropped for what its FAR says.
    #[cold]
    fn uncommon<B: PacketBuf>(
        &mut self,
        buf: &mut B,
        descriptor: &Descriptor,
        (place, keys): (usize, &Keys),
    ) -> Result<Fate, DropReason> {
        let (verdict, extension) = self.extended.whole(&descriptor.verdict, place);
        let verdict = &verdict;
        let octets = usize::from(descriptor.octets);
        let direction = verdict.direction() as usize;
        let mut block = live(self.blocks, verdict)?;
        let mut forward = block.forward(verdict.forward);
        if forward.kind() == ForwardKind::Buffer {
            // It counts as matched when it goes on.
            self.ways.check_open(&mut block, verdict)?;
            note_copies(self.mirrored, &block, verdict, place);
            return Ok(Fate::Buffer);
        }
        self.ways.stats.directions[direction].matched.add(octets);
        self.ways.check_open(&mut block, verdict)?;
        if forward.kind() == ForwardKind::Drop {
            note_copies(self.mirrored, &block, verdict, place);
            if forward.flags().contains(ForwardFlags::NOTIFY) && verdict.direction() == Direction::Downlink {
                let _ = self.discarded.push(place as u8);
            }
        }
        check_action(&forward)?;
        check_extensions(&forward, descriptor)?;
        if forward.kind() == ForwardKind::Redirect {
            pass_meters(&mut block, verdict, octets, self.ways.now, self.shared)?;
            return Ok(Fate::Redirect);
        }
        let routed = match forward.kind() {
            ForwardKind::Unchanged => false,
            kind => kind == ForwardKind::Plain || descriptor.tunnel.is_none(),
        };
        if routed && descriptor.ttl <= 1 {
            return Err(DropReason::TtlExpired);
        }
        let colour = pass_meters(&mut block, verdict, octets, self.ways.now, self.shared)?;
        self.yellow |= u64::from(colour == Colour::Yellow) << (place % BURST);
        note_copies(self.mirrored, &block, verdict, place);
        let translated = self.extended.translate(buf, descriptor, extension)?;
        let received = keys.destination(place, descriptor.family);
        let destination = translated.map(IpAddr::from).or(received);
        let id = match forward.kind() {
            ForwardKind::Unchanged => self.ways.towards_node(&block, &forward, destination)?,
            _ => self.ways.next_hop(&block, &forward, destination)?,
        };
        let adjacency = self.ways.adjacent(id)?;
        let mark = block.mark(verdict.marking);
        let added = Added::of(forward.flags(), mark);
        let optional = optional(self.chain, buf, descriptor, &forward, added)?;
        let outer = encap::outer_len(&forward) + optional.len(self.chain);
        check_size(outer + octets, adjacency.mtu())?;
        let marks = special::egress_mark(self.ways.places, &forward, descriptor, (mark, colour));
        if let Some(dscp) = marks.dscp {
            special::mark(buf, descriptor, &mut forward, dscp)?;
        }
        let is_v4 = descriptor.family == Family::V4;
        let cut = Cut {
            offset: descriptor.offset.into(),
            octets,
            hop: Hop::of(routed, is_v4),
        };
        if forward.kind() != ForwardKind::Tunnel {
            encap::plain(buf, cut, is_v4, adjacency)?;
        } else {
            let message = encap::Message {
                forward: &forward,
                adjacency,
                message_type: MessageType::G_PDU,
                cut,
            };
            message.put_on(buf, optional, self.chain, || {
                addresses_v6(&block.whole_forward(verdict.forward))
            })?;
        }
        if marks.pcp != 0 {
            special::prioritise(buf, marks.pcp);
        }
        self.ways.count(&mut block, verdict, octets)?;
        if forward.flags().contains(ForwardFlags::MIRROR)
            && let Some(port) = block.whole_forward(verdict.forward).mirror
            && port != Forward::COPIES
        {
            let _ = self.mirrored.push((place as u8, port));
        }
        self.count_content(verdict, octets);
        self.ways.stats.directions[direction].forwarded.add(octets);
        Ok(Fate::Send(adjacency.port()))
    }

    /// Counts a packet that its URRs have counted in the counter of its content, if it has one.
    #[inline(always)]
    fn count_content(&mut self, verdict: &Verdict, octets: usize) {
        if verdict.content != 0 {
            let counted = (octets as u64, self.ways.now);
            self.blocks
                .count_content(verdict.block, verdict.content, verdict.direction(), counted);
        }
    }

    /// End Marker and Tunnel Status: from tunnel to tunnel, where the gates are open, and in no URR. So many a second
    /// and of a form that they have: no session forwards for others by them. An End Marker that is to be told of ends
    /// here.
    #[cold]
    fn relay<B: PacketBuf>(&mut self, buf: &mut B, descriptor: &Descriptor) -> Result<PortId, DropReason> {
        let verdict = &descriptor.verdict;
        let block = live(self.blocks, verdict)?;
        let forward = block.forward(verdict.forward);
        let tunnel = descriptor.tunnel.ok_or(DropReason::UnsupportedGtpuMessage)?;
        check_elements(buf, descriptor)?;
        let is_end = tunnel.message_type == MessageType::END_MARKER;
        if is_end && verdict.flags.contains(FlowFlags::REPORTS_END) {
            let may = self.relays.take(block.session(), self.ways.now);
            return Err(if may {
                DropReason::EndMarkerReported
            } else {
                DropReason::RelayLimit
            });
        }
        // It starts no traffic: nobody is told of it where no quota is left.
        if block.is_closed(verdict.qers) {
            return Err(DropReason::GateClosed);
        }
        if block.is_stopped(verdict.urrs) {
            return Err(DropReason::QuotaExhausted);
        }
        check_action(&forward)?;
        if forward.kind() != ForwardKind::Tunnel {
            return Err(DropReason::UnsupportedGtpuMessage);
        }
        check_extensions(&forward, descriptor)?;
        let adjacency = self.ways.adjacent(forward.adjacency())?;
        let optional = optional(self.chain, buf, descriptor, &forward, Added::Nothing)?;
        let octets = usize::from(descriptor.octets);
        let outer = encap::outer_len(&forward) + optional.len(self.chain);
        check_size(outer + octets, adjacency.mtu())?;
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
        };
        if !self.relays.take(block.session(), self.ways.now) {
            return Err(DropReason::RelayLimit);
        }
        message.put_on(buf, optional, self.chain, || {
            addresses_v6(&block.whole_forward(verdict.forward))
        })?;
        self.ways.stats.relayed += 1;
        Ok(adjacency.port())
    }
}

/// Whether a signalling message has what such a message may have.
fn check_elements<B: PacketBuf>(buf: &B, descriptor: &Descriptor) -> Result<(), DropReason> {
    let start = usize::from(descriptor.offset);
    let elements = buf.data().get(start..start + usize::from(descriptor.octets));
    let fit = elements.is_some_and(|elements| Ies::new(elements).may_be_relayed());
    fit.then_some(()).ok_or(DropReason::BadGtpuIe)
}

/// Notes that a packet is copied as its session's image says: behind gates and meters, whatever becomes of it then.
fn note_copies(wanted: &mut Batch<(u8, PortId)>, block: &LiveBlock<'_>, verdict: &Verdict, place: usize) {
    if block
        .forward(verdict.forward)
        .flags()
        .contains(ForwardFlags::MIRROR)
        && block.whole_forward(verdict.forward).mirror == Some(Forward::COPIES)
    {
        let _ = wanted.push((place as u8, Forward::COPIES));
    }
}

/// Both addresses of a tunnel over IPv6, ours first.
#[cold]
pub(crate) fn addresses_v6(forward: &Forward) -> Result<([u8; 16], [u8; 16]), DropReason> {
    match forward.template.map(|template| template.addresses) {
        Some(OuterAddresses::V6 { source, destination }) => Ok((source, destination)),
        _ => Err(DropReason::FarNoTunnel),
    }
}

/// What the next GTP-U header has behind its mandatory part.
#[inline(always)]
fn optional<B: PacketBuf>(
    chain: &mut Chain,
    buf: &B,
    descriptor: &Descriptor,
    forward: &PackedForward,
    added: Added,
) -> Result<Optional, DropReason> {
    match &descriptor.tunnel {
        Some(tunnel) if forward.flags().contains(ForwardFlags::KEEP_EXTENSIONS) => {
            let keeps_psc = !descriptor.verdict.flags.contains(FlowFlags::DELETES_PSC);
            chain.collect(buf, tunnel, added, keeps_psc)
        }
        _ => Ok(added.into()),
    }
}

/// Whether the packet fits the way out.
#[inline(always)]
fn check_size(octets: usize, mtu: u16) -> Result<(), DropReason> {
    if octets > usize::from(mtu) {
        Err(DropReason::TooBig)
    } else {
        Ok(())
    }
}

impl<'a> Ways<'a> {
    #[inline(always)]
    fn adjacent(&mut self, id: AdjacencyId) -> Result<&'a Adjacency, DropReason> {
        match self.adjacencies.resolved(id) {
            Some(adjacency) => Ok(adjacency),
            None => Err(self.lack(NextHop::Slot(id))),
        }
    }

    #[cold]
    fn lack(&mut self, hop: NextHop) -> DropReason {
        let _ = self.missing.push(hop);
        DropReason::NoNeighbour
    }

    /// The next hop of a packet: the forward's, or that of the packet's own destination.
    #[inline(always)]
    fn next_hop(
        &mut self,
        block: &LiveBlock<'_>,
        forward: &PackedForward,
        destination: Option<IpAddr>,
    ) -> Result<AdjacencyId, DropReason> {
        match forward.adjacency() {
            AdjacencyId::BY_DESTINATION => {
                let destination = destination.ok_or(DropReason::NoMatchingPdr)?;
                self.route(block, forward.egress(), destination)
            }
            id => Ok(id),
        }
    }

    /// Counts a packet; one that a limit does not allow goes no further.
    #[inline(always)]
    pub(crate) fn count(
        &mut self,
        block: &mut LiveBlock<'_>,
        verdict: &Verdict,
        octets: usize,
    ) -> Result<(), DropReason> {
        match block.count(verdict.urrs, octets as u64) {
            Counted::PASSED => Ok(()),
            counted => self.reached(block, counted),
        }
    }

    /// Whether gates are open and quotas left.
    #[inline(always)]
    fn check_open(&mut self, block: &mut LiveBlock<'_>, verdict: &Verdict) -> Result<(), DropReason> {
        if block.is_closed(verdict.qers) {
            return Err(DropReason::GateClosed);
        }
        if block.is_stopped(verdict.urrs) {
            return Err(self.stopped(block, verdict.urrs));
        }
        Ok(())
    }

    /// A packet has come for which no quota is left. Control is told of the first where it waits for one.
    #[cold]
    #[inline(never)]
    fn stopped(&mut self, block: &mut LiveBlock<'_>, urrs: u64) -> DropReason {
        if block.knock(urrs) {
            self.notices.counters_reached(block.session());
        }
        DropReason::QuotaExhausted
    }

    /// The next hop of a plain packet. A UE's packets leave towards data networks alone, also where N3 shares the VRF:
    /// no UE talks to gNBs.
    #[inline(always)]
    fn route(
        &mut self,
        block: &LiveBlock<'_>,
        egress: InstanceId,
        destination: IpAddr,
    ) -> Result<AdjacencyId, DropReason> {
        self.route_by(block, (egress, destination), |place| place.plain)
    }

    /// The next hop of a message for another node, which is where tunnels lead.
    #[cold]
    fn towards_node(
        &mut self,
        block: &LiveBlock<'_>,
        forward: &PackedForward,
        destination: Option<IpAddr>,
    ) -> Result<AdjacencyId, DropReason> {
        let destination = destination.ok_or(DropReason::MartianDestination)?;
        let id = self.route_by(block, (forward.egress(), destination), |place| place.tunnels)?;
        let to_ourselves = |adjacency: &Adjacency| adjacency.port().lap() > 0;
        match self.adjacencies.resolved(id).is_some_and(to_ourselves) {
            true => Err(DropReason::NoRoute),
            false => Ok(id),
        }
    }

    /// The next hop of a packet that leaves by a place that is `fit`; one that nobody has asked for yet is asked for.
    #[inline(always)]
    fn route_by(
        &mut self,
        block: &LiveBlock<'_>,
        (egress, destination): (InstanceId, IpAddr),
        fit: impl Fn(&Place) -> bool,
    ) -> Result<AdjacencyId, DropReason> {
        let vrf = self.places.at(egress).ok_or(DropReason::NoRoute)?.vrf;
        let hop = self.routes.lookup(vrf, destination).ok_or(DropReason::NoRoute)?;
        if !self.places.at(hop.instance).is_some_and(fit) {
            return Err(DropReason::NoRoute);
        }
        match hop.via {
            Via::Gateway {
                adjacency: Some(id), ..
            } => Ok(id),
            Via::Gateway { address, .. } => Err(self.ask(block.session(), hop.instance, address)),
            Via::Nowhere => Err(DropReason::UeToUe),
            Via::Connected => match self.adjacencies.find(hop.instance, destination) {
                Some(id) => Ok(id),
                None => Err(self.ask(block.session(), hop.instance, destination)),
            },
        }
    }

    /// Control is told that a packet's counters have reached something; one that a limit does not allow is dropped.
    #[cold]
    fn reached(&mut self, block: &mut LiveBlock<'_>, counted: Counted) -> Result<(), DropReason> {
        self.notices.counters_reached(block.session());
        match counted.action {
            Some(_) => Err(self.stopped(block, counted.limits)),
            None => Ok(()),
        }
    }

    #[cold]
    fn ask(&mut self, session: SessionIndex, instance: InstanceId, next_hop: IpAddr) -> DropReason {
        self.notices
            .ask(self.stats, session, (instance, next_hop), self.now);
        self.lack(NextHop::Address(instance, next_hop))
    }
}

#[inline(always)]
fn live<'a>(blocks: &'a mut Blocks, verdict: &Verdict) -> Result<LiveBlock<'a>, DropReason> {
    let block = blocks.live_at(verdict.block, verdict.generation, verdict.direction());
    block.ok_or(DropReason::NoMatchingPdr)
}

/// Passes a packet through all of its meters, or takes tokens from none (TS 29.244 §5.4.4). Gives its colour.
#[inline(always)]
fn pass_meters(
    block: &mut LiveBlock<'_>,
    verdict: &Verdict,
    octets: usize,
    now: Nanos,
    shared: &mut SharedMeters,
) -> Result<Colour, DropReason> {
    if !block.is_metered() {
        return Ok(Colour::Green);
    }
    let passed = block.meter(verdict.qers, &Offer::new(octets as u32, now), shared);
    passed.map_err(|_| DropReason::MeterRed)
}

#[inline(always)]
fn check_action(forward: &PackedForward) -> Result<(), DropReason> {
    match forward.kind() {
        ForwardKind::Tunnel | ForwardKind::Plain | ForwardKind::Unchanged | ForwardKind::Redirect => Ok(()),
        _ => Err(why_not_forwarded(forward)),
    }
}

#[cold]
fn why_not_forwarded(forward: &PackedForward) -> DropReason {
    let flags = forward.flags();
    match forward.kind() {
        ForwardKind::Buffer => DropReason::FarBuffer,
        ForwardKind::Drop if flags.contains(ForwardFlags::NO_TUNNEL) => DropReason::FarNoTunnel,
        ForwardKind::Drop if !flags.contains(ForwardFlags::UNSUPPORTED) => DropReason::FarDrop,
        _ => DropReason::UnsupportedAction,
    }
}

/// Extension headers that are not known here and must be (TS 29.281 §5.2.1).
#[inline(always)]
fn check_extensions(forward: &PackedForward, descriptor: &Descriptor) -> Result<(), DropReason> {
    let Some(tunnel) = &descriptor.tunnel else {
        return Ok(());
    };
    if !tunnel.unknown.any() {
        return Ok(());
    }
    let refused = match forward.kind() {
        ForwardKind::Tunnel => tunnel.unknown.refused_by_intermediate(),
        _ => tunnel.unknown.refused_by_endpoint(),
    };
    if refused {
        Err(DropReason::UnknownGtpuExtension)
    } else {
        Ok(())
    }
}
