//! Plans as calls of `rte_tm`, carried out by a model of a device.

mod model;

use flow::Nanos;
use flow::meter::{Colour, Rate};
use model::{ABLE, Model};
use proptest::prelude::*;
use tm::rte_tm::{Capabilities, Device, DeviceNodeId, Hierarchy, MapError, NodeKind, Plan};
use tm::{
    Aqm, Arrival, Class, Departure, Ecn, Limits, Manager, NodeId, NodeSpec, QueueId, QueueRates, QueueSpec,
    RedCurve, Shaper, UeId, UeSpec, WredId, WredProfile,
};

const OCTETS: u16 = 1_000;

fn shaper(kbit: u64) -> Shaper {
    match kbit {
        0 => Shaper::UNLIMITED,
        kbit => Shaper {
            rate: Rate::from_kbit(kbit),
            burst: 3_000,
        },
    }
}

fn node(parent: Option<u16>, kbit: u64, weight: u8) -> NodeSpec {
    NodeSpec {
        parent: parent.map(NodeId),
        shaper: shaper(kbit),
        weight,
        overhead: 0,
    }
}

fn ue(node: u16, kbit: u64) -> UeSpec {
    UeSpec {
        node: NodeId(node),
        shaper: shaper(kbit),
    }
}

fn queue(class: u8, weight: u8) -> QueueSpec {
    QueueSpec {
        weight,
        ..QueueSpec::new(Class::new(class), 1_000_000)
    }
}

/// A port of 100 Mbit/s with two slices; UEs with a voice queue and others.
fn plan() -> Plan {
    Plan {
        nodes: vec![
            node(None, 100_000, 1),
            node(Some(0), 60_000, 3),
            node(Some(0), 0, 1),
        ],
        ues: vec![ue(1, 10_000), ue(1, 0), ue(2, 20_000), ue(0, 0)],
        queues: vec![
            (0, queue(0, 1)),
            (0, queue(5, 2)),
            (0, queue(5, 1)),
            (1, queue(5, 1)),
            (2, queue(0, 1)),
            (
                2,
                QueueSpec {
                    is_exempt: true,
                    ..queue(0, 1)
                },
            ),
            (3, queue(7, 1)),
        ],
        wred: Vec::new(),
        largest: 1_500,
    }
}

fn set_up(plan: &Plan, capabilities: Capabilities) -> Result<(Hierarchy, Model), MapError> {
    let mut device = Model::new(capabilities, 64);
    let hierarchy = Hierarchy::set_up(plan.clone(), &mut device)?;
    Ok((hierarchy, device))
}

fn manager(plan: &Plan) -> (Manager, Vec<QueueId>) {
    let limits = Limits {
        largest: plan.largest,
        quantum: 1_500,
        ..Limits::new(64, 256, 4_096)
    };
    let mut manager = Manager::new(limits).unwrap();
    plan.wred.iter().for_each(|profile| {
        manager.add_wred(profile).unwrap();
    });
    plan.nodes.iter().for_each(|node| {
        manager.add_node(*node).unwrap();
    });
    let ues: Vec<UeId> = plan.ues.iter().map(|ue| manager.add_ue(*ue).unwrap()).collect();
    let add = |(ue, spec): &(usize, QueueSpec)| manager.add_queue(ues[*ue], spec).unwrap();
    let queues = plan.queues.iter().map(add).collect();
    (manager, queues)
}

/// Packets of each queue that leave in a second, of the manager and of the device, where `has` says which have some.
fn second(plan: &Plan, device: &mut Model, has: &dyn Fn(usize) -> bool) -> (Vec<f64>, Vec<f64>) {
    let (mut manager, queues) = manager(plan);
    let arrival = |queue: QueueId| Arrival {
        queue,
        octets: OCTETS,
        colour: Colour::Green,
        ecn: Ecn::NotEct,
    };
    for queue in queues
        .iter()
        .enumerate()
        .filter(|(place, _)| has(*place))
        .map(|(_, queue)| *queue)
    {
        for _ in 0..4 {
            manager.enqueue(&arrival(queue), Nanos(0)).unwrap();
        }
    }
    let mut left = [vec![0.0; queues.len()], vec![0.0; queues.len()]];
    for step in 0..20_000_u64 {
        let now = step * 50_000;
        let mut out = [Departure::NONE];
        while manager.dequeue(NodeId(0), Nanos(now), &mut out) == 1 {
            let place = queues.iter().position(|queue| *queue == out[0].queue).unwrap();
            left[0][place] += 1.0;
            manager.enqueue(&arrival(out[0].queue), Nanos(now)).unwrap();
        }
        while let Some(leaf) = device.send(now as f64 / 1e9, OCTETS.into(), |leaf| {
            (leaf as usize) < queues.len() && has(leaf as usize)
        }) {
            left[1][leaf as usize] += 1.0;
        }
    }
    let [ours, theirs] = left;
    (ours, theirs)
}

