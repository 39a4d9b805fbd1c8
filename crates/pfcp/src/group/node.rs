//! What associations and node reports are made of.

use crate::ie::*;

groups! {
    /// Application ID's PFDs.
    ApplicationIdsPfds = 58, "7.4.3.1-2" {
        24 M application_id: ApplicationId<'a>,
        59 Cn pfd_context: PfdContext<'a>,
    }

    /// PFD context.
    PfdContext = 59, "7.4.3.1-3" {
        61 Mn pfd_contents: PfdContents<'a>,
    }

    /// PFD Partial Failure Information, of R19.
    PfdPartialFailureInformation = 397, "7.4.3.2-2" {
        24 M application_id: ApplicationId<'a>,
        19 M failure_cause: Cause,
    }

    /// PFCP Session Retention Information.
    PfcpSessionRetentionInformation = 183, "7.4.4.1-2" {
        185 On cp_pfcp_entity_ip_address: CpPfcpEntityIpAddress,
    }

    /// UE IP address Pool Information.
    UeIpAddressPoolInformation = 233, "7.4.4.1-3" {
        177 Mn ue_ip_address_pool_identity: UeIpAddressPoolIdentity<'a>,
        22 O network_instance: NetworkInstance<'a>,
        257 On s_nssai: SNssai,
        258 O ip_version: IpVersion,
    }

    /// GTP-U Path QoS Control Information.
    GtpUPathQosControlInformation = 238, "7.4.4.1.3-1" {
        103 Cn remote_gtp_u_peer: RemoteGtpUPeer<'a>,
        241 C gtp_u_path_interface_type: GtpUPathInterfaceType,
        237 M qos_report_trigger: QosReportTrigger,
        30 Cn dscp: TransportLevelMarking,
        64 C measurement_period: MeasurementPeriod,
        234 C average_packet_delay_threshold: AveragePacketDelay,
        235 C minimum_packet_delay_threshold: MinimumPacketDelay,
        236 C maximum_packet_delay_threshold: MaximumPacketDelay,
        55 C minimum_waiting_time: Timer,
    }

    /// UE IP Address Usage Information.
    UeIpAddressUsageInformation = 267, "7.4.4.3.1-1" {
        52 M ue_ip_address_usage_sequence_number: SequenceNumber,
        53 M ue_ip_address_usage_metric: Metric,
        269 M validity_timer: ValidityTimer,
        268 M number_of_ue_ip_addresses: NumberOfUeIpAddresses,
        22 M network_instance: NetworkInstance<'a>,
        177 O ue_ip_address_pool_id: UeIpAddressPoolIdentity<'a>,
        257 O s_nssai: SNssai,
    }

    /// User Plane Path Failure Report.
    UserPlanePathFailureReport = 102, "7.4.5.1.2-1" {
        103 Mn remote_gtp_u_peer: RemoteGtpUPeer<'a>,
    }

    /// User Plane Path Recovery Report.
    UserPlanePathRecoveryReport = 187, "7.4.5.1.3-1" {
        103 Mn remote_gtp_u_peer: RemoteGtpUPeer<'a>,
    }

    /// GTP-U Path QoS Report.
    GtpUPathQosReport = 239, "7.4.5.1.5-1" {
        103 M remote_gtp_u_peer: RemoteGtpUPeer<'a>,
        241 C gtp_u_path_interface_type: GtpUPathInterfaceType,
        237 M qos_report_trigger: QosReportTrigger,
        156 M time_stamp: TimeStamp,
        75 C start_time: StartTime,
        240 Mn qos_information: QosInformation<'a>,
    }

    /// QoS Information.
    QosInformation = 240, "7.4.5.1.6-1" {
        234 M average_packet_delay: AveragePacketDelay,
        235 C minimum_packet_delay: MinimumPacketDelay,
        236 C maximum_packet_delay: MaximumPacketDelay,
        30 C dscp: TransportLevelMarking,
    }

    /// Peer UP Restart Report.
    PeerUpRestartReport = 315, "7.4.5.1.7-1" {
        103 Mn remote_gtp_u_peer: RemoteGtpUPeer<'a>,
    }

    /// PFCP Session Change Info.
    PfcpSessionChangeInfo = 290, "7.4.7.1-2" {
        65 Cn fq_csid: FqCsid<'a>,
        291 Cn group_id: GroupId<'a>,
        292 Cn cp_ip_address: CpIpAddress,
        178 M alternative_smf_ip_address: AlternativeSmfIpAddress,
    }

    /// Load Control Information.
    LoadControlInformation = 51, "7.5.3.3-1" {
        52 M load_control_sequence_number: SequenceNumber,
        53 M load_metric: Metric,
    }

    /// Overload Control Information.
    OverloadControlInformation = 54, "7.5.3.4-1" {
        52 M overload_control_sequence_number: SequenceNumber,
        53 M overload_reduction_metric: Metric,
        55 M period_of_validity: Timer,
        110 C overload_control_information_flags: OciFlags,
    }
}
