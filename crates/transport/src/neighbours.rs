//! Which link layer address a next hop has: ARP (RFC 826, RFC 5227) and Neighbour Discovery (RFC 4861) as one state
//! machine.
//!
//! Control owns it. Workers tell what they heard ([`Neighbours::heard`]) and what they lack ([`Neighbours::resolve`]);
//! what comes out are frames to send ([`Neighbours::poll_transmit`]) and changes for every worker's
//! [`Adjacencies`](crate::Adjacencies) ([`Neighbours::poll_change`]). It holds no packets: the worker keeps
//! a few that have no neighbour yet, and drops and counts the others.
//!
//! Nobody on the link can say where anyone is, himself included: only an answer to a question that is open is believed.
//! Who asks for us is asked back, since we shall have to answer soon, as long as the table is less than half full.
//! While an entry is good, a different address is not taken over; it starts a check of the known one, at most one a
//! second, and only when that fails is the question put to all. Static entries never change.
//!
//! Routers that routes lead through are asked more often than others, so that the paths of one that falls silent go to
//! the others of its group.
//!
//! Who wants an entry decides how long it stays ([`WantedBy`]): what the configuration names for ever; what a packet
//! lacked as long as it answers; what rules name as long as an image [holds](AdjacencyRef) it. Traffic gets at most half of the
//! table and rules three quarters, so that neither leaves the other without.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use flow::{AdjacencyId, InstanceId, Nanos, PortId};
use packet::MacAddr;
use rules::AdjacencyRef;

use self::groups::Groups;
use self::own::OwnAddresses;
use crate::adjacencies::{Adjacency, AdjacencyChange, Interface};
use crate::solicit::{self, Transmit};

mod groups;
mod own;
mod room;
mod view;

pub use self::own::{OwnAddressEvent, OwnAddressState, OwnAddressView};
pub use self::view::{NeighbourView, Standing};

/// Times and bounds of neighbour resolution.
#[derive(Clone, Copy, Debug)]
pub struct NeighboursConfig {
    /// Time between questions. Default 1 s (RFC 4861 §10, `RETRANS_TIMER`).
    pub retry: Duration,
    /// Questions before an entry counts as unreachable. Default 3 (RFC 4861 §10, `MAX_MULTICAST_SOLICIT`).
    pub attempts: u8,
    /// How long an answer is believed before it is checked. Default 30 s (RFC 4861 §10, `REACHABLE_TIME`).
    pub reachable: Duration,
    /// How long an unreachable neighbour is left alone. Default 5 s.
    pub hold: Duration,
    /// How long the answer of a router that routes lead through is believed. Then it is asked again, every
    /// [`retry`](Self::retry) or as often as this; `2 * attempts` without an answer, and its paths go to others. Default
    /// 1 s.
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

/// How a neighbour's address was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An ARP reply or a solicited Neighbour Advertisement, addressed to us.
    Answer,
    /// A question for our own address: its sender is about to talk to us.
    Question,
    /// Anything else that names its sender: an announcement.
    Unsolicited,
    /// The sender uses an own address, or verifies it before use (RFC 4862 §5.4, RFC 5227 §2.4).
    Claim,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Configured, for ever.
    Static(MacAddr),
    /// An address of ours: packets to it come in again.
    Ourselves(MacAddr),
    /// Never answered, or not any more: ask everyone. `asked` questions so far, the next (or the giving up) at `at`.
    Incomplete { asked: u8, at: Nanos },
    /// Did not answer: left alone until `at`.
    Failed { at: Nanos },
    /// Good until `at`. `conflict` is the earliest time at which another station's claim starts a check.
    Reachable {
        mac: MacAddr,
        at: Nanos,
        conflict: Nanos,
    },
    /// In use while it is checked: the first `attempts` questions go to the known station, the next to everyone.
    Checking { mac: MacAddr, asked: u8, at: Nanos },
}

/// Who wants an entry; of several, the last of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WantedBy {
    /// Rules: it goes when no image refers to it any more.
    Rules,
    /// Packets, or who asked for us: it goes when it does not answer.
    Traffic,
    /// The configuration: it never goes.
    Configuration,
}

/// The times of [`NeighboursConfig`] that an entry has.
struct Pace {
    retry: Duration,
    reachable: Duration,
    hold: Duration,
}

