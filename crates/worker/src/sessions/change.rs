//! Changes of sessions by Control's commands: whole, or not at all.

use flow::meter::PacketState;
use flow::{
    BlockError, BlockImage, BlockRef, Blocks, Bounds, Direction, Flows, Nanos, ReplaceMap, SessionIndex,
    UrrCount, VrfId,
};
use rules::boxed_option::BoxedOption;
use rules::image::{
    Counter, Installation, MeterShare, PacketsLeft, SessionChange, SessionImage, UsageSnapshot,
};
use rules::model::{Urr, UrrId};
use rules::prefix::IpPrefix;

use crate::ApplyError;
use crate::sessions::fixed_map::tunnel_key;
use crate::sessions::table::{Account, Sessions, Slot};

/// What became of a change, and what Control is to free.
pub(crate) struct Applied {
    pub outcome: Result<Option<UsageSnapshot>, ApplyError>,
    pub retired: Option<Box<SessionImage>>,
    pub spent: BoxedOption<BlockImage>,
}

impl Applied {
    fn failed(error: ApplyError, image: Option<Box<SessionImage>>) -> Self {
        Self {
            outcome: Err(error),
            retired: image,
            spent: BoxedOption::NONE,
        }
    }
}

impl Sessions {
    /// Carries out a change at `now`, whole or not at all.
    pub fn apply(&mut self, change: SessionChange, now: Nanos) -> Applied {
        let session = change.session();
        if !self.inactivity_timers.is_empty() {
            let counted = self.activity(session);
            self.inactivity_timers.note(session, counted, now);
        }
        let applied = self.carry_out(change, now);
        if applied.outcome.is_ok() {
            self.watch(session, now);
        }
        applied
    }

    /// Sets the inactivity timer of a session as its image asks. One that two workers have is watched by neither: none
    /// knows of all of its packets.
    fn watch(&mut self, session: SessionIndex, now: Nanos) {
        let image = self.at(session).map(|slot| &slot.image);
        let whole = image.filter(|image| image.meter_share == MeterShare::Whole);
        let timer = whole
            .and_then(|image| image.inactivity)
            .map(|wanted| wanted.timer);
        let counted = self.activity(session);
        self.inactivity_timers.set(session, timer, counted, now);
    }

    fn carry_out(&mut self, change: SessionChange, now: Nanos) -> Applied {
        match change {
            SessionChange::Install(image) => match self.check_install(&image) {
                Ok(()) => self.install(image, now),
                Err(error) => Applied::failed(error, Some(image)),
            },
            SessionChange::Replace(image, _) => match self.check_replace(&image) {
                Ok(()) => self.replace(image, now),
                Err(error) => Applied::failed(error, Some(image)),
            },
            SessionChange::Bound(session, bounds) => match self.bound(session, &bounds) {
                Ok(()) => Applied {
                    outcome: Ok(None),
                    retired: None,
                    spent: BoxedOption::NONE,
                },
                Err(error) => Applied::failed(error, None),
            },
            SessionChange::Remove(session) => match self.remove(session, now) {
                Some((usage, image)) => Applied {
                    outcome: Ok(usage),
                    retired: Some(image),
                    spent: BoxedOption::NONE,
                },
                None => Applied::failed(ApplyError::NotFound, None),
            },
        }
    }

    fn check_install(&self, image: &SessionImage) -> Result<(), ApplyError> {
        match self.slots.get(image.session.index()) {
            None => Err(ApplyError::NoSuchSlot),
            Some(Some(_)) => Err(ApplyError::Exists),
            Some(None) => self.check_keys(image),
        }
    }

    fn check_replace(&self, image: &SessionImage) -> Result<(), ApplyError> {
        self.at(image.session).ok_or(ApplyError::NotFound)?;
        self.check_keys(image)
    }

