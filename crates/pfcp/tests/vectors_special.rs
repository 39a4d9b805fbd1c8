//! Octets of IEs, laid out by hand after the figures of TS 29.244 §8.2, and the values they mean, both ways: Ethernet,
//! users, sets, pools, and the features of few.

use std::net::{Ipv4Addr, Ipv6Addr};

use pfcp::IeType;
use pfcp::group::PfdPartialFailureInformation;
use pfcp::ie::*;

#[path = "common/vector.rs"]
mod vector;

use vector::{too_short, vector};

const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const V4_OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const V4_HEX: &str = "c0000201";
const V6_HEX: &str = "20010db8000000000000000000000001";

#[test]
fn ethernet() {
    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    let mac = MAC;
    vector(
        "01 020000000001",
        MacAddress {
            source: Some(mac),
            ..Default::default()
        },
    );
    vector(
        "05 020000000001 020000000001",
        MacAddress {
            source: Some(mac),
            upper_source: Some(mac),
            ..Default::default()
        },
    );
    // PCP 5, DEI, VID 0xabc: the VID's upper bits stand above the others.
    vector(
        "07 ad bc",
        CTag {
            pcp: Some(5),
            dei: Some(true),
            vid: Some(0xabc),
        },
    );
    vector(
        "04 f0 ff",
        STag {
            pcp: None,
            dei: None,
            vid: Some(0xfff),
        },
    );
    assert_eq!(
        CTag::decode(&[0, 0xff, 0xff]),
        Ok(CTag {
            pcp: None,
            dei: None,
            vid: None
        })
    );
    vector(
        "01 020000000001",
        MacAddressesDetected {
            addresses: &[MAC],
            c_tag: None,
            s_tag: None,
        },
    );
    let tagged = MacAddressesRemoved {
        addresses: &[MAC],
        c_tag: Some(Octets8(&[4, 0, 9])),
        s_tag: Some(Octets8(&[])),
    };
    vector("01 020000000001 03 040009 00", tagged);
    too_short::<MacAddressesDetected<'_>>("02 020000000001 020000000002", 13);
}

#[test]
fn users_and_traces() {
    let user = UserId {
        imsi: Some(Octets8(&[0x09, 0x10])),
        gpsi: Some(Octets8(b"g")),
        ..Default::default()
    };
    vector("21 02 0910 01 67", user);
    too_short::<UserId<'_>>("21 02 0910 01 67", 6);
    let trace = TraceInformation {
        trace_reference: [0x00, 0xf1, 0x10, 1, 2, 3],
        triggering_events: Octets8(&[1]),
        session_trace_depth: 2,
        interfaces: Octets8(&[]),
        collection_entity: Octets8(&[192, 0, 2, 9]),
    };
    vector("00f110 010203 0101 02 00 04c0000209", trace);
    vector(
        "01 ffffff",
        SNssai {
            sst: 1,
            sd: [0xff; 3],
        },
    );
    vector("00 03736d66", SmfSetId { fqdn: b"\x03smf" });
    vector("0004 706f6f6c", UeIpAddressPoolIdentity(Octets16(b"pool")));
}

#[test]
fn failed_rules() {
    vector("00 0001", FailedRuleId::Pdr(PdrId(1)));
    vector("01 00000002", FailedRuleId::Far(FarId(2)));
    vector("02 00000003", FailedRuleId::Qer(QerId(3)));
    vector("03 00000004", FailedRuleId::Urr(UrrId(4)));
    vector("04 05", FailedRuleId::Bar(BarId(5)));
    vector("05 0006", FailedRuleId::Mar(MarId(6)));
    vector("06 07", FailedRuleId::Srr(SrrId(7)));
    assert_eq!(
        FailedRuleId::decode(&[9, 0, 0, 0, 2]),
        Ok(FailedRuleId::Far(FarId(2)))
    );
    too_short::<FailedRuleId>("00 0001", 3);
}

#[test]
fn sets_of_sessions() {
    let csids = &[[0, 1], [0, 2]];
    let node = FqCsidNode::Ipv4(V4);
    vector(
        &format!("02 {V4_HEX} 0001 0002 05"),
        FqCsid {
            node,
            csids,
            node_type: Some(5),
        },
    );
    vector(
        &format!("02 {V4_HEX} 0001 0002"),
        FqCsid {
            node,
            csids,
            node_type: None,
        },
    );
    vector(
        "20 00000000 02",
        FqCsid {
            node: FqCsidNode::Operator(0),
            csids: &[],
            node_type: Some(2),
        },
    );
    assert_eq!(
        FqCsid::decode(&[0x30, 0, 0, 0, 0]).unwrap_err().cause,
        Cause::MANDATORY_IE_INCORRECT
    );
    too_short::<FqCsid<'_>>(&format!("12 {V6_HEX} 0001 0002"), 21);
}

