//! Packets octet by octet through sessions as real SMFs make them.

use std::net::{Ipv4Addr, Ipv6Addr};

use packet::{Ppi, Qfi, Teid};
use proptest::prelude::*;

use super::*;
use crate::model::{
    ApplyAction, DestinationInterface, Edit, FTeid, FarId, FarUpdate, ForwardingParameters,
    ForwardingParametersUpdate, Gate, MeasurementInformation, OuterHeader, OuterHeaderCreation,
    OuterHeaderKind, OuterHeaderRemoval, Pdi, PdiUpdate, PdrId, PdrUpdate, QerId, QerUpdate, SdfFilter,
    UeIpAddress, UrrId,
};
use crate::testing::{
    self, GNB, N3, N3_ADDRESS, N6, N9, N9_ADDRESS, OTHER_N6, UE, UE_V6, UserPacket, any_rules, any_sent,
    tunnelled,
};

const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 6, 254));

fn session() -> SessionRules {
    testing::pdu_session(0x1001, OuterHeaderCreation::gtpu_ipv4(Teid(0x2001), GNB))
}

fn uplink_user() -> UserPacket {
    UserPacket::udp(UE, REMOTE, 4000, 53)
}

fn downlink_user() -> UserPacket {
    UserPacket::udp(REMOTE, UE, 53, 4000)
}

fn from_gnb(teid: u32, user: &[u8]) -> Vec<u8> {
    tunnelled(N3_ADDRESS, teid, 255, Some([0x10, 9]), &[], user)
}

fn uplink(rules: &SessionRules, user: &UserPacket) -> Verdict {
    interpret(rules, &testing::network(), N3, &from_gnb(0x1001, &user.bytes()))
}

fn downlink(rules: &SessionRules, user: &UserPacket) -> Verdict {
    interpret(rules, &testing::network(), N6, &user.bytes())
}

fn one_hop_on(user: &UserPacket) -> Vec<u8> {
    UserPacket {
        ttl: user.ttl - 1,
        ..user.clone()
    }
    .bytes()
}

fn forwarded(verdict: Verdict) -> (Vec<u8>, InstanceId, IpAddr) {
    match verdict.outcome {
        Outcome::Forwarded {
            bytes,
            egress,
            next_hop,
            mirror: None,
        } => (bytes, egress, next_hop),
        outcome => panic!("{outcome:?}"),
    }
}

fn dropped(verdict: &Verdict) -> Option<DropReason> {
    match verdict.outcome {
        Outcome::Dropped(reason) => Some(reason),
        Outcome::Forwarded { .. } | Outcome::Recirculated { .. } | Outcome::Consumed => None,
    }
}

#[test]
fn uplink_leaves_its_tunnel_one_hop_older_and_is_counted() {
    let verdict = uplink(&session(), &uplink_user());
    assert_eq!(verdict.pdr, Some(PdrId(1)));
    // 20 octets of IPv4 and 40 behind it.
    let counted = Counted {
        urr: UrrId(1),
        octets: 60,
        direction: Direction::Uplink,
    };
    assert_eq!(verdict.counted, [counted]);
    assert_eq!(forwarded(verdict), (one_hop_on(&uplink_user()), N6, ROUTER));
}

