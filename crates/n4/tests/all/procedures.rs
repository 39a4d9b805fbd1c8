//! The session procedures of TS 29.244 §6.3 against a scripted control plane function, on simulated time.

use crate::support;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use flow::UrrCount;
use n4::{Config, NodeName, UnknownInstance};
use packet::Teid;
use pfcp::ie::{Cause, FTeid, FailedRuleId, NodeId, ReportType};
use pfcp::message::Message;
use pfcp::{IeType, ie};
use rules::model::UrrId;

use support::wire::*;
use support::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_response_leaves_the_address_that_the_request_reached_for_the_port_that_it_came_from() {
    let mut world = World::new();
    let from: SocketAddr = "[2001:db8::2]:40000".parse().unwrap();
    let to: SocketAddr = "[2001:db8::1]:8805".parse().unwrap();
    let setup = message(5, None, 1, &[node_name(&labels("smf.example")), recovery(100)]);
    world.n4.handle_datagram(world.now, from, to, &setup);
    let replies = world.run();
    assert_eq!((replies[0].0.from, replies[0].0.to), (to, from));
}

#[test]
fn a_session_is_established_modified_and_deleted() {
    let mut world = World::associated();
    let reply = world.ask(50, Some(0), &plain_session(0x77, UE));
    let seid = reply.up_seid();
    assert_eq!(
        reply.header().seid,
        Some(pfcp::Seid(0x77)),
        "the header has the peer's SEID"
    );
    let [(1, teid, Some(N3))] = reply.created()[..] else {
        panic!("{:?}", reply.created())
    };
    assert_ne!(teid, 0);
    let Message::SessionEstablishmentResponse(response) = reply.message() else {
        panic!()
    };
    assert_eq!(response.node_id, NodeId::Ipv4(UPF_ADDRESS));
    assert_eq!(response.up_f_seid.unwrap().ipv4, Some(UPF_ADDRESS));

    let moved = update_far(&[far_id(2), update_forwarding(&[outer_header_creation(0x222, GNB)])]);
    let reply = world.ask(52, Some(seid), &[moved]);
    reply.assert_accepted();
    assert_eq!(reply.header().seid, Some(pfcp::Seid(0x77)));
    assert!(
        world
            .n4
            .sessions()
            .session_by_remote(GNB.into(), Teid(0x222))
            .is_some()
    );

    let index = world.only_session().index();
    world.fleet.count(
        index,
        UrrId(1),
        UrrCount {
            ul_packets: 2,
            ul_octets: 200,
            dl_packets: 1,
            dl_octets: 50,
            events: 0,
        },
    );
    let reply = world.ask(54, Some(seid), &[]);
    reply.assert_accepted();
    assert_eq!(reply.usage(), [(1, 0, Some(250))]);
    let Message::SessionDeletionResponse(response) = reply.message() else {
        panic!()
    };
    let report = response.usage_report.first().unwrap();
    assert_eq!(report.usage_report_trigger, ie::UsageReportTrigger::TERMR);
    let volume = report.volume_measurement.unwrap();
    assert_eq!((volume.uplink, volume.downlink), (Some(200), Some(50)));
    assert_eq!(report.start_time.unwrap().unix(), UPF_START + 1);
    world.assert_clean();
}

#[test]
fn the_response_waits_for_the_workers() {
    let mut world = World::associated();
    let request = message(50, Some(0), 9, &plain_session(1, UE));
    world.n4.handle_datagram(world.now, smf(), upf(), &request);
    assert!(world.transmits().is_empty());
    world.n4.handle_datagram(world.now, smf(), upf(), &request);
    assert_eq!(
        world.n4.counters().in_work,
        1,
        "a retransmission of a request in work is passed over"
    );
    assert_eq!(world.run().len(), 1);
    assert_eq!(world.sessions(), 1);
}

#[test]
fn a_retransmission_gets_the_same_octets_and_no_second_session() {
    let mut world = World::associated();
    let request = message(50, Some(0), 9, &plain_session(1, UE));
    let first = world.datagram(&request);
    let again = world.datagram(&request);
    assert_eq!(first, again);
    assert_eq!(world.sessions(), 1);
    let delete = message(54, Some(first.up_seid()), 10, &[]);
    let first = world.datagram(&delete);
    first.assert_accepted();
    assert_eq!(world.datagram(&delete), first, "not 'session context not found'");
    assert_eq!(world.n4.counters().replayed, 2);
}

