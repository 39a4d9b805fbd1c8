//! Responses to wrong messages, by the rules of TS 29.244 §7.6.

use std::net::Ipv4Addr;

use pfcp::group::{CreateFar, CreatePdr, Pdi, UpdateFar, UpdatePdr};
use pfcp::ie::*;
use pfcp::message::*;
use pfcp::{
    Edit, Error, Frame, Frames, Header, HeaderError, IeType, Interface, Message, MessageType, Repeated, Seid,
    SequenceNumber,
};

const SEQUENCE: SequenceNumber = SequenceNumber::new(7);

/// An IE of that type and value.
fn ie(ie_type: IeType, value: &[u8]) -> Vec<u8> {
    let mut octets = ie_type.0.to_be_bytes().to_vec();
    octets.extend((value.len() as u16).to_be_bytes());
    octets.extend(value);
    octets
}

fn grouped(ie_type: IeType, ies: &[Vec<u8>]) -> Vec<u8> {
    ie(ie_type, &ies.concat())
}

fn node_id() -> Vec<u8> {
    ie(IeType::NODE_ID, &[0, 192, 0, 2, 9])
}

fn f_seid() -> Vec<u8> {
    ie(IeType::F_SEID, &[2, 0, 0, 0, 0, 0, 0, 0, 1, 192, 0, 2, 9])
}

fn pdr_id() -> Vec<u8> {
    ie(IeType::PDR_ID, &[0, 1])
}

fn pdi() -> Vec<u8> {
    grouped(IeType::PDI, &[ie(IeType::SOURCE_INTERFACE, &[0])])
}

fn create_pdr() -> Vec<u8> {
    grouped(
        IeType::CREATE_PDR,
        &[pdr_id(), ie(IeType::PRECEDENCE, &[0, 0, 0, 1]), pdi()],
    )
}

fn create_far() -> Vec<u8> {
    grouped(
        IeType::CREATE_FAR,
        &[ie(IeType::FAR_ID, &[0, 0, 0, 1]), ie(IeType::APPLY_ACTION, &[2])],
    )
}

fn establishment(extra: &[Vec<u8>]) -> Vec<u8> {
    [&[node_id(), f_seid(), create_pdr(), create_far()], extra]
        .concat()
        .concat()
}

fn decode(message_type: MessageType, body: &[u8]) -> Result<Message<'_>, Error> {
    Message::decode(&Frame {
        header: Header::session(message_type, Seid(1), SEQUENCE),
        body,
    })
}

fn decode_establishment(body: &[u8]) -> Result<SessionEstablishmentRequest<'_>, Error> {
    SessionEstablishmentRequest::decode(body)
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(result: Result<T, Error>, cause: Cause, offending: IeType) {
    let error = result.unwrap_err();
    assert_eq!(
        (error.cause, error.offending),
        (cause, Some(offending)),
        "{error}"
    );
}

#[test]
fn missing_mandatory_ies_are_named_in_the_order_of_the_table() {
    let parts = [node_id(), f_seid(), create_pdr(), create_far()];
    let types = [
        IeType::NODE_ID,
        IeType::F_SEID,
        IeType::CREATE_PDR,
        IeType::CREATE_FAR,
    ];
    for (missing, ie_type) in types.into_iter().enumerate() {
        let body = [&parts[..missing], &parts[missing + 1..]].concat().concat();
        assert_refused(decode_establishment(&body), Cause::MANDATORY_IE_MISSING, ie_type);
    }
    assert_refused(
        decode_establishment(&[]),
        Cause::MANDATORY_IE_MISSING,
        IeType::NODE_ID,
    );
}

