//! CG-NAT: public addresses for the IPv4 packets of sessions that have a pool (RFC 6888).
//!
//! Steps of their own between the stages, so that all others see UEs by their own addresses, whatever they do with a
//! packet: rules, inspection, records, quotas, buffers. Flow entries know nothing of it, and are as wide as the rules
//! allow.
//!
//! - [`admit`](NatStage::admit), behind `select_worker`: packets of data networks to public addresses are for the UE
//!   that the mapping is of, from here on. What belongs to no mapping ends here: it pages no UE, and is not charged.
//! - [`map`](NatStage::map), behind `slow`: packets of UEs that leave by the instance of their pool get a mapping, or
//!   end here before they count.
//! - [`treat_unsolicited`](NatStage::treat_unsolicited), behind that: what comes from where the UE has not sent to
//!   counts in no URR and pages no UE, unless its pool says otherwise.
//! - [`translate`](NatStage::translate), behind `apply_rules`: those that are sent get the public address.
//!
//! A UE's packet to a public address recirculates, and is admitted as one of a data network would be (RFC 4787 REQ-9).

mod endpoint;
mod from_network;
mod from_ue;
mod message;
mod packets;
mod unsolicited;

pub(crate) use self::message::quoted;
pub(crate) use self::packets::PublicPacket;
pub(crate) use self::unsolicited::Unsolicited;

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use flow::slab::OutOfMemory;
use flow::{Blocks, FlowKey4, Nanos, SessionIndex};
use nat::mappings::{Inside, Mappings, MappingsConfig, MovedMapping, Protocol, SessionPolicy};
use nat::pools::{BlockId, NatPool, NatPoolId, NatPools};
use packet::DropReason;
use packet::icmp_rewrite::{Outer, rewrite_error};
use packet::rewrite::{Ends, Rewrite};
use packet::tuple::proto;
use rules::image::{InstalledNat, MeterShare, SessionImage};
use rules::network::{Hairpin, Network, ue_of_addresses};
use rules::prefix::IpPrefix;

use crate::burst::Burst;
use crate::burst::batch::BURST;
use crate::burst::descriptor::Keys;
use crate::config::limits::NatSettings;
use crate::control_channel::event_queue::EventQueue;
use crate::control_channel::{MappingsWanted, SessionNatStatus};
use crate::io::PacketMetadata;
use crate::nat::endpoint::Endpoint;
use crate::nat::message::Message;
use crate::nat::packets::{Arrival, Departure, NewSource};
use crate::stats::Stats;
use crate::trace::TracedTranslation;
use crate::view::NatCounts;
use crate::{Event, WorkerConfig};

/// How often some of the blocks are looked at, for those that are not needed.
const BLOCKS_EVERY: Duration = Duration::from_millis(10);

/// The state of CG-NAT in a worker whose network has pools.
pub(crate) struct NatStage {
    pub mappings: Mappings,
    network: Arc<Network>,
    /// By session: one more than the number of its pool, 0 without one.
    pools: Box<[u16]>,
    /// The pool, where there is no other.
    only: Option<NatPoolId>,
    /// By pool: the prefixes of UEs whose packets to each other stay here.
    local_ues: Box<[Box<[IpPrefix]>]>,
    settings: NatSettings,
    /// When blocks are looked at again.
    blocks_due: Nanos,
    /// Of this burst, by index: the source that a packet of a UE is to get.
    sources: Box<[NewSource; BURST]>,
    /// What those are that have something else than ports: bit n of `special` is index n.
    messages: Box<[Message; BURST]>,
    special: u64,
    /// Packets of this burst that are to get one: bit n is index n.
    mapped: u64,
    /// Those that have got it.
    translated: u64,
    /// Packets of this burst that leave with the UE's own address, or another way: bit n is index n.
    own: u64,
    /// Of this burst, by index: the public destination that a packet had.
    destinations: Box<[Endpoint; BURST]>,
    /// Packets of this burst that had one.
    admitted: u64,
    /// Whether any pool tells unsolicited packets from others.
    distinguishes_unsolicited: bool,
    /// Those of this burst.
    unsolicited: Unsolicited,
    /// Those of this burst that came to a public address, and those that leave by the instance of a pool: room for a
    /// burst, which keeps its place.
    arrivals: Vec<Arrival>,
    departures: Vec<Departure>,
}

