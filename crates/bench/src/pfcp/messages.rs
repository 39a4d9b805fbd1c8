//! The messages of one simulated SMF ([`sim::smf::Requests`]), encoded once; what differs from session to session is written into them.
//!
//! A session has a default flow and one more, as T7 asks: 4 PDR, 4 FAR, 2 QER, 2 URR. Both flows share one tunnel,
//! whose F-TEID the user plane chooses.

use std::net::Ipv4Addr;

use pfcp::ie::FTeid;
use pfcp::{Seid, SequenceNumber};
use sim::smf::{Config, DownlinkSetup, QosFlow, Requests, SessionProfile};

use super::super::error::BenchError;
use super::super::model::{AMPLE_RATE, qfi, server_port};

/// Rules of a session: PDR, FAR, QER, URR.
pub const RULES: [u32; 4] = [4, 4, 2, 2];
/// Where its SEID and its sequence number are.
const SEID: usize = 4;
const SEQUENCE: usize = 12;

/// Values that stand for what differs, and occur nowhere else.
const MARK_SEID: u64 = 0xa5c3_96e1_d2b4_8778;
const MARK_UE: Ipv4Addr = Ipv4Addr::new(0xe7, 0xd1, 0xc9, 0xb3);
const MARK_TEID: u32 = 0x9d8b_e3f5;
const MARK_GNB: Ipv4Addr = Ipv4Addr::new(0xeb, 0xa7, 0x95, 0xf9);

/// What identifies one session's messages.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// The control plane's SEID.
    pub cp_seid: u64,
    /// The UE's address.
    pub ue: Ipv4Addr,
    /// The gNB's end of the tunnel.
    pub gnb: (Ipv4Addr, u32),
}

/// An encoded message and the places of what differs.
#[derive(Clone, Debug)]
struct Template {
    octets: Vec<u8>,
    seids: Vec<usize>,
    ues: Vec<usize>,
    teids: Vec<usize>,
    gnbs: Vec<usize>,
}

impl Template {
    fn new(octets: Vec<u8>) -> Self {
        let places = |mark: &[u8]| {
            let windows = octets.windows(mark.len()).enumerate();
            windows
                .filter(|(_, window)| *window == mark)
                .map(|(at, _)| at)
                .collect()
        };
        Self {
            seids: places(&MARK_SEID.to_be_bytes()),
            ues: places(&MARK_UE.octets()),
            teids: places(&MARK_TEID.to_be_bytes()),
            gnbs: places(&MARK_GNB.octets()),
            octets,
        }
    }

    fn write(&mut self, sequence: u32, session: &Session) -> &[u8] {
        let Self {
            octets,
            seids,
            ues,
            teids,
            gnbs,
        } = self;
        let mut put = |places: &[usize], value: &[u8]| {
            for at in places {
                octets[*at..at + value.len()].copy_from_slice(value);
            }
        };
        put(seids, &session.cp_seid.to_be_bytes());
        put(ues, &session.ue.octets());
        put(gnbs, &session.gnb.0.octets());
        put(teids, &session.gnb.1.to_be_bytes());
        put(&[SEQUENCE], &sequence.to_be_bytes()[1..]);
        &self.octets
    }
}

/// The messages of one SMF.
#[derive(Clone, Debug)]
pub struct Messages {
    association: Vec<u8>,
    establishment: Template,
    modification: Template,
    deletion: Template,
}

impl Messages {
    /// Of the SMF at `address`.
    ///
    /// # Errors
    /// When the configuration of the SMF is out of bounds.
    pub fn new(address: Ipv4Addr) -> Result<Self, BenchError> {
        let config = config(address);
        config.validate().map_err(BenchError::of)?;
        let (requests, first) = (Requests::new(&config), SequenceNumber::new(0));
        Ok(Self {
            association: requests.associate(first),
            establishment: Template::new(requests.establish(&config, 0, Seid(MARK_SEID), first)),
            modification: Template::new(requests.modify(&config, 0, Seid(0), first)),
            deletion: Template::new(requests.delete(Seid(0), first)),
        })
    }

    /// Association Setup Request.
    #[must_use]
    pub fn association(&self) -> &[u8] {
        &self.association
    }

    /// Session Establishment Request.
    pub fn establishment(&mut self, sequence: u32, session: &Session) -> &[u8] {
        self.establishment.write(sequence, session)
    }

    /// Session Modification Request of the session with SEID `up`: the UE has gone to another gNB.
    pub fn modification(&mut self, sequence: u32, up: u64, session: &Session) -> &[u8] {
        self.modification.octets[SEID..SEID + 8].copy_from_slice(&up.to_be_bytes());
        self.modification.write(sequence, session)
    }

    /// Session Deletion Request.
    pub fn deletion(&mut self, sequence: u32, up: u64, session: &Session) -> &[u8] {
        self.deletion.octets[SEID..SEID + 8].copy_from_slice(&up.to_be_bytes());
        self.deletion.write(sequence, session)
    }

    /// Octets of an establishment.
    #[must_use]
    pub fn establishment_octets(&self) -> usize {
        self.establishment.octets.len()
    }
}

/// The SMF at `address`, whose session has the values that stand for what differs.
fn config(address: Ipv4Addr) -> Config {
    let rate = AMPLE_RATE / 1_000;
    let profile = SessionProfile {
        ue_ipv4: MARK_UE,
        gnbs: vec![MARK_GNB.into()],
        first_teid: MARK_TEID,
        choose_id: Some(1),
        downlink: DownlinkSetup::AtOnce,
        qfi: qfi(0),
        mbr: Some((rate, rate)),
        volume_threshold: Some(1 << 50),
        second_flow: Some(QosFlow {
            qfi: qfi(1),
            sdf: format!("permit out 17 from any {} to assigned", server_port(1)),
        }),
        ..SessionProfile::default()
    };
    Config {
        profile,
        ..Config::new(address.into(), 1)
    }
}

