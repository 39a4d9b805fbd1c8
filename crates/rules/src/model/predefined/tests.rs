//! What may be predefined, and what sessions have of it.

use std::sync::Arc;

use super::*;
use crate::model::{Edit, Pdr, PdrId, PdrUpdate, Precedence, SessionRules};
use crate::sdf::SdfFilter;
use crate::testing;
use packet::Teid;

const FAR: FarId = FarId(1 << 31 | 1);
const QER: QerId = QerId(1 << 31 | 1);
const OTHER: QerId = QerId(1 << 31 | 2);
const URR: UrrId = UrrId(1 << 31 | 1);

fn rule(precedence: u32, qers: &[QerId]) -> PredefinedRule {
    PredefinedRule {
        precedence: Precedence(precedence),
        filters: Vec::new(),
        detection: Default::default(),
        far: Some(FAR),
        qers: qers.to_vec(),
        urrs: vec![URR],
        content: None,
    }
}

fn numbers() -> Predefined {
    let far = Far {
        id: FAR,
        action: crate::model::ApplyAction::DROP,
        forwarding: None,
        optional: Default::default(),
        bar: None,
    };
    Predefined::new([far], [Qer::new(QER), Qer::new(OTHER)], [Urr::volume(URR)]).unwrap()
}

fn predefined() -> Predefined {
    let mut predefined = numbers();
    predefined
        .add(b"a", vec![rule(2, &[QER]), rule(1, &[OTHER, QER])])
        .unwrap();
    predefined.add(b"b", vec![rule(1, &[OTHER])]).unwrap();
    predefined
}

fn session() -> SessionRules {
    testing::pdu_session(
        7,
        crate::model::OuterHeaderCreation::gtpu_ipv4(Teid(9), testing::GNB),
    )
}

/// Predefined QERs and URRs that the session has instances of.
fn instances(rules: &SessionRules) -> (Vec<u32>, Vec<u32>) {
    let is_predefined = |id: &u32| id >> 31 != 0;
    let qers = rules.qers().iter().map(|qer| qer.id.0).filter(is_predefined);
    let urrs = rules.urrs().iter().map(|urr| urr.id.0).filter(is_predefined);
    (qers.collect(), urrs.collect())
}

fn change(rules: &mut SessionRules, update: PdrUpdate) {
    rules.update_pdr(update).unwrap();
    rules.instantiate(&predefined());
}

fn update(on: &[&[u8]], off: &[&[u8]]) -> PdrUpdate {
    let all = predefined();
    let named = |names: &[&[u8]]| {
        let found = names.iter().filter_map(|name| all.rulebase(name).cloned());
        found.collect::<Vec<Arc<Rulebase>>>()
    };
    PdrUpdate {
        activate: named(on),
        deactivate: named(off),
        ..PdrUpdate::new(PdrId(1))
    }
}

#[test]
fn rules_are_in_the_order_of_matching() {
    let all = predefined();
    let rulebase = all.rulebase(b"a").unwrap();
    let order: Vec<u32> = rulebase.rules().iter().map(|rule| rule.precedence.0).collect();
    assert_eq!((order, rulebase.qers()), (vec![1, 2], &[OTHER, QER][..]));
    assert_eq!(format!("{rulebase:?}"), "Rulebase(a, 2 rules)");
    assert!(all.rulebase(b"A").is_none());
}

#[test]
fn what_contradicts_itself_is_not_predefined() {
    let clear = Predefined::new([], [Qer::new(QerId(5))], []);
    assert_eq!(clear, Err(PredefinedError::NotPredefined(QerId(5).into())));
    let twice = Predefined::new([], [Qer::new(QER), Qer::new(QER)], []);
    assert_eq!(twice, Err(PredefinedError::Twice(QER.into())));
    let mut all = predefined();
    let before = all.clone();
    let unknown = QerId(1 << 31 | 9);
    let with_id = SdfFilter {
        filter_id: Some(crate::model::SdfFilterId(1)),
        ..SdfFilter::default()
    };
    let filtered = PredefinedRule {
        filters: vec![with_id],
        ..rule(1, &[])
    };
    for (name, rules, fault) in [
        (&b""[..], vec![rule(1, &[])], PredefinedError::Name),
        (&[b'x'; 256], vec![rule(1, &[])], PredefinedError::Name),
        (b"a", vec![rule(1, &[])], PredefinedError::NameTaken),
        (b"c", Vec::new(), PredefinedError::Empty),
        (
            b"c",
            vec![rule(1, &[unknown])],
            PredefinedError::Unknown(unknown.into()),
        ),
        (b"c", vec![filtered], PredefinedError::FilterId),
    ] {
        assert_eq!(all.add(name, rules), Err(fault));
    }
    assert_eq!(all, before);
}

