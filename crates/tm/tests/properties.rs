//! Two managers, between which UEs move, beside their model: nothing leaves that may not, nothing stays that must
//! leave, and every packet is accounted for.

mod model;

use std::collections::VecDeque;

use flow::Nanos;
use flow::meter::Rate;
use model::{LATE, Packet, Queue, Tokens, colour};
use proptest::prelude::*;
use tm::{
    Aqm, Arrival, Class, Departure, Ecn, Limits, LossReason, Manager, NodeId, NodeSpec, QueueId, QueueRates,
    QueueSpec, Shaper, Slot, UeId, UeSpec,
};

const LARGEST: u16 = 1_518;
const UES: usize = 6;
/// Parents of the shared nodes: a port, a VLAN, a slice in it, a slice beside it.
const PARENTS: [Option<usize>; 4] = [None, Some(0), Some(1), Some(0)];
const OVERHEAD: u8 = 20;

#[derive(Clone, Debug)]
enum Step {
    Arrive(usize, usize, u16, bool),
    Advance(u64),
    Poll(usize, usize),
    NodeRate(usize, usize, Shaper),
    UeRate(usize, Shaper),
    /// Removes a UE that is there; adds one that is not.
    Toggle(usize, usize, usize, Shaper, Vec<QueueSpec>),
    Move(usize),
}

struct Ue {
    home: usize,
    id: UeId,
    node: usize,
    shaper: Shaper,
    tokens: Tokens,
    queues: Vec<Queue>,
}

struct World {
    now: u64,
    managers: [Manager; 2],
    nodes: [Vec<(NodeId, Tokens)>; 2],
    ues: [Option<Ue>; UES],
    arrived: u64,
    left: u64,
    lost: u64,
    /// What those that left had waited.
    waited: u64,
}

fn limits() -> Limits {
    Limits {
        shapers: 6,
        nodes: 4,
        pool: 20_000,
        largest: LARGEST,
        quantum: 700,
        losses: 64,
        ..Limits::new(UES as u32, 24, 40)
    }
}

impl World {
    fn new(shapers: &[Shaper; 4]) -> Self {
        let make = || {
            let mut manager = Manager::new(limits()).unwrap();
            let mut nodes: Vec<(NodeId, Tokens)> = Vec::new();
            for (parent, shaper) in PARENTS.into_iter().zip(shapers) {
                let parent = parent.map(|parent| nodes[parent].0);
                let spec = NodeSpec {
                    parent,
                    shaper: *shaper,
                    weight: 2,
                    overhead: OVERHEAD,
                };
                let id = manager.add_node(spec).unwrap();
                nodes.push((id, Tokens::new(*shaper, LARGEST + u16::from(OVERHEAD), 0)));
            }
            (manager, nodes)
        };
        let [(first, first_nodes), (second, second_nodes)] = [make(), make()];
        Self {
            now: 0,
            managers: [first, second],
            nodes: [first_nodes, second_nodes],
            ues: Default::default(),
            arrived: 0,
            left: 0,
            lost: 0,
            waited: 0,
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Arrive(ue, place, octets, is_yellow) => self.arrive(*ue, *place, *octets, *is_yellow),
            Step::Advance(by) => self.now += by,
            Step::Poll(home, budget) => self.poll(*home, *budget),
            Step::NodeRate(home, node, shaper) => {
                let (id, tokens) = &mut self.nodes[*home][*node];
                tokens.set(*shaper, self.now);
                self.managers[*home]
                    .set_node_rate(*id, *shaper, Nanos(self.now))
                    .unwrap();
            }
            Step::UeRate(ue, shaper) => {
                if let Some(ue) = &mut self.ues[*ue] {
                    ue.tokens.set(*shaper, self.now);
                    ue.shaper = *shaper;
                    self.managers[ue.home]
                        .set_ue_rate(ue.id, *shaper, Nanos(self.now))
                        .unwrap();
                }
            }
            Step::Toggle(ue, home, node, shaper, queues) if self.ues[*ue].is_none() => {
                self.add(*ue, *home, *node, *shaper, queues);
            }
            Step::Toggle(ue, ..) => self.lost += self.remove(*ue).1.len() as u64,
            Step::Move(ue) => self.relocate(*ue),
        }
        self.check();
    }

