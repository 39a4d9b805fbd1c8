//! Messages about one session.

use crate::group::*;
use crate::ie::*;
use crate::wire::Edit;

messages! {
    /// PFCP Session Establishment Request.
    SessionEstablishmentRequest = 50, "Table 7.5.2.1-1" {
        60 M node_id: NodeId<'a>,
        57 M cp_f_seid: FSeid,
        1 Mn create_pdr: CreatePdr<'a>,
        3 Mn create_far: CreateFar<'a>,
        6 Cn create_urr: CreateUrr<'a>,
        7 Cn create_qer: CreateQer<'a>,
        85 O create_bar: CreateBar<'a>,
        127 Cn create_traffic_endpoint: CreateTrafficEndpoint<'a>,
        113 C pdn_type: PdnType,
        65 Cn fq_csid: FqCsid<'a>,
        117 O user_plane_inactivity_timer: UserPlaneInactivityTimer,
        141 O user_id: UserId<'a>,
        152 O trace_information: TraceInformation<'a>,
        159 O apn_dnn: ApnDnn<'a>,
        165 Cn create_mar: CreateMar<'a>,
        186 C pfcpsereq_flags: PfcpSeReqFlags,
        194 C create_bridge_info_for_tsc: CreateBridgeInfoForTsc<'a>,
        212 On create_srr: CreateSrr<'a>,
        220 C provide_atsss_control_information: ProvideAtsssControlInformation<'a>,
        96 O recovery_time_stamp: RecoveryTimeStamp,
        257 O s_nssai: SNssai,
        261 O provide_rds_configuration_information: ProvideRdsConfigurationInformation<'a>,
        275 O rat_type: RatType,
        276 Cn l2tp_tunnel_information: L2tpTunnelInformation<'a>,
        277 C l2tp_session_information: L2tpSessionInformation<'a>,
        291 O group_id: GroupId<'a>,
        300 C mbs_session_n4mb_control_information: MbsSessionN4mbControlInformation<'a>,
        310 Cn mbs_session_n4_control_information: MbsSessionN4ControlInformation<'a>,
        316 On dscp_to_ppi_control_information: DscpToPpiControlInformation<'a>,
    }

    /// PFCP Session Establishment Response.
    SessionEstablishmentResponse = 51, "Table 7.5.3.1-1" {
        60 M node_id: NodeId<'a>,
        19 M cause: Cause,
        40 C offending_ie: OffendingIe,
        57 C up_f_seid: FSeid,
        8 Cn created_pdr: CreatedPdr<'a>,
        51 O load_control_information: LoadControlInformation<'a>,
        54 O overload_control_information: OverloadControlInformation<'a>,
        65 Cn fq_csid: FqCsid<'a>,
        114 C failed_rule_id: FailedRuleId,
        128 Cn created_traffic_endpoint: CreatedTrafficEndpoint<'a>,
        195 C created_bridge_info_for_tsc: CreatedBridgeInfoForTsc<'a>,
        221 C atsss_control_parameters: AtsssControlParameters<'a>,
        262 O rds_configuration_information: RdsConfigurationInformation,
        272 Cn partial_failure_information: PartialFailureInformation<'a>,
        279 O created_l2tp_session: CreatedL2tpSession<'a>,
        303 C mbs_session_n4mb_information: MbsSessionN4mbInformation<'a>,
        311 Cn mbs_session_n4_information: MbsSessionN4Information<'a>,
        32778 O created_nat_binding: CreatedNatBinding<'a>,
    }

    /// PFCP Session Modification Request.
    SessionModificationRequest = 52, "Table 7.5.4.1-1" {
        57 C cp_f_seid: FSeid,
        15 Cn remove_pdr: RemovePdr<'a>,
        16 Cn remove_far: RemoveFar<'a>,
        17 Cn remove_urr: RemoveUrr<'a>,
        18 Cn remove_qer: RemoveQer<'a>,
        87 C remove_bar: RemoveBar<'a>,
        130 Cn remove_traffic_endpoint: RemoveTrafficEndpoint<'a>,
        1 Cn create_pdr: CreatePdr<'a>,
        3 Cn create_far: CreateFar<'a>,
        6 Cn create_urr: CreateUrr<'a>,
        7 Cn create_qer: CreateQer<'a>,
        85 C create_bar: CreateBar<'a>,
        127 Cn create_traffic_endpoint: CreateTrafficEndpoint<'a>,
        9 Cn update_pdr: UpdatePdr<'a>,
        10 Cn update_far: UpdateFar<'a>,
        13 Cn update_urr: UpdateUrr<'a>,
        14 Cn update_qer: UpdateQer<'a>,
        86 C update_bar: UpdateBar<'a>,
        129 Cn update_traffic_endpoint: UpdateTrafficEndpoint<'a>,
        49 C pfcpsmreq_flags: PfcpSmReqFlags,
        77 Cn query_urr: QueryUrr<'a>,
        65 Cn fq_csid: FqCsid<'a>,
        117 C user_plane_inactivity_timer: UserPlaneInactivityTimer,
        125 O query_urr_reference: QueryUrrReference,
        152 O trace_information: Edit<TraceInformation<'a>>,
        168 Cn remove_mar: RemoveMar<'a>,
        169 Cn update_mar: UpdateMar<'a>,
        165 Cn create_mar: CreateMar<'a>,
        60 C node_id: NodeId<'a>,
        199 Cn tsc_management_information: TscManagementInformation<'a>,
        211 Cn remove_srr: RemoveSrr<'a>,
        212 Cn create_srr: CreateSrr<'a>,
        213 Cn update_srr: UpdateSrr<'a>,
        220 C provide_atsss_control_information: ProvideAtsssControlInformation<'a>,
        254 C ethernet_context_information: EthernetContextInformation<'a>,
        219 O access_availability_information: AccessAvailabilityInformation,
        263 Cn query_packet_rate_status: QueryPacketRateStatus<'a>,
        257 O s_nssai: SNssai,
        291 C group_id: GroupId<'a>,
        310 Cn mbs_session_n4_control_information: MbsSessionN4ControlInformation<'a>,
        316 Cn dscp_to_ppi_control_information: DscpToPpiControlInformation<'a>,
    }

    /// PFCP Session Modification Response.
    SessionModificationResponse = 53, "Table 7.5.5.1-1" {
        19 M cause: Cause,
        40 C offending_ie: OffendingIe,
        8 Cn created_pdr: CreatedPdr<'a>,
        51 O load_control_information: LoadControlInformation<'a>,
        54 O overload_control_information: OverloadControlInformation<'a>,
        78 Cn usage_report: UsageReportSessionModification<'a>,
        114 C failed_rule_id: FailedRuleId,
        126 C additional_usage_reports_information: AdditionalUsageReportsInformation,
        128 Cn created_traffic_endpoint: CreatedTrafficEndpoint<'a>,
        200 Cn tsc_management_information: TscManagementInformationResponse<'a>,
        221 C atsss_control_parameters: AtsssControlParameters<'a>,
        256 Cn updated_pdr: UpdatedPdr<'a>,
        264 Cn packet_rate_status_report: PacketRateStatusReportSessionModification<'a>,
        272 Cn partial_failure_information: PartialFailureInformation<'a>,
        311 Cn mbs_session_n4_information: MbsSessionN4Information<'a>,
        32778 O created_nat_binding: CreatedNatBinding<'a>,
    }

    /// PFCP Session Deletion Request.
    SessionDeletionRequest = 54, "Table 7.5.6-1" {
    }

    /// PFCP Session Deletion Response.
    SessionDeletionResponse = 55, "Table 7.5.7.1-1" {
        19 M cause: Cause,
        40 C offending_ie: OffendingIe,
        51 O load_control_information: LoadControlInformation<'a>,
        54 O overload_control_information: OverloadControlInformation<'a>,
        79 Cn usage_report: UsageReportSessionDeletion<'a>,
        126 C additional_usage_reports_information: AdditionalUsageReportsInformation,
        252 Cn packet_rate_status_report: PacketRateStatusReport<'a>,
        214 Cn session_report: SessionReport<'a>,
        311 Cn mbs_session_n4_information: MbsSessionN4Information<'a>,
        318 C pfcpsdrsp_flags: PfcpSdRspFlags,
    }

    /// PFCP Session Report Request.
    SessionReportRequest = 56, "Table 7.5.8.1-1" {
        39 M report_type: ReportType,
        83 C downlink_data_report: DownlinkDataReport<'a>,
        80 Cn usage_report: UsageReportSessionReport<'a>,
        99 C error_indication_report: ErrorIndicationReport<'a>,
        51 O load_control_information: LoadControlInformation<'a>,
        54 O overload_control_information: OverloadControlInformation<'a>,
        126 C additional_usage_reports_information: AdditionalUsageReportsInformation,
        161 C pfcpsrreq_flags: PfcpSrReqFlags,
        57 C old_cp_f_seid: FSeid,
        252 Cn packet_rate_status_report: PacketRateStatusReport<'a>,
        201 Cn tsc_management_information: TscManagementInformationReport<'a>,
        214 Cn session_report: SessionReport<'a>,
        19 O cause: Cause,
    }

    /// PFCP Session Report Response.
    SessionReportResponse = 57, "Table 7.5.9.1-1" {
        19 M cause: Cause,
        40 C offending_ie: OffendingIe,
        12 C update_bar: UpdateBarSessionReport<'a>,
        50 C pfcpsrrsp_flags: PfcpSrRspFlags,
        57 O cp_f_seid: FSeid,
        21 O n4_u_f_teid: FTeid,
        178 O alternative_smf_ip_address: AlternativeSmfIpAddress,
        65 On fq_csid: FqCsid<'a>,
        291 Cn group_id: GroupId<'a>,
        60 C node_id: NodeId<'a>,
    }
}
