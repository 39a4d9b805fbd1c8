//! The classifier against the interpreter, keys against decisions, and sessions as real SMFs make them.

mod long_lists;
mod many_masks;
mod rulebases;

use std::collections::HashMap;
use std::sync::Arc;

use flow::meter::Colour;
use packet::eth::{L2, ether_type};
use packet::frame::parse_inner;
use packet::gtpu::MessageType;
use packet::{DropReason, GtpuFrame, IpFrame, IpTuple};
use proptest::prelude::*;

use super::*;
use crate::compile::compile;
use crate::compile_error::CompileFault;
use crate::image::SessionImage;
use crate::model::{
    Edit, OuterHeaderCreation, Pdi, PdiUpdate, Pdr, PdrUpdate, RuleRef, SdfFilter, SdfFilterId,
    SourceInterface,
};
use crate::reference_interpreter::{Conditions, CongestionMarks, Metering, Outcome, Quotas, interpret_with};
use crate::testing::{self, NumberedHops, Sent, UserPacket, any_sent, runnable_rules, tunnelled};

/// Where a packet came in and what it is; `None` for malformed ones and messages without a user packet.
fn seen(network: &Network, sent: &Sent) -> Option<(Side, IpTuple)> {
    let ether_type = if sent.bytes.first()? >> 4 == 6 {
        ether_type::IPV6
    } else {
        ether_type::IPV4
    };
    let l2 = L2 {
        len: 0,
        ether_type,
        vlan: None,
    };
    let ip = IpFrame::parse(&sent.bytes, sent.bytes.len(), &l2).ok()?;
    let Some((_, local)) = network.local(ip.tuple.addrs.dst()).filter(|_| ip.may_be_gtpu()) else {
        let vrf = network.instance(sent.ingress)?.vrf;
        return Some((Side::Plain { vrf }, ip.tuple));
    };
    let gtpu = GtpuFrame::parse(&sent.bytes, &ip).ok()?;
    let tuple = parse_inner(&sent.bytes, &gtpu).ok()?;
    let side = Side::Tunnel {
        local,
        teid: gtpu.teid,
        qfi: gtpu.qfi,
    };
    (gtpu.message_type == MessageType::G_PDU).then_some((side, tuple))
}

/// Whether the packet reaches the session at all.
fn is_owned(image: &SessionImage, side: Side, tuple: &IpTuple) -> bool {
    match side {
        Side::Tunnel { local, teid, .. } => image.tunnels.contains(&(local, teid)),
        Side::Plain { vrf } => image
            .ue_addresses
            .iter()
            .any(|(own, prefix)| *own == vrf && prefix.contains(tuple.addrs.dst())),
    }
}

/// All that a flow entry would hold of a packet's fate.
fn fate(image: &SessionImage, side: Side, tuple: &IpTuple) -> Option<(u16, bool, KeyFields)> {
    let found = image.classifier.classify(&PacketView { side, tuple });
    let found = found.filter(Match::is_decided)?;
    Some((
        found.decision.pdr,
        image
            .classifier
            .allows_source(found.decision.source_check, tuple.addrs.src()),
        found.key,
    ))
}

