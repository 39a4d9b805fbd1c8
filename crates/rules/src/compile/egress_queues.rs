//! Which rates of a session's QERs are kept by queues instead of meters, and which queues that takes.
//!
//! Packets of a direction wait where they leave by an instance with queues. A maximum bit rate is *shaped* then: its
//! QER has no meter in that direction, and packets above it wait. That needs one place where all its packets come by:
//! the queue of a QoS flow, for a QER with a QFI that marks the packets of all PDRs which name it; or a shaper for
//! several queues, for a QER without one (a Session-AMBR, TS 23.501 §5.7.2.6) of which no PDR has two. All other rates
//! are policed as ever, and so are those of sessions that activate predefined rules: these may apply QERs to packets of
//! other PDRs, by other FARs.

use flow::meter::{Chain, Rate};
use flow::{Direction, Forward, ForwardKind, InstanceId, Verdict};

use crate::classifier::Decision;
use crate::image::{EgressQueue, EgressQueues, EgressShaper};
use crate::model::{Qer, SessionRules};
use crate::network::{Egress, Network, QueueManagement};

/// Finds the queues of both directions. Forwards are those of the FARs, decisions those of the PDRs, by slot.
pub(super) fn egress_queues(
    rules: &SessionRules,
    decisions: &[Decision],
    forwards: &[Forward],
    network: &Network,
) -> [Option<EgressQueues>; 2] {
    let Some(egress) = network.egress() else {
        return [None, None];
    };
    Direction::BOTH.map(|direction| {
        let of_direction = decisions
            .iter()
            .filter(|decision| decision.direction == direction);
        let leads = |decision: &Decision| leads(forwards.get(usize::from(decision.forward)), network);
        let leading: Vec<_> = of_direction.map(|decision| (decision, leads(decision))).collect();
        let (first, _) = leading.iter().find(|(_, leads)| *leads == Leads::ToQueues)?;
        let instance = forwards.get(usize::from(first.forward))?.egress;
        Planner {
            rules,
            egress,
            direction,
            instance,
            policers: network.policers().shaped_of(rules.policers()),
            leading,
        }
        .plan()
        .into()
    })
}

/// The slots of the QERs whose rates are kept by queues: bit n is slot n.
pub(super) fn shaped_slots(queues: &EgressQueues) -> u64 {
    let flows = queues.queues.iter().filter(|queue| queue.is_limited());
    flows.fold(queues.shared_slots(), |mask, queue| {
        mask | 1 << (queue.marking & 63)
    })
}

/// Where packets of a forward go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leads {
    /// To queues.
    ToQueues,
    /// Nowhere for now, or they are no user packets.
    Nowhere,
    /// Past queues.
    Elsewhere,
}

fn leads(forward: Option<&Forward>, network: &Network) -> Leads {
    let Some(forward) = forward else {
        return Leads::Nowhere;
    };
    match forward.kind {
        ForwardKind::Tunnel | ForwardKind::Plain => {
            let instance = network.instance(forward.egress);
            match instance.and_then(|instance| instance.egress) {
                Some(_) => Leads::ToQueues,
                None => Leads::Elsewhere,
            }
        }
        ForwardKind::Drop | ForwardKind::Buffer | ForwardKind::Unchanged => Leads::Nowhere,
        ForwardKind::Punt | ForwardKind::Redirect => Leads::Elsewhere,
    }
}

/// A plan without the shapers that no queue shares.
fn without_unused_shapers(mut plan: EgressQueues) -> EgressQueues {
    let is_used = |place: usize| plan.queues.iter().any(|queue| queue.shaper == Some(place as u8));
    let used: Vec<usize> = (0..plan.shapers.len()).filter(|place| is_used(*place)).collect();
    for queue in &mut plan.queues {
        let place = queue
            .shaper
            .and_then(|old| used.iter().position(|place| *place == usize::from(old)));
        queue.shaper = place.map(|place| place as u8);
    }
    plan.shapers = used.iter().map(|place| plan.shapers[*place]).collect();
    plan
}

/// The PDRs of one direction, and where they lead.
struct Planner<'a> {
    rules: &'a SessionRules,
    egress: &'a Egress,
    direction: Direction,
    instance: InstanceId,
    policers: Chain,
    leading: Vec<(&'a Decision, Leads)>,
}

