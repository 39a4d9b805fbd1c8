//! Octets of IEs, laid out by hand after the figures of TS 29.244 §8.2, and the values they mean, both ways: nodes,
//! rules, QoS and usage.

use std::net::{Ipv4Addr, Ipv6Addr};

use pfcp::group::CreatedNatBinding;
use pfcp::ie::*;
use pfcp::tlv::Writer;
use pfcp::{IeType, Seid};

#[path = "common/vector.rs"]
mod vector;

use vector::{octets, too_short, vector};

const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const V4_HEX: &str = "c0000201";
const V6_HEX: &str = "20010db8000000000000000000000001";

#[test]
fn numbers() {
    vector("0102", PdrId(0x0102));
    vector("80000001", FarId(0x8000_0001));
    assert!(FarId(0x8000_0001).is_predefined() && !UrrId(1).is_predefined());
    vector("00000001", QerId(1));
    vector("00000002", UrrId(2));
    vector("05", BarId(5));
    vector("0009", MarId(9));
    vector("ff", TrafficEndpointId(255));
    vector("000000ff", Precedence(255));
    vector("3f", Qfi(63));
    vector("0000 07d0", AveragingWindow(2000));
    vector("0800", Ethertype(0x0800));
    too_short::<PdrId>("0102", 2);
    too_short::<FarId>("00000001", 4);
}

#[test]
fn spare_bits_of_codes_and_small_numbers_are_not_looked_at() {
    assert_eq!(Qfi::decode(&[0xc9]), Ok(Qfi(9)));
    assert_eq!(SourceInterface::decode(&[0xf1]), Ok(SourceInterface::CORE));
    assert_eq!(
        DestinationInterface::decode(&[0x14]),
        Ok(DestinationInterface::LI_FUNCTION)
    );
    assert_eq!(PdnType::decode(&[0x0b]), Ok(PdnType::IPV4V6));
    assert_eq!(SourceInterface(9).name(), "spare");
    assert_eq!(ThreeGppInterfaceType::N6.name(), "N6");
}

#[test]
fn causes() {
    vector("01", Cause::REQUEST_ACCEPTED);
    vector("49", Cause::RULE_CREATION_MODIFICATION_FAILURE);
    assert_eq!(
        Cause::decode(&[0]).unwrap_err().cause,
        Cause::MANDATORY_IE_INCORRECT
    );
    assert!(Cause::new(40).unwrap().is_accepted() && !Cause::new(200).unwrap().is_accepted());
    assert_eq!(Cause::new(0), None);
    vector("0038", OffendingIe::new(IeType::PDR_ID));
    vector(
        "0038 0102",
        OffendingIeInformation {
            ie_type: IeType::PDR_ID,
            value: &[1, 2],
        },
    );
}

#[test]
fn node_ids() {
    vector(&format!("00 {V4_HEX}"), NodeId::Ipv4(V4));
    vector(&format!("01 {V6_HEX}"), NodeId::Ipv6(V6));
    vector("02 03736d66 03 6f7267", NodeId::Fqdn(b"\x03smf\x03org"));
    vector("02", NodeId::Fqdn(b""));
    too_short::<NodeId<'_>>(&format!("01 {V6_HEX}"), 17);
}

#[test]
fn f_seids() {
    vector(
        &format!("02 0000000000000001 {V4_HEX}"),
        FSeid {
            seid: Seid(1),
            ipv4: Some(V4),
            ipv6: None,
        },
    );
    vector(
        &format!("03 0000000000000001 {V4_HEX} {V6_HEX}"),
        FSeid {
            seid: Seid(1),
            ipv4: Some(V4),
            ipv6: Some(V6),
        },
    );
    too_short::<FSeid>(&format!("03 0000000000000001 {V4_HEX} {V6_HEX}"), 29);
    let neither = FSeid::decode(&[0, 0, 0, 0, 0, 0, 0, 0, 1]).unwrap_err();
    assert_eq!(neither.cause, Cause::MANDATORY_IE_INCORRECT);
}

