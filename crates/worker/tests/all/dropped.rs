//! Thresholds of dropped downlink packets (DROTH): what counts against them, and when control is notified.

use crate::common;

use std::net::Ipv4Addr;

use flow::OpId;
use packet::DropReason;
use rules::image::{DroppedCount, ImmediateActions, SessionChange, SessionImage};
use rules::model::PredefinedRule;
use rules::model::{
    ApplyAction, DroppedDlThreshold, PdrId, PdrUpdate, Precedence, ReportingTriggers, SdfFilter, Urr, UrrId,
    UrrTerms,
};
use rules::testing::{UE, UserPacket};
use rules::{Predefined, SessionRules};
use worker::{Command, Event};

use common::World;
use common::buffering::{BUFF, Case, LIMITS, numbered};
use common::one_session::{REMOTE, events, uplink};

const PDR: PdrId = PdrId(2);

/// The rules with a URR of the downlink PDR that reports this number of dropped packets and octets.
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

/// How often control was notified that a threshold of dropped packets is reached.
fn dropped_reports(world: &mut World) -> usize {
    let is_reported = |event: &Event| matches!(event, Event::DroppedReached { urr, .. } if *urr == UrrId(9));
    events(world).iter().filter(|event| is_reported(event)).count()
}

#[test]
fn dropped_downlink_packets_are_reported_at_their_thresholds() {
    let mut case = Case::new(LIMITS, ApplyAction::DROP);
    case.change(ImmediateActions::default(), |rules| {
        *rules = telling_of_dropped(rules, Some(3), None)
    });
    let mut number = 0;
    let mut send = |case: &mut Case, count: u8| {
        for _ in 0..count {
            case.world.send(1, &numbered(number));
            number += 1;
        }
        dropped_reports(&mut case.world)
    };
    assert_eq!([2, 1, 2].map(|count| send(&mut case, count)), [0, 1, 0]);
    // Other rules change nothing of the count, which starts again when it is reported.
    case.set(ApplyAction::DROP.with(ApplyAction::DDPN));
    assert_eq!([1, 2, 1].map(|count| send(&mut case, count)), [1, 0, 1]);
    // What waits is not dropped: until there is no room for more, or until it is thrown away.
    case.set(BUFF);
    assert_eq!([8, 2, 1].map(|count| send(&mut case, count)), [0, 0, 1]);
    let immediate = ImmediateActions {
        discards_buffered: true,
        ..ImmediateActions::default()
    };
    case.replace(case.image.clone(), immediate);
    assert_eq!(
        dropped_reports(&mut case.world),
        2,
        "eight more, of which two are left"
    );
    case.world.send(1, &numbered(99));
    case.world.now = case.world.now + LIMITS.timeout;
    (0..3).for_each(|_| case.world.poll());
    assert_eq!(case.dropped(DropReason::BufferExpired), 1);
    assert_eq!(dropped_reports(&mut case.world), 1);
    // Uplink packets do not count, nor do packets that are forwarded.
    case.set(ApplyAction::FORW);
    assert_eq!(send(&mut case, 9), 0);
    case.world.send(0, &uplink());
    assert_eq!(dropped_reports(&mut case.world), 0);
    case.world.assert_conserved();
}

#[test]
fn what_replaces_a_session_or_a_urr_counts_from_zero_and_all_else_continues() {
    // Another image of the same rules, and whether the count is kept.
    type Edit = fn(&mut SessionImage);
    let cases: [(Edit, bool); 3] = [
        (|_| {}, true),
        (|image| image.seid += 100, false),
        (
            |image| image.installation.get_or_insert_default().fresh_urrs = vec![UrrId(9)],
            false,
        ),
    ];
    for (edit, goes_on) in cases {
        let mut case = Case::new(LIMITS, ApplyAction::DROP);
        case.change(ImmediateActions::default(), |rules| {
            *rules = telling_of_dropped(rules, Some(3), None)
        });
        let send = |case: &mut Case| {
            case.world.send(1, &numbered(0));
            dropped_reports(&mut case.world)
        };
        assert_eq!([send(&mut case), send(&mut case)], [0, 0]);
        let mut image = case.image.clone();
        edit(&mut image);
        case.replace(image, ImmediateActions::default());
        assert_eq!(dropped_reports(&mut case.world), 0);
        let reported = [1, 2, 3].map(|_| send(&mut case));
        assert_eq!(reported, if goes_on { [1, 0, 0] } else { [0, 0, 1] });
    }
}

#[test]
fn a_threshold_below_what_is_counted_is_reported_without_a_packet() {
    let mut case = Case::new(LIMITS, ApplyAction::DROP);
    case.change(ImmediateActions::default(), |rules| {
        *rules = telling_of_dropped(rules, Some(3), None)
    });
    (0..2).for_each(|number| drop(case.world.send(1, &numbered(number))));
    assert_eq!(dropped_reports(&mut case.world), 0);
    let mut image = case.image.clone();
    image.dropped.get_or_insert_default()[0].threshold.packets = Some(2);
    case.replace(image, ImmediateActions::default());
    assert_eq!(dropped_reports(&mut case.world), 1);
    case.world.send(1, &numbered(2));
    assert_eq!(dropped_reports(&mut case.world), 0, "it starts again");
}

#[test]
fn octets_of_dropped_packets_are_those_of_inner_ip() {
    let mut case = Case::new(LIMITS, ApplyAction::DROP);
    let octets = numbered(0).len() as u64;
    case.change(ImmediateActions::default(), |rules| {
        *rules = telling_of_dropped(rules, Some(100), Some(octets * 2))
    });
    let reported = [0, 1, 2, 3].map(|number| {
        case.world.send(1, &numbered(number));
        dropped_reports(&mut case.world)
    });
    assert_eq!(reported, [0, 1, 0, 1]);
}