#[test]
fn the_device_serves_each_queue_as_the_manager_does() {
    let plan = plan();
    // With voice that takes all it may, and without.
    for silent in [vec![], vec![0, 4, 5], vec![3], vec![1, 3]] {
        let (_, mut device) = set_up(&plan, ABLE).unwrap();
        let (ours, theirs) = second(&plan, &mut device, &|queue| !silent.contains(&queue));
        for (place, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert!(
                (ours - theirs).abs() <= 12.0 + ours * 0.01,
                "{silent:?} {place}: {ours} {theirs}"
            );
        }
        assert!(ours.iter().sum::<f64>() > 2_000.0, "{ours:?}");
    }
}

#[test]
fn shapers_of_several_copies_are_shared_and_others_private() {
    let (_, device) = set_up(&plan(), ABLE).unwrap();
    // Slice 1 has queues of two classes, as UE 0 has; UE 2 has one copy, and its exempt queue is beside it.
    assert_eq!(device.shared.len(), 2);
    let with_private = device.nodes.values().filter(|node| node.params.shaper.is_some());
    assert_eq!(with_private.count(), 2, "the root and UE 2");
    let parent = |queue| device.nodes[&Hierarchy::leaf(queue)].place.parent;
    assert_eq!(parent(1), parent(2));
    assert_ne!(parent(0), parent(1));
    let of_exempt = parent(5).and_then(|parent| device.nodes.get(&parent));
    assert!(of_exempt.is_some_and(|node| node.params.shaper.is_none() && node.place.level == 2));
}

#[test]
fn what_a_device_cannot_do_is_said_before_anything_is_added() {
    let refused = |change: fn(&mut Capabilities)| {
        let mut capabilities = ABLE;
        change(&mut capabilities);
        let mut device = Model::new(capabilities, 64);
        let error = Hierarchy::set_up(plan(), &mut device).expect_err("refused");
        assert!(device.nodes.is_empty() && device.profiles.is_empty() && !device.is_committed);
        error.to_string()
    };
    assert_eq!(
        refused(|of| of.n_levels_max = 4),
        "the port's n_levels_max is 4: 5 are needed"
    );
    assert!(refused(|of| of.n_nodes_max = 18).contains("n_nodes_max is 18: 19"));
    assert!(refused(|of| of.shaper_shared_n_max = 0).contains("shaper_shared_n_max is 0: 2"));
    assert!(refused(|of| of.shaper_shared_n_nodes_per_shaper_max = 1).contains("per_shaper_max is 1: 2"));
    assert!(refused(|of| of.shaper_private_n_max = 1).contains("shaper_private_n_max is 1: 2"));
    assert!(refused(|of| of.sched_sp_n_priorities_max = 2).contains("sched_sp_n_priorities_max is 2: 3"));
    assert!(refused(|of| of.sched_wfq_weight_max = 2).contains("sched_wfq_weight_max is 2: 3"));
    assert!(refused(|of| of.sched_n_children_max = 1).contains("sched_n_children_max is 1: 3"));
    let rate = refused(|of| of.shaper_shared_rate_max = 1_000_000);
    assert!(
        rate.contains("rate of 7500000 octets/s: the port's shapers have 1 to 1000000"),
        "{rate}"
    );
    let mut device = Model::new(ABLE, 6);
    let few = Hierarchy::set_up(plan(), &mut device).expect_err("refused");
    assert!(few.to_string().contains("leaf nodes is 6: 7"), "{few}");
}