    fn add(&mut self, ue: usize, home: usize, node: usize, shaper: Shaper, specs: &[QueueSpec]) {
        let manager = &mut self.managers[home];
        let id = manager
            .add_ue(UeSpec {
                node: self.nodes[home][node].0,
                shaper,
            })
            .unwrap();
        let mut queues = Vec::new();
        for spec in specs {
            // It starts with full buckets at the time of the call before.
            let Ok(queue) = manager.add_queue(id, spec) else {
                break;
            };
            assert_eq!(usize::from(queue.place), queues.len());
            queues.push(Queue {
                spec: *spec,
                maximum: spec
                    .rates
                    .map(|rates| Tokens::new(rates.maximum, LARGEST, self.now)),
                packets: VecDeque::new(),
            });
        }
        let tokens = Tokens::new(shaper, LARGEST, self.now);
        self.ues[ue] = Some(Ue {
            home,
            id,
            node,
            shaper,
            tokens,
            queues,
        });
    }

    /// Removes a UE, and returns its packets as they were given out: all that it had, in order.
    fn remove(&mut self, ue: usize) -> (Option<(Ue, tm::UeState)>, Vec<tm::Held>) {
        let Some(ue) = self.ues[ue].take() else {
            return (None, Vec::new());
        };
        let mut held = Vec::new();
        let state = self.managers[ue.home].remove_ue(ue.id, Nanos(self.now), |packet, _| held.push(packet));
        let expected = ue.queues.iter().enumerate();
        let expected: Vec<_> = expected
            .flat_map(|(place, queue)| {
                queue
                    .held()
                    .map(move |of| (place as u8, of.slot, of.octets, of.is_yellow))
            })
            .collect();
        let found: Vec<_> = held
            .iter()
            .map(|of| (of.queue.place, of.slot, of.octets, of.colour == colour(true)))
            .collect();
        assert_eq!(found, expected);
        ue.tokens.check_windows();
        (Some((ue, state.unwrap())), held)
    }

    /// Moves a UE to the other manager, with its packets and tokens.
    fn relocate(&mut self, number: usize) {
        let (Some((ue, state)), held) = self.remove(number) else {
            return;
        };
        let specs: Vec<_> = ue.queues.iter().map(|queue| queue.spec).collect();
        self.add(number, 1 - ue.home, ue.node, ue.shaper, &specs);
        let Some(new) = &mut self.ues[number] else { return };
        let manager = &mut self.managers[new.home];
        manager.continue_ue(new.id, &state, Nanos(self.now)).unwrap();
        new.tokens = ue.tokens;
        for (new, old) in new.queues.iter_mut().zip(ue.queues) {
            new.maximum = old.maximum;
        }
        for packet in held {
            let queue = QueueId {
                ue: new.id,
                ..packet.queue
            };
            let Some(of) = new.queues.get_mut(usize::from(queue.place)) else {
                self.lost += 1;
                continue;
            };
            match manager.enqueue_held(queue, &packet, Nanos(self.now)) {
                Ok(slot) => of.packets.push_back(Packet {
                    slot,
                    octets: packet.octets,
                    is_yellow: packet.colour == colour(true),
                    since: self.now.saturating_sub(packet.sojourn),
                    gone: false,
                }),
                Err(_) => self.lost += 1,
            }
            while let Some(loss) = manager.pop_loss() {
                assert_eq!(of.push_out().map(|packet| packet.slot), Some(loss.slot));
                self.lost += 1;
            }
        }
    }

    fn pool_of(&self, home: usize) -> (u64, usize) {
        let queues = self
            .ues
            .iter()
            .flatten()
            .filter(|ue| ue.home == home)
            .flat_map(|ue| &ue.queues);
        queues.fold((0, 0), |sum, queue| {
            (sum.0 + queue.octets(), sum.1 + queue.packets.len())
        })
    }

