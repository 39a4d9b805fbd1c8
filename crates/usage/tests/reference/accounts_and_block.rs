//! What is tested: the accounts over a worker's real counters.

use super::*;

/// The accounts and a worker's block, together as control and worker are, but at once.
pub struct AccountsAndBlock {
    pub now: u64,
    pub urrs: Vec<Urr>,
    pub accounts: UsageAccounts,
    pub blocks: Blocks,
    pub block: BlockRef,
    pub generation: u32,
    pub reports: Vec<UsageReport>,
}

impl AccountsAndBlock {
    pub fn new(urrs: &[Urr]) -> Self {
        let accounts = UsageAccounts::new(SETTING);
        let mut tested = Self {
            now: 0,
            urrs: urrs.to_vec(),
            blocks: Blocks::new(4, 32).unwrap(),
            block: BlockRef(0),
            generation: 0,
            reports: Vec::new(),
            accounts,
        };
        let bounds = tested.accounts.preview_bounds(tested.now(), urrs, &[]);
        tested.install(bounds.clone());
        tested.accounts.update(tested.now(), urrs, &[]);
        tested.accounts.set_sent_bounds(urrs, &bounds);
        tested
    }

    pub fn now(&self) -> Nanos {
        Nanos::from_secs(self.now)
    }

    /// The URRs that count events by the slots of those counters, behind those of all.
    pub fn event_slots(&self) -> Vec<(u8, usize)> {
        let urrs = self.urrs.iter().enumerate();
        let counting = urrs
            .filter(|(_, urr)| urr.counts_events())
            .map(|(place, _)| place);
        (URRS as u8..).zip(counting).collect()
    }

    /// The members of the pool: slot, weight, and the slot that says so, behind those of events.
    fn weights(&self) -> Vec<(u8, Weight)> {
        let pool = &self.urrs[POOL];
        let first = (URRS + self.event_slots().len()) as u8;
        let members = pool.pool().unwrap_or_default().iter();
        let weight = |(slot, one): (u8, &Aggregated)| {
            let times = (one.multiplier.billionths() / pool.unit()) as u16;
            let of = POOL as u8;
            (one.urr.0 as u8, Weight { slot, of, times })
        };
        (first..).zip(members).map(weight).collect()
    }

    /// The counters of the pool for packets of these URRs.
    fn in_pool(&self, urrs: u8) -> u64 {
        let members = self.weights().into_iter();
        members
            .filter(|(urr, _)| urrs >> urr & 1 == 1)
            .fold(0, |mask, (_, weight)| mask | 1 << POOL | 1 << weight.slot)
    }

    /// The counters of events of these URRs.
    pub fn events_of(&self, urrs: u8) -> u64 {
        let slots = self.event_slots().into_iter();
        slots
            .filter(|(_, urr)| urrs >> urr & 1 == 1)
            .fold(0, |mask, (slot, _)| mask | 1 << slot)
    }

    pub fn image(&self, bounds: Vec<Bounds>) -> BlockImage {
        let weights: Vec<Weight> = self.weights().into_iter().map(|(_, weight)| weight).collect();
        BlockImage {
            urrs: (URRS + self.event_slots().len() + weights.len()) as u8,
            before_qos: weights.len() as u8,
            weights,
            units: self.events_of(u8::MAX),
            bounds,
            ..BlockImage::default()
        }
    }

    pub fn install(&mut self, bounds: Vec<Bounds>) {
        let installed = self.blocks.install(SessionIndex(0), &self.image(bounds)).unwrap();
        (self.block, self.generation) = (installed.block, installed.generation);
        for slot in 0..self.image(Vec::new()).urrs {
            self.blocks.look_at_bounds(self.block, slot);
        }
    }

    /// What the worker answers to a query: times once.
    pub fn counts(&mut self) -> Vec<(UrrId, UrrCount)> {
        for (slot, urr) in (0..).zip(&self.urrs) {
            if let Some(times) = self.blocks.take_times(self.block, slot) {
                self.accounts.record_packet_times(urr.id, times);
            }
        }
        let block = self.blocks.get(self.block).unwrap();
        let slots = (0..).zip(&self.urrs);
        let mut counts: Vec<_> = slots
            .map(|(slot, urr)| (urr.id, block.urr(slot).unwrap()))
            .collect();
        for (slot, urr) in self.event_slots() {
            let events = block.urr(slot).unwrap();
            counts[urr].1.events = events.ul_octets + events.dl_octets;
        }
        counts
    }

    /// Whether it was counted.
    pub fn packet(&mut self, urrs: u8, downlink: bool, octets: u16, event: bool) -> bool {
        let events = self.events_of(urrs);
        let own = u64::from(urrs) | self.in_pool(urrs);
        let all = own | events;
        let direction = if downlink {
            Direction::Downlink
        } else {
            Direction::Uplink
        };
        let millisecond = Millisecond::of(self.now());
        let mut live = self
            .blocks
            .live_at(self.block, self.generation, direction)
            .unwrap();
        if live.is_stopped(all) {
            if live.trap(all) {
                self.reached(all);
            }
            return false;
        }
        let counting = if event { all } else { own };
        let counted = live.count_with_units(counting, octets.into(), millisecond);
        if counted.action.is_some() {
            live.trap(counted.limits);
        }
        if counted.watermarks | counted.limits != 0 {
            self.reached(counted.watermarks | counted.limits);
        }
        counted.action.is_none()
    }

