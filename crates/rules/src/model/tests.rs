//! Edits as requests make them.

use flow::InstanceId;
use packet::{Qfi, Teid};

use super::*;
use crate::model::Predefined;
use crate::testing::{self, GNB};

fn session() -> SessionRules {
    testing::pdu_session(0x1001, OuterHeaderCreation::gtpu_ipv4(Teid(0x2001), GNB))
}

fn exists(rule: impl Into<RuleRef>) -> Result<(), EditError> {
    Err(EditError {
        rule: rule.into(),
        fault: EditFault::Exists,
    })
}

fn unknown<T>(rule: impl Into<RuleRef>) -> Result<T, EditError> {
    Err(EditError {
        rule: rule.into(),
        fault: EditFault::Unknown,
    })
}

const BAR: Bar = Bar {
    id: BarId(1),
    notification_delay: None,
    suggested_packets: None,
    extended_packets: None,
};

#[test]
fn a_rule_that_exists_is_not_created_again() {
    let mut rules = session();
    rules.create_bar(BAR).unwrap();
    let before = rules.clone();
    let pdr = before.pdrs()[0].clone();
    assert_eq!(rules.create_pdr(pdr), exists(PdrId(1)));
    assert_eq!(rules.create_far(before.fars()[0].clone()), exists(FarId(1)));
    assert_eq!(rules.create_qer(before.qers()[0].clone()), exists(QerId(1)));
    assert_eq!(rules.create_urr(before.urrs()[0].clone()), exists(UrrId(1)));
    assert_eq!(rules.create_bar(BAR), exists(BarId(1)));
    assert_eq!(rules, before);
}

#[test]
fn copies_share_all_but_fars_until_something_of_it_changes() {
    let rules = session();
    let mut copy = rules.clone();
    let stops = FarUpdate {
        action: Some(ApplyAction::DROP),
        ..FarUpdate::new(FarId(1))
    };
    copy.update_far(stops).unwrap();
    copy.remove_far(FarId(2)).unwrap();
    copy.create_far(testing::forward(
        9,
        ForwardingParameters::new(DestinationInterface::Core),
    ))
    .unwrap();
    copy.set_inactivity_timer(60);
    // What a request that names nothing else comes to.
    copy.create_qers(Vec::new()).unwrap();
    copy.create_urrs(Vec::new()).unwrap();
    copy.create_pdrs(Vec::new()).unwrap();
    copy.share_filters(&[]);
    copy.forget_unused_filters();
    copy.instantiate(&Predefined::default());
    assert!(copy.shares_all_but_fars_with(&rules));
    assert_ne!(copy, rules);
    for change in [
        |rules: &mut SessionRules| rules.remove_pdr(PdrId(1)).map(drop),
        |rules: &mut SessionRules| rules.update_qer(QerUpdate::new(QerId(1))),
        |rules: &mut SessionRules| rules.remove_urr(UrrId(1)).map(drop),
        |rules: &mut SessionRules| rules.create_bar(BAR),
        |rules: &mut SessionRules| rules.create_endpoint(TrafficEndpoint::new(TrafficEndpointId(1))),
    ] {
        let mut changed = copy.clone();
        change(&mut changed).unwrap();
        assert!(!changed.shares_all_but_fars_with(&rules));
        assert_eq!(rules, session(), "what the copy was made of");
    }
}

#[test]
fn rules_that_share_nothing_are_equal_if_they_say_the_same() {
    let (rules, again) = (session(), session());
    assert!(!rules.shares_all_but_fars_with(&again));
    assert_eq!(rules, again);
    let mut emptied = SessionRules::new();
    emptied.create_bar(BAR).unwrap();
    emptied.remove_bar(BAR.id).unwrap();
    assert_eq!(emptied, SessionRules::new());
}

