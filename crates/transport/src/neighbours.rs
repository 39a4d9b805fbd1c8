//! Resolution of link layer addresses: ARP (RFC 826, RFC 5227) and Neighbour Discovery (RFC 4861) as one state machine.
//!
//! Control owns it. Workers report what they receive ([`Neighbours::handle_message`]) and which neighbour a packet
//! needs ([`Neighbours::resolve`]). The output is frames to send ([`Neighbours::poll_transmit`]) and changes for every
//! worker's [`Adjacencies`](crate::Adjacencies) ([`Neighbours::poll_change`]). It holds no packets: a worker buffers a
//! few that wait for resolution, and drops and counts the others.
//!
//! No message on the link is authenticated: only a reply to a pending request changes an entry. A neighbour that
//! requests an own address is requested in turn, since a reply to it will need its address soon, as long as the table
//! is less than half full. While an entry is valid, a different address is not taken over: it starts a check of the
//! known station, at most once a second, and only if that fails does a request go to all. Static entries never change.
//!
//! Routers of routes are checked more often than other neighbours, so that the paths of one that fails move to the
//! others of its group soon.
//!
//! What wants an entry decides how long it stays: an entry of the configuration for ever, that of a packet as long as
//! it replies, that of rules as long as an image [holds](AdjacencyRef) it. Traffic gets at most half of the table and
//! rules three quarters, so that neither takes all.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use flow::{AdjacencyId, InstanceId, Nanos, PortId};
use packet::MacAddr;
use rules::AdjacencyRef;
use rules::network::multipath::GroupId;

use self::entry::{Entry, State, WantedBy};
use self::groups::Groups;
use self::links::Links;
use self::own::OwnAddresses;
use self::table::{Full, Table};
use crate::adjacencies::{Adjacency, AdjacencyChange, Interface};
use crate::solicit::{self, Transmit};

mod entry;
mod groups;
mod link_changes;
mod links;
mod own;
mod reconfiguration;
mod table;
mod view;

pub use self::own::{OwnAddressEvent, OwnAddressState, OwnAddressView};
pub use self::view::{NeighbourState, NeighbourView};

/// Times and bounds of neighbour resolution.
#[derive(Clone, Copy, Debug)]
pub struct NeighboursConfig {
    /// Time between requests. Default 1 s (RFC 4861 §10, `RETRANS_TIMER`).
    pub retry: Duration,
    /// Requests before an entry counts as unreachable. Default 3 (RFC 4861 §10, `MAX_MULTICAST_SOLICIT`).
    pub attempts: u8,
    /// How long a reply is valid before it is checked. Default 30 s (RFC 4861 §10, `REACHABLE_TIME`).
    pub reachable: Duration,
    /// How long an unreachable neighbour is not requested. Default 5 s.
    pub hold: Duration,
    /// How long the reply of a router of routes is valid. Then it is requested again, every [`retry`](Self::retry) or
    /// as often as this; after `2 * attempts` requests without a reply its paths move to others. Default 1 s.
    pub router_check: Duration,
    /// Probes for an own IPv6 address before it is used, [`retry`](Self::retry) apart (RFC 4862 §5.1,
    /// `DupAddrDetectTransmits`). Default 1; 0 turns Duplicate Address Detection off.
    pub dad_transmits: u8,
    /// Entries, static and gateways included. Default 16,384.
    pub capacity: usize,
    /// Frames that wait in [`Neighbours::poll_transmit`]; more are not made until it is emptied. Default 1,024.
    pub transmits: usize,
}

impl Default for NeighboursConfig {
    fn default() -> Self {
        Self {
            retry: Duration::from_secs(1),
            attempts: 3,
            reachable: Duration::from_secs(30),
            hold: Duration::from_secs(5),
            router_check: Duration::from_secs(1),
            dad_transmits: 1,
            capacity: 16_384,
            transmits: 1_024,
        }
    }
}

/// Why an address gets no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourError {
    /// The table has as many entries as [`NeighboursConfig::capacity`] allows, or as many of this kind as it gets.
    Full,
    /// No neighbour can have the address ([`Interface::may_have_neighbour`]).
    NoNeighbour,
}

impl std::fmt::Display for NeighbourError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Full => "the neighbour table is full",
            Self::NoNeighbour => "no neighbour can have the address",
        })
    }
}

impl std::error::Error for NeighbourError {}