    /// Whether all tunnels and addresses of `image` are its own or free, and there is room for them.
    fn check_keys(&self, image: &SessionImage) -> Result<(), ApplyError> {
        let mut room = [
            self.tunnels.room(),
            self.addresses.room_v4(),
            self.addresses.room_v6(),
        ];
        let tunnels = image
            .tunnels
            .iter()
            .map(|key| (self.tunnels.at(&tunnel_key(*key)), 0));
        let addresses = image.ue_addresses.iter().map(|&(vrf, prefix)| {
            let table = if prefix.is_ipv4() { 1 } else { 2 };
            (self.addresses.at(vrf, prefix), table)
        });
        for (owner, table) in tunnels.chain(addresses) {
            match owner {
                Some(owner) if owner == image.session.0 => {}
                Some(_) => return Err(ApplyError::Taken),
                None => room[table] = room[table].checked_sub(1).ok_or(ApplyError::TableFull)?,
            }
        }
        Ok(())
    }

    fn install(&mut self, mut image: Box<SessionImage>, now: Nanos) -> Applied {
        let installed = match self.blocks.install(image.session, &image.block) {
            Ok(installed) => installed,
            Err(error) => return Applied::failed(fault(error), Some(image)),
        };
        if image.meter_share == MeterShare::Arriving {
            self.blocks.empty_meters(installed.block, now);
        }
        for SlotPackets { slot, states } in packets_of(&mut image) {
            set_packets(&mut self.blocks, installed.block, slot, states);
        }
        self.bring_tokens(&mut image, installed.block, now);
        let spent = self.spent(&mut image);
        self.add_keys(&image);
        // A quota of nothing stops at once: no packet is to find that, or it would use up the quotas of other URRs.
        for slot in 0..image.counter_slots().urr_counters() as u8 {
            self.blocks.look_at_bounds(installed.block, slot);
        }
        let index = image.session.index();
        self.slots[index] = Some(Slot::new(image, installed, Account::default()));
        self.count += 1;
        Applied {
            outcome: Ok(None),
            retired: None,
            spent,
        }
    }

    fn replace(&mut self, mut image: Box<SessionImage>, now: Nanos) -> Applied {
        let Some(slot) = self.at(image.session) else {
            return Applied::failed(ApplyError::NotFound, Some(image));
        };
        let carry = carried(&slot.image, &image);
        image.inherit(&slot.image);
        let same = slot.image.classification_generation == image.classification_generation;
        let flows = if same { Flows::Keep } else { Flows::Revoke };
        let leaves = image.meter_share == MeterShare::Leaving;
        let joins = image.meter_share == MeterShare::Whole && slot.image.meter_share != MeterShare::Whole;
        let is_same_session = slot.image.seid == image.seid;
        let block = slot.installed.block;
        if is_same_session {
            self.lower_bounds(slot, &mut image);
        }
        // What is not carried starts from zero, as does what is reported once.
        let mut usage = UsageSnapshot {
            session: image.session,
            counters: self.counters(slot, |urr| !carry.keeps(urr)),
            times: self.times(slot, |urr| !carry.keeps(urr)),
            before_qos: self.before_qos(slot),
            ..UsageSnapshot::default()
        };
        let rest = self.rest(slot, now);
        self.blocks.settle_meters(block, now);
        let installed = match self.blocks.replace(block, &image.block, &carry, flows) {
            Ok(installed) => installed,
            Err(error) => return Applied::failed(fault(error), Some(image)),
        };
        self.bring_packets(&mut image, installed.block, joins);
        let spent = self.spent(&mut image);
        usage.contents = self.take_contents(&image, is_same_session, !same);
        usage.contents.extend(rest);
        let retired = self.put(image, installed);
        if leaves {
            (usage.counters, usage.packets) = self.halve(usage.session);
        }
        Applied {
            outcome: Ok(told(usage)),
            retired,
            spent,
        }
    }

    /// What a block was made from, unless its image keeps it.
    fn spent(&self, image: &mut SessionImage) -> BoxedOption<BlockImage> {
        match self.keeps_blocks {
            true => BoxedOption::NONE,
            false => std::mem::take(&mut image.block),
        }
    }

