//! Nodes, UEs, queues and rates: what control changes.

use flow::Nanos;
use flow::meter::Rate;
use zerocopy::FromZeros;

use super::Manager;
use crate::aqm::wred::{Wred, WredProfile};
use crate::bucket::Bucket;
use crate::chunks::Fifo;
use crate::ids::{Class, NodeId, QueueId, QueueLine, UeId, WredId};
use crate::node::{Entry, Node};
use crate::packets::Room;
use crate::queue::{Counters, Kind, Queue, QueueShaper};
use crate::runs::order_of;
use crate::spec::{
    Aqm, MOST_LEVELS, MOST_WRED_PROFILES, NodeSpec, QueueRates, QueueSpec, Shaper, TmError, UeSpec,
};
use crate::ue::Ue;

impl<R: Room> Manager<R> {
    /// Adds a shared node.
    ///
    /// # Errors
    /// [`TmError::NodesFull`], [`TmError::NoNode`] for its parent, [`TmError::TooDeep`], [`TmError::Weight`].
    pub fn add_node(&mut self, spec: NodeSpec) -> Result<NodeId, TmError> {
        if spec.weight == 0 {
            return Err(TmError::Weight);
        }
        let free = self.nodes.iter().position(Option::is_none);
        let number = free.unwrap_or(self.nodes.len());
        if number >= usize::from(self.limits.nodes) {
            return Err(TmError::NodesFull);
        }
        let id = NodeId(number as u16);
        let (mut root, mut level) = (id.0, 0);
        if let Some(parent) = spec.parent {
            let above = self.node_mut(parent)?;
            (root, level) = (above.root, above.level + 1);
            if usize::from(level) >= MOST_LEVELS {
                return Err(TmError::TooDeep);
            }
            above.children += 1;
        }
        let node = Node {
            bucket: Bucket::new(spec.shaper, self.largest_at(spec.overhead)),
            since: self.now,
            waits: 0,
            ready: 0,
            joined: 0,
            parent: spec.parent.map(|parent| parent.0),
            root,
            level,
            overhead: spec.overhead,
            quantum: i32::from(spec.weight) * i32::from(self.limits.quantum),
            children: 0,
            ues: 0,
            passed: 0,
            has_refused: false,
            deficits: [0; Class::COUNT],
            rings: [Fifo::default(); Class::COUNT],
        };
        match self.nodes.get_mut(number) {
            Some(place) => *place = Some(node),
            None => self.nodes.push(Some(node)),
        }
        if spec.parent.is_none() {
            self.ports.push(id.0);
        }
        Ok(id)
    }

    /// The longest packet with what it takes beyond its own octets.
    fn largest_at(&self, overhead: u8) -> u16 {
        self.limits.largest + u16::from(overhead)
    }

    fn node_mut(&mut self, node: NodeId) -> Result<&mut Node, TmError> {
        let of = self.nodes.get_mut(usize::from(node.0)).and_then(Option::as_mut);
        of.ok_or(TmError::NoNode(node))
    }

    /// Removes a shared node that has none below it and no UE.
    ///
    /// # Errors
    /// [`TmError::NoNode`], [`TmError::InUse`].
    pub fn remove_node(&mut self, node: NodeId) -> Result<(), TmError> {
        let of = *self.node_mut(node)?;
        if of.children != 0 {
            return Err(TmError::InUse(node));
        }
        let entry = Entry::Node(node.0).number();
        self.wheels.remove(&mut self.chunks, entry, of.waits);
        for (class, mut ring) in of.rings.into_iter().enumerate() {
            // UEs that were removed, and were in its rings yet.
            while let Some(Entry::Ue(ue)) = self.chunks.pop(&mut ring).map(Entry::from_number) {
                self.leave_for_good(ue, class);
            }
            if let Some(parent) = of
                .parent
                .and_then(|parent| self.nodes[usize::from(parent)].as_mut())
            {
                self.chunks.remove(&mut parent.rings[class], entry);
                if parent.rings[class].is_empty() {
                    parent.ready &= !(1 << class);
                }
            }
        }
        self.nodes[usize::from(node.0)] = None;
        self.ports.retain(|port| *port != node.0);
        if let Some(parent) = of.parent {
            self.node_mut(NodeId(parent))?.children -= 1;
        }
        Ok(())
    }