/// The kind of ARP or Neighbour Discovery message that named a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourMessage {
    /// An ARP reply or a solicited Neighbour Advertisement to an own address.
    Reply,
    /// A request for an own address: its sender is about to send to it.
    Request,
    /// Any other message that names its sender.
    Announcement,
    /// The sender uses an own address, or verifies it before use (RFC 4862 §5.4, RFC 5227 §2.4).
    Claim,
}

/// Those times of [`NeighboursConfig`] that depend on what wants the entry.
struct Timers {
    retry: Duration,
    reachable: Duration,
    hold: Duration,
}

/// The neighbours of every instance and the state of their resolution.
pub struct Neighbours {
    config: NeighboursConfig,
    interfaces: Vec<Interface>,
    table: Table,
    groups: Groups,
    transmits: VecDeque<Transmit>,
    changes: VecDeque<AdjacencyChange>,
    links: Links,
    own: OwnAddresses,
    own_events: VecDeque<OwnAddressEvent>,
}

impl Neighbours {
    /// An empty table; `interfaces` are those of all instances.
    pub fn new(config: NeighboursConfig, interfaces: Vec<Interface>) -> Self {
        let own = OwnAddresses::new(&interfaces, config.dad_transmits, config.retry);
        let mut made = Self {
            config,
            interfaces,
            table: Table::new(config.capacity),
            groups: Groups::behind(config.capacity),
            transmits: VecDeque::new(),
            changes: VecDeque::new(),
            links: Links::default(),
            own,
            own_events: VecDeque::new(),
        };
        made.handle_own_changes(Nanos::ZERO);
        made
    }

    /// A neighbour with a configured link layer address, which replaces a learnt one.
    ///
    /// # Errors
    /// [`NeighbourError`].
    pub fn add_static(
        &mut self,
        instance: InstanceId,
        address: IpAddr,
        mac: MacAddr,
    ) -> Result<AdjacencyId, NeighbourError> {
        let id = self.slot(instance, address, WantedBy::Configuration, State::Static(mac))?;
        self.table.set(id, State::Static(mac));
        self.publish(id);
        Ok(id)
    }

    /// The router of a route: it is requested from now on and never removed.
    ///
    /// # Errors
    /// [`NeighbourError`].
    pub fn pin(
        &mut self,
        now: Nanos,
        instance: InstanceId,
        address: IpAddr,
    ) -> Result<AdjacencyId, NeighbourError> {
        self.request_entry(now, instance, address, WantedBy::Configuration)
    }

    /// The neighbour that rules send to: it is requested from now on, and stays from the next [`hold`](Self::hold) on,
    /// which has to come before the next new neighbour.
    ///
    /// # Errors
    /// [`NeighbourError`].
    pub fn refer(
        &mut self,
        now: Nanos,
        instance: InstanceId,
        address: IpAddr,
    ) -> Result<AdjacencyId, NeighbourError> {
        self.request_entry(now, instance, address, WantedBy::Rules)
    }

    /// Keeps an entry in its slot as long as this or a copy lives.
    pub fn hold(&self, id: AdjacencyId) -> AdjacencyRef {
        self.table
            .get(id)
            .map(|entry| entry.hold.clone())
            .unwrap_or_default()
    }

    /// A packet needs this neighbour. An unreachable one is not requested before its hold time is over.
    ///
    /// # Errors
    /// [`NeighbourError`].
    pub fn resolve(
        &mut self,
        now: Nanos,
        instance: InstanceId,
        address: IpAddr,
    ) -> Result<AdjacencyId, NeighbourError> {
        self.request_entry(now, instance, address, WantedBy::Traffic)
    }

    /// The slot of a neighbour that is in the table.
    pub fn find(&self, instance: InstanceId, address: IpAddr) -> Option<AdjacencyId> {
        self.table.find(instance, address)
    }

    /// Whether frames can be sent to the neighbour now.
    pub fn is_resolved(&self, id: AdjacencyId) -> bool {
        let resolved = self.table.get(id).filter(|entry| entry.mac().is_some());
        resolved.is_some_and(|entry| !self.is_cut_off(entry) && !self.is_without_contact(entry))
    }

    /// The port that an entry's neighbour is behind.
    fn port_of(&self, entry: &Entry) -> Option<PortId> {
        self.interface(entry.instance).map(|interface| interface.port)
    }

    /// Whether the port of an entry has no link.
    fn is_link_down(&self, entry: &Entry) -> bool {
        self.port_of(entry).is_some_and(|port| self.links.is_down(port))
    }

    /// Whether the neighbours behind the port of an entry cannot be asked at present.
    fn is_without_contact(&self, entry: &Entry) -> bool {
        let is_without = |port| self.links.is_without_contact(port);
        !entry.is_ourselves() && self.port_of(entry).is_some_and(is_without)
    }