impl NatStage {
    /// Without mappings; `None` where the network has no pools.
    ///
    /// # Errors
    /// When the memory of the tables cannot be had.
    pub fn new(config: &WorkerConfig) -> Result<Option<Box<Self>>, OutOfMemory> {
        let nat = config.network.nat();
        if nat.is_empty() {
            return Ok(None);
        }
        let settings = config.nat;
        let pools = nat.pools();
        let most_blocks = pools
            .all()
            .iter()
            .map(|pool| usize::from(pool.limits.blocks))
            .max();
        let most_blocks = most_blocks.unwrap_or_default();
        let forwards = pools.forwards();
        let mut mappings = Mappings::new(&MappingsConfig {
            mappings: settings.mappings + forwards,
            sessions: config.max_sessions,
            blocks: pools.blocks(),
            held_blocks: (pools.blocks() as usize).min(config.own_sessions * most_blocks),
            block_bits: pools
                .all()
                .iter()
                .map(|pool| pool.block_bits)
                .max()
                .unwrap_or_default(),
            remotes: pools.remotes(settings.mappings),
            lifetimes: settings.lifetimes,
            seed: settings.seed,
        })?;
        mappings.keep_room(forwards);
        Ok(Some(Box::new(Self {
            mappings,
            only: (pools.all().len() == 1).then_some(NatPoolId(0)),
            local_ues: local_ues(&config.network),
            network: Arc::clone(&config.network),
            pools: vec![0; config.max_sessions].into(),
            settings,
            blocks_due: Nanos::ZERO,
            sources: Box::new([NewSource::default(); BURST]),
            messages: Box::new([Message::default(); BURST]),
            special: 0,
            mapped: 0,
            own: 0,
            translated: 0,
            destinations: Box::new([Endpoint::default(); BURST]),
            admitted: 0,
            distinguishes_unsolicited: pools.all().iter().any(NatPool::distinguishes_unsolicited),
            unsolicited: Unsolicited::default(),
            arrivals: Vec::with_capacity(BURST),
            departures: Vec::with_capacity(BURST),
        })))
    }

    /// The pools.
    pub fn pools(&self) -> &NatPools {
        self.network.nat().pools()
    }

    /// A session has come or changed: this is its image, and `before` the one that it takes the place of.
    pub fn note_session(&mut self, image: &SessionImage, before: Option<&SessionImage>, now: Nanos) {
        let session = image.session;
        let wanted = image.rules.nat();
        let is_same =
            before.is_some_and(|before| before.seid == image.seid) && self.pool_of(session) == wanted;
        // Another session may have the addresses next: mappings to them end with them.
        let keeps_addresses = before.is_some_and(|before| before.ue_addresses == image.ue_addresses);
        let blocks: Vec<BlockId> = match is_same && !keeps_addresses {
            true => self.blocks_that_stay(image),
            false => Vec::new(),
        };
        if !is_same || !keeps_addresses {
            self.forget(session);
        }
        let pool = wanted.and_then(|id| Some((id, self.network.nat().pools().pool(id)?)));
        let (Some((id, pool)), Some(place)) = (pool, self.pools.get_mut(session.index())) else {
            return;
        };
        *place = id.0 + 1;
        let policy = SessionPolicy {
            filtering: pool.filtering,
            distinguishes_unsolicited: pool.distinguishes_unsolicited(),
            limits: pool.limits,
        };
        // Answers come by the session's addresses alone.
        let mut addresses = image.ue_addresses.iter();
        let is_reached = addresses.any(|(vrf, prefix)| *vrf == pool.vrf && prefix.is_ipv4());
        self.mappings.set_session(session, policy);
        self.mappings
            .may_map(session, is_reached && image.meter_share != MeterShare::Leaving);
        blocks
            .into_iter()
            .for_each(|block| self.take_block(session, block, now));
        if before.is_none() {
            self.bring(image, now);
        }
    }

