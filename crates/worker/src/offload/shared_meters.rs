//! The accelerator's meters that sessions share: its leases of their rates, as control sends them, and what packets
//! asked of them there.
//!
//! A session that shares rates leaves when the accelerator has confirmed all of its leases in this contact: before, it
//! would have no limit there. A lease is given anew as often as control changes it; what is sent while another one
//! waits takes its place. Demands are asked for when control asks for them, and its answer is what was reported
//! by then: it never waits for an accelerator, and one without contact asks for nothing.

use std::collections::{BTreeMap, BTreeSet};

use flow::contract::{FlowOp, Object, ObjectId};
use flow::meter::{Chain, Demand, MeterSpec, Rate, SharedId};
use flow::{BlockImage, Direction};

/// A number's part of a rate, and what is known of it at the accelerator.
#[derive(Clone, Copy, Debug, Default)]
struct Lease {
    /// The rate and the burst in octets of each direction, as soon as control has said them.
    parts: [Option<(Rate, u64)>; 2],
    /// It has confirmed one in this contact.
    is_there: bool,
    /// Octets of each direction that it has reported, and control was not told yet.
    demand: [u64; 2],
}

/// The meters that sessions of a number pass, in the place of its own.
#[derive(Clone, Copy, Debug)]
struct KnownChain {
    chain: Chain,
    /// The accelerator has confirmed it in this contact.
    is_there: bool,
}

/// What is to be given or asked next.
#[derive(Debug)]
pub(crate) enum Next {
    Lease(SharedId, FlowOp),
    Chain(SharedId, FlowOp),
    Demand(SharedId, FlowOp),
}

/// All leases of the accelerator.
#[derive(Debug, Default)]
pub(crate) struct SharedMeterObjects {
    leases: BTreeMap<SharedId, Lease>,
    chains: BTreeMap<SharedId, KnownChain>,
    /// What is to be given.
    changed_leases: BTreeSet<SharedId>,
    changed_chains: BTreeSet<SharedId>,
    /// Whose demand is to be asked for.
    asked: BTreeSet<SharedId>,
    /// The accelerator has meters up to this number; 0: it is not there, or holds no sessions.
    most: u16,
}

impl SharedMeterObjects {
    /// With these chains, and no lease.
    pub fn new(chains: impl Iterator<Item = (SharedId, Chain)>) -> Self {
        let known = |(id, chain)| {
            let is_there = false;
            (id, KnownChain { chain, is_there })
        };
        Self {
            chains: chains.map(known).collect(),
            ..Self::default()
        }
    }

    /// The accelerator has nothing, or is not there.
    pub fn lose(&mut self) {
        self.most = 0;
        self.changed_leases.clear();
        self.changed_chains.clear();
        self.asked.clear();
        for lease in self.leases.values_mut() {
            (lease.is_there, lease.demand) = (false, [0; 2]);
        }
        for chain in self.chains.values_mut() {
            chain.is_there = false;
        }
    }

    /// The accelerator has begun with nothing, and has meters up to number `most`: it is to have all.
    pub fn begin(&mut self, most: u16) {
        self.lose();
        self.most = most;
        let is_known = |(id, lease): (&SharedId, &Lease)| lease.is_known().then_some(*id);
        self.changed_leases = self.leases.iter().filter_map(is_known).collect();
        self.changed_leases.retain(|id| id.0 <= most);
        let all = self.chains.iter().map(|(id, known)| (*id, known.chain));
        let has_room = |(id, chain): &(SharedId, Chain)| id.0 <= most && chain.iter().all(|id| id.0 <= most);
        self.changed_chains = all.filter(has_room).map(|(id, _)| id).collect();
    }

    /// Control sets the accelerator's lease of one direction.
    pub fn set(&mut self, id: SharedId, direction: Direction, rate: Rate, burst: u64) {
        let lease = self.leases.entry(id).or_default();
        lease.parts[direction as usize] = Some((rate, burst));
        if lease.is_known() && id.0 <= self.most {
            self.changed_leases.insert(id);
        }
    }

    /// Sessions of this number pass these meters from now on.
    pub fn set_chain(&mut self, id: SharedId, chain: Chain) {
        let is_there = false;
        self.chains.insert(id, KnownChain { chain, is_there });
        if id.0 <= self.most && chain.iter().all(|id| id.0 <= self.most) {
            self.changed_chains.insert(id);
        }
    }