fn image(rules: SessionRules, network: &Network) -> Option<SessionImage> {
    compile(&Arc::new(rules), network, &NumberedHops).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn it_finds_the_pdr_that_the_interpreter_finds(
        rules in runnable_rules(),
        packets in prop::collection::vec(any_sent(), 1..12),
    ) {
        let network = testing::network();
        let Some(image) = image(rules.clone(), &network) else { return Ok(()) };
        for sent in packets {
            let Some((side, tuple)) = seen(&network, &sent) else { continue };
            let conditions = Conditions {
                metering: Metering::Colour(Colour::Green),
                congestion: CongestionMarks::Turn(false),
                quotas: Quotas::default(),
                detection: Detection::Undecided,
                is_solicited: true,
            };
            let verdict = interpret_with(&rules, &network, sent.ingress, &sent.bytes, conditions);
            let unknown = [DropReason::UnknownTeid, DropReason::UnknownUeAddress].map(Outcome::Dropped);
            prop_assert_eq!(!unknown.contains(&verdict.outcome), is_owned(&image, side, &tuple));
            if is_owned(&image, side, &tuple) {
                let found = fate(&image, side, &tuple);
                let denied = verdict.outcome == Outcome::Dropped(DropReason::AccessList);
                let is_denied = found.is_some_and(|(slot, ..)| slot == Decision::NO_PDR);
                prop_assert_eq!(is_denied, denied);
                let found = found.filter(|_| !is_denied);
                let pdr = found.map(|(slot, ..)| rules.pdrs()[usize::from(slot)].id);
                prop_assert_eq!(pdr, verdict.pdr);
                let spoofed = verdict.outcome == Outcome::Dropped(DropReason::SpoofedSource);
                prop_assert_eq!(found.is_some_and(|(_, allowed, _)| !allowed), spoofed);
            }
        }
    }

    #[test]
    fn packets_that_share_a_key_share_their_fate(
        rules in runnable_rules(),
        packets in prop::collection::vec(any_sent(), 2..40),
    ) {
        let network = testing::network();
        let Some(image) = image(rules, &network) else { return Ok(()) };
        let seen: Vec<(Side, IpTuple)> = packets.iter().filter_map(|sent| seen(&network, sent)).collect();
        let seen = seen.iter().filter(|(side, tuple)| is_owned(&image, *side, tuple));
        let mut table: HashMap<Key, (u16, bool)> = HashMap::new();
        let mut shapes = Vec::new();
        for (side, tuple) in seen.clone() {
            let Some((slot, allowed, fields)) = fate(&image, *side, tuple) else { continue };
            let key = flow_key(fields, &PacketView { side: *side, tuple });
            prop_assert_eq!(*table.entry(key).or_insert((slot, allowed)), (slot, allowed));
            shapes.push(fields);
        }
        // As a table would find them: under every shape in use, also packets whose own shape is another, or that no
        // PDR detects.
        for (side, tuple) in seen {
            for &fields in &shapes {
                let hit = table.get(&flow_key(fields, &PacketView { side: *side, tuple }));
                if let Some(&hit) = hit {
                    prop_assert_eq!(fate(&image, *side, tuple).map(|(slot, ok, _)| (slot, ok)), Some(hit));
                }
            }
        }
    }
}

fn plain(user: &UserPacket) -> Sent {
    Sent {
        ingress: testing::N6,
        bytes: user.bytes(),
    }
}

fn uplink(teid: u32, qfi: u8, user: &UserPacket) -> Sent {
    let bytes = tunnelled(
        testing::N3_ADDRESS,
        teid,
        255,
        Some([0x10, qfi]),
        &[],
        &user.bytes(),
    );
    Sent {
        ingress: testing::N3,
        bytes,
    }
}

fn remote() -> std::net::Ipv4Addr {
    std::net::Ipv4Addr::new(192, 0, 2, 1)
}

fn session() -> SessionRules {
    testing::pdu_session(0x1001, OuterHeaderCreation::gtpu_ipv4(Teid(0x2001), testing::GNB))
}

/// The slot and the key of a packet.
fn found(rules: &SessionRules, sent: &Sent) -> Option<(u16, KeyFields)> {
    let network = testing::network();
    let image = image(rules.clone(), &network).expect("runnable");
    let (side, tuple) = seen(&network, sent).expect("well formed");
    fate(&image, side, &tuple).map(|(slot, _, key)| (slot, key))
}

fn filter(description: &str) -> SdfFilter {
    SdfFilter {
        flow_description: Some(description.parse().expect("a description")),
        ..SdfFilter::default()
    }
}

#[test]
fn a_plain_session_has_one_key_for_each_ue_address_and_direction() {
    let rules = session();
    let dl = plain(&UserPacket::udp(remote(), testing::UE, 53, 4000));
    let ul = uplink(0x1001, 9, &UserPacket::udp(testing::UE, remote(), 4000, 53));
    assert_eq!(found(&rules, &dl), Some((1, KeyFields::ADDRESS)));
    assert_eq!(found(&rules, &ul), Some((0, KeyFields::ADDRESS)));
}

#[test]
fn a_filter_before_the_match_narrows_the_key_and_one_behind_does_not() {
    for (precedence, key) in [(10, KeyFields::TUPLE), (1000, KeyFields::ADDRESS)] {
        let mut rules = session();
        let mut pdi = Pdi::new(SourceInterface::Core);
        pdi.ue_ip = vec![testing::ue_ip()].into();
        pdi.sdf_filters = [filter("permit out 6 from any 80 to assigned")].into();
        rules.create_pdr(testing::pdr(7, precedence, pdi, 2)).unwrap();
        let dl = plain(&UserPacket::udp(remote(), testing::UE, 53, 4000));
        assert_eq!(found(&rules, &dl), Some((1, key)));
    }
}