    fn arrive(&mut self, ue: usize, place: usize, octets: u16, is_yellow: bool) {
        let Some(home) = self.ues[ue].as_ref().map(|ue| ue.home) else {
            return;
        };
        let (mut in_pool, slots) = self.pool_of(home);
        let (now, limits) = (self.now, limits());
        let Some(of) = &mut self.ues[ue] else { return };
        let arrival = Arrival {
            queue: QueueId {
                ue: of.id,
                place: place as u8,
            },
            octets,
            colour: colour(is_yellow),
            ecn: Ecn::NotEct,
        };
        self.arrived += 1;
        let manager = &mut self.managers[home];
        let answer = manager.enqueue(&arrival, Nanos(now));
        let Some(queue) = of.queues.get_mut(place) else {
            assert_eq!(answer, Err(LossReason::NoQueue));
            self.lost += 1;
            return;
        };
        let mut expected = queue.fits(octets, limits.pool, in_pool);
        let mut pushed_out = Vec::new();
        if expected.is_err() && !is_yellow {
            let mut without = queue.clone();
            while without.fits(octets, limits.pool, in_pool).is_err() {
                let Some(yellow) = without.push_out() else { break };
                in_pool -= u64::from(yellow.octets);
                pushed_out.push(yellow.slot);
            }
            if without.fits(octets, limits.pool, in_pool).is_ok() {
                (*queue, expected) = (without, Ok(()));
            } else {
                pushed_out.clear();
            }
        }
        let lost: Vec<Slot> = std::iter::from_fn(|| manager.pop_loss())
            .map(|loss| loss.slot)
            .collect();
        assert_eq!(lost, pushed_out);
        self.lost += lost.len() as u64;
        match answer {
            Ok(slot) => {
                assert_eq!(expected, Ok(()));
                queue.packets.push_back(Packet {
                    slot,
                    octets,
                    is_yellow,
                    since: now,
                    gone: false,
                });
            }
            // The last descriptors are in use.
            Err(LossReason::PoolFull) if expected.is_ok() => {
                assert!(slots >= limits.packets as usize, "{slots}");
                self.lost += 1;
            }
            Err(reason) => {
                assert_eq!(expected, Err(reason));
                self.lost += 1;
            }
        }
    }

    /// Nodes above a UE.
    fn path(node: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(node), |node| PARENTS[*node])
    }

    /// From when on all shapers let a queue send.
    fn due(&self, ue: &Ue, queue: &Queue) -> u64 {
        let own = queue.maximum.as_ref().map(Tokens::due);
        let session = (!queue.spec.is_exempt).then(|| ue.tokens.due());
        let above = Self::path(ue.node).map(|node| self.nodes[ue.home][node].1.due());
        above.chain(own).chain(session).max().unwrap_or(0)
    }

    /// The best class of queues that must be able to send now, if they are of one class.
    fn best(&self, home: usize) -> Option<Class> {
        let ues = self.ues.iter().flatten().filter(|ue| ue.home == home);
        let queues = ues.flat_map(|ue| ue.queues.iter().map(move |queue| (ue, queue)));
        let able = queues.filter(|(ue, queue)| {
            !queue.packets.is_empty() && self.due(ue, queue).saturating_add(LATE) <= self.now
        });
        able.filter_map(|(_, queue)| queue.class()).min()
    }

    fn poll(&mut self, home: usize, budget: usize) {
        let port = self.nodes[home][0].0;
        for _ in 0..budget {
            let best = self.best(home);
            let mut out = [Departure::NONE];
            let count = self.managers[home].dequeue(port, Nanos(self.now), &mut out);
            while let Some(loss) = self.managers[home].pop_loss() {
                assert_eq!(loss.reason, LossReason::Aqm);
                let queue = self.queue(home, loss.queue);
                assert_eq!(queue.spec.aqm, Aqm::CoDel);
                assert_eq!(queue.pop().map(|packet| packet.slot), Some(loss.slot));
                self.lost += 1;
            }
            if count == 0 {
                assert_eq!(best, None, "a queue that may send does not");
                return;
            }
            self.depart(home, &out[0], best);
        }
    }

    fn queue(&mut self, home: usize, queue: QueueId) -> &mut Queue {
        let mut ues = self.ues.iter_mut().flatten();
        let ue = ues.find(|ue| ue.home == home && ue.id == queue.ue).unwrap();
        &mut ue.queues[usize::from(queue.place)]
    }

    fn depart(&mut self, home: usize, departure: &Departure, best: Option<Class>) {
        let now = self.now;
        let mut ues = self.ues.iter_mut().flatten();
        let ue = ues
            .find(|ue| ue.home == home && ue.id == departure.queue.ue)
            .unwrap();
        let queue = &mut ue.queues[usize::from(departure.queue.place)];
        let packet = queue.pop().unwrap();
        assert_eq!((departure.slot, departure.octets), (packet.slot, packet.octets));
        assert!((departure.sojourn).abs_diff(now - packet.since) <= 128);
        assert!(
            best.is_none_or(|best| best >= queue.spec.class),
            "{best:?} waits for {:?}",
            queue.spec.class
        );
        let octets = u32::from(packet.octets);
        queue
            .maximum
            .iter_mut()
            .for_each(|tokens| tokens.pass(now, octets));
        if !queue.spec.is_exempt {
            ue.tokens.pass(now, octets);
        }
        for node in Self::path(ue.node) {
            self.nodes[home][node].1.pass(now, octets + u32::from(OVERHEAD));
        }
        self.left += 1;
        self.waited += departure.sojourn;
    }

    /// In = out + lost + held.
    fn check(&self) {
        let mut held = 0;
        for (home, manager) in self.managers.iter().enumerate() {
            let ues = self.ues.iter().flatten().filter(|ue| ue.home == home);
            let packets: usize = ues
                .flat_map(|ue| &ue.queues)
                .map(|queue| queue.held().count())
                .sum();
            assert_eq!(
                (manager.octets(), manager.packets() as usize),
                (self.pool_of(home).0, packets)
            );
            let (port, tokens) = &self.nodes[home][0];
            let is_closed = tokens.due() == u64::MAX;
            assert!(manager.is_ready(*port) || manager.next_due() < Nanos::MAX || packets == 0 || is_closed);
            held += packets as u64;
        }
        assert_eq!(self.arrived, self.left + self.lost + held);
        let classes = (0..Class::COUNT as u8).map(Class::new);
        let views = classes.flat_map(|class| self.managers.iter().map(move |manager| manager.class(class)));
        assert_eq!(
            views.fold((0, 0), |sum, view| (sum.0 + view.departed, sum.1 + view.waited)),
            (self.left, self.waited)
        );
    }

    fn check_windows(&self) {
        self.nodes
            .iter()
            .flatten()
            .for_each(|(_, tokens)| tokens.check_windows());
        let ues = self.ues.iter().flatten();
        ues.clone().for_each(|ue| ue.tokens.check_windows());
        ues.flat_map(|ue| &ue.queues)
            .for_each(|queue| queue.maximum.iter().for_each(Tokens::check_windows));
    }
}

