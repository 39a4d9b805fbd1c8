//! Thresholds of dropped downlink packets (DROTH): what counts against them, and when Control is told.

use crate::common;

use packet::DropReason;
use rules::SessionRules;
use rules::image::{Farewell, SessionImage};
use rules::model::{
    ApplyAction, DroppedDlThreshold, PdrId, PdrUpdate, ReportingTriggers, Urr, UrrId, UrrTerms,
};
use worker::Event;

use common::World;
use common::buffering::{BUFF, Case, LIMITS, numbered};
use common::one_session::{events, uplink};

const PDR: PdrId = PdrId(2);

/// The rules with a URR of the downlink PDR that tells of so many dropped packets and octets.
fn telling_of_dropped(rules: &SessionRules, packets: Option<u64>, octets: Option<u64>) -> SessionRules {
    let mut rules = rules.clone();
    let terms = UrrTerms {
        dropped_dl_threshold: Some(DroppedDlThreshold { packets, octets }),
        ..UrrTerms::NONE
    };
    let urr = Urr {
        triggers: ReportingTriggers::DROTH,
        terms: Some(Box::new(terms)),
        ..Urr::volume(UrrId(9))
    };
    rules.create_urr(urr).expect("it is new");
    let update = PdrUpdate {
        urrs: Some(vec![UrrId(9)]),
        ..PdrUpdate::new(PDR)
    };
    rules.update_pdr(update).expect("it is there");
    rules
}

/// How often Control was told that a threshold of dropped packets is reached.
fn told_dropped(world: &mut World) -> usize {
    let is_told = |event: &Event| matches!(event, Event::DroppedReached { urr, .. } if *urr == UrrId(9));
    events(world).iter().filter(|event| is_told(event)).count()
}

#[test]
fn dropped_downlink_packets_are_told_at_their_thresholds() {
    let mut case = Case::new(LIMITS, ApplyAction::DROP);
    case.change(Farewell::default(), |rules| {
        *rules = telling_of_dropped(rules, Some(3), None)
    });
    let mut number = 0;
    let mut send = |case: &mut Case, count: u8| {
        for _ in 0..count {
            case.world.send(1, &numbered(number));
            number += 1;
        }
        told_dropped(&mut case.world)
    };
    assert_eq!([2, 1, 2].map(|count| send(&mut case, count)), [0, 1, 0]);
    // Other rules change nothing of the count, which starts again when it is told.
    case.set(ApplyAction::DROP.with(ApplyAction::DDPN));
    assert_eq!([1, 2, 1].map(|count| send(&mut case, count)), [1, 0, 1]);
    // What waits is not dropped: until there is no room for more, or until it is thrown away.
    case.set(BUFF);
    assert_eq!([8, 2, 1].map(|count| send(&mut case, count)), [0, 0, 1]);
    let farewell = Farewell {
        discards_buffered: true,
        ..Farewell::default()
    };
    case.replace(case.image.clone(), farewell);
    assert_eq!(
        told_dropped(&mut case.world),
        2,
        "eight more, of which two are left"
    );
    case.world.send(1, &numbered(99));
    case.world.now = case.world.now + LIMITS.timeout;
    (0..3).for_each(|_| case.world.poll());
    assert_eq!(case.dropped(DropReason::BufferExpired), 1);
    assert_eq!(told_dropped(&mut case.world), 1);
    // Uplink packets are not downlink ones, and what goes on is not dropped.
    case.set(ApplyAction::FORW);
    assert_eq!(send(&mut case, 9), 0);
    case.world.send(0, &uplink());
    assert_eq!(told_dropped(&mut case.world), 0);
    case.world.assert_conserved();
}

#[test]
fn what_takes_the_place_of_a_session_or_a_urr_counts_from_nothing_and_all_else_goes_on() {
    // Another image of the same rules, and whether it goes on with the count.
    type Edit = fn(&mut SessionImage);
    let cases: [(Edit, bool); 3] = [
        (|_| {}, true),
        (|image| image.seid += 100, false),
        (|image| image.fresh_urrs = vec![UrrId(9)], false),
    ];
    for (edit, goes_on) in cases {
        let mut case = Case::new(LIMITS, ApplyAction::DROP);
        case.change(Farewell::default(), |rules| {
            *rules = telling_of_dropped(rules, Some(3), None)
        });
        let send = |case: &mut Case| {
            case.world.send(1, &numbered(0));
            told_dropped(&mut case.world)
        };
        assert_eq!([send(&mut case), send(&mut case)], [0, 0]);
        let mut image = case.image.clone();
        edit(&mut image);
        case.replace(image, Farewell::default());
        assert_eq!(told_dropped(&mut case.world), 0);
        let told = [1, 2, 3].map(|_| send(&mut case));
        assert_eq!(told, if goes_on { [1, 0, 0] } else { [0, 0, 1] });
    }
}

#[test]
fn a_threshold_below_what_is_counted_is_told_without_a_packet() {
    let mut case = Case::new(LIMITS, ApplyAction::DROP);
    case.change(Farewell::default(), |rules| {
        *rules = telling_of_dropped(rules, Some(3), None)
    });
    (0..2).for_each(|number| drop(case.world.send(1, &numbered(number))));
    assert_eq!(told_dropped(&mut case.world), 0);
    let mut image = case.image.clone();
    image.dropped[0].threshold.packets = Some(2);
    case.replace(image, Farewell::default());
    assert_eq!(told_dropped(&mut case.world), 1);
    case.world.send(1, &numbered(2));
    assert_eq!(told_dropped(&mut case.world), 0, "it starts again");
}

#[test]
fn octets_of_dropped_packets_are_those_of_inner_ip() {
    let mut case = Case::new(LIMITS, ApplyAction::DROP);
    let octets = numbered(0).len() as u64;
    case.change(Farewell::default(), |rules| {
        *rules = telling_of_dropped(rules, Some(100), Some(octets * 2))
    });
    let told = [0, 1, 2, 3].map(|number| {
        case.world.send(1, &numbered(number));
        told_dropped(&mut case.world)
    });
    assert_eq!(told, [0, 1, 0, 1]);
}