#[test]
fn a_rule_that_does_not_exist_is_named() {
    // free5gc/free5gc #483, #746: Update and Remove of unknown rules.
    let mut rules = session();
    let before = rules.clone();
    assert_eq!(rules.update_pdr(PdrUpdate::new(PdrId(9))), unknown(PdrId(9)));
    assert_eq!(rules.update_far(FarUpdate::new(FarId(9))), unknown(FarId(9)));
    assert_eq!(rules.update_qer(QerUpdate::new(QerId(9))), unknown(QerId(9)));
    assert_eq!(rules.update_urr(UrrUpdate::new(UrrId(9))), unknown(UrrId(9)));
    assert_eq!(rules.update_bar(BarUpdate::new(BarId(1))), unknown(BarId(1)));
    assert_eq!(rules.remove_pdr(PdrId(9)), unknown(PdrId(9)));
    assert_eq!(rules.remove_far(FarId(9)), unknown(FarId(9)));
    assert_eq!(rules.remove_qer(QerId(9)), unknown(QerId(9)));
    assert_eq!(rules.remove_urr(UrrId(9)), unknown(UrrId(9)));
    assert_eq!(rules.remove_bar(BarId(9)), unknown(BarId(9)));
    assert_eq!(rules, before);
    let error = rules.remove_bar(BarId(9)).unwrap_err();
    assert_eq!(error.to_string(), "BAR 9 does not exist");
}

#[test]
fn an_empty_update_changes_nothing() {
    let mut rules = session();
    rules.create_bar(BAR).unwrap();
    let before = rules.clone();
    rules
        .update_pdr(PdrUpdate {
            pdi: Some(PdiUpdate::default()),
            ..PdrUpdate::new(PdrId(1))
        })
        .unwrap();
    let parameters = ForwardingParametersUpdate::default();
    rules
        .update_far(FarUpdate {
            forwarding: Edit::Set(parameters),
            ..FarUpdate::new(FarId(2))
        })
        .unwrap();
    rules.update_qer(QerUpdate::new(QerId(1))).unwrap();
    rules.update_urr(UrrUpdate::new(UrrId(1))).unwrap();
    assert_eq!(rules, before);
}

#[test]
fn a_pdi_that_identifies_the_session_replaces_the_old_one() {
    let mut rules = session();
    let qfis = Some(vec![Qfi::from_low_bits(9)]);
    let with = |pdi| PdrUpdate {
        pdi: Some(pdi),
        ..PdrUpdate::new(PdrId(1))
    };
    rules
        .update_pdr(with(PdiUpdate {
            qfis,
            ..PdiUpdate::default()
        }))
        .unwrap();
    let f_teid = Edit::Set(testing::f_teid(7));
    rules
        .update_pdr(with(PdiUpdate {
            f_teid,
            ..PdiUpdate::default()
        }))
        .unwrap();
    let pdi = &rules.pdr(PdrId(1)).unwrap().pdi;
    assert_eq!((pdi.f_teid, pdi.qfis.len()), (Some(testing::f_teid(7)), 0));
    assert_eq!(pdi.source_interface, SourceInterface::Access);
}

#[test]
fn a_part_of_a_pdi_leaves_the_rest() {
    // open5GS: source interface and SDF filters only.
    let mut rules = session();
    let filter = SdfFilter {
        flow_description: "permit out ip from 192.0.2.1 to assigned".parse().ok(),
        ..SdfFilter::default()
    };
    let part = PdiUpdate {
        source_interface: Some(SourceInterface::Access),
        sdf_filters: Some(vec![filter.clone()]),
        instance: Edit::Set(InstanceId(0)),
        ..PdiUpdate::default()
    };
    rules
        .update_pdr(PdrUpdate {
            pdi: Some(part),
            ..PdrUpdate::new(PdrId(1))
        })
        .unwrap();
    let pdi = &rules.pdr(PdrId(1)).unwrap().pdi;
    assert_eq!(pdi.f_teid, Some(testing::f_teid(0x1001)));
    assert_eq!(
        (&pdi.sdf_filters[..], pdi.instance),
        (&[filter][..], Some(InstanceId(0)))
    );
    let part = PdiUpdate {
        instance: Edit::Clear,
        sdf_filters: Some(Vec::new()),
        ..PdiUpdate::default()
    };
    rules
        .update_pdr(PdrUpdate {
            pdi: Some(part),
            ..PdrUpdate::new(PdrId(1))
        })
        .unwrap();
    let pdi = &rules.pdr(PdrId(1)).unwrap().pdi;
    assert_eq!((pdi.sdf_filters.len(), pdi.instance), (0, None));
}