#[test]
fn answers_are_forgotten_when_no_peer_can_retransmit_any_more() {
    let mut world = World::associated();
    let request = message(52, Some(0xdead), 9, &[]);
    assert_eq!(
        world.datagram(&request).cause(),
        Some(Cause::SESSION_CONTEXT_NOT_FOUND)
    );
    let delete = message(54, Some(world.establish(1, UE)), 77, &[]);
    world.datagram(&delete).assert_accepted();
    world.pass(SECOND * 39);
    world.datagram(&delete).assert_accepted();
    world.pass(SECOND * 2);
    assert_eq!(
        world.datagram(&delete).cause(),
        Some(Cause::SESSION_CONTEXT_NOT_FOUND)
    );
}

#[test]
fn a_peer_that_restarted_and_counts_anew_is_not_answered_from_the_past() {
    let mut world = World::new();
    let setup = |start| message(5, None, 1, &[node_v4(SMF_ADDRESS), recovery(start)]);
    world.datagram(&setup(100)).assert_accepted();
    world.establish(1, UE);
    world.datagram(&setup(200)).assert_accepted();
    assert_eq!(
        world.sessions(),
        0,
        "the same number, another content: a new set-up"
    );
    assert_eq!(world.n4.counters().replayed, 0);
}

#[test]
fn an_unknown_peer_gets_cause_72_for_everything_but_heartbeat_and_setup() {
    let mut world = World::new();
    let node = node_v4(SMF_ADDRESS);
    for (message_type, seid, ies) in [
        (3, None, vec![]),
        (7, None, vec![node.clone()]),
        (9, None, vec![node.clone()]),
        (14, None, vec![node.clone()]),
        (16, None, vec![node, group(290, &[ie(178, [2, 1, 2, 3, 4])])]),
        (50, Some(0), plain_session(1, UE)),
        (52, Some(1), vec![]),
        (54, Some(1), vec![]),
    ] {
        let reply = world.ask(message_type, seid, &ies);
        let cause = Cause::NO_ESTABLISHED_PFCP_ASSOCIATION;
        assert_eq!(reply.cause(), Some(cause), "message type {message_type}");
    }
    world.assert_clean();
}

#[test]
fn what_is_not_supported_gets_cause_76() {
    let mut world = World::associated();
    for (ies, offending) in [(ie(113, [5]), IeType::PDN_TYPE), (ie(113, [4]), IeType::PDN_TYPE)] {
        let mut session = plain_session(1, UE);
        session.push(ies);
        let verdict = world.ask(50, Some(0), &session).verdict();
        assert_eq!(verdict, because(Cause::SERVICE_NOT_SUPPORTED, Some(offending)));
    }
    world.assert_clean();
}

#[test]
fn redirection_is_to_urls_alone() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let far = |info: &[u8]| group(10, &[ie(108, 1u32.to_be_bytes()), group(11, &[ie(38, info)])]);
    let url = |world: &World| {
        let rules = world.only_session().rules();
        let far = rules.far(rules::model::FarId(1)).unwrap();
        far.optional.redirect.as_ref().map(|to| to.url().to_owned())
    };
    let reply = world.ask(52, Some(seid), &[far(b"\x02\x00\x0ehttp://a.test/\x00\x00")]);
    reply.assert_accepted();
    assert_eq!(url(&world).as_deref(), Some("http://a.test/"));
    let refused: [&[u8]; 5] = [
        b"\x00\x00\x09192.0.2.1\x00\x00",
        b"\x01\x00\x0b2001:db8::1\x00\x00",
        b"\x02\x00\x00\x00\x00",
        b"\x02\x00\x0dhttp://a b/\r\n\x00\x00",
        b"\x05\x00\x00\x00\x00\x1f\x90",
    ];
    for info in refused {
        let verdict = world.ask(52, Some(seid), &[far(info)]).verdict();
        let cause = Cause::RULE_CREATION_MODIFICATION_FAILURE;
        let expected = because(cause, Some(IeType::REDIRECT_INFORMATION));
        assert_eq!(verdict, expected, "{info:?}");
    }
    assert_eq!(url(&world).as_deref(), Some("http://a.test/"));
    world.ask(52, Some(seid), &[far(b"")]).assert_accepted();
    assert_eq!(url(&world), None);
    world.ask(54, Some(seid), &[]);
    world.assert_clean();
}

