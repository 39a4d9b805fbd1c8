//! PDRs that activate rulebases: against the interpreter, and what a session takes for them.

use super::*;
use crate::model::{Edit, FarId, PdrId, Precedence, Qer, QerId, Urr, UrrId};
use crate::model::{Predefined, PredefinedRule};
use crate::testing::{any_detection, runnable_rules_with};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn it_decides_as_the_interpreter_does(
        (rules, _) in runnable_rules_with(),
        packets in prop::collection::vec((any_sent(), any_detection()), 1..12),
    ) {
        let network = testing::network();
        let Some(image) = image(rules.clone(), &network) else { return Ok(()) };
        for (sent, detection) in packets {
            let Some((side, tuple)) = seen(&network, &sent) else { continue };
            if !is_owned(&image, side, &tuple) {
                continue;
            }
            let conditions = Conditions {
                metering: Metering::Colour(Colour::Green),
                congestion: CongestionMarks::Turn(false),
                quotas: Quotas::default(),
                detection: detection.borrowed(),
                is_solicited: true,
            };
            let verdict = interpret_with(&rules, &network, sent.ingress, &sent.bytes, conditions);
            let view = PacketView { side, tuple: &tuple };
            let found = image.classifier.classify_with(&view, detection.borrowed()).filter(Match::is_decided);
            let denied = verdict.outcome == Outcome::Dropped(DropReason::AccessList);
            prop_assert_eq!(found.is_some_and(|found| found.decision.is_denied()), denied);
            if denied {
                continue;
            }
            let pdr = found.map(|found| rules.pdrs()[usize::from(found.decision.pdr)].id);
            prop_assert_eq!(pdr, verdict.pdr);
            let Some(Match { decision, .. }) = found else { continue };
            let allowed = image.classifier.allows_source(decision.source_check, tuple.addrs.src());
            prop_assert_eq!(!allowed, verdict.outcome == Outcome::Dropped(DropReason::SpoofedSource));
            if matches!(verdict.outcome, Outcome::Forwarded { .. }) {
                let counted: Vec<UrrId> = verdict.counted.iter().map(|counted| counted.urr).collect();
                let slots = (0..).zip(rules.urrs()).filter(|(slot, _)| decision.urrs >> slot & 1 != 0);
                let urrs: Vec<UrrId> = slots.map(|(_, urr)| urr.id).collect();
                prop_assert_eq!(urrs, counted);
            }
        }
    }

    #[test]
    fn the_flow_counts_only_where_the_answer_says_so(
        (rules, _) in runnable_rules_with(),
        packets in prop::collection::vec((any_sent(), any_detection(), any_detection()), 1..12),
    ) {
        let network = testing::network();
        let Some(image) = image(rules, &network) else { return Ok(()) };
        for (sent, one, other) in &packets {
            let Some((side, tuple)) = seen(&network, sent) else { continue };
            let answer = |detection| image.classifier.classify_with(&PacketView { side, tuple: &tuple }, detection);
            let found = answer(one.borrowed());
            let depends = found.is_none_or(|found| found.reads_detection);
            prop_assert!(depends || found == answer(other.borrowed()));
            let is_tuple = found.is_none_or(|found| !found.reads_detection || found.key.contains(KeyFields::TUPLE));
            prop_assert!(is_tuple);
        }
    }

    #[test]
    fn packets_that_share_a_key_share_their_decision(
        (rules, _) in runnable_rules_with(),
        packets in prop::collection::vec(any_sent(), 2..40),
    ) {
        let network = testing::network();
        let Some(image) = image(rules, &network) else { return Ok(()) };
        let mut decided = HashMap::new();
        for (side, tuple) in packets.iter().filter_map(|sent| seen(&network, sent)) {
            if !is_owned(&image, side, &tuple) {
                continue;
            }
            let Some(found) = image.classifier.classify(&PacketView { side, tuple: &tuple }) else { continue };
            let key = flow_key(found.key, &PacketView { side, tuple: &tuple });
            let decision = (found.decision, found.access);
            prop_assert_eq!(*decided.entry(key).or_insert(decision), decision);
        }
    }
}

fn number(place: u32) -> u32 {
    1 << 31 | place
}

/// A rulebase of a number of rules on ports of their own, over two QERs and two URRs.
fn ports(count: u16) -> Predefined {
    let qers = [0, 1].map(|place| Qer::new(QerId(number(place))));
    let urrs = [0, 1].map(|place| Urr::volume(UrrId(number(place))));
    let mut predefined = Predefined::new([], qers, urrs).unwrap();
    let rules = (0..count).map(|port| PredefinedRule {
        precedence: Precedence(u32::from(count - port)),
        filters: vec![SdfFilter {
            flow_description: format!("permit out 17 from any {} to assigned", 1000 + port)
                .parse()
                .ok(),
            ..SdfFilter::default()
        }],
        detection: Default::default(),
        far: None,
        qers: vec![QerId(number(u32::from(port) % 2))],
        urrs: vec![UrrId(number(u32::from(port) % 2))],
        content: None,
    });
    predefined.add(b"ports", rules.collect()).unwrap();
    predefined
}

