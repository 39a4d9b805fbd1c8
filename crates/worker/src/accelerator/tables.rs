//! What the host puts into an engine, and takes out.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use flow::contract::{AnyKey, Flow};
use flow::meter::SharedMeters;
use flow::{
    BlockRef, Blocks, ContentId, FlowEntry, Installed, InstanceId, LocalId, Nanos, PortId, SessionBlock,
    SessionIndex, Verdict,
};
use offload::exception::Reason;
use packet::eth::Vlan;
use packet::{Addrs, MacAddr};
use rules::classifier::Key;
use rules::network::Network;
use transport::lag::LagShare;
use transport::{AdjacencyChange, Interface, Routes};

use crate::accelerator::engine::Engine;
use crate::accelerator::flow_accounts::{FlowCounts, any_key};
use crate::accelerator::put_error::PutError;
use crate::accelerator::settling::{GivenFlow, cut};
use crate::egress::network_tables::NetworkTables;
use crate::egress::path_mtus::Path;
use crate::io::Io;

impl<I: Io> Engine<I> {
    /// The session blocks. Flow entries name them by what [`Blocks::install`] and [`Blocks::replace`] give
    /// ([`flow::SessionBlock::fill_entry`]).
    pub fn blocks_mut(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    /// A session block, to read: its counts, and what they have reached.
    pub fn session_block(&self, block: BlockRef) -> Option<SessionBlock<'_>> {
        self.blocks.get(block)
    }

    /// Asks for the memory that [`put`](Self::put) reads for a flow of this key, beside its session's block.
    pub(super) fn prefetch_put(&self, session: SessionIndex, key: &AnyKey) {
        self.flows.prefetch_put(&key_of(key));
        self.flow_counts.prefetch(session);
    }

    /// Adds or replaces a flow no packet of which is with the host. Its extension and snapshot mean nothing here: it
    /// holds until it is removed, idles for too long, or its block is of another generation. What was held for it, if
    /// it was settling, follows.
    ///
    /// # Errors
    /// See [`PutError`].
    pub fn put(&mut self, entry: &FlowEntry<AnyKey>, now: Nanos) -> Result<(), PutError> {
        let given = self.given(entry)?;
        let slot = self.aside.settling.slot_of(&given.key);
        self.free_of_others(&given, self.owner_in_table(&given.key), slot)?;
        self.pass_reinjected(now);
        self.write(&given, now)?;
        if !self.aside.is_answering {
            self.pass_released(now);
        }
        // What was passed just now may have ended it.
        if let Some(slot) = slot.and_then(|_| self.aside.settling.slot_of(&given.key)) {
            self.release(slot, now);
        }
        Ok(())
    }

    /// The same of a flow whose packets may still be on the way to the host and back: it moves into the table when the
    /// host has echoed `marker` ([`settled`](Self::settled)), which the caller sends behind all
    /// [exceptions](Self::next_exception) of before. Markers rise, and may wrap. Until then packets of it that arrive
    /// wait, and those that are [reinjected](Self::reinject) pass. A flow that is in the table is replaced at once.
    ///
    /// # Errors
    /// See [`PutError`].
    pub fn put_settling(
        &mut self,
        entry: &FlowEntry<AnyKey>,
        marker: u32,
        now: Nanos,
    ) -> Result<(), PutError> {
        let given = self.given(entry)?;
        let (live, slot) = (
            self.owner_in_table(&given.key),
            self.aside.settling.slot_of(&given.key),
        );
        self.free_of_others(&given, live, slot)?;
        if live.is_some() {
            return self.write(&given, now);
        }
        let has_room = self.aside.settling.put((given, slot), marker, now);
        has_room.then_some(()).ok_or(PutError::Full)
    }

    /// The session whose entry in the table packets of a key pass by.
    fn owner_in_table(&self, key: &Key) -> Option<SessionIndex> {
        let verdict = self.flows.at(key)?.verdict;
        let is_live = self
            .blocks
            .is_live(verdict.block, verdict.generation, verdict.direction());
        self.blocks
            .get(verdict.block)
            .filter(|_| is_live)
            .map(|block| block.session())
    }

    /// Whether no other session has the key of a flow, in the table or in a slot where it settles.
    fn free_of_others(
        &self,
        given: &GivenFlow,
        live: Option<SessionIndex>,
        slot: Option<u32>,
    ) -> Result<(), PutError> {
        let settling = slot.and_then(|slot| self.owner_settling(slot));
        match live.or(settling) {
            Some(other) if other != given.session => Err(PutError::Taken),
            _ => Ok(()),
        }
    }