    /// The blocks of a session that it may hold by its new addresses, too.
    fn blocks_that_stay(&self, image: &SessionImage) -> Vec<BlockId> {
        let pools = self.pools();
        let pool = self.pool_of(image.session);
        let Some(ue) = pool.and_then(|pool| ue_of_addresses(pools, pool, &image.ue_addresses)) else {
            return Vec::new();
        };
        let held = self.mappings.blocks(image.session).map(|(block, _)| block);
        held.filter(|block| pools.may_hold(*block, ue)).collect()
    }

    /// A session brings blocks and mappings from another worker or process.
    fn bring(&mut self, image: &SessionImage, now: Nanos) {
        let InstalledNat { blocks, mappings } = &*image.installation.nat;
        for block in blocks {
            self.take_block(image.session, *block, now);
        }
        self.mappings.import(image.session, mappings, now);
    }

    /// A session has ended here.
    pub fn forget(&mut self, session: SessionIndex) {
        if self.pool_of(session).is_some() {
            self.mappings.forget(session);
            self.pools[session.index()] = 0;
        }
    }

    /// The mappings that a session has here.
    pub fn mappings_of(&self, session: SessionIndex, now: Nanos) -> Vec<MovedMapping> {
        match self.pool_of(session) {
            Some(_) => self.mappings.export(session, now),
            None => Vec::new(),
        }
    }

    /// What a session has of its pool; `None` without one.
    pub fn status(
        &self,
        session: SessionIndex,
        wanted: MappingsWanted,
        now: Nanos,
    ) -> Option<SessionNatStatus> {
        self.pool_of(session)?;
        let mappings = match wanted {
            MappingsWanted::None => Vec::new(),
            MappingsWanted::Live { most } => self.mappings.live(session, now).take(most.into()).collect(),
            MappingsWanted::OfPort {
                block,
                port,
                protocol,
            } => {
                let end = (block, port, protocol);
                self.mappings.at_public(session, end, now).into_iter().collect()
            }
        };
        Some(SessionNatStatus {
            used: self.mappings.use_of(session),
            mappings,
        })
    }

    /// What it has counted and holds.
    pub fn counts(&self) -> NatCounts {
        NatCounts {
            mappings: self.mappings.stats(),
            limit: self.mappings.capacity(),
        }
    }

    /// The public address that all packets of a session have, if it has any block.
    fn public_address(&self, session: SessionIndex) -> Option<[u8; 4]> {
        let first = self.mappings.blocks(session).next();
        first.map(|(_, block)| block.address.octets())
    }

    /// The pool of a session.
    #[inline]
    fn pool_of(&self, session: SessionIndex) -> Option<NatPoolId> {
        let number = self.pools.get(session.index())?.checked_sub(1)?;
        Some(NatPoolId(number))
    }

    /// A session has one more block.
    pub fn take_block(&mut self, session: SessionIndex, block: BlockId, now: Nanos) {
        let known = self.network.nat().pools().block(block);
        if let Some((pool, ports)) = known
            && self.pool_of(session) == Some(pool)
        {
            // Control gives a block to one session at a time.
            let _ = self.mappings.grant(session, block, ports, now);
            for forward in self.network.nat().pools().forwards_of(block) {
                let Some(protocol) = Protocol::of(forward.protocol) else {
                    continue;
                };
                let inside = Inside {
                    address: forward.ue.octets(),
                    port: forward.port,
                    protocol,
                };
                // There is room for all of them.
                let end = (block, forward.public_port);
                let _ = self.mappings.forward(session, inside, end, now);
            }
        }
    }

    /// Small steps of what is due now and then: mappings that have ended, blocks that are not needed.
    pub fn tidy(&mut self, events: &mut EventQueue, stats: &mut Stats, now: Nanos) {
        self.mappings.age(now);
        if now < self.blocks_due {
            return;
        }
        self.blocks_due = now + BLOCKS_EVERY;
        if events.has_room()
            && let Some((session, block)) = self.mappings.next_idle_block(now, self.settings.block_idle)
        {
            events.push(stats, Event::PortBlockReturned { session, block });
        }
    }

    /// Does with the unsolicited packets of this burst what their sessions' pools say.
    #[inline]
    pub fn treat_unsolicited<B: PacketMetadata>(&mut self, burst: &mut Burst<B>, blocks: &mut Blocks) {
        let mut unsolicited = self.unsolicited;
        if unsolicited.any() {
            let policy_of = |session| Some(self.pools().pool(self.pool_of(session)?)?.unsolicited);
            unsolicited.treat(burst, blocks, policy_of);
            self.unsolicited = unsolicited;
        }
    }