#[test]
fn what_no_device_does_is_said() {
    let refused = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan();
        change(&mut plan);
        set_up(&plan, ABLE).err().expect("refused").to_string()
    };
    assert!(refused(&|of| of.queues[2].1.aqm = Aqm::CoDel).contains("queue 2: a port cannot do CoDel"));
    assert!(refused(&|of| of.queues[2].1.aqm = Aqm::DualQueue).contains("dual queues"));
    assert!(refused(&|of| of.queues[2].1.aqm = Aqm::Wred(WredId(0))).contains("WRED without its profile"));
    let rates = QueueRates {
        guaranteed: Some(shaper(100)),
        excess_class: Class::new(7),
        maximum: shaper(200),
    };
    assert!(refused(&|of| of.queues[2].1.rates = Some(rates)).contains("guaranteed rates"));
    let none = Shaper {
        rate: Rate::ZERO,
        burst: 0,
    };
    assert!(refused(&|of| of.ues[0].shaper = none).contains("a rate of 0 octets/s"));
    assert!(refused(&|of| of.nodes.push(node(None, 0, 1))).contains("the first node alone is a port"));
    assert!(refused(&|of| of.nodes.push(node(Some(3), 0, 1))).contains("not behind its parent"));
    assert!(refused(&|of| of.ues.push(ue(9, 0))).contains("a UE is below a node that is not there"));
    assert!(refused(&|of| of.queues.push((9, queue(0, 1)))).contains("of a UE that is not there"));
}

#[test]
fn wred_profiles_and_maximum_rates_are_those_of_leaves() {
    let curve = |min| RedCurve {
        min,
        max: 2 * min,
        one_in: 10,
    };
    let mut plan = plan();
    plan.wred = vec![WredProfile {
        green: curve(50_000),
        yellow: curve(20_000),
        weight_log2: 9,
    }];
    plan.queues[3].1.aqm = Aqm::Wred(WredId(0));
    let maximum = shaper(2_000);
    plan.queues[6].1.rates = Some(QueueRates {
        guaranteed: None,
        excess_class: Class::new(7),
        maximum,
    });
    let (_, device) = set_up(&plan, ABLE).unwrap();
    let leaf = |queue| &device.nodes[&Hierarchy::leaf(queue)].params;
    let NodeKind::Wred(profile) = leaf(3).kind else {
        panic!("{:?}", leaf(3))
    };
    let [green, yellow, red] = device.wred[&profile];
    assert_eq!(
        (green.min_th, green.max_th, green.maxp_inv, green.wq_log2),
        (50_000, 100_000, 10, 9)
    );
    assert_eq!((yellow.min_th, red.min_th), (20_000, 20_000));
    let rate = leaf(6).shaper.map(|profile| device.profiles[&profile].rate);
    assert_eq!(rate, Some(250_000));
    let without = Capabilities {
        cman_wred_byte_mode_supported: false,
        ..ABLE
    };
    let error = set_up(&plan, without).err().unwrap().to_string();
    assert_eq!(
        error,
        "the port's cman_wred_context_private_n_max is 0: 1 are needed"
    );
}

#[test]
fn the_rate_of_a_ue_changes_with_one_profile_in_use() {
    let fixed = Capabilities {
        updates_shapers: false,
        ..ABLE
    };
    let (mut hierarchy, mut device) = set_up(&plan(), ABLE).unwrap();
    let profiles = device.profiles.len();
    for ue in [0, 2] {
        hierarchy.set_ue_rate(ue, shaper(4_000), &mut device).unwrap();
    }
    assert_eq!(device.profiles.len(), profiles);
    assert_eq!(
        device.profiles.values().filter(|of| of.rate == 500_000).count(),
        2
    );
    assert!(
        hierarchy.set_ue_rate(1, shaper(4_000), &mut device).is_err(),
        "it has no limit"
    );
    assert!(hierarchy.set_ue_rate(0, Shaper::UNLIMITED, &mut device).is_err());
    // A call that fails leaves all as it was.
    device.fails = Some(1);
    assert!(matches!(
        hierarchy.set_ue_rate(0, shaper(9_000), &mut device),
        Err(MapError::Device(_))
    ));
    device.fails = None;
    assert!(device.profiles.values().filter(|of| of.rate == 500_000).count() == 2);
    let (mut hierarchy, mut device) = set_up(&plan(), fixed).unwrap();
    hierarchy.set_ue_rate(0, shaper(4_000), &mut device).unwrap();
    let error = hierarchy.set_ue_rate(2, shaper(4_000), &mut device).unwrap_err();
    assert!(
        error.to_string().contains("dynamic_update_mask"),
        "a private shaper: {error}"
    );
}