    /// Sets the rate and burst of a shared node from now on.
    ///
    /// # Errors
    /// [`TmError::NoNode`].
    pub fn set_node_rate(&mut self, node: NodeId, shaper: Shaper, now: Nanos) -> Result<(), TmError> {
        let now = self.at(now);
        let largest = self.limits.largest;
        let of = self.node_mut(node)?;
        change(
            &mut of.bucket,
            of.since,
            shaper,
            largest + u16::from(of.overhead),
            now,
        );
        of.since = now;
        let waits = std::mem::take(&mut of.waits);
        if of.parent.is_some() && (waits != 0 || !of.bucket.conforms(now, now)) {
            self.wheels
                .remove(&mut self.chunks, Entry::Node(node.0).number(), waits);
            self.wake_node(node.0, now);
        }
        Ok(())
    }

    /// Adds a profile for queues with WRED. It stays as long as the manager.
    ///
    /// # Errors
    /// [`TmError::WredBounds`], [`TmError::WredFull`].
    pub fn add_wred(&mut self, profile: &WredProfile) -> Result<WredId, TmError> {
        if !profile.is_valid() {
            return Err(TmError::WredBounds);
        }
        if self.wred.len() >= MOST_WRED_PROFILES {
            return Err(TmError::WredFull);
        }
        self.wred.push(Wred::new(profile, &self.limits.aqm));
        Ok(WredId(self.wred.len() as u8 - 1))
    }

    /// Forgets all WRED profiles: no queue is there that could have one.
    ///
    /// # Errors
    /// [`TmError::InUse`], with any node, where there are UEs.
    pub fn clear_wred(&mut self) -> Result<(), TmError> {
        let in_use = self.ues.len() - self.free_ues.len() - self.leaving as usize;
        if in_use > 0 {
            return Err(TmError::InUse(NodeId(0)));
        }
        self.wred.clear();
        Ok(())
    }

    /// Adds a UE's node.
    ///
    /// # Errors
    /// [`TmError::NoNode`], [`TmError::UesFull`].
    pub fn add_ue(&mut self, spec: UeSpec) -> Result<UeId, TmError> {
        self.node_mut(spec.node)?;
        let in_use = self.ues.len() - self.free_ues.len() - self.leaving as usize;
        if in_use >= self.limits.ues as usize {
            return Err(TmError::UesFull);
        }
        if self.free_ues.is_empty() {
            self.sweep_rings();
        }
        let ue = self.free_ues.pop().ok_or(TmError::UesFull)?;
        let mut of = Ue::new_zeroed();
        of.bucket = Bucket::new(spec.shaper, self.limits.largest);
        (of.since, of.node, of.state) = (self.now, spec.node.0, Ue::LIVE);
        self.ues[ue as usize] = of;
        self.node_mut(spec.node)?.children += 1;
        Ok(UeId(ue))
    }

    /// Sets the rate and burst of a UE from now on.
    ///
    /// # Errors
    /// [`TmError::NoUe`].
    pub fn set_ue_rate(&mut self, ue: UeId, shaper: Shaper, now: Nanos) -> Result<(), TmError> {
        let now = self.at(now);
        self.live(ue.0).ok_or(TmError::NoUe(ue))?;
        let of = &mut self.ues[ue.0 as usize];
        change(&mut of.bucket, of.since, shaper, self.limits.largest, now);
        of.since = now;
        let waits = std::mem::take(&mut of.waits);
        self.wheels
            .remove(&mut self.chunks, Entry::Ue(ue.0).number(), waits);
        self.wake_ue(ue.0, now);
        Ok(())
    }