#[test]
fn what_is_mandatory_in_a_mandatory_group_is_mandatory() {
    let pdr = grouped(IeType::CREATE_PDR, &[pdr_id()]);
    let body = [node_id(), f_seid(), pdr, create_far()].concat();
    assert_refused(
        decode_establishment(&body),
        Cause::MANDATORY_IE_MISSING,
        IeType::PDI,
    );

    let pdi = grouped(IeType::PDI, &[ie(IeType::NETWORK_INSTANCE, b"internet")]);
    let pdr = grouped(IeType::CREATE_PDR, &[pdr_id(), pdi]);
    let body = [node_id(), f_seid(), pdr, create_far()].concat();
    assert_refused(
        decode_establishment(&body),
        Cause::MANDATORY_IE_MISSING,
        IeType::SOURCE_INTERFACE,
    );
}

#[test]
fn what_is_mandatory_in_a_conditional_group_is_conditional() {
    // free5gc/free5gc #798: Create PDR in a modification without what it needs.
    let body = grouped(IeType::CREATE_PDR, &[pdr_id()]);
    let result = decode(MessageType::SESSION_MODIFICATION_REQUEST, &body);
    assert_refused(result, Cause::CONDITIONAL_IE_MISSING, IeType::PDI);

    let body = grouped(IeType::REMOVE_PDR, &[]);
    let body = [body, grouped(IeType::REMOVE_FAR, &[ie(IeType::PDR_ID, &[0, 1])])].concat();
    let result = decode(MessageType::SESSION_MODIFICATION_REQUEST, &body);
    assert_refused(result, Cause::CONDITIONAL_IE_MISSING, IeType::FAR_ID);
}

#[test]
fn an_optional_group_that_lacks_something_counts_as_absent() {
    let body = establishment(&[grouped(
        IeType::CREATE_BAR,
        &[ie(IeType::SUGGESTED_BUFFERING_PACKETS_COUNT, &[9])],
    )]);
    assert_eq!(decode_establishment(&body).unwrap().create_bar, None);
}

#[test]
fn an_ie_that_is_cut_has_an_invalid_length() {
    let whole = establishment(&[]);
    let longer_than_the_message = [&whole[..], &[0, 113, 0, 9, 1]].concat();
    assert_refused(
        decode_establishment(&longer_than_the_message),
        Cause::INVALID_LENGTH,
        IeType::PDN_TYPE,
    );
    let header_cut = [&whole[..], &[0, 113, 0]].concat();
    assert_refused(
        decode_establishment(&header_cut),
        Cause::INVALID_LENGTH,
        IeType::PDN_TYPE,
    );
    let type_cut = [&whole[..], &[0]].concat();
    assert_eq!(decode_establishment(&type_cut).unwrap_err().offending, None);

    let longer_than_the_group = ie(IeType::CREATE_PDR, &[0, 56, 0, 3, 0, 1]);
    let body = [node_id(), f_seid(), longer_than_the_group, create_far()].concat();
    assert_refused(decode_establishment(&body), Cause::INVALID_LENGTH, IeType::PDR_ID);
}

#[test]
fn a_value_too_short_for_its_fields_has_an_invalid_length_even_if_optional() {
    let body = establishment(&[ie(IeType::USER_PLANE_INACTIVITY_TIMER, &[0, 0, 1])]);
    assert_refused(
        decode_establishment(&body),
        Cause::INVALID_LENGTH,
        IeType::USER_PLANE_INACTIVITY_TIMER,
    );

    // omec-project/upf #937: an SDF filter whose description is shorter than it says.
    let filter = ie(IeType::SDF_FILTER, &[1, 0, 0, 9, b'p']);
    let pdi = grouped(IeType::PDI, &[ie(IeType::SOURCE_INTERFACE, &[0]), filter]);
    let body = [
        node_id(),
        f_seid(),
        grouped(IeType::CREATE_PDR, &[pdr_id(), pdi]),
        create_far(),
    ]
    .concat();
    assert_refused(
        decode_establishment(&body),
        Cause::INVALID_LENGTH,
        IeType::SDF_FILTER,
    );
}

