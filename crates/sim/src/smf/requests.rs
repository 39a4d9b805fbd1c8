//! The requests of the simulated SMF, rule by rule as real ones send them.
//!
//! Each session has two PDRs and two FARs (uplink 1, downlink 2), one QER and, if wanted, one URR.

use super::config::{ChooseFlags, Config, DownlinkSetup, NodeName, PduType, SessionProfile};
use pfcp::group::{
    CreateFar, CreatePdr, CreateQer, CreateUrr, ForwardingParameters, Pdi, UpdateFar,
    UpdateForwardingParameters,
};
use pfcp::ie::{
    ApplyAction, Cause, CpFunctionFeatures, DestinationInterface, FSeid, FTeid, FarId, GateStatus, Mbr,
    MeasurementMethod, NetworkInstance, NodeId, Octets16, OuterHeaderCreation, OuterHeaderRemoval, PdnType,
    PdrId, Precedence, QerCorrelationId, QerId, Qfi, RecoveryTimeStamp, ReportingTriggers, SdfFilter,
    SourceInterface, Teid, UeIpAddress, UrrId, VolumeThreshold,
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
const DOWNLINK: PdrId = PdrId(2);
const UPLINK_FAR: FarId = FarId(1);
const DOWNLINK_FAR: FarId = FarId(2);
const QER: QerId = QerId(1);
const URR: UrrId = UrrId(1);

/// Longer than any message that a valid configuration makes.
const LONGEST: usize = 4096;

/// Writes the messages of one SMF.
#[derive(Debug)]
pub(super) struct Requests {
    /// The Node ID's name in DNS labels, empty where it is an address.
    labels: Vec<u8>,
    address: Option<IpAddr>,
    recovery: RecoveryTimeStamp,
}

impl Requests {
    pub(super) fn new(config: &Config) -> Requests {
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

    pub(super) fn associate(&self, sequence: SequenceNumber) -> Vec<u8> {
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

    pub(super) fn establish(&self, config: &Config, index: u32, sequence: SequenceNumber) -> Vec<u8> {
        let profile = &config.profile;
        let f_seid = f_seid(super::transactions::cp_seid(index), config.address);
        let sdf = sdf_filters(profile);
        let (uplink_ue, downlink_ue) = (
            [ue_address(profile, index, false)],
            [ue_address(profile, index, true)],
        );
        let qfis = [Qfi(profile.qfi)];
        let pdrs = [
            uplink_pdr(profile, &uplink_ue, &qfis, sdf.as_slice()),
            downlink_pdr(profile, &downlink_ue, sdf.as_slice()),
        ];
        let fars = [uplink_far(profile), downlink_far(profile, index)];
        let qers = [CreateQer {
            qer_correlation_id: profile.correlation.map(QerCorrelationId),
            mbr: profile.mbr.map(|(uplink, downlink)| Mbr { uplink, downlink }),
            qfi: profile.correlation.is_none().then_some(Qfi(profile.qfi)),
            ..CreateQer::new(QER, GateStatus::OPEN)
        }];
        let urrs: Vec<_> = profile.volume_threshold.map(urr).into_iter().collect();
        let request = SessionEstablishmentRequest {
            create_urr: urrs.as_slice().into(),
            create_qer: (&qers).into(),
            pdn_type: Some(pdn_type(profile.pdu_type)),
            ..SessionEstablishmentRequest::new(self.node_id(), f_seid, (&pdrs).into(), (&fars).into())
        };
        session(&request, Seid(0), sequence)
    }

    /// The downlink FAR gets the gNB's F-TEID.
    pub(super) fn modify(&self, config: &Config, index: u32, up: Seid, sequence: SequenceNumber) -> Vec<u8> {
        let fars = [UpdateFar {
            apply_action: Some(ApplyAction::FORW),
            update_forwarding_parameters: Some(UpdateForwardingParameters {
                destination_interface: Some(DestinationInterface::ACCESS),
                network_instance: Some(Edit::Set(NetworkInstance(
                    config.profile.access_instance.as_bytes(),
                ))),
                outer_header_creation: Some(Edit::Set(tunnel(&config.profile, index))),
                ..UpdateForwardingParameters::new()
            }),
            ..UpdateFar::new(DOWNLINK_FAR)
        }];
        let request = SessionModificationRequest {
            update_far: (&fars).into(),
            ..SessionModificationRequest::new()
        };
        session(&request, up, sequence)
    }

    pub(super) fn delete(&self, up: Seid, sequence: SequenceNumber) -> Vec<u8> {
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

fn sdf_filters(profile: &SessionProfile) -> Vec<SdfFilter<'_>> {
    let text = profile.sdf.as_deref().map(str::as_bytes);
    let filter = text.map(|text| SdfFilter {
        flow_description: Some(Octets16(text)),
        ..SdfFilter::default()
    });
    filter.into_iter().collect()
}

fn uplink_pdr<'a>(
    profile: &'a SessionProfile,
    ue: &'a [UeIpAddress],
    qfis: &'a [Qfi],
    sdf: &'a [SdfFilter<'a>],
) -> CreatePdr<'a> {
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
        sdf_filter: sdf.into(),
        qfi: qfis.into(),
        ..Pdi::new(SourceInterface::ACCESS)
    };
    let removal = if is_ipv4 {
        OuterHeaderRemoval::GTP_U_UDP_IPV4
    } else {
        OuterHeaderRemoval::GTP_U_UDP_IP
    };
    CreatePdr {
        outer_header_removal: Some(removal),
        ..pdr(profile, UPLINK, UPLINK_FAR, pdi)
    }
}