#[test]
fn a_filter_of_the_other_family_costs_nothing() {
    let mut rules = session();
    let mut pdi = Pdi::new(SourceInterface::Access);
    pdi.f_teid = Some(testing::f_teid(0x1001));
    // The router solicitations that open5GS sends to itself.
    pdi.sdf_filters = [filter("permit out 58 from ff02::2/128 to assigned")].into();
    rules.create_pdr(testing::pdr(7, 1, pdi, 1)).unwrap();
    let ul = uplink(0x1001, 9, &UserPacket::udp(testing::UE, remote(), 4000, 53));
    assert_eq!(found(&rules, &ul), Some((0, KeyFields::ADDRESS)));
    let link_local: std::net::Ipv6Addr = "fe80::1".parse().unwrap();
    let all_routers: std::net::Ipv6Addr = "ff02::2".parse().unwrap();
    let solicitation = UserPacket {
        proto: 58,
        ..UserPacket::udp(link_local, all_routers, 0, 0)
    };
    assert_eq!(
        found(&rules, &uplink(0x1001, 9, &solicitation)),
        Some((2, KeyFields::TUPLE))
    );
}

#[test]
fn a_qfi_in_the_pdi_is_in_the_key() {
    let mut rules = session();
    let mut update = PdrUpdate::new(crate::model::PdrId(1));
    update.pdi = Some(PdiUpdate {
        qfis: Some(vec![Qfi::from_low_bits(9)]),
        ..PdiUpdate::default()
    });
    rules.update_pdr(update).unwrap();
    let user = UserPacket::udp(testing::UE, remote(), 4000, 53);
    assert_eq!(
        found(&rules, &uplink(0x1001, 9, &user)),
        Some((0, KeyFields::ADDRESS | KeyFields::QFI))
    );
    assert_eq!(found(&rules, &uplink(0x1001, 8, &user)), None);
}

#[test]
fn a_later_dynamic_rule_may_have_a_filter_alone() {
    // A PCC rule that comes by modification with no more than a filter (edgecomllc/eupf #643).
    let mut rules = session();
    for (id, source) in [(7, SourceInterface::Access), (8, SourceInterface::Core)] {
        let mut pdi = Pdi::new(source);
        pdi.sdf_filters = [filter("permit out 17 from any 53 to assigned")].into();
        rules.create_pdr(testing::pdr(id, 10, pdi, 1)).unwrap();
    }
    let ul = UserPacket::udp(testing::UE, remote(), 4000, 53);
    let dl = UserPacket::udp(remote(), testing::UE, 53, 4000);
    assert_eq!(
        found(&rules, &uplink(0x1001, 9, &ul)),
        Some((2, KeyFields::TUPLE))
    );
    assert_eq!(found(&rules, &plain(&dl)), Some((3, KeyFields::TUPLE)));
}

#[test]
fn an_empty_filter_takes_everything() {
    // edgecomllc/eupf #537.
    let mut rules = session();
    let mut update = PdrUpdate::new(crate::model::PdrId(2));
    let filters = Some(vec![SdfFilter::default()]);
    update.pdi = Some(PdiUpdate {
        sdf_filters: filters,
        ..PdiUpdate::default()
    });
    rules.update_pdr(update).unwrap();
    let dl = plain(&UserPacket::udp(remote(), testing::UE, 53, 4000));
    assert_eq!(found(&rules, &dl), Some((1, KeyFields::ADDRESS)));
}

#[test]
fn a_filter_id_names_its_definition_wherever_that_is() {
    let mut rules = session();
    let shared = |description: Option<&str>| {
        let filter = description.map(filter).unwrap_or_default();
        vec![SdfFilter {
            filter_id: Some(SdfFilterId(4)),
            ..filter
        }]
    };
    let mut pdi = Pdi::new(SourceInterface::Access);
    pdi.f_teid = Some(testing::f_teid(0x1001));
    pdi.sdf_filters = shared(None).into();
    rules.create_pdr(testing::pdr(7, 10, pdi.clone(), 1)).unwrap();
    let error = compile(&Arc::new(rules.clone()), &testing::network(), &NumberedHops).unwrap_err();
    assert_eq!(error.rule, RuleRef::Pdr(crate::model::PdrId(7)));
    assert_eq!(error.reason, CompileFault::UndefinedFilter(SdfFilterId(4)));

    pdi.source_interface = SourceInterface::Core;
    pdi.f_teid = None;
    pdi.sdf_filters = shared(Some("permit out 17 from any 53 to assigned")).into();
    rules.create_pdr(testing::pdr(8, 10, pdi, 2)).unwrap();
    let ul = |port| uplink(0x1001, 9, &UserPacket::udp(testing::UE, remote(), 4000, port));
    assert_eq!(found(&rules, &ul(53)).map(|(slot, _)| slot), Some(2));
    assert_eq!(found(&rules, &ul(54)).map(|(slot, _)| slot), Some(0));

    // Defined anew, it changes for all; and it stays while it is used.
    let mut update = PdrUpdate::new(crate::model::PdrId(8));
    let filters = Some(shared(Some("permit out 17 from any 54 to assigned")));
    update.pdi = Some(PdiUpdate {
        sdf_filters: filters,
        f_teid: Edit::Keep,
        ..PdiUpdate::default()
    });
    rules.update_pdr(update).unwrap();
    rules.remove_pdr(crate::model::PdrId(8)).unwrap();
    assert_eq!(found(&rules, &ul(54)).map(|(slot, _)| slot), Some(2));
    rules.remove_pdr(crate::model::PdrId(7)).unwrap();
    rules.forget_unused_filters();
    assert_eq!(rules.resolve(&shared(None)[0]), None);
}