/// What the daemon sizes its cache by (`n4.response_cache_bytes`).
#[test]
fn a_kept_answer_to_an_establishment_of_four_pdrs_takes_no_more_than_512_octets() {
    let mut world = World::associated();
    let (before, _) = world.n4.response_cache();
    let mut session = plain_session(1, UE);
    for id in 3..=5 {
        session.push(uplink_pdr(id, UE, choose(V4 | V6, None)));
    }
    world.ask(50, Some(0), &session).assert_accepted();
    let kept = world.n4.response_cache().0 - before;
    assert!((200..=512).contains(&kept), "{kept} octets");
}

#[test]
fn the_checks_of_the_header_come_first() {
    let mut world = World::associated();
    let silent = |world: &mut World, datagram: &[u8]| {
        assert_eq!(world.send(smf(), datagram), [], "{datagram:02x?}");
    };
    silent(&mut world, &[]);
    silent(&mut world, &[0x20, 1, 0]);
    silent(&mut world, &message(99, None, 1, &[]));
    silent(&mut world, &message(56, Some(1), 1, &[ie(39, [1])]));
    silent(
        &mut world,
        &message(12, None, 1, &[node_v4(SMF_ADDRESS), ie(101, [1])]),
    );
    silent(&mut world, &message(54, None, 1, &[]));

    let mut version_2 = message(1, None, 0x123456, &[recovery(1)]);
    version_2[0] = 0x40;
    let reply = world.datagram(&version_2);
    assert_eq!(reply.header().message_type.0, 11);
    assert_eq!(reply.header().sequence.get(), 0x123456);
    assert_eq!(reply.0.bytes.len(), 8);
    let mut reflected = message(11, None, 1, &[]);
    silent(&mut world, &reflected);
    reflected[0] = 0x60;
    silent(&mut world, &reflected);

    let mut short = message(54, Some(5), 0x77, &[]);
    short[3] -= 4;
    assert_eq!(
        world.datagram(&short).verdict(),
        because(Cause::INVALID_LENGTH, None)
    );
    let mut response = message(55, Some(5), 0x77, &[ie(19, [1])]);
    response[3] -= 4;
    silent(&mut world, &response);
}

#[test]
fn faults_in_ies_name_the_ie() {
    let mut world = World::associated();
    let all = plain_session(0x77, UE);
    let without = |index: usize| [&all[..index], &all[index + 1..]].concat();
    let with = |index: usize, ie: Octets| {
        let mut ies = all.clone();
        ies[index] = ie;
        ies
    };
    let cases = [
        (without(0), Cause::MANDATORY_IE_MISSING, IeType::NODE_ID),
        (without(1), Cause::MANDATORY_IE_MISSING, IeType::F_SEID),
        (
            [&all[..2], &all[4..]].concat(),
            Cause::MANDATORY_IE_MISSING,
            IeType::CREATE_PDR,
        ),
        (
            [&all[..4], &all[6..]].concat(),
            Cause::MANDATORY_IE_MISSING,
            IeType::CREATE_FAR,
        ),
        (
            with(0, ie(60, [2])),
            Cause::MANDATORY_IE_INCORRECT,
            IeType::NODE_ID,
        ),
        (
            with(1, ie(57, [0; 9])),
            Cause::MANDATORY_IE_INCORRECT,
            IeType::F_SEID,
        ),
        (with(1, ie(57, [2, 0])), Cause::INVALID_LENGTH, IeType::F_SEID),
        (
            with(6, create_qer(&[qer_id(1)])),
            Cause::CONDITIONAL_IE_MISSING,
            IeType::GATE_STATUS,
        ),
        (
            with(2, create_pdr(&[pdr_id(1)])),
            Cause::MANDATORY_IE_MISSING,
            IeType::PDI,
        ),
        (
            with(4, create_far(&[far_id(1), apply_action(&[3])])),
            Cause::MANDATORY_IE_INCORRECT,
            IeType::APPLY_ACTION,
        ),
    ];
    for (ies, cause, offending) in cases {
        let reply = world.ask(50, Some(0), &ies);
        assert_eq!(reply.verdict(), because(cause, Some(offending)));
    }
    let reply = world.ask(50, Some(0), &without(0));
    assert_eq!(
        reply.header().seid,
        Some(pfcp::Seid(0x77)),
        "the peer's SEID is looked up even so"
    );
    world.assert_clean();
}