#[test]
fn a_mandatory_ie_without_meaning_is_incorrect() {
    let unknown_form = ie(IeType::NODE_ID, &[3, 1, 2, 3, 4]);
    let body = [unknown_form, f_seid(), create_pdr(), create_far()].concat();
    assert_refused(
        decode_establishment(&body),
        Cause::MANDATORY_IE_INCORRECT,
        IeType::NODE_ID,
    );

    let reserved_cause = ie(IeType::CAUSE, &[0]);
    let result = decode(MessageType::SESSION_MODIFICATION_RESPONSE, &reserved_cause);
    assert_refused(result, Cause::MANDATORY_IE_INCORRECT, IeType::CAUSE);
}

#[test]
fn an_optional_ie_without_meaning_counts_as_absent() {
    let address = ie(IeType::IP_MULTICAST_ADDRESS, &[0]);
    let multicast = grouped(IeType::IP_MULTICAST_ADDRESSING_INFO, &[address]);
    let pdi = grouped(IeType::PDI, &[ie(IeType::SOURCE_INTERFACE, &[0]), multicast]);
    let body = [
        node_id(),
        f_seid(),
        grouped(IeType::CREATE_PDR, &[pdr_id(), pdi]),
        create_far(),
    ]
    .concat();
    let message = decode_establishment(&body).unwrap();
    let pdi = message.create_pdr.first().unwrap().pdi;
    assert!(pdi.ip_multicast_addressing_info.is_empty());
}

#[test]
fn the_first_of_repeated_ies_counts() {
    let body = establishment(&[
        ie(IeType::PDN_TYPE, &[1]),
        ie(IeType::PDN_TYPE, &[2]),
        ie(IeType::NODE_ID, &[9]),
    ]);
    let message = decode_establishment(&body).unwrap();
    assert_eq!(message.pdn_type, Some(PdnType::IPV4));
    assert_eq!(message.node_id, NodeId::Ipv4(Ipv4Addr::new(192, 0, 2, 9)));
}

#[test]
fn unknown_misplaced_and_vendor_ies_are_passed_over_and_kept() {
    let extra = [
        ie(IeType(9999), b"?"),
        ie(IeType(0x8001), &[0, 9, 1]),
        ie(IeType::MBR, b"elsewhere"),
        ie(IeType(0), &[]),
    ];
    let body = [&extra[..], &[node_id(), f_seid(), create_pdr(), create_far()]]
        .concat()
        .concat();
    let message = decode_establishment(&body).unwrap();
    assert_eq!(message.create_pdr.len(), 1);

    let mut vendor = message
        .layout
        .tlvs()
        .flatten()
        .filter(|tlv| tlv.ie_type.is_vendor_specific());
    let tlv = vendor.next().unwrap();
    assert_eq!((tlv.enterprise_id(), tlv.data()), (Some(9), &[1][..]));

    let mut buf = [0; 512];
    let length = message
        .encode(&Header::session(MessageType(50), Seid(0), SEQUENCE), &mut buf)
        .unwrap();
    assert_eq!(&buf[16..length], body);
}

#[test]
fn ies_in_any_order_are_found() {
    let body = [
        create_far(),
        create_pdr(),
        f_seid(),
        create_pdr(),
        node_id(),
        create_far(),
    ]
    .concat();
    let message = decode_establishment(&body).unwrap();
    assert_eq!((message.create_pdr.len(), message.create_far.len()), (2, 2));
    assert!(message.create_pdr.iter().all(|pdr| pdr.pdr_id == PdrId(1)));
    assert!(
        message
            .create_far
            .iter()
            .all(|far| far.apply_action == ApplyAction::FORW)
    );
}

#[test]
fn longer_values_than_known_are_accepted_and_kept() {
    let body = establishment(&[
        ie(IeType::PDN_TYPE, &[1, 0xaa]),
        ie(IeType::USER_PLANE_INACTIVITY_TIMER, &[0, 0, 0, 5, 0xbb]),
    ]);
    let mut message = decode_establishment(&body).unwrap();
    assert_eq!(
        message.user_plane_inactivity_timer,
        Some(UserPlaneInactivityTimer(5))
    );
    message.pdn_type = Some(PdnType::IPV6);
    let mut buf = [0; 512];
    let length = message
        .encode(&Header::session(MessageType(50), Seid(0), SEQUENCE), &mut buf)
        .unwrap();
    let expected = establishment(&[
        ie(IeType::PDN_TYPE, &[2, 0xaa]),
        ie(IeType::USER_PLANE_INACTIVITY_TIMER, &[0, 0, 0, 5, 0xbb]),
    ]);
    assert_eq!(&buf[16..length], expected);
}