impl Planner<'_> {
    fn plan(&self) -> EgressQueues {
        let mut plan = EgressQueues {
            instance: self.instance,
            policers: self.policers,
            shapers: self.shapers(),
            queues: Vec::new(),
        };
        for (decision, _) in self.leading.iter().filter(|(_, leads)| *leads == Leads::ToQueues) {
            let queue = self.queue(decision, &plan);
            let is_known = plan
                .queues
                .iter()
                .any(|known| (known.marking, known.shaper) == (queue.marking, queue.shaper));
            if !is_known && self.places(&plan) + self.places_of(&queue) <= EgressQueues::MAX {
                plan.queues.push(queue);
            }
        }
        without_unused_shapers(plan)
    }

    fn places(&self, plan: &EgressQueues) -> usize {
        plan.queues.iter().map(|queue| self.places_of(queue)).sum()
    }

    /// A dual queue is two; one with rates of its own is none.
    fn places_of(&self, queue: &EgressQueue) -> usize {
        let class = self.egress.classes.all().get(usize::from(queue.class));
        let is_l4s = class.is_some_and(|class| class.management == QueueManagement::L4s);
        1 + usize::from(is_l4s && !queue.is_limited())
    }

    /// The PDRs of the direction that the QER in a slot applies to.
    fn users(&self, slot: usize) -> impl Iterator<Item = &(&Decision, Leads)> {
        self.leading
            .iter()
            .filter(move |(decision, _)| decision.qers >> slot & 1 == 1)
    }

    /// The rates that several queues share.
    fn shapers(&self) -> Vec<EgressShaper> {
        let qers = self.rules.qers().iter().enumerate();
        let shared = qers.filter(|(slot, qer)| self.is_shared(*slot, qer));
        shared
            .map(|(slot, qer)| EgressShaper {
                qer: qer.id,
                slot: slot as u8,
                maximum: self.maximum(qer),
                burst_millis: qer.burst_millis(),
            })
            .collect()
    }

    fn is_shared(&self, slot: usize, qer: &Qer) -> bool {
        let is_alone = |decision: &Decision| self.shared_by(decision) == 1 << slot;
        self.may_be_shared(qer)
            && self.users(slot).next().is_some()
            && self
                .users(slot)
                .all(|(decision, leads)| *leads != Leads::Elsewhere && is_alone(decision))
    }

    fn may_be_shared(&self, qer: &Qer) -> bool {
        !qer.marks() && self.limits(qer)
    }

    /// Whether a QER has a maximum bit rate of its own, which lets something pass.
    fn limits(&self, qer: &Qer) -> bool {
        let maximum = self.maximum(qer);
        maximum != Rate::UNLIMITED
            && maximum != Rate::ZERO
            && self.rules.correlation(qer).is_none()
            && !self.has_rulebases()
    }

    /// Whether predefined rules may apply QERs to packets, in ways that no PDR says.
    fn has_rulebases(&self) -> bool {
        self.rules.pdrs().iter().any(|pdr| !pdr.rulebases.is_empty())
    }

    fn maximum(&self, qer: &Qer) -> Rate {
        qer.maximum()[self.direction as usize]
    }

    /// The queue of the packets of a PDR, among those of a plan whose shapers are known.
    fn queue(&self, decision: &Decision, plan: &EgressQueues) -> EgressQueue {
        let slot = usize::from(decision.marking);
        let qer = self
            .rules
            .qers()
            .get(slot)
            .filter(|_| decision.marking != Decision::NO_MARK);
        let shares = |shaper: &EgressShaper| decision.qers >> (shaper.slot & 63) & 1 == 1;
        let shaped = qer.filter(|qer| self.is_of_flow(slot, qer));
        let guaranteed = |qer: &Qer| {
            let gbr = qer.optional.gbr?;
            Some(Rate::from_bits_per_second(match self.direction {
                Direction::Uplink => gbr.ul.0,
                Direction::Downlink => gbr.dl.0,
            }))
        };
        EgressQueue {
            marking: match qer {
                Some(_) => decision.marking,
                None => Verdict::NO_MARK,
            },
            qer: qer.map(|qer| qer.id),
            shaper: plan.shapers.iter().position(shares).map(|place| place as u8),
            class: self.egress.classes.of(qer.and_then(|qer| qer.qfi)),
            guaranteed: shaped.and_then(guaranteed).unwrap_or(Rate::ZERO),
            maximum: shaped.map_or(Rate::UNLIMITED, |qer| self.maximum(qer)),
            burst_millis: qer.map_or(flow::meter::MeterSpec::BURST_MILLIS, Qer::burst_millis),
        }
    }

    /// Whether the rates of a QER are those of one QoS flow: all packets that it applies to get its mark.
    fn is_of_flow(&self, slot: usize, qer: &Qer) -> bool {
        let is_marked = |decision: &Decision| usize::from(decision.marking) == slot;
        // Shared by several queues it would hold for each.
        let mut shared = self.users(slot).map(|(decision, _)| self.shared_by(decision));
        let first = shared.next();
        qer.qfi.is_some()
            && self.limits(qer)
            && shared.all(|mask| Some(mask) == first)
            && self
                .users(slot)
                .all(|(decision, leads)| *leads != Leads::Elsewhere && is_marked(decision))
    }

    /// Which QERs of no QoS flow a PDR names that have rates.
    fn shared_by(&self, decision: &Decision) -> u64 {
        let qers = self.rules.qers().iter().enumerate();
        let shared = qers.filter(|(slot, qer)| decision.qers >> slot & 1 == 1 && self.may_be_shared(qer));
        shared.fold(0, |mask, (slot, _)| mask | 1 << slot)
    }
}