    /// Whether nothing can be sent to an entry: its link is down, or the own address to request it from is tentative or
    /// a duplicate.
    fn is_cut_off(&self, entry: &Entry) -> bool {
        let may_request = || self.own.may_request(entry.instance, entry.address.is_ipv6());
        !entry.is_ourselves() && (self.is_link_down(entry) || !may_request())
    }

    /// Publishes entries that became reachable or unreachable, and restarts the resolution of the former.
    fn restart(&mut self, now: Nanos, wanted: impl Fn(&Entry, &Interface) -> bool) {
        for id in self.table.slots() {
            let Some(entry) = self.table.get(id) else { continue };
            let interface = self.interface(entry.instance);
            let is_wanted = interface.is_some_and(|interface| wanted(entry, interface));
            if !is_wanted || entry.is_ourselves() {
                continue;
            }
            if !matches!(entry.state, State::Static(_)) {
                let state = match self.is_cut_off(entry) {
                    false => State::Incomplete { asked: 0, at: now },
                    true => State::Failed { at: Nanos::MAX },
                };
                self.table.set(id, state);
            }
            self.publish(id);
        }
    }

    /// Sends the frames of own addresses, and restarts resolution where an own address became usable or unusable.
    fn handle_own_changes(&mut self, now: Nanos) {
        while let Some(frame) = self.own.poll_transmit() {
            self.send(frame);
        }
        while let Some(event) = self.own.poll_event() {
            if event.claimant.is_none() || event.state != OwnAddressState::Preferred {
                self.restart(now, |entry, _| {
                    entry.instance == event.instance && entry.address.is_ipv6() == event.address.is_ipv6()
                });
            }
            self.own_events.push_back(event);
        }
    }

    /// The next change of an own address, in order.
    pub fn poll_own_address(&mut self) -> Option<OwnAddressEvent> {
        self.own_events.pop_front()
    }