#[test]
fn a_suspended_queue_sends_nothing_and_a_tree_is_committed_once() {
    let plan = plan();
    let (_, mut device) = set_up(&plan, ABLE).unwrap();
    let leaf = Hierarchy::leaf(4);
    device.node_suspend(leaf).unwrap();
    assert!(device.node_suspend(leaf).is_err());
    let sent = |device: &mut Model, from: u32| {
        let mut send = |millis: u32| device.send(f64::from(millis) / 1e3, 1_000.0, |of| of == leaf.0);
        (from..from + 2_000)
            .filter(|millis| send(*millis).is_some())
            .count()
    };
    assert_eq!(sent(&mut device, 0), 0);
    device.node_resume(leaf).unwrap();
    assert!(sent(&mut device, 2_000) > 1_000);
    assert!(device.hierarchy_commit().is_err());
    assert!(device.node_delete(leaf).is_err(), "after the commit");
    assert!(device.node_delete(DeviceNodeId(64)).is_err(), "it has children");
}

fn plans() -> impl Strategy<Value = Plan> {
    let nodes = prop::collection::vec((any::<prop::sample::Index>(), 0_u64..50_000, 1_u8..), 0..5);
    let ues = prop::collection::vec((any::<prop::sample::Index>(), 0_u64..20_000), 1..8);
    let queues = prop::collection::vec(
        (any::<prop::sample::Index>(), 0_u8..8, 1_u8.., any::<bool>()),
        1..20,
    );
    (nodes, ues, queues).prop_map(|(more, all, queues)| {
        let mut nodes = vec![node(None, 100_000, 1)];
        for (parent, kbit, weight) in more {
            let parent = parent.index(nodes.len()) as u16;
            nodes.push(node(Some(parent), kbit, weight));
        }
        let ues: Vec<_> = all
            .into_iter()
            .map(|(at, kbit)| ue(at.index(nodes.len()) as u16, kbit))
            .collect();
        let of = |(ue, class, weight, is_exempt): (prop::sample::Index, u8, u8, bool)| {
            (
                ue.index(ues.len()),
                QueueSpec {
                    is_exempt,
                    ..queue(class, weight)
                },
            )
        };
        let queues = queues.into_iter().map(of).collect();
        Plan {
            nodes,
            ues,
            queues,
            wred: Vec::new(),
            largest: 1_500,
        }
    })
}

proptest! {
    #[test]
    fn above_each_leaf_are_the_shapers_and_weights_of_its_queue(plan in plans()) {
        let (_, device) = set_up(&plan, ABLE).unwrap();
        prop_assert!(device.is_committed);
        for (place, (of, spec)) in plan.queues.iter().enumerate() {
            let ue = &plan.ues[*of];
            // From the inside to the outside: rate in kbit/s, weight.
            let mut expected = vec![(0, u32::from(spec.weight))];
            let kbit = |shaper: Shaper| if shaper.rate == Rate::UNLIMITED { 0 } else { shaper.rate.kbit() };
            if !spec.is_exempt {
                expected.push((kbit(ue.shaper), 1));
            }
            let mut node = usize::from(ue.node.0);
            while let Some(parent) = plan.nodes[node].parent {
                expected.push((kbit(plan.nodes[node].shaper), plan.nodes[node].weight.into()));
                node = parent.0.into();
            }
            expected.extend([(0, 1), (100_000, 1)]);
            let (mut found, mut next, mut priorities) = (Vec::new(), Some(Hierarchy::leaf(place)), Vec::new());
            while let Some(id) = next {
                let node = &device.nodes[&id];
                let shared = node.params.shared_shapers.iter().map(|shared| device.shared[shared]);
                let profiles: Vec<_> = node.params.shaper.into_iter().chain(shared).collect();
                prop_assert!(profiles.len() <= 1);
                let rate = profiles.first().map_or(0, |profile| device.profiles[profile].rate / 125);
                found.push((rate, node.place.weight));
                priorities.push(node.place.priority);
                next = node.place.parent;
            }
            prop_assert_eq!(&found, &expected);
            // The class alone has a priority: how many classes go before it.
            let mut before: Vec<u8> = plan.queues.iter().map(|(_, other)| other.class.number()).collect();
            before.retain(|class| *class < spec.class.number());
            before.sort_unstable();
            before.dedup();
            let at = priorities.len() - 2;
            prop_assert_eq!(priorities[at] as usize, before.len());
            prop_assert!(priorities.iter().enumerate().all(|(level, priority)| level == at || *priority == 0));
        }
    }
}
