//! The requests of the simulated SMF, rule by rule as real ones send them.
//!
//! Each session has two PDRs and two FARs (uplink 1, downlink 2), one QER and, if wanted, one URR; twice, with a second
//! QoS flow (uplink 3, downlink 4).

use crate::path::TunnelEnd;

use super::config::{ChooseFlags, Config, DownlinkSetup, NodeName, PduType, SessionProfile};
use pfcp::group::{
    CreateFar, CreatePdr, CreateQer, CreateUrr, ForwardingParameters, Pdi, QueryUrr, UpdateFar,
    UpdateForwardingParameters,
};
use pfcp::ie::{
    ApnDnn, ApplyAction, Cause, CpFunctionFeatures, DestinationInterface, FSeid, FTeid, FarId, GateStatus,
    Mbr, MeasurementMethod, NetworkInstance, NodeId, Octets8, Octets16, OuterHeaderCreation,
    OuterHeaderRemoval, PdnType, PdrId, Precedence, QerCorrelationId, QerId, Qfi, RecoveryTimeStamp,
    ReportingTriggers, SdfFilter, SourceInterface, Teid, UeIpAddress, UrrId, UserId, VolumeThreshold,
};
use pfcp::message::{
    AssociationReleaseRequest, AssociationSetupRequest, AssociationSetupResponse, Body, HeartbeatRequest,
    HeartbeatResponse, NodeReportResponse, SessionDeletionRequest, SessionEstablishmentRequest,
    SessionModificationRequest, SessionReportResponse,
};
use pfcp::{Edit, Header, MessageType, Seid, SequenceNumber};
use std::net::IpAddr;

/// The uplink PDR, whose F-TEID the UPF chooses.
pub(super) const UPLINK: PdrId = PdrId(1);
/// Longer than any message that a valid configuration makes.
const LONGEST: usize = 4096;

/// Writes the messages of one SMF.
#[derive(Debug)]
pub struct Requests {
    /// The Node ID's name in DNS labels, empty where it is an address.
    labels: Vec<u8>,
    address: Option<IpAddr>,
    recovery: RecoveryTimeStamp,
}

impl Requests {
    /// The messages of the SMF with this configuration.
    pub fn new(config: &Config) -> Requests {
        let (labels, address) = match &config.node_name {
            NodeName::Address(address) => (Vec::new(), Some(*address)),
            NodeName::Fqdn(name) => (labels(name), None),
        };
        Requests {
            labels,
            address,
            recovery: RecoveryTimeStamp::from_unix(config.started),
        }
    }

