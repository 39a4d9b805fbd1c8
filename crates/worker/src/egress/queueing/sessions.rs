//! The queues of sessions, as changes of the sessions make them.

use flow::meter::Rate;
use flow::{Direction, Installed, Nanos, SessionIndex};
use packet::ip_fragmentation::FragmentSpec;
use packet::{DropReason, PacketBuf};
use rules::image::{EgressQueue, EgressQueues, MeterShare, SessionImage};
use rules::model::Urr;
use tm::{Aqm, Class, NodeId, QueueId, QueueLine, QueueRates, QueueSpec, Shaper, UeId, UeSpec};

use super::Queueing;
use super::moved_queues::{MovedPacket, MovedQueues};
use super::nodes::shaper;
use super::packets::{Departing, Room, Waiting};
use super::session_queues::SessionQueues;
use crate::burst::credit::Charge;
use crate::control_channel::QueueStatus;
use crate::io::PacketMetadata;
use crate::trace::report::QueueEnd;

impl<B: PacketBuf + PacketMetadata> Queueing<B> {
    /// A session has this image, and had another before, if that is known; no packet of it waits, if the plan of its
    /// queues is another than before. One that comes from another worker lets no packet leave before
    /// [that](super::moves) has given its queues.
    pub fn follow(&mut self, image: &SessionImage, before: Option<&SessionImage>, now: Nanos) {
        for direction in Direction::BOTH {
            let planned = |image: &SessionImage| image.egress_queues(direction).cloned();
            let (session, new) = (image.session, planned(image));
            let has_queues = self.line(session, direction).is_some();
            match (before.and_then(planned), new) {
                _ if has_queues && before.is_none() => {}
                (Some(old), Some(new)) if has_queues && has_same_queues(&old, &new) => {
                    self.set_rates(session, direction, &new, now);
                }
                (_, new) => {
                    self.remove(session, direction, None, now, |_, _| {
                        debug_assert!(false, "nothing waits")
                    });
                    if let Some(plan) = &new {
                        self.add(session, direction, plan);
                    }
                    let comes = image.meter_share == MeterShare::Arriving && before.is_none();
                    if comes && self.line(session, direction).is_some() {
                        self.arriving.begin(session);
                    }
                }
            }
        }
    }

    /// A session that had the image `before` is in this block now: what its packets have counted is there.
    pub fn recharge(&mut self, image: &SessionImage, before: &SessionImage, installed: Installed) {
        let counters = before.counters();
        let slots: Vec<_> = counters.iter().map(|counter| image.slot_of(*counter)).collect();
        let session = image.session;
        for direction in Direction::BOTH {
            let Some(line) = self.queues_of(session, direction) else {
                continue;
            };
            let queues = (0..line.len()).map(|place| line.at(place));
            for queue in queues {
                let held = self.manager.held(queue, |room| {
                    if let Some(waiting) = room.get_mut() {
                        waiting.charge.arrive(installed, &slots);
                    }
                });
                debug_assert!(held.is_ok(), "{held:?}");
            }
        }
        let standing = self.outputs.iter_mut().flat_map(|output| &mut output.queue);
        for departing in standing.filter(|departing| departing.session == session) {
            departing.charge.arrive(installed, &slots);
        }
    }

    /// Whether packets of the session in any of its queues have to leave before it has this image.
    pub fn must_empty(&self, image: &SessionImage, before: &SessionImage) -> bool {
        let differs = |direction| match (before.egress_queues(direction), image.egress_queues(direction)) {
            (Some(old), Some(new)) => !has_same_queues(old, new),
            (old, _) => old.is_some(),
        };
        let unit = |image: &SessionImage, urr: &Urr| image.rules.urr(urr.id).map(Urr::unit);
        let counts_anew = |urr: &Urr| unit(before, urr).is_some_and(|before| before != urr.unit());
        !image.installation.fresh_urrs.is_empty()
            || image.rules.urrs().iter().any(counts_anew)
            || image.classification_generation != before.classification_generation
            || Direction::BOTH.into_iter().any(differs)
    }

    /// The queues that a session has, for views.
    pub fn status(&self, image: &SessionImage, now: Nanos) -> Vec<QueueStatus> {
        let of_direction = |direction| {
            let line = self.queues_of(image.session, direction)?;
            Some((direction, line, image.egress_queues(direction)?))
        };
        let directions = Direction::BOTH.into_iter().filter_map(of_direction);
        let queues = directions.flat_map(|(direction, line, plan)| {
            let places = plan.queues.iter().enumerate();
            places.filter_map(move |(place, queue)| {
                let shaper = queue
                    .shaper
                    .and_then(|place| plan.shapers.get(usize::from(place)));
                Some(QueueStatus {
                    direction,
                    class: queue.class,
                    qer: queue.qer,
                    shared: shaper.map(|shaper| shaper.qer),
                    view: self.manager.queue(line.at(place), now)?,
                    is_at_accelerator: false,
                })
            })
        });
        queues.collect()
    }