    /// The session of the flow that settles in a slot, unless it is stale.
    fn owner_settling(&self, slot: u32) -> Option<SessionIndex> {
        let settling = &self.aside.settling;
        let is_stale = settling.is_stale(slot, &self.blocks);
        settling
            .given(slot)
            .filter(|_| !is_stale)
            .map(|given| given.session)
    }

    /// The host has echoed a marker: flows with this one or an earlier one move into the table, and their packets that
    /// were held pass.
    pub fn settled(&mut self, marker: u32, now: Nanos) {
        self.pass_reinjected(now);
        while let Some(slot) = self.aside.settling.next_echoed(marker) {
            self.settle(slot, now);
        }
    }

    /// Removes a flow, behind what the host has given back before; of one that settles, what is held goes to the host.
    /// False when there is none.
    pub fn remove(&mut self, key: &AnyKey, now: Nanos) -> bool {
        self.pass_reinjected(now);
        let key = key_of(key);
        let slot = self.aside.settling.slot_of(&key);
        if let Some(slot) = slot {
            self.give_up(slot);
        }
        let mut accounts = self.flow_counts.with(&self.blocks);
        self.flows.remove_key(&key, &mut accounts) || slot.is_some()
    }

    /// The entry of a key in the table: all packets pass by it.
    pub fn entry(&self, key: &AnyKey) -> Option<FlowEntry<AnyKey>> {
        Some(self.flows.at(&key_of(key))?.with_key(*key))
    }

    /// The session whose flow packets of a key pass by, in the table or while it settles.
    pub fn owner(&self, key: &AnyKey) -> Option<SessionIndex> {
        let key = key_of(key);
        let settling = || self.owner_settling(self.aside.settling.slot_of(&key)?);
        self.owner_in_table(&key).or_else(settling)
    }

    /// The block of a session, which was `old`, is another: its flows lead there from now on, in the table and where
    /// they settle. It reads the whole table, if the session has any there.
    pub fn moved(&mut self, session: SessionIndex, old: Installed, installed: Installed) {
        let Some(view) = self.blocks.get(installed.block) else {
            return;
        };
        let lead_on = |verdict: &mut Verdict| {
            if (verdict.block, verdict.generation) == (old.block, old.generation) {
                view.fill_verdict(installed.block, verdict);
            }
        };
        if self.flow_counts.has(session) {
            self.flows.change_verdicts(lead_on);
        }
        self.aside.settling.change_verdicts(lead_on);
        self.move_charges(session, installed);
    }

    /// The block of a session is gone or has another generation, since the last poll: its entries are of no use any
    /// more. They give way sooner for that; without it they are only recognised by their packets, or idle.
    pub fn revoked(&mut self, session: SessionIndex) {
        self.flows.bury(self.flow_counts.take(session));
    }

    /// How many flows each session has, and whose part of the room that is.
    pub(super) const fn flow_counts_mut(&mut self) -> &mut FlowCounts {
        &mut self.flow_counts
    }

    /// Changes a next hop. False, and no change, when its slot is beyond the capacity.
    pub fn change_adjacency(&mut self, change: &AdjacencyChange) -> bool {
        let is_known = self.tables.adjacencies.apply(change);
        if let Some((instance, address)) = change.neighbour.filter(|_| is_known) {
            let id = change.adjacency.is_some().then_some(change.id);
            self.tables.routes.bind(instance, address, id);
        }
        is_known
    }

    /// Changes the network, between two bursts. Next hops are those that there are, and own addresses are usable until
    /// the host says otherwise. Its policers' chains are [shared meters](Self::shared_meters_mut), which stay as they
    /// are.
    pub fn change_network(&mut self, network: Arc<Network>) {
        let mut tables = NetworkTables::new(&network, &self.config.interfaces());
        let gateways: Vec<_> = tables.routes.gateways().collect();
        for (instance, gateway) in gateways {
            let known = self.tables.adjacencies.find(instance, gateway);
            tables.routes.bind(instance, gateway, known);
        }
        self.tables.interfaces = tables.interfaces;
        self.tables.routes = tables.routes;
        self.config.network = network;
    }

    /// The same, but that routes stay ([`change_routes`](Self::change_routes)), and that the host says the link layer
    /// address of each instance and the number of each own address.
    pub fn change_interfaces(
        &mut self,
        network: Arc<Network>,
        macs: impl IntoIterator<Item = (InstanceId, MacAddr)>,
        number: impl Fn(IpAddr) -> Option<LocalId>,
    ) {
        let tables = NetworkTables::new(&network, &self.config.interfaces());
        self.tables.interfaces = tables.interfaces.with_numbers(macs, number);
        self.config.network = network;
    }

    /// Changes all routes, between two bursts.
    pub fn change_routes(&mut self, routes: Routes) {
        self.tables.routes = routes;
    }