#[test]
fn a_changed_message_comes_out_changed() {
    let body = establishment(&[ie(IeType::PDN_TYPE, &[1])]);
    let mut message = decode_establishment(&body).unwrap();
    message.pdn_type = None;
    message.apn_dnn = Some(ApnDnn(b"\x03ims"));
    let mut buf = [0; 512];
    let length = message
        .encode(&Header::session(MessageType(50), Seid(0), SEQUENCE), &mut buf)
        .unwrap();
    assert_eq!(
        &buf[16..length],
        establishment(&[ie(IeType::APN_DNN, b"\x03ims")])
    );
}

#[test]
fn null_lengths_remove_in_updates() {
    // TS 29.244 §5.6.3.
    let update_pdr = grouped(
        IeType::UPDATE_PDR,
        &[pdr_id(), ie(IeType::FAR_ID, &[]), ie(IeType::URR_ID, &[])],
    );
    let update_far = grouped(
        IeType::UPDATE_FAR,
        &[ie(IeType::FAR_ID, &[0, 0, 0, 1]), ie(IeType::BAR_ID, &[4])],
    );
    let body = [update_pdr, update_far].concat();
    let message = SessionModificationRequest::decode(&body).unwrap();
    let pdr = message.update_pdr.first().unwrap();
    assert_eq!(pdr.far_id, Some(Edit::Remove));
    assert_eq!(pdr.precedence, None);
    assert!(pdr.urr_id.removes_all() && pdr.urr_id.is_empty());
    assert!(!pdr.qer_id.removes_all());
    assert_eq!(
        message.update_far.first().unwrap().bar_id,
        Some(Edit::Set(BarId(4)))
    );

    let pdrs = [UpdatePdr {
        far_id: Some(Edit::Remove),
        urr_id: Repeated::REMOVE_ALL,
        ..UpdatePdr::new(PdrId(1))
    }];
    let fars = [UpdateFar {
        bar_id: Some(BarId(4).into()),
        ..UpdateFar::new(FarId(1))
    }];
    let built = SessionModificationRequest {
        update_pdr: (&pdrs).into(),
        update_far: (&fars).into(),
        ..SessionModificationRequest::new()
    };
    assert_eq!(built, message);
    let mut buf = [0; 128];
    let length = built
        .encode(&Header::session(MessageType(52), Seid(1), SEQUENCE), &mut buf)
        .unwrap();
    assert_eq!(&buf[16..length], body);
}

#[test]
fn null_lengths_elsewhere_are_reported_when_asked_for() {
    let body = establishment(&[
        ie(IeType::PDN_TYPE, &[]),
        ie(IeType::CREATE_URR, &[]),
        ie(IeType::APN_DNN, &[]),
    ]);
    let message = decode_establishment(&body).unwrap();
    assert_eq!(message.pdn_type, None);
    assert!(message.create_urr.is_empty());
    assert_eq!(message.apn_dnn, Some(ApnDnn(b"")));
    // Names may be empty, numbers not; of a group what is mandatory is missing.
    assert_refused(message.check_values(), Cause::INVALID_LENGTH, IeType::PDN_TYPE);
    assert!(message.removes(IeType::APN_DNN) && !message.removes(IeType::NODE_ID));
    for (null, refused) in [
        (IeType::APN_DNN, None),
        (
            IeType::CREATE_URR,
            Some((Cause::CONDITIONAL_IE_MISSING, IeType::URR_ID)),
        ),
        (IeType::S_NSSAI, Some((Cause::INVALID_LENGTH, IeType::S_NSSAI))),
        (IeType(9999), None),
    ] {
        let body = establishment(&[ie(null, &[])]);
        let result = decode_establishment(&body).unwrap().check_values();
        let error = result.err().map(|error| (error.cause, error.offending.unwrap()));
        assert_eq!(error, refused);
    }
}