#[test]
fn peers_and_pools() {
    let peer = RemoteGtpUPeer {
        ipv4: Some(V4),
        destination_interface: Some(Octets16(&[1])),
        network_instance: Some(Octets16(b"n3")),
        ..Default::default()
    };
    vector(&format!("0e {V4_HEX} 0001 01 0002 6e33"), peer);
    let smf = AlternativeSmfIpAddress {
        is_preferred: true,
        ipv4: Some(V4_OTHER),
        ipv6: Some(V6),
    };
    vector(&format!("07 c0000209 {V6_HEX}"), smf);
    vector(
        &format!("06 {V4_HEX} 18"),
        SourceIpAddress {
            ipv4: Some(V4),
            ipv6: None,
            prefix_length: Some(24),
        },
    );
    vector(
        "03 00000100 00000002",
        NumberOfUeIpAddresses {
            ipv4: Some(256),
            ipv6: Some(2),
        },
    );
    vector("08", IpMulticastAddress::Any);
    vector(
        &format!("06 {V4_HEX} c0000209"),
        IpMulticastAddress::Ipv4(V4, Some(V4_OTHER)),
    );
    vector(&format!("01 {V6_HEX}"), IpMulticastAddress::Ipv6(V6, None));
    assert!(IpMulticastAddress::decode(&[3, 0, 0, 0, 0]).is_err());
}

#[test]
fn failed_applications() {
    let failed = |id, cause| PfdPartialFailureInformation::new(ApplicationId(id), cause);
    assert_eq!(PfdPartialFailureInformation::TYPE, IeType(397));
    vector(
        "0018 0004 73686f70 0013 0001 5a",
        failed(b"shop", Cause::PFD_CONTENTS_SYNTAX_ERROR),
    );
    vector(
        "0018 0001 61 0013 0001 4c",
        failed(b"a", Cause::SERVICE_NOT_SUPPORTED),
    );
    // Both are mandatory.
    for (part, missing) in [
        ("0018 0001 61", IeType::CAUSE),
        ("0013 0001 4c", IeType::APPLICATION_ID),
    ] {
        let error = PfdPartialFailureInformation::decode(vector::octets(part)).unwrap_err();
        assert_eq!(error.offending, Some(missing));
    }
}

#[test]
fn applications() {
    let pfd = PfdContents {
        url: Some(Octets16(b"u")),
        additional_url: Some(Octets16(b"\0\x01a\0\x02bc")),
        ..Default::default()
    };
    vector("4200 0001 75 0007 000161 00026263", pfd);
    let urls: Vec<_> = pfd.additional_url.unwrap().strings().collect();
    assert_eq!(urls, [&b"a"[..], b"bc"]);
    assert_eq!(Octets16(b"\0\x05ab").strings().count(), 0);
    vector(
        "0002 7b7d",
        DnsQueryFilter {
            domain_name_pattern: Octets16(b"{}"),
        },
    );
}

#[test]
fn ies_of_features_that_are_not_supported_keep_their_octets() {
    for octets in [&b""[..], b"\xff", b"\0\xaa\0\x02\0\x09"] {
        let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        vector(&hex, CreateMar(octets));
        vector(&hex, ProvideAtsssControlInformation(octets));
        vector(&hex, TscManagementInformation(octets));
        vector(&hex, ClockDriftControlInformation(octets));
        vector(&hex, MbsSessionIdentifier(octets));
        vector(&hex, AddMbsUnicastParameters(octets));
    }
}

#[test]
fn other_accesses() {
    vector(
        "05",
        AccessAvailabilityInformation {
            access_type: 1,
            availability_status: 1,
        },
    );
    let user = L2tpUserAuthentication {
        authen_type: 3,
        name: Some(Octets8(b"u")),
        challenge: None,
        response: Some(Octets8(b"pw")),
        id: Some(7),
    };
    vector("0003 0d 01 75 02 7077 07", user);
    vector(V4_HEX, LnsAddress::Ipv4(V4));
    vector(V6_HEX, LnsAddress::Ipv6(V6));
    vector("000001", TunnelPreference([0, 0, 1]));
    vector(
        "03 0a 2e",
        DscpToPpiMappingInformation {
            ppi: 3,
            dscps: &[0x0a, 0x2e],
        },
    );
}

#[test]
fn delays_and_nodes() {
    vector(
        "28af 81",
        VendorSpecificNodeReportType {
            enterprise_id: 10415,
            flags: &[0x81],
        },
    );
    vector(
        "03 00000005 00000006",
        PacketDelayThresholds {
            downlink: Some(5),
            uplink: Some(6),
            round_trip: None,
        },
    );
    vector(
        "0c 00000007",
        QosMonitoringMeasurement {
            downlink: None,
            uplink: None,
            round_trip: Some(7),
            failed: true,
        },
    );
    vector(&"ab".repeat(16), NfInstanceId([0xab; 16]));
}