    /// The unsolicited packets of this burst.
    pub const fn unsolicited(&self) -> Unsolicited {
        self.unsolicited
    }

    /// Whether the packet at `index` of this burst came to a public address.
    pub fn has_admitted(&self, index: usize) -> bool {
        self.admitted >> (index % BURST) & 1 == 1
    }

    /// What became of the addresses of the packet at `index` of this burst, whose fate is final.
    pub fn translation(&self, index: usize, keys: &Keys) -> Option<TracedTranslation> {
        let place = index % BURST;
        let key = &keys.v4[place];
        let is_destination = self.has_admitted(index);
        let (public, inside, side) = match is_destination {
            true => (self.destinations[place], key.destination, 1),
            false if self.translated >> place & 1 == 1 => (self.sources[place].end, key.source, 0),
            false => return None,
        };
        let has_ports = matches!(key.protocol, proto::TCP | proto::UDP);
        let port = if has_ports { key.ports[side] } else { 0 };
        Some(TracedTranslation {
            public: SocketAddrV4::new(public.address.into(), public.port),
            inside: SocketAddrV4::new(inside.into(), port),
            is_destination,
            unsolicited: self.unsolicited.traced(index),
        })
    }

    /// Makes an ICMP error about the packet at `index` of this burst quote it as it came.
    #[cold]
    pub fn restore_quote(&self, index: usize, error: &mut [u8]) -> Result<(), DropReason> {
        if !self.has_admitted(index) {
            return Ok(());
        }
        let Some(&[a, b, c, d]) = error.get(12..16) else {
            return Err(DropReason::TruncatedIpv4);
        };
        let public = self.destinations[index % BURST];
        rewrite_error(error, Outer::Source([a, b, c, d]), public.into())
    }

    /// Makes an answer in the name of a UE come from its public address: one to the sender of the packet at `index` of
    /// this burst, which came to that.
    #[cold]
    pub fn restore_source(
        &self,
        index: usize,
        inside: &FlowKey4,
        answer: &mut [u8],
    ) -> Result<(), DropReason> {
        if !self.has_admitted(index) {
            return Ok(());
        }
        let public = self.destinations[index % BURST];
        let from = |source, source_port| Ends {
            source,
            source_port,
            ..Ends::default()
        };
        let before = from(inside.destination, inside.ports[1]);
        Rewrite::new(&before, &from(public.address, public.port)).apply(answer)
    }

    /// The network is configured anew. Pools stay as they are, and which prefixes UEs have may change.
    pub fn follow(&mut self, network: &Arc<Network>) {
        self.network = Arc::clone(network);
        self.local_ues = local_ues(network);
    }

    /// Whether packets between a UE of the pool and this address keep the UE's own.
    fn exempts(&self, pool: NatPoolId, other_end: [u8; 4]) -> bool {
        self.network.nat().exempts(pool, other_end.into())
    }

    /// Whether this is the address of a UE to which those of the pool send without the data network.
    fn is_local_ue(&self, pool: NatPoolId, address: [u8; 4]) -> bool {
        let prefixes = self.local_ues.get(usize::from(pool.0));
        prefixes.is_some_and(|prefixes| prefixes.iter().any(|prefix| prefix.contains(address.into())))
    }

    /// Asks control for another block of ports.
    #[cold]
    fn ask(session: SessionIndex, events: &mut EventQueue, stats: &mut Stats) {
        events.push(stats, Event::PortBlockWanted { session });
    }
}

/// By pool: the prefixes of UEs whose packets to each other stay here.
fn local_ues(network: &Network) -> Box<[Box<[IpPrefix]>]> {
    let prefixes = |pool: &NatPool| match network.instance(pool.instance).map(|instance| &instance.hairpin) {
        Some(Hairpin::Local(prefixes) | Hairpin::Drop(prefixes)) => prefixes.as_slice().into(),
        Some(Hairpin::Router) | None => Box::default(),
    };
    network.nat().pools().all().iter().map(prefixes).collect()
}