#[test]
fn what_cannot_be_removed_is_reported() {
    for (null, refused) in [
        (IeType::PRECEDENCE, true),
        (IeType::PDI, true),
        (IeType::FAR_ID, false),
        (IeType::URR_ID, false),
    ] {
        let body = grouped(IeType::UPDATE_PDR, &[pdr_id(), ie(null, &[])]);
        let message = SessionModificationRequest::decode(&body).unwrap();
        let result = message.update_pdr.first().unwrap().check_removals();
        let expected = refused.then_some((Cause::MANDATORY_IE_INCORRECT, Some(null)));
        assert_eq!(result.err().map(|error| (error.cause, error.offending)), expected);
    }
}

#[test]
fn precedence_is_mandatory_by_interface() {
    let pdr = CreatePdr::new(PdrId(1), Pdi::new(SourceInterface::CORE));
    assert_eq!(pdr.check(Interface::Sxa), Ok(()));
    for interface in [Interface::N4, Interface::Sxb] {
        assert_refused(
            pdr.check(interface),
            Cause::MANDATORY_IE_MISSING,
            IeType::PRECEDENCE,
        );
    }
    let pdr = CreatePdr {
        precedence: Some(Precedence(9)),
        ..pdr
    };
    assert_eq!(pdr.check(Interface::N4), Ok(()));
}

#[test]
fn a_rejection_needs_no_more_than_its_cause_says() {
    let rejection = [node_id(), ie(IeType::CAUSE, &[72])].concat();
    let acceptance = [node_id(), ie(IeType::CAUSE, &[1])].concat();
    assert!(AssociationSetupResponse::decode(&rejection).is_ok());
    let result = AssociationSetupResponse::decode(&acceptance);
    assert_refused(result, Cause::MANDATORY_IE_MISSING, IeType::RECOVERY_TIME_STAMP);
}

#[test]
fn errors_name_ie_bound_and_clause() {
    let text = |body: &[u8]| decode_establishment(body).unwrap_err().to_string();
    assert_eq!(
        text(&[]),
        "IE Node ID (60): mandatory, missing (TS 29.244 §8.2.38)"
    );
    let body = establishment(&[ie(IeType::USER_PLANE_INACTIVITY_TIMER, &[0, 0, 1])]);
    assert_eq!(
        text(&body),
        "IE User Plane Inactivity Timer (117): 3 octets, at least 4 needed (TS 29.244 §8.2.83)"
    );
    assert_eq!(
        text(&[0, 1, 0, 9, 1]),
        "IE Create PDR (1): length 9, 1 octets left (TS 29.244 Table 7.5.2.2-1)"
    );
    assert_eq!(
        text(&[0x80, 1, 0, 9]),
        "IE vendor-specific (32769): length 9, 0 octets left"
    );
}

/// A heartbeat of version 1 with that many octets of body.
fn datagram(flags: u8, message_type: u8, length: u16, behind: &[u8]) -> Vec<u8> {
    let [high, low] = length.to_be_bytes();
    [&[flags, message_type, high, low], behind].concat()
}

fn first(octets: &[u8]) -> Result<Frame<'_>, HeaderError> {
    Frames::new(octets).next().unwrap()
}