#[test]
fn all_of_a_pdr_can_be_changed() {
    let mut rules = session();
    let removal = OuterHeaderRemoval {
        header: OuterHeader::GtpuUdpIp,
        deletes_psc: true,
    };
    let update = PdrUpdate {
        id: PdrId(1),
        outer_header_removal: Edit::Set(removal),
        precedence: Some(Precedence(7)),
        pdi: None,
        far: Edit::Set(FarId(2)),
        qers: Some(Vec::new()),
        urrs: Some(vec![UrrId(3)]),
        ..PdrUpdate::new(PdrId(1))
    };
    rules.update_pdr(update).unwrap();
    let pdr = rules.pdr(PdrId(1)).unwrap();
    assert_eq!(
        (pdr.outer_header_removal, pdr.precedence, pdr.far),
        (Some(removal), Precedence(7), Some(FarId(2)))
    );
    assert_eq!((pdr.qers.len(), &pdr.urrs[..]), (0, &[UrrId(3)][..]));
    let without = PdrUpdate {
        outer_header_removal: Edit::Clear,
        far: Edit::Clear,
        ..PdrUpdate::new(PdrId(1))
    };
    rules.update_pdr(without).unwrap();
    let pdr = rules.pdr(PdrId(1)).unwrap();
    assert_eq!((pdr.outer_header_removal, pdr.far), (None, None));
}

#[test]
fn forwarding_parameters_merge_go_and_come() {
    let mut rules = session();
    let header = OuterHeaderCreation::gtpu_ipv4(Teid(9), GNB);
    let update = |parameters| FarUpdate {
        forwarding: parameters,
        ..FarUpdate::new(FarId(2))
    };
    let only_header = ForwardingParametersUpdate {
        outer_header_creation: Edit::Set(header),
        ..Default::default()
    };
    rules.update_far(update(Edit::Set(only_header))).unwrap();
    let forwarding = |rules: &SessionRules| rules.far(FarId(2)).unwrap().forwarding;
    let expected = ForwardingParameters {
        outer_header_creation: Some(header),
        ..ForwardingParameters::new(DestinationInterface::Access)
    };
    assert_eq!(forwarding(&rules), Some(expected));
    rules.update_far(update(Edit::Clear)).unwrap();
    assert_eq!(forwarding(&rules), None);
    // open5GS gives the FAR of an idle session its first parameters by an update.
    rules.update_far(update(Edit::Set(only_header))).unwrap();
    assert_eq!(forwarding(&rules), Some(expected));
}

#[test]
fn qers_urrs_and_bars_change_field_by_field() {
    let mut rules = session();
    let rates = BitRates {
        ul: BitsPerSecond::from_kbit(10),
        dl: BitsPerSecond(0),
    };
    let gates = Some((Gate::Closed, Gate::Open));
    rules
        .update_qer(QerUpdate {
            gates,
            mbr: Edit::Set(rates),
            ..QerUpdate::new(QerId(1))
        })
        .unwrap();
    let qer = rules.qer(QerId(1)).unwrap();
    assert_eq!(
        (qer.gate_ul, qer.gate_dl, qer.mbr),
        (Gate::Closed, Gate::Open, Some(rates))
    );
    assert_eq!((qer.qfi.map(Qfi::get), rates.ul.0), (Some(9), 10_000));
    let volume = Volume {
        total: Some(5),
        ..Volume::default()
    };
    let update = UrrUpdate {
        method: Some(MeasurementMethod(3)),
        volume_quota: Edit::Set(Box::new(volume)),
        time_quota: Edit::Set(60),
        ..UrrUpdate::new(UrrId(1))
    };
    rules.update_urr(update).unwrap();
    let urr = rules.urr(UrrId(1)).unwrap();
    assert_eq!(
        (urr.volume_quota.as_deref().copied(), urr.time_quota, urr.method),
        (Some(volume), Some(60), MeasurementMethod(3))
    );
    rules.create_bar(BAR).unwrap();
    rules
        .update_bar(BarUpdate {
            notification_delay: Edit::Set(4),
            suggested_packets: Edit::Set(7),
            ..BarUpdate::new(BarId(1))
        })
        .unwrap();
    rules
        .update_bar(BarUpdate {
            suggested_packets: Edit::Clear,
            ..BarUpdate::new(BarId(1))
        })
        .unwrap();
    assert_eq!(rules.bar(BarId(1)).unwrap().suggested_packets, None);
    assert_eq!(rules.bar(BarId(1)).unwrap().notification_delay, Some(4));
}