    fn node_id(&self) -> NodeId<'_> {
        match self.address {
            Some(IpAddr::V4(address)) => NodeId::Ipv4(address),
            Some(IpAddr::V6(address)) => NodeId::Ipv6(address),
            None => NodeId::Fqdn(&self.labels),
        }
    }

    /// Association Setup Request.
    pub fn associate(&self, sequence: SequenceNumber) -> Vec<u8> {
        let features = Some(CpFunctionFeatures::empty());
        let request = AssociationSetupRequest {
            cp_function_features: features,
            ..AssociationSetupRequest::new(self.node_id(), self.recovery)
        };
        node(&request, sequence)
    }

    pub(super) fn accept_association(&self, sequence: SequenceNumber) -> Vec<u8> {
        let response = AssociationSetupResponse {
            recovery_time_stamp: Some(self.recovery),
            ..AssociationSetupResponse::new(self.node_id(), Cause::REQUEST_ACCEPTED)
        };
        node(&response, sequence)
    }

    pub(super) fn release_association(&self, sequence: SequenceNumber) -> Vec<u8> {
        node(&AssociationReleaseRequest::new(self.node_id()), sequence)
    }

    pub(super) fn heartbeat(&self, sequence: SequenceNumber) -> Vec<u8> {
        node(&HeartbeatRequest::new(self.recovery), sequence)
    }

    pub(super) fn answer_heartbeat(&self, sequence: SequenceNumber) -> Vec<u8> {
        node(&HeartbeatResponse::new(self.recovery), sequence)
    }

    pub(super) fn answer_node_report(&self, sequence: SequenceNumber) -> Vec<u8> {
        node(
            &NodeReportResponse::new(self.node_id(), Cause::REQUEST_ACCEPTED),
            sequence,
        )
    }

    /// Session Establishment Request of session `index`, with the SEID `cp` in our F-SEID.
    pub fn establish(&self, config: &Config, index: u32, cp: Seid, sequence: SequenceNumber) -> Vec<u8> {
        let profile = &config.profile;
        let f_seid = f_seid(cp, config.address);
        let (uplink_ue, downlink_ue) = (
            [ue_address(profile, index, false)],
            [ue_address(profile, index, true)],
        );
        let flows = flows(profile);
        let pdrs = |flow| {
            [
                uplink_pdr(profile, flow, &uplink_ue),
                downlink_pdr(profile, flow, &downlink_ue),
            ]
        };
        let pdrs: Vec<_> = flows.iter().flat_map(pdrs).collect();
        let fars = |flow| [uplink_far(profile, flow), downlink_far(profile, flow, index)];
        let fars: Vec<_> = flows.iter().flat_map(fars).collect();
        let qers: Vec<_> = flows.iter().map(|flow| qer(profile, flow)).collect();
        let urr = |flow: &Flow<'_>| Some(urr(*flow.urrs.first()?, profile.volume_threshold?));
        let urrs: Vec<_> = flows.iter().filter_map(urr).collect();
        let subscribers = profile.subscribers.as_ref();
        let imsi = subscribers.map(|of| tbcd(of.first_imsi + u64::from(index)));
        let dnn = subscribers.map(|of| labels(&of.dnn));
        let request = SessionEstablishmentRequest {
            create_urr: urrs.as_slice().into(),
            create_qer: qers.as_slice().into(),
            pdn_type: Some(pdn_type(profile.pdu_type)),
            user_id: imsi.as_ref().map(|imsi| UserId {
                imsi: Some(Octets8(imsi)),
                ..UserId::default()
            }),
            apn_dnn: dnn.as_ref().map(|dnn| ApnDnn(dnn)),
            ..SessionEstablishmentRequest::new(
                self.node_id(),
                f_seid,
                pdrs.as_slice().into(),
                fars.as_slice().into(),
            )
        };
        session(&request, Seid(0), sequence)
    }

    /// Session Modification Request of the session with the SEID `up`: the downlink FARs get the gNB's F-TEID.
    pub fn modify(&self, config: &Config, index: u32, up: Seid, sequence: SequenceNumber) -> Vec<u8> {
        let update = |flow: Flow<'_>| UpdateFar {
            apply_action: Some(ApplyAction::FORW),
            update_forwarding_parameters: Some(UpdateForwardingParameters {
                destination_interface: Some(DestinationInterface::ACCESS),
                network_instance: Some(Edit::Set(NetworkInstance(
                    config.profile.access_instance.as_bytes(),
                ))),
                outer_header_creation: Some(Edit::Set(tunnel(&config.profile, index))),
                ..UpdateForwardingParameters::new()
            }),
            ..UpdateFar::new(flow.downlink_far())
        };
        let fars: Vec<_> = flows(&config.profile).into_iter().map(update).collect();
        let request = SessionModificationRequest {
            update_far: fars.as_slice().into(),
            ..SessionModificationRequest::new()
        };
        session(&request, up, sequence)
    }

    /// Session Modification Request of the session with the SEID `up`: reports of all its URRs are asked for.
    pub fn query(&self, config: &Config, up: Seid, sequence: SequenceNumber) -> Vec<u8> {
        let flows = flows(&config.profile);
        let urrs: Vec<_> = flows
            .iter()
            .flat_map(|flow| flow.urrs.iter().copied().map(QueryUrr::new))
            .collect();
        let request = SessionModificationRequest {
            query_urr: urrs.as_slice().into(),
            ..SessionModificationRequest::new()
        };
        session(&request, up, sequence)
    }

    /// Session Deletion Request of the session with the SEID `up`.
    pub fn delete(&self, up: Seid, sequence: SequenceNumber) -> Vec<u8> {
        session(&SessionDeletionRequest::new(), up, sequence)
    }

    pub(super) fn answer_report(&self, up: Option<Seid>, sequence: SequenceNumber) -> Vec<u8> {
        let cause = if up.is_some() {
            Cause::REQUEST_ACCEPTED
        } else {
            Cause::SESSION_CONTEXT_NOT_FOUND
        };
        session(
            &SessionReportResponse::new(cause),
            up.unwrap_or(Seid(0)),
            sequence,
        )
    }
}