    /// A session has ended: what waits is lost.
    pub fn forget(&mut self, session: SessionIndex, now: Nanos) {
        let mut lost = std::mem::take(&mut self.lost);
        for direction in Direction::BOTH {
            let end = Some(QueueEnd::Lost(DropReason::EgressReleased));
            self.remove(session, direction, end, now, |waiting, _| {
                lost.push(waiting.lost(DropReason::EgressReleased));
            });
        }
        self.lost = lost;
        self.lose_arriving(session);
    }

    /// Takes all packets of a session out of its queues, in order, to leave at once; messages of tunnels behind
    /// them. It has no queues any more until it gets [an image](Self::follow).
    pub fn empty(&mut self, session: SessionIndex, now: Nanos) -> Vec<Departing<B>> {
        let mut all = Vec::new();
        for direction in Direction::BOTH {
            self.remove(session, direction, None, now, |waiting, split| {
                all.push(waiting.departing(split))
            });
        }
        all.sort_by_key(|departing: &Departing<B>| departing.charge.is_of_message());
        all.extend(self.release_arriving(session));
        all
    }

    /// Keeps queues that another worker has given until their session is whole here.
    pub fn keep_moved(&mut self, moved: MovedQueues<B>) {
        self.moved.push(moved);
    }

    /// The packets of queues that were given are lost: their session has ended. They are counted nowhere.
    pub fn lose_moved(&mut self, moved: MovedQueues<B>) {
        let MovedQueues {
            standing, packets, ..
        } = moved;
        let waiting = packets.into_iter().map(|packet| packet.waiting.departing(None));
        for departing in standing.into_iter().chain(waiting) {
            let uncounted = Departing {
                charge: Charge::NONE,
                ..departing
            };
            self.lost.push(uncounted.lost(DropReason::EgressReleased));
        }
    }

    /// Queues of a session that other workers have given.
    pub fn next_moved(&mut self, session: SessionIndex) -> Option<MovedQueues<B>> {
        let place = self.moved.iter().position(|moved| moved.session == session)?;
        Some(self.moved.remove(place))
    }

    /// What another worker has given of a session that ends here, and what was held back of it, is lost.
    fn lose_arriving(&mut self, session: SessionIndex) {
        while let Some(moved) = self.next_moved(session) {
            self.lose_moved(moved);
        }
        for packet in self.arriving.end(session).into_iter().flatten() {
            self.lost.push(packet.waiting.lost(DropReason::EgressReleased));
        }
    }

    /// What was held back of a session, to leave at once.
    fn release_arriving(&mut self, session: SessionIndex) -> impl Iterator<Item = Departing<B>> + use<B> {
        let held_back = self.arriving.end(session).into_iter().flatten();
        held_back.map(MovedPacket::departing)
    }

    /// Removes the queues of a session, and gives out their packets.
    fn remove(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        end: Option<QueueEnd>,
        now: Nanos,
        mut each: impl FnMut(Waiting<B>, Option<FragmentSpec>),
    ) {
        let line = self.queues_of(session, direction);
        self.forget_line(session, direction);
        let (splits, reports) = (&mut self.splits, &mut self.reports);
        for ue in line.map(|line| line.ues()).into_iter().flatten() {
            let removed = self.manager.remove_ue(ue, now, |held, room: &mut Room<B>| {
                let is_marked = held.marks_ce;
                reports.end(held.slot, end.unwrap_or(QueueEnd::Left { is_marked }), now);
                if let Some(mut waiting) = room.take() {
                    if held.marks_ce {
                        waiting.mark();
                    }
                    each(waiting, splits.remove(&held.slot.0));
                }
            });
            debug_assert!(removed.is_ok(), "{ue:?} of {session:?}: {removed:?}");
        }
    }

    /// A direction has no queues any more.
    pub(super) fn forget_line(&mut self, session: SessionIndex, direction: Direction) {
        let lines = self.sessions.get_mut(session.index());
        let line = lines.map_or(SessionQueues::NONE, |lines| {
            std::mem::replace(&mut lines[direction as usize], SessionQueues::NONE)
        });
        self.queues -= line.len();
        self.lacking.remove(&(session, direction));
    }

    /// Adds the queues of a plan.
    pub(super) fn add(&mut self, session: SessionIndex, direction: Direction, plan: &EgressQueues) {
        if self.sessions.len() <= session.index() {
            return;
        }
        match self.nodes.innermost(&mut self.manager, plan, direction) {
            Some(node) => self.add_below(session, direction, plan, node),
            None => self.give_up(session, direction, &[]),
        }
    }

    /// Adds the queues of a plan below a shared node.
    pub(super) fn add_below(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        plan: &EgressQueues,
        node: NodeId,
    ) {
        let mut ues: Vec<Option<UeId>> = vec![None; plan.shapers.len().max(1)];
        let mut ids: Vec<QueueId> = Vec::with_capacity(plan.queues.len());
        for queue in &plan.queues {
            let id = self.add_queue(node, plan, queue, &mut ues);
            match id {
                Some(id) => ids.push(id),
                None => return self.give_up(session, direction, &ues),
            }
        }
        // Where they are is known when a node has all of its queues.
        let lines: Vec<QueueLine> = ids.iter().filter_map(|id| self.manager.line_of(*id)).collect();
        let ue = ids.first().map_or(UeId(u32::MAX), |id| id.ue);
        let line = SessionQueues::new(plan, ue, &lines);
        self.queues += line.len();
        self.sessions[session.index()][direction as usize] = line;
    }

