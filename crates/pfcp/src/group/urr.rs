//! Usage Reporting Rules and usage reports.

use crate::ie::*;
use crate::wire::Edit;

groups! {
    /// Aggregated URRs.
    AggregatedUrrs = 118, "7.5.2.4-2" {
        120 M aggregated_urr_id: AggregatedUrrId,
        119 M multiplier: Multiplier,
    }

    /// Additional Monitoring Time.
    AdditionalMonitoringTime = 147, "7.5.2.4-3" {
        33 M monitoring_time: MonitoringTime,
        34 O subsequent_volume_threshold: SubsequentVolumeThreshold,
        35 O subsequent_time_threshold: SubsequentTimeThreshold,
        121 O subsequent_volume_quota: SubsequentVolumeQuota,
        122 O subsequent_time_quota: SubsequentTimeQuota,
        149 O subsequent_event_threshold: EventThreshold,
        148 O subsequent_event_quota: EventQuota,
    }

    /// Create URR.
    CreateUrr = 6, "7.5.2.4-1" {
        81 M urr_id: UrrId,
        62 M measurement_method: MeasurementMethod,
        37 M reporting_triggers: ReportingTriggers,
        64 C measurement_period: MeasurementPeriod,
        31 C volume_threshold: VolumeThreshold,
        73 C volume_quota: VolumeQuota,
        149 C event_threshold: EventThreshold,
        148 C event_quota: EventQuota,
        32 C time_threshold: TimeThreshold,
        74 C time_quota: TimeQuota,
        71 C quota_holding_time: QuotaHoldingTime,
        72 C dropped_dl_traffic_threshold: DroppedDlTrafficThreshold,
        181 C quota_validity_time: QuotaValidityTime,
        33 O monitoring_time: MonitoringTime,
        34 O subsequent_volume_threshold: SubsequentVolumeThreshold,
        35 O subsequent_time_threshold: SubsequentTimeThreshold,
        121 O subsequent_volume_quota: SubsequentVolumeQuota,
        122 O subsequent_time_quota: SubsequentTimeQuota,
        151 O subsequent_event_threshold: SubsequentEventThreshold,
        150 O subsequent_event_quota: SubsequentEventQuota,
        36 C inactivity_detection_time: InactivityDetectionTime,
        82 Cn linked_urr_id: LinkedUrrId,
        100 C measurement_information: MeasurementInformation,
        115 C time_quota_mechanism: TimeQuotaMechanism,
        118 Cn aggregated_urrs: AggregatedUrrs<'a>,
        108 C far_id_for_quota_action: FarId,
        146 C ethernet_inactivity_timer: EthernetInactivityTimer,
        147 On additional_monitoring_time: AdditionalMonitoringTime<'a>,
        182 O number_of_reports: NumberOfReports,
        24 On exempted_application_id_for_quota_action: ApplicationId<'a>,
        23 On exempted_sdf_filter_for_quota_action: SdfFilter<'a>,
        117 C user_plane_inactivity_timer: UserPlaneInactivityTimer,
    }

    /// Update URR.
    UpdateUrr = 13, "7.5.4.4-1" {
        81 M urr_id: UrrId,
        62 C measurement_method: MeasurementMethod,
        37 C reporting_triggers: ReportingTriggers,
        64 C measurement_period: Edit<MeasurementPeriod>,
        31 C volume_threshold: Edit<VolumeThreshold>,
        73 C volume_quota: Edit<VolumeQuota>,
        32 C time_threshold: Edit<TimeThreshold>,
        74 C time_quota: Edit<TimeQuota>,
        149 C event_threshold: Edit<EventThreshold>,
        148 C event_quota: Edit<EventQuota>,
        71 C quota_holding_time: Edit<QuotaHoldingTime>,
        72 C dropped_dl_traffic_threshold: Edit<DroppedDlTrafficThreshold>,
        181 C quota_validity_time: Edit<QuotaValidityTime>,
        33 C monitoring_time: Edit<MonitoringTime>,
        34 C subsequent_volume_threshold: Edit<SubsequentVolumeThreshold>,
        35 C subsequent_time_threshold: Edit<SubsequentTimeThreshold>,
        121 C subsequent_volume_quota: Edit<SubsequentVolumeQuota>,
        122 C subsequent_time_quota: Edit<SubsequentTimeQuota>,
        151 O subsequent_event_threshold: Edit<SubsequentEventThreshold>,
        150 O subsequent_event_quota: Edit<SubsequentEventQuota>,
        36 C inactivity_detection_time: Edit<InactivityDetectionTime>,
        82 Cn linked_urr_id: LinkedUrrId,
        100 C measurement_information: Edit<MeasurementInformation>,
        115 C time_quota_mechanism: Edit<TimeQuotaMechanism>,
        118 Cn aggregated_urrs: AggregatedUrrs<'a>,
        108 C far_id_for_quota_action: Edit<FarId>,
        146 C ethernet_inactivity_timer: Edit<EthernetInactivityTimer>,
        147 On additional_monitoring_time: AdditionalMonitoringTime<'a>,
        182 O number_of_reports: Edit<NumberOfReports>,
        24 Cn exempted_application_id_for_quota_action: ApplicationId<'a>,
        23 Cn exempted_sdf_filter_for_quota_action: SdfFilter<'a>,
        117 C user_plane_inactivity_timer: Edit<UserPlaneInactivityTimer>,
    }

    /// Remove URR.
    RemoveUrr = 17, "7.5.4.8-1" {
        81 M urr_id: UrrId,
    }

    /// Query URR.
    QueryUrr = 77, "7.5.4.10-1" {
        81 M urr_id: UrrId,
    }

    /// Application Detection Information.
    ApplicationDetectionInformation = 68, "7.5.8.3-2" {
        24 M application_id: ApplicationId<'a>,
        91 C application_instance_id: ApplicationInstanceId<'a>,
        92 C flow_information: FlowInformation<'a>,
        56 O pdr_id: PdrId,
    }

    /// Ethernet Traffic Information.
    EthernetTrafficInformation = 143, "7.5.8.3-3" {
        144 Cn mac_addresses_detected: MacAddressesDetected<'a>,
        145 Cn mac_addresses_removed: MacAddressesRemoved<'a>,
    }

    /// Join IP Multicast Information.
    JoinIpMulticastInformation = 189, "7.5.8.3-4" {
        191 M ip_multicast_address: IpMulticastAddress,
        192 Cn source_ip_address: SourceIpAddress,
    }

    /// Leave IP Multicast Information.
    LeaveIpMulticastInformation = 190, "7.5.8.3-5" {
        191 M ip_multicast_address: IpMulticastAddress,
        192 Cn source_ip_address: SourceIpAddress,
    }

    /// Usage Report (Session Modification Response).
    UsageReportSessionModification = 78, "7.5.5.2-1" {
        81 M urr_id: UrrId,
        104 M ur_seqn: UrSeqn,
        63 M usage_report_trigger: UsageReportTrigger,
        75 C start_time: StartTime,
        76 C end_time: EndTime,
        66 C volume_measurement: VolumeMeasurement,
        67 C duration_measurement: DurationMeasurement,
        69 C time_of_first_packet: TimeOfFirstPacket,
        70 C time_of_last_packet: TimeOfLastPacket,
        90 C usage_information: UsageInformation,
        125 C query_urr_reference: QueryUrrReference,
        143 C ethernet_traffic_information: EthernetTrafficInformation<'a>,
    }

    /// Usage Report (Session Deletion Response).
    UsageReportSessionDeletion = 79, "7.5.7.2-1" {
        81 M urr_id: UrrId,
        104 M ur_seqn: UrSeqn,
        63 M usage_report_trigger: UsageReportTrigger,
        75 C start_time: StartTime,
        76 C end_time: EndTime,
        66 C volume_measurement: VolumeMeasurement,
        67 C duration_measurement: DurationMeasurement,
        69 C time_of_first_packet: TimeOfFirstPacket,
        70 C time_of_last_packet: TimeOfLastPacket,
        90 C usage_information: UsageInformation,
        143 C ethernet_traffic_information: EthernetTrafficInformation<'a>,
    }

    /// Usage Report (Session Report Request).
    UsageReportSessionReport = 80, "7.5.8.3-1" {
        81 M urr_id: UrrId,
        104 M ur_seqn: UrSeqn,
        63 M usage_report_trigger: UsageReportTrigger,
        75 C start_time: StartTime,
        76 C end_time: EndTime,
        66 C volume_measurement: VolumeMeasurement,
        67 C duration_measurement: DurationMeasurement,
        68 C application_detection_information: ApplicationDetectionInformation<'a>,
        93 C ue_ip_address: UeIpAddress,
        22 C network_instance: NetworkInstance<'a>,
        69 C time_of_first_packet: TimeOfFirstPacket,
        70 C time_of_last_packet: TimeOfLastPacket,
        90 C usage_information: UsageInformation,
        125 C query_urr_reference: QueryUrrReference,
        156 Cn event_time_stamp: TimeStamp,
        143 C ethernet_traffic_information: EthernetTrafficInformation<'a>,
        189 Cn join_ip_multicast_information: JoinIpMulticastInformation<'a>,
        190 Cn leave_ip_multicast_information: LeaveIpMulticastInformation<'a>,
        299 On predefined_rules_name: PredefinedRulesName<'a>,
    }
}