#[test]
fn of_equal_precedences_the_older_wins() {
    let mut rules = session();
    let mut pdi = Pdi::new(SourceInterface::Core);
    pdi.ue_ip = vec![testing::ue_ip()].into();
    rules.create_pdr(testing::pdr(7, 255, pdi, 2)).unwrap();
    let dl = plain(&UserPacket::udp(remote(), testing::UE, 53, 4000));
    assert_eq!(found(&rules, &dl).map(|(slot, _)| slot), Some(1));
}

#[test]
fn signalling_finds_its_tunnel_whatever_the_filters() {
    let mut rules = session();
    let mut pdi = Pdi::new(SourceInterface::Access);
    pdi.f_teid = Some(testing::f_teid(0x1001));
    pdi.sdf_filters = [filter("permit out 6 from any to assigned")].into();
    pdi.qfis = vec![Qfi::from_low_bits(5)].into();
    rules.create_pdr(testing::pdr(7, 10, pdi, 1)).unwrap();
    let classifier = image(rules, &testing::network()).unwrap().classifier;
    let local = LocalId(0);
    let slot = |teid, qfi: Option<u8>| {
        let found = classifier.classify_signalling(local, Teid(teid), qfi.and_then(Qfi::new));
        found.map(|decision| decision.pdr)
    };
    assert_eq!(slot(0x1001, None), Some(2));
    assert_eq!(slot(0x1001, Some(5)), Some(2));
    assert_eq!(slot(0x1001, Some(9)), Some(0));
    assert_eq!(slot(0x1002, None), None);
}

#[test]
fn a_ue_with_an_address_of_its_own_has_it_in_the_key() {
    let mut rules = session();
    let mut ue = testing::ue_ip();
    ue.ipv6 = Some((testing::UE_V6, 128));
    let mut update = PdrUpdate::new(crate::model::PdrId(2));
    update.pdi = Some(PdiUpdate {
        ue_ip: Some(vec![ue]),
        ..PdiUpdate::default()
    });
    rules.update_pdr(update).unwrap();
    let v6: std::net::Ipv6Addr = "2001:db8:ffff::1".parse().unwrap();
    let dl = plain(&UserPacket::udp(v6, testing::UE_V6, 53, 4000));
    assert_eq!(found(&rules, &dl), Some((1, KeyFields::TUPLE)));
    let dl = plain(&UserPacket::udp(remote(), testing::UE, 53, 4000));
    assert_eq!(found(&rules, &dl), Some((1, KeyFields::ADDRESS)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What rules read of a packet is in its whole key; and an answer that read no ports is right for all ports.
    #[test]
    fn a_whole_key_holds_what_rules_read(rules in runnable_rules(), sent in any_sent(), ports: [u16; 2]) {
        let network = testing::network();
        let Ok(image) = compile(&Arc::new(rules), &network, &NumberedHops) else { return Ok(()) };
        let Some((side, tuple)) = seen(&network, &sent) else { return Ok(()) };
        let from_key = match whole_key(side, &tuple) {
            Key::V4(key) => tuple_of_v4(&key),
            Key::V6(key) => tuple_of_v6(&key),
        };
        let answer = image.classifier.classify(&PacketView { side, tuple: &tuple });
        prop_assert_eq!(image.classifier.classify(&PacketView { side, tuple: &from_key }), answer);
        if let Some(answer) = answer.filter(|answer| !answer.reads_ports) {
            let [src_port, dst_port] = ports;
            let spi = u32::from(src_port) << 16 | u32::from(dst_port);
            let other = IpTuple { src_port, dst_port, spi, ..tuple };
            prop_assert_eq!(image.classifier.classify(&PacketView { side, tuple: &other }), Some(answer));
        }
    }
}