    /// How an instance looks like on its link.
    pub fn interface(&self, instance: InstanceId) -> Option<&Interface> {
        Some(&self.tables.interfaces.at(instance)?.interface)
    }

    /// Whether GTP-U tunnels end at the destination of a packet that came in by a port and VLAN.
    pub(super) fn ends_tunnels(&self, (port, vlan): (PortId, Option<Vlan>), addrs: &Addrs) -> bool {
        let ingress = self.tables.interfaces.find(port, vlan);
        ingress
            .and_then(|ingress| ingress.local(addrs))
            .is_some_and(|local| local.gtpu)
    }

    /// Whether this is the number of a port to the network.
    pub fn is_of_network(&self, port: PortId) -> bool {
        usize::from(port.0) < self.ports.io.ports() && port != self.config.host_port
    }

    /// The session blocks, to read.
    pub const fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Whether a session has a flow that `is_it`, which packets can use or which settles. It reads the whole table,
    /// if the session has any there. What a flow counts its contents in, and its generation, are not said.
    pub fn any_flow(&self, session: SessionIndex, is_it: impl Fn(&Flow) -> bool) -> bool {
        let is_its = |key: Key, entry: &FlowEntry<()>| {
            let verdict = &entry.verdict;
            self.blocks
                .is_live(verdict.block, verdict.generation, verdict.direction())
                && self.blocks.get(verdict.block).map(|block| block.session()) == Some(session)
                && is_it(&flow_of(key, entry))
        };
        self.flow_counts.has(session) && self.flows.any(is_its)
            || self
                .aside
                .settling
                .all()
                .any(|given| is_its(given.key, &given.entry))
    }

    /// Adds the flows that have idled for too long since that was asked last, and whose they were: the first 256 of
    /// them.
    pub fn take_aged(&mut self, aged: &mut Vec<(AnyKey, SessionIndex)>) {
        self.flow_counts.take_aged(aged);
    }

    /// Gives a packet of a flow to the host that it gave back, behind all exceptions of before, for this reason and
    /// with these hops.
    pub fn give_again(&mut self, packet: I::Buf, flow: &AnyKey, (reason, hops): (Reason, u8), now: Nanos) {
        self.pass_reinjected(now);
        self.take_again(packet, &key_of(flow), reason, hops);
    }

    /// Changes which members of a LAG carry frames.
    pub fn change_lag(&mut self, port: PortId, share: LagShare) {
        let member = self.ports.lags.set(port, share);
        self.ports.tx.lead(port, member);
    }

    /// Sets the MTU of the path between two GTP-U endpoints, or forgets it.
    pub fn set_path_mtu(&mut self, local: IpAddr, peer: IpAddr, mtu: Option<u16>) {
        let least = self.tables.path_mtus.set(Path { local, peer }, mtu);
        self.tables.adjacencies.narrow(least);
    }

    /// Says whether packets to an own address are for this node: not while it is tentative or a duplicate.
    pub fn set_own_address(&mut self, instance: InstanceId, address: Ipv6Addr, is_usable: bool) {
        self.tables.interfaces.set_usable(instance, address, is_usable);
    }

    /// The meters that sessions share: their rates are this engine's share of them.
    pub fn shared_meters_mut(&mut self) -> &mut SharedMeters {
        &mut self.apply_rules.shared
    }

    /// A flow that the host gives, if it can be one.
    fn given(&self, entry: &FlowEntry<AnyKey>) -> Result<GivenFlow, PutError> {
        let verdict = &entry.verdict;
        let block = self.blocks.get(verdict.block).ok_or(PutError::NoBlock)?;
        if block.generation() != verdict.generation {
            return Err(PutError::NoBlock);
        }
        if verdict.forward >= block.forwards() {
            return Err(PutError::NoForward);
        }
        let key = key_of(&entry.key);
        Ok(GivenFlow {
            key: cut(&key, entry.key.fields()),
            entry: entry.with_key(()),
            session: block.session(),
        })
    }
}

/// A flow as an entry has it.
const fn flow_of(key: Key, entry: &FlowEntry<()>) -> Flow {
    let verdict = &entry.verdict;
    Flow {
        key: any_key(key),
        qers: verdict.qers,
        urrs: verdict.urrs,
        idle: entry.idle,
        flags: verdict.flags,
        forward: verdict.forward,
        marking: match verdict.marking {
            Verdict::NO_MARK => None,
            slot => Some(slot),
        },
        nat: None,
        content: ContentId::NONE,
        generation: 0,
    }
}

pub(super) const fn key_of(key: &AnyKey) -> Key {
    match key {
        AnyKey::V4(key) => Key::V4(*key),
        AnyKey::V6(key) => Key::V6(*key),
    }
}