#[test]
fn rules_that_cannot_be_applied_are_named_and_nothing_changes() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let failure = because(Cause::RULE_CREATION_MODIFICATION_FAILURE, None);
    let pdr = |far| {
        create_pdr(&[
            pdr_id(7),
            precedence(1),
            pdi(&[source_if(ACCESS), choose(V4, None)]),
            far_id(far),
        ])
    };
    let cases = [
        (update_far(&[far_id(9)]), FailedRuleId::Far(ie::FarId(9))),
        (group(14, &[qer_id(9)]), FailedRuleId::Qer(ie::QerId(9))),
        (group(13, &[urr_id(9)]), FailedRuleId::Urr(ie::UrrId(9))),
        (group(77, &[urr_id(9)]), FailedRuleId::Urr(ie::UrrId(9))),
        (update_pdr(&[pdr_id(9)]), FailedRuleId::Pdr(ie::PdrId(9))),
        (group(15, &[pdr_id(9)]), FailedRuleId::Pdr(ie::PdrId(9))),
        (group(16, &[far_id(9)]), FailedRuleId::Far(ie::FarId(9))),
        (group(87, &[bar_id(9)]), FailedRuleId::Bar(ie::BarId(9))),
        (pdr(9), FailedRuleId::Pdr(ie::PdrId(7))),
        (
            create_far(&[far_id(1), apply_action(&[DROP])]),
            FailedRuleId::Far(ie::FarId(1)),
        ),
        (
            update_pdr(&[pdr_id(1), qer_id(9)]),
            FailedRuleId::Pdr(ie::PdrId(1)),
        ),
        (
            create_far(&[far_id(7), apply_action(&[0x82])]),
            FailedRuleId::Far(ie::FarId(7)),
        ),
    ];
    for (ies, rule) in cases {
        let good = update_far(&[far_id(2), apply_action(&[DROP])]);
        let reply = world.ask(52, Some(seid), &[good, ies]);
        assert_eq!((reply.verdict(), reply.failed_rule()), (failure, Some(rule)));
    }
    // DUPL, and not where to.
    let reply = world.ask(52, Some(seid), &[create_far(&[far_id(7), apply_action(&[0x12])])]);
    let missing = because(
        Cause::CONDITIONAL_IE_MISSING,
        Some(IeType::DUPLICATING_PARAMETERS),
    );
    let rule = FailedRuleId::Far(ie::FarId(7));
    assert_eq!((reply.verdict(), reply.failed_rule()), (missing, Some(rule)));
    let far = world.only_session().rules().far(rules::model::FarId(2)).unwrap();
    assert_eq!(far.action, rules::model::ApplyAction::FORW, "all or nothing");
    assert_eq!(world.n4.sessions().count().tunnels, 1);
}

#[test]
fn a_teid_of_the_peers_choice_gets_cause_71_unless_configured_or_restored() {
    let mut world = World::associated();
    let mut ies = plain_session(1, UE);
    ies[2] = uplink_pdr(1, UE, f_teid(0x1234, N3));
    let refused = because(Cause::INVALID_F_TEID_ALLOCATION_OPTION, Some(IeType::F_TEID));
    assert_eq!(world.ask(50, Some(0), &ies).verdict(), refused);
    let mut restored = ies.clone();
    restored.push(ie(186, [1]));
    let reply = world.ask(50, Some(0), &restored);
    reply.assert_accepted();
    assert_eq!(reply.created(), []);
    restored[1] = f_seid(2, SMF_ADDRESS.into());
    let taken = because(Cause::RESTORATION_RESOURCE_NOT_AVAILABLE, None);
    assert_eq!(world.ask(50, Some(0), &restored).verdict(), taken);

    let mut config = World::config(2);
    config.sessions.accept_cp_f_teids = true;
    let mut world = World::with(config);
    world.associate();
    world.ask(50, Some(0), &ies).assert_accepted();
    ies[1] = f_seid(2, SMF_ADDRESS.into());
    let reply = world.ask(50, Some(0), &ies);
    let failed = because(Cause::RULE_CREATION_MODIFICATION_FAILURE, None);
    assert_eq!(
        (reply.verdict(), reply.failed_rule()),
        (failed, Some(FailedRuleId::Pdr(ie::PdrId(1))))
    );
    ies[2] = uplink_pdr(1, UE, f_teid(0x1234, GNB));
    let elsewhere = because(Cause::MANDATORY_IE_INCORRECT, Some(IeType::F_TEID));
    assert_eq!(
        world.ask(50, Some(0), &ies).verdict(),
        elsewhere,
        "not our address"
    );
}