#[test]
fn headers_are_checked_in_order() {
    assert_eq!(first(&[]), Err(HeaderError::TooShort { have: 0 }));
    assert_eq!(
        first(&[0x20, 1, 0, 4, 0, 0, 1]),
        Err(HeaderError::TooShort { have: 7 })
    );
    assert_eq!(
        first(&datagram(0x21, 50, 4, &[0; 11])),
        Err(HeaderError::TooShort { have: 15 })
    );

    let version = HeaderError::Version {
        version: 2,
        sequence: SequenceNumber::new(5),
    };
    assert_eq!(first(&datagram(0x40, 99, 77, &[0, 0, 5, 0])), Err(version));

    let header = Header::node(MessageType(1), SequenceNumber::new(5));
    let length = HeaderError::Length {
        header,
        claimed: 12,
        have: 8,
    };
    assert_eq!(first(&datagram(0x20, 1, 8, &[0, 0, 5, 0])), Err(length));
    let length = HeaderError::Length {
        header,
        claimed: 8,
        have: 9,
    };
    assert_eq!(first(&datagram(0x20, 1, 4, &[0, 0, 5, 0, 0])), Err(length));
    let shorter_than_the_header = HeaderError::Length {
        header,
        claimed: 7,
        have: 8,
    };
    assert_eq!(
        first(&datagram(0x20, 1, 3, &[0, 0, 5, 0])),
        Err(shorter_than_the_header)
    );

    let unknown = HeaderError::UnknownType {
        message_type: MessageType(58),
    };
    assert_eq!(first(&datagram(0x20, 58, 4, &[0, 0, 5, 0])), Err(unknown));
    let no_seid = HeaderError::NoSeid {
        message_type: MessageType(54),
    };
    assert_eq!(first(&datagram(0x20, 54, 4, &[0, 0, 5, 0])), Err(no_seid));
}

#[test]
fn a_header_has_seid_sequence_and_priority() {
    let octets = datagram(0x23, 54, 12, &[0, 0, 0, 0, 0, 0, 0, 9, 1, 2, 3, 0xc0]);
    let header = first(&octets).unwrap().header;
    assert_eq!(header.seid, Some(Seid(9)));
    assert_eq!(header.sequence.get(), 0x01_0203);
    assert_eq!(header.priority, Some(12));
    let mut buf = [0; 16];
    assert_eq!(SessionDeletionRequest::new().encode(&header, &mut buf), Ok(16));
    assert_eq!(&buf[..], octets);
}

#[test]
fn bundled_messages_are_met_one_by_one() {
    let deletion = |flags: u8, seid: u8| datagram(flags, 54, 12, &[0, 0, 0, 0, 0, 0, 0, seid, 0, 0, seid, 0]);
    let bundle = [deletion(0x25, 1), deletion(0x25, 2), deletion(0x21, 3)].concat();
    let seids: Vec<_> = Frames::new(&bundle)
        .map(|frame| frame.unwrap().header.seid.unwrap().0)
        .collect();
    assert_eq!(seids, [1, 2, 3]);

    let bad_second = [deletion(0x25, 1), deletion(0x21, 2), vec![0]].concat();
    let mut frames = Frames::new(&bad_second);
    assert!(frames.next().unwrap().is_ok());
    assert!(matches!(frames.next(), Some(Err(HeaderError::Length { .. }))));
    assert!(frames.next().is_none());
}

#[test]
fn nothing_is_bundled_behind_a_message_about_a_node() {
    let heartbeat = |flags: u8| datagram(flags, 1, 4, &[0, 0, 1, 0]);
    let bundle = [heartbeat(0x24), heartbeat(0x20)].concat();
    let mut frames = Frames::new(&bundle);
    assert!(frames.next().unwrap().is_ok());
    assert!(frames.next().is_none());
}

#[test]
fn requests_and_responses_belong_together() {
    for message_type in MessageType::ALL {
        match message_type.response() {
            Some(response) => {
                assert!(message_type.name().ends_with("Request") && response.name().ends_with("Response"));
                assert_eq!(message_type.is_session(), response.is_session());
            }
            None => assert!(message_type.name().ends_with("Response")),
        }
    }
}

#[test]
fn a_far_of_each_kind_is_distinguished() {
    let buffering = CreateFar::new(FarId(1), ApplyAction::BUFF | ApplyAction::NOCP);
    assert!(buffering.apply_action.contains(ApplyAction::BUFF));
    assert!(
        !buffering
            .apply_action
            .intersects(ApplyAction::FORW | ApplyAction::DROP)
    );
}
