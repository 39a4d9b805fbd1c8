//! Requests of one SMF for many sessions, encoded once: the values in which sessions differ are written into the
//! octets.
//!
//! For load generators: a request costs a few copies, and a response is read as far as its cause.

use super::config::{Config, ConfigError, SessionProfile};
use super::requests::Requests;
use packet::Teid;
use pfcp::ie::FTeid;
use pfcp::{Frames, IeType, Message, MessageType, Seid, SequenceNumber};
use std::net::Ipv4Addr;

/// Offset of the SEID in a message about a session, and of the sequence number behind it (TS 29.244 §7.2.2).
const SEID: usize = 4;
const SEQUENCE: usize = 12;

/// Values in the place of those of a session. They occur nowhere else in a request.
const MARK_SEID: Seid = Seid(0xa5c3_96e1_d2b4_8778);
const MARK_UE: Ipv4Addr = Ipv4Addr::new(0xe7, 0xd1, 0xc9, 0xb3);
const MARK_TEID: Teid = Teid(0x9d8b_e3f5);
const MARK_GNB: Ipv4Addr = Ipv4Addr::new(0xeb, 0xa7, 0x95, 0xf9);

/// The values in which the requests of one session differ from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionValues {
    /// The SMF's SEID.
    pub cp_seid: Seid,
    /// The UE's address.
    pub ue: Ipv4Addr,
    /// The gNB's address of the downlink tunnel.
    pub gnb: Ipv4Addr,
    /// The gNB's TEID.
    pub gnb_teid: Teid,
}

/// An encoded request and the offsets of a session's values.
#[derive(Clone, Debug)]
struct Template {
    octets: Vec<u8>,
    cp_seids: Vec<usize>,
    ues: Vec<usize>,
    gnbs: Vec<usize>,
    gnb_teids: Vec<usize>,
}

impl Template {
    fn new(octets: Vec<u8>) -> Template {
        let offsets = |mark: &[u8]| {
            let windows = octets.windows(mark.len()).enumerate();
            let marked = windows.filter(|(_, window)| *window == mark);
            marked.map(|(offset, _)| offset).collect()
        };
        Template {
            cp_seids: offsets(&MARK_SEID.0.to_be_bytes()),
            ues: offsets(&MARK_UE.octets()),
            gnbs: offsets(&MARK_GNB.octets()),
            gnb_teids: offsets(&MARK_TEID.0.to_be_bytes()),
            octets,
        }
    }

    fn write(&mut self, sequence: SequenceNumber, up_seid: Seid, session: &SessionValues) -> &[u8] {
        let octets = &mut self.octets;
        let mut put = |offsets: &[usize], value: &[u8]| {
            for offset in offsets {
                octets[*offset..*offset + value.len()].copy_from_slice(value);
            }
        };
        put(&[SEID], &up_seid.0.to_be_bytes());
        put(&[SEQUENCE], &sequence.get().to_be_bytes()[1..]);
        put(&self.cp_seids, &session.cp_seid.0.to_be_bytes());
        put(&self.ues, &session.ue.octets());
        put(&self.gnbs, &session.gnb.octets());
        put(&self.gnb_teids, &session.gnb_teid.0.to_be_bytes());
        &self.octets
    }
}

/// The requests of one SMF.
#[derive(Clone, Debug)]
pub struct RequestTemplates {
    association: Vec<u8>,
    establishment: Template,
    modification: Template,
    query: Template,
    deletion: Template,
}

impl RequestTemplates {
    /// Of the SMF at `address`, for IPv4 sessions of `profile`. UE address, gNB and TEID of the profile are not used.
    ///
    /// # Errors
    /// A field of the profile that is out of bounds.
    pub fn new(address: Ipv4Addr, profile: SessionProfile) -> Result<RequestTemplates, ConfigError> {
        let profile = SessionProfile {
            ue_ipv4: MARK_UE,
            gnbs: vec![MARK_GNB.into()],
            first_teid: MARK_TEID.0,
            ..profile
        };
        let config = Config {
            profile,
            ..Config::new(address.into(), 1)
        };
        config.validate()?;
        let (requests, first) = (Requests::new(&config), SequenceNumber::new(0));
        Ok(RequestTemplates {
            association: requests.associate(first),
            establishment: Template::new(requests.establish(&config, 0, MARK_SEID, first)),
            modification: Template::new(requests.modify(&config, 0, Seid(0), first)),
            query: Template::new(requests.query(&config, Seid(0), first)),
            deletion: Template::new(requests.delete(Seid(0), first)),
        })
    }