/// What a response of the user plane says, as far as a load generator has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The message's type.
    pub message_type: u8,
    /// The number of the request.
    pub sequence: u32,
    /// The cause's value; 0: there is none.
    pub cause: u8,
}

/// Reads the front of a response: the header, and the Cause among its first two IEs (TS 29.244 §7.5.3 to §7.5.7 put it
/// there, behind the Node ID at most).
#[must_use]
pub fn response(octets: &[u8]) -> Option<Response> {
    let has_seid = octets.first()? & 1 == 1;
    let at = if has_seid { SEQUENCE } else { SEID };
    let number = octets.get(at..at + 3)?;
    let mut body = octets.get(at + 4..)?;
    let mut cause = 0;
    for _ in 0..2 {
        let Some([0, ie_type, high, low]) = body.first_chunk::<4>() else {
            break;
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *ie_type == 19 {
            cause = body.get(4).copied().unwrap_or(0);
        }
        body = body.get(4 + length..).unwrap_or_default();
    }
    Some(Response {
        message_type: *octets.get(1)?,
        sequence: u32::from_be_bytes([0, number[0], number[1], number[2]]),
        cause,
    })
}

/// The SEID of the user plane, and the TEID of the first Created PDR, in an accepted establishment's response.
#[must_use]
pub fn established(octets: &[u8]) -> Option<(u64, u32)> {
    let frame = pfcp::Frames::new(octets).next()?.ok()?;
    let pfcp::Message::SessionEstablishmentResponse(response) = pfcp::Message::decode(&frame).ok()? else {
        return None;
    };
    let created = response.created_pdr.iter().next()?.local_f_teid;
    match created {
        Some(FTeid::Endpoint { teid, .. }) => Some((response.up_f_seid?.seid.0, teid.0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pfcp::ie::{NodeId, OuterHeaderCreation, Teid};
    use pfcp::message::{Body, SessionEstablishmentResponse};
    use pfcp::{Frames, Header, Message, MessageType};

    use super::*;

    const SESSION: Session = Session {
        cp_seid: 7,
        ue: Ipv4Addr::new(10, 64, 0, 9),
        gnb: (Ipv4Addr::new(10, 200, 0, 3), 77),
    };

    fn decoded(octets: &[u8]) -> Message<'_> {
        Message::decode(&Frames::new(octets).next().unwrap().unwrap()).unwrap()
    }

    #[test]
    fn an_establishment_has_the_rules_that_the_target_names_and_the_sessions_own_values() {
        let mut messages = Messages::new(Ipv4Addr::new(127, 70, 0, 1)).unwrap();
        let octets = messages.establishment(0x01_0203, &SESSION).to_vec();
        assert_eq!(octets.len(), messages.establishment_octets());
        let Message::SessionEstablishmentRequest(request) = decoded(&octets) else {
            panic!()
        };
        let counts = [
            request.create_pdr.iter().count(),
            request.create_far.iter().count(),
            request.create_qer.iter().count(),
            request.create_urr.iter().count(),
        ];
        assert_eq!(counts.map(|count| count as u32), RULES);
        assert_eq!(request.cp_f_seid.seid, Seid(7));
        for pdr in &request.create_pdr {
            let ue = pdr.pdi.ue_ip_address.iter().next().unwrap();
            assert_eq!(ue.ipv4, Some(SESSION.ue));
        }
        let tunnels = request
            .create_far
            .iter()
            .filter_map(|far| far.forwarding_parameters?.outer_header_creation);
        let expected = OuterHeaderCreation::gtp_u(Teid(77), Some(SESSION.gnb.0), None);
        assert_eq!(tunnels.collect::<Vec<_>>(), [expected; 2]);
        let header = Frames::new(&octets).next().unwrap().unwrap().header;
        assert_eq!(header.sequence.get(), 0x01_0203);
    }

    #[test]
    fn later_messages_name_the_session_and_number() {
        let mut messages = Messages::new(Ipv4Addr::new(127, 70, 0, 1)).unwrap();
        for octets in [
            messages.modification(9, 0x1122, &SESSION).to_vec(),
            messages.deletion(9, 0x1122, &SESSION).to_vec(),
        ] {
            let header = Frames::new(&octets).next().unwrap().unwrap().header;
            assert_eq!((header.seid, header.sequence.get()), (Some(Seid(0x1122)), 9));
            decoded(&octets);
        }
    }

    #[test]
    fn the_front_of_a_response_is_read() {
        let rejected = SessionEstablishmentResponse::new(
            NodeId::Ipv4(Ipv4Addr::LOCALHOST),
            pfcp::ie::Cause::PFCP_ENTITY_IN_CONGESTION,
        );
        let header = Header::session(MessageType(0), Seid(5), SequenceNumber::new(0));
        let mut octets = vec![0; 256];
        let length = rejected.encode(&header, &mut octets).unwrap();
        octets.truncate(length);
        octets[SEQUENCE + 2] = 6;
        let read = Response {
            message_type: 51,
            sequence: 6,
            cause: 74,
        };
        assert_eq!(response(&octets), Some(read));
        assert_eq!(established(&octets), None);
        assert_eq!(response(&octets[..SEQUENCE + 1]), None);
    }
}