    pub fn reached(&mut self, slots: u64) {
        let counts = self.counts();
        let block = self.blocks.get(self.block).unwrap();
        let is_due = |slot: &u8| slots >> slot & 1 == 1;
        let due = (0..URRS as u8).filter(is_due);
        let octets = due.map(|slot| (self.urrs[usize::from(slot)].id, block.reached(slot)));
        let due = self.event_slots().into_iter().filter(|(slot, _)| is_due(slot));
        let events = due.map(|(slot, urr)| (self.urrs[urr].id, block.reached(slot).of_events()));
        let reported: Vec<_> = octets.chain(events).collect();
        let reports = self.accounts.evaluate(self.now(), &self.urrs, &counts, &reported);
        self.reports.extend(reports);
        self.set_bounds(false);
    }

    /// Sets the bounds that differ from those sent last, until nothing is reached by that.
    pub fn set_bounds(&mut self, again: bool) {
        let unsent = self.accounts.unsent_bounds(&self.urrs, again);
        let mut reached = 0_u64;
        for (counter, bounds) in unsent {
            let urr = self.urrs.iter().position(|urr| urr.id == counter.urr()).unwrap();
            let event_slots = self.event_slots();
            let slot = match counter {
                Counter::Volume(_) => urr as u8,
                Counter::Events(_) => event_slots.iter().find(|(_, of)| *of == urr).unwrap().0,
            };
            assert!(self.blocks.set_bounds(self.block, slot, &bounds));
            let found = self.blocks.look_at_bounds(self.block, slot);
            reached |= u64::from(!found.is_nothing()) << slot;
        }
        if reached != 0 {
            self.reached(reached);
        }
    }

    pub fn second(&mut self) {
        self.now += 1;
        self.expire();
    }

    /// Does what is due in the accounts.
    pub fn expire(&mut self) {
        if self
            .accounts
            .deadline(&self.urrs)
            .is_some_and(|at| at <= self.now())
        {
            self.accounts.tick(self.now(), &self.urrs);
            self.set_bounds(false);
            let counts = self.counts();
            let reports = self.accounts.evaluate(self.now(), &self.urrs, &counts, &[]);
            self.reports.extend(reports);
            self.set_bounds(false);
        }
    }

    pub fn query(&mut self) {
        let asked: Vec<_> = self
            .urrs
            .iter()
            .map(|urr| (urr.id, UsageTriggers::IMMER))
            .collect();
        let counts = self.counts();
        let reports = self.accounts.query(self.now(), &self.urrs, &counts, &asked);
        self.reports.extend(reports);
        self.set_bounds(false);
    }

    pub fn grant(&mut self, at: usize, new: Urr, renewed: Renewed) {
        let id = new.id;
        self.urrs[at] = new;
        let (now, urrs) = (self.now(), self.urrs.clone());
        let bounds = self.accounts.preview_bounds(now, &urrs, &[(id, renewed)]);
        self.replace(bounds.clone());
        self.accounts.update(now, &urrs, &[(id, renewed)]);
        self.accounts.set_sent_bounds(&urrs, &bounds);
        self.set_bounds(true);
        self.expire();
    }

    /// The pool has other members: its counter begins anew where it counts in other units, as a worker has it.
    pub fn reweigh(&mut self, new: Urr) {
        let units = (self.urrs[POOL].unit(), new.unit());
        let last = self.counts()[POOL];
        self.urrs[POOL] = new;
        let (now, urrs) = (self.now(), self.urrs.clone());
        let bounds = self.accounts.preview_bounds(now, &urrs, &[]);
        if units.0 == units.1 {
            self.replace(bounds.clone());
        } else {
            let mut lowered = bounds.clone();
            if let Some(bounds) = lowered.get_mut(POOL) {
                *bounds = bounds.lowered(last.1, units.0, units.1);
            }
            self.replace_with(lowered, &ReplaceMap::SAME.without_urr(POOL as u8));
            self.accounts.carry(last.0, last.1);
        }
        self.accounts.update(now, &urrs, &[]);
        self.accounts.set_sent_bounds(&urrs, &bounds);
        self.set_bounds(true);
        self.expire();
    }

    pub fn replace(&mut self, bounds: Vec<Bounds>) {
        self.replace_with(bounds, &ReplaceMap::SAME);
    }

    fn replace_with(&mut self, bounds: Vec<Bounds>, map: &ReplaceMap) {
        let image = self.image(bounds);
        let installed = self.blocks.replace(self.block, &image, map, flow::Flows::Keep);
        let installed = installed.unwrap();
        (self.block, self.generation) = (installed.block, installed.generation);
    }

    pub fn move_away(&mut self) {
        let last = self.counts();
        self.blocks.remove(self.block);
        for (urr, count) in last {
            self.accounts.carry(urr, count);
        }
        self.install(self.accounts.bounds(&self.urrs));
        self.set_bounds(true);
    }

    pub fn transfer(&mut self) {
        let counts = self.counts();
        let checkpoints = self.accounts.checkpoints(&counts);
        self.blocks.remove(self.block);
        self.accounts = UsageAccounts::resuming(&checkpoints, SETTING);
        let (now, urrs) = (self.now(), self.urrs.clone());
        self.install(self.accounts.preview_bounds(now, &urrs, &[]));
        self.accounts.update(now, &urrs, &[]);
        self.set_bounds(true);
    }
}