    /// Association Setup Request, with sequence number 0.
    pub fn association(&self) -> &[u8] {
        &self.association
    }

    /// Session Establishment Request.
    pub fn establishment(&mut self, sequence: SequenceNumber, session: &SessionValues) -> &[u8] {
        self.establishment.write(sequence, Seid(0), session)
    }

    /// Session Modification Request that sets the gNB's end of the tunnel in the downlink FARs.
    pub fn modification(&mut self, sequence: SequenceNumber, up: Seid, session: &SessionValues) -> &[u8] {
        self.modification.write(sequence, up, session)
    }

    /// Session Modification Request that asks for reports of all URRs.
    pub fn query(&mut self, sequence: SequenceNumber, up: Seid, session: &SessionValues) -> &[u8] {
        self.query.write(sequence, up, session)
    }

    /// Session Deletion Request.
    pub fn deletion(&mut self, sequence: SequenceNumber, up: Seid, session: &SessionValues) -> &[u8] {
        self.deletion.write(sequence, up, session)
    }

    /// Octets of a Session Establishment Request.
    pub fn establishment_octets(&self) -> usize {
        self.establishment.octets.len()
    }
}

/// Header and cause of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseSummary {
    /// Message type.
    pub message_type: MessageType,
    /// Sequence number of the request.
    pub sequence: SequenceNumber,
    /// Value of the Cause IE; 0: none found.
    pub cause: u8,
}

impl ResponseSummary {
    /// Reads the header, and the Cause among the first two IEs: TS 29.244 §7.5.3 to §7.5.7 have the IE first or behind
    /// the Node ID. `None`: cut within the header.
    pub fn read(octets: &[u8]) -> Option<ResponseSummary> {
        let has_seid = octets.first()? & 1 == 1;
        let at = if has_seid { SEQUENCE } else { SEID };
        let sequence = octets.get(at..at + 3)?;
        let mut body = octets.get(at + 4..)?;
        let mut cause = 0;
        for _ in 0..2 {
            let Some([type_high, type_low, high, low]) = body.first_chunk::<4>() else {
                break;
            };
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if u16::from_be_bytes([*type_high, *type_low]) == IeType::CAUSE.0 {
                cause = body.get(4).copied().unwrap_or(0);
            }
            body = body.get(4 + length..).unwrap_or_default();
        }
        Some(ResponseSummary {
            message_type: MessageType(*octets.get(1)?),
            sequence: SequenceNumber::new(u32::from_be_bytes([0, sequence[0], sequence[1], sequence[2]])),
            cause,
        })
    }
}

/// The UP function's part of an established session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EstablishedSession {
    /// The UP function's SEID.
    pub up_seid: Seid,
    /// TEID of the local F-TEID in the first Created PDR.
    pub teid: Teid,
}

impl EstablishedSession {
    /// Reads a Session Establishment Response. `None`: another message, or one without F-SEID or F-TEID.
    pub fn read(octets: &[u8]) -> Option<EstablishedSession> {
        let frame = Frames::new(octets).next()?.ok()?;
        let Message::SessionEstablishmentResponse(response) = Message::decode(&frame).ok()? else {
            return None;
        };
        match response.created_pdr.iter().next()?.local_f_teid {
            Some(FTeid::Endpoint { teid, .. }) => Some(EstablishedSession {
                up_seid: response.up_f_seid?.seid,
                teid: Teid(teid.0),
            }),
            _ => None,
        }
    }
}