#[test]
fn what_goes_is_taken_off_the_rules_that_name_it() {
    let mut rules = session();
    rules.create_bar(BAR).unwrap();
    rules
        .update_far(FarUpdate {
            bar: Edit::Set(BarId(1)),
            ..FarUpdate::new(FarId(2))
        })
        .unwrap();
    rules.remove_qer(QerId(1)).unwrap();
    rules.remove_urr(UrrId(1)).unwrap();
    rules.remove_bar(BarId(1)).unwrap();
    assert!(
        rules
            .pdrs()
            .iter()
            .all(|pdr| pdr.qers.is_empty() && pdr.urrs.is_empty())
    );
    assert_eq!(rules.far(FarId(2)).unwrap().bar, None);
}

#[test]
fn ids_may_be_large_and_sparse() {
    // free5GC draws them from pools of the whole UPF.
    let mut rules = session();
    let pdr = testing::pdr(65_535, 1, Pdi::new(SourceInterface::Core), u32::MAX);
    rules.create_pdr(pdr).unwrap();
    rules
        .create_far(testing::forward(
            u32::MAX,
            ForwardingParameters::new(DestinationInterface::Core),
        ))
        .unwrap();
    assert!(rules.pdr(PdrId(65_535)).is_some() && rules.far(FarId(u32::MAX)).is_some());
}

const ENDPOINT: TrafficEndpointId = TrafficEndpointId(3);

fn endpoint() -> TrafficEndpoint {
    TrafficEndpoint {
        f_teid: Some(testing::f_teid(0x3003)),
        instance: Some(InstanceId(0)),
        ue_ip: vec![testing::ue_ip()].into(),
        framed_routes: vec!["10.60.0.0/16".parse().unwrap()],
        ..TrafficEndpoint::new(ENDPOINT)
    }
}

fn of_endpoint(id: u16) -> Pdr {
    let pdi = Pdi {
        endpoint: Some(ENDPOINT),
        qfis: vec![Qfi::from_low_bits(5)].into(),
        ..Pdi::new(SourceInterface::Access)
    };
    testing::pdr(id, 1, pdi, 1)
}

#[test]
fn pdrs_look_for_what_their_endpoint_says_and_follow_it() {
    let mut rules = session();
    let nowhere = EditError {
        rule: PdrId(7).into(),
        fault: EditFault::NoEndpoint(ENDPOINT),
    };
    assert_eq!(rules.create_pdr(of_endpoint(7)), Err(nowhere));
    assert_eq!(
        nowhere.to_string(),
        "PDR 7 names Traffic Endpoint 3, which does not exist"
    );
    rules.create_endpoint(endpoint()).unwrap();
    assert_eq!(rules.create_endpoint(endpoint()), exists(ENDPOINT));
    rules.create_pdr(of_endpoint(7)).unwrap();
    rules.create_pdr(of_endpoint(8)).unwrap();
    let pdi = |rules: &SessionRules, id| rules.pdr(PdrId(id)).unwrap().pdi.clone();
    let expected = Pdi {
        f_teid: endpoint().f_teid,
        instance: endpoint().instance,
        ue_ip: endpoint().ue_ip,
        optional: OptionalPdi {
            framed_routes: endpoint().framed_routes,
            application: None,
        }
        .into(),
        ..of_endpoint(7).pdi
    };
    assert_eq!(
        (pdi(&rules, 7), pdi(&rules, 8)),
        (expected.clone(), expected.clone())
    );
    let update = TrafficEndpointUpdate {
        f_teid: Edit::Set(testing::f_teid(0x3004)),
        instance: Edit::Clear,
        framed_routes: FramedRoutesUpdate {
            ipv4: None,
            ipv6: Some(vec!["2001:db8:9::/48".parse().unwrap()]),
        },
        qfis: Some(vec![Qfi::from_low_bits(6)]),
        ..TrafficEndpointUpdate::new(ENDPOINT)
    };
    rules.update_endpoint(update).unwrap();
    for id in [7, 8] {
        let now = pdi(&rules, id);
        assert_eq!((now.f_teid, now.instance), (Some(testing::f_teid(0x3004)), None));
        assert_eq!(
            (now.ue_ip, now.qfis),
            (endpoint().ue_ip, vec![Qfi::from_low_bits(6)].into())
        );
        assert_eq!(now.optional.framed_routes.len(), 2);
    }
    assert_eq!(
        rules.update_endpoint(TrafficEndpointUpdate::new(TrafficEndpointId(9))),
        unknown(TrafficEndpointId(9))
    );
}