    /// The bounds of credit pools whose counters begin anew, in other units, are as if they went on: what they have
    /// counted is taken off.
    fn lower_bounds(&self, slot: &Slot, image: &mut SessionImage) {
        let Some(block) = self.blocks.get(slot.installed.block) else {
            return;
        };
        let old = &slot.image;
        for (index, urr) in (0..).zip(image.rules.urrs()) {
            let before = old.rules.urr(urr.id).map_or(urr.unit(), Urr::unit);
            if before == urr.unit() || image.installation.fresh_urrs.contains(&urr.id) {
                continue;
            }
            let counted = old
                .slot_of(Counter::Volume(urr.id))
                .and_then(|slot| block.urr(slot));
            let bounds = image
                .block
                .as_mut()
                .and_then(|block| block.bounds.get_mut::<usize>(index));
            if let (Some(counted), Some(bounds)) = (counted, bounds) {
                *bounds = bounds.lowered(counted, before, urr.unit());
            }
        }
    }

    /// Puts what an image brings of bit rates into its block.
    fn bring_tokens(&mut self, image: &mut SessionImage, block: BlockRef, now: Nanos) {
        for left in take(image, |installation| &mut installation.tokens) {
            let mut slots = (0..).zip(image.rules.qers());
            let Some((slot, _)) = slots.find(|(_, qer)| qer.id == left.qer) else {
                continue;
            };
            for (direction, tokens) in Direction::BOTH.into_iter().zip(left.tokens) {
                if let Some(tokens) = tokens {
                    self.blocks.set_tokens(block, slot, direction, tokens, now);
                }
            }
        }
    }

    /// Writes the packet rates of an image into its block. With `joins` they are added to those of the block, without
    /// they replace them.
    fn bring_packets(&mut self, image: &mut SessionImage, block: BlockRef, joins: bool) {
        let bring = if joins { join_packets } else { set_packets };
        for SlotPackets { slot, states } in packets_of(image) {
            bring(&mut self.blocks, block, slot, states);
        }
    }

    /// An image takes the place of the session's before, which it gives.
    fn put(&mut self, image: Box<SessionImage>, installed: flow::Installed) -> Option<Box<SessionImage>> {
        let session = image.session;
        let account = self.carried(session, installed);
        self.change_keys(session, &image);
        let counters = image.counter_slots().urr_counters() as u8;
        let old = self.slots[session.index()].replace(Slot::new(image, installed, account));
        // What is reached under other bounds is found at once, too.
        for slot in 0..counters {
            self.blocks.look_at_bounds(installed.block, slot);
        }
        old.map(Slot::into_image)
    }

    /// Halves what is left of the bounds and packet rates of a session that goes to another worker. Gives its counts of
    /// this moment, and the halves of the packet rates that go along.
    fn halve(&mut self, session: SessionIndex) -> (Vec<(UrrId, UrrCount)>, Vec<PacketsLeft>) {
        let Some(slot) = self.slots.get(session.index()).and_then(Option::as_ref) else {
            return Default::default();
        };
        let counters = slot.image.counter_slots().urr_counters() as u8;
        let block = slot.installed.block;
        (0..counters).for_each(|slot| self.blocks.halve_limit(block, slot));
        let counters = self.at(session).map(|slot| self.counters(slot, |_| true));
        (counters.unwrap_or_default(), self.halve_packets(session))
    }

    /// Sets bounds of a session's counters; what they have reached already is found at once.
    fn bound(&mut self, session: SessionIndex, bounds: &[(Counter, Bounds)]) -> Result<(), ApplyError> {
        let slot = self.slots.get(session.index()).and_then(Option::as_ref);
        let slot = slot.ok_or(ApplyError::NotFound)?;
        let block = slot.installed.block;
        let slots = bounds
            .iter()
            .map(|(counter, bounds)| (slot.image.slot_of(*counter), *bounds));
        let slots: Vec<_> = slots
            .filter_map(|(index, bounds)| Some((index?, bounds)))
            .collect();
        for (index, bounds) in slots {
            if self.blocks.set_bounds(block, index, &bounds) {
                self.blocks.look_at_bounds(block, index);
            }
            self.keep_bounds(session, index, bounds);
        }
        Ok(())
    }