/// Octets of user packets that the usage reports of a Session Modification Response name, uplink and downlink.
/// `None`: another message.
pub fn reported_octets(octets: &[u8]) -> Option<[u64; 2]> {
    let frame = Frames::new(octets).next()?.ok()?;
    let Message::SessionModificationResponse(response) = Message::decode(&frame).ok()? else {
        return None;
    };
    let volumes = response
        .usage_report
        .iter()
        .filter_map(|report| report.volume_measurement);
    Some(volumes.fold([0, 0], |[uplink, downlink], volume| {
        [
            uplink + volume.uplink.unwrap_or(0),
            downlink + volume.downlink.unwrap_or(0),
        ]
    }))
}

#[cfg(test)]
mod tests {
    use super::super::config::{DownlinkSetup, QosFlow};
    use super::*;
    use pfcp::Header;
    use pfcp::ie::{self, NodeId, OuterHeaderCreation};
    use pfcp::message::{Body, SessionEstablishmentResponse};

    const SESSION: SessionValues = SessionValues {
        cp_seid: Seid(7),
        ue: Ipv4Addr::new(10, 64, 0, 9),
        gnb: Ipv4Addr::new(10, 200, 0, 3),
        gnb_teid: Teid(77),
    };
    const NUMBER: SequenceNumber = SequenceNumber::new(0x01_0203);

    fn templates() -> RequestTemplates {
        let profile = SessionProfile {
            downlink: DownlinkSetup::AtOnce,
            second_flow: Some(QosFlow {
                qfi: 2,
                sdf: "permit out 17 from any 5000 to assigned".into(),
            }),
            ..SessionProfile::default()
        };
        RequestTemplates::new(Ipv4Addr::new(127, 70, 0, 1), profile).unwrap()
    }

    fn decoded(octets: &[u8]) -> (Header, Message<'_>) {
        let frame = Frames::new(octets).next().unwrap().unwrap();
        (frame.header, Message::decode(&frame).unwrap())
    }

    #[test]
    fn an_establishment_has_the_values_of_its_session() {
        let mut templates = templates();
        let octets = templates.establishment(NUMBER, &SESSION).to_vec();
        assert_eq!(octets.len(), templates.establishment_octets());
        let (header, Message::SessionEstablishmentRequest(request)) = decoded(&octets) else {
            panic!()
        };
        assert_eq!((header.seid, header.sequence), (Some(Seid(0)), NUMBER));
        assert_eq!(request.cp_f_seid.seid, Seid(7));
        for pdr in &request.create_pdr {
            let ue = pdr.pdi.ue_ip_address.iter().next().unwrap();
            assert_eq!(ue.ipv4, Some(SESSION.ue));
        }
        let tunnels = request
            .create_far
            .iter()
            .filter_map(|far| far.forwarding_parameters?.outer_header_creation);
        let expected = OuterHeaderCreation::gtp_u(ie::Teid(77), Some(SESSION.gnb), None);
        assert_eq!(tunnels.collect::<Vec<_>>(), [expected; 2]);
    }

    #[test]
    fn later_requests_have_the_seid_of_the_up_function() {
        let (mut templates, up) = (templates(), Seid(0x1122));
        for octets in [
            templates.modification(NUMBER, up, &SESSION).to_vec(),
            templates.query(NUMBER, up, &SESSION).to_vec(),
            templates.deletion(NUMBER, up, &SESSION).to_vec(),
        ] {
            let (header, _) = decoded(&octets);
            assert_eq!((header.seid, header.sequence), (Some(up), NUMBER));
        }
    }

    #[test]
    fn the_summary_of_a_response_has_its_cause() {
        let cause = ie::Cause::PFCP_ENTITY_IN_CONGESTION;
        let rejected = SessionEstablishmentResponse::new(NodeId::Ipv4(Ipv4Addr::LOCALHOST), cause);
        let header = Header::session(MessageType(0), Seid(5), SequenceNumber::new(6));
        let mut octets = vec![0; 256];
        let length = rejected.encode(&header, &mut octets).unwrap();
        octets.truncate(length);
        let summary = ResponseSummary {
            message_type: MessageType::SESSION_ESTABLISHMENT_RESPONSE,
            sequence: SequenceNumber::new(6),
            cause: 74,
        };
        assert_eq!(ResponseSummary::read(&octets), Some(summary));
        assert_eq!(EstablishedSession::read(&octets), None);
        assert_eq!(ResponseSummary::read(&octets[..SEQUENCE + 1]), None);
    }
}