const PREDEFINED: UrrId = UrrId(0x8000_0001);

/// Rules whose downlink PDR activates a predefined rule for packets from one host, with a URR of its own that reports
/// this number of dropped packets.
fn of_predefined_rule(rules: &SessionRules, packets: u64) -> SessionRules {
    let terms = UrrTerms {
        dropped_dl_threshold: Some(DroppedDlThreshold {
            packets: Some(packets),
            octets: None,
        }),
        ..UrrTerms::NONE
    };
    let urr = Urr {
        triggers: ReportingTriggers::DROTH,
        terms: Some(Box::new(terms)),
        ..Urr::volume(PREDEFINED)
    };
    let mut predefined = Predefined::new([], [], [urr]).expect("the number is one of predefined rules");
    let rule = |precedence, host: Option<&str>, urrs| PredefinedRule {
        precedence: Precedence(precedence),
        filters: host
            .into_iter()
            .map(|host| SdfFilter {
                flow_description: format!("permit out ip from {host} to assigned").parse().ok(),
                ..SdfFilter::default()
            })
            .collect(),
        detection: Default::default(),
        far: None,
        qers: Vec::new(),
        urrs,
        content: None,
    };
    let host = REMOTE.to_string();
    let both = vec![rule(1, Some(&host), vec![PREDEFINED]), rule(2, None, vec![])];
    predefined.add(b"base", both).expect("all is there");
    let mut rules = rules.clone();
    let update = PdrUpdate {
        activate: predefined.rulebase(b"base").cloned().into_iter().collect(),
        ..PdrUpdate::new(PDR)
    };
    rules.update_pdr(update).expect("it is there");
    rules.instantiate(&predefined);
    rules
}

/// How often control was notified of the predefined rule's URR.
fn predefined_reports(world: &mut World) -> usize {
    let is_reported =
        |event: &Event| matches!(event, Event::DroppedReached { urr, .. } if *urr == PREDEFINED);
    events(world).iter().filter(|event| is_reported(event)).count()
}

#[test]
fn dropped_packets_of_predefined_rules_count_in_their_urrs() {
    let other = || UserPacket::udp(Ipv4Addr::new(192, 0, 2, 99), UE, 53, 1000).bytes();
    let mut case = Case::new(LIMITS, ApplyAction::DROP);
    case.change(ImmediateActions::default(), |rules| {
        *rules = of_predefined_rule(rules, 2)
    });
    let reported = |case: &mut Case, packet: &[u8]| {
        case.world.send(1, packet);
        predefined_reports(&mut case.world)
    };
    // Those of another rule of the same PDR are not of this one.
    let sent = [numbered(0), other(), numbered(1), numbered(2), other()];
    assert_eq!(sent.map(|packet| reported(&mut case, &packet)), [0, 0, 1, 0, 0]);
    assert_eq!(reported(&mut case, &numbered(3)), 1);
    // What waits: for what there is no room, and what has waited for too long.
    case.set(BUFF);
    let waiting = (0..8)
        .map(|number| reported(&mut case, &numbered(number)))
        .sum::<usize>();
    assert_eq!(waiting, 0);
    assert_eq!(
        [8, 9].map(|number| reported(&mut case, &numbered(number))),
        [0, 1]
    );
    case.world.now = case.world.now + LIMITS.timeout;
    (0..3).for_each(|_| case.world.poll());
    assert_eq!(case.dropped(DropReason::BufferExpired), 8);
    assert_eq!(predefined_reports(&mut case.world), 4);
    case.world.assert_conserved();
}

/// A session's move: what its old worker counted is continued at the new one, which is the same here.
#[test]
fn what_was_counted_of_dropped_packets_goes_along_to_another_worker() {
    let mut case = Case::new(LIMITS, ApplyAction::DROP);
    case.change(ImmediateActions::default(), |rules| {
        *rules = telling_of_dropped(rules, Some(5), None)
    });
    let octets = numbered(0).len() as u64;
    (0..3).for_each(|number| drop(case.world.send(1, &numbered(number))));
    let session = case.image.session;
    let removed = |case: &mut Case| {
        let last = case.world.apply(0, SessionChange::Remove(session));
        last.expect("it was there")
            .expect("something was counted")
            .dropped
    };
    let count = DroppedCount {
        urr: UrrId(9),
        packets: 3,
        octets: octets * 3,
    };
    assert_eq!(removed(&mut case), [count]);
    let install = SessionChange::Install(case.image.clone());
    case.world.apply(0, install).expect("it is new there");
    let mut image = case.image.clone();
    image.add_dropped(&[count]);
    let change = SessionChange::Replace(image, ImmediateActions::default());
    case.world.apply(0, change).expect("it is there");
    assert_eq!(removed(&mut case), [count]);
}

/// Two workers have counted together what the threshold says: the report comes when one of them has taken over the
/// count of both.
#[test]
fn a_threshold_that_two_workers_reach_together_is_reported() {
    let mut case = Case::new(LIMITS, ApplyAction::DROP);
    case.change(ImmediateActions::default(), |rules| {
        *rules = telling_of_dropped(rules, Some(5), None)
    });
    (0..3).for_each(|number| drop(case.world.send(1, &numbered(number))));
    assert_eq!(dropped_reports(&mut case.world), 0);
    let mut image = case.image.clone();
    image.add_dropped(&[DroppedCount {
        urr: UrrId(9),
        packets: 2,
        octets: 100,
    }]);
    let command = Command::Session {
        op: OpId(901),
        change: SessionChange::Replace(image, ImmediateActions::default()),
    };
    case.world.controls[0]
        .commands
        .push(command)
        .expect("there is room");
    case.world.poll();
    assert_eq!(dropped_reports(&mut case.world), 1);
}