#[test]
fn a_rulebase_fits_into_a_session() {
    let ids = (0..65).map(|place| QerId(1 << 31 | place));
    let mut all = Predefined::new([], ids.clone().map(Qer::new), []).unwrap();
    let bare = PredefinedRule {
        far: None,
        urrs: Vec::new(),
        ..rule(1, &[])
    };
    let rules = ids.map(|id| PredefinedRule {
        qers: vec![id],
        ..bare.clone()
    });
    let rules: Vec<_> = rules.collect();
    let too_many = PredefinedError::TooMany {
        what: "QERs",
        max: 64,
    };
    assert_eq!(all.add(b"a", rules.clone()), Err(too_many));
    assert_eq!(all.add(b"a", rules[1..].to_vec()), Ok(()));
    let filters = (0..300u16).map(|port| SdfFilter {
        flow_description: format!("permit out 6 from any {port} to any").parse().ok(),
        ..SdfFilter::default()
    });
    let filtered = PredefinedRule {
        filters: filters.collect(),
        ..bare
    };
    let is_too_many = |fault| matches!(fault, Err(PredefinedError::TooMany { .. }));
    assert!(is_too_many(all.add(b"b", vec![filtered; 256])));
}

#[test]
fn instances_come_and_go_with_their_use() {
    let mut rules = session();
    let own = rules.clone();
    change(&mut rules, update(&[b"a"], &[]));
    assert_eq!(instances(&rules), (vec![QER.0, OTHER.0], vec![URR.0]));
    // The PDR has a FAR of its own.
    assert!(rules.far(FAR).is_none());
    change(&mut rules, update(&[b"b"], &[b"a"]));
    assert_eq!(instances(&rules), (vec![OTHER.0], vec![URR.0]));
    // What is active is not activated twice, what is not active not missed.
    change(&mut rules, update(&[b"b"], &[b"a"]));
    assert_eq!(rules.pdr(PdrId(1)).unwrap().rulebases.len(), 1);
    change(&mut rules, update(&[], &[b"b"]));
    assert_eq!(rules, own);
}

#[test]
fn instances_used_by_number_stay_with_the_rulebase_that_uses_them() {
    let mut rules = session();
    let mut by_number = update(&[b"b"], &[]);
    by_number.qers = Some(vec![OTHER, QER]);
    change(&mut rules, by_number);
    assert_eq!(instances(&rules).0, [QER.0, OTHER.0]);
    // Removal by number takes what was used by number (TS 29.244 §5.4.9, NOTE 3).
    rules.remove_qer(QER).unwrap();
    rules.remove_qer(OTHER).unwrap();
    rules.instantiate(&predefined());
    assert_eq!(instances(&rules).0, [OTHER.0]);
    assert!(rules.pdr(PdrId(1)).unwrap().qers.is_empty());
}

#[test]
fn a_predefined_far_goes_off_its_pdrs() {
    let mut rules = session();
    let mut by_number = update(&[], &[]);
    by_number.far = Edit::Set(FAR);
    change(&mut rules, by_number);
    assert_eq!(rules.far(FAR), predefined().far(FAR));
    rules.remove_far(FAR).unwrap();
    rules.instantiate(&predefined());
    assert_eq!((rules.far(FAR), rules.pdr(PdrId(1)).unwrap().far), (None, None));
}

#[test]
fn the_first_rule_speaks_for_a_pdr_without_a_far() {
    let mut rules = session();
    change(&mut rules, update(&[b"a"], &[]));
    let pdr = rules.pdr(PdrId(1)).unwrap().clone();
    assert_eq!(pdr.first_far(), pdr.far);
    assert_eq!(Pdr { far: None, ..pdr }.first_far(), Some(FAR));
}