    /// All own addresses, for views.
    pub fn own_addresses(&self) -> impl Iterator<Item = OwnAddressView> + '_ {
        self.own.views()
    }

    /// The slot of a path; `None` without that group.
    pub fn path(&self, group: GroupId, path: u8) -> Option<AdjacencyId> {
        self.groups.slot(group, path)
    }

    /// The router that a path leads to now.
    pub fn router_of_path(&self, group: GroupId, path: u8) -> Option<AdjacencyId> {
        self.groups.router(group, path)
    }

    /// Publishes the paths of a group that lead to another router than before, or to `changed`.
    fn publish_paths(&mut self, group: GroupId, changed: Option<AdjacencyId>) {
        let routers = self.groups.routers(group);
        let resolved: Vec<bool> = routers.iter().map(|router| self.is_resolved(*router)).collect();
        for path in self.groups.assign(group, &resolved, changed) {
            let adjacency = path.router.and_then(|router| self.adjacency(router));
            self.changes.push_back(AdjacencyChange {
                id: path.slot,
                neighbour: None,
                adjacency,
            });
        }
    }

    /// The header of frames to the neighbour, for what control itself sends.
    pub fn adjacency(&self, id: AdjacencyId) -> Option<Adjacency> {
        let entry = self.table.get(id)?;
        Some(self.adjacency_of(entry, self.interface(entry.instance)?))
    }

    /// Entries in the table.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// A worker has received a message by which `address` is at `mac`.
    pub fn handle_message(
        &mut self,
        now: Nanos,
        instance: InstanceId,
        address: IpAddr,
        mac: MacAddr,
        message: NeighbourMessage,
    ) {
        if !mac.is_station() {
            return;
        }
        let on = self.interface(instance).map(|interface| interface.port);
        if on.is_some_and(|port| self.links.is_down(port)) {
            // It was received before the link went down.
            return;
        }
        if message == NeighbourMessage::Claim {
            self.own.handle_claim(now, instance, address, mac);
            return self.handle_own_changes(now);
        }
        let Some(id) = self.find(instance, address) else {
            if message == NeighbourMessage::Request && self.len() < self.config.capacity / 2 {
                // A sender that cannot be a neighbour gets its reply nevertheless, at its link layer address.
                let _ = self.resolve(now, instance, address);
            }
            return;
        };
        let Some(entry) = self.table.get(id) else { return };
        let (known, believed) = (entry.mac(), self.state_after(now, entry, mac, message));
        let Some(state) = believed else { return };
        self.table.set(id, state);
        if matches!(state, State::Reachable { .. }) {
            self.table.set_answered(id, now);
        }
        if self.table.get(id).and_then(Entry::mac) != known {
            self.publish(id);
        }
    }

    /// The state after a message that names `mac`, or `None` if it changes nothing.
    fn state_after(
        &self,
        now: Nanos,
        entry: &Entry,
        mac: MacAddr,
        message: NeighbourMessage,
    ) -> Option<State> {
        let at = now + self.timers(entry).reachable;
        let reachable = State::Reachable {
            mac,
            at,
            conflict: now,
        };
        let answer = message == NeighbourMessage::Reply;
        match entry.state {
            State::Static(_) | State::Ourselves(_) => None,
            State::Incomplete { .. } => answer.then_some(reachable),
            State::Failed { .. } => Some(State::Incomplete { asked: 0, at: now }),
            State::Reachable {
                mac: known, conflict, ..
            } if known == mac => Some(State::Reachable { mac, at, conflict }),
            State::Reachable {
                mac: known, conflict, ..
            } => {
                let check = State::Checking {
                    mac: known,
                    asked: 0,
                    at: now,
                };
                (conflict <= now).then_some(check)
            }
            State::Checking { mac: known, .. } if known == mac => {
                let conflict = now + self.config.retry;
                Some(State::Reachable { mac, at, conflict })
            }
            // Another station is accepted only after the known one has not replied.
            State::Checking { asked, .. } => (answer && asked > self.config.attempts).then_some(reachable),
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) may have something to do.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let entries = self.table.poll_timeout();
        entries.into_iter().chain(self.own.poll_timeout()).min()
    }

    /// Does what is due at `now`: requests, checks, and removal of entries that do not reply.
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.own.handle_timeout(now);
        self.handle_own_changes(now);
        for id in self.table.due(now) {
            self.advance(now, id);
        }
    }

    /// The next frame to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next change for every worker, in order.
    pub fn poll_change(&mut self) -> Option<AdjacencyChange> {
        self.changes.pop_front()
    }

    /// Announces own addresses in use on all links (gratuitous ARP, RFC 5227 §3; unsolicited advertisement, RFC 4861
    /// §7.2.6), so that switches and neighbours forget an earlier owner. For a start or a take-over.
    pub fn announce(&mut self) {
        self.own.announce(None);
        self.handle_own_changes(Nanos::ZERO);
    }

    /// The same on the links of one port, which has come up or whose frames leave by another member.
    pub fn announce_on(&mut self, port: PortId) {
        self.own.announce(Some(port));
        self.handle_own_changes(Nanos::ZERO);
    }

    fn advance(&mut self, now: Nanos, id: AdjacencyId) {
        let Some(entry) = self.table.get(id) else { return };
        let (attempts, again) = (self.config.attempts, now + self.timers(entry).retry);
        if self.is_without_contact(entry)
            && let Some(state) = entry.put_off(again)
        {
            return self.table.set(id, state);
        }
        match entry.state {
            State::Static(_) | State::Ourselves(_) => {}
            State::Incomplete { asked, .. } if asked >= attempts => self.give_up(now, id),
            State::Incomplete { asked, .. } => {
                self.table.set(
                    id,
                    State::Incomplete {
                        asked: asked + 1,
                        at: again,
                    },
                );
                self.request(id, None);
            }
            State::Failed { .. } if entry.is_kept() => {
                self.table.set(id, State::Incomplete { asked: 1, at: again });
                self.request(id, None);
            }
            State::Failed { .. } => self.remove(id),
            State::Reachable { .. } if entry.is_spare() => self.remove(id),
            State::Reachable { mac, .. } => {
                self.table.set(
                    id,
                    State::Checking {
                        mac,
                        asked: 1,
                        at: again,
                    },
                );
                self.request(id, Some(mac));
            }
            State::Checking { asked, .. } if asked >= attempts.saturating_mul(2) => self.give_up(now, id),
            State::Checking { mac, asked, .. } => {
                self.table.set(
                    id,
                    State::Checking {
                        mac,
                        asked: asked + 1,
                        at: again,
                    },
                );
                self.request(id, (asked < attempts).then_some(mac));
            }
        }
    }

    fn give_up(&mut self, now: Nanos, id: AdjacencyId) {
        let Some(entry) = self.table.get(id) else { return };
        let (known, at) = (entry.mac().is_some(), now + self.timers(entry).hold);
        self.table.set(id, State::Failed { at });
        if known {
            self.publish(id);
        }
    }

    /// The times of an entry.
    fn timers(&self, entry: &Entry) -> Timers {
        let NeighboursConfig {
            retry,
            reachable,
            hold,
            router_check,
            ..
        } = self.config;
        match entry.wanted {
            WantedBy::Configuration => Timers {
                retry: retry.min(router_check),
                reachable: router_check,
                hold: hold.min(router_check),
            },
            WantedBy::Rules | WantedBy::Traffic => Timers {
                retry,
                reachable,
                hold,
            },
        }
    }

    fn request_entry(
        &mut self,
        now: Nanos,
        instance: InstanceId,
        address: IpAddr,
        wanted: WantedBy,
    ) -> Result<AdjacencyId, NeighbourError> {
        let interface = self.interface(instance);
        if let Some(mac) = interface.filter(|one| one.has(address)).map(|one| one.mac) {
            return self.ourselves((instance, address), mac, wanted);
        }
        if let Some(id) = self.find(instance, address) {
            self.table.want(id, wanted);
            return Ok(id);
        }
        if interface.is_some_and(|interface| !interface.may_have_neighbour(address)) {
            return Err(NeighbourError::NoNeighbour);
        }
        let id = self.slot(instance, address, wanted, State::Incomplete { asked: 0, at: now })?;
        self.publish(id);
        self.advance(now, id);
        Ok(id)
    }

    /// The entry of an own address, to which rules and routes may lead. Traffic does not create one.
    fn ourselves(
        &mut self,
        (instance, address): (InstanceId, IpAddr),
        mac: MacAddr,
        wanted: WantedBy,
    ) -> Result<AdjacencyId, NeighbourError> {
        if wanted == WantedBy::Traffic {
            return Err(NeighbourError::NoNeighbour);
        }
        let is_known = self.find(instance, address).is_some();
        let id = self.slot(instance, address, wanted, State::Ourselves(mac))?;
        if !is_known {
            self.publish(id);
        }
        Ok(id)
    }

    /// The entry's slot, made with `state` when there is none.
    fn slot(
        &mut self,
        instance: InstanceId,
        address: IpAddr,
        wanted: WantedBy,
        state: State,
    ) -> Result<AdjacencyId, NeighbourError> {
        if let Some(id) = self.find(instance, address) {
            self.table.want(id, wanted);
            return Ok(id);
        }
        let spare = self.table.entry_to_remove(wanted);
        if let Some(spare) = spare.map_err(|Full| NeighbourError::Full)? {
            self.remove(spare);
        }
        Ok(self.table.insert(instance, address, wanted, state))
    }

    fn remove(&mut self, id: AdjacencyId) {
        if let Some(entry) = self.table.remove(id) {
            self.changes.push_back(AdjacencyChange {
                id,
                neighbour: Some((entry.instance, entry.address)),
                adjacency: None,
            });
        }
    }

    fn publish(&mut self, id: AdjacencyId) {
        let Some(entry) = self.table.get(id) else { return };
        let Some(interface) = self.interface(entry.instance) else {
            return;
        };
        let change = AdjacencyChange {
            id,
            neighbour: Some((entry.instance, entry.address)),
            adjacency: Some(self.adjacency_of(entry, interface)),
        };
        self.changes.push_back(change);
        for group in self.groups.of_router(id) {
            self.publish_paths(group, Some(id));
        }
    }

    /// Requests the entry's link layer address from `to`, or from all.
    fn request(&mut self, id: AdjacencyId, to: Option<MacAddr>) {
        let Some(entry) = self.table.get(id) else { return };
        let Some(interface) = self.interface(entry.instance) else {
            return;
        };
        if !self.own.may_request(entry.instance, entry.address.is_ipv6()) {
            return;
        }
        if let Some(frame) = solicit::request(interface, entry.address, to) {
            self.send(frame);
        }
    }

    fn send(&mut self, frame: Transmit) {
        if self.transmits.len() < self.config.transmits && self.links.carries(frame.port) {
            self.transmits.push_back(frame);
        }
    }

    fn interface(&self, instance: InstanceId) -> Option<&Interface> {
        self.interfaces
            .iter()
            .find(|interface| interface.instance == instance)
    }

    /// The adjacency of an entry.
    fn adjacency_of(&self, entry: &Entry, interface: &Interface) -> Adjacency {
        match entry.mac() {
            Some(_) if entry.is_ourselves() => Adjacency::to_ourselves(interface),
            Some(mac) if !self.is_cut_off(entry) => Adjacency::resolved(interface, mac),
            _ => Adjacency::unresolved(interface),
        }
    }
}

#[cfg(test)]
mod tests;
