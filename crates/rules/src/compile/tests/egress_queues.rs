//! Which rates queues keep, and in which queue a packet waits.

use flow::Verdict;
use flow::meter::Rate;

use super::*;
use crate::image::{EgressQueue, EgressQueues};
use crate::network::{Egress, EgressClass, EgressClasses, InstanceEgress, QueueManagement};

/// QFI 1 is of the class 0, all others of 1. Packets wait towards gNBs; towards the data network with `uplink`, too.
fn network(uplink: bool) -> Network {
    let class = |name: &str, qfis: &[u8], priority| EgressClass {
        name: name.into(),
        qfis: qfis.iter().map(|qfi| Qfi::from_low_bits(*qfi)).collect(),
        priority,
        weight: 1,
        octets: 100_000,
        management: QueueManagement::TailDrop,
    };
    let classes = vec![class("voice", &[1], 0), class("rest", &[], 1)];
    let egress = Some(InstanceEgress {
        rate: Rate::UNLIMITED,
    });
    let network = testing::network_with(|instance| {
        if instance.id == N3 || uplink {
            instance.egress = egress;
        }
    });
    network.with_egress(Some(Egress {
        classes: EgressClasses::new(classes).unwrap(),
        ports: Vec::new(),
    }))
}

fn compiled_for(rules: &SessionRules, network: &Network) -> SessionImage {
    compile(&Arc::new(rules.clone()), network, &NumberedHops).unwrap_or_else(|error| panic!("{error}"))
}

fn rates(uplink: u64, downlink: u64) -> Option<BitRates> {
    Some(BitRates {
        ul: BitsPerSecond::from_kbit(uplink),
        dl: BitsPerSecond::from_kbit(downlink),
    })
}

/// A PDU session with a Session-AMBR for two QoS flows, QFI 9 and QFI 5, and a third, QFI 1, with rates of its own.
fn session_of_three_flows() -> SessionRules {
    let mut rules = session();
    let ambr = Qer {
        mbr: rates(10_000, 20_000),
        ..Qer::new(QerId(10))
    };
    let second = Qer {
        qfi: Qfi::new(5),
        ..Qer::new(QerId(2))
    };
    let guaranteed = Qer {
        qfi: Qfi::new(1),
        mbr: rates(200, 300),
        optional: OptionalRates {
            gbr: rates(100, 150),
            ..OptionalRates::default()
        }
        .into(),
        ..Qer::new(QerId(3))
    };
    rules.create_qers(vec![ambr, second, guaranteed]).unwrap();
    let more = |id, like: u16, qers: &[u32], rules: &mut SessionRules| {
        let mut pdr = rules.pdr(PdrId(like)).unwrap().clone();
        (pdr.id, pdr.precedence.0) = (PdrId(id), u32::from(id));
        pdr.qers = qers.iter().map(|id| QerId(*id)).collect();
        rules.create_pdr(pdr).unwrap();
    };
    for (like, qers) in [(1, [1, 10]), (2, [1, 10])] {
        let pdr = rules.remove_pdr(PdrId(like)).unwrap();
        let qers = qers.iter().map(|id| QerId(*id)).collect();
        rules.create_pdr(Pdr { qers, ..pdr }).unwrap();
    }
    more(21, 1, &[2, 10], &mut rules);
    more(22, 2, &[2, 10], &mut rules);
    more(31, 1, &[3], &mut rules);
    more(32, 2, &[3], &mut rules);
    rules
}

fn downlink(image: &SessionImage) -> EgressQueues {
    image.egress_queues(Direction::Downlink).unwrap().clone()
}

/// The meters of a QER, uplink and downlink.
fn metered(image: &SessionImage, qer: u32) -> [bool; 2] {
    let slot = image
        .rules
        .qers()
        .iter()
        .position(|one| one.id == QerId(qer))
        .unwrap();
    image.block.meters[slot].map(|meter| meter.is_some())
}