    /// Writes beside each meter the octets that the accelerator has reported since this was called last, and has it
    /// asked for more.
    pub fn take_demand(&mut self, demand: &mut [Demand]) {
        for (id, octets) in demand {
            if let Some(lease) = self.leases.get_mut(id) {
                *octets = std::mem::take(&mut lease.demand);
                if lease.is_there {
                    self.asked.insert(*id);
                }
            }
        }
    }

    /// What is to be given or asked next, if anything.
    pub fn next(&mut self) -> Option<Next> {
        if let Some(id) = self.changed_chains.pop_first() {
            let chain = self.chains.get(&id)?.chain;
            return Some(Next::Chain(id, FlowOp::Put(Object::SharedChain { id, chain })));
        }
        if let Some(id) = self.changed_leases.pop_first() {
            let [Some(up), Some(down)] = self.leases.get(&id)?.parts else {
                return None;
            };
            let (rates, bursts) = ([up.0, down.0], [up.1, down.1]);
            let put = FlowOp::Put(Object::SharedMeter { id, rates, bursts });
            return Some(Next::Lease(id, put));
        }
        let id = self.asked.pop_first()?;
        Some(Next::Demand(id, FlowOp::Query(ObjectId::SharedMeter(id))))
    }

    /// The accelerator has answered that it has a lease, or not.
    pub fn note_lease(&mut self, id: SharedId, is_there: bool) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.is_there = is_there;
        }
    }

    /// The same of a chain; one that has changed since is to be confirmed by the next answer.
    pub fn note_chain(&mut self, id: SharedId, is_there: bool) {
        let is_changed = self.changed_chains.contains(&id);
        if let Some(known) = self.chains.get_mut(&id) {
            known.is_there = is_there && !is_changed;
        }
    }

    /// The accelerator has answered what was asked of a meter since the answer before.
    pub fn note_demand(&mut self, id: SharedId, octets: [u64; 2]) {
        if let Some(lease) = self.leases.get_mut(&id) {
            for (sum, more) in lease.demand.iter_mut().zip(octets) {
                *sum = sum.saturating_add(more);
            }
        }
    }

    /// Whether the accelerator keeps all rates that a session shares with others.
    pub fn keeps_all_of(&self, block: &BlockImage) -> bool {
        let of_qer = |spec: &MeterSpec| match spec {
            MeterSpec::Shared(id) => Some(*id),
            _ => None,
        };
        let meters = block.meters.iter().flatten().flatten();
        let mut all = meters.filter_map(of_qer).chain([block.shared]);
        all.all(|id| self.keeps(id))
    }

    fn keeps(&self, id: SharedId) -> bool {
        let is_there = |id: SharedId| self.leases.get(&id).is_some_and(|lease| lease.is_there);
        match self.chains.get(&id) {
            _ if id == SharedId::NONE => true,
            None => is_there(id),
            Some(known) => {
                let mut all = known.chain.into_iter().take_while(|id| *id != SharedId::NONE);
                known.is_there && all.all(is_there)
            }
        }
    }
}