#[test]
fn downlink_enters_its_tunnel_with_a_container() {
    let verdict = downlink(&session(), &downlink_user());
    assert_eq!(
        verdict.counted,
        [Counted {
            urr: UrrId(1),
            octets: 60,
            direction: Direction::Downlink
        }]
    );
    let (bytes, egress, next_hop) = forwarded(verdict);
    assert_eq!((egress, next_hop), (N3, IpAddr::V4(GNB)));
    let outer = "45000068000040004011207e\
                 0a0003010a000307\
                 0868086800540000\
                 34ff004400002001\
                 00000085\
                 01000900";
    let (headers, user) = bytes.split_at(44);
    assert_eq!(hex(headers), outer);
    assert_eq!(user, one_hop_on(&downlink_user()));
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[test]
fn ipv6_users_go_both_ways_over_ipv4() {
    let remote: Ipv6Addr = "2001:db8:ffff::1".parse().unwrap();
    let ue = Ipv6Addr::from_bits(UE_V6.to_bits() | 0xbeef);
    let up = UserPacket::udp(ue, remote, 4000, 53);
    let (bytes, egress, next_hop) = forwarded(uplink(&session(), &up));
    assert_eq!(
        (bytes, egress, next_hop),
        (one_hop_on(&up), N6, "2001:db8:6::fe".parse().unwrap())
    );
    let down = UserPacket::udp(remote, ue, 53, 4000);
    let (bytes, egress, _) = forwarded(downlink(&session(), &down));
    assert_eq!((&bytes[44..], egress), (&one_hop_on(&down)[..], N3));
}

#[test]
fn rqi_and_ppi_of_the_qer_are_in_the_container() {
    let mut rules = session();
    let change = QerUpdate {
        rqi: Some(true),
        ppi: Edit::Set(Ppi::from_low_bits(5)),
        ..QerUpdate::new(QerId(1))
    };
    rules.update_qer(change).unwrap();
    let (bytes, ..) = forwarded(downlink(&rules, &downlink_user()));
    assert_eq!(
        hex(&bytes[32..52]),
        "0000200100000085".to_owned() + "0200c9a000000000" + "4500003c"
    );
}

#[test]
fn without_a_qfi_there_is_no_container() {
    let mut rules = session();
    rules
        .update_qer(QerUpdate {
            qfi: Edit::Clear,
            ..QerUpdate::new(QerId(1))
        })
        .unwrap();
    let (bytes, ..) = forwarded(downlink(&rules, &downlink_user()));
    assert_eq!(hex(&bytes[28..36]), "30ff003c00002001");
    assert_eq!(bytes[36..], one_hop_on(&downlink_user()));
}

#[test]
fn an_outer_ipv6_header_has_a_udp_checksum() {
    let header = OuterHeaderCreation {
        kind: OuterHeaderKind::GTPU_IPV6,
        ipv4: None,
        ipv6: "2001:db8:200::1".parse().ok(),
        ..OuterHeaderCreation::gtpu_ipv4(Teid(0x2001), GNB)
    };
    let (bytes, egress, next_hop) =
        forwarded(downlink(&testing::pdu_session(0x1001, header), &downlink_user()));
    assert_eq!((egress, next_hop), (N3, "2001:db8:3::fe".parse().unwrap()));
    assert_eq!(hex(&bytes[..8]), "6000000000541140");
    let sum = packet::checksum::Sum::default();
    let addresses = |at: usize| <[u8; 16]>::try_from(&bytes[at..at + 16]).unwrap();
    let sum = sum
        .pseudo_v6(addresses(8), addresses(24), 17, 84)
        .bytes(&bytes[40..]);
    assert_eq!(sum.checksum(), 0);
}

#[test]
fn a_ue_may_not_send_from_anothers_address() {
    let foreign = UserPacket::udp(Ipv4Addr::new(10, 45, 0, 3), REMOTE, 4000, 53);
    let verdict = uplink(&session(), &foreign);
    assert_eq!(
        (dropped(&verdict), verdict.pdr),
        (Some(DropReason::SpoofedSource), Some(PdrId(1)))
    );
    let link_local: Ipv6Addr = "fe80::1".parse().unwrap();
    let solicitation = UserPacket::udp(link_local, "ff02::2".parse::<Ipv6Addr>().unwrap(), 0, 0);
    assert_eq!(
        dropped(&uplink(&session(), &solicitation)),
        Some(DropReason::SpoofedSource)
    );
}

#[test]
fn router_solicitations_reach_the_control_plane() {
    // open5GS: an uplink PDR for ff02::2 with a FAR towards CP-Function, on the TEID of the session.
    let mut rules = session();
    let mut pdi = Pdi::new(SourceInterface::Access);
    pdi.f_teid = Some(testing::f_teid(0x1001));
    let description = "permit out 58 from ff02::2/128 to assigned".parse().ok();
    pdi.sdf_filters = [SdfFilter {
        flow_description: description,
        ..SdfFilter::default()
    }]
    .into();
    rules.create_pdr(testing::pdr(7, 1, pdi, 7)).unwrap();
    let mut to_smf = ForwardingParameters::new(DestinationInterface::CpFunction);
    to_smf.outer_header_creation = Some(OuterHeaderCreation::gtpu_ipv4(
        Teid(0x77),
        Ipv4Addr::new(10, 0, 3, 77),
    ));
    rules.create_far(testing::forward(7, to_smf)).unwrap();
    let link_local: Ipv6Addr = "fe80::1".parse().unwrap();
    let all_routers: Ipv6Addr = "ff02::2".parse().unwrap();
    let solicitation = UserPacket {
        proto: 58,
        ..UserPacket::udp(link_local, all_routers, 0, 0)
    };
    let verdict = uplink(&rules, &solicitation);
    assert_eq!(verdict.pdr, Some(PdrId(7)));
    // The container that the gNB put around it stays on N3.
    let (bytes, ..) = forwarded(verdict);
    assert_eq!(hex(&bytes[28..44]), "30ff0050000000776000000000283a40");
}

#[test]
fn what_the_cp_function_buffers_has_the_container_of_a_downlink_packet() {
    // TS 29.244 §5.3.3.2; and that of an uplink packet where the UE's go there.
    for (far, type_of_pdu) in [(FarId(2), 0), (FarId(1), 0x10)] {
        let mut rules = session();
        let to_smf = OuterHeaderCreation::gtpu_ipv4(Teid(0x77), Ipv4Addr::new(10, 0, 3, 77));
        let update = FarUpdate {
            forwarding: Edit::Set(ForwardingParametersUpdate {
                destination: Some(DestinationInterface::CpFunction),
                outer_header_creation: Edit::Set(to_smf),
                ..ForwardingParametersUpdate::default()
            }),
            ..FarUpdate::new(far)
        };
        rules.update_far(update).unwrap();
        let qfi = rules.qer(QerId(1)).and_then(|qer| qer.qfi).map(Qfi::get).unwrap();
        let verdict = match far {
            FarId(2) => downlink(&rules, &downlink_user()),
            _ => uplink(&rules, &uplink_user()),
        };
        let (bytes, ..) = forwarded(verdict);
        assert_eq!(bytes[32..36], [0, 0, 0, 0x77]);
        assert_eq!(bytes[39..44], [0x85, 1, type_of_pdu, qfi, 0]);
    }
}

#[test]
fn indirect_forwarding_carries_packets_to_the_ue() {
    // From the source gNB to the target gNB: Access to Access, and the inner source is a server (TS 29.244 §8.2.24).
    let mut rules = session();
    let mut pdi = Pdi::new(SourceInterface::Access);
    pdi.f_teid = Some(testing::f_teid(0x1002));
    rules.create_pdr(testing::pdr(7, 1, pdi, 2)).unwrap();
    let packet = from_gnb(0x1002, &downlink_user().bytes());
    let (bytes, ..) = forwarded(interpret(&rules, &testing::network(), N3, &packet));
    assert_eq!(
        bytes[bytes.len() - 60..],
        downlink_user().bytes(),
        "from tunnel to tunnel the TTL stays"
    );
}

#[test]
fn a_closed_gate_stops_one_direction_and_counts_nothing() {
    let mut rules = session();
    let gates = Some((Gate::Open, Gate::Closed));
    rules
        .update_qer(QerUpdate {
            gates,
            ..QerUpdate::new(QerId(1))
        })
        .unwrap();
    let verdict = downlink(&rules, &downlink_user());
    assert_eq!(
        (dropped(&verdict), verdict.counted.len()),
        (Some(DropReason::GateClosed), 0)
    );
    assert_eq!(dropped(&uplink(&rules, &uplink_user())), None);
}

#[test]
fn a_far_that_does_not_forward_says_why() {
    for (action, reason) in [
        (ApplyAction::DROP, DropReason::FarDrop),
        (ApplyAction::BUFF.with(ApplyAction::NOCP), DropReason::FarBuffer),
        (ApplyAction::IPMD, DropReason::UnsupportedAction),
    ] {
        let mut rules = session();
        rules
            .update_far(FarUpdate {
                action: Some(action),
                ..FarUpdate::new(FarId(2))
            })
            .unwrap();
        let verdict = downlink(&rules, &downlink_user());
        assert_eq!((dropped(&verdict), verdict.counted.len()), (Some(reason), 0));
    }
    let mut rules = session();
    rules
        .update_far(FarUpdate {
            forwarding: Edit::Clear,
            ..FarUpdate::new(FarId(2))
        })
        .unwrap();
    assert_eq!(
        dropped(&downlink(&rules, &downlink_user())),
        Some(DropReason::FarNoTunnel)
    );
}

#[test]
fn a_packet_at_its_last_hop_ends_here() {
    for ttl in [0, 1] {
        let verdict = uplink(&session(), &UserPacket { ttl, ..uplink_user() });
        assert_eq!(
            (dropped(&verdict), verdict.counted.len()),
            (Some(DropReason::TtlExpired), 0)
        );
        let verdict = downlink(
            &session(),
            &UserPacket {
                ttl,
                ..downlink_user()
            },
        );
        assert_eq!(dropped(&verdict), Some(DropReason::TtlExpired));
    }
}

#[test]
fn what_belongs_to_no_session_is_distinguished() {
    let network = testing::network();
    let unknown = interpret(
        &session(),
        &network,
        N3,
        &from_gnb(0x1009, &uplink_user().bytes()),
    );
    assert_eq!(dropped(&unknown), Some(DropReason::UnknownTeid));
    let at_n9 = tunnelled(N9_ADDRESS, 0x1001, 255, None, &[], &uplink_user().bytes());
    assert_eq!(
        dropped(&interpret(&session(), &network, N9, &at_n9)),
        Some(DropReason::UnknownTeid)
    );
    let stranger = UserPacket::udp(REMOTE, Ipv4Addr::new(10, 45, 0, 3), 53, 4000);
    assert_eq!(
        dropped(&downlink(&session(), &stranger)),
        Some(DropReason::UnknownUeAddress)
    );
    let elsewhere = interpret(&session(), &network, OTHER_N6, &downlink_user().bytes());
    assert_eq!(dropped(&elsewhere), Some(DropReason::UnknownUeAddress));
    let echo = tunnelled(N3_ADDRESS, 0, 1, None, &[], &[]);
    let verdict = interpret(&session(), &network, N3, &echo);
    assert_eq!(dropped(&verdict), Some(DropReason::UnsupportedGtpuMessage));
}

#[test]
fn a_packet_that_no_pdr_detects_is_dropped() {
    let mut rules = session();
    let mut update = PdrUpdate::new(PdrId(1));
    update.pdi = Some(PdiUpdate {
        qfis: Some(vec![Qfi::from_low_bits(8)]),
        ..PdiUpdate::default()
    });
    rules.update_pdr(update).unwrap();
    let verdict = uplink(&rules, &uplink_user());
    assert_eq!(
        (dropped(&verdict), verdict.pdr),
        (Some(DropReason::NoMatchingPdr), None)
    );
}

#[test]
fn padding_is_not_forwarded() {
    let mut plain = downlink_user().bytes();
    plain.extend([0; 9]);
    let verdict = interpret(&session(), &testing::network(), N6, &plain);
    assert_eq!(
        forwarded(verdict),
        forwarded(downlink(&session(), &downlink_user()))
    );
    let mut inner = uplink_user().bytes();
    inner.extend([0; 3]);
    let verdict = interpret(&session(), &testing::network(), N3, &from_gnb(0x1001, &inner));
    assert_eq!(forwarded(verdict), forwarded(uplink(&session(), &uplink_user())));
}

/// An intermediate UPF: N3 to N9 and back, without QERs.
fn relay(deletes_psc: bool) -> SessionRules {
    let mut up = Pdi::new(SourceInterface::Access);
    up.f_teid = Some(testing::f_teid(0x1001));
    let mut down = Pdi::new(SourceInterface::Core);
    down.f_teid = Some(FTeid {
        teid: Teid(0x1002),
        ipv4: Some(N9_ADDRESS),
        ipv6: None,
    });
    let mut rules = SessionRules::new();
    for (id, pdi) in [(1, up), (2, down)] {
        let mut pdr = testing::pdr(id, 255, pdi, id.into());
        pdr.outer_header_removal = Some(OuterHeaderRemoval {
            header: OuterHeader::GtpuUdpIp,
            deletes_psc,
        });
        rules.create_pdr(pdr).unwrap();
    }
    let psa = OuterHeaderCreation::gtpu_ipv4(Teid(0x3001), Ipv4Addr::new(10, 209, 0, 1));
    let gnb = OuterHeaderCreation::gtpu_ipv4(Teid(0x2001), GNB);
    for (id, destination, header) in [
        (1, DestinationInterface::Core, psa),
        (2, DestinationInterface::Access, gnb),
    ] {
        let mut parameters = ForwardingParameters::new(destination);
        parameters.outer_header_creation = Some(header);
        rules.create_far(testing::forward(id, parameters)).unwrap();
    }
    rules
}

#[test]
fn a_relay_keeps_containers_and_other_extensions() {
    let network = testing::network();
    let others = [
        (0x20, vec![1, 2]),
        (0x41, vec![9, 9]),
        (0x9f, vec![3, 4, 5, 6, 7, 8]),
    ];
    let packet = tunnelled(
        N3_ADDRESS,
        0x1001,
        255,
        Some([0x10, 9]),
        &others,
        &uplink_user().bytes(),
    );
    let (bytes, egress, next_hop) = forwarded(interpret(&relay(false), &network, N3, &packet));
    assert_eq!((egress, next_hop), (N9, "10.0.9.254".parse().unwrap()));
    // The unknown type 0x41 is one that an intermediate node removes; 0x9f is relayed.
    assert_eq!(
        hex(&bytes[36..56]),
        "00000085".to_owned() + "01100920" + "0101029f" + "0203040506070800"
    );
    assert_eq!(bytes[56..], uplink_user().bytes());

    let packet = tunnelled(
        N9_ADDRESS,
        0x1002,
        255,
        Some([0x00, 0x49]),
        &[],
        &downlink_user().bytes(),
    );
    let (bytes, ..) = forwarded(interpret(&relay(true), &network, N9, &packet));
    assert_eq!(
        hex(&bytes[28..36]),
        "30ff003c00002001",
        "the container was to be deleted"
    );
    let (bytes, ..) = forwarded(interpret(&relay(false), &network, N9, &packet));
    assert_eq!(hex(&bytes[36..44]), "00000085".to_owned() + "01004900");
}

/// The intermediate UPF's rules, with the FAR `far` towards the CP function.
fn relay_to_cp(far: u32) -> SessionRules {
    let smf = OuterHeaderCreation::gtpu_ipv4(Teid(0x4a01), Ipv4Addr::new(10, 0, 3, 77));
    let mut rules = relay(false);
    let update = FarUpdate {
        forwarding: Edit::Set(ForwardingParametersUpdate {
            destination: Some(DestinationInterface::CpFunction),
            outer_header_creation: Edit::Set(smf),
            ..ForwardingParametersUpdate::default()
        }),
        ..FarUpdate::new(FarId(far))
    };
    rules.update_far(update).unwrap();
    rules
}

#[test]
fn what_a_ue_sends_to_the_cp_function_has_no_container() {
    let network = testing::network();
    let uplink = |kind, extensions: &[(u8, Vec<u8>)]| {
        let payload = if kind == 255 {
            uplink_user().bytes()
        } else {
            Vec::new()
        };
        let packet = tunnelled(N3_ADDRESS, 0x1001, kind, Some([0x10, 9]), extensions, &payload);
        forwarded(interpret(&relay_to_cp(1), &network, N3, &packet)).0
    };
    // TS 29.244 §5.3.1, scenario 1: the N3 tunnel ends here, and its container with it.
    assert_eq!(hex(&uplink(255, &[])[28..36]), "30ff003c00004a01");
    assert_eq!(hex(&uplink(254, &[])[28..36]), "30fe000000004a01");
    // What is not of N3 alone is relayed as elsewhere.
    let other = uplink(255, &[(0x20, vec![1, 2])]);
    assert_eq!(
        hex(&other[28..44]),
        "34ff004400004a01".to_owned() + "0000002001010200"
    );
}

#[test]
fn what_the_cp_function_buffers_keeps_the_container_of_n9() {
    let network = testing::network();
    let received = Some([0x00, 0x49]);
    let packet = tunnelled(N9_ADDRESS, 0x1002, 255, received, &[], &downlink_user().bytes());
    let (bytes, ..) = forwarded(interpret(&relay_to_cp(2), &network, N9, &packet));
    // TS 29.244 §5.3.3.2: "any GTP-U extension header(s) possibly received by the UP function over the N9 PDU
    // sessions".
    assert_eq!(hex(&bytes[36..44]), "00000085".to_owned() + "01004900");
}

#[test]
fn an_extension_that_must_be_understood_stops_the_packet() {
    let network = testing::network();
    let packet = |kind| {
        tunnelled(
            N3_ADDRESS,
            0x1001,
            255,
            None,
            &[(kind, vec![0, 0])],
            &uplink_user().bytes(),
        )
    };
    let reason = |rules: &SessionRules, kind| dropped(&interpret(rules, &network, N3, &packet(kind)));
    assert_eq!(reason(&session(), 0x9f), Some(DropReason::UnknownGtpuExtension));
    assert_eq!(reason(&session(), 0xdf), Some(DropReason::UnknownGtpuExtension));
    assert_eq!(reason(&session(), 0x1f), None);
    assert_eq!(reason(&relay(false), 0x9f), None);
    assert_eq!(
        reason(&relay(false), 0xdf),
        Some(DropReason::UnknownGtpuExtension)
    );
}

#[test]
fn end_markers_and_tunnel_status_keep_their_type() {
    let network = testing::network();
    for kind in [253, 254] {
        let packet = tunnelled(
            N9_ADDRESS,
            0x1002,
            kind,
            Some([0, 9]),
            &[],
            &[0xff, 0, 2, 0xe6, 0x01],
        );
        let verdict = interpret(&relay(false), &network, N9, &packet);
        assert!(verdict.counted.is_empty());
        let (bytes, egress, _) = forwarded(verdict);
        assert_eq!(egress, N3);
        assert_eq!(
            hex(&bytes[28..]),
            format!("34{kind:02x}000d00002001") + "00000085" + "01000900" + "ff0002e601"
        );
        // Where the tunnel ends, so do they.
        let packet = tunnelled(N3_ADDRESS, 0x1001, kind, None, &[], &[]);
        let verdict = interpret(&session(), &network, N3, &packet);
        assert_eq!(dropped(&verdict), Some(DropReason::UnsupportedGtpuMessage));
    }
}

/// TS 29.244 §5.30, NOTE 3: where the session leaves the tunnels, a pause of charging is heeded and goes no further.
#[test]
fn a_pause_of_charging_ends_at_the_anchor_that_heeds_it() {
    let network = testing::network();
    let pausable = |mut rules: SessionRules| {
        let information = MeasurementInformation::ASPOC;
        let urr = Urr::volume(UrrId(7));
        rules.create_urr(Urr { information, ..urr }).unwrap();
        rules
    };
    let pause: &[u8] = &[230, 0, 1, 1];
    let n3 = |kind, elements| tunnelled(N3_ADDRESS, 0x1001, kind, None, &[], elements);
    let reason = |rules: &SessionRules, at, packet: &[u8]| dropped(&interpret(rules, &network, at, packet));
    let (heeded, other) = (
        Some(DropReason::PauseOfChargingHeeded),
        Some(DropReason::UnsupportedGtpuMessage),
    );
    let anchor = pausable(session());
    assert_eq!(reason(&anchor, N3, &n3(253, pause)), heeded);
    assert_eq!(reason(&session(), N3, &n3(253, pause)), other);
    assert_eq!(reason(&anchor, N3, &n3(253, &[230, 0, 1, 2])), other);
    assert_eq!(reason(&anchor, N3, &n3(253, &[])), other);
    assert_eq!(reason(&anchor, N3, &n3(254, pause)), other);
    // Between tunnels it is relayed, and what comes from upstream is none of a downstream node.
    let relaying = pausable(relay(false));
    let (bytes, egress, _) = forwarded(interpret(&relaying, &network, N3, &n3(253, pause)));
    assert_eq!(
        (egress, hex(&bytes[28..])),
        (N9, "30fd0004000030 01".replace(' ', "") + "e6000101")
    );
    let down = tunnelled(N9_ADDRESS, 0x1002, 253, None, &[], pause);
    assert_eq!(forwarded(interpret(&relaying, &network, N9, &down)).1, N3);
}

#[test]
fn n9_uplink_with_a_qer_has_an_uplink_container() {
    let mut rules = relay(false);
    rules
        .create_qer(Qer {
            qfi: Qfi::new(5),
            rqi: true,
            ..Qer::new(QerId(1))
        })
        .unwrap();
    let mut update = PdrUpdate::new(PdrId(1));
    update.qers = Some(vec![QerId(1)]);
    rules.update_pdr(update).unwrap();
    let (bytes, ..) = forwarded(uplink(&rules, &uplink_user()));
    assert_eq!(hex(&bytes[36..44]), "00000085".to_owned() + "01100500");
}

#[test]
fn a_wrong_s_d_bit_does_not_matter() {
    // SD-Core sends S/D = 0 on the downlink too.
    let mut rules = session();
    let mut update = PdrUpdate::new(PdrId(2));
    let ue = UeIpAddress {
        is_destination: false,
        ..testing::ue_ip()
    };
    update.pdi = Some(PdiUpdate {
        ue_ip: Some(vec![ue]),
        ..PdiUpdate::default()
    });
    rules.update_pdr(update).unwrap();
    assert_eq!(dropped(&downlink(&rules, &downlink_user())), None);
}

#[test]
fn what_a_pdr_lacks_is_reported() {
    let rules = session();
    let network = testing::network();
    let why = |ingress, packet: &[u8]| {
        let evaluated = evaluate_pdrs(&rules, &network, ingress, packet).unwrap();
        evaluated
            .into_iter()
            .map(|one| (one.pdr.0, one.mismatch))
            .collect::<Vec<_>>()
    };
    let up = from_gnb(0x1001, &uplink_user().bytes());
    assert_eq!(why(N3, &up), [(1, None), (2, Some(Mismatch::SourceInterface))]);
    let down = downlink_user().bytes();
    assert_eq!(why(N6, &down), [(1, Some(Mismatch::SourceInterface)), (2, None)]);
    let other = UserPacket::udp(REMOTE, [10, 45, 77, 77], 53, 4000).bytes();
    assert_eq!(why(N6, &other)[1], (2, Some(Mismatch::UeAddress)));
    assert_eq!(
        why(N3, &from_gnb(0x1002, &uplink_user().bytes()))[0],
        (1, Some(Mismatch::FTeid))
    );
}

proptest! {
    #[test]
    fn random_mutated_and_truncated_packets_do_no_harm(
        rules in any_rules(),
        sent in any_sent(),
        octet: u8,
        at in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = sent.bytes;
        let place = at.index(bytes.len());
        bytes[place] = octet;
        bytes.truncate(cut.index(bytes.len() + 1));
        let verdict = interpret(&rules, &testing::network(), sent.ingress, &bytes);
        prop_assert!(verdict.pdr.is_some() || verdict.counted.is_empty());
    }

    #[test]
    fn the_first_pdr_that_matches_is_the_one(rules in any_rules(), sent in any_sent()) {
        let network = testing::network();
        let verdict = interpret(&rules, &network, sent.ingress, &sent.bytes);
        let evaluated = evaluate_pdrs(&rules, &network, sent.ingress, &sent.bytes).unwrap_or_default();
        let first = evaluated.iter().find(|one| one.mismatch.is_none()).map(|one| one.pdr);
        if verdict.pdr.is_some() {
            prop_assert_eq!(first, verdict.pdr);
            prop_assert_eq!(evaluated.len(), rules.pdrs().len());
        }
    }

    #[test]
    fn random_octets_do_no_harm(rules in any_rules(), bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = interpret(&rules, &testing::network(), N3, &bytes);
    }

    #[test]
    fn what_leaves_can_be_taken_apart_again(rules in any_rules(), sent in any_sent()) {
        let network = testing::network();
        if let Outcome::Forwarded { bytes, .. } = interpret(&rules, &network, sent.ingress, &sent.bytes).outcome {
            let tuple = IpTuple::parse(&bytes, bytes.len());
            prop_assert_eq!(tuple.map(|tuple| usize::from(tuple.total_len)), Ok(bytes.len()));
        }
    }
}