    /// Whether there is room for the queues of a new session.
    pub fn has_room(&self, image: &SessionImage) -> bool {
        let wanted = Direction::BOTH
            .into_iter()
            .filter_map(|direction| image.egress_queues(direction));
        let wanted: usize = wanted.map(|plan| plan.queues.len()).sum();
        self.queues + wanted <= self.most_queues
    }

    /// There is no room for the queues of a plan, of which some are there: a change has asked for more than there is in
    /// reserve. Its packets do not wait, and rates that queues were to keep are kept by nothing, until its next change.
    #[cold]
    fn give_up(&mut self, session: SessionIndex, direction: Direction, ues: &[Option<UeId>]) {
        self.lacking.insert((session, direction));
        for ue in ues.iter().flatten() {
            let _ = self.manager.remove_ue(*ue, Nanos::ZERO, |_, _| {});
        }
    }

    fn add_queue(
        &mut self,
        node: NodeId,
        plan: &EgressQueues,
        queue: &EgressQueue,
        ues: &mut [Option<UeId>],
    ) -> Option<QueueId> {
        let place = usize::from(queue.shaper.unwrap_or(0));
        let ue = match *ues.get(place)? {
            Some(ue) => ue,
            None => {
                let shaper = plan
                    .shapers
                    .get(place)
                    .map_or(Shaper::UNLIMITED, |own| shaper(own.maximum, own.burst_millis));
                let ue = self.manager.add_ue(UeSpec { node, shaper }).ok()?;
                ues[place] = Some(ue);
                ue
            }
        };
        let spec = self.spec(queue, queue.shaper.is_none() && !plan.shapers.is_empty());
        self.manager.add_queue(ue, &spec).ok()
    }

    fn spec(&self, queue: &EgressQueue, is_exempt: bool) -> QueueSpec {
        let all = &self.nodes.classes;
        let place = usize::from(queue.class).min(all.len() - 1);
        let class = &all[place];
        let rates = self.rates(queue);
        QueueSpec {
            class: Class::new(class.priority),
            weight: class.weight,
            rates,
            is_exempt,
            cap: class.octets,
            share: 0,
            aqm: match class.aqm {
                // A queue with rates of its own is one.
                Aqm::DualQueue if rates.is_some() => Aqm::CoDel,
                aqm => aqm,
            },
        }
    }

    /// The rates of a queue's own. What is above the guaranteed one is of the last class, unless that goes before its
    /// own.
    fn rates(&self, queue: &EgressQueue) -> Option<QueueRates> {
        if !queue.is_limited() {
            return None;
        }
        let guaranteed =
            (queue.guaranteed != Rate::ZERO).then(|| shaper(queue.guaranteed, queue.burst_millis));
        let all = &self.nodes.classes;
        let own = all
            .get(usize::from(queue.class))
            .map_or(0, |class| class.priority);
        let last = all.last().map_or(0, |class| class.priority);
        Some(QueueRates {
            guaranteed,
            excess_class: Class::new(own.max(last)),
            maximum: shaper(queue.maximum, queue.burst_millis),
        })
    }

    /// The queues stay, at these rates.
    pub fn set_rates(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        plan: &EgressQueues,
        now: Nanos,
    ) {
        let Some(line) = self.queues_of(session, direction) else {
            return;
        };
        for (place, queue) in plan.queues.iter().enumerate().take(line.len()) {
            let id = line.at(place);
            if let Some(own) = queue
                .shaper
                .and_then(|place| plan.shapers.get(usize::from(place)))
            {
                let _ = self
                    .manager
                    .set_ue_rate(id.ue, shaper(own.maximum, own.burst_millis), now);
            }
            if let Some(rates) = self.rates(queue) {
                let _ = self.manager.set_queue_rates(id, &rates, now);
            }
        }
    }
}

/// Whether two plans have the same queues, at whatever rates.
pub(super) fn has_same_queues(old: &EgressQueues, new: &EgressQueues) -> bool {
    let queue = |queue: &EgressQueue| EgressQueue {
        maximum: if queue.is_limited() {
            Rate::ZERO
        } else {
            Rate::UNLIMITED
        },
        guaranteed: Rate::ZERO,
        burst_millis: 0,
        ..*queue
    };
    let are_same = |(old, new): (&EgressQueue, &EgressQueue)| queue(old) == queue(new);
    let slots =
        |plan: &EgressQueues| -> Vec<_> { plan.shapers.iter().map(|one| (one.qer, one.slot)).collect() };
    (old.instance, old.policers) == (new.instance, new.policers)
        && slots(old) == slots(new)
        && old.queues.len() == new.queues.len()
        && old.queues.iter().zip(&new.queues).all(are_same)
}
