//! What the codec does in a quick way for speed is what it does in the slow one.

use std::fmt::Debug;

use pfcp::ie::*;
use pfcp::message::{AssociationSetupRequest, Body};
use pfcp::tlv::{Tlv, Tlvs, Writer};
use pfcp::{Header, MessageType, NoRoom, SequenceNumber};
use proptest::collection::vec;
use proptest::prelude::*;

/// A glance never takes what a look refuses, and filling in place gives what reading gives.
fn glance<'a, T: Ie<'a> + PartialEq + Debug>(value: &'a [u8]) {
    let read = T::decode(value).ok();
    assert!(
        read.is_some() || !T::is_surely_good(value),
        "a glance at {value:02x?}"
    );
    let mut slot = None;
    assert_eq!(T::fill_slot(&mut slot, value), read.is_some());
    assert_eq!(slot, read);
}

macro_rules! glances {
    ($value:ident: $($ty:ident)*) => {
        $(glance::<$ty>($value);)*
    };
}

fn glance_at_all(value: &[u8]) {
    glances! { value:
        UeIpAddress RemoteGtpUPeer AlternativeSmfIpAddress CpPfcpEntityIpAddress CpIpAddress SourceIpAddress
        NumberOfUeIpAddresses DlFlowLevelMarking PacketDelayThresholds QosMonitoringMeasurement UserId
        VolumeThreshold VolumeMeasurement DroppedDlTrafficThreshold SdfFilter PfdContents
        MacAddress DownlinkDataServiceInformation
        IpAddressAndPortNumberReplacement OuterHeaderCreation FTeid FSeid NodeId PdrId FarId ApplyAction Mbr
        NetworkInstance SNssai TransportLevelMarking
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn a_glance_agrees_with_a_look(flags in any::<[u8; 2]>(), lengths in vec(0..4_u8, 0..40), rest in vec(any::<u8>(), 0..40)) {
        glance_at_all(&[&flags[..], &lengths].concat());
        glance_at_all(&[&flags[..], &rest].concat());
        glance_at_all(&rest);
    }
}

#[test]
fn names_of_every_length_are_copied_whole() {
    let name: Vec<u8> = (0..200).collect();
    for length in 0..name.len() {
        let tlv = NetworkInstance(&name[..length]);
        let mut buf = [0xff; 210];
        let room = tlv.put(Writer::new(&mut buf)).unwrap().room();
        assert_eq!(room, 206 - length);
        let read = Tlvs::new(&buf[..4 + length]).next().unwrap().unwrap();
        assert_eq!(
            (read.ie_type, read.value),
            (NetworkInstance::TYPE, &name[..length])
        );
        assert!(buf[4 + length..].iter().all(|octet| *octet == 0xff));
    }
}

#[test]
fn what_no_length_field_can_say_has_no_room() {
    let value = vec![7; 65_536];
    let mut buf = vec![0; 70_000];
    let tlv = |length: usize| Tlv {
        ie_type: NetworkInstance::TYPE,
        value: &value[..length],
    };
    assert_eq!(Writer::new(&mut buf).tlv(&tlv(65_535)).unwrap().room(), 0);
    assert_eq!(buf[..5], [0, 22, 0xff, 0xff, 7]);
    assert!(Writer::new(&mut buf).tlv(&tlv(65_536)).is_err());

    let node = NodeId::Ipv4("192.0.2.1".parse().unwrap());
    let header = Header::node(MessageType::ASSOCIATION_SETUP_REQUEST, SequenceNumber::new(1));
    let request = AssociationSetupRequest::new(node, RecoveryTimeStamp(0));
    let of_name = |length: usize| AssociationSetupRequest {
        smf_set_id: Some(SmfSetId {
            fqdn: &value[..length],
        }),
        ..request
    };
    let shortest = of_name(0).encode(&header, &mut buf).unwrap();
    let longest = 65_539 - shortest;
    assert_eq!(of_name(longest).encode(&header, &mut buf), Ok(65_539));
    assert_eq!(buf[2..4], [0xff, 0xff]);
    assert_eq!(of_name(longest + 1).encode(&header, &mut buf), Err(NoRoom));
}