#[test]
fn without_queues_all_rates_are_policed() {
    let image = compiled_for(&session_of_three_flows(), &testing::network());
    assert_eq!(Direction::BOTH.map(|way| image.egress_queues(way)), [None, None]);
    assert_eq!((metered(&image, 10), metered(&image, 3)), ([true; 2], [true; 2]));
}

#[test]
fn a_session_ambr_is_one_shaper_of_its_flows_and_a_guaranteed_flow_has_its_own_rates() {
    let image = compiled_for(&session_of_three_flows(), &network(false));
    let plan = downlink(&image);
    assert_eq!(image.egress_queues(Direction::Uplink), None);
    let [ambr] = plan.shapers[..] else {
        panic!("{plan:?}")
    };
    assert_eq!((ambr.qer, ambr.maximum), (QerId(10), Rate::from_kbit(20_000)));
    let said: Vec<_> = plan
        .queues
        .iter()
        .map(|queue| {
            (
                queue.qer.unwrap().0,
                queue.shaper,
                queue.class,
                queue.guaranteed,
                queue.maximum,
            )
        })
        .collect();
    let free = (Rate::ZERO, Rate::UNLIMITED);
    let own = (Rate::from_kbit(150), Rate::from_kbit(300));
    let mut sorted = said.clone();
    sorted.sort_by_key(|queue| queue.0);
    assert_eq!(
        sorted,
        [
            (1, Some(0), 1, free.0, free.1),
            (2, Some(0), 1, free.0, free.1),
            (3, None, 0, own.0, own.1)
        ]
    );
    // Uplink they are policed.
    assert_eq!(
        (metered(&image, 10), metered(&image, 3)),
        ([true, false], [true, false])
    );
}

#[test]
fn both_directions_have_queues_where_both_instances_ask() {
    let image = compiled_for(&session_of_three_flows(), &network(true));
    let uplink = image.egress_queues(Direction::Uplink).unwrap();
    assert_eq!(uplink.shapers[0].maximum, Rate::from_kbit(10_000));
    assert_eq!(
        (metered(&image, 10), metered(&image, 3)),
        ([false; 2], [false; 2])
    );
}

#[test]
fn a_packet_finds_its_queue_by_mark_and_shared_rate() {
    let image = compiled_for(&session_of_three_flows(), &network(false));
    let plan = downlink(&image);
    for decision in decisions(&image)
        .iter()
        .filter(|one| one.direction == Direction::Downlink)
    {
        let queue = plan.queues[plan.of(decision.marking, decision.qers)];
        assert_eq!(queue.marking, decision.marking);
    }
    // What the plan does not know goes with those that share its rate, or with the first.
    let ambr = 1 << plan.shapers[0].slot;
    assert_eq!(plan.queues[plan.of(Verdict::NO_MARK, ambr)].shaper, Some(0));
    assert_eq!(plan.queues[plan.of(Verdict::NO_MARK, 0)].shaper, None);
}

#[test]
fn a_rate_that_no_one_place_sees_is_policed() {
    // A PDR with two of them.
    let mut rules = session_of_three_flows();
    rules
        .create_qer(Qer {
            mbr: rates(1_000, 1_000),
            ..Qer::new(QerId(11))
        })
        .unwrap();
    let mut pdr = rules.remove_pdr(PdrId(22)).unwrap();
    pdr.qers.push(QerId(11));
    rules.create_pdr(pdr).unwrap();
    let image = compiled_for(&rules, &network(false));
    assert!(downlink(&image).shapers.is_empty());
    assert_eq!((metered(&image, 10), metered(&image, 11)), ([true; 2], [true; 2]));

    // A QoS flow's QER that another one marks for.
    let mut rules = session_of_three_flows();
    let mut pdr = rules.remove_pdr(PdrId(22)).unwrap();
    pdr.qers.push(QerId(3));
    rules.create_pdr(pdr).unwrap();
    let image = compiled_for(&rules, &network(false));
    assert_eq!(metered(&image, 3), [true; 2]);
}