struct Entry {
    instance: InstanceId,
    address: IpAddr,
    wanted: WantedBy,
    /// What it stands under among the deadlines.
    due: Option<Nanos>,
    /// When it answered last.
    answered: Option<Nanos>,
    /// Copies are in the images that refer to the slot: until they are gone, no other neighbour gets it.
    hold: AdjacencyRef,
    state: State,
}

impl Entry {
    /// Whether something refers to the slot.
    fn is_kept(&self) -> bool {
        self.wanted == WantedBy::Configuration || self.hold.is_shared()
    }

    /// Whether it may go although its time has not come: nobody refers to it, and rules are done with it or it does
    /// not answer.
    fn is_spare(&self) -> bool {
        !self.is_kept() && (self.wanted == WantedBy::Rules || matches!(self.state, State::Failed { .. }))
    }

    fn deadline(&self) -> Option<Nanos> {
        match self.state {
            State::Static(_) | State::Ourselves(_) => None,
            State::Incomplete { at, .. }
            | State::Failed { at }
            | State::Reachable { at, .. }
            | State::Checking { at, .. } => Some(at),
        }
    }

    fn mac(&self) -> Option<MacAddr> {
        match self.state {
            State::Static(mac)
            | State::Ourselves(mac)
            | State::Reachable { mac, .. }
            | State::Checking { mac, .. } => Some(mac),
            State::Incomplete { .. } | State::Failed { .. } => None,
        }
    }
}

/// The neighbours of every instance, and what is being asked about them.
pub struct Neighbours {
    config: NeighboursConfig,
    interfaces: Vec<Interface>,
    /// By [`AdjacencyId`]; `None` is free.
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    index: HashMap<(InstanceId, IpAddr), AdjacencyId>,
    /// Entries by [`WantedBy`].
    counts: [usize; 3],
    groups: Groups,
    transmits: VecDeque<Transmit>,
    changes: VecDeque<AdjacencyChange>,
    /// Which slot's deadline is when.
    deadlines: BTreeSet<(Nanos, u32)>,
    /// Slots of entries that do not answer: what makes room, if nobody refers to it.
    failed: BTreeSet<(WantedBy, u32)>,
    /// Where the next search for one that may go begins, by [`WantedBy`].
    search: [u32; 3],
    /// Ports whose link is down: nobody is there, whatever was learnt.
    down: BTreeSet<PortId>,
    own: OwnAddresses,
    own_events: VecDeque<OwnAddressEvent>,
}

/// Entries that are looked at, at most, to find one that may go for the sake of a packet: packets come often.
const MOST_LOOKS: usize = 64;

impl Neighbours {
    /// No entries yet; `interfaces` says how we look like on each instance's link.
    pub fn new(config: NeighboursConfig, interfaces: Vec<Interface>) -> Self {
        let own = OwnAddresses::new(&interfaces, config.dad_transmits, config.retry);
        let mut made = Self {
            config,
            interfaces,
            entries: Vec::new(),
            free: Vec::new(),
            index: HashMap::new(),
            counts: [0; 3],
            groups: Groups::behind(config.capacity),
            transmits: VecDeque::new(),
            changes: VecDeque::new(),
            deadlines: BTreeSet::new(),
            failed: BTreeSet::new(),
            search: [0; 3],
            down: BTreeSet::new(),
            own,
            own_events: VecDeque::new(),
        };
        made.follow_own(Nanos::ZERO);
        made
    }