#[test]
fn f_teids_of_all_spellings() {
    let teid = Teid(0x1234_5678);
    vector(
        &format!("01 12345678 {V4_HEX}"),
        FTeid::Endpoint {
            teid,
            ipv4: Some(V4),
            ipv6: None,
        },
    );
    vector(
        &format!("03 12345678 {V4_HEX} {V6_HEX}"),
        FTeid::Endpoint {
            teid,
            ipv4: Some(V4),
            ipv6: Some(V6),
        },
    );
    vector(
        "00 12345678",
        FTeid::Endpoint {
            teid,
            ipv4: None,
            ipv6: None,
        },
    );
    // Open5GS: both flags and an ID; SD-Core: neither flag, no ID; OAI: IPv4 without ID.
    vector(
        "0f 05",
        FTeid::Choose {
            v4: true,
            v6: true,
            choose_id: Some(5),
        },
    );
    vector(
        "04",
        FTeid::Choose {
            v4: false,
            v6: false,
            choose_id: None,
        },
    );
    vector(
        "05",
        FTeid::Choose {
            v4: true,
            v6: false,
            choose_id: None,
        },
    );
    too_short::<FTeid>(&format!("01 12345678 {V4_HEX}"), 9);
    too_short::<FTeid>("0c 05", 2);
}

#[test]
fn ue_ip_addresses() {
    let none = UeIpAddress::default();
    vector(
        &format!("02 {V4_HEX}"),
        UeIpAddress {
            ipv4: Some(V4),
            ..none
        },
    );
    vector(
        &format!("06 {V4_HEX}"),
        UeIpAddress {
            ipv4: Some(V4),
            is_destination: true,
            ..none
        },
    );
    vector(
        &format!("0b {V4_HEX} {V6_HEX} 04"),
        UeIpAddress {
            ipv4: Some(V4),
            ipv6: Some(V6),
            ipv6_prefix_delegation_bits: Some(4),
            ..none
        },
    );
    vector(
        &format!("41 {V6_HEX} 38"),
        UeIpAddress {
            ipv6: Some(V6),
            ipv6_prefix_length: Some(56),
            ..none
        },
    );
    vector(
        "30",
        UeIpAddress {
            choose_v4: true,
            choose_v6: true,
            ..none
        },
    );
    too_short::<UeIpAddress>(&format!("0b {V4_HEX} {V6_HEX} 04"), 22);
}

#[test]
fn network_instances_are_recognised_in_every_spelling() {
    vector("", NetworkInstance(b""));
    vector("08696e7465726e6574", NetworkInstance(b"\x08internet"));
    for spelling in [
        &b"core.oai.org"[..],
        b"Core.OAI.org",
        b"\x04core\x03oai\x03org",
        b"\x04core\x03oai\x03org\0",
    ] {
        assert!(
            NetworkInstance(spelling).names("core.oai.org"),
            "{:?}",
            NetworkInstance(spelling)
        );
    }
    for other in [
        &b""[..],
        b"core",
        b"\x04core",
        b"\x04core\x03oai\x03orgx",
        b"\x05core",
        b"\xffcore.oai.org",
    ] {
        assert!(
            !NetworkInstance(other).names("core.oai.org"),
            "{:?}",
            NetworkInstance(other)
        );
    }
}

#[test]
fn sdf_filters_keep_every_field() {
    let description = "permit out 17 from 198.51.100.1 to assigned";
    let hex: String = description.bytes().map(|octet| format!("{octet:02x}")).collect();
    let none = SdfFilter::default();
    vector(
        &format!("0100 002b {hex}"),
        SdfFilter {
            flow_description: Some(Octets16(description.as_bytes())),
            ..none
        },
    );
    vector(
        "1000 00000007",
        SdfFilter {
            sdf_filter_id: Some(7),
            ..none
        },
    );
    vector("0000", none);
    vector(
        "1f00 0001 78 2cfc 0a0b0c0d 012345 00000009",
        SdfFilter {
            flow_description: Some(Octets16(b"x")),
            tos_traffic_class: Some([0x2c, 0xfc]),
            security_parameter_index: Some(0x0a0b_0c0d),
            flow_label: Some([0x01, 0x23, 0x45]),
            sdf_filter_id: Some(9),
        },
    );
    too_short::<SdfFilter<'_>>("1f00 0001 78 2cfc 0a0b0c0d 012345 00000009", 18);
}