#[test]
fn a_worker_that_does_not_answer_gets_the_peer_cause_77_in_time_and_leaves_no_ghost() {
    let mut world = World::associated();
    world.n4.handle_datagram(
        world.now,
        smf(),
        upf(),
        &message(50, Some(0), 9, &plain_session(1, UE)),
    );
    world.hand_over();
    world.now = world.now + SECOND;
    world.n4.handle_timeout(world.now);
    let replies = world.transmits();
    assert_eq!(replies[0].cause(), Some(Cause::SYSTEM_FAILURE));
    assert_eq!(replies[0].header().seid, Some(pfcp::Seid(1)));
    world.assert_clean();
}

#[test]
fn requests_in_work_are_bounded_and_deletions_go_through() {
    let mut world = World::with(Config {
        max_in_work: 1,
        ..World::config(1)
    });
    world.associate();
    let seid = world.establish(1, UE);
    let other = Ipv4Addr::new(10, 45, 0, 3);
    world.n4.handle_datagram(
        world.now,
        smf(),
        upf(),
        &message(50, Some(0), 900, &plain_session(2, other)),
    );
    world.n4.handle_datagram(
        world.now,
        smf(),
        upf(),
        &message(50, Some(0), 901, &plain_session(3, other)),
    );
    world
        .n4
        .handle_datagram(world.now, smf(), upf(), &message(54, Some(seid), 902, &[]));
    let mut causes: Vec<(u32, u8)> = world
        .run()
        .iter()
        .map(|reply| (reply.header().sequence.get(), reply.verdict().0))
        .collect();
    causes.sort_unstable();
    assert_eq!(causes, [(900, 1), (901, 74), (902, 1)]);
}

#[test]
fn a_session_context_that_is_not_found_is_answered_with_seid_0() {
    let mut world = World::associated();
    for (message_type, seid) in [(52, 0), (52, 0xdead), (54, 0), (54, 0xdead)] {
        let reply = world.ask(message_type, Some(seid), &[]);
        assert_eq!(reply.cause(), Some(Cause::SESSION_CONTEXT_NOT_FOUND));
        assert_eq!(reply.header().seid, Some(pfcp::Seid(0)));
    }
}

#[test]
fn network_instances_are_found_in_every_spelling_and_unknown_ones_refused() {
    let named = |name: &[u8]| {
        let mut ies = plain_session(1, UE);
        ies[3] = create_pdr(&[
            pdr_id(2),
            precedence(100),
            pdi(&[source_if(CORE), network_instance(name), ue_ip(true, UE)]),
            far_id(2),
        ]);
        ies
    };
    for (name, vrf) in [
        (&b"ims"[..], 2),
        (b"\x03ims", 2),
        (b"IMS", 2),
        (b"internet", 1),
        (b"", 1),
    ] {
        let mut world = World::associated();
        world.ask(50, Some(0), &named(name)).assert_accepted();
        let addresses = world.only_session().ue_addresses().to_vec();
        assert_eq!(addresses[0].0, flow::VrfId(vrf), "{}", name.escape_ascii());
    }
    let mut world = World::associated();
    let refused = because(
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        Some(IeType::NETWORK_INSTANCE),
    );
    assert_eq!(world.ask(50, Some(0), &named(b"nowhere")).verdict(), refused);
    let lenient = Config {
        unknown_instance: UnknownInstance::Default,
        ..World::config(1)
    };
    let mut world = World::with(lenient);
    world.associate();
    world.ask(50, Some(0), &named(b"nowhere")).assert_accepted();
}

