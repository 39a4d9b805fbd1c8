//! What compiles, what does not and why, and that forwards say what the interpreter does.

use std::net::Ipv4Addr;

use flow::{Forward, ForwardFlags, ForwardKind, OuterAddresses};
use nat::pools::NatPoolId;
use packet::{DropReason, Qfi, Teid};
use proptest::prelude::*;

use super::*;
use crate::adjacencies::AdjacencyRef;
use crate::image::SourceCheck;
use crate::model::{
    Aggregated, ApplyAction, Bar, BarId, ChosenNat, DestinationInterface, Edit, FTeid, Far, FarId, FarUpdate,
    ForwardingParameters, ForwardingParametersUpdate, Multiplier, NatChoice, OptionalRates, OuterHeader,
    OuterHeaderCreation, OuterHeaderKind, OuterHeaderRemoval, Pdi, PdiUpdate, PdrId, PdrUpdate, PoolFault,
    Qer, QerUpdate, SourceInterface, TosTrafficClass, Urr, UrrId, UrrTerms,
};
use crate::network::LocalId;
use crate::reference_interpreter::{Outcome, Verdict, interpret};
use crate::testing::{
    self, GNB, N3, N6, N9, NumberedHops, OTHER_N6, any_edit, any_rules, any_sent, runnable_rules,
};

mod egress_queues;
mod endpoints;
mod hops;
mod refusals;

fn session() -> SessionRules {
    testing::pdu_session(0x1001, OuterHeaderCreation::gtpu_ipv4(Teid(0x2001), GNB))
}

fn compiled(rules: &SessionRules) -> Result<SessionImage, CompileError> {
    compile(&Arc::new(rules.clone()), &testing::network(), &NumberedHops)
}