fn node<'a>(body: &impl Body<'a>, sequence: SequenceNumber) -> Vec<u8> {
    encode(body, Header::node(MessageType(0), sequence))
}

fn session<'a>(body: &impl Body<'a>, seid: Seid, sequence: SequenceNumber) -> Vec<u8> {
    encode(body, Header::session(MessageType(0), seid, sequence))
}

fn encode<'a>(body: &impl Body<'a>, header: Header) -> Vec<u8> {
    let mut buf = [0; LONGEST];
    let length = body
        .encode(&header, &mut buf)
        .expect("a valid configuration fits");
    buf[..length].to_vec()
}

fn labels(name: &str) -> Vec<u8> {
    name.split('.')
        .flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat())
        .collect()
}

/// 15 digits, the first in the low half of an octet; the high half of the last is filled (TS 29.274 §8.3).
fn tbcd(imsi: u64) -> Vec<u8> {
    let digits = format!("{imsi:015}");
    let pair = |pair: &[u8]| (pair[0] - b'0') | pair.get(1).map_or(0xf, |digit| digit - b'0') << 4;
    digits.as_bytes().chunks(2).map(pair).collect()
}

fn f_seid(seid: Seid, address: IpAddr) -> FSeid {
    match address {
        IpAddr::V4(address) => FSeid {
            seid,
            ipv4: Some(address),
            ipv6: None,
        },
        IpAddr::V6(address) => FSeid {
            seid,
            ipv4: None,
            ipv6: Some(address),
        },
    }
}

fn pdn_type(pdu_type: PduType) -> PdnType {
    match pdu_type {
        PduType::Ipv4 => PdnType::IPV4,
        PduType::Ipv6 => PdnType::IPV6,
        PduType::Ipv4v6 => PdnType::IPV4V6,
    }
}

fn ue_address(profile: &SessionProfile, index: u32, is_destination: bool) -> UeIpAddress {
    UeIpAddress {
        is_destination,
        ipv4: profile.ue_ipv4(index),
        ipv6: profile.ue_ipv6(index),
        ..UeIpAddress::default()
    }
}

/// A QoS flow of a session: the numbers of its rules, QFI and SDF filter of its PDRs.
struct Flow<'a> {
    /// 0, 1.
    number: u16,
    qfis: [Qfi; 1],
    sdf: Vec<SdfFilter<'a>>,
    qers: [QerId; 1],
    urrs: Vec<UrrId>,
}

impl<'a> Flow<'a> {
    fn new(profile: &SessionProfile, number: u16, qfi: u8, sdf: Option<&'a str>) -> Self {
        let id = u32::from(number) + 1;
        let filter = |text: &'a str| SdfFilter {
            flow_description: Some(Octets16(text.as_bytes())),
            ..SdfFilter::default()
        };
        Flow {
            number,
            qfis: [Qfi(qfi)],
            sdf: sdf.map(filter).into_iter().collect(),
            qers: [QerId(id)],
            urrs: profile.volume_threshold.map(|_| UrrId(id)).into_iter().collect(),
        }
    }

    fn uplink_far(&self) -> FarId {
        FarId(u32::from(self.number) * 2 + 1)
    }

    fn downlink_far(&self) -> FarId {
        FarId(u32::from(self.number) * 2 + 2)
    }
}

/// All QoS flows of a session.
fn flows(profile: &SessionProfile) -> Vec<Flow<'_>> {
    let first = Flow::new(profile, 0, profile.qfi, profile.sdf.as_deref());
    let second = profile.second_flow.as_ref();
    let second = second.map(|flow| Flow::new(profile, 1, flow.qfi, Some(&flow.sdf)));
    [first].into_iter().chain(second).collect()
}

fn uplink_pdr<'a>(profile: &'a SessionProfile, flow: &'a Flow<'a>, ue: &'a [UeIpAddress]) -> CreatePdr<'a> {
    let is_ipv4 = profile.gnbs[0].is_ipv4();
    let (v4, v6) = match profile.choose {
        ChooseFlags::Matching => (is_ipv4, !is_ipv4),
        ChooseFlags::Both => (true, true),
        ChooseFlags::Neither => (false, false),
    };
    let pdi = Pdi {
        local_f_teid: Some(FTeid::Choose {
            v4,
            v6,
            choose_id: profile.choose_id,
        }),
        network_instance: Some(NetworkInstance(profile.access_instance.as_bytes())),
        ue_ip_address: ue.into(),
        sdf_filter: flow.sdf.as_slice().into(),
        qfi: (&flow.qfis).into(),
        ..Pdi::new(SourceInterface::ACCESS)
    };
    let removal = if is_ipv4 {
        OuterHeaderRemoval::GTP_U_UDP_IPV4
    } else {
        OuterHeaderRemoval::GTP_U_UDP_IP
    };
    CreatePdr {
        outer_header_removal: Some(removal),
        ..pdr(flow, flow.uplink_far(), pdi)
    }
}