#[test]
fn an_error_indication_is_reported_once_at_a_time_to_the_sessions_owner() {
    let mut world = World::associated();
    let other_smf: SocketAddr = "10.100.0.3:8805".parse().unwrap();
    world.send(
        other_smf,
        &message(5, None, 1, &[node_name(&labels("other")), recovery(1)]),
    );
    world.establish(0x77, UE);
    let gnb = IpAddr::V4(GNB);
    let teid = Teid(0x100 + 0x77);
    world.n4.handle_error_indication(world.now, gnb, Teid(0xdead));
    assert!(world.transmits().is_empty(), "a tunnel of no session");
    world.n4.handle_error_indication(world.now, gnb, teid);
    world.n4.handle_error_indication(world.now, gnb, teid);
    let sent = world.transmits();
    assert_eq!(sent.len(), 1, "not again while unanswered");
    assert_eq!(sent[0].0.to, smf());
    assert_eq!(sent[0].header().seid, Some(pfcp::Seid(0x77)));
    let report = sent[0].session_report();
    assert_eq!(report.report_type, ReportType::ERIR);
    let remote = report
        .error_indication_report
        .unwrap()
        .remote_f_teid
        .first()
        .unwrap();
    assert_eq!(
        remote,
        FTeid::Endpoint {
            teid: ie::Teid(teid.0),
            ipv4: Some(GNB),
            ipv6: None
        }
    );
    assert_eq!(world.pass(SECOND), sent, "retransmitted");
    let answer = message(
        57,
        Some(world.only_session().seid().0),
        sent[0].header().sequence.get(),
        &[ie(19, [1])],
    );
    world.send(smf(), &answer);
    assert!(world.pass(SECOND).is_empty());
    world.n4.handle_error_indication(world.now, gnb, teid);
    assert_eq!(world.transmits().len(), 1, "and again after the answer");
}

#[test]
fn several_messages_of_one_datagram_are_served_each_as_if_alone() {
    let mut world = World::associated();
    let mut first = message(54, Some(1), 21, &[]);
    first[0] |= 0x04;
    let second = message(54, Some(2), 22, &[]);
    let replies = world.send(smf(), &[first, second].concat());
    let numbers: Vec<u32> = replies
        .iter()
        .map(|reply| reply.header().sequence.get())
        .collect();
    assert_eq!(numbers, [21, 22]);
}

#[test]
fn usage_is_reported_on_demand_with_the_reference_of_the_query() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let index = world.only_session().index();
    world.fleet.count(
        index,
        UrrId(1),
        UrrCount {
            ul_packets: 1,
            ul_octets: 60,
            dl_packets: 0,
            dl_octets: 0,
            events: 0,
        },
    );
    let reply = world.ask(
        52,
        Some(seid),
        &[group(77, &[urr_id(1)]), ie(125, 0xabcdu32.to_be_bytes())],
    );
    let Message::SessionModificationResponse(response) = reply.message() else {
        panic!()
    };
    let report = response.usage_report.first().unwrap();
    assert_eq!(report.usage_report_trigger, ie::UsageReportTrigger::IMMER);
    assert_eq!(report.query_urr_reference, Some(ie::QueryUrrReference(0xabcd)));
    assert_eq!(reply.usage(), [(1, 0, Some(60))]);
    assert_eq!(world.ask(54, Some(seid), &[]).usage(), [(1, 1, Some(0))]);
}

#[test]
fn a_response_that_cannot_be_encoded_becomes_cause_77_and_leaves_no_session() {
    // A Node ID so long that a rejection with it fits into a message and an acceptance does not.
    let config = Config {
        node: NodeName::Fqdn(vec![b'x'; 65_490]),
        ..World::config(1)
    };
    let mut world = World::with(config);
    world.associate();
    let request = message(50, Some(0), 77, &plain_session(1, UE));
    let reply = world.datagram(&request);
    assert_eq!(reply.cause(), Some(Cause::SYSTEM_FAILURE));
    assert_eq!(reply.header().seid, Some(pfcp::Seid(1)));
    assert_eq!(world.datagram(&request), reply, "kept as any answer");
    assert_eq!(world.n4.counters().unencodable, 1);
    world.assert_clean();
}

#[test]
fn a_request_that_cannot_be_answered_at_all_is_new_when_it_comes_again() {
    let config = Config {
        node: NodeName::Fqdn(vec![b'x'; 65_530]),
        ..World::config(1)
    };
    let mut world = World::with(config);
    let setup = message(5, None, 1, &[node_v4(SMF_ADDRESS), recovery(1)]);
    assert_eq!(world.send(smf(), &setup), []);
    let request = message(50, Some(0), 77, &plain_session(1, UE));
    for _ in 0..2 {
        assert_eq!(world.send(smf(), &request), []);
        world.assert_clean();
    }
    assert_eq!(world.n4.counters().in_work, 0);
}