/// What takes at most 67 ms a packet, so that all waits in the fast wheel.
fn shapers() -> impl Strategy<Value = Shaper> {
    let rate = prop_oneof![
        2 => (1_000_u64..20_000_000).prop_map(Rate::from_kbit),
        1 => Just(Rate::UNLIMITED),
    ];
    (rate, 0_u32..8_000).prop_map(|(rate, burst)| Shaper { rate, burst })
}

fn queues() -> impl Strategy<Value = QueueSpec> {
    let rates = prop::option::weighted(
        0.3,
        (prop::option::of(shapers()), 0_u8..3, shapers()).prop_map(|(guaranteed, class, maximum)| {
            QueueRates {
                guaranteed,
                excess_class: Class::new(class + 3),
                maximum,
            }
        }),
    );
    (0_u8..3, 1_u8..4, rates, any::<bool>(), 1_000_u32..9_000, -2_i8..3).prop_map(
        |(class, weight, rates, is_exempt, cap, share)| QueueSpec {
            weight,
            rates,
            is_exempt,
            share,
            aqm: if cap % 2 == 0 { Aqm::CoDel } else { Aqm::TailDrop },
            ..QueueSpec::new(Class::new(class), cap)
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    let specs = prop::collection::vec(queues(), 1..5);
    let by = prop_oneof![0_u64..2_000, 0_u64..200_000, 0_u64..20_000_000];
    let node_rates = prop_oneof![9 => shapers(), 1 => Just(Shaper { rate: Rate::ZERO, burst: 0 })];
    prop_oneof![
        12 => (0..UES, 0_usize..5, 64_u16..=LARGEST, any::<bool>())
            .prop_map(|(ue, place, octets, is_yellow)| Step::Arrive(ue, place, octets, is_yellow)),
        4 => by.prop_map(Step::Advance),
        6 => (0_usize..2, 1_usize..6).prop_map(|(home, budget)| Step::Poll(home, budget)),
        1 => (0_usize..2, 0_usize..4, node_rates).prop_map(|(home, node, shaper)| Step::NodeRate(home, node, shaper)),
        1 => (0..UES, shapers()).prop_map(|(ue, shaper)| Step::UeRate(ue, shaper)),
        2 => (0..UES, 0_usize..2, 0_usize..4, shapers(), specs)
            .prop_map(|(ue, home, node, shaper, specs)| Step::Toggle(ue, home, node, shaper, specs)),
        1 => (0..UES).prop_map(Step::Move),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_manager_does_what_its_model_allows_and_demands(
        shapers in prop::array::uniform4(shapers()),
        ues in prop::collection::vec((0_usize..4, shapers(), prop::collection::vec(queues(), 1..5)), UES / 2),
        steps in prop::collection::vec(steps(), 1..300),
    ) {
        let mut world = World::new(&shapers);
        for (number, (node, shaper, specs)) in ues.iter().enumerate() {
            world.add(number, number % 2, *node, *shaper, specs);
        }
        for step in &steps {
            world.run(step);
        }
        world.check_windows();
    }
}