#[test]
fn a_session_that_is_buffered_keeps_its_meters_until_something_leaves() {
    let mut rules = session_of_three_flows();
    let mut far = rules.remove_far(FarId(2)).unwrap();
    far.action = ApplyAction::BUFF;
    rules.create_far(far).unwrap();
    let image = compiled_for(&rules, &network(false));
    assert_eq!(image.egress_queues(Direction::Downlink), None);
    assert_eq!(metered(&image, 10), [true; 2]);
}

#[test]
fn more_flows_than_queues_share_what_is_there() {
    let mut rules = session_of_three_flows();
    for id in 0..10u16 {
        let qer = u32::from(100 + id);
        rules
            .create_qer(Qer {
                qfi: Qfi::new(20 + id as u8),
                ..Qer::new(QerId(qer))
            })
            .unwrap();
        let mut pdr = rules.pdr(PdrId(2)).unwrap().clone();
        (pdr.id, pdr.qers) = (PdrId(100 + id), [QerId(qer)].into_iter().collect());
        rules.create_pdr(pdr).unwrap();
    }
    let image = compiled_for(&rules, &network(false));
    let plan = downlink(&image);
    assert_eq!(plan.queues.len(), EgressQueues::MAX);
    for decision in decisions(&image) {
        let EgressQueue { shaper, .. } = plan.queues[plan.of(decision.marking, decision.qers)];
        let shares = decision.qers >> plan.shapers[0].slot & 1 == 1;
        assert_eq!(shaper.is_some(), shares, "no packet escapes its rate");
    }
}

#[test]
fn each_rate_is_kept_once_however_many_there_are() {
    let mut rules = session();
    let pdr = rules.remove_pdr(PdrId(2)).unwrap();
    for id in 0..12u16 {
        let qer = Qer {
            mbr: rates(1_000, 1_000 + u64::from(id)),
            ..Qer::new(QerId(u32::from(100 + id)))
        };
        rules.create_qer(qer).unwrap();
        let bearer = Pdr {
            id: PdrId(100 + id),
            qers: [QerId(u32::from(100 + id))].into_iter().collect(),
            ..pdr.clone()
        };
        rules.create_pdr(bearer).unwrap();
    }
    let image = compiled_for(&rules, &network(false));
    let plan = downlink(&image);
    assert_eq!(plan.shapers.len(), EgressQueues::MAX);
    for decision in decisions(&image)
        .iter()
        .filter(|one| one.direction == Direction::Downlink)
    {
        let slot = decision.qers.trailing_zeros() as usize;
        let queue = plan.queues[plan.of(decision.marking, decision.qers)];
        let shaper = queue
            .shaper
            .map(|place| usize::from(plan.shapers[usize::from(place)].slot));
        let [_, is_metered] = image.block.meters[slot].map(|meter| meter.is_some());
        assert_ne!(is_metered, shaper == Some(slot), "QER in slot {slot}");
    }
}

#[test]
fn dual_queues_take_two_places_and_what_finds_none_is_policed() {
    let mut rules = session();
    let pdr = rules.remove_pdr(PdrId(2)).unwrap();
    for id in 0..8u16 {
        let qer = Qer {
            qfi: Qfi::new(10 + id as u8),
            mbr: (id == 7).then(|| rates(1_000, 1_000)).flatten(),
            ..Qer::new(QerId(u32::from(100 + id)))
        };
        rules.create_qer(qer).unwrap();
        let flow = Pdr {
            id: PdrId(100 + id),
            precedence: crate::model::Precedence(u32::from(id)),
            qers: [QerId(u32::from(100 + id))].into_iter().collect(),
            ..pdr.clone()
        };
        rules.create_pdr(flow).unwrap();
    }
    let l4s = network(false);
    let mut egress = l4s.egress().unwrap().clone();
    let classes = egress.classes.all().iter().map(|class| EgressClass {
        management: QueueManagement::L4s,
        ..class.clone()
    });
    egress.classes = EgressClasses::new(classes.collect()).unwrap();
    let image = compiled_for(&rules, &l4s.with_egress(Some(egress)));
    assert_eq!(downlink(&image).queues.len(), 4);
    assert_eq!(metered(&image, 107), [true; 2]);
}