    /// Adds a queue to a UE at its first free place. A dual queue takes two adjacent places; that of the classic queue
    /// is returned.
    ///
    /// # Errors
    /// [`TmError::NoUe`], [`TmError::NoPlace`], [`TmError::QueuesFull`], [`TmError::ShapersFull`], [`TmError::Weight`],
    /// [`TmError::NoWred`].
    /// A dual queue has no rates of its own: [`TmError::ShapersFull`] as well.
    pub fn add_queue(&mut self, ue: UeId, spec: &QueueSpec) -> Result<QueueId, TmError> {
        let is_dual = spec.aqm == Aqm::DualQueue;
        let of = *self.live(ue.0).ok_or(TmError::NoUe(ue))?;
        if spec.weight == 0 {
            return Err(TmError::Weight);
        }
        if let Aqm::Wred(profile) = spec.aqm
            && usize::from(profile.0) >= self.wred.len()
        {
            return Err(TmError::NoWred(profile));
        }
        if spec.rates.is_some() && (is_dual || self.free_shapers.is_empty()) {
            return Err(TmError::ShapersFull);
        }
        let wanted: u32 = if is_dual { 3 } else { 1 };
        let place = (0..8_u8).find(|place| u32::from(of.places) & (wanted << place) == 0);
        let place = place
            .filter(|place| wanted << place <= 0xff)
            .ok_or(TmError::NoPlace(ue))?;
        self.make_room(ue, place + u8::from(is_dual))?;
        let kind = match spec.aqm {
            Aqm::TailDrop => Kind::TAIL_DROP,
            Aqm::CoDel => Kind::CODEL,
            Aqm::DualQueue => Kind::CLASSIC,
            Aqm::Wred(profile) => Kind::wred(profile),
        };
        self.put_queue(ue, place, spec, kind);
        if is_dual {
            self.put_queue(ue, place + 1, spec, Kind::LOW_LATENCY);
        }
        if let Some(rates) = &spec.rates {
            self.put_shaper(ue, place, rates);
        }
        Ok(QueueId { ue, place })
    }

    /// Makes the UE's run long enough for a queue at `place`.
    fn make_room(&mut self, ue: UeId, place: u8) -> Result<(), TmError> {
        let of = self.ues[ue.0 as usize];
        let order = order_of(u32::from(place) + 1);
        if of.places != 0 && order <= of.order() {
            return Ok(());
        }
        let mut run = (of.first, of.order());
        while of.places != 0 && run.1 < order {
            let Some(first) = self.queues.extend(run.0, run.1) else {
                break;
            };
            run = (first, run.1 + 1);
        }
        let of = &mut self.ues[ue.0 as usize];
        if of.places != 0 {
            (of.first, of.state) = (run.0, of.state & 0xf0 | run.1);
        }
        if of.places == 0 || run.1 < order {
            let first = self.queues.take(order).ok_or(TmError::QueuesFull)?;
            if of.places != 0 {
                self.queues.copy(run.0, run.1, first);
                self.queues.give_back(run.0, run.1);
            }
            (of.first, of.state) = (first, of.state & 0xf0 | order);
        }
        Ok(())
    }

    fn put_queue(&mut self, ue: UeId, place: u8, spec: &QueueSpec, kind: Kind) {
        let of = &mut self.ues[ue.0 as usize];
        let bit = 1 << place;
        of.places |= bit;
        of.exempt = of.exempt & !bit | if spec.is_exempt { bit } else { 0 };
        of.set_class(place, spec.class.number());
        self.queues.of[of.line(place)] = Queue {
            cap: spec.cap,
            owner: Queue::owner(ue.0, place),
            weight: spec.weight,
            classes: spec.class.number() | spec.class.number() << 4,
            kind,
            share: spec.share.clamp(-8, 8),
            ..Queue::EMPTY
        };
        self.queues.counters[of.line(place)] = Counters::default();
    }

    fn put_shaper(&mut self, ue: UeId, place: u8, rates: &QueueRates) {
        let Some(number) = self.free_shapers.pop() else {
            return;
        };
        let largest = self.limits.largest;
        let mut shaper = QueueShaper::new_zeroed();
        shaper.maximum = Bucket::new(rates.maximum, largest);
        shaper.guaranteed = Bucket::new(rates.guaranteed.unwrap_or(Shaper::UNLIMITED), largest);
        shaper.guarantees = u8::from(rates.guaranteed.is_some());
        (shaper.since, shaper.ue, shaper.place) = (self.now, ue.0, place);
        self.shapers[number as usize] = shaper;
        let line = self.ues[ue.0 as usize].line(place);
        let queue = &mut self.queues.of[line];
        queue.shaper = number + 1;
        queue.set_excess_class(rates.excess_class.number());
    }