#[test]
fn bit_fields_keep_their_length() {
    vector("02", ApplyAction::FORW);
    vector("0c00", (ApplyAction::BUFF | ApplyAction::NOCP).on_octets(2));
    vector("1001", ApplyAction::DUPL | ApplyAction::EDRT);
    assert_eq!(ApplyAction::decode(&[0x0c, 0]).unwrap().octets(), 2);
    vector("0201", ReportingTriggers::VOLTH | ReportingTriggers::VOLQU);
    vector(
        "030000",
        (ReportingTriggers::PERIO | ReportingTriggers::VOLTH).on_octets(3),
    );
    vector(
        "800802",
        UsageReportTrigger::IMMER | UsageReportTrigger::TERMR | UsageReportTrigger::TEBUR,
    );
    vector("10", MeasurementInformation::MNOP);
    too_short::<ReportingTriggers>("0201", 2);
    too_short::<ApplyAction>("02", 1);
    let features = UpFunctionFeatures::FTUP | UpFunctionFeatures::EMPU | UpFunctionFeatures::BUNDL;
    vector("100140", features);
    assert!(features.contains(UpFunctionFeatures::FTUP) && !features.contains(UpFunctionFeatures::UEIP));
    vector("0002", CpFunctionFeatures::RPGUR);
    vector(
        "100140000000000000000001",
        features | UpFunctionFeatures::from_bits(1 << 88),
    );
}

#[test]
fn outer_headers() {
    let gtp_u = OuterHeaderCreation::gtp_u(Teid(7), Some(V4), None);
    vector(&format!("0100 00000007 {V4_HEX}"), gtp_u);
    vector(
        &format!("0300 00000007 {V4_HEX} {V6_HEX}"),
        OuterHeaderCreation::gtp_u(Teid(7), Some(V4), Some(V6)),
    );
    let udp = OuterHeaderCreation {
        description: OuterHeaderCreation::UDP_IPV6,
        teid: None,
        ipv4: None,
        ipv6: Some(V6),
        port: Some(5000),
        c_tag: None,
        s_tag: None,
    };
    vector(&format!("0800 {V6_HEX} 1388"), udp);
    let n19 = OuterHeaderCreation {
        description: 0x0101,
        ..gtp_u
    };
    vector(&format!("0101 00000007 {V4_HEX}"), n19);
    assert!(
        n19.adds(OuterHeaderCreation::N19_INDICATION) && !gtp_u.adds(OuterHeaderCreation::N19_INDICATION)
    );
    too_short::<OuterHeaderCreation>(&format!("0100 00000007 {V4_HEX}"), 10);

    vector("00", OuterHeaderRemoval::GTP_U_UDP_IPV4);
    let without_psc = OuterHeaderRemoval {
        description: 6,
        extension_header_deletion: Some(1),
    };
    vector("0601", without_psc);
    assert!(without_psc.deletes_pdu_session_container() && without_psc.is_gtp_u());
}

#[test]
fn forwarding() {
    vector("2cfc", TransportLevelMarking([0x2c, 0xfc]));
    vector(
        "03 616263",
        ForwardingPolicy {
            identifier: Octets8(b"abc"),
        },
    );
    vector(
        "00 01 58 02 7979",
        HeaderEnrichment {
            header_type: 0,
            name: Octets8(b"X"),
            value: Octets8(b"yy"),
        },
    );
    let url = RedirectInformation {
        address_type: 2,
        address: Octets16(b"u://"),
        other_address: None,
        port: None,
    };
    vector("02 0004 753a2f2f", url);
    let both = RedirectInformation {
        address_type: 8,
        address: Octets16(b"4"),
        other_address: Some(Octets16(b"6")),
        port: Some(80),
    };
    vector("08 0001 34 0001 36 0050", both);
    let port = RedirectInformation {
        address_type: 6,
        address: Octets16(b"4"),
        other_address: None,
        port: Some(80),
    };
    vector("06 0001 34 0050", port);
    vector("ff", DlBufferingSuggestedPacketCount::Short(255));
    vector("0100", DlBufferingSuggestedPacketCount::Long(256));
    vector(
        "03 2e 09",
        DownlinkDataServiceInformation {
            paging_policy_indication: Some(0x2e),
            qfi: Some(9),
        },
    );
    let replacement = IpAddressAndPortNumberReplacement {
        destination_ipv4: Some(V4),
        destination_port: Some(53),
        ..Default::default()
    };
    vector(&format!("0500 {V4_HEX} 0035"), replacement);
}