fn downlink_pdr<'a>(profile: &'a SessionProfile, flow: &'a Flow<'a>, ue: &'a [UeIpAddress]) -> CreatePdr<'a> {
    let pdi = Pdi {
        network_instance: Some(NetworkInstance(profile.core_instance.as_bytes())),
        ue_ip_address: ue.into(),
        sdf_filter: flow.sdf.as_slice().into(),
        ..Pdi::new(SourceInterface::CORE)
    };
    pdr(flow, flow.downlink_far(), pdi)
}

fn pdr<'a>(flow: &'a Flow<'a>, far: FarId, pdi: Pdi<'a>) -> CreatePdr<'a> {
    CreatePdr {
        precedence: Some(Precedence(255 - u32::from(flow.number))),
        far_id: Some(far),
        urr_id: flow.urrs.as_slice().into(),
        qer_id: (&flow.qers).into(),
        ..CreatePdr::new(PdrId(far.0 as u16), pdi)
    }
}

fn qer<'a>(profile: &SessionProfile, flow: &Flow<'a>) -> CreateQer<'a> {
    let [qfi] = flow.qfis;
    let [id] = flow.qers;
    CreateQer {
        qer_correlation_id: profile.correlation.map(QerCorrelationId),
        mbr: profile.mbr.map(|(uplink, downlink)| Mbr { uplink, downlink }),
        qfi: profile.correlation.is_none().then_some(qfi),
        ..CreateQer::new(id, GateStatus::OPEN)
    }
}

fn uplink_far<'a>(profile: &'a SessionProfile, flow: &Flow<'_>) -> CreateFar<'a> {
    let parameters = ForwardingParameters {
        network_instance: Some(NetworkInstance(profile.core_instance.as_bytes())),
        ..ForwardingParameters::new(DestinationInterface::CORE)
    };
    CreateFar {
        forwarding_parameters: Some(parameters),
        ..CreateFar::new(flow.uplink_far(), ApplyAction::FORW)
    }
}

fn downlink_far<'a>(profile: &'a SessionProfile, flow: &Flow<'_>, index: u32) -> CreateFar<'a> {
    let parameters = |outer_header_creation| ForwardingParameters {
        network_instance: Some(NetworkInstance(profile.access_instance.as_bytes())),
        outer_header_creation,
        ..ForwardingParameters::new(DestinationInterface::ACCESS)
    };
    let (action, parameters) = match profile.downlink {
        DownlinkSetup::AtOnce => (ApplyAction::FORW, Some(parameters(Some(tunnel(profile, index))))),
        DownlinkSetup::FromDrop => (ApplyAction::DROP, None),
        DownlinkSetup::FromBuffer => (ApplyAction::BUFF.union(ApplyAction::NOCP), None),
        DownlinkSetup::FromNoTunnel => (ApplyAction::FORW, Some(parameters(None))),
    };
    CreateFar {
        forwarding_parameters: parameters,
        ..CreateFar::new(flow.downlink_far(), action)
    }
}

fn tunnel(profile: &SessionProfile, index: u32) -> OuterHeaderCreation {
    let TunnelEnd { address, teid } = profile.gnb(index);
    match address {
        IpAddr::V4(address) => OuterHeaderCreation::gtp_u(Teid(teid.0), Some(address), None),
        IpAddr::V6(address) => OuterHeaderCreation::gtp_u(Teid(teid.0), None, Some(address)),
    }
}

fn urr<'a>(id: UrrId, volume_threshold: u64) -> CreateUrr<'a> {
    CreateUrr {
        volume_threshold: Some(VolumeThreshold {
            total: Some(volume_threshold),
            ..VolumeThreshold::default()
        }),
        ..CreateUrr::new(id, MeasurementMethod::VOLUM, ReportingTriggers::VOLTH)
    }
}