    /// Sets the rates of a queue that has some from now on.
    ///
    /// # Errors
    /// [`TmError::NoQueue`], where it has none as well.
    pub fn set_queue_rates(&mut self, queue: QueueId, rates: &QueueRates, now: Nanos) -> Result<(), TmError> {
        let now = self.at(now);
        let line = self.line(queue)?;
        let number = self.queues.of[line]
            .shaper
            .checked_sub(1)
            .ok_or(TmError::NoQueue(queue))?;
        self.queues.of[line].set_excess_class(rates.excess_class.number());
        let (shaper, largest) = (&mut self.shapers[number as usize], self.limits.largest);
        let guaranteed = rates.guaranteed.unwrap_or(Shaper::UNLIMITED);
        change(&mut shaper.guaranteed, shaper.since, guaranteed, largest, now);
        change(&mut shaper.maximum, shaper.since, rates.maximum, largest, now);
        shaper.guarantees = u8::from(rates.guaranteed.is_some());
        shaper.since = now;
        let waits = std::mem::take(&mut shaper.waits);
        self.wheels
            .remove(&mut self.chunks, Entry::Shaper(number).number(), waits);
        self.wake_queue(queue.ue.0, queue.place, now);
        Ok(())
    }

    /// The line of a queue.
    pub(super) fn line(&self, queue: QueueId) -> Result<usize, TmError> {
        let of = self.live(queue.ue.0).ok_or(TmError::NoQueue(queue))?;
        let is_there = queue.place < 8 && of.places >> queue.place & 1 == 1;
        is_there
            .then(|| of.line(queue.place))
            .ok_or(TmError::NoQueue(queue))
    }

    /// Where a queue is, for [packets](Self::enqueue_at): until its UE gets or loses a queue.
    pub fn line_of(&self, queue: QueueId) -> Option<QueueLine> {
        self.line(queue).ok().map(|line| QueueLine(line as u32))
    }

    /// The queue that is there, if there is one.
    pub fn queue_at(&self, line: QueueLine) -> Option<QueueId> {
        let queue = self.queues.of.get(line.0 as usize)?;
        (queue.kind != Kind::NONE).then(|| QueueId {
            ue: UeId(queue.ue()),
            place: queue.place(),
        })
    }

    /// The rate that a UE's node has.
    pub fn ue_rate(&self, ue: UeId) -> Option<Rate> {
        self.live(ue.0).map(|of| of.bucket.rate())
    }

    /// Takes the UEs that were removed out of all rings.
    fn sweep_rings(&mut self) {
        for node in 0..self.nodes.len() {
            for class in 0..Class::COUNT {
                let Some(mut ring) = self.nodes[node].as_ref().map(|of| of.rings[class]) else {
                    continue;
                };
                let mut kept = Fifo::default();
                while let Some(number) = self.chunks.pop(&mut ring) {
                    match Entry::from_number(number) {
                        Entry::Ue(ue) if !self.ues[ue as usize].is_live() => {
                            self.leave_for_good(ue, class);
                        }
                        _ => self.chunks.push(&mut kept, number),
                    }
                }
                if let Some(of) = &mut self.nodes[node] {
                    of.rings[class] = kept;
                    if kept.is_empty() {
                        of.ready &= !(1 << class);
                    }
                }
            }
        }
    }

    /// A UE that was removed leaves a ring.
    pub(super) fn leave_for_good(&mut self, ue: u32, class: usize) {
        self.part(ue, class);
        let of = &mut self.ues[ue as usize];
        if of.joined == 0 && !of.is_live() {
            of.state = 0;
            self.leaving -= 1;
            self.free_ues.push(ue);
        }
    }
}

/// Another rate, with the tokens of the one before.
fn change(bucket: &mut Bucket, since: u64, shaper: Shaper, largest: u16, now: u64) {
    bucket.settle(since, now);
    let mut new = Bucket::new(shaper, largest);
    new.go_on(bucket);
    *bucket = new;
}