#[test]
fn rates_and_gates() {
    vector(
        "00000186a0 000007a120",
        Mbr {
            uplink: 100_000,
            downlink: 500_000,
        },
    );
    vector(
        "ffffffffff 0000000000",
        Gbr {
            uplink: Gbr::MAX,
            downlink: 0,
        },
    );
    too_short::<Mbr>("00000186a0000007a120", 10);
    vector("00", GateStatus::OPEN);
    vector("05", GateStatus::CLOSED);
    vector(
        "04",
        GateStatus {
            uplink_closed: true,
            downlink_closed: false,
        },
    );
    assert_eq!(GateStatus::decode(&[0x0e]), Ok(GateStatus::CLOSED));
    let ten_a_minute = PacketsPerUnit {
        time_unit: 0,
        packets: 10,
    };
    let per_hour = PacketsPerUnit {
        time_unit: 2,
        packets: 100,
    };
    vector(
        "01 00 000a",
        PacketRate {
            uplink: Some((ten_a_minute, None)),
            downlink: None,
            additional: false,
        },
    );
    vector(
        "07 00000a 020064 020064 00000a",
        PacketRate {
            uplink: Some((ten_a_minute, Some(per_hour))),
            downlink: Some((per_hour, Some(ten_a_minute))),
            additional: true,
        },
    );
    vector(
        "05 0001 0002 0000000100000000",
        PacketRateStatus {
            uplink: Some((1, Some(2))),
            downlink: None,
            additional: true,
            valid_until: Some(1 << 32),
        },
    );
    vector(
        "03 2cfc 2001",
        DlFlowLevelMarking {
            tos_traffic_class: Some([0x2c, 0xfc]),
            service_class_indicator: Some([0x20, 0x01]),
        },
    );
}

#[test]
fn usage() {
    vector(
        "03 0000000000000064 0000000000000032",
        VolumeThreshold {
            total: Some(100),
            uplink: Some(50),
            downlink: None,
        },
    );
    vector(
        "04 0000000000000001",
        VolumeQuota {
            total: None,
            uplink: None,
            downlink: Some(1),
        },
    );
    vector(
        &format!("3f{}", "0000000000000001".repeat(6)),
        VolumeMeasurement {
            total: Some(1),
            uplink: Some(1),
            downlink: Some(1),
            total_packets: Some(1),
            uplink_packets: Some(1),
            downlink_packets: Some(1),
        },
    );
    vector(
        "02 0000000000000009",
        DroppedDlTrafficThreshold {
            packets: None,
            octets: Some(9),
        },
    );
    too_short::<VolumeThreshold>("0300000000000000640000000000000032", 17);
    vector("0000003c", TimeThreshold(60));
    vector(
        "01 0003 616263",
        FlowInformation {
            direction: 1,
            flow_description: Octets16(b"abc"),
        },
    );
    vector(
        "01 0000001e",
        TimeQuotaMechanism {
            base_time_interval_type: 1,
            base_time_interval: 30,
        },
    );
    vector(
        "ffffffffffffffff fffffffe",
        Multiplier {
            digits: -1,
            exponent: -2,
        },
    );
    vector("8000", AdditionalUsageReportsInformation::WillFollow);
    vector("0102", AdditionalUsageReportsInformation::Count(0x0102));
}

