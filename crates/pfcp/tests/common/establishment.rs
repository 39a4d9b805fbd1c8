//! The Session Establishment Request that the codec is measured on: 4 PDR, 4 FAR, 2 QER, 2 URR, about 1,000 octets.

use std::net::Ipv4Addr;

use pfcp::group::{CreateFar, CreatePdr, CreateQer, CreateUrr, ForwardingParameters, Pdi};
use pfcp::ie::*;
use pfcp::message::SessionEstablishmentRequest;
use pfcp::{Repeated, Seid};

const INTERNET: NetworkInstance<'static> = NetworkInstance(b"\x08internet");

/// The rules that the message borrows.
pub struct Rules<'a> {
    pdrs: [CreatePdr<'a>; 4],
    fars: [CreateFar<'a>; 4],
    qers: [CreateQer<'a>; 2],
    urrs: [CreateUrr<'a>; 2],
}

impl<'a> Rules<'a> {
    /// Rules like those of a session with a default flow and one for voice.
    pub fn new(filters: &'a [SdfFilter<'a>; 1], ue: &'a [UeIpAddress; 1], qfis: &'a [Qfi; 1]) -> Self {
        let qers = Repeated::new(&[QerId(1), QerId(2)]);
        let urrs = Repeated::new(&[UrrId(1), UrrId(2)]);
        let pdr = |id: u16| {
            let uplink = id % 2 == 1;
            let f_teid = FTeid::Endpoint {
                teid: Teid(u32::from(id)),
                ipv4: Some(Ipv4Addr::new(192, 0, 2, 1)),
                ipv6: None,
            };
            let pdi = Pdi {
                local_f_teid: uplink.then_some(f_teid),
                network_instance: Some(INTERNET),
                ue_ip_address: ue.into(),
                sdf_filter: filters.into(),
                qfi: if uplink { qfis.into() } else { Repeated::NONE },
                ..Pdi::new(if uplink {
                    SourceInterface::ACCESS
                } else {
                    SourceInterface::CORE
                })
            };
            CreatePdr {
                precedence: Some(Precedence(u32::from(id) * 100)),
                outer_header_removal: uplink.then_some(OuterHeaderRemoval::GTP_U_UDP_IPV4),
                far_id: Some(FarId(u32::from(id))),
                urr_id: urrs,
                qer_id: qers,
                ..CreatePdr::new(PdrId(id), pdi)
            }
        };
        Self {
            pdrs: [pdr(1), pdr(2), pdr(3), pdr(4)],
            fars: [far(1), far(2), far(3), far(4)],
            qers: [qer(1), qer(2)],
            urrs: [urr(1), urr(2)],
        }
    }

    /// The message about them.
    pub fn request(&'a self) -> SessionEstablishmentRequest<'a> {
        let f_seid = FSeid {
            seid: Seid(0x1122_3344_5566_7788),
            ipv4: Some(Ipv4Addr::new(192, 0, 2, 9)),
            ipv6: None,
        };
        SessionEstablishmentRequest {
            create_urr: (&self.urrs).into(),
            create_qer: (&self.qers).into(),
            pdn_type: Some(PdnType::IPV4),
            apn_dnn: Some(ApnDnn(b"\x08internet")),
            ..SessionEstablishmentRequest::new(
                NodeId::Ipv4(Ipv4Addr::new(192, 0, 2, 9)),
                f_seid,
                (&self.pdrs).into(),
                (&self.fars).into(),
            )
        }
    }
}

/// What the rules' filters, addresses and flows borrow.
pub const FILTERS: [SdfFilter<'static>; 1] = [SdfFilter {
    flow_description: Some(Octets16(b"permit out ip from 198.51.100.0/24 to assigned")),
    tos_traffic_class: None,
    security_parameter_index: None,
    flow_label: None,
    sdf_filter_id: None,
}];

/// See [`FILTERS`].
pub const UE: [UeIpAddress; 1] = [UeIpAddress {
    is_destination: false,
    choose_v4: false,
    choose_v6: false,
    ipv4: Some(Ipv4Addr::new(10, 45, 0, 2)),
    ipv6: None,
    ipv6_prefix_delegation_bits: None,
    ipv6_prefix_length: None,
}];

/// See [`FILTERS`].
pub const QFIS: [Qfi; 1] = [Qfi(9)];

fn far<'a>(id: u32) -> CreateFar<'a> {
    let downlink = id.is_multiple_of(2);
    let tunnel = OuterHeaderCreation::gtp_u(Teid(0x0100 + id), Some(Ipv4Addr::new(192, 0, 2, 77)), None);
    let parameters = ForwardingParameters {
        network_instance: Some(INTERNET),
        outer_header_creation: downlink.then_some(tunnel),
        ..ForwardingParameters::new(if downlink {
            DestinationInterface::ACCESS
        } else {
            DestinationInterface::CORE
        })
    };
    CreateFar {
        forwarding_parameters: Some(parameters),
        ..CreateFar::new(FarId(id), ApplyAction::FORW)
    }
}

fn qer<'a>(id: u32) -> CreateQer<'a> {
    CreateQer {
        mbr: Some(Mbr {
            uplink: 100_000,
            downlink: 500_000,
        }),
        gbr: Some(Gbr {
            uplink: 1_000,
            downlink: 1_000,
        }),
        qfi: Some(Qfi(9)),
        ..CreateQer::new(QerId(id), GateStatus::OPEN)
    }
}

fn urr<'a>(id: u32) -> CreateUrr<'a> {
    let triggers = ReportingTriggers::VOLTH | ReportingTriggers::TIMTH | ReportingTriggers::VOLQU;
    let threshold = VolumeThreshold {
        total: Some(100 << 20),
        uplink: Some(50 << 20),
        downlink: Some(50 << 20),
    };
    CreateUrr {
        volume_threshold: Some(threshold),
        volume_quota: Some(VolumeQuota {
            total: Some(1 << 30),
            uplink: None,
            downlink: None,
        }),
        time_threshold: Some(TimeThreshold(3600)),
        ..CreateUrr::new(
            UrrId(id),
            MeasurementMethod::VOLUM | MeasurementMethod::DURAT,
            triggers.on_octets(3),
        )
    }
}