impl Lease {
    fn is_known(&self) -> bool {
        self.parts.iter().all(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Direction = Direction::Uplink;
    const DOWN: Direction = Direction::Downlink;
    const SLICE: SharedId = SharedId(1);
    const NETWORK: SharedId = SharedId(2);
    const BOTH: SharedId = SharedId(3);
    const OTHER: SharedId = SharedId(9);
    const CHAIN: Chain = [NETWORK, SLICE, SharedId::NONE, SharedId::NONE];

    fn sharing(shared: SharedId) -> BlockImage {
        BlockImage {
            shared,
            ..BlockImage::default()
        }
    }

    /// What is given or asked now, each confirmed.
    fn confirm_all(objects: &mut SharedMeterObjects) -> Vec<FlowOp> {
        let mut all = Vec::new();
        while let Some(next) = objects.next() {
            let op = match next {
                Next::Lease(id, op) => {
                    objects.note_lease(id, true);
                    op
                }
                Next::Chain(id, op) => {
                    objects.note_chain(id, true);
                    op
                }
                Next::Demand(id, op) => {
                    objects.note_demand(id, [100, 7]);
                    op
                }
            };
            all.push(op);
        }
        all
    }

    fn lease(objects: &mut SharedMeterObjects, id: SharedId, kbit: u64) {
        for direction in [UP, DOWN] {
            objects.set(id, direction, Rate::from_kbit(kbit), kbit * 10);
        }
    }

    fn meter(id: SharedId, kbit: u64) -> FlowOp {
        FlowOp::Put(Object::SharedMeter {
            id,
            rates: [Rate::from_kbit(kbit); 2],
            bursts: [kbit * 10; 2],
        })
    }

    #[test]
    fn a_session_may_leave_when_all_its_leases_are_confirmed_in_this_contact() {
        let mut objects = SharedMeterObjects::new([(BOTH, CHAIN)].into_iter());
        lease(&mut objects, SLICE, 500);
        assert_eq!(confirm_all(&mut objects), [], "there is no contact");
        assert!(objects.keeps_all_of(&sharing(SharedId::NONE)));
        objects.begin(8);
        let chain = FlowOp::Put(Object::SharedChain {
            id: BOTH,
            chain: CHAIN,
        });
        assert!(!objects.keeps_all_of(&sharing(SLICE)), "it is not confirmed");
        assert_eq!(confirm_all(&mut objects), [chain.clone(), meter(SLICE, 500)]);
        assert!(objects.keeps_all_of(&sharing(SLICE)));
        assert!(!objects.keeps_all_of(&sharing(BOTH)), "one of two is there");
        objects.set(NETWORK, UP, Rate::from_kbit(7), 70);
        assert_eq!(confirm_all(&mut objects), [], "of one direction nothing is known");
        lease(&mut objects, NETWORK, 9);
        assert_eq!(confirm_all(&mut objects), [meter(NETWORK, 9)], "the latest");
        assert!(objects.keeps_all_of(&sharing(BOTH)));
        let mut of_qer = sharing(SLICE);
        of_qer.meters = vec![[None, Some(MeterSpec::Shared(OTHER))]];
        lease(&mut objects, OTHER, 5);
        assert_eq!(confirm_all(&mut objects), [], "it has no such number");
        assert!(!objects.keeps_all_of(&of_qer));
        objects.lose();
        assert!(!objects.keeps_all_of(&sharing(SLICE)));
        objects.begin(9);
        let all = [chain, meter(SLICE, 500), meter(NETWORK, 9), meter(OTHER, 5)];
        assert_eq!(confirm_all(&mut objects), all);
        assert!(objects.keeps_all_of(&of_qer));
        objects.note_lease(OTHER, false);
        assert!(!objects.keeps_all_of(&of_qer), "it is refused");
    }

    #[test]
    fn a_chain_that_changes_is_confirmed_anew() {
        let mut objects = SharedMeterObjects::new([(BOTH, CHAIN)].into_iter());
        objects.begin(8);
        lease(&mut objects, NETWORK, 5);
        lease(&mut objects, SLICE, 5);
        let Some(Next::Chain(id, _)) = objects.next() else {
            panic!("chains are first")
        };
        let alone = [SLICE, SharedId::NONE, SharedId::NONE, SharedId::NONE];
        objects.set_chain(BOTH, alone);
        objects.note_chain(id, true);
        assert!(!objects.keeps_all_of(&sharing(BOTH)), "that was the one before");
        confirm_all(&mut objects);
        assert!(objects.keeps_all_of(&sharing(BOTH)));
    }

    #[test]
    fn demand_is_what_was_reported_by_then_and_none_without_contact() {
        let mut objects = SharedMeterObjects::default();
        objects.begin(8);
        lease(&mut objects, SLICE, 5);
        confirm_all(&mut objects);
        let take = |objects: &mut SharedMeterObjects| {
            let mut demand = [(SLICE, [0; 2]), (OTHER, [0; 2])];
            objects.take_demand(&mut demand);
            demand.map(|(_, octets)| octets)
        };
        assert_eq!(take(&mut objects), [[0; 2]; 2], "it is asked now");
        assert_eq!(
            confirm_all(&mut objects),
            [FlowOp::Query(ObjectId::SharedMeter(SLICE))]
        );
        objects.note_demand(SLICE, [1, 0]);
        assert_eq!(take(&mut objects), [[101, 7], [0; 2]]);
        objects.note_demand(SLICE, [1, 0]);
        objects.lose();
        assert_eq!(take(&mut objects), [[0; 2]; 2]);
        assert_eq!(confirm_all(&mut objects), []);
    }
}