    /// The image of a block that is kept has the bounds that there are.
    fn keep_bounds(&mut self, session: SessionIndex, slot: u8, bounds: Bounds) {
        let image = self.image_mut(session).and_then(|image| image.block.as_mut());
        if let Some(image) = image {
            let slot = usize::from(slot);
            if image.bounds.len() <= slot {
                image.bounds.resize(slot + 1, Bounds::NONE);
            }
            image.bounds[slot] = bounds;
        }
    }

    fn remove(
        &mut self,
        session: SessionIndex,
        now: Nanos,
    ) -> Option<(Option<UsageSnapshot>, Box<SessionImage>)> {
        let slot = self.at(session)?;
        let (counters, packets) = (self.counters(slot, |_| true), self.packets(slot).collect());
        let tokens = self.tokens(slot);
        let times = self.times(slot, |_| true);
        let before_qos = self.before_qos(slot);
        let contents = self.contents(session, now);
        self.blocks.retain_contents(session, |_| false);
        let slot = self.slots[session.index()].take()?;
        self.blocks.remove(slot.installed.block);
        self.revoked += slot.account.flows as usize;
        let image = slot.into_image();
        let dropped = image.dropped_counts().collect();
        self.count -= 1;
        for key in &image.tunnels {
            self.tunnels.remove(&tunnel_key(*key));
        }
        for &(vrf, prefix) in &image.ue_addresses {
            self.addresses.remove(vrf, prefix);
        }
        let last = UsageSnapshot {
            mappings: Vec::new(),
            session,
            counters,
            times,
            before_qos,
            contents,
            packets,
            tokens,
            dropped,
            congestion: Vec::new(),
        };
        Some((told(last), image))
    }

    /// Takes half of what is left of a session's packet rates.
    fn halve_packets(&mut self, session: SessionIndex) -> Vec<PacketsLeft> {
        let Some(slot) = self.slots.get(session.index()).and_then(Option::as_ref) else {
            return Vec::new();
        };
        let (block, blocks) = (slot.installed.block, &mut self.blocks);
        let mut half = |index| {
            Direction::BOTH.map(|direction| blocks.halve_packets(block, index, direction).unwrap_or_default())
        };
        let slots = slot.image.packet_slots();
        let one = |(slot, qer)| PacketsLeft {
            qer,
            states: half(slot),
        };
        slots.map(one).collect()
    }

    /// Takes away the keys that the session has and `image` has not, and adds those of `image`.
    fn change_keys(&mut self, session: SessionIndex, image: &SessionImage) {
        if let Some(slot) = self.slots[session.index()].as_ref() {
            let old = &slot.image;
            for key in old.tunnels.iter().filter(|key| !image.tunnels.contains(key)) {
                self.tunnels.remove(&tunnel_key(*key));
            }
            for key in old
                .ue_addresses
                .iter()
                .filter(|key| !image.ue_addresses.contains(key))
            {
                self.addresses.remove(key.0, key.1);
            }
        }
        self.add_keys(image);
    }

    /// Adds the keys of `image`; [`check_keys`](Self::check_keys) has seen that they fit.
    fn add_keys(&mut self, image: &SessionImage) {
        for key in &image.tunnels {
            let _ = self.tunnels.insert(tunnel_key(*key), image.session.0);
        }
        for &(vrf, prefix) in &image.ue_addresses {
            self.revoke_around(image.session, vrf, prefix);
            let _ = self.addresses.insert(vrf, prefix, image.session.0);
        }
    }