/// A session whose downlink PDR activates it.
fn with_ports(predefined: &Predefined) -> SessionRules {
    activating(predefined, session())
}

fn activating(predefined: &Predefined, mut rules: SessionRules) -> SessionRules {
    let mut update = PdrUpdate::new(PdrId(2));
    update.activate = vec![Arc::clone(predefined.rulebase(b"ports").unwrap())];
    rules.update_pdr(update).unwrap();
    rules.instantiate(predefined);
    rules
}

#[test]
fn a_rule_adds_to_its_pdr_and_the_others_do_not() {
    let rules = with_ports(&ports(1000));
    let network = testing::network();
    let classifier = image(rules.clone(), &network).unwrap().classifier;
    let decision = |port| {
        let sent = plain(&UserPacket::udp(remote(), testing::UE, port, 4000));
        let (side, tuple) = seen(&network, &sent).unwrap();
        classifier.classify(&PacketView { side, tuple: &tuple })
    };
    let (first, last) = (decision(1000).unwrap().decision, decision(1999).unwrap().decision);
    let slot = |id| {
        rules
            .qers()
            .iter()
            .position(|qer| qer.id == QerId(number(id)))
            .unwrap()
    };
    // The session's own QER and URR are slot 0, and the QFI is its.
    assert_eq!((first.pdr, first.marking), (1, 0));
    assert_eq!((first.qers, first.urrs), (1 | 1 << slot(0), 1 | 1 << slot(0)));
    assert_eq!((last.qers, last.urrs), (1 | 1 << slot(1), 1 | 1 << slot(1)));
    assert_eq!(decision(2000), None);
    assert!(decision(1999).unwrap().reads_ports);
}

#[test]
fn a_session_takes_no_more_for_many_rules_than_for_few() {
    let few = ports(4);
    let many = ports(4000);
    let made = |predefined| {
        let image = image(with_ports(predefined), &testing::network()).unwrap();
        let activations = &image.classifier.shared().unwrap().activations;
        (image.classifier.words().len(), activations.slots(), image.block)
    };
    assert_eq!(made(&few), made(&many));
    let rulebase = many.rulebase(b"ports").unwrap();
    let before = Arc::strong_count(rulebase);
    let images = [(); 3].map(|()| image(with_ports(&many), &testing::network()).unwrap());
    // One in the rules of each session, and one in what the classifiers of all of them share.
    assert_eq!(Arc::strong_count(rulebase), before + images.len() + 1);
}

#[test]
fn sessions_share_what_they_refer_to_alike() {
    let shared = |rules| {
        image(rules, &testing::network())
            .unwrap()
            .classifier
            .shared
            .unwrap()
    };
    let predefined = ports(4);
    let one = shared(with_ports(&predefined));
    assert!(Arc::ptr_eq(&one, &shared(with_ports(&predefined))));
    // Another QER before those of the rulebase moves their slots.
    let mut more = session();
    more.create_qer(Qer::new(QerId(7))).unwrap();
    assert!(!Arc::ptr_eq(&one, &shared(activating(&predefined, more))));
    // A rulebase that says the same is another one: it may be of another configuration.
    let same = shared(with_ports(&ports(4)));
    assert!(same == one && !Arc::ptr_eq(&one, &same));
    // However many there are, those of sessions that are there stay what they are.
    let others: Vec<_> = (0..40)
        .map(|count| shared(with_ports(&ports(count + 1))))
        .collect();
    assert!(
        (1..)
            .zip(&others)
            .all(|(count, other)| *other == shared(with_ports(&ports(count))))
    );
}

#[test]
fn without_a_far_of_the_pdr_each_rule_needs_its_own() {
    let predefined = ports(2);
    let mut rules = with_ports(&predefined);
    let pdr = rules.remove_pdr(PdrId(2)).unwrap();
    rules.create_pdr(Pdr { far: None, ..pdr }).unwrap();
    let error = compile(&Arc::new(rules), &testing::network(), &NumberedHops).unwrap_err();
    assert_eq!((error.rule, error.reason), (PdrId(2).into(), CompileFault::NoFar));
}

#[test]
fn a_predefined_number_that_is_not_there_is_missing() {
    let mut rules = session();
    let mut update = PdrUpdate::new(PdrId(2));
    update.far = Edit::Set(FarId(number(9)));
    rules.update_pdr(update).unwrap();
    let error = compile(&Arc::new(rules), &testing::network(), &NumberedHops).unwrap_err();
    assert_eq!(error.reason, CompileFault::Missing(FarId(number(9)).into()));
}