    /// A neighbour whose address is configured. It replaces what was learnt.
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
        self.set(id, State::Static(mac));
        self.publish(id);
        Ok(id)
    }

    /// The neighbour that a route leads through, asked for from now on and kept for ever.
    ///
    /// # Errors
    /// [`NeighbourError`].
    pub fn pin(
        &mut self,
        now: Nanos,
        instance: InstanceId,
        address: IpAddr,
    ) -> Result<AdjacencyId, NeighbourError> {
        self.ask_for(now, instance, address, WantedBy::Configuration)
    }

    /// The neighbour that rules send to, asked for from now on. It is kept from the next [`hold`](Self::hold) on; to be
    /// called before any other neighbour is asked for.
    ///
    /// # Errors
    /// [`NeighbourError`].
    pub fn refer(
        &mut self,
        now: Nanos,
        instance: InstanceId,
        address: IpAddr,
    ) -> Result<AdjacencyId, NeighbourError> {
        self.ask_for(now, instance, address, WantedBy::Rules)
    }

    /// Keeps an entry in its slot as long as this or a copy lives.
    pub fn hold(&self, id: AdjacencyId) -> AdjacencyRef {
        self.entry(id).map(|entry| entry.hold.clone()).unwrap_or_default()
    }

    /// A worker lacks this neighbour. An unreachable one is not asked for again before its hold is over.
    ///
    /// # Errors
    /// [`NeighbourError`].
    pub fn resolve(
        &mut self,
        now: Nanos,
        instance: InstanceId,
        address: IpAddr,
    ) -> Result<AdjacencyId, NeighbourError> {
        self.ask_for(now, instance, address, WantedBy::Traffic)
    }

    /// The slot of a neighbour that is in the table.
    pub fn find(&self, instance: InstanceId, address: IpAddr) -> Option<AdjacencyId> {
        self.index.get(&(instance, address)).copied()
    }

    /// Whether frames can be sent to the neighbour now.
    pub fn is_resolved(&self, id: AdjacencyId) -> bool {
        let resolved = self.entry(id).filter(|entry| entry.mac().is_some());
        resolved.is_some_and(|entry| !self.is_cut_off(entry))
    }

    /// Whether the port of an entry has no link.
    fn is_link_down(&self, entry: &Entry) -> bool {
        let on = self.interface(entry.instance).map(|interface| interface.port);
        on.is_some_and(|port| self.down.contains(&port))
    }

    /// Whether nothing can be sent to an entry: its link is down, or the own address that it would be asked from is
    /// tentative or a duplicate.
    fn is_cut_off(&self, entry: &Entry) -> bool {
        let to_ourselves = matches!(entry.state, State::Ourselves(_));
        let may_ask = || self.own.may_ask(entry.instance, entry.address.is_ipv6());
        !to_ourselves && (self.is_link_down(entry) || !may_ask())
    }

    /// The link of a port went down: its neighbours are unreachable at once, configured ones as well, and the paths of
    /// its routers go to others. Or it came up: own addresses are verified or announced, and all neighbours asked for.
    pub fn set_link(&mut self, now: Nanos, port: PortId, up: bool) {
        let is_news = if up {
            self.down.remove(&port)
        } else {
            self.down.insert(port)
        };
        if !is_news {
            return;
        }
        self.own.set_link(now, port, up);
        if up {
            self.own.announce(Some(port));
        }
        self.restart(now, |_, interface| interface.port == port);
        self.follow_own(now);
    }

    /// Workers learn of entries that have become reachable or unreachable; resolution of the former starts anew.
    fn restart(&mut self, now: Nanos, wanted: impl Fn(&Entry, &Interface) -> bool) {
        for slot in 0..self.entries.len() {
            let id = AdjacencyId(slot as u32);
            let Some(entry) = self.entry(id) else { continue };
            let interface = self.interface(entry.instance);
            let is_wanted = interface.is_some_and(|interface| wanted(entry, interface));
            if !is_wanted || matches!(entry.state, State::Ourselves(_)) {
                continue;
            }
            if !matches!(entry.state, State::Static(_)) {
                let state = match self.is_cut_off(entry) {
                    false => State::Incomplete { asked: 0, at: now },
                    true => State::Failed { at: Nanos::MAX },
                };
                self.set(id, state);
            }
            self.publish(id);
        }
    }

    /// Carries out what own addresses ask for.
    fn follow_own(&mut self, now: Nanos) {
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

    /// The header of frames to the neighbour, for what control itself sends.
    pub fn adjacency(&self, id: AdjacencyId) -> Option<Adjacency> {
        let entry = self.entry(id)?;
        Some(self.way(entry, self.interface(entry.instance)?))
    }

    /// Entries in the table.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// A worker heard that `address` is at `mac`.
    pub fn heard(&mut self, now: Nanos, instance: InstanceId, address: IpAddr, mac: MacAddr, how: Heard) {
        if !mac.is_station() {
            return;
        }
        let on = self.interface(instance).map(|interface| interface.port);
        if on.is_some_and(|port| self.down.contains(&port)) {
            // It was on its way when the link went.
            return;
        }
        if how == Heard::Claim {
            self.own.handle_claim(now, instance, address, mac);
            return self.follow_own(now);
        }
        let Some(id) = self.find(instance, address) else {
            if how == Heard::Question && self.len() < self.config.capacity / 2 {
                // Who cannot be a neighbour is answered all the same, where the answer goes to its station.
                let _ = self.resolve(now, instance, address);
            }
            return;
        };
        let Some(entry) = self.entry(id) else { return };
        let (known, believed) = (entry.mac(), self.believe(now, entry, mac, how));
        let Some(state) = believed else { return };
        self.set(id, state);
        if let (State::Reachable { .. }, Some(entry)) = (state, self.entry_mut(id)) {
            entry.answered = Some(now);
        }
        if self.entry(id).and_then(Entry::mac) != known {
            self.publish(id);
        }
    }

    /// The state after `mac` was heard, or `None` when it changes nothing.
    fn believe(&self, now: Nanos, entry: &Entry, mac: MacAddr, how: Heard) -> Option<State> {
        let at = now + self.pace(entry).reachable;
        let reachable = State::Reachable {
            mac,
            at,
            conflict: now,
        };
        let answer = how == Heard::Answer;
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
            // Only once the known station kept silent is another one believed.
            State::Checking { asked, .. } => (answer && asked > self.config.attempts).then_some(reachable),
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) may have something to do.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let entries = self.deadlines.first().map(|(at, _)| *at);
        entries.into_iter().chain(self.own.poll_timeout()).min()
    }

    /// Asks again, gives up, checks what is old: whatever is due at `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.own.handle_timeout(now);
        self.follow_own(now);
        let due = self.deadlines.range(..=(now, u32::MAX));
        let mut due: Vec<u32> = due.map(|(_, slot)| *slot).collect();
        due.sort_unstable();
        due.into_iter()
            .for_each(|slot| self.advance(now, AdjacencyId(slot)));
    }

    /// The next frame to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next change to tell every worker, in order.
    pub fn poll_change(&mut self) -> Option<AdjacencyChange> {
        self.changes.pop_front()
    }

    /// Announces own addresses in use on all links (gratuitous ARP, RFC 5227 §3; unsolicited advertisement, RFC 4861
    /// §7.2.6), so that switches and neighbours forget an earlier owner. For a start or a take-over.
    pub fn announce(&mut self) {
        self.own.announce(None);
        self.follow_own(Nanos::ZERO);
    }

    /// The same on the links of one port, which has come up or whose frames leave by another member.
    pub fn announce_on(&mut self, port: PortId) {
        self.own.announce(Some(port));
        self.follow_own(Nanos::ZERO);
    }

    fn advance(&mut self, now: Nanos, id: AdjacencyId) {
        let Some(entry) = self.entry(id) else { return };
        let (attempts, again) = (self.config.attempts, now + self.pace(entry).retry);
        match entry.state {
            State::Static(_) | State::Ourselves(_) => {}
            State::Incomplete { asked, .. } if asked >= attempts => self.give_up(now, id),
            State::Incomplete { asked, .. } => {
                self.set(
                    id,
                    State::Incomplete {
                        asked: asked + 1,
                        at: again,
                    },
                );
                self.ask(id, None);
            }
            State::Failed { .. } if entry.is_kept() => {
                self.set(id, State::Incomplete { asked: 1, at: again });
                self.ask(id, None);
            }
            State::Failed { .. } => self.remove(id),
            State::Reachable { .. } if entry.is_spare() => self.remove(id),
            State::Reachable { mac, .. } => {
                self.set(
                    id,
                    State::Checking {
                        mac,
                        asked: 1,
                        at: again,
                    },
                );
                self.ask(id, Some(mac));
            }
            State::Checking { asked, .. } if asked >= attempts.saturating_mul(2) => self.give_up(now, id),
            State::Checking { mac, asked, .. } => {
                self.set(
                    id,
                    State::Checking {
                        mac,
                        asked: asked + 1,
                        at: again,
                    },
                );
                self.ask(id, (asked < attempts).then_some(mac));
            }
        }
    }

    fn give_up(&mut self, now: Nanos, id: AdjacencyId) {
        let Some(entry) = self.entry(id) else { return };
        let (known, at) = (entry.mac().is_some(), now + self.pace(entry).hold);
        self.set(id, State::Failed { at });
        if known {
            self.publish(id);
        }
    }

    /// The times of an entry.
    fn pace(&self, entry: &Entry) -> Pace {
        let NeighboursConfig {
            retry,
            reachable,
            hold,
            router_check,
            ..
        } = self.config;
        match entry.wanted {
            WantedBy::Configuration => Pace {
                retry: retry.min(router_check),
                reachable: router_check,
                hold: hold.min(router_check),
            },
            WantedBy::Rules | WantedBy::Traffic => Pace {
                retry,
                reachable,
                hold,
            },
        }
    }

    fn ask_for(
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
            self.want(id, wanted);
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

    /// An address of ours, which rules and routes may lead to. No packet gets there for its destination alone.
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
            self.want(id, wanted);
            return Ok(id);
        }
        self.make_room(wanted)?;
        let slot = self.free.pop().unwrap_or(self.entries.len() as u32);
        let entry = Entry {
            instance,
            address,
            wanted,
            due: None,
            answered: None,
            hold: AdjacencyRef::default(),
            state,
        };
        match self.entries.get_mut(slot as usize) {
            Some(place) => *place = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        self.counts[wanted as usize] += 1;
        self.index.insert((instance, address), AdjacencyId(slot));
        self.set(AdjacencyId(slot), state);
        Ok(AdjacencyId(slot))
    }

    /// Somebody wants an entry that is there.
    fn want(&mut self, id: AdjacencyId, wanted: WantedBy) {
        let Some(entry) = self.entry_mut(id) else { return };
        let before = entry.wanted;
        let after = before.max(wanted);
        entry.wanted = after;
        self.counts[before as usize] -= 1;
        self.counts[after as usize] += 1;
        if self.failed.remove(&(before, id.0)) {
            self.failed.insert((after, id.0));
        }
    }

    fn remove(&mut self, id: AdjacencyId) {
        let Some(entry) = self.entries.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        self.counts[entry.wanted as usize] -= 1;
        self.failed.remove(&(entry.wanted, id.0));
        if let Some(at) = entry.due {
            self.deadlines.remove(&(at, id.0));
        }
        self.index.remove(&(entry.instance, entry.address));
        self.free.push(id.0);
        self.changes.push_back(AdjacencyChange {
            id,
            neighbour: Some((entry.instance, entry.address)),
            adjacency: None,
        });
    }

    fn publish(&mut self, id: AdjacencyId) {
        let Some(entry) = self.entry(id) else { return };
        let Some(interface) = self.interface(entry.instance) else {
            return;
        };
        let change = AdjacencyChange {
            id,
            neighbour: Some((entry.instance, entry.address)),
            adjacency: Some(self.way(entry, interface)),
        };
        self.changes.push_back(change);
        self.publish_paths_by(id);
    }

    /// Asks `to`, or everyone, for the entry's address.
    fn ask(&mut self, id: AdjacencyId, to: Option<MacAddr>) {
        let Some(entry) = self.entry(id) else { return };
        let Some(interface) = self.interface(entry.instance) else {
            return;
        };
        if !self.own.may_ask(entry.instance, entry.address.is_ipv6()) {
            return;
        }
        if let Some(frame) = solicit::question(interface, entry.address, to) {
            self.send(frame);
        }
    }

    fn send(&mut self, frame: Transmit) {
        if self.transmits.len() < self.config.transmits && !self.down.contains(&frame.port) {
            self.transmits.push_back(frame);
        }
    }

    fn interface(&self, instance: InstanceId) -> Option<&Interface> {
        self.interfaces
            .iter()
            .find(|interface| interface.instance == instance)
    }

    /// What workers put before a frame to an entry.
    fn way(&self, entry: &Entry, interface: &Interface) -> Adjacency {
        match entry.mac() {
            Some(_) if matches!(entry.state, State::Ourselves(_)) => Adjacency::to_ourselves(interface),
            Some(mac) if !self.is_cut_off(entry) => Adjacency::resolved(interface, mac),
            _ => Adjacency::unresolved(interface),
        }
    }

    fn entry(&self, id: AdjacencyId) -> Option<&Entry> {
        self.entries.get(id.0 as usize)?.as_ref()
    }

    fn entry_mut(&mut self, id: AdjacencyId) -> Option<&mut Entry> {
        self.entries.get_mut(id.0 as usize)?.as_mut()
    }

    fn set(&mut self, id: AdjacencyId, state: State) {
        let Some(entry) = self.entry_mut(id) else { return };
        entry.state = state;
        let deadline = entry.deadline();
        let before = std::mem::replace(&mut entry.due, deadline);
        let failed = (entry.wanted, id.0);
        if let Some(at) = before {
            self.deadlines.remove(&(at, id.0));
        }
        if let Some(at) = deadline {
            self.deadlines.insert((at, id.0));
        }
        match state {
            State::Failed { .. } => self.failed.insert(failed),
            _ => self.failed.remove(&failed),
        };
    }
}

#[cfg(test)]
mod tests;