    /// A session whose prefix holds `prefix` may have flows to addresses that now belong to `session`: they end.
    fn revoke_around(&mut self, session: SessionIndex, vrf: VrfId, prefix: IpPrefix) {
        let around = self
            .addresses
            .lookup(vrf, prefix.address())
            .filter(|other| *other != session.0);
        let slot = around
            .and_then(|other| self.slots.get_mut(other as usize))
            .and_then(Option::as_mut);
        let Some(slot) = slot else { return };
        let revoked = self.blocks.revoke(slot.installed.block);
        slot.installed = revoked.unwrap_or(slot.installed);
        self.revoked += std::mem::take(&mut slot.account.flows) as usize;
    }

    /// A session's account when its block becomes `installed`: the flows of another generation are lost.
    fn carried(&mut self, session: SessionIndex, installed: flow::Installed) -> Account {
        let Some(slot) = self.at(session) else {
            return Account::default();
        };
        let mut account = slot.account;
        if slot.installed.generation != installed.generation {
            self.revoked += std::mem::take(&mut account.flows) as usize;
        }
        account
    }
}

/// Counts and meters that are carried over: those of the URRs and QERs that are in both images, but for the URRs that
/// are new under an old number, and for credit pools whose counters count in other units now.
fn carried(old: &SessionImage, new: &SessionImage) -> ReplaceMap {
    let qers = |image: &SessionImage| {
        let qers = image.rules.qers().iter().map(|qer| (qer.id, false));
        let packets = image.packet_slots().map(|(_, qer)| (qer, true));
        qers.chain(packets).collect::<Vec<_>>()
    };
    let (old_urrs, new_urrs) = (old.counters(), new.counters());
    let both = ReplaceMap::by_ids(&old_urrs, &new_urrs).with_qers(&qers(old), &qers(new));
    let slots = (0..).zip(&new_urrs);
    let unit = |image: &SessionImage, urr| image.rules.urr(urr).map(Urr::unit);
    let is_fresh = |urr| new.installation.fresh_urrs.contains(&urr) || unit(old, urr) != unit(new, urr);
    let fresh = slots.filter(|(_, counter)| is_fresh(counter.urr()));
    fresh.fold(both, |map, (slot, _)| map.without_urr(slot))
}

/// Packets that the packet rates in one slot still admit.
struct SlotPackets {
    slot: u8,
    /// By [`Direction`].
    states: [PacketState; 2],
}

/// Takes the packets that packet rates still admit out of an image.
fn packets_of(image: &mut SessionImage) -> Vec<SlotPackets> {
    let left = take(image, |installation| &mut installation.packets);
    let slot = |qer| image.packet_slots().find(|(_, other)| *other == qer);
    left.into_iter()
        .filter_map(|left| {
            Some(SlotPackets {
                slot: slot(left.qer)?.0,
                states: left.states,
            })
        })
        .collect()
}

/// Takes a list out of what matters at the image's installation.
fn take<T>(image: &mut SessionImage, of: impl FnOnce(&mut Installation) -> &mut Vec<T>) -> Vec<T> {
    let installation = image.installation.as_mut();
    installation
        .map(|installation| std::mem::take(of(installation)))
        .unwrap_or_default()
}

fn set_packets(blocks: &mut Blocks, block: BlockRef, index: u8, left: [PacketState; 2]) {
    for (direction, left) in Direction::BOTH.into_iter().zip(left) {
        if left != PacketState::default() {
            blocks.set_packets(block, index, direction, left);
        }
    }
}

fn join_packets(blocks: &mut Blocks, block: BlockRef, index: u8, left: [PacketState; 2]) {
    for (direction, left) in Direction::BOTH.into_iter().zip(left) {
        blocks.join_packets(block, index, direction, left);
    }
}

/// The usage of a session, if there is any to report.
fn told(usage: UsageSnapshot) -> Option<UsageSnapshot> {
    (!usage.is_empty()).then_some(usage)
}

fn fault(error: BlockError) -> ApplyError {
    match error {
        BlockError::Full { .. } => ApplyError::NoBlock,
        BlockError::OutOfBounds => ApplyError::OutOfBounds,
        BlockError::Dead => ApplyError::NotFound,
    }
}