#[test]
fn times() {
    // 2023-11-14 22:13:20 UTC, and after the counter's turn in 2036.
    vector("e8fe6f80", RecoveryTimeStamp::from_unix(1_700_000_000));
    assert_eq!(StartTime::from_unix(1_700_000_000).unix(), 1_700_000_000);
    assert_eq!(EndTime::from_unix(2_200_000_000).unix(), 2_200_000_000);
    vector("21", Timer(0x21));
    let seconds = [
        (0x05, Some(10)),
        (0x21, Some(60)),
        (0x42, Some(1200)),
        (0x61, Some(3600)),
        (0x81, Some(36_000)),
        (0xe0, None),
        (0xa1, Some(60)),
    ];
    for (octet, seconds) in seconds {
        assert_eq!(Timer(octet).seconds(), seconds, "{octet:#x}");
    }
    assert_eq!(
        GracefulReleasePeriod::from_seconds(61),
        GracefulReleasePeriod(0x1f)
    );
    assert_eq!(GracefulReleasePeriod::from_seconds(63).seconds(), Some(120));
    assert_eq!(
        GracefulReleasePeriod::from_seconds(u32::MAX).seconds(),
        Some(31 * 36_000)
    );
}

/// After the octets that travelping/upg-vpp sends, and those that travelping/pfcplib makes of the same values.
#[test]
fn nat_of_the_broadband_forum() {
    vector("0de9 40000000", BbfUpFunctionFeatures::NAT_UP);
    vector("0de9 01", BbfApplyAction::NAT);
    vector("0de9 706f6f6c2d74657374", BbfNatPortBlock(b"pool-test"));
    vector("0de9", BbfNatPortBlock(b""));
    vector("0de9 c0000201", BbfNatOutsideAddress(V4));
    vector(
        "0de9 0400 05ff",
        BbfNatExternalPortRange {
            first: 1_024,
            last: 1_535,
        },
    );
    too_short::<BbfUpFunctionFeatures>("0de9 40000000", 6);
    too_short::<BbfApplyAction>("0de9 01", 3);
    too_short::<BbfNatPortBlock<'_>>("0de9", 2);
    too_short::<BbfNatOutsideAddress>("0de9 c0000201", 6);
    too_short::<BbfNatExternalPortRange>("0de9 0400 05ff", 6);
    let of_another = BbfApplyAction::decode(octets("48f9 01")).unwrap_err();
    assert_eq!(of_another.cause, Cause::MANDATORY_IE_INCORRECT);
}

#[test]
fn a_created_nat_binding_is_a_group_of_a_vendor() {
    let mut binding = CreatedNatBinding::new();
    binding.port_block = Some(BbfNatPortBlock(b"testing"));
    binding.outside_address = Some(BbfNatOutsideAddress(V4));
    binding.external_port_range = Some(BbfNatExternalPortRange {
        first: 1_024,
        last: 1_535,
    });
    let hex = "48f9 8012 0009 0de9 74657374696e67 800e 0006 0de9 c0000201 8010 0006 0de9 0400 05ff";
    let read = CreatedNatBinding::decode(octets(hex)).unwrap();
    assert_eq!(
        (read.port_block, read.outside_address, read.external_port_range),
        (
            binding.port_block,
            binding.outside_address,
            binding.external_port_range
        )
    );
    let mut buf = [0; 64];
    let length = 64 - binding.put(Writer::new(&mut buf)).unwrap().room();
    assert_eq!(&buf[..length], [octets("800a 0023"), octets(hex)].concat());
    too_short::<CreatedNatBinding<'_>>("48f9", 2);
    // Another vendor's, and an IE in it that is cut.
    let cause = |hex| CreatedNatBinding::decode(octets(hex)).unwrap_err().cause;
    assert_eq!(cause("0de9 8012 0002 0de9"), Cause::MANDATORY_IE_INCORRECT);
    assert_eq!(cause("48f9 8012 0009 0de9"), Cause::INVALID_LENGTH);
    assert_eq!(cause("48f9 800e 0004 0de9 c000"), Cause::INVALID_LENGTH);
}
