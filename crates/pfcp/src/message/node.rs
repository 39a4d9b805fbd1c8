//! Messages about the node: heartbeat, PFDs, association, node reports, session sets.

use crate::group::*;
use crate::ie::*;

messages! {
    /// PFCP Heartbeat Request.
    HeartbeatRequest = 1, "Table 7.4.2.1-1" {
        96 M recovery_time_stamp: RecoveryTimeStamp,
        192 O source_ip_address: SourceIpAddress,
    }

    /// PFCP Heartbeat Response.
    HeartbeatResponse = 2, "Table 7.4.2.2-1" {
        96 M recovery_time_stamp: RecoveryTimeStamp,
    }

    /// PFCP PFD Management Request.
    PfdManagementRequest = 3, "Table 7.4.3.1-1" {
        58 Cn application_ids_pfds: ApplicationIdsPfds<'a>,
        60 O node_id: NodeId<'a>,
    }

    /// PFCP PFD Management Response.
    PfdManagementResponse = 4, "Table 7.4.3.2-1" {
        19 M cause: Cause,
        40 C offending_ie: OffendingIe,
        60 O node_id: NodeId<'a>,
        397 Cn pfd_partial_failure_information: PfdPartialFailureInformation<'a>,
    }

    /// PFCP Association Setup Request.
    AssociationSetupRequest = 5, "Table 7.4.4.1-1" {
        60 M node_id: NodeId<'a>,
        96 M recovery_time_stamp: RecoveryTimeStamp,
        43 C up_function_features: UpFunctionFeatures,
        89 C cp_function_features: CpFunctionFeatures,
        178 On alternative_smf_ip_address: AlternativeSmfIpAddress,
        180 C smf_set_id: SmfSetId<'a>,
        183 O pfcp_session_retention_information: PfcpSessionRetentionInformation<'a>,
        233 On ue_ip_address_pool_information: UeIpAddressPoolInformation<'a>,
        238 Cn gtp_u_path_qos_control_information: GtpUPathQosControlInformation<'a>,
        203 On clock_drift_control_information: ClockDriftControlInformation<'a>,
        253 O upf_instance_id: NfInstanceId,
        259 O pfcpasreq_flags: PfcpAsReqFlags,
        32768 O bbf_up_function_features: BbfUpFunctionFeatures,
    }

    /// PFCP Association Setup Response.
    AssociationSetupResponse = 6, "Table 7.4.4.2-1" {
        60 M node_id: NodeId<'a>,
        19 M cause: Cause,
        96 A recovery_time_stamp: RecoveryTimeStamp,
        43 C up_function_features: UpFunctionFeatures,
        89 C cp_function_features: CpFunctionFeatures,
        178 On alternative_smf_ip_address: AlternativeSmfIpAddress,
        180 C smf_set_id: SmfSetId<'a>,
        184 O pfcpasrsp_flags: PfcpAsRspFlags,
        203 Cn clock_drift_control_information: ClockDriftControlInformation<'a>,
        233 On ue_ip_address_pool_information: UeIpAddressPoolInformation<'a>,
        238 Cn gtp_u_path_qos_control_information: GtpUPathQosControlInformation<'a>,
        253 O upf_instance_id: NfInstanceId,
        32768 O bbf_up_function_features: BbfUpFunctionFeatures,
    }

    /// PFCP Association Update Request.
    AssociationUpdateRequest = 7, "Table 7.4.4.3-1" {
        60 M node_id: NodeId<'a>,
        43 O up_function_features: UpFunctionFeatures,
        89 O cp_function_features: CpFunctionFeatures,
        111 C pfcp_association_release_request: PfcpAssociationReleaseRequest,
        112 C graceful_release_period: GracefulReleasePeriod,
        162 O pfcpaureq_flags: PfcpAuReqFlags,
        178 On alternative_smf_ip_address: AlternativeSmfIpAddress,
        180 O smf_set_id: SmfSetId<'a>,
        203 Cn clock_drift_control_information: ClockDriftControlInformation<'a>,
        233 On ue_ip_address_pool_information: UeIpAddressPoolInformation<'a>,
        238 Cn gtp_u_path_qos_control_information: GtpUPathQosControlInformation<'a>,
        267 On ue_ip_address_usage_information: UeIpAddressUsageInformation<'a>,
        32768 O bbf_up_function_features: BbfUpFunctionFeatures,
    }

    /// PFCP Association Update Response.
    AssociationUpdateResponse = 8, "Table 7.4.4.4-1" {
        60 M node_id: NodeId<'a>,
        19 M cause: Cause,
        43 O up_function_features: UpFunctionFeatures,
        89 O cp_function_features: CpFunctionFeatures,
        267 On ue_ip_address_usage_information: UeIpAddressUsageInformation<'a>,
        32768 O bbf_up_function_features: BbfUpFunctionFeatures,
    }

    /// PFCP Association Release Request.
    AssociationReleaseRequest = 9, "Table 7.4.4.5-1" {
        60 M node_id: NodeId<'a>,
    }

    /// PFCP Association Release Response.
    AssociationReleaseResponse = 10, "Table 7.4.4.6-1" {
        60 M node_id: NodeId<'a>,
        19 M cause: Cause,
    }

    /// PFCP Version Not Supported Response.
    VersionNotSupportedResponse = 11, "§7.4.4.7" {
    }

    /// PFCP Node Report Request.
    NodeReportRequest = 12, "Table 7.4.5.1.1-1" {
        60 M node_id: NodeId<'a>,
        101 M node_report_type: NodeReportType,
        320 C vendor_specific_node_report_type: VendorSpecificNodeReportType<'a>,
        102 C user_plane_path_failure_report: UserPlanePathFailureReport<'a>,
        187 C user_plane_path_recovery_report: UserPlanePathRecoveryReport<'a>,
        205 C clock_drift_report: ClockDriftReport<'a>,
        239 Cn gtp_u_path_qos_report: GtpUPathQosReport<'a>,
        315 C peer_up_restart_report: PeerUpRestartReport<'a>,
    }

    /// PFCP Node Report Response.
    NodeReportResponse = 13, "Table 7.4.5.2.1-1" {
        60 M node_id: NodeId<'a>,
        19 M cause: Cause,
        40 C offending_ie: OffendingIe,
    }

    /// PFCP Session Set Deletion Request.
    SessionSetDeletionRequest = 14, "Table 7.4.6.1-1" {
        60 M node_id: NodeId<'a>,
        65 Cn fq_csid: FqCsid<'a>,
    }

    /// PFCP Session Set Deletion Response.
    SessionSetDeletionResponse = 15, "Table 7.4.6.2-1" {
        60 M node_id: NodeId<'a>,
        19 M cause: Cause,
        40 C offending_ie: OffendingIe,
    }

    /// PFCP Session Set Modification Request.
    SessionSetModificationRequest = 16, "Table 7.4.7.1-1" {
        60 M node_id: NodeId<'a>,
        290 Mn pfcp_session_change_info: PfcpSessionChangeInfo<'a>,
    }

    /// PFCP Session Set Modification Response.
    SessionSetModificationResponse = 17, "§7.4.7.2" {
        60 M node_id: NodeId<'a>,
        19 M cause: Cause,
        40 C offending_ie: OffendingIe,
    }
}