#[test]
fn an_update_takes_a_pdr_to_an_endpoint_and_away() {
    let mut rules = session();
    rules.create_endpoint(endpoint()).unwrap();
    let towards = |pdi| PdrUpdate {
        pdi: Some(pdi),
        ..PdrUpdate::new(PdrId(1))
    };
    let to_endpoint = PdiUpdate {
        endpoint: Some(ENDPOINT),
        ..PdiUpdate::default()
    };
    rules.update_pdr(towards(to_endpoint)).unwrap();
    let pdi = &rules.pdr(PdrId(1)).unwrap().pdi;
    assert_eq!((pdi.endpoint, pdi.f_teid), (Some(ENDPOINT), endpoint().f_teid));
    let away = PdiUpdate {
        f_teid: Edit::Set(testing::f_teid(0x1001)),
        ..PdiUpdate::default()
    };
    rules.update_pdr(towards(away)).unwrap();
    let pdi = &rules.pdr(PdrId(1)).unwrap().pdi;
    assert_eq!((pdi.endpoint, pdi.f_teid), (None, Some(testing::f_teid(0x1001))));
    assert!(pdi.optional.framed_routes.is_empty());
}

#[test]
fn an_endpoint_takes_its_pdrs_along() {
    let mut rules = session();
    let before = rules.clone();
    rules.create_endpoint(endpoint()).unwrap();
    rules.create_pdr(of_endpoint(7)).unwrap();
    rules.create_pdr(of_endpoint(8)).unwrap();
    rules.remove_endpoint(ENDPOINT).unwrap();
    assert_eq!(rules, before);
    assert_eq!(rules.remove_endpoint(ENDPOINT), unknown(ENDPOINT));
}

#[test]
fn a_plain_urr_has_no_terms_and_is_plain_again_when_they_go() {
    let mut rules = session();
    let urr = |rules: &SessionRules| rules.urr(UrrId(1)).unwrap().clone();
    let before = urr(&rules);
    let terms = UrrTermsUpdate {
        quota_holding_time: Edit::Set(30),
        monitoring_time: Edit::Set(UnixSeconds(1_700_000_000)),
        subsequent: SubsequentUpdate {
            volume_threshold: Edit::Set(Volume {
                total: Some(9),
                ..Volume::default()
            }),
            ..SubsequentUpdate::default()
        },
        linked: Some(vec![UrrId(1)]),
        ..UrrTermsUpdate::default()
    };
    let with = |terms| UrrUpdate {
        terms: Some(Box::new(terms)),
        ..UrrUpdate::new(UrrId(1))
    };
    rules.update_urr(with(terms)).unwrap();
    assert_eq!(urr(&rules).terms().quota_holding_time, Some(30));
    assert_eq!(urr(&rules).terms().monitoring_times().count(), 1);
    // The subsequent threshold goes with the time from which on it was to hold.
    let gone = UrrTermsUpdate {
        quota_holding_time: Edit::Clear,
        monitoring_time: Edit::Clear,
        linked: Some(Vec::new()),
        ..UrrTermsUpdate::default()
    };
    rules.update_urr(with(gone)).unwrap();
    assert_eq!(urr(&rules), before);
    assert!(urr(&rules).terms.is_none());
}