fn downlink_pdr<'a>(
    profile: &'a SessionProfile,
    ue: &'a [UeIpAddress],
    sdf: &'a [SdfFilter<'a>],
) -> CreatePdr<'a> {
    let pdi = Pdi {
        network_instance: Some(NetworkInstance(profile.core_instance.as_bytes())),
        ue_ip_address: ue.into(),
        sdf_filter: sdf.into(),
        ..Pdi::new(SourceInterface::CORE)
    };
    pdr(profile, DOWNLINK, DOWNLINK_FAR, pdi)
}

fn pdr<'a>(profile: &SessionProfile, id: PdrId, far: FarId, pdi: Pdi<'a>) -> CreatePdr<'a> {
    let urrs: &[UrrId] = if profile.volume_threshold.is_some() {
        &[URR]
    } else {
        &[]
    };
    CreatePdr {
        precedence: Some(Precedence(255)),
        far_id: Some(far),
        urr_id: urrs.into(),
        qer_id: (&[QER]).into(),
        ..CreatePdr::new(id, pdi)
    }
}

fn uplink_far(profile: &SessionProfile) -> CreateFar<'_> {
    let parameters = ForwardingParameters {
        network_instance: Some(NetworkInstance(profile.core_instance.as_bytes())),
        ..ForwardingParameters::new(DestinationInterface::CORE)
    };
    CreateFar {
        forwarding_parameters: Some(parameters),
        ..CreateFar::new(UPLINK_FAR, ApplyAction::FORW)
    }
}

fn downlink_far(profile: &SessionProfile, index: u32) -> CreateFar<'_> {
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
        ..CreateFar::new(DOWNLINK_FAR, action)
    }
}

fn tunnel(profile: &SessionProfile, index: u32) -> OuterHeaderCreation {
    let (address, teid) = profile.gnb(index);
    match address {
        IpAddr::V4(address) => OuterHeaderCreation::gtp_u(Teid(teid.0), Some(address), None),
        IpAddr::V6(address) => OuterHeaderCreation::gtp_u(Teid(teid.0), None, Some(address)),
    }
}

fn urr<'a>(volume_threshold: u64) -> CreateUrr<'a> {
    CreateUrr {
        volume_threshold: Some(VolumeThreshold {
            total: Some(volume_threshold),
            ..VolumeThreshold::default()
        }),
        ..CreateUrr::new(URR, MeasurementMethod::VOLUM, ReportingTriggers::VOLTH)
    }
}