fn image(rules: &SessionRules) -> SessionImage {
    compiled(rules).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(rules: &SessionRules) -> (RuleRef, CompileFault) {
    let error = compiled(rules).expect_err("rules that cannot be run");
    (error.rule, error.reason)
}

/// A FAR in place of the one that the downlink uses.
fn with_far(action: ApplyAction, forwarding: Option<ForwardingParameters>) -> SessionRules {
    let mut rules = session();
    rules.remove_far(FarId(2)).unwrap();
    rules
        .create_far(Far {
            id: FarId(2),
            action,
            forwarding,
            optional: Default::default(),
            bar: None,
        })
        .unwrap();
    rules
}

fn forwarding(destination: DestinationInterface, header: Option<OuterHeaderCreation>) -> SessionRules {
    let parameters = ForwardingParameters {
        outer_header_creation: header,
        ..ForwardingParameters::new(destination)
    };
    with_far(ApplyAction::FORW, Some(parameters))
}

/// What the PDRs lead to, by slot.
fn decisions(image: &SessionImage) -> Vec<Decision> {
    let mut decisions: Vec<_> = image.classifier.decisions().collect();
    decisions.sort_by_key(|decision| decision.pdr);
    decisions
}

fn far_2(rules: &SessionRules) -> Forward {
    image(rules).block.forwards[1]
}

#[test]
fn a_pdu_session_compiles_to_slots_and_addresses() {
    let image = image(&session());
    let [ul, dl] = decisions(&image)[..] else {
        panic!("two PDRs")
    };
    assert_eq!((ul.forward, ul.qers, ul.urrs, ul.marking), (0, 1, 1, 0));
    assert_eq!(
        (ul.direction, ul.removes_outer, ul.source_check),
        (Direction::Uplink, true, SourceCheck::Ue)
    );
    assert_eq!(
        (dl.direction, dl.removes_outer, dl.source_check),
        (Direction::Downlink, false, SourceCheck::Anyone)
    );
    assert_eq!(image.block.inline, [0, 1]);
    assert_eq!(image.block.marks, [Mark::qfi_only(9)]);
    assert_eq!(image.urr_ids[..], [UrrId(1)]);
    assert_eq!(image.tunnels[..], [(LocalId(0), Teid(0x1001))]);
    let ue = [
        IpPrefix::host(testing::UE.into()),
        "2001:db8:45:2::/64".parse().unwrap(),
    ];
    assert_eq!(image.ue_addresses[..], ue.map(|prefix| (VrfId(0), prefix)));
    let plain = image.block.forwards[0];
    assert_eq!((plain.kind, plain.egress), (ForwardKind::Plain, N6));
    let tunnel = image.block.forwards[1];
    assert_eq!(
        (tunnel.kind, tunnel.egress, tunnel.adjacency),
        (ForwardKind::Tunnel, N3, AdjacencyId(7))
    );
    let template = flow::Template::ipv4(0x2001, [10, 0, 3, 1], GNB.octets());
    assert_eq!(tunnel.template, Some(template));
    assert_eq!(
        tunnel.flags,
        ForwardFlags::NEEDS_MARKING | ForwardFlags::KEEP_EXTENSIONS
    );
}

#[test]
fn a_peer_behind_a_router_is_reached_by_it() {
    let far_away = OuterHeaderCreation::gtpu_ipv4(Teid(1), Ipv4Addr::new(10, 200, 7, 7));
    assert_eq!(
        far_2(&forwarding(DestinationInterface::Access, Some(far_away))).adjacency,
        AdjacencyId(254)
    );
    let mut network = testing::network().instances().to_vec();
    network[1].routes.clear();
    let network = Network::new(network).unwrap();
    let lost = OuterHeaderCreation::gtpu_ipv4(Teid(1), Ipv4Addr::new(203, 0, 113, 1));
    let rules = forwarding(DestinationInterface::Access, Some(lost));
    let error = compile(&Arc::new(rules), &network, &NumberedHops).unwrap_err();
    assert_eq!(
        error.reason,
        CompileFault::NoRoute(Ipv4Addr::new(203, 0, 113, 1).into())
    );
    assert_eq!(
        error.to_string(),
        "FAR 2 has the peer 203.0.113.1, to which no route leads"
    );
}

#[test]
fn what_cannot_be_forwarded_yet_is_dropped_and_says_so() {
    use DestinationInterface::{Access, Core, CpFunction};
    let placeholder = |teid, peer| Some(OuterHeaderCreation::gtpu_ipv4(Teid(teid), peer));
    for rules in [
        forwarding(Access, None),
        forwarding(CpFunction, None),
        forwarding(Access, placeholder(0, GNB)),
        forwarding(Access, placeholder(5, Ipv4Addr::UNSPECIFIED)),
        with_far(ApplyAction::FORW, None),
    ] {
        let forward = far_2(&rules);
        assert_eq!(
            (forward.kind, forward.flags),
            (ForwardKind::Drop, ForwardFlags::NO_TUNNEL)
        );
    }
    let accept = far_2(&with_far(ApplyAction::IPMA, None));
    assert_eq!(
        (accept.kind, accept.flags),
        (ForwardKind::Drop, ForwardFlags::UNSUPPORTED)
    );
    let to_li = far_2(&forwarding(DestinationInterface::Other(4), None));
    assert_eq!(
        (to_li.kind, to_li.flags),
        (ForwardKind::Drop, ForwardFlags::UNSUPPORTED)
    );
    assert_eq!(far_2(&with_far(ApplyAction::DROP, None)), Forward::DROP);
    let buffer = far_2(&with_far(ApplyAction::BUFF.with(ApplyAction::NOCP), None));
    assert_eq!(
        (buffer.kind, buffer.flags),
        (ForwardKind::Buffer, ForwardFlags::NOTIFY)
    );
    assert_eq!(far_2(&forwarding(Core, None)).kind, ForwardKind::Plain);
}

#[test]
fn the_way_out_is_the_named_instance_if_it_fits() {
    let to = |destination, instance, header| {
        let mut parameters = ForwardingParameters::new(destination);
        parameters.instance = Some(instance);
        parameters.outer_header_creation = header;
        far_2(&with_far(ApplyAction::FORW, Some(parameters)))
    };
    let peer = Some(OuterHeaderCreation::gtpu_ipv4(
        Teid(7),
        Ipv4Addr::new(10, 209, 1, 1),
    ));
    let source = |forward: Forward| match forward.template.map(|template| template.addresses) {
        Some(OuterAddresses::V4 { source, .. }) => Ipv4Addr::from(source),
        other => panic!("{other:?}"),
    };
    assert_eq!(to(DestinationInterface::Core, OTHER_N6, None).egress, OTHER_N6);
    // N3 leads to no data network, so this names the wrong one.
    assert_eq!(to(DestinationInterface::Core, N3, None).egress, N6);
    assert_eq!(
        source(to(DestinationInterface::Access, N9, peer)),
        testing::N9_ADDRESS
    );
    // A DNN in a rule towards Access: the session's own tunnel says the address.
    assert_eq!(
        source(to(DestinationInterface::Access, N6, peer)),
        testing::N3_ADDRESS
    );
    let uplink = to(DestinationInterface::Core, N6, peer);
    assert_eq!((source(uplink), uplink.egress), (testing::N9_ADDRESS, N9));
    assert!(uplink.flags.contains(ForwardFlags::UPLINK_CONTAINER));
}

#[test]
fn the_way_out_is_shown_as_it_is_and_not_as_it_is_named() {
    let way = |far: u32, rules: &SessionRules| {
        egress_of(rules.far(FarId(far)).unwrap(), rules, &testing::network())
    };
    let to = |peer, instance| {
        let mut parameters = ForwardingParameters::new(DestinationInterface::Access);
        parameters.instance = instance;
        parameters.outer_header_creation = Some(OuterHeaderCreation::gtpu_ipv4(Teid(7), peer));
        with_far(ApplyAction::FORW, Some(parameters))
    };
    // A DNN in a rule towards Access, as Open5GS writes it.
    assert_eq!(way(2, &to(GNB, Some(N6))), Some((N3, Some(GNB.into()))));
    assert_eq!(way(2, &to(GNB, None)), Some((N3, Some(GNB.into()))));
    let far_away = Ipv4Addr::new(10, 200, 7, 7);
    let router = Ipv4Addr::new(10, 0, 3, 254);
    assert_eq!(way(2, &to(far_away, Some(N6))), Some((N3, Some(router.into()))));
    assert_eq!(way(1, &session()), Some((N6, None)), "by destination");
    for rules in [
        with_far(ApplyAction::DROP, None),
        with_far(ApplyAction::BUFF, None),
        forwarding(DestinationInterface::Access, None),
    ] {
        assert_eq!(way(2, &rules), None);
    }
}

#[test]
fn only_tunnels_to_the_cp_function_are_marked_so() {
    let header = || Some(OuterHeaderCreation::gtpu_ipv4(Teid(7), GNB));
    for (destination, is_marked) in [
        (DestinationInterface::Access, false),
        (DestinationInterface::Core, false),
        (DestinationInterface::CpFunction, true),
    ] {
        let forward = far_2(&forwarding(destination, header()));
        assert_eq!(forward.kind, ForwardKind::Tunnel);
        assert_eq!(forward.flags.contains(ForwardFlags::TO_CP_FUNCTION), is_marked);
    }
}

#[test]
fn both_families_are_offered_and_ipv4_is_taken() {
    let kind = OuterHeaderKind::GTPU_IPV4.with(OuterHeaderKind::GTPU_IPV6);
    let v6 = "2001:db8:200::1".parse().ok();
    let both = OuterHeaderCreation {
        kind,
        ipv6: v6,
        ..OuterHeaderCreation::gtpu_ipv4(Teid(7), GNB)
    };
    let addresses = |header| {
        far_2(&forwarding(DestinationInterface::Access, Some(header)))
            .template
            .unwrap()
            .addresses
    };
    assert!(matches!(addresses(both), OuterAddresses::V4 { .. }));
    let v6_only = OuterHeaderCreation {
        kind: OuterHeaderKind::GTPU_IPV6,
        ipv4: None,
        ..both
    };
    assert!(matches!(addresses(v6_only), OuterAddresses::V6 { .. }));
}

#[test]
fn transport_level_marking_is_masked() {
    let mut parameters = ForwardingParameters::new(DestinationInterface::Access);
    parameters.outer_header_creation = Some(OuterHeaderCreation::gtpu_ipv4(Teid(7), GNB));
    parameters.transport_level_marking = Some(TosTrafficClass {
        value: 0xbb,
        mask: 0xfc,
    });
    let forward = far_2(&with_far(ApplyAction::FORW, Some(parameters)));
    assert_eq!(forward.template.map(|template| template.tos), Some(0xb8));
}

#[test]
fn a_handover_a_gate_and_idleness_keep_all_flows() {
    let mut rules = session();
    let before = image(&rules);
    let header = OuterHeaderCreation::gtpu_ipv4(Teid(0x3001), Ipv4Addr::new(10, 200, 0, 9));
    let to = ForwardingParametersUpdate {
        outer_header_creation: Edit::Set(header),
        ..Default::default()
    };
    rules
        .update_far(FarUpdate {
            forwarding: Edit::Set(to),
            ..FarUpdate::new(FarId(2))
        })
        .unwrap();
    assert!(image(&rules).is_classified_like(&before.rules, &before.classifier));
    let idle = ApplyAction::BUFF.with(ApplyAction::NOCP);
    rules
        .update_far(FarUpdate {
            action: Some(idle),
            ..FarUpdate::new(FarId(2))
        })
        .unwrap();
    assert!(image(&rules).is_classified_like(&before.rules, &before.classifier));
    let gates = Some((Gate::Closed, Gate::Closed));
    rules
        .update_qer(QerUpdate {
            gates,
            ..QerUpdate::new(QerId(1))
        })
        .unwrap();
    let closed = image(&rules);
    assert!(closed.is_classified_like(&before.rules, &before.classifier));
    assert_eq!((closed.block.closed_ul, closed.block.closed_dl), (1, 1));
    // A second QoS flow is another classification, and so is a QER that starts to mark.
    rules
        .update_qer(QerUpdate {
            qfi: Edit::Clear,
            ..QerUpdate::new(QerId(1))
        })
        .unwrap();
    assert!(!image(&rules).is_classified_like(&before.rules, &before.classifier));
    rules
        .update_qer(QerUpdate {
            qfi: Edit::Set(Qfi::from_low_bits(9)),
            ..QerUpdate::new(QerId(1))
        })
        .unwrap();
    assert!(image(&rules).is_classified_like(&before.rules, &before.classifier));
    rules
        .create_pdr(testing::pdr(9, 1, Pdi::new(SourceInterface::Core), 1))
        .unwrap();
    assert!(!image(&rules).is_classified_like(&before.rules, &before.classifier));
}

/// Flows say whether their session has public addresses.
#[test]
fn another_pool_of_public_addresses_is_another_classification() {
    let mut rules = session();
    let before = image(&rules);
    let mut choose = |choice| {
        rules.set_chosen_nat(choice);
        let image = image(&rules);
        assert_eq!(image.classifier.has_nat(), rules.nat().is_some());
        let previous = Previous {
            rules: &before.rules,
            classifier: &before.classifier,
        };
        let after = compile_after(previous, &image.rules, &testing::network(), &NumberedHops);
        assert_eq!(
            after.as_ref().map(|after| &after.classifier),
            Ok(&image.classifier)
        );
        image.is_classified_like(&before.rules, &before.classifier)
    };
    let by_far = |choice| ChosenNat {
        far: FarId(1),
        policy: None,
        choice,
    };
    assert!(!choose(Some(by_far(NatChoice::Pool(NatPoolId(0))))));
    // Whatever says that there is none.
    assert!(choose(Some(by_far(NatChoice::Untranslated))));
    assert!(choose(None));
}

#[test]
fn a_rule_that_goes_from_the_middle_moves_slots() {
    let mut rules = session();
    rules.create_qer(Qer::new(QerId(2))).unwrap();
    rules.create_urr(Urr::volume(UrrId(2))).unwrap();
    let before = image(&rules);
    let mut fewer = rules.clone();
    fewer.remove_urr(UrrId(2)).unwrap();
    assert!(
        image(&fewer).is_classified_like(&before.rules, &before.classifier),
        "the last slot was not in use"
    );
    rules.remove_urr(UrrId(1)).unwrap();
    assert!(!image(&rules).is_classified_like(&before.rules, &before.classifier));
}

#[test]
fn plain_addresses_are_valid_where_their_pdr_says() {
    let mut rules = session();
    let mut update = PdrUpdate::new(PdrId(2));
    update.pdi = Some(PdiUpdate {
        instance: Edit::Set(OTHER_N6),
        ..PdiUpdate::default()
    });
    rules.update_pdr(update.clone()).unwrap();
    assert!(image(&rules).ue_addresses.iter().all(|(vrf, _)| *vrf == VrfId(1)));
    update.pdi = Some(PdiUpdate {
        instance: Edit::Set(N3),
        ..PdiUpdate::default()
    });
    rules.update_pdr(update).unwrap();
    assert!(image(&rules).ue_addresses.iter().all(|(vrf, _)| *vrf == VrfId(0)));
}

/// What a forward makes of a packet, if nothing else stops it.
fn expected(forward: &Forward) -> Option<DropReason> {
    match forward.kind {
        ForwardKind::Drop if forward.flags.contains(ForwardFlags::NO_TUNNEL) => Some(DropReason::FarNoTunnel),
        ForwardKind::Drop if forward.flags.contains(ForwardFlags::UNSUPPORTED) => {
            Some(DropReason::UnsupportedAction)
        }
        ForwardKind::Drop => Some(DropReason::FarDrop),
        ForwardKind::Buffer => Some(DropReason::FarBuffer),
        _ => None,
    }
}

/// The outer header of a packet that left in a tunnel is the template's.
fn is_of_template(forward: &Forward, bytes: &[u8]) -> bool {
    let Some(template) = forward.template else {
        return false;
    };
    match template.addresses {
        OuterAddresses::V4 { source, destination } => {
            bytes[12..16] == source
                && bytes[16..20] == destination
                && bytes[32..36] == template.teid.to_be_bytes()
                && bytes[1] == template.tos
        }
        OuterAddresses::V6 { source, destination } => {
            bytes[8..24] == source
                && bytes[24..40] == destination
                && bytes[52..56] == template.teid.to_be_bytes()
                && bytes[0] << 4 | bytes[1] >> 4 == template.tos
        }
    }
}

fn check_against(image: &SessionImage, verdict: &Verdict) -> Result<(), TestCaseError> {
    let Some(slot) = image
        .rules
        .pdrs()
        .iter()
        .position(|pdr| Some(pdr.id) == verdict.pdr)
    else {
        return Ok(());
    };
    let decision = decisions(image)[slot];
    let forward = image.block.forwards[usize::from(decision.forward)];
    let closed = match decision.direction {
        Direction::Uplink => image.block.closed_ul,
        Direction::Downlink => image.block.closed_dl,
    };
    match &verdict.outcome {
        Outcome::Dropped(DropReason::SpoofedSource) => {
            prop_assert_ne!(decision.source_check, SourceCheck::Anyone)
        }
        Outcome::Dropped(DropReason::MartianDestination) => {
            let is_from_tunnel = image.rules.pdrs()[slot].pdi.f_teid.is_some();
            let leads_out = matches!(forward.kind, ForwardKind::Plain | ForwardKind::Unchanged);
            prop_assert!(leads_out || !is_from_tunnel)
        }
        // What goes from tunnel to tunnel is looked at before its way is.
        Outcome::Dropped(DropReason::BadGtpuIe) => {}
        Outcome::Dropped(DropReason::PauseOfChargingHeeded) => {
            prop_assert!(image.rules.heeds_pause() && forward.kind != ForwardKind::Tunnel)
        }
        Outcome::Dropped(DropReason::NotRedirected) => {
            prop_assert!(image.redirect(decision.forward).is_some())
        }
        Outcome::Dropped(DropReason::GateClosed) => prop_assert_ne!(closed & decision.qers, 0),
        Outcome::Dropped(reason) if expected(&forward).is_some() => {
            prop_assert_eq!(Some(*reason), expected(&forward))
        }
        Outcome::Dropped(reason) => prop_assert!(
            matches!(
                reason,
                DropReason::TtlExpired
                    | DropReason::UnknownGtpuExtension
                    | DropReason::NoRoute
                    | DropReason::UnsupportedGtpuMessage
            ),
            "{reason}"
        ),
        Outcome::Consumed => prop_assert!(false, "no QER asks for reports"),
        Outcome::Forwarded {
            bytes,
            egress,
            next_hop,
            mirror,
        } => {
            prop_assert_eq!(*mirror, None);
            prop_assert_eq!(expected(&forward), None);
            if forward.kind == ForwardKind::Tunnel {
                prop_assert!(is_of_template(&forward, bytes));
                prop_assert_eq!(forward.egress, *egress);
                prop_assert_eq!(NumberedHops.resolve(*egress, *next_hop), Some(forward.adjacency));
            } else {
                prop_assert_eq!(forward.adjacency, AdjacencyId::BY_DESTINATION);
            }
        }
        Outcome::Recirculated { bytes, ingress, .. } => {
            prop_assert_eq!(forward.egress, *ingress);
            let is_answer = forward.kind == ForwardKind::Redirect;
            prop_assert!(is_answer || forward.kind == ForwardKind::Tunnel && is_of_template(&forward, bytes));
        }
    }
    check_counted(image, &decision, closed, verdict)
}

/// What a packet counts in is what the decision has.
fn check_counted(
    image: &SessionImage,
    decision: &Decision,
    closed: u64,
    verdict: &Verdict,
) -> Result<(), TestCaseError> {
    if !verdict.counted.is_empty() {
        prop_assert_eq!(closed & decision.qers, 0);
        let counted = (0..)
            .zip(&image.urr_ids)
            .filter(|(slot, _)| decision.urrs >> slot & 1 != 0)
            .map(|(_, id)| *id);
        prop_assert_eq!(
            counted.collect::<Vec<_>>(),
            verdict.counted.iter().map(|one| one.urr).collect::<Vec<_>>()
        );
        prop_assert!(
            verdict
                .counted
                .iter()
                .all(|one| one.direction == decision.direction)
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn any_rules_compile_or_name_a_rule(rules in any_rules(), sent in any_sent()) {
        if let Err(error) = compiled(&rules) {
            prop_assert!(!error.to_string().is_empty());
        }
        // Nor does the interpreter fall over rules that do not compile.
        let _ = interpret(&rules, &testing::network(), sent.ingress, &sent.bytes);
    }

    /// An edit of a FAR hardly ever makes PDRs lead elsewhere: their classifier is the one there was.
    #[test]
    fn edits_of_fars_take_the_classifier_over(older in runnable_rules(), destination in 0u8..4) {
        let Ok(before) = compiled(&older) else { return Ok(()) };
        let is_own = older.pdrs().iter().all(|pdr| pdr.rulebases.is_empty());
        let mut rules = older.clone();
        let far = older.fars().first().map_or(FarId(0), |far| far.id);
        let to = ForwardingParametersUpdate {
            destination: Some(DestinationInterface::from_value(destination)),
            ..ForwardingParametersUpdate::default()
        };
        let _ = rules.update_far(FarUpdate { forwarding: Edit::Set(to), ..FarUpdate::new(far) });
        let (network, known) = (testing::network(), &before.classifier);
        let earlier = Previous { rules: &older, classifier: known };
        let goes_alike = have_same_directions(&rules, &older);
        if let Ok(after) = compile_after(earlier, &Arc::new(rules), &network, &NumberedHops) {
            let leads_alike = known.decisions().eq(after.classifier.decisions());
            prop_assert_eq!(after.classifier.is_same(known), leads_alike && goes_alike && is_own);
        }
    }

    /// What is taken over of what was compiled before makes no difference.
    #[test]
    fn rules_compile_alike_whatever_was_compiled_before(
        older in runnable_rules(),
        edits in prop::collection::vec(any_edit(), 0..3),
    ) {
        let mut rules = older.clone();
        for edit in edits {
            let _ = edit.apply(&mut rules);
        }
        let (Ok(before), network) = (compiled(&older), testing::network()) else { return Ok(()) };
        let before = Previous { rules: &older, classifier: &before.classifier };
        let after = compile_after(before, &Arc::new(rules.clone()), &network, &NumberedHops);
        prop_assert_eq!(after, compiled(&rules));
    }

    #[test]
    fn slots_lead_where_the_interpreter_goes(
        rules in runnable_rules(),
        packets in prop::collection::vec(any_sent(), 1..12),
    ) {
        let Ok(image) = compiled(&rules) else { return Ok(()) };
        let network = testing::network();
        for sent in packets {
            check_against(&image, &interpret(&rules, &network, sent.ingress, &sent.bytes))?;
        }
    }

    #[test]
    fn images_that_are_classified_alike_decide_alike(
        rules in runnable_rules(),
        edits in prop::collection::vec(any_edit(), 1..4),
        packets in prop::collection::vec(any_sent(), 1..12),
    ) {
        let mut after = rules.clone();
        for edit in edits {
            // An edit of a rule that an earlier one removed changes nothing.
            let _ = edit.apply(&mut after);
        }
        let (Ok(old), Ok(new)) = (compiled(&rules), compiled(&after)) else { return Ok(()) };
        prop_assert!(old.is_classified_like(&old.rules, &old.classifier));
        if new.is_classified_like(&old.rules, &old.classifier) {
            let network = testing::network();
            for sent in packets {
                let [before, now] = [&rules, &after].map(|rules| interpret(rules, &network, sent.ingress, &sent.bytes));
                prop_assert_eq!(before.pdr, now.pdr);
                check_against(&new, &now)?;
            }
        }
    }
}

#[test]
fn a_qer_gets_the_meters_of_its_rates() {
    let rates = |ul, dl| {
        Some(BitRates {
            ul: BitsPerSecond::from_kbit(ul),
            dl: BitsPerSecond::from_kbit(dl),
        })
    };
    let single = |kbit| MeterSpec::mbr(Rate::from_kbit(kbit));
    let of = |mbr, gbr| {
        let optional = OptionalRates {
            gbr,
            ..OptionalRates::default()
        };
        meters(&Qer {
            mbr,
            optional: optional.into(),
            ..Qer::new(QerId(1))
        })
    };
    assert_eq!(of(None, None), [None; 2]);
    assert_eq!(of(None, rates(5, 5)), [None; 2]);
    assert_eq!(of(rates(0, 7), None), [single(0), single(7)]);
    let [ul, dl] = of(rates(10, 7), rates(3, 7));
    assert_eq!(dl, single(7));
    assert!(
        matches!(ul, Some(MeterSpec::TrTcm { cir, pir, .. }) if [cir, pir] == [3, 10].map(Rate::from_kbit))
    );
}

#[test]
fn a_rate_that_nothing_reaches_needs_no_meter_and_no_more_is_guaranteed_than_may_pass() {
    let rates = |ul, dl| {
        Some(BitRates {
            ul: BitsPerSecond::from_kbit(ul),
            dl: BitsPerSecond::from_kbit(dl),
        })
    };
    let of = |mbr, gbr| Qer {
        mbr,
        optional: OptionalRates {
            gbr,
            ..OptionalRates::default()
        }
        .into(),
        ..Qer::new(QerId(1))
    };
    let most = Rate::REACHABLE.kbit();
    let [ul, dl] = meters(&of(rates(most, most + 1), rates(0, 5)));
    assert_eq!((ul, dl), (MeterSpec::mbr(Rate::REACHABLE), None));
    for (mbr, is_beyond) in [(rates(most, 0), false), (rates(0, most + 1), true), (None, false)] {
        assert_eq!(of(mbr, None).is_beyond_reach(), is_beyond);
    }
    for (mbr, gbr, too_much) in [
        (rates(5, 5), rates(5, 5), false),
        (rates(5, 5), rates(6, 0), true),
        (rates(0, 5), rates(0, 6), true),
        (rates(0, 0), rates(0, 0), false),
        (None, rates(9, 9), false),
        (rates(5, 5), None, false),
    ] {
        assert_eq!(of(mbr, gbr).guarantees_too_much(), too_much, "{mbr:?} {gbr:?}");
    }
}