#[test]
fn a_urr_has_bounds_only_of_what_it_measures() {
    let mut rules = session();
    let volume = Bound {
        of: MeasurementMethod::VOLUM,
        is_quota: true,
        is_subsequent: false,
    };
    let fault = |rule, bound| {
        Err(EditError {
            rule,
            fault: EditFault::Unmeasured(bound),
        })
    };
    let quota = Some(Box::new(Volume {
        total: Some(9),
        ..Volume::default()
    }));
    let timed = Urr {
        method: MeasurementMethod::DURAT,
        volume_quota: quota.clone(),
        ..Urr::volume(UrrId(2))
    };
    assert_eq!(rules.create_urr(timed), fault(UrrId(2).into(), volume));
    let update = UrrUpdate {
        method: Some(MeasurementMethod::DURAT),
        volume_quota: quota.clone().into(),
        ..UrrUpdate::new(UrrId(1))
    };
    assert_eq!(rules.update_urr(update), fault(UrrId(1).into(), volume));
    let time = UrrUpdate {
        time_threshold: Edit::Set(5),
        ..UrrUpdate::new(UrrId(1))
    };
    let bound = Bound {
        of: MeasurementMethod::DURAT,
        is_quota: false,
        is_subsequent: false,
    };
    assert_eq!(rules.update_urr(time), fault(UrrId(1).into(), bound));
    // What was there when the method went goes with it.
    let given = UrrUpdate {
        volume_quota: quota.into(),
        ..UrrUpdate::new(UrrId(1))
    };
    rules.update_urr(given).unwrap();
    let changed = UrrUpdate {
        method: Some(MeasurementMethod::DURAT),
        ..UrrUpdate::new(UrrId(1))
    };
    rules.update_urr(changed).unwrap();
    assert_eq!(rules.urr(UrrId(1)).unwrap().volume_quota, None);
}

#[test]
fn what_a_urr_names_goes_when_it_is_removed() {
    let mut rules = session();
    rules
        .create_far(Far {
            id: FarId(9),
            action: ApplyAction::DROP,
            forwarding: None,
            optional: Default::default(),
            bar: None,
        })
        .unwrap();
    rules.create_urr(Urr::volume(UrrId(2))).unwrap();
    let terms = UrrTerms {
        linked: vec![UrrId(1), UrrId(2)],
        quota_action: Some(FarId(9)),
        ..UrrTerms::NONE
    };
    let linked = Urr {
        terms: Some(Box::new(terms)),
        ..Urr::volume(UrrId(3))
    };
    rules.create_urr(linked).unwrap();
    rules.remove_urr(UrrId(2)).unwrap();
    rules.remove_far(FarId(9)).unwrap();
    let terms = rules.urr(UrrId(3)).unwrap().terms();
    assert_eq!((&terms.linked[..], terms.quota_action), (&[UrrId(1)][..], None));
}

/// TS 29.244 §5.30, §8.2.68.
#[test]
fn a_rule_for_pause_of_charging_is_stopped_by_control_of_inactive_measurement_alone() {
    let of = |flags: u8| MeasurementInformation(flags);
    let (inactive, pausable, control) = (2, 0x40, 0x80);
    for (before, sent, holds) in [
        (None, inactive, inactive),
        (None, inactive | control, inactive),
        (None, pausable | inactive, pausable),
        (None, pausable | control, pausable),
        (None, pausable | control | inactive, pausable | inactive),
        (Some(pausable), pausable | inactive, pausable),
        (Some(pausable | inactive), pausable, pausable | inactive),
        (
            Some(pausable | inactive),
            pausable | 0x11,
            pausable | inactive | 0x11,
        ),
        (Some(pausable | inactive), pausable | control, pausable),
        (Some(pausable), pausable | control | inactive, pausable | inactive),
        // One that becomes one is as it was.
        (Some(inactive), pausable, pausable | inactive),
        // One that is none any more obeys at once, and CIAM says nothing there (NOTE 5).
        (Some(pausable | inactive), 0, 0),
        (Some(pausable), inactive | control, inactive),
    ] {
        assert_eq!(
            of(sent).sent_to(before.map(of)),
            of(holds),
            "{before:?} {sent:#x}"
        );
    }
}

#[test]
fn charging_stops_and_resumes_for_all_rules_that_it_is_for() {
    let mut rules = session();
    for (id, flags) in [(5, 0x40), (6, 0x42), (7, 2), (8, 0)] {
        let information = MeasurementInformation(flags);
        let urr = Urr::volume(UrrId(id));
        rules.create_urr(Urr { information, ..urr }).unwrap();
    }
    let paused = |rules: &SessionRules| [5, 6, 7, 8].map(|id| rules.urr(UrrId(id)).unwrap().is_paused());
    assert!(rules.heeds_pause() && rules.is_charging());
    rules.pause_charging(true);
    assert_eq!(paused(&rules), [true, true, true, false]);
    assert!(rules.heeds_pause() && !rules.is_charging());
    rules.pause_charging(false);
    assert_eq!(paused(&rules), [false, false, true, false]);
    assert!(!session().heeds_pause());
}
